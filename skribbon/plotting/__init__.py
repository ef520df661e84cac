"""Displays: pictures of intervals, calibration, the path of alpha, coefficients, partial dependence, influence.

As in scikit-learn, a display holds numbers, computed by ``from_estimator`` or handed over by ``from_predictions``;
``plot`` only draws them, on an existing axis if it gets one, and leaves ``ax_``, ``figure_`` and the artists behind.
Colours are those of Okabe and Ito, told apart with any colour vision, and never carry a meaning alone: shape or line
style says it too.
"""

from .alpha_path import AlphaPathDisplay
from .coefficients import CoefficientDisplay
from .coverage import CoverageDisplay
from .decomposition import UncertaintyDecompositionDisplay
from .influence import InfluenceDisplay
from .interval import IntervalDisplay
from .partial_dependence import PartialDependenceDisplay
from .probability import ProbabilityIntervalDisplay
from .reliability import ReliabilityDisplay

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
