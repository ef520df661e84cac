"""Distribution of an observation given an uncertain raw prediction, on the scale of the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr
from sklearn.utils import check_random_state

from .._core.linalg import LARGEST
from .._laws import Estimate, Law, LocationFamily, NoiseLaw, Normal, Student, normal_levels
from .._utils.checks import check_count, check_levels, check_observations
from .._utils.typing import FloatArray, Levels, RandomState
from ..models.losses import Loss
from .latent import Latent
from .target import TargetScale

NODES, WEIGHTS = hermegauss(21)  # Gauss-Hermite nodes of a standard normal law
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Drawn(Normal):
    """Law of what a finite number of draws (..., n, B) stand for; its density is that of the normal law like them.

    Where their spread rests on few rows, with degrees of freedom df (n,), its levels are further out among the draws.
    """

    def __init__(self, draws, df=None):
        draws = np.clip(draws, -LARGEST, LARGEST)  # a mean behind a link may be infinite
        mean = draws.mean(axis=-1)
        super().__init__(mean, ((draws - mean[..., None]) ** 2).mean(axis=-1))
        self._draws, self._df = draws, np.inf if df is None else df

    def take(self, index):
        return Normal(*self.parameters).take(index)

    def ppf(self, q):
        q = np.asarray(q, dtype=float)
        if np.isinf(self._df).all():
            values = np.quantile(self._draws, q, axis=-1)
            return values if q.ndim == 0 else np.moveaxis(values, 0, -1)
        levels = np.broadcast_to(normal_levels(np.atleast_1d(q), self._df), (*self.shape, q.size))
        ordered, place = np.sort(self._draws, axis=-1), levels * (self._draws.shape[-1] - 1)
        left, right = (np.take_along_axis(ordered, end(place).astype(int), axis=-1) for end in (np.floor, np.ceil))
        values = left + (place - np.floor(place)) * (right - left)
        return values[..., 0] if q.ndim == 0 else values

    def cdf(self, y):
        return self._student(self._rank(y, np.less_equal))

    def cdf_below(self, y):
        return self._student(self._rank(y, np.less))

    def _student(self, level):
        """The inverse of the change of levels."""
        if np.isinf(self._df).all():
            return level
        with np.errstate(divide="ignore"):
            return np.where(np.isinf(self._df), level, stdtr(np.minimum(self._df, 1e300), ndtri(level)))

    def _rank(self, y, compare):
        """The inverse of the linear interpolation between draws that their quantiles are."""
        y, ordered = np.asarray(y, dtype=float)[..., None], np.sort(self._draws, axis=-1)
        B, below = ordered.shape[-1], compare(ordered, y).sum(axis=-1, keepdims=True)
        left, right = (np.take_along_axis(ordered, np.clip(below + k, 0, B - 1), axis=-1) for k in (-1, 0))
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.nan_to_num((y - left) / (right - left), nan=0.0, posinf=0.0, neginf=0.0)
        return np.clip((below - 1 + np.clip(part, 0, 1)) / max(B - 1, 1), 0, 1)[..., 0]


@dataclass(frozen=True, eq=False)
class Predictive:
    r"""Distribution of an observation at each of n rows, or of the mean function there.

    Made by ``predict_distribution``; its rows are the rows of X.

    .. math:: y \mid f \sim \mathrm{law}(f, \phi(x)), \qquad f \sim N(\hat f, J_x\, \mathrm{Cov}(\Delta\theta_w)\, J_x')

    Parameters
    ----------
    latent : Latent
        The uncertain raw prediction.
    loss : Loss
        Gives the distribution of an observation given the raw prediction.
    dispersion : ndarray of shape (n,)
        Dispersion of the observations around their mean.
    shape : NoiseLaw
        Law of the noise around a least-squares prediction.
    target : TargetScale
        Maps the scale that the base model was fitted on to that of y.
    kind : {"prediction", "confidence"}
        The distribution of an observation, or of the mean function.

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True)
    >>> distribution = RibbonRegressor().fit(X, y).predict_distribution(X[:2])
    >>> distribution.quantile(0.95).round(0)
    array([302., 134.])
    >>> distribution.crps(y[:2]).round(1)
    array([33. ,  9.8])
    """

    latent: Latent
    loss: Loss
    dispersion: FloatArray
    shape: NoiseLaw
    target: TargetScale
    kind: Literal["prediction", "confidence"] = "prediction"

    def __len__(self):
        return len(self.latent.f)

    @property
    def _family(self):
        return self.loss.law(self.dispersion, self.shape)

    @cached_property
    def law(self) -> Law:
        """Law (..., n) on the inner scale: of the fitted target for a prediction, of f for the mean function."""
        f, variance, draws = self.latent.f[:, 0], self.latent.covariance[..., 0, 0], self.latent.draws
        if self.kind == "confidence":
            if draws is not None:
                return Drawn(draws[..., 0, :], self.latent.df)
            return Normal(f, variance) if self.latent.freedom is None else Estimate(f, variance, self.latent.df)
        if draws is None:
            return self._family.marginal(f, variance)
        if not np.any(self.dispersion):
            return Drawn(self.loss.mean(draws[..., 0, :]))
        return self._family.mixture(draws[..., 0, :])

    @property
    def _inner_is_outer(self):
        return self.target.is_identity and (self.kind == "prediction" or not self._curved)

    @property
    def _curved(self):
        """Whether the link is one."""
        return not isinstance(self._family, LocationFamily)

    def _outer(self, inner):
        t = self.loss.mean(inner) if self.kind == "confidence" else inner
        return t if self.target.model is None else self.target.decode(t)

    def _inner(self, y):
        t = self.target.encode(y)
        return self.loss.from_mean(t) if self.kind == "confidence" else t

    # ------------------------------------------------------------------ moments
    def _by_nodes(self):
        """Values (..., n, nodes) that stand for the distribution."""
        heavy = self.shape.heavy and not self.target.is_identity  # behind exp they have no variance
        law = Normal(self.law.mean(), self.law.var()) if heavy else self.law
        return self._outer(law.ppf(ndtr(NODES)))

    def mean(self) -> FloatArray:
        """Means.

        Returns
        -------
        ndarray of shape (n,)
        """
        if self._inner_is_outer:
            return self.law.mean()
        with np.errstate(invalid="ignore", over="ignore"):
            return np.nan_to_num(self._by_nodes() @ WEIGHTS, nan=np.inf, posinf=np.inf, neginf=-np.inf)

    def var(self) -> FloatArray:
        """Variances.

        Returns
        -------
        ndarray of shape (n,)
        """
        if self._inner_is_outer:
            return self.law.var()
        with np.errstate(invalid="ignore", over="ignore"):
            return _node_variance(self._by_nodes())

    def std(self) -> FloatArray:
        """Standard deviations.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.sqrt(self.var())

    # ------------------------------------------------------------------ quantiles
    def quantile(self, q: Levels) -> FloatArray:
        """Quantiles.

        Parameters
        ----------
        q : float or sequence of Q floats
            Strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (n,) or (n, Q)
        """
        q, scalar = check_levels(q, "q")
        values = self._quantile(q)
        return values[..., 0] if scalar else values

    def _quantile(self, q):
        return self._outer(self.law.ppf(q if self.target.increasing else 1 - q)) + 0.0

    def interval(self, confidence_level: Levels = 0.9) -> FloatArray:
        """Central intervals.

        Parameters
        ----------
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n, 2) or (n, 2, L)
            Lower and upper ends; the last axis is present if a sequence of levels was given.
        """
        return central_intervals(self._quantile, confidence_level)

    # ------------------------------------------------------------------ at observed values
    def cdf(self, y: ArrayLike) -> FloatArray:
        """P(Y <= y).

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        inner = self._inner(self._checked(y))
        return self.law.cdf(inner) if self.target.increasing else 1 - self.law.cdf_below(inner)

    def cdf_below(self, y: ArrayLike) -> FloatArray:
        """P(Y < y): less than :meth:`cdf` for counts, and at other values of positive probability.

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        inner = self._inner(self._checked(y))
        return self.law.cdf_below(inner) if self.target.increasing else 1 - self.law.cdf(inner)

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Logarithm of the density, or of the probability for counts.

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        y = self._checked(y)
        if self._inner_is_outer:
            return self.law.logpdf(y)
        inner, slope = self._inner(y), self.target.log_slope(y)
        possible = np.isfinite(inner) & (slope > -np.inf)
        inner = np.where(possible, inner, 0.0)
        if self.kind == "confidence":
            slope = slope - np.log(self.loss.mean_derivative(inner))
        return np.where(possible, self.law.logpdf(inner) + np.where(possible, slope, 0.0), -np.inf)

    @property
    def has_closed_crps(self) -> bool:
        """Whether :meth:`crps` has a closed form."""
        return self._inner_is_outer and isinstance(self.law, Normal | Student)

    def crps(self, y: ArrayLike) -> FloatArray:
        """Continuous ranked probability score of each observation, in units of y; smaller is better.

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        y = self._checked(y)
        if self._inner_is_outer:
            return self.law.crps(y)
        levels = (np.arange(200) + 0.5) / 200
        error = y[..., None] - self._quantile(levels)
        return 2 * np.maximum(levels * error, (levels - 1) * error).mean(axis=-1)  # mean pinball loss

    def _checked(self, y):
        return check_observations(y, len(self)) if np.ndim(y) else np.full(len(self), float(y))

    # ------------------------------------------------------------------ draws, parts and paths
    def sample(self, n_samples: int = 100, random_state: RandomState = None) -> FloatArray:
        """Joint draws; each is one function over all rows, plus the noise of one observation per row.

        Parameters
        ----------
        n_samples : int, default=100
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n)
        """
        rng = check_random_state(random_state)
        return self.drawn(n_samples, rng, rng)

    def drawn(self, n_samples: int, functions: Any, noise: Any) -> FloatArray:
        """As :meth:`sample`, with two random generators: rows in several places share functions, but not noise.

        Parameters
        ----------
        n_samples : int
        functions : RandomState
        noise : RandomState

        Returns
        -------
        ndarray of shape (n_samples, n)
        """
        f = self.latent.source(check_count(n_samples, "n_samples"), functions)[:, 0]  # (n, n_samples)
        if self.kind == "confidence":
            return self._outer(f).T
        family = self.loss.law(np.broadcast_to(self.dispersion, len(self))[:, None], self.shape)
        return self._outer(family.conditional(f).sample(noise)).T

    def standard_errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard deviations of the mean function and of observations around it, by the delta method at a link.

        Returns
        -------
        epistemic : ndarray of shape (n,)
        aleatoric : ndarray of shape (n,)
            Around the mean at the raw prediction; for a transformed target, that of normal noise with the same
            variance.
        """
        f = self.latent.f[:, 0]
        spread = np.sqrt(self.latent.covariance[:, 0, 0])
        with np.errstate(invalid="ignore", over="ignore"):
            epistemic = np.where(spread > 0, np.abs(self.slope()) * spread, 0.0)  # also where the slope is infinite
        law = self._family.conditional(f)
        if self.target.is_identity:
            return epistemic, law.std()
        around = Normal(law.mean(), law.var()) if not self._curved else law
        with np.errstate(invalid="ignore", over="ignore"):
            return epistemic, np.sqrt(_node_variance(self.target.decode(around.ppf(ndtr(NODES)))))

    def slope(self) -> FloatArray:
        """Derivative of the prediction with respect to the raw prediction, through link and target transform.

        Returns
        -------
        ndarray of shape (n,)
        """
        f = self.latent.f[:, 0]
        slope = self.loss.mean_derivative(f)
        if self.target.is_identity:
            return slope
        t, spread = self.loss.mean(f), np.sqrt(self._family.conditional(f).var())
        step = np.maximum(np.maximum(1e-4 * spread, 1e-6 * np.abs(t)), 1e-300)
        right, left = t + step, t - step
        with np.errstate(invalid="ignore", over="ignore"):
            change = (self.target.decode(right) - self.target.decode(left)) / (right - left)
        return slope * np.nan_to_num(change, nan=0.0, posinf=np.inf, neginf=-np.inf)  # both beyond the same end

    def prediction(self) -> FloatArray:
        """What the base model itself predicts.

        Returns
        -------
        ndarray of shape (n,)
        """
        t = self.loss.mean(self.latent.f[:, 0])
        return t if self.target.is_identity else self.target.model.decode_target(t)

    def scaled(self, factors: ArrayLike) -> Predictive:
        """The same with the epistemic covariance multiplied by a factor; several factors add a leading axis.

        Parameters
        ----------
        factors : float or array-like of shape (A,)

        Returns
        -------
        Predictive
        """
        return replace(self, latent=self.latent.scaled(factors))


def central_intervals(quantile, confidence_level):
    """Intervals (..., 2) or (..., 2, L) between quantiles that leave equal tails; ``quantile(levels)`` is (..., Q)."""
    levels, scalar = check_levels(confidence_level, "confidence_level")
    tails = (1 - levels) / 2
    ends = quantile(np.concatenate([tails, 1 - tails]))
    intervals = ends.reshape(*ends.shape[:-1], 2, len(levels))
    return intervals[..., 0] if scalar else intervals


def _node_variance(values):
    """Variances (...) of values (..., nodes), infinite where they overflow."""
    with np.errstate(invalid="ignore", over="ignore"):
        variance = (values - (values @ WEIGHTS)[..., None]) ** 2 @ WEIGHTS
    return np.nan_to_num(variance, nan=np.inf, posinf=np.inf)
