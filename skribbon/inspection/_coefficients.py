"""Coefficients of linear models: their table, contrasts between them, and Wald's test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2
from scipy.stats import f as fisher
from sklearn.base import BaseEstimator

from .._utils.checks import check_single_level
from .._utils.typing import FloatArray
from ..models.huber import LocationScale
from ..models.linear import LinearPredictor
from ..models.mlp import LastLayer
from ._functional import Functional, fitted_ribbon
from ._hypotheses import parse

UNDETERMINED = 1e-6  # reach of a coefficient into a direction without width, whatever its unit
REDUNDANT = 1e-9  # eigenvalue of the constraints' correlation below which one repeats others


def coefficients(
    ribbon: BaseEstimator,
    confidence_level: float = 0.9,
    *,
    exponentiate: bool = False,
    feature_names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Coefficients of a linear base model with robust standard errors, tests and intervals.

    Coefficients belong to the features that the linear model sees, after the transformers of a pipeline, and are on the
    scale of the link or of the transformed target. In a penalised model a coefficient, and its test, is about the
    minimiser of the penalised expected loss, not about an unbiased effect.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
        Around a linear model, generalised or not.
    confidence_level : float, default=0.9
    exponentiate : bool, default=False
        Show exp(coefficient): odds ratios in a logistic model, rate ratios with a log link. The interval of the
        coefficient is exponentiated; std_error is by the delta method; statistic and p_value remain those of the
        coefficient.
    feature_names : sequence of str, default=None
        Names of the features that the linear model sees; from ``feature_names_in_`` and the transformers'
        ``get_feature_names_out`` if None, without the prefixes of a ColumnTransformer's steps if names stay distinct.

    Returns
    -------
    DataFrame
        Columns class (only with more than two classes, each of which has its own coefficients, summing to zero over
        classes), term, estimate, std_error, statistic, df, p_value, conf_low, conf_high; the intercept is the last
        term. With two classes the coefficients are those of the log odds of the second.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import coefficients
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X[["bmi", "bp"]], y)
    >>> coefficients(ribbon)[["term", "estimate", "std_error", "conf_low", "conf_high"]].round(0)
            term  estimate  std_error  conf_low  conf_high
    0        bmi       9.0        1.0       7.0       10.0
    1         bp       1.0        0.0       1.0        2.0
    2  intercept    -204.0       18.0    -233.0     -174.0
    """
    level = check_single_level(confidence_level)
    terms = Terms.of(ribbon, "coefficients", feature_names)
    model = fitted_ribbon(ribbon, "coefficients", several=True).model_
    additive = not model.loss.n_classes and model.loss.law(1.0).location
    if exponentiate and additive and model.target_transformer is None:
        raise ValueError(
            "exponentiate=True is for logarithms: coefficients behind a log or logit link, or of a transformed target. "
            "Those of this model are differences of the target itself; leave exponentiate=False."
        )
    inferred = terms.functional().inferred(terms.ribbon)
    return inferred.frame(terms.labels, level, exponentiate=exponentiate, noun="coefficients")


