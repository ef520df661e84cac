"""What a factored curvature tells about the training rows: leverages, leave-one-out, corrected scores, the ribbon."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ._clipping import Clip, clipped_gradient, clipped_shifts, score_sizes, weighted_median
from ._groups import MAX_LEVERAGE, group_scores, group_steps, moved
from ._linalg import batch_gram, gram, left_multiply, rank_tolerance, stack_rows
from ._ribbon import (
    DirichletSums,
    Freedom,
    NewtonSums,
    ReweightedCurvature,
    Ribbon,
    dirichlet_scores,
    dispersion,
    parameter_shifts,
)
from ._rows import BLOCK_BYTES, EASY_LEVERAGE, Block, Moments, Rows, Sums, some_of
from .exceptions import (
    FewGroupsWarning,
    LeverageWarning,
    NewtonStepWarning,
    NotStationaryWarning,
    SeparationWarning,
    warn_user,
)

MOST_OF_A_CLASS = 0.5  # where a row moves its own logits more than all others do, no constant curvature leads back
SMALL_LEVERAGE = 0.05  # effective parameters per row below which a row's own leverage is not worth a second pass
SEPARATION = 0.05  # squared scores over their expectation: below 0.03 of separated classes, above 0.09 of all others
MOST_FLEXIBLE = 0.25  # effective parameters per row of a model that is not linear; see doc/defaults.md
AS_MANY_AS_ROWS = 0.75  # effective parameters per row with which that is so even at a minimum
SHORT_OF_A_MINIMUM = 0.2  # stationarity from which it is so with fewer
LEAST_DAMPING = 0.01  # of such a network, in units of the target's variance: about what bootstrap refits ask for
STATIONARITY_LIMIT = 0.25  # mean gradient, in standard errors of itself
ROUNDING = 1e-9  # share of the predictions' own size below which a gradient is rounding
POWERS = {"HC2": -0.5, "HC3": -1.0}  # of I - C A, which undo what a row, or group, does to its own score
N_PROBES = 24  # random directions that find the rows of large leverage, which is then known to a quarter of itself
SUSPECT = 0.2  # estimated leverage of a row that may have one near one; that comes out lower once in 10^7
MOST_LONE = 500  # rows that may be remembered for determining a direction alone
MOST_DECISIVE = 1000  # rows whose share in a prediction's variance is looked at one by one
LEAST_AT_ONCE = 64  # of those rows, with the whole hat matrix, which takes as long to be read as to be multiplied
FEW_COLUMNS = 64  # of a hat matrix that is only estimated
SPARE = 3  # times as many are looked at, since they are found by rough leverages
DECISIVE = 0.02  # leverage from which they are, where there are more rows
FEW_GROUPS = 8  # from so many on, intervals cover what they say; see doc/user_guide/groups.md
LEAST_CURVATURE = 0.05  # of H_r, in any direction, that drawn weights leave where a loss is not quadratic
MANY_FLAT = 0.05  # share of draws with less from which that is said
MEDIAN_ROWS = 20_000  # that tell the median length of a score
FAR = 0.1  # leverage that no row may have for all of them to be alike


# ---------------------------------------------------------------------- of a block of rows
@dataclass(frozen=True, eq=False)
class Hat:
    """How far each row moves its own raw prediction: A_i = J_i H_r^-1 J_i' / n per unit of loss gradient.

    ``curvature(block)`` gives C_i (b, k, k), the same curvature of the loss that H_r is made of; C_i A_i is the row's
    block of the hat matrix. A row of a weight above one is as many copies, each with a leverage of its own.
    """

    inverse_root: np.ndarray  # M (p, r), M M' = H_r^-1
    n: float
    curvature: Any

    def __call__(self, block):
        """C and A, (b, k, k) each."""
        V = block.tangent.jvp(self.inverse_root)
        return self.curvature(block), batch_gram(V) * (np.minimum(block.weight, 1.0) / self.n)[:, None, None]

    @property
    def width(self):
        """Floats that a row's A takes to form, for each output."""
        return sum(self.inverse_root.shape)


def leverages(hat, block):
    """h_i = tr(C_i A_i) over the rank of C_i, (b,): the share of its own prediction that row i decides."""
    C, A = hat(block)
    return np.einsum("nkl,nlk->n", C, A) / block.model.loss.curvature_rank


def leave_one_out(hat, block):
    """Raw predictions (b, k) of each row under the fit to all others, by one Newton step.

    f_i + A_i (I - C_i A_i)^-1 u_i: exact for least squares, where it is y_i - r_i / (1 - h_i).
    """
    C, A = hat(block)
    return block.f + np.einsum("nkl,nl->nk", A, resolvent(C, A, block.u, -1.0))


def leave_one_out_and_leverages(hat, block):
    """:func:`leave_one_out` (b, 1) and :func:`leverages` (b,) of a single raw prediction: one hat matrix is enough."""
    C, A = hat(block)
    return block.f + A[:, 0] * resolvent(C, A, block.u, -1.0), C[:, 0, 0] * A[:, 0, 0]


