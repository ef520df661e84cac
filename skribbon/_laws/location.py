"""Normal and Student's law."""

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.special import betaln, erf, gammaln, ndtr, ndtri, stdtr, stdtrit

from .base import Law, in_order
from .quadrature import chebyshev

NORMAL_TAILS = 1e6  # degrees of freedom from which Student's law is normal to seven digits
MANY = 500  # degrees of freedom whose quantiles are interpolated
DEGREES = (12, 24, 48)  # of polynomials, the fewest that suffice
ROUNDING = 1e-12  # of the logarithm of a quantile
BLOCK = 4096  # elements that stay in the cache
FEW = 64  # elements for which calls cost more than arithmetic


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
        return located(self.mean(), self.std(), ndtri(np.asarray(q, dtype=float)))

    def logpdf(self, y):
        return self._logpdf(y) if self._is_plain_at(y) else super().logpdf(y)

    def crps(self, y):
        return self._crps(y) if self._is_plain_at(y) else super().crps(y)

    def _is_plain_at(self, y):
        """Whether there is nothing but finite numbers, and no point among the laws."""
        mean, variance = self.parameters
        with np.errstate(invalid="ignore", over="ignore"):
            return np.isfinite(np.sum(mean) + np.sum(y)) and np.all(variance > 0)

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
        return std * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi))

    def _sample(self, rng):
        return self._mean() + self._std() * rng.standard_normal(self.shape)


class LocationScale(Law):
    """A law that is centre + scale z, with standard quantiles of z that most elements have in common.

    A subclass writes ``_centre``, ``_scale`` and ``_standard(q)``, the quantiles of z (Q,) or (..., Q) at levels (Q,).
    """

    support = "real"

    def ppf(self, q):
        q = np.asarray(q, dtype=float)
        centre = self._centre()
        if not np.isfinite(centre).all():  # points, whatever their scale
            return super().ppf(q)
        if not q.ndim:
            return located(centre, self._scale(), self._standard(q[None]))[..., 0]
        return in_order(located(centre, self._scale(), self._standard(q)), q)


def located(centre, scale, z):
    """centre + scale z, (...) for one z, (..., Q) for z (Q,) or (..., Q)."""
    centre = centre + 0.0  # no minus zero
    if not z.ndim or not centre.ndim:
        return centre + scale * z
    if centre.size <= FEW:
        return centre[..., None] + np.asarray(scale)[..., None] * z
    out = np.empty((z.shape[-1], *centre.shape))
    for j in range(z.shape[-1]):  # three times as fast as along a short last axis
        np.multiply(scale, z[..., j], out=out[j])
        out[j] += centre
    return np.moveaxis(out, 0, -1)


class Student(LocationScale):
    """Student's law by its mean, variance and degrees of freedom nu > 2."""

    def __init__(self, mean, variance, nu):
        super().__init__(mean, variance, nu)

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
    """Student's law of an estimate, by its mean, squared standard error and any degrees of freedom from 1 on.

    Its ``std`` is the standard error, which is the scale of the law and less than its own standard deviation.
    """

    def _scale(self):
        return self._std()

    def _crps(self, y):
        return np.where(self._nu() > 1, super()._crps(y), np.inf)


def student_quantiles(q, nu):
    """Student's quantiles (..., Q) at levels q (Q,) and degrees of freedom nu (...); normal beyond NORMAL_TAILS."""
    nu = np.asarray(nu, dtype=float)
    with np.errstate(all="ignore"):
        quantiles = _interpolated(q, nu) if nu.size > MANY else None
    if quantiles is None:
        quantiles = stdtrit(np.minimum(nu, NORMAL_TAILS)[..., None], q)
    beyond = nu > NORMAL_TAILS
    if beyond.any():
        quantiles[beyond] = ndtri(q)
    return quantiles


def _interpolated(q, nu):
    """The same of many nu: Student's quantile over the normal one is a smooth function of 1 / nu.

    None where Chebyshev's polynomials do not have it to rounding.
    """
    x, z = 1 / nu.ravel(), ndtri(q)
    low, high = x.min(), x.max()
    for n in DEGREES:
        nodes, to_coefficients = chebyshev(n)
        at = low + (high - low) * (nodes[:, None] + 1) / 2
        ratio = stdtrit(1 / np.maximum(at, 1 / NORMAL_TAILS), q) / z  # (n, Q)
        coefficients = to_coefficients @ np.log(np.where(q == 0.5, 1.0, ratio))
        if np.abs(coefficients[-2:]).sum() <= ROUNDING:  # which is false of what is not a number
            break
    else:
        return None
    quantiles = np.empty((len(x), len(q)))
    for start in range(0, len(x), BLOCK):
        place = (2 * x[start : start + BLOCK] - low - high) / (high - low or 1.0)
        quantiles[start : start + BLOCK] = z * np.exp(chebvander(place, n - 1) @ coefficients)
    return quantiles.reshape(*nu.shape, len(q))


def normal_levels(q, df):
    """Levels of the normal law at Student's quantiles: (..., Q) for levels q (Q,) and degrees of freedom df (...)."""
    df = np.asarray(df, dtype=float)
    return np.where(df[..., None] > NORMAL_TAILS, q, ndtr(student_quantiles(q, df)))


def student_ratio(q, df):
    """Student's quantile over the normal one, (...), at a level q and degrees of freedom df (...)."""
    if q == 0.5:
        return np.ones_like(df)
    return student_quantiles(np.array([q]), df)[..., 0] / ndtri(q)
