"""Every registered model against its loss written a second time, from the estimator's own attributes."""

import tracemalloc
from dataclasses import dataclass

import autograd.numpy as anp
import blocks
import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from autograd.scipy.special import logsumexp
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit, softmax, xlogy
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline

from skribbon._core.rows import Moments, Rows
from skribbon.curvature import GaussNewton, Hessian
from skribbon.models import as_parametric
from skribbon.models.base import raw_and_covariance
from skribbon.models.linear import LinearTangent

pytestmark = pytest.mark.filterwarnings("ignore::skribbon.exceptions.SelectionWarning")

ROWS = 25  # rows whose scores are compared one by one; all rows enter the sums


# ---------------------------------------------------------------------- the oracle
def half_deviance(mu, y, power):
    if power == 0:
        return (y - mu) ** 2 / 2
    if power == 1:
        return xlogy(y, y) - y * anp.log(mu) - y + mu
    if power == 2:
        return anp.log(mu) - anp.log(y) + y / mu - 1
    a, b = 1 - power, 2 - power
    return y**b / (a * b) - y * mu**a / a + mu**b / b


def huber(z, epsilon):
    a = anp.abs(z)
    return anp.where(a <= epsilon, z**2 / 2, epsilon * a - epsilon**2 / 2)


def row_losses(case, leaf, f, t):
    """Loss of each row at raw prediction f and target t, a mean or a matrix of class probabilities."""
    if case.loss == "squared":
        return (f - t) ** 2 / 2
    if case.loss == "logistic":
        return anp.logaddexp(0, f) - t * f
    if case.loss == "softmax":
        return logsumexp(f, axis=1) - anp.sum(t * f, axis=1)
    if case.loss == "tweedie":
        return half_deviance(anp.exp(f) if case.link == "log" else f, t, case.power)
    if case.loss == "huber":
        return huber(f - t, leaf.epsilon)
    if case.loss == "insensitive":
        return anp.maximum(anp.abs(f - t) - leaf.epsilon, 0) ** 2
    eta, s = f  # huber-scale: scikit-learn's rho is twice the usual one
    return s + s * 2 * huber((t - eta) / s, leaf.epsilon)


def model_mean(case, f, t):
    """E[y | x] under the model; the target itself where curvature does not depend on it."""
    if case.loss == "logistic":
        return expit(f)
    if case.loss == "softmax":
        return softmax(f, axis=1)
    if case.loss in ("squared", "tweedie"):
        return np.exp(f) if case.link == "log" else f
    return t


@dataclass(frozen=True)
class Oracle:
    """Training loss as a function of the parameters in the estimator's own layout.

    ``lift`` (P, p) maps the model's theta to that layout: the identity, except that a softmax of linear logits drops
    the common shift, Theta = B Phi.
    """

    fitted: object
    leaf: object
    X: np.ndarray
    t: np.ndarray
    theta: np.ndarray
    class_weight: np.ndarray
    lift: np.ndarray

    def raw(self, theta):
        if self.fitted.case.is_network:
            return self._network(theta)
        if self.fitted.case.loss == "huber-scale":
            return self.X @ theta[:-1], theta[-1]
        if self.fitted.case.loss == "softmax":
            return self.X @ theta.reshape(self.t.shape[1], -1).T
        return self.X @ theta

    def _network(self, theta):
        activation = {
            "identity": lambda z: z,
            "logistic": lambda z: 1 / (1 + anp.exp(-z)),
            "tanh": anp.tanh,
            "relu": lambda z: anp.maximum(z, 0),
        }[self.leaf.activation]
        shapes = [a.shape for a in (*self.leaf.coefs_, *self.leaf.intercepts_)]
        ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        arrays = [a.reshape(shape) for a, shape in zip(anp.split(theta, ends), shapes, strict=True)]
        a, depth = self.X, len(self.leaf.coefs_)
        for W, b in zip(arrays[: depth - 1], arrays[depth:-1], strict=True):
            a = activation(anp.dot(a, W) + b)
        f = anp.dot(a, arrays[depth - 1]) + arrays[-1]
        return f if f.shape[1] > 1 else f[:, 0]

    def rows(self, theta, t=None):
        t = self.t if t is None else t
        return self.class_weight * row_losses(self.fitted.case, self.leaf, self.raw(theta), t)

    def total(self, theta, t=None):
        return anp.sum(self.fitted.weight * self.rows(theta, t))

    def mean(self):
        return model_mean(self.fitted.case, self.raw(self.theta), self.t)