def leave_one_out_steps(hat, block):
    """How theta moves to the fit to all other rows, (b, p), by the same Newton step; and leverages (b,)."""
    V, C = block.tangent.jvp(hat.inverse_root), hat.curvature(block)  # (b, k, r), (b, k, k)
    share = np.minimum(block.weight, 1.0) / hat.n
    A = batch_gram(V) * share[:, None, None]
    pull = share[:, None] * resolvent(C, A, block.u, -1.0)
    h = np.einsum("nkl,nlk->n", C, A) / block.model.loss.curvature_rank
    return np.einsum("nkr,nk->nr", V, pull) @ hat.inverse_root.T, h


def corrected_gradient(hat, power, block):
    """(I - C_i A_i)^power u_i, (b, k): HC2 by the power -1/2; HC3, the score under the fit to all others, by -1.

    That is linear in u, and the loss may not be: no row gets a gradient that its loss has nowhere, and of a classifier,
    whose curvature fades as it grows sure, leverages above MOST_OF_A_CLASS count as that.
    """
    return bounded(resolvent(*hat(block), block.u, power, most_leverage(block.model.loss)), block)


def group_corrected_gradient(hat, steps, block):
    """The same of the whole group of each row: C A is the group's own block of the hat matrix."""
    return bounded(block.u + np.einsum("nkl,nl->nk", hat.curvature(block), moved(steps, block)), block)


def most_leverage(loss):
    """What a leverage counts at most."""
    return MOST_OF_A_CLASS if loss.n_classes else MAX_LEVERAGE


def bounded(u, block):
    """u (b, k), none longer than the gradient of its row's loss can be."""
    size, bound = np.linalg.norm(u, axis=1), block.model.loss.gradient_bound(block.y)
    return u * np.divide(bound, size, out=np.ones_like(size), where=size > bound)[:, None]


def leave_group_out(steps, block):
    """Raw predictions (b, k) of each row under the fit to all other groups, by one Newton step."""
    return block.f + moved(steps, block)


def constant_gradient(factor, block):
    """factor u_i, (b, k)."""
    return factor * block.u


def resolvent(C, A, u, power, most=MAX_LEVERAGE):
    """(I - C_i A_i)^power u_i, (n, k), for symmetric C, A >= 0; eigenvalues of C A above ``most`` count as that."""
    if u.shape[1] == 1:
        h = np.minimum(C[:, 0] * A[:, 0], most)
        return (1 - h) ** power * u
    out = np.empty_like(u)
    trace = np.einsum("nkl,nlk->n", C, A)
    easy = (trace <= most) & (power == -1)
    if easy.any():
        out[easy] = np.linalg.solve(np.eye(u.shape[1]) - C[easy] @ A[easy], u[easy][:, :, None])[:, :, 0]
    if not easy.all():
        out[~easy] = _resolvent_by_eigenvalues(C[~easy], A[~easy], u[~easy], power, most)
    return out


def _resolvent_by_eigenvalues(C, A, u, power, most):
    # A = S S' and S' C S = E diag(l) E' give (C A)^j = C S E diag(l^(j - 1)) E' S', hence the same for any power series
    values, vectors = np.linalg.eigh(A)
    S = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    pulls, E = np.linalg.eigh(S.transpose(0, 2, 1) @ C @ S)
    capped = (1 - np.minimum(pulls, most)) ** power - 1
    small = np.abs(pulls) < 1e-8
    ratio = np.where(small, -power, capped / np.where(small, 1.0, pulls))
    SE = S @ E  # (n, k, k)
    inner = ratio * np.einsum("nkl,nk->nl", SE, u)
    return u + np.einsum("nkl,nl->nk", C, np.einsum("nkl,nl->nk", SE, inner))


def squared_scores(block):
    """Sums over the block of |u_i|^2, and of its expectation under a classifier's own probabilities, tr C_i."""
    observed, expected = (block.u**2).sum(axis=1), (block.R**2).sum(axis=(1, 2))
    return np.array([block.weight @ observed, block.weight @ expected])


def expected_scores(hat, block):
    """R_i' J_i M, (b, r, p): their products are what a row's noise would be, were it what its loss's curvature says."""
    return block.R.transpose(0, 2, 1) @ block.tangent.jvp(hat.inverse_root)


@dataclass(frozen=True, eq=False)
class Foremost:
    """Rows of the largest leverages, as a few random directions see them; two of them "add" to those of both.

    Attributes
    ----------
    at_most : int
        Rows that are kept.
    rough : ndarray of shape (m,)
        Their leverages, roughly.
    Z, y, weight : ndarrays of m rows, Z maybe sparse
    """

    at_most: int
    rough: np.ndarray
    Z: Any
    y: np.ndarray
    weight: np.ndarray

    def __add__(self, other):
        both = (stack_rows([getattr(self, name), getattr(other, name)]) for name in ("rough", "Z", "y", "weight"))
        return Foremost(self.at_most, *both).kept()

    def kept(self):
        """No more rows than that, in their order."""
        if len(self.rough) <= self.at_most:
            return self
        top = np.sort(np.argsort(-self.rough, kind="stable")[: self.at_most])
        return Foremost(self.at_most, self.rough[top], self.Z[top], self.y[top], self.weight[top])


def foremost_rows(hat, at_most, block):
    """Of a block; ``hat`` is of random directions."""
    counts = block.take(np.flatnonzero(block.weight > 0))
    return Foremost(at_most, leverages(hat, counts), counts.Z, counts.y, counts.weight).kept()


