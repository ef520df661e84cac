"""Coefficients of linear models: their table, contrasts between them, Wald's test, and the summary of a fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2
from scipy.stats import f as fisher
from sklearn.base import BaseEstimator

from .._utils.checks import check_single_level, listed
from .._utils.typing import FloatArray
from .._utils.unwrap import fitted_leaf
from ..models.linear import LinearPredictor, LocationScale
from ..models.mlp import LastLayer
from ._functional import Functional, fitted_ribbon


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
    model = terms.model
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
    >>> from skribbon.inspection import wald_test
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> wald_test(ribbon, "s1 = s2 = s3 = 0")["p_value"].round(2).item()
    0.0
    """
    constraints = Constraints.of(Terms.of(ribbon, "wald_test", feature_names), hypothesis, value, "hypothesis")
    ribbon_, functional = constraints.terms.ribbon, constraints.functional()
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
    row = {"statistic": statistic, "df_constraints": rank, "df": df, "p_value": float(p_value)}
    return pd.DataFrame([{"term": ", ".join(constraints.names), **row}])


def _wald(root: FloatArray, error: FloatArray) -> tuple[float, int]:
    """error' (root root')^- error and the rank, in units of standard errors so that no unit counts as small."""
    std = np.sqrt((root**2).sum(axis=1))
    if not np.all(std > 0):
        raise ValueError("hypothesis: a combination of coefficients has no variance at all; there is nothing to test.")
    z, scaled = error / std, root / std[:, None]
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    kept = values > 1e-9  # a smaller eigenvalue is rounding: its constraint repeats others
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
    """Coefficients of a fitted estimator around a linear model, (d,) or all classes' (K d,), and their names."""

    ribbon: Any  # distribution of the parameters
    model: Any  # ParametricModel
    names: list[str]  # of the d coefficients of one output, the intercept last
    classes: NDArray[Any] | None  # (K,) if each class has coefficients of its own
    outputs: NDArray[Any] | None = None  # (m,) if each output has coefficients of its own

    @classmethod
    def of(cls, estimator: BaseEstimator, asking: str, feature_names: Sequence[str] | None = None) -> Terms:
        """Coefficients of a fitted estimator; a model without coefficients is refused."""
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
        """Directions of the coefficients, (d, r) or (K d, r), from directions (p, r) of the parameters."""
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
        # A coefficient with more than 1e-6 of its unit along an undetermined direction has an unknown error.
        return Functional(estimate, self.move, np.ones(len(estimate)), 1e-6)

    @property
    def labels(self) -> dict[str, Any]:
        """Columns that name the coefficients."""
        kind, owners = ("class", self.classes) if self.outputs is None else ("output", self.outputs)
        if owners is None:
            return {"term": self.names}
        return {kind: np.repeat(owners, len(self.names)), "term": self.names * len(owners)}

    @property
    def qualified(self) -> list[str]:
        """Names of the coefficients in hypotheses: "term", or "class: term"."""
        *owners, terms = self.labels.values()
        return [f"{owner}: {term}" for owner, term in zip(*owners, terms, strict=True)] if owners else self.names


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
                    f"{listed(qualified)}; got an array of shape {L.shape}."
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
        """The combinations as a functional."""
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
    names = _feature_names(estimator, model) if feature_names is None else list(map(str, feature_names))
    if names is None:
        last = n_features if columns is None or not len(columns) else max(columns) + 1
        names = [f"x{j}" for j in range(last)]
    if columns is not None and len(names) > n_features:
        names = [names[j] for j in columns]
    if len(names) != n_features:
        raise ValueError(f"feature_names must have {n_features} names, one per coefficient, got {len(names)}.")
    return [*names, "intercept"] if model.intercept else names


def _feature_names(estimator: Any, model: Any) -> list[str] | None:
    """Names of the linear model's inputs, through the transformers before it; None if a transformer has none."""
    own = names = getattr(estimator, "feature_names_in_", None)
    for transformer in model.preprocess:
        try:
            names = transformer.get_feature_names_out(names)
        except (AttributeError, ValueError):
            return None
    return None if names is None else without_steps(list(map(str, names)), () if own is None else own)


def without_steps(names: Sequence[str], own: Any = ()) -> list[str]:
    """Names without the steps that a ColumnTransformer puts before them, if they stay distinct.

    Names among ``own``, as the user calls the columns, stay as they are.
    """
    known = set(own)
    bare = [name if name in known else name.split("__", 1)[-1] for name in names]
    return bare if len(set(bare)) == len(set(names)) else list(names)


