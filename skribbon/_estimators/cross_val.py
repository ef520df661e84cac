"""Cross-validated intervals for held-out rows."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import BaseCrossValidator, GroupKFold, check_cv
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed

from .._utils.checks import is_lazy
from .._utils.compat import safe_indexing
from .._utils.typing import FloatArray, Levels, MatrixLike, PromiseKind
from .._utils.unwrap import innermost, last_step
from ..exceptions import noted_warnings, warn_once_per_kind


def cross_val_interval(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence_level: Levels = 0.9,
    kind: PromiseKind = "prediction",
    cv: int | BaseCrossValidator | Iterable | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Interval of each row from a fit that has not seen it.

    What :func:`~sklearn.model_selection.cross_val_predict` does for predictions: an honest look at coverage and widths
    without setting rows aside. The fits of the folds are discarded, so this is not a way to make intervals for new
    rows.

    Parameters
    ----------
    estimator : estimator with ``predict_interval``
        A Ribbon, a :class:`~skribbon.RibbonCV`, or a pipeline or search that ends in one.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : array-like of shape (n_samples,), default=None
        Passed to each fit.
    groups : array-like of shape (n_samples,), default=None
        Group labels of rows that depend on each other, passed to each fit and to the splitter; if ``cv`` is a number,
        folds keep groups together.
    confidence_level : float or sequence of L floats, default=0.9
    kind : {"prediction", "confidence", "jackknife+", "cv+"}, default="prediction"
        As in :meth:`RibbonRegressor.predict_interval <skribbon.RibbonRegressor.predict_interval>`. "conformal" needs
        calibration rows, which folds do not have.
    cv : int, splitter or iterable, default=None
        As in scikit-learn, each row held out once; five folds if None.
    n_jobs : int, default=None
        Number of folds to fit in parallel.

    Returns
    -------
    ndarray of shape (n_samples, 2) or (n_samples, 2, L)
        In the order of the rows; for several outputs, as returned by ``predict_interval``.

    Examples
    --------
    >>> from skribbon import RibbonRegressor, cross_val_interval
    >>> from skribbon.metrics import interval_coverage_score
    >>> X, y = load_diabetes(return_X_y=True)
    >>> interval = cross_val_interval(RibbonRegressor(), X, y, confidence_level=0.8)
    >>> round(interval_coverage_score(y, interval), 2)
    0.8
    """
    if is_classifier(estimator):
        raise TypeError(
            f"cross_val_interval needs a regressor, but {type(estimator).__name__} is a classifier; "
            "use sklearn.model_selection.cross_val_predict(..., method='predict_proba') for its probabilities."
        )
    if is_lazy(X):
        raise TypeError(
            f"X is a Dask {type(X).__name__}, but cross_val_interval needs rows in memory: pass a sample. RibbonCV "
            "takes Dask collections, and has scores of held-out rows in cv_results_."
        )
    if kind == "conformal":
        raise ValueError("kind='conformal' needs calibration rows, which folds do not have; use 'cv+' of a RibbonCV.")
    X, y, sample_weight, groups = indexable(X, y, sample_weight, groups)
    splits = list(_splitter(cv, y, groups).split(X, y, groups))
    order = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(order), np.arange(len(order))) or len(order) != len(y):
        raise ValueError("cv must hold out each row exactly once, as KFold does; ShuffleSplit and the like do not.")
    given = {"sample_weight": sample_weight, "groups": groups}
    params = {name: np.asarray(value) for name, value in given.items() if value is not None}
    results = Parallel(n_jobs=n_jobs)(
        delayed(_fold)(estimator, X, y, train, test, params, confidence_level, kind, k)
        for k, (train, test) in enumerate(splits)
    )
    warn_once_per_kind([note for _, said in results for note in said], len(splits))
    return np.concatenate([interval for interval, _ in results])[np.argsort(order)]


def _splitter(cv, y, groups):
    if groups is not None and (cv is None or isinstance(cv, Integral)):
        return GroupKFold(5 if cv is None else cv)
    return check_cv(cv, y)


def _fold(estimator, X, y, train, test, params, confidence_level, kind, k):
    """Intervals of the rows ``test`` by a fit to the rows ``train``, and warnings."""
    notes = []
    with noted_warnings(notes, k):
        params = {f"{innermost(estimator)[1]}{name}": value[train] for name, value in params.items()}
        fitted = clone(estimator).fit(safe_indexing(X, train), safe_indexing(y, train), **params)
        predictor, rows = last_step(fitted, safe_indexing(X, test))
        return predictor.predict_interval(rows, confidence_level, kind=kind), notes
