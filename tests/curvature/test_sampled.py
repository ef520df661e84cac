"""Gauss-Newton of sampled rows as a preconditioner: its own inverse, when it is taken, and what it spares."""

from itertools import pairwise

import blocks
import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import factor_of, gauss_newton, whole

from skribbon._core.rows import Rows
from skribbon.curvature import KFAC, MatrixFree, matrix_free
from skribbon.curvature.kfac import Kronecker
from skribbon.curvature.matrix_free import SHARE, SampledGaussNewton, conjugate_gradients, sampled_gauss_newton
from skribbon.models.losses import Categorical, Tweedie
from skribbon.models.mlp import MultilayerPerceptron


def network_rows(units=(5, 12, 6, 3), n=400, l2=0.05, weight=None):
    """A penalised network at random weights, biases free as scikit-learn has them, and its rows."""
    rng = np.random.default_rng(0)
    shapes = [*pairwise(units), *((m,) for m in units[1:])]
    theta = np.concatenate([rng.normal(size=shape).ravel() / np.sqrt(shape[0]) for shape in shapes])
    loss = Tweedie() if units[-1] == 1 else Categorical(units[-1])
    penalty = np.where(np.arange(len(theta)) < len(theta) - sum(units[1:]), l2, 0.0)
    output_map = None if units[-1] == 1 else loss.basis
    model = MultilayerPerceptron(
        theta=theta, loss=loss, l2=penalty, units=units, activation="tanh", output_map=output_map
    )
    X = rng.normal(size=(n, units[0]))
    y = rng.integers(0, units[-1], n) if units[-1] > 1 else rng.normal(size=n)
    return Rows(model, X, y, np.ones(n) if weight is None else weight)


def preconditioner(rows):
    return sampled_gauss_newton(rows, factor_of(KFAC(), rows), rows.model.l2)


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(matrix_free, "WIDER", 1)
    monkeypatch.setattr(matrix_free, "SAMPLES_EACH", 1)


