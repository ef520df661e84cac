r"""Distribution of the parameters under Dirichlet weights, in the paper's symbols.

The Bayesian bootstrap refits a model at weights w ~ Dirichlet(alpha, ..., alpha),

.. math:: \hat\theta_w = \arg\min_\theta \sum_i w_i \ell(z_i, \theta) + r(\theta).

Ribbon replaces each refit by one linear step from the single fit :math:`\hat\theta`. With per-row scores
:math:`g_i = \nabla \ell(z_i, \hat\theta)` and penalized curvature :math:`H_r = H + \nabla^2 r`,

.. math:: \Delta\theta_w = -H_r^{-1} \sum_i (w_i - 1/n)\, g_i = \frac1n \sum_i \tilde w_i \mathrm{IF}_i,
          \qquad \tilde w = n w - j, \quad \mathrm{IF}_i = -H_r^{-1} g_i .

The weights have covariance :math:`(I - jj'/n) / (n (n\alpha + 1))`, hence in closed form

.. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1}, \qquad
          H_{F,c} = \frac1n \sum_i g_i g_i' - \bar g \bar g',

and a prediction moves by :math:`J_x \Delta\theta_w`. The rest of the package computes :math:`g_i`, H_r and J_x.

One order further, the step is Newton's on the reweighted objective, which for least squares and ridge is the refit,

.. math:: \Delta\theta_w = -H_w^{-1} \Big(\sum_i w_i g_i + \nabla r\Big), \qquad H_w = \sum_i w_i H_i + \nabla^2 r.

Elsewhere it leaves a gradient :math:`\rho_w` of the order of its square and is corrected by :math:`-H_w^{-1} \rho_w`,
so that the error is :math:`O(n^{-3/2})`. A row of frequency m_i has a weight that is Gamma(alpha m_i) before
normalization, and n is the sum of the frequencies. Groups of rows share one weight, see ``units.py``; the number of
weights is called ``units``.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..exceptions import NewtonStepWarning, warn_user
from .linalg import pivoted_cholesky
from .thresholds import MAX_FLAT_DRAWS, MIN_CURVATURE
from .units import leverages_are_small, pass_width, shortened

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
    """H_Fc = mean of (g_i - centre)(g_i - centre)', (p, p), from H_F = mean of g_i g_i' and the mean of g_i."""
    cross = np.outer(mean - centre / 2, centre)
    return H_F - cross - cross.T


# ---------------------------------------------------------------------- the distribution of theta
@dataclass(frozen=True, eq=False)
class Ribbon:
    """Distribution of Delta theta_w: mean zero, covariance ``root @ root.T``."""

    root: np.ndarray  # (p, r), root of the covariance; if shifts are drawn, the shifts over sqrt(B)
    undetermined: np.ndarray  # (p, m), directions without width, that neither the data nor the penalty determine
    single: np.ndarray  # (p, l), how theta moves with each row, or group, that determines a direction alone
    units: float = 1.0  # number of Dirichlet weights
    shifts: np.ndarray | None = None  # (p, B), drawn Delta theta_w; None for the Gaussian limit
    exact: bool = False  # whether predictions evaluate the model at drawn parameters, or follow its tangent
    freedom: Any = None  # degrees of freedom of variances; None for infinitely many
    alpha: float = 1.0  # Dirichlet concentration

    @classmethod
    def closed_form(cls, H_r, H_Fc, units, alpha, single):
        """Build the limit of infinitely many draws: Cov = H_r^-1 H_Fc H_r^-1 / (n alpha + 1)."""
        root = np.sqrt(dirichlet_variance(units, alpha)) * H_r.sandwich_root(H_Fc)
        return cls(root, H_r.null, single, units)

    @classmethod
    def from_shifts(cls, H_r, shifts, units, single, mean=None):
        """Build from drawn Delta theta_w (p, B); ``mean`` is zero to first order, and the mean of the draws if None."""
        mean = shifts.mean(axis=1, keepdims=True) if mean is None else mean
        return cls((shifts - mean) / np.sqrt(shifts.shape[1]), H_r.null, single, units, shifts)

    def mapped(self, function):
        """Express in other coordinates: ``function`` takes directions (p, r) there."""
        shifts = None if self.shifts is None else function(self.shifts)
        freedom = None if self.freedom is None else self.freedom.mapped(function)
        root, undetermined, single = map(function, (self.root, self.undetermined, self.single))
        return replace(self, root=root, undetermined=undetermined, single=single, shifts=shifts, freedom=freedom)

    @property
    def covariance(self):
        """Cov(Delta theta_w), (p, p); infinite if it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.root @ self.root.T

    def scaled(self, factor):
        """Multiply the covariance by a factor, and drawn shifts by its root."""
        c = np.sqrt(factor)
        shifts = None if self.shifts is None else c * self.shifts
        return replace(self, root=c * self.root, shifts=shifts)

    def at_alpha(self, alpha):
        """Rescale the covariance, and drawn shifts, to another alpha."""
        return replace(self.scaled(rescaling(self.units, self.alpha, alpha)), alpha=alpha)

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
    """F + J_x Delta theta, (n, k, B): the model replaced by its tangent at theta-hat."""
    tangent = model.tangent(Z)
    return tangent.f[:, :, None] + tangent.jvp(shifts)


