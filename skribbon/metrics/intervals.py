"""Scores of intervals."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._utils.typing import FloatArray, MultiOutput


def check_observed(y_true):
    """Numbers (n,), or (n, m) of several outputs; NaN is no miss."""
    y_true = y_true if np.ndim(y_true) == 2 and np.shape(y_true)[1] > 1 else column_or_1d(y_true)
    return check_array(y_true, ensure_2d=False, input_name="y_true")


def check_intervals(y_true, y_interval, outputs=False):
    """y_true, lower and upper ends, each (n,), or (n, m) where there may be several outputs."""
    several = np.ndim(y_interval) == 3
    if several and not outputs:
        raise ValueError("y_interval has several outputs, but this needs one: pass y_true[:, j], y_interval[:, j].")
    y_true = check_array(y_true, input_name="y_true") if several else check_observed(y_true)
    y_interval = check_array(y_interval, ensure_all_finite=False, allow_nd=True)  # ends may be infinite
    y_interval = np.asarray(y_interval, dtype=float)
    check_consistent_length(y_true, y_interval)
    if y_interval.shape != (*y_true.shape, 2):
        raise ValueError(
            f"y_interval must have two columns, lower and upper, for each of y_true, got shape {y_interval.shape} for "
            f"{y_true.shape}."
        )
    if np.isnan(y_interval).any():
        raise ValueError("y_interval has ends that are NaN.")
    lower, upper = y_interval[..., 0], y_interval[..., 1]
    if (lower > upper).any():
        raise ValueError("y_interval has a lower end above its upper end.")
    return y_true, lower, upper


def check_level(confidence_level):
    """A level strictly between 0 and 1, not a percentage."""
    if not isinstance(confidence_level, Real) or not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie strictly between 0 and 1, got {confidence_level!r}.")


def average(values, sample_weight, multioutput="uniform_average"):
    """Weighted mean over rows, as a float; of several outputs as scikit-learn's ``multioutput`` says."""
    means = np.average(values, axis=0, weights=sample_weight)
    if np.ndim(means) == 0:
        return float(means)
    if isinstance(multioutput, str):
        if multioutput not in ("uniform_average", "raw_values"):
            raise ValueError(
                f"multioutput must be 'uniform_average', 'raw_values' or a weight for each output, got {multioutput!r}."
            )
        return means if multioutput == "raw_values" else float(means.mean())
    if np.shape(multioutput) != means.shape:
        raise ValueError(f"multioutput must have {len(means)} weights, one for each output, got {multioutput!r}.")
    return float(np.average(means, weights=multioutput))


def interval_coverage_score(
    y_true: ArrayLike,
    y_interval: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> float | FloatArray:
    r"""Fraction of observations inside their interval.

    .. math:: \frac1n \sum_i 1[l_i \le y_i \le u_i]

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_interval : array-like of shape (n_samples, 2) or (n_samples, n_outputs, 2)
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"
        How outputs are averaged: alike, not at all, or with these weights.

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"

    Examples
    --------
    >>> from skribbon.metrics import interval_coverage_score
    >>> interval_coverage_score([1.0, 2.0, 3.0, 4.0], [[0, 2], [1, 3], [2, 4], [5, 6]])
    0.75
    """
    y_true, lower, upper = check_intervals(y_true, y_interval, outputs=True)
    return average((lower <= y_true) & (y_true <= upper), sample_weight, multioutput)


def mean_interval_width(
    y_true: ArrayLike,
    y_interval: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> float | FloatArray:
    """Mean width of the intervals; ``y_true`` is accepted so that all metrics share one signature.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_interval : array-like of shape (n_samples, 2) or (n_samples, n_outputs, 2)
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"
        How outputs are averaged: alike, not at all, or with these weights.

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"

    Examples
    --------
    >>> from skribbon.metrics import mean_interval_width
    >>> mean_interval_width([1.0, 2.0], [[0, 2], [1, 5]])
    3.0
    """
    _, lower, upper = check_intervals(y_true, y_interval, outputs=True)
    return average(upper - lower, sample_weight, multioutput)


def mean_interval_score(
    y_true: ArrayLike,
    y_interval: ArrayLike,
    *,
    confidence_level: float = 0.9,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> float | FloatArray:
    r"""Winkler's interval score: the width, plus a penalty for the distance by which an observation misses.

    .. math:: \frac1n \sum_i (u_i - l_i) + \frac2\tau \left[(l_i - y_i)_+ + (y_i - u_i)_+\right],

    with :math:`1 - \tau` the level of the intervals.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_interval : array-like of shape (n_samples, 2) or (n_samples, n_outputs, 2)
    confidence_level : float, default=0.9
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"
        How outputs are averaged: alike, not at all, or with these weights.

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"
        Smaller is better; minimised in expectation by the true central interval.

    Examples
    --------
    >>> from skribbon.metrics import mean_interval_score
    >>> mean_interval_score([1.0, 6.0], [[0, 2], [1, 5]], confidence_level=0.5)
    5.0
    """
    check_level(confidence_level)
    y_true, lower, upper = check_intervals(y_true, y_interval, outputs=True)
    missed = np.maximum(lower - y_true, 0) + np.maximum(y_true - upper, 0)
    return average(upper - lower + 2 / (1 - confidence_level) * missed, sample_weight, multioutput)
