"""Functions f(params, X) and losses that users write in autograd.numpy, as a parametric model and a loss."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, product

import autograd.numpy as anp
import numpy as np
from autograd import elementwise_grad, grad, jacobian, make_hvp, make_jvp, make_vjp
from autograd.extend import defjvp
from autograd.scipy.special import expit

from ..._core.linalg import gram
from ..._utils.compat import cached_property
from ..architectures import Tree, join, open_nest
from ..base import POLISH, ParametricModel, Tangent
from ..layers import WIDE, WIDE_ROWS
from ..losses import ClassLoss, Loss
from ..trained import StoresFunctions

ROWS = None  # the number of rows in a layout
FEW_PARAMETERS = 100  # parameters up to which a forward pass of all rows for each costs less than a loop over rows
PROBES = (5, 7)  # rows on which a route is verified: two numbers, so that no axis has the right length by chance

defjvp(expit, lambda g, ans, x: g * ans * (1 - ans))  # autograd has its reverse derivative only


class Route:
    """Way to differentiate f(params, X) (n, K) for each row; a subclass writes ``jacobian`` or ``pullback``."""

    loops = False  # whether the Jacobian takes a loop over rows

    def jacobian(self, f, tree, theta, Z, n_outputs):
        """Jacobian df/dtheta' at rows Z (n, d), (n, K, p)."""
        pull, J = self.pullback(f, tree, theta, Z, n_outputs), np.empty((len(Z), n_outputs, len(theta)))
        for output, seed in enumerate(np.eye(n_outputs)):
            pull(np.tile(seed, (len(Z), 1)), out=J[:, output])
        return J

    def pullback(self, f, tree, theta, Z, n_outputs):
        """Function from seeds (n, K) to the gradients (n, p) of each row's seed . f, written into ``out`` if given."""
        J = self.jacobian(f, tree, theta, Z, n_outputs)
        return lambda seed, out=None: np.einsum("nk,nkp->np", seed, J, out=out)


@dataclass(frozen=True)
class Replicated(Route):
    """Route that gives each row its own parameters, so that one reverse pass gives the gradients of all rows."""

    stacked: bool  # whether X is (n, 1, d), for functions like X @ W + b, or (n, d), for formulas in X[:, j]
    layouts: tuple  # shapes of the leaves, with ROWS for the axis of rows

    def pullback(self, f, tree, theta, Z, n_outputs):
        n, X = len(Z), Z[:, None, :] if self.stacked else Z
        leaves = []
        for place, layout in zip(tree.slices, self.layouts, strict=True):
            one = theta[place].reshape([1 if size is ROWS else size for size in layout])
            leaves.append(np.broadcast_to(one, [n if size is ROWS else size for size in layout]))
        back, value = make_vjp(lambda leaves: f(tree.rebuild(leaves), X))(tuple(leaves))
        if value.shape[0] != n or value.size != n * n_outputs:
            raise ValueError("f mixes the axis of rows with others.")

        def pull(seed, out=None):
            out = np.empty((n, len(theta))) if out is None else out
            gradients = back(np.ascontiguousarray(seed).reshape(value.shape))
            for gradient, layout, place in zip(gradients, self.layouts, tree.slices, strict=True):
                out[:, place] = np.moveaxis(gradient, layout.index(ROWS), 0).reshape(n, -1)
            return out

        return pull


@dataclass(frozen=True)
class Looped(Route):
    """Route by one forward pass per parameter, or autograd.jacobian of a few rows at a time, for every function."""

    loops = True

    def jacobian(self, f, tree, theta, Z, n_outputs):
        if len(theta) <= FEW_PARAMETERS:
            shape = (len(Z), n_outputs)
            push = _pushforward(lambda leaves: anp.reshape(f(tree.rebuild(leaves), Z), shape), tree.split(theta))
            return np.stack([push(tree.split(unit)) for unit in np.eye(len(theta))], axis=2)
        chunks = [Z[start : start + 10] for start in range(0, len(Z), 10)]  # the work grows with the square of 10
        blocks = [jacobian(lambda theta, X=X: anp.ravel(f(tree.unpack(theta), X)))(theta) for X in chunks]
        return np.concatenate(blocks).reshape(len(Z), n_outputs, len(theta))


