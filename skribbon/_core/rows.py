"""Training rows, and sums over them: everything that fit learns is such a sum.

``rows.sum(f)`` adds up f(block) over blocks of rows, where f returns anything that adds. ``rows.map(f)`` concatenates
arrays with an entry per row. f is a pure function of a ``Block`` that pickle can store, so it does not matter where the
rows are.
"""

from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from itertools import count
from operator import add
from typing import Any

import numpy as np

from .._utils.compat import cached_property
from .linalg import gram

BLOCK_BYTES = 8 * 2**20  # one block's largest array: large enough for BLAS, small enough for the cache
ONE = np.ones((1, 1))  # importance of all rows if none is given
LEAST_ROWS = 16  # fewest rows of a block, however wide they are: shorter products are slow


class Block:
    """Some training rows at a model's parameters; derivatives of the model and its loss are computed once.

    Rows ``Z`` (b, d) as the model's tangent takes them, targets ``y`` as the loss sees them and frequencies ``weight``,
    (b,) each; ``index`` of the block, which seeds its random draws; number of each row's ``group`` and the row's
    ``share`` in the weight of that group, (b,) each or None; ``importance`` (b, 1), a factor of each row's loss, or 1.
    """

    def __init__(self, model, Z, y, weight, index=0, group=None, share=None, importance=ONE):
        self.model, self.Z, self.y, self.weight, self.index = model, Z, y, weight, index
        self.group, self.share, self.importance = group, share, importance

    def at(self, model):
        """Block of the same rows with another model."""
        return Block(model, self.Z, self.y, self.weight, self.index, self.group, self.share, self.importance)

    def reweighted(self, weight):
        """Copy with other weights (zeros stay zero); cached derivatives are kept."""
        other = copy(self)
        other.weight = weight
        return other

    @cached_property
    def tangent(self):
        """Model linearized at these rows."""
        return self.model.tangent(self.Z)

    @cached_property
    def f(self):
        """Raw predictions, (b, k)."""
        return self.tangent.f

    @cached_property
    def u(self):
        """Gradients of the loss in f times the importance, (b, k)."""
        return self._counted(self.importance * self.model.loss.gradient(self.f, self.y))

    @cached_property
    def R(self):
        """Root of the expected curvature of the loss in f, (b, k, r)."""
        return self._counted(np.sqrt(self.importance)[:, None] * self.model.loss.curvature_root(self.f, self.y))

    @cached_property
    def C(self):
        """Exact curvature of the loss in f, (b, k, k)."""
        return self._counted(self.importance[:, None] * self.model.loss.hessian(self.f, self.y))

    @cached_property
    def squared_residuals(self):
        """Pearson's squared residuals (b, q), one column per column of y; zero for classifiers."""
        loss = self.model.loss
        if loss.by_output:
            return (self.u / self.importance) ** 2
        return (np.zeros(len(self.y)) if loss.n_classes else loss.squared_residuals(self.f, self.y))[:, None]

    @property
    def mass(self):
        """Weight of each row in sums of losses and of squared residuals, (b,)."""
        return self.weight * self.importance[:, 0]

    def _counted(self, A):
        """A, with zeros for rows of weight zero, whose loss need not be finite."""
        if self.weight.all():
            return A
        A = np.array(A)
        A[self.weight == 0] = 0.0
        return A

    def weighted(self, A):
        """sqrt(weight_i) A_i, whose Gram matrix counts each row ``weight`` times."""
        return A * np.sqrt(self.weight).reshape(-1, *[1] * (A.ndim - 1))

    # ------------------------------------------------------------------ sums over the block
    def total(self):
        """Number of observations."""
        return self.weight.sum()

    def score_sum(self, u):
        """sum_i weight_i J_i' u_i, (p,), for any u (b, k)."""
        return self.tangent.vjp((u * self.weight[:, None])[:, :, None])[:, 0]

    def score_scatter(self, u):
        """sum_i weight_i (J_i' u_i)(J_i' u_i)', (p, p)."""
        return self.tangent.gram(self.weighted(u)[:, :, None])

    def score_moments(self, u):
        """Sums of g_i = J_i' u_i, (p,), and of g_i g_i', (p, p)."""
        return Sums([self.score_sum(u), self.score_scatter(u)])

    def score_squares(self, u):
        """Diagonal of :meth:`score_scatter`, (p,)."""
        return self.tangent.squares(self.weighted(u)[:, :, None])

    def ggn(self):
        """Generalized Gauss-Newton matrix, the sum of weight_i J_i' R_i R_i' J_i, (p, p)."""
        return self.tangent.gram(self.weighted(self.R))

    def ggn_diagonal(self):
        """Diagonal of :meth:`ggn`, (p,)."""
        return self.tangent.squares(self.weighted(self.R))

    def ggn_product(self, V):
        """:meth:`ggn` times V (p, r), without a (p, p) array."""
        return self.tangent.gram_product(self.weighted(self.R), V)

    def hessian(self):
        """Exact second derivative of the summed loss in theta, (p, p)."""
        return self.tangent.hessian(self.C * self.weight[:, None, None], self.u * self.weight[:, None])

    def hessian_product(self, V):
        """:meth:`hessian` times V (p, r)."""
        return self.tangent.hessian_product(self.C * self.weight[:, None, None], self.u * self.weight[:, None], V)

    def kronecker_sums(self):
        """Sums over rows of the products of each dense layer's inputs, and of its outputs."""
        return self.tangent.kronecker_sums(self.weighted(self.R), self.mass)


