"""
Noise that depends on x
=======================

The Laplace approximation, like the textbook formula, takes the noise to be the same in every row. Where it is not, its
intervals of the mean promise too much or too little. Ribbon's sandwich covariance asks for no such thing.
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
# In 1000 repetitions with 200 rows, how often does the 90 % confidence interval hold the true mean? Laplace's misses it
# about twice as often as it should at the ends, where the noise is large and the slope is decided.
rng = np.random.default_rng(0)
grid = np.linspace(-1, 1, 41)[:, None]
covered = {"Ribbon": np.zeros(41), "Laplace": np.zeros(41)}
for _ in range(1000):
    X, y = simulate(200, rng)
    for name, model in (("Ribbon", RibbonRegressor()), ("Laplace", LaplaceRegressor())):
        lower, upper = model.fit(X, y).predict_interval(grid, kind="confidence").T
        covered[name] += (lower <= 1 + grid[:, 0]) & (1 + grid[:, 0] <= upper)
for name, counts in covered.items():
    print(f"{name:8} covers the mean at x = -1, 0, 1: {counts[[0, 20, 40]] / 1000}")

# %%
# Prediction intervals need the noise itself. By default it is one number, right on average only;
# ``noise="heteroskedastic"`` lets it follow x as far as the data ask for.
X, y = simulate(1000, rng)
X_new, y_new = simulate(4000, rng)
by_noise = {"constant": RibbonRegressor().fit(X, y)}
by_noise["heteroskedastic"] = RibbonRegressor(noise="heteroskedastic").fit(X, y)
middle = np.abs(X_new[:, 0]) < 0.5
for name, ribbon in by_noise.items():
    lower, upper = ribbon.predict_interval(X_new).T
    inside = (lower <= y_new) & (y_new <= upper)
    print(f"{name:16} coverage: all {inside.mean():.3f}, middle {inside[middle].mean():.3f}, ", end="")
    print(f"ends {inside[~middle].mean():.3f}, mean width {np.mean(upper - lower):.2f}")

# %%
# Left: coverage of the mean along x, with the level dotted. Middle and right: the two noise models with some of the new
# observations; between the dashed lines lie 90 % of them in truth.
figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
for (name, counts), colour, dashes in zip(covered.items(), ("#0072B2", "#D55E00"), ("-", "--"), strict=True):
    axes[0].plot(grid, counts / 1000, color=colour, ls=dashes, lw=2, label=name)
axes[0].axhline(0.9, color="#4D4D4D", ls=":", lw=1)
axes[0].set(xlabel="x", ylabel="coverage of the true mean", ylim=(0.7, 1))
axes[0].set_title("90 % confidence intervals", loc="left", fontsize="medium")
axes[0].spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False, loc="upper right")
line = np.linspace(-1, 1, 300)
bounds = 1 + line[:, None] + 1.645 * noise_at(line)[:, None] * [-1, 1]
for ax, (name, ribbon) in zip(axes[1:], by_noise.items(), strict=True):
    IntervalDisplay.from_estimator(ribbon, X_new[:300], y_new[:300], name=f"noise: {name}", ax=ax)
    ax.plot(line, bounds, color="#000000", lw=1.2, ls="--", label=["truth", None])
    ax.legend(frameon=False, loc="upper center", ncols=2, fontsize="small")
    ax.set(xlabel="x", ylim=(-5, 11))
axes[2].set_ylabel("")
