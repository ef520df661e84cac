"""
What the defaults decide about the fit
======================================

How far is a network trusted, how are the gradients of few rows corrected, and when is a parameter tuned away from its
default? The page :doc:`/defaults` has the rules and the data they were chosen on; for the noise see
:ref:`sphx_glr_auto_examples_plot_defaults_noise.py`.
"""

# %%
# **The damping of a network.** A network of 701 parameters, as scikit-learn trains it, on 300 rows: 1,000 other rows
# tell how the 90 % intervals do as the damping grows and fewer parameters count. With next to none they are several
# times too wide. The default adds the smallest one that leaves 0.25 effective parameters per row, and warns;
# ``RibbonCV`` asks held-out rows, for alpha and the law of the noise as well, and so may leave the curve.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import RibbonWarning
from skribbon.metrics import interval_coverage_score
from skribbon.plotting import ReliabilityDisplay

plt.rc("axes.spines", top=False, right=False)
plt.rc("legend", frameon=False)
rng = np.random.default_rng(0)
X, y = make_friedman1(1300, n_features=5, noise=1.0, random_state=0)
y = (y - y[:300].mean()) / y[:300].std()
X_train, X_test, y_train, y_test = X[:300], X[300:], y[:300], y[300:]
network = make_pipeline(StandardScaler(), MLPRegressor(max_iter=1000, random_state=0)).fit(X_train, y_train)
error = y_test - network.predict(X_test)
best_width = np.ptp(np.quantile(error, [0.05, 0.95]))


def measured(ribbon):
    interval = ribbon.predict_interval(X_test)
    width = np.ptp(interval, axis=1).mean() / best_width
    return ribbon.effective_parameters_ / 300, interval_coverage_score(y_test, interval), width


fitted, path = FrozenEstimator(network), []
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RibbonWarning)  # all of them speak of what the picture shows
    for damping in np.logspace(-4, 1, 7):
        path.append(measured(RibbonRegressor(fitted, damping=damping).fit(X_train, y_train)))
    chosen = {"default": RibbonRegressor(fitted).fit(X_train, y_train)}
    chosen["RibbonCV"] = RibbonCV(network).fit(X_train, y_train).estimator_
    chosen = {name: (ribbon.curvature_.damping, *measured(ribbon)) for name, ribbon in chosen.items()}
per_row, coverage, width = np.transpose(path)
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.6), sharex=True, layout="constrained")
for ax, values, k in zip(axes, (coverage, width), (1, 2), strict=True):
    ax.plot(per_row, values, "0.5", lw=1.5)
    for (name, (_, *numbers)), marker in zip(chosen.items(), ("C0o", "C1D"), strict=True):
        ax.plot(numbers[0], numbers[k], marker, ms=8, label=name)
    ax.axhline((0.9, 1.0)[k - 1], color="0.3", ls=":", lw=1)
    ax.set(xlabel="effective parameters per row")
axes[0].set(ylabel="coverage of 90 % intervals", ylim=(0.5, 1.02))
axes[1].set(ylabel="width / best constant width", yscale="log")
axes[1].legend(loc="upper left")
for name, (damping, _, covered, wide) in chosen.items():
    print(f"{name:9} damping {damping:.2g}: covers {covered:.3f}, width {wide:.2f}")

# %%
# **The correction.** A row that was fitted has a gradient that is too small. Three features, normal noise, 100 samples:
# how often the 90 % confidence interval holds the mean. The default is HC2 with Student's quantiles, which allow for
# variances that are known from few rows.
sizes, corrections = (8, 12, 20, 40, 120), ("HC0", "auto")
held = np.zeros((len(corrections), len(sizes)))
new = rng.standard_normal((20, 3))
for column, n in enumerate(sizes):
    for _ in range(100):
        X = rng.standard_normal((n, 3))
        y = X.sum(axis=1) + rng.standard_normal(n)
        for row, correction in enumerate(corrections):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # eight rows may determine themselves
                ribbon = RibbonRegressor(correction=correction, noise="dof").fit(X, y)
            interval = ribbon.predict_interval(new, kind="confidence")
            held[row, column] += interval_coverage_score(new.sum(axis=1), interval)
figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for correction, share, style in zip(corrections, held / 100, ("C1s--", "C0o-"), strict=True):
    ax.plot(sizes, share, style, lw=2, label=f'correction="{correction}"')
ax.axhline(0.9, color="0.3", ls=":", lw=1)
ax.set(xlabel="rows", ylabel="coverage of the true mean", xscale="log", xticks=sizes, xticklabels=sizes, ylim=(0.5, 1))
ax.minorticks_off()
ax.legend()

# %%
# **Alpha, when it is tuned.** The log score of held-out rows relative to alpha = 1, of each fold and on average. Left,
# a ridge with 40 rows per feature: the score says nothing, and alpha stays 1, where confidence intervals have a
# meaning. Right, two rows per feature: another alpha is better by more than one standard error, and is taken.
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
for ax, d, n in zip(axes, (5, 60), (200, 120), strict=True):
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 2 * rng.standard_normal(n)
    tuned = RibbonCV(Ridge(alpha=1.0)).fit(X, y)
    results = tuned.cv_results_
    alphas, one = results["alpha"], np.argmin(np.abs(np.log(results["alpha"])))
    splits = np.array([-results[f"split{k}_test_nll"] for k in range(5)])
    gains = splits - splits[:, [one]]
    ax.plot(alphas, gains.T, color="0.7", lw=1, label=["one fold"] + [None] * 4)
    ax.plot(alphas, gains.mean(axis=0), "C0", lw=2, label="all folds")
    ax.plot(tuned.alpha_, np.interp(tuned.alpha_, alphas, gains.mean(axis=0)), "C1D", ms=8, label="alpha_", zorder=3)
    ax.set_title(f"{n} rows, {d} features: alpha_ = {tuned.alpha_:.2g}", loc="left", fontsize="medium")
    ax.set(xlabel="alpha", xscale="log", xlim=(0.01, 100), ylim=(-0.3, 0.15))
axes[0].set_ylabel("log score of held-out rows\nabove that at alpha = 1")
axes[0].legend(loc="lower right")

# %%
# **The temperature of a classifier, when it is tuned.** A strong penalty makes a classifier less sure than it could be,
# and no alpha can make it surer; a temperature below one can. Twenty features, 400 rows to train on, 4,000 to check.
X = rng.standard_normal((4400, 20))
y = rng.binomial(1, 1 / (1 + np.exp(-0.5 * X.sum(axis=1))))
X_train, X_test, y_train, y_test = X[:400], X[400:], y[:400], y[400:]
base = LogisticRegression(C=0.03)
plain, tuned = RibbonClassifier(base).fit(X_train, y_train), RibbonCV(base).fit(X_train, y_train)
figure, ax = plt.subplots(figsize=(5.6, 4.8), layout="constrained")
ReliabilityDisplay.from_estimator(plain, X_test, y_test, n_bins=8, name="temperature 1", ax=ax)
ReliabilityDisplay.from_estimator(tuned, X_test, y_test, n_bins=8, name=f"RibbonCV: {tuned.temperature_:.2f}", ax=ax)
