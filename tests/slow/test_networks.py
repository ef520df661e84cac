"""Default intervals of networks as people train them, on average over tables and random starts."""

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonRegressor
from skribbon.metrics import interval_coverage_score

NETWORKS = {
    "adam": {"max_iter": 500},
    "two layers": {"hidden_layer_sizes": (100, 100), "max_iter": 500},
    "early stopping": {"early_stopping": True, "max_iter": 500},
    "at a minimum": {"hidden_layer_sizes": (50,), "activation": "tanh", "solver": "lbfgs", "alpha": 0.01},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_default_intervals_of_networks_cover(name):
    """Ten tables of 400 rows: 90% and 50% intervals of 1,000 new rows, and confidence intervals of their means."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1400, 5))
        mean = np.cos(X[:, 0]) + np.tanh(X[:, 1] * X[:, 2]) + 0.3 * X[:, 3]
        y = mean + 0.4 * rng.standard_t(8, size=1400)
        network = MLPRegressor(**NETWORKS[name], random_state=seed)
        base = TransformedTargetRegressor(make_pipeline(StandardScaler(), network), transformer=StandardScaler())
        ribbon = RibbonRegressor(base).fit(X[:400], y[:400])
        predictions = [ribbon.predict_interval(X[400:], level) for level in (0.9, 0.5)]
        means = ribbon.predict_interval(X[400:], 0.9, kind="confidence")
        found.append([interval_coverage_score(y[400:], own) for own in predictions])
        found[-1].append(interval_coverage_score(mean[400:], means))
    wide, narrow, confidence = np.mean(found, axis=0)
    assert 0.87 < wide < 0.93
    assert 0.45 < narrow < 0.56
    assert 0.75 < confidence < 0.97
