"""RibbonCV: path of alphas, choice of parameters, and the scikit-learn interface."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, metrics
from skribbon._estimators import alpha_path as _alpha_path
from skribbon.curvature import GaussNewton
from skribbon.exceptions import AlphaEdgeWarning

ALPHAS = [0.01, 0.1, 0.3, 1.0, 3.0, 10.0]
LOGISTIC = LogisticRegression(max_iter=2000, tol=1e-8)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def noisy_iris():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    flipped = rng.uniform(size=len(y)) < 0.1
    return X, np.where(flipped, rng.permutation(y), y)


SCORERS = {
    "nll": metrics.neg_nll_scorer,
    "interval_score": metrics.neg_interval_score_scorer,
    "brier": metrics.neg_brier_scorer,
    "ece": metrics.neg_ece_scorer,
}


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
@pytest.mark.parametrize(
    ("base", "scoring"),
    [
        (Ridge(0.1), "nll"),
        (Ridge(0.1), "interval_score"),
        (make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-2)), "nll"),
        (TransformedTargetRegressor(Ridge(0.1), func=np.log, inverse_func=np.exp), "nll"),
    ],
)
def test_alpha_path_equals_grid_search_with_refits(diabetes, base, scoring):
    X, y = diabetes
    cv, alphas = KFold(3, shuffle=True, random_state=0), [0.1, 1.0, 10.0]
    ribbon = RibbonRegressor(base, noise="dof", correction="HC0")  # scores along the path have no degrees of freedom
    tuned = RibbonCV(ribbon, alphas=alphas, scoring=scoring, cv=cv).fit(X, y)
    search = GridSearchCV(ribbon, {"alpha": alphas}, scoring=SCORERS[scoring], cv=cv).fit(X, y)
    for k in range(3):
        ours, theirs = tuned.cv_results_[f"split{k}_test_{scoring}"], search.cv_results_[f"split{k}_test_score"]
        np.testing.assert_allclose(ours, -theirs, rtol=1e-6)
    assert tuned.alpha_ in (1.0, search.best_params_["alpha"])  # no alpha is better than one by little
    expected = clone(ribbon).set_params(alpha=tuned.alpha_).fit(X, y).predict_interval(X)
    np.testing.assert_allclose(tuned.predict_interval(X), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_classifier_alpha_path_equals_grid_search(noisy_iris, classes):
    X, y = noisy_iris
    X, y = X[y < classes], y[y < classes]
    cv, alphas, temperatures = KFold(3, shuffle=True, random_state=0), [0.01, 10.0], [0.5, 3.0]
    grid, scorers = {"temperature": temperatures, "alpha": alphas}, {name: SCORERS[name] for name in ("nll", "brier")}
    search = GridSearchCV(RibbonClassifier(LOGISTIC), grid, scoring=scorers, refit=False, cv=cv).fit(X, y)
    theirs = pd.DataFrame(search.cv_results_).sort_values(["param_temperature", "param_alpha"])
    for scoring in scorers:
        tuned = RibbonCV(LOGISTIC, alphas=alphas, temperatures=temperatures, scoring=scoring, cv=cv).fit(X, y)
        np.testing.assert_array_equal(tuned.cv_results_["temperature"], theirs["param_temperature"].astype(float))
        np.testing.assert_array_equal(tuned.cv_results_["alpha"], theirs["param_alpha"].astype(float))
        for k in range(3):
            ours = tuned.cv_results_[f"split{k}_test_{scoring}"]
            np.testing.assert_allclose(ours, -theirs[f"split{k}_test_{scoring}"], rtol=1e-9)


def test_callable_and_sklearn_scorers_choose_the_alpha_of_the_built_in_score(diabetes, noisy_iris):
    X, y = diabetes
    cv, alphas = KFold(3, shuffle=True, random_state=0), [0.01, 0.3, 3.0]
    ribbon = RibbonRegressor(Ridge(0.1), correction="HC3")  # scores along the path have no degrees of freedom
    built_in = RibbonCV(ribbon, alphas=alphas, scoring="nll", cv=cv).fit(X, y)
    called = RibbonCV(ribbon, alphas=alphas, scoring=metrics.neg_nll_scorer, cv=cv).fit(X, y)
    assert called.alpha_ == built_in.alpha_
    assert called.best_score_ == pytest.approx(built_in.best_score_, rel=1e-10)
    X, y = noisy_iris
    settings = {"alphas": alphas, "temperatures": [0.5, 1.0], "cv": 3}
    named = RibbonCV(LOGISTIC, scoring="neg_log_loss", **settings).fit(X, y)
    ours = RibbonCV(LOGISTIC, scoring="nll", **settings).fit(X, y)
    np.testing.assert_allclose(named.cv_results_["mean_test_score"], -ours.cv_results_["mean_test_nll"], rtol=1e-9)


def test_coverage_scoring_interpolates_alpha_to_within_one_row(diabetes):
    X, y = diabetes
    ribbon = RibbonRegressor(Ridge(0.1), noise="dof")
    tuned = RibbonCV(ribbon, alphas=[0.001, 0.1, 10.0], scoring="coverage", cv=KFold(5)).fit(X, y)
    assert tuned.alpha_ not in tuned.cv_results_["alpha"]
    assert abs(tuned.best_score_) <= 0.5 / len(y) + 1e-12
    finer = RibbonCV(ribbon, alphas=np.logspace(-3, 1, 400), scoring="coverage", cv=KFold(5)).fit(X, y)
    assert abs(finer.best_score_) == pytest.approx(abs(tuned.best_score_), abs=1e-12)


def test_ties_choose_the_narrower_interval(diabetes):
    X, y = diabetes
    # coverage is a step function: neighbours this close have equal coverage
    tuned = RibbonCV(Ridge(0.1), alphas=[0.2, 0.2 * (1 + 1e-12)], scoring=lambda e, X, y: 1.0)
    with pytest.warns(AlphaEdgeWarning, match="does not depend on alpha"):
        tuned.fit(X, y)
    assert tuned.alpha_ == 0.2 * (1 + 1e-12)


def test_alpha_edge_warning_gives_the_reason(diabetes):
    X, y = diabetes
    with pytest.warns(AlphaEdgeWarning, match="confidence intervals have almost no width"):
        RibbonCV(RibbonRegressor(Ridge(0.1), noise=1e5), alphas=ALPHAS, scoring="coverage").fit(X, y)
    with pytest.warns(AlphaEdgeWarning, match="smallest alpha"):
        RibbonCV(RibbonRegressor(Ridge(0.1), noise=1.0), alphas=[1.0, 2.0, 3.0], scoring="coverage").fit(X, y)


def test_edge_check_runs_only_at_an_edge(diabetes, monkeypatch):
    """The check scores every row at two alphas, so it runs only if needed."""
    asked = []
    monkeypatch.setattr(_alpha_path, "_matters", lambda *path: asked.append(path) or True)
    tuned = RibbonCV(RibbonRegressor(Ridge(0.1)), alphas=ALPHAS).fit(*diabetes)
    assert ALPHAS[0] < tuned.alpha_ < ALPHAS[-1]
    assert not asked
    with pytest.warns(AlphaEdgeWarning):
        RibbonCV(RibbonRegressor(Ridge(0.1), noise=1.0), alphas=[1.0, 2.0, 3.0]).fit(*diabetes)
    assert len(asked) == 1


def test_fitted_ribbon_is_tuned_on_validation_rows_only(diabetes):
    X, y = diabetes
    ribbon = RibbonRegressor(Ridge(0.1)).fit(X[:300], y[:300])
    before = ribbon.predict_interval(X[:5])
    tuned = RibbonCV(FrozenEstimator(ribbon), scoring="coverage").fit(X[300:], y[300:])
    covered = metrics.interval_coverage_score(y[300:], tuned.predict_interval(X[300:]))
    assert abs(covered - 0.9) <= 0.5 / 142 + 1e-12
    by_hand = RibbonRegressor(Ridge(0.1), alpha=tuned.alpha_).fit(X[:300], y[:300])
    np.testing.assert_allclose(tuned.predict_interval(X), by_hand.predict_interval(X), rtol=1e-12)
    np.testing.assert_array_equal(ribbon.predict_interval(X[:5]), before)  # the given one is left alone


def test_a_frozen_base_model_is_refused(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="frozen"):
        RibbonCV(RibbonRegressor(FrozenEstimator(Ridge().fit(X, y)))).fit(X, y)


def test_weights_enter_fits_and_scores(diabetes):
    X, y = diabetes
    X, y = X[:200], y[:200]
    w = np.random.default_rng(0).integers(1, 4, size=200)
    folds = [(np.arange(0, 100), np.arange(100, 200)), (np.arange(100, 200), np.arange(0, 100))]
    start = np.concatenate([[0], np.cumsum(w)])
    copies = [np.concatenate([np.arange(start[i], start[i + 1]) for i in rows]) for rows in (folds[0][0], folds[0][1])]
    weighted = RibbonCV(LinearRegression(), alphas=ALPHAS, scoring="nll", cv=folds).fit(X, y, sample_weight=w)
    X2, y2 = np.repeat(X, w, axis=0), np.repeat(y, w)
    repeated = RibbonCV(
        LinearRegression(), alphas=ALPHAS, scoring="nll", cv=[(copies[0], copies[1]), (copies[1], copies[0])]
    ).fit(X2, y2)
    np.testing.assert_allclose(weighted.cv_results_["mean_test_nll"], repeated.cv_results_["mean_test_nll"], rtol=1e-9)


def test_cv_results_fit_a_dataframe_and_progress_is_printed(diabetes, capsys):
    X, y = diabetes
    ribbon = RibbonRegressor(Ridge(0.1), noise="dof")
    tuned = RibbonCV(ribbon, alphas=ALPHAS, cv=3, verbose=1).fit(X, y)
    frame = pd.DataFrame(tuned.cv_results_)
    wanted = {f"mean_test_{m}" for m in ("coverage", "width", "nll", "crps", "interval_score")}
    assert wanted | {"alpha", "split2_test_nll"} <= set(frame)
    assert (np.diff(frame["mean_test_width"]) < 0).all()
    assert capsys.readouterr().out.count("[RibbonCV]") == 4


def test_out_of_fold_noise(diabetes):
    X, y = diabetes
    cv = KFold(5)
    tuned = RibbonCV(RibbonRegressor(Ridge(0.1), noise="cv"), alphas=ALPHAS, cv=cv).fit(X, y)
    by_hand = [y[test] - Ridge(0.1).fit(X[train], y[train]).predict(X[test]) for train, test in cv.split(X)]
    assert tuned.estimator_.noise_.dispersion_ == pytest.approx(np.mean(np.concatenate(by_hand) ** 2), rel=1e-12)
    with pytest.raises(ValueError, match="RibbonCV"):
        RibbonRegressor(noise="cv").fit(X, y)


def test_groups_reach_the_splitter_with_and_without_routing(diabetes):
    X, y = diabetes
    groups = np.arange(len(y)) // 50
    plain = RibbonCV(Ridge(0.1), alphas=ALPHAS, cv=GroupKFold(3)).fit(X, y, groups=groups)
    with config_context(enable_metadata_routing=True):
        routed = RibbonCV(Ridge(0.1), alphas=ALPHAS, cv=GroupKFold(3)).fit(X, y, groups=groups)
        weighted = RibbonCV(alphas=ALPHAS, cv=3).fit(X, y, sample_weight=np.ones(len(y)))
    assert routed.alpha_ == plain.alpha_
    assert weighted.alpha_ == RibbonCV(alphas=ALPHAS, cv=3).fit(X, y).alpha_


def test_methods_match_regressor_or_classifier(diabetes, noisy_iris):
    regressor, classifier = RibbonCV(alphas=ALPHAS), RibbonCV(LOGISTIC, alphas=ALPHAS)
    for tuned in (regressor, regressor.fit(*diabetes)):
        assert hasattr(tuned, "predict_interval") and not hasattr(tuned, "predict_proba")
    for tuned in (classifier, classifier.fit(*noisy_iris)):
        assert hasattr(tuned, "predict_proba_samples") and not hasattr(tuned, "predict_interval")
    X, _ = diabetes
    mean, std = regressor.predict(X, return_std=True)
    assert mean.shape == std.shape == (len(X),)
    assert regressor.predict_frame(X[:3]).shape == (3, 5)
    assert classifier.classes_.tolist() == [0, 1, 2]


def test_parallel_folds_give_the_same_choice(diabetes):
    X, y = diabetes
    one, two = (RibbonCV(Ridge(0.1), alphas=ALPHAS, n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.alpha_ == two.alpha_


def test_clone_keeps_the_settings():
    tuned = RibbonCV(RibbonClassifier(LOGISTIC), alphas=ALPHAS, scoring="ece", cv=4)
    assert clone(tuned).get_params()["estimator__estimator__max_iter"] == 2000


@pytest.mark.parametrize("alphas", [[], [0.0, 1.0], [-1.0], [np.inf], [np.nan]])
def test_bad_alphas(diabetes, alphas):
    with pytest.raises(ValueError, match="alphas must be"):
        RibbonCV(alphas=alphas).fit(*diabetes)


def test_bad_scoring_levels_and_folds(diabetes, noisy_iris):
    with pytest.raises(ValueError, match="not apply to a regressor"):
        RibbonCV(scoring="brier").fit(*diabetes)
    with pytest.raises(ValueError, match="not apply to a classifier"):
        RibbonCV(LOGISTIC, scoring="coverage").fit(*noisy_iris)
    with pytest.raises(ValueError, match="scoring must be one of"):
        RibbonCV(scoring="sharpest").fit(*diabetes)
    with pytest.raises(ValueError, match="confidence_level"):
        RibbonCV(confidence_level=90).fit(*diabetes)
    with pytest.raises(ValueError, match="finite"):
        RibbonCV(alphas=ALPHAS, scoring=lambda e, X, y: np.nan).fit(*diabetes)
    with pytest.raises(ValueError, match="annot have number of splits"):
        RibbonCV(cv=1000).fit(*diabetes)
    X, _ = noisy_iris
    with pytest.raises(ValueError, match="stratified"):
        RibbonCV(LOGISTIC, cv=KFold(2)).fit(X[:100], np.repeat([0, 1], 50))
    with pytest.raises(ValueError, match="requires y"):
        RibbonCV().fit(X, None)


def test_tuned_network_reaches_nominal_coverage():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(400, 1))
    y = np.sin(x[:, 0]) + 0.2 * rng.standard_normal(400)
    network = MLPRegressor(
        hidden_layer_sizes=(10,), activation="tanh", solver="lbfgs", alpha=1e-2, max_iter=3000, random_state=0
    )
    tuned = RibbonCV(network, confidence_level=0.8).fit(x[:200], y[:200])
    covered = metrics.interval_coverage_score(y[200:], tuned.predict_interval(x[200:], confidence_level=0.8))
    assert abs(covered - 0.8) < 4 * np.sqrt(0.16 * (1 / 200 + 1 / 200))


# ---------------------------------------------------------------------- damping
class CountingRidge(Ridge):
    """Ridge that counts the fits of all its clones."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        CountingRidge.fits += 1
        return super().fit(X, y, sample_weight=sample_weight)


