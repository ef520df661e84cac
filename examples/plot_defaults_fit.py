"""
What the defaults decide about the fit
======================================

How far can a network be trusted? How are the scores of few rows corrected? When does
tuning change a parameter? This page shows what the defaults decide.
:doc:`/appendix/defaults` has the rules and the data they were chosen on. For the noise
see :ref:`sphx_glr_auto_examples_plot_defaults_noise.py`.
"""

# %%
# **Held-out rows of a network.** A network with two hidden layers of 50 units, trained
# with scikit-learn's defaults, can memorize its rows. So skribbon refits it three
# times, each time without a fifth of the rows. ``held_out="loo"`` uses leave-one-out in
# closed form and makes no refits. It cannot show what the network has memorized, so its
# 90% intervals are too narrow, and ``fit`` warns.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.metrics import interval_coverage_score
from skribbon.plotting import ReliabilityDisplay

plt.style.use("skribbon.plotting.style")
rng = np.random.default_rng(0)
X, y = make_friedman1(2600, n_features=5, noise=1.0, random_state=0)
y = (y - y.mean()) / y.std()
X_test, y_test = X[1600:], y[1600:]
perceptron = MLPRegressor(hidden_layer_sizes=(50, 50), max_iter=500, random_state=0)
network = make_pipeline(StandardScaler(), perceptron)
sizes, found = (100, 200, 400, 800, 1600), {"auto": [], "loo": []}
styles = "C0o-", "C1s--"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of held_out="loo", and of Adam
    for n in sizes:
        for held_out, numbers in found.items():
            ribbon = RibbonRegressor(network, held_out=held_out).fit(X[:n], y[:n])
            interval = ribbon.predict_interval(X_test)
            best = 2 * np.quantile(np.abs(y_test - ribbon.predict(X_test)), 0.9)
            covered = interval_coverage_score(y_test, interval)
            numbers.append((covered, np.ptp(interval, axis=1).mean() / best))
for name, numbers in found.items():
    print(f"{name:5} covers", np.round([covered for covered, _ in numbers], 2))
figure, axes = plt.subplots(2, 1, figsize=(5.6, 5.8))
for k, ax in enumerate(axes):
    for (held_out, numbers), style in zip(found.items(), styles, strict=True):
        ax.plot(
            sizes, np.array(numbers)[:, k], style, lw=2, label=f'held_out="{held_out}"'
        )
    ax.axhline((0.9, 1.0)[k], color="0.3", ls=":", lw=1)
    ax.set(xlabel="training rows", xscale="log", xticks=sizes, xticklabels=sizes)
    ax.minorticks_off()
axes[0].set(ylabel="coverage of 90% intervals", ylim=(0, 1.02))
axes[0].set_title("With refits, coverage is near 90%")
axes[1].set(ylabel="width / best constant width", ylim=(0, None))
axes[0].legend(loc="lower right")

# %%
# **The correction.** Scores of fitted rows are too small. The plot shows how often 90%
# confidence intervals cover the true mean, for three features, normal noise and 100
# samples. The default is HC2 with Student's t quantiles. They allow for variances that
# are estimated from few rows.
sizes, corrections = (8, 12, 20, 40, 120), ("HC0", "auto")
covered, new = np.zeros((2, 5)), rng.standard_normal((20, 3))
for column, n in enumerate(sizes):
    for _ in range(100):
        X = rng.standard_normal((n, 3))
        y = X.sum(axis=1) + rng.standard_normal(n)
        for row, correction in enumerate(corrections):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some of 8 rows have leverage one
                ribbon = RibbonRegressor(correction=correction, noise="dof").fit(X, y)
            interval = ribbon.predict_interval(new, kind="confidence")
            covered[row, column] += interval_coverage_score(new.sum(axis=1), interval)
figure, ax = plt.subplots(figsize=(5.6, 3.4))
for name, share, style in zip(corrections, covered / 100, styles[::-1], strict=True):
    ax.plot(sizes, share, style, lw=2, label=f'correction="{name}"')
ax.axhline(0.9, color="0.3", ls=":", lw=1)
ax.set(xlabel="training rows", ylabel="coverage of the true mean", ylim=(0.5, 1))
ax.set(xscale="log", xticks=sizes, xticklabels=sizes)
ax.minorticks_off()
ax.set_title("HC2 and Student's quantiles cover 90% from 8 rows on")
ax.legend()

# %%
# **Alpha, when it is tuned.** The log score of held-out rows minus the log score at
# alpha = 1, for each fold and on average. Top, a ridge with 40 rows per feature: the
# score is flat, and alpha stays 1. Bottom, a ridge with two rows per feature: another
# alpha is better by more than one standard error, and RibbonCV uses it.
figure, axes = plt.subplots(2, 1, figsize=(5.6, 5.8))
for ax, d, n in zip(axes, (5, 60), (200, 120), strict=True):
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 2 * rng.standard_normal(n)
    tuned = RibbonCV(Ridge(alpha=1.0)).fit(X, y)
    results = tuned.cv_results_
    alphas, one = results["alpha"], np.argmin(np.abs(np.log(results["alpha"])))
    gains = np.array([-results[f"split{k}_test_nll"] for k in range(5)])
    gains -= gains[:, [one]]
    ax.plot(alphas, gains.T, color="0.7", lw=1, label=["one fold"] + [None] * 4)
    ax.plot(alphas, gains.mean(axis=0), "C0", lw=2, label="all folds")
    gain = np.interp(tuned.alpha_, alphas, gains.mean(axis=0))
    ax.plot(tuned.alpha_, gain, "C1D", ms=8, label="alpha_", zorder=3)
    ax.set_title(f"{n} rows, {d} features: alpha_ = {tuned.alpha_:.2g}")
    ax.set(xlabel="alpha", xscale="log", xlim=(0.01, 100), ylim=(-0.3, 0.15))
figure.supylabel("gain in held-out log score over alpha = 1", size="medium")
axes[0].legend(loc="lower right")

# %%
# **The temperature of a classifier.** A strong penalty makes a classifier
# underconfident. Averaging flattens its probabilities further; a temperature below one
# corrects them. The classifier has twenty features and 400 training rows; 4,000 rows
# check it.
X = rng.standard_normal((4400, 20))
y = rng.binomial(1, 1 / (1 + np.exp(-0.5 * X.sum(axis=1))))
X_train, X_test, y_train, y_test = X[:400], X[400:], y[:400], y[400:]
base = LogisticRegression(C=0.03)
plain = RibbonClassifier(base, temperature=1.0).fit(X_train, y_train)
tuned = RibbonClassifier(base).fit(X_train, y_train)
figure, ax = plt.subplots(figsize=(5.6, 4.8))
for ribbon, name in ((plain, "temperature 1"), (tuned, "auto")):
    options = {"name": name, "n_bins": 8, "ax": ax}
    ReliabilityDisplay.from_estimator(ribbon, X_test, y_test, **options)
ax.set_title(f"A temperature of {tuned.temperature_:.2f} removes the underconfidence")
