"""Jackknife+ and CV+ (Barber et al., 2021): intervals and sets from fits without some of the rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.rows import row_blocks
from .._core.thresholds import EASY_LEVERAGE
from .._predict.predictive import Latent
from .._utils.checks import check_levels, group_codes
from .._utils.compat import cached_property, safe_indexing
from ..curvature import machine_bytes
from ..exceptions import CalibrationWarning, FlexibleModelWarning, warn_user
from .calibration import ROUNDING, SCORES, class_scores, ends_of_many, outward, reaching, rows_needed, weight_to_reach


def unit_weights(weight, group):
    """Weights (n,) of rows relative to a new row: frequencies, or shares that sum to one in each group."""
    if group is None:
        return weight
    total = np.bincount(group, weights=weight)[group]
    return np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)


def warn_of_few_rows(levels, total):
    """Warn if there are too few rows for a level."""
    out_of_reach = weight_to_reach(levels, total) > total
    if out_of_reach.any():
        level = levels[out_of_reach].max()
        warn_user(
            f"confidence_level={level:g} needs at least {rows_needed(level)} training rows or groups, and there are "
            f"{total:.4g}, so all bounds are infinite. Try: a lower level.",
            CalibrationWarning,
        )


@dataclass(frozen=True)
class NoJackknife:
    """Reason why there are no jackknife+ intervals."""

    reason: str

    def interval(self, X, confidence_level):
        """Raise an error with the reason."""
        raise ValueError(self.reason)


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Leave-one-out fits, without each row or group, and the scores of the rows that they have not seen.

    With an identity link the score is the absolute residual on the fitted scale, so a monotone transform of the target
    keeps the guarantee. Behind another link it is "distribution", of an observation at the leave-one-out prediction.
    """

    model: Any  # the fit to all rows
    steps: np.ndarray  # (G, p), from theta to the parameters of each leave-one-out fit
    unit: np.ndarray  # (n,), position of the fit without each row
    scores: np.ndarray  # (n,)
    weight: np.ndarray  # (n,), see unit_weights
    per_row: float  # effective parameters per row
    noise: Any  # the fitted noise
    of_no_rows: Any  # a Predictive without rows, with loss, noise distribution and target

    @classmethod
    def from_held_out(cls, held_out, output, model, noise):
        """Build from the leave-one-out record of an Output; a NoJackknife if that is impossible."""
        units = len(held_out) if held_out.group is None else len(output.rows.groups.count)
        needed = 8 * units * len(model.theta)
        if not output.has_exact_leverages:
            name = type(output.training.curvature).__name__
            return NoJackknife(f"kind='jackknife+' needs exact leverages, which {name} lacks; use a dense curvature.")
        if needed > machine_bytes() / 4:
            return NoJackknife(
                f"kind='jackknife+' stores {len(model.theta)} parameters of {units} fits, {needed / 1e9:.3g} GB, more "
                "than a quarter of this machine's memory. Set rows aside for conformalize, or use RibbonCV and 'cv+'."
            )
        own, unit, scores = (
            held_out.distribution,
            held_out.group,
            np.abs(held_out.residuals) * np.sqrt(held_out.precision),
        )
        if not model.loss.additive:
            scores = SCORES["distribution"].of(replace(own, latent=_certain(held_out.f)), held_out.y)
        counted, steps = held_out.weight > 0, output.unit_steps
        weight = unit_weights(held_out.weight, unit)[counted]
        unit = (np.arange(len(held_out)) if unit is None else unit)[counted]
        per_row, of_no_rows = output.training.parameters_per_row, replace(own, latent=None, dispersion=None)
        return cls(model, steps, unit, scores[counted], weight, per_row, noise, of_no_rows)

    def interval(self, X, confidence_level):
        """Intervals (n, 2) or (n, 2, L) at prepared rows X."""
        model, (levels, scalar) = self.model, check_levels(confidence_level, "confidence_level")
        warn_of_few_rows(levels, self.weight.sum())
        if not model.is_linear and self.per_row > EASY_LEVERAGE:
            warn_user(
                f"The network has {self.per_row:.2f} effective parameters per row, so jackknife+ intervals are too "
                "narrow. Try: kind='cv+' of RibbonCV, or conformalize.",
                FlexibleModelWarning,
            )
        of_block = self._of_straight_block if model.loss.additive else self._of_block
        width = model.loss.n_outputs * len(self.steps) + (3 + len(levels)) * len(self.scores)
        blocks = row_blocks(X.shape[0], max(model.row_width, len(self.reach[0]) if model.loss.additive else width))
        asked = weight_to_reach(levels, self.weight.sum())
        ends = np.concatenate([of_block(X[rows], asked) for rows in blocks])
        return ends[..., 0] if scalar else ends

    def _of_block(self, X, asked):
        """Intervals (b, 2, L) of a block of rows, from the distributions at the leave-one-out predictions."""
        tangent, score = self.model.tangent(self.model.rows(X)), SCORES["distribution"]
        every = replace(self.of_no_rows, dispersion=self.noise.predict(X))
        f = tangent.f[:, :, None] + tangent.jvp(self.steps.T)  # (b, k, G)
        lower, upper = np.empty((2, len(f), len(self.unit)))
        for g in np.unique(self.unit):
            rows = np.flatnonzero(self.unit == g)
            lower[:, rows], upper[:, rows] = score.ends(replace(every, latent=_certain(f[:, :, g])), self.scores[rows])
        return ends_of_many(lower, upper, asked, self.weight)

    def _of_straight_block(self, X, asked):
        """Intervals (b, 2, L) of a block of rows from the training rows that can be at a bound, if there is no link."""
        (R, q), target, tangent = self.reach, self.of_no_rows.target, self.model.tangent(self.model.rows(X))
        far = np.sqrt((tangent.jvp(R.T)[:, 0] ** 2).sum(axis=1).max()) * q  # (n,)
        ends = np.tile([[-np.inf], [np.inf]], (len(tangent.f), 1, len(asked)))
        for level, weight in enumerate(asked):
            if weight > self.weight.sum():
                continue
            some, before = self._between(far, weight)
            y = tangent.f[:, :1] + tangent.jvp(self.steps[self.unit[some]].T)[:, 0]  # (b, m)
            r = self.scores[some]
            ends[..., [level]] = ends_of_many(y - r, y + r, np.array([weight - before]), self.weight[some])
        ends += np.array([[-1.0], [1.0]]) * outward(0.0, np.abs(ends) + 2 * self.scores.max())
        y = target.decode(ends)[:, :: 1 if target.increasing else -1]
        may_end = np.isfinite([target.lower, target.upper]).any()  # the transform, before y does
        return np.where(np.isinf(ends) & may_end, ends, y)

    def _between(self, far, asked):
        """Rows that may be at a bound if predictions move by at most far (n,), and the weight before them."""
        low, high = self.scores - far, self.scores + far
        bounds = np.stack([low, high])
        first, last = np.minimum(reaching(bounds, np.array([asked]), self.weight)[:, 0], bounds.max(axis=1))
        return np.flatnonzero((high >= first) & (low <= last)), self.weight[high < first].sum()

    @cached_property
    def reach(self):
        """R (r, p) and |q_i| (n,) with step_i = R' q_i, so that predictions move by at most |J_x R'| |q_i|."""
        Q, R = np.linalg.qr(self.steps)
        return R, (1 + 1e-9) * np.linalg.norm(Q, axis=1)[self.unit]