def direct(model, Z, shifts):
    """f(x; theta-hat + Delta theta), (n, k, B): the model evaluated at every drawn parameter vector."""
    return np.stack([model.raw(Z, model.theta + shift) for shift in shifts.T], axis=2)


# ---------------------------------------------------------------------- drawn weights
def dirichlet_weights(alpha, n_draws, seed, block):
    """gamma_i times the row's weight in its group, (b, B + 1), with equal weights last; and sums (B + 1,)."""
    m = block.weight
    if block.group is None:
        rng = np.random.default_rng([seed, block.index])
        gamma = rng.standard_gamma((alpha * m)[:, None], size=(len(m), n_draws))  # (b, B)
        c = np.column_stack([gamma, m])
        return c, c.sum(axis=0)
    c = np.column_stack([group_gammas(alpha, n_draws, seed, block.group), np.ones(len(m))])
    return m[:, None] * c, block.share @ c  # each group counts once


def dirichlet_sums(weights, gradient, block):
    """Sums over a block of gamma_i g_i, above the sums of gamma_i, (p + 1, B + 1); their ratio is sum w_i g_i."""
    c, total = weights(block)
    return np.vstack([block.tangent.weighted_scores(gradient(block), c), total])


def drawn_curvatures(weights, curvature, block):
    """Sums over a block of gamma_i H_i, (B, p, p), for a curvature that is a sum over rows."""
    c, _ = weights(block)
    curvature.of_loss(block)  # cached: all draws share it
    return np.stack([curvature.of_block(block.reweighted(weight)) for weight in c.T[:-1]])


def drawn_changes(weights, shifts, block):
    """Sums over a block of gamma_i (g_i(theta + shift) - g_i(theta)), (p, B), with a shift (p,) for each draw."""
    c, _ = weights(block)
    changes = [gradient_change(block.reweighted(w), d) for w, d in zip(c.T[:-1], shifts.T, strict=True)]
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
    """U_n(w) = sum_i (w_i - 1/n) g_i, (p, B), from dirichlet_sums over all rows; with groups, g_i is G/n S_g."""
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
    """H_w = sum_i w_i H_i + penalty of B draws, factored in coordinates of M, with M M' = H_r^-1."""

    M: np.ndarray  # (p, r)
    values: np.ndarray  # (B, r), eigenvalues of M' H_w M
    vectors: np.ndarray  # (B, r, r), eigenvectors of M' H_w M
    least: float  # lower bound of the eigenvalues, for directions that drawn weights leave almost undetermined

    @classmethod
    def from_draws(cls, M, H_w, least):
        """Factor curvatures H_w (B, p, p)."""
        M = M[:, M.any(axis=0)]  # redundant directions have no curvature
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
        """Newton steps -H_w^-1 (U_n(w) + remainder), (p, B), changed by at most half for the gradient they leave."""
        remainder = np.where(np.isfinite(remainder).all(axis=0), remainder, 0.0)
        first, second = self.solve(U), self.solve(remainder)
        second = shortened(second, np.linalg.norm(second, axis=0), np.linalg.norm(first, axis=0) / 2)
        return -self.M @ (first + second)


