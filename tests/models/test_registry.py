"""Which estimators are base models, which are refused, and how users add their own."""

import gc
import re
import warnings
from dataclasses import dataclass

import blocks
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lars,
    Lasso,
    LassoCV,
    LassoLars,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    MultiTaskElasticNet,
    MultiTaskElasticNetCV,
    MultiTaskLasso,
    MultiTaskLassoCV,
    OrthogonalMatchingPursuit,
    Perceptron,
    PoissonRegressor,
    QuantileRegressor,
    RANSACRegressor,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
    TweedieRegressor,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from spelling import logistic

from skribbon import AutogradClassifier, AutogradRegressor, RibbonClassifier, RibbonRegressor
from skribbon.exceptions import SelectionWarning
from skribbon.models import ParametricModel, WithOffset, as_parametric
from skribbon.models.losses import Tweedie

N = 60
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
REGRESSION = np.exp(0.5 * X[:, 0]) + 0.2 * rng.random(N)
BINARY = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
TERNARY = BINARY + (X[:, 1] > 0)
TWO_OUTPUTS = np.column_stack([REGRESSION, X[:, 1]])
TWO_LABELS = np.column_stack([BINARY, X[:, 1] > 0]).astype(int)

# none more and none fewer; subclasses of these are known too
REGISTERED = {
    AutogradClassifier,
    AutogradRegressor,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    FrozenEstimator,
    GammaRegressor,
    HuberRegressor,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    MLPRegressor,
    Pipeline,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TransformedTargetRegressor,
    TweedieRegressor,
    WithOffset,
}

MLP = {"hidden_layer_sizes": (2,), "max_iter": 5}
SUPPORTED = [
    (LinearRegression(), REGRESSION),
    (LinearRegression(positive=True), REGRESSION),
    (Ridge(), REGRESSION),
    (RidgeCV(), REGRESSION),
    (BayesianRidge(), REGRESSION),
    (ElasticNet(alpha=0.1), REGRESSION),
    (ElasticNetCV(cv=3), REGRESSION),
    (Lasso(alpha=0.1), REGRESSION),
    (LassoCV(cv=3), REGRESSION),
    (HuberRegressor(), REGRESSION),
    (PoissonRegressor(), REGRESSION),
    (GammaRegressor(), REGRESSION),
    (TweedieRegressor(power=1.5), REGRESSION),
    (WithOffset(PoissonRegressor(), offset=0), REGRESSION),
    (make_pipeline(StandardScaler(), WithOffset(LogisticRegression(), offset=0)), BINARY),
    (SGDRegressor(), REGRESSION),
    (SGDRegressor(loss="huber"), REGRESSION),
    (SGDRegressor(loss="squared_epsilon_insensitive"), REGRESSION),
    (MLPRegressor(**MLP), REGRESSION),
    (make_pipeline(StandardScaler(), MinMaxScaler(), Ridge()), REGRESSION),
    (make_pipeline(Ridge()), REGRESSION),
    (TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp), REGRESSION),
    (TransformedTargetRegressor(), REGRESSION),
    (make_pipeline(StandardScaler(), TransformedTargetRegressor(make_pipeline(StandardScaler(), Ridge()))), REGRESSION),
    (LogisticRegression(), BINARY),
    (LogisticRegression(), TERNARY),
    (LogisticRegression(solver="liblinear"), BINARY),
    (SGDClassifier(loss="log_loss"), BINARY),
    (MLPClassifier(**MLP), BINARY),
    (MLPClassifier(**MLP), TERNARY),
]
REFUSED = [
    (DecisionTreeRegressor(), REGRESSION),
    (DecisionTreeClassifier(), BINARY),
    (RandomForestRegressor(n_estimators=2), REGRESSION),
    (RandomForestClassifier(n_estimators=2), BINARY),
    (GradientBoostingRegressor(n_estimators=2), REGRESSION),
    (HistGradientBoostingClassifier(max_iter=2), BINARY),
    (VotingRegressor([("ridge", Ridge())]), REGRESSION),
    (SVC(), BINARY),
    (SVR(), REGRESSION),
    (LinearSVC(), BINARY),
    (LinearSVR(), REGRESSION),
    (QuantileRegressor(), REGRESSION),
    (KNeighborsRegressor(), REGRESSION),
    (KNeighborsClassifier(), BINARY),
    (RidgeClassifier(), BINARY),
    (Perceptron(), BINARY),
    (GaussianProcessRegressor(), REGRESSION),
    (KernelRidge(), REGRESSION),
    (PLSRegression(), REGRESSION),
    (TheilSenRegressor(max_subpopulation=50), REGRESSION),
    (RANSACRegressor(random_state=0), REGRESSION),
    (Lars(), REGRESSION),
    (LassoLars(alpha=0.01), REGRESSION),
    (OrthogonalMatchingPursuit(), REGRESSION),
    (ARDRegression(), REGRESSION),
    (DummyRegressor(), REGRESSION),
    (OneVsRestClassifier(LogisticRegression()), TERNARY),
    (GaussianNB(), BINARY),
    (LinearDiscriminantAnalysis(), BINARY),
    (make_pipeline(StandardScaler(), DecisionTreeRegressor()), REGRESSION),
    (FrozenEstimator(DecisionTreeRegressor().fit(X, REGRESSION)), REGRESSION),
    (TransformedTargetRegressor(SVR()), REGRESSION),
    (IsotonicRegression(), REGRESSION),
]
# a registered class, or a subclass of one, whose settings break an assumption of its handler: the error says which
REFUSED_SETTINGS = [
    (SGDClassifier(loss="hinge"), BINARY, "'hinge'.*log_loss"),
    (SGDClassifier(loss="modified_huber"), BINARY, "'modified_huber'.*log_loss"),
    (SGDClassifier(loss="log_loss"), TERNARY, "SGDClassifier.*one versus rest"),
    (SGDRegressor(loss="epsilon_insensitive"), REGRESSION, "'epsilon_insensitive'.*squared_error"),
    (logistic(solver="saga", l1_ratio=1.0, max_iter=2000), TERNARY, "L1.*l1_ratio=0"),
    (LinearRegression(positive=True), TWO_OUTPUTS, "LinearRegression.*several outputs"),
    (Ridge(positive=True), TWO_OUTPUTS, "Ridge.*several outputs"),
    (Lasso(alpha=0.01), TWO_OUTPUTS, "Lasso.*several outputs"),
    (MLPRegressor(loss="poisson", **MLP), TWO_OUTPUTS, "MLPRegressor.*several outputs"),
    (MLPClassifier(**MLP), TWO_LABELS, "MLPClassifier.*several labels"),
    (MultiTaskLasso(alpha=0.01), TWO_OUTPUTS, "MultiTaskLasso"),
    (MultiTaskElasticNet(alpha=0.01), TWO_OUTPUTS, "MultiTaskElasticNet"),
    (MultiTaskLassoCV(cv=3), TWO_OUTPUTS, "MultiTaskLassoCV"),
    (MultiTaskElasticNetCV(cv=3), TWO_OUTPUTS, "MultiTaskElasticNetCV"),
    (TransformedTargetRegressor(TransformedTargetRegressor()), REGRESSION, "inside another"),
]

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::skribbon.exceptions.SelectionWarning",
    "ignore:.*:RuntimeWarning:sklearn",
)


