"""Groupings that cross: products of Dirichlet weights."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, cross_val_interval
from skribbon.inspection import coefficients, influence, summary

N, GA, GB, GC = 240, 9, 12, 5
rng = np.random.default_rng(4)
A, B, C = (rng.permutation(np.arange(N) % G) for G in (GA, GB, GC))
X = np.column_stack([rng.normal(size=GA)[A], rng.normal(size=GB)[B], rng.normal(size=N)])
Y = X.sum(axis=1) + rng.normal(size=GA)[A] + rng.normal(size=GB)[B] + rng.normal(size=N)
COUNTS = rng.poisson(np.exp(0.3 * X[:, 2] + 0.3 * rng.normal(size=GA)[A]))
CLASSES = np.digitize(Y, [-1.0, 1.0])


def dense_covariance(scores, H, factors, n=N):
    """H^-1 G' K G H^-1 / n^2, with the covariance K (n, n) of products of Dirichlet weights, times G_f each."""
    products = np.ones((len(scores), len(scores)))
    for code in factors:
        G, indicator = code.max() + 1, np.eye(code.max() + 1)[code]
        cov = G / (G + 1) * (np.eye(G) - 1 / G)
        products = products * (1 + indicator @ cov @ indicator.T)  # E of a product of independent factors
    return np.linalg.solve(H, np.linalg.solve(H, scores.T @ (products - 1) @ scores / n**2).T)


def ridge_parts(ribbon, penalty, weight=1.0):
    Z = np.column_stack([X, np.ones(N)])
    residual = Y - Z @ np.append(ribbon.coef_, ribbon.intercept_)
    n = np.sum(weight * np.ones(N))
    H = Z.T @ (weight * Z.T).T / n + np.diag([penalty / n] * 3 + [0.0])
    return (weight * -residual)[:, None] * Z, H, n


@pytest.mark.parametrize("factors", [(A, B), (B, A), (A, B, C)])
def test_covariance_is_that_of_product_weights(factors):
    ribbon = RibbonRegressor(Ridge(5.0), correction="HC0").fit(X, Y, groups=factors)
    scores, H, _ = ridge_parts(ribbon, 5.0)
    np.testing.assert_allclose(ribbon.covariance_, dense_covariance(scores, H, factors), rtol=1e-8)
    assert ribbon.n_groups_ == tuple(sorted(int(code.max()) + 1 for code in factors))
    halved = ribbon.with_alpha(2.0).covariance_
    np.testing.assert_allclose(
        halved, ribbon.covariance_ * (min(ribbon.n_groups_) + 1) / (2 * min(ribbon.n_groups_) + 1)
    )


def test_frequencies_count_within_cells():
    weight = rng.integers(0, 3, N).astype(float)
    ribbon = RibbonRegressor(Ridge(5.0), correction="HC0").fit(X, Y, sample_weight=weight, groups=(A, B))
    scores, H, n = ridge_parts(ribbon, 5.0, weight)
    np.testing.assert_allclose(ribbon.covariance_, dense_covariance(scores, H, (A, B), n), rtol=1e-8)


def test_glm_and_sparse_rows():
    model = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000)
    ribbon = RibbonRegressor(model, correction="HC0").fit(X, COUNTS, groups=(A, B))
    Z, mu = np.column_stack([X, np.ones(N)]), ribbon.predict(X)
    H = Z.T @ (mu[:, None] * Z) / N + np.diag([0.1] * 3 + [0.0])
    np.testing.assert_allclose(ribbon.covariance_, dense_covariance((mu - COUNTS)[:, None] * Z, H, (A, B)), rtol=1e-6)
    other = RibbonRegressor(model, correction="HC0").fit(sparse.csr_matrix(X), COUNTS, groups=(A, B))
    np.testing.assert_allclose(other.covariance_, ribbon.covariance_, rtol=1e-5)


