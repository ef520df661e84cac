"""Distributions of the Tweedie losses: counts, compound Poisson-gamma, gamma and inverse Gaussian."""

from functools import partial

import numpy as np
from scipy.special import betainc, erfcx, gammainc, gammaincc, gammaincinv, gammaln, ndtr, xlog1py, xlogy

from .base import POINT, Law

TINY = 1e-300  # smallest mean: relative variances do not overflow, and f <= 0 under an identity link has a mean
POISSON = 1 + 1e-6  # largest dispersion of Poisson counts: above, negative binomial formulas do not cancel


class Positive(Law):
    """Distribution on the positive numbers by its mean and its squared coefficient of variation."""

    def _std(self):
        mean, cv2 = self.parameters
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(mean == 0, 0.0, mean * np.sqrt(cv2))

    def _point(self):
        mean, cv2 = self.parameters
        return (cv2 <= POINT**2) | (mean == 0) | ~np.isfinite(mean)


class Gamma(Positive):
    """Gamma distribution by its mean and squared coefficient of variation."""

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
    """Inverse Gaussian distribution; in units of the mean its shape is 1 / cv2."""

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
    """Sum of a Poisson number of gamma jumps: the Tweedie distribution of 1 < power < 2, with an atom at zero.

    In units of the mean the rate is 1 / ((2 - power) cv2), the scale of a jump (power - 1) cv2 and its shape
    (2 - power) / (power - 1). If jumps are many, a shifted gamma distribution has the same three moments.
    """

    atom = True

    def _split(self, y, exact, approximate):
        """exact(ratio, cv2, power=) if jumps are few, and approximate(ratio, cv2, power=) otherwise."""
        mean, cv2 = self.parameters
        power = self.constants["power"]
        few = 1 / ((2 - power) * cv2) <= many_jumps(power)
        cases = ((few, partial(exact, power=power)), (~few, partial(approximate, power=power)))
        return by_case(cases, y / mean, cv2)

    def _cdf(self, y):
        def approximate(ratio, cv2, power):
            return three_moment_cdf((ratio - 1) / np.sqrt(cv2), power * np.sqrt(cv2))

        value = self._split(y, compound_cdf, approximate)
        mean, cv2 = self.parameters
        never = np.isinf(y / mean) | np.isinf(cv2)  # the probability of a jump underflows
        return np.where(never, 1.0, value) if never.any() else value

    def _logpdf(self, y):
        def approximate(ratio, cv2, power):
            density = three_moment_logpdf((ratio - 1) / np.sqrt(cv2), power * np.sqrt(cv2)) - np.log(cv2) / 2
            atom = np.log(three_moment_cdf(-1 / np.sqrt(cv2), power * np.sqrt(cv2)))
            return np.where(ratio == 0, atom, density)

        value = self._split(y, compound_logpdf, approximate)
        return value - np.where(y == 0, 0.0, np.log(self.parameters[0]))

    def _sample(self, rng):
        mean, cv2 = self.parameters
        power = self.constants["power"]
        N = sample_poisson(1 / ((2 - power) * cv2), rng)
        with np.errstate(invalid="ignore", over="ignore"):
            y = mean * ((power - 1) * cv2) * rng.standard_gamma((2 - power) / (power - 1) * N)
        return np.where(np.isnan(y), mean, y)  # infinitely many infinitesimal jumps: no noise


class Counts(Law):
    """Counts with mean mu and variance phi mu: negative binomial for phi > 1, Poisson otherwise."""

    discrete = True

    def _phi(self):
        return np.where(self.parameters[1] <= POISSON, 1.0, self.parameters[1])

    def _std(self):
        return np.sqrt(self._phi()) * np.sqrt(self.parameters[0])

    def _split(self, y, poisson, negative_binomial, approximate):
        """poisson(y, mu, phi), negative_binomial(y, mu, phi), or for large counts approximate(y, mu, phi)."""
        mu, phi = self.parameters
        first, large = phi <= POISSON, mu > 1e4 * phi  # three moments are enough for large counts
        cases = ((first, poisson), (~first & ~large, negative_binomial), (~first & large, approximate))
        return by_case(cases, y, mu, phi)

    def _cdf(self, y):
        return self._split(
            y,
            lambda y, mu, phi: gammaincc(y + 1, mu),
            lambda y, mu, phi: betainc(np.maximum(mu / (phi - 1), TINY), y + 1, 1 / phi),
            lambda y, mu, phi: three_moment_cdf((y + 0.5 - mu) / np.sqrt(phi * mu), (2 * phi - 1) / np.sqrt(phi * mu)),
        )

    def _logpdf(self, y):
        def approximate(k, mu, phi):
            std = np.sqrt(phi * mu)
            return three_moment_logpdf((k - mu) / std, (2 * phi - 1) / std) - np.log(std)

        # a Poisson probability of k is the gamma density of shape k + 1 at mu
        return self._split(y, lambda k, mu, phi: gamma_logpdf(k + 1, mu), negative_binomial_logpmf, approximate)

    def _sample(self, rng):
        mu, phi = self.parameters
        excess = np.maximum(self._phi() - 1, 1e-12)
        gamma = np.where(phi > POISSON, rng.standard_gamma(np.where(np.isfinite(mu), mu, 1.0) / excess) * excess, mu)
        return sample_poisson(gamma, rng)


