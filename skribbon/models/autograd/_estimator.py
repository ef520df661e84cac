"""Base class of the autograd estimators: start, check, train, and build the parametric model."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from autograd import make_vjp
from autograd.tracer import isbox
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._utils.checks import check_count, checked_weight
from ..._utils.compat import VersionedEstimator
from ..._utils.typing import RandomState
from ...exceptions import warn_user
from ..architectures import Architecture, Tree, leaves_of, map_leaves, mlp, open_nest, spread
from ..base import polish
from ..losses import Loss
from .derivatives import AutogradLoss, AutogradModel, Looped, StoresFunctions, check_supplied

RegressionLoss: TypeAlias = Literal["squared_error", "gaussian_nll", "poisson", "gamma", "huber", "student_t"]


@dataclass(repr=False, eq=False)
class AutogradEstimator(StoresFunctions, VersionedEstimator):
    """Base of AutogradRegressor and AutogradClassifier; a subclass knows its targets and losses."""

    _functions = ("f", "init", "loss", "jac", "loss_")

    f: Callable[[Any, Any], Any] | Architecture | None = None
    init: Any = None
    _: KW_ONLY
    loss: RegressionLoss | Loss | Callable[[Any, Any], Any] = "squared_error"
    l2: Any = 0.0
    solver: Literal["lbfgs", "adam"] = "lbfgs"
    jac: Callable[[Any, Any], Any] | None = None
    polish: bool = False
    max_iter: int = 200
    tol: float = 1e-6
    batch_size: int = 200
    learning_rate: float = 1e-3
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    random_state: RandomState = None
    verbose: int = 0

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
        weight = checked_weight(sample_weight, X)
        counted = weight > 0
        X, y, t, weight = X[counted], y[counted], t[counted], weight[counted]
        rng = check_random_state(self.random_state)
        model = self._start(X, t, rng)
        objective = Objective(model, X, t, weight)
        if self.solver == "adam":
            theta, self.n_iter_, self.loss_curve_, self.validation_loss_curve_ = self._adam(objective, rng)
        else:
            theta, self.n_iter_ = lbfgs(objective, model.theta, self.max_iter, self.tol, self.verbose)
        self.params_ = model.tree.unpack(theta)
        if self.polish:
            self.params_ = polish(self, X, y, weight, verbose=self.verbose).params_
        return self

    def _check_settings(self):
        for name in ("max_iter", "batch_size", "n_iter_no_change"):
            check_count(getattr(self, name), name)
        for name in ("tol", "learning_rate"):
            if not isinstance(value := getattr(self, name), Real) or not value >= 0:
                raise ValueError(f"{name} must be a number >= 0, got {value!r}.")
        if self.solver not in ("lbfgs", "adam"):
            raise ValueError(f"solver must be 'lbfgs' or 'adam', got {self.solver!r}.")
        if self.early_stopping and self.solver != "adam":
            raise ValueError("early_stopping=True needs solver='adam'; set l2 instead to keep solver='lbfgs' smooth.")
        if self.early_stopping and self.polish:
            raise ValueError(
                "early_stopping=True stops short of a minimum on purpose and polish=True goes there; choose one."
            )

    def _start(self, X, t, rng):
        """Model at its initial parameters, with checks of f, loss and jac."""
        f = self._function()
        self.loss_ = self._named_loss(t)
        params = self._initial(f, X, t, rng)
        tree, theta = Tree.of(params)
        params = tree.unpack(theta)
        self.n_columns_ = columns_of(f, params, X[:FEW])
        self.loss_ = self._checked_loss(self.loss_, self.n_columns_, t)
        some = X[np.unique(np.linspace(0, len(X) - 1, 8).astype(int))]
        means = (some + np.roll(some, 1, axis=0)) / 2  # so that a fitted model holds no row of X; codes stay codes
        self.X_probe_ = np.where((some % 1 == 0).all(axis=0), some, means)
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
        loss = self.loss_
        return f.init(X, loss.n_outputs if loss.output_map is None else len(loss.output_map), rng)

    def _adam(self, objective, rng):
        theta, validation = objective.model.theta, None
        if self.early_stopping:
            t, size = objective.y, self.validation_fraction
            stratify = t if hasattr(self, "classes_") else None
            rows, held_out = train_test_split(np.arange(len(t)), test_size=size, random_state=rng, stratify=stratify)
            objective, validation = objective.batch(rows), objective.batch(held_out)
        f = objective.model.f
        if isinstance(f, Architecture) and f.dropout > 0:
            noisy = replace(objective.model, f=lambda params, X: f.noisy(params, X, rng))
            objective = replace(objective, model=noisy)
        return adam(objective, theta, rng, self, validation)

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

    def _raw(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._traced_model(self.params_, Looped()).raw(X)


# ---------------------------------------------------------------------- training by gradients
@dataclass(frozen=True, eq=False)
class Objective:
    """Training objective sum_i w_i loss_i / total + 1/2 sum_j l2_j theta_j^2 over some rows of a traced model."""

    model: object
    Z: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def data_loss(self, theta):
        """Weighted mean loss, without the penalty."""
        f = self.model.raw(self.Z, theta)
        return float(self.weight @ self.model.loss.value(f, self.y) / self.weight.sum())

    def __call__(self, theta, total=None):
        """Value and gradient; ``total`` is the sum of the weights unless a minibatch stands for other rows too."""
        model, total = self.model, self.weight.sum() if total is None else total
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # line searches try extreme parameters
            f, pull = model.linearized(self.Z, theta)
            value = self.weight @ model.loss.value(f, self.y) / total + model.l2 @ theta**2 / 2
            slope = model.loss.gradient(f, self.y) * (self.weight / total)[:, None]
            return value, pull(slope) + model.l2 * theta

    def batch(self, rows):
        """Objective of some of the rows."""
        return Objective(self.model, self.Z[rows], self.y[rows], self.weight[rows])


def lbfgs(objective, theta, max_iter, tol, verbose=0):
    """Parameters (p,) at which no entry of the gradient exceeds ``tol``, by L-BFGS, and the number of iterations."""

    def report(intermediate_result):
        print(f"iteration: objective {intermediate_result.fun:.8g}")

    ftol = max(1e-3 * tol, 4 * np.finfo(float).eps)
    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "gtol": tol, "ftol": ftol}
    callback = report if verbose else None
    result = minimize(objective, theta, jac=True, method="L-BFGS-B", callback=callback, options=options)
    if not result.success:
        warn_user(
            f"solver='lbfgs' stopped after {result.nit} iterations short of a minimum ({result.message}), so intervals "
            "may be off centre. Try: a larger max_iter, columns of a common scale, a penalty l2, or polish=True.",
            ConvergenceWarning,
        )
    return result.x, int(result.nit)


def adam(objective, theta, rng, settings, validation):
    """Parameters (p,) of Adam's best epoch, the number of epochs, and their losses in training and validation."""
    n, max_iter = len(objective.y), settings.max_iter
    mean, square, step = np.zeros_like(theta), np.zeros_like(theta), 0
    beta_1, beta_2, epsilon = 0.9, 0.999, 1e-8  # decay rates of both running means; the usual values
    best, best_theta, since = np.inf, theta, 0
    curve, validation_curve = [], []
    for epoch in range(1, max_iter + 1):
        order, values = rng.permutation(n), []
        for start in range(0, n, settings.batch_size):
            rows = order[start : start + settings.batch_size]
            value, g = objective.batch(rows)(theta, total=objective.weight.sum() * len(rows) / n)
            step, values = step + 1, [*values, value * len(rows)]
            mean = beta_1 * mean + (1 - beta_1) * g
            square = beta_2 * square + (1 - beta_2) * g**2
            scale = np.sqrt(square / (1 - beta_2**step)) + epsilon
            theta = theta - settings.learning_rate * mean / (1 - beta_1**step) / scale
        curve.append(float(np.sum(values) / n))
        if not np.isfinite(curve[-1]):
            raise ValueError(
                f"The loss became {curve[-1]} in epoch {epoch} of solver='adam'. Lower learning_rate, or scale X and y."
            )
        if validation is not None:
            validation_curve.append(validation.data_loss(theta))
        current = curve[-1] if validation is None else validation_curve[-1]
        since = 0 if current < best - settings.tol else since + 1
        if current < best:
            best, best_theta = current, theta
        if settings.verbose:
            print(f"epoch {epoch}: loss {curve[-1]:.6g}" + (f", validation {current:.6g}" if validation_curve else ""))
        if since >= settings.n_iter_no_change:
            break
    else:
        warn_user(
            f"solver='adam' stopped after max_iter={max_iter} epochs while the loss still fell, so intervals may be "
            "off centre. Try: a larger max_iter.",
            ConvergenceWarning,
        )
    return best_theta, epoch, curve, validation_curve


