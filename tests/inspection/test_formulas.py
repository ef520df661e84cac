"""Parameters of functions that users write: names, standard errors, tests."""

import warnings
from collections import namedtuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, curve_fit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skribbon import AutogradClassifier, AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import RibbonWarning
from skribbon.inspection import coefficients, contrast, summary, wald_test
from skribbon.models.architectures import Tree, cnn, michaelis_menten, mlp, monotone

N = 200
RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 5, size=(N, 1))
Y = 2 * X[:, 0] / (0.5 + X[:, 0]) + 0.1 * (1 + X[:, 0] / 3) * RNG.normal(size=N)
WEIGHT = RNG.integers(1, 4, N)
GROUP = np.repeat(np.arange(40), 5)


def saturation(params, X):
    return params["Vm"] * X[:, 0] / (params["K"] + X[:, 0])


def enzyme(**settings):
    return AutogradRegressor(saturation, {"Vm": 1.0, "K": 1.0}, polish=True, **settings)


def ribbon(base=None, **settings):
    return RibbonRegressor(base or enzyme(), correction="HC0", noise="dof", **settings)


def curve(x, Vm, K):
    return Vm * x / (K + x)


def sandwich(weight, unit):
    """Exact sandwich of least squares by finite differences: (Vm, K) and their covariance under Dirichlet weights."""
    copies = np.repeat(np.arange(N), weight)
    theta, _ = curve_fit(curve, X[copies, 0], Y[copies], [1.0, 1.0], xtol=1e-14)

    J = np.stack([approx_fprime(theta, lambda t, x=x: curve(x, *t), 1e-7) for x in X[:, 0]])
    U = (weight * (curve(X[:, 0], *theta) - Y))[:, None] * J
    H = np.linalg.inv(J.T @ (weight[:, None] * J))
    U = U / np.sqrt(weight)[:, None] if unit is None else np.stack([U[unit == g].sum(axis=0) for g in np.unique(unit)])
    n = weight.sum() if unit is None else len(U)  # n Dirichlet weights have variances of n / (n + 1) those of refits
    return theta, H @ (U.T @ U) @ H * n / (n + 1)


def test_parameters_have_the_exact_sandwich():
    theta, cov = sandwich(np.ones(N, dtype=int), None)
    fitted = ribbon(curvature="ggn").fit(X, Y)
    table = coefficients(fitted)
    assert table["term"].tolist() == ["Vm", "K"]
    assert_allclose(table["estimate"], theta, rtol=1e-6)
    assert_allclose(table["std_error"], np.sqrt(np.diag(cov)), rtol=1e-4)
    c = np.array([1.0, -4.0])
    chi2 = (c @ theta) ** 2 / (c @ cov @ c)
    assert_allclose(wald_test(fitted, "Vm = 4 * K")["statistic"], chi2, rtol=1e-3)
    assert_allclose(contrast(fitted, "Vm - 4*K")["std_error"], np.sqrt(c @ cov @ c), rtol=1e-4)
    assert_allclose(coefficients(fitted, exponentiate=True)["estimate"], np.exp(theta), rtol=1e-6)
    assert "Vm" in repr(summary(fitted))


def test_standard_errors_of_parameters_are_those_of_refits():
    rng = np.random.default_rng(1)
    samples = [rng.integers(0, N, N) for _ in range(300)]
    refits = np.array([curve_fit(curve, X[rows, 0], Y[rows], [1.0, 1.0])[0] for rows in samples])
    assert_allclose(coefficients(ribbon().fit(X, Y))["std_error"], refits.std(axis=0), rtol=0.12)


@pytest.mark.parametrize("groups", [None, GROUP])
def test_parameters_with_weights_and_groups(groups):
    theta, cov = sandwich(WEIGHT, groups)
    fitted = ribbon(curvature="ggn").fit(X, Y, sample_weight=WEIGHT, groups=groups)
    table = coefficients(fitted)
    assert_allclose(table["estimate"], theta, rtol=1e-6)
    assert_allclose(table["std_error"], np.sqrt(np.diag(cov)), rtol=1e-4)


def test_parameters_inside_pipelines_and_tuned_estimators():
    expected = coefficients(ribbon().fit(X, Y))
    piped = ribbon(make_pipeline(FunctionTransformer(), enzyme())).fit(X, Y)
    tuned = RibbonCV(ribbon(), alphas=[1.0]).fit(X, Y)
    for fitted in (piped, tuned):
        assert_allclose(coefficients(fitted)["std_error"], expected["std_error"], rtol=1e-6)
    assert wald_test(tuned, "K = 0.5, Vm = 2")["df_constraints"].item() == 2


