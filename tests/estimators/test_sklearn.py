"""The scikit-learn interface: checks, cloning, pickling, search, routing, names, sparse input, seeds."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    BayesianRidge,
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator
from spelling import BEFORE_1_8, assert_checked

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor

TIGHT = {"solver": "newton-cholesky", "tol": 1e-10}
SMALL_MLP = {"solver": "lbfgs", "hidden_layer_sizes": (5,), "max_iter": 25}


def data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [2.0, -1.0, 0.5] + 1 + rng.normal(size=n), rng.integers(1, 5, n).astype(float)


X, Y, WEIGHT = data()
LABEL = np.where(np.random.default_rng(1).normal(size=len(Y)) < Y - 1, 1, 0)
COUNT = np.random.default_rng(2).poisson(np.exp(0.3 * X[:, 0] + 1)).astype(float)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


# ---------------------------------------------------------------------- check_estimator

CHECKED = {
    "regressor": RibbonRegressor(),
    "ridge": RibbonRegressor(Ridge()),
    "poisson": RibbonRegressor(PoissonRegressor()),
    # lbfgs takes long on their data, but before 1.8 the other solver failed their checks by itself
    "gamma": RibbonRegressor(GammaRegressor(solver="lbfgs" if BEFORE_1_8 else "newton-cholesky")),
    "perceptron": RibbonRegressor(MLPRegressor(**SMALL_MLP)),
    "classifier": RibbonClassifier(),
    "logistic": RibbonClassifier(LogisticRegression(solver="newton-cholesky")),
    "perceptron classifier": RibbonClassifier(MLPClassifier(**SMALL_MLP)),
    "tuned regressor": RibbonCV(alphas=[0.1, 1.0, 10.0], cv=2),
    # checks of the base model alone, run on the ribbon around it
    "tuned classifier": RibbonCV(LogisticRegression(), alphas=[0.3, 3.0], cv=2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKED)
def test_check_estimator_passes(name):
    estimator = CHECKED[name]
    more = 3 if is_classifier(estimator) else int(get_tags(estimator).target_tags.multi_output)
    assert_checked(check_estimator(estimator, on_fail=None, on_skip=None), 60 + more, least=58 + more)


# ---------------------------------------------------------------------- clone, pickle, search


@pytest.mark.parametrize(
    "ribbon",
    [
        RibbonRegressor(Ridge(2.0), alpha=0.3, predictive="pushforward", n_draws=20, random_state=1, noise=0.5),
        RibbonClassifier(LogisticRegression(C=0.2), alpha=0.3, curvature="ggn", damping=0.1),
    ],
    ids=["regressor", "classifier"],
)
def test_clone_keeps_parameters_and_no_fit(ribbon):
    target = LABEL if is_classifier(ribbon) else Y
    copy = clone(ribbon.fit(X, target))
    assert not hasattr(copy, "estimator_")
    assert {k: v for k, v in copy.get_params().items() if k != "estimator"} == {
        k: v for k, v in ribbon.get_params().items() if k != "estimator"
    }
    np.testing.assert_array_equal(copy.fit(X, target).covariance_, ribbon.covariance_)


FITTED = {
    "gaussian": lambda: RibbonRegressor(Ridge()).fit(X, Y),
    "pushforward": lambda: RibbonRegressor(predictive="pushforward", random_state=0).fit(X, Y),
    "poisson": lambda: RibbonRegressor(PoissonRegressor()).fit(X, COUNT),
    "pipeline": lambda: RibbonRegressor(make_pipeline(StandardScaler(), Ridge())).fit(FRAME, Y),
    "log target": lambda: RibbonRegressor(TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp)).fit(
        X, np.exp(Y)
    ),
    "perceptron": lambda: RibbonRegressor(
        MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", alpha=1.0, max_iter=5000, activation="tanh"),
        random_state=0,
    ).fit(X, Y),
}


@pytest.mark.parametrize("name", FITTED)
def test_pickle_round_trip_of_a_fitted_regressor(name):
    ribbon = FITTED[name]()
    copy = pickle.loads(pickle.dumps(ribbon))
    new = FRAME if name == "pipeline" else X
    np.testing.assert_array_equal(copy.predict_interval(new), ribbon.predict_interval(new))
    np.testing.assert_array_equal(copy.predict_std(new), ribbon.predict_std(new))
    draws = (r.predict_samples(new, random_state=0) for r in (copy, ribbon))
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("label", [LABEL, np.digitize(Y, [0, 2])], ids=["binary", "three classes"])
def test_pickle_round_trip_of_a_fitted_classifier(label):
    ribbon = RibbonClassifier().fit(X, label)
    copy = pickle.loads(pickle.dumps(ribbon))
    np.testing.assert_array_equal(copy.predict_proba(X), ribbon.predict_proba(X))
    np.testing.assert_array_equal(copy.predict_proba_interval(X), ribbon.predict_proba_interval(X))


def test_fitted_state_does_not_grow_with_the_rows():
    small, large = (len(pickle.dumps(RibbonRegressor(Ridge()).fit(*data(n)[:2]))) for n in (100, 10_000))
    assert large < small + 200


def test_fit_does_not_modify_the_given_estimator():
    base = Ridge()
    ribbon = RibbonRegressor(base, random_state=3).fit(X, Y)
    assert ribbon.estimator is base
    assert not hasattr(base, "coef_")


def test_grid_search_over_base_model_penalty():
    search = GridSearchCV(RibbonRegressor(Ridge()), {"estimator__alpha": [0.01, 1e5]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"estimator__alpha": 0.01}
    assert search.best_estimator_.estimator_.alpha == 0.01
    np.testing.assert_allclose(
        search.best_estimator_.covariance_, RibbonRegressor(Ridge(alpha=0.01)).fit(X, Y).covariance_
    )


def test_grid_search_over_alpha_with_uncertainty_scorer():
    def narrowness(ribbon, X, y):
        return -ribbon.predict_std(X).mean()

    search = GridSearchCV(RibbonRegressor(), {"alpha": [0.1, 10.0, 1.0]}, cv=3, scoring=narrowness).fit(X, Y)
    assert search.best_params_ == {"alpha": 10.0}


def test_scores_are_r2_and_accuracy():
    expected = cross_val_score(Ridge(), X, Y, cv=3)
    np.testing.assert_array_equal(cross_val_score(RibbonRegressor(Ridge()), X, Y, cv=3), expected)
    ribbon = RibbonClassifier().fit(X, LABEL)
    assert ribbon.score(X, LABEL) == np.mean(ribbon.predict(X) == LABEL)


def test_is_regressor_and_is_classifier():
    assert is_regressor(RibbonRegressor())
    assert is_classifier(RibbonClassifier())


def test_last_step_of_a_pipeline_returns_standard_deviations():
    pipeline = make_pipeline(StandardScaler(), RibbonRegressor()).fit(X, Y)
    y_pred, y_std = pipeline.predict(X, return_std=True)
    np.testing.assert_allclose(y_std, RibbonRegressor().fit(X, Y).predict_std(X), rtol=1e-9)
    np.testing.assert_array_equal(y_pred, pipeline.predict(X))


# ---------------------------------------------------------------------- weights and metadata routing


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def weighted_reference():
    return RibbonRegressor(Ridge()).fit(X, Y, sample_weight=WEIGHT)


def assert_weighted_alike(ribbon, reference, rtol=1e-10):
    np.testing.assert_allclose(ribbon.predict(X), reference.predict(X), rtol=rtol)
    np.testing.assert_allclose(ribbon.predict_std(X), reference.predict_std(X), rtol=rtol)


def test_weights_reach_the_base_model_and_the_curvature():
    ribbon = weighted_reference()
    np.testing.assert_array_equal(ribbon.estimator_.coef_, Ridge().fit(X, Y, sample_weight=WEIGHT).coef_)
    frozen = RibbonRegressor(FrozenEstimator(Ridge().fit(X, Y, sample_weight=WEIGHT)))
    np.testing.assert_array_equal(frozen.fit(X, Y, sample_weight=WEIGHT).covariance_, ribbon.covariance_)
    assert not np.allclose(ribbon.covariance_, RibbonRegressor(Ridge()).fit(X, Y).covariance_, rtol=0.1)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("request_it", [True, False])
def test_metadata_request_controls_weights(request_it):
    ribbon = RibbonRegressor(Ridge().set_fit_request(sample_weight=request_it)).fit(X, Y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=False):
        weight = WEIGHT if request_it else None
        reference = RibbonRegressor(Ridge()).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(ribbon.estimator_.coef_, reference.estimator_.coef_)
    np.testing.assert_array_equal(ribbon.covariance_, reference.covariance_)
    assert ribbon.noise_.dispersion_ == reference.noise_.dispersion_


@pytest.mark.usefixtures("routing")
def test_routing_without_a_request_is_refused():
    with pytest.raises(ValueError, match="sample_weight"):
        RibbonRegressor(Ridge()).fit(X, Y, sample_weight=WEIGHT)


@pytest.mark.usefixtures("routing")
def test_default_estimators_request_weights():
    ribbon = RibbonRegressor().fit(X, Y, sample_weight=WEIGHT)
    classifier = RibbonClassifier().fit(X, LABEL, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=False):
        assert_weighted_alike(ribbon, RibbonRegressor().fit(X, Y, sample_weight=WEIGHT))
        expected = RibbonClassifier().fit(X, LABEL, sample_weight=WEIGHT).covariance_
    np.testing.assert_array_equal(classifier.covariance_, expected)


@pytest.mark.usefixtures("routing")
def test_routing_without_weights_fits():
    np.testing.assert_array_equal(RibbonRegressor(Ridge()).fit(X, Y).predict(X), Ridge().fit(X, Y).predict(X))


def test_weights_reach_the_last_pipeline_step():
    ribbon = RibbonRegressor(make_pipeline(StandardScaler(), LinearRegression())).fit(X, Y, sample_weight=WEIGHT)
    assert_weighted_alike(ribbon, RibbonRegressor().fit(X, Y, sample_weight=WEIGHT), rtol=1e-8)


def test_weights_reach_nested_pipelines_and_target_transformers():
    inner = make_pipeline(StandardScaler(), LinearRegression())
    reference = RibbonRegressor().fit(X, Y, sample_weight=WEIGHT)
    for base in (
        make_pipeline(StandardScaler(), inner),
        TransformedTargetRegressor(inner, transformer=StandardScaler()),
    ):
        assert_weighted_alike(RibbonRegressor(base).fit(X, Y, sample_weight=WEIGHT), reference, rtol=1e-6)


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_through_a_pipeline():
    steps = (
        StandardScaler().set_fit_request(sample_weight=False),
        LinearRegression().set_fit_request(sample_weight=True),
    )
    ribbon = RibbonRegressor(make_pipeline(*steps)).fit(X, Y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=False):
        assert_weighted_alike(ribbon, RibbonRegressor().fit(X, Y, sample_weight=WEIGHT), rtol=1e-8)


@pytest.mark.usefixtures("routing")
def test_transformer_weights_are_not_model_weights():
    steps = (
        StandardScaler().set_fit_request(sample_weight=True),
        LinearRegression().set_fit_request(sample_weight=False),
    )
    ribbon = RibbonRegressor(make_pipeline(*steps)).fit(X, Y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=False):
        assert_weighted_alike(ribbon, RibbonRegressor().fit(X, Y), rtol=1e-8)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("regressor", [None, LinearRegression()], ids=["default", "given"])
def test_weights_are_routed_through_a_target_transformer(regressor):
    """The curvature uses the weights that the inner fit receives, so the model is at its minimum."""
    if regressor is None and BEFORE_1_8:
        pytest.skip("scikit-learn's default regressor asked for no weights then")
    if regressor is not None:
        regressor = regressor.set_fit_request(sample_weight=True)
    base = TransformedTargetRegressor(regressor, transformer=StandardScaler())
    ribbon = RibbonRegressor(base).fit(X, Y, sample_weight=WEIGHT)
    assert ribbon.stationarity_ < 1e-6
    with sklearn.config_context(enable_metadata_routing=False):
        assert_weighted_alike(ribbon, RibbonRegressor().fit(X, Y, sample_weight=WEIGHT), rtol=1e-6)


@pytest.mark.usefixtures("routing")
def test_weights_with_a_frozen_model_weight_the_curvature():
    frozen = FrozenEstimator(Ridge().fit(X, Y, sample_weight=WEIGHT))
    ribbon = RibbonRegressor(frozen).fit(X, Y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=False):
        np.testing.assert_array_equal(ribbon.covariance_, weighted_reference().covariance_)


# ---------------------------------------------------------------------- input


def test_feature_names_are_kept_and_checked():
    ribbon = RibbonRegressor(Ridge()).fit(FRAME, Y)
    assert ribbon.n_features_in_ == 3
    assert list(ribbon.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(ribbon.predict_interval(FRAME), RibbonRegressor(Ridge()).fit(X, Y).predict_interval(X))
    for wrong in (FRAME[["c", "b", "a"]], FRAME.rename(columns={"a": "z"})):
        for method in (ribbon.predict, ribbon.predict_interval, ribbon.predict_std, ribbon.predict_samples):
            with pytest.raises(ValueError, match="feature names"):
                method(wrong)


def test_classifier_checks_feature_names():
    ribbon = RibbonClassifier().fit(FRAME, LABEL)
    assert list(ribbon.feature_names_in_) == ["a", "b", "c"]
    for method in (ribbon.predict, ribbon.predict_proba, ribbon.predict_proba_interval, ribbon.predict_proba_samples):
        with pytest.raises(ValueError, match="feature names"):
            method(FRAME[["c", "b", "a"]])


def test_series_target_is_accepted():
    np.testing.assert_array_equal(
        RibbonRegressor().fit(FRAME, pd.Series(Y, index=FRAME.index[::-1])).covariance_,
        RibbonRegressor().fit(FRAME, Y).covariance_,
    )


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize(
    ("base", "y"),
    [(LinearRegression(), Y), (Ridge(solver="sparse_cg", tol=1e-12), Y), (PoissonRegressor(tol=1e-10), COUNT)],
    ids=["least squares", "ridge", "poisson"],
)
def test_sparse_rows_equal_dense_rows(base, y, kind):
    dense = np.where(np.abs(X) > 0.5, X, 0)
    by_dense = RibbonRegressor(clone(base)).fit(dense, y)
    by_sparse = RibbonRegressor(clone(base)).fit(kind(dense), y)
    np.testing.assert_allclose(by_sparse.covariance_, by_dense.covariance_, rtol=1e-5)
    for method in ("predict_interval", "predict_std"):
        expected = getattr(by_dense, method)(dense)
        np.testing.assert_allclose(getattr(by_sparse, method)(kind(dense)), expected, rtol=1e-5)


@pytest.mark.parametrize("temperature", ["auto", 1.0])
@pytest.mark.parametrize("label", [LABEL, np.digitize(Y, [0, 2])], ids=["binary", "three classes"])
def test_classifier_accepts_sparse_rows(label, temperature):
    dense = np.where(np.abs(X) > 0.5, X, 0)
    ribbon = RibbonClassifier(LogisticRegression(tol=1e-10), temperature=temperature).fit(
        sparse.csr_array(dense), label
    )
    expected = clone(ribbon).fit(dense, label).predict_proba(dense)
    np.testing.assert_allclose(ribbon.predict_proba(sparse.csr_array(dense)), expected, rtol=1e-5)


def test_float32_rows_are_computed_in_float64():
    ribbon = RibbonRegressor(Ridge()).fit(X.astype(np.float32), Y)
    assert ribbon.covariance_.dtype == np.float64
    np.testing.assert_allclose(ribbon.covariance_, RibbonRegressor(Ridge()).fit(X, Y).covariance_, rtol=1e-4)


def test_tags_come_from_the_base_model():
    for base in (Ridge(), MLPRegressor(), BayesianRidge(), PoissonRegressor(), GammaRegressor()):
        tags, expected = get_tags(RibbonRegressor(base)), get_tags(base)
        assert tags.input_tags.sparse == expected.input_tags.sparse
        assert tags.target_tags.positive_only == expected.target_tags.positive_only
        assert tags.target_tags.multi_output == isinstance(base, Ridge | MLPRegressor)
        assert tags.target_tags.required
    assert get_tags(RibbonRegressor(Ridge())).input_tags.sparse
    assert not get_tags(RibbonRegressor(BayesianRidge())).input_tags.sparse
    assert get_tags(RibbonRegressor(PoissonRegressor())).target_tags.positive_only


def test_tags_and_repr_work_with_estimator_none():
    assert get_tags(RibbonRegressor("not an estimator")).estimator_type == "regressor"
    assert repr(RibbonRegressor(Ridge(), alpha=2.0)) == "RibbonRegressor(alpha=2.0, estimator=Ridge())"


# ---------------------------------------------------------------------- seeds


def seeded(base, **params):
    return RibbonRegressor(base, random_state=0, **params)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_random_state_seeds_unseeded_steps():
    mlp = MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", max_iter=20)
    base = make_pipeline(StandardScaler(), mlp)
    one, same = (seeded(base).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), same.predict(X))
    assert isinstance(one.estimator_[-1].random_state, int)
    assert mlp.random_state is None  # the user's own object is untouched
    other = RibbonRegressor(base, random_state=1).fit(X, Y)
    assert not np.array_equal(one.predict(X), other.predict(X))


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_random_state_does_not_overwrite_a_seed():
    mlp = MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", max_iter=20, random_state=7)
    ribbon = seeded(mlp).fit(X, Y)
    assert ribbon.estimator_.random_state == 7
    np.testing.assert_array_equal(ribbon.predict(X), clone(mlp).fit(X, Y).predict(X))


def test_no_random_state_seeds_nothing():
    assert RibbonClassifier(LogisticRegression()).fit(X, LABEL).estimator_.random_state is None


def test_a_frozen_model_is_not_reseeded():
    model = LogisticRegression().fit(X, LABEL)
    ribbon = RibbonClassifier(FrozenEstimator(model), random_state=0).fit(X, LABEL)
    assert ribbon.estimator_.estimator.random_state is None


def test_pipeline_columns_may_be_reordered_or_added():
    """Every predict method accepts reordered and additional columns, like the pipeline's own predict."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"area": rng.uniform(30, 90, 80), "place": rng.choice(["here", "there"], 80)})
    y = table["area"] + 10 * (table["place"] == "here") + rng.normal(size=80)
    prepare = make_column_transformer((StandardScaler(), ["area"]), (OneHotEncoder(drop="first"), ["place"]))
    ribbon = RibbonRegressor(make_pipeline(prepare, Ridge())).fit(table, y)
    other = table[["place", "area"]].assign(more=1.0)
    np.testing.assert_array_equal(ribbon.predict(other), ribbon.predict(table))
    np.testing.assert_array_equal(ribbon.predict_interval(other), ribbon.predict_interval(table))
    with pytest.raises(ValueError, match="missing"):
        ribbon.predict_interval(table[["area"]])


