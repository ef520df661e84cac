"""Fitted estimators are stored and loaded by skops with the types that the package exports, to the last bit."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import GammaRegressor, HuberRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skribbon
from skribbon import AutogradClassifier, AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.models import WithOffset
from skribbon.models.architectures import michaelis_menten, mlp
from skribbon.noise import EmpiricalLaw, HeteroskedasticNoise

skops = pytest.importorskip("skops.io")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = X @ [2.0, -1.0, 0.5] + (1 + X[:, 0] ** 2) * (RNG.exponential(size=len(X)) - 1)
LABEL = np.array(["no", "yes"])[(Y > 0).astype(int)]
BANDS = np.digitize(Y, [-1, 1])
COUNT = RNG.poisson(np.exp(0.3 * X[:, 0] + 1)).astype(float)
SMALL = {"hidden_layer_sizes": (3,), "solver": "lbfgs", "random_state": 0, "alpha": 0.1}
TREES = HeteroskedasticNoise(HistGradientBoostingRegressor(loss="gamma", max_iter=20))
logs = TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp)
scaled = TransformedTargetRegressor(Ridge(), transformer=StandardScaler())

FITTED = {
    "default": (RibbonRegressor(), Y),
    "normal": (RibbonRegressor(law="normal"), Y),
    "student": (RibbonRegressor(law="student"), Y),
    "empirical": (RibbonRegressor(law="empirical"), Y),
    "noise of trees": (RibbonRegressor(noise=TREES, law="empirical"), Y),
    "two outputs": (RibbonRegressor(law="empirical"), np.c_[Y, Y**2]),
    "counts": (RibbonRegressor(PoissonRegressor()), COUNT),
    "gamma": (RibbonRegressor(GammaRegressor()), COUNT + 1),
    "offset": (RibbonRegressor(make_pipeline(StandardScaler(), WithOffset(PoissonRegressor(), offset=0))), COUNT),
    "offset of classes": (RibbonClassifier(WithOffset(LogisticRegression(), offset=0)), LABEL),
    "huber": (RibbonRegressor(HuberRegressor()), Y),
    "network": (RibbonRegressor(MLPRegressor(**SMALL)), Y),
    "network of classes": (RibbonClassifier(MLPClassifier(**SMALL)), BANDS),
    "two classes": (RibbonClassifier(), LABEL),
    "three classes": (RibbonClassifier(LogisticRegression()), BANDS),
    "tuned": (RibbonCV(Ridge(), alphas=[0.5, 1.0]), Y),
    "tuned classes": (RibbonCV(LogisticRegression(), alphas=[0.5, 1.0]), LABEL),
    "pipeline": (RibbonRegressor(make_pipeline(StandardScaler(), Ridge()), predictive="pushforward"), Y),
    "logarithms": (RibbonRegressor(make_pipeline(StandardScaler(), logs)), np.exp(Y / 5)),
    "scaled outputs": (RibbonRegressor(scaled), np.c_[Y, Y**2]),
    "autograd network": (RibbonRegressor(AutogradRegressor(mlp((3,)), l2=0.1, random_state=0)), Y),
    "autograd classes": (RibbonClassifier(AutogradClassifier(mlp((3,)), l2=0.1, random_state=0)), BANDS),
    "two columns of f": (RibbonRegressor(AutogradRegressor(mlp((3,)), loss="gaussian_nll", l2=0.1, random_state=0)), Y),
    "last layer": (RibbonRegressor(MLPRegressor(**SMALL), curvature="last_layer"), Y),
}


# skops trusts no boosted trees, whose predictions read memory at the places that a file names; nor does the package
OF_TREES = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"


def stored_and_loaded(fitted, *others):
    """Copy of an estimator by skops, which raises for a type that is not exported."""
    return skops.loads(skops.dumps(fitted), trusted=[*skribbon.TRUSTED_TYPES, *others])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITTED)
def test_skops_loads_exported_types_to_the_last_bit(name):
    estimator, y = FITTED[name]
    fitted = clone(estimator).fit(X, y)
    method = "predict_proba_interval" if is_classifier(fitted) else "predict_interval"
    expected = getattr(fitted, method)(X)
    loaded = stored_and_loaded(fitted, *[OF_TREES] * (name == "noise of trees"))  # stored after predictions
    np.testing.assert_array_equal(getattr(loaded, method)(X), expected)
    np.testing.assert_array_equal(fitted.predict(X), loaded.predict(X))


@pytest.mark.filterwarnings("ignore")
def test_skops_keeps_guarantees():
    """Calibrations, leave-one-out records and the folds of cv+ are stored with the estimators that hold them."""
    left_out = RibbonRegressor(store_loo=True).fit(X, Y).conformalize(X[::2], Y[::2])
    folds = RibbonCV(Ridge(), alphas=[1.0], store_folds=True).fit(X, Y)
    classes = RibbonClassifier().fit(X, BANDS).conformalize(X[::2], BANDS[::2])
    for fitted, kind in ((left_out, "conformal"), (left_out, "jackknife+"), (folds, "cv+")):
        expected = fitted.predict_interval(X, kind=kind)
        np.testing.assert_array_equal(stored_and_loaded(fitted).predict_interval(X, kind=kind), expected)
    np.testing.assert_array_equal(stored_and_loaded(classes).predict_set(X), classes.predict_set(X))


def saturation(params, X):
    return params["top"] * X[:, 0] / (params["half"] + X[:, 0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("f", "init", "others"),
    [(michaelis_menten(), None, []), (saturation, {"top": 1.0, "half": 1.0}, [f"{__name__}.saturation"])],
)
def test_skops_keeps_formulas(f, init, others):
    x = np.random.default_rng(1).uniform(0.1, 5, size=(80, 1))
    y = 2 * x[:, 0] / (0.5 + x[:, 0]) + 0.1 * np.random.default_rng(2).normal(size=80)
    fitted = RibbonRegressor(AutogradRegressor(f, init, polish=True)).fit(x, y)
    loaded = stored_and_loaded(fitted, *others)
    np.testing.assert_array_equal(loaded.predict_interval(x), fitted.predict_interval(x))


def test_cached_values_are_not_pickled():
    law = EmpiricalLaw(Y)
    fresh, expected = pickle.dumps(law), law.marginal(0.0, 1.0, 0.0).ppf(0.9)
    assert pickle.dumps(law) == fresh
    assert pickle.loads(fresh).marginal(0.0, 1.0, 0.0).ppf(0.9) == expected


def test_trusted_types_are_classes_of_the_package():
    assert all(name.startswith("skribbon.") for name in skribbon.TRUSTED_TYPES)
    assert len(set(skribbon.TRUSTED_TYPES)) == len(skribbon.TRUSTED_TYPES)
