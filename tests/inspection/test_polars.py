"""Polars tables in, polars tables out, with the numbers of pandas tables."""

import datetime as dt
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import __version__ as sklearn_version
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.fixes import parse_version

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, metrics, time_blocks
from skribbon.baselines import BootstrapRegressor, LaplaceRegressor
from skribbon.inspection import (
    comparisons,
    influence,
    influence_measures,
    leave_out,
    partial_dependence,
    predictions,
    slopes,
    variance_contributions,
)
from skribbon.plotting import InfluenceDisplay, PartialDependenceDisplay

knows_names = pytest.mark.skipif(
    parse_version(sklearn_version) < parse_version("1.9") and not hasattr(pl.DataFrame, "__dataframe__"),
    reason="scikit-learn below 1.9 does not read the column names of polars 2",
)
SIZES = ["small", "medium", "large"]  # not in alphabetical order
N = 120
DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=3 * i) for i in range(N)]


@cache
def table():
    """Polars table with a column of each kind."""
    rng = np.random.default_rng(0)
    count = rng.integers(0, 9, N).tolist()
    flag = (rng.random(N) > 0.5).tolist()
    return pl.DataFrame(
        {
            "x": rng.normal(size=N),
            "count": [None if i % 10 == 0 else value for i, value in enumerate(count)],
            "text": rng.choice(["u", "v", "w"], N).tolist(),
            "size": pl.Series(rng.choice(SIZES, N).tolist(), dtype=pl.Enum(SIZES)),
            "kind": pl.Series(rng.choice(["k1", "k2"], N).tolist(), dtype=pl.Categorical),
            "flag": flag,
            "maybe": [None if i % 7 == 0 else value for i, value in enumerate(flag[::-1])],
            "day": DAYS,
            "time": [dt.datetime(day.year, day.month, day.day, 12) for day in DAYS],
        }
    )


@cache
def pandas_table():
    """Table of the same values in pandas."""
    columns = {name: table()[name].to_list() for name in table().columns}
    columns |= {"size": pd.Categorical(columns["size"], SIZES), "kind": pd.Categorical(columns["kind"])}
    return pd.DataFrame(columns)


@cache
def target():
    x, flag, text = (table()[name].to_numpy() for name in ("x", "flag", "text"))
    return x + flag + (text == "u") + np.random.default_rng(1).normal(size=N)


def prepare(X):
    """Turn the table into numbers by methods that pandas and polars share, or by polars' own."""
    if isinstance(X, pd.DataFrame):
        days = [(value - DAYS[0]).days for value in X["day"]]
        hours = (X["time"] - pd.Timestamp(DAYS[0])).dt.total_seconds() / 3600
        maybe = np.array([0.5 if value is None else float(value) for value in X["maybe"]])
        count, level = X["count"].fillna(-1), X["size"].cat.codes
    else:
        check_dtypes(X)
        days = (X["day"] - DAYS[0]).dt.total_days()
        hours = (X["time"] - dt.datetime(2026, 1, 1)).dt.total_minutes() / 60
        maybe = X["maybe"].cast(pl.Float64).fill_null(0.5)
        count, level = X["count"].fill_null(-1), X["size"].to_physical()  # NaN would stay NaN, and be refused
    return np.column_stack([*map(np.asarray, (X["x"], count, level, X["flag"], maybe, days, hours))]).astype(float)


def check_dtypes(X):
    """Check that a polars table has the dtypes of the training table, up to those of numbers."""
    assert isinstance(X, pl.DataFrame)
    for name, dtype in table().schema.items():
        assert X.schema[name] == dtype or (name in ("x", "count") and X.schema[name].is_numeric()), name


def model(final):
    encoder = OneHotEncoder(sparse_output=False, drop="first")
    steps = make_column_transformer(
        (encoder, ["text", "kind"]), (FunctionTransformer(prepare), table().columns), verbose_feature_names_out=False
    )
    return make_pipeline(steps, StandardScaler(), final)


@cache
def ribbons():
    """Ribbons with the same model, trained on the polars and on the pandas table."""
    y = target()
    return [RibbonRegressor(model(Ridge())).fit(X, y) for X in (table(), pandas_table())]


@cache
def classifiers():
    y = np.array(["no", "yes", "perhaps"])[np.digitize(target(), [0, 1])]
    return [RibbonClassifier(model(LogisticRegression())).fit(X, y) for X in (table(), pandas_table())]


def check_equal(found, expected):
    """Check that a polars table has the columns and values of a pandas table."""
    assert isinstance(found, pl.DataFrame) and isinstance(expected, pd.DataFrame)
    assert found.columns == expected.columns.tolist()
    for name in found.columns:
        if expected[name].dtype.kind in "if":
            assert found[name].dtype.is_numeric()
            np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(), rtol=1e-9, atol=1e-12)
        else:
            assert found[name].to_list() == expected[name].tolist()


