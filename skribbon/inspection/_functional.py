"""Numbers that are functions of the fitted parameters, to first order, with their uncertainty.

A functional q(theta) with gradient G (m, p) has the variances of the rows of G R, with R the root of the parameters'
covariance: exact if q is linear, the delta method otherwise. A mean of predictions over rows has the gradient
sum_i c_i s_i' J_i, with s_i the derivative of the row's prediction in its raw prediction: one reverse pass over the
rows for every output and group, and no (n, p) array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
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
from .._estimators.cv import RibbonCV
from .._estimators.regressor import predictive
from .._estimators.ribbon import LEAN_LIMIT, SEEN_LIMIT
from .._predict.latent import Latent
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
    """m numbers made of the fitted parameters."""

    estimate: FloatArray  # (m,)
    move: Callable[[FloatArray], FloatArray]  # moves along directions of the parameters, (p, r) to (m, r)
    unit: FloatArray  # (m,), how far they move if raw predictions move by one
    seen: float = SEEN_LIMIT  # how far they may reach into an undetermined direction, in that unit

    def inferred(self, ribbon: Any) -> Inferred:
        """Estimates with standard errors and degrees of freedom by the parameters' distribution ``ribbon``."""
        std_error = np.sqrt((self.move(ribbon.root) ** 2).sum(axis=1))
        df = np.asarray(ribbon.degrees_of_freedom(self.move), dtype=float)
        far = self._reach(ribbon.undetermined) > self.seen * self.unit
        leaning = self._reach(ribbon.single) > LEAN_LIMIT * self.unit
        return Inferred(self.estimate, std_error, df, far, leaning)

    def _reach(self, directions):
        if not directions.shape[1]:
            return np.zeros(len(self.estimate))
        return np.abs(self.move(directions)).max(axis=1)


@dataclass(frozen=True, eq=False)
class Inferred:
    """Estimates with what is known of their errors, (m,) each; ``far`` and ``leaning`` mark understated ones."""

    estimate: FloatArray
    std_error: FloatArray
    df: FloatArray
    far: NDArray[np.bool_]
    leaning: NDArray[np.bool_]

    @classmethod
    def concatenate(cls, pieces: Sequence[Inferred]) -> Self:
        """Join several into one."""
        return cls(*(np.concatenate([getattr(piece, field.name) for piece in pieces]) for field in fields(cls)))

    def with_noise(self, variance: FloatArray) -> Inferred:
        """Add independent noise of known variance (m,); degrees of freedom by Welch and Satterthwaite."""
        total = self.std_error**2 + variance
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(self.std_error > 0, self.df * (total / self.std_error**2) ** 2, np.inf)
        return replace(self, std_error=np.sqrt(total), df=df)

    def warn(self, noun: str = "estimates") -> Self:
        """Warn if standard errors are unknown or too small."""
        if self.far.any():
            warn_user(
                f"{self.far.sum()} {noun} lie along directions that the training data do not determine "
                "(collinear or constant columns, too few rows, saturated units): their errors are unknown. "
                "Drop redundant columns, or train on rows like these.",
                UndeterminedDirectionWarning,
            )
        if self.leaning.any():
            warn_user(
                f"{self.leaning.sum()} {noun} lean on a single training row each, or on a single group of them, such "
                "as the only one of its category: the error of that row cannot be estimated, so their standard errors "
                "are too small. Merge rare categories, or penalise the base model.",
                LeverageWarning,
            )
        return self

    def frame(
        self,
        labels: dict[str, Any],
        level: float,
        value: float | FloatArray = 0.0,
        exponentiate: bool = False,
        tested: bool = True,
        noun: str = "estimates",
    ) -> pd.DataFrame:
        """Table with a row per estimate, after its labels (m,), and tests against ``value``.

        If ``exponentiate``, estimates are logarithms of what the table shows; statistics are those of the logarithm.
        Unless ``tested``, statistic and p_value are missing.
        """
        self.warn(noun)
        std_error = np.where(self.far, np.nan, self.std_error)  # not zero, which it would be along such directions
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


# ---------------------------------------------------------------------- predictions as functionals
@dataclass(frozen=True, eq=False)
class Response:
    """Predictions of a fitted estimator at its parameters: the mean of y, or the probability of each class."""

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
    """n rows in m groups, and the weight of each row in the mean or total of its group."""

    labels: Sequence[Any]  # (m,)
    codes: NDArray[np.intp]  # (n,), positions among the labels
    weight: FloatArray  # (n,); weights of a mean add up to one in each group

    def take(self, rows: slice) -> Groups:
        """Groups of some of the rows."""
        return replace(self, codes=self.codes[rows], weight=self.weight[rows])

    @cached_property
    def _indicator(self):
        """Weight of each row in its group, (m, n)."""
        n, m = len(self.codes), len(self.labels)
        if m == 1:
            return self.weight[None, :]
        return sparse.csr_array((self.weight, self.codes, np.arange(n + 1)), shape=(n, m)).T.tocsr()

    def sums(self, values: Any) -> FloatArray:
        """Weighted sums (m, ...) over the groups of ``values`` (n, ...)."""
        summed = self._indicator @ values.reshape(len(self.codes), -1)
        summed = summed.toarray() if sparse.issparse(summed) else summed
        return summed.reshape(len(self.labels), *values.shape[1:])

    def seeds(self, slopes: FloatArray) -> FloatArray:
        """Weighted slopes (n, K, k) of each group in columns of its own, (n, k, m K)."""
        (n, K, k), m = slopes.shape, len(self.labels)
        seeds = np.zeros((n, k, m, K))
        seeds[np.arange(n), :, self.codes] = (slopes * self.weight[:, None, None]).transpose(0, 2, 1)
        return seeds.reshape(n, k, m * K)


