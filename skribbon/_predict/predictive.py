"""Distribution of an observation given an uncertain raw prediction, on the scale of the target."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri, ndtr, ndtri, stdtr
from sklearn.utils import check_random_state

from .._core import thresholds
from .._core.linalg import LARGEST
from .._core.rows import row_blocks
from .._laws.base import Estimate, Law, Normal, normal_levels, student_ratio
from .._laws.families import Mixture
from .._laws.noise_distributions import NoiseLaw
from .._laws.widened import Patched, Widened
from .._utils.checks import check_count, check_levels, check_observations
from .._utils.compat import cached_property
from .._utils.typing import FloatArray, Levels, RandomState
from ..models.losses import Loss
from .target import MeanScale, TargetScale

NODES = np.linspace(-8, 8, 65)  # normal scores for moments behind a link: a trapezoidal rule, exact to rounding for exp
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


# ---------------------------------------------------------------------- uncertain raw predictions
def no_draws(n_samples: int, rng: Any) -> FloatArray:
    """Refuse joint draws of predictions that were left out, selected or rescaled."""
    raise ValueError("This distribution has no joint draws; use predict_samples, after with_alpha for another scale.")


def _degrees_among(freedom, index, rows):
    return freedom(index[rows])


def _tempered_draws(source, temperature, bias, n_samples, rng):
    return source(n_samples, rng) / temperature + bias[:, None]


@dataclass(frozen=True, eq=False)
class Latent:
    """Uncertain raw predictions of n rows, before the link or softmax."""

    f: FloatArray  # (n, k)
    covariance: FloatArray  # (..., n, k, k), J_x Cov(Delta theta_w) J_x' row by row; a leading axis is a path of alphas
    draws: FloatArray | None = None  # (..., n, k, B) at the stored parameter draws; None for the Gaussian limit
    source: Callable[[int, Any], FloatArray] = no_draws  # source(n_samples, rng): joint draws (n, k, n_samples)
    freedom: Callable[[Any], FloatArray] | None = None  # degrees of freedom of the covariance of rows, unless infinite
    least: float = 1.0  # lower bound of the degrees of freedom

    @cached_property
    def df(self):
        """Degrees of freedom (n,) of the covariance."""
        return np.full(len(self.f), np.inf) if self.freedom is None else self.freedom(slice(None))

    def scaled(self, factors):
        """Raw predictions with the covariance multiplied by a factor; several factors (A,) add a leading axis."""
        factors = np.asarray(factors, dtype=float)
        c = factors.reshape(*factors.shape, *[1] * self.covariance.ndim)
        f = self.f[:, :, None]
        draws = None if self.draws is None else f + np.sqrt(c) * (self.draws - f)
        return Latent(self.f, c * self.covariance, draws, freedom=self.freedom, least=self.least)

    def take(self, rows):
        """Raw predictions of some rows, without joint draws."""
        draws = None if self.draws is None else self.draws[rows]
        index = np.arange(len(self.f))[rows]
        freedom = None if self.freedom is None else partial(_degrees_among, self.freedom, index)
        return Latent(self.f[rows], self.covariance[rows], draws, freedom=freedom, least=self.least)

    def widened(self, rows, ratio):
        """Raw predictions of some rows with deviations multiplied by a ratio (m,) for each."""
        part, ratio, draws = self.take(rows), ratio[:, None, None], None
        if part.draws is not None:  # deviations from the median, so that larger ratios move no quantile towards it
            draws = np.clip(part.draws, -LARGEST, LARGEST)
            middle = np.median(draws, axis=-1, keepdims=True)
            draws = np.clip(middle + ratio * (draws - middle), -LARGEST, LARGEST)
        return Latent(part.f, part.covariance * ratio**2, draws)

    def joint_draws(self, n_samples, rng):
        """Joint draws (n, k, n_samples) with Student's t distribution at each row; each is one function of the rows."""
        draws, f = self.source(n_samples, rng), self.f[:, :, None]
        if self.freedom is None:
            return draws
        return f + student_scales(self.df, rng.standard_normal(n_samples))[:, None] * (draws - f)

    def moved_to(self, f):
        """Other raw predictions with the same deviations, without joint draws."""
        draws = None if self.draws is None else self.draws + (f - self.f)[:, :, None]
        return Latent(f, self.covariance, draws)

    def over(self, temperature, bias):
        """Raw predictions divided by a temperature, plus a bias (k,)."""
        draws = None if self.draws is None else self.draws / temperature + bias[:, None]
        source = partial(_tempered_draws, self.source, temperature, bias)
        return Latent(self.f / temperature + bias, self.covariance / temperature**2, draws, source, self.freedom)


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Prepared rows X, with a model and the distribution of its parameters."""

    model: Any
    ribbon: Any
    X: Any

    def blocks(self, r):
        """Yield blocks of rows that are small enough for arrays with r columns per output."""
        width = max(self.model.row_width, self.model.loss.n_outputs * r)
        return (self.model.rows(self.X[rows]) for rows in row_blocks(self.X.shape[0], width))


class RawDraws(PreparedRows):
    """Joint draws (n, k, n_samples) of raw predictions of prepared rows X; each is one function over all rows."""

    def __call__(self, n_samples, rng):
        return self.at(self.ribbon.draw(n_samples, rng))

    def at(self, shifts):
        """Raw predictions (n, k, B) at parameters theta plus shifts (p, B)."""
        return np.concatenate([self.ribbon.predict(self.model, Z, shifts) for Z in self.blocks(shifts.shape[1])])


class Degrees(PreparedRows):
    """Degrees of freedom of the variance of raw predictions of some of the prepared rows, the fewest of the outputs.

    For three classes or more, outputs are the centred logits of all classes, whatever their order.
    """

    def __call__(self, rows):
        freedom, part = self.ribbon.freedom, replace(self, X=self.X[rows])
        if not freedom.width or not part.X.shape[0]:
            return np.full(part.X.shape[0], freedom.most)
        move = partial(_move_outputs, self.model.loss.output_map)
        tangents = map(self.model.tangent, part.blocks(freedom.width))
        return np.concatenate([freedom.of(partial(move, tangent)).min(axis=1) for tangent in tangents])


def _move_outputs(basis, tangent, V):
    """Derivatives (b, K, r) of all logits, or of the outputs without a ``basis`` (K, k), along directions V (p, r)."""
    moved = tangent.jvp(V)
    return moved if basis is None else basis @ moved


@cache
def _student_table():
    """Log degrees of freedom (41,), normal scores (129,), and log factors of deviations at both, (41, 129)."""
    df, score = np.geomspace(1.0, 1e4, 41), np.linspace(-5.5, 5.5, 129)
    return np.log(df), score, np.log(df[:, None] / chdtri(df[:, None], ndtr(score))) / 2


def student_scales(df, score):
    """Factors (n, S) that make normal deviations Student's t with df (n,): chi-squared quantiles at scores (S,)."""
    knots, scores, table = _student_table()
    table = np.array([np.interp(score, scores, row) for row in table])
    place = np.interp(np.log(df), knots, np.arange(len(knots)))
    left = np.minimum(place.astype(int), len(knots) - 2)
    along = (place - left)[:, None]
    return np.exp((1 - along) * table[left] + along * table[left + 1])


