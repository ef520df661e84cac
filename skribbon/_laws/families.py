"""Families: from a loss's dispersion and the model's raw prediction f to the law of y."""

import numpy as np

from .latent import Latent
from .location import Normal
from .mixture import Mixture
from .shapes import NORMAL
from .tweedie import POISSON, TINY, CompoundPoissonGamma, Counts, Gamma, InverseGaussian


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
            return CompoundPoissonGamma(mu, cv2, power=self.jump_power)
        return InverseGaussian(mu, cv2) if p == 3 else Gamma(mu, cv2)

    def marginal(self, f, variance):
        """Law of y where f is normal with that variance."""
        variance = np.asarray(variance, dtype=float)
        if not np.any(variance):
            return self.conditional(np.broadcast_to(f, np.broadcast_shapes(np.shape(f), variance.shape)))
        return Latent(f, np.sqrt(variance), self.dispersion, family=self)

    def mixture(self, draws):
        """Law of y where f is one of the draws (..., n, B), each as likely."""
        return Mixture(self.at(self.dispersion[..., None]).conditional(draws))

    @property
    def jump_power(self):
        """Power of the compound law: of rates that of exponential jumps."""
        return 1.5 if self.power == 1 else self.power

    @property
    def jump_shape(self):
        """Shape of a jump of the compound law, whose cdf starts above zero as that power of y."""
        return (2 - self.jump_power) / (self.jump_power - 1)

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
