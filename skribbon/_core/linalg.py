"""Small dense linear algebra: Gram matrices, triangular roots, and the factored curvature."""

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import blas, eigh, lapack

from ..exceptions import CurvatureError

FEW_ROWS = 8  # whose products take no longer than to see whether a matrix is triangular
PANEL = 96  # columns of a triangular matrix that are multiplied at a time
EXACT_COLUMNS = 1500  # up to here an inverse root has a column per parameter
N_PROBES = 64  # random columns beyond: a leverage h is then known to sqrt(2/64) h, the sum of n of them far better
N_FLAT = 16
LARGEST = 1e150  # whose square is a number


def rank_tolerance(p):
    """What rounding can leave of a zero pivot in a p x p matrix with unit diagonal."""
    return 10 * p * np.finfo(float).eps


def gram(A):
    """A'A as a dense array; A may be dense (n, p) or sparse."""
    product = A.T @ A  # numpy recognises this as a symmetric rank-n update, half the work of a general product
    return product.toarray() if sparse.issparse(product) else product


def batch_gram(A):
    """A_i A_i', (n, k, k), for a stack A (n, k, r)."""
    if A.shape[1] == 1:
        return np.einsum("nkr,nkr->nk", A, A)[:, :, None]
    return A @ A.transpose(0, 2, 1)


def row_covariances(root):
    """A_i A_i', (n, k, k), of roots A (n, k, r); several outputs so wide that they overflow are cut."""
    if root.shape[1] > 1:  # what is infinite in all directions has no direction
        widest = np.abs(root).max(axis=(1, 2), initial=0.0, keepdims=True)
        if (widest > LARGEST).any():
            root = root * np.divide(LARGEST, widest, out=np.ones_like(widest), where=widest > LARGEST)
    return batch_gram(root)


def weighted_gram(A, weight, B=None):
    """A' diag(weight) B as a dense array, B = A by default; weights of one sign take the symmetric shortcut."""
    if B is None and weight.size and (weight == weight[0]).all():  # as in unweighted least squares: no scaled copy
        return weight[0] * gram(A)
    if B is None and (weight >= 0).all():
        return gram(scale_rows(A, np.sqrt(weight)))
    product = A.T @ scale_rows(A if B is None else B, weight)
    return product.toarray() if sparse.issparse(product) else product


def scale_rows(A, scale):
    """diag(scale) A, sparse in, sparse out."""
    return A.multiply(scale[:, None]).tocsr() if sparse.issparse(A) else A * scale[:, None]


def stack_rows(pieces):
    """Arrays with the same columns below each other; sparse if they are."""
    return sparse.vstack(pieces).tocsr() if sparse.issparse(pieces[0]) else np.concatenate(pieces)


def right_multiply(A, T):
    """A @ T for a stack A (..., p), at little more than half the cost where T is square and triangular."""
    flat, (p, r) = A.reshape(-1, A.shape[-1]), T.shape  # as a stack, numpy would multiply thin matrices one by one
    side = None if p < 2 * PANEL or len(flat) < FEW_ROWS else triangle(T)
    if side is None:
        return (flat @ T).reshape(*A.shape[:-1], r)
    out = np.empty(flat.shape)
    for columns in _panels(p):
        rows = _filled(side, columns)
        np.matmul(flat[:, rows], T[rows, columns], out=out[:, columns])
    return out.reshape(A.shape)


def left_multiply(T, B):
    """T @ B for B (p, m), at little more than half the cost where T is square and triangular."""
    side = None if len(T) < 2 * PANEL else triangle(T)
    if side is None or B.ndim == 1:
        return T @ B
    out = np.empty(B.shape)
    for rows in _panels(len(T)):
        columns = _filled("upper" if side == "lower" else "lower", rows)
        np.matmul(T[rows, columns], B[columns], out=out[rows])
    return out


def vector_product(x, T, side):
    """x @ T for a vector x (p,) and a triangular T, of which only the triangle is read."""
    return blas.dtrmv(T.T, x, lower=side == "upper")


def triangle(T):
    """Where the numbers of a square T are, "lower" or "upper", or None if it is not triangular."""
    if T.shape[0] != T.shape[1]:
        return None
    if not T[0, 1:].any() and _is_lower(T):
        return "lower"
    return "upper" if not T[-1, :-1].any() and _is_lower(T.T) else None


