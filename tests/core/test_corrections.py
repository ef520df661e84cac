"""Small-sample corrections and leave-one-out results, against statsmodels and against refits."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import least_squares
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPRegressor
from trained import trained

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.thresholds import MAX_LEVERAGE
from skribbon._core.units import resolvent
from skribbon.exceptions import ApproximateCurvatureWarning, CurvatureError, LeverageWarning
from skribbon.models import as_parametric

CORRECTIONS = ["HC0", "HC1", "HC2", "HC3"]


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("n", [30, 442])
def test_least_squares_equals_statsmodels(correction, n):
    X, y = (a[:n] for a in load_diabetes(return_X_y=True))
    ribbon = RibbonRegressor(alpha=(n - 1) / n, correction=correction).fit(X, y)
    reference = sm.OLS(y, with_constant(X)).fit(cov_type=correction)
    np.testing.assert_allclose(ribbon.covariance_, reference.cov_params(), rtol=1e-8)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.FamilyWarning")
@pytest.mark.parametrize(
    ("power", "family"),
    [(0, sm.families.Gaussian), (1.5, sm.families.Tweedie), (2, sm.families.Gamma), (3, sm.families.InverseGaussian)],
)
def test_glms_with_a_wrong_mean_have_the_robust_sandwich_of_statsmodels(power, family):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(1000, 1))
    y = (1 + x[:, 0] + 3 * x[:, 0] ** 2) * rng.gamma(4, 0.25, size=1000)
    model = TweedieRegressor(power=power, link="log", alpha=0, tol=1e-9, max_iter=10_000, solver="lbfgs")
    ribbon = RibbonRegressor(model, alpha=999 / 1000, correction="HC0").fit(x, y)
    own = {"var_power": power} if power == 1.5 else {}
    reference = sm.GLM(y, with_constant(x), family=family(sm.families.links.Log(), **own)).fit(
        cov_type="HC0", tol=1e-12
    )
    np.testing.assert_allclose(ribbon.covariance_, reference.cov_params(), rtol=1e-4)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_indefinite_hessian_of_a_glm_is_replaced_with_a_warning():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 1)), rng.exponential(size=100)
    model = TweedieRegressor(power=3, link="log", alpha=0).fit(x, y)
    model.intercept_ += 5.0  # far from the minimum, where the loss is concave
    with pytest.warns(ApproximateCurvatureWarning, match="indefinite"):
        ribbon = RibbonRegressor(FrozenEstimator(model)).fit(x, y)
    assert type(ribbon.curvature_).__name__ == "GaussNewton"
    with pytest.raises(CurvatureError, match="indefinite"):
        RibbonRegressor(FrozenEstimator(model), curvature="hessian").fit(x, y)


@pytest.mark.parametrize("far", [1.0, 8.0])
def test_correction_auto_with_a_row_of_high_leverage(far):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), rng.normal(size=120)
    X[0] *= far
    auto = RibbonRegressor().fit(X, y)
    named = RibbonRegressor(correction=auto.correction_).fit(X, y)
    assert auto.correction_ == "HC2"
    np.testing.assert_allclose(auto.covariance_, named.covariance_, rtol=1e-10)


def test_draws_carry_the_correction():
    X, y = (a[:60] for a in load_diabetes(return_X_y=True))
    closed = RibbonRegressor(correction="HC3").fit(X, y).covariance_
    drawn = RibbonRegressor(correction="HC3", predictive="pushforward", n_draws=20_000, random_state=0).fit(X, y)
    ratio = np.diag(drawn.covariance_) / np.diag(closed)
    assert np.abs(ratio - 1).max() < 4 * np.sqrt(2 / 20_000) * 1.5  # Dirichlet draws have heavier tails than normal


def test_weighted_corrections_equal_repeated_rows():
    X, y = (a[:80] for a in load_diabetes(return_X_y=True))
    w = np.random.default_rng(0).integers(1, 4, size=80)
    for correction in CORRECTIONS:
        weighted = RibbonRegressor(Ridge(0.1), correction=correction).fit(X, y, sample_weight=w)
        repeated = RibbonRegressor(Ridge(0.1), correction=correction).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-8)


def test_corrections_are_ordered_for_every_kind_of_model():
    X, y = load_iris(return_X_y=True)
    y = np.where(np.random.default_rng(0).uniform(size=150) < 0.1, 0, y)
    X2, y2 = load_diabetes(return_X_y=True)
    network = MLPRegressor(
        hidden_layer_sizes=(5,), activation="tanh", solver="lbfgs", alpha=1.0, max_iter=5000, random_state=0
    ).fit(X2 * 20, y2 / 80)
    cases = [
        (RibbonClassifier(LogisticRegression(max_iter=5000, tol=1e-8)), X, y),
        (RibbonRegressor(PoissonRegressor(alpha=1e-3, max_iter=2000)), X2 * 20, np.round(y2 / 30)),
        (RibbonRegressor(FrozenEstimator(network)), X2 * 20, y2 / 80),
    ]
    for ribbon, X, y in cases:
        traces = [np.trace(clone(ribbon).set_params(correction=c).fit(X, y).covariance_) for c in CORRECTIONS]
        assert traces[0] < traces[2] < traces[3]
        assert traces[0] < traces[1]


def test_leverage_warning_for_a_row_that_determines_its_prediction():
    X = np.eye(6, 2)
    X[2:, 1] = 1.0  # the first row is alone in its column
    y = np.arange(6.0)
    with pytest.warns(LeverageWarning, match="1 of 6 rows"):
        ribbon = RibbonRegressor(LinearRegression(fit_intercept=False), correction="HC3").fit(X, y)
    assert np.isfinite(ribbon.covariance_).all()


def test_jackknife_of_ridge_is_the_corrected_scatter():
    """HC3 from refits without each row: n H_r (theta_(i) - theta) is the row's corrected score.

    Scores of a penalised model do not add up to zero; they are measured from their mean, minus the penalty's gradient.
    """
    X, y = (a[:60] for a in load_diabetes(return_X_y=True))
    Z, n, penalty = 20 * X, 60, 30.0  # strong enough for the centre to matter
    model = Ridge(penalty, fit_intercept=False)
    theta = model.fit(Z, y).coef_
    H_r = Z.T @ Z / n + penalty / n * np.eye(10)
    deleted = np.array([clone(model).fit(np.delete(Z, i, 0), np.delete(y, i)).coef_ for i in range(n)])
    corrected = n * (deleted - theta) @ H_r  # (n, p), one row's gradient each
    g_bar = -penalty / n * theta
    centred = corrected - g_bar
    H_inverse = np.linalg.inv(H_r)
    expected = H_inverse @ (centred.T @ centred / n) @ H_inverse / (n + 1)
    ribbon = RibbonRegressor(model, correction="HC3").fit(Z, y)
    np.testing.assert_allclose(ribbon.covariance_, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())
    uncentred = H_inverse @ (corrected.T @ corrected / n) @ H_inverse / (n + 1)
    assert np.abs(uncentred / expected - 1).max() > 0.01  # the test distinguishes centred from uncentred scores


@pytest.mark.parametrize(("correction", "power"), [("HC2", -0.5), ("HC3", -1.0)])
def test_corrections_of_several_classes_are_matrices(correction, power):
    """(I - C_i A_i)^power u_i, written densely in the coordinates of the logits, no longer than a gradient can be."""
    X, y = load_iris(return_X_y=True)
    y = np.where(np.random.default_rng(0).uniform(size=150) < 0.2, (y + 1) % 3, y)
    X, y = X[::3], y[::3]
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000)
    ribbon = RibbonClassifier(model, correction=correction).fit(X, y)
    P, (n, _), B = ribbon.estimator_.predict_proba(X), X.shape, ribbon.model_.loss.basis
    Z = np.column_stack([X, np.ones(n)])
    J = np.einsum("kl,nd->nkld", np.eye(2), Z).reshape(n, 2, -1)
    u = (P - np.eye(3)[y]) @ B
    C = np.einsum("ck,nc,cl->nkl", B, P, B) - np.einsum("nk,nl->nkl", P @ B, P @ B)
    H_r = np.einsum("nkp,nkl,nlq->pq", J, C, J) / n + np.diag(ribbon.model_.l2)
    A = J @ np.linalg.inv(H_r) @ J.transpose(0, 2, 1) / n
    corrected = []
    for i in range(n):
        values, vectors = np.linalg.eig(np.eye(2) - C[i] @ A[i])
        assert values.min() > 0.01  # no leverage is capped
        v = vectors @ np.diag(values**power) @ np.linalg.inv(vectors) @ u[i]
        corrected.append(J[i].T @ v * min(1.0, np.sqrt(2) / np.linalg.norm(v)))  # P - e_y is never longer
    centred = np.array(corrected) - np.einsum("nkp,nk->p", J, u) / n
    H_inverse = np.linalg.inv(H_r)
    expected = H_inverse @ (centred.T @ centred / n) @ H_inverse / (n + 1)
    np.testing.assert_allclose(ribbon.covariance_, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_leverages_add_up_to_the_effective_parameters():
    X, y = load_diabetes(return_X_y=True)
    weight = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    iris, labels = load_iris(return_X_y=True)
    cases = [
        (RibbonRegressor(GammaRegressor(alpha=0.01)), 20 * X, y, weight),
        (RibbonRegressor(PoissonRegressor(alpha=0.01)), 20 * X, np.round(y / 30), weight),
        (RibbonClassifier(LogisticRegression(max_iter=5000)), iris, labels, np.ones(150)),
    ]
    for ribbon, X, y, weight in cases:
        _, training = trained(ribbon, X, y, weight, None)
        total = weight @ training.record.leverage[:, 0] * training.rows.model.loss.curvature_rank
        assert total == pytest.approx(training.effective_parameters, rel=1e-8)


def test_leverages_are_capped():
    """A row of leverage 0.9975, capped at 0.99: its score is taken 100 times, not 400."""
    x = np.r_[np.ones(20), 80.0]
    y = np.random.default_rng(0).normal(size=21) + 0.5 * x
    H = x @ x / 21
    theta = x @ y / (x @ x)
    h = x**2 / (x @ x)
    assert 0.99 < h[-1] < 0.999
    for correction, power in (("HC2", 1), ("HC3", 2)):
        with pytest.warns(LeverageWarning, match="1 of 21 rows"):
            ribbon = RibbonRegressor(LinearRegression(fit_intercept=False), correction=correction).fit(x[:, None], y)
        scores = x * (x * theta - y)
        expected = (scores**2 / (1 - np.minimum(h, 0.99)) ** power).mean() / H**2 / 22
        assert ribbon.covariance_[0, 0] == pytest.approx(expected, rel=1e-8)
    with pytest.warns(LeverageWarning, match="1 of 21 rows"):
        ribbon = RibbonRegressor(LinearRegression(fit_intercept=False), noise="loo").fit(x[:, None], y)
    left_out = (y - x * theta) / (1 - np.minimum(h, 0.99))
    assert ribbon.noise_.dispersion_ == pytest.approx((left_out**2).mean(), rel=1e-8)


@pytest.mark.parametrize("power", [-0.5, -1.0])
def test_leverages_of_several_outputs_are_capped_direction_by_direction(power):
    pulls, rng = np.array([0.9995, 0.3, 0.0]), np.random.default_rng(0)
    Q, u = np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.normal(size=3)
    A, C = (Q * pulls) @ Q.T, np.eye(3)
    expected = (Q * (1 - np.minimum(pulls, 0.99)) ** power) @ Q.T @ u
    np.testing.assert_allclose(resolvent(C[None], A[None], u[None], power)[0], expected, rtol=1e-9)


# ---------------------------------------------------------------------- leave-one-out
def test_leave_one_out_of_a_gamma_model_uses_the_curvature_that_was_factored():
    """One exact Newton step; with the expected curvature of the row that is left out the error is three times that."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.exp(X @ [0.5, -0.3, 0.2]) * rng.gamma(2.0, 0.5, 60)
    model = GammaRegressor(alpha=0, solver="newton-cholesky", tol=1e-10)
    ribbon = RibbonRegressor(model, store_loo=True).fit(X, y)
    exact = np.log(exact_leave_one_out(model, X, y, "predict"))
    ours, plain = ribbon.loo_distribution_.latent.f[:, 0], np.log(ribbon.predict(X))
    error = np.sqrt(np.mean((ours - exact) ** 2))
    assert error < 0.25 * np.sqrt(np.mean((plain - exact) ** 2))
    expected = RibbonRegressor(model, store_loo=True, curvature="ggn").fit(X, y).loo_distribution_.latent.f[:, 0]
    assert error < 0.6 * np.sqrt(np.mean((expected - exact) ** 2))


