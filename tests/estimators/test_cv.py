"""RibbonCV: path of alphas, choice of parameters, and the scikit-learn interface."""

from typing import get_type_hints

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, metrics
from skribbon._core import thresholds
from skribbon._core.thresholds import MIN_AVERAGING_GAIN, TEMPERATURE_PRIORS
from skribbon._estimators import alpha_path as _alpha_path
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
@pytest.mark.parametrize("averaging", ["closed", "exact"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifier_alpha_path_equals_grid_search(noisy_iris, classes, averaging):
    """A callable scorer needs a Ribbon in each fold, whose closed-form scores equal those of a Ribbon at each alpha."""
    X, y = noisy_iris
    X, y = X[y < classes], y[y < classes]
    cv, alphas, ribbon = KFold(3, shuffle=True, random_state=0), [0.01, 10.0], RibbonClassifier(LOGISTIC)
    ribbon.set_params(averaging=averaging)
    for temperature in (0.5, 3.0):
        ribbon.set_params(temperature=temperature)
        scorers = {name: SCORERS[name] for name in ("nll", "brier")}
        search = GridSearchCV(ribbon, {"alpha": alphas}, scoring=scorers, refit=False, cv=cv).fit(X, y)
        tuned = RibbonCV(ribbon, alphas=alphas, scoring=metrics.neg_nll_scorer, cv=cv).fit(X, y)
        np.testing.assert_array_equal(tuned.cv_results_["temperature"], [temperature] * 2)
        np.testing.assert_array_equal(tuned.cv_results_["alpha"], alphas)
        for scoring in scorers:
            for k in range(3):
                ours = tuned.cv_results_[f"split{k}_test_{scoring}"]
                np.testing.assert_allclose(ours, -search.cv_results_[f"split{k}_test_{scoring}"], rtol=1e-9)


def probit(f, variance):
    """Average of the sigmoid over normal log-odds, by the probit approximation."""
    return expit(f / np.sqrt(1 + np.pi / 8 * variance))


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_named_scores_of_classes_use_refitted_logits_and_one_ribbon(noisy_iris, temperature):
    X, y = noisy_iris
    X, y = X[y > 0], y[y > 0] == 2
    cv, alphas = list(KFold(3, shuffle=True, random_state=0).split(X)), [0.01, 1.0, 10.0]
    ribbon = RibbonClassifier(LOGISTIC, temperature=temperature)
    tuned = RibbonCV(ribbon, alphas=alphas, cv=cv).fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    for a, alpha in enumerate(alphas):
        whole = clone(ribbon).set_params(alpha=alpha).fit(X, y)
        variance = np.einsum("ni,ij,nj->n", rows, whole.covariance_, rows) / temperature**2
        for k, (train, test) in enumerate(cv):
            f = clone(LOGISTIC).fit(X[train], y[train]).decision_function(X[test]) / temperature
            p = np.where(y[test], probit(f, variance[test]), 1 - probit(f, variance[test]))
            assert tuned.cv_results_[f"split{k}_test_nll"][a] == pytest.approx(-np.log(p).mean(), rel=1e-9)
            assert tuned.cv_results_[f"split{k}_test_brier"][a] == pytest.approx(2 * np.mean((1 - p) ** 2), rel=1e-9)
            assert tuned.cv_results_[f"split{k}_test_accuracy"][a] == np.mean(p > 0.5)


def test_named_scores_of_three_classes_use_refitted_logits(noisy_iris):
    X, y = noisy_iris
    cv, whole = list(KFold(3, shuffle=True, random_state=0).split(X)), RibbonClassifier(LOGISTIC, temperature=1.0)
    tuned, distribution = RibbonCV(whole, cv=cv).fit(X, y), whole.fit(X, y).predict_distribution(X)
    for k, (train, test) in enumerate(cv):
        eta = clone(LOGISTIC).fit(X[train], y[train]).decision_function(X[test])
        basis = distribution.loss.output_map
        C = basis @ distribution.latent.covariance[test] @ basis.T
        own = np.einsum("ncc->nc", C)
        variance = own[:, :, None] + own[:, None, :] - 2 * C
        odds = 1 / probit(eta[:, :, None] - eta[:, None, :], variance) - 1
        p = 1 / (1 + odds.sum(axis=2) - np.einsum("ncc->nc", odds))
        p = (p / p.sum(axis=1, keepdims=True))[np.arange(len(test)), y[test]]
        at_one = tuned.cv_results_["alpha"] == 1.0
        assert tuned.cv_results_[f"split{k}_test_nll"][at_one] == pytest.approx(-np.log(p).mean(), rel=1e-9)


def test_callable_and_sklearn_scorers_choose_the_alpha_of_the_built_in_score(diabetes, noisy_iris):
    X, y = diabetes
    cv, alphas = KFold(3, shuffle=True, random_state=0), [0.01, 0.3, 3.0]
    ribbon = RibbonRegressor(Ridge(0.1), correction="HC3")  # scores along the path have no degrees of freedom
    built_in = RibbonCV(ribbon, alphas=alphas, scoring="nll", cv=cv).fit(X, y)
    called = RibbonCV(ribbon, alphas=alphas, scoring=metrics.neg_nll_scorer, cv=cv).fit(X, y)
    assert called.alpha_ == built_in.alpha_
    assert called.best_score_ == pytest.approx(built_in.best_score_, rel=1e-10)
    X, y = noisy_iris
    for temperature in ("auto", 0.5, 1.0):
        ribbon = RibbonClassifier(LOGISTIC, temperature=temperature)
        named = RibbonCV(ribbon, scoring="neg_log_loss", alphas=alphas, cv=3).fit(X, y).cv_results_
        np.testing.assert_allclose(named["mean_test_score"], -named["mean_test_nll"], rtol=1e-9)


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
    with pytest.raises(ValueError, match="cv=1000 needs 1000 samples, got 442"):
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


def with_columns(X, n_columns, seed=3):
    """Rows with further columns of noise."""
    return np.column_stack([X, np.random.default_rng(seed).normal(size=(len(X), n_columns))])


def refitted_log_odds(base, X, y, cv):
    """Log-odds of every row of two classes by the base model fitted without its fold."""
    f = np.empty(len(y))
    for train, test in cv:
        f[test] = clone(base).fit(X[train], y[train]).decision_function(X[test])
    return f


def log_odds_variance(ribbon, X):
    rows = np.column_stack([X, np.ones(len(X))])
    return np.einsum("ni,ij,nj->n", rows, ribbon.covariance_, rows)


def test_underconfident_model_gets_temperature_below_one():
    X, y = labelled(600, 3.0)
    shrunk = LogisticRegression(C=6e-3)
    tuned = RibbonCV(shrunk, alphas=np.logspace(-2, 2, 13)).fit(X, y)
    assert tuned.alpha_ == 1.0
    assert 0.1 < tuned.temperature_ < 0.6
    assert tuned.estimator_.temperature_ == tuned.temperature_
    X_new, y_new = labelled(5000, 3.0, seed=1)
    paper = RibbonClassifier(shrunk, temperature=1.0, averaging="exact").fit(X, y)
    loss = [row_losses(ribbon, X_new, y_new).mean() for ribbon in (tuned, paper)]
    assert loss[0] < loss[1] - 0.02
    off = RibbonCV(RibbonClassifier(shrunk, temperature=1.0)).fit(X, y)
    assert off.temperature_ == 1.0


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
def test_alpha_stays_one_unless_clearly_better():
    """Alpha changes only if held-out rows are better by a standard error, and by 0.005."""
    alphas, kept = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0], []
    cases = ((150, 2.0, 0, 0.05, 1.0), (100, 1.5, 10, 100.0, 1.0), (120, 1.5, 10, 100.0, 0.5), (120, 1.5, 10, 1.0, 0.7))
    for n, slope, n_columns, C, T in cases:
        X, y = labelled(n, slope)
        X, folds = with_columns(X, n_columns), list(KFold(3).split(X))
        ribbon = RibbonClassifier(LogisticRegression(C=C, tol=1e-10, max_iter=5000), temperature=T)
        tuned = RibbonCV(ribbon, alphas=alphas, cv=folds).fit(X, y)
        f, losses = refitted_log_odds(ribbon.estimator, X, y, folds) / T, {}
        for alpha in alphas:
            variance = log_odds_variance(clone(ribbon).set_params(alpha=alpha).fit(X, y), X) / T**2
            losses[alpha] = -np.log(probit(np.where(y == 1, f, -f), variance))
        best = min(losses, key=lambda alpha, losses=losses: losses[alpha].mean())
        gains = losses[1.0] - losses[best]
        reasons = gains.mean() > 0.005, gains.mean() > gains.std() / np.sqrt(n)
        assert best != 1.0
        assert tuned.alpha_ == (best if all(reasons) else 1.0)
        assert tuned.best_score_ == pytest.approx(-losses[tuned.alpha_].mean(), rel=1e-8)
        kept.append((*reasons, tuned.alpha_))
    # each reason alone keeps alpha, so the test can tell
    assert kept == [(False, True, 1.0), (True, False, 1.0), (True, True, 0.1), (True, True, 0.3)]


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
def test_alpha_of_a_fitted_classifier_moves_only_if_clearly_better():
    """A frozen Ribbon has a single fold, so the standard error is computed over rows."""
    X, y = labelled(400, 1.5)
    X, alphas = with_columns(X, 25), np.logspace(-3, 1, 9)
    ribbon = RibbonClassifier(LogisticRegression(C=1.0), alpha=0.3, temperature=1.0).fit(X[:60], y[:60])
    moved = []
    for n_rows in (400, 75):
        rows = slice(60, n_rows)
        tuned = RibbonCV(FrozenEstimator(ribbon), alphas=alphas).fit(X[rows], y[rows])
        losses = {a: row_losses(ribbon.with_alpha(a, temperature=1.0), X[rows], y[rows]) for a in alphas}
        best = min(losses, key=lambda a, losses=losses: losses[a].mean())
        gains = losses[1.0] - losses[best]
        clear = gains.mean() > max(0.005, gains.std() / np.sqrt(len(gains)))
        assert tuned.alpha_ == (best if clear else 1.0)
        assert tuned.temperature_ == 1.0
        moved.append(clear)
    assert moved == [True, False]  # the test can tell


UNDERFIT, NOISY, OFF_CENTRE = (600, 3.0, 0.0, 0, 6e-3), (150, 1.0, 0.0, 20, 100.0), (200, 2.0, 1.5, 8, 100.0)


@pytest.mark.parametrize("case", [UNDERFIT, NOISY, OFF_CENTRE], ids=["underfit", "noisy", "off-centre"])
def test_temperature_minimizes_the_held_out_objective(case):
    """Log loss of rows that refits have not seen, plus the prior on log T, is the least at the bias that was found."""
    n, slope, intercept, n_columns, C = case
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    y = (rng.uniform(size=n) < expit(slope * x + intercept)).astype(int)
    X, base = with_columns(x[:, None], n_columns), LogisticRegression(C=C, tol=1e-10, max_iter=5000)
    cv = list(KFold(4).split(X))
    tuned = RibbonCV(base, alphas=[1.0], cv=cv).fit(X, y)
    f, variance = refitted_log_odds(base, X, y, cv), log_odds_variance(tuned.estimator_, X)
    scaling, sign = tuned.estimator_.scaling_, np.where(y == 1, 1, -1)

    def log_odds(T):
        return (f / T + np.diff(scaling.bias)) / np.sqrt(1 + np.pi / 8 * scaling.averaged * variance / T**2)

    def objective(T):
        return np.logaddexp(0, -sign * log_odds(T)).sum() + TEMPERATURE_PRIORS[0][int(T > 1)] * np.log(T) ** 2 / 2

    grid = np.exp(np.linspace(-2, 5, 1401))
    values = np.array([objective(T) for T in grid]) / n
    T = tuned.temperature_
    assert objective(T) / n < values.min() + 1e-4
    assert np.log(T) == pytest.approx(np.log(grid[values.argmin()]), abs=0.02)
    assert objective(1.0) / n > values.min() + 1e-3  # the test can tell
    assert expit(log_odds(T)).sum() == pytest.approx(expit(f).sum(), rel=1e-4)  # the bias keeps expected counts
    plain = np.logaddexp(0, -sign * f).mean()
    assert scaling.losses["plain"] == pytest.approx(plain, rel=1e-9)
    assert tuned.best_score_ == pytest.approx(-np.logaddexp(0, -sign * log_odds(T)).mean(), rel=1e-9)
    losses = scaling.losses
    chosen = "tempered" if losses["tempered"] < losses["plain"] else "plain"
    chosen = "averaged" if losses["averaged"] < losses[chosen] - MIN_AVERAGING_GAIN else chosen
    assert scaling.averaged == (chosen == "averaged")
    assert -tuned.best_score_ == pytest.approx(losses[chosen], rel=1e-9)


def test_network_keeps_plain_probabilities_unless_clearly_better():
    X, y = labelled(300, 2.0)
    network = MLPClassifier((3,), activation="tanh", solver="lbfgs", alpha=1.0, tol=1e-6, random_state=0)
    for base, plain in ((network, True), (clone(network).set_params(alpha=30.0), False)):
        tuned = RibbonCV(base, alphas=[1.0], cv=4).fit(X, y)
        expected = clone(base).fit(X, y).predict_proba(X)
        assert np.allclose(tuned.predict_proba(X), expected, rtol=1e-9) == plain
        assert (tuned.temperature_ == 1.0) == plain
        losses = tuned.estimator_.scaling_.losses
        assert losses["tempered"] < losses["plain"]  # also if it is not clearly better


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
def test_every_alpha_has_the_temperature_that_it_has_alone():
    X, y = labelled(80, 1.0)
    X, alphas = with_columns(X, 10), [0.01, 0.1, 1.0]
    base = LogisticRegression(C=100.0, max_iter=5000)
    found = RibbonCV(base, alphas=alphas, cv=4).fit(X, y).cv_results_["temperature"]
    alone = [RibbonCV(base, alphas=[alpha], cv=4).fit(X, y).temperature_ for alpha in alphas]
    np.testing.assert_allclose(found, alone, rtol=1e-9)
    assert len(set(found)) == 3  # the test can tell


def test_callable_scorer_receives_the_temperature(noisy_iris):
    X, y = noisy_iris
    for temperature in ("auto", 0.7, 1.4):
        ribbon = RibbonClassifier(LOGISTIC, temperature=temperature)
        settings = {"alphas": [0.3, 1.0, 3.0], "cv": 3}
        called = RibbonCV(ribbon, scoring=metrics.neg_brier_scorer, **settings).fit(X, y).cv_results_
        assert (called["temperature"] != 1.0).all()
        np.testing.assert_allclose(called["mean_test_score"], -called["mean_test_brier"], rtol=1e-9)


def test_loo_temperature_is_the_choice_of_the_ribbon_itself(noisy_iris):
    X, y = noisy_iris
    tuned = RibbonCV(LOGISTIC, alphas=[0.3, 1.0, 3.0], cv="loo").fit(X, y)
    ribbon = RibbonClassifier(LOGISTIC, alpha=tuned.alpha_).fit(X, y)
    assert (ribbon.held_out_.origin, tuned.held_out_.origin) == ("loo", "loo")
    assert tuned.temperature_ == pytest.approx(ribbon.temperature_, rel=1e-9)
    np.testing.assert_allclose(tuned.predict_proba(X), ribbon.predict_proba(X), rtol=1e-9)


def test_temperature_of_a_fitted_classifier_does_not_depend_on_its_own_choice(noisy_iris):
    X, y = noisy_iris
    one = RibbonClassifier(LOGISTIC).fit(X[::2], y[::2])
    other = one.with_alpha(1.0, temperature=5.0).set_params(temperature="auto")
    found = [RibbonCV(FrozenEstimator(ribbon)).fit(X[1::2], y[1::2]) for ribbon in (one, other)]
    np.testing.assert_allclose(found[0].cv_results_["mean_test_nll"], found[1].cv_results_["mean_test_nll"], rtol=1e-9)
    assert found[0].temperature_ == found[1].temperature_ == found[1].estimator_.temperature_
    assert found[0].alpha_ == found[1].alpha_


@pytest.mark.parametrize("temperature", ["warm", 0.0, -1.0, np.nan, np.inf])
def test_temperature_is_checked(noisy_iris, temperature):
    with pytest.raises(ValueError, match="temperature must be 'auto' or a finite number > 0"):
        RibbonCV(RibbonClassifier(LOGISTIC, temperature=temperature)).fit(*noisy_iris)


def test_regressor_has_no_temperature(diabetes):
    tuned = RibbonCV(alphas=ALPHAS).fit(*diabetes)
    assert not hasattr(tuned, "temperature_")
    assert "temperature" not in tuned.cv_results_


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.SeparationWarning")
@pytest.mark.parametrize("temperature", ["auto", 1.0])
def test_loo_refuses_separable_classes(temperature):
    X = with_columns(labelled(100, 1.0)[0], 3)
    y = (X[:, 0] > 0).astype(int)
    loose = RibbonClassifier(LogisticRegression(C=1e5, solver="newton-cholesky", tol=1e-10), temperature=temperature)
    with pytest.raises(ValueError, match=r"the classes are separable\. Use folds, cv=5"):
        RibbonCV(loose, cv="loo").fit(X, y)
    assert np.isfinite(RibbonCV(loose, cv=5).fit(X, y).predict_proba(X)).all()  # the cure works


FITS = []


class RememberingLogistic(LogisticRegression):
    """LogisticRegression that appends the training rows of all its clones to FITS."""

    def fit(self, X, y, sample_weight=None):
        FITS.append(X)
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.mark.parametrize(("n", "n_refits"), [(200, 5), (12_000, 3)])
def test_classifier_is_fitted_once_and_for_each_fold(n, n_refits):
    X, y = labelled(n, 1.0)
    FITS.clear()
    tuned = RibbonCV(RememberingLogistic()).fit(X, y)
    assert [round(5 * len(rows) / n, 2) for rows in FITS] == [5] + [4] * n_refits  # fifths of the rows
    assert (tuned.held_out_.origin, tuned.held_out_.n_fits) == ("folds", n_refits)
    assert tuned.held_out_.n_rows == pytest.approx(min(n, 5000), rel=0.01)


def test_number_of_folds_is_the_number_of_refits():
    X, y = labelled(12_000, 1.0)
    FITS.clear()
    RibbonCV(RememberingLogistic(), cv=4).fit(X, y)
    assert [round(4 * len(rows) / 12_000, 2) for rows in FITS] == [4] + [3] * 4  # quarters of the rows


def test_refits_of_classifiers_keep_groups_together():
    X, y = labelled(300, 1.0)
    groups = np.random.default_rng(0).integers(40, size=300)
    X = np.column_stack([X, groups])
    FITS.clear()
    tuned = RibbonCV(RememberingLogistic(max_iter=1000)).fit(X, y, groups=groups)
    whole, *refits = [np.bincount(rows[:, 1].astype(int), minlength=40) for rows in FITS]
    assert len(refits) == tuned.held_out_.n_fits == 5
    assert all(((found == 0) | (found == whole)).all() for found in refits)
    assert (sum(found == 0 for found in refits) == 1).all()  # every group is held out once


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
    options = {"alphas": [0.1, 1.0], "cv": KFold(3, shuffle=True, random_state=0)}
    whole = RibbonCV(base, **options).fit(X[:600], y[:600])
    assert whole.held_out_.n_rows == 600
    monkeypatch.setattr(thresholds, "FEWEST_SCALING_ROWS", 300)
    monkeypatch.setattr(thresholds, "SCALING_WORK", 1.0)
    some = RibbonCV(base, **options).fit(X[:600], y[:600])
    assert some.held_out_.n_rows == 300
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
    assert get_type_hints(RibbonCV.with_alpha)["return"] == RibbonRegressor | RibbonClassifier
    assert isinstance(moved, RibbonRegressor)
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


@pytest.mark.parametrize("classifier", [False, True])
def test_fewer_groups_than_folds_are_refused_with_a_cure(diabetes, classifier):
    X, y = diabetes
    ribbon, y = (RibbonClassifier(), y > 140) if classifier else (RibbonRegressor(), y)
    with pytest.raises(ValueError, match=r"cv=5 needs 5 groups, got 3 .*cv=3"):
        RibbonCV(ribbon).fit(X, y, groups=np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match=r"cv=4 needs 4 groups, got 1|Fit without groups"):
        RibbonCV(ribbon, cv=4).fit(X, y, groups=np.zeros(len(y)))
    assert RibbonCV(ribbon, cv=3).fit(X, y, groups=np.arange(len(y)) % 3).held_out_.n_fits == 3
