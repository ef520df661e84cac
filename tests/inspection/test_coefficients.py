"""Coefficients, contrasts, Wald's test and the summary against statsmodels."""

import numpy as np
import oracles
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from spelling import logistic

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.ribbon import Ribbon
from skribbon.baselines import LaplaceRegressor
from skribbon.exceptions import SelectionWarning, UndeterminedDirectionWarning
from skribbon.inspection import coefficients, contrast, slopes, summary, wald_test
from skribbon.inspection._coefficients import parse

X, N = pd.DataFrame(oracles.NUMBERS, columns=["age", "income", "urban"]), oracles.N
DESIGN = sm.add_constant(X)[["age", "income", "urban", "const"]]
ALPHA = (N - 1) / N  # which makes the Dirichlet law's n + 1 statsmodels' n
NEWTON = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}


@pytest.fixture
def normal(monkeypatch):
    """All variances taken as known."""
    monkeypatch.setattr(Ribbon, "degrees_of_freedom", lambda self, f: np.full(len(f(self.root)), np.inf))


@pytest.fixture
def few(monkeypatch):
    """Degrees of freedom 7, 8, ..."""
    monkeypatch.setattr(Ribbon, "degrees_of_freedom", lambda self, f: 7.0 + np.arange(len(f(self.root))))


def least_squares(correction="HC0"):
    return RibbonRegressor(alpha=ALPHA, correction=correction).fit(X, oracles.Y)


def check(table, reference, level=0.9):
    np.testing.assert_allclose(table["estimate"], reference.params, rtol=1e-8)
    np.testing.assert_allclose(table["std_error"], reference.bse, rtol=1e-8)
    np.testing.assert_allclose(table["statistic"], reference.tvalues, rtol=1e-8)
    np.testing.assert_allclose(table["p_value"], reference.pvalues, rtol=1e-7)
    np.testing.assert_allclose(table[["conf_low", "conf_high"]], reference.conf_int(1 - level), rtol=1e-7)


# ---------------------------------------------------------------------- statsmodels
@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3"])
def test_least_squares(correction, normal):
    table = coefficients(least_squares(correction), confidence_level=0.95)
    assert list(table["term"]) == ["age", "income", "urban", "intercept"]
    check(table, sm.OLS(oracles.Y, DESIGN).fit(cov_type=correction), 0.95)


def test_logit(normal):
    base = logistic(C=np.inf, **NEWTON)
    ribbon = RibbonClassifier(base, alpha=ALPHA, correction="HC0", temperature=2.0).fit(X, oracles.BINARY)
    check(coefficients(ribbon), sm.Logit(oracles.BINARY == "well", DESIGN).fit(cov_type="HC0", disp=0, method="newton"))


def test_poisson(normal):
    ribbon = RibbonRegressor(PoissonRegressor(alpha=0, **NEWTON), alpha=ALPHA, correction="HC0").fit(X, oracles.COUNTS)
    reference = sm.Poisson(oracles.COUNTS, DESIGN).fit(cov_type="HC0", disp=0, method="newton")
    check(coefficients(ribbon), reference)


def test_coefficients_use_student_t_for_finite_degrees_of_freedom(few):
    table = coefficients(least_squares(), confidence_level=0.8)
    df = np.array([7, 8, 9, 10])
    np.testing.assert_array_equal(table["df"], df)
    np.testing.assert_allclose(table["p_value"], 2 * stats.t.sf(np.abs(table["statistic"]), df))
    np.testing.assert_allclose(table["conf_high"] - table["estimate"], stats.t.ppf(0.9, df) * table["std_error"])


def test_rate_ratios():
    ribbon = RibbonRegressor(PoissonRegressor(alpha=0, **NEWTON)).fit(X, oracles.COUNTS)
    plain, ratios = coefficients(ribbon), coefficients(ribbon, exponentiate=True)
    for column in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_allclose(ratios[column], np.exp(plain[column]))
    np.testing.assert_allclose(ratios["std_error"], np.exp(plain["estimate"]) * plain["std_error"])
    pd.testing.assert_frame_equal(ratios[["statistic", "df", "p_value"]], plain[["statistic", "df", "p_value"]])