def test_parameters_of_a_classifier_are_those_of_the_linear_model():
    rows = np.random.default_rng(2).normal(size=(150, 2))
    label = (rows[:, 0] + np.random.default_rng(3).logistic(size=150) > 0).astype(int)

    def logit(params, X):
        return X @ params["w"] + params["b"]

    own = AutogradClassifier(logit, {"w": np.zeros(2), "b": 0.0}, l2=1 / 150, polish=True)
    linear = LogisticRegression(C=1.0, tol=1e-10)
    table = coefficients(RibbonClassifier(own, correction="HC0").fit(rows, label))
    assert table["term"].tolist() == ["w[0]", "w[1]", "b"]
    expected = coefficients(RibbonClassifier(linear, correction="HC0").fit(rows, label))
    assert_allclose(table["std_error"][:2], expected["std_error"][:2], rtol=0.02)  # whose intercept has no penalty


def test_parameters_of_several_outputs_are_those_of_the_linear_model():
    rows = np.random.default_rng(6).normal(size=(60, 2))
    targets = rows @ np.array([[1.0, 0.0], [0.5, 2.0]]) + np.random.default_rng(7).normal(size=(60, 2))
    base = AutogradRegressor(lambda params, X: X @ params["W"] + params["b"], {"W": np.eye(2), "b": np.zeros(2)})
    own = coefficients(ribbon(base).fit(rows, targets)).set_index("term")["std_error"]
    linear = coefficients(ribbon(LinearRegression()).fit(rows, targets))["std_error"]
    assert_allclose(own[["W[0, 0]", "W[1, 0]", "b[0]", "W[0, 1]", "W[1, 1]", "b[1]"]], linear, rtol=1e-5)


def test_names_of_nested_parameters():
    Rates = namedtuple("Rates", ["up", "down"])
    tree, theta = Tree.of({"rates": Rates(1.0, np.zeros(2)), "W": np.zeros((1, 2)), "layers": [1.0, {"b": 2.0}]})
    names = ["rates.up", "rates.down[0]", "rates.down[1]", "W[0, 0]", "W[0, 1]", "layers[0]", "layers[1].b"]
    assert tree.names == names
    assert len(theta) == len(names)
    assert Tree.of(np.zeros(2))[0].names == ["params[0]", "params[1]"]
    assert Tree.of(1.0)[0].names == ["params"]
    assert Tree.of((1.0, np.zeros(1)))[0].names == ["params[0]", "params[1][0]"]


def test_hypotheses_name_entries_of_arrays():
    def f(params, X):
        return X @ params["w"] + params["rates"]["b"]

    rows = np.random.default_rng(4).normal(size=(80, 2))
    base = AutogradRegressor(f, {"w": np.zeros(2), "rates": {"b": 0.0}})
    fitted = ribbon(base).fit(rows, rows[:, 0] + np.random.default_rng(5).normal(size=80))
    assert contrast(fitted, "w[0] - 2*w[1] + rates.b = 1")["term"].item() == "w[0] - 2*w[1] + rates.b = 1"
    with pytest.raises(ValueError, match=r"Its terms are w\[0\], w\[1\], rates.b"):
        wald_test(fitted, "w[2] = 0")
    assert coefficients(fitted, feature_names=["a", "b", "c"])["term"].tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature_names must have 3 names"):
        coefficients(fitted, feature_names=["a"])


def test_formulas_among_architectures_have_names_and_networks_refuse():
    log = coefficients(ribbon(AutogradRegressor(michaelis_menten(), polish=True)).fit(X, Y), exponentiate=True)
    assert_allclose(log["estimate"], curve_fit(curve, X[:, 0], Y, [1.0, 1.0])[0], rtol=1e-4)
    assert log["term"].tolist() == ["log_v", "log_k"]
    small = {"l2": 0.1, "random_state": 0, "max_iter": 5}
    networks = [AutogradRegressor(f, **small) for f in (mlp((2,)), monotone(hidden=2))]
    networks.append(MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", alpha=1.0, max_iter=5, random_state=0))
    for base in networks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RibbonWarning)  # five steps are short of a minimum
            fitted = RibbonRegressor(base, noise="dof").fit(X, Y)
        with pytest.raises(TypeError, match="has no coefficients that belong to features"):
            coefficients(fitted)
    assert cnn.is_network
