"""Conformity scores, their ranks, and calibrations of regressors and classifiers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils import column_or_1d

from .._laws.noise_distributions import sample_quantiles
from .._laws.tweedie import TINY
from .._predict.predictive import Predictive
from .._predict.target import from_zero
from .._utils.checks import check_count, check_levels, check_name, group_codes, group_labels
from .._utils.compat import check_sample_weight
from .._utils.typing import ClassScoreName, FloatArray, Levels, PerRow
from ..exceptions import CalibrationWarning, warn_user

TAIL = 1e-8  # below this tail probability scores grow linearly: 1 - F has only eight digits there, and fewer beyond
FAR = -float(ndtri(TAIL))  # the score at TAIL
ROUNDING = 1e-10  # relative error allowed to sums of weights and probabilities, and to bounds from a search


# ---------------------------------------------------------------------- ranks
def conformal_quantile(
    scores: ArrayLike, confidence_level: Levels, sample_weight: PerRow = None, test_weight: ArrayLike = 1.0
) -> FloatArray:
    r"""Score that a new row exceeds with a probability of at most one minus the level.

    It is the smallest score s with :math:`\sum_{s_i \le s} w_i \ge (1 - \tau)(\sum_i w_i + w)`, with w the weight of
    the new row: the :math:`\lceil (m + 1)(1 - \tau) \rceil`-th smallest of m scores of equal weight.

    Parameters
    ----------
    scores : array-like of shape (m,)
        Scores of the calibration rows.
    confidence_level : float or sequence of L floats
    sample_weight : array-like of shape (m,), default=None
        Weights of the calibration rows; ones if None.
    test_weight : float or array-like of shape (n,), default=1.0
        Weights of the rows to predict.

    Returns
    -------
    ndarray of shape (), (L,), (n,) or (n, L)
        Infinite if there are too few calibration rows for the level.

    See Also
    --------
    Calibration : Scores of calibration rows.

    Notes
    -----
    User guide: :doc:`/user_guide/guarantees`.

    References
    ----------
    * Vovk, V., Gammerman, A. and Shafer, G. (2005). Algorithmic Learning in a Random World. Springer.
    * Tibshirani, R. J., Barber, R. F., Candès, E. J. and Ramdas, A. (2019). Conformal Prediction Under Covariate Shift.
      NeurIPS.

    Examples
    --------
    >>> from skribbon.conformal import conformal_quantile
    >>> scores = [0.3, 0.1, 0.9, 0.4, 0.2, 0.8, 0.6, 0.5, 0.7]
    >>> conformal_quantile(scores, [0.5, 0.9, 0.95])
    array([0.5, 0.9, inf])
    """
    levels, scalar = check_levels(confidence_level, "confidence_level")
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).any():
        raise ValueError("scores must not be NaN; leave out rows without a score.")
    weight = check_sample_weight(sample_weight, scores, dtype=float, ensure_non_negative=True)
    order = np.argsort(scores, kind="stable")
    reached, new = np.cumsum(weight[order]), np.asarray(test_weight, dtype=float)
    total = reached[-1] if len(reached) else 0.0
    found = np.searchsorted(reached, weight_to_reach(levels, total, new[..., None]))  # (..., L)
    values = np.append(scores[order], np.inf)[found]
    return values[..., 0] if scalar else values


def weight_to_reach(levels, total, new=1.0):
    """Weight (..., L) that rows up to a bound must reach, out of a total, for new rows of weight (..., 1)."""
    return levels * (total + new) - ROUNDING * total


def ends_of_many(lower, upper, asked, weight=None):
    """Bounds (n, 2, L) of jackknife+ and CV+ from proposed bounds (n, m), which are reordered in place.

    The upper bound is the smallest proposal up to which the weights (m,) reach ``asked`` (L,), the lower likewise.
    """
    if weight is not None and (weight != 1).any():
        ends = [-reaching(-lower, asked, weight), reaching(upper, asked, weight)]
    else:
        place = np.ceil(asked).astype(int) - 1  # (L,)
        ends = [_order(lower, upper.shape[1] - 1 - place, -np.inf), _order(upper, place, np.inf)]
    return np.stack(ends, axis=1)


def _order(values, place, beyond):
    """Order statistics (n, L) of each row of values (n, m); ``beyond`` if there are too few values."""
    inside = (place >= 0) & (place < values.shape[1])
    if inside.any():
        values.partition(np.unique(place[inside]), axis=1)
    return np.where(inside, values[:, np.where(inside, place, 0)], beyond)


def reaching(values, asked, weight):
    """Smallest value in each row of values (n, m) up to which the weights (m,) reach ``asked``, (n, L)."""
    order = np.argsort(values, axis=1, kind="stable")
    reached = np.cumsum(weight[order], axis=1)
    place = (reached[:, :, None] < asked).sum(axis=1)  # (n, L)
    ordered = np.pad(np.take_along_axis(values, order, axis=1), ((0, 0), (0, 1)), constant_values=np.inf)
    return np.take_along_axis(ordered, place, axis=1)


def rows_needed(level):
    """Fewest calibration rows that give a finite bound at the level."""
    return int(np.ceil(level / (1 - level) - ROUNDING))


# ---------------------------------------------------------------------- scores of observations
class DistributionScore:
    """Score |F(y) - 1/2| under the predictive distribution, as a quantile of the standard normal."""

    def of(self, distribution, y):
        """Scores (n,) of observations.

        F is P(Y <= y) below the median and P(Y < y) above it. If less than TAIL is left beyond y, scores grow with the
        distance from there, in units of the distribution.
        """
        t = distribution.target.encode(y)
        tail = np.minimum(distribution.law.cdf(t), 1 - distribution.law.cdf_below(t))
        scores = np.maximum(-ndtri(np.maximum(tail, TAIL)), 0.0)
        far = np.flatnonzero(tail < TAIL)
        if len(far):
            low, high, unit = _far_bounds(_rows_of(distribution, far).law)
            beyond = np.maximum(np.maximum(t[far] - high, low - t[far]), 0.0)
            with np.errstate(over="ignore", invalid="ignore"):  # infinite scores are in order
                distance = np.divide(beyond, unit, out=np.where(beyond > 0, np.inf, 0.0), where=unit > 0)
            scores[far] += np.where(np.isnan(distance), np.inf, distance)
        return scores

    def above(self, distribution, y):
        """Whether more of the distribution lies below y than above, (n,)."""
        t = distribution.target.encode(y)
        upper = distribution.law.cdf(t) > 1 - distribution.law.cdf_below(t)
        return upper if distribution.target.increasing else ~upper

    def ends(self, distribution, scores, sign=1):
        """Lower and upper bounds (n, L) of all y that score at most scores (L,), rounded outward, or inward by -1."""
        law, target = distribution.law, distribution.target
        sign = 1 if law.discrete else sign  # a bound of counts is a count
        z = np.minimum(scores + sign * 1e-8, FAR)  # so that rounding of F leaves no calibration row outside
        lower, upper = np.split(law.ppf(np.concatenate([ndtr(-z), ndtr(z)])), 2, axis=-1)
        if distribution.latent.draws is not None and not law.discrete:  # a search between draws may stop just short
            slack = sign * ROUNDING * np.nan_to_num(upper - lower, nan=0.0, posinf=0.0)
            lower, upper = lower - slack, upper + slack
        far = scores > FAR
        if far.any():
            rounding = sign * 4 * np.finfo(float).eps / TAIL  # relative rounding error of the tail probability at FAR
            reach = _reach(np.where(far, scores - FAR + rounding, 0.0), _far_bounds(law)[2])
            lower, upper = np.where(far, _moved(lower, upper, reach, sign), [lower, upper])
        if not law.real:
            lower = np.where(lower > 2 * TINY, lower, 0.0)  # means are at least TINY, but y may be zero
        lower, upper = target.decode(lower), target.decode(upper)
        lower, upper = (lower, upper) if target.increasing else (upper, lower)
        if not target.is_identity:
            lower, upper = _moved(lower, upper, 0.0, sign)
        if np.isfinite([target.lower, target.upper]).any():  # the transform may end before y does
            lower, upper = np.where(np.isinf(scores), -np.inf, lower), np.where(np.isinf(scores), np.inf, upper)
        return lower, upper


@dataclass(frozen=True)
class ResidualScore:
    """Score |y - prediction|, in units (n,) returned by ``unit(distribution)``."""

    unit: Callable

    def of(self, distribution, y):
        """Scores (n,) of observations; infinite where the prediction is NaN."""
        distance, size = np.nan_to_num(np.abs(y - distribution.prediction()), nan=np.inf), self.unit(distribution)
        return np.divide(distance, size, out=np.where(distance > 0, np.inf, 0.0), where=size > 0)

    def above(self, distribution, y):
        """Whether y is above the prediction, (n,)."""
        return y > distribution.prediction()

    def ends(self, distribution, scores, sign=1):
        """Lower and upper bounds (n, L) of all y that score at most scores (L,), rounded outward, or inward by -1."""
        centre = distribution.prediction()[:, None]
        return _moved(centre, centre, _reach(scores, self.unit(distribution)), sign)


SCORES = {
    "distribution": DistributionScore(),
    "normalized": ResidualScore(Predictive.std),
    "absolute": ResidualScore(lambda distribution: np.ones(len(distribution))),
}


def _far_bounds(law):
    """Quantiles (n,) that leave TAIL beyond them, and the distance between them per normal standard deviation."""
    low, high = law.ppf(np.array([TAIL, 1 - TAIL])).T
    with np.errstate(invalid="ignore"):
        return low, high, np.nan_to_num((high - low) / (2 * FAR), nan=np.inf, posinf=np.inf)


def _reach(scores, unit):
    """Distances (n, L) for scores (L,) in units (n,): infinite for an infinite score or an infinite unit."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(scores) | np.isinf(unit[:, None]), np.inf, scores * unit[:, None])


