"""
Trial: ten classes
==================

The fourth of five trials: handwritten digits. Trustworthy probabilities, with error bars, and sets of labels that
contain the true one as often as they promise.
"""

# %%
# A third to fit, a third to calibrate, a third to check.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier
from skribbon.metrics import mean_set_size, neg_nll_scorer, set_coverage_score

X, y = load_digits(return_X_y=True)
X_fit, X_rest, y_fit, y_rest = train_test_split(X, y, train_size=600, random_state=0, stratify=y)
X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0, stratify=y_rest)
base = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
ribbon = RibbonClassifier(base).fit(X_fit, y_fit)
print(f"accuracy {ribbon.score(X_test, y_test):.3f}, log likelihood {neg_nll_scorer(ribbon, X_test, y_test):.3f}")

# %%
# A set for every digit: mostly one label, two where the writing is doubtful.
ribbon.conformalize(X_cal, y_cal)
sets = ribbon.predict_set(X_test, confidence_level=0.98)
print(f"98% sets hold the digit in {set_coverage_score(y_test, sets):.3f}, mean size {mean_set_size(y_test, sets):.2f}")

# %%
# The digit whose set is largest, with the 90% interval of each probability.
row = int(sets.sum(axis=1).argmax())
proba, interval = ribbon.predict_proba(X_test[[row]])[0], ribbon.predict_proba_interval(X_test[[row]])[0]
plt.style.use("skribbon.plotting.style")
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3), width_ratios=[1, 2.5])
left.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
left.set_axis_off()
error = np.abs(interval.T - proba)
right.bar(range(10), proba, color=np.where(sets[row], "C0", "0.8"))
right.errorbar(range(10), proba, error, fmt="none", ecolor="0.3", lw=1)
right.set(
    xticks=range(10), xlabel="digit", ylabel="probability", title="Blue: labels in the 98% set; lines: 90% intervals"
)
plt.show()
