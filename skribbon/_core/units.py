r"""Effect of each training row, or group of rows, on its own fit: leverages, corrected scores, left-out predictions.

With :math:`A_i = J_i H_r^{-1} J_i' / n` and the curvature :math:`C_i` of the loss in f, :math:`C_i A_i` is the row's
block of the hat matrix. The fit shrinks the score of a row, and :math:`(I - C_i A_i)^{power} u_i` undoes that: by the
power -1/2 on average (HC2), by -1 the score is the one under the fit to all other rows (HC3).

Groups of rows have one Dirichlet weight each, and :math:`\frac Gn S_g`, with :math:`S_g = \sum_{i \in g} g_i`, replaces
:math:`g_i` in the formulas of the paper. With :math:`K_g = \sum_{i \in g} J_i' C_i J_i`, :math:`M M' = H_r^{-1}`,
:math:`L_g = M' K_g M / n` and :math:`\phi(l) = ((1 - l)^{power} - 1) / l`, the step
:math:`\Delta_g = M \phi(L_g) M' S_g / n` makes :math:`u_i + C_i J_i \Delta_g` equal to :math:`(I - C A)^{power} u` with
the group's block C A of the hat matrix. By the power -1 the step leads to the fit without the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._utils.compat import cached_property
from . import thresholds
from .linalg import row_covariances
from .rows import BLOCK_BYTES, Sums

MOST_SINGLE = 500  # most stored directions that single rows determine: 4 MB per 1,000 parameters
MOST_SINGLE_GROUPS = 64  # most stored directions that single groups determine: enough for a warning
MOST_CURVATURES = 4000  # columns of group curvatures L_g that are kept for degrees of freedom: 32 kB per parameter
SERIES_TRACE = 0.1  # trace of L_g up to which (1 - l)^power is summed as a series: at most 18 terms, 2x to 6x faster
ROUGH_COLUMNS = 64  # columns of an inverse root that is only estimated, N_PROBES: sets the size of blocks
POWERS = {"HC0": 0.0, "HC1": 0.0, "HC2": -0.5, "HC3": -1.0}  # powers of I - C A that correct scores


# ---------------------------------------------------------------------- the hat matrix
@dataclass(frozen=True, eq=False)
class Hat:
    """Blocks of the hat matrix, C_i A_i; a row of a weight above one is as many copies, each with its own leverage."""

    M: np.ndarray  # (p, q), with M M' = H_r^-1
    n: float  # number of observations
    curvature: Callable[[Any], np.ndarray]  # from a block to C (b, k, k)

    @classmethod
    def from_training(cls, training):
        """Build from the factored curvature of training rows."""
        return cls(training.H_r.inverse_root, training.n, training.curvature.of_loss)

    def __call__(self, block):
        """C and A, (b, k, k) each, V = J M, (b, k, q), and the weight of one copy of each row over n, (b,)."""
        V, share = block.tangent.jvp(self.M), np.minimum(block.weight, 1.0) / self.n
        return self.curvature(block), row_covariances(V) * share[:, None, None], V, share


def pass_width(training, n_draws=0):
    """Floats that a row takes in passes with the hat matrix, or its estimate, and with draws."""
    model = training.rows.model
    if training.curvature.knows_leverages:
        return model.loss.n_outputs * max(sum(training.H_r.inverse_root.shape), n_draws)
    return max(model.row_width, model.loss.n_outputs * max(ROUGH_COLUMNS, n_draws))


def resolvent(C, A, u, power, most=thresholds.MAX_LEVERAGE):
    """(I - C_i A_i)^power u_i, (n, k), for symmetric C, A >= 0; eigenvalues of C A are capped at ``most``."""
    if power == 0:
        return u
    if u.shape[1] == 1:
        return (1 - np.minimum(C[:, 0] * A[:, 0], most)) ** power * u
    # A = S S' and S' C S = E diag(l) E' give (C A)^j = C S E diag(l^(j - 1)) E' S', and so any power series of C A
    values, vectors = np.linalg.eigh(A)
    S = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    pulls, E = np.linalg.eigh(S.transpose(0, 2, 1) @ C @ S)
    SE = S @ E
    inner = hat_power(pulls, power, most) * np.einsum("nkl,nk->nl", SE, u)
    return u + np.einsum("nkl,nl->nk", C, np.einsum("nkl,nl->nk", SE, inner))


def hat_power(h, power, most=thresholds.MAX_LEVERAGE):
    """((1 - h)^power - 1) / h for eigenvalues h of a hat matrix, capped at ``most``; -power at zero."""
    small = np.abs(h) < 1e-8
    capped = (1 - np.minimum(h, most)) ** power - 1
    return np.where(small, -power, capped / np.where(small, 1.0, h))


def max_leverage(loss):
    """Cap on leverages under a loss."""
    return thresholds.MAX_CLASS_LEVERAGE if loss.n_classes else thresholds.MAX_LEVERAGE


def own_leverages(block, C, A):
    """Leverages (b, q): one per output if y has several columns, else tr(C_i A_i) over the rank of C_i."""
    h = np.einsum("nkl,nlk->nk", C, A)
    return h if block.model.loss.by_output else h.sum(axis=1, keepdims=True) / block.model.loss.curvature_rank


# ---------------------------------------------------------------------- corrected gradients of the loss in f, (b, k)
def corrected_gradient(hat, power, block):
    """Gradients with the shrinkage of a fitted score undone row by row."""
    C, A, _, _ = hat(block)
    return corrected(block, C, A, power)


def corrected(block, C, A, power):
    """(I - C_i A_i)^power u_i, (b, k), none longer than the gradient of its row's loss can be."""
    return bounded(resolvent(C, A, block.u, power, max_leverage(block.model.loss)), block) if power else block.u