def fitted(estimator, y):
    features = X[:, :1] if isinstance(estimator, IsotonicRegression) else X
    return estimator.fit(features, y)


def name_of(value):
    return re.sub(r"\s+", "", str(value))[:60] if isinstance(value, BaseEstimator) else None


# ---------------------------------------------------------------------- the table
def test_registered_estimators():
    ours = {cls for cls in as_parametric.registry if cls.__module__ != "__main__"}  # a page may register its own
    assert ours - {object} == REGISTERED


# tested by their own files, or wrappers of what has a case
WITHOUT_A_CASE = {
    AutogradClassifier,
    AutogradRegressor,
    FrozenEstimator,
    Pipeline,
    TransformedTargetRegressor,
    WithOffset,
}


def test_every_registered_estimator_has_a_case(all_cases):
    """Derivatives are compared with autograd and finite differences for these cases alone."""
    leaves = [case.estimator for case in all_cases]
    leaves = [leaf.regressor if isinstance(leaf, TransformedTargetRegressor) else leaf for leaf in leaves]
    leaves = [leaf[-1] if isinstance(leaf, Pipeline) else leaf for leaf in leaves]
    covered = {cls for leaf in leaves for cls in type(leaf).__mro__} & REGISTERED
    assert REGISTERED - covered == WITHOUT_A_CASE


@quiet
@pytest.mark.parametrize(("estimator", "y"), SUPPORTED, ids=name_of)
def test_supported(estimator, y):
    model = as_parametric(fitted(estimator, y), y, np.ones(N))
    assert isinstance(model, ParametricModel)
    assert (model.classes is not None) == (y is not REGRESSION)
    G = blocks.scores(model, model.rows(model.prepare(X)), model.encode_target(y))
    assert G.shape == (N, len(model.theta)) == (N, len(model.l2))
    assert np.isfinite(G).all()


