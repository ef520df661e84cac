"""Observation laws: y given the model's raw prediction, and mixtures of them where that is uncertain."""

import numpy as np
from scipy.special import (
    betainc,
    betaln,
    gammainc,
    gammaln,
    log_ndtr,
    logsumexp,
    ndtr,
    ndtri,
    pdtr,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)

from ._loss import StudentT, Tweedie

TINY = 1e-12  # what a mean is taken for where an identity link leaves the family's support
MAX_DOUBLINGS = 64  # of the bracket of a quantile
POISSON = 1 + 1e-6  # a dispersion up to here is Poisson's


def law_of(loss, dispersion, tails=np.inf):
    """The family of observation laws that belongs to a loss, at a dispersion: Var(y | f) = dispersion V(mu).

    ``tails`` are the degrees of freedom of Student's law around a least-squares prediction; infinity is the normal law.
    """
    if isinstance(loss, Tweedie) and not (loss.power == 0 and loss.link == "identity"):
        return TweedieFamily(dispersion, loss)
    if isinstance(loss, StudentT) and loss.df > 4:
        tails = min(tails, loss.df)
    return LocationFamily(dispersion, tails)


class LocationFamily:
    """y = f + e with e of variance ``dispersion``: normal, or Student's with ``tails`` > 4 degrees of freedom."""

    location = True  # y - f does not depend on f, so that a normal f can be integrated in closed form

    def __init__(self, dispersion, tails=np.inf):
        self.dispersion, self.tails = np.asarray(dispersion, dtype=float), tails

    def conditional(self, f):
        """Law of y given the raw prediction f, of any shape that the dispersion broadcasts with."""
        return self.marginal(f, 0.0)

    def marginal(self, f, variance):
        """Law of y where f is normal with that variance; heavy tails keep their kurtosis, 6 / (tails - 4)."""
        total = self.dispersion + variance
        if np.isinf(self.tails):
            return Normal(f, total)
        share = np.divide(self.dispersion, total, out=np.ones_like(total), where=total > 0)
        return Student(f, total, 4 + (self.tails - 4) / share**2)


class TweedieFamily:
    """The family of a Tweedie loss: Var(y) = phi mu^power with mu = inverse link of f.

    power 1 is Poisson for phi <= 1 and, where counts are over-dispersed, the negative binomial with variance phi mu;
    1 < power < 2 the compound Poisson-gamma law; 2 gamma; 3 inverse Gaussian. The other powers have no elementary
    law: above 2 a gamma, below 1 a normal law with the family's mean and variance stands for it.
    """

    location = False

    def __init__(self, dispersion, loss):
        self.dispersion, self.loss = np.asarray(dispersion, dtype=float), loss

    def conditional(self, f):
        """Law of y given the raw prediction f, of any shape that the dispersion broadcasts with."""
        p, phi = self.loss.power, self.dispersion
        mu = self.loss.mean(np.asarray(f, dtype=float))
        mu = np.maximum(mu, TINY) if p >= 1 else mu
        variance = phi * self.loss.unit_variance(mu)
        if p == 1:
            return Poisson(mu) if np.all(phi <= POISSON) else NegativeBinomial(mu, np.maximum(phi, POISSON))
        if p < 1 or not np.any(variance > 0):
            return Normal(mu, variance)
        if p < 2:
            return CompoundPoissonGamma(mu, phi, p)
        return InverseGaussian(mu, phi) if p == 3 else Gamma(mu, variance)


class Law:
    """A distribution per element of an array: mean, var, cdf, logpdf (log mass of counts), ppf, rvs."""

    discrete = False
    atom: float | None = None  # a point of positive probability below which there is none

    def __init__(self, mean, variance):
        self._mean, self._variance = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (mean, variance)))

    def mean(self):
        """Means."""
        return self._mean

    def var(self):
        """Variances."""
        return self._variance

    def guess(self, q):
        """Where to look for quantile q first: that of the normal law with the same mean and variance."""
        return self._mean + ndtri(q) * np.sqrt(self._variance)

    def ppf(self, q):
        """Quantiles, q of any shape that broadcasts with the means."""
        return invert_cdf(self.cdf, q, self.guess(q), np.sqrt(self._variance), self.discrete, self.atom)


class Normal(Law):
    """Normal law; a variance of zero is a point."""

    ppf = Law.guess

    def __init__(self, mean, variance):
        super().__init__(mean, variance)
        self._std = np.sqrt(self._variance)

    def _z(self, y):
        if self._std.all():
            return (y - self._mean) / self._std
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (y - self._mean) / self._std
        return np.where(np.isnan(z), 0.0, z)  # at the point itself

    def cdf(self, y):
        return np.where(self._variance > 0, ndtr(self._z(y)), y >= self._mean)

    def logpdf(self, y):
        with np.errstate(divide="ignore"):
            return -(self._z(y) ** 2) / 2 - np.log(self._std) - np.log(2 * np.pi) / 2

    def crps(self, y):
        """Continuous ranked probability score of each observation."""
        z = self._z(y)
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return (y - self._mean) * (2 * ndtr(z) - 1) + self._std * (2 * density - 1 / np.sqrt(np.pi))

    def rvs(self, rng):
        return self._mean + self._std * rng.standard_normal(self._mean.shape)


