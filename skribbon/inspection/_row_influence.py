r"""What single training rows, or groups of them, do to predictions, without a refit.

The fit without a row is one Newton step away, :math:`\hat\theta_{(i)} - \hat\theta = H_r^{-1} J_i' (I - C_i A_i)^{-1}
u_i / n`, with the hat matrix :math:`C_i A_i` of ``_leverage.py``: exact for least squares and ridge. A prediction with
Jacobian J_x moves by J_x times that, so all that is needed of the predictions is D = H_r^-1 J_x', and a row costs a few
products. A row of several copies is left out with all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._core.groups import Parts, group_steps, group_sums
from .._core.leverage import Hat, resolvent
from .._core.ribbon import dispersion
from .._core.rows import Groups, row_blocks
from .._core.training import Training

CERTAIN = 1 - 1e-9  # leverage from which rounding leaves nothing of the fit without a row
MANY = 1000  # times as many rows as are asked for make it worth while to look at few of them
SCOUTS = 10  # times as many rows as are asked for tell what the others have to exceed


# ---------------------------------------------------------------------- rows of a block
def left_out(hat, n, block):
    """pull_i = w_i (I - C_i A_i)^-1 u_i / n, (b, k), by which row i pulls its own fit back; C and A, (b, k, k) each.

    Rows are left out with all their copies. Without ``hat``, where leverages are not known, they are taken as zero.
    """
    share, C = block.weight / n, None if hat is None else hat.curvature(block)
    if hat is None:
        zero = np.zeros((len(share), block.u.shape[1], block.u.shape[1]))
        return share[:, None] * block.u, zero, zero
    A = hat.squares(block.tangent) * share[:, None, None]
    return share[:, None] * resolvent(C, A, block.u, -1.0, CERTAIN), C, A


def traces(C, A):
    """tr(C_i A_i), (b,): leverages of whole rows."""
    return np.einsum("nkl,nlk->n", C, A)


@dataclass(frozen=True, eq=False)
class Influences:
    """How each row of a block has moved predictions, (b, q), and its leverage (b,).

    Attributes
    ----------
    D : ndarray of shape (p, m k)
        H_r^-1 J_x' of the predictions.
    change : callable
        From moves (b, m k) of raw predictions, as a row is left out, to what it has done to predictions, (b, q). Where
        ``is_linear``, its ``reach`` takes J_x M (m k, r) to the largest values (q,) that steps of length one can make.
    hat : Hat or None
    n : float
    """

    D: np.ndarray
    change: Callable
    hat: Hat | None
    n: float

    def __call__(self, block):
        pull, C, A = left_out(self.hat, self.n, block)
        return self.change(np.asarray(block.tangent.scores(pull) @ self.D)), traces(C, A)

    def sizes(self, block):
        """|step_i| in the norm of H_r, (b,): a raw prediction moves by at most that times |J_x| in the norm of H_r^-1.

        The leverages, (b,), too.
        """
        pull, C, A = left_out(self.hat, self.n, block)
        moved = np.einsum("nk,nkl,nl->n", pull, A, pull) if A.shape[1] > 1 else A[:, 0, 0] * pull[:, 0] ** 2
        share = np.where(block.weight > 0, block.weight / self.n, 1.0)
        return np.sqrt(moved / share), traces(C, A)


@dataclass(frozen=True, eq=False)
class Contributions:
    """What each row of a block adds to the variances of linear functionals of theta, (b, q), and zeros (b,).

    Attributes
    ----------
    D : ndarray of shape (p, q)
        H_r^-1 times the functionals' gradients.
    gradient : callable
        The corrected gradients (b, k) that the ribbon is made of.
    centre : ndarray of shape (p,)
        What scores are measured from.
    factor : float
    rows_per_unit : float
    """

    D: np.ndarray
    gradient: Callable
    centre: np.ndarray
    factor: float
    rows_per_unit: float = 1.0

    def along(self, block):
        """D' g_i, (b, q)."""
        return np.asarray(block.tangent.scores(self.gradient(block)) @ self.D)

    def __call__(self, block):
        c = self.along(block) - self.centre @ self.D
        return self.factor * block.weight[:, None] * c**2, np.zeros(len(c))

    def of_groups(self, sums):
        """The same of whole groups, from sums (g, q) over their rows."""
        return self.factor * (sums / self.rows_per_unit - self.centre @ self.D) ** 2