class Drawn(Normal):
    """Empirical distribution of draws (..., n, B), with levels of Student's t for df (n,), and a normal density."""

    def __init__(self, draws, df=np.inf):
        draws = np.clip(draws, -LARGEST, LARGEST)  # a mean behind a link may be infinite
        mean = draws.mean(axis=-1)
        super().__init__(mean, ((draws - mean[..., None]) ** 2).mean(axis=-1))
        self._draws, self._df = draws, df

    def take(self, index):
        return Normal(*self.parameters).take(index)

    def ppf(self, q):
        q = np.asarray(q, dtype=float)
        levels = np.broadcast_to(normal_levels(np.atleast_1d(q), self._df), (*self.shape, q.size))
        ordered, place = np.sort(self._draws, axis=-1), levels * (self._draws.shape[-1] - 1)
        left, right = (np.take_along_axis(ordered, end(place).astype(int), axis=-1) for end in (np.floor, np.ceil))
        values = left + (place - np.floor(place)) * (right - left)
        return values[..., 0] if q.ndim == 0 else values

    def cdf(self, y):
        return self._level(y, np.less_equal)

    def cdf_below(self, y):
        return self._level(y, np.less)

    def _level(self, y, compare):
        """Level whose quantile is y: the inverse of linear interpolation between draws, and of the change of levels."""
        y, ordered = np.asarray(y, dtype=float)[..., None], np.sort(self._draws, axis=-1)
        B, below = ordered.shape[-1], compare(ordered, y).sum(axis=-1, keepdims=True)
        left, right = (np.take_along_axis(ordered, np.clip(below + k, 0, B - 1), axis=-1) for k in (-1, 0))
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.nan_to_num((y - left) / (right - left), nan=0.0, posinf=0.0, neginf=0.0)
            least = np.finfo(float).eps * (below > 0)  # a quantile at a smaller level rounds to the smallest draw
            level = np.clip((below - 1 + np.clip(part, 0, 1)) / max(B - 1, 1), least, 1)[..., 0]
            return np.where(np.isinf(self._df), level, stdtr(np.minimum(self._df, 1e300), ndtri(level)))


