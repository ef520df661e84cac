"""Groups of dependent rows, which share one Dirichlet weight."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn
import statsmodels.api as sm
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from spelling import logistic
from trained import trained

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.rows import Groups
from skribbon._core.units import GroupSums, group_steps
from skribbon._estimators.folds import split_positions
from skribbon.exceptions import FewGroupsWarning, LeverageWarning
from skribbon.inspection import coefficients
from skribbon.noise.scale import standard_error

N, G = 240, 20
rng = np.random.default_rng(0)
GROUP = rng.integers(0, G, N)
X = rng.normal(size=(N, 3)) + rng.normal(size=(G, 3))[GROUP]
CODES = pd.factorize(GROUP)[0]
EFFECT = rng.normal(size=G)[GROUP]
Y = X @ [1.0, 2.0, 0.0] + EFFECT + rng.normal(size=N)
BINARY = (Y > 0).astype(int)
CLASSES = np.digitize(Y, [-1.5, 1.5])
COUNTS = rng.poisson(np.exp(0.3 * X[:, 0] + 0.3 * EFFECT)).astype(float)
POSITIVE = np.exp(0.3 * X[:, 0] + 0.3 * EFFECT) * rng.gamma(3.0, size=N)
DESIGN = np.column_stack([X, np.ones(N)])
CR = (G - 1) / G  # alpha for which the covariance is the sandwich alone

newton = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 10_000}
exact_poisson, exact_gamma = (cls(alpha=0, **newton) for cls in (PoissonRegressor, GammaRegressor))
small_network = MLPRegressor(hidden_layer_sizes=(2,), alpha=0.0, max_iter=20, random_state=0)
exact_logistic = logistic(C=1e14, **newton)


def clustered(model, corrected):
    """statsmodels' covariance of parameters, clusters taken into account."""
    return model.fit(
        cov_type="cluster", cov_kwds={"groups": GROUP, "use_correction": corrected}, **FIT.get(type(model), {})
    ).cov_params()


FIT = {sm.Logit: {"disp": 0, "tol": 1e-14, "method": "newton"}, sm.GLM: {"tol": 1e-14, "maxiter": 500}}

MODELS = {
    "least squares": (RibbonRegressor, LinearRegression(), Y, sm.OLS(Y, DESIGN)),
    "logit": (RibbonClassifier, exact_logistic, BINARY, sm.Logit(BINARY, DESIGN)),
    "poisson": (RibbonRegressor, exact_poisson, COUNTS, sm.GLM(COUNTS, DESIGN, sm.families.Poisson())),
    "gamma": (
        RibbonRegressor,
        exact_gamma,
        POSITIVE,
        sm.GLM(POSITIVE, DESIGN, sm.families.Gamma(sm.families.links.Log())),
    ),
}


# ---------------------------------------------------------------------- statsmodels, and formulas written densely
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("correction", "corrected"), [("HC0", False), ("HC1", True)])
def test_cluster_covariance_is_that_of_statsmodels(name, correction, corrected):
    estimator, base, y, model = MODELS[name]
    curvature = "hessian" if name == "gamma" else "auto"  # statsmodels' is the observed one
    ribbon = estimator(base, alpha=CR, correction=correction, curvature=curvature).fit(X, y, groups=GROUP)
    expected = clustered(model, corrected)
    np.testing.assert_allclose(ribbon.covariance_, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())
    assert ribbon.n_groups_ == G


def dense_cr(power, group=GROUP, weight=None, penalty=0.0):
    """CR2 and CR3 of ridge regression from every group's own block of the hat matrix, with no shortcut."""
    weight = np.ones(N) if weight is None else weight
    B = np.linalg.inv(DESIGN.T @ (weight[:, None] * DESIGN) + penalty * np.diag([1.0, 1, 1, 0]))
    residuals = Y - DESIGN @ (B @ DESIGN.T @ (weight * Y))
    scores = []
    for g in np.unique(group):
        i = np.repeat(np.flatnonzero(group == g), weight[group == g].astype(int))
        values, vectors = np.linalg.eigh(np.eye(len(i)) - DESIGN[i] @ B @ DESIGN[i].T)
        scores.append(DESIGN[i].T @ (vectors * values**power) @ vectors.T @ residuals[i])
    scores = np.array(scores)
    own = DESIGN.T @ (weight * residuals) / len(scores)  # of a penalised fit, not zero
    centred = scores - own
    return B @ centred.T @ centred @ B