HYPOTHESES = {
    "one": ("age = 0", "age = 0"),
    "chain": ("age = income = 0", "age = 0, income = 0"),
    "equal": ("age = income", "age - income = 0"),
    "value": ("age - 2*income = 0.5", "age - 2*income = 0.5"),
    "several": ("3*(age + urban)/2 = 1, intercept = -income", "1.5*age + 1.5*urban = 1, const + income = 0"),
    "redundant": ("age = 0, 2*age = 0, income = 0", "age = 0, income = 0"),
}


@pytest.mark.parametrize("name", HYPOTHESES)
def test_wald_test(name, normal):
    ours, theirs = HYPOTHESES[name]
    reference = sm.OLS(oracles.Y, DESIGN).fit(cov_type="HC0").wald_test(theirs, use_f=False, scalar=True)
    (test,) = wald_test(least_squares(), ours).itertuples()
    assert test.df_constraints == reference.df_denom
    np.testing.assert_allclose([test.statistic, test.p_value], [reference.statistic, reference.pvalue], rtol=1e-7)
    assert test.df == np.inf


def test_wald_test_of_several_constraints_is_hotellings(few):
    reference = sm.OLS(oracles.Y, DESIGN).fit(cov_type="HC0").f_test("age = 0, income = 0, urban = 1")
    (test,) = wald_test(least_squares(), "age = 0, income = 0, urban = 1").itertuples()
    statistic = reference.statistic * 5 / 7  # of 7 degrees of freedom three constraints leave 5
    assert (test.df_constraints, test.df) == (3, 5)
    np.testing.assert_allclose(test.statistic, statistic, rtol=1e-8)
    np.testing.assert_allclose(test.p_value, stats.f.sf(statistic, 3, 5), rtol=1e-8)
    (single,) = wald_test(least_squares(), "age = 0").itertuples()
    assert single.df == 7


def test_wald_test_of_one_constraint_is_squared_t_test(few):
    ribbon = least_squares()
    (test,), (row,) = wald_test(ribbon, "income = 0").itertuples(), contrast(ribbon, "income").itertuples()
    np.testing.assert_allclose([test.statistic, test.p_value], [row.statistic**2, row.p_value])


def test_contrasts(normal):
    matrix, value = [[1, -2, 0, 0], [0, 0, 10, 1]], [0.5, 0.0]
    reference = sm.OLS(oracles.Y, DESIGN).fit(cov_type="HC0").t_test((matrix, value))
    for table in (
        contrast(least_squares(), matrix, value),
        contrast(least_squares(), "age - 2*income = 0.5, 10*urban + intercept"),
    ):
        np.testing.assert_allclose(table["estimate"], reference.effect, rtol=1e-8)
        np.testing.assert_allclose(table["std_error"], np.ravel(reference.sd), rtol=1e-8)
        np.testing.assert_allclose(table["statistic"], np.ravel(reference.tvalue), rtol=1e-8)
        np.testing.assert_allclose(table["p_value"], np.ravel(reference.pvalue), rtol=1e-7)
        np.testing.assert_allclose(table[["conf_low", "conf_high"]], reference.conf_int(0.1), rtol=1e-7)
    assert list(contrast(least_squares(), matrix)["term"]) == ["age - 2*income", "10*urban + intercept"]
    wald = wald_test(least_squares(), matrix, value)
    expected = sm.OLS(oracles.Y, DESIGN).fit(cov_type="HC0").wald_test((matrix, value), use_f=False, scalar=True)
    np.testing.assert_allclose(wald["statistic"], expected.statistic, rtol=1e-8)


# ---------------------------------------------------------------------- several classes
def test_coefficients_of_several_classes():
    ribbon = RibbonClassifier(LogisticRegression(**oracles.TIGHT)).fit(X, oracles.TERNARY)
    table = coefficients(ribbon)
    assert list(table["class"]) == [0] * 4 + [1] * 4 + [2] * 4
    assert list(table["term"]) == ["age", "income", "urban", "intercept"] * 3

    def all_of(base):
        return np.column_stack([base.coef_, base.intercept_]).ravel()

    oracles.check(table, ribbon, all_of)
    (test,) = wald_test(ribbon, "0: age = 1: age = 2: age = 0").itertuples()
    assert test.df_constraints == 2  # they sum to zero
    (difference,) = contrast(ribbon, "2: age - 0: age").itertuples()
    coef = ribbon.estimator_.coef_
    np.testing.assert_allclose(difference.estimate, coef[2, 0] - coef[0, 0])