def test_each_grouping_contributes_its_own_cluster_robust_covariance():
    """V_a + V_b of statsmodels, with its small-sample factors, and V_ab, centred by hand."""
    ribbon = RibbonRegressor(LinearRegression(), correction="HC1").fit(X, Y, groups=(A, B))
    ols, total = sm.OLS(Y, np.column_stack([X, np.ones(N)])).fit(), np.zeros((4, 4))
    for code in (A, B):
        G = code.max() + 1
        total += G / (G + 1) * ols.get_robustcov_results("cluster", groups=code).cov_params()
    Z, cells = ols.model.exog, np.zeros((GA, GB, 4))
    np.add.at(cells, (A, B), -ols.resid[:, None] * Z)
    cells = cells - cells.mean(axis=0) - cells.mean(axis=1, keepdims=True) + cells.mean(axis=(0, 1))
    n_cells = len(np.unique(A * GB + B))
    factor = GA / (GA + 1) * GB / (GB + 1) * n_cells / (n_cells - 1) * (N - 1) / (N - 4)
    H = Z.T @ Z
    total += factor * np.linalg.solve(H, np.linalg.solve(H, np.einsum("abp,abq->pq", cells, cells)).T)
    np.testing.assert_allclose(ribbon.covariance_, total, rtol=1e-8)


@pytest.mark.parametrize("correction", ["HC0", "HC2"])
def test_draws_have_the_covariance_of_the_closed_form(correction):
    options = {"correction": correction, "random_state": 0, "n_draws": 20_000}
    closed = RibbonRegressor(Ridge(5.0), **options).fit(X, Y, groups=(A, B))
    drawn = RibbonRegressor(Ridge(5.0), predictive="pushforward", **options).fit(X, Y, groups=(A, B))
    ratio = np.sqrt(np.diag(drawn.covariance_) / np.diag(closed.covariance_))
    np.testing.assert_allclose(ratio, 1.0, atol=0.03)
    at_four = RibbonRegressor(Ridge(5.0), predictive="pushforward", alpha=4.0, **options).fit(X, Y, groups=(A, B))
    np.testing.assert_allclose(at_four.ribbon_.shifts, drawn.with_alpha(4.0).ribbon_.shifts)


def test_refits_at_product_weights_spread_as_the_covariance_says():
    ribbon = RibbonRegressor(Ridge(5.0), correction="HC0").fit(X, Y, groups=(A, B))
    report = ribbon.check_linearization(X, Y, groups=(A, B), n_refits=2, random_state=0)
    levels, log_weight = np.hstack([np.eye(GA)[A], np.eye(GB)[B]]), np.log(report.weights[:, 0])
    additive = levels @ np.linalg.lstsq(levels, log_weight, rcond=None)[0]
    np.testing.assert_allclose(additive, log_weight, atol=1e-9)  # a product of a weight for each group
    assert np.std(log_weight) > 0.5
    draws, Z, strong = np.random.default_rng(0), np.column_stack([X, np.ones(N)]), np.diag([5.0] * 3 + [0.0])
    refits = []
    for _ in range(2000):
        u, v = (draws.dirichlet(np.full(G, 30.0)) * G for G in (GA, GB))  # near one, so that a refit is a linear step
        w = u[A] * v[B]
        refits.append(np.linalg.solve(Z.T @ (w[:, None] * Z) + strong, Z.T @ (w * Y)))
    scores, H, _ = ridge_parts(ribbon, 5.0)
    products = np.ones((N, N))
    for code, G in ((A, GA), (B, GB)):
        indicator = np.eye(G)[code]
        products = products * (1 + indicator @ (G / (30 * G + 1) * (np.eye(G) - 1 / G)) @ indicator.T)
    expected = np.linalg.solve(H, np.linalg.solve(H, scores.T @ (products - 1) @ scores / N**2).T)
    np.testing.assert_allclose(np.std(refits, axis=0), np.sqrt(np.diag(expected)), rtol=0.06)


def test_nested_groupings_add_nothing():
    one = RibbonRegressor(Ridge()).fit(X, Y, groups=A)
    for nested in ((A,), (A, A), (A, np.arange(N)), (A, A * GB + B), pd.DataFrame({"a": A, "b": A}), A[:, None]):
        two = RibbonRegressor(Ridge()).fit(X, Y, groups=nested)
        np.testing.assert_allclose(two.covariance_, one.covariance_, rtol=1e-10)
        assert two.n_groups_ == GA


