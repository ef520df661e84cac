"""Properties of RibbonRegressor that hold for every base model, and coverage on simulated data."""

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LinearRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skribbon import RibbonRegressor
from skribbon._core import rows as _rows
from skribbon.exceptions import SelectionWarning, UndeterminedDirectionWarning

TIGHT = {"solver": "newton-cholesky", "tol": 1e-10}
NEW = np.random.default_rng(99).normal(size=(6, 3))
PREDICTIVES = ["gaussian", "pushforward", "direct"]


def linear_data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [2.0, -1.0, 0.5] + 3 + rng.normal(size=n)


def mean_of(X):
    return np.exp(X @ [0.4, -0.3, 0.2] + 1.2)


def compound_poisson_gamma(mu, rng, phi=1.0, power=1.5):
    counts = rng.poisson(mu ** (2 - power) / (phi * (2 - power)))
    return rng.gamma(np.maximum(counts, 1e-300) * (2 - power) / (power - 1)) * phi * (power - 1) * mu ** (power - 1)


def positive_data(draw, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, draw(mean_of(X), rng)


def log_target(base=None):
    return TransformedTargetRegressor(base, func=np.log, inverse_func=np.exp)


def reciprocal_target():
    """A decreasing transform: large targets are small on the fitted scale."""
    return TransformedTargetRegressor(LinearRegression(), func=lambda y: -np.log(y), inverse_func=lambda t: np.exp(-t))


def poisson_counts(mu, rng):
    return rng.poisson(mu).astype(float)


def gamma_noise(mu, rng):
    return mu * rng.gamma(3.0, 1 / 3, mu.shape)


def log_normal_noise(mu, rng):
    return mu * np.exp(0.4 * rng.normal(size=mu.shape))


# name: (base model, data)
CASES = {
    "least squares": (LinearRegression(), linear_data()),
    "ridge": (Ridge(alpha=20.0), linear_data()),
    "huber": (HuberRegressor(tol=1e-8, max_iter=1000), linear_data()),
    "poisson": (PoissonRegressor(alpha=0.01, **TIGHT), positive_data(poisson_counts)),
    "gamma": (GammaRegressor(alpha=0.01, **TIGHT), positive_data(gamma_noise)),
    "tweedie 1.5": (TweedieRegressor(power=1.5, alpha=0.01, **TIGHT), positive_data(compound_poisson_gamma)),
    "log target": (log_target(), positive_data(log_normal_noise)),
    "decreasing target": (reciprocal_target(), positive_data(log_normal_noise)),
    "perceptron": (
        MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", solver="lbfgs", alpha=1.0, max_iter=5000, tol=1e-9),
        linear_data(),
    ),
}


def fitted(name, **params):
    base, (X, y) = CASES[name]
    return RibbonRegressor(clone(base), random_state=0, **({"noise": "dof"} | params)).fit(X, y)


@pytest.fixture(scope="module", params=CASES)
def ribbon(request):
    return fitted(request.param)


# ---------------------------------------------------------------------- properties


def test_predict_equals_base_model_exactly(ribbon):
    np.testing.assert_array_equal(ribbon.predict(NEW), ribbon.estimator_.predict(NEW))


@pytest.mark.parametrize("name", [name for name in CASES if name != "perceptron"])
def test_base_model_fit_equals_direct_fit(name):
    base, (X, y) = CASES[name]
    np.testing.assert_array_equal(fitted(name).predict(NEW), clone(base).fit(X, y).predict(NEW))


def test_standard_deviations_are_positive_and_add_in_squares(ribbon):
    total, epistemic, aleatoric = (ribbon.predict_std(NEW, kind=kind) for kind in ("total", "epistemic", "aleatoric"))
    assert np.all(epistemic > 0)
    assert np.all(aleatoric > 0)
    np.testing.assert_allclose(total**2, epistemic**2 + aleatoric**2, rtol=1e-12)


def test_return_std_and_return_cov_agree_with_predict_std(ribbon):
    y_pred, y_std = ribbon.predict(NEW, return_std=True)
    same, y_cov = ribbon.predict(NEW, return_cov=True)
    np.testing.assert_array_equal(y_pred, ribbon.predict(NEW))
    np.testing.assert_array_equal(same, y_pred)
    np.testing.assert_array_equal(y_std, ribbon.predict_std(NEW))
    assert y_cov.shape == (6, 6)
    np.testing.assert_allclose(np.sqrt(np.diag(y_cov)), y_std, rtol=1e-10)
    np.testing.assert_allclose(y_cov, y_cov.T, rtol=1e-12)


@pytest.mark.parametrize("kind", ["prediction", "confidence"])
def test_intervals_are_ordered_and_nested(ribbon, kind):
    intervals = ribbon.predict_interval(NEW, [0.3, 0.6, 0.9, 0.99], kind=kind)
    assert np.all(intervals[:, 0] <= intervals[:, 1])
    assert np.all(np.diff(intervals[:, 0], axis=1) <= 0)
    assert np.all(np.diff(intervals[:, 1], axis=1) >= 0)
    assert np.all(intervals[:, 1, -1] - intervals[:, 0, -1] > intervals[:, 1, 0] - intervals[:, 0, 0])


def test_confidence_interval_contains_prediction_and_is_narrower(ribbon):
    lower, upper = ribbon.predict_interval(NEW, 0.9, kind="confidence").T
    y_pred = ribbon.predict(NEW)
    assert np.all((lower < y_pred) & (y_pred < upper))
    wide = ribbon.predict_interval(NEW, 0.9)
    assert np.all(wide[:, 1] - wide[:, 0] > upper - lower)


def test_quantiles_increase_and_equal_interval_bounds(ribbon):
    quantiles = ribbon.predict_quantiles(NEW, [0.05, 0.25, 0.5, 0.75, 0.95])
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    np.testing.assert_allclose(quantiles[:, [0, -1]], ribbon.predict_interval(NEW, 0.9), rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_width_shrinks_as_alpha_grows(name):
    widths = []
    for alpha in (0.01, 1.0, 100.0):
        ribbon = fitted(name, alpha=alpha)
        lower, upper = ribbon.predict_interval(NEW, 0.9, kind="confidence").T
        widths.append([upper - lower, ribbon.predict_std(NEW)])
    assert np.all(np.diff(widths, axis=0) < 0)


@pytest.mark.parametrize("name", CASES)
def test_huge_alpha_gives_base_model_distribution(name):
    ribbon = fitted(name, alpha=1e15)
    epistemic, aleatoric = (ribbon.predict_std(NEW, kind=kind) for kind in ("epistemic", "aleatoric"))
    assert np.all(epistemic < 1e-6 * aleatoric)
    f = ribbon.model_.raw(ribbon.model_.rows(NEW))[:, 0]
    law = ribbon.model_.loss.law(ribbon.noise_.dispersion_).conditional(f)
    ends = ribbon.model_.decode_target(np.stack([law.ppf(0.05), law.ppf(0.95)], axis=1))
    np.testing.assert_allclose(ribbon.predict_interval(NEW, 0.9), np.sort(ends, axis=1), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("name", "family"), [("poisson", 1), ("gamma", 2), ("tweedie 1.5", 1.5)])
def test_glm_noise_is_from_its_family(name, family):
    ribbon = fitted(name)
    variance = ribbon.noise_.dispersion_ * ribbon.predict(NEW) ** family
    if name == "poisson":
        variance = np.maximum(variance, ribbon.predict(NEW))  # never below the Poisson law
    np.testing.assert_allclose(ribbon.predict_std(NEW, kind="aleatoric") ** 2, variance, rtol=1e-10)


def test_least_squares_noise_is_gaussian_with_requested_estimate():
    X, y = linear_data()
    residuals = y - LinearRegression().fit(X, y).predict(X)
    for noise, denominator in (("train", 299), ("dof", 296)):
        ribbon = RibbonRegressor(noise=noise).fit(X, y)
        assert ribbon.noise_.dispersion_ == pytest.approx(residuals @ residuals / denominator, rel=1e-10)
    assert RibbonRegressor(noise=2.5).fit(X, y).noise_.dispersion_ == 2.5


def test_ridge_leave_one_out_noise_equals_refits():
    X, y = linear_data(40)
    design = np.column_stack([X, np.ones(40)])
    shift = np.diag([20.0, 20, 20, 0])
    squares = []
    for i in range(40):
        rest = np.arange(40) != i
        theta = np.linalg.solve(design[rest].T @ design[rest] + shift, design[rest].T @ y[rest])
        squares.append((y[i] - design[i] @ theta) ** 2)
    ribbon = RibbonRegressor(Ridge(alpha=20.0), noise="loo").fit(X, y)
    assert ribbon.noise_.dispersion_ == pytest.approx(np.mean(squares), rel=1e-9)


# ---------------------------------------------------------------------- shapes


@pytest.mark.parametrize("predictive", PREDICTIVES)
@pytest.mark.parametrize("name", ["least squares", "poisson", "log target"])
def test_shapes(name, predictive):
    ribbon = fitted(name, predictive=predictive, n_draws=30)
    assert ribbon.predict(NEW).shape == (6,)
    assert ribbon.predict_interval(NEW).shape == (6, 2)
    assert ribbon.predict_interval(NEW, [0.9]).shape == (6, 2, 1)
    assert ribbon.predict_interval(NEW, (0.5, 0.8, 0.9), kind="confidence").shape == (6, 2, 3)
    assert ribbon.predict_quantiles(NEW).shape == (6, 3)
    assert ribbon.predict_quantiles(NEW, 0.5).shape == (6, 1)
    assert ribbon.predict_std(NEW).shape == (6,)
    assert ribbon.predict_samples(NEW, n_samples=7).shape == (7, 6)
    assert ribbon.predict_samples(NEW, n_samples=50, kind="confidence").shape == (50, 6)
    assert ribbon.predict_samples(NEW[:1], n_samples=1).shape == (1, 1)
    assert ribbon.predict_frame(NEW).shape == (6, 5)
    p = len(ribbon.model_.theta)
    assert ribbon.covariance_.shape == (p, p)


def test_frame_columns_equal_methods_and_index_is_kept(ribbon):
    frame = ribbon.predict_frame(pd.DataFrame(NEW, index=list("uvwxyz")), confidence_level=0.8)
    assert list(frame.columns) == ["prediction", "std_epistemic", "std_aleatoric", "lower", "upper"]
    assert list(frame.index) == list("uvwxyz")
    np.testing.assert_allclose(frame["prediction"], ribbon.predict(NEW), rtol=1e-14)
    np.testing.assert_allclose(frame["std_epistemic"], ribbon.predict_std(NEW, kind="epistemic"), rtol=1e-12)
    np.testing.assert_allclose(frame["std_aleatoric"], ribbon.predict_std(NEW, kind="aleatoric"), rtol=1e-12)
    np.testing.assert_allclose(frame[["lower", "upper"]], ribbon.predict_interval(NEW, 0.8), rtol=1e-12)


def test_frame_of_an_array_has_range_index(ribbon):
    assert list(ribbon.predict_frame(NEW).index) == list(range(6))


# ---------------------------------------------------------------------- draws


def assert_quantile(samples, value, q, slack):
    """value (n,) is the q quantile of samples (S, n): P(Y < value) <= q <= P(Y <= value) up to Monte Carlo error."""
    error = 5 * np.sqrt(q * (1 - q) / len(samples)) + slack
    nudge = 1e-7 * np.maximum(np.abs(value), 1e-3)
    assert np.all(np.mean(samples < value - nudge, axis=0) <= q + error)
    assert np.all(np.mean(samples <= value + nudge, axis=0) >= q - error)


@pytest.mark.parametrize("kind", ["prediction", "confidence"])
@pytest.mark.parametrize("predictive", PREDICTIVES)
@pytest.mark.parametrize("name", ["least squares", "poisson", "gamma", "tweedie 1.5", "log target"])
def test_samples_have_the_quantiles_of_the_interval(name, predictive, kind):
    ribbon = fitted(name, predictive=predictive, alpha=0.05, n_draws=300)  # much parameter uncertainty
    X = NEW[:3]
    samples = ribbon.predict_samples(X, n_samples=5000, kind=kind, random_state=1)
    lower, upper = ribbon.predict_interval(X, 0.8, kind=kind).T
    # quantiles of stored draws are interpolated between two of them
    slack = 1 / 300 if kind == "confidence" and predictive != "gaussian" else 0.0
    assert_quantile(samples, lower, 0.1, slack)
    assert_quantile(samples, upper, 0.9, slack)


def test_counts_have_integer_intervals_and_samples():
    ribbon = fitted("poisson")
    interval, samples = ribbon.predict_interval(NEW), ribbon.predict_samples(NEW, random_state=0)
    np.testing.assert_array_equal(interval, np.round(interval))
    np.testing.assert_array_equal(samples, np.round(samples))
    assert interval.min() >= 0


def test_samples_of_the_mean_function_have_the_joint_covariance():
    ribbon, S = fitted("least squares"), 20_000
    samples = ribbon.predict_samples(NEW, n_samples=S, kind="confidence", random_state=0)
    J = np.column_stack([NEW, np.ones(6)])
    expected = J @ ribbon.covariance_ @ J.T
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / S)
    assert np.all(np.abs(np.cov(samples.T) - expected) < 5 * error)


@pytest.mark.parametrize("predictive", PREDICTIVES)
def test_random_state_makes_fits_and_samples_repeatable(predictive):
    one, same = (fitted("poisson", predictive=predictive) for _ in range(2))
    np.testing.assert_array_equal(one.predict_interval(NEW), same.predict_interval(NEW))
    draws = [one.predict_samples(NEW, random_state=3), same.predict_samples(NEW, random_state=3)]
    np.testing.assert_array_equal(*draws)
    assert not np.array_equal(draws[0], one.predict_samples(NEW, random_state=4))


def test_random_state_changes_drawn_weights():
    X, y = linear_data()
    one, other = (RibbonRegressor(predictive="pushforward", random_state=s).fit(X, y).covariance_ for s in (0, 1))
    assert not np.allclose(one, other, rtol=1e-3)


def test_drawn_covariance_approaches_the_closed_form():
    X, y = linear_data()
    exact = RibbonRegressor().fit(X, y).covariance_
    drawn = RibbonRegressor(predictive="pushforward", n_draws=10_000, random_state=0).fit(X, y).covariance_
    error = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / 10_000)
    assert np.all(np.abs(drawn - exact) < 5 * error)


