"""Averages for the population that rows were sampled from."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.baselines import LaplaceRegressor
from skribbon.inspection import comparisons, partial_dependence, predictions, slopes

N = 300
rng = np.random.default_rng(2)
GROUP = np.arange(N) // 4
OTHER = rng.permutation(N) // 10
X = pd.DataFrame({"x": rng.normal(size=N) + rng.normal(size=75)[GROUP], "t": rng.integers(0, 2, N).astype(float)})
ETA = 0.3 * X["x"] + X["t"] * (0.4 + X["x"])
Y = (ETA + rng.normal(size=N) + rng.normal(size=75)[GROUP]).to_numpy()
THREE = np.digitize(Y, [-0.5, 1.0])


def products(model):
    return make_pipeline(PolynomialFeatures(2, interaction_only=True, include_bias=False), model)


def effect(model, table):
    """Change of each row's prediction as t goes from 0 to 1."""
    return model.predict(table.assign(t=1.0)) - model.predict(table.assign(t=0.0))


def design(table):
    return np.column_stack([table["x"], table["t"], table["x"] * table["t"], np.ones(len(table))])


def bootstrap(weights, penalty):
    """Standard deviation of the average effect, with ridge refitted and averaged at each column of weights (n, B)."""
    Z, change = design(X), design(X.assign(t=1.0)) - design(X.assign(t=0.0))
    ridge, found = np.diag([penalty] * 3 + [0.0]), []
    for w in weights.T:
        theta = np.linalg.solve(Z.T @ (w[:, None] * Z) + ridge, Z.T @ (w * Y))
        found.append(np.average(change @ theta, weights=w))
    return np.std(found)


def se(table):
    return table["std_error"].to_numpy()


# ---------------------------------------------------------------------- oracles
@pytest.mark.parametrize("penalty", [0.0, 20.0])
def test_standard_error_is_that_of_the_bayesian_bootstrap_of_the_average(penalty):
    """2,000 exact refits at Dirichlet weights, which weigh the average as well; their own error is 1.6%."""
    ribbon = RibbonRegressor(products(Ridge(penalty)), correction="HC0", alpha=4.0).fit(X, Y)
    weights = np.random.default_rng(0).dirichlet(np.full(N, 4.0), size=2000).T * N
    expected, fixed = bootstrap(weights, penalty), se(comparisons(ribbon, X, "t"))[0]
    assert se(comparisons(ribbon, X, "t", population=True, y=Y))[0] == pytest.approx(expected, rel=0.05)
    assert fixed < 0.9 * expected


def test_groups_share_their_weights_in_fit_and_average():
    ribbon = RibbonRegressor(products(Ridge(20.0)), correction="HC0", alpha=4.0).fit(X, Y, groups=GROUP)
    weights = (np.random.default_rng(0).dirichlet(np.full(75, 4.0), size=2000).T * 75)[GROUP]
    found = se(comparisons(ribbon, X, "t", population=True, y=Y, groups=GROUP))[0]
    assert found == pytest.approx(bootstrap(weights, 20.0), rel=0.06)


def test_crossed_groups_add_the_parts_of_all_cells():
    """Dense formula: the covariance of product weights between all rows, applied to psi."""
    penalty, factors, m = 20.0, (GROUP, OTHER), len(X)
    ribbon = RibbonRegressor(products(Ridge(penalty)), correction="HC0", noise="dof").fit(X, Y, groups=factors)
    Z, change = design(X), design(X.assign(t=1.0)) - design(X.assign(t=0.0))
    H = (Z.T @ Z + np.diag([penalty] * 3 + [0.0])) / m
    theta = np.linalg.solve(m * H, Z.T @ Y)
    own, scores = change @ theta - np.mean(change @ theta), (Z @ theta - Y)[:, None] * Z
    fit = -scores @ np.linalg.solve(H, change.mean(axis=0))
    products_of_pairs, parts = np.ones((m, m)), []
    for code in factors:
        G, indicator = code.max() + 1, np.eye(code.max() + 1)[code]
        one_way = indicator @ (G / (G + 1) * (np.eye(G) - 1 / G)) @ indicator.T
        products_of_pairs = products_of_pairs * (1 + one_way)
        parts.append((one_way, G))
    cells = len(np.unique(GROUP * 30 + OTHER))
    parts.append((products_of_pairs - 1 - parts[0][0] - parts[1][0], None))
    expected, share = 0.0, np.full(m, 1 / m)
    for K, G in parts:
        code = {75: GROUP, 30: OTHER, None: np.unique(GROUP * 30 + OTHER, return_inverse=True)[1]}[G]
        effective = 1 / np.sum(np.bincount(code, weights=share) ** 2)
        expected += effective / (effective - 1) * own @ K @ own + fit @ K @ fit
        expected += 2 * np.sqrt(effective / (effective - 1)) * own @ K @ fit
    assert cells > 75
    table = comparisons(ribbon, X, "t", population=True, y=Y, groups=factors)
    assert se(table)[0] == pytest.approx(np.sqrt(expected) / m, rel=1e-6)


