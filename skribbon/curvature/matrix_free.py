"""Solving with a curvature that is known by its products alone."""

from __future__ import annotations

from functools import cached_property, partial
from operator import methodcaller
from typing import Literal

import numpy as np

from .._core.linalg import EXACT_COLUMNS, Factor
from .._core.rows import Block, Moments, Rows, Sums
from ..exceptions import CurvatureError, SolverWarning, warn_user
from .base import Curvature
from .kfac import kronecker_factor
from .sampled import sampled_gauss_newton
from .structured import DiagonalFactor


class ConjugateGradients(Factor):
    """H_r as an operator; ``solve`` runs preconditioned conjugate gradients on all right-hand sides at once."""

    def __init__(self, product, diagonal, precondition, sample, settings):
        self._product, self.diagonal, self._precondition, self._sample = product, diagonal, precondition, sample
        self._settings = settings
        self.rank, self.null = len(diagonal), np.zeros((len(diagonal), 0))

    def solve(self, B, tol=None):
        tol = tol or self._settings.tol
        settings = self._settings
        X, steps, left = conjugate_gradients(
            self._product, B, self._precondition, tol, settings.max_iter, settings.verbose
        )
        if left > tol:
            warn_user(
                f"Conjugate gradients stopped after {steps} steps with a relative residual of {left:.2g}, above "
                f"tol={tol:g}: uncertainty is understated along the flattest directions. Add damping, penalise "
                "the base model more, or raise max_iter of MatrixFree.",
                SolverWarning,
            )
        return X

    @cached_property
    def inverse_root(self):
        """H_r^-1 xi of random xi with covariance H_r: a root of the inverse in expectation."""
        m = self._settings.n_probes
        return self.solve(sum(self._sample(m))) / np.sqrt(m)

    @property
    def inverse_diagonal(self):
        """In expectation, (p,)."""
        return (self.inverse_root**2).sum(axis=1)

    def effective_parameters(self, shift):
        """Of a large model by random xi with the covariance H of the data alone: tr(H_r^-1 H) = E[xi' H_r^-1 xi].

        The error of such a product is the square of that of the solution.
        """
        if len(shift) <= EXACT_COLUMNS:
            return super().effective_parameters(shift)
        xi, _ = self._sample(4)  # so that d effective parameters have a relative error of 1 / sqrt(2 d)
        return float(np.sum(xi * self.solve(xi, np.sqrt(self._settings.tol))) / xi.shape[1])

    def to_dense(self):
        p = len(self.diagonal)
        if p > EXACT_COLUMNS:
            raise MemoryError(f"A dense array of {p} x {p} numbers is what curvature='matrix_free' avoids.")
        return self._product(np.eye(p))


class MatrixFree(Curvature):
    r"""Products of H with vectors alone: conjugate gradients over passes through the rows, and no p x p array.

    .. math:: H V = \frac1n \sum_i J_i' \,\mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right] J_i V

    Exact up to ``tol``, for any model. The preconditioner of a network of dense layers is Gauss-Newton of some rows
    where they outnumber its effective parameters, else Kronecker-factored; that of other models is diagonal.
    Directions that neither data nor penalty determine have no width, as everywhere, but here nothing tells that a new
    row reaches into them.

    Parameters
    ----------
    matrix : {"ggn", "hessian"}, default="ggn"
        Gauss-Newton, never indefinite, or the exact Hessian. Leverages are those of Gauss-Newton in both cases.
    tol : float, default=1e-2
        Relative residual of every solve, in the norm of the preconditioner. The draws differ from their law by far
        more; 1e-3 gave the same standard errors at twice the cost. Along the flattest directions of an
        ill-conditioned network the error of the solution is larger.
    max_iter : int, default=200
        Steps of conjugate gradients; each is one pass over the rows.
    n_probes : int, default=32
        Random vectors by which leverages and the effective number of parameters are estimated: a leverage to a
        relative error of sqrt(2 / n_probes), the sum of them to far less.
    verbose : int, default=0
        Prints a line for every step of conjugate gradients.
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

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
        self.matrix = matrix
        self.tol = tol
        self.max_iter = max_iter
        self.n_probes = n_probes
        self.verbose = verbose
        self.damping = damping

    def of_block(self, block: Block) -> Sums:
        layers = block.kronecker_sums() if block.model.has_layers else []
        return Sums([block.ggn_diagonal(), Sums(layers)])

    def factor(self, rows: Rows, moments: Moments) -> Factor:
        if self.matrix not in ("ggn", "hessian"):
            raise ValueError(f"matrix must be 'ggn' or 'hessian', got {self.matrix!r}.")
        diagonal, layers = moments.curvature / moments.n
        shift = self.shift(rows.model)
        guess = _guess(rows, layers, shift) if layers else DiagonalFactor(diagonal + shift)

        def product(V):
            return rows.sum(methodcaller(f"{self.matrix}_product", V)) / moments.n + shift[:, None] * V

        def sample(m):
            return sampled_curvature(rows, moments.n, shift, m)

        return ConjugateGradients(product, diagonal + shift, guess.solve, sample, self)


def _guess(rows, layers, shift):
    """What a network's H_r is like: Gauss-Newton of sampled rows where these are enough, else Kronecker products."""
    kronecker = kronecker_factor(rows.model, layers, shift)
    return sampled_gauss_newton(rows, kronecker, shift) or kronecker


def sampled_curvature(rows, n, shift, m):
    """m random vectors (p, m) with covariance H, n^-1/2 sum_i J_i' R_i e_i, and m of the penalty's, sqrt(shift) e."""
    penalty = np.sqrt(shift)[:, None] * np.random.default_rng(0).standard_normal((len(shift), m))
    return rows.sum(partial(_sampled, m)) / np.sqrt(n), penalty


def _sampled(m, block):
    """sum_i sqrt(weight_i) J_i' R_i e_i, (p, m), over a block."""
    rng, R = np.random.default_rng([1, block.index]), block.weighted(block.R)
    return block.tangent.vjp(R @ rng.standard_normal((len(block.y), R.shape[2], m)))


def conjugate_gradients(product, B, precondition, tol, max_iter, verbose=0):
    """Solve H X = B, (p, m), column by column but with shared products; finished columns are left out of them.

    Returns
    -------
    X : ndarray of shape (p, m)
    steps : int
    left : float
        The largest relative residual.
    """
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
                f"The penalised curvature is indefinite: a direction has curvature {curvature.min():.3g}. Use "
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