def outward(reach, centre, sign=1):
    """Round distances up, or down by a sign of -1, by some last digits, so that an observation on a bound is inside."""
    return reach + sign * 1e-15 * (np.where(np.isinf(centre), 0.0, np.abs(centre)) + reach)


def _moved(lower, upper, reach, sign):
    """Bounds moved apart by rounded distances; infinite if the distance is infinite or the bound NaN."""
    with np.errstate(invalid="ignore"):
        ends = [(k, end, end + k * outward(reach, end, sign)) for k, end in ((-1, lower), (1, upper))]
    return [np.where(np.isinf(reach) | np.isnan(end), k * np.inf, moved) for k, end, moved in ends]


def interval_of(score, distribution, thresholds, sign=1):
    """Intervals (n, 2, L) of all y that score at most the thresholds (n, L), rounded outward, or inward by -1."""
    known, place = np.unique(thresholds, axis=0, return_inverse=True)
    place = place.reshape(-1)
    intervals = np.empty((len(thresholds), 2, thresholds.shape[1]))
    for k, scores in enumerate(known):
        rows = np.flatnonzero(place == k)
        part = distribution if len(rows) == len(place) else _rows_of(distribution, rows)
        intervals[rows] = np.stack(SCORES[score].ends(part, scores, sign), axis=1)
    return from_zero(intervals, distribution.target, distribution.loss) if score == "distribution" else intervals


