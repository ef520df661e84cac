"""Observation noise: the distribution of y given the model's raw prediction, and mixtures of it over predictions."""

import numpy as np
from scipy import stats
from scipy.special import gammainc, gammaln, logsumexp

__all__ = ["GaussianNoise", "Mixture", "Noise", "TweedieNoise"]

_TINY = 1e-12


class Noise:
    """Observation model: y given the raw prediction f that locates it.

    A subclass writes ``conditional``. Its ``dispersion`` phi scales the variance, Var(y | f) = phi V(mu), and is
    estimated from the training rows by the Ribbon estimator.
    """

    gaussian = False  # whether y | f is normal with mean f, so that Gaussian f can be integrated in closed form

    def __init__(self, dispersion):
        self.dispersion = float(dispersion)

    def conditional(self, f):
        """Distribution of y given f, any shape: an object with mean, var, cdf, ppf, logpdf, rvs and ``discrete``."""
        raise TypeError(f"{type(self).__name__} must define conditional(f).")


class GaussianNoise(Noise):
    """y = f + e with e normal of variance ``dispersion``, the same for every row."""

    gaussian = True

    def conditional(self, f):
        return Frozen(stats.norm(f, np.sqrt(self.dispersion)), f)


class TweedieNoise(Noise):
    """The family of a Tweedie loss: Var(y) = phi mu^power with mu = inverse link of f.

    power 1 is Poisson for phi <= 1 and, where counts are over-dispersed, the negative binomial with variance phi mu;
    1 < power < 2 the compound Poisson-gamma law; 2 gamma; 3 inverse Gaussian. The other powers have no elementary
    law: above 2 a gamma, below 1 a normal law with the family's mean and variance stands for it.
    """

    def __init__(self, dispersion, loss):
        super().__init__(dispersion)
        self.loss = loss

    def conditional(self, f):
        p, phi = self.loss.power, self.dispersion
        mu = self.loss.mean(np.asarray(f, dtype=float))
        if p >= 1:
            mu = np.maximum(mu, _TINY)  # an identity link can leave the family's support
        variance = phi * self.loss.unit_variance(mu)
        if p < 1:
            return Frozen(stats.norm(mu, np.sqrt(variance)), mu)
        if p == 1:
            law = stats.poisson(mu) if phi <= 1 + 1e-9 else stats.nbinom(mu / (phi - 1), 1 / phi)
            return Frozen(law, mu, discrete=True)
        if phi == 0:
            return Frozen(stats.norm(mu, 0.0), mu)
        if p < 2:
            return CompoundPoissonGamma(mu, phi, p)
        if p == 3:
            return Frozen(stats.invgauss(mu * phi, scale=1 / phi), mu)
        return Frozen(stats.gamma(mu**2 / variance, scale=variance / mu), mu)


class Frozen:
    """A frozen scipy distribution with one name for its log density, safe where its scale is zero."""

    def __init__(self, law, mean, discrete=False):
        self.law, self._mean, self.discrete = law, np.asarray(mean, dtype=float), discrete
        self.degenerate = not discrete and not np.any(law.var() > 0)

    def mean(self):
        return self._mean

    def var(self):
        return np.zeros_like(self._mean) if self.degenerate else self.law.var()

    def cdf(self, y):
        return np.where(y >= self._mean, 1.0, 0.0) if self.degenerate else self.law.cdf(y)

    def ppf(self, q):
        if self.degenerate:
            return self._mean + np.zeros(np.shape(q))
        return self.law.ppf(q)

    bracket = ppf

    def logpdf(self, y):
        if self.degenerate:
            return np.where(y == self._mean, np.inf, -np.inf)
        return self.law.logpmf(y) if self.discrete else self.law.logpdf(y)

    def rvs(self, rng):
        return self._mean.copy() if self.degenerate else self.law.rvs(size=self._mean.shape, random_state=rng)


