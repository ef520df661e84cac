"""Quantiles and continuous ranked probability scores (CRPS) of distributions without a closed form, from their cdf."""

from functools import cache

import numpy as np
from scipy.interpolate import RectBivariateSpline
from scipy.special import ndtr, ndtri

LOG_MAX = np.log(np.finfo(float).max)  # largest coordinate of a quantile: exp overflows beyond

legendre = cache(np.polynomial.legendre.leggauss)


def search_quantile(law, q):
    """Smallest y with cdf(y) >= q, for distributions of shape (m,) and levels (m,)."""
    out = np.zeros(q.shape)
    rows = np.flatnonzero(~(law._cdf(out) >= q)) if law.atom else np.arange(q.size)  # levels that zero has not reached
    if rows.size:
        out[rows] = search_inside(law if rows.size == q.size else law.take(rows), q[rows])
    return whole_quantile(law, q, out) if law.discrete else out


def search_inside(law, q, lowest=0.0):
    """Points (m,) at which the cdf reaches levels (m,) above its value at zero, by Chandrupatla's method.

    For counts, log(y + 1) is at least ``lowest``.
    """
    u, step, low, to_y = coordinate(law, *(np.broadcast_to(a, q.shape) for a in law._guess(q)), lowest)
    target = np.clip(ndtri(q), -39, 39)

    def residual(u, rows):
        """Probit of the cdf minus probit of the level: negative if u is too low."""
        part = law if len(rows) == q.size else law.take(rows)
        return np.clip(ndtri(np.clip(part._cdf(to_y(u, rows)), 0, 1)), -40, 40) - target[rows]

    a, b, fa, fb = grow_bracket(residual, u, step, low)
    out = np.where(fb < 0, np.inf, -np.inf if law.real else 0.0)  # levels beyond either end
    rows = np.flatnonzero((fa < 0) & (fb >= 0))
    found = find_root(lambda u, part: residual(u, rows[part]), *(end[rows] for end in (a, b, fa, fb)))
    out[rows] = to_y(found, rows)
    return out


def find_root(residual, a, b, fa, fb):
    """Roots (m,) of increasing functions between ends a and b with residuals fa < 0 <= fb, by Chandrupatla's method.

    ``residual(x, rows)`` is evaluated at some rows.
    """
    out, rows = np.array(b), np.arange(len(b))
    x, f = np.stack([b, a, a]), np.stack([fb, fa, fa])  # newest, other end of the bracket, last
    with np.errstate(all="ignore"):
        t = np.clip(f[0] / (f[0] - f[1]), 0.02, 0.98)  # first a secant: the probit is nearly a line
        for _ in range(200):  # a bracket shrinks to rounding within some 60 steps
            lower, upper = x[:2].min(axis=0), x[:2].max(axis=0)
            resolution = 1e-13 + 4e-16 * np.abs(upper)
            done = (upper - lower <= 2 * resolution) | (np.abs(f[:2]).min(axis=0) <= 1e-11)  # of a standard deviation
            out[rows[done]] = np.where(np.abs(f[0]) <= np.abs(f[1]), x[0], x[1])[done]
            if done.all():
                break
            kept = ~done
            rows, x, f, t, floor = rows[kept], x[:, kept], f[:, kept], t[kept], (resolution / (upper - lower))[kept]
            new = x[0] + np.clip(t, floor, 1 - floor) * (x[1] - x[0])
            x, f, t = _shrink_bracket(x, f, new, residual(new, rows))
    return out


def coordinate(law, guess, step, lowest):
    """Guess and first step in a coordinate u, the lowest u, and the function from u at some rows to y."""
    if law.real:
        centre, scale = (np.broadcast_to(a, guess.shape) for a in law._coordinate())
        scale = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
        u, low = np.arcsinh((guess - centre) / scale), -LOG_MAX
        step = np.arcsinh(step / scale / np.cosh(u))
    elif law.discrete:
        u, low = np.log1p(guess), lowest
        step = np.log1p(step / (guess + 1))
    else:
        u, low = np.log(guess), -744.0  # log of the smallest positive float

    def to_y(u, rows):
        if law.real:
            return centre[rows] + scale[rows] * np.sinh(u)
        return np.expm1(u) if law.discrete else np.exp(u)

    u = np.clip(np.where(np.isnan(u), 0.0, u), low, LOG_MAX)
    return u, np.clip(np.where(np.isfinite(step), step, 1.0), 1e-13, 50.0), low, to_y


