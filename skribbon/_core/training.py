r"""From training rows to the distribution of the parameters: the algorithm, in the paper's symbols.

1. First pass over the rows: mean score :math:`\bar g` and curvature H, :meth:`Training.from_rows`.
2. :math:`H_r = H + \nabla^2 r`, factored by the chosen curvature.
3. Second pass: leverages, and sums of corrected scores :math:`g_i` and :math:`g_i g_i'`, :attr:`Training.units`.
4. Corrected scores and their centred second moment :math:`H_{F,c}`: :func:`corrected_scores`, :func:`second_moment`.
5. Ribbon: covariance :math:`H_r^{-1} H_{F,c} H_r^{-1} / (n \alpha + 1)`, or draws, :meth:`Training.ribbon`.
"""

from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .._utils.compat import cached_property
from . import thresholds, units
from .findings import PREMISES, Findings
from .linalg import gram
from .output import Output, sampled
from .ribbon import Ribbon, centred_second_moment, degrees_of_freedom, linear_shifts, newton_shifts
from .rows import Moments, Rows
from .units import NO_CLIP, POWERS, Clip, GroupPass, GroupSums, Hat, Record


@dataclass(frozen=True, eq=False)
class Training:
    """Training rows of a model with their factored curvature H_r."""

    rows: Rows
    curvature: Any
    moments: Moments  # sums of the first pass
    H_r: Any
    correction: str = "HC0"  # or "auto", "HC1", "HC2", "HC3": how to undo the shrinkage of fitted scores
    clip: Clip = NO_CLIP
    scaled: bool = False  # whether held-out rows scale the covariance, so that capped leverages need no warning
    findings: Findings = field(default_factory=Findings)  # filled by the fit

    @classmethod
    def from_rows(cls, rows, curvature, correction="HC0", clip=NO_CLIP):
        """Make the first pass over the rows and factor the curvature."""
        with np.errstate(all="ignore"):  # an overflow is reported below
            moments = Moments.from_rows(rows, curvature)
        sums = moments.n, moments.g, moments.g2, moments.chi2, moments.curvature
        finite = [np.isfinite(A).all() for A in sums if isinstance(A, float | np.ndarray)]
        tiny = rows.model.loss.additive and moments.g.any() and moments.g2.max() < np.finfo(float).tiny
        if tiny or not all(finite):
            raise ValueError(
                "X, y or the coefficients are so large that squares overflow, or so small that they vanish, or a mean "
                "has left the range of its family. Scale X (StandardScaler) and y (TransformedTargetRegressor)."
            )
        return cls(rows, curvature, moments, curvature.factor(rows, moments), correction, clip)

    def at_damping(self, damping):
        """Training with another damping."""
        curvature = copy(self.curvature)
        curvature.damping = damping
        return replace(self, curvature=curvature, H_r=curvature.factor(self.rows, self.moments))

    @cached_property
    def n(self):
        """Number of observations: the sum of the weights."""
        return self.moments.n

    @cached_property
    def stationarity(self):
        """Norm of mean score plus penalty gradient, in standard errors of the mean score.

        The norm is that of H_r^-1, which no linear map of the features changes. The second moment of the scores counts
        as a multiple of H, so that the norm of chance gradients grows with the effective parameters. The diagonal
        replaces H_r for networks, whose flat directions would dominate, and for curvatures without exact leverages.
        """
        model, diagonal = self.rows.model, self.H_r.diagonal
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, np.inf))  # so that units of the features do not matter
        mean = self.moments.g_bar + model.penalty_gradient
        gradient, standard_error = np.linalg.norm(scale * np.array([mean, self.moments.standard_error]), axis=1)
        size = np.linalg.norm(model.theta / np.where(scale > 0, scale, np.inf))  # of f, in units of the loss
        if gradient <= 1e-9 * size or standard_error == 0:  # rounding error
            return 0.0
        if self.curvature.knows_leverages and (model.is_linear or model.exact_is_psd):
            gradient = np.linalg.norm(mean @ self.H_r.inverse_root)
            alone = (diagonal > 0).sum() - self.curvature.shift(model) @ scale**2  # if columns were uncorrelated
            standard_error *= np.sqrt(max(self.effective_parameters, 1e-9) / max(alone, 1e-9))
        return float(gradient / standard_error)

    # ------------------------------------------------------------------ leverages
    @cached_property
    def effective_parameters(self):
        """Sum of the leverages over the observations, tr(H_r^-1 H)."""
        return self.H_r.effective_parameters(self.curvature.shift(self.rows.model))

    @cached_property
    def parameters_per_row(self):
        """Effective parameters per observation and direction of its curvature."""
        return self.effective_parameters / (self.n * self.rows.model.loss.curvature_rank)

    @cached_property
    def mean_leverages(self):
        """Effective parameters per observation of each column of y, (q,), at most MAX_LEVERAGE; warns above it."""
        _report_leverages(self, "saturated", self.parameters_per_row)
        m, mean, model = len(self.outputs), self.parameters_per_row, self.rows.model
        if model.outputs_are_separate:
            determined, shift = self.H_r.inverse_root.any(axis=1), self.curvature.shift(model)
            mean = (determined - shift * self.H_r.inverse_diagonal).reshape(m, -1).sum(axis=1) / self.n
        elif m > 1 and self.curvature.knows_leverages:
            mean = (self.units if self.rows.groups is None else units.second_pass(self, ())).parameters / self.n
        return np.minimum(np.broadcast_to(mean, m), thresholds.MAX_LEVERAGE)

    @cached_property
    def units(self):
        """Second pass: effects of rows, or of groups, on their own fit, Units or GroupUnits."""
        if self.rows.groups is None:
            return units.second_pass(self, _powers(self))
        largest = units.max_leverage(self.rows.model.loss)
        powers = (-1.0, thresholds.MAX_LEVERAGE), (POWERS[self.correction_used], largest)
        return GroupPass(Hat.from_training(self), powers, self.rows.groups.count).of(self.rows)

    @cached_property
    def checked_units(self):
        """Second pass, for results that depend on leverages; warns, once, if units determine their own fitted value."""
        second, groups = self.units, self.rows.groups
        if second.n_single and self.parameters_per_row > thresholds.MAX_LEVERAGE:
            _ = self.mean_leverages  # has a warning of its own
        else:
            n, what = self.rows.n_rows, "rows determine their own fitted value"
            if groups is not None:
                n, what = groups.n, "groups determine a direction of the parameters by themselves, for instance if a "
                what += "category, or a value of a group-level column, occurs in one group only"
            _report_leverages(self, "leverage", second.n_single, n=n, what=what)
        return second

    @cached_property
    def record(self):
        """Record of all rows, in memory."""
        if self.rows.groups is None:
            return Record(*map(np.concatenate, zip(*self.units.pieces, strict=True)))
        return units.record_by_groups(self, self.rows)

    @cached_property
    def outputs(self):
        """View of each column of y, as noise models see it."""
        return tuple(map(partial(Output, self), range(max(1, len(self.rows.model.loss.by_output)))))

    # ------------------------------------------------------------------ the ribbon
    @cached_property
    def correction_used(self):
        """Correction in use: "auto" is HC1 if leverages are small, else HC2 or HC3; see doc/appendix/defaults.md."""
        if self.correction != "auto":
            return self.correction
        exact, grouped = self.curvature.knows_leverages, self.rows.groups is not None
        if not exact or (not grouped and units.leverages_are_small(self)):
            return "HC1"
        return "HC2" if grouped or _is_easy(self) else "HC3"

    def ribbon(self, alpha, closed_form, n_draws, seed, newton=False):
        """Distribution of theta, in closed form or from draws of the Dirichlet weights."""
        single = single_directions(self)
        gradient, centre = corrected_scores(self)
        if closed_form:
            H_Fc = second_moment(self, gradient, centre)
            ribbon = Ribbon.closed_form(self.H_r, H_Fc, self.rows.n_units, alpha, single)
        else:
            shifts = (newton_shifts if newton else linear_shifts)(self, gradient, alpha, n_draws, seed)
            ribbon = Ribbon.from_shifts(self.H_r, shifts, self.rows.n_units, single, mean=None if newton else 0.0)
        return replace(ribbon, freedom=degrees_of_freedom(self), alpha=alpha)