def _is_lower(T):
    panels = _panels(len(T))
    return not any(T[rows, rows.stop :].any() or np.triu(T[rows, rows], 1).any() for rows in panels)


def _panels(p):
    return [slice(start, min(start + PANEL, p)) for start in range(0, p, PANEL)]


def _filled(side, columns):
    """Rows of some columns of a triangular matrix that are not all zero."""
    return slice(columns.start, None) if side == "lower" else slice(0, columns.stop)


def triangular_inverse(L, out=None):
    """Of a lower-triangular L, by halves: a quarter of the products of a general inverse, and all of them in BLAS.

    ``out`` may be L itself.
    """
    p, out = len(L), np.zeros_like(L) if out is None else out
    if p <= PANEL:
        out[...] = np.tril(np.linalg.inv(L))
        return out
    half = p // 2
    first = triangular_inverse(L[:half, :half], out[:half, :half])
    last = triangular_inverse(L[half:, half:], out[half:, half:])
    np.negative(right_multiply(left_multiply(last, L[half:, :half]), first), out=out[half:, :half])
    return out


def lower_product(A, B, out=None):
    """A @ B for lower-triangular A and B, by halves: a sixth of the products of a general one.

    ``out`` may be A or B itself.
    """
    p, out = len(A), np.zeros_like(A) if out is None else out
    if p <= PANEL:
        out[...] = A @ B
        return out
    half = p // 2
    left = right_multiply(A[half:, :half], B[:half, :half])
    np.add(left, left_multiply(A[half:, half:], B[half:, :half]), out=out[half:, :half])
    lower_product(A[:half, :half], B[:half, :half], out[:half, :half])
    lower_product(A[half:, half:], B[half:, half:], out[half:, half:])
    return out


def upper_lower_product(A, B):
    """Overwrite a lower-triangular B by A @ B, A upper-triangular: a third of the products of a general one."""
    p = len(A)
    if p <= PANEL:
        B[...] = A @ B
        return B
    half = p // 2
    first, below, last = B[:half, :half], B[half:, :half], B[half:, half:]
    upper_lower_product(A[:half, :half], first)
    first += A[:half, half:] @ below
    B[:half, half:] = right_multiply(A[:half, half:], last)
    below[...] = left_multiply(A[half:, half:], below)
    upper_lower_product(A[half:, half:], last)
    return B


def square_in_place(L):
    """Overwrite a lower-triangular L by L L', by halves."""
    p = len(L)
    if p <= PANEL:
        L[...] = L @ L.T
        return
    half = p // 2
    first, below, last = L[:half, :half], L[half:, :half], L[half:, half:]
    square_in_place(last)
    last += below @ below.T
    below[...] = right_multiply(below, first.T)
    L[:half, half:] = below.T
    square_in_place(first)


def outer_square(T):
    """T T' of (p, r), at a third of the cost where T is square and triangular."""
    side = None if len(T) < 2 * PANEL else triangle(T)
    if side is None:
        return T @ T.T
    out = np.empty(T.shape)
    for rows in _panels(len(T)):
        there, filled = (slice(rows.start, None), slice(0, rows.stop))[:: 1 if side == "lower" else -1]
        out[there, rows] = block = T[there, filled] @ T[rows, filled].T
        out[rows, there] = block.T
    return out


def upper_root(S, out=None):
    """Upper-triangular U with U U' = S, symmetric (p, p), or None where S is singular and rounding hides how.

    ``out`` may be S itself.
    """
    R, scale = of_unit_diagonal(S[::-1, ::-1])  # from the last row on
    if not np.isfinite(scale).all() or natural_cholesky(R) is None:
        return None
    out = np.empty(S.shape) if out is None else out
    np.divide(R[::-1, ::-1], scale[::-1, None], out=out)
    return out


def triangular_root(root):
    """Lower-triangular L with L L' = root root', or ``root`` (p, r) itself where that product is singular."""
    if root.shape[1] < root.shape[0]:
        return root
    with np.errstate(over="ignore", invalid="ignore"):
        S = root @ root.T
    scale = np.sqrt(np.diag(S))
    if not scale.all() or not np.isfinite(S).all():  # or so large that its square is no number
        return root
    L = _regular_cholesky(S / scale[:, None] / scale)
    return root if L is None else scale[:, None] * L


