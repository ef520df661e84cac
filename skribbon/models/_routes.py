"""Per-row Jacobians of a function that autograd can trace, by the fastest route that gives the right answer."""

import warnings
from dataclasses import dataclass
from itertools import islice, product

import autograd.numpy as anp
import numpy as np
from autograd import jacobian, make_vjp

from ._pickling import StoresFunctions

ROWS = None  # stands for the number of rows in a layout
MAX_TRIALS = 100  # layouts that are tried before the loop
CHUNK_FLOATS, MIN_CHUNK = 2**18, 32  # gradients of so many rows at a time stay in the cache, and out of new pages
LOOP_ROWS = 10  # autograd.jacobian works on all pairs of rows: small chunks waste least
PROBES = (5, 7)  # rows that a route is verified on: two numbers, so that no axis has the right length by chance


class Route:
    """How the derivatives of f(params, X), (n, K) for each row, are found; one of two methods follows from the other.

    Every method takes the function, the nest of its parameters, theta (p,) and rows Z (n, d).
    """

    def jacobian(self, f, tree, theta, Z, n_outputs):
        """df/dtheta', (n, K, p)."""
        pull, J = self.pullback(f, tree, theta, Z, n_outputs), np.empty((len(Z), n_outputs, len(theta)))
        for output, seed in enumerate(np.eye(n_outputs)):
            pull(np.tile(seed, (len(Z), 1)), out=J[:, output])
        return J

    def pullback(self, f, tree, theta, Z, n_outputs):
        """The map from seeds (n, K) to the gradients (n, p) of each row's seed . f, written into ``out`` if given."""
        J = self.jacobian(f, tree, theta, Z, n_outputs)
        return lambda seed, out=None: np.einsum("nk,nkp->np", seed, J, out=out)


