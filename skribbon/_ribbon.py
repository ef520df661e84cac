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

Rows may carry frequencies m_i: a row counted m_i times has a total weight that is Gamma(alpha m_i) before
normalisation, and n is then the sum of the frequencies.
"""

from dataclasses import dataclass, replace

import numpy as np

from ._linalg import psd_root, triangular_root


def influence(H_r, G):
    """IF_i = -H_r^-1 g_i, the parameters' displacement as row i is upweighted: (n, p) from G (n, p)."""
    return -H_r.solve(G.T).T


def dispersion(n, alpha):
    """1/(n alpha + 1): the only place where alpha enters the covariance."""
    return 1.0 / (n * alpha + 1.0)


def sandwich_root(H_r, H_Fc):
    """R (p, r) with R R' = H_r^-1 H_Fc H_r^-1: the covariance is a sum of squares, so no variance can be negative."""
    return triangular_root(H_r.solve(psd_root(H_Fc)))


def dirichlet_scores(score_blocks, alpha, n_draws, rng):
    """U_n(w) = sum_i (w_i - 1/n) g_i for ``n_draws`` draws of w, (p, n_draws), without an n x n_draws array.

    ``score_blocks`` yields (weigh, m) for a block of rows: weigh(c) = sum_i g_i c_i', (p, B) from c (block, B), and
    their frequencies. Gamma variables stream through: w_i = gamma_i / sum(gamma) turns both sums into one pass,
    sum w_i g_i = sum(gamma_i g_i) / sum(gamma).
    """
    weighted, total = 0.0, 0.0
    for weigh, m in score_blocks:
        gamma = rng.standard_gamma((alpha * m)[:, None], size=(len(m), n_draws))  # (block, B)
        c = np.column_stack([gamma, m])  # equal weights are one more draw
        weighted = weighted + weigh(c)
        total = total + c.sum(axis=0)
    if not np.all(total > 0):
        raise ValueError(
            f"alpha={alpha:g} is so small that all Dirichlet weights underflow; "
            "use a larger alpha, or predictive='gaussian', which draws no weights."
        )
    means = weighted / total
    return means[:, :-1] - means[:, -1:]


def parameter_shifts(H_r, U):
    """Delta theta_w = -H_r^-1 U_n(w), one column per draw, (p, B)."""
    return -H_r.solve(U)


@dataclass(frozen=True, eq=False)
class Ribbon:
    """The distribution of Delta theta_w: mean zero, covariance ``root @ root.T``.

    Attributes
    ----------
    root : ndarray of shape (p, r)
        A root of the covariance; of drawn shifts, those over sqrt(B).
    null : ndarray of shape (p, m)
        Directions that neither the data nor the penalty determine. The ribbon has no width along them.
    shifts : ndarray of shape (p, B) or None
        The drawn Delta theta_w; None means that the Gaussian limit stands for them.
    """

    root: np.ndarray
    null: np.ndarray
    shifts: np.ndarray | None = None

    @classmethod
    def closed_form(cls, H_r, H_Fc, n, alpha):
        """The limit of infinitely many draws."""
        return cls(np.sqrt(dispersion(n, alpha)) * sandwich_root(H_r, H_Fc), H_r.null)

    @classmethod
    def from_draws(cls, H_r, score_blocks, alpha, n_draws, rng):
        """``n_draws`` Dirichlet-weighted shifts."""
        shifts = parameter_shifts(H_r, dirichlet_scores(score_blocks, alpha, n_draws, rng))
        return cls(shifts / np.sqrt(n_draws), H_r.null, shifts)

    def gaussian(self):
        """The normal law with the same covariance: drawn shifts are forgotten."""
        return replace(self, shifts=None)

    @property
    def covariance(self):
        """Cov(Delta theta_w), (p, p)."""
        return self.root @ self.root.T

    def scaled(self, factor):
        """The ribbon with its covariance multiplied by ``factor``."""
        c = np.sqrt(factor)
        return replace(self, root=c * self.root, shifts=None if self.shifts is None else c * self.shifts)

    def draw(self, n_draws, rng):
        """(p, n_draws) draws of Delta theta_w; stored shifts are taken in a random order, repeated if too few."""
        if self.shifts is None:
            return self.root @ rng.standard_normal((self.root.shape[1], n_draws))
        B = self.shifts.shape[1]
        return self.shifts[:, rng.choice(B, size=n_draws, replace=n_draws > B)]


def pushforward(model, Z, shifts):
    """f + J_x Delta theta, (n, k, B): the model replaced by its tangent at theta-hat."""
    return model.raw(Z)[:, :, None] + model.jvp(Z, shifts)


def direct(model, Z, shifts):
    """f(x; theta-hat + Delta theta), (n, k, B): the model evaluated at every drawn parameter vector."""
    return np.stack([model.raw(Z, model.theta + shift) for shift in shifts.T], axis=2)


@dataclass(frozen=True, eq=False)
class Latent:
    """The ribbon seen at some rows, before the link or softmax.

    Attributes
    ----------
    f : ndarray of shape (n, k)
        Raw prediction.
    covariance : ndarray of shape (n, k, k)
        J_x Cov(Delta theta_w) J_x', row by row.
    draws : ndarray of shape (n, k, B) or None
        Raw predictions at the stored parameter draws; None where the Gaussian limit stands for them.
    """

    f: np.ndarray
    covariance: np.ndarray
    draws: np.ndarray | None = None

    def scaled(self, factor):
        """At another alpha: deviations from f multiplied by sqrt(factor)."""
        f = self.f[:, :, None]
        draws = None if self.draws is None else f + np.sqrt(factor) * (self.draws - f)
        return Latent(self.f, factor * self.covariance, draws)

    def moved_to(self, f):
        """The same spread around other raw predictions."""
        draws = None if self.draws is None else self.draws + (f - self.f)[:, :, None]
        return Latent(f, self.covariance, draws)

    @classmethod
    def concatenate(cls, pieces):
        """Rows of several into one."""
        draws = None if pieces[0].draws is None else np.concatenate([piece.draws for piece in pieces])
        f, covariance = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("f", "covariance"))
        return cls(f, covariance, draws)
