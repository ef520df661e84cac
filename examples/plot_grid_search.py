"""
Alpha by grid search and by RibbonCV
====================================

Does it work with :class:`~sklearn.model_selection.GridSearchCV`? Yes, if its score looks at the intervals. For alpha
alone :class:`~skribbon.RibbonCV` has the same scores faster, because alpha only scales the covariance; for the base
model's own parameters a grid search is the way, and can have RibbonCV inside.
"""

# %%
# Few rows, many features: here the uncertainty of the parameters decides the width of the intervals.
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
    """The seconds of a fit."""
    start = perf_counter()
    search.fit(X_train, y_train)
    return perf_counter() - start


# %%
# The default score of a regressor, R², looks at predictions only, which alpha does not move: all alphas tie. The
# scorers of :mod:`skribbon.metrics` look at intervals or densities.
search = GridSearchCV(ribbon, {"alpha": alphas}, scoring={"nll": neg_nll_scorer, "r2": "r2"}, refit="nll", cv=folds)
search_seconds = timed(search)
print(f"spread of R² over all alphas: {np.ptp(search.cv_results_['mean_test_r2']):.1e}")

# %%
# The same folds and alphas by RibbonCV: the same scores, for a fraction of the time. Hence the same choice, for it is
# better than alpha = 1 by more than a standard error; otherwise RibbonCV would have stayed there.
tuned = RibbonCV(ribbon, alphas=alphas, scoring="nll", cv=folds)
tuned_seconds = timed(tuned)
difference = np.abs(search.cv_results_["mean_test_nll"] + tuned.cv_results_["mean_test_nll"])  # scorers are negated
print(f"alpha by GridSearchCV {search.best_params_['alpha']:.3f}, by RibbonCV {tuned.alpha_:.3f}")
print(f"largest difference of their scores {difference.max():.1e}")
print(f"GridSearchCV {search_seconds:.2f} s, RibbonCV {tuned_seconds:.3f} s: ", end="")
print(f"{search_seconds / tuned_seconds:.0f} times faster")

# %%
# RibbonCV's path; the black circles on it are some of the grid search's scores.
display = AlphaPathDisplay.from_estimator(tuned, metrics=["nll", "coverage"])
display.ax_[0].plot(alphas[::4], -search.cv_results_["mean_test_nll"][::4], "ko", mfc="none")

# %%
# The ridge penalty as well: RibbonCV inside GridSearchCV, which names the penalty by two levels of ``estimator__``.
penalties = {"estimator__estimator__alpha": np.logspace(-1, 2, 7)}
both = GridSearchCV(tuned, penalties, scoring=neg_nll_scorer, cv=folds).fit(X_train, y_train).best_estimator_
print("penalty   alpha   NLL of new rows")
for model in (ribbon.fit(X_train, y_train), tuned.estimator_, both.estimator_):
    print(f"{model.estimator.alpha:7.2f} {model.alpha:7.2f} {-neg_nll_scorer(model, X_test, y_test):17.3f}")

# %%
# Next: a classifier is tuned the same way, :ref:`sphx_glr_auto_examples_plot_classification.py`.