def covariance_without(training, rows, covariance):
    """Covariances (n, k, k) of raw predictions by the fits without each of some training rows, to first order.

    ``covariance`` (n, k, k) is by the fit to all rows. Without exact leverages it is returned as it is.
    """
    if not training.curvature.knows_leverages:
        return covariance
    of_block = partial(_own_effects, Hat.from_training(training), POWERS[training.correction_used])
    AC, step = rows.map(of_block, pass_width(training))
    step = step / np.sqrt(1 - training.mean_leverages.mean() if training.correction_used == "HC1" else 1.0)
    largest = np.linalg.eigvals(AC).real.max(axis=1) if AC.shape[1] > 1 else AC[:, 0, 0]
    capped = AC * np.minimum(1, thresholds.MAX_LEVERAGE / np.maximum(largest, 1e-300))[:, None, None]
    B = np.linalg.inv(np.eye(AC.shape[1]) - capped)
    found = B @ (covariance - step[:, :, None] * step[:, None]) @ B.transpose(0, 2, 1)
    variances = np.einsum("nkk->nk", found)  # a view
    np.maximum(variances, 0.0, out=variances)
    return found


def _own_effects(hat, power, block):
    """A_i C_i (b, k, k), and what each row's own corrected score adds to its raw prediction, (b, k)."""
    C, A, _, _ = hat(block)
    return A @ C, np.einsum("nkl,nl->nk", A, corrected(block, C, A, power))


def scaled_gradient(factor, block):
    """Gradients times a factor, or one for each raw prediction."""
    return factor * block.u


def group_gradient(hat, steps, block):
    """Gradients with the shrinkage undone that a group's own fit causes; ``steps`` (G, p) of theta."""
    return bounded(block.u + np.einsum("nkl,nl->nk", hat.curvature(block), moved(steps, block)), block)


def bounded(u, block):
    """Vectors u (b, k), none longer than the gradient of its row's loss can be."""
    most = block.importance[:, 0] * block.model.loss.gradient_bound(block.y)
    return shortened(u.T, np.linalg.norm(u, axis=1), most).T


def shortened(A, size, bound):
    """Columns of A (p, B) of lengths ``size`` (B,), none longer than the bound."""
    return A * np.divide(bound, size, out=np.ones_like(size), where=size > bound)