# ---------------------------------------------------------------------- names
def test_coefficient_names_follow_pipelines_without_step_prefixes():
    c = oracles.case("pipeline")
    names = ["age", "income", "smoker_sometimes", "smoker_yes", "urban", "intercept"]
    assert list(coefficients(c.ribbon)["term"]) == names
    (difference,) = contrast(c.ribbon, "smoker_yes - smoker_sometimes").itertuples()
    coef = c.ribbon.estimator_[-1].coef_
    np.testing.assert_allclose(difference.estimate, coef[3] - coef[2])
    curve = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), Ridge())
    table = coefficients(RibbonRegressor(curve).fit(X, oracles.Y))
    assert list(table["term"][:5]) == ["age", "income", "urban", "age^2", "age income"]
    own = X.rename(columns={"age": "raw__age"})
    assert "raw__age" in set(coefficients(RibbonRegressor().fit(own, oracles.Y))["term"])
    assert list(coefficients(oracles.case("ridge").ribbon)["term"]) == ["x0", "x1", "x2", "intercept"]


def test_coefficients_with_selection_scale_and_without_intercept():
    with pytest.warns(SelectionWarning):
        lasso = RibbonRegressor(Lasso(alpha=0.25)).fit(X, oracles.Y)
    kept = [name for name, value in zip(X.columns, lasso.estimator_.coef_, strict=True) if value]
    assert 0 < len(kept) < 3
    assert list(coefficients(lasso)["term"]) == [*kept, "intercept"]
    huber = RibbonRegressor(HuberRegressor(**oracles.TIGHT)).fit(X, oracles.Y)
    table = coefficients(huber)
    np.testing.assert_allclose(table["estimate"], [*huber.estimator_.coef_, huber.estimator_.intercept_])
    np.testing.assert_allclose(table["std_error"], np.sqrt(np.diag(huber.covariance_))[:-1])
    through_zero = RibbonRegressor(LinearRegression(fit_intercept=False)).fit(X, oracles.Y)
    assert list(coefficients(through_zero)["term"]) == list(X.columns)


def test_coefficients_of_wrapped_ribbons_and_laplace():
    tuned = RibbonCV(Ridge(), alphas=[0.5, 1.0, 2.0], scoring="nll", cv=3).fit(X, oracles.Y)
    pd.testing.assert_frame_equal(coefficients(FrozenEstimator(tuned)), coefficients(tuned))
    laplace = LaplaceRegressor(Ridge()).fit(X, oracles.Y)
    np.testing.assert_allclose(coefficients(laplace)["std_error"], np.sqrt(np.diag(laplace.covariance_)))


def test_inference_from_ribbon_cv_does_not_depend_on_the_tuned_alpha():
    tuned = RibbonCV(RibbonRegressor(correction="HC3"), alphas=[0.02], cv=3).fit(X, oracles.Y)
    reference = sm.OLS(oracles.Y, sm.add_constant(X, prepend=False).astype(float)).fit(cov_type="HC3")
    factor = np.sqrt(oracles.N / (oracles.N + 1))  # of the Bayesian bootstrap at alpha = 1
    for wrapped in (tuned, FrozenEstimator(tuned)):
        np.testing.assert_allclose(coefficients(wrapped)["std_error"], factor * reference.bse)
        difference = contrast(wrapped, "age - income")["std_error"]
        np.testing.assert_allclose(difference, factor * reference.t_test([1, -1, 0, 0]).sd[0])
        joint = reference.wald_test(np.eye(4)[:2], use_f=False, scalar=True).statistic / factor**2
        np.testing.assert_allclose(wald_test(wrapped, "age = income = 0")["statistic"], joint)
    assert summary(tuned).facts["alpha"] == "1" and tuned.alpha_ == 0.02
    asked = coefficients(tuned.estimator_)["std_error"]  # the tuned alpha, if it is asked for
    np.testing.assert_allclose(asked, reference.bse * np.sqrt(oracles.N / (0.02 * oracles.N + 1)))
    pd.testing.assert_frame_equal(coefficients(tuned.with_alpha(0.02)), coefficients(tuned.estimator_))
    by_hand = RibbonRegressor(correction="HC3", alpha=0.02).fit(X, oracles.Y)
    np.testing.assert_allclose(coefficients(by_hand)["std_error"], asked)  # an alpha set by hand stays


