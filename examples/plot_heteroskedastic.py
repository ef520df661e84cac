"""
Noise that depends on x
=======================

What if some rows are noisier than others? The Laplace approximation, like the textbook formula, assumes the same noise
in every row, and its intervals for the mean are then too narrow or too wide. Ribbon's sandwich covariance makes no such
assumption.
"""

# %%
# A straight line whose noise grows from 0.1 in the middle to 2.1 at both ends.
import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor
from skribbon.baselines import LaplaceRegressor
from skribbon.plotting import IntervalDisplay


def noise_at(x):
    return 0.1 + 2 * x**2


def simulate(n, rng):
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, 1 + X[:, 0] + noise_at(X[:, 0]) * rng.standard_normal(n)


# %%
# In 600 repetitions with 200 rows, how often does the 90% confidence interval hold the true mean? Laplace's misses it
# about twice as often as it should at the ends, where the noise is large and the slope is decided. The width of a
# confidence interval does not depend on ``noise``, and a constant is the quickest.
rng = np.random.default_rng(0)
grid, repetitions = np.linspace(-1, 1, 21)[:, None], 600
covered = {"Ribbon": np.zeros(21), "Laplace": np.zeros(21)}
for _ in range(repetitions):
    X, y = simulate(200, rng)
    for name, model in (("Ribbon", RibbonRegressor(noise="dof")), ("Laplace", LaplaceRegressor())):
        lower, upper = model.fit(X, y).predict_interval(grid, kind="confidence").T
        covered[name] += (lower <= 1 + grid[:, 0]) & (1 + grid[:, 0] <= upper)

plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(6.4, 3.4))
for (name, counts), style in zip(covered.items(), ("C0-", "C1--"), strict=True):
    print(f"{name:8} covers the mean at x = -1, 0, 1: {(counts[[0, 10, 20]] / repetitions).round(3)}")
    ax.plot(grid, counts / repetitions, style, lw=2, label=name)
ax.axhline(0.9, color="0.3", ls=":", lw=1, label="90%")
ax.set(xlabel="x", ylabel="coverage of the true mean", ylim=(0.7, 1))
ax.set_title("Ribbon covers the mean in about 90%; Laplace falls to 75% at the ends")
ax.legend(ncols=3)

# %%
# Prediction intervals need the noise itself. By default it follows x as far as the data ask for, here by boosted trees;
# ``noise="dof"`` keeps it at one number, which is right on average only.
X, y = simulate(1000, rng)
X_new, y_new = simulate(4000, rng)
by_noise = {"constant": RibbonRegressor(noise="dof").fit(X, y), "default": RibbonRegressor().fit(X, y)}
middle = np.abs(X_new[:, 0]) < 0.5
print("noise             coverage: all   middle   ends   mean width")
for name, ribbon in by_noise.items():
    lower, upper = ribbon.predict_interval(X_new).T
    inside = (lower <= y_new) & (y_new <= upper)
    print(f"{name:16} {inside.mean():14.3f} {inside[middle].mean():8.3f} {inside[~middle].mean():6.3f} ", end="")
    print(f"{np.mean(upper - lower):12.2f}")

# %%
# Both noise models with some of the new observations. Between the dashed lines lie 90% of them in truth.
figure, axes = plt.subplots(1, 2, figsize=(8.5, 4), sharey=True)
line = np.linspace(-1, 1, 300)
bounds = 1 + line[:, None] + 1.645 * noise_at(line)[:, None] * [-1, 1]
for ax, (name, ribbon) in zip(axes, by_noise.items(), strict=True):
    IntervalDisplay.from_estimator(ribbon, X_new[:300], y_new[:300], name=f"noise: {name}", ax=ax)
    ax.plot(line, bounds, "k--", lw=1.2, label=["truth", None])
    ax.legend(loc="upper center", ncols=2, fontsize="small")
    ax.set(xlabel="x", ylabel="y" if name == "constant" else None, ylim=(-5, 11))

# %%
# Next: a model that has its noise as a second output, :ref:`sphx_glr_auto_examples_plot_own_model.py`; counts, whose
# noise grows with the mean, :ref:`sphx_glr_auto_examples_plot_poisson_claims.py`.