def single_directions(training):
    """How theta moves with each row, or group, that determines a direction alone, (p, l); warns of them."""
    grouped, exact = training.rows.groups is not None, training.curvature.knows_leverages
    if grouped:
        G, p = training.rows.n_units, training.effective_parameters
        needed = max(thresholds.FEWEST_GROUPS, int(p) + 1)
        training.findings.report("groups", G, needed, needed > G, p=p)
    elif training.correction == "auto" or training.correction_used in ("HC1", "HC2"):
        _ = training.mean_leverages  # warns if there are as many parameters as observations
    uniform = ("HC0", "HC1") if grouped else ("HC0",)  # corrections without the leverages of single units
    by_leverage = exact and training.correction_used not in uniform
    second = training.checked_units if by_leverage else training.units if exact and not grouped else None
    return np.zeros((len(training.rows.model.theta), 0)) if second is None else second.single.T


def _is_easy(training):
    """Whether HC2 is enough: in a linear model of many columns the penalty hides bias that HC3 makes up for."""
    model = training.rows.model
    return bool(model.loss.n_classes) or not model.is_linear or training.parameters_per_row <= thresholds.EASY_LEVERAGE


def _powers(training):
    """Powers of I - C A that the correction may need."""
    if training.correction != "auto":
        return (POWERS[training.correction],)
    if not _is_easy(training):
        return (POWERS["HC3"],)
    undecided = training.parameters_per_row <= thresholds.SMALL_MEAN_LEVERAGE
    return (0.0, POWERS["HC2"]) if undecided else (POWERS["HC2"],)