def test_mean_of_predictions_is_the_sample_mean_of_y_for_least_squares():
    """The average prediction of a linear model with an intercept is the mean of y: its standard error is known."""
    ribbon = RibbonRegressor(LinearRegression(), correction="HC0", noise="dof").fit(X, Y)
    table = predictions(ribbon, X, population=True, y=Y)
    assert table["estimate"][0] == pytest.approx(Y.mean())
    assert se(table)[0] == pytest.approx(Y.std(ddof=1) / np.sqrt(N + 1), rel=0.004)  # Dirichlet weights have N + 1
    grouped = RibbonRegressor(LinearRegression(), correction="HC0", noise="dof").fit(X, Y, groups=GROUP)
    found = se(predictions(grouped, X, population=True, y=Y, groups=GROUP))[0]
    clustered = sm.OLS(Y, np.ones(N)).fit(cov_type="cluster", cov_kwds={"groups": GROUP})
    assert found == pytest.approx(clustered.bse[0] * np.sqrt(75 / 76), rel=0.01)


def test_another_sample_adds_its_own_variance():
    ribbon = RibbonRegressor(products(LinearRegression()), noise="dof").fit(X, Y)
    new = pd.DataFrame({"x": rng.normal(size=80), "t": rng.integers(0, 2, 80).astype(float)})
    fixed, sampled = comparisons(ribbon, new, "t"), comparisons(ribbon, new, "t", population=True)
    own = effect(ribbon, new).var(ddof=1) / 81
    assert se(sampled)[0] ** 2 == pytest.approx(se(fixed)[0] ** 2 + own)
    df = fixed["df"][0]
    welch = se(sampled)[0] ** 4 / (se(fixed)[0] ** 4 / df + own**2 / 79)
    assert sampled["df"][0] == pytest.approx(welch)
    assert (sampled["estimate"] == fixed["estimate"]).all()


# ---------------------------------------------------------------------- all kinds of rows
def test_frequencies_are_copies():
    m, y, base = rng.integers(0, 4, N), Y, products(LinearRegression())
    copies = X.loc[X.index.repeat(m)].reset_index(drop=True)
    weighted = RibbonRegressor(base, noise="dof").fit(X, y, sample_weight=m)
    repeated = RibbonRegressor(base, noise="dof").fit(copies, np.repeat(y, m))
    for by in (None, "t"):
        one = comparisons(weighted, X, "x", by=by, population=True, y=y, sample_weight=m)
        other = comparisons(repeated, copies, "x", by=by, population=True, y=np.repeat(y, m))
        np.testing.assert_allclose(one["std_error"], other["std_error"], rtol=1e-8)
        np.testing.assert_allclose(one["df"], other["df"], rtol=1e-6)


def test_importance_weights_count_rows_once():
    w = rng.uniform(0.5, 2.0, N)
    ribbon = RibbonRegressor(LinearRegression(), correction="HC0", noise="dof", weight_type="importance")
    ribbon.fit(X, Y, sample_weight=w)
    table = predictions(ribbon, X, population=True, y=Y, sample_weight=w)
    mean = np.average(Y, weights=w)
    assert table["estimate"][0] == pytest.approx(mean)
    linearized = np.sqrt(np.sum((w / w.sum() * (Y - mean)) ** 2))  # of a weighted mean
    assert se(table)[0] == pytest.approx(linearized, rel=0.01)
    doubled = predictions(ribbon, X, population=True, y=Y, sample_weight=w, weights=np.full(N, 2.0))
    assert se(doubled)[0] == pytest.approx(se(table)[0])


def test_subgroups_use_their_own_rows():
    ribbon = RibbonRegressor(products(LinearRegression()), noise="dof").fit(X, Y)
    by = predictions(ribbon, X, by="t", population=True)
    own = [effect_.var(ddof=1) / len(effect_) for effect_ in (ribbon.predict(X[X["t"] == v]) for v in (0.0, 1.0))]
    fixed = predictions(ribbon, X, by="t")
    np.testing.assert_allclose(by["std_error"] ** 2, fixed["std_error"] ** 2 + own, rtol=0.01)
    lone = np.where(np.arange(N) == 0, "one", "many")
    table = predictions(ribbon, X, by=lone, population=True).set_index("term")
    assert table.loc["one", "std_error"] == np.inf and table.loc["one", "conf_low"] == -np.inf
    assert np.isfinite(table.loc["many"]).all()


