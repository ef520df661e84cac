"""Training rows with their factored curvature: what noise models ask of them, and the ribbon that they make."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..exceptions import FewGroupsWarning, LeverageWarning, NotStationaryWarning, SeparationWarning, warn_user
from .clipping import Clip, clipped_gradient, score_sizes, weighted_median
from .draws import linear_shifts, newton_shifts
from .freedom import freedom_of
from .groups import MAX_LEVERAGE, group_scores, group_steps
from .leverage import (
    FAR,
    POWERS,
    Hat,
    Largest,
    LeadingRows,
    constant_gradient,
    corrected_gradient,
    foremost_rows,
    group_corrected_gradient,
    group_growth,
    leave_group_out,
    leave_one_out,
    leave_one_out_and_leverages,
    leave_one_out_steps,
    leverages,
    lone_directions,
    most_leverage,
    row_growth,
    row_squares,
)
from .linalg import gram, left_multiply
from .ribbon import Ribbon
from .rows import EASY_LEVERAGE, Moments, Rows, Sums, some_of

SMALL_LEVERAGE = 0.05  # effective parameters per row below which a row's own leverage is not worth a second pass
SEPARATION = 0.05  # squared scores over their expectation: below 0.03 of separated classes, above 0.09 of all others
MOST_FLEXIBLE = 0.25  # effective parameters per row of a model that is not linear; see doc/defaults.md
AS_MANY_AS_ROWS = 0.75  # effective parameters per row with which that is so even at a minimum
SHORT_OF_A_MINIMUM = 0.2  # stationarity from which it is so with fewer
LEAST_DAMPING = 0.01  # of such a network, in units of the target's variance: about what bootstrap refits ask for
STATIONARITY_LIMIT = 0.25  # mean gradient, in standard errors of itself
ROUNDING = 1e-9  # share of the predictions' own size below which a gradient is rounding
N_PROBES = 24  # random directions that find the rows of large leverage, which is then known to a quarter of itself
SUSPECT = 0.2  # estimated leverage of a row that may have one near one; that comes out lower once in 10^7
MOST_LONE = 500  # rows that may be remembered for determining a direction alone
MOST_DECISIVE = 1000  # rows whose share in a prediction's variance is looked at one by one
FEW_COLUMNS = 64  # of a hat matrix that is only estimated
SPARE = 3  # times as many are looked at, since they are found by rough leverages
FEW_GROUPS = 8  # from so many on, intervals cover what they say; see doc/user_guide/groups.md
MEDIAN_ROWS = 20_000  # that tell the median length of a score
UNEVEN = 0.1  # leverages of a network's rows are so different that one in a few thousand has ten times the mean


def squared_scores(block):
    """Sums over the block of |u_i|^2, and of its expectation under a classifier's own probabilities, tr C_i."""
    return np.array([block.weight @ (block.u**2).sum(axis=1), block.weight @ block.expected])


def score_sums(gradient, block):
    """Sums over the block of g_i and of g_i g_i', with g_i = J_i' gradient_i."""
    u = gradient(block)
    return Sums([block.score_sum(u), *block.packed_grams(u)])


