r"""Rows that depend on each other: one Dirichlet weight for each of G groups, and each row gets its group's.

With group scores :math:`S_g = \sum_{i \in g} g_i`, the objective :math:`\frac Gn \sum_g w_g \sum_{i \in g} \ell_i + r`
has the linear step and covariance of the paper, with :math:`\frac Gn S_g` for :math:`g_i` and G for n:

.. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{G\alpha + 1} H_r^{-1} \Big(\frac{G}{n^2} \sum_g S_g S_g'
          - \bar g \bar g'\Big) H_r^{-1}.

The hat matrix of a whole group replaces the leverage of a row. With :math:`K_g = \sum_{i \in g} J_i' C_i J_i`,
:math:`M M' = H_r^{-1}` and :math:`L_g = M' K_g M / n`, the step

.. math:: \Delta_g = M \phi(L_g) M' S_g / n, \qquad \phi(l) = ((1 - l)^{power} - 1) / l,

undoes what the group does to its own fit: :math:`u_i + C_i J_i \Delta_g` is :math:`(I - C A)^{power} u` with the
group's block C A of the hat matrix, and by the power -1 the step leads to the fit without the group. All of these are
p x p, however large the group is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from .rows import BLOCK_BYTES
from .units import MAX_LEVERAGE, Hat, bounded, hat_power

MOST_CURVATURES = 4000  # columns of group curvatures K_g that are kept for degrees of freedom: 32 kB per parameter
MIN_INFLUENTIAL = 0.02  # trace of L_g from which K_g is kept if there are more groups than that
MOST_SINGLE = 64  # stored directions that single groups determine; a warning needs no more
SERIES_TRACE = 0.1  # trace of L_g up to which (1 - l)^power is summed as a series: at most 18 terms, 2x to 6x faster


# ---------------------------------------------------------------------- sums over groups that blocks may cut
@dataclass(frozen=True, eq=False)
class CutGroups:
    """Sums over groups, some of which continue in other blocks; two of them add.

    Attributes
    ----------
    total : object that adds, or None
        Sum of ``finish`` over complete groups.
    begun : dict
        From the number of an incomplete group to how many of its rows were seen and their sums, a tuple of arrays.
    count : ndarray of shape (G,)
        Rows of every group.
    finish : callable
        ``finish(codes, *sums)`` of stacks of sums of some complete groups.
    """

    total: Any
    begun: dict
    count: np.ndarray
    finish: Callable

    @classmethod
    def from_block(cls, count, finish, codes, seen, sums):
        """Finish the complete groups of a block and keep the sums (g, ...) of the others."""
        whole = count[codes] == seen
        total = finish(codes[whole], *(a[whole] for a in sums)) if whole.any() else None
        begun = {int(codes[k]): (int(seen[k]), tuple(a[k] for a in sums)) for k in np.flatnonzero(~whole)}
        return cls(total, begun, count, finish)

    def __add__(self, other):
        begun, totals = dict(self.begun), [self.total, other.total]
        for code, (seen, sums) in other.begun.items():
            if code in begun:
                before, mine = begun.pop(code)
                seen, sums = seen + before, tuple(a + b for a, b in zip(sums, mine, strict=True))
            if seen == self.count[code]:
                totals.append(self.finish(np.array([code]), *(a[None] for a in sums)))
            else:
                begun[code] = seen, sums
        known = [total for total in totals if total is not None]
        return CutGroups(reduce(add, known) if known else None, begun, self.count, self.finish)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Weighted sums over each group, (G, q), of values (b, q) of a block's rows."""

    values: Callable[[Any], Any]
    count: np.ndarray

    def __call__(self, block):
        codes, place, seen = np.unique(block.group, return_inverse=True, return_counts=True)
        of_row = sparse.csr_array((block.weight, (place, np.arange(len(place)))), shape=(len(codes), len(place)))
        S = of_row @ self.values(block)
        S = S.toarray() if sparse.issparse(S) else S
        return CutGroups.from_block(self.count, Stack, codes, seen, (S,))

    def of(self, rows, width=None):
        """Sums (G, q) over all rows."""
        return rows.sum(self, width).total.in_order(len(self.count))


class Stack:
    """Arrays (g, ...) of some groups; two of them add to those of both."""

    def __init__(self, codes, *arrays):
        self.codes, self.arrays = [codes], [arrays]

    def __add__(self, other):
        both = Stack.__new__(Stack)
        both.codes, both.arrays = self.codes + other.codes, self.arrays + other.arrays
        return both

    def in_order(self, n_groups, k=0):
        """The k-th array of all groups, (G, ...)."""
        codes, values = np.concatenate(self.codes), np.concatenate([arrays[k] for arrays in self.arrays])
        out = np.zeros((n_groups, *values.shape[1:]))
        out[codes] = values
        return out


