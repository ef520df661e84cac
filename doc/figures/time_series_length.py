"""Standard errors of a seasonal effect by the length of the time blocks."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from skribbon import RibbonRegressor, time_blocks
from skribbon.inspection import coefficients

LENGTHS = np.array([1, 2, 4, 7, 14, 30, 60, 90])
N_DAYS, N_SERIES, RHO = 730, 20, 0.8
SEASON = np.cos(2 * np.pi * np.arange(N_DAYS) / 365)[:, None]


def standard_errors(seed):
    """Standard errors of the seasonal effect in a simulated series, one for each length of the blocks."""
    noise = np.random.default_rng(seed).normal(size=N_DAYS + 100)
    y = 2 * SEASON[:, 0] + lfilter([1], [1, -RHO], noise)[100:]
    fits = (RibbonRegressor(noise="dof").fit(SEASON, y, groups=time_blocks(N_DAYS, int(k))) for k in LENGTHS)
    return [coefficients(ribbon)["std_error"][0] for ribbon in fits]


def draw():
    """Mean standard errors against the length of the blocks, with the true standard deviation."""
    with warnings.catch_warnings(), plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        warnings.simplefilter("ignore")
        mean = np.mean([standard_errors(seed) for seed in range(N_SERIES)], axis=0)
        solve = np.linalg.pinv(np.hstack([SEASON, np.ones_like(SEASON)]))[0]
        truth = np.sqrt(solve @ toeplitz(RHO ** np.arange(N_DAYS) / (1 - RHO**2)) @ solve)
        figure, ax = plt.subplots(figsize=(5, 3.3))
        ax.axhline(truth, color="0.3", ls="--", lw=1)
        ax.text(1, truth * 1.03, "true standard deviation", color="0.3", va="bottom")
        ax.plot(LENGTHS, mean, "o-")
        ax.annotate(
            "rows as\nindependent", (1, mean[0]), (1.5, 0.5 * mean[0]), va="center", arrowprops={"arrowstyle": "-"}
        )
        ax.set(xscale="log", ylim=(0, 1.3 * truth), xlabel="days per block", ylabel="standard error")
        ax.set_xticks(LENGTHS, LENGTHS)
        ax.minorticks_off()
        ax.set_title("Short blocks understate the standard error")
    return figure
