"""What single rows do to predictions, against refits without them and against statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

import skribbon._core.rows
import skribbon.inspection._influence
from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.baselines import LaplaceRegressor
from skribbon.exceptions import LeverageWarning
from skribbon.inspection import influence, influence_measures, leave_out, predictions, variance_contributions
from skribbon.models import polish

rng = np.random.default_rng(0)
N = 60
X = rng.normal(size=(N, 3))
X[0] *= 5
Y = X @ [1.0, -0.5, 0.2] + (0.3 + 0.5 * np.abs(X[:, 0])) * rng.standard_t(4, size=N)
NEW = rng.normal(size=(5, 3))
WEIGHT = rng.integers(0, 4, N).astype(float)
GROUPS = rng.choice(list("abcdefghijkl"), N)
LABELS = rng.integers(0, 3, N)

LEAST_SQUARES = {
    "ols": LinearRegression(),
    "ridge": Ridge(alpha=5.0),
    "pipeline": make_pipeline(PolynomialFeatures(2), Ridge(alpha=2.0)),
    "log target": TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
}


def weighted_fit(base, X, y, weight):
    base = clone(base)
    if weight is None:
        return base.fit(X, y)
    prefix = "ridge__" if hasattr(base, "steps") else ""
    return base.fit(X, y, **{f"{prefix}sample_weight": weight})


def without(base, X, y, kept, weight=None):
    return weighted_fit(base, X[kept], y[kept], None if weight is None else weight[kept])


# ---------------------------------------------------------------------- least squares: exact
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alone", "weighted"])
@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_influence_equals_refits(name, weight):
    base, y = LEAST_SQUARES[name], np.exp(Y / 4)
    ribbon = RibbonRegressor(base).fit(X, y, sample_weight=weight)
    refits = [without(base, X, y, np.arange(N) != i, weight).predict(NEW) for i in range(N)]
    found = influence(ribbon, X, y, NEW, sample_weight=weight)
    assert found.shape == (N, 5)
    assert_allclose(found, ribbon.predict(NEW) - refits, atol=1e-8)


@pytest.mark.parametrize("base", [LinearRegression(), Ridge(alpha=5.0)], ids=["ols", "ridge"])
def test_influence_of_groups_and_sets_equals_refits(base):
    ribbon = RibbonRegressor(base).fit(X, Y, groups=GROUPS)
    found = influence(ribbon, X, Y, NEW, groups=GROUPS)
    for label in found.index:
        refit = without(base, X, Y, label != GROUPS)
        assert_allclose(found.loc[label], ribbon.predict(NEW) - refit.predict(NEW), atol=1e-8)
        table = leave_out(ribbon, X, Y, label == GROUPS, NEW, groups=GROUPS)
        assert_allclose(table["left_out"], refit.predict(NEW), atol=1e-8)
        assert_allclose(table["change"], table["left_out"] - table["prediction"], atol=1e-12)


def test_influence_of_nested_groupings_is_that_of_the_coarsest():
    nested = np.column_stack([GROUPS, [f"{group} {k % 2}" for k, group in enumerate(GROUPS)]])
    ribbon = RibbonRegressor().fit(X, Y, groups=nested)
    found = influence(ribbon, X, Y, NEW, groups=nested)
    assert_allclose(np.sort(found, axis=0), np.sort(influence(ribbon, X, Y, NEW, groups=GROUPS), axis=0), rtol=1e-12)
    assert len(influence_measures(ribbon, X, Y, groups=nested)) == ribbon.n_groups_


def test_influence_of_sparse_rows_and_their_labels():
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"row {i}" for i in range(N)])
    new = pd.DataFrame(NEW, columns=list("abc"), index=list("vwxyz"))
    ribbon = RibbonRegressor(Ridge()).fit(frame, Y)
    table = influence(ribbon, frame, Y, new)
    assert_array_equal(table.index, frame.index)
    assert_array_equal(table.columns, new.index)
    thin = sparse.csr_matrix(X)
    from_sparse = RibbonRegressor(Ridge(solver="sparse_cg", tol=1e-12)).fit(thin, Y)
    assert_allclose(influence(from_sparse, thin, Y, sparse.csr_matrix(NEW)), table, atol=1e-8)
    top = influence(ribbon, frame, Y, new, top=2)
    assert list(top.columns) == ["prediction", "row", "influence"]
    assert top["prediction"].tolist() == [name for name in "vwxyz" for _ in range(2)]
    assert top["row"][0] == table["v"].abs().idxmax()
    left = leave_out(ribbon, frame, Y, ["row 3", "row 7"], new)
    kept = ~np.isin(np.arange(N), [3, 7])
    assert_allclose(left["left_out"], Ridge().fit(X[kept], Y[kept]).predict(NEW), atol=1e-8)
    assert_array_equal(left.index, new.index)
    assert_allclose(leave_out(ribbon, frame, Y, "row 3", new)["change"], -table.loc["row 3"], atol=1e-10)


def test_influence_warns_if_a_row_determines_a_direction():
    categories = np.array(["a"] * 10 + ["b"] * 10 + ["c"])[:, None]
    y = rng.normal(size=21)
    with pytest.warns(LeverageWarning):
        ribbon = RibbonRegressor(make_pipeline(OneHotEncoder(), LinearRegression(fit_intercept=False))).fit(
            categories, y
        )
    with pytest.warns(LeverageWarning, match="1 training rows alone determine"):
        found = influence(ribbon, categories, y, categories)
    assert np.isfinite(found.to_numpy()).all()
    assert_allclose(found.iloc[20], 0, atol=1e-4)  # held where it is
    with pytest.warns(LeverageWarning, match="determine a direction"):
        leave_out(ribbon, categories, y, 20, categories)
    with pytest.warns(LeverageWarning, match="determine a direction"):
        assert np.isfinite(influence_measures(ribbon, categories, y).to_numpy()).all()


# ---------------------------------------------------------------------- other models: one Newton step
BIG = rng.normal(size=(500, 3))
NEAR = rng.normal(size=(8, 3))
ONE_STEP = {
    "logistic": (
        RibbonClassifier,
        LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-10),
        (BIG @ [1.0, -1, 0.5] + rng.logistic(size=500) > 0).astype(int),
        lambda fit, X: fit.decision_function(X),
    ),
    "poisson": (
        RibbonRegressor,
        PoissonRegressor(alpha=0.01, solver="newton-cholesky", tol=1e-10),
        rng.poisson(np.exp(BIG @ [0.5, -0.3, 0.2])).astype(float),
        lambda fit, X: np.log(fit.predict(X)),
    ),
}


@pytest.mark.parametrize("name", ONE_STEP)
def test_influence_is_close_to_refits_of_logistic_and_poisson_models(name):
    Ribbon, base, y, raw = ONE_STEP[name]
    ribbon = Ribbon(base).fit(BIG, y)
    refits = np.array([raw(clone(base).fit(np.delete(BIG, i, 0), np.delete(y, i)), NEAR) for i in range(500)])
    exact = (raw(clone(base).fit(BIG, y), NEAR) - refits).ravel()
    found = influence(ribbon, BIG, y, NEAR, scale="raw").to_numpy().ravel()
    assert np.corrcoef(found, exact)[0, 1] > 0.99
    assert abs(found @ exact / (exact @ exact) - 1) < 0.05


def test_influence_scale_includes_link_and_softmax():
    base = PoissonRegressor(alpha=0.01, solver="newton-cholesky", tol=1e-10)
    counts = rng.poisson(np.exp(0.3 * X[:, 1])).astype(float)
    ribbon = RibbonRegressor(base).fit(X, counts)
    raw, mean = (influence(ribbon, X, counts, NEW, scale=scale).to_numpy() for scale in ("raw", "prediction"))
    eta = np.log(ribbon.predict(NEW))
    assert_allclose(mean, np.exp(eta) - np.exp(eta - raw), rtol=1e-9, atol=1e-14)
    ribbon = RibbonClassifier(LogisticRegression(), temperature=2.0).fit(X, LABELS)
    logits, chances = (influence(ribbon, X, LABELS, NEW, scale=scale) for scale in ("raw", "prediction"))
    assert logits.shape == chances.shape == (N, 15)
    assert chances.columns.names == ["prediction", "class"]
    assert_allclose(chances.T.groupby("prediction").sum(), 0, atol=1e-12)
    eta = ribbon.estimator_.decision_function(NEW)
    softmax = lambda f: np.exp(f / 2) / np.exp(f / 2).sum(axis=1, keepdims=True)  # noqa: E731
    moved = logits.to_numpy().reshape(N, 5, 3)
    expected = [softmax(eta) - softmax(eta - move) for move in moved]
    assert_allclose(chances, np.reshape(expected, (N, 15)), atol=1e-10)
    left = leave_out(ribbon, X, LABELS, [4], NEW)
    assert_allclose(left["change"], -chances.loc[4], atol=1e-10)
    two = RibbonClassifier(LogisticRegression()).fit(X, LABELS > 0)
    assert influence(two, X, LABELS > 0, NEW, scale="raw").shape == (N, 5)  # a single log odds


def test_influence_of_network_with_exact_curvature():
    x = np.linspace(-2, 2, 60)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=60)
    network = MLPRegressor(
        hidden_layer_sizes=(3,), activation="tanh", solver="lbfgs", alpha=0.5, max_iter=5000, tol=1e-12, random_state=0
    )
    fit = polish(network.fit(x, y), x, y)
    found = {}
    for curvature in ("hessian", "ggn"):
        ribbon = RibbonRegressor(FrozenEstimator(fit), curvature=curvature).fit(x, y)
        found[curvature] = influence(ribbon, x, y, x[::10]).to_numpy()[::6].ravel()
    others = 1.0 - np.eye(60)
    exact = [fit.predict(x[::10]) - polish(fit, x, y, others[i]).predict(x[::10]) for i in range(0, 60, 6)]
    assert np.corrcoef(found["hessian"], np.ravel(exact))[0, 1] > 0.999
    assert np.corrcoef(found["ggn"], np.ravel(exact))[0, 1] > 0.85  # whose curvature of f itself is left out


# ---------------------------------------------------------------------- the largest, without the table
@pytest.mark.parametrize("scale", ["raw", "prediction"])
@pytest.mark.parametrize("function", [influence, variance_contributions])
def test_top_rows_equal_largest_of_full_table(function, scale, monkeypatch):
    monkeypatch.setattr(skribbon._core.rows, "BLOCK_BYTES", 1)  # blocks of 16 rows
    ribbon = RibbonClassifier(LogisticRegression()).fit(X, LABELS)
    table = function(ribbon, X, LABELS, NEW, scale=scale)
    for top in (3, N):
        found = function(ribbon, X, LABELS, NEW, scale=scale, top=top)
        for (prediction, label), some in found.groupby(["prediction", "class"], sort=False):
            column = table[prediction, label]
            order = column.abs().sort_values(ascending=False, kind="stable").index[:top]
            assert_allclose(some.iloc[:, -1], column[order], rtol=1e-8, atol=1e-15)
            assert_allclose(column[some["row"]], column[order], rtol=1e-8, atol=1e-15)


def test_top_groups_equal_largest_of_full_table():
    ribbon = RibbonRegressor(Ridge()).fit(X, Y, groups=GROUPS)
    for function in (influence, variance_contributions):
        table = function(ribbon, X, Y, NEW, groups=GROUPS)
        found = function(ribbon, X, Y, NEW, groups=GROUPS, top=2)
        assert list(found.columns)[1] == "group"
        assert found["group"][0] == table[0].abs().idxmax()
        assert_allclose(found.iloc[0, -1], table.loc[found["group"][0], 0])


# ---------------------------------------------------------------------- variances
@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "groups"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alone", "weighted"])
def test_variance_contributions_sum_to_epistemic_variance(correction, grouped, weight):
    groups = GROUPS if grouped else None
    ribbon = RibbonRegressor(Ridge(alpha=3.0), alpha=0.7, correction=correction)
    ribbon.fit(X, Y, sample_weight=weight, groups=groups)
    parts = variance_contributions(ribbon, X, Y, NEW, weight, groups, share=False)
    assert_allclose(parts.sum(), ribbon.predict_std(NEW, kind="epistemic") ** 2, rtol=1e-9)
    shares = variance_contributions(ribbon, X, Y, NEW, weight, groups)
    assert_allclose(shares.sum(), 1, rtol=1e-12)
    assert_allclose(shares * parts.sum(), parts, rtol=1e-9, atol=1e-15)
    if weight is not None and not grouped:
        assert (parts[weight == 0] == 0).all(axis=None)


def test_variance_contributions_behind_links_use_the_delta_method():
    ribbon = RibbonClassifier(LogisticRegression()).fit(X, LABELS)
    parts = variance_contributions(ribbon, X, LABELS, NEW, share=False)
    assert_allclose(parts.sum(), predictions(ribbon, NEW, aggregate=None)["std_error"] ** 2, rtol=1e-8)
    counts = np.round(np.exp(Y / 3))
    ribbon = RibbonRegressor(PoissonRegressor()).fit(X, counts)
    parts = variance_contributions(ribbon, X, counts, NEW, share=False)
    assert_allclose(parts.sum(), predictions(ribbon, NEW, aggregate=None)["std_error"] ** 2, rtol=1e-8)


def test_variance_contributions_equal_squared_influences():
    """HC0 of least squares: (x' (Z'Z)^-1 z_i r_i)^2, over the sum of them."""
    ribbon = RibbonRegressor(correction="HC0").fit(X, Y)
    Z, z = np.column_stack([X, np.ones(N)]), np.column_stack([NEW, np.ones(5)])
    c = (z @ np.linalg.solve(Z.T @ Z, Z.T * (Y - ribbon.predict(X)))).T ** 2
    assert_allclose(variance_contributions(ribbon, X, Y, NEW), c / c.sum(axis=0), rtol=1e-8)


# ---------------------------------------------------------------------- measures
def test_influence_measures_equal_statsmodels():
    ribbon = RibbonRegressor().fit(X, Y)
    table = influence_measures(ribbon, X, Y, dfbetas=True)
    reference = sm.OLS(Y, np.column_stack([X, np.ones(N)])).fit().get_influence()
    assert_allclose(table["leverage"], reference.hat_matrix_diag, atol=1e-8)
    assert_allclose(table["left_out_residual"], reference.resid_press, atol=1e-8)
    assert_allclose(table["studentised_residual"], reference.resid_studentized_external, atol=1e-8)
    assert_allclose(table["cooks_distance"], reference.cooks_distance[0], atol=1e-8)
    assert_allclose(table["dffits"], reference.dffits[0], atol=1e-8)
    assert_allclose(table.filter(like="dfbetas"), reference.dfbetas, atol=1e-8)
    assert list(table.columns[6:]) == ["dfbetas: x0", "dfbetas: x1", "dfbetas: x2", "dfbetas: intercept"]


@pytest.mark.parametrize("family", [sm.families.Poisson(), sm.families.Binomial()], ids=["poisson", "logistic"])
def test_influence_measures_of_glms_equal_statsmodels(family):
    counts = isinstance(family, sm.families.Poisson)
    y = rng.poisson(np.exp(0.3 * X[:, 1])) if counts else (LABELS > 0).astype(int)
    base = PoissonRegressor(alpha=0, tol=1e-12, solver="newton-cholesky") if counts else LogisticRegression(C=np.inf)
    base = base if counts else base.set_params(solver="newton-cholesky", tol=1e-10)
    ribbon = (RibbonRegressor if counts else RibbonClassifier)(base).fit(X, y)
    table = influence_measures(ribbon, X, y, dfbetas=True)
    fit = sm.GLM(y, np.column_stack([X, np.ones(N)]), family=family).fit(scale="X2" if counts else 1.0, tol=1e-12)
    reference = fit.get_influence()
    assert_allclose(table["leverage"], reference.hat_matrix_diag, atol=1e-7)
    assert_allclose(table["cooks_distance"], reference.cooks_distance[0], atol=1e-7)


def test_influence_measures_of_weighted_rows_and_groups_equal_refits():
    base, z = LinearRegression(), np.column_stack([X, np.ones(N)])
    counted = np.flatnonzero(WEIGHT > 0)
    for groups, weight in ((None, WEIGHT), (GROUPS, None)):
        w = np.ones(N) if weight is None else weight
        ribbon = RibbonRegressor(base).fit(X, Y, sample_weight=weight, groups=groups)
        table = influence_measures(ribbon, X, Y, weight, groups)
        phi = w @ (Y - ribbon.predict(X)) ** 2 / (w.sum() - 4)
        for label in table.index[:12] if groups is not None else counted[:12]:
            kept = groups != label if groups is not None else np.arange(N) != label
            refit = without(base, X, Y, kept, w)
            step = np.append(refit.coef_ - ribbon.estimator_.coef_, refit.intercept_ - ribbon.estimator_.intercept_)
            cook = step @ (z.T * w) @ z @ step / (4 * phi)
            assert_allclose(table.loc[label, "cooks_distance"], cook, rtol=1e-7)
            residual = np.average((Y - refit.predict(X))[~kept], weights=w[~kept])
            assert_allclose(table.loc[label, "left_out_residual"], residual, atol=1e-8)


# ---------------------------------------------------------------------- what is refused, and what is rough
def test_influence_refuses_other_training_rows():
    ribbon = RibbonRegressor(Ridge()).fit(X, Y)
    changed = Y.copy()
    changed[7] += 1
    for X_train, y_train in ((X, changed), (X, Y[::-1]), (X[::-1], Y)):
        with pytest.raises(ValueError, match="must be those that the estimator was fitted on"):
            influence(ribbon, X_train, y_train, NEW)
    with pytest.raises(ValueError, match="60 observations, got 59"):
        influence(ribbon, X[1:], Y[1:], NEW)
    with pytest.raises(ValueError, match="groups must be"):
        influence(ribbon, X, Y, NEW, groups=GROUPS)
    order = rng.permutation(N)
    again = influence(ribbon, X[order], Y[order], NEW)  # the same rows in another order are the same
    assert_allclose(again, influence(ribbon, X, Y, NEW).iloc[order], atol=1e-10)


def test_influence_refuses_bad_arguments(monkeypatch):
    ribbon = RibbonRegressor().fit(X, Y)
    with pytest.raises(ValueError, match="scale must be one of"):
        influence(ribbon, X, Y, NEW, scale="logit")
    with pytest.raises(ValueError, match="top must be an integer >= 1"):
        influence(ribbon, X, Y, NEW, top=0)
    for rows, what in ((60, "is not a row"), ([], "must be a label"), (np.zeros(N, bool), "leaves nothing out")):
        with pytest.raises(ValueError, match=what):
            leave_out(ribbon, X, Y, rows, NEW)
    with pytest.raises(ValueError, match="keep some rows"):
        leave_out(ribbon, X, Y, np.arange(N), NEW)
    with pytest.raises(ValueError, match="a mask must have a value"):
        leave_out(ribbon, X, Y, np.ones(3, bool), NEW)
    with pytest.raises(TypeError, match="needs a RibbonRegressor"):
        influence(LaplaceRegressor(LinearRegression()).fit(X, Y), X, Y, NEW)
    several = np.column_stack([Y, Y**2])
    with pytest.raises(ValueError, match="influence takes one output"):
        influence(RibbonRegressor().fit(X, several), X, several, NEW)
    monkeypatch.setattr(skribbon.inspection._influence, "machine_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="top=20"):
        influence(ribbon, X, Y, NEW)


def test_influence_without_leverages_is_first_order():
    ribbon = RibbonRegressor(curvature="diag", correction="HC0").fit(X, Y)
    found = influence(ribbon, X, Y, NEW)
    Z, z = np.column_stack([X, np.ones(N)]), np.column_stack([NEW, np.ones(5)])
    by_hand = (Z * (Y - ribbon.predict(X))[:, None] / (Z**2).sum(axis=0)) @ z.T
    assert_allclose(found, by_hand, rtol=1e-8)
    groups = influence(RibbonRegressor(curvature="diag").fit(X, Y, groups=GROUPS), X, Y, NEW, groups=GROUPS)
    for label in groups.index:
        assert_allclose(groups.loc[label], by_hand[label == GROUPS].sum(axis=0), rtol=1e-7)
    with pytest.raises(TypeError, match="needs leverages"):
        influence_measures(ribbon, X, Y)


def test_influence_of_ribbon_cv_equals_its_ribbon():
    tuned = RibbonCV(Ridge(), cv=3).fit(X, Y)
    parts = variance_contributions(tuned, X, Y, NEW, share=False)
    assert_allclose(parts.sum(), tuned.estimator_.predict_std(NEW, kind="epistemic") ** 2, rtol=1e-9)


def test_variance_contributions_of_two_classes_add_up_to_both_variances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + rng.logistic(size=60) > 0, "yes", "no")
    ribbon = RibbonClassifier(LogisticRegression(tol=1e-10), correction="HC0").fit(X, y)
    found = variance_contributions(ribbon, X, y, X[:3], share=False)
    rows = predictions(ribbon, X[:3], aggregate=None, class_=["no", "yes"])
    assert list(found.columns.get_level_values("class")) == ["no", "yes"] * 3
    assert_allclose(found.sum(), rows["std_error"] ** 2, rtol=1e-6)
