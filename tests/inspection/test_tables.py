"""Tables of several fits against statsmodels, and their text, HTML, Markdown and LaTeX."""

import re
from html.parser import HTMLParser

import numpy as np
import oracles
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, Ridge

from skribbon import RibbonCV, RibbonRegressor
from skribbon.inspection import coefficients, regression_table, summary

X, N = pd.DataFrame(oracles.NUMBERS, columns=["age", "net_income", "urban"]), oracles.N
ALPHA = (N - 1) / N  # makes the variance that of statsmodels
COLUMNS = (["age"], ["age", "net_income", "urban"], ["urban", "age"])


def fits(**kwargs):
    return [RibbonRegressor(alpha=ALPHA, **kwargs).fit(X[columns], oracles.Y) for columns in COLUMNS]


def numbers(cells):
    return [float(cell.strip("()*").replace(",", "")) for cell in cells]


def test_estimates_and_standard_errors_are_those_of_statsmodels():
    table = regression_table(*fits(correction="HC3"), digits=4).cells
    assert table.index[:8:2].tolist() == ["age", "net_income", "urban", "intercept"]
    for name, columns in zip(["(1)", "(2)", "(3)"], COLUMNS, strict=True):
        reference = sm.OLS(oracles.Y, sm.add_constant(X[columns])).fit(cov_type="HC3")
        for term, key in [*zip(columns, columns, strict=True), ("intercept", "const")]:
            at = table.index.get_loc(term)
            estimate, error = numbers(table[name].iloc[at : at + 2])
            np.testing.assert_allclose(error, reference.bse[key], rtol=6e-4)  # four digits
            np.testing.assert_allclose(estimate, reference.params[key], atol=6e-4 * reference.bse[key])
        for absent in set(X) - set(columns):
            at = table.index.get_loc(absent)
            assert table[name].iloc[at : at + 2].tolist() == ["", ""]