def test_pipeline_accepts_text():
    words = pd.Series(["good and cheap", "bad", "good", "cheap and bad"] * 20)
    y = words.str.contains("good") + np.random.default_rng(0).normal(size=80)
    ribbon = RibbonRegressor(make_pipeline(TfidfVectorizer(), Ridge())).fit(words, y)
    lower, upper = ribbon.predict_interval(pd.Series(["good", "bad"]), kind="confidence").T
    assert lower[0] > upper[1]


# ---------------------------------------------------------------------- fitted attributes that other tools read


@pytest.mark.parametrize("wrap", [RibbonRegressor, RibbonCV], ids=["ribbon", "tuned"])
def test_rfe_ranking_equals_base_model_ranking(wrap):
    rows = np.column_stack([X, 0.1 * np.random.default_rng(0).normal(size=(len(Y), 2))])
    expected = RFE(Ridge(), n_features_to_select=2).fit(rows, Y)
    found = RFE(wrap(Ridge()), n_features_to_select=2).fit(rows, Y)
    np.testing.assert_array_equal(found.ranking_, expected.ranking_)
    np.testing.assert_array_equal(found.estimator_.coef_, expected.estimator_.coef_)
    assert found.estimator_.intercept_ == expected.estimator_.intercept_


@pytest.mark.parametrize("base", [MLPRegressor(**SMALL_MLP), make_pipeline(StandardScaler(), Ridge())])
@pytest.mark.filterwarnings("ignore")
def test_coef_exists_only_if_the_base_model_has_it(base):
    ribbon = RibbonRegressor(base)
    assert not hasattr(ribbon, "coef_")  # not fitted yet
    assert not hasattr(ribbon.fit(X, Y), "coef_")
    assert not hasattr(RibbonRegressor(Ridge()), "coef_")