def test_damping_and_alpha_are_chosen_jointly_without_refits(diabetes):
    """The joint choice equals a search over all pairs; the base model is fitted once per fold."""
    X, y = diabetes[0][:441], diabetes[1][:441]  # folds of one size, whose mean scikit-learn does not weigh
    CountingRidge.fits = 0
    dampings, alphas = [0.0, 0.01, 1.0], [0.1, 1.0, 10.0]
    ribbon = RibbonRegressor(CountingRidge(alpha=1e-3), noise="dof", correction="HC0")
    tuned = RibbonCV(ribbon, dampings=dampings, alphas=alphas, scoring="nll", cv=KFold(3)).fit(X, y)
    assert CountingRidge.fits == 4
    grid = {"damping": dampings, "alpha": alphas}
    ribbon = RibbonRegressor(Ridge(alpha=1e-3), noise="dof", correction="HC0")
    search = GridSearchCV(ribbon, grid, scoring=metrics.neg_nll_scorer, cv=3).fit(X, y)
    assert tuned.alpha_ == search.best_params_["alpha"]
    assert tuned.estimator_.damping == search.best_params_["damping"]
    frame = pd.DataFrame(tuned.cv_results_)
    assert list(frame["damping"].unique()) == dampings
    theirs = pd.DataFrame(search.cv_results_).sort_values(["param_damping", "param_alpha"])
    np.testing.assert_allclose(-frame["mean_test_nll"], theirs["mean_test_score"], rtol=1e-6)


