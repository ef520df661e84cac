r"""Conformal prediction: intervals and sets whose coverage holds whatever the distribution of the rows.

A conformity score s(x, y) measures how unusual y is given the prediction at x. Take m calibration rows that the fit has
not seen and that are exchangeable with a new row: the score of the new row is at most their :math:`\lceil (m + 1)(1 -
\tau) \rceil`-th smallest score with probability at least :math:`1 - \tau`, and at most :math:`1 - \tau + 1/(m + 1)` if
scores are continuous. The interval, or the set, consists of all y that score no higher. The model decides where it is
wide and where it is narrow; the rank provides the guarantee.

The estimators' ``conformalize`` makes a :class:`Calibration`; its building blocks are here.
"""

from .calibration import Calibration, conformal_quantile

__all__ = ["Calibration", "conformal_quantile"]