def of_unit_diagonal(S, out=None):
    """D S D and D, (p,): 1/sqrt(|diag S|), and one where that is zero, so that units of the columns do not matter.

    ``out`` may be S itself.
    """
    diagonal = np.diag(S)
    with np.errstate(invalid="ignore"):
        scale = 1 / np.sqrt(np.where(diagonal == 0, 1.0, np.abs(diagonal)))
        R = np.multiply(S, scale[:, None], out=out)
        R *= scale
    return R, scale


def natural_cholesky(R):
    """Overwrite R, of unit diagonal and semi-definite, by a lower-triangular L with L L' = R.

    Coordinates are taken as they come. Some of a large R may be redundant, where that is beyond doubt: their columns of
    L are zero, and L is a triangle still, of which products are cheap.

    Returns
    -------
    ndarray of ints or None
        The redundant coordinates; None where rounding leaves doubts, or they are most of all, and R is what it was.
    """
    blocks = [R[rows, rows].copy() for rows in _panels(len(R))]
    redundant = np.arange(0) if _regular_in_place(R) else None
    if redundant is None and len(R) >= 2 * PANEL:
        _restore(R, blocks)
        redundant = _lower_cholesky(R)
    if redundant is None:
        _restore(R, blocks)
        return None
    for rows in _panels(len(R)):
        R[rows, rows.stop :] = 0.0
        R[rows, rows] = np.tril(R[rows, rows])
    return redundant


def _regular_in_place(R):
    """Overwrite the lower triangle of R by its Cholesky factor; whether all pivots are larger than rounding."""
    U, failed = lapack.dpotrf(R.T, clean=0, overwrite_a=1)  # whose upper triangle is the lower one of R
    if not failed and not np.shares_memory(U, R):
        R[...] = U.T
    return not failed and bool((np.diag(R) ** 2 > 10 * rank_tolerance(len(R))).all())


def _restore(R, blocks):
    """Overwrite what is below the blocks of the diagonal by what is above them, and those by what they were."""
    for rows, block in zip(_panels(len(R)), blocks, strict=True):
        R[rows, rows], R[rows.stop :, rows] = block, R[rows, rows.stop :].T


def _lower_cholesky(R):
    """:func:`natural_cholesky` on and below the blocks of the diagonal."""
    p, tolerance, least, redundant = len(R), rank_tolerance(len(R)), np.inf, []
    for rows in _panels(p):
        start, stop = rows.start, rows.stop
        R[start:, rows] -= R[start:, :start] @ R[rows, :start].T
        found = _block_cholesky(R[rows, rows], tolerance)
        if found is None:
            return None
        L, zero = found
        least = min(least, np.delete(np.diag(L), zero).min(initial=np.inf) ** 2)
        redundant.extend(start + zero)
        R[rows, rows] = L
        L[zero, zero] = 1.0
        R[stop:, rows] = R[stop:, rows] @ np.linalg.inv(L).T
        if np.abs(R[stop:, start + zero]).max(initial=0.0) > np.sqrt(tolerance):  # R is indefinite
            return None
        R[stop:, start + zero] = 0.0
    in_doubt = redundant and (least <= np.sqrt(tolerance) or 2 * len(redundant) >= p)
    return None if in_doubt else np.array(redundant, dtype=np.intp)


def _block_cholesky(R, tolerance):
    """L of a small R and the coordinates that are redundant, or None where one may be, or R is indefinite."""
    L = _regular_cholesky(R, tolerance)
    if L is not None:
        return L, np.arange(0)
    L, zero = np.tril(R), []
    for j, pivot in enumerate(np.einsum("jj->j", L)):  # a view: pivots change
        if pivot > 10 * tolerance:
            L[j:, j] /= np.sqrt(pivot)
            L[j + 1 :, j + 1 :] -= np.tril(np.outer(L[j + 1 :, j], L[j + 1 :, j]))
        elif np.abs(pivot) <= tolerance and np.abs(L[j:, j]).max() <= np.sqrt(tolerance):
            L[j:, j] = 0.0
            zero.append(j)
        else:
            return None
    return L, np.array(zero, dtype=np.intp)


def _regular_cholesky(R, tolerance=None):
    """Plain Cholesky factor of R with unit diagonal, or None where a pivot is no larger than rounding."""
    tolerance = rank_tolerance(len(R)) if tolerance is None else tolerance
    U, failed = lapack.dpotrf(R.T)  # in LAPACK's order of entries, without numpy's copies
    return U.T if not failed and (np.diag(U) ** 2 > 10 * tolerance).all() else None


