"""Small dense linear algebra: Gram matrices, roots, and the factored curvature."""

from math import prod

import numpy as np
from scipy import sparse
from scipy.linalg import bandwidth, blas, cho_solve, eigh, lapack

from .._utils.compat import cached_property
from ..exceptions import CurvatureError

EXACT_COLUMNS = 1500  # largest number of parameters with an exact inverse root, p x p: 18 MB, 1.1e9 multiplications
N_PROBES = 64  # random columns of a larger inverse root: the standard error of a leverage h is sqrt(2/64) h
N_FLAT = 16  # random combinations in place of more flat directions: any row that moves along them moves along one
LARGEST = 1e150  # largest entry that is squared: its square does not overflow


def rank_tolerance(p):
    """Largest rounding error of a zero pivot in a (p, p) matrix with unit diagonal."""
    return 10 * p * np.finfo(float).eps


def gram(A, weight=None):
    """A' diag(weight) A as a dense array (p, p), for a dense or sparse A (n, p) and weights of any sign."""
    factor = 1.0
    if weight is not None and weight.size and (weight == weight[0]).all():  # as in unweighted least squares: no copy
        factor, weight = weight[0], None
    if weight is not None and (weight >= 0).all():
        A, weight = scale_rows(A, np.sqrt(weight)), None
    # numpy recognizes A.T @ A as a symmetric rank-n update, half the work of a general product
    product = A.T @ A if weight is None else A.T @ scale_rows(A, weight)
    product = product.toarray() if sparse.issparse(product) else product
    return product if factor == 1.0 else factor * product


def batch_gram(A):
    """A_i A_i', (n, k, k), for a stack A (n, k, r)."""
    return A @ A.transpose(0, 2, 1) if A.shape[1] > 1 else np.einsum("nkr,nkr->nk", A, A)[:, :, None]


def row_covariances(root):
    """A_i A_i', (n, k, k), for roots A (n, k, r); roots of several outputs are scaled down if they overflow."""
    if root.shape[1] > 1:  # an infinite covariance has no correlations
        widest = np.abs(root).max(axis=(1, 2), initial=0.0, keepdims=True)
        if (widest > LARGEST).any():
            root = root * np.divide(LARGEST, widest, out=np.ones_like(widest), where=widest > LARGEST)
    return batch_gram(root)


def scale_rows(A, scale):
    """diag(scale) A; sparse if A is."""
    return A.multiply(scale[:, None]).tocsr() if sparse.issparse(A) else A * scale[:, None]


def right_multiply(A, T):
    """A @ T for a stack A (..., p) and T (p, r), in half the time if T is square and triangular."""
    p, r = T.shape
    flat = A.reshape(prod(A.shape[:-1]), p)  # numpy multiplies the matrices of a stack one by one
    below, above = bandwidth(T) if p == r > 0 and len(flat) > 1 else (1, 1)
    triangular = below == 0 or above == 0
    product = blas.dtrmm(1.0, T.T, flat.T, lower=below == 0).T if triangular else flat @ T
    return product.reshape(*A.shape[:-1], r)


def regular_cholesky(S):
    """Upper-triangular U with U'U = D S D, or None if S is singular up to rounding or indefinite; D S D, and D (p,)."""
    diagonal = np.diag(S)
    with np.errstate(invalid="ignore"):
        scale = 1 / np.sqrt(np.where(diagonal == 0, 1.0, np.abs(diagonal)))  # so that units of columns do not matter
        R = S * scale[:, None]
        R *= scale
    U, failed = lapack.dpotrf(R.T)  # R is symmetric, and its transpose in LAPACK's order
    regular = not failed and (np.diag(U) ** 2 > 10 * rank_tolerance(len(R))).all()
    return (U if regular else None), R, scale


def pivoted_cholesky(R):
    """Rank-revealing factorization of a positive semi-definite R (p, p) of unit diagonal.

    Returns U (r, p), upper trapezoidal with U'U = R[pivots][:, pivots] up to rounding, where r is the rank; the pivots
    (p,), the first r of which are a largest set of independent coordinates; and whether R is indefinite.
    """
    U, pivots, r, _ = lapack.dpstrf(R, tol=rank_tolerance(len(R)))
    U, pivots = np.triu(U)[:r], pivots - 1
    rest = pivots[r:]
    residual = np.abs(R[np.ix_(rest, rest)] - U[:, r:].T @ U[:, r:]).max(initial=0.0)
    return U, pivots, residual > np.sqrt(rank_tolerance(len(R)))


def upper_root(S):
    """Upper-triangular U with U U' = S, (p, p); None if S is singular up to rounding, indefinite or not finite."""
    U, _, scale = regular_cholesky(S[::-1, ::-1])  # from the last row on, since LAPACK has only U'U
    return None if U is None else U.T[::-1, ::-1] / scale[::-1, None]


def psd_root(S):
    """C (p, r) with C C' = S, positive semi-definite up to rounding; r is the rank, and C upper-triangular if r = p."""
    C = upper_root(S)
    if C is None:
        _, R, scale = regular_cholesky(S)
        U, pivots, _ = pivoted_cholesky(R)
        C = U.T[np.argsort(pivots)] / scale[:, None]
    return C


def triangular_root(root):
    """Upper-triangular U with U U' = root root', or ``root`` (p, r) itself if that product is singular or overflows."""
    if root.shape[1] < root.shape[0]:
        return root
    with np.errstate(over="ignore", invalid="ignore"):
        U = upper_root(root @ root.T)
    return root if U is None else U


