"""Degrees of freedom: how many training rows, or groups, a variance rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from .._utils.threads import small_products
from .leverage import FAR, POWERS, LeadingRows, expected_scores, most_leverage
from .linalg import left_multiply, lower_product, outer_square, psd_root, triangle, upper_root

DECISIVE = 0.02  # leverage from which rows are looked at one by one, where there are many


@dataclass(frozen=True, eq=False)
class Freedom:
    r"""How many independent rows the variance of a linear functional of theta rests on, in Satterthwaite's sense.

    Were the noise what the loss's own curvature says, row i would contribute :math:`c_i^2` to that variance, and

    .. math:: \mathrm{df} = \Big(\sum_i c_i^2\Big)^2 \Big/ \sum_i c_i^4 - 1:

    m - 1 for the mean of a category of m rows, however many others there are. Without a penalty no row has a larger
    share in a variance than its leverage, so those of small leverage are not looked at one by one.

    Attributes
    ----------
    rows : ndarray of shape (p, m r)
        Directions of single rows, r of each, whose squares add up to c_i^2.
    copies : ndarray of shape (m,)
        Their frequencies.
    root : ndarray of shape (p, r) or None
        Of the sum of c_i c_i' over all rows; None if ``rows`` are all of them.
    others : float
        Number of the other observations.
    most : float
        What no df exceeds; without any rows, what all of them are.
    """

    rows: np.ndarray
    copies: np.ndarray
    root: np.ndarray | None = None
    others: float = 1.0
    most: float = np.inf

    @classmethod
    def constant(cls, p, df=np.inf):
        """The same for all functionals."""
        return cls(np.zeros((p, 0)), np.zeros(0), most=max(df, 1.0))

    def output(self, j):
        """That of one of several outputs: all share their parameters."""
        return self

    def mapped(self, function):
        """In other coordinates."""
        root = None if self.root is None else function(self.root)
        return replace(self, rows=function(self.rows), root=root)

    def of(self, function):
        """Degrees of freedom (...), at least 1, of functionals that take directions (p, r) to (..., r)."""
        c = function(self.rows)
        if not c.shape[-1]:
            return np.full(c.shape[:-1], self.most)
        peak = np.abs(c).max(axis=-1, keepdims=True)  # fourth powers overflow soon
        unit = np.where(np.isfinite(peak) & (peak > 0), peak, 1.0)
        c2 = np.nan_to_num(c / unit, posinf=1.0, neginf=-1.0) ** 2
        c2 = c2.reshape(*c2.shape[:-1], len(self.copies), -1).sum(axis=-1)  # (..., m)
        kept = c2 @ self.copies
        total = kept if self.root is None else np.maximum(((function(self.root) / unit) ** 2).sum(axis=-1), kept)
        spread = 3 * (total - kept) ** 2 / self.others  # of rows that contribute as normal features make them
        fourth = c2**2 @ self.copies + spread
        df = np.divide(total**2, fourth, out=np.full_like(total, np.inf), where=fourth > 0) - 1
        return np.clip(df, 1.0, self.most)


def freedom_of(training, correction):
    """Degrees of freedom of the ribbon's variances, see :class:`Freedom`.

    "HC0" corrects nothing, leave-one-out scores of single rows, HC3, are more than enough as they are, and where
    leverages are not known, all rows are taken to be alike.
    """
    model = training.rows.model
    p = len(model.theta)
    if correction == "HC0" or (correction == "HC3" and training.rows.groups is None):
        return None
    if training.rows.groups is not None:
        found = training.known_steps.get((POWERS["HC2"], most_leverage(model.loss)))
        return Freedom.constant(p, training.rows.units - 1) if found is None else _freedom_of_groups(training, found.K)
    most = training.n * (1 - min(training.parameters_per_row, 1.0))
    few = max(training.n, training.rows.n_rows) <= training.most_decisive  # a weight of two is two rows
    if not training.curvature.knows_leverages:
        return Freedom.constant(p, most)
    nothing = not training.H_r.inverse_root.shape[1]  # of a saturated network nothing is determined
    if nothing or (not few and training.are_surely_alike):
        return Freedom.constant(p, most)
    most, at_most = max(most, 1.0), None if few else training.most_decisive
    return FreedomLater(training.leading_rows, training.curvature.shift(model), most, at_most, training.may_be_alike)


@dataclass(frozen=True, eq=False)
class FreedomLater:
    """A :class:`Freedom` that is made when somebody asks: of a network, that takes about as long as its ribbon.

    Attributes
    ----------
    leading : LeadingRows
        Rows that may be looked at one by one.
    shift : ndarray of shape (p,)
        The part of H_r that is not data.
    most : float
        What no df exceeds.
    at_most : int or None
        Rows that are looked at; None if ``leading`` are all of them.
    may_be_alike : bool
        Whether it is enough that no row has a leverage of FAR.
    """

    leading: LeadingRows
    shift: np.ndarray
    most: float
    at_most: int | None
    may_be_alike: bool

    @cached_property
    def _made(self):
        with small_products(len(self.shift)):
            return self._make()

    def _make(self):
        leading = self.leading
        h, M, n = leading.leverages, leading.M, leading.n
        top = decisive(h, self.at_most)
        if not len(top) or (self.at_most is not None and self.may_be_alike and h.max() < FAR):
            return Freedom.constant(len(M), self.most)
        E = leading.of(top, partial(expected_scores, leading.hat))
        rows, copies = left_multiply(M, E.reshape(-1, M.shape[1]).T), leading.weight[top]
        if self.at_most is None:
            return Freedom(rows, copies, most=self.most)
        return Freedom(rows, copies, expected_root(M, self.shift, n), max(n - copies.sum(), 1.0), self.most)

    def __getstate__(self):
        return {name: vars(self)[name] for name in self.__dataclass_fields__}  # what can be found again is not stored

    @property
    def rows(self):
        """Of the :class:`Freedom`."""
        return self._made.rows

    @property
    def root(self):
        """Of the :class:`Freedom`."""
        return self._made.root

    def output(self, j):
        """That of one of several outputs."""
        return self

    def mapped(self, function):
        """In other coordinates; it may still wait where those are the same."""
        return self if function(self.leading.M) is self.leading.M else self._made.mapped(function)

    def of(self, function):
        """Degrees of freedom of functionals, see :meth:`Freedom.of`."""
        return self._made.of(function)


def decisive(h, at_most=None):
    """Which rows of leverages h are looked at one by one: all, or at most so many of those that have large ones."""
    if at_most is None:
        return np.arange(len(h))
    top = np.argsort(-h, kind="stable")[:at_most]
    return np.sort(top[h[top] >= DECISIVE])


def expected_root(M, shift, n):
    """Root (p, r) of n H_r^-1 H H_r^-1, the sum over all rows of what each contributes; M M' = H_r^-1."""
    if not shift.any():
        return np.sqrt(n) * M
    data = -outer_square((np.sqrt(shift)[:, None] * M).T)  # less I: the share of the penalty
    data[np.diag_indices_from(data)] += 1
    U = upper_root(data)  # None where something is penalty alone, which is rounding of either sign
    if U is None or triangle(M) != "upper":
        return np.sqrt(n) * left_multiply(M, psd_root(data))
    return np.sqrt(n) * lower_product(U.T, M.T).T


def _freedom_of_groups(training, K):
    """The same of groups: c_g^2 is the sum of its rows', at most one degree less than there are groups.

    K (m, p, p) are the curvatures of those that matter most.
    """
    p, G, m = len(training.rows.model.theta), training.rows.units, len(K)
    shift = training.curvature.shift(training.rows.model)
    if not m:
        return Freedom.constant(p, G - 1)
    values, vectors = np.linalg.eigh(K)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    rows = training.H_r.solve(roots.transpose(1, 0, 2).reshape(p, -1))
    root = None if m >= G else expected_root(training.H_r.inverse_root, shift, training.n)
    return Freedom(rows, np.ones(m), root, max(G - m, 1.0), max(G - 1.0, 1.0))
