"""Observation laws: y given the model's raw prediction f, and their mixtures where f itself is uncertain.

A law holds one distribution per element of an array. What is uncertain about f is either a normal law, integrated by
quadrature (:class:`Latent`) or in closed form, or a set of equally likely draws (:class:`Mixture`).
"""

from functools import cache
from itertools import pairwise

import numpy as np
from scipy.special import (
    betainc,
    betaln,
    erfcx,
    gammainc,
    gammaincc,
    gammaincinv,
    gammaln,
    logsumexp,
    ndtr,
    ndtri,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)

TINY = 1e-300  # what a mean is taken for where an identity link leaves the family's support
POINT = 1e-12  # a positive law whose relative standard deviation is below this is a point
POISSON = 1 + 1e-6  # a dispersion up to here is Poisson's
MANY_JUMPS = 30.0  # a compound law with a higher rate is replaced by three moments
MANY_COUNTS = 1e4  # so is a negative binomial law whose mean is that many times its dispersion
NORMAL_TAILS = 1e6  # degrees of freedom from which Student's law is normal to seven digits
HUGE = 1e15  # a Poisson mean beyond is drawn from the normal law: whole numbers no longer matter
HALVINGS = 1100  # from the whole range of floats to neighbours
CHUNK = 2**19  # numbers in a temporary array
PAIRS = 256  # normal components up to which the score of a mixture is a sum over pairs
REACH = 6.0  # standard deviations of f beyond which nothing is integrated
SETTLED = 1e-6  # a conditional cdf this close to its limit in f has reached it
LEGENDRE = 24  # nodes of the quadrature in f
# (largest ratio of the standard deviation of f to the width of the noise, Gauss-Hermite nodes that suffice there)
HERMITE = ((1e-5, 1), (0.25, 3), (0.5, 7))
MAX_STEPS = 200  # of a search for a quantile; a bracket shrinks to rounding within some 60
LOG_MAX = np.log(np.finfo(float).max)
LOG_MIN = -744.0  # of the smallest positive float


# ---------------------------------------------------------------------- families


class LocationFamily:
    """y = f + e with e of variance ``dispersion``: normal, or Student's with ``tails`` > 2 degrees of freedom."""

    location = True  # y - f does not depend on f, so that a normal f can be integrated in closed form

    def __init__(self, dispersion, tails=np.inf):
        self.dispersion, self.tails = np.asarray(dispersion, dtype=float), float(tails)

    def conditional(self, f):
        """Law of y given the raw prediction f, of any shape that the dispersion broadcasts with."""
        return self.marginal(f, 0.0)

    def marginal(self, f, variance):
        """Law of y where f is normal with that variance.

        The sum of a Student and a normal variable is taken for Student's law with the same variance and, where there
        is one (tails > 4), the same kurtosis 6 share^2 / (tails - 4), share being that of the noise in the variance.
        Heavier tails have no kurtosis to keep: there the excess of 1 / degrees of freedom over zero shrinks with
        share^2 as well, degrees = 2 + (tails - 2) / share^2, Student's law at share 1 and the normal law at share 0.
        """
        total = self.dispersion + np.asarray(variance, dtype=float)
        if np.isinf(self.tails):
            return Normal(f, total)
        with np.errstate(divide="ignore", over="ignore"):
            share = np.divide(self.dispersion, total, out=np.ones_like(total), where=total > 0)
            rest = 4.0 if self.tails > 4 else 2.0
            return Student(f, total, rest + (self.tails - rest) / share**2)

    def mixture(self, draws):
        """Law of y where f is one of the draws (..., n, B), each as likely."""
        return Mixture(LocationFamily(self.dispersion[..., None], self.tails).conditional(draws))


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
            return CompoundPoissonGamma(mu, cv2, power=1.5 if p == 1 else p)
        return InverseGaussian(mu, cv2) if p == 3 else Gamma(mu, cv2)

    def marginal(self, f, variance):
        """Law of y where f is normal with that variance."""
        variance = np.asarray(variance, dtype=float)
        if not np.any(variance):
            return self.conditional(np.broadcast_to(f, np.broadcast_shapes(np.shape(f), variance.shape)))
        return Latent(f, np.sqrt(variance), self.dispersion, power=self.power, link=self.link, counts=self.counts)

    def mixture(self, draws):
        """Law of y where f is one of the draws (..., n, B), each as likely."""
        return Mixture(self.at(self.dispersion[..., None]).conditional(draws))

    def at(self, dispersion):
        """The same family with another dispersion."""
        return TweedieFamily(dispersion, self.power, self.link, self.counts)

    def to_mean(self, f):
        """Inverse link; infinite where it overflows."""
        f = np.asarray(f, dtype=float)
        if self.link == "log":
            with np.errstate(over="ignore", under="ignore"):
                return np.exp(f)
        return np.maximum(f, TINY) if self.power >= 1 else f

    def from_mean(self, mu):
        """Link; minus infinity where there is no f with such a mean."""
        if self.link == "identity":
            return mu
        return np.log(mu, out=np.full(np.shape(mu), -np.inf), where=mu > 0)

    def relative_variance(self, mu):
        """Var(y) / mu^2."""
        phi = np.where(self.dispersion <= POISSON, 1.0, self.dispersion) if self.counts else self.dispersion
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            ratio = phi * mu ** (self.power - 2)
        return np.where(np.isnan(ratio), 0.0, ratio)  # zero times infinity: a point in either limit

    def noise_variance(self, mu):
        """Var(y) given the mean; the absolute mean where the power asks for one that is positive."""
        phi = np.where(self.dispersion <= POISSON, 1.0, self.dispersion) if self.counts else self.dispersion
        if self.power == 0:
            return phi + 0 * np.where(np.isfinite(mu), mu, 0.0)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            variance = phi * np.abs(mu) ** self.power
        return np.where(np.isnan(variance), 0.0, variance)


# ---------------------------------------------------------------------- laws


