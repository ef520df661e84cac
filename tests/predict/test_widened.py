"""Distributions of y whose raw prediction has Student's t distribution."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from sklearn.linear_model import GammaRegressor, LinearRegression, PoissonRegressor

from skribbon import RibbonRegressor
from skribbon._core.ribbon import _with_one_dominating
from skribbon._laws.widened import Patched
from skribbon.noise import StudentLaw

LEVELS = np.array([0.01, 0.2, 0.5, 0.9, 0.99, 0.9999])


def outlying(n=60, seed=1):
    """Rows of which one determines the slope, and rows to predict beyond it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    X[0] = 30
    return X, X[:, 0] + rng.normal(size=n), np.array([[40.0], [25.0], [5.0], [0.0]])


def fitted(name):
    """Ribbons with few degrees of freedom at some rows, and these rows."""
    X, y, X_new = outlying()
    if name in ("poisson", "gamma"):
        X, X_new = X / 15, X_new / 15
        rate = np.exp(1 + X[:, 0])
        rng = np.random.default_rng(0)
        if name == "poisson":
            return RibbonRegressor(PoissonRegressor(alpha=0)).fit(X, rng.poisson(rate)), X_new
        return RibbonRegressor(GammaRegressor(alpha=0)).fit(X, rate * rng.gamma(4, 0.25, size=len(X))), X_new
    options = {
        "normal": {"noise": "dof", "law": "normal"},
        "student": {"noise": "dof", "law": StudentLaw(5.0)},
        "empirical": {"noise": "dof", "law": "empirical"},
        "draws": {"noise": "dof", "law": "normal", "predictive": "pushforward", "n_draws": 400, "random_state": 0},
    }
    return RibbonRegressor(**options[name]).fit(X, y), X_new


NAMES = ["normal", "student", "empirical", "draws", "poisson", "gamma"]


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
@pytest.mark.parametrize("name", NAMES)
def test_cdf_inverts_quantiles_and_the_density_is_its_derivative(name):
    ribbon, X_new = fitted(name)
    distribution = ribbon.predict_distribution(X_new[:2])
    assert isinstance(distribution.law, Patched)
    for q in (0.002, 0.4, 0.95):  # levels away from the nodes of the empirical cdf, where its density jumps
        y = distribution.quantile(q)
        cdf = distribution.cdf(y)
        if name == "poisson":
            assert (cdf >= q - 1e-9).all() and (distribution.cdf_below(y) <= q + 1e-9).all()
            assert_allclose(np.exp(distribution.logpdf(y)), cdf - distribution.cdf_below(y), rtol=1e-6)
            continue
        assert_allclose(cdf, q, atol=1e-8)
        step = 1e-4 * np.minimum(np.diff(distribution.interval(0.9))[:, 0], np.abs(y))
        slope = (distribution.cdf(y + step) - distribution.cdf(y - step)) / (2 * step)
        assert_allclose(np.exp(distribution.logpdf(y)), slope, rtol=5e-3)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