@pytest.mark.parametrize(("correction", "power"), [("HC2", -0.5), ("HC3", -1.0)])
@pytest.mark.parametrize("penalty", [0.0, 30.0])
def test_corrections_are_those_of_a_groups_own_hat_block(correction, power, penalty):
    base = LinearRegression() if penalty == 0 else Ridge(alpha=penalty)
    ribbon = RibbonRegressor(base, alpha=CR, correction=correction).fit(X, Y, groups=GROUP)
    np.testing.assert_allclose(ribbon.covariance_, dense_cr(power, penalty=penalty), rtol=1e-8, atol=1e-12)


def test_auto_is_cr2_and_weights_are_repeats_within_a_group():
    weight = rng.integers(0, 3, N).astype(float)
    weight[GROUP == 3] = 0.0  # a group of weight zero
    ribbon = RibbonRegressor(alpha=(G - 2) / (G - 1)).fit(X, Y, sample_weight=weight, groups=GROUP)
    kept = weight[GROUP != 3].sum()
    assert ribbon.n_groups_ == G - 1
    assert ribbon.n_observations_ == kept
    np.testing.assert_allclose(ribbon.covariance_, dense_cr(-0.5, weight=weight * (GROUP != 3)), rtol=1e-8)


@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("base", [Ridge(), LogisticRegression(), small_network], ids=lambda base: str(base)[:5])
def test_whole_weights_are_repeated_rows(correction, base):
    estimator, y = (RibbonClassifier, CLASSES) if isinstance(base, LogisticRegression) else (RibbonRegressor, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base = FrozenEstimator(clone(base).fit(X, y))
        weight = rng.integers(0, 3, N)
        rows = np.repeat(np.arange(N), weight)
        ribbon = estimator(base, correction=correction, damping=0.01)
        weighted = clone(ribbon).fit(X, y, sample_weight=weight, groups=GROUP)
        repeated = clone(ribbon).fit(X[rows], y[rows], groups=GROUP[rows])
    scale = np.abs(repeated.covariance_).max()
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-7, atol=1e-9 * scale)
    np.testing.assert_allclose(weighted.predict_distribution(X).latent.f, repeated.predict_distribution(X).latent.f)


def test_order_labels_and_containers_do_not_matter():
    reference = RibbonRegressor(Ridge()).fit(X, Y, groups=GROUP)
    order = rng.permutation(N)
    labels = np.array([f"person {g}" for g in GROUP], dtype=object)
    for table, groups in [
        (X[order], labels[order]),
        (sparse.csr_array(X[order]), pd.Series(GROUP[order], index=order)),
        (X[order], pd.Categorical(labels[order])),
    ]:
        shuffled = RibbonRegressor(Ridge()).fit(table, Y[order], groups=groups)
        np.testing.assert_allclose(shuffled.covariance_, reference.covariance_, rtol=1e-9)
        np.testing.assert_allclose(shuffled.predict_interval(X), reference.predict_interval(X), rtol=1e-6)


@pytest.mark.parametrize("correction", ["HC0", "HC2", "HC3"])
@pytest.mark.parametrize("base", [Ridge(), exact_poisson, logistic(max_iter=500)], ids=lambda base: str(base)[:5])
def test_groups_of_one_row_are_rows(correction, base):
    """Groups of one row, computed by the formulas for groups."""
    estimator = RibbonClassifier if isinstance(base, LogisticRegression) else RibbonRegressor
    y = {Ridge: Y, PoissonRegressor: COUNTS}.get(type(base), CLASSES)
    ribbon = estimator(base, correction=correction)
    _, training = trained(ribbon, X, y, None, None)
    alone = replace(training.rows, groups=Groups.from_codes(np.argsort(rng.permutation(N)), np.ones(N)))
    grouped = replace(training, rows=alone)
    ours, expected = (one.ribbon(1.0, True, 2, 0).covariance for one in (grouped, training))
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(grouped.record.left_out, training.record.left_out, rtol=1e-12)
    if estimator is RibbonRegressor:
        np.testing.assert_allclose(grouped.record.growth, training.record.growth, rtol=1e-9)


