"""90% intervals of four methods for one table, whose noise grows with x and that has a gap."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonRegressor
from skribbon.baselines import LaplaceRegressor

BLUE, ORANGE = "#0072B2", "#D55E00"
N_ROWS, N_NEW = 200, 4000
GAP = (0.0, 1.3)


def simulate(n, rng):
    """Rows outside of the gap, and their targets."""
    x = rng.uniform(-3, 3, 3 * n)
    x = x[(x < GAP[0]) | (x > GAP[1])][:n]
    return x[:, None], np.sin(2 * x) + (0.08 + 0.12 * (x + 3)) * rng.standard_normal(n)


def intervals(X, y, *new):
    """For each method, its intervals (n, 2) of each table of new rows."""
    network = MLPRegressor(
        hidden_layer_sizes=20, activation="tanh", solver="lbfgs", alpha=0.1, max_iter=5000, random_state=0
    )
    base = TransformedTargetRegressor(make_pipeline(StandardScaler(), network), transformer=StandardScaler())
    ribbon = RibbonRegressor(base, random_state=0).fit(X, y)
    yield "Ribbon", [ribbon.predict_interval(rows) for rows in new]
    laplace = LaplaceRegressor(base).fit(X, y)
    yield "Laplace", [laplace.predict_interval(rows) for rows in new]
    half = RibbonRegressor(base, noise="dof").fit(X[::2], y[::2]).conformalize(X[1::2], y[1::2], score="absolute")
    yield "split conformal", [half.predict_interval(rows, kind="conformal") for rows in new]
    bounds = [
        GradientBoostingRegressor(
            loss="quantile", alpha=q, n_estimators=60, max_depth=2, min_samples_leaf=20, random_state=0
        ).fit(X, y)
        for q in (0.05, 0.95)
    ]
    yield "quantile boosting", [np.stack([bound.predict(rows) for bound in bounds], axis=-1) for rows in new]


def draw():
    """Four panels, with the coverage of new rows."""
    rng = np.random.default_rng(1)
    (X, y), (X_new, y_new) = simulate(N_ROWS, rng), simulate(N_NEW, rng)
    grid = np.linspace(-3.5, 3.5, 300)[:, None]
    with warnings.catch_warnings(), plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        warnings.simplefilter("ignore")
        figure, axes = plt.subplots(2, 2, figsize=(6, 4.8), sharex=True, sharey=True)
        for ax, (name, (band, new)) in zip(axes.flat, intervals(X, y, grid, X_new), strict=True):
            covers = np.mean((new[:, 0] <= y_new) & (y_new <= new[:, 1]))
            ax.fill_between(grid[:, 0], *band.T, color=BLUE, alpha=0.3, lw=0)
            ax.plot(X, y, ".", color="0.3", ms=3)
            ax.plot(grid, np.sin(2 * grid), "--", color=ORANGE, lw=1.2)
            ax.set(ylim=(-3.2, 3.2), xticks=[-3, 0, 3], yticks=[])
            ax.set_title(f"{name}: covers {covers:.0%}", fontsize=11)
    return figure
