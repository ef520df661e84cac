"""A fitted Ribbon at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from .._estimators.base import fitted_leaf
from .._utils.checks import check_single_level
from ._coefficients import coefficients, has_coefficients
from ._functional import fitted_ribbon


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
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
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
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon import RibbonRegressor
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
        "noise": _noise(ribbon),
        "law": _law(ribbon),
        "confidence level": f"{level:g}",
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _number(ribbon: Any, name: str) -> str | None:
    value = getattr(ribbon, name, None)
    return None if value is None else f"{value:.4g}"


def _one_line(estimator: Any) -> str:
    return " ".join(repr(estimator).split())


def _noise(ribbon: Any) -> str | None:
    """Its kind and its size: a standard deviation where noise is added, a dispersion in a family."""
    noise = getattr(ribbon, "noise_", None)
    if noise is None:
        return None
    size, additive = getattr(noise, "dispersion_", None), ribbon.model_.loss.law(1.0).location
    name = type(noise).__name__
    if size is None:
        return name
    return f"{name}, standard deviation {np.sqrt(size):.4g}" if additive else f"{name}, dispersion {size:.4g}"


def _law(ribbon: Any) -> str | None:
    """Of the noise around a least-squares model; a family has its own."""
    if not hasattr(ribbon, "noise_"):
        return None
    return _one_line(ribbon.law_) if ribbon.model_.loss.law(1.0).location else _one_line(ribbon.model_.loss)
