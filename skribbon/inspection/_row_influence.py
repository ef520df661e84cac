r"""Effects of single training rows, or groups of them, on predictions, without a refit.

The fit without a row is one Newton step away, :math:`\hat\theta_{(i)} - \hat\theta = H_r^{-1} J_i' (I - C_i A_i)^{-1}
u_i / n`, with the row's block :math:`C_i A_i` of the hat matrix: exact for least squares and ridge. A prediction with
Jacobian J_x moves by J_x times that step, so that D = H_r^-1 J_x' is computed once, and a row costs a few products. A
row of several copies is left out with all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from .._core.groups import GroupPass, GroupSums
from .._core.linalg import batch_gram
from .._core.ribbon import dirichlet_variance, influence
from .._core.rows import Groups, Sums, row_blocks
from .._core.training import Training
from .._core.units import resolvent

CERTAIN = 1 - 1e-9  # leverage above which rounding leaves nothing of the fit without a row


# ---------------------------------------------------------------------- rows of a block
def left_out(hat, n, block):
    """Pull of each row on its own fit, w_i (I - C_i A_i)^-1 u_i / n, (b, k); C and A, (b, k, k) each.

    Without ``hat``, if leverages are not known, they are taken as zero.
    """
    share = block.weight / n
    if hat is None:
        zero = np.zeros((len(share), block.u.shape[1], block.u.shape[1]))
        return share[:, None] * block.u, zero, zero
    C, A = hat.curvature(block), batch_gram(block.tangent.jvp(hat.M)) * share[:, None, None]
    return share[:, None] * resolvent(C, A, block.u, -1.0, CERTAIN), C, A


def traces(C, A):
    """Leverages tr(C_i A_i) of whole rows, (b,)."""
    return np.einsum("nkl,nlk->n", C, A)


def influence_of_rows(D, change, hat, n, block):
    """How far each row of a block has moved predictions, (b, q), and its leverage (b,).

    ``D`` (p, m k) is H_r^-1 J_x' of the predictions; ``change`` takes moves (b, m k) of raw predictions, as a row is
    left out, to what the row has done to predictions.
    """
    pull, C, A = left_out(hat, n, block)
    return change(np.asarray(block.tangent.scores(pull) @ D)), traces(C, A)


def measures_of_rows(hat, n, E, block):
    """Distance of each row of a block from the fit without it, and of that fit from the fit to all rows.

    ``E`` (p, T) is H_r^-1 times the gradients of the coefficients that are asked for. Returns leverages (b,), raw
    predictions without the row less those with it (b, k), n |step|^2 in the norm of H_r (b,), Pearson's squared
    residual times its growth as the row is left out (b,), and moves of the coefficients (b, T).
    """
    pull, C, A = left_out(hat, n, block)
    share = np.where(block.weight > 0, block.weight / n, 1.0)
    move, h, loss = np.einsum("nkl,nl->nk", A, pull) / share[:, None], traces(C, A), block.model.loss
    squared = np.zeros(len(h)) if loss.n_classes else loss.squared_residuals(block.f, block.y)
    grown = squared / (1 - np.minimum(h / loss.curvature_rank, CERTAIN))
    return h, move, n * np.einsum("nk,nk->n", move, pull), grown, np.asarray(block.tangent.scores(pull) @ E)


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions of the rows of a block to the variances of linear functionals of theta, (b, q), and zeros (b,)."""

    D: np.ndarray  # (p, q), H_r^-1 times the functionals' gradients
    gradient: Callable  # corrected gradients (b, k) that the ribbon is made of
    centre: np.ndarray  # (p,), what scores are measured from
    factor: float
    rows_per_unit: float = 1.0

    def along(self, block):
        """D' g_i, (b, q)."""
        return np.asarray(block.tangent.scores(self.gradient(block)) @ self.D)

    def __call__(self, block):
        c = self.along(block) - self.centre @ self.D
        return self.factor * block.weight[:, None] * c**2, np.zeros(len(c))

    def of_groups(self, sums):
        """Contributions of whole groups, from sums (g, q) over their rows."""
        return self.factor * (sums / self.rows_per_unit - self.centre @ self.D) ** 2


# ---------------------------------------------------------------------- the largest of them
@dataclass(frozen=True, eq=False)
class Top:
    """The k values of largest size in each of q columns; two of them add, rows of the second after the first's."""

    values: np.ndarray  # (k or fewer, q), in descending order of size
    rows: np.ndarray  # (k or fewer, q)
    total: np.ndarray  # (q,), sums of all values
    count: int  # number of rows that were looked at
    k: int

    @classmethod
    def from_values(cls, values, k):
        """Largest of values (b, q)."""
        rows = np.broadcast_to(np.arange(len(values))[:, None], values.shape)
        return cls(*_largest(values, rows, k), values.sum(axis=0), len(values), k)

    def __add__(self, other):
        values, rows = np.concatenate([self.values, other.values]), np.concatenate([self.rows, other.rows + self.count])
        return Top(*_largest(values, rows, self.k), self.total + other.total, self.count + other.count, self.k)