class Law:
    """A distribution per element of an array.

    A law states its parameters, elementwise arrays, and constants, and writes ``_mean``, ``_std``, ``_cdf`` and
    ``_logpdf``; points, chunks and the search for quantiles are dealt with here. ``_cdf`` of counts is a smooth
    function through the cdf at the whole numbers, so that a quantile is the next whole number above where it gets
    to the level.
    """

    discrete = False
    support = "positive"  # or "counts", or "real"
    atom = False  # whether zero may have a positive probability below which there is none
    width = 1  # numbers of temporary memory per element
    trailing = 0  # last axes of the parameters that are not those of the law

    def __init__(self, *parameters, **constants):
        self.parameters = np.broadcast_arrays(*(np.asarray(p, dtype=float) for p in parameters))
        self.constants = constants
        self.shape = self.parameters[0].shape[: self.parameters[0].ndim - self.trailing]

    def take(self, index):
        """The law of some elements, by a slice or indices of the flattened shape."""
        tail = self.parameters[0].shape[len(self.shape) :]
        return type(self)(*(p.reshape((-1, *tail))[index] for p in self.parameters), **self.constants)

    def _map(self, method, *arguments):
        """method(law, *arguments) over chunks of elements, for arguments that broadcast with the law's shape."""
        arguments = [np.asarray(a, dtype=float) for a in arguments]
        shape = np.broadcast_shapes(self.shape, *(a.shape for a in arguments))
        size, step = int(np.prod(shape)), max(CHUNK // self.width, 1)
        flat = [np.broadcast_to(a, shape).reshape(-1) for a in arguments]
        own = shape == self.shape
        index = (
            None if own else np.broadcast_to(np.arange(int(np.prod(self.shape))).reshape(self.shape), shape).reshape(-1)
        )
        out = np.empty(size)
        for start in range(0, size, step):
            part = slice(start, min(start + step, size))
            law = self.take(part if own else index[part])
            out[part] = method(law, *(a[part] for a in flat))
        return out.reshape(shape)[()]

    def _point(self):
        """Where the law is a point, at its mean."""
        mean = self._mean()
        return (self._std() <= POINT * mean) | ~np.isfinite(mean)

    def mean(self):
        """Means."""
        return self._map(lambda law: law._mean())

    def std(self):
        """Standard deviations."""
        return self._map(lambda law: law._std())

    def var(self):
        """Variances; infinite where they overflow."""
        with np.errstate(over="ignore", under="ignore"):
            return self.std() ** 2

    def cdf(self, y):
        """P(Y <= y)."""
        return self._map(lambda law, a: law._cdf_at(a), np.floor(y) if self.discrete else y)

    def cdf_below(self, y):
        """P(Y < y): the cdf, less what probability y itself has."""
        return self._map(lambda law, a: law._cdf_below_at(a), np.ceil(y) - 1 if self.discrete else y)

    def _cdf_at(self, y, closed=True):
        with np.errstate(all="ignore"):
            value = np.clip(self._cdf(np.maximum(y, 0) if self.support != "real" else y), 0, 1)
            mean = self._mean()
        if self.support != "real":
            value = np.where((y > 0) | ((y == 0) & (self.atom & closed | self.discrete)), value, 0.0)
        return np.where(self._point(), (y >= mean) if closed else (y > mean), value)

    def _cdf_below_at(self, y):
        return self._cdf_at(y, closed=self.discrete)

    def logpdf(self, y):
        """Log density, or log probability of counts and of zero where it has any."""
        return self._map(lambda law, a: law._logpdf_at(a), y)

    def _logpdf_at(self, y):
        if self.support == "real":
            inside = np.ones(y.shape, dtype=bool)
        else:
            inside = (y >= 0) & (y == np.floor(y)) if self.discrete else (y >= 0) if self.atom else y > 0
        with np.errstate(all="ignore"):
            value = np.where(inside & (y < np.inf), self._logpdf(np.where(inside & (y < np.inf), y, 1.0)), -np.inf)
            value = np.where(np.isnan(value), -np.inf, value)  # infinitely far away in units of the law
        at_the_point = 0.0 if self.discrete else np.inf
        return np.where(self._point(), np.where(y == self._mean(), at_the_point, -np.inf), value)

    def ppf(self, q):
        """Quantiles: of the law's shape for one level, with a last axis for an array (Q,) of them."""
        q = np.asarray(q, dtype=float)
        if q.ndim == 0:
            return self._map(lambda law, a: law._ppf_at(a), q)
        out = np.stack([self._map(lambda law, a: law._ppf_at(a), level) for level in q], axis=-1)
        order = np.argsort(q, kind="stable")
        out[..., order] = np.maximum.accumulate(out[..., order], axis=-1)  # in the order of the levels to the last bit
        return out

    def _ppf_at(self, q):
        out = np.array(np.broadcast_to(self._mean(), q.shape))
        rows = np.flatnonzero(~self._point())
        if rows.size:
            law = self if rows.size == q.size else self.take(rows)
            with np.errstate(all="ignore"):
                out[rows] = law._ppf(q[rows])
        return out + 0.0  # no minus zero

    def _ppf(self, q):
        return search_quantile(self, q)

    def _guess(self, q):
        """Where to look for quantile q first: that of the law with three moments, and how far off it may be."""
        mean, std, z = self._mean(), self._std(), ndtri(np.clip(q, 1e-300, 1 - 1e-16))
        if self.support == "real":
            return mean + z * std, std
        cv = std / mean
        if self.discrete:  # Cornish and Fisher, with the correction for whole numbers
            y = mean - 0.5 + z * std + (z**2 - 1) * (1 + cv**2 * mean) / 6
            return np.maximum(y, 0), 0.1 * std * (1 + cv)
        spread = np.sqrt(np.log1p(np.minimum(cv, 1e100) ** 2))
        return mean * np.exp(z * spread - spread**2 / 2), 0.2 * spread

    def _coordinate(self):
        """Centre and scale of the coordinate arcsinh((y - centre) / scale) in which a real quantile is sought."""
        return self._mean(), self._std()

    def crps(self, y):
        """Continuous ranked probability score of each observation."""
        return self._map(lambda law, a: law._crps_at(a), y)

    def _crps_at(self, y):
        point, mean = self._point(), self._mean()
        with np.errstate(all="ignore"):
            score = np.abs(y - mean)
            rows = np.flatnonzero(~point & np.isfinite(y))
            if rows.size:
                law = self if rows.size == y.size else self.take(rows)
                score[rows] = law._crps(y[rows])
        return np.where(np.isnan(score), np.inf if np.any(np.isfinite(y)) else np.nan, score)

    def _crps(self, y):
        return integrate_crps(self, y)

    def sample(self, rng):
        """One draw per element."""
        with np.errstate(all="ignore"):
            draws = self._sample(rng)
            return np.where(self._point(), self._mean(), draws)

    def _sample(self, rng):
        raise TypeError(f"{type(self).__name__} draws no observations.")


class Normal(Law):
    """Normal law by its mean and variance; a variance of zero is a point."""

    support = "real"

    def __init__(self, mean, variance):
        super().__init__(mean, variance)

    # of this law, which most predictions have, whole arrays at once
    def mean(self):
        return self.parameters[0]

    def var(self):
        return self.parameters[1]

    def std(self):
        return np.sqrt(self.parameters[1])

    def ppf(self, q):
        mean, std, q = self.mean(), self.std(), np.asarray(q, dtype=float)
        return (mean[..., None] + std[..., None] * ndtri(q) if q.ndim else mean + std * ndtri(q)) + 0.0

    def _mean(self):
        return self.parameters[0]

    def _std(self):
        return np.sqrt(self.parameters[1])

    def _point(self):
        return (self.parameters[1] == 0) | ~np.isfinite(self.parameters[0])

    def _cdf(self, y):
        return ndtr((y - self._mean()) / self._std())

    def _logpdf(self, y):
        std = self._std()
        return -(((y - self._mean()) / std) ** 2) / 2 - np.log(std) - np.log(2 * np.pi) / 2

    def _ppf(self, q):
        return self._mean() + self._std() * ndtri(q)

    def _crps(self, y):
        std = self._std()
        z = (y - self._mean()) / std
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))

    def _sample(self, rng):
        return self._mean() + self._std() * rng.standard_normal(self.shape)


