"""Normal and Student's t distribution."""

import numpy as np
from scipy.special import betaln, erf, gammaln, ndtr, ndtri, stdtr, stdtrit

from .base import Law, in_order

NORMAL_TAILS = 1e6  # degrees of freedom above which Student's t is normal to seven digits


class LocationScale(Law):
    """A distribution of centre + scale z, with quantiles of z that elements may have in common.

    A subclass writes ``_centre``, ``_scale`` and ``_standard(q)``, the quantiles of z (Q,) or (..., Q) at levels (Q,).
    """

    support = "real"

    def ppf(self, q):
        q, centre = np.asarray(q, dtype=float), self._centre()
        if not np.isfinite(centre).all():  # degenerate distributions, whatever their scale
            return super().ppf(q)
        quantiles = centre[..., None] + self._scale()[..., None] * self._standard(np.atleast_1d(q)) + 0.0  # no -0.0
        return in_order(quantiles, q) if q.ndim else quantiles[..., 0]


class Normal(LocationScale):
    """Normal distribution by its mean and variance; degenerate if the variance is zero."""

    # whole arrays at once: most predictions are normal
    def mean(self):
        return self.parameters[0]

    def var(self):
        return self.parameters[1]

    def std(self):
        return np.sqrt(self.parameters[1])

    def logpdf(self, y):
        return self._logpdf(y) if self._is_plain_at(y) else super().logpdf(y)

    def crps(self, y):
        return self._crps(y) if self._is_plain_at(y) else super().crps(y)

    def _is_plain_at(self, y):
        """Whether all numbers are finite and no distribution is degenerate."""
        mean, variance = self.parameters
        with np.errstate(invalid="ignore", over="ignore"):
            return np.isfinite(np.sum(mean) + np.sum(y)) and np.all(variance > 0)

    def _mean(self):
        return self.parameters[0]

    def _std(self):
        return np.sqrt(self.parameters[1])

    _centre, _scale = _mean, _std

    def _standard(self, q):
        return ndtri(q)

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
        return std * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi))

    def _sample(self, rng):
        return self._mean() + self._std() * rng.standard_normal(self.shape)


class Student(LocationScale):
    """Student's t distribution by its mean, variance and degrees of freedom nu > 2."""

    _mean, _std, _point = Normal._mean, Normal._std, Normal._point
    _centre = _mean

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

    def _standard(self, q):
        nu = self.parameters[2]
        same = nu.size and (nu == nu.flat[0]).all()
        return student_quantiles(q, nu.flat[0] if same else nu)

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
    """Student's t distribution of an estimate, by mean, squared standard error and degrees of freedom from 1 on.

    ``std`` is the standard error: the scale of the distribution, less than its standard deviation.
    """

    def _scale(self):
        return self._std()

    def _crps(self, y):
        return np.where(self._nu() > 1, super()._crps(y), np.inf)


def student_quantiles(q, nu):
    """Student's quantiles (..., Q) at levels q (Q,) and degrees of freedom nu (...); normal beyond NORMAL_TAILS."""
    nu = np.asarray(nu, dtype=float)
    quantiles = stdtrit(np.minimum(nu, NORMAL_TAILS)[..., None], q)
    beyond = nu > NORMAL_TAILS
    if beyond.any():
        quantiles[beyond] = ndtri(q)
    return quantiles


def normal_levels(q, df):
    """Levels of the normal law at Student's quantiles: (..., Q) for levels q (Q,) and degrees of freedom df (...)."""
    df = np.asarray(df, dtype=float)
    return np.where(df[..., None] > NORMAL_TAILS, q, ndtr(student_quantiles(q, df)))


def student_ratio(q, df):
    """Student's quantile over the normal one, (...), at a level q and degrees of freedom df (...)."""
    if q == 0.5:
        return np.ones_like(df)
    return student_quantiles(np.array([q]), df)[..., 0] / ndtri(q)
