r"""What each training row does to its own fit: leverage, corrected score, prediction without the row.

With :math:`A_i = J_i H_r^{-1} J_i' / n` and the curvature :math:`C_i` of the loss in f, :math:`C_i A_i` is the row's
block of the hat matrix. The fit shrinks the score of a row, and :math:`(I - C_i A_i)^{power} u_i` undoes that: by the
power -1/2 on average (HC2), by -1 the score is the one under the fit to all other rows (HC3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .linalg import row_covariances
from .rows import Sums

MAX_LEVERAGE = 0.99  # cap on leverages: a row that determines its own prediction says nothing about the noise
MAX_CLASS_LEVERAGE = 0.5  # cap for classifiers: beyond it one Newton step with constant curvature is unreliable
MIN_INFLUENTIAL = 0.02  # leverage above which a row's share in a variance is kept apart; at most 50 per parameter
MOST_INFLUENTIAL = 1000  # such rows at most, and rows of a table whose rows are all kept apart: 8 MB per 1,000 columns
MOST_SINGLE = 500  # stored directions that single rows determine
POWERS = {"HC0": 0.0, "HC1": 0.0, "HC2": -0.5, "HC3": -1.0}  # powers of I - C A that correct scores


@dataclass(frozen=True, eq=False)
class Hat:
    """Blocks of the hat matrix: how far each row moves its own raw prediction, per unit of its loss gradient.

    A row of a weight above one is as many copies, each with a leverage of its own.

    Attributes
    ----------
    M : ndarray of shape (p, q)
        With M M' = H_r^-1.
    n : float
        Number of observations.
    curvature : callable
        From a block to C (b, k, k), the curvature of the loss that H_r is made of.
    """

    M: np.ndarray
    n: float
    curvature: Callable[[Any], np.ndarray]

    def __call__(self, block):
        """C and A, (b, k, k) each, and V = J M, (b, k, q)."""
        V = block.tangent.jvp(self.M)
        return self.curvature(block), row_covariances(V) * self.share(block)[:, None, None], V

    def share(self, block):
        """Weight of one copy of each row, over n, (b,)."""
        return np.minimum(block.weight, 1.0) / self.n

    @property
    def width(self):
        """Floats that a row takes per raw prediction."""
        return sum(self.M.shape)


def resolvent(C, A, u, power, most=MAX_LEVERAGE):
    """(I - C_i A_i)^power u_i, (n, k), for symmetric C, A >= 0; eigenvalues of C A are capped at ``most``."""
    if power == 0:
        return u
    if u.shape[1] == 1:
        return (1 - np.minimum(C[:, 0] * A[:, 0], most)) ** power * u
    # A = S S' and S' C S = E diag(l) E' give (C A)^j = C S E diag(l^(j - 1)) E' S', hence the same for any power series
    values, vectors = np.linalg.eigh(A)
    S = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    pulls, E = np.linalg.eigh(S.transpose(0, 2, 1) @ C @ S)
    SE = S @ E
    inner = hat_power(pulls, power, most) * np.einsum("nkl,nk->nl", SE, u)
    return u + np.einsum("nkl,nl->nk", C, np.einsum("nkl,nl->nk", SE, inner))


def hat_power(h, power, most=MAX_LEVERAGE):
    """((1 - h)^power - 1) / h of eigenvalues h of a hat matrix, capped at ``most``; -power at zero."""
    small = np.abs(h) < 1e-8
    capped = (1 - np.minimum(h, most)) ** power - 1
    return np.where(small, -power, capped / np.where(small, 1.0, h))


def max_leverage(loss):
    """Cap on leverages under a loss."""
    return MAX_CLASS_LEVERAGE if loss.n_classes else MAX_LEVERAGE


def bounded(u, block):
    """u (b, k), none longer than the gradient of its row's loss can be."""
    size, bound = np.linalg.norm(u, axis=1), block.model.loss.gradient_bound(block.y)
    return u * np.divide(bound, size, out=np.ones_like(size), where=size > bound)[:, None]


@dataclass(frozen=True, eq=False)
class CorrectedGradient:
    """Gradients of the loss in f, (b, k), with the shrinkage of a fitted score undone row by row."""

    hat: Hat
    power: float

    def __call__(self, block):
        C, A, _ = self.hat(block)
        return bounded(resolvent(C, A, block.u, self.power, max_leverage(block.model.loss)), block)


@dataclass(frozen=True, eq=False)
class ScaledGradient:
    """Gradients of the loss in f, (b, k), times a factor, or one for each raw prediction."""

    factor: Any

    def __call__(self, block):
        return self.factor * block.u