def unwrap(estimator, X, y):
    """The innermost estimator, with X and y as it saw them."""
    if isinstance(estimator, FrozenEstimator):
        return unwrap(estimator.estimator, X, y)
    if isinstance(estimator, Pipeline):
        return unwrap(estimator[-1], estimator[:-1].transform(X), y)
    if isinstance(estimator, TransformedTargetRegressor):
        return unwrap(estimator.regressor_, X, estimator.transformer_.transform(y[:, None])[:, 0])
    return estimator, X, y


def oracle_of(fitted):
    case = fitted.case
    leaf, X, y = unwrap(fitted.estimator, case.X, case.y)
    K = len(leaf.classes_) if case.is_classifier else 1
    lift = None
    if case.is_network:
        theta = np.concatenate([a.ravel() for a in (*leaf.coefs_, *leaf.intercepts_)])
    else:
        theta, X = linear_parameters(leaf, X)
        if case.loss == "softmax":
            lift = np.kron(fitted.model.loss.basis, np.eye(X.shape[1]))
    one_hot = y[:, None] == leaf.classes_ if case.is_classifier else None
    t = y if one_hot is None else one_hot.astype(float) if K > 2 else one_hot[:, 1].astype(float)
    lift = np.eye(len(theta)) if lift is None else lift
    return Oracle(fitted, leaf, X, t, theta, expected_class_weight(leaf, y, fitted.weight), lift)


def linear_parameters(leaf, X):
    """Active coefficients, intercept and scale, with the matching columns of X."""
    coef, intercept = np.atleast_2d(leaf.coef_), np.ravel(leaf.intercept_)
    active = (coef != 0).any(axis=0)
    coef, X = coef[:, active], X[:, active]
    # liblinear's intercept is a penalised weight like the others, so L1 can select it away
    selected_away = getattr(leaf, "solver", "") == "liblinear" and leaf.l1_ratio and intercept[0] == 0
    if leaf.fit_intercept and not selected_away:
        coef, X = np.column_stack([coef, intercept]), np.column_stack([X, np.ones(len(X))])
    return np.append(coef, leaf.scale_ if type(leaf).__name__ == "HuberRegressor" else []), X


def expected_class_weight(leaf, y, weight):
    """The factor of each row's loss. SGD alone counts rows, not weights, when it balances classes."""
    class_weight = getattr(leaf, "class_weight", None)
    if class_weight is None:
        return np.ones(len(y))
    if class_weight == "balanced":
        counted = np.ones(len(y)) if type(leaf).__name__ == "SGDClassifier" else weight
        class_weight = {c: counted.sum() / (len(leaf.classes_) * counted[y == c].sum()) for c in leaf.classes_}
    return np.array([class_weight.get(c, 1.0) for c in y])


@pytest.fixture
def oracle(fitted):
    return oracle_of(fitted)


def assert_same_matrix(actual, expected, rtol):
    """Entries agree to rtol of the largest: a Hessian's small entries are differences of its large ones."""
    assert_allclose(actual, expected, rtol=0, atol=rtol * np.abs(expected).max())


# ---------------------------------------------------------------------- values
def test_theta_is_the_estimators_own(every_case):
    # lbfgs lets the sum of softmax coefficients over classes, which no probability sees, drift by rounding
    fitted, oracle = every_case, oracle_of(every_case)
    assert fitted.model.theta.dtype == np.float64
    assert_allclose(oracle.lift @ fitted.model.theta, oracle.theta, rtol=1e-9, atol=1e-9)