# ---------------------------------------------------------------------- predictive distributions
class Distribution:
    """Methods that all predictive distributions share."""

    _quantiles: Any  # _quantiles(levels), (..., Q) for an array of Q levels

    def __len__(self):
        return len(self.latent.f)

    def __repr__(self):
        return f"{type(self).__name__}({len(self)} rows)"

    def quantile(self, q: Levels) -> FloatArray:
        """Quantiles at the given levels.

        Parameters
        ----------
        q : float or sequence of Q floats
            Strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (n,), (n, m) for m outputs or (n, K) for K classes
            With a last axis of length Q for a sequence.
        """
        q, scalar = check_levels(q, "q")
        values = self._quantiles(q)
        return values[..., 0] if scalar else values

    def interval(self, confidence_level: Levels = 0.9) -> FloatArray:
        """Central intervals at the given levels.

        Parameters
        ----------
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n, 2), (n, m, 2) for m outputs or (n, K, 2) for K classes
            Lower and upper bounds, with a last axis of length L for a sequence.
        """
        levels, scalar = check_levels(confidence_level, "confidence_level")
        tails = (1 - levels) / 2
        ends = self._quantiles(np.concatenate([tails, 1 - tails]))
        intervals = ends.reshape(*ends.shape[:-1], 2, len(levels))
        return intervals[..., 0] if scalar else intervals


class TargetDistribution(Distribution):
    """Methods that predictive distributions of one and of several outputs share."""

    var: Any
    drawn: Any

    def std(self) -> FloatArray:
        """Standard deviation at each row.

        Returns
        -------
        ndarray of shape (n,), or (n, m) for m outputs
        """
        return np.sqrt(self.var())

    def sample(self, n_samples: int = 100, random_state: RandomState = None) -> FloatArray:
        """Joint draws; each is one function over all rows, plus the noise of one observation per row.

        Parameters
        ----------
        n_samples : int, default=100
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n), or (n_samples, n, m) for m outputs
        """
        rng = check_random_state(random_state)
        return self.drawn(n_samples, rng, rng)


