"""What H_r is made of, and which curvature a name becomes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor

from skribbon._core.rows import Moments, Rows
from skribbon.curvature import (
    KFAC,
    Curvature,
    Diagonal,
    EmpiricalFisher,
    GaussNewton,
    Hessian,
    LastLayer,
    LowRank,
    MatrixFree,
    resolve_curvature,
)
from skribbon.exceptions import CurvatureError
from skribbon.models import as_parametric

ALL = [Hessian, GaussNewton, EmpiricalFisher]


def simulate(family, n=60, d=3, seed=0):
    """X and y from the model itself: a correctly specified likelihood."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    eta = 0.3 + 0.5 * X[:, 0] - 0.4 * X[:, 1]
    y = {
        "normal": lambda: eta + 3.0 * rng.normal(size=n),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2.0),
        "inverse-gaussian": lambda: rng.wald(np.exp(eta), 4.0),
        "binary": lambda: rng.logistic(size=n) < eta,
        "ternary": lambda: np.argmax(eta[:, None] * [0, 1, -1] + rng.gumbel(size=(n, 3)), axis=1),
    }[family]()
    return X, np.asarray(y, dtype=float)


def training_rows(estimator, X, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    model = as_parametric(estimator.fit(X, y), y, weight)
    return Rows(model, model.prepare(X), model.encode_target(y), weight)


def H_r(curvature, rows, l2=None):
    rows = rows if l2 is None else replace(rows, model=replace(rows.model, l2=l2))
    return curvature.factor(rows, Moments.from_rows(rows, curvature)).to_dense()


# ---------------------------------------------------------------------- H_r
def test_exact_and_expected_curvature_of_a_gamma_model():
    X, y = simulate("gamma")
    rows = training_rows(GammaRegressor(alpha=0.1, tol=1e-10), X, y)
    Z = np.column_stack([X, np.ones(len(X))])
    penalty = np.diag([0.1, 0.1, 0.1, 0.0])
    ratio = y / np.exp(Z @ rows.model.theta)
    assert_allclose(H_r(Hessian(), rows), Z.T @ (ratio[:, None] * Z) / 60 + penalty, rtol=1e-10)
    assert_allclose(H_r(GaussNewton(), rows), Z.T @ Z / 60 + penalty, rtol=1e-10, atol=1e-14)


def test_fisher_puts_squared_error_on_the_scale_of_the_hessian():
    """H_F / phi with phi the mean squared residual, for a least-squares model."""
    X, y = simulate("normal")
    rows = training_rows(LinearRegression(), X, y)
    Z = np.column_stack([X, np.ones(len(X))])
    squared = (y - Z @ rows.model.theta) ** 2
    assert_allclose(H_r(EmpiricalFisher(), rows), Z.T @ (squared[:, None] * Z) / squared.sum(), rtol=1e-10)


@pytest.mark.parametrize("curvature", ALL)
def test_penalty_and_damping_enter_the_diagonal(curvature):
    X, y = simulate("ternary")
    rows = training_rows(LogisticRegression(C=2.0), X, y)
    bare = H_r(curvature(), rows, l2=np.zeros(8))
    expected = np.tile([1 / 120, 1 / 120, 1 / 120, 0.0], 2) + 0.7
    assert_allclose(H_r(curvature(damping=0.7), rows) - bare, np.diag(expected), atol=1e-13)


@pytest.mark.parametrize("curvature", ALL)
def test_constant_weights_cancel_in_the_mean(curvature):
    X, y = simulate("poisson")
    rows = training_rows(PoissonRegressor(), X, y)
    tripled = Rows(rows.model, rows.X, rows.y, 3 * rows.weight)
    assert_allclose(H_r(curvature(), tripled), H_r(curvature(), rows), rtol=1e-12, atol=1e-14)


MODELS = {
    "normal": LinearRegression(),
    "poisson": PoissonRegressor(alpha=0, tol=1e-8),
    "gamma": GammaRegressor(alpha=0, tol=1e-8),
    "inverse-gaussian": TweedieRegressor(power=3, alpha=0, tol=1e-8, max_iter=1000),
    "binary": LogisticRegression(C=np.inf, tol=1e-8),
    "ternary": LogisticRegression(C=np.inf, tol=1e-8),
}


@pytest.mark.parametrize("family", MODELS)
def test_three_curvatures_agree_for_a_correct_likelihood(family):
    # a mean of 100,000 squared scores has a relative standard error of about one percent; a lost dispersion (9 for the
    # normal, 1/2 for the gamma, 1/4 for the inverse Gaussian family here) is far outside
    rows = training_rows(clone(MODELS[family]), *simulate(family, 100_000))
    exact, expected, fisher = (H_r(curvature(), rows) for curvature in ALL)
    for other in (expected, fisher):
        ratio = np.linalg.eigvals(np.linalg.solve(exact, other)).real
        assert np.abs(ratio - 1).max() < 0.04


def test_fisher_of_zero_scores_is_an_error():
    X = np.arange(12.0).reshape(6, 2) ** 2
    rows = training_rows(LinearRegression(), X, np.zeros(6))
    with pytest.raises(CurvatureError, match="use 'ggn' or 'hessian'"):
        H_r(EmpiricalFisher(), rows)


def test_indefinite_hessian_is_cured_by_ggn_and_by_the_damping_it_names():
    X, y = simulate("inverse-gaussian")
    rows = training_rows(TweedieRegressor(power=3, alpha=0.0, max_iter=1000), X, y)
    rows = Rows(rows.model, rows.X, rows.y / 10, rows.weight)  # far from the minimum of these targets
    with pytest.raises(CurvatureError, match="curvature='ggn'") as caught:
        H_r(Hessian(), rows)
    damping = float(str(caught.value).split("greater than ")[1].split(",")[0])
    assert np.linalg.eigvalsh(H_r(Hessian(damping=damping), rows))[0] > 0
    assert np.linalg.eigvalsh(H_r(GaussNewton(), rows))[0] > 0


# ---------------------------------------------------------------------- the damping parameter
@pytest.mark.parametrize("damping", [-1.0, np.nan, np.inf, "none", None, [0.1]])
def test_bad_damping_is_refused(damping):
    with pytest.raises(ValueError, match="damping must be 'auto' or a number >= 0"):
        Hessian(damping=damping).shift(fitted_model(Ridge(), "normal"))


@pytest.mark.parametrize(("damping", "number"), [("auto", 0.0), (0, 0.0), (0.5, 0.5), (np.float32(2), 2.0)])
def test_damping_is_added_to_the_penalty(damping, number):
    model = fitted_model(Ridge(), "normal")
    assert_allclose(GaussNewton(damping=damping).shift(model), model.l2 + number, rtol=0)


@pytest.mark.parametrize("curvature", ALL)
def test_curvature_has_scikit_learns_parameters(curvature):
    copy = clone(curvature(damping=0.3)).set_params(damping=0.4)
    assert type(copy) is curvature
    assert copy.get_params() == {"damping": 0.4}


def test_incomplete_curvature_names_missing_methods():
    class Empty(Curvature):
        pass

    with pytest.raises(TypeError, match="Empty must define of_block"):
        Empty().of_block(None)
    with pytest.raises(TypeError, match="Empty must define factored"):
        Empty().factored(None, None)


# ---------------------------------------------------------------------- resolve_curvature
def fitted_model(estimator, family):
    return training_rows(estimator, *simulate(family)).model


MLP = {"hidden_layer_sizes": (2,), "solver": "lbfgs", "max_iter": 20, "random_state": 0}
AUTO = [
    (LinearRegression(), "normal", Hessian),
    (Ridge(), "normal", Hessian),
    (HuberRegressor(), "normal", Hessian),
    (LogisticRegression(), "binary", Hessian),
    (LogisticRegression(), "ternary", Hessian),
    (PoissonRegressor(), "poisson", Hessian),
    (GammaRegressor(), "gamma", Hessian),
    (TweedieRegressor(power=1.5), "gamma", Hessian),
    (TweedieRegressor(power=0), "gamma", Hessian),
    (TweedieRegressor(power=0, link="log"), "gamma", Hessian),
    (TweedieRegressor(power=3), "inverse-gaussian", Hessian),
    (MLPRegressor(**MLP), "normal", GaussNewton),
    (MLPClassifier(**MLP), "binary", GaussNewton),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "family", "expected"), AUTO, ids=lambda case: str(case)[:40])
