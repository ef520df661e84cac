"""Models whose raw prediction is linear in the parameters, and the least-squares family."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    LassoCV,
    LinearRegression,
    Ridge,
    RidgeCV,
    SGDRegressor,
)

from .._linalg import scale_rows, weighted_gram
from .._loss import Huber, SquaredEpsilonInsensitive, Tweedie
from ..exceptions import SelectionWarning, warn_user
from .base import ParametricModel, as_parametric


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearPredictor(ParametricModel):
    r"""f = X~ Theta', with X~ = [X, 1], Theta (k, d) and theta = Theta.ravel().

    The Jacobian is I_k (x) x~', so that scores are u_i (x) x~_i and any curvature is a set of weighted Gram
    matrices X~' diag(C_kl) X~. Sparse X stays sparse.
    """

    n_outputs: int = 1
    intercept: bool = True
    columns: np.ndarray | None = None  # the active features; None for all

    @property
    def exact_is_psd(self):
        return self.loss.convex

    @property
    def row_width(self):
        d = len(self.theta) // self.n_outputs
        return d if self.n_outputs == 1 else d * (d + 1) // 2  # of the products that _pairwise_grams forms

    def rows(self, X):
        X = X if self.columns is None else X[:, self.columns]
        if sparse.issparse(X):
            ones = [np.ones((X.shape[0], 1))] if self.intercept else []
            return sparse.hstack([X.astype(np.float64), *ones], format="csr")
        Z = np.empty((X.shape[0], X.shape[1] + self.intercept))
        Z[:, : X.shape[1]] = X
        Z[:, X.shape[1] :] = 1.0
        return Z

    def raw(self, Z, theta=None):
        theta = self.theta if theta is None else theta
        return np.asarray(Z @ theta.reshape(self.n_outputs, -1).T)

    def jacobian(self, Z):
        Z = Z.toarray() if sparse.issparse(Z) else Z
        k, d = self.n_outputs, Z.shape[1]
        J = np.zeros((len(Z), k, k, d))
        J[:, range(k), range(k)] = Z[:, None]
        return J.reshape(len(Z), k, k * d)

    def jvp(self, Z, V):
        blocks = V.reshape(self.n_outputs, len(V) // self.n_outputs, V.shape[1])  # (k, d, r)
        return np.stack([np.asarray(Z @ block) for block in blocks], axis=1)

    def vjp(self, Z, U):
        blocks = [np.asarray(Z.T @ U[:, output]) for output in range(self.n_outputs)]  # (d, r) each
        return np.concatenate(blocks)

    def scores(self, Z, y):
        u = self.loss.gradient(self.raw(Z), y)
        if sparse.issparse(Z):
            return sparse.hstack([scale_rows(Z, u_k) for u_k in u.T], format="csr")
        return (u[:, :, None] * Z[:, None, :]).reshape(len(Z), -1)

    def root_jacobian(self, Z, y):
        if self.n_outputs > 1:
            return super().root_jacobian(Z, y)
        Z = Z.toarray() if sparse.issparse(Z) else Z
        return self.loss.curvature_root(self.raw(Z), y) * Z[:, None, :]

    def ggn_diagonal(self, Z, y, weight):
        R = self.loss.curvature_root(self.raw(Z), y)
        squares = Z.multiply(Z) if sparse.issparse(Z) else Z * Z
        return np.asarray((squares.T @ ((R**2).sum(axis=2) * weight[:, None])).T).ravel()

    def ggn(self, Z, y, weight):
        R = self.loss.curvature_root(self.raw(Z), y)
        return self._curvature(Z, R @ R.transpose(0, 2, 1), weight)

    def hessian(self, Z, y, weight):
        return self._curvature(Z, self.loss.hessian(self.raw(Z), y), weight)

    def score_moments(self, Z, y, weight, scatter=True):
        u = self.loss.gradient(self.raw(Z), y)
        g = np.asarray((Z.T @ (u * weight[:, None])).T).ravel()
        if scatter:
            gg = self._curvature(Z, u[:, :, None] * u[:, None, :], weight)
            return g, np.diag(gg), gg
        squares = Z.multiply(Z) if sparse.issparse(Z) else Z * Z
        return g, np.asarray((squares.T @ (u**2 * weight[:, None])).T).ravel(), 0.0

    def _curvature(self, Z, C, weight):
        """Sum over rows of weight_i C_i (x) x~_i x~_i', for symmetric C (n, k, k)."""
        k, d = self.n_outputs, Z.shape[1]
        if k == 1:
            return weighted_gram(Z, weight * C[:, 0, 0])
        if sparse.issparse(Z):
            grams = {(i, j): weighted_gram(Z, weight * C[:, i, j], Z) for i in range(k) for j in range(i, k)}
        else:
            grams = _pairwise_grams(Z, C, weight)
        H = np.empty((k, d, k, d))
        for (i, j), block in grams.items():
            H[i, :, j] = H[j, :, i] = block
        return H.reshape(k * d, k * d)