def test_degrees_of_freedom_come_from_the_smaller_grouping():
    table = coefficients(RibbonRegressor(Ridge()).fit(X, Y, groups=(A, B))).set_index("term")
    parts = [coefficients(RibbonRegressor(Ridge()).fit(X, Y, groups=code)).set_index("term") for code in (A, B)]
    np.testing.assert_allclose(table["df"], np.minimum(parts[0]["df"], parts[1]["df"]), rtol=1e-8)
    assert (table["std_error"] > parts[0]["std_error"]).all()
    assert (table["std_error"] > parts[1]["std_error"]).all()
    uniform = coefficients(RibbonRegressor(Ridge(), correction="HC1").fit(X, Y, groups=(B, A)))
    np.testing.assert_allclose(uniform["df"], GA - 1)


@pytest.mark.parametrize("groups", [(A, B), np.column_stack([A, B]), pd.DataFrame({"a": A.astype(str), "b": B})])
def test_containers_give_one_result(groups):
    expected = RibbonRegressor(Ridge()).fit(X, Y, groups=(A, B))
    np.testing.assert_allclose(RibbonRegressor(Ridge()).fit(X, Y, groups=groups).covariance_, expected.covariance_)


def test_all_estimators_take_crossed_groups():
    tuned = RibbonCV(Ridge()).fit(X, Y, groups=(A, B))
    assert tuned.estimator_.n_groups_ == (GA, GB)
    assert cross_val_interval(RibbonRegressor(Ridge()), X, Y, groups=(A, B)).shape == (N, 2)
    classifier = RibbonClassifier(LogisticRegression()).fit(X, CLASSES, groups=(A, B))
    assert np.isfinite(classifier.predict_proba_interval(X)).all()
    outputs = RibbonRegressor(Ridge()).fit(X, np.column_stack([Y, -Y]), groups=(A, B))
    single = RibbonRegressor(Ridge()).fit(X, Y, groups=(A, B))
    np.testing.assert_allclose(
        outputs.predict_interval(X[:3], kind="confidence")[:, 0], single.predict_interval(X[:3], kind="confidence")
    )
    piped = RibbonRegressor(make_pipeline(StandardScaler(), LinearRegression())).fit(X, Y, groups=(A, B))
    plain = RibbonRegressor(LinearRegression()).fit(X, Y, groups=(A, B))
    np.testing.assert_allclose(piped.predict_interval(X[:5]), plain.predict_interval(X[:5]), rtol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = RibbonRegressor(MLPRegressor(hidden_layer_sizes=(20,), max_iter=200, random_state=0)).fit(
            X, Y, groups=(A, B)
        )
    assert network.held_out_.origin == "folds" and np.isfinite(network.predict_interval(X)).all()
    assert "9 x 12" in repr(summary(plain)) and "9 x 12" in plain._repr_html_()


def test_what_needs_one_grouping_is_refused():
    ribbon = RibbonRegressor(Ridge()).fit(X, Y, groups=(A, B))
    with pytest.raises(ValueError, match="fit with one grouping"):
        influence(ribbon, X, Y, X[:1], groups=(A, B))
    with pytest.raises(ValueError, match="predictive='newton' takes one grouping"):
        RibbonRegressor(Ridge(), predictive="newton").fit(X, Y, groups=(A, B))
    with pytest.raises(ValueError, match="or a tuple of groupings"):
        RibbonRegressor(Ridge()).fit(X, Y, groups=("firm", "year"))
    with pytest.raises(ValueError, match="lengths differ"):
        RibbonRegressor(Ridge()).fit(X, Y, groups=(A, B[:-1]))
    with pytest.raises(ValueError, match="groups must have 240 labels, one per row"):
        RibbonRegressor(Ridge()).fit(X, Y, groups=(A[:-1], B[:-1]))
    with pytest.raises(ValueError, match="single label"):
        RibbonRegressor(Ridge()).fit(X, Y, groups=(A, np.zeros(N)))
    with pytest.raises(ValueError, match="groups is missing for 1 of 240 rows"):
        RibbonRegressor(Ridge()).fit(X, Y, groups=(A, np.append(B[:-1].astype(float), np.nan)))
    with pytest.raises(ValueError, match="groups must be those that the estimator was fitted with"):
        ribbon.check_linearization(X, Y, groups=A)
