"""What a training row, or group, does to its own prediction: leverages, leave-one-out fits and corrected scores.

Everything here is a function of a block of rows, given the hat matrix that the factored curvature makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._utils.threads import in_order
from .groups import MAX_LEVERAGE, moved
from .linalg import batch_gram, stack_rows
from .rows import BLOCK_BYTES, Block

FAR = 0.1  # leverage that no row may have for all of them to be alike
LEAST_AT_ONCE = 64  # of the foremost rows, with the whole hat matrix: reading that takes as long as multiplying by it
MOST_OF_A_CLASS = 0.5  # where a row moves its own logits more than all others do, no constant curvature leads back
POWERS = {"HC2": -0.5, "HC3": -1.0}  # of I - C A, which undo what a row, or group, does to its own score


@dataclass(frozen=True, eq=False)
class Hat:
    """How far each row moves its own raw prediction: A_i = J_i H_r^-1 J_i' / n per unit of loss gradient.

    ``curvature(block)`` gives C_i (b, k, k), the same curvature of the loss that H_r is made of; C_i A_i is the row's
    block of the hat matrix. A row of a weight above one is as many copies, each with a leverage of its own.
    """

    inverse_root: np.ndarray  # M (p, r), M M' = H_r^-1
    n: float
    curvature: Any
    model: Any
    n_rows: int

    @cached_property
    def squares(self):
        """From a tangent to J_i M M' J_i', in the way that suits so many rows."""
        return self.model.squares_along(self.inverse_root, self.n_rows)

    def __call__(self, block):
        """C and A, (b, k, k) each."""
        squares, share = block.squares, np.minimum(block.weight, 1.0) / self.n
        squares = self.squares(block.tangent) if squares is None else squares
        return self.curvature(block), squares * share[:, None, None]

    @property
    def width(self):
        """Floats that a row's A takes to form, for each output."""
        return sum(self.inverse_root.shape)


def row_squares(hat, block):
    """J_i H_r^-1 J_i', (b, k, k)."""
    return hat.squares(block.tangent)


def leverages(hat, block):
    """h_i = tr(C_i A_i) over the rank of C_i, (b,): the share of its own prediction that row i decides."""
    C, A = hat(block)
    return np.einsum("nkl,nlk->n", C, A) / block.model.loss.curvature_rank


def rough_leverages(hat, block):
    """The same where M has few columns, so that A_i is not worth forming."""
    V, share = block.tangent.jvp(hat.inverse_root), np.minimum(block.weight, 1.0) / hat.n
    return share * np.einsum("nkr,nkr->n", hat.curvature(block) @ V, V) / block.model.loss.curvature_rank


def leave_one_out(hat, block):
    """Raw predictions (b, k) of each row under the fit to all others, by one Newton step.

    f_i + A_i (I - C_i A_i)^-1 u_i: exact for least squares, where it is y_i - r_i / (1 - h_i).
    """
    C, A = hat(block)
    return block.f + np.einsum("nkl,nl->nk", A, resolvent(C, A, block.u, -1.0))


def leave_one_out_and_leverages(hat, block):
    """:func:`leave_one_out` (b, 1) and :func:`leverages` (b,) of a single raw prediction: one hat matrix is enough."""
    C, A = hat(block)
    return block.f + A[:, 0] * resolvent(C, A, block.u, -1.0), C[:, 0, 0] * A[:, 0, 0]


def leave_one_out_steps(hat, block):
    """How theta moves to the fit to all other rows, (b, p), by the same Newton step; and leverages (b,)."""
    V, C = block.tangent.jvp(hat.inverse_root), hat.curvature(block)  # (b, k, r), (b, k, k)
    share = np.minimum(block.weight, 1.0) / hat.n
    A = batch_gram(V) * share[:, None, None]
    pull = share[:, None] * resolvent(C, A, block.u, -1.0)
    h = np.einsum("nkl,nlk->n", C, A) / block.model.loss.curvature_rank
    return np.einsum("nkr,nk->nr", V, pull) @ hat.inverse_root.T, h


def corrected_gradient(hat, power, block):
    """(I - C_i A_i)^power u_i, (b, k): HC2 by the power -1/2; HC3, the score under the fit to all others, by -1.

    That is linear in u, and the loss may not be: no row gets a gradient that its loss has nowhere, and of a classifier,
    whose curvature fades as it grows sure, leverages above MOST_OF_A_CLASS count as that.
    """
    return bounded(resolvent(*hat(block), block.u, power, most_leverage(block.model.loss)), block)