class CompoundPoissonGamma:
    """Sum of N gamma variables, N Poisson: the Tweedie law of 1 < power < 2, an atom at zero and a density above."""

    discrete = False
    degenerate = False

    def __init__(self, mu, phi, power):
        self._mean, self.phi, self.power = np.asarray(mu, dtype=float), phi, power
        self.rate = self._mean ** (2 - power) / (phi * (2 - power))
        self.shape = (2 - power) / (power - 1)
        self.scale = phi * (power - 1) * self._mean ** (power - 1)

    def mean(self):
        return self._mean

    def var(self):
        return self.phi * self._mean**self.power

    def _jumps(self):
        """Numbers of jumps that carry all but 1e-12 of the Poisson mass."""
        return np.arange(1, int(stats.poisson.isf(1e-12, self.rate.max())) + 2)

    def cdf(self, y):
        y = np.maximum(np.asarray(y, dtype=float), -1.0)
        total = np.exp(-self.rate) * (y >= 0)
        x = np.maximum(y, 0) / self.scale
        for j in self._jumps():
            total = total + stats.poisson.pmf(j, self.rate) * gammainc(j * self.shape, x)
        return np.minimum(total, 1.0)

    def bracket(self, q):
        """Where the search for quantile q may start; cheap, not exact."""
        return self._mean + 3 * np.sqrt(self.var())

    def ppf(self, q):
        q = np.asarray(q, dtype=float)
        shape = np.broadcast_shapes(q.shape, self._mean.shape)
        return _invert_cdf(self.cdf, q, np.zeros(shape), np.broadcast_to(self.bracket(q), shape))

    def logpdf(self, y):
        y, rate, scale = np.broadcast_arrays(np.asarray(y, dtype=float), self.rate, self.scale)
        positive = np.where(y > 0, y, 1.0)
        terms = np.stack(
            [
                j * np.log(rate)
                - rate
                - gammaln(j + 1)
                + (j * self.shape - 1) * np.log(positive)
                - positive / scale
                - gammaln(j * self.shape)
                - j * self.shape * np.log(scale)
                for j in self._jumps()
            ]
        )
        return np.where(y > 0, logsumexp(terms, axis=0), np.where(y == 0, -rate, -np.inf))

    def rvs(self, rng):
        return self.scale * rng.standard_gamma(self.shape * rng.poisson(self.rate))


class Mixture:
    """Weighted mixture of ``components`` over their last axis: the predictive law when f itself is uncertain."""

    def __init__(self, components, weights):
        self.components, self.weights = components, weights
        self.discrete = components.discrete

    def mean(self):
        return self.components.mean() @ self.weights

    def cdf(self, y):
        return self.components.cdf(np.asarray(y)[..., None]) @ self.weights

    def logpdf(self, y):
        return logsumexp(self.components.logpdf(np.asarray(y)[..., None]), axis=-1, b=self.weights)

    def ppf(self, q):
        """Quantile q (a float) of every row; between the extreme components' own quantiles, found by bisection."""
        ends = self.components.bracket(q)
        return _invert_cdf(self.cdf, q, ends.min(axis=-1), ends.max(axis=-1), integer=self.discrete)


def _invert_cdf(cdf, q, lower, upper, integer=False):
    """Smallest y with cdf(y) >= q, elementwise, by bisection; the bracket is widened where it does not hold q."""
    lower, upper = np.array(lower, dtype=float), np.array(upper, dtype=float)
    step = np.maximum(upper - lower, 1e-3 * np.abs(upper) + 1e-12)
    step = np.maximum(step, 1.0) if integer else step
    while np.any(short := cdf(upper) < q):
        lower, upper, step = np.where(short, upper, lower), np.where(short, upper + step, upper), 2 * step
    while np.any(long := (cdf(lower) >= q) & (lower >= 0 if integer else np.isfinite(lower))):
        lower, upper, step = np.where(long, lower - step, lower), np.where(long, lower, upper), 2 * step
    while np.any(upper - lower > (1 if integer else 1e-9 * np.maximum(np.abs(lower), np.abs(upper)) + 1e-300)):
        middle = np.floor((lower + upper) / 2) if integer else (lower + upper) / 2
        enough = cdf(middle) >= q
        lower, upper = np.where(enough, lower, middle), np.where(enough, middle, upper)
    return upper
