"""Many laws of one family whose f is as uncertain as y: one grid of f for all of them.

P(Y <= y) = int F(y | g) N(g; f, sd^2) dg. In the coordinate s of g in which the noise of y given g has the same width
everywhere, the trapezoidal rule converges geometrically, and neither its points nor F(y | g) depend on f and sd: the
cdf of all laws at all points of y is one matrix product.
"""

from functools import cache

import numpy as np
from scipy.special import ndtri

STEP = 0.4  # between points, in units of the noise
REACH = 6.5  # standard deviations of f that the grid goes beyond the outermost
MOST_POINTS = 500  # of a grid
FEWEST, MOST = 50, 20_000  # laws that a grid is made for
ROOM = 2.5, 3.0  # below and above guessed quantiles, in units of the noise
BEYOND = 10.0  # units of the noise that a mean is above y where P(Y <= y) and the density are zero
NEIGHBOURS = 8  # points that the probit of a cdf is interpolated through
NEWTON = 3  # steps to where such a polynomial, which is nearly a line, is zero
MARGIN = 4.0  # times the difference to the interpolation through two fewer, within which counts are in doubt
STRIDE = 8  # points between which a conditional cdf may turn out to be constant
ROUNDING = 1e-11  # share of the rarer side of a level that does not matter to it
DECIDED = 1e-7  # share of a level's own variance by which a probability is above or below it
BLOCK = 128  # laws at once, which stay in the cache
FARTHEST = 5.0  # standard deviations of f up to which y may pull it for its density


