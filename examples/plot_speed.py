"""
Speed against refitting
=======================

How much time does one fit save? The Bayesian bootstrap refits the model a hundred times
with random Dirichlet weights. Ribbon replaces each refit by one linear step from a
single fit. The intervals are nearly the same.
"""

# %%
# The target has counts of 4,000 rows. The model is a Poisson regression on eight
# features, their squares and products.
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skribbon import RibbonRegressor
from skribbon.baselines import BayesianBootstrapRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(4000, 8))
y = rng.poisson(np.exp(0.5 + X[:, 0] - X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2))
poisson = PoissonRegressor(alpha=0.001, solver="newton-cholesky", tol=1e-8)
base = make_pipeline(PolynomialFeatures(2), poisson)


def timed(model):
    """Fit, and return the model and the seconds."""
    start = perf_counter()
    model.fit(X, y)
    return model, perf_counter() - start


# %%
# The same model with a single fit, and with a hundred refits.
base.fit(X, y)  # not timed: the first call loads libraries
_, base_seconds = timed(base)
ribbon, ribbon_seconds = timed(RibbonRegressor(base))
bootstrap = {"n_members": 100, "start": "scratch", "random_state": 0}
refits, refit_seconds = timed(BayesianBootstrapRegressor(base, **bootstrap))
print(f"base model {base_seconds:.3f} s, Ribbon {ribbon_seconds:.3f} s, ", end="")
print(f"100 refits {refit_seconds:.2f} s")

# %%
# Widths of 90% confidence intervals at new rows. Quantiles of a hundred refits are
# random. Ribbon's closed form corresponds to infinitely many refits.
X_new = rng.uniform(-1, 1, size=(300, 8))
by_ribbon, by_refits = (
    np.ptp(model.predict_interval(X_new, kind="confidence"), axis=1)
    for model in (ribbon, refits)
)
ratio = by_ribbon / by_refits
low, median, high = np.quantile(ratio, [0.05, 0.5, 0.95])
print(f"width by Ribbon / width by refits: median {median:.3f}, ", end="")
print(f"{low:.2f} to {high:.2f} for nine rows in ten")

# %%
# Top: seconds of a fit. Bottom: widths at all new rows.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 1, figsize=(5.6, 6), height_ratios=[1, 2])
names = "100 refits", "Ribbon", "base model alone"
seconds = refit_seconds, ribbon_seconds, base_seconds
bars = axes[0].barh(names, seconds, color=["C1", "C0", "0.55"], height=0.6)
axes[0].bar_label(bars, fmt="%.2g s", padding=4)
axes[0].set(xlabel="seconds of a fit", xlim=(0, 1.15 * refit_seconds))
axes[0].set_title(f"{refit_seconds / ribbon_seconds:.0f} times faster than 100 refits")
axes[1].plot(by_refits, by_ribbon, "C0o", ms=4, mew=0, alpha=0.6)
axes[1].axline((0, 0), slope=1, color="0.3", ls="--", lw=1.2, label="the same width")
axes[1].set(xlabel="width by 100 refits", ylabel="width by Ribbon")
axes[1].set_title("Nearly the same intervals")
axes[1].legend()

# %%
# Next: ``check_linearization`` measures how good the linear step is for your model,
# :ref:`sphx_glr_auto_examples_plot_network.py`.
