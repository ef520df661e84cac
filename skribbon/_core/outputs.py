r"""Training rows with several outputs, y (n, m).

Where each output has parameters of its own, as in a linear model, a squared error splits into m fits that share their
features. Everything about one output is then what a fit to it alone would know. What the outputs have together are the
Dirichlet weights, hence the blocks of

.. math:: \mathrm{Cov}(\Delta\theta_a, \Delta\theta_b) = \frac{1}{n\alpha + 1} H_a^{-1} H_{F,c}^{ab} H_b^{-1}, \qquad
          H_{F,c}^{ab} = \frac1n \sum_i g_{ia} g_{ib}' - \bar g_a \bar g_b' .

Outputs of a network share their parameters: :class:`SharedOutput` is one of them as a noise model sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from .draws import newton_shifts
from .freedom import Freedom, freedom_of
from .groups import MAX_LEVERAGE, group_scores, moved
from .leverage import POWERS, Largest, most_leverage, resolvent
from .linalg import Factor, gram
from .ribbon import DirichletSums, Ribbon, dirichlet_scores
from .rows import Block, Moments, Rows, Sums
from .training import Training, score_sums


def train(rows, curvature, correction, closed_form):
    """The training rows of a model with whatever outputs it has."""
    kind = SeparateOutputs if rows.model.outputs_are_separate else Training
    return kind.of(rows, curvature, correction, closed_form)


def outputs_of(training):
    """What noise models see of each output; of a single one, the training rows themselves."""
    if isinstance(training, SeparateOutputs):
        return training.parts
    m = len(training.rows.model.loss.by_output)
    shared = SharedOutputs(training)
    return tuple(SharedOutput(shared, j) for j in range(m)) or (training,)


def output_ribbon(ribbon, model, j):
    """The distribution of what parameters one output has."""
    if ribbon.parts:
        return ribbon.parts[j]
    freedom = None if ribbon.freedom is None else ribbon.freedom.output(j)
    if not model.outputs_are_separate:
        return replace(ribbon, freedom=freedom)
    d = len(model.theta) // model.n_outputs
    return ribbon.part(slice(j * d, (j + 1) * d), freedom)


def with_parts(ribbon, model):
    """The ribbon with those of single outputs, where they have parameters of their own: most questions are of these."""
    if not model.outputs_are_separate:
        return ribbon
    return replace(ribbon, parts=tuple(output_ribbon(ribbon, model, j) for j in range(model.n_outputs)))


def parameters_by_output(training):
    """Effective parameters of each output, (m,)."""
    if isinstance(training, SeparateOutputs):
        return np.array([part.effective_parameters for part in training.parts])
    m = training.rows.model.n_outputs
    return np.full(m, training.effective_parameters / m)


def products_of(training):
    """Sums over all rows of products of residuals, (m, m)."""
    if isinstance(training, SeparateOutputs):
        return training.moments.chi2
    return training.rows.sum(residual_products)


def residuals(block):
    """f - y, (b, m)."""
    return block.u


def residual_products(block):
    """Sum over the block of the products of residuals, (m, m)."""
    r = block.weighted(block.u)
    return r.T @ r


# ---------------------------------------------------------------------- outputs with parameters of their own
def output_blocks(block):
    """The block as each output sees it."""
    known = block.weight, block.index, block.group, block.share
    return [Block(model, block.Z, y, *known) for model, y in zip(block.model.outputs, block.y.T, strict=True)]


def first_pass(curvature, scatter, block):
    """Sums over the rows of a block: Moments of all outputs, with products of residuals for chi2, and their Largest.

    The curvature of a squared error does not depend on the targets, and is that of every output, unless it is made of
    scores.
    """
    u, parts = block.u, output_blocks(block)
    gg = block.score_scatter(u) if scatter else 0.0
    moments = Moments(
        n=block.total(),
        g=block.score_sum(u),
        g2=np.diag(gg).copy() if scatter else block.score_squares(u),
        gg=gg,
        curvature=Sums(curvature.of_block(part) for part in parts[: None if curvature.sees_targets else 1]),
        chi2=residual_products(block),
    )
    return Sums([moments, Largest.of_block(curvature, parts[0])])


class BlockDiagonal(Factor):
    """H_r of outputs that have nothing in common but their rows."""

    def __init__(self, factors):
        self.factors = factors
        self.rank, self.null = sum(H.rank for H in factors), block_diag(*(H.null for H in factors))

    def solve(self, B):
        pieces = zip(self.factors, np.split(B, len(self.factors)), strict=True)
        return np.concatenate([H.solve(piece) for H, piece in pieces])

    def to_dense(self):
        return block_diag(*(H.to_dense() for H in self.factors))


@dataclass(frozen=True, eq=False)
class SeparateOutputs:
    """Training rows of m outputs with parameters of their own; see :class:`Training`, whose place it takes.

    Attributes
    ----------
    rows : Rows
        With y (n, m).
    moments : Moments
        Of all outputs; chi2 (m, m) are sums of products of residuals.
    parts : tuple of Training
        One per output, as a fit to it alone would have it.
    leaders : tuple of int
        For each output the first one that has the same H_r, and with it leverages.
    """

    rows: Rows
    moments: Moments
    parts: tuple[Training, ...]
    leaders: tuple[int, ...]

    @classmethod
    def of(cls, rows, curvature, correction, closed_form):
        """One pass over the rows for all outputs, and a factor for each penalty that there is."""
        models = rows.model.outputs
        alone = [rows.output(j, model) for j, model in enumerate(models)]
        scatter = closed_form and Training.takes_scores_as_they_are(alone[0], curvature, correction)
        with np.errstate(all="ignore"):  # what overflows is told by each of the parts
            moments, largest = rows.sum(partial(first_pass, curvature, scatter))
        parts: list[Training] = []
        leaders: list[int] = []
        for j, (own, single) in enumerate(zip(alone, split(moments, len(models)), strict=True)):
            same = (i for i in leaders if not curvature.sees_targets and np.array_equal(models[i].l2, models[j].l2))
            lead = next(same, j)
            if lead == j:
                part = Training.from_moments(own, curvature, single, largest)
            else:
                part = replace(parts[lead], rows=own, moments=single, known_steps={})
            parts.append(part)
            leaders.append(lead)
        return cls(rows, moments, tuple(parts), tuple(leaders))

    # ------------------------------------------------------------------ as Training has them
    @property
    def n(self):
        return self.moments.n

    @property
    def curvature(self):
        return self.parts[0].curvature

    @property
    def is_flexible(self):
        return False  # linear

    @property
    def effective_parameters(self):
        return sum(part.effective_parameters for part in self.parts)

    @property
    def parameters_per_row(self):
        return self.effective_parameters / (self.n * len(self.parts))

    def stationarity(self, quiet=False):
        """The largest of the outputs."""
        return max(part.stationarity(quiet) for part in self.parts)

    def resolved(self, correction):
        """What the correction stands for; the most careful where outputs differ."""
        return max(self._resolved(correction))

    def _resolved(self, correction):
        known = {lead: self.parts[lead].resolved(correction) for lead in set(self.leaders)}
        return [known[lead] for lead in self.leaders]

    def leave_one_out(self):
        return np.column_stack([part.leave_one_out() for part in self.parts])

    def sample(self, size):
        parts = tuple(part.sample(size) for part in self.parts)
        rows = replace(self.rows, X=parts[0].rows.X, weight=parts[0].rows.weight, groups=parts[0].rows.groups)
        return replace(self, rows=replace(rows, y=np.column_stack([part.rows.y for part in parts])), parts=parts)

    # ------------------------------------------------------------------ the ribbon
    def ribbon(self, alpha, correction, closed_form, n_draws, seed, newton=False):
        """The ribbon of all outputs, whose marginals are those of the fits to single outputs."""
        self.parts[0].warn_of_few_groups()
        corrections, units = self._resolved(correction), self.rows.units
        (gradient, centre), H_r = self.centred_scores(corrections), BlockDiagonal([part.H_r for part in self.parts])
        lone = block_diag(*self._of_leader(Training.lone))
        if newton:
            shifts = [
                newton_shifts(part, alpha, part.centred_scores(rule)[0], n_draws, seed)
                for part, rule in zip(self.parts, corrections, strict=True)
            ]
            ribbon = Ribbon.of_shifts(H_r, np.concatenate(shifts), units, lone)
        elif closed_form:
            ribbon = Ribbon.closed_form(H_r, self._centred_scatter(corrections, gradient, centre), units, alpha, lone)
        else:
            width = self.rows.model.n_outputs * (sum(self.parts[0].hat.inverse_root.shape) + n_draws)
            sums = self.rows.sum(DirichletSums(alpha, n_draws, seed, gradient), width)
            ribbon = Ribbon.from_draws(H_r, dirichlet_scores(sums, alpha, self.n / units), units, lone)
        return replace(ribbon, freedom=self._freedom(corrections))

    def _of_leader(self, method):
        """method(part) of each output, computed once for those that share it; groups have steps of their own."""
        own = range(len(self.parts)) if self.rows.groups is not None else set(self.leaders)
        known = {j: method(self.parts[j]) for j in own}
        return [known.get(j, known[lead]) for j, lead in enumerate(self.leaders)]

    def _freedom(self, corrections):
        by_part = {id(part): correction for part, correction in zip(self.parts, corrections, strict=True)}
        found = self._of_leader(lambda part: freedom_of(part, by_part[id(part)]))
        if all(freedom is None for freedom in found):
            return None
        d = len(self.parts[0].rows.model.theta)
        return FreedomOfOutputs(tuple(Freedom.constant(d) if own is None else own for own in found))

    def centred_scores(self, corrections):
        """What takes the place of u_i, and a centre (p,); see :meth:`Training.centred_scores`."""
        rules: list[Any] = []
        centres: list[np.ndarray] = []
        for j, (part, lead, correction) in enumerate(zip(self.parts, self.leaders, corrections, strict=True)):
            rule, centre = part.centred_scores(correction)
            if self.rows.groups is None and correction in POWERS:
                rule = rules[lead] if lead < j else OwnLeverage(part.hat, POWERS[correction])
            rules.append(rule)
            centres.append(centre)
        return OutputGradients(tuple(rules)), np.concatenate(centres)

    def _centred_scatter(self, corrections, gradient, centre):
        """H_Fc of all outputs, (p, p); see :meth:`Training.ribbon`."""
        if np.ndim(self.moments.gg) and all(correction in ("HC0", "HC1") for correction in corrections):
            leverage = np.array([part.mean_leverage for part in self.parts])
            size = np.where(np.array(corrections) == "HC0", 1.0, np.sqrt(1 / (1 - leverage)))
            size = np.repeat(size, len(self.moments.g) // len(self.parts))
            return size[:, None] * self.moments.H_Fc * size
        mean, second = self._score_moments(corrections, gradient)
        cross = np.outer(mean, centre)
        return second - cross - cross.T + np.outer(centre, centre)

    def _score_moments(self, corrections, gradient):
        groups, n, units = self.rows.groups, self.n, self.rows.units
        if groups is None:
            return self.rows.mean(partial(score_sums, gradient), n)
        if all(correction in POWERS for correction in corrections):
            known = [
                part.known_steps[POWERS[correction], MAX_LEVERAGE].scores
                for part, correction in zip(self.parts, corrections, strict=True)
            ]
            S = np.column_stack(known)  # (G, p)
            sums, squares = S.sum(axis=0), gram(S)
        else:
            sums, squares = self.rows.sum(partial(group_scores, gradient, groups.count)).total
        return sums / n, squares * (units / n**2)


def split(moments, m):
    """Moments of all outputs as those of single ones."""
    g, g2, d = moments.g.reshape(m, -1), moments.g2.reshape(m, -1), len(moments.g) // m
    for j in range(m):
        own = slice(j * d, (j + 1) * d)
        yield Moments(
            n=moments.n,
            g=g[j],
            g2=g2[j],
            gg=moments.gg[own, own] if np.ndim(moments.gg) else 0.0,
            curvature=moments.curvature[j if len(moments.curvature) == m else 0],
            chi2=float(moments.chi2[j, j]),
        )


@dataclass(frozen=True, eq=False)
class OwnLeverage:
    """(1 - h_i)^power, (b, 1), for an output's block: what a squared error's corrected gradient is, over itself."""

    hat: Any
    power: float

    def factor(self, block):
        C, A = self.hat(block)
        return resolvent(C, A, np.ones((len(block.y), 1)), self.power, most_leverage(block.model.loss))


@dataclass(frozen=True, eq=False)
class OutputGradients:
    """Gradients (b, m) that take the place of u, of each output by its own rule."""

    rules: tuple[Any, ...]

    def __call__(self, block):
        parts, known = output_blocks(block), {}
        out = np.empty_like(block.u)
        for j, (rule, part) in enumerate(zip(self.rules, parts, strict=True)):
            if isinstance(rule, OwnLeverage):
                factor = known.setdefault(id(rule), None)
                if factor is None:
                    factor = known[id(rule)] = rule.factor(part)
                out[:, j] = factor[:, 0] * block.u[:, j]
            else:
                out[:, j] = rule(part)[:, 0]
        return out


@dataclass(frozen=True, eq=False)
class FreedomOfOutputs:
    """Degrees of freedom of m outputs with parameters of their own, by a :class:`Freedom` of each; see there."""

    outputs: tuple[Freedom, ...]

    def output(self, j):
        """That of one output."""
        return self.outputs[j]

    def mapped(self, function):
        """In other coordinates of all parameters."""
        return FreedomOfOutputs(tuple(own.mapped(partial(self._among, function, j)) for j, own in self._numbered))

    def of(self, function):
        """The fewest of the outputs that a functional of all parameters has to do with."""
        return np.min([self._of_output(own, partial(self._widened, function, j)) for j, own in self._numbered], axis=0)

    @staticmethod
    def _of_output(own, function):
        df = own.of(function)
        touched = function(np.eye(len(own.rows))).any(axis=-1)
        return np.where(touched, df, np.inf)

    @property
    def _numbered(self):
        return list(enumerate(self.outputs))

    def _widened(self, function, j, V):
        """A function of directions (p, r) of all parameters, at directions V (d, r) of one output."""
        out = np.zeros((len(self.outputs), *V.shape))
        out[j] = V
        return function(out.reshape(len(self.outputs) * len(V), V.shape[1]))

    def _among(self, function, j, V):
        return self._widened(function, j, V).reshape(len(self.outputs), len(V), V.shape[1])[j]


# ---------------------------------------------------------------------- outputs that share their parameters
@dataclass(frozen=True, eq=False)
class SharedOutputs:
    """What is computed once for all outputs of a model whose outputs share their parameters."""

    training: Training
    whole: SharedOutputs | None = None  # of all rows, where these are some of them

    @cached_property
    def products(self):
        """Sums of products of residuals, (m, m), over all rows."""
        return self.training.rows.sum(residual_products) if self.whole is None else self.whole.products

    @cached_property
    def residuals(self):
        """f - y, (n_rows, m)."""
        return self.training.rows.map(residuals)

    @cached_property
    def leverages(self):
        """Diagonals of the rows' blocks of the hat matrix, (n_rows, m), none above MAX_LEVERAGE."""
        training = self.training
        if not training.curvature.knows_leverages:
            return np.full(training.rows.y.shape, training.mean_leverage)
        return np.minimum(training._map(partial(_own_leverages, training.hat)), MAX_LEVERAGE)

    @cached_property
    def mean_leverages(self):
        """Of all rows, (m,)."""
        if self.whole is not None:
            return self.whole.mean_leverages
        return np.minimum(self.training.rows.weight @ self.leverages / self.training.n, MAX_LEVERAGE)

    @cached_property
    def growth(self):
        """By what residuals grow under the fit to all other rows, or groups, (n_rows, m)."""
        training = self.training
        if training.rows.groups is None:
            return 1 / (1 - self.leverages)
        return training._map(partial(growths, training.hat, training.steps(-1.0, MAX_LEVERAGE)))

    @cached_property
    def left_out(self):
        """Raw predictions (n_rows, m) under the fit to all other rows, or groups."""
        return self.training.leave_one_out()

    def sample(self, size):
        """The same of some rows."""
        some = self.training.sample(size)
        return self if some is self.training else SharedOutputs(some, self.whole or self)


