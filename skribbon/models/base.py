"""The one abstraction between a fitted estimator and the mathematics."""

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from .._linalg import gram, right_multiply, scale_rows
from .._loss import Loss


@dataclass(frozen=True, kw_only=True, eq=False)
class ParametricModel:
    r"""A fitted model as a differentiable function of a flat parameter vector.

    The fitted parameters minimise

    .. math:: \frac1n \sum_i \ell(f(x_i; \theta), y_i) + \tfrac12 \sum_j l2_j \theta_j^2 ,

    the mean over rows, so ``l2`` is on the scale of the mean loss whatever scale the estimator's own penalty has.

    A subclass writes ``raw`` and ``jacobian``; the rest follows, and is overridden where a closed form is faster.
    X passes two doors: ``prepare`` once for all rows (a pipeline's transformers, validation), then ``rows`` for each
    block (float64, intercept column). Every method below takes Z = rows(prepare(X)[block]).

    Attributes
    ----------
    theta : ndarray of shape (p,)
    loss : Loss
        Pointwise loss of the raw prediction f (n, k).
    l2 : ndarray of shape (p,)
        Penalty per coordinate; zero for intercepts.
    penalty_gradient : ndarray of shape (p,), optional
        Gradient of the whole penalty at theta, where it is more than ``l2 * theta`` (an active L1 part).
    preprocess : tuple of fitted transformers
        Applied to X first, in order.
    target_transformer : fitted transformer, optional
        Maps y to the scale the model was fitted on.
    classes : ndarray of shape (K,), optional
        Labels of a classifier; the loss sees their indices.
    """

    theta: np.ndarray
    loss: Loss
    l2: np.ndarray
    penalty_gradient: np.ndarray | None = None
    preprocess: tuple = ()
    target_transformer: object = None
    classes: np.ndarray | None = None

    # ------------------------------------------------------------------ what a subclass writes
    def raw(self, Z, theta=None):
        """f(x; theta), (n, k); theta is the fitted one by default."""
        raise TypeError(f"{type(self).__name__} must define raw(Z, theta=None).")

    def jacobian(self, Z):
        """J_x = df/dtheta', (n, k, p)."""
        raise TypeError(f"{type(self).__name__} must define jacobian(Z).")

    def hessian(self, Z, y, weight):
        """Exact sum over rows of weight_i d2l_i/dtheta2, (p, p)."""
        raise TypeError(f"{type(self).__name__} has no exact Hessian; use curvature='ggn' or 'fisher'.")

    # ------------------------------------------------------------------ what follows from it
    def at(self, theta):
        """The same model with other parameters; its penalty moves with them."""
        return replace(self, theta=theta, penalty_gradient=self.grad_penalty() + self.l2 * (theta - self.theta))

    def last_layer(self):
        """The model as a function of its last layer's parameters alone, the others held fixed."""
        return self

    @property
    def exact_is_psd(self):
        """Whether the exact Hessian can never be indefinite, so that "auto" may choose it."""
        return False

    @property
    def row_width(self):
        """Floats that one row of the largest intermediate array takes; sets the block size."""
        return len(self.theta)

    def grad_penalty(self):
        """Gradient of the penalty at theta, (p,)."""
        return self.l2 * self.theta if self.penalty_gradient is None else self.penalty_gradient

    def jvp(self, Z, V):
        """J_x V, (n, k, r), for V (p, r)."""
        return right_multiply(self.jacobian(Z), V)

    def vjp(self, Z, U):
        """sum_i J_i' U_i, (p, r), for U (n, k, r)."""
        J = self.jacobian(Z)
        return J.reshape(-1, J.shape[2]).T @ U.reshape(-1, U.shape[2])

    def weighted_scores(self, Z, y, gamma):
        """G' gamma, (p, B), for weights gamma (n, B): B weighted sums of scores, without G where that is large."""
        u = self.loss.gradient(self.raw(Z), y)
        return self.vjp(Z, u[:, :, None] * gamma[:, None, :])

    def scores(self, Z, y):
        """G (n, p), rows g_i = dl_i/dtheta: the data loss alone, no penalty."""
        u = self.loss.gradient(self.raw(Z), y)
        J = self.jacobian(Z)
        return u * J[:, 0] if J.shape[1] == 1 else np.einsum("nk,nkp->np", u, J)

    def score_moments(self, Z, y, weight, scatter=True):
        """Sums over rows of weight_i times g_i (p,), g_i^2 (p,) and g_i g_i' (p, p), the last zero if not wanted."""
        G = scale_rows(self.scores(Z, y), np.sqrt(weight))
        return G.T @ np.sqrt(weight), np.einsum("ij,ij->j", G, G), gram(G) if scatter else 0.0

    def root_jacobian(self, Z, y):
        """R_i' J_i, (n, r, p), whose Gram matrix is the generalised Gauss-Newton matrix."""
        R = self.loss.curvature_root(self.raw(Z), y)
        J = self.jacobian(Z)
        return R * J if J.shape[1] == 1 else R.transpose(0, 2, 1) @ J

    def ggn(self, Z, y, weight):
        """Sum over rows of weight_i J_i' R_i R_i' J_i, (p, p)."""
        A = self.root_jacobian(Z, y) * np.sqrt(weight)[:, None, None]
        return gram(A.reshape(-1, A.shape[2]))

    def ggn_diagonal(self, Z, y, weight):
        """Diagonal of :meth:`ggn`, (p,)."""
        A = self.root_jacobian(Z, y)
        return weight @ np.einsum("nrp,nrp->np", A, A)

    def ggn_product(self, Z, y, weight, V):
        """ggn V, (p, r), without a (p, p) array."""
        R = self.loss.curvature_root(self.raw(Z), y) * np.sqrt(weight)[:, None, None]
        return self.vjp(Z, R @ (R.transpose(0, 2, 1) @ self.jvp(Z, V)))

    def hessian_product(self, Z, y, weight, V):
        """hessian V, (p, r)."""
        return self.hessian(Z, y, weight) @ V

    def squared_residuals(self, Z, y):
        """(y - mu)^2 / V(mu) of a regression model, (n,), relative to the noise that f itself predicts, if it does."""
        f = self.raw(Z)
        mean, unit_variance = response(self.loss, f[:, 0])
        return (y - mean) ** 2 / (unit_variance * self.loss.noise_scale(f))

    # ------------------------------------------------------------------ the two doors
    def prepare(self, X):
        """X as the user has it, to the array the mathematics works on (all rows, transformers applied)."""
        for transformer in self.preprocess:
            X = transformer.transform(X)
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])

    def rows(self, X):
        """A block of prepared rows as float64."""
        X = X.toarray() if sparse.issparse(X) else X
        return np.asarray(X, dtype=np.float64)

    def encode_target(self, y):
        """y as the user has it, to what the loss sees: class indices, or the transformed target; (n,) float."""
        if self.classes is not None:
            return np.searchsorted(self.classes, y).astype(float)
        if self.target_transformer is not None:
            y = self.target_transformer.transform(np.asarray(y, dtype=float).reshape(-1, 1)).ravel()
        return np.asarray(y, dtype=float)

    def decode_target(self, t):
        """Values on the fitted scale back to the scale of y, any shape."""
        if self.target_transformer is None:
            return t
        return self.target_transformer.inverse_transform(np.reshape(t, (-1, 1))).reshape(np.shape(t))

    def after(self, transformer):
        """The same model behind one more fitted transformer of X."""
        return replace(self, preprocess=(transformer, *self.preprocess))


def response(loss, f):
    """Mean and unit variance of y given the raw prediction; a loss that names neither has mean f and variance one."""
    if not hasattr(loss, "mean"):
        return f, np.ones_like(f)
    mean = loss.mean(f)
    return mean, loss.unit_variance(mean)


@singledispatch
def as_parametric(estimator, y, sample_weight):
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
        "skribbon.models.as_parametric.register."
    )
