"""Bayesian networks by NumPyro, against the conjugate posterior of a network without hidden units."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

from skribbon.baselines import NutsClassifier, NutsRegressor, SviClassifier, SviRegressor

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2)) * [1.0, 10.0] + 3
Y = 50 * (X @ [1.0, -0.1]) + 20 * RNG.normal(size=N)
X_NEW = RNG.normal(size=(8, 2)) * [1.0, 10.0] + 3


def conjugate(prior_scale):
    """Mean and standard deviation of the line's posterior at X_NEW, sigma at its estimate, on the scale of y."""
    location, scale = X.mean(axis=0), X.std(axis=0)
    Phi, Phi_new = (np.column_stack([(A - location) / scale, np.ones(len(A))]) for A in (X, X_NEW))
    t = (Y - Y.mean()) / Y.std()
    s2 = np.sum((t - Phi @ np.linalg.lstsq(Phi, t, rcond=None)[0]) ** 2) / (N - 3)
    covariance = np.linalg.inv(Phi.T @ Phi / s2 + np.eye(3) / prior_scale**2)
    mean = Phi_new @ (covariance @ (Phi.T @ t)) / s2
    return Y.mean() + Y.std() * mean, Y.std() * np.sqrt(np.einsum("np,pq,nq->n", Phi_new, covariance, Phi_new)), s2


@pytest.mark.parametrize("method", [NutsRegressor, SviRegressor])
def test_linear_model_has_the_conjugate_posterior(method):
    pytest.importorskip("numpyro")
    est = method(hidden_layer_sizes=(), n_draws=1000, noise="posterior", random_state=0).fit(X, Y)
    mean, std, s2 = conjugate(1.0)
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="epistemic"), std, rtol=0.15)
    assert np.abs((est.predict(X_NEW) - mean) / std).max() < 0.25
    assert est.noise_.dispersion_ == pytest.approx(s2, rel=0.15)
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="aleatoric"), Y.std() * np.sqrt(s2), rtol=0.1)


def test_narrow_prior_keeps_predictions_at_the_mean():
    pytest.importorskip("numpyro")
    est = SviRegressor((), prior_scale=0.05, n_draws=100, n_steps=1000, random_state=0).fit(X, Y)
    assert np.abs(est.predict(X_NEW) - Y.mean()).max() < 0.5 * np.abs(conjugate(1.0)[0] - Y.mean()).max()


def test_noise_is_on_the_scale_of_y():
    pytest.importorskip("numpyro")
    est = SviRegressor((3,), n_draws=20, n_steps=200, noise=400.0, random_state=0).fit(X, Y)
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="aleatoric"), 20, rtol=1e-8)
    est = SviRegressor((3,), n_draws=20, n_steps=200, random_state=0).fit(X, Y)
    residuals = Y - est.predict(X)
    expected = np.sqrt(residuals @ residuals / (N - 1))
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="aleatoric"), expected, rtol=1e-8)


def test_predictions_need_only_numpy(monkeypatch):
    pytest.importorskip("numpyro")
    est = SviRegressor((3,), n_draws=30, n_steps=50, random_state=0).fit(X, Y)
    again = SviRegressor((3,), n_draws=30, n_steps=50, random_state=0).fit(X, Y)
    text = pickle.dumps(est)
    monkeypatch.setitem(sys.modules, "numpyro", None)
    monkeypatch.setitem(sys.modules, "jax", None)
    copy = pickle.loads(text)
    np.testing.assert_array_equal(copy.predict_interval(X_NEW), again.predict_interval(X_NEW))
    assert (np.diff(copy.predict_interval(X_NEW)) > 0).all()


@pytest.mark.parametrize(
    ("estimator", "n_classes"),
    [
        (NutsClassifier((4,), n_draws=100, n_warmup=100, n_chains=2), 3),
        (SviClassifier((4,), n_draws=100, n_steps=2000), 3),
        (SviClassifier((4,), n_draws=100, n_steps=2000), 2),
    ],
    ids=["nuts", "svi", "svi of two classes"],
)
def test_classification(estimator, n_classes):
    pytest.importorskip("numpyro")
    rows, labels = load_iris(return_X_y=True)
    labels = np.minimum(labels, n_classes - 1)
    est = estimator.set_params(random_state=0).fit(rows, labels)
    assert est.score(rows, labels) > 0.93 and len(est.members_) == 100
    interval = est.predict_proba_interval(rows)
    assert (interval[:, :, 0] <= interval[:, :, 1]).all()
    np.testing.assert_allclose(est.predict_proba(rows).sum(axis=1), 1)
