"""Parametric models: the contract between a fitted estimator and the mathematics, and its registries."""

import sys
from dataclasses import dataclass, replace
from functools import singledispatch
from importlib import import_module
from textwrap import fill
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._core.linalg import gram, right_multiply, row_covariances
from .._core.refits import minimise
from .._core.rows import Groups, Rows, row_blocks
from .._core.thresholds import NEGLIGIBLE_GRADIENT
from .._utils.checks import check_no_dates, checked_weight
from .._utils.compat import cached_property
from .._utils.typing import FloatArray, MatrixLike, PerRow
from ..exceptions import warn_user
from .losses import Loss

FROZEN_MODELS = "A frozen model needs the rows and weights that it was fitted on."
TRAIN_LONGER = f"Try: a larger max_iter, a smaller tol, or for separated classes a penalty. {FROZEN_MODELS}"
POLISH = f"Try: skribbon.models.polish, or lbfgs with a larger max_iter and without early stopping. {FROZEN_MODELS}"


class Tangent:
    """Model linearized at a block of rows: f (n, k), and products with its Jacobian, which subclasses make cheaper."""

    model: Any  # of a subclass with products of the Hessian alone

    def __init__(self, f: FloatArray, J: FloatArray) -> None:
        self.f, self._J = f, J

    def jacobian(self) -> FloatArray:
        """Jacobian J, (n, k, p)."""
        return self._J

    def jvp(self, V: FloatArray) -> FloatArray:
        """Product J V (n, k, r) with directions V (p, r) of the parameters."""
        return right_multiply(self.jacobian(), V)

    def covariances(self, root: FloatArray, shared: dict[str, FloatArray]) -> FloatArray:
        """Covariances (n, k, k) of f if theta has root root'; ``shared`` keeps arrays for other blocks of rows."""
        return row_covariances(self.jvp(root))

    def along(self, D: FloatArray) -> FloatArray:
        """Products J_i d_i (n, k) with one direction per row, D (n, p)."""
        return np.einsum("nkp,np->nk", self.jacobian(), D)

    def vjp(self, U: FloatArray) -> FloatArray:
        """Sum over rows of J_i' U_i, (p, r), for U (n, k, r)."""
        J = self.jacobian()
        return J.reshape(-1, J.shape[2]).T @ U.reshape(-1, U.shape[2])

    def weighted_scores(self, u: FloatArray, c: FloatArray) -> FloatArray:
        """Sums over rows of c_ib J_i' u_i, (p, B), for u (n, k) and weights c (n, B)."""
        return self.vjp(u[:, :, None] * c[:, None, :])

    def scores(self, u: FloatArray) -> FloatArray:
        """Scores J_i' u_i of every row, (n, p), for u (n, k); sparse if the rows are."""
        J = self.jacobian()
        return u * J[:, 0] if J.shape[1] == 1 else np.einsum("nk,nkp->np", u, J)

    def gram(self, R: FloatArray) -> FloatArray:
        """Sum over rows of J_i' R_i R_i' J_i, (p, p), for R (n, k, r)."""
        J = self.jacobian()
        A = R * J if J.shape[1] == 1 else R.transpose(0, 2, 1) @ J
        return gram(A.reshape(-1, A.shape[2]))

    def gram_product(self, R: FloatArray, V: FloatArray) -> FloatArray:
        """Product of :meth:`gram` and V (p, m), without a (p, p) array."""
        return self.vjp(R @ (R.transpose(0, 2, 1) @ self.jvp(V)))

    def squares(self, R: FloatArray) -> FloatArray:
        """Diagonal of :meth:`gram`, (p,)."""
        A = R.transpose(0, 2, 1) @ self.jacobian()
        return np.einsum("nrp,nrp->p", A, A)

    def hessian(self, C: FloatArray, u: FloatArray) -> FloatArray:
        """Sum over rows of J_i' C_i J_i + sum_k u_ik d2f_ik, (p, p), for symmetric C (n, k, k) and u (n, k)."""
        if type(self).hessian_product is Tangent.hessian_product:
            raise TypeError(f"{type(self).__name__} has no exact Hessian; use curvature='ggn' or 'fisher'.")
        H = self.hessian_product(C, u, np.eye(len(self.model.theta)))
        return (H + H.T) / 2

    def hessian_product(self, C: FloatArray, u: FloatArray, V: FloatArray) -> FloatArray:
        """Product of :meth:`hessian` and V (p, r)."""
        return self.hessian(C, u) @ V


