"""Estimators that minimize a loss of their raw prediction by its gradient: targets, losses, solvers and checks."""

import pickle
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from joblib import wrap_non_picklable_objects
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils.checks import check_count, check_name, checked_weight, class_targets
from .._utils.compat import VersionedEstimator
from .._utils.typing import FloatArray, PerRow, RandomState
from ..exceptions import warn_user
from .base import is_whole, polish, takes_outputs
from .losses import Bernoulli, Categorical, GaussianNLL, Huber, Loss, SquaredErrors, StudentT, Tweedie

RegressionLoss: TypeAlias = Literal["squared_error", "gaussian_nll", "poisson", "gamma", "huber", "student_t"]
# Losses by name; 1.35 is scikit-learn's default for Huber's loss: 95% efficient for normal noise.
REGRESSION_LOSSES: dict[RegressionLoss, Loss] = {
    "squared_error": Tweedie(),
    "gaussian_nll": GaussianNLL(),
    "poisson": Tweedie(1, "log"),
    "gamma": Tweedie(2, "log"),
    "huber": Huber(1.35),
    "student_t": StudentT(),
}


class StoresFunctions:
    """Mixin: attributes named in ``_functions`` are pickled by value if plain pickle cannot store them."""

    _functions: tuple[str, ...] = ()

    def __getstate__(self):
        state = dict(super().__getstate__())
        held = {name: state[name] for name in self._functions if state.get(name) is not None}
        return {**state, **{name: storable(function, name) for name, function in held.items()}}


def storable(function, name):
    """Return ``function`` if pickle can store it, else a wrapper that loads as ``function``."""
    for candidate in (function, wrap_non_picklable_objects(function, keep_wrapper=False)):
        with suppress(Exception):  # pickling may raise anything
            pickle.dumps(candidate)
            return candidate
    raise TypeError(f"{name}={function!r} cannot be pickled: define {name} at the top level of a module.")