def _rows_of(distribution, rows):
    """Predictive distribution of some of the rows."""
    dispersion = np.broadcast_to(distribution.dispersion, len(distribution))[rows]
    return replace(distribution, latent=distribution.latent.take(rows), dispersion=dispersion)


# ---------------------------------------------------------------------- scores of classes
def class_scores(score, probabilities, u=0.0):
    """Scores (n, K) of all classes under probabilities (n, K).

    "lac" is one minus the probability; "aps" the total probability of all classes at least as probable, minus u (n,),
    zero or uniform, times the probability itself.
    """
    if score == "lac":
        return 1 - probabilities
    order = np.argsort(-probabilities, axis=1, kind="stable")
    total = np.cumsum(np.take_along_axis(probabilities, order, axis=1), axis=1)
    scores = np.take_along_axis(total, np.argsort(order, axis=1), axis=1)
    return scores - np.reshape(u, (-1, 1)) * probabilities


# ---------------------------------------------------------------------- the calibration
@dataclass(frozen=True, eq=False)
class Calibration:
    """Conformity scores of calibration rows, set by ``conformalize``, with thresholds for new rows.

    Parameters
    ----------
    score : str
        Name of the score.
    scores : ndarray of shape (m,)
    weight : ndarray of shape (m,)
    above : ndarray of bool, of shape (m,), or None
        Whether each observation is on the upper side.
    labels : Index or None
        Labels of the groups within which the guarantee holds.
    group : ndarray of shape (m,) or None
        Positions of the rows' groups among the labels.
    edges : ndarray of shape (b - 1,) or None
        Edges between bins of the predicted standard deviation, if these are the groups.
    of_classes : bool
        Whether the groups are the classes.
    randomized : bool
        Whether class scores are randomized.

    See Also
    --------
    skribbon.RibbonRegressor.conformalize : Computes the scores.
    conformal_quantile : The threshold of the scores.

    Notes
    -----
    User guide: :doc:`/user_guide/guarantees`.

    References
    ----------
    * Vovk, V., Gammerman, A. and Shafer, G. (2005). Algorithmic Learning in a Random World. Springer.
    * Tibshirani, R. J., Barber, R. F., Candès, E. J. and Ramdas, A. (2019). Conformal Prediction Under Covariate Shift.
      NeurIPS.

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor().fit(X[:200], y[:200]).conformalize(X[200:], y[200:], score="absolute")
    >>> ribbon.conformal_.thresholds([0.5, 0.9], 1).round(0)
    array([[36., 95.]])
    """

    score: str
    scores: FloatArray
    weight: FloatArray
    above: NDArray[np.bool_] | None = None
    labels: Any = None
    group: NDArray[np.intp] | None = None
    edges: FloatArray | None = None
    of_classes: bool = False
    randomized: bool = False

    @classmethod
    def from_labels(cls, score: str, scores: FloatArray, weight: PerRow, groups: PerRow) -> Self:
        """Build from scores, optionally in labelled groups.

        Parameters
        ----------
        score : str
        scores : ndarray of shape (m,)
        weight, groups : array-like of shape (m,) or None

        Returns
        -------
        Calibration
        """
        import pandas as pd

        weight = check_sample_weight(weight, scores, dtype=float)
        if groups is None:
            return cls(score, scores, weight)
        code, labels = pd.factorize(checked_labels(groups, len(scores)), sort=False)
        return cls(score, scores, weight, labels=pd.Index(labels), group=code)

    @classmethod
    def from_spread(cls, score: str, scores: FloatArray, weight: PerRow, std: FloatArray, bins: Any) -> Self:
        """Build from scores in bins of the predicted standard deviation.

        Parameters
        ----------
        score : str
        scores : ndarray of shape (m,)
        weight : array-like of shape (m,) or None
        std : ndarray of shape (m,)
            Predicted standard deviations of the calibration rows.
        bins : int or array-like of shape (b - 1,)
            Number of bins with equally many calibration rows, or the inner edges between them.

        Returns
        -------
        Calibration
        """
        if np.ndim(bins) == 0:
            shares = np.arange(1, check_count(bins, "bins")) / bins
            edges = np.unique(sample_quantiles(std, check_sample_weight(weight, std, dtype=float), shares))
        else:
            edges = np.asarray(bins, dtype=float)
            if edges.ndim != 1 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise ValueError(f"bins must be a number of bins or increasing inner edges, got {bins!r}.")
        whole = cls.from_labels(score, scores, weight, np.searchsorted(edges, std))
        return replace(whole, edges=edges)

    def groups_of(self, groups: PerRow, n: int, std: Callable[[], FloatArray] | None = None) -> NDArray[np.intp] | None:
        """Group positions of the rows to predict.

        Parameters
        ----------
        groups : array-like of shape (n,) or None
            Labels, if the calibration rows had labels.
        n : int
        std : callable, default=None
            Returns the predicted standard deviations (n,), if these define the groups.

        Returns
        -------
        ndarray of shape (n,) or None
        """
        if groups is not None and (self.labels is None or self.edges is not None or self.of_classes):
            raise ValueError("groups needs calibration rows with groups; pass groups to conformalize too.")
        if self.labels is None or self.of_classes:
            return None
        if self.edges is not None and std is not None:
            return self.labels.get_indexer(np.searchsorted(self.edges, std()))
        if groups is None:
            raise ValueError("The calibration rows had groups: pass the groups of the rows to predict too.")
        labels = checked_labels(groups, n)
        code = self.labels.get_indexer(labels)
        if (code < 0).any():
            unknown = list(dict.fromkeys(labels[code < 0].tolist()))[:5]
            raise ValueError(f"groups has labels that no calibration row had: {unknown}; conformalize with them.")
        return code

    def thresholds(
        self, confidence_level: Levels, n: int, group: NDArray[np.intp] | None = None, test_weight: PerRow = None
    ) -> FloatArray:
        """Largest scores allowed in the intervals or sets of the rows to predict.

        Parameters
        ----------
        confidence_level : float or sequence of L floats
        n : int
            Number of rows.
        group : ndarray of shape (n,), default=None
            Positions of their groups among the labels.
        test_weight : array-like of shape (n,), default=None
            Weights, on the scale of the calibration rows' weights; ones if None.

        Returns
        -------
        ndarray of shape (n, L)
        """
        levels, _ = check_levels(confidence_level, "confidence_level")
        v = np.ones(n) if test_weight is None else checked_test_weight(test_weight, n)
        thresholds, like = np.full((n, len(levels)), np.inf), np.zeros(n)  # for groups without calibration rows
        parts = [(slice(None), slice(None))]
        if group is not None and self.group is not None:
            parts = [(group == code, self.group == code) for code in np.unique(group[group >= 0])]
        for rows, own in parts:
            new = v[rows] if test_weight is not None else 1.0
            thresholds[rows] = conformal_quantile(self.scores[own], levels, self.weight[own], new)
            with np.errstate(divide="ignore"):
                like[rows] = self.weight[own].sum() / v[rows]
        _warn_of_few(levels, np.isinf(thresholds), like, group is not None)
        return thresholds


