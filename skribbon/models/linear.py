"""Models whose raw prediction is linear in the parameters: least squares and Huber regression."""

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    LassoCV,
    LinearRegression,
    Ridge,
    RidgeCV,
    SGDRegressor,
)

from .._core.linalg import batch_gram, gram, scale_rows
from ..exceptions import SelectionWarning, warn_user
from .base import ParametricModel, Tangent, as_parametric, with_theta
from .losses import Huber, HuberWithScale, SquaredEpsilonInsensitive, SquaredErrors, Tweedie
from .outputs import takes_outputs


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearPredictor(ParametricModel):
    r"""f = X~ Theta', with X~ = [X - c, 1], Theta (k, d) and theta = Theta.ravel().

    The Jacobian is I_k (x) x~', so that scores are u_i (x) x~_i and any curvature is a set of weighted Gram
    matrices X~' diag(C_kl) X~. Sparse X stays sparse.

    The centre c is zero in the estimator's own coordinates. The sums over training rows are formed around the
    features' means: the square of a column whose mean is 10^8 times its spread leaves nothing of the spread.
    """

    intercept: bool = True
    columns: np.ndarray | None = None  # the active features; None for all
    centre: np.ndarray | None = None  # (d,), None for zero

    @property
    def is_linear(self):
        return True

    @property
    def outputs(self):
        if not self.loss.by_output:
            return (self,)
        whole = self.penalty_gradient is None
        return tuple(
            replace(
                self,
                theta=self.theta.reshape(self.n_outputs, -1)[j],
                l2=self.l2.reshape(self.n_outputs, -1)[j],
                penalty_gradient=None if whole else self.penalty_gradient.reshape(self.n_outputs, -1)[j],
                loss=loss,
                target_transformer=None if self.target_transformer is None else self.target_transformer.column(j),
            )
            for j, loss in enumerate(self.loss.by_output)
        )

    @property
    def outputs_are_separate(self):
        return bool(self.loss.by_output)

    @property
    def exact_is_psd(self):
        return self.loss.convex

    @property
    def has_hessian(self):
        return True

    @property
    def row_width(self):
        k = self.loss.n_outputs
        d = len(self.theta) // k
        if self.outputs_are_separate:
            return (k + 2) * d
        return max((k + 1) * d, (k + 1) ** 2)  # rows and their scores, or curvatures of the loss

    def rows(self, X):
        X = X if self.columns is None else X[:, self.columns]
        if sparse.issparse(X):
            ones = [np.ones((X.shape[0], 1))] if self.intercept else []
            return sparse.hstack([X.astype(np.float64), *ones], format="csr")
        Z = np.empty((X.shape[0], X.shape[1] + self.intercept))
        np.subtract(X, 0.0 if self.centre is None else self.centre, out=Z[:, : X.shape[1]])
        Z[:, X.shape[1] :] = 1.0
        return Z

    def raw(self, Z, theta=None):
        theta = self.theta if theta is None else theta
        return np.asarray(Z @ theta.reshape(self.loss.n_outputs, -1).T)

    def tangent(self, Z):
        return LinearTangent(Z, self.raw(Z))

    def centred(self, X):
        k = self.loss.n_outputs
        if not self.intercept or sparse.issparse(X) or self.l2.reshape(k, -1)[:, -1].any():
            return self
        some = X if self.columns is None else X[:, self.columns]  # any point among the rows will do
        centre = np.mean(some, axis=0, dtype=np.float64)
        first = some[0].astype(np.float64)  # of a constant column: the rounding of its mean is no direction
        centre = np.where(np.abs(centre - first) <= 1e-13 * np.abs(first), first, centre)
        Theta = self.theta.reshape(k, -1).copy()
        Theta[:, -1] += Theta[:, :-1] @ centre
        return replace(self, theta=Theta.ravel(), centre=centre)

    def uncentred(self, V):
        if self.centre is None:
            return V
        blocks = V.reshape(self.loss.n_outputs, len(V) // self.loss.n_outputs, V.shape[1]).copy()
        blocks[:, -1] -= np.einsum("d,kdr->kr", self.centre, blocks[:, :-1])
        return blocks.reshape(V.shape)


class LinearTangent(Tangent):
    """Tangent of a linear predictor at rows Z (n, d), dense or CSR: J_i = I_k (x) z_i'."""

    def __init__(self, Z, f):
        self.Z, self.f, self._k = Z, f, f.shape[1]

    def jacobian(self):
        Z = self.Z.toarray() if sparse.issparse(self.Z) else self.Z
        (n, d), k = Z.shape, self._k
        J = np.zeros((n, k, k, d))
        J[:, range(k), range(k)] = Z[:, None]
        return J.reshape(n, k, k * d)

    def jvp(self, V):
        if self._k == 1:
            return np.asarray(self.Z @ V)[:, None]
        k, d, r = self._k, len(V) // self._k, V.shape[1]
        together = V.reshape(k, d, r).transpose(1, 0, 2).reshape(d, k * r)
        return np.asarray(self.Z @ together).reshape(len(self.f), k, r)

    def along(self, D):
        blocks = D.reshape(len(D), self._k, -1).transpose(1, 0, 2)  # (k, n, d)
        if sparse.issparse(self.Z):
            return np.column_stack([np.asarray(self.Z.multiply(block).sum(axis=1)).ravel() for block in blocks])
        return np.stack([np.einsum("nd,nd->n", self.Z, block) for block in blocks], axis=1)

    def vjp(self, U):
        return np.concatenate([np.asarray(self.Z.T @ U[:, output]) for output in range(self._k)])  # (d, r) each

    def scores(self, u):
        if sparse.issparse(self.Z):
            return sparse.hstack([scale_rows(self.Z, u_k) for u_k in u.T], format="csr")
        return (u[:, :, None] * self.Z[:, None, :]).reshape(len(u), -1)

    def gram(self, R):
        return gram(self.scores(R[:, :, 0])) if R.shape[2] == 1 < self._k else self.hessian(batch_gram(R))

    def squares(self, R):
        squared = self.Z.multiply(self.Z) if sparse.issparse(self.Z) else self.Z * self.Z
        return np.asarray((squared.T @ (R**2).sum(axis=2)).T).ravel()

    def largest(self):
        if sparse.issparse(self.Z):
            columns = np.zeros(self.Z.shape[1])
            np.maximum.at(columns, self.Z.indices, np.abs(self.Z.data))
        else:
            columns = np.abs(self.Z).max(axis=0)
        return np.kron(np.eye(self._k), columns)

    def hessian(self, C, u=None):
        """Sum over rows of C_i (x) z_i z_i', for symmetric C (n, k, k): f is linear, so that u does not matter."""
        Z, k, d = self.Z, self._k, self.Z.shape[1]
        if k == 1:
            return gram(Z, C[:, 0, 0])
        H = np.empty((k, d, k, d))
        for i in range(k):
            for j in range(i, k):
                H[i, :, j] = H[j, :, i] = gram(Z, C[:, i, j])
        return H.reshape(k * d, k * d)


@with_theta.register(LinearRegression)
@with_theta.register(Ridge)
@with_theta.register(RidgeCV)
def with_coefficients(estimator, model, theta):
    """A copy of a fitted linear estimator with other coefficients and intercepts."""
    return with_rows_of_coefficients(estimator, model, theta.reshape(model.n_outputs, -1))


def with_rows_of_coefficients(estimator, model, Theta):
    """The same, of coefficients (k, d) with the intercepts last."""
    estimator = copy(estimator)
    coef = Theta[:, :-1] if model.intercept else Theta
    estimator.coef_ = coef.reshape(np.shape(estimator.coef_)).copy()
    if model.intercept:
        intercept = Theta[:, -1].reshape(np.shape(estimator.intercept_))
        estimator.intercept_ = intercept.copy() if intercept.ndim else float(intercept)
    return estimator


def linear_model(estimator, loss, l2, l1=0.0, drop_zeros=False, **fields):
    """LinearPredictor of a fitted linear estimator with coef_ and intercept_.

    Parameters
    ----------
    loss : Loss
        Of one output; those with coefficients (m, d) are fitted by least squares.
    l2, l1 : float
        Penalties of the coefficients on the scale of the mean loss; l2 may be (m,), of each output.
    drop_zeros : bool
        Keep only the coefficients that are not zero, and say so: those of an L1 or sign constraint sit at a kink,
        where the expansion does not hold.
    """
    coef = np.asarray(estimator.coef_, dtype=float)
    if coef.ndim > 1 and takes_outputs(estimator):
        return _linear_models(estimator, coef, l2, **fields)
    if coef.ndim > 1 and coef.shape[0] > 1:
        raise TypeError(f"{estimator!r} was fitted with several outputs; skribbon needs a single one of it.")
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


def _linear_models(estimator, coef, l2, **fields):
    """The same of coefficients (m, d) of several outputs."""
    m, intercept = len(coef), bool(estimator.fit_intercept)
    Theta = np.column_stack([coef, np.broadcast_to(estimator.intercept_, m)]) if intercept else coef
    penalties = np.tile(np.reshape(np.broadcast_to(l2, m), (m, 1)), Theta.shape[1])
    if intercept:
        penalties[:, -1] = 0.0
    return LinearPredictor(
        theta=Theta.ravel().astype(float), loss=SquaredErrors(m), l2=penalties.ravel(), intercept=intercept, **fields
    )


SCALE_COLUMNS = (
    "LinearRegression drops what rounding can hardly see, such as columns whose units are many powers of ten apart: "
    "put a StandardScaler before it. A frozen model must get the rows and weights that it was fitted on."
)


@as_parametric.register(LinearRegression)
def _(estimator, y, sample_weight):
    return linear_model(estimator, Tweedie(), 0.0, drop_zeros=estimator.positive, cure=SCALE_COLUMNS)


@as_parametric.register(Ridge)
def _(estimator, y, sample_weight):
    # Ridge penalises the sum of squares, not the mean
    return linear_model(estimator, Tweedie(), estimator.alpha / sample_weight.sum(), drop_zeros=estimator.positive)


@as_parametric.register(RidgeCV)
def _(estimator, y, sample_weight):
    return linear_model(estimator, Tweedie(), estimator.alpha_ / sample_weight.sum())


@as_parametric.register(BayesianRidge)
def _(estimator, y, sample_weight):
    if not (estimator.lambda_ >= 0 and estimator.alpha_ > 0):
        raise ValueError(
            f"BayesianRidge estimated a precision that is not positive (lambda_={estimator.lambda_:.3g}, "
            f"alpha_={estimator.alpha_:.3g}), as with weights that stand for fewer observations than parameters: scale "
            "sample_weight to sum to the number of rows, or use Ridge."
        )
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


@dataclass(frozen=True, kw_only=True, eq=False)
class LocationScale(ParametricModel):
    """f = (x~' beta, s): a linear location and one common scale, theta = (beta, s)."""

    intercept: bool = True

    @property
    def exact_is_psd(self):
        return True

    def rows(self, X):
        X = super().rows(X)
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def raw(self, Z, theta=None):
        theta = self.theta if theta is None else theta
        return np.column_stack([Z @ theta[:-1], np.full(len(Z), theta[-1])])

    @property
    def has_hessian(self):
        return True

    def tangent(self, Z):
        J = np.zeros((len(Z), 2, Z.shape[1] + 1))
        J[:, 0, :-1] = Z
        J[:, 1, -1] = 1.0
        return LocationScaleTangent(self.raw(Z), J)


class LocationScaleTangent(Tangent):
    """f is linear in the parameters, so that only the loss has a curvature."""

    def hessian(self, C, u):
        J = self.jacobian()
        return np.einsum("nkp,nkl,nlq->pq", J, C, J, optimize=True)


LARGER_EPSILON = (
    "HuberRegressor's scale has collapsed to zero, where it minimises absolute deviations, which have a kink: use a "
    "larger epsilon, such as 1.35."
)


@as_parametric.register(HuberRegressor)
def _(estimator, y, sample_weight):
    # a scale below 1e-8 of the targets is rounding: the fit is perfect, and all losses are alike there; one below 1e-6
    # of their range is what the solver left of a scale that went to zero, as with epsilon = 1
    if estimator.scale_ <= max(1e-8 * np.abs(y).max(), 1e-6 * np.ptp(y)):
        return linear_model(estimator, Tweedie(), 2 * estimator.alpha / sample_weight.sum(), cure=LARGER_EPSILON)
    intercept = [estimator.intercept_] if estimator.fit_intercept else []
    theta = np.concatenate([estimator.coef_, intercept, [estimator.scale_]]).astype(float)
    l2 = np.zeros_like(theta)
    l2[: len(estimator.coef_)] = 2 * estimator.alpha / sample_weight.sum()  # alpha ||coef||^2 against the sum
    return LocationScale(
        theta=theta, loss=HuberWithScale(estimator.epsilon), l2=l2, intercept=bool(estimator.fit_intercept)
    )


@with_theta.register(HuberRegressor)
def _(estimator, model, theta):
    if not isinstance(model, LocationScale):
        return with_coefficients(estimator, model, theta)
    estimator = copy(estimator)
    d = len(estimator.coef_)
    estimator.coef_, estimator.scale_ = theta[:d].copy(), float(theta[-1])
    if model.intercept:
        estimator.intercept_ = float(theta[d])
    return estimator
