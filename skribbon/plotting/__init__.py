"""Displays: plots of intervals, calibration, the path of alpha, coefficients, partial dependence and influence.

As in scikit-learn, a display holds numbers, computed by ``from_estimator``, or passed to ``from_predictions`` or to the
constructor; ``plot`` draws them on ``ax``, or on a new figure if that is None, and sets ``ax_``, ``figure_`` and the
artists. By default, ``name`` is the estimator's class. Colours are those of Okabe and Ito, which can be distinguished
with any colour vision; shape or line style repeats what they mean. For whole figures of this look, call
``plt.style.use("skribbon.plotting.style")``.
"""

from .calibration import AlphaPathDisplay, CoverageDisplay, ReliabilityDisplay
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
