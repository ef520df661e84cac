"""Base class of the autograd estimators: start, check, train, and build the parametric model."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from autograd import make_vjp
from autograd.tracer import isbox

from ..architectures import Architecture, Tree, leaves_of, map_leaves, mlp, open_nest, spread
from ..losses import Loss
from ..trained import FEW, Objective, RegressionLoss, TrainedEstimator, check_rows_are_separate, check_start, columns_of
from .derivatives import AutogradLoss, AutogradModel, Looped, check_supplied


@dataclass(repr=False, eq=False)
class AutogradEstimator(TrainedEstimator):
    """Base of AutogradRegressor and AutogradClassifier; a subclass knows its targets and losses."""

    _functions = ("f", "init", "loss", "jac", "loss_")

    f: Callable[[Any, Any], Any] | Architecture | None = None
    init: Any = None
    _: KW_ONLY
    loss: RegressionLoss | Loss | Callable[[Any, Any], Any] = "squared_error"
    l2: Any = 0.0
    jac: Callable[[Any, Any], Any] | None = None

    def _start(self, X, t, rng):
        """Model at its initial parameters, with checks of f, loss and jac."""
        f = self._function()
        self.loss_ = self._named_loss(t)
        params = self._initial(f, X, t, rng)
        tree, theta = Tree.of(params)
        params = tree.unpack(theta)
        self.n_columns_ = columns_of(self._call, f, params, X[:FEW])
        self.loss_ = self._checked_loss(self.loss_, self.n_columns_, t)
        some = X[np.unique(np.linspace(0, len(X) - 1, 8).astype(int))]
        means = (some + np.roll(some, 1, axis=0)) / 2  # so that a fitted model holds no row of X; codes stay codes
        self.X_probe_ = np.where((some % 1 == 0).all(axis=0), some, means)
        check_rows_are_separate(self._call, f, params, self.X_probe_)
        check_differentiable(lambda theta: f(tree.unpack(theta), X[:FEW]), theta, "f")
        model = self._traced_model(params, Looped())
        if isinstance(self.loss_, AutogradLoss):
            check_loss_per_row(self.loss_, model.raw(X[:FEW]), t[:FEW])
        check_start(self._call, Objective(model, X, t, np.ones(len(t))), theta)
        if self.jac is not None:
            check_supplied(self.jac, f, tree, theta, self.X_probe_, self.n_columns_)
        return model

    def _function(self):
        f = mlp() if self.f is None else self.f
        if not callable(f):
            raise TypeError(f"f must be a function f(params, X) or an architecture of skribbon.models, got {f!r}.")
        return f

    def _initial(self, f, X, t, rng):
        if callable(self.init):
            return self.init(X, t, rng)
        if self.init is not None:
            return self.init
        if not isinstance(f, Architecture):
            raise ValueError("init is None; give the initial parameters of f, or a function init(X, y, random_state).")
        loss = self.loss_
        return f.init(X, loss.n_outputs if loss.output_map is None else len(loss.output_map), rng)

    def _noisy(self, model, rng):
        """Model of a training step, with new dropout masks."""
        f = model.f
        if not isinstance(f, Architecture) or f.dropout == 0:
            return model
        return replace(model, f=lambda params, X: f.noisy(params, X, rng))

    def _adopt(self, model, theta):
        self.params_ = model.tree.unpack(theta)

    def _fitted_model(self):
        return self._traced_model(self.params_, Looped())

    def _penalties(self, params):
        """Penalty per leaf of the parameters, as a nest."""
        l2, f = spread(self.l2, params), self._function()
        if not isinstance(f, Architecture) or open_nest(self.l2) is not None:
            return l2
        return map_leaves(lambda penalised: penalised * float(self.l2), f.penalised(params))

    def _fields(self):
        """Fields of the model that do not depend on the parameters."""
        return {"loss": self.loss_, "classes": getattr(self, "classes_", None), "output_map": self.loss_.output_map}

    def _traced_model(self, params, route):
        tree, theta = Tree.of(params)
        sizes = [int(np.prod(shape)) for shape in tree.shapes]
        l2 = np.repeat(np.array(leaves_of(self._penalties(params)), dtype=float), sizes)
        fields = self._fields() | {"f": self._function(), "n_columns": self.n_columns_, "probe": self.X_probe_}
        return AutogradModel(theta=theta, l2=l2, tree=tree, route=route, **fields)

    def _analytic_model(self, params):
        """Analytic model of the architecture, or None."""
        f = self._function()
        return f.parametric(params, self._penalties(params), **self._fields()) if isinstance(f, Architecture) else None


# ---------------------------------------------------------------------- mistakes in functions that users write
NOT_TRACED = (
    "autograd cannot differentiate {name}: {error}. Write {name} with functions of autograd.numpy and "
    "autograd.scipy.special in place of numpy's and scipy's, X @ W in place of X.dot(W) or numpy.dot, and "
    "autograd.numpy.stack, concatenate or where in place of item assignment."
)


def check_differentiable(function, at, name):
    """Raise an error unless autograd can differentiate ``function`` of one array."""
    depends = []

    def traced(x):
        value = function(x)
        depends.append(isbox(value))
        if getattr(value, "dtype", None) == np.dtype(object):
            raise TypeError("it makes an array of objects out of traced numbers")
        return value

    try:
        pull, value = make_vjp(traced)(at)
        gradient = pull(np.ones_like(value))
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise TypeError(NOT_TRACED.format(name=name, error=str(error).rstrip("."))) from error
    if not all(depends):
        raise ValueError(f"{name} does not depend on what autograd differentiates it by; use that argument in {name}.")
    return gradient


def check_loss_per_row(loss, f, y):
    """Raise an error unless a user's loss returns one number per row and autograd can differentiate it."""
    shape = np.shape(loss.value(f, y))
    if shape != y.shape:
        raise ValueError(f"loss(f, y) must return {len(y)} losses, one per row, not shape {shape}: no mean or sum.")
    check_differentiable(lambda f: loss._rows(f, y), f, "loss")
