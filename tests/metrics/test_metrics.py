"""Metrics against scoringrules, scikit-learn and Monte Carlo; scorers inside scikit-learn's own searches."""

import copy
import pickle

import numpy as np
import pytest
import scoringrules
from scipy import stats
from sklearn import config_context
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, metrics


@pytest.fixture(scope="module")
def normal():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=300), rng.uniform(0.5, 2.0, size=300)
    return mean + std * rng.standard_normal(300), mean, std, rng.integers(1, 4, size=300)


def repeated(weights, *arrays):
    return [np.repeat(a, weights, axis=0) for a in arrays]


def test_gaussian_scores_agree_with_scoringrules(normal):
    y, mean, std, _ = normal
    assert metrics.crps_gaussian(y, mean, std) == pytest.approx(
        scoringrules.crps_normal(y, mean, std).mean(), rel=1e-10
    )
    assert metrics.gaussian_nll(y, mean, std) == pytest.approx(scoringrules.logs_normal(y, mean, std).mean(), rel=1e-10)


def test_interval_score_agrees_with_scoringrules(normal):
    y, mean, std, _ = normal
    interval = np.column_stack([mean - std, mean + 0.5 * std])
    theirs = scoringrules.interval_score(y, *interval.T, alpha=0.2).mean()
    assert metrics.mean_interval_score(y, interval, confidence_level=0.8) == pytest.approx(theirs, rel=1e-10)


def test_crps_of_draws_agrees_with_scoringrules_and_tends_to_the_closed_form(normal):
    y, mean, std, _ = normal
    draws = mean + std * np.random.default_rng(1).standard_normal((4000, len(y)))
    ours = metrics.crps_samples(y, draws)
    assert ours == pytest.approx(scoringrules.crps_ensemble(y, draws.T).mean(), rel=1e-10)
    assert ours == pytest.approx(metrics.crps_gaussian(y, mean, std), abs=4 * std.max() / np.sqrt(draws.size))


def test_integer_weights_repeat_rows(normal):
    y, mean, std, w = normal
    interval = np.column_stack([mean - std, mean + std])
    for metric, args in [
        (metrics.interval_coverage_score, (y, interval)),
        (metrics.mean_interval_width, (y, interval)),
        (metrics.mean_interval_score, (y, interval)),
        (metrics.gaussian_nll, (y, mean, std)),
        (metrics.crps_gaussian, (y, mean, std)),
    ]:
        assert metric(*args, sample_weight=w) == pytest.approx(metric(*repeated(w, *args)), rel=1e-12)
    proba = np.column_stack([stats.norm.cdf(mean), stats.norm.sf(mean)])
    weighted = metrics.expected_calibration_error(y > 0, proba, sample_weight=w)
    assert weighted == pytest.approx(metrics.expected_calibration_error(*repeated(w, y > 0, proba)), rel=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_calibration_error_of_calibrated_and_overconfident_probabilities(strategy):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1.0, size=200_000)
    y = np.where(rng.uniform(size=p.size) < p, 1, 0)
    honest, sure = np.column_stack([1 - p, p]), np.column_stack([np.zeros_like(p), np.ones_like(p)])
    # each of at most 15 bins is off by about its own standard error
    assert metrics.expected_calibration_error(y, honest, strategy=strategy) < 4 * np.sqrt(15 * 0.25 / p.size)
    assert metrics.expected_calibration_error(y, sure, strategy=strategy) == pytest.approx(1 - y.mean(), rel=1e-12)


def test_equal_width_calibration_error_by_hand():
    y = np.array([1, 0, 1, 1, 0, 1])
    p = np.array([0.95, 0.92, 0.71, 0.71, 0.65, 0.55])
    proba = np.column_stack([1 - p, p])
    bins = [(2, 0.5, 0.935), (2, 1.0, 0.71), (1, 0.0, 0.65), (1, 1.0, 0.55)]  # count, accuracy, confidence
    by_hand = sum(n / 6 * abs(accuracy - confidence) for n, accuracy, confidence in bins)
    assert metrics.expected_calibration_error(y, proba, n_bins=10) == pytest.approx(by_hand, rel=1e-12)


