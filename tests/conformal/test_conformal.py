"""Conformal intervals: ranks, guarantee and interface.

The promise is a matter of counting, so it is tested by counting. Of a pool of m + 1 rows, each is the new one once and
the others calibrate: if scores differ, exactly ceil((m + 1) level) of them must be covered, whatever the model is.
"""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import GammaRegressor, LinearRegression, PoissonRegressor, Ridge, TweedieRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, QuantileTransformer, StandardScaler

from skribbon import RibbonCV, RibbonRegressor
from skribbon.baselines import LaplaceRegressor
from skribbon.conformal import conformal_quantile
from skribbon.conformal.calibration import SCORES, ResidualScore, outward
from skribbon.exceptions import CalibrationWarning

NETWORK = MLPRegressor(hidden_layer_sizes=5, solver="lbfgs", alpha=1.0, max_iter=2000, random_state=0)
POOL = 24
LEVEL = 0.8


def draw(n, rng, of="normal"):
    X = rng.normal(size=(n, 3))
    f = 0.5 * X[:, 0] + 0.3 * X[:, 1] ** 2  # no linear model is right
    noise = rng.standard_normal(n) * np.exp(0.5 * X[:, 2])
    values = {"normal": f + noise, "positive": np.exp(f + noise), "counts": rng.poisson(np.exp(1 + f)).astype(float)}
    return X, values[of]


CASES = {
    "ridge": (RibbonRegressor(Ridge()), "normal"),
    "empirical": (RibbonRegressor(Ridge(), law="empirical"), "normal"),
    "draws": (RibbonRegressor(predictive="pushforward", n_draws=30, random_state=0), "normal"),
    "draws without noise": (RibbonRegressor(predictive="direct", noise=0.0, n_draws=30, random_state=0), "normal"),
    "far too sure": (RibbonRegressor(noise=1e-8, alpha=1e6), "normal"),
    "log": (RibbonRegressor(TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp)), "positive"),
    "falling": (
        RibbonRegressor(TransformedTargetRegressor(func=lambda y: -np.log(y), inverse_func=lambda t: np.exp(-t))),
        "positive",
    ),
    "gamma": (RibbonRegressor(GammaRegressor()), "positive"),
    "network": (
        RibbonRegressor(MLPRegressor(hidden_layer_sizes=5, solver="lbfgs", alpha=1.0, max_iter=2000, random_state=0)),
        "normal",
    ),
    "pipeline": (RibbonRegressor(make_pipeline(StandardScaler(), Ridge())), "normal"),
    "frozen": (RibbonRegressor(FrozenEstimator(Ridge().fit(*draw(60, np.random.default_rng(0))))), "normal"),
    "tuned": (RibbonCV(Ridge(), cv="loo"), "normal"),
    "laplace": (LaplaceRegressor(), "normal"),
    "poisson": (RibbonRegressor(PoissonRegressor()), "counts"),
    "tweedie": (RibbonRegressor(TweedieRegressor(power=1.5)), "counts"),
}
DISCRETE = ("poisson", "tweedie")


def fitted(name, seed=0):
    rng = np.random.default_rng(seed)
    ribbon, of = CASES[name]
    return clone(ribbon).fit(*draw(60, rng, of)), *draw(POOL, rng, of)


def each_once(ribbon, X, y, level, conformalize, predict, **settings):
    """Whether each row is in the interval that all the others calibrate."""
    covered = np.empty(len(y), dtype=bool)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        told = {name: value[others] for name, value in conformalize.items()}
        ribbon.conformalize(X[others], y[others], **told, **settings)
        one = {name: value[[i]] for name, value in predict.items()}
        lower, upper = ribbon.predict_interval(X[[i]], level, kind="conformal", **one)[0]
        covered[i] = lower <= y[i] <= upper
    return covered