def _warn_of_few(levels, infinite, like, grouped):
    """Warn about infinite bounds (n, L), given the number of calibration rows for each row (n,)."""
    if not infinite.any():
        return
    level, rows = levels[infinite.any(axis=0)].max(), infinite.any(axis=1)
    needed, found = rows_needed(level), like[rows].min()
    reason = (
        f"confidence_level={level:g} needs at least {needed} calibration rows of the same weight, but there are "
        f"{found:.4g}{' in its group' if grouped else ''}. Try: more calibration rows, or a lower level."
    )
    if found >= needed:
        reason = f"over {1 - level:.3g} of the calibration rows are impossible under its family. Try: score='absolute'."
    warn_user(f"Bounds of {rows.sum()} of {len(rows)} rows are infinite: {reason}", CalibrationWarning)


def checked_labels(groups, n):
    """Group labels (n,); refuses missing labels."""
    labels = group_labels(groups)
    group_codes(labels, n)  # raises
    return column_or_1d(labels)


def checked_test_weight(weight, n):
    """Weights (n,) of rows to predict; refuses negative and infinite weights."""
    weight = np.asarray(weight, dtype=float)
    weight = np.broadcast_to(weight, n) if weight.ndim == 0 else column_or_1d(weight)
    if len(weight) != n or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(f"sample_weight must be a finite number >= 0 for each of the {n} rows to predict.")
    return weight


