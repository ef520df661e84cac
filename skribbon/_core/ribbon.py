r"""Ribbon, top to bottom, in the paper's symbols.

The Bayesian bootstrap refits a model at weights w ~ Dirichlet(alpha, ..., alpha),

.. math:: \hat\theta_w = \arg\min_\theta \sum_i w_i \ell(z_i, \theta) + r(\theta).

Ribbon replaces each refit by one linear step from the single fit :math:`\hat\theta`. With per-row scores
:math:`g_i = \nabla \ell(z_i, \hat\theta)` and penalised curvature :math:`H_r = H + \nabla^2 r`,

.. math:: \Delta\theta_w = -H_r^{-1} \sum_i (w_i - 1/n)\, g_i = \frac1n \sum_i \tilde w_i \mathrm{IF}_i,
          \qquad \tilde w = n w - j, \quad \mathrm{IF}_i = -H_r^{-1} g_i .

The weights have covariance :math:`(I - jj'/n) / (n (n\alpha + 1))`, hence in closed form

.. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1}, \qquad
          H_{F,c} = \frac1n \sum_i g_i g_i' - \bar g \bar g',

and a prediction moves by :math:`J_x \Delta\theta_w`. That is all; the rest of the package computes G, H_r and J_x.

One order further, the step is Newton's on the reweighted objective, with the curvature that the drawn weights make,

.. math:: \Delta\theta_w = -\Big(\sum_i w_i H_i + \nabla^2 r\Big)^{-1} \Big(\sum_i w_i g_i + \nabla r\Big),

which for least squares and ridge is the refit itself. Elsewhere that step leaves a gradient of the order of its square,
:math:`\rho_w`, by which it is corrected with the same curvature, :math:`-H_w^{-1} \rho_w`, so that the error is
:math:`O(n^{-3/2})`.

Rows may carry frequencies m_i: a row counted m_i times has a total weight that is Gamma(alpha m_i) before
normalisation, and n is then the sum of the frequencies. Rows that depend on each other share one weight per group, see
``_groups.py``; the number of weights is called ``units``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from .freedom import Freedom
from .linalg import psd_root, triangular_root
from .rows import Sums, unpacked

GROUPS_AT_ONCE = 64  # share a generator


def influence(H_r, G):
    """IF_i = -H_r^-1 g_i, the parameters' displacement as row i is upweighted: (n, p) from G (n, p)."""
    return -H_r.solve(G.T).T


def dispersion(units, alpha):
    """1/(n alpha + 1): the only place where alpha enters the covariance."""
    return 1.0 / (units * alpha + 1.0)


def rescaling(units, alpha, other):
    """What the covariance is multiplied by as alpha becomes another; nothing else changes."""
    return dispersion(units, other) / dispersion(units, alpha)


def sandwich_root(H_r, H_Fc, overwrite=False):
    """R (p, r) with R R' = H_r^-1 H_Fc H_r^-1: the covariance is a sum of squares, so no variance can be negative."""
    return H_r.sandwich_root(psd_root(H_Fc, overwrite))


@dataclass(frozen=True, eq=False)
class DirichletSums:
    """Sums over a block of rows of gamma_i g_i and of gamma_i, for ``n_draws`` draws of gamma: all that w needs.

    w_i = gamma_i / sum(gamma) turns both sums into one pass, sum w_i g_i = sum(gamma_i g_i) / sum(gamma), and no
    n x n_draws array is ever there. ``gradient`` (block) gives u with g_i = J_i' u_i.
    """

    alpha: float
    n_draws: int
    seed: int
    gradient: Callable

    def weights(self, block):
        """gamma_i, times what a row counts in its group, (b, B + 1): equal weights are one more draw; sums (B + 1,)."""
        m = block.weight
        if block.group is None:
            rng = np.random.default_rng([self.seed, block.index])
            gamma = rng.standard_gamma((self.alpha * m)[:, None], size=(len(m), self.n_draws))  # (b, B)
            c = np.column_stack([gamma, m])
            return c, c.sum(axis=0)
        gamma = group_gammas(self.alpha, self.n_draws, self.seed, block.group)
        c = np.column_stack([gamma, np.ones(len(m))])
        return m[:, None] * c, block.share @ c  # each group counts once

    def scores(self, block, c, total):
        """sum_i c_i g_i above the sum of the weights, (p + 1, B + 1)."""
        return np.vstack([block.tangent.weighted_scores(self.gradient(block), c), total])

    def __call__(self, block):
        return self.scores(block, *self.weights(block))


