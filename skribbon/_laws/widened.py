"""Distributions of y whose raw prediction has Student's t distribution, made of those with a normal one."""

from functools import partialmethod

import numpy as np
from scipy.special import ndtr, ndtri

from .._utils.compat import cached_property
from .base import FARTHEST, Law, student_ratio
from .numerics import find_root

FAR = 6.0  # normal score from which 1 - cdf has too few digits for a difference, and the raw prediction dominates


class Widened(Law):
    """Distribution of y by quantiles: at each level, the raw prediction is normal with the t quantile of this level.

    If the noise is symmetric with one peak, an interval of y then contains the raw prediction's t interval of the same
    level. With normal noise, squared half-widths of both parts add up.
    """

    def __init__(self, build, rows, df):
        self.build = build  # build(rows, ratio): Law of y with deviations of raw predictions multiplied by a ratio
        self.rows, self.df, self.shape = rows, df, rows.shape
        example = build(rows[:1], np.ones(1))
        self.discrete, self.real, self.atom, self.width = example.discrete, example.real, example.atom, example.width

    def take(self, index):
        """Distributions of some elements, by a slice or indices."""
        return Widened(self.build, self.rows[index], self.df[index])

    @cached_property
    def normal(self):
        """Distribution with normal raw predictions."""
        return self.build(self.rows, np.ones(len(self.rows)))

    def _mean(self):
        return self.normal._mean()

    def _std(self):
        return self.normal._std()

    def _point(self):
        return self.normal._point()

    def _ppf(self, q):
        return self.build(self.rows, student_ratio(ndtri(q), self.df))._ppf_at(q)

    def _cdf(self, y):
        return ndtr(self._score(y))

    def _score_at(self, z, y):
        """Normal score (m,) of the cdf at y if raw predictions are normal with the t quantile at score z."""
        cdf = self.build(self.rows, student_ratio(z, self.df))._cdf(y)
        return np.nan_to_num(np.clip(ndtri(np.clip(cdf, 0, 1)), -40.0, 40.0))  # the median of an infinite spread

    def _score(self, y):
        """Normal score (m,) of the cdf at y: the fixed point of :meth:`_score_at`, which decreases in abs(z)."""

        def residual(z, rows):
            part = self if len(rows) == len(self.rows) else self.take(rows)
            return z - part._score_at(z, y[rows])

        everywhere, a, b = np.arange(len(self.rows)), np.full(y.shape, -FARTHEST), np.full(y.shape, FARTHEST)
        fa, fb = residual(a, everywhere), residual(b, everywhere)
        z = np.where(fa >= 0, a, b)
        inside = np.flatnonzero((fa < 0) & (fb >= 0))
        ends = (end[inside] for end in (a, b, fa, fb))
        z[inside] = find_root(lambda z, rows: residual(z, inside[rows]), *ends)
        return z

    def _logpdf(self, y):
        z = self._score(y)
        if self.discrete:
            below = np.where(y > 0, ndtr(self._score(y - 1)), 0.0)
            return np.log(np.maximum(ndtr(z) - below, np.finfo(float).tiny))
        step = 1e-4  # balances rounding of the cdf and curvature
        change = (self._score_at(z + step, y) - self._score_at(z - step, y)) / (2 * step)
        growth = np.log(student_ratio(z + step, self.df) / student_ratio(z - step, self.df)) / (2 * step)
        change = np.where(np.abs(z) > FAR, -z * growth, change)
        return self.build(self.rows, student_ratio(z, self.df))._logpdf_at(y) - np.log(np.maximum(1 - change, 1e-3))


class Patched(Law):
    """Distributions of which some elements are replaced."""

    def __init__(self, law, rows, other):
        self.law, self.rows, self.other = law, rows, other
        self.shape, self.closed_crps = law.shape, law.closed_crps
        self.discrete, self.real, self.atom, self.width = law.discrete, law.real, law.atom, law.width

    def _patched(self, method, argument):
        """Result of a method of both laws at an argument that broadcasts with the shape."""
        argument = np.broadcast_to(argument, self.shape)
        out = np.array(getattr(self.law, method)(argument))
        out[self.rows] = getattr(self.other, method)(argument[self.rows])
        return out

    def mean(self):
        return self.law.mean()

    def std(self):
        return self.law.std()

    cdf = partialmethod(_patched, "cdf")
    cdf_below = partialmethod(_patched, "cdf_below")
    logpdf = partialmethod(_patched, "logpdf")
    crps = partialmethod(_patched, "crps")

    def ppf(self, q):
        out = np.array(self.law.ppf(q))
        out[self.rows] = self.other.ppf(q)
        return out
