r"""Rows that depend on each other: one Dirichlet weight for each of G groups, and each row gets its group's.

With group scores :math:`S_g = \sum_{i \in g} g_i`, the objective :math:`\frac Gn \sum_g w_g \sum_{i \in g} \ell_i + r`
has the linear step and covariance of the paper, :math:`\frac Gn S_g` in the place of :math:`g_i` and G in that of n:

.. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{G\alpha + 1} H_r^{-1} \Big(\frac{G}{n^2} \sum_g S_g S_g'
          - \bar g \bar g'\Big) H_r^{-1}.

The hat matrix of a whole group takes the place of a row's leverage, without an n x n array; see :func:`group_steps`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from .linalg import gram
from .rows import BLOCK_BYTES, Sums

HEAVY_COLUMNS = 4000  # numbers of parameters times groups up to which all groups are looked at one by one
HEAVY = 0.02  # trace of a group's hat matrix from which it is, where they are more
MOST_LONE = 64  # directions that are remembered for being determined by one group
SMALL = 0.1  # trace of a group's hat matrix up to which a few terms of a series are its inverse
MAX_LEVERAGE = 0.99  # a row that decides its own prediction says nothing of the noise; leverages are capped here


# ---------------------------------------------------------------------- sums of groups that blocks may cut
@dataclass(frozen=True, eq=False)
class Pieces:
    """Sums over groups, of which some go on in other blocks; two of them add.

    Attributes
    ----------
    total : object that adds, or None
        Sum of ``finish`` over the groups that are complete.
    begun : dict
        From the number of a group that is not, to how many of its rows were seen and their sums, a tuple of arrays.
    count : ndarray of shape (G,)
        Rows of every group.
    finish : callable
        ``finish(codes, *sums)``, of stacks of sums of some whole groups.
    """

    total: Any
    begun: dict
    count: np.ndarray
    finish: Callable

    def __add__(self, other):
        begun, whole = dict(self.begun), []
        for code, (seen, sums) in other.begun.items():
            if code in begun:
                before, mine = begun.pop(code)
                seen, sums = seen + before, tuple(a + b for a, b in zip(sums, mine, strict=True))
            if seen == self.count[code]:
                whole.append((code, sums))
            else:
                begun[code] = seen, sums
        total = _added(self.total, other.total)
        for code, sums in whole:
            total = _added(total, self.finish(np.array([code]), *(a[None] for a in sums)))
        return Pieces(total, begun, self.count, self.finish)


def _added(a, b):
    return b if a is None else a if b is None else a + b


def _pieces(count, finish, codes, seen, sums):
    """Of a block: what is whole is finished, the rest begun."""
    whole = count[codes] == seen
    total = finish(codes[whole], *(a[whole] for a in sums)) if whole.any() else None
    begun = {int(codes[k]): (int(seen[k]), tuple(a[k] for a in sums)) for k in np.flatnonzero(~whole)}
    return Pieces(total, begun, count, finish)


# ---------------------------------------------------------------------- scores
def group_sums(values, count, finish, block):
    """Pieces of ``finish(codes, S)``, with S (g, q) the weighted sums over whole groups of ``values(block)`` (b, q)."""
    codes, place, seen = np.unique(block.group, return_inverse=True, return_counts=True)
    of_row = sparse.csr_array((block.weight, (place, np.arange(len(place)))), shape=(len(codes), len(place)))
    S = of_row @ values(block)
    return _pieces(count, finish, codes, seen, (S.toarray() if sparse.issparse(S) else S,))


def group_scores(gradient, count, block):
    """Pieces whose total is the sum over groups of S_g (p,), and of S_g S_g' (p, p), with g_i = J_i' gradient_i."""
    return group_sums(partial(_scores, gradient), count, _scatter, block)


def _scores(gradient, block):
    return block.tangent.scores(gradient(block))


def _scatter(codes, S):
    return Sums([S.sum(axis=0), gram(S)])


@dataclass(frozen=True, eq=False)
class Parts:
    """Sums of groups, kept: two of them add to a longer list of (codes, S)."""

    parts: tuple

    @classmethod
    def of(cls, codes, S):
        """Of some whole groups."""
        return cls(((codes, S),))

    def __add__(self, other):
        return Parts(self.parts + other.parts)

    def in_order(self, n_groups):
        """(G, q)."""
        out = np.zeros((n_groups, self.parts[0][1].shape[1]))
        for codes, S in self.parts:
            out[codes] = S
        return out


# ---------------------------------------------------------------------- the fit without a group
def group_steps(rows, hat, powers, most):
    """Steps of theta that undo what each group does to its own fit, (G, p).

    By the power -1 that is the step to the fit without the group, (n H_r - K_g)^-1 S_g with K_g = sum J_i' C_i J_i. By
    any power, u_i + C_i J_i step_g is (I - C A)^power u, with C A the whole group's block of the hat matrix: with
    L_g = M' K_g M / n, M M' = H_r^-1, the step is M phi(L_g) M' S_g / n, phi(l) = ((1 - l)^power - 1) / l. However
    large the group is, these are p x p. Eigenvalues of L_g above ``most`` count as that.

    Returns
    -------
    dict
        From each of the powers to GroupSteps: what they have in common costs most.
    """
    count, p = rows.groups.count, len(hat.inverse_root)
    heavy = 0.0 if len(count) * p <= HEAVY_COLUMNS else HEAVY
    step = GroupStep(hat.inverse_root / np.sqrt(hat.n), powers, most, count, heavy)
    found = rows.sum(partial(step_pieces, hat, step, count), 2 * rows.model.n_outputs * p).total
    out = {}
    for k, power in enumerate(powers):
        steps, scores = np.zeros((len(count), p)), np.zeros((len(count), p))
        for codes, some_steps, some_scores in found.parts:
            steps[codes], scores[codes] = some_steps[k], some_scores[k]
        out[power] = GroupSteps(steps, scores, found.lone[:MOST_LONE].T, found.n_decisive, found.K)
    return out


@dataclass(frozen=True, eq=False)
class GroupSteps:
    """What :func:`group_steps` finds.

    Attributes
    ----------
    steps : ndarray of shape (G, p)
    scores : ndarray of shape (G, p)
        S_g + K_g step_g: the groups' scores, with what their own fit took from them given back.
    lone : ndarray of shape (p, l)
        How theta moves with all rows of a group, of each eigenvalue above MAX_LEVERAGE: what that group alone decides.
    n_decisive : int
        Groups that have one.
    K : ndarray of shape (m, p, p)
        K_g of the groups with the largest traces of L_g: all of them, or those that may rule a variance.
    """

    steps: np.ndarray
    scores: np.ndarray
    lone: np.ndarray
    n_decisive: int
    K: np.ndarray


@dataclass(frozen=True, eq=False)
class Found:
    """The same of some whole groups; two of them add, and keep no more K_g than are looked at.

    Attributes
    ----------
    parts : tuple
        Of (codes, steps, scores), the last two a list with an array (g, p) for every power.
    lone : ndarray of shape (l, p)
    n_decisive : int
    trace : ndarray of shape (m,)
        Of L_g, where K_g is kept.
    K : ndarray of shape (m, p, p)
    """

    parts: tuple
    lone: np.ndarray
    n_decisive: int
    trace: np.ndarray
    K: np.ndarray

    def __add__(self, other):
        trace = np.concatenate([self.trace, other.trace])
        top = np.argsort(-trace, kind="stable")[: max(HEAVY_COLUMNS // self.K.shape[1], 1)]
        return Found(
            self.parts + other.parts,
            np.concatenate([self.lone, other.lone])[:MOST_LONE],
            self.n_decisive + other.n_decisive,
            trace[top],
            np.concatenate([self.K, other.K])[top],
        )


def step_pieces(hat, step, count, block):
    """Pieces whose total is Found."""
    J, C = block.tangent.jacobian(), hat.curvature(block) * block.weight[:, None, None]
    W = J if J.shape[1] == 1 and (C == 1).all() else C @ J if J.shape[1] > 1 else C * J
    u, order = block.u * block.weight[:, None], np.argsort(block.group, kind="stable")
    codes, starts, sizes = np.unique(block.group[order], return_index=True, return_counts=True)
    pieces = []
    for m in np.unique(sizes):  # groups of one size are a stack
        same = np.flatnonzero(sizes == m)
        for some in np.array_split(same, -(-len(same) * J.shape[2] ** 2 * 8 // BLOCK_BYTES)):
            rows = _as_slice(order[starts[some][:, None] + np.arange(m)].ravel())
            Jg = J[rows].reshape(len(some), -1, J.shape[2])  # (g, m k, p)
            Wg = Jg if W is J else W[rows].reshape(Jg.shape)
            S = (u[rows].reshape(len(some), 1, -1) @ Jg)[:, 0]  # (g, p)
            if step.powers == (-1.0,) and Jg.shape[1] < Jg.shape[2] and (count[codes[some]] == m).all():
                pieces.append(Pieces(step.by_rows(codes[some], S, Jg, Wg), {}, count, step))
            else:
                K = Jg.transpose(0, 2, 1) @ Wg
                pieces.append(_pieces(count, step, codes[some], np.full(len(some), m), (S, K)))
    return reduce(add, pieces)


def _as_slice(rows):
    """Indices, as a slice if they are one: that is no copy."""
    first, last = rows[0], rows[-1]
    return slice(first, last + 1) if last - first == len(rows) - 1 and (np.diff(rows) == 1).all() else rows


@dataclass(frozen=True, eq=False)
class GroupStep:
    """How theta moves, from sums over whole groups; see :func:`group_steps`.

    Attributes
    ----------
    root : ndarray of shape (p, r)
        M / sqrt(n).
    powers : tuple of float
    most : float
    count : ndarray of shape (G,)
        Rows of every group.
    heavy : float
        Trace of L_g from which K_g is kept.
    """

    root: np.ndarray
    powers: tuple
    most: float
    count: np.ndarray
    heavy: float

    @cached_property
    def inverse(self):
        """(n H_r)^-1, (p, p)."""
        return self.root @ self.root.T

    def __call__(self, codes, S, K):
        """Of stacks S (g, p) and K (g, p, p)."""
        trace = np.einsum("pq,gpq->g", self.inverse, K)
        if (trace >= 0).all() and trace.max() <= SMALL:
            steps, lone, decisive = self._series(S, K, float(trace.max())), np.zeros((0, S.shape[1])), 0
        else:
            steps, lone, decisive = self._whitened(codes, S @ self.root, self.root.T @ K @ self.root)
        scores, kept = [S + (K @ step[:, :, None])[:, :, 0] for step in steps], trace >= self.heavy
        return Found(((codes, steps, scores),), lone, decisive, trace[kept], K[kept])

    def _series(self, S, K, trace):
        """By the terms of (1 - l)^power = sum_k c_k l^k, to rounding: cheaper than eigenvalues."""
        term, c = S @ self.inverse, -np.array(self.powers)
        steps = [c_power * term for c_power in c]
        for k in range(2, 2 + (int(np.ceil(np.log(1e-18) / np.log(trace))) if trace > 0 else 0)):
            c = c * (k - 1 - np.array(self.powers)) / k
            term = (K @ term[:, :, None])[:, :, 0] @ self.inverse
            steps = [step + c_power * term for step, c_power in zip(steps, c, strict=True)]
        return steps

    def _whitened(self, codes, s, L):
        pulls, E = np.linalg.eigh(L)
        along, small, steps = np.einsum("grq,gr->gq", E, s), np.abs(pulls) < 1e-8, []
        for power in self.powers:
            capped = (1 - np.minimum(pulls, self.most)) ** power - 1
            phi = np.where(small, -power, capped / np.where(small, 1.0, pulls))
            steps.append(np.einsum("grq,gq->gr", E, phi * along) @ self.root.T)
        group, which = np.nonzero(pulls > max(self.most, MAX_LEVERAGE))
        # along such a direction the raw predictions of the group's m rows move by a sum of squares of one
        lone = np.sqrt(self.count[codes[group]])[:, None] * (E[group, :, which] @ self.root.T)
        return steps, lone, len(np.unique(group))

    def by_rows(self, codes, S, J, W):
        """The same from the rows, which are fewer than parameters: (I - V'V)^-1 = I + V'(I - V V')^-1 V."""
        V, CV = J @ self.root, W @ self.root  # (g, m k, r)
        CA, s = CV @ V.transpose(0, 2, 1), S @ self.root
        trace = np.einsum("gaa->g", CA)
        easy = trace <= self.most
        steps, lone, decisive = np.empty_like(S), np.zeros((0, S.shape[1])), 0
        if easy.any():
            x = np.linalg.solve(np.eye(CA.shape[1]) - CA[easy], CV[easy] @ s[easy][:, :, None])
            steps[easy] = (s[easy] + (V[easy].transpose(0, 2, 1) @ x)[:, :, 0]) @ self.root.T
        if not easy.all():
            L = V[~easy].transpose(0, 2, 1) @ CV[~easy]
            (steps[~easy],), lone, decisive = self._whitened(codes[~easy], s[~easy], L)
        scores, kept = S + (J.transpose(0, 2, 1) @ (W @ steps[:, :, None]))[:, :, 0], trace >= self.heavy
        K = J[kept].transpose(0, 2, 1) @ W[kept]
        return Found(((codes, [steps], [scores]),), lone, decisive, trace[kept], K)


def moved(steps, block):
    """J_i step_g, (b, k): by how much raw predictions move with the fit."""
    return block.tangent.along(steps[block.group])