def test_a_fit_with_groups_of_one_row_is_a_fit_without():
    plain, alone = (RibbonRegressor(Ridge()).fit(X, Y, groups=groups) for groups in (None, np.arange(N)))
    np.testing.assert_array_equal(plain.covariance_, alone.covariance_)
    assert alone.n_groups_ is None


# ---------------------------------------------------------------------- leave one group out
def test_left_out_predictions_are_those_of_a_fit_without_the_group():
    for base in (LinearRegression(), make_pipeline(StandardScaler(), Ridge(alpha=5.0))):
        frozen = clone(base).fit(X, Y)
        ribbon = RibbonRegressor(FrozenEstimator(frozen), store_loo=True).fit(X, Y, groups=GROUP)
        g = GROUP[0] == GROUP
        Z = frozen[:-1].transform(X) if hasattr(frozen, "steps") else X
        refit = clone(base[-1] if hasattr(frozen, "steps") else base).fit(Z[~g], Y[~g])
        np.testing.assert_allclose(ribbon.loo_residuals_[g], (Y - refit.predict(Z))[g], rtol=1e-9)
    assert ribbon.loo_score_ < RibbonRegressor(base, store_loo=True).fit(X, Y).loo_score_


def test_noise_is_not_underestimated_with_group_effects():
    """Noise with a group-level feature that absorbs the group effects."""
    generator = np.random.default_rng(1)
    code = np.repeat(np.arange(12), 20)
    level = generator.normal(size=(12, 6))[code]
    truth, estimates = 1.0 + 0.25, {"rows": [], "groups": []}
    for _ in range(60):
        y = generator.normal(size=12)[code] + 0.5 * generator.normal(size=240)
        for name, groups in (("rows", None), ("groups", code)):
            estimates[name].append(RibbonRegressor(noise="dof").fit(level, y, groups=groups).noise_.dispersion_)
    means = {name: np.mean(values) for name, values in estimates.items()}
    error = np.std(estimates["groups"]) / np.sqrt(60)
    assert means["groups"] == pytest.approx(truth, abs=3 * error + 0.05)
    assert means["rows"] < 0.75 * truth


# ---------------------------------------------------------------------- draws, refits
def test_draws_have_the_closed_form_covariance():
    for correction in ("HC0", "HC3"):
        closed = RibbonRegressor(Ridge(), alpha=0.7, correction=correction).fit(X, Y, groups=GROUP)
        drawn = clone(closed).set_params(predictive="pushforward", n_draws=8000, random_state=0)
        drawn.fit(X, Y, groups=GROUP)
        ratio = np.diag(drawn.covariance_) / np.diag(closed.covariance_)
        np.testing.assert_allclose(ratio, 1.0, atol=0.1)
    correlation = np.corrcoef(closed.covariance_.ravel(), drawn.covariance_.ravel())[0, 1]
    assert correlation > 0.99


@pytest.mark.parametrize("curvature", ["kfac", "diag", "last_layer"])
def test_groups_with_structured_curvatures(curvature):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = MLPRegressor(hidden_layer_sizes=(5,), solver="lbfgs", max_iter=300, random_state=0)
        base = FrozenEstimator(network.fit(X, Y))
        closed = RibbonRegressor(base, curvature=curvature, correction="HC1").fit(X, Y, groups=GROUP)
        ribbon = RibbonRegressor(
            base, curvature=curvature, correction="HC1", predictive="pushforward", n_draws=4000, random_state=0
        )
        drawn = ribbon.fit(X, Y, groups=GROUP)
    std = [one.predict_std(X, kind="epistemic") for one in (closed, drawn)]
    np.testing.assert_allclose(std[0], std[1], rtol=0.15)
    assert not np.allclose(std[0], RibbonRegressor(base, curvature=curvature, noise=1.0).fit(X, Y).predict_std(X))


