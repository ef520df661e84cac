"""90% intervals of a network that has memorized its rows, from one fit and by the default."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonRegressor
from skribbon.exceptions import FlexibleModelWarning


def draw():
    """Draw intervals of 40 new rows, and the observations inside and outside of them."""
    X, y = make_friedman1(1300, noise=1.0, random_state=0)
    network = make_pipeline(StandardScaler(), MLPRegressor(max_iter=500, random_state=0))
    base = TransformedTargetRegressor(network, transformer=StandardScaler())
    with plt.style.context("skribbon.plotting.style"):
        figure, axes = plt.subplots(2, 1, figsize=(5.0, 4.6), sharex=True, sharey=True)
        for ax, held_out, name in zip(axes, ("loo", "auto"), ("One fit", "Default, with refits"), strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FlexibleModelWarning)  # the fault that the figure shows
                ribbon = RibbonRegressor(base, held_out=held_out, random_state=0).fit(X[:300], y[:300])
            interval = ribbon.predict_interval(X[300:])
            inside = (interval[:, 0] <= y[300:]) & (y[300:] <= interval[:, 1])
            rows = np.argsort(ribbon.predict(X[300:340]))
            ax.vlines(np.arange(40), *interval[rows].T, color="#0072B2", alpha=0.4, lw=5)
            for wanted, colour, marker in ((True, "0.3", "."), (False, "#D55E00", "D")):
                place = np.flatnonzero(inside[rows] == wanted)
                ax.plot(place, y[300 + rows[place]], marker, color=colour, ms=6 if wanted else 5)
            ax.set_title(f"{name}: 90% intervals cover {inside.mean():.0%}")
            ax.set(ylabel="y", xticks=[])
        axes[1].set_xlabel("40 of 1,000 new rows, by prediction (diamonds: not covered)")
    return figure