def test_damping_is_tuned_for_curvature_objects_and_by_leave_one_out(diabetes):
    X, y = diabetes
    ribbon = RibbonRegressor(Ridge(alpha=1e-3), curvature=GaussNewton())
    tuned = RibbonCV(ribbon, dampings=[0.01, 0.1], scoring="nll", cv="loo").fit(X, y)
    assert tuned.estimator_.curvature_.damping in (0.01, 0.1)


@pytest.mark.parametrize("dampings", [[], [-1.0], [np.nan]])
def test_dampings_are_checked(diabetes, dampings):
    with pytest.raises(ValueError, match="dampings must be 'auto', None or a non-empty sequence of finite"):
        RibbonCV(dampings=dampings).fit(*diabetes)


def test_dampings_of_a_fitted_ribbon_are_refused(diabetes):
    X, y = diabetes
    ribbon = FrozenEstimator(RibbonRegressor(Ridge(0.1)).fit(X[:300], y[:300]))
    with pytest.raises(ValueError, match="leave dampings=None"):
        RibbonCV(ribbon, dampings=[0.0, 1.0]).fit(X[300:], y[300:])


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
def test_crps_of_counts_is_the_area_between_cdf_and_step(diabetes):
    X, y = 20 * diabetes[0][:120], np.round(diabetes[1][:120] / 40)
    cv, alphas = KFold(2), [0.3, 3.0]
    base = PoissonRegressor(alpha=1e-2, max_iter=1000)
    tuned = RibbonCV(base, alphas=alphas, scoring="crps", cv=cv).fit(X, y)
    assert tuned.alpha_ == alphas[np.argmin(tuned.cv_results_["mean_test_crps"])]
    assert np.ptp(tuned.cv_results_["split0_test_crps"]) > 0.02  # the test can tell
    train, test = next(cv.split(X))
    grid = np.arange(400)  # beyond, the area is next to zero
    for alpha, ours in zip(alphas, tuned.cv_results_["split0_test_crps"], strict=True):
        ribbon = RibbonRegressor(base, alpha=alpha).fit(X[train], y[train])
        draws = ribbon.predict_samples(X[test], n_samples=2000, random_state=0)
        cdf = (draws[:, :, None] <= grid).mean(axis=0)
        assert ours == pytest.approx(np.sum((cdf - (y[test][:, None] <= grid)) ** 2, axis=1).mean(), rel=0.01)


