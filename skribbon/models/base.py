"""The one abstraction between a fitted estimator and the mathematics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._core.linalg import gram, right_multiply, row_covariances
from .._core.refits import NEGLIGIBLE, minimise
from .._core.rows import Groups, Rows, row_blocks
from .._utils.typing import FloatArray, MatrixLike
from ..exceptions import warn_user
from ._refusals import refusal
from .losses import Loss

TRAIN_LONGER = (
    "Train longer, tighten tol, or use a deterministic solver (lbfgs) without early stopping; skribbon.models.polish "
    "takes networks there. A frozen model must get the rows and weights that it was fitted on, and classes that the "
    "features separate need a penalty."
)


class Tangent:
    r"""A model linearized at a block of rows: the raw prediction f (n, k) and products with its Jacobian J (n, k, p).

    A model that knows its Jacobian gets all of this for free; one with a structure to exploit (a linear predictor, a
    network of layers) has a tangent of its own, which forms J only where somebody asks for it.

    Parameters
    ----------
    f : ndarray of shape (n, k)
    J : ndarray of shape (n, k, p)
    """

    def __init__(self, f: FloatArray, J: FloatArray) -> None:
        self.f, self._J = f, J

    def jacobian(self) -> FloatArray:
        """J, (n, k, p)."""
        return self._J

    def jvp(self, V: FloatArray) -> FloatArray:
        """J V, (n, k, r): how raw predictions move along directions V (p, r) of the parameters."""
        return right_multiply(self.jacobian(), V)

    def along(self, D: FloatArray) -> FloatArray:
        """J_i d_i, (n, k), for a direction of its own for each row, D (n, p)."""
        return np.einsum("nkp,np->nk", self.jacobian(), D)

    def vjp(self, U: FloatArray) -> FloatArray:
        """sum_i J_i' U_i, (p, r), for U (n, k, r)."""
        J = self.jacobian()
        return J.reshape(-1, J.shape[2]).T @ U.reshape(-1, U.shape[2])

    def weighted_scores(self, u: FloatArray, c: FloatArray) -> FloatArray:
        """sum_i c_ib J_i' u_i, (p, B), for u (n, k) and weights c (n, B)."""
        return self.vjp(u[:, :, None] * c[:, None, :])

    def scores(self, u: FloatArray) -> FloatArray:
        """J_i' u_i of every row, (n, p), for u (n, k); sparse if the rows are."""
        J = self.jacobian()
        return u * J[:, 0] if J.shape[1] == 1 else np.einsum("nk,nkp->np", u, J)

    def gram(self, R: FloatArray) -> FloatArray:
        """sum_i J_i' R_i R_i' J_i, (p, p), for R (n, k, r)."""
        J = self.jacobian()
        A = R * J if J.shape[1] == 1 else R.transpose(0, 2, 1) @ J
        return gram(A.reshape(-1, A.shape[2]))

    def gram_product(self, R: FloatArray, V: FloatArray) -> FloatArray:
        """:meth:`gram` times V (p, m), without a (p, p) array."""
        return self.vjp(R @ (R.transpose(0, 2, 1) @ self.jvp(V)))

    def squares(self, R: FloatArray) -> FloatArray:
        """Diagonal of :meth:`gram`, (p,)."""
        A = R.transpose(0, 2, 1) @ self.jacobian()
        return np.einsum("nrp,nrp->p", A, A)

    def largest(self) -> FloatArray | float:
        """Bounds (k, p) on the entries of |J_i|, whatever the row; infinity where they would take the Jacobian."""
        return np.inf

    def hessian(self, C: FloatArray, u: FloatArray) -> FloatArray:
        """sum_i J_i' C_i J_i + sum_ik u_ik d2f_ik, (p, p), for symmetric C (n, k, k) and u (n, k)."""
        raise TypeError(f"{type(self).__name__} has no exact Hessian; use curvature='ggn' or 'fisher'.")

    def hessian_product(self, C: FloatArray, u: FloatArray, V: FloatArray) -> FloatArray:
        """:meth:`hessian` times V (p, r)."""
        return self.hessian(C, u) @ V


