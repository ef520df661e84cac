"""Dropout at prediction: against the closed form of a hidden layer and against passes by the architecture itself."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import AutogradClassifier, AutogradRegressor
from skribbon.baselines import MCDropoutClassifier, MCDropoutRegressor
from skribbon.models.architectures import mlp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)
X_NEW = RNG.normal(size=(6, 2))
ADAM = {"solver": "adam", "learning_rate": 0.02, "tol": 1e-3, "random_state": 0}


def test_zero_dropout_equals_plain_network():
    plain = AutogradRegressor(mlp((8,)), **ADAM)
    est = MCDropoutRegressor(AutogradRegressor(mlp((8,), dropout=0.0), **ADAM), n_draws=7).fit(X, Y)
    np.testing.assert_array_equal(est.predict(X_NEW), plain.fit(X, Y).predict(X_NEW))
    np.testing.assert_array_equal(est.predict_std(X_NEW, kind="epistemic"), 0)
    classifier = AutogradClassifier(mlp((8,)), **ADAM)
    est = MCDropoutClassifier(classifier, n_draws=7).fit(X, Y > 0)
    np.testing.assert_allclose(est.predict_proba(X_NEW), classifier.fit(X, Y > 0).predict_proba(X_NEW), rtol=1e-13)


def test_variance_of_one_hidden_layer_is_the_closed_form():
    """Units are dropped independently: Var f = sum_j (a_j w_j)^2 d / (1 - d)."""
    d, B = 0.3, 2000
    est = MCDropoutRegressor(AutogradRegressor(mlp((8,), dropout=d), **ADAM), n_draws=B, random_state=0).fit(X, Y)
    (W1, b1), (W2, _) = est.estimator_.params_
    parts = np.tanh(X_NEW @ W1 + b1) * W2[:, 0]
    variance = (parts**2).sum(axis=1) * d / (1 - d)
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="epistemic") ** 2, variance, rtol=0.15)
    z = (est.predict(X_NEW) - est.estimator_.predict(X_NEW)) / np.sqrt(variance / B)
    assert np.abs(z).max() < 4


def test_dropout_of_two_hidden_layers_equals_architecture():
    f = mlp((10, 6), dropout=0.2)
    est = MCDropoutRegressor(AutogradRegressor(f, **ADAM), n_draws=1500, random_state=0).fit(X, Y)
    rng, params = np.random.default_rng(1), est.estimator_.params_
    passes = np.stack([f.noisy(params, X_NEW, rng)[:, 0] for _ in range(1500)])  # a mask per row
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="epistemic"), passes.std(axis=0), rtol=0.15)
    standard_error = passes.std(axis=0) * np.sqrt(2 / 1500)
    assert np.abs((est.predict(X_NEW) - passes.mean(axis=0)) / standard_error).max() < 4


def test_a_draw_is_one_function_over_all_rows():
    est = MCDropoutRegressor(AutogradRegressor(mlp((8,), dropout=0.3), **ADAM), random_state=0).fit(X, Y)
    near = X_NEW[:1] + np.array([[0.0, 0.0], [1e-9, 0.0]])
    draws = est.predict_samples(near, n_samples=50, kind="confidence", random_state=0)
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-6)
    assert len(np.unique(draws[:, 0])) > 30


def test_frozen_network_is_not_retrained():
    network = AutogradRegressor(mlp((8,), dropout=0.3), **ADAM)
    direct = MCDropoutRegressor(network, random_state=0).fit(X, Y)
    frozen = MCDropoutRegressor(FrozenEstimator(network.fit(X, Y)), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(frozen.predict_interval(X_NEW), direct.predict_interval(X_NEW))


def test_inside_a_pipeline():
    network = AutogradRegressor(mlp((8,), dropout=0.3), **ADAM)
    scaler = StandardScaler().fit(X)
    piped = MCDropoutRegressor(make_pipeline(StandardScaler(), network), random_state=0).fit(X, Y)
    bare = MCDropoutRegressor(network, random_state=0).fit(scaler.transform(X), Y)
    np.testing.assert_allclose(piped.predict_interval(X_NEW), bare.predict_interval(scaler.transform(X_NEW)))
    assert piped.dropout_ == pytest.approx(0.3)