def test_draws_do_not_depend_on_blocks(monkeypatch):
    ribbon = RibbonRegressor(Ridge(), predictive="pushforward", n_draws=20, random_state=0)
    whole = clone(ribbon).fit(X, Y, groups=GROUP).ribbon_.shifts
    monkeypatch.setattr("skribbon._core.rows.BLOCK_BYTES", 8 * 40)
    monkeypatch.setattr("skribbon._core.rows.LEAST_ROWS", 7)
    np.testing.assert_allclose(clone(ribbon).fit(X, Y, groups=GROUP).ribbon_.shifts, whole, rtol=1e-8)


@pytest.mark.parametrize("correction", ["HC0", "HC2", "HC3"])
def test_groups_that_blocks_cut_are_put_together(correction, monkeypatch):
    ribbon = RibbonClassifier(correction=correction, store_loo=True)
    whole = clone(ribbon).fit(X, CLASSES, groups=GROUP)
    monkeypatch.setattr("skribbon._core.rows.BLOCK_BYTES", 8 * 40)
    monkeypatch.setattr("skribbon._core.rows.LEAST_ROWS", 7)
    cut = clone(ribbon).fit(X, CLASSES, groups=GROUP)
    scale = np.abs(whole.covariance_).max()
    np.testing.assert_allclose(cut.covariance_, whole.covariance_, rtol=1e-9, atol=1e-11 * scale)
    assert cut.loo_score_ == pytest.approx(whole.loo_score_, rel=1e-9)


def test_linear_steps_are_refits_with_group_weights():
    ribbon = RibbonRegressor(Ridge(alpha=0.1), alpha=20.0, correction="HC0").fit(X, Y, groups=GROUP)
    report = ribbon.check_linearization(X, Y, groups=GROUP, n_refits=3, random_state=0)
    weights = pd.DataFrame(report.weights).groupby(GROUP)
    assert (weights.max() - weights.min()).to_numpy().max() == 0  # one weight for all rows of a group
    assert report.to_frame()["correlation"].min() > 0.98
    assert report.to_frame()["size_ratio"].between(0.8, 1.25).all()
    uneven = np.sort(np.minimum(rng.geometric(0.03, N), G))
    strong = RibbonRegressor(Ridge(alpha=300.0, fit_intercept=False), alpha=2000.0, correction="HC0")
    strong.fit(X + 2, Y + 5, groups=uneven)
    errors = strong.check_linearization(X + 2, Y + 5, groups=uneven, n_refits=2, random_state=0).to_frame()
    assert errors["prediction_error"].max() < 0.05  # the penalty keeps its share, whatever the weights add up to
    with pytest.raises(ValueError, match="groups must be those that the estimator was fitted with"):
        ribbon.check_linearization(X, Y)


# ---------------------------------------------------------------------- confidence
def test_confidence_has_the_quantiles_of_students_law_of_the_groups():
    from scipy.stats import t

    ribbon = RibbonRegressor(correction="HC3").fit(X, Y, groups=GROUP)
    mean, half = ribbon.predict(X), ribbon.predict_std(X, kind="epistemic") * t.ppf(0.95, G - 1)
    expected = np.column_stack([mean - half, mean + half])
    np.testing.assert_allclose(ribbon.predict_interval(X, 0.9, kind="confidence"), expected, rtol=1e-10)


@pytest.mark.parametrize("limit", [4000, 4 * 12])
def test_degrees_of_freedom_of_predictions_that_rest_on_few_groups(limit, monkeypatch):
    """Effect of a treatment that only two of twenty groups receive."""
    monkeypatch.setattr("skribbon._core.units.MOST_CURVATURES", limit)
    treated = np.column_stack([CODES < 2, X[:, 0]]).astype(float)
    ribbon = RibbonRegressor().fit(treated, Y, groups=GROUP)
    df = coefficients(ribbon)["df"].to_numpy()
    A = np.column_stack([treated, np.ones(N)])
    c2 = np.array([np.square(np.linalg.inv(A.T @ A) @ A[g == GROUP].T).sum(axis=1) for g in range(G)])  # (G, p)
    expected = np.minimum(c2.sum(axis=0) ** 2 / (c2**2).sum(axis=0) - 1, G - 1)
    np.testing.assert_allclose(df, expected, rtol=1e-7 if limit == 4000 else 0.25)
    assert df[0] < 2.5


