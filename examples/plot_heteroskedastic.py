"""
Unequal and skewed noise
========================

What if some rows are noisier than others, or the noise is skewed? Ribbon's covariance
is robust to unequal noise, and the default noise model learns how the noise depends on
x and which distribution it has.
"""

# %%
# A straight line whose noise grows from 0.1 in the middle to 2.1 at both ends.
import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor
from skribbon.baselines import LaplaceRegressor


def noise_at(x):
    return 0.1 + 2 * x**2


def simulate(n, rng):
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, 1 + X[:, 0] + noise_at(X[:, 0]) * rng.standard_normal(n)


# %%
# **Confidence intervals.** How often does the 90% confidence interval contain the true
# mean? We count in 600 samples of 200 rows. The Laplace approximation assumes equal
# noise and covers too rarely at the ends. Ribbon's sandwich covariance makes no such
# assumption. (``noise="dof"`` is the fastest noise model; confidence intervals do not
# use it.)
rng = np.random.default_rng(0)
grid, repetitions = np.linspace(-1, 1, 21)[:, None], 600
covered = {"Ribbon": np.zeros(21), "Laplace": np.zeros(21)}
for _ in range(repetitions):
    X, y = simulate(200, rng)
    fits = {"Ribbon": RibbonRegressor(noise="dof"), "Laplace": LaplaceRegressor()}
    for name, model in fits.items():
        lower, upper = model.fit(X, y).predict_interval(grid, kind="confidence").T
        covered[name] += (lower <= 1 + grid[:, 0]) & (1 + grid[:, 0] <= upper)

plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(5.6, 3.4))
for (name, counts), style in zip(covered.items(), ("C0-", "C1--"), strict=True):
    share = 100 * counts / repetitions
    print(f"{name:8} covers the mean at x = -1, 0, 1: {(share[[0, 10, 20]]).round(1)}%")
    ax.plot(grid, share, style, lw=2)
    ax.text(1.02, share[-1], name, color=style[:2], va="center")
ax.axhline(90, color="0.3", ls=":", lw=1)
ax.text(-1, 90.4, "90% is right", color="0.3", fontsize="small", va="bottom")
ax.set(xlabel="x", xlim=(-1.02, 1.32), xticks=[-1, 0, 1])
ax.set(ylabel="coverage of the true mean (%)", ylim=(70, 100))
ax.set_title("Ribbon stays near 90%; Laplace falls to 75%")

# %%
# **Prediction intervals.** They need the noise itself. By default the noise depends on
# x if that improves the fit to left-out rows, here by boosted trees. ``noise="dof"``
# estimates one number for all rows.
X, y = simulate(1000, rng)
X_new, y_new = simulate(4000, rng)
models = {
    'noise="dof"': RibbonRegressor(noise="dof").fit(X, y),
    "default noise": RibbonRegressor().fit(X, y),
}
middle = np.abs(X_new[:, 0]) < 0.5
print("covered         all   middle     ends   mean width")
figure, axes = plt.subplots(2, 1, figsize=(5.6, 5.6), sharex=True, sharey=True)
line = np.linspace(-1, 1, 300)[:, None]
for ax, (name, ribbon) in zip(axes, models.items(), strict=True):
    lower, upper = ribbon.predict_interval(X_new).T
    inside = (lower <= y_new) & (y_new <= upper)
    parts = inside.mean(), inside[middle].mean(), inside[~middle].mean()
    shares = "  ".join(f"{part:7.1%}" for part in parts)
    print(f"{name:13}  {shares}  {np.mean(upper - lower):10.2f}")
    ax.plot(X_new[:300, 0], y_new[:300], ".", color="0.5", ms=3)
    band = ribbon.predict_interval(line).T
    ax.fill_between(line[:, 0], *band, color="C0", alpha=0.3, lw=0)
    ax.plot(line, 1 + line + 1.645 * noise_at(line) * [-1, 1], "k--", lw=1.2)
    ax.set(ylabel="y", ylim=(-5, 7))
    covers = f"covers {parts[1]:.0%} in the middle, {parts[2]:.0%} at the ends"
    ax.set_title(f"{name} {covers}")
axes[0].text(0, 3.2, "90% interval", color="C0", ha="center")
axes[0].text(-0.62, 4.2, "true 5% and 95% quantiles (dashed)", fontsize="small")
axes[1].set_xlabel("x")


# %%
# **Skewed noise.** Amounts of money are often skewed. A normal interval is then too
# long below and misses above.
def amounts(n):
    X = rng.uniform(0, 1, size=(n, 3))
    return X, 10 + X @ [5.0, 3.0, 0.0] + rng.lognormal(0, 1, n)


(X, y), (X_new, y_new) = amounts(800), amounts(20_000)
laws = {
    'law="normal"': RibbonRegressor(noise="dof", law="normal").fit(X, y),
    "default": RibbonRegressor().fit(X, y),
}
grid, styles = np.linspace(10, 24, 400), ("C1--", "C0-")
figure, ax = plt.subplots(figsize=(5.6, 3.4))
sample, bins = 14 + rng.lognormal(0, 1, 20_000), np.linspace(10, 24, 141)
ax.hist(sample, bins=bins, density=True, color="0.85")
places = (17.2, 0.17), (15.0, 0.55)
print("missed       below   above (5% each is right)")
for (name, ribbon), style, where in zip(laws.items(), styles, places, strict=True):
    lower, upper = ribbon.predict_interval(X_new).T
    print(f"{name:12} {np.mean(y_new < lower):5.1%} {np.mean(y_new > upper):7.1%}")
    density = ribbon.predict_distribution(np.full((400, 3), 0.5)).logpdf(grid)
    ax.plot(grid, np.exp(density), style, lw=2)
    ax.text(*where, name, color=style[:2])
ax.text(19.2, 0.06, "observations at the same x", color="0.4", fontsize="small")
ax.set(xlabel="amount", ylabel="density of a new observation", xlim=(10, 24))
ax.set_title("The default learns the skewed noise")
plt.show()

# %%
# Next: a model with its noise as a second output,
# :ref:`sphx_glr_auto_examples_plot_own_model.py`; counts, whose noise grows with the
# mean, :ref:`sphx_glr_auto_examples_plot_poisson_claims.py`.
