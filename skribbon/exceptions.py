"""Errors and warnings raised when a premise of the method fails.

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

    Raised by ``fit`` if the parameters are not a minimum of the training loss, usually with ``curvature="hessian"``.
    Train the base model to convergence, use ``curvature="ggn"``, which is never indefinite, or set ``damping`` above
    the number given in the message.
    """


class RibbonWarning(UserWarning):
    """Base class of all warnings that skribbon raises about the premises of the method.

    A warning filter on this class applies to all of them.

    Examples
    --------
    >>> import warnings
    >>> from skribbon.exceptions import RibbonWarning
    >>> warnings.simplefilter("error", RibbonWarning)  # prefer no result to a doubtful one
    """


class NotStationaryWarning(RibbonWarning):
    """The fitted parameters are not a minimum: mean score plus penalty gradient is far from zero.

    Raised by ``fit``; ``stationarity_`` holds the distance, in standard errors of the mean score. Train longer, tighten
    ``tol``, use a deterministic solver without early stopping, or move the model to its minimum with
    :func:`skribbon.models.polish`.
    """


class UndeterminedDirectionWarning(RibbonWarning):
    """Some inputs reach into directions that the training data do not determine.

    Raised by the predict methods if columns are collinear or constant, rows are too few, or units of a network are
    saturated; the uncertainty of such inputs is understated. Drop redundant columns, or train on rows like these
    inputs. A penalty silences the warning, but adds no width along such directions.
    """


class SelectionWarning(RibbonWarning):
    """Parameters at an L1 or sign bound were dropped; intervals are conditional on that selection.

    Raised by ``fit`` with a Lasso, an elastic net or ``positive=True``. If the selection itself is uncertain, use a
    ridge penalty, which selects nothing, or :class:`~skribbon.baselines.BootstrapRegressor`, which selects anew in
    every refit.
    """


class LeverageWarning(RibbonWarning):
    """Some rows determine their own fitted value, so leave-one-out quantities at them are extrapolated.

    Raised by ``fit`` if the correction or the noise model needs leverages. Penalise the base model more, or use a
    number for ``noise`` and ``correction="HC0"``, which need none.
    """


class NewtonStepWarning(RibbonWarning):
    """Drawn weights leave so little curvature in some direction that the Newton step along it was bounded.

    Raised by ``fit`` with ``predictive="newton"``, usually for classifiers whose classes are told apart by a few rows:
    exact refits at such weights would be far away, or would not exist. Use a larger ``alpha``, penalise the base model
    more, or use ``predictive="pushforward"``, whose steps use the curvature of all rows.
    """


class FewGroupsWarning(RibbonWarning):
    """There are too few groups of rows to learn the uncertainty from the differences between them.

    Raised by ``fit`` with ``groups``. Student's t quantiles, with the number of groups minus one as degrees of freedom,
    allow for a variance estimated from few groups; nothing can make up for having fewer groups than parameters. Collect
    more groups, drop columns, or penalise the base model.
    """


class SeparationWarning(RibbonWarning):
    """A classifier is right about its training rows far more often than its own probabilities suggest.

    Raised by ``fit`` if the classes are separable, or a network has memorised its rows: the scores that the ribbon is
    built from vanish, and so does its width, just where it should be widest. Penalise the base model more.
    """


class FamilyWarning(RibbonWarning):
    """The family of a generalised linear model does not describe how observations spread around its means.

    Raised by ``fit`` if the predictive distribution functions, evaluated at the observations, are far from uniform.
    Confidence intervals remain valid; prediction intervals and densities are those of the family. Use another family,
    or fit a transformed target by least squares, whose noise is learnt from the data.
    """


class FlexibleModelWarning(RibbonWarning):
    """A network has so many effective parameters per row that its training rows cannot judge it.

    Raised by ``fit`` for a model that is not at a minimum, or that has nearly one parameter per row: corrections by
    leverage would charge for parameters that training never used and make intervals many times too wide, and
    leave-one-out would be too optimistic. ``damping="auto"`` has added a damping. :class:`~skribbon.RibbonCV` chooses
    one on held-out rows instead; a number for ``damping`` is used as it is.
    """


class ApproximateCurvatureWarning(RibbonWarning):
    """The model is too large for a dense curvature, and an approximate one was chosen for it.

    Raised by ``fit`` with ``curvature="auto"``. Name a curvature to make the choice yourself and silence the warning.
    """


class SolverWarning(RibbonWarning):
    """An iterative solver stopped before it converged.

    Raised by :class:`~skribbon.curvature.MatrixFree`; uncertainty is understated along the flattest directions. Add
    ``damping``, penalise the base model more, or raise ``max_iter``.
    """


class AlphaEdgeWarning(RibbonWarning):
    """The best alpha lies at the edge of the search range, or the scoring does not depend on it.

    Raised by ``fit`` of :class:`~skribbon.RibbonCV`. Extend ``alphas`` on that side, check the noise model, or score
    the whole predictive distribution, with ``scoring="nll"``: R^2 and accuracy do not depend on alpha.
    """


class CalibrationWarning(RibbonWarning):
    """The calibration rows cannot support the guarantee that was asked for.

    Raised by ``conformalize`` if they are the rows that the model was fitted on, which reveal nothing about new ones,
    and by the conformal kinds of the predict methods if there are too few of them for the level, so that ends are
    infinite. Set rows aside for calibration, use more of them, or lower the level.
    """


class SlowDerivativeWarning(RibbonWarning):
    """A user's function is written so that autograd can differentiate it only a few rows at a time.

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
    """Append (place, category, text) to ``notes`` for every warning inside, instead of showing it.

    Warning filters still apply: an ignored warning is not noted, and one turned into an error is raised.
    """
    with warnings.catch_warnings(record=True) as caught:
        yield
    notes.extend((place, one.category, str(one.message)) for one in caught)


def warn_once_per_kind(notes, n_folds):
    """Show each kind of noted warning once, ignoring numbers, with the number of folds that it came from.

    A place is the number of a fold, or None for the fit to all rows, whose wording is preferred.
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
