"""Predictions, comparisons, slopes and partial dependence against differences of the base model's own predictions."""

from functools import partial

import numpy as np
import oracles
import pandas as pd
import pytest
import sklearn.inspection
from oracles import MAKERS, case, check, replaced
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.ribbon import Ribbon
from skribbon.baselines import BootstrapRegressor
from skribbon.exceptions import LeverageWarning, UndeterminedDirectionWarning
from skribbon.inspection import coefficients, comparisons, partial_dependence, predictions, slopes, summary

every_case = pytest.mark.parametrize("name", MAKERS)
COLUMNS = ["estimate", "std_error", "statistic", "df", "p_value", "conf_low", "conf_high"]


def predicted(ribbon, base, X):
    """Predictions (n, K) that tables show: those of the second of two classes, and of all of more."""
    values = oracles.predicted(ribbon, base, X)
    return values[:, 1:] if values.shape[1] == 2 else values


def groups_of(X):
    return np.arange(X.shape[0]) % 3


def means(values, labels, weight=None):
    """(m K,) of values (n, K)."""
    return np.concatenate(
        [np.average(values[labels == g], axis=0, weights=w_of(weight, labels == g)) for g in (0, 1, 2)]
    )


def w_of(weight, rows):
    return None if weight is None else weight[rows]


# ---------------------------------------------------------------------- against differences
@every_case
def test_means_of_predictions(name):
    c, labels = case(name), groups_of(case(name).X)
    weight = np.linspace(0.1, 2, len(labels))
    table = predictions(c.ribbon, c.X, by=labels, weights=weight, statistic="median")
    check(table, c.ribbon, lambda base: means(predicted(c.ribbon, base, c.X), labels, weight))


@every_case
def test_predictions_of_single_rows(name):
    c = case(name)
    table = predictions(c.ribbon, c.X, aggregate=None, statistic="median")
    check(table, c.ribbon, lambda base: predicted(c.ribbon, base, c.X).ravel())


@every_case
def test_comparisons_of_means(name):
    c = case(name)
    labels = groups_of(c.X)
    before, after = (replaced(c.X, c.column, value) for value in c.values)

    def change(base):
        moved = predicted(c.ribbon, base, after) - predicted(c.ribbon, base, before)
        return means(moved, labels)

    check(comparisons(c.ribbon, c.X, c.column, c.values, by=labels, statistic="median"), c.ribbon, change)


@pytest.mark.parametrize("name", ["poisson", "logistic", "multinomial", "log-target"])
def test_comparison_ratios_on_the_log_scale(name):
    c = case(name)
    before, after = (replaced(c.X, c.column, value) for value in c.values)

    def log_ratio(base):
        return np.log(predicted(c.ribbon, base, after).mean(axis=0) / predicted(c.ribbon, base, before).mean(axis=0))

    value, std = oracles.oracle(c.ribbon, log_ratio)
    table = comparisons(c.ribbon, c.X, c.column, c.values, transform="ratio", confidence_level=0.8)
    np.testing.assert_allclose(table["estimate"], np.exp(value), rtol=1e-8)
    np.testing.assert_allclose(table["std_error"], np.exp(value) * std, rtol=2e-6)
    np.testing.assert_allclose(table["statistic"], value / std, rtol=2e-6)
    half = stats.t.ppf(0.9, table["df"]) * std
    np.testing.assert_allclose(table["conf_low"], np.exp(value - half), rtol=2e-6)
    np.testing.assert_allclose(table["conf_high"], np.exp(value + half), rtol=2e-6)
    assert set(table["contrast"]) == {f"{c.values[1]} / {c.values[0]}"}


@pytest.mark.parametrize("name", ["pipeline", "network-classes"])
def test_comparisons_of_single_rows(name):
    c = case(name)
    before, after = (replaced(c.X, c.column, value) for value in c.values)
    table = comparisons(c.ribbon, c.X, c.column, c.values, aggregate=None)
    check(table, c.ribbon, lambda b: (predicted(c.ribbon, b, after) - predicted(c.ribbon, b, before)).ravel())
    if name == "pipeline":
        assert list(table["row"]) == list(c.X.index)


