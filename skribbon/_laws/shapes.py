"""Shapes of additive noise: the law of e in y = f + sqrt(phi) e, whatever its scale phi is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, stdtr, stdtrit

from .._utils.typing import FloatArray
from .base import Law
from .normal import LocationScale, Normal, Student

TAIL, TAIL_SCALE = 3.0, 1.5  # degrees of freedom and scale of an empirical law's tails: heavy, with a finite variance
SHARES = np.linspace(0, 1, 17)  # shares of the noise in the variance at which an empirical law is tabulated
FEWEST = 20  # fewest observations for an empirical law: five of them lie beyond either quartile
ROUNDING = 1e-6  # differences below this share of the largest residual, or of the spread, are rounding


class NoiseLaw:
    """Shape of the noise in units of its scale; ``marginal`` convolves it with a normal uncertainty of the centre.

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True)
    >>> RibbonRegressor(law="student").fit(X, y).law_.name
    'student'
    """

    name: str
    heavy = True  # whether the exponential of such noise has no variance

    def marginal(self, f: ArrayLike, dispersion: ArrayLike, variance: ArrayLike) -> Law:
        """Law of f + sqrt(dispersion) e, where f is normal with the given variance.

        Parameters
        ----------
        f, dispersion, variance : array-like
            Of shapes that broadcast.

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
    """Normal noise.

    Examples
    --------
    >>> from skribbon.noise import NormalLaw
    >>> RibbonRegressor(law=NormalLaw())  # law="normal" says the same
    RibbonRegressor(law=NormalLaw())
    """

    name = "normal"
    heavy = False

    def marginal(self, f: ArrayLike, dispersion: ArrayLike, variance: ArrayLike) -> Law:
        return Normal(f, np.asarray(dispersion, dtype=float) + np.asarray(variance, dtype=float))


NORMAL = NormalLaw()