def calibrate(held_out, score, bins=None):
    """Build a Calibration of a regressor from a HeldOut record of one output."""
    check_name(score, "score", tuple(SCORES))
    distribution, y, groups = held_out.distribution, held_out.y, held_out.group
    if groups is not None and bins is not None:
        raise ValueError("groups and bins are mutually exclusive; set only one of them.")
    if score == "distribution" and not distribution.law.real and (held_out.targets < 0).any():
        raise ValueError("y_cal has values below zero, impossible under the base model's family; use score='absolute'.")
    if (score == "normalized" or bins is not None) and np.isinf(distribution.std()).any():
        raise ValueError("Predicted standard deviations of y are infinite; use score='distribution' without bins.")
    scores, above = SCORES[score].of(distribution, y), SCORES[score].above(distribution, y)
    if bins is not None:
        calibration = Calibration.from_spread(score, scores, held_out.weight, distribution.std(), bins)
    else:
        calibration = Calibration.from_labels(score, scores, held_out.weight, groups)
    return replace(calibration, above=above)


def calibrate_classes(held_out, score, class_conditional, u):
    """Build a Calibration of a classifier from a HeldOut record; u (m,) is uniform or zero."""
    check_name(score, "score", get_args(ClassScoreName))
    if held_out.group is not None and class_conditional:
        raise ValueError("groups and class_conditional are mutually exclusive; set only one of them.")
    probabilities, own = held_out.distribution.mean(), held_out.y
    scores = class_scores(score, probabilities, u)[np.arange(len(own)), own]
    calibration = Calibration.from_labels(score, scores, held_out.weight, held_out.group)
    if not class_conditional:
        return calibration
    from pandas import RangeIndex

    return replace(calibration, labels=RangeIndex(probabilities.shape[1]), group=own, of_classes=True)


