"""Estimators around torch modules; needs the extra "torch"."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

try:
    import torch
except ImportError as error:
    raise ImportError(f"skribbon.models.torch needs PyTorch: pip install 'skribbon[torch]' ({error}).") from error

from .. import trained
from ..base import as_parametric, with_theta
from ..losses import Loss
from .derivatives import TWO_LOGITS, TorchModel, tensor

__all__ = ["TorchClassifier", "TorchRegressor"]


@contextmanager
def seeded(rng):
    """Context in which torch's random numbers follow from ``rng``; outside it they are as before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(rng.randint(np.iinfo(np.int32).max))
        yield


@dataclass(repr=False, eq=False)
class TorchEstimator(trained.TrainedEstimator):
    """Base of TorchRegressor and TorchClassifier; a subclass knows its targets and losses."""

    _functions = ("module", "module_")
    _call = "module(X)"

    module: torch.nn.Module | Callable[[int, int], torch.nn.Module] | None = None
    _: KW_ONLY
    loss: trained.RegressionLoss | Loss = "squared_error"
    weight_decay: float = 0.0
    fitted: bool = False

    def _check_settings(self):
        super()._check_settings()
        if not isinstance(self.weight_decay, Real) or not 0 <= self.weight_decay < np.inf:
            raise ValueError(f"weight_decay must be a finite number >= 0, got {self.weight_decay!r}.")
        if self.fitted and not isinstance(self.module, torch.nn.Module):
            raise ValueError(f"fitted=True needs a trained torch.nn.Module, got module={self.module!r}.")

    def _start(self, X, t, rng):
        self.loss_ = self._named_loss(t)
        outputs = self.loss_.n_outputs if self.loss_.output_map is None else len(self.loss_.output_map)
        with seeded(rng):
            module = self._initial(X.shape[1], outputs)
        some, whole = X[: trained.FEW], deepcopy(module).to("cpu", torch.float64).eval()

        def call(_, Z):
            return whole(tensor(Z)).detach().numpy()

        self.n_columns_ = trained.columns_of(self._call, call, None, some)
        self.loss_ = self._checked_loss(self.loss_, self.n_columns_, t)
        trained.check_rows_are_separate(self._call, call, None, some)
        model = self._model(module)
        if not self.fitted:  # which has converged, and a pass over all rows takes long
            trained.check_start(self._call, trained.Objective(model, X, t, np.ones(len(t))), model.theta)
        model.tangent(X[:2]).scores(np.ones((len(X[:2]), model.loss.n_outputs)))  # raises before the training
        return model

    def _initial(self, n_features, n_outputs):
        """Module at its initial parameters, by torch's random numbers."""
        module = self.module
        if module is None:
            hidden = torch.nn.Linear(n_features, 64)
            return torch.nn.Sequential(hidden, torch.nn.Tanh(), torch.nn.Linear(64, n_outputs))
        if not isinstance(module, torch.nn.Module):
            module = module(n_features, n_outputs) if callable(module) else module
            if not isinstance(module, torch.nn.Module):
                raise TypeError(
                    f"module must be a torch.nn.Module, or return one for (n_features, n_outputs); got {module!r}."
                )
            return module
        module = deepcopy(module)
        for part in () if self.fitted else module.modules():
            if hasattr(part, "reset_parameters") and all(leaf.requires_grad for leaf in part.parameters()):
                part.reset_parameters()
        return module

    def _model(self, module):
        M, classes = self.loss_.output_map, getattr(self, "classes_", None)
        if classes is not None and len(classes) == self.n_columns_ == 2:
            M = TWO_LOGITS
        fields = {"loss": self.loss_, "classes": classes, "output_map": M, "n_features": self.n_features_in_}
        return TorchModel.from_module(module, self.weight_decay, **fields)

    def _fitted_model(self):
        return self._model(self.module_)

    def _adopt(self, model, theta):
        self.module_ = model.module_at(theta)

    def _noisy(self, model, rng):
        return replace(model, noisy=True)

    def _minimised(self, objective, rng):
        model = objective.model
        if self.fitted:
            self.n_iter_ = 0
            return model.theta
        with seeded(rng):
            theta = super()._minimised(objective, rng)
            if self.solver == "adam":
                update_statistics(model, objective.Z, theta)
        return theta


def update_statistics(model, Z, theta):
    """Set the running statistics of normalization layers to the statistics of all rows at the trained parameters."""
    parts = [part for part in model.module.modules() if getattr(part, "running_mean", None) is not None]
    momenta = [part.momentum for part in parts]
    for part in parts:
        part.momentum = 1.0
    if parts:
        replace(model, noisy=True).linearized(Z, theta)
    for part, momentum in zip(parts, momenta, strict=True):
        part.momentum = momentum