def test_loss_away_from_the_fit(every_fit):
    fitted, oracle = every_fit, oracle_of(every_fit)
    model = fitted.model
    theta = model.theta + 0.05 * np.random.default_rng(0).normal(size=model.theta.shape)
    value = model.loss.value(model.raw(fitted.Z, theta), fitted.t)
    assert_allclose(value, oracle.rows(oracle.lift @ theta), rtol=1e-10, atol=1e-12)


def test_raw_reproduces_predict(every_case):
    fitted = every_case
    model, estimator, X = fitted.model, fitted.estimator, fitted.case.X
    f = model.raw(fitted.Z)
    if not fitted.case.is_classifier:
        f = f if model.loss.by_output else f[:, 0]
        mean = np.exp(f) if fitted.case.link == "log" else f
        assert_allclose(model.decode_target(mean), estimator.predict(X), rtol=1e-10, atol=1e-12)
        return
    assert_allclose(model.loss.probabilities(f), estimator.predict_proba(X), rtol=1e-8, atol=1e-12)
    if hasattr(estimator, "decision_function"):
        logits = estimator.decision_function(X)
        expected = logits[:, None] if logits.ndim == 1 else (logits - logits.mean(axis=1, keepdims=True))
        assert_allclose(f if logits.ndim == 1 else f @ model.loss.basis.T, expected, rtol=1e-8, atol=1e-10)


def test_target_survives_encoding(every_case):
    fitted, case, model = every_case, every_case.case, every_case.model
    if case.is_classifier:
        assert list(model.classes[fitted.t.astype(int)]) == list(case.y)
    else:
        assert_allclose(model.decode_target(fitted.t), case.y, rtol=1e-12)


# ---------------------------------------------------------------------- first derivatives
def test_scores_of_single_rows(fitted, oracle):
    G = blocks.scores(fitted.model, fitted.Z, fitted.t)
    expected = jacobian(lambda theta: oracle.rows(theta)[:ROWS])(oracle.lift @ fitted.model.theta)
    assert_same_matrix(G[:ROWS] @ oracle.lift.T, expected, 1e-11)


def test_sum_of_scores(fitted, oracle):
    G = blocks.scores(fitted.model, fitted.Z, fitted.t)
    expected = grad(oracle.total)(oracle.lift @ fitted.model.theta)
    scale = fitted.weight @ np.abs(G)  # the sum itself nearly vanishes at an optimum
    assert_allclose(oracle.lift @ (G.T @ fitted.weight), expected, rtol=0, atol=1e-12 * scale.max())


