"""Means of predictions over rows, their changes with one column, and partial dependence on it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.stats.mstats import mquantiles
from sklearn.base import BaseEstimator

from .._utils.checks import check_count, check_in_memory, check_name, check_single_level, listed
from .._utils.frames import as_series, index_of, is_polars, polars_in_polars_out, with_column
from .._utils.typing import IntervalKind, MatrixLike, PerRow
from ._functional import Groups, Inferred, Means, Response, difference, infer_means, infer_rows, log_ratio
from ._population import sample_of


@polars_in_polars_out
def predictions(
    ribbon: BaseEstimator,
    X: MatrixLike,
    by: Any = None,
    *,
    aggregate: Literal["mean", "sum"] | None = "mean",
    kind: IntervalKind = "confidence",
    weights: PerRow = None,
    statistic: Literal["mean", "median"] = "mean",
    confidence_level: float = 0.9,
    class_: Any = None,
    population: bool = False,
    y: PerRow = None,
    sample_weight: PerRow = None,
    groups: Any = None,
) -> pd.DataFrame:
    r"""Mean or total of the predictions over groups of rows, with its uncertainty.

    Errors of one model's predictions are correlated, so the interval of a mean is not the mean of the intervals. With
    weights :math:`c_i` and predictions :math:`\mu_i`,

    .. math:: \sum_i c_i \mu_i, \qquad
              \mathrm{Var} = \Big(\sum_i c_i \nabla\mu_i\Big) \mathrm{Cov}(\Delta\theta_w)
              \Big(\sum_i c_i \nabla\mu_i\Big)' \quad\big[+ \sum_i c_i^2 \phi_i V(\mu_i)\big],

    the last part for observations only; exact if :math:`\mu` is linear in the parameters, else by the delta method.

    With ``population=True`` the rows are random, too. An average with weights that add up to one then has the variance
    of the Bayesian bootstrap, which weighs fit and average by the same random weights:

    .. math:: \mathrm{Var} = \frac{1}{n\alpha + 1} \frac1n \sum_i \psi_i^2, \qquad
              \psi_i = n c_i (\mu_i - \bar\mu) - \Big(\sum_j c_j \nabla\mu_j\Big) H_r^{-1} g_i .

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    by : str, int or array-like of shape (n_samples,), default=None
        A column of X, or a label for each row; None puts all rows in one group.
    aggregate : {"mean", "sum"} or None, default="mean"
        None gives every row its own line.
    kind : {"confidence", "prediction"}, default="confidence"
        "confidence" is about the mean function, "prediction" about observations at these rows: it adds their noise,
        independent from row to row, with Welch-Satterthwaite degrees of freedom.
    weights : array-like of shape (n_samples,), default=None
        Multiply each row's prediction, such as the exposure of a rate; in a mean they are normalized.
    statistic : {"mean", "median"}, default="mean"
        Prediction of a row whose target is transformed. "mean" is the expectation of y over the noise e,
        :math:`E[g(f + e)]` with the inverse transform g. "median" is :math:`g(f)`, which ``predict`` returns: the
        median of y if the noise is symmetric. Without a transform both are the mean.
    confidence_level : float, default=0.9
    class_ : label or sequence of labels, default=None
        Classes whose probabilities are shown. None is the second of two classes, ``classes_[1]``, or all of more.
    population : bool, default=False
        Whether the average is about the population that the rows of X were sampled from, so that other rows could have
        been sampled, or about these rows as they are. Infinite standard errors if an average is over a single row.
    y : array-like of shape (n_samples,), default=None
        For ``population``: the training target if X are the training rows. Then the average and the fit vary together;
        else X is taken as another sample, independent of the training rows.
    sample_weight : array-like of shape (n_samples,), default=None
        For ``population``: the weights of the rows in the sample, with the meaning ``weight_type`` of the Ribbon. They
        multiply ``weights``.
    groups : array-like of shape (n_samples,) or (n_samples, k), default=None
        For ``population``: labels of dependent rows, as in ``fit``.

    Returns
    -------
    DataFrame
        Columns term (the group, "all", or the row's index), class (with probabilities at the fitted parameters),
        estimate, std_error, statistic, df, p_value (missing for observations), conf_low, conf_high.

    See Also
    --------
    comparisons : Differences between predictions.
    slopes : Derivatives of predictions.

    Notes
    -----
    The mean of a transformed target depends on the noise distribution. Its standard error includes the uncertainty of
    that distribution, estimated from as many values as there are training rows or groups. The exponential of
    heavy-tailed noise has no mean. Noise of a transformed target therefore ends at the smallest and largest residual
    if it is empirical, and at its quantiles 0.001 and 0.999 if it is Student's t; draws end there too. An infinite mean
    is refused: the inverse transform has a pole within the noise, as 1 / t has, and PowerTransformer's can have.

    Estimates are at the fitted parameters. Draws also vary the parameters, so with a convex inverse transform their
    mean is slightly larger: with a logarithm by half of the epistemic variance, relative to the mean.

    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import predictions
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> predictions(ribbon, X, by="sex")[["term", "estimate", "std_error", "conf_low", "conf_high"]].round(0)
       term  estimate  std_error  conf_low  conf_high
    0   1.0     149.0        4.0     143.0      155.0
    1   2.0     156.0        4.0     150.0      162.0
    """
    level = check_single_level(confidence_level)
    check_name(kind, "kind", ("confidence", "prediction"))
    response = Response(ribbon, "predictions", class_=class_, statistic=statistic, tuned=kind == "prediction")
    if kind == "prediction" and response.classes is not None:
        raise ValueError(
            "kind='prediction' is for regressors. For a classifier, use kind='confidence' for the expected share or "
            "number. The observed number varies more: add Bernoulli noise to draws of predict_proba_samples."
        )
    if kind == "prediction" and statistic == "median":
        raise ValueError("statistic='median' has no kind='prediction': observations add up to means; use 'mean'.")
    check_in_memory(X)
    if population and kind == "prediction":
        raise ValueError("population=True is about the mean function; use kind='confidence'.")
    sample = sample_of(response, "predictions", X, population, (y, sample_weight, groups))
    means_of, sampling = _averaged(X, by, weights, aggregate, sample, ("mean", "sum"))
    if means_of is None and kind == "prediction":
        raise ValueError("aggregate=None with kind='prediction' is what predict_frame returns; use that.")
    prepared = response.prepared(X)
    if means_of is None:
        inferred, terms = infer_rows(response, [prepared]), row_labels(X, prepared.shape[0])
    else:
        means = Means.from_rows(response, prepared, means_of, kind == "prediction", sampling is not None)
        inferred, terms = infer_means(response, [means], sampling=sampling), means_of.labels
        inferred = inferred if means.noise is None else inferred.with_part(means.noise)
    return inferred.frame(_with_classes({"term": terms}, response), level, tested=kind == "confidence")


@polars_in_polars_out
def comparisons(
    ribbon: BaseEstimator,
    X: MatrixLike,
    column: str | int,
    values: Any = None,
    by: Any = None,
    *,
    transform: Literal["difference", "ratio"] = "difference",
    aggregate: Literal["mean"] | None = "mean",
    weights: PerRow = None,
    statistic: Literal["mean", "median"] = "mean",
    confidence_level: float = 0.9,
    class_: Any = None,
    population: bool = False,
    y: PerRow = None,
    sample_weight: PerRow = None,
    groups: Any = None,
) -> pd.DataFrame:
    """How predictions change when one column changes and all others stay the same, averaged over rows.

    The column is changed in your original table, text and categories included, and goes through the whole pipeline:
    "what if everybody smoked, compared with nobody". Whether that is a causal effect depends on the data.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    column : str or int
        Name, or position if X has no names.
    values : number or sequence of two or more values, default=None
        A number is a step from each row's own value; the values of a sequence are each compared with the first. None is
        a step of one for numbers, 0 to 1 for columns of only 0 and 1, False to True for booleans, and all categories in
        X. For numeric codes of categories, give a sequence.
    by : see :func:`~skribbon.inspection.predictions`
    transform : {"difference", "ratio"}, default="difference"
        "ratio" divides the two means; its interval is computed on the log scale, and its test is against one.
    aggregate, weights, statistic, confidence_level, class_ : see :func:`~skribbon.inspection.predictions`; no "sum"
    population, y, sample_weight, groups : see :func:`~skribbon.inspection.predictions`

    Returns
    -------
    DataFrame
        Columns term, contrast, group (if ``by``) or row, class (for a classifier), estimate, std_error, statistic, df,
        p_value, conf_low, conf_high.

    See Also
    --------
    slopes : Derivatives instead of differences.
    predictions : Means of predictions.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import comparisons
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> table = comparisons(RibbonRegressor().fit(X, y), X, "bmi", values=5)
    >>> table[["term", "contrast", "estimate", "std_error", "conf_low", "conf_high"]].round(1)
      term contrast  estimate  std_error  conf_low  conf_high
    0  bmi       +5      28.0        3.6      22.0       34.0
    """
    level = check_single_level(confidence_level)
    check_name(transform, "transform", ("difference", "ratio"))
    response, chosen = Response(ribbon, "comparisons", class_=class_, statistic=statistic), Column.of(X, column)
    combine = difference if transform == "difference" else log_ratio
    change = _contrasts(chosen, values, transform, response.model.preprocess)
    sample = sample_of(response, "comparisons", chosen.X, population, (y, sample_weight, groups))
    inferred, labels = _compare(response, chosen, combine, change, (by, weights, aggregate, sample))
    return inferred.frame(labels, level, exponentiate=transform == "ratio")


@polars_in_polars_out
def slopes(
    ribbon: BaseEstimator,
    X: MatrixLike,
    column: str | int,
    by: Any = None,
    *,
    aggregate: Literal["mean"] | None = "mean",
    weights: PerRow = None,
    statistic: Literal["mean", "median"] = "mean",
    confidence_level: float = 0.9,
    class_: Any = None,
    population: bool = False,
    y: PerRow = None,
    sample_weight: PerRow = None,
    groups: Any = None,
) -> pd.DataFrame:
    """How fast predictions change along one numeric column, averaged over rows.

    The derivative is a central difference over 0.0001 of the column's range to each side, through the whole pipeline;
    its standard error is computed over 0.02. For a linear model without transformers the slope is the coefficient.
    After steps such as binning it is zero almost everywhere: use :func:`~skribbon.inspection.comparisons` there.

    Parameters
    ----------
    ribbon, X, column, by, aggregate, weights, statistic : see :func:`~skribbon.inspection.comparisons`
    confidence_level, class_, population, y, sample_weight, groups : see :func:`~skribbon.inspection.comparisons`

    Returns
    -------
    DataFrame
        As in :func:`~skribbon.inspection.comparisons`, with contrast "dY/dX".

    See Also
    --------
    comparisons : Differences instead of derivatives.
    predictions : Means of predictions.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import slopes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> slopes(RibbonRegressor().fit(X, y), X, "bmi")[["term", "estimate", "std_error"]].round(1)
      term  estimate  std_error
    0  bmi       5.6        0.7
    """
    level = check_single_level(confidence_level)
    response, chosen = Response(ribbon, "slopes", class_=class_, statistic=statistic), Column.of(X, column)
    if not chosen.is_numeric:
        raise ValueError(f"column={column!r} does not hold numbers, so there is no slope along it; use comparisons.")
    x = chosen.values.to_numpy(dtype=float)
    span = np.nanmax(x) - np.nanmin(x)
    tables, sample = [], sample_of(response, "slopes", chosen.X, population, (y, sample_weight, groups))
    # Steps as shares of the column's range. The short one, for the estimate, is below the scale of curves and above
    # rounding; over the long one, for the standard error, the kinks of a network average out.
    for share in (1e-4, 0.02):
        step = share * (span or max(1.0, np.nanmax(np.abs(x))))
        change = x - step, [x + step], ["dY/dX"]
        combine = partial(difference, step=2 * step)
        tables.append(_compare(response, chosen, combine, change, (by, weights, aggregate, sample), share))
    (slope, labels), (wide, _) = tables
    return replace(wide, estimate=slope.estimate).frame(labels, level)


@polars_in_polars_out
def partial_dependence(
    ribbon: BaseEstimator,
    X: MatrixLike,
    features: str | int | Sequence[str | int],
    *,
    grid_resolution: int = 50,
    percentiles: tuple[float, float] = (0.05, 0.95),
    custom_values: Mapping[Any, ArrayLike] | None = None,
    weights: PerRow = None,
    statistic: Literal["mean", "median"] = "mean",
    confidence_level: float = 0.9,
    class_: Any = None,
    population: bool = False,
    y: PerRow = None,
    sample_weight: PerRow = None,
    groups: Any = None,
) -> pd.DataFrame:
    """Mean prediction over all rows with one column set to each value of a grid, with its uncertainty.

    Estimates and grid agree with :func:`sklearn.inspection.partial_dependence` on the base model, with
    ``kind="average"`` and ``method="brute"``; for a transformed target with ``statistic="median"``. Intervals hold for
    each value by itself, not for the whole curve at once.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    features : str, int or sequence of them
    grid_resolution : int, default=50
        Number of values for a numeric column, or its distinct values in X if these are fewer. All categories are used.
    percentiles : tuple of two floats, default=(0.05, 0.95)
        Quantiles of the column between which the grid lies.
    custom_values : dict, default=None
        Maps a feature to a grid of your own.
    weights, statistic, confidence_level, class_, population, y, sample_weight, groups : see \
            :func:`~skribbon.inspection.predictions`

    Returns
    -------
    DataFrame
        Columns term (the feature), value, class (for a classifier), estimate, std_error, statistic, df, p_value,
        conf_low, conf_high.

    See Also
    --------
    skribbon.plotting.PartialDependenceDisplay : Plot of the result.
    slopes : Derivatives of predictions.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import partial_dependence
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> curve = partial_dependence(RibbonRegressor().fit(X, y), X, "bmi", grid_resolution=2)
    >>> curve[["term", "value", "estimate", "conf_low", "conf_high"]].round(0)
      term  value  estimate  conf_low  conf_high
    0  bmi   20.0     117.0     109.0      126.0
    1  bmi   34.0     197.0     186.0      208.0
    """
    level = check_single_level(confidence_level)
    check_count(grid_resolution, "grid_resolution", 2)
    low, high = percentiles
    if not 0 <= low < high <= 1:
        raise ValueError(f"percentiles must be two increasing numbers from 0 to 1, got {percentiles!r}.")
    response = Response(ribbon, "partial_dependence", class_=class_, statistic=statistic)
    chosen = Column.several(X, features, "features")
    if not chosen:
        raise ValueError("features must name at least one column of X, got an empty sequence.")
    own = {Column.of(X, name, "custom_values").name: np.asarray(grid) for name, grid in (custom_values or {}).items()}
    sample = sample_of(response, "partial_dependence", chosen[0].X, population, (y, sample_weight, groups))
    means_of, sampling = _averaged(chosen[0].X, None, weights, "mean", sample)
    labels: dict[str, list[Any]] = {"term": [], "value": []}
    pieces = []
    for column in chosen:
        grid = own[column.name].tolist() if column.name in own else _grid(column, grid_resolution, low, high)
        column.check_known(grid, response.model.preprocess)
        for value in grid:
            means = Means.from_rows(response, response.prepared(column.replaced(value)), means_of, keep=population)
            pieces.append(infer_means(response, [means], sampling=sampling))
        labels["term"] += [column.name] * len(grid)
        labels["value"] += list(grid)
    return Inferred.concatenate(pieces).frame(_with_classes(labels, response), level)


def _compare(response, chosen, combine, change, rows, unit_share=1.0):
    """Infer changed values of a column against a reference, None for the column as it is, and label the estimates."""
    (reference, changed, contrasts), by = change, rows[0]
    groups, sampling = _averaged(chosen.X, *rows)
    before = response.prepared(chosen.X if reference is None else chosen.replaced(reference))
    after = (response.prepared(chosen.replaced(value)) for value in changed)
    if groups is None:
        name, places = "row", list(row_labels(chosen.X, before.shape[0]))
        pieces = [infer_rows(response, [X, before], combine, unit_share) for X in after]
    else:
        name, places = "group", list(groups.labels)
        start = Means.from_rows(response, before, groups, keep=sampling is not None)
        means = ([Means.from_rows(response, X, groups, keep=sampling is not None), start] for X in after)
        pieces = [infer_means(response, pair, combine, unit_share, sampling) for pair in means]
    labels = {"term": [chosen.name] * len(places) * len(contrasts), "contrast": list(np.repeat(contrasts, len(places)))}
    if by is not None or groups is None:
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
    if pd.api.types.is_bool_dtype(chosen.values.dtype):
        return (False, True)
    if chosen.is_numeric:
        x = chosen.values.dropna().to_numpy(dtype=float)
        return (0, 1) if np.isin(x, (0, 1)).all() else 1
    levels = chosen.levels
    if len(levels) < 2:
        raise ValueError(f"{chosen.name} has a single value in X, {levels}; give the values to compare.")
    return levels


def _grid(column: Column, resolution: int, low: float, high: float) -> list[Any]:
    """Distinct values of a column, or evenly spaced ones if numbers have too many: scikit-learn's rule."""
    levels = column.levels
    if not column.is_numeric or len(levels) < resolution:
        return levels
    ends = mquantiles(column.values.dropna().to_numpy(dtype=float), [low, high])
    if ends[0] == ends[1]:
        raise ValueError(f"percentiles={low, high} of {column.name} are equal; set others, or custom_values.")
    return np.linspace(ends[0], ends[1], resolution).tolist()


def _averaged(X, by, weights, aggregate, sample=None, allowed=("mean",)) -> tuple[Any, Any]:
    """Groups to aggregate over, and the sampling of ``infer_means``; None if rows are not aggregated, or no sample."""
    if aggregate is not None:
        check_name(aggregate, "aggregate", allowed)
    if sample is not None:
        if aggregate != "mean":
            raise ValueError("population=True is about averages; use aggregate='mean'.")
        given = sample.average * _checked_weights(weights, len(sample.weight), "mean")
        groups = grouped(X, by, given, "mean")
        return groups, partial(sample.part, groups)
    if aggregate is not None:
        return grouped(X, by, weights, aggregate), None
    for name, given in (("by", by), ("weights", weights)):
        if given is not None:
            raise ValueError(f"{name} is for groups of rows; leave it out with aggregate=None.")
    return None, None


def row_labels(X: Any, n: int) -> Any:
    """The index of a table, or positions."""
    index = index_of(X)
    return np.arange(n) if index is None else index


def _with_classes(labels: dict[str, Any], response: Response) -> dict[str, Any]:
    """Repeat labels (m,) for all classes, (m K,)."""
    if response.classes is None:
        return labels
    K, m = len(response.classes), len(next(iter(labels.values())))
    repeated = {name: [value for value in values for _ in range(K)] for name, values in labels.items()}
    return {**repeated, "class": np.tile(response.classes, m)}


def as_table(X: Any) -> Any:
    """Return X as a table whose columns can be selected and replaced."""
    check_in_memory(X)
    if hasattr(X, "iloc") or sparse.issparse(X) or is_polars(X):
        return X
    if hasattr(X, "columns"):
        raise TypeError(f"X is a {type(X).__name__}, whose columns cannot be changed here; pass X.to_pandas().")
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns, got an array of shape {X.shape}.")
    return X


def is_number(values: pd.Series) -> bool:
    """Whether a column has a numeric dtype other than bool."""
    return pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)


