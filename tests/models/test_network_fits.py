"""Fits and predictions of a network by the structure of its layers, against those by its Jacobian alone."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor
from skribbon.exceptions import RibbonWarning
from skribbon.models import _layers, mlp

rng = np.random.default_rng(0)
X = rng.normal(size=(1200, 5))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.exp(X[:, 3] / 3) * rng.normal(size=1200) / 2
WEIGHT = rng.integers(0, 3, size=1200).astype(float)


@pytest.fixture(scope="module")
def base():
    network = MLPRegressor(hidden_layer_sizes=(12,), activation="tanh", solver="lbfgs", max_iter=500, alpha=1.0)
    return FrozenEstimator(network.set_params(random_state=0).fit(X, y))


def fitted(base, weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RibbonWarning)  # a frozen model does not know of weights
        return RibbonRegressor(base, **parameters).fit(X, y, sample_weight=weight)


def said(ribbon, n):
    latent = ribbon.predict_distribution(X[:n], kind="confidence").latent
    return ribbon.covariance_, ribbon.predict_interval(X[:n]), latent.covariance, latent.df


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("correction", ["auto", "HC1", "HC2", "HC3"])
def test_layers_change_nothing(base, correction, weight, monkeypatch):
    calls = []
    of = _layers.LayerSquares.of.__func__
    monkeypatch.setattr(_layers.LayerSquares, "of", classmethod(lambda cls, *args: calls.append(1) or of(cls, *args)))
    by_layers = said(fitted(base, weight, correction=correction), 400)
    assert calls
    monkeypatch.setattr(mlp, "layers_are_worth", lambda *args: False)
    by_jacobian = said(fitted(base, weight, correction=correction), 400)
    for one, other in zip(by_layers, by_jacobian, strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=1e-8 * np.abs(other).max())


def test_noise_of_some_rows_takes_their_own_leverages(base, monkeypatch):
    """Leverages of all rows are known, and those of a sample are picked from them."""
    monkeypatch.setattr("skribbon.noise.scale.SAMPLE", 700)
    one = fitted(base)
    monkeypatch.setattr(mlp, "layers_are_worth", lambda *args: False)
    other = fitted(base)
    assert one.noise_.shrinkage_ == other.noise_.shrinkage_
    assert_allclose(one.noise_.dispersion_, other.noise_.dispersion_, rtol=1e-8)
    assert_allclose(one.predict_quantiles(X[:9], [0.1, 0.9]), other.predict_quantiles(X[:9], [0.1, 0.9]), rtol=1e-7)
