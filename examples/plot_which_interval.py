"""
Confidence or prediction?
=========================

Where will the next observation be? A prediction interval answers. Where is the mean? A
confidence interval answers. As data are added, the confidence interval shrinks, and the
prediction interval stays as wide as the noise.
"""

# %%
# The truth is a sine with noise of standard deviation 0.4. The model is a polynomial of
# degree five.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skribbon import RibbonRegressor
from skribbon.exceptions import DependentRowsWarning
from skribbon.metrics import interval_coverage_score
from skribbon.plotting import IntervalDisplay


def truth(X):
    return np.sin(3 * X[:, 0])


def simulate(n, rng):
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, truth(X) + 0.4 * rng.standard_normal(n)


base = make_pipeline(PolynomialFeatures(5), LinearRegression())
kinds = ("prediction", "confidence")

# %%
# The pale prediction band is about as wide as the noise, with few rows and with many.
# The dark confidence band closes around the mean.
rng = np.random.default_rng(0)
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 1, figsize=(5.6, 7), sharex=True, sharey=True)
grid = np.linspace(-1, 1, 200)[:, None]
for ax, n in zip(axes, (40, 640), strict=True):
    X, y = simulate(n, rng)
    ribbon = RibbonRegressor(base).fit(X, y)
    for kind in kinds:
        width = np.ptp(ribbon.predict_interval(X, kind=kind), axis=1).mean()
        print(f"{n:3} rows: mean width of {kind} intervals {width:.2f}")
    IntervalDisplay.from_estimator(ribbon, X, y, name=f"{n} rows", ax=ax)
    ax.plot(grid, truth(grid), "C1--", lw=1.5, label="true mean")
    ax.legend(loc="upper left", ncols=2)
    ax.set(xlabel="x" if n == 640 else None, ylabel="y")

# %%
# Each interval covers its own target. In 200 repetitions with 80 rows we count how
# often both intervals cover new observations, and the true mean. A confidence interval
# misses most observations. A prediction interval is far too wide for the mean.
shares = np.zeros((200, 2, 2))
# a false alarm in about 3 of 1,000 tables of independent rows
warnings.simplefilter("ignore", DependentRowsWarning)
for share in shares:
    ribbon = RibbonRegressor(base).fit(*simulate(80, rng))
    X_new, y_new = simulate(100, rng)
    for i, kind in enumerate(kinds):
        interval = ribbon.predict_interval(X_new, kind=kind)
        targets = y_new, truth(X_new)
        share[i] = [interval_coverage_score(target, interval) for target in targets]
print("90% interval   covers new observations   covers the true mean")
for kind, (observations, mean) in zip(kinds, shares.mean(axis=0), strict=True):
    print(f"{kind:13} {observations:25.3f} {mean:22.3f}")

# %%
# Use ``kind="prediction"``, the default, for future prices, loads and patients. Use
# ``kind="confidence"`` for an effect, a trend or the average over many cases. A
# confidence interval is for the curve that the model would find with unlimited data, at
# each x separately. It covers the truth if the model is right, as it nearly is here.
#
# Next: the width of intervals, :ref:`sphx_glr_auto_examples_plot_tuning_alpha.py`;
# noise that depends on x, :ref:`sphx_glr_auto_examples_plot_heteroskedastic.py`.
