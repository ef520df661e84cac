"""Models whose raw prediction is linear in the parameters, and the least-squares family."""

from copy import copy
from dataclasses import dataclass, replace

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

from .._core.linalg import batch_gram, gram, scale_rows, weighted_gram
from .._core.rows import blocks_at_once, row_blocks, unpacked
from ..exceptions import SelectionWarning, warn_user
from ._layers import distinct_squares, pair_places, pairs
from .base import ParametricModel, RootSquares, Tangent, as_parametric
from .losses import Huber, SquaredEpsilonInsensitive, SquaredErrors, Tweedie
from .newton import with_theta
from .outputs import takes_outputs

CACHED_ROWS = 2048  # of a prediction, which stay in the cache
CANCELLING = 1e5  # terms over their sum, beyond which rounding is more than 1e-10 of that


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
        # rows and a scaled copy of them; of several outputs, the distinct products of features, and those of outputs
        return 2 * d if k == 1 else max(d * (d + 1) // 2, k * d, (k + 1) ** 2)

    @property
    def at_once(self):
        return blocks_at_once(len(self.theta))

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

    def raw_and_covariance(self, X, root, kept=None):
        plain = self.columns is None and self.centre is None and type(self).rows is LinearPredictor.rows
        if not plain or self.n_outputs > 1 or sparse.issparse(X):
            return super().raw_and_covariance(X, root, kept)
        # one product for both, and the same memory for every block: new pages would cost three times the arithmetic
        n, d = X.shape
        W = np.column_stack([root, self.theta]).T  # (r + 1, p)
        blocks = row_blocks(n, 2 * len(W), CACHED_ROWS)
        f, variance, memory = np.empty(n), np.empty(n), np.empty((len(W), blocks[0].stop if n else 0))
        for rows in blocks:
            A = memory[:, : rows.stop - rows.start]
            np.matmul(W[:, :d], np.asarray(X[rows], dtype=np.float64).T, out=A)
            A += W[:, d:].sum(axis=1, keepdims=True)  # the intercept, if any
            np.einsum("rn,rn->n", A[:-1], A[:-1], out=variance[rows])
            f[rows] = A[-1]
        return f[:, None], variance[:, None, None]

    def tangent(self, Z):
        return LinearTangent(Z, self.raw(Z))

    def squares_along(self, root, n, kept=None):
        k, (p, r) = self.loss.n_outputs, root.shape
        d = p // k
        by_pairs = n * d * (d + 1) * k * (k + 1) / 4 + p * p * r / 2  # products, with those that prepare them
        if self.loss.n_classes <= 2 or by_pairs > n * r * (p + k * k):
            return super().squares_along(root, n, kept)
        kept = {} if kept is None else kept
        if "pairs" not in kept:
            kept["pairs"] = PairedSquares.of(root, k)
        return kept["pairs"]

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
    """Of a linear predictor at rows Z (n, d), dense or CSR: J_i = I_k (x) z_i'."""

    def __init__(self, Z, f):
        self.Z, self.f = Z, f

    @property
    def _k(self):
        return self.f.shape[1]

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
        return unpacked(self.grams([R])[0])

    def grams(self, Rs):
        if self._k == 1:
            weights = (R[:, 0, 0] ** 2 if R.shape[2] == 1 else (R[:, 0] ** 2).sum(axis=1) for R in Rs)
            return [weighted_gram(self.Z, weight) for weight in weights]
        if not self._has_few_pairs:
            return [gram(self.scores(R[:, :, 0])) if R.shape[2] == 1 else self.hessian(batch_gram(R)) for R in Rs]
        return self._packed([distinct_squares(R.transpose(0, 2, 1)) for R in Rs])

    def hessian_and_scatter(self, C, u, s):
        if not self._has_few_pairs:
            return super().hessian_and_scatter(C, u, s)
        return self._packed([_distinct(C), distinct_squares(s[:, None])])

    @property
    def _has_few_pairs(self):
        """Whether the distinct products of features are not many more than the parameters."""
        return self._k > 1 and not sparse.issparse(self.Z) and self.Z.shape[1] < 8 * self._k

    def _packed(self, entries):
        """Sums over rows of C_i (x) z_i z_i', packed, for distinct entries (n, pairs) of several C."""
        products = pairs(np.ascontiguousarray(self.Z.T))
        return [OutputSums(products @ C, self.Z.shape[1], self._k) for C in entries]

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
            return weighted_gram(Z, C[:, 0, 0])
        if not sparse.issparse(Z):  # whatever the number of pairs
            return self._packed([_distinct(C)])[0].unpacked()
        H = np.empty((k, d, k, d))
        for i in range(k):
            for j in range(i, k):
                H[i, :, j] = H[j, :, i] = weighted_gram(Z, C[:, i, j], Z)
        return H.reshape(k * d, k * d)


@dataclass(frozen=True, eq=False)
class OutputSums:
    """A sum over rows of C_i (x) z_i z_i', (k d, k d), by distinct entries of both; two of them add.

    Attributes
    ----------
    sums : ndarray of shape (d (d + 1) / 2, k (k + 1) / 2)
    d, k : int
    """

    sums: np.ndarray
    d: int
    k: int

    def __add__(self, other):
        return replace(self, sums=self.sums + other.sums)

    def unpacked(self):
        """The matrix."""
        squares = self.sums.T[:, pair_places(self.d)]  # (pairs of outputs, d, d)
        out = np.empty((self.k, self.d, self.k, self.d))
        for i, row in enumerate(pair_places(self.k)):
            out[i] = squares[row].transpose(1, 0, 2)
        return out.reshape(self.k * self.d, -1)


@dataclass(frozen=True, eq=False)
class PairedSquares(RootSquares):
    """The same of a linear predictor with several outputs, by the distinct products of features: z' S_kl z.

    Rounding is then relative to (|z|' s_k)(|z|' s_l), s_k^2 the variances of an output's coefficients. Where that is
    much larger than the result, as of features far from zero, the root says what it is.

    Attributes
    ----------
    entries : ndarray of shape (k (k + 1) / 2, d (d + 1) / 2)
        What the product of two features is multiplied by, for each pair of outputs.
    std : ndarray of shape (d, k)
        s.
    places : ndarray of shape (k, k)
        Where a pair of outputs is found among the distinct ones.
    """

    entries: np.ndarray
    std: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, root, k):
        """Of k outputs."""
        d = len(root) // k
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is left to the root
            S = (root @ root.T).reshape(k, d, k, d)
            (i, j), (a, b) = np.triu_indices(d), np.triu_indices(k)
            a, b = a[:, None], b[:, None]
            entries = (S[a, i, b, j] + S[a, j, b, i]) * np.where(i == j, 0.5, 1.0)
        return cls(root, entries, np.sqrt(np.einsum("kdkd->dk", S)), pair_places(k))

    def __call__(self, tangent):
        if sparse.issparse(tangent.Z):
            return super().__call__(tangent)
        Z, k = tangent.Z, self.std.shape[1]
        places, C = self.places.ravel(), np.empty((len(Z), k, k))
        blocks = row_blocks(len(Z), self.entries.shape[1])
        products = np.empty((self.entries.shape[1], blocks[0].stop if blocks else 0))  # the same pages for every block
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in blocks:
                z = np.ascontiguousarray(Z[rows].T)
                by_output = self.entries @ pairs(z, out=products[:, : z.shape[1]])  # (pairs of outputs, rows)
                C[rows] = by_output[places].T.reshape(-1, k, k)
            rough = ~((np.abs(Z) @ self.std) ** 2 <= CANCELLING * np.einsum("nkk->nk", C)).all(axis=1)
        rough = np.flatnonzero(rough)
        for some in row_blocks(len(rough), k * self.root.shape[1]):
            few = rough[some]
            C[few] = super().__call__(LinearTangent(Z[few], tangent.f[few]))
        return C


def _distinct(C):
    """Distinct entries (n, pairs) of symmetric C (n, k, k)."""
    i, j = np.triu_indices(C.shape[1])
    return C[:, i, j]


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