@dataclass(frozen=True, kw_only=True, eq=False)
class ParametricModel:
    r"""A fitted model as a differentiable function of a flat parameter vector.

    The fitted parameters minimise

    .. math:: \frac1n \sum_i \ell(f(x_i; \theta), y_i) + \tfrac12 \sum_j \mathrm{l2}_j \theta_j^2 ,

    the mean over rows, so ``l2`` is on the scale of the mean loss whatever scale the estimator's own penalty has.

    A subclass writes ``raw`` and ``jacobian``; the rest follows. One that has faster derivatives writes ``tangent``.
    X passes two doors: ``prepare`` once for all rows (a pipeline's transformers, validation), then ``rows`` for each
    block (float64, intercept column). ``raw``, ``jacobian`` and ``tangent`` take Z = rows(prepare(X)[block]).

    Parameters
    ----------
    theta : ndarray of shape (p,)
        The fitted parameters, flat.
    loss : Loss
        Pointwise loss of the raw prediction f (n, k).
    l2 : ndarray of shape (p,)
        Penalty per coordinate; zero for intercepts.
    penalty_gradient : ndarray of shape (p,), default=None
        Gradient of the whole penalty at theta, where it is more than ``l2 * theta`` (an active L1 part).
    preprocess : tuple of fitted transformers, default=()
        Applied to X first, in order.
    inputs : object with ``n_features_in_`` and maybe ``feature_names_in_``, default=None
        What the innermost estimator expects behind them.
    target_transformer : fitted transformer, default=None
        Maps y to the scale the model was fitted on.
    classes : ndarray of shape (K,), default=None
        Labels of a classifier; the loss sees their indices.
    cure : str
        What to do about a training gradient that is not zero.

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
    penalty_gradient: FloatArray | None = None
    preprocess: tuple[BaseEstimator, ...] = ()
    inputs: Any = None
    target_transformer: BaseEstimator | None = None
    classes: NDArray[Any] | None = None
    cure: str = TRAIN_LONGER

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
        """The model linearized at a block of rows: its raw prediction, and products with its Jacobian.

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

    def raw_and_covariance(self, X: Any, root: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Raw predictions, and their covariance J_x root root' J_x' where theta has the covariance root root'.

        Memory beyond both is that of one block of rows.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n, d)
            Prepared rows.
        root : ndarray of shape (p, r)

        Returns
        -------
        f : ndarray of shape (n, k)
        covariance : ndarray of shape (n, k, k)
        """
        n, k = X.shape[0], self.n_outputs
        f, covariance = np.empty((n, k)), np.empty((n, k, k))
        for rows in row_blocks(n, max(self.row_width, k * root.shape[1])):
            tangent = self.tangent(self.rows(X[rows]))
            f[rows], covariance[rows] = tangent.f, row_covariances(tangent.jvp(root))
        return f, covariance

    def at(self, theta: FloatArray) -> Self:
        """The same model with other parameters; its penalty moves with them.

        Parameters
        ----------
        theta : ndarray of shape (p,)

        Returns
        -------
        ParametricModel
        """
        return replace(self, theta=theta, penalty_gradient=self.grad_penalty() + self.l2 * (theta - self.theta))

    def grad_penalty(self) -> FloatArray:
        """Gradient of the penalty at theta.

        Returns
        -------
        ndarray of shape (p,)
        """
        return self.l2 * self.theta if self.penalty_gradient is None else self.penalty_gradient

    # ------------------------------------------------------------------ its shape
    @property
    def n_outputs(self) -> int:
        """k, the number of raw predictions of a row."""
        return self.loss.n_outputs

    @property
    def outputs(self) -> tuple[ParametricModel, ...]:
        """A model of each output alone where y has several columns; else the model itself."""
        from .outputs import OneOutput

        return tuple(OneOutput.of(self, j) for j in range(len(self.loss.by_output))) or (self,)

    @property
    def outputs_are_separate(self) -> bool:
        """Whether y has several columns, and each a part of theta of its own, of the same length, in that order."""
        return False

    @property
    def is_linear(self) -> bool:
        """Whether f is linear in the parameters, so that leave-one-out is what a refit without the row would give."""
        return False

    @property
    def exact_is_psd(self) -> bool:
        """Whether the exact Hessian can never be indefinite, so that "auto" may choose it."""
        return False

    @property
    def has_hessian(self) -> bool:
        """Whether there is an exact Hessian."""
        return False

    @property
    def row_width(self) -> int:
        """Floats that one row takes in the largest array of a pass over the rows; sets the size of a block."""
        return len(self.theta) * self.n_outputs

    @property
    def has_layers(self) -> bool:
        """Whether the model is a network of dense layers, with ``layers`` and a tangent that has Kronecker sums."""
        return False

    @property
    def layers(self) -> list[NDArray[np.intp]]:
        """Indices into theta of every dense layer, (in + 1, out) each, bias last; empty where there are no layers."""
        return []

    def last_layer(self) -> ParametricModel:
        """The model as a function of its last layer's parameters alone, the others held fixed.

        Returns
        -------
        ParametricModel
            The model itself if it has no layers.
        """
        return self

    def centred(self, X: Any) -> Self:
        """The same function in coordinates that rounding spares: features measured from their means.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n, d)
            Some of the prepared training rows.

        Returns
        -------
        ParametricModel
            The model itself unless it can tell a feature's mean from its slope.
        """
        return self

    def uncentred(self, V: FloatArray) -> FloatArray:
        """Directions in the coordinates of :meth:`centred`, as directions in those of the fitted estimator.

        Parameters
        ----------
        V : ndarray of shape (p, r)

        Returns
        -------
        ndarray of shape (p, r)
        """
        return V

    # ------------------------------------------------------------------ X, from the user's table to blocks
    def prepare(self, X: MatrixLike) -> Any:
        """X as the user has it, to the array the mathematics works on, behind all transformers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, d)
        """
        for transformer in self.preprocess:
            X = transformer.transform(X)
        check_inputs(self.inputs, X)
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])

    def rows(self, X: Any) -> Any:
        """A block of prepared rows as float64.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
        """
        X = X.toarray() if sparse.issparse(X) else X
        return np.asarray(X, dtype=np.float64)

    def after(self, transformer: BaseEstimator) -> Self:
        """The same model behind one more fitted transformer of X.

        Parameters
        ----------
        transformer : fitted transformer

        Returns
        -------
        ParametricModel
        """
        return replace(self, preprocess=(transformer, *self.preprocess))

    # ------------------------------------------------------------------ y, from labels and units to what the loss sees
    def encode_target(self, y: ArrayLike) -> FloatArray:
        """Target as the user has it, to what the loss sees: class indices, or the transformed target.

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
            y = self.target_transformer.transform(self._as_table(y)).reshape(y.shape)
        return np.asarray(y, dtype=float)

    def _as_table(self, y):
        return y if self.loss.by_output else np.reshape(y, (-1, 1))

    def decode_target(self, t: FloatArray) -> FloatArray:
        """Values on the fitted scale back to the scale of y.

        Parameters
        ----------
        t : ndarray

        Returns
        -------
        ndarray, of the same shape
        """
        if self.target_transformer is None:
            return t
        return self.target_transformer.inverse_transform(self._as_table(t)).reshape(np.shape(t))


