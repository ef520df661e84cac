"""The search for a quantile of a law that has none in closed form."""

import numpy as np
from scipy.special import ndtri

MAX_STEPS = 200  # of a search for a quantile; a bracket shrinks to rounding within some 60
CLOSE = 1e-11  # probits from a level that do not matter
LOG_MAX = np.log(np.finfo(float).max)
LOG_MIN = -744.0  # of the smallest positive float


def search_quantile(law, q):
    """Smallest y with cdf(y) >= q, for a law of shape (m,) and levels (m,)."""
    out = np.zeros(q.shape)
    rows = np.flatnonzero(~(law._cdf(out) >= q)) if law.atom else np.arange(q.size)  # levels that zero has not reached
    if rows.size:
        out[rows] = search_inside(law if rows.size == q.size else law.take(rows), q[rows])
    return whole_quantile(law, q, out) if law.discrete else out


def search_inside(law, q, lowest=0.0, close=CLOSE):
    """Where the cdf gets to the levels (m,) that zero has not reached.

    Of counts it is sought where log(y + 1) is at least ``lowest``; a probit that is ``close`` to the level's will do.

    In a coordinate u in which every scale of y is near, the probit of the cdf is nearly a line: a bracket around the
    guess is grown until it holds the level, and shrunk by Chandrupatla's method, inverse quadratic interpolation where
    that is safe and halving where it is not. Both end at any scale.
    """
    u, step, ends, to_y = coordinate(law, *(np.broadcast_to(a, q.shape) for a in law._guess(q)), lowest)
    target = np.clip(ndtri(q), -39, 39)

    def residual(u, rows):
        """Probit of the cdf, less that of the level: below zero where u is too low."""
        if not len(rows):
            return np.empty(0)
        part = law if len(rows) == q.size else law.take(rows)
        return np.clip(ndtri(np.clip(part._cdf(to_y(u, rows)), 0, 1)), -40, 40) - target[rows]

    a, b, fa, fb = grow_bracket(residual, u, step, *ends)
    out = np.where(fb < 0, np.inf, -np.inf if law.support == "real" else 0.0)  # levels beyond either end
    rows = np.flatnonzero((fa < 0) & (fb >= 0))

    def narrow(lower, upper, part):
        close = upper - lower <= 2 * resolution(upper)
        if law.discrete and lowest == 0:
            close |= np.ceil(to_y(lower, rows[part])) == np.ceil(to_y(upper, rows[part]))
        return close

    x, f = np.stack([b, a, a])[:, rows], np.stack([fb, fa, fa])[:, rows]
    out[rows] = to_y(shrink_bracket(lambda u, part: residual(u, rows[part]), narrow, x, f, close), rows)
    return out


def coordinate(law, guess, step, lowest=0.0):
    """Guess and first step in the coordinate u of a law, the ends of u, and the function from u at some rows to y.

    u is the log of y, of y + 1 for counts, and arcsinh of y in units of the law where it may be negative.
    """
    if law.support == "real":
        centre, scale = (np.broadcast_to(a, guess.shape) for a in law._coordinate())
        scale = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
        u, low = np.arcsinh((guess - centre) / scale), -LOG_MAX
        step = np.arcsinh(step / scale / np.cosh(u))
    elif law.discrete:
        u, low = np.log1p(guess), lowest
        step = np.log1p(step / (guess + 1))
    else:
        u, low = np.log(guess), LOG_MIN

    def to_y(u, rows):
        if law.support == "real":
            return centre[rows] + scale[rows] * np.sinh(u)
        return np.expm1(u) if law.discrete else np.exp(u)

    u = np.clip(np.where(np.isnan(u), 0.0, u), low, LOG_MAX)
    return u, np.clip(np.where(np.isfinite(step), step, 1.0), 1e-13, 50.0), (low, LOG_MAX), to_y


def grow_bracket(residual, u, step, low, high):
    """Ends a < root <= b around u (m,) with their residuals, as far as there are such between low and high."""
    rows, grow = np.arange(u.size), step.copy()
    a, b = np.maximum(u - step, low), np.minimum(u + step, high)
    fa, fb = residual(a, rows), residual(b, rows)
    for _ in range(64):
        up, down = np.flatnonzero((fb < 0) & (b < high)), np.flatnonzero((fa >= 0) & (a > low))
        if not up.size and not down.size:
            break
        grow *= 2.5
        a[up], fa[up], b[down], fb[down] = b[up], fb[up], a[down], fa[down]
        b[up], a[down] = np.minimum(b[up] + grow[up], high), np.maximum(a[down] - grow[down], low)
        fb[up], fa[down] = residual(b[up], up), residual(a[down], down)
    return a, b, fa, fb


def shrink_bracket(residual, narrow, x, f, close):
    """Roots (m,) by Chandrupatla's method, from points x (3, m) and residuals f there.

    The points are the newest, the other end of the bracket, and the one before; ``narrow(lower, upper, rows)`` says
    which brackets are small enough, and so is a residual up to ``close``.
    """
    rows, out = np.arange(x.shape[1]), np.empty(x.shape[1])
    t = np.clip(f[0] / (f[0] - f[1]), 0.02, 0.98)  # first a secant: the probit is nearly a line
    for _ in range(MAX_STEPS):
        done = narrow(x[:2].min(axis=0), x[:2].max(axis=0), rows) | (np.abs(f[:2]).min(axis=0) <= close)
        if done.any():
            out[rows[done]] = np.where(np.abs(f[0]) <= np.abs(f[1]), x[0], x[1])[done]
            rows, x, f, t = rows[~done], x[:, ~done], f[:, ~done], t[~done]
        if not rows.size:
            return out
        floor = resolution(x[:2].max(axis=0)) / np.abs(x[0] - x[1])
        new = x[0] + np.clip(t, floor, 1 - floor) * (x[1] - x[0])
        x, f = join(x, f, new, residual(new, rows))
        t = share_of_bracket(x, f)
    out[rows] = np.where(f[0] >= 0, x[0], x[1])
    return out


def resolution(u):
    """Differences in u that do not matter."""
    return 1e-13 + 4e-16 * np.abs(u)


def join(x, f, new, f_new):
    """The three points after a new one: it and the end on the other side of the root, and what one of them replaces."""
    same = (f_new >= 0) == (f[0] >= 0)

    def three(old, newest):
        return np.stack([newest, np.where(same, old[1], old[0]), np.where(same, old[0], old[1])])

    return three(x, new), three(f, f_new)


def share_of_bracket(x, f):
    """Where the next point goes, as a share of the way from x[0] to x[1]: inverse quadratic where safe, or half."""
    (x1, x2, x3), (f1, f2, f3) = x, f
    xi, phi, alpha = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2), (x3 - x1) / (x2 - x1)
    safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    quadratic = f1 / (f2 - f1) * (f3 / (f2 - f3)) + alpha * (f1 / (f3 - f1)) * (f2 / (f3 - f2))
    return np.where(safe & np.isfinite(quadratic), quadratic, 0.5)


def whole_quantile(law, q, y):
    """The smallest whole number whose cdf reaches q, given where the smooth cdf does."""
    k = np.ceil(y - 1e-7)
    finite = np.flatnonzero(np.isfinite(k) & (k < 2.0**53))
    if finite.size:
        short = law.take(finite)._cdf(k[finite]) < q[finite] * (1 - 1e-14)
        k[finite[short]] += 1
    return np.maximum(k, 0)
