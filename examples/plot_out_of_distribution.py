"""
Inputs unlike the training data
===============================

What happens to intervals if new rows move away from the training data? They widen with
the uncertainty of the parameters. This is a good warning sign, and better than a
constant width. It is no guarantee, because the data do not show how the truth
continues.
"""

# %%
# The models are trained on sixty rows of six features. New rows are moved along the
# first feature by up to five standard deviations. The training data end at about two.
# From there on, the truth continues straight in one world and bends in the other.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor

worlds = {"truth goes on straight": 0.0, "truth bends": 2.0}
training = {"solver": "lbfgs", "alpha": 10.0, "max_iter": 10000, "tol": 1e-8}
training |= {"random_state": 0}
bases = {
    "linear": LinearRegression(),
    "network": MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", **training),
}
shifts = np.arange(6)


def simulate(n, bend, rng, shift=0):
    X = rng.standard_normal((n, 6))
    X[:, 0] += shift
    mean = X @ [1.0, -1.0, 0.5, 0.5, 0.0, 0.0] + bend * np.maximum(X[:, 0] - 2, 0)
    return X, mean + rng.standard_normal(n)


# %%
# Each model in each world has 15 training sets. For comparison, intervals of constant
# width use the 90% quantile of the leave-one-out residuals, as in conformal prediction.
# A row is called *far away* if its epistemic standard deviation is larger than at all
# training rows.
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
                inside = (lower <= y_new) & (y_new <= upper)
                near = np.abs(y_new - ribbon.predict(X_new)) <= half_width
                numbers[:] = [v.mean() for v in (inside, near, std, std > largest)]
        results[world, name] = found.mean(axis=0)

print("moved by                  ", *(f"{shift:5}" for shift in shifts))
for name in bases:
    coverage, constant, std, far = results["truth goes on straight", name].T
    rows = {"epistemic std": std, "called far away": far, "coverage": coverage}
    for what, values in rows.items():
        print(f"{name:8} {what:17}", *(f"{value:5.2f}" for value in values))

# %%
# If the truth continues straight, Ribbon's intervals keep their level. Intervals of
# constant width do not, most visibly around the network. If the truth bends, both fail:
# an interval reflects the parameters of its model, not whether the model is still
# right.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 2, figsize=(6, 5.6), sharex=True, sharey=True)
for ax, ((world, name), numbers) in zip(axes.flat, results.items(), strict=True):
    ax.plot(shifts, numbers[:, 0], "C0o-", lw=2, label="Ribbon")
    ax.plot(shifts, numbers[:, 1], "C1s--", lw=2, label="constant width")
    ax.axhline(0.9, color="0.3", ls=":", lw=1, label="90%")
    ax.set_title(f"{name}, {world}")
    ax.set(ylim=(0, 1.02))
axes[0, 0].legend(loc="lower left")
figure.supxlabel("new rows moved by, in standard deviations", fontsize="medium")
figure.supylabel("coverage of 90% intervals", fontsize="medium")
finding = "Ribbon keeps 90% as long as the truth goes on straight"
figure.suptitle(finding, x=0.01, ha="left", fontsize="medium", weight="bold")

# %%
# A column that is constant in the training data does not determine its coefficient.
# Without a penalty skribbon warns. With a penalty the coefficient is zero, so there is
# neither a warning nor a wider interval. The same holds for a new category that an
# encoder turns into zeros.
X, y = simulate(60, 0, rng)
X[:, 5] = 1.0
X_new = X.copy()
X_new[:, 5] = 4.0
for base in (LinearRegression(), Ridge(alpha=1.0)):
    ribbon = RibbonRegressor(base).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stds = [ribbon.predict_std(rows, "epistemic").mean() for rows in (X, X_new)]
    print(f"{base}: mean epistemic std {stds[0]:.2f}, of changed rows {stds[1]:.2f}")
    print("warnings:", [warning.category.__name__ for warning in caught])

# %%
# So compare ranges and categories of new rows with the training rows before you trust
# an interval.
#
# Next: a picture in one dimension, :ref:`sphx_glr_auto_examples_plot_network.py`.
