"""Prediction bands by default and with constant noise, if the noise grows with x."""

import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor

BLUE, ORANGE = "#0072B2", "#D55E00"


def draw():
    """Return the figure."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, size=(500, 1))
    y = 3 + X[:, 0] + (0.3 + 0.3 * X[:, 0]) * rng.standard_normal(500)
    line = np.linspace(0, 10, 200)[:, None]
    default, constant = RibbonRegressor().fit(X, y), RibbonRegressor(noise="dof").fit(X, y)
    with plt.style.context(["skribbon.plotting.style", {"font.size": 12}]):
        figure, ax = plt.subplots(figsize=(6, 3.8))
        ax.plot(X, y, ".", color="0.5", ms=4, alpha=0.6)
        ax.fill_between(line[:, 0], *default.predict_interval(line).T, color="C0", alpha=0.3, lw=0)
        ax.plot(line, constant.predict_interval(line), "C1--", lw=2)
        ax.text(7.2, 20, "default", color=BLUE, weight="bold")
        ax.text(0.2, 9.5, 'noise="dof"', color=ORANGE, weight="bold")
        ax.set(xlabel="x", ylabel="y", xlim=(0, 10), ylim=(-3, 24))
        ax.set_title("The default 90% band widens with the noise")
    return figure
