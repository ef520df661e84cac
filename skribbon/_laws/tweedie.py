"""Laws of the Tweedie losses: counts, compound Poisson-gamma, gamma and inverse Gaussian."""

import numpy as np
from scipy.special import betainc, erfcx, gammainc, gammaincc, gammaincinv, gammaln, ndtr, xlog1py, xlogy

from .base import POINT, Law

TINY = 1e-300  # what a mean is taken for that is smaller, or where an identity link leaves the support of the family
POISSON = 1 + 1e-6  # a dispersion up to here is Poisson's


class Positive(Law):
    """A law on the positive numbers by its mean and the square of its coefficient of variation."""

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
    (2 - power) / (power - 1). Above a rate of 30 to 60 the law is a shifted gamma law with the same mean,
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
        value = self._split(y, compound_cdf, lambda r, c, p: three_moment_cdf((r - 1) / np.sqrt(c), p * np.sqrt(c)))
        mean, cv2 = self.parameters
        never = np.isinf(y / mean) | np.isinf(cv2)  # a jump comes less often than numbers can say
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
        power, rate = self.constants["power"], self._rate()
        N = sample_poisson(rate, rng)
        with np.errstate(invalid="ignore", over="ignore"):
            y = mean * ((power - 1) * cv2) * rng.standard_gamma((2 - power) / (power - 1) * N)
        return np.where(np.isnan(y), mean, y)  # jumps beyond all numbers, each of no size: no noise is left


class Counts(Law):
    """Counts with mean mu and variance phi mu: negative binomial for phi > 1, Poisson otherwise."""

    discrete = True
    support = "counts"

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
        third = ~first & (mu > 1e4 * phi)  # three moments are enough
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
    return 30.0 * min(max(1.0, 0.2 / (2 - power)), 2.0)


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
    small = mean < 1e15
    exact = rng.poisson(np.where(small, mean, 1.0)).astype(float)
    return np.where(small, exact, mean + np.sqrt(mean) * rng.standard_normal(np.shape(mean)))