def test_direct_and_pushforward_agree_for_a_linear_model():
    X, y = linear_data()
    ends = [
        RibbonRegressor(predictive=p, random_state=0).fit(X, y).predict_interval(NEW) for p in ("pushforward", "direct")
    ]
    np.testing.assert_allclose(*ends, rtol=1e-8)


def test_direct_and_pushforward_differ_for_a_perceptron():
    ends = [fitted("perceptron", predictive=p, alpha=0.1).predict_interval(NEW) for p in ("pushforward", "direct")]
    assert not np.allclose(*ends, rtol=1e-3)


def test_block_size_does_not_change_results(monkeypatch):
    whole = fitted("gamma")
    X = np.random.default_rng(5).normal(size=(300, 3))
    expected = whole.predict_interval(X)
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 8)  # 16 rows, the smallest block
    assert len(_rows.row_blocks(300, 4)) == 19
    pieces = fitted("gamma")
    np.testing.assert_allclose(pieces.covariance_, whole.covariance_, rtol=1e-9)
    np.testing.assert_allclose(pieces.predict_interval(X), expected, rtol=1e-8)


# ---------------------------------------------------------------------- coverage

N_TRAIN, N_TEST, LEVEL = 2000, 3000, 0.9


def noisy(mu, rng):
    return mu + rng.normal(size=mu.shape)