# ---------------------------------------------------------------------- hypotheses from text
def parse(text: str, terms: Sequence[str]) -> tuple[list[str], FloatArray, FloatArray]:
    """Constraints in ``text`` as names (q,), matrix (q, d) and values (q,): matrix @ coefficients = values.

    In a chain of equal signs each side is set against the last one. A side alone is set against zero.
    """
    if not text.strip():
        raise ValueError("hypothesis is empty; write one such as 'x1 = x2 = 0'.")
    return _Reader(text, terms).constraints()


class _Reader:
    """Recursive descent over tokens; an expression is a vector (d + 1,), the coefficients and a constant."""

    def __init__(self, text, terms):
        self.text, self.terms, self.position = text, list(terms), 0
        self.tokens = [*self._tokens(), ("end", "", len(text))]

    def _tokens(self):
        """Kind, token and place of each token; the longest name that fits comes before numbers and signs."""
        number = r"(?>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
        names = sorted({name for name in self.terms if name and not re.fullmatch(number, name)}, key=len, reverse=True)
        name = "|".join(re.escape(name) + (r"(?!\w)" if re.match(r"\w", name[-1]) else "") for name in names)
        token = re.compile(rf"\s*(?:(?P<name>{name or '(?!)'})|(?P<number>{number}(?!\w))|(?P<sign>[-+*/(),=]))")
        place, end = 0, len(self.text.rstrip())
        while place < end:
            found = token.match(self.text, place)
            if found is None:
                raise self._error(place)
            yield found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)
            place = found.end()

    def _error(self, place, what="cannot read"):
        more = len(self.terms) - 10
        known = listed(self.terms) + (f" and {more} more" if more > 0 else "")
        rest = self.text[place:].strip() or "the end"
        return ValueError(f"hypothesis: {what} {rest!r} in {self.text!r}. Its terms are {known}.")

    @property
    def _place(self):
        """Place in the text of the next token."""
        return self.tokens[self.position][2]

    # ------------------------------------------------------------------ grammar
    def constraints(self):
        names, rows, values = [], [], []
        while True:
            sides = [self._side()]
            while self._take("="):
                sides.append(self._side())
            last, end = (sides[-1][0], f" = {sides[-1][1]}") if len(sides) > 1 else (0.0, "")
            for side, words, place in sides[:-1] or sides:
                row = side - last
                if not row[:-1].any():
                    raise self._error(place, "there is no term left in")
                names.append(words + end)
                rows.append(row[:-1])
                values.append(-row[-1])
            if not self._take(","):
                break
        if self.tokens[self.position][0] != "end":
            raise self._error(self._place)
        return names, np.array(rows), np.array(values)

    def _side(self):
        """An expression, its text, and its place."""
        place = self._place
        return self._sum(), self.text[place : self._place].strip(), place

    def _take(self, *signs):
        kind, token, _ = self.tokens[self.position]
        if kind != "sign" or token not in signs:
            return None
        self.position += 1
        return token

    def _sum(self):
        total = self._product()
        while sign := self._take("+", "-"):
            total = total + (1 if sign == "+" else -1) * self._product()
        return total

    def _product(self):
        product = self._factor()
        while sign := self._take("*", "/"):
            place, other = self.tokens[self.position - 1][2], self._factor()
            if sign == "*" and product[:-1].any() and not other[:-1].any():
                product, other = other, product
            if (sign == "*" and product[:-1].any()) or (sign == "/" and (other[:-1].any() or other[-1] == 0)):
                raise self._error(place, "a hypothesis is linear in its terms, and not")
            product = other * product[-1] if sign == "*" else product / other[-1]
        return product

    def _factor(self):
        if sign := self._take("+", "-"):
            return (1 if sign == "+" else -1) * self._factor()
        if self._take("("):
            inside = self._sum()
            if not self._take(")"):
                raise self._error(self._place, "a closing ) is missing before")
            return inside
        kind, token, place = self.tokens[self.position]
        if kind in ("sign", "end"):
            raise self._error(place, "a term or a number is missing before")
        self.position += 1
        out = np.zeros(len(self.terms) + 1)
        if kind == "number":
            out[-1] = float(token)
        elif self.terms.count(token) > 1:
            raise ValueError(
                f"hypothesis: several terms are called {token!r}; give feature_names that tell them apart."
            )
        else:
            out[self.terms.index(token)] = 1.0
        return out


