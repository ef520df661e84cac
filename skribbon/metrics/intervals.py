"""Scores of intervals."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length, column_or_1d


def check_intervals(y_true, y_interval):
    """y_true, lower and upper ends, each (n,)."""
    y_true = check_array(column_or_1d(y_true), ensure_2d=False, input_name="y_true")  # NaN is no miss
    y_interval = np.asarray(check_array(y_interval, ensure_all_finite=False), dtype=float)  # ends may be infinite
    check_consistent_length(y_true, y_interval)
    if y_interval.shape[1] != 2:
        raise ValueError(f"y_interval must have two columns, lower and upper, got shape {y_interval.shape}.")
    if np.isnan(y_interval).any():
        raise ValueError("y_interval has ends that are NaN.")
    lower, upper = y_interval.T
    if (lower > upper).any():
        raise ValueError("y_interval has a lower end above its upper end.")
    return y_true, lower, upper


def check_level(confidence_level):
    """A level strictly between 0 and 1, not a percentage."""
    if not isinstance(confidence_level, Real) or not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie strictly between 0 and 1, got {confidence_level!r}.")


def average(values, sample_weight):
    """Weighted mean, as a float."""
    return float(np.average(values, weights=sample_weight))


def interval_coverage_score(
    y_true: ArrayLike, y_interval: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Fraction of observations inside their interval.

    .. math:: \frac1n \sum_i 1[l_i \le y_i \le u_i]

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_interval : array-like of shape (n_samples, 2)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import interval_coverage_score
    >>> interval_coverage_score([1.0, 2.0, 3.0, 4.0], [[0, 2], [1, 3], [2, 4], [5, 6]])
    0.75
    """
    y_true, lower, upper = check_intervals(y_true, y_interval)
    return average((lower <= y_true) & (y_true <= upper), sample_weight)


def mean_interval_width(y_true: ArrayLike, y_interval: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean width of the intervals; ``y_true`` is there so that all metrics have one signature.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_interval : array-like of shape (n_samples, 2)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import mean_interval_width
    >>> mean_interval_width([1.0, 2.0], [[0, 2], [1, 5]])
    3.0
    """
    _, lower, upper = check_intervals(y_true, y_interval)
    return average(upper - lower, sample_weight)


def mean_interval_score(
    y_true: ArrayLike,
    y_interval: ArrayLike,
    *,
    confidence_level: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Interval score of Winkler: the width, and a penalty for the distance by which an observation misses.

    .. math:: \frac1n \sum_i (u_i - l_i) + \frac2\tau \left[(l_i - y_i)_+ + (y_i - u_i)_+\right],

    with :math:`1 - \tau` the level of the intervals.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_interval : array-like of shape (n_samples, 2)
    confidence_level : float, default=0.9
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        Smaller is better; minimised in expectation by the true central interval.

    Examples
    --------
    >>> from skribbon.metrics import mean_interval_score
    >>> mean_interval_score([1.0, 6.0], [[0, 2], [1, 5]], confidence_level=0.5)
    5.0
    """
    check_level(confidence_level)
    y_true, lower, upper = check_intervals(y_true, y_interval)
    missed = np.maximum(lower - y_true, 0) + np.maximum(y_true - upper, 0)
    return average(upper - lower + 2 / (1 - confidence_level) * missed, sample_weight)
