"""One table of everything that can be checked about a fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from .._core.findings import PREMISES, Finding, found, uniformity
from .._core.thresholds import NEGLIGIBLE_TAIL
from .._estimators.base_model import targets_of
from .._estimators.ribbon import are_training_rows, reach
from .._utils.typing import MatrixLike, PerRow
from ..exceptions import noted_warnings
from ..metrics import pit_values
from ..models.base import class_indices, raw_and_covariance
from ._functional import fitted_ribbon

# Premises that share a line of the table, which shows the worst finding; others have a line of their own.
LINE = dict.fromkeys(("saturated", "memorized", "undamped"), "parameters")
LINE |= dict.fromkeys(("undetermined", "single_row"), "extrapolation")
REASONS = dict.fromkeys(("noise", "coverage", "coverage by width", "extrapolation"), "pass held-out rows, X and y")
REASONS |= {
    "linearization": "pass the training rows, X_train and y_train",
    "dependence": "rows are on Dask, sorted by y, or fitted exactly",
    "family": "few rows, fractional weights, or a stated noise",
}


@dataclass(frozen=True, eq=False)
class CheckReport:
    """Result of :func:`~skribbon.inspection.check`: prints as text, and as a table in a notebook.

    Parameters
    ----------
    name : str
        Name of the estimator, for titles.
    table : DataFrame
        A row for each check, with the columns finding, number, threshold, verdict ("ok", "warning" or "not checked")
        and what to do.

    See Also
    --------
    check : Returns this object.

    Notes
    -----
    User guide: :doc:`/user_guide/troubleshooting`.

    Examples
    --------
    >>> from skribbon.inspection import CheckReport, check
    >>> X, y = load_diabetes(return_X_y=True)
    >>> report = check(RibbonRegressor().fit(X, y))
    >>> isinstance(report, CheckReport), report.title
    (True, 'RibbonRegressor: 4 x ok, 0 x warning, 5 x not checked')
    """

    name: str
    table: pd.DataFrame

    @property
    def title(self) -> str:
        """Name of the estimator, and the number of checks with each verdict."""
        counts = self.table["verdict"].value_counts()
        return f"{self.name}: " + ", ".join(f"{counts.get(v, 0)} x {v}" for v in ("ok", "warning", "not checked"))

    def plot(self, ax: Any = None) -> Any:
        """Draw each number relative to its threshold; faults lie to the right of one.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.

        Returns
        -------
        matplotlib Axes
        """
        from ..plotting.inspection import draw_check  # plotting imports this module

        return draw_check(self, ax)

    def __repr__(self):
        lines = self.table.index + ": " + self.table["finding"] + " Try: " + self.table["what to do"]
        table = self.table.drop(columns=["finding", "what to do"]).to_string(float_format="{:.3g}".format, na_rep="")
        return "\n".join([self.title, "", table, "", *lines[self.table["verdict"] == "warning"]])

    def _repr_html_(self):
        with pd.option_context("display.max_colwidth", None):
            table = self.table.to_html(float_format="{:.3g}".format, na_rep="", border=0)
        return f"<p>{escape(self.title)}</p>{table}"


def check(
    ribbon: BaseEstimator,
    X: MatrixLike | None = None,
    y: PerRow = None,
    *,
    X_train: MatrixLike | None = None,
    y_train: PerRow = None,
    sample_weight: PerRow = None,
    groups: PerRow = None,
) -> CheckReport:
    """Check everything at once: what fit found, and with more rows coverage, extrapolation and the linear step.

    Faults of the fit are those that ``fit`` warned of. Nothing is refitted, except with ``X_train``.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Rows that the model was not fitted on, for noise, coverage, coverage by width, and extrapolation. The
        probabilities of a classifier are compared with the share of rows that it predicts right.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
    X_train : {array-like, sparse matrix} of shape (n_train, n_features), default=None
        The training rows, for :meth:`~skribbon.RibbonRegressor.check_linearization`, which refits the model five times.
    y_train, sample_weight, groups : array-like of shape (n_train,), default=None
        As in ``fit``.

    Returns
    -------
    CheckReport
        Its ``table`` has a row for each check, ``plot()`` draws it.

    See Also
    --------
    skribbon.RibbonRegressor.check_linearization : Compare linear steps with refits.

    Notes
    -----
    User guide: :doc:`/user_guide/troubleshooting`.

    Examples
    --------
    >>> from skribbon.inspection import check
    >>> X, y = load_diabetes(return_X_y=True)
    >>> report = check(RibbonRegressor().fit(X[:300], y[:300]), X[300:], y[300:])
    >>> report.table.loc[["dependence", "coverage"], ["number", "threshold", "verdict"]].round(2)
                number  threshold verdict
    dependence    0.22       2.75      ok
    coverage      0.09       0.18      ok
    """
    if (X is None) != (y is None) or (X_train is None) != (y_train is None):
        raise ValueError("X needs y, and X_train needs y_train: pass both of a pair, or neither.")
    estimator = fitted_ribbon(ribbon, "check", several=True, tuned=True)
    findings, loss, rows = {own.premise: own for own in estimator._findings_}, estimator.model_.loss, {}
    if X_train is not None and hasattr(estimator, "check_linearization"):
        report = estimator.check_linearization(X_train, y_train, sample_weight, groups, random_state=0)
        findings["linearization"] = found("linearization", report.to_frame()["prediction_error"].median())
    if X is not None:
        findings |= {own.premise: own for own in _held_out(estimator, X, y)}
    apply = {"groups": getattr(estimator, "n_groups_", None) is not None, "separation": loss.n_classes}
    apply |= {"family": not (loss.n_classes or loss.additive), "noise": not loss.n_classes}
    for line in dict.fromkeys(LINE.get(premise, premise) for premise in PREMISES):
        known = [own for premise, own in findings.items() if LINE.get(premise, premise) == line]
        if known:
            worst = max(known, key=lambda own: (bool(own.text), own.number / max(own.threshold, 1e-9)))
            what, _, cure = worst.text.partition(" Try: ")
            numbers = float(worst.number), float(worst.threshold), "warning" if what else "ok"
            rows[line] = what or PREMISES[worst.premise][0], *numbers, cure
        elif apply.get(line, True):
            reason = REASONS.get(line, "the fit does not need it, or held-out rows set its widths")
            rows[line] = "", np.nan, np.nan, "not checked", reason
    columns = ["finding", "number", "threshold", "verdict", "what to do"]
    return CheckReport(type(ribbon).__name__, pd.DataFrame.from_dict(rows, "index", columns=columns))


def _held_out(estimator: Any, X: Any, y: Any) -> Iterator[Finding]:
    """Findings about rows that the estimator was not fitted on."""
    check_consistent_length(X, y)
    y, level, classes = targets_of(estimator.model_, np.asarray(y)), 0.9, estimator.model_.loss.n_classes
    n = len(y)
    if are_training_rows(estimator, X, y, np.ones(n)):
        raise ValueError("X and y are rows that the model was fitted on. Pass them as X_train and y_train.")
    with noted_warnings([], None):  # extrapolation is a finding of its own
        distribution, u = estimator.predict_distribution(X), y if classes else pit_values(estimator, X, y)
    if classes:
        P, what = distribution.mean(), "are of another class than predicted"
        missed, width = P.argmax(axis=1) != class_indices(estimator.classes_, y), 1 - P.max(axis=1)
        expected = width
    else:
        what, expected = f"lie outside their {level:.0%} intervals", np.full(n, 1 - level)
        lower, upper = np.moveaxis(distribution.interval(level), -1, 0).reshape(2, n, -1)
        missed = ((y.reshape(n, -1) < lower) | (y.reshape(n, -1) > upper)).mean(axis=1)
        width = ((upper - lower) / (upper - lower).mean(axis=0)).mean(axis=1)
        distance, limit, fault, low, high = max(uniformity(own, np.full(n, 1 / n), n) for own in u.reshape(n, -1).T)
        yield found("noise", distance, limit, fault, low=low, high=high)
    cure = "conformalize with score='aps'" if classes else "conformalize with bins"
    parts = np.array_split(np.argsort(width, kind="stable"), max(1, min(5, n // 5)))
    for premise, some, chance in (("coverage", [np.arange(n)], 3.0), ("coverage by width", parts, 4.0)):
        shares = [(missed[rows].mean(), expected[rows].mean(), k) for k, rows in enumerate(some, start=1)]
        limits = [p + max(chance * np.sqrt(p * (1 - p) * len(some) / n), NEGLIGIBLE_TAIL) for _, p, _ in shares]
        (share, p, k), limit = max(zip(shares, limits, strict=True), key=lambda pair: pair[0][0] - pair[1])
        yield found(premise, share, limit, what=what, expected=p, k=k, n=len(some), cure=cure)
    Z = estimator._prepared(X)
    if hasattr(estimator, "_reach_"):
        largest, m, alpha = np.atleast_2d(estimator._reach_).T
        _, covariance = raw_and_covariance(estimator.model_, Z, estimator.ribbon_.at_alpha(alpha[0]).root)
        beyond = (np.einsum("nkk->nk", covariance) > (1 + 1e-9) * largest).any(axis=1).sum()
        limit = np.log(1000) / np.log1p(m[0] / (n * len(m)))  # as many by chance in 1 of 1,000: (n / (m + n))^limit
        yield found("extrapolation", beyond, limit, n=n)
    yield from reach(estimator.model_, estimator.ribbon_, Z)
