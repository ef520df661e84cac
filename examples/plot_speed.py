"""
Speed against refitting
=======================

What does it save? The Bayesian bootstrap refits the model a hundred times at random Dirichlet weights. Ribbon replaces
every refit by one linear step from a single fit, and the intervals are nearly the same.
"""

# %%
# Counts in 4000 rows, and a Poisson regression on eight features, their squares and products.
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
base = make_pipeline(PolynomialFeatures(2), PoissonRegressor(alpha=0.001, solver="newton-cholesky", tol=1e-8))


def timed(model):
    """The fitted model and the seconds of its fit."""
    start = perf_counter()
    model.fit(X, y)
    return model, perf_counter() - start


# %%
# The same model, once by a single fit and once by a hundred.
base.fit(X, y)  # the first call of all warms up
_, base_seconds = timed(base)
ribbon, ribbon_seconds = timed(RibbonRegressor(base))
refits, refit_seconds = timed(BayesianBootstrapRegressor(base, n_members=100, start="scratch", random_state=0))
print(f"base model {base_seconds:.3f} s, Ribbon {ribbon_seconds:.3f} s, 100 refits {refit_seconds:.2f} s: ", end="")
print(f"{refit_seconds / ribbon_seconds:.0f} times faster")

# %%
# Widths of 90% confidence intervals at new rows. A hundred members leave some noise in their own quantiles, Ribbon's
# closed form stands for infinitely many.
X_new = rng.uniform(-1, 1, size=(300, 8))
by_ribbon, by_refits = (np.ptp(model.predict_interval(X_new, kind="confidence"), axis=1) for model in (ribbon, refits))
ratio = by_ribbon / by_refits
print(f"width by Ribbon over width by refitting: median {np.median(ratio):.3f}, ", end="")
print(f"from {np.quantile(ratio, 0.05):.2f} to {np.quantile(ratio, 0.95):.2f} for nine rows in ten")

# %%
# Left: seconds of a fit. Right: the widths at every new row.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8))
seconds = {"100 refits": refit_seconds, "Ribbon": ribbon_seconds, "base model alone": base_seconds}
bars = axes[0].barh(list(seconds), list(seconds.values()), color=["C1", "C0", "0.55"], height=0.6)
axes[0].bar_label(bars, fmt="%.2g s", padding=4)
axes[0].set(xlabel="seconds of a fit", xlim=(0, 1.15 * refit_seconds))
axes[0].set_title(f"{refit_seconds / ribbon_seconds:.0f} times faster than 100 refits")
axes[1].plot(by_refits, by_ribbon, "C0o", ms=4, mew=0, alpha=0.6)
axes[1].axline((0, 0), slope=1, color="0.3", ls="--", lw=1.2, label="the same width")
axes[1].set(xlabel="width by 100 refits", ylabel="width by Ribbon", title="Nearly the same intervals")
axes[1].legend()

# %%
# Next: how good the linear step is for a model of yours, ``check_linearization`` says at the price of a few refits,
# :ref:`sphx_glr_auto_examples_plot_network.py`.
