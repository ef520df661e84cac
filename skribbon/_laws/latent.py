"""The law of y where f is normal and y given f is of a Tweedie family."""

from itertools import pairwise

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from .base import POINT, Law, in_order
from .grid import FEWEST, MOST, Grid
from .quadrature import LEGENDRE, hermite_upto, legendre
from .table import FAR, WIDE, has_table, interpolated_quantiles

REACH = 6.0  # standard deviations of f beyond which nothing is integrated
SETTLED = 1e-8  # a conditional cdf this close to its limit in f has reached it
GRADED = (0.0, 1 / 4096, 1 / 256, 1 / 16, 1.0)  # ends of pieces, as shares, towards a singular lower end
LAYERS = (5.0, 20.0)  # ends of pieces where a gamma law of a large dispersion bends
# (largest ratio of the standard deviation of f to the width of the noise, Gauss-Hermite nodes that suffice there)
HERMITE = ((1e-5, 1), (0.1, 3), (0.2, 5), (0.3, 7), (0.4, 9), (0.45, 11), (0.5, 13), (0.55, 17), (0.6, 21))
EVEN = 0.5  # such a ratio from which a grid is the better for many; the nodes of a table reach a little beyond
MANY = 500  # elements from which a table of quantiles may be worth its nodes


class Latent(Law):
    """The law of y where f is normal and y given f is of a Tweedie family.

    cdf(y) = E F(y | f). As a function of f, F(y | f) falls from one value to another within a window about as wide as
    the noise around the f whose mean is y, and does not change elsewhere; the density of f is that of a normal law.
    The integral is exact outside the window, and Gauss-Legendre on what the window and the six standard deviations
    of f on either side have in common, where neither factor varies fast, whichever is the wider. Where f is far more
    certain than y, few Gauss-Hermite nodes do the same.
    """

    width = 6 * LEGENDRE

    def __init__(self, f, sd, phi, family):
        super().__init__(f, sd, phi, family=family)
        self.family = family.at(self.parameters[2])
        example = self.family.conditional(self.parameters[0].reshape(-1)[:1] if self.parameters[0].size else 0.0)
        self.discrete, self.support, self.atom = example.discrete, example.support, example.atom

    def _moments(self):
        """Mean and standard deviation, by what the log link has in closed form or by quadrature."""
        f, sd, phi = self.parameters
        p = self.family.power
        with np.errstate(all="ignore"):
            if self.family.link == "log":
                mean = np.exp(f + sd**2 / 2)
                noise = self.family.relative_variance(np.exp(f)) * np.exp((p * p - 2) * sd**2 / 2)
                relative = np.expm1(sd**2) + np.where(np.isnan(noise), 0.0, noise)
                std = mean * np.sqrt(relative)
                return mean, np.where(np.isnan(std), np.where(mean > 0, np.inf, 0.0), std)
            start = np.clip(-f / np.where(sd > 0, sd, 1.0), -8, 8) if p >= 1 else np.full(f.shape, -8.0)
            t, w = legendre(64)
            half = (8 - start) / 2
            z = start[..., None] + half[..., None] * (t + 1)
            weight = half[..., None] * w * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
            family = self.family.at(phi[..., None])
            mu = family.to_mean(f[..., None] + sd[..., None] * z)
            mean = (weight * mu).sum(axis=-1)
            second = (weight * ((mu - mean[..., None]) ** 2 + family.noise_variance(mu))).sum(axis=-1)
            return mean, np.sqrt(second + mean**2 * ndtr(start) * (p >= 1))

    def _mean(self):
        return self._moments()[0]

    def _std(self):
        return self._moments()[1]

    def _point(self):
        f, sd, _ = self.parameters
        return (sd == 0) & self.family.conditional(f)._point()

    def _ratio(self):
        """Standard deviation of f in units of the noise."""
        f, sd, _ = self.parameters
        with np.errstate(all="ignore"):
            mu = self.family.to_mean(f)
            noise = np.minimum(np.sqrt(self.family.relative_variance(mu)), 1.0)
            if self.family.link == "identity":
                noise = noise * np.abs(mu) if self.family.power >= 1 else np.sqrt(self.family.noise_variance(mu))
            return np.where(sd == 0, 0.0, sd / noise)

    def _nodes(self):
        """How many Gauss-Hermite nodes suffice per element; zero where none do."""
        ratio = self._ratio()
        count = np.zeros(ratio.shape, dtype=int)
        for largest, n in reversed(HERMITE):
            count[ratio <= largest] = n
        return count

    def _by_nodes(self, y, averaged, moving):
        """averaged(law, y, count) where so many Gauss-Hermite nodes suffice, moving(law, y) elsewhere."""
        count, out = self._nodes(), np.empty(y.shape)
        few = np.flatnonzero(count)
        if few.size == y.size:
            return averaged(self, y, count) if y.size else out
        out[few] = averaged(self.take(few), y[few], count[few]) if few.size else 0.0
        rest = np.flatnonzero(count == 0)
        out[rest] = moving(self if rest.size == y.size else self.take(rest), y[rest])
        return out

    def _at_nodes(self, count):
        """The laws given f at as many Gauss-Hermite nodes of each element, in one row, with their weights.

        Whose they are, and where those of each element begin, is told too.
        """
        owner, first = np.repeat(np.arange(len(count)), count), np.cumsum(count) - count
        begin, z, weight = hermite_upto(HERMITE[-1][1])
        place = np.arange(len(owner)) + (begin[count] - first)[owner]
        f, sd, phi = (p[owner] for p in self.parameters)
        return self.family.at(phi).conditional(f + sd * z[place]), weight[place], owner, first

    def _cdf(self, y):
        return self._by_nodes(y, Latent._averaged_cdf, Latent._cdf_moving)

    def _averaged_cdf(self, y, count):
        law, weight, owner, first = self._at_nodes(count)
        y = y[owner]
        smooth = self.discrete  # the function through the cdf of counts, of points too
        F = np.where(law._point(), y + 0.5 >= law._mean(), law._cdf(y)) if smooth else law._cdf_at(y)
        return np.add.reduceat(weight * F, first)

    def _averaged_logpdf(self, y, count):
        law, weight, owner, first = self._at_nodes(count)
        terms = law._logpdf_at(y[owner])
        top = np.maximum.reduceat(terms, first)
        top = np.where(np.isfinite(top), top, 0.0)
        return top + np.log(np.add.reduceat(weight * np.exp(terms - top[owner]), first))

    def _cdf_below_at(self, y):
        value = self._cdf_at(y)
        if self.atom and not self.discrete:
            value = np.where(y == 0, 0.0, value)
        return value

    def _F(self, y, f):
        """P(Y <= y | f), of counts the smooth function through it, for y and f of shapes (m,) or (m, nodes)."""
        phi = self.parameters[2]
        law = self.family.at(phi.reshape(phi.shape + (1,) * (f.ndim - phi.ndim))).conditional(f)
        y = y.reshape(y.shape + (1,) * (f.ndim - y.ndim))
        reached = y + (0.5 if self.discrete else 0.0) >= law._mean()
        return np.where(law._point(), reached, np.clip(law._cdf(y), 0, 1))

    def _unordered(self):
        """Whether F(y | f) may turn in f, the noise of a normal stand-in changing with the mean: no window then."""
        return self.family.power < 1 and self.family.power != 0

    def _pieces(self, y):
        """Nodes and weights on three pieces of the reach of f: around the f whose mean is y, and on either side."""
        f, sd, _ = self.parameters
        first, last = f - REACH * sd, f + REACH * sd
        mu = np.maximum(np.abs(y), np.exp(self._small())) if self.family.link == "log" else y
        noise = np.sqrt(self.family.noise_variance(mu)) / (mu if self.family.link == "log" else 1.0)
        centre, noise = self.family.from_mean(mu), np.where(np.isfinite(noise), noise, sd)
        ends = [first, np.clip(centre - 8 * noise, first, last), np.clip(centre + 8 * noise, first, last), last]
        t, w = legendre(2 * LEGENDRE)
        nodes, weights = [], []
        for a, b in pairwise(ends):
            nodes.append(a[:, None] + (b - a)[:, None] * (t + 1) / 2)
            weights.append((b - a)[:, None] / 2 * w / sd[:, None])
        nodes, weights = np.concatenate(nodes, axis=1), np.concatenate(weights, axis=1)
        return nodes, weights * np.exp(-(((nodes - f[:, None]) / sd[:, None]) ** 2) / 2) / np.sqrt(2 * np.pi)

    def _window(self, y):
        """Ends of what is to be integrated, and the values of F(y | f) beyond them."""
        f, sd, _ = self.parameters
        first, last = f - REACH * sd, f + REACH * sd
        if self.family.link == "identity" and self.family.power >= 1:  # below zero there is one law, the point zero
            first, last = np.maximum(first, 0.0), np.maximum(last, 0.0)
        left, right = self._F(y, first), self._F(y, last)
        # where a mean is y, and the noise in f there
        mu = np.maximum(y, 0) + (0.5 if self.discrete else 0.0) if self.support != "real" else y
        centre = self.family.from_mean(mu)
        if self.family.link == "log":
            floor = self._small()
            centre = np.maximum(centre, floor)
            noise = np.minimum(np.sqrt(self.family.relative_variance(np.exp(centre))), 1.0)
        else:
            noise = np.sqrt(self.family.noise_variance(mu)) + POINT * np.abs(mu)
        centre, noise = np.clip(centre, first, last), np.where(np.isfinite(noise), noise, sd)
        noise = np.maximum(noise, 1e-14 * (1 + np.abs(centre)) if self.family.link == "log" else 1e-14 * (last - first))
        ends = []
        for side, limit, value in ((-1, first, left), (1, last, right)):
            end, step = centre + side * 5 * noise, 5 * noise
            open_rows = np.arange(len(f))
            for _ in range(64):
                end[open_rows] = np.clip(end[open_rows], first[open_rows], last[open_rows])
                law = self.take(open_rows)
                away = np.abs(law._F(y[open_rows], end[open_rows]) - value[open_rows]) > SETTLED
                open_rows = open_rows[away & (end[open_rows] != limit[open_rows])]
                if not open_rows.size:
                    break
                step[open_rows] *= 1.7
                end[open_rows] = centre[open_rows] + side * step[open_rows]
            else:
                end[open_rows] = limit[open_rows]
            ends.append(end)
        return ends[0], ends[1], left, right

    def _small(self):
        """Log of the mean at which the relative variance is one: counts and atoms do not get any finer below."""
        phi, p = self.family.dispersion, self.family.power
        phi = np.maximum(phi, 1.0) if self.discrete else np.maximum(phi, 1e-300)
        return np.log(phi) / (2 - p) if p < 2 else np.full(phi.shape, -np.inf)

    def _mesh(self, lower, upper):
        """Gauss-Legendre nodes and weights (m, nodes) between ends (m,).

        Under the identity link F(y | f) goes on changing towards a mean of zero, where the rate of jumps is a
        fractional power of f and the law of y / f is the same at every scale: pieces get shorter towards that end.
        """
        if self.family.link == "log" and self.family.power == 2 and np.any(upper - lower > LAYERS[-1]):
            return self._layered_mesh(lower, upper)
        graded = self.family.link == "identity" and self.family.power > 1
        edges = np.array(GRADED) if graded else np.linspace(0, 1, 5 if self.family.power > 2 else 3)  # skew laws: more
        t, w = legendre(LEGENDRE)
        half = np.diff(edges)[:, None] / 2
        share, weight = (edges[:-1, None] + half * (t + 1)).ravel(), (half * w).ravel()
        span = (upper - lower)[:, None]
        return lower[:, None] + span * share, span * weight

    def _layered_mesh(self, lower, upper):
        """The same of a gamma law of a large dispersion.

        F(y | f) bends within a few units of f of the end at which it is one, and then falls as slowly as exp(-f / phi).
        """
        span = upper - lower
        near = [np.minimum(layer, span * share) for layer, share in zip(LAYERS, (0.5, 1.0), strict=True)]
        edges = np.stack([np.zeros_like(span), *near, (near[-1] + span) / 2, span], axis=1)  # (m, 5)
        t, w = legendre(LEGENDRE)
        half = np.diff(edges, axis=1)[:, :, None] / 2
        nodes, weight = edges[:, :-1, None] + half * (t + 1), half * w
        return lower[:, None] + nodes.reshape(len(span), -1), weight.reshape(len(span), -1)

    def _cdf_moving(self, y):
        f, sd, _ = self.parameters
        if self._unordered():
            nodes, weight = self._pieces(y)
            return (weight * self._F(y, nodes)).sum(axis=1) / weight.sum(axis=1)
        lower, upper, left, right = self._window(y)
        nodes, weight = self._mesh(lower, upper)
        z = (nodes - f[:, None]) / sd[:, None]
        inner = self._F(y, nodes)
        weight = weight / sd[:, None] * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        below, above = ndtr((lower - f) / sd), ndtr((f - upper) / sd)
        total = weight.sum(axis=1)  # made exact, so that the cdf of a constant is that constant
        scale = np.where(total > 0, (1 - below - above) / np.where(total > 0, total, 1.0), 0.0)
        return left * below + right * above + np.clip(scale, 0, 2) * (weight * inner).sum(axis=1)

    def _logpdf_at(self, y):
        point = self._point()
        with np.errstate(all="ignore"):
            value = self._by_nodes(y, Latent._averaged_logpdf, Latent._logpdf_moving)
        return np.where(point, self._point_logpdf(y), value)

    def _logpdf_moving(self, y):
        """Gauss-Legendre on either side of the mode of p(y | f) p(f), as far as it matters."""
        f, sd, phi = self.parameters
        sharp = self.family.conditional(f)._point() if self.family.power >= 1 else phi == 0
        mode, spread = self._posterior_mode(y)

        def joint(g):
            wide = (slice(None),) + (None,) * (g.ndim - 1)
            law = self.family.at(phi[wide]).conditional(g)
            return law._logpdf_at(y[wide] + 0 * g) - ((g - f[wide]) / sd[wide]) ** 2 / 2

        if self._unordered():
            nodes, weight = self._pieces(y)
            law = self.family.at(phi[:, None]).conditional(nodes)
            return logsumexp(law._logpdf_at(y[:, None] + 0 * nodes), axis=1, b=weight)
        top = joint(mode)
        t, w = legendre(LEGENDRE)
        pieces = []
        for side in (-1, 1):
            reach, open_rows = 4 * spread, np.arange(len(f))
            for _ in range(40):
                law = self.take(open_rows)
                g = mode[open_rows] + side * reach[open_rows]
                value = law.family.conditional(g)._logpdf_at(y[open_rows])
                value = value - ((g - f[open_rows]) / sd[open_rows]) ** 2 / 2
                open_rows = open_rows[value > top[open_rows] - 16]
                if not open_rows.size:
                    break
                reach[open_rows] *= 1.5
            nodes = mode[:, None] + side * reach[:, None] * (t + 1) / 2
            pieces.append(joint(nodes) + np.log(reach[:, None] * w / 2 / sd[:, None]))
        value = logsumexp(np.concatenate(pieces, axis=1), axis=1) - np.log(2 * np.pi) / 2
        value = np.where(np.isnan(value), -np.inf, value)
        if sharp.any():  # no noise to speak of: the law of the inverse link of f
            g = self.family.from_mean(y)
            exact = -(((g - f) / sd) ** 2) / 2 - np.log(sd) - np.log(2 * np.pi) / 2
            exact = np.where(y > 0, exact - (np.log(y) if self.family.link == "log" else 0.0), -np.inf)
            value = np.where(sharp, exact, value)
        return value

    def _posterior_mode(self, y):
        """Mode of the quasi-likelihood of y times the density of f: between the f of either, found by halving."""
        f, sd, _ = self.parameters
        g = np.clip(np.maximum(self.family.from_mean(y), self._small() - 3), f - 40 * sd, f + 40 * sd)
        lower, upper = np.minimum(f, g), np.maximum(f, g)
        for _ in range(50):
            middle = (lower + upper) / 2
            mu = self.family.to_mean(middle)
            information = 1 / self.family.relative_variance(mu)  # of f: mu^2 / Var(y), and over mu^2 for the identity
            if self.family.link == "identity":
                information = 1 / self.family.noise_variance(mu)
                score = (y - mu) * information
            else:
                score = (y / mu - 1) * information
            rising = score - (middle - f) / sd**2 > 0
            lower, upper = np.where(rising, middle, lower), np.where(rising, upper, middle)
        information = np.where(np.isfinite(information), information, 0.0)
        return (lower + upper) / 2, 1 / np.sqrt(1 / sd**2 + information)

    def like(self, f, sd):
        """The laws of another f and sd with the same dispersion, which all elements share."""
        return Latent(f, sd, self.parameters[2].flat[0], self.constants["family"])

    def ppf(self, q):
        q = np.asarray(q, dtype=float)
        if self.parameters[0].size < MANY or not has_table(self):
            return super().ppf(q)
        values = self.take(slice(None))._ppf_of_many(q.reshape(-1)).reshape(*self.shape, -1)
        return values[..., 0] if q.ndim == 0 else in_order(values, q)

    def _ppf_of_many(self, q):
        """Quantiles (m, Q): by a grid of f where it is as uncertain as y, else by a table; what is left one by one."""
        out = np.full((*self.shape, len(q)), np.nan)
        wide = np.flatnonzero(self._fits_grid())
        if FEWEST <= wide.size <= MOST and (grid := Grid.of_levels(self.take(wide), q)).g.size:
            out[wide] = grid.quantiles(q)
        for column, level in zip(out.T, q, strict=True):
            rest = np.flatnonzero(np.isnan(column))
            if rest.size >= MANY:
                column[rest] = interpolated_quantiles(self.take(rest), level)
                rest = rest[np.isnan(column[rest])]
            if rest.size:
                column[rest] = self.take(rest)._map(lambda law, a: law._ppf_at(a), level)
        return out

    def _fits_grid(self):
        """Elements whose f is as uncertain as y, of laws that are smooth in f: compound ones have a seam in it."""
        f, sd, _ = self.parameters
        return ~(self._ratio() <= EVEN) & (np.abs(f) < FAR) & (sd < WIDE) & (self.discrete or not self.atom)

    def logpdf(self, y):
        shape = np.broadcast_shapes(self.shape, np.shape(y))
        if self.parameters[0].size < MANY or len(shape) != 2 or shape != self.shape or not has_table(self):
            return super().logpdf(y)
        f, sd, phi = self.parameters
        y = np.broadcast_to(np.asarray(y, dtype=float), shape)
        fits, out = self._fits_grid(), np.full(shape, np.nan)
        whole = not self.discrete or (y == np.floor(y)).all()
        if fits.any() and whole and (y > 0).all() and (y == y[0]).all() and (f == f[0]).all():
            path = np.flatnonzero(fits.any(axis=1))
            law = Latent(f[path], np.maximum(sd[path], 1e-12), phi[path], self.constants["family"])
            if (grid := Grid(law, np.log(y.max()))).g.size:
                out[path] = np.where(fits[path], grid.logpdf(y[path]), np.nan)
        rest = np.flatnonzero(np.isnan(out))
        out.reshape(-1)[rest] = self.take(rest)._map(lambda law, a: law._logpdf_at(a), y.reshape(-1)[rest])
        return out

    def _coordinate(self):
        if self.family.link == "identity":
            return super()._coordinate()
        mu = self.family.to_mean(self.parameters[0])  # from the noise at one end to any power of ten at the other
        return 0.0, np.maximum(np.sqrt(self.family.noise_variance(mu)), 1e-290)

    def _guess(self, q):
        f, sd, _ = self.parameters
        z = ndtri(np.clip(q, 1e-300, 1 - 1e-16))
        if self.support == "real" and self.family.link == "log":
            mu = self.family.to_mean(f + z * sd)
            std = np.sqrt(self.family.noise_variance(mu))
            return mu + z * std, 0.3 * (std + mu * sd)
        if self.family.link == "identity":
            guess, step = super()._guess(q)
            return np.where(np.isfinite(guess), guess, self.family.to_mean(f)), np.where(np.isfinite(step), step, 1.0)
        mu = self.family.to_mean(f + z * sd)
        cv = np.minimum(np.sqrt(self.family.relative_variance(mu)), 3.0)
        spread = np.sqrt(sd**2 + np.log1p(cv**2))
        if not self.discrete:
            return np.exp(f + z * spread - np.log1p(cv**2) / 2), 0.2 * spread
        small, cv = sd < 0.5, np.sqrt(self.family.relative_variance(np.exp(f)))
        mean = np.exp(f + sd**2 / 2)
        std = mean * np.sqrt(cv**2 + np.expm1(np.minimum(sd, 1) ** 2))
        phi = self.family.relative_variance(np.exp(f)) * np.exp(f)
        skew = ((2 * phi - 1) * phi * mean + 3 * phi * mean**2 * sd**2 + 3 * mean**3 * sd**4) / std**2  # times std
        # Cornish and Fisher, with the kurtosis of a gamma law of that skewness
        near = mean - 0.5 + z * std + (z**2 - 1) * skew / 6 + (z**3 - 7 * z) * skew**2 / std / 144
        far = np.exp(f + z * spread - np.log1p(cv**2) / 2)
        small &= np.isfinite(near)
        return np.maximum(np.where(small, near, far), 0), np.where(small, 0.05 * std + 0.1, 0.3 * spread * (far + 1))
