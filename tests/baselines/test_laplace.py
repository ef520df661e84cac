"""Laplace against dense algebra written out here, and against statsmodels."""

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
import statsmodels.api as sm
from scipy.integrate import quad
from scipy.special import expit, softmax
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression

from skribbon import AutogradClassifier, AutogradRegressor
from skribbon.baselines import LaplaceClassifier, LaplaceRegressor
from skribbon.curvature import GaussNewton, LowRank
from skribbon.models.architectures import mlp

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=N)
LABELS = np.digitize(Y + 0.5 * RNG.logistic(size=N), [-0.5, 0.5])
X_NEW = 1.5 * RNG.normal(size=(10, 2))
UNITS, L2 = 3, 0.003
NETWORK = {"f": mlp((UNITS,)), "l2": L2, "polish": True, "random_state": 0}


def flat(params):
    """Weights first, then biases."""
    (W1, b1), (W2, b2) = params
    return np.concatenate([W1.ravel(), W2.ravel(), b1, b2])


def forward(theta, X, k):
    """The network once more, (n, k), without anything of skribbon."""
    d, h = X.shape[1], UNITS
    sizes = np.cumsum([d * h, h * k, h, k])
    W1, W2 = anp.reshape(theta[: sizes[0]], (d, h)), anp.reshape(theta[sizes[0] : sizes[1]], (h, k))
    return anp.dot(anp.tanh(anp.dot(X, W1) + theta[sizes[1] : sizes[2]]), W2) + theta[sizes[2] :]


def jacobian(theta, X, k):
    return autograd.jacobian(forward)(theta, X, k)  # (n, k, p)


def on_weights(p, k):
    """One for weights, zero for biases."""
    return np.r_[np.ones(p - UNITS - k), np.zeros(UNITS + k)]


@pytest.mark.parametrize("prior", ["base", 3.0])
def test_laplace_regression_equals_closed_form_posterior(prior):
    est = LaplaceRegressor(AutogradRegressor(**NETWORK), prior_precision=prior).fit(X, Y)
    theta = flat(est.estimator_.params_)
    residuals = Y - forward(theta, X, 1)[:, 0]
    s2 = residuals @ residuals / (N - 1)
    J = jacobian(theta, X, 1)[:, 0]
    p = len(theta)
    Lambda = N * L2 / s2 * on_weights(p, 1) if prior == "base" else np.full(p, prior)
    covariance = np.linalg.inv(J.T @ J / s2 + np.diag(Lambda))
    np.testing.assert_allclose(est.covariance_, covariance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(est.prior_precision_, Lambda if prior == "base" else prior)
    J_new = jacobian(theta, X_NEW, 1)[:, 0]
    variance = np.einsum("np,pq,nq->n", J_new, covariance, J_new)
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="epistemic") ** 2, variance, rtol=1e-6)
    law = norm(forward(theta, X_NEW, 1)[:, 0], np.sqrt(variance + s2))
    np.testing.assert_allclose(est.predict_quantiles(X_NEW, 0.95)[:, 0], law.ppf(0.95), rtol=1e-6)


@pytest.mark.parametrize("prior", ["base", 0.5])
def test_laplace_of_two_classes_equals_closed_form_posterior(prior):
    y = LABELS > 0
    est = LaplaceClassifier(AutogradClassifier(**NETWORK), prior_precision=prior).fit(X, y)
    theta = flat(est.estimator_.params_)
    q = expit(forward(theta, X, 1)[:, 0])
    J = jacobian(theta, X, 1)[:, 0]
    Lambda = N * L2 * on_weights(len(theta), 1) if prior == "base" else np.full(len(theta), prior)
    covariance = np.linalg.inv(J.T @ (J * (q * (1 - q))[:, None]) + np.diag(Lambda))
    np.testing.assert_allclose(est.covariance_, covariance, rtol=1e-6, atol=1e-9)
    J_new, f = jacobian(theta, X_NEW, 1)[:, 0], forward(theta, X_NEW, 1)[:, 0]
    std = np.sqrt(np.einsum("np,pq,nq->n", J_new, covariance, J_new))
    averaged = [quad(lambda z, f=f, s=s: expit(f + s * z) * norm.pdf(z), -9, 9)[0] for f, s in zip(f, std, strict=True)]
    np.testing.assert_allclose(est.predict_proba(X_NEW)[:, 1], averaged, rtol=1e-6)


def test_laplace_softmax_equals_closed_form_posterior():
    est = LaplaceClassifier(AutogradClassifier(**NETWORK), prior_precision=0.5).fit(X, LABELS)
    theta = flat(est.estimator_.params_)
    q = softmax(forward(theta, X, 3), axis=1)
    J = jacobian(theta, X, 3)
    C = np.einsum("nk,kl->nkl", q, np.eye(3)) - q[:, :, None] * q[:, None, :]
    precision = np.einsum("nkp,nkl,nlq->pq", J, C, J) + 0.5 * np.eye(len(theta))
    np.testing.assert_allclose(est.covariance_, np.linalg.inv(precision), rtol=1e-6, atol=1e-9)