class Grid:
    """Points g (G,) of the raw prediction, even in s, for laws that differ in f and sd alone.

    There are none far above log y = ``top`` and some ``room``, in units of the noise there, as far as y is asked about:
    P(Y <= y | g) and its density are zero there.
    """

    def __init__(self, law, top, room=0.0):
        f, sd, phi = law.parameters
        self.law, self.family = law, law.family.at(float(phi.flat[0]))
        self.power, self.log_phi = 2 - self.family.power, float(np.log(self._phi(phi.flat[0])))
        first, last = self._s(np.array([(f - REACH * sd).min(), (f + REACH * sd).max()]))
        if self.power > 0:
            last = min(last, self._s(top) + BEYOND + room)
        first, last = np.floor(np.array([first, last]) / STEP)
        self.s = STEP * np.arange(first, last + 2) if last - first < MOST_POINTS else np.empty(0)
        self.g = self._inverse(self.s, self._between_asymptotes(self.s), 8)
        self.width = STEP / np.sqrt(2 * np.pi) * self._noise(self.g)

    @classmethod
    def of_levels(cls, law, q):
        """For quantiles at levels q (Q,), around a guess of each."""
        shift = 0.5 if law.discrete else 1e-9
        guess = np.stack([np.log(np.maximum(law._guess(level)[0], 0) + shift) for level in q])  # (Q, m)
        grid = cls(law, guess.max(), ROOM[1] + STEP * NEIGHBOURS)
        grid.guess = grid._s(guess)
        return grid

    def _phi(self, phi):
        return max(phi, 1.0) if self.law.discrete else phi

    def _x(self, g):
        return self.power * g - self.log_phi

    def _noise(self, g):
        return 1 / np.sqrt(1 + np.exp(self._x(g)))

    def _s(self, g):
        """int dg / c(g), with the noise c = (1 + exp(x))^(-1/2) of y given g, relative to the mean, at most one."""
        if self.power == 0:
            return g * np.sqrt(1 + np.exp(-self.log_phi))
        root = np.sqrt(1 + np.exp(self._x(g)))
        log_ratio = self._x(g) - 2 * np.log1p(root)  # log((root - 1) / (root + 1))
        return (2 * root + log_ratio) / self.power

    def _inverse(self, s, g, steps):
        """g (...) of s (...), by Newton's steps from a guess: s is increasing and convex or concave."""
        for _ in range(steps):
            g = g - (self._s(g) - s) * self._noise(g)
        return g

    def _between_asymptotes(self, s):
        """A guess of it: s power is 2 exp(x / 2) where x is large, and x + 2 (1 - log 2) where it is small."""
        if self.power == 0:
            return s / np.sqrt(1 + np.exp(-self.log_phi))
        S = self.power * s
        return (np.where(S > 2, 2 * np.log(np.maximum(S, 2) / 2), S - 2 * (1 - np.log(2))) + self.log_phi) / self.power

    def weights(self, f, sd, near=slice(None)):
        """Weights (..., G) of the points, or of some of them, under the normal law of each f (...)."""
        out = self.g[near] - f[..., None]
        out /= sd[..., None]
        out *= out
        out *= -0.5
        np.exp(out, out=out)
        out *= self.width[near]
        out /= sd[..., None]
        return out

    def quantiles(self, q):
        """Quantiles (m, Q) at levels q (Q,); not a number where there is doubt."""
        f, sd, _ = self.law.parameters
        asked = self._around(self.guess)
        low = asked.start
        F = self._cdf_given(self._y(self.g[asked]), ROUNDING * np.minimum(q, 1 - q).min()).T
        zero = self._zero()
        P0, order = np.empty(len(f)), np.argsort(sd)
        place, around = np.empty((len(q), len(f))), np.empty((len(q), NEIGHBOURS, len(f)))
        for start in range(0, len(f), BLOCK):  # laws about as wide as each other
            rows = order[start : start + BLOCK]
            ends = (f[rows] - REACH * sd[rows]).min(), (f[rows] + REACH * sd[rows]).max()
            near = slice(*np.searchsorted(self.g, ends))
            weights = self.weights(f[rows], sd[rows], near)
            P0[rows] = weights @ zero[near]
            for j, level in enumerate(q):
                here = self._around(self.guess[j, rows])
                stop = self._last(here.stop, near.stop)
                cdf = weights[:, : stop - near.start] @ F[near.start : stop, here.start - low : here.stop - low]
                place[j, rows], around[j][:, rows] = _neighbours(cdf, level, here.start)
        columns = [self._found(*at, P0, level) for *at, level in zip(place, around, q, strict=True)]
        return np.stack(columns, axis=1)

    def _y(self, g):
        return np.exp(g) - (0.5 if self.law.discrete else 0.0)

    def _zero(self):
        """P(Y <= 0 | g) (G,)."""
        return self.family.conditional(self.g)._cdf(np.zeros(1)) if self.law.discrete else np.zeros(len(self.g))

    def _last(self, stop, most):
        """Where points end that matter to those of y before ``stop``: P(Y <= y | g) is zero beyond."""
        return min(stop + int(BEYOND / STEP), most) if self.power > 0 else most

    def _around(self, guess):
        """Points around guesses of s."""
        below, above = NEIGHBOURS // 2 * STEP + np.array(ROOM)
        return slice(*np.searchsorted(self.s, (guess.min() - below, guess.max() + above)))

    def _found(self, place, around, P0, level):
        """Quantiles (m,) at a level, given the cdf around them and at zero."""
        with np.errstate(all="ignore"):
            t, error = _root(ndtri(around) - ndtri(level))
            s = np.where(np.isfinite(error), self.s[0] + STEP * (place + t), self.s[0])
        g = self._inverse(s, np.interp(s, self.s, self.g), 3)
        y = np.where(np.isfinite(error), self._y(g), np.nan)
        y = self._whole(y, STEP * error * self._noise(g), level)
        return np.where(P0 - level > DECIDED * level * (1 - level), 0.0, y)

    def _cdf_given(self, y, nothing):
        """P(Y <= y | g), (M, G): it falls with g, and where it falls by ``nothing`` between two points it is known."""
        some = np.unique(np.r_[: len(self.g) : STRIDE, len(self.g) - 1])
        known = np.clip(self.family.conditional(self.g[some])._cdf(y[:, None]), 0, 1)
        steps = np.diff(some, append=some[-1] + 1)
        falls = np.abs(np.diff(known, axis=1, append=known[:, -1:])) > nothing
        F, asked = np.repeat(known, steps, axis=1), np.repeat(falls, steps, axis=1)
        asked[:, some] = False
        i, j = np.nonzero(asked)
        F[i, j] = np.clip(self.family.conditional(self.g[j])._cdf(y[i]), 0, 1)
        return F

    def _whole(self, y, error, level):
        """Of counts the next whole number, or not a number where ``error`` of log y leaves it in doubt."""
        if not self.law.discrete:
            return np.where(error < 1e-6, y, np.nan)
        reach = 1e-7 + MARGIN * error * (y + 0.5) + 1e-7 * y
        doubt = ~(np.abs(y - np.rint(y)) > reach)
        whole = np.where(doubt, np.nan, np.maximum(np.ceil(y), 0.0))
        if (near := np.flatnonzero(doubt & (reach < 0.25))).size:
            whole[near] = self._next(np.rint(y[near]), near, level)
        return whole

    def _next(self, k, rows, level):
        """k, or the number above it where P(Y <= k) falls short of the level; not a number where that is in doubt."""
        f, sd, _ = (p[rows] for p in self.law.parameters)
        F = np.clip(self.family.conditional(self.g)._cdf(k[:, None]), 0, 1)
        over = np.einsum("mg,mg->m", self.weights(f, sd), F) - level
        return np.where(np.abs(over) > DECIDED * level * (1 - level), np.where(over > 0, k, k + 1), np.nan)

    def logpdf(self, y):
        """Log density of y (A, m) under laws of the same shape, y and f being those of the first along the path."""
        f, sd, _ = self.law.parameters
        out = np.full(f.shape, np.nan)
        centre = np.log(np.maximum(y[0], 0) + (0.5 if self.law.discrete else 0.0))
        law = self.family.conditional(self.g)
        p = np.exp(law._logpdf_at(np.broadcast_to(y[0][:, None], (len(y[0]), len(self.g)))))  # (m, G)
        for a in range(len(f)):
            with np.errstate(divide="ignore"):
                out[a] = np.log(np.einsum("mg,mg->m", self.weights(f[a], sd[a]), p))
        pull = np.abs(centre - f) / sd
        if self.law.discrete:  # which counts do by the noise of the larger of both at most
            pull *= sd**2 / (sd**2 + self._noise(np.maximum(centre, f)) ** 2)
        return np.where((pull < FARTHEST) & np.isfinite(out), out, np.nan)