def test_stationarity(every_fit):
    """The optimum of loss plus penalty: what Ribbon expands around, and the test of every penalty's scale."""
    fitted, model, weight = every_fit, every_fit.model, every_fit.weight
    mean_score = blocks.scores(model, fitted.Z, fitted.t).T @ weight / weight.sum()
    assert np.abs(mean_score + model.penalty_gradient).max() < fitted.case.gradient


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_stochastic_networks_penalise_by_minibatch(weighted):
    """adam divides alpha by a minibatch's weight, lbfgs by that of all rows: the wrong one is far from stationary."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=60)
    weight = rng.integers(1, 4, 60).astype(float) if weighted else np.ones(60)
    network = MLPRegressor(
        hidden_layer_sizes=(2,), activation="tanh", solver="adam", batch_size=15, alpha=3.0, random_state=0
    )
    network.set_params(learning_rate_init=3e-3, max_iter=800, n_iter_no_change=800).fit(X, y, sample_weight=weight)
    model = as_parametric(network, y, weight)
    assert_allclose(model.l2[:6], 3.0 / (15 * weight.mean()))
    gradient = blocks.scores(model, X, y).T @ weight / weight.sum() + model.l2 * model.theta
    assert np.abs(gradient).max() < 0.1 * np.abs(model.l2 * model.theta).max()  # steps stay noisy


def test_penalty_gradient_is_that_of_l2_without_l1(every_case):
    fitted = every_case
    leaf, _, _ = unwrap(fitted.estimator, fitted.case.X, fitted.case.y)
    has_l1 = "lasso" in fitted.case.id or getattr(leaf, "l1_ratio_", getattr(leaf, "l1_ratio", 0.0))
    if fitted.case.id.startswith("sgd"):
        has_l1 = leaf.penalty == "l1"
    model = fitted.model
    l1_part = model.penalty_gradient - model.l2 * model.theta
    assert (np.abs(l1_part).max() > 1e-4) == bool(has_l1)


def finite_difference_jacobian(model, Z, step=1e-6):
    columns = []
    for direction in np.eye(len(model.theta)):
        ahead, behind = (model.raw(Z, model.theta + sign * step * direction) for sign in (1, -1))
        columns.append((ahead - behind) / (2 * step))
    return np.stack(columns, axis=2)


def test_jacobian_and_jvp(fitted):
    model, Z = fitted.model, fitted.Z[:ROWS]
    J = model.jacobian(Z)
    assert J.shape == (ROWS, model.raw(Z).shape[1], len(model.theta))
    assert_allclose(J, finite_difference_jacobian(model, Z), rtol=1e-6, atol=1e-7)
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(len(model.theta), 3))
    lower = np.tril(rng.normal(size=(len(model.theta),) * 2))  # the ribbon's root has this form
    for V in (wide, lower, wide[:, :0]):
        assert_allclose(blocks.jvp(model, Z, V), J @ V, rtol=1e-10, atol=1e-10)


VIEWS = {
    "itself": lambda model, X: model,
    "centred": lambda model, X: model.centred(X),
    "last layer": lambda model, X: model.last_layer(),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_raw_and_covariance_are_those_of_the_jacobian(every_case, view, dtype, monkeypatch):
    """In one block and in several, the last of them shorter."""
    X = every_case.model.prepare(every_case.case.X).astype(dtype)
    model = view(every_case.model, X)
    root = np.random.default_rng(0).normal(size=(len(model.theta), 4))
    Z = model.rows(X)
    J = model.jacobian(Z) @ root
    for rows in (len(X), 7):
        monkeypatch.setattr("skribbon._core.rows.LEAST_ROWS", rows)
        monkeypatch.setattr("skribbon._core.rows.BLOCK_BYTES", 1)
        f, covariance = raw_and_covariance(model, X, root)
        assert_allclose(f, model.raw(Z), rtol=1e-10, atol=1e-12)
        assert_same_matrix(covariance, J @ J.transpose(0, 2, 1), 1e-13)


def test_vjp(fitted):
    model, Z = fitted.model, fitted.Z
    J, rng = model.jacobian(Z), np.random.default_rng(0)
    U = rng.normal(size=(*J.shape[:2], 3))
    assert_allclose(blocks.vjp(model, Z, U), np.einsum("nkp,nkr->pr", J, U), rtol=1e-10, atol=1e-10)


def test_sums_of_scores(fitted):
    model, Z, t, weight = fitted.model, fitted.Z, fitted.t, fitted.weight
    G, rows = blocks.scores(model, Z, t), blocks.block(model, Z, t, weight)
    assert_allclose(rows.score_sum(rows.u), G.T @ weight, rtol=1e-10, atol=1e-10)
    assert_same_matrix(rows.score_scatter(rows.u), G.T @ (weight[:, None] * G), 1e-12)
    assert_same_matrix(rows.score_squares(rows.u), weight @ G**2, 1e-12)


# ---------------------------------------------------------------------- second derivatives
def test_hessian(fitted, oracle):
    H = blocks.hessian(fitted.model, fitted.Z, fitted.t, fitted.weight)
    expected = hessian(oracle.total)(oracle.lift @ fitted.model.theta)
    assert_same_matrix(oracle.lift @ H @ oracle.lift.T, expected, 1e-10)


def test_ggn_is_the_hessian_at_the_mean_target(fitted, oracle):
    # every loss here is linear in the target, up to a constant, and its gradient vanishes at the model's mean, so that
    # the Hessian at that target is both the expected Hessian and the Gauss-Newton matrix
    mean = oracle.mean()
    expected = hessian(lambda theta: oracle.total(theta, mean))(oracle.theta)
    ggn = blocks.ggn(fitted.model, fitted.Z, fitted.t, fitted.weight)
    assert_same_matrix(oracle.lift @ ggn @ oracle.lift.T, expected, 1e-8)


def test_products_and_diagonal_are_those_of_the_matrices(fitted):
    model, data = fitted.model, (fitted.Z, fitted.t, fitted.weight)
    V = np.random.default_rng(0).normal(size=(len(model.theta), 3))
    ggn, H = blocks.ggn(model, *data), blocks.hessian(model, *data)
    assert_same_matrix(blocks.ggn_diagonal(model, *data), np.diag(ggn), 1e-12)
    assert_same_matrix(blocks.ggn_product(model, *data, V), ggn @ V, 1e-12)
    assert_same_matrix(blocks.hessian_product(model, *data, V), H @ V, 1e-12)


def test_root_jacobian_squares_to_the_ggn_of_each_row(fitted):
    model, Z, t = fitted.model, fitted.Z[:5], fitted.t[:5]
    A = blocks.root_jacobian(model, Z, t)
    for i in range(len(t)):
        ggn = blocks.ggn(model, Z[i : i + 1], t[i : i + 1], np.ones(1))
        assert_allclose(A[i].T @ A[i], ggn, rtol=1e-10, atol=1e-14)


def test_ggn_equals_hessian_for_canonical_losses_of_linear_models(fitted):
    canonical = fitted.case.loss not in ("tweedie",) or (fitted.case.power, fitted.case.link) in (
        (0, "identity"),
        (1, "log"),
    )
    model, data = fitted.model, (fitted.Z, fitted.t, fitted.weight)
    H, ggn = blocks.hessian(model, *data), blocks.ggn(model, *data)
    expected = canonical and (not fitted.case.is_network)
    assert (np.abs(H - ggn).max() < 1e-10 * np.abs(H).max()) == expected


def test_exact_is_psd_holds_away_from_the_fit(fitted):
    """`exact_is_psd` lets "auto" choose the Hessian, so it must hold at any target in the family's support."""
    model, case = fitted.model, fitted.case
    assert not (case.is_network and model.exact_is_psd)
    if not model.exact_is_psd:
        return
    targets = [np.random.default_rng(0).permutation(fitted.t)]
    if not case.is_classifier:  # rows far below and far above their predictions
        targets += [1e-3 * fitted.t, 1e3 * fitted.t]
    for t in targets:
        C = model.loss.hessian(model.raw(fitted.Z), t)  # of each row: a sum of many hides one that is not
        assert (np.linalg.eigvalsh(C)[:, 0] >= -1e-12 * np.abs(C).max(axis=(1, 2))).all()