@dataclass(frozen=True, eq=False, repr=False)
class Predictive(TargetDistribution):
    r"""Distribution of an observation, or of the mean function, at n rows, made by ``predict_distribution``.

    .. math:: y \mid f \sim \mathrm{law}(f, \phi(x)), \qquad f \sim N(\hat f, J_x\, \mathrm{Cov}(\Delta\theta_w)\, J_x')

    Parameters
    ----------
    latent : Latent
        Uncertain raw prediction.
    loss : Loss
        Gives the distribution of an observation given the raw prediction.
    dispersion : ndarray of shape (n,)
        Dispersion of the observations around their mean.
    shape : NoiseLaw
        Distribution of the noise around a least-squares prediction.
    target : TargetScale
        Maps the scale that the base model was fitted on to the scale of y.
    kind : {"prediction", "confidence"}
        The distribution of an observation, or of the mean function.

    See Also
    --------
    JointPredictive : The distribution of several outputs.
    ClassProbabilities : The distribution of class probabilities.
    RibbonRegressor.predict_distribution : Returns this object.

    Notes
    -----
    User guide: :doc:`/user_guide/intervals`.

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True)
    >>> distribution = RibbonRegressor().fit(X, y).predict_distribution(X[:2])
    >>> distribution.quantile(0.95).round(0)
    array([306., 131.])
    >>> distribution.crps(y[:2]).round(1)
    array([32.9,  9.4])
    """

    latent: Latent
    loss: Loss
    dispersion: FloatArray
    shape: NoiseLaw
    target: TargetScale
    kind: Literal["prediction", "confidence"] = "prediction"

    @cached_property
    def law(self) -> Law:
        """Distribution (..., n) of the fitted target, or of the raw prediction if ``kind`` is "confidence"."""
        f, variance, draws = self.latent.f[:, 0], self.latent.covariance[..., 0, 0], self.latent.draws
        if self.kind == "confidence":
            if draws is not None:
                return Drawn(draws[..., 0, :], self.latent.df)
            return Normal(f, variance) if self.latent.freedom is None else Estimate(f, variance, self.latent.df)
        if draws is not None and not np.any(self.dispersion):
            return Drawn(self.loss.mean(draws[..., 0, :]), self.latent.df)
        law, (rows, df) = _observed(self, self.latent, self.dispersion), _heavy_rows(self)
        return Patched(law, rows, Widened(partial(_widened, self), rows, df)) if rows.size else law

    def mean(self) -> FloatArray:
        """Mean at each row.

        Returns
        -------
        ndarray of shape (n,), or (n, m) for m outputs
        """
        scale = scale_of(self)
        if scale.is_identity:
            return self.law.mean()
        with np.errstate(invalid="ignore", over="ignore"):
            return np.nan_to_num(_at_nodes(self, self.law, scale) @ WEIGHTS, nan=np.inf, posinf=np.inf, neginf=-np.inf)

    def var(self) -> FloatArray:
        """Variance at each row.

        Returns
        -------
        ndarray of shape (n,), or (n, m) for m outputs
        """
        scale = scale_of(self)
        return self.law.var() if scale.is_identity else _node_variance(_at_nodes(self, self.law, scale))

    def _quantiles(self, q):
        return scale_of(self).decode(self.law.ppf(q if self.target.increasing else 1 - q)) + 0.0

    def cdf(self, y: ArrayLike) -> FloatArray:
        """P(Y <= y).

        Parameters
        ----------
        y : array-like of shape (n,), or (n, m) for m outputs

        Returns
        -------
        ndarray, of the shape of y
        """
        y = _checked(self, y)
        inner = scale_of(self).encode(y)
        value = self.law.cdf(inner) if self.target.increasing else 1 - self.law.cdf_below(inner)
        return np.where(y >= max(self.target.ends), 1.0, value)

    def cdf_below(self, y: ArrayLike) -> FloatArray:
        """P(Y < y): less than :meth:`cdf` for counts, and at other values of positive probability.

        Parameters
        ----------
        y : array-like of shape (n,), or (n, m) for m outputs

        Returns
        -------
        ndarray, of the shape of y
        """
        y = _checked(self, y)
        inner = scale_of(self).encode(y)
        value = self.law.cdf_below(inner) if self.target.increasing else 1 - self.law.cdf(inner)
        return np.where(y <= min(self.target.ends), 0.0, value)

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Logarithm of the density, or of the probability for counts.

        Parameters
        ----------
        y : array-like of shape (n,), or (n, m) for m outputs

        Returns
        -------
        ndarray, of the shape of y
        """
        y, scale = _checked(self, y), scale_of(self)
        if scale.is_identity:
            return self.law.logpdf(y)
        inner, slope = scale.encode(y), scale.log_slope(y)
        possible = np.isfinite(inner) & (slope > -np.inf)
        density = self.law.logpdf(np.where(possible, inner, 0.0))
        return np.where(possible, density + np.where(possible, slope, 0.0), -np.inf)

    @property
    def has_closed_crps(self) -> bool:
        """Whether :meth:`crps` has a closed form."""
        return scale_of(self).is_identity and self.law.closed_crps

    def crps(self, y: ArrayLike) -> FloatArray:
        """Continuous ranked probability score of each observation, in units of y; smaller is better.

        Parameters
        ----------
        y : array-like of shape (n,), or (n, m) for m outputs

        Returns
        -------
        ndarray, of the shape of y
        """
        y = _checked(self, y)
        if scale_of(self).is_identity:
            return self.law.crps(y)
        levels = (np.arange(200) + 0.5) / 200
        error = y[..., None] - self._quantiles(levels)
        return 2 * np.maximum(levels * error, (levels - 1) * error).mean(axis=-1)  # mean pinball loss

    def drawn(self, n_samples: int, functions: Any, noise: Any) -> FloatArray:
        """Joint draws by two random generators, so that blocks of rows can share functions but not noise.

        Parameters
        ----------
        n_samples : int
        functions, noise : RandomState

        Returns
        -------
        ndarray of shape (n_samples, n), or (n_samples, n, m) for m outputs
        """
        draws = self.latent.joint_draws(check_count(n_samples, "n_samples"), functions)[:, 0]  # (n, n_samples)
        if self.kind == "prediction":
            dispersion = np.broadcast_to(self.dispersion, len(self))[:, None]
            law = self.loss.law(dispersion, self.shape).conditional(draws)
            draws = law.sample(noise)
            if noise_ends(self) != (0.0, 1.0):
                draws = np.clip(draws, *np.moveaxis(law.ppf(np.array(noise_ends(self))), -1, 0))
        return scale_of(self).decode(draws).T

    def standard_errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard deviations of the mean function and of observations around it, by the delta method at a link.

        Returns
        -------
        epistemic, aleatoric : ndarray of shape (n,), or (n, m) for m outputs
            Around the mean at the raw prediction.
        """
        spread = np.sqrt(self.latent.covariance[:, 0, 0])
        law = self.loss.law(self.dispersion, self.shape).conditional(self.latent.f[:, 0])
        with np.errstate(invalid="ignore", over="ignore"):
            epistemic = np.where(spread > 0, np.abs(self.slope()) * spread, 0.0)  # also for an infinite slope
            variance = law.var() if self.target.is_identity else _node_variance(_at_nodes(self, law, self.target))
            return epistemic, np.sqrt(variance)

    def slope(self) -> FloatArray:
        """Derivative of the prediction with respect to the raw prediction, through link and target transform.

        Returns
        -------
        ndarray of shape (n,), or (n, m) for m outputs
        """
        f = self.latent.f[:, 0]
        slope = self.loss.mean_derivative(f)
        if self.target.is_identity:
            return slope
        t, spread = self.loss.mean(f), np.sqrt(self.loss.law(self.dispersion, self.shape).conditional(f).var())
        return slope * _decode_slope(self.target, t, spread)

    def prediction(self) -> FloatArray:
        """Prediction of the base model itself.

        Returns
        -------
        ndarray of shape (n,), or (n, m) for m outputs
        """
        t = self.loss.mean(self.latent.f[:, 0])
        return t if self.target.is_identity else self.target.model.decode_target(t)

    def scaled(self, factors: ArrayLike) -> Self:
        """Distribution with the epistemic covariance multiplied by a factor; several factors add a leading axis.

        Parameters
        ----------
        factors : float or array-like of shape (A,)

        Returns
        -------
        Predictive, or JointPredictive for m outputs
        """
        return replace(self, latent=self.latent.scaled(factors))


