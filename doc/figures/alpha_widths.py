"""Widths of prediction and confidence intervals against alpha."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from skribbon import RibbonRegressor

BLUE, ORANGE = "#0072B2", "#D55E00"


def draw():
    """Return the figure."""
    X, y = load_diabetes(return_X_y=True)
    ribbon, alphas = RibbonRegressor(Ridge(alpha=0.1)).fit(X, y), np.logspace(-1, 2, 31)
    with plt.style.context(["skribbon.plotting.style", {"font.size": 12}]):
        figure, ax = plt.subplots(figsize=(6, 3.6))
        for kind, color in (("prediction", BLUE), ("confidence", ORANGE)):
            bounds = [ribbon.with_alpha(alpha).predict_interval(X, kind=kind) for alpha in alphas]
            widths = np.ptp(bounds, axis=2).mean(axis=1)
            ax.plot(alphas, widths, color=color, lw=2.5)
            ax.text(9, widths[20] + 12, f'kind="{kind}"', color=color, ha="center", weight="bold")
        ax.axvline(1, color="0.5", ls=":", lw=1.2)
        ax.text(1.1, 120, "default", color="0.4")
        ax.set(xscale="log", xticks=[0.1, 1, 10, 100], xticklabels=["0.1", "1", "10", "100"], ylim=(0, 220))
        ax.set(xlabel="alpha", ylabel="mean width of 90% intervals")
        ax.set_title("Alpha scales the confidence intervals,\nbut hardly changes the prediction intervals")
    return figure