# ---------------------------------------------------------------------- ranks
def by_definition(scores, level, weight, new):
    """Smallest score at which the weights reach the level, with the new row's score at infinity."""
    for s in np.sort(scores):
        if weight[scores <= s].sum() >= level * (weight.sum() + new) - 1e-9:
            return s
    return np.inf


@pytest.mark.parametrize("weighted", [False, True])
def test_quantile_equals_its_definition(weighted):
    rng = np.random.default_rng(0)
    for m in (1, 2, 9, 10, 19, 40):
        scores = rng.integers(0, 15, size=m) + 0.5  # some of them tied
        weight, new = (rng.exponential(size=m), rng.exponential(size=5)) if weighted else (np.ones(m), np.ones(5))
        levels = [0.05, 0.1, 0.5, 0.9, 0.95]
        ours = conformal_quantile(scores, levels, weight if weighted else None, new)
        expected = [[by_definition(scores, level, weight, v) for level in levels] for v in new]
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("m", [19, 20, 99])
def test_rank_at_levels_without_exact_binary_representation(m):
    scores = np.arange(1.0, m + 1)
    for hundredths in range(5, 100, 5):
        rank = -(-(m + 1) * hundredths // 100)  # whole numbers: no rounding
        assert conformal_quantile(scores, hundredths / 100) == (rank if rank <= m else np.inf)


# ---------------------------------------------------------------------- guarantee
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", CASES)
def test_coverage_equals_the_guaranteed_share(name, score):
    ribbon, X, y = fitted(name)
    share = each_once(ribbon, X, y, LEVEL, {}, {}, score=score).mean()
    promised = np.ceil(POOL * LEVEL) / POOL
    if name in DISCRETE and score == "distribution":
        assert share >= promised
    else:
        assert share == promised


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", ["ridge", "far too sure", "log", "falling", "gamma", "poisson"])
def test_one_sided_bounds_cover_the_guaranteed_share(name, score):
    ribbon, X, y = fitted(name)
    y = y + 3 if name in ("ridge", "far too sure") else y  # so that most rows lie on one side of what is predicted
    quantiles, held = [0.1, 0.3, 0.5, 0.7, 0.9], []
    for i in range(POOL):
        others = np.arange(POOL) != i
        ribbon.conformalize(X[others], y[others], score=score)
        bounds = ribbon.predict_quantiles(X[[i]], quantiles, kind="conformal")[0]
        assert (np.diff(bounds) >= 0).all()
        held.append(np.where(np.array(quantiles) < 0.5, y[i] >= bounds, y[i] <= bounds))
    promised = np.ceil(POOL * np.array([0.9, 0.7, 0.5, 0.7, 0.9]) - 1e-9) / POOL
    if name == "poisson" and score == "distribution":
        assert (np.mean(held, axis=0) >= promised).all()
    else:
        np.testing.assert_array_equal(np.mean(held, axis=0), promised)


def test_one_sided_bounds_within_groups():
    ribbon, X, y = fitted("ridge")
    groups = np.array(["a"] * 12 + ["b"] * 12)
    ribbon.conformalize(X, np.where(groups == "b", y + 100, y), groups=groups)
    bounds = ribbon.predict_quantiles(X[[0, 0]], [0.2, 0.8], kind="conformal", groups=["a", "b"])
    assert (bounds[1] - bounds[0] > 50).all()


def test_coverage_is_guaranteed_within_groups():
    ribbon, X, y = fitted("ridge")
    groups = np.array(["a"] * 15 + ["b"] * 9)
    y = np.where(groups == "b", 30 * y, y)  # of which a marginal promise would miss nearly all
    covered = each_once(ribbon, X, y, 0.6, {"groups": groups}, {"groups": groups})
    assert covered[:15].mean() == 9 / 15  # ceil(15 * 0.6)
    assert covered[15:].mean() == 6 / 9  # ceil(9 * 0.6)


def test_coverage_is_guaranteed_within_bins_of_predicted_std():
    ribbon, X, y = fitted("pipeline")
    std = ribbon.predict_distribution(X).std()
    edge = np.sort(std)[13:15].mean()
    wide = std > edge
    y = np.where(wide, 30 * y, y)
    covered = each_once(ribbon, X, y, 0.6, {}, {}, bins=[edge])
    assert covered[~wide].sum() == np.ceil(0.6 * (~wide).sum())
    assert covered[wide].sum() == np.ceil(0.6 * wide.sum())


def test_integer_bins_have_equal_numbers_of_rows():
    ribbon, X, y = fitted("ridge")
    ribbon.conformalize(X, y, bins=3)
    np.testing.assert_array_equal(np.sort(np.bincount(ribbon.conformal_.group)), [8, 8, 8])


def test_weights_restore_coverage_under_covariate_shift():
    ribbon, X, y = fitted("ridge")
    weight = np.random.default_rng(1).uniform(0.5, 2, size=POOL)  # the new row is i with a probability like this
    covered = each_once(ribbon, X, y, LEVEL, {"sample_weight": weight}, {"sample_weight": weight})
    share = weight @ covered / weight.sum()
    assert LEVEL <= share <= LEVEL + weight.max() / weight.sum()


def test_integer_weights_equal_repeated_rows():
    ribbon, X, y = fitted("ridge")
    copies = np.random.default_rng(0).integers(0, 4, size=POOL)
    levels = [0.3, 0.6, 0.9]
    one = ribbon.conformalize(X, y, copies).predict_interval(X, levels, kind="conformal")
    other = ribbon.conformalize(X.repeat(copies, axis=0), y.repeat(copies)).predict_interval(
        X, levels, kind="conformal"
    )
    np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------------- shape of intervals
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.FamilyWarning")
@pytest.mark.parametrize("name", ["ridge", "log", "falling", "gamma"])
def test_distribution_intervals_have_equal_predictive_tails(name):
    ribbon, X, y = fitted(name)
    ribbon.conformalize(X, y)
    interval = ribbon.predict_interval(X, LEVEL, kind="conformal")
    distribution = ribbon.predict_distribution(X)
    tails = distribution.cdf(interval[:, 0]), 1 - distribution.cdf(interval[:, 1])
    threshold = np.sort(np.abs(distribution.cdf(y) - 0.5))[int(np.ceil((POOL + 1) * LEVEL)) - 1]
    np.testing.assert_allclose(tails, np.full((2, POOL), 0.5 - threshold), rtol=1e-5)


def test_bound_at_an_observation_contains_it_despite_rounding():
    rng = np.random.default_rng(0)
    centre, y = rng.normal(size=(2, 10_000))
    distance = np.abs(y - centre)
    assert ((y < centre - distance) | (y > centre + distance)).any()
    reach = outward(distance, centre)
    assert ((centre - reach <= y) & (y <= centre + reach)).all()
    np.testing.assert_allclose(reach, distance, rtol=1e-10, atol=1e-14)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_count_intervals_contain_all_counts_up_to_the_threshold():
    rng = np.random.default_rng(0)
    X = np.eye(4)[rng.integers(4, size=300)]  # the same few laws, so that scores are tied
    y = rng.poisson(X @ [0.2, 1.0, 4.0, 60.0]).astype(float)
    ribbon = RibbonRegressor(PoissonRegressor(alpha=1e-3)).fit(X[:200], y[:200]).conformalize(X[200:], y[200:])

    def tail(X, y):  # what is left from y on, on the side where less is left
        upto, below = ribbon.predictive_cdf(X, y), np.where(y > 0, ribbon.predictive_cdf(X, np.maximum(y - 1, 0)), 0)
        return np.minimum(np.minimum(upto, 1 - below), 0.5)

    levels, counts = [0.3, 0.6, 0.9], np.arange(150.0)
    thresholds = -np.sort(-tail(X[200:], y[200:]))[[31 - 1, 61 - 1, 91 - 1]]  # ceil(101 level)
    for x in np.eye(4):
        tails = tail(np.tile(x, (150, 1)), counts)
        interval = ribbon.predict_interval(x[None], levels, kind="conformal")[0]
        for k in range(3):
            inside = counts[tails >= thresholds[k] * (1 - 1e-7)]
            if len(inside):  # else the median is there all the same
                np.testing.assert_array_equal(interval[:, k], [inside.min(), inside.max()])


def test_count_intervals_are_non_negative_integers():
    ribbon, X, y = fitted("poisson")
    interval = ribbon.conformalize(X, y).predict_interval(X, LEVEL, kind="conformal")
    np.testing.assert_array_equal(interval, np.round(interval))
    assert (interval[:, 0] >= 0).all()
    assert (interval[:, 0] <= interval[:, 1]).all()


@pytest.mark.parametrize("score", SCORES)
def test_intervals_of_several_levels_are_nested_and_equal_single_calls(score):
    ribbon, X, y = fitted("log")
    ribbon.conformalize(X, y, score=score)
    levels = [0.9, 0.1, 0.5]
    several = ribbon.predict_interval(X, levels, kind="conformal")
    for k, level in enumerate(levels):
        np.testing.assert_allclose(several[..., k], ribbon.predict_interval(X, level, kind="conformal"), rtol=1e-12)
    lower, upper = several[:, 0, [1, 2, 0]], several[:, 1, [1, 2, 0]]
    assert (np.diff(lower) <= 0).all()
    assert (np.diff(upper) >= 0).all()


def test_too_few_rows_give_infinite_bounds_and_a_warning():
    ribbon, X, y = fitted("ridge")
    ribbon.conformalize(X[:18], y[:18])
    with pytest.warns(CalibrationWarning, match=r"24 of 24 rows.*needs at least 19 calibration rows.*there are 18"):
        interval = ribbon.predict_interval(X, [0.5, 0.95], kind="conformal")
    assert np.isfinite(interval[..., 0]).all()
    np.testing.assert_array_equal(interval[..., 1], np.tile([-np.inf, np.inf], (POOL, 1)))
    assert np.isfinite(ribbon.conformalize(X[:19], y[:19]).predict_interval(X, 0.95, kind="conformal")).all()


def test_too_few_rows_of_a_group_warn():
    ribbon, X, y = fitted("ridge")
    ribbon.conformalize(X, y, groups=[1] * 20 + [2] * 4)
    with pytest.warns(CalibrationWarning, match="1 of 2 rows.*needs at least 9 .*there are 4 in its group"):
        interval = ribbon.predict_interval(X[:2], groups=[1, 2], kind="conformal")
    np.testing.assert_array_equal(np.isfinite(interval), [[True, True], [False, False]])


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.FamilyWarning")
def test_extreme_intervals_stay_in_the_range_of_the_target():
    rng = np.random.default_rng(0)
    base = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    ribbon = RibbonRegressor(base, noise=1e-8, alpha=1e6).fit(*draw(60, rng, "positive"))
    X, y = draw(POOL, rng, "positive")
    interval = ribbon.conformalize(X, y).predict_interval(X, 0.9, kind="conformal")
    assert (interval[:, 0] > 0).all()
    assert np.isfinite(interval).all()
    sure = RibbonRegressor(GammaRegressor(), noise=1e-6, alpha=1e6).fit(*draw(60, rng, "positive")).conformalize(X, y)
    interval = sure.predict_interval(X, 0.9, kind="conformal")
    assert (interval[:, 0] == 0).any()
    assert (interval[:, 0] >= 0).all()
    assert np.isfinite(interval).all()


# ---------------------------------------------------------------------- interface
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.CalibrationWarning")
@pytest.mark.parametrize("score", SCORES)
def test_calibration_with_a_degenerate_distribution(score):
    X, rng = np.arange(20.0)[:, None], np.random.default_rng(0)
    ribbon = RibbonRegressor(Ridge(), noise=0.0).fit(X, np.full(20, 2.5))
    ends = ribbon.conformalize(X, rng.normal(size=20), score=score).predict_interval(X, kind="conformal")
    assert not np.isnan(ends).any()
    assert (np.isinf(ends).all(axis=1) if score != "absolute" else np.isfinite(ends).all(axis=1)).all()


def test_distribution_score_refuses_targets_outside_the_family_range():
    X, y = draw(40, np.random.default_rng(0), "positive")
    ribbon = RibbonRegressor(GammaRegressor()).fit(X, y)
    with pytest.raises(ValueError, match=r"below zero.*score='absolute'"):
        ribbon.conformalize(X, -y)
    ends = ribbon.conformalize(X, -y, score="absolute").predict_interval(X, 0.5, kind="conformal")
    assert np.mean((ends[:, 0] <= -y) & (-y <= ends[:, 1])) >= 0.5


@pytest.mark.parametrize("options", [{"score": "normalized"}, {"bins": 3}])
@pytest.mark.parametrize("transform", ["reciprocal", "power"])
def test_infinite_standard_deviations_are_refused(transform, options):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 1)), 1 / np.maximum(2 + rng.normal(size=400), 0.2)
    inverse = {"func": np.reciprocal, "inverse_func": np.reciprocal}
    if transform == "power":
        y, inverse = np.exp(rng.normal(size=400)), {"transformer": PowerTransformer()}
    ribbon = RibbonRegressor(TransformedTargetRegressor(Ridge(), **inverse), law="normal").fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="standard deviations of y are infinite; use score='distribution' without"):
        ribbon.conformalize(X[200:], y[200:], **options)
    lower, upper = ribbon.conformalize(X[200:], y[200:]).predict_interval(X[200:], 0.8, kind="conformal").T
    assert np.mean((lower <= y[200:]) & (y[200:] <= upper)) >= 0.8


