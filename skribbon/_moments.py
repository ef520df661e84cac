"""Everything that fit learns is a sum over training rows; this is the sum."""

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ._linalg import batch_gram

MAX_LEVERAGE = 0.99  # a row that decides its own prediction says nothing of the noise; leverages are capped here
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

    def self_influence(self, H_r, n):
        """Blocks (f, u, C, A): how far each row moves its own raw prediction.

        Raw predictions (b, k), loss gradients (b, k), expected curvatures (b, k, k) and A_i = J_i H_r^-1 J_i' / n,
        (b, k, k), the move per unit of loss gradient.
        """
        for Z, y, _ in self:
            f = self.model.raw(Z)
            R = self.model.loss.curvature_root(f, y)
            V = self.model.jvp(Z, H_r.inverse_root)
            yield f, self.model.loss.gradient(f, y), batch_gram(R), batch_gram(V) / n

    def leverages(self, H_r, n):
        """h_i = tr(C_i A_i) over the rank of C_i, (n_rows,): the share of its own prediction that row i decides."""
        traces = [np.einsum("nkl,nkl->n", C, A) for _, _, C, A in self.self_influence(H_r, n)]
        return np.concatenate(traces) / self.model.loss.curvature_rank

    def leave_one_out_raw(self, H_r, n):
        """Raw predictions (n_rows, k) of each row under the fit to all others, by one Newton step.

        f_i + A_i (I - C_i A_i)^-1 u_i: exact for least squares, where it is y_i - r_i / (1 - h_i).
        """
        pieces = []
        for f, u, C, A in self.self_influence(H_r, n):
            pull = C @ A  # (b, k, k), eigenvalues between zero and one
            largest = pull[:, 0, 0] if f.shape[1] == 1 else np.abs(np.linalg.eigvals(pull)).max(axis=1)
            pull *= (MAX_LEVERAGE / np.maximum(largest, MAX_LEVERAGE))[:, None, None]
            pieces.append(f + (A @ np.linalg.solve(np.eye(f.shape[1]) - pull, u[:, :, None]))[:, :, 0])
        return np.concatenate(pieces)

    def squared_residuals(self):
        """(y_i - mu_i)^2 / V(mu_i), (n_rows,)."""
        return np.concatenate([self.model.squared_residuals(Z, y) for Z, y, _ in self])

    def centred_scatter(self, g_bar, factor):
        """sum_i weight_i factor_i (g_i - g_bar)(g_i - g_bar)', (p, p), for factors (n_rows,); scores stay sparse."""
        total, gg, g = 0.0, 0.0, 0.0
        for start, (Z, y, weight) in self._enumerated():
            c = weight * factor[start : start + len(y)]
            g_block, _, gg_block = self.model.score_moments(Z, y, c)
            total, g, gg = total + c.sum(), g + g_block, gg + gg_block
        cross = np.outer(g, g_bar)
        return gg - cross - cross.T + total * np.outer(g_bar, g_bar)

    def scores(self, g_bar, factor):
        """What Dirichlet weights perturb, sqrt(factor_i) (g_i - g_bar), block by block.

        A function that sums them with given weights c (b, B) to (p, B), and the rows' frequencies.
        """
        for start, (Z, y, weight) in self._enumerated():
            root = np.sqrt(factor[start : start + len(y), None])

            def weigh(c, Z=Z, y=y, root=root):
                return self.model.weighted_scores(Z, y, root * c) - g_bar[:, None] * (root * c).sum(axis=0)

            yield weigh, weight

    def product(self, V, n, name="ggn_product"):
        """H V, (p, r), in one pass over the rows: the mean of what the model's method of that ``name`` sums."""
        multiply = getattr(self.model, name)
        return sum(multiply(Z, y, weight, V) for Z, y, weight in self) / n

    def _enumerated(self):
        start = 0
        for block in self:
            yield start, block
            start += len(block[1])


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
    g2 : ndarray of shape (p,)
        Sum of g_i^2, coordinate by coordinate.
    gg : ndarray of shape (p, p)
        Sum of g_i g_i'; zero if it was not asked for.
    curvature : ndarray or any object that adds
        Sum of what the chosen curvature takes from each row, for dense curvatures H_i (p, p).
    chi2 : float
        Pearson's sum of (y_i - mu_i)^2 / V(mu_i); the residual sum of squares of a least-squares model.
    """

    n: float
    g: np.ndarray
    g2: np.ndarray
    gg: np.ndarray | float
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

    @property
    def standard_error(self):
        """Of the mean score, (p,)."""
        return np.sqrt(np.maximum(self.g2 / self.n - self.g_bar**2, 0.0) / self.n)

    @classmethod
    def from_rows(cls, rows, curvature, scatter=True):
        """Add up the blocks of ``rows``. Memory beyond X: O(p^2) and one block."""
        return reduce(add, (cls._of_block(rows.model, curvature, scatter, *block) for block in rows))

    @classmethod
    def _of_block(cls, model, curvature, scatter, Z, y, weight):
        g, g2, gg = model.score_moments(Z, y, weight, scatter)
        return cls(
            n=weight.sum(),
            g=g,
            g2=g2,
            gg=gg,
            curvature=curvature.of_rows(model, Z, y, weight),
            chi2=float(weight @ model.squared_residuals(Z, y)) if model.classes is None else 0.0,
        )