@dataclass(frozen=True, kw_only=True, eq=False)
class ParametricModel:
    r"""Fitted model as a differentiable function of a flat parameter vector.

    The fitted parameters minimize

    .. math:: \frac1n \sum_i \ell(f(x_i; \theta), y_i) + \tfrac12 \sum_j \mathrm{l2}_j \theta_j^2 ,

    so ``l2`` is on the scale of the mean loss. A subclass writes ``raw`` and ``jacobian``, or ``tangent`` if it has
    faster derivatives. X is prepared in two steps: ``prepare`` once for all rows (transformers, validation), then
    ``rows`` for each block (float64, intercept column). The three methods take Z = rows(prepare(X)[block]).

    Parameters
    ----------
    theta : ndarray of shape (p,)
        The fitted parameters, flat.
    loss : Loss
        Pointwise loss of the raw prediction f (n, k).
    l2 : ndarray of shape (p,)
        Penalty per coordinate; zero for intercepts.
    penalty_gradient : ndarray of shape (p,), default=None
        Gradient of the whole penalty at theta; ``l2 * theta`` if None. An active L1 part adds to it.
    preprocess : tuple of fitted transformers, default=()
        Applied to X first, in order.
    inputs : object with ``n_features_in_`` and maybe ``feature_names_in_``, default=None
        Columns that the innermost estimator expects after them.
    target_transformer : fitted transformer, default=None
        Maps y to the scale the model was fitted on.
    classes : ndarray of shape (K,), default=None
        Labels of a classifier; the loss takes their indices.
    cure : str
        Advice if the training gradient is not zero.

    See Also
    --------
    as_parametric : Make one from a fitted estimator.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    Examples
    --------
    >>> from skribbon.models import as_parametric
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0])
    >>> model = as_parametric(LinearRegression().fit(X, y), y, np.ones(3))
    >>> Z = model.rows(model.prepare(X))
    >>> model.raw(Z, theta=np.array([3.0, 1.0])).ravel()  # the slope, then the intercept
    array([1., 4., 7.])
    """

    theta: FloatArray
    loss: Loss
    l2: FloatArray
    penalty_gradient: Any = None
    preprocess: tuple[BaseEstimator, ...] = ()
    inputs: Any = None
    target_transformer: BaseEstimator | None = None
    classes: NDArray[Any] | None = None
    cure: str = TRAIN_LONGER

    is_linear = False  # whether f is linear in theta, so that leave-one-out equals a refit without the row
    has_hessian = False  # whether the tangent has an exact Hessian
    exact_is_psd = False  # whether that Hessian is never indefinite, so that curvature="auto" may choose it
    outputs_are_separate = False  # whether each column of y has its own part of theta, of equal length, in order
    has_layers = False  # whether the model is a network of dense layers, with ``layers`` and Kronecker sums

    def __post_init__(self) -> None:
        if self.penalty_gradient is None:
            object.__setattr__(self, "penalty_gradient", self.l2 * self.theta)

    # ------------------------------------------------------------------ the function
    def raw(self, Z: Any, theta: FloatArray | None = None) -> FloatArray:
        """Raw prediction f(x; theta), before the inverse link.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        theta : ndarray of shape (p,), default=None
            The fitted parameters if None.

        Returns
        -------
        ndarray of shape (n, k)
        """
        raise TypeError(f"{type(self).__name__} must define raw(Z, theta=None).")

    def jacobian(self, Z: Any) -> FloatArray:
        """Derivative J_x of the raw prediction in the parameters.

        Parameters
        ----------
        Z : ndarray of shape (n, d)

        Returns
        -------
        ndarray of shape (n, k, p)
        """
        return self.tangent(Z).jacobian()

    def tangent(self, Z: Any) -> Tangent:
        """Linearize the model at a block of rows: its raw prediction, and products with its Jacobian.

        Parameters
        ----------
        Z : ndarray of shape (n, d)

        Returns
        -------
        Tangent
        """
        if type(self).jacobian is ParametricModel.jacobian:
            raise TypeError(f"{type(self).__name__} must define jacobian(Z) or tangent(Z).")
        return Tangent(self.raw(Z), self.jacobian(Z))

    def at(self, theta: FloatArray) -> Self:
        """Copy of the model with other parameters; its penalty moves with them.

        Parameters
        ----------
        theta : ndarray of shape (p,)

        Returns
        -------
        ParametricModel
        """
        return replace(self, theta=theta, penalty_gradient=self.penalty_gradient + self.l2 * (theta - self.theta))

    @cached_property
    def row_width(self) -> int:
        """Floats that one row takes in the largest array of a pass over the rows; sets the size of a block."""
        return len(self.theta) * self.loss.n_outputs

    @property
    def outputs(self) -> tuple["ParametricModel", ...]:
        """A model of each column of y; the model itself if y has one column."""
        return tuple(one_output(self, j) for j in range(len(self.loss.by_output))) or (self,)

    def last_layer(self) -> "ParametricModel":
        """Model as a function of its last layer's parameters; the model itself if it has no layers.

        Returns
        -------
        ParametricModel
        """
        return self

    def centred(self, X: Any) -> Self:
        """Model with features measured from their means, to avoid rounding, if it is linear with an intercept.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n, d)
            Some of the prepared training rows.

        Returns
        -------
        ParametricModel
        """
        return self

    def uncentred(self, V: FloatArray) -> FloatArray:
        """Map directions from the coordinates of :meth:`centred` to the coordinates of the fitted estimator.

        Parameters
        ----------
        V : ndarray of shape (p, r)

        Returns
        -------
        ndarray of shape (p, r)
        """
        return V

    # ------------------------------------------------------------------ X and y, from the user's tables to blocks
    def prepare(self, X: MatrixLike) -> Any:
        """Apply all transformers to X and validate the result.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, d)
        """
        for transformer in self.preprocess:
            X = transformer.transform(X)
        if self.inputs is not None:
            check_inputs(self.inputs, X)
        check_no_dates(X)
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])

    def rows(self, X: Any) -> Any:
        """Convert a block of prepared rows to float64.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
        """
        return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)

    def encode_target(self, y: ArrayLike) -> FloatArray:
        """Convert a target to what the loss takes: class indices, or the transformed target.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        ndarray of the same shape
        """
        if self.classes is not None:
            return class_indices(self.classes, y)
        y = np.asarray(y, dtype=float)
        if self.target_transformer is not None:
            table = y if self.loss.by_output else y.reshape(-1, 1)
            y = np.asarray(self.target_transformer.transform(table), dtype=float).reshape(y.shape)
        return y

    def decode_target(self, t: FloatArray) -> FloatArray:
        """Convert values on the fitted scale back to the scale of y.

        Parameters
        ----------
        t : ndarray

        Returns
        -------
        ndarray, of the same shape
        """
        if self.target_transformer is None:
            return t
        table = t if self.loss.by_output else np.reshape(t, (-1, 1))
        return self.target_transformer.inverse_transform(table).reshape(np.shape(t))