def class_indices(classes, y):
    """Places of the labels y among ``classes``, as floats; a label that is not there is refused."""
    y = np.asarray(y)
    try:
        unknown = np.setdiff1d(y, classes)
    except TypeError:  # text among numbers
        unknown = [label for label in np.unique(y.astype(object).astype(str)) if label not in classes.astype(str)]
    if len(unknown):
        raise ValueError(
            f"y has labels that the model was not fitted on: {list(unknown[:5])}; its classes are {list(classes[:20])}."
        )
    return np.searchsorted(classes, y).astype(float)


def check_inputs(inputs, X):
    """Columns of X, behind all transformers, are those that the innermost estimator was fitted on."""
    if inputs is None:
        return
    found = np.asarray(getattr(X, "columns", ()))
    names = getattr(inputs, "feature_names_in_", None)
    if names is not None and len(found) and not np.array_equal(names, found):
        raise ValueError(
            f"The feature names should match those of the fit: {type(inputs).__name__} was fitted on "
            f"{list(names[:20])}, got {list(found[:20])}. Put the columns in that order."
        )
    shape = getattr(X, "shape", (0,))
    if len(shape) == 2 and shape[1] != inputs.n_features_in_:
        raise ValueError(
            f"X has {shape[1]} features, but {type(inputs).__name__} is expecting {inputs.n_features_in_} features as "
            "input."
        )