def test_observations_outside_the_transform_range_are_covered():
    rng = np.random.default_rng(0)
    X, y, X_cal, y_cal = rng.normal(size=(60, 1)), rng.normal(size=60), rng.normal(size=(19, 1)), rng.normal(size=19)
    y_cal[:3] = y.max() + 1  # where a quantile transform knows none
    base = TransformedTargetRegressor(Ridge(), transformer=QuantileTransformer(n_quantiles=20))
    ribbon = RibbonRegressor(base).fit(X, y).conformalize(X_cal, y_cal)
    with pytest.warns(CalibrationWarning, match="impossible under its family"):
        covered = [ribbon.predict_interval(X_cal, level, kind="conformal") for level in (0.5, 0.9)]
    for ends, level in zip(covered, (0.5, 0.9), strict=True):
        assert np.sum((ends[:, 0] <= y_cal) & (y_cal <= ends[:, 1])) >= 20 * level
    assert np.isinf(covered[1]).all() and np.isfinite(covered[0]).all()


def test_calibration_is_pickled_and_discarded_by_refit():
    ribbon, X, y = fitted("ridge")
    assert ribbon.conformalize(X, y) is ribbon
    before = ribbon.predict_interval(X, kind="conformal")
    with pytest.raises(ValueError, match="score must be one of"):
        ribbon.conformalize(X, y, score="none")
    again = pickle.loads(pickle.dumps(ribbon))
    for same in (ribbon, again, FrozenEstimator(ribbon)):
        np.testing.assert_array_equal(same.predict_interval(X, kind="conformal"), before)
    assert not hasattr(clone(ribbon), "conformal_")
    assert not hasattr(ribbon.with_alpha(3.0), "conformal_")
    assert hasattr(ribbon, "conformal_")
    assert not hasattr(ribbon.fit(X, y), "conformal_")


