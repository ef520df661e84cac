"""Whether predicted probabilities come true."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._utils.typing import FloatArray
from .intervals import average


def reliability_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Confidence and accuracy of the predicted class, in bins of confidence.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_proba : array-like of shape (n_samples, K)
    n_bins : int, default=15
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or adaptive ones of equal numbers of rows.
    labels : array-like of shape (K,), default=None
        Labels in the order of the columns; sorted unique values of ``y_true`` if None.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    confidence : ndarray of shape (n_nonempty_bins,)
        Mean probability of the predicted class.
    accuracy : ndarray of shape (n_nonempty_bins,)
        Share of rows whose predicted class is the true one.
    weight : ndarray of shape (n_nonempty_bins,)
        Sum of the rows' weights.

    Examples
    --------
    >>> from skribbon.metrics import reliability_curve
    >>> confidence, accuracy, weight = reliability_curve([0, 1, 1, 1], [[0.8, 0.2], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]])
    >>> confidence, accuracy, weight
    (array([0.6, 0.8, 0.9]), array([0.5, 1. , 1. ]), array([2., 1., 1.]))
    """
    y_true, y_proba = column_or_1d(y_true), check_array(y_proba)
    check_consistent_length(y_true, y_proba)
    labels = np.unique(y_true) if labels is None else np.asarray(labels)
    if len(labels) != y_proba.shape[1]:
        raise ValueError(f"y_proba has {y_proba.shape[1]} columns for {len(labels)} labels; pass labels= to say which.")
    correct = labels[y_proba.argmax(axis=1)] == y_true
    return binned(y_proba.max(axis=1), correct, sample_weight, n_bins, strategy)


def binned(confidence, correct, weight, n_bins, strategy):
    """Mean confidence, mean accuracy and weight of every bin that is not empty."""
    weight = np.ones(len(confidence)) if weight is None else np.asarray(weight, dtype=float)
    if strategy == "uniform":
        edges = np.linspace(0, 1, n_bins + 1)
    elif strategy == "quantile":
        edges = np.quantile(confidence, np.linspace(0, 1, n_bins + 1))
    else:
        raise ValueError(f"strategy must be 'uniform' or 'quantile', got {strategy!r}.")
    bins = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, n_bins - 1)
    total = np.bincount(bins, weight, minlength=n_bins)
    filled = total > 0
    means = [np.bincount(bins, weight * v, minlength=n_bins)[filled] / total[filled] for v in (confidence, correct)]
    return means[0], means[1], total[filled]


def calibration_error(confidence, correct, weight=None, n_bins=15, strategy="uniform"):
    """Expected calibration error of confidences (n,) in predictions that were ``correct`` (n,) or not."""
    confidence, accuracy, total = binned(confidence, correct, weight, n_bins, strategy)
    return average(np.abs(confidence - accuracy), total)


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Mean distance between confidence and accuracy over bins of confidence.

    .. math:: \sum_b \frac{n_b}{n} |\mathrm{acc}_b - \mathrm{conf}_b|

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_proba : array-like of shape (n_samples, K)
    n_bins : int, default=15
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or adaptive ones of equal numbers of rows.
    labels : array-like of shape (K,), default=None
        Labels in the order of the columns; sorted unique values of ``y_true`` if None.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1, 1, 1], [[0.8, 0.2], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]]), 3)
    0.125
    """
    confidence, accuracy, weight = reliability_curve(
        y_true, y_proba, n_bins=n_bins, strategy=strategy, labels=labels, sample_weight=sample_weight
    )
    return average(np.abs(confidence - accuracy), weight)
