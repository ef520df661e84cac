"""Effects of single training rows, or groups of rows, on predictions, without a refit.

The fit without row i is one Newton step away, H_r^-1 J_i' (I - C_i A_i)^-1 u_i / n, with the row's block C_i A_i of the
hat matrix: exact for least squares and ridge. A row of several copies is left out with all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from .._core.linalg import batch_gram
from .._core.ribbon import dirichlet_variance, influence
from .._core.rows import Groups, Sums, row_blocks
from .._core.thresholds import CERTAIN
from .._core.training import Training, corrected_scores
from .._core.units import GroupPass, GroupSums, Hat, resolvent


def left_out(hat, n, block):
    """Leave-one-out scores w_i (I - C_i A_i)^-1 u_i / n, (b, k), with C and A (b, k, k); C A = 0 without ``hat``."""
    share = block.weight / n
    if hat is None:
        zero = np.zeros((len(share), block.u.shape[1], block.u.shape[1]))
        return share[:, None] * block.u, zero, zero
    C, A = hat.curvature(block), batch_gram(block.tangent.jvp(hat.M)) * share[:, None, None]
    return share[:, None] * resolvent(C, A, block.u, -1.0, CERTAIN), C, A


def influence_of_rows(D, change, hat, n, block):
    """Effects (b, q) of rows on predictions with D = H_r^-1 J_x' (p, m k), and whether each decides a direction."""
    score, C, A = left_out(hat, n, block)
    certain = (np.einsum("nkl,nlk->n", C, A) > CERTAIN) & (block.weight > 0)
    return change(np.asarray(block.tangent.scores(score) @ D)), certain


def measures_of_rows(hat, n, E, block):
    """Leverages and leave-one-out changes of the rows of a block, for E = H_r^-1 G' (p, T) of T coefficients.

    Returns leverages (b,), changes of the row's raw predictions (b, k), n |step|^2 in the norm of H_r (b,), Pearson's
    squared residual times its leave-one-out ratio (b,), and changes of the coefficients (b, T).
    """
    score, C, A = left_out(hat, n, block)
    share = np.where(block.weight > 0, block.weight / n, 1.0)
    move, h = np.einsum("nkl,nl->nk", A, score) / share[:, None], np.einsum("nkl,nlk->n", C, A)
    loss = block.model.loss
    squared = block.squared_residuals[:, 0]
    grown = squared / (1 - np.minimum(h / loss.curvature_rank, CERTAIN))
    return h, move, n * np.einsum("nk,nk->n", move, score), grown, np.asarray(block.tangent.scores(score) @ E)


def along_functionals(D, gradient, block):
    """Products D' g_i (b, q) of D (p, q) and the ribbon's corrected scores, from their gradients (b, k)."""
    return np.asarray(block.tangent.scores(gradient(block)) @ D)


def contributions_of_rows(D, gradient, centre, factor, block):
    """Contributions of rows to the variances of q functionals with D = H_r^-1 G' (p, q), (b, q), and False (b,)."""
    c = along_functionals(D, gradient, block) - centre @ D
    return factor * block.weight[:, None] * c**2, np.zeros(len(c), dtype=bool)


@dataclass(eq=False)
class Top:
    """The k values of largest size in each of q columns, in descending order; two of them add."""

    values: np.ndarray  # (k or fewer, q)
    rows: np.ndarray  # (k or fewer, q)
    total: np.ndarray  # (q,), sums of all values
    count: int  # number of rows examined; rows of a second Top follow them
    k: int

    def __post_init__(self):
        if len(self.values) > self.k:
            size = np.ascontiguousarray(np.abs(self.values).T)  # partitions along the last axis are twice as fast
            self._take(np.sort(np.argpartition(size, -self.k, axis=1)[:, -self.k :], axis=1).T)
        self._take(np.argsort(-np.abs(self.values), axis=0, kind="stable"))

    def _take(self, index):
        self.values, self.rows = (np.take_along_axis(A, index, axis=0) for A in (self.values, self.rows))

    def __add__(self, other):
        values, rows = np.concatenate([self.values, other.values]), np.concatenate([self.rows, other.rows + self.count])
        return Top(values, rows, self.total + other.total, self.count + other.count, self.k)