def exact_leave_one_out(estimator, X, y, method):
    out = []
    for i in range(len(y)):
        keep = np.arange(len(y)) != i
        out.append(getattr(clone(estimator).fit(X[keep], y[keep]), method)(X[i : i + 1])[0])
    return np.array(out)


def test_leave_one_out_of_least_squares_is_exact():
    X, y = load_diabetes(return_X_y=True)
    ribbon = RibbonRegressor(store_loo=True).fit(X, y)
    press = sm.OLS(y, with_constant(X)).fit().get_influence().resid_press
    np.testing.assert_allclose(ribbon.loo_residuals_, press, rtol=1e-8)


def test_leave_one_out_of_ridge_is_that_of_refits():
    X, y = (a[:100] for a in load_diabetes(return_X_y=True))
    # leaving a row out also moves Ridge's penalty per row, and the centring: an effect of order 1/n^2
    exact = y - exact_leave_one_out(Ridge(0.05), X, y, "predict")
    ours = RibbonRegressor(Ridge(0.05), store_loo=True).fit(X, y).loo_residuals_
    assert np.abs(ours - exact).max() < 0.02 * np.abs(exact - (y - Ridge(0.05).fit(X, y).predict(X))).max()


@pytest.mark.parametrize("classes", [2, 3])
def test_leave_one_out_log_score_of_logistic_regression(classes):
    X, y = load_iris(return_X_y=True)
    y = np.where(np.random.default_rng(0).uniform(size=150) < 0.15, (y + 1) % 3, y)
    X, y = (X, y) if classes == 3 else (X[y < 2], y[y < 2])
    model = LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-8)
    proba = exact_leave_one_out(model, X, y, "predict_proba")
    exact = np.log(proba[np.arange(len(y)), y])
    plugin = np.log(model.fit(X, y).predict_proba(X)[np.arange(len(y)), y])
    known = {"alpha": 1e9, "temperature": 1.0, "store_loo": True}  # the plug-in: no epistemic part
    ours = RibbonClassifier(model, **known).fit(X, y).loo_score_
    assert abs(ours - exact.mean()) < 0.15 * abs(exact.mean() - plugin.mean())


