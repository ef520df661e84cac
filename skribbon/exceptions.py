"""What skribbon says when a premise of the method fails.

Every warning has a class of its own, so that it can be turned into an error, or ignored once it is understood.
"""

import re
import sys
import warnings
from collections import defaultdict
from contextlib import contextmanager

__all__ = [
    "AlphaEdgeWarning",
    "ApproximateCurvatureWarning",
    "CalibrationWarning",
    "CurvatureError",
    "FamilyWarning",
    "FewGroupsWarning",
    "FlexibleModelWarning",
    "LeverageWarning",
    "NewtonStepWarning",
    "NotStationaryWarning",
    "RibbonWarning",
    "SelectionWarning",
    "SeparationWarning",
    "SlowDerivativeWarning",
    "SolverWarning",
    "UndeterminedDirectionWarning",
]


class CurvatureError(ValueError):
    """The penalised curvature H_r is not positive semi-definite, so it has no meaningful inverse.

    Raised by ``fit`` where the parameters are not a minimum of the training loss, mostly with ``curvature="hessian"``.
    Train the base model to convergence, or use ``curvature="ggn"``, which is never indefinite, or a ``damping`` above
    the number that the message names.
    """


class RibbonWarning(UserWarning):
    """Base class of every warning that skribbon raises about the method's own premises.

    A filter on it reaches all of them.

    Examples
    --------
    >>> import warnings
    >>> from skribbon.exceptions import RibbonWarning
    >>> warnings.simplefilter("error", RibbonWarning)  # no result rather than a doubtful one
    """


class NotStationaryWarning(RibbonWarning):
    """The fitted parameters are not a minimum: mean score plus penalty gradient is far from zero.

    Raised by ``fit``; ``stationarity_`` holds the distance, in standard errors of the mean score. Train longer, tighten
    ``tol``, use a deterministic solver without early stopping, or move the model there by
    :func:`skribbon.models.polish`.
    """


class UndeterminedDirectionWarning(RibbonWarning):
    """Predictions were asked for inputs that move along directions the training data say nothing about.

    Raised by the predict methods: columns are collinear or constant, rows are too few, or units of a network are
    saturated, and the uncertainty of such inputs is understated. Drop redundant columns, or train on rows like
    these. A penalty silences the warning, but adds no width along such directions.
    """


class SelectionWarning(RibbonWarning):
    """Parameters at an L1 or sign bound were dropped; intervals are conditional on that selection.

    Raised by ``fit`` of a Lasso, an elastic net or ``positive=True``. Where the selection itself is uncertain, use a
    ridge penalty, which selects nothing, or :class:`~skribbon.baselines.BootstrapRegressor`, which selects anew.
    """


class LeverageWarning(RibbonWarning):
    """Some rows determine their own fitted value, so leave-one-out quantities at them are extrapolated.

    Raised by ``fit`` where corrections or the noise ask for leverages. Penalise the base model more, or use a number
    for ``noise`` and ``correction="HC0"``, which ask for none.
    """


class NewtonStepWarning(RibbonWarning):
    """Drawn weights leave so little curvature in some direction that a Newton step along it is bounded.

    Raised by ``fit`` with ``predictive="newton"``, mostly of classifiers whose classes a few rows tell apart: exact
    refits at such weights would be far away, or nowhere. Use a larger ``alpha``, penalise the base model more, or take
    ``predictive="pushforward"``, whose steps have the curvature of all rows.
    """


class FewGroupsWarning(RibbonWarning):
    """There are too few groups of rows for what is to be learnt from how they differ.

    Raised by ``fit`` with ``groups``. Student's quantiles, with one degree of freedom less than there are groups, allow
    for a variance that is known from few groups; nothing allows for directions of the parameters in which fewer groups
    differ than there are parameters. Collect more groups, drop columns, or penalise the base model.
    """