class Student(Law):
    """Student's law by its mean, variance and degrees of freedom nu > 2."""

    support = "real"

    def __init__(self, mean, variance, nu):
        super().__init__(mean, variance, nu)

    _mean, _std, _point = Normal._mean, Normal._std, Normal._point

    def _nu(self):
        return np.minimum(self.parameters[2], NORMAL_TAILS)

    def _scale(self):
        return self._std() * np.sqrt(1 - 2 / self.parameters[2])

    def _z(self, y):
        return (y - self._mean()) / self._scale()

    def _cdf(self, y):
        z = self._z(y)
        return np.where(self.parameters[2] > NORMAL_TAILS, ndtr(z), stdtr(self._nu(), z))

    def _standard_logpdf(self, z):
        nu = self._nu()
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - np.log(nu * np.pi) / 2
        student = constant - (nu + 1) / 2 * np.log1p(z**2 / nu)
        return np.where(self.parameters[2] > NORMAL_TAILS, -(z**2) / 2 - np.log(2 * np.pi) / 2, student)

    def _logpdf(self, y):
        return self._standard_logpdf(self._z(y)) - np.log(self._scale())

    def _ppf(self, q):
        standard = np.where(self.parameters[2] > NORMAL_TAILS, ndtri(q), stdtrit(self._nu(), q))
        return self._mean() + self._scale() * standard

    def _crps(self, y):
        z, nu = self._z(y), self._nu()
        spread = 2 * np.sqrt(nu) / (nu - 1) * np.exp(betaln(0.5, nu - 0.5) - 2 * betaln(0.5, nu / 2))
        density = np.exp(self._standard_logpdf(z))
        return self._scale() * (z * (2 * stdtr(nu, z) - 1) + 2 * density * (nu + z**2) / (nu - 1) - spread)

    def _sample(self, rng):
        return self._mean() + self._scale() * rng.standard_t(self._nu(), self.shape)


class Positive(Law):
    """A law on the positive numbers by its mean and the square of its coefficient of variation."""

    def __init__(self, mean, cv2, **constants):
        super().__init__(mean, cv2, **constants)

    def _mean(self):
        return self.parameters[0]

    def _std(self):
        with np.errstate(over="ignore", invalid="ignore"):
            std = self.parameters[0] * np.sqrt(self.parameters[1])
        return np.where(self.parameters[0] == 0, 0.0, std)

    def _point(self):
        mean, cv2 = self.parameters
        return (cv2 <= POINT**2) | (mean == 0) | ~np.isfinite(mean)


class Gamma(Positive):
    """Gamma law."""

    def _cdf(self, y):
        mean, cv2 = self.parameters
        return gammainc(1 / cv2, y / mean / cv2)

    def _logpdf(self, y):
        mean, cv2 = self.parameters
        return gamma_logpdf(1 / cv2, y / mean / cv2) - np.log(cv2) - np.log(mean)

    def _ppf(self, q):
        mean, cv2 = self.parameters
        return mean * (cv2 * gammaincinv(1 / cv2, q))

    def _sample(self, rng):
        mean, cv2 = self.parameters
        return mean * (cv2 * rng.standard_gamma(1 / cv2))


class InverseGaussian(Positive):
    """Inverse Gaussian law; in units of the mean its shape is 1 / cv2."""

    def _cdf(self, y):
        # exp(2 k) Phi(-b) = erfcx(b / sqrt 2) exp(-a^2 / 2) / 2, since 2 k - b^2 / 2 = -a^2 / 2: nothing overflows
        mean, cv2 = self.parameters
        ratio, root = y / mean, np.sqrt(mean / np.minimum(cv2, 1e300) / y)
        a, b = root * (ratio - 1), root * (ratio + 1)
        value = ndtr(a) + erfcx(b / np.sqrt(2)) * np.exp(-(a**2) / 2) / 2
        return np.where(y == 0, 0.0, np.where(np.isinf(ratio), 1.0, value))

    def _logpdf(self, y):
        mean, cv2 = self.parameters
        ratio = y / mean
        density = -np.log(2 * np.pi * cv2) / 2 - 1.5 * np.log(ratio) - (ratio - 1) ** 2 / (2 * cv2 * ratio)
        return density - np.log(mean)

    def _sample(self, rng):
        mean, cv2 = self.parameters
        normal = 1 + np.sqrt(cv2) * rng.standard_normal(self.shape)
        wald = rng.wald(1.0, 1 / np.clip(cv2, 1e-8, 1e300), self.shape)
        return mean * np.where(cv2 < 1e-8, np.maximum(normal, 0), wald)


class CompoundPoissonGamma(Positive):
    """Sum of N gamma variables, N Poisson: the Tweedie law of 1 < power < 2, an atom at zero and a density above.

    In units of the mean the rate is 1 / ((2 - power) cv2) and the scale of a jump (power - 1) cv2, its shape is
    (2 - power) / (power - 1). Above a rate of ``MANY_JUMPS`` the law is a shifted gamma law with the same mean,
    variance and skewness, power cv, whose mass below zero, if any, is that of zero.
    """

    atom = True

    def _rate(self):
        return 1 / ((2 - self.constants["power"]) * self.parameters[1])

    def _few(self):
        return self._rate() <= many_jumps(self.constants["power"])

    def _split(self, y, exact, approximate):
        """exact(ratio, cv2) where jumps are few, approximate(ratio, cv2) where they are many."""
        mean, cv2 = self.parameters
        ratio, cv2, few = np.broadcast_arrays(y / mean, cv2, self._few())
        out = np.empty(ratio.shape)
        if few.any():
            out[few] = exact(ratio[few], cv2[few], self.constants["power"])
        if not few.all():
            out[~few] = approximate(ratio[~few], cv2[~few], self.constants["power"])
        return out

    def _cdf(self, y):
        return self._split(y, compound_cdf, lambda r, c, p: three_moment_cdf((r - 1) / np.sqrt(c), p * np.sqrt(c)))

    def _logpdf(self, y):
        def approximate(ratio, cv2, power):
            density = three_moment_logpdf((ratio - 1) / np.sqrt(cv2), power * np.sqrt(cv2)) - np.log(cv2) / 2
            atom = np.log(three_moment_cdf(-1 / np.sqrt(cv2), power * np.sqrt(cv2)))
            return np.where(ratio == 0, atom, density)

        value = self._split(y, compound_logpdf, approximate)
        return value - np.where(y == 0, 0.0, np.log(self.parameters[0]))

    def _sample(self, rng):
        mean, cv2 = self.parameters
        power, rate = self.constants["power"], self._rate()
        N = sample_poisson(rate, rng)
        return mean * ((power - 1) * cv2) * rng.standard_gamma((2 - power) / (power - 1) * N)


