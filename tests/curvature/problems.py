"""Small fitted models of every kind, and their dense Gauss-Newton matrix written with numpy."""

import warnings
from functools import cache

import blocks
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor

from skribbon._core.rows import Moments, Rows
from skribbon.models import AutogradRegressor, as_parametric
from skribbon.models.architectures import mlp

N = 120
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, 3)) @ (np.eye(3) + 0.4) + [0.3, 0.0, -0.2]
ETA = 0.3 + np.sin(X[:, 0]) - 0.5 * X[:, 1] * X[:, 2]
Y = ETA + 0.5 * _rng.normal(size=N)
COUNTS = _rng.poisson(np.exp(0.3 * ETA)).astype(float)
BINARY = (ETA + _rng.logistic(size=N) > 0).astype(float)
TERNARY = BINARY + (X[:, 1] + _rng.logistic(size=N) > 0)
COLLINEAR = np.column_stack([X, X[:, 0] - 2 * X[:, 1], np.full(N, 3.0)])  # two columns that say nothing new

NETWORK = {"activation": "tanh", "solver": "lbfgs", "tol": 1e-6, "max_iter": 1000, "random_state": 0}
LINEAR = {
    "linear": (LinearRegression(), X, Y),
    "collinear": (LinearRegression(), COLLINEAR, Y),
    "ridge": (Ridge(alpha=5.0), X, Y),
    "poisson": (PoissonRegressor(alpha=0.1, tol=1e-8), X, COUNTS),
    "logistic": (LogisticRegression(tol=1e-8), X, BINARY),
    "multinomial": (LogisticRegression(tol=1e-8), X, TERNARY),
}
NETWORKS = {
    "network": (MLPRegressor(hidden_layer_sizes=(4,), alpha=1.0, **NETWORK), X, Y),
    "network-unpenalised": (
        MLPRegressor(hidden_layer_sizes=(2,), **{**NETWORK, "alpha": 0.0, "max_iter": 15}),  # later weights diverge
        X,
        Y,
    ),
    "network-two-layers": (MLPRegressor(hidden_layer_sizes=(4, 3), alpha=1.0, **NETWORK), X, Y),
    "network-binary": (MLPClassifier(hidden_layer_sizes=(4,), alpha=1.0, **NETWORK), X, BINARY),
    "network-ternary": (MLPClassifier(hidden_layer_sizes=(4, 3), alpha=1.0, **NETWORK), X, TERNARY),
    "network-nll": (
        AutogradRegressor(mlp((3,)), loss="gaussian_nll", l2=0.01, max_iter=300, tol=1e-4, random_state=0),
        X,
        Y,
    ),
}
PROBLEMS = {**LINEAR, **NETWORKS}


@cache
def training_rows(name):
    """The training rows of a fitted problem, with integer weights that the fit itself did not see."""
    estimator, features, y = PROBLEMS[name]
    with warnings.catch_warnings():  # an exact minimum does not matter here
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(features, y)
    model = as_parametric(estimator, y, np.ones(N))
    weight = np.random.default_rng(1).integers(1, 4, N).astype(float)
    return Rows(model, model.prepare(features), model.encode_target(y), weight)


def factor_of(curvature, rows):
    return curvature.factor(rows, Moments.from_rows(rows, curvature))


def whole(rows):
    """All rows as one block: Z, y, weight."""
    return rows.model.rows(rows.X), rows.y, rows.weight


def root_rows(rows):
    """sqrt(w_i / n) R_i' J_i stacked, (n r, p): its Gram matrix is the mean Gauss-Newton matrix."""
    model, (Z, y, weight) = rows.model, whole(rows)
    R = model.loss.curvature_root(model.raw(Z), y)
    A = np.einsum("n,nkr,nkp->nrp", np.sqrt(weight / weight.sum()), R, model.jacobian(Z))
    return A.reshape(-1, A.shape[2])


def gauss_newton(rows, damping=0.0):
    """H + diag(l2) + damping, (p, p)."""
    A = root_rows(rows)
    return A.T @ A + np.diag(rows.model.l2 + damping)


def centred_scatter(rows):
    """H_Fc from the scores of single rows, (p, p)."""
    Z, y, weight = whole(rows)
    return np.cov(blocks.scores(rows.model, Z, y).T, aweights=weight, bias=True)


def assert_same_matrix(actual, expected, rtol):
    """Entries agree to rtol of the largest."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=rtol * np.abs(expected).max())
