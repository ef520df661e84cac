"""
A guarantee on top of a law
===========================

*Somebody will be held to the coverage: what then?* A model's interval reaches its level if the model and its noise
distribution are right. A conformal one reaches it in any case, and lets the model decide where to be wide. Here both
meet skewed data whose spread grows.
"""

# %%
# Waiting times: their mean bends, their spread grows with x, and long ones are very long.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skribbon import RibbonRegressor
from skribbon.metrics import coverage_by_group, interval_coverage_score, mean_interval_score
from skribbon.plotting import CoverageDisplay

rng = np.random.default_rng(0)


def simulate(n):
    X = rng.uniform(0, 4, size=(n, 1))
    return X, np.sqrt(X[:, 0]) + (0.2 + 0.4 * X[:, 0]) * (rng.lognormal(0, 0.8, size=n) - 1)


(X, y), (X_cal, y_cal), (X_new, y_new) = simulate(400), simulate(400), simulate(4000)
spline = make_pipeline(SplineTransformer(5), LinearRegression())

# %%
# Three intervals of 90%: of a model that takes its noise to be normal and alike everywhere; the same with a conformal
# step by the plain distance from the prediction, as split conformal intervals mostly are; and a conformal step by the
# whole law of a model that was left to find its noise by itself.
plain = RibbonRegressor(spline, noise="dof").fit(X, y).conformalize(X_cal, y_cal, score="absolute")
whole = RibbonRegressor(spline).fit(X, y).conformalize(X_cal, y_cal)
intervals = {
    "model, normal": plain.predict_interval(X_new),
    "conformal, distance": plain.predict_interval(X_new, kind="conformal"),
    "conformal, whole law": whole.predict_interval(X_new, kind="conformal"),
}
for name, interval in intervals.items():
    below, above = np.mean(y_new < interval[:, 0]), np.mean(y_new > interval[:, 1])
    score = mean_interval_score(y_new, interval)
    print(f"{name:20}: {interval_coverage_score(y_new, interval):.3f} covered, ", end="")
    print(f"missed {below:.3f} below and {above:.3f} above, interval score {score:.2f}")

# %%
# Both conformal intervals keep the promise on average. The one by the whole law follows the data: it is narrow where
# they are, long above and short below.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True)
order = np.argsort(X_new[:, 0])
for ax, (name, interval) in zip(axes, intervals.items(), strict=True):
    ax.plot(X_new[:600, 0], y_new[:600], ".", color="0.6", ms=3)
    ax.fill_between(X_new[order, 0], *interval[order].T, alpha=0.3, lw=0)
    ax.set(title=f"{name}: {interval_coverage_score(y_new, interval):.0%} covered", xlabel="x", ylim=(-3, 12))
axes[0].set_ylabel("waiting time")

# %%
# On average is not everywhere: in fifths of x, a single width is too much for some rows and too little for others.
# ``conformalize(..., groups=...)`` would make the promise hold in each of them.
fifth = (5 * X_new[:, 0] / 4).astype(int)
for name, interval in intervals.items():
    print(f"{name:20}:", coverage_by_group(y_new, interval, fifth)[1].round(2))

# %%
# And at every level: the band is where coverage lies by chance if the promise holds. Of conformal intervals, chance
# also chooses the calibration rows, so that their band is wider.
figure, axes = plt.subplots(1, 2, figsize=(8.5, 4), sharey=True)
for ax, ribbon, kind in ((axes[0], plain, "prediction"), (axes[1], whole, "conformal")):
    CoverageDisplay.from_estimator(ribbon, X_new, y_new, kind=kind, name=kind, ax=ax)
axes[0].set_title("Normal noise: right at 95%, too wide below")
axes[1].set_title("Conformal: right at every level")

plt.show()