@dataclass(frozen=True, eq=False)
class Measures:
    """How far each row of a block is from the fit without it, and how far that is from the fit to all.

    Gives leverages, raw predictions without the row less those with it, (b, k), n |step|^2 in the norm of H_r, and
    Pearson's squared residual grown as leaving the row out makes it grow, (b,); last, moves of coefficients (b, T).

    Attributes
    ----------
    hat : Hat
    n : float
    E : ndarray of shape (p, T)
        H_r^-1 times the gradients of the coefficients that are asked for.
    """

    hat: Hat
    n: float
    E: np.ndarray

    def __call__(self, block):
        pull, C, A = left_out(self.hat, self.n, block)
        share = np.where(block.weight > 0, block.weight / self.n, 1.0)
        move, h, loss = np.einsum("nkl,nl->nk", A, pull) / share[:, None], traces(C, A), block.model.loss
        squared = np.zeros(len(h)) if loss.n_classes else loss.squared_residuals(block.f, block.y)
        grown = squared / (1 - np.minimum(h / loss.curvature_rank, CERTAIN))
        moved = np.asarray(block.tangent.scores(pull) @ self.E)
        return h, move, self.n * np.einsum("nk,nk->n", move, pull), grown, moved


# ---------------------------------------------------------------------- the largest of them
@dataclass(frozen=True, eq=False)
class Top:
    """The k largest values of each column, by absolute value; two of them add, rows of the second after the first's.

    Attributes
    ----------
    values, rows : ndarray of shape (k or fewer, q)
        In descending order of size; -1 where there is no row.
    k : int
    count : int
        Rows that were looked at; zero where ``rows`` are numbers of groups.
    total : ndarray of shape (q,)
        Sums of all values.
    certain : int
        Rows of a leverage above CERTAIN.
    """

    values: np.ndarray
    rows: np.ndarray
    k: int
    count: int
    total: np.ndarray
    certain: int = 0

    def __add__(self, other):
        rows = np.where(other.rows >= 0, other.rows + self.count, -1)
        values, rows = np.concatenate([self.values, other.values]), np.concatenate([self.rows, rows])
        count, total = self.count + other.count, self.total + other.total
        return Top(*_first(values, rows, self.k), self.k, count, total, self.certain + other.certain)

    @classmethod
    def of(cls, values, k, codes=None, certain=0):
        """Of values (b, q) of rows, or of groups with numbers ``codes`` (b,)."""
        b, q = values.shape
        place = _places(values, k) if b > 4 * SCOUTS * k else np.broadcast_to(np.arange(b)[:, None], (b, q))
        kept, place = _first(np.take_along_axis(values, np.maximum(place, 0), axis=0), place, k)
        rows = place if codes is None else np.where(place >= 0, codes[place], -1)
        return cls(kept, rows, k, b if codes is None else 0, values.sum(axis=0), certain)


def _places(values, k):
    """Rows (m, q) that may be among the k largest of each column; -1 where there are no more."""
    size = np.abs(values)
    scouts = np.argpartition(size.max(axis=1), -SCOUTS * k)[-SCOUTS * k :]
    least = np.partition(size[scouts], -k, axis=0)[-k]  # k rows reach it, so that none below is among the k largest
    rows, columns = np.divmod(np.flatnonzero(size >= least), values.shape[1])
    order, count = np.argsort(columns, kind="stable"), np.bincount(columns, minlength=values.shape[1])
    rows, columns = rows[order], columns[order]
    place = np.full((count.max(), values.shape[1]), -1)
    place[np.arange(len(rows)) - (np.cumsum(count) - count)[columns], columns] = rows
    return place


def _first(values, rows, k):
    """The k first in descending order of size, those without a row last."""
    order = np.argsort(np.where(rows >= 0, -np.abs(values), np.inf), axis=0, kind="stable")[:k]
    return np.take_along_axis(values, order, axis=0), np.take_along_axis(rows, order, axis=0)


def top_of_block(f, k, block):
    """The largest of f (block)."""
    values, h = f(block)
    return Top.of(values, k, certain=_count(h, block.weight))


def _count(h, weight):
    return int(((h > CERTAIN) & (weight > 0)).sum())


# ---------------------------------------------------------------------- of all rows, or groups
@dataclass(frozen=True, eq=False)
class Effects:
    """Values (units, q) of all rows or groups, or the largest of each of the q columns.

    Attributes
    ----------
    values : ndarray of shape (units, q) or Top
    certain : int
        How many of them determine a direction alone, which is held where it is without them.
    """

    values: Any
    certain: int = 0