@every_case
def test_slopes(name):
    c = case(name)
    dense = c.X.toarray() if hasattr(c.X, "toarray") else c.X
    x = np.asarray(dense[c.numeric] if hasattr(dense, "iloc") else dense[:, c.numeric], dtype=float)

    def slope(h, base):
        right, left = (predicted(c.ribbon, base, replaced(c.X, c.numeric, x + side * h)) for side in (1, -1))
        return ((right - left) / (2 * h)).mean(axis=0)

    value, _ = oracles.oracle(c.ribbon, partial(slope, 1e-3))  # another step than that of the package
    _, std = oracles.oracle(c.ribbon, partial(slope, 0.02 * np.ptp(x)))
    table = slopes(c.ribbon, c.X, c.numeric, statistic="median")
    np.testing.assert_allclose(table["estimate"], value, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(table["std_error"], std, rtol=1e-5)


def test_slopes_across_kinks():
    """Compare slopes of a ReLU network with a long step: a short one crosses no kink, or one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    network = MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", alpha=1.0, max_iter=3000, random_state=0)
    ribbon = RibbonRegressor(network, noise="dof").fit(X, np.abs(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=300))
    (slope,), (change,) = slopes(ribbon, X, 0).itertuples(), comparisons(ribbon, X, 0, 0.2).itertuples()
    assert slope.std_error == pytest.approx(change.std_error / 0.2, rel=0.5)


@every_case
def test_partial_dependence_equals_scikit_learn(name):
    c = case(name)
    dense = c.X.toarray() if hasattr(c.X, "toarray") else c.X
    table = partial_dependence(c.ribbon, c.X, c.numeric, grid_resolution=3, statistic="median")
    plain = oracles.stated_temperature(c.ribbon) == 1
    if plain and name != "huber":  # which has another private attribute that marks it as fitted
        reference = sklearn.inspection.partial_dependence(
            c.ribbon.estimator_,
            dense,
            [c.numeric],
            grid_resolution=3,
            kind="average",
            method="brute",
            response_method="auto",
        )
        average = reference["average"]  # (K or 1, grid)
        found = table["estimate"].to_numpy().reshape(3, -1).T
        np.testing.assert_allclose(found[-len(average) :], average, rtol=1e-9)
        np.testing.assert_allclose(table["value"].unique(), reference["grid_values"][0])

    if name in ("log-target", "poisson", "laplace"):
        return  # slow, and their means have a test above

    def curve(base):
        return np.concatenate(
            [predicted(c.ribbon, base, replaced(c.X, c.numeric, v)).mean(axis=0) for v in table["value"].unique()]
        )

    check(table, c.ribbon, curve)


# ---------------------------------------------------------------------- exact, and other oracles
def test_linear_functionals_of_least_squares_are_exact():
    X, y = oracles.NUMBERS, oracles.Y
    ribbon = RibbonRegressor().fit(X, y)
    row = np.append(X.mean(axis=0), 1.0)
    (mean,) = predictions(ribbon, X).itertuples()
    np.testing.assert_allclose([mean.estimate, mean.std_error], [y.mean(), np.sqrt(row @ ribbon.covariance_ @ row)])
    (step,) = comparisons(ribbon, X, 1, values=3).itertuples()
    beta, std = ribbon.estimator_.coef_[1], np.sqrt(ribbon.covariance_[1, 1])
    np.testing.assert_allclose([step.estimate, step.std_error], [3 * beta, 3 * std])
    (slope,) = slopes(ribbon, X, 1).itertuples()
    np.testing.assert_allclose([slope.estimate, slope.std_error], [beta, std], rtol=1e-8)


def test_predictions_with_one_row_per_group_equal_rows():
    for name in ("pipeline", "ridge-sparse", "network-classes", "own"):
        c = case(name)
        labels = np.repeat(np.arange(c.X.shape[0] // 2), 2)[::-1]
        many = predictions(c.ribbon, c.X, by=labels)
        for label in (0, 7, 11):
            alone = predictions(c.ribbon, c.X[labels == label])
            pd.testing.assert_frame_equal(many[many["term"] == label][COLUMNS].reset_index(drop=True), alone[COLUMNS])


def test_predictions_do_not_depend_on_blocks(monkeypatch):
    asked = {name: predictions(case(name).ribbon, case(name).X, by=groups_of(case(name).X)) for name in MAKERS}
    monkeypatch.setattr("skribbon._core.rows.BLOCK_BYTES", 8)  # blocks of 16 rows
    for name, whole in asked.items():
        pieces = predictions(case(name).ribbon, case(name).X, by=groups_of(case(name).X))
        np.testing.assert_allclose(pieces[COLUMNS[:2]], whole[COLUMNS[:2]], rtol=1e-10)


@pytest.mark.filterwarnings("error::skribbon.exceptions.RibbonWarning")  # a negative weight has a size too
def test_prediction_totals_and_weights():
    c = case("poisson")
    mean, total = (predictions(c.ribbon, c.X, aggregate=how) for how in ("mean", "sum"))
    for column in ("estimate", "std_error", "conf_low", "conf_high"):
        np.testing.assert_allclose(total[column], len(c.X) * mean[column])
    exposure = np.linspace(0.5, 3, len(c.X))
    weighted = predictions(c.ribbon, c.X, aggregate="sum", weights=exposure)
    np.testing.assert_allclose(weighted["estimate"], exposure @ c.ribbon.predict(c.X))
    signed = predictions(c.ribbon, c.X, aggregate="sum", weights=-exposure)
    np.testing.assert_allclose(signed["estimate"], -weighted["estimate"])


@pytest.mark.parametrize("name", ["ridge", "pipeline", "poisson", "own"])
def test_predictions_of_observations_add_noise_of_each_row(name):
    c = case(name)
    weight = np.linspace(0.5, 2, c.X.shape[0])
    asked = {"aggregate": "sum", "weights": weight}
    of_mean = predictions(c.ribbon, c.X, **asked)
    of_rows = predictions(c.ribbon, c.X, kind="prediction", **asked)
    _, covariance = c.ribbon.predict(c.X, return_cov=True)
    np.testing.assert_allclose(of_rows["std_error"] ** 2, weight @ covariance @ weight, rtol=1e-6)
    assert of_rows["estimate"].equals(of_mean["estimate"])
    assert of_rows[["statistic", "p_value"]].isna().all(axis=None)


def test_prediction_mean_uses_joint_covariance():
    c = case("ridge")
    _, covariance = c.ribbon.predict(c.X, return_cov=True)
    noise = np.diag(c.ribbon.predict_std(c.X, kind="aleatoric") ** 2)
    n = len(c.X)
    np.testing.assert_allclose(predictions(c.ribbon, c.X)["std_error"], np.sqrt((covariance - noise).sum()) / n)


def test_predictions_use_student_t_for_finite_degrees_of_freedom(monkeypatch):
    c = case("ridge")
    monkeypatch.setattr(Ribbon, "degrees_of_freedom", lambda self, f: 5.0 + np.arange(len(f(self.root))))
    table = predictions(c.ribbon, c.X, by=groups_of(c.X), confidence_level=0.8)
    np.testing.assert_array_equal(table["df"], [5, 6, 7])
    half = stats.t.ppf(0.9, [5, 6, 7]) * table["std_error"]
    np.testing.assert_allclose(table["conf_high"] - table["estimate"], half)
    np.testing.assert_allclose(table["p_value"], 2 * stats.t.sf(np.abs(table["statistic"]), [5, 6, 7]))
    total = predictions(c.ribbon, c.X, kind="prediction")
    share = (predictions(c.ribbon, c.X)["std_error"] / total["std_error"]) ** 2
    np.testing.assert_allclose(total["df"], 5 / share**2)  # Welch and Satterthwaite, the noise taken as known


def test_predictions_use_normal_quantiles_for_infinite_degrees_of_freedom(monkeypatch):
    c = case("ridge")
    monkeypatch.setattr(Ribbon, "degrees_of_freedom", lambda self, f: np.full(len(f(self.root)), np.inf))
    table = predictions(c.ribbon, c.X)
    np.testing.assert_allclose(table["conf_high"] - table["estimate"], 1.6448536269514722 * table["std_error"])


def test_only_observations_use_the_tuned_alpha_of_ribbon_cv():
    X, y = oracles.NUMBERS, oracles.Y
    tuned = RibbonCV(Ridge(), alphas=[0.1], cv=3).fit(X, y)
    plain, at_one = tuned.estimator_, tuned.with_alpha(1.0)
    for function in (predictions, partial(slopes, column=0), partial(comparisons, column=0)):
        pd.testing.assert_frame_equal(function(tuned, X), function(at_one, X))
        assert (function(plain, X)["std_error"] > 2 * function(tuned, X)["std_error"]).all()
    total = {"aggregate": "sum", "kind": "prediction"}
    pd.testing.assert_frame_equal(predictions(tuned, X, **total), predictions(plain, X, **total))
    np.testing.assert_array_equal(*(one.predict_interval(X, kind="confidence") for one in (tuned, plain)))


@pytest.mark.parametrize("name", ["ridge", "multinomial"])
def test_predictions_of_a_grouped_fit(name):
    base, y = (LinearRegression(), oracles.Y) if name == "ridge" else (oracles.LogisticRegression(), oracles.TERNARY)
    kind = RibbonRegressor if name == "ridge" else RibbonClassifier
    X, groups = oracles.NUMBERS, np.arange(oracles.N) // 4
    ribbon = kind(base, correction="HC3").fit(X, y, groups=groups)
    check(predictions(ribbon, X[:5], aggregate=None), ribbon, lambda base: predicted(ribbon, base, X[:5]).ravel())
    for table in (predictions(ribbon, X), slopes(ribbon, X, 0), coefficients(ribbon)):
        assert set(table["df"]) == {29.0}  # one less than there are groups
    assert summary(ribbon).facts["groups"] == "30"


# ---------------------------------------------------------------------- labels and defaults
def test_predictions_by_column_array_and_category():
    c = case("pipeline")
    by_column = predictions(c.ribbon, c.X, by="smoker")
    assert list(by_column["term"]) == ["no", "sometimes", "yes"]
    pd.testing.assert_frame_equal(by_column, predictions(c.ribbon, c.X, by=c.X["smoker"]))
    pd.testing.assert_frame_equal(by_column, predictions(c.ribbon, c.X, by=c.X["smoker"].to_numpy()))
    ordered = pd.Categorical(c.X["smoker"], categories=["yes", "never", "no", "sometimes"])
    assert list(predictions(c.ribbon, c.X, by=ordered)["term"]) == ["yes", "no", "sometimes"]
    numbers = case("ridge")
    assert len(predictions(numbers.ribbon, numbers.X, by=2)) == 2


def test_names_of_rows_groups_and_classes():
    c = case("logistic")
    assert list(predictions(c.ribbon, c.X, class_=["ill", "well"])["term"]) == ["all", "all"]
    rows = predictions(c.ribbon, c.X, aggregate=None, class_=c.ribbon.classes_)
    assert list(rows["term"][:3]) == ["person 0", "person 0", "person 1"]
    table = comparisons(c.ribbon, c.X, "smoker", by="urban", class_=c.ribbon.classes_)
    assert list(table.columns) == ["term", "contrast", "group", "class", *COLUMNS]
    assert list(table["contrast"]) == ["sometimes - no"] * 4 + ["yes - no"] * 4
    assert list(table["group"]) == [False, False, True, True] * 2
    np.testing.assert_allclose(table.groupby(["contrast", "group"])["estimate"].sum(), 0, atol=1e-12)


def test_tables_of_two_classes_show_the_second_or_the_chosen():
    c, three = case("logistic"), case("multinomial")
    tables = {
        predictions: (),
        comparisons: (c.column, c.values),
        slopes: (c.numeric,),
        partial_dependence: (c.numeric,),
    }
    for function, arguments in tables.items():
        both = function(c.ribbon, c.X, *arguments, class_=["ill", "well"])
        assert list(both["class"][:2]) == ["ill", "well"]
        for label, asked in (("well", {}), ("ill", {"class_": "ill"})):
            expected = both[both["class"] == label].reset_index(drop=True)
            found = function(c.ribbon, c.X, *arguments, **asked)
            pd.testing.assert_frame_equal(found, expected, rtol=1e-9, atol=1e-14)
    assert list(predictions(three.ribbon, three.X)["class"]) == list(three.ribbon.classes_)
    last = three.ribbon.classes_[-1]
    assert list(predictions(three.ribbon, three.X, class_=last)["class"]) == [last]
    with pytest.raises(ValueError, match="class_='dead' is not a class; the classes are ill, well"):
        predictions(c.ribbon, c.X, class_="dead")
    numbers = case("ridge")
    with pytest.raises(ValueError, match="class_=1 is not a class; a regressor has none, so leave class_ out"):
        slopes(numbers.ribbon, numbers.X, 0, class_=1)


def test_comparisons_default_values():
    c = case("pipeline")
    step = comparisons(c.ribbon, c.X, "age")
    assert list(step["contrast"]) == ["+1"]
    value, _ = oracles.oracle(c.ribbon, lambda b: [np.mean(b.predict(c.X.assign(age=c.X["age"] + 1)) - b.predict(c.X))])
    np.testing.assert_allclose(step["estimate"], value)
    assert list(comparisons(c.ribbon, c.X, "urban")["contrast"]) == ["True - False"]
    assert list(comparisons(c.ribbon, c.X, "age", values=10)["contrast"]) == ["+10"]
    assert list(comparisons(c.ribbon, c.X, "age", values=(30, 60))["contrast"]) == ["60 - 30"]
    numbers = case("ridge")
    zeros_and_ones = np.column_stack([numbers.X[:, :2], np.arange(24) % 2])
    assert list(comparisons(numbers.ribbon, zeros_and_ones, 2)["contrast"]) == ["1 - 0"]


def test_comparisons_of_categorical_dtype_and_object_arrays():
    c = case("pipeline")
    categorical = c.X.astype({"smoker": pd.CategoricalDtype(["yes", "no", "sometimes"])})
    table = comparisons(c.ribbon, categorical, "smoker")
    assert list(table["contrast"]) == ["no - yes", "sometimes - yes"]
    plain = comparisons(c.ribbon, c.X, "smoker", values=("yes", "no", "sometimes"))
    np.testing.assert_allclose(table["estimate"], plain["estimate"])
    base = make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge())
    objects = oracles.X[["smoker", "urban"]].to_numpy()
    ribbon = RibbonRegressor(base).fit(objects, oracles.Y)
    assert list(comparisons(ribbon, objects, 0)["contrast"]) == ["sometimes - no", "yes - no"]
    assert list(comparisons(ribbon, objects, 1)["contrast"]) == ["True - False"]


def test_comparisons_accept_categories_known_to_the_encoder():
    c = case("pipeline")
    few = c.X[c.X["smoker"] == "no"]
    table = comparisons(c.ribbon, few, "smoker", values=("no", "yes"))
    assert table["std_error"].item() > 0


def test_user_table_is_not_modified():
    c = case("pipeline")
    before = c.X.copy()
    comparisons(c.ribbon, c.X, "smoker")
    slopes(c.ribbon, c.X, "age")
    partial_dependence(c.ribbon, c.X, ["income", "smoker"], grid_resolution=3)
    pd.testing.assert_frame_equal(c.X, before)
    numbers = case("ridge").X
    objects = oracles.X[["smoker", "urban"]].to_numpy()
    by_text = RibbonRegressor(make_pipeline(OneHotEncoder(), Ridge())).fit(objects, oracles.Y)
    tables = (case("ridge").ribbon, numbers), (case("ridge").ribbon, pd.DataFrame(numbers.copy())), (by_text, objects)
    for ribbon, table in tables:
        before = table.copy()
        comparisons(ribbon, table, 1, values=(False, True))
        np.testing.assert_array_equal(table, before)


@pytest.mark.parametrize("resolution", [3, 4, 5])
def test_partial_dependence_grid_of_few_values_equals_scikit_learn(resolution):
    ribbon = case("ridge").ribbon
    X = oracles.NUMBERS.copy()
    X[:, 0] = np.arange(len(X)) % 4 ** np.linspace(0.5, 1, len(X)) // 1  # 0, 1, 2 and 3, in unequal shares
    assert len(np.unique(X[:, 0])) == 4
    table = partial_dependence(ribbon, X, 0, grid_resolution=resolution)
    reference = sklearn.inspection.partial_dependence(ribbon.estimator_, X, [0], grid_resolution=resolution)
    np.testing.assert_allclose(table["value"], reference["grid_values"][0])
    assert len(table) == min(resolution, 4)


def test_partial_dependence_of_several_features_and_own_grids():
    c = case("pipeline")
    table = partial_dependence(c.ribbon, c.X, ["income", "smoker", "urban"], grid_resolution=4)
    assert list(table["term"]) == ["income"] * 4 + ["smoker"] * 3 + ["urban"] * 2
    assert list(table["value"])[4:7] == ["no", "sometimes", "yes"]
    own = partial_dependence(c.ribbon, c.X, "income", custom_values={"income": [1.0, 2.0]})
    assert list(own["value"]) == [1.0, 2.0]
    weight = (c.X["smoker"] == "yes").to_numpy(dtype=float)
    weighted = partial_dependence(c.ribbon, c.X, "urban", weights=weight)
    chosen = partial_dependence(c.ribbon, c.X[weight > 0], "urban", custom_values={"urban": [False, True]})
    np.testing.assert_allclose(weighted["std_error"], chosen["std_error"])


# ---------------------------------------------------------------------- what cannot be told, and bad input
def test_predictions_warn_of_undetermined_directions():
    X = np.column_stack([oracles.NUMBERS, oracles.NUMBERS[:, 0]])
    ribbon = RibbonRegressor(LinearRegression()).fit(X, oracles.Y)
    predictions(ribbon, X)  # within what the rows determine
    for ask in (lambda: comparisons(ribbon, X, 0), lambda: slopes(ribbon, X, 0)):
        with pytest.warns(UndeterminedDirectionWarning, match="1 of . estimates"):
            ask()


@pytest.mark.filterwarnings("error::skribbon.exceptions.UndeterminedDirectionWarning")
def test_predictions_do_not_warn_of_determined_directions():
    X = np.column_stack([oracles.NUMBERS, oracles.NUMBERS[:, 0]])
    ribbon = RibbonRegressor(LinearRegression()).fit(X, oracles.Y)
    predictions(ribbon, X, aggregate="sum")
    comparisons(ribbon, X, 1)
    slopes(ribbon, X, 1)


@pytest.mark.filterwarnings("ignore:1 of 120 rows")
def test_predictions_warn_if_one_row_determines_them():
    X = oracles.X[["smoker"]].copy()
    X.iloc[0, 0] = "once"
    ribbon = RibbonRegressor(make_pipeline(OneHotEncoder(), LinearRegression(fit_intercept=False))).fit(X, oracles.Y)
    with pytest.warns(LeverageWarning, match="1 of . estimates depend on a single training row"):
        comparisons(ribbon, X, "smoker", values=("no", "once"))
    with pytest.warns(LeverageWarning, match="1 of . coefficients depend on a single training row"):
        coefficients(ribbon)


C = case("pipeline")
BAD = {
    "unknown column": (lambda: comparisons(C.ribbon, C.X, "agee"), "column='agee' is not a column of X"),
    "position out of range": (lambda: slopes(case("ridge").ribbon, case("ridge").X, 3), "out of range: X has 3"),
    "name without names": (lambda: slopes(case("ridge").ribbon, case("ridge").X, "age"), "give a position below 3"),
    "two columns": (lambda: comparisons(C.ribbon, C.X, ["age", "income"]), "one column"),
    "unknown category": (
        lambda: comparisons(C.ribbon, C.X, "smoker", ("no", "often")),
        "'often' is not a known value of smoker",
    ),
    "one value": (lambda: comparisons(C.ribbon, C.X, "smoker", ("no",)), "at least two values of smoker"),
    "text for a number": (lambda: comparisons(C.ribbon, C.X, "age", ("young", "old")), "must be numbers, got 'young'"),
    "step of text": (lambda: comparisons(C.ribbon, C.X, "smoker", 1), "give two of its values"),
    "no step": (lambda: comparisons(C.ribbon, C.X, "age", 0), "other than zero"),
    "slope of text": (lambda: slopes(C.ribbon, C.X, "smoker"), "use comparisons"),
    "one category": (lambda: comparisons(C.ribbon, C.X[C.X["smoker"] == "no"], "smoker"), "single value in X"),
    "ratio of signs": (lambda: comparisons(C.ribbon, C.X, "smoker", transform="ratio", aggregate=None), "above zero"),
    "transform": (lambda: comparisons(C.ribbon, C.X, "smoker", transform="odds"), "transform must be one of"),
    "aggregate": (lambda: predictions(C.ribbon, C.X, aggregate="median"), "aggregate must be one of 'mean', 'sum'"),
    "total of changes": (lambda: comparisons(C.ribbon, C.X, "age", aggregate="sum"), "aggregate must be one of 'mean'"),
    "kind": (lambda: predictions(C.ribbon, C.X, kind="total"), "kind must be one of"),
    "by rows": (lambda: predictions(C.ribbon, C.X, by="smoker", aggregate=None), "by is for groups"),
    "rows of observations": (lambda: predictions(C.ribbon, C.X, aggregate=None, kind="prediction"), "predict_frame"),
    "observed classes": (lambda: predictions(case("logistic").ribbon, C.X, kind="prediction"), "for regressors"),
    "short by": (lambda: predictions(C.ribbon, C.X, by=[1, 2]), "a label for each of its 24 rows, got 2"),
    "by": (lambda: predictions(C.ribbon, C.X, by="city"), "by='city' is not a column"),
    "missing by": (lambda: predictions(C.ribbon, C.X, by=[None] * 12 + ["a"] * 12), "missing labels"),
    "short weights": (lambda: predictions(C.ribbon, C.X, weights=[1.0]), "weights must be 24 finite numbers"),
    "negative weights": (lambda: predictions(C.ribbon, C.X, weights=-np.ones(24)), "must not be negative"),
    "zero weights": (lambda: predictions(C.ribbon, C.X, by="urban", weights=1.0 * C.X["urban"]), "sum to zero"),
    "level": (lambda: slopes(C.ribbon, C.X, "age", confidence_level=90), "confidence_level"),
    "grid": (lambda: partial_dependence(C.ribbon, C.X, "age", grid_resolution=1), "grid_resolution"),
    "percentiles": (lambda: partial_dependence(C.ribbon, C.X, "age", percentiles=(0.9, 0.1)), "percentiles must"),
    "no features": (lambda: partial_dependence(C.ribbon, C.X, []), "at least one column"),
    "own grid": (
        lambda: partial_dependence(C.ribbon, C.X, "smoker", custom_values={"smoker": ["no", "often"]}),
        "'often' is not a known value of smoker",
    ),
    "a row": (lambda: comparisons(case("ridge").ribbon, [1.0, 2.0, 3.0], 0), "rows and columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_predictions_refuse_bad_input(name):
    ask, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        ask()


def test_predictions_of_a_classifier_say_that_observed_numbers_vary_more():
    ribbon = RibbonClassifier().fit(oracles.NUMBERS, oracles.BINARY)
    with pytest.raises(ValueError, match="observed number varies more: add Bernoulli noise to draws of predict_proba_"):
        predictions(ribbon, oracles.NUMBERS, kind="prediction")


def test_predictions_refuse_estimators_without_covariance():
    members = BootstrapRegressor(n_members=3, random_state=0).fit(oracles.NUMBERS, oracles.Y)
    with pytest.raises(TypeError, match=r"predictions needs an estimator .* BootstrapRegressor has none"):
        predictions(members, oracles.NUMBERS)
    with pytest.raises(NotFittedError):
        predictions(RibbonRegressor(), oracles.NUMBERS)
    outside = make_pipeline(StandardScaler(), RibbonClassifier()).fit(oracles.NUMBERS, oracles.BINARY)
    with pytest.raises(TypeError, match="a pipeline belongs inside the Ribbon"):
        predictions(outside, oracles.NUMBERS)