# ---------------------------------------------------------------------- other views of a model
def test_at_moves_parameters_and_penalty(fitted):
    model, Z = fitted.model, fitted.Z
    theta = model.theta + 0.05 * np.random.default_rng(0).normal(size=model.theta.shape)
    moved = model.at(theta)
    assert type(moved) is type(model)
    assert_allclose(moved.raw(Z), model.raw(Z, theta), rtol=0, atol=0)
    # the L1 part is constant while no sign changes; the rest of the penalty is quadratic
    assert_allclose(moved.penalty_gradient - model.penalty_gradient, model.l2 * (theta - model.theta), atol=1e-14)
    back = moved.at(model.theta)
    assert_allclose(back.penalty_gradient, model.penalty_gradient, atol=1e-14)
    assert_allclose(blocks.scores(back, Z, fitted.t), blocks.scores(model, Z, fitted.t), rtol=1e-12, atol=1e-12)


def test_last_layer_is_a_linear_model_of_the_hidden_units(fitted):
    model, last = fitted.model, fitted.model.last_layer()
    if not fitted.case.is_network:
        assert last is model
        return
    Z = last.rows(last.prepare(fitted.case.X))
    assert_allclose(last.raw(Z), model.raw(fitted.Z), rtol=1e-12, atol=1e-12)
    columns = model.layers[-1].ravel()  # of the full Jacobian: all that the last layer's weights and biases move
    M = np.eye(model.units[-1]) if model.output_map is None else model.output_map
    lift = np.kron(np.eye(len(model.layers[-1])), M)  # d vec(W_L, b_L) / d Theta, up to the order of coordinates
    order = np.arange(len(last.theta)).reshape(last.loss.n_outputs, -1).T.ravel()
    expected = model.jacobian(fitted.Z)[:, :, columns] @ lift
    assert_allclose(last.jacobian(Z)[:, :, order], expected, rtol=1e-10, atol=1e-12)
    assert_allclose(last.theta[order], model.theta[columns] @ lift, rtol=1e-12, atol=1e-12)
    assert_allclose(last.l2[order], np.repeat(model.l2[model.layers[-1][:, 0]], last.loss.n_outputs))
    assert last.exact_is_psd == model.loss.convex