def score_sums(gradient, block):
    """Sums over the block of g_i and of g_i g_i', with g_i = J_i' gradient_i."""
    u = gradient(block)
    return Sums([block.score_sum(u), *block.packed_grams(u)])


@dataclass(frozen=True, eq=False)
class Largest:
    """Largest entries over rows of |J_i|, and of the size of C_i; two of them "add" to the larger.

    Attributes
    ----------
    J : ndarray of shape (k, p), or infinity
        Entry by entry.
    C : float
        Largest Frobenius norm.
    """

    J: np.ndarray | float = np.inf
    C: float = np.inf

    def __add__(self, other):
        return Largest(np.maximum(self.J, other.J), max(self.C, other.C))

    @classmethod
    def of_block(cls, curvature, block):
        """Of a single block; infinite where leverages are rough, or J too dear to be looked at."""
        J = block.tangent.largest() if curvature.knows_leverages else np.inf
        if not np.ndim(J):
            return cls()
        C = curvature.of_loss(block) * np.minimum(block.weight, 1.0)[:, None, None]
        return cls(J, float(np.sqrt(np.einsum("nkl,nkl->n", C, C).max())))

    def leverage(self, hat):
        """What no eigenvalue of C_i A_i exceeds: |C_i| tr(A_i), and |J_i M| is at most |J_i| |M|, entry by entry."""
        return self.C * (np.square(self.J @ np.abs(hat.inverse_root)).sum() / hat.n) if np.ndim(self.J) else np.inf


def first_pass(curvature, scatter, block):
    """All sums over the rows that H_r is made of, and a bound on what a row's leverage can be."""
    return Sums([Moments.of_block(curvature, scatter, block), Largest.of_block(curvature, block)])


def lone_directions(hat, block):
    """How theta moves with the raw prediction of each row that determines its own, (m k, p): H_r^-1 J_i' C_i / n.

    Those are rows whose leverage exceeds MAX_LEVERAGE.
    """
    C, A = hat(block)
    largest = np.linalg.eigvals(C @ A).real.max(axis=1, initial=0.0)
    few = block.take(np.flatnonzero(largest > MAX_LEVERAGE))
    if not len(few.y):
        return np.zeros((0, len(hat.inverse_root)))
    V, C = few.tangent.jvp(hat.inverse_root), hat.curvature(few)  # (m, k, r), (m, k, k)
    share = (np.minimum(few.weight, 1.0) / hat.n)[:, None, None]
    return (share * np.einsum("nkl,nlr->nkr", C, V)).reshape(-1, V.shape[2]) @ hat.inverse_root.T