def conformal_set(calibration, probabilities, confidence_level, groups, weight, u):
    """Sets (n, K, L) of the classes that score at most the thresholds."""
    n, K = probabilities.shape
    group = calibration.groups_of(groups, n)
    by_class = [np.full(n, k) for k in range(K)] if calibration.of_classes else [group]
    columns = [calibration.thresholds(confidence_level, n, own, weight) for own in by_class]
    thresholds = np.stack(columns, axis=1)  # (n, K, L), or (n, 1, L) if all classes have the same
    return class_scores(calibration.score, probabilities, u)[:, :, None] <= thresholds + ROUNDING


def conformal_interval(calibration, distribution, confidence_level, groups, weight):
    """Conformal intervals (n, 2) or (n, 2, L) of a predictive distribution."""
    _, scalar = check_levels(confidence_level, "confidence_level")
    group = calibration.groups_of(groups, len(distribution), distribution.std)
    thresholds = calibration.thresholds(confidence_level, len(distribution), group, weight)
    intervals = interval_of(calibration.score, distribution, thresholds)
    return intervals[..., 0] if scalar else intervals


def conformal_bounds(calibration, distribution, quantiles, groups, weight):
    """One-sided bounds (n, Q): upper bounds for quantiles from 0.5 on, lower bounds below."""
    group = calibration.groups_of(groups, len(distribution), distribution.std)
    signed = np.where(calibration.above, 1.0, -1.0) * calibration.scores
    bounds = np.empty((len(distribution), len(quantiles)))
    for side, some in ((1, quantiles >= 0.5), (0, quantiles < 0.5)):
        if some.any():
            one_sided = replace(calibration, scores=signed if side else -signed)
            levels = quantiles[some] if side else 1 - quantiles[some]
            thresholds = one_sided.thresholds(levels, len(distribution), group, weight)
            # (n, 2, Q) each; a bound on the other side of the median is an end that is rounded inward
            outer, inner = (interval_of(calibration.score, distribution, np.abs(thresholds), sign) for sign in (1, -1))
            bounds[:, some] = np.where(thresholds >= 0, outer[:, side], inner[:, 1 - side])
    return bounds