def over_dispersed(mu, rng):
    return stats.nbinom(mu / 2, 1 / 3).rvs(random_state=rng).astype(float)  # variance 3 mu


# name: (base, mean of x, draw, the true distribution's quantiles at mean mu)
TRUTHS = {
    "least squares": (LinearRegression(), lambda X: X @ [2.0, -1, 0.5], noisy, lambda mu: stats.norm(mu)),
    "poisson": (PoissonRegressor(alpha=0, **TIGHT), mean_of, poisson_counts, stats.poisson),
    "over-dispersed": (
        PoissonRegressor(alpha=0, **TIGHT),
        mean_of,
        over_dispersed,
        lambda mu: stats.nbinom(mu / 2, 1 / 3),
    ),
    "gamma": (GammaRegressor(alpha=0, **TIGHT), mean_of, gamma_noise, lambda mu: stats.gamma(3, scale=mu / 3)),
    "log target": (log_target(), mean_of, log_normal_noise, lambda mu: stats.lognorm(0.4, scale=mu)),
    "decreasing target": (reciprocal_target(), mean_of, log_normal_noise, lambda mu: stats.lognorm(0.4, scale=mu)),
}


def covered(interval, y):
    return np.mean((interval[:, 0] <= y) & (y <= interval[:, 1]))