# ---------------------------------------------------------------------- what groups do to their own fit
@dataclass(frozen=True, eq=False)
class GroupUnits:
    """What groups tell once H_r is known; two of them add.

    Attributes
    ----------
    stack : Stack
        Steps (g, p) of each power, followed by scores S_g + K_g step_g (g, p) of each power.
    n_single : int
        Number of groups that determine a direction alone.
    single : ndarray of shape (l, p)
        How theta moves with all rows of such a group.
    trace : ndarray of shape (m,)
        tr L_g of the groups whose curvature is kept.
    L : ndarray of shape (m, q, q)
        Whitened curvatures L_g of the groups with the largest traces.
    """

    stack: Stack
    n_single: int
    single: np.ndarray
    trace: np.ndarray
    L: np.ndarray

    def __add__(self, other):
        trace, L = np.concatenate([self.trace, other.trace]), np.concatenate([self.L, other.L])
        top = np.argsort(-trace, kind="stable")[: max(MOST_CURVATURES // L.shape[1], 1)]
        single = np.concatenate([self.single, other.single])[:MOST_SINGLE]
        return GroupUnits(self.stack + other.stack, self.n_single + other.n_single, single, trace[top], L[top])


@dataclass(frozen=True, eq=False)
class GroupPass:
    """Sum over a block of what groups tell once H_r is known, as CutGroups whose total is GroupUnits.

    Attributes
    ----------
    hat : Hat
    powers : tuple of (power, most)
        Powers of I - C A, each with the cap on eigenvalues of L_g.
    count : ndarray of shape (G,)
        Rows of every group.
    certain : float
        Eigenvalue of L_g above which a group determines a direction alone.
    """

    hat: Hat
    powers: tuple[tuple[float, float], ...]
    count: np.ndarray
    certain: float = MAX_LEVERAGE

    @cached_property
    def root(self):
        """M / sqrt(n), (p, q)."""
        return self.hat.M / np.sqrt(self.hat.n)

    @cached_property
    def inverse(self):
        """(n H_r)^-1, (p, p)."""
        return self.root @ self.root.T

    def __call__(self, block):
        J, C = block.tangent.jacobian(), self.hat.curvature(block) * block.weight[:, None, None]
        W = C @ J if J.shape[1] > 1 else C * J
        u, order = block.u * block.weight[:, None], np.argsort(block.group, kind="stable")
        codes, starts, sizes = np.unique(block.group[order], return_index=True, return_counts=True)
        pieces = []
        for m in np.unique(sizes):  # groups of one size are a stack
            same = np.flatnonzero(sizes == m)
            for some in np.array_split(same, -(-len(same) * J.shape[2] ** 2 * 8 // BLOCK_BYTES)):
                rows = order[starts[some][:, None] + np.arange(m)].ravel()
                Jg, Wg = (A[rows].reshape(len(some), -1, J.shape[2]) for A in (J, W))  # (g, m k, p)
                S = (u[rows].reshape(len(some), 1, -1) @ Jg)[:, 0]  # (g, p)
                sums = S, Jg.transpose(0, 2, 1) @ Wg
                pieces.append(CutGroups.from_block(self.count, self.finish, codes[some], np.full(len(some), m), sums))
        return reduce(add, pieces)

    def finish(self, codes, S, K):
        """GroupUnits of complete groups with scores S (g, p) and curvatures K (g, p, p)."""
        trace = np.einsum("pq,gpq->g", self.inverse, K)
        n_single, single = 0, np.zeros((0, S.shape[1]))
        if (trace >= 0).all() and trace.max() <= SERIES_TRACE:
            steps = [self._series(S, K, power, float(trace.max())) for power, _ in self.powers]
        else:
            pulls, E = np.linalg.eigh(self.root.T @ K @ self.root)
            along = np.einsum("grq,gr->gq", E, S @ self.root)
            phi = [hat_power(pulls, power, most) for power, most in self.powers]
            steps = [np.einsum("grq,gq->gr", E, each * along) @ self.root.T for each in phi]
            group, which = np.nonzero(pulls > self.certain)
            # along such a direction the raw predictions of the group's m rows move by a sum of squares of one
            single = np.sqrt(self.count[codes[group]])[:, None] * (E[group, :, which] @ self.root.T)
            n_single = len(np.unique(group))
        scores = [S + (K @ step[:, :, None])[:, :, 0] for step in steps]
        all_of_them = len(self.count) * len(self.root) <= MOST_CURVATURES
        kept = trace >= (-np.inf if all_of_them else MIN_INFLUENTIAL)
        L = self.root.T @ K[kept] @ self.root
        return GroupUnits(Stack(codes, *steps, *scores), n_single, single, trace[kept], L)

    def _series(self, S, K, power, trace):
        """Steps (g, p) by the terms of (1 - l)^power = sum_k c_k l^k, to rounding: cheaper than eigenvalues."""
        term, c = S @ self.inverse, -power
        step, n_terms = c * term, int(np.ceil(np.log(1e-18) / np.log(trace))) if trace > 0 else 0
        for k in range(2, 2 + n_terms):
            c = c * (k - 1 - power) / k
            term = (K @ term[:, :, None])[:, :, 0] @ self.inverse
            step = step + c * term
        return step


@dataclass(frozen=True, eq=False)
class GroupGradient:
    """Gradients of the loss in f, (b, k), with the shrinkage undone that a group's own fit causes."""

    hat: Hat
    steps: np.ndarray  # (G, p)

    def __call__(self, block):
        return bounded(block.u + np.einsum("nkl,nl->nk", self.hat.curvature(block), moved(self.steps, block)), block)


def moved(steps, block):
    """J_i step_g, (b, k): change of raw predictions with a step of the row's group."""
    return block.tangent.along(steps[block.group])