def contrast(
    ribbon: BaseEstimator,
    matrix: str | ArrayLike,
    value: ArrayLike = 0.0,
    confidence_level: float = 0.9,
    *,
    feature_names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Linear combinations of coefficients, each with its own standard error, test and interval.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
        Around a linear model, generalised or not.
    matrix : str or array-like of shape (n_coefficients,) or (n_contrasts, n_coefficients)
        As in :func:`~skribbon.inspection.wald_test`.
    value : float or array-like of shape (n_contrasts,), default=0.0
        Value that each combination is tested against; numbers in the text are added to it.
    confidence_level : float, default=0.9
    feature_names : sequence of str, default=None
        As in :func:`~skribbon.inspection.coefficients`.

    Returns
    -------
    DataFrame
        Columns term, estimate (of the combination), std_error, statistic, df, p_value, conf_low, conf_high.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import contrast
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X[["bmi", "bp"]], y)
    >>> contrast(ribbon, "bmi - 5*bp, 10*bmi = 100")[["term", "estimate", "std_error", "statistic"]].round(2)
               term  estimate  std_error  statistic
    0    bmi - 5*bp      1.60       1.72       0.93
    1  10*bmi = 100     85.19       7.15      -2.07
    """
    level = check_single_level(confidence_level)
    constraints = Constraints.of(Terms.of(ribbon, "contrast", feature_names), matrix, value, "matrix")
    inferred = constraints.functional().inferred(constraints.terms.ribbon)
    return inferred.frame({"term": constraints.names}, level, value=constraints.values)


def wald_test(
    ribbon: BaseEstimator,
    hypothesis: str | ArrayLike,
    value: ArrayLike = 0.0,
    *,
    feature_names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Wald's test that several linear combinations of coefficients have given values, all at once.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
        Around a linear model, generalised or not.
    hypothesis : str or array-like of shape (n_coefficients,) or (n_constraints, n_coefficients)
        Text over the terms of :func:`~skribbon.inspection.coefficients`, such as "x1 = x2 = 0" or
        "x1 - 2*x2 = 0.5, x3 = 0"; with more than two classes a term is "class: name". Or a matrix with a column for
        each row of that table.
    value : float or array-like of shape (n_constraints,), default=0.0
        Values that the combinations are tested against; numbers in the text are added to them.
    feature_names : sequence of str, default=None
        As in :func:`~skribbon.inspection.coefficients`.

    Returns
    -------
    DataFrame
        A single row: term (the hypothesis), statistic, df_constraints (the number of independent constraints), df,
        p_value. If all variances are treated as known, ``df`` is infinite and the statistic has a chi-squared
        distribution. Otherwise the statistic is Hotelling's: (nu - q + 1) / (nu q) times that, for q constraints and nu
        degrees of freedom, the smallest among them, with an F distribution on q and ``df`` = nu - q + 1 degrees of
        freedom. A joint test of more than nu / 2 constraints still rejects too often.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import wald_test
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> wald_test(ribbon, "s1 = s2 = s3 = 0")["p_value"].round(2).item()
    0.0
    """
    constraints = Constraints.of(Terms.of(ribbon, "wald_test", feature_names), hypothesis, value, "hypothesis")
    ribbon_ = constraints.terms.ribbon
    functional = constraints.functional()
    inferred = functional.inferred(ribbon_).warn()
    statistic, rank = _wald(functional.move(ribbon_.root), functional.estimate - constraints.values)
    nu = float(np.min(inferred.df))
    df, finite = nu - rank + 1, np.isfinite(nu)
    if df <= 0:
        raise ValueError(
            f"hypothesis: {rank} constraints cannot be tested with {nu:.3g} degrees of freedom; test fewer at a time, "
            "or collect more rows, or groups of them."
        )
    statistic = statistic * df / (nu * rank) if finite else statistic
    p_value = fisher.sf(statistic, rank, df) if finite else chi2.sf(statistic, rank)
    row = {
        "term": ", ".join(constraints.names),
        "statistic": statistic,
        "df_constraints": rank,
        "df": df,
        "p_value": float(p_value),
    }
    return pd.DataFrame([row])


def _wald(root: FloatArray, error: FloatArray) -> tuple[float, int]:
    """error' (root root')^- error and the rank, in units of standard errors so that no unit counts as small."""
    std = np.sqrt((root**2).sum(axis=1))
    if not np.all(std > 0):
        raise ValueError("hypothesis: a combination of coefficients has no variance at all; there is nothing to test.")
    z, scaled = error / std, root / std[:, None]
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    kept = values > REDUNDANT
    along = vectors.T @ z
    if np.any(np.abs(along[~kept]) > 1e-6 * max(1.0, np.abs(z).max())):
        raise ValueError(
            "hypothesis: the constraints contradict each other, or there are more of them than directions in which the "
            "covariance has any width, as with few groups; drop some."
        )
    return float((along[kept] ** 2 / values[kept]).sum()), int(kept.sum())


# ---------------------------------------------------------------------- terms and what is made of them
@dataclass(frozen=True, eq=False)
class Terms:
    """Coefficients of a fitted estimator around a linear model, (d,) or all classes' (K d,), and their names.

    Attributes
    ----------
    ribbon : Ribbon
        Distribution of the parameters.
    model : ParametricModel
    names : list of str
        Of the d coefficients of one output, the intercept last.
    classes : ndarray of shape (K,) or None
        Where each class has coefficients of its own.
    outputs : ndarray of shape (m,) or None
        Where each output has.
    """

    ribbon: Any
    model: Any
    names: list[str]
    classes: NDArray[Any] | None
    outputs: NDArray[Any] | None = None

    @classmethod
    def of(cls, estimator: BaseEstimator, asking: str, feature_names: Sequence[str] | None = None) -> Terms:
        """Of a fitted estimator; one without coefficients is refused."""
        inner = fitted_ribbon(estimator, asking, several=True)
        model = inner.model_
        if not has_coefficients(model):
            raise TypeError(
                f"{type(model).__name__} has no coefficients that belong to features: {asking} needs a linear base "
                "model, such as Ridge or LogisticRegression. For any other model, skribbon.inspection.slopes and "
                "comparisons show how its predictions change along a column."
            )
        several = model.classes is not None and len(model.classes) > 2
        d = len(model.theta) - 1 if isinstance(model, LocationScale) else len(model.theta) // model.n_outputs
        names = _names(inner, model, d, feature_names)
        outputs = inner.output_names_ if model.loss.by_output else None
        return cls(inner.ribbon_, model, names, model.classes if several else None, outputs)

    def move(self, V: FloatArray) -> FloatArray:
        """Directions of the parameters (p, r) as those of the coefficients, (d, r) or (K d, r)."""
        if isinstance(self.model, LocationScale):
            return V[:-1]  # the scale is the last parameter
        if self.classes is None:
            return V
        blocks = V.reshape(self.model.n_outputs, len(self.names), V.shape[1])
        moved = np.tensordot(self.model.loss.output_map, blocks, axes=1)  # (K, d, r)
        return moved.reshape(moved.shape[0] * moved.shape[1], V.shape[1])

    def functional(self) -> Functional:
        """The coefficients; a unit is one, as it is for the indicator of a category."""
        estimate = self.move(self.model.theta[:, None])[:, 0]
        return Functional(estimate, self.move, np.ones(len(estimate)), UNDETERMINED)

    @property
    def labels(self) -> dict[str, Any]:
        """Columns that name the coefficients."""
        if self.outputs is not None:
            return {"output": np.repeat(self.outputs, len(self.names)), "term": self.names * len(self.outputs)}
        if self.classes is None:
            return {"term": self.names}
        return {"class": np.repeat(self.classes, len(self.names)), "term": self.names * len(self.classes)}

    @property
    def qualified(self) -> list[str]:
        """Names as hypotheses call them."""
        owners = self.classes if self.outputs is None else self.outputs
        if owners is None:
            return self.names
        return [f"{label}: {name}" for label in owners for name in self.names]