def polished(model, x, y, alpha, start):
    """theta at the minimum of half the sum of squares plus alpha/2 |W|^2: scikit-learn's lbfgs stops before it."""
    penalised = model.l2 > 0

    def residuals(theta):
        return np.concatenate([model.raw(x, theta)[:, 0] - y, np.sqrt(alpha) * theta[penalised]])

    def derivatives(theta):
        return np.concatenate([replace(model, theta=theta).jacobian(x)[:, 0], np.sqrt(alpha) * selected])

    selected = np.eye(len(start))[penalised]
    return least_squares(residuals, start, derivatives, xtol=1e-14, ftol=1e-14, gtol=1e-14).x


def test_leave_one_out_of_a_network_is_near_that_of_refits():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(60)
    alpha = 0.3
    network = MLPRegressor(
        hidden_layer_sizes=(5,), activation="tanh", solver="lbfgs", alpha=alpha, max_iter=20_000, random_state=0
    ).fit(x, y)
    model = as_parametric(network, y, np.ones(60))
    theta = polished(model, x, y, alpha, model.theta)
    weights, biases = model.unpack(theta)
    network.coefs_, network.intercepts_ = weights, biases
    ours = RibbonRegressor(FrozenEstimator(network), store_loo=True).fit(x, y).loo_residuals_
    exact = np.empty(60)
    for i in range(60):
        keep = np.arange(60) != i
        exact[i] = y[i] - model.raw(x[i : i + 1], polished(model, x[keep], y[keep], alpha, theta))[0, 0]
    fitted = y - network.predict(x)
    # one Gauss-Newton step covers only part of the way, 0.61 here
    assert np.linalg.norm(ours - exact) < 0.5 * np.linalg.norm(fitted - exact)
    assert np.mean(ours**2) == pytest.approx(np.mean(exact**2), rel=0.1)


