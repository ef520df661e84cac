"""Curvatures that hold no p x p array: the diagonal of Gauss-Newton, and its leading eigenvectors with a diagonal."""

from numbers import Integral, Real
from operator import methodcaller
from typing import Any, Literal

import numpy as np

from .._core.linalg import Factor, flat_directions, probes
from .._core.rows import Block, Moments, Rows
from .._utils.compat import cached_property
from .._utils.typing import FloatArray
from .base import CURVATURES, Curvature


class DiagonalFactor(Factor):
    """Factor diag(d), d >= 0; coordinates with d = 0 are held fixed."""

    def __init__(self, diagonal):
        self.diagonal = diagonal
        kept = diagonal > 0
        self.inverse_diagonal = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=kept)
        self.rank, self.null = int(kept.sum()), flat_directions(~kept)

    def solve(self, B):
        return (self.inverse_diagonal * B.T).T

    @cached_property
    def inverse_root(self):
        return np.sqrt(self.inverse_diagonal)[:, None] * probes(len(self.diagonal))

    def to_dense(self):
        return np.diag(self.diagonal)


class Diagonal(Curvature):
    r"""Diagonal of the generalized Gauss-Newton matrix: p numbers, and no correlation between parameters.

    .. math:: H = \mathrm{diag}\left(\frac1n \sum_i J_i' \,
              \mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right] J_i\right)

    Cheap, but standard errors of predictions can be off by a large factor either way if features are correlated.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    LowRank : Keeps the leading correlations.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`.

    Examples
    --------
    >>> from skribbon.curvature import Diagonal
    >>> X, y = load_diabetes(return_X_y=True)
    >>> exact = RibbonRegressor(Ridge(alpha=0.1)).fit(X, y)
    >>> rough = RibbonRegressor(Ridge(alpha=0.1), curvature=Diagonal()).fit(X, y)
    >>> ratio = rough.predict_std(X, kind="epistemic") / exact.predict_std(X, kind="epistemic")
    >>> print(ratio.mean().round(1))
    1.4
    """

    factors_again = True

    def of_block(self, block: Block) -> FloatArray:
        return block.ggn_diagonal()

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        return DiagonalFactor(mean + shift)


class LowRankPlusDiagonal(Factor):
    """Factor U diag(values) U' + diag(d), U (p, r) orthonormal, by an SVD of diag(d)^-1/2 U diag(values)^1/2."""

    def __init__(self, U, values, d):
        kept = d > 0
        self.d, self.U, self.values = d, U * kept[:, None], values
        self._inverse_root_d = np.divide(1.0, np.sqrt(d), out=np.zeros_like(d), where=kept)
        self.V, s, _ = np.linalg.svd(self._inverse_root_d[:, None] * self.U * np.sqrt(values), full_matrices=False)
        self._shrunk = 1 / (1 + s**2)
        self._rest = float(len(s) < kept.sum())  # zero if V spans all, since I - V V' is then pure rounding
        self.rank, self.null = int(kept.sum()), flat_directions(~kept)

    def _apply(self, B, weights):
        """Product (I - V V' + V diag(weights) V') B."""
        return self._rest * B + self.V @ ((weights - self._rest)[:, None] * (self.V.T @ B))

    def solve(self, B):
        r = self._inverse_root_d[:, None]
        return r * self._apply(r * B, self._shrunk)

    @cached_property
    def inverse_root(self):
        return self._inverse_root_d[:, None] * self._apply(probes(len(self.d)), np.sqrt(self._shrunk))

    @property
    def diagonal(self):
        """Diagonal of the matrix, (p,)."""
        return self.U**2 @ self.values + self.d

    @property
    def inverse_diagonal(self):
        """Diagonal of the inverse, (p,)."""
        return self._inverse_root_d**2 * (self._rest + self.V**2 @ (self._shrunk - self._rest))

    def to_dense(self):
        return (self.U * self.values) @ self.U.T + np.diag(self.d)


class LowRank(Curvature):
    r"""Leading eigenpairs of the generalized Gauss-Newton matrix plus the diagonal of what they leave.

    .. math:: H = U \Lambda U' + \mathrm{diag}(d)

    Found by a randomized range finder with power iterations: a few passes over the rows, p x rank numbers, no p x p
    array. Exact at rank p.

    Parameters
    ----------
    rank : int or float, default=0.999
        Number of eigenpairs, or their share of the trace if below one; 0.95 doubled standard errors of a small network.
    n_iter : int, default=3
        Power iterations; each is one pass over the rows.
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    Diagonal : The diagonal alone.
    MatrixFree : No approximation of H.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`.

    Examples
    --------
    >>> from skribbon.curvature import LowRank
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1), curvature=LowRank(rank=9)).fit(X, y)
    >>> round(ribbon.effective_parameters_, 1)
    8.5
    """

    def __init__(self, rank: float = 0.999, n_iter: int = 3, damping: float | Literal["auto"] = "auto"):
        super().__init__(damping)
        self.rank, self.n_iter = rank, n_iter

    def of_block(self, block: Block) -> FloatArray:
        return block.ggn_diagonal()

    def factor(self, rows: Rows, moments: Moments) -> Factor:
        diagonal = moments.curvature / moments.n
        shift = self.shift(rows.model)
        values, U = self._eigenpairs(lambda V: rows.sum(methodcaller("ggn_product", V)) / moments.n, diagonal)
        rest = np.maximum(diagonal - U**2 @ values, 1e-10 * diagonal)  # less of the diagonal is rounding
        return LowRankPlusDiagonal(U, values, rest + shift)

    def _eigenpairs(self, product, diagonal):
        """Leading eigenvalues (r,) and eigenvectors (p, r); the rank doubles until it reaches the share asked for."""
        p = len(diagonal)
        if isinstance(self.rank, Integral) and self.rank >= 1:
            return randomized_eigh(product, p, int(self.rank), self.n_iter)
        if not isinstance(self.rank, Real) or not 0 < self.rank < 1:
            raise ValueError(f"rank must be an integer >= 1 or a share of the trace below 1, got {self.rank!r}.")
        size = 50
        while True:
            values, U = randomized_eigh(product, p, size, self.n_iter)
            enough = np.searchsorted(np.cumsum(values), self.rank * diagonal.sum()) + 1
            if enough <= len(values) or len(values) == p:
                return values[:enough], U[:, :enough]
            size *= 2


def randomized_eigh(product, p, rank, n_iter):
    """Leading eigenvalues (r,), largest first, and eigenvectors (p, r) of a positive semi-definite operator."""
    size = min(p, rank + 10)  # random directions beyond the rank make the leading eigenvectors accurate
    Q = np.eye(p) if size == p else probes(p, size)
    for _ in range(0 if size == p else 1 + n_iter):
        Q, _ = np.linalg.qr(product(Q))
    B = Q.T @ product(Q)
    values, vectors = np.linalg.eigh((B + B.T) / 2)
    leading = np.argsort(values)[::-1][: min(rank, p)]
    return np.maximum(values[leading], 0), Q @ vectors[:, leading]


CURVATURES |= {"diag": Diagonal, "low_rank": LowRank}