@pytest.mark.parametrize("name", TRUTHS)
def test_coverage_equals_coverage_of_true_distribution_interval(name):
    base, mean, draw, law = TRUTHS[name]
    rng = np.random.default_rng(7)
    X, X_test = rng.normal(size=(N_TRAIN, 3)), rng.normal(size=(N_TEST, 3))
    y, y_test = draw(mean(X), rng), draw(mean(X_test), rng)
    ribbon = RibbonRegressor(clone(base)).fit(X, y)
    truth = law(mean(X_test))
    oracle = np.column_stack([truth.ppf(0.05), truth.ppf(0.95)])
    # the dispersion is known to 1/sqrt(2 n), which moves coverage by 2 z phi(z) of that; kurtosis at most doubles it
    z = stats.norm.ppf(0.95)
    spread = np.sqrt(LEVEL * (1 - LEVEL) / N_TEST) + 4 * z * stats.norm.pdf(z) / np.sqrt(2 * N_TRAIN)
    assert abs(covered(ribbon.predict_interval(X_test, LEVEL), y_test) - covered(oracle, y_test)) < 3 * spread
    if name in ("least squares", "gamma", "log target", "decreasing target"):
        assert covered(oracle, y_test) == pytest.approx(LEVEL, abs=4 * np.sqrt(LEVEL * (1 - LEVEL) / N_TEST))


