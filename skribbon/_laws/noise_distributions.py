"""Shapes of additive noise: the distribution of e in y = f + sqrt(dispersion) e."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, stdtr, stdtrit

from .._utils.compat import cached_property
from .._utils.typing import FloatArray, PerRow
from .base import Law, LocationScale, Normal, Student

TAIL, TAIL_SCALE = 3.0, 1.5  # degrees of freedom and scale of empirical tails: heavy, with a finite variance
STEP = 0.4  # between log variances of tabulated cdfs: lines between normal cdfs this far apart are off by 0.002
FEWEST = 20  # fewest observations for an empirical distribution: five of them lie beyond either quartile
ROUNDING = 1e-6  # differences below this share of the largest residual, or of the spread, are rounding


class NoiseLaw:
    """Base class of noise distributions in units of the noise's scale.

    See Also
    --------
    NormalLaw : Normal distribution.
    StudentLaw : Student's t distribution.
    EmpiricalLaw : Distribution of the residuals.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True)
    >>> RibbonRegressor(law="student").fit(X, y).law_.name
    'student'
    """

    name: str
    # levels at which noise of a transformed target ends: exp of heavy tails has no mean
    ends: tuple[float, float] = (0.001, 0.999)

    def marginal(self, f: ArrayLike, dispersion: ArrayLike, variance: ArrayLike) -> Law:
        """Distribution of f + sqrt(dispersion) e with a normal f of the given variance.

        Parameters
        ----------
        f, dispersion, variance : array-like
            Shapes must broadcast.

        Returns
        -------
        Law
        """
        raise TypeError(f"{type(self).__name__} must define marginal(f, dispersion, variance).")

    def logpdf(self, z: FloatArray) -> FloatArray:
        """Log density of standardized noise.

        Parameters
        ----------
        z : ndarray

        Returns
        -------
        ndarray
        """
        return self.marginal(np.zeros_like(z), 1.0, 0.0).logpdf(z)


@dataclass(frozen=True)
class NormalLaw(NoiseLaw):
    """Additive normal noise.

    See Also
    --------
    StudentLaw : Heavier tails.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> from skribbon.noise import NormalLaw
    >>> RibbonRegressor(law=NormalLaw())  # equals law="normal"
    RibbonRegressor(law=NormalLaw())
    """

    name = "normal"
    ends = (0.0, 1.0)

    def marginal(self, f: ArrayLike, dispersion: ArrayLike, variance: ArrayLike) -> Law:
        return Normal(f, np.asarray(dispersion, dtype=float) + np.asarray(variance, dtype=float))


NORMAL = NormalLaw()


@dataclass(frozen=True)
class StudentLaw(NoiseLaw):
    """Additive noise with Student's t distribution.

    Parameters
    ----------
    df : float
        Degrees of freedom, more than 2.
    variance : float, default=1.0
        Variance in units of the scale.

    See Also
    --------
    NormalLaw : Lighter tails.
    EmpiricalLaw : Any shape.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> from skribbon.noise import StudentLaw
    >>> X, y = load_diabetes(return_X_y=True)
    >>> RibbonRegressor(law=StudentLaw(5.0), noise="dof").fit(X, y).predict_interval(X[:1], 0.99).round(0)
    array([[ 36., 376.]])
    """

    df: float
    variance: float = 1.0
    name = "student"

    def __post_init__(self):
        if not (np.isfinite(self.variance) and self.variance > 0 and self.df > 2):
            raise ValueError(f"StudentLaw needs df > 2 and a variance > 0, got df={self.df}, variance={self.variance}.")

    def marginal(self, f: ArrayLike, dispersion: ArrayLike, variance: ArrayLike) -> Law:
        # Student's t plus a normal variable is approximated by Student's t with the same variance and, for df > 4, the
        # same kurtosis 6 share^2 / (df - 4), with the noise's share of the variance
        dispersion = self.variance * np.asarray(dispersion, dtype=float)
        total = dispersion + np.asarray(variance, dtype=float)
        if np.isinf(self.df):
            return Normal(f, total)
        with np.errstate(divide="ignore", over="ignore"):
            rest = 4.0 if self.df > 4 else 2.0
            return Student(f, total, rest + (self.df - rest) / noise_share(dispersion, total) ** 2)


@dataclass(frozen=True, eq=False, repr=False)
class EmpiricalLaw(NoiseLaw):
    """Distribution of held-out residuals: skewed, heavy-tailed or with several peaks.

    A kernel density with adaptive widths and heavy tails, adjusted to the sample's quantiles at a few levels. Rows that
    are predicted with less certainty than the residuals get an additional normal part.

    Parameters
    ----------
    z : array-like of shape (n,)
        Held-out residuals in units of their predicted standard deviation.
    weight : array-like of shape (n,), default=None
        Number of times that each was observed.
    share : float, default=1.0
        Share of the noise in the variance of the residuals; the rest is the uncertainty of their predictions.

    Attributes
    ----------
    n : float
        Number of observations.
    centres : ndarray
        Order statistics that represent the sample.
    log_score : ndarray
        Leave-one-out log density at each centre.

    See Also
    --------
    StudentLaw : Heavy tails with one parameter.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> from skribbon.noise import EmpiricalLaw
    >>> z = np.random.default_rng(0).exponential(size=500) - 1
    >>> EmpiricalLaw(z).marginal(0.0, 4.0, 0.0).ppf(np.array([0.05, 0.95])).round(2)
    array([-1.88,  4.1 ])
    """

    z: ArrayLike
    weight: PerRow = None
    share: float = 1.0
    n: float = field(init=False)
    _mean_square: float = field(init=False)
    name = "empirical"

    def __post_init__(self):
        z = np.asarray(self.z, dtype=float)
        weight = np.ones(len(z)) if self.weight is None else np.asarray(self.weight, dtype=float)
        self.__dict__.update(z=z, weight=weight, n=float(weight.sum()))  # a frozen dataclass refuses assignments
        if not is_spread(z, weight):
            needs = f"EmpiricalLaw needs at least {FEWEST} residuals that differ"
            raise ValueError(f"{needs}, got {self.n:g}. Use law='normal' or law='student'.")
        with np.errstate(over="ignore"):
            self.__dict__["_mean_square"] = float(weight @ z**2 / self.n)

    def __repr__(self):
        return f"EmpiricalLaw(n={self.n:g})"

    @cached_property
    def _kernels(self):
        """Centres and widths (m,) of the kernels, weight of the heavy tail, and leave-one-out log scores (m,)."""
        centres = representatives(self.z, self.weight)
        m, std = len(centres), centres.std()
        quartiles = np.diff(centres[[m // 4, (3 * m) // 4]])[0] / 1.349
        spread = (min(std, quartiles) if quartiles > ROUNDING * std else std) * self.n**-0.2
        tail = max(1 / (self.n + 1), 0.005)  # probability beyond n observations; at least 0.5%
        pilot = kernel_density(centres, centres, np.full(m, 0.9 * spread), tail)
        relative = np.sqrt(np.exp(np.log(pilot).mean()) / pilot)  # narrow kernels in dense regions
        widths = np.array([[0.25], [0.4], [0.6], [0.9], [1.2]]) * spread * relative  # in units of Silverman's rule
        left_out = min(m / self.n, 1.0)  # one observation, in centres
        widths = np.hypot(widths, np.sqrt(1 - left_out) * np.gradient(centres) / 2)  # observations between centres
        scores = np.log(kernel_density(centres, centres, widths, tail, left_out))
        best = int(np.argmax(scores.mean(axis=1)))
        return centres, widths[best], tail, scores[best]

    @cached_property
    def _bend(self):
        """Function of the kernel cdf that makes its quantiles the sample's."""
        centres, widths, tail, _ = self._kernels
        levels = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
        levels = levels[np.minimum(levels, 1 - levels) * (self.n + 1) >= 5]  # five observations lie beyond
        seen = sample_quantiles(self.z, self.weight, (levels * (self.n + 1) - 0.5) / self.n)
        u, kept = np.unique(kernel_cdf(seen, centres, widths, tail), return_index=True)
        apart = np.r_[True, np.diff(u) > 1e-4] & (u > 1e-4) & (u < 1 - 1e-4)
        return PchipInterpolator(np.r_[0, u[apart], 1], np.r_[0, levels[kept][apart], 1])

    @property
    def centres(self) -> FloatArray:
        """Order statistics (m,) that represent the sample."""
        return self._kernels[0]

    @property
    def log_score(self) -> FloatArray:
        """Leave-one-out log density (m,) at each centre."""
        centres, widths, tail, scores = self._kernels
        bend = self._bend
        u = kernel_cdf(centres, centres, widths, tail)
        return scores + np.log(np.maximum(bend.derivative()(u), 1e-3)) - (len(bend.x) - 2) / self.n

    @cached_property
    def _table(self):
        """Nodes (m,), cdfs at them (R, m) from the normal distribution to the noise, and the noise's smallest variance.

        The cdfs are evenly spaced in the log variance of the noise's narrowest part plus the normal part.
        """
        centres, widths, tail, _ = self._kernels
        steepest = self._bend.derivative()(kernel_cdf(centres, centres, widths, tail)).max()
        narrow = np.clip(widths.min() / max(steepest, 1), ROUNDING, 0.5)
        logs = np.linspace(0, 2 * np.log(narrow), int(np.clip(-2 * np.log(narrow) / STEP, 16, 64)) + 1)
        shares = -np.expm1(logs[:-1]) / (1 - narrow**2)
        nodes = [8 * np.sinh(np.linspace(-2, 2, 128)) / np.sinh(2)]  # standard normal, to 8 standard deviations
        for share, most in (*((share, 64) for share in shares[4::4]), (1.0, 256)):
            around = np.sqrt(share) * centres + np.sqrt(share * widths**2 + 1 - share) * np.linspace(-4, 4, 9)[:, None]
            nodes.append(np.sort(around, axis=None)[np.linspace(0, around.size - 1, most).round().astype(int)])
        nodes = np.unique(np.round(np.concatenate(nodes) * (8 / narrow))) * (narrow / 8)
        noise = self._bend(kernel_cdf(nodes, centres, widths, tail))
        # steps of the noise's cdf, apart from its heavy tail, are kernels of its sum with a normal part
        far, ends = tail * stdtr(TAIL, nodes / TAIL_SCALE), nodes[::2]
        middles, widths2, steps = (ends[1:] + ends[:-1]) / 2, np.diff(ends) ** 2 / 12, np.diff((noise - far)[::2])
        steps = (1 - tail) * np.maximum(steps, 0) / np.maximum(steps, 0).sum()
        sums = [far + ndtr((nodes[:, None] - s**0.5 * middles) / np.sqrt(s * widths2 + 1 - s)) @ steps for s in shares]
        return nodes, np.array([*sums, noise]), narrow**2

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Levels of the smallest and the largest residual, at which noise ends under a transformed target."""
        return tuple(self.marginal(0.0, 1.0, 0.0).cdf(sample_quantiles(self.z, self.weight, [0.0, 1.0])).tolist())

    @cached_property
    def _moments(self):
        """Mean and variance without a normal part."""
        values = self.marginal(0.0, 1.0, 0.0)._standard_ppf((np.arange(4000) + 0.5) / 4000)
        return float(values.mean()), float(values.var())

    def marginal(self, f: ArrayLike, dispersion: ArrayLike, variance: ArrayLike) -> Law:
        dispersion = np.asarray(dispersion, dtype=float)
        total = dispersion + np.asarray(variance, dtype=float)
        share = max(self.share, 1 - self._mean_square)  # y varies at least as its mean does
        return Tabulated(f, total, np.minimum(noise_share(dispersion, total) / share, 1.0), shape=self)


class Tabulated(LocationScale):
    """Empirical distribution by its centre, its variance and the share of the variance that is not normal."""

    def _mean(self):
        mean, _ = self.constants["shape"]._moments
        return self.parameters[0] + self._scale() * np.sqrt(self.parameters[2]) * mean

    def _std(self):
        share, (_, variance) = self.parameters[2], self.constants["shape"]._moments
        return self._scale() * np.sqrt(share * variance + (1 - share))

    def _table(self):
        """Nodes, and a function from indices of nodes to the cdf there, interpolated in the share."""
        nodes, cdf, narrow2 = self.constants["shape"]._table
        place = np.log(1 - self.parameters[2] * (1 - narrow2)) * ((len(cdf) - 1) / np.log(narrow2))
        row = np.minimum(place.astype(int), len(cdf) - 2)
        along = place - row
        return nodes, lambda i: (1 - along) * cdf[row, i] + along * cdf[row + 1, i]

    def _placed(self, y):
        """Standardized y, the nodes, the index of the last node below y, and the cdf at that node and the next."""
        z, (nodes, cdf) = self._z(y), self._table()
        i = np.clip(np.searchsorted(nodes, z) - 1, 0, len(nodes) - 2)
        return z, nodes, i, cdf(i), cdf(i + 1)

    def _cdf(self, y):
        z, nodes, i, left, right = self._placed(y)
        value = left + np.clip((z - nodes[i]) / (nodes[i + 1] - nodes[i]), 0, 1) * (right - left)
        below, above = z < nodes[0], z > nodes[-1]
        value[below] = left[below] * _tail(-z[below]) / _tail(-nodes[0])
        value[above] = 1 - (1 - right[above]) * _tail(z[above]) / _tail(nodes[-1])
        return value

    def _logpdf(self, y):
        z, nodes, i, left, right = self._placed(y)
        density = (right - left) / (nodes[i + 1] - nodes[i])
        below = left * tail_density(z) / _tail(-nodes[0])
        above = (1 - right) * tail_density(z) / _tail(nodes[-1])
        density = np.where(z < nodes[0], below, np.where(z > nodes[-1], above, density))
        return np.log(density) - np.log(self._scale())

    def _standard_ppf(self, q):
        nodes, cdf = self._table()
        low, high = np.zeros(q.shape, dtype=int), np.full(q.shape, len(nodes) - 1)
        if np.all(self.parameters[2] == 1):  # most rows, mostly: all have the last cdf of the table
            low = np.maximum(np.searchsorted(self.constants["shape"]._table[1][-1], q, side="right") - 1, 0)
        else:
            for _ in range(len(nodes).bit_length()):  # the last node whose cdf is at most q, by halving
                middle = (low + high) // 2
                under = cdf(middle) <= q
                low, high = np.where(under, middle, low), np.where(under, high, middle)
        i = np.minimum(low, len(nodes) - 2)
        left, right, first, last = cdf(i), cdf(i + 1), cdf(0), cdf(-1)
        below, above = q < first, q > last
        with np.errstate(all="ignore"):
            z = nodes[i] + np.clip((q - left) / (right - left), 0, 1) * (nodes[i + 1] - nodes[i])
            z[below] = TAIL_SCALE * stdtrit(TAIL, (q / first)[below] * stdtr(TAIL, nodes[0] / TAIL_SCALE))
            z[above] = -TAIL_SCALE * stdtrit(TAIL, ((1 - q) / (1 - last))[above] * stdtr(TAIL, -nodes[-1] / TAIL_SCALE))
        return z

    def _sample(self, rng):
        return self._ppf(rng.uniform(size=self.shape))


@dataclass
class LocationFamily:
    """Observations y = f + sqrt(dispersion) e, with noise e of a given shape."""

    dispersion: ArrayLike
    shape: NoiseLaw = NORMAL

    def conditional(self, f):
        """Distribution of y given the raw prediction f, of any shape that the dispersion broadcasts with."""
        return self.shape.marginal(f, self.dispersion, 0.0)

    def marginal(self, f, variance):
        """Distribution of y if the raw prediction is normal with mean f and the given variance."""
        return self.shape.marginal(f, self.dispersion, variance)


def noise_share(dispersion, total):
    """Share of the noise in a total variance; one if the total is zero."""
    return np.divide(dispersion, total, out=np.ones(np.broadcast(dispersion, total).shape), where=total > 0)


def sample_quantiles(z, weight, levels):
    """Quantiles of a weighted sample: interpolated order statistics, in which a whole weight counts copies."""
    order = np.argsort(z, kind="stable")
    z, weight = z[order][weight[order] > 0], weight[order][weight[order] > 0]
    ends = np.cumsum(weight)
    # copies of a value fill the ranks from start to end; order statistic k of n has rank k - 1/2
    starts = np.minimum(ends - weight + 0.5, ends - weight / 2)
    stops = np.maximum(ends - 0.5, ends - weight / 2)
    return np.interp(np.asarray(levels) * ends[-1], np.c_[starts, stops].ravel(), np.repeat(z, 2))


def representatives(z, weight, most=256):
    """Order statistics that represent a weighted sample: all, or ``most`` of them at even levels."""
    m = min(int(np.ceil(round(weight.sum(), 6))), most)  # a sum of shares of n is n but for rounding
    return sample_quantiles(z, weight, (np.arange(m) + 0.5) / m)


def is_spread(z, weight):
    """Whether a weighted sample has at least FEWEST observations that are not almost all equal."""
    return bool(
        round(weight.sum(), 6) >= FEWEST and np.ptp(representatives(z, weight)) > ROUNDING * np.abs(z[weight > 0]).max()
    )


def kernel_cdf(x, centres, widths, tail):
    """Cdf (m,) at x of normal kernels with a heavy tail."""
    return (1 - tail) * ndtr((x[:, None] - centres) / widths).mean(axis=1) + tail * stdtr(TAIL, x / TAIL_SCALE)


def kernel_density(x, centres, widths, tail, left_out=0.0):
    """Density (..., m) at x (m,) of normal kernels with widths (..., k) and a heavy tail, without a part of its own."""
    widths = widths[..., None, :]
    kernels = np.exp(-(((x[:, None] - centres) / widths) ** 2) / 2) / (widths * np.sqrt(2 * np.pi))
    if left_out:
        kernels[..., np.arange(len(x)), np.arange(len(x))] *= 1 - left_out
    return (1 - tail) * kernels.sum(axis=-1) / (len(centres) - left_out) + tail * tail_density(x)


def _tail(x):
    """Probability that TAIL_SCALE times Student's t with TAIL degrees of freedom exceeds x."""
    return stdtr(TAIL, -x / TAIL_SCALE)


def tail_density(x):
    """Density of TAIL_SCALE times Student's t with three degrees of freedom."""
    return 2 / (np.pi * np.sqrt(3) * (1 + (x / TAIL_SCALE) ** 2 / 3) ** 2) / TAIL_SCALE
