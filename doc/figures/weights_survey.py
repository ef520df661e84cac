"""Intervals of a slope in sixty weighted samples: weights taken as frequencies, and as importance weights."""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor
from skribbon.inspection import coefficients

N_SAMPLES, N_ROWS = 60, 300


def interval(seed, weight_type):
    """Interval (2,) for a slope of one, from a sample with very unequal weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 1))
    y = X[:, 0] + rng.normal(size=N_ROWS)
    weight = rng.exponential(size=N_ROWS) ** 2 / 2
    ribbon = RibbonRegressor(noise="dof", weight_type=weight_type).fit(X, y, sample_weight=weight)
    return coefficients(ribbon)[["conf_low", "conf_high"]].to_numpy()[0]


def draw():
    """Two panels of intervals, vermilion if they miss the slope."""
    with warnings.catch_warnings(), plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        warnings.simplefilter("ignore")
        figure, axes = plt.subplots(1, 2, figsize=(5, 3.4), sharex=True, sharey=True)
        for ax, weight_type in zip(axes, ("frequency", "importance"), strict=True):
            low, high = np.array([interval(seed, weight_type) for seed in range(N_SAMPLES)]).T
            inside = (low <= 1) & (high >= 1)
            ax.hlines(range(N_SAMPLES), low, high, colors=np.where(inside, "#0072B2", "#D55E00"), lw=1.5)
            ax.axvline(1, color="0.2", lw=1)
            ax.set(title=f'"{weight_type}":\n{inside.mean():.0%} contain the truth', yticks=[])
            ax.spines["left"].set_visible(False)
        figure.supxlabel("90% interval of a slope that is 1", size=11)
    return figure
