"""The size of the training gradient in standard errors, which fit compares with its limit."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge

from skribbon import RibbonRegressor
from skribbon.exceptions import NotStationaryWarning


def frozen(coef, intercept, alpha=0.0):
    """Linear model with given coefficients."""
    model = Ridge(alpha=alpha).fit(np.eye(len(coef)), coef)
    model.coef_, model.intercept_ = np.array(coef), float(intercept)
    return FrozenEstimator(model)


def collinear(n, rng):
    """Six columns far from zero, of which the first two hardly differ."""
    X = rng.normal(size=(n, 6)) @ rng.normal(size=(6, 6)) + 50
    X[:, 1] = X[:, 0] + 0.01 * rng.normal(size=n)
    return X


def test_a_failed_huber_fit_is_noticed_far_from_the_origin():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 5))
    y = 1 + 0.3 * X[:, 0] - 0.2 * X[:, 1] + 0.5 * rng.standard_t(4, size=400) * np.exp(0.5 * X[:, 0])
    model = HuberRegressor(alpha=1e-3, max_iter=10_000)
    near = RibbonRegressor(model).fit(X, y)
    with pytest.warns(NotStationaryWarning):
        far = RibbonRegressor(model).fit(X + 50, y)
    error = far.model_.theta - near.model_.theta
    error[5] += 50 * far.model_.theta[:5].sum()  # the intercept, at the centre of the features
    expected = np.sqrt(error @ np.linalg.solve(near.covariance_, error) / len(error))
    assert expected > 1
    assert near.stationarity_ < 1e-3
    assert far.stationarity_ == pytest.approx(expected, rel=0.15)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
@pytest.mark.parametrize("size", [0.1, 1.0])
def test_an_error_along_collinear_columns_counts_in_its_own_standard_errors(size):
    rng = np.random.default_rng(0)
    X = collinear(300, rng)
    y = X @ np.ones(6) + rng.normal(size=300)
    best = LinearRegression().fit(X, y)
    step = np.array([1.0, -1.0, 0, 0, 0, 0])
    A = X - X.mean(axis=0)
    variance = np.mean((y - best.predict(X)) ** 2)
    # Wald's statistic of the step, over the number of parameters, with the intercept at the centre
    step *= size * np.sqrt(7 * variance / np.sum((A @ step) ** 2))
    moved = frozen(best.coef_ + step, best.intercept_ - X.mean(axis=0) @ step)
    assert RibbonRegressor(moved).fit(X, y).stationarity_ == pytest.approx(size / np.sqrt(1 + 7 * size**2 / 300), 0.1)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
@pytest.mark.parametrize("alpha", [0.0, 100.0])
def test_true_parameters_are_one_standard_error_from_the_minimum(alpha):
    rng, found = np.random.default_rng(0), []
    X, beta = collinear(100, rng), np.arange(6.0)
    A = X - X.mean(axis=0)
    expected = np.linalg.solve(A.T @ A + alpha * np.eye(6), A.T @ A @ beta)  # of fits to many samples of y
    model = frozen(expected, X.mean(axis=0) @ (beta - expected), alpha)
    for _ in range(100):
        ribbon = RibbonRegressor(model, noise="dof", law="normal", held_out="loo")
        found.append(ribbon.fit(X, X @ beta + 20 * rng.normal(size=100)).stationarity_)
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(1.0, abs=0.12)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
def test_linear_maps_of_the_features_do_not_matter():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(80, 4)), rng.normal(size=(4, 4))
    y, coef = X.sum(axis=1) + rng.normal(size=80), np.full(4, 0.8)
    plain = RibbonRegressor(frozen(coef, 0.1)).fit(X, y)
    mapped = RibbonRegressor(frozen(np.linalg.solve(T, coef), 0.1)).fit(X @ T, y)
    assert mapped.stationarity_ == pytest.approx(plain.stationarity_, rel=0.05)