def _observed(distribution, latent, dispersion):
    """Distribution of an observation on the fitted scale, given raw predictions and dispersions."""
    loss, shape = distribution.loss, distribution.shape
    if latent.draws is None:
        return loss.law(dispersion, shape).marginal(latent.f[:, 0], latent.covariance[..., 0, 0])
    return Mixture(loss.law(np.asarray(dispersion)[..., None], shape).conditional(latent.draws[..., 0, :]))


def _widened(distribution, rows, ratio):
    """Distribution of observations at some rows with deviations of raw predictions multiplied by ratios."""
    dispersion = np.broadcast_to(distribution.dispersion, len(distribution))
    return _observed(distribution, distribution.latent.widened(rows, ratio), dispersion[rows])


def _heavy_rows(distribution):
    """Rows at which degrees of freedom of the raw prediction change the distribution of y, and these degrees."""
    latent, loss = distribution.latent, distribution.loss
    behind_link = latent.draws is not None and not loss.additive  # larger deviations may overflow, on one side only
    if latent.freedom is None or latent.covariance.ndim > 3 or behind_link:
        return np.zeros(0, dtype=int), np.zeros(0)
    f, variance = latent.f[:, 0], latent.covariance[:, 0, 0]

    def share(df):
        """Epistemic share of the variance; behind a log link at the upper bounds of the mean, where it dominates."""
        far = 0.0 if loss.additive else 4 * student_ratio(np.array([4.0]), df) * np.sqrt(variance)
        with np.errstate(all="ignore"):
            epistemic = loss.mean_derivative(f + far) ** 2 * variance
            noise = loss.law(distribution.dispersion, distribution.shape).conditional(f + far).var()
            return np.where(variance > 0, np.nan_to_num(epistemic / (epistemic + noise), nan=1.0), 0.0)

    shares = share(latent.least)
    rows = np.flatnonzero(shares >= _normal_share(latent.least))
    df = latent.freedom(rows)
    if not loss.additive and rows.size:
        of_all = np.full(len(f), np.inf)
        of_all[rows] = df
        shares = share(of_all)
    heavy = shares[rows] >= _normal_share(df)
    return rows[heavy], df[heavy]


