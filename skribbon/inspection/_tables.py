"""Coefficients of several fits side by side, as text, HTML, Markdown and LaTeX."""

import math
import re
from dataclasses import dataclass

import pandas as pd
from sklearn.base import BaseEstimator

from .._estimators.ribbon import facts_of
from .._utils.checks import check_count, check_levels, listed
from .._utils.typing import Levels, Names
from ._coefficients import by_term, coefficients
from ._functional import fitted_ribbon

FACTS = {"base model": "model", "observations": "observations", "groups": "groups", "correction": "standard errors"}
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}  # others need a backslash


@dataclass(frozen=True, eq=False, repr=False)
class RegressionTable:
    """Result of :func:`~skribbon.inspection.regression_table`: prints as text, and as a table in a notebook.

    Parameters
    ----------
    cells : DataFrame of str
        A column per fit. Two rows per term, the estimate and below it the standard error in parentheses; then facts.
    n_facts : int
        Number of rows of facts.

    See Also
    --------
    regression_table : Returns this object.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> import pandas as pd
    >>> from skribbon.inspection import RegressionTable
    >>> cells = pd.DataFrame({"(1)": ["10.2", "(0.6)", "442"]}, ["bmi", "", "observations"])
    >>> print(RegressionTable(cells, 1).to_markdown())
    |  | (1) |
    | :-- | --: |
    | bmi | 10.2 |
    |  | (0.6) |
    | observations | 442 |
    """

    cells: pd.DataFrame
    n_facts: int

    def __repr__(self):
        return self.cells.to_string()

    def to_html(self) -> str:
        """Write the table in HTML.

        Returns
        -------
        str
        """
        return self.cells.to_html(border=0)

    _repr_html_ = to_html

    def to_markdown(self) -> str:
        """Write the table in Markdown.

        Returns
        -------
        str
        """
        head, *rows = self._rows(lambda cell: re.sub(r"([|*_\\])", r"\\\1", cell))
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, [":--", *["--:"] * (len(head) - 1)], *rows))

    def to_latex(self) -> str:
        """Write the table as a tabular environment of LaTeX, which needs no package.

        Returns
        -------
        str
        """
        rows = self._rows(lambda cell: re.sub(r"[\\~^&%$#_{}]", lambda c: LATEX.get(c[0], f"\\{c[0]}"), cell))
        head, *lines = (re.sub(r"(?<=& )-(?=\d)", "$-$", " & ".join(row)) + r" \\" for row in rows)
        begin, rule = rf"\begin{{tabular}}{{l{'r' * self.cells.shape[1]}}}", r"\hline"
        lines.insert(len(lines) - self.n_facts, rule)
        return "\n".join([begin, rule, head, rule, *lines, rule, r"\end{tabular}"])

    def _rows(self, escape):
        """Lists of escaped cells, the head first."""
        return [list(map(escape, row)) for row in (["", *self.cells.columns], *self.cells.itertuples())]


def regression_table(
    *ribbons: BaseEstimator, names: Names = None, digits: int = 3, stars: Levels | None = None
) -> RegressionTable:
    """Coefficients of several fits side by side, with standard errors in parentheses.

    Parameters
    ----------
    *ribbons : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
        With linear base models, or functions of your own; see :func:`~skribbon.inspection.coefficients`.
    names : sequence of str, default=None
        Heads of the columns; (1), (2) and so on if None.
    digits : int, default=3
        Significant digits of a standard error. The estimate has as many decimals as its standard error.
    stars : float or sequence of float, default=None
        Add a star to an estimate for each of these levels that its p-value is below, such as (0.05, 0.01, 0.001).

    Returns
    -------
    RegressionTable
        With methods ``to_html``, ``to_markdown`` and ``to_latex``. Below the coefficients are the model, the numbers of
        observations and of groups, and the kind of standard errors, such as HC1, or CR2 with groups.

    See Also
    --------
    coefficients : Coefficients of one fit.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.inspection import regression_table
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> small, large = (RibbonRegressor().fit(X[columns], y) for columns in (["bmi"], ["bmi", "bp"]))
    >>> regression_table(small, large)
                                  (1)               (2)
    bmi                        10.233             8.519
                              (0.613)           (0.715)
    bp                                            1.385
                                                (0.235)
    intercept                  -117.8            -203.6
                               (15.8)            (18.0)
    model            LinearRegression  LinearRegression
    observations                  442               442
    standard errors               HC1               HC1
    """
    names = [f"({i + 1})" for i in range(len(ribbons))] if names is None else list(map(str, names))
    if not ribbons or len(set(names)) != len(ribbons) or len(names) != len(ribbons):
        raise ValueError(f"names must be distinct, one for each of the {len(ribbons)} fits, got {listed(names)}.")
    levels = () if stars is None else check_levels(stars, "stars")[0]
    fits = [fitted_ribbon(ribbon, "regression_table") for ribbon in ribbons]
    tables, digits = [by_term(coefficients(fit)) for fit in fits], check_count(digits, "digits")
    found = dict.fromkeys(term for table in tables for term in table.index)
    terms = sorted(found, key=lambda term: term.rpartition(": ")[2] == "intercept")  # intercepts last
    index = [*(text for term in terms for text in (term, "")), *FACTS.values()]
    columns = {name: _written(table.reindex(terms), digits, levels) for name, table in zip(names, tables, strict=True)}
    for name, facts in zip(names, map(facts_of, fits), strict=True):
        columns[name] += [facts.get(fact, "").partition("(")[0] for fact in FACTS]
    cells = pd.DataFrame(columns, index)
    cells = cells[(cells != "").any(axis=1)]
    return RegressionTable(cells, len(cells) - 2 * len(terms))


def _written(table, digits, stars):
    """Estimate and standard error of each term, in two cells, which are empty for missing terms."""
    cells = []
    for estimate, error, p in table[["estimate", "std_error", "p_value"]].itertuples(index=False):
        decimals = max(digits - 1 - math.floor(math.log10(error)), 0) if 0 < error < math.inf else digits
        shown = f"{estimate:,.{decimals}f}" + "*" * sum(p < level for level in stars)
        below = "(unknown)" if math.isnan(error) else f"({error:,.{decimals}f})"
        cells += ["", ""] if math.isnan(estimate) else [shown, below]
    return cells
