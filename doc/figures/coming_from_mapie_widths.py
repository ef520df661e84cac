"""Conformal intervals of one fit and the same calibration rows, with two scores."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from skribbon import RibbonRegressor


def simulate(n, rng):
    """Rows (n, 1) and a target with skewed noise that grows with x."""
    x = rng.uniform(0, 3, size=(n, 1))
    return x, 1 + x[:, 0] * (1 + rng.exponential(size=n))


def draw():
    """Two panels with the coverage of new rows with small and with large x."""
    rng = np.random.default_rng(0)
    (X, y), (X_cal, y_cal), (X_new, y_new) = (simulate(n, rng) for n in (300, 500, 30_000))
    grid = np.linspace(0, 3, 100)[:, None]
    ribbon = RibbonRegressor(LinearRegression()).fit(X, y)
    # score="absolute" gives the bounds of MAPIE's default score: the page compares both on the same rows
    titles = {"absolute": "MAPIE, default score", "distribution": "skribbon, default score"}
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, axes = plt.subplots(1, 2, figsize=(6, 3.3), sharex=True, sharey=True)
        for ax, (score, title) in zip(axes, titles.items(), strict=True):
            ribbon.conformalize(X_cal, y_cal, score=score)
            lower, upper = ribbon.predict_interval(X_new, kind="conformal").T
            covered = (lower <= y_new) & (y_new <= upper)
            band = ribbon.predict_interval(grid, kind="conformal")
            ax.fill_between(grid[:, 0], *band.T, color="#0072B2", alpha=0.3, lw=0)
            ax.plot(X, y, ".", color="0.3", ms=3)
            for x, inside in ((0, X_new[:, 0] < 1), (2.2, X_new[:, 0] > 2)):
                ax.text(x, 15.2, f"covers\n{covered[inside].mean():.0%}", size=10)
            ax.set(title=f"{title}\n(all rows: {covered.mean():.0%})", xlabel="x", xticks=[0, 1, 2, 3], ylim=(-3, 18))
        axes[0].set_ylabel("y")
    return figure