# ---------------------------------------------------------------------- temperature
def labelled(n, slope, seed=0):
    """Rows whose log odds are ``slope`` times their only feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x[:, None], (rng.uniform(size=n) < 1 / (1 + np.exp(-slope * x))).astype(int)


def row_losses(ribbon, X, y):
    return -np.log(ribbon.predict_proba(X)[np.arange(len(y)), y])


def test_underconfident_model_gets_temperature_below_one():
    X, y = labelled(600, 3.0)
    shrunk = LogisticRegression(C=6e-3)
    tuned = RibbonCV(shrunk, alphas=np.logspace(-2, 2, 13), temperatures=np.logspace(-1, 1, 13)).fit(X, y)
    assert tuned.alpha_ == 1.0
    assert 0.1 < tuned.temperature_ < 0.6
    assert tuned.estimator_.temperature == tuned.temperature_
    X_new, y_new = labelled(5000, 3.0, seed=1)
    loss = [row_losses(ribbon, X_new, y_new).mean() for ribbon in (tuned, RibbonClassifier(shrunk).fit(X, y))]
    assert loss[0] < loss[1] - 0.02
    off = RibbonCV(shrunk, temperatures=[1.0]).fit(X, y)
    assert off.temperature_ == 1.0


def test_temperature_and_alpha_stay_one_within_one_standard_error():
    """Alpha and temperature change only as far as needed to be within one standard error, or 0.005, of the best."""
    alphas, temperatures = [0.1, 1.0, 10.0], [0.4, 0.7, 1.0, 1.5]
    kept = []
    for n, slope, C in ((150, 2.0, 0.003), (150, 2.0, 0.05), (300, 0.5, 1.0)):
        X, y = labelled(n, slope)
        folds = list(KFold(3).split(X))
        model = LogisticRegression(C=C, tol=1e-10)
        tuned = RibbonCV(model, alphas=alphas, temperatures=temperatures, cv=folds).fit(X, y)
        losses = {}
        for T in temperatures:
            for alpha in alphas:
                ribbon = RibbonClassifier(model, alpha=alpha, temperature=T)
                parts = [row_losses(clone(ribbon).fit(X[a], y[a]), X[b], y[b]) for a, b in folds]
                losses[T, alpha] = np.concatenate(parts)
        best = min(losses, key=lambda pair: losses[pair].mean())

        def within(pair, losses=losses, best=best):
            difference = losses[pair] - losses[best]
            return difference.mean() <= max(difference.std() / np.sqrt(len(difference)), 0.005)

        tempered = min(temperatures, key=lambda T, losses=losses: losses[T, 1.0].mean())
        order = [(T, 1.0) for T in way(temperatures, tempered)]
        untempered = max(alphas, key=lambda alpha, losses=losses: -losses[1.0, alpha].mean())
        order += [(1.0, alpha) for alpha in way(alphas, untempered)] + [(best[0], a) for a in way(alphas, best[1])]
        chosen = next(pair for pair in order if within(pair))
        kept.append((tuned.temperature_, tuned.alpha_))
        assert kept[-1] == chosen
        assert tuned.best_score_ == pytest.approx(-losses[chosen].mean(), rel=1e-8)
    assert len(set(kept)) == 2  # the test can tell
    assert (1.0, 1.0) in kept


def way(values, end):
    """Candidates from 1 to `end`, ordered by distance from 1."""
    return sorted((v for v in values if min(1, end) <= v <= max(1, end)), key=lambda v: abs(np.log(v)))


def test_alpha_moves_only_to_within_one_standard_error():
    """A frozen Ribbon has a single fold, so the standard error is computed over rows."""
    X, y = labelled(400, 1.5)
    X = np.column_stack([X, np.random.default_rng(3).normal(size=(400, 25))])
    ribbon = RibbonClassifier(LogisticRegression(C=1.0), alpha=0.3, temperature=2.0).fit(X[:60], y[:60])
    alphas = np.logspace(-3, 1, 9)
    tuned = RibbonCV(FrozenEstimator(ribbon), alphas=alphas, temperatures=[1.0]).fit(X[60:], y[60:])
    losses = {a: row_losses(ribbon.with_alpha(a, temperature=1.0), X[60:], y[60:]) for a in alphas}
    best = min(losses, key=lambda a: losses[a].mean())
    differences = {a: losses[a] - losses[best] for a in alphas}
    enough = [a for a in way(alphas, best) if differences[a].mean() <= differences[a].std() / np.sqrt(len(y) - 60)]
    assert tuned.alpha_ == enough[0]
    assert best < enough[0] < 0.99  # the test can tell
    assert tuned.temperature_ == 1.0


def test_temperature_search_finds_the_best_of_the_full_grid():
    X, y = labelled(150, 3.0)
    X = np.column_stack([X, np.random.default_rng(5).normal(size=(150, 3))])
    alphas = np.logspace(-2, 2, 9)
    for C in (4e-3, 1e3):
        model = LogisticRegression(C=C)
        found = RibbonCV(model, alphas=alphas).fit(X, y)
        everywhere = RibbonCV(model, alphas=alphas, temperatures=np.logspace(-0.25, 2, 19)).fit(X, y)
        assert found.temperature_ == pytest.approx(everywhere.temperature_)
        assert found.alpha_ == everywhere.alpha_
        assert len(found.cv_results_["alpha"]) < len(everywhere.cv_results_["alpha"]) == 19 * 9


def test_callable_scorer_receives_the_temperature(noisy_iris):
    X, y = noisy_iris
    settings = {"alphas": [0.3, 1.0, 3.0], "temperatures": [0.7, 1.0, 1.4], "cv": 3}
    ours = RibbonCV(LOGISTIC, scoring="brier", **settings).fit(X, y)
    called = RibbonCV(LOGISTIC, scoring=metrics.neg_brier_scorer, **settings).fit(X, y)
    np.testing.assert_allclose(called.cv_results_["mean_test_score"], -ours.cv_results_["mean_test_brier"], rtol=1e-9)


def test_loo_temperature_search_starts_at_the_ribbon_temperature(noisy_iris):
    X, y = noisy_iris
    settings = {"alphas": [0.3, 1.0, 3.0], "temperatures": [0.7, 1.0, 1.4], "cv": "loo"}
    one, other = (RibbonCV(RibbonClassifier(LOGISTIC, temperature=T), **settings).fit(X, y) for T in (1.0, 2.0))
    np.testing.assert_allclose(one.cv_results_["mean_test_nll"], other.cv_results_["mean_test_nll"], rtol=1e-9)
    assert one.temperature_ == other.temperature_ == other.estimator_.temperature


def test_cv_results_contain_dampings_and_temperatures(noisy_iris):
    X, y = noisy_iris
    tuned = RibbonCV(LOGISTIC, alphas=[0.5, 1.0], temperatures=[0.8, 1.0], dampings=[0.0, 0.1], cv=3).fit(X, y)
    frame = pd.DataFrame(tuned.cv_results_)
    assert frame.groupby(["damping", "temperature", "alpha"]).size().tolist() == [1] * 8
    by_hand = RibbonCV(RibbonClassifier(LOGISTIC, damping=0.1), alphas=[0.5, 1.0], temperatures=[0.8, 1.0], cv=3).fit(
        X, y
    )
    theirs = frame[frame["damping"] == 0.1]["mean_test_nll"]
    np.testing.assert_allclose(theirs, by_hand.cv_results_["mean_test_nll"], rtol=1e-6)


@pytest.mark.parametrize("temperatures", [[], [0.0], [-1.0], [np.nan], [np.inf]])
def test_temperatures_are_checked(noisy_iris, temperatures):
    with pytest.raises(ValueError, match="temperatures must be a non-empty sequence of finite numbers > 0"):
        RibbonCV(LOGISTIC, temperatures=temperatures).fit(*noisy_iris)


def test_regressor_refuses_temperatures(diabetes):
    with pytest.raises(ValueError, match="temperatures are for classifiers"):
        RibbonCV(temperatures=[1.0]).fit(*diabetes)
    assert not hasattr(RibbonCV(alphas=ALPHAS).fit(*diabetes), "temperature_")


def test_tags_and_repr_work_with_estimator_none(diabetes):
    tuned = RibbonCV("not an estimator")
    assert get_tags(tuned).estimator_type is None
    assert repr(tuned) == "RibbonCV(estimator='not an estimator')"
    assert not hasattr(tuned, "predict_interval")
    with pytest.raises(TypeError, match="estimator must be a Ribbon or a base model with a fit method, got 'not an"):
        tuned.fit(*diabetes)


def test_many_classes_are_scored_on_a_subsample(monkeypatch):
    X, y = load_digits(return_X_y=True)
    base = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    options = {"alphas": [0.1, 1.0], "temperatures": [1.0, 2.0], "cv": KFold(3, shuffle=True, random_state=0)}
    whole = RibbonCV(base, **options).fit(X[:600], y[:600])
    monkeypatch.setattr(_alpha_path, "FEWEST_SCORED", 300)
    monkeypatch.setattr(_alpha_path, "MOST_WORK", 1.0)
    some = RibbonCV(base, **options).fit(X[:600], y[:600])
    error = np.abs(some.cv_results_["mean_test_nll"] - whole.cv_results_["mean_test_nll"]).max()
    assert 0 < error < 0.1
    assert len(RibbonCV(base, store_folds=True, **options).fit(X[:600], y[:600]).estimator_._folds_.weight) == 600


@pytest.mark.parametrize("base", [Ridge(), LinearRegression()], ids=["Ridge", "LinearRegression"])
@pytest.mark.parametrize("cv", [5, "loo"])
def test_single_column_target_scores_as_one_dimensional(base, cv):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200)
    ribbon = RibbonRegressor(base, noise="dof", law="normal")
    table, column = (RibbonCV(ribbon, cv=cv).fit(X, target).cv_results_ for target in (y[:, None], y))
    np.testing.assert_allclose(table["mean_test_nll"], column["mean_test_nll"], rtol=1e-9)
    np.testing.assert_allclose(table["mean_test_coverage"], column["mean_test_coverage"], rtol=1e-9)


def test_with_alpha_and_check_linearization_delegate_to_the_fitted_ribbon():
    X, y = load_diabetes(return_X_y=True)
    tuned = RibbonCV(Ridge(), cv=3).fit(X, y)
    moved = tuned.with_alpha(0.1)
    assert moved.alpha == 0.1
    np.testing.assert_array_equal(moved.predict_interval(X), tuned.estimator_.with_alpha(0.1).predict_interval(X))
    ours, theirs = (one.check_linearization(X, y, n_refits=2, random_state=0) for one in (tuned, tuned.estimator_))
    np.testing.assert_array_equal(ours.shifts, theirs.shifts)


class WithoutDamping(RibbonRegressor):
    def __init__(self, estimator=None, alpha=1.0):
        super().__init__(estimator, alpha=alpha, noise="dof")

    @classmethod
    def _get_param_names(cls):
        return ["alpha", "estimator"]


def test_subclass_without_damping_is_tuned():
    X, y = load_diabetes(return_X_y=True)
    tuned = RibbonCV(WithoutDamping(Ridge()), alphas=[0.5, 1.0], cv=2).fit(X, y)
    expected = RibbonCV(RibbonRegressor(Ridge(), noise="dof"), alphas=[0.5, 1.0], cv=2).fit(X, y)
    np.testing.assert_array_equal(tuned.predict_interval(X), expected.predict_interval(X))


def test_hint_for_jackknife_intervals_of_a_tuned_ribbon_works():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="set store_loo=True of the RibbonRegressor"):
        RibbonCV(Ridge(), alphas=[1.0], cv=2).fit(X, y).predict_interval(X, kind="jackknife+")
    tuned = RibbonCV(RibbonRegressor(Ridge(), store_loo=True), alphas=[1.0], cv=2).fit(X, y)
    assert np.isfinite(tuned.predict_interval(X, kind="jackknife+")).all()