@dataclass(frozen=True)
class Supplied(StoresFunctions, Route):
    """Route through the user's ``jac(params, X)``: a nest with leaves (n, [K,] *shape), or one flat array."""

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
    """Leaves of ``tree`` in the order of ``skeleton``; dicts may be in another order."""
    if (nest := open_nest(skeleton)) is None:
        return [tree]
    return [leaf for key in nest[0] for leaf in _leaves_along(skeleton[key], tree[key])]


def fastest_route(f, tree, theta, probe, n_outputs):
    """First replicated layout whose Jacobian at the probe rows (m, d) equals autograd's, or the loop."""
    theta = _generic(f, tree, theta, probe)
    samples = [np.resize(probe, (m, probe.shape[1])) for m in PROBES]
    with np.errstate(all="ignore"):  # a wrong layout may overflow before it fails
        expected = [Looped().jacobian(f, tree, theta, Z, n_outputs) for Z in samples]
        for route in _candidates(tree):
            if all(_agrees(route, f, tree, theta, Z, J) for Z, J in zip(samples, expected, strict=True)):
                return route
    return Looped()


def check_supplied(jac, f, tree, theta, probe, n_outputs):
    """Route through the user's jac; raises ValueError if it differs from autograd's Jacobian."""
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
    with suppress(Exception):  # the user's function gets arrays that it was not written for, and may raise anything
        J = route.jacobian(f, tree, theta, Z, expected.shape[1])
        return bool(np.abs(J - expected).max() <= 1e-6 * np.abs(expected).max())
    return False


def _candidates(tree):
    """Stacked layouts, then elementwise layouts; in each, the most common come first."""
    for stacked, options in ((True, _stacked), (False, _elementwise)):
        # their number grows exponentially with the leaves: after 100 layouts the loop over rows is used
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
    """Point near theta without zeros, since a zero factor would hide an error in a block."""
    rng = np.random.default_rng(0)
    moved = theta + 1e-3 * (1 + np.abs(theta)) * rng.uniform(0.5, 1.5, theta.shape)
    with np.errstate(all="ignore"):
        return moved if np.isfinite(f(tree.unpack(moved), probe)).all() else theta


@dataclass(frozen=True, kw_only=True, eq=False)
class AutogradModel(StoresFunctions, ParametricModel):
    """Model f(params, X) M with f written in autograd.numpy; theta = the leaves of params, each ravelled, in order."""

    _functions = ("f",)
    f: Callable  # f(params, X), (n,) or (n, K)
    tree: Tree  # the nest of params
    n_columns: int  # K
    route: Route  # way to compute per-row Jacobians
    probe: np.ndarray  # means of pairs of training rows, on which routes are verified
    output_map: np.ndarray | None = None  # M (K, k), from a softmax's logits to the coordinates of its loss
    cure: str = POLISH

    has_hessian = True

    @property
    def is_wide(self):
        """Whether one row's Jacobian is too large to be formed for a product."""
        return len(self.theta) * self.loss.n_outputs > WIDE

    @property
    def row_width(self):
        return WIDE_ROWS if self.is_wide else len(self.theta) * self.loss.n_outputs

    def last_layer(self):
        last = self.tree.last()
        if last is None:
            return self
        (tree, start), f = last, OnlyLast(self.f, self.tree.unpack(self.theta))
        arrays = {name: getattr(self, name)[start:] for name in ("theta", "l2", "penalty_gradient")}
        loops = self.route.loops
        route = self.route if loops else fastest_route(f, tree, arrays["theta"], self.probe, self.n_columns)
        return replace(self, f=f, tree=tree, route=route, **arrays)

    def raw(self, Z, theta=None):
        return np.asarray(self.of_leaves(Z)(self.tree.split(self.theta if theta is None else theta)))

    def of_leaves(self, Z):
        """Function from the tuple of leaves to f M (n, k), which autograd can trace."""

        def function(leaves):
            f = anp.reshape(self.f(self.tree.rebuild(leaves), Z), (len(Z), self.n_columns))
            return f if self.output_map is None else f @ self.output_map

        return function

    def linearized(self, Z, theta):
        """Prediction f (n, k) at theta, and the function from U (n, k) to sum_i J_i' U_i, (p,)."""
        # by leaves: the reverse derivative of taking slices of theta is slow
        pull, f = make_vjp(self.of_leaves(Z))(self.tree.split(theta))
        return f, lambda U: join(pull(U))

    def tangent(self, Z):
        return AutogradTangent(self, Z, self.raw(Z))