def test_auto(estimator, family, expected):
    curvature = resolve_curvature("auto", "auto", fitted_model(estimator, family), 60)
    assert type(curvature) is expected
    assert curvature.damping == "auto"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hessian", Hessian),
        ("ggn", GaussNewton),
        ("fisher", EmpiricalFisher),
        ("kfac", KFAC),
        ("low_rank", LowRank),
        ("diag", Diagonal),
        ("last_layer", LastLayer),
        ("matrix_free", MatrixFree),
    ],
)
def test_names(name, expected):
    curvature = resolve_curvature(name, 0.2, fitted_model(Ridge(), "normal"), 60)
    assert type(curvature) is expected
    assert curvature.damping == 0.2


def test_an_object_is_taken_as_it_is():
    mine = GaussNewton(damping=0.1)
    assert resolve_curvature(mine, "auto", fitted_model(Ridge(), "normal"), 60) is mine
    with pytest.raises(ValueError, match="damping is set twice"):
        resolve_curvature(mine, 0.2, None, 60)


@pytest.mark.parametrize("curvature", ["newton", "", None, 3, Hessian, ["ggn"]])
def test_unknown_names_list_the_known(curvature):
    with pytest.raises(ValueError, match=r"'auto', 'hessian', 'ggn', 'fisher', .*'matrix_free' or a Curvature object"):
        resolve_curvature(curvature, "auto", None, 60)
