"""Conjugate gradients on products against dense solves."""

from dataclasses import replace

import blocks
import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import (
    COLLINEAR,
    NETWORKS,
    PROBLEMS,
    N,
    X,
    Y,
    assert_same_matrix,
    centred_scatter,
    factor_of,
    gauss_newton,
    training_rows,
    whole,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor
from skribbon._core.rows import Rows
from skribbon.curvature import MatrixFree
from skribbon.curvature.matrix_free import conjugate_gradients
from skribbon.exceptions import CurvatureError, SolverWarning
from skribbon.models import as_parametric

REGULAR = [name for name in PROBLEMS if name != "collinear"]
PRECISE = {"tol": 1e-10, "max_iter": 1000}


def right_hand_sides(p, m=5):
    return np.random.default_rng(0).normal(size=(p, m))


# ---------------------------------------------------------------------- solves
@pytest.mark.parametrize("name", REGULAR)
def test_solves_are_those_of_gauss_newton(name):
    rows = training_rows(name)
    H_r = gauss_newton(rows, 0.01)
    factor, B = factor_of(MatrixFree(damping=0.01, **PRECISE), rows), right_hand_sides(len(H_r))
    assert_same_matrix(factor.to_dense(), H_r, 1e-12)
    assert_allclose(factor.diagonal, np.diag(H_r), rtol=1e-10)
    assert_same_matrix(factor.solve(B), np.linalg.solve(H_r, B), 1e-7)


@pytest.mark.parametrize("name", ["ridge", "poisson", "multinomial", "network", "network-ternary", "network-nll"])
def test_solves_are_those_of_the_hessian(name):
    rows = training_rows(name)
    H = blocks.hessian(rows.model, *whole(rows)) / rows.weight.sum()
    damping = 0.01 + max(0.0, -1.5 * np.linalg.eigvalsh(H)[0])  # a network's may be indefinite
    H_r = H + np.diag(rows.model.l2 + damping)
    factor, B = factor_of(MatrixFree("hessian", damping=damping, **PRECISE), rows), right_hand_sides(len(H_r))
    assert_same_matrix(factor.solve(B), np.linalg.solve(H_r, B), 1e-7)


@pytest.mark.parametrize("name", NETWORKS)
def test_tolerance_is_a_relative_residual_in_the_norm_of_the_preconditioner(name):
    rows = training_rows(name)
    factor, B = factor_of(MatrixFree(tol=0.05, damping=0.01), rows), right_hand_sides(len(rows.model.theta))
    rest = B - factor.to_dense() @ factor.solve(B)
    left, start = (np.einsum("pm,pm->m", V, factor._precondition(V)) for V in (rest, B))
    assert (left <= 0.05**2 * start * (1 + 1e-6)).all()
    assert left.max() > 0


def spread_matrix(p=40):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(p, p)))[0]
    return (Q * np.geomspace(1e-3, 1e3, p)) @ Q.T


def test_each_column_stops_by_itself_and_the_rest_go_on(capsys):
    H = spread_matrix()
    easy, widths = np.linalg.eigh(H)[1][:, :1], []

    def product(V):
        widths.append(V.shape[1])
        return H @ V

    B = np.column_stack([easy, np.zeros(40), np.ones(40)])
    solution, steps, left = conjugate_gradients(product, B, lambda V: V, 1e-8, 500, verbose=1)
    assert widths[0] == 2  # nothing to solve for zero
    assert widths[1] == 1  # an eigenvector takes one step
    assert len(widths) == steps > 20
    assert left <= 1e-8
    assert_allclose(solution, np.linalg.solve(H, B), rtol=1e-6, atol=1e-5)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == steps
    assert printed[0].startswith("[MatrixFree] step 1: 1 of 3 solves go on, residual ")