class Factor:
    """Factored H_r: symmetric and positive definite, apart from directions that it holds fixed.

    A subclass writes ``solve`` and ``to_dense``, and sets

    - ``rank``: p less the number of fixed directions,
    - ``null`` (p, m): the fixed directions, or a few random combinations if they are many,
    - ``diagonal`` (p,) of H_r, ``inverse_diagonal`` (p,) of its inverse,
    - ``inverse_root`` M (p, r) with M M' = H_r^-1: exact, or in expectation if p columns would be too many.
    """

    def solve(self, B):
        """H_r^-1 B for B (p, m)."""
        raise TypeError(f"{type(self).__name__} must define solve(B).")

    def to_dense(self):
        """H_r as an array (p, p)."""
        raise TypeError(f"{type(self).__name__} must define to_dense().")

    def sandwich_root(self, S):
        """R (p, r) with R R' = H_r^-1 S H_r^-1 for a semi-definite S (p, p), triangular if that product is regular."""
        return triangular_root(self.solve(psd_root(S)))

    def effective_parameters(self, shift):
        """tr(H_r^-1 (H_r - diag(shift))): the sum of leverages; ``shift`` (p,) is the penalty and damping in H_r."""
        return self.rank - float(shift[shift > 0] @ self.inverse_diagonal[shift > 0])  # an inverse may overflow


def probes(p, n_columns=None):
    """E (p, m) with E E' = I: the identity for a small p, else random columns, always the same, in expectation."""
    if n_columns is None and p <= EXACT_COLUMNS:
        return np.eye(p)
    m = N_PROBES if n_columns is None else n_columns
    return np.random.default_rng(0).standard_normal((p, m)) / np.sqrt(m)


def flat_directions(is_flat):
    """Columns (p, m) along the flat coordinates, or N_FLAT random combinations if they are more."""
    where = np.flatnonzero(is_flat)
    N = np.zeros((len(is_flat), min(len(where), N_FLAT)))
    N[where] = np.eye(len(where)) if len(where) <= N_FLAT else probes(len(where), N_FLAT)
    return N


class Dense(Factor):
    """Factored symmetric positive semi-definite matrix (p, p); raises CurvatureError if it is indefinite.

    A singular matrix is inverted on a largest set of independent coordinates, with the redundant ones held fixed, as if
    collinear columns were dropped. Quadratic forms of vectors in its range are the same for any generalized inverse.
    """

    def __init__(self, matrix, shift=0.0):
        self.matrix = (matrix + matrix.T) / 2
        self.matrix[np.diag_indices(len(matrix))] += shift
        self.diagonal = np.diag(self.matrix)
        U, R, self._scale = regular_cholesky(self.matrix)
        pivots = np.arange(len(R))
        if U is None:
            U, pivots, indefinite = pivoted_cholesky(R)
            if indefinite:
                smallest = _smallest_eigenvalue(self.matrix)
                raise CurvatureError(
                    f"The penalized curvature is indefinite: its smallest eigenvalue is {smallest:.3g}. The model is "
                    "not at a minimum of its training loss. Use curvature='ggn', which is never indefinite, or damping "
                    f"greater than {-1.1 * smallest:.3g}, or train to convergence."
                )
        self.rank = len(U)
        self._kept, self._redundant = np.split(pivots, [self.rank])
        self._factor, self._beside = np.split(U, [self.rank], axis=1)

    def solve(self, B):
        """H^- B for B (p,) or (p, m)."""
        X, scale = np.zeros_like(B, dtype=float), self._scale[self._kept]
        if not self.rank:  # LAPACK takes no empty matrix
            return X
        solved = cho_solve((self._factor, False), (B[self._kept].T * scale).T, check_finite=False)
        X[self._kept] = (solved.T * scale).T
        return X

    def sandwich_root(self, S):
        M = self.inverse_root
        return right_multiply(M, triangular_root(right_multiply(psd_root(S).T, M).T))

    @cached_property
    def inverse_root(self):
        """M (p, r) with M M' = H^-, upper-triangular if r = p."""
        M = np.zeros((len(self.matrix), self.rank))
        if self.rank:
            M[self._kept] = lapack.dtrtri(self._factor)[0] * self._scale[self._kept, None]
        return M

    @property
    def inverse_diagonal(self):
        """Diagonal of the inverse H^-, (p,)."""
        return np.einsum("ij,ij->i", self.inverse_root, self.inverse_root)

    @property
    def null(self):
        """Flat directions (p, m), each a redundant coordinate less its dependence on the kept ones."""
        redundant = self._redundant
        N = -self.inverse_root @ self._beside
        N[redundant, np.arange(len(redundant))] = self._scale[redundant]
        return N

    def to_dense(self):
        """Return the matrix itself."""
        return self.matrix


def _smallest_eigenvalue(matrix):
    """Negative eigenvalue, also if columns of very different units bury it in the rounding of the largest."""
    smallest = eigh(matrix, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0]
    if smallest < -rank_tolerance(len(matrix)) * np.abs(matrix).max():
        return smallest
    diagonal, eye = np.abs(np.diag(matrix)), np.eye(len(matrix))
    damping = np.finfo(float).eps * diagonal[diagonal > 0].min(initial=1.0)
    while pivoted_cholesky(regular_cholesky(matrix + damping * eye)[1])[2]:
        damping *= 1.5
    return -damping
