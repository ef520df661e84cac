"""The contract of a factor, for every curvature of every kind of model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import LINEAR, NETWORKS, PROBLEMS, assert_same_matrix, factor_of, training_rows

from skribbon._core import linalg as _linalg
from skribbon._core.linalg import Factor, flat_directions, probes
from skribbon.curvature import KFAC, Diagonal, EmpiricalFisher, GaussNewton, LowRank, MatrixFree
from skribbon.curvature.kfac import Kronecker, KroneckerLayer
from skribbon.curvature.structured import DiagonalFactor, LowRankPlusDiagonal

PRECISE = {"tol": 1e-12, "max_iter": 2000}
CURVATURES = {
    "ggn": (GaussNewton(), PROBLEMS),
    "fisher": (EmpiricalFisher(), LINEAR),
    "diag": (Diagonal(), PROBLEMS),
    "kfac": (KFAC(), NETWORKS),
    "low-rank-2": (LowRank(rank=2), PROBLEMS),
    "low-rank-share": (LowRank(rank=0.9), PROBLEMS),
    "low-rank-all": (LowRank(rank=1000), PROBLEMS),
    "matrix-free": (MatrixFree(**PRECISE), [name for name in PROBLEMS if name != "collinear"]),  # needs a regular H_r
}
CASES = [
    pytest.param(curvature, problem, damping, id=f"{name}-{problem}-{damping}")
    for name, (curvature, problems) in CURVATURES.items()
    for problem in problems
    for damping in ("auto", 0.1)
]


def factor_and_shift(curvature, problem, damping):
    rows = training_rows(problem)
    curvature = type(curvature)(**{**curvature.get_params(), "damping": damping})
    return factor_of(curvature, rows), curvature.shift(rows.model)


def symmetric_rank(H):
    values = np.abs(np.linalg.eigvalsh(H))
    return (values > 1e-11 * values.max()).sum()


def pseudo_inverse(H):
    """Of a matrix whose coordinates may have very different units."""
    scale = 1 / np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    return scale[:, None] * np.linalg.pinv(H * scale[:, None] * scale, 1e-11, hermitian=True) * scale


@pytest.mark.parametrize(("curvature", "problem", "damping"), CASES)
def test_factor_keeps_its_contract(curvature, problem, damping):
    factor, shift = factor_and_shift(curvature, problem, damping)
    H, rng = factor.to_dense(), np.random.default_rng(0)
    p = len(H)
    inverse = factor.solve(np.eye(p))
    B = H @ rng.normal(size=(p, 4))
    assert_same_matrix(H @ factor.solve(B), B, 1e-7)
    assert_same_matrix(inverse, inverse.T, 1e-8)
    assert_allclose(factor.diagonal, np.diag(H), rtol=1e-10)
    if isinstance(curvature, MatrixFree):  # products alone do not tell flat directions, and its root is random
        return
    scale = np.sqrt(np.where(factor.diagonal > 0, factor.diagonal, 1.0))
    assert factor.rank == symmetric_rank(H / scale[:, None] / scale)
    assert factor.null.shape == (p, min(p - factor.rank, _linalg.N_FLAT))
    assert_allclose(H @ factor.null, 0, atol=1e-10 * np.abs(H).max())
    assert not factor.null.size or np.linalg.matrix_rank(factor.null) == factor.null.shape[1]
    M = factor.inverse_root
    assert_same_matrix(M @ M.T, inverse, 1e-8)
    assert_same_matrix(factor.inverse_diagonal, np.diag(inverse), 1e-10)
    expected = factor.rank - np.diag(pseudo_inverse(H)) @ shift  # tr(H^- H) is the rank, which was checked above
    assert_allclose(factor.effective_parameters(shift), expected, rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------------- roots in expectation
def assert_unbiased(M, inverse, n_probes):
    """v'MM'v is v'H^-1 v times a chi-squared mean, whose relative standard error is sqrt(2 / n_probes)."""
    V = np.random.default_rng(1).normal(size=(len(inverse), 30))
    estimate = ((M.T @ V) ** 2).sum(axis=0)
    z = (estimate / np.einsum("pv,pq,qv->v", V, inverse, V) - 1) / np.sqrt(2 / n_probes)
    assert np.abs(z).max() < 4.5
    assert np.abs(z).max() > 0.1  # it is an estimate indeed


WITH_LAYERS = ["network", "network-ternary", "network-nll"]
RANDOM_ROOTS = [
    *(
        (curvature, name)
        for curvature in (Diagonal(), LowRank(rank=3))
        for name in ["ridge", "collinear", *WITH_LAYERS]
    ),
    *((KFAC(), name) for name in WITH_LAYERS),
]