def influences(training: Training, J: np.ndarray, change: Callable, top: int | None = None) -> tuple[Any, int]:
    """Effects of each row, or group, on predictions (units, q), or their Top, and how many decide a direction alone."""
    if training.rows.groups is None:
        hat = Hat.from_training(training) if training.curvature.knows_leverages else None
        f = partial(influence_of_rows, training.H_r.solve(J.T), change, hat, training.n)
        return _all_rows(training, f, len(J), top)
    steps, decisive = group_left_out(training)
    blocks = (_all_or_top(change(steps[some] @ J.T), top) for some in row_blocks(len(steps), 2 * len(J)))
    return np.concatenate(list(blocks)) if top is None else reduce(add, blocks), decisive


def contributions(training: Training, gradients: np.ndarray, alpha: float, top: int | None = None) -> Any:
    """Contributions of rows, or groups, to variances of q functionals: (units, q), or their Top."""
    rows, units = training.rows, training.rows.n_units
    gradient, centre = corrected_scores(training)
    D, factor = training.H_r.solve(gradients.T), dirichlet_variance(units, alpha) / units
    if rows.groups is None:
        f = partial(contributions_of_rows, D, gradient, centre, factor)
        return _all_rows(training, f, len(gradients), top)[0]
    along = partial(along_functionals, D, gradient)
    sums = GroupSums(along, rows.groups.count).of(rows, _width(training, len(gradients)))
    values = factor * (sums / (training.n / units) - centre @ D) ** 2
    return _all_or_top(values * (rows.groups.weight > 0)[:, None], top)


def measures(training: Training, E: np.ndarray) -> tuple[np.ndarray, ...]:
    """Results of :func:`measures_of_rows` for every row, (n_rows,) or (n_rows, ...)."""
    f = partial(measures_of_rows, Hat.from_training(training), training.n, E)
    return training.rows.map(f, _width(training, E.shape[1]))


def left_out_step(training: Training, index: np.ndarray) -> tuple[np.ndarray, int]:
    """Step of the parameters to the fit without some rows, (p,), and 1 if they determine a direction alone, else 0."""
    some = training.rows.take(index)
    alone = Groups.from_codes(np.zeros(len(index), dtype=np.intp), some.weight)
    steps, decisive = group_left_out(training, replace(some, groups=alone))
    return steps[0], decisive


def group_left_out(training, rows=None):
    """Steps (G, p) to the fits without each group, and the number of groups that determine a direction alone."""
    rows = training.rows if rows is None else rows
    if training.curvature.knows_leverages:
        found = GroupPass(Hat.from_training(training), ((-1.0, CERTAIN),), rows.groups.count, CERTAIN).of(rows)
        return found.stack.in_order(len(rows.groups.count)), found.n_single
    scores = GroupSums(lambda block: block.tangent.scores(block.u), rows.groups.count).of(rows)
    return -influence(training.H_r, scores.T).T / training.n, 0


def _width(training, q):
    return max(q, training.rows.model.loss.n_outputs * len(training.rows.model.theta))


def _all_or_top(values, top):
    """Values (b, q) themselves, or the ``top`` largest in each column."""
    if top is None:
        return values
    rows = np.broadcast_to(np.arange(len(values))[:, None], values.shape)
    return Top(values, rows, values.sum(axis=0), len(values), top)


def _all_rows(training, f, q, top):
    """Values, or their Top, and number of certain rows, from ``f(block)`` with values (b, q) and flags (b,)."""
    if top is not None:
        return training.rows.sum(partial(_top_of_block, f, top), _width(training, q))
    values, certain = training.rows.map(f, _width(training, q))
    return values, int(certain.sum())


def _top_of_block(f, top, block):
    values, certain = f(block)
    return Sums([_all_or_top(values, top), int(certain.sum())])
