"""Fitted estimators of every kind, and standard errors from differences of the base model's own predictions."""

from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import autograd.numpy as anp
import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import softmax
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import AutogradRegressor, RibbonClassifier, RibbonRegressor
from skribbon.baselines import LaplaceClassifier
from skribbon.models import with_theta

N = 120
TIGHT = {"tol": 1e-10, "max_iter": 10_000}
NETWORK = {"hidden_layer_sizes": (3,), "activation": "tanh", "solver": "lbfgs", "alpha": 1.0, "random_state": 0}
NETWORK |= {"max_iter": 5000, "tol": 1e-9}


@dataclass(frozen=True)
class Case:
    """A fitted estimator, rows to ask it about, a numeric column and one with two values to compare."""

    ribbon: Any
    X: Any
    numeric: Any
    column: Any
    values: tuple


def people(n=N, seed=0):
    """A table of numbers, text and booleans."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(20, 70, n),
            "smoker": rng.choice(["no", "sometimes", "yes"], n),
            "income": rng.normal(3, 1, n),
            "urban": rng.random(n) < 0.5,
        },
        index=[f"person {i}" for i in range(n)],
    )


X = people()
LINEAR = 0.03 * (X["age"] - 45) + 0.5 * (X["smoker"] == "yes") - 0.3 * X["income"] + 0.4 * X["urban"]
LINEAR = LINEAR.to_numpy()
RNG = np.random.default_rng(1)
Y = LINEAR + RNG.normal(size=N)
BINARY = np.where(LINEAR + RNG.logistic(size=N) > -0.5, "ill", "well")
TERNARY = np.digitize(LINEAR + RNG.logistic(size=N), [-1.0, 0.5])
COUNTS = RNG.poisson(np.exp(0.5 * LINEAR + 1))
NUMBERS = np.column_stack([X["age"] / 20, X["income"], X["urban"]]).astype(float)


def columns():
    return make_column_transformer(
        (StandardScaler(), ["age", "income"]),
        (OneHotEncoder(drop="first"), ["smoker"]),
        remainder="passthrough",
    )


def saturation(params, X):
    return params["level"] + anp.tanh(params["rate"] * (X[:, 0] - 2)) + params["slope"] * X[:, 1]


def _table(ribbon, y):
    return Case(ribbon.fit(X, y), people(24, seed=2), "age", "smoker", ("no", "yes"))


def _array(ribbon, y, wrap=np.asarray):
    return Case(ribbon.fit(wrap(NUMBERS), y), wrap(NUMBERS[:24] + 0.1), 0, 1, (2.0, 3.5))


MAKERS = {
    "ridge": lambda: _array(RibbonRegressor(Ridge(3.0)), Y),
    "ridge-draws": lambda: _array(RibbonRegressor(Ridge(3.0), predictive="pushforward", random_state=0), Y),
    "ridge-sparse": lambda: _array(RibbonRegressor(Ridge(3.0)), Y, sparse.csr_array),
    "huber": lambda: _array(RibbonRegressor(HuberRegressor(**TIGHT)), Y),
    "pipeline": lambda: _table(RibbonRegressor(make_pipeline(columns(), Ridge(3.0))), Y),
    "poisson": lambda: _table(RibbonRegressor(make_pipeline(columns(), PoissonRegressor(**TIGHT))), COUNTS),
    "log-target": lambda: _table(
        RibbonRegressor(
            TransformedTargetRegressor(make_pipeline(columns(), Ridge(3.0)), func=np.log, inverse_func=np.exp)
        ),
        np.exp(Y),
    ),
    "logistic": lambda: _table(
        RibbonClassifier(make_pipeline(columns(), LogisticRegression(**TIGHT)), temperature=0.7), BINARY
    ),
    "laplace": lambda: _table(LaplaceClassifier(make_pipeline(columns(), LogisticRegression(**TIGHT))), BINARY),
    "multinomial": lambda: _array(RibbonClassifier(LogisticRegression(**TIGHT), temperature=1.3), TERNARY),
    "network": lambda: _array(RibbonRegressor(MLPRegressor(**NETWORK)), Y),
    "network-classes": lambda: _array(RibbonClassifier(MLPClassifier(**NETWORK)), TERNARY),
    "own": lambda: _array(RibbonRegressor(AutogradRegressor(saturation, {"level": 0.0, "rate": 0.5, "slope": 0.0})), Y),
}


@cache
def case(name):
    return MAKERS[name]()


def predicted(ribbon, estimator, X):
    """Predictions (n, K) of the base model, or class probabilities at the temperature, if it is a number."""
    if not hasattr(estimator, "predict_proba"):
        return estimator.predict(X)[:, None]
    return softmax(np.log(estimator.predict_proba(X)) / stated_temperature(ribbon), axis=1)


def stated_temperature(ribbon):
    """Temperature that was passed as a number; one otherwise."""
    return {"auto": 1.0}.get(temperature := getattr(ribbon, "temperature", 1.0), temperature)


def at(ribbon, theta):
    """Copy of the base model with other parameters."""
    return _with(ribbon.estimator_, ribbon.model_, theta)


def _with(estimator, model, theta):
    if isinstance(estimator, Pipeline):
        *steps, (name, last) = estimator.steps
        return Pipeline([*steps, (name, _with(last, model, theta))])
    if isinstance(estimator, TransformedTargetRegressor):
        other = copy(estimator)
        other.regressor_ = _with(estimator.regressor_, model, theta)
        return other
    if not hasattr(estimator, "coef_"):
        return with_theta(estimator, model, theta)
    leaf = copy(estimator)
    d, basis = leaf.coef_.shape[-1], model.loss.output_map
    if basis is not None:
        Theta = basis @ theta.reshape(basis.shape[1], -1)
        leaf.coef_, leaf.intercept_ = Theta[:, :-1], Theta[:, -1]
    else:  # what comes behind is Huber's scale
        leaf.coef_ = theta[:d].reshape(leaf.coef_.shape)
        leaf.intercept_ = np.reshape(theta[d], np.shape(leaf.intercept_))
    return leaf


def oracle(ribbon, function):
    """Value (m,) of a function of fitted base models, and its standard errors by central differences in theta."""
    theta = ribbon.model_.theta
    step = 1e-5 * np.maximum(np.abs(theta), 0.1)
    shifted = theta + np.concatenate([np.diag(step), -np.diag(step)])
    values = np.array([function(at(ribbon, row)) for row in shifted])
    gradient = (values[: len(theta)] - values[len(theta) :]) / (2 * step[:, None])  # (p, m)
    root = gradient.T @ ribbon.ribbon_.root
    return function(ribbon.estimator_), np.sqrt((root**2).sum(axis=1))


def check(table, ribbon, function, rtol=2e-6):
    """Check that estimates and standard errors of a table equal the oracle's."""
    value, std = oracle(ribbon, function)
    np.testing.assert_allclose(table["estimate"], value, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(table["std_error"], std, rtol=rtol, atol=1e-8 * std.max())


def replaced(X, column, value):
    """A copy of the table with other values in a column."""
    if hasattr(X, "iloc"):
        return X.assign(**{column: value})
    X = X.toarray() if sparse.issparse(X) else X.copy()
    X[:, column] = value
    return X
