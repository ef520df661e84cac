"""
Probabilities with error bars, and when to abstain
==================================================

A classifier says 0.7. Do seven in ten such cases have the disease, or does the model
know little about this case? The interval of a probability from
:class:`~skribbon.RibbonClassifier` distinguishes the two. It also shows which cases to
hand over to an expert.
"""

# %%
# Tumours are malignant or benign. The model has ten measurements of each, and only a
# hundred patients to learn from.
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
X = data.data.filter(like="mean ")
y = data.target.map(dict(enumerate(data.target_names)))
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=100, stratify=y, random_state=0
)
base = make_pipeline(StandardScaler(), LogisticRegression())
ribbon = RibbonClassifier(base).fit(X_train, y_train)

# %%
# ``predict_proba`` is calibrated on held-out rows. ``predict_proba_interval`` shows how
# uncertain the fit is. Two patients can have nearly the same probability, one with much
# evidence behind it and one with little.
proba = ribbon.predict_proba(X_test)[:, 1]
intervals = ribbon.predict_proba_interval(X_test)[:, 1]
plain_loss = log_loss(y_test, ribbon.estimator_.predict_proba(X_test))
calibrated_loss = log_loss(y_test, ribbon.predict_proba(X_test))
print(f"log loss: base model {plain_loss:.4f}, ribbon {calibrated_loss:.4f}")
alike = np.flatnonzero(np.abs(proba - 0.8) < 0.03)
order = alike[np.argsort(np.ptp(intervals[alike], axis=1))]
for row in order[[0, -1]]:
    patient, bounds = X_test.index[row], intervals[row].round(2)
    print(f"patient {patient}: P(malignant) {proba[row]:.2f}, 90% interval {bounds}")
ProbabilityIntervalDisplay.from_estimator(ribbon, X_test, y_test, pos_label="malignant")


# %%
# When to abstain? Sort the patients by doubt, hand over those with the most, and
# compute the accuracy of the others. A single split depends on a handful of patients,
# so average over 30 splits. There are three measures of doubt: how near the plain
# probability is to 1/2, how near the interval is to 1/2, and how wide the interval is.
def doubts(ribbon, X):
    plain = ribbon.estimator_.predict_proba(X)[:, 1]
    lower, upper = ribbon.predict_proba_interval(X)[:, 1].T
    return {
        "plain probability": -np.abs(plain - 0.5),
        "nearer bound": -np.where(plain > 0.5, lower - 0.5, 0.5 - upper),
        "width of interval": upper - lower,
    }


# a false alarm in about 3 of 1,000 tables of independent rows
warnings.simplefilter("ignore", DependentRowsWarning)


def splits(n_train):
    """Doubts of the test rows of 30 splits, and whether predictions are correct."""
    cut = StratifiedShuffleSplit(30, train_size=n_train, test_size=160, random_state=0)
    for train, test in cut.split(X, y):
        ribbon.fit(X.iloc[train], y.iloc[train])
        correct = ribbon.predict(X.iloc[test]) == y.iloc[test]
        yield doubts(ribbon, X.iloc[test]), correct.to_numpy()


curves = {}
for by_name, correct in splits(100):
    for name, doubt in by_name.items():
        accuracy = np.cumsum(correct[np.argsort(doubt)]) / np.arange(1, 161)
        curves.setdefault(name, []).append(accuracy)
print("accuracy if we keep   100%   95%   90%   80%   70%")
for name, accuracy in curves.items():
    at = np.mean(accuracy, axis=0)[[159, 151, 143, 127, 111]]  # of 160 rows
    print(f"by {name:17}", *(f"{value:6.3f}" for value in at))

# %%
# For accuracy alone the interval does *not* help. The plain probability sorts at least
# as well. The width sorts worse, because it ignores how far a patient is from 1/2. What
# the interval adds is a place to stop that needs no threshold: decide if it excludes
# 1/2. The fewer training patients there are, the more patients this rule hands over.
print("training patients   decided   accuracy   accuracy elsewhere")
rule = {}
for n_train in (50, 100, 200, 400):
    clear = [(by["nearer bound"] < 0, correct) for by, correct in splits(n_train)]
    decided, correct = np.concatenate(clear, axis=1)
    rule[n_train] = share, accuracy = decided.mean(), correct[decided].mean()
    elsewhere = correct[~decided].mean()
    print(f"{n_train:17} {share:9.3f} {accuracy:10.3f} {elsewhere:20.3f}")

# %%
# The curves of the first table, and the rule with 100 training patients.
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(6.4, 3.6))
handed_over, styles = 1 - np.arange(1, 161) / 160, ("C0-", "C1--", "C2-.")
for (name, accuracy), style in zip(curves.items(), styles, strict=True):
    ax.plot(handed_over, np.mean(accuracy, axis=0), style, lw=2, label=f"by {name}")
decided, accuracy = rule[100]
ax.plot(1 - decided, accuracy, "kD")
line = {"arrowstyle": "-", "lw": 0.8}
place = (1 - decided, accuracy)
ax.annotate("interval excludes 1/2", place, (0.16, 0.958), arrowprops=line)
ax.set(xlabel="share of patients handed over", ylabel="accuracy among the others")
ax.set_xlim(-0.01, 0.5)
ax.set_title("Handing over a tenth of the patients halves the errors")
ax.xaxis.set_major_formatter("{x:.0%}")
ax.legend(title="patients handed over", alignment="left")

# %%
# Next: costs instead of accuracy, :doc:`/case_studies/credit`; rows unlike the training
# data, :ref:`sphx_glr_auto_examples_plot_out_of_distribution.py`.
