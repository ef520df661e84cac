"""The continuous ranked probability score (CRPS) of laws that have none in closed form."""

import numpy as np
from scipy.special import ndtr

from .quadrature import LEGENDRE, legendre

SUMMED = 64.0  # counts below are summed; from there on, where the noise is that of eight or more, their cdf is smooth


def integrate_crps(law, y, n_nodes=2 * LEGENDRE):
    """CRPS = integral of (F(x) - 1[x >= y])^2 dx, for a law and observations of shape (m,).

    By ``n_nodes`` on either side of y.
    """
    if not law.discrete:
        return _integrate(law, y, n_nodes)
    whole = np.floor(y)  # from one whole number to the next the score is a line
    return _integrate(law, whole, n_nodes) + (y - whole) * (
        2 * np.where(y < 0, 0.0, np.clip(law._cdf(whole), 0, 1)) - 1
    )


def _integrate(law, y, n_nodes):
    """The same, for whole numbers under a law of counts.

    Below ``low`` and above ``high`` F is 0 or 1. In between the integral is Gauss-Legendre on either side of y,
    in a coordinate where every scale is near; small counts are summed.
    """
    cv = np.fmin(law._std() / law._mean(), 1e100) if law.support != "real" else np.ones(y.shape)
    beyond = np.minimum(4.5 + np.sqrt(np.log1p(cv**2)) / 2, 8.0)  # heavy tails matter further out
    low, high = law._ends(np.full(y.shape, 1e-5), ndtr(beyond))
    low = np.minimum(low, np.finfo(float).max / 4)
    high = np.clip(high, low, np.finfo(float).max / 4)
    score = np.maximum(y - high, 0) + np.maximum(low - np.maximum(y, 0 if law.support != "real" else -np.inf), 0)
    if law.support == "real":
        centre, scale = law._ppf_at(np.full(y.shape, 0.5)), law._ppf_at(np.full(y.shape, 0.75))
        scale = np.maximum(scale - centre, 1e-9 * (high - low))
        middle = np.clip(y, low, high)
        for start, stop, target in ((low, middle, 0.0), (middle, high, 1.0)):
            a, b = np.arcsinh((start - centre) / scale), np.arcsinh((stop - centre) / scale)
            for t, w in zip(*legendre(n_nodes), strict=True):
                u = a + (b - a) * (t + 1) / 2
                score += (b - a) / 2 * w * scale * np.cosh(u) * (law._cdf(centre + scale * np.sinh(u)) - target) ** 2
        return score
    score += np.maximum(-y, 0)  # below the support
    shift = 0.0
    if law.discrete:
        shift = 0.5  # the integral of F over [k, k + 1) is, nearly, that of the smooth cdf half a number earlier
        start = np.clip(SUMMED, low, high)
        score += _sum_of_counts(law, y, low, start) + _rest_of_counts(law, y, start, high)
    else:  # below a trace of a high quantile F is taken for constant
        cut = np.minimum(np.maximum(low, 1e-8 * law._ppf_at(np.full(y.shape, 0.99))), high)
        F = law._cdf(cut)
        below = np.clip(y, low, cut) - low
        score += below * F**2 + (cut - low - below) * (1 - F) ** 2
        start = cut
    middle = np.clip(y, start, high)
    for begin, end, target in ((start, middle, 0.0), (middle, high, 1.0)):
        rows = np.flatnonzero(end > begin)
        if not rows.size:
            continue
        part = law if rows.size == y.size else law.take(rows)
        a, b = np.log(begin[rows]), np.log(end[rows])
        total = np.zeros(rows.size)
        for t, w in zip(*legendre(n_nodes), strict=True):
            x = np.exp(a + (b - a) * (t + 1) / 2)
            total += (b - a) / 2 * w * x * (np.clip(part._cdf(x - shift), 0, 1) - target) ** 2
        score[rows] += total
    return score


def _sum_of_counts(law, y, start, stop):
    """The part of the CRPS of counts between whole numbers, number by number."""
    score = np.zeros(y.shape)
    for j in range(int(np.max(stop - start))):
        rows = np.flatnonzero(start + j < stop)
        k = start[rows] + j
        F = np.clip((law if rows.size == y.size else law.take(rows))._cdf(k), 0, 1)
        share = np.clip(y[rows] - k, 0, 1)  # of [k, k + 1) that is below y
        score[rows] += share * F**2 + (1 - share) * (1 - F) ** 2
    return score


def _rest_of_counts(law, y, start, high):
    """What the staircase between start and high has more than the smooth function: Euler's and Maclaurin's first term.

    That is -[g'] / 24 of g = (F - 1[x >= y])^2, from start to y and from y to high.
    """

    def slope(k):
        return np.clip(law._cdf(k), 0, 1) - np.clip(law._cdf(k - 1), 0, 1)

    at_y = np.where((y > start) & (y < high), slope(y), 0.0)
    at_start = np.where(high > start, slope(start) * (law._cdf(start - 0.5) - (y <= start)), 0.0)
    return (at_start - at_y) / 12


def points_crps(points, weights, y):
    """CRPS of a law of weighted points (m, B): E|X - y| - E|X - X'| / 2, the latter from the sorted points."""
    order = np.argsort(points, axis=-1)
    x = np.take_along_axis(points, order, axis=-1)
    w = np.broadcast_to(weights, x.shape)
    w = np.take_along_axis(w, order, axis=-1)
    below = np.cumsum(w, axis=-1)[..., :-1]
    gaps = np.diff(x, axis=-1)
    return (np.abs(x - y[..., None]) * w).sum(axis=-1) - (gaps * below * (1 - below)).sum(axis=-1)


def normals_crps(means, variances, weights, y):
    """CRPS of a mixture of normal laws (m, B): E|X - y| - E|X - X'| / 2, with E|N(a, v)| in closed form."""

    def expected_size(a, v):
        std = np.sqrt(v)
        z = np.divide(a, std, out=np.sign(a) * np.inf, where=std > 0)
        z = np.where(np.isnan(z), 0.0, z)
        return a * (2 * ndtr(z) - 1) + std * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)

    score = expected_size(means - y[:, None], variances) @ weights
    for b in range(len(weights)):
        pairs = expected_size(means - means[:, b : b + 1], variances + variances[:, b : b + 1])
        score -= weights[b] * (pairs @ weights) / 2
    return score


def energy_scores(y, draws):
    """Energy score (n,) of observations y (n, m) under draws (S, n, m): E|Y - y| - E|Y - Y'| / 2."""
    scores = np.linalg.norm(draws - y, axis=2).mean(axis=0)
    for draw in draws:  # no S x S array
        scores -= np.linalg.norm(draws - draw, axis=2).sum(axis=0) / (2 * len(draws) ** 2)
    return scores