def test_bad_metric_input_is_named():
    with pytest.raises(ValueError, match="two columns"):
        metrics.interval_coverage_score([1.0], [[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="lower bound above"):
        metrics.mean_interval_width([1.0], [[2.0, 1.0]])
    with pytest.raises(ValueError, match="y_std must be positive"):
        metrics.gaussian_nll([1.0], [1.0], [0.0])
    with pytest.raises(ValueError, match="labels"):
        metrics.expected_calibration_error([0, 0], [[0.5, 0.5], [0.6, 0.4]])
    with pytest.raises(ValueError, match="strategy"):
        metrics.expected_calibration_error([0, 1], [[0.5, 0.5], [0.6, 0.4]], strategy="other")
    with pytest.raises(ValueError, match="metric must be"):
        metrics.make_interval_scorer("sharpness")
    for score in (metrics.expected_calibration_error, metrics.reliability_curve):
        with pytest.raises(ValueError, match="y_true has classes that are not among the labels"):
            score([0, 2], [[0.5, 0.5], [0.6, 0.4]], labels=[0, 1])
        for wrong in ([[-0.1, 1.1], [0.6, 0.4]], [[50, 50], [60, 40]], [0.5, 1.2]):
            with pytest.raises(ValueError, match="y_proba must lie between 0 and 1"):
                score([0, 1], wrong)
    for missing in ([np.nan, 1.0], [[np.nan, 1.0], [1.0, 1.0]]):
        for score in (metrics.gaussian_nll, metrics.crps_gaussian):
            with pytest.raises(ValueError, match="y_true contains NaN"):
                score(missing, np.ones_like(missing), np.ones_like(missing))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, -1.0], "must not be negative"),
        ([np.nan, 1.0], "contains NaN"),
        ([0.0, 0.0], "non-zero"),
        ([1.0], "shape"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    y, interval = [1.0, 2.0], [[0, 2], [1, 5]]
    for call in (
        lambda: metrics.interval_coverage_score(y, interval, sample_weight=weight),
        lambda: metrics.mean_interval_score(y, interval, sample_weight=weight),
        lambda: metrics.coverage_by_group(y, interval, [0, 1], sample_weight=weight),
        lambda: metrics.coverage_by_width(y, interval, sample_weight=weight),
        lambda: metrics.gaussian_nll(y, y, y, sample_weight=weight),
        lambda: metrics.expected_calibration_error([0, 1], [0.5, 0.6], sample_weight=weight),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_pit_is_uniform_under_the_right_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(4000)
    ribbon = RibbonRegressor().fit(X[:2000], y[:2000])
    pit = metrics.pit_values(ribbon, X[2000:], y[2000:])
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    levels, coverage = metrics.coverage_curve(ribbon, X[2000:], y[2000:])
    assert np.abs(coverage - levels).max() < 4 * np.sqrt(0.25 / 2000)


def test_scorers_agree_with_the_metrics():
    X, y = load_diabetes(return_X_y=True)
    ribbon = RibbonRegressor(Ridge(0.1), correction="HC3").fit(X, y)  # normal, without degrees of freedom
    mean, std = ribbon.predict(X, return_std=True)
    assert metrics.neg_nll_scorer(ribbon, X, y) == pytest.approx(-metrics.gaussian_nll(y, mean, std), rel=1e-10)
    # the scorer averages 99 quantiles: a midpoint rule
    assert metrics.neg_crps_scorer(ribbon, X, y) == pytest.approx(-metrics.crps_gaussian(y, mean, std), rel=3e-3)
    interval = ribbon.predict_interval(X, confidence_level=0.9)
    covered = metrics.interval_coverage_score(y, interval)
    assert metrics.coverage_scorer(ribbon, X, y) == covered
    assert metrics.neg_coverage_error_scorer(ribbon, X, y) == -abs(covered - 0.9)
    width = metrics.make_interval_scorer("width", confidence_level=0.5)
    assert width(ribbon, X, y) == pytest.approx(-2 * stats.norm.ppf(0.75) * std.mean(), rel=1e-10)

    X, y = load_iris(return_X_y=True)
    ribbon = RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
    proba = ribbon.predict_proba(X)
    assert metrics.neg_nll_scorer(ribbon, X, y) == pytest.approx(-log_loss(y, proba))
    assert metrics.neg_brier_scorer(ribbon, X, y) == pytest.approx(-brier_score_loss(y, proba))


def test_crps_scorer_of_counts_agrees_with_draws():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 1))
    ribbon = RibbonRegressor(PoissonRegressor(alpha=1e-3)).fit(X, y)
    draws = ribbon.predict_samples(X, n_samples=2000, random_state=0)
    assert -metrics.neg_crps_scorer(ribbon, X, y) == pytest.approx(metrics.crps_samples(y, draws), rel=0.02)


