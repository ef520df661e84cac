"""Scores of intervals, predictive distributions and probabilities, and scorers for model selection.

The functions take ``y_true`` first, ``sample_weight`` last, and return a float. The scorers have scikit-learn's
``(estimator, X, y)`` signature, greater is better, and go into ``scoring=`` of GridSearchCV or cross_validate: with the
default R^2 or accuracy a search over ``alpha`` is an exact tie, because alpha does not move ``predict``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.metrics import brier_score_loss, log_loss, mean_pinball_loss
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ._typing import FloatArray, MatrixLike, Scorer

__all__ = [
    "brier_scorer",
    "coverage_curve",
    "coverage_scorer",
    "crps_gaussian",
    "crps_samples",
    "crps_scorer",
    "ece_scorer",
    "expected_calibration_error",
    "gaussian_nll",
    "interval_coverage_score",
    "interval_score_scorer",
    "make_interval_scorer",
    "mean_interval_score",
    "mean_interval_width",
    "nll_scorer",
    "pit_values",
    "reliability_curve",
]


# ---------------------------------------------------------------------- intervals
def _intervals(y_true, y_interval):
    y_true, y_interval = column_or_1d(y_true), check_array(y_interval)
    check_consistent_length(y_true, y_interval)
    if y_interval.shape[1] != 2:
        raise ValueError(f"y_interval must have two columns, lower and upper, got shape {y_interval.shape}.")
    lower, upper = y_interval.T
    if (lower > upper).any():
        raise ValueError("y_interval has a lower end above its upper end.")
    return y_true, lower, upper


def _average(values, sample_weight):
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
    y_true, lower, upper = _intervals(y_true, y_interval)
    return _average((lower <= y_true) & (y_true <= upper), sample_weight)


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
    _, lower, upper = _intervals(y_true, y_interval)
    return _average(upper - lower, sample_weight)


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
    y_true, lower, upper = _intervals(y_true, y_interval)
    missed = np.maximum(lower - y_true, 0) + np.maximum(y_true - upper, 0)
    return _average(upper - lower + 2 / (1 - confidence_level) * missed, sample_weight)


# ---------------------------------------------------------------------- predictive distributions
def _gaussian(y_true, y_pred, y_std):
    y_true, y_pred, y_std = column_or_1d(y_true), column_or_1d(y_pred), column_or_1d(y_std)
    check_consistent_length(y_true, y_pred, y_std)
    if not (y_std > 0).all():
        raise ValueError("y_std must be positive.")
    return (y_true - y_pred) / y_std, y_std


def gaussian_nll(
    y_true: ArrayLike, y_pred: ArrayLike, y_std: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Mean negative log density of a normal prediction.

    .. math:: \frac1n \sum_i \frac{(y_i - \mu_i)^2}{2 \sigma_i^2} + \log \sigma_i + \tfrac12 \log 2\pi

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_pred : array-like of shape (n_samples,)
        Mean of the prediction.
    y_std : array-like of shape (n_samples,)
        Its standard deviation.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import gaussian_nll
    >>> round(gaussian_nll([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    z, scale = _gaussian(y_true, y_pred, y_std)
    return _average(z**2 / 2 + np.log(scale) + np.log(2 * np.pi) / 2, sample_weight)


def crps_gaussian(
    y_true: ArrayLike, y_pred: ArrayLike, y_std: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Mean continuous ranked probability score of a normal prediction.

    .. math:: \frac1n \sum_i \sigma_i \left[z_i (2\Phi(z_i) - 1) + 2\varphi(z_i) - \pi^{-1/2}\right],
              \qquad z_i = (y_i - \mu_i) / \sigma_i

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_pred : array-like of shape (n_samples,)
        Mean of the prediction.
    y_std : array-like of shape (n_samples,)
        Its standard deviation.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        In units of y; the absolute error where the prediction is a point.

    Examples
    --------
    >>> from skribbon.metrics import crps_gaussian
    >>> round(crps_gaussian([0.0], [0.0], [1.0]), 4)
    0.2337
    """
    z, scale = _gaussian(y_true, y_pred, y_std)
    return _average(scale * (z * (2 * ndtr(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)), sample_weight)


def crps_samples(y_true: ArrayLike, y_samples: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Mean continuous ranked probability score of predictive draws.

    .. math:: \frac1n \sum_i \mathrm{E}|Y_i - y_i| - \tfrac12 \mathrm{E}|Y_i - Y_i'|,

    with the expectations over the draws.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_samples : array-like of shape (n_draws, n_samples)
        Draws first, as ``predict_samples`` returns them.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import crps_samples
    >>> crps_samples([0.0], [[-1.0], [1.0]])
    0.5
    """
    y_true, draws = column_or_1d(y_true), np.sort(check_array(y_samples), axis=0)
    check_consistent_length(y_true, draws.T)
    B = len(draws)
    ranks = 2 * np.arange(1, B + 1) - B - 1  # sum_ij |a_i - a_j| = 2 sum_i rank_i a_(i)
    return _average(np.abs(draws - y_true).mean(axis=0) - ranks @ draws / B**2, sample_weight)


def pit_values(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike) -> FloatArray:
    r"""Probability integral transform: uniform where the predictive distribution is right.

    .. math:: F(y_i \mid x_i) = P(Y_i \le y_i)

    Parameters
    ----------
    estimator : fitted RibbonRegressor or RibbonCV
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.metrics import pit_values
    >>> X, y = load_diabetes(return_X_y=True)
    >>> pit_values(RibbonRegressor().fit(X, y), X[:2], y[:2]).round(2)
    array([0.16, 0.55])
    """
    return estimator.predictive_cdf(X, y)


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
    y : array-like of shape (n_samples,)
    confidence_levels : array-like of shape (L,), default=None
        0.05, 0.10, ..., 0.95 if None.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    levels : ndarray of shape (L,)
    coverage : ndarray of shape (L,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.metrics import coverage_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> coverage_curve(RibbonRegressor().fit(X, y), X, y, confidence_levels=[0.5, 0.9])[1].round(2)
    array([0.48, 0.91])
    """
    levels = np.arange(1, 20) / 20 if confidence_levels is None else np.asarray(confidence_levels, dtype=float)
    intervals = estimator.predict_interval(X, confidence_level=levels)
    coverage = [interval_coverage_score(y, ends, sample_weight=sample_weight) for ends in np.moveaxis(intervals, 2, 0)]
    return levels, np.array(coverage)


# ---------------------------------------------------------------------- probabilities
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
        Share of rows of which the predicted class is the true one.
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
    return _binned(y_proba.max(axis=1), correct, sample_weight, n_bins, strategy)


def _binned(confidence, correct, weight, n_bins, strategy):
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
    confidence, accuracy, total = _binned(confidence, correct, weight, n_bins, strategy)
    return _average(np.abs(confidence - accuracy), total)


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
    return _average(np.abs(confidence - accuracy), weight)


# ---------------------------------------------------------------------- scorers: greater is better
def _require(estimator, method, scorer):
    if not hasattr(estimator, method):
        raise TypeError(
            f"{scorer} needs {method}, and {type(estimator).__name__} has none; wrap the model in a Ribbon, and score "
            "classifiers by nll_scorer, brier_scorer or ece_scorer."
        )


class _IntervalScorer:
    """Scorer of prediction intervals at one level, made by :func:`make_interval_scorer`.

    Greater is better: minus the interval score, minus the mean width, or minus the distance of empirical from nominal
    coverage, so that 0 is the best ``coverage_scorer`` can say.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.metrics import coverage_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(coverage_scorer(RibbonRegressor().fit(X, y), X, y), 3)
    -0.007
    """

    # a class, so that it can be pickled to workers
    def __init__(self, metric, confidence_level):
        self.metric, self.confidence_level = metric, confidence_level

    def __call__(
        self, estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score the intervals that ``estimator`` predicts for X.

        Parameters
        ----------
        estimator : fitted estimator with ``predict_interval``
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
            Greater is better.
        """
        _require(estimator, "predict_interval", "A scorer of intervals")
        interval = estimator.predict_interval(X, confidence_level=self.confidence_level)
        return self.metric(y, interval, self.confidence_level, sample_weight)

    def __repr__(self):
        return f"make_interval_scorer({self.metric.__name__[1:]!r}, confidence_level={self.confidence_level})"


def _coverage(y, interval, level, sample_weight):
    return -abs(interval_coverage_score(y, interval, sample_weight=sample_weight) - level)


def _interval_score(y, interval, level, sample_weight):
    return -mean_interval_score(y, interval, confidence_level=level, sample_weight=sample_weight)


def _width(y, interval, level, sample_weight):
    return -mean_interval_width(y, interval, sample_weight=sample_weight)


def make_interval_scorer(
    metric: Literal["coverage", "interval_score", "width"] = "coverage", *, confidence_level: float = 0.9
) -> Scorer:
    """Scorer of prediction intervals at a level of your choice.

    Parameters
    ----------
    metric : {"coverage", "interval_score", "width"}, default="coverage"
        "coverage" is minus the distance of empirical from nominal coverage.
    confidence_level : float, default=0.9

    Returns
    -------
    callable
        With signature ``(estimator, X, y, sample_weight=None)``; greater is better.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.metrics import make_interval_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scorer = make_interval_scorer("interval_score", confidence_level=0.8)
    >>> search = GridSearchCV(RibbonRegressor(), {"alpha": [0.1, 1.0, 10.0]}, scoring=scorer).fit(X, y)
    >>> search.best_params_
    {'alpha': 1.0}
    """
    metrics = {"coverage": _coverage, "interval_score": _interval_score, "width": _width}
    if metric not in metrics:
        raise ValueError(f"metric must be one of {', '.join(map(repr, metrics))}, got {metric!r}.")
    return _IntervalScorer(metrics[metric], confidence_level)


coverage_scorer = make_interval_scorer("coverage")
interval_score_scorer = make_interval_scorer("interval_score")


def nll_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean predictive log density of a regressor, mean log probability of a classifier.

    Parameters
    ----------
    estimator : fitted Ribbon estimator
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        Greater is better.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.metrics import nll_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(nll_scorer(RibbonRegressor().fit(X, y), X, y), 2)
    -5.4
    """
    if hasattr(estimator, "predict_proba"):
        return -log_loss(y, estimator.predict_proba(X), sample_weight=sample_weight, labels=estimator.classes_)
    _require(estimator, "log_density", "nll_scorer")
    return _average(estimator.log_density(X, y), sample_weight)


def crps_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    r"""Minus the continuous ranked probability score of a regressor.

    .. math:: -\frac1n \sum_i \int (F_i(t) - 1[y_i \le t])^2 \, dt,

    as twice the pinball loss, averaged over 99 quantiles of the predictive distribution.

    Parameters
    ----------
    estimator : fitted Ribbon regressor
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        Greater is better.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.metrics import crps_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(crps_scorer(RibbonRegressor().fit(X, y), X, y), 1)
    -30.4
    """
    _require(estimator, "predict_quantiles", "crps_scorer")
    quantiles = (np.arange(99) + 0.5) / 99
    predictions = estimator.predict_quantiles(X, quantiles).T
    pairs = zip(predictions, quantiles, strict=True)
    losses = [mean_pinball_loss(y, f, alpha=q, sample_weight=sample_weight) for f, q in pairs]
    return -2 * float(np.mean(losses))  # the CRPS is twice the pinball loss averaged over all quantiles


def brier_scorer(
    estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    r"""Minus the Brier score of a classifier, summed over classes.

    .. math:: -\frac1n \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    Parameters
    ----------
    estimator : fitted classifier
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        Greater is better.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skribbon import RibbonClassifier
    >>> from skribbon.metrics import brier_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> round(brier_scorer(RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y), X, y), 2)
    -0.05
    """
    proba, labels = estimator.predict_proba(X), estimator.classes_
    return -brier_score_loss(y, proba, sample_weight=sample_weight, labels=labels, scale_by_half=False)


def ece_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Minus the expected calibration error of a classifier.

    Parameters
    ----------
    estimator : fitted classifier
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        Greater is better.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skribbon import RibbonClassifier
    >>> from skribbon.metrics import ece_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> round(ece_scorer(RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y), X, y), 2)
    -0.08
    """
    labels = estimator.classes_
    return -expected_calibration_error(y, estimator.predict_proba(X), labels=labels, sample_weight=sample_weight)
