"""Inference about coefficients and predictions, influence of training rows, and a check of a whole fit.

Every function takes a fitted Ribbon, refits nothing (except ``check`` with the training rows), and returns a table: of
polars if it is given one, else of pandas. Standard errors are exact if the estimate is linear in the parameters, else
by the delta method; Student's t is used if degrees of freedom of a variance are known. A RibbonCV is inferred from at
alpha = 1, except for observations; pass its ``estimator_`` for the tuned alpha.
"""

from ._check import CheckReport, check
from ._coefficients import Summary, coefficients, contrast, summary, wald_test
from ._influence import influence, influence_measures, leave_out, variance_contributions
from ._predictions import comparisons, partial_dependence, predictions, slopes
from ._tables import RegressionTable, regression_table

__all__ = [
    "CheckReport",
    "RegressionTable",
    "Summary",
    "check",
    "coefficients",
    "comparisons",
    "contrast",
    "influence",
    "influence_measures",
    "leave_out",
    "partial_dependence",
    "predictions",
    "regression_table",
    "slopes",
    "summary",
    "variance_contributions",
    "wald_test",
]