def test_confidence_interval_covers_the_true_mean_under_heteroskedastic_noise():
    rng = np.random.default_rng(0)
    n, repeats, x = 100, 300, np.array([[1.5, 0.0, 0.0]])
    hits = 0
    for _ in range(repeats):
        X = rng.normal(size=(n, 3))
        y = X @ [2.0, -1, 0.5] + rng.normal(size=n) * np.abs(X[:, 0])
        ribbon = RibbonRegressor(noise=1.0).fit(X, y)  # no noise is in the interval of a mean
        lower, upper = ribbon.predict_interval(x, 0.9, kind="confidence")[0]
        hits += lower <= 3.0 <= upper
    # HC0 covers slightly too little at n = 100; the homoskedastic interval would cover about 0.7
    assert 0.80 < hits / repeats < 0.94


@pytest.mark.parametrize("name", ["least squares", "poisson", "gamma"])
def test_raw_prediction_is_less_certain_away_from_the_data(name):
    near_and_far = np.array([[0.0, 0, 0, 1], [8.0, 0, 0, 1]])
    near, far = np.diag(near_and_far @ fitted(name).covariance_ @ near_and_far.T)
    assert far > 4 * near


# ---------------------------------------------------------------------- wrappers around the model


@pytest.mark.parametrize("predictive", PREDICTIVES)
def test_standardized_target_changes_nothing(predictive):
    X, y = linear_data()
    plain = RibbonRegressor(predictive=predictive, random_state=0).fit(X, y)
    scaled = TransformedTargetRegressor(LinearRegression(), transformer=StandardScaler())
    scaled = RibbonRegressor(scaled, predictive=predictive, random_state=0).fit(X, y)
    for kind in ("prediction", "confidence"):
        ends = (r.predict_interval(NEW, [0.5, 0.9], kind=kind) for r in (plain, scaled))
        np.testing.assert_allclose(*ends, rtol=1e-7)
    for kind in ("total", "epistemic", "aleatoric"):
        np.testing.assert_allclose(scaled.predict_std(NEW, kind=kind), plain.predict_std(NEW, kind=kind), rtol=1e-7)


