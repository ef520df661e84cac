"""Theorem on tuned coverage: the tuned interval's true coverage tends to its level as the validation set grows."""

import numpy as np
from scipy.stats import norm
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skribbon import RibbonCV, RibbonRegressor

P, N_TRAIN = 40, 120  # few rows per parameter: the epistemic part is a good share of the interval


def true_coverage(tuned, weights, X, noise):
    """Exact coverage of the interval over new observations at X, whose mean and noise are known."""
    lower, upper = tuned.predict_interval(X, confidence_level=0.9).T
    mean = X @ weights
    return np.mean(norm.cdf((upper - mean) / noise) - norm.cdf((lower - mean) / noise))


def distance_from_the_level(m, repeats=60):
    distances = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        weights = rng.standard_normal(P)
        X = rng.standard_normal((N_TRAIN + m + 4000, P))
        y = X @ weights + rng.standard_normal(len(X))
        # half the noise is given, so alpha has to account for the rest
        ribbon = RibbonRegressor(LinearRegression(), noise=0.5).fit(X[:N_TRAIN], y[:N_TRAIN])
        held_out = slice(N_TRAIN, N_TRAIN + m)
        tuned = RibbonCV(FrozenEstimator(ribbon), alphas=np.logspace(-3, 3, 25), scoring="coverage").fit(
            X[held_out], y[held_out]
        )
        distances.append(abs(true_coverage(tuned, weights, X[N_TRAIN + m :], 1.0) - 0.9))
    return np.mean(distances)


def test_coverage_error_falls_as_one_over_root_m():
    sizes = np.array([50, 200, 800, 3200])
    distances = np.array([distance_from_the_level(m) for m in sizes])
    assert (np.diff(distances) < 0).all()
    slope = np.polyfit(np.log(sizes), np.log(distances), 1)[0]
    assert -0.65 < slope < -0.35  # binomial error of the validation coverage
    assert distances[-1] < 0.01
