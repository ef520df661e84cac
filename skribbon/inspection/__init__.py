"""Inference on what users ask about: coefficients, predictions of groups of rows, how they change, and who made them.

Every function takes a fitted Ribbon, refits nothing, and returns a table; one about estimates has a standard error, a
test and an interval in each row. Standard errors are exact where the estimate is linear in the parameters, and else
those of the delta method; Student's law stands in for the normal one where the degrees of freedom of a variance are
known.
"""

from ._coefficients import coefficients, contrast, wald_test
from ._comparisons import comparisons, slopes
from ._influence import influence, leave_out, variance_contributions
from ._measures import influence_measures
from ._partial_dependence import partial_dependence
from ._predictions import predictions
from ._summary import Summary, summary

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
