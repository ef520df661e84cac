"""Curvature known only by its products with vectors: conjugate gradients, and their preconditioner for networks."""

from functools import partial
from operator import methodcaller
from typing import Literal

import numpy as np
from scipy.linalg import block_diag, cho_solve, cholesky

from .._core.linalg import EXACT_COLUMNS, Factor, gram
from .._core.rows import Block, Moments, Rows, Sums, some_of
from .._utils.compat import cached_property
from ..exceptions import CurvatureError, SolverWarning, warn_user
from .base import CURVATURES, Curvature
from .kfac import inverse_root, kronecker_factor
from .structured import DiagonalFactor

SCORES_EACH = 3  # scores of a sampled row; with more, fewer rows fit, and they represent all rows less well
WIDER = 6  # least parameters per score, so that the kernel is small beside a (p, p) array
SAMPLES_EACH = 3  # least scores per effective parameter; with fewer, KFAC is the better preconditioner
SHARE = 0.03  # share of the biases' curvature that is added to D, since biases have no penalty and D needs an inverse
SINGLE = 2000  # scores from which the kernel is formed in single precision, which makes a fit 2.3 times faster
PANEL = 512  # rows of the kernel formed at a time, so that only its lower triangle is computed


class ConjugateGradients(Factor):
    """H_r as an operator; ``solve`` runs preconditioned conjugate gradients on all right-hand sides at once."""

    def __init__(self, product, diagonal, precondition, sample, settings):
        self._product, self.diagonal, self._precondition, self._sample = product, diagonal, precondition, sample
        self._settings = settings
        self.rank, self.null = len(diagonal), np.zeros((len(diagonal), 0))

    def solve(self, B, tol=None):
        settings = self._settings
        tol = tol or settings.tol
        limits = tol, settings.max_iter, settings.verbose
        X, steps, left = conjugate_gradients(self._product, B, self._precondition, *limits)
        if left > tol:
            warn_user(
                f"Conjugate gradients stopped after {steps} steps with a relative residual of {left:.2g}, above "
                f"tol={tol:g}, so intervals are too narrow along flat directions. Try: damping, a stronger "
                "penalty of the base model, or a larger max_iter of MatrixFree.",
                SolverWarning,
            )
        return X

    @cached_property
    def inverse_root(self):
        """Root of the inverse in expectation: H_r^-1 xi of random xi with covariance H_r."""
        m = self._settings.n_probes
        return self.solve(sum(self._sample(m))) / np.sqrt(m)

    @property
    def inverse_diagonal(self):
        """Diagonal of the inverse in expectation, (p,)."""
        return (self.inverse_root**2).sum(axis=1)

    def effective_parameters(self, shift):
        """Estimate tr(H_r^-1 H) of a large model by E[xi' H_r^-1 xi], with random xi of covariance H."""
        if len(shift) <= EXACT_COLUMNS:
            return super().effective_parameters(shift)
        xi, _ = self._sample(4)  # so that d effective parameters have a relative error of 1 / sqrt(2 d)
        tol = np.sqrt(self._settings.tol)  # the error of the product is the square of the solution's
        return float(np.sum(xi * self.solve(xi, tol)) / xi.shape[1])

    def to_dense(self):
        p = len(self.diagonal)
        if p > EXACT_COLUMNS:
            raise MemoryError(f"curvature='matrix_free' has no dense array of {p} x {p} numbers; use curvature='ggn'.")
        return self._product(np.eye(p))


