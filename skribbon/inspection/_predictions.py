"""Means of predictions over rows, how they change with one column, and their course along it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats.mstats import mquantiles
from sklearn.base import BaseEstimator

from .._utils.checks import check_count, check_name, check_single_level, index_of
from .._utils.typing import IntervalKind, MatrixLike
from ._functional import (
    LEVEL,
    LOG_RATIO,
    Combination,
    Inferred,
    Means,
    Response,
    difference,
    fitted_ribbon,
    infer_means,
    infer_rows,
)
from ._table import Column, grouped


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
        Multiply each row's prediction, or observation, such as the exposure of a rate; for a mean they are normalized
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
        _check_rowwise(by, weights)
        if kind == "prediction":
            raise ValueError("aggregate=None with kind='prediction' is what predict_frame returns; use that.")
        prepared = response.prepared(X)
        inferred = infer_rows(LEVEL, response, [prepared], response.estimator.ribbon_)
        labels = {"term": row_labels(X, prepared.shape[0])}
    else:
        groups = grouped(X, by, weights, aggregate)
        means = Means.from_rows(response, response.prepared(X), groups, noise=kind == "prediction")
        inferred = infer_means(LEVEL, [means], response.estimator.ribbon_)
        inferred = inferred if means.noise is None else inferred.with_noise(means.noise)
        labels = {"term": groups.labels}
    return inferred.frame(_with_classes(labels, response), level, tested=kind == "confidence")


def comparisons(
    ribbon: BaseEstimator,
    X: MatrixLike,
    column: str | int,
    values: Any = None,
    by: Any = None,
    *,
    transform: Literal["difference", "ratio"] = "difference",
    aggregate: Literal["mean"] | None = "mean",
    weights: ArrayLike | None = None,
    confidence_level: float = 0.9,
) -> pd.DataFrame:
    """How predictions change when one column changes and all others stay the same, averaged over rows.

    The column is changed in your original table, text and categories included, and goes through the whole pipeline with
    the other columns: "what if everybody smoked, compared with nobody". Whether that is an effect of smoking depends on
    how the data were collected.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to average over.
    column : str or int
        Name, or position if X has no names.
    values : number or sequence of two or more values, default=None
        A number is a step from each row's own value; the values of a sequence are each compared with the first. None is
        a step of one for numbers, 0 to 1 for columns of only 0 and 1, False to True for booleans, and for categories
        all those in X compared with the first. For numeric codes of categories, give a sequence.
    by : str, int or array-like of shape (n_samples,), default=None
        A column of X, or a label for each row; None puts all rows in one group.
    transform : {"difference", "ratio"}, default="difference"
        "ratio" is the ratio of the two means; its interval is computed on the log scale, and its test is against a
        ratio of one.
    aggregate : {"mean"} or None, default="mean"
        None gives every row its own lines.
    weights : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    confidence_level : float, default=0.9

    Returns
    -------
    DataFrame
        Columns term, contrast, group (if ``by``) or row, class (for a classifier), estimate, std_error, statistic, df,
        p_value, conf_low, conf_high. Class probabilities are those at the fitted parameters, see
        :func:`~skribbon.inspection.predictions`.

    Examples
    --------
    >>> from skribbon.inspection import comparisons
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> shown = ["term", "contrast", "estimate", "std_error", "conf_low", "conf_high"]
    >>> comparisons(ribbon, X, "bmi", values=5)[shown].round(1)
      term contrast  estimate  std_error  conf_low  conf_high
    0  bmi       +5      28.0        3.6      22.0       34.0
    >>> comparisons(ribbon, X, "sex", values=(1, 2), transform="ratio")[shown].round(1)
      term contrast  estimate  std_error  conf_low  conf_high
    0  sex    2 / 1       0.9        0.0       0.8        0.9
    """
    level = check_single_level(confidence_level)
    check_name(transform, "transform", ("difference", "ratio"))
    response, chosen = Response(fitted_ribbon(ribbon, "comparisons")), Column.of(X, column)
    combination = difference() if transform == "difference" else LOG_RATIO
    reference, changed, contrasts = _contrasts(chosen, values, transform, response.model.preprocess)
    inferred, labels = _compared(response, chosen, combination, reference, changed, contrasts, by, aggregate, weights)
    return inferred.frame(labels, level, exponentiate=combination.logarithm)


def slopes(
    ribbon: BaseEstimator,
    X: MatrixLike,
    column: str | int,
    by: Any = None,
    *,
    aggregate: Literal["mean"] | None = "mean",
    weights: ArrayLike | None = None,
    confidence_level: float = 0.9,
) -> pd.DataFrame:
    """How fast predictions change along one numeric column, averaged over rows.

    The derivative is a central difference over a ten-thousandth of the column's range to each side, through the whole
    pipeline; its standard error is that of a difference over two hundredths. For a linear model without transformers it
    is the coefficient; for any other model it answers the question that one would put to a coefficient. After steps
    such as binning it is zero almost everywhere: use :func:`~skribbon.inspection.comparisons` there.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to average over.
    column : str or int
        Name, or position if X has no names.
    by : str, int or array-like of shape (n_samples,), default=None
        A column of X, or a label for each row; None puts all rows in one group.
    aggregate : {"mean"} or None, default="mean"
        None gives every row its own lines.
    weights : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    confidence_level : float, default=0.9

    Returns
    -------
    DataFrame
        Columns term, contrast ("dY/dX"), group (if ``by``) or row, class (for a classifier), estimate, std_error,
        statistic, df, p_value, conf_low, conf_high.

    Examples
    --------
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> from skribbon.inspection import slopes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> curve = make_pipeline(PolynomialFeatures(2, include_bias=False), LinearRegression())
    >>> ribbon = RibbonRegressor(curve).fit(X[["bmi", "bp"]], y)
    >>> heavy = X["bmi"] > 30
    >>> slopes(ribbon, X[["bmi", "bp"]], "bmi", by=heavy)[["group", "estimate", "std_error"]].round(1)
       group  estimate  std_error
    0  False       8.2        1.0
    1   True       9.3        1.6
    """
    level = check_single_level(confidence_level)
    response, chosen = Response(fitted_ribbon(ribbon, "slopes")), Column.of(X, column)
    if not chosen.is_numeric:
        raise ValueError(f"column={column!r} does not hold numbers, so there is no slope along it; use comparisons.")
    x = chosen.values.to_numpy(dtype=float)
    span = np.nanmax(x) - np.nanmin(x)
    tables = []
    # Steps as shares of the column's range. The short one, for the estimate, is below the scale of curves and above
    # rounding; over the long one, for the standard error, the kinks of a network average out.
    for reach in (1e-4, 0.02):
        step = reach * (span or max(1.0, np.nanmax(np.abs(x))))
        change = difference(2 * step, reach), x - step, [x + step], ["dY/dX"]
        tables.append(_compared(response, chosen, *change, by, aggregate, weights))
    (slope, labels), (wide, _) = tables
    return replace(wide, estimate=slope.estimate).frame(labels, level)


def partial_dependence(
    ribbon: BaseEstimator,
    X: MatrixLike,
    features: str | int | Sequence[str | int],
    *,
    grid_resolution: int = 50,
    percentiles: tuple[float, float] = (0.05, 0.95),
    custom_values: Mapping[Any, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    confidence_level: float = 0.9,
) -> pd.DataFrame:
    """Mean prediction over all rows with one column set to each value of a grid, with its uncertainty.

    The estimates are those of :func:`sklearn.inspection.partial_dependence` with ``kind="average"`` and
    ``method="brute"`` on the base model, and the grid is the same. Intervals hold for each value by itself, not for
    the whole curve at once.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to average over; each value of the grid costs a prediction of all of them.
    features : str, int or sequence of them
        Columns, one at a time.
    grid_resolution : int, default=50
        Number of values for a numeric column, or its distinct values in X if these are fewer. All categories are used.
    percentiles : tuple of two floats, default=(0.05, 0.95)
        Quantiles of the column between which the grid lies.
    custom_values : dict, default=None
        Maps a feature to a grid of your own.
    weights : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    confidence_level : float, default=0.9

    Returns
    -------
    DataFrame
        Columns term (the feature), value, class (for a classifier), estimate, std_error, statistic, df, p_value,
        conf_low, conf_high. Class probabilities are those at the fitted parameters, see
        :func:`~skribbon.inspection.predictions`.

    Examples
    --------
    >>> from skribbon.inspection import partial_dependence
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> curve = partial_dependence(ribbon, X, "bmi", grid_resolution=3)
    >>> curve[["term", "value", "estimate", "conf_low", "conf_high"]].round(0)
      term  value  estimate  conf_low  conf_high
    0  bmi   20.0     117.0     109.0      126.0
    1  bmi   27.0     157.0     153.0      162.0
    2  bmi   34.0     197.0     186.0      208.0
    """
    level = check_single_level(confidence_level)
    check_count(grid_resolution, "grid_resolution", 2)
    low, high = percentiles
    if not 0 <= low < high <= 1:
        raise ValueError(f"percentiles must be two increasing numbers from 0 to 1, got {percentiles!r}.")
    response = Response(fitted_ribbon(ribbon, "partial_dependence"))
    chosen = Column.several(X, features, "features")
    if not chosen:
        raise ValueError("features must name at least one column of X, got an empty sequence.")
    own = {Column.of(X, name, "custom_values").name: np.asarray(grid) for name, grid in (custom_values or {}).items()}
    groups = grouped(chosen[0].X, None, weights, "mean")
    labels: dict[str, list[Any]] = {"term": [], "value": []}
    pieces = []
    for column in chosen:
        grid = own[column.name].tolist() if column.name in own else _grid(column, grid_resolution, low, high)
        column.check_known(grid, response.model.preprocess)
        for value in grid:
            means = Means.from_rows(response, response.prepared(column.replaced(value)), groups)
            pieces.append(infer_means(LEVEL, [means], response.estimator.ribbon_))
        labels["term"] += [column.name] * len(grid)
        labels["value"] += list(grid)
    return Inferred.concatenate(pieces).frame(_with_classes(labels, response), level)


# ---------------------------------------------------------------------- shared by the tables
def _compared(
    response: Response,
    chosen: Column,
    combination: Combination,
    reference: Any,
    changed: Sequence[Any],
    contrasts: Sequence[str],
    by: Any,
    aggregate: Any,
    weights: Any,
) -> tuple[Inferred, dict[str, Any]]:
    """Inference about changed values of a column against a reference, None for the column as it is, with its labels."""
    ribbon = response.estimator.ribbon_
    if aggregate is None:
        _check_rowwise(by, weights)
    else:
        check_name(aggregate, "aggregate", ("mean",))
        groups = grouped(chosen.X, by, weights, aggregate)
    before = response.prepared(chosen.X if reference is None else chosen.replaced(reference))
    after = (response.prepared(chosen.replaced(value)) for value in changed)
    if aggregate is None:
        name, places = "row", list(row_labels(chosen.X, before.shape[0]))
        pieces = [infer_rows(combination, response, [X, before], ribbon) for X in after]
    else:
        name, places = "group", list(groups.labels)
        start = Means.from_rows(response, before, groups)
        pieces = [infer_means(combination, [Means.from_rows(response, X, groups), start], ribbon) for X in after]
    labels = {"term": [chosen.name] * len(places) * len(contrasts), "contrast": list(np.repeat(contrasts, len(places)))}
    if by is not None or aggregate is None:
        labels[name] = places * len(contrasts)
    return Inferred.concatenate(pieces), _with_classes(labels, response)


def _contrasts(chosen: Column, values: Any, transform: str, transformers: Any) -> tuple[Any, list[Any], list[str]]:
    """Reference of a comparison (None for the column as it is), the changed values, and names of the contrasts."""
    if values is None:
        values = _usual_values(chosen)
    if isinstance(values, Real) and not isinstance(values, bool):
        if not chosen.is_numeric:
            raise ValueError(f"values={values} is a step, but {chosen.name} holds no numbers; give two of its values.")
        if not np.isfinite(float(values)) or values == 0:
            raise ValueError(f"values={values} is not a step; give a number other than zero, or two values.")
        return None, [chosen.values.to_numpy(dtype=float) + float(values)], [f"{float(values):+g}"]
    if isinstance(values, str) or np.ndim(values) != 1 or len(values) < 2:
        raise ValueError(f"values must be a step or at least two values of {chosen.name}, got {values!r}.")
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    chosen.check_known(values, transformers)
    sign = "-" if transform == "difference" else "/"
    first, *others = values
    return first, others, [f"{other} {sign} {first}" for other in others]


def _usual_values(chosen: Column) -> Any:
    """Values to compare by default, as in the package marginaleffects."""
    if chosen.is_bool:
        return (False, True)
    if chosen.is_numeric:
        x = chosen.values.dropna().to_numpy(dtype=float)
        return (0, 1) if np.isin(x, (0, 1)).all() else 1
    levels = chosen.levels
    if len(levels) < 2:
        raise ValueError(f"{chosen.name} has a single value in X, {levels}; say which values to compare.")
    return levels


def _grid(column: Column, resolution: int, low: float, high: float) -> list[Any]:
    """Distinct values of a column, or evenly spaced ones if numbers have too many: scikit-learn's rule."""
    levels = column.levels
    if not column.is_numeric or len(levels) < resolution:
        return levels
    ends = mquantiles(column.values.dropna().to_numpy(dtype=float), [low, high])
    if ends[0] == ends[1]:
        raise ValueError(
            f"percentiles={low, high} of {column.name} are the same value; set them further apart, or custom_values."
        )
    return np.linspace(ends[0], ends[1], resolution).tolist()


def _check_rowwise(by: Any, weights: Any) -> None:
    """Refuse ``by`` and ``weights``, which have no meaning for single rows."""
    for name, given in (("by", by), ("weights", weights)):
        if given is not None:
            raise ValueError(f"{name} is for groups of rows; leave it out with aggregate=None.")


def row_labels(X: Any, n: int) -> Any:
    """The index of a table, or positions."""
    index = index_of(X)
    return np.arange(n) if index is None else index


def _with_classes(labels: dict[str, Any], response: Response) -> dict[str, Any]:
    """Labels (m,) with all classes below each of them, (m K,)."""
    if response.classes is None:
        return labels
    K, m = len(response.classes), len(next(iter(labels.values())))
    repeated = {name: [value for value in values for _ in range(K)] for name, values in labels.items()}
    return {**repeated, "class": np.tile(response.classes, m)}