class Counts(Law):
    """Counts with mean mu and variance phi mu: negative binomial for phi > 1, Poisson otherwise."""

    discrete = True
    support = "counts"

    def __init__(self, mu, phi):
        super().__init__(mu, phi)

    def _mean(self):
        return self.parameters[0]

    def _phi(self):
        return np.where(self.parameters[1] <= POISSON, 1.0, self.parameters[1])

    def _std(self):
        return np.sqrt(self._phi()) * np.sqrt(self.parameters[0])

    def _split(self, y, poisson, negative_binomial, approximate):
        mu, phi = self.parameters
        y, mu, phi = np.broadcast_arrays(y, mu, phi)
        first = phi <= POISSON
        if first.all():
            return poisson(y, mu)
        third = ~first & (mu > MANY_COUNTS * phi)
        out = np.empty(y.shape)
        for rows, function in ((first, poisson), (~first & ~third, negative_binomial), (third, approximate)):
            if rows.all():
                return function(y, mu, phi)
            if rows.any():
                out[rows] = function(y[rows], mu[rows], phi[rows])
        return out

    def _cdf(self, y):
        return self._split(
            y,
            lambda y, mu, phi=None: gammaincc(y + 1, mu),
            lambda y, mu, phi: betainc(np.maximum(mu / (phi - 1), TINY), y + 1, 1 / phi),
            lambda y, mu, phi: three_moment_cdf((y + 0.5 - mu) / np.sqrt(phi * mu), (2 * phi - 1) / np.sqrt(phi * mu)),
        )

    def _logpdf(self, y):
        return self._split(y, poisson_logpmf, negative_binomial_logpmf, negative_binomial_logpmf_large)

    def _sample(self, rng):
        mu, phi = self.parameters
        excess = np.maximum(self._phi() - 1, 1e-12)
        gamma = np.where(phi > POISSON, rng.standard_gamma(np.where(np.isfinite(mu), mu, 1.0) / excess) * excess, mu)
        return sample_poisson(gamma, rng)


# ---------------------------------------------------------------------- laws of an uncertain f


class Mixture(Law):
    """Mixture of a law over its last axis: the predictive law where f is one of several, equally likely by default."""

    trailing = 1

    def __init__(self, law, weights=None):
        self.law, self.weights = law, weights
        self.shape, self.width = law.shape[:-1], max(law.shape[-1], 1)
        self.discrete, self.support, self.atom = law.discrete, law.support, law.atom
        if weights is None:
            self.weights = np.full(law.shape[-1], 1 / law.shape[-1])

    def take(self, index):
        """The mixtures of some elements."""
        law, B = self.law, self.law.shape[-1]
        parameters = (p.reshape(-1, B)[index] for p in law.parameters)
        return Mixture(type(law)(*parameters, **law.constants), self.weights)

    def _component(self, b):
        law = self.law
        return type(law)(*(p[..., b] for p in law.parameters), **law.constants)

    def _point(self):
        points, means = self.law._point(), self.law._mean()
        return points.all(axis=-1) & (means == means[..., :1]).all(axis=-1)

    def _mean(self):
        means = self.law._mean()
        with np.errstate(all="ignore"):
            return np.where(self._point_mean(means), means[..., 0], means @ self.weights)

    def _point_mean(self, means):
        return (means == means[..., :1]).all(axis=-1)  # the average of equal numbers is that number, unrounded

    def _std(self):
        with np.errstate(all="ignore"):
            centred = self.law._mean() - self._mean()[..., None]
            top = np.maximum(np.abs(centred).max(axis=-1), self.law._std().max(axis=-1))[..., None]  # no overflow
            top = np.where(top > 0, top, 1.0)
            std = np.sqrt(((centred / top) ** 2 + (self.law._std() / top) ** 2) @ self.weights) * top[..., 0]
        return np.where(np.isnan(std), np.inf, std)

    def _cdf(self, y):
        y = y[..., None]
        if self.discrete:  # the smooth function through the cdf of counts, of points too
            return np.where(self.law._point(), y + 0.5 >= self.law._mean(), self.law._cdf(y)) @ self.weights
        return self.law._cdf_at(y) @ self.weights

    def _cdf_below_at(self, y):
        return np.clip(self.law._cdf_below_at(y[..., None]) @ self.weights, 0, 1)

    def _ppf(self, q):
        """Between the smallest and the largest quantile of the components; halved to the last digits.

        Components may be far apart and narrow, a staircase on which no faster search is safe.
        """
        ends = np.stack([self._component(b)._ppf_at(q) for b in range(self.law.shape[-1])], axis=-1)
        low, high = ends.min(axis=-1), ends.max(axis=-1)
        for _ in range(HALVINGS):
            middle = np.floor(low / 2 + high / 2) if self.discrete else low / 2 + high / 2
            enough = self._cdf_at(middle) >= q
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
            if np.all(high - low <= (1.0 if self.discrete else 1e-13 * np.abs(high))):
                break
        return np.where(self._cdf_at(low) >= q, low, high)

    def _logpdf_at(self, y):
        return logsumexp(self.law._logpdf_at(y[..., None]), axis=-1, b=self.weights)

    def _crps(self, y):
        if self.law._point().all():
            return points_crps(self.law._mean(), self.weights, y)
        if isinstance(self.law, Normal) and self.law.shape[-1] <= PAIRS:
            return normals_crps(self.law._mean(), self.law.parameters[1], self.weights, y)
        return integrate_crps(self, y)


