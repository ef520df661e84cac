"""Scores of intervals, prediction sets, predictive distributions and class probabilities."""

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import beta, betabinom, binom, norm
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d

from .._laws.numerics import energy_scores, points_crps
from .._utils.checks import check_count, check_levels, check_name, check_single_level, checked_weight
from .._utils.typing import FloatArray, MatrixLike, Outputs, PerRow, RandomState


def check_observed(y_true):
    """Observations (n,), or (n, m) for several outputs, without NaN."""
    y_true = y_true if np.ndim(y_true) == 2 and np.shape(y_true)[1] > 1 else column_or_1d(y_true)
    return check_array(y_true, ensure_2d=False, input_name="y_true")


def check_intervals(y_true, y_interval, outputs=False):
    """y_true, lower and upper bounds, each (n,), or (n, m) if several ``outputs`` are allowed."""
    several = np.ndim(y_interval) == 3
    if several and not outputs:
        raise ValueError("y_interval has several outputs, but this needs one: pass y_true[:, j], y_interval[:, j].")
    y_true = check_array(y_true, input_name="y_true") if several else check_observed(y_true)
    y_interval = check_array(y_interval, dtype=float, ensure_all_finite=False, allow_nd=True)  # may be infinite
    check_consistent_length(y_true, y_interval)
    if y_interval.shape != (*y_true.shape, 2):
        raise ValueError(f"y_interval must have two columns, lower and upper, for each y_true, got {y_interval.shape}.")
    if np.isnan(y_interval).any():
        raise ValueError("y_interval contains NaN; drop these rows.")
    lower, upper = y_interval[..., 0], y_interval[..., 1]
    if (lower > upper).any():
        raise ValueError("y_interval has a lower bound above its upper bound.")
    return y_true, lower, upper


def average(values, sample_weight, multioutput="uniform_average"):
    """Weighted mean over rows as a float, or one per output, as scikit-learn's ``multioutput`` asks for."""
    means = np.average(values, axis=0, weights=checked_weight(sample_weight, values))
    if np.ndim(means) == 0:
        return float(means)
    if isinstance(multioutput, str):
        check_name(multioutput, "multioutput", ("uniform_average", "raw_values"))
        return means if multioutput == "raw_values" else float(means.mean())
    if np.shape(multioutput) != means.shape:
        raise ValueError(f"multioutput must have {len(means)} weights, one for each output, got {multioutput!r}.")
    return float(np.average(means, weights=multioutput))


def interval_coverage_score(
    y_true: ArrayLike, y_interval: ArrayLike, *, sample_weight: PerRow = None, multioutput: Outputs = "uniform_average"
) -> float | FloatArray:
    r"""Fraction of observations inside their interval.

    .. math:: \frac1n \sum_i 1[l_i \le y_i \le u_i]

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_interval : array-like of shape (n_samples, 2) or (n_samples, n_outputs, 2)
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"

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
    y_true: ArrayLike, y_interval: ArrayLike, *, sample_weight: PerRow = None, multioutput: Outputs = "uniform_average"
) -> float | FloatArray:
    """Mean width of the intervals; ``y_true`` is ignored, so that all metrics share one signature.

    Parameters
    ----------
    y_true, y_interval, sample_weight, multioutput : see :func:`~skribbon.metrics.interval_coverage_score`

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
    sample_weight: PerRow = None,
    multioutput: Outputs = "uniform_average",
) -> float | FloatArray:
    r"""Winkler's interval score: the width, plus a penalty for the distance by which an observation misses.

    .. math:: \frac1n \sum_i (u_i - l_i) + \frac2{1 - \mathrm{level}} \left[(l_i - y_i)_+ + (y_i - u_i)_+\right]

    Parameters
    ----------
    y_true, y_interval : see :func:`~skribbon.metrics.interval_coverage_score`
    confidence_level : float, default=0.9
    sample_weight, multioutput : see :func:`~skribbon.metrics.interval_coverage_score`

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"
        Smaller is better; minimized in expectation by the true central interval.

    Examples
    --------
    >>> from skribbon.metrics import mean_interval_score
    >>> mean_interval_score([1.0, 6.0], [[0, 2], [1, 5]], confidence_level=0.5)
    5.0
    """
    check_single_level(confidence_level)
    y_true, lower, upper = check_intervals(y_true, y_interval, outputs=True)
    missed = np.maximum(lower - y_true, 0) + np.maximum(y_true - upper, 0)
    return average(upper - lower + 2 / (1 - confidence_level) * missed, sample_weight, multioutput)