def test_ribbon_cv_delegates_calibration_to_its_ribbon():
    ribbon, X, y = fitted("tuned")
    assert ribbon.conformalize(X_cal=X, y_cal=y, score="absolute") is ribbon
    interval = ribbon.predict_interval(X, 0.5, "conformal")
    np.testing.assert_array_equal(interval, ribbon.estimator_.predict_interval(X, 0.5, kind="conformal"))
    frozen = RibbonCV(FrozenEstimator(ribbon.estimator_), alphas=[1.0]).fit(X, y)
    with pytest.raises(NotFittedError):
        frozen.predict_interval(X, kind="conformal")


def test_frames_and_group_labels_of_any_type():
    rng = np.random.default_rng(0)
    X, y = draw(90, rng)
    X, y = pd.DataFrame(X, columns=["a", "b", "c"]), pd.Series(y)
    ribbon = RibbonRegressor(make_pipeline(StandardScaler(), Ridge())).fit(X[:60], y[:60])
    days = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"] * 15))
    ribbon.conformalize(X[60:], y[60:], groups=days)
    one = ribbon.predict_interval(X[:2], 0.5, kind="conformal", groups=days[:2])
    ribbon.conformalize(X[60:], y[60:], groups=pd.Categorical(["x", "y"] * 15))
    np.testing.assert_array_equal(ribbon.predict_interval(X[:2], 0.5, kind="conformal", groups=["x", "y"]), one)


