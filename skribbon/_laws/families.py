"""Families: from a loss's dispersion and the raw prediction f, known or normal, to the distribution of y."""

from functools import cache

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri

from .base import POINT, Law, in_order
from .mixture import Mixture
from .normal import Normal
from .numerics import spline_quantiles
from .shapes import NORMAL
from .tweedie import POISSON, TINY, CompoundPoissonGamma, Counts, Gamma, InverseGaussian

REACH = 7.0  # standard deviations of f on either side that carry all but 3e-12 of its mass
HERMITE = 0.5  # sd of f in units of the noise up to which 1 + 20 HERMITE Gauss-Hermite nodes leave an error of 1e-8
STEP = 0.2  # step of the trapezoidal rule beyond, whose error is below exp(-3 / STEP)
COARSEST = 2.0  # largest distance of nodes in units of STEP and of the sd of f: a fifth of the error's limit


class LocationFamily:
    """y = f + sqrt(dispersion) e, with e of a given shape: normal, or another :class:`NoiseLaw`."""

    location = True  # y - f does not depend on f, so that a normal f can be integrated in closed form

    def __init__(self, dispersion, shape=NORMAL):
        self.dispersion, self.shape = np.asarray(dispersion, dtype=float), shape

    def conditional(self, f):
        """Law of y given the raw prediction f, of any shape that the dispersion broadcasts with."""
        return self.marginal(f, 0.0)

    def marginal(self, f, variance):
        """Law of y where f is normal with that variance."""
        return self.shape.marginal(f, self.dispersion, variance)

    def mixture(self, draws):
        """Law of y where f is one of the draws (..., n, B), each as likely."""
        return Mixture(LocationFamily(self.dispersion[..., None], self.shape).conditional(draws))


class TweedieFamily:
    """The family of a Tweedie loss: Var(y) = phi mu^power with mu = inverse link of f.

    power 1 is Poisson for phi <= 1 and, where counts are over-dispersed, the negative binomial law with variance
    phi mu; for data that are not whole numbers (``counts=False``) a Poisson number of exponential jumps with that
    variance. 1 < power < 2 is the compound Poisson-gamma law; 2 gamma; 3 inverse Gaussian. The other powers have no
    elementary law: above 2 a gamma, below 1 a normal law with the family's mean and variance stands for it.
    """

    location = False

    def __init__(self, dispersion, power, link="log", counts=True):
        self.dispersion, self.power = np.asarray(dispersion, dtype=float), float(power)
        self.link, self.counts = link, counts and self.power == 1

    def conditional(self, f):
        """Law of y given the raw prediction f, of any shape that the dispersion broadcasts with."""
        mu, p, phi = self.to_mean(f), self.power, self.dispersion
        if self.counts:
            return Counts(mu, phi)
        cv2 = self.relative_variance(mu)
        if p < 1:
            return Normal(mu, self.noise_variance(mu))
        if p < 2:
            return CompoundPoissonGamma(mu, cv2, power=1.5 if p == 1 else p)  # jumps of rates are exponential
        return InverseGaussian(mu, cv2) if p == 3 else Gamma(mu, cv2)

    def marginal(self, f, variance):
        """Law of y where f is normal with that variance."""
        variance = np.asarray(variance, dtype=float)
        if not np.any(variance):
            return self.conditional(np.broadcast_to(f, np.broadcast_shapes(np.shape(f), variance.shape)))
        return UncertainMean(f, np.sqrt(variance), self.dispersion, family=self)

    def mixture(self, draws):
        """Law of y where f is one of the draws (..., n, B), each as likely."""
        return Mixture(self.at(self.dispersion[..., None]).conditional(draws))

    def at(self, dispersion):
        """The same family with another dispersion."""
        return TweedieFamily(dispersion, self.power, self.link, self.counts)

    def to_mean(self, f):
        """Inverse link; infinite where it overflows, and never so small that a relative variance overflows."""
        mu = np.asarray(f, dtype=float)
        if self.link == "log":
            with np.errstate(over="ignore", under="ignore"):
                mu = np.exp(mu)
        return np.maximum(mu, TINY) if self.power >= 1 else mu

    def from_mean(self, mu):
        """Link; minus infinity where there is no f with such a mean."""
        if self.link == "identity":
            return mu
        return np.log(mu, out=np.full(np.shape(mu), -np.inf), where=mu > 0)

    def relative_variance(self, mu):
        """Var(y) / mu^2."""
        return self._times_power(mu, self.power - 2)

    def noise_variance(self, mu):
        """Var(y) given the mean; the absolute mean where the power asks for one that is positive."""
        return self._times_power(np.abs(mu), self.power)

    def _times_power(self, mu, power):
        """phi mu^power; zero times infinity is zero, the limit of a point."""
        phi = np.where(self.dispersion <= POISSON, 1.0, self.dispersion) if self.counts else self.dispersion
        with np.errstate(all="ignore"):
            product = phi * np.asarray(mu) ** power
        return np.where(np.isnan(product), 0.0, product)