@quiet
def test_frozen_and_cross_validated_estimators_are_supported():
    frozen = FrozenEstimator(make_pipeline(StandardScaler(), Ridge()).fit(X, REGRESSION))
    assert len(as_parametric(frozen, REGRESSION, np.ones(N)).theta) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # on the names of fitted attributes
        searched = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(X, TERNARY)
    assert len(as_parametric(searched, TERNARY, np.ones(N)).theta) == 8


@quiet
@pytest.mark.parametrize(("estimator", "y"), REFUSED, ids=name_of)
def test_refused(estimator, y):
    """The error names the estimator, or the one inside it, and what is supported instead."""
    inner = getattr(estimator, "steps", [("", estimator)])[-1][1]
    inner = getattr(inner, "regressor", None) or inner
    inner = inner.estimator if isinstance(inner, FrozenEstimator) else inner
    with pytest.raises(TypeError, match=f"^{type(inner).__name__} is not supported") as caught:
        as_parametric(fitted(estimator, y), y, np.ones(N))
    for cls in REGISTERED:
        assert cls.__name__ in str(caught.value)
    assert "as_parametric.register" in str(caught.value)


@quiet
@pytest.mark.parametrize(("estimator", "y", "message"), REFUSED_SETTINGS, ids=name_of)
def test_refused_settings(estimator, y, message):
    with pytest.raises(TypeError, match=message):
        as_parametric(fitted(estimator, y), y, np.ones(N))


def test_one_versus_rest_of_earlier_versions_of_scikit_learn():
    """Which fitted three classes by liblinear, and chose a C for each of them."""
    one_versus_rest = LogisticRegression().fit(X, TERNARY).set_params(solver="liblinear")
    with pytest.raises(TypeError, match=r"not a single likelihood; use a multinomial solver .* or OneVsRestClassifier"):
        as_parametric(one_versus_rest, TERNARY, np.ones(N))
    one_versus_rest = LogisticRegression().fit(X, TERNARY)
    one_versus_rest.multi_class = "ovr"
    with pytest.raises(TypeError, match="not a single likelihood"):
        as_parametric(one_versus_rest, TERNARY, np.ones(N))
    one_versus_rest = LogisticRegression().fit(X, TERNARY)
    one_versus_rest.C_ = np.array([0.1, 1.0, 0.1])
    with pytest.raises(TypeError, match="a different C for each class; refit one LogisticRegression"):
        as_parametric(one_versus_rest, TERNARY, np.ones(N))


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.SelectionWarning")
def test_a_penalty_that_leaves_no_parameter_is_refused():
    with pytest.raises(ValueError, match="Lasso has no parameter left: every coefficient is zero"):
        RibbonRegressor(Lasso(alpha=1e6, fit_intercept=False)).fit(X, REGRESSION)
    only_a_mean = RibbonRegressor(Lasso(alpha=1e6), correction="HC0", alpha=1e-3).fit(X, REGRESSION)
    expected = REGRESSION.var() / (1e-3 * N + 1)
    assert_allclose(only_a_mean.covariance_, [[expected]])


def test_ribbon_estimators_pass_the_refusal_on():
    with pytest.raises(TypeError, match="DecisionTreeRegressor is not supported"):
        RibbonRegressor(DecisionTreeRegressor()).fit(X, REGRESSION)
    with pytest.raises(TypeError, match="LinearSVC is not supported"):
        RibbonClassifier(LinearSVC()).fit(X, BINARY)


def test_subclasses_of_known_estimators_are_known():
    class MyRidge(Ridge):
        pass

    mine, known = (as_parametric(cls(alpha=2.0).fit(X, REGRESSION), REGRESSION, np.ones(N)) for cls in (MyRidge, Ridge))
    assert_allclose(mine.theta, known.theta)
    assert_allclose(mine.l2, known.l2)


# ---------------------------------------------------------------------- selection
SELECTING = [
    (Lasso(alpha=0.2), REGRESSION),
    (ElasticNet(alpha=0.2), REGRESSION),
    (LassoCV(alphas=[0.2], cv=3), REGRESSION),
    (ElasticNetCV(alphas=[0.2], cv=3), REGRESSION),
    (LinearRegression(positive=True), REGRESSION - X[:, 1]),
    (Ridge(positive=True), REGRESSION - X[:, 1]),
    (logistic(solver="saga", l1_ratio=1.0, C=0.2, max_iter=2000), BINARY),
    (logistic(solver="liblinear", l1_ratio=1.0, C=0.2), BINARY),
    (SGDRegressor(penalty="l1", alpha=0.3, random_state=0), REGRESSION),
    (SGDRegressor(penalty="elasticnet", alpha=0.3, l1_ratio=0.9, random_state=0), REGRESSION),
    (SGDClassifier(loss="log_loss", penalty="l1", alpha=0.1, random_state=0), BINARY),
]


