"""
A first interval
================

How certain is a prediction? Wrap a scikit-learn model, fit it as usual, and ask for intervals: a ridge regression of
disease progression in 442 diabetes patients.
"""

# %%
# Ten measurements of each patient, and the disease a year later. Every third patient is set aside for checking.
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from skribbon import RibbonRegressor
from skribbon.metrics import interval_coverage_score
from skribbon.plotting import CoefficientDisplay, IntervalDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
test = np.arange(len(X)) % 3 == 0
X_train, X_test, y_train, y_test = X[~test], X[test], y[~test], y[test]

# %%
# The wrapped model is fitted once and predicts what it would predict alone.
ribbon = RibbonRegressor(Ridge(alpha=0.1)).fit(X_train, y_train)
alone = Ridge(alpha=0.1).fit(X_train, y_train)
print("same predictions:", np.array_equal(ribbon.predict(X_test), alone.predict(X_test)))

# %%
# One row for every new patient. ``std_epistemic`` is the uncertainty of the model, which more patients would reduce;
# ``std_aleatoric`` is the spread of patients with the same measurements, which they would not. The interval holds both.
print(ribbon.predict_frame(X_test, confidence_level=0.9).head().round(1))

# %%
# Do the intervals keep their word? Nine out of ten patients that the model has not seen should be covered.
# ``predict_interval`` has the two ends alone.
intervals = ribbon.predict_interval(X_test, confidence_level=0.9)
print(f"covered: {interval_coverage_score(y_test, intervals):.1%} of {len(y_test)} new patients")
IntervalDisplay.from_estimator(ribbon, X_test, y_test)

# %%
# The coefficients are uncertain too. The intervals of the grey ones, with open circles, include zero.
CoefficientDisplay.from_estimator(ribbon)

# %%
# Next: there are two kinds of interval, :ref:`sphx_glr_auto_examples_plot_which_interval.py`; and a table with text
# columns and missing values, :ref:`sphx_glr_auto_examples_plot_pipeline.py`.