def test_alpha_by_leave_one_out_agrees_with_many_folds():
    X, y = (a[:200] for a in load_diabetes(return_X_y=True))
    alphas = np.logspace(-2, 2, 9)
    ribbon = RibbonRegressor(noise="dof")
    loo = RibbonCV(ribbon, alphas=alphas, scoring="nll", cv="loo").fit(X, y)
    folds = RibbonCV(ribbon, alphas=alphas, scoring="nll", cv=len(y)).fit(X, y)
    # without refits the noise and the covariance are those of all rows, which moves the score by order 1/n
    np.testing.assert_allclose(loo.cv_results_["mean_test_nll"], folds.cv_results_["mean_test_nll"], rtol=1 / len(y))
    by_hand = RibbonRegressor(alpha=loo.alpha_, noise="dof").fit(X, y)
    np.testing.assert_allclose(loo.predict_interval(X), by_hand.predict_interval(X), rtol=1e-12)


def test_weight_decay_by_leave_one_out_agrees_with_refits():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(np.random.default_rng(0).uniform(size=len(y)) < 0.1, 1 - y, y)
    grid = [1e-3, 1e-2, 1e-1, 1.0, 10.0]
    ours, exact = [], []
    for C in grid:
        model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-6)
        ours.append(RibbonClassifier(model, alpha=1e9, store_loo=True).fit(X, y).loo_score_)
        exact.append(cross_val_score(model, X, y, scoring="neg_log_loss", cv=20).mean())
    assert np.argmax(ours) == np.argmax(exact)


