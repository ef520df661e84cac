"""Training rows as the mathematics sees them: everything that fit learns is a sum over them.

``Rows`` has two verbs. ``rows.sum(f)`` adds up f(block) over blocks of rows, f returning anything that adds;
``rows.map(f)`` concatenates, for what is really wanted row by row. f is a pure function of a ``Block`` that pickle can
store, so that it does not matter where the rows are.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import numpy as np

BLOCK_BYTES = 8 * 2**20  # one block's largest array: large enough for BLAS, small enough for the cache
LEAST_ROWS = 16  # rows of a block, at least, however wide they are: shorter products are slow
SPREAD_ROWS = 1000  # rows that features are centred by; any point among the rows will do
EASY_LEVERAGE = 0.15  # effective parameters per row up to which leave-one-out residuals are those of unseen rows


class Block:
    """Some training rows at a model's parameters; what the model and its loss say there is computed once.

    Attributes
    ----------
    model : ParametricModel
    Z : ndarray or sparse matrix of shape (b, d)
        Rows as the model's tangent takes them.
    y, weight : ndarray of shape (b,)
        Targets as the loss sees them, and frequencies.
    index : int
        Which block this is, for what is drawn at random in it.
    group : ndarray of shape (b,) or None
        Numbers of the groups that the rows belong to.
    share : ndarray of shape (b,) or None
        Share of each row's weight in the weight of its group.
    """

    def __init__(self, model, Z, y, weight, index=0, group=None, share=None):
        self.model, self.Z, self.y, self.weight, self.index = model, Z, y, weight, index
        self.group, self.share = group, share

    def at(self, model):
        """Block of the same rows with another model."""
        return Block(model, self.Z, self.y, self.weight, self.index, self.group, self.share)

    def reweighted(self, weight):
        """Copy with other weights, where zeros stay zero; cached derivatives are kept."""
        other = copy(self)
        other.weight = weight
        return other

    @cached_property
    def tangent(self):
        """The model linearized at these rows."""
        return self.model.tangent(self.Z)

    @property
    def f(self):
        """Raw predictions, (b, k)."""
        return self.tangent.f

    @cached_property
    def u(self):
        """Gradients of the loss in f, (b, k)."""
        return self._counted(self.model.loss.gradient(self.f, self.y))

    @cached_property
    def R(self):
        """Root of the expected curvature of the loss in f, (b, k, r)."""
        return self._counted(self.model.loss.curvature_root(self.f, self.y))

    @property
    def expected(self):
        """Trace of the expected curvature of the loss in f, (b,)."""
        return self._counted(self.model.loss.curvature_trace(self.f, self.y))

    @cached_property
    def C(self):
        """Exact curvature of the loss in f, (b, k, k)."""
        return self._counted(self.model.loss.hessian(self.f, self.y))

    def _counted(self, A):
        """A, with zeros for rows of no weight, whose loss need not even be finite."""
        if self.weight.all():
            return A
        A = np.array(A)
        A[self.weight == 0] = 0.0
        return A

    def weighted(self, A):
        """sqrt(weight_i) A_i: the Gram matrix of what results counts each row ``weight`` times."""
        return A * np.sqrt(self.weight).reshape(-1, *[1] * (A.ndim - 1))

    # ------------------------------------------------------------------ sums over the block
    def total(self):
        """Number of observations."""
        return self.weight.sum()

    def score_sum(self, u):
        """sum_i weight_i J_i' u_i, (p,), of any u (b, k)."""
        return self.tangent.vjp((u * self.weight[:, None])[:, :, None])[:, 0]

    def score_scatter(self, u):
        """sum_i weight_i (J_i' u_i)(J_i' u_i)', (p, p)."""
        return self.tangent.gram(self.weighted(u)[:, :, None])

    def score_squares(self, u):
        """Diagonal of :meth:`score_scatter`, (p,)."""
        return self.tangent.squares(self.weighted(u)[:, :, None])

    def ggn(self):
        """Generalised Gauss-Newton matrix, the sum of weight_i J_i' R_i R_i' J_i, (p, p)."""
        return self.tangent.gram(self.weighted(self.R))

    def ggn_diagonal(self):
        """Diagonal of :meth:`ggn`, (p,)."""
        return self.tangent.squares(self.weighted(self.R))

    def ggn_product(self, V):
        """:meth:`ggn` times V (p, r), without a (p, p) array."""
        return self.tangent.gram_product(self.weighted(self.R), V)

    def hessian(self):
        """Exact second derivative of the summed loss in theta, (p, p)."""
        return self.tangent.hessian(*self._second_order())

    def hessian_product(self, V):
        """:meth:`hessian` times V (p, r)."""
        return self.tangent.hessian_product(*self._second_order(), V)

    def _second_order(self):
        if (self.weight == 1).all():
            return self.C, self.u
        return self.C * self.weight[:, None, None], self.u * self.weight[:, None]

    def kronecker_sums(self):
        """Per dense layer, sums over rows of its inputs' and of its outputs' products; see PerceptronTangent."""
        return self.tangent.kronecker_sums(self.weighted(self.R), self.weight)

    def chi2(self):
        """Pearson's sum of squared residuals; (m, m) sums of products if y has m columns; zero for a classifier."""
        loss = self.model.loss
        if loss.by_output:
            r = self.weighted(self.u)
            return r.T @ r
        return 0.0 if loss.n_classes else float(self.weight @ self._counted(loss.squared_residuals(self.f, self.y)))


