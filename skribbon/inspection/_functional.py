"""Functions of the fitted parameters, to first order, with their uncertainty.

A functional with gradient G (m, p) has the variances of the rows of G R, with R the root of the parameters' covariance:
exact if the functional is linear, the delta method otherwise. Means over rows need no (n, p) array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.rows import row_blocks
from .._core.thresholds import SINGLE_ROW_TOL, UNDETERMINED_TOL
from .._estimators.cv import RibbonCV
from .._predict.joint import predictive
from .._predict.predictive import Latent
from .._utils.checks import listed
from .._utils.typing import FloatArray
from ..exceptions import LeverageWarning, UndeterminedDirectionWarning, warn_user


def fitted_ribbon(estimator: BaseEstimator, asking: str, several: bool = False) -> Any:
    """Unwrap the fitted estimator that holds ``model_`` and ``ribbon_``; refuse several outputs unless ``several``."""
    inner: Any = estimator
    while isinstance(inner, RibbonCV | FrozenEstimator):
        check_is_fitted(inner)
        inner = inner.estimator_ if isinstance(inner, RibbonCV) else inner.estimator
    check_is_fitted(inner)
    if not hasattr(inner, "ribbon_"):
        raise TypeError(
            f"{asking} needs an estimator that holds a covariance of the parameters, such as RibbonRegressor, "
            f"RibbonClassifier or LaplaceRegressor; {type(inner).__name__} has none. For a search, pass its "
            "best_estimator_; a pipeline belongs inside the Ribbon."
        )
    if inner.model_.loss.by_output and not several:
        names = inner.output_names_
        raise ValueError(
            f"{asking} is about one output, but there are {len(names)}: {listed(names)}. Pass one of "
            f"them, ribbon.output({names.tolist()[0]!r})."
        )
    return inner


@dataclass(frozen=True, eq=False)
class Functional:
    """Vector of m functions of the fitted parameters, with its derivative."""

    estimate: FloatArray  # (m,)
    move: Callable[[FloatArray], FloatArray]  # derivative along directions of the parameters, (p, r) to (m, r)
    unit: FloatArray  # (m,), change of the values if raw predictions change by one
    tolerance: float = UNDETERMINED_TOL  # largest part along an undetermined direction, in units, with a known error

    def inferred(self, ribbon: Any) -> Inferred:
        """Compute standard errors and degrees of freedom from the parameters' distribution ``ribbon``."""
        std_error = np.sqrt((self.move(ribbon.root) ** 2).sum(axis=1))
        df = np.asarray(ribbon.degrees_of_freedom(self.move), dtype=float)
        undetermined = self._largest_part(ribbon.undetermined) > self.tolerance * self.unit
        single = self._largest_part(ribbon.single) > SINGLE_ROW_TOL * self.unit
        return Inferred(self.estimate, std_error, df, undetermined, single)

    def _largest_part(self, directions):
        """Size (m,) of the derivative along the direction with the largest one."""
        return np.abs(self.move(directions)).max(axis=1) if directions.shape[1] else np.zeros(len(self.estimate))


@dataclass(frozen=True, eq=False)
class Inferred:
    """Estimates with standard errors and degrees of freedom, (m,) each."""

    estimate: FloatArray
    std_error: FloatArray
    df: FloatArray
    undetermined: NDArray[np.bool_]  # whether the error is unknown
    single: NDArray[np.bool_]  # whether one training row or group determines the estimate, so that its error is larger

    @classmethod
    def concatenate(cls, pieces: Sequence[Inferred]) -> Self:
        """Join the estimates of several pieces."""
        return cls(*(np.concatenate([getattr(piece, field.name) for piece in pieces]) for field in fields(cls)))

    def with_noise(self, variance: FloatArray) -> Inferred:
        """Add independent noise of known variance (m,); degrees of freedom by Welch and Satterthwaite."""
        total = self.std_error**2 + variance
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(self.std_error > 0, self.df * (total / self.std_error**2) ** 2, np.inf)
        return replace(self, std_error=np.sqrt(total), df=df)

    def warn(self, noun: str = "estimates") -> Self:
        """Warn if standard errors are unknown or too small."""
        if self.undetermined.any():
            warn_user(
                f"{self.undetermined.sum()} {noun} lie along directions that the training data do not determine, so "
                "their errors are unknown. Try: drop collinear or constant columns, or train on rows like these.",
                UndeterminedDirectionWarning,
            )
        if self.single.any():
            warn_user(
                f"{self.single.sum()} {noun} depend on a single training row or group each, whose error is unknown, so "
                "their standard errors are too small. Try: merge rare categories, or penalise the base model.",
                LeverageWarning,
            )
        return self

    def frame(self, labels, level, *, value=0.0, exponentiate=False, tested=True, noun="estimates") -> pd.DataFrame:
        """Build the table of estimates; if ``exponentiate``, they are logarithms, and tests stay on the log scale."""
        self.warn(noun)
        std_error = np.where(self.undetermined, np.nan, self.std_error)  # whose value there is zero
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = (self.estimate - value) / std_error
        half = student.ppf((1 + level) / 2, self.df) * std_error
        shown = np.exp if exponentiate else np.asarray
        columns = {
            "estimate": shown(self.estimate),
            "std_error": std_error * (np.exp(self.estimate) if exponentiate else 1.0),
            "statistic": statistic if tested else np.nan,
            "df": self.df,
            "p_value": 2 * student.sf(np.abs(statistic), self.df) if tested else np.nan,
            "conf_low": shown(self.estimate - half),
            "conf_high": shown(self.estimate + half),
        }
        return pd.DataFrame({**labels, **columns})