class SeparationWarning(RibbonWarning):
    """A classifier is right about its training rows far more often than its own probabilities say.

    Raised by ``fit`` where classes can be separated, or a network has learnt its rows by heart: the scores that the
    ribbon is made of vanish, and so does its width, where it should be widest. Penalise the base model more.
    """


class FamilyWarning(RibbonWarning):
    """The family of a generalised linear model does not describe how observations spread around its means.

    Raised by ``fit`` where the rows' own distribution functions are far from uniform. Confidence intervals stay what
    they are; prediction intervals and densities are those of the family. Take another family, or fit a transformed
    target by least squares, whose noise is taken from the rows.
    """


class FlexibleModelWarning(RibbonWarning):
    """A network has so many effective parameters per row that its training rows cannot judge it.

    Raised by ``fit`` of a model that is not at a minimum, or has nearly a parameter for every row: corrections by
    leverage would charge for parameters that training never used, with intervals many times too wide, and leave-one-out
    would flatter. ``damping="auto"`` has added a damping. :class:`~skribbon.RibbonCV` chooses one on held-out rows
    instead; a number for ``damping`` is taken as it is.
    """


class ApproximateCurvatureWarning(RibbonWarning):
    """The model is too large for a dense curvature, and an approximate one was chosen for it.

    Raised by ``fit`` with ``curvature="auto"``. Name a curvature to choose for yourself; the warning is then gone.
    """


class SolverWarning(RibbonWarning):
    """An iterative solve stopped before it had converged.

    Raised by :class:`~skribbon.curvature.MatrixFree`; uncertainty is understated along the flattest directions. Add
    ``damping``, penalise the base model more, or raise ``max_iter``.
    """


class AlphaEdgeWarning(RibbonWarning):
    """The best alpha lies at the edge of what was searched, or does not matter to the scoring.

    Raised by ``fit`` of :class:`~skribbon.RibbonCV`. Extend ``alphas`` on that side, check the noise model, or score
    the whole predictive distribution, with ``scoring="nll"``: R^2 and accuracy do not depend on alpha.
    """


class CalibrationWarning(RibbonWarning):
    """Calibration rows cannot give the promise that was asked for.

    Raised by ``conformalize`` where they are the rows that the model was fitted on, which says nothing of new ones, and
    by predict methods of conformal kinds where there are too few of them for the level, so that ends are infinite. Keep
    rows aside for calibration, give more of them, or lower the level.
    """


class SlowDerivativeWarning(RibbonWarning):
    """A user's function is written such that autograd can differentiate it only a few rows at a time.

    Raised by ``fit`` of a Ribbon around an autograd model with a thousand rows or more. Write the function as products
    ``X @ W + b`` and functions of single elements, or as a formula in the columns ``X[:, j]``, or supply ``jac``.
    """


def warn_user(message, category):
    """Warn at the line outside skribbon that led here, however deep the call."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("skribbon", "functools"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


@contextmanager
def noted_warnings(notes, place):
    """Append (place, category, text) to ``notes`` for every warning inside, in place of showing it.

    Filters stay what they are: what is ignored is not noted, and what is an error stays one.
    """
    with warnings.catch_warnings(record=True) as caught:
        yield
    notes.extend((place, one.category, str(one.message)) for one in caught)


def warn_once_per_kind(notes, n_folds):
    """Say what was noted once for each kind, numbers aside, and in how many folds.

    A place is the number of a fold, or None for the fit to all rows, whose words are taken where it has any.
    """
    kinds = defaultdict(list)
    for place, category, text in notes:
        kinds[category, re.sub(r"[-+.\w]*\d[-+.\w]*", "#", text)].append((place, text))
    for (category, _), said in kinds.items():
        folds = len({place for place, _ in said} - {None})
        texts = [text for place, text in said if place is None] or [said[0][1]]
        where = ["the fit to all rows"] * any(place is None for place, _ in said)
        where += [f"{folds} of {n_folds} folds"] * (folds > 0)
        warn_user(f"{texts[0]} (In {' and '.join(where)}.)" if folds else texts[0], category)
