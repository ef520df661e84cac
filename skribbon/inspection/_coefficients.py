"""Coefficients of linear models, parameters of users' functions: table, contrasts, Wald's test, summary of a fit."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2
from scipy.stats import f as fisher
from sklearn.base import BaseEstimator

from .._estimators.ribbon import facts_of, one_line
from .._utils.checks import check_single_level, listed
from .._utils.typing import FloatArray, Names
from ..models.layers import LastLayer
from ..models.linear import LinearPredictor, LocationScale
from ._functional import Functional, fitted_ribbon


def coefficients(
    ribbon: BaseEstimator, confidence_level: float = 0.9, *, exponentiate: bool = False, feature_names: Names = None
) -> pd.DataFrame:
    """Coefficients of a linear base model, or parameters of your own function, with standard errors and intervals.

    Parameters of a function f(params, X) of :class:`~skribbon.AutogradRegressor` have the names of their nest: "K",
    "rates.in", or "W[0, 1]" in an array. Coefficients of a linear model belong to the features that it sees, after the
    transformers of a pipeline, and are on the scale of the link or of the transformed target; with two classes they are
    log odds of the second. In a penalized model a coefficient is about the minimizer of the penalized expected loss,
    not about an unbiased effect.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    confidence_level : float, default=0.9
    exponentiate : bool, default=False
        Show exp(coefficient): odds ratios in a logistic model, rate ratios with a log link, or parameters of your own
        that are logarithms. The interval is exponentiated, std_error is by the delta method, and statistic and p_value
        stay on the log scale.
    feature_names : sequence of str, default=None
        Names of the features that the linear model sees. If None, they come from ``feature_names_in_`` and the
        transformers, without a ColumnTransformer's prefixes if names stay distinct.

    Returns
    -------
    DataFrame
        Columns class (with more than two, whose coefficients sum to zero), term (the intercept last), estimate,
        std_error, statistic, df, p_value, conf_low, conf_high.

    See Also
    --------
    summary : Facts about the fit and coefficients.
    wald_test : Test of several coefficients at once.
    regression_table : Several fits side by side.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    References
    ----------
    * White, H. (1980). A Heteroskedasticity-Consistent Covariance Matrix Estimator and a Direct Test for
      Heteroskedasticity. Econometrica 48.
    * MacKinnon, J. G. and White, H. (1985). Some Heteroskedasticity-Consistent Covariance Matrix Estimators with
      Improved Finite Sample Properties. Journal of Econometrics 29.
    * Bell, R. M. and McCaffrey, D. F. (2002). Bias Reduction in Standard Errors for Linear Regression with Multi-Stage
      Samples. Survey Methodology 28.

    Examples
    --------
    >>> from skribbon.inspection import coefficients
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> table = coefficients(RibbonRegressor().fit(X[["bmi"]], y))
    >>> table[["term", "estimate", "std_error", "conf_low", "conf_high"]].round(0)
            term  estimate  std_error  conf_low  conf_high
    0        bmi      10.0        1.0       9.0       11.0
    1  intercept    -118.0       16.0    -144.0      -92.0
    """
    level = check_single_level(confidence_level)
    terms = Terms.of(ribbon, "coefficients", feature_names)
    loss, transformer = terms.model.loss, terms.model.target_transformer
    if exponentiate and not terms.own and not loss.n_classes and loss.additive and transformer is None:
        raise ValueError(
            "exponentiate=True is for logarithms: coefficients behind a log or logit link, or of a transformed target. "
            "The coefficients of this model are differences of the target itself; leave exponentiate=False."
        )
    inferred = terms.functional().inferred(terms.ribbon)
    return inferred.frame(terms.labels, level, exponentiate=exponentiate, noun="coefficients")


def contrast(
    ribbon: BaseEstimator,
    matrix: str | ArrayLike,
    value: ArrayLike = 0.0,
    confidence_level: float = 0.9,
    *,
    feature_names: Names = None,
) -> pd.DataFrame:
    """Linear combinations of coefficients, each with its own standard error, test and interval.

    Parameters
    ----------
    ribbon : see :func:`~skribbon.inspection.coefficients`
    matrix, value : see ``hypothesis`` and ``value`` in :func:`~skribbon.inspection.wald_test`
    confidence_level, feature_names : see :func:`~skribbon.inspection.coefficients`

    Returns
    -------
    DataFrame
        Columns term, estimate (of the combination), std_error, statistic, df, p_value, conf_low, conf_high.

    See Also
    --------
    coefficients : Single coefficients.
    wald_test : Test of several combinations at once.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import contrast
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> table = contrast(RibbonRegressor().fit(X[["bmi", "bp"]], y), "bmi - 5*bp = 1")
    >>> table[["term", "estimate", "std_error", "statistic"]].round(2)
                 term  estimate  std_error  statistic
    0  bmi - 5*bp = 1       1.6       1.72       0.35
    """
    level = check_single_level(confidence_level)
    terms = Terms.of(ribbon, "contrast", feature_names)
    names, values, functional = _constraints(terms, matrix, value, "matrix")
    return functional.inferred(terms.ribbon).frame({"term": names}, level, value=values)


def wald_test(
    ribbon: BaseEstimator, hypothesis: str | ArrayLike, value: ArrayLike = 0.0, *, feature_names: Names = None
) -> pd.DataFrame:
    """Wald's test that several linear combinations of coefficients have given values, all at once.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    hypothesis : str, list of str, or array-like of shape (n_coefficients,) or (n_constraints, n_coefficients)
        Text over the terms of :func:`~skribbon.inspection.coefficients`, such as "x1 = x2 = 0" or
        "x1 - 2*x2 = 0.5, x3 = 0", or ["x1 = 0", "x3 = 0"]; with more than two classes a term is "class: name". Or a
        matrix with a column for each row of that table.
    value : float or array-like of shape (n_constraints,), default=0.0
        Values that the combinations are tested against; numbers in the text are added to them.
    feature_names : sequence of str, default=None

    Returns
    -------
    DataFrame
        A single row: term (the hypothesis), statistic, df_constraints (the number q of independent constraints), df,
        p_value. The statistic has a chi-squared distribution if ``df`` is infinite. Otherwise it is Hotelling's:
        (nu - q + 1) / (nu q) times that, for the smallest degrees of freedom nu, with an F distribution on q and ``df``
        = nu - q + 1. A joint test of more than nu / 2 constraints still rejects too often.

    See Also
    --------
    contrast : Each combination by itself.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import wald_test
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> wald_test(RibbonRegressor().fit(X, y), "s1 = s2 = s3 = 0")["p_value"].round(2).item()
    0.0
    """
    terms = Terms.of(ribbon, "wald_test", feature_names)
    names, values, functional = _constraints(terms, hypothesis, value, "hypothesis")
    nu = float(np.min(functional.inferred(terms.ribbon).warn().df))
    root, error = functional.move(terms.ribbon.root), functional.estimate - values
    std = np.sqrt((root**2).sum(axis=1))
    if not np.all(std > 0):
        raise ValueError("hypothesis: a combination of coefficients has no variance; leave it out.")
    z, scaled = error / std, root / std[:, None]
    eigenvalues, vectors = np.linalg.eigh(scaled @ scaled.T)
    kept = eigenvalues > 1e-9  # a smaller eigenvalue is rounding: its constraint repeats others
    along = vectors.T @ z
    if np.any(np.abs(along[~kept]) > 1e-6 * max(1.0, np.abs(z).max())):
        raise ValueError("hypothesis: constraints contradict each other, or exceed the covariance's rank; drop some.")
    statistic, rank = float((along[kept] ** 2 / eigenvalues[kept]).sum()), int(kept.sum())
    df, finite = nu - rank + 1, np.isfinite(nu)
    if df <= 0:
        raise ValueError(f"hypothesis: {rank} constraints are too many for {nu:.3g} degrees of freedom; test fewer.")
    statistic = statistic * df / (nu * rank) if finite else statistic
    p_value = fisher.sf(statistic, rank, df) if finite else chi2.sf(statistic, rank)
    row = {"statistic": statistic, "df_constraints": rank, "df": df, "p_value": float(p_value)}
    return pd.DataFrame([{"term": ", ".join(names), **row}])


@dataclass(frozen=True, eq=False)
class Terms:
    """Coefficients of a linear model, (d,) or (K d,) of K classes, their names and their distribution."""

    ribbon: Any  # distribution of the parameters
    model: Any  # ParametricModel
    names: list[str]  # names of the d coefficients of one output, the intercept last
    classes: NDArray[Any] | None  # (K,) if each class has coefficients of its own
    outputs: NDArray[Any] | None = None  # (m,) if each output has coefficients of its own
    own: bool = False  # whether they are parameters of a user's function

    @classmethod
    def of(cls, estimator: BaseEstimator, asking: str, feature_names: Names = None) -> Self:
        """Read the coefficients of a fitted estimator, or raise if its model has none."""
        inner = fitted_ribbon(estimator, asking, several=True)
        model = inner.model_
        if not has_coefficients(model):
            raise TypeError(
                f"{type(model).__name__} has no coefficients that belong to features: {asking} needs a linear base "
                "model, such as Ridge or LogisticRegression, or a formula in an AutogradRegressor. For any other "
                "model, skribbon.inspection.slopes and comparisons show how its predictions change along a column."
            )
        if is_formula(model):
            names = _checked_names(model.tree.names if feature_names is None else feature_names, len(model.theta))
            return cls(inner.ribbon_, model, names, None, own=True)
        several = model.classes is not None and len(model.classes) > 2
        d = len(model.theta) - 1 if isinstance(model, LocationScale) else len(model.theta) // model.loss.n_outputs
        names = _names(inner, model, d, feature_names)
        outputs = inner.output_names_ if model.loss.by_output else None
        return cls(inner.ribbon_, model, names, model.classes if several else None, outputs)

    def move(self, V: FloatArray) -> FloatArray:
        """Directions of the coefficients, (d, r) or (K d, r), from directions (p, r) of the parameters."""
        if isinstance(self.model, LocationScale):
            return V[:-1]  # the scale is the last parameter
        if self.classes is None:
            return V
        blocks = V.reshape(self.model.loss.n_outputs, len(self.names), V.shape[1])
        moved = np.tensordot(self.model.loss.output_map, blocks, axes=1)  # (K, d, r)
        return moved.reshape(moved.shape[0] * moved.shape[1], V.shape[1])

    def functional(self) -> Functional:
        """Build the functional of all coefficients, each in units of one."""
        estimate = self.move(self.model.theta[:, None])[:, 0]
        # 1e-6: above rounding, a part along an undetermined direction makes the error of a coefficient unknown.
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


def _constraints(terms: Terms, given: Any, value: Any, parameter: str) -> tuple[list[str], FloatArray, Functional]:
    """Read combinations of coefficients from text or a matrix: names (q,), tested values (q,), and the functional."""
    qualified = terms.qualified
    if np.asarray(given).dtype.kind == "U":
        names, L, constants = parse(", ".join(np.ravel(given)), qualified)
    else:
        L = np.atleast_2d(np.asarray(given, dtype=float))
        if L.ndim != 2 or L.shape[1] != len(qualified) or not np.isfinite(L).all():
            raise ValueError(
                f"{parameter} must have {len(qualified)} columns of finite numbers, one for each of "
                f"{listed(qualified)}; got an array of shape {L.shape}."
            )
        if not L.any(axis=1).all():
            raise ValueError(f"{parameter} has a row of zeros, which constrains nothing; drop it.")
        names, constants = [_written(row, qualified) for row in L], np.zeros(len(L))
    try:
        values = np.broadcast_to(np.asarray(value, dtype=float), len(L)) + constants
    except ValueError:
        raise ValueError(f"value must be a number, or one for each of {len(L)} rows, got {value!r}.") from None
    whole, unit = terms.functional(), np.abs(L).max(axis=1)
    return names, values, replace(whole, estimate=L @ whole.estimate, move=lambda V: L @ terms.move(V), unit=unit)


def _written(row: FloatArray, terms: Sequence[str]) -> str:
    """Text of one combination, such as "x1 - 2*x2"."""
    text = ""
    for weight, term in zip(row, terms, strict=True):
        if weight:
            size = "" if abs(weight) == 1 else f"{abs(weight):g}*"
            text += (" - " if weight < 0 else " + ") + size + term
    return text.removeprefix(" + ") if text.startswith(" +") else f"-{text.removeprefix(' - ')}"


def has_coefficients(model: Any) -> bool:
    """Whether the parameters of a model belong to features one by one, or have names of their own."""
    linear = isinstance(model, LinearPredictor | LocationScale) and not isinstance(model, LastLayer)
    return linear or is_formula(model)


def is_formula(model: Any) -> bool:
    """Whether a model is a function that a user wrote, with a nest of parameters."""
    return hasattr(model, "tree") and not getattr(model.f, "is_network", False)


def _names(estimator: Any, model: Any, d: int, feature_names: Names) -> list[str]:
    """Names of all d coefficients, the intercept last."""
    columns = getattr(model, "columns", None)  # the features that a selection has left
    n_features = d - model.intercept
    names = _feature_names(estimator, model) if feature_names is None else list(map(str, feature_names))
    if names is None:
        names = [f"x{j}" for j in (range(n_features) if columns is None else columns)]
    if columns is not None and len(names) > n_features:
        names = [names[j] for j in columns]
    names = _checked_names(names, n_features)
    return [*names, "intercept"] if model.intercept else names


def _checked_names(names: Sequence[str], d: int) -> list[str]:
    if len(names) != d:
        raise ValueError(f"feature_names must have {d} names, one per coefficient, got {len(names)}.")
    return list(map(str, names))


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
    """Remove a ColumnTransformer's prefixes from names that are not the user's ``own``, if names stay distinct."""
    known = set(own)
    bare = [name if name in known else name.split("__", 1)[-1] for name in names]
    return bare if len(set(bare)) == len(set(names)) else list(names)


def parse(text: str, terms: Sequence[str]) -> tuple[list[str], FloatArray, FloatArray]:
    """Read constraints as names (q,), matrix (q, d) and values (q,); sides are set against the last one, or zero."""
    if not text.strip():
        raise ValueError("hypothesis is empty; write one such as 'x1 = x2 = 0'.")
    constraints: list[list[list[Any]]] = [[[]]]  # constraints, their sides, and the tokens of each side
    for token in _tokens(text, terms):
        if token[0] == ",":
            constraints.append([[]])
        elif token[0] == "=":
            constraints[-1].append([])
        else:
            constraints[-1][-1].append(token)
    names, rows = [], []
    for tokens in constraints:
        sides = [_read_side(text, side, terms) for side in tokens]
        end, last = (f" = {sides[-1][0]}", sides[-1][1]) if len(sides) > 1 else ("", 0.0)
        for words, side in sides[:-1] or sides:
            names.append(words + end)
            rows.append(side - last)
            if not rows[-1][:-1].any():
                raise _unreadable(text, terms, words, "there is no term left in")
    matrix = np.array(rows)
    return names, matrix[:, :-1], -matrix[:, -1]


def _tokens(text, terms):
    """Yield Python's spelling, start and end of each token; the longest name that fits precedes numbers and signs."""
    number = r"(?>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    names = sorted({name for name in terms if name and not re.fullmatch(number, name)}, key=len, reverse=True)
    name = "|".join(re.escape(name) + (r"(?!\w)" if re.match(r"\w", name[-1]) else "") for name in names)
    token = re.compile(rf"\s*(?:(?P<name>{name or '(?!)'})|(?P<other>{number}(?!\w)|[-+*/(),=]))")
    place, end = 0, len(text.rstrip())
    while place < end:
        found = token.match(text, place)
        if found is None:
            raise _unreadable(text, terms, text[place:].strip())
        spelled = found[found.lastgroup]
        if found.lastgroup == "name":
            if list(terms).count(spelled) > 1:
                raise ValueError(f"hypothesis: several terms are called {spelled!r}; give distinct feature_names.")
            spelled = f"_{list(terms).index(spelled)}"
        place = found.end()
        yield spelled, found.start(found.lastgroup), place