def training_rows(model, X, y, weight, group=None):
    """Rows of a model from its training data as the user has them; targets that are not finite are refused.

    ``group`` (n_samples,) are the numbers of their groups.
    """
    t = model.encode_target(y)
    if not np.isfinite(t).all():
        raise ValueError("y contains NaN or infinity, or values that its transformer cannot take; clean it before.")
    return Rows(model, model.prepare(X), t, weight, None if group is None else Groups.of(group, weight))


@singledispatch
def as_parametric(estimator: BaseEstimator, y: NDArray[Any], sample_weight: FloatArray) -> ParametricModel:
    """Turn a fitted estimator into a :class:`ParametricModel`.

    A single-dispatch function: ``as_parametric.register(MyEstimator)`` teaches skribbon a new base model, and
    subclasses of a known estimator are known too.

    Parameters
    ----------
    estimator : fitted estimator
    y : ndarray of shape (n_samples,)
        The training target, for what depends on it (balanced class weights).
    sample_weight : ndarray of shape (n_samples,)
        The weights that the estimator was fitted with; ones if none.

    Returns
    -------
    ParametricModel

    Examples
    --------
    >>> from skribbon.models import as_parametric
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> model = as_parametric(Ridge(alpha=3.0).fit(X, y), y, np.ones(3))
    >>> model.l2  # on the scale of the mean loss: alpha / n, and no penalty on the intercept
    array([1., 0.])
    """
    raise TypeError(refusal(estimator, as_parametric.registry))


def is_supported(estimator):
    """Whether :func:`as_parametric` knows the estimator's type."""
    return as_parametric.dispatch(type(estimator)) is not as_parametric.dispatch(object)


@singledispatch
def with_theta(estimator: BaseEstimator, model: ParametricModel, theta: FloatArray) -> BaseEstimator:
    """A copy of a fitted estimator with the parameters ``theta`` of its parametric ``model``.

    A single-dispatch function, as :func:`as_parametric`: register your own estimator to make :func:`polish` know it.

    Parameters
    ----------
    estimator : fitted estimator
        It is not changed.
    model : ParametricModel
        What :func:`as_parametric` made of it.
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
    supported = sorted(cls.__name__ for cls in with_theta.registry if cls is not object)
    raise TypeError(
        f"{type(estimator).__name__} cannot be polished; supported are {', '.join(supported)} and what you register "
        "with skribbon.models.with_theta.register."
    )


def polish(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    max_iter: int = 200,
    tol: float = 1e-8,
    verbose: int = 0,
) -> BaseEstimator:
    """Move a fitted model to the exact minimum of its own training objective.

    Networks that were trained by Adam, or by L-BFGS to a loose tolerance, stop some way from a minimum, and the
    curvature there says little about it. A few damped Newton steps from there make the gradient zero.

    Parameters
    ----------
    estimator : fitted estimator
        A network, a model of one's own, a GLM, a logistic, Huber or ridge regression, also in a pipeline. It is not
        changed.
    X : array-like of shape (n_samples, n_features)
        The training data.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : array-like of shape (n_samples,), default=None
        The weights that the estimator was fitted with.
    max_iter : int, default=200
    tol : float, default=1e-8
        Converged when the gradient is this many standard errors of itself. What stops before warns where more than
        1e-4 of them are left, since no interval can tell less from zero.
    verbose : int, default=0

    Returns
    -------
    estimator
        A copy at the minimum nearby.

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
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    model = as_parametric(estimator, y, weight)
    with_theta(estimator, model, model.theta)  # an estimator that cannot be written to says so before the work
    theta, report = minimise(training_rows(model, X, y, weight), max_iter, tol, verbose)
    if not report.converged and report.gradient_after > NEGLIGIBLE:
        warn_user(
            f"polish stopped after {report.n_iter} steps with a gradient of {report.gradient_after:.3g} standard "
            f"errors (it began with {report.gradient_before:.3g}); raise max_iter or tol, or train longer first.",
            ConvergenceWarning,
        )
    return with_theta(estimator, model, theta)