@pytest.mark.parametrize(("estimator", "y"), SELECTING, ids=name_of)
def test_selected_coefficients_are_dropped_with_a_warning(estimator, y):
    estimator.fit(X, y)
    kept = np.flatnonzero(estimator.coef_)
    assert 0 < len(kept) < 3  # else the case shows nothing
    with pytest.warns(SelectionWarning, match=f"{type(estimator).__name__} keeps {len(kept)} of 3 coefficients"):
        model = as_parametric(estimator, y, np.ones(N))
    assert_allclose(model.theta[: len(kept)], np.ravel(estimator.coef_)[kept])
    assert_allclose(model.rows(X)[:, : len(kept)], X[:, kept])


@pytest.mark.parametrize(
    "estimator",
    [LinearRegression(), Ridge(), LogisticRegression(), SGDRegressor(penalty="l2"), SGDRegressor(penalty=None)],
    ids=name_of,
)
def test_no_warning_without_selection(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SelectionWarning)
        as_parametric(estimator.fit(X, BINARY), BINARY, np.ones(N))


def test_the_warning_points_at_the_line_of_the_user():
    with pytest.warns(SelectionWarning) as caught:
        RibbonRegressor(Lasso(alpha=0.2)).fit(X, REGRESSION)
    assert caught[0].filename == __file__


# ---------------------------------------------------------------------- a base model that users write
class LeastSquares(RegressorMixin, BaseEstimator):
    """Ordinary least squares, parameters in the order intercept, coefficients."""

    def fit(self, X, y, sample_weight=None):
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        design = np.column_stack([np.ones(len(y)), X]) * np.sqrt(weight)[:, None]
        self.beta_ = np.linalg.lstsq(design, y * np.sqrt(weight))[0]
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return self.beta_[0] + X @ self.beta_[1:]


@dataclass(frozen=True, kw_only=True, eq=False)
class LeastSquaresModel(ParametricModel):
    """Only what a user must write."""

    def raw(self, Z, theta=None):
        theta = self.theta if theta is None else theta
        return (theta[0] + Z @ theta[1:])[:, None]

    def jacobian(self, Z):
        return np.column_stack([np.ones(len(Z)), Z])[:, None, :]


@pytest.fixture
def registered_least_squares():
    def adapter(estimator, y, sample_weight):
        return LeastSquaresModel(theta=estimator.beta_, loss=Tweedie(), l2=np.zeros(len(estimator.beta_)))

    as_parametric.register(LeastSquares)(adapter)
    yield
    # singledispatch has no unregister: its table is shown through a read-only view, and cached by class
    (table,) = gc.get_referents(as_parametric.registry)
    del table[LeastSquares]
    as_parametric._clear_cache()


@pytest.mark.parametrize("weight", [None, rng.integers(1, 4, N).astype(float)], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise": "loo", "alpha": 3.0},
        {"curvature": "fisher"},
        {"predictive": "pushforward", "random_state": 0},
        {"predictive": "direct", "random_state": 0},
    ],
    ids=str,
)
def test_a_users_model_equals_the_built_in_one(registered_least_squares, settings, weight):
    mine, known = (RibbonRegressor(base, **settings) for base in (LeastSquares(), LinearRegression()))
    for ribbon in (mine, known):
        ribbon.fit(X, REGRESSION, sample_weight=weight)
    order = [1, 2, 3, 0]
    assert_allclose(mine.covariance_[np.ix_(order, order)], known.covariance_, rtol=1e-8)
    assert_allclose(mine.noise_.dispersion_, known.noise_.dispersion_, rtol=1e-10)
    assert_allclose(mine.predict_interval(X), known.predict_interval(X), rtol=1e-8)


def test_user_model_without_hessian_is_refused_with_advice(registered_least_squares):
    with pytest.raises(TypeError, match="LeastSquaresModel has no exact Hessian; use curvature='ggn'"):
        RibbonRegressor(LeastSquares(), curvature="hessian").fit(X, REGRESSION)


def test_estimator_can_be_unregistered():
    with pytest.raises(TypeError, match="LeastSquares is not supported"):
        RibbonRegressor(LeastSquares()).fit(X, REGRESSION)


@pytest.mark.parametrize("method", ["raw", "jacobian"])
def test_missing_methods_are_named(method):
    bare = ParametricModel(theta=np.zeros(1), loss=Tweedie(), l2=np.zeros(1))
    with pytest.raises(TypeError, match=f"ParametricModel must define {method}"):
        getattr(bare, method)(X)


def test_a_negative_precision_is_refused():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20.0)
    fitted = BayesianRidge().fit(X, y)
    fitted.lambda_ = -1.0
    with pytest.raises(ValueError, match="scale sample_weight"):
        as_parametric(fitted, y, np.ones(20))