class AutogradTangent(Tangent):
    """Tangent of a traced function: Jacobians by the model's route, products by forward and reverse passes."""

    def __init__(self, model, Z, f):
        self.model, self.Z, self.f, self._leaves = model, Z, f, model.tree.split(model.theta)

    def jacobian(self):
        model = self.model
        J = model.route.jacobian(model.f, model.tree, model.theta, self.Z, model.n_columns)
        return J if model.output_map is None else np.tensordot(model.output_map, J, axes=(0, 1)).transpose(1, 0, 2)

    @cached_property
    def _pull(self):
        """Function from seeds (n, k) to the gradients (n, p) of each row's seed . f."""
        model = self.model
        pull = model.route.pullback(model.f, model.tree, model.theta, self.Z, model.n_columns)
        return pull if model.output_map is None else lambda seed: pull(seed @ model.output_map.T)

    def scores(self, u):
        return self._pull(u)

    def gram(self, R):
        return sum(gram(self._pull(R[:, :, r])) for r in range(R.shape[2]))

    def _column_by_column(self, r):
        """Whether r products cost less than the block's Jacobian, or the Jacobian is too large for memory."""
        return self.model.is_wide or r <= (50 if self.model.route.loops else 1)

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
        projected, flat = self.model.of_leaves(self.Z), 0.0  # times squares, or autograd warns of a linear function
        product, _ = make_hvp(
            lambda leaves: anp.sum(u * projected(leaves)) + flat * sum(anp.sum(leaf**2) for leaf in leaves)
        )(self._leaves)
        return of_loss + np.stack([join(product(split(v))) for v in V.T], axis=1)


def _pushforward(function, leaves):
    """Function v to df/dtheta' v (n, k): forward mode, or reverse over reverse if a primitive has no forward rule."""
    push = make_jvp(function)(leaves)
    try:
        push(leaves)
        return lambda v: push(v)[1]
    except NotImplementedError:
        pull, f = make_vjp(function)(leaves)
        return make_vjp(pull)(np.zeros_like(f))[0]  # pull is linear, and this is its transpose


class OnlyLast(StoresFunctions):
    """Function f of the last entry of its parameters, with the others held fixed."""

    _functions = ("f",)
    is_network = True

    def __init__(self, f, params):
        self.f, self.params = f, params

    def __call__(self, last, X):
        keys, build = open_nest(self.params)
        return self.f(build([*(self.params[key] for key in keys[:-1]), last]), X)


class AutogradLoss(StoresFunctions, Loss):
    """User's ``loss(f, y)``, differentiated by autograd; ``family`` is the log loss of a classifier."""

    _functions = ("function",)
    convex = False
    curvature_trace = ClassLoss.curvature_trace

    def __init__(self, function, n_outputs=1, family=None):
        self.function, self.n_outputs = function, n_outputs
        self.curvature_rank, self.additive = n_outputs, family is None
        if family is not None:
            self.n_classes, self.output_map = family.n_classes, family.output_map
            self.probabilities = family.probabilities

    def _rows(self, f, y):
        if self.output_map is not None:
            return self.function(f @ self.output_map.T, y)
        return self.function(f[:, 0] if self.n_outputs == 1 else f, y)

    def value(self, f, y):
        return np.asarray(self._rows(f, y), dtype=float)

    def gradient(self, f, y):
        return elementwise_grad(self._rows)(f, y)

    def hessian(self, f, y):
        slope = elementwise_grad(self._rows)  # plus zero times f, or autograd warns of a linear loss
        columns = [grad(lambda f, j=j: anp.sum(slope(f, y)[:, j] + 0.0 * f[:, j]))(f) for j in range(self.n_outputs)]
        return np.stack(columns, axis=2)

    def curvature_root(self, f, y):
        """Root of the positive part of the Hessian in f, since the distribution of y given x is unknown."""
        H = self.hessian(f, y)
        if self.n_outputs == 1:
            return np.sqrt(np.maximum(H, 0))
        values, vectors = np.linalg.eigh((H + H.transpose(0, 2, 1)) / 2)
        return vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
