"""
A first interval
================

Wrap a scikit-learn model, fit it as usual, and ask for intervals: a ridge regression of disease progression in 442
diabetes patients.
"""

# %%
# Ten measurements of each patient, and the disease a year later. Every third patient is kept for checking.
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from skribbon import RibbonRegressor
from skribbon.metrics import interval_coverage_score, mean_interval_width
from skribbon.plotting import CoefficientDisplay, IntervalDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
test = np.arange(len(X)) % 3 == 0
X_train, X_test, y_train, y_test = X[~test], X[test], y[~test], y[test]

# %%
# The wrapped model is fitted once and predicts what it would predict alone.
ribbon = RibbonRegressor(Ridge(alpha=0.1)).fit(X_train, y_train)
alone = Ridge(alpha=0.1).fit(X_train, y_train)
print("same predictions:", np.allclose(ribbon.predict(X_test), alone.predict(X_test)))

# %%
# An interval for every new patient: lower and upper end, one row each. Several levels at once add a last axis.
intervals = ribbon.predict_interval(X_test, confidence_level=0.9)
print(intervals[:3].round(0))
print(ribbon.predict_interval(X_test, confidence_level=[0.5, 0.9]).shape)

# %%
# A table says why an interval is as wide as it is: ``std_epistemic`` is the uncertainty of the model, which more
# patients would reduce, ``std_aleatoric`` is the spread of patients with the same measurements, which they would not.
print(ribbon.predict_frame(X_test).head(3).round(1))

# %%
# Do the intervals keep their word? Nine in ten of the patients that the model has not seen should be covered.
coverage = interval_coverage_score(y_test, intervals)
print(f"coverage {coverage:.3f}, mean width {mean_interval_width(y_test, intervals):.0f}")
display = IntervalDisplay.from_estimator(ribbon, X_test, y_test)

# %%
# The coefficients are uncertain too. Grey ones with open circles may as well be zero.
display = CoefficientDisplay.from_estimator(ribbon)