def grow_bracket(residual, u, step, low):
    """Ends a < root <= b around u (m,), if there are such between low and LOG_MAX, and their residuals."""
    rows, grow = np.arange(u.size), step.copy()
    a, b = np.maximum(u - step, low), np.minimum(u + step, LOG_MAX)
    fa, fb = residual(a, rows), residual(b, rows)
    for _ in range(64):
        up, down = np.flatnonzero((fb < 0) & (b < LOG_MAX)), np.flatnonzero((fa >= 0) & (a > low))
        if not up.size and not down.size:
            break
        grow *= 2.5
        a[up], fa[up], b[down], fb[down] = b[up], fb[up], a[down], fa[down]
        b[up], a[down] = np.minimum(b[up] + grow[up], LOG_MAX), np.maximum(a[down] - grow[down], low)
        fb[up], fa[down] = residual(b[up], up), residual(a[down], down)
    return a, b, fa, fb


def _shrink_bracket(x, f, new, f_new):
    """Bracket after a new point, and the next point as a share of the way from x[0] to x[1].

    x and f (3, m) are the newest point, the end on the other side of the root, the point that was replaced, and their
    residuals. The next point is by inverse quadratic interpolation if that is safe, or halfway.
    """
    same = (f_new >= 0) == (f[0] >= 0)
    x = np.stack([new, *np.where(same, [x[1], x[0]], x[:2])])
    f = np.stack([f_new, *np.where(same, [f[1], f[0]], f[:2])])
    (x1, x2, x3), (f1, f2, f3) = x, f
    xi, phi, alpha = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2), (x3 - x1) / (x2 - x1)
    safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    quadratic = f1 / (f2 - f1) * (f3 / (f2 - f3)) + alpha * (f1 / (f3 - f1)) * (f2 / (f3 - f2))
    return x, f, np.where(safe & np.isfinite(quadratic), quadratic, 0.5)


def whole_quantile(law, q, y):
    """Smallest whole number whose cdf reaches q, given the point y at which the smooth cdf does."""
    k = np.ceil(y - 1e-7)
    finite = np.flatnonzero(np.isfinite(k) & (k < 2.0**53))
    if finite.size:
        short = law.take(finite)._cdf(k[finite]) < q[finite] * (1 - 1e-14)
        k[finite[short]] += 1
    return np.maximum(k, 0)