# ---------------------------------------------------------------------- RibbonCV, routing, tables
@pytest.mark.parametrize(("base", "y"), [(Ridge(), Y), (LogisticRegression(), BINARY)])
@pytest.mark.parametrize("cv", [None, 4, GroupKFold(3), "loo"], ids=str)
def test_tuning_keeps_groups_together(base, y, cv, monkeypatch):
    seen = []
    original = RibbonRegressor._fit_base_model

    def spied(self, X, y, sample_weight, groups):
        seen.append(groups)
        return original(self, X, y, sample_weight, groups)

    monkeypatch.setattr("skribbon._estimators.ribbon.BaseRibbon._fit_base_model", spied)
    labels = pd.Series([f"person {g}" for g in GROUP], index=np.arange(N)[::-1])
    tuned = RibbonCV(base, cv=cv).fit(X, y, groups=labels)
    assert tuned.estimator_.n_groups_ == G
    assert all(groups is not None for groups in seen)
    for groups in seen[:-1] if cv != "loo" else []:
        left_out = np.setdiff1d(labels, groups)
        assert len(groups) == N - labels.isin(left_out).sum()  # whole groups are held out


def test_standard_error_of_a_gain_is_over_groups(monkeypatch):
    asked = []

    def spied(values, weight, group=None):
        asked.append(group)
        return standard_error(values, weight, group)

    monkeypatch.setattr("skribbon._estimators.alpha_path.standard_error", spied)
    RibbonCV(RibbonRegressor(Ridge(), noise=0.01), alphas=[0.001, 1.0]).fit(X, Y, groups=GROUP)  # too narrow at 1
    assert asked
    assert all(len(np.unique(group)) == G for group in asked)


def test_groups_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        ribbon = RibbonRegressor(Ridge()).set_fit_request(groups=True)
        assert ribbon.fit(X, Y, groups=GROUP).n_groups_ == G
        assert RibbonCV(ribbon).fit(X, Y, groups=GROUP).estimator_.n_groups_ == G
        assert RibbonCV(Ridge()).fit(X, Y, groups=GROUP).estimator_.n_groups_ == G
        pipeline = make_pipeline(StandardScaler(), ribbon)
        assert pipeline.fit(X, Y, groups=GROUP)[-1].n_groups_ == G


