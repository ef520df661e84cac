"""Prediction and confidence bands of a polynomial, with few rows and with many."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skribbon import RibbonRegressor

ORANGE = "#D55E00"


def draw():
    """Return the figure."""
    rng = np.random.default_rng(0)
    base = make_pipeline(PolynomialFeatures(5), LinearRegression())
    grid = np.linspace(-1, 1, 200)[:, None]
    with plt.style.context(["skribbon.plotting.style", {"font.size": 12}]):
        figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.6), sharey=True)
        for ax, n in zip(axes, (40, 640), strict=True):
            X = rng.uniform(-1, 1, size=(n, 1))
            y = np.sin(3 * X[:, 0]) + 0.4 * rng.standard_normal(n)
            ribbon = RibbonRegressor(base).fit(X, y)
            for kind, shade in (("prediction", 0.2), ("confidence", 0.6)):
                lower, upper = ribbon.predict_interval(grid, kind=kind).T
                ax.fill_between(grid[:, 0], lower, upper, color="C0", alpha=shade, lw=0)
            ax.plot(X, y, ".", color="0.4", ms=4, alpha=0.6)
            ax.plot(grid, np.sin(3 * grid), "C1--", lw=2)
            ax.set(xlabel=f"x, {n} rows", xticks=[-1, 0, 1], ylim=(-2.5, 2.9))
        axes[0].set_ylabel("y")
        axes[0].text(-1, 2.5, "prediction band", color="#5C93B8")
        axes[0].text(-1, 2.05, "confidence band", color="#004F7C", weight="bold")
        axes[0].text(0.15, -1.2, "true mean", color=ORANGE)
        figure.suptitle("More rows narrow only the confidence band", x=0.11, ha="left", fontsize="medium")
    return figure