def by_case(cases, *arguments):
    """function(*arguments) for the elements of each case, given as pairs of a mask and a function."""
    arguments = np.broadcast_arrays(*arguments)
    out = np.empty(arguments[0].shape)
    for mask, function in cases:
        rows = np.broadcast_to(mask, out.shape)
        if rows.all():
            return function(*arguments)
        if rows.any():
            out[rows] = function(*(a[rows] for a in arguments))
    return out


def gamma_logpdf(shape, x):
    """Log density of the standard gamma distribution, without cancellation at large shapes."""
    d = x / shape - 1
    stirling = shape * (np.log1p(d) - d) - np.log1p(d) - np.log(2 * np.pi * shape) / 2 - 1 / (12 * shape)
    return np.where(shape > 1e5, stirling, xlogy(shape - 1, x) - x - gammaln(shape))


def three_moment_cdf(z, skewness):
    """Cdf at z of the shifted gamma distribution with mean 0, variance 1 and a positive skewness (Pearson III)."""
    shape = 4 / skewness**2
    return gammainc(shape, np.maximum(shape + np.sqrt(shape) * z, 0))


def three_moment_logpdf(z, skewness):
    """Log density at z of the shifted gamma distribution with mean 0, variance 1 and a positive skewness."""
    shape = 4 / skewness**2
    return gamma_logpdf(shape, np.maximum(shape + np.sqrt(shape) * z, 0)) + np.log(shape) / 2


def negative_binomial_logpmf(k, mu, phi):
    """Log probability of a negative binomial count with variance phi mu."""
    r = np.maximum(mu / (phi - 1), TINY)
    return gammaln(k + r) - gammaln(r) - gammaln(k + 1) - r * np.log(phi) + xlog1py(k, -1 / phi)


def many_jumps(power):
    """Rate of jumps above which three moments are enough; jumps of a power close to 2 are more skewed."""
    return 30.0 * min(max(1.0, 0.2 / (2 - power)), 2.0)


def jumps(rate):
    """Numbers of jumps that carry all but a negligible Poisson mass, with the log mass of each."""
    largest = rate.max(initial=0.0)
    for j in range(1, int(largest + 8 * np.sqrt(largest) + 12)):
        yield j, xlogy(j, rate) - rate - gammaln(j + 1)


def compound_cdf(ratio, cv2, power):
    """Cdf of the compound Poisson-gamma distribution in units of its mean."""
    rate, shape, x = 1 / ((2 - power) * cv2), (2 - power) / (power - 1), ratio / ((power - 1) * cv2)
    value = np.exp(-rate)
    if power == 1.5:  # P(gamma(j) <= x) = P(Poisson(x) >= j): running sums instead of incomplete gamma functions
        term, tail, mass = np.exp(-x), -np.expm1(-x), value.copy()
        for j in range(1, int(rate.max(initial=0.0) + 8 * np.sqrt(rate.max(initial=0.0)) + 12)):
            mass = mass * rate / j
            value = value + mass * tail
            term = term * x / j
            tail = np.maximum(tail - term, 0)
        return np.where(x > 600, 1.0, value)  # exp(-x) underflows, and some 30 jumps never sum to 600
    for j, log_mass in jumps(rate):
        value = value + np.exp(log_mass) * gammainc(j * shape, x)
    return value


def compound_logpdf(ratio, cv2, power):
    """Log density of the compound Poisson-gamma distribution in units of its mean; at zero the log probability."""
    rate, shape, x = 1 / ((2 - power) * cv2), (2 - power) / (power - 1), ratio / ((power - 1) * cv2)
    zero = x == 0
    x = np.where(zero, 1.0, x)
    density = np.full(x.shape, -np.inf)
    for j, log_mass in jumps(rate):
        density = np.logaddexp(density, log_mass + xlogy(j * shape - 1, x) - x - gammaln(j * shape))
    return np.where(zero, -rate, density - np.log((power - 1) * cv2))


def sample_poisson(mean, rng):
    """Poisson draws as floats; normal if means exceed 1e15, near the last exact whole numbers."""
    small = mean < 1e15
    exact = rng.poisson(np.where(small, mean, 1.0)).astype(float)
    return np.where(small, exact, mean + np.sqrt(mean) * rng.standard_normal(np.shape(mean)))