def group_corrected_gradient(hat, steps, block):
    """The same of the whole group of each row: C A is the group's own block of the hat matrix."""
    return bounded(block.u + np.einsum("nkl,nl->nk", hat.curvature(block), moved(steps, block)), block)


def most_leverage(loss):
    """What a leverage counts at most."""
    return MOST_OF_A_CLASS if loss.n_classes else MAX_LEVERAGE


def bounded(u, block):
    """u (b, k), none longer than the gradient of its row's loss can be."""
    size, bound = np.linalg.norm(u, axis=1), block.model.loss.gradient_bound(block.y)
    return u * np.divide(bound, size, out=np.ones_like(size), where=size > bound)[:, None]


def leave_group_out(steps, block):
    """Raw predictions (b, k) of each row under the fit to all other groups, by one Newton step."""
    return block.f + moved(steps, block)


def constant_gradient(factor, block):
    """factor u_i, (b, k)."""
    return factor * block.u


def resolvent(C, A, u, power, most=MAX_LEVERAGE):
    """(I - C_i A_i)^power u_i, (n, k), for symmetric C, A >= 0; eigenvalues of C A above ``most`` count as that."""
    if u.shape[1] == 1:
        h = np.minimum(C[:, 0] * A[:, 0], most)
        return (1 - h) ** power * u
    out = np.empty_like(u)
    trace = np.einsum("nkl,nlk->n", C, A)
    easy = (trace <= most) & (power == -1)
    if easy.any():
        out[easy] = np.linalg.solve(np.eye(u.shape[1]) - C[easy] @ A[easy], u[easy][:, :, None])[:, :, 0]
    if not easy.all():
        out[~easy] = _resolvent_by_eigenvalues(C[~easy], A[~easy], u[~easy], power, most)
    return out


def _resolvent_by_eigenvalues(C, A, u, power, most):
    # A = S S' and S' C S = E diag(l) E' give (C A)^j = C S E diag(l^(j - 1)) E' S', hence the same for any power series
    values, vectors = np.linalg.eigh(A)
    S = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    pulls, E = np.linalg.eigh(S.transpose(0, 2, 1) @ C @ S)
    capped = (1 - np.minimum(pulls, most)) ** power - 1
    small = np.abs(pulls) < 1e-8
    ratio = np.where(small, -power, capped / np.where(small, 1.0, pulls))
    SE = S @ E  # (n, k, k)
    inner = ratio * np.einsum("nkl,nk->nl", SE, u)
    return u + np.einsum("nkl,nl->nk", C, np.einsum("nkl,nl->nk", SE, inner))


def expected_scores(hat, block):
    """R_i' J_i M, (b, r, p): their products are what a row's noise would be, were it what its loss's curvature says."""
    return block.R.transpose(0, 2, 1) @ block.tangent.jvp(hat.inverse_root)


def row_growth(hat, block):
    """1 / (1 - h_i), (b,): by what a residual grows under the fit to all other rows."""
    return 1 / (1 - np.minimum(leverages(hat, block), MAX_LEVERAGE))


def group_growth(hat, steps, block):
    """(I - C A)^-1 u over u, of the first raw prediction, (b,)."""
    u, change = block.u[:, 0], np.einsum("nl,nl->n", hat.curvature(block)[:, 0], moved(steps, block))
    return 1 + np.divide(change, u, out=np.zeros_like(u), where=u != 0)


def lone_directions(hat, block):
    """How theta moves with the raw prediction of each row that determines its own, (m k, p): H_r^-1 J_i' C_i / n.

    Those are rows whose leverage exceeds MAX_LEVERAGE.
    """
    C, A = hat(block)
    largest = np.linalg.eigvals(C @ A).real.max(axis=1, initial=0.0)
    few = block.take(np.flatnonzero(largest > MAX_LEVERAGE))
    if not len(few.y):
        return np.zeros((0, len(hat.inverse_root)))
    V, C = few.tangent.jvp(hat.inverse_root), hat.curvature(few)  # (m, k, r), (m, k, k)
    share = (np.minimum(few.weight, 1.0) / hat.n)[:, None, None]
    return (share * np.einsum("nkl,nlr->nkr", C, V)).reshape(-1, V.shape[2]) @ hat.inverse_root.T


