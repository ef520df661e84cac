"""Ribbon against independent computations: statsmodels, dense formulas and a few exact refits."""

import os
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)

import skribbon
from skribbon._core.linalg import Dense
from skribbon._core.ribbon import influence

# without small-sample corrections, as in the paper
RibbonClassifier = partial(skribbon.RibbonClassifier, correction="HC0")
RibbonRegressor = partial(skribbon.RibbonRegressor, correction="HC0")

sm = pytest.importorskip("statsmodels.api")

RTOL = 1e-8
TIGHT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}


# ---------------------------------------------------------------------- data


def shared_data(*path):
    """A file of the benchmark data, from SKRIBBON_DATA or the folder beside the repository; skips without it."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    file = Path(os.environ.get("SKRIBBON_DATA", beside)).joinpath(*path)
    if not file.exists():
        pytest.skip(f"{'/'.join(path)} not found: set SKRIBBON_DATA to the folder of benchmark data.")
    return file


def standardized(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def diabetes():
    return load_diabetes(return_X_y=True)


def linnerud():
    X, Y = load_linnerud(return_X_y=True)
    return X, Y[:, 0]


def linnerud_counts():
    X, Y = load_linnerud(return_X_y=True)
    return standardized(Y), X[:, 0]  # chin-ups


def uci(name):
    data = np.load(shared_data("uci", f"{name}.npz"))
    return data["X"], data["y"]


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return standardized(X[:, [0, 1, 4, 8, 9]]), y


def iris():
    X, y = load_iris(return_X_y=True)
    return X[50:], y[50:] - 1


def noisy_iris():
    """Setosa against the rest, with every seventh label turned so that no plane separates them."""
    X, y = load_iris(return_X_y=True)
    return X[:, :2], np.where(np.arange(150) % 7 == 0, y > 0, y == 0).astype(int)


def encoded(frame):
    """Numbers standardized, categories as indicators less one."""
    frame = pd.get_dummies(frame, drop_first=True, dtype=float)
    return standardized(frame.to_numpy(dtype=float))


def german_credit():
    frame = pd.read_csv(shared_data("tabular", "german_credit.csv.gz"))
    y = (frame.pop("class") == "bad").to_numpy().astype(int)
    return encoded(frame.iloc[:, :8]), y


def car_claims():
    frame = pd.read_csv(shared_data("counts", "freMTPL2freq_100k.csv.gz"), nrows=5000)
    numbers = frame[["VehPower", "VehAge", "DrivAge", "BonusMalus", "VehGas"]].assign(density=np.log(frame["Density"]))
    return encoded(numbers), frame["ClaimNb"].to_numpy(dtype=float)


SETS = {
    "diabetes": diabetes,
    "linnerud": linnerud,
    "linnerud counts": linnerud_counts,
    "concrete": lambda: uci("concrete"),
    "power": lambda: uci("power"),
    "breast cancer": breast_cancer,
    "iris": iris,
    "noisy iris": noisy_iris,
    "german credit": german_credit,
    "car claims": car_claims,
}
CONTINUOUS = ["diabetes", "linnerud", "concrete", "power"]
BINARY = ["breast cancer", "iris", "noisy iris", "german credit"]
COUNTS = ["diabetes", "linnerud counts", "car claims"]


@cache
def load(name):
    X, y = SETS[name]()
    return X, y, np.column_stack([X, np.ones(len(y))])  # ribbon's parameters have the intercept last


def hc0_alpha(n):
    """1/(n alpha + 1) = 1/n: the concentration at which the closed form is HC0 itself."""
    return (n - 1) / n


def assert_same_covariance(actual, expected, rtol=RTOL):
    errors = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(np.sqrt(np.diag(actual)), errors, rtol=rtol)
    np.testing.assert_allclose(actual / np.outer(errors, errors), expected / np.outer(errors, errors), atol=rtol)


def ols(name, **params):
    X, y, design = load(name)
    ribbon = RibbonRegressor(LinearRegression(), alpha=hc0_alpha(len(y)), **params).fit(X, y)
    return ribbon, sm.OLS(y, design).fit(cov_type="HC0")


def logit(name):
    X, y, design = load(name)
    ribbon = RibbonClassifier(LogisticRegression(C=np.inf, **TIGHT), alpha=hc0_alpha(len(y))).fit(X, y)
    return ribbon, sm.GLM(y, design, family=sm.families.Binomial()).fit(cov_type="HC0", tol=1e-14, maxiter=200)


def glm(name, base, family, **kwargs):
    X, y, design = load(name)
    ribbon = RibbonRegressor(base(alpha=0, **TIGHT), alpha=hc0_alpha(len(y)), **kwargs).fit(X, y)
    return ribbon, sm.GLM(y, design, family=family).fit(cov_type="HC0", tol=1e-14, maxiter=200)


def poisson(name):
    return glm(name, PoissonRegressor, sm.families.Poisson())


def gamma(name, **kwargs):
    return glm(name, GammaRegressor, sm.families.Gamma(sm.families.links.Log()), **kwargs)


# ---------------------------------------------------------------------- statsmodels


@pytest.mark.parametrize("name", CONTINUOUS)
def test_least_squares_equals_hc0(name):
    ribbon, reference = ols(name)
    np.testing.assert_allclose(ribbon.model_.theta, reference.params, rtol=1e-6)
    assert_same_covariance(ribbon.covariance_, reference.cov_params())


@pytest.mark.parametrize("name", BINARY)
def test_logistic_regression_equals_hc0(name):
    ribbon, reference = logit(name)
    np.testing.assert_allclose(ribbon.model_.theta, reference.params, rtol=1e-6)
    assert_same_covariance(ribbon.covariance_, reference.cov_params())


def test_logistic_regression_equals_hc0_of_the_discrete_model():
    _, y, design = load("breast cancer")
    ribbon, _ = logit("breast cancer")
    reference = sm.Logit(y, design).fit(cov_type="HC0", method="newton", tol=1e-10, disp=0)
    assert_same_covariance(ribbon.covariance_, reference.cov_params())


@pytest.mark.parametrize("name", COUNTS)
def test_poisson_regression_equals_hc0(name):
    ribbon, reference = poisson(name)
    assert_same_covariance(ribbon.covariance_, reference.cov_params())


def test_gamma_regression_equals_hc0_with_the_observed_hessian():
    ribbon, reference = gamma("diabetes", curvature="hessian")
    assert_same_covariance(ribbon.covariance_, reference.cov_params())


def test_gamma_regression_with_the_expected_hessian_differs():
    expected, reference = gamma("diabetes", curvature="ggn")
    difference = np.diag(expected.covariance_) / np.diag(reference.cov_params()) - 1
    assert np.abs(difference).max() > 0.01  # so that the comparison above can tell the two apart


def test_non_convex_loss_has_the_expected_hessian_only_if_asked():
    """For an inverse Gaussian with log link, a row has information 1/mu and score (mu - y)/mu^2."""
    X, y = diabetes()
    X = standardized(X)
    model = TweedieRegressor(power=3, link="log", alpha=0, solver="lbfgs", tol=1e-10, max_iter=5000).fit(X, y)
    mu, Z = model.predict(X), np.column_stack([X, np.ones(len(X))])
    G = Z * ((mu - y) / mu**2)[:, None]
    bread = np.linalg.inv(Z.T @ (Z / mu[:, None]))
    expected = bread @ G.T @ G @ bread * len(y) / (len(y) + 1)
    ggn = RibbonRegressor(FrozenEstimator(model), curvature="ggn").fit(X, y).covariance_
    np.testing.assert_allclose(ggn, expected, rtol=1e-4)
    exact = RibbonRegressor(FrozenEstimator(model)).fit(X, y).covariance_
    assert np.abs(np.diag(exact) / np.diag(expected) - 1).max() > 0.1  # which it is not


def test_dispersion_equals_pearson_estimate():
    ribbon, reference = gamma("diabetes")
    assert ribbon.noise_.dispersion_ == pytest.approx(reference.scale, rel=1e-9)
    ribbon, reference = ols("diabetes", noise="dof")
    assert ribbon.noise_.dispersion_ == pytest.approx(reference.mse_resid, rel=1e-9)


def test_leave_one_out_noise_equals_the_press_statistic():
    X, y, design = load("diabetes")
    press = sm.OLS(y, design).fit().get_influence().resid_press
    ribbon = RibbonRegressor(noise="loo").fit(X, y)
    assert ribbon.noise_.dispersion_ == pytest.approx(np.mean(press**2), rel=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_standard_error_of_the_mean_of_least_squares(name):
    ribbon, reference = ols(name)
    X, _, design = load(name)
    expected = reference.get_prediction(design[:50]).se_mean
    np.testing.assert_allclose(ribbon.predict_std(X[:50], kind="epistemic"), expected, rtol=RTOL)


@pytest.mark.parametrize(("fit", "name"), [(poisson, "diabetes"), (poisson, "car claims"), (gamma, "diabetes")])
def test_standard_error_of_the_mean_of_glms(fit, name):
    ribbon, reference = fit(name)
    X, _, design = load(name)
    expected = reference.get_prediction(design[:50]).summary_frame()["mean_se"]
    np.testing.assert_allclose(ribbon.predict_std(X[:50], kind="epistemic"), expected, rtol=RTOL)


@pytest.mark.parametrize(("fit", "name"), [(ols, "diabetes"), (poisson, "diabetes")])
def test_confidence_interval_equals_the_link_scale_interval(fit, name):
    ribbon, reference = fit(name)
    X, _, design = load(name)
    frame = reference.get_prediction(design[:20]).summary_frame(alpha=0.1)
    lower, upper = ribbon.predict_interval(X[:20], confidence_level=0.9, kind="confidence").T
    np.testing.assert_allclose(lower, frame["mean_ci_lower"], rtol=RTOL)
    np.testing.assert_allclose(upper, frame["mean_ci_upper"], rtol=RTOL)


def test_logistic_probability_interval_equals_the_link_scale_interval():
    ribbon, reference = logit("breast cancer")
    X, _, design = load("breast cancer")
    frame = reference.get_prediction(design[:20]).summary_frame(alpha=0.1)
    lower, upper = ribbon.predict_proba_interval(X[:20], confidence_level=0.9)[:, 1].T
    np.testing.assert_allclose(lower, frame["mean_ci_lower"], rtol=1e-6)
    np.testing.assert_allclose(upper, frame["mean_ci_upper"], rtol=1e-6)


def test_multinomial_contrasts_equal_hc0():
    X, y, design = load("diabetes")
    X, design = X[:, [2, 3, 8]], design[:, [2, 3, 8, 10]]
    third = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    ribbon = RibbonClassifier(LogisticRegression(C=np.inf, **TIGHT), alpha=hc0_alpha(len(y))).fit(X, third)
    reference = sm.MNLogit(third, design).fit(cov_type="HC0", method="newton", tol=1e-12, disp=0)
    contrast = np.array([[-1.0, 1, 0], [-1, 0, 1]]) @ ribbon.model_.loss.basis  # logit of class k less that of class 0
    to_contrasts = np.kron(contrast, np.eye(4))
    np.testing.assert_allclose(to_contrasts @ ribbon.model_.theta, reference.params.T.ravel(), rtol=1e-7)
    covariance = to_contrasts @ ribbon.covariance_ @ to_contrasts.T
    assert_same_covariance(covariance, np.asarray(reference.cov_params()))


def test_frequency_weights_equal_statsmodels():
    X, y, design = load("diabetes")
    m = np.random.default_rng(0).integers(1, 4, len(y))
    base = PoissonRegressor(alpha=0, **TIGHT)
    ribbon = RibbonRegressor(base, alpha=hc0_alpha(m.sum())).fit(X, y, sample_weight=m)
    repeated = sm.GLM(np.repeat(y, m), np.repeat(design, m, axis=0), family=sm.families.Poisson())
    assert_same_covariance(ribbon.covariance_, repeated.fit(cov_type="HC0", tol=1e-14).cov_params())


# ---------------------------------------------------------------------- dense formulas


def dense_sandwich(design, y, theta, l2, alpha, weight=None):
    """H_r^-1 H_Fc H_r^-1 / (n alpha + 1) of a penalised least-squares model, line by line."""
    weight = np.ones(len(y)) if weight is None else weight
    n = weight.sum()
    G = (design @ theta - y)[:, None] * design
    H_r = (design * weight[:, None]).T @ design / n + np.diag(l2)
    g_bar = weight @ G / n
    H_Fc = (G * weight[:, None]).T @ G / n - np.outer(g_bar, g_bar)
    inverse = np.linalg.inv(H_r)
    return inverse @ H_Fc @ inverse / (n * alpha + 1)


@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_against_the_dense_formula(penalty, weighted):
    X, y, design = load("diabetes")
    weight = np.random.default_rng(0).uniform(0.2, 3, len(y)) if weighted else None
    ribbon = RibbonRegressor(Ridge(alpha=penalty), alpha=0.7).fit(X, y, sample_weight=weight)
    theta = np.append(ribbon.estimator_.coef_, ribbon.estimator_.intercept_)
    l2 = np.append(np.full(X.shape[1], penalty / (len(y) if weight is None else weight.sum())), 0)
    assert_same_covariance(ribbon.covariance_, dense_sandwich(design, y, theta, l2, 0.7, weight))


def test_elastic_net_against_the_dense_formula_on_its_active_set():
    X, y, design = load("diabetes")
    base = ElasticNet(alpha=0.5, l1_ratio=0.98, tol=1e-10, max_iter=100_000)
    with pytest.warns(UserWarning, match="conditional on that selection"):
        ribbon = RibbonRegressor(base, alpha=2.0).fit(X, y)
    active = np.flatnonzero(ribbon.estimator_.coef_)
    assert 0 < len(active) < X.shape[1]
    theta = np.append(ribbon.estimator_.coef_[active], ribbon.estimator_.intercept_)
    l2 = np.append(np.full(len(active), 0.5 * 0.02), 0)
    expected = dense_sandwich(design[:, [*active, -1]], y, theta, l2, 2.0)
    assert_same_covariance(ribbon.covariance_, expected)


def test_logistic_ridge_against_the_dense_formula():
    X, y, design = load("breast cancer")
    n, C = len(y), 0.05
    ribbon = RibbonClassifier(LogisticRegression(C=C, **TIGHT)).fit(X, y)
    P = 1 / (1 + np.exp(-design @ ribbon.model_.theta))
    G = (P - y)[:, None] * design
    H_r = (design * (P * (1 - P))[:, None]).T @ design / n + np.diag(np.append(np.full(X.shape[1], 1 / (C * n)), 0))
    inverse = np.linalg.inv(H_r)
    assert_same_covariance(ribbon.covariance_, inverse @ np.cov(G.T, ddof=0) @ inverse / (n + 1))


@pytest.mark.parametrize("estimator", [RibbonRegressor(Ridge(5.0)), RibbonClassifier(LogisticRegression(C=0.1))])
@pytest.mark.parametrize(("one", "other"), [(1.0, 0.01), (7.0, 0.5)])
def test_alpha_only_scales_the_covariance(estimator, one, other):
    X, y, _ = load("breast cancer")
    n = len(y)
    first, second = (estimator.set_params(alpha=a).fit(X, y).covariance_ for a in (one, other))
    np.testing.assert_allclose(first / second, (n * other + 1) / (n * one + 1), rtol=1e-12)


# ---------------------------------------------------------------------- exact refits, the quick version


def test_ridge_covariance_against_exact_refits():
    rng = np.random.default_rng(0)
    n, p, penalty, refits = 400, 3, 200.0, 300
    X = rng.normal(size=(n, p))
    y = X @ [2.0, -1.0, 0.5] + rng.normal(size=n) * (0.5 + np.abs(X[:, 0]))
    ribbon = RibbonRegressor(Ridge(alpha=penalty)).fit(X, y)
    design, shift = np.column_stack([X, np.ones(n)]), np.diag([penalty] * p + [0])
    thetas = []
    for w in rng.dirichlet(np.ones(n), size=refits):
        D = design * (n * w)[:, None]
        thetas.append(np.linalg.solve(D.T @ design + shift, D.T @ y))
    ratio = np.var(thetas, axis=0, ddof=1) / np.diag(ribbon.covariance_)
    assert np.all(np.abs(ratio - 1) < 4 * np.sqrt(2 / refits))


def newton(design, y, w, theta):
    """Weighted Poisson regression to machine precision."""
    for _ in range(50):
        mu = np.exp(design @ theta)
        step = np.linalg.solve((design * (w * mu)[:, None]).T @ design, design.T @ (w * (mu - y)))
        theta = theta - step
        if np.abs(step).max() < 1e-13:
            return theta
    raise AssertionError("Newton's method did not converge.")


def median_linearization_error(n, draws, rng):
    """Median distance of the linearized update from the exact Poisson refit at the same weights."""
    design = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    y = rng.poisson(np.exp(design @ [0.4, -0.3, 0.5])).astype(float)
    theta = newton(design, y, np.full(n, 1 / n), np.zeros(3))
    mu = np.exp(design @ theta)
    IF = influence(Dense((design * mu[:, None]).T @ design / n), design.T * (mu - y)).T
    weights = rng.dirichlet(np.ones(n), size=draws)
    exact = np.array([newton(design, y, w, theta) for w in weights])
    return np.median(np.linalg.norm(exact - theta - (weights - 1 / n) @ IF, axis=1))


def test_linearization_error_falls_as_one_over_n():
    rng = np.random.default_rng(1)
    sizes = np.array([100, 400, 1600])
    errors = [median_linearization_error(n, 150, rng) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -1.2 < slope < -0.8
