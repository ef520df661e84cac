"""A function f(params, X) that autograd can trace, as a parametric model; and losses that users write."""

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import autograd.numpy as anp
import numpy as np
from autograd import elementwise_grad, grad, make_hvp, make_jvp, make_vjp
from autograd.extend import defjvp
from autograd.scipy.special import expit

from .._core.linalg import gram
from ._pickling import StoresFunctions
from ._routes import Looped, Route, fastest_route
from ._tree import Tree, join
from .base import ParametricModel, Tangent
from .losses import Loss

WIDE = 2**16  # floats of one row's Jacobian beyond which it is never formed for a product
WIDE_ROWS = 2**13  # row width that sets the block of such a model

defjvp(expit, lambda g, ans, x: g * ans * (1 - ans))  # autograd has its reverse derivative only


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

    def linearised(self, Z, theta):
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
        _, pull = self.model.linearised(self.Z, self.model.theta)
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