def test_grid_search_over_alpha_and_over_the_base_model():
    X, y = load_diabetes(return_X_y=True)
    grid = {"alpha": [0.01, 1.0, 100.0], "estimator__alpha": [0.01, 1.0]}
    search = GridSearchCV(RibbonRegressor(Ridge()), grid, scoring=metrics.neg_nll_scorer, cv=3).fit(X, y)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 6  # every candidate matters to the score
    assert search.best_params_["alpha"] != 0.01  # a hundred times the bootstrap's variance is worse


def test_several_scorers_at_once_inside_and_around_a_pipeline():
    X, y = load_diabetes(return_X_y=True)
    scoring = {
        "nll": metrics.neg_nll_scorer,
        "coverage": metrics.make_interval_scorer("coverage", confidence_level=0.8),
    }
    around = GridSearchCV(
        RibbonRegressor(make_pipeline(StandardScaler(), Ridge())),
        {"alpha": [0.1, 1.0]},
        scoring=scoring,
        refit="nll",
        cv=3,
    ).fit(X, y)
    assert {"mean_test_nll", "mean_test_coverage"} <= set(around.cv_results_)
    assert around.best_estimator_.predict_interval(X).shape == (len(y), 2)


REGRESSION_SCORERS = ("neg_nll", "neg_crps", "coverage", "neg_coverage_error", "neg_interval_score")


@pytest.mark.parametrize("name", REGRESSION_SCORERS)
def test_scorers_look_through_pipelines_and_searches(name):
    X, y = load_diabetes(return_X_y=True)
    scorer, scaler = getattr(metrics, f"{name}_scorer"), StandardScaler()
    inside = make_pipeline(scaler, make_pipeline("passthrough", RibbonRegressor(Ridge())))
    around = RibbonRegressor(make_pipeline(scaler, Ridge()))
    np.testing.assert_allclose(*(cross_val_score(one, X, y, scoring=scorer, cv=3) for one in (inside, around)))
    search = GridSearchCV(inside, {"pipeline__ribbonregressor__alpha": [0.1, 1.0]}, scoring=scorer, cv=3).fit(X, y)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 2
    assert scorer(search, X, y) == scorer(search.best_estimator_[-1][-1], search.best_estimator_[0].transform(X), y)


@pytest.mark.parametrize("scorer", [metrics.neg_nll_scorer, metrics.neg_brier_scorer, metrics.neg_ece_scorer])
def test_scorers_of_classifiers_look_through_a_pipeline(scorer):
    X, y = load_iris(return_X_y=True)
    inside = make_pipeline(StandardScaler(), RibbonClassifier(LogisticRegression()))
    around = RibbonClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    np.testing.assert_allclose(*(cross_val_score(one, X, y, scoring=scorer, cv=3) for one in (inside, around)))


def test_coverage_scorer_is_refused_for_tuning():
    with pytest.raises(ValueError, match="would choose the widest intervals; use 'coverage'"):
        RibbonCV(scoring=metrics.coverage_scorer).fit(*load_diabetes(return_X_y=True))


def test_scorers_in_cross_validate_and_after_pickling():
    X, y = load_iris(return_X_y=True)
    scoring = {"brier": metrics.neg_brier_scorer, "ece": metrics.neg_ece_scorer, "nll": metrics.neg_nll_scorer}
    results = cross_validate(RibbonClassifier(LogisticRegression(max_iter=1000)), X, y, scoring=scoring, cv=3)
    assert np.isfinite([results["test_brier"], results["test_ece"], results["test_nll"]]).all()
    scorer = metrics.make_interval_scorer("width", confidence_level=0.5)
    assert pickle.loads(pickle.dumps(scorer)).confidence_level == 0.5
    assert pickle.loads(pickle.dumps(metrics.neg_nll_scorer)) is metrics.neg_nll_scorer
    assert "width" in repr(scorer)


SCORERS = [metrics.neg_nll_scorer, metrics.make_interval_scorer("width")]


def weighted_fits(scorer):
    """Scores of three folds, weighted as the scorer asks for, and those that follow from fits by hand."""
    X, y = load_diabetes(return_X_y=True)
    weight = np.random.default_rng(0).exponential(size=len(y))
    folds = list(KFold(3).split(X))
    ribbon = RibbonRegressor().set_fit_request(sample_weight=True)
    results = cross_validate(ribbon, X, y, scoring=scorer, cv=folds, params={"sample_weight": weight})
    fits = [(RibbonRegressor().fit(X[a], y[a], weight[a]), X[b], y[b], weight[b]) for a, b in folds]
    return results, fits


