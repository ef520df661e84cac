"""A function f(params, X) that autograd can trace, as a parametric model; and losses that users write."""

import pickle
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product

import autograd.numpy as anp
import numpy as np
from autograd import elementwise_grad, grad, jacobian, make_hvp, make_jvp, make_vjp
from autograd.extend import defjvp
from autograd.scipy.special import expit
from joblib import wrap_non_picklable_objects

from ..._core.linalg import gram
from .._tree import Tree, join
from ..base import ParametricModel, Tangent
from ..losses import Loss

ROWS = None  # stands for the number of rows in a layout
CHUNK_FLOATS = 2**18  # gradients formed at a time: 2 MB stay in the cache
MIN_CHUNK = 32  # rows of a chunk, at least: shorter passes of autograd cost more than they spare
PROBES = (5, 7)  # rows that a route is verified on: two numbers, so that no axis has the right length by chance
WIDE = 2**16  # floats of one row's Jacobian, 512 KB, beyond which products do not form it
WIDE_ROWS = 2**13  # row width of a model without Jacobians, so that a block has 128 rows

defjvp(expit, lambda g, ans, x: g * ans * (1 - ans))  # autograd has its reverse derivative only


class StoresFunctions:
    """Mixin: attributes named in ``_functions`` are pickled by value where plain pickle cannot store them."""

    _functions: tuple[str, ...] = ()

    def __getstate__(self):
        state = dict(super().__getstate__())
        held = {name: state[name] for name in self._functions if state.get(name) is not None}
        return {**state, **{name: storable(function, name) for name, function in held.items()}}


def storable(function, name):
    """``function`` itself if pickle can store it, else something that pickle can and that loads as the function."""
    if _picklable(function):
        return function
    wrapped = wrap_non_picklable_objects(function, keep_wrapper=False)
    if _picklable(wrapped):
        return wrapped
    raise TypeError(
        f"{name}={function!r} cannot be pickled: it is a function defined on the spot that holds on to something that "
        f"cannot be stored. Define {name} at the top level of a module."
    )


def _picklable(thing):
    try:
        pickle.dumps(thing)
    except Exception:  # whatever an object's own pickling raises, the answer is no
        return False
    return True


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
        chunks = [Z[start : start + 10] for start in range(0, len(Z), 10)]  # the work grows with the square of 10
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
        # their number grows exponentially with the leaves: after 100 of them the loop over rows is taken
        for layouts in islice(product(*map(options, tree.shapes)), 100):
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


