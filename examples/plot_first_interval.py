"""
A first interval
================

How certain is a prediction? Wrap a scikit-learn model, fit it as usual, and ask for
intervals. The model here is a ridge regression of disease progression in 442 diabetes
patients.
"""

# %%
# The table has ten measurements of each patient, and the progression of the disease a
# year later. Every third patient is held out for checking.
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
# The wrapped model is fitted once, and its predictions do not change.
ribbon = RibbonRegressor(Ridge(alpha=0.1)).fit(X_train, y_train)
alone = Ridge(alpha=0.1).fit(X_train, y_train)
same = np.array_equal(ribbon.predict(X_test), alone.predict(X_test))
print("same predictions:", same)

# %%
# ``predict_frame`` returns one row for each new patient. ``std_epistemic`` is the
# uncertainty of the model, which more patients would reduce. ``std_aleatoric`` is the
# spread of patients with the same measurements, which more patients would not reduce.
# The interval allows for both.
print(ribbon.predict_frame(X_test, confidence_level=0.9).head().round(1))

# %%
# Check the coverage: 90% intervals should contain nine out of ten patients that the
# model has not seen. ``predict_interval`` returns only the two bounds.
intervals = ribbon.predict_interval(X_test, confidence_level=0.9)
covered = interval_coverage_score(y_test, intervals)
print(f"covered: {covered:.1%} of {len(y_test)} new patients")
IntervalDisplay.from_estimator(ribbon, X_test, y_test)

# %%
# The coefficients are uncertain too. A grey interval with an open circle includes zero.
CoefficientDisplay.from_estimator(ribbon)

# %%
# Next: the two kinds of interval, :ref:`sphx_glr_auto_examples_plot_which_interval.py`;
# a table with text columns and missing values,
# :ref:`sphx_glr_auto_examples_plot_pipeline.py`.