# ---------------------------------------------------------------------- mistakes in functions that users write
FEW = 5  # rows on which a user's function is tried: enough to see whether it mixes rows
NOT_TRACED = (
    "autograd cannot differentiate {name}: {error}. Write {name} with functions of autograd.numpy and "
    "autograd.scipy.special in place of numpy's and scipy's, X @ W in place of X.dot(W) or numpy.dot, and "
    "autograd.numpy.stack, concatenate or where in place of item assignment."
)


def columns_of(f, params, X):
    """Number of columns of f(params, X); one if it is (n,)."""
    shape = np.shape(f(params, X))
    if len(shape) not in (1, 2) or shape[0] != len(X):
        raise ValueError(
            f"f(params, X) must return shape (n,) or (n, k), a prediction for each row of X; it returned {shape} for X "
            f"of shape {X.shape}."
        )
    return 1 if len(shape) == 1 else shape[1]


def check_columns(found, expected, reason):
    """Raise ValueError unless f has as many columns as its loss takes."""
    if found != expected:
        shapes = "(n,) or (n, 1)" if expected == 1 else f"(n, {expected})"
        raise ValueError(f"f(params, X) must return shape {shapes} for {reason}; it returned {found} column(s).")


def check_rows_are_separate(f, params, X):
    """Raise ValueError if the prediction of a row depends on other rows."""
    X = X[:FEW]
    together = np.ravel(f(params, X))
    one_by_one = np.concatenate([np.ravel(f(params, row[None])) for row in X])
    if not np.isfinite(together).all():
        return  # check_start raises
    largest = np.abs(together).max()
    if one_by_one.shape != together.shape or not np.allclose(together, one_by_one, rtol=1e-6, atol=1e-6 * largest):
        raise ValueError(
            "f(params, X) mixes rows: the prediction of a row changes with the other rows of X, as it does with "
            "X - X.mean(axis=0) inside f. Do that in a transformer before the model, such as StandardScaler."
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
        raise ValueError(
            f"loss(f, y) must return the loss of each row, shape ({len(y)},) for these {len(y)} rows; it returned "
            f"shape {shape}. Leave out the mean or sum."
        )
    check_differentiable(lambda f: loss._rows(f, y), f, "loss")


def check_start(objective, theta):
    """Raise ValueError unless f, the loss and its gradient are finite at the initial parameters."""
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