# ---------------------------------------------------------------------- of all rows
@dataclass(frozen=True, eq=False)
class Training:
    """Training rows with their moments and the factor H_r that came of them: what noise models and the ribbon see.

    Attributes
    ----------
    rows : Rows
    moments : Moments
    H_r : Factor
    curvature : Curvature
    effective_parameters : float
        Sum over the observations of tr(C_i A_i), the traces of their blocks of the hat matrix.
    largest : Largest
        What bounds the leverages before any row is looked at again.
    """

    rows: Rows
    moments: Moments
    H_r: Any
    curvature: Any
    effective_parameters: float
    largest: Largest = field(default_factory=Largest)
    said: list = field(default_factory=list)  # a fit warns of leverage once, whoever asks first
    whole: Rows | None = None  # all rows, where ``rows`` are some of them
    known_steps: dict = field(default_factory=dict)
    clip: Clip = field(default_factory=Clip)

    @classmethod
    def of(cls, rows, curvature, correction="HC0", closed_form=False):
        """One pass over the rows, and the factor of what it adds up to.

        The scatter of the scores is part of that pass where they will be taken as they are, or all scaled alike. That
        can be told before only from a bound, a leverage per parameter; "auto" is otherwise left for later.
        """
        scatter = closed_form and cls.takes_scores_as_they_are(rows, curvature, correction)
        with np.errstate(all="ignore"):  # what overflows is told below
            moments, largest = rows.sum(partial(first_pass, curvature, scatter))
        return cls.from_moments(rows, curvature, moments, largest)

    @classmethod
    def from_moments(cls, rows, curvature, moments, largest):
        """The factor of what one pass over the rows adds up to."""
        _check_finite(moments)
        H_r = curvature.factor(rows, moments)
        return cls(rows, moments, H_r, curvature, H_r.effective_parameters(curvature.shift(rows.model)), largest)

    @staticmethod
    def takes_scores_as_they_are(rows, curvature, correction):
        """Whether no row's own leverage will correct its score, as far as that can be told before it is known."""
        few = len(rows.model.theta) <= SMALL_LEVERAGE * rows.model.loss.curvature_rank * rows.n
        alike = correction in ("HC0", "HC1") or (correction == "auto" and (few or not curvature.knows_leverages))
        return alike and rows.groups is None

    @property
    def n(self):
        """Number of observations: the sum of the weights."""
        return self.moments.n

    @cached_property
    def hat(self):
        """The hat matrix, row by row."""
        return Hat(self.H_r.inverse_root, self.n, self.curvature.of_loss)

    def _map(self, f):
        return self.rows.map(f, self.rows.model.n_outputs * self.hat.width)

    @property
    def is_flexible(self):
        """Whether leverages charge for parameters that training did not use, so that nothing made of them is right.

        A model that is not linear may have many effective parameters per row at a minimum, where leverages hold, but
        not short of one, and not nearly one for every row.
        """
        few = self.parameters_per_row <= (EASY_LEVERAGE if self._least_damping else MOST_FLEXIBLE)
        if self.rows.model.is_linear or not self.curvature.factors_again or few:
            return False
        return self.parameters_per_row > AS_MANY_AS_ROWS or self._is_short_of_a_minimum

    @cached_property
    def _is_short_of_a_minimum(self):
        return self.stationarity(quiet=True) > SHORT_OF_A_MINIMUM

    @property
    def _least_damping(self):
        """What training that ends short of a minimum amounts to, of a regressor with a dense curvature; else zero."""
        if self.rows.model.loss.n_classes or not self.curvature.knows_leverages or not self._is_short_of_a_minimum:
            return 0.0
        mean = self.rows.mean(partial(_target_deviations, 0.0), self.n)[0]
        variance = self.rows.mean(partial(_target_deviations, mean), self.n)[1]
        return LEAST_DAMPING * float(np.mean(variance))  # over the outputs

    @property
    def parameters_per_row(self):
        """Effective parameters per observation and direction of its curvature."""
        return self.effective_parameters / (self.n * self.rows.model.loss.curvature_rank)

    def damped(self):
        """The same with the smallest damping that leaves MOST_FLEXIBLE effective parameters per row, or a larger one.

        Short of a minimum, training has left directions where it found them, as a penalty would.
        """
        if self.parameters_per_row <= MOST_FLEXIBLE:
            return self.at_damping(self._least_damping)
        most = MOST_FLEXIBLE * self.n * self.rows.model.loss.curvature_rank
        trace = float(np.sum(self.H_r.diagonal))
        low, high = 1e-15 * trace, trace / most  # tr(H (H + damping)^-1) <= tr(H) / damping
        effective = self._effective_parameters_by_damping()
        while high > (1 + 1e-7) * low:
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if effective(middle) > most else (low, middle)
        return self.at_damping(max(high, self._least_damping))

    def _effective_parameters_by_damping(self):
        """A function of the damping: by eigenvalues where H_r is an array, by another factor where that is cheap."""
        if not self.curvature.knows_leverages:
            return lambda damping: self.at_damping(damping).effective_parameters
        values, vectors = np.linalg.eigh(self.H_r.to_dense())
        values = np.maximum(values, 0.0)
        own = np.maximum(values - self.curvature.shift(self.rows.model) @ vectors**2, 0.0)  # v' H v
        return lambda damping: np.sum(own / (values + damping))

    def at_damping(self, damping):
        """The same with another damping."""
        curvature = self.curvature.with_damping(damping)
        H_r = curvature.factor(self.rows, self.moments)
        shift = curvature.shift(self.rows.model)
        effective = H_r.effective_parameters(shift)
        return replace(self, H_r=H_r, curvature=curvature, effective_parameters=effective, known_steps={})

    def sample(self, size):
        """The same of some rows, in memory, at random where there are more; sums are still those of all rows."""
        n = self.rows.n_rows
        if n <= size and self.rows.in_memory:
            return self
        return replace(self, rows=self.rows.take(some_of(n, size)), whole=self.rows)

    # ------------------------------------------------------------------ leverages
    @cached_property
    def mean_leverage(self):
        """Effective parameters per observation and direction of its curvature, at most MAX_LEVERAGE."""
        mean = self.parameters_per_row
        if mean > MAX_LEVERAGE:
            self._warn_of_leverage("The model has as many effective parameters as there are observations")
        return min(mean, MAX_LEVERAGE)

    @cached_property
    def leverages(self):
        """h_i, (n_rows,), none above MAX_LEVERAGE."""
        single = self.rows.model.n_outputs == 1 and self.rows.groups is None
        h = self._left_out[1] if single else self._map(partial(leverages, self.hat))
        self._warn_of_lone_rows(int(((h > MAX_LEVERAGE) & (self.rows.weight > 0)).sum()))
        return np.minimum(h, MAX_LEVERAGE)

    def _warn_of_lone_rows(self, count):
        if count:
            self._warn_of_leverage(f"{count} of {self.rows.n_rows} rows determine their own fitted value")

    def _warn_of_leverage(self, what):
        if self.said:
            return
        self.said.append(what)
        n_rows = self.rows.n_rows
        cure = "Penalise the base model more, or use noise as a number and correction='HC0'."
        if self.n < 0.9 * n_rows and self.effective_parameters < MAX_LEVERAGE * n_rows:
            cure = (
                f"sample_weight means frequency: these weights sum to {self.n:.3g}, and stand for that many "
                f"observations in place of {n_rows}. Scale them to sum to the number of rows."
            )
        warn_user(
            f"{what}: leverage above {MAX_LEVERAGE} is taken as {MAX_LEVERAGE}, and what depends on it is a guess. "
            + cure,
            LeverageWarning,
        )

    def lone(self):
        """Directions (p, l) that single rows determine, see :func:`lone_directions`; none where leverages are rough.

        Of groups they are known once the fits without them are. A row can have such a leverage only where there are few
        rows, or one of them lies far out in a column: in long tables the bound mostly spares the second pass.
        """
        p, rough = len(self.rows.model.theta), not self.curvature.knows_leverages
        if self.rows.groups is not None and not rough:
            return next((found.lone for found in self.known_steps.values()), np.zeros((p, 0)))
        if rough or self.largest.leverage(self.hat) < MAX_LEVERAGE:
            return np.zeros((p, 0))
        found, rank = self.foremost, self.rows.model.loss.curvature_rank
        suspects = np.flatnonzero(found.rough * rank > SUSPECT)
        suspects = np.sort(suspects[np.argsort(-found.rough[suspects], kind="stable")[:MOST_LONE]])
        if not len(suspects):
            return np.zeros((p, 0))
        return self._of_foremost(suspects, partial(lone_directions, self.hat)).T

    @property
    def _most_decisive(self):
        """Rows whose share in a prediction's variance is looked at one by one."""
        return MOST_DECISIVE // self.rows.model.loss.curvature_rank

    @cached_property
    def foremost(self):
        """Rows that have the largest leverages, found by one cheap pass; see Foremost."""
        M = self.H_r.inverse_root
        probes = left_multiply(M, np.random.default_rng(0).standard_normal((M.shape[1], N_PROBES)) / np.sqrt(N_PROBES))
        at_most = max(SPARE * self._most_decisive, MOST_LONE // self.rows.model.loss.curvature_rank)
        return self.rows.sum(partial(foremost_rows, Hat(probes, self.n, self.hat.curvature), at_most))

    def _of_foremost(self, some, f):
        """Concatenation of f(block) over some of the foremost rows."""
        model, found = self.rows.model, self.foremost
        size = max(LEAST_AT_ONCE, BLOCK_BYTES // (8 * self._wide(0)))
        pieces = [some[start : start + size] for start in range(0, len(some), size)]
        blocks = (Block(model, found.Z[few], found.y[few], found.weight[few]) for few in pieces)
        return np.concatenate(list(map(f, blocks)))

    @cached_property
    def _foremost_leverages(self):
        """Exact leverages of the foremost rows."""
        return self._of_foremost(np.arange(len(self.foremost.y)), partial(leverages, self.hat))

    # ------------------------------------------------------------------ what noise models and scores are made of
    @cached_property
    def squared_residuals(self):
        """(y_i - mu_i)^2 / V(mu_i), (n_rows,)."""
        return self.rows.map(_squared_residuals)

    @cached_property
    def growth(self):
        """By what each residual grows under the fit to all other rows, or groups, (n_rows,): 1 / (1 - h_i) of rows."""
        if self.rows.groups is None:
            return 1 / (1 - self.leverages)
        return self._map(partial(_growth, self.hat, self.steps(-1.0, MAX_LEVERAGE)))

    def grown_mean_square(self, power):
        """Mean of squared residuals times a power of :attr:`growth`, without an array of all rows."""
        if self.rows.in_memory:  # which may know the growth already
            return float(np.average(self.squared_residuals * self.growth**power, weights=self.rows.weight))
        alone = self.rows.groups is None
        growth = partial(row_growth, self.hat) if alone else partial(_growth, self.hat, self.steps(-1.0, MAX_LEVERAGE))
        return float(self.rows.mean(partial(grown_squares, growth, power), self.n, self._wide(0)))

    def leave_one_out(self):
        """Raw predictions (n_rows, k) of every row under the fit to all others, by one Newton step each.

        Where rows have groups, the fit is to all other groups.
        """
        if self.rows.groups is None:
            single = self.rows.model.n_outputs == 1
            return self._left_out[0] if single else self._map(partial(leave_one_out, self.hat))
        return self._map(partial(leave_group_out, self.steps(-1.0, MAX_LEVERAGE)))

    @cached_property
    def _left_out(self):
        """What noise and its law ask for: raw predictions (n_rows, 1) without each row, and leverages (n_rows,)."""
        return self._map(partial(leave_one_out_and_leverages, self.hat))

    def steps(self, power, most):
        """Steps to the fits without each group, (G, p), see :func:`group_steps`."""
        if (power, most) in self.known_steps:
            return self.known_steps[power, most].steps
        rows = self.rows if self.whole is None else self.whole
        powers = (-1.0, power) if most == MAX_LEVERAGE and power != -1 else (power,)  # noise will ask for the first
        found = group_steps(rows, self.hat, powers, most)
        self.known_steps.update({(each, most): steps for each, steps in found.items()})
        if n_decisive := self.known_steps[power, most].n_decisive:
            self._warn_of_leverage(
                f"{n_decisive} of {rows.groups.n} groups determine a direction of the parameters by themselves, as "
                "where a category or the value of a column that belongs to groups is found in one group alone"
            )
        return self.known_steps[power, most].steps

    def unit_steps(self):
        """Steps to the fits without each row, (n_rows, p), or each group, (G, p), in the model's own coordinates."""
        if self.rows.groups is not None:
            return self.rows.model.uncentred(self.steps(-1.0, MAX_LEVERAGE).T).T
        steps, h = self._map(partial(leave_one_out_steps, self.hat))
        self._warn_of_lone_rows(int(((h > MAX_LEVERAGE) & (self.rows.weight > 0)).sum()))
        return self.rows.model.uncentred(steps.T).T

    def stationarity(self, quiet=False):
        """Norm of mean score plus penalty gradient in standard errors of the mean score; warns where it is large.

        Each coordinate is in units of its own curvature, so that units of the features do not matter.
        """
        model, diagonal = self.rows.model, self.H_r.diagonal
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, np.inf))
        gradient = np.linalg.norm(scale * (self.moments.g_bar + model.grad_penalty()))
        standard_error = np.linalg.norm(scale * self.moments.standard_error)
        size = np.linalg.norm(model.theta / np.where(scale > 0, scale, np.inf))  # of f, in units of the loss
        if gradient <= ROUNDING * size or standard_error == 0:
            return 0.0
        stationarity = float(gradient / standard_error)
        if stationarity > STATIONARITY_LIMIT and not quiet:
            warn_user(
                f"The training gradient is {stationarity:.2g} standard errors from zero, so the model is not at the "
                f"minimum that is expanded around. {model.cure}",
                NotStationaryWarning,
            )
        return stationarity

    def warn_of_separation(self):
        """Say so where a classifier's scores are too small for its own probabilities."""
        observed, expected = self.rows.sum(squared_scores)
        if observed < SEPARATION * expected:
            warn_user(
                "The classifier is right about its training rows far more often than its own probabilities say, as "
                "where classes can be separated: their scores vanish, and with them the uncertainty that is made of "
                "them. Penalise the base model more.",
                SeparationWarning,
            )

    # ------------------------------------------------------------------ the ribbon
    def ribbon(self, alpha, correction, closed_form, n_draws, seed, newton=False):
        """The ribbon of scores whose small-sample shrinkage is undone as ``correction`` says."""
        self._warn_of_few_groups()
        correction = self.resolved(correction)
        (gradient, centre), units = self.centred_scores(correction), self.rows.units
        lone = self.lone()
        if correction in ("HC2", "HC3") and self.rows.groups is None:
            self._warn_of_lone_rows(self._count(lone))
        if not closed_form:
            shifts = (self.newton_shifts if newton else self._linear_shifts)(alpha, gradient, n_draws, seed)
            ribbon = Ribbon.of_shifts(self.H_r, shifts, units, lone, mean=None if newton else 0.0)
            return replace(ribbon, freedom=self.freedom(correction))
        if np.ndim(self.moments.gg) and correction in ("HC0", "HC1") and self.clip.scores is None:
            H_Fc = self.moments.H_Fc * (1.0 if correction == "HC0" else 1 / (1 - self.mean_leverage))
        else:
            width = None if correction in ("HC0", "HC1") else self._wide(0)
            mean, second = self._score_moments(correction, gradient, width)
            cross = np.outer(mean, centre)
            H_Fc = second - cross - cross.T + np.outer(centre, centre)
        ribbon = Ribbon.closed_form(self.H_r, H_Fc, units, alpha, lone)
        return replace(ribbon, freedom=self.freedom(correction))

    def _linear_shifts(self, alpha, gradient, n_draws, seed):
        sums = self.rows.sum(DirichletSums(alpha, n_draws, seed, gradient), self._wide(n_draws))
        U = dirichlet_scores(sums, alpha, self.n / self.rows.units)
        shifts = parameter_shifts(self.H_r, U)
        return self._clipped(shifts, -np.einsum("pb,pb->b", U, shifts), alpha)

    def _clipped(self, shifts, squared, alpha):
        """Shifts none of which is longer than ``clip.steps`` units; ``squared`` (B,) are lengths in the norm of H_r."""
        if self.clip.steps is None:
            return shifts
        loss, units = self.rows.model.loss, self.rows.units
        phi = 1.0 if loss.n_classes else self.moments.chi2 / (self.n * (1 - self.mean_leverage))
        bound = self.clip.steps * np.sqrt(phi * self.effective_parameters * dispersion(units, alpha))
        return clipped_shifts(shifts, np.sqrt(np.maximum(squared, 0.0)), bound)

    def newton_shifts(self, alpha, gradient, n_draws, seed):
        """Steps (p, B) by the curvature that the drawn weights make; says so where they leave too little of it."""
        model, units = self.rows.model, self.rows.units
        drawn, width = NewtonSums(alpha, n_draws, seed, gradient, self.curvature), self._wide(n_draws)
        sums, H = self.rows.sum(drawn, width)
        U, total = dirichlet_scores(sums, alpha, self.n / units), sums[-1, :-1] * (self.n / units)
        H /= total[:, None, None]
        penalised = H + np.diag(self.curvature.shift(model))
        H_w = ReweightedCurvature.of(self.H_r.inverse_root, penalised, least_curvature(model))
        shifts = H_w.shifts(U)
        if not is_quadratic(model):
            with np.errstate(all="ignore"):  # an inverse link may overflow after a long step
                moved = self.rows.sum(drawn.at(shifts), width) / total  # the same blocks have the same draws
                remainder = moved - np.einsum("bpq,qb->pb", H, shifts)
            shifts = H_w.second_order(U, remainder)
        if H_w.is_flat.mean() > MANY_FLAT:
            warn_user(
                f"In {int(H_w.is_flat.sum())} of {n_draws} draws the weights leave less than {H_w.least:.2g} of the "
                "curvature in some direction, as where few rows tell classes apart; it counts as that, since a Newton "
                "step has no bound otherwise. Use a larger alpha, penalise the base model more, or take "
                "predictive='pushforward'.",
                NewtonStepWarning,
            )
        squared = np.einsum("pb,pb->b", shifts, self.H_r.to_dense() @ shifts)
        return self._clipped(shifts, squared, alpha)

    @cached_property
    def _rows_are_alike(self):
        """Whether no row has a leverage to speak of; of long tables the bound mostly tells, without another pass."""
        if self.mean_leverage > SMALL_LEVERAGE:
            return False
        return self.largest.leverage(self.hat) < FAR or self._highest_leverage < FAR

    @cached_property
    def _highest_leverage(self):
        h = self._foremost_leverages
        self._warn_of_lone_rows(int((h > MAX_LEVERAGE).sum()))
        return float(h.max(initial=0.0))

    def freedom(self, correction):
        """Degrees of freedom of the ribbon's variances, see :class:`Freedom`.

        "HC0" corrects nothing, leave-one-out scores of single rows, HC3, are more than enough as they are, and where
        leverages are not known, all rows are taken to be alike.
        """
        p = len(self.rows.model.theta)
        if correction == "HC0" or (correction == "HC3" and self.rows.groups is None):
            return None
        if self.rows.groups is not None:
            found = self.known_steps.get((POWERS["HC2"], most_leverage(self.rows.model.loss)))
            return Freedom.constant(p, self.rows.units - 1) if found is None else self._freedom_of_groups(found.K)
        most = self.n * (1 - min(self.parameters_per_row, 1.0))
        few = max(self.n, self.rows.n_rows) <= self._most_decisive  # a weight of two is two rows
        if not self.curvature.knows_leverages or (not few and self._rows_are_alike):
            return Freedom.constant(p, most)
        top = self._decisive(few)
        if not len(top) or not self.H_r.inverse_root.shape[1]:  # of a saturated network nothing is determined
            return Freedom.constant(p, most)
        M, E = self.H_r.inverse_root, self._of_foremost(top, partial(expected_scores, self.hat))
        rows, copies = left_multiply(M, E.reshape(-1, M.shape[1]).T), self.foremost.weight[top]
        if few:
            return Freedom(rows, copies, most=max(most, 1.0))
        return Freedom(rows, copies, self._expected_root(), max(self.n - copies.sum(), 1.0), max(most, 1.0))

    def _decisive(self, few):
        """Which of the foremost rows are looked at one by one: all if they are few, else those of large leverages."""
        h = self._foremost_leverages
        if few:
            return np.arange(len(h))
        top = np.argsort(-h, kind="stable")[: self._most_decisive]
        return np.sort(top[h[top] >= DECISIVE])

    def _expected_root(self):
        """Root (p, r) of n H_r^-1 H H_r^-1: the sum over all rows of what each contributes."""
        M = self.H_r.inverse_root
        shift = self.curvature.shift(self.rows.model)
        if not shift.any():
            return np.sqrt(self.n) * M
        data = -gram(np.sqrt(shift)[:, None] * M)  # less I: the share of the penalty
        data[np.diag_indices_from(data)] += 1 + rank_tolerance(len(M))  # so that what is penalty alone has a pivot
        return np.sqrt(self.n) * left_multiply(M, np.linalg.cholesky(data))

    def _freedom_of_groups(self, K):
        """The same of groups: c_g^2 is the sum of its rows', at most one degree less than there are groups.

        K (m, p, p) are the curvatures of those that matter most.
        """
        p, G, m = len(self.rows.model.theta), self.rows.units, len(K)
        if not m:
            return Freedom.constant(p, G - 1)
        values, vectors = np.linalg.eigh(K)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        rows, root = self.H_r.solve(roots.transpose(1, 0, 2).reshape(p, -1)), None if m >= G else self._expected_root()
        return Freedom(rows, np.ones(m), root, max(G - m, 1.0), max(G - 1.0, 1.0))

    def _warn_of_few_groups(self):
        G, p = self.rows.units, self.effective_parameters
        if self.rows.groups is not None and (p >= G or G < FEW_GROUPS):
            warn_user(
                f"There are {p:.3g} effective parameters and {G:.0f} groups: how groups differ is known from so few "
                "that Student's quantiles make up for the noise of that alone, not for directions in which hardly any "
                "of them differ. Collect more groups, drop columns, or penalise the base model.",
                FewGroupsWarning,
            )

    def _score_moments(self, correction, gradient, width):
        """Mean (p,) and mean square (p, p) of the scores of the units, each of the size of one row's."""
        if self.rows.groups is None:
            return self.rows.mean(partial(score_sums, gradient), self.n, width)
        unbounded = self.clip.scores is None and np.isinf(self.rows.model.loss.gradient_bound(np.zeros(1))).all()
        if correction in POWERS and unbounded:
            self.steps(POWERS[correction], MAX_LEVERAGE)
            S = self.known_steps[POWERS[correction], MAX_LEVERAGE].scores  # no gradient is bounded: no more passes
            sums, squares = S.sum(axis=0), gram(S)
        else:
            sums, squares = self.rows.sum(partial(group_scores, gradient, self.rows.groups.count), width).total
        return sums / self.n, squares * (self.rows.units / self.n**2)

    def _count(self, lone):
        return lone.shape[1] // self.rows.model.n_outputs

    def _wide(self, n_draws):
        """Floats that a row takes in passes with a hat matrix, or its rough substitute, and with draws."""
        model = self.rows.model
        if self.curvature.knows_leverages:
            return model.n_outputs * max(self.hat.width, n_draws)
        return max(model.row_width, model.n_outputs * max(FEW_COLUMNS, n_draws))

    def resolved(self, correction):
        """What "auto" stands for: HC1 where no row has a leverage to speak of, since that has no second pass, else HC2.

        A linear model with many parameters per row is mostly penalised, and leave-one-out scores, HC3, see some of what
        the penalty hides.
        """
        if correction != "auto":
            return correction
        if self.rows.groups is not None:
            return "HC2" if self.curvature.knows_leverages else "HC1"
        if not self.curvature.knows_leverages or self._rows_are_alike:
            return "HC1"
        model = self.rows.model
        easy = model.loss.n_classes or not model.is_linear or self.parameters_per_row <= EASY_LEVERAGE
        return "HC2" if easy else "HC3"

    def centred_scores(self, correction):
        """What takes the place of u_i to undo the shrinkage of a fitted row's score, about 1 - h_i; and a centre (p,).

        HC1 corrects all rows by the mean leverage, HC2 each by its own, HC3 uses the score that the row would have
        under the fit to all others. Of groups, HC1 is G / (G - 1) (n - 1) / (n - p), and the others do the same with
        the hat matrix of a whole group.

        Scores are measured from the centre: those of single rows add up to zero only together with their share of the
        penalty's gradient, -g_bar. Clipping moves the centre with their mean.
        """
        gradient, centre = self._corrected_scores(correction)
        if self.clip.scores is None:
            return gradient, centre
        M, some = self.H_r.inverse_root, self.sample(MEDIAN_ROWS).rows
        size, weight = some.map(partial(score_sizes, gradient, M), self._wide(0))
        clipped = partial(clipped_gradient, gradient, M, self.clip.scores * weighted_median(size, weight))
        return clipped, centre + self.rows.mean(partial(_score_change, clipped, gradient), self.n, self._wide(0))

    def _corrected_scores(self, correction):
        G, n, alone, g_bar = self.rows.units, self.n, self.rows.groups is None, self.moments.g_bar
        if correction in ("HC0", "HC1"):
            few_groups = 1.0 if alone else G / (G - 1) * (n - 1) / n
            # weights that sum to one leave no n - 1 observations: a correction only ever widens
            factor = 1.0 if correction == "HC0" else np.sqrt(max(few_groups / (1 - self.mean_leverage), 1.0))
            return partial(constant_gradient, factor), factor * g_bar
        if alone:
            return partial(corrected_gradient, self.hat, POWERS[correction]), g_bar
        steps = self.steps(POWERS[correction], most_leverage(self.rows.model.loss))
        return partial(group_corrected_gradient, self.hat, steps), g_bar