def _read_side(text, tokens, terms):
    """Text of one side of a constraint and its value (d + 1,): the coefficients and a constant."""
    words = text[tokens[0][1] : tokens[-1][2]] if tokens else ""
    try:
        with np.errstate(all="raise", under="ignore"):
            parsed = ast.parse(" ".join(spelled for spelled, _, _ in tokens), mode="eval")
            return words, _evaluate(parsed.body, len(terms))
    except (SyntaxError, RecursionError, MemoryError):
        raise _unreadable(text, terms, words or "an empty side") from None
    except ArithmeticError:
        raise _unreadable(text, terms, words, "a hypothesis is linear in its terms, with finite numbers, not") from None


def _evaluate(node, d):
    """Evaluate parsed arithmetic as a vector (d + 1,); raise ArithmeticError unless it is linear in the terms."""
    match node:
        case ast.Constant(value):
            if np.isinf(value):
                raise ArithmeticError
            return np.append(np.zeros(d), float(value))
        case ast.Name(name):
            return np.eye(d + 1)[int(name[1:])]
        case ast.UnaryOp(sign, operand):
            return _evaluate(operand, d) * (-1 if isinstance(sign, ast.USub) else 1)
        case ast.BinOp(left, operation, right):
            a, b = _evaluate(left, d), _evaluate(right, d)
            if isinstance(operation, ast.Add | ast.Sub):
                return a + b if isinstance(operation, ast.Add) else a - b
            if isinstance(operation, ast.Mult) and not a[:-1].any():
                a, b = b, a
            if b[:-1].any() or (isinstance(operation, ast.Div) and b[-1] == 0):
                raise ArithmeticError
            return a * b[-1] if isinstance(operation, ast.Mult) else a / b[-1]
    raise SyntaxError


