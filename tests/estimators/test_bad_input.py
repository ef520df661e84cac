"""Bad input raises an error that names the problem; borderline input gives finite numbers or a warning."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils import check_array, column_or_1d, get_tags

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._utils.checks import check_observations
from skribbon.conformal import conformal_quantile
from skribbon.exceptions import (
    CurvatureError,
    LeverageWarning,
    NotStationaryWarning,
    RibbonWarning,
    UndeterminedDirectionWarning,
)
from skribbon.metrics import coverage_band, coverage_by_width, expected_calibration_error
from skribbon.models import polish
from skribbon.noise import ConstantNoise, HeteroskedasticNoise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [2.0, -1.0, 0.5] + RNG.normal(size=60)
LABEL = (Y + RNG.normal(size=60) > 0).astype(int)
BOTH = pytest.mark.parametrize("Ribbon", [RibbonRegressor, RibbonClassifier])


def fit(Ribbon, *args, **params):
    return Ribbon(*args, **params).fit(X, LABEL if Ribbon is RibbonClassifier else Y)


@pytest.fixture(scope="module")
def regressor():
    return fit(RibbonRegressor)


@pytest.fixture(scope="module")
def classifier():
    return fit(RibbonClassifier)


# ---------------------------------------------------------------------- parameters


@BOTH
@pytest.mark.parametrize("alpha", [0, 0.0, -1.0, np.inf, np.nan, "one", None, [1.0]])
def test_alpha(Ribbon, alpha):
    with pytest.raises(ValueError, match=r"alpha must be a finite number > 0"):
        fit(Ribbon, alpha=alpha)


@BOTH
@pytest.mark.parametrize("curvature", ["kronecker", None, 3, np.ones(2)])
def test_curvature(Ribbon, curvature):
    with pytest.raises(ValueError, match=r"curvature must be 'auto', 'hessian', 'ggn', 'fisher'"):
        fit(Ribbon, curvature=curvature)


@BOTH
@pytest.mark.parametrize("predictive", ["laplace", None, ["gaussian"], np.array(["gaussian", "direct"])])
def test_predictive(Ribbon, predictive):
    with pytest.raises(
        ValueError, match=r"predictive must be one of 'gaussian', 'pushforward', 'direct', 'newton', got"
    ):
        fit(Ribbon, predictive=predictive)


@BOTH
@pytest.mark.parametrize("correction", ["HC4", "hc3", None, ["HC3"], 3])
def test_correction(Ribbon, correction):
    with pytest.raises(ValueError, match=r"correction must be one of 'auto', 'HC0', 'HC1', 'HC2', 'HC3', got"):
        fit(Ribbon, correction=correction)


@BOTH
@pytest.mark.parametrize("damping", [-0.1, np.inf, np.nan, "much", None])
def test_damping(Ribbon, damping):
    with pytest.raises(ValueError, match=r"damping must be 'auto' or a number >= 0"):
        fit(Ribbon, damping=damping)


@BOTH
@pytest.mark.parametrize("n_draws", [1, 0, -3, 2.5, "many", None])
def test_n_draws(Ribbon, n_draws):
    with pytest.raises(ValueError, match=r"n_draws must be an integer >= 2"):
        fit(Ribbon, n_draws=n_draws)


@pytest.mark.parametrize("noise", ["jackknife", -1.0, np.nan, np.inf, None, [1.0]])
def test_noise(noise):
    with pytest.raises(ValueError, match=r"noise must be 'auto', 'train', 'dof', 'loo', 'heteroskedastic', 'cv' in"):
        fit(RibbonRegressor, noise=noise)


LEVELS = [0, 1, -0.1, 1.5, np.nan, [], [0.5, 1.0], [[0.5]], None, "high"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("method", ["predict_interval", "predict_frame"])
def test_confidence_level(regressor, method, level):
    with pytest.raises(ValueError, match=r"confidence_level must"):
        getattr(regressor, method)(X, level)


@pytest.mark.parametrize("level", LEVELS)
def test_confidence_level_of_a_classifier(classifier, level):
    with pytest.raises(ValueError, match=r"confidence_level must"):
        classifier.predict_proba_interval(X, level)


@pytest.mark.parametrize("quantiles", LEVELS)
def test_quantiles(regressor, quantiles):
    with pytest.raises(ValueError, match=r"quantiles must"):
        regressor.predict_quantiles(X, quantiles)


def test_predict_frame_refuses_several_levels(regressor):
    with pytest.raises(ValueError, match=r"confidence_level must be a single number"):
        regressor.predict_frame(X, [0.5, 0.9])


@pytest.mark.parametrize("kind", ["both", None, "total"])
def test_kind_of_interval(regressor, kind):
    for method in (regressor.predict_interval, regressor.predict_quantiles, regressor.predict_samples):
        with pytest.raises(ValueError, match=r"kind must be one of 'prediction', 'confidence'"):
            method(X, kind=kind)


@pytest.mark.parametrize("kind", ["both", None, "prediction"])
def test_kind_of_standard_deviation(regressor, kind):
    with pytest.raises(ValueError, match=r"kind must be one of 'total', 'epistemic', 'aleatoric'"):
        regressor.predict_std(X, kind=kind)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, "ten", None])
def test_n_samples(regressor, classifier, n_samples):
    for method in (regressor.predict_samples, classifier.predict_proba_samples):
        with pytest.raises(ValueError, match=r"n_samples must be an integer >= 1"):
            method(X, n_samples=n_samples)


def test_std_and_cov_exclude_each_other(regressor):
    with pytest.raises(ValueError, match=r"return_std and return_cov"):
        regressor.predict(X, return_std=True, return_cov=True)


def test_tiny_alpha_with_underflowing_weights_is_refused():
    with pytest.raises(ValueError, match=r"alpha=1e-09 .*underflow"):
        RibbonRegressor(alpha=1e-9, predictive="pushforward", random_state=0).fit(X[:6], Y[:6])


# ---------------------------------------------------------------------- data


@BOTH
def test_missing_values(Ribbon):
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        Ribbon().fit(broken, LABEL)
    ribbon = fit(Ribbon)
    methods = [ribbon.predict, getattr(ribbon, "predict_interval", None) or ribbon.predict_proba_interval]
    for method in methods:
        with pytest.raises(ValueError, match="NaN"):
            method(broken)


COLUMNS = {
    "floats": Y,
    "every other": Y[::2],
    "float32": Y.astype(np.float32),
    "whole numbers": np.arange(60),
    "a list": Y.tolist(),
    "a table of one": Y[:, None],
    "a table": X,
    "text": np.array(["a"] * 60),
    "infinite": np.where(np.arange(60) == 3, np.inf, Y),
    "not a number": np.where(np.arange(60) == 3, np.nan, Y),
    "sum too large": np.full(60, 1e308),
    "empty": Y[:0],
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_observations_are_checked_as_by_scikit_learn(column):
    try:
        expected = check_array(column_or_1d(column), ensure_2d=False, dtype=np.float64, input_name="y")
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error).splitlines()[0])):
            check_observations(column, 60)
        return
    found = check_observations(column, len(expected))
    assert found.dtype == expected.dtype
    assert_allclose(found, expected, rtol=0)
    with pytest.raises(ValueError, match="an observation for each of the 61 rows"):
        check_observations(column, 61)


@BOTH
@pytest.mark.parametrize("y", [np.where(np.arange(60) == 3, np.nan, Y), None])
def test_missing_target(Ribbon, y):
    with pytest.raises(ValueError, match=r"NaN|y"):
        Ribbon().fit(X, y)


def test_wrong_number_of_features(regressor, classifier):
    methods = [getattr(regressor, "predict" + suffix) for suffix in ("", "_interval", "_std", "_quantiles", "_samples")]
    methods += [
        getattr(classifier, "predict" + suffix) for suffix in ("", "_proba", "_proba_interval", "_proba_samples")
    ]
    for method in methods:
        with pytest.raises(ValueError, match=r"2 features, but .* 3 features"):
            method(X[:, :2])


def test_one_dimensional_row_is_refused(regressor):
    with pytest.raises(ValueError, match="Reshape your data"):
        regressor.predict_interval(X[0])


def test_different_lengths():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RibbonRegressor().fit(X, Y[:-1])


def test_methods_before_fit():
    for name in ("predict", "predict_interval", "predict_std", "predict_quantiles", "predict_samples", "predict_frame"):
        with pytest.raises(NotFittedError, match="RibbonRegressor"):
            getattr(RibbonRegressor(), name)(X)
    for name in ("predict", "predict_proba", "predict_log_proba", "predict_proba_interval", "predict_proba_samples"):
        with pytest.raises(NotFittedError, match="RibbonClassifier"):
            getattr(RibbonClassifier(), name)(X)
    with pytest.raises(NotFittedError):
        print(RibbonRegressor().covariance_)


@BOTH
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(60), "at least one non-zero"),
        (-np.ones(60), "negative"),
        (np.where(np.arange(60) == 0, -1.0, 1.0), "negative"),
        (np.ones(59), "sample_weight"),
        (np.full(60, np.nan), "sample_weight"),
        (np.full(60, np.inf), "sample_weight"),
    ],
)
def test_weights(Ribbon, weight, message):
    with pytest.raises(ValueError, match=message):
        Ribbon().fit(X, LABEL, sample_weight=weight)


class UnweightedRidge(Ridge):
    """A base model whose fit does not accept sample weights."""

    def fit(self, X, y):
        return super().fit(X, y)


@pytest.mark.parametrize("base", [UnweightedRidge(), make_pipeline(StandardScaler(), UnweightedRidge())])
def test_weights_for_a_base_model_without_them(base):
    with pytest.raises(ValueError, match=r"UnweightedRidge\.fit takes no sample_weight"):
        RibbonRegressor(base).fit(X, Y, sample_weight=np.ones(60))
    RibbonRegressor(base).fit(X, Y)


@pytest.mark.parametrize("base", [PoissonRegressor(), GammaRegressor(), TweedieRegressor(power=1.5)])
def test_negative_targets_of_a_positive_family(base):
    with pytest.raises(ValueError, match=r"y are out of the valid range"):
        RibbonRegressor(base).fit(X, Y)


def test_one_class():
    with pytest.raises(ValueError, match="class"):
        RibbonClassifier().fit(X, np.ones(60))


def test_continuous_target_of_a_classifier():
    with pytest.raises(ValueError, match="continuous"):
        RibbonClassifier().fit(X, Y)


@pytest.mark.parametrize(
    "ribbon", [RibbonRegressor(PoissonRegressor()), RibbonClassifier(), RibbonCV(PoissonRegressor())]
)
def test_two_dimensional_target_error_suggests_a_fix(ribbon):
    kind, name = "Classifier" if isinstance(ribbon, RibbonClassifier) else "Regressor", type(ribbon).__name__
    cure = rf"1d array, got an array of shape \(60, 2\).*MultiOutput{kind}\({name}\("
    with pytest.raises(ValueError, match=cure):
        ribbon.fit(X, np.column_stack([LABEL, LABEL]))


def test_suggested_fix_for_two_dimensional_target_works():
    both = MultiOutputRegressor(RibbonRegressor()).fit(X, np.column_stack([Y, -Y]))
    first, second = (one.predict_interval(X) for one in both.estimators_)
    assert_allclose(second, -first[:, ::-1])


@pytest.mark.parametrize("y", [np.where(LABEL, "high", "low"), np.arange(60).astype("datetime64[D]")])
@pytest.mark.parametrize("Ribbon", [RibbonRegressor, RibbonCV])
def test_non_numeric_regression_target_is_refused(Ribbon, y):
    with pytest.raises(ValueError, match=r"y must hold numbers for RibbonRegressor, got '.*'; labels need a class"):
        Ribbon().fit(X, y)


# ---------------------------------------------------------------------- base models


class Network(RegressorMixin, BaseEstimator):
    """Stand-in for a network class of another library."""

    __module__ = "keras.models"

    def fit(self, X, y):
        return self


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        (GridSearchCV(Ridge(), {"alpha": [1.0]}), r"goes around the Ribbon.* FrozenEstimator\(search\)"),
        (RandomForestRegressor(), r"Use conformal prediction instead.* SplitConformalRegressor"),
        (KNeighborsRegressor(), r"Use conformal prediction instead"),
        (SVR(), r"no second derivative: take LogisticRegression or HuberRegressor"),
        (GaussianProcessRegressor(), r"error bars of its own"),
        (RibbonCV(), r"a Ribbon already"),
        (Network(), r"Write the network as a torch module.* skribbon.AutogradRegressor"),
        (QuantileRegressor(), r"a smooth loss in a fixed set of parameters"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unsupported_models_are_refused_before_fitting(inside, words, monkeypatch):
    monkeypatch.setattr(type(inside), "fit", lambda *_, **__: pytest.fail("was fitted"))
    with pytest.raises(TypeError, match=f"^{type(inside).__name__} is not supported. .*{words}") as caught:
        RibbonRegressor(make_pipeline(StandardScaler(), inside)).fit(X, Y)
    lines = str(caught.value).splitlines()
    assert any("PoissonRegressor, " in line for line in lines)
    assert max(map(len, lines)) < 260


@pytest.mark.parametrize("y", [LABEL, np.where(LABEL, "yes", "no")], ids=["numbers", "names"])
@pytest.mark.parametrize(
    "base", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())], ids=["bare", "pipeline"]
)
def test_classifier_inside_a_regressor(base, y):
    with pytest.raises(TypeError, match=r"is a classifier; use RibbonClassifier"):
        RibbonRegressor(base).fit(X, y)
    with pytest.raises(TypeError, match=r"is a classifier; use RibbonClassifier"):
        RibbonRegressor(FrozenEstimator(base.fit(X, y))).fit(X, y)


@pytest.mark.parametrize("y", [LABEL, np.where(LABEL, "yes", "no")], ids=["numbers", "names"])
@pytest.mark.parametrize("base", [Ridge(), PoissonRegressor(), make_pipeline(StandardScaler(), Ridge())])
def test_regressor_inside_a_classifier(base, y):
    with pytest.raises(TypeError, match=r"is a regressor; use RibbonRegressor"):
        RibbonClassifier(base).fit(X, y)


@pytest.mark.parametrize("base", [RandomForestRegressor(2), QuantileRegressor(), RibbonRegressor()])
def test_unsupported_regressor(base):
    with pytest.raises(TypeError, match=rf"(?s){type(base).__name__} is not supported. .* LinearRegression"):
        RibbonRegressor(base).fit(X, Y)


def test_unsupported_classifier():
    with pytest.raises(TypeError, match=r"(?s)RandomForestClassifier is not supported. .* LogisticRegression"):
        RibbonClassifier(RandomForestClassifier(2)).fit(X, LABEL)


@BOTH
@pytest.mark.parametrize("base", ["ridge", 3, Ridge])
def test_non_estimators_are_refused(Ribbon, base):
    with pytest.raises(TypeError, match="estimator"):
        fit(Ribbon, base)


def test_unfitted_frozen_model():
    with pytest.raises(NotFittedError):
        RibbonRegressor(FrozenEstimator(Ridge())).fit(X, Y)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
def test_indefinite_curvature_error_suggests_a_fix():
    """A flipped sign moves a perceptron to a maximum of its loss."""
    mlp = MLPRegressor(hidden_layer_sizes=(3,), activation="tanh", solver="lbfgs", max_iter=3000, random_state=0).fit(
        X, Y
    )
    mlp.coefs_ = [-3 * W for W in mlp.coefs_]
    ribbon = RibbonRegressor(FrozenEstimator(mlp), curvature="hessian")
    with pytest.raises(CurvatureError, match=r"smallest eigenvalue is -.*curvature='ggn'.*damping greater than"):
        ribbon.fit(X, Y)


# ---------------------------------------------------------------------- borderline input


def finite(ribbon, X):
    numbers = [ribbon.predict_interval(X), ribbon.predict_interval(X, kind="confidence"), ribbon.predict_std(X)]
    numbers += [ribbon.predict_samples(X, 5, random_state=0), ribbon.predict_quantiles(X)]
    return all(np.all(np.isfinite(number)) for number in numbers)


@pytest.mark.parametrize("noise", ["dof", "loo"])
def test_fewer_rows_than_columns(noise):
    with pytest.warns(LeverageWarning, match=r"above 0\.99 count as 0\.99, so intervals there are unreliable"):
        ribbon = RibbonRegressor(noise=noise).fit(X[:3, :], Y[:3])
    with pytest.warns(UndeterminedDirectionWarning, match="of 4 rows"):
        assert finite(ribbon, X[3:7])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [0.0, 1 / 3, 7.0, 1e6])
@pytest.mark.parametrize("base", [LinearRegression(), Ridge()], ids=["least squares", "ridge"])
def test_constant_target_has_zero_width_intervals(base, value):
    ribbon = RibbonRegressor(base).fit(X, np.full(60, value))
    np.testing.assert_allclose(ribbon.predict_interval(X), value, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ribbon.predict_std(X), 0, atol=1e-8 * max(value, 1))
    assert finite(ribbon, X)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predictive", ["pushforward", "direct"])
def test_constant_target_with_draws(predictive):
    ribbon = RibbonRegressor(predictive=predictive, random_state=0).fit(X, np.full(60, 7.0))
    np.testing.assert_allclose(ribbon.predict_interval(X), 7, rtol=1e-10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_noiseless_target_counts_as_converged_in_any_unit(scale):
    """Residuals at the level of rounding do not count as incomplete training."""
    ribbon = RibbonRegressor().fit(X, scale * (X @ [2.0, -1.0, 0.5]))
    np.testing.assert_allclose(ribbon.predict_interval(X)[:, 0], ribbon.predict(X), rtol=1e-6, atol=1e-10 * scale)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predictive", ["gaussian", "pushforward"])
def test_rows_with_and_without_variance_are_predicted_together(predictive):
    """Without noise and intercept, the prediction at the origin has zero variance."""
    base = LinearRegression(fit_intercept=False)
    ribbon = RibbonRegressor(base, noise=0.0, predictive=predictive, random_state=0).fit(X, Y)
    rows = np.array([[0.0, 0, 0], [1.0, 0, 0]])
    assert finite(ribbon, rows)
    interval = ribbon.predict_interval(rows)
    np.testing.assert_allclose(interval[0], 0, atol=1e-9)
    assert interval[1, 1] - interval[1, 0] > 0.01
    assert ribbon.predict_std(rows)[0] == 0


def test_noise_by_n_minus_one_needs_two_rows():
    with pytest.raises(ValueError, match="noise='train'"):
        RibbonRegressor(Ridge(), noise="train").fit(X[:1], Y[:1])


@pytest.mark.parametrize(
    "settings",
    [{"max_iter": 3}, {"early_stopping": True, "solver": "adam", "max_iter": 50}],
    ids=["few steps", "early"],
)
def test_unconverged_perceptron_warns(settings):
    base = {"solver": "lbfgs", "hidden_layer_sizes": (5,), "random_state": 0} | settings
    X = np.random.default_rng(1).normal(size=(400, 3))
    y = X @ [2.0, -1.0, 0.5]
    label = (y + np.random.default_rng(2).normal(size=400) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(NotStationaryWarning, match="standard errors from zero"):
            ribbon = RibbonRegressor(MLPRegressor(**base)).fit(X, y + 1)
        assert ribbon.stationarity_ > 0.25
        with pytest.warns(NotStationaryWarning, match="standard errors from zero"):
            RibbonClassifier(MLPClassifier(**base)).fit(X, label)


def test_converged_model_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RibbonWarning)
        assert fit(RibbonRegressor, Ridge(50.0)).stationarity_ < 1e-6
        assert fit(RibbonClassifier).stationarity_ < 0.01


def test_warnings_point_to_user_code():
    with pytest.warns(LeverageWarning) as record:
        RibbonRegressor().fit(X[:3], Y[:3])
    assert record[0].filename == __file__


def test_covariance_larger_than_memory_is_refused(regressor, monkeypatch):
    half = 2 * 8 * len(regressor.model_.theta) ** 2
    monkeypatch.setattr("skribbon._estimators.ribbon.machine_bytes", lambda: half)
    assert regressor.covariance_.shape == (4, 4)
    monkeypatch.setattr("skribbon._estimators.ribbon.machine_bytes", lambda: half - 1)
    with pytest.raises(MemoryError, match=r"4 parameters have a covariance of .* GB; use its root, ribbon_\.root"):
        _ = regressor.covariance_
    np.testing.assert_allclose(regressor.ribbon_.root @ regressor.ribbon_.root.T, regressor.ribbon_.covariance)


def test_correction_named_after_clusters():
    with pytest.raises(ValueError, match="correction='HC2' is CR2 in a fit with groups; pass 'HC2'"):
        RibbonRegressor(correction="CR2").fit(X, Y)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels(missing):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.array(["a", "b"] * 20, dtype=object)
    fitted = RibbonClassifier().fit(X, y)
    y = y.copy()
    y[3] = missing
    for fit in (RibbonClassifier().fit, RibbonCV(LogisticRegression()).fit, fitted.conformalize):
        with pytest.raises(ValueError, match="y has no label in 1 of 40 rows"):
            fit(X, y)


@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame], ids=["array", "frame"])
def test_dates_in_X(table):
    rng = np.random.default_rng(0)
    dates = table(np.datetime64("2020-01-01") + rng.integers(0, 99, (40, 2)).astype("timedelta64[D]"))
    with pytest.raises(TypeError, match=r"X holds dates or times\. Convert them to numbers"):
        RibbonRegressor().fit(dates, rng.normal(size=40))
    with pytest.raises(TypeError, match=r"X holds dates or times\. Convert them to numbers"):
        RibbonRegressor().fit(table(rng.normal(size=(40, 2))), rng.normal(size=40)).predict_interval(dates)


def test_dates_beside_numbers():
    days = pd.date_range("2020", periods=9)
    for dates in (days, days.tz_localize("UTC"), [day.date() for day in days]):
        with pytest.raises(TypeError, match=r"X holds dates or times\. Convert them to numbers"):
            RibbonRegressor().fit(pd.DataFrame({"a": np.arange(9.0), "t": dates}), np.arange(9.0))


def test_sgd_is_tagged_as_a_binary_classifier():
    sgd = SGDClassifier(loss="log_loss")
    for base, several in ((sgd, False), (make_pipeline(StandardScaler(), sgd), False), (LogisticRegression(), True)):
        for estimator in (RibbonClassifier(base), RibbonCV(base)):
            assert get_tags(estimator).classifier_tags.multi_class is several


def test_only_models_that_can_be_polished_are_advised_to_be():
    network = MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", max_iter=3, random_state=0)
    for base, polished in ((network, True), (SGDRegressor(max_iter=1, eta0=1e-4), False)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            with pytest.warns(NotStationaryWarning, match="Try: ") as said:
                RibbonRegressor(base, damping=0.0).fit(X, Y)
        assert any("polish" in str(one.message) for one in said) is polished


# ---------------------------------------------------------------------- arguments of functions and noise models
def test_classifiers_raise_what_their_properties_raise():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    with pytest.raises(AttributeError, match="store_loo"):
        _ = RibbonClassifier().fit(X, y).loo_score_
    with pytest.raises(NotFittedError):
        _ = RibbonClassifier().covariance_
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        _ = RibbonClassifier().missing


@pytest.mark.parametrize("dispersion", [-1.0, np.nan])
def test_constant_noise_refuses_what_is_no_variance(dispersion):
    X, y = np.arange(20.0)[:, None], np.sin(np.arange(20.0))
    with pytest.raises(ValueError, match="dispersion must be a variance"):
        RibbonRegressor(noise=ConstantNoise(dispersion)).fit(X, y)


@pytest.mark.parametrize("cv", [0, 1, "a", 2.5])
def test_heteroskedastic_noise_refuses_bad_numbers_of_folds(cv):
    X = np.random.default_rng(0).normal(size=(80, 2))
    with pytest.raises(ValueError, match="cv must be an integer >= 2"):
        RibbonRegressor(noise=HeteroskedasticNoise(cv=cv)).fit(X, X[:, 0])


def test_numbers_of_bins_and_rows_are_checked():
    with pytest.raises(ValueError, match="n_bins must be an integer >= 1"):
        expected_calibration_error([0, 1], [0.2, 0.7], n_bins=0)
    with pytest.raises(ValueError, match="n_bins must be an integer >= 1"):
        coverage_by_width([1.0, 2.0], [[0, 2], [1, 3]], n_bins=-3)
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1"):
        coverage_band(0)


def test_conformal_quantile_refuses_missing_scores_and_weights_of_other_rows():
    with pytest.raises(ValueError, match="scores must not be NaN"):
        conformal_quantile([1.0, np.nan, 3.0], 0.5)
    with pytest.raises(ValueError, match="sample_weight"):
        conformal_quantile([1.0, 2.0, 3.0], 0.5, [1.0, 2.0])


def test_polish_refuses_negative_weights():
    X, y = np.arange(20.0)[:, None], np.sin(np.arange(20.0))
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        polish(Ridge().fit(X, y), X, y, sample_weight=-np.ones(20))
