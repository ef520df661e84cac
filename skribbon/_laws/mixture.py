"""The law of y where f is one of several draws."""

import numpy as np
from scipy.special import logsumexp

from .base import Law
from .normal import Normal
from .numerics import integrate_crps, normals_crps, points_crps


class Mixture(Law):
    """Mixture of a law over its last axis: the predictive law where f is one of several, equally likely by default."""

    trailing = 1

    def __init__(self, law, weights=None):
        self.law, self.weights = law, weights
        self.shape, self.width = law.shape[:-1], max(law.shape[-1], 1)
        self.discrete, self.support, self.atom = law.discrete, law.support, law.atom
        if weights is None:
            self.weights = np.full(law.shape[-1], 1 / law.shape[-1])

    def take(self, index):
        """The mixtures of some elements."""
        law, B = self.law, self.law.shape[-1]
        parameters = (p.reshape(-1, B)[index] for p in law.parameters)
        return Mixture(type(law)(*parameters, **law.constants), self.weights)

    def _point(self):
        return self.law._point().all(axis=-1) & _all_equal(self.law._mean())

    def _mean(self):
        means = self.law._mean()
        with np.errstate(all="ignore"):
            return np.where(_all_equal(means), means[..., 0], means @ self.weights)  # not rounded if all are equal

    def _std(self):
        with np.errstate(all="ignore"):
            centred = self.law._mean() - self._mean()[..., None]
            top = np.maximum(np.abs(centred).max(axis=-1), self.law._std().max(axis=-1))[..., None]  # no overflow
            top = np.where(top > 0, top, 1.0)
            std = np.sqrt(((centred / top) ** 2 + (self.law._std() / top) ** 2) @ self.weights) * top[..., 0]
        return np.where(np.isnan(std), np.inf, std)

    def _cdf(self, y):
        y = y[..., None]
        if self.discrete:  # the smooth function through the cdf of counts, of points too
            return np.where(self.law._point(), y + 0.5 >= self.law._mean(), self.law._cdf(y)) @ self.weights
        return self.law._cdf_at(y) @ self.weights

    def _cdf_below_at(self, y):
        return np.clip(self.law._cdf_below_at(y[..., None]) @ self.weights, 0, 1)

    def _ppf(self, q):
        """Between the smallest and the largest quantile of the components; halved to the last digits.

        Components may be far apart and narrow, a staircase on which no faster search is safe.
        """
        ends = self._quantiles(q)
        low, high, rows = ends.min(axis=-1), ends.max(axis=-1), np.arange(q.size)
        for _ in range(70):  # 64 halve the order of all floats, and some are for rounding to whole numbers
            resolution = np.maximum(np.spacing(high), 1.0) if self.discrete else 1e-13 * np.abs(high)
            rows = rows[(high - low > resolution)[rows]]
            if not rows.size:
                break
            law = self if rows.size == q.size else self.take(rows)
            middle = halfway(low[rows], high[rows])
            middle = np.maximum(np.floor(middle), low[rows] + 1) if self.discrete else middle
            enough = law._cdf_at(middle) >= q[rows]
            high[rows[enough]], low[rows[~enough]] = middle[enough], middle[~enough]
        return np.where(self._cdf_at(low) >= q, low, high)

    def _quantiles(self, q):
        """Those of the components (m, B)."""
        return self.law.take(slice(None))._ppf_at(np.repeat(q, self.law.shape[-1])).reshape(self.law.shape)

    def _ends(self, low, high):
        return self._quantiles(low).min(axis=-1), self._quantiles(high).max(axis=-1)

    def _logpdf_at(self, y):
        return logsumexp(self.law._logpdf_at(y[..., None]), axis=-1, b=self.weights)

    def _crps(self, y):
        if self.law._point().all():
            return points_crps(self.law._mean(), self.weights, y)
        if isinstance(self.law, Normal) and self.law.shape[-1] <= 256:  # pairs grow as the square
            return normals_crps(self.law._mean(), self.law.parameters[1], self.weights, y)
        return integrate_crps(self, y)


def _all_equal(means):
    return (means == means[..., :1]).all(axis=-1)


def halfway(low, high):
    """The float halfway between two in the order of all floats: 64 halvings lead from any two to neighbours."""
    a, b = rank(low), rank(high)
    middle = (a >> 1) + (b >> 1) + (a & b & 1)  # of whole numbers whose sum may overflow
    return np.copysign(np.abs(middle).view(float), middle)


def rank(x):
    """Place of a float in the order of all floats, zero at zero: the bits of |x| as a whole number count them."""
    bits = np.abs(x).view(np.int64)
    return np.where(x < 0, -bits, bits)