def test_facts_are_below_the_coefficients():
    groups = np.arange(N) // 4
    grouped = RibbonRegressor(Ridge(), correction="HC2").fit(X, oracles.Y, groups=groups)
    tuned = RibbonCV(Ridge()).fit(X, oracles.Y)
    table = regression_table(fits(correction="HC0")[0], grouped, tuned, names=["plain", "grouped", "tuned"])
    assert table.cells.columns.tolist() == ["plain", "grouped", "tuned"]
    facts = table.cells[-table.n_facts :]
    assert facts.index.tolist() == ["model", "observations", "groups", "standard errors"]
    assert facts["plain"].tolist() == ["LinearRegression", str(N), "", "HC0"]
    assert facts["grouped"].tolist() == ["Ridge", str(N), str(N // 4), "CR2"]
    assert numbers(table.cells["tuned"][1:2]) == pytest.approx(coefficients(tuned)["std_error"][:1], rel=6e-3)
    assert "groups" not in regression_table(*fits()).cells.index


def test_stars_are_off_by_default():
    ribbons = fits()
    assert "*" not in str(regression_table(*ribbons))
    levels = (0.5, 0.05, 1e-4)
    table = regression_table(ribbons[1], stars=levels).cells["(1)"]
    found = [cell.count("*") for cell in table[:8:2]]
    p = coefficients(ribbons[1])["p_value"]
    assert found == [sum(value < level for level in levels) for value in p] and len(set(found)) > 1
    assert regression_table(ribbons[1], stars=0.05).cells["(1)"].str.count("[*]").max() == 1
    with pytest.raises(ValueError, match="stars must lie strictly between 0 and 1"):
        regression_table(ribbons[1], stars=True)


def test_classes_have_terms_and_outputs_have_columns_of_their_own():
    classifier = oracles.case("multinomial").ribbon
    table = regression_table(classifier).cells
    expected = coefficients(classifier)
    assert table.index[0] == f"{expected['class'][0]}: {expected['term'][0]}"
    assert len(table) == 2 * len(expected) + 3
    several = RibbonRegressor(Ridge()).fit(X, pd.DataFrame({"up": oracles.Y, "down": -oracles.Y}))
    table = regression_table(several.output("up"), several.output("down")).cells
    np.testing.assert_allclose(numbers(table["(1)"][:8:2]), -np.array(numbers(table["(2)"][:8:2])))
    with pytest.raises(ValueError, match=r"regression_table takes one output, not up, down.*ribbon\.output\('up'\)"):
        regression_table(several)


def test_unknown_standard_errors():
    twice = X[["age"]].assign(again=X["age"])
    with pytest.warns(Warning, match="directions that the training data do not determine"):
        table = regression_table(RibbonRegressor(LinearRegression()).fit(twice, oracles.Y))
    assert table.cells["(1)"].tolist()[1::2][:2] == ["(unknown)", "(unknown)"]


class Cells(HTMLParser):
    """Texts of the cells of a table in HTML, row by row."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.inside = [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside = tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])
        if self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def rows_of(table):
    return [["", *table.cells.columns], *map(list, table.cells.itertuples())]


def test_html_holds_all_cells():
    table = regression_table(*fits(), names=["<a>", "b & c", "d"], stars=(0.05,))
    assert Cells(table.to_html()).rows == rows_of(table)
    assert table._repr_html_() == table.to_html()


def test_markdown_holds_all_cells():
    table = regression_table(*fits(), names=["a|b", "*c*", "d"], stars=(0.05,))
    head, rule, *rows = table.to_markdown().splitlines()
    assert rule == "| :-- | --: | --: | --: |" and r"a\|b" in head and r"net\_income" in "".join(rows)
    split = [re.split(r"(?<!\\)\|", row)[1:-1] for row in (head, *rows)]
    assert [[re.sub(r"\\(.)", r"\1", cell[1:-1]) for cell in row] for row in split] == rows_of(table)


def test_latex_holds_all_cells():
    table = regression_table(*fits(), names=["50% & more", "a\\b", "x^2 {~}"])
    begin, *lines, end = table.to_latex().splitlines()
    assert (begin, end) == (r"\begin{tabular}{lrrr}", r"\end{tabular}")
    assert [i for i, line in enumerate(lines) if line == r"\hline"] == [0, 2, 11, 15]  # 8 rows of terms, 3 of facts
    rows = [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in lines if line != r"\hline"]
    assert rows[0] == ["", r"50\% \& more", r"a\textbackslash{}b", r"x\textasciicircum{}2 \{\textasciitilde{}\}"]
    plain = [[cell.replace("$-$", "-").replace(r"\_", "_") for cell in row] for row in rows[1:]]
    assert plain == rows_of(table)[1:]
    assert not re.search(r"& -\d", table.to_latex())


def test_refusals():
    ribbons = fits()
    for names in (["a"], ["a", "b", "b"], []):
        with pytest.raises(ValueError, match="names must be distinct, one for each of the 3 fits"):
            regression_table(*ribbons, names=names)
    with pytest.raises(ValueError, match="one for each of the 0 fits"):
        regression_table()
    with pytest.raises(ValueError, match="digits must be an integer >= 1"):
        regression_table(*ribbons, digits=0)
    with pytest.raises(TypeError, match="has no coefficients that belong to features"):
        regression_table(ribbons[0], oracles.case("network").ribbon)


def test_attributes_that_maketables_reads():
    ribbon = RibbonRegressor().fit(X, oracles.Y, groups=np.arange(N) // 4)
    shown, expected = summary(ribbon), coefficients(ribbon)
    table = shown.__maketables_coef_table__
    assert table.index.tolist() == expected["term"].tolist()
    for name, column in {"b": "estimate", "se": "std_error", "t": "statistic", "p": "p_value"}.items():
        np.testing.assert_array_equal(table[name], expected[column])
    found = {key: shown.__maketables_stat__(key) for key in (*shown.__maketables_default_stat_keys__, "r2")}
    assert found == {"N": str(N), "groups": str(N // 4), "se_type": "CR2", "r2": None}
    assert not hasattr(summary(oracles.case("network").ribbon), "__maketables_coef_table__")
