"""Dropout at prediction in a convolutional network: against passes by the architecture itself."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from skribbon import AutogradClassifier
from skribbon.baselines import MCDropoutClassifier
from skribbon.models.architectures import cnn

ADAM = {"solver": "adam", "learning_rate": 0.02, "tol": 1e-3, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_dropout_of_convolutional_network_equals_architecture():
    images, digits = load_digits(n_class=3, return_X_y=True)
    f, B = cnn((8, 8), channels=(3,), dropout=0.3), 1500
    network = AutogradClassifier(f, max_iter=5, **ADAM)
    est = MCDropoutClassifier(network, n_draws=B, random_state=0).fit(images[:200] / 16, digits[:200])
    X_new, rng, params = images[200:206] / 16, np.random.default_rng(1), est.estimator_.params_
    logits = np.stack([f.noisy(params, X_new, rng) for _ in range(B)])  # a mask per row
    passes = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    draws = est.predict_proba_samples(X_new, n_samples=B, random_state=1)
    np.testing.assert_allclose(draws.std(axis=0), passes.std(axis=0), rtol=0.15)
    standard_error = passes.std(axis=0) * np.sqrt(2 / B)
    assert np.abs((est.predict_proba(X_new) - passes.mean(axis=0)) / standard_error).max() < 4
