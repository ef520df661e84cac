"""Means and totals of predictions over groups of rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._utils.checks import check_name, check_single_level, index_of
from .._utils.typing import IntervalKind, MatrixLike
from ._functional import fitted_ribbon
from ._response import LEVEL, Means, Response, of_means, of_rows
from ._table import grouped


def predictions(
    ribbon: BaseEstimator,
    X: MatrixLike,
    by: Any = None,
    *,
    aggregate: Literal["mean", "sum"] | None = "mean",
    kind: IntervalKind = "confidence",
    weights: ArrayLike | None = None,
    confidence_level: float = 0.9,
) -> pd.DataFrame:
    r"""Mean or total of the predictions over groups of rows, with its uncertainty.

    The errors of one model's predictions are correlated, so the interval of a mean is not the mean of the intervals: it
    needs the joint covariance of all rows, computed here without an n x n array. With weights :math:`c_i` and
    predictions :math:`\mu_i`,

    .. math:: \sum_i c_i \mu_i, \qquad
              \mathrm{Var} = \Big(\sum_i c_i \nabla\mu_i\Big) \mathrm{Cov}(\Delta\theta_w)
              \Big(\sum_i c_i \nabla\mu_i\Big)' \quad\big[+ \sum_i c_i^2 \phi_i V(\mu_i)\big],

    the last part for observations only. This is exact if :math:`\mu` is linear in the parameters, and the delta method
    otherwise.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    by : str, int or array-like of shape (n_samples,), default=None
        A column of X, or a label for each row; None puts all rows in one group.
    aggregate : {"mean", "sum"} or None, default="mean"
        None gives every row its own line.
    kind : {"confidence", "prediction"}, default="confidence"
        "confidence" is about the mean function: its average over these rows. "prediction" is about observations at
        these rows, and adds their noise, independent from row to row; the interval uses Student's t with
        Welch-Satterthwaite degrees of freedom.
    weights : array-like of shape (n_samples,), default=None
        Multiply each row's prediction, or observation, such as the exposure of a rate; for a mean they are normalised
        to add up to one. A row that stands for several observations must be repeated instead.
    confidence_level : float, default=0.9

    Returns
    -------
    DataFrame
        Columns term (the group, "all", or the row's index), class (for a classifier), estimate, std_error, statistic,
        df, p_value (of an estimate of zero; missing for observations), conf_low, conf_high.

    Notes
    -----
    Class probabilities are those at the fitted parameters, with logits divided by the temperature, and their
    uncertainty is by the delta method. ``predict_proba`` averages over the parameters instead, and is slightly closer
    to equal probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import predictions
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> predictions(ribbon, X, by="sex")[["term", "estimate", "std_error", "conf_low", "conf_high"]].round(0)
       term  estimate  std_error  conf_low  conf_high
    0   1.0     149.0        4.0     143.0      155.0
    1   2.0     156.0        4.0     150.0      162.0
    >>> total = predictions(ribbon, X, aggregate="sum", kind="prediction")
    >>> total[["term", "estimate", "std_error"]].round(0)
      term  estimate  std_error
    0  all   67243.0     1613.0
    """
    level = check_single_level(confidence_level)
    check_name(kind, "kind", ("confidence", "prediction"))
    if aggregate is not None:
        check_name(aggregate, "aggregate", ("mean", "sum"))
    response = Response(fitted_ribbon(ribbon, "predictions"))
    if kind == "prediction" and response.classes is not None:
        raise ValueError("kind='prediction' is for regressors; use kind='confidence' for a classifier.")
    labels: dict[str, Any]
    if aggregate is None:
        check_rowwise(by, weights)
        if kind == "prediction":
            raise ValueError("aggregate=None with kind='prediction' is what predict_frame returns; use that.")
        prepared = response.prepared(X)
        inferred = of_rows(LEVEL, response, [prepared], response.estimator.ribbon_)
        labels = {"term": row_labels(X, prepared.shape[0])}
    else:
        groups = grouped(X, by, weights, aggregate)
        means = Means.over(response, response.prepared(X), groups, noise=kind == "prediction")
        inferred = of_means(LEVEL, [means], response.estimator.ribbon_)
        inferred = inferred if means.noise is None else inferred.with_noise(means.noise)
        labels = {"term": groups.labels}
    return inferred.frame(with_classes(labels, response), level, tested=kind == "confidence")


def check_rowwise(by: Any, weights: Any) -> None:
    """Refuse what has no meaning for single rows."""
    for name, given in (("by", by), ("weights", weights)):
        if given is not None:
            raise ValueError(f"{name} is for groups of rows; leave it out with aggregate=None.")


def row_labels(X: Any, n: int) -> Any:
    """The index of a table, or positions."""
    index = index_of(X)
    return np.arange(n) if index is None else index


def with_classes(labels: dict[str, Any], response: Response) -> dict[str, Any]:
    """Labels (m,) with all classes below each of them, (m K,)."""
    if response.classes is None:
        return labels
    K, m = len(response.classes), len(next(iter(labels.values())))
    repeated = {name: [value for value in values for _ in range(K)] for name, values in labels.items()}
    return {**repeated, "class": np.tile(response.classes, m)}
