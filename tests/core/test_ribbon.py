"""The paper's objects: Dirichlet draws, influence, sandwich, pushforward."""

import tracemalloc
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np
import pytest

from skribbon._core.linalg import Dense
from skribbon._core.ribbon import (
    Ribbon,
    direct,
    dirichlet_scores,
    dirichlet_sums,
    dirichlet_variance,
    dirichlet_weights,
    influence,
    pushforward,
)
from skribbon.models.linear import LinearPredictor
from skribbon.models.losses import Categorical, Tweedie

N, P = 120, 3
NONE = np.zeros((P, 0))  # no direction that a single row determines


@pytest.fixture(scope="module")
def scores():
    """Scores that neither sum to zero nor are independent."""
    rng = np.random.default_rng(0)
    return rng.standard_t(6, (N, P)) @ rng.normal(size=(P, P)) + np.array([0.5, -0.3, 1.0])


@pytest.fixture(scope="module")
def curvature():
    A = np.random.default_rng(1).normal(size=(50, P))
    return Dense(A.T @ A / 50)


@dataclass
class GivenScores:
    """A block whose scores are the rows of G: a model with one raw prediction, J_i = g_i and u_i = 1."""

    G: np.ndarray
    weight: np.ndarray
    index: int = 0
    group = None

    @property
    def tangent(self):
        return self

    def weighted_scores(self, u, c):
        return self.G.T @ (u * c)


def of_ones(block):
    return np.ones((len(block.G), 1))


