"""Newton steps with reweighted curvatures, against refits at the same weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.utils import check_random_state
from trained import trained

import skribbon._estimators.settings
from skribbon import RibbonClassifier, RibbonRegressor
from skribbon._core.ribbon import ReweightedCurvature, dirichlet_weights, group_gammas, newton_shifts
from skribbon._core.training import corrected_scores
from skribbon._estimators.base_model import MAX_SEED
from skribbon.exceptions import NewtonStepWarning
from skribbon.models import polish

rng = np.random.default_rng(0)
N, B = 40, 12
X = rng.normal(size=(N, 3))
Y = X @ [1.0, -0.5, 0.2] + (0.3 + 0.5 * np.abs(X[:, 0])) * rng.normal(size=N)
WEIGHT = rng.integers(0, 4, N).astype(float)
GROUPS = rng.integers(0, 12, N)
SEED = int(check_random_state(3).randint(MAX_SEED))


def newton(Ribbon, base, **settings):
    return Ribbon(base, predictive="newton", correction="HC0", n_draws=B, random_state=3, **settings)


def drawn_weights(alpha, weight, groups=None):
    """Dirichlet weights of a single block, whose columns add up to the number of observations."""
    if groups is None:
        gamma = np.random.default_rng([SEED, 0]).standard_gamma((alpha * weight)[:, None], size=(len(weight), B))
        return gamma * weight.sum() / gamma.sum(axis=0)
    _, first = np.unique(groups, return_index=True)
    codes = np.searchsorted(groups[np.sort(first)], groups, sorter=np.argsort(groups[np.sort(first)]))
    codes = np.argsort(groups[np.sort(first)])[codes]
    gamma = group_gammas(alpha, B, SEED, np.arange(codes.max() + 1))
    return weight[:, None] * (gamma * len(gamma) / gamma.sum(axis=0))[codes]


# ---------------------------------------------------------------------- least squares and ridge: the refit itself
@pytest.mark.parametrize("alpha", [0.3, 1.0])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alone", "weighted"])
@pytest.mark.parametrize("base", [LinearRegression(), Ridge(alpha=5.0)], ids=["ols", "ridge"])
def test_draws_are_refits_of_least_squares(base, weight, alpha):
    ribbon = newton(RibbonRegressor, base, alpha=alpha).fit(X, Y, sample_weight=weight)
    weights = drawn_weights(alpha, np.ones(N) if weight is None else weight)
    refits = np.array([base.fit(X, Y, sample_weight=w).predict(X) for w in weights.T]).T
    drawn = ribbon.predict_distribution(X, "confidence").latent.draws[:, 0]
    assert_allclose(drawn, refits, atol=1e-8)
    assert_allclose(ribbon.predict_std(X, kind="epistemic"), refits.std(axis=1), atol=1e-8)


def test_groups_and_sparse_rows():
    base = Ridge(alpha=2.0)
    ribbon = newton(RibbonRegressor, base).fit(X, Y, groups=GROUPS)
    weights = drawn_weights(1.0, np.ones(N), GROUPS)
    for shift, w in zip(ribbon.ribbon_.shifts.T, weights.T, strict=True):
        assert_allclose(ribbon.model_.theta[:3] + shift[:3], base.fit(X, Y, sample_weight=w).coef_, atol=1e-8)
    thin = newton(RibbonRegressor, Ridge(solver="sparse_cg", tol=1e-12)).fit(sparse.csr_matrix(X), Y)
    assert_allclose(thin.ribbon_.shifts, newton(RibbonRegressor, Ridge()).fit(X, Y).ribbon_.shifts, atol=1e-8)


def test_collinear_columns_are_held_as_they_are():
    Z = np.column_stack([X, X[:, 0] + X[:, 1]])
    full, thin = (newton(RibbonRegressor, LinearRegression()).fit(A, Y) for A in (Z, X))
    draws = [ribbon.predict_distribution(A, "confidence").latent.draws for ribbon, A in ((full, Z), (thin, X))]
    assert_allclose(*draws, atol=1e-8)


# ---------------------------------------------------------------------- elsewhere
def median_errors(n, seeds, alpha=1.0, n_refits=10):
    """Median distances of the linear and of the Newton step from the refits of a logistic regression."""
    errors = []
    for seed in seeds:
        rows = np.random.default_rng([seed, n])
        Z = rows.normal(size=(n, 2))
        y = (Z @ [1.0, -0.5] + 0.3 + rows.logistic(size=n) > 0).astype(int)
        ribbon = RibbonClassifier(LogisticRegression(C=1e3, solver="newton-cholesky", tol=1e-12), alpha=alpha)
        report = ribbon.fit(Z, y).check_linearization(Z, y, n_refits=n_refits, random_state=seed)
        exact = report.refitted_shifts
        errors.append([np.linalg.norm(a - exact, axis=0) for a in (report.shifts, report.newton_shifts)])
    return np.median(np.concatenate(errors, axis=1), axis=1)


def test_errors_of_a_logistic_regression_fall_by_orders_of_the_spread_of_the_weights():
    """The spread is 1/sqrt(n alpha): one table at several alphas; tests/slow has several n."""
    alphas = np.array([1.0, 4.0, 16.0])
    errors = np.array([median_errors(200, [0], alpha, n_refits=40) for alpha in alphas])
    linear, second = np.polyfit(np.log(alphas), np.log(errors), 1)[0]
    assert -1.2 < linear < -0.8
    assert -1.7 < second < -1.3


@pytest.mark.parametrize("name", ["logistic", "classes", "poisson"])
def test_steps_are_closer_to_refits_than_linear_ones(name):
    y = {"logistic": Y > 0, "classes": np.digitize(Y, [-0.5, 0.5]), "poisson": np.round(np.exp(Y / 2))}[name]
    base = PoissonRegressor(alpha=0.1) if name == "poisson" else LogisticRegression(C=1.0)
    ribbon = (RibbonRegressor if name == "poisson" else RibbonClassifier)(base).fit(X, y)
    table = ribbon.check_linearization(X, y, n_refits=20, random_state=0).to_frame().median()
    assert table["newton_prediction_error"] < 0.4 * table["prediction_error"]
    assert table["newton_parameter_error"] < 0.4 * table["parameter_error"]


def test_a_network_is_evaluated_at_its_draws():
    x = np.linspace(-2, 2, 80)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=80)
    network = MLPRegressor(
        hidden_layer_sizes=(3,), activation="tanh", solver="lbfgs", alpha=0.5, max_iter=5000, random_state=0
    )
    frozen = FrozenEstimator(polish(network.fit(x, y), x, y))
    ribbon = newton(RibbonRegressor, frozen, curvature="hessian", alpha=30.0).fit(x, y)
    model, shifts = ribbon.model_, ribbon.ribbon_.shifts
    drawn = ribbon.predict_distribution(x, "confidence").latent.draws[:, 0]
    assert_allclose(drawn[:, 4], model.raw(x, model.theta + shifts[:, 4])[:, 0], atol=1e-12)
    table = ribbon.check_linearization(x, y, n_refits=10, random_state=0).to_frame().median()
    assert table["newton_prediction_error"] < 0.6 * table["prediction_error"]


def test_newton_steps_are_bounded_without_curvature():
    """Ten rows of two classes that hardly overlap, with weights near zero for some rows."""
    x = np.array([-2.0, -1.8, -1.5, -1.0, 0.4, -0.4, 1.0, 1.5, 1.8, 2.0])[:, None]
    y = np.repeat([0, 1], 5)
    base = LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-10)
    with pytest.warns(NewtonStepWarning, match="of 12 draws"):
        ribbon = newton(RibbonClassifier, base, alpha=0.05).fit(x, y)
    shifts = ribbon.ribbon_.shifts
    assert np.isfinite(shifts).all()
    linear = RibbonClassifier(
        base, predictive="pushforward", correction="HC0", n_draws=B, random_state=3, alpha=0.05
    ).fit(x, y)
    assert np.linalg.norm(shifts) < 1.5 * 20 * np.linalg.norm(linear.ribbon_.shifts)
    interval = ribbon.predict_proba_interval(x)
    assert (interval[..., 0] <= interval[..., 1]).all()


def test_reweighted_curvature_has_a_lower_bound():
    M = np.linalg.cholesky(np.linalg.inv(np.diag([4.0, 1.0])))
    H_w = np.array([np.diag([4.0, 1e-12]), np.diag([4.0, 0.5]), np.diag([4.0, -0.3])])
    curvature = ReweightedCurvature.from_draws(M, H_w, 0.05)
    assert curvature.is_flat.tolist() == [True, False, True]
    assert_allclose(curvature.shifts(np.ones((2, 3))), [[-0.25] * 3, [-20.0, -2.0, -20.0]], rtol=1e-12)
    far = curvature.second_order(np.ones((2, 3)), 100 * np.ones((2, 3)))  # at most half as much again
    assert_allclose(far, 1.5 * curvature.shifts(np.ones((2, 3))), rtol=1e-12)


# ---------------------------------------------------------------------- what is refused
@pytest.mark.parametrize("curvature", ["fisher", "diag", "low_rank", "matrix_free"])
def test_curvatures_that_weights_do_not_change_are_refused(curvature):
    with pytest.raises(ValueError, match="predictive='newton' needs a curvature that depends on the weights"):
        newton(RibbonRegressor, Ridge(), curvature=curvature).fit(X, Y)
    report = RibbonRegressor(Ridge(), curvature=curvature).fit(X, Y).check_linearization(X, Y, n_refits=1)
    assert report.newton_shifts is None
    assert not report.to_frame().columns.str.startswith("newton").any()


def test_too_many_draws_of_too_many_parameters_are_refused(monkeypatch):
    monkeypatch.setattr(skribbon._estimators.settings, "machine_bytes", lambda: 8 * 4 * B * 16 * 2 - 1)
    with pytest.raises(MemoryError, match="fewer n_draws"):
        newton(RibbonRegressor, Ridge()).fit(X, Y)
    monkeypatch.setattr(skribbon._estimators.settings, "machine_bytes", lambda: 8 * 4 * B * 16 * 2)
    newton(RibbonRegressor, Ridge()).fit(X, Y)


def test_newton_correction_halves_the_error():
    """Newton steps against refits at the same weights, converged to machine precision."""
    rng = np.random.default_rng(0)
    n = 150
    design = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    y = rng.poisson(np.exp(design @ [0.5, -0.4, 0.3])).astype(float)
    base = PoissonRegressor(alpha=0.0, tol=1e-12, max_iter=1000)
    ribbon = RibbonRegressor(base, correction="HC0", predictive="newton", n_draws=40, random_state=0)
    _, training = trained(ribbon, design[:, :2], y, None, None)
    gradient, _ = corrected_scores(training)
    weights = training.rows.map(lambda block: dirichlet_weights(1.0, 40, 3, block)[0])[:, :-1]
    Z, theta = training.rows.model.rows(training.rows.X), training.rows.model.theta
    both, errors = newton_shifts(training, gradient, 1.0, 40, 3), []
    for w, shift in zip(weights.T, both.T, strict=True):
        refit = theta.copy()
        for _ in range(50):
            mu = np.exp(Z @ refit)
            refit = refit - np.linalg.solve((Z * (w * mu)[:, None]).T @ Z, Z.T @ (w * (mu - y)))
        mu = np.exp(Z @ theta)
        first = -np.linalg.solve((Z * (w * mu)[:, None]).T @ Z, Z.T @ (w * (mu - y)))
        errors.append([np.linalg.norm(refit - theta - step) for step in (first, shift)])
    first, second = np.median(errors, axis=0)
    assert second < first / 2