def test_log_target_has_log_normal_moments():
    ribbon = fitted("log target")
    mu, phi = ribbon.predict(NEW), ribbon.noise_.dispersion_
    expected = stats.lognorm(np.sqrt(phi), scale=mu).std()
    np.testing.assert_allclose(ribbon.predict_std(NEW, kind="aleatoric"), expected, rtol=1e-6)
    base = RibbonRegressor().fit(CASES["log target"][1][0], np.log(CASES["log target"][1][1]))
    np.testing.assert_allclose(
        ribbon.predict_std(NEW, kind="epistemic"), mu * base.predict_std(NEW, kind="epistemic"), rtol=1e-6
    )
    np.testing.assert_allclose(ribbon.predict_interval(NEW), np.exp(base.predict_interval(NEW)), rtol=1e-10)


def test_decreasing_target_transform_reverses_quantiles():
    up, down = fitted("log target"), fitted("decreasing target")
    for kind in ("prediction", "confidence"):
        q = [0.05, 0.3, 0.9]
        np.testing.assert_allclose(
            down.predict_quantiles(NEW, q, kind=kind), up.predict_quantiles(NEW, q, kind=kind), rtol=1e-8
        )


def mixed_frame(n=300):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"size": rng.normal(50, 10, n), "age": rng.integers(1, 40, n), "town": rng.choice(list("abc"), n)}
    )
    y = 0.1 * frame["size"] - 0.05 * frame["age"] + frame["town"].map({"a": 0, "b": 1, "c": 2}) + rng.normal(size=n)
    return frame, y.to_numpy()


def mixed_transformer():
    return ColumnTransformer([("n", StandardScaler(), ["size", "age"]), ("c", OneHotEncoder(), ["town"])])


