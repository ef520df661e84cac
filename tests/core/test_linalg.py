"""Factored curvature against dense oracles."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skribbon._core import linalg as _linalg
from skribbon._core.linalg import Dense
from skribbon.exceptions import CurvatureError

rng = np.random.default_rng(0)
A = rng.normal(size=(40, 5))
COLLINEAR = np.column_stack([A, A[:, 0] - 2 * A[:, 3], A[:, 1] + A[:, 2]])
WITH_ZERO_COLUMN = np.column_stack([A[:, :2], np.zeros(40), A[:, 2:]])
UNITS = 10.0 ** np.array([-8, -4, 0, 4, 8])

REGULAR = {
    "regular": A,
    "correlated": A @ (np.eye(5) + 3.0),
    "one": A[:, :1],
}
SINGULAR = {
    "collinear": COLLINEAR,
    "zero-column": WITH_ZERO_COLUMN,
    "duplicate": np.column_stack([A, A]),
    "few-rows": A[:3],
    "first-columns-dependent": COLLINEAR[:, ::-1],
}


def designs(*groups):
    return pytest.mark.parametrize("design", [pytest.param(d, id=name) for g in groups for name, d in g.items()])


# ---------------------------------------------------------------------- Dense
@designs(REGULAR)
def test_regular_matrix(design):
    S = design.T @ design
    factor, inverse = Dense(S), np.linalg.inv(S)
    b, B = rng.normal(size=len(S)), rng.normal(size=(len(S), 3))
    assert_allclose(factor.to_dense(), S)
    assert_allclose(factor.solve(b), inverse @ b, rtol=1e-8, atol=1e-12)
    assert_allclose(factor.solve(B), inverse @ B, rtol=1e-8, atol=1e-12)
    assert_allclose(factor.inverse_root @ factor.inverse_root.T, inverse, rtol=1e-8, atol=1e-12)
    assert factor.null.shape == (len(S), 0)


@designs(REGULAR, SINGULAR)
def test_solve_is_a_generalised_inverse(design):
    """to_dense() @ solve(B) == B for whatever lies in the range."""
    S = design.T @ design
    B = S @ rng.normal(size=(len(S), 3))
    assert_allclose(Dense(S).to_dense() @ Dense(S).solve(B), B, rtol=1e-8, atol=1e-8)


@designs(REGULAR, SINGULAR)
def test_quadratic_forms_in_the_range_are_those_of_the_pseudo_inverse(design):
    S = design.T @ design
    factor, expected = Dense(S), design @ np.linalg.pinv(S) @ design.T
    assert_allclose(design @ factor.solve(design.T), expected, atol=1e-9)
    M = design @ factor.inverse_root
    assert_allclose(M @ M.T, expected, atol=1e-9)


@designs(SINGULAR)
def test_null_spans_the_null_space(design):
    S = design.T @ design
    null, deficiency = Dense(S).null, len(S) - np.linalg.matrix_rank(design)
    assert null.shape[1] == np.linalg.matrix_rank(null) == deficiency
    assert_allclose(design @ null, 0, atol=1e-9)


def test_units_of_the_columns_do_not_matter():
    """Columns of scales from 1e-8 to 1e8, so that the condition number is 1e32."""
    S = A.T @ A
    plain, scaled = Dense(S), Dense(S * np.outer(UNITS, UNITS))
    B = rng.normal(size=(5, 3))
    assert_allclose(scaled.solve(UNITS[:, None] * B) * UNITS[:, None], plain.solve(B), rtol=1e-9)
    assert scaled.null.shape == (5, 0)
    assert_allclose(scaled.effective_parameters(np.zeros(5)), 5)


def test_units_do_not_hide_a_redundant_column():
    units = np.append(UNITS, [1e-8, 1e8])
    design = COLLINEAR * units
    factor = Dense(design.T @ design)
    assert factor.null.shape[1] == 2
    assert_allclose(design @ factor.null, 0, atol=1e-6)  # the null vectors are in units of a row
    leverage = np.einsum("ij,ji->i", design, factor.solve(design.T))
    assert_allclose(leverage, np.diag(COLLINEAR @ np.linalg.pinv(COLLINEAR)), rtol=1e-6)


def test_zero_matrix_has_rank_zero(capfd):
    factor = Dense(np.zeros((3, 3)))
    assert_allclose(factor.solve(np.ones(3)), 0)
    assert np.linalg.matrix_rank(factor.null) == 3
    assert factor.inverse_root.shape == (3, 0)
    assert factor.effective_parameters(np.zeros(3)) == 0
    assert capfd.readouterr() == ("", "")  # LAPACK prints its complaint about an empty matrix


def test_matrix_is_symmetrised():
    S = A.T @ A
    skew = np.triu(np.ones((5, 5)), 1) - np.tril(np.ones((5, 5)), -1)
    assert_allclose(Dense(S + 1e-3 * skew).to_dense(), S)


@designs(REGULAR, SINGULAR)
def test_effective_parameters_is_a_trace(design):
    S, shift = design.T @ design, np.linspace(0.0, 2.0, design.shape[1])
    H = S + np.diag(shift)
    expected = np.trace(np.linalg.pinv(H) @ S)
    assert_allclose(Dense(H).effective_parameters(shift), expected, rtol=1e-9)


# ---------------------------------------------------------------------- indefinite matrices
def rotated(eigenvalues):
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(len(eigenvalues),) * 2))
    return (Q * eigenvalues) @ Q.T


INDEFINITE = {
    "one-negative": rotated([3.0, 2.0, 1.0, -0.5]),
    "barely-negative": rotated([3.0, 2.0, 1.0, -1e-4]),
    "all-negative": rotated([-3.0, -2.0, -1.0]),
    "negative-diagonal": np.diag([1.0, 2.0, -1.0]),
    "zero-diagonal": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "singular-too": rotated([3.0, 0.0, 0.0, -0.5]),
    "correlation-above-one": np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
}
indefinite = pytest.mark.parametrize("S", [pytest.param(S, id=name) for name, S in INDEFINITE.items()])


def named_numbers(error):
    """Smallest eigenvalue and damping in the message."""
    return (float(re.search(rf"{words} ([-+.e\d]+\d)", str(error)).group(1)) for words in ("value is", "greater than"))


@indefinite
def test_indefinite_matrix_is_refused_with_a_damping_that_cures(S):
    with pytest.raises(CurvatureError) as caught:
        Dense(S)
    smallest, damping = named_numbers(caught.value)
    assert smallest == pytest.approx(np.linalg.eigvalsh(S)[0], rel=0.01)
    assert np.linalg.eigvalsh(Dense(S + damping * np.eye(len(S))).to_dense())[0] > 0
    with pytest.raises(CurvatureError):
        Dense(S + 0.5 * damping * np.eye(len(S)))  # half of the suggested damping is too small


@indefinite
@pytest.mark.parametrize("small", [1e-8, 1e-4])
def test_refusal_does_not_depend_on_units(S, small):
    units = np.geomspace(1 / small, small, len(S))
    with pytest.raises(CurvatureError) as caught:
        Dense(S * np.outer(units, units))
    smallest, damping = named_numbers(caught.value)
    assert smallest < 0
    Dense(S * np.outer(units, units) + damping * np.eye(len(S)))  # cured


def test_rounding_is_not_indefinite():
    S = COLLINEAR.T @ COLLINEAR
    noise = 1e-14 * rng.normal(size=S.shape)
    assert Dense(S + noise + noise.T).null.shape[1] == 2


# ---------------------------------------------------------------------- roots and products
@designs(REGULAR, SINGULAR)
def test_psd_root(design):
    S = design.T @ design
    C = _linalg.psd_root(S)
    assert C.shape == (len(S), np.linalg.matrix_rank(design))
    assert_allclose(C @ C.T, S, atol=1e-11)


@pytest.mark.parametrize("r", [1, 3, 4, 6, 20])
def test_triangular_root(r):
    root = rng.normal(size=(6, r))
    U = _linalg.triangular_root(root)
    assert_allclose(U @ U.T, root @ root.T, atol=1e-12)
    assert U.shape[1] <= 6
    if r >= 6:
        assert_allclose(np.tril(U, -1), 0)


def test_triangular_root_with_a_coordinate_that_does_not_move():
    root = rng.normal(size=(6, 8))
    root[2] = 0.0
    L = _linalg.triangular_root(root)
    assert_allclose(L @ L.T, root @ root.T, atol=1e-12)


@pytest.mark.parametrize("shape", [(7, 5), (7, 2, 5), (1, 5), (0, 5)])
@pytest.mark.parametrize("kind", ["lower", "upper", "full", "wide", "narrow"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_right_multiply(shape, kind, order):
    T = {"lower": np.tril(A[:5]), "upper": np.triu(A[:5]), "full": A[:5], "wide": A[:8].T, "narrow": A[:5, :2]}[kind]
    B, T = rng.normal(size=shape), np.array(T, order=order)
    before = B.copy(), T.copy()
    assert_allclose(_linalg.right_multiply(B, T), B @ T, atol=1e-12)
    assert_allclose(_linalg.right_multiply(B[..., ::-1], T), B[..., ::-1] @ T, atol=1e-12)  # not contiguous
    assert (before[0] == B).all() and (before[1] == T).all()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_gram_with_weights_of_any_sign(form):
    weight = rng.normal(size=40)
    for w in (weight, np.abs(weight), np.full(40, 2.0)):
        assert_allclose(_linalg.gram(form(A), w), A.T @ np.diag(w) @ A, atol=1e-12)
    assert_allclose(_linalg.gram(form(A)), A.T @ A)
    scaled = _linalg.scale_rows(form(A), weight)
    assert sparse.issparse(scaled) == (form is sparse.csr_array)
    assert_allclose(scaled.toarray() if sparse.issparse(scaled) else scaled, weight[:, None] * A)


@pytest.mark.parametrize("kind", ["regular", "narrow", "singular curvature", "no curvature"])
def test_sandwich_root(kind):
    rng = np.random.default_rng(0)  # of its own: one matrix in sixty is singular enough for a root that is no triangle
    X = rng.normal(size=(20, 6)) * 10.0 ** np.arange(-3, 3)
    X = 0 * X if kind == "no curvature" else X
    if kind == "singular curvature":
        X[:, 0] = X[:, 1]
    C = rng.normal(size=(6, 3 if kind == "narrow" else 6))
    H = Dense(X.T @ X)
    expected, R = H.solve(C), H.sandwich_root(C @ C.T)
    scale = np.abs(expected).max(axis=1)
    scale = np.where(scale > 0, scale, 1.0)[:, None]
    assert_allclose((R / scale) @ (R / scale).T, (expected / scale) @ (expected / scale).T, atol=1e-10)
    assert kind != "regular" or not np.tril(R, -1).any()