def row_blocks(n, row_width, most=None):
    """Slices of n rows: blocks, of at most so many, whose (rows, row_width) float64 array takes about BLOCK_BYTES."""
    size = max(LEAST_ROWS, BLOCK_BYTES // (8 * max(1, row_width)))
    size = size if most is None else min(size, most)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def some_of(n, size):
    """Indices of all of n rows, or of ``size`` of them at random, always the same, in their order."""
    return np.arange(n) if n <= size else np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def spread_over(n):
    """A slice of at most about SPREAD_ROWS of n rows, evenly spaced."""
    return slice(None, None, max(1, n // SPREAD_ROWS))


@dataclass(frozen=True, eq=False)
class Groups:
    """Which training rows depend on each other.

    Attributes
    ----------
    code : ndarray of shape (n_rows,)
        Number of each row's group, in the order in which groups first appear.
    count : ndarray of shape (G,)
        Rows of each group.
    weight : ndarray of shape (G,)
        Sums of their frequencies.
    """

    code: np.ndarray
    count: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, code, weight):
        """Build from the group number and the frequency of every row."""
        return cls(code, np.bincount(code), np.bincount(code, weights=weight))

    @property
    def n(self):
        """Number of groups that count."""
        return int((self.weight > 0).sum())

    @cached_property
    def order(self):
        """Rows in an order that keeps groups together; None if they are."""
        return None if np.all(np.diff(self.code) >= 0) else np.argsort(self.code, kind="stable")

    def take(self, index):
        """Groups of some of the rows; what is known of each group is still that of all its rows."""
        return replace(self, code=self.code[index])


@dataclass(frozen=True, eq=False)
class Rows:
    """Prepared training rows of a model, in memory.

    Attributes
    ----------
    model : ParametricModel
    X : ndarray or CSR matrix of shape (n_rows, d)
    y : ndarray of shape (n_rows,), or (n_rows, m) of m outputs
        As the loss sees it.
    weight : ndarray of shape (n_rows,)
        Frequencies.
    groups : Groups or None
        Which of them depend on each other. Blocks then go through the rows group by group.
    first : int
        Index of the first block, where these rows are a part of others.
    """

    model: Any
    X: Any
    y: np.ndarray
    weight: np.ndarray
    groups: Groups | None = None
    first: int = 0

    in_memory = True

    @property
    def n(self):
        """Number of observations."""
        return float(self.weight.sum())

    @property
    def n_rows(self):
        """Number of rows, whatever their weights."""
        return len(self.y)

    @property
    def units(self):
        """Number of Dirichlet weights: of groups, or of observations where each is on its own."""
        return self.n if self.groups is None else float(self.groups.n)

    def _each(self, f, width):
        """f(block) of all blocks, in their order."""
        slices = row_blocks(len(self.y), self.model.row_width if width is None else width)
        if len(slices) == 1:
            return (f(self._only_block),)
        return (f(self._block(index, rows)) for index, rows in enumerate(slices, start=self.first))

    @cached_property
    def _only_block(self):
        """All rows as one block, whose derivatives are then computed once for all passes."""
        return self._block(self.first, slice(None))

    def _block(self, index, rows):
        rows = rows if self.groups is None or self.groups.order is None else self.groups.order[rows]
        Z, y, weight = self.model.rows(self.X[rows]), self.y[rows], self.weight[rows]
        if self.groups is None:
            return Block(self.model, Z, y, weight, index)
        group = self.groups.code[rows]
        total = self.groups.weight[group]
        share = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
        return Block(self.model, Z, y, weight, index, group, share)

    def sum(self, f, width=None):
        """Sum over blocks of f(block); ``width`` is the floats a row takes in f's largest array, if not the model's."""
        return reduce(add, self._each(f, width))

    def map(self, f, width=None):
        """Concatenation over blocks of f(block), an array with a row per row, or a tuple of such arrays."""
        pieces = list(self._each(f, width))
        if isinstance(pieces[0], tuple):
            return tuple(self._in_place(np.concatenate(columns)) for columns in zip(*pieces, strict=True))
        return self._in_place(np.concatenate(pieces))

    def _in_place(self, values):
        """Values of blocks, in the order of the rows."""
        if self.groups is None or self.groups.order is None:
            return values
        out = np.empty_like(values)
        out[self.groups.order] = values
        return out

    def take(self, index):
        """Some of the rows."""
        groups = None if self.groups is None else self.groups.take(index)
        return Rows(self.model, self.X[index], self.y[index], self.weight[index], groups)

    def at(self, model):
        """Copy of the rows with another model."""
        return replace(self, model=model)

    def output(self, j, model):
        """Rows with column j of y as their target, and a model of that output."""
        return replace(self, model=model, y=self.y[:, j])

    def around(self):
        """Prepared features of some rows, evenly spaced: enough to tell where they are."""
        return self.X[spread_over(self.n_rows)]

    def targets(self):
        """Targets that tell their distribution, the smallest and the largest among them."""
        return self.y


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
    g, g2 : ndarray of shape (p,)
        Sums of the scores g_i, and of their squares.
    curvature : ndarray or any object that adds
        Sum of what the chosen curvature takes from each row, for dense curvatures H_i (p, p).
    chi2 : float or ndarray of shape (m, m)
        Pearson's sum of (y_i - mu_i)^2 / V(mu_i); sums of products of residuals if y has m columns.
    squared_scores : ndarray of shape (2,)
        Sums of |u_i|^2, and of its expectation tr C_i under a classifier's own probabilities; zero for a regressor.
    """

    n: float
    g: np.ndarray
    g2: np.ndarray
    curvature: Any
    chi2: Any
    squared_scores: np.ndarray

    def __add__(self, other):
        mine, theirs = vars(self), vars(other)
        return Moments(**{name: mine[name] + theirs[name] for name in mine})

    @classmethod
    def from_rows(cls, rows, curvature):
        """Add up the blocks of ``rows``. Memory beyond X: O(p^2) and one block."""
        return rows.sum(partial(cls.from_block, curvature))

    @classmethod
    def from_block(cls, curvature, block):
        """Sums over one block; without a curvature, zero for that."""
        sizes = np.zeros(2)
        if block.model.loss.n_classes:
            sizes = np.array([block.weight @ (block.u**2).sum(axis=1), block.weight @ block.expected])
        return cls(
            n=block.weight.sum(),
            g=block.score_sum(block.u),
            g2=block.score_squares(block.u),
            curvature=0.0 if curvature is None else curvature.of_block(block),
            chi2=block.chi2(),
            squared_scores=sizes,
        )

    @property
    def g_bar(self):
        """Mean score, (p,): minus the penalty's gradient at a penalized optimum."""
        return self.g / self.n

    @property
    def standard_error(self):
        """Standard error of the mean score, (p,)."""
        return np.sqrt(np.maximum(self.g2 / self.n - self.g_bar**2, 0.0) / self.n)