class Latent(Law):
    """The law of y where f is normal and y given f is of a Tweedie family.

    cdf(y) = E F(y | f). As a function of f, F(y | f) falls from one value to another within a window about as wide as
    the noise around the f whose mean is y, and does not change elsewhere; the density of f is that of a normal law.
    The integral is exact outside the window, and Gauss-Legendre on what the window and the six standard deviations
    of f on either side have in common, where neither factor varies fast, whichever is the wider. Where f is far more
    certain than y, few Gauss-Hermite nodes do the same.
    """

    width = 2 * LEGENDRE

    def __init__(self, f, sd, phi, power, link, counts):
        super().__init__(f, sd, phi, power=power, link=link, counts=counts)
        self.family = TweedieFamily(self.parameters[2], power, link, counts)
        example = self.family.conditional(self.parameters[0].reshape(-1)[:1] if self.parameters[0].size else 0.0)
        self.discrete, self.support, self.atom = example.discrete, example.support, example.atom

    def _moments(self):
        """Mean and standard deviation, by what the log link has in closed form or by quadrature."""
        f, sd, phi = self.parameters
        p = self.family.power
        with np.errstate(all="ignore"):
            if self.family.link == "log":
                mean = np.exp(f + sd**2 / 2)
                noise = self.family.relative_variance(np.exp(f)) * np.exp((p * p - 2) * sd**2 / 2)
                relative = np.expm1(sd**2) + np.where(np.isnan(noise), 0.0, noise)
                std = mean * np.sqrt(relative)
                return mean, np.where(np.isnan(std), np.where(mean > 0, np.inf, 0.0), std)
            start = np.clip(-f / np.where(sd > 0, sd, 1.0), -8, 8) if p >= 1 else np.full(f.shape, -8.0)
            t, w = legendre(64)
            half = (8 - start) / 2
            z = start[..., None] + half[..., None] * (t + 1)
            weight = half[..., None] * w * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
            family = self.family.at(phi[..., None])
            mu = family.to_mean(f[..., None] + sd[..., None] * z)
            mean = (weight * mu).sum(axis=-1)
            second = (weight * ((mu - mean[..., None]) ** 2 + family.noise_variance(mu))).sum(axis=-1)
            return mean, np.sqrt(second + mean**2 * ndtr(start) * (p >= 1))

    def _mean(self):
        return self._moments()[0]

    def _std(self):
        return self._moments()[1]

    def _point(self):
        f, sd, _ = self.parameters
        return (sd == 0) & self.family.conditional(f)._point()

    def _nodes(self):
        """How many Gauss-Hermite nodes suffice per element; zero where none do."""
        f, sd, _ = self.parameters
        with np.errstate(all="ignore"):
            mu = self.family.to_mean(f)
            noise = np.minimum(np.sqrt(self.family.relative_variance(mu)), 1.0)
            if self.family.link == "identity":
                noise = noise * np.abs(mu) if self.family.power >= 1 else np.sqrt(self.family.noise_variance(mu))
            ratio = np.where(sd == 0, 0.0, sd / noise)
        count = np.zeros(f.shape, dtype=int)
        for largest, n in reversed(HERMITE):
            count[ratio <= largest] = n
        return count

    def _by_nodes(self, y, fixed, moving):
        """fixed(mixture, y) where Gauss-Hermite nodes suffice, moving(law, y) elsewhere."""
        count, out = self._nodes(), np.empty(y.shape)
        for n in np.unique(count):
            rows = np.flatnonzero(count == n)
            law = self if rows.size == y.size else self.take(rows)
            out[rows] = fixed(law._hermite(n), y[rows]) if n else moving(law, y[rows])
        return out

    def _hermite(self, n):
        """The mixture over n Gauss-Hermite nodes."""
        z, weights = hermite(int(n))
        f, sd, phi = (p[..., None] for p in self.parameters)
        return Mixture(self.family.at(phi).conditional(f + sd * z), weights)

    def _cdf(self, y):
        return self._by_nodes(y, lambda law, y: law._cdf(y), Latent._cdf_moving)

    def _cdf_below_at(self, y):
        value = self._cdf_at(y)
        if self.atom and not self.discrete:
            value = np.where(y == 0, 0.0, value)
        return value

    def _F(self, y, f):
        """P(Y <= y | f), of counts the smooth function through it, for y and f of shapes (m,) or (m, nodes)."""
        phi = self.parameters[2]
        law = self.family.at(phi.reshape(phi.shape + (1,) * (f.ndim - phi.ndim))).conditional(f)
        y = y.reshape(y.shape + (1,) * (f.ndim - y.ndim))
        reached = y + (0.5 if self.discrete else 0.0) >= law._mean()
        return np.where(law._point(), reached, np.clip(law._cdf(y), 0, 1))

    def _unordered(self):
        """Whether F(y | f) may turn in f, the noise of a normal stand-in changing with the mean: no window then."""
        return self.family.power < 1 and self.family.power != 0

    def _pieces(self, y):
        """Nodes and weights on three pieces of the reach of f: around the f whose mean is y, and on either side."""
        f, sd, _ = self.parameters
        first, last = f - REACH * sd, f + REACH * sd
        mu = np.maximum(np.abs(y), np.exp(self._small())) if self.family.link == "log" else y
        noise = np.sqrt(self.family.noise_variance(mu)) / (mu if self.family.link == "log" else 1.0)
        centre, noise = self.family.from_mean(mu), np.where(np.isfinite(noise), noise, sd)
        ends = [first, np.clip(centre - 8 * noise, first, last), np.clip(centre + 8 * noise, first, last), last]
        t, w = legendre(2 * LEGENDRE)
        nodes, weights = [], []
        for a, b in pairwise(ends):
            nodes.append(a[:, None] + (b - a)[:, None] * (t + 1) / 2)
            weights.append((b - a)[:, None] / 2 * w / sd[:, None])
        nodes, weights = np.concatenate(nodes, axis=1), np.concatenate(weights, axis=1)
        return nodes, weights * np.exp(-(((nodes - f[:, None]) / sd[:, None]) ** 2) / 2) / np.sqrt(2 * np.pi)

    def _window(self, y):
        """Ends of what is to be integrated, and the values of F(y | f) beyond them."""
        f, sd, _ = self.parameters
        first, last = f - REACH * sd, f + REACH * sd
        if self.family.link == "identity" and self.family.power >= 1:  # below zero there is one law, the point zero
            first, last = np.maximum(first, 0.0), np.maximum(last, 0.0)
        left, right = self._F(y, first), self._F(y, last)
        # where a mean is y, and the noise in f there
        mu = np.maximum(y, 0) + (0.5 if self.discrete else 0.0) if self.support != "real" else y
        centre = self.family.from_mean(mu)
        if self.family.link == "log":
            floor = self._small()
            centre = np.maximum(centre, floor)
            noise = np.minimum(np.sqrt(self.family.relative_variance(np.exp(centre))), 1.0)
        else:
            noise = np.sqrt(self.family.noise_variance(mu)) + POINT * np.abs(mu)
        centre, noise = np.clip(centre, first, last), np.where(np.isfinite(noise), noise, sd)
        noise = np.maximum(noise, 1e-14 * (1 + np.abs(centre)) if self.family.link == "log" else 1e-14 * (last - first))
        ends = []
        for side, limit, value in ((-1, first, left), (1, last, right)):
            end, step = centre + side * 5 * noise, 5 * noise
            open_rows = np.arange(len(f))
            for _ in range(64):
                end[open_rows] = np.clip(end[open_rows], first[open_rows], last[open_rows])
                law = self.take(open_rows)
                away = np.abs(law._F(y[open_rows], end[open_rows]) - value[open_rows]) > SETTLED
                open_rows = open_rows[away & (end[open_rows] != limit[open_rows])]
                if not open_rows.size:
                    break
                step[open_rows] *= 1.7
                end[open_rows] = centre[open_rows] + side * step[open_rows]
            else:
                end[open_rows] = limit[open_rows]
            ends.append(end)
        return ends[0], ends[1], left, right

    def _small(self):
        """Log of the mean at which the relative variance is one: counts and atoms do not get any finer below."""
        phi, p = self.family.dispersion, self.family.power
        phi = np.maximum(phi, 1.0) if self.discrete else np.maximum(phi, 1e-300)
        return np.log(phi) / (2 - p) if p < 2 else np.full(phi.shape, -np.inf)

    def _cdf_moving(self, y):
        f, sd, _ = self.parameters
        if self._unordered():
            nodes, weight = self._pieces(y)
            return (weight * self._F(y, nodes)).sum(axis=1) / weight.sum(axis=1)
        lower, upper, left, right = self._window(y)
        t, w = legendre(LEGENDRE)
        half = (upper - lower)[:, None] / 2
        nodes = lower[:, None] + half * (t + 1)
        z = (nodes - f[:, None]) / sd[:, None]
        inner = self._F(y, nodes)
        weight = half / sd[:, None] * w * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        below, above = ndtr((lower - f) / sd), ndtr((f - upper) / sd)
        total = weight.sum(axis=1)  # made exact, so that the cdf of a constant is that constant
        scale = np.where(total > 0, (1 - below - above) / np.where(total > 0, total, 1.0), 0.0)
        return left * below + right * above + np.clip(scale, 0, 2) * (weight * inner).sum(axis=1)

    def _logpdf_at(self, y):
        point = self._point()
        with np.errstate(all="ignore"):
            value = self._by_nodes(y, lambda law, y: law._logpdf_at(y), Latent._logpdf_moving)
        at_the_point = 0.0 if self.discrete else np.inf
        return np.where(point, np.where(y == self._mean(), at_the_point, -np.inf), value)

    def _logpdf_moving(self, y):
        """Gauss-Legendre on either side of the mode of p(y | f) p(f), as far as it matters."""
        f, sd, phi = self.parameters
        sharp = self.family.conditional(f)._point() if self.family.power >= 1 else phi == 0
        mode, spread = self._posterior_mode(y)

        def joint(g):
            wide = (slice(None),) + (None,) * (g.ndim - 1)
            law = self.family.at(phi[wide]).conditional(g)
            return law._logpdf_at(y[wide] + 0 * g) - ((g - f[wide]) / sd[wide]) ** 2 / 2

        if self._unordered():
            nodes, weight = self._pieces(y)
            law = self.family.at(phi[:, None]).conditional(nodes)
            return logsumexp(law._logpdf_at(y[:, None] + 0 * nodes), axis=1, b=weight)
        top = joint(mode)
        t, w = legendre(LEGENDRE)
        pieces = []
        for side in (-1, 1):
            reach, open_rows = 4 * spread, np.arange(len(f))
            for _ in range(40):
                law = self.take(open_rows)
                g = mode[open_rows] + side * reach[open_rows]
                value = law.family.conditional(g)._logpdf_at(y[open_rows])
                value = value - ((g - f[open_rows]) / sd[open_rows]) ** 2 / 2
                open_rows = open_rows[value > top[open_rows] - 16]
                if not open_rows.size:
                    break
                reach[open_rows] *= 1.5
            nodes = mode[:, None] + side * reach[:, None] * (t + 1) / 2
            pieces.append(joint(nodes) + np.log(reach[:, None] * w / 2 / sd[:, None]))
        value = logsumexp(np.concatenate(pieces, axis=1), axis=1) - np.log(2 * np.pi) / 2
        value = np.where(np.isnan(value), -np.inf, value)
        if sharp.any():  # no noise to speak of: the law of the inverse link of f
            g = self.family.from_mean(y)
            exact = -(((g - f) / sd) ** 2) / 2 - np.log(sd) - np.log(2 * np.pi) / 2
            exact = np.where(y > 0, exact - (np.log(y) if self.family.link == "log" else 0.0), -np.inf)
            value = np.where(sharp, exact, value)
        return value

    def _posterior_mode(self, y):
        """Mode of the quasi-likelihood of y times the density of f: between the f of either, found by halving."""
        f, sd, _ = self.parameters
        g = np.clip(np.maximum(self.family.from_mean(y), self._small() - 3), f - 40 * sd, f + 40 * sd)
        lower, upper = np.minimum(f, g), np.maximum(f, g)
        for _ in range(50):
            middle = (lower + upper) / 2
            mu = self.family.to_mean(middle)
            information = 1 / self.family.relative_variance(mu)  # of f: mu^2 / Var(y), and over mu^2 for the identity
            if self.family.link == "identity":
                information = 1 / self.family.noise_variance(mu)
                score = (y - mu) * information
            else:
                score = (y / mu - 1) * information
            rising = score - (middle - f) / sd**2 > 0
            lower, upper = np.where(rising, middle, lower), np.where(rising, upper, middle)
        information = np.where(np.isfinite(information), information, 0.0)
        return (lower + upper) / 2, 1 / np.sqrt(1 / sd**2 + information)

    def _coordinate(self):
        if self.family.link == "identity":
            return super()._coordinate()
        mu = self.family.to_mean(self.parameters[0])  # from the noise at one end to any power of ten at the other
        return 0.0, np.maximum(np.sqrt(self.family.noise_variance(mu)), 1e-290)

    def _guess(self, q):
        f, sd, _ = self.parameters
        z = ndtri(np.clip(q, 1e-300, 1 - 1e-16))
        if self.support == "real" and self.family.link == "log":
            mu = self.family.to_mean(f + z * sd)
            std = np.sqrt(self.family.noise_variance(mu))
            return mu + z * std, 0.3 * (std + mu * sd)
        if self.family.link == "identity":
            guess, step = super()._guess(q)
            return np.where(np.isfinite(guess), guess, self.family.to_mean(f)), np.where(np.isfinite(step), step, 1.0)
        mu = self.family.to_mean(f + z * sd)
        cv = np.minimum(np.sqrt(self.family.relative_variance(mu)), 3.0)
        spread = np.sqrt(sd**2 + np.log1p(cv**2))
        if not self.discrete:
            return np.exp(f + z * spread - np.log1p(cv**2) / 2), 0.2 * spread
        small, cv = sd < 0.5, np.sqrt(self.family.relative_variance(np.exp(f)))
        mean = np.exp(f + sd**2 / 2)
        std = mean * np.sqrt(cv**2 + np.expm1(np.minimum(sd, 1) ** 2))
        phi = self.family.relative_variance(np.exp(f)) * np.exp(f)
        skew = ((2 * phi - 1) * phi * mean + 3 * phi * mean**2 * sd**2 + 3 * mean**3 * sd**4) / std**2  # times std
        near = mean - 0.5 + z * std + (z**2 - 1) * skew / 6
        far = np.exp(f + z * spread - np.log1p(cv**2) / 2)
        small &= np.isfinite(near)
        return np.maximum(np.where(small, near, far), 0), np.where(small, 0.05 * std + 0.1, 0.3 * spread * (far + 1))


