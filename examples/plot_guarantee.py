"""
Guaranteed coverage on skewed data
==================================

Must the coverage be guaranteed? A model's own interval reaches its level if the model
and its noise distribution are right. A conformal interval reaches it in any case, and
the model still determines where it is wide. Here both meet skewed data whose spread
grows with x.
"""

# %%
# Simulated waiting times. Their mean is curved, their spread grows with x, and a few of
# them are very long.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skribbon import RibbonRegressor
from skribbon.metrics import (
    coverage_by_group,
    interval_coverage_score,
    mean_interval_score,
)
from skribbon.plotting import CoverageDisplay

rng = np.random.default_rng(0)


def simulate(n):
    X = rng.uniform(0, 4, size=(n, 1))
    noise = (0.2 + 0.4 * X[:, 0]) * (rng.lognormal(0, 0.8, size=n) - 1)
    return X, np.sqrt(X[:, 0]) + noise


(X, y), (X_cal, y_cal), (X_new, y_new) = simulate(400), simulate(400), simulate(4000)
spline = make_pipeline(SplineTransformer(5), LinearRegression())

# %%
# We compare three 90% intervals. The first is of a model with constant normal noise.
# The second adds a conformal step with the distance from the prediction as score, as in
# most split conformal methods. The third is a conformal step with the whole
# distribution of a model with default noise.
plain = RibbonRegressor(spline, noise="dof").fit(X, y)
plain = plain.conformalize(X_cal, y_cal, score="absolute")
whole = RibbonRegressor(spline).fit(X, y).conformalize(X_cal, y_cal)
intervals = {
    "model, normal": plain.predict_interval(X_new),
    "conformal, distance": plain.predict_interval(X_new, kind="conformal"),
    "conformal, distribution": whole.predict_interval(X_new, kind="conformal"),
}
print(f"{'':24} covered  below  above  interval score")
for name, interval in intervals.items():
    below, above = np.mean(y_new < interval[:, 0]), np.mean(y_new > interval[:, 1])
    covered = interval_coverage_score(y_new, interval)
    score = mean_interval_score(y_new, interval)
    print(f"{name:24} {covered:7.3f} {below:6.3f} {above:6.3f} {score:15.2f}")

# %%
# Both conformal intervals cover 90% on average. With the whole distribution, the
# interval follows the data: it is narrow if they are, long above and short below.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(3, 1, figsize=(5.6, 7.6), sharex=True, sharey=True)
order = np.argsort(X_new[:, 0])
for ax, (name, interval) in zip(axes, intervals.items(), strict=True):
    ax.plot(X_new[:600, 0], y_new[:600], ".", color="0.6", ms=3)
    ax.fill_between(X_new[order, 0], *interval[order].T, alpha=0.3, lw=0)
    ax.set(ylabel="waiting time", ylim=(-3, 12))
    ax.set_title(f"{name}: {interval_coverage_score(y_new, interval):.0%} covered")
axes[2].set_xlabel("x")

# %%
# Coverage on average is not coverage everywhere. In fifths of x, a constant width is
# too wide for some rows and too narrow for others. ``conformalize(..., groups=...)``
# guarantees the level in each group.
fifth = (5 * X_new[:, 0] / 4).astype(int)
for name, interval in intervals.items():
    print(f"{name:24}:", coverage_by_group(y_new, interval, fifth)[1].round(2))

# %%
# Coverage at all levels. The band shows where coverage lies by chance if the level
# holds. The band of conformal intervals is wider, because the calibration rows are
# random too.
figure, axes = plt.subplots(2, 1, figsize=(4.8, 8.4), sharex=True)
for ax, ribbon, kind in ((axes[0], plain, "prediction"), (axes[1], whole, "conformal")):
    CoverageDisplay.from_estimator(ribbon, X_new, y_new, kind=kind, name=kind, ax=ax)
axes[0].set_title("Normal noise: right at 95%, too wide below")
axes[1].set_title("Conformal: right at every level")

plt.show()