@dataclass(frozen=True)
class Replicated(Route):
    """Each row has parameters of its own, so that one reverse pass gives the gradients of all rows, one by one.

    ``stacked`` gives X as (n, 1, d), for functions written as ``X @ W + b``; without it X stays (n, d), for formulas
    in the columns ``X[:, j]``. ``layouts`` are the shapes of the leaves, ROWS where the axis of rows is.
    """

    stacked: bool
    layouts: tuple

    def pullback(self, f, tree, theta, Z, n_outputs):
        size = max(MIN_CHUNK, CHUNK_FLOATS // len(theta))
        chunks = [slice(start, start + size) for start in range(0, len(Z), size)]
        pulls = [self._pullback(f, tree, theta, Z[rows], n_outputs) for rows in chunks]

        def pull(seed, out=None):
            out = np.empty((len(Z), len(theta))) if out is None else out
            for rows, pull_chunk in zip(chunks, pulls, strict=True):
                pull_chunk(seed[rows], out[rows])
            return out

        return pull

    def _pullback(self, f, tree, theta, Z, n_outputs):
        n, X = len(Z), Z[:, None, :] if self.stacked else Z
        pieces = [theta[place] for place in tree.slices]
        leaves = tuple(self._replicate(piece, layout, n) for piece, layout in zip(pieces, self.layouts, strict=True))
        back, value = make_vjp(lambda leaves: f(tree.rebuild(leaves), X))(leaves)
        if value.shape[0] != n or value.size != n * n_outputs:
            raise ValueError("f mixes the axis of rows with others.")

        def pull(seed, out):
            gradients = back(np.ascontiguousarray(seed).reshape(value.shape))
            for gradient, layout, place in zip(gradients, self.layouts, tree.slices, strict=True):
                out[:, place] = np.moveaxis(gradient, layout.index(ROWS), 0).reshape(n, -1)

        return pull

    @staticmethod
    def _replicate(piece, layout, n):
        one = piece.reshape([1 if size is ROWS else size for size in layout])
        return np.broadcast_to(one, [n if size is ROWS else size for size in layout])


@dataclass(frozen=True)
class Looped(Route):
    """autograd.jacobian, a few rows at a time: right for every function, and slow."""

    def jacobian(self, f, tree, theta, Z, n_outputs):
        chunks = [Z[start : start + LOOP_ROWS] for start in range(0, len(Z), LOOP_ROWS)]
        blocks = [jacobian(lambda theta, X=X: anp.ravel(f(tree.unpack(theta), X)))(theta) for X in chunks]
        return np.concatenate(blocks).reshape(len(Z), n_outputs, len(theta))


@dataclass(frozen=True)
class Supplied(StoresFunctions, Route):
    """The user's own ``jac(params, X)``: a nest like the parameters with leaves (n, [K,] *shape), or all of it flat."""

    _functions = ("jac",)

    jac: object

    def jacobian(self, f, tree, theta, Z, n_outputs):
        J = self.jac(tree.unpack(theta), Z)
        if isinstance(J, np.ndarray):
            return np.asarray(J, dtype=float).reshape(len(Z), n_outputs, len(theta))
        leaves = _leaves_along(tree.skeleton, J)
        blocks = [np.asarray(leaf, dtype=float).reshape(len(Z), n_outputs, -1) for leaf in leaves]
        return np.concatenate(blocks, axis=2)


def _leaves_along(skeleton, tree):
    """Leaves of ``tree`` in the order of ``skeleton``; its dicts may be in another order."""
    if isinstance(skeleton, dict):
        return [leaf for key, branch in skeleton.items() for leaf in _leaves_along(branch, tree[key])]
    if isinstance(skeleton, list | tuple):
        return [leaf for a, b in zip(skeleton, tree, strict=True) for leaf in _leaves_along(a, b)]
    return [tree]


def fastest_route(f, tree, theta, probe, n_outputs):
    """The first replicated layout whose Jacobian at the probe rows (m, d) is autograd's own, or the loop."""
    theta = _generic(f, tree, theta, probe)
    samples = [np.resize(probe, (m, probe.shape[1])) for m in PROBES]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a layout that does not suit may warn before it fails
        expected = [Looped().jacobian(f, tree, theta, Z, n_outputs) for Z in samples]
        for route in _candidates(tree):
            if all(_agrees(route, f, tree, theta, Z, J) for Z, J in zip(samples, expected, strict=True)):
                return route
    return Looped()


def check_supplied(jac, f, tree, theta, probe, n_outputs):
    """The route through the user's jac, or an error that says where it departs from autograd."""
    route, theta = Supplied(jac), _generic(f, tree, theta, probe)
    expected = Looped().jacobian(f, tree, theta, probe, n_outputs)
    n, p = len(probe), len(theta)
    try:
        J = route.jacobian(f, tree, theta, probe, n_outputs)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"jac(params, X) must return a nest like the parameters whose leaves have shape (n, *shape), or (n, "
            f"{n_outputs}, *shape) for {n_outputs} outputs, or one array of shape ({n}, {p}) or "
            f"({n}, {n_outputs}, {p}) for these {n} rows; it failed with: {error}"
        ) from error
    largest = np.abs(J - expected).max()
    if not largest <= 1e-6 * max(1e-300, np.abs(expected).max()):
        raise ValueError(
            f"jac is not the derivative of f: it differs from autograd by up to {largest:.3g}, where derivatives reach "
            f"{np.abs(expected).max():.3g}. Correct jac, or leave it out."
        )
    return route


def _agrees(route, f, tree, theta, Z, expected):
    try:
        J = route.jacobian(f, tree, theta, Z, expected.shape[1])
    except Exception:  # the user's function sees arrays it was not written for: anything may go wrong
        return False
    return bool(np.abs(J - expected).max() <= 1e-6 * np.abs(expected).max())


def _candidates(tree):
    """Stacked layouts, then element by element; within each, what most functions need comes first."""
    for stacked, options in ((True, _stacked), (False, _elementwise)):
        for layouts in islice(product(*map(options, tree.shapes)), MAX_TRIALS):
            yield Replicated(stacked, layouts)


def _stacked(shape):
    if not shape:
        return [(ROWS, 1, 1), (ROWS, 1)]
    if len(shape) == 1:  # added to (n, 1, h), multiplied from the right by (n, 1, d), or added to (n, 1)
        return [(ROWS, 1, *shape), (ROWS, *shape, 1), (ROWS, *shape)]
    return [(ROWS, *shape)]


def _elementwise(shape):
    if not shape:
        return [(ROWS,), (ROWS, 1)]
    return [(*shape, ROWS), (ROWS, *shape)] if len(shape) == 1 else [(*shape, ROWS)]


def _generic(f, tree, theta, probe):
    """A point near theta at which no parameter is zero, lest a wrong block hide behind a zero factor."""
    rng = np.random.default_rng(0)
    moved = theta + 1e-3 * (1 + np.abs(theta)) * rng.uniform(0.5, 1.5, theta.shape)
    with np.errstate(all="ignore"):
        return moved if np.isfinite(f(tree.unpack(moved), probe)).all() else theta
