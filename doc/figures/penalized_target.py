"""Coverage of a ridge coefficient's interval, of the true value and of the average estimate, by penalty."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from skribbon import RibbonRegressor


def draw():
    """Draw intervals of 12 samples each for a weak and a strong penalty."""
    rng = np.random.default_rng(0)
    with plt.style.context("skribbon.plotting.style"):
        figure, axes = plt.subplots(1, 2, figsize=(5.2, 3.4), sharex=True, sharey=True)
        titles = "Ridge(1): true value covered", "Ridge(30): missed"
        for ax, penalty, title in zip(axes, (1.0, 30.0), titles, strict=True):
            average = 1 / (1 + penalty / 100)
            for sample in range(12):
                X = rng.standard_normal((100, 3))
                y = X @ [1.0, 0.5, 0.0] + rng.standard_normal(100)
                ribbon = RibbonRegressor(Ridge(alpha=penalty)).fit(X, y)
                estimate, half = ribbon.estimator_.coef_[0], 1.645 * np.sqrt(ribbon.covariance_[0, 0])
                ax.plot([estimate - half, estimate + half], [sample, sample], color="#0072B2", lw=2)
                ax.plot(estimate, sample, "o", color="#0072B2", ms=4)
            ax.axvline(1, color="#D55E00", lw=1.5)
            ax.axvline(average, color="#0072B2", ls="--", lw=1.5)
            ax.set(title=title, xlabel="coefficient", yticks=[], ylim=(-1, 14.5))
            ax.spines["left"].set_visible(False)
        axes[1].text(1.02, 13.9, "true value", color="#D55E00", va="top")
        axes[1].text(average - 0.02, 13.9, "average\nestimate", color="#0072B2", ha="right", va="top")
        axes[0].set_ylabel("12 samples of 100 rows")
    return figure
