"""Satterthwaite degrees of freedom: how many training rows, or groups, a variance rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .linalg import pivoted_cholesky

MOST_DIRECTIONS = 24  # coordinates up to which pairs of them are faster than 1,000 rows: 300 pairs, 0.7 MB


@dataclass(frozen=True, eq=False)
class Freedom:
    r"""Effective number of independent rows behind the variance of a linear functional of theta.

    If the noise were what the curvature of the loss says, row i would contribute :math:`c_i^2` to that variance, and

    .. math:: \mathrm{df} = \Big(\sum_i c_i^2\Big)^2 \Big/ \sum_i c_i^4 - 1,

    which is m - 1 for the mean of a category of m rows, however many other rows there are. The sum of fourth powers is
    a quadratic form in the products of pairs of coordinates of the functional. It is kept in that form for few
    parameters, else by the directions of influential rows. All other rows contribute as normal features would.

    Attributes
    ----------
    basis : ndarray of shape (p, L)
        Coordinates of a functional; directions of influential rows, r of each, if ``quartic`` is None. Without any, all
        functionals have ``most`` degrees of freedom.
    quartic : ndarray of shape (s, L (L + 1) / 2) or None
        Root of the quadratic form that the sum of c_i^4 is.
    second : ndarray of shape (L, L), or frequencies (m,) of influential rows
        Quadratic form that the sum of c_i^2 is.
    root : ndarray of shape (p, r) or None
        Root of the sum of c_i^2 over all rows, if the sums above leave out some.
    others : float
        Number of observations that they leave out.
    most : float
        Upper bound of the degrees of freedom.
    """

    basis: np.ndarray
    quartic: np.ndarray | None
    second: np.ndarray
    root: np.ndarray | None = None
    others: float = 1.0
    most: float = np.inf

    @classmethod
    def constant(cls, p, df=np.inf):
        """Build the same degrees of freedom for all functionals."""
        return cls(np.zeros((p, 0)), None, np.zeros(0), most=max(df, 1.0))

    @classmethod
    def from_contributions(cls, M, E, copies, root, others, most):
        """Build from contributions c_i^2 = |E_i M' v|^2 of rows or groups, E (m, r, q), to the functional v (p,).

        ``copies`` (m,) are their frequencies, M (p, q) has M M' = H_r^-1.
        """
        if M.shape[1] > MOST_DIRECTIONS:
            return cls(M @ E.reshape(-1, M.shape[1]).T, None, copies, root, others, most)
        first, other = np.triu_indices(M.shape[1])
        B = np.einsum("mrq,mrs->mqs", E, E)  # c_i^2 = z' B_i z with z = M' v
        products = B[:, first, other] * np.where(first == other, 1.0, 2.0) * np.sqrt(copies)[:, None]
        return cls(M, np.linalg.qr(products, mode="r"), np.einsum("mqs,m->qs", B, copies), root, others, most)

    @property
    def width(self):
        """Floats that a functional takes in :meth:`of`; zero if all have the same degrees of freedom."""
        return self.basis.shape[1] + sum(0 if A is None else A.shape[1] for A in (self.quartic, self.root))

    def mapped(self, function):
        """Express in other coordinates: ``function`` takes directions (p, r) there."""
        root = None if self.root is None else function(self.root)
        return replace(self, basis=function(self.basis), root=root)

    def of(self, function):
        """Degrees of freedom (...), at least 1, of functionals that take directions (p, r) to (..., r)."""
        z = function(self.basis)
        if not z.shape[-1]:
            return np.full(z.shape[:-1], self.most)
        size = np.abs(z).max(axis=-1, keepdims=True)  # degrees of freedom have no unit, and fourth powers overflow
        size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
        z = np.nan_to_num(z / size, posinf=1.0, neginf=-1.0)
        if self.quartic is None:
            c2 = np.square(z).reshape(*z.shape[:-1], len(self.second), -1).sum(axis=-1)  # (..., m)
            total = kept = c2 @ self.second
            fourth = np.square(c2) @ self.second
        else:
            first, other = np.triu_indices(z.shape[-1])
            total = kept = np.einsum("...q,qs,...s->...", z, self.second, z)
            fourth = np.square((z[..., first] * z[..., other]) @ self.quartic.T).sum(axis=-1)
        if self.root is not None:
            total = np.maximum(np.square(function(self.root) / size).sum(axis=-1), kept)
        fourth = fourth + 3 * (total - kept) ** 2 / self.others
        df = np.divide(total**2, fourth, out=np.full_like(total, np.inf), where=fourth > 0) - 1
        return np.clip(df, 1.0, self.most)


@dataclass(frozen=True, eq=False)
class FreedomOfOutputs:
    """Degrees of freedom of m outputs with parameters of their own, of equal number, by a Freedom of each."""

    outputs: tuple[Freedom, ...]

    @property
    def width(self):
        """Floats that a functional takes in :meth:`of`."""
        return max(own.width for own in self.outputs)

    def mapped(self, function):
        """Express in other coordinates of all parameters, which do not mix outputs."""
        moved = (own.mapped(lambda V, j=j: self._widened(function, j, V)[j]) for j, own in enumerate(self.outputs))
        return FreedomOfOutputs(tuple(moved))

    def of(self, function):
        """Fewest degrees of freedom (...) of the outputs that a functional of all parameters depends on."""
        found = []
        for j, own in enumerate(self.outputs):
            of_output = partial(self._of_output, function, j)
            touched = of_output(np.eye(len(own.basis))).any(axis=-1)
            found.append(np.where(touched, own.of(of_output), np.inf))
        return np.min(found, axis=0)

    def _of_output(self, function, j, V):
        """Function of directions of all parameters, at directions V (d, r) of one output."""
        out = np.zeros((len(self.outputs), *V.shape))
        out[j] = V
        return function(out.reshape(len(self.outputs) * len(V), V.shape[1]))

    def _widened(self, function, j, V):
        return self._of_output(function, j, V).reshape(len(self.outputs), *V.shape)


def expected_root(M, shift, n):
    """Root (p, r) of n H_r^-1 H H_r^-1, the sum of c_i^2 over all rows, with H_r = H + diag(shift), M M' = H_r^-1."""
    if not shift.any():
        return np.sqrt(n) * M
    share = np.sqrt(shift)[:, None] * M
    U, pivots, _ = pivoted_cholesky(np.eye(M.shape[1]) - share.T @ share)  # no eigenvalue exceeds 1
    return np.sqrt(n) * (M[:, pivots] @ U.T)


