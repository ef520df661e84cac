"""Mean scores of many normal laws N(f_i, s_i^2 + c v_i) along a path of factors c, from few of them.

In units of c + k the variances are linear in t = c / (c + k), and the mean of a smooth score is an analytic function of
t, singular where one of them is zero. For a k amid the ratios s_i^2 / v_i that is far from the path, and the polynomial
through few of Chebyshev's points is the function. Each interval covers its row from a factor on that is known.
"""

from math import acosh, ceil, log

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.special import erf, ndtri

from .quadrature import chebyshev

TOLERANCE = 1e-9  # that the nodes are meant for
TRUSTED = 1e-10  # share of a score that its last coefficients may be


def normal_path_scores(residual, noise, variance, factors, level, weight=None):
    """Mean scores (A,) at factors (A,) of rows with residuals y - f (m,), or None where few laws do not tell them.

    ``noise`` and ``variance`` (m,) make the variance noise + factor variance; ``level`` is that of the interval.
    """
    share = np.full(len(residual), 1 / len(residual)) if weight is None else weight / weight.sum()
    spread = variance > 0
    finite = np.isfinite(residual).all() and np.isfinite(noise).all() and np.isfinite(variance).all()
    if not finite or not (noise > 0).all() or not spread.any() or not np.ptp(factors) > 0:
        return None
    ratio = noise[spread] / variance[spread]
    k = float(np.sqrt(ratio.min()) * np.sqrt(ratio.max()))
    singular = [r / (r - k) for r in (ratio.min(), ratio.max()) if r != k]
    z = float(ndtri((1 + level) / 2))

    def in_units(t):
        """Of variances c + k, which t turns into (1 - t) noise + t k variance, divided by k."""
        return _smooth_scores(residual * np.sqrt((1 - t) / k), (noise * (1 - t) + variance * (k * t)) / k, share)

    smooth = _interpolated(in_units, factors / (factors + k), singular)
    if smooth is None:
        return None
    unit = np.sqrt(factors + k)
    width, crps, nll = 2 * z * unit * smooth[0], unit * smooth[1], smooth[2] + np.log(unit)
    outside, missed = _outside(residual, noise, variance, factors, z, share)
    score = width + 2 / (1 - level) * missed
    return {"coverage": 1 - outside, "width": width, "interval_score": score, "nll": nll, "crps": crps}


def _smooth_scores(residual, variance, share):
    """Mean standard deviation, CRPS and negative log density."""
    std = np.sqrt(variance)
    z = residual / std
    squared = z * z
    nll = (np.log(variance) @ share + squared @ share + np.log(2 * np.pi)) / 2
    squared *= -0.5
    np.exp(squared, out=squared)
    squared *= np.sqrt(2 / np.pi)
    squared += z * erf(z * np.sqrt(0.5))
    squared *= std
    width = std @ share
    return width, squared @ share - width / np.sqrt(np.pi), nll


def _interpolated(function, t, singular):
    """function (S,) at places t (A,), as (S, A), through fewer than those; None where they do not tell it.

    It is singular at some places on the line.
    """
    low, high = t.min(), t.max()
    away = min((abs(2 * place - low - high) / (high - low) for place in singular), default=2.0)
    n = 3 + ceil(log(1 / TOLERANCE) / acosh(max(away, 1 + 1e-6)))
    while n < len(t):
        x, to_coefficients = chebyshev(n)
        coefficients = to_coefficients @ np.array([function(low + (high - low) * (u + 1) / 2) for u in x])  # (n, S)
        if np.all(np.abs(coefficients[-2:]).sum(axis=0) <= TRUSTED * np.abs(coefficients).sum(axis=0)):
            return (chebvander((2 * t - low - high) / (high - low), n - 1) @ coefficients).T
        n *= 2  # residuals far out take more
    return None


def _outside(residual, noise, variance, factors, z, share):
    """Share of rows outside their intervals, and by how much they are on average, (A,) each."""
    size = np.abs(residual)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = ((size / z) ** 2 - noise) / variance  # from which factor on the interval reaches the row
    first = np.where(variance > 0, first, np.where(size <= z * np.sqrt(noise), -np.inf, np.inf))
    rows = np.flatnonzero(first > factors.min())  # the others are never outside
    rows = rows[np.argsort(first[rows])]
    size, noise, variance, share = (column[rows] for column in (size, noise, variance, share))
    out = np.empty((2, len(factors)))
    for a, start in enumerate(np.searchsorted(first[rows], factors, side="right")):
        beyond = size[start:] - z * np.sqrt(noise[start:] + factors[a] * variance[start:])
        out[:, a] = share[start:].sum(), beyond @ share[start:]
    return out
