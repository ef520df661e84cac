"""Mean predictions along a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats.mstats import mquantiles
from sklearn.base import BaseEstimator

from .._utils.checks import check_count, check_single_level
from .._utils.typing import MatrixLike
from ._functional import Inferred, fitted_ribbon
from ._predictions import with_classes
from ._response import LEVEL, Means, Response, of_means
from ._table import Column, grouped


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
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
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
    low, high = _checked_percentiles(percentiles)
    response = Response(fitted_ribbon(ribbon, "partial_dependence"))
    asked = [features] if isinstance(features, str) or np.ndim(features) == 0 else list(features)  # type: ignore[arg-type]
    if not asked:
        raise ValueError("features must name at least one column of X, got an empty sequence.")
    chosen = [Column.of(X, feature, "features") for feature in asked]
    own = {
        Column.of(X, feature, "custom_values").name: np.asarray(grid) for feature, grid in (custom_values or {}).items()
    }
    groups = grouped(chosen[0].X, None, weights, "mean")
    labels: dict[str, list[Any]] = {"term": [], "value": []}
    pieces = []
    for column in chosen:
        grid = own[column.name].tolist() if column.name in own else grid_of(column, grid_resolution, low, high)
        column.check_known(grid, response.model.preprocess)
        for table in column.changing(grid):
            means = Means.over(response, response.prepared(table), groups)
            pieces.append(of_means(LEVEL, [means], response.estimator.ribbon_))
        labels["term"] += [column.name] * len(grid)
        labels["value"] += list(grid)
    return Inferred.concatenate(pieces).frame(with_classes(labels, response), level)


def grid_of(column: Column, resolution: int, low: float, high: float) -> list[Any]:
    """The distinct values of a column, or evenly spaced ones where numbers have too many: scikit-learn's rule."""
    levels = column.levels
    if not column.is_numeric or len(levels) < resolution:
        return levels
    ends = mquantiles(column.values.dropna().to_numpy(dtype=float), [low, high])
    if ends[0] == ends[1]:
        raise ValueError(
            f"percentiles={low, high} of {column.name} are the same value; set them further apart, or custom_values."
        )
    return np.linspace(ends[0], ends[1], resolution).tolist()


def _checked_percentiles(percentiles):
    low, high = percentiles
    if not 0 <= low < high <= 1:
        raise ValueError(f"percentiles must be two increasing numbers from 0 to 1, got {percentiles!r}.")
    return low, high