def _unreadable(text, terms, words, what="cannot read"):
    """Error that quotes a part of a hypothesis and lists the terms."""
    more = f" and {len(terms) - 10} more" if len(terms) > 10 else ""
    return ValueError(f"hypothesis: {what} {words[:99]!r} in {text[:99]!r}. Its terms are {listed(terms)}{more}.")


@dataclass(frozen=True, eq=False)
class Summary:
    """Result of :func:`~skribbon.inspection.summary`: prints as text, and as tables in a notebook.

    Parameters
    ----------
    facts : dict of str
    table : DataFrame or None
        The coefficients of a linear model.
    note : str
        What a coefficient estimates, or which functions to use instead.

    See Also
    --------
    summary : Returns this object.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import Summary
    >>> print(Summary({"base model": "Ridge()", "observations": "442"}, None, "Use slopes.").facts["observations"])
    442
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

    # ------------------------------------------------------------------ names that the package maketables reads
    @property
    def __maketables_coef_table__(self):
        if self.table is None:
            raise AttributeError(self.note)  # maketables then refuses this fit
        names = {"estimate": "b", "std_error": "se", "statistic": "t", "p_value": "p"}
        return by_term(self.table).rename(columns=names)

    @property
    def __maketables_default_stat_keys__(self):
        return ["N", "groups", "se_type"]

    def __maketables_stat__(self, key):
        return self.facts.get({"N": "observations", "se_type": "correction"}.get(key, key))


def by_term(table: pd.DataFrame) -> pd.DataFrame:
    """Index a table of coefficients by "term", or "class: term"."""
    return table.set_index(table.loc[:, :"term"].astype(str).agg(": ".join, axis=1))


def summary(ribbon: BaseEstimator, confidence_level: float = 0.9) -> Summary:
    """Facts about the fit of a Ribbon, and the coefficients of a linear base model.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    confidence_level : float, default=0.9

    Returns
    -------
    Summary

    See Also
    --------
    coefficients : The table alone.
    check : Check the assumptions of a fit.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import summary
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> print(summary(RibbonRegressor(Ridge(), noise="dof").fit(X[["bmi", "bp"]], y)))
    base model            Ridge()
    observations          442
    ...
    """
    level = check_single_level(confidence_level)
    inner = fitted_ribbon(ribbon, "summary")
    facts = facts_of(inner) | _noise(inner) | {"confidence level": f"{level:g}"}
    if not has_coefficients(inner.model_):
        note = (
            f"{type(inner.model_).__name__} has no coefficients that belong to features; skribbon.inspection.slopes "
            "and comparisons show how its predictions change along a column."
        )
        return Summary(facts, None, note)
    note = "A coefficient estimates the minimizer of the expected loss, which is not penalized."
    if np.any(inner.model_.l2) or np.any(inner.model_.penalty_gradient):
        note = "A coefficient estimates the minimizer of the penalized expected loss, not an unbiased effect."
    return Summary(facts, coefficients(inner, level), note)


def _noise(ribbon: Any) -> dict[str, str]:
    """Kind and size of the noise, and its distribution; the size is a dispersion unless noise is additive."""
    noise = getattr(ribbon, "noise_", None)
    if noise is None:
        return {}
    kind, size, loss = type(noise).__name__, getattr(noise, "dispersion_", None), ribbon.model_.loss
    if size is not None:
        kind += f", standard deviation {np.sqrt(size):.4g}" if loss.additive else f", dispersion {size:.4g}"
    return {"noise": kind, "law": one_line(ribbon.law_ if loss.additive else loss)}
