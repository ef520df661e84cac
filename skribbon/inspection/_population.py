r"""Averages for the population that rows were sampled from, instead of for these rows as they are.

Under Dirichlet weights the average is reweighted like the fit. To first order an average with weights c_i of effects
e_i, with mean m and derivative G in the parameters, moves with row i by

.. math:: \psi_i = n c_i (e_i - m) + G\, \mathrm{IF}_i, \qquad \mathrm{IF}_i = -H_r^{-1} g_i,

and has the variance :math:`\frac{1}{n\alpha + 1} \frac1n \sum_i \psi_i^2`, or with sums over groups in place of rows.
The variance of the second part is known from the fit. This module computes the variance of the first part and, if the
rows are the training rows, the correlation of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from .._core.crossed import Cells, all_cells
from .._core.ribbon import rescaling
from .._core.rows import row_blocks
from .._core.training import Training, corrected_scores
from .._estimators.ribbon import BaseRibbon
from .._utils.checks import checked_groups, checked_weight
from .._utils.typing import FloatArray
from ..models.base import OneOutput
from ._functional import Groups, Response
from ._row_influence import along_functionals


def training_again(asking: str, estimator: Any, train: tuple) -> Training:
    """Training of a Ribbon whose training rows X, y, sample_weight and groups are passed again."""
    if not isinstance(estimator, BaseRibbon):
        raise TypeError(f"{asking} needs a RibbonRegressor or RibbonClassifier, got {type(estimator).__name__}.")
    if isinstance(estimator.model_, OneOutput):
        raise ValueError(
            f"{asking} is about training rows, and the outputs of this model share their parameters: one output "
            "alone does not show the influence of a row. Fit a Ribbon to that output alone."
        )
    return estimator._training_again(*train)


def sample_of(response: Response, asking: str, X: Any, population: bool, rest: tuple) -> Sample | None:
    """Rows X as a sample, with the y, sample_weight and groups in ``rest``; None unless ``population``."""
    if not isinstance(population, bool | np.bool_):
        raise ValueError(f"population must be True or False, got {population!r}.")
    if population:
        return Sample.from_rows(response, asking, X, *rest)
    for name, given in zip(("y", "sample_weight", "groups"), rest, strict=True):
        if given is not None:
            raise ValueError(f"{name} describes a sample from a population; pass population=True with it.")
    return None


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows as a sample from a population."""

    weight: FloatArray  # (n,), how often each row was observed
    average: FloatArray  # (n,), weight of each row in an average
    response: Response
    parts: list[tuple[Cells | None, Training | None]]  # cells of dependent rows, or None, with their Training

    @classmethod
    def from_rows(cls, response: Response, asking: str, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """Check the rows; with y, they are the training rows of the Ribbon."""
        estimator, training = response.estimator, None
        average = checked_weight(sample_weight, X)
        weight = average if getattr(estimator, "weight_type", "frequency") == "frequency" else np.sign(average)
        if groups is None and getattr(estimator, "n_groups_", None) is not None:
            raise ValueError("groups is missing, but the Ribbon was fitted with it: pass the groups of these rows too.")
        code = checked_groups(groups, len(average), weight)
        if y is not None:
            training = training_again(f"{asking}(population=True, y=...)", estimator, (X, y, sample_weight, groups))
            training = replace(training, scaled=True)  # fit has warned of leverages
        cells = [] if code is None else all_cells(code.reshape(len(average), -1), weight)
        parts = [(some, None if training is None else some.training(training)) for some in cells]
        return cls(weight, average, response, parts or [(None, training)])

    def part(self, groups: Groups, pairs: Any, gradient: FloatArray) -> tuple[Any, ...]:
        """Variance and degrees of freedom of sampling, correlation with the fit, (m K,) each, and most degrees in all.

        ``groups`` are those of the averages, ``pairs`` the derivatives (m, K) of the estimates in some Means with these
        Means, and ``gradient`` (m K, p) the derivatives of the estimates in the parameters.
        """
        (m, K), n, code = pairs[0][0].shape, self.weight.sum(), groups.codes
        away = sum(d[code] * (means.rows - means.values[code]) for d, means in pairs)  # (n, K)
        per_copy = np.divide(groups.weight, self.weight, out=np.zeros(len(code)), where=self.weight > 0)
        own, pieces = n * per_copy[:, None] * away, []
        for some in row_blocks(m * K, 4 * len(code)):
            label, output = np.divmod(np.arange(m * K)[some], K)
            inside = code[:, None] == label
            share = np.where(inside, per_copy[:, None], 0.0)
            pieces.append(self._part(np.where(inside, own[:, output], 0.0), share, gradient[some]))
        variance, df, correlation = map(np.concatenate, zip(*pieces, strict=True))
        units = min(min(cells.counts) if cells else n for cells, _ in self.parts)
        return variance, df, correlation, np.inf if self.parts[0][1] is None else units - 1.0

    def _part(self, own, share, gradient):
        """Part of s estimates, (s,) each, from what rows add to them, (n, s), and their shares in averages, (n, s)."""
        total, df, n, w = np.zeros((3, len(gradient))), np.full(len(gradient), np.inf), self.weight.sum(), self.weight
        for cells, training in self.parts:
            influences = np.zeros_like(own) if training is None else self._influences(training, gradient)
            values = np.hstack([own, influences])
            if cells is None:
                units, squares, shares = n, n / (n + 1) * _products(np.sqrt(w)[:, None] * values), np.sqrt(w) * share.T
            else:
                units, sums = min(cells.counts), cells.sums(w[:, None] * values)
                squares, shares = cells.variance * cells.centred(sums, _products), cells.sums(w[:, None] * share).T
            effective = 1 / np.square(shares).sum(axis=1)  # number of rows, or groups, by Kish
            rate = effective / np.maximum(effective - 1, 1e-9)
            total += squares / n**2 * np.stack([rate, np.ones_like(rate), np.sqrt(rate)])
            df = np.minimum(df, effective - 1) if cells is None or len(cells.counts) == 1 else df
        variance, of_fit, cross = total * rescaling(units, 1.0, self.response.estimator.ribbon_.alpha)
        correlation = np.divide(cross, np.sqrt(variance * of_fit), out=np.zeros_like(df), where=variance * of_fit > 0)
        return np.where(df < 1e-6, np.inf, variance), np.maximum(df, 1.0), correlation

    def _influences(self, training, gradient):
        """G IF_i of each training row, (n, s)."""
        rows, (corrected, centre) = training.rows, corrected_scores(training)
        if rows.model is not self.response.model:
            gradient = gradient @ rows.model.uncentred(np.eye(len(rows.model.theta)))
        D = training.H_r.solve(gradient.T)
        along = rows.map(partial(along_functionals, D, corrected), max(rows.model.row_width, D.shape[1]))
        return (centre @ D if rows.groups is None else 0.0) - along  # sums over cells are centred themselves


def _products(values):
    """Sums of o^2, f^2 and o f, (3, s), over values (n, 2 s) with columns o, then f."""
    own, of_fit = np.split(values, 2, axis=1)
    return np.stack([np.einsum("ns,ns->s", *pair) for pair in ((own, own), (of_fit, of_fit), (own, of_fit))])