class Response:
    """Predictions of a fitted estimator at its parameters: the mean of y, or K class probabilities."""

    def __init__(self, ribbon, asking):
        self.estimator = estimator = fitted_ribbon(ribbon, asking)
        self.model, self.prepared = estimator.model_, estimator._prepared
        self.classes = self.model.classes
        self.n_outputs = 1 if self.classes is None else len(self.classes)

    def at(self, f: FloatArray, X: Any) -> tuple[FloatArray, FloatArray]:
        """Predictions (b, K) and their derivatives (b, K, k) in raw predictions f (b, k) of prepared rows X."""
        loss = self.model.loss
        if self.classes is not None:
            temperature = getattr(self.estimator, "temperature", 1.0)
            P = loss.probabilities(f / temperature)
            basis = np.array([[0.0], [1.0]]) if loss.output_map is None else loss.output_map  # (K, k)
            return P, P[:, :, None] * (basis - (P @ basis)[:, None, :]) / temperature
        slopes = np.zeros((len(f), 1, f.shape[1]))  # zero for the scale beside a location
        if self.estimator.target_scale_.is_identity:
            slopes[:, 0, 0] = loss.mean_derivative(f[:, 0])
            return loss.mean(f[:, :1]), slopes
        distribution = self._at_parameters(f, X)
        slopes[:, 0, 0] = distribution.slope()
        return distribution.prediction()[:, None], slopes

    def noise(self, f: FloatArray, X: Any) -> FloatArray:
        """Variances (b,) of observations around their means at raw predictions f (b, k) of prepared rows X."""
        return self._at_parameters(f, X).standard_errors()[1] ** 2

    def _at_parameters(self, f, X):
        estimator, k = self.estimator, f.shape[1]
        latent = Latent(f, np.zeros((len(f), k, k)))
        return predictive(self.model, latent, estimator.noise_, estimator.law_, X, estimator.target_scale_)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of n rows, with the weight of each row in the mean or total of its group."""

    labels: Sequence[Any]  # (m,)
    codes: NDArray[np.intp]  # (n,), positions among the labels
    weight: FloatArray  # (n,); weights of a mean add up to one in each group

    def take(self, rows: slice) -> Groups:
        """Select some of the rows."""
        return replace(self, codes=self.codes[rows], weight=self.weight[rows])

    def sums(self, values: Any) -> FloatArray:
        """Weighted sums (m, ...) over the groups of ``values`` (n, ...)."""
        n, m = len(self.codes), len(self.labels)
        indicator = sparse.csr_array((self.weight, self.codes, np.arange(n + 1)), shape=(n, m)).T
        summed = indicator @ values.reshape(n, -1)
        return (summed.toarray() if sparse.issparse(summed) else summed).reshape(m, *values.shape[1:])

    def seeds(self, slopes: FloatArray) -> FloatArray:
        """Arrange weighted slopes (n, K, k) with columns for each group, (n, k, m K)."""
        (n, K, k), m = slopes.shape, len(self.labels)
        seeds = np.zeros((n, k, m, K))
        seeds[np.arange(n), :, self.codes] = (slopes * self.weight[:, None, None]).transpose(0, 2, 1)
        return seeds.reshape(n, k, m * K)


@dataclass(frozen=True, eq=False)
class Means:
    """Means or totals of predictions over groups of rows."""

    values: FloatArray  # (m, K)
    gradients: FloatArray  # (m, K, p), derivatives of the values in the parameters
    unit: FloatArray  # (m, K), change of the values if all raw predictions change by one
    noise: FloatArray | None = None  # (m,), variance of the mean or total of observations around its expectation

    @classmethod
    def from_rows(cls, response: Response, X: Any, groups: Groups, noise: bool = False) -> Means:
        """Add up predictions and gradients of prepared rows X, block by block."""
        model, m, K = response.model, len(groups.labels), response.n_outputs
        p, k = len(model.theta), model.loss.n_outputs
        reverse = m * K * k <= p  # seeds of all groups and outputs are smaller than the rows' gradients
        values, unit, variance = np.zeros((m, K)), np.zeros((m, K)), np.zeros(m)
        gradients = np.zeros((m, K, p))
        for rows in row_blocks(X.shape[0], max(model.row_width, m * K * k if reverse else p)):
            tangent, block = model.tangent(model.rows(X[rows])), groups.take(rows)
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


def identity(a):
    """Return a prediction itself and its derivative."""
    return a, (np.ones_like(a),)


def difference(b, a, step=1.0):
    """Return the difference of two predictions over the step between their inputs, and its derivatives."""
    slope = np.full_like(a, 1 / step)
    return (b - a) / step, (slope, -slope)


def log_ratio(b, a):
    """Return the log ratio of two predictions and its derivatives."""
    if not (np.all(a > 0) and np.all(b > 0)):
        raise ValueError("transform='ratio' needs predictions above zero; use transform='difference'.")
    return np.log(b) - np.log(a), (1 / b, -1 / a)


def infer_means(means: Sequence[Means], ribbon: Any, combine: Any = identity, unit_share: float = 1.0) -> Inferred:
    """Infer a combination of means over the same groups, (m K,); ``unit_share`` multiplies their units."""
    estimate, derivatives = combine(*(mean.values for mean in means))
    pairs = list(zip(derivatives, means, strict=True))
    gradients = np.sum([d[:, :, None] * mean.gradients for d, mean in pairs], axis=0)
    unit = unit_share * np.max([np.abs(d) * mean.unit for d, mean in pairs], axis=0).ravel()
    estimate, gradient = estimate.ravel(), gradients.reshape(estimate.size, -1)  # (m K, p)
    blocks = row_blocks(len(estimate), _n_directions(ribbon))
    pieces = [Functional(estimate[b], gradient[b].__matmul__, unit[b]).inferred(ribbon) for b in blocks]
    return Inferred.concatenate(pieces)


def infer_rows(response, prepared, combine=identity, unit_share=1.0) -> Inferred:
    """Infer a combination of the predictions of each row, (n K,), at one or two prepared X."""
    model, ribbon, pieces = response.model, response.estimator.ribbon_, []
    width = max(model.row_width, max(model.loss.n_outputs, response.n_outputs) * _n_directions(ribbon))
    for rows in row_blocks(prepared[0].shape[0], width):
        tangents = [model.tangent(model.rows(X[rows])) for X in prepared]
        at = [response.at(tangent.f, X[rows]) for tangent, X in zip(tangents, prepared, strict=True)]
        estimate, derivatives = combine(*(values for values, _ in at))
        seeds = [d[:, :, None] * slopes for d, (_, slopes) in zip(derivatives, at, strict=True)]
        unit = unit_share * np.max([np.abs(seed).sum(axis=2) for seed in seeds], axis=0).ravel()
        pieces.append(Functional(estimate.ravel(), partial(_along, tangents, seeds), unit).inferred(ribbon))
    return Inferred.concatenate(pieces)


def _n_directions(ribbon):
    """Largest number of directions that a functional is moved along at once."""
    return max(ribbon.root.shape[1], 0 if ribbon.freedom is None else ribbon.freedom.width)


def _along(tangents, seeds, V):
    """Sum over inputs of s_i' J_i V, (b K, r)."""
    moved = sum(seed @ tangent.jvp(V) for tangent, seed in zip(tangents, seeds, strict=True))
    return moved.reshape(moved.shape[0] * moved.shape[1], V.shape[1])  # -1 is ambiguous without directions
