"""
Tuning alpha with RibbonCV
==========================

What if intervals are too narrow or too wide? ``alpha`` scales the epistemic variance of
all predictions, and a larger alpha makes intervals narrower.
:class:`~skribbon.RibbonCV` chooses it on held-out rows. It scores all candidates with
one fit per fold.
"""

# %%
# A weakly penalized network is trained on 300 rows of five features. Another 3,000 rows
# check the coverage.
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
    hidden_layer_sizes=(10,),
    activation="tanh",
    solver="lbfgs",
    alpha=0.1,
    max_iter=10000,
    random_state=0,
)
base = make_pipeline(StandardScaler(), network)  # its own alpha is a weight decay

# %%
# ``alpha=1`` is the linearized Bayesian bootstrap. RibbonCV keeps it unless another
# alpha improves the log score of held-out rows by one standard error. With
# ``scoring="coverage"``, as in the paper, it chooses the alpha whose held-out coverage
# is nearest to the level. ``cv="loo"`` would replace the folds by one Newton step for
# each row. It needs many rows per parameter, and raises an error for this network.
models = {
    "alpha = 1": RibbonRegressor(base),
    "RibbonCV": RibbonCV(base),
    "RibbonCV, coverage": RibbonCV(base, scoring="coverage", confidence_level=0.9),
}
print("90% intervals of new rows   alpha   coverage   interval score")
for name, model in models.items():
    intervals = model.fit(X_train, y_train).predict_interval(X_test)
    alpha, score = getattr(model, "alpha_", 1.0), mean_interval_score(y_test, intervals)
    coverage = interval_coverage_score(y_test, intervals)
    print(f"{name:26} {alpha:7.2f} {coverage:10.3f} {score:16.2f}")

# %%
# The path over the folds. As alpha grows, intervals become narrower and cover less.
# From some alpha on, the interval consists only of noise, and alpha no longer matters.
tuned = models["RibbonCV"]
AlphaPathDisplay.from_estimator(tuned, metrics=["coverage", "nll"])

# %%
# The interval score penalizes both width and misses. It hardly changes here: alpha
# corrects the level of the intervals, but gives the network no new information.
#
# Next: alpha together with parameters of the base model,
# :ref:`sphx_glr_auto_examples_plot_grid_search.py`.
