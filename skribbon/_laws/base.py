"""One distribution per element of an array: the base class, the normal and Student's t distribution."""

from functools import partial
from math import prod

import numpy as np
from scipy.special import betaln, erf, gammaln, ndtr, ndtri, stdtr, stdtrit

from .numerics import integrate_crps, search_quantile

POINT = 1e-12  # relative standard deviation below which a positive distribution is a point: its cdf would be rounding
CHUNK = 2**19  # numbers in a temporary array: 4 MB, small enough for the cache
FARTHEST = 20.0  # largest normal score of a ratio of quantiles: squares of ratios do not overflow
NORMAL_TAILS = 1e6  # degrees of freedom above which Student's t is normal to seven digits

as_floats = partial(np.asarray, dtype=float)


class Law:
    """One distribution per element of an array.

    A subclass defines ``_std``, ``_cdf`` and ``_logpdf`` by elementwise parameters, of which the first is the mean, and
    constants. ``_cdf`` of counts is a smooth function through the cdf at whole numbers.
    """

    discrete = False  # whether all values are counts
    real = False  # whether values may be negative
    atom = False  # whether zero may have a positive probability and the other values a density
    closed_crps = False  # whether the CRPS has a closed form
    width = 1  # numbers of temporary memory per element

    def __init__(self, *parameters, **constants):
        self.parameters = np.broadcast_arrays(*map(as_floats, parameters))
        self.constants = constants
        self.shape = self.parameters[0].shape

    def take(self, index):
        """Distributions of some elements, by a slice or indices of the flattened shape."""
        return type(self)(*(p.reshape(-1)[index] for p in self.parameters), **self.constants)

    def _map(self, method, *arguments):
        """method(law, *arguments) over chunks of elements, for arguments that broadcast with the shape."""
        shape = np.broadcast_shapes(self.shape, *map(np.shape, arguments))
        flat = [np.broadcast_to(as_floats(a), shape).reshape(-1) for a in arguments]
        index = np.broadcast_to(np.arange(prod(self.shape)).reshape(self.shape), shape).reshape(-1)
        step, out = max(CHUNK // self.width, 1), np.empty(index.size)
        for start in range(0, index.size, step):
            part = slice(start, start + step)
            out[part] = method(self.take(index[part]), *(a[part] for a in flat))
        return out.reshape(shape)[()]

    def _mean(self):
        return self.parameters[0]

    def _point(self):
        """Whether each distribution is degenerate, a point at its mean."""
        mean = self._mean()
        return (self._std() <= POINT * mean) | ~np.isfinite(mean)

    def mean(self):
        """Mean of each element."""
        return self._map(type(self)._mean)

    def std(self):
        """Standard deviation of each element."""
        return self._map(type(self)._std)

    def var(self):
        """Variance of each element; infinite if it overflows."""
        with np.errstate(over="ignore", under="ignore"):
            return self.std() ** 2

    def cdf(self, y):
        """P(Y <= y) of each element."""
        return self._map(type(self)._cdf_at, np.floor(y) if self.discrete else y)

    def cdf_below(self, y):
        """P(Y < y) of each element."""
        y = np.ceil(y) - 1 if self.discrete else y
        return self._map(lambda law, y: law._cdf_at(y, closed=self.discrete), y)

    def _cdf_at(self, y, closed=True):
        """P(Y <= y), or P(Y < y) if not closed, also of degenerate distributions."""
        with np.errstate(all="ignore"):
            value = np.clip(self._cdf(y if self.real else np.maximum(y, 0)), 0, 1)
            mean = self._mean()
        if not self.real:
            value = np.where((y > 0) | ((y == 0) & (self.atom & closed | self.discrete)), value, 0.0)
        return np.where(self._point(), (y >= mean) if closed else (y > mean), value)

    def logpdf(self, y):
        """Log density, or log probability of counts and of an atom at zero."""
        return self._map(type(self)._logpdf_at, y)

    def _logpdf_at(self, y):
        inside = y < np.inf
        if self.discrete:
            inside &= (y >= 0) & (y == np.floor(y))
        elif not self.real:
            inside &= (y >= 0) if self.atom else (y > 0)
        with np.errstate(all="ignore"):
            value = np.where(inside, self._logpdf(np.where(inside, y, 1.0)), -np.inf)
            value = np.where(np.isnan(value), -np.inf, value)  # infinitely many standard deviations away
            mean = self._mean()
            at_the_point = y == mean
            if not self.discrete:  # a point that has some width includes values within rounding
                at_the_point |= (np.abs(y - mean) <= POINT * mean) & (self._std() > 0)
        top = 0.0 if self.discrete else np.inf
        return np.where(self._point(), np.where(at_the_point, top, -np.inf), value)

    def ppf(self, q):
        """Quantiles, of the distribution's shape for one level, with a last axis for an array (Q,) of levels."""
        q = as_floats(q)
        levels = q.reshape(q.shape + (1,) * len(self.shape))  # all in one search, which costs the same steps as one
        out = self._map(type(self)._ppf_at, levels)
        return in_order(np.moveaxis(out, 0, -1), q) if q.ndim else out

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

    def _ends(self, low, high):
        """Bounds of an integral: quantiles at two levels, or points not far beyond."""
        return self._ppf_at(low), self._ppf_at(high)

    def _guess(self, q):
        """Approximate quantiles at levels q from two or three moments, and how far off they may be."""
        mean, std, z = self._mean(), self._std(), ndtri(np.clip(q, 1e-300, 1 - 1e-16))
        if self.real:
            return mean + z * std, std
        spread = np.sqrt(np.log1p(np.minimum(std / mean, 1e100) ** 2))
        guess = mean * np.exp(z * spread - spread**2 / 2)
        return guess, 0.2 * spread * (guess if self.discrete else 1.0)

    def _coordinate(self):
        """Centre and scale of the coordinate arcsinh((y - centre) / scale) in which real quantiles are searched."""
        return self._mean(), self._std()

    def crps(self, y):
        """Continuous ranked probability score of each observation."""
        return self._map(type(self)._crps_at, y)

    def _crps_at(self, y):
        with np.errstate(all="ignore"):
            score = np.abs(y - self._mean())
            rows = np.flatnonzero(~self._point() & np.isfinite(y))
            if rows.size:
                law = self if rows.size == y.size else self.take(rows)
                score[rows] = law._crps(y[rows])
        return np.where(np.isnan(score), np.inf if np.any(np.isfinite(y)) else np.nan, score)

    def _crps(self, y):
        return integrate_crps(self, y)

    def sample(self, rng):
        """One draw per element."""
        with np.errstate(all="ignore"):
            return np.where(self._point(), self._mean(), self._sample(rng))


class LocationScale(Law):
    """Distribution of centre + scale z, with the centre as first and a variance as second parameter.

    A subclass defines quantiles of z, ``_standard_ppf(q)``, at levels that broadcast with the parameters.
    """

    real = True

    def _std(self):
        return np.sqrt(self.parameters[1])

    _scale = _std

    def _point(self):
        return (self.parameters[1] == 0) | ~np.isfinite(self.parameters[0])

    def _z(self, y):
        return (y - self.parameters[0]) / self._scale()

    def logpdf(self, y):
        with np.errstate(all="ignore"):
            plain = np.isfinite(np.sum(self.parameters[0]) + np.sum(y)) and np.all(self.parameters[1] > 0)
            return self._logpdf(y) if plain else super().logpdf(y)  # most are finite, and no degenerate points

    def ppf(self, q):
        if not np.isfinite(self.parameters[0]).all():  # degenerate distributions, whatever their scale
            return super().ppf(q)
        q, each = as_floats(q), type(self)(*[p[..., None] for p in self.parameters], **self.constants)
        quantiles = each._ppf(np.atleast_1d(q)) + 0.0  # no minus zero
        return in_order(quantiles, q) if q.ndim else quantiles[..., 0]

    def _ppf(self, q):
        return self.parameters[0] + self._scale() * self._standard_ppf(q)


class Normal(LocationScale):
    """Normal distribution by its mean and variance."""

    closed_crps = True

    def _standard_ppf(self, q):
        return ndtri(q)

    def _cdf(self, y):
        return ndtr(self._z(y))

    def _logpdf(self, y):
        return -(self._z(y) ** 2) / 2 - np.log(self._std()) - np.log(2 * np.pi) / 2

    def _crps(self, y):
        z = self._z(y)
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return self._std() * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi))

    def _sample(self, rng):
        return self.parameters[0] + self._std() * rng.standard_normal(self.shape)


