"""Estimators of functions f(params, X) that users write in autograd.numpy."""

from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._core.thresholds import SLOW_ROWS
from ..._utils.checks import class_targets
from ..._utils.typing import FloatArray
from ...exceptions import SlowDerivativeWarning, warn_user
from ..architectures import Tree
from ..base import as_parametric, is_whole, takes_outputs, with_theta
from ..losses import Bernoulli, Categorical, GaussianNLL, Huber, Loss, SquaredErrors, StudentT, Tweedie
from ._estimator import AutogradEstimator, RegressionLoss, check_columns
from .derivatives import FEW_PARAMETERS, AutogradLoss, AutogradModel, check_supplied, fastest_route

# Losses by name; 1.35 is scikit-learn's default for Huber's loss: 95% efficient for normal noise.
REGRESSION_LOSSES: dict[RegressionLoss, Loss] = {
    "squared_error": Tweedie(),
    "gaussian_nll": GaussianNLL(),
    "poisson": Tweedie(1, "log"),
    "gamma": Tweedie(2, "log"),
    "huber": Huber(1.35),
    "student_t": StudentT(),
}


class AutogradRegressor(RegressorMixin, AutogradEstimator):
    r"""Regression with a function that you write in autograd.numpy.

    Minimises

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i\, \ell(f(x_i; \theta), y_i)
              + \tfrac12 \sum_j \mathrm{l2}_j \theta_j^2 ,

    so that l2 is on the scale of the *mean* loss.

    Parameters
    ----------
    f : callable or architecture, default=None
        ``f(params, X)``, X of shape (n, d), returns (n,) or (n, k), each row from that row of X alone. None is
        ``mlp((64,))``. See :mod:`skribbon.models.architectures` for ready-made ones.
    init : nested lists, tuples and dicts of numbers and arrays, or callable, default=None
        The initial parameters, or ``init(X, y, random_state)`` that returns them. An architecture has its own.
    loss : str, Loss or callable, default="squared_error"
        "squared_error", which takes a y of several columns, and f as many; "huber"; "student_t"; "poisson" and "gamma",
        where f is the logarithm of the mean; "gaussian_nll", where f has two columns, mean and log variance. An object
        of :mod:`skribbon.models` (``Huber(2.0)``, ``StudentT(df=4)``, ...) sets their constants. A callable
        ``loss(f, y)`` in autograd.numpy returns the loss of each row, (n,).
    l2 : float or nest of floats, default=0.0
        Penalty. A number applies to all parameters, or with an architecture to its weights but not its biases; a nested
        structure that mirrors the top levels of the parameters gives one number per group.
    solver : {"lbfgs", "adam"}, default="lbfgs"
        All rows at once, or minibatches.
    jac : callable, default=None
        ``jac(params, X)``, the derivative of f: a nest like the parameters with leaves (n, \*shape), or
        (n, k, \*shape) if f has k columns, or one array (n, p) or (n, k, p). Only needed for speed.
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
        Seed of init, of the order of the minibatches and of dropout.
    verbose : int, default=0

    Attributes
    ----------
    params_ : nest like init
    n_iter_ : int
    loss_ : Loss
    loss_curve_, validation_loss_curve_ : list of float
        Loss of each epoch of adam, on its training rows and on held-out rows.
    n_columns_ : int
        Columns of f.
    X_probe_ : ndarray of shape (at most 8, n_features)
        Means of pairs of training rows, on which derivatives are verified.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from skribbon import AutogradRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.1, 5, size=(200, 1))
    >>> y = 2 * X[:, 0] / (0.5 + X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> def saturation(params, X):
    ...     return params["top"] * X[:, 0] / (params["half"] + X[:, 0])
    >>> model = AutogradRegressor(saturation, init={"top": 1.0, "half": 1.0})
    >>> ribbon = RibbonRegressor(model).fit(X, y)
    >>> ribbon.predict_interval(X[:2]).round(1)
    array([[1.6, 1.9],
           [1.3, 1.6]])
    """

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
        if callable(self.loss):
            return AutogradLoss(self.loss)
        names = ", ".join(map(repr, REGRESSION_LOSSES))
        raise ValueError(f"loss must be {names}, a Loss for regression, or a function loss(f, y), got {self.loss!r}.")

    def _checked_loss(self, loss, columns, y):
        if isinstance(loss, AutogradLoss):
            return AutogradLoss(loss.function, columns)
        reason = f"loss={self.loss!r}" + (f" and {y.shape[1]} outputs" if y.ndim == 2 else "")
        check_columns(columns, loss.n_outputs, reason)
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