def test_calibration_on_training_rows_warns():
    rng = np.random.default_rng(0)
    X, y = draw(60, rng)
    for base in (Ridge(), make_pipeline(StandardScaler(), LinearRegression()), PoissonRegressor(tol=1e-8)):
        target = y if not isinstance(base, PoissonRegressor) else np.round(np.exp(y))
        ribbon = RibbonRegressor(base).fit(X, target)
        with pytest.warns(CalibrationWarning, match="those that the model was fitted on"):
            ribbon.conformalize(X, target)


@pytest.mark.filterwarnings("error")
def test_calibration_on_other_rows_does_not_warn():
    rng = np.random.default_rng(0)
    ribbon = RibbonRegressor(Ridge()).fit(*draw(60, rng))
    for _ in range(50):
        ribbon.conformalize(*draw(60, rng))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r, X, y: r.conformalize(X, y[:-1]), ValueError, "an observation for each of the 24 rows"),
        (lambda r, X, y: r.conformalize(X, np.where(y > 0, y, np.nan)), ValueError, "NaN"),
        (
            lambda r, X, y: r.conformalize(X, y, groups=[1, 2]),
            ValueError,
            "groups must have 24 labels",
        ),
        (lambda r, X, y: r.conformalize(X, y, groups=[None] * 24), ValueError, "groups is missing for 24 of 24 rows"),
        (lambda r, X, y: r.conformalize(X, y, groups=y, bins=2), ValueError, "groups and bins are mutually exclusive"),
        (lambda r, X, y: r.conformalize(X, y, bins=0), ValueError, "bins must be an integer >= 1"),
        (lambda r, X, y: r.conformalize(X, y, bins=[2.0, 1.0]), ValueError, "increasing inner edges"),
        (lambda r, X, y: r.conformalize(X, y, -y), ValueError, "sample_weight must not be negative"),
        (lambda r, X, y: r.conformalize(X[:, :2], y), ValueError, "2 features"),
        (lambda r, X, y: r.predict_interval(X, kind="conformal"), NotFittedError, r"call conformalize\(X_cal, y_cal\)"),
        (lambda r, X, y: r.predict_quantiles(X, kind="conformal"), NotFittedError, r"call conformalize"),
        (lambda r, X, y: r.predict_quantiles(X, sample_weight=y), ValueError, "are for kind='conformal'"),
        (lambda r, X, y: r.predict_quantiles(X, kind="cv+"), ValueError, "kind must be one of"),
        (lambda r, X, y: r.predict_interval(X, groups=y), ValueError, "are for kind='conformal'"),
        (lambda r, X, y: r.predict_interval(X, kind="conform"), ValueError, "kind must be one of"),
        (lambda r, X, y: clone(r).conformalize(X, y), NotFittedError, "not fitted yet"),
        (
            lambda r, X, y: r.conformalize(X, y).predict_interval(X, 1.0, kind="conformal"),
            ValueError,
            "confidence_level must lie strictly between 0 and 1",
        ),
        (
            lambda r, X, y: r.conformalize(X, y).predict_interval(X, kind="conformal", groups=y),
            ValueError,
            "groups needs calibration rows with groups",
        ),
        (
            lambda r, X, y: r.conformalize(X, y, groups=["a"] * 24).predict_interval(X, kind="conformal"),
            ValueError,
            "pass the groups of the rows to predict",
        ),
        (
            lambda r, X, y: r.conformalize(X, y, groups=["a"] * 24).predict_interval(
                X, kind="conformal", groups=["b"] * 24
            ),
            ValueError,
            r"labels that no calibration row had: \['b'\]",
        ),
        (
            lambda r, X, y: r.conformalize(X, y).predict_interval(X, kind="conformal", sample_weight=[1.0]),
            ValueError,
            "for each of the 24 rows to predict",
        ),
    ],
)
def test_bad_input_is_refused_with_clear_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(*fitted("ridge"))


