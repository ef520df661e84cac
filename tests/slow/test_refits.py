"""The closed form equals the covariance of exact Dirichlet refits, and its error falls as 1/n."""

from functools import partial

import blocks
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge

import skribbon
from skribbon._core.linalg import Dense
from skribbon._core.ribbon import influence

# without small-sample corrections, as in the paper
RibbonClassifier = partial(skribbon.RibbonClassifier, correction="HC0")
RibbonRegressor = partial(skribbon.RibbonRegressor, correction="HC0")

TIGHT = {"solver": "newton-cholesky", "tol": 1e-7, "max_iter": 500}
N_REFITS = 2000


def heteroskedastic(n, rng):
    X = rng.normal(size=(n, 3))
    return X, X @ [2.0, -1.0, 0.5] + 1 + rng.normal(size=n) * (0.5 + np.abs(X[:, 0]))


def binary(n, rng):
    X = rng.normal(size=(n, 3))
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-(X @ [1.0, -0.7, 0.3] + 0.2)))).astype(int)


def three_classes(n, rng):
    X = rng.normal(size=(n, 2))
    logits = X @ np.array([[1.0, -0.5, 0.0], [0.0, 0.8, -0.6]]) + np.array([0.2, 0.0, -0.1])
    return X, (logits + rng.gumbel(size=(n, 3))).argmax(axis=1)


def counts(n, rng):
    X = rng.normal(size=(n, 3))
    mu = np.exp(X @ [0.4, -0.3, 0.1] + 0.7)
    return X, rng.poisson(mu * rng.gamma(2.0, 0.5, n)).astype(float)  # over-dispersed: H_F is not H


def positive(n, rng):
    X = rng.normal(size=(n, 3))
    return X, np.exp(X @ [0.4, -0.3, 0.1] + 0.7) * rng.gamma(3.0, 1 / 3, n)


# name: (ribbon with a strong penalty, simulator); LogisticRegression and Ridge penalise the sum, GLMs the mean
PENALISED = {
    "ridge": (RibbonRegressor(Ridge(alpha=4000.0)), heteroskedastic),
    "logistic": (RibbonClassifier(LogisticRegression(C=0.01, **TIGHT)), binary),
    "multinomial": (RibbonClassifier(LogisticRegression(C=0.01, **TIGHT)), three_classes),
    "poisson": (RibbonRegressor(PoissonRegressor(alpha=0.8, **TIGHT)), counts),
    "gamma": (RibbonRegressor(GammaRegressor(alpha=0.5, **TIGHT)), positive),
}


def parameters(model, ribbon):
    """The fitted parameters in the coordinates of ribbon.model_.theta."""
    Theta = np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)])
    basis = getattr(ribbon.model_.loss, "basis", None)
    return (Theta if basis is None else basis.T @ Theta).ravel()


def refitted(ribbon, X, y, n_refits, rng):
    """Parameters (B, p) of exact refits at Dirichlet weights; n w keeps a penalty on the sum fixed on the mean."""
    n, base = len(y), clone(ribbon.estimator)
    weights = rng.dirichlet(np.full(n, ribbon.alpha), size=n_refits)
    return np.array([parameters(base.fit(X, y, sample_weight=n * w), ribbon) for w in weights])


def covariance_z(draws, S):
    """Distance of the sample covariance of draws (B, p) from S in Monte Carlo errors, elementwise."""
    error = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / len(draws))
    return np.abs(np.cov(draws.T) - S) / error


def score_mean(ribbon, X, y):
    model = ribbon.model_
    return blocks.scores(model, model.rows(model.prepare(X)), model.encode_target(y)).mean(axis=0)


@pytest.mark.parametrize("name", PENALISED)
def test_penalised_covariance_equals_exact_refits(name):
    ribbon, simulate = PENALISED[name]
    rng = np.random.default_rng(0)
    X, y = simulate(2000, rng)
    ribbon.fit(X, y)
    thetas = refitted(ribbon, X, y, N_REFITS, rng)
    assert covariance_z(thetas, ribbon.covariance_).max() < 5


@pytest.mark.parametrize("alpha", [0.3, 4.0])
def test_covariance_at_other_alphas_equals_exact_refits(alpha):
    rng = np.random.default_rng(1)
    X, y = heteroskedastic(2000, rng)
    ribbon = RibbonRegressor(Ridge(alpha=4000.0), alpha=alpha).fit(X, y)
    assert covariance_z(refitted(ribbon, X, y, N_REFITS, rng), ribbon.covariance_).max() < 5


def test_refits_distinguish_centred_from_uncentred_scores():
    ribbon, simulate = PENALISED["ridge"]
    rng = np.random.default_rng(0)
    X, y = simulate(2000, rng)
    ribbon.fit(X, y)
    shift = np.linalg.solve(design_gram(X) + np.diag(ribbon.model_.l2), score_mean(ribbon, X, y))
    uncentred = ribbon.covariance_ + np.outer(shift, shift) / (len(y) + 1)
    assert covariance_z(refitted(ribbon, X, y, N_REFITS, rng), uncentred).max() > 5


def design_gram(X):
    design = np.column_stack([X, np.ones(len(X))])
    return design.T @ design / len(X)


# ---------------------------------------------------------------------- local accuracy of the update

UNPENALISED = {
    "logistic": (RibbonClassifier(LogisticRegression(C=np.inf, **TIGHT)), binary),
    "poisson": (RibbonRegressor(PoissonRegressor(alpha=0.0, **TIGHT)), counts),
}
SIZES = np.array([100, 200, 400, 800, 1600, 3200, 6400])


def median_error(ribbon, X, y, n_draws, rng):
    """Median distance of theta-hat + Delta theta_w from the exact refit at the same weights."""
    model = ribbon.fit(X, y).model_
    n, Z, target = len(y), model.rows(model.prepare(X)), model.encode_target(y)
    IF = influence(Dense(blocks.hessian(model, Z, target, np.ones(n)) / n), blocks.scores(model, Z, target).T)
    base, errors = clone(ribbon.estimator), []
    for w in rng.dirichlet(np.ones(n), size=n_draws):
        exact = parameters(base.fit(X, y, sample_weight=n * w), ribbon)
        errors.append(np.linalg.norm(exact - model.theta - IF @ (w - 1 / n)))
    return np.median(errors)


@pytest.mark.parametrize("name", UNPENALISED)
def test_error_of_the_linearized_update_falls_as_one_over_n(name):
    ribbon, simulate = UNPENALISED[name]
    rng = np.random.default_rng(2)
    errors = [median_error(ribbon, *simulate(n, rng), 300, rng) for n in SIZES]
    slope = np.polyfit(np.log(SIZES), np.log(errors), 1)[0]
    assert -1.2 < slope < -0.8


@pytest.mark.parametrize("predictive", ["pushforward", "direct"])
def test_drawn_steps_have_the_covariance_of_refits(predictive):
    rng = np.random.default_rng(3)
    X, y = counts(2000, rng)
    base = PoissonRegressor(alpha=0.3, **TIGHT)
    ribbon = RibbonRegressor(base, predictive=predictive, n_draws=N_REFITS, random_state=0).fit(X, y)
    exact = refitted(ribbon, X, y, N_REFITS, rng)
    ratio = ribbon.ribbon_.shifts.var(axis=1) / exact.var(axis=0)
    assert np.all(np.abs(np.log(ratio)) < 5 * np.sqrt(4 / N_REFITS))  # both sides are Monte Carlo