def coverage_by_group(
    y_true: ArrayLike, y_interval: ArrayLike, groups: ArrayLike, *, sample_weight: PerRow = None
) -> tuple[NDArray[Any], FloatArray, FloatArray]:
    """Fraction of observations inside their interval, group by group.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_interval : array-like of shape (n_samples, 2)
    groups : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    labels : ndarray of shape (G,)
        Sorted labels of the groups.
    coverage, weight : ndarray of shape (G,)
        Fraction inside, and total weight of the rows.

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
    weight = checked_weight(sample_weight, y_true)
    total = np.bincount(place, weight).astype(float)
    covered = np.bincount(place, weight * ((lower <= y_true) & (y_true <= upper)))
    return labels, np.divide(covered, total, out=np.full(len(labels), np.nan), where=total > 0), total


def coverage_by_width(
    y_true: ArrayLike, y_interval: ArrayLike, *, n_bins: int = 5, sample_weight: PerRow = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fraction of observations inside their interval, in bins of width with equally many rows.

    A small fraction reveals intervals that cover easy rows too often and hard rows too rarely.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_interval : array-like of shape (n_samples, 2)
    n_bins : int, default=5
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    width, coverage, weight : ndarray of shape (n_nonempty_bins,)
        Mean width, fraction inside, and total weight of the rows.

    Examples
    --------
    >>> from skribbon.metrics import coverage_by_width
    >>> coverage_by_width([1.0, 2.0, 3.0, 9.0], [[0, 2], [1, 3], [1, 7], [1, 7]], n_bins=2)
    (array([2., 6.]), array([1. , 0.5]), array([2., 2.]))
    """
    y_true, lower, upper = check_intervals(y_true, y_interval)
    width, weight = upper - lower, checked_weight(sample_weight, y_true)
    first = np.arange(1, check_count(n_bins, "n_bins")) * len(width) // n_bins  # rows where bins begin
    edges = np.unique(np.sort(width)[first])  # widths may be infinite
    place = np.unique(np.searchsorted(edges, width, side="right"), return_inverse=True)[1]
    _, covered, total = coverage_by_group(y_true, y_interval, place, sample_weight=weight)
    filled = total > 0
    with np.errstate(invalid="ignore"):
        mean = np.bincount(place, weight * width)[filled] / total[filled]
    return mean, covered[filled], total[filled]


def _check_classes(y_true, table, labels, name):
    """Check the table ``name`` (n, K), and return it with the cells of the true classes, bool (n, K)."""
    y_true, table = column_or_1d(y_true), check_array(table)
    check_consistent_length(y_true, table)
    labels = np.unique(y_true) if labels is None else np.asarray(labels)
    if len(labels) != table.shape[1]:
        raise ValueError(f"{name} has {table.shape[1]} columns for {len(labels)} labels; pass labels= for all.")
    own = y_true[:, None] == labels
    if not own.any(axis=1).all():
        raise ValueError("y_true has classes that are not among the labels.")
    return table, own


def check_probabilities(y_proba):
    """Refuse class probabilities outside [0, 1]."""
    if y_proba.min() < 0 or y_proba.max() > 1:
        raise ValueError("y_proba must lie between 0 and 1; pass what predict_proba returns.")


def _confidences(y_true, y_proba, labels):
    """Probability (n,) of the predicted class, and whether that is the true class, (n,)."""
    if np.ndim(y_proba) == 1:  # of the second class
        y_proba = np.column_stack([1 - np.asarray(y_proba), y_proba])
    y_proba, own = _check_classes(y_true, y_proba, labels, "y_proba")
    check_probabilities(y_proba)
    return y_proba.max(axis=1), own[np.arange(len(own)), y_proba.argmax(axis=1)]


