"""Extreme scales, degenerate data and unusual input give the right answer or a clear error."""

import itertools
import os
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from scipy.special import gammainc
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from skribbon import AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.linalg import row_covariances
from skribbon._laws.families import TweedieFamily
from skribbon._laws.tweedie import CompoundPoissonGamma
from skribbon._predict.classes import ClassProbabilities
from skribbon._predict.predictive import Latent
from skribbon.baselines import BootstrapRegressor, LaplaceRegressor
from skribbon.exceptions import (
    AlphaEdgeWarning,
    LeverageWarning,
    NotStationaryWarning,
    WeightWarning,
    ignored_warnings,
)
from skribbon.metrics import coverage_curve, interval_coverage_score, mean_interval_score, pit_values
from skribbon.models import StudentT, polish
from skribbon.models.losses import Categorical
from skribbon.noise import EmpiricalLaw, HeteroskedasticNoise

LEVELS = [0.5, 0.8, 0.9, 0.99]
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 3))
Y = 1 + X @ [1.0, -0.5, 0.2] + 0.5 * rng.normal(size=80)
POSITIVE = np.exp(0.3 * X[:, 0]) * rng.gamma(4.0, 0.25, 80)
COUNTS = rng.poisson(np.exp(0.5 + 0.3 * X[:, 0])).astype(float)


def assert_nested(intervals):
    """Check that intervals (n, 2, L) of increasing levels are nested."""
    assert not np.isnan(intervals).any()
    lower, upper = intervals[:, 0], intervals[:, 1]  # infinite ends have no differences
    assert (lower[:, 1:] <= lower[:, :-1]).all() and (upper[:, :-1] <= upper[:, 1:]).all() and (lower <= upper).all()


# ---------------------------------------------------------------------- properties at every scale
@pytest.mark.parametrize("model", [PoissonRegressor(alpha=0), GammaRegressor(alpha=0), TweedieRegressor(power=1.5)])
def test_distant_rows_have_nested_intervals(model):
    y = COUNTS[:30] if isinstance(model, PoissonRegressor) else POSITIVE[:30]
    ribbon = RibbonRegressor(model).fit(X[:30, :1], y)
    far = np.array([[100.0], [-100.0], [1e4], [-1e4]])
    assert_nested(ribbon.predict_interval(far, LEVELS))
    quantiles = ribbon.predict_quantiles(far, [0.05, 0.5, 0.95])
    assert (quantiles[:, :-1] <= quantiles[:, 1:]).all()
    assert (ribbon.predict_samples(far, 3, random_state=0) >= 0).all()


def test_tweedie_quantiles_terminate_near_a_perfect_fit():
    mean = np.exp(2 + X[:, 0])
    y = mean * (1 + 1e-4 * rng.normal(size=80))
    model = TweedieRegressor(power=1.5, alpha=0, tol=1e-8, max_iter=1000)
    lower, upper = RibbonRegressor(model).fit(X[:, :1], y).predict_interval(X[:, :1]).T
    assert (np.abs(upper / lower - 1) < 1e-2).all() and interval_coverage_score(y, np.c_[lower, upper]) > 0.8


@pytest.mark.parametrize("scale", [1e-13, 1e-100, 1e100])
def test_gamma_intervals_are_scale_equivariant(scale):
    model = GammaRegressor(alpha=0, solver="newton-cholesky", tol=1e-10)
    ends = RibbonRegressor(model).fit(X, POSITIVE).predict_interval(X, LEVELS)
    scaled = RibbonRegressor(model).fit(X, POSITIVE * scale).predict_interval(X, LEVELS)
    assert_allclose(scaled / scale, ends, rtol=1e-6)


# ---------------------------------------------------------------------- target transforms
TRANSFORMS = {
    "sqrt": {"func": np.sqrt, "inverse_func": np.square},
    "reciprocal": {"func": np.reciprocal, "inverse_func": np.reciprocal},
    "log": {"func": np.log, "inverse_func": np.exp},
    "power": {"transformer": PowerTransformer()},
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformed_target_intervals_are_nested_and_contain_the_median(name):
    ribbon = RibbonRegressor(TransformedTargetRegressor(LinearRegression(), **TRANSFORMS[name])).fit(X, POSITIVE)
    new = 3 * X
    intervals, median = ribbon.predict_interval(new, LEVELS), ribbon.predict_quantiles(new, [0.5])
    assert_nested(intervals)
    assert ((intervals[:, 0] <= median) & (median <= intervals[:, 1])).all()
    assert not np.isnan(ribbon.predict_std(new)).any()
    y = ribbon.predict_quantiles(X, [0.3])[:, 0]
    inside = np.isfinite(y) & (y > 0)
    assert inside.sum() > 60
    assert_allclose(ribbon.predictive_cdf(X[inside], y[inside]), 0.3, atol=1e-6)


def test_square_root_target_ignores_the_negative_branch():
    """Normal noise of a square root reaches below zero; such values map to the smallest target, not to a large one."""
    ribbon = RibbonRegressor(TransformedTargetRegressor(LinearRegression(), **TRANSFORMS["sqrt"])).fit(X, POSITIVE)
    lower = ribbon.predict_interval(X - [10.0, 0, 0], 0.99)[:, 0]
    assert (lower == 0).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_log_density_of_log_target_follows_its_unit(scale):
    ribbon = RibbonRegressor(TransformedTargetRegressor(Ridge(), **TRANSFORMS["log"])).fit(X, POSITIVE * scale)
    t = np.log(POSITIVE * scale)
    plain = RibbonRegressor(Ridge()).fit(X, t)
    expected = plain.log_density(X, t) - t  # the density of y is that of log y over y
    assert_allclose(ribbon.log_density(X, POSITIVE * scale), expected, rtol=1e-6)


def test_non_monotone_target_inverse_is_refused():
    folded = TransformedTargetRegressor(LinearRegression(), func=lambda y: y, inverse_func=np.abs, check_inverse=False)
    with pytest.raises(ValueError, match=r"(?s)not monotone.*PowerTransformer\(\), under which the mean of y may be"):
        RibbonRegressor(folded).fit(X, Y - Y.mean())


# ---------------------------------------------------------------------- input
def test_transformer_that_warns_beyond_its_range_is_silent():
    A = np.random.default_rng(0).normal(size=(120, 3))
    y = np.exp((A @ [1, 2, 3] + np.random.default_rng(1).normal(size=120)) / 4)
    base = TransformedTargetRegressor(Ridge(), transformer=PowerTransformer())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        ribbon = RibbonRegressor(base).fit(A, y)
        assert warnings.filters == before
    scale, power = ribbon.target_scale_, ribbon.estimator_.transformer_
    end = (-1 / power.lambdas_[0] - power._scaler.mean_[0]) / power._scaler.scale_[0]  # where the inverse is infinite
    assert power.lambdas_[0] < 0 and scale.upper == pytest.approx(end, rel=1e-6)


def test_ignored_warnings_of_other_threads_leave_filters_as_they_were():
    def ignore(_):
        with ignored_warnings("a module"):
            return sum(own[3] == re.compile("a module") for own in warnings.filters)

    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(ignore, range(200))) >= 1
    assert warnings.filters == before
    with pytest.warns(UserWarning, match="mine"), ignored_warnings("a module"):
        warnings.warn("mine", UserWarning, stacklevel=1)


