"""A law: one distribution per element of an array."""

from math import prod

import numpy as np
from scipy.special import ndtri

from .numerics import integrate_crps, search_quantile

POINT = 1e-12  # a positive law whose relative standard deviation is below this is a point
CHUNK = 2**19  # numbers in a temporary array: 4 MB, small enough for the cache


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
        arrays = [np.asarray(p, dtype=float) for p in parameters]
        alike = all(a.shape == arrays[0].shape for a in arrays)
        self.parameters = arrays if alike else np.broadcast_arrays(*arrays)
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
        size, step = prod(shape), max(CHUNK // self.width, 1)
        flat = [np.broadcast_to(a, shape).reshape(-1) for a in arguments]
        own = shape == self.shape
        index = None if own else np.broadcast_to(np.arange(prod(self.shape)).reshape(self.shape), shape).ravel()
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
        return np.where(self._point(), self._point_logpdf(y), value)

    def _point_logpdf(self, y):
        """Log density of a point; one that has some width is one to rounding, and what is as near is at it."""
        mean = self._mean()
        at_the_point = y == mean
        if self.discrete:
            return np.where(at_the_point, 0.0, -np.inf)
        with np.errstate(all="ignore"):
            at_the_point |= (np.abs(y - mean) <= POINT * mean) & (self._std() > 0)
        return np.where(at_the_point, np.inf, -np.inf)

    def ppf(self, q):
        """Quantiles: of the law's shape for one level, with a last axis for an array (Q,) of them."""
        q = np.asarray(q, dtype=float)
        levels = q.reshape(q.shape + (1,) * len(self.shape))  # all in one search, which costs the same steps as one
        out = self._map(lambda law, a: law._ppf_at(a), levels)
        if q.ndim == 0:
            return out
        return in_order(np.moveaxis(out, 0, -1), q)

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
        """Ends of what is to be integrated: quantiles at two levels, or what is not far beyond."""
        return self._ppf_at(low), self._ppf_at(high)

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


def in_order(quantiles, q):
    """Quantiles (..., Q) in the order of their levels q (Q,), to the last bit."""
    order = np.argsort(q, kind="stable")
    quantiles[..., order] = np.maximum.accumulate(quantiles[..., order], axis=-1)
    return quantiles
