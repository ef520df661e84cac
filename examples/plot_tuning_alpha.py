"""
Tuning alpha with RibbonCV
==========================

What if the intervals are too narrow or too wide? ``alpha`` is the one dial: it scales the epistemic variance of every
prediction, and larger means narrower. :class:`~skribbon.RibbonCV` sets it on held-out rows, and scores the whole path
of alphas from one fit per fold.
"""

# %%
# A network on 300 rows of five features, weakly penalised; 3000 more rows to check the promise.
from sklearn.datasets import make_friedman1
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonCV, RibbonRegressor
from skribbon.metrics import interval_coverage_score, mean_interval_score
from skribbon.plotting import AlphaPathDisplay

X, y = make_friedman1(3300, n_features=5, noise=1.0, random_state=2)
X_train, X_test, y_train, y_test = X[:300], X[300:], y[:300], y[300:]
network = MLPRegressor(
    hidden_layer_sizes=(10,), activation="tanh", solver="lbfgs", alpha=0.1, max_iter=10000, random_state=0
)
base = make_pipeline(StandardScaler(), network)  # the network's own alpha is its weight decay, another thing

# %%
# ``alpha=1`` is the Bayesian bootstrap, linearized. RibbonCV leaves it there unless the log score of held-out rows is
# better elsewhere by a standard error; with ``scoring="coverage"``, as in the paper, it takes the alpha whose held-out
# coverage is nearest to the level. ``cv="loo"`` would replace the folds by one Newton step for each row from a single
# fit; that is for models with many rows per parameter, and refused for a network like this one.
models = {
    "alpha = 1": RibbonRegressor(base),
    "RibbonCV": RibbonCV(base),
    "RibbonCV, coverage": RibbonCV(base, scoring="coverage", confidence_level=0.9),
}
print("90% intervals of new rows   alpha   coverage   interval score")
for name, model in models.items():
    intervals = model.fit(X_train, y_train).predict_interval(X_test, confidence_level=0.9)
    alpha, coverage = getattr(model, "alpha_", 1.0), interval_coverage_score(y_test, intervals)
    print(f"{name:26} {alpha:7.2f} {coverage:10.3f} {mean_interval_score(y_test, intervals):16.2f}")

# %%
# The path over the folds: as alpha grows the intervals narrow and cover less. Where the noise alone makes up the
# interval, it no longer matters.
tuned = models["RibbonCV"]
AlphaPathDisplay.from_estimator(tuned, metrics=["coverage", "nll"])

# %%
# The interval score punishes width and misses together. It hardly moves here: alpha repairs the level of the intervals,
# it does not make the network know more.
#
# Next: the base model's own parameters together with alpha, :ref:`sphx_glr_auto_examples_plot_grid_search.py`.
