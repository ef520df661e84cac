"""Models whose raw prediction is linear in the parameters: least squares, Huber, GLMs and logistic regression."""

from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
from scipy import sparse
from sklearn import linear_model as lm
from sklearn.utils import compute_class_weight

from .._core.linalg import batch_gram, gram, scale_rows
from ..exceptions import SelectionWarning, warn_user
from .base import FROZEN_MODELS, ParametricModel, Tangent, as_parametric, is_whole, takes_outputs, with_theta
from .losses import Bernoulli, Categorical, Huber, HuberWithScale, SquaredEpsilonInsensitive, SquaredErrors, Tweedie

GLM = lm.PoissonRegressor | lm.GammaRegressor | lm.TweedieRegressor


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearPredictor(ParametricModel):
    """Linear model f = X~ Theta', with X~ = [X - c, 1], Theta (k, d), theta = Theta.ravel(); sparse X stays sparse."""

    intercept: bool = True
    columns: np.ndarray | None = None  # the active features; None for all
    centre: np.ndarray | None = None  # c (d,): means of the features, so that sums over rows are exact; None for zero

    is_linear = True
    has_hessian = True

    def __post_init__(self):
        super().__post_init__()
        k, separate = self.loss.n_outputs, bool(self.loss.by_output)
        d = len(self.theta) // k
        width = (k + 2) * d if separate else max((k + 1) * d, (k + 1) ** 2)  # rows and scores, or the loss's curvatures
        vars(self).update(row_width=width, outputs_are_separate=separate, exact_is_psd=self.loss.convex)

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
        return LinearTangent(Z, np.asarray(Z @ self.theta.reshape(self.loss.n_outputs, -1).T))

    def centred(self, X):
        k = self.loss.n_outputs
        if not self.intercept or sparse.issparse(X) or self.l2.reshape(k, -1)[:, -1].any():
            return self
        some = X if self.columns is None else X[:, self.columns]
        centre = np.mean(some, axis=0, dtype=np.float64)
        first = some[0].astype(np.float64)  # a constant column is centred exactly, without rounding of its mean
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
        found = np.empty((len(self.f), self._k, V.shape[1]))
        for output, block in enumerate(np.split(V, self._k)):
            found[:, output] = self.Z @ block
        return found

    def covariances(self, root, shared):
        k, d = self._k, len(root) // self._k
        # products of larger coefficients may overflow
        if k <= 2 or sparse.issparse(self.Z) or d * (k + 1) > 2 * root.shape[1] or np.abs(root).max() > 1e100:
            return super().covariances(root, shared)
        first, second = np.triu_indices(k)
        if not shared:  # (d, pairs d): covariances of the coefficients of every pair of outputs
            center = self.Z.mean(axis=0) * (self.Z[:, -1] == 1).all()  # the last column is the intercept's
            center[-1] = 0.0
            blocks = root.reshape(k, d, -1).copy()
            blocks[:, -1] += center @ blocks  # the intercept at the center, where products do not cancel
            pairs = np.einsum("kdr,ler->klde", blocks, blocks, optimize=True)[first, second]
            shared |= {"center": center, "pairs": pairs.transpose(1, 0, 2).reshape(d, -1)}
        Z, found = self.Z - shared["center"], np.empty((len(self.f), k, k))
        forms = np.einsum("npd,nd->np", (Z @ shared["pairs"]).reshape(len(Z), -1, d), Z)
        found[:, first, second] = found[:, second, first] = forms
        return found

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
        rank_one = self._k > 1 and R.shape[2] == 1
        return gram(self.scores(R[:, :, 0])) if rank_one else self.hessian(batch_gram(R))

    def squares(self, R):
        squared = self.Z.multiply(self.Z) if sparse.issparse(self.Z) else self.Z * self.Z
        return np.asarray((squared.T @ (R**2).sum(axis=2)).T).ravel()

    def hessian(self, C, u=None):
        """Sum over rows of C_i (x) z_i z_i', for symmetric C (n, k, k); u has no effect, since f is linear."""
        k, d = self._k, self.Z.shape[1]
        H = np.empty((k, d, k, d))
        for i, j in combinations_with_replacement(range(k), 2):
            H[i, :, j] = H[j, :, i] = gram(self.Z, C[:, i, j])
        return H.reshape(k * d, k * d)