@dataclass(frozen=True)
class StudentLaw(NoiseLaw):
    """Student's t noise.

    Parameters
    ----------
    df : float
        Degrees of freedom, more than 2.
    variance : float, default=1.0
        In units of the scale; a maximum-likelihood variance differs from the mean square, which follows the few largest
        residuals.

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
        # The sum of a Student and a normal variable is taken for Student's law with the same variance and, where there
        # is one (df > 4), the same kurtosis 6 share^2 / (df - 4), share being that of the noise in the variance.
        # Heavier tails have no kurtosis to keep: there the excess of 1 / degrees of freedom over zero shrinks with
        # share^2 as well, degrees = 2 + (df - 2) / share^2, Student's law at share 1 and the normal law at share 0.
        dispersion = self.variance * np.asarray(dispersion, dtype=float)
        total = dispersion + np.asarray(variance, dtype=float)
        if np.isinf(self.df):
            return Normal(f, total)
        with np.errstate(divide="ignore", over="ignore"):
            rest = 4.0 if self.df > 4 else 2.0
            return Student(f, total, rest + (self.df - rest) / noise_share(dispersion, total) ** 2)


@dataclass(frozen=True, eq=False, repr=False)
class EmpiricalLaw(NoiseLaw):
    """The distribution of held-out residuals: skewed, heavy-tailed or with several peaks.

    A kernel density with adaptive widths and a heavy-tailed part for what lies beyond, adjusted so that its quantiles
    at a few levels are those of the sample, by the (n + 1) rule. Rows that are predicted with less certainty than the
    residuals were get an additional normal part.

    Parameters
    ----------
    z : array-like of shape (n,)
        Held-out residuals in units of their own predicted standard deviation.
    weight : array-like of shape (n,), default=None
        How often each was observed.
    share : float, default=1.0
        Share of the noise in the variance of such residuals; the rest is the uncertainty of their predictions.

    Attributes
    ----------
    n : float
        Number of observations.
    centres : ndarray
        Order statistics that stand for the sample.
    log_score : ndarray
        Leave-one-out log density at each of them.

    Examples
    --------
    >>> from skribbon.noise import EmpiricalLaw
    >>> z = np.random.default_rng(0).exponential(size=500) - 1
    >>> law = EmpiricalLaw(z)
    >>> law
    EmpiricalLaw(n=500)
    >>> law.marginal(0.0, 4.0, 0.0).ppf(np.array([0.05, 0.95])).round(2)
    array([-1.88,  4.1 ])
    """

    z: ArrayLike
    weight: ArrayLike | None = None
    share: float = 1.0
    n: float = field(init=False)
    name = "empirical"

    def __post_init__(self):
        z = np.asarray(self.z, dtype=float)
        weight = np.ones(len(z)) if self.weight is None else np.asarray(self.weight, dtype=float)
        object.__setattr__(self, "n", float(weight.sum()))
        if not is_spread(z, weight):
            raise ValueError(
                f"An empirical law is made of at least {FEWEST} residuals that differ, got {self.n:g}; use "
                "law='normal' or 'student'."
            )
        object.__setattr__(self, "z", z)
        object.__setattr__(self, "weight", weight)

    def __repr__(self):
        return f"EmpiricalLaw(n={self.n:g})"

    @cached_property
    def _kernels(self):
        """Centres and widths (m,) of the kernels, the weight of the heavy tail, and scores without each itself."""
        centres = stand_ins(self.z, self.weight)
        m, std = len(centres), centres.std()
        quartiles = np.diff(centres[[m // 4, (3 * m) // 4]])[0] / 1.349
        spread = (min(std, quartiles) if quartiles > ROUNDING * std else std) * self.n**-0.2
        tail = max(1 / (self.n + 1), 0.005)  # what lies beyond n observations; half a per cent in large samples
        pilot = kernel_density(centres, centres, np.full(m, 0.9 * spread), tail)
        relative = np.sqrt(np.exp(np.log(pilot).mean()) / pilot)  # narrow where rows are dense
        choices = [c * spread * relative for c in (0.25, 0.4, 0.6, 0.9, 1.2)]  # in units of Silverman's rule
        scores = [np.log(kernel_density(centres, centres, widths, tail, skip_itself=True)) for widths in choices]
        best = int(np.argmax([score.mean() for score in scores]))
        return centres, choices[best], tail, scores[best]

    @cached_property
    def _bend(self):
        """The function of the kernel cdf that brings its quantiles to those of the sample."""
        centres, widths, tail, _ = self._kernels
        levels = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
        levels = levels[np.minimum(levels, 1 - levels) * (self.n + 1) >= 5]  # with five observations beyond
        seen = sample_quantiles(self.z, self.weight, (levels * (self.n + 1) - 0.5) / self.n)
        u, kept = np.unique(kernel_cdf(seen, centres, widths, tail), return_index=True)
        apart = np.r_[True, np.diff(u) > 1e-4] & (u > 1e-4) & (u < 1 - 1e-4)
        return PchipInterpolator(np.r_[0, u[apart], 1], np.r_[0, levels[kept][apart], 1])

    @property
    def centres(self) -> FloatArray:
        """Order statistics that stand for the sample.

        Returns
        -------
        ndarray of shape (m,)
        """
        return self._kernels[0]

    @property
    def log_score(self) -> FloatArray:
        """Log density at each of the centres, without itself.

        Returns
        -------
        ndarray of shape (m,)
        """
        centres, widths, tail, scores = self._kernels
        bend = self._bend
        u = kernel_cdf(centres, centres, widths, tail)
        return scores + np.log(np.maximum(bend.derivative()(u), 1e-3)) - (len(bend.x) - 2) / self.n

    @cached_property
    def table(self) -> tuple[FloatArray, FloatArray]:
        """Nodes (m,) and the cdf at them (R, m) with the noise in each of the SHARES.

        Returns
        -------
        nodes : ndarray of shape (m,)
        cdf : ndarray of shape (R, m)
        """
        centres, widths, tail, _ = self._kernels
        around = np.sort((centres + np.linspace(-4, 4, 9)[:, None] * widths).ravel())
        own = around[np.linspace(0, len(around) - 1, 256).round().astype(int)]
        # the standard normal law, evenly in its density's reach
        nodes = np.unique(np.r_[own, 8 * np.sinh(np.linspace(-2, 2, 256)) / np.sinh(2)])
        nodes = nodes[np.r_[True, np.diff(nodes) > 1e-6]]
        rows, width2 = [], np.median(widths) ** 2
        for share in SHARES:
            u = kernel_cdf(nodes, np.sqrt(share) * centres, np.sqrt(share * widths**2 + (1 - share)), tail)
            own = share * width2 / (share * width2 + (1 - share))  # the bend undoes what the kernels spread, no more
            rows.append(own * self._bend(u) + (1 - own) * u)
        return nodes, np.array(rows)

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the tabulated law without a normal part.

        Returns
        -------
        mean, variance : float
        """
        levels = (np.arange(4000) + 0.5) / 4000
        values = Tabulated(np.zeros(1), np.ones(1), np.ones(1), shape=self)._standard_ppf(levels, np.ones(4000))
        return float(values.mean()), float(values.var())

    def marginal(self, f: ArrayLike, dispersion: ArrayLike, variance: ArrayLike) -> Law:
        dispersion = np.asarray(dispersion, dtype=float)
        total = dispersion + np.asarray(variance, dtype=float)
        return Tabulated(f, total, np.minimum(noise_share(dispersion, total) / self.share, 1.0), shape=self)