@dataclass(frozen=True, kw_only=True, eq=False)
class OneOutput(ParametricModel):
    """One output of a model whose outputs share their parameters: all of theta, and one column of f."""

    whole: ParametricModel
    index: int

    def __post_init__(self):
        vars(self).update(is_linear=self.whole.is_linear, row_width=self.whole.row_width, rows=self.whole.rows)

    def raw(self, Z, theta=None):
        return self.whole.raw(Z, theta)[:, [self.index]]

    def tangent(self, Z):
        return OneOutputTangent(self.whole.tangent(Z), self.index)


class OneOutputTangent(Tangent):
    """One output of a tangent."""

    def __init__(self, whole, index):
        self.whole, self.index, self.f = whole, index, whole.f[:, [index]]

    def jacobian(self):
        return self.whole.jacobian()[:, [self.index]]

    def jvp(self, V):
        return self.whole.jvp(V)[:, [self.index]]


def one_output(model, j):
    """Model of column j of y, with its own part of theta if the outputs are separate, else with the whole theta."""
    transformer = model.target_transformer
    fields = {"loss": model.loss.by_output[j], "target_transformer": transformer and transformer.column(j)}
    if model.outputs_are_separate:
        arrays = {name: getattr(model, name) for name in ("theta", "l2", "penalty_gradient")}
        return replace(model, **fields, **{name: np.split(A, model.loss.n_outputs)[j] for name, A in arrays.items()})
    names = ("theta", "l2", "penalty_gradient", "preprocess", "inputs", "cure")
    return OneOutput(**fields, **{name: getattr(model, name) for name in names}, whole=model, index=j)