def test_perfect_preconditioner_needs_one_step():
    H = spread_matrix()
    B = right_hand_sides(40)
    solution, steps, _ = conjugate_gradients(lambda V: H @ V, B, lambda V: np.linalg.solve(H, V), 1e-6, 10)
    assert steps == 1
    assert_same_matrix(solution, np.linalg.solve(H, B), 1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kronecker_preconditioner_halves_the_error_of_few_steps():
    """On weighted scores, which are what a ribbon solves for, and in the norm of H_r, which training rows see."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 8))
    y = np.sin(2 * features[:, 0]) + features[:, 1] * features[:, 2] + 0.3 * rng.normal(size=500)
    settings = {"activation": "tanh", "solver": "lbfgs", "alpha": 0.3, "max_iter": 100, "random_state": 0}
    network = MLPRegressor(hidden_layer_sizes=(20, 10), **settings).fit(features, y)
    model = as_parametric(network, y, np.ones(500))
    factor = factor_of(MatrixFree(), Rows(model, features, y, np.ones(500)))
    G, H_r = blocks.scores(model, features, y), factor.to_dense()
    B = (G - G.mean(axis=0)).T @ rng.normal(size=(500, 10))
    solution = np.linalg.solve(H_r, B)

    def error(precondition):
        rest = conjugate_gradients(factor._product, B, precondition, 1e-14, 10)[0] - solution
        return np.sqrt(np.sum(rest * (H_r @ rest)) / np.sum(solution * B))

    plain, diagonal = error(lambda V: V), error(lambda V: V / factor.diagonal[:, None])
    assert error(factor._precondition) < 0.75 * min(plain, diagonal)


# ---------------------------------------------------------------------- what can go wrong
def test_singular_curvature_gives_exact_variances_at_training_rows():
    """Right-hand sides lie in the range of H, so that conjugate gradients never leave it."""
    X_test, settings = COLLINEAR[:20], {"correction": "HC0", "random_state": 0}
    base = FrozenEstimator(LinearRegression().fit(COLLINEAR, Y))
    dense = RibbonRegressor(base, curvature="ggn", **settings).fit(COLLINEAR, Y)
    free = RibbonRegressor(base, curvature=MatrixFree(tol=1e-8), n_draws=4000, **settings).fit(COLLINEAR, Y)
    drawn = RibbonRegressor(base, curvature="ggn", predictive="pushforward", n_draws=4000, **settings)
    drawn.fit(COLLINEAR, Y)  # the same weights, solved densely
    std = free.predict_std(X_test, kind="epistemic")
    assert_allclose(std, drawn.predict_std(X_test, kind="epistemic"), rtol=1e-6)
    assert_allclose(std, dense.predict_std(X_test, kind="epistemic"), rtol=4.5 * 1.3 / np.sqrt(2 * 4000))


def test_indefinite_hessian_is_an_error_that_names_the_cure():
    rows = training_rows("network-unpenalised")
    far = replace(rows, y=rows.y + 10 * np.sin(np.arange(N)))  # far from the minimum of these targets
    smallest = np.linalg.eigvalsh(blocks.hessian(far.model, *whole(far)) / far.weight.sum())[0]
    assert smallest < 0
    with pytest.raises(CurvatureError, match=r"indefinite: a direction has curvature -.*MatrixFree\(matrix='ggn'\)"):
        factor_of(MatrixFree("hessian"), far).solve(right_hand_sides(len(rows.model.theta)))
    for cured in (MatrixFree("ggn", damping=0.01), MatrixFree("hessian", damping=-1.1 * smallest)):
        assert np.isfinite(factor_of(cured, far).solve(right_hand_sides(len(rows.model.theta)))).all()


def test_too_few_steps_warn():
    rows = training_rows("network-two-layers")
    factor = factor_of(MatrixFree(tol=1e-10, max_iter=2), rows)
    with pytest.warns(
        SolverWarning, match=r"stopped after 2 steps with a relative residual of .*above tol=1e-10"
    ) as said:
        factor.solve(right_hand_sides(len(rows.model.theta)))
    for cure in ("damping", "stronger penalty of the base model", "max_iter of MatrixFree"):
        assert cure in str(said[0].message)


def test_unknown_matrix_is_refused():
    with pytest.raises(ValueError, match="matrix must be 'ggn' or 'hessian', got 'fisher'"):
        factor_of(MatrixFree("fisher"), training_rows("ridge"))


def test_matrix_free_refuses_a_large_dense_array(monkeypatch):
    factor = factor_of(MatrixFree(), training_rows("ridge"))
    monkeypatch.setattr("skribbon.curvature.matrix_free.EXACT_COLUMNS", 3)
    with pytest.raises(MemoryError, match="curvature='matrix_free' has no dense array of 4 x 4 numbers"):
        factor.to_dense()


# ---------------------------------------------------------------------- the whole ribbon
@pytest.mark.parametrize("name", ["ridge", "poisson", "network", "network-two-layers"])
def test_draws_have_the_covariance_of_the_dense_sandwich(name):
    estimator, features, y = PROBLEMS[name]
    rows = replace(training_rows(name), weight=np.ones(N))
    inverse = np.linalg.inv(gauss_newton(rows))
    expected = inverse @ centred_scatter(rows) @ inverse / (N + 1)
    curvature, base = MatrixFree(tol=1e-4, max_iter=1000), FrozenEstimator(estimator)
    ribbon = RibbonRegressor(base, curvature=curvature, correction="HC0", n_draws=1000, random_state=0)
    ribbon.fit(features, y)
    assert ribbon.ribbon_.root.shape == (len(expected), 1000)
    V = right_hand_sides(len(expected), 30)
    ratio = ((ribbon.ribbon_.root.T @ V) ** 2).sum(axis=0) / np.einsum("pv,pq,qv->v", V, expected, V)
    assert np.abs(ratio - 1).max() < 4.5 * 1.3 * np.sqrt(2 / 1000)  # Dirichlet shifts are not quite normal


def test_preconditioner_is_diagonal_without_layers():
    model = as_parametric(LinearRegression().fit(X, Y), Y, np.ones(N))
    rows = Rows(model, X, Y, np.ones(N))
    factor, B = factor_of(MatrixFree(), rows), right_hand_sides(4)
    assert_allclose(factor._precondition(B), B / np.diag(gauss_newton(rows))[:, None], rtol=1e-12)
