"""Rates at which fits of independent and of dependent rows warn, simulated and on shuffled real tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonRegressor, time_blocks

DATA = Path(__file__).parents[3] / "shared" / "data"
TABLES = {100: 1000, 300: 500, 1000: 300}  # number of tables of each length
needs_data = pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")


def warns(ribbon):
    return any(own.text for own in ribbon._findings_ if own.premise == "dependence")


def autoregressive(rng, n, correlation):
    return lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], rng.normal(size=n + 200))[200:]


def clustered(rng, n):
    return np.sqrt(1 / 3) * np.repeat(rng.normal(size=n // 10), 10) + np.sqrt(2 / 3) * rng.normal(size=n)


# name: noise of n rows that are sorted by x, and the bounds of the share of tables with a warning, by number of rows
CASES = {
    "normal": (lambda rng, x: rng.normal(size=len(x)), 0.0, 0.01),
    "lognormal": (lambda rng, x: rng.lognormal(size=len(x)), 0.0, 0.01),
    "cauchy": (lambda rng, x: rng.standard_cauchy(len(x)), 0.0, 0.01),
    "scale varies": (lambda rng, x: np.exp(0.75 * x) * rng.normal(size=len(x)), 0.0, 0.01),
    "AR(0.5)": (lambda rng, x: autoregressive(rng, len(x), 0.5), (0.9, 0.99, 0.99), 1.0),
    "AR(0.2)": (lambda rng, x: autoregressive(rng, len(x), 0.2), (0.08, 0.6, 0.97), 1.0),
    "tens, correlation 1/3": (lambda rng, x: clustered(rng, len(x)), (0.3, 0.88, 0.99), 1.0),
}


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.DependentRowsWarning")
@pytest.mark.parametrize("name", CASES)
def test_rates_of_rows(name):
    noise, lowest, highest = CASES[name]
    for (n, n_tables), low in zip(TABLES.items(), np.broadcast_to(lowest, len(TABLES)), strict=True):
        rng, found = np.random.default_rng(n), 0
        for _ in range(n_tables):
            X = rng.normal(size=(n, 5))
            X = X[np.argsort(X[:, 0])]
            found += warns(RibbonRegressor(noise=1.0, correction="HC0").fit(X, X.sum(axis=1) + noise(rng, X[:, 0])))
        assert low <= found / n_tables <= highest, (n, found / n_tables)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
@pytest.mark.parametrize("n", [300, 1000])
def test_rates_of_groups(n):
    rng, n_tables = np.random.default_rng(n), 300
    alarms = {"clusters": 0, "blocks": 0, "short blocks": 0}
    for _ in range(n_tables):
        X = rng.normal(size=(n, 3))
        group = rng.integers(0, n // 5, size=n)
        clusters = rng.lognormal(size=n // 5)[group] + rng.normal(size=n)
        series = autoregressive(rng, n, 0.5)
        cases = {
            "clusters": (clusters, group),
            "blocks": (series, time_blocks(n)),
            "short blocks": (autoregressive(rng, n, 0.8), time_blocks(n, 3)),
        }
        for name, (e, code) in cases.items():
            fit = RibbonRegressor(noise=1.0, correction="HC0").fit(X, X.sum(axis=1) + e, groups=code)
            alarms[name] += warns(fit)
    shares = {name: count / n_tables for name, count in alarms.items()}
    assert shares["clusters"] <= 0.01 and shares["blocks"] <= 0.02 and shares["short blocks"] > 0.9, shares


def real_tables():
    """Name to base model, X and y of every table in ../shared/data and of scikit-learn's own."""
    scaled = make_pipeline(StandardScaler(), Ridge())
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    yield "diabetes", scaled, *load_diabetes(return_X_y=True)
    for load in (load_iris, load_wine, load_breast_cancer):
        yield load.__name__, logistic, *load(return_X_y=True)
    for name in ("boston", "concrete", "energy", "power", "yacht"):
        table = np.load(DATA / "uci" / f"{name}.npz")
        yield name, scaled, table["X"], table["y"]
    table = np.load(DATA / "california_housing.npz")
    yield "california", scaled, table["X"], table["y"]
    table = np.load(DATA / "mnist.npz")
    yield "mnist", logistic, table["x_train"][:5000, 7::4, 7::4].reshape(5000, -1) / 255.0, table["y_train"][:5000]
    for name, label in (("adult", "class"), ("bank_marketing", "y"), ("german_credit", "class")):
        frame = pd.read_csv(DATA / "tabular" / f"{name}.csv.gz")
        y, X = frame[label].to_numpy(), pd.get_dummies(frame.drop(columns=[label, "split"], errors="ignore"))
        yield name, logistic, X.to_numpy(dtype=float), y
    frame = pd.read_csv(DATA / "counts" / "freMTPL2freq_100k.csv.gz")
    X = pd.get_dummies(frame.drop(columns=["IDpol", "ClaimNb", "Exposure"])).to_numpy(dtype=float)
    poisson = make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-4, max_iter=500))
    yield "freMTPL2", poisson, X, np.minimum(frame["ClaimNb"].to_numpy(), 4)


@needs_data
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_shuffled_real_tables_do_not_warn():
    alarms, n_fits = [], 0
    for name, base, X, y in real_tables():
        for seed in range(3 if len(y) > 10_000 else 10):
            order = np.random.default_rng(seed).permutation(len(y))
            known = {"temperature": 1.0} if "logistic" in str(base[-1]).lower() else {"noise": "dof"}
            kind = RibbonClassifier if "temperature" in known else RibbonRegressor
            alarms += [(name, seed)] * warns(kind(base, **known).fit(X[order], y[order]))
            n_fits += 1
    assert n_fits > 100 and len(alarms) <= 2, alarms  # 0.4 of 130 are expected by chance