def influences(training: Training, J: np.ndarray, change: Any, top: int | None = None) -> Effects:
    """How each training row, or group, has moved what ``change`` makes of raw predictions with Jacobian J (m k, p)."""
    known, rows = training.curvature.knows_leverages, training.rows
    if rows.groups is None:
        f = Influences(training.H_r.solve(J.T), change, training.hat if known else None, training.n)
        if top is not None and known and change.is_linear and len(rows.y) > MANY * top:
            reach = change.reach(J @ training.H_r.inverse_root)
            return _largest(training, f, reach, top)
        return _of_rows(rows, f, _width(training, len(J)), top)
    steps, decisive = group_left_out(training)
    blocks = row_blocks(len(steps), 2 * len(J))
    if top is None:
        return Effects(np.concatenate([change(steps[some] @ J.T) for some in blocks]), decisive)
    numbers = np.arange(len(steps))
    tops = [Top.of(change(steps[some] @ J.T), top, numbers[some]) for some in blocks]
    return Effects(sum(tops[1:], tops[0]), decisive)


def contributions(
    training: Training, gradients: np.ndarray, correction: str, alpha: float, top: int | None = None
) -> Effects:
    """What each row, or group, adds to the variances of functionals with gradients (q, p) in theta."""
    rows, units = training.rows, training.rows.units
    gradient, centre = training.centred_scores(correction)
    D, factor = training.H_r.solve(gradients.T), dispersion(units, alpha) / units
    f = Contributions(D, gradient, centre, factor, training.n / units)
    width = _width(training, len(gradients))
    if rows.groups is None:
        return _of_rows(rows, f, width, top)
    parts = rows.sum(partial(group_sums, f.along, rows.groups.count, Parts.of), width).total
    values = f.of_groups(parts.in_order(len(rows.groups.count))) * (rows.groups.weight > 0)[:, None]
    return Effects(values if top is None else Top.of(values, top, np.arange(len(values))))


def measures(training: Training, E: np.ndarray) -> tuple[np.ndarray, ...]:
    """What :class:`Measures` says of every row, (n_rows,) or (n_rows, ...)."""
    return training.rows.map(Measures(training.hat, training.n, E), _width(training, E.shape[1]))


def left_out_step(training: Training, index: np.ndarray) -> tuple[np.ndarray, int]:
    """How theta moves to the fit without a set of rows, (p,), and whether they determine a direction alone."""
    some = training.rows.take(index)
    alone = Groups.of(np.zeros(len(index), dtype=np.intp), some.weight)
    steps, decisive = group_left_out(training, replace(some, groups=alone))
    return steps[0], decisive


def group_left_out(training, rows=None):
    """Steps (G, p) to the fits without each group of the rows, and how many groups determine a direction alone."""
    rows = training.rows if rows is None else rows
    if training.curvature.knows_leverages:
        found = group_steps(rows, training.hat, (-1.0,), CERTAIN)[-1.0]
        return found.steps, found.n_decisive
    parts = rows.sum(partial(group_sums, _scores, rows.groups.count, Parts.of)).total
    return training.H_r.solve(parts.in_order(len(rows.groups.count)).T).T / training.n, 0


def _scores(block):
    return block.tangent.scores(block.u)


def _width(training, q):
    return max(q, training.rows.model.n_outputs * len(training.rows.model.theta))


def _largest(training, f, reach, top):
    """The largest influences, exactly, looking only at rows that can have one: |value_ij| <= size_i reach_j."""
    rows, width = training.rows, _width(training, len(reach))
    size, h = rows.map(f.sizes, rows.model.n_outputs * f.hat.width)
    scouts = np.sort(np.argpartition(size, -SCOUTS * top)[-SCOUTS * top :])
    least = np.abs(rows.take(scouts).sum(partial(top_of_block, f, top), width).values[-1])
    can = size >= (1 - 1e-9) * np.divide(least, reach, out=np.full_like(reach, np.inf), where=reach > 0).min()
    can[scouts] = True
    some = np.flatnonzero(can)
    found = rows.take(some).sum(partial(top_of_block, f, top), width)
    return Effects(replace(found, rows=some[found.rows]), _count(h, rows.weight))


def _of_rows(rows, f, width, top):
    if top is not None:
        found = rows.sum(partial(top_of_block, f, top), width)
        return Effects(found, found.certain)
    values, h = rows.map(f, width)
    return Effects(values, _count(h, rows.weight))