# ---------------------------------------------------------------------- pieces


@cache
def hermite(n):
    """Gauss-Hermite nodes and weights for the standard normal law."""
    z, w = np.polynomial.hermite_e.hermegauss(n)
    return z, w / w.sum()


@cache
def legendre(n):
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(n)


def gamma_logpdf(shape, x):
    """Log density of the standard gamma law, without the cancellation of its terms at large shapes."""
    d = x / shape - 1
    stirling = shape * (np.log1p(d) - d) - np.log1p(d) - np.log(2 * np.pi * shape) / 2 - 1 / (12 * shape)
    return np.where(shape > 1e5, stirling, xlogy(shape - 1, x) - x - gammaln(shape))


def three_moment_cdf(z, skewness):
    """Cdf at z of the shifted gamma law with mean 0, variance 1 and a positive skewness (Pearson's type III)."""
    shape = 4 / skewness**2
    return gammainc(shape, np.maximum(shape + np.sqrt(shape) * z, 0))


def three_moment_logpdf(z, skewness):
    """Its log density."""
    shape = 4 / skewness**2
    return gamma_logpdf(shape, np.maximum(shape + np.sqrt(shape) * z, 0)) + np.log(shape) / 2


def poisson_logpmf(k, mu, phi=None):
    """Log probability of a Poisson count; from the deviance where counts are large."""
    large = k > 1e5
    k_large = np.where(large, k, 1.0)
    d = mu / k_large - 1
    saddle = k_large * (np.log1p(d) - d) - np.log(2 * np.pi * k_large) / 2 - 1 / (12 * k_large)
    return np.where(large, saddle, xlogy(k, mu) - mu - gammaln(k + 1))