@pytest.mark.parametrize("score", SCORES)
def test_one_sided_bounds_hold_the_promised_ranks_if_observations_are_tied(score):
    rng = np.random.default_rng(0)
    X, levels = np.zeros((1500, 1)), np.linspace(0.05, 0.95, 19)
    zeros, two_values = rng.exponential(10, 1500) * (rng.random(1500) < 0.2), 10.0 * (rng.random(1500) < 0.58)
    for y in (zeros, two_values, rng.normal(size=1500)):
        ribbon = RibbonRegressor(noise="dof").fit(X[:500], y[:500]).conformalize(X[500:], y[500:], score=score)
        bounds = ribbon.predict_quantiles(X[:1], levels, kind="conformal")[0]
        held = np.where(levels >= 0.5, (y[500:, None] <= bounds).sum(axis=0), (y[500:, None] >= bounds).sum(axis=0))
        assert (held >= np.ceil(1001 * np.maximum(levels, 1 - levels) - 1e-9)).all()


def test_integer_weights_shape_bins_as_repeated_rows_do():
    rng = np.random.default_rng(0)
    X, noise = rng.uniform(0, 3, (600, 1)), rng.normal(size=600)
    y, weight = noise * (0.1 + X[:, 0]), rng.integers(0, 4, 400)
    ribbon = RibbonRegressor(noise="heteroskedastic").fit(X[:200], y[:200])
    options = {"score": "normalized", "bins": 3}
    weighted = copy.copy(ribbon).conformalize(X[200:], y[200:], sample_weight=weight, **options)
    again = np.repeat(np.arange(200, 600), weight)
    repeated = copy.copy(ribbon).conformalize(X[again], y[again], **options)
    bounds = [r.predict_interval(X[:50], kind="conformal") for r in (weighted, repeated)]
    np.testing.assert_allclose(*bounds, rtol=1e-12)


def test_interval_is_infinite_where_the_prediction_is_nan():
    class Centre:
        def prediction(self):
            return np.array([np.nan, 1.0])

    score = ResidualScore(lambda distribution: np.ones(2))
    assert score.of(Centre(), np.zeros(2)).tolist() == [np.inf, 1.0]
    lower, upper = score.ends(Centre(), np.array([2.0]))
    np.testing.assert_allclose([lower[:, 0], upper[:, 0]], [[-np.inf, -1], [np.inf, 3]], rtol=1e-12)
