"""
Tuning alpha
============

``alpha`` scales the epistemic part of every interval. :class:`~skribbon.RibbonCV` scores the whole path of alphas from
one fit per fold; :class:`~sklearn.model_selection.GridSearchCV` reaches the same choice by refitting, and can search
the base model's own parameters at the same time.
"""

# %%
# A small network on few rows, where parameter uncertainty matters.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonCV, RibbonRegressor
from skribbon.metrics import interval_coverage_score, make_interval_scorer, nll_scorer

rng = np.random.default_rng(1)
X = rng.uniform(-3, 3, size=(400, 1))
y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(400)
X_train, X_test, y_train, y_test = X[:80], X[80:], y[:80], y[80:]
network = MLPRegressor(
    hidden_layer_sizes=(12,), activation="tanh", solver="lbfgs", alpha=0.01, max_iter=5000, random_state=0
)

# %%
# RibbonCV picks the alpha whose held-out coverage is nearest to the level.
tuned = RibbonCV(make_pipeline(StandardScaler(), network), confidence_level=0.9).fit(X_train, y_train)
coverage = interval_coverage_score(y_test, tuned.predict_interval(X_test))
print(f"alpha = {tuned.alpha_:.3g}, coverage of new rows {coverage:.3f}")

# %%
# The path: coverage falls and intervals narrow as alpha grows; the choice is marked.
path = tuned.cv_results_
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for ax, metric in zip(axes, ("coverage", "nll"), strict=True):
    ax.semilogx(path["alpha"], path[f"mean_test_{metric}"], color="#0072B2", lw=2)
    ax.axvline(tuned.alpha_, color="#D55E00", ls="--", lw=1.2, label=f"alpha = {tuned.alpha_:.2g}")
    ax.set(xlabel="alpha", ylabel=f"held-out {metric}")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].axhline(0.9, color="0.6", lw=1)
axes[0].legend(frameon=False)

# %%
# The same with GridSearchCV, over alpha and over the ridge penalty, with two scores at once.
grid = {"alpha": [0.1, 1.0, 10.0], "estimator__alpha": [0.1, 1.0, 10.0]}
scoring = {"nll": nll_scorer, "coverage": make_interval_scorer("coverage", confidence_level=0.9)}
search = GridSearchCV(RibbonRegressor(Ridge()), grid, scoring=scoring, refit="nll").fit(X_train, y_train)
print(search.best_params_)

# %%
# Weight decay without refits: the leave-one-out score of a single fit ranks base models.
for decay in (0.001, 0.01, 0.1, 1.0):
    network.set_params(alpha=decay)
    score = RibbonRegressor(network, store_loo=True).fit(X_train, y_train).loo_score_
    print(f"decay {decay:5g}: leave-one-out log score {score:.3f}")