def test_frozen_search_uses_its_best_estimator():
    pipeline = make_pipeline(StandardScaler(), Ridge())
    search = GridSearchCV(pipeline, {"ridge__alpha": [0.1, 10.0, 1e4]}, cv=3).fit(FRAME, Y)
    found = RibbonRegressor(FrozenEstimator(search)).fit(FRAME, Y)
    expected = RibbonRegressor(FrozenEstimator(search.best_estimator_)).fit(FRAME, Y)
    np.testing.assert_array_equal(found.predict_interval(FRAME), expected.predict_interval(FRAME))
    np.testing.assert_array_equal(found.predict(FRAME), search.predict(FRAME))
    report = found.check_linearization(FRAME, Y, n_refits=2, random_state=0)
    assert report.to_frame().equals(expected.check_linearization(FRAME, Y, n_refits=2, random_state=0).to_frame())
    unfinished = GridSearchCV(Ridge(), {"alpha": [1.0]}, refit=False).fit(X, Y)
    with pytest.raises(TypeError, match=r"GridSearchCV is not supported.* with refit=True"):
        RibbonRegressor(FrozenEstimator(unfinished)).fit(X, Y)


@pytest.mark.parametrize("estimator", [RibbonRegressor(), RibbonClassifier(), RibbonCV(alphas=[1.0, 3.0])])
def test_html_diagram_shows_chosen_settings(estimator):
    estimator = clone(estimator)
    assert "Fitted</caption>" not in estimator._repr_html_()
    estimator.fit(X, LABEL if is_classifier(estimator) else Y)
    ribbon = getattr(estimator, "estimator_", None) if isinstance(estimator, RibbonCV) else estimator
    chosen = {"alpha": f"{ribbon.alpha:.4g}", "correction": ribbon.correction_}
    if not is_classifier(estimator):
        chosen["law"] = type(ribbon.law_).__name__
    for html in (estimator._repr_html_(), estimator._repr_mimebundle_()["text/html"]):
        assert all(f"<th>{name}</th><td>{value}</td>" in html for name, value in chosen.items())
    assert eval(repr(estimator)).get_params().keys() == estimator.get_params().keys()  # still says how to make it


def test_html_diagram_shows_the_family_of_a_glm():
    html = RibbonRegressor(PoissonRegressor()).fit(X, COUNT)._repr_html_()
    assert "<th>law</th><td>Tweedie(power=1, link=&#x27;log&#x27;)</td>" in html
