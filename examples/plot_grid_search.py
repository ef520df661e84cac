"""
Alpha by grid search and by RibbonCV
====================================

``alpha`` is a parameter like any other, so :class:`~sklearn.model_selection.GridSearchCV` can choose it, if its score
looks at the intervals. :class:`~skribbon.RibbonCV` makes the same choice from one fit per fold, because alpha only
scales the covariance.
"""

# %%
# Few rows, many features: here the uncertainty of the parameters decides the width of the intervals.
from time import perf_counter

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold

from skribbon import RibbonCV, RibbonRegressor
from skribbon.metrics import interval_coverage_score, nll_scorer
from skribbon.plotting import AlphaPathDisplay

rng = np.random.default_rng(0)
X = rng.standard_normal((2120, 60))
y = X @ rng.standard_normal(60) + 2 * rng.standard_normal(2120)
X_train, X_test, y_train, y_test = X[:120], X[120:], y[:120], y[120:]
alphas, folds = np.logspace(-2, 2, 41), KFold(5, shuffle=True, random_state=0)
ribbon = RibbonRegressor(Ridge(alpha=1.0))

# %%
# The default score of a regressor, R², looks at predictions only, which alpha does not move: all alphas tie. The
# scorers of :mod:`skribbon.metrics` look at intervals or densities.
scoring = {"nll": nll_scorer, "r2": "r2"}
start = perf_counter()
search = GridSearchCV(ribbon, {"alpha": alphas}, scoring=scoring, refit="nll", cv=folds).fit(X_train, y_train)
search_seconds = perf_counter() - start
print(f"spread of R² over all alphas: {np.ptp(search.cv_results_['mean_test_r2']):.1e}")


# %%
# The same folds and alphas by RibbonCV: the same scores, hence the same choice, for a fraction of the time.
start = perf_counter()
tuned = RibbonCV(ribbon, alphas=alphas, scoring="nll", cv=folds).fit(X_train, y_train)
tuned_seconds = perf_counter() - start
print(f"alpha by GridSearchCV {search.best_params_['alpha']:.3f}, by RibbonCV {tuned.alpha_:.3f}")
difference = np.abs(search.cv_results_["mean_test_nll"] + tuned.cv_results_["mean_test_nll"])  # scorers are negated
print(f"largest difference of their scores {difference.max():.1e}")
print(f"{search_seconds:.2f} s by GridSearchCV, {tuned_seconds:.3f} s by RibbonCV, ", end="")
print(f"which is {search_seconds / tuned_seconds:.0f} times faster")

# %%
# New rows under alpha = 1 and under the choice. What was tuned, the log score, is better; who minds the level more
# than the score sets ``scoring="coverage"``, with GridSearchCV :func:`skribbon.metrics.make_interval_scorer`.
for name, model in (("alpha = 1", clone(ribbon).fit(X_train, y_train)), ("tuned", tuned)):
    coverage = interval_coverage_score(y_test, model.predict_interval(X_test))
    print(f"{name:10} coverage of 90 % intervals {coverage:.3f}, NLL {-nll_scorer(model, X_test, y_test):.4f}")

# %%
# RibbonCV's path, with some of the grid search's scores on top of it.
display = AlphaPathDisplay.from_estimator(tuned, metrics=["nll", "coverage"])
grid_scores = -search.cv_results_["mean_test_nll"][::4]
display.ax_[0].plot(alphas[::4], grid_scores, "o", ms=7, mfc="none", color="#000000", label="GridSearchCV")
display.ax_[0].legend(frameon=False, fontsize="small", loc="upper right")
display.ax_[1].get_legend().remove()
