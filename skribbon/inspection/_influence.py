"""Which training rows a prediction, or the width of an interval, rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._utils.checks import index_of
from .._utils.typing import MatrixLike
from ._question import Question, Scale, warn_of_certainty
from ._row_influence import Effects, contributions, influences, left_out_step

FEW = 5  # labels that an error lists


def influence(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    X: MatrixLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    scale: Scale = "prediction",
    top: int | None = None,
) -> pd.DataFrame:
    r"""How far each training row, or group, has moved each prediction: with the row minus without it.

    Nothing is refitted. The fit without row i is one Newton step away,

    .. math:: \hat f(x) - \hat f_{(i)}(x) \approx -J_x H_r^{-1} J_i' (I - C_i A_i)^{-1} u_i / n,

    with the row's block :math:`C_i A_i` of the hat matrix and the gradient :math:`u_i` of its loss. For least squares,
    and for ridge with an unchanged penalty, that is exactly what a refit would give; for other models it is the first
    step of a refit. Curvatures without leverages (Kronecker factors, diagonals, products) treat them as zero.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier or RibbonCV
    X_train : {array-like, sparse matrix} of shape (n_train, n_features)
        The training rows, which a Ribbon does not keep; likewise ``y_train``, ``sample_weight`` and ``groups``. Other
        rows are refused.
    y_train : array-like of shape (n_train,)
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows whose predictions are explained.
    sample_weight : array-like of shape (n_train,), default=None
        A row is left out with all its copies.
    groups : array-like of shape (n_train,), default=None
        If the Ribbon was fitted with groups, whole groups are left out.
    scale : {"prediction", "raw"}, default="prediction"
        "prediction" is what ``predict`` returns, or class probabilities; "raw" is the scale before the link or the
        inverse target transform: linear predictors, logits, the transformed target.
    top : int, default=None
        Return only this many rows for each prediction, those of largest influence, without building the full table.

    Returns
    -------
    DataFrame
        A row per training row (its index, or position) or group, and a column per prediction, or per prediction and
        class for a classifier. With ``top``, columns prediction, class, row (or group) and influence, in the order of
        the predictions and then of size.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import influence
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> influence(ribbon, X, y, X[:1], top=3).round(2)
       prediction  row  influence
    0           0  290       1.42
    1           0  362       1.26
    2           0  138       1.19
    >>> influence(ribbon, X, y, X[:2]).shape
    (442, 2)
    """
    asked = Question.of(ribbon, "influence", X_train, y_train, X, sample_weight, groups, scale)
    top = asked.checked_top(top)
    effects = influences(asked.training, asked.jacobian, asked.change, top)
    warn_of_certainty(effects.certain, asked.training.rows.groups is None)
    return asked.table(effects, "influence", top)


def variance_contributions(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    X: MatrixLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    share: bool = True,
    scale: Scale = "prediction",
    top: int | None = None,
) -> pd.DataFrame:
    r"""How much each training row, or group, contributes to the epistemic variance of each prediction.

    The variance is a sum over rows, so it can be taken apart,

    .. math:: \mathrm{Var}\, f(x) = \frac{1}{n\alpha + 1} \frac1n \sum_i \big(J_x H_r^{-1} (g_i - \bar g)\big)^2,

    with the corrected scores :math:`g_i` that the Ribbon is built from. A row far from the fit and in the direction of
    x makes an interval wide; one that lies on the fit adds nothing, however close to x it is.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier or RibbonCV
    X_train : {array-like, sparse matrix} of shape (n_train, n_features)
        The training rows; likewise ``y_train``, ``sample_weight`` and ``groups``. Other rows are refused.
    y_train : array-like of shape (n_train,)
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows whose intervals are explained.
    sample_weight : array-like of shape (n_train,), default=None
    groups : array-like of shape (n_train,), default=None
        Contributions are then those of whole groups.
    share : bool, default=True
        Whether to return shares, which add up to one, or variances, which add up to the epistemic variance.
    scale : {"prediction", "raw"}, default="prediction"
        As in :func:`~skribbon.inspection.influence`. With a link or a transform, variances are by the delta method, and
        shares of a single raw prediction are the same on both scales.
    top : int, default=None
        Return only this many rows for each prediction, those of largest contribution.

    Returns
    -------
    DataFrame
        As in :func:`~skribbon.inspection.influence`; with ``top`` the last column is ``contribution``.

    Notes
    -----
    If a Ribbon is held as draws, its variance is that of the draws, and the contributions are those to their limit.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import variance_contributions
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> shares = variance_contributions(ribbon, X, y, X[:2])
    >>> shares.sum().round(6).tolist()
    [1.0, 1.0]
    >>> variance_contributions(ribbon, X, y, X[:1], top=2).round(3)
       prediction  row  contribution
    0           0  290         0.040
    1           0  362         0.031
    """
    asked = Question.of(ribbon, "variance_contributions", X_train, y_train, X, sample_weight, groups, scale)
    top = asked.checked_top(top)
    estimator, gradients = asked.estimator, asked.gradients
    effects = contributions(asked.training, gradients, estimator.correction_, float(estimator.alpha), top)
    if share:
        found = effects.values
        total = found.sum(axis=0) if top is None else found.total
        total = np.where(total > 0, total, 1.0)
        effects = Effects(found / total if top is None else replace(found, values=found.values / total))
    return asked.table(effects, "contribution", top)


def leave_out(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    rows: ArrayLike,
    X: MatrixLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    scale: Scale = "prediction",
) -> pd.DataFrame:
    """Predictions as if some training rows had not been there: one row, a set, or a whole group.

    Nothing is refitted. For least squares, and for ridge with an unchanged penalty, the result is that of a refit
    without the rows; for other models it is that of the first Newton step, which is accurate if few rows out of many
    are left out.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier or RibbonCV
    X_train : {array-like, sparse matrix} of shape (n_train, n_features)
        The training rows; likewise ``y_train``, ``sample_weight`` and ``groups``. Other rows are refused.
    y_train : array-like of shape (n_train,)
    rows : label, array-like of labels or bool array-like of shape (n_train,)
        The rows to leave out: labels from the index of ``X_train``, positions if it has none, or a mask, such as
        ``groups == "a"``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    sample_weight : array-like of shape (n_train,), default=None
    groups : array-like of shape (n_train,), default=None
    scale : {"prediction", "raw"}, default="prediction"
        As in :func:`~skribbon.inspection.influence`.

    Returns
    -------
    DataFrame
        With the index of X; columns class (for a classifier), prediction, left_out, and change, the second minus the
        first.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import leave_out
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> leave_out(ribbon, X, y, [290, 362], X[:2]).round(1)
       prediction  left_out  change
    0       206.1     203.4    -2.7
    1        68.1      69.1     1.0
    """
    asked = Question.of(ribbon, "leave_out", X_train, y_train, X, sample_weight, groups, scale)
    index = _positions(rows, index_of(X_train), len(asked.training.rows.y))
    if not (np.delete(asked.training.rows.weight, index) > 0).any():
        raise ValueError("rows would leave out everything; keep some rows.")
    step, certain = left_out_step(asked.training, index)
    warn_of_certainty(certain, by_rows=False)
    before, change = asked.values, asked.change((asked.jacobian @ step)[None])[0]
    columns = {"prediction": before, "left_out": before - change, "change": -change}
    labels, K = asked.labels, 1 if asked.outputs is None else len(asked.outputs)
    if asked.outputs is not None:
        columns = {"class": np.tile(asked.outputs, len(labels)), **columns}
    return pd.DataFrame(columns, index=labels.repeat(K))


# ---------------------------------------------------------------------- rows by their names
def _positions(rows: Any, index: pd.Index | None, n: int) -> NDArray[np.intp]:
    """Positions of labels, or of a mask, among n rows."""
    given = np.atleast_1d(np.asarray(rows))
    if given.ndim != 1 or not given.size:
        raise ValueError(f"rows must be a label, a sequence of labels, or a mask, got {rows!r}.")
    if given.dtype == bool:
        if len(given) != n:
            raise ValueError(f"rows: a mask must say yes or no for each of {n} training rows, got {len(given)}.")
        return _not_empty(np.flatnonzero(given))
    names = pd.RangeIndex(n) if index is None else index
    unknown = given[~np.isin(given, names)] if given.dtype != object else [r for r in given if r not in names]
    if len(unknown):
        cure = f"positions are 0 to {n - 1}" if index is None else f"its index has {list(names[:FEW])} and others"
        raise ValueError(f"rows: {unknown[0]!r} is not a row of X_train; {cure}.")
    return np.flatnonzero(names.isin(given))


def _not_empty(found):
    if not len(found):
        raise ValueError("rows: the mask leaves nothing out; mark at least one row.")
    return found