def raw_predictions(model, X):
    """Raw predictions (n, k) at prepared rows X, in blocks."""
    f = np.empty((X.shape[0], model.loss.n_outputs))
    for rows in row_blocks(len(f), model.row_width):
        f[rows] = model.raw(model.rows(X[rows]))
    return f


def raw_and_covariance(model, X, root):
    """Raw predictions (n, k) at prepared rows X, and their covariances (n, k, k) if theta has root root'."""
    n, k = X.shape[0], model.loss.n_outputs
    f, covariance, shared = np.empty((n, k)), np.empty((n, k, k)), {}
    for rows in row_blocks(n, max(model.row_width, k * root.shape[1])):
        tangent = model.tangent(model.rows(X[rows]))
        f[rows], covariance[rows] = tangent.f, tangent.covariances(root, shared)
    return f, covariance


def class_indices(classes, y):
    """Indices of the labels y among ``classes``, as floats; unknown labels raise ValueError."""
    y, known = np.asarray(y), set(classes.tolist())
    unknown = [label for label in dict.fromkeys(y.tolist()) if label not in known]
    if unknown:
        raise ValueError(f"y has labels that the model was not fitted on: {unknown[:5]}, not in {list(classes[:20])}.")
    return np.searchsorted(classes, y).astype(float)


def is_whole(y):
    """Whether all targets are whole numbers, so that a Tweedie loss of power 1 is for counts."""
    return bool(np.all(y == np.floor(y)))


def check_inputs(inputs, X):
    """Raise ValueError if the innermost estimator was fitted on other columns than those of X."""
    found, shape, name = np.asarray(getattr(X, "columns", ())), getattr(X, "shape", (0,)), type(inputs).__name__
    names, n_features = getattr(inputs, "feature_names_in_", None), inputs.n_features_in_
    if names is not None and len(found) and not np.array_equal(names, found):
        raise ValueError(
            f"The feature names should match those of the fit: {name} was fitted on {list(names[:20])}, got "
            f"{list(found[:20])}. Put the columns in that order."
        )
    if len(shape) == 2 and shape[1] != n_features:
        raise ValueError(f"X has {shape[1]} features, but {name} is expecting {n_features} features as input.")


def training_rows(model, X, y, weight, group=None):
    """Rows of a model from the user's X and y, with ``group`` numbers (n_samples,), or (n_samples, k) if crossed."""
    t = model.encode_target(y)
    if not np.isfinite(t).all():
        raise ValueError("y contains NaN or infinity, or values outside its transformer's domain; drop them.")
    if group is None:
        return Rows(model, model.prepare(X), t, weight)
    first, factors = (group, None) if group.ndim == 1 else (group[:, 0], group)
    return Rows(model, model.prepare(X), t, weight, Groups.from_codes(first, weight), factors=factors)