# ---------------------------------------------------------------------- corrected scores
def corrected_scores(training):
    """Function from a block to corrected gradients (b, k), and the centre (p,) that scores are measured from.

    HC1 corrects all rows by the mean leverage, HC2 each by its own, HC3 uses the score under the fit to all other rows.
    With groups, HC1 is G / (G - 1) (n - 1) / (n - p), and HC2 and HC3 use the hat matrix of a whole group.
    """
    correction, centre = training.correction_used, training.moments.g_bar
    if correction in ("HC0", "HC1"):
        factor = np.ones(1) if correction == "HC0" else _hc1_factor(training)
        gradient = partial(units.scaled_gradient, factor)
        centre = np.repeat(factor, len(centre) // len(factor)) * centre
    elif training.rows.groups is None:
        gradient = partial(units.corrected_gradient, Hat.from_training(training), POWERS[correction])
    else:
        gradient = partial(units.group_gradient, Hat.from_training(training), units.group_steps(training, 1))
    if training.clip.scores is None:
        return gradient, centre
    M, width = training.H_r.inverse_root, units.pass_width(training)
    some = sampled(training.rows, thresholds.MEDIAN_ROWS)
    _, length = some.map(partial(units.score_lengths, gradient, M), width)
    limit = training.clip.scores * units.weighted_median(length, some.weight)
    clipped = partial(units.clipped_gradient, gradient, M, limit)
    return clipped, centre + training.rows.sum(partial(_score_change, clipped, gradient), width) / training.n


def _hc1_factor(training):
    """Factor of the scores under HC1, (1,), or (m,) if each of m outputs has parameters of its own."""
    G, n, leverage = training.rows.n_units, training.n, training.mean_leverages
    leverage = leverage if training.rows.model.outputs_are_separate else leverage.mean(keepdims=True)
    few_groups = 1.0 if training.rows.groups is None else G / (G - 1) * (n - 1) / n
    return np.sqrt(np.maximum(few_groups / (1 - leverage), 1.0))  # weights that sum to one leave no n - 1


def second_moment(training, gradient, centre):
    """H_Fc, the second moment (p, p) of corrected scores around the centre, in units of one row's score."""
    correction, rows, n = training.correction_used, training.rows, training.n
    if rows.groups is not None:
        S = group_scores(training, gradient)
        return centred_second_moment(gram(S) * (rows.n_units / n**2), S.sum(axis=0) / n, centre)
    if training.clip.scores is not None or not training.curvature.knows_leverages:
        sums, squares = rows.sum(partial(_score_sums, gradient), units.pass_width(training))
    else:
        sums, squares = training.units.scores[_powers(training).index(POWERS[correction])]
        if correction == "HC1":
            (factor,) = gradient.args
            factor = np.repeat(factor, len(sums) // len(factor))
            sums, squares = factor * sums, squares * np.multiply.outer(factor, factor)
    return centred_second_moment(squares / n, sums / n, centre)


def group_scores(training, gradient):
    """Sums (G, p) of corrected scores over each group."""
    rows, unbounded = training.rows, np.isinf(training.rows.model.loss.gradient_bound(np.zeros(1))).all()
    if POWERS[training.correction_used] and training.clip.scores is None and unbounded:
        return units.group_steps(training, 3)  # scores by the second power, without another pass
    return GroupSums(partial(_row_scores, gradient), rows.groups.count).of(rows, units.pass_width(training))


def _score_sums(gradient, block):
    return block.score_moments(gradient(block))


def _row_scores(gradient, block):
    return block.tangent.scores(gradient(block))


def _score_change(gradient, before, block):
    return block.score_sum(gradient(block) - before(block))


# ---------------------------------------------------------------------- findings
def _report_leverages(training, premise, number, **known):
    """Report leverages, but no fault if held-out rows set the widths, or fractional weights are the cause."""
    few = training.n < thresholds.FEWER_OBSERVATIONS * training.rows.n_rows
    excused = training.scaled or (few and training.rows.fractional)
    if not (excused and number > PREMISES[premise][1]):
        other = "" if training.rows.model.loss.n_classes else ", or noise as a number and correction='HC0'"
        training.findings.report(premise, number, other=other, **known)


# ---------------------------------------------------------------------- networks
def is_network(model):
    """Whether the model is neither linear nor fitted by a convex loss, so that it may memorize its rows."""
    return not (model.is_linear or model.exact_is_psd)


def may_have_memorized(training, whole):
    """Whether the network ``whole`` has so many parameters that it may have memorized its rows.

    Leave-one-out by a step from the fitted parameters then understates errors of new rows. Counts effective
    parameters, or all parameters if only those of the last layer have a curvature.
    """
    if not is_network(whole):
        return False
    if whole is not training.rows.model and training.rows.model.is_linear:
        return len(whole.theta) >= thresholds.EASY_LEVERAGE * training.n * whole.loss.curvature_rank
    return training.parameters_per_row >= thresholds.EASY_LEVERAGE


def is_flexible(training):
    """Whether a network was stopped early or nearly interpolates, so that leverages are meaningless."""
    if training.rows.model.is_linear or not training.curvature.factors_again:
        return False
    per_row, early = training.parameters_per_row, training.stationarity > thresholds.STOPPED_EARLY
    if per_row <= (thresholds.EASY_LEVERAGE if _least_damping(training) else thresholds.MAX_PARAMETERS_PER_ROW):
        return False
    return per_row > thresholds.INTERPOLATING or early


def damped(training):
    """Training with the smallest damping that leaves MAX_PARAMETERS_PER_ROW, or a larger one after early stopping."""
    return limited(training, thresholds.MAX_PARAMETERS_PER_ROW, _least_damping(training))


def limited(training, per_row, least=0.0):
    """Training with the smallest damping, from ``least`` on, that leaves ``per_row`` effective parameters per row."""
    if training.parameters_per_row <= per_row:
        return training.at_damping(least) if least else training
    most = per_row * training.n * training.rows.model.loss.curvature_rank
    trace = float(np.sum(training.H_r.diagonal))
    low, high = 1e-15 * trace, trace / most  # tr(H (H + damping)^-1) <= tr(H) / damping
    effective = _effective_parameters(training)
    while high > (1 + 1e-7) * low:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if effective(middle) > most else (low, middle)
    return training.at_damping(max(high, least))


def _least_damping(training):
    """Damping that corresponds to early stopping, for a regressor with a dense curvature; else zero."""
    exact, classes = training.curvature.knows_leverages, training.rows.model.loss.n_classes
    if classes or not exact or training.stationarity <= thresholds.STOPPED_EARLY:
        return 0.0
    mean = training.rows.sum(partial(_target_deviations, 0.0))[0] / training.n
    variance = training.rows.sum(partial(_target_deviations, mean))[1] / training.n
    return thresholds.EARLY_STOPPING_DAMPING * float(np.mean(variance))  # over the outputs


def _target_deviations(centre, block):
    """Sums over the block of y - centre, and of its square."""
    off = block.y - centre
    return np.array([block.weight @ off, block.weight @ off**2])


def _effective_parameters(training):
    """Function from a damping to the effective parameters: by eigenvalues if H_r is an array, else by factoring."""
    if not training.curvature.knows_leverages:
        return lambda damping: training.at_damping(damping).effective_parameters
    values, vectors = np.linalg.eigh(training.H_r.to_dense())
    values = np.maximum(values, 0.0)
    own = np.maximum(values - training.curvature.shift(training.rows.model) @ vectors**2, 0.0)  # v' H v
    return lambda damping: np.sum(own / (values + damping))
