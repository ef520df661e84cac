"""Errors and warnings raised when a premise of the method fails.

Every warning has its own class, so that a filter can ignore it or turn it into an error.
"""

import re
import sys
import warnings
from collections import defaultdict
from contextlib import contextmanager, suppress
from contextvars import ContextVar

__all__ = [
    "AlphaEdgeWarning",
    "ApproximateCurvatureWarning",
    "CalibrationWarning",
    "CurvatureError",
    "DependentRowsWarning",
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
    "VersionWarning",
    "WeightWarning",
]


class CurvatureError(ValueError):
    """The penalized curvature H_r is not positive semi-definite, so it has no meaningful inverse.

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
    >>> warnings.simplefilter("error", RibbonWarning)
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

    Raised by ``fit`` if the correction or the noise model needs leverages. Penalize the base model more, or use a
    number for ``noise`` and ``correction="HC0"``, which need none.
    """


class NewtonStepWarning(RibbonWarning):
    """Drawn weights leave so little curvature in some direction that the Newton step along it was bounded.

    Raised by ``fit`` with ``predictive="newton"``, usually for classifiers whose classes only a few rows distinguish:
    exact refits at such weights would be far away, or would not exist. Use a larger ``alpha``, penalize the base model
    more, or use ``predictive="pushforward"``, whose steps use the curvature of all rows.
    """


class FewGroupsWarning(RibbonWarning):
    """There are too few groups of rows to estimate the uncertainty from the differences between groups.

    Raised by ``fit`` with ``groups``. Student's t quantiles allow for a variance estimated from few groups, but not for
    fewer groups than parameters. Collect more groups, drop columns, or penalize the base model.
    """


class DependentRowsWarning(RibbonWarning):
    """Residuals of neighbouring rows are correlated, so that rows are not independent as the intervals assume.

    Raised by ``fit`` if the correlation exceeds 2.75 standard errors: rows depend on each other, or the model misses a
    trend along their order. Confidence intervals are too narrow. Pass ``groups``, for a time series from
    :func:`skribbon.time_blocks`, or add columns that describe the trend. With ``groups``, raised if neighbouring groups
    are correlated.
    """


class SeparationWarning(RibbonWarning):
    """A classifier is right about its training rows far more often than its own probabilities suggest.

    Raised by ``fit`` if the classes are separable, or a network has memorized its rows: the scores vanish, so intervals
    are too narrow. Penalize the base model more.
    """


class FamilyWarning(RibbonWarning):
    """The family of a generalized linear model does not describe how observations spread around its means.

    Raised by ``fit`` if the predictive distribution functions, evaluated at the observations, are far from uniform.
    Confidence intervals remain valid; prediction intervals and densities follow the family. Use another family,
    or fit a transformed target by least squares, whose noise distribution is estimated from the data.
    """


class FlexibleModelWarning(RibbonWarning):
    """A network may have memorized its rows, and no rows were held out to show it; or refits without rows disagree.

    Raised by ``fit`` for a network with at least 0.15 effective parameters per row that was not refitted: with
    ``held_out="loo"`` or a stated noise, in a :class:`~sklearn.frozen.FrozenEstimator`, or on Dask. Intervals are then
    often far too narrow. Use ``held_out="auto"``, or :meth:`~skribbon.RibbonRegressor.conformalize` with rows that the
    network was not trained on. Also raised if held-out errors of refits differ widely, so that training is unstable.
    """


class ApproximateCurvatureWarning(RibbonWarning):
    """The model is too large for a dense curvature, or its Hessian is indefinite, and an approximate one was chosen.

    Raised by ``fit`` with ``curvature="auto"``. Name a curvature to make the choice yourself and silence the warning.
    """


class SolverWarning(RibbonWarning):
    """An iterative solver stopped before it converged.

    Raised by :class:`~skribbon.curvature.MatrixFree`; uncertainty is understated along the flattest directions. Add
    ``damping``, penalize the base model more, or raise ``max_iter``.
    """


class AlphaEdgeWarning(RibbonWarning):
    """The best alpha lies at the edge of the search range, or the scoring does not depend on it.

    Raised by ``fit`` of :class:`~skribbon.RibbonCV`. Extend ``alphas`` on that side, check the noise model, or score
    the whole predictive distribution, with ``scoring="nll"``: R^2 and accuracy do not depend on alpha.
    """


