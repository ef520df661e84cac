"""Inference on what users ask about: coefficients, predictions of groups of rows, and how predictions change.

Every function takes a fitted Ribbon, refits nothing, and returns a table with an estimate, its standard error, a test
and an interval in each row. Standard errors are exact where the estimate is linear in the parameters, and else those of
the delta method; Student's law stands in for the normal one where the degrees of freedom of a variance are known.
"""

from ._coefficients import coefficients, contrast, wald_test
from ._comparisons import comparisons, slopes
from ._partial_dependence import partial_dependence
from ._predictions import predictions
from ._summary import Summary, summary

__all__ = [
    "Summary",
    "coefficients",
    "comparisons",
    "contrast",
    "partial_dependence",
    "predictions",
    "slopes",
    "summary",
    "wald_test",
]