def linear_shifts(training, gradient, alpha, n_draws, seed):
    """Steps (p, B) by H_r, one for each draw of the weights; ``gradient(block)`` gives corrected gradients."""
    weights = partial(dirichlet_weights, alpha, n_draws, seed)
    sums = training.rows.sum(partial(dirichlet_sums, weights, gradient), pass_width(training, n_draws))
    U = dirichlet_scores(sums, alpha, training.n / training.rows.n_units)
    shifts = influence(training.H_r, U)
    return clipped(training, shifts, -np.einsum("pb,pb->b", U, shifts), alpha)


def newton_shifts(training, gradient, alpha, n_draws, seed):
    """Steps (p, B) by the curvature under the drawn weights; warns if they leave too little curvature."""
    model, width = training.rows.model, pass_width(training, n_draws)
    weights, rows_per_unit = partial(dirichlet_weights, alpha, n_draws, seed), training.n / training.rows.n_units
    sums = training.rows.sum(partial(dirichlet_sums, weights, gradient), width)
    U, total = dirichlet_scores(sums, alpha, rows_per_unit), sums[-1, :-1] * rows_per_unit
    H = training.rows.sum(partial(drawn_curvatures, weights, training.curvature), width) / total[:, None, None]
    penalized = H + np.diag(training.curvature.shift(model))
    H_w = ReweightedCurvature.from_draws(training.H_r.inverse_root, penalized, min_curvature(model))
    shifts = H_w.shifts(U)
    if not is_quadratic(model):
        with np.errstate(all="ignore"):  # an inverse link may overflow after a long step
            change = training.rows.sum(partial(drawn_changes, weights, shifts), width) / total  # by the same draws
            remainder = change - np.einsum("bpq,qb->pb", H, shifts)
        shifts = H_w.second_order(U, remainder)
    if H_w.is_flat.mean() > MAX_FLAT_DRAWS:
        warn_user(
            f"In {int(H_w.is_flat.sum())} of {n_draws} draws the weights leave less than {H_w.least:.2g} of the "
            "curvature in some direction. It was raised there, so intervals may be too narrow. Try: a larger alpha, a "
            "stronger penalty of the base model, or predictive='pushforward'.",
            NewtonStepWarning,
        )
    return clipped(training, shifts, np.einsum("pb,pb->b", shifts, training.H_r.to_dense() @ shifts), alpha)


def clipped(training, shifts, squared, alpha):
    """Shifts (p, B), none longer than ``clip.steps`` units; ``squared`` (B,) are lengths in the norm of H_r."""
    if training.clip.steps is None:
        return shifts
    loss, units = training.rows.model.loss, training.rows.n_units
    phi = 1.0 if loss.n_classes else training.moments.chi2 / (training.n * (1 - training.mean_leverages[0]))
    bound = training.clip.steps * np.sqrt(phi * training.effective_parameters * dirichlet_variance(units, alpha))
    return shortened(shifts, np.sqrt(np.maximum(squared, 0.0)), bound)


def is_quadratic(model):
    """Whether the training objective is a quadratic function of theta, so that one Newton step is a refit."""
    return model.is_linear and model.loss.quadratic


def min_curvature(model):
    """Lower bound of a reweighted curvature, as a share of H_r; against rounding alone if a Newton step is a refit."""
    return 1e-9 if is_quadratic(model) else MIN_CURVATURE