@pytest.mark.parametrize("penalty", [0.0, 5.0])
def test_mixed_column_pipeline_equals_model_on_transformed_columns(penalty):
    frame, y = mixed_frame()
    base = Ridge(alpha=penalty) if penalty else LinearRegression()
    ribbon = RibbonRegressor(make_pipeline(mixed_transformer(), base)).fit(frame, y)
    transformer = mixed_transformer().fit(frame)
    inner = RibbonRegressor(clone(base)).fit(transformer.transform(frame), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the full one-hot block with an intercept is no cause for alarm
        interval = ribbon.predict_interval(frame.iloc[:9])
    np.testing.assert_allclose(interval, inner.predict_interval(transformer.transform(frame.iloc[:9])), rtol=1e-9)
    assert list(ribbon.predict_frame(frame.iloc[5:9]).index) == [5, 6, 7, 8]


def test_target_transformer_around_a_pipeline():
    frame, y = mixed_frame()
    inside = make_pipeline(mixed_transformer(), Ridge())
    ribbon = RibbonRegressor(log_target(inside)).fit(frame, np.exp(y))
    plain = RibbonRegressor(inside).fit(frame, y)
    np.testing.assert_allclose(ribbon.predict_interval(frame), np.exp(plain.predict_interval(frame)), rtol=1e-8)


@pytest.mark.parametrize("name", [name for name in CASES if name != "decreasing target"])
def test_frozen_model_equals_fitted_model(name):
    base, (X, y) = CASES[name]
    base = clone(base).set_params(random_state=0) if name == "perceptron" else clone(base)
    fitted_once = RibbonRegressor(base).fit(X, y)
    frozen = RibbonRegressor(FrozenEstimator(clone(base).fit(X, y))).fit(X, y)
    np.testing.assert_array_equal(frozen.covariance_, fitted_once.covariance_)
    np.testing.assert_array_equal(frozen.predict_interval(NEW), fitted_once.predict_interval(NEW))


def test_lasso_uses_its_active_set_and_warns():
    X, y = load_diabetes(return_X_y=True)
    base = Lasso(alpha=0.5, tol=1e-10)
    with pytest.warns(SelectionWarning, match=r"Lasso keeps 4 of 10 coefficients"):
        ribbon = RibbonRegressor(base, noise="dof").fit(X, y)
    active = np.flatnonzero(ribbon.estimator_.coef_)
    assert ribbon.covariance_.shape == (5, 5)
    moved = X[:5].copy()
    moved[:, np.setdiff1d(np.arange(10), active)] += 1e3  # columns that were not selected do not matter
    np.testing.assert_allclose(ribbon.predict_std(moved), ribbon.predict_std(X[:5]), rtol=1e-12)


# ---------------------------------------------------------------------- collinear designs


def duplicated(X):
    return np.column_stack([X, X[:, 0]])


def with_constant(X):
    return np.column_stack([X, np.full(len(X), 4.0)])


def rescaled_sum(X):
    return np.column_stack([X, 1e4 * (X[:, 0] - X[:, 1])])


@pytest.mark.parametrize("redundant", [duplicated, with_constant, rescaled_sum])
@pytest.mark.parametrize("base", [LinearRegression(), PoissonRegressor(alpha=0, **TIGHT)], ids=["ols", "glm"])
def test_redundant_columns_keep_uncertainty_without_warning(redundant, base):
    X, y = linear_data() if isinstance(base, LinearRegression) else positive_data(poisson_counts)
    reduced = RibbonRegressor(clone(base)).fit(X, y)
    full = deepcopy(reduced.estimator_)  # the same function, to the last bit
    full.coef_, full.n_features_in_ = np.append(full.coef_, 0.0), 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        full = RibbonRegressor(FrozenEstimator(full)).fit(redundant(X), y)
        std = full.predict_std(redundant(NEW))
        interval = full.predict_interval(redundant(NEW), kind="confidence")
    np.testing.assert_allclose(std, reduced.predict_std(NEW), rtol=1e-8)
    np.testing.assert_allclose(interval, reduced.predict_interval(NEW, kind="confidence"), rtol=1e-8)
    assert full.effective_parameters_ == pytest.approx(4, abs=1e-8)


@pytest.mark.parametrize("redundant", [duplicated, with_constant, rescaled_sum])
def test_least_squares_accepts_redundant_columns(redundant):
    X, y = linear_data()
    reduced, full = RibbonRegressor().fit(X, y), RibbonRegressor().fit(redundant(X), y)
    np.testing.assert_allclose(full.predict_std(redundant(NEW)), reduced.predict_std(NEW), rtol=1e-8)


def test_full_one_hot_equals_dropping_one_level():
    frame, y = mixed_frame()
    full = pd.get_dummies(frame["town"], dtype=float).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        redundant = RibbonRegressor().fit(full, y).predict_interval(full[:9])
    np.testing.assert_allclose(
        redundant, RibbonRegressor().fit(full[:, 1:], y).predict_interval(full[:9, 1:]), rtol=1e-9
    )


@pytest.mark.parametrize("redundant", [duplicated, with_constant])
def test_row_breaking_collinearity_warns(redundant):
    X, y = linear_data()
    ribbon = RibbonRegressor().fit(redundant(X), y)
    broken = redundant(NEW)
    broken[2, -1] += 1.0
    with pytest.warns(UndeterminedDirectionWarning, match="1 of 6 rows"):
        ribbon.predict_interval(broken)


# ---------------------------------------------------------------------- weights are frequencies


@pytest.mark.parametrize("noise", ["dof", "train", "loo"])
@pytest.mark.parametrize("name", ["least squares", "ridge", "poisson", "gamma", "tweedie 1.5", "log target"])
def test_integer_weights_equal_repeated_rows(name, noise):
    base, (X, y) = CASES[name]
    m = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = RibbonRegressor(clone(base), noise=noise).fit(X, y, sample_weight=m)
    repeated = RibbonRegressor(clone(base), noise=noise).fit(np.repeat(X, m, axis=0), np.repeat(y, m))
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-6)
    assert weighted.noise_.dispersion_ == pytest.approx(repeated.noise_.dispersion_, rel=1e-7)
    np.testing.assert_allclose(weighted.predict_interval(NEW), repeated.predict_interval(NEW), rtol=1e-6, atol=1e-9)


