"""
All the labels that it may be
=============================

*Which labels can be ruled out?* A classifier names one label, and is sometimes wrong. A prediction set names as many as
it takes to contain the true one as often as promised: one if the picture is clear, several if it is not.
"""

# %%
# Handwritten digits, and few of them: 300 to learn from, 400 to calibrate on, which the promise rests on.
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
model = make_pipeline(StandardScaler(with_std=False), LogisticRegression(C=0.01, max_iter=1000))
ribbon = RibbonClassifier(model).fit(X, y).conformalize(X_cal, y_cal)
print(f"accuracy {ribbon.score(X_new, y_new):.3f}")

# %%
# The higher the promise, the larger the sets; and the promise is kept, whatever the classifier is worth.
for level in (0.9, 0.95, 0.99):
    sets = ribbon.predict_set(X_new, level)
    covered, size = set_coverage_score(y_new, sets, labels=ribbon.classes_), mean_set_size(y_new, sets)
    print(f"{level:.0%} promised: {covered:.3f} of the true labels held, {size:.2f} labels on average")

# %%
# Left: how many labels the sets of 99% hold. Right: some pictures that need more than one, with their sets; the true
# label is in bold.
sets = ribbon.predict_set(X_new, 0.99)
counts = np.bincount(sets.sum(axis=1))
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplot_mosaic(
    [["size", "a", "b", "c", "d"], ["size", "e", "f", "g", "h"]],
    figsize=(9.5, 3.8),
    width_ratios=[2.2, 1, 1, 1, 1],
)
axes["size"].bar(np.arange(len(counts)), counts / len(sets), color="C0", alpha=0.8)
axes["size"].set_title(f"{counts[1] / len(sets):.0%} of the pictures need one label")
axes["size"].set(xlabel="labels in the set", ylabel="share of pictures", xticks=np.arange(len(counts)))
unsure = np.flatnonzero(sets.sum(axis=1) > 1)[:8]
for name, row in zip("abcdefgh", unsure, strict=True):
    axes[name].imshow(X_new[row].reshape(8, 8), cmap="gray_r")
    axes[name].set_axis_off()
    labels = [rf"$\bf{{{k}}}$" if k == y_new[row] else str(k) for k in ribbon.classes_[sets[row]]]
    axes[name].set_title(" ".join(labels), fontsize=11)

# %%
# Next: the same for numbers, :ref:`sphx_glr_auto_examples_plot_guarantee.py`.
plt.show()