def _neighbours(cdf, level, first):
    """Where the points start between which rows of a cdf (m, M) get to a level, from ``first`` on, and the cdf there.

    That is (NEIGHBOURS, m), and not a number where the level is not inside.
    """
    M, below = cdf.shape[1], (cdf >= level).argmax(axis=1)  # it rises
    start = np.clip(below - NEIGHBOURS // 2, 0, max(M - NEIGHBOURS, 0))
    if M < NEIGHBOURS:
        return start, np.full((NEIGHBOURS, len(cdf)), np.nan)
    there = cdf[np.arange(len(cdf)), start + np.arange(NEIGHBOURS)[:, None]]
    return first + start, np.where((below > 1) & (below < M - 1), there, np.nan)


def _root(z):
    """Where the polynomials through z (N, m) at 0, ..., N - 1 are zero, and the error of that.

    The error is how far off the polynomials through all but the outermost points are.
    """
    half = (len(z) - 1) / 2
    wide, narrow = _through(len(z)) @ z, _through(len(z) - 2) @ z[1:-1]
    slope, x = wide[1:] * np.arange(1.0, len(z))[:, None], ((z < 0).sum(axis=0) - 0.5) / half - 1
    for _ in range(NEWTON):
        x = x - _value(wide, x) / _value(slope, x)
    residual = np.abs(_value(wide, x)) + np.abs(_value(narrow, x * half / (half - 1)))
    return half * (x + 1), half * residual / np.abs(_value(slope, x))


@cache
def _through(n):
    """The matrix (n, n) from values at n even points of [-1, 1] to the coefficients of the polynomial through them."""
    return np.linalg.inv(np.vander(np.linspace(-1, 1, n), increasing=True))


def _value(coefficients, t):
    """Horner's rule: values (m,) at t (m,) of polynomials with coefficients (N, m)."""
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = value * t + c
    return value