def test_hypothesis_names_with_signs():
    terms = ["x", "x1", "x10", "x1^2", "a - b", "city_New York, NY", "intercept"]
    names, L, values = parse("x1^2 - 2*a - b = city_New York, NY + 3, x10/4 = x1", terms)
    assert names == ["x1^2 - 2*a - b = city_New York, NY + 3", "x10/4 = x1"]
    np.testing.assert_array_equal(L[0], [0, 0, 0, 1, -2, -1, 0])
    np.testing.assert_array_equal(L[1], [0, -1, 0.25, 0, 0, 0, 0])
    np.testing.assert_array_equal(values, [3, 0])
    _, L, values = parse("-(x - .5e1*x1)*2 = -x = +1.5", terms)
    np.testing.assert_array_equal(L, [[-2, 10, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(values, [1.5, 1.5])


# ---------------------------------------------------------------------- refusals
BAD = {
    "unknown": ("aage = 0", r"cannot read 'aage = 0' .* Its terms are age, income, urban, intercept"),
    "longer": ("age2 = 0", "cannot read 'age2 = 0'"),
    "product": ("age*income = 0", "linear in its terms"),
    "quotient": ("1/age = 0", "linear in its terms"),
    "by zero": ("age/0 = 1", "linear in its terms"),
    "code": ("__import__('os').system('ls')", "cannot read"),
    "power": ("age^2 = 0", r"cannot read '\^2 = 0'"),
    "half": ("age - = 0", "cannot read 'age -' in 'age - = 0'"),
    "bracket": ("(age + income = 0", r"cannot read '\(age \+ income' in"),
    "end": ("age =", "cannot read 'an empty side' in 'age ='"),
    "empty": ("", "hypothesis is empty"),
    "constant": ("1 = 2", "there is no term left"),
    "cancelled": ("age = age", "there is no term left"),
    "two terms": ("age income", "cannot read 'age income'"),
    "contradiction": ("age = 0, age = 1", "contradict each other"),
    "width": ([[1.0, 0.0]], r"hypothesis must have 4 columns .* age, income, urban, intercept; got .* \(1, 2\)"),
    "zeros": ([[0.0, 0.0, 0.0, 0.0]], "row of zeros"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_hypotheses_are_refused(name):
    hypothesis, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        wald_test(least_squares(), hypothesis)


def test_coefficients_refuse_bad_values_levels_and_names():
    ribbon = least_squares()
    with pytest.raises(ValueError, match="value must be a number, or one for each of 1 rows"):
        contrast(ribbon, "age", [1.0, 2.0])
    with pytest.raises(ValueError, match="confidence_level"):
        coefficients(ribbon, 95)
    with pytest.raises(ValueError, match="feature_names must have 3 names"):
        coefficients(ribbon, feature_names=["a"])
    with pytest.raises(ValueError, match="several terms are called"):
        wald_test(ribbon, "a = 0", feature_names=["a", "a", "b"])


@pytest.mark.parametrize("ask", [coefficients, lambda r: wald_test(r, "x0 = 0"), lambda r: contrast(r, "x0")])
def test_models_without_coefficients_are_refused(ask):
    with pytest.raises(TypeError, match=r"needs a linear base model.*inspection\.slopes and comparisons"):
        ask(oracles.case("network").ribbon)
    assert len(slopes(oracles.case("network").ribbon, oracles.NUMBERS, 0)) == 1


def test_undetermined_coefficients_warn():
    ribbon = RibbonRegressor(LinearRegression()).fit(X.assign(copy=X["age"]), oracles.Y)
    with pytest.warns(UndeterminedDirectionWarning, match="2 of 5 coefficients"):
        coefficients(ribbon)
    with pytest.warns(UndeterminedDirectionWarning, match="1 of . estimates"):
        wald_test(ribbon, "age - copy = 0")


@pytest.mark.filterwarnings("error::skribbon.exceptions.UndeterminedDirectionWarning")
def test_determined_sum_of_collinear_coefficients_does_not_warn():
    ribbon = RibbonRegressor(LinearRegression()).fit(X.assign(copy=X["age"]), oracles.Y)
    (total,) = contrast(ribbon, "age + copy").itertuples()
    alone = RibbonRegressor(LinearRegression()).fit(X, oracles.Y)
    np.testing.assert_allclose(total.std_error, coefficients(alone)["std_error"][0])


# ---------------------------------------------------------------------- summary
def test_summary_prints_the_fit_and_the_table():
    ribbon = RibbonRegressor(Ridge(2.0), noise="dof").fit(X, oracles.Y)
    shown = summary(ribbon, confidence_level=0.95)
    pd.testing.assert_frame_equal(shown.table, coefficients(ribbon, 0.95))
    text = str(shown)
    for fact in ("Ridge(alpha=2.0)", "observations", "120", "effective parameters", "stationarity", "DofNoise"):
        assert fact in text
    assert text.splitlines()[-1].startswith("A coefficient estimates the minimizer of the penalized expected loss")
    assert f"{ribbon.effective_parameters_:.4g}" in text
    assert "groups" not in text
    html = shown._repr_html_()
    assert html.count("<table") == 2
    assert "<th>term</th>" in html


def test_summary_of_other_models():
    assert str(summary(least_squares())).endswith("which is not penalized.")
    network = summary(oracles.case("network").ribbon)
    assert network.table is None
    assert "slopes" in str(network)
    assert network._repr_html_().count("<table") == 1
    classifier = summary(oracles.case("logistic").ribbon)
    assert classifier.facts["temperature"] == "0.7"
    assert "noise" not in classifier.facts
    assert "dispersion" in summary(oracles.case("poisson").ribbon).facts["noise"]
    assert "Tweedie" in summary(oracles.case("poisson").ribbon).facts["law"]
    assert summary(LaplaceRegressor(Ridge()).fit(X, oracles.Y)).table is not None


def test_exponentiate_is_refused_without_a_logarithm():
    with pytest.raises(ValueError, match="exponentiate=True is for logarithms"):
        coefficients(least_squares(), exponentiate=True)


@pytest.mark.parametrize(
    ("hypothesis", "message"), [("  ", "hypothesis is empty"), ("twice = 0", "several terms are called 'twice'")]
)
def test_empty_and_ambiguous_hypotheses_are_refused(hypothesis, message):
    X = np.random.default_rng(0).normal(size=(30, 2))
    ribbon = RibbonRegressor().fit(X, X.sum(axis=1) + np.arange(30) % 3)
    with pytest.raises(ValueError, match=message):
        wald_test(ribbon, hypothesis, feature_names=["twice", "twice"])


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_hypotheses_in_a_list_are_one_hypothesis(form):
    texts, ribbon = form(["age = 1", "income - urban = 0"]), least_squares()
    matrix = [[1, 0, 0, 0], [0, 1, -1, 0]]
    expected, found = wald_test(ribbon, matrix, [1, 0]), wald_test(ribbon, texts)
    assert found["term"].item() == "age = 1, income - urban = 0"
    pd.testing.assert_frame_equal(found.drop(columns="term"), expected.drop(columns="term"))
    assert list(contrast(ribbon, texts)["term"]) == ["age = 1", "income - urban = 0"]


def test_hypothesis_number_precedes_column_of_that_name():
    X = np.random.default_rng(0).normal(size=(30, 2))
    ribbon = RibbonRegressor().fit(X, X.sum(axis=1) + np.arange(30) % 3)
    (ours,) = wald_test(ribbon, "a = 1", feature_names=["a", "1"]).itertuples()
    (expected,) = wald_test(ribbon, [1.0, 0.0, 0.0], 1.0).itertuples()
    assert ours.p_value == pytest.approx(expected.p_value)


@pytest.mark.parametrize(
    "hypothesis",
    [
        "(" * 2000 + "age" + ")" * 2000,
        "-" * 5000 + "age",
        "age * 1e308 * 1e308",
        "age = 1e400",
        "age = 1/0",
        "age/0 = 1",
    ],
)
def test_hypotheses_that_no_number_answers_are_refused_in_one_line(hypothesis):
    with pytest.raises(ValueError, match=r"^hypothesis: (cannot read|a hypothesis is linear in its terms)") as error:
        wald_test(least_squares(), hypothesis)
    assert len(str(error.value)) < 400


def test_summary_writes_counts_in_full():
    many = pd.concat([X] * 40)
    ribbon = RibbonRegressor(noise="dof").fit(many, np.random.default_rng(0).normal(size=len(many)))
    assert summary(ribbon).facts["observations"] == f"{len(many):,}"
