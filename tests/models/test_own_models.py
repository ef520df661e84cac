"""A model that a user wrote, from the fit to its intervals, against scipy and statsmodels."""

import autograd.numpy as anp
import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, curve_fit

from skribbon import AutogradRegressor, RibbonRegressor

rng = np.random.default_rng(0)
CONCENTRATION = rng.uniform(0.05, 4.0, 120)
RATE = 2.0 * CONCENTRATION / (0.6 + CONCENTRATION) + 0.08 * (0.5 + CONCENTRATION) * rng.normal(size=120)
X = CONCENTRATION[:, None]


def michaelis_menten(params, X):
    return params["top"] * X[:, 0] / (params["half"] + X[:, 0])


def curve(x, top, half):
    return top * x / (half + x)


def fitted(**settings):
    model = AutogradRegressor(michaelis_menten, init={"top": 1.0, "half": 1.0}, polish=True)
    return RibbonRegressor(model, **settings).fit(X, RATE)


def tangent(theta, x):
    """Jacobian (n, 2) of the curve by finite differences."""
    return np.array([approx_fprime(theta, lambda t, xi=xi: curve(xi, *t), 1e-7) for xi in x])


def test_parameters_are_those_of_curve_fit():
    popt, _ = curve_fit(curve, CONCENTRATION, RATE, p0=(1.0, 1.0), xtol=1e-14, ftol=1e-14)
    ribbon = fitted()
    assert_allclose(ribbon.model_.theta, popt, rtol=1e-6)
    assert ribbon.stationarity_ < 1e-6


@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3"])
def test_covariance_is_that_of_the_linearized_regression(correction):
    """At the optimum a least-squares curve is its tangent: statsmodels' robust covariance of that regression."""
    ribbon = fitted(correction=correction, curvature="ggn")
    theta = ribbon.model_.theta
    J = tangent(theta, CONCENTRATION)
    response = RATE - curve(CONCENTRATION, *theta) + J @ theta
    expected = sm.OLS(response, J).fit(cov_type=correction).cov_params()
    n = len(RATE)
    # statsmodels divides by n where the Dirichlet law has n + 1; its HC1 counts parameters as we do
    assert_allclose(ribbon.covariance_, expected * n / (n + 1), rtol=2e-5)


def test_the_classical_covariance_of_curve_fit_where_the_noise_is_constant():
    """With constant noise sandwich and curve_fit's s^2 (J'J)^-1 estimate the same: equal within sampling error."""
    x = np.tile(np.linspace(0.05, 4.0, 50), 80)
    y = curve(x, 2.0, 0.6) + 0.1 * np.random.default_rng(1).normal(size=len(x))
    _, pcov = curve_fit(curve, x, y, p0=(1.0, 1.0))
    model = AutogradRegressor(michaelis_menten, init={"top": 1.0, "half": 1.0})
    ribbon = RibbonRegressor(model).fit(x[:, None], y)
    assert_allclose(np.sqrt(np.diag(ribbon.covariance_)), np.sqrt(np.diag(pcov)), rtol=0.04)


def test_refits_move_as_the_linear_step_does():
    report = fitted(curvature="hessian").check_linearization(X, RATE, n_refits=20, random_state=0)
    assert report.converged.all()
    for weight, shift in list(zip(report.weights.T, report.refitted_shifts.T, strict=True))[:5]:
        sigma = 1 / np.sqrt(np.maximum(weight, 1e-12))
        popt, _ = curve_fit(curve, CONCENTRATION, RATE, p0=(2.0, 0.6), sigma=sigma, xtol=1e-14, ftol=1e-14)
        assert_allclose(fitted().model_.theta + shift, popt, rtol=1e-5)
    frame = report.to_frame()
    assert frame["correlation"].median() > 0.95
    assert 0.8 < frame["size_ratio"].median() < 1.25


def two_columns(params, X):
    """Mean and log variance, both from the same hidden units."""
    (W, b), (V, c) = params
    return anp.tanh(X @ W + b) @ V + c


def start(X, y, random_state):
    hidden = (random_state.normal(size=(1, 8)), random_state.normal(size=8))
    return [hidden, (0.1 * random_state.normal(size=(8, 2)), np.array([y.mean(), np.log(y.var())]))]


def noisy_sine(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, n)
    return x[:, None], np.sin(x) + np.where(x > 0, 0.5, 0.1) * rng.normal(size=n)


def test_a_network_that_predicts_its_own_noise():
    """Calibrated on both sides, where one constant noise is too wide on one and too narrow on the other."""
    X, y = noisy_sine(1500, 0)
    X_new, y_new = noisy_sine(8000, 1)
    model = AutogradRegressor(two_columns, start, loss="gaussian_nll", l2=1e-4, max_iter=2000, random_state=0)
    constant = AutogradRegressor(
        lambda params, X: two_columns(params, X)[:, 0], start, l2=1e-4, max_iter=2000, random_state=0
    )
    coverage = {}
    for name, base in (("own", model), ("constant", constant)):
        lower, upper = RibbonRegressor(base, noise="dof").fit(X, y).predict_interval(X_new).T
        inside = (lower <= y_new) & (y_new <= upper)
        coverage[name] = inside[X_new[:, 0] > 0.2].mean(), inside[X_new[:, 0] < -0.2].mean()
    assert_allclose(coverage["own"], 0.9, atol=0.02)
    assert coverage["constant"][0] < 0.85
    assert coverage["constant"][1] > 0.97
