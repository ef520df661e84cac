"""Joint regions of several outputs reach nominal coverage in simulations."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor

LEVELS = np.array([0.5, 0.8, 0.9, 0.95])
ROOT = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.3, 0.4, 1.5]])


def simulate(n, rng, law="normal"):
    X = rng.normal(size=(n, 4))
    noise = rng.normal(size=(n, 3)) if law == "normal" else rng.standard_t(5, size=(n, 3)) * np.sqrt(3 / 5)
    scale = np.exp(0.5 * X[:, [0]]) if law == "varying" else 1.0
    return X, X @ COEFFICIENTS + noise @ ROOT.T * scale


COEFFICIENTS = np.random.default_rng(0).normal(size=(4, 3))


def covered(base, options, law, n, n_fits, kind="prediction"):
    """Share of new rows, or of true means, inside joint regions of each level."""
    rng, inside = np.random.default_rng(1), []
    for _ in range(n_fits):
        X, Y = simulate(n, rng, law)
        X_new, Y_new = simulate(200, rng, law)
        target = Y_new if kind == "prediction" else X_new @ COEFFICIENTS
        level = RibbonRegressor(base, **options).fit(X, Y).predict_distribution(X_new, kind).joint_level(target)
        inside.append((level[:, None] <= LEVELS).mean(axis=0))
    return np.mean(inside, axis=0), np.std(inside, axis=0) / np.sqrt(n_fits)


@pytest.mark.parametrize(
    ("base", "options", "law", "n"),
    [
        (LinearRegression(), {"noise": "dof"}, "normal", 50),
        (LinearRegression(), {"noise": "dof"}, "normal", 200),
        (Ridge(2.0), {}, "normal", 200),
        (LinearRegression(), {}, "varying", 400),
        (LinearRegression(), {}, "student", 400),
    ],
)
def test_joint_regions_cover_new_observations(base, options, law, n):
    share, error = covered(base, options, law, n, 200)
    assert np.abs(share - LEVELS).max() < 0.03 + 2 * error.max(), share


@pytest.mark.parametrize("n", [60, 200])
def test_joint_regions_cover_true_means(n):
    share, error = covered(LinearRegression(), {"noise": "dof"}, "normal", n, 300, kind="confidence")
    assert np.abs(share - LEVELS).max() < 0.05 + 2 * error.max(), share


@pytest.mark.filterwarnings("ignore")
def test_joint_regions_of_a_network_cover_new_observations():
    base = MLPRegressor(
        hidden_layer_sizes=(5,), activation="tanh", solver="lbfgs", alpha=1.0, max_iter=500, random_state=0
    )
    share, error = covered(base, {"noise": "dof"}, "normal", 300, 20)
    assert np.abs(share - LEVELS).max() < 0.05 + 2 * error.max(), share