def column_position(names: list[Any], width: int, column: Any, parameter: str) -> int:
    """Find one of ``width`` columns by its name, or by its position if no name matches."""
    if column in names:
        return names.index(column)
    if isinstance(column, str):
        cure = f"its columns are {listed(names)}" if names else f"it has no names, so give a position below {width}"
        raise ValueError(f"{parameter}={column!r} is not a column of X; {cure}.")
    try:
        position = operator.index(column)
    except TypeError:
        raise ValueError(f"{parameter} must be the name or position of one column, got {column!r}.") from None
    if not -width <= position < width:
        raise ValueError(f"{parameter}={column} is out of range: X has {width} columns.")
    return position % width


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a DataFrame, an array or a sparse matrix."""

    X: Any  # the table
    position: int
    name: str
    values: pd.Series  # with a numeric or boolean dtype if possible, also if X holds objects

    @classmethod
    def of(cls, X: Any, column: Any, parameter: str = "column") -> Column:
        """Find a column by name, or by position if X has no names."""
        X = as_table(X)
        names = list(getattr(X, "columns", ()))
        position = column_position(names, X.shape[1], column, parameter)
        values = X[:, [position]].toarray().ravel() if sparse.issparse(X) else getattr(X, "iloc", X)[:, position]
        return cls(X, position, str(names[position]) if names else f"x{position}", as_series(values).infer_objects())

    @classmethod
    def several(cls, X: Any, columns: Any, parameter: str = "column") -> list[Column]:
        """Find columns by a name, a position, or a sequence of names and positions."""
        asked = [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else columns
        return [cls.of(X, column, parameter) for column in asked]

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers."""
        return is_number(self.values)

    @property
    def levels(self) -> list[Any]:
        """Distinct values, sorted, or in the order of a categorical dtype."""
        if isinstance(self.values.dtype, pd.CategoricalDtype):
            return list(self.values.cat.remove_unused_categories().cat.categories)
        found = self.values.dropna().unique()
        try:
            return sorted(found)
        except TypeError:
            return sorted(found, key=str)

    def replaced(self, value: Any) -> Any:
        """Copy the table with one value, or a value for each row, in this column."""
        X, j = self.X, self.position
        if sparse.issparse(X):
            X, new = X.tocsc(), np.broadcast_to(np.asarray(value, dtype=float), X.shape[0])
            return sparse.hstack([X[:, :j], sparse.csc_array(new[:, None]), X[:, j + 1 :]], format="csr")
        if is_polars(X):
            return with_column(X, j, value, keep_dtype=not self.is_numeric)
        if hasattr(X, "iloc"):
            X = X.copy(deep=False)
            X.isetitem(j, pd.Series(value, index=X.index, dtype=None if self.is_numeric else X.dtypes.iloc[j]))
            return X
        X = X.astype(np.result_type(X, np.asarray(value))) if self.is_numeric and X.dtype != object else X.copy()
        X[:, j] = value
        return X

    def check_known(self, values: Any, transformers: Any) -> None:
        """Refuse categories that are neither in X nor known to an encoder of the pipeline."""
        known = [] if self.is_numeric else [*self.levels, *_categories(transformers)]
        for value in values:
            if self.is_numeric and (not np.isreal(value) or isinstance(value, str)):
                raise ValueError(f"values of the numeric column {self.name} must be numbers, got {value!r}.")
            if not self.is_numeric and value not in known:
                found = listed([repr(level) for level in self.levels])
                raise ValueError(f"values: {value!r} is not a known value of {self.name}; X has {found}.")


