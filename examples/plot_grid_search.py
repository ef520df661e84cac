"""
Alpha by grid search and by RibbonCV
====================================

Does :class:`~sklearn.model_selection.GridSearchCV` work with a Ribbon? Yes, if the
score depends on the intervals. To tune alpha alone, :class:`~skribbon.RibbonCV`
computes the same scores faster, because alpha only scales the covariance. To tune
parameters of the base model, use a grid search, which can contain RibbonCV.
"""

# %%
# With few rows and many features, the uncertainty of the parameters determines the
# width of the intervals.
from time import perf_counter

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold

from skribbon import RibbonCV, RibbonRegressor
from skribbon.metrics import neg_nll_scorer
from skribbon.plotting import AlphaPathDisplay

rng = np.random.default_rng(0)
X = rng.standard_normal((2120, 60))
y = X @ rng.standard_normal(60) + 2 * rng.standard_normal(2120)
X_train, X_test, y_train, y_test = X[:120], X[120:], y[:120], y[120:]
alphas, folds = np.logspace(-2, 2, 41), KFold(5, shuffle=True, random_state=0)
ribbon = RibbonRegressor(Ridge(alpha=1.0))


def timed(search):
    """Fit, and return the seconds."""
    start = perf_counter()
    search.fit(X_train, y_train)
    return perf_counter() - start


# %%
# R², the default score of a regressor, depends only on predictions. Alpha does not
# change them, so all alphas tie. The scorers of :mod:`skribbon.metrics` depend on
# intervals or densities.
scoring = {"nll": neg_nll_scorer, "r2": "r2"}
grid = {"alpha": alphas}
search = GridSearchCV(ribbon, grid, scoring=scoring, refit="nll", cv=folds)
search_seconds = timed(search)
spread = np.ptp(search.cv_results_["mean_test_r2"])
print(f"spread of R² over all alphas: {spread:.1e}")

# %%
# RibbonCV with the same folds and alphas computes the same scores in a fraction of the
# time. It chooses the same alpha, which is better than alpha = 1 by more than one
# standard error. Otherwise RibbonCV would keep alpha = 1.
tuned = RibbonCV(ribbon, alphas=alphas, scoring="nll", cv=folds)
tuned_seconds = timed(tuned)
by_search = search.cv_results_["mean_test_nll"]
by_ribbon = tuned.cv_results_["mean_test_nll"]
difference = np.abs(by_search + by_ribbon).max()  # scorers are negated
print(f"alpha by GridSearchCV {search.best_params_['alpha']:.3f}, ", end="")
print(f"by RibbonCV {tuned.alpha_:.3f}")
print(f"largest difference of their scores {difference:.1e}")
print(f"GridSearchCV {search_seconds:.2f} s, RibbonCV {tuned_seconds:.3f} s: ", end="")
print(f"{search_seconds / tuned_seconds:.0f} times faster")

# %%
# The path of RibbonCV. The black circles are scores of the grid search.
display = AlphaPathDisplay.from_estimator(tuned, metrics=["nll", "coverage"])
display.ax_[0].plot(alphas[::4], -by_search[::4], "ko", mfc="none")

# %%
# To tune the ridge penalty as well, put RibbonCV inside GridSearchCV. The penalty then
# has two levels of ``estimator__``.
penalties = {"estimator__estimator__alpha": np.logspace(-1, 2, 7)}
both = GridSearchCV(tuned, penalties, scoring=neg_nll_scorer, cv=folds)
best = both.fit(X_train, y_train).best_estimator_
print("penalty   alpha   NLL of new rows")
for model in (ribbon.fit(X_train, y_train), tuned.estimator_, best.estimator_):
    nll = -neg_nll_scorer(model, X_test, y_test)
    print(f"{model.estimator.alpha:7.2f} {model.alpha:7.2f} {nll:17.3f}")

# %%
# Next: intervals of class probabilities,
# :ref:`sphx_glr_auto_examples_plot_classification.py`.
