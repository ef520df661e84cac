"""
What the defaults decide about the fit
======================================

How far is a network trusted, how are the gradients of few rows corrected, and when is a parameter tuned away from its
default? The page :doc:`/defaults` has the rules and the data they were chosen on; for the noise see
:ref:`sphx_glr_auto_examples_plot_defaults_noise.py`.
"""

# %%
# **Held-out rows of a network.** A network with two hidden layers of 50 units, as scikit-learn trains it, can memorize
# its rows. So the default refits it three times, each time without a fifth of the rows. Leave-one-out in closed form,
# ``held_out="loo"``, makes no refits and warns: it cannot show what the network has memorized, and its 90% intervals
# are too narrow.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import RibbonWarning
from skribbon.metrics import interval_coverage_score
from skribbon.plotting import ReliabilityDisplay

plt.style.use("skribbon.plotting.style")
rng = np.random.default_rng(0)
X, y = make_friedman1(2600, n_features=5, noise=1.0, random_state=0)
y = (y - y.mean()) / y.std()
X_test, y_test = X[1600:], y[1600:]
network = make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(50, 50), max_iter=500, random_state=0))
sizes, found = (100, 200, 400, 800, 1600), {"auto": [], "loo": []}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RibbonWarning)  # of held_out="loo"
    warnings.simplefilter("ignore", ConvergenceWarning)
    for n in sizes:
        for held_out, numbers in found.items():
            ribbon = RibbonRegressor(network, held_out=held_out).fit(X[:n], y[:n])
            interval = ribbon.predict_interval(X_test)
            best = 2 * np.quantile(np.abs(y_test - ribbon.predict(X_test)), 0.9)
            numbers.append((interval_coverage_score(y_test, interval), np.ptp(interval, axis=1).mean() / best))
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.6))
for k, ax in enumerate(axes):
    for (held_out, numbers), style in zip(found.items(), ("C0o-", "C1s--"), strict=True):
        ax.plot(sizes, [own[k] for own in numbers], style, lw=2, label=f'held_out="{held_out}"')
    ax.axhline((0.9, 1.0)[k], color="0.3", ls=":", lw=1)
    ax.set(xlabel="training rows", xscale="log", xticks=sizes, xticklabels=sizes)
    ax.minorticks_off()
axes[0].set(ylabel="coverage of 90% intervals", ylim=(0, 1.02), title="With refits, coverage is near 90%")
axes[1].set(ylabel="width / best constant width", ylim=(0, None), title="Leave-one-out is too narrow")
axes[0].legend(loc="lower right")
for held_out, numbers in found.items():
    print(f"{held_out:5} covers", np.round([covered for covered, _ in numbers], 2))

# %%
# **The correction.** A row that was fitted has a gradient that is too small. Three features, normal noise, 100 samples:
# how often the 90% confidence interval holds the mean. The default is HC2 with Student's quantiles, which allow for
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
figure, ax = plt.subplots(figsize=(6.4, 3.4))
for correction, share, style in zip(corrections, held / 100, ("C1s--", "C0o-"), strict=True):
    ax.plot(sizes, share, style, lw=2, label=f'correction="{correction}"')
ax.axhline(0.9, color="0.3", ls=":", lw=1)
ax.set(xlabel="rows", ylabel="coverage of the true mean", xscale="log", xticks=sizes, xticklabels=sizes, ylim=(0.5, 1))
ax.minorticks_off()
ax.set_title("HC2 and Student's quantiles cover 90% from 8 rows on")
ax.legend()

# %%
# **Alpha, when it is tuned.** The log score of held-out rows relative to alpha = 1, of each fold and on average. Left,
# a ridge with 40 rows per feature: the score says nothing, and alpha stays 1, where confidence intervals have a
# meaning. Right, two rows per feature: another alpha is better by more than one standard error, and is taken.
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4))
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
    ax.set_title(f"{n} rows, {d} features: alpha_ = {tuned.alpha_:.2g}")
    ax.set(xlabel="alpha", xscale="log", xlim=(0.01, 100), ylim=(-0.3, 0.15))
axes[0].set_ylabel("log score of held-out rows\nabove that at alpha = 1")
axes[0].legend(loc="lower right")

# %%
# **The temperature of a classifier.** A strong penalty makes a classifier underconfident. Averaging flattens its
# probabilities further; a temperature below one corrects them. Twenty features, 400 rows to train on, 4,000 to check.
X = rng.standard_normal((4400, 20))
y = rng.binomial(1, 1 / (1 + np.exp(-0.5 * X.sum(axis=1))))
X_train, X_test, y_train, y_test = X[:400], X[400:], y[:400], y[400:]
base = LogisticRegression(C=0.03)
plain, tuned = (RibbonClassifier(base, temperature=t).fit(X_train, y_train) for t in (1.0, "auto"))
figure, ax = plt.subplots(figsize=(5.6, 4.8))
ReliabilityDisplay.from_estimator(plain, X_test, y_test, n_bins=8, name="temperature 1", ax=ax)
ReliabilityDisplay.from_estimator(tuned, X_test, y_test, n_bins=8, name=f"auto: {tuned.temperature_:.2f}", ax=ax)