@singledispatch
def as_parametric(estimator: BaseEstimator, y: NDArray[Any], sample_weight: FloatArray) -> ParametricModel:
    """Turn a fitted estimator into a :class:`ParametricModel`.

    A single-dispatch function: ``as_parametric.register(MyEstimator)`` adds a base model and its subclasses.

    Parameters
    ----------
    estimator : fitted estimator
    y : ndarray of shape (n_samples,)
        The training target, e.g. for balanced class weights.
    sample_weight : ndarray of shape (n_samples,)
        The weights that the estimator was fitted with; ones if none.

    Returns
    -------
    ParametricModel

    See Also
    --------
    ParametricModel : The result.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    Examples
    --------
    >>> from skribbon.models import as_parametric
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> model = as_parametric(Ridge(alpha=3.0).fit(X, y), y, np.ones(3))
    >>> model.l2  # on the scale of the mean loss: alpha / n, and no penalty on the intercept
    array([1., 0.])
    """
    if register_late(estimator):
        return as_parametric(estimator, y, sample_weight)
    raise TypeError(refusal(estimator, as_parametric.registry))


def register_late(estimator):
    """Import the module that registers an estimator of skorch; returns whether it was not imported before."""
    module, packages = f"{__package__}.torch.skorch", {cls.__module__.split(".")[0] for cls in type(estimator).__mro__}
    if "skorch" not in packages or module in sys.modules:
        return False
    import_module(module)
    return True


def is_supported(estimator):
    """Whether :func:`as_parametric` knows the estimator's type."""
    known = as_parametric.dispatch(type(estimator)) is not as_parametric.dispatch(object)
    return known or (register_late(estimator) and is_supported(estimator))


@singledispatch
def takes_outputs(estimator: BaseEstimator) -> bool:
    """Whether a Ribbon around this estimator takes a y of several columns.

    A single-dispatch function, as :func:`~skribbon.models.as_parametric` is: an estimator that is registered there and
    fitted by :class:`~skribbon.models.SquaredErrors` may be registered here too.

    Parameters
    ----------
    estimator : estimator

    Returns
    -------
    bool

    Examples
    --------
    >>> from sklearn.linear_model import PoissonRegressor, Ridge
    >>> from skribbon.models import takes_outputs
    >>> takes_outputs(Ridge()), takes_outputs(PoissonRegressor())
    (True, False)
    """
    return register_late(estimator) and takes_outputs(estimator)


@singledispatch
def with_theta(estimator: BaseEstimator, model: ParametricModel, theta: FloatArray) -> BaseEstimator:
    """Copy a fitted estimator with the parameters ``theta`` of its parametric ``model``.

    A single-dispatch function, as :func:`as_parametric`: register your own estimator to make :func:`polish` support it.

    Parameters
    ----------
    estimator : fitted estimator
    model : ParametricModel
        Result of :func:`as_parametric`.
    theta : ndarray of shape (p,)

    Returns
    -------
    estimator

    Examples
    --------
    >>> from skribbon.models import as_parametric, with_theta
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> network = MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", random_state=0).fit(X, y)
    >>> model = as_parametric(network, y, np.ones(3))
    >>> with_theta(network, model, np.zeros_like(model.theta)).predict(X)
    array([0., 0., 0.])
    """
    supported = ", ".join(sorted(cls.__name__ for cls in with_theta.registry if cls is not object))
    raise TypeError(f"{type(estimator).__name__} cannot be polished: with_theta.register it, or use {supported}.")