def _largest(values, rows, k):
    """The k values of largest size in each column, in descending order, and their rows."""
    if len(values) > k:
        size = np.ascontiguousarray(np.abs(values).T)  # partitions along the last axis are twice as fast
        some = np.sort(np.argpartition(size, -k, axis=1)[:, -k:], axis=1).T
        values, rows = np.take_along_axis(values, some, axis=0), np.take_along_axis(rows, some, axis=0)
    order = np.argsort(-np.abs(values), axis=0, kind="stable")
    return np.take_along_axis(values, order, axis=0), np.take_along_axis(rows, order, axis=0)


# ---------------------------------------------------------------------- all rows, or groups
def influences(training: Training, J: np.ndarray, change: Callable, top: int | None = None) -> tuple[Any, int]:
    """Effects of each training row, or group, on what ``change`` makes of raw predictions with Jacobian J (m k, p).

    Returns values (units, q), or their Top, and the number of rows or groups that determine a direction alone.
    """
    if training.rows.groups is None:
        hat = training.hat if training.curvature.knows_leverages else None
        f = partial(influence_of_rows, training.H_r.solve(J.T), change, hat, training.n)
        return _all_rows(training, f, len(J), top)
    steps, decisive = group_left_out(training)
    blocks = (_all_or_top(change(steps[some] @ J.T), top) for some in row_blocks(len(steps), 2 * len(J)))
    return np.concatenate(list(blocks)) if top is None else reduce(add, blocks), decisive


def contributions(training: Training, gradients: np.ndarray, alpha: float, top: int | None = None) -> Any:
    """Contributions of rows, or groups, to variances of functionals with gradients (q, p): (units, q), or their Top."""
    rows, units = training.rows, training.rows.units
    gradient, centre = training.scores
    D, factor = training.H_r.solve(gradients.T), dirichlet_variance(units, alpha) / units
    f = Contributions(D, gradient, centre, factor, training.n / units)
    if rows.groups is None:
        return _all_rows(training, f, len(gradients), top)[0]
    sums = GroupSums(f.along, rows.groups.count).of(rows, _width(training, len(gradients)))
    return _all_or_top(f.of_groups(sums) * (rows.groups.weight > 0)[:, None], top)


def measures(training: Training, E: np.ndarray) -> tuple[np.ndarray, ...]:
    """Results of :func:`measures_of_rows` for every row, (n_rows,) or (n_rows, ...)."""
    return training.rows.map(partial(measures_of_rows, training.hat, training.n, E), _width(training, E.shape[1]))


def left_out_step(training: Training, index: np.ndarray) -> tuple[np.ndarray, int]:
    """Step of theta to the fit without a set of rows, (p,), and whether they determine a direction alone."""
    some = training.rows.take(index)
    alone = Groups.of(np.zeros(len(index), dtype=np.intp), some.weight)
    steps, decisive = group_left_out(training, replace(some, groups=alone))
    return steps[0], decisive


def group_left_out(training, rows=None):
    """Steps (G, p) to the fits without each group of the rows, and how many groups determine a direction alone."""
    rows = training.rows if rows is None else rows
    if training.curvature.knows_leverages:
        group_pass = GroupPass(training.hat, ((-1.0, CERTAIN),), rows.groups.count, CERTAIN)
        found = rows.sum(group_pass, 2 * rows.model.n_outputs * len(training.hat.M)).total
        return found.stack.in_order(len(rows.groups.count)), found.n_single
    scores = GroupSums(_scores, rows.groups.count).of(rows)
    return -influence(training.H_r, scores.T).T / training.n, 0


def _scores(block):
    return block.tangent.scores(block.u)


def _width(training, q):
    return max(q, training.rows.model.n_outputs * len(training.rows.model.theta))


def _all_or_top(values, top):
    return values if top is None else Top.from_values(values, top)


def _all_rows(training, f, q, top):
    """Values and number of certain rows by ``f(block)``, which gives values (b, q) and leverages (b,)."""
    if top is not None:
        return training.rows.sum(partial(_top_of_block, f, top), _width(training, q))
    values, h = training.rows.map(f, _width(training, q))
    return values, _count_certain(h, training.rows.weight)


def _top_of_block(f, top, block):
    values, h = f(block)
    return Sums([Top.from_values(values, top), _count_certain(h, block.weight)])


def _count_certain(h, weight):
    return int(((h > CERTAIN) & (weight > 0)).sum())