class Tabulated(LocationScale):
    """An empirical law by its centre, its variance and the share of the variance that is not normal."""

    _point = Normal._point

    @property
    def _shape(self):
        return self.constants["shape"]

    def _centre(self):
        return self.parameters[0]

    def _scale(self):
        return np.sqrt(self.parameters[1])

    def _mean(self):
        return self.parameters[0] + self._scale() * np.sqrt(self.parameters[2]) * self._shape.moments[0]

    def _std(self):
        share = self.parameters[2]
        return self._scale() * np.sqrt(share * self._shape.moments[1] + (1 - share))

    def _z(self, y):
        return (y - self.parameters[0]) / self._scale()

    def _rows(self, share):
        """Which two rows of the table a share lies between, and how far along."""
        place = share * (len(SHARES) - 1)
        row = np.minimum(place.astype(int), len(SHARES) - 2)
        return row, place - row

    def _placed(self, y):
        """Standardized y, the nodes, which of them is the last below y, and the cdf at that node and the next."""
        z, (nodes, cdf) = np.broadcast_arrays(self._z(y), self.parameters[2])[0], self._shape.table
        row, along = self._rows(np.broadcast_to(self.parameters[2], z.shape))
        i = np.clip(np.searchsorted(nodes, z) - 1, 0, len(nodes) - 2)
        return z, nodes, i, _between(cdf, row, along, i), _between(cdf, row, along, i + 1)

    def _cdf(self, y):
        z, nodes, i, left, right = self._placed(y)
        inside = left + np.clip((z - nodes[i]) / (nodes[i + 1] - nodes[i]), 0, 1) * (right - left)
        below = left * stdtr(TAIL, np.minimum(z, nodes[0]) / TAIL_SCALE) / stdtr(TAIL, nodes[0] / TAIL_SCALE)
        above = (1 - right) * stdtr(TAIL, -np.maximum(z, nodes[-1]) / TAIL_SCALE)
        above = 1 - above / stdtr(TAIL, -nodes[-1] / TAIL_SCALE)
        return np.where(z < nodes[0], below, np.where(z > nodes[-1], above, inside))

    def _logpdf(self, y):
        z, nodes, i, left, right = self._placed(y)
        density = (right - left) / (nodes[i + 1] - nodes[i])
        below = left * _tail_density(z) / stdtr(TAIL, nodes[0] / TAIL_SCALE)
        above = (1 - right) * _tail_density(z) / stdtr(TAIL, -nodes[-1] / TAIL_SCALE)
        density = np.where(z < nodes[0], below, np.where(z > nodes[-1], above, density))
        return np.log(density) - np.log(self._scale())

    def _ppf(self, q):
        return self.parameters[0] + self._scale() * self._standard_ppf(q, self.parameters[2])

    def _standard(self, q):
        z, share = self._standard_ppf(q, np.ones(len(q))), self.parameters[2]
        some = share < 1
        if not some.any():  # most rows, mostly, are as sure as those that the law was made of
            return z
        z = np.array(np.broadcast_to(z, (*self.shape, len(q))))
        others = self.take(np.flatnonzero(some))
        z[some] = others._map(lambda law, a: law._standard_ppf(a, law.parameters[2]), q[:, None]).T
        return z

    def _standard_ppf(self, q, share):
        """Quantiles of the law of variance one."""
        nodes, cdf = self._shape.table
        row, along = self._rows(share)
        if np.all(share == 1):  # most rows, mostly
            low = np.maximum(np.searchsorted(cdf[-1], q, side="right") - 1, 0)
        else:
            low = _node_below(q, cdf, row, along)
        i = np.minimum(low, len(nodes) - 2)
        left, right = (_between(cdf, row, along, k) for k in (i, i + 1))
        with np.errstate(all="ignore"):
            z = nodes[i] + np.clip((q - left) / (right - left), 0, 1) * (nodes[i + 1] - nodes[i])
        first, last = _between(cdf, row, along, 0), _between(cdf, row, along, -1)
        below, above = q < first, q > last
        if below.any():
            part = (q / first)[below] * stdtr(TAIL, nodes[0] / TAIL_SCALE)
            z[below] = TAIL_SCALE * stdtrit(TAIL, part)
        if above.any():
            part = ((1 - q) / (1 - last))[above] * stdtr(TAIL, -nodes[-1] / TAIL_SCALE)
            z[above] = -TAIL_SCALE * stdtrit(TAIL, part)
        return z

    def _sample(self, rng):
        return self._ppf(rng.uniform(size=self.shape))