@dataclass(frozen=True, eq=False)
class NewtonSums(DirichletSums):
    """The same, and sums of gamma_i H_i, (B, p, p), by a curvature that is a sum over rows."""

    curvature: Any

    def __call__(self, block):
        c, total = self.weights(block)
        self.curvature.of_loss(block)  # what all draws have in common
        H = [unpacked(self.curvature.of_block(block.reweighted(weight))) for weight in c.T[:-1]]
        return Sums([self.scores(block, c, total), np.stack(H)])

    def at(self, shifts):
        """Sums over a block of gamma_i (g_i(theta + shift) - g_i(theta)), (p, B), one shift per draw."""
        return partial(self._moved, shifts)

    def _moved(self, shifts, block):
        c, _ = self.weights(block)
        return np.stack([gradient_change(block.reweighted(w), d) for w, d in zip(c.T, shifts.T, strict=False)], axis=1)


def gradient_change(block, shift):
    """Sum over a block of weight_i (g_i(theta + shift) - g_i(theta)), (p,)."""
    other = block.at(block.model.at(block.model.theta + shift))
    return other.score_sum(other.u) - block.score_sum(block.u)


def group_gammas(alpha, n_draws, seed, codes):
    """Gamma(alpha) draws (b, B) of the groups that rows belong to: the same for a group wherever its rows are."""
    parts, place = np.unique(codes // GROUPS_AT_ONCE, return_inverse=True)
    size = GROUPS_AT_ONCE, n_draws
    gamma = np.stack([np.random.default_rng([seed, part]).standard_gamma(alpha, size) for part in parts])
    return gamma[place, codes % GROUPS_AT_ONCE]


def dirichlet_scores(sums, alpha, rows_per_unit=1.0):
    """U_n(w) = sum_i (w_i - 1/n) g_i, (p, B), from the sums that :class:`DirichletSums` makes over all rows.

    Of groups g_i is G/n S_g, the sum over n/G rows brought to the size of one.
    """
    weighted, total = sums[:-1], sums[-1]
    if not np.all(total > 0):
        raise ValueError(
            f"alpha={alpha:g} is so small that all Dirichlet weights underflow; "
            "use a larger alpha, or predictive='gaussian', which draws no weights."
        )
    means = weighted / (rows_per_unit * total)
    return means[:, :-1] - means[:, -1:]


def parameter_shifts(H_r, U):
    """Delta theta_w = -H_r^-1 U_n(w), one column per draw, (p, B)."""
    return -H_r.solve(U)


@dataclass(frozen=True, eq=False)
class ReweightedCurvature:
    """H_w = sum_i w_i H_i + penalty of B draws, ready to be solved with.

    In the coordinates of M, with M M' = H_r^-1, it is the identity at equal weights.

    Attributes
    ----------
    M : ndarray of shape (p, r)
    values, vectors : ndarray of shape (B, r), (B, r, r)
        Eigenvalues and eigenvectors of M' H_w M.
    least : float
        What eigenvalues count at least, where drawn weights have left hardly anything that determines a direction.
    """

    M: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    least: float

    @classmethod
    def of(cls, M, H_w, least):
        """Of curvatures H_w (B, p, p)."""
        M = M[:, M.any(axis=0)]  # what is redundant has no curvature
        return cls(M, *np.linalg.eigh(M.T @ H_w @ M), least)

    @property
    def is_flat(self):
        """Draws (B,) of which an eigenvalue counts as more than it is."""
        return (self.values < self.least).any(axis=1)  # none where nothing is determined

    def solve(self, U):
        """H_w^-1 U, one column per draw, in the coordinates of M: (r, B)."""
        along = np.einsum("brq,rb->bq", self.vectors, self.M.T @ U) / np.maximum(self.values, self.least)
        return np.einsum("brq,bq->rb", self.vectors, along)

    def shifts(self, U):
        """The Newton step, -H_w^-1 U_n(w), one column per draw, (p, B)."""
        return -self.M @ self.solve(U)

    def second_order(self, U, remainder):
        """Newton's step and what it leaves of the gradient, -H_w^-1 (U_n(w) + remainder), (p, B).

        The second part is small where the step is, and bounded by half of it in the norm of H_r where it is not. Where
        the gradient after the step is beyond all numbers, there is none.
        """
        remainder = np.where(np.isfinite(remainder).all(axis=0), remainder, 0.0)
        first, second = self.solve(U), self.solve(remainder)
        size, most = np.linalg.norm(second, axis=0), np.linalg.norm(first, axis=0) / 2
        share = np.divide(most, size, out=np.ones_like(size), where=size > most)
        return -self.M @ (first + share * second)


@dataclass(frozen=True, eq=False)
class Ribbon:
    """The distribution of Delta theta_w: mean zero, covariance ``root @ root.T``.

    Attributes
    ----------
    root : ndarray of shape (p, r)
        A root of the covariance; of drawn shifts, those over sqrt(B).
    null : ndarray of shape (p, m)
        Directions that neither the data nor the penalty determine. The ribbon has no width along them.
    lone : ndarray of shape (p, l)
        How theta moves with the target of each row that alone determines a direction. The ribbon sees no noise there.
    units : float
        Number of Dirichlet weights.
    shifts : ndarray of shape (p, B) or None
        The drawn Delta theta_w; None means that the Gaussian limit stands for them.
    exact : bool
        Whether predictions evaluate the model at drawn parameters, or follow its tangent.
    freedom : Freedom or None
        Degrees of freedom of its variances; None is infinitely many.
    parts : tuple of Ribbon
        Of each output, where outputs have parameters of their own.
    """

    root: np.ndarray
    null: np.ndarray
    lone: np.ndarray
    units: float = 1.0
    shifts: np.ndarray | None = None
    exact: bool = False
    freedom: Freedom | None = None
    parts: tuple = ()

    @classmethod
    def closed_form(cls, H_r, H_Fc, units, alpha, lone):
        """The limit of infinitely many draws; H_Fc is overwritten, since many parameters leave no room for another."""
        root = sandwich_root(H_r, H_Fc, overwrite=True)
        root *= np.sqrt(dispersion(units, alpha))
        return cls(root, H_r.null, lone, units)

    @classmethod
    def from_draws(cls, H_r, U, units, lone):
        """Of drawn scores U (p, B)."""
        return cls.of_shifts(H_r, parameter_shifts(H_r, U), units, lone, mean=0.0)

    @classmethod
    def of_shifts(cls, H_r, shifts, units, lone, mean=None):
        """Of drawn Delta theta_w (p, B); their mean is zero to the first order, and is taken from them if None."""
        mean = shifts.mean(axis=1, keepdims=True) if mean is None else mean
        return cls((shifts - mean) / np.sqrt(shifts.shape[1]), H_r.null, lone, units, shifts)

    @cached_property
    def kept(self):
        """What predictions of many rows have prepared of the root, for the next ones; it is never stored."""
        return {}

    def __getstate__(self):
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    def gaussian(self):
        """The normal law with the same covariance: drawn shifts are forgotten."""
        return replace(self, shifts=None)

    def mapped(self, function):
        """In other coordinates: ``function`` takes directions (p, r) there."""
        shifts = None if self.shifts is None else function(self.shifts)
        freedom = None if self.freedom is None else self.freedom.mapped(function)
        root, null, lone = (function(A) for A in (self.root, self.null, self.lone))
        return replace(self, root=root, null=null, lone=lone, shifts=shifts, freedom=freedom)

    def part(self, rows, freedom):
        """That of some of the parameters."""
        null, lone = (A[rows][:, A[rows].any(axis=0)] for A in (self.null, self.lone))
        shifts, root = None if self.shifts is None else self.shifts[rows], triangular_root(self.root[rows])
        return replace(self, root=root, null=null, lone=lone, shifts=shifts, freedom=freedom, parts=())

    @property
    def covariance(self):
        """Cov(Delta theta_w), (p, p); infinite where its root has no square."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.root @ self.root.T

    def scaled(self, factor):
        """The ribbon with its covariance multiplied by ``factor``."""
        c = np.sqrt(factor)
        shifts, parts = (
            None if self.shifts is None else c * self.shifts,
            tuple(part.scaled(factor) for part in self.parts),
        )
        return replace(self, root=c * self.root, shifts=shifts, parts=parts)

    def degrees_of_freedom(self, function):
        """Of the variances of linear functionals; ``function`` takes directions (p, r) to their values (..., r)."""
        if self.freedom is None:
            return np.full(function(self.root).shape[:-1], np.inf)
        return self.freedom.of(function)

    def draw(self, n_draws, rng):
        """(p, n_draws) draws of Delta theta_w; stored shifts are taken in a random order, repeated if too few."""
        if self.shifts is None:
            return self.root @ rng.standard_normal((self.root.shape[1], n_draws))
        B = self.shifts.shape[1]
        return self.shifts[:, rng.choice(B, size=n_draws, replace=n_draws > B)]

    def predict(self, model, Z, shifts):
        """Raw predictions (n, k, B) at drawn parameters."""
        return (direct if self.exact else pushforward)(model, Z, shifts)


def pushforward(model, Z, shifts):
    """f + J_x Delta theta, (n, k, B): the model replaced by its tangent at theta-hat."""
    tangent = model.tangent(Z)
    return tangent.f[:, :, None] + tangent.jvp(shifts)


def direct(model, Z, shifts):
    """f(x; theta-hat + Delta theta), (n, k, B): the model evaluated at every drawn parameter vector."""
    return np.stack([model.raw(Z, model.theta + shift) for shift in shifts.T], axis=2)
