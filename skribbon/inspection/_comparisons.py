"""What changes in the predictions as one column of the table does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._utils.checks import check_name, check_single_level
from .._utils.typing import MatrixLike
from ._functional import Inferred, fitted_ribbon
from ._predictions import check_rowwise, row_labels, with_classes
from ._response import DIFFERENCE, LOG_RATIO, Combination, Means, Response, of_means, of_rows, quotient
from ._table import Column, grouped

REACH = 1e-4  # of the range of a column, to each side, for a derivative
WIDE = 0.02  # for how it moves with the parameters: kinks, of which a step that short meets none or one, average out


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
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
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
    combination = DIFFERENCE if transform == "difference" else LOG_RATIO
    reference, changed, contrasts = _contrasts(chosen, values, transform, response.model.preprocess)
    return _compared(response, chosen, combination, reference, changed, contrasts, by, aggregate, weights, level)


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
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> from skribbon import RibbonRegressor
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
    for reach in (REACH, WIDE):
        step = reach * (span or max(1.0, np.nanmax(np.abs(x))))
        change = quotient(2 * step, reach), x - step, [x + step], ["dY/dX"]
        tables.append(_inferred(response, chosen, *change, by, aggregate, weights))
    (slope, labels), (wide, _) = tables
    return replace(wide, estimate=slope.estimate).frame(labels, level)


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
    level: float,
) -> pd.DataFrame:
    """The table of a column's changed values against a reference, None for the column as it is."""
    inferred, labels = _inferred(response, chosen, combination, reference, changed, contrasts, by, aggregate, weights)
    return inferred.frame(labels, level, exponentiate=combination.logarithm)


def _inferred(
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
    """What is compared, and the labels of its lines."""
    ribbon = response.estimator.ribbon_
    labels: dict[str, list[Any]] = {"term": [], "contrast": []}
    if aggregate is None:
        check_rowwise(by, weights)
        before = response.prepared(chosen.X if reference is None else chosen.replaced(reference))
        name, places = "row", list(row_labels(chosen.X, before.shape[0]))
        after = (response.prepared(chosen.replaced(value)) for value in changed)
        pieces = [of_rows(combination, response, [X, before], ribbon) for X in after]
    else:
        check_name(aggregate, "aggregate", ("mean",))
        groups = grouped(chosen.X, by, weights, aggregate)
        name, places = "group", list(groups.labels)
        tables = chosen.changing(changed if reference is None else [reference, *changed])
        start = Means.over(response, response.prepared(chosen.X if reference is None else next(tables)), groups)
        after = (Means.over(response, response.prepared(table), groups) for table in tables)
        pieces = [of_means(combination, [means, start], ribbon) for means in after]
    for contrast in contrasts:
        labels["term"] += [chosen.name] * len(places)
        labels["contrast"] += [contrast] * len(places)
    if by is not None or aggregate is None:
        labels[name] = places * len(contrasts)
    return Inferred.concatenate(pieces), with_classes(labels, response)


def _contrasts(chosen: Column, values: Any, transform: str, transformers: Any) -> tuple[Any, list[Any], list[str]]:
    """What the column is compared with, None for itself; what it becomes; and what that is called."""
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
    """What to compare where nobody says: as the package marginaleffects does."""
    if chosen.is_bool:
        return (False, True)
    if chosen.is_numeric:
        x = chosen.values.dropna().to_numpy(dtype=float)
        return (0, 1) if np.isin(x, (0, 1)).all() else 1
    levels = chosen.levels
    if len(levels) < 2:
        raise ValueError(f"{chosen.name} has a single value in X, {levels}; say which values to compare.")
    return levels
