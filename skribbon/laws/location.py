"""Normal and Student's law."""

import numpy as np
from scipy.special import betaln, gammaln, ndtr, ndtri, stdtr, stdtrit

from .base import Law

NORMAL_TAILS = 1e6  # degrees of freedom from which Student's law is normal to seven digits


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
        mean, std, z = self.mean() + 0.0, self.std(), ndtri(np.asarray(q, dtype=float))  # no minus zero
        if not z.ndim:
            return mean + std * z
        out = np.empty((*self.shape, len(z)))
        for j in range(len(z)):  # three times as fast as along a short last axis
            np.multiply(std, z[j], out=out[..., j])
            out[..., j] += mean
        return out

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


class Estimate(Student):
    """Student's law of an estimate, by its mean, squared standard error and any degrees of freedom from 1 on.

    Its ``std`` is the standard error, which is the scale of the law and less than its own standard deviation.
    """

    def _scale(self):
        return self._std()

    def _crps(self, y):
        return np.where(self._nu() > 1, super()._crps(y), np.inf)


def normal_levels(q, df):
    """Levels of the normal law at Student's quantiles: (..., Q) for levels q (Q,) and degrees of freedom df (...)."""
    df = np.asarray(df, dtype=float)[..., None]
    return np.where(df > NORMAL_TAILS, q, ndtr(stdtrit(np.minimum(df, NORMAL_TAILS), q)))


def student_ratio(q, df):
    """Student's quantile over the normal one, (...), at a level q and degrees of freedom df (...)."""
    if q == 0.5:
        return np.ones_like(df)
    return np.where(df > NORMAL_TAILS, 1.0, stdtrit(np.minimum(df, NORMAL_TAILS), q) / ndtri(q))