# ---------------------------------------------------------------------- tables about predictions
ASKED = {
    "all": lambda r, X: predictions(r, X),
    "by text": lambda r, X: predictions(r, X, by="text"),
    "by enum": lambda r, X: predictions(r, X, by="size", aggregate="sum"),
    "by flag": lambda r, X: predictions(r, X, by="flag"),
    "by day": lambda r, X: predictions(r, X, by="day"),
    "rows": lambda r, X: predictions(r, X, aggregate=None),
    "observations": lambda r, X: predictions(r, X, by="text", kind="prediction"),
    "step": lambda r, X: comparisons(r, X, "x", values=2, by="kind"),
    "step with nulls": lambda r, X: comparisons(r, X, "count"),
    "text": lambda r, X: comparisons(r, X, "text"),
    "enum": lambda r, X: comparisons(r, X, "size"),
    "categorical": lambda r, X: comparisons(r, X, "kind", by="size"),
    "bool": lambda r, X: comparisons(r, X, "flag"),
    "bool with nulls": lambda r, X: comparisons(r, X, "maybe"),
    "date": lambda r, X: comparisons(r, X, "day", values=DAYS[:3]),
    "datetime": lambda r, X: comparisons(r, X, "time", values=[X["time"][0], X["time"][9]]),
    "rows of a comparison": lambda r, X: comparisons(r, X, "x", aggregate=None),
    "slope": lambda r, X: slopes(r, X, "x", by="text"),
    "slope with nulls": lambda r, X: slopes(r, X, "count"),
    "curve": lambda r, X: partial_dependence(r, X, ["x", "count"], grid_resolution=5),
    "categories": lambda r, X: partial_dependence(r, X, ["size", "kind"]),
    "flags": lambda r, X: partial_dependence(r, X, "flag"),
    "days": lambda r, X: partial_dependence(r, X, "day"),
}


@knows_names
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_tables_equal_those_of_pandas(ask):
    ours, theirs = ribbons()
    check_equal(ask(ours, table()), ask(theirs, pandas_table()))


@knows_names
@pytest.mark.parametrize("name", ["all", "by enum", "enum", "slope", "categories"])
def test_tables_of_class_probabilities(name):
    ours, theirs = classifiers()
    check_equal(ASKED[name](ours, table()), ASKED[name](theirs, pandas_table()))


@knows_names
def test_numbers_and_text_in_one_column_are_text():
    found = partial_dependence(ribbons()[0], table(), ["count", "text", "flag"], grid_resolution=30)
    assert found.schema["value"] == pl.String
    assert set(found.filter(pl.col("term") == "text")["value"]) == {"u", "v", "w"}
    assert found.filter(pl.col("term") == "flag")["value"].to_list() == ["False", "True"]
    np.testing.assert_equal(found.filter(pl.col("term") == "count")["value"].cast(pl.Float64).to_numpy(), range(9))


@knows_names
def test_labels_have_dtypes_of_their_own():
    ribbon = ribbons()[0]
    for by, dtype in (("text", pl.String), ("flag", pl.Boolean), ("day", pl.Date)):
        assert predictions(ribbon, table(), by=by).schema["term"] == dtype
    found = predictions(ribbon, table(), aggregate=None)
    assert found["term"].to_list() == list(range(N))
    assert set(found.dtypes[1:]) == {pl.Float64}


@knows_names
def test_missing_numbers_are_null():
    found = predictions(ribbons()[0], table(), kind="prediction")
    assert found["p_value"].to_list() == [None]


@knows_names
def test_tables_that_are_not_polars_stay_pandas():
    ribbon = ribbons()[1]
    text = table()["text"]
    found = predictions(ribbon, pandas_table(), by=text, weights=table()["x"].abs())
    pd.testing.assert_frame_equal(
        found, predictions(ribbon, pandas_table(), by="text", weights=np.abs(pandas_table()["x"]))
    )
    X = table().select("x").to_numpy()
    assert isinstance(comparisons(RibbonRegressor().fit(X, target()), X, 0), pd.DataFrame)


def plain():
    """Tables of numbers of polars and of pandas, and a Ribbon trained on the first."""
    X = table().select("x", pl.col("count").fill_null(0), pl.col("flag").cast(pl.Int8))
    return X, pd.DataFrame(X.to_dict(as_series=False)), RibbonRegressor().fit(X, target())