def noise_share(dispersion, total):
    """Share of the noise in a variance, one where there is none."""
    return np.divide(dispersion, total, out=np.ones(np.broadcast(dispersion, total).shape), where=total > 0)


def sample_quantiles(z, weight, levels):
    """Quantiles of a weighted sample: of whole weights, the order statistics of as many copies, interpolated."""
    order = np.argsort(z, kind="stable")
    z, weight = z[order][weight[order] > 0], weight[order][weight[order] > 0]
    ends = np.cumsum(weight)
    # copies of a value fill the ranks from start to end; order statistic k of n stands at rank k - 1/2
    starts = np.minimum(ends - weight + 0.5, ends - weight / 2)
    stops = np.maximum(ends - 0.5, ends - weight / 2)
    return np.interp(np.asarray(levels) * ends[-1], np.c_[starts, stops].ravel(), np.repeat(z, 2))


def stand_ins(z, weight, most=256):
    """Order statistics that stand for a weighted sample, as many as there are or ``most`` of them."""
    m = min(int(np.ceil(weight.sum())), most)
    return sample_quantiles(z, weight, (np.arange(m) + 0.5) / m)


def is_spread(z, weight):
    """Whether a sample is large enough for an empirical law, and more than one value with a few rows beside it."""
    return bool(weight.sum() >= FEWEST and np.ptp(stand_ins(z, weight)) > ROUNDING * np.abs(z[weight > 0]).max())


def kernel_cdf(x, centres, widths, tail):
    """Cdf (m,) at x of normal kernels and the heavy tail."""
    return (1 - tail) * ndtr((x[:, None] - centres) / widths).mean(axis=1) + tail * stdtr(TAIL, x / TAIL_SCALE)


def kernel_density(x, centres, widths, tail, skip_itself=False):
    """Density (m,) at x of normal kernels and the heavy tail."""
    kernels = np.exp(-(((x[:, None] - centres) / widths) ** 2) / 2) / (widths * np.sqrt(2 * np.pi))
    if skip_itself:
        np.fill_diagonal(kernels, 0.0)
    return (1 - tail) * kernels.sum(axis=1) / (len(centres) - skip_itself) + tail * _tail_density(x)


def _tail_density(x):
    """Of Student's law with three degrees of freedom."""
    return 2 / (np.pi * np.sqrt(3) * (1 + (x / TAIL_SCALE) ** 2 / 3) ** 2) / TAIL_SCALE


def _node_below(q, cdf, row, along):
    """Last node whose cdf is at most q, by halving."""
    low, high = np.zeros(q.shape, dtype=int), np.full(q.shape, cdf.shape[1] - 1)
    for _ in range(int(np.ceil(np.log2(cdf.shape[1])))):
        middle = (low + high) // 2
        under = _between(cdf, row, along, middle) <= q
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return low


def _between(cdf, row, along, i):
    return (1 - along) * cdf[row, i] + along * cdf[row + 1, i]