def test_layers_and_kronecker_sums(fitted):
    """Each layer's scores are outer products of inputs and gradients, so the sums are those of their factors."""
    model, Z, t, weight = fitted.model, fitted.Z, fitted.t, fitted.weight
    if not fitted.case.is_network:
        assert not model.has_layers
        return
    assert sorted(np.concatenate([index.ravel() for index in model.layers])) == list(range(len(model.theta)))
    A_rows = blocks.root_jacobian(model, Z, t)  # (n, r, p)
    inputs = Z
    for index, (A, S), W, b in zip(
        model.layers,
        blocks.kronecker_sums(model, Z, t, weight),
        fitted.estimator.coefs_,
        fitted.estimator.intercepts_,
        strict=True,
    ):
        assert_allclose(model.theta[index], np.vstack([W, b]))
        a = np.column_stack([inputs, np.ones(len(inputs))])
        delta = A_rows[:, :, index[-1]]  # the bias has an input of one, so its derivative is delta itself
        assert_allclose(A_rows[:, :, index], a[:, None, :, None] * delta[:, :, None, :], rtol=1e-8, atol=1e-12)
        assert_same_matrix(A, a.T @ (weight[:, None] * a), 1e-12)
        assert_same_matrix(S, np.einsum("n,nri,nrj->ij", weight, delta, delta), 1e-12)
        z = inputs @ W + b
        inputs = {"tanh": np.tanh, "relu": lambda z: z.clip(0), "logistic": expit, "identity": lambda z: z}[
            fitted.estimator.activation
        ](z)


# ---------------------------------------------------------------------- forms of X, weights
def everything(model, Z, t, weight):
    """Raw predictions, scores and curvatures as dense arrays."""
    G = blocks.scores(model, Z, t)
    G = G.toarray() if sparse.issparse(G) else G
    tangent = blocks.jvp(model, Z, np.eye(len(model.theta)))
    curvatures = blocks.ggn(model, Z, t, weight), blocks.hessian(model, Z, t, weight)
    return model.raw(Z), G, *curvatures, model.jacobian(Z), tangent, blocks.root_jacobian(model, Z, t)


def test_sparse_rows_equal_dense_rows(fitted_accepting_sparse):
    fitted = fitted_accepting_sparse
    model, t, weight = fitted.model, fitted.t, fitted.weight
    Z = model.rows(model.prepare(sparse.csr_array(fitted.case.X)))
    dense, from_sparse = (everything(model, rows, t, weight) for rows in (fitted.Z, Z))
    for expected, actual in zip(dense, from_sparse, strict=True):
        assert_allclose(actual, expected, rtol=1e-11, atol=1e-11)