def first_pass(curvature, scatter, block):
    """All sums over the rows that H_r is made of, a bound on what a row's leverage can be, and sizes of scores."""
    sizes = squared_scores(block) if block.model.loss.n_classes else np.zeros(2)
    return Sums([Moments.of_block(curvature, scatter, block), Largest.of_block(curvature, block), sizes])


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
    squared_scores : ndarray of shape (2,)
        Of a classifier, see :func:`squared_scores`.
    """

    rows: Rows
    moments: Moments
    H_r: Any
    curvature: Any
    effective_parameters: float
    largest: Largest = field(default_factory=Largest)
    squared_scores: np.ndarray = field(default_factory=partial(np.zeros, 2))
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
            moments, largest, sizes = rows.sum(partial(first_pass, curvature, scatter))
        return replace(cls.from_moments(rows, curvature, moments, largest), squared_scores=sizes)

    @classmethod
    def from_moments(cls, rows, curvature, moments, largest):
        """The factor of what one pass over the rows adds up to."""
        _check_finite(moments)
        H_r = curvature.factor(rows, moments)
        return cls(rows, moments, H_r, curvature, H_r.effective_parameters(curvature.shift(rows.model)), largest)

    @staticmethod
    def takes_scores_as_they_are(rows, curvature, correction):
        """Whether no row's own leverage will correct its score, as far as that can be told before it is known."""
        model = rows.model
        even = 1.0 if model.is_linear or model.loss.n_classes else UNEVEN
        few = len(model.theta) <= even * SMALL_LEVERAGE * model.loss.curvature_rank * rows.n
        alike = correction in ("HC0", "HC1") or (correction == "auto" and (few or not curvature.knows_leverages))
        return alike and rows.groups is None

    @property
    def n(self):
        """Number of observations: the sum of the weights."""
        return self.moments.n

    @cached_property
    def hat(self):
        """The hat matrix, row by row."""
        n_rows = self.rows.n_rows if self.rows.in_memory and self.rows.squares is None else 0
        return Hat(self.H_r.inverse_root, self.n, self.curvature.of_loss, self.rows.model, n_rows)

    @cached_property
    def known_rows(self):
        """The rows, each with J_i H_r^-1 J_i' where several will ask for it: leverages, scores, noise and its law.

        Those are networks, whose layers make them at about the cost of finding and squaring the foremost ones.
        """
        rows = self.rows
        again = rows.in_memory and rows.groups is None and not np.ndim(self.moments.gg) and self.hat.squares.of_all
        if not again or rows.squares is not None:
            return rows
        return replace(rows, squares=rows.map(partial(row_squares, self.hat)))

    def _map(self, f):
        return self.known_rows.map(f, self.rows.model.n_outputs * self.hat.width)

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
        rows = self.rows.at(self.rows.model)
        return replace(self, rows=rows, H_r=H_r, curvature=curvature, effective_parameters=effective, known_steps={})

    def sample(self, size):
        """The same of some rows, in memory, at random where there are more; sums are still those of all rows."""
        n = self.rows.n_rows
        if n <= size and self.rows.in_memory:
            return self
        return replace(self, rows=self.known_rows.take(some_of(n, size)), whole=self.rows)

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
        leading = self.leading_rows
        traces = leading.rough * self.rows.model.loss.curvature_rank  # of C_i A_i, which no eigenvalue exceeds
        suspects = np.flatnonzero(traces > (MAX_LEVERAGE if leading.known else SUSPECT))
        suspects = np.sort(suspects[np.argsort(-traces[suspects], kind="stable")[:MOST_LONE]])
        if not len(suspects):
            return np.zeros((p, 0))
        hat = self.hat if self.rows.model.n_outputs > 1 else replace(self.hat, n_rows=len(suspects))
        return leading.of(suspects, partial(lone_directions, hat)).T

    @property
    def most_decisive(self):
        """Rows whose share in a prediction's variance is looked at one by one."""
        return MOST_DECISIVE // self.rows.model.loss.curvature_rank

    @cached_property
    def foremost(self):
        """Rows that have the largest leverages, found by one cheap pass where they are not known; see Foremost."""
        if self.known_rows.squares is not None:
            return self.known_rows.sum(partial(foremost_rows, self.hat, self.most_decisive))
        M = self.H_r.inverse_root
        probes = left_multiply(M, np.random.default_rng(0).standard_normal((M.shape[1], N_PROBES)) / np.sqrt(N_PROBES))
        at_most = max(SPARE * self.most_decisive, MOST_LONE // self.rows.model.loss.curvature_rank)
        rough = Hat(probes, self.n, self.curvature.of_loss, self.rows.model, 0)
        width = self.rows.model.row_width
        width = min(width, len(M)) if self.rows.model.n_outputs == 1 else width  # no products of layers are formed
        return self.rows.sum(partial(foremost_rows, rough, at_most), width)

    @cached_property
    def leading_rows(self):
        """The same with what their exact leverages are made of."""
        known, M, found = self.known_rows.squares is not None, self.H_r.inverse_root, self.foremost
        rows = found.Z, found.y, found.weight, found.rough
        return LeadingRows(self.rows.model, self.curvature, M, self.n, *rows, known)

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
        return self._map(self._group_growth())

    def _group_growth(self):
        return partial(group_growth, self.hat, self.steps(-1.0, MAX_LEVERAGE))

    def grown_mean_square(self, power):
        """Mean of squared residuals times a power of :attr:`growth`, without an array of all rows."""
        if self.rows.in_memory:  # which may know the growth already
            return float(np.average(self.squared_residuals * self.growth**power, weights=self.rows.weight))
        alone = self.rows.groups is None
        growth = partial(row_growth, self.hat) if alone else self._group_growth()
        return float(self.rows.mean(partial(grown_squares, growth, power), self.n, self.wide(0)))

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
        observed, expected = self.squared_scores
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
        self.warn_of_few_groups()
        correction = self.resolved(correction)
        (gradient, centre), units = self.centred_scores(correction), self.rows.units
        lone = self.lone()
        if correction != "HC0" and self.rows.groups is None:
            self._warn_of_lone_rows(self._count(lone))
        if not closed_form:
            shifts = (newton_shifts if newton else linear_shifts)(self, alpha, gradient, n_draws, seed)
            ribbon = Ribbon.of_shifts(self.H_r, shifts, units, lone, mean=None if newton else 0.0)
            return replace(ribbon, freedom=freedom_of(self, correction))
        if np.ndim(self.moments.gg) and correction in ("HC0", "HC1") and self.clip.scores is None:
            H_Fc = self.moments.H_Fc * (1.0 if correction == "HC0" else 1 / (1 - self.mean_leverage))
        else:
            width = None if correction in ("HC0", "HC1") else self.wide(0)
            mean, H_Fc = self._score_moments(correction, gradient, width)
            cross = np.outer(mean - centre / 2, centre)
            H_Fc -= cross
            H_Fc -= cross.T
        ribbon = Ribbon.closed_form(self.H_r, H_Fc, units, alpha, lone)
        return replace(ribbon, freedom=freedom_of(self, correction))

    @property
    def may_be_alike(self):
        """Whether there are so few parameters that no row need have a leverage to speak of."""
        return self.mean_leverage <= SMALL_LEVERAGE

    @cached_property
    def are_surely_alike(self):
        """Whether no row has one; of long tables the bound mostly tells, without another pass."""
        return self.may_be_alike and self.largest.leverage(self.hat) < FAR

    @cached_property
    def rows_are_alike(self):
        """Whether no row has one."""
        return self.are_surely_alike or (self.may_be_alike and self.leading_rows.leverages.max(initial=0.0) < FAR)

    def warn_of_few_groups(self):
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
            return self.known_rows.mean(partial(score_sums, gradient), self.n, width)
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

    def wide(self, n_draws):
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
        if not self.curvature.knows_leverages or self.rows_are_alike:
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
        size, weight = some.map(partial(score_sizes, gradient, M), self.wide(0))
        clipped = partial(clipped_gradient, gradient, M, self.clip.scores * weighted_median(size, weight))
        return clipped, centre + self.rows.mean(partial(_score_change, clipped, gradient), self.n, self.wide(0))

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


def _squared_residuals(block):
    return block.model.loss.squared_residuals(block.f, block.y)


def _target_deviations(centre, block):
    """Sums over the block of y - centre, and of its square."""
    off = block.y - centre
    return np.array([block.weight @ off, block.weight @ off**2])


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