def matrix_of(guess_rows, R):
    """What the preconditioner stands for, of the sampled rows and roots R of their curvature; and its biases."""
    model, block = guess_rows.model, blocks.block(guess_rows.model, *whole(guess_rows))
    A = np.einsum("nkr,nkp->nrp", block.weighted(R), block.tangent.jacobian()).reshape(-1, len(model.theta))
    biases = np.concatenate([places[-1] for places in model.layers])
    matrix = np.diag(model.l2) + A.T @ A / block.total()
    matrix[np.ix_(biases, biases)] *= 1 + SHARE
    return matrix, biases


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("units", [(5, 12, 6, 3), (5, 20, 1), (4, 9, 7, 1), (5, 12, 6)])
def test_sampled_preconditioner_solves_with_its_matrix(units, each, precision, small_samples, monkeypatch):
    monkeypatch.setattr(matrix_free, "SCORES_EACH", each)
    monkeypatch.setattr(matrix_free, "SINGLE", 0 if precision == np.float32 else np.inf)
    rows = network_rows(units, weight=np.random.default_rng(1).integers(0, 3, 400).astype(float))
    guess, p, rank = preconditioner(rows), len(rows.model.theta), rows.model.loss.curvature_rank
    each = min(rank, each)
    some = rows.take(matrix_free.some_of(400, min(400, p // each)))
    R = blocks.block(some.model, *whole(some)).R
    matrix, _ = matrix_of(some, R if each == rank else matrix_free._some_scores(R, each))
    V = matrix @ np.random.default_rng(2).normal(size=(p, 4))  # in its range: a softmax leaves one bias undetermined
    error = 1e-8 if precision == np.float64 else 1e-3
    assert guess._precision == precision
    assert_allclose(matrix @ guess.solve(V), V, rtol=error, atol=error * np.abs(V).max())


def test_random_scores_have_the_curvature_of_all_on_average():
    R = np.random.default_rng(0).normal(size=(1, 4, 5)) * np.ones((40_000, 1, 1))
    for r in (1, 3):
        found = matrix_free._some_scores(R, r)
        assert_allclose(np.mean(found @ found.transpose(0, 2, 1), axis=0), R[0] @ R[0].T, atol=0.15)


def test_a_kernel_beyond_single_precision_is_made_in_double(small_samples, monkeypatch):
    monkeypatch.setattr(matrix_free, "SINGLE", 0)
    assert preconditioner(network_rows())._precision == np.float32
    monkeypatch.setattr(matrix_free, "SAMPLES_EACH", 0)
    assert preconditioner(network_rows(l2=1e-6))._precision == np.float64
    assert preconditioner(network_rows(l2=1e-300)) is None


def test_bias_curvature_missing_from_the_sample_comes_from_all_rows(small_samples):
    """A unit that only one row turns on: without its bias, conjugate gradients would never move it."""
    rng = np.random.default_rng(0)
    S = np.diag([1.0, 2.0, 1e-6])
    own = np.diag([1.1, 1.9, 0.0])
    assert_allclose(matrix_free._unseen(S, own), np.diag([0.0, 0.0, 1e-6]), atol=1e-18)
    assert_allclose(matrix_free._unseen(S, S), 0.0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0] * [1.0, 3.0, 0.5]
    assert_allclose(
        matrix_free._unseen(turn @ S @ turn.T, turn @ own @ turn.T), 1e-6 * np.outer(turn[:, 2], turn[:, 2])
    )


def test_sampled_preconditioner_needs_enough_rows_and_a_penalty_on_all_weights(monkeypatch):
    rows, free = network_rows(), network_rows(l2=0.0)
    effective = factor_of(KFAC(), rows).effective_parameters(rows.model.l2)
    monkeypatch.setattr(matrix_free, "WIDER", 1)
    size = 3 * (len(rows.model.theta) // 3)
    for each, taken in ((size / effective * 0.99, True), (size / effective * 1.01, False)):
        monkeypatch.setattr(matrix_free, "SAMPLES_EACH", each)
        assert (preconditioner(rows) is not None) == taken
        solve = factor_of(MatrixFree(), rows)._precondition
        assert isinstance(solve.__self__, SampledGaussNewton if taken else Kronecker)
    monkeypatch.setattr(matrix_free, "SAMPLES_EACH", 0)
    assert preconditioner(rows) is not None
    assert preconditioner(free) is None


def solved(H_r, B):
    """H_r^-1 B for B in the range of H_r, of which a softmax leaves out one bias."""
    return np.linalg.solve(H_r + 1e-13 * np.trace(H_r) * np.eye(len(H_r)), B)


def test_sampled_preconditioner_takes_fewer_steps_than_kfac(monkeypatch):
    """On weighted scores, which are what a ribbon solves for, and in the norm of H_r, which training rows see."""
    monkeypatch.setattr(matrix_free, "WIDER", 1)
    rows = network_rows((10, 30, 20, 3), n=1000, l2=0.02)
    factor, H_r = factor_of(MatrixFree(), rows), gauss_newton(rows)
    assert isinstance(factor._precondition.__self__, SampledGaussNewton)
    G = blocks.scores(rows.model, rows.X, rows.y)
    B = (G - G.mean(axis=0)).T @ np.random.default_rng(3).normal(size=(1000, 6))
    solution = solved(H_r, B)

    def steps_and_error(precondition):
        found, steps, _ = conjugate_gradients(lambda V: H_r @ V, B, precondition, 0.01, 500)
        rest = found - solution
        return steps, np.sqrt(np.sum(rest * (H_r @ rest)) / np.sum(solution * B))

    (steps, error), (kronecker, worse) = map(steps_and_error, (factor._precondition, factor_of(KFAC(), rows).solve))
    assert steps < 0.6 * kronecker
    assert error < worse


def test_effective_parameters_of_a_large_network(monkeypatch):
    monkeypatch.setattr("skribbon.curvature.matrix_free.EXACT_COLUMNS", 100)
    rows = network_rows((10, 30, 20, 3), n=1000, l2=0.02)
    H_r, shift = gauss_newton(rows), rows.model.l2
    exact = np.trace(solved(H_r, H_r - np.diag(shift)))
    estimate = factor_of(MatrixFree(), rows).effective_parameters(shift)
    assert_allclose(estimate, exact, rtol=3 / np.sqrt(2 * exact) + 0.01)  # the second is what the solves leave