@dataclass(frozen=True)
class Clip:
    """Bounds on the effect of one row, or of one draw; None for no bound."""

    scores: float | None = None  # largest length sqrt(g' H_r^-1 g) of a score, in units of the median length
    steps: float | None = None  # largest length of a step in the norm of H_r, in units of sqrt(phi p / (n alpha + 1))


NO_CLIP = Clip()


def clipped_gradient(gradient, M, bound, block):
    """Gradients, shortened if a row's score is longer than the bound."""
    u, length = score_lengths(gradient, M, block)
    return shortened(u.T, length, bound).T


def score_lengths(gradient, M, block):
    """Gradients u_i (b, k), and lengths (b,) of the scores J_i' u_i in the norm of H_r^-1 = M M'."""
    u = gradient(block)
    return u, np.linalg.norm(np.einsum("nkr,nk->nr", block.tangent.jvp(M), u), axis=1)


def weighted_median(values, weight):
    """Smallest value up to which half of the weight is reached."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(reached, reached[-1] / 2)]])


# ---------------------------------------------------------------------- the second pass over rows
class Record(NamedTuple):
    """Quantities of every training row, in memory; q is the number of columns of y."""

    leverage: np.ndarray  # (n_rows, q), at most MAX_LEVERAGE
    growth: np.ndarray  # (n_rows, q), ratio of leave-one-out to fitted residual, 1 / (1 - h_i) without groups
    squared: np.ndarray  # (n_rows, q), squared residuals
    left_out: np.ndarray  # (n_rows, k), raw predictions by the fit without the row, or its group, to first order


@dataclass(frozen=True, eq=False)
class Units:
    """Sums over rows once H_r is known; two of them add."""

    scores: Sums  # for each power of I - C A: sums of corrected scores (p,) and of their products (p, p)
    parameters: np.ndarray  # (q,), effective parameters of each column of y: the sum of leverages
    grown: np.ndarray  # (2, q), sums of squared residuals times their growth, and times its square
    influential: Influential
    n_single: int  # number of rows that determine their own fitted value
    single: np.ndarray  # (l, p), how theta moves with the raw predictions of these rows
    pieces: tuple[Record, ...]  # one for each block; empty if rows are not in memory

    def __add__(self, other):
        both = {name: value + getattr(other, name) for name, value in vars(self).items() if name != "single"}
        return Units(**both, single=np.concatenate([self.single, other.single])[:MOST_SINGLE])


@dataclass(frozen=True, eq=False)
class Influential:
    """Contributions of the rows with the largest leverages; two of them add and keep the largest."""

    leverage: np.ndarray  # (m,)
    weight: np.ndarray  # (m,)
    E: np.ndarray  # (m, r, q), R_i' J_i M: contributions to a variance if the noise were what the loss says
    at_most: int  # number of rows that are kept
    all_rows: bool  # whether the table is so short that all rows are kept

    def __add__(self, other):
        rows = [np.concatenate([vars(self)[name], vars(other)[name]]) for name in ("leverage", "weight", "E")]
        top = largest(rows[0], self.at_most)
        return Influential(*(values[top] for values in rows), self.at_most, self.all_rows)


def largest(values, at_most):
    """Indices of at most so many of the largest values, in ascending order."""
    return np.sort(np.argsort(-values, kind="stable")[:at_most])


def second_pass(training, powers):
    """Units of all rows; scores are summed for some powers of I - C A, and for none without exact leverages."""
    rows, model, exact = training.rows, training.rows.model, training.curvature.knows_leverages
    at_most = thresholds.MOST_INFLUENTIAL // (1 if model.outputs_are_separate else model.loss.curvature_rank)
    short = exact and max(training.n, rows.n_rows) <= at_most  # a weight of two counts as two rows
    least = 0.0 if short else thresholds.MIN_INFLUENTIAL_LEVERAGE if exact else np.inf
    powers, influential = powers if exact else (), partial(_influential_rows, least, at_most, short)
    of_block = partial(_block_units, Hat.from_training(training), powers, influential, rows.in_memory)
    return rows.sum(of_block, pass_width(training))


def _block_units(hat, powers, influential, in_memory, block):
    """Units of a block, with a Record if rows are in memory."""
    C, A, V, share = hat(block)
    h, squared, weight = own_leverages(block, C, A), block.squared_residuals, block.weight
    capped = np.minimum(h, thresholds.MAX_LEVERAGE)
    growth = 1 / (1 - capped)
    left_out = block.f + np.einsum("nkl,nl->nk", A, resolvent(C, A, block.u, -1.0))  # exact for least squares
    n_single, single = _single_rows(C, A, V, share * (weight > 0), hat.M)
    return Units(
        scores=Sums([block.score_moments(corrected(block, C, A, power)) for power in powers]),
        parameters=np.maximum(weight, 1.0) @ h,
        grown=np.stack([block.mass @ (squared * growth), block.mass @ (squared * growth**2)]),
        influential=influential(block, h.mean(axis=1), V),
        n_single=n_single,
        single=single,
        pieces=(Record(capped, growth, squared, left_out),) if in_memory else (),
    )


def _influential_rows(least, at_most, all_rows, block, h, V):
    some = np.flatnonzero(h >= least)
    some = some[largest(h[some], at_most)]
    return Influential(h[some], block.weight[some], block.R[some].transpose(0, 2, 1) @ V[some], at_most, all_rows)


def _single_rows(C, A, V, share, M):
    """Number of rows with an eigenvalue of C A above MAX_LEVERAGE, and their H_r^-1 J_i' C_i / n, (m k, p)."""
    trace = np.einsum("nkl,nlk->n", C, A)
    suspects = np.flatnonzero((trace > thresholds.MAX_LEVERAGE) & np.isfinite(trace) & (share > 0))
    values = np.linalg.eigvals(C[suspects] @ A[suspects]).real.max(axis=1, initial=0.0)
    some = suspects[values > thresholds.MAX_LEVERAGE]
    moves = share[some, None, None] * (C[some] @ V[some])
    return len(some), moves.reshape(len(some) * V.shape[1], V.shape[2]) @ M.T


