"""Predictions as functions of the parameters: rows, and weighted means and totals of them.

A mean over rows has the gradient sum_i c_i s_i' J_i, with s_i the derivative of the row's prediction in its raw
prediction: one reverse pass over the rows for every output and group, and no (n, p) array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._core.rows import row_blocks
from .._estimators.regression import predictive
from .._predict.predictive import Latent
from .._utils.typing import FloatArray
from ._functional import Functional, Inferred


@dataclass(frozen=True, eq=False)
class Response:
    """What a fitted estimator predicts at the fitted parameters: the mean of y, or the probability of each class."""

    estimator: Any

    @property
    def model(self) -> Any:
        """The base model as a function of its parameters."""
        return self.estimator.model_

    @property
    def classes(self) -> NDArray[Any] | None:
        """Labels of a classifier, (K,)."""
        return self.model.classes

    @property
    def n_outputs(self) -> int:
        """Numbers that are predicted for a row: K classes, or one."""
        return 1 if self.classes is None else len(self.classes)

    def prepared(self, X: Any) -> Any:
        """X behind the base model's transformers."""
        return self.estimator._prepared(X)

    def at(self, f: FloatArray, X: Any) -> tuple[FloatArray, FloatArray]:
        """Predictions (b, K) and their derivatives (b, K, k) in raw predictions f (b, k) of prepared rows X."""
        loss = self.model.loss
        if self.classes is not None:
            temperature = getattr(self.estimator, "temperature", 1.0)
            P = loss.probabilities(f / temperature)
            basis = np.array([[0.0], [1.0]]) if loss.output_map is None else loss.output_map  # (K, k)
            return P, P[:, :, None] * (basis - (P @ basis)[:, None, :]) / temperature
        slopes = np.zeros((len(f), 1, f.shape[1]))  # of a location and its scale, the location
        if self.estimator.target_scale_.is_identity:
            slopes[:, 0, 0] = loss.mean_derivative(f[:, 0])
            return loss.mean(f[:, :1]), slopes
        distribution = self._without_width(f, X)
        slopes[:, 0, 0] = distribution.slope()
        return distribution.prediction()[:, None], slopes

    def noise(self, f: FloatArray, X: Any) -> FloatArray:
        """Variances (b,) of observations around their means at raw predictions f (b, k) of prepared rows X."""
        return self._without_width(f, X).standard_errors()[1] ** 2

    def _without_width(self, f, X):
        estimator, k = self.estimator, f.shape[1]
        latent = Latent(f, np.zeros((len(f), k, k)))
        return predictive(self.model, latent, estimator.noise_, estimator.law_, X, estimator.target_scale_)


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows in m groups, and what each row counts in the mean or total of its group.

    Attributes
    ----------
    labels : sequence of length m
    codes : ndarray of shape (n,)
        Positions among the labels.
    weight : ndarray of shape (n,)
        Those of a mean add up to one in each group.
    """

    labels: Sequence[Any]
    codes: NDArray[np.intp]
    weight: FloatArray

    def of(self, rows: slice) -> BlockGroups:
        """Those of some rows."""
        return BlockGroups(len(self.labels), self.codes[rows], self.weight[rows])


@dataclass(frozen=True, eq=False)
class BlockGroups:
    """Groups of a block of rows."""

    m: int
    codes: NDArray[np.intp]
    weight: FloatArray

    @cached_property
    def _indicator(self):
        """(m, b), the weight of each row in its group."""
        b = len(self.codes)
        if self.m == 1:
            return self.weight[None, :]
        return sparse.csr_array((self.weight, self.codes, np.arange(b + 1)), shape=(b, self.m)).T.tocsr()

    def sums(self, values: Any) -> FloatArray:
        """Weighted sums (m, ...) over the groups of ``values`` (b, ...)."""
        summed = self._indicator @ values.reshape(len(self.codes), -1)
        summed = summed.toarray() if sparse.issparse(summed) else summed
        return summed.reshape(self.m, *values.shape[1:])

    def seeds(self, slopes: FloatArray) -> FloatArray:
        """Weighted slopes (b, K, k) of each group in columns of its own, (b, k, m K)."""
        b, K, k = slopes.shape
        weighted = (slopes * self.weight[:, None, None]).transpose(0, 2, 1)
        if self.m == 1:
            return weighted
        seeds = np.zeros((b, k, self.m, K))
        seeds[np.arange(b), :, self.codes] = weighted
        return seeds.reshape(b, k, self.m * K)


@dataclass(frozen=True, eq=False)
class Means:
    """Means or totals of predictions over groups of rows.

    Attributes
    ----------
    values : ndarray of shape (m, K)
    gradients : ndarray of shape (m, K, p)
        Their derivatives in the parameters.
    unit : ndarray of shape (m, K)
        How far they move as all raw predictions do by one.
    noise : ndarray of shape (m,) or None
        Variances of the same mean of observations around its mean.
    """

    values: FloatArray
    gradients: FloatArray
    unit: FloatArray
    noise: FloatArray | None = None

    @classmethod
    def over(cls, response: Response, X: Any, groups: Groups, noise: bool = False) -> Means:
        """Of prepared rows X, block by block."""
        model, m, K = response.model, len(groups.labels), response.n_outputs
        p, k = len(model.theta), model.n_outputs
        reverse = m * K * k <= p  # seeds of all groups and outputs are smaller than the rows' gradients
        values, unit, variance = np.zeros((m, K)), np.zeros((m, K)), np.zeros(m)
        gradients = np.zeros((m, K, p))
        for rows in row_blocks(X.shape[0], max(model.row_width, m * K * k if reverse else p)):
            tangent, block = model.tangent(model.rows(X[rows])), groups.of(rows)
            predicted, slopes = response.at(tangent.f, X[rows])
            values += block.sums(predicted)
            unit += block.sums(np.sign(block.weight)[:, None] * np.abs(slopes).sum(axis=2))
            if reverse:
                gradients += tangent.vjp(block.seeds(slopes)).T.reshape(m, K, p)
            else:
                gradients += np.stack([block.sums(tangent.scores(slopes[:, q])) for q in range(K)], axis=1)
            if noise:
                variance += block.sums(block.weight * response.noise(tangent.f, X[rows]))
        return cls(values, gradients, unit, variance if noise else None)


# ---------------------------------------------------------------------- what is made of predictions
@dataclass(frozen=True)
class Combination:
    """A number made of one prediction, or of two at changed inputs.

    ``function`` takes them (..., each) to that number and its derivatives in each; ``reach`` is the share of the
    column's range that lies between the inputs, where it is small on purpose.
    """

    function: Callable[..., tuple[FloatArray, tuple[Any, ...]]]
    reach: float = 1.0
    logarithm: bool = False


def _level(a):
    return a, (1.0,)


def _difference(step, b, a):
    return (b - a) / step, (1 / step, -1 / step)


def _log_ratio(b, a):
    if not (np.all(a > 0) and np.all(b > 0)):
        raise ValueError("transform='ratio' needs predictions above zero; use transform='difference'.")
    return np.log(b) - np.log(a), (1 / b, -1 / a)


LEVEL = Combination(_level)
DIFFERENCE = Combination(partial(_difference, 1.0))
LOG_RATIO = Combination(_log_ratio, logarithm=True)


def quotient(step: float, reach: float) -> Combination:
    """Of a difference and the step that made it."""
    return Combination(partial(_difference, step), reach)


def of_means(combination: Combination, means: Sequence[Means], ribbon: Any) -> Inferred:
    """A combination of means over the same groups, (m K,)."""
    estimate, derivatives = combination.function(*(mean.values for mean in means))
    gradients = sum(
        np.multiply(d, np.ones_like(estimate))[:, :, None] * mean.gradients
        for d, mean in zip(derivatives, means, strict=True)
    )
    unit = np.max([np.abs(d) * mean.unit for d, mean in zip(derivatives, means, strict=True)], axis=0)
    estimate, gradient = estimate.ravel(), gradients.reshape(estimate.size, -1)  # (m K, p)
    unit = combination.reach * unit.ravel()
    some = row_blocks(len(estimate), _directions(ribbon))
    pieces = [Functional(estimate[g], gradient[g].__matmul__, unit[g]).inferred(ribbon) for g in some]
    return Inferred.concatenate(pieces)


def _directions(ribbon):
    """How many directions a functional is moved along at once, at most."""
    single = 0 if ribbon.freedom is None else ribbon.freedom.rows.shape[1]  # rows that degrees of freedom look at
    return max(ribbon.root.shape[1], single)


def of_rows(combination: Combination, response: Response, prepared: Sequence[Any], ribbon: Any) -> Inferred:
    """A combination of the predictions of each row, (n K,), at one or two prepared X."""
    model, pieces = response.model, []
    width = max(model.row_width, max(model.n_outputs, response.n_outputs) * _directions(ribbon))
    for rows in row_blocks(prepared[0].shape[0], width):
        tangents = [model.tangent(model.rows(X[rows])) for X in prepared]
        at = [response.at(tangent.f, X[rows]) for tangent, X in zip(tangents, prepared, strict=True)]
        estimate, derivatives = combination.function(*(values for values, _ in at))
        seeds = [
            np.multiply(d, np.ones_like(estimate))[:, :, None] * slopes
            for d, (_, slopes) in zip(derivatives, at, strict=True)
        ]
        unit = np.max([np.abs(seed).sum(axis=2) for seed in seeds], axis=0)
        move = partial(_moved, tangents, seeds)
        pieces.append(Functional(estimate.ravel(), move, combination.reach * unit.ravel()).inferred(ribbon))
    return Inferred.concatenate(pieces)


def _moved(tangents, seeds, V):
    """sum over inputs of s_i' J_i V, (b K, r)."""
    moved = sum(seed @ tangent.jvp(V) for tangent, seed in zip(tangents, seeds, strict=True))
    return moved.reshape(moved.shape[0] * moved.shape[1], V.shape[1])  # also where there are no directions