def _categories(transformers: Any) -> list[Any]:
    """Categories of all fitted encoders, inside pipelines and column transformers too."""
    found: list[Any] = []
    for transformer in transformers:
        for steps in ("steps", "transformer_list", "transformers_"):  # of pipelines, unions and column transformers
            found += _categories([step for _, step, *_ in getattr(transformer, steps, ())])
        found += [level for levels in getattr(transformer, "categories_", ()) for level in levels]
    return found


def grouped(X: Any, by: Any, weights: PerRow, aggregate: str) -> Groups:
    """Group the rows of X by ``by``, with the weight of each row in the mean or sum."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    weight = given = _checked_weights(weights, n, aggregate)
    labels, codes = (["all"], np.zeros(n, dtype=np.intp)) if by is None else _codes(X, by, n)
    if aggregate == "mean":
        total = np.bincount(codes, weights=weight, minlength=len(labels))
        if not np.all(total > 0):
            raise ValueError(f"weights of group {labels[int(np.argmin(total))]!r} sum to zero; use aggregate='sum'.")
        weight = weight / total[codes]
    return Groups(labels, codes, weight, given)


def _codes(X, by, n):
    """Labels (m,) of the groups and the group number of each row, (n,)."""
    if isinstance(by, str) or np.ndim(by) == 0:
        by = Column.of(X, by, "by").values
    values = as_series(by)
    if len(values) != n:
        raise ValueError(f"by must be a column of X or have a label for each of its {n} rows, got {len(values)}.")
    codes, labels = pd.factorize(values, sort=True)
    if np.any(codes < 0):
        raise ValueError("by has missing labels; give these rows a group of their own, or drop them.")
    return list(labels), codes.astype(np.intp)


def _checked_weights(weights: PerRow, n: int, aggregate: str) -> NDArray[np.float64]:
    """Check weights (n,), ones if None: finite, and not negative in a mean."""
    if weights is None:
        return np.ones(n)
    weight = np.asarray(weights, dtype=float)
    if weight.shape != (n,) or not np.isfinite(weight).all():
        raise ValueError(f"weights must be {n} finite numbers, one for each row of X, got an array of {weight.shape}.")
    if aggregate == "mean" and weight.min() < 0:
        raise ValueError("weights of a mean must not be negative; aggregate='sum' takes any.")
    return weight