# ---------------------------------------------------------------------- bounds on what one row, or one draw, may do
# A row's score has the length sqrt(g' H_r^-1 g), its influence in the norm of H_r. Clipped at c, no row counts for more
# than c times the median of these lengths. The step of a draw is measured in the same norm, in units of what its length
# would be if rows varied as their loss says, sqrt(phi p / (n alpha + 1)) with p effective parameters.
@dataclass(frozen=True)
class Clip:
    """Largest length of a score, and of a step, in their units; None for no bound."""

    scores: float | None = None
    steps: float | None = None


NO_CLIP = Clip()


@dataclass(frozen=True, eq=False)
class ScoreSizes:
    """Lengths |g_i| of the scores in the norm of H_r^-1, (b,), and frequencies (b,)."""

    gradient: Callable[[Any], np.ndarray]
    M: np.ndarray

    def __call__(self, block):
        return self.of(block, self.gradient(block)), block.weight

    def of(self, block, u):
        """Lengths (b,) of J_i' u_i."""
        return np.linalg.norm(np.einsum("nkr,nk->nr", block.tangent.jvp(self.M), u), axis=1)


@dataclass(frozen=True, eq=False)
class ClippedGradient:
    """Gradients (b, k), shortened if a row's score is longer than the bound."""

    sizes: ScoreSizes
    bound: float

    def __call__(self, block):
        u = self.sizes.gradient(block)
        return shortened(u.T, self.sizes.of(block, u), self.bound).T


def shortened(A, size, bound):
    """Columns of A (p, B) of lengths ``size`` (B,), none longer than the bound."""
    return A * np.divide(bound, size, out=np.ones_like(size), where=size > bound)


def weighted_median(values, weight):
    """Smallest value up to which half of the weight is reached."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(reached, reached[-1] / 2)]])


# ---------------------------------------------------------------------- the second pass
def own_leverages(block, C, A):
    """Leverages (b, q): of each output if y has several columns, else tr(C_i A_i) over the rank of C_i."""
    h = np.einsum("nkl,nlk->nk", C, A)
    return h if block.model.loss.by_output else h.sum(axis=1, keepdims=True) / block.model.loss.curvature_rank


def squared_residuals(block):
    """Pearson's squared residuals (b, q), of each output if y has several columns; zero for classifiers."""
    loss = block.model.loss
    if loss.by_output:
        return block.u**2
    if loss.n_classes:
        return np.zeros((len(block.y), 1))
    return loss.squared_residuals(block.f, block.y)[:, None]


@dataclass(frozen=True, eq=False)
class Record:
    """Quantities of every training row, in memory.

    Attributes
    ----------
    leverage : ndarray of shape (n_rows, q)
        At most MAX_LEVERAGE; q is the number of columns of y.
    growth : ndarray of shape (n_rows, q)
        Ratio of leave-one-out to fitted residual, 1 / (1 - h_i); with groups, of the fit without the row's group.
    squared : ndarray of shape (n_rows, q)
        Squared residuals.
    left_out : ndarray of shape (n_rows, k)
        Raw predictions by the fit without the row, or without its group, to first order.
    """

    leverage: np.ndarray
    growth: np.ndarray
    squared: np.ndarray
    left_out: np.ndarray

    def take(self, index):
        """Record of some of the rows."""
        return Record(*(values[index] for values in vars(self).values()))

    @classmethod
    def joined(cls, pieces):
        """Record of the rows of several records, in their order; None without any."""
        columns = zip(*(vars(piece).values() for piece in pieces), strict=True)
        return cls(*map(np.concatenate, columns)) if pieces else None


@dataclass(frozen=True, eq=False)
class Units:
    """What rows tell once H_r is known; two of them add.

    Attributes
    ----------
    scores : dict
        From a power of I - C A to the sums of the corrected scores (p,) and of their products (p, p).
    parameters : ndarray of shape (q,)
        Effective parameters of each column of y: the sum of leverages over the observations.
    grown : ndarray of shape (2, q)
        Sums of squared residuals times their growth, and times its square.
    influential : Influential
    n_single : int
        Number of rows that determine their own fitted value.
    single : ndarray of shape (l, p)
        How theta moves with the raw predictions of these rows.
    pieces : tuple of Record
        One for each block; empty if rows are not in memory.
    """

    scores: dict[float, Sums]
    parameters: np.ndarray
    grown: np.ndarray
    influential: Influential
    n_single: int
    single: np.ndarray
    pieces: tuple[Record, ...]

    def __add__(self, other):
        return Units(
            {power: sums + other.scores[power] for power, sums in self.scores.items()},
            self.parameters + other.parameters,
            self.grown + other.grown,
            self.influential + other.influential,
            self.n_single + other.n_single,
            np.concatenate([self.single, other.single])[:MOST_SINGLE],
            self.pieces + other.pieces,
        )