def by_hand(scorer, fit, weighted):
    """Score of a fitted Ribbon by the density or the width of single rows."""
    ribbon, X, y, weight = fit
    rows = ribbon.log_density(X, y) if scorer is SCORERS[0] else -np.diff(ribbon.predict_interval(X, 0.9), axis=1)[:, 0]
    return np.average(rows, weights=weight if weighted else None)


@pytest.mark.parametrize("scorer", SCORERS, ids=["function", "interval"])
def test_scorers_request_weights_under_metadata_routing(scorer):
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            weighted_fits(scorer)
        for request in (True, False):
            asking = scorer.set_score_request(sample_weight=request)
            for same in (asking, pickle.loads(pickle.dumps(asking)), copy.deepcopy(asking)):
                results, fits = weighted_fits(same)
                np.testing.assert_allclose(results["test_score"], [by_hand(scorer, fit, request) for fit in fits])
        several, _ = weighted_fits({"ours": scorer.set_score_request(sample_weight=True)})
        np.testing.assert_allclose(several["test_ours"], [by_hand(scorer, fit, True) for fit in fits])
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):  # others' scorer is as before
            weighted_fits(scorer)
    assert pickle.loads(pickle.dumps(asking)).request is False  # also where routing is not enabled
    with pytest.raises(RuntimeError, match="enable_metadata_routing"):
        scorer.set_score_request(sample_weight=True)


@pytest.mark.parametrize("scorer", SCORERS, ids=["function", "interval"])
@pytest.mark.parametrize("routing", [False, True])
def test_grid_search_passes_weights_to_scorers(scorer, routing):
    X, y = load_diabetes(return_X_y=True)
    weight = np.random.default_rng(0).exponential(size=len(y))
    folds = list(KFold(3).split(X))
    with config_context(enable_metadata_routing=routing):
        ribbon = RibbonRegressor().set_fit_request(sample_weight=True) if routing else RibbonRegressor()
        if routing:
            with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
                GridSearchCV(ribbon, {"alpha": [1.0]}, scoring=scorer, cv=folds).fit(X, y, sample_weight=weight)
        asking = scorer.set_score_request(sample_weight=True) if routing else scorer
        for scoring in (asking, {"ours": asking}):
            search = GridSearchCV(ribbon, {"alpha": [1.0]}, scoring=scoring, cv=folds, refit=False)
            search.fit(X, y, sample_weight=weight)
    fits = [(RibbonRegressor().fit(X[a], y[a], weight[a]), X[b], y[b], weight[b]) for a, b in folds]
    # without routing, older searches pass no weights to any scorer
    weighted = routing or hasattr(GridSearchCV, "_check_scorers_accept_sample_weight")
    scores = [search.cv_results_[f"split{i}_test_ours"][0] for i in range(3)]
    np.testing.assert_allclose(scores, [by_hand(scorer, fit, weighted) for fit in fits])


def test_scorers_take_a_tuned_ribbon():
    X, y = load_diabetes(return_X_y=True)
    tuned = RibbonCV(Ridge(0.1), alphas=[0.1, 1.0, 10.0], scoring="nll").fit(X, y)
    assert np.isfinite([metrics.neg_nll_scorer(tuned, X, y), metrics.neg_crps_scorer(tuned, X, y)]).all()


@pytest.mark.parametrize("scorer", [metrics.neg_crps_scorer, metrics.coverage_scorer], ids=["crps", "coverage"])
def test_regression_scorers_refuse_classifiers(scorer):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match=r"RibbonClassifier has none; wrap .* score classifiers with neg_nll_scorer"):
        scorer(RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y), X, y)


def test_likelihood_scorer_refuses_a_plain_regressor():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(TypeError, match=r"neg_nll_scorer needs log_density, but Ridge has none; wrap the model"):
        metrics.neg_nll_scorer(Ridge().fit(X, y), X, y)


@pytest.mark.parametrize("name", ["neg_brier_scorer", "neg_ece_scorer"])
def test_scorers_of_classifiers_refuse_regressors(name):
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(TypeError, match=f"{name} needs predict_proba, but RibbonRegressor has none.*regressors with"):
        getattr(metrics, name)(RibbonRegressor().fit(X, y), X, y)


def test_probabilities_of_the_second_class_suffice():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    y = np.where(rng.uniform(size=200) < p, "yes", "no")
    both = np.column_stack([1 - p, p])
    assert metrics.expected_calibration_error(y, p) == metrics.expected_calibration_error(y, both)
    np.testing.assert_array_equal(metrics.reliability_curve(y, p), metrics.reliability_curve(y, both))
    with pytest.raises(ValueError, match="2 columns for 3 labels"):
        metrics.expected_calibration_error(np.arange(200) % 3, p)