def row_blocks(n, row_width, most=None):
    """Slices of n rows: blocks, of at most so many, whose (rows, row_width) float64 array takes about BLOCK_BYTES."""
    size = max(LEAST_ROWS, BLOCK_BYTES // (8 * max(1, row_width)))
    starts = range(0, n, size if most is None else min(size, most))
    return list(map(slice, starts, [*starts[1:], n]))


def some_of(n, size):
    """Ascending indices of n rows, or of ``size`` of them at random; the same in every call."""
    return np.arange(n) if n <= size else np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def spread_over(n):
    """Slice of about 1,000 of n rows, evenly spaced: enough to centre features by, as any point among them will do."""
    return slice(None, None, max(1, n // 1000))


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of training rows that depend on each other."""

    code: np.ndarray  # (n_rows,), number of each row's group, in the order in which groups first appear
    count: np.ndarray  # (G,), rows of each group
    weight: np.ndarray  # (G,), frequencies of each group's rows, summed

    @classmethod
    def from_codes(cls, code, weight):
        """Build from the group number and the frequency of every row."""
        return cls(code, np.bincount(code), np.bincount(code, weights=weight))

    @property
    def n(self):
        """Number of groups with a positive weight."""
        return int((self.weight > 0).sum())

    @cached_property
    def order(self):
        """Row indices, sorted by group; None if the rows are sorted."""
        return None if np.all(np.diff(self.code) >= 0) else np.argsort(self.code, kind="stable")


@dataclass(frozen=True, eq=False)
class Rows:
    """Prepared training rows of a model, in memory; with groups, blocks go through the rows group by group."""

    model: Any
    X: Any  # ndarray or CSR matrix (n_rows, d)
    y: np.ndarray  # (n_rows,), or (n_rows, m) for m outputs, as the loss sees it
    weight: np.ndarray  # (n_rows,), frequencies
    groups: Groups | None = None
    first: int = 0  # index of the first block, if these rows are a part of a table
    importance: np.ndarray = field(default_factory=lambda: ONE)  # (n_rows, 1), or (1, 1): factor of each row's loss
    exposure: float | None = None  # weight of a row of importance one, if noise variances are inverse to weights
    factors: np.ndarray | None = None  # (n_rows, k), groups of k crossed groupings, of which ``groups`` is the first

    in_memory = True
    mass = Block.mass

    @cached_property
    def n(self):
        """Number of observations."""
        return float(self.weight.sum())

    @cached_property
    def n_rows(self):
        """Number of rows, whatever their weights."""
        return len(self.y)

    @property
    def fractional(self):
        """Whether some frequencies are not whole numbers."""
        return bool(np.any(np.abs(self.weight - np.round(self.weight)) > 1e-6))

    def counted_once(self, unit, exposure=None):
        """Copy whose rows count once each, with their weights over ``unit`` as factors of the loss."""
        importance = np.where(self.weight > 0, self.weight / unit, 1.0)[:, None]
        return replace(self, weight=np.sign(self.weight), importance=importance, exposure=exposure)

    @cached_property
    def n_units(self):
        """Number of Dirichlet weights: the number of groups, or of observations without groups."""
        return self.n if self.groups is None else float(self.groups.n)

    @property
    def n_groups(self):
        """Number of groups, a tuple of numbers for crossed groupings, or None."""
        if self.factors is None:
            return None if self.groups is None else self.groups.n
        return tuple(Groups.from_codes(code, self.mass).n for code in self.factors.T)

    def blocks(self, width=None):
        """Iterate over the blocks; a single one is kept, so that all passes share its derivatives."""
        slices = row_blocks(len(self.y), self.model.row_width if width is None else width)
        return (self.whole,) if len(slices) == 1 else map(self._block, count(self.first), slices)

    @cached_property
    def whole(self):
        """All rows as one block."""
        return self._block(self.first, slice(None))

    def _block(self, index, rows):
        rows = rows if self.groups is None or self.groups.order is None else self.groups.order[rows]
        importance = self.importance if len(self.importance) < self.n_rows else self.importance[rows]
        Z = self.model.rows(self.X[rows])
        block = Block(self.model, Z, self.y[rows], self.weight[rows], index, importance=importance)
        if self.groups is not None:
            block.group, mass = self.groups.code[rows], block.mass
            total = self.groups.weight[block.group]
            block.share = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
        return block

    def sum(self, f, width=None):
        """Sum over blocks of f(block); ``width`` is the floats a row takes in f's largest array, if not the model's."""
        return reduce(add, map(f, self.blocks(width)))

    def map(self, f, width=None):
        """Concatenation over blocks of f(block), an array with a row per row, or a tuple of such arrays."""
        pieces = list(map(f, self.blocks(width)))
        if isinstance(pieces[0], tuple):
            return tuple(map(self._unsorted, zip(*pieces, strict=True)))
        return self._unsorted(pieces)

    def _unsorted(self, pieces):
        """Values of all blocks, in the order of the rows."""
        values, order = np.concatenate(pieces), None if self.groups is None else self.groups.order
        return values if order is None else values[np.argsort(order)]

    def take(self, index):
        """Copy of some of the rows; ``count`` and ``weight`` of their groups still refer to all rows."""
        groups = None if self.groups is None else replace(self.groups, code=self.groups.code[index])
        names = ("X", "y", "weight", "importance")[: 3 if len(self.importance) < self.n_rows else 4]
        return replace(self, groups=groups, factors=None, **{name: getattr(self, name)[index] for name in names})

    def at(self, model):
        """Copy of the rows with another model."""
        return replace(self, model=model)

    def around(self):
        """Prepared features of some rows, evenly spaced."""
        return self.X[spread_over(len(self.y))]

    def targets(self):
        """Targets of enough rows to show their distribution, including the smallest and the largest."""
        return self.y


def weighed(rows, weight_type):
    """Rows whose weights mean what ``weight_type`` says: frequencies, or factors of the losses of single observations.

    These factors have a mean of one. With exposures, the variance of each observation is inverse to its weight, too.
    """
    if weight_type == "frequency":
        return rows
    unit = rows.n / rows.counted_once(1.0).sum(Block.total)
    groups = None if rows.groups is None else replace(rows.groups, weight=rows.groups.weight / unit)
    return replace(rows.counted_once(unit, unit if weight_type == "exposure" else None), groups=groups)


class Sums(tuple):
    """Several sums over rows in one tuple, which add and divide element by element."""

    def __add__(self, other):
        return Sums(a + b for a, b in zip(self, other, strict=True))

    def __truediv__(self, n):
        return Sums(a / n for a in self)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows, each row counted ``weight`` times; two of them add."""

    n: float  # number of observations
    g: np.ndarray  # (p,), sum of the scores g_i
    g2: np.ndarray  # (p,), sum of the squared scores
    curvature: Any  # sum of ``curvature.of_block``, any object that adds; for dense curvatures (p, p)
    chi2: Any  # Pearson's sum of (y_i - mu_i)^2 / V(mu_i); (m, m) sums of products if y has m columns
    squared_scores: np.ndarray  # (2,), sums of |u_i|^2 and of its expectation under a classifier's probabilities

    def __add__(self, other):
        return Moments(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Moments)))

    @classmethod
    def from_rows(cls, rows, curvature):
        """Add up the blocks of ``rows``. Memory beyond X: O(p^2) and one block."""
        return rows.sum(partial(cls.from_block, curvature))

    @classmethod
    def from_block(cls, curvature, block):
        """Sums over one block; ``curvature`` may be None."""
        squared_scores, loss = np.zeros(2), block.model.loss
        u, mass = block.u / np.sqrt(block.importance), block.mass
        if loss.n_classes:
            expected = block._counted(loss.curvature_trace(block.f, block.y))
            squared_scores = np.array([block.weight @ (u**2).sum(axis=1), mass @ expected])
        squared = block._counted(block.squared_residuals[:, 0])
        chi2 = gram(block.weighted(u)) if loss.by_output else float(mass @ squared)
        H = 0.0 if curvature is None else curvature.of_block(block)
        return cls(block.weight.sum(), block.score_sum(block.u), block.score_squares(block.u), H, chi2, squared_scores)

    @cached_property
    def g_bar(self):
        """Mean score, (p,): minus the penalty's gradient at a penalized optimum."""
        return self.g / self.n

    @property
    def standard_error(self):
        """Standard error of the mean score, (p,)."""
        return np.sqrt(np.maximum(self.g2 / self.n - self.g_bar**2, 0.0) / self.n)
