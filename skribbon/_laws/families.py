"""Distributions of y if its raw prediction f is uncertain: the Tweedie family with a normal f, and mixtures."""

from functools import cache

import numpy as np
from scipy.special import log_ndtr, logsumexp

from .base import POINT, Law, Normal, as_floats, in_order
from .numerics import find_root, integrate_crps, normals_crps, points_crps, spline_quantiles
from .tweedie import POISSON, TINY, CompoundPoissonGamma, Counts, Gamma, InverseGaussian

REACH = 7.0  # standard deviations of f on either side that carry all but 3e-12 of its mass
HERMITE = 0.5  # sd of f in units of the noise up to which 1 + 20 HERMITE Gauss-Hermite nodes leave an error of 1e-8
STEP = 0.2  # step of the trapezoidal rule for a larger sd of f, whose error is below exp(-3 / STEP)
FARTHEST = 600.0  # log mean of nodes, or that of 5e8 y: any larger mean is as unlikely to give y, but may overflow
COARSEST = 2.0  # largest distance of nodes in units of STEP and of the sd of f: a fifth of the error's limit


class TweedieFamily:
    """Observations of a Tweedie loss: Var(y) = phi mu^power with mu = inverse link of f.

    Power 1 is Poisson for phi <= 1 and negative binomial otherwise, or a Poisson number of exponential jumps without
    ``counts``. Powers without an elementary distribution use a gamma (above 2) or a normal one (below 1).
    """

    def __init__(self, dispersion, power, link="log", counts=True):
        self.dispersion, self.power = as_floats(dispersion), float(power)
        self.log, self.counts = link == "log", counts and self.power == 1

    def conditional(self, f):
        """Distribution of y given the raw prediction f, of any shape that the dispersion broadcasts with."""
        mu, p = self.to_mean(f), self.power
        if self.counts:
            return Counts(mu, self.dispersion)
        if p < 1:
            return Normal(mu, self.noise_variance(mu))
        cv2 = self.relative_variance(mu)
        if p < 2:
            return CompoundPoissonGamma(mu, cv2, power=1.5 if p == 1 else p)  # jumps of rates are exponential
        return InverseGaussian(mu, cv2) if p == 3 else Gamma(mu, cv2)

    def marginal(self, f, variance):
        """Distribution of y if the raw prediction is normal with mean f and the given variance."""
        if not np.any(variance):
            return self.conditional(np.broadcast_to(f, np.broadcast_shapes(np.shape(f), np.shape(variance))))
        return UncertainMean(f, np.sqrt(variance), self.dispersion, family=self)

    def at(self, dispersion):
        """Family with another dispersion."""
        return TweedieFamily(dispersion, self.power, "log" if self.log else "identity", self.counts)

    def to_mean(self, f):
        """Inverse link; infinite if it overflows, and never so small that a relative variance overflows."""
        mu = as_floats(f)
        if self.log:
            with np.errstate(over="ignore", under="ignore"):
                mu = np.exp(mu)
        return np.maximum(mu, TINY) if self.power >= 1 else mu

    def relative_variance(self, mu):
        """Var(y) / mu^2."""
        return self._times_power(mu, self.power - 2)

    def noise_variance(self, mu):
        """Var(y) given the mean, or its absolute value: a power needs a positive mean."""
        return self._times_power(np.abs(mu), self.power)

    def _times_power(self, mu, power):
        """Phi mu^power; zero times infinity is zero, the limit of a degenerate distribution."""
        phi = np.where(self.dispersion <= POISSON, 1.0, self.dispersion) if self.counts else self.dispersion
        with np.errstate(all="ignore"):
            product = phi * np.asarray(mu) ** power
        return np.where(np.isnan(product), 0.0, product)


@cache
def hermite(n):
    """Gauss-Hermite nodes and log weights for the standard normal distribution, (n,) each."""
    z, w = np.polynomial.hermite_e.hermegauss(n)
    return z, np.log(w / w.sum())


