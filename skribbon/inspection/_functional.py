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
from scipy.special import ndtr
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.findings import found
from .._core.rows import row_blocks
from .._core.thresholds import SINGLE_ROW_TOL, UNDETERMINED_TOL
from .._estimators.cv import RibbonCV
from .._predict.joint import predictive
from .._predict.predictive import NODES, WEIGHTS, Latent, smearing
from .._utils.checks import check_name, listed
from .._utils.typing import FloatArray


def fitted_ribbon(estimator: BaseEstimator, asking: str, several: bool = False, tuned: bool = False) -> Any:
    """Unwrap the fitted estimator that holds ``model_`` and ``ribbon_``; refuse several outputs unless ``several``.

    The alpha of a RibbonCV was chosen for predictions. It is replaced by 1, the robust sandwich, unless ``tuned``.
    """
    inner: Any = estimator
    while isinstance(inner, RibbonCV | FrozenEstimator):
        check_is_fitted(inner)
        frozen = isinstance(inner, FrozenEstimator)  # has the attributes of what it holds
        inner = inner.estimator if frozen else inner.estimator_ if tuned else inner.with_alpha(1.0)
    check_is_fitted(inner)
    if not hasattr(inner, "ribbon_"):
        raise TypeError(
            f"{asking} needs an estimator that holds a covariance of the parameters, such as RibbonRegressor, "
            f"RibbonClassifier or LaplaceRegressor; {type(inner).__name__} has none. For a search, pass its "
            "best_estimator_; a pipeline belongs inside the Ribbon."
        )
    if inner.model_.loss.by_output and not several:
        names = inner.output_names_
        raise ValueError(f"{asking} takes one output, not {listed(names)}: pass ribbon.output({names.tolist()[0]!r}).")
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

    def with_part(self, variance: FloatArray, df: Any = np.inf, correlation: Any = 0.0, most: Any = np.inf) -> Inferred:
        """Add a part of a variance (m,), known if ``df`` is infinite.

        Degrees of freedom, at most ``most``, by Welch and Satterthwaite.
        """
        own = self.std_error**2
        known = np.where(np.isfinite(variance), np.maximum(variance, 0.0), 0.0)
        total = np.maximum(own + variance + 2 * correlation * np.sqrt(own * known), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.maximum(total, own) ** 2 / (own**2 / self.df + variance**2 / df)
        return replace(self, std_error=np.sqrt(total), df=np.minimum(np.where(np.isnan(df), np.inf, df), most))

    def warn(self, noun: str = "estimates") -> Self:
        """Warn if standard errors are unknown or too small."""
        effects = {"undetermined": "errors are unknown", "single_row": "standard errors are too small"}
        for (premise, effect), some in zip(effects.items(), (self.undetermined, self.single), strict=True):
            if some.any():
                found(premise, some.sum(), n=len(some), noun=noun, effect=effect).warn()
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
    """Predictions of a fitted estimator at its parameters: the mean of y, or probabilities of K chosen classes.

    With ``statistic="median"``, the prediction of a transformed target is the inverse transform of the fitted mean.
    """

    def __init__(self, ribbon, asking, *, class_=None, statistic="mean", tuned=False):
        self.estimator = estimator = fitted_ribbon(ribbon, asking, tuned=tuned)
        check_name(statistic, "statistic", ("mean", "median"))
        self.model, self.prepared = estimator.model_, estimator._prepared
        self.chosen = chosen_classes(self.model.classes, class_)
        self.classes = None if self.model.classes is None else self.model.classes[self.chosen]
        self.n_outputs = 1 if self.classes is None else len(self.classes)
        self.smears = self.classes is None and statistic == "mean" and not estimator.target_scale_.is_linear

    def at(self, f: FloatArray, X: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Predictions (b, K), derivatives (b, K, k) in raw predictions f (b, k) of prepared rows X, and noise (b, Q).

        The mean of a transformed target depends on the noise distribution: the last array has y at NODES of the noise,
        and the derivatives with respect to location and log scale of the noise; else Q is zero. A scale that depends on
        x counts as predicted with the uncertainty of f, in units of the noise: its derivatives follow as slopes[:, K].
        """
        loss, K, none = self.model.loss, self.n_outputs, np.zeros((len(f), 0))
        if self.classes is not None:
            temperature = stated_temperature(self.estimator)
            P = loss.probabilities(f / temperature)
            basis = np.array([[0.0], [1.0]]) if loss.output_map is None else loss.output_map  # (K, k)
            slopes = P[:, :, None] * (basis - (P @ basis)[:, None, :]) / temperature
            return P[:, self.chosen], slopes[:, self.chosen], none
        slopes = np.zeros((len(f), K + self.smears, f.shape[1]))  # zero for the scale beside a location
        if self.estimator.target_scale_.is_identity:
            slopes[:, 0, 0] = loss.mean_derivative(f[:, 0])
            return loss.mean(f[:, :1]), slopes, none
        distribution = self._at_parameters(f, X)
        if not self.smears:
            slopes[:, 0, 0] = distribution.slope()
            return distribution.prediction()[:, None], slopes, none
        y, (slopes[:, 0, 0], unit, by_scale) = smearing(distribution)
        if not np.isfinite(y @ WEIGHTS).all():
            raise ValueError(
                "The mean of y is infinite or unknown, because the inverse of the target's transformer has a pole or "
                "ends within the noise; use statistic='median', with kind='confidence'."
            )
        if np.ndim(self.estimator.noise_.predict(X)):
            slopes[:, 1, 0] = by_scale / np.sqrt(distribution.dispersion)
        return (y @ WEIGHTS)[:, None], slopes, np.column_stack([y, unit, by_scale])

    def with_noise_law(self, inferred: Inferred, derivatives: Any, noise: Any, move: Any) -> Inferred:
        """Add the uncertainty of the noise distribution to m combined means of a transformed target.

        ``derivatives`` (m, 1) multiply the arrays ``noise`` (m, Q) that ``at`` returned last; ``move`` is the
        derivative of the m means and m log scales along directions of the parameters. Of N units, an empirical
        distribution contributes the variance of a mean of N values, without the part linear in the noise, which is in
        the parameters; a parametric one the variance (kurtosis - 1) / (4 N) of its log scale. A scale that depends on x
        has the variance and, through the skewness, the covariance with the parameters of a fit to the same rows.
        """
        if not self.smears:
            return inferred
        law, ribbon, W = self.estimator.law_, self.estimator.ribbon_, WEIGHTS
        z = law.marginal(0.0, 1.0, 0.0).ppf(np.clip(ndtr(NODES), *law.ends))
        skewness, of_scale = z**3 @ W, (z**4 @ W - 1) / 4
        *y, unit, by_scale = np.sum([d * own for d, own in zip(derivatives, noise, strict=True)], axis=0).T  # (Q, m)
        shape = W @ (y - W @ y) ** 2 - unit**2 if law.name == "empirical" else of_scale * by_scale**2
        mean, scale = move(ribbon.root).reshape(len(unit), 2, -1).transpose(1, 0, 2)
        varying = (scale * (skewness * mean + of_scale * scale)).sum(axis=1)
        known = (by_scale * (skewness * unit + of_scale * by_scale)) / ribbon.units  # of a constant scale, in shape
        return inferred.with_part(shape / ribbon.units + np.where(scale.any(axis=1), varying - known, 0.0))

    def noise(self, f: FloatArray, X: Any) -> FloatArray:
        """Variances (b,) of observations around their means at raw predictions f (b, k) of prepared rows X."""
        return self._at_parameters(f, X).standard_errors()[1] ** 2

    def _at_parameters(self, f, X):
        estimator, k = self.estimator, f.shape[1]
        latent = Latent(f, np.zeros((len(f), k, k)))
        return predictive(self.model, latent, estimator.noise_, estimator.law_, X, estimator.target_scale_)


def stated_temperature(estimator: Any) -> float:
    """Temperature that the user set; 1 if it is "auto", because parameters are about the base model's own logits."""
    temperature = getattr(estimator, "temperature", 1.0)
    return 1.0 if isinstance(temperature, str) else temperature


def chosen_classes(classes: Any, class_: Any) -> slice | list[int]:
    """Positions of the classes with labels ``class_``; if None, of the second of two, or of all of more."""
    if class_ is None:
        return slice(1, 2) if classes is not None and len(classes) == 2 else slice(None)
    labels = [class_] if np.ndim(class_) == 0 else list(class_)
    known = [] if classes is None else classes.tolist()
    if unknown := [label for label in labels if label not in known]:
        cure = f"the classes are {listed(known)}" if known else "a regressor has none, so leave class_ out"
        raise ValueError(f"class_={unknown[0]!r} is not a class; {cure}.")
    return [known.index(label) for label in labels]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of n rows, with the weight of each row in the mean or total of its group."""

    labels: Sequence[Any]  # (m,)
    codes: NDArray[np.intp]  # (n,), positions among the labels
    weight: FloatArray  # (n,); weights of a mean add up to one in each group
    given: FloatArray  # (n,), weights before that

    def take(self, rows: slice) -> Groups:
        """Select some of the rows."""
        return replace(self, codes=self.codes[rows], weight=self.weight[rows], given=self.given[rows])

    def sums(self, values: Any) -> FloatArray:
        """Weighted sums (m, ...) over the groups of ``values`` (n, ...)."""
        n, m = len(self.codes), len(self.labels)
        indicator = sparse.csr_array((self.weight, self.codes, np.arange(n + 1)), shape=(n, m)).T
        summed = indicator @ values.reshape(n, -1)
        return (summed.toarray() if sparse.issparse(summed) else summed).reshape(m, *values.shape[1:])


@dataclass(frozen=True, eq=False)
class Means:
    """Means or totals of predictions over groups of rows."""

    values: FloatArray  # (m, K)
    gradients: FloatArray  # (m, K, p), derivatives of the values in the parameters; one more of the noise's scale
    unit: FloatArray  # (m, K), change of the values if all raw predictions change by one
    at_nodes: FloatArray  # (m, Q), see Response.at
    noise: FloatArray | None = None  # (m,), variance of the mean or total of observations around its expectation
    rows: FloatArray | None = None  # (n, K), predictions of the rows, if these are a sample of a population

    @classmethod
    def from_rows(cls, response: Response, X: Any, groups: Groups, noise=False, keep=False) -> Means:
        """Add up predictions and gradients of prepared rows X, block by block; ``keep`` the predictions of rows too."""
        model, m, K = response.model, len(groups.labels), response.n_outputs
        p, k, S = len(model.theta), model.loss.n_outputs, K + response.smears
        reverse = m * S * k <= p  # seeds of all groups and outputs are smaller than the rows' gradients
        values, unit, variance, at_nodes = np.zeros((m, K)), np.zeros((m, K)), np.zeros(m), np.zeros((m, 1))
        gradients, kept = np.zeros((m, S, p)), []
        for rows in row_blocks(X.shape[0], max(model.row_width, m * S * k if reverse else p)):
            tangent, block = model.tangent(model.rows(X[rows])), groups.take(rows)
            predicted, slopes, of_noise = response.at(tangent.f, X[rows])
            values, at_nodes = values + block.sums(predicted), at_nodes + block.sums(of_noise)
            kept += [predicted] if keep else []
            unit += block.sums(np.sign(block.weight)[:, None] * np.abs(slopes[:, :K]).sum(axis=2))
            if reverse:
                seeds = np.zeros((len(slopes), k, m, S))
                weighted = (slopes * block.weight[:, None, None]).transpose(0, 2, 1)
                seeds[np.arange(len(slopes)), :, block.codes] = weighted
                gradients += tangent.vjp(seeds.reshape(len(slopes), k, m * S)).T.reshape(m, S, p)
            else:
                gradients += np.stack([block.sums(tangent.scores(slopes[:, q])) for q in range(S)], axis=1)
            if noise:
                exposure = np.abs(block.given) if response.estimator.weight_type == "exposure" else 1.0
                per_weight = np.divide(block.weight, exposure, out=np.zeros(len(block.codes)), where=block.weight != 0)
                variance += block.sums(per_weight * response.noise(tangent.f, X[rows]))
        rows = np.concatenate(kept) if keep else None
        return cls(values, gradients, unit, at_nodes, variance if noise else None, rows)


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


def infer_means(response, means: Sequence[Means], combine: Any = identity, unit_share=1.0, sampling=None) -> Inferred:
    """Infer a combination of means over the same groups, (m K,); ``unit_share`` multiplies their units.

    ``sampling(pairs, gradient)`` returns the part that the rows add as a sample from a population, see ``Sample.part``.
    """
    estimate, derivatives = combine(*(mean.values for mean in means))
    pairs, ribbon = list(zip(derivatives, means, strict=True)), response.estimator.ribbon_
    gradients = np.sum([d[:, :, None] * mean.gradients for d, mean in pairs], axis=0)
    unit = unit_share * np.max([np.abs(d) * mean.unit for d, mean in pairs], axis=0).ravel()
    gradient, noise = gradients[:, : response.n_outputs].reshape(estimate.size, -1), [mean.at_nodes for mean in means]
    blocks, estimate = row_blocks(estimate.size, _n_directions(ribbon)), estimate.ravel()
    pieces = [Functional(estimate[b], gradient[b].__matmul__, unit[b]).inferred(ribbon) for b in blocks]
    inferred = response.with_noise_law(Inferred.concatenate(pieces), derivatives, noise, gradients.__matmul__)
    return inferred if sampling is None else inferred.with_part(*sampling(pairs, gradient))


def infer_rows(response, prepared, combine=identity, unit_share=1.0) -> Inferred:
    """Infer a combination of the predictions of each row, (n K,), at one or two prepared X."""
    model, ribbon, K, pieces = response.model, response.estimator.ribbon_, response.n_outputs, []
    width = max(model.row_width, (max(model.loss.n_outputs, K) + response.smears) * _n_directions(ribbon))
    for rows in row_blocks(prepared[0].shape[0], width):
        tangents = [model.tangent(model.rows(X[rows])) for X in prepared]
        at = [response.at(tangent.f, X[rows]) for tangent, X in zip(tangents, prepared, strict=True)]
        values, slopes, noise = zip(*at, strict=True)
        estimate, derivatives = combine(*values)
        seeds = [d[:, :, None] * slope for d, slope in zip(derivatives, slopes, strict=True)]
        own = [seed[:, :K] for seed in seeds]
        unit = unit_share * np.max([np.abs(seed).sum(axis=2) for seed in own], axis=0).ravel()
        inferred = Functional(estimate.ravel(), partial(_along, tangents, own), unit).inferred(ribbon)
        pieces.append(response.with_noise_law(inferred, derivatives, noise, partial(_along, tangents, seeds)))
    return Inferred.concatenate(pieces)


def _n_directions(ribbon):
    """Largest number of directions that a functional is moved along at once."""
    return max(ribbon.root.shape[1], 0 if ribbon.freedom is None else ribbon.freedom.width)


def _along(tangents, seeds, V):
    """Sum over inputs of s_i' J_i V, (b K, r)."""
    moved = sum(seed @ tangent.jvp(V) for tangent, seed in zip(tangents, seeds, strict=True))
    return moved.reshape(moved.shape[0] * moved.shape[1], V.shape[1])  # -1 is ambiguous without directions