def spline_quantiles(law, f, v, noise, level, law_at, spacing=0.1, tolerance=1e-6):
    """Quantiles (m,) at a level, of distributions that differ smoothly in coordinates f and v (m,) only.

    A spline interpolates quantiles of ``law_at(f, v)`` at a grid; a ``spacing`` of 0.1 leaves an error of about 1e-8.
    NaN outside the grid, which leaves out the outermost rows, and everywhere if the error exceeds ``tolerance`` times
    ``noise``, the typical standard deviation of log y.
    """
    out = np.full(f.shape, np.nan)
    (low_f, low_v), (high_f, high_v) = np.quantile([f, v], [0.002, 0.998], axis=1)
    inside = np.flatnonzero((f >= low_f) & (f <= high_f) & (v >= low_v) & (v <= high_v))
    knots = [np.linspace(a, b, 8 + int((b - a) / spacing)) for a, b in ((low_f, high_f), (low_v, high_v))]
    if not (high_f > low_f and high_v > low_v and len(knots[0]) * len(knots[1]) < inside.size):
        return out

    def logarithm(f, v):
        part, q = law_at(f, v), np.full(f.shape, level)
        return np.log1p(search_inside(part, q, -7.0)) if law.discrete else np.log(part._ppf_at(q)) - f

    values = logarithm(*(a.ravel() for a in np.meshgrid(*knots, indexing="ij")))
    if not np.isfinite(values).all():
        return out
    spline = RectBivariateSpline(*knots, values.reshape(len(knots[0]), -1), kx=5, ky=5)
    u, some = spline(f[inside], v[inside], grid=False), slice(None, None, max(inside.size // 50, 1))
    # error bound for all rows: five times the largest error at some 50 rows, found by a search
    error = 5 * np.abs(u[some] - logarithm(f[inside][some], v[inside][some])).max()
    if error > tolerance * noise:
        return out
    if not law.discrete:
        out[inside] = np.exp(u + f[inside])
        return out
    y = np.expm1(u)
    out[inside] = np.maximum(np.ceil(y), 0.0)
    doubt = np.flatnonzero(np.abs(y - np.rint(y)) <= error * (1 + y))
    rows = inside[doubt]
    out[rows] = whole_quantile(law.take(rows), np.full(rows.size, level), np.rint(y[doubt]))
    return out


def integrate_crps(law, y):
    """CRPS (m,), the integral of (F(x) - 1[x >= y])^2 dx, of distributions and observations (m,)."""
    if not law.discrete:
        return _integrate(law, y, 48)
    whole = np.floor(y)  # from one whole number to the next the score is a line
    slope = 2 * np.where(y < 0, 0.0, np.clip(law._cdf(whole), 0, 1)) - 1
    return _integrate(law, whole, 24) + (y - whole) * slope


def _integrate(law, y, n_nodes):
    """CRPS (m,) at y, whole numbers for counts, by Gauss-Legendre rules, with an error below 1e-6 of the score."""
    cv = np.ones(y.shape) if law.real else np.fmin(law._std() / law._mean(), 1e100)
    beyond = np.minimum(4.5 + np.sqrt(np.log1p(cv**2)) / 2, 8.0)  # heavy tails matter further out
    low, high = law._ends(np.full(y.shape, 1e-5), ndtr(beyond))
    low = np.minimum(low, np.finfo(float).max / 4)
    high = np.clip(high, low, np.finfo(float).max / 4)
    score = np.maximum(y - high, 0) + np.maximum(low - y, 0)
    start, shift = low, 0.0
    if law.real:
        centre = law._ppf_at(np.full(y.shape, 0.5))
        scale = np.maximum(law._ppf_at(np.full(y.shape, 0.75)) - centre, 1e-9 * (high - low))
    elif law.discrete:
        shift = 0.5  # the integral of F over [k, k + 1) is nearly the smooth cdf's, half a number earlier
        start = np.clip(64.0, low, high)  # counts below are summed
        score += _sum_of_counts(law, y, low, start) + _rest_of_counts(law, y, start, high)
    else:  # below 1e-8 of a high quantile F is taken as constant
        start = np.minimum(np.maximum(low, 1e-8 * law._ppf_at(np.full(y.shape, 0.99))), high)
        F, below = law._cdf(start), np.clip(y, low, start) - low
        score += below * F**2 + (start - low - below) * (1 - F) ** 2
    middle = np.clip(y, start, high)
    for begin, end, target in ((start, middle, 0.0), (middle, high, 1.0)):
        rows = np.flatnonzero(end > begin)
        if not rows.size:
            continue
        if law.real:
            a, b = (np.arcsinh((x - centre)[rows] / scale[rows])[:, None] for x in (begin, end))
        else:
            a, b = np.log(begin[rows, None]), np.log(end[rows, None])
        t, w = legendre(n_nodes)
        u = a + (b - a) * (t + 1) / 2
        x = slope = np.exp(u)
        if law.real:
            x, slope = centre[rows, None] + scale[rows, None] * np.sinh(u), scale[rows, None] * np.cosh(u)
        score[rows] += (slope * (_cdf_at_points(law.take(rows), x - shift) - target) ** 2 * (b - a) / 2) @ w
    return score


def _cdf_at_points(law, x):
    """CDF (m, t) of distributions at points x (m, t)."""
    return np.clip(law._map(type(law)._cdf, x.T).T, 0, 1)


def _sum_of_counts(law, y, start, stop):
    """Part of the CRPS of counts from start to stop, summed over whole numbers."""
    k = start[:, None] + np.arange(int(np.max(stop - start)))
    F, share = _cdf_at_points(law, k), np.clip(y[:, None] - k, 0, 1)  # part of [k, k + 1) below y
    return np.where(k < stop[:, None], share * F**2 + (1 - share) * (1 - F) ** 2, 0.0).sum(axis=1)


def _rest_of_counts(law, y, start, high):
    """Difference in CRPS between the staircase and the smooth cdf: the first Euler-Maclaurin term, -[g'] / 24."""

    def slope(k):
        return np.clip(law._cdf(k), 0, 1) - np.clip(law._cdf(k - 1), 0, 1)

    at_y = np.where((y > start) & (y < high), slope(y), 0.0)
    at_start = np.where(high > start, slope(start) * (law._cdf(start - 0.5) - (y <= start)), 0.0)
    return (at_start - at_y) / 12


def points_crps(points, y):
    """CRPS (m,) of equally likely points (m, B): E|X - y| - E|X - X'| / 2, the latter from the sorted points."""
    x, below = np.sort(points, axis=-1), np.arange(1, points.shape[-1]) / points.shape[-1]
    return np.abs(x - y[..., None]).mean(axis=-1) - np.diff(x, axis=-1) @ (below * (1 - below))


def normals_crps(means, variances, y):
    """CRPS (m,) of mixtures of B normal distributions: E|X - y| - E|X - X'| / 2, with E|N(a, v)| in closed form."""

    def expected_size(a, v):
        std = np.sqrt(v)
        z = a / np.maximum(std, np.finfo(float).tiny)
        return a * (2 * ndtr(z) - 1) + std * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)

    score, B = expected_size(means - y[:, None], variances).mean(axis=1), means.shape[1]
    for b in range(B):  # no B x B arrays
        pairs = expected_size(means - means[:, b : b + 1], variances + variances[:, b : b + 1])
        score -= pairs.mean(axis=1) / (2 * B)
    return score


def energy_scores(y, draws):
    """Energy score (n,) of observations y (n, m) under draws (S, n, m): E|Y - y| - E|Y - Y'| / 2."""
    scores = np.linalg.norm(draws - y, axis=2).mean(axis=0)
    for draw in draws:  # no S x S array
        scores -= np.linalg.norm(draws - draw, axis=2).sum(axis=0) / (2 * len(draws) ** 2)
    return scores