def negative_binomial_logpmf(k, mu, phi):
    """Log probability of a negative binomial count with variance phi mu."""
    r = np.maximum(mu / (phi - 1), TINY)
    return gammaln(k + r) - gammaln(r) - gammaln(k + 1) - r * np.log(phi) + xlog1py(k, -1 / phi)


def negative_binomial_logpmf_large(k, mu, phi):
    """The same from three moments."""
    std = np.sqrt(phi * mu)
    return three_moment_logpdf((k - mu) / std, (2 * phi - 1) / std) - np.log(std)


def many_jumps(power):
    """The rate above which three moments are enough: jumps of a power next to 2 are more skew."""
    return MANY_JUMPS * min(max(1.0, 0.2 / (2 - power)), 2.0)


def jumps(rate):
    """Numbers of jumps that carry all but a trace of the Poisson mass, with the log mass of each."""
    largest = rate.max(initial=0.0)
    for j in range(1, int(largest + 8 * np.sqrt(largest) + 12)):
        yield j, xlogy(j, rate) - rate - gammaln(j + 1)


def compound_cdf(ratio, cv2, power):
    """Cdf of the compound law in units of its mean."""
    rate, shape, x = 1 / ((2 - power) * cv2), (2 - power) / (power - 1), ratio / ((power - 1) * cv2)
    value = np.exp(-rate)
    if power == 1.5:  # P(gamma(j) <= x) = P(Poisson(x) >= j): running sums instead of incomplete gamma functions
        term, tail, mass = np.exp(-x), -np.expm1(-x), value.copy()
        for j in range(1, int(rate.max(initial=0.0) + 8 * np.sqrt(rate.max(initial=0.0)) + 12)):
            mass = mass * rate / j
            value = value + mass * tail
            term = term * x / j
            tail = np.maximum(tail - term, 0)
        return np.where(x > 600, 1.0, value)  # where exp(-x) is lost: some 30 jumps are never 600
    for j, log_mass in jumps(rate):
        value = value + np.exp(log_mass) * gammainc(j * shape, x)
    return value


def compound_logpdf(ratio, cv2, power):
    """Log density of the compound law in units of its mean; at zero the log probability."""
    rate, shape, x = 1 / ((2 - power) * cv2), (2 - power) / (power - 1), ratio / ((power - 1) * cv2)
    zero = x == 0
    x = np.where(zero, 1.0, x)
    density = np.full(x.shape, -np.inf)
    for j, log_mass in jumps(rate):
        density = np.logaddexp(density, log_mass + xlogy(j * shape - 1, x) - x - gammaln(j * shape))
    return np.where(zero, -rate, density - np.log((power - 1) * cv2))


def sample_poisson(mean, rng):
    """Poisson draws as floats; normal where means are so large that whole numbers no longer matter."""
    small = mean < HUGE
    exact = rng.poisson(np.where(small, mean, 1.0)).astype(float)
    return np.where(small, exact, mean + np.sqrt(mean) * rng.standard_normal(np.shape(mean)))


def search_quantile(law, q):
    """Smallest y with cdf(y) >= q, for a law of shape (m,) and levels (m,).

    In a coordinate u in which every scale of y is near, the log of y or of y + 1, the probit of the cdf is nearly a
    line: a bracket around the guess is grown until it holds the level, and shrunk by Chandrupatla's method, inverse
    quadratic interpolation where that is safe and halving where it is not. Both end at any scale.
    """
    m = q.size
    guess, step = law._guess(q)
    guess, step = np.broadcast_to(guess, m).copy(), np.broadcast_to(step, m).copy()
    target = ndtri(q)
    if law.support == "real":
        centre, scale = (np.broadcast_to(a, m) for a in law._coordinate())
        scale = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
        u, low, high = np.arcsinh((guess - centre) / scale), -LOG_MAX, LOG_MAX
        step = np.arcsinh(step / scale / np.cosh(u))

        def to_y(u, rows):
            return centre[rows] + scale[rows] * np.sinh(u)
    elif law.discrete:
        u, low, high = np.log1p(guess), 0.0, LOG_MAX
        step = np.log1p(step / (guess + 1))

        def to_y(u, rows):
            return np.expm1(u)
    else:
        u, low, high = np.log(guess), LOG_MIN, LOG_MAX

        def to_y(u, rows):
            return np.exp(u)

    step = np.clip(np.where(np.isfinite(step), step, 1.0), 1e-13, 50.0)
    u = np.clip(np.where(np.isnan(u), 0.0, u), low, high)

    def residual(u, rows):
        if not len(rows):
            return np.empty(0)
        part = law if len(rows) == m else law.take(rows)
        value = part._cdf(to_y(u, rows))
        return np.clip(ndtri(np.clip(value, 0, 1)), -40, 40) - np.clip(target[rows], -39, 39)

    out = np.empty(m)
    rows = np.arange(m)
    if law.atom:  # levels that zero has reached
        inside = law._cdf(np.zeros(m)) >= q
        out[inside], rows = 0.0, rows[~inside]
    # a bracket a < root <= b
    a, b = np.maximum(u - step, low), np.minimum(u + step, high)
    fa, fb = np.full(m, -1.0), np.full(m, 1.0)
    fa[rows], fb[rows] = residual(a[rows], rows), residual(b[rows], rows)
    grow = step.copy()
    for _ in range(64):
        up, down = rows[(fb[rows] < 0) & (b[rows] < high)], rows[(fa[rows] >= 0) & (a[rows] > low)]
        if not up.size and not down.size:
            break
        grow *= 2.5
        a[up], fa[up], b[down], fb[down] = b[up], fb[up], a[down], fa[down]
        b[up], a[down] = np.minimum(b[up] + grow[up], high), np.maximum(a[down] - grow[down], low)
        fb[up], fa[down] = residual(b[up], up), residual(a[down], down)
    beyond, before = rows[fb[rows] < 0], rows[(fa[rows] >= 0) & (fb[rows] >= 0)]
    out[beyond] = np.inf
    out[before] = -np.inf if law.support == "real" else 0.0
    rows = rows[(fa[rows] < 0) & (fb[rows] >= 0)]
    # Chandrupatla: x1 the newest point, x2 the other end of the bracket, x3 the point before
    x1, x2, x3 = b.copy(), a.copy(), a.copy()
    f1, f2, f3 = fb.copy(), fa.copy(), fa.copy()
    t = np.full(m, 0.5)
    with np.errstate(all="ignore"):
        t[rows] = np.clip(f1[rows] / (f1[rows] - f2[rows]), 0.02, 0.98)  # first a secant: the probit is nearly a line
    for _ in range(MAX_STEPS):
        lower, upper = np.minimum(x1[rows], x2[rows]), np.maximum(x1[rows], x2[rows])
        tolerance = 1e-13 + 4e-16 * np.abs(upper)
        done = (upper - lower <= 2 * tolerance) | (np.minimum(np.abs(f1[rows]), np.abs(f2[rows])) <= 1e-11)
        if law.discrete:
            done |= np.ceil(to_y(lower, rows)) == np.ceil(to_y(upper, rows))
        if done.any():
            ended = rows[done]
            out[ended] = to_y(np.where(np.abs(f1[ended]) <= np.abs(f2[ended]), x1[ended], x2[ended]), ended)
            rows = rows[~done]
        if not rows.size:
            break
        floor = (1e-13 + 4e-16 * np.abs(upper[~done])) / (upper - lower)[~done]
        x = x1[rows] + np.clip(t[rows], floor, 1 - floor) * (x2[rows] - x1[rows])
        fx = residual(x, rows)
        same = (fx >= 0) == (f1[rows] >= 0)
        x3[rows], f3[rows] = np.where(same, x1[rows], x2[rows]), np.where(same, f1[rows], f2[rows])
        x2[rows], f2[rows] = np.where(same, x2[rows], x1[rows]), np.where(same, f2[rows], f1[rows])
        x1[rows], f1[rows] = x, fx
        with np.errstate(all="ignore"):
            xi = (x1[rows] - x2[rows]) / (x3[rows] - x2[rows])
            phi = (f1[rows] - f2[rows]) / (f3[rows] - f2[rows])
            safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            alpha = (x3[rows] - x1[rows]) / (x2[rows] - x1[rows])
            r12, r32 = f1[rows] / (f2[rows] - f1[rows]), f3[rows] / (f2[rows] - f3[rows])
            r13, r23 = f1[rows] / (f3[rows] - f1[rows]), f2[rows] / (f3[rows] - f2[rows])
            quadratic = r12 * r32 + alpha * r13 * r23
        t[rows] = np.where(safe & np.isfinite(quadratic), quadratic, 0.5)
    else:
        out[rows] = to_y(np.where(f1[rows] >= 0, x1[rows], x2[rows]), rows)
    return whole_quantile(law, q, out) if law.discrete else out


