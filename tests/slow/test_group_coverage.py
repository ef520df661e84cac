"""Coverage of cluster-robust confidence intervals, and agreement with refits at group weights."""

from functools import cache

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.inspection import coefficients

ROWS, N_TABLES, N_REFITS = 20, 400, 2000
POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 1.0], [1.5, -1.5]])  # a group's feature, a row's feature
TIGHT = {"solver": "newton-cholesky", "tol": 1e-8, "max_iter": 500}
ERROR = 2 * np.sqrt(0.9 * 0.1 / N_TABLES)

# name: (base model, slopes and intercept, standard deviation of a group's effect); residuals correlate by 0.3 to 0.4
MODELS = {
    "least squares": (LinearRegression(), np.array([0.5, 0.5, 1.0]), np.sqrt(0.4)),
    "logistic": (LogisticRegression(C=np.inf, **TIGHT), np.array([0.5, 0.5, 0.2]), np.sqrt(3.0)),
    "poisson": (PoissonRegressor(alpha=0.0, **TIGHT), np.array([0.3, 0.3, 0.3]), np.sqrt(0.35)),
}


def sizes(n_groups, balanced):
    """Rows of every group: the same, or in proportion to 1, 2, ..., G."""
    share = np.ones(n_groups) if balanced else np.arange(1.0, n_groups + 1)
    return np.diff(np.round(ROWS * n_groups * np.cumsum(share) / share.sum()).astype(int), prepend=0)


def simulate(name, n_groups, balanced, rng):
    _, beta, scale = MODELS[name]
    group = np.repeat(np.arange(n_groups), sizes(n_groups, balanced))
    X = np.column_stack([rng.normal(size=n_groups)[group], rng.normal(size=len(group))])
    raw = X @ beta[:2] + beta[2] + scale * rng.normal(size=n_groups)[group]
    if name == "logistic":
        return X, (rng.uniform(size=len(raw)) < expit(raw)).astype(int), group
    if name == "poisson":
        return X, rng.poisson(np.exp(raw)).astype(float), group
    return X, raw + np.sqrt(0.6) * rng.normal(size=len(raw)), group


@cache
def marginal(name):
    """Limit of the fit with group effects averaged out: slopes and intercept, (3,)."""
    base, beta, scale = MODELS[name]
    if name == "least squares":
        return beta
    if name == "poisson":
        return beta + np.array([0.0, 0.0, scale**2 / 2])
    z, weight = hermegauss(40)  # all of the population as a table of nodes, each with either outcome
    X = np.column_stack([axis.ravel() for axis in np.meshgrid(z, z)])
    chance = expit((X @ beta[:2] + beta[2])[:, None] + scale * z) @ (weight / weight.sum())
    weights = np.outer(weight, weight).ravel()
    limit = clone(base).fit(
        np.vstack([X, X]), np.repeat([1, 0], len(X)), np.concatenate([weights * chance, weights * (1 - chance)])
    )
    return np.append(limit.coef_, limit.intercept_)


def ends(ribbon):
    """Intervals of both slopes and of the mean at POINTS, (7, 2)."""
    slopes = coefficients(ribbon, 0.9)[["conf_low", "conf_high"]].to_numpy()[:2]
    if isinstance(ribbon, RibbonClassifier):
        return np.vstack([slopes, ribbon.predict_proba_interval(POINTS, 0.9)[:, 1]])
    return np.vstack([slopes, ribbon.predict_interval(POINTS, 0.9, kind="confidence")])


def coverage(name, n_groups, balanced, seed):
    """Coverage of group slope, row slope and mean: with groups, and with rows treated as independent."""
    rng, theta = np.random.default_rng(seed), marginal(name)
    raw = POINTS @ theta[:2] + theta[2]
    mean = {"logistic": expit, "poisson": np.exp}.get(name, np.asarray)(raw)
    truth, hits = np.append(theta[:2], mean), []
    for _ in range(N_TABLES):
        X, y, group = simulate(name, n_groups, balanced, rng)
        base = FrozenEstimator(clone(MODELS[name][0]).fit(X, y))
        one, params = (RibbonClassifier, {}) if name == "logistic" else (RibbonRegressor, {"noise": "dof"})
        grouped = ends(one(base, **params).fit(X, y, groups=group))
        independent = ends(one(base, correction="HC0", **params).fit(X, y))
        hits.append([(low <= truth) & (truth <= high) for low, high in (grouped.T, independent.T)])
    rates = np.mean(hits, axis=0)
    return np.column_stack([rates[:, :2], rates[:, 2:].mean(axis=1)])


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("n_groups", [15, 40])
@pytest.mark.parametrize("name", MODELS)
def test_cluster_robust_intervals_cover_and_independent_intervals_do_not(name, n_groups, balanced):
    grouped, independent = coverage(name, n_groups, balanced, seed=[n_groups, balanced])
    assert (grouped > 0.87 - ERROR).all()
    assert (grouped < 0.93 + ERROR).all()
    assert independent[0] < 0.7  # a feature of groups has as many values as there are groups
    assert independent[2] < 0.7


# ---------------------------------------------------------------------- exact refits
def penalised(name, n, alpha):
    """Base models whose penalty is as strong as the mean loss over n rows."""
    if name == "logistic":
        return RibbonClassifier(LogisticRegression(C=1 / n, **TIGHT), alpha=alpha, correction="HC0")
    return RibbonRegressor(Ridge(alpha=n), alpha=alpha, correction="HC0", noise="dof")


def refitted(base, X, y, weights):
    """Slopes and intercept of the base model at weights of rows (n,)."""
    model = clone(base).fit(X, y, sample_weight=weights)
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("alpha", [1.0, 5.0])
@pytest.mark.parametrize("name", ["least squares", "logistic"])
def test_penalised_std_equals_refits_at_group_weights(name, alpha):
    """A row's weight is G times its group's Dirichlet weight, so the penalty on the mean is unchanged."""
    n_groups, rng = 40, np.random.default_rng(0)
    X, y, group = simulate(name, n_groups, False, rng)
    ribbon = penalised(name, len(y), alpha).fit(X, y, groups=group)
    weights = n_groups * rng.dirichlet(np.full(n_groups, alpha), size=N_REFITS)
    refits = np.array([refitted(ribbon.estimator, X, y, w[group]) for w in weights])
    std = refits.std(axis=0, ddof=1)
    kurtosis = ((refits - refits.mean(axis=0)) ** 4).mean(axis=0) / std**4
    ratio, error = std / np.sqrt(np.diag(ribbon.covariance_)), np.sqrt((kurtosis - 1) / (4 * N_REFITS))
    nonlinear = 2 / n_groups if alpha == 1 else 0.0  # what weights as uneven as these bend, of order 1 / G
    assert (np.abs(ratio - 1) < nonlinear + 3 * error).all()
