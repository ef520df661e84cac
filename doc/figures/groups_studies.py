"""Sixty simulated studies of a column without effect: intervals with and without groups."""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor
from skribbon.inspection import coefficients

N_STUDIES, N_SCHOOLS, N_PUPILS = 60, 30, 20


def interval(seed, grouped):
    """Interval (2,) for a slope that is zero, of a column that is constant within each school."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(N_SCHOOLS), N_PUPILS)
    size, level = rng.normal(size=(2, N_SCHOOLS))
    y = level[school] + rng.normal(size=len(school))
    ribbon = RibbonRegressor(noise="dof").fit(size[school, None], y, groups=school if grouped else None)
    return coefficients(ribbon)[["conf_low", "conf_high"]].to_numpy()[0]


def draw():
    """Two panels of intervals, vermilion if they miss zero."""
    with warnings.catch_warnings(), plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        warnings.simplefilter("ignore")
        figure, axes = plt.subplots(1, 2, figsize=(5, 3.4), sharex=True, sharey=True)
        for ax, grouped in zip(axes, (False, True), strict=True):
            low, high = np.array([interval(seed, grouped) for seed in range(N_STUDIES)]).T
            inside = (low <= 0) & (high >= 0)
            ax.hlines(range(N_STUDIES), low, high, colors=np.where(inside, "#0072B2", "#D55E00"), lw=1.5)
            ax.axvline(0, color="0.2", lw=1)
            ax.set(title=f"{'With' if grouped else 'Without'} groups:\n{inside.mean():.0%} contain zero", yticks=[])
            ax.spines["left"].set_visible(False)
        figure.supxlabel("90% interval of a slope that is zero", size=11)
    return figure
