"""A formula with three parameters, its confidence band and its prediction band."""

import autograd.numpy as anp
import matplotlib.pyplot as plt
import numpy as np

from skribbon import AutogradRegressor, RibbonRegressor


def decay(params, X):
    """Exponential decay to a floor."""
    return params["height"] * anp.exp(-anp.exp(params["log_rate"]) * X[:, 0]) + params["floor"]


def draw():
    """Draw 40 observations, the fit and both bands."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, size=(40, 1))
    y = 3 * np.exp(-0.5 * X[:, 0]) + 1 + 0.2 * rng.standard_normal(40)
    start = {"height": 1.0, "log_rate": 0.0, "floor": 0.0}
    ribbon = RibbonRegressor(AutogradRegressor(decay, start)).fit(X, y)
    grid = np.linspace(0, 10, 200)
    with plt.style.context("skribbon.plotting.style"):
        figure, ax = plt.subplots(figsize=(5.0, 3.4))
        for kind, alpha in (("prediction", 0.2), ("confidence", 0.5)):
            band = ribbon.predict_interval(grid[:, None], kind=kind)
            ax.fill_between(grid, *band.T, color="#0072B2", alpha=alpha, lw=0)
        ax.plot(grid, ribbon.predict(grid[:, None]), color="#0072B2", lw=2)
        ax.plot(X[:, 0], y, ".", color="0.3", ms=7)
        look = {"color": "#0072B2", "arrowprops": {"arrowstyle": "-", "color": "#0072B2"}}
        ax.annotate("90% of new observations", (2.2, 2.35), (3.2, 3.3), **look)
        ax.annotate("the curve, with 90% confidence", (3.2, 1.62), (4.2, 2.5), **look)
        ax.set(xlabel="time", ylabel="y", title="Both bands follow the formula", xlim=(0, 10))
    return figure
