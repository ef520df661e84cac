"""90% intervals for new rows by the textbook formula for constant noise, and by a Ribbon, for the same line."""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from skribbon import RibbonRegressor


def simulate(n, rng):
    """Income (n, 1), and spending whose noise grows with income."""
    income = rng.uniform(1, 10, size=(n, 1))
    return income, 2 + 0.5 * income[:, 0] * (1 + 0.4 * rng.normal(size=n))


def constant_noise(X, y, X_new):
    """Intervals (n, 2) of least squares with constant normal noise: statsmodels' ``obs_ci`` without ``cov_type``."""
    design, new = (np.c_[np.ones(len(rows)), rows] for rows in (X, X_new))
    inverse = np.linalg.inv(design.T @ design)
    coef, df = inverse @ design.T @ y, len(y) - 2
    variance = np.sum((y - design @ coef) ** 2) / df * (1 + np.einsum("ij,jk,ik->i", new, inverse, new))
    return (new @ coef)[:, None] + np.outer(np.sqrt(variance), stats.t.ppf([0.05, 0.95], df))


def draw():
    """Two panels with the coverage of new rows with the lowest and with the highest income."""
    rng = np.random.default_rng(0)
    (X, y), (X_new, y_new) = simulate(300, rng), simulate(30_000, rng)
    grid = np.linspace(1, 10, 100)[:, None]
    ribbon = RibbonRegressor().fit(X, y)
    methods = {
        "statsmodels, obs_ci": lambda rows: constant_noise(X, y, rows),
        "skribbon": ribbon.predict_interval,
    }
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, axes = plt.subplots(1, 2, figsize=(6, 3.3), sharex=True, sharey=True)
        for ax, (name, intervals) in zip(axes, methods.items(), strict=True):
            lower, upper = intervals(X_new).T
            covered = (lower <= y_new) & (y_new <= upper)
            ax.fill_between(grid[:, 0], *intervals(grid).T, color="#0072B2", alpha=0.3, lw=0)
            ax.plot(X, y, ".", color="0.3", ms=3)
            for x, inside in ((1, X_new[:, 0] < 4), (7, X_new[:, 0] > 7)):
                ax.text(x, 10.4, f"covers\n{covered[inside].mean():.0%}", size=10)
            ax.set(title=name, xlabel="income", xticks=[1, 4, 7, 10], ylim=(0, 12))
        axes[0].set_ylabel("spending")
    return figure