class Student(Law):
    """Student's law by its mean, variance and degrees of freedom nu > 2."""

    def __init__(self, mean, variance, nu):
        super().__init__(mean, variance)
        self.nu = np.asarray(nu, dtype=float)
        self.scale = np.maximum(np.sqrt(self._variance * (1 - 2 / self.nu)), np.finfo(float).tiny)

    def cdf(self, y):
        return stdtr(self.nu, (y - self._mean) / self.scale)

    def ppf(self, q):
        return self._mean + self.scale * stdtrit(self.nu, q)

    def _standard_logpdf(self, z):
        constant = gammaln((self.nu + 1) / 2) - gammaln(self.nu / 2) - np.log(self.nu * np.pi) / 2
        return constant - (self.nu + 1) / 2 * np.log1p(z**2 / self.nu)

    def logpdf(self, y):
        return self._standard_logpdf((y - self._mean) / self.scale) - np.log(self.scale)

    def crps(self, y):
        """Continuous ranked probability score of each observation."""
        z, nu = (y - self._mean) / self.scale, self.nu
        spread = 2 * np.sqrt(nu) / (nu - 1) * np.exp(betaln(0.5, nu - 0.5) - 2 * betaln(0.5, nu / 2))
        density = np.exp(self._standard_logpdf(z))
        return self.scale * (z * (2 * stdtr(nu, z) - 1) + 2 * density * (nu + z**2) / (nu - 1) - spread)

    def rvs(self, rng):
        shape = np.broadcast_shapes(self._mean.shape, self.nu.shape)
        return self._mean + self.scale * rng.standard_t(np.broadcast_to(self.nu, shape))


class Poisson(Law):
    """Counts with variance mu."""

    discrete = True

    def __init__(self, mu):
        super().__init__(mu, mu)

    def cdf(self, y):
        y = np.floor(y)
        return np.where(y < 0, 0.0, pdtr(np.maximum(y, 0), self._mean))

    def logpdf(self, y):
        return _on_counts(y, lambda k: xlogy(k, self._mean) - self._mean - gammaln(k + 1))

    def rvs(self, rng):
        return rng.poisson(self._mean).astype(float)


class NegativeBinomial(Law):
    """Counts with variance phi mu, phi > 1."""

    discrete = True

    def __init__(self, mu, phi):
        super().__init__(mu, phi * mu)
        self.r, self.p = mu / (phi - 1), 1 / phi + 0 * mu  # failures to wait for, and the chance of one

    def cdf(self, y):
        y = np.floor(y)
        return np.where(y < 0, 0.0, betainc(self.r, np.maximum(y, 0) + 1, self.p))

    def logpdf(self, y):
        constant = self.r * np.log(self.p) - gammaln(self.r)
        return _on_counts(y, lambda k: gammaln(k + self.r) - gammaln(k + 1) + xlog1py(k, -self.p) + constant)

    def rvs(self, rng):
        return rng.poisson(rng.standard_gamma(self.r) * (1 - self.p) / self.p).astype(float)


class Gamma(Law):
    """Gamma law by its mean and variance."""

    def __init__(self, mu, variance):
        super().__init__(mu, variance)
        self.shape, self.scale = self._mean**2 / self._variance, self._variance / self._mean

    def cdf(self, y):
        return gammainc(self.shape, np.maximum(y, 0) / self.scale)

    def logpdf(self, y):
        x = np.where(np.asarray(y) > 0, y, 1.0) / self.scale
        density = xlogy(self.shape - 1, x) - x - gammaln(self.shape) - np.log(self.scale)
        return np.where(np.asarray(y) > 0, density, -np.inf)

    def rvs(self, rng):
        return self.scale * rng.standard_gamma(self.shape)


class InverseGaussian(Law):
    """Inverse Gaussian law with variance phi mu^3."""

    def __init__(self, mu, phi):
        super().__init__(mu, phi * mu**3)
        self.shape = 1 / phi + 0 * self._mean

    def cdf(self, y):
        x = np.where(np.asarray(y) > 0, y, 1.0)
        root, ratio = np.sqrt(self.shape / x), x / self._mean
        tail = np.exp(2 * self.shape / self._mean + log_ndtr(-root * (ratio + 1)))
        return np.where(np.asarray(y) > 0, ndtr(root * (ratio - 1)) + tail, 0.0)

    def logpdf(self, y):
        x = np.where(np.asarray(y) > 0, y, 1.0)
        density = np.log(self.shape / (2 * np.pi * x**3)) / 2 - self.shape * (x / self._mean - 1) ** 2 / (2 * x)
        return np.where(np.asarray(y) > 0, density, -np.inf)

    def rvs(self, rng):
        return rng.wald(self._mean, self.shape)


