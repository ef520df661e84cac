"""
Inputs unlike the training data
===============================

What happens to the intervals when new rows move away from the data? They widen, as far as the model's parameters are
uncertain there. That is a good warning sign, better than an interval of constant width; it is not a promise, since
nobody knows how the world goes on where nothing was observed.
"""

# %%
# Sixty rows of six features. New rows are moved along the first feature by up to five of its standard deviations.
# Beyond two of them, where the training data end, the truth goes on straight in one world and bends in the other.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor

worlds = {"truth goes on straight": 0.0, "truth bends": 2.0}
bases = {
    "linear": LinearRegression(),
    "network": MLPRegressor(
        hidden_layer_sizes=(8,), activation="tanh", solver="lbfgs", alpha=10.0, max_iter=10000, tol=1e-8, random_state=0
    ),
}
shifts = np.arange(6)


def simulate(n, bend, rng, shift=0):
    X = rng.standard_normal((n, 6))
    X[:, 0] += shift
    mean = X @ [1.0, -1.0, 0.5, 0.5, 0.0, 0.0] + bend * np.maximum(X[:, 0] - 2, 0)
    return X, mean + rng.standard_normal(n)


# %%
# For every model and world, 15 training sets. The yardstick has one width everywhere: the 90% quantile of the
# leave-one-out residuals, the idea of conformal prediction. Rows count as *far away* where their epistemic standard
# deviation is larger than in all training rows.
rng = np.random.default_rng(0)
results = {}
for world, bend in worlds.items():
    for name, base in bases.items():
        found = np.zeros((15, 6, 4))
        for by_shift in found:
            X, y = simulate(60, bend, rng)
            ribbon = RibbonRegressor(base, store_loo=True).fit(X, y)
            half_width = np.quantile(np.abs(ribbon.loo_residuals_), 0.9)
            largest = ribbon.predict_std(X, kind="epistemic").max()
            for numbers, shift in zip(by_shift, shifts, strict=True):
                X_new, y_new = simulate(300, bend, rng, shift)
                lower, upper = ribbon.predict_interval(X_new).T
                std = ribbon.predict_std(X_new, kind="epistemic")
                inside = (lower <= y_new) & (y_new <= upper), np.abs(y_new - ribbon.predict(X_new)) <= half_width
                numbers[:] = [part.mean() for part in (*inside, std, std > largest)]
        results[world, name] = found.mean(axis=0)

print("moved by                  ", *(f"{shift:5}" for shift in shifts))
for name in bases:
    coverage, constant, std, far = results["truth goes on straight", name].T
    for what, values in (("epistemic std", std), ("called far away", far), ("coverage", coverage)):
        print(f"{name:8} {what:17}", *(f"{value:5.2f}" for value in values))

# %%
# Where the truth goes on straight, Ribbon's intervals keep their level, and constant width loses it, most of all around
# the network. Where the truth bends, both fail: an interval knows the parameters of its
# model, not whether the model still holds.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 2, figsize=(8, 5.6), sharex=True, sharey=True)
for ax, ((world, name), numbers) in zip(axes.flat, results.items(), strict=True):
    ax.plot(shifts, numbers[:, 0], "C0o-", lw=2, label="Ribbon")
    ax.plot(shifts, numbers[:, 1], "C1s--", lw=2, label="constant width")
    ax.axhline(0.9, color="0.3", ls=":", lw=1, label="90%")
    ax.set_title(f"{name}, {world}")
    ax.set(ylim=(0, 1.02))
axes[0, 0].legend(loc="lower left")
figure.supxlabel("new rows moved by, in standard deviations", fontsize="medium")
figure.supylabel("coverage of 90% intervals", fontsize="medium")

# %%
# A column that never moved in training says nothing about what it does. Without a penalty skribbon notices and warns.
# With one, the coefficient is zero by decree, and neither a warning nor a wider interval comes; so too for a category
# that an encoder has never seen and turns into zeros.
X, y = simulate(60, 0, rng)
X[:, 5] = 1.0
X_new = X.copy()
X_new[:, 5] = 4.0
for base in (LinearRegression(), Ridge(alpha=1.0)):
    ribbon = RibbonRegressor(base).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before, after = (ribbon.predict_std(rows, kind="epistemic").mean() for rows in (X, X_new))
    print(f"{base}: epistemic std {before:.2f}, after the column has moved {after:.2f};", end=" ")
    print("warned of", [warning.category.__name__ for warning in caught])

# %%
# So before trusting an interval, compare ranges and categories of new rows with those of the training rows.
#
# Next: the same in one dimension, as a picture, :ref:`sphx_glr_auto_examples_plot_network.py`.
