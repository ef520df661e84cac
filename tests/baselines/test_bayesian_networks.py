"""What Bayesian networks say where NumPyro is missing or a parameter is wrong; the posteriors have slow tests."""

import sys

import numpy as np
import pytest
from sklearn.base import clone

from skribbon.baselines import NutsClassifier, NutsRegressor, SviClassifier, SviRegressor

X = np.random.default_rng(0).normal(size=(20, 2))
Y = X[:, 0]


@pytest.mark.parametrize("estimator", [NutsRegressor, NutsClassifier, SviRegressor, SviClassifier])
def test_bayesian_networks_construct_and_clone(estimator):
    assert clone(estimator(hidden_layer_sizes=(3,), n_draws=7)).get_params()["n_draws"] == 7


@pytest.mark.parametrize("estimator", [NutsRegressor, NutsClassifier, SviRegressor, SviClassifier])
def test_missing_numpyro_error(estimator, monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ImportError, match=rf"^{estimator.__name__} needs NumPyro: pip install skribbon\[bayes\]\.$"):
        estimator().fit(X, Y.mean() < Y)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (NutsRegressor(n_draws=1), "n_draws must be an integer >= 2, got 1"),
        (SviRegressor(prior_scale=0), "prior_scale must be a finite number > 0, got 0"),
        (SviRegressor(noise="dof"), "noise='dof' needs the leverages"),
    ],
)
def test_messages(estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, Y)


@pytest.mark.parametrize("estimator", [NutsClassifier, SviClassifier])
def test_single_class_is_refused(estimator):
    with pytest.raises(ValueError, match=r"y has one class only, .*3.*; a classifier needs at least two"):
        estimator().fit(X, np.full(20, 3))
