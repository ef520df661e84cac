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

and a prediction moves by :math:`J_x \Delta\theta_w`. The rest of the package computes :math:`g_i`, H_r and J_x.

One order further, the step is Newton's on the reweighted objective, with the curvature that the drawn weights make,

.. math:: \Delta\theta_w = -\Big(\sum_i w_i H_i + \nabla^2 r\Big)^{-1} \Big(\sum_i w_i g_i + \nabla r\Big),

which for least squares and ridge is the refit itself. Elsewhere that step leaves a gradient of the order of its square,
:math:`\rho_w`, by which it is corrected with the same curvature, :math:`-H_w^{-1} \rho_w`, so that the error is
:math:`O(n^{-3/2})`.

Rows may carry frequencies m_i: a row counted m_i times has a total weight that is Gamma(alpha m_i) before
normalization, and n is then the sum of the frequencies. Rows that depend on each other share one weight per group, see
``groups.py``; the number of weights is called ``units``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

GROUPS_PER_GENERATOR = 64  # groups whose weights one random generator draws, so that blocks may cut the table anywhere


def influence(H_r, G):
    """IF = -H_r^-1 g, the displacement of the parameters along scores G (p, m), one column each, (p, m)."""
    return -H_r.solve(G)


def dirichlet_variance(units, alpha):
    """1 / (n alpha + 1): the only place where alpha enters the covariance."""
    return 1.0 / (units * alpha + 1.0)


def rescaling(units, alpha, other):
    """Factor of the covariance if alpha becomes ``other``."""
    return dirichlet_variance(units, other) / dirichlet_variance(units, alpha)


def centred_second_moment(H_F, mean, centre):
    """H_Fc = mean of (g_i - centre)(g_i - centre)', (p, p), from H_F = mean of g_i g_i' and the mean of g_i.

    The centre is g_bar for the scores of the fit, which makes it H_F - g_bar g_bar'. It differs from the mean if scores
    are corrected row by row: with their share of the penalty's gradient, -g_bar, the uncorrected ones add up to zero.
    """
    cross = np.outer(mean - centre / 2, centre)
    return H_F - cross - cross.T


def sandwich_root(H_r, H_Fc):
    """R (p, r) with R R' = H_r^-1 H_Fc H_r^-1: the covariance is a sum of squares, so no variance can be negative."""
    return H_r.sandwich_root(H_Fc)


# ---------------------------------------------------------------------- drawn weights
@dataclass(frozen=True, eq=False)
class DirichletSums:
    """Sums over a block of gamma_i g_i and of gamma_i, for ``n_draws`` draws of gamma: all that w needs.

    w_i = gamma_i / sum(gamma) turns both sums into one pass, sum w_i g_i = sum(gamma_i g_i) / sum(gamma), without an
    n x n_draws array. ``gradient(block)`` gives u with g_i = J_i' u_i.
    """

    alpha: float
    n_draws: int
    seed: int
    gradient: Callable

    def weights(self, block):
        """gamma_i times the row's weight in its group, (b, B + 1), with equal weights last; and sums (B + 1,)."""
        m = block.weight
        if block.group is None:
            rng = np.random.default_rng([self.seed, block.index])
            gamma = rng.standard_gamma((self.alpha * m)[:, None], size=(len(m), self.n_draws))  # (b, B)
            c = np.column_stack([gamma, m])
            return c, c.sum(axis=0)
        gamma = group_gammas(self.alpha, self.n_draws, self.seed, block.group)
        c = np.column_stack([gamma, np.ones(len(m))])
        return m[:, None] * c, block.share @ c  # each group counts once

    def __call__(self, block):
        """sum_i c_i g_i above the sum of the weights, (p + 1, B + 1)."""
        c, total = self.weights(block)
        return np.vstack([block.tangent.weighted_scores(self.gradient(block), c), total])


@dataclass(frozen=True, eq=False)
class DrawnCurvature:
    """Sums over a block of gamma_i H_i, (B, p, p)."""

    drawn: DirichletSums
    curvature: Any  # a sum over rows

    def __call__(self, block):
        c, _ = self.drawn.weights(block)
        self.curvature.of_loss(block)  # cached: all draws share it
        return np.stack([self.curvature.of_block(block.reweighted(weight)) for weight in c.T[:-1]])


@dataclass(frozen=True, eq=False)
class DrawnChange:
    """Sums over a block of gamma_i (g_i(theta + shift) - g_i(theta)), (p, B), with a shift (p,) for each draw."""

    drawn: DirichletSums
    shifts: np.ndarray

    def __call__(self, block):
        c, _ = self.drawn.weights(block)
        changes = [gradient_change(block.reweighted(w), d) for w, d in zip(c.T[:-1], self.shifts.T, strict=True)]
        return np.stack(changes, axis=1)


def gradient_change(block, shift):
    """Sum over a block of weight_i (g_i(theta + shift) - g_i(theta)), (p,)."""
    other = block.at(block.model.at(block.model.theta + shift))
    return other.score_sum(other.u) - block.score_sum(block.u)