class TrainedEstimator(StoresFunctions, VersionedEstimator):
    """Estimator that lbfgs or adam trains.

    A subclass has ``_start``, its checked model at initial parameters, ``_adopt``, which stores fitted parameters,
    ``_fitted_model``, ``_noisy``, the model that training steps see, and the settings of AutogradRegressor.
    """

    _call = "f(params, X)"  # what users write, for messages

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: PerRow = None) -> Self:
        """Minimize the training objective.

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
        self._adopt(model, self._minimised(Objective(model, X, t, weight), rng))
        if self.polish:
            self.__dict__.update(vars(polish(self, X, y, weight, verbose=self.verbose)))
        return self

    def _minimised(self, objective, rng):
        """Trained parameters, (p,)."""
        if self.solver == "adam":
            theta, self.n_iter_, self.loss_curve_, self.validation_loss_curve_ = self._adam(objective, rng)
        else:
            theta, self.n_iter_ = lbfgs(objective, objective.model.theta, self.max_iter, self.tol, self.verbose)
        return theta

    def _check_settings(self):
        for name in ("max_iter", "batch_size", "n_iter_no_change"):
            check_count(getattr(self, name), name)
        for name in ("tol", "learning_rate"):
            if not isinstance(value := getattr(self, name), Real) or not value >= 0:
                raise ValueError(f"{name} must be a number >= 0, got {value!r}.")
        check_name(self.solver, "solver", ("lbfgs", "adam"))
        if self.early_stopping and self.solver != "adam":
            raise ValueError("early_stopping=True needs solver='adam'; set l2 instead to keep solver='lbfgs' smooth.")
        if self.early_stopping and self.polish:
            raise ValueError("early_stopping=True stops short of a minimum, which polish=True goes to; choose one.")

    def _adam(self, objective, rng):
        theta, validation = objective.model.theta, None
        if self.early_stopping:
            t, size = objective.y, self.validation_fraction
            stratify = t if hasattr(self, "classes_") else None
            rows, held_out = train_test_split(np.arange(len(t)), test_size=size, random_state=rng, stratify=stratify)
            objective, validation = objective.batch(rows), objective.batch(held_out)
        return adam(replace(objective, model=self._noisy(objective.model, rng)), theta, rng, self, validation)

    def _raw(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._fitted_model().raw(X)


@dataclass(repr=False, eq=False, kw_only=True)
class TrainingSettings:
    """Parameters of all estimators that are trained by gradients."""

    solver: Literal["lbfgs", "adam"] = "lbfgs"
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


class Regression(TrainingSettings, RegressorMixin):
    """Mixin: targets and losses of a regressor that is trained by gradients."""

    _other_losses = ""  # what else the parameter loss takes, for a message

    def _validated(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        y = np.asarray(y, dtype=np.float64)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if y.ndim == 2 and not takes_outputs(self):
            raise ValueError(
                f"y has {y.shape[1]} columns, which needs loss='squared_error'; loss={self.loss!r} is for one output. "
                "Fit one for each column, with sklearn.multioutput.MultiOutputRegressor."
            )
        return X, y, y

    def _named_loss(self, t):
        if t.ndim == 2:
            return SquaredErrors(t.shape[1])
        if isinstance(self.loss, str) and self.loss in REGRESSION_LOSSES:
            return REGRESSION_LOSSES[self.loss]
        if isinstance(self.loss, Loss) and not self.loss.n_classes:
            return self.loss
        names = ", ".join(map(repr, REGRESSION_LOSSES))
        raise ValueError(f"loss must be {names}, or a Loss for regression{self._other_losses}, got {self.loss!r}.")

    def _checked_loss(self, loss, columns, y):
        reason = f"loss={self.loss!r}" + (f" and {y.shape[1]} outputs" if y.ndim == 2 else "")
        check_columns(self._call, columns, loss.n_outputs, reason)
        if np.min(y) < loss.least_target:
            sign = ">" if loss.least_target else ">="
            raise ValueError(f"loss={self.loss!r} needs y {sign} 0; the smallest y is {np.min(y):g}.")
        return Tweedie(loss.power, loss.link, is_whole(y)) if isinstance(loss, Tweedie) else loss

    def predict(self, X: ArrayLike) -> FloatArray:
        """Mean of y at each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            f, or its exponential for a loss with log link; the first column of f if there are several and y has one.
        """
        f = self._raw(X)
        return f if self.loss_.by_output else self.loss_.mean(f[:, 0])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        loss = REGRESSION_LOSSES.get(self.loss) if isinstance(self.loss, str) else self.loss
        tags.target_tags.positive_only = bool(getattr(loss, "least_target", -np.inf) >= 0)
        tags.target_tags.multi_output = takes_outputs(self)
        return tags


@takes_outputs.register(Regression)
def _(estimator):
    return estimator.loss == "squared_error"


class Classification(TrainingSettings, ClassifierMixin):
    """Mixin: targets and losses of a classifier that is trained by gradients."""

    def _validated(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, t = class_targets(y)
        return X, y, t.astype(float)

    def _named_loss(self, t):
        K = len(self.classes_)
        return Bernoulli() if K == 2 else Categorical(K)

    def _checked_loss(self, loss, columns, y):
        K = len(self.classes_)
        check_columns(self._call, columns, 1 if K == 2 else K, f"{K} classes")
        return loss

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probabilities of the classes, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        f = self._raw(X)  # raises NotFittedError first
        return self.loss_.probabilities(f)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        most_probable = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most_probable]


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
            raise ValueError(f"The loss is {curve[-1]} in epoch {epoch} of adam. Lower learning_rate, or scale X, y.")
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
            f"solver='adam' stopped at max_iter={max_iter}, so intervals may be off centre. Try: a larger max_iter.",
            ConvergenceWarning,
        )
    return best_theta, epoch, curve, validation_curve


FEW = 5  # rows on which a user's function is tried: enough to see whether it mixes rows


def columns_of(call, f, params, X):
    """Number of columns of f(params, X), in messages ``call``; one if it is (n,)."""
    shape = np.shape(f(params, X))
    if len(shape) not in (1, 2) or shape[0] != len(X):
        raise ValueError(
            f"{call} must return shape (n,) or (n, k), a prediction for each row; it returned {shape} for X {X.shape}."
        )
    return 1 if len(shape) == 1 else shape[1]


def check_columns(call, found, expected, reason):
    """Raise ValueError unless f has as many columns as its loss takes."""
    if found != expected:
        shapes = "(n,) or (n, 1)" if expected == 1 else f"(n, {expected})"
        raise ValueError(f"{call} must return shape {shapes} for {reason}; it returned {found} column(s).")


def check_rows_are_separate(call, f, params, X):
    """Raise ValueError if the prediction of a row depends on other rows."""
    X = X[:FEW]
    together = np.ravel(f(params, X))
    one_by_one = np.concatenate([np.ravel(f(params, row[None])) for row in X])
    if not np.isfinite(together).all():
        return  # check_start raises
    largest = np.abs(together).max()
    if one_by_one.shape != together.shape or not np.allclose(together, one_by_one, rtol=1e-6, atol=1e-6 * largest):
        raise ValueError(
            f"{call} mixes rows: the prediction of a row changes with the other rows of X, as it does with "
            "X - X.mean(axis=0) inside it. Do that in a transformer before the model, such as StandardScaler."
        )


def check_start(call, objective, theta):
    """Raise ValueError unless f, the loss and its gradient are finite at the initial parameters."""
    model = objective.model
    with np.errstate(all="ignore"):
        f = model.raw(objective.Z, theta)
        losses = model.loss.value(f, objective.y)
        gradient = objective(theta)[1]
    for name, array in ((call, f), ("the loss", losses), ("the gradient of the loss", gradient)):
        if not np.isfinite(array).all():
            raise ValueError(
                f"{name} is NaN or infinite at the initial parameters. Choose other ones, or scale X by StandardScaler."
            )