def test_constant_weight_scales_std_of_mean_by_its_inverse_root():
    X, y = linear_data()
    one, three = (RibbonRegressor(correction="HC0").fit(X, y, sample_weight=np.full(300, w)) for w in (1.0, 3.0))
    ratio = one.predict_std(NEW, kind="epistemic") / three.predict_std(NEW, kind="epistemic")
    np.testing.assert_allclose(ratio, np.sqrt(901 / 301), rtol=1e-10)


def test_zero_weight_rows_equal_absent_rows():
    X, y = linear_data()
    weight = np.ones(300)
    weight[200:] = 0
    some = RibbonRegressor(noise="loo").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        some.predict_interval(NEW), RibbonRegressor(noise="loo").fit(X[:200], y[:200]).predict_interval(NEW), rtol=1e-8
    )


def test_function_transformer_in_a_pipeline_is_applied():
    X, y = linear_data()
    ribbon = RibbonRegressor(make_pipeline(FunctionTransformer(lambda X: X[:, :1]), LinearRegression())).fit(X, y)
    assert ribbon.covariance_.shape == (2, 2)
    moved = NEW.copy()
    moved[:, 1:] += 100
    np.testing.assert_array_equal(ribbon.predict_interval(moved), ribbon.predict_interval(NEW))


def test_text_input_has_no_n_features_in():
    words = np.array(["red", "green", "blue", "old"])
    drawn = np.random.default_rng(0).integers(0, 3, size=(60, 4))
    texts = [" ".join(np.repeat(words, counts)) or "none" for counts in drawn]
    y = drawn @ [1.0, -1.0, 0.5, 2.0] + np.random.default_rng(1).normal(size=60)
    vectoriser = CountVectorizer()
    ribbon = RibbonRegressor(make_pipeline(vectoriser, Ridge(1.0))).fit(texts, y)
    assert not hasattr(ribbon, "n_features_in_")
    counts = vectoriser.fit_transform(texts)
    expected = RibbonRegressor(Ridge(1.0)).fit(counts, y).predict_interval(counts)
    np.testing.assert_allclose(ribbon.predict_interval(texts), expected, rtol=1e-8)


def test_with_alpha_starts_from_the_alpha_of_the_fit():
    X, y = load_diabetes(return_X_y=True)
    ribbon = RibbonRegressor(Ridge()).fit(X, y)
    expected = ribbon.with_alpha(4.0).predict_interval(X, kind="confidence")
    changed = ribbon.set_params(alpha=9.0).with_alpha(4.0)
    np.testing.assert_allclose(changed.predict_interval(X, kind="confidence"), expected, rtol=1e-12)


def test_predictive_distributions_print_in_one_line():
    X, y = load_diabetes(return_X_y=True)
    assert repr(RibbonRegressor(Ridge()).fit(X, y).predict_distribution(X[:3])) == "Predictive(3 rows)"
    assert repr(RibbonRegressor(Ridge()).fit(X, np.c_[y, y]).predict_distribution(X[:3])) == "JointPredictive(3 rows)"


def test_joint_covariance_beyond_half_of_the_memory_is_refused(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    ribbon = RibbonRegressor(Ridge()).fit(X, y)
    monkeypatch.setattr("skribbon._estimators.regressor.machine_bytes", lambda: 2 * 2 * 8 * 100**2)
    assert ribbon.predict(X[:100], return_cov=True)[1].shape == (100, 100)
    with pytest.raises(MemoryError, match=r"two 101 x 101 arrays.*inspection.predictions"):
        ribbon.predict(X[:101], return_cov=True)
