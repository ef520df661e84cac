"""Networks with more effective parameters than their rows can judge: damped, said so, tuned on held-out rows."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import FlexibleModelWarning
from skribbon.metrics import interval_coverage_score
from skribbon.models.base import training_rows

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(1000, 3))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.4 * RNG.standard_normal(1000)
TRAIN, TEST = slice(0, 240), slice(240, 1000)


@pytest.fixture(scope="module")
def network():
    """As people type it, but smaller: 201 parameters by Adam on 240 rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MLPRegressor(hidden_layer_sizes=(40,), max_iter=800, random_state=0).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def ribbon(network):
    with pytest.warns(FlexibleModelWarning):
        return RibbonRegressor(FrozenEstimator(network), noise="dof").fit(X[TRAIN], Y[TRAIN])


def effective_parameters(ribbon, damping):
    """tr(H (H + penalty + damping)^-1), from the Jacobian."""
    rows = training_rows(ribbon.model_, X[TRAIN], Y[TRAIN], np.ones(240))
    J = ribbon.model_.tangent(ribbon.model_.rows(rows.X)).jacobian()[:, 0]
    H = J.T @ J / 240
    return np.trace(np.linalg.solve(H + np.diag(ribbon.model_.l2 + damping), H))


def test_the_damping_of_a_network_short_of_a_minimum(ribbon):
    assert effective_parameters(ribbon, 1e-8) > 0.4 * 240
    assert ribbon.curvature_.damping == pytest.approx(0.01 * np.var(Y[TRAIN]))
    expected = effective_parameters(ribbon, ribbon.curvature_.damping)
    assert ribbon.effective_parameters_ == pytest.approx(expected, rel=1e-6)
    assert expected < 0.25 * 240


def test_no_more_than_a_quarter_of_a_parameter_per_row_is_left(network):
    few = RibbonRegressor(FrozenEstimator(network), noise="dof")
    with pytest.warns(FlexibleModelWarning):
        few.fit(X[TRAIN][:80], Y[TRAIN][:80])
    assert few.effective_parameters_ == pytest.approx(0.25 * 80, rel=1e-6)
    assert few.curvature_.damping > 0.01 * np.var(Y[TRAIN][:80])


def test_intervals_have_the_width_that_new_rows_ask_for(network, ribbon):
    intervals = ribbon.predict_interval(X[TEST])
    oracle = 2 * np.quantile(np.abs(Y[TEST] - network.predict(X[TEST])), 0.9)
    assert 0.86 < interval_coverage_score(Y[TEST], intervals) < 0.97
    assert np.mean(intervals[:, 1] - intervals[:, 0]) < 1.35 * oracle
    undamped = RibbonRegressor(FrozenEstimator(network), noise="dof", damping=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = undamped.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert np.mean(wide[:, 1] - wide[:, 0]) > 1.5 * np.mean(intervals[:, 1] - intervals[:, 0])


def test_one_diagnosis_with_one_cure(network):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        RibbonRegressor(FrozenEstimator(network)).fit(X[TRAIN], Y[TRAIN])
    assert [w.category for w in said] == [FlexibleModelWarning]
    assert "RibbonCV" in str(said[0].message)


def test_what_is_not_damped(network):
    linear = RibbonRegressor(LinearRegression(), noise="dof").fit(np.random.default_rng(0).normal(size=(20, 8)), Y[:20])
    assert linear.effective_parameters_ == pytest.approx(9)
    stated = RibbonRegressor(FrozenEstimator(network), damping=1e-3, noise="dof")
    assert stated.fit(X[TRAIN], Y[TRAIN]).curvature_.damping == 1e-3
    at_a_minimum = MLPRegressor(
        hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", alpha=0.1, max_iter=5000, random_state=0
    )
    there = RibbonRegressor(at_a_minimum, noise="dof").fit(X[:150], Y[:150])
    assert there.effective_parameters_ > 0.25 * 150 and there.curvature_.damping == "auto"
    few = MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    assert RibbonRegressor(few, noise="dof").fit(X, Y).curvature_.damping == "auto"


def test_a_classifier_too():
    labels = (np.sign(Y - np.median(Y)) > 0).astype(int)
    network = MLPClassifier(hidden_layer_sizes=(40,), alpha=0.1, solver="lbfgs", max_iter=20, random_state=0)
    with pytest.warns(FlexibleModelWarning):
        ribbon = RibbonClassifier(network).fit(X[:120], labels[:120])
    assert ribbon.effective_parameters_ == pytest.approx(0.25 * 120, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_held_out_rows_choose_the_damping_by_themselves():
    base = MLPRegressor(hidden_layer_sizes=(40,), max_iter=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FlexibleModelWarning)  # nothing to advise
        tuned = RibbonCV(base, cv=2).fit(X[TRAIN], Y[TRAIN])
    tried = tuned.cv_results_["damping"][:: len(np.unique(tuned.cv_results_["alpha"]))]
    np.testing.assert_array_equal(tried, [np.nan, 1e-3, 1e-2, 1e-1, 1.0])
    assert 0.84 < interval_coverage_score(Y[TEST], tuned.predict_interval(X[TEST])) < 0.97
    assert "damping" not in RibbonCV(cv=2).fit(X, Y).cv_results_
    assert "damping" not in RibbonCV(base, cv=2, dampings=None).fit(X[:60], Y[:60]).cv_results_


def test_leave_one_out_cannot_ruin_a_network():
    base = MLPRegressor(hidden_layer_sizes=(40,), solver="lbfgs", alpha=0.1, max_iter=300, random_state=0)
    with pytest.raises(ValueError, match=r"cv='loo' needs a model that cannot follow single rows"):
        RibbonCV(base, cv="loo").fit(X[TRAIN], Y[TRAIN])


def test_a_network_too_large_for_a_dense_curvature(network):
    undamped = RibbonRegressor(FrozenEstimator(network), curvature="kfac", damping=1e-8, noise="dof", random_state=0)
    with pytest.warns(FlexibleModelWarning):
        ribbon = clone(undamped).set_params(damping="auto").fit(X[TRAIN], Y[TRAIN])
    assert ribbon.effective_parameters_ == pytest.approx(0.25 * 240, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        undamped.fit(X[TRAIN], Y[TRAIN])
    wide, narrow = (np.diff(r.predict_interval(X[TEST])).mean() for r in (undamped, ribbon))
    assert narrow < wide / 2


def test_leave_one_out_scores_that_flatter_are_said_to():
    base = MLPRegressor(
        hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", alpha=0.1, max_iter=5000, random_state=0
    )
    with pytest.warns(FlexibleModelWarning, match="loo_score_ is too optimistic"):
        ribbon = RibbonRegressor(base, noise="dof", correction="HC3", store_loo=True).fit(X[:150], Y[:150])
    new = ribbon.log_density(X[TEST], Y[TEST]).mean()
    assert ribbon.loo_score_ > new + 0.1  # which is what the warning says


def test_networks_are_corrected_by_each_rows_own_leverage(ribbon):
    assert ribbon.correction_ == "HC2"
    assert ribbon.ribbon_.freedom is not None
