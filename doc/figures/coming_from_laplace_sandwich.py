"""Intervals of one network by the inverse curvature with constant noise, and by a Ribbon."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor
from skribbon.baselines import LaplaceRegressor


def simulate(n, rng):
    """Rows (n, 1) and a sine whose noise grows with x."""
    X = rng.uniform(-3, 3, size=(n, 1))
    return X, np.sin(X[:, 0]) + (X[:, 0] + 3.5) / 10 * rng.normal(size=n)


def draw():
    """Two panels with the coverage of new rows with small and with large x."""
    rng = np.random.default_rng(0)
    (X, y), (X_new, y_new) = simulate(300, rng), simulate(30_000, rng)
    grid = np.linspace(-3, 3, 200)[:, None]
    network = MLPRegressor(
        hidden_layer_sizes=10, activation="tanh", solver="lbfgs", alpha=0.3, max_iter=5000, random_state=0
    )
    # LaplaceRegressor has the covariance of laplace-torch's full curvature: the page compares them
    methods = {"Laplace": LaplaceRegressor(network), "skribbon": RibbonRegressor(network, random_state=0)}
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, axes = plt.subplots(1, 2, figsize=(6, 3.3), sharex=True, sharey=True)
        for ax, (name, method) in zip(axes, methods.items(), strict=True):
            method.fit(X, y)
            lower, upper = method.predict_interval(X_new).T
            covered = (lower <= y_new) & (y_new <= upper)
            ax.fill_between(grid[:, 0], *method.predict_interval(grid).T, color="#0072B2", alpha=0.3, lw=0)
            ax.plot(X, y, ".", color="0.3", ms=3)
            for x, inside in ((-3, X_new[:, 0] < -1), (1, X_new[:, 0] > 1)):
                ax.text(x, 2.6, f"covers {covered[inside].mean():.0%}", size=10)
            ax.set(title=name, xlabel="x", xticks=[-3, -1, 1, 3], ylim=(-2.4, 3.1))
        axes[0].set_ylabel("y")
    return figure
