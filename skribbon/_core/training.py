"""Training rows in two passes: H_r and the mean score, then what each row or group does to its own fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..exceptions import FewGroupsWarning, LeverageWarning, NotStationaryWarning, warn_user
from .draws import linear_shifts, newton_shifts
from .freedom import degrees_of_freedom
from .groups import GroupGradient, GroupPass, GroupSums, moved
from .linalg import gram
from .ribbon import Ribbon, centred_second_moment
from .rows import EASY_LEVERAGE, Moments, Rows, some_of
from .units import (
    MAX_LEVERAGE,
    MIN_INFLUENTIAL,
    MOST_INFLUENTIAL,
    NO_CLIP,
    POWERS,
    Clip,
    ClippedGradient,
    CorrectedGradient,
    Hat,
    Record,
    ScaledGradient,
    ScoreSizes,
    SecondPass,
    leave_one_out_steps,
    max_leverage,
    own_leverages,
    score_sums,
    squared_residuals,
    weighted_median,
)

SMALL_MEAN_LEVERAGE = 0.05  # mean leverage up to which "auto" considers one correction for all rows, HC1
SMALL_LEVERAGE = 0.1  # largest leverage for which it is chosen: no score is then shrunk by more than a tenth
STATIONARITY_LIMIT = 0.25  # mean gradient, in its standard errors, above which fit warns; see doc/defaults.md
ROUNDING = 1e-9  # gradient below this share of the predictions' size is rounding error
FEW_GROUPS = 8  # groups from which intervals reach nominal coverage; see doc/user_guide/groups.md
MEDIAN_ROWS = 20_000  # rows from which the median length of a score is known to 1%
ROUGH_COLUMNS = 64  # columns of an inverse root that is only estimated; sets the size of blocks


@dataclass(frozen=True, eq=False)
class Training:
    """Training rows of a model with their factored curvature: what the ribbon and the noise are made of.

    The first pass over the rows gives ``moments`` and H_r. The second pass, :attr:`units`, is made once, and
    everything else reads its result.

    Attributes
    ----------
    rows : Rows
    curvature : Curvature
    moments : Moments
    H_r : Factor
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}
        How to undo the shrinkage of fitted scores.
    clip : Clip
    """

    rows: Rows
    curvature: Any
    moments: Moments
    H_r: Any
    correction: str = "HC0"
    clip: Clip = NO_CLIP

    @classmethod
    def from_rows(cls, rows, curvature, correction="HC0", clip=NO_CLIP):
        """Make the first pass over the rows and factor the curvature."""
        with np.errstate(all="ignore"):  # an overflow is reported below
            moments = rows.sum(partial(Moments.from_block, curvature))
        _check_finite(moments)
        return cls(rows, curvature, moments, curvature.factor(rows, moments), correction, clip)

    def at_damping(self, damping):
        """Training with another damping."""
        curvature = self.curvature.with_damping(damping)
        return replace(self, curvature=curvature, H_r=curvature.factor(self.rows, self.moments))

    @cached_property
    def n(self):
        """Number of observations: the sum of the weights."""
        return self.moments.n

    @cached_property
    def shift(self):
        """Part of the diagonal of H_r that is not data: penalty and damping, (p,)."""
        return self.curvature.shift(self.rows.model)

    @cached_property
    def effective_parameters(self):
        """Sum of the leverages over the observations, tr(H_r^-1 H)."""
        return self.H_r.effective_parameters(self.shift)

    @cached_property
    def parameters_per_row(self):
        """Effective parameters per observation and direction of its curvature."""
        return self.effective_parameters / (self.n * self.rows.model.loss.curvature_rank)

    # ------------------------------------------------------------------ the second pass
    @cached_property
    def hat(self):
        """Blocks of the hat matrix."""
        return Hat(self.H_r.inverse_root, self.n, self.curvature.of_loss)

    @cached_property
    def units(self):
        """What rows do to their own fit: Units. Without exact leverages, no scores are summed."""
        exact = self.curvature.knows_leverages and self.rows.groups is None
        powers = self._powers if exact else ()
        least = np.inf if not exact else 0.0 if self.is_short else MIN_INFLUENTIAL
        second_pass = SecondPass(self.hat, powers, least, self._most_influential, self.rows.in_memory)
        return self.rows.sum(second_pass, self.hat_width())

    @property
    def _powers(self):
        """Powers of I - C A that the correction may need."""
        if self.correction != "auto":
            return (POWERS[self.correction],)
        if not self._is_easy:
            return (POWERS["HC3"],)
        undecided = self.parameters_per_row <= SMALL_MEAN_LEVERAGE
        return (0.0, POWERS["HC2"]) if undecided else (POWERS["HC2"],)

    @cached_property
    def _is_easy(self):
        """Whether HC2 is enough: leave-one-out scores see what the penalty of a linear model of many columns hides."""
        model = self.rows.model
        return bool(model.loss.n_classes) or not model.is_linear or self.parameters_per_row <= EASY_LEVERAGE

    @cached_property
    def is_short(self):
        """Whether all rows are looked at one by one; a weight of two counts as two rows."""
        return max(self.n, self.rows.n_rows) <= self._most_influential

    @cached_property
    def _most_influential(self):
        """Rows that may be looked at one by one."""
        model = self.rows.model
        return MOST_INFLUENTIAL // (1 if model.outputs_are_separate else model.loss.curvature_rank)

    @cached_property
    def group_units(self):
        """What groups do to their own fit: GroupUnits of the power -1 and of the correction."""
        powers = (-1.0, MAX_LEVERAGE), (POWERS[self.resolved], max_leverage(self.rows.model.loss))
        group_pass = GroupPass(self.hat, powers, self.rows.groups.count)
        return self.rows.sum(group_pass, 2 * self.rows.model.n_outputs * len(self.hat.M)).total

    def group_steps(self, k=0):
        """Steps of theta (G, p) of the k-th power of :attr:`group_units`; by default to the fits without a group."""
        self.warn_of_single_rows()
        return self.group_units.stack.in_order(len(self.rows.groups.count), k)

    @cached_property
    def record(self):
        """Record of all rows, in memory."""
        if self.rows.groups is None:
            return Record.joined(self.units.pieces)
        return Record(*self.rows.map(partial(_group_record, self.hat, self.group_steps()), self.hat_width()))

    @cached_property
    def outputs(self):
        """View of each column of y, as noise models see it."""
        return tuple(Output(self, j) for j in range(max(1, len(self.rows.model.loss.by_output))))

    def hat_width(self, n_draws=0):
        """Floats that a row takes in passes with the hat matrix, or its estimate, and with draws."""
        model = self.rows.model
        if self.curvature.knows_leverages:
            return model.n_outputs * max(self.hat.width, n_draws)
        return max(model.row_width, model.n_outputs * max(ROUGH_COLUMNS, n_draws))

    @cached_property
    def unit_steps(self):
        """Steps to the fits without each row, (n_rows, p), or each group, (G, p), in the model's own coordinates."""
        if self.rows.groups is not None:
            return self.rows.model.uncentred(self.group_steps().T).T
        steps = self.rows.map(partial(leave_one_out_steps, self.hat), self.hat_width())
        self.warn_of_single_rows()
        return self.rows.model.uncentred(steps.T).T

    # ------------------------------------------------------------------ corrected scores
    @cached_property
    def resolved(self):
        """Correction that is used: "auto" is HC1 if all leverages are small, else HC2.

        A linear model with many parameters per row is mostly penalized, and leave-one-out scores, HC3, see some of what
        the penalty hides.
        """
        if self.correction != "auto":
            return self.correction
        if self.rows.groups is not None or not self.curvature.knows_leverages:
            return "HC2" if self.curvature.knows_leverages else "HC1"
        if self.leverages_are_small:
            return "HC1"
        return "HC2" if self._is_easy else "HC3"

    @cached_property
    def leverages_are_small(self):
        """Whether one correction for all rows is enough."""
        largest = self.units.influential.leverage.max(initial=0.0)
        return self.parameters_per_row <= SMALL_MEAN_LEVERAGE and largest < SMALL_LEVERAGE

    @cached_property
    def mean_leverages(self):
        """Effective parameters per observation of each column of y, (q,), at most MAX_LEVERAGE; warns above it."""
        if self.parameters_per_row > MAX_LEVERAGE:
            self._warn_of_leverage("The model has as many effective parameters as there are observations")
        m, mean = len(self.outputs), self.parameters_per_row
        if self.rows.model.outputs_are_separate:
            determined = self.H_r.inverse_root.any(axis=1)
            mean = (determined - self.shift * self.H_r.inverse_diagonal).reshape(m, -1).sum(axis=1) / self.n
        elif m > 1 and self.curvature.knows_leverages:
            mean = self.units.parameters / self.n
        return np.minimum(np.broadcast_to(mean, m), MAX_LEVERAGE)

    @cached_property
    def scores(self):
        """Function from a block to corrected gradients (b, k), and the centre (p,) that scores are measured from.

        HC1 corrects all rows by the mean leverage, HC2 each by its own, HC3 uses the score that the row would have
        under the fit to all others. With groups, HC1 is G / (G - 1) (n - 1) / (n - p), and the others do the same with
        the hat matrix of a whole group. Clipping moves the centre with the mean.
        """
        gradient, centre = self._unclipped_scores()
        if self.clip.scores is None:
            return gradient, centre
        sizes = ScoreSizes(gradient, self.H_r.inverse_root)
        size, weight = sampled(self.rows, MEDIAN_ROWS).map(sizes, self.hat_width())
        clipped = ClippedGradient(sizes, self.clip.scores * weighted_median(size, weight))
        change = self.rows.sum(partial(_score_change, clipped, gradient), self.hat_width()) / self.n
        return clipped, centre + change

    def _unclipped_scores(self):
        correction, g_bar, groups = self.resolved, self.moments.g_bar, self.rows.groups
        if correction in ("HC0", "HC1"):
            factor = np.ones(1) if correction == "HC0" else self._hc1_factor()
            per_parameter = np.repeat(factor, len(g_bar) // len(factor))
            return ScaledGradient(factor), per_parameter * g_bar
        if groups is None:
            return CorrectedGradient(self.hat, POWERS[correction]), g_bar
        return GroupGradient(self.hat, self.group_steps(1)), g_bar

    def _hc1_factor(self):
        """Factor of the scores under HC1, (1,), or (m,) if each of m outputs has parameters of its own."""
        G, n, model = self.rows.units, self.n, self.rows.model
        leverage = self.mean_leverages if model.outputs_are_separate else self.mean_leverages.mean(keepdims=True)
        few_groups = 1.0 if self.rows.groups is None else G / (G - 1) * (n - 1) / n
        return np.sqrt(np.maximum(few_groups / (1 - leverage), 1.0))  # weights that sum to one leave no n - 1

    @property
    def H_Fc(self):
        """Centred second moment of the corrected scores, (p, p), each of the size of one row's."""
        (gradient, centre), correction, n, groups = self.scores, self.resolved, self.n, self.rows.groups
        if groups is None:
            if self.clip.scores is not None or not self.curvature.knows_leverages:
                sums, squares = self.rows.sum(partial(_score_sums, gradient), self.hat_width())
            else:
                sums, squares = self.units.scores[POWERS[correction]]
                if correction == "HC1":
                    factor = np.repeat(gradient.factor, len(sums) // len(gradient.factor))
                    sums, squares = factor * sums, squares * np.multiply.outer(factor, factor)
            return centred_second_moment(squares / n, sums / n, centre)
        unbounded = self.clip.scores is None and np.isinf(self.rows.model.loss.gradient_bound(np.zeros(1))).all()
        if POWERS[correction] and unbounded:
            S = self.group_steps(3)  # the scores of the second power, without another pass
        else:
            S = GroupSums(partial(_row_scores, gradient), groups.count).of(self.rows, self.hat_width())
        return centred_second_moment(gram(S) * (self.rows.units / n**2), S.sum(axis=0) / n, centre)

    # ------------------------------------------------------------------ the ribbon
    def ribbon(self, alpha, closed_form, n_draws, seed, newton=False):
        """Distribution of theta, in closed form or from draws of the Dirichlet weights."""
        self.warn_of_few_groups()
        if self.rows.groups is None and (self.correction == "auto" or self.resolved in ("HC1", "HC2")):
            _ = self.mean_leverages  # warns if there are as many parameters as observations
        if self._needs_unit_leverages:
            self.warn_of_single_rows()
        units, single = self.rows.units, self.single_directions
        if closed_form:
            ribbon = Ribbon.closed_form(self.H_r, self.H_Fc, units, alpha, single)
        else:
            shifts = (newton_shifts if newton else linear_shifts)(self, alpha, n_draws, seed)
            ribbon = Ribbon.from_shifts(self.H_r, shifts, units, single, mean=None if newton else 0.0)
        return replace(ribbon, freedom=degrees_of_freedom(self))

    @property
    def single_directions(self):
        """Directions (p, l) that single rows, or groups, determine alone, as far as leverages are known."""
        if self.rows.groups is None and self.curvature.knows_leverages:
            return self.units.single.T
        if self._needs_unit_leverages:
            return self.group_units.single.T
        return np.zeros((len(self.rows.model.theta), 0))

    @cached_property
    def _needs_unit_leverages(self):
        """Whether the correction depends on exact leverages of rows, or of groups."""
        scaled = self.resolved == "HC0" or (self.resolved == "HC1" and self.rows.groups is not None)
        return self.curvature.knows_leverages and not scaled

    # ------------------------------------------------------------------ warnings
    @cached_property
    def stationarity(self):
        """Norm of mean score plus penalty gradient in standard errors of the mean score.

        Each coordinate is in units of its own curvature, so that units of the features do not matter.
        """
        model, diagonal = self.rows.model, self.H_r.diagonal
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, np.inf))
        gradient = np.linalg.norm(scale * (self.moments.g_bar + model.grad_penalty()))
        standard_error = np.linalg.norm(scale * self.moments.standard_error)
        size = np.linalg.norm(model.theta / np.where(scale > 0, scale, np.inf))  # of f, in units of the loss
        if gradient <= ROUNDING * size or standard_error == 0:
            return 0.0
        return float(gradient / standard_error)

    def warn_if_not_stationary(self):
        """Warn if the model is not at a minimum of its training objective."""
        if self.stationarity > STATIONARITY_LIMIT:
            warn_user(
                f"The training gradient is {self.stationarity:.2g} standard errors from zero, so the model is not at "
                f"the minimum that is expanded around. {self.rows.model.cure}",
                NotStationaryWarning,
            )

    def warn_of_few_groups(self):
        """Warn if there are too few groups for the number of parameters."""
        G, p = self.rows.units, self.effective_parameters
        if self.rows.groups is not None and (p >= G or G < FEW_GROUPS):
            warn_user(
                f"There are {p:.3g} effective parameters and {G:.0f} groups: the variance between groups is estimated "
                "from few groups. Student's quantiles allow for its noise, but directions in which almost no group "
                "varies are underestimated. Collect more groups, drop columns, or penalise the base model.",
                FewGroupsWarning,
            )

    def warn_of_single_rows(self):
        """Warn, once, if rows or groups determine their own fitted value."""
        _ = self._single_rows_warning

    @cached_property
    def _single_rows_warning(self):
        units, groups = self.units if self.rows.groups is None else self.group_units, self.rows.groups
        if units.n_single and self.parameters_per_row > MAX_LEVERAGE:
            _ = self.mean_leverages
        elif units.n_single and groups is None:
            self._warn_of_leverage(f"{units.n_single} of {self.rows.n_rows} rows determine their own fitted value")
        elif units.n_single:
            self._warn_of_leverage(
                f"{units.n_single} of {groups.n} groups determine a direction of the parameters by themselves, as "
                "where a category or the value of a column that belongs to groups is found in one group alone"
            )

    def _warn_of_leverage(self, what):
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