def _score_change(gradient, before, block):
    return block.score_sum(gradient(block) - before(block))


def is_quadratic(model):
    """Whether the training objective is a quadratic function of theta, so that one Newton step is a refit."""
    return model.is_linear and model.loss.quadratic


def least_curvature(model):
    """What a reweighted curvature counts at least, as a share of H_r."""
    return ROUNDING if is_quadratic(model) else LEAST_CURVATURE


def _growth(hat, steps, block):
    """(I - C A)^-1 u over u, of the first raw prediction, (b,)."""
    u, change = block.u[:, 0], np.einsum("nl,nl->n", hat.curvature(block)[:, 0], moved(steps, block))
    return 1 + np.divide(change, u, out=np.zeros_like(u), where=u != 0)


def _squared_residuals(block):
    return block.model.loss.squared_residuals(block.f, block.y)


def _target_deviations(centre, block):
    """Sums over the block of y - centre, and of its square."""
    off = block.y - centre
    return np.array([block.weight @ off, block.weight @ off**2])


def row_growth(hat, block):
    """1 / (1 - h_i), (b,): by what a residual grows under the fit to all other rows."""
    return 1 / (1 - np.minimum(leverages(hat, block), MAX_LEVERAGE))


def grown_squares(growth, power, block):
    """Sum over the block of squared residuals, each times a power of its growth."""
    return block.weight @ (_squared_residuals(block) * growth(block) ** power)


def _check_finite(moments):
    numbers = [moments.n, moments.g, moments.g2, moments.gg, moments.chi2]
    if isinstance(moments.curvature, np.ndarray):
        numbers.append(moments.curvature)
    if not all(np.isfinite(number).all() for number in numbers):
        raise ValueError(
            "Sums of squares over the training rows are not finite: X, y or the fitted coefficients are so large that "
            "they overflow, or a mean has left the range of its family. Bring the columns of X to a common scale "
            "(StandardScaler in a pipeline), and y too (TransformedTargetRegressor), or penalise the base model."
        )