@dataclass(frozen=True, eq=False)
class Foremost:
    """Rows of the largest leverages, as all or a few random directions see them; two "add" to those of both.

    Attributes
    ----------
    at_most : int
        Rows that are kept.
    rough : ndarray of shape (m,)
        Their leverages, maybe roughly.
    Z, y, weight : ndarrays of m rows, Z maybe sparse
    """

    at_most: int
    rough: np.ndarray
    Z: Any
    y: np.ndarray
    weight: np.ndarray

    def __add__(self, other):
        both = (stack_rows([getattr(self, name), getattr(other, name)]) for name in ("rough", "Z", "y", "weight"))
        return Foremost(self.at_most, *both).kept()

    def kept(self):
        """No more rows than that, in their order."""
        if len(self.rough) <= self.at_most:
            return self
        top = np.sort(np.argsort(-self.rough, kind="stable")[: self.at_most])
        return Foremost(self.at_most, self.rough[top], self.Z[top], self.y[top], self.weight[top])


def foremost_rows(hat, at_most, block):
    """Of a block; ``hat`` is of random directions where squares are not known."""
    counts = block.take(np.flatnonzero(block.weight > 0))
    h = (rough_leverages if counts.squares is None else leverages)(hat, counts)
    return Foremost(at_most, h, counts.Z, counts.y, counts.weight).kept()


@dataclass(frozen=True, eq=False)
class LeadingRows:
    """The foremost rows with what their exact leverages are made of, whatever becomes of all others.

    Attributes
    ----------
    model : ParametricModel
    curvature : Curvature
    M : ndarray of shape (p, r)
        With M M' = H_r^-1.
    n : float
        Number of observations.
    Z, y, weight, rough
        See Foremost.
    known : bool
        Whether ``rough`` are their leverages exactly.
    """

    model: Any
    curvature: Any
    M: np.ndarray
    n: float
    Z: Any
    y: np.ndarray
    weight: np.ndarray
    rough: np.ndarray
    known: bool

    @cached_property
    def hat(self):
        """The hat matrix of these rows."""
        return Hat(self.M, self.n, self.curvature.of_loss, self.model, len(self.y))

    @cached_property
    def leverages(self):
        """Exactly, (m,)."""
        return self.rough if self.known else self.of(np.arange(len(self.y)), partial(leverages, self.hat))

    def of(self, some, f):
        """Concatenation of f(block) over some of the rows."""
        size = max(LEAST_AT_ONCE, BLOCK_BYTES // (8 * self.model.n_outputs * self.hat.width))
        pieces = [some[start : start + size] for start in range(0, len(some), size)]
        blocks = [Block(self.model, self.Z[few], self.y[few], self.weight[few]) for few in pieces]
        return np.concatenate(list(in_order(f, blocks, self.model.at_once)))

    def __getstate__(self):
        return {name: vars(self)[name] for name in self.__dataclass_fields__}  # what can be found again is not stored


@dataclass(frozen=True, eq=False)
class Largest:
    """Largest entries over rows of |J_i|, and of the size of C_i; two of them "add" to the larger.

    Attributes
    ----------
    J : ndarray of shape (k, p), or infinity
        Entry by entry.
    C : float
        Largest Frobenius norm.
    """

    J: np.ndarray | float = np.inf
    C: float = np.inf

    def __add__(self, other):
        return Largest(np.maximum(self.J, other.J), max(self.C, other.C))

    @classmethod
    def of_block(cls, curvature, block):
        """Of a single block; infinite where leverages are rough, or J too dear to be looked at."""
        J = block.tangent.largest() if curvature.knows_leverages else np.inf
        if not np.ndim(J):
            return cls()
        C = curvature.of_loss(block)
        size = np.sqrt(np.einsum("nkl,nkl->n", C, C)) * np.minimum(block.weight, 1.0)
        return cls(J, float(size.max()))

    def leverage(self, hat):
        """What no eigenvalue of C_i A_i exceeds: |C_i| tr(A_i), and |J_i M| is at most |J_i| |M|, entry by entry."""
        return self.C * (np.square(self.J @ np.abs(hat.inverse_root)).sum() / hat.n) if np.ndim(self.J) else np.inf