@cache
def hermite(n):
    """Gauss-Hermite nodes and weights for the standard normal distribution, (n,) each."""
    z, w = np.polynomial.hermite_e.hermegauss(n)
    return z, w / w.sum()


class UncertainMean(Law):
    """Mixture of the conditional distribution of y over nodes of f, which is normal with mean ``f`` and sd ``sd``.

    The nodes follow the noise. If f is known better than y, they are few Gauss-Hermite nodes around f. Otherwise
    they are f = centre + width sinh(t) at even steps of t: dense, compared with the noise, where y and the normal
    density of f meet, and sparse far away. Below an identity link that leaves the support at f <= 0, sinh(t) spaces
    log f, and what lies below zero is one more node.
    """

    width = 64  # nodes of most elements

    def __init__(self, f, sd, phi, family):
        super().__init__(f, sd, phi, family=family)
        self.family = family.at(self.parameters[2])
        example = self.family.conditional(self.parameters[0].reshape(-1)[:1] if self.parameters[0].size else 0.0)
        self.discrete, self.support, self.atom = example.discrete, example.support, example.atom
        self.bounded = family.link == "identity" and self.support != "real"
        self.curved = family.link == "log" or self.bounded  # the mean is exp(coordinate of the nodes)

    # ------------------------------------------------------------------ nodes
    def _information(self, mu):
        """Quasi-information about the coordinate of the nodes, f or the log of the mean, (m,)."""
        if self.curved:
            return mu ** (2 - self.family.power) / self.family.relative_variance(1.0)
        return 1 / self.family.noise_variance(mu)

    def _residual(self, y, mu):
        return y / mu - 1 if self.curved else y - mu

    def _ratio(self, y):
        """Standard deviation of f in units of the noise; more for densities of observations far out, (m,)."""
        f, sd, _ = self.parameters
        mu = self.family.to_mean(f)
        information = self._information(mu)
        away = np.fmax(1.0, np.abs(self._residual(y, mu)) * np.sqrt(information) / 3)
        size = mu if self.bounded else 1.0
        return np.where(sd == 0, 0.0, sd / size * np.sqrt(self.curved + information) * away)

    def _over_nodes(self, y, average):
        """average(law of y given nodes of f, log weights, y) (m,), in groups of rows with as many nodes."""
        with np.errstate(all="ignore"):
            ratio = self._ratio(y)
            few = ratio <= HERMITE
            count, grid, out = (
                np.where(few, 1 + 2 * np.ceil(10 * ratio), 0),
                np.empty((y.size, 5)),
                np.full(y.shape, np.nan),
            )
            if not few.all():
                grid[~few] = self.take(np.flatnonzero(~few))._grid(y[~few])
                count[~few] = -8 * np.ceil((grid[~few, 4] - grid[~few, 3]) / STEP / 8)
        for n in np.unique(count[np.isfinite(count)]):  # an infinite mean leaves no number to evaluate at
            rows = np.flatnonzero(count == n)
            law = self if rows.size == y.size else self.take(rows)
            f, log_weight = law._few_nodes(int(n)) if n > 0 else law._many_nodes(int(-n), *grid[rows].T[..., None])
            conditional = law.family.at(law.parameters[2][:, None]).conditional(f)
            out[rows] = average(conditional, log_weight, np.broadcast_to(y[rows, None], f.shape))
        return out

    def _few_nodes(self, n):
        """Gauss-Hermite nodes of f and log weights, (m, n) and (n,)."""
        z, w = hermite(n)
        return self.parameters[0][:, None] + self.parameters[1][:, None] * z, np.log(w)

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
            nodes, below = np.c_[np.full(f.shape, TINY), nodes], log_ndtr(-f / sd)
            log_weight = np.c_[below, log_weight + s]
        return nodes, log_weight

    def _grid(self, y):
        """Centre, share, largest distance, first and last t of nodes in a coordinate t, (m, 5).

        The coordinate s of the nodes is f, or log f if it is bounded. Distances of s grow as those of sinh(t) from the
        width of p(y | f) p(f) at its mode, in units of the quasi-likelihood, to ``largest``, a share of the sd of f:
        s = centre + largest log((1 + share exp(t)) / (1 + share exp(-t))).
        """
        f, sd, _ = self.parameters
        low, high, largest = f - REACH * sd, f + REACH * sd, COARSEST * sd
        lower, upper = f - 40 * sd, f + 40 * sd
        if self.bounded:
            upper = high = np.log(np.maximum(high, 1e-3 * sd))
            lower = low = np.log(np.maximum(low, np.exp(high - 30)))
            largest = largest / np.maximum(f, sd)
        elif self.curved and self.support == "real":  # the cdf need not be steepest at the mode
            known = np.log(np.abs(y) + np.sqrt(self.family.noise_variance(np.abs(y))))
            lower = upper = np.clip(known, low, high)
            largest = largest / 4
        if self.family.power < 2 and self.support != "real":  # zero tells means apart down to that of unit information
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

    # ------------------------------------------------------------------ the distribution
    def _mean(self):
        f, sd, _ = self.parameters
        with np.errstate(all="ignore"):
            if self.family.link == "log":
                return np.exp(f + sd**2 / 2)
            return self._over_nodes(f, lambda law, log_weight, _: (np.exp(log_weight) * law._mean()).sum(axis=1))

    def _std(self):
        f, sd, _ = self.parameters
        mean, power = self._mean(), self.family.power
        with np.errstate(all="ignore"):
            if self.family.link == "log":
                noise = self.family.relative_variance(np.exp(f)) * np.exp((power**2 - 2) * sd**2 / 2)
                std = mean * np.sqrt(np.expm1(sd**2) + np.where(np.isnan(noise), 0.0, noise))
                return np.where(np.isnan(std), np.where(mean > 0, np.inf, 0.0), std)
            return np.sqrt(self._over_nodes(mean, _squares))

    def _point(self):
        f, sd, _ = self.parameters
        size = 1.0 if self.family.link == "log" else np.abs(f)
        return (sd <= POINT * size) & self.family.conditional(f)._point()

    def _cdf(self, y):
        shift = 0.5 if self.discrete else 0.0

        def average(law, log_weight, y):
            F = np.clip(law._cdf(y), 0, 1)
            F = np.where(law._point() | np.isnan(F), y + shift >= law._mean(), F)  # special functions give up far away
            return (np.exp(log_weight) * F).sum(axis=1)

        return self._over_nodes(y, average)

    def _logpdf(self, y):
        f, sd, phi = self.parameters
        value = self._over_nodes(y, lambda law, log_weight, y: logsumexp(law._logpdf_at(y) + log_weight, axis=1))
        no_noise = (phi == 0 if self.support == "real" else self.family.conditional(f)._point()) & (sd > 0)
        if no_noise.any():  # y is the mean
            exact = -(((self.family.from_mean(y) - f) / sd) ** 2) / 2 - np.log(sd) - np.log(2 * np.pi) / 2
            value = np.where(no_noise, exact - (np.log(y) if self.family.link == "log" else 0.0), value)
        return value

    def ppf(self, q):
        phi = self.parameters[2]
        smooth = (
            self.family.link == "log" and self.family.power >= 1 and phi.size >= 2000
        )  # fewer are searched for faster
        if not (smooth and phi.flat[0] > 0 and (phi == phi.flat[0]).all()):
            return super().ppf(q)
        law, q = self.take(slice(None)), np.asarray(q, dtype=float)
        quantiles = np.stack([law._ppf_of_many(level) for level in q.reshape(-1)], axis=-1).reshape(*self.shape, -1)
        return in_order(quantiles, q) if q.ndim else quantiles[..., 0]

    def _ppf_of_many(self, level):
        """Quantiles (m,) of distributions that differ in f and sd only: by a spline, the others by a search."""
        with np.errstate(all="ignore"):
            f, v = self.parameters[0], np.arcsinh(self._ratio(self.family.to_mean(self.parameters[0])))
            noise = np.median(self.parameters[1] / np.sinh(v))
            out = spline_quantiles(self, f, v, noise, level, self._with)
        rest = np.flatnonzero(np.isnan(out))
        out[rest] = self.take(rest)._map(lambda law, a: law._ppf_at(a), level)
        return out

    def _with(self, f, v):
        """Distributions of the same family with other f and arcsinh(ratio) v, (m,) each."""
        law = UncertainMean(f, np.ones(f.shape), self.parameters[2].flat[0], self.constants["family"])
        sd = np.sinh(v) / law._ratio(law.family.to_mean(f))
        return UncertainMean(f, sd, law.parameters[2], law.constants["family"])

    def _coordinate(self):
        if self.family.link == "identity":
            return super()._coordinate()
        noise = np.sqrt(self.family.noise_variance(self.family.to_mean(self.parameters[0])))
        return 0.0, np.maximum(noise, TINY)  # from the noise to any power of ten

    def _guess(self, q):
        f, sd, _ = self.parameters
        if self.family.link == "identity":
            guess, step = super()._guess(q)
            return np.where(np.isfinite(guess), guess, self.family.to_mean(f)), np.where(np.isfinite(step), step, 1.0)
        z = ndtri(np.clip(q, 1e-300, 1 - 1e-16))
        mu = np.exp(f + z * sd)
        if self.support == "real":
            std = np.sqrt(self.family.noise_variance(mu))
            return mu + z * std, 0.3 * (std + mu * sd)
        noise = np.log1p(np.minimum(self.family.relative_variance(mu), 10.0))
        spread = np.sqrt(sd**2 + noise)
        guess = np.exp(f + z * spread - noise / 2)
        return (np.maximum(guess - 0.5, -0.5), 0.2 * spread * (guess + 1)) if self.discrete else (guess, 0.2 * spread)


def _squares(law, log_weight, y):
    """Mean squared distance from y, (m,)."""
    return (np.exp(log_weight) * ((law._mean() - y) ** 2 + law._std() ** 2)).sum(axis=1)