def pivoted_cholesky(R):
    """Rank-revealing factorisation of a positive semi-definite R (p, p) of unit diagonal.

    Returns
    -------
    L : ndarray of shape (p, r)
        Lower trapezoidal, with L L' = R[pivots][:, pivots] up to rounding; r is the numerical rank.
    pivots : ndarray of shape (p,)
        The first r are a largest set of independent coordinates.
    residual : float
        Largest entry of what L L' leaves of R: rounding if that is semi-definite, and not if it is indefinite.
    """
    L, pivots, r, _ = lapack.dpstrf(R, tol=rank_tolerance(len(R)), lower=1)
    pivots, r = pivots - 1, int(r)
    L = np.tril(L)[:, :r]
    rest = pivots[r:]
    residual = np.abs(R[np.ix_(rest, rest)] - L[r:] @ L[r:].T).max(initial=0.0)
    return L, pivots, residual


def psd_root(S, overwrite=False):
    """C (p, r) with C C' = S, for S positive semi-definite up to rounding; r is its rank.

    Where C is square and lower-triangular, zero columns may be among the r.
    """
    R, scale = of_unit_diagonal(S, out=S if overwrite else None)
    if natural_cholesky(R) is not None:
        R /= scale[:, None]
        return R
    L, pivots, _ = pivoted_cholesky(R)
    C = np.empty_like(L)
    C[pivots] = L
    C /= scale[:, None]
    return C


class Factor:
    """H_r, ready to be solved with: symmetric and positive definite, apart from directions that it holds fixed.

    A subclass writes ``solve`` and ``to_dense``, and sets

    - ``rank``: p less the number of fixed directions,
    - ``null`` (p, m): those directions, or a few random combinations of them where they are many,
    - ``diagonal`` (p,) of H_r, ``inverse_diagonal`` (p,) of its inverse,
    - ``inverse_root`` M (p, r) with M M' = H_r^-1: exact, or in expectation where p columns would be too many.
    """

    def solve(self, B):
        """H_r^-1 B for B (p, m)."""
        raise TypeError(f"{type(self).__name__} must define solve(B).")

    def to_dense(self):
        """H_r as an array (p, p)."""
        raise TypeError(f"{type(self).__name__} must define to_dense().")

    def sandwich_root(self, C):
        """R (p, r) with R R' = H_r^-1 C C' H_r^-1, triangular where that is regular; C may be overwritten."""
        return triangular_root(self.solve(C))

    def effective_parameters(self, shift):
        """tr(H_r^-1 (H_r - diag(shift))): the sum of leverages, where ``shift`` is the part of H_r that is not data."""
        return self.rank - float(shift @ self.inverse_diagonal)


def probes(p, n_columns=None):
    """E (p, m) with E E' = I: the identity for a small p, else random columns for which it holds in expectation.

    The columns are always the same: what is estimated with them does not change from one fit to the next.
    """
    if n_columns is None and p <= EXACT_COLUMNS:
        return np.eye(p)
    m = N_PROBES if n_columns is None else n_columns
    return np.random.default_rng(0).standard_normal((p, m)) / np.sqrt(m)


def flat_directions(is_flat):
    """Columns (p, m) along the coordinates that are flat; at most N_FLAT random combinations of them."""
    where = np.flatnonzero(is_flat)
    N = np.zeros((len(is_flat), min(len(where), N_FLAT)))
    N[where] = np.eye(len(where)) if len(where) <= N_FLAT else probes(len(where), N_FLAT)
    return N