def test_targets_behind_a_transform_and_classes_of_a_network():
    log = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    ribbon = RibbonRegressor(log).fit(X, POSITIVE, groups=GROUP)
    expected = RibbonRegressor().fit(X, np.log(POSITIVE), groups=GROUP)
    np.testing.assert_allclose(ribbon.covariance_, expected.covariance_, rtol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = RibbonClassifier(MLPClassifier(hidden_layer_sizes=(4,), alpha=1.0, max_iter=2000, random_state=0))
        proba = network.fit(X, CLASSES, groups=GROUP).predict_proba_interval(X)
    assert np.isfinite(proba).all()
    assert (proba[..., 0] <= proba[..., 1]).all()


# ---------------------------------------------------------------------- bad input
@pytest.mark.parametrize("classifier", [False, True])
def test_names_of_groups_do_not_matter_to_folds(classifier):
    generator = np.random.default_rng(0)
    group, A = np.repeat(np.arange(30), 4), generator.normal(size=(120, 2))
    y = (A[:, 0] > 0).astype(int) if classifier else A[:, 0] + generator.normal(size=120)
    renamed, order = generator.permutation(30)[group], generator.permutation(120)
    splits, others = (split_positions(5, A, y, own, classifier, {}) for own in (group, renamed.astype(str)))
    shuffled = split_positions(5, A[order], y[order], renamed[order], classifier, {})
    for (_, test), (_, other), (_, third) in zip(splits, others, shuffled, strict=True):
        assert np.array_equal(test, other) and np.array_equal(test, np.sort(order[third]))


def test_groups_of_equal_rows_are_dealt_out_one_by_one():
    A, y, group = np.ones((20, 1)), np.ones(20), np.arange(20) // 4
    splits = split_positions(5, A, y, group, False, {})
    assert sorted(np.unique(group[test]).tolist() for _, test in splits) == [[k] for k in range(5)]


@pytest.mark.parametrize("Ribbon", [RibbonRegressor, RibbonCV])
def test_a_list_of_tuples_is_one_grouping(Ribbon):
    generator = np.random.default_rng(0)
    A, y, code = generator.normal(size=(96, 2)), generator.normal(size=96), np.arange(96) % 12
    pairs = [(int(k), 0) for k in code]
    fits = [Ribbon().fit(A, y, groups=own) for own in (code, pairs, pd.Series(pairs))]
    expected, *others = (fit.predict_interval(A, kind="confidence") for fit in fits)
    assert all(np.array_equal(other, expected) for other in others)
    asked = {"confidence_level": 0.5, "kind": "conformal"}
    calibrated = [
        fits[0].conformalize(A + 1, y, groups=own).predict_interval(A, groups=own, **asked) for own in (code, pairs)
    ]
    assert np.isfinite(calibrated).all() and np.array_equal(*calibrated)
    crossed = RibbonRegressor().fit(A, y, groups=(code, np.arange(96) // 12))
    assert crossed.n_groups_ == (8, 12)


def test_invalid_groups_are_refused():
    with pytest.raises(ValueError, match="groups has a single label"):
        RibbonRegressor().fit(X, Y, groups=np.zeros(N))
    with pytest.raises(ValueError, match="240 labels, one per row"):
        RibbonRegressor().fit(X, Y, groups=GROUP[:-1])
    for shape in ("firm", np.zeros((N, 2, 2))):
        with pytest.raises(ValueError, match="groups must be a sequence of 240 labels"):
            RibbonRegressor().fit(X, Y, groups=shape)
    for missing in (np.where(GROUP == 0, np.nan, GROUP), np.where(GROUP == 0, None, GROUP)):
        with pytest.raises(ValueError, match="groups is missing for"):
            RibbonRegressor().fit(X, Y, groups=missing)
    with pytest.raises(ValueError, match="single label"):
        RibbonRegressor().fit(X, Y, groups=GROUP, sample_weight=(GROUP == 2).astype(float))


def test_leverage_warning_for_a_group_that_determines_a_direction():
    own = np.column_stack([X, GROUP == 4])
    with pytest.warns(LeverageWarning, match="1 of 20 groups determine a direction"):
        ribbon = RibbonRegressor().fit(own, Y, groups=GROUP)
    assert np.isfinite(ribbon.covariance_).all()
    with pytest.warns(LeverageWarning, match="1 of 2 rows depend on a single training row or group each"):
        ribbon.predict_interval([[0.0, 0, 0, 1], [0.0, 0, 0, 0]], kind="confidence")


def test_a_small_group_that_alone_determines_a_direction_is_capped():
    """A group of two rows with a column of its own: its scores grow a hundredfold at most."""
    code = GROUP.copy()
    code[:2] = G
    own = np.column_stack([X, code == G])
    with pytest.warns(LeverageWarning, match="1 of 21 groups"):
        corrected = RibbonRegressor(correction="HC3", noise="dof").fit(own, Y, groups=code)
    plain = RibbonRegressor(correction="HC0", noise="dof").fit(own, Y, groups=code)
    assert np.diag(corrected.covariance_).max() < 4 * np.diag(plain.covariance_).max()


def test_standard_errors_of_means_with_groups():
    values, code = np.repeat(rng.normal(size=30), 5), np.repeat(np.arange(30), 5)
    ours = standard_error(values, np.ones(150), code)
    assert ours == pytest.approx(np.std(values[::5]) / np.sqrt(30))
    assert ours == pytest.approx(np.sqrt(5) * standard_error(values, np.ones(150)))
    once = np.unique(code, return_index=True)[1]  # a row of weight five in a group of its own is five rows of one group
    assert standard_error(values[once], np.full(30, 5.0), code[once]) == pytest.approx(ours)


@pytest.mark.parametrize("cv", [4, "loo"])
def test_few_groups_warning_is_given_once(cv):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RibbonCV(Ridge(), alphas=[1.0], cv=cv).fit(X, Y, groups=GROUP % 6)
    assert [w.category for w in caught].count(FewGroupsWarning) == 1


def test_curvatures_of_groups_take_bounded_memory(monkeypatch):
    """Curvatures are kept only for the groups with the largest traces."""
    monkeypatch.setattr("skribbon._core.units.MOST_CURVATURES", 4 * 5)
    monkeypatch.setattr("skribbon._core.rows.LEAST_ROWS", 16)
    monkeypatch.setattr("skribbon._core.rows.BLOCK_BYTES", 8 * 40)
    ribbon = RibbonRegressor()
    _, training = trained(ribbon, X, Y, None, GROUP)
    found = training.units
    assert found.L.shape == (5, 4, 4)
    A = np.column_stack([X - X.mean(axis=0), np.ones(N)])
    trace = [np.trace(np.linalg.solve(A.T @ A, A[g == GROUP].T @ A[g == GROUP])) for g in range(G)]
    np.testing.assert_allclose(np.sort([np.trace(L) for L in found.L]), np.sort(trace)[-5:], rtol=1e-8)
    np.testing.assert_allclose(np.sort(found.trace), np.sort(trace)[-5:], rtol=1e-8)


def test_few_groups_warning_for_more_parameters_than_groups():
    wide = np.random.default_rng(0).normal(size=(N, 30))
    with pytest.warns(FewGroupsWarning, match="With only 20 groups and 31 effective parameters"):
        ribbon = RibbonRegressor().fit(wide, Y, groups=GROUP)
    assert np.isfinite(ribbon.predict_interval(wide, kind="confidence")).all()


def test_group_sums_do_not_depend_on_the_order_of_blocks():
    """Sums of parts of a group, added in any order."""
    ribbon = RibbonRegressor()
    _, training = trained(ribbon, X, Y, None, GROUP)
    rows, f = training.rows, GroupSums(_scores, training.rows.groups.count)
    blocks = list(replace(rows, groups=replace(rows.groups)).blocks(8 * 4000))
    pieces = [f(block) for block in blocks]
    forwards, backwards = (sum(order[1:], start=order[0]) for order in (pieces, pieces[::-1]))
    assert len(blocks) > 5
    assert any(piece.begun for piece in pieces)
    assert not forwards.begun
    ours, other = (total.total.in_order(G) for total in (forwards, backwards))
    np.testing.assert_allclose(ours, other, rtol=1e-10, atol=1e-12 * np.abs(ours).max())
    S = pd.DataFrame(training.rows.map(_scores)).groupby(GROUP).sum().to_numpy()
    codes = pd.factorize(GROUP)[1]
    np.testing.assert_allclose(ours, S[codes], rtol=1e-9, atol=1e-12 * np.abs(S).max())
    assert group_steps(training).shape == (G, 4)


def _scores(block):
    return block.tangent.scores(block.u)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_hat_matrices_of_a_classifiers_groups_count_as_one_half_at_most():
    """A group with a column of its own determines that coefficient alone."""
    table = np.column_stack([GROUP[0] == GROUP, X[:, 0]]).astype(float)
    labels = (X[:, 0] + np.random.default_rng(0).normal(size=N) > 0).astype(int)
    ribbon = RibbonClassifier(LogisticRegression(C=1e3), correction="HC3")
    _, training = trained(ribbon, table, labels, None, GROUP)
    rows, M = training.rows, training.H_r.inverse_root / np.sqrt(N)
    J, u, C = rows.map(lambda block: (block.tangent.jacobian()[:, 0], block.u[:, 0], block.C[:, 0, 0]))
    codes = rows.groups.code
    for g in (codes[0], codes[np.flatnonzero(codes != codes[0])[0]]):
        own = codes == g
        K, S = J[own].T @ (C[own, None] * J[own]), J[own].T @ u[own]
        values, E = np.linalg.eigh(M.T @ K @ M)
        assert (values.max() > 0.9) == (g == codes[0])
        phi = (1 / (1 - np.minimum(values, 0.5)) - 1) / np.where(values > 1e-12, values, np.inf)
        phi = np.where(values > 1e-8, phi, 1.0)
        np.testing.assert_allclose(group_steps(training, 1)[g], M @ (E * phi) @ E.T @ M.T @ S, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("correction", ["auto", "HC0", "HC1", "HC3"])
def test_fitted_correction_is_named_after_clusters(correction):
    ribbon = RibbonRegressor(Ridge(), correction=correction).fit(X, Y, groups=GROUP)
    assert ribbon.correction_ == {"auto": "CR2"}.get(correction, correction.replace("HC", "CR"))
