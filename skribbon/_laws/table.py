"""Quantiles of very many laws of one family, interpolated between those of a few."""

from functools import partial
from math import asinh, ceil, log

import numpy as np
from scipy.special import ndtri

from .quadrature import chebyshev
from .search import search_inside, whole_quantile

TOLERANCE = 1e-7  # relative error of a quantile that the nodes of a box are enough for
TRUSTED = 1e-6  # that its last coefficients have to prove
MARGIN = 4.0  # times what they prove, within which counts are in doubt
BOX = np.array([3.0, 1.5])  # largest extent of a box in either coordinate, and
SINGULAR = np.array([np.pi, np.pi / 2])  # how far from it the logarithm of a quantile has its singularities
FEWEST = 2.0  # elements per node that make a box worth its nodes
SMALLEST = 1 / 32  # extent of a box, in units of BOX, which is not halved again
FAR, WIDE = 30.0, 6.0  # |f| and sd beyond which each law is looked at by itself
SHALLOW = 0.5  # probits by which the level of a node of counts may be below the probability of zero
LOWEST = -7.0  # log(y + 1) of counts: quantiles between the whole numbers, the first of which is above -1
CLOSE = 1e-9  # probits from the level at a node
BLOCK = 2**11  # elements that are interpolated at once, in the cache


def has_table(law):
    """Whether the laws differ in f and sd alone, smoothly."""
    family, phi = law.family, law.parameters[2]
    smooth = family.link == "log" and family.power >= 1 and phi.size > 0
    return bool(smooth and phi.flat[0] > 0 and np.isfinite(phi.flat[0]) and (phi == phi.flat[0]).all())


def interpolated_quantiles(law, q):
    """Quantiles (m,) at a level q of laws of shape (m,) that have a table; not a number where each needs a search.

    The plane of f and arcsinh(sd / noise), in which the logarithm of a quantile is analytic, is cut into boxes. In each
    the logarithm is a polynomial through Chebyshev's points; where its last coefficients have not become small, the
    box is halved, and where elements are no more than points, they are left to the search. Counts are the next whole
    number above, by their cdf where that is in doubt; what is in doubt about the probability of zero is left too.
    """
    f, sd, _ = law.parameters
    out = np.full(f.shape, np.nan)
    rows = np.flatnonzero((np.abs(f) < FAR) & (sd > 0) & (sd < WIDE))
    if law.discrete or law.atom:
        zero, above = _is_zero(law, q, rows)
        out[rows[zero]] = 0.0
        rows = rows[above]
    value, error = interpolate(law, rows, partial(_logarithms, law, q))
    out[rows] = _quantile(law, value, error, f[rows])
    if law.discrete and (near := np.flatnonzero(np.isnan(out[rows]) & (MARGIN * error * np.exp(value) < 0.25))).size:
        k = np.maximum(np.rint(np.expm1(value[near])), 0.0)  # or the next
        out[rows[near]] = whole_quantile(law.take(rows[near]), np.full(len(near), q), k)
    return out


# ---------------------------------------------------------------------- the probability of zero
def _is_zero(law, q, rows):
    """Which of the rows have zero as their quantile, and which have not; the others are in doubt."""
    zero, above = _plain_cases(law, q, rows)
    between = np.flatnonzero(~(zero | above))
    value, error = interpolate(law, rows[between], partial(_probit_of_zero, law, q))
    zero[between], above[between] = value > MARGIN * error, value < -MARGIN * error
    return zero, above


def _plain_cases(law, q, rows):
    """The same as far as bounds tell.

    P(0 | f) = exp(-rate) is convex in the mean, so that P(0) is at least that at the mean of the mean; and it is at
    most that at f - 4 sd, or else f is below.
    """
    f, sd, phi = (p[rows] for p in law.parameters)
    beyond = 3.2e-5  # of f - 4 sd
    return _rate(law, f + sd**2 / 2, phi) < -np.log(q) * (1 - 1e-9), (
        np.exp(-_rate(law, f - 4 * sd, phi)) + beyond < q * (1 - 1e-9)
    )


def _rate(law, f, phi):
    """-log P(0 | f)."""
    mu = np.exp(f)
    if law.discrete:
        return mu * (np.log(phi) / (phi - 1) if phi.size and phi[0] > 1 + 1e-6 else 1.0)
    return mu ** (2 - law.family.power) / ((2 - law.family.jump_power) * phi)


def _probit_of_zero(law, q, f, sd):
    nodes = law.like(f, sd)
    return ndtri(np.clip(nodes._cdf(np.zeros(f.shape)), 1e-300, 1 - 1e-16)) - ndtri(q)


