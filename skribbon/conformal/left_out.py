"""Intervals and sets of fits that have not seen some rows: jackknife+ and CV+, after Barber et al. (2021)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core.rows import EASY_LEVERAGE, row_blocks
from .._utils.checks import check_levels, group_codes
from .._utils.compat import safe_indexing
from ..curvature import machine_bytes
from ..exceptions import CalibrationWarning, FlexibleModelWarning, warn_user
from .calibration import ROUNDING, SCORES, class_scores, ends_of_many, outward, rows_needed, weight_to_reach


def unit_weights(weight, group):
    """Weights (n,) of rows against one of a new row: frequencies, or shares of a group that add up to one."""
    if group is None:
        return weight
    total = np.bincount(group, weights=weight)[group]
    return np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)


def warn_of_few_rows(levels, total):
    """Warn if the weight of all rows together does not reach a level."""
    out_of_reach = weight_to_reach(levels, total) > total
    if out_of_reach.any():
        level = levels[out_of_reach].max()
        warn_user(
            f"All ends are infinite: confidence_level={level:g} needs at least {rows_needed(level)} training rows, or "
            f"groups of them, and there are {total:.4g}. Lower the level.",
            CalibrationWarning,
        )


@dataclass(frozen=True, eq=False)
class Jackknife:
    """The fits to all rows but one, or but one group, and how far each is from the row that it has not seen.

    Attributes
    ----------
    steps : ndarray of shape (G, p)
        From theta to the parameters of each fit.
    unit : ndarray of shape (n,) or None
        Which fit has not seen a row; None if each row has its own.
    residuals : ndarray of shape (n,)
        Distances of the rows from those fits, on the scale of y.
    weight : ndarray of shape (n,)
        See :func:`unit_weights`.
    per_row : float
        Effective parameters per row.
    """

    steps: np.ndarray
    unit: np.ndarray | None
    residuals: np.ndarray
    weight: np.ndarray
    per_row: float

    @classmethod
    def of(cls, output, model, y, f):
        """Jackknife of one output whose raw predictions without each row are f (n, k); or a text that says why not."""
        rows = output.rows
        units = len(rows.y) if rows.groups is None else len(rows.groups.count)
        needed = 8 * units * len(model.theta)
        if not output.has_exact_leverages:
            name = type(output.training.curvature).__name__
            return f"kind='jackknife+' needs leverages, and {name} knows them roughly only; use a dense curvature."
        if needed > machine_bytes() / 4:
            return (
                f"kind='jackknife+' holds {len(model.theta)} parameters of {units} fits, {needed / 1e9:.3g} GB, more "
                "than a quarter of this machine's memory. Keep rows aside for conformalize, or use RibbonCV and 'cv+'."
            )
        residuals = np.abs(np.asarray(y, dtype=float) - predictions(model, f))
        unit = None if rows.groups is None else rows.groups.code
        counted, steps = rows.weight > 0, output.unit_steps
        weight = unit_weights(rows.weight, unit)[counted]
        steps, unit = (steps[counted], None) if unit is None else (steps, unit[counted])
        return cls(steps, unit, residuals[counted], weight, output.training.parameters_per_row)

    def interval(self, model, X, confidence_level):
        """Intervals (n, 2) or (n, 2, L) at prepared rows X."""
        levels, scalar = check_levels(confidence_level, "confidence_level")
        warn_of_few_rows(levels, self.weight.sum())
        if not model.is_linear and self.per_row > EASY_LEVERAGE:
            warn_user(
                f"kind='jackknife+' promises too much of a model with {self.per_row:.2f} effective parameters per row "
                "that is not linear: it keeps what it learnt of a row that is left out. Use kind='cv+' of RibbonCV, "
                "or conformalize.",
                FlexibleModelWarning,
            )
        straight = predicts_raw(model)
        of_block = self._of_straight_block if straight else self._of_block
        width = model.loss.n_outputs * len(self.steps) + (3 + len(levels)) * len(self.residuals)
        blocks = row_blocks(X.shape[0], max(model.row_width, len(self.reach[0]) if straight else width))
        asked = weight_to_reach(levels, self.weight.sum())
        ends = np.concatenate([of_block(model.tangent(model.rows(X[rows])), model, asked) for rows in blocks])
        ends += np.array([[-1.0], [1.0]]) * outward(0.0, np.abs(ends) + 2 * self.residuals.max())
        return ends[..., 0] if scalar else ends

    def _of_block(self, tangent, model, asked):
        y = predictions(model, tangent.f[:, :, None] + tangent.jvp(self.steps.T))  # (b, G)
        y = y if self.unit is None else y[:, self.unit]  # (b, n)
        return ends_of_many(y - self.residuals, y + self.residuals, asked, self.weight)

    def _of_straight_block(self, tangent, model, asked):
        """Intervals of a block from the rows that can be at their ends, if predictions are raw predictions."""
        R, q = self.reach
        far = np.sqrt((tangent.jvp(R.T)[:, 0] ** 2).sum(axis=1).max()) * q  # (n,)
        ends = np.tile([[-np.inf], [np.inf]], (len(tangent.f), 1, len(asked)))
        for level, weight in enumerate(asked):
            if weight > self.weight.sum():
                continue
            some, before = self._between(far, weight)
            steps = self.steps[some if self.unit is None else self.unit[some]]
            y, r = tangent.f[:, :1] + tangent.jvp(steps.T)[:, 0], self.residuals[some]  # (b, m), (m,)
            ends[..., [level]] = ends_of_many(y - r, y + r, np.array([weight - before]), self.weight[some])
        return ends

    def _between(self, far, asked):
        """Rows that may be at an end, if fits differ from the one to all rows by at most far (n,); the weight before.

        The end lies between the ends of the smallest and the largest distances that there can be.
        """
        low, high = self.residuals - far, self.residuals + far
        first, last = (_reaching(values, self.weight, asked) for values in (low, high))
        return np.flatnonzero((high >= first) & (low <= last)), self.weight[high < first].sum()

    @cached_property
    def reach(self):
        """R (r, p) and |q_i| (n,) with step_i = R' q_i: no prediction moves by more than |J_x R'| |q_i|."""
        Q, R = np.linalg.qr(self.steps)
        q = np.linalg.norm(Q, axis=1)
        return R, (1 + 1e-9) * (q if self.unit is None else q[self.unit])


def _reaching(values, weight, asked):
    """The first of the values (n,), in their order, up to which the weights reach what is asked."""
    order = np.argsort(values)
    place = np.searchsorted(np.cumsum(weight[order]), asked)
    return values[order[min(place, len(order) - 1)]]


def predicts_raw(model):
    """Whether predictions are raw predictions: no classes, no transformed target, and the identity as link."""
    probe = np.array([-1.5, 0.0, 2.5])
    return model.classes is None and model.target_transformer is None and np.array_equal(model.loss.mean(probe), probe)


def predictions(model, f):
    """Predictions on the scale of y, (n, ...), from raw predictions (n, k, ...)."""
    with np.errstate(all="ignore"):
        t = model.loss.mean(f[:, 0])
        return t if model.target_transformer is None else model.decode_target(t.reshape(-1)).reshape(t.shape)


@dataclass(frozen=True, eq=False)
class CrossConformal:
    """The fits of folds, and the scores under them of the rows that each has not seen.

    Attributes
    ----------
    ribbons : tuple of fitted Ribbons
    scores : tuple of ndarrays of shape (n_k,)
    weight : ndarray of shape (n,)
        See :func:`unit_weights`.
    output : int or None
        Which of several outputs is asked for; scores are then (n_k, m).
    """

    ribbons: tuple
    scores: tuple
    weight: np.ndarray
    output: int | None = None

    @classmethod
    def of(cls, folds, ribbons, score):
        """Score the held-out rows of folds by their Ribbons; ``score(ribbon, X, y)`` gives the scores of rows."""
        weight = np.concatenate([np.ones(len(fold.y)) if fold.weight is None else fold.weight for fold in folds])
        group = None if folds[0].group is None else np.concatenate([fold.group for fold in folds])
        group = None if group is None else group_codes(group, len(group))
        scores = tuple(score(ribbon, fold.X, fold.y) for ribbon, fold in zip(ribbons, folds, strict=True))
        return cls(tuple(ribbons), scores, unit_weights(weight, group))

    def interval(self, X, confidence_level):
        """Intervals (n, 2) or (n, 2, L)."""
        levels, scalar = check_levels(confidence_level, "confidence_level")
        warn_of_few_rows(levels, self.weight.sum())
        blocks = row_blocks(np.shape(X)[0], (8 + len(levels)) * len(self.weight))
        intervals = np.concatenate([self._of_block(safe_indexing(X, rows), levels) for rows in blocks])
        return intervals[..., 0] if scalar else intervals

    def _of_block(self, X, levels):
        ends = [
            SCORES["distribution"].ends(*self._of_output(ribbon.predict_distribution(X), scores))
            for ribbon, scores in zip(self.ribbons, self.scores, strict=True)
        ]
        lower, upper = (np.concatenate(side, axis=1) for side in zip(*ends, strict=True))
        return ends_of_many(lower, upper, weight_to_reach(levels, self.weight.sum()), self.weight)

    def _of_output(self, distribution, scores):
        if self.output is None:
            return distribution, scores
        return distribution.outputs[self.output], scores[:, self.output]

    def sets(self, X, confidence_level, score):
        """Sets (n, K, L) of the classes that are odder than too few of the rows; ``score(ribbon, X)`` is (n, K)."""
        levels, _ = check_levels(confidence_level, "confidence_level")
        warn_of_few_rows(levels, self.weight.sum())
        odder, start = 0.0, 0
        for ribbon, own in zip(self.ribbons, self.scores, strict=True):
            weight, order = self.weight[start : start + len(own)], np.argsort(own)
            reached, start = np.append(0.0, np.cumsum(weight[order])), start + len(own)
            odder = odder + reached[np.searchsorted(own[order], score(ribbon, X) - ROUNDING)]  # of rows that score less
        asked = weight_to_reach(levels, self.weight.sum())
        return odder[:, :, None] < asked


def distribution_scores(ribbon: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """Scores (n,) of rows under the law that a Ribbon predicts, (n, m) of several outputs."""
    distribution, y, score = ribbon.predict_distribution(X), np.asarray(y, dtype=float), SCORES["distribution"]
    if y.ndim == 1:
        return score.of(distribution, y)
    return np.stack([score.of(own, column) for own, column in zip(distribution.outputs, y.T, strict=True)], axis=1)


def class_scores_of(score: str, ribbon: Any, X: Any) -> np.ndarray:
    """Scores (n, K) of all classes by a classifier."""
    return class_scores(score, ribbon.predict_proba(X))


def own_class_scores(score: str, ribbon: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """Scores (n,) of the classes that rows have."""
    own = ribbon.model_.encode_target(y).astype(int)
    return class_scores_of(score, ribbon, X)[np.arange(len(own)), own]
