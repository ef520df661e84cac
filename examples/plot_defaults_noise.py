"""
What the defaults decide about the noise
========================================

How large is the noise, and which distribution does it have? The defaults estimate both
from the training rows. They keep the simplest option unless another one is clearly
better. :doc:`/appendix/defaults` has the rules and the data they were chosen on.
"""

# %%
# **The scale of the noise** may depend on x if that improves the score of held-out
# rows. Top, the noise grows with x, and the default band is close to the band that
# contains 90% of the observations. Bottom, the noise is the same everywhere, and the
# default equals ``noise="dof"``.
import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor

plt.style.use("skribbon.plotting.style")
rng = np.random.default_rng(0)
line = np.linspace(-1, 1, 200)[:, None]
figure, axes = plt.subplots(2, 1, figsize=(5.6, 6), sharex=True, sharey=True)
titles = "The band grows with the noise", "Constant noise, constant width"
for ax, slope, title in zip(axes, (1.2, 0.0), titles, strict=True):
    X = rng.uniform(-1, 1, size=(200, 1))
    y = X[:, 0] + np.exp(slope * X[:, 0]) * rng.standard_normal(200)
    by_default = RibbonRegressor().fit(X, y)
    constant = RibbonRegressor(noise="dof").fit(X, y)
    ax.plot(X, y, ".", color="0.6", ms=4)
    band = by_default.predict_interval(line).T
    ax.fill_between(line[:, 0], *band, color="C0", alpha=0.3, lw=0, label="default")
    bounds = constant.predict_interval(line)
    ax.plot(line, bounds, "C1", lw=1.5, label=['noise="dof"', None])
    truth = line + 1.645 * np.exp(slope * line) * [-1, 1]
    ax.plot(line, truth, "k--", lw=1.2, label=["truth", None])
    ax.set_title(title)
    ax.set(xticks=[-1, -0.5, 0, 0.5, 1], ylabel="y", ylim=(-7, 9))
    print(f"{title}: shrinkage_ {by_default.noise_.shrinkage_:.1f}")
axes[1].set_xlabel("x")
axes[0].legend(loc="upper left", title="90% intervals")

# %%
# **The distribution of the noise** is normal unless Student's t or the held-out
# residuals themselves explain held-out rows better by one standard error. The plots
# show the density of a new observation around its prediction, for three linear models
# with 200 rows each.
figure, axes = plt.subplots(3, 1, figsize=(5.6, 7), sharex=True)
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
    return sum(normal(at=at, centre=centre, std=0.5) for centre in (-1.5, 1.5)) / 2


for ax, noise in zip(axes, (normal, lognormal, bimodal), strict=True):
    X = rng.standard_normal((200, 3))
    y = X.sum(axis=1) + noise(200)
    for law, style, width in (("auto", "C0", 2), ("normal", "C1", 1.5)):
        ribbon = RibbonRegressor(law=law).fit(X, y)
        same_row = np.repeat(X[:1], len(z), axis=0)
        density = ribbon.log_density(same_row, ribbon.predict(X[:1]) + z)
        ax.plot(z, np.exp(density), style, lw=width, label=f'law="{law}"')
        if law == "auto":
            ax.set_title(f"{noise.__name__}: law_ is {ribbon.law_.name}")
    ax.plot(z, noise(at=z), "k--", lw=1.2, label="truth")
    ax.set_ylim(0, None)
axes[2].set_xlabel("observation - prediction")
axes[1].set_ylabel("density of a new observation")
axes[1].legend(loc="upper right")

# %%
# Next: what the defaults decide about the fit,
# :ref:`sphx_glr_auto_examples_plot_defaults_fit.py`; more about noise that depends on
# x, :ref:`sphx_glr_auto_examples_plot_heteroskedastic.py`.