def degrees_of_freedom(training):
    """Degrees of freedom of the ribbon's variances, see Freedom; None for infinitely many.

    "HC0" corrects nothing, and leave-one-out scores, HC3, are conservative as they are. Without exact leverages all
    rows are treated alike.
    """
    if training.resolved == "HC0" or (training.resolved == "HC3" and training.rows.groups is None):
        return None
    if not training.rows.model.outputs_are_separate:
        return _part(training, slice(None), training.parameters_per_row)
    d, leverages = len(training.rows.model.theta) // len(training.outputs), training.mean_leverages
    return FreedomOfOutputs(tuple(_part(training, slice(j * d, (j + 1) * d), h) for j, h in enumerate(leverages)))


def _part(training, own, mean_leverage):
    """Degrees of freedom of functionals of some parameters, a slice that shares no curvature with others."""
    M, groups = training.H_r.inverse_root[own], training.rows.groups
    most = training.n * (1 - min(mean_leverage, 1.0)) if groups is None else training.rows.units - 1
    if not training.curvature.knows_leverages or not M.any() or (groups is not None and training.resolved != "HC2"):
        return Freedom.constant(len(M), most)
    along = M.any(axis=0)
    if groups is None:
        found, n, few = training.units.influential, training.n, training.is_short
        E, copies = found.E[:, :, along], found.weight
        negligible = not few and training.leverages_are_small
    else:
        values, vectors = np.linalg.eigh(training.group_units.L[:, along][:, :, along])
        E = np.sqrt(training.n * np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
        copies, n, negligible = np.ones(len(E)), training.rows.units, False
        few = len(E) >= n
    if negligible or not len(E):
        return Freedom.constant(len(M), most)
    M = M[:, along]
    root = None if few else expected_root(M, training.shift[own], training.n)
    return Freedom.from_contributions(M, E, copies, root, max(n - copies.sum(), 1.0), max(most, 1.0))