def test_labels_and_weights_of_rows_may_be_polars():
    X, A, ribbon = plain()
    for name in ("text", "size", "kind", "flag"):
        found = predictions(ribbon, X, by=table()[name], weights=table()["x"].abs())
        check_equal(found, predictions(ribbon, A, by=pandas_table()[name], weights=np.abs(pandas_table()["x"])))
    assert predictions(ribbon, X, by=table()["size"])["term"].to_list() == SIZES
    for name in ("maybe", "count"):
        with pytest.raises(ValueError, match="by has missing labels"):
            predictions(ribbon, X, by=table()[name])


def test_columns_of_plain_tables():
    X, A, ribbon = plain()
    found = comparisons(ribbon, X=X, column="x")  # the table may be given by name
    np.testing.assert_allclose(found["estimate"].to_numpy(), ribbon.estimator_.coef_[:1])
    check_equal(slopes(ribbon, X, 1).drop("term"), slopes(ribbon, A, 1).drop(columns="term"))
    with pytest.raises(ValueError, match="its columns are x, count, flag"):
        comparisons(ribbon, X, "y")


def test_decimals_are_numbers():
    X = plain()[0].with_columns(pl.col("count").cast(pl.Decimal(10, 2)))
    ribbon = RibbonRegressor().fit(X, target())
    for found in (slopes(ribbon, X, "count"), comparisons(ribbon, X, "count")):
        np.testing.assert_allclose(found["estimate"].to_numpy(), ribbon.estimator_.coef_[1:2], rtol=1e-6)


def test_unfinished_queries_are_refused():
    X, _, ribbon = plain()
    lazy, y = X.lazy(), target()
    for ask in (
        lambda: predictions(ribbon, lazy),
        lambda: comparisons(ribbon, lazy, "x"),
        lambda: slopes(ribbon, lazy, "x"),
        lambda: partial_dependence(ribbon, lazy, "x"),
        lambda: influence(ribbon, X, y, lazy),
        lambda: influence_measures(ribbon, lazy, y),
        lambda: ribbon.predict_frame(lazy),
    ):
        with pytest.raises(TypeError, match=r"call X\.collect\(\) first"):
            ask()


# ---------------------------------------------------------------------- frames of predictions
@knows_names
def test_predict_frame():
    for ours, theirs in (ribbons(), classifiers()):
        check_equal(ours.predict_frame(table()[:9]), theirs.predict_frame(pandas_table()[:9]))


def test_predict_frame_of_several_outputs_and_of_a_search():
    X, A, _ = plain()
    Y = pl.DataFrame({"up": target(), "down": -(target() ** 2)})
    expected = RibbonRegressor(Ridge()).fit(A, Y.to_numpy()).predict_frame(A)
    found = RibbonRegressor(Ridge()).fit(X, Y).predict_frame(X)
    assert found.columns[:2] == ["up_prediction", "up_std_epistemic"] and found.columns[-1] == "down_upper"
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy())
    check_equal(
        RibbonCV(Ridge()).fit(X, target()).predict_frame(X),
        RibbonCV(Ridge()).fit(A, target()).predict_frame(A),
    )


# ---------------------------------------------------------------------- influence, displays
def test_influence_of_polars_rows():
    X, A, ribbon = plain()
    y = target()
    some, few = (X, pl.Series(y), X[:2]), (A, y, A[:2])
    for ask in (influence, variance_contributions):
        np.testing.assert_allclose(ask(ribbon, *some).to_numpy(), ask(ribbon, *few).to_numpy())
        assert ask(ribbon, *some).columns == ["0", "1"]
        check_equal(ask(ribbon, *some, top=3), ask(ribbon, *few, top=3))
    check_equal(leave_out(ribbon, *some[:2], pl.Series([3, 5]), X), leave_out(ribbon, A, y, [3, 5], A))
    check_equal(influence_measures(ribbon, X, pl.Series(y)), influence_measures(ribbon, A, y))


def test_labels_of_groups_and_classes_become_columns():
    X = plain()[0]
    groups, y = table()["text"], pl.Series(target() > 0.5)
    grouped = RibbonRegressor().fit(X, target(), groups=groups)
    found = influence(grouped, X, target(), X[:2], groups=groups)
    assert found.columns == ["label", "0", "1"]
    assert found["label"].to_list() == groups.unique(maintain_order=True).to_list()
    classifier = RibbonClassifier().fit(X, y)
    assert influence(classifier, X, y, X[:1]).columns == ["0_False", "0_True"]
    found = leave_out(classifier, X, y, [0], X[:2])
    assert found["label"].to_list() == [0, 0, 1, 1]