@dataclass(frozen=True, eq=False)
class Constraints:
    """Combinations L (q, d) of coefficients and what they are tested against, (q,)."""

    terms: Terms
    names: list[str]
    L: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, terms: Terms, given: Any, value: Any, parameter: str) -> Constraints:
        """From text or a matrix."""
        qualified = terms.qualified
        if isinstance(given, str):
            names, L, constants = parse(given, qualified)
        else:
            L = np.atleast_2d(np.asarray(given, dtype=float))
            if L.ndim != 2 or L.shape[1] != len(qualified) or not np.isfinite(L).all():
                raise ValueError(
                    f"{parameter} must have {len(qualified)} columns of finite numbers, one for each of "
                    f"{', '.join(qualified[:10])}; got an array of shape {L.shape}."
                )
            if not L.any(axis=1).all():
                raise ValueError(f"{parameter} has a row of zeros, which says nothing; drop it.")
            names, constants = [_written(row, qualified) for row in L], np.zeros(len(L))
        try:
            values = np.broadcast_to(np.asarray(value, dtype=float), len(L)) + constants
        except ValueError:
            raise ValueError(f"value must be a number, or one for each of {len(L)} rows, got {value!r}.") from None
        return cls(terms, names, L, values)

    def functional(self) -> Functional:
        """The combinations."""
        whole, size = self.terms.functional(), np.abs(self.L).max(axis=1)
        return replace(whole, estimate=self.L @ whole.estimate, move=self._move, unit=size)

    def _move(self, V):
        return self.L @ self.terms.move(V)


def _written(row: FloatArray, terms: Sequence[str]) -> str:
    """A row of a matrix as people write it: "x1 - 2*x2"."""
    parts = []
    for weight, term in zip(row, terms, strict=True):
        if weight:
            size = "" if abs(weight) == 1 else f"{abs(weight):g}*"
            parts.append(("- " if weight < 0 else "+ ") + size + term)
    text = " ".join(parts)
    return text.removeprefix("+ ") if text.startswith("+") else f"-{text.removeprefix('- ')}"


def has_coefficients(model: Any) -> bool:
    """Whether the parameters of a model belong to features one by one."""
    return isinstance(model, LinearPredictor | LocationScale) and not isinstance(model, LastLayer)


def _names(estimator: Any, model: Any, d: int, feature_names: Sequence[str] | None) -> list[str]:
    """Names of all d coefficients, that of the intercept last."""
    columns = getattr(model, "columns", None)  # the features that a selection has left
    n_features = d - model.intercept
    if feature_names is None:
        names = _feature_names(estimator, model)
        if names is None:
            last = n_features if columns is None or not len(columns) else max(columns) + 1
            names = [f"x{j}" for j in range(last)]
    else:
        names = list(map(str, feature_names))
    if columns is not None and len(names) > n_features:
        names = [names[j] for j in columns]
    if len(names) != n_features:
        raise ValueError(f"feature_names must have {n_features} names, one per coefficient, got {len(names)}.")
    return [*names, "intercept"] if model.intercept else names


def _feature_names(estimator: Any, model: Any) -> list[str] | None:
    """Of the linear model's inputs, through the transformers before it; None where one of them cannot say."""
    own = names = getattr(estimator, "feature_names_in_", None)
    for transformer in model.preprocess:
        try:
            names = transformer.get_feature_names_out(names)
        except (AttributeError, ValueError):
            return None
    return None if names is None else without_steps(list(map(str, names)), () if own is None else own)


def without_steps(names: Sequence[str], own: Any = ()) -> list[str]:
    """Names without the steps that a ColumnTransformer puts before them, if they stay distinct.

    Those among ``own``, as the user calls the columns, stay as they are.
    """
    known = set(own)
    bare = [name if name in known else name.split("__", 1)[-1] for name in names]
    return bare if len(set(bare)) == len(set(names)) else list(names)