def test_scorers_are_refused_with_leave_one_out():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="cv='loo'"):
        RibbonCV(cv="loo", scoring=lambda e, X, y: 0.0).fit(X, y)


def test_leave_one_out_of_a_frozen_model_needs_no_refit():
    X, y = load_diabetes(return_X_y=True)
    frozen = RibbonCV(RibbonRegressor(FrozenEstimator(Ridge(0.1).fit(X, y))), cv="loo").fit(X, y)
    assert frozen.alpha_ == RibbonCV(Ridge(0.1), cv="loo").fit(X, y).alpha_
    with pytest.raises(ValueError, match="noise='loo'"):
        RibbonCV(RibbonRegressor(noise="cv"), cv="loo").fit(X, y)


@pytest.mark.parametrize("correction", ["HC1", "HC2", "HC3", "auto"])
@pytest.mark.parametrize("n", [60, 3000])
def test_leverage_warning_for_a_category_of_one_row(correction, n):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.arange(n) == 7, rng.normal(size=n)]).astype(float)
    y = X.sum(axis=1) + rng.normal(size=n)
    with pytest.warns(LeverageWarning, match=f"1 of {n} rows determine"):
        ribbon = RibbonRegressor(correction=correction, noise="dof").fit(X, y)
    assert ribbon.ribbon_.single.shape == (3, 1)


def test_leverage_warning_for_a_row_of_a_network():
    rng = np.random.default_rng(2)
    n = 400
    X = np.column_stack([3.0 * (np.arange(n) == 7), rng.normal(size=n)])
    y = np.tanh(X[:, 1]) + X[:, 0] + 0.3 * rng.normal(size=n)
    mlp = MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", solver="lbfgs", alpha=1e-7, random_state=0)
    mlp.set_params(max_iter=5000, max_fun=50_000, tol=1e-9)
    ribbon = RibbonRegressor(mlp, correction="HC3", noise="dof", damping=0.0)
    with pytest.warns(LeverageWarning, match="rows determine their own fitted value"):
        ribbon.fit(X, y)
    with pytest.warns(LeverageWarning):
        _, training = trained(ribbon, X, y, None, None)
    h = training.record.leverage[:, 0]  # capped
    assert h[7] == MAX_LEVERAGE
    assert ribbon.ribbon_.single.shape[1] == training.units.n_single == (h == MAX_LEVERAGE).sum()