@knows_names
def test_displays_take_polars_tables():
    ours, theirs = ribbons()
    features = ["x", "size", "flag"]
    display = PartialDependenceDisplay.from_estimator(ours, table(), features)
    expected = PartialDependenceDisplay.from_estimator(theirs, pandas_table(), features)
    pd.testing.assert_frame_equal(display.table, expected.table)
    display = InfluenceDisplay.from_estimator(ours, table(), target())
    np.testing.assert_allclose(display.leverage, influence_measures(theirs, pandas_table(), target())["leverage"])


# ---------------------------------------------------------------------- everything else that takes rows
def test_fits_with_columns_of_polars():
    X, A, _ = plain()
    given = {"groups": table()["text"] + table()["kind"].cast(pl.String), "sample_weight": X["flag"] + 1}
    arrays = {name: column.to_numpy() for name, column in given.items()}
    y, labels = pl.Series(target()), table()["size"]
    for estimator, own, other in (
        (RibbonRegressor(Ridge()), y, y.to_numpy()),
        (RibbonCV(Ridge()), y, y.to_numpy()),
        (RibbonClassifier(), labels, np.array(labels.to_list())),
        (RibbonCV(LogisticRegression()), labels, np.array(labels.to_list())),
    ):
        expected = estimator.fit(A, other, **arrays).predict_frame(A)
        check_equal(estimator.fit(X, own, **given).predict_frame(X), expected)


@knows_names
@pytest.mark.parametrize("baseline", [BootstrapRegressor(n_members=3, random_state=0), LaplaceRegressor()])
def test_baselines_take_polars_tables(baseline):
    baseline = baseline.set_params(estimator=model(Ridge()))
    expected = baseline.fit(pandas_table(), target()).predict_interval(pandas_table())
    np.testing.assert_allclose(baseline.fit(table(), target()).predict_interval(table()), expected)


def test_calibration_rows_of_polars():
    X, A, ribbon = plain()
    y, groups, weight = pl.Series(target()), table()["kind"], table()["x"].abs()
    for options in ({}, {"sample_weight": weight}, {"groups": groups}):
        arrays = {name: column.to_numpy() for name, column in options.items()}
        asked = {"groups": groups} if "groups" in options else {}
        found = ribbon.conformalize(X, y, **options).predict_interval(X, kind="conformal", **asked)
        expected = ribbon.conformalize(A, y.to_numpy(), **arrays)
        asked = {name: column.to_numpy() for name, column in asked.items()}
        np.testing.assert_allclose(found, expected.predict_interval(A, kind="conformal", **asked))


def test_metrics_of_polars():
    X, A, ribbon = plain()
    y, weight, intervals = pl.Series(target()), table()["x"].abs(), ribbon.predict_interval(X)
    a, w = y.to_numpy(), weight.to_numpy()
    for metric in (metrics.interval_coverage_score, metrics.mean_interval_score, metrics.mean_interval_width):
        assert metric(y, intervals, sample_weight=weight) == metric(a, intervals, sample_weight=w)
        assert metric(y, pl.DataFrame(intervals)) == metric(a, intervals)
    mean, std = ribbon.predict(X, return_std=True)
    for metric in (metrics.crps_gaussian, metrics.gaussian_nll):
        assert metric(y, pl.Series(mean), pl.Series(std), sample_weight=weight) == metric(a, mean, std, sample_weight=w)
    labels, *found = metrics.coverage_by_group(y, intervals, table()["size"], sample_weight=weight)
    others, *expected = metrics.coverage_by_group(a, intervals, table()["size"].to_list(), sample_weight=w)
    assert list(labels) == list(others)
    np.testing.assert_array_equal(found, expected)
    for score in (metrics.neg_nll_scorer, metrics.coverage_scorer, metrics.neg_crps_scorer):
        assert score(ribbon, X, y, weight) == pytest.approx(score(ribbon, A, a, w))


def test_time_blocks_of_polars():
    by = table()["text"]
    for name, length in (("day", "14D"), ("time", "MS"), ("x", 7)):
        found = time_blocks(table()[name], length, by=by)
        times = pd.to_datetime(pandas_table()[name]) if isinstance(length, str) else pandas_table()[name]
        np.testing.assert_array_equal(found, time_blocks(times, length, by=by.to_list()))


def test_dates_are_refused_and_categories_that_name_them_are_not():
    x = table()["x"]
    for column in (table()["day"], table()["time"], table()["time"].dt.time(), table()["time"] - DAYS[0]):
        with pytest.raises(TypeError, match=r"X holds dates or times\. Convert them to numbers"):
            RibbonRegressor().fit(pl.DataFrame({"x": x, "at": column}), target())
    days = pl.Series(["0", "1"] * (N // 2), dtype=pl.Enum(["0", "1", "some date", "some time"]))
    RibbonRegressor().fit(pl.DataFrame({"x": x, "at": days}), target())