def test_several_classes_sparse_rows_and_every_function():
    ribbon = RibbonClassifier(LogisticRegression()).fit(X.to_numpy(), THREE)
    dense = predictions(ribbon, X.to_numpy(), population=True, y=THREE)
    assert dense["class"].tolist() == [0, 1, 2]
    at_rows = RibbonClassifier(LogisticRegression()).fit(sparse.csr_matrix(X.to_numpy()), THREE)
    thin = predictions(at_rows, sparse.csr_matrix(X.to_numpy()), population=True, y=THREE)
    np.testing.assert_allclose(thin["std_error"], dense["std_error"], rtol=1e-3)
    frequency = pd.get_dummies(THREE).to_numpy(dtype=float)
    np.testing.assert_allclose(dense["std_error"], frequency.std(axis=0) / np.sqrt(N), rtol=0.02)  # mean of y, again
    linear = RibbonRegressor(products(LinearRegression()), noise="dof").fit(X, Y)
    for table in (
        slopes(linear, X, "x", population=True, y=Y),
        partial_dependence(linear, X, "x", grid_resolution=3, population=True, y=Y),
    ):
        assert np.isfinite(table["std_error"]).all()
    wider = se(slopes(linear, X, "x", by="t", population=True)) / se(slopes(linear, X, "x", by="t"))
    np.testing.assert_allclose(wider, 1.0, atol=1e-4)  # within a value of t, all slopes are equal
    assert se(slopes(linear, X, "x", population=True))[0] > 1.001 * se(slopes(linear, X, "x"))[0]


def test_draws_tuned_alpha_transforms_and_other_estimators():
    base, options = products(LinearRegression()), {"population": True, "y": Y}
    closed = RibbonRegressor(base, noise="dof").fit(X, Y)
    drawn = RibbonRegressor(base, noise="dof", predictive="pushforward", n_draws=4000, random_state=0).fit(X, Y)
    expected = se(comparisons(closed, X, "t", **options))
    np.testing.assert_allclose(se(comparisons(drawn, X, "t", **options)), expected, rtol=0.05)
    tuned = RibbonCV(RibbonRegressor(base, noise="dof")).fit(X, Y)
    np.testing.assert_allclose(se(comparisons(tuned, X, "t", **options)), expected, rtol=1e-8)
    halved = se(comparisons(closed.with_alpha(4.0), X, "t", **options))
    np.testing.assert_allclose(halved, expected * np.sqrt((N + 1) / (4 * N + 1)))
    log = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    positive = np.exp(0.3 * Y)
    skewed = RibbonRegressor(make_pipeline(StandardScaler(), log)).fit(X, positive)
    table = predictions(skewed, X, population=True, y=positive)
    assert se(table)[0] == pytest.approx(positive.std() / np.sqrt(N), rel=0.25)
    laplace = LaplaceRegressor(LinearRegression()).fit(X, Y)
    assert se(predictions(laplace, X, population=True))[0] > se(predictions(laplace, X))[0]
    with pytest.raises(TypeError, match="needs a RibbonRegressor"):
        predictions(laplace, X, population=True, y=Y)


def test_degrees_of_freedom_are_at_most_those_of_the_units():
    grouped = RibbonRegressor(products(LinearRegression()), noise="dof").fit(X, Y, groups=(GROUP, OTHER))
    table = comparisons(grouped, X, "t", population=True, y=Y, groups=(GROUP, OTHER))
    assert 1 <= table["df"][0] <= 29  # 30 groups in the smaller grouping
    rows = RibbonRegressor(products(LinearRegression()), noise="dof").fit(X, Y)
    assert comparisons(rows, X, "t", population=True, y=Y)["df"][0] <= N - 1


# ---------------------------------------------------------------------- bad input
def test_what_has_no_population_is_refused():
    ribbon = RibbonRegressor(LinearRegression()).fit(X, Y)
    for name in ("y", "sample_weight", "groups"):
        with pytest.raises(ValueError, match=f"{name} describes a sample from a population"):
            predictions(ribbon, X, **{name: np.abs(Y)})
    for aggregate in ("sum", None):
        with pytest.raises(ValueError, match="use aggregate='mean'"):
            predictions(ribbon, X, aggregate=aggregate, population=True)
    with pytest.raises(ValueError, match="use kind='confidence'"):
        predictions(ribbon, X, kind="prediction", population=True)
    with pytest.raises(ValueError, match="must be those that the estimator was fitted on"):
        predictions(ribbon, X[1:], population=True, y=Y[1:])
    with pytest.raises(ValueError, match="must be those that the estimator was fitted on"):
        predictions(ribbon, X, population=True, y=Y[::-1])
    with pytest.raises(ValueError, match="groups is missing, but the Ribbon was fitted with it"):
        predictions(RibbonRegressor(LinearRegression()).fit(X, Y, groups=GROUP), X, population=True)
    with pytest.raises(ValueError, match="weights must be 300 finite numbers"):
        predictions(ribbon, X, population=True, weights=[1.0])


@pytest.mark.parametrize("population", ["yes", 1, None, [True]])
def test_population_must_be_true_or_false(population):
    ribbon = RibbonRegressor(LinearRegression()).fit(X, Y)
    calls = [
        lambda: predictions(ribbon, X, population=population),
        lambda: comparisons(ribbon, X, "t", population=population),
        lambda: slopes(ribbon, X, "t", population=population),
        lambda: partial_dependence(ribbon, X, "t", population=population),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="population must be True or False, got "):
            call()
    assert predictions(ribbon, X, population=np.True_).equals(predictions(ribbon, X, population=True))
