"""Shares of training rows in the variance of two predictions."""

import matplotlib.pyplot as plt
import statsmodels.api as sm

from skribbon import RibbonRegressor
from skribbon.inspection import variance_contributions


def draw():
    """Two panels with the four largest shares of each prediction."""
    data = sm.datasets.statecrime.load_pandas().data
    X, y = data[["hs_grad", "poverty", "single", "urban"]], data["murder"]
    ribbon = RibbonRegressor(noise="dof").fit(X, y)
    shares = variance_contributions(ribbon, X, y, X.loc[["Ohio", "Indiana"]])
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, axes = plt.subplots(2, 1, figsize=(5, 3.8), sharex=True)
        findings = ("one row causes most of the uncertainty", "no row dominates")
        for ax, state, finding in zip(axes, shares, findings, strict=True):
            largest = shares[state].nlargest(4)[::-1]
            bars = ax.barh(largest.index.str.replace("District of Columbia", "D.C."), largest, color="#0072B2")
            ax.bar_label(bars, labels=[f" {share:.0%}" for share in largest])
            ax.set_title(f"{state}: {finding}", x=-0.2)
            ax.tick_params(left=False)
        axes[0].set_xlim(0, 0.95)
        axes[1].xaxis.set_major_formatter("{x:.0%}")
        axes[1].set_xlabel("share of the variance of the mean")
    return figure