@pytest.mark.parametrize(("curvature", "problem"), RANDOM_ROOTS, ids=str)
def test_random_root_is_unbiased(curvature, problem, monkeypatch):
    monkeypatch.setattr(_linalg, "EXACT_COLUMNS", 0)
    monkeypatch.setattr(_linalg, "N_PROBES", 500)
    factor, _ = factor_and_shift(curvature, problem, "auto")
    M = factor.inverse_root
    assert M.shape[1] == 500
    assert_unbiased(M, factor.solve(np.eye(len(M))), 500)


@pytest.mark.parametrize("problem", ["ridge", "multinomial", "network", "network-ternary", "network-nll"])
def test_root_of_products_is_unbiased(problem):
    factor, shift = factor_and_shift(MatrixFree(n_probes=500, tol=1e-8), problem, 0.01)
    inverse = np.linalg.inv(factor.to_dense())
    assert_unbiased(factor.inverse_root, inverse, 500)
    data_part = factor.to_dense() - np.diag(shift)
    expected = np.trace(inverse @ data_part)
    error = np.sqrt(2 * np.sum((np.sqrt(shift)[:, None] * inverse * np.sqrt(shift)) ** 2) / 500)
    assert abs(factor.effective_parameters(shift) - expected) < 4.5 * error


def test_probes_are_the_same_every_time():
    assert_allclose(probes(7), np.eye(7))
    E = probes(_linalg.EXACT_COLUMNS + 1)
    assert E.shape == (_linalg.EXACT_COLUMNS + 1, _linalg.N_PROBES)
    assert_allclose(E, probes(_linalg.EXACT_COLUMNS + 1), rtol=0, atol=0)


# ---------------------------------------------------------------------- flat directions
@pytest.mark.parametrize("n_flat", [0, 3, 40])
def test_flat_directions(n_flat):
    is_flat = np.zeros(60, dtype=bool)
    is_flat[5 : 5 + n_flat] = True
    N = flat_directions(is_flat)
    assert N.shape == (60, min(n_flat, _linalg.N_FLAT))
    assert not N[~is_flat].any()
    assert not n_flat or np.linalg.matrix_rank(N) == N.shape[1]
    assert_allclose((N**2).sum(axis=1)[is_flat].mean() if n_flat else 1.0, 1.0, atol=0.2)  # E E' = I


def test_many_flat_coordinates():
    d = np.r_[np.arange(1.0, 4.0), np.zeros(50)]
    for factor in (DiagonalFactor(d), LowRankPlusDiagonal(np.eye(53)[:, :2], np.array([2.0, 1.0]), d)):
        assert factor.rank == 3
        assert factor.null.shape == (53, _linalg.N_FLAT)
        assert not factor.null[:3].any()
        assert not factor.solve(np.ones((53, 2)))[3:].any()
        assert not factor.inverse_root[3:].any()


def kronecker_layer(rng, n_in, n_out, penalty):
    """A layer with an input that is always zero, two equal inputs and an output without curvature."""
    a = rng.normal(size=(40, n_in))
    a[:, 0], a[:, 1] = 0.0, a[:, 2]
    a[:, -1] = 1.0
    delta = rng.normal(size=(40, n_out))
    delta[:, 0] = 0.0
    return a.T @ a / 40, delta.T @ delta / 40, np.r_[np.full(n_in - 1, penalty), 0.0]


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_kronecker_layer_with_dead_units(penalty):
    rng = np.random.default_rng(0)
    A, S, d = kronecker_layer(rng, 5, 3, penalty)
    index = rng.permutation(15).reshape(5, 3)  # layers lie anywhere in theta
    factor = Kronecker(15, [KroneckerLayer(index, A, S, d)])
    expected = np.zeros((15, 15))
    expected[np.ix_(index.ravel(), index.ravel())] = np.kron(A, S) + np.kron(np.diag(d), np.eye(3))
    H, inverse = factor.to_dense(), factor.solve(np.eye(15))
    assert_allclose(H, expected, atol=1e-14)
    assert factor.rank == symmetric_rank(expected)
    assert factor.null.shape[1] == 15 - factor.rank
    assert_allclose(H @ factor.null, 0, atol=1e-12)
    assert_allclose(H @ inverse @ H, H, atol=1e-12)
    assert_allclose(factor.inverse_root @ factor.inverse_root.T, inverse, atol=1e-12)
    assert_allclose(factor.inverse_diagonal, np.diag(inverse), atol=1e-12)


def test_incomplete_factor_names_missing_methods():
    for call in (lambda: Factor().solve(np.eye(2)), Factor().to_dense):
        with pytest.raises(TypeError, match="Factor must define"):
            call()