# ---------------------------------------------------------------------- the fit at a glance
@dataclass(frozen=True, eq=False)
class Summary:
    """Result of :func:`~skribbon.inspection.summary`: prints as text, and as tables in a notebook.

    Parameters
    ----------
    facts : dict of str
        Facts about the fit.
    table : DataFrame or None
        The coefficients of a linear model.
    note : str
        What a coefficient estimates, or what to use instead.

    Examples
    --------
    >>> from skribbon.inspection import summary
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> shown = summary(RibbonRegressor().fit(X[["bmi", "bp"]], y))
    >>> shown.facts["observations"], shown.table["term"].tolist()
    ('442', ['bmi', 'bp', 'intercept'])
    """

    facts: dict[str, str]
    table: pd.DataFrame | None
    note: str

    def __repr__(self):
        width = max(map(len, self.facts))
        lines = [f"{name:<{width}}  {fact}" for name, fact in self.facts.items()]
        if self.table is None:
            return "\n".join([*lines, "", self.note])
        table = self.table.to_string(index=False, float_format="{:.4g}".format).splitlines()
        rule = "-" * max(map(len, table))
        return "\n".join([*lines, rule, table[0], rule, *table[1:], rule, self.note])

    def _repr_html_(self):
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in self.facts.items())
        table = "" if self.table is None else self.table.to_html(index=False, float_format="{:.4g}".format, border=0)
        return f"<table>{rows}</table>{table}<p>{escape(self.note)}</p>"


def summary(ribbon: BaseEstimator, confidence_level: float = 0.9) -> Summary:
    """A fitted Ribbon at a glance: how it was fitted, and the coefficients of a linear base model.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    confidence_level : float, default=0.9
        Level of the coefficients' intervals.

    Returns
    -------
    Summary
        Prints as text; ``table`` is that of :func:`~skribbon.inspection.coefficients`.

    Examples
    --------
    >>> from skribbon.inspection import summary
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> print(summary(RibbonRegressor(Ridge(), noise="dof").fit(X[["bmi", "bp"]], y)))  # doctest: +ELLIPSIS
    base model            Ridge()
    observations          442
    effective parameters  3
    ...
    """
    level = check_single_level(confidence_level)
    inner = fitted_ribbon(ribbon, "summary")
    if not has_coefficients(inner.model_):
        note = (
            f"{type(inner.model_).__name__} has no coefficients that belong to features; skribbon.inspection.slopes "
            "and comparisons show how its predictions change along a column."
        )
        return Summary(_facts(inner, level), None, note)
    return Summary(_facts(inner, level), coefficients(inner, level), _meaning(inner.model_))


def _meaning(model: Any) -> str:
    """What a coefficient estimates."""
    if np.any(model.l2) or np.any(model.grad_penalty()):
        return "A coefficient estimates the minimiser of the penalised expected loss, not an unbiased effect."
    return "A coefficient estimates the minimiser of the expected loss, which is not penalised."


def _facts(ribbon: Any, level: float) -> dict[str, str]:
    """What there is to say of the fit; of a baseline less than of a Ribbon."""
    n_groups = getattr(ribbon, "n_groups_", None)
    facts = {
        "base model": _one_line(fitted_leaf(ribbon.estimator_)),
        "observations": _number(ribbon, "n_observations_"),
        "groups": None if n_groups is None else f"{n_groups:g}",
        "effective parameters": _number(ribbon, "effective_parameters_"),
        "stationarity": _number(ribbon, "stationarity_"),
        "alpha": _number(ribbon, "alpha"),
        "temperature": _number(ribbon, "temperature"),
        "curvature": _one_line(ribbon.curvature_),
        "correction": getattr(ribbon, "correction_", getattr(ribbon, "correction", None)),
        **_noise(ribbon),
        "confidence level": f"{level:g}",
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _number(ribbon: Any, name: str) -> str | None:
    value = getattr(ribbon, name, None)
    return None if value is None else f"{value:.4g}"


def _one_line(estimator: Any) -> str:
    return " ".join(repr(estimator).split())


def _noise(ribbon: Any) -> dict[str, str]:
    """Kind and size of the noise, a standard deviation if it is added and a dispersion in a family, and its law."""
    noise = getattr(ribbon, "noise_", None)
    if noise is None:
        return {}
    kind, size, loss = type(noise).__name__, getattr(noise, "dispersion_", None), ribbon.model_.loss
    additive = loss.law(1.0).location
    if size is not None:
        kind += f", standard deviation {np.sqrt(size):.4g}" if additive else f", dispersion {size:.4g}"
    return {"noise": kind, "law": _one_line(ribbon.law_ if additive else loss)}