def _normal_share(df):
    """Epistemic share of the variance up to which a raw prediction with df counts as normal.

    Its t interval is then no wider than a normal interval of y, at any level that differs from one in floating point.
    """
    farthest = ndtri(np.finfo(float).eps / 2)
    return np.minimum(thresholds.NORMAL_SHARE * df, student_ratio(farthest, df) ** -2.0)


def scale_of(distribution):
    """Map from the scale of a Predictive's ``law`` to the scale of y."""
    target = distribution.target
    return target if distribution.kind == "prediction" else MeanScale(distribution.loss, target)


def _checked(distribution, y):
    """Observations (n,) at the rows of a Predictive, from an array or one number."""
    return check_observations(y, len(distribution)) if np.ndim(y) else np.full(len(distribution), float(y))


def noise_ends(distribution):
    """Levels between which the noise of a Predictive lies; (0, 1) without a nonlinear transform of the target."""
    if distribution.target.is_linear or not distribution.loss.additive:
        return 0.0, 1.0
    return distribution.loss.law(distribution.dispersion, distribution.shape).shape.ends


def _at_nodes(distribution, law, scale):
    """Values (..., n, nodes) of y at NODES of a distribution; an uncertain mean without draws counts as normal."""
    uncertain = scale is not distribution.target and distribution.latent.draws is None  # exp of Student's t has no mean
    if uncertain or (scale is distribution.target and scale.is_linear):
        law = Normal(law.mean(), law.var())
    return scale.decode(law.ppf(np.clip(ndtr(NODES), *noise_ends(distribution))))


def smearing(distribution):
    """Values (n, nodes) of y at NODES of the noise, and derivatives (3, n) of their mean, all at the raw prediction.

    Derivatives are with respect to the raw prediction, to the location of the fitted target in standard deviations,
    and to the log scale of additive noise. In an exponential family, dE[y]/dE[t] = Cov(y, t) / Var(t).
    """
    loss, target, f = distribution.loss, distribution.target, distribution.latent.f[:, 0]
    law = loss.law(distribution.dispersion, distribution.shape).conditional(f)
    t, std = law.ppf(np.clip(ndtr(NODES), *noise_ends(distribution))), law.std()
    y, away = target.decode(t), t - law.mean()[:, None]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        slope = _decode_slope(target, t, std[:, None]) if loss.additive else y * away / (away**2 @ WEIGHTS)[:, None]
        change, by_scale = slope @ WEIGHTS, (slope * away) @ WEIGHTS * loss.additive
    return y, (loss.mean_derivative(f) * change, std * change, by_scale)


def _decode_slope(target, t, spread):
    """Derivatives of y at values t of the fitted target, by steps of 0.0001 of their spread."""
    step = np.maximum(np.maximum(1e-4 * spread, 1e-6 * np.abs(t)), 1e-300)
    right, left = t + step, t - step
    with np.errstate(invalid="ignore", over="ignore"):
        change = (target.decode(right) - target.decode(left)) / (right - left)
    return np.nan_to_num(change, nan=0.0, posinf=np.inf, neginf=-np.inf)  # zero beyond an end


def _node_variance(values):
    """Variances (...) of values (..., nodes); infinite if they overflow."""
    with np.errstate(invalid="ignore", over="ignore"):
        variance = (values - (values @ WEIGHTS)[..., None]) ** 2 @ WEIGHTS
    return np.nan_to_num(variance, nan=np.inf, posinf=np.inf)