def test_least_squares_has_the_classical_covariance():
    ols = sm.OLS(Y, sm.add_constant(X)).fit()
    est = LaplaceRegressor(noise="dof").fit(X, Y)
    order = [2, 0, 1]  # statsmodels puts the constant first
    np.testing.assert_allclose(est.covariance_[np.ix_(order, order)], ols.cov_params())
    expected = ols.get_prediction(sm.add_constant(X_NEW)).summary_frame()
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="epistemic"), expected["mean_se"])


def test_logistic_regression_has_the_classical_covariance():
    base = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
    est = LaplaceClassifier(base).fit(X, LABELS > 0)
    logit = sm.Logit(LABELS > 0, sm.add_constant(X)).fit(disp=0)
    np.testing.assert_allclose(est.covariance_[np.ix_([2, 0, 1], [2, 0, 1])], logit.cov_params(), rtol=1e-5)


def test_weights_are_frequencies():
    weight = RNG.integers(0, 4, N)
    network = AutogradRegressor(**NETWORK)
    weighted = LaplaceRegressor(network).fit(X, Y, sample_weight=weight)
    repeated = LaplaceRegressor(network).fit(X.repeat(weight, axis=0), Y.repeat(weight))
    np.testing.assert_allclose(weighted.predict_interval(X_NEW), repeated.predict_interval(X_NEW), rtol=1e-5)


# ---------------------------------------------------------------------- curvatures
@pytest.mark.parametrize(
    "curvature", ["hessian", "ggn", "fisher", "kfac", "low_rank", "diag", "last_layer", "matrix_free"]
)
def test_every_curvature_gives_a_posterior(curvature):
    for est, y in (
        (LaplaceRegressor(AutogradRegressor(**NETWORK), curvature=curvature, prior_precision=2.0), Y),
        (LaplaceClassifier(AutogradClassifier(**NETWORK), curvature=curvature, prior_precision=2.0), LABELS),
    ):
        assert (np.diag(est.fit(X, y).covariance_) > 0).all()
        assert np.diag(est.covariance_).max() < 0.5 * (2 if curvature == "matrix_free" else 1 + 1e-9)  # the prior's


def test_laplace_structured_curvatures_are_exact_for_small_models():
    line = AutogradRegressor(mlp(()), l2=0.1, polish=True)
    exact, kfac, low_rank = (
        LaplaceRegressor(line, curvature=curvature).fit(X, Y).covariance_
        for curvature in (GaussNewton(), "kfac", LowRank(rank=3))
    )
    np.testing.assert_allclose(kfac, exact, rtol=1e-8)
    np.testing.assert_allclose(low_rank, exact, rtol=1e-6, atol=1e-12)


def test_laplace_diagonal_and_last_layer_equal_closed_form():
    diag = LaplaceRegressor(AutogradRegressor(**NETWORK), curvature="diag", prior_precision=2.0, noise=0.05).fit(X, Y)
    theta = flat(diag.estimator_.params_)
    J = jacobian(theta, X, 1)[:, 0]
    np.testing.assert_allclose(diag.covariance_, np.diag(1 / ((J**2).sum(axis=0) / 0.05 + 2.0)), rtol=1e-8)
    last = diag.set_params(curvature="last_layer").fit(X, Y)
    (W1, b1), _ = last.estimator_.params_
    Phi = np.column_stack([np.tanh(X @ W1 + b1), np.ones(N)])
    np.testing.assert_allclose(last.covariance_, np.linalg.inv(Phi.T @ Phi / 0.05 + 2.0 * np.eye(4)), rtol=1e-8)


# ---------------------------------------------------------------------- the prior by validation
class Counting(LinearRegression):
    """Counts its fits."""

    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        Counting.n_fits += 1
        return super().fit(X, y, sample_weight)


def test_validation_chooses_the_best_held_out_score_with_two_fits():
    Counting.n_fits = 0
    wide = RNG.normal(size=(60, 40))
    y = wide[:, 0] + RNG.normal(size=60)
    est = LaplaceRegressor(Counting(), prior_precision="validation", noise=1.0, random_state=0).fit(wide, y)
    assert Counting.n_fits == 2
    scores = est.prior_scores_
    assert est.prior_precision_ == max(scores, key=scores.get)
    assert len(set(scores.values())) == len(scores) == 25
    fixed = LaplaceRegressor(prior_precision=est.prior_precision_, noise=1.0).fit(wide, y)
    np.testing.assert_allclose(est.covariance_, fixed.covariance_)


@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three classes", "two"])
def test_validation_of_a_classifier(labels):
    est = LaplaceClassifier(prior_precision="validation", random_state=0).fit(X, labels)
    assert est.prior_precision_ == max(est.prior_scores_, key=est.prior_scores_.get)
    assert all(score < 0 for score in est.prior_scores_.values())