@dataclass(frozen=True, eq=False)
class Influential:
    """Contributions of the rows with the largest leverages; two of them add and keep the largest.

    Attributes
    ----------
    leverage, weight : ndarray of shape (m,)
    E : ndarray of shape (m, r, q)
        R_i' J_i M: what the row would contribute to a variance if its noise were what its loss says.
    at_most : int
        Rows that are kept.
    """

    leverage: np.ndarray
    weight: np.ndarray
    E: np.ndarray
    at_most: int

    def __add__(self, other):
        rows = [np.concatenate([vars(self)[name], vars(other)[name]]) for name in ("leverage", "weight", "E")]
        top = largest(rows[0], self.at_most)
        return Influential(*(values[top] for values in rows), self.at_most)


def largest(values, at_most):
    """Indices of at most so many of the largest values, in ascending order."""
    return np.sort(np.argsort(-values, kind="stable")[:at_most])


@dataclass(frozen=True, eq=False)
class SecondPass:
    """Sum over a block of everything that rows tell once H_r is known.

    Attributes
    ----------
    hat : Hat
    powers : tuple of float
        Powers of I - C A for which scores are summed.
    min_leverage : float
        Leverage from which a row is kept as influential.
    at_most : int
        Number of influential rows that are kept.
    in_memory : bool
        Whether to keep a Record of the rows.
    """

    hat: Hat
    powers: tuple[float, ...] = ()
    min_leverage: float = np.inf
    at_most: int = 0
    in_memory: bool = True

    def __call__(self, block):
        C, A, V = self.hat(block)
        h, squared = own_leverages(block, C, A), squared_residuals(block)
        capped = np.minimum(h, MAX_LEVERAGE)
        growth = 1 / (1 - capped)
        n_single, single = self._single_rows(block, C, A, V)
        return Units(
            scores={power: self._score_sums(block, C, A, power) for power in self.powers},
            parameters=np.maximum(block.weight, 1.0) @ h,
            grown=np.stack([block.weight @ (squared * growth**power) for power in (1, 2)]),
            influential=self._influential(block, h.sum(axis=1) / h.shape[1], V),
            n_single=n_single,
            single=single,
            pieces=(Record(capped, growth, squared, leave_one_out(block, C, A)),) if self.in_memory else (),
        )

    @staticmethod
    def _score_sums(block, C, A, power):
        u = bounded(resolvent(C, A, block.u, power, max_leverage(block.model.loss)), block) if power else block.u
        return score_sums(block, u)

    def _influential(self, block, h, V):
        some = np.flatnonzero(h >= self.min_leverage)
        some = some[largest(h[some], self.at_most)]
        E = block.R[some].transpose(0, 2, 1) @ V[some]
        return Influential(h[some], block.weight[some], E, self.at_most)

    def _single_rows(self, block, C, A, V):
        """Number of rows with an eigenvalue of C A above MAX_LEVERAGE, and H_r^-1 J_i' C_i / n of these, (m k, p)."""
        trace = np.einsum("nkl,nlk->n", C, A)
        suspects = np.flatnonzero((trace > MAX_LEVERAGE) & np.isfinite(trace) & (block.weight > 0))
        largest = np.linalg.eigvals(C[suspects] @ A[suspects]).real.max(axis=1, initial=0.0)
        some = suspects[largest > MAX_LEVERAGE]
        moves = self.hat.share(block)[some, None, None] * (C[some] @ V[some])
        return len(some), moves.reshape(len(some) * V.shape[1], V.shape[2]) @ self.hat.M.T


def score_sums(block, u):
    """Sums over the block of g_i (p,) and of g_i g_i' (p, p), with g_i = J_i' u_i."""
    return Sums([block.score_sum(u), block.score_scatter(u)])


def leave_one_out(block, C, A):
    """Raw predictions (b, k) of each row by the fit to all others, by one Newton step.

    f_i + A_i (I - C_i A_i)^-1 u_i: exact for least squares, where it is y_i - r_i / (1 - h_i).
    """
    return block.f + np.einsum("nkl,nl->nk", A, resolvent(C, A, block.u, -1.0))


def leave_one_out_steps(hat, block):
    """Change of theta to the fit to all other rows, (b, p), by one Newton step."""
    C, A, V = hat(block)
    pull = hat.share(block)[:, None] * resolvent(C, A, block.u, -1.0)
    return np.einsum("nkr,nk->nr", V, pull) @ hat.M.T