@dataclass(repr=False, eq=False)
class TorchRegressor(trained.Regression, TorchEstimator):
    r"""Regression with a torch module.

    Minimises

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i\, \ell(f(x_i; \theta), y_i)
              + \tfrac12 \mathrm{weight\_decay}\, |\theta|^2 ,

    in double precision and on the CPU, whatever the module's own. Dropout and batch normalization are active in the
    training steps of adam. Everywhere else the module is in evaluation mode: in lbfgs, predictions and derivatives.
    Batch normalization then uses statistics of the training rows, or its initial ones after lbfgs.

    Parameters
    ----------
    module : torch.nn.Module or callable, default=None
        Module that maps a float64 tensor (n, d) to (n,) or (n, k), each row from that row alone. ``fit`` trains a copy,
        whose parts are initialized again by ``reset_parameters``; parameters of other parts start from the values they
        have, and parameters without ``requires_grad`` are constants. A callable ``module(n_features, n_outputs)``, such
        as a class, returns a module with its initial parameters. None has one hidden layer of 64 tanh units.
    loss : str or Loss, default="squared_error"
        "squared_error", which takes a y of several columns, and f as many; "huber"; "student_t"; "poisson" and "gamma",
        where f is the logarithm of the mean; "gaussian_nll", where f has two columns, mean and log variance. An object
        of :mod:`skribbon.models` (``Huber(2.0)``, ``StudentT(df=4)``, ...) sets their constants.
    weight_decay : float, default=0.0
        Penalty on all parameters, like ``weight_decay`` of ``torch.optim.Adam``. The loss "squared_error" is half the
        squared error, so ``torch.nn.MSELoss`` with a decay of w is weight_decay = w / 2.
    fitted : bool, default=False
        Whether the module is trained, so that ``fit`` keeps its parameters. X and y must be its training rows, and
        ``weight_decay`` its penalty. A Ribbon then makes no refits, as around a FrozenEstimator.
    solver : {"lbfgs", "adam"}, default="lbfgs"
        All rows at once, or minibatches.
    polish : bool, default=False
        Finish with Newton steps, until the gradient is zero; see :func:`skribbon.models.polish`.
    max_iter : int, default=200
        Iterations of lbfgs, epochs of adam.
    tol : float, default=1e-6
        lbfgs stops when no entry of the gradient exceeds it; adam when ``n_iter_no_change`` epochs in a row have not
        lowered the loss by more.
    batch_size : int, default=200
        Rows in one step of adam.
    learning_rate : float, default=1e-3
        Learning rate of adam.
    early_stopping : bool, default=False
        Whether adam scores epochs on held-out rows and keeps the parameters of the best one.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out.
    n_iter_no_change : int, default=10
    random_state : int, RandomState or None, default=None
        Seed of the initial parameters, of the order of the minibatches and of dropout.
    verbose : int, default=0

    Attributes
    ----------
    module_ : torch.nn.Module
        Trained copy of the module, float64 and in evaluation mode.
    n_iter_ : int
    loss_ : Loss
    loss_curve_, validation_loss_curve_ : list of float
        Loss of each epoch of adam, on its training rows and on held-out rows.
    n_columns_ : int
        Columns of the module's output.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from torch import nn
    >>> from skribbon.models.torch import TorchRegressor
    >>> X = np.linspace(-2, 2, 100)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> module = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1))
    >>> network = TorchRegressor(module, weight_decay=1e-4, max_iter=2000, random_state=0)
    >>> lower, upper = RibbonRegressor(network).fit(X, y).predict_interval(X).T
    >>> bool(np.mean((lower < y) & (y < upper)) > 0.85)
    True
    """


@dataclass(repr=False, eq=False)
class TorchClassifier(trained.Classification, TorchEstimator):
    """Classification with a torch module.

    The module returns logits: (n, K) for K classes, as for ``torch.nn.CrossEntropyLoss``; for two classes also (n,) or
    (n, 1), the log odds of the second class. The objective, the precision and the evaluation mode are those of
    :class:`TorchRegressor`.

    Parameters
    ----------
    module : torch.nn.Module or callable, default=None
        Module that maps a float64 tensor (n, d) to logits, each row from that row alone, or a callable
        ``module(n_features, n_outputs)`` that returns one; n_outputs is 1 for two classes.
    loss : "log_loss", default="log_loss"
    weight_decay, fitted, solver, polish : float, bool, {"lbfgs", "adam"} and bool
    max_iter, tol, batch_size, learning_rate : int, float, int and float
    early_stopping, validation_fraction, n_iter_no_change : bool, float and int
    random_state, verbose : int, RandomState or None, and int
        As in :class:`TorchRegressor`, with the same defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The other attributes are those of :class:`TorchRegressor`.

    Examples
    --------
    >>> from torch import nn
    >>> from skribbon.models.torch import TorchClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3))
    >>> network = TorchClassifier(module, weight_decay=0.01, random_state=0).fit(X[:, 2:], y)
    >>> bool(network.score(X[:, 2:], y) > 0.95)
    True
    """

    _: KW_ONLY
    loss: Literal["log_loss"] = "log_loss"  # type: ignore[assignment]

    def _named_loss(self, t):
        if self.loss != "log_loss":
            raise ValueError(f"loss must be 'log_loss', got {self.loss!r}.")
        return super()._named_loss(t)

    def _checked_loss(self, loss, columns, y):
        two = columns == len(self.classes_) == 2
        return loss if two else super()._checked_loss(loss, columns, y)


@as_parametric.register(TorchRegressor | TorchClassifier)
def _(estimator: Any, y: Any, sample_weight: Any) -> TorchModel:
    check_is_fitted(estimator)
    return estimator._fitted_model()


@with_theta.register(TorchRegressor | TorchClassifier)
def _(estimator: Any, model: TorchModel, theta: Any) -> Any:
    estimator = copy(estimator)
    estimator._adopt(model, theta)
    return estimator