class UncertainMean(Law):
    """Mixture of the distribution of y given f over nodes of f ~ N(f, sd^2).

    If f is known better than y, a few Gauss-Hermite nodes are enough. Otherwise the nodes are dense near the mode of
    p(y | f) p(f) and sparse far away. With an identity link and positive means, they space log f, and f <= 0 is a node.
    """

    width = 64  # nodes of most elements

    def __init__(self, f, sd, phi, family):
        super().__init__(f, sd, phi, family=family)
        self.family = family.at(self.parameters[2])
        example = family.conditional(0.0)
        self.discrete, self.real, self.atom = example.discrete, example.real, example.atom
        self.bounded = not family.log and not self.real
        self.curved = family.log or self.bounded  # the mean is exp(coordinate of the nodes)

    def _information(self, mu):
        """Quasi-information about the coordinate of the nodes, f or the log of the mean, (m,)."""
        if self.curved:
            return mu ** (2 - self.family.power) / self.family.relative_variance(1.0)
        return 1 / self.family.noise_variance(mu)

    def _residual(self, y, mu):
        return y / mu - 1 if self.curved else y - mu

    def _ratio(self, y):
        """Standard deviation (m,) of f in units of the noise, increased for observations y far out."""
        f, sd, _ = self.parameters
        mu = self.family.to_mean(f)
        information = self._information(mu)
        away = np.fmax(1.0, np.abs(self._residual(y, mu)) * np.sqrt(information) / 3)
        size = mu if self.bounded else 1.0
        return np.where(sd == 0, 0.0, sd / size * np.sqrt(self.curved + information) * away)

    def _over_nodes(self, y, average):
        """average(law at nodes of f, log weights, y) (m,), in groups of rows with equally many nodes."""
        with np.errstate(all="ignore"):
            ratio = self._ratio(y)
            f, sd, _ = self.parameters
            few = (ratio <= HERMITE) & ~(self.bounded & (sd > 0) & (f < REACH * sd))  # the mean has a kink at f = 0
            count, grid = np.where(few, 1 + 2 * np.ceil(10 * ratio), 0), np.empty((y.size, 5))
            if not few.all():
                grid[~few] = self.take(np.flatnonzero(~few))._grid(y[~few])
                count[~few] = -8 * np.ceil((grid[~few, 4] - grid[~few, 3]) / STEP / 8)
        out = np.full(y.shape, np.nan)
        for n in np.unique(count[np.isfinite(count)]):  # an infinite mean leaves no number to evaluate at
            rows = np.flatnonzero(count == n)
            law = self if rows.size == y.size else self.take(rows)
            f, log_weight = law._few_nodes(int(n)) if n > 0 else law._many_nodes(int(-n), *grid[rows].T[..., None])
            if law.family.log:
                with np.errstate(all="ignore"):
                    f = np.minimum(f, np.fmax(FARTHEST, np.log(y[rows, None]) + 20))
            conditional = law.family.at(law.parameters[2][:, None]).conditional(f)
            out[rows] = average(conditional, log_weight, np.broadcast_to(y[rows, None], f.shape))
        return out

    def _few_nodes(self, n):
        """Gauss-Hermite nodes of f (m, n) and their log weights (n,)."""
        z, log_weight = hermite(n)
        return self.parameters[0][:, None] + self.parameters[1][:, None] * z, log_weight

    def _many_nodes(self, n, centre, share, largest, first, last):
        """Nodes of f and log weights at even steps of the coordinate t of :meth:`_grid`, (m, n) each."""
        f, sd, _ = (p[:, None] for p in self.parameters)
        step = (last - first) / (n - 1)
        t = first + step * np.arange(n)
        up, down = share * np.exp(t), share * np.exp(-t)
        s = centre + largest * (np.log1p(up) - np.log1p(down))
        nodes = np.exp(s) if self.bounded else s
        distance = step * largest * (up / (1 + up) + down / (1 + down))
        log_weight = np.log(distance / sd) - ((nodes - f) / sd) ** 2 / 2 - np.log(2 * np.pi) / 2
        if self.bounded:
            nodes = np.c_[np.full(f.shape, TINY), nodes]
            log_weight = np.c_[log_ndtr(-f / sd), log_weight + s]
        return nodes, log_weight

    def _grid(self, y):
        """Centre, share, largest distance, first and last t of nodes, (m, 5).

        The nodes are s = centre + largest log((1 + share exp(t)) / (1 + share exp(-t))) with s = f, or log f if it is
        bounded. Their distances grow from the width of p(y | f) p(f) at its mode to ``largest``.
        """
        f, sd, _ = self.parameters
        low, high, largest = f - REACH * sd, f + REACH * sd, COARSEST * sd
        lower, upper = f - 40 * sd, f + 40 * sd
        if self.bounded:
            upper = high = np.log(np.maximum(high, 1e-3 * sd))
            lower = low = np.log(np.maximum(low, np.exp(high - 30)))
            largest = largest / np.maximum(f, sd)
        elif self.curved and self.real:  # the cdf need not be steepest at the mode
            known = np.log(np.abs(y) + np.sqrt(self.family.noise_variance(np.abs(y))))
            lower = upper = np.clip(known, low, high)
            largest = largest / 4
        if self.family.power < 2 and not self.real:  # y = 0 distinguishes means down to that of unit information
            y = np.maximum(y, self.family.relative_variance(1.0) ** (1 / (2 - self.family.power)))
        for _ in range(40):  # the mode is then known to 1e-10 standard deviations of f
            s = (lower + upper) / 2
            mu = np.maximum(np.exp(s), TINY) if self.curved else s
            at = np.minimum(mu, y) if self.family.power > 2 else mu  # beyond y skew likelihoods are flat, not their cdf
            information, precision = self._information(at), (mu if self.bounded else 1.0) / sd
            from_f = ((mu if self.bounded else s) - f) / sd
            score = self._residual(y, mu) * information - from_f * precision + self.bounded
            score -= self.family.power >= 2  # the cdf bends below the mode
            lower, upper = np.where(score > 0, s, lower), np.where(score > 0, upper, s)
        width = np.nan_to_num(1 / np.sqrt(precision**2 + information + self.curved))
        share = np.clip(width, 1e-13 * (1 + np.abs(s)), largest / COARSEST) / (2 * largest)
        if not self.bounded:
            low, high = np.minimum(low, s - REACH * sd), np.maximum(high, s + REACH * sd)
        ends = (np.stack([low, high]) - s) / (2 * largest)
        return np.column_stack([s, share, largest, *(ends + np.arcsinh(np.sinh(ends) / share))])

    def _mean(self):
        f, sd, _ = self.parameters
        with np.errstate(all="ignore"):
            if self.family.log:
                return np.exp(f + sd**2 / 2)
            return self._over_nodes(f, lambda law, log_weight, _: (np.exp(log_weight) * law._mean()).sum(axis=1))

    def _std(self):
        f, sd, _ = self.parameters
        mean, power = self._mean(), self.family.power
        with np.errstate(all="ignore"):
            if self.family.log:
                noise = self.family.relative_variance(np.exp(f)) * np.exp((power**2 - 2) * sd**2 / 2)
                std = mean * np.sqrt(np.expm1(sd**2) + np.where(np.isnan(noise), 0.0, noise))
                return np.where(np.isnan(std), np.where(mean > 0, np.inf, 0.0), std)

            def mean_square(law, log_weight, mean):
                return (np.exp(log_weight) * ((law._mean() - mean) ** 2 + law._std() ** 2)).sum(axis=1)

            return np.sqrt(self._over_nodes(mean, mean_square))

    def _point(self):
        f, sd, _ = self.parameters
        size = 1.0 if self.family.log else np.abs(f)
        return (sd <= POINT * size) & self.family.conditional(f)._point()

    def _cdf(self, y):
        shift = 0.5 if self.discrete else 0.0

        def average(law, log_weight, y):
            F = np.clip(law._cdf(y), 0, 1)
            F = np.where(law._point() | np.isnan(F), y + shift >= law._mean(), F)  # special functions fail far away
            weight = np.exp(log_weight)
            total = 1.0 if self.bounded else np.maximum(weight.sum(axis=-1), TINY)  # f is rounded
            return (weight * F).sum(axis=1) / total

        return self._over_nodes(y, average)

    def _logpdf(self, y):
        f, sd, phi = self.parameters
        value = self._over_nodes(y, lambda law, log_weight, y: logsumexp(law._logpdf_at(y) + log_weight, axis=1))
        no_noise = (phi == 0 if self.real else self.family.conditional(f)._point()) & (sd > 0)
        if no_noise.any():  # y is the mean
            linked, slope = (np.log(y), np.log(y)) if self.family.log else (y, 0.0)
            exact = -(((linked - f) / sd) ** 2) / 2 - np.log(sd) - np.log(2 * np.pi) / 2
            value = np.where(no_noise, exact - slope, value)
        return value

    def ppf(self, q):
        phi = self.parameters[2]
        smooth = self.family.log and self.family.power >= 1  # and of 2000 rows on, a spline is faster than a search
        if not (smooth and phi.size >= 2000 and phi.flat[0] > 0 and (phi == phi.flat[0]).all()):
            return super().ppf(q)
        law, q = self.take(slice(None)), as_floats(q)
        quantiles = np.stack([law._ppf_of_many(level) for level in q.reshape(-1)], axis=-1).reshape(*self.shape, -1)
        return in_order(quantiles, q) if q.ndim else quantiles[..., 0]

    def _ppf_of_many(self, level):
        """Quantiles (m,) of distributions that differ in f and sd only: by a spline, and far out by a search."""
        with np.errstate(all="ignore"):
            f, v = self.parameters[0], np.arcsinh(self._ratio(self.family.to_mean(self.parameters[0])))
            noise = np.median(self.parameters[1] / np.sinh(v))
            out = spline_quantiles(self, f, v, noise, level, self._with)
        rest = np.flatnonzero(np.isnan(out))
        out[rest] = self.take(rest)._map(UncertainMean._ppf_at, level)
        return out

    def _with(self, f, v):
        """Distributions (m,) with other f and arcsinh(ratio) v, (m,) each."""
        law = UncertainMean(f, np.ones(f.shape), self.parameters[2].flat[0], self.constants["family"])
        sd = np.sinh(v) / law._ratio(law.family.to_mean(f))
        return UncertainMean(f, sd, law.parameters[2], law.constants["family"])

    def _coordinate(self):
        if not self.family.log:
            return super()._coordinate()
        noise = np.sqrt(self.family.noise_variance(self.family.to_mean(self.parameters[0])))
        return 0.0, np.maximum(noise, TINY)  # reaches from the noise to any power of ten


