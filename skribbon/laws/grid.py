"""Many laws of one family whose f is as uncertain as y: one grid of f for all of them.

P(Y <= y) = int F(y | g) N(g; f, sd^2) dg. In the coordinate s of g in which the noise of y given g has the same width
everywhere, the trapezoidal rule converges geometrically, and neither its points nor F(y | g) depend on f and sd: the
cdf of all laws at all points of y is one matrix product.
"""

import numpy as np
from scipy.special import ndtri

STEP = 0.4  # between points, in units of the noise
REACH = 6.5  # standard deviations of f that the grid goes beyond the outermost
MOST_POINTS = 500  # of a grid
FEWEST, MOST = 50, 20_000  # laws that a grid is made for
ROOM = 1.5  # in log y around guessed quantiles
NEIGHBOURS = 8  # points of the probit of a cdf that its inverse is interpolated through
MARGIN = 4.0  # times the difference to the interpolation through two fewer, within which counts are in doubt
STRIDE = 8  # points between which a conditional cdf may turn out to be constant
ROUNDING = 1e-12  # share of the rarer side of a level that does not matter to it
DECIDED = 1e-7  # share of a level's own variance by which a probability is above or below it
BLOCK = 256  # laws at once, which stay in the cache
FARTHEST = 5.0  # standard deviations of f up to which y may be from it for its density


class Grid:
    """Points g (G,) of the raw prediction, even in s, for laws that differ in f and sd alone.

    There are none far above log y = ``top``, as far as y is asked about: P(Y <= y | g) and its density are zero there.
    """

    def __init__(self, law, top):
        f, sd, phi = law.parameters
        self.law, self.family = law, law.family.at(float(phi.flat[0]))
        self.power, self.log_phi = 2 - self.family.power, float(np.log(self._phi(phi.flat[0])))
        beyond = top + 10 * self._noise(top) if self.power > 0 else np.inf
        ends = np.array([(f - REACH * sd).min(), min((f + REACH * sd).max(), beyond)])
        first, last = np.floor(self._s(ends) / STEP)
        self.s = STEP * np.arange(first, last + 2) if last - first < MOST_POINTS else np.empty(0)
        self.g = self._inverse(self.s, *ends)

    @classmethod
    def of_levels(cls, law, q):
        """For quantiles at levels q (Q,)."""
        shift = 0.5 if law.discrete else 1e-9
        guess = np.concatenate([np.log(np.maximum(law._guess(level)[0], 0) + shift) for level in q])
        grid = cls(law, guess.max() + ROOM)
        below = NEIGHBOURS * STEP / 2 if law.discrete else 0.0  # points between -1/2 and zero
        grid.asked = guess.min() - ROOM - below, guess.max() + ROOM
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

    def _inverse(self, s, low, high):
        mesh = np.linspace(low - 3, high + 3, 2000)
        g = np.interp(s, self._s(mesh), mesh)
        for _ in range(4):  # Newton's steps: s is smooth and increasing
            g = g - (self._s(g) - s) * self._noise(g)
        return g

    def weights(self, f, sd, near=slice(None)):
        """Weights (..., G) of the points, or of some of them, under the normal law of each f (...)."""
        g = self.g[near]
        z = (g - f[..., None]) / sd[..., None]
        return np.exp(z * z / -2) * (STEP / np.sqrt(2 * np.pi) * self._noise(g)) / sd[..., None]

    def quantiles(self, q):
        """Quantiles (m, Q) at levels q (Q,); not a number where there is doubt."""
        f, sd, _ = self.law.parameters
        shift = 0.5 if self.law.discrete else 0.0
        low, high = self.asked
        points = np.flatnonzero((self.g > low) & (self.g < high))
        if not points.size:
            return np.full((len(f), len(q)), np.nan)
        y = np.exp(self.g[points]) - shift
        F = self._cdf_given(y, ROUNDING * np.minimum(q, 1 - q).min()).T
        cdf, order = np.empty((len(f), len(y))), np.argsort(sd)
        for start in range(0, len(f), BLOCK):  # laws about as wide as each other
            rows = order[start : start + BLOCK]
            ends = (f[rows] - REACH * sd[rows]).min(), (f[rows] + REACH * sd[rows]).max()
            near = slice(*np.searchsorted(self.g, ends))
            cdf[rows] = self.weights(f[rows], sd[rows], near) @ F[near]
        columns = []
        for level in q:
            s, error = _crossing(cdf, level, self.s[points[0]])
            g = self._inverse(np.nan_to_num(s), self.g[0], self.g[-1])
            value = np.where(np.isnan(s), np.nan, np.exp(g) - shift)
            columns.append(self._whole(value, error * self._noise(g), cdf, level, y[0]))
        return np.stack(columns, axis=1)

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

    def _whole(self, y, error, cdf, level, first):
        """Of counts the next whole number, or not a number where ``error`` of log y leaves it in doubt.

        ``first`` is the value of the first column of their cdf.
        """
        if not self.law.discrete:
            return np.where(error < 1e-6, y, np.nan)
        reach = 1e-7 + MARGIN * error * (y + 0.5) + 1e-7 * y
        doubt = ~(np.abs(y - np.rint(y)) > reach)
        whole = np.where(doubt, np.nan, np.maximum(np.ceil(y), 0.0))
        if (near := np.flatnonzero(doubt & (reach < 0.25))).size:
            whole[near] = self._next(np.rint(y[near]), near, level)
        return np.where(cdf[:, 0] >= level, 0.0, whole) if first < 0 else whole

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
        trusted = (np.abs(centre - f) < FARTHEST * sd) & np.isfinite(out)
        return np.where(trusted, out, np.nan)


def _crossing(cdf, level, first):
    """Where rows of a cdf (m, M) at points STEP apart from ``first`` on get to a level, and the error of that."""
    M = cdf.shape[1]
    below = (cdf < level).sum(axis=1)
    inside = (below > 1) & (below < M - 1) & (M >= NEIGHBOURS)
    start = np.clip(below - NEIGHBOURS // 2, 0, max(M - NEIGHBOURS, 0))
    index = start[:, None] + np.arange(min(NEIGHBOURS, M))
    with np.errstate(all="ignore"):
        z = ndtri(np.take_along_axis(cdf, index, axis=1)) - ndtri(level)
        wide, narrow = _at_zero(z, index), _at_zero(z[:, 1:-1], index[:, 1:-1])
        inside &= np.isfinite(wide) & np.isfinite(narrow)
    s = np.where(inside, first + STEP * wide, np.nan)
    return s, np.where(inside, STEP * np.abs(wide - narrow), np.nan)


def _at_zero(z, t):
    """The polynomial through t (m, N) at z (m, N), at zero."""
    others = np.broadcast_to(z[:, None], (*z.shape, z.shape[1]))  # (m, N, N)
    factors = others / (others - z[:, :, None])
    factors[:, range(z.shape[1]), range(z.shape[1])] = 1.0
    return (t * factors.prod(axis=2)).sum(axis=1)
