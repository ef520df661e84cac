"""Averages for a population against exact Bayesian bootstraps of the average, refitted by scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.inspection import comparisons

N, B = 300, 2000
rng = np.random.default_rng(2)
X = pd.DataFrame({"x": rng.normal(size=N), "t": rng.integers(0, 2, N).astype(float)})
ETA = 0.3 * X["x"] + X["t"] * (0.4 + X["x"])
NEWTON = {"solver": "newton-cholesky", "tol": 1e-8}
MODELS = {
    "poisson": (RibbonRegressor, PoissonRegressor(alpha=0.01, **NEWTON), rng.poisson(np.exp(0.5 * ETA))),
    "logistic": (RibbonClassifier, LogisticRegression(C=1.0, **NEWTON), (rng.random(N) < 1 / (1 + np.exp(-ETA))) * 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_standard_errors_are_those_of_the_bayesian_bootstrap(name):
    cls, model, y = MODELS[name]
    base = make_pipeline(PolynomialFeatures(2, interaction_only=True, include_bias=False), model)
    ribbon = cls(base, correction="HC0", alpha=4.0).fit(X, y)
    differences, ratios, parameter = [], [], f"{base.steps[-1][0]}__sample_weight"
    for w in np.random.default_rng(0).dirichlet(np.full(N, 4.0), size=B) * N:
        fit = base.fit(X, y, **{parameter: w})
        predict = fit.predict if cls is RibbonRegressor else lambda table, fit=fit: fit.predict_proba(table)[:, 1]
        one, zero = (np.average(predict(X.assign(t=value)), weights=w) for value in (1.0, 0.0))
        differences.append(one - zero)
        ratios.append(np.log(one / zero))
    for transform, draws in (("difference", differences), ("ratio", ratios)):
        table = comparisons(ribbon, X, "t", (0.0, 1.0), transform=transform, population=True, y=y)
        scale = 1.0 if transform == "difference" else table["estimate"][0]
        assert table["std_error"][0] / scale == pytest.approx(np.std(draws), rel=0.05)