# ---------------------------------------------------------------------- degrees of freedom
@dataclass(frozen=True, eq=False)
class Freedom:
    r"""Effective number of independent rows behind the variance of a linear functional of theta, by Satterthwaite.

    If the noise were what the curvature of the loss says, row i would contribute :math:`c_i^2` to that variance, and
    :math:`\mathrm{df} = (\sum_i c_i^2)^2 / \sum_i c_i^4 - 1`, which is m - 1 for the mean of a category of m rows. The
    directions of influential rows are kept. All other rows contribute as normal features would.

    If one row contributes most of a variance, the formula is too pessimistic: the other rows bound the variance from
    below.
    """

    directions: np.ndarray  # (p, m r), r of each influential row, or group: their products with v have squares c_i^2
    copies: np.ndarray  # (m,), frequencies of these rows
    root: np.ndarray | None = None  # (p, r), root of the sum of c_i^2 over all rows, if these are not all rows
    others: float = 1.0  # number of all other observations
    most: float = np.inf  # upper bound of the degrees of freedom
    least: float = 1.0  # lower bound of the degrees of freedom: no row contributes more than its leverage

    @classmethod
    def constant(cls, p, df=np.inf):
        """Build the same degrees of freedom for all functionals."""
        return cls(np.zeros((p, 0)), np.zeros(0), most=max(df, 1.0), least=max(df, 1.0))

    @classmethod
    def from_contributions(cls, M, E, copies, n, root, others, most):
        """Build from contributions c_i^2 = |E_i M' v|^2 to v (p,), E (m, r, q), of units of frequencies ``copies``."""
        leverage = np.square(E).sum(axis=(1, 2)) / n
        least = min(max(1 / max(leverage.max(), 1e-300) - 1, 1.0), most)
        return cls(M @ E.reshape(-1, M.shape[1]).T, copies, root, others, most, least)

    @property
    def width(self):
        """Floats that a functional takes in :meth:`of`; zero if all have the same degrees of freedom."""
        return self.directions.shape[1] + (0 if self.root is None else self.root.shape[1])

    def mapped(self, function):
        """Express in other coordinates: ``function`` takes directions (p, r) there."""
        root = None if self.root is None else function(self.root)
        return replace(self, directions=function(self.directions), root=root)

    def of(self, function):
        """Degrees of freedom (...), at least 1, of functionals that take directions (p, r) to (..., r)."""
        z = function(self.directions)
        if not z.shape[-1]:
            return np.full(z.shape[:-1], self.most)
        size = np.abs(z).max(axis=-1, keepdims=True)  # degrees of freedom have no unit, and fourth powers overflow
        size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
        z = np.nan_to_num(z / size, posinf=1.0, neginf=-1.0)
        c2 = np.square(z).reshape(*z.shape[:-1], len(self.copies), -1).sum(axis=-1)  # (..., m)
        total = kept = c2 @ self.copies
        if self.root is not None:
            total = np.maximum(np.square(function(self.root) / size).sum(axis=-1), kept)
        fourth = np.square(c2) @ self.copies + 3 * (total - kept) ** 2 / self.others
        df = np.divide(total**2, fourth, out=np.full_like(total, np.inf), where=fourth > 0) - 1
        largest = (c2 * np.minimum(self.copies, 1.0)).max(axis=-1)  # by one observation
        return np.clip(_with_one_dominating(df, largest, total, fourth), 1.0, self.most)


def _with_one_dominating(df, largest, total, fourth):
    """Degrees of freedom of a variance with one contribution above half of it, and the bound from all others.

    The formula is within 10% of the degrees at which Student's t has the 95% quantile of N(0, 1) over the root of
    b + (1 - b) chi^2_1, with the share b of all others.
    """
    with np.errstate(all="ignore"):
        b = np.clip(1 - largest / total, 0.0, 0.5)
        others = (total - largest) ** 2 / np.maximum(fourth - largest**2, 0.0)
        bounded = np.minimum(others, (1 + 1.9 * np.sqrt(b) * (1 - 0.73 * b)) / (1 - b) ** 2)
        return np.where(bounded > df, df + np.minimum(2 - 4 * b, 1.0) * (bounded - df), df)  # from b = 1/2 on df


@dataclass(frozen=True, eq=False)
class LeastFreedom:
    """Fewest degrees of freedom of several crossed groupings, by a Freedom of each."""

    parts: tuple[Any, ...]

    @property
    def width(self):
        """Floats that a functional takes in :meth:`of`."""
        return max(own.width for own in self.parts)

    @property
    def most(self):
        """Upper bound of the degrees of freedom."""
        return min(own.most for own in self.parts)

    @property
    def least(self):
        """Lower bound of the degrees of freedom."""
        return min(own.least for own in self.parts)

    def mapped(self, function):
        """Express in other coordinates: ``function`` takes directions (p, r) there."""
        return LeastFreedom(tuple(own.mapped(function) for own in self.parts))

    def of_output(self, j):
        """Degrees of freedom of functionals of the parameters of one output."""
        return LeastFreedom(tuple(own.of_output(j) for own in self.parts))

    def of(self, function):
        """Fewest degrees of freedom (...) of functionals that take directions (p, r) to (..., r)."""
        return np.min([own.of(function) for own in self.parts], axis=0)


