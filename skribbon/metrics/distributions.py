"""Scores of predictive distributions, and calibration of class probabilities."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d

from .._laws.numerics import energy_scores
from .._utils.typing import FloatArray, MatrixLike, MultiOutput, RandomState
from .intervals import average, check_observed, interval_coverage_score


def _gaussian(y_true, y_pred, y_std):
    y_true, y_pred, y_std = (
        values if np.ndim(values) == 2 else column_or_1d(values) for values in (y_true, y_pred, y_std)
    )
    check_consistent_length(y_true, y_pred, y_std)
    y_true, y_pred, y_std = map(np.asarray, (y_true, y_pred, y_std))
    if not y_true.shape == y_pred.shape == y_std.shape:
        raise ValueError(f"y_true, y_pred and y_std differ in shape: {y_true.shape}, {y_pred.shape}, {y_std.shape}.")
    if not (y_std > 0).all():
        raise ValueError("y_std must be positive.")
    return (y_true - y_pred) / y_std, y_std


def gaussian_nll(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    y_std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> float | FloatArray:
    r"""Mean negative log density of a normal prediction.

    .. math:: \frac1n \sum_i \frac{(y_i - \mu_i)^2}{2 \sigma_i^2} + \log \sigma_i + \tfrac12 \log 2\pi

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_pred : array-like, of the same shape
        Mean of the prediction.
    y_std : array-like, of the same shape
        Its standard deviation.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"
        How to average outputs: equally, not at all, or with these weights.

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"

    Examples
    --------
    >>> from skribbon.metrics import gaussian_nll
    >>> round(gaussian_nll([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    z, scale = _gaussian(y_true, y_pred, y_std)
    return average(z**2 / 2 + np.log(scale) + np.log(2 * np.pi) / 2, sample_weight, multioutput)


def crps_gaussian(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    y_std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> float | FloatArray:
    r"""Mean continuous ranked probability score of a normal prediction.

    .. math:: \frac1n \sum_i \sigma_i \left[z_i (2\Phi(z_i) - 1) + 2\varphi(z_i) - \pi^{-1/2}\right],
              \qquad z_i = (y_i - \mu_i) / \sigma_i

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_pred : array-like, of the same shape
        Mean of the prediction.
    y_std : array-like, of the same shape
        Its standard deviation.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"
        How to average outputs: equally, not at all, or with these weights.

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"
        In units of y; the absolute error if the prediction is a point.

    Examples
    --------
    >>> from skribbon.metrics import crps_gaussian
    >>> round(crps_gaussian([0.0], [0.0], [1.0]), 4)
    0.2337
    """
    z, scale = _gaussian(y_true, y_pred, y_std)
    return average(scale * (z * (2 * ndtr(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)), sample_weight, multioutput)


def crps_samples(
    y_true: ArrayLike,
    y_samples: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> float | FloatArray:
    r"""Mean continuous ranked probability score of predictive draws.

    .. math:: \frac1n \sum_i \mathrm{E}|Y_i - y_i| - \tfrac12 \mathrm{E}|Y_i - Y_i'|,

    with the expectations over the draws.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_samples : array-like of shape (n_draws, n_samples) or (n_draws, n_samples, n_outputs)
        Draws first, as ``predict_samples`` returns them.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"
        How to average outputs: equally, not at all, or with these weights.

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"

    Examples
    --------
    >>> from skribbon.metrics import crps_samples
    >>> crps_samples([0.0], [[-1.0], [1.0]])
    0.5
    """
    y_true, draws = _with_draws(y_true, y_samples)
    draws = np.sort(draws, axis=0)
    B = len(draws)
    ranks = 2 * np.arange(1, B + 1) - B - 1  # sum_ij |a_i - a_j| = 2 sum_i rank_i a_(i)
    spread = np.tensordot(ranks, draws, axes=1) / B**2
    return average(np.abs(draws - y_true).mean(axis=0) - spread, sample_weight, multioutput)


def _with_draws(y_true, y_samples):
    """Observations (n,) or (n, m), and as many draws (B, ...) of them."""
    draws = check_array(y_samples, allow_nd=True)
    y_true = check_array(y_true, input_name="y_true") if draws.ndim == 3 else check_observed(y_true)
    if draws.shape[1:] != y_true.shape:
        raise ValueError(f"y_samples must have shape (n_draws, *{y_true.shape}), draws first, got {draws.shape}.")
    return y_true, draws


def energy_score(y_true: ArrayLike, y_samples: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Mean energy score of joint predictive draws of several outputs.

    .. math:: \frac1n \sum_i \mathrm{E}\|Y_i - y_i\| - \tfrac12 \mathrm{E}\|Y_i - Y_i'\|,

    with the expectations over the draws; for a single output it is the CRPS. Outputs on a larger scale count more:
    divide all of them by their standard deviations if they should not.

    Parameters
    ----------
    y_true : array-like of shape (n_samples, n_outputs)
    y_samples : array-like of shape (n_draws, n_samples, n_outputs)
        Draws first, as ``predict_samples`` returns them.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        Smaller is better; minimised in expectation by the true joint law.

    Examples
    --------
    >>> from skribbon.metrics import energy_score
    >>> energy_score([[0.0, 0.0]], [[[3.0, 4.0]], [[-3.0, -4.0]]])
    2.5
    """
    y_true, draws = _with_draws(y_true, y_samples)
    if y_true.ndim == 1:
        y_true, draws = y_true[:, None], draws[:, :, None]
    return float(average(energy_scores(y_true, draws), sample_weight))


def pit_values(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, random_state: RandomState = 0) -> FloatArray:
    r"""Probability integral transform: uniform if the predictive distribution is right.

    .. math:: F(y_i \mid x_i) = P(Y_i \le y_i)

    For values of positive probability, such as counts, the result is a random point between P(Y < y) and P(Y <= y),
    which makes the transform uniform for them too.

    Parameters
    ----------
    estimator : fitted RibbonRegressor or RibbonCV
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    random_state : int, RandomState or None, default=0
        Of the random points; it does not matter where the distribution is continuous.

    Returns
    -------
    ndarray, of the shape of y

    Examples
    --------
    >>> from skribbon.metrics import pit_values
    >>> X, y = load_diabetes(return_X_y=True)
    >>> pit_values(RibbonRegressor().fit(X, y), X[:2], y[:2]).round(2)
    array([0.17, 0.57])
    """
    distribution = estimator.predict_distribution(X)
    upper, lower = distribution.cdf(y), distribution.cdf_below(y)
    return lower + check_random_state(random_state).uniform(size=upper.shape) * (upper - lower)


def coverage_curve(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    *,
    confidence_levels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Nominal against empirical coverage of central prediction intervals.

    Parameters
    ----------
    estimator : fitted estimator with ``predict_interval``
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    confidence_levels : array-like of shape (L,), default=None
        0.05, 0.10, ..., 0.95 if None.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    levels : ndarray of shape (L,)
    coverage : ndarray of shape (L,)

    Examples
    --------
    >>> from skribbon.metrics import coverage_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> coverage_curve(RibbonRegressor().fit(X, y), X, y, confidence_levels=[0.5, 0.9])[1].round(2)
    array([0.48, 0.92])
    """
    levels = np.arange(1, 20) / 20 if confidence_levels is None else np.ravel(confidence_levels).astype(float)
    intervals = estimator.predict_interval(X, confidence_level=levels)
    coverage = [interval_coverage_score(y, ends, sample_weight=sample_weight) for ends in np.moveaxis(intervals, -1, 0)]
    return levels, np.array(coverage)


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