class Mixture(Law):
    """Mixture of a distribution over its last axis, for draws of f that are equally likely."""

    def __init__(self, law):
        self.law = law
        self.shape, self.width = law.shape[:-1], max(law.shape[-1], 1)
        self.discrete, self.real, self.atom = law.discrete, law.real, law.atom

    def take(self, index):
        """Mixtures of some elements, by a slice or indices of the flattened shape."""
        law, B = self.law, self.law.shape[-1]
        parameters = (p.reshape(-1, B)[index] for p in law.parameters)
        return Mixture(type(law)(*parameters, **law.constants))

    def _point(self):
        return self.law._point().all(axis=-1) & _all_equal(self.law._mean())

    def _mean(self):
        means = self.law._mean()
        with np.errstate(all="ignore"):
            return np.where(_all_equal(means), means[..., 0], means.mean(axis=-1))  # not rounded if all are equal

    def _std(self):
        with np.errstate(all="ignore"):
            centred = self.law._mean() - self._mean()[..., None]
            top = np.maximum(np.abs(centred).max(axis=-1), self.law._std().max(axis=-1))[..., None]  # no overflow
            top = np.where(top > 0, top, 1.0)
            std = np.sqrt(((centred / top) ** 2 + (self.law._std() / top) ** 2).mean(axis=-1)) * top[..., 0]
        return np.where(np.isnan(std), np.inf, std)

    def _cdf(self, y):
        y = y[..., None]
        if self.discrete:  # a smooth function through the cdf, also of points
            return np.where(self.law._point(), y + 0.5 >= self.law._mean(), self.law._cdf(y)).mean(axis=-1)
        return self.law._cdf_at(y).mean(axis=-1)

    def _cdf_at(self, y, closed=True):
        return self.law._cdf_at(y[..., None], closed).mean(axis=-1)

    def _ppf(self, q):
        ends = self._quantiles(q)
        low, high, rows = ends.min(axis=-1), ends.max(axis=-1), np.arange(q.size)
        if self.real:
            rows = self._interpolate(q, low, high)
        for _ in range(70):  # 64 halvings separate all floats, and some are for rounding to whole numbers
            resolution = np.maximum(np.spacing(high), 1.0) if self.discrete else 1e-13 * np.abs(high)
            rows = rows[(high - low > resolution)[rows]]
            if not rows.size:
                break
            law = self if rows.size == q.size else self.take(rows)
            middle = halfway(low[rows], high[rows])
            middle = np.maximum(np.floor(middle), low[rows] + 1) if self.discrete else middle
            enough = law._cdf_at(middle) >= q[rows]
            high[rows[enough]], low[rows[~enough]] = middle[enough], middle[~enough]
        return np.where(self._cdf_at(low) >= q, low, high)

    def _interpolate(self, q, low, high):
        """Set ends (m,) of brackets to the quantile by interpolation; returns the rows at which only halving is safe.

        These are mixtures of components so narrow and far apart that the cdf jumps, or is flat at the level.
        """
        span = high - low
        some = np.flatnonzero((span > 0) & np.isfinite(span) & (self._cdf_at(low) < q))

        def residual(u, rows):
            rows = some[rows]
            law = self if rows.size == q.size else self.take(rows)
            return (law._cdf_at(low[rows] + u * span[rows]) - q[rows]) / np.minimum(q, 1 - q)[rows]

        every, a, b = np.arange(some.size), np.zeros(some.size), np.ones(some.size)
        u = find_root(residual, a, b, residual(a, every), residual(b, every))
        steep = (residual(u - 1e-9, every) < -1e-12) & (np.abs(residual(u, every)) < 1e-10)
        found, u = some[steep], u[steep]
        low[found] = high[found] = low[found] + u * span[found]
        return np.delete(np.arange(q.size), found)

    def _quantiles(self, q):
        """Quantiles (m, B) of the components at levels q (m,)."""
        return self.law.take(slice(None))._ppf_at(np.repeat(q, self.law.shape[-1])).reshape(self.law.shape)

    def _ends(self, low, high):
        return self._quantiles(low).min(axis=-1), self._quantiles(high).max(axis=-1)

    def _logpdf_at(self, y):
        return logsumexp(self.law._logpdf_at(y[..., None]), axis=-1) - np.log(self.law.shape[-1])

    def _crps(self, y):
        if self.law._point().all():
            return points_crps(self.law._mean(), y)
        if isinstance(self.law, Normal) and self.law.shape[-1] <= 256:  # pairs grow as the square
            return normals_crps(self.law._mean(), self.law.parameters[1], y)
        return integrate_crps(self, y)


def _all_equal(means):
    """Whether all components of a mixture have the same mean."""
    return (means == means[..., :1]).all(axis=-1)


def halfway(low, high):
    """Float halfway between two in the order of all floats, so that 64 halvings lead to neighbours."""
    a, b = rank(low), rank(high)
    middle = (a >> 1) + (b >> 1) + (a & b & 1)  # the sum of both might overflow
    return np.copysign(np.abs(middle).view(float), middle)


def rank(x):
    """Rank of a float in the order of all floats, zero at zero: the bits of |x| as a whole number count them."""
    bits = np.abs(x).view(np.int64)
    return np.where(x < 0, -bits, bits)