def whole_quantile(law, q, y):
    """The smallest whole number whose cdf reaches q, given where the smooth cdf does."""
    k = np.ceil(y - 1e-7)
    finite = np.flatnonzero(np.isfinite(k) & (k < 2.0**53))
    if finite.size:
        short = law.take(finite)._cdf(k[finite]) < q[finite] * (1 - 1e-14)
        k[finite[short]] += 1
    return np.maximum(k, 0)


def integrate_crps(law, y):
    """CRPS = integral of (F(x) - 1[x >= y])^2 dx, for a law and observations of shape (m,).

    Beyond the levels ``low`` and ``high`` F is 0 or 1. In between the integral is Gauss-Legendre on either side of y,
    in a coordinate where every scale is near; counts are first summed, as far as a hundred numbers go.
    """
    cv = np.fmin(law._std() / law._mean(), 1e100) if law.support != "real" else np.ones(y.shape)
    beyond = np.minimum(4.5 + np.sqrt(np.log1p(cv**2)) / 2, 8.0)  # heavy tails matter further out
    low, high = law._ppf_at(np.full(y.shape, 1e-5)), law._ppf_at(ndtr(beyond))
    low = np.minimum(low, np.finfo(float).max / 4)
    high = np.clip(high, low, np.finfo(float).max / 4)
    score = np.maximum(y - high, 0) + np.maximum(low - np.maximum(y, 0 if law.support != "real" else -np.inf), 0)
    if law.support == "real":
        centre, scale = law._ppf_at(np.full(y.shape, 0.5)), law._ppf_at(np.full(y.shape, 0.75))
        scale = np.maximum(scale - centre, 1e-9 * (high - low))
        middle = np.clip(y, low, high)
        for start, stop, target in ((low, middle, 0.0), (middle, high, 1.0)):
            a, b = np.arcsinh((start - centre) / scale), np.arcsinh((stop - centre) / scale)
            for t, w in zip(*legendre(2 * LEGENDRE), strict=True):
                u = a + (b - a) * (t + 1) / 2
                score += (b - a) / 2 * w * scale * np.cosh(u) * (law._cdf(centre + scale * np.sinh(u)) - target) ** 2
        return score
    score += np.maximum(-y, 0)  # below the support
    start, shift = low, 0.0
    if law.discrete:
        shift = 0.5  # the integral of F over [k, k + 1) is that of the smooth cdf half a number earlier
        start, stop = low, np.minimum(low + 128, high)
        for j in range(int(np.max(stop - start))):
            k = start + j
            F = np.clip(law._cdf(k), 0, 1)
            share = np.clip(y - k, 0, 1)  # of [k, k + 1) that is below y
            score += np.where(k < stop, share * F**2 + (1 - share) * (1 - F) ** 2, 0.0)
        start = stop
    else:  # below a trace of a high quantile F is taken for constant
        cut = np.minimum(np.maximum(low, 1e-8 * law._ppf_at(np.full(y.shape, 0.99))), high)
        F = law._cdf(cut)
        below = np.clip(y, low, cut) - low
        score += below * F**2 + (cut - low - below) * (1 - F) ** 2
        start = cut
    middle = np.clip(y, start, high)
    for begin, end, target in ((start, middle, 0.0), (middle, high, 1.0)):
        rows = np.flatnonzero(end > begin)
        if not rows.size:
            continue
        part = law if rows.size == y.size else law.take(rows)
        a, b = np.log(begin[rows]), np.log(end[rows])
        total = np.zeros(rows.size)
        for t, w in zip(*legendre(2 * LEGENDRE), strict=True):
            x = np.exp(a + (b - a) * (t + 1) / 2)
            total += (b - a) / 2 * w * x * (np.clip(part._cdf(x - shift), 0, 1) - target) ** 2
        score[rows] += total
    return score


def points_crps(points, weights, y):
    """CRPS of a law of weighted points (m, B): E|X - y| - E|X - X'| / 2, the latter from the sorted points."""
    order = np.argsort(points, axis=-1)
    x = np.take_along_axis(points, order, axis=-1)
    w = np.broadcast_to(weights, x.shape)
    w = np.take_along_axis(w, order, axis=-1)
    below = np.cumsum(w, axis=-1)[..., :-1]
    gaps = np.diff(x, axis=-1)
    return (np.abs(x - y[..., None]) * w).sum(axis=-1) - (gaps * below * (1 - below)).sum(axis=-1)


def normals_crps(means, variances, weights, y):
    """CRPS of a mixture of normal laws (m, B): E|X - y| - E|X - X'| / 2, with E|N(a, v)| in closed form."""

    def expected_size(a, v):
        std = np.sqrt(v)
        z = np.divide(a, std, out=np.sign(a) * np.inf, where=std > 0)
        z = np.where(np.isnan(z), 0.0, z)
        return a * (2 * ndtr(z) - 1) + std * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)

    score = expected_size(means - y[:, None], variances) @ weights
    for b in range(len(weights)):
        pairs = expected_size(means - means[:, b : b + 1], variances + variances[:, b : b + 1])
        score -= weights[b] * (pairs @ weights) / 2
    return score