@contextmanager
def linear_is_fine():
    """Second derivatives of what is linear are zero, and autograd need not warn about it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Output seems independent of input", UserWarning)
        yield


@dataclass(frozen=True, kw_only=True, eq=False)
class AutogradModel(StoresFunctions, ParametricModel):
    r"""f(params, X) M with f written in autograd.numpy, theta = the leaves of params, each ravelled, in order.

    One row's curvature is :math:`J_i' C_i J_i + \sum_k u_{ik} \nabla^2 f_{ik}`, with u and C the derivatives of the
    loss in f: the loss is never traced, and the second part is the Hessian of :math:`\sum_i u_i \cdot f_i` with u held
    constant.

    Attributes
    ----------
    f : callable
        f(params, X) -> (n,) or (n, K).
    tree : Tree
        The nest of params.
    n_columns : int
        K, the columns of f; one if f is (n,).
    route : Route
        How per-row Jacobians are found.
    probe : ndarray of shape (m, d)
        A few rows like those of training, on which routes are verified.
    output_map : ndarray of shape (K, k), optional
        M, which takes a softmax's logits to the coordinates of its loss; None is the identity.
    """

    _functions = ("f",)

    f: Callable
    tree: Tree
    n_columns: int
    route: Route
    probe: np.ndarray
    output_map: np.ndarray | None = None

    @property
    def has_hessian(self):
        return True

    @property
    def is_wide(self):
        """Whether one row's Jacobian is too large to be formed for a product."""
        return len(self.theta) * self.n_outputs > WIDE

    @property
    def row_width(self):
        return WIDE_ROWS if self.is_wide else len(self.theta) * self.n_outputs

    def last_layer(self):
        last = self.tree.last()
        if last is None:
            return self
        key, tree, start = last
        f = OnlyLast(self.f, self.tree.unpack(self.theta), key)
        theta = self.theta[start:]
        route = self.route if isinstance(self.route, Looped) else None
        return replace(
            self,
            f=f,
            tree=tree,
            theta=theta,
            l2=self.l2[start:],
            penalty_gradient=None if self.penalty_gradient is None else self.penalty_gradient[start:],
            route=route or fastest_route(f, tree, theta, self.probe, self.n_columns),
        )

    # ------------------------------------------------------------------ values and derivatives
    def raw(self, Z, theta=None):
        return np.asarray(self.of_leaves(Z)(self.tree.split(self.theta if theta is None else theta)))

    def of_leaves(self, Z):
        """f M as a function of the tuple of leaves, (n, k), that autograd can trace."""

        def function(leaves):
            f = anp.reshape(self.f(self.tree.rebuild(leaves), Z), (len(Z), self.n_columns))
            return f if self.output_map is None else f @ self.output_map

        return function

    def linearized(self, Z, theta):
        """f (n, k) at theta, and the map from U (n, k) to sum_i J_i' U_i, (p,)."""
        # by leaves: the reverse derivative of taking slices of theta is slow
        pull, f = make_vjp(self.of_leaves(Z))(self.tree.split(theta))
        return f, lambda U: join(pull(U))

    def tangent(self, Z):
        return AutogradTangent(self, Z, self.raw(Z))


class AutogradTangent(Tangent):
    """Of a traced function at rows Z: Jacobians by the model's route, products by forward and reverse passes."""

    def __init__(self, model, Z, f):
        self.model, self.Z, self.f = model, Z, f

    @property
    def _leaves(self):
        return self.model.tree.split(self.model.theta)

    def jacobian(self):
        model = self.model
        J = model.route.jacobian(model.f, model.tree, model.theta, self.Z, model.n_columns)
        return J if model.output_map is None else np.tensordot(model.output_map, J, axes=(0, 1)).transpose(1, 0, 2)

    @cached_property
    def _pull(self):
        """The map from seeds (n, k) to the gradients (n, p) of each row's seed . f."""
        model = self.model
        pull = model.route.pullback(model.f, model.tree, model.theta, self.Z, model.n_columns)
        return pull if model.output_map is None else lambda seed: pull(seed @ model.output_map.T)

    def scores(self, u):
        return self._pull(u)

    def gram(self, R):
        return sum(gram(self._pull(R[:, :, r])) for r in range(R.shape[2]))

    def _column_by_column(self, r):
        """Whether r products cost less than the block's Jacobian, or that has no place in memory."""
        return self.model.is_wide or r <= (50 if isinstance(self.model.route, Looped) else 1)

    def jvp(self, V):
        if not self._column_by_column(V.shape[1]):
            return super().jvp(V)
        push = _pushforward(self.model.of_leaves(self.Z), self._leaves)
        return np.stack([push(self.model.tree.split(v)) for v in V.T], axis=2)

    def vjp(self, U):
        if not self._column_by_column(U.shape[2]):
            return super().vjp(U)
        _, pull = self.model.linearized(self.Z, self.model.theta)
        return np.stack([pull(U[:, :, r]) for r in range(U.shape[2])], axis=1)

    def hessian_product(self, C, u, V):
        of_loss, split = self.vjp(C @ self.jvp(V)), self.model.tree.split
        with linear_is_fine():
            product, _ = make_hvp(lambda leaves: anp.sum(u * self.model.of_leaves(self.Z)(leaves)))(self._leaves)
            return of_loss + np.stack([join(product(split(v))) for v in V.T], axis=1)

    def hessian(self, C, u):
        H = self.hessian_product(C, u, np.eye(len(self.model.theta)))
        return (H + H.T) / 2


def _pushforward(function, leaves):
    """v to df/dtheta' v, (n, k): forward mode, or reverse over reverse where a primitive has no forward derivative."""
    push = make_jvp(function)(leaves)
    try:
        push(leaves)
        return lambda v: push(v)[1]
    except NotImplementedError:
        pull, f = make_vjp(function)(leaves)
        return make_vjp(pull)(np.zeros_like(f))[0]  # pull is linear, and this is its transpose


class OnlyLast(StoresFunctions):
    """f as a function of the last entry of its parameters, the others held at their values."""

    _functions = ("f",)

    def __init__(self, f, params, key):
        self.f, self.params, self.key = f, params, key

    def __call__(self, last, X):
        if isinstance(self.params, dict):
            return self.f({**self.params, self.key: last}, X)
        entries = [*self.params[:-1], last]
        return self.f(type(self.params)(*entries) if hasattr(self.params, "_fields") else type(self.params)(entries), X)


class AutogradLoss(StoresFunctions, Loss):
    """A user's ``loss(f, y)``, one number per row, differentiated by autograd.

    ``family`` is the Bernoulli or Categorical loss of a classifier, whose coordinates and probabilities it shares: the
    function sees logits, (n,) for two classes and (n, K) for more.

    The Gauss-Newton weight is the positive part of the Hessian in f, as the law of y given x is not known.
    """

    _functions = ("function",)
    convex = False

    def __init__(self, function, n_outputs=1, family=None):
        self.function, self.n_outputs, self.family = function, n_outputs, family
        self.curvature_rank = n_outputs

    def _rows(self, f, y):
        basis = self.output_map
        if basis is not None:
            return self.function(f @ basis.T, y)
        return self.function(f[:, 0] if self.n_outputs == 1 else f, y)

    @property
    def output_map(self):
        return None if self.family is None else self.family.output_map

    @property
    def n_classes(self):
        return 0 if self.family is None else self.family.n_classes

    def probabilities(self, f):
        """Raw predictions (n, k, ...) to probabilities (n, K, ...), for a classifier."""
        return self.family.probabilities(f)

    def value(self, f, y):
        return np.asarray(self._rows(f, y), dtype=float)

    def gradient(self, f, y):
        return elementwise_grad(self._rows)(f, y)

    def hessian(self, f, y):
        slope = elementwise_grad(self._rows)
        with linear_is_fine():
            columns = [grad(lambda f, j=j: anp.sum(slope(f, y)[:, j]))(f) for j in range(self.n_outputs)]
        return np.stack(columns, axis=2)

    def curvature_root(self, f, y):
        H = self.hessian(f, y)
        if self.n_outputs == 1:
            return np.sqrt(np.maximum(H, 0))
        values, vectors = np.linalg.eigh((H + H.transpose(0, 2, 1)) / 2)
        return vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
