"""
What the defaults decide about the noise
========================================

What are the scale and the shape of the noise? You need not say: the training rows decide, by rules that keep the
simplest answer unless another one is clearly better. The page :doc:`/defaults` has the rules and the data they were
chosen on.
"""

# %%
# **The scale of the noise.** It may depend on x, where that pays at rows that were left out. Left, it does, and the
# default finds the band that holds 90% of the observations in truth. Right, the noise is the same everywhere, and the
# default is the constant that ``noise="dof"`` is.
import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor

plt.style.use("skribbon.plotting.style")
rng = np.random.default_rng(0)
line = np.linspace(-1, 1, 200)[:, None]
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8), sharey=True)
for ax, slope, title in zip(axes, (1.2, 0.0), ("noise grows with x", "the same noise everywhere"), strict=True):
    X = rng.uniform(-1, 1, size=(200, 1))
    y = X[:, 0] + np.exp(slope * X[:, 0]) * rng.standard_normal(200)
    by_default, constant = RibbonRegressor().fit(X, y), RibbonRegressor(noise="dof").fit(X, y)
    ax.plot(X, y, ".", color="0.6", ms=4)
    ax.fill_between(line[:, 0], *by_default.predict_interval(line).T, color="C0", alpha=0.3, lw=0, label="default")
    ax.plot(line, constant.predict_interval(line), "C1", lw=1.5, label=['noise="dof"', None])
    truth = line + 1.645 * np.exp(slope * line) * [-1, 1]
    ax.plot(line, truth, "k--", lw=1.2, label=["truth", None])
    ax.set_title(title)
    ax.set(xlabel="x", xticks=[-1, -0.5, 0, 0.5, 1], ylim=(-7, 9))
    print(f"{title}: shrinkage_ {by_default.noise_.shrinkage_:.1f}")
axes[0].set_ylabel("y")
axes[0].legend(loc="upper left", title="90% intervals")

# %%
# **The law of the noise.** Normal, unless Student's law or the leave-one-out residuals themselves explain held-out rows
# better by a standard error. Three linear models with 200 rows each, and the density of a new observation around its
# prediction.
figure, axes = plt.subplots(1, 3, figsize=(8.5, 3.2), sharex=True)
z = np.linspace(-4, 6, 300)


def lognormal(size=None, at=None):
    if at is None:
        return np.exp(rng.standard_normal(size)) - np.exp(0.5)
    x = np.maximum(at + np.exp(0.5), 1e-9)
    return np.exp(-(np.log(x) ** 2) / 2) / x / np.sqrt(2 * np.pi)


def normal(size=None, at=None, centre=0.0, std=1.0):
    if at is None:
        return centre + std * rng.standard_normal(size)
    return np.exp(-(((at - centre) / std) ** 2) / 2) / std / np.sqrt(2 * np.pi)


def bimodal(size=None, at=None):
    if at is None:
        return rng.choice([-1.5, 1.5], size) + normal(size, std=0.5)
    return (normal(at=at, centre=-1.5, std=0.5) + normal(at=at, centre=1.5, std=0.5)) / 2


for ax, noise in zip(axes, (normal, lognormal, bimodal), strict=True):
    X = rng.standard_normal((200, 3))
    y = X.sum(axis=1) + noise(200)
    by_default, before = RibbonRegressor().fit(X, y), RibbonRegressor(law="normal").fit(X, y)
    centre = by_default.predict(X[:1])
    for ribbon, style, name in ((by_default, "C0", "default"), (before, "C1", 'law="normal"')):
        density = np.exp(ribbon.log_density(np.repeat(X[:1], len(z), axis=0), centre + z))
        ax.plot(z, density, style, lw=2 if name == "default" else 1.5, label=name)
    ax.plot(z, noise(at=z), "k--", lw=1.2, label="truth")
    ax.set_title(f"{noise.__name__}: law_ is {by_default.law_.name}")
    ax.set(xlabel="observation - prediction", ylim=(0, None))
axes[0].set_ylabel("density")
axes[1].legend(loc="upper right")

# %%
# Next: what the defaults decide about the fit, :ref:`sphx_glr_auto_examples_plot_defaults_fit.py`; and noise that
# depends on x at length, :ref:`sphx_glr_auto_examples_plot_heteroskedastic.py`.
