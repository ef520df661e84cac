"""What the two autograd estimators share: start, check, train, and the model behind it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from autograd import make_vjp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._utils.typing import RandomState
from .._tree import Tree, leaves_of, map_leaves, spread
from ..architectures import Architecture, mlp
from ..base import polish
from ..losses import Loss
from .derivatives import AutogradLoss, AutogradModel, Looped, StoresFunctions, check_supplied
from .solvers import Objective, adam, lbfgs

RegressionLoss: TypeAlias = Literal["squared_error", "gaussian_nll", "poisson", "gamma", "huber", "student_t"]


class AutogradEstimator(StoresFunctions, BaseEstimator):
    """What the two estimators share; a subclass knows its targets and losses. The parameters are the regressor's."""

    loss: Any
    _functions = ("f", "init", "loss", "jac", "loss_")

    def __init__(
        self,
        f: Callable[[Any, Any], Any] | Architecture | None = None,
        init: Any = None,
        *,
        loss: RegressionLoss | Loss | Callable[[Any, Any], Any] = "squared_error",
        l2: Any = 0.0,
        solver: Literal["lbfgs", "adam"] = "lbfgs",
        jac: Callable[[Any, Any], Any] | None = None,
        polish: bool = False,
        max_iter: int = 200,
        tol: float = 1e-6,
        batch_size: int = 200,
        learning_rate: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.f = f
        self.init = init
        self.loss = loss
        self.l2 = l2
        self.solver = solver
        self.jac = jac
        self.polish = polish
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fit
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Minimise the training objective.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or of a regressor (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: how often each row was observed.

        Returns
        -------
        self
        """
        self._check_settings()
        X, y, t = self._validated(X, y)
        weight = _check_weight(sample_weight, len(t))
        counted = weight > 0
        X, y, t, weight = X[counted], y[counted], t[counted], weight[counted]
        rng = check_random_state(self.random_state)
        model = self._start(X, t, rng)
        trained = self._train(Objective(model, X, t, weight), rng)
        self.params_, self.n_iter_ = model.tree.unpack(trained.theta), trained.n_iter
        if self.solver == "adam":
            self.loss_curve_, self.validation_loss_curve_ = trained.loss_curve, trained.validation_curve
        if self.polish:
            self.params_ = polish(self, X, y, weight, verbose=self.verbose).params_
        return self

    def _check_settings(self):
        _check_number(self, "max_iter", Integral, 1)
        _check_number(self, "batch_size", Integral, 1)
        _check_number(self, "n_iter_no_change", Integral, 1)
        _check_number(self, "tol", Real, 0)
        _check_number(self, "learning_rate", Real, 0)
        if self.solver not in ("lbfgs", "adam"):
            raise ValueError(f"solver must be 'lbfgs' or 'adam', got {self.solver!r}.")
        if self.early_stopping and self.solver != "adam":
            raise ValueError("early_stopping=True needs solver='adam'; set l2 instead to keep solver='lbfgs' smooth.")
        if self.early_stopping and self.polish:
            raise ValueError(
                "early_stopping=True stops short of a minimum on purpose and polish=True goes there; choose one."
            )

    def _start(self, X, t, rng):
        """The model at its initial parameters, checked."""
        f = self._function()
        self.loss_ = self._named_loss(t)
        params = self._initial(f, X, t, rng)
        tree, theta = Tree.of(params)
        params = tree.unpack(theta)
        self.n_columns_ = columns_of(f, params, X[:FEW])
        self.loss_ = self._checked_loss(self.loss_, self.n_columns_, t)
        self.X_probe_ = X[np.unique(np.linspace(0, len(X) - 1, 8).astype(int))]
        check_rows_are_separate(f, params, self.X_probe_)
        check_differentiable(lambda theta: f(tree.unpack(theta), X[:FEW]), theta, "f")
        model = self._traced_model(params, Looped())
        if isinstance(self.loss_, AutogradLoss):
            check_loss_per_row(self.loss_, model.raw(X[:FEW]), t[:FEW])
        check_start(Objective(model, X, t, np.ones(len(t))), theta)
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
        return f.init(X, self._wanted_columns(), rng)

    def _train(self, objective, rng):
        theta = objective.model.theta
        if self.solver == "lbfgs":
            return lbfgs(objective, theta, self.max_iter, self.tol, self.verbose)
        validation = None
        if self.early_stopping:
            rows, held_out = self._split(objective.y, rng)
            objective, validation = objective.batch(rows), objective.batch(held_out)
        f = objective.model.f
        if isinstance(f, Architecture) and f.dropout > 0:
            noisy = replace(objective.model, f=lambda params, X: f.noisy(params, X, rng))
            objective = replace(objective, model=noisy)
        return adam(
            objective,
            theta,
            rng,
            batch_size=min(self.batch_size, len(objective.y)),
            learning_rate=self.learning_rate,
            max_iter=self.max_iter,
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change,
            validation=validation,
            verbose=self.verbose,
        )

    def _split(self, t, rng):
        stratify = t if hasattr(self, "classes_") else None
        return train_test_split(
            np.arange(len(t)), test_size=self.validation_fraction, random_state=rng, stratify=stratify
        )

    # ------------------------------------------------------------------ the model behind it
    def _penalties(self, params):
        """A number per leaf of the parameters."""
        l2, f = spread(self.l2, params), self._function()
        if not isinstance(f, Architecture) or isinstance(self.l2, dict | list | tuple):
            return l2
        return map_leaves(lambda penalised: penalised * float(self.l2), f.penalised(params))

    def _fields(self):
        return {"loss": self.loss_, "classes": getattr(self, "classes_", None), "output_map": self.loss_.output_map}

    def _traced_model(self, params, route):
        tree, theta = Tree.of(params)
        sizes = [int(np.prod(shape)) for shape in tree.shapes]
        return AutogradModel(
            theta=theta,
            l2=np.repeat(np.array(leaves_of(self._penalties(params)), dtype=float), sizes),
            f=self._function(),
            tree=tree,
            n_columns=self.n_columns_,
            route=route,
            probe=self.X_probe_,
            **self._fields(),
        )

    def _analytic_model(self, params):
        """The architecture's own model, or None."""
        f = self._function()
        return f.parametric(params, self._penalties(params), **self._fields()) if isinstance(f, Architecture) else None

    def _raw(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._traced_model(self.params_, Looped()).raw(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def _check_weight(sample_weight, n):
    if sample_weight is None:
        return np.ones(n)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), a number for each row of X; got {weight.shape}.")
    if not np.isfinite(weight).all() or (weight < 0).any() or not (weight > 0).any():
        raise ValueError(
            "sample_weight must be finite, must not be negative, and must contain at least one non-zero number."
        )
    return weight


def _check_number(estimator, name, kind, lowest):
    value = getattr(estimator, name)
    if not isinstance(value, kind) or not value >= lowest:
        what = "an integer" if kind is Integral else "a number"
        raise ValueError(f"{name} must be {what} >= {lowest}, got {value!r}.")


# ---------------------------------------------------------------------- mistakes in functions that users write
FEW = 5  # rows that a function is tried on: enough to tell whether it mixes them
NOT_TRACED = (
    "autograd cannot differentiate {name}: {error}. Write {name} with functions of autograd.numpy and "
    "autograd.scipy.special in place of numpy's and scipy's, X @ W in place of X.dot(W) or numpy.dot, and "
    "autograd.numpy.stack, concatenate or where in place of item assignment."
)


def columns_of(f, params, X):
    """K, the number of columns of f(params, X), one if it is (n,)."""
    shape = np.shape(f(params, X))
    if len(shape) not in (1, 2) or shape[0] != len(X):
        raise ValueError(
            f"f(params, X) must return shape (n,) or (n, k), a prediction for each row of X; it returned {shape} for X "
            f"of shape {X.shape}."
        )
    return 1 if len(shape) == 1 else shape[1]


def check_columns(found, expected, reason):
    """f has as many columns as its loss takes."""
    if found != expected:
        shapes = "(n,) or (n, 1)" if expected == 1 else f"(n, {expected})"
        raise ValueError(f"f(params, X) must return shape {shapes} for {reason}; it returned {found} column(s).")


def check_rows_are_separate(f, params, X):
    """The prediction of a row depends on that row alone."""
    X = X[:FEW]
    together = np.ravel(f(params, X))
    one_by_one = np.concatenate([np.ravel(f(params, row[None])) for row in X])
    if not np.isfinite(together).all():
        return  # check_start has a word on that
    if one_by_one.shape != together.shape or not np.allclose(
        together, one_by_one, rtol=1e-6, atol=1e-6 * np.abs(together).max()
    ):
        raise ValueError(
            "f(params, X) mixes rows: the prediction of a row changes with the other rows of X, as it does with "
            "X - X.mean(axis=0) inside f. Do that in a transformer before the model, such as StandardScaler."
        )


def check_differentiable(function, at, name):
    """autograd can trace ``function`` of one array, into numbers."""

    def traced(x):
        value = function(x)
        if getattr(value, "dtype", None) == np.dtype(object):
            raise TypeError("it makes an array of objects out of traced numbers")
        return value

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            pull, value = make_vjp(traced)(at)
            gradient = pull(np.ones_like(value))
        except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
            raise TypeError(NOT_TRACED.format(name=name, error=str(error).rstrip("."))) from error
    if any("independent of input" in str(warning.message) for warning in caught):
        raise ValueError(f"{name} does not depend on what autograd differentiates it by; use that argument in {name}.")
    return gradient


def check_loss_per_row(loss, f, y):
    """A user's loss gives one number for each row, and autograd can differentiate it in f."""
    f, y = f[:FEW], y[:FEW]
    shape = np.shape(loss.value(f, y))
    if shape != y.shape:
        raise ValueError(
            f"loss(f, y) must return the loss of each row, shape ({len(y)},) for these {len(y)} rows; it returned "
            f"shape {shape}. Leave out the mean or sum."
        )
    check_differentiable(lambda f: loss._rows(f, y), f, "loss")


def check_start(objective, theta):
    """f, the loss and its gradient are finite at the initial parameters, on all rows."""
    model = objective.model
    with np.errstate(all="ignore"):
        f = model.raw(objective.Z, theta)
        losses = model.loss.value(f, objective.y)
        gradient = objective(theta)[1]
    for name, array in (("f(params, X)", f), ("the loss", losses), ("the gradient of the loss", gradient)):
        if not np.isfinite(array).all():
            raise ValueError(
                f"{name} is NaN or infinite at the initial parameters. Choose another init, or scale X (StandardScaler "
                "in a pipeline)."
            )