@dataclass(frozen=True, eq=False)
class Means:
    """Means or totals of predictions over groups of rows."""

    values: FloatArray  # (m, K)
    gradients: FloatArray  # (m, K, p), derivatives of the values in the parameters
    unit: FloatArray  # (m, K), how far the values move if all raw predictions move by one
    noise: FloatArray | None = None  # (m,), variances of the mean of observations around its mean

    @classmethod
    def from_rows(cls, response: Response, X: Any, groups: Groups, noise: bool = False) -> Means:
        """Add up predictions and gradients of prepared rows X, block by block."""
        model, m, K = response.model, len(groups.labels), response.n_outputs
        p, k = len(model.theta), model.n_outputs
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


@dataclass(frozen=True)
class Combination:
    """A number made of one prediction, or of two at changed inputs.

    ``function`` takes the predictions to that number and its derivatives in each; ``reach`` is the share of the
    column's range that lies between the inputs, if it is small on purpose.
    """

    function: Callable[..., tuple[FloatArray, tuple[Any, ...]]]
    reach: float = 1.0
    logarithm: bool = False

    def at(self, *predictions: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Numbers and derivatives, with the shape of the predictions each."""
        value, derivatives = self.function(*predictions)
        return value, [np.broadcast_to(d, value.shape) for d in derivatives]


def _level(a):
    return a, (1.0,)


def _difference(step, b, a):
    return (b - a) / step, (1 / step, -1 / step)


def _log_ratio(b, a):
    if not (np.all(a > 0) and np.all(b > 0)):
        raise ValueError("transform='ratio' needs predictions above zero; use transform='difference'.")
    return np.log(b) - np.log(a), (1 / b, -1 / a)


LEVEL = Combination(_level)
LOG_RATIO = Combination(_log_ratio, logarithm=True)


def difference(step: float = 1.0, reach: float = 1.0) -> Combination:
    """Difference of two predictions, divided by the step between their inputs."""
    return Combination(partial(_difference, step), reach)


def infer_means(combination: Combination, means: Sequence[Means], ribbon: Any) -> Inferred:
    """Infer a combination of means over the same groups, (m K,)."""
    estimate, derivatives = combination.at(*(mean.values for mean in means))
    pairs = list(zip(derivatives, means, strict=True))
    gradients = np.sum([d[:, :, None] * mean.gradients for d, mean in pairs], axis=0)
    unit = np.max([np.abs(d) * mean.unit for d, mean in pairs], axis=0)
    estimate, gradient = estimate.ravel(), gradients.reshape(estimate.size, -1)  # (m K, p)
    unit = combination.reach * unit.ravel()
    some = row_blocks(len(estimate), _directions(ribbon))
    pieces = [Functional(estimate[g], gradient[g].__matmul__, unit[g]).inferred(ribbon) for g in some]
    return Inferred.concatenate(pieces)


def _directions(ribbon):
    """Largest number of directions that a functional is moved along at once."""
    single = 0 if ribbon.freedom is None else ribbon.freedom.width
    return max(ribbon.root.shape[1], single)


def infer_rows(combination: Combination, response: Response, prepared: Sequence[Any], ribbon: Any) -> Inferred:
    """Infer a combination of the predictions of each row, (n K,), at one or two prepared X."""
    model, pieces = response.model, []
    width = max(model.row_width, max(model.n_outputs, response.n_outputs) * _directions(ribbon))
    for rows in row_blocks(prepared[0].shape[0], width):
        tangents = [model.tangent(model.rows(X[rows])) for X in prepared]
        at = [response.at(tangent.f, X[rows]) for tangent, X in zip(tangents, prepared, strict=True)]
        estimate, derivatives = combination.at(*(values for values, _ in at))
        seeds = [d[:, :, None] * slopes for d, (_, slopes) in zip(derivatives, at, strict=True)]
        unit = np.max([np.abs(seed).sum(axis=2) for seed in seeds], axis=0)
        move = partial(_moved, tangents, seeds)
        pieces.append(Functional(estimate.ravel(), move, combination.reach * unit.ravel()).inferred(ribbon))
    return Inferred.concatenate(pieces)


def _moved(tangents, seeds, V):
    """sum over inputs of s_i' J_i V, (b K, r)."""
    moved = sum(seed @ tangent.jvp(V) for tangent, seed in zip(tangents, seeds, strict=True))
    return moved.reshape(moved.shape[0] * moved.shape[1], V.shape[1])  # also where there are no directions