def leverages_are_small(training):
    """Whether one correction for all rows, HC1, is enough."""
    top = training.units.influential.leverage.max(initial=0.0)
    return training.parameters_per_row <= thresholds.SMALL_MEAN_LEVERAGE and top < thresholds.SMALL_LEVERAGE


def leave_one_out_steps(hat, block):
    """Change of theta to the fit to all other rows, (b, p), by one Newton step."""
    C, A, V, share = hat(block)
    pull = share[:, None] * resolvent(C, A, block.u, -1.0)
    return np.einsum("nkr,nk->nr", V, pull) @ hat.M.T


# ---------------------------------------------------------------------- sums over groups that blocks may cut
@dataclass(frozen=True, eq=False)
class CutGroups:
    """Sums over groups, some of which continue in other blocks; two of them add."""

    total: Any  # sum of ``finish(codes, *sums)`` over stacks of complete groups; None without any
    begun: dict  # from the number of an incomplete group to how many of its rows were seen and their sums
    count: np.ndarray  # (G,), rows of every group
    finish: Callable

    @classmethod
    def from_block(cls, count, finish, codes, seen, sums):
        """Finish the complete groups of a block and keep the sums (g, ...) of the others."""
        whole = count[codes] == seen
        total = finish(codes[whole], *(a[whole] for a in sums)) if whole.any() else None
        begun = {int(codes[k]): (int(seen[k]), tuple(a[k] for a in sums)) for k in np.flatnonzero(~whole)}
        return cls(total, begun, count, finish)

    def __add__(self, other):
        begun, totals = dict(self.begun), [self.total, other.total]
        for code, (seen, sums) in other.begun.items():
            if code in begun:
                before, mine = begun.pop(code)
                seen, sums = seen + before, tuple(a + b for a, b in zip(sums, mine, strict=True))
            if seen == self.count[code]:
                totals.append(self.finish(np.array([code]), *(a[None] for a in sums)))
            else:
                begun[code] = seen, sums
        known = [total for total in totals if total is not None]
        return CutGroups(reduce(add, known) if known else None, begun, self.count, self.finish)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Weighted sums over each group, (G, q), of values (b, q) of a block's rows."""

    values: Callable[[Any], Any]
    count: np.ndarray

    def __call__(self, block):
        codes, place, seen = np.unique(block.group, return_inverse=True, return_counts=True)
        of_row = sparse.csr_array((block.weight, (place, np.arange(len(place)))), shape=(len(codes), len(place)))
        S = of_row @ self.values(block)
        return CutGroups.from_block(self.count, Stack, codes, seen, (S.toarray() if sparse.issparse(S) else S,))

    def of(self, rows, width=None):
        """Sums (G, q) over all rows."""
        return rows.sum(self, width).total.in_order(len(self.count))