@dataclass(frozen=True, eq=False)
class Output:
    """One column of y and its training rows, as noise models and distributions of noise see them.

    Attributes
    ----------
    training : Training
    index : int
        Column of y; 0 if there is only one.
    some : ndarray or None
        Indices of the rows, if not all of them.
    """

    training: Training
    index: int = 0
    some: np.ndarray | None = None

    @property
    def n(self):
        """Number of observations, also if the rows are a sample."""
        return self.training.n

    @property
    def chi2(self):
        """Sum of squared residuals over all rows."""
        return float(np.atleast_2d(self.training.moments.chi2)[self.index, self.index])

    @property
    def mean_leverage(self):
        """Effective parameters per observation."""
        return float(self.training.mean_leverages[self.index])

    @property
    def has_exact_leverages(self):
        """Whether leverages are exact, not estimates."""
        return self.training.curvature.knows_leverages

    @cached_property
    def rows(self):
        """The rows, with this column as their target."""
        rows, model = self.training.rows, self.training.rows.model
        rows = rows if self.some is None else rows.take(self.some)
        return rows.output(self.index, model.outputs[self.index]) if model.loss.by_output else rows

    @cached_property
    def _record(self):
        """Record of the rows; of a sample of rows that are not in memory, it is made here."""
        training = self.training
        if self.some is None:
            return training.record
        if training.rows.in_memory:
            return training.record.take(self.some)
        some = replace(training, rows=training.rows.take(self.some))
        if training.rows.groups is None:
            return some.record
        return Record(*some.rows.map(partial(_group_record, training.hat, training.group_steps()), some.hat_width()))

    @property
    def squared_residuals(self):
        """(y_i - mu_i)^2 / V(mu_i), (n_rows,)."""
        return self._record.squared[:, self.index]

    @property
    def leverages(self):
        """Leverages (n_rows,), at most MAX_LEVERAGE; warns if rows determine their own fitted value."""
        self.training.warn_of_single_rows()
        return self._record.leverage[:, self.index]

    @property
    def growth(self):
        """Ratio of leave-one-out to fitted residual, (n_rows,): 1 / (1 - h_i) without groups."""
        self.training.warn_of_single_rows()
        return self._record.growth[:, self.index]

    @property
    def left_out(self):
        """Raw predictions (n_rows, k) by the fits without each row, or group, to first order."""
        f = self._record.left_out
        return f[:, [self.index]] if self.training.rows.model.loss.by_output else f

    @property
    def unit_steps(self):
        """Steps of this output's parameters to the fits without each row, (n_rows, d), or each group, (G, d)."""
        model = self.training.rows.model
        d = len(model.theta) // (model.n_outputs if model.outputs_are_separate else 1)
        start = self.index * d if model.outputs_are_separate else 0
        return self.training.unit_steps[:, start : start + d]

    def grown_mean_square(self, power):
        """Mean over all rows of squared residuals times a power, 1 or 2, of their growth."""
        training = self.training
        self.training.warn_of_single_rows()
        if training.rows.groups is None:
            return float(training.units.grown[power - 1, self.index] / self.n)
        if training.rows.in_memory:
            record, weight = training.record, training.rows.weight
            grown = record.squared[:, self.index] * record.growth[:, self.index] ** power
            return float(np.average(grown, weights=weight))
        grown = partial(_grown_squares, training.hat, training.group_steps(), power)
        return float(training.rows.sum(grown, training.hat_width())[self.index] / self.n)

    def sample(self, size):
        """View of at most ``size`` rows in memory, drawn at random; sums are still over all rows."""
        n = self.rows.n_rows
        if n <= size and self.rows.in_memory:
            return self
        index = some_of(n, size)
        return replace(self, some=index if self.some is None else self.some[index])