def dirichlet_draws(G, alpha, n_draws, seed, m=None, size=None):
    """U_n(w) of scores G, block by block."""
    m, size = np.ones(len(G)) if m is None else m, len(G) if size is None else size
    blocks = (GivenScores(G[i : i + size], m[i : i + size], i // size) for i in range(0, len(G), size))
    weights = partial(dirichlet_weights, alpha, n_draws, seed)
    return dirichlet_scores(reduce(add, map(partial(dirichlet_sums, weights, of_ones), blocks)), alpha)


def centred_moment(G, m=None):
    return np.cov(G.T, aweights=m, ddof=0)


def covariance_z(draws, S):
    """How many Monte Carlo errors the sample covariance of draws (p, B) is away from S, elementwise."""
    error = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / draws.shape[1])
    return np.abs(np.cov(draws) - S) / error


# ---------------------------------------------------------------------- Dirichlet draws


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
def test_scores_have_the_closed_form_covariance(scores, alpha):
    U = dirichlet_draws(scores, alpha, 20_000, 2)
    S = centred_moment(scores) / (N * alpha + 1)
    assert covariance_z(U, S).max() < 5


def test_covariance_test_distinguishes_centred_from_uncentred_scores(scores):
    U = dirichlet_draws(scores, 1.0, 20_000, 2)
    uncentred = scores.T @ scores / N / (N + 1)
    assert covariance_z(U, uncentred).max() > 10


def test_scores_have_mean_zero(scores):
    B = 20_000
    U = dirichlet_draws(scores, 1.0, B, 3)
    assert np.all(np.abs(U.mean(axis=1)) < 5 * U.std(axis=1) / np.sqrt(B))


def test_equal_scores_give_zero_steps():
    U = dirichlet_draws(np.full((N, P), 7.0), 0.5, 50, 4)
    np.testing.assert_allclose(U, 0, atol=1e-13)


def test_scores_shifted_by_a_constant_give_the_same_draws(scores):
    one, other = (dirichlet_draws(G, 1.0, 20, 5) for G in (scores, scores + 11.0))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_draws_are_the_formula_at_explicit_dirichlet_weights(scores):
    gamma = np.random.default_rng([6, 0]).standard_gamma(0.7, size=(N, 9))
    w = gamma / gamma.sum(axis=0)
    U = dirichlet_draws(scores, 0.7, 9, 6)
    np.testing.assert_allclose(U, scores.T @ (w - 1 / N), rtol=1e-10, atol=1e-14)


def test_blocks_draw_weights_of_their_own(scores):
    gamma = np.concatenate([np.random.default_rng([6, i]).standard_gamma(0.7, size=(60, 9)) for i in (0, 1)])
    w = gamma / gamma.sum(axis=0)
    U = dirichlet_draws(scores, 0.7, 9, 6, size=60)
    np.testing.assert_allclose(U, scores.T @ (w - 1 / N), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_frequencies_have_the_distribution_of_repeated_rows(scores, alpha):
    m = np.random.default_rng(8).integers(0, 4, N)
    repeated = np.repeat(scores, m, axis=0)
    S = centred_moment(repeated) / (m.sum() * alpha + 1)
    np.testing.assert_allclose(centred_moment(scores, m) / (m.sum() * alpha + 1), S, rtol=1e-10)
    for G, frequencies in ((scores, m.astype(float)), (repeated, None)):
        assert covariance_z(dirichlet_draws(G, alpha, 20_000, 9, frequencies), S).max() < 5


def test_tiny_alpha_is_refused_by_name(scores):
    with pytest.raises(ValueError, match=r"alpha=1e-08 .* underflow"):
        dirichlet_draws(scores[:5], 1e-8, 100, 0)


def test_memory_is_that_of_one_block():
    n, B, block = 200_000, 100, 1000
    G = np.random.default_rng(0).normal(size=(n, P))
    tracemalloc.start()
    dirichlet_draws(G, 1.0, B, 1, np.ones(n), block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * block * B * 8 + 8 * n  # a few blocks; all weights together would be 200 of them


# ---------------------------------------------------------------------- influence and sandwich


def test_influence_is_minus_the_solved_scores(scores, curvature):
    np.testing.assert_allclose(
        influence(curvature, scores.T), -np.linalg.inv(curvature.to_dense()) @ scores.T, rtol=1e-10
    )


def test_shift_is_the_mean_influence_at_centred_weights(scores, curvature):
    w = np.random.default_rng(0).dirichlet(np.ones(N))
    U = scores.T @ (w - 1 / N)
    expected = influence(curvature, scores.T) @ (N * w - 1) / N
    np.testing.assert_allclose(influence(curvature, U[:, None])[:, 0], expected, rtol=1e-9)


def test_sandwich_root_squares_to_the_sandwich(scores, curvature):
    H_inverse, H_Fc = np.linalg.inv(curvature.to_dense()), centred_moment(scores)
    R = curvature.sandwich_root(H_Fc)
    np.testing.assert_allclose(R @ R.T, H_inverse @ H_Fc @ H_inverse, rtol=1e-10)


@pytest.mark.parametrize(("n", "alpha", "value"), [(99, 1.0, 0.01), (10, 0.9, 0.1), (3, 1 / 3, 0.5)])
def test_dirichlet_variance(n, alpha, value):
    assert dirichlet_variance(n, alpha) == pytest.approx(value, rel=1e-14)


def test_closed_form_is_the_limit_of_draws(scores, curvature):
    exact = Ribbon.closed_form(curvature, centred_moment(scores), N, 0.8, NONE)
    drawn = Ribbon.from_shifts(
        curvature, influence(curvature, dirichlet_draws(scores, 0.8, 20_000, 1)), N, NONE, mean=0.0
    )
    assert exact.shifts is None
    assert drawn.shifts.shape == (P, 20_000)
    assert covariance_z(drawn.shifts, exact.covariance).max() < 5
    np.testing.assert_allclose(drawn.covariance, drawn.shifts @ drawn.shifts.T / 20_000, rtol=1e-10)


def test_ribbon_of_zero_scores_has_zero_covariance(curvature):
    ribbon = Ribbon.closed_form(curvature, np.zeros((P, P)), N, 1.0, NONE)
    np.testing.assert_array_equal(ribbon.covariance, np.zeros((P, P)))


# ---------------------------------------------------------------------- draws of the ribbon


def test_draws_of_the_closed_form_have_its_covariance(scores, curvature):
    ribbon = Ribbon.closed_form(curvature, centred_moment(scores), N, 1.0, NONE)
    draws = ribbon.draw(20_000, np.random.default_rng(0))
    assert draws.shape == (P, 20_000)
    assert covariance_z(draws, ribbon.covariance).max() < 5


@pytest.fixture(scope="module")
def drawn(scores, curvature):
    return Ribbon.from_shifts(curvature, influence(curvature, dirichlet_draws(scores, 1.0, 12, 1)), N, NONE, mean=0.0)


def as_set(columns):
    return {tuple(column) for column in columns.T}


def test_as_many_draws_as_stored_are_a_permutation(drawn):
    draws = drawn.draw(12, np.random.default_rng(0))
    assert as_set(draws) == as_set(drawn.shifts)
    assert not np.array_equal(draws, drawn.shifts)


def test_fewer_draws_are_distinct_stored_shifts(drawn):
    draws = drawn.draw(5, np.random.default_rng(0))
    assert len(as_set(draws)) == 5
    assert as_set(draws) <= as_set(drawn.shifts)


def test_more_draws_than_stored_repeat_them(drawn):
    draws = drawn.draw(500, np.random.default_rng(0))
    assert draws.shape == (P, 500)
    assert as_set(draws) == as_set(drawn.shifts)


# ---------------------------------------------------------------------- pushforward


@pytest.mark.parametrize("k", [1, 2])
def test_pushforward_of_a_linear_model_is_exact(k):
    rng = np.random.default_rng(0)
    p = k * (P + 1)
    loss = Tweedie() if k == 1 else Categorical(k + 1)
    model = LinearPredictor(theta=rng.normal(size=p), loss=loss, l2=np.zeros(p))
    Z = model.rows(rng.normal(size=(6, P)))
    shifts = rng.normal(size=(p, 4))
    moved = pushforward(model, Z, shifts)
    assert moved.shape == (6, k, 4)
    np.testing.assert_allclose(moved, direct(model, Z, shifts), rtol=1e-10, atol=1e-12)
    by_hand = np.einsum("nd,kdb->nkb", Z, (model.theta[:, None] + shifts).reshape(k, P + 1, 4))
    np.testing.assert_allclose(moved, by_hand, rtol=1e-10, atol=1e-12)
