"""
Probabilities with error bars, and when to abstain
==================================================

A classifier that says 0.7 may know that seven in ten such cases are positive, or may not know much.
:class:`~skribbon.RibbonClassifier` gives every probability an interval, which tells the two apart. Does it also say
which cases to leave to somebody else?
"""

# %%
# Tumours, malignant or benign, from ten measurements, trained on a hundred patients only.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier
from skribbon.exceptions import DependentRowsWarning
from skribbon.plotting import ProbabilityIntervalDisplay

data = load_breast_cancer(as_frame=True)
X, y = data.data.filter(like="mean "), data.target.map(dict(enumerate(data.target_names)))
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=100, stratify=y, random_state=0)
ribbon = RibbonClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X_train, y_train)

# %%
# ``predict_proba`` is calibrated on left-out rows; ``predict_proba_interval`` shows how uncertain the fit itself is.
# Nearly the same probability can come with much evidence or with little.
proba, intervals = ribbon.predict_proba(X_test)[:, 1], ribbon.predict_proba_interval(X_test)[:, 1]
alone = log_loss(y_test, ribbon.estimator_.predict_proba(X_test))
print(f"log loss {log_loss(y_test, ribbon.predict_proba(X_test)):.4f}, of the base model alone {alone:.4f}")
alike = np.flatnonzero(np.abs(proba - 0.8) < 0.03)
order = alike[np.argsort(np.ptp(intervals[alike], axis=1))]
for row in order[[0, -1]]:
    print(f"patient {X_test.index[row]}: P(malignant) {proba[row]:.2f}, 90% interval {intervals[row].round(2)}")
ProbabilityIntervalDisplay.from_estimator(ribbon, X_test, y_test, pos_label="malignant")


# %%
# When to abstain? Sort the patients by doubt, keep those with the least, and look at the accuracy among them: over 30
# splits, since one split turns on a handful of patients. The doubt is how near the base model's own probability is to
# 1/2, or how near the nearer end of the interval is, or how wide the interval is.
def doubts(ribbon, X):
    plain, (lower, upper) = ribbon.estimator_.predict_proba(X)[:, 1], ribbon.predict_proba_interval(X)[:, 1].T
    return {
        "plain probability": -np.abs(plain - 0.5),
        "nearer end of interval": -np.where(plain > 0.5, lower - 0.5, 0.5 - upper),
        "width of interval": upper - lower,
    }


warnings.simplefilter("ignore", DependentRowsWarning)  # a false alarm in about 3 of 1,000 shuffled tables


def splits(n_train):
    """For each of 30 splits the doubts in the test rows, and whether they were classified correctly."""
    for train, test in StratifiedShuffleSplit(30, train_size=n_train, test_size=160, random_state=0).split(X, y):
        ribbon.fit(X.iloc[train], y.iloc[train])
        yield doubts(ribbon, X.iloc[test]), (ribbon.predict(X.iloc[test]) == y.iloc[test]).to_numpy()


curves = {}
for by_name, correct in splits(100):
    for name, doubt in by_name.items():
        curves.setdefault(name, []).append(np.cumsum(correct[np.argsort(doubt)]) / np.arange(1, 161))
print("accuracy if we keep        100%   95%   90%   80%   70%")
for name, accuracy in curves.items():
    at = np.mean(accuracy, axis=0)[[159, 151, 143, 127, 111]]  # of 160 rows
    print(f"by {name:22}", *(f"{value:6.3f}" for value in at))

# %%
# For accuracy alone the interval does *not* help: the plain probability sorts at least as well, and the width, which
# does not know how far from 1/2 a patient is, sorts worse. What the interval adds is the place to stop, with no
# threshold to tune: decide where it excludes 1/2. The less is known, the more patients this hands over.
print("training patients   decided   accuracy   accuracy elsewhere")
rule = {}
for n_train in (50, 100, 200, 400):
    clear = [(by_name["nearer end of interval"] < 0, correct) for by_name, correct in splits(n_train)]
    decided, correct = np.concatenate(clear, axis=1)
    rule[n_train] = decided.mean(), correct[decided].mean()
    print(f"{n_train:17} {decided.mean():9.3f} {correct[decided].mean():10.3f} {correct[~decided].mean():20.3f}")

# %%
# The curves of the first table, and the rule's place on them with 100 training patients.
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(6.4, 3.6))
for (name, accuracy), style in zip(curves.items(), ("C0-", "C1--", "C2-."), strict=True):
    ax.plot(1 - np.arange(1, 161) / 160, np.mean(accuracy, axis=0), style, lw=2, label=f"by {name}")
decided, accuracy = rule[100]
ax.plot(1 - decided, accuracy, "kD")
ax.annotate("interval excludes 1/2", (1 - decided, accuracy), (0.16, 0.958), arrowprops={"arrowstyle": "-", "lw": 0.8})
ax.set(xlabel="share of patients handed over", ylabel="accuracy among the others", xlim=(-0.01, 0.5))
ax.set_title("Handing over a tenth of the patients halves the errors (mean of 30 splits)")
ax.xaxis.set_major_formatter("{x:.0%}")
ax.legend(title="patients handed over", alignment="left")

# %%
# Next: costs instead of accuracy, :doc:`/case_studies/credit`; rows unlike the training data,
# :ref:`sphx_glr_auto_examples_plot_out_of_distribution.py`.