def _certain(f):
    """Raw predictions f (n, k) without uncertainty."""
    return Latent(f, np.zeros((*f.shape, f.shape[1])))


@dataclass(frozen=True, eq=False)
class CrossConformal:
    """Ribbons of all folds, and the conformity scores of the rows that each has not seen."""

    ribbons: tuple
    scores: tuple  # of arrays (n_k,), one for each Ribbon
    weight: np.ndarray  # (n,), see unit_weights
    output: int | None = None  # position among several outputs

    @classmethod
    def from_held_out(cls, ribbons, records):
        """Score the rows of HeldOut records, one for each fitted Ribbon; a tuple if there are several outputs."""
        weight, group = np.concatenate([record.weight for record in records]), None
        if records[0].group is not None:
            group = group_codes(np.concatenate([record.group for record in records]), len(weight))
        ribbons, scores, weight = tuple(ribbons), tuple(map(held_out_scores, records)), unit_weights(weight, group)
        if records[0].y.ndim == 1:
            return cls(ribbons, scores, weight)
        columns = zip(*(own.T for own in scores), strict=True)
        return tuple(cls(ribbons, own, weight, output) for output, own in enumerate(columns))

    def interval(self, X, confidence_level):
        """CV+ intervals (n, 2) or (n, 2, L)."""
        levels, scalar = check_levels(confidence_level, "confidence_level")
        warn_of_few_rows(levels, self.weight.sum())
        blocks = row_blocks(np.shape(X)[0], (8 + len(levels)) * len(self.weight))
        intervals = np.concatenate([self._of_block(safe_indexing(X, rows), levels) for rows in blocks])
        return intervals[..., 0] if scalar else intervals

    def _of_block(self, X, levels):
        """Intervals (n, 2, L) of a block of rows."""
        distributions = [ribbon.predict_distribution(X) for ribbon in self.ribbons]
        if self.output is not None:
            distributions = [distribution.outputs[self.output] for distribution in distributions]
        ends = map(SCORES["distribution"].ends, distributions, self.scores)
        lower, upper = (np.concatenate(side, axis=1) for side in zip(*ends, strict=True))
        return ends_of_many(lower, upper, weight_to_reach(levels, self.weight.sum()), self.weight)

    def sets(self, X, confidence_level):
        """CV+ sets (n, K, L) of classes."""
        levels, _ = check_levels(confidence_level, "confidence_level")
        warn_of_few_rows(levels, self.weight.sum())
        odder, start = 0.0, 0
        for ribbon, own in zip(self.ribbons, self.scores, strict=True):
            weight, order = self.weight[start : start + len(own)], np.argsort(own)
            reached, start = np.append(0.0, np.cumsum(weight[order])), start + len(own)
            scores = class_scores("lac", ribbon.predict_proba(X))
            odder = odder + reached[np.searchsorted(own[order], scores - ROUNDING)]  # weight of rows that score less
        return odder[:, :, None] < weight_to_reach(levels, self.weight.sum())


def held_out_scores(record):
    """Conformity scores (m,) of a HeldOut record, (m, n_outputs) for several outputs; "lac" for a classifier."""
    if record.of_classes:
        return class_scores("lac", record.distribution.mean())[np.arange(len(record)), record.y]
    scores = [SCORES["distribution"].of(own.distribution, own.y) for own in record.outputs]
    return scores[0] if record.y.ndim == 1 else np.stack(scores, axis=1)
