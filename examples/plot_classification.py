"""
Probabilities with error bars, and when to abstain
==================================================

A classifier that says 0.8 may know it or may be guessing. :class:`~skribbon.RibbonClassifier` gives every probability
an interval, and where that is wide, somebody else should decide.
"""

# %%
# Tumours, malignant or benign, from ten measurements, trained on a hundred patients only.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier
from skribbon.plotting import ProbabilityIntervalDisplay

data = load_breast_cancer(as_frame=True)
X, y = data.data.filter(like="mean "), data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=100, stratify=y, random_state=0)
base = make_pipeline(StandardScaler(), LogisticRegression())
ribbon = RibbonClassifier(base).fit(X_train, y_train)

# %%
# ``predict_proba`` is the average over all the classifiers that the data allow, so it is less extreme than the base
# model where these disagree; ``predict_proba_interval`` says how much they do.
proba, intervals = ribbon.predict_proba(X_test), ribbon.predict_proba_interval(X_test, confidence_level=0.9)
print(f"log loss {log_loss(y_test, proba):.4f}, of the base model ", end="")
print(f"{log_loss(y_test, ribbon.estimator_.predict_proba(X_test)):.4f}")
width = np.ptp(intervals[:, 1], axis=1)
doubtful = (intervals[:, 1, 0] < 0.5) & (intervals[:, 1, 1] > 0.5)
correct = ribbon.predict(X_test) == y_test
print(f"{doubtful.sum()} of {len(y_test)} intervals contain 1/2: ", end="")
print(f"accuracy {correct[doubtful].mean():.3f} there, {correct[~doubtful].mean():.3f} elsewhere")


# %%
# Abstaining: the patients with the widest intervals are handed over first, and the accuracy of what is left is
# recorded. The yardsticks are handing over at random, and by the base model's own probability, nearest to 1/2 first.
# Both orders help a lot, the width a little more, though that is the work of a handful of patients.
def kept_accuracy(doubt):
    """Accuracy among the 1, 2, ..., n rows with the least doubt."""
    return np.cumsum(correct[np.argsort(doubt, kind="stable")]) / np.arange(1, len(correct) + 1)


handed_over = 1 - np.arange(1, len(correct) + 1) / len(correct)
curves = {"interval width": width, "probability": -np.abs(ribbon.estimator_.predict_proba(X_test)[:, 1] - 0.5)}
for name, doubt in curves.items():
    accuracy = kept_accuracy(doubt)
    at = [np.argmin(np.abs(handed_over - share)) for share in (0, 0.1, 0.2, 0.3)]
    print(f"by {name:15} accuracy with 0, 10, 20, 30 % handed over: {accuracy[at].round(3)}")

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ProbabilityIntervalDisplay.from_estimator(ribbon, X_test, y_test, pos_label="malignant", ax=axes[0])
for (name, doubt), colour, dashes in zip(curves.items(), ("#0072B2", "#D55E00"), ("-", "--"), strict=True):
    axes[1].plot(handed_over, kept_accuracy(doubt), color=colour, ls=dashes, lw=2, label=f"by {name}")
axes[1].axhline(correct.mean(), color="#4D4D4D", ls=":", lw=1, label="at random")
axes[1].set(xlabel="share handed over", ylabel="accuracy of the rest", xlim=(0, 0.6), ylim=(0.89, 1.005))
axes[1].set_title("Abstaining", loc="left", fontsize="medium")
axes[1].legend(frameon=False, loc="center right")
axes[1].spines[["top", "right"]].set_visible(False)
