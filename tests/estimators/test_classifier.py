"""Properties of RibbonClassifier that hold for every base model."""

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, logit, softmax
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import SeparationWarning, UndeterminedDirectionWarning

TIGHT = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 500}
NEW = np.random.default_rng(99).normal(size=(8, 2)) * 1.5
PREDICTIVES = ["gaussian", "pushforward", "direct"]
LABELS = np.array(["ant", "bee", "cow"])
EXACT = {"temperature": 1.0, "averaging": "exact"}  # the average of probabilities over the ribbon, by quadrature


def classes(K, n=200, seed=0):
    """K overlapping classes named by strings."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    logits = X @ np.array([[1.0, -0.5, 0.2], [0.0, 0.8, -0.6]]) + np.array([0.2, 0.0, -0.1])
    return X, LABELS[(logits[:, :K] + rng.gumbel(size=(n, K))).argmax(axis=1)]


def unpenalised():
    return LogisticRegression(C=np.inf, **TIGHT)


def perceptron():
    return MLPClassifier(hidden_layer_sizes=(3,), activation="tanh", solver="lbfgs", alpha=1.0, max_iter=5000, tol=1e-9)


# name: (base model, number of classes)
CASES = {
    "binary": (unpenalised(), 2),
    "binary penalised": (LogisticRegression(C=0.1, **TIGHT), 2),
    "three classes": (unpenalised(), 3),
    "three classes penalised": (LogisticRegression(C=0.1, **TIGHT), 3),
    "binary perceptron": (perceptron(), 2),
    "three-class perceptron": (perceptron(), 3),
}


def fitted(name, **params):
    base, K = CASES[name]
    return RibbonClassifier(clone(base), random_state=0, **params).fit(*classes(K))


@pytest.fixture(scope="module", params=CASES)
def ribbon(request):
    return fitted(request.param)


def logit_spread(ribbon, X):
    """Mean (n, k) and covariance (n, k, k) of the raw prediction."""
    Z = ribbon.model_.rows(X)
    J = ribbon.model_.jacobian(Z)
    return ribbon.model_.raw(Z), np.einsum("nkp,pq,nlq->nkl", J, ribbon.covariance_, J)


# ---------------------------------------------------------------------- properties


def test_probabilities_are_probabilities(ribbon):
    P = ribbon.predict_proba(NEW)
    assert P.shape == (8, len(ribbon.classes_))
    assert P.min() > 0
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-14)


def test_predict_is_the_argmax_of_the_probabilities(ribbon):
    expected = LABELS[ribbon.predict_proba(NEW).argmax(axis=1)]
    np.testing.assert_array_equal(ribbon.predict(NEW), expected)
    assert len(set(expected)) > 1


def test_log_probabilities_and_decision_follow_the_probabilities(ribbon):
    P = ribbon.predict_proba(NEW)
    np.testing.assert_allclose(ribbon.predict_log_proba(NEW), np.log(P), rtol=1e-12)
    if hasattr(ribbon.estimator_, "decision_function"):
        score = ribbon.decision_function(NEW)
        back = np.column_stack([expit(-score), expit(score)]) if P.shape[1] == 2 else softmax(score, axis=1)
        np.testing.assert_allclose(back, P, rtol=1e-10)


def test_decision_function_exists_if_the_base_model_has_one():
    assert hasattr(RibbonClassifier(), "decision_function")
    assert not hasattr(RibbonClassifier(perceptron()), "decision_function")


def test_averaging_shrinks_probabilities_towards_one_half():
    ribbon = fitted("binary", alpha=0.1, temperature=1.0)
    plug_in, averaged = ribbon.estimator_.predict_proba(NEW)[:, 1], ribbon.predict_proba(NEW)[:, 1]
    assert np.all(np.abs(logit(averaged)) < np.abs(logit(plug_in)))


@pytest.mark.parametrize("name", CASES)
def test_huge_alpha_gives_base_model_probabilities(name):
    ribbon = fitted(name, alpha=1e15, temperature=1.0)
    plug_in = ribbon.estimator_.predict_proba(NEW)
    np.testing.assert_allclose(ribbon.predict_proba(NEW), plug_in, rtol=1e-6)
    np.testing.assert_allclose(ribbon.predict_proba_interval(NEW)[..., 0], plug_in, rtol=1e-5)
    np.testing.assert_allclose(ribbon.predict_proba_interval(NEW)[..., 1], plug_in, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_intervals_are_ordered_nested_and_contain_the_plug_in_probability(name):
    ribbon = fitted(name, temperature=1.0)
    intervals = ribbon.predict_proba_interval(NEW, [0.5, 0.9, 0.99])
    lower, upper = intervals[:, :, 0], intervals[:, :, 1]
    assert np.all((lower > 0) & (upper < 1) & (lower < upper))
    assert np.all(np.diff(lower, axis=2) < 0)
    assert np.all(np.diff(upper, axis=2) > 0)
    plug_in = ribbon.estimator_.predict_proba(NEW)
    assert np.all((lower[..., 1] < plug_in) & (plug_in < upper[..., 1]))


def test_intervals_are_ordered_nested_and_contain_the_predicted_probability(ribbon):
    intervals = ribbon.predict_proba_interval(NEW, [0.1, 0.5, 0.9, 0.99])
    lower, upper = intervals[:, :, 0], intervals[:, :, 1]
    assert np.all((lower > 0) & (upper < 1) & (lower < upper))
    assert np.all(np.diff(lower, axis=2) <= 0)
    assert np.all(np.diff(upper, axis=2) >= 0)
    P = ribbon.predict_proba(NEW)[:, :, None]
    assert np.all((lower <= P) & (upper >= P))


@pytest.mark.parametrize("name", CASES)
def test_intervals_narrow_as_alpha_grows(name):
    widths = [np.ptp(fitted(name, alpha=alpha).predict_proba_interval(NEW), axis=2) for alpha in (0.3, 3.0, 30.0)]
    assert np.all(np.diff(widths, axis=0) < 0)


def test_two_classes_have_mirrored_intervals():
    interval = fitted("binary").predict_proba_interval(NEW)
    np.testing.assert_allclose(interval[:, 0], 1 - interval[:, 1, ::-1], rtol=1e-10)


@pytest.mark.parametrize("predictive", PREDICTIVES)
@pytest.mark.parametrize("name", ["binary", "three classes", "three-class perceptron"])
def test_shapes(name, predictive):
    ribbon = fitted(name, predictive=predictive, n_draws=40)
    K = len(ribbon.classes_)
    assert ribbon.predict(NEW).shape == (8,)
    assert ribbon.predict_proba(NEW).shape == (8, K)
    assert ribbon.predict_proba_interval(NEW).shape == (8, K, 2)
    assert ribbon.predict_proba_interval(NEW, [0.9]).shape == (8, K, 2, 1)
    assert ribbon.predict_proba_interval(NEW, (0.5, 0.8, 0.9)).shape == (8, K, 2, 3)
    assert ribbon.predict_proba_samples(NEW).shape == (100, 8, K)
    assert ribbon.predict_proba_samples(NEW[:1], n_samples=1).shape == (1, 1, K)
    np.testing.assert_allclose(ribbon.predict_proba_samples(NEW).sum(axis=2), 1, rtol=1e-12)


# ---------------------------------------------------------------------- integrals


def logistic_normal(z, mean, scale):
    return stats.norm.pdf(z) * expit(mean + scale * z)


@pytest.mark.parametrize("alpha", [0.02, 1.0])
def test_binary_average_is_the_logistic_normal_integral(alpha):
    ribbon = fitted("binary", alpha=alpha, **EXACT)
    f, S = logit_spread(ribbon, NEW)
    for mean, variance, P in zip(f[:, 0], S[:, 0, 0], ribbon.predict_proba(NEW), strict=True):
        exact, _ = quad(logistic_normal, -12, 12, args=(mean, np.sqrt(variance)), epsabs=1e-13)
        assert P[1] == pytest.approx(exact, abs=4e-9)  # error of the mixture of probits


@pytest.mark.parametrize("correction", ["HC0", "HC2"])
def test_binary_interval_is_the_sigmoid_of_students_interval(correction):
    ribbon = fitted("binary", correction=correction, temperature=1.0)
    f, S = logit_spread(ribbon, NEW)
    df = np.inf if correction == "HC0" else ribbon.predict_distribution(NEW).latent.df
    assert np.all(df > 5)
    half = stats.t.ppf(0.95, df) * np.sqrt(S[:, 0, 0])
    expected = expit(np.column_stack([f[:, 0] - half, f[:, 0] + half]))
    np.testing.assert_allclose(ribbon.predict_proba_interval(NEW, 0.9)[:, 1], expected, rtol=1e-10)


@pytest.fixture(scope="module")
def three_class_draws():
    """A ribbon, and 100,000 probabilities (S, n, K) drawn independently from its logits."""
    ribbon = fitted("three classes", **EXACT)
    rng = np.random.default_rng(0)
    theta = rng.multivariate_normal(ribbon.model_.theta, ribbon.covariance_, size=100_000)
    Theta = np.einsum("kc,scd->skd", ribbon.model_.loss.basis, theta.reshape(len(theta), 2, 3))
    return ribbon, softmax(np.einsum("skd,nd->snk", Theta, np.column_stack([NEW, np.ones(8)])), axis=2)


def test_three_class_average_equals_monte_carlo(three_class_draws):
    ribbon, draws = three_class_draws
    error = 5 * draws.std(axis=0) / np.sqrt(len(draws)) + 1e-3  # of the draws; of the 512 fixed nodes
    assert np.all(np.abs(ribbon.predict_proba(NEW) - draws.mean(axis=0)) < error)


def test_three_class_interval_has_nominal_monte_carlo_probability(three_class_draws):
    ribbon, draws = three_class_draws
    interval = ribbon.predict_proba_interval(NEW, 0.9)
    for end, q in ((0, 0.05), (1, 0.95)):
        level = np.mean(draws < interval[:, :, end], axis=0)
        np.testing.assert_allclose(level, q, atol=0.015)  # eight of 512 nodes


@pytest.mark.parametrize("predictive", PREDICTIVES)
@pytest.mark.parametrize("name", ["binary", "three classes", "binary perceptron"])
def test_average_of_samples_is_the_probability(name, predictive):
    ribbon = fitted(name, predictive=predictive, n_draws=200, **EXACT)
    samples = ribbon.predict_proba_samples(NEW, n_samples=10_000, random_state=1)
    error = 5 * samples.std(axis=0) / np.sqrt(len(samples))
    nodes = 1e-3 if name == "three classes" and predictive == "gaussian" else 0.0
    assert np.all(np.abs(samples.mean(axis=0) - ribbon.predict_proba(NEW)) < error + nodes)


@pytest.mark.parametrize("predictive", ["pushforward", "direct"])
def test_predictions_equal_averages_and_quantiles_of_stored_draws(predictive):
    ribbon = fitted("three-class perceptron", predictive=predictive, n_draws=50, correction="HC0", **EXACT)
    samples = ribbon.predict_proba_samples(NEW, n_samples=50, random_state=1)
    np.testing.assert_allclose(samples.mean(axis=0), ribbon.predict_proba(NEW), rtol=1e-10)
    expected = np.moveaxis(np.quantile(samples, [0.1, 0.9], axis=0), 0, 2)
    np.testing.assert_allclose(ribbon.predict_proba_interval(NEW, 0.8), expected, rtol=1e-10)


@pytest.mark.parametrize("temperature", ["auto", 1.0])
def test_random_state_makes_fits_and_samples_repeatable(temperature):
    settings = {"predictive": "direct", "temperature": temperature}
    one, same = (fitted("three-class perceptron", **settings) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(NEW), same.predict_proba(NEW))
    draws = [r.predict_proba_samples(NEW, random_state=3) for r in (one, same)]
    np.testing.assert_array_equal(*draws)
    assert not np.array_equal(draws[0], one.predict_proba_samples(NEW, random_state=4))


@pytest.mark.parametrize("temperature", ["auto", 1.0])
def test_direct_and_pushforward_agree_for_a_linear_model(temperature):
    settings = {"temperature": temperature}
    one, other = (
        fitted("three classes", predictive=p, **settings).predict_proba(NEW) for p in ("pushforward", "direct")
    )
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_probabilities_are_calibrated_on_average():
    X, y = classes(3, n=2000)
    X_test, y_test = classes(3, n=4000, seed=1)
    P = RibbonClassifier(unpenalised()).fit(X, y).predict_proba(X_test)
    for k, label in enumerate(LABELS):
        error = np.sqrt((P[:, k] * (1 - P[:, k])).sum()) / len(y_test)
        fit_error = np.sqrt(0.25 / len(y))
        assert abs(P[:, k].mean() - np.mean(y_test == label)) < 4 * np.hypot(error, fit_error)


# ---------------------------------------------------------------------- gauge and collinearity


def assert_same_uncertainty(one, other, X_one, X_other, rtol=1e-8):
    np.testing.assert_allclose(other.predict_proba(X_other), one.predict_proba(X_one), rtol=rtol)
    ends = one.predict_proba_interval(X_one), other.predict_proba_interval(X_other)
    np.testing.assert_allclose(ends[1], ends[0], rtol=rtol)


def frozen(model, X, y, **params):
    return RibbonClassifier(FrozenEstimator(model), **params).fit(X, y)


def test_common_shift_of_logits_changes_nothing():
    X, y = classes(3)
    model = unpenalised().fit(X, y)
    shifted = deepcopy(model)
    shifted.coef_ = model.coef_ + np.array([3.0, -7.0])
    shifted.intercept_ = model.intercept_ + 11.0
    assert_same_uncertainty(frozen(model, X, y), frozen(shifted, X, y), NEW, NEW)


@pytest.mark.parametrize("temperature", ["auto", 1.0])
@pytest.mark.parametrize("name", ["binary penalised", "three classes", "three classes penalised"])
def test_frozen_model_equals_fitted_model(name, temperature):
    base, K = CASES[name]
    X, y = classes(K)
    frozen_model = frozen(clone(base).fit(X, y), X, y, temperature=temperature)
    expected = RibbonClassifier(base, temperature=temperature).fit(X, y).predict_proba(NEW)
    np.testing.assert_array_equal(frozen_model.predict_proba(NEW), expected)


@pytest.mark.parametrize("temperature", ["auto", 1.0])
def test_relabelled_classes_permute_the_probabilities(temperature):
    X, y = classes(3)
    new_name = {"ant": "z", "bee": "y", "cow": "x"}
    known = {"predictive": "pushforward", "random_state": 0, "n_draws": 50, "temperature": temperature}
    one = RibbonClassifier(unpenalised(), **known).fit(X, y)
    other = clone(one).fit(X, np.array([new_name[label] for label in y]))
    np.testing.assert_allclose(other.predict_proba(NEW)[:, ::-1], one.predict_proba(NEW), rtol=1e-6)


def duplicated(X):
    return np.column_stack([X, X[:, 0]])


def with_constant(X):
    return np.column_stack([X, np.full(len(X), 4.0)])


def widened(model):
    """Copy of a classifier with one more column, whose coefficient is zero."""
    wide = deepcopy(model)
    wide.coef_ = np.column_stack([model.coef_, np.zeros(len(model.coef_))])
    wide.n_features_in_ = 3
    return wide


@pytest.mark.parametrize("redundant", [duplicated, with_constant])
@pytest.mark.parametrize("K", [2, 3])
def test_redundant_columns_change_nothing_without_warning(redundant, K):
    X, y = classes(K)
    model = unpenalised().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        full = frozen(widened(model), redundant(X), y)
        assert_same_uncertainty(frozen(model, X, y), full, NEW, redundant(NEW), rtol=1e-7)


@pytest.mark.parametrize("redundant", [duplicated, with_constant])
@pytest.mark.parametrize("K", [2, 3])
def test_row_breaking_collinearity_warns(redundant, K):
    X, y = classes(K)
    full = frozen(widened(unpenalised().fit(X, y)), redundant(X), y)
    broken = redundant(NEW)
    broken[[1, 5], -1] += 1.0
    for method in (full.predict_proba, full.predict_proba_interval, full.predict_proba_samples):
        with pytest.warns(UndeterminedDirectionWarning, match="2 of 8 rows"):
            method(broken)


def test_full_one_hot_equals_dropping_one_level():
    town = np.random.default_rng(0).integers(0, 3, 300)
    y = np.random.default_rng(1).uniform(size=300) < np.array([0.2, 0.5, 0.7])[town]
    full = np.eye(3)[town]
    model = unpenalised().fit(full[:, 1:], y)
    wide = deepcopy(model)
    wide.coef_, wide.n_features_in_ = np.column_stack([[0.0], model.coef_]), 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_uncertainty(frozen(model, full[:, 1:], y), frozen(wide, full, y), full[:9, 1:], full[:9])


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("name", ["binary", "binary penalised", "three classes", "three classes penalised"])
def test_integer_weights_equal_repeated_rows(name):
    base, K = CASES[name]
    X, y = classes(K)
    m = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = RibbonClassifier(clone(base)).fit(X, y, sample_weight=m)
    repeated = RibbonClassifier(clone(base)).fit(np.repeat(X, m, axis=0), np.repeat(y, m))
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-6)
    assert_same_uncertainty(weighted, repeated, NEW, NEW, rtol=1e-6)


def test_constant_weight_scales_logit_std_by_its_inverse_root():
    X, y = classes(2)
    ribbon = RibbonClassifier(unpenalised(), correction="HC0")
    one, three = (clone(ribbon).fit(X, y, sample_weight=np.full(200, w)) for w in (1.0, 3.0))
    np.testing.assert_allclose(one.covariance_ / three.covariance_, 601 / 201, rtol=1e-6)


@pytest.mark.parametrize("K", [2, 3])
def test_class_weight_does_not_count_as_observations(K):
    """Doubling every class weight equals halving C with an unchanged number of rows."""
    X, y = classes(K)
    weight = dict.fromkeys(LABELS[:K], 2.0)
    doubled = RibbonClassifier(LogisticRegression(C=0.5, class_weight=weight, **TIGHT)).fit(X, y)
    plain = RibbonClassifier(LogisticRegression(C=1.0, **TIGHT)).fit(X, y)
    np.testing.assert_allclose(doubled.covariance_, plain.covariance_, rtol=1e-6)


def test_balanced_class_weight_equals_its_dictionary():
    X, y = classes(2)
    keep = (y == "ant") | (np.arange(len(y)) % 3 == 0)
    X, y = X[keep], y[keep]
    by_hand = {label: len(y) / (2 * np.sum(y == label)) for label in LABELS[:2]}
    one, other = (
        RibbonClassifier(LogisticRegression(class_weight=w, **TIGHT)).fit(X, y) for w in ("balanced", by_hand)
    )
    np.testing.assert_allclose(one.covariance_, other.covariance_, rtol=1e-10)
    assert not np.allclose(one.covariance_, RibbonClassifier(LogisticRegression(**TIGHT)).fit(X, y).covariance_)


# ---------------------------------------------------------------------- wrappers around the model


@pytest.mark.parametrize("temperature", ["auto", 1.0])
def test_mixed_column_pipeline_equals_model_on_transformed_columns(temperature):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"size": rng.normal(50, 10, 300), "town": rng.choice(list("abc"), 300)})
    y = rng.uniform(size=300) < expit((frame["size"] - 50) / 10 + frame["town"].map({"a": -1, "b": 0, "c": 1}))
    transformer = ColumnTransformer([("n", StandardScaler(), ["size"]), ("c", OneHotEncoder(), ["town"])])
    base = make_pipeline(transformer, LogisticRegression(**TIGHT))
    ribbon = RibbonClassifier(base, temperature=temperature).fit(frame, y)
    inner = RibbonClassifier(base[-1], temperature=temperature).fit(transformer.fit_transform(frame), y)
    np.testing.assert_allclose(
        ribbon.predict_proba(frame), inner.predict_proba(transformer.transform(frame)), rtol=1e-9
    )
    assert ribbon.classes_.tolist() == [False, True]


def test_confident_classifier_gives_finite_numbers():
    X = np.linspace(-3, 3, 60)[:, None]
    y = (X[:, 0] > 0).astype(int)
    ribbon = RibbonClassifier(LogisticRegression(C=1e4, **TIGHT)).fit(X, y)
    far = np.array([[-1e4], [1e4]])
    assert np.all(np.isfinite(ribbon.predict_proba(far)))
    assert np.all(np.isfinite(ribbon.predict_log_proba(X)))
    assert np.all(np.isfinite(ribbon.decision_function(far)))
    assert np.all(np.isfinite(ribbon.predict_proba_interval(far)))


@pytest.mark.parametrize("names", [["no", "yes"], ["a", "b", "c"]], ids=["two classes", "three"])
def test_predict_frame_contains_probabilities_and_intervals(names):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X[y < len(names)], y[y < len(names)].map(dict(enumerate(names)))
    ribbon = RibbonClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)
    tuned = RibbonCV(FrozenEstimator(ribbon), alphas=[2.0]).fit(X, y)
    table = tuned.predict_frame(X[::9], confidence_level=0.8)
    assert list(table.index) == list(X.index[::9])
    assert list(table.columns[:4]) == ["prediction", f"proba_{names[0]}", f"lower_{names[0]}", f"upper_{names[0]}"]
    assert (table["prediction"] == tuned.predict(X[::9])).all()
    for k, name in enumerate(names):
        np.testing.assert_array_equal(table[f"proba_{name}"], tuned.predict_proba(X[::9])[:, k])
        ends = table[[f"lower_{name}", f"upper_{name}"]].to_numpy()
        np.testing.assert_array_equal(ends, tuned.predict_proba_interval(X[::9], 0.8)[:, k])
    with pytest.raises(ValueError, match="single number"):
        ribbon.predict_frame(X, confidence_level=[0.5, 0.9])


# ---------------------------------------------------------------------- temperature


@pytest.mark.parametrize("T", [0.4, 2.5])
@pytest.mark.parametrize("predictive", PREDICTIVES)
@pytest.mark.parametrize("name", ["binary", "three classes", "three-class perceptron"])
def test_temperature_divides_the_logits(name, predictive, T):
    """Probabilities equal those of logits over T; draws and intervals those of logits over T if it is below one."""
    cold, warm = (
        fitted(name, alpha=0.2, predictive=predictive, n_draws=60, **EXACT | {"temperature": t}) for t in (1, T)
    )
    draws = cold.predict_distribution(NEW).latent.source(40_000, np.random.RandomState(3))  # (n, k, S)
    eta = np.concatenate([0 * draws, draws], axis=1) if draws.shape[1] == 1 else cold.model_.loss.basis @ draws
    by_hand, shown = softmax(eta / T, axis=1), softmax(eta / min(T, 1), axis=1)
    error = 5 * by_hand.std(axis=2) / np.sqrt(40_000) + 1e-3  # of the draws; of fixed nodes
    proba = warm.predict_proba(NEW)
    assert np.all(np.abs(proba - by_hand.mean(axis=2)) < error)
    assert np.abs(cold.predict_proba(NEW) - proba).max() > 0.05  # the test can tell
    lower = warm.predict_proba_interval(NEW, 0.8)[:, :, 0]
    level, moved = np.mean(shown < lower[:, :, None], axis=2), lower == proba  # bounds that the prediction moved
    np.testing.assert_allclose(level[~moved], 0.1, atol=0.02)
    assert np.all(level[moved] < 0.12)
    assert moved.mean() < (0.1 if T < 1 else 0.9)
    samples = warm.predict_proba_samples(NEW, n_samples=20, random_state=5)
    raw = cold.predict_distribution(NEW).latent.source(20, np.random.RandomState(5))
    eta = np.concatenate([0 * raw, raw], axis=1) if raw.shape[1] == 1 else cold.model_.loss.basis @ raw
    np.testing.assert_allclose(samples, softmax(eta / min(T, 1), axis=1).transpose(2, 0, 1), rtol=1e-10)


def test_temperature_without_uncertainty_equals_softmax_of_divided_logits():
    ribbon = fitted("three classes", alpha=1e15, temperature=0.4)
    logits = ribbon.estimator_.decision_function(NEW)
    np.testing.assert_allclose(ribbon.predict_proba(NEW), softmax(logits / 0.4, axis=1), rtol=1e-6)
    score = ribbon.decision_function(NEW)
    np.testing.assert_allclose(score, (logits - logits.mean(axis=1, keepdims=True)) / 0.4, rtol=1e-5)


@pytest.mark.parametrize("predictive", PREDICTIVES)
@pytest.mark.parametrize("name", ["binary", "three classes"])
def test_with_alpha_and_temperature_equal_a_new_fit(name, predictive):
    settings = {"predictive": predictive, "store_loo": True}
    start = fitted(name, temperature=0.7, **settings)
    kept, moved = start.with_alpha(3.0), start.with_alpha(3.0, temperature=3.0)
    assert (kept.temperature, moved.temperature, start.temperature) == (0.7, 3.0, 0.7)
    for ribbon in (kept, moved):
        if predictive == "gaussian":  # weights are not drawn again
            again = fitted(name, alpha=3.0, temperature=ribbon.temperature, **settings)
            np.testing.assert_allclose(ribbon.predict_proba(NEW), again.predict_proba(NEW), rtol=1e-9)
            assert ribbon.loo_score_ == pytest.approx(again.loo_score_, rel=1e-9)
        _, y = classes(len(ribbon.classes_))
        own = ribbon.loo_distribution_.mean()[np.arange(len(y)), np.searchsorted(ribbon.classes_, y)]
        assert ribbon.loo_score_ == pytest.approx(np.log(own).mean(), rel=1e-10)
    assert abs(kept.loo_score_ - moved.loo_score_) > 1e-3


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.inf, np.nan, "warm", None])
def test_temperature_is_checked(temperature):
    with pytest.raises(ValueError, match="temperature must be 'auto' or a finite number > 0"):
        RibbonClassifier(temperature=temperature).fit(*classes(2))
    ribbon = fitted("binary")
    if temperature is not None:
        with pytest.raises(ValueError, match="temperature must be a finite number > 0"):
            ribbon.with_alpha(1.0, temperature=temperature)


def test_with_alpha_refuses_an_automatic_temperature():
    """Its choice needs held-out rows, which a fitted Ribbon does not keep."""
    with pytest.raises(ValueError, match="temperature must be a finite number > 0"):
        fitted("binary").with_alpha(1.0, temperature="auto")


# ---------------------------------------------------------------------- confident classifiers


@pytest.mark.parametrize("settings", [{"temperature": 1.0}, {"held_out": "loo"}], ids=["number", "loo"])
@pytest.mark.parametrize("K", [2, 3])
def test_separated_classes_warn_without_refits(K, settings):
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = (X @ [[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])[:, :K].argmax(axis=1)
    with pytest.warns(SeparationWarning, match="almost perfectly separated.*increase the penalty"):
        sure = RibbonClassifier(LogisticRegression(C=1e5, **TIGHT), **settings).fit(X, y)
    P = sure.estimator_.predict_proba(X)
    assert np.sum((P - np.eye(K)[y]) ** 2) < 0.05 * np.sum(P * (1 - P))  # what it says is so
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RibbonClassifier(LogisticRegression(C=0.1, **TIGHT), **settings).fit(X, y)  # its cure
        RibbonClassifier(LogisticRegression(C=1.0, **TIGHT), **settings).fit(*classes(K))


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_corrections_of_confident_networks_are_bounded():
    """Rows that determine their own logits: leverages above one half count as one half."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    network = MLPClassifier((8,), activation="tanh", solver="lbfgs", alpha=1e-3, max_iter=5000, random_state=0)
    base = FrozenEstimator(network.fit(X, y))
    fits = {c: RibbonClassifier(base, correction=c, damping=0.0).fit(X, y) for c in ("HC0", "HC2", "HC3", "auto")}
    np.testing.assert_array_equal(fits["auto"].covariance_, fits["HC2"].covariance_)
    model, n = fits["HC0"].model_, len(y)
    P = network.predict_proba(X)[:, 1]
    J = model.jacobian(model.rows(X))[:, 0]
    C, u = P * (1 - P), P - y
    H_r = np.einsum("np,n,nq->pq", J, C, J) / n + np.diag(model.l2)
    h = C * np.einsum("np,pq,nq->n", J, np.linalg.inv(H_r), J) / n
    assert (h > 0.9).sum() > 5  # the test can tell
    H_inverse = np.linalg.inv(H_r)
    for correction, power in (("HC2", -0.5), ("HC3", -1.0)):
        scores = J * (u * (1 - np.minimum(h, 0.5)) ** power)[:, None] - (J * u[:, None]).mean(axis=0)
        expected = H_inverse @ (scores.T @ scores / n) @ H_inverse / (n + 1)
        root = np.sqrt(np.diag(expected))
        error = (fits[correction].covariance_ - expected) / np.outer(root, root)
        assert np.abs(error).max() < 1e-4


def test_missing_predict_interval_error_names_alternatives():
    X, y = load_iris(return_X_y=True)
    ribbon = RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
    assert not hasattr(ribbon, "predict_interval")
    assert not hasattr(RibbonCV(ribbon), "predict_interval")
    with pytest.raises(AttributeError, match=r"predict_proba_interval\(X\).*predict_set\(X\)"):
        ribbon.predict_interval(X)
    with pytest.raises(AttributeError, match="'RibbonClassifier' object has no attribute 'predict_intervals'"):
        _ = ribbon.predict_intervals


def test_alpha_in_predict_methods_error_names_alternatives():
    X, y = load_iris(return_X_y=True)
    message = r"has no parameter alpha.*confidence_level=0.9.*with_alpha\(alpha\)"
    for ribbon in (RibbonRegressor(), RibbonCV()):
        with pytest.raises(TypeError, match="predict_interval " + message):
            ribbon.fit(X, y).predict_interval(X, alpha=0.1)
    with pytest.raises(TypeError, match="predict_proba_interval " + message):
        RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y).predict_proba_interval(X, alpha=0.1)