class CalibrationWarning(RibbonWarning):
    """The calibration rows cannot support the guarantee that was asked for.

    Raised by ``conformalize`` if the model was fitted on the calibration rows. Raised by conformal kinds of the predict
    methods if these rows are too few for the level, so that bounds are infinite. Set rows aside for calibration, use
    more of them, or lower the level.
    """


class SlowDerivativeWarning(RibbonWarning):
    """A user's function is written so that autograd can differentiate it only a few rows at a time.

    Raised by ``fit`` of a Ribbon around an autograd model of more than 100 parameters with a thousand rows or more.
    Write the function as products ``X @ W + b`` and functions of single elements, or as a formula in the columns
    ``X[:, j]``, or supply ``jac``.
    """


class VersionWarning(RibbonWarning):
    """A stored estimator was loaded by another version of skribbon than the one that stored it.

    Raised when a pickle, or a file of joblib or skops, is loaded. Predictions may differ between versions, or fail. Fit
    the estimator again, or install the version that stored it.
    """


class WeightWarning(RibbonWarning):
    """Weights that are not whole numbers were taken as frequencies.

    Raised by ``fit`` with the default ``weight_type="frequency"``: the sum of the weights counts as the number of
    observations. Use ``weight_type="importance"`` for survey weights and inverse propensities, ``"exposure"`` for
    exposures and precisions. If such weights are frequencies, for instance shares of a day, ignore the warning.

    Also raised if folds are made of a table of counts: repeat its rows instead of weighting them.
    """


ONCE = DependentRowsWarning, FewGroupsWarning, WeightWarning  # raised by the fit to all rows, and ignored in folds
# List of (category, text) that collects the warnings of this thread or task, or None to show them. The filters of
# ``warnings.catch_warnings`` belong to the whole process, so that folds in threads would leave them changed.
_COLLECTED: ContextVar[list | None] = ContextVar("collected", default=None)


def guide_place(category):
    """Sentence that names the place of a warning in the user guide; empty for warnings of other packages."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", category.__name__).lower()
    return f" See: user guide, troubleshooting#{name}." if issubclass(category, RibbonWarning) else ""


def warn_user(message, category):
    """Warn at the line outside skribbon that led here, with the place in the user guide, or collect the warning."""
    if (collected := _COLLECTED.get()) is not None:
        collected.append((category, message))
        return
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("skribbon", "functools"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message.removesuffix(place := guide_place(category)) + place, category, stacklevel=level + 1)


@contextmanager
def noted_warnings(notes, place, ignored=()):
    """Append (place, category, text) to ``notes`` for every warning of skribbon inside, instead of showing it."""
    token = _COLLECTED.set(collected := [])
    try:
        yield
    finally:
        _COLLECTED.reset(token)
    notes.extend((place, category, text) for category, text in collected if not issubclass(category, ignored))


@contextmanager
def ignored_warnings(module):
    """Ignore warnings that are raised in modules whose name matches, such as those of other packages.

    The filter is added and removed by itself. ``warnings.catch_warnings`` restores all filters, also those of threads.
    """
    own = "ignore", None, Warning, re.compile(module), 0
    warnings.filters.insert(0, own)
    try:
        yield
    finally:
        with suppress(ValueError):  # another thread may have restored older filters
            warnings.filters.remove(own)


def warn_once_per_kind(notes, n_folds):
    """Show each kind of noted warning once, ignoring numbers; one of folds alone with the number of these folds.

    A place is the number of a fold, or None for the fit to all rows, whose text is preferred.
    """
    kinds = defaultdict(dict)
    for place, category, text in notes:
        kinds[category, re.sub(r"[-+.\w]*\d[-+.\w]*", "#", text)].setdefault(place, text)
    for (category, _), texts in kinds.items():
        text = texts.get(None) or next(iter(texts.values()))
        only_folds = None not in texts and _COLLECTED.get() is None  # an outer search counts its own folds
        warn_user(f"In {len(texts)} of {n_folds} folds: {text}" if only_folds else text, category)