def test_single_precision_rows_are_computed_in_double(fitted):
    model, t, weight = fitted.model, fitted.t, fitted.weight
    X = model.prepare(fitted.case.X).astype(np.float32)  # behind a pipeline's own transformers
    exact = everything(model, model.rows(X.astype(np.float64)), t, weight)
    for expected, actual in zip(exact, everything(model, model.rows(X), t, weight), strict=True):
        assert actual.dtype == np.float64
        assert_allclose(actual, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "estimator",
    [LinearRegression(), Ridge(), Lasso(alpha=0.1), LogisticRegression(solver="newton-cholesky", tol=1e-6)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_fit_in_single_precision(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=100) > 0
    model = as_parametric(estimator.fit(X, y.astype(np.float32)), y.astype(np.float32), np.ones(100))
    assert model.theta.dtype == model.l2.dtype == model.penalty_gradient.dtype == np.float64
    G = blocks.scores(model, model.rows(model.prepare(X)), model.encode_target(y))
    assert np.abs(G.mean(axis=0) + model.penalty_gradient).max() < 1e-6  # rounding of single precision


def test_integer_weights_are_repeated_rows(fitted):
    model, case = fitted.model, fitted.case
    counts = np.random.default_rng(3).integers(0, 4, len(case.y))
    weighted = Rows(model, model.prepare(case.X), fitted.t, counts.astype(float))
    X, t = model.prepare(np.repeat(case.X, counts, axis=0)), np.repeat(fitted.t, counts)
    repeated = Rows(model, X, t, np.ones(counts.sum()))
    for curvature in (Hessian(), GaussNewton()):
        once, many = Moments.from_rows(weighted, curvature), Moments.from_rows(repeated, curvature)
        assert once.n == many.n == counts.sum()
        assert_allclose(once.g2, many.g2, rtol=0, atol=1e-12 * many.g2.max())
        assert_same_matrix(once.curvature, many.curvature, 1e-11)
        assert_allclose(once.g, many.g, rtol=0, atol=1e-11 * np.sqrt(many.g2 * many.n).max())
        assert_allclose(once.chi2, many.chi2, rtol=1e-11)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_jvp_of_few_rows_copies_no_directions(form):
    """Directions of all classes are read in place, and give the products with the Jacobian."""
    rng = np.random.default_rng(0)
    Z, V = form(rng.normal(size=(4, 100))), rng.normal(size=(300, 500))
    tangent = LinearTangent(Z, np.zeros((4, 3)))
    expected = tangent.jacobian() @ V
    tracemalloc.start()
    products = tangent.jvp(V)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_allclose(products, expected, atol=1e-12)
    assert_allclose(tangent.jvp(V[:, :2]), expected[:, :, :2], atol=1e-12)
    assert peak < V.nbytes / 4


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("intercept", [True, False])
def test_covariances_of_several_classes_equal_products_with_the_jacobian(offset, intercept):
    """Also for a column whose mean is large against its spread."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 4, size=40)
    base = LogisticRegression(fit_intercept=intercept).fit(X, y)
    model = as_parametric(base, y, np.ones(40))
    X[:, 0] += offset
    centred = np.append(-offset, [0.0, 0.0])
    d = len(model.theta) // model.loss.n_outputs
    root = rng.normal(size=(model.loss.n_outputs, d, len(model.theta)))
    if intercept:  # coefficients and intercepts that vary little at these rows
        root[:, -1] += centred @ root[:, :3]
    root = root.reshape(len(model.theta), -1)
    J = model.tangent(model.rows(X)).jacobian()
    expected = np.einsum("nkr,nlr->nkl", J @ root, J @ root)
    _, covariance = raw_and_covariance(model, X, root)
    assert_allclose(covariance, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