# ---------------------------------------------------------------------- the quantile
def _logarithms(law, q, f, sd):
    """The function of the quantile that is interpolated; of compound laws it is smooth down to zero."""
    with np.errstate(all="ignore"):
        nodes = law.like(f, sd)
        may_be_zero = (law.discrete or law.atom) and not _plain_cases(nodes, q, slice(None))[1].all()
        if may_be_zero and _probit_of_zero(law, q, f, sd).max() > (SHALLOW if law.discrete else 0.0):
            return np.full(f.shape, np.nan)
        q = np.full(f.shape, q)
        if law.discrete:
            return np.log1p(search_inside(nodes, q, LOWEST, CLOSE))
        relative = np.log(nodes._ppf_at(q)) - f
        return np.log1p(np.exp(law.family.jump_shape * relative)) if law.atom else relative


def _quantile(law, value, error, f):
    """Its inverse, or not a number where there is doubt about a whole number, or about digits next to zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if law.discrete:
            y = np.expm1(value)
            doubt = np.abs(y - np.rint(y)) <= 1e-7 + MARGIN * error * (y + 1)
            return np.where(doubt, np.nan, np.maximum(np.ceil(y), 0.0))
        if law.atom:
            power = np.expm1(value)
            value = np.log(np.where(power > 100 * error, power, np.nan)) / law.family.jump_shape
    return np.exp(value + f)


# ---------------------------------------------------------------------- interpolation
def interpolate(law, rows, function):
    """function(f, sd) (r,) at some elements of a law, and a bound of its error; not a number where it has none."""
    f, sd = law.parameters[0][rows], law.parameters[1][rows]
    value, error = np.full(f.shape, np.nan), np.full(f.shape, np.nan)
    place = np.stack([f, np.arcsinh(sd / _noise(law, f))])
    for index in _mesh(place):
        _fill(value, error, lambda f, v: function(f, np.sinh(v) * _noise(law, f)), place, index)
    return value, error


def _noise(law, f):
    """Relative standard deviation of y given f, at most one."""
    relative = law.family.at(law.parameters[2].flat[0]).relative_variance(np.exp(f))
    return np.sqrt(relative / (1 + relative))


def _mesh(place):
    """Indices of the elements in each box of a regular mesh."""
    if not place.size:
        return []
    cell = ((place - place.min(axis=1, keepdims=True)) / BOX[:, None]).astype(np.int32)
    code = cell[0] * (cell[1].max() + 1) + cell[1]
    order = np.argsort(code, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(code[order])) + 1)


def _fill(value, error, function, place, index):
    """Values of the elements ``index`` (r,) at ``place`` (2, m) and their error, by halves where need be."""
    here = place[:, index]
    low, high = here.min(axis=1), here.max(axis=1)
    counts = [_count(reach) for reach in (high - low) / 2 / SINGULAR]
    if len(index) < FEWEST * counts[0] * counts[1]:
        return
    (x, to_f), (z, to_v) = map(chebyshev, counts)
    nodes = np.meshgrid(_between(low[0], high[0], x), _between(low[1], high[1], z), indexing="ij")
    coefficients = to_f @ function(*(grid.ravel() for grid in nodes)).reshape(counts) @ to_v.T
    tails = np.array([np.abs(coefficients[-2:]).sum(), np.abs(coefficients[:, -2:]).sum()])
    if tails.max() <= TRUSTED:  # which is false of what is not a number
        value[index], error[index] = _evaluate(coefficients, low, high, here), tails.sum()
        return
    axis = int(np.argmax(np.where(np.isfinite(tails), tails, 1.0) * (high - low) / BOX))
    if high[axis] - low[axis] > SMALLEST * BOX[axis]:
        lower = here[axis] <= (low[axis] + high[axis]) / 2
        for half in (lower, ~lower):
            _fill(value, error, function, place, index[half])


def _count(reach):
    """Chebyshev points that suffice for half a box, its length in units of the distance to the next singularity."""
    return 2 + ceil(log(1 / TOLERANCE) / asinh(1 / max(reach, 1e-3)))


def _between(low, high, x):
    return low + (high - low) * (x + 1) / 2


def _evaluate(coefficients, low, high, place):
    """Values (r,) at places (2, r) of a box."""
    scale = np.where(high > low, high - low, 1.0)
    out = np.empty(place.shape[1])
    for start in range(0, len(out), BLOCK):
        part = slice(start, start + BLOCK)
        x = (2 * place[:, part] - (low + high)[:, None]) / scale[:, None]
        T, V = (_polynomials(row, n) for row, n in zip(x, coefficients.shape, strict=True))
        out[part] = np.einsum("nr,nr->r", coefficients.T @ T, V)
    return out


def _polynomials(x, n):
    """Chebyshev polynomials (n, r) at x (r,)."""
    T = np.empty((n, len(x)))
    T[0], T[1], twice = 1.0, x, 2 * x
    for k in range(2, n):
        np.multiply(T[k - 1], twice, out=T[k])
        T[k] -= T[k - 2]
    return T