@pytest.mark.parametrize("name", NAMES)
def test_prediction_intervals_are_wider_than_confidence_intervals_at_every_level(name):
    ribbon, X_new = fitted(name)
    mean, new = (ribbon.predict_interval(X_new, LEVELS, kind=kind) for kind in ("confidence", "prediction"))
    wide, slack = np.diff(new, axis=1)[:, 0], {"poisson": 1.0}.get(name, 1e-9)
    # few draws; skewed noise has its median below the mean; quantiles of a search have some 10 digits
    inexact = {"draws": 0.1, "gamma": 0.2, "poisson": 1e-9}.get(name, 0.0)
    assert (np.diff(mean, axis=1)[:, 0] <= (1 + inexact) * wide + slack).all()
    if name in ("normal", "student"):
        assert (new[:, 0] <= mean[:, 0] + 1e-9).all() and (mean[:, 1] <= new[:, 1] + 1e-9).all()


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.LeverageWarning")
@pytest.mark.parametrize("outlier", [30.0, 1e3, 1e4, 1e6])
def test_a_certain_prediction_with_one_degree_of_freedom_has_the_confidence_interval_inside(outlier):
    """Far out in the tails, Student's t of the mean is wider than the noise, however small its standard error."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    X, y = np.vstack([X, [outlier, 0, 0]]), np.append(1 + X @ [1, 2, 3] + rng.normal(size=60), outlier + 3)
    ribbon, X_new = RibbonRegressor(noise="dof", law="normal").fit(X, y), X[-3:]
    levels = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1 - 1e-9, 1 - 1e-14]
    mean, new = (ribbon.predict_interval(X_new, levels, kind=kind) for kind in ("confidence", "prediction"))
    # both are at least as wide as an independent t interval, or an interval of the noise alone
    latent = ribbon.predict_distribution(X_new).latent
    upper = (1 + np.array(levels)) / 2
    spread = np.sqrt(latent.covariance[:, 0, 0])[:, None] * stats.t(latent.df[:, None]).ppf(upper)
    noise = np.sqrt(ribbon.noise_.dispersion_) * stats.norm.ppf(upper)
    assert_allclose(np.diff(mean, axis=1)[:, 0] / 2, spread, rtol=1e-3)
    wide = np.diff(new, axis=1)[:, 0] / 2
    assert (wide >= np.maximum(spread, noise) * (1 - 1e-3)).all()
    assert (wide <= np.hypot(spread, noise) * (1 + 1e-2)).all()


def test_intervals_with_normal_noise_are_close_to_those_of_the_convolution():
    ribbon, X_new = fitted("normal")
    latent, phi = ribbon.predict_distribution(X_new).latent, ribbon.noise_.dispersion_
    scale, df = np.sqrt(latent.covariance[:, 0, 0]), latent.df
    for i in range(2):

        def cdf(y, i=i):
            def part(e):
                return stats.t(df[i]).cdf((y - np.sqrt(phi) * e) / scale[i]) * stats.norm.pdf(e)

            return integrate.quad(part, -9, 9, epsabs=1e-6)[0]

        for level, off in ((0.5, 0.05), (0.9, 0.01)):
            upper = ribbon.predict_interval(X_new[[i]], level)[0, 1] - ribbon.predict(X_new[[i]])[0]
            assert 2 * cdf(upper) - 1 == pytest.approx(level, abs=off)


def test_crps_is_the_integral_of_the_squared_cdf():
    ribbon, X_new = fitted("normal")
    y = ribbon.predict(X_new[:1])[0] + 1.0
    x = y + np.sinh(np.linspace(-6, 6, 2000))
    cdf = ribbon.predict_distribution(np.repeat(X_new[:1], len(x), axis=0)).cdf(x)
    expected = integrate.trapezoid((cdf - (x >= y)) ** 2, x)
    assert ribbon.predict_distribution(X_new[:1]).crps([y])[0] == pytest.approx(expected, rel=0.01)


def test_rows_with_many_degrees_of_freedom_are_normal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    ribbon = RibbonRegressor(noise="dof", law="normal").fit(X, X[:, 0] + rng.normal(size=2000))
    mean, std = ribbon.predict(X[:5], return_std=True)
    assert_allclose(ribbon.predict_interval(X[:5])[:, 1], mean + stats.norm.ppf(0.95) * std, rtol=1e-12)


def test_draws_of_the_mean_have_the_quantiles_of_confidence_intervals():
    ribbon, X_new = fitted("normal")
    draws = ribbon.predict_samples(X_new, 40_000, kind="confidence", random_state=0)
    for level in (0.5, 0.9):
        lower, upper = ribbon.predict_interval(X_new, level, kind="confidence").T
        assert_allclose(np.mean((lower <= draws) & (draws <= upper), axis=0), level, atol=0.012)
    draws = ribbon.predict_samples(X_new, 40_000, random_state=0)
    lower, upper = ribbon.predict_interval(X_new).T
    assert_allclose(np.mean((lower <= draws) & (draws <= upper), axis=0), 0.9, atol=0.012)


@pytest.mark.parametrize("b", [0.02, 0.1, 0.2])
def test_other_rows_bound_the_variance_if_one_contributes_most(b):
    chi2 = stats.chi2(1).ppf((np.arange(100_000) + 0.5) / 100_000)
    root = np.sqrt(b + (1 - b) * chi2)
    fourth = (1 - b) ** 2 + 1e-9  # very many others
    quantile = stats.t(_with_one_dominating(1 / fourth - 1, 1 - b, 1.0, fourth)).ppf(0.95)
    assert stats.norm.cdf(quantile * root).mean() == pytest.approx(0.95, abs=0.006)
    fourth = (1 - b) ** 2 + b**2  # a single other row moves with the first
    assert _with_one_dominating(1 / fourth - 1, 1 - b, 1.0, fourth) <= 1 + 1e-9


@pytest.mark.parametrize("n", [30, 200])
def test_high_leverage_rows_are_covered(n):
    """Coverage of observations far out, given all of X, from the distribution of the estimates over many tables."""
    covered = []
    for seed in range(100):
        X, y, X_new = outlying(n, seed)
        ribbon = RibbonRegressor(LinearRegression(), noise="dof", law="normal").fit(X, y)
        lower, upper = ribbon.predict_interval(X_new).T
        covered.append(stats.norm.cdf(upper - X_new[:, 0]) - stats.norm.cdf(lower - X_new[:, 0]))
    assert 0.87 <= np.mean(covered, axis=0)[:2].min() <= np.mean(covered, axis=0)[:2].max() <= 0.95
