"""Inference: coefficients, predictions for groups of rows, how they change, and which training rows they rest on.

Every function takes a fitted Ribbon, refits nothing, and returns a table; tables of estimates have a standard error, a
test and an interval in each row. Standard errors are exact if the estimate is linear in the parameters, and by the
delta method otherwise; Student's t replaces the normal distribution if the degrees of freedom of a variance are known.
"""

from ._coefficients import Summary, coefficients, contrast, summary, wald_test
from ._influence import influence, influence_measures, leave_out, variance_contributions
from ._predictions import comparisons, partial_dependence, predictions, slopes

__all__ = [
    "Summary",
    "coefficients",
    "comparisons",
    "contrast",
    "influence",
    "influence_measures",
    "leave_out",
    "partial_dependence",
    "predictions",
    "slopes",
    "summary",
    "variance_contributions",
    "wald_test",
]
