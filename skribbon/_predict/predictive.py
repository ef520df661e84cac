"""What is predicted: an uncertain raw prediction, the law of an observation given it, and the scale of the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr
from sklearn.utils import check_random_state

from .._core.linalg import LARGEST
from .._core.rows import row_blocks
from .._laws import Estimate, Law, LocationFamily, NoiseLaw, Normal, Student, normal_levels, student_ratio
from .._utils.checks import check_count, check_levels, check_observations
from .._utils.threads import in_order
from .._utils.typing import FloatArray, Levels, RandomState
from ..models.losses import Loss
from .softmax import logistic_mean, logistic_quantiles, softmax_mean, softmax_mean_path, softmax_quantiles
from .target import TargetScale

NODES, WEIGHTS = hermegauss(21)  # Gauss-Hermite nodes of a standard normal law
WEIGHTS = WEIGHTS / WEIGHTS.sum()
PATH_PAIRS = 1024
CRPS_LEVELS = (np.arange(200) + 0.5) / 200


def no_draws(n_samples: int, rng: Any) -> FloatArray:
    raise ValueError("There are no joint draws of leave-one-out predictions, each of which is of a fit of its own.")


def _some_degrees(latent, rows):
    return latent.df[rows]


def _divided_draws(source, temperature, n_samples, rng):
    return source(n_samples, rng) / temperature


@dataclass(frozen=True, eq=False)
class Latent:
    """The raw prediction of some rows, before the link or softmax.

    Attributes
    ----------
    f : ndarray of shape (n, k)
        Raw prediction.
    covariance : ndarray of shape (..., n, k, k)
        J_x Cov(Delta theta_w) J_x', row by row; a leading axis is a path of alphas.
    draws : ndarray of shape (..., n, k, B) or None
        Raw predictions at the stored parameter draws; None where the Gaussian limit stands for them.
    source : callable
        ``source(n_samples, rng)`` gives joint draws of all rows, (n, k, n_samples).
    freedom : callable or None
        ``freedom()`` gives the degrees of freedom of the covariance, (n,), where they are not infinite.
    """

    f: FloatArray
    covariance: FloatArray
    draws: FloatArray | None = None
    source: Callable[[int, Any], FloatArray] = no_draws
    freedom: Callable[[], FloatArray] | None = None

    @cached_property
    def df(self):
        """Degrees of freedom (n,) of the covariance."""
        return np.full(len(self.f), np.inf) if self.freedom is None else self.freedom()

    @classmethod
    def concatenate(cls, pieces, source=no_draws, freedom=None):
        """Rows of several into one, with a source of joint draws."""
        if len(pieces) == 1:
            return replace(pieces[0], source=source, freedom=freedom)
        draws = None if pieces[0].draws is None else np.concatenate([piece.draws for piece in pieces])
        f, covariance = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("f", "covariance"))
        return cls(f, covariance, draws, source, freedom)

    def scaled(self, factors):
        """At other alphas: deviations from f multiplied by sqrt(factor); several factors (A,) make a leading axis."""
        factors = np.asarray(factors, dtype=float)
        c = factors.reshape(*factors.shape, *[1] * self.covariance.ndim)
        draws = None
        if self.draws is not None:
            f = self.f[:, :, None]
            draws = f + np.sqrt(c) * (self.draws - f)
        return Latent(self.f, c * self.covariance, draws, freedom=self.freedom)

    def take(self, rows):
        """Some rows, without a source of joint draws."""
        draws = None if self.draws is None else self.draws[rows]
        freedom = None if self.freedom is None else partial(_some_degrees, self, rows)
        return Latent(self.f[rows], self.covariance[rows], draws, freedom=freedom)

    def moved_to(self, f):
        """The same spread around other raw predictions."""
        draws = None if self.draws is None else self.draws + (f - self.f)[:, :, None]
        return Latent(f, self.covariance, draws)

    def over(self, temperature):
        """All raw predictions divided by a temperature."""
        draws = None if self.draws is None else self.draws / temperature
        source = partial(_divided_draws, self.source, temperature)
        return Latent(self.f / temperature, self.covariance / temperature**2, draws, source, self.freedom)


@dataclass(frozen=True, eq=False)
class RawDraws:
    """Joint draws of the raw prediction of all rows of prepared X: each is one function over all of them."""

    model: Any
    ribbon: Any
    X: Any

    def __call__(self, n_samples, rng):
        return self.at(self.ribbon.draw(n_samples, rng))

    def at(self, shifts):
        """At given parameters, theta plus shifts (p, B): (n, k, B)."""
        width = max(self.model.row_width, self.model.n_outputs * shifts.shape[1])
        blocks = row_blocks(self.X.shape[0], width)
        return np.concatenate(list(in_order(lambda rows: self._at_rows(rows, shifts), blocks, self.model.at_once)))

    def _at_rows(self, rows, shifts):
        return self.ribbon.predict(self.model, self.model.rows(self.X[rows]), shifts)


@dataclass(frozen=True, eq=False)
class Degrees:
    """Degrees of freedom (n,) of the variance of raw predictions, the fewest of those of a row."""

    model: Any
    ribbon: Any
    X: Any

    def __call__(self):
        rows, n = self.ribbon.freedom.rows, self.X.shape[0]
        if not rows.shape[1]:
            return np.full(n, self.ribbon.freedom.most)  # whatever the row
        width = max(self.model.row_width, self.model.loss.n_outputs * max(rows.shape))
        return np.concatenate(list(in_order(self._of_rows, row_blocks(n, width), self.model.at_once)))

    def _of_rows(self, rows):
        return self.ribbon.degrees_of_freedom(self.model.tangent(self.model.rows(self.X[rows])).jvp).min(axis=1)


# ---------------------------------------------------------------------- regression
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
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
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
            values = self._by_nodes()
            variance = (values - (values @ WEIGHTS)[..., None]) ** 2 @ WEIGHTS
        return np.nan_to_num(variance, nan=np.inf, posinf=np.inf)

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
        levels, scalar = check_levels(confidence_level, "confidence_level")
        tails = (1 - levels) / 2
        ends = self._quantile(np.concatenate([tails, 1 - tails]))
        intervals = ends.reshape(*ends.shape[:-1], 2, len(levels))
        return intervals[..., 0] if scalar else intervals

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
        return pinball_crps(self._quantile(CRPS_LEVELS), CRPS_LEVELS, y)

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
            y = self.target.decode(around.ppf(ndtr(NODES)))
            variance = (y - (y @ WEIGHTS)[:, None]) ** 2 @ WEIGHTS
        return epistemic, np.sqrt(np.nan_to_num(variance, nan=np.inf, posinf=np.inf))

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


def pinball_crps(quantiles, levels, y):
    """CRPS (..., n) from quantiles (..., n, Q): twice the pinball loss, averaged over evenly spaced levels."""
    error = np.asarray(y)[..., None] - quantiles
    return 2 * np.maximum(levels * error, (levels - 1) * error).mean(axis=-1)


# ---------------------------------------------------------------------- classification
@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Distribution of the class probabilities at n rows, made by a classifier's ``predict_distribution``.

    Parameters
    ----------
    latent : Latent
        The uncertain logits, in the coordinates of the loss.
    loss : Loss
        With ``n_classes`` and ``probabilities(f)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skribbon import RibbonClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> distribution = RibbonClassifier().fit(X[50:, 2:], y[50:]).predict_distribution(X[70:71, 2:])
    >>> distribution.mean().round(2)
    array([[0.48, 0.52]])
    >>> distribution.interval(0.9).round(2)
    array([[[0.39, 0.58],
            [0.42, 0.61]]])
    """

    latent: Latent
    loss: Loss

    def __len__(self):
        return len(self.latent.f)

    def mean(self) -> FloatArray:
        """Averaged probabilities.

        Returns
        -------
        ndarray of shape (n, K)
            Rows sum to one.
        """
        f, covariance = self.latent.f, self.latent.covariance
        if self.latent.draws is not None:
            mean = self.loss.probabilities(self.latent.draws).mean(axis=-1)
        elif self.loss.n_classes == 2:
            mean = logistic_mean(f[:, 0], covariance[:, 0, 0])
        else:
            mean = softmax_mean(f, covariance, self.loss.output_map)
        return mean / mean.sum(axis=-1, keepdims=True)

    def mean_path(self, factors: ArrayLike, most_pairs: int = PATH_PAIRS) -> FloatArray:
        """Averaged probabilities with the covariance multiplied by each of several factors.

        Parameters
        ----------
        factors : array-like of shape (A,)
        most_pairs : int, default=1024
            Number of nodes for the widest distributions of more than four classes. With the default, averages over rows
            are accurate to a few thousandths if the logits of a row differ by tens, and otherwise as accurate as
            :meth:`mean`.

        Returns
        -------
        ndarray of shape (A, n, K)
        """
        if self.latent.draws is None and self.loss.n_classes > 2:
            f, covariance = self.latent.f, self.latent.covariance
            return softmax_mean_path(f, covariance, self.loss.output_map, np.asarray(factors), most_pairs)
        return np.stack([self.scaled(factor).mean() for factor in np.asarray(factors)])

    def take(self, rows: ArrayLike) -> ClassProbabilities:
        """The class probabilities of some rows, without joint draws.

        Parameters
        ----------
        rows : array-like of int

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.take(np.asarray(rows)))

    def quantile(self, q: Levels) -> FloatArray:
        """Quantiles of every class probability.

        Parameters
        ----------
        q : float or sequence of Q floats

        Returns
        -------
        ndarray of shape (n, K) or (n, K, Q)
        """
        q, scalar = check_levels(q, "q")
        if self.latent.draws is not None:
            values = Drawn(self.loss.probabilities(self.latent.draws), self.latent.df[:, None]).ppf(q)
        elif np.isinf(self.latent.df).all():
            values = self._normal_quantiles(q, 1.0)
        else:
            values = self._student_quantiles(q)
        return values[..., 0] if scalar else values

    def _student_quantiles(self, q):
        """Those of logits so much wider that their normal quantiles are Student's, level by level."""
        values, order = [], np.argsort(q, kind="stable")
        for level in q[order]:
            values.append(self._normal_quantiles(np.array([level]), student_ratio(level, self.latent.df) ** 2))
        values = np.maximum.accumulate(np.concatenate(values, axis=-1), axis=-1)
        return values[..., np.argsort(order, kind="stable")]

    def _normal_quantiles(self, q, factor):
        """Quantiles (n, K, Q) with the covariance of each row multiplied by a factor."""
        f, covariance = self.latent.f, self.latent.covariance * np.reshape(factor, (-1, 1, 1))
        if self.loss.n_classes == 2:
            return logistic_quantiles(f[:, 0], covariance[:, 0, 0], q)
        return softmax_quantiles(f, covariance, self.loss.output_map, q)

    def interval(self, confidence_level: Levels = 0.9) -> FloatArray:
        """Central interval of every class probability.

        Parameters
        ----------
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n, K, 2) or (n, K, 2, L)
        """
        levels, scalar = check_levels(confidence_level, "confidence_level")
        tails = (1 - levels) / 2
        ends = self.quantile(np.concatenate([tails, 1 - tails]))
        intervals = ends.reshape(*ends.shape[:-1], 2, len(levels))
        return intervals[..., 0] if scalar else intervals

    def sample(self, n_samples: int = 100, random_state: RandomState = None) -> FloatArray:
        """Joint draws; each is one classifier evaluated at all rows.

        Parameters
        ----------
        n_samples : int, default=100
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n, K)
        """
        rng = check_random_state(random_state)
        draws = self.latent.source(check_count(n_samples, "n_samples"), rng)
        return self.loss.probabilities(draws).transpose(2, 0, 1)

    def scaled(self, factor: float) -> ClassProbabilities:
        """The same with the covariance multiplied by a factor.

        Parameters
        ----------
        factor : float

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.scaled(factor))

    def over(self, temperature: float) -> ClassProbabilities:
        """The same with all logits divided by a temperature; above one, probabilities move closer together.

        Parameters
        ----------
        temperature : float

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.over(temperature))
