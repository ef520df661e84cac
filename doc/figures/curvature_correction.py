"""Coverage of the true mean against the number of rows, with and without the small-sample correction."""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor
from skribbon.metrics import interval_coverage_score

BLUE, ORANGE = "#0072B2", "#D55E00"


def draw():
    """Return the figure."""
    rng, sizes = np.random.default_rng(0), (8, 12, 20, 40, 120)
    new, covered = rng.standard_normal((20, 3)), {"HC0": np.zeros(5), "auto": np.zeros(5)}
    for i, n in enumerate(sizes):
        for _ in range(100):
            X = rng.standard_normal((n, 3))
            y = X.sum(axis=1) + rng.standard_normal(n)
            for correction, share in covered.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # eight rows may determine their own fitted values
                    ribbon = RibbonRegressor(correction=correction, noise="dof").fit(X, y)
                interval = ribbon.predict_interval(new, kind="confidence")
                share[i] += interval_coverage_score(new.sum(axis=1), interval) / 100
    with plt.style.context(["skribbon.plotting.style", {"font.size": 12}]):
        figure, ax = plt.subplots(figsize=(6, 3.6))
        ax.axhline(0.9, color="0.4", ls=":", lw=1.2)
        ax.plot(sizes, covered["auto"], "C0o-", lw=2.5)
        ax.plot(sizes, covered["HC0"], "C1s--", lw=2.5)
        ax.text(8, 0.94, 'correction="auto", the default', color=BLUE, weight="bold")
        ax.text(17, 0.7, 'correction="HC0"', color=ORANGE, weight="bold")
        ax.set(xscale="log", xticks=sizes, xticklabels=sizes, ylim=(0.5, 1))
        ax.minorticks_off()
        ax.set(xlabel="training rows, 3 features", ylabel="true means covered")
        ax.set_title("The default covers about 90% from 8 rows on")
    return figure