class CompoundPoissonGamma(Law):
    """Sum of N gamma variables, N Poisson: the Tweedie law of 1 < power < 2, an atom at zero and a density above."""

    atom = 0.0

    def __init__(self, mu, phi, power):
        super().__init__(mu, phi * mu**power)
        self.rate = self._mean ** (2 - power) / (phi * (2 - power))
        self.shape = (2 - power) / (power - 1)
        self.scale = phi * (power - 1) * self._mean ** (power - 1)

    def _jumps(self):
        """Numbers of jumps that carry all but a trace of the Poisson mass, and the log mass of each."""
        largest = self.rate.max()
        for j in range(1, int(largest + 10 * np.sqrt(largest) + 20)):
            yield j, xlogy(j, self.rate) - self.rate - gammaln(j + 1)

    def cdf(self, y):
        x = np.maximum(y, 0) / self.scale
        mass = np.exp(-self.rate)
        for j, log_mass in self._jumps():
            mass = mass + np.exp(log_mass) * gammainc(j * self.shape, x)
        return np.where(np.asarray(y) >= 0, np.minimum(mass, 1.0), 0.0)

    def logpdf(self, y):
        x = np.where(np.asarray(y) > 0, y, 1.0) / self.scale
        terms = [m + xlogy(j * self.shape - 1, x) - x - gammaln(j * self.shape) for j, m in self._jumps()]
        density = logsumexp(terms, axis=0) - np.log(self.scale)
        return np.where(np.asarray(y) > 0, density, np.where(np.asarray(y) == 0, -self.rate, -np.inf))

    def rvs(self, rng):
        return self.scale * rng.standard_gamma(self.shape * rng.poisson(self.rate))


class Mixture:
    """Weighted mixture of a law over its last axis: the predictive law when f itself is uncertain."""

    def __init__(self, law, weights):
        self.law, self.weights, self.discrete = law, weights, law.discrete

    def mean(self):
        """Means."""
        return self.law.mean() @ self.weights

    def cdf(self, y):
        return self.law.cdf(np.asarray(y)[..., None]) @ self.weights

    def logpdf(self, y):
        return logsumexp(self.law.logpdf(np.asarray(y)[..., None]), axis=-1, b=self.weights)

    def ppf(self, q):
        """Quantile q, a float, of every row."""
        guess, spread = self.law.guess(q) @ self.weights, np.sqrt(self.law.var() @ self.weights)
        return invert_cdf(self.cdf, q, guess, spread, self.discrete, self.law.atom)


def _on_counts(y, log_mass):
    """log_mass at whole numbers from zero up, minus infinity elsewhere."""
    y = np.asarray(y, dtype=float)
    valid = (y >= 0) & (y == np.floor(y))
    return np.where(valid, log_mass(np.where(valid, y, 0.0)), -np.inf)


def invert_cdf(cdf, q, guess, step, discrete, atom=None):
    """Smallest y with cdf(y) >= q, elementwise: a bracket grown around a guess, then bisected."""
    guess, step, q = np.broadcast_arrays(guess, step, q)
    step = np.ceil(step / 4) + 1 if discrete else step / 4 + 1e-9 * np.abs(guess) + 1e-300
    upper = np.ceil(guess) if discrete else guess.copy()
    lower = upper - step
    grow = step
    for _ in range(MAX_DOUBLINGS):  # rounding may keep a cdf below a q next to one for ever
        if not np.any(short := cdf(upper) < q):
            break
        lower, upper, grow = np.where(short, upper, lower), np.where(short, upper + grow, upper), 2 * grow
    grow = step
    for _ in range(MAX_DOUBLINGS):
        if not np.any(long := cdf(lower) >= q):
            break
        lower, upper, grow = np.where(long, lower - grow, lower), np.where(long, lower, upper), 2 * grow
    tolerance = 1.0 if discrete else 1e-9 * np.maximum(np.abs(lower), np.abs(upper)) + 1e-300
    while np.any(upper - lower > tolerance):
        middle = np.floor((lower + upper) / 2) if discrete else (lower + upper) / 2
        enough = cdf(middle) >= q
        lower, upper = np.where(enough, lower, middle), np.where(enough, middle, upper)
    if atom is not None:
        upper = np.where(cdf(np.full(upper.shape, atom)) >= q, atom, upper)
    return upper + 0.0  # no minus zero