def polish(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: PerRow = None,
    *,
    max_iter: int = 200,
    tol: float = 1e-8,
    verbose: int = 0,
) -> BaseEstimator:
    """Move a fitted model to the exact minimum of its own training objective.

    Networks trained by Adam, or by L-BFGS with a loose tolerance, stop short of a minimum. A few damped Newton steps
    make the gradient zero.

    Parameters
    ----------
    estimator : fitted estimator
        A network, an autograd model, a GLM, a logistic, Huber or ridge regression, also in a pipeline; not changed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : array-like of shape (n_samples,), default=None
        The weights that the estimator was fitted with.
    max_iter : int, default=200
    tol : float, default=1e-8
        Converged when the gradient is at most this many of its standard errors. If more than 1e-4 are left, it warns.
    verbose : int, default=0

    Returns
    -------
    estimator
        A copy at the minimum nearby.

    See Also
    --------
    skribbon.exceptions.NotStationaryWarning : Raised if a model is not at its minimum.

    Notes
    -----
    User guide: :doc:`/user_guide/troubleshooting`.

    Examples
    --------
    >>> from skribbon.models import polish
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> y = np.sin(3 * X[:, 0])
    >>> network = MLPRegressor(hidden_layer_sizes=(3,), activation="tanh", alpha=0.1, max_iter=2000, random_state=0)
    >>> polished = polish(network.fit(X, y), X, y)
    >>> bool(np.abs(polished.predict(X) - network.predict(X)).max() > 1e-3)
    True
    """
    y = np.asarray(y) if np.ndim(y) == 2 and np.shape(y)[1] > 1 else column_or_1d(y)
    check_consistent_length(X, y, sample_weight)
    weight = checked_weight(sample_weight, X)
    model = as_parametric(estimator, y, weight)
    with_theta(estimator, model, model.theta)  # raises before the work if the estimator is not registered
    theta, report = minimise(training_rows(model, X, y, weight), max_iter, tol, verbose)
    if not report.converged and report.gradient_after > NEGLIGIBLE_GRADIENT:
        warn_user(
            f"polish stopped after {report.n_iter} steps with a gradient of {report.gradient_after:.3g} standard "
            f"errors, from {report.gradient_before:.3g}, so intervals may be off centre. Try: "
            + ("a larger max_iter." if report.n_iter >= max_iter else "standardized features and target."),
            ConvergenceWarning,
        )
    return with_theta(estimator, model, theta)


# ---------------------------------------------------------------------- advice for estimators that are not supported
OWN = (
    "Ribbon needs a smooth loss in a fixed set of parameters; skribbon.AutogradRegressor takes one that you write, and "
    "for a model without parameters there are conformal methods."
)
# advice by the modules in which a base class of the estimator is defined; the first that fits is given
ADVICE = {
    ("skribbon.",): "It is a Ribbon already: pass its base model, or use it as it is.",
    ("torch.",): (
        "Put a torch module into TorchRegressor(module) or TorchClassifier(module) of skribbon.models.torch, with "
        "fitted=True if it is trained."
    ),
    ("skorch.", "keras.", "scikeras.", "tensorflow.", "flax."): (
        "Write the network as a torch module, for TorchRegressor or TorchClassifier of skribbon.models.torch, or in "
        "autograd.numpy, as f(params, X), for skribbon.AutogradRegressor or AutogradClassifier."
    ),
    ("sklearn.model_selection.",): (
        "A search goes around the Ribbon, GridSearchCV(RibbonRegressor(Ridge()), {'estimator__alpha': ...}); or fit it "
        "first, with refit=True, and pass FrozenEstimator(search): its best_estimator_ is taken."
    ),
    ("sklearn.tree.", "sklearn.ensemble.", "sklearn.neighbors.", "xgboost.", "lightgbm.", "catboost."): (
        "It is not differentiable in its parameters. Use conformal prediction instead, which needs only predictions, "
        "e.g. MAPIE's SplitConformalRegressor and SplitConformalClassifier."
    ),
    ("sklearn.svm.",): (
        "Its loss has no second derivative: take LogisticRegression or HuberRegressor, or a conformal method."
    ),
    ("sklearn.gaussian_process.",): "It has error bars of its own: predict(X, return_std=True).",
}
# estimators around torch modules, and of skorch
LATE = "TorchRegressor", "TorchClassifier", "NeuralNetRegressor", "NeuralNetClassifier"


def refusal(estimator, registry):
    """Explain why an estimator is not supported, what to use instead, and which estimators are supported."""
    modules = [f"{cls.__module__}." for cls in type(estimator).__mro__]
    fits = (advice for starts, advice in ADVICE.items() if any(module.startswith(starts) for module in modules))
    known = {cls.__name__ for cls in registry if cls is not object}
    known |= {"Lasso", "AutogradRegressor", "AutogradClassifier", *LATE}  # an ElasticNet; and some that register late
    supported = fill(f"Supported, with their subclasses: {', '.join(sorted(known))}.", 120)
    return (
        f"{type(estimator).__name__} is not supported. {next(fits, OWN)}\n{supported}\nRegister others with "
        "skribbon.models.as_parametric.register."
    )
