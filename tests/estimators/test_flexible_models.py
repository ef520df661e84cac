"""Overparameterized networks are damped, warn, and can be tuned on held-out rows."""

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
    """Typical network, but smaller: 201 parameters, trained by Adam on 240 rows."""
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


def test_unconverged_network_is_damped(ribbon):
    assert effective_parameters(ribbon, 1e-8) > 0.4 * 240
    assert ribbon.curvature_.damping == pytest.approx(0.01 * np.var(Y[TRAIN]))
    expected = effective_parameters(ribbon, ribbon.curvature_.damping)
    assert ribbon.effective_parameters_ == pytest.approx(expected, rel=1e-6)
    assert expected < 0.25 * 240


def test_damping_leaves_at_most_a_quarter_parameter_per_row(network):
    few = RibbonRegressor(FrozenEstimator(network), noise="dof")
    with pytest.warns(FlexibleModelWarning):
        few.fit(X[TRAIN][:80], Y[TRAIN][:80])
    assert few.effective_parameters_ == pytest.approx(0.25 * 80, rel=1e-6)
    assert few.curvature_.damping > 0.01 * np.var(Y[TRAIN][:80])


def test_damped_interval_width_matches_held_out_errors(network, ribbon):
    intervals = ribbon.predict_interval(X[TEST])
    oracle = 2 * np.quantile(np.abs(Y[TEST] - network.predict(X[TEST])), 0.9)
    assert 0.86 < interval_coverage_score(Y[TEST], intervals) < 0.97
    assert np.mean(intervals[:, 1] - intervals[:, 0]) < 1.35 * oracle
    undamped = RibbonRegressor(FrozenEstimator(network), noise="dof", damping=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = undamped.fit(X[TRAIN], Y[TRAIN]).predict_interval(X[TEST])
    assert np.mean(wide[:, 1] - wide[:, 0]) > 1.5 * np.mean(intervals[:, 1] - intervals[:, 0])


def test_flexible_network_raises_one_warning_with_advice(network):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        RibbonRegressor(FrozenEstimator(network)).fit(X[TRAIN], Y[TRAIN])
    assert [w.category for w in said] == [FlexibleModelWarning]
    assert "Try: conformalize, with rows" in str(said[0].message)


def test_damping_is_skipped_if_unneeded_or_given(network):
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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_flexible_classifier_is_damped():
    labels = (np.sign(Y - np.median(Y)) > 0).astype(int)
    network = MLPClassifier(hidden_layer_sizes=(40,), alpha=0.1, solver="lbfgs", max_iter=20, random_state=0)
    with pytest.warns(FlexibleModelWarning):
        ribbon = RibbonClassifier(network, temperature=1.0).fit(X[:120], labels[:120])
    assert ribbon.effective_parameters_ == pytest.approx(0.25 * 120, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_flexible_classifier_with_refits_is_damped_less_and_does_not_warn():
    labels = (np.sign(Y - np.median(Y)) > 0).astype(int)
    network = MLPClassifier(hidden_layer_sizes=(40,), solver="lbfgs", max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FlexibleModelWarning)
        ribbon = RibbonClassifier(network).fit(X[:120], labels[:120])
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_fits) == ("folds", 5)
    assert ribbon.effective_parameters_ == pytest.approx(0.5 * 120, rel=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ribbon_cv_of_a_flexible_network_covers_without_advice():
    base = MLPRegressor(hidden_layer_sizes=(40,), max_iter=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FlexibleModelWarning)  # nothing to advise
        tuned = RibbonCV(base, cv=2).fit(X[TRAIN], Y[TRAIN])
    assert 0.84 < interval_coverage_score(Y[TEST], tuned.predict_interval(X[TEST])) < 0.97


def test_leave_one_out_tuning_of_flexible_network_is_refused():
    base = MLPRegressor(hidden_layer_sizes=(40,), solver="lbfgs", alpha=0.1, max_iter=300, random_state=0)
    with pytest.raises(ValueError, match=r"cv='loo' needs at most 0\.15 effective parameters per row"):
        RibbonCV(base, cv="loo").fit(X[TRAIN], Y[TRAIN])


def test_network_too_large_for_dense_curvature(network):
    undamped = RibbonRegressor(FrozenEstimator(network), curvature="kfac", damping=1e-8, noise="dof", random_state=0)
    with pytest.warns(FlexibleModelWarning):
        ribbon = clone(undamped).set_params(damping="auto").fit(X[TRAIN], Y[TRAIN])
    assert ribbon.effective_parameters_ == pytest.approx(0.25 * 240, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        undamped.fit(X[TRAIN], Y[TRAIN])
    wide, narrow = (np.diff(r.predict_interval(X[TEST])).mean() for r in (undamped, ribbon))
    assert narrow < wide / 2


def test_optimistic_leave_one_out_score_warns():
    base = MLPRegressor(
        hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", alpha=0.1, max_iter=5000, random_state=0
    )
    with pytest.warns(FlexibleModelWarning, match="loo_score_ is too optimistic"):
        ribbon = RibbonRegressor(base, noise="dof", correction="HC3", store_loo=True).fit(X[:150], Y[:150])
    new = ribbon.log_density(X[TEST], Y[TEST]).mean()
    assert ribbon.loo_score_ > new + 0.1  # which is what the warning says


def test_network_correction_uses_row_leverages(ribbon):
    assert ribbon.correction_ == "HC2"
    assert ribbon.ribbon_.freedom is not None