class MatrixFree(Curvature):
    r"""Products of H with vectors only: conjugate gradients over passes through the rows, and no p x p array.

    .. math:: H V = \frac1n \sum_i J_i' \,\mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right] J_i V

    Exact up to ``tol``, for any model. Directions that neither data nor penalty determine have no width, and there is
    no warning if a new row reaches into them.

    Parameters
    ----------
    matrix : {"ggn", "hessian"}, default="ggn"
        Gauss-Newton, never indefinite, or the exact Hessian. Leverages use Gauss-Newton in both cases.
    tol : float, default=1e-2
        Relative residual of every solve, in the norm of the preconditioner; the noise of the draws is far larger. The
        error is larger along the flattest directions of an ill-conditioned network.
    max_iter : int, default=200
        Steps of conjugate gradients; each is one pass over the rows.
    n_probes : int, default=32
        Random vectors by which leverages are estimated, with a relative error of sqrt(2 / n_probes).
    verbose : int, default=0
        Prints a line for every step of conjugate gradients.
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    LowRank : Leading eigenpairs.
    KFAC : Kronecker products, for networks.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`.

    Examples
    --------
    >>> from skribbon.curvature import MatrixFree
    >>> X, y = load_diabetes(return_X_y=True)
    >>> exact = RibbonRegressor(Ridge(alpha=0.1)).fit(X, y)
    >>> rough = RibbonRegressor(Ridge(alpha=0.1), curvature=MatrixFree(tol=1e-3), random_state=0).fit(X, y)
    >>> ratio = rough.predict_std(X, kind="epistemic") / exact.predict_std(X, kind="epistemic")
    >>> print(ratio.mean().round(1))  # up to the noise of 100 draws
    1.0
    """

    square_limit = 0

    def __init__(
        self,
        matrix: Literal["ggn", "hessian"] = "ggn",
        tol: float = 1e-2,
        max_iter: int = 200,
        n_probes: int = 32,
        verbose: int = 0,
        damping: float | Literal["auto"] = "auto",
    ):
        super().__init__(damping)
        self.matrix, self.tol, self.max_iter = matrix, tol, max_iter
        self.n_probes, self.verbose = n_probes, verbose

    def of_block(self, block: Block) -> Sums:
        layers = block.kronecker_sums() if block.model.has_layers else []
        return Sums([block.ggn_diagonal(), Sums(layers)])

    def factor(self, rows: Rows, moments: Moments) -> Factor:
        if self.matrix not in ("ggn", "hessian"):
            raise ValueError(f"matrix must be 'ggn' or 'hessian', got {self.matrix!r}.")
        diagonal, layers = moments.curvature / moments.n
        shift = self.shift(rows.model)
        guess = DiagonalFactor(diagonal + shift)
        if layers:  # sampled rows if these outnumber the effective parameters
            kronecker = kronecker_factor(rows.model, layers, shift)
            guess = sampled_gauss_newton(rows, kronecker, shift) or kronecker

        def product(V):
            return rows.sum(methodcaller(f"{self.matrix}_product", V)) / moments.n + shift[:, None] * V

        def sample(m):
            """Draw m vectors with covariance H, n^-1/2 sum_i J_i' R_i e_i, and m with diag(shift), (p, m) each."""
            penalty = np.sqrt(shift)[:, None] * np.random.default_rng(0).standard_normal((len(shift), m))
            return rows.sum(partial(_sampled, m)) / np.sqrt(moments.n), penalty

        return ConjugateGradients(product, diagonal + shift, guess.solve, sample, self)


CURVATURES["matrix_free"] = MatrixFree


def _sampled(m, block):
    """sum_i sqrt(weight_i) J_i' R_i e_i, (p, m), over a block."""
    rng, R = np.random.default_rng([1, block.index]), block.weighted(block.R)
    return block.tangent.vjp(R @ rng.standard_normal((len(block.y), R.shape[2], m)))


def conjugate_gradients(product, B, precondition, tol, max_iter, verbose=0):
    """Solve H X = B, (p, m), with shared products; returns X, the number of steps, the largest relative residual."""
    X, R = np.zeros_like(B), B
    Y = precondition(R)
    rho = np.einsum("pm,pm->m", R, Y)
    target = np.maximum(tol**2 * rho, np.finfo(float).tiny)
    start, P, steps = rho.copy(), Y, 0
    active = np.flatnonzero(rho > target)
    P, R = P[:, active], R[:, active]
    while len(active) and steps < max_iter:
        Q = product(P)
        curvature = np.einsum("pm,pm->m", P, Q)
        if (curvature <= 0).any():
            raise CurvatureError(
                f"The penalized curvature is indefinite: a direction has curvature {curvature.min():.3g}. Use "
                "MatrixFree(matrix='ggn'), which is never indefinite, or damping, or train to convergence."
            )
        step = rho[active] / curvature
        X[:, active] += step * P
        R -= step * Q
        Y = precondition(R)
        new = np.einsum("pm,pm->m", R, Y)
        P = Y + (new / rho[active]) * P
        rho[active] = new
        going = new > target[active]
        steps += 1
        if verbose:
            worst = np.sqrt((new / start[active]).max())
            print(f"[MatrixFree] step {steps}: {going.sum()} of {B.shape[1]} solves go on, residual {worst:.1e}")
        active, P, R = active[going], P[:, going], R[:, going]
    left = np.sqrt((rho / np.maximum(start, np.finfo(float).tiny)).max(initial=0.0))
    return X, steps, float(left)


