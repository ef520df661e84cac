"""
Sets of labels
==============

Which labels can be ruled out? A prediction set contains the true label with the
probability that you ask for. It has one label if the picture is clear, and several if
it is not.
"""

# %%
# Handwritten digits: 300 pictures to fit, 400 to calibrate the sets, the others to
# check them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier
from skribbon.metrics import mean_set_size, set_coverage_score

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=700, random_state=0, stratify=y)
X, X_cal, y, y_cal = train_test_split(X, y, train_size=300, random_state=0, stratify=y)
classifier = LogisticRegression(C=0.01, max_iter=1000)
model = make_pipeline(StandardScaler(with_std=False), classifier)
ribbon = RibbonClassifier(model).fit(X, y).conformalize(X_cal, y_cal)
print(f"accuracy {ribbon.score(X_new, y_new):.3f}")

# %%
# A higher level gives larger sets. The sets reach each level on average over pictures,
# even if the classifier's probabilities are wrong.
for level in (0.9, 0.95, 0.99):
    sets = ribbon.predict_set(X_new, level)
    covered = set_coverage_score(y_new, sets, labels=ribbon.classes_)
    size = mean_set_size(y_new, sets)
    print(f"{level:.0%}: {covered:.3f} contain the true label, {size:.2f} labels each")

# %%
# How large are the 99% sets?
sets = ribbon.predict_set(X_new, 0.99)
share = np.bincount(sets.sum(axis=1), minlength=11)[1:] / len(sets)
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(5.6, 3.2))
bars = ax.bar(np.arange(1, 11), 100 * share)
ax.bar_label(bars, fmt="%.0f%%")
ax.set(xlabel="labels in the 99% set", ylabel="pictures (%)", xticks=np.arange(1, 11))
ax.set_title(f"{share[0]:.0%} of the pictures need only one label")

# %%
# Some pictures with more than one label in their set. The true label is bold.
figure, axes = plt.subplots(2, 4, figsize=(5.6, 3.2))
for ax, row in zip(axes.flat, np.flatnonzero(sets.sum(axis=1) > 1), strict=False):
    ax.imshow(X_new[row].reshape(8, 8), cmap="gray_r")
    ax.set_axis_off()
    bold = {y_new[row]: rf"$\bf{{{y_new[row]}}}$"}
    labels = [bold.get(k, str(k)) for k in ribbon.classes_[sets[row]]]
    ax.set_title(" ".join(labels), loc="center")

# %%
# Probabilities have intervals too. Take the picture whose largest probability is the
# least certain.
proba, interval = ribbon.predict_proba(X_new), ribbon.predict_proba_interval(X_new)
row = np.ptp(interval, axis=2).max(axis=1).argmax()
figure, (left, right) = plt.subplots(1, 2, figsize=(6, 2.8), width_ratios=[1, 2.6])
left.imshow(X_new[row].reshape(8, 8), cmap="gray_r")
left.set_axis_off()
right.bar(range(10), proba[row], color=np.where(sets[row], "C0", "0.8"))
right.vlines(range(10), *interval[row].T, color="0.3", lw=1.5)
right.set(xlabel="digit (blue: in the 99% set)", xticks=range(10))
right.set(ylabel="probability with 90% interval", ylim=(0, 1))
right.set_title("Wide intervals: this picture is unclear")
plt.show()

# %%
# Next: guaranteed intervals of a regression,
# :ref:`sphx_glr_auto_examples_plot_guarantee.py`.