class Stack:
    """Arrays (g, ...) of some groups; two of them add by joining."""

    def __init__(self, codes, *arrays):
        self.codes, self.arrays = [codes], [arrays]

    def __add__(self, other):
        both = Stack.__new__(Stack)
        both.codes, both.arrays = self.codes + other.codes, self.arrays + other.arrays
        return both

    def in_order(self, n_groups, k=0):
        """The k-th array of all groups, (G, ...)."""
        codes, values = np.concatenate(self.codes), np.concatenate([arrays[k] for arrays in self.arrays])
        out = np.zeros((n_groups, *values.shape[1:]))
        out[codes] = values
        return out


# ---------------------------------------------------------------------- the second pass over groups
@dataclass(frozen=True, eq=False)
class GroupUnits:
    """Sums over groups once H_r is known; two of them add."""

    stack: Stack  # steps (g, p) of each power, followed by scores S_g + K_g step_g (g, p) of each power
    n_single: int  # number of groups that determine a direction alone
    single: np.ndarray  # (l, p), how theta moves with all rows of such a group
    trace: np.ndarray  # (m,), tr L_g of the groups whose curvature is kept
    L: np.ndarray  # (m, q, q), whitened curvatures of the groups with the largest traces

    def __add__(self, other):
        trace, L = np.concatenate([self.trace, other.trace]), np.concatenate([self.L, other.L])
        top = np.argsort(-trace, kind="stable")[: max(MOST_CURVATURES // max(L.shape[1], 1), 1)]
        single = np.concatenate([self.single, other.single])[:MOST_SINGLE_GROUPS]
        return GroupUnits(self.stack + other.stack, self.n_single + other.n_single, single, trace[top], L[top])


@dataclass(frozen=True, eq=False)
class GroupPass:
    """GroupUnits of a block, as the total of CutGroups."""

    hat: Hat
    powers: tuple[tuple[float, float], ...]  # powers of I - C A, each with the cap on eigenvalues of L_g
    count: np.ndarray  # (G,), rows of every group
    certain: float = thresholds.MAX_LEVERAGE  # eigenvalue of L_g above which a group determines a direction alone

    @cached_property
    def root(self):
        """M / sqrt(n), (p, q)."""
        return self.hat.M / np.sqrt(self.hat.n)

    @cached_property
    def inverse(self):
        """(n H_r)^-1, (p, p)."""
        return self.root @ self.root.T

    def of(self, rows):
        """GroupUnits of all rows."""
        return rows.sum(self, 2 * rows.model.loss.n_outputs * len(self.hat.M)).total

    def __call__(self, block):
        J, C = block.tangent.jacobian(), self.hat.curvature(block) * block.weight[:, None, None]
        W = C @ J if J.shape[1] > 1 else C * J
        u, order = block.u * block.weight[:, None], np.argsort(block.group, kind="stable")
        codes, starts, sizes = np.unique(block.group[order], return_index=True, return_counts=True)
        pieces = []
        for m in np.unique(sizes):  # groups of one size are a stack
            same = np.flatnonzero(sizes == m)
            for some in np.array_split(same, min(len(same), -(-len(same) * J.shape[2] ** 2 * 8 // BLOCK_BYTES))):
                rows = order[starts[some][:, None] + np.arange(m)].ravel()
                Jg, Wg = (A[rows].reshape(len(some), -1, J.shape[2]) for A in (J, W))  # (g, m k, p)
                S = (u[rows].reshape(len(some), 1, -1) @ Jg)[:, 0]  # (g, p)
                sums = S, Jg.transpose(0, 2, 1) @ Wg
                pieces.append(CutGroups.from_block(self.count, self.finish, codes[some], np.full(len(some), m), sums))
        return reduce(add, pieces)

    def finish(self, codes, S, K):
        """GroupUnits of complete groups with scores S (g, p) and curvatures K (g, p, p)."""
        trace = np.einsum("pq,gpq->g", self.inverse, K)
        n_single, single = 0, np.zeros((0, S.shape[1]))
        if (trace >= 0).all() and trace.max() <= SERIES_TRACE:
            steps = [self._series(S, K, power, float(trace.max())) for power, _ in self.powers]
        else:
            pulls, E = np.linalg.eigh(self.root.T @ K @ self.root)
            along = np.einsum("grq,gr->gq", E, S @ self.root)
            phi = [hat_power(pulls, power, most) for power, most in self.powers]
            steps = [np.einsum("grq,gq->gr", E, each * along) @ self.root.T for each in phi]
            group, which = np.nonzero(pulls > self.certain)
            # along such a direction the raw predictions of the group's m rows move by a sum of squares of one
            single = np.sqrt(self.count[codes[group]])[:, None] * (E[group, :, which] @ self.root.T)
            n_single = len(np.unique(group))
        scores = [S + (K @ step[:, :, None])[:, :, 0] for step in steps]
        few = len(self.count) * len(self.root) <= MOST_CURVATURES
        kept = trace >= (-np.inf if few else thresholds.MIN_INFLUENTIAL_LEVERAGE)
        L = self.root.T @ K[kept] @ self.root
        return GroupUnits(Stack(codes, *steps, *scores), n_single, single, trace[kept], L)

    def _series(self, S, K, power, trace):
        """Steps (g, p) by the terms of (1 - l)^power = sum_k c_k l^k, to rounding: cheaper than eigenvalues."""
        term, c = S @ self.inverse, -power
        step, n_terms = c * term, int(np.ceil(np.log(1e-18) / np.log(trace))) if trace > 0 else 0
        for k in range(2, 2 + n_terms):
            c = c * (k - 1 - power) / k
            term = (K @ term[:, :, None])[:, :, 0] @ self.inverse
            step = step + c * term
        return step


def group_steps(training, k=0):
    """Steps of theta (G, p) by the k-th array of the groups' stack; by default to the fits without a group."""
    return training.checked_units.stack.in_order(len(training.rows.groups.count), k)


def moved(steps, block):
    """J_i step_g, (b, k): change of raw predictions with a step of the row's group."""
    return block.tangent.along(steps[block.group])


def record_by_groups(training, rows):
    """Record of some training rows, with predictions by the fits without their groups."""
    of_block = partial(group_record, Hat.from_training(training), group_steps(training))
    return Record(*rows.map(of_block, pass_width(training)))


def group_record(hat, steps, block):
    """Leverages, growth, squared residuals and predictions without the row's group, of a block; see Record."""
    C, A, _, _ = hat(block)
    move, u, squared = moved(steps, block), block.u, block.squared_residuals
    change = np.einsum("nkl,nl->nk", C, move)
    growth = 1 + np.divide(change, u, out=np.zeros_like(u), where=u != 0)
    leverage = np.minimum(own_leverages(block, C, A), thresholds.MAX_LEVERAGE)
    return leverage, growth[:, : squared.shape[1]], squared, block.f + move