class FreedomOfOutputs(LeastFreedom):
    """Degrees of freedom of m outputs with parameters of their own, of equal number, by a Freedom of each."""

    def mapped(self, function):
        """Express in other coordinates of all parameters, which do not mix outputs."""
        m = len(self.parts)
        moved = (lambda V, j=j: self._along_output(function, j, V).reshape(m, *V.shape)[j] for j in range(m))
        return FreedomOfOutputs(tuple(own.mapped(move) for own, move in zip(self.parts, moved, strict=True)))

    def of_output(self, j):
        """Degrees of freedom of functionals of the parameters of one output."""
        return self.parts[j]

    def of(self, function):
        """Fewest degrees of freedom (...) of the outputs that a functional of all parameters depends on."""
        found = []
        for j, own in enumerate(self.parts):
            of_output = partial(self._along_output, function, j)
            touched = of_output(np.eye(len(own.directions))).any(axis=-1)
            found.append(np.where(touched, own.of(of_output), np.inf))
        return np.min(found, axis=0)

    def _along_output(self, function, j, V):
        """Function of directions of all parameters, at directions V (d, r) of one output."""
        out = np.zeros((len(self.parts), *V.shape))
        out[j] = V
        return function(out.reshape(len(self.parts) * len(V), V.shape[1]))


def expected_root(M, shift, n):
    """Root (p, r) of n H_r^-1 H H_r^-1, the sum of c_i^2 over all rows, with H_r = H + diag(shift), M M' = H_r^-1."""
    if not shift.any():
        return np.sqrt(n) * M
    share = np.sqrt(shift)[:, None] * M
    U, pivots, _ = pivoted_cholesky(np.eye(M.shape[1]) - share.T @ share)  # no eigenvalue exceeds 1
    return np.sqrt(n) * (M[:, pivots] @ U.T)


def degrees_of_freedom(training):
    """Freedom of the ribbon's variances; None, for infinite, with HC0, and with HC3, which is conservative."""
    if training.correction_used == "HC0" or (training.correction_used == "HC3" and training.rows.groups is None):
        return None
    if not training.rows.model.outputs_are_separate:
        return _freedom_of(training, slice(None), training.parameters_per_row)
    d, leverages = len(training.rows.model.theta) // len(training.outputs), training.mean_leverages
    return FreedomOfOutputs(tuple(_freedom_of(training, slice(j * d, (j + 1) * d), h) for j, h in enumerate(leverages)))


def _freedom_of(training, own, mean_leverage):
    """Degrees of freedom of functionals of some parameters, a slice that shares no curvature with others."""
    M, groups, n = training.H_r.inverse_root[own], training.rows.groups, training.n
    most = n * (1 - min(mean_leverage, 1.0)) if groups is None else training.rows.n_units - 1
    known = groups is None or training.correction_used == "HC2"
    if not (known and training.curvature.knows_leverages and M.any()):
        return Freedom.constant(len(M), most)
    along = M.any(axis=0)
    if groups is None:
        found = training.units.influential
        E, copies, few = found.E[:, :, along], found.weight, found.all_rows
        if not few and leverages_are_small(training):
            return Freedom.constant(len(M), most)
    else:
        values, vectors = np.linalg.eigh(training.units.L[:, along][:, :, along])
        E = np.sqrt(n * np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
        copies, n = np.ones(len(E)), training.rows.n_units
        few = len(E) >= n
    if not len(E):
        return Freedom.constant(len(M), most)
    M = M[:, along]
    root = None if few else expected_root(M, training.curvature.shift(training.rows.model)[own], training.n)
    others = max(n - copies.sum(), 1.0)
    return Freedom.from_contributions(M, E, copies, training.n, root, others, max(most, 1.0))
