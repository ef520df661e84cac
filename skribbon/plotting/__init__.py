"""Displays: plots of intervals, calibration, the path of alpha, coefficients, partial dependence and influence.

As in scikit-learn, a display holds numbers, computed by ``from_estimator`` or passed to ``from_predictions``; ``plot``
only draws them, on an existing axis if it is given one, and sets ``ax_``, ``figure_`` and the artists. Colours are
those of Okabe and Ito, distinguishable with any colour vision, and never carry meaning alone: shape or line style
repeats it.
"""

from .alpha_path import AlphaPathDisplay
from .calibration import CoverageDisplay, ReliabilityDisplay
from .decomposition import UncertaintyDecompositionDisplay
from .inspection import CoefficientDisplay, InfluenceDisplay, PartialDependenceDisplay
from .intervals import IntervalDisplay, ProbabilityIntervalDisplay

__all__ = [
    "AlphaPathDisplay",
    "CoefficientDisplay",
    "CoverageDisplay",
    "InfluenceDisplay",
    "IntervalDisplay",
    "PartialDependenceDisplay",
    "ProbabilityIntervalDisplay",
    "ReliabilityDisplay",
    "UncertaintyDecompositionDisplay",
]
