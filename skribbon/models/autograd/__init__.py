"""Estimators of functions f(params, X) that users write in autograd.numpy."""

from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._core.thresholds import SLOW_ROWS
from ...exceptions import SlowDerivativeWarning, warn_user
from ..architectures import Tree
from ..base import as_parametric, with_theta
from ..trained import Classification, Regression
from ._estimator import AutogradEstimator
from .derivatives import FEW_PARAMETERS, AutogradLoss, AutogradModel, check_supplied, fastest_route


@dataclass(repr=False, eq=False)
class AutogradRegressor(Regression, AutogradEstimator):
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
    jac : callable, default=None
        ``jac(params, X)``, the derivative of f: a nest like the parameters with leaves (n, \*shape), or
        (n, k, \*shape) if f has k columns, or one array (n, p) or (n, k, p). Only needed for speed.
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

    See Also
    --------
    AutogradClassifier : Classification with your own function.
    skribbon.models.architectures.mlp : A network that is ready to use.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

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

    _other_losses = ", or a function loss(f, y)"

    def _named_loss(self, t):
        return AutogradLoss(self.loss) if t.ndim == 1 and callable(self.loss) else super()._named_loss(t)

    def _checked_loss(self, loss, columns, y):
        own = isinstance(loss, AutogradLoss)
        return AutogradLoss(loss.function, columns) if own else super()._checked_loss(loss, columns, y)


@dataclass(repr=False, eq=False)
class AutogradClassifier(Classification, AutogradEstimator):
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
    l2, jac, solver, polish : float or nest of floats, callable, {"lbfgs", "adam"} and bool
    max_iter, tol, batch_size, learning_rate : int, float, int and float
    early_stopping, validation_fraction, n_iter_no_change : bool, float and int
    random_state, verbose : int, RandomState or None, and int
        As in :class:`AutogradRegressor`, with the same defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The other attributes are those of :class:`AutogradRegressor`.

    See Also
    --------
    AutogradRegressor : Regression with your own function.
    skribbon.models.architectures.mlp : A network that is ready to use.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

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

    def _named_loss(self, t):
        family = super()._named_loss(t)
        if self.loss == "log_loss":
            return family
        if callable(self.loss):
            return AutogradLoss(self.loss, family.n_outputs, family)
        raise ValueError(f"loss must be 'log_loss' or a function loss(f, y) of logits, got {self.loss!r}.")


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
