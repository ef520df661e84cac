"""The two estimators, end to end, with every curvature that users can name."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.curvature import KFAC, Curvature, Diagonal, GaussNewton, LowRank, MatrixFree
from skribbon.metrics import interval_coverage_score, neg_brier_scorer, neg_nll_scorer

pytestmark = [
    pytest.mark.filterwarnings("ignore::skribbon.exceptions.LeverageWarning"),  # a poor curvature overstates them
    pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning"),
]
NAMES = ["auto", "hessian", "ggn", "fisher", "kfac", "low_rank", "diag", "last_layer", "matrix_free"]
LINEAR_NAMES = [name for name in NAMES if name != "kfac"]
STRUCTURED = ["kfac", "low_rank", "diag", "matrix_free"]  # these hold draws beyond CLOSED_FORM_LIMIT
SETTINGS = {"activation": "tanh", "solver": "lbfgs", "max_iter": 1000, "alpha": 2.0, "random_state": 0}

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=300)
BINARY = np.where(Y + rng.logistic(size=300) > 0, "yes", "no")
TERNARY = np.array(["a", "b", "c"])[(X[:, :3] * 2 + rng.gumbel(size=(300, 3))).argmax(axis=1)]
TRAIN, TEST = slice(0, 200), slice(200, 300)
NETWORK = make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(4,), **SETTINGS))
CLASSIFIER = MLPClassifier(hidden_layer_sizes=(4,), **SETTINGS)


@pytest.fixture
def small_limit(monkeypatch):
    """Draws are held from 5 parameters on."""
    monkeypatch.setattr("skribbon.curvature.base.Curvature.square_limit", 5)


@cache
def frozen(kind):
    """The network of a kind, fitted once: what differs between tests is the curvature."""
    base, y = {"regressor": (NETWORK, Y), "binary": (CLASSIFIER, BINARY), "ternary": (CLASSIFIER, TERNARY)}[kind]
    return FrozenEstimator(clone(base).fit(X[TRAIN], y[TRAIN]))


def fitted_regressor(curvature, base=None, **settings):
    base = frozen("regressor") if base is None else base
    return RibbonRegressor(base, curvature=curvature, random_state=0, **settings).fit(X[TRAIN], Y[TRAIN])


# ---------------------------------------------------------------------- every name
@pytest.mark.parametrize("predictive", ["gaussian", "pushforward", "direct"])
@pytest.mark.parametrize("curvature", NAMES)
def test_regressor(curvature, predictive):
    ribbon = fitted_regressor(curvature, predictive=predictive, correction="HC3")
    narrow, interval = np.moveaxis(ribbon.predict_interval(X[TEST], [0.5, 0.9]), 2, 0)
    assert isinstance(ribbon.curvature_, Curvature)
    assert np.isfinite(interval).all()
    assert (interval[:, 0] < interval[:, 1]).all()
    assert 0.8 < interval_coverage_score(Y[TEST], interval) <= 1.0
    assert (np.ptp(interval, axis=1) > np.ptp(narrow, axis=1)).all()
    epistemic = ribbon.predict_std(X[TEST], kind="epistemic")
    assert (epistemic > 0).all()
    assert_allclose(ribbon.predict(X[TEST]), ribbon.estimator_.predict(X[TEST]))
    samples = ribbon.predict_samples(X[TEST], n_samples=50, kind="confidence", random_state=0)
    assert samples.shape == (50, 100)


@pytest.mark.parametrize("curvature", [name for name in LINEAR_NAMES if name != "fisher"])
def test_linear_regressor(curvature):
    ribbon = fitted_regressor(curvature, base=Ridge())
    exact = fitted_regressor("hessian", base=Ridge()).predict_std(X[TEST], kind="epistemic")
    ratio = ribbon.predict_std(X[TEST], kind="epistemic") / exact
    assert 0.5 < ratio.min() <= ratio.max() < 2  # independent features, so even a diagonal is not far off


@pytest.mark.parametrize(("kind", "y"), [("binary", BINARY), ("ternary", TERNARY)], ids=["binary", "ternary"])
@pytest.mark.parametrize("curvature", NAMES)
def test_classifier(curvature, kind, y):
    ribbon = RibbonClassifier(frozen(kind), curvature=curvature, temperature=1.0, random_state=0)
    ribbon.fit(X[TRAIN], y[TRAIN])
    P, interval = ribbon.predict_proba(X[TEST]), ribbon.predict_proba_interval(X[TEST])
    assert_allclose(P.sum(axis=1), 1)
    assert np.isfinite(interval).all()
    assert (interval[..., 0] < interval[..., 1]).all()
    assert interval.min() >= 0
    assert interval.max() <= 1
    assert np.mean(ribbon.predict(X[TEST]) == y[TEST]) > 0.5


@pytest.mark.parametrize("curvature", STRUCTURED)
def test_classifier_with_refits(curvature):
    ribbon = RibbonClassifier(CLASSIFIER, curvature=curvature, random_state=0).fit(X[TRAIN], TERNARY[TRAIN])
    P, interval = ribbon.predict_proba(X[TEST]), ribbon.predict_proba_interval(X[TEST])
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_fits) == ("folds", 5)  # these curvatures know no leverages
    assert_allclose(P.sum(axis=1), 1)
    assert (interval[..., 0] < interval[..., 1]).all()
    assert np.mean(ribbon.predict(X[TEST]) == TERNARY[TEST]) > 0.5


@pytest.mark.parametrize("curvature", LINEAR_NAMES)
def test_linear_classifier(curvature):
    ribbon = RibbonClassifier(LogisticRegression(), curvature=curvature, random_state=0).fit(X[TRAIN], TERNARY[TRAIN])
    interval = ribbon.predict_proba_interval(X[TEST])
    assert (interval[..., 0] < interval[..., 1]).all()


@pytest.mark.parametrize(("Ribbon", "base", "y"), [(RibbonRegressor, Ridge(), Y), (RibbonClassifier, None, BINARY)])
def test_kfac_of_a_linear_model_is_refused_with_advice(Ribbon, base, y):
    with pytest.raises(TypeError, match=r"needs a network of dense layers, and .* has none. Use 'matrix_free'"):
        Ribbon(base, curvature="kfac").fit(X, y)


# ---------------------------------------------------------------------- scikit-learn's manners
OBJECTS = [GaussNewton(), Diagonal(), KFAC(), LowRank(rank=5), MatrixFree(tol=1e-2, n_probes=8)]


@pytest.mark.parametrize("curvature", OBJECTS, ids=lambda curvature: type(curvature).__name__)
def test_parameters_of_curvature_objects(curvature):
    ribbon = RibbonRegressor(frozen("regressor"), curvature=curvature)
    assert ribbon.get_params()["curvature__damping"] == "auto"
    copy = clone(ribbon).set_params(curvature__damping=0.5)
    assert copy.curvature is not curvature
    assert copy.curvature.damping == 0.5
    assert curvature.damping == "auto"
    wide, narrow = (r.fit(X[TRAIN], Y[TRAIN]).predict_std(X[TEST], kind="epistemic") for r in (ribbon, copy))
    assert narrow.mean() < 0.8 * wide.mean()


@pytest.mark.parametrize("curvature", STRUCTURED)
@pytest.mark.usefixtures("small_limit")
def test_pickle_and_repeatable_draws(curvature):
    ribbon = fitted_regressor(curvature, n_draws=30)
    assert ribbon.ribbon_.root.shape[1] == 30
    expected = ribbon.predict_interval(X[TEST])
    assert_allclose(pickle.loads(pickle.dumps(ribbon)).predict_interval(X[TEST]), expected, rtol=1e-13)
    assert_allclose(clone(ribbon).fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST]), expected, rtol=1e-10)
    other = clone(ribbon).set_params(random_state=1).fit(X[TRAIN], Y[TRAIN])
    assert np.abs(other.predict_interval(X[TEST]) - expected).max() > 1e-6


def test_grid_search_over_curvatures():
    base = frozen("regressor")
    names = ["ggn", "kfac", "diag", "low_rank", "last_layer", "matrix_free"]
    search = GridSearchCV(RibbonRegressor(base, random_state=0), {"curvature": names}, scoring=neg_nll_scorer, cv=3)
    with warnings.catch_warnings():  # a fold's gradient is not zero at the parameters of all rows
        warnings.simplefilter("ignore")
        search.fit(X[TRAIN], Y[TRAIN])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) == len(names)
    assert search.best_estimator_.curvature == search.best_params_["curvature"]


def test_grid_search_inside_a_curvature():
    grid = {"curvature__damping": ["auto", 0.1], "curvature__rank": [2, 0.9]}
    ribbon = RibbonClassifier(frozen("binary"), curvature=LowRank(), temperature=1.0)
    search = GridSearchCV(ribbon, grid, scoring=neg_brier_scorer, cv=2, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X[TRAIN], BINARY[TRAIN])
    assert len(set(search.cv_results_["mean_test_score"].round(12))) == 4


# ---------------------------------------------------------------------- alpha tuned with held draws
@pytest.mark.parametrize("curvature", STRUCTURED)
@pytest.mark.usefixtures("small_limit")
def test_tuned_regressor_with_held_draws(curvature):
    ribbon = RibbonRegressor(NETWORK, curvature=curvature, n_draws=30, random_state=0)
    tuned = RibbonCV(ribbon, alphas=[0.01, 0.1, 1.0], scoring="nll", cv=2).fit(X[TRAIN], Y[TRAIN])
    assert tuned.estimator_.ribbon_.root.shape[1] == 30
    assert tuned.alpha_ in (0.01, 0.1, 1.0)
    assert len(set(tuned.cv_results_["mean_test_nll"])) == 3
    interval = tuned.predict_interval(X[TEST])
    assert (interval[:, 0] < interval[:, 1]).all()


@pytest.mark.parametrize("cv", [2, "loo"])
@pytest.mark.parametrize("temperature", ["auto", 2.0])
@pytest.mark.parametrize("y", [BINARY, TERNARY], ids=["binary", "ternary"])
@pytest.mark.usefixtures("small_limit")
def test_tuned_classifier_with_held_draws(y, temperature, cv):
    ribbon = RibbonClassifier(CLASSIFIER, curvature="kfac", n_draws=30, temperature=temperature, random_state=0)
    tuned = RibbonCV(ribbon, alphas=[0.01, 1.0], cv=cv).fit(X[TRAIN], y[TRAIN])
    assert tuned.estimator_.ribbon_.root.shape[1] == 30
    assert_allclose(tuned.predict_proba(X[TEST]).sum(axis=1), 1)


@pytest.mark.parametrize("curvature", [KFAC(), MatrixFree(n_probes=500)], ids=["kfac", "matrix_free"])
@pytest.mark.usefixtures("small_limit")
def test_leave_one_out_and_noise_with_held_draws(curvature):
    dense = fitted_regressor("ggn", noise="loo", store_loo=True)
    ribbon = fitted_regressor(curvature, noise="loo", store_loo=True)
    assert ribbon.loo_residuals_.shape == (200,)
    assert np.corrcoef(ribbon.loo_residuals_, dense.loo_residuals_)[0, 1] > 0.9
    assert 0.8 < ribbon.noise_.dispersion_ / dense.noise_.dispersion_ < 1.25