class Dense(Factor):
    """Factored symmetric positive semi-definite matrix (p, p).

    A singular matrix is inverted on a largest set of independent coordinates, the redundant ones held fixed, as one
    would drop collinear columns by hand. Whatever lies in the range of the matrix does not notice: its quadratic
    forms are the same for every generalised inverse.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)

    Raises
    ------
    CurvatureError
        If the matrix has a negative eigenvalue beyond rounding.
    """

    def __init__(self, matrix, shift=0.0):
        p = len(matrix)
        self.matrix = matrix + matrix.T
        self.matrix /= 2
        self.matrix[np.diag_indices(p)] += shift
        L, scale = of_unit_diagonal(self.matrix)
        redundant = natural_cholesky(L)
        if redundant is None:
            L, pivots, residual = pivoted_cholesky(L)
            if _is_indefinite(residual, p):
                raise CurvatureError(_indefinite_message(self.matrix))
            self.rank = L.shape[1]
            self._kept, self._redundant = pivots[: self.rank], pivots[self.rank :]
            L, self._below = np.array(L[: self.rank]), L[self.rank :]
        else:
            self.rank = p - len(redundant)
            self._kept, self._redundant, self._below = slice(None), redundant, L[redundant]
            L[redundant], L[redundant, redundant] = 0.0, 1.0
        inverse = triangular_inverse(L, out=L)
        if redundant is not None:
            inverse[redundant, redundant] = 0.0
        inverse *= scale[self._kept]
        self._root, self._scale = inverse.T, scale  # upper triangular, a root of the inverse on the kept coordinates

    def solve(self, B):
        """H^- B for B (p,) or (p, m)."""
        X = np.zeros_like(B, dtype=float)
        X[self._kept] = left_multiply(self._root, left_multiply(self._root.T, B[self._kept]))
        return X

    def sandwich_root(self, C):
        M = self._root
        if M.shape != self.matrix.shape or C.shape != M.shape or triangle(C) != "lower":
            return super().sandwich_root(C)
        is_regular, V = np.diag(C).all(), lower_product(M.T, C, out=C)
        with np.errstate(over="ignore"):
            size = np.sqrt(np.einsum("ij,ij->i", V, V))
        if not is_regular or not np.isfinite(size).all():
            R = upper_lower_product(M, V)
            return R[:, R.any(axis=0)]
        # with an upper-triangular U U' = V V', R = M U: that is a triangle too
        V /= np.where(size > 0, size, 1.0)[:, None]
        square_in_place(V)
        U = upper_root(V, out=V)
        if U is None:
            return left_multiply(M, size[:, None] * psd_root(V, overwrite=True))
        U *= size[:, None]
        return lower_product(U.T, M.T, out=U.T).T

    @cached_property
    def inverse_root(self):
        """M (p, r) with M M' = H^-; square and triangular, with zero columns, where few coordinates are redundant."""
        if isinstance(self._kept, slice):
            return self._root
        M = np.zeros((len(self.matrix), self.rank))
        M[self._kept] = self._root
        return M

    @property
    def diagonal(self):
        """Of the matrix, (p,)."""
        return np.diag(self.matrix)

    @property
    def inverse_diagonal(self):
        """Of H^-, (p,)."""
        out = np.zeros(len(self.matrix))
        out[self._kept] = np.einsum("ij,ij->i", self._root, self._root)
        return out

    @property
    def null(self):
        """Directions (p, m) along which the matrix is flat; m = 0 for a regular one.

        Each is one redundant coordinate less its dependence on the kept ones, in units in which the rows that made
        the matrix have entries of order one.
        """
        redundant = self._redundant
        N = np.zeros((len(self.matrix), len(redundant)))
        N[self._kept] = -(self._root @ self._below.T)
        N[redundant, np.arange(len(redundant))] = self._scale[redundant]
        return N

    def to_dense(self):
        """The matrix itself."""
        return self.matrix


def _is_indefinite(residual, p):
    return residual > np.sqrt(rank_tolerance(p))


def _smallest_eigenvalue(matrix):
    """The negative eigenvalue, also where columns of very different units bury it in the rounding of the largest."""
    smallest = eigh(matrix, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0]
    if smallest < -rank_tolerance(len(matrix)) * np.abs(matrix).max():
        return smallest
    diagonal, eye = np.abs(np.diag(matrix)), np.eye(len(matrix))
    damping = np.finfo(float).eps * diagonal[diagonal > 0].min(initial=1.0)
    while _is_indefinite(pivoted_cholesky(of_unit_diagonal(matrix + damping * eye)[0])[2], len(matrix)):
        damping *= 1.5
    return -damping


def _indefinite_message(matrix):
    smallest = _smallest_eigenvalue(matrix)
    return (
        f"The penalised curvature is indefinite: its smallest eigenvalue is {smallest:.3g}. The model is not at a "
        f"minimum of its training loss. Use curvature='ggn', which is never indefinite, or damping greater than "
        f"{-1.1 * smallest:.3g}, or train to convergence."
    )