def test_transformer_without_an_inverse_beyond_the_training_targets_is_refused():
    bins = KBinsDiscretizer(encode="ordinal", strategy="uniform")
    base = TransformedTargetRegressor(Ridge(), transformer=bins, check_inverse=False)
    with pytest.raises(ValueError, match=r"transformer fails beyond .*KBinsDiscretizer.*mean of y may be"):
        RibbonRegressor(base).fit(X, Y)


def test_frozen_model_validates_its_input():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frozen = FrozenEstimator(Ridge().fit(frame, Y))
    ribbon = RibbonRegressor(frozen)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ribbon.fit(frame, Y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        ribbon.fit(frame, np.where(np.arange(80) == 3, np.nan, Y))
    with pytest.raises(ValueError, match="expecting 3 features"):
        ribbon.fit(X[:, :2], Y)
    with pytest.raises(ValueError, match="feature names"):
        ribbon.fit(frame[["b", "a", "c"]], Y)


def test_feature_names_are_checked_with_unchecking_transformers():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    ribbon = RibbonRegressor(make_pipeline(FunctionTransformer(), Ridge())).fit(frame, Y)
    for method in (ribbon.predict, ribbon.predict_interval):
        with pytest.raises(ValueError, match="feature names"):
            method(frame[["b", "a", "c"]])


def test_labels_unseen_by_the_base_model_are_refused():
    features, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(features[:100], y[:100])
    with pytest.raises(ValueError, match=r"labels that the model was not fitted on: \[.*2.*\]"):
        RibbonClassifier(FrozenEstimator(model)).fit(features, y)
    ribbon = RibbonClassifier(LogisticRegression(max_iter=1000)).fit(features[:100], y[:100])
    with pytest.raises(ValueError, match="labels that the model was not fitted on"):
        RibbonCV(FrozenEstimator(ribbon)).fit(features, y)


def test_steps_that_overwrite_input_receive_a_copy():
    plain = RibbonRegressor(make_pipeline(StandardScaler(), LinearRegression())).fit(X, Y)
    for model in (make_pipeline(StandardScaler(copy=False), LinearRegression(copy_X=False)),):
        own = 5 + 3 * X
        before = own.copy()
        ribbon = RibbonRegressor(model).fit(own, Y)
        assert_allclose(ribbon.predict_std(own), plain.predict_std(X), rtol=1e-10)
        assert_allclose(ribbon.predict(own, return_std=True)[1], plain.predict_std(X), rtol=1e-10)
        assert_array_equal(own, before)


@pytest.mark.parametrize("estimator", [RibbonRegressor(Ridge()), RibbonCV(Ridge(), cv=3)])
def test_failed_fit_changes_no_attribute(estimator):
    estimator = clone(estimator)
    broken = X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError):
        estimator.fit(broken, Y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    estimator.fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    before = estimator.predict_interval(frame)
    wrong = "curvature" if isinstance(estimator, RibbonRegressor) else "alphas"
    with pytest.raises(ValueError):
        estimator.set_params(**{wrong: "none such" if wrong == "curvature" else [-1.0]}).fit(2 * X, Y)
    assert_array_equal(estimator.predict_interval(frame), before)
    estimator.set_params(**{wrong: "auto" if wrong == "curvature" else None}).fit(X, Y)
    assert not hasattr(estimator, "feature_names_in_")


def test_refit_replaces_all_fitted_attributes():
    ribbon = RibbonRegressor(store_loo=True).fit(X, Y)
    assert len(ribbon.loo_residuals_) == 80
    ribbon.set_params(store_loo=False).fit(X, Y)
    assert not hasattr(ribbon, "loo_residuals_") and not hasattr(ribbon, "loo_distribution_")


def test_overflowing_columns_are_refused():
    with pytest.raises(ValueError, match=r"overflow|infinity|too large"):
        RibbonRegressor(LinearRegression()).fit(1e160 * X, Y)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_intervals_scale_with_targets_that_have_squares(scale):
    expected = scale * RibbonRegressor(noise="dof").fit(X, Y).predict_interval(X)
    assert_allclose(RibbonRegressor(noise="dof").fit(X, scale * Y).predict_interval(X), expected, rtol=1e-9)


def test_predictions_are_thread_safe():
    network = MLPRegressor(hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", alpha=1.0, random_state=0)
    ribbon = RibbonRegressor(network.set_params(max_iter=2000)).fit(X, Y)
    expected = [ribbon.predict_std(row[None]) for row in X]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            assert_array_equal(list(pool.map(lambda row: ribbon.predict_std(row[None]), X)), expected)


# ---------------------------------------------------------------------- degenerate data
def test_collapsed_huber_scale_has_zero_width_intervals():
    constant = RibbonRegressor(HuberRegressor(epsilon=1.0)).fit(X, np.ones(80))
    assert_allclose(constant.predict_interval(X), 1.0, atol=1e-6)


def test_all_zero_counts():
    for model in (PoissonRegressor(alpha=0.0), PoissonRegressor(alpha=1.0)):
        try:
            interval = RibbonRegressor(model).fit(X, np.zeros(80)).predict_interval(X)
        except ValueError as error:
            assert "not finite" in str(error)
        else:
            assert_array_equal(interval[:, 0], 0.0)


@pytest.mark.parametrize("df", [2.5, 3.0, 4.0])
def test_student_loss_uses_student_noise(df):
    heavy = Y + stats.t(df).rvs(80, random_state=0)
    model = AutogradRegressor(lambda w, X: X @ w, init=np.zeros(3), loss=StudentT(df), l2=1e-3)
    ribbon = RibbonRegressor(model).fit(X, heavy)
    inner, outer = (np.diff(ribbon.predict_interval(X[:1], level))[0, 0] for level in (0.5, 0.999))
    assert ribbon.law_.name != "normal" and outer / inner > 1.1 * stats.norm.ppf(0.9995) / stats.norm.ppf(0.75)


def test_pit_of_counts_is_uniform():
    many = np.random.default_rng(1).normal(size=(4000, 1))
    counts = np.random.default_rng(2).poisson(np.exp(0.3 * many[:, 0])).astype(float)
    ribbon = RibbonRegressor(PoissonRegressor(alpha=0), noise=1.0).fit(many, counts)
    assert stats.kstest(pit_values(ribbon, many, counts), "uniform").pvalue > 0.01
    assert stats.kstest(ribbon.predictive_cdf(many, counts), "uniform").pvalue < 1e-6


@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3", "auto"])
def test_prediction_from_a_single_row_warns(correction):
    kinds = np.array(["a"] * 150 + ["b"] * 149 + ["c"])[:, None]
    y = np.random.default_rng(0).normal(size=300)
    model = make_pipeline(OneHotEncoder(sparse_output=False), LinearRegression(fit_intercept=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeverageWarning)
        ribbon = RibbonRegressor(model, correction=correction).fit(kinds, y)
    with pytest.warns(LeverageWarning, match="1 of 3 rows depend on a single training row"):
        ribbon.predict_interval(np.array([["a"], ["b"], ["c"]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeverageWarning)
        ribbon.predict_interval(np.array([["a"], ["b"]]))


def test_leverage_warning_is_shown_once():
    kinds = np.array(["a"] * 20 + ["b"])[:, None]
    model = make_pipeline(OneHotEncoder(sparse_output=False), LinearRegression(fit_intercept=False))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RibbonRegressor(model, correction="HC3", noise="loo").fit(kinds, np.arange(21.0))
    assert [w.category for w in caught] == [LeverageWarning]


@pytest.mark.parametrize("offset", [0.0, 3e7, 1e10])
def test_column_offset_does_not_change_intervals(offset):
    far = X + np.array([offset, 0.0, 0.0])
    expected, moved = RibbonRegressor().fit(X, Y), RibbonRegressor().fit(far, Y)
    rtol = 1e-7 + 3e-14 * offset  # what the column itself has lost
    stds = (ribbon.predict_std(Z, kind="epistemic") for ribbon, Z in ((moved, far), (expected, X)))
    assert_allclose(*stds, rtol=rtol)
    assert_allclose(np.diag(moved.covariance_)[:3], np.diag(expected.covariance_)[:3], rtol=rtol)


def test_warning_names_weights_that_sum_to_one():
    with pytest.warns(WeightWarning, match="intervals are those of 1 observations, not of 80 rows"):
        RibbonRegressor().fit(X, Y, sample_weight=np.full(80, 1 / 80))


def test_warning_names_columns_dropped_by_least_squares():
    apart = X * [1e12, 1.0, 1e-12]
    with pytest.warns(NotStationaryWarning, match="StandardScaler"):
        RibbonRegressor().fit(apart, Y)


def test_perfect_fit_counts_as_converged():
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotStationaryWarning)
        for model in (LinearRegression(), Ridge(1e-12), LinearRegression(fit_intercept=False)):
            ribbon = RibbonRegressor(model).fit(X, X @ [1.0, 2.0, 3.0])
            assert ribbon.stationarity_ < 0.25


def test_small_classifiers_do_not_warn_about_uninformative_edges():
    features, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)[:40]
    with warnings.catch_warnings():
        warnings.simplefilter("error", AlphaEdgeWarning)
        RibbonCV(LogisticRegression(C=1e4, max_iter=5000, tol=1e-8), cv=4).fit(features[rows, :2], y[rows] > 0)


# ---------------------------------------------------------------------- many classes
def test_many_classes():
    K = 70
    many = np.random.default_rng(0).normal(size=(250, 3))
    y = np.random.default_rng(1).permutation(np.arange(250) % K)  # none is missing
    ribbon = RibbonClassifier(LogisticRegression(C=0.1)).fit(many, y)
    proba, interval = ribbon.predict_proba(many[:5]), ribbon.predict_proba_interval(many[:5])
    assert_allclose(proba.sum(axis=1), 1.0)
    assert ((interval[..., 0] <= proba) & (proba <= interval[..., 1])).all()
    names = np.array([f"{(k * 37) % K:02d}" for k in range(K)])[y]  # the same classes in another order
    other = RibbonClassifier(LogisticRegression(C=0.1)).fit(many, names).predict_proba(many[:5])
    assert_allclose(other[:, [(k * 37) % K for k in range(K)]], proba, atol=1e-3)


def test_hc1_with_many_classes_uses_the_mean_leverage():
    digits, y = (a[:100] for a in load_digits(return_X_y=True))
    scaled = digits / 16
    model = LogisticRegression(C=1.0, max_iter=2000)
    fits = {c: RibbonClassifier(model, correction=c).fit(scaled, y) for c in ("HC0", "HC1", "HC2", "HC3")}
    traces = {c: np.trace(ribbon.covariance_) for c, ribbon in fits.items()}
    mean_leverage = fits["HC1"].effective_parameters_ / (100 * 9)
    assert traces["HC1"] / traces["HC0"] == pytest.approx(1 / (1 - mean_leverage), rel=1e-10)
    assert traces["HC0"] < traces["HC2"] < traces["HC3"] < 4 * traces["HC0"]


def test_many_classes_stay_within_the_memory_budget():
    import tracemalloc

    K, d = 40, 20
    many = np.random.default_rng(0).normal(size=(1500, d))
    y = np.random.default_rng(1).integers(0, K, 1500)
    base = FrozenEstimator(LogisticRegression(C=0.01, max_iter=200).fit(many, y))
    p = (K - 1) * (d + 1)
    tracemalloc.start()
    RibbonClassifier(base).fit(many, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 8 * p**2 + 10 * 8 * 2**20  # the squares that a dense curvature names, and some blocks


# ---------------------------------------------------------------------- platforms
def test_platform_specific_os_functions_are_optional(monkeypatch):
    for name in ("sysconf", "getuid", "uname", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    RibbonRegressor().fit(X, Y).predict_interval(X)
    RibbonClassifier().fit(X, Y > 1).predict_proba(X)


# ---------------------------------------------------------------------- unusual arguments
def test_rates_have_a_log_density():
    exposure = rng.uniform(0.2, 2, 80)
    rates = rng.poisson(exposure * np.exp(0.3 * X[:, 0])) / exposure
    tuned = RibbonCV(PoissonRegressor(alpha=0), alphas=[0.3, 1, 3], scoring="nll").fit(X, rates, sample_weight=exposure)
    assert np.isfinite(tuned.cv_results_["mean_test_nll"]).all()
    ribbon = RibbonRegressor(PoissonRegressor(alpha=0)).fit(X, rates)
    assert np.isfinite(ribbon.log_density(X, rates)).all()
    assert 0.8 < interval_coverage_score(rates, ribbon.predict_interval(X)) <= 1


def test_scorer_without_finite_values_is_refused():
    features = np.linspace(0, 1, 40)[:, None]
    ribbon = RibbonRegressor(PoissonRegressor(alpha=0)).fit(features, np.arange(40) % 3)
    with pytest.raises(ValueError, match="not a finite number at any alpha"):
        RibbonCV(FrozenEstimator(ribbon), scoring="nll").fit(features, np.full(40, -1.0))


def test_nested_lists_are_accepted():
    frame = RibbonRegressor().fit(X, Y).predict_frame(X[:2].tolist())
    assert list(frame.index) == [0, 1]


def test_fold_with_zero_weight_is_refused():
    weight = np.r_[np.zeros(20), np.ones(60)]
    with pytest.raises(ValueError, match="weight of zero"):
        RibbonCV(Ridge(), cv=KFold(4)).fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("ribbon", "y", "params", "message"),
    [
        (RibbonCV(), np.arange(4.0), {}, r"cv=5 needs 5 samples, got 4 .*cv=4"),
        (RibbonCV(LogisticRegression()), [0, 1] * 3, {}, r"cv=5 .* 5 samples in the largest class, got 3 .*cv=3"),
        (RibbonCV(cv=4), np.arange(12.0), {"groups": [*"abc"] * 4}, r"cv=4 .* 4 groups, got 3 .*cv=3"),
        (RibbonRegressor(held_out=5), np.arange(4.0), {}, r"held_out=5 .* 5 samples, got 4 .*held_out=4"),
        (RibbonClassifier(held_out=5), [0, 0, 1, 1], {}, r"held_out=5 .* class, got 2 .*held_out=2"),
    ],
)
def test_more_folds_than_rows_name_the_parameter_and_the_cure(ribbon, y, params, message):
    with pytest.raises(ValueError, match=message):
        ribbon.fit(np.random.default_rng(0).normal(size=(len(y), 2)), y, **params)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_separable_classes_in_few_groups_are_refitted_without_fewer_folds():
    y, weight = np.repeat([0, 1], 4), np.linspace(0.5, 1.5, 8)
    ribbon = RibbonClassifier(LogisticRegression(C=np.inf))
    ribbon.fit(np.arange(8.0)[:, None], y, sample_weight=weight, groups=np.arange(8))
    assert 1 < ribbon.held_out_.n_fits <= 4
    single = ribbon.fit(np.arange(2.0)[:, None], [0, 1], sample_weight=weight[:2], groups=[0, 1])
    assert single.held_out_ is None and single.temperature_ == 1


@pytest.mark.filterwarnings("ignore")
def test_refits_of_few_weighted_rows_use_fewer_folds():
    weight = np.array([1, 0, 0, 1, 1, 0, 0, 1.0])
    base = MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", max_iter=20, random_state=0)
    ribbon = RibbonRegressor(base).fit(np.arange(8.0)[:, None], np.arange(8.0) ** 2, sample_weight=weight)
    assert ribbon.held_out_.n_fits == 3


def test_list_of_levels_is_refused_by_single_level_parameters():
    with pytest.raises(ValueError, match="single number"):
        RibbonCV(Ridge(), confidence_level=[0.5, 0.9]).fit(X, Y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval_score(Y, np.c_[Y, Y], confidence_level=90)
    levels, covered = coverage_curve(RibbonRegressor().fit(X, Y), X, Y, confidence_levels=0.9)
    assert levels.shape == covered.shape == (1,)


def test_exhausted_fold_generator_is_refused():
    tuned = RibbonCV(Ridge(), cv=KFold(3).split(X)).fit(X, Y)
    with pytest.raises(ValueError, match="generator is used up"):
        tuned.fit(X, Y)


def test_set_params_takes_effect_at_the_next_fit():
    ribbon = RibbonRegressor().fit(X, Y)
    before = ribbon.predict_interval(X)
    assert_array_equal(ribbon.set_params(predictive="pushforward").predict_interval(X), before)


def test_single_class_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"one class only|at least 2 classes|at least two"):
            RibbonClassifier(MLPClassifier(hidden_layer_sizes=(2,), max_iter=2)).fit(X, np.zeros(80))


def test_observations_with_wrong_length_or_nan_are_refused():
    ribbon = RibbonRegressor().fit(X, Y)
    for y in (Y[:5], Y[:1]):
        with pytest.raises(ValueError, match="an observation for each of the 80 rows"):
            ribbon.log_density(X, y)
    gap = np.where(np.arange(80) == 3, np.nan, Y)
    with pytest.raises(ValueError, match="NaN"):
        ribbon.log_density(X, gap)
    with pytest.raises(ValueError, match="NaN"):
        interval_coverage_score(gap, np.c_[Y, Y])
    with pytest.raises(ValueError, match="NaN"):
        ribbon.check_linearization(X, gap)
    network = MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", max_iter=50, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        polish(network, X, gap)


def test_density_of_a_degenerate_prediction_is_not_nan():
    point = RibbonRegressor(noise=0.0, alpha=1e300).fit(X, X @ [1.0, 2.0, 3.0])
    density = point.log_density(X, np.zeros(80))
    assert not np.isnan(density).any()


def test_lazy_query_is_refused():
    class LazyFrame:
        def collect(self):
            return X

    with pytest.raises(TypeError, match=r"call X.collect\(\) first"):
        RibbonRegressor().fit(LazyFrame(), Y)


@pytest.mark.parametrize("function", [np.reciprocal, np.sqrt, np.log])
def test_constant_transformed_target_has_intervals_around_it(function):
    """Equal targets do not show whether the transform increases, so values around them are used."""
    inverse = {np.reciprocal: np.reciprocal, np.sqrt: np.square, np.log: np.exp}[function]
    base = TransformedTargetRegressor(Ridge(), func=function, inverse_func=inverse, check_inverse=False)
    lower, upper = RibbonRegressor(base, noise=0.01).fit(X, np.full(80, 2.5)).predict_interval(X).T
    assert (lower < 2.4).all() and (upper > 2.6).all()


def test_loo_score_of_constant_target_is_finite():
    base = TransformedTargetRegressor(
        PoissonRegressor(), func=np.reciprocal, inverse_func=np.reciprocal, check_inverse=False
    )
    ribbon = RibbonRegressor(base, noise="train", store_loo=True).fit(X[:7], np.full(7, 2.5))
    assert ribbon.loo_score_ > 30  # a point to rounding, whichever way that went


def test_crps_of_transformed_rates_needs_few_cdf_calls():
    """Mixture quantiles at a hundred levels take one search of a few dozen steps."""
    base = TransformedTargetRegressor(PoissonRegressor(alpha=0), func=np.sqrt, inverse_func=np.square)
    ribbon = RibbonRegressor(base, predictive="pushforward", n_draws=12, random_state=0).fit(X, POSITIVE)
    calls = []
    original = CompoundPoissonGamma._cdf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompoundPoissonGamma, "_cdf", lambda self, y: calls.append(1) or original(self, y))
        crps = ribbon.predict_distribution(X[:20]).crps(POSITIVE[:20])
    assert np.isfinite(crps).all() and len(calls) < 300


def test_cdf_inverts_quantiles_at_the_bound_of_a_quantile_transform():
    """Within 1e-7 of the smallest target the transform is flat, but its inverse is not."""
    transformer = QuantileTransformer(n_quantiles=80, output_distribution="normal")
    base = TransformedTargetRegressor(Ridge(), transformer=transformer)
    y = 1e-5 * POSITIVE
    distribution = RibbonRegressor(base).fit(X, y).predict_distribution(X)
    for level in (0.001, 0.01, 0.5, 0.99):
        quantile = distribution.quantile(level)
        cdf, inside = distribution.cdf(quantile), (y.min() < quantile) & (quantile < y.max())
        assert inside.mean() > 0.5 and (cdf > level - 1e-6).all()  # the ends have a probability of their own
        assert_allclose(cdf[inside], level, atol=1e-6)


def test_density_at_zero_with_quantile_transform_is_not_nan():
    """Finite differences next to zero overflow, but their logarithm does not."""
    y = np.r_[0.0, 0.0, 2.0]
    base = TransformedTargetRegressor(PoissonRegressor(), transformer=QuantileTransformer(n_quantiles=3))
    ribbon = RibbonRegressor(base, noise="train").fit(X[:3], y)
    assert not np.isnan(ribbon.log_density(X[:3], y)).any()
    assert np.isfinite(ribbon.target_scale_.log_slope(y)).all()


@pytest.mark.parametrize(
    "transformer, y",
    [
        (FunctionTransformer(np.sqrt, np.square), POSITIVE),
        (QuantileTransformer(n_quantiles=10), np.r_[0.0, POSITIVE[1:]]),
    ],
)
def test_transform_with_bound_at_zero_keeps_probability_of_zero(transformer, y):
    """The numerical bound of the transform lies next to zero on either side; the exact bound is zero."""
    base = TransformedTargetRegressor(PoissonRegressor(), transformer=transformer)
    ribbon = RibbonRegressor(base, noise=0.7).fit(X, y)
    distribution = ribbon.predict_distribution(X)
    assert ribbon.target_scale_.lower == 0.0
    quantile = distribution.quantile(0.05)
    assert (quantile == 0).any()
    assert (distribution.cdf(quantile) > 0.05 - 1e-9).all()


@pytest.mark.parametrize("f, sd, phi, y", [(50.0, 60.0, 1000.0, 1e3), (5.0, 20.0, 50.0, 1e-3), (0.0, 10.0, 10.0, 1.0)])
def test_gamma_with_large_dispersion_at_an_uncertain_row(f, sd, phi, y):
    """F(y | f) is a thousand times steeper at its bend than elsewhere."""

    def integrand(u):
        return gammainc(1 / phi, np.exp(np.log(y / phi) - u)) * stats.norm.pdf(u, f, sd)

    bends = np.log(y / phi) + np.array([-4, 0, 3, 8, 16, 30])
    inside = bends[np.abs(bends - f) < 11 * sd]
    ends = np.unique([f - 11 * sd, *inside, f, f + 11 * sd])
    pieces = [integrate.quad(integrand, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(ends)]
    law = TweedieFamily(np.array([phi]), 2).marginal(np.array([f]), np.array([sd**2]))
    assert_allclose(law.cdf(np.array([y])), sum(pieces), rtol=0, atol=1e-9)


# ---------------------------------------------------------------------- distribution of the noise
def test_student_noise_with_zero_residuals_is_degenerate():
    for y in (np.zeros(80), np.full(80, 2.5)):
        ribbon = RibbonRegressor(law="student").fit(X, y)
        assert ribbon.law_.name == "student"
        assert_allclose(ribbon.predict_interval(X), np.c_[y, y], atol=1e-9)
    assert np.ptp(RibbonRegressor(law="student", noise=0.7).fit(X, np.zeros(80)).predict_interval(X), axis=1).min() > 1


def test_student_noise_with_mostly_zero_residuals():
    y = np.r_[np.zeros(999), 1.0]
    ribbon = RibbonRegressor(Ridge(alpha=1e30, fit_intercept=False), law="student", noise=1.0)
    ribbon.fit(np.ones((1000, 1)), y)
    assert 1e-7 < np.ptp(ribbon.predict_interval([[1.0]])) < 1e-3


def test_residuals_tied_except_one_have_no_empirical_law():
    nothing, y = np.zeros((1000, 1)), np.r_[1.0, np.zeros(999)]
    ribbon = RibbonRegressor().fit(nothing, y)
    assert np.isfinite(ribbon.predict_interval(nothing[:1])).all()
    with pytest.raises(ValueError, match="residuals that differ"):
        RibbonRegressor(law="empirical").fit(nothing, y)


def test_empirical_law_of_nearly_tied_residuals_is_finite():
    z = np.r_[1 + 1e-12 * rng.normal(size=170), rng.normal(size=30)]
    quantiles = EmpiricalLaw(z).marginal(0.0, 1.0, 0.0).ppf(np.linspace(0.01, 0.99, 99))
    assert np.isfinite(quantiles).all() and (np.diff(quantiles) >= 0).all()
    assert abs(quantiles[49] - 1) < 0.1


def test_noise_scale_stays_bounded_far_away_without_warning():
    x = np.linspace(-2, 2, 200)
    ribbon = RibbonRegressor().fit(x[:, None], np.exp(x) * np.where(np.arange(200) % 2, 1.0, -1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near, far, farther = ribbon.predict_std([[2.0], [1e3], [1e9]], kind="aleatoric")
    assert ribbon.noise_.shrinkage_ > 0
    assert near <= far == farther < 10 * near


@pytest.mark.parametrize("noise", ["auto", "heteroskedastic"])
@pytest.mark.parametrize("alpha", [0.01, 0.35])
def test_zero_weight_rows_do_not_affect_heteroskedastic_noise(noise, alpha):
    """The optimizer's path is equal for a row of weight 2 and for two rows."""
    g = np.random.default_rng(6)
    x, times = g.normal(size=(90, 2)), g.integers(0, 3, 90)
    y = x[:, 0] + np.exp(x[:, 0]) * g.normal(size=90)
    far = np.r_[x[:-1], [[30.0, 30.0]]]  # of no weight
    times[-1] = 0
    weighted = RibbonRegressor(ElasticNet(alpha=alpha), noise=noise).fit(far, y, sample_weight=times)
    repeated = RibbonRegressor(ElasticNet(alpha=alpha), noise=noise).fit(
        np.repeat(x, times, axis=0), np.repeat(y, times)
    )
    assert repeated.noise_.shrinkage_ > 0
    assert_allclose(weighted.predict_interval(x), repeated.predict_interval(x), rtol=1e-6)


def test_large_weights_count_as_repeated_observations():
    x, y = X[:8], np.exp(2 * X[:8, 0]) * np.array([1, -1, 1, -1, 1, -1, 1, -1])
    one = RibbonRegressor(Ridge(), noise=HeteroskedasticNoise()).fit(x[:, :1], y, sample_weight=np.full(8, 30.0))
    many = RibbonRegressor(Ridge(), noise=HeteroskedasticNoise()).fit(np.repeat(x[:, :1], 30, axis=0), np.repeat(y, 30))
    assert_allclose(one.predict_interval(x[:, :1]), many.predict_interval(x[:, :1]), rtol=1e-6)


# ---------------------------------------------------------------------- folds that differ
def test_fold_without_a_category_may_have_fewer_parameters():
    """Its parameters have no place among the parameters of the fit to all rows; its predictions have."""
    names = np.r_[["only"], np.tile(list("abcdef"), 10)[:59]][:, None]
    network = MLPRegressor(hidden_layer_sizes=(1,), solver="lbfgs", max_iter=50, random_state=0)
    base = make_pipeline(OneHotEncoder(handle_unknown="ignore", sparse_output=False), network)
    tuned = RibbonCV(base, cv=3).fit(names, Y[:60])
    assert np.isfinite(tuned.predict_interval(names)).all()


def test_cv_results_omit_crps_if_fold_laws_differ():
    """The CRPS has a closed form for normal noise, but not for empirical noise."""
    g = np.random.default_rng(0)
    x, y = g.normal(size=(300, 1)), np.r_[g.exponential(size=150) ** 2, g.normal(size=150)]
    tuned = RibbonCV(Ridge(), cv=KFold(2)).fit(x, y)
    assert "mean_test_nll" in tuned.cv_results_ and "mean_test_crps" not in tuned.cv_results_
    assert "mean_test_crps" in RibbonCV(Ridge(), cv=KFold(2), scoring="crps").fit(x, y).cv_results_


# ---------------------------------------------------------------------- rounding
def test_constant_column_adds_no_direction():
    """The mean of many copies of 0.69 differs from 0.69, depending on memory order."""
    x = np.c_[np.full(80, 0.69), X[:, 0], np.full(80, 1.38)]
    far = np.array([[0.69, 500.0, 1.38]])
    ribbons = [RibbonRegressor(noise="dof").fit(layout(x), Y) for layout in (np.ascontiguousarray, np.asfortranarray)]
    expected = RibbonRegressor(noise="dof").fit(x[:, 1:2], Y).predict_std(far[:, 1:2], kind="epistemic")
    for ribbon in ribbons:
        assert_allclose(ribbon.predict_std(far, kind="epistemic"), expected, rtol=1e-9)


def test_heteroskedastic_noise_shrunk_to_constant_can_be_pickled():
    """A scale to the power zero is constant, though its score may be better by rounding."""
    for seed in (23, 198, 207):
        g = np.random.default_rng(seed)
        x = g.normal(size=(40, 3))
        y = np.round(3 * (x[:, 0] + g.normal(size=40)))
        weight = np.where(np.arange(40) % 4 == 3, 0, g.integers(1, 4, 40))
        ribbon = RibbonRegressor(noise="heteroskedastic", law="normal").fit(x, y, sample_weight=weight)
        again = pickle.loads(pickle.dumps(ribbon))
        assert bool(again.noise_.factors_) == (again.noise_.shrinkage_ > 0)


def test_frozen_scaler_that_overwrites_input_receives_a_copy():
    scaled = make_pipeline(StandardScaler(copy=False), Ridge()).fit(X.copy(), Y)
    ribbon = RibbonRegressor(FrozenEstimator(scaled)).fit(X.copy(), Y)
    rows = np.asfortranarray(X[:5] + 3)
    before = rows.copy()
    frame = ribbon.predict_frame(rows)
    assert_array_equal(rows, before)
    assert_allclose(frame["prediction"], scaled.predict(before.copy()), rtol=1e-14)  # columns are stored otherwise


def test_zero_weight_rows_outside_the_family_range_do_not_warn():
    x = np.r_[np.linspace(1, 2, 30), -5.0][:, None]
    base = TweedieRegressor(power=3, link="identity", alpha=0.0, tol=1e-9, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        ribbon = RibbonRegressor(base, noise="loo", curvature="ggn")
        ribbon.fit(x, np.r_[x[:-1, 0] * np.tile([0.9, 1.1], 15), 1.0], sample_weight=np.r_[np.ones(30), 0.0])
    assert ribbon.estimator_.predict(x)[-1] < 0 and np.isfinite(ribbon.noise_.dispersion_)


def test_network_without_uncertainty():
    """All scores are zero, so the root of their covariance has no columns."""
    network = MLPRegressor(hidden_layer_sizes=(3, 2), solver="lbfgs", alpha=0.0, max_iter=1, random_state=0)
    network.fit(X, Y)
    y = network.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon = RibbonRegressor(FrozenEstimator(network), curvature="diag", law="student").fit(X, y)
    assert_allclose(ribbon.predict_interval(X), np.c_[y, y], atol=1e-9)


def test_balanced_class_with_zero_weight():
    """The balanced class weight would be infinite, while all its rows have weight zero."""
    y = np.arange(80) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon = RibbonClassifier(LogisticRegression(class_weight="balanced"))
        ribbon.fit(X, y, sample_weight=np.where(y == 2, 0.0, 1.0))
    assert np.isfinite(ribbon.model_.loss.class_weight).all()
    assert np.isfinite(ribbon.model_.loss.gradient(np.ones((80, 2)), y)).all()


@pytest.mark.parametrize("Ribbon", [RibbonRegressor, RibbonClassifier])
def test_with_alpha_updates_leave_one_out(Ribbon):
    target = Y if Ribbon is RibbonRegressor else (np.median(Y) < Y).astype(int)
    given = {"noise": "dof"} if Ribbon is RibbonRegressor else {"temperature": 1.0}
    weight = np.random.default_rng(0).integers(1, 3, len(target))
    once = Ribbon(store_loo=True, **given).fit(X, target, sample_weight=weight).with_alpha(0.2)
    again = Ribbon(alpha=0.2, store_loo=True, **given).fit(X, target, sample_weight=weight)
    assert once.loo_score_ == pytest.approx(again.loo_score_, rel=1e-10)
    covariance = [ribbon.loo_distribution_.latent.covariance for ribbon in (once, again)]
    np.testing.assert_allclose(*covariance, rtol=1e-9)


def test_logits_with_overflowing_variances_have_finite_probabilities():
    f, root = np.array([[3.0, -1.0], [0.5, 0.2]]), np.array([[[1e221, 0.0], [0.0, 1e200]], [[0.1, 0.0], [0.0, 0.2]]])
    latent = Latent(f, row_covariances(root))
    probabilities = ClassProbabilities(latent, Categorical(3)).mean()
    assert np.isfinite(latent.covariance).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(latent.covariance[1], np.diag([0.01, 0.04]))


@pytest.mark.parametrize("epsilon", [1.01, 1.05, 1.1])
def test_huber_with_few_rows_below_its_threshold_varies_as_its_refits(epsilon):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=300)
    base = HuberRegressor(epsilon=epsilon, alpha=0, tol=1e-8, max_iter=5000)
    std = RibbonRegressor(base, noise="dof").fit(X, y).predict_std(X, kind="epistemic")
    refits = [clone(base).fit(X[rows], y[rows]).predict(X) for rows in rng.integers(0, 300, (60, 300))]
    assert 0.8 < np.median(std / np.std(refits, axis=0)) < 1.25


def test_huber_with_hardly_a_row_below_its_threshold_asks_for_a_larger_epsilon():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.standard_t(3, size=300)
    with pytest.warns(NotStationaryWarning, match="larger epsilon, such as 1.35"):
        RibbonRegressor(HuberRegressor(epsilon=1.003, tol=1e-8, max_iter=5000)).fit(X, y)


@pytest.mark.parametrize(
    ("base", "y"),
    [(Ridge(), Y), (HuberRegressor(), Y), (PoissonRegressor(), COUNTS), (GammaRegressor(), POSITIVE)],
    ids=["ridge", "huber", "poisson", "gamma"],
)
def test_regressors_work_while_underflow_raises(base, y):
    many, targets = np.tile(X, (5, 1)) + np.repeat(np.arange(5) / 100, 80)[:, None], np.tile(y, 5)
    with np.errstate(all="raise"):
        for ribbon in (RibbonRegressor(base).fit(many, targets), RibbonCV(base, cv=2, alphas=[0.5, 1]).fit(X, y)):
            far = np.concatenate([X[:5], 30 * X[:5]])
            assert np.isfinite(ribbon.predict_interval(far, 0.999)).all()
            assert not np.isnan(ribbon.log_density(far, y[:10])).any()
            assert np.isfinite(ribbon.predict_samples(far, 20, random_state=0)).all()


@pytest.mark.parametrize("options", [{"law": "empirical"}, {"predictive": "pushforward", "random_state": 0}])
def test_predictions_work_while_underflow_raises(options):
    ribbon = RibbonRegressor(**options).fit(X, Y)
    with np.errstate(all="raise"):
        assert np.isfinite(ribbon.predict_interval(30 * X[:5])).all() and np.isfinite(ribbon.predict_std(X)).all()
        assert not np.isnan(ribbon.log_density(30 * X, Y)).any()


def test_classifiers_work_while_underflow_raises():
    with np.errstate(all="raise"):
        for predictive in ("gaussian", "newton"):
            ribbon = RibbonClassifier(LogisticRegression(), predictive=predictive).fit(X, np.digitize(Y, [0.5, 1.5]))
            assert_allclose(ribbon.predict_proba(30 * X).sum(axis=1), 1.0)


@pytest.mark.parametrize("scale", [1e-160, 1e-165, 1e-250])
def test_targets_with_vanishing_squares_are_refused(scale):
    with pytest.raises(ValueError, match="so small that they vanish"):
        RibbonRegressor().fit(X, scale * Y)


@pytest.mark.parametrize("law", ["auto", "empirical"])
def test_levels_that_round_to_one_are_refused(law):
    ribbon = RibbonRegressor(law=law).fit(X, Y)
    with pytest.raises(ValueError, match="confidence_level must lie strictly between 0 and 1, by more than rounding"):
        ribbon.predict_interval(X[:1], np.nextafter(1, 0))
    with pytest.raises(ValueError, match="quantiles must lie strictly between 0 and 1, by more than rounding"):
        ribbon.predict_quantiles(X[:1], [1e-320, 0.5])
    assert_nested(ribbon.predict_interval(X[:1], [0.9, 1 - 1e-12, 1 - 4e-16]))


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")  # of HuberRegressor itself at 1e25
@pytest.mark.parametrize("kind", ["bool", "Decimal", "long integers"])
def test_huber_takes_targets_of_any_numeric_type(kind):
    numbers = (Y > 1).astype(float) if kind == "bool" else np.round(Y, 1)
    numbers = numbers * 1e25 if kind == "long integers" else numbers
    make = {"bool": bool, "Decimal": lambda v: Decimal(str(v)), "long integers": int}[kind]
    y = np.array([make(v) for v in numbers], dtype=bool if kind == "bool" else object)
    base = HuberRegressor(max_iter=2000)
    expected = RibbonRegressor(base, noise="dof").fit(X, numbers).predict_interval(X)
    assert_allclose(RibbonRegressor(base, noise="dof").fit(X, y).predict_interval(X), expected)
    assert np.isfinite(RibbonCV(RibbonRegressor(base, noise="dof"), cv=2).fit(X, y).predict_interval(X)).all()


# ---------------------------------------------------------------------- privacy
def linear(w, X):
    return X @ w


def small_network(Network):
    return Network(hidden_layer_sizes=(2,), solver="lbfgs", alpha=5.0, max_iter=500, random_state=0)


LOGGED = TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp)
FITS = {
    "default": (RibbonRegressor(), Y),
    "empirical": (RibbonRegressor(law="empirical"), Y),
    "draws": (RibbonRegressor(predictive="pushforward", random_state=0), Y),
    "matrix-free": (RibbonRegressor(curvature="matrix_free", damping=0.1), Y),
    "huber": (RibbonRegressor(HuberRegressor()), Y),
    "gamma": (RibbonRegressor(GammaRegressor()), POSITIVE),
    "logarithm": (RibbonRegressor(LOGGED), POSITIVE),
    "pipeline": (RibbonRegressor(make_pipeline(StandardScaler(), Ridge())), Y),
    "outputs": (RibbonRegressor(Ridge()), np.column_stack([Y, POSITIVE])),
    "network": (RibbonRegressor(small_network(MLPRegressor)), Y),
    "autograd": (RibbonRegressor(AutogradRegressor(linear, np.zeros(3))), Y),
    "folds": (RibbonCV(Ridge(), cv=2, store_folds=True), Y),
    "classes": (RibbonClassifier(), Y > 1),
    "network of classes": (RibbonClassifier(small_network(MLPClassifier), random_state=0), Y > 1),
    "laplace": (LaplaceRegressor(Ridge()), Y),
    "bootstrap": (BootstrapRegressor(Ridge(), n_members=3, random_state=0), Y),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_pickles_hold_no_training_value(name):
    estimator, y = FITS[name]
    fitted = clone(estimator).fit(X, y)
    fitted.predict(X[:2])
    stored = pickle.dumps(fitted)
    values = X.ravel() if np.asarray(y).dtype == bool else np.concatenate([X.ravel(), np.ravel(y)])
    assert not [value for value in values if value.tobytes() in stored]


def test_pickles_hold_targets_if_asked():
    stored = pickle.dumps(RibbonRegressor(store_loo=True).fit(X, Y))
    assert all(value.tobytes() in stored for value in Y) and not any(value.tobytes() in stored for value in X.ravel())
