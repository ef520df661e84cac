"""What skribbon says when a premise of the method fails."""

__all__ = [
    "CurvatureError",
    "LeverageWarning",
    "NotStationaryWarning",
    "RibbonWarning",
    "SelectionWarning",
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