def set_coverage_score(
    y_true: ArrayLike, y_set: ArrayLike, *, labels: ArrayLike | None = None, sample_weight: PerRow = None
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
    y_set, own = _check_classes(y_true, y_set, labels, "y_set")
    if y_set.dtype != bool:
        raise ValueError(f"y_set must contain True and False, as predict_set returns, got {y_set.dtype}.")
    return average((y_set & own).any(axis=1), sample_weight)


def mean_set_size(y_true: ArrayLike, y_set: ArrayLike, *, sample_weight: PerRow = None) -> float:
    """Mean number of classes in a set; ``y_true`` is ignored, so that all metrics share one signature.

    Parameters
    ----------
    y_true, y_set, sample_weight : see :func:`~skribbon.metrics.set_coverage_score`

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
    r"""Range of the observed coverage of new rows due to sampling variability, if the nominal level holds.

    The number of covered rows is binomial. With m calibration rows the coverage itself is random,
    :math:`\mathrm{Beta}(k, m + 1 - k)` with :math:`k = \lceil (m + 1)\,\mathrm{level} \rceil`, and the number is
    beta-binomial.

    Parameters
    ----------
    n_samples : int
        Number of independent rows.
    confidence_level : float, default=0.9
    n_calibration : int, default=None
        Number of calibration rows of conformal intervals.
    probability : float, default=0.95
        Probability of the range.

    Returns
    -------
    lower, upper : float
        At most half of the remaining probability lies beyond each.

    Examples
    --------
    >>> from skribbon.metrics import coverage_band
    >>> coverage_band(1000, 0.9, n_calibration=100)
    (0.833, 0.953)
    """
    check_single_level(confidence_level)
    check_levels(probability, "probability")
    check_count(n_samples, "n_samples")
    lower, upper = chance_limits(n_samples, confidence_level, probability, n_calibration)
    return float(lower), float(upper)


def chance_limits(n, p, level, m=None):
    """Central range of the share of round(n) rows covered: binomial, or beta-binomial by m calibration rows.

    Above 10,000 rows, the beta distribution of equal mean and variance replaces the beta-binomial.
    """
    n, tails = np.maximum(np.round(n), 1), np.array([(1 - level) / 2, (1 + level) / 2])
    if m is None:
        return tuple(binom.ppf(tail, n, p) / n for tail in tails)

    @cache
    def ends(n, k):
        if not 0 < k <= m:  # empty or infinite intervals
            return np.full(2, float(k > 0))
        if n <= 1e4:
            return np.searchsorted(betabinom.pmf(np.arange(n + 1), n, k, m + 1 - k).cumsum(), tails) / n
        return beta.ppf(tails, *np.array([k, m + 1 - k]) / (m + 1) * (n / (1 + (n - 1) / (m + 2)) - 1))

    ranks = np.ceil((m + 1) * np.asarray(p) - 1e-10 * m)
    return tuple(np.moveaxis(np.vectorize(ends, signature="(),()->(t)")(n, ranks), -1, 0))


def _gaussian(y_true, y_pred, y_std):
    """Standardized residuals and standard deviations, each (n,) or (n, m)."""
    y_true = check_array(y_true, ensure_2d=False, input_name="y_true")
    y_true, y_pred, y_std = (np.asarray(v) if np.ndim(v) == 2 else column_or_1d(v) for v in (y_true, y_pred, y_std))
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
    sample_weight: PerRow = None,
    multioutput: Outputs = "uniform_average",
) -> float | FloatArray:
    r"""Mean negative log density of a normal prediction.

    .. math:: \frac1n \sum_i \frac{(y_i - \mu_i)^2}{2 \sigma_i^2} + \log \sigma_i + \tfrac12 \log 2\pi

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_pred, y_std : array-like, of the shape of y_true
        Means and standard deviations.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"uniform_average", "raw_values"} or array-like of shape (n_outputs,), default="uniform_average"

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
    sample_weight: PerRow = None,
    multioutput: Outputs = "uniform_average",
) -> float | FloatArray:
    r"""Mean continuous ranked probability score of a normal prediction.

    .. math:: \frac1n \sum_i \sigma_i \left[z_i (2\Phi(z_i) - 1) + 2\varphi(z_i) - \pi^{-1/2}\right],
              \qquad z_i = (y_i - \mu_i) / \sigma_i

    Parameters
    ----------
    y_true, y_pred, y_std, sample_weight, multioutput : see :func:`~skribbon.metrics.gaussian_nll`

    Returns
    -------
    float, or ndarray of shape (n_outputs,) for "raw_values"

    Examples
    --------
    >>> from skribbon.metrics import crps_gaussian
    >>> round(crps_gaussian([0.0], [0.0], [1.0]), 4)
    0.2337
    """
    z, scale = _gaussian(y_true, y_pred, y_std)
    return average(scale * (z * (2 * ndtr(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)), sample_weight, multioutput)


def crps_samples(
    y_true: ArrayLike, y_samples: ArrayLike, *, sample_weight: PerRow = None, multioutput: Outputs = "uniform_average"
) -> float | FloatArray:
    r"""Mean continuous ranked probability score of predictive draws.

    .. math:: \frac1n \sum_i \mathrm{E}|Y_i - y_i| - \tfrac12 \mathrm{E}|Y_i - Y_i'|

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
    y_samples : array-like of shape (n_draws, n_samples) or (n_draws, n_samples, n_outputs)
        Draws, as ``predict_samples`` returns them.
    sample_weight, multioutput : see :func:`~skribbon.metrics.gaussian_nll`

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
    return average(points_crps(np.moveaxis(draws, 0, -1), y_true), sample_weight, multioutput)


def _with_draws(y_true, y_samples):
    """Observations (n,) or (n, m), and draws (B, n) or (B, n, m)."""
    draws = check_array(y_samples, allow_nd=True)
    y_true = check_array(y_true, input_name="y_true") if draws.ndim == 3 else check_observed(y_true)
    if draws.shape[1:] != y_true.shape:
        raise ValueError(f"y_samples must have shape (n_draws, *{y_true.shape}), draws first, got {draws.shape}.")
    return y_true, draws


def energy_score(y_true: ArrayLike, y_samples: ArrayLike, *, sample_weight: PerRow = None) -> float:
    r"""Mean energy score of joint predictive draws of several outputs.

    .. math:: \frac1n \sum_i \mathrm{E}\|Y_i - y_i\| - \tfrac12 \mathrm{E}\|Y_i - Y_i'\|

    Outputs on a larger scale count more, unless all are divided by their standard deviations.

    Parameters
    ----------
    y_true : array-like of shape (n_samples, n_outputs)
    y_samples : array-like of shape (n_draws, n_samples, n_outputs)
        Draws, as ``predict_samples`` returns them.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float
        Smaller is better; minimized in expectation by the true joint distribution.

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
    """Probability integral transform P(Y <= y), uniform if the predictive distribution is right.

    For values of positive probability, such as counts, the result is a random point between P(Y < y) and P(Y <= y).

    Parameters
    ----------
    estimator : fitted RibbonRegressor or RibbonCV
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    random_state : int, RandomState or None, default=0
        Seed of the random points.

    Returns
    -------
    ndarray, of the shape of y

    Examples
    --------
    >>> from skribbon.metrics import pit_values
    >>> X, y = load_diabetes(return_X_y=True)
    >>> pit_values(RibbonRegressor().fit(X, y), X[:2], y[:2]).round(2)
    array([0.18, 0.57])
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
    sample_weight: PerRow = None,
) -> tuple[FloatArray, FloatArray]:
    """Nominal against empirical coverage of central prediction intervals.

    Parameters
    ----------
    estimator : fitted estimator with ``predict_interval``
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    confidence_levels : array-like of shape (L,), default=None
        If None, 0.05, 0.10, ..., 0.95.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    levels, coverage : ndarray of shape (L,)

    Examples
    --------
    >>> from skribbon.metrics import coverage_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> coverage_curve(RibbonRegressor().fit(X, y), X, y, confidence_levels=[0.5, 0.9])[1].round(2)
    array([0.48, 0.93])
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
    sample_weight: PerRow = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean confidence and accuracy of the predicted class, in bins of confidence.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_proba : array-like of shape (n_samples, K), or (n_samples,) for the second of two classes
    n_bins : int, default=15
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or with equally many rows.
    labels : array-like of shape (K,), default=None
        Labels in the order of the columns; sorted unique values of ``y_true`` if None.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    confidence, accuracy, weight : ndarray of shape (n_nonempty_bins,)
        Mean confidence, fraction correct, and total weight of the rows.

    Examples
    --------
    >>> from skribbon.metrics import reliability_curve
    >>> reliability_curve([0, 1, 1, 1], [[0.8, 0.2], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]])
    (array([0.6, 0.8, 0.9]), array([0.5, 1. , 1. ]), array([2., 1., 1.]))
    """
    confidence, correct = _confidences(y_true, y_proba, labels)
    return binned(confidence, correct, sample_weight, n_bins, strategy)


def binned(confidence, correct, weight, n_bins, strategy):
    """Mean confidence, mean accuracy and weight of every nonempty bin."""
    weight, n_bins = checked_weight(weight, confidence), check_count(n_bins, "n_bins")
    check_name(strategy, "strategy", ("uniform", "quantile"))
    edges = np.linspace(0, 1, n_bins + 1)
    edges = edges if strategy == "uniform" else np.quantile(confidence, edges)
    bins = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, n_bins - 1)
    total = np.bincount(bins, weight, minlength=n_bins)
    filled = total > 0
    means = [np.bincount(bins, weight * v, minlength=n_bins)[filled] / total[filled] for v in (confidence, correct)]
    return means[0], means[1], total[filled]


def calibration_error(confidence, correct, weight=None, n_bins=15, strategy="uniform"):
    """Expected calibration error of confidences (n,) in predictions that are ``correct`` (n,) or not."""
    confidence, accuracy, total = binned(confidence, correct, weight, n_bins, strategy)
    return average(np.abs(confidence - accuracy), total)


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    labels: ArrayLike | None = None,
    sample_weight: PerRow = None,
) -> float:
    r"""Mean distance between confidence and accuracy over bins of confidence.

    .. math:: \sum_b \frac{n_b}{n} |\mathrm{acc}_b - \mathrm{conf}_b|

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, labels, sample_weight : see :func:`~skribbon.metrics.reliability_curve`

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1, 1, 1], [[0.8, 0.2], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]]), 3)
    0.125
    """
    confidence, correct = _confidences(y_true, y_proba, labels)
    return calibration_error(confidence, correct, sample_weight, n_bins, strategy)
