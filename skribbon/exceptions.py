"""What skribbon says when a premise of the method fails."""

import sys
import warnings

__all__ = [
    "AlphaEdgeWarning",
    "ApproximateCurvatureWarning",
    "CurvatureError",
    "LeverageWarning",
    "NotStationaryWarning",
    "RibbonWarning",
    "SelectionWarning",
    "SlowDerivativeWarning",
    "SolverWarning",
    "UndeterminedDirectionWarning",
]


class CurvatureError(ValueError):
    """The penalised curvature H_r is not positive semi-definite, so it has no meaningful inverse."""


class RibbonWarning(UserWarning):
    """Base class of every warning that skribbon raises about the method's own premises."""


class NotStationaryWarning(RibbonWarning):
    """The fitted parameters are not a minimum: mean score plus penalty gradient is far from zero."""


class UndeterminedDirectionWarning(RibbonWarning):
    """Predictions were asked for inputs that move along directions the training data say nothing about."""


class SelectionWarning(RibbonWarning):
    """Parameters at an L1 or sign bound were dropped; intervals are conditional on that selection."""


class LeverageWarning(RibbonWarning):
    """Some rows determine their own fitted value, so leave-one-out quantities at them are extrapolated."""


class ApproximateCurvatureWarning(RibbonWarning):
    """The model is too large for a dense curvature, and an approximate one was chosen for it."""


class SolverWarning(RibbonWarning):
    """An iterative solve stopped before it had converged."""


class AlphaEdgeWarning(RibbonWarning):
    """The best alpha lies at the edge of what was searched, or does not matter to the scoring."""


class SlowDerivativeWarning(RibbonWarning):
    """A user's function is written such that autograd can differentiate it only a few rows at a time."""


def warn_user(message, category):
    """Warn at the line outside skribbon that led here, however deep the call."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("skribbon", "functools"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
