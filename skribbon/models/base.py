"""The one abstraction between a fitted estimator and the mathematics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from .._linalg import gram, right_multiply, scale_rows
from .._loss import Loss
from .._typing import FloatArray, MatrixLike


@dataclass(frozen=True, kw_only=True, eq=False)
class ParametricModel:
    r"""A fitted model as a differentiable function of a flat parameter vector.

    The fitted parameters minimise

    .. math:: \frac1n \sum_i \ell(f(x_i; \theta), y_i) + \tfrac12 \sum_j \mathrm{l2}_j \theta_j^2 ,

    the mean over rows, so ``l2`` is on the scale of the mean loss whatever scale the estimator's own penalty has.

    A subclass writes ``raw`` and ``jacobian``; the rest follows, and is overridden where a closed form is faster.
    X passes two doors: ``prepare`` once for all rows (a pipeline's transformers, validation), then ``rows`` for each
    block (float64, intercept column). Every method below takes Z = rows(prepare(X)[block]).

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
    target_transformer : fitted transformer, default=None
        Maps y to the scale the model was fitted on.
    classes : ndarray of shape (K,), default=None
        Labels of a classifier; the loss sees their indices.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
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
    target_transformer: BaseEstimator | None = None
    classes: NDArray[Any] | None = None

    # ------------------------------------------------------------------ what a subclass writes
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
        raise TypeError(f"{type(self).__name__} must define jacobian(Z).")

    def hessian(self, Z: Any, y: FloatArray, weight: FloatArray) -> FloatArray:
        """Exact second derivative of the loss in theta, summed over rows.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)
        weight : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (p, p)
        """
        raise TypeError(f"{type(self).__name__} has no exact Hessian; use curvature='ggn' or 'fisher'.")

    # ------------------------------------------------------------------ what follows from it
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

    def last_layer(self) -> ParametricModel:
        """The model as a function of its last layer's parameters alone, the others held fixed.

        Returns
        -------
        ParametricModel
            The model itself if it has no layers.
        """
        return self

    @property
    def exact_is_psd(self) -> bool:
        """Whether the exact Hessian can never be indefinite, so that "auto" may choose it."""
        return False

    @property
    def row_width(self) -> int:
        """Floats that one row of the largest intermediate array takes; sets the block size."""
        return len(self.theta)

    def grad_penalty(self) -> FloatArray:
        """Gradient of the penalty at theta.

        Returns
        -------
        ndarray of shape (p,)
        """
        return self.l2 * self.theta if self.penalty_gradient is None else self.penalty_gradient

    def jvp(self, Z: Any, V: FloatArray) -> FloatArray:
        """J_x V: how raw predictions move along directions V of the parameters.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        V : ndarray of shape (p, r)

        Returns
        -------
        ndarray of shape (n, k, r)
        """
        return right_multiply(self.jacobian(Z), V)

    def vjp(self, Z: Any, U: FloatArray) -> FloatArray:
        """J_i' U_i, summed over rows.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        U : ndarray of shape (n, k, r)

        Returns
        -------
        ndarray of shape (p, r)
        """
        J = self.jacobian(Z)
        return J.reshape(-1, J.shape[2]).T @ U.reshape(-1, U.shape[2])

    def weighted_scores(self, Z: Any, y: FloatArray, gamma: FloatArray) -> FloatArray:
        """Several weighted sums of scores, G' gamma, without G where that is large.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)
        gamma : ndarray of shape (n, B)

        Returns
        -------
        ndarray of shape (p, B)
        """
        u = self.loss.gradient(self.raw(Z), y)
        return self.vjp(Z, u[:, :, None] * gamma[:, None, :])

    def scores(self, Z: Any, y: FloatArray) -> FloatArray:
        """Scores G, the gradients g_i of the data loss in theta, without penalty.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n, p)
        """
        u = self.loss.gradient(self.raw(Z), y)
        J = self.jacobian(Z)
        return u * J[:, 0] if J.shape[1] == 1 else np.einsum("nk,nkp->np", u, J)

    def score_moments(
        self, Z: Any, y: FloatArray, weight: FloatArray, scatter: bool = True
    ) -> tuple[FloatArray, FloatArray, FloatArray | float]:
        """Weighted sums over rows of g_i, of its squares, and of g_i g_i'.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)
        weight : ndarray of shape (n,)
        scatter : bool, default=True
            Whether the third sum is wanted.

        Returns
        -------
        g : ndarray of shape (p,)
        g2 : ndarray of shape (p,)
        gg : ndarray of shape (p, p)
            Zero if ``scatter`` is False.
        """
        G = scale_rows(self.scores(Z, y), np.sqrt(weight))
        return G.T @ np.sqrt(weight), np.einsum("ij,ij->j", G, G), gram(G) if scatter else 0.0

    def root_jacobian(self, Z: Any, y: FloatArray) -> FloatArray:
        """R_i' J_i, whose Gram matrix is the generalised Gauss-Newton matrix.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n, r, p)
        """
        R = self.loss.curvature_root(self.raw(Z), y)
        J = self.jacobian(Z)
        return R * J if J.shape[1] == 1 else R.transpose(0, 2, 1) @ J

    def ggn(self, Z: Any, y: FloatArray, weight: FloatArray) -> FloatArray:
        """Generalised Gauss-Newton matrix, the weighted sum over rows of J_i' R_i R_i' J_i.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)
        weight : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (p, p)
        """
        A = self.root_jacobian(Z, y) * np.sqrt(weight)[:, None, None]
        return gram(A.reshape(-1, A.shape[2]))

    def ggn_diagonal(self, Z: Any, y: FloatArray, weight: FloatArray) -> FloatArray:
        """Diagonal of :meth:`ggn`.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)
        weight : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (p,)
        """
        A = self.root_jacobian(Z, y)
        return weight @ np.einsum("nrp,nrp->np", A, A)

    def ggn_product(self, Z: Any, y: FloatArray, weight: FloatArray, V: FloatArray) -> FloatArray:
        """Product of :meth:`ggn` with V, without a (p, p) array.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)
        weight : ndarray of shape (n,)
        V : ndarray of shape (p, r)

        Returns
        -------
        ndarray of shape (p, r)
        """
        R = self.loss.curvature_root(self.raw(Z), y) * np.sqrt(weight)[:, None, None]
        return self.vjp(Z, R @ (R.transpose(0, 2, 1) @ self.jvp(Z, V)))

    def hessian_product(self, Z: Any, y: FloatArray, weight: FloatArray, V: FloatArray) -> FloatArray:
        """Product of :meth:`hessian` with V.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)
        weight : ndarray of shape (n,)
        V : ndarray of shape (p, r)

        Returns
        -------
        ndarray of shape (p, r)
        """
        return self.hessian(Z, y, weight) @ V

    def squared_residuals(self, Z: Any, y: FloatArray) -> FloatArray:
        """Pearson's (y - mu)^2 / V(mu) of a regression model, relative to the noise that f itself predicts.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
        y : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        f = self.raw(Z)
        mean, unit_variance = response(self.loss, f[:, 0])
        return (y - mean) ** 2 / (unit_variance * self.loss.noise_scale(f))

    # ------------------------------------------------------------------ the two doors
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

    def encode_target(self, y: ArrayLike) -> FloatArray:
        """Target as the user has it, to what the loss sees: class indices, or the transformed target.

        Parameters
        ----------
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if self.classes is not None:
            return np.searchsorted(self.classes, y).astype(float)
        if self.target_transformer is not None:
            y = self.target_transformer.transform(np.asarray(y, dtype=float).reshape(-1, 1)).ravel()
        return np.asarray(y, dtype=float)

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
        return self.target_transformer.inverse_transform(np.reshape(t, (-1, 1))).reshape(np.shape(t))

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


def response(loss, f):
    """Mean and unit variance of y given the raw prediction; a loss that names neither has mean f and variance one."""
    if not hasattr(loss, "mean"):
        return f, np.ones_like(f)
    mean = loss.mean(f)
    return mean, loss.unit_variance(mean)


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
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon.models import as_parametric
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> model = as_parametric(Ridge(alpha=3.0).fit(X, y), y, np.ones(3))
    >>> model.l2  # on the scale of the mean loss: alpha / n, and no penalty on the intercept
    array([1., 0.])
    """
    supported = sorted(cls.__name__ for cls in as_parametric.registry if cls is not object)
    raise TypeError(
        f"{type(estimator).__name__} is not supported: Ribbon needs a smooth loss in a fixed set of parameters. "
        f"Supported are {', '.join(supported)}, their subclasses, and what you register with "
        "skribbon.models.as_parametric.register. A search such as GridSearchCV goes around the Ribbon, not into it. "
        "For trees, boosting and neighbours take a conformal method."
    )


def is_supported(estimator):
    """Whether :func:`as_parametric` knows the estimator's type."""
    return as_parametric.dispatch(type(estimator)) is not as_parametric.dispatch(object)