@dataclass(repr=False, eq=False)
class AutogradClassifier(ClassifierMixin, AutogradEstimator):
    """Classification with a function that you write in autograd.numpy.

    f returns logits: (n,) or (n, 1), the log odds of the second class, for two classes, and (n, K) for K > 2. The
    objective is that of :class:`AutogradRegressor`, with l2 on the scale of the *mean* loss.

    Parameters
    ----------
    f : callable or architecture, default=None
        ``f(params, X)``, X of shape (n, d), returns logits, each row from that row of X alone. None is ``mlp((64,))``.
    init : nested lists, tuples and dicts of numbers and arrays, or callable, default=None
        The initial parameters, or ``init(X, y, random_state)`` that returns them and sees y as class indices. An
        architecture has its own.
    loss : "log_loss" or callable, default="log_loss"
        A callable ``loss(f, y)`` in autograd.numpy takes logits, (n,) for two classes and (n, K) with zero row sums for
        more, and class indices y; it returns the loss of each row, (n,).
    l2, solver, jac, polish : float or nest of floats, {"lbfgs", "adam"}, callable and bool
    max_iter, tol, batch_size, learning_rate : int, float, int and float
    early_stopping, validation_fraction, n_iter_no_change : bool, float and int
    random_state, verbose : int, RandomState or None, and int
        As in :class:`AutogradRegressor`, with the same defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The other attributes are those of :class:`AutogradRegressor`.

    Examples
    --------
    >>> from skribbon import AutogradClassifier
    >>> from skribbon.models.architectures import mlp
    >>> X, y = load_iris(return_X_y=True)
    >>> network = AutogradClassifier(mlp((2,)), l2=0.01, random_state=0).fit(X[:, 2:], y)
    >>> bool(network.score(X[:, 2:], y) > 0.95)
    True
    """

    _: KW_ONLY
    loss: Literal["log_loss"] | Callable[[Any, Any], Any] = "log_loss"  # type: ignore[assignment]

    def _validated(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, t = class_targets(y)
        return X, y, t.astype(float)

    def _named_loss(self, t):
        K = len(self.classes_)
        family = Bernoulli() if K == 2 else Categorical(K)
        if self.loss == "log_loss":
            return family
        if callable(self.loss):
            return AutogradLoss(self.loss, family.n_outputs, family)
        raise ValueError(f"loss must be 'log_loss' or a function loss(f, y) of logits, got {self.loss!r}.")

    def _checked_loss(self, loss, columns, y):
        K = len(self.classes_)
        check_columns(columns, 1 if K == 2 else K, f"{K} classes")
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


@as_parametric.register(AutogradRegressor | AutogradClassifier)
def _(estimator, y, sample_weight):
    check_is_fitted(estimator)
    model = estimator._analytic_model(estimator.params_)
    if model is not None:
        return model
    (tree, theta), f = Tree.of(estimator.params_), estimator._function()
    probe, columns = estimator.X_probe_, estimator.n_columns_
    if estimator.jac is not None:
        route = check_supplied(estimator.jac, f, tree, theta, probe, columns)
    else:
        route = fastest_route(f, tree, theta, probe, columns)
        if route.loops and len(theta) > FEW_PARAMETERS and len(y) >= SLOW_ROWS:
            warn_user(
                "Derivatives of f are computed a few rows at a time, which is slow. Try: write f as X @ W + b and "
                "elementwise functions, with sums over axis=-1, or in the columns X[:, j]; or pass jac.",
                SlowDerivativeWarning,
            )
    return estimator._traced_model(estimator.params_, route)


@takes_outputs.register(AutogradRegressor)
def _(estimator):
    return estimator.loss == "squared_error"


@with_theta.register(AutogradRegressor | AutogradClassifier)
def _(estimator, model, theta):
    tree, flat = Tree.of(estimator.params_)
    order = np.arange(len(flat))
    if not isinstance(model, AutogradModel):  # an architecture's own model may have theta in another order
        order = estimator._analytic_model(tree.unpack(order.astype(float))).theta.astype(int)
    flat[order] = theta
    estimator = copy(estimator)
    estimator.params_ = tree.unpack(flat)
    return estimator