def group_gammas(alpha, n_draws, seed, codes):
    """Gamma(alpha) draws (b, B) of the groups of rows; a group's draws do not depend on where its rows are."""
    parts, place = np.unique(codes // GROUPS_PER_GENERATOR, return_inverse=True)
    size = GROUPS_PER_GENERATOR, n_draws
    gamma = np.stack([np.random.default_rng([seed, part]).standard_gamma(alpha, size) for part in parts])
    return gamma[place, codes % GROUPS_PER_GENERATOR]


def dirichlet_scores(sums, alpha, rows_per_unit=1.0):
    """U_n(w) = sum_i (w_i - 1/n) g_i, (p, B), from the sums that :class:`DirichletSums` makes over all rows.

    With groups, g_i is G/n S_g.
    """
    weighted, total = sums[:-1], sums[-1]
    if not np.all(total > 0):
        raise ValueError(
            f"alpha={alpha:g} is so small that all Dirichlet weights underflow; "
            "use a larger alpha, or predictive='gaussian', which draws no weights."
        )
    means = weighted / (rows_per_unit * total)
    return means[:, :-1] - means[:, -1:]


@dataclass(frozen=True, eq=False)
class ReweightedCurvature:
    """H_w = sum_i w_i H_i + penalty of B draws, factored.

    In the coordinates of M, with M M' = H_r^-1, it is the identity at equal weights.

    Attributes
    ----------
    M : ndarray of shape (p, r)
    values, vectors : ndarray of shape (B, r), (B, r, r)
        Eigenvalues and eigenvectors of M' H_w M.
    least : float
        Lower bound of the eigenvalues, for directions that drawn weights leave almost undetermined.
    """

    M: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    least: float

    @classmethod
    def from_draws(cls, M, H_w, least):
        """Factor curvatures H_w (B, p, p)."""
        M = M[:, M.any(axis=0)]  # what is redundant has no curvature
        return cls(M, *np.linalg.eigh(M.T @ H_w @ M), least)

    @property
    def is_flat(self):
        """Whether an eigenvalue of a draw was raised to the lower bound, (B,)."""
        return (self.values < self.least).any(axis=1)

    def solve(self, U):
        """H_w^-1 U, one column per draw, in the coordinates of M: (r, B)."""
        along = np.einsum("brq,rb->bq", self.vectors, self.M.T @ U) / np.maximum(self.values, self.least)
        return np.einsum("brq,bq->rb", self.vectors, along)

    def shifts(self, U):
        """Newton steps -H_w^-1 U_n(w), one column per draw, (p, B)."""
        return -self.M @ self.solve(U)

    def second_order(self, U, remainder):
        """Newton steps corrected by the gradient that they leave, -H_w^-1 (U_n(w) + remainder), (p, B).

        The correction is at most half as long as the step in the norm of H_r, and zero if the gradient after the step
        overflows.
        """
        remainder = np.where(np.isfinite(remainder).all(axis=0), remainder, 0.0)
        first, second = self.solve(U), self.solve(remainder)
        size, most = np.linalg.norm(second, axis=0), np.linalg.norm(first, axis=0) / 2
        share = np.divide(most, size, out=np.ones_like(size), where=size > most)
        return -self.M @ (first + share * second)


# ---------------------------------------------------------------------- the distribution of theta
@dataclass(frozen=True, eq=False)
class Ribbon:
    """The distribution of Delta theta_w: mean zero, covariance ``root @ root.T``.

    Attributes
    ----------
    root : ndarray of shape (p, r)
        Root of the covariance; of drawn shifts, the shifts over sqrt(B).
    undetermined : ndarray of shape (p, m)
        Directions that neither the data nor the penalty determine. The ribbon has no width along them.
    single : ndarray of shape (p, l)
        How theta moves with each row, or group, that determines a direction alone. Its noise cannot be seen there.
    units : float
        Number of Dirichlet weights.
    shifts : ndarray of shape (p, B) or None
        The drawn Delta theta_w; None for the Gaussian limit.
    exact : bool
        Whether predictions evaluate the model at drawn parameters, or follow its tangent.
    freedom : Freedom or None
        Degrees of freedom of its variances; None for infinitely many.
    """

    root: np.ndarray
    undetermined: np.ndarray
    single: np.ndarray
    units: float = 1.0
    shifts: np.ndarray | None = None
    exact: bool = False
    freedom: Any = None

    @classmethod
    def closed_form(cls, H_r, H_Fc, units, alpha, single):
        """Build the limit of infinitely many draws: Cov = H_r^-1 H_Fc H_r^-1 / (n alpha + 1)."""
        root = np.sqrt(dirichlet_variance(units, alpha)) * sandwich_root(H_r, H_Fc)
        return cls(root, H_r.null, single, units)

    @classmethod
    def from_shifts(cls, H_r, shifts, units, single, mean=None):
        """Build from drawn Delta theta_w (p, B); ``mean`` is zero to first order, and the mean of the draws if None."""
        mean = shifts.mean(axis=1, keepdims=True) if mean is None else mean
        return cls((shifts - mean) / np.sqrt(shifts.shape[1]), H_r.null, single, units, shifts)

    def gaussian(self):
        """Normal distribution with the same covariance, without drawn shifts."""
        return replace(self, shifts=None)

    def mapped(self, function):
        """Express in other coordinates: ``function`` takes directions (p, r) there."""
        shifts = None if self.shifts is None else function(self.shifts)
        freedom = None if self.freedom is None else self.freedom.mapped(function)
        root, undetermined, single = (function(A) for A in (self.root, self.undetermined, self.single))
        return replace(self, root=root, undetermined=undetermined, single=single, shifts=shifts, freedom=freedom)

    @property
    def covariance(self):
        """Cov(Delta theta_w), (p, p); infinite if it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.root @ self.root.T

    def scaled(self, factor):
        """Multiply the covariance by ``factor``."""
        c = np.sqrt(factor)
        return replace(self, root=c * self.root, shifts=None if self.shifts is None else c * self.shifts)

    def degrees_of_freedom(self, function):
        """Degrees of freedom (...) of functionals; ``function`` takes directions (p, r) to their values (..., r)."""
        if self.freedom is None:
            return np.full(function(self.root).shape[:-1], np.inf)
        return self.freedom.of(function)

    def draw(self, n_draws, rng):
        """Draw Delta theta_w, (p, n_draws); stored shifts are taken in random order, repeated if too few."""
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