@takes_outputs.register(lm.LinearRegression | lm.Ridge | lm.RidgeCV)
def _(estimator):
    return not getattr(estimator, "positive", False)  # signs drop other columns for each output


@with_theta.register(lm.LinearRegression | lm.Ridge | lm.RidgeCV)
@with_theta.register(GLM)
def with_coefficients(estimator, model, theta, basis=None):
    """Copy a fitted linear estimator with coefficients theta, intercepts last; ``basis`` (K, k) maps to classes."""
    Theta = theta.reshape(-1, np.shape(estimator.coef_)[-1] + model.intercept)
    Theta = Theta if basis is None else basis @ Theta
    estimator = copy(estimator)
    coef = Theta[:, :-1] if model.intercept else Theta
    estimator.coef_ = coef.reshape(np.shape(estimator.coef_)).copy()
    if model.intercept:
        intercept = Theta[:, -1].reshape(np.shape(estimator.intercept_))
        estimator.intercept_ = intercept.copy() if intercept.ndim else float(intercept)
    return estimator


def linear_model(estimator, loss, l2, l1=0.0, drop_zeros=False, **fields):
    """LinearPredictor of a fitted estimator with ``coef_``; penalties, l2 maybe (m,), are relative to the mean loss."""
    name, columns = type(estimator).__name__, None
    coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=float))
    if np.ndim(estimator.coef_) > 1 and takes_outputs(estimator):  # fitted by least squares
        loss = SquaredErrors(len(coef))
    elif len(coef) > 1 and loss.output_map is None:
        raise TypeError(f"{estimator!r} was fitted with several outputs; fit it to one column of y.")
    if drop_zeros:  # an L1 penalty or sign constraint has a kink there
        columns = np.flatnonzero(coef[0])
        if len(columns) < coef.shape[1]:
            warn_user(
                f"{name} keeps {len(columns)} of {coef.shape[1]} coefficients; intervals are conditional on that "
                "selection and too narrow if it is uncertain. Try: a ridge penalty, or BootstrapRegressor.",
                SelectionWarning,
            )
        coef = coef[:, columns]
    intercept = bool(estimator.fit_intercept)
    penalised = np.append(np.ones(coef.shape[1]), np.zeros(int(intercept)))
    Theta = np.column_stack([coef, np.broadcast_to(estimator.intercept_, len(coef))]) if intercept else coef
    Theta = Theta if loss.output_map is None else loss.output_map.T @ Theta
    if not Theta.size:
        raise ValueError(f"{name} has no parameter left: every coefficient is zero. Use a weaker penalty.")
    penalties = np.reshape(l2, (-1, 1)) * penalised * np.ones_like(Theta)
    gradient = (penalties * Theta + l1 * penalised * np.sign(Theta)).ravel()
    fields |= {"loss": loss, "l2": penalties.ravel(), "penalty_gradient": gradient, "columns": columns}
    return LinearPredictor(theta=Theta.ravel(), intercept=intercept, **fields)


def fitted_value(estimator, name, default=None):
    """Value of a parameter that the estimator was fitted with: chosen by cross-validation, or set."""
    return getattr(estimator, f"{name}_", getattr(estimator, name, default))


SCALE_COLUMNS = f"Try: a StandardScaler, for columns whose units are many powers of ten apart. {FROZEN_MODELS}"


@as_parametric.register(lm.LinearRegression)
def _(estimator, y, sample_weight):
    return linear_model(estimator, Tweedie(), 0.0, drop_zeros=estimator.positive, cure=SCALE_COLUMNS)


@as_parametric.register(lm.Ridge | lm.RidgeCV)
def _(estimator, y, sample_weight):
    l2 = fitted_value(estimator, "alpha") / sample_weight.sum()  # alpha is on the scale of the sum of squares
    return linear_model(estimator, Tweedie(), l2, drop_zeros=getattr(estimator, "positive", False))


@as_parametric.register(lm.BayesianRidge)
def _(estimator, y, sample_weight):
    if not (estimator.lambda_ >= 0 and estimator.alpha_ > 0):
        raise ValueError(
            f"BayesianRidge estimated a precision that is not positive (lambda_={estimator.lambda_:.3g}, "
            f"alpha_={estimator.alpha_:.3g}), as with weights that stand for fewer observations than parameters: scale "
            "sample_weight to sum to the number of rows, or use Ridge."
        )
    return linear_model(estimator, Tweedie(), estimator.lambda_ / (estimator.alpha_ * sample_weight.sum()))