def sampled(rows, size):
    """At most ``size`` rows, in memory, drawn at random."""
    return rows if rows.n_rows <= size and rows.in_memory else rows.take(some_of(rows.n_rows, size))


def _score_sums(gradient, block):
    return score_sums(block, gradient(block))


def _row_scores(gradient, block):
    return block.tangent.scores(gradient(block))


def _score_change(gradient, before, block):
    return block.score_sum(gradient(block) - before(block))


def _group_record(hat, steps, block):
    """Leverages, growth, squared residuals and predictions without the row's group, of a block; see Record."""
    C, A, _ = hat(block)
    move = moved(steps, block)
    u, change = block.u, np.einsum("nkl,nl->nk", C, move)
    growth = 1 + np.divide(change, u, out=np.zeros_like(u), where=u != 0)
    squared = squared_residuals(block)
    return np.minimum(own_leverages(block, C, A), MAX_LEVERAGE), growth[:, : squared.shape[1]], squared, block.f + move


def _grown_squares(hat, steps, power, block):
    """Sums over the block of squared residuals times a power of their growth, (q,)."""
    _, growth, squared, _ = _group_record(hat, steps, block)
    return block.weight @ (squared * growth**power)


def _check_finite(moments):
    sums = moments.n, moments.g, moments.g2, moments.chi2, moments.curvature
    finite = [np.isfinite(A).all() for A in sums if isinstance(A, float | np.ndarray)]
    if not all(finite):
        raise ValueError(
            "Sums of squares over the training rows are not finite: X, y or the fitted coefficients are so large that "
            "they overflow, or a mean has left the range of its family. Bring the columns of X to a common scale "
            "(StandardScaler in a pipeline), and y too (TransformedTargetRegressor), or penalise the base model."
        )
