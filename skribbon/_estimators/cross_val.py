"""Intervals of each row by a fit that has not seen it."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed

from .._utils.checks import check_target, coarsest, group_labels, is_lazy, is_name
from .._utils.compat import safe_indexing
from .._utils.typing import FloatArray, Levels, MatrixLike, PerRow, PromiseKind
from .._utils.unwrap import innermost, last_step, may_be_network
from ..exceptions import noted_warnings, warn_once_per_kind
from .folds import holds_out_each_once, split_positions
from .held_out import compared, has_many_parameters
from .regressor import RibbonRegressor
from .settings import Settings

PARAMS = "sample_weight", "groups"  # of a fit, in this order


def cross_val_interval(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    *,
    sample_weight: PerRow = None,
    groups: PerRow = None,
    confidence_level: Levels = 0.9,
    kind: PromiseKind = "prediction",
    cv: int | BaseCrossValidator | Iterable | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Interval of each row from a fit that has not seen it.

    The counterpart of :func:`~sklearn.model_selection.cross_val_predict`, for estimates of coverage and width without
    setting rows aside. The fits of the folds are discarded, so there are no intervals for new rows.

    Parameters
    ----------
    estimator : estimator with ``predict_interval``
        A Ribbon, a :class:`~skribbon.RibbonCV`, or a pipeline or search that ends in one.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : array-like of shape (n_samples,), default=None
        Passed to each fit.
    groups : array-like of shape (n_samples,) or (n_samples, k), or tuple of k arrays, default=None
        Group labels of rows that depend on each other, passed to each fit and to the splitter; if ``cv`` is a number,
        folds keep groups together.
    confidence_level : float or sequence of L floats, default=0.9
    kind : {"prediction", "confidence", "jackknife+", "cv+"}, default="prediction"
        As in :meth:`RibbonRegressor.predict_interval <skribbon.RibbonRegressor.predict_interval>`. "conformal" needs
        calibration rows, which folds do not have.
    cv : int, splitter or iterable, default=None
        As for :class:`~skribbon.RibbonCV`, each row held out once; five folds if None.
    n_jobs : int, default=None
        Number of folds to fit in parallel.

    Returns
    -------
    ndarray of shape (n_samples, 2) or (n_samples, 2, L)
        In the order of the rows; for several outputs, as returned by ``predict_interval``.

    See Also
    --------
    RibbonCV : Choose alpha on held-out rows.
    skribbon.metrics.interval_coverage_score : Coverage of the intervals.

    Notes
    -----
    User guide: :doc:`/user_guide/intervals`.

    Examples
    --------
    >>> from skribbon import RibbonRegressor, cross_val_interval
    >>> from skribbon.metrics import interval_coverage_score
    >>> X, y = load_diabetes(return_X_y=True)
    >>> interval = cross_val_interval(RibbonRegressor(), X, y, confidence_level=0.8)
    >>> round(interval_coverage_score(y, interval), 2)
    0.79
    """
    if is_classifier(estimator):
        raise TypeError(
            f"cross_val_interval needs a regressor, but {type(estimator).__name__} is a classifier; use scikit-learn's "
            "cross_val_predict(..., method='predict_proba') for its probabilities."
        )
    if is_lazy(X):
        raise TypeError(
            f"X is a Dask {type(X).__name__}, but cross_val_interval needs rows in memory: pass a sample, or use "
            "RibbonCV, whose cv_results_ has scores of held-out rows."
        )
    if kind == "conformal":
        raise ValueError("kind='conformal' needs calibration rows, which folds do not have; use 'cv+' of a RibbonCV.")
    X, y, sample_weight, groups = indexable(X, y, sample_weight, group_labels(groups))
    given = {"sample_weight": sample_weight, "groups": groups}
    params = {name: np.asarray(value) for name, value in given.items() if value is not None}
    for_splitter = {} if groups is None else {"groups": coarsest(groups, len(y))}
    splits = split_positions(cv, X, y, groups, False, for_splitter, sample_weight)
    if not holds_out_each_once(splits, len(y)):
        raise ValueError("cv must hold out each row exactly once, as KFold does; ShuffleSplit and the like do not.")
    if bases := _fits_of_network(estimator, X, y, splits, params, kind, n_jobs):
        task, jobs = _intervals_of_network, ((estimator, X, y, splits, bases, params, k) for k in range(len(splits)))
    else:
        task, jobs = _intervals_of_fold, ((estimator, X, y, *pair, params, k) for k, pair in enumerate(splits))
    results = Parallel(n_jobs=n_jobs)(delayed(task)(*job, confidence_level, kind) for job in jobs)
    warn_once_per_kind([note for _, notes in results for note in notes], len(splits))
    order = np.argsort(np.concatenate([test for _, test in splits]))
    return np.concatenate([interval for interval, _ in results])[order]


def _intervals_of_fold(estimator, X, y, train, test, params, k, confidence_level, kind):
    """Intervals of the rows ``test`` by a fit to the rows ``train``, and warnings."""
    notes = []
    with noted_warnings(notes, k):
        params = {f"{innermost(estimator)[1]}{name}": value[train] for name, value in params.items()}
        fitted = clone(estimator).fit(safe_indexing(X, train), safe_indexing(y, train), **params)
        predictor, rows = last_step(fitted, safe_indexing(X, test))
        return predictor.predict_interval(rows, confidence_level, kind=kind), notes


# ---------------------------------------------------------------------- networks, whose fits are each other's refits
def _fits_of_network(estimator, X, y, splits, params, kind, n_jobs):
    """Base models fitted without each fold, with their training rows; None if a fit would make no refits of its own."""
    if not isinstance(estimator, RibbonRegressor) or kind not in ("prediction", "confidence") or len(splits) < 3:
        return None
    if not (is_name(estimator.held_out, "auto") and may_be_network(estimator._get_estimator())):
        return None
    return Parallel(n_jobs=n_jobs)(delayed(_fit_base)(estimator, X, y, train, params) for train, _ in splits)


def _part(estimator, X, y, rows, params):
    """X, y, sample_weight and groups of some rows."""
    y = check_target(estimator, y)
    return safe_indexing(X, rows), y[rows], *(params[name][rows] if name in params else None for name in PARAMS)


def _fit_base(estimator, X, y, train, params):
    return clone(estimator)._fit_base_model(*_part(estimator, X, y, train, params))


def _intervals_of_network(estimator, X, y, splits, bases, params, k, confidence_level, kind):
    """Intervals of the rows of fold k, and warnings; rows of all other folds are held out by the fits without them."""
    notes, ribbon, (train, test), rows = [], clone(estimator), splits[k], bases[k][1]
    table, place = _part(estimator, X, y, train, params), np.full(len(y), -1)
    place[train] = np.arange(len(train))
    with noted_warnings(notes, k):
        settings, unseen = Settings.from_regressor(ribbon, table[1]), None
        if settings.learns and has_many_parameters(rows):
            others = [j for j in range(len(splits)) if j != k]
            pairs = [tuple(place[part][place[part] >= 0] for part in splits[j]) for j in others]
            unseen = compared([bases[j][1].model for j in others], pairs, rows.model, rows, table[0])
        ribbon._fit_around(settings, bases[k], table, unseen=unseen)
        return ribbon.predict_interval(safe_indexing(X, test), confidence_level, kind=kind), notes