def _pairwise_grams(Z, C, weight):
    """Z' diag(weight C_ij) Z for all i <= j at once: distinct entries of z z' against distinct entries of C."""
    d, (rows, cols) = Z.shape[1], np.triu_indices(C.shape[1])
    a, b = np.triu_indices(d)
    sums = (Z[:, a] * Z[:, b]).T @ (C[:, rows, cols] * weight[:, None])  # (d (d + 1) / 2, k (k + 1) / 2)
    blocks = np.empty((len(rows), d, d))
    blocks[:, a, b] = blocks[:, b, a] = sums.T
    return dict(zip(zip(rows, cols, strict=True), blocks, strict=True))


def linear_model(estimator, loss, l2, l1=0.0, drop_zeros=False, **fields):
    """LinearPredictor of a fitted single-output linear estimator with coef_ and intercept_.

    Parameters
    ----------
    l2, l1 : float
        Penalties of the coefficients on the scale of the mean loss.
    drop_zeros : bool
        Keep only the coefficients that are not zero, and say so: those of an L1 or sign constraint sit at a kink,
        where the expansion does not hold.
    """
    coef = np.asarray(estimator.coef_, dtype=float)
    if coef.ndim > 1 and coef.shape[0] > 1:
        raise TypeError(f"{type(estimator).__name__} was fitted with several outputs; skribbon needs a single one.")
    coef = coef.ravel()
    columns = None
    if drop_zeros:
        columns = np.flatnonzero(coef)
        if len(columns) < len(coef):
            warn_user(
                f"{type(estimator).__name__} keeps {len(columns)} of {len(coef)} coefficients; intervals are "
                "conditional on that selection and ignore the uncertainty of the selection itself.",
                SelectionWarning,
            )
        coef = coef[columns]
    intercept = bool(estimator.fit_intercept)
    theta = np.append(coef, np.ravel(estimator.intercept_)[:1]) if intercept else coef
    if not len(theta):
        raise ValueError(f"{type(estimator).__name__} has no parameter left: every coefficient is zero. Penalise less.")
    penalised = np.append(np.ones_like(coef), 0.0) if intercept else np.ones_like(coef)
    return LinearPredictor(
        theta=theta.astype(float),
        loss=loss,
        l2=l2 * penalised,
        penalty_gradient=penalised * (l2 * theta + l1 * np.sign(theta)),
        intercept=intercept,
        columns=columns,
        **fields,
    )


@as_parametric.register(LinearRegression)
def _(estimator, y, sample_weight):
    return linear_model(estimator, Tweedie(), 0.0, drop_zeros=estimator.positive)


@as_parametric.register(Ridge)
def _(estimator, y, sample_weight):
    # Ridge penalises the sum of squares, not the mean
    return linear_model(estimator, Tweedie(), estimator.alpha / sample_weight.sum(), drop_zeros=estimator.positive)


@as_parametric.register(RidgeCV)
def _(estimator, y, sample_weight):
    return linear_model(estimator, Tweedie(), estimator.alpha_ / sample_weight.sum())


@as_parametric.register(BayesianRidge)
def _(estimator, y, sample_weight):
    return linear_model(estimator, Tweedie(), estimator.lambda_ / (estimator.alpha_ * sample_weight.sum()))


def _elastic_net(estimator, alpha, l1_ratio):
    # the elastic net's alpha is already on the scale of the mean loss
    return linear_model(estimator, Tweedie(), alpha * (1 - l1_ratio), alpha * l1_ratio, drop_zeros=True)


@as_parametric.register(ElasticNet)
def _(estimator, y, sample_weight):
    return _elastic_net(estimator, estimator.alpha, estimator.l1_ratio)


@as_parametric.register(ElasticNetCV)
def _(estimator, y, sample_weight):
    return _elastic_net(estimator, estimator.alpha_, estimator.l1_ratio_)


@as_parametric.register(LassoCV)
def _(estimator, y, sample_weight):
    return _elastic_net(estimator, estimator.alpha_, 1.0)


def sgd_penalty(estimator, sample_weight):
    """l2, l1 of an SGD estimator on the scale of the mean loss; its own objective is sum(w_i l_i)/n_rows + penalty."""
    alpha = estimator.alpha * len(sample_weight) / sample_weight.sum()
    l1_ratio = {None: 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": estimator.l1_ratio}[estimator.penalty]
    return (0.0, 0.0) if estimator.penalty is None else (alpha * (1 - l1_ratio), alpha * l1_ratio)


@as_parametric.register(SGDRegressor)
def _(estimator, y, sample_weight):
    losses = {
        "squared_error": Tweedie(),
        "huber": Huber(estimator.epsilon),
        "squared_epsilon_insensitive": SquaredEpsilonInsensitive(estimator.epsilon),
    }
    if estimator.loss not in losses:
        raise TypeError(f"SGDRegressor(loss={estimator.loss!r}) has a kink; supported losses are {', '.join(losses)}.")
    l2, l1 = sgd_penalty(estimator, sample_weight)
    return linear_model(estimator, losses[estimator.loss], l2, l1, drop_zeros=l1 > 0)
