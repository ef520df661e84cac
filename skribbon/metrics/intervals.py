"""Scores of intervals and of prediction sets: coverage, also by group and by width, width, and size."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import betabinom, binom
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


def _weights(sample_weight, n):
    return np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)


def coverage_by_group(
    y_true: ArrayLike, y_interval: ArrayLike, groups: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> tuple[NDArray[Any], FloatArray, FloatArray]:
    """Fraction of observations inside their interval, group by group.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_interval : array-like of shape (n_samples, 2)
    groups : array-like of shape (n_samples,)
        Labels.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    labels : ndarray of shape (G,)
        Of the groups, sorted.
    coverage : ndarray of shape (G,)
    weight : ndarray of shape (G,)
        Sum of the rows' weights.

    Examples
    --------
    >>> from skribbon.metrics import coverage_by_group
    >>> coverage_by_group([1.0, 2.0, 3.0], [[0, 2], [1, 3], [5, 6]], ["a", "b", "b"])
    (array(['a', 'b'], dtype='<U1'), array([1. , 0.5]), array([1., 2.]))
    """
    y_true, lower, upper = check_intervals(y_true, y_interval)
    groups = column_or_1d(groups)
    check_consistent_length(y_true, groups)
    labels, place = np.unique(groups, return_inverse=True)
    weight = _weights(sample_weight, len(y_true))
    total = np.bincount(place, weight).astype(float)
    covered = np.bincount(place, weight * ((lower <= y_true) & (y_true <= upper)))
    return labels, np.divide(covered, total, out=np.full(len(labels), np.nan), where=total > 0), total


def coverage_by_width(
    y_true: ArrayLike, y_interval: ArrayLike, *, n_bins: int = 5, sample_weight: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fraction of observations inside their interval, in bins of its width with equally many rows.

    Intervals that cover enough on average may cover easy rows too often and hard ones too rarely; the smallest of these
    fractions reveals that.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_interval : array-like of shape (n_samples, 2)
    n_bins : int, default=5
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    width : ndarray of shape (n_nonempty_bins,)
        Mean width of the intervals in each bin.
    coverage : ndarray of shape (n_nonempty_bins,)
    weight : ndarray of shape (n_nonempty_bins,)
        Sum of the rows' weights.

    Examples
    --------
    >>> from skribbon.metrics import coverage_by_width
    >>> coverage_by_width([1.0, 2.0, 3.0, 9.0], [[0, 2], [1, 3], [1, 7], [1, 7]], n_bins=2)
    (array([2., 6.]), array([1. , 0.5]), array([2., 2.]))
    """
    y_true, lower, upper = check_intervals(y_true, y_interval)
    width, weight = upper - lower, _weights(sample_weight, len(y_true))
    edges = np.unique(np.sort(width)[(np.arange(1, n_bins) * len(width)) // n_bins])  # infinite widths are some too
    place = np.unique(np.searchsorted(edges, width, side="right"), return_inverse=True)[1]
    _, covered, total = coverage_by_group(y_true, y_interval, place, sample_weight=weight)
    filled = total > 0
    with np.errstate(invalid="ignore"):
        mean = np.bincount(place, weight * width)[filled] / total[filled]
    return mean, covered[filled], total[filled]


def _check_sets(y_true, y_set, labels):
    """Indices (n,) of the true classes, and sets (n, K)."""
    y_true, y_set = column_or_1d(y_true), check_array(y_set, dtype=None)
    check_consistent_length(y_true, y_set)
    if y_set.dtype != bool:
        raise ValueError(f"y_set must hold True and False, as predict_set returns them, got {y_set.dtype}.")
    labels = np.unique(y_true) if labels is None else np.asarray(labels)
    if len(labels) != y_set.shape[1]:
        raise ValueError(f"y_set has {y_set.shape[1]} columns for {len(labels)} labels; pass labels= to say which.")
    hit = y_true[:, None] == labels
    if not hit.any(axis=1).all():
        raise ValueError("y_true has classes that are not among the labels.")
    return hit.argmax(axis=1), y_set


def set_coverage_score(
    y_true: ArrayLike, y_set: ArrayLike, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of rows whose class is in their set.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_set : array-like of bool, of shape (n_samples, K)
    labels : array-like of shape (K,), default=None
        Labels in the order of the columns; sorted unique values of ``y_true`` if None.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import set_coverage_score
    >>> set_coverage_score(["a", "b"], [[True, False], [True, False]])
    0.5
    """
    own, y_set = _check_sets(y_true, y_set, labels)
    return average(y_set[np.arange(len(own)), own], sample_weight)


def mean_set_size(y_true: ArrayLike, y_set: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean number of classes in a set; ``y_true`` is accepted so that all metrics share one signature.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_set : array-like of bool, of shape (n_samples, K)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import mean_set_size
    >>> mean_set_size(["a", "b"], [[True, True], [True, False]])
    1.5
    """
    y_set = check_array(y_set, dtype=bool)
    check_consistent_length(column_or_1d(y_true), y_set)
    return average(y_set.sum(axis=1), sample_weight)


def coverage_band(
    n_samples: int, confidence_level: float = 0.9, *, n_calibration: int | None = None, probability: float = 0.95
) -> tuple[float, float]:
    r"""Range in which the coverage of a number of new rows falls by chance, if the nominal level holds.

    For a fixed interval that covers :math:`1 - \tau`, the count of covered rows is binomial. With m calibration rows
    the coverage is itself random, :math:`\mathrm{Beta}(k, m + 1 - k)` with :math:`k = \lceil (m + 1)(1 - \tau) \rceil`,
    whatever the distribution of the rows, and the count is beta-binomial.

    Parameters
    ----------
    n_samples : int
        Number of independent rows over which coverage is counted.
    confidence_level : float, default=0.9
        Nominal level.
    n_calibration : int, default=None
        Number of calibration rows of conformal intervals, or None.
    probability : float, default=0.95
        Probability of the band.

    Returns
    -------
    lower, upper : float
        Ends of the band, with at most half of the remaining probability beyond each.

    Examples
    --------
    >>> from skribbon.metrics import coverage_band
    >>> coverage_band(1000, 0.9)
    (0.881, 0.918)
    >>> coverage_band(1000, 0.9, n_calibration=100)
    (0.833, 0.953)
    """
    check_level(confidence_level)
    check_level(probability)
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    if n_calibration is None:
        ends = binom.ppf(tails, n_samples, confidence_level)
    else:
        k = int(np.ceil((n_calibration + 1) * confidence_level - 1e-10 * n_calibration))
        if k > n_calibration:
            return 1.0, 1.0  # infinite intervals
        ends = betabinom.ppf(tails, n_samples, k, n_calibration + 1 - k)
    lower, upper = ends / n_samples
    return float(lower), float(upper)
