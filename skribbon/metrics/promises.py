"""Whether intervals and sets reach their nominal coverage, in which groups, and how much chance allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import betabinom, binom
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._utils.typing import FloatArray
from .intervals import average, check_intervals, check_level


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
    bins, covered, total = coverage_by_group(
        y_true, y_interval, np.searchsorted(edges, width, side="right"), sample_weight=weight
    )
    place = np.searchsorted(bins, np.searchsorted(edges, width, side="right"))
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