@dataclass(frozen=True, eq=False)
class SharedOutput:
    """One of them, with what noise models and laws ask a Training for."""

    shared: SharedOutputs
    index: int

    @cached_property
    def rows(self):
        rows = self.shared.training.rows
        return rows.output(self.index, rows.model.outputs[self.index])

    @property
    def n(self):
        return self.shared.training.n

    @property
    def curvature(self):
        return self.shared.training.curvature

    @property
    def moments(self):
        return SimpleNamespace(n=self.n, chi2=float(self.shared.products[self.index, self.index]))

    @property
    def mean_leverage(self):
        return float(self.shared.mean_leverages[self.index])

    @property
    def parameters_per_row(self):
        return self.shared.training.parameters_per_row

    @property
    def squared_residuals(self):
        return self.shared.residuals[:, self.index] ** 2

    @property
    def leverages(self):
        return self.shared.leverages[:, self.index]

    @property
    def growth(self):
        return self.shared.growth[:, self.index]

    def grown_mean_square(self, power):
        return float(np.average(self.squared_residuals * self.growth**power, weights=self.rows.weight))

    def leave_one_out(self):
        return self.shared.left_out[:, [self.index]]

    def unit_steps(self):
        return self.shared.training.unit_steps()

    def sample(self, size):
        return replace(self, shared=self.shared.sample(size))


def growths(hat, steps, block):
    """(I - C A)^-1 u over u, of a whole group, (b, m)."""
    u, change = block.u, np.einsum("nkl,nl->nk", hat.curvature(block), moved(steps, block))
    return 1 + np.divide(change, u, out=np.zeros_like(u), where=u != 0)


def _own_leverages(hat, block):
    C, A = hat(block)
    return np.einsum("nkl,nlk->nk", C, A)