class SampledGaussNewton:
    """Inverse of D + A'A with A = R'J / sqrt(m) of m sampled rows, by Woodbury: as many equations as A has rows.

    D is the penalty, plus a share of the biases' curvature over all layers. ``R`` (m, k, r) are roots of the rows'
    curvature in f, ``spreads`` the Kronecker factors (out, out) of each layer's outputs over all rows. If rounding in
    this precision spoils I + A D^-1 A', ``is_precise`` is False and there is no ``solve``.
    """

    def __init__(self, block, R, spreads, shift, precision):
        layers = block.model.layers
        self._biases, self._precision = np.concatenate([places[-1] for places in layers]), precision
        with np.errstate(over="ignore", invalid="ignore"):
            self._inverse = np.divide(1.0, shift, out=np.zeros_like(shift), where=shift > 0)[:, None]
            self._scores = block.tangent.layer_scores(block.weighted(R) / np.sqrt(block.total()), precision)
            own = gram(of_biases(self._scores).astype(float))
            places = np.split(np.arange(len(own)), np.cumsum([len(S) for S in spreads])[:-1])
            unseen = block_diag(*(_unseen(S, own[np.ix_(some, some)]) for S, some in zip(spreads, places, strict=True)))
            self._root, _ = inverse_root(SHARE * own + unseen + np.diag(shift[self._biases]))
            K = kernel(self._scores, [self._inverse[places[:-1, 0], 0] for places in layers], self._root)
        # rounding errors of the kernel may be a tenth of the identity that is added to it
        self.is_precise = bool(np.trace(K, dtype=float) * np.finfo(precision).eps <= 0.1)
        if self.is_precise:
            K[np.diag_indices_from(K)] += 1.0
            self._upper = cholesky(K.T, lower=False, overwrite_a=True, check_finite=False)

    def _over_base(self, V):
        """Compute D^-1 V, (p, m)."""
        out = self._inverse * V
        out[self._biases] = self._root @ (self._root.T @ V[self._biases])
        return out

    def solve(self, V):
        """Solve with D + A'A for V (p, m)."""
        Y = self._over_base(V)
        outputs = self._scores.product(Y.astype(self._precision, copy=False))  # A D^-1 V, (rows, r, m)
        inner = cho_solve((self._upper, False), outputs.reshape(-1, V.shape[1]), check_finite=False)
        return Y - self._over_base(self._scores.transposed_product(inner.reshape(outputs.shape)))


def sampled_gauss_newton(rows, kronecker, shift):
    """Precondition by random rows, or None if these are too few for all rows or a weight has no penalty."""
    # the kernel of 9000 scores, a square array of that size, takes 650 MB in double precision
    rank, size = rows.model.loss.curvature_rank, min(9000, len(shift) // WIDER)
    each = min(rank, max(SCORES_EACH, size // rows.n_rows))
    n_rows = min(rows.n_rows, size // each)
    penalised = all(layer.d[:-1].all() for layer in kronecker.layers)
    if not penalised or SAMPLES_EACH * kronecker.effective_parameters(shift) > n_rows * each:
        return None
    block = rows.take(some_of(rows.n_rows, n_rows)).whole
    if not block.total():
        return None
    R = block.R if each == rank else _some_scores(block.R, each)
    spreads = [layer.S for layer in kronecker.layers]
    for precision in (np.float32, np.float64) if n_rows * each >= SINGLE else (np.float64,):
        guess = SampledGaussNewton(block, R, spreads, shift, precision)
        if guess.is_precise:
            return guess
    return None


def _some_scores(R, r):
    """Random combinations (n, k, r) of the columns of roots R, whose products equal those of R on average."""
    turns = np.linalg.qr(np.random.default_rng(0).standard_normal((len(R), R.shape[2], r)))[0]
    return R @ (np.sqrt(R.shape[2] / r) * turns)


def _unseen(S, own):
    """Part of S along directions in which ``own``, estimated from fewer rows, has less than a tenth of S."""
    inverse, _ = inverse_root(S)
    shares, turn = np.linalg.eigh(inverse.T @ own @ inverse)
    along = S @ (inverse @ turn[:, shares < 0.1])
    return along @ along.T


def of_biases(scores):
    """Columns of the scores S that belong to biases, (n r, biases)."""
    return np.concatenate([delta.reshape(-1, delta.shape[2]) for delta in scores.deltas], axis=1)


def kernel(scores, scales, root):
    """Lower triangle of S D S' (n r, n r), with D ``scales`` (in,) for weights and root root' for all biases."""
    biases = of_biases(scores)
    biases = biases @ root.astype(biases.dtype)
    layers = []
    for a, delta, scale in zip(scores.inputs, scores.deltas, scales, strict=True):
        scaled = a[:, :-1] * np.sqrt(scale).astype(a.dtype)
        layers.append((np.repeat(scaled, delta.shape[1], axis=0), delta.reshape(-1, delta.shape[2])))
    K = np.empty((len(biases), len(biases)), biases.dtype)
    for start in range(0, len(K), PANEL):
        rows, before = slice(start, start + PANEL), slice(0, start + PANEL)
        panel = K[rows, before]
        np.matmul(biases[rows], biases[before].T, out=panel)
        for a, d in layers:
            products = d[rows] @ d[before].T
            products *= a[rows] @ a[before].T
            panel += products
    return K