class Student(LocationScale):
    """Student's t distribution by its mean, variance and degrees of freedom nu > 2."""

    closed_crps = True

    def _nu(self):
        return np.minimum(self.parameters[2], NORMAL_TAILS)

    def _scale(self):
        return self._std() * np.sqrt(1 - 2 / self.parameters[2])

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

    def _standard_ppf(self, q):
        nu = self.parameters[2]
        return student_quantiles(q, nu.flat[:1] if nu.size and (nu == nu.flat[0]).all() else nu)

    def _crps(self, y):
        z, nu = self._z(y), self._nu()
        spread = 2 * np.sqrt(nu) / (nu - 1) * np.exp(betaln(0.5, nu - 0.5) - 2 * betaln(0.5, nu / 2))
        density = np.exp(self._standard_logpdf(z))
        return self._scale() * (z * (2 * stdtr(nu, z) - 1) + 2 * density * (nu + z**2) / (nu - 1) - spread)

    def _sample(self, rng):
        return self.parameters[0] + self._scale() * rng.standard_t(self._nu(), self.shape)


class Estimate(Student):
    """Student's t distribution of an estimate, by mean, squared standard error and degrees of freedom from 1 on.

    ``std`` is the standard error: the scale of the distribution, less than its standard deviation.
    """

    _scale = LocationScale._std

    def _crps(self, y):
        return np.where(self._nu() > 1, super()._crps(y), np.inf)


def in_order(quantiles, q):
    """Quantiles (..., Q) made nondecreasing in their levels q (Q,), despite rounding."""
    order = np.argsort(q, kind="stable")
    quantiles[..., order] = np.maximum.accumulate(quantiles[..., order], axis=-1)
    return quantiles


def student_quantiles(q, nu):
    """Student's t quantiles at levels q and degrees of freedom nu, which broadcast; normal above NORMAL_TAILS."""
    return np.where(nu > NORMAL_TAILS, ndtri(q), stdtrit(np.minimum(nu, NORMAL_TAILS), q))


def normal_levels(q, df):
    """Normal cdf (..., Q) at Student's t quantiles, for levels q (Q,) and degrees of freedom df (...)."""
    df = as_floats(df)[..., None]
    return np.where(df > NORMAL_TAILS, q, ndtr(student_quantiles(q, df)))


def student_ratio(z, df):
    """Ratio of Student's t to the normal quantile at normal scores z, for degrees of freedom df, which broadcast."""
    z = np.clip(-np.abs(z), -FARTHEST, -1e-3)  # lower tails have more digits; the limit at the median, to 1e-6
    return student_quantiles(ndtr(z), as_floats(df)) / z
