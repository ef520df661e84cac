"""The linear step against scikit-learn refits at equal weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonRegressor

N = 200
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
Y = X @ [1.0, -0.5, 0.2] + (0.3 + 0.5 * np.abs(X[:, 0])) * rng.normal(size=N)
COUNTS = rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
LABELS = (X[:, 0] + rng.logistic(size=N) > 0).astype(int)

CASES = {
    "ols": (RibbonRegressor, LinearRegression(), Y),
    "ridge": (RibbonRegressor, Ridge(alpha=20.0), Y),
    "poisson": (RibbonRegressor, PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-12), COUNTS),
    "logistic": (RibbonClassifier, LogisticRegression(C=0.1, solver="newton-cholesky", tol=1e-12), LABELS),
}


def coefficients(estimator):
    return np.append(np.ravel(estimator.coef_), estimator.intercept_)


@pytest.mark.parametrize("name", CASES)
def test_refits_equal_scikit_learn_refits(name):
    Ribbon, base, y = CASES[name]
    ribbon = Ribbon(base, alpha=0.7).fit(X, y)
    report = ribbon.check_linearization(X, y, n_refits=3, random_state=0)
    assert report.converged.all()
    assert_allclose(report.weights.sum(axis=0), N)
    for weight, shift in zip(report.weights.T, report.refitted_shifts.T, strict=True):
        refit = base.fit(X, y, sample_weight=weight)
        assert_allclose(ribbon.model_.theta + shift, coefficients(refit), atol=1e-7)


def test_linear_step_equals_sum_of_influences():
    """The step for least squares is -H^-1 sum_i (w_i - 1/n) g_i, computed with numpy."""
    ribbon = RibbonRegressor().fit(X, Y)
    report = ribbon.check_linearization(X, Y, n_refits=2, random_state=1)
    Z = np.column_stack([X, np.ones(N)])
    residual = Y - Z @ ribbon.model_.theta
    shift = np.linalg.solve(Z.T @ Z, Z.T @ ((report.weights - 1) * residual[:, None]))
    assert_allclose(report.shifts, shift, atol=1e-12)
    assert_allclose(report.predictions.std(), (Z @ shift).std(), rtol=1e-12)


def test_error_decreases_with_alpha():
    """The error is second order in the weights, whose standard deviation is 1/sqrt(alpha)."""
    errors = []
    for alpha in (1.0, 100.0):
        ribbon = RibbonClassifier(LogisticRegression(), alpha=alpha).fit(X, LABELS)
        report = ribbon.check_linearization(X, LABELS, n_refits=20, random_state=0)
        errors.append(report.to_frame()["prediction_error"].mean())
    assert 5 < errors[0] / errors[1] < 20


def test_weighted_network_in_a_pipeline(capsys):
    network = MLPRegressor(
        hidden_layer_sizes=(4,), activation="tanh", solver="lbfgs", alpha=3.0, tol=1e-9, max_iter=5000, random_state=0
    )
    weight = np.random.default_rng(2).integers(1, 4, N).astype(float)
    ribbon = RibbonRegressor(make_pipeline(StandardScaler(), network), alpha=3.0).fit(X, Y, sample_weight=weight)
    report = ribbon.check_linearization(X, Y, weight, n_refits=2, random_state=0, verbose=1)
    assert_allclose(report.weights.sum(axis=0), weight.sum())
    assert report.converged.all()
    assert capsys.readouterr().out.count("[linearization] refit") == 2
    assert 0.5 < report.to_frame()["size_ratio"].median() < 2


def test_report_contents():
    ribbon = RibbonRegressor().fit(X, Y)
    report = ribbon.check_linearization(X, Y, n_refits=4, random_state=0)
    frame = report.to_frame()
    names = ["parameter_error", "prediction_error", "size_ratio", "correlation"]
    assert list(frame.columns) == [*names, *(f"newton_{name}" for name in names), "converged"]
    assert (frame["newton_parameter_error"] < 1e-8).all()  # least squares
    assert len(frame) == 4
    assert "4 refits, 4 converged" in repr(report)
    exact = report.refitted_predictions.reshape(-1, 4)
    error = np.linalg.norm(report.predictions.reshape(-1, 4) - exact, axis=0) / np.linalg.norm(exact, axis=0)
    assert_allclose(frame["prediction_error"], error)
    with pytest.raises(ValueError, match="n_refits must be an integer >= 1"):
        ribbon.check_linearization(X, Y, n_refits=0)


def test_rows_other_than_training_rows_are_refused():
    ribbon = RibbonRegressor(Ridge()).fit(X, Y)
    with pytest.raises(ValueError, match=r"must be those that the estimator was fitted on: 200 observations, got 150"):
        ribbon.check_linearization(X[:150], Y[:150])
    with pytest.raises(ValueError, match="got 400"):
        ribbon.check_linearization(X, Y, sample_weight=np.full(N, 2.0))


def test_verdict_names_the_step_that_agrees_with_refits():
    easy = RibbonRegressor(alpha=10.0).fit(X, Y).check_linearization(X, Y, n_refits=5, random_state=0)
    assert easy.verdict == "linear" and repr(easy).endswith("good step: linear")
    assert easy.to_frame()["prediction_error"].median() < 0.3
    few, labels = X[:25], LABELS[:25]
    hard = RibbonClassifier(LogisticRegression(C=3.0), alpha=0.4).fit(few, labels)
    report = hard.check_linearization(few, labels, n_refits=9, random_state=0)
    errors = report.to_frame()[["prediction_error", "newton_prediction_error"]].median()
    assert errors.iloc[0] > 0.3
    assert report.verdict == ("newton" if errors.iloc[1] <= 0.3 else "neither")