@as_parametric.register(lm.ElasticNet | lm.ElasticNetCV | lm.LassoCV)
def _(estimator, y, sample_weight):
    alpha, l1_ratio = fitted_value(estimator, "alpha"), fitted_value(estimator, "l1_ratio", 1.0)
    return linear_model(estimator, Tweedie(), alpha * (1 - l1_ratio), alpha * l1_ratio, drop_zeros=True)


def sgd_penalty(estimator, sample_weight):
    """Penalties l2, l1 of an SGD estimator on the scale of the mean loss; its loss is sum(w_i l_i) / n_rows."""
    alpha = estimator.alpha * len(sample_weight) / sample_weight.sum()
    l1_ratio = {None: 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": estimator.l1_ratio}[estimator.penalty]
    return (0.0, 0.0) if estimator.penalty is None else (alpha * (1 - l1_ratio), alpha * l1_ratio)


@as_parametric.register(lm.SGDRegressor)
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
    """Linear location and one common scale: f = (x~' beta, s), theta = (beta, s)."""

    intercept: bool = True

    has_hessian = True
    exact_is_psd = True

    def rows(self, X):
        X = super().rows(X)
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def raw(self, Z, theta=None):
        theta = self.theta if theta is None else theta
        return np.column_stack([Z @ theta[:-1], np.full(len(Z), theta[-1])])

    def tangent(self, Z):
        J = np.zeros((len(Z), 2, Z.shape[1] + 1))
        J[:, 0, :-1] = Z
        J[:, 1, -1] = 1.0
        return LocationScaleTangent(self.raw(Z), J)


class LocationScaleTangent(Tangent):
    """Tangent of a LocationScale: f is linear in the parameters, so that only the loss has a curvature."""

    def hessian(self, C, u):
        J = self.jacobian()
        return np.einsum("nkp,nkl,nlq->pq", J, C, J, optimize=True)


LARGER_EPSILON = "The scale of HuberRegressor has collapsed to zero. Try: a larger epsilon, such as 1.35."


@as_parametric.register(lm.HuberRegressor)
def _(estimator, y, sample_weight):
    # a scale below 1e-8 of the targets is rounding of a perfect fit, where all losses agree; one below 1e-6 of their
    # range, or two rows per parameter or fewer below the threshold, is a scale that the solver drove to zero
    known, n, p = len(sample_weight) == len(estimator.outliers_), sample_weight.sum(), len(estimator.coef_) + 1
    share = np.average(~estimator.outliers_, weights=sample_weight if known else None)  # of rows below the threshold
    smooth = min(0.5, 2 * (1.96**2 * 1.5 / (2 * np.pi) / n) ** (1 / 3))  # share of rows of Hall and Sheather (1988)
    collapsed = share * n <= min(2 * p, n / 4)
    if collapsed or estimator.scale_ <= max(1e-8 * np.abs(y).max(), 1e-6 * np.ptp(y)):
        return linear_model(estimator, Tweedie(), 2 * estimator.alpha / n, cure=LARGER_EPSILON)
    intercept = [estimator.intercept_] if estimator.fit_intercept else []
    theta = np.concatenate([estimator.coef_, intercept, [estimator.scale_]]).astype(float)
    l2 = np.zeros_like(theta)
    l2[: len(estimator.coef_)] = 2 * estimator.alpha / n  # alpha ||coef||^2 against the sum
    loss = HuberWithScale(estimator.epsilon, max(1, smooth / share))
    return LocationScale(theta=theta, loss=loss, l2=l2, intercept=bool(estimator.fit_intercept))


@with_theta.register(lm.HuberRegressor)
def _(estimator, model, theta):
    if not isinstance(model, LocationScale):
        return with_coefficients(estimator, model, theta)
    estimator = with_coefficients(estimator, model, theta[:-1])
    estimator.scale_ = float(theta[-1])
    return estimator


# ---------------------------------------------------------------------- generalized linear models and classifiers
def tweedie_loss(estimator, y):
    """Loss of a GLM with the targets y, maybe counts."""
    default = 1 if isinstance(estimator, lm.PoissonRegressor) else 2
    power, link = getattr(estimator, "power", default), getattr(estimator, "link", "log")
    if link == "auto":
        link = "identity" if power <= 0 else "log"
    return Tweedie(power, link, is_whole(y))


@as_parametric.register(GLM)
def _(estimator, y, sample_weight):
    return linear_model(estimator, tweedie_loss(estimator, y), estimator.alpha)  # of the mean loss


def class_weights(estimator, y, sample_weight):
    """Class weights (K,) that multiply each row's loss, or None; they are not frequencies."""
    if estimator.class_weight is None:
        return None
    known = {"classes": estimator.classes_, "y": y, "sample_weight": sample_weight}
    with np.errstate(divide="ignore"):
        weights = compute_class_weight(estimator.class_weight, **known).astype(float)
    return np.where(np.isinf(weights), 0.0, weights)  # "balanced" against rows that have no weight themselves


def logistic_penalty(estimator):
    """C and l1_ratio that a LogisticRegression or LogisticRegressionCV was fitted with."""
    C, l1_ratio = np.ravel(fitted_value(estimator, "C", np.inf)), np.ravel(fitted_value(estimator, "l1_ratio", 0.0))[0]
    if len(np.unique(C)) > 1:
        raise TypeError("LogisticRegressionCV chose a different C for each class; refit one LogisticRegression.")
    named = {"l1": 1.0, "l2": 0.0, None: 0.0}  # the spelling before scikit-learn 1.8
    penalty = getattr(estimator, "penalty", "deprecated")
    return (np.inf if penalty is None else C[0]), named.get(penalty, 0.0 if l1_ratio is None else l1_ratio)


@as_parametric.register(lm.LogisticRegression)
def _(estimator, y, sample_weight):
    C, l1_ratio = logistic_penalty(estimator)
    strength = 1.0 / (C * sample_weight.sum())  # the penalty is on the sum of the losses
    l2, l1 = strength * (1 - l1_ratio), strength * l1_ratio
    K, weights = len(estimator.classes_), class_weights(estimator, y, sample_weight)
    if len(estimator.coef_) > 1:
        if estimator.solver == "liblinear" or getattr(estimator, "multi_class", None) == "ovr":
            raise TypeError(
                "One-versus-rest logistic regression is not a single likelihood; use a multinomial solver "
                "(lbfgs, newton-cg, newton-cholesky, sag, saga), or OneVsRestClassifier(RibbonClassifier())."
            )
        if l1_ratio > 0:
            raise TypeError("Multinomial LogisticRegression with an L1 penalty is not supported; use l1_ratio=0.")
        # coefficients sum to zero over classes, so their penalty is the same in the orthonormal basis of the loss
        return linear_model(estimator, Categorical(K, weights), l2, classes=estimator.classes_)
    model = linear_model(estimator, Bernoulli(weights), l2, l1, l1_ratio > 0, classes=estimator.classes_)
    if estimator.solver != "liblinear" or not model.intercept:
        return model
    if l1_ratio > 0 and model.theta[-1] == 0:  # the L1 penalty selected the intercept away too
        theta, penalties, gradient = model.theta[:-1], model.l2[:-1], model.penalty_gradient[:-1]
        return replace(model, theta=theta, l2=penalties, penalty_gradient=gradient, intercept=False)
    # liblinear fits the intercept as the weight of a constant column, intercept_scaling, and penalizes that weight
    scale = estimator.intercept_scaling
    weight = model.theta[-1] / scale
    model.l2[-1] = l2 / scale**2
    model.penalty_gradient[-1] = (l2 * weight + l1 * np.sign(weight)) / scale
    return model


@with_theta.register(lm.LogisticRegression)
def _(estimator, model, theta):
    return with_coefficients(estimator, model, theta, model.loss.output_map)


@as_parametric.register(lm.SGDClassifier)
def _(estimator, y, sample_weight):
    if estimator.loss != "log_loss":
        raise TypeError(f"SGDClassifier(loss={estimator.loss!r}) is not a likelihood; use loss='log_loss'.")
    if len(estimator.coef_) > 1:
        raise TypeError(
            "SGDClassifier fits several classes one versus rest, which is not a single likelihood; use "
            "LogisticRegression, or OneVsRestClassifier(RibbonClassifier(SGDClassifier(loss='log_loss')))."
        )
    l2, l1 = sgd_penalty(estimator, sample_weight)
    loss = Bernoulli(class_weights(estimator, y, None))  # SGDClassifier balances counts of rows, not their weights
    return linear_model(estimator, loss, l2, l1, drop_zeros=l1 > 0, classes=estimator.classes_)
