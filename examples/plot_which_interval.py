"""
Confidence or prediction?
=========================

Two questions have two intervals. *Where will the next observation fall?* is answered by a prediction interval, *where
is the mean?* by a confidence interval. One shrinks as more data arrive, the other does not.
"""

# %%
# A curve whose truth we know: noise of standard deviation 0.4 around a sine, fitted by a polynomial of degree five.
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
# Few rows and many. The pale band is for observations and stays about as wide as the noise; the dark band is for
# the mean and closes around it.
rng = np.random.default_rng(0)
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(8.5, 4), sharey=True)
grid = np.linspace(-1, 1, 200)[:, None]
for ax, n in zip(axes, (40, 640), strict=True):
    X, y = simulate(n, rng)
    ribbon = RibbonRegressor(base).fit(X, y)
    widths = {kind: np.ptp(ribbon.predict_interval(X, kind=kind), axis=1).mean() for kind in kinds}
    print(f"{n:3} rows: " + ", ".join(f"mean width {width:.2f} ({kind})" for kind, width in widths.items()))
    IntervalDisplay.from_estimator(ribbon, X, y, name=f"{n} rows", ax=ax)
    ax.plot(grid, truth(grid), "C1--", lw=1.5, label="true mean")
    ax.legend(loc="upper left", ncols=2)
    ax.set(xlabel="x", ylabel="y" if n == 40 else None)

# %%
# Each interval keeps its own promise. In 200 repetitions with 80 rows, both intervals are asked for new observations
# and for the true mean: a confidence interval misses most observations, a prediction interval is far too wide for the
# mean.
warnings.simplefilter("ignore", DependentRowsWarning)  # a false alarm in about 3 of 1,000 tables
shares = np.zeros((200, 2, 2))
for share in shares:
    ribbon = RibbonRegressor(base).fit(*simulate(80, rng))
    X_new, y_new = simulate(100, rng)
    for i, kind in enumerate(kinds):
        interval = ribbon.predict_interval(X_new, kind=kind)
        share[i] = [interval_coverage_score(target, interval) for target in (y_new, truth(X_new))]
print("90% interval   holds new observations   holds the true mean")
for kind, (observations, mean) in zip(kinds, shares.mean(axis=0), strict=True):
    print(f"{kind:13} {observations:24.3f} {mean:21.3f}")

# %%
# So for future prices, loads and patients use ``kind="prediction"``, the default; for an effect, a trend or the
# average over many cases use ``kind="confidence"``. The confidence interval is about the curve that the model would
# find with unlimited data, at each x separately; whether this curve is the truth, as it nearly is here, is up to the
# modeller.
#
# Next: how wide is right, :ref:`sphx_glr_auto_examples_plot_tuning_alpha.py`; and noise that is not the same
# everywhere, :ref:`sphx_glr_auto_examples_plot_heteroskedastic.py`.
