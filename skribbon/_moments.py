"""Everything that fit learns is a sum over training rows; this is the sum."""

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ._linalg import gram, right_multiply, scale_rows

BLOCK_BYTES = 8 * 2**20  # one block of scores: large enough for BLAS, small enough for the cache


def row_blocks(n, row_width):
    """Slices that cut n rows into blocks whose (rows, row_width) float64 array takes about BLOCK_BYTES."""
    size = max(64, BLOCK_BYTES // (8 * max(1, row_width)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Prepared training data of a model; iterating gives blocks (Z, y, weight) ready for its methods."""

    model: Any
    X: Any  # (n, d), dense or CSR
    y: np.ndarray  # (n,), as the loss sees it
    weight: np.ndarray  # (n,), frequencies

    def __iter__(self):
        for rows in row_blocks(len(self.y), self.model.row_width):
            yield self.model.rows(self.X[rows]), self.y[rows], self.weight[rows]

    def scores(self):
        """Blocks (G, weight)."""
        return ((self.model.scores(Z, y), weight) for Z, y, weight in self)

    def leverages(self, H_r, n):
        """h_i = tr(R_i' J_i H_r^-1 J_i' R_i) / n, (n_rows,): how far row i pulls its own fitted value."""
        pieces = []
        for Z, y, _ in self:
            A = self.model.root_jacobian(Z, y)  # (block, r, p)
            pieces.append((right_multiply(A, H_r.inverse_root) ** 2).sum(axis=(1, 2)) / n)
        return np.concatenate(pieces)


class Sums(tuple):
    """Several sums over rows that are kept together: they add and divide element by element."""

    def __add__(self, other):
        return Sums(a + b for a, b in zip(self, other, strict=True))

    def __truediv__(self, n):
        return Sums(a / n for a in self)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows, each row counted ``weight`` times; two of them add.

    Attributes
    ----------
    n : float
        Sum of the weights: the number of observations.
    g : ndarray of shape (p,)
        Sum of the scores g_i.
    gg : ndarray of shape (p, p)
        Sum of g_i g_i'.
    curvature : ndarray or any object that adds
        Sum of what the chosen curvature takes from each row, for dense curvatures H_i (p, p).
    chi2 : float
        Pearson's sum of (y_i - mu_i)^2 / V(mu_i); the residual sum of squares of a least-squares model.
    """

    n: float
    g: np.ndarray
    gg: np.ndarray
    curvature: Any
    chi2: float

    def __add__(self, other):
        mine, theirs = vars(self), vars(other)
        return Moments(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def g_bar(self):
        """Mean score, (p,): minus the penalty's gradient at a penalised optimum."""
        return self.g / self.n

    @property
    def H_Fc(self):
        """Centred second moment of the scores, H_F - g_bar g_bar', (p, p)."""
        return self.gg / self.n - np.outer(self.g_bar, self.g_bar)

    @classmethod
    def from_rows(cls, rows, curvature):
        """Add up the blocks of ``rows``. Memory beyond X: O(p^2) and one block."""
        return reduce(add, (cls._of_block(rows.model, curvature, *block) for block in rows))

    @classmethod
    def _of_block(cls, model, curvature, Z, y, weight):
        G = model.scores(Z, y)
        return cls(
            n=weight.sum(),
            g=np.asarray(G.T @ weight).ravel(),
            gg=gram(scale_rows(G, np.sqrt(weight))),
            curvature=curvature.of_rows(model, Z, y, weight),
            chi2=float(weight @ model.squared_residuals(Z, y)),
        )
