"""Displays: the numbers they hold against other sources, the artists they draw, and what they refuse."""

import ast
import inspect
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.calibration import calibration_curve
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC
from statsmodels.api import OLS, add_constant
from statsmodels.stats.proportion import proportion_confint

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, plotting
from skribbon.baselines import BootstrapRegressor, LaplaceClassifier, LaplaceRegressor
from skribbon.exceptions import SelectionWarning, UndeterminedDirectionWarning
from skribbon.metrics import coverage_band, expected_calibration_error, interval_coverage_score, reliability_curve
from skribbon.plotting import (
    AlphaPathDisplay,
    CoefficientDisplay,
    CoverageDisplay,
    IntervalDisplay,
    ProbabilityIntervalDisplay,
    ReliabilityDisplay,
    UncertaintyDecompositionDisplay,
)
from skribbon.plotting._drawing import CYCLE, groups_by, shortened

pytestmark = pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")

COLUMNS = ["age", "height", "weight"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def simulated(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return pd.DataFrame(X, columns=COLUMNS), X @ [1.0, -2.0, 0.0] + np.exp(0.4 * X[:, 0]) * rng.normal(size=n)


X, Y = simulated(120)
X_NEW, Y_NEW = simulated(80, seed=1)
RIBBON = RibbonRegressor(noise="dof").fit(X, Y)
LABELS = np.where(Y > 0, "ill", "well")
CLASSIFIER = RibbonClassifier().fit(X, LABELS)
THREE = RibbonClassifier().fit(X, np.digitize(Y, [-1, 1]))


@pytest.fixture(scope="module")
def many():
    """Two hundred thousand rows."""
    return simulated(200_000, seed=2)


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def n_artists(ax):
    """Artists that hold data, and the pieces of collections."""
    return len(ax.lines) + sum(len(collection.get_paths()) for collection in ax.collections)


# ---------------------------------------------------------------------- IntervalDisplay
def test_interval_display_holds_predictions_and_coverage():
    display = IntervalDisplay.from_estimator(RIBBON, X_NEW, Y_NEW, confidence_level=0.8)
    interval = RIBBON.predict_interval(X_NEW, 0.8)
    np.testing.assert_array_equal(display.y_interval, interval)
    np.testing.assert_array_equal(display.y_pred, RIBBON.estimator_.predict(X_NEW))
    assert display.coverage == interval_coverage_score(Y_NEW, interval)
    lower, upper = interval.T
    inside = (lower <= Y_NEW) & (upper >= Y_NEW)
    assert len(display.covered_.get_xdata()) == inside.sum() > 0
    assert len(display.missed_.get_xdata()) == (~inside).sum() > 0
    assert [len(bars.get_paths()) for bars in display.bars_] == [inside.sum(), (~inside).sum()]
    np.testing.assert_array_equal(np.sort(display.missed_.get_ydata()), np.sort(Y_NEW[~inside]))
    assert f"{100 * inside.mean():.3g}%" in display.ax_.get_title(loc="left")


def test_covered_and_missed_differ_in_colour_and_shape():
    display = IntervalDisplay.from_estimator(RIBBON, X_NEW, Y_NEW)
    assert display.covered_.get_color() != display.missed_.get_color()
    assert display.covered_.get_marker() != display.missed_.get_marker()


@pytest.mark.parametrize("as_frame", [True, False])
def test_one_input_has_bands_over_a_grid(as_frame):
    x = X[["age"]] if as_frame else X[["age"]].to_numpy()
    ribbon = RibbonRegressor(make_pipeline(PolynomialFeatures(2), LinearRegression())).fit(x, Y)
    display = IntervalDisplay.from_estimator(ribbon, x, Y)
    curve = display.curve
    assert display.ax_.get_xlabel() == ("age" if as_frame else "x0")
    assert (curve.x[0], curve.x[-1]) == (X["age"].min(), X["age"].max())
    grid = pd.DataFrame({"age": curve.x}) if as_frame else curve.x[:, None]
    np.testing.assert_array_equal(curve.confidence_interval, ribbon.predict_interval(grid, kind="confidence"))
    np.testing.assert_array_equal(display.line_.get_ydata(), ribbon.predict(grid))
    assert display.bars_ is None
    drawn = display.band_.get_paths()[0].vertices[:, 1]
    assert (drawn.min(), drawn.max()) == (curve.y_interval.min(), curve.y_interval.max())


def test_given_intervals_are_joined_along_x():
    x = X_NEW["age"].to_numpy()
    interval = RIBBON.predict_interval(X_NEW)
    inner = RIBBON.predict_interval(X_NEW, kind="confidence")
    y_pred = RIBBON.predict(X_NEW)
    display = IntervalDisplay.from_predictions(Y_NEW, y_pred, interval, x=x, confidence_interval=inner)
    np.testing.assert_array_equal(display.line_.get_xdata(), np.sort(x))
    np.testing.assert_array_equal(display.curve.confidence_interval, inner[np.argsort(x)])
    with pytest.raises(ValueError, match="pass x as well"):
        IntervalDisplay.from_predictions(Y_NEW, y_pred, interval, confidence_interval=inner)
    with pytest.raises(ValueError, match="inconsistent"):
        IntervalDisplay.from_predictions(Y_NEW[:-1], y_pred, interval)


def test_many_rows_become_a_band_of_medians(many):
    X_many, y_many = many
    display = IntervalDisplay.from_estimator(RIBBON, X_many, y_many)
    assert display.bars_ is None
    assert n_artists(display.ax_) < 10
    assert len(display.covered_.get_xdata()) + len(display.missed_.get_xdata()) == 1000
    assert display.coverage == interval_coverage_score(y_many, RIBBON.predict_interval(X_many))
    # constant noise and a linear model: nearly the same half width everywhere
    vertices = display.band_.get_paths()[0].vertices
    half = np.median(np.diff(display.y_interval, axis=1)) / 2
    middle = np.abs(vertices[:, 0]) < 2
    np.testing.assert_allclose(np.abs(vertices[middle, 1] - vertices[middle, 0]), half, rtol=0.05)


def test_many_rows_of_one_input(many):
    x, y_many = many[0][["age"]], many[1]
    display = IntervalDisplay.from_estimator(RibbonRegressor().fit(X[["age"]], Y), x, y_many)
    assert n_artists(display.ax_) < 10
    assert "1,000 of 200,000" in display.ax_.get_legend().get_title().get_text()
    given = IntervalDisplay.from_predictions(y_many, display.y_pred, display.y_interval, x=display.x)
    x = given.line_.get_xdata()
    assert (len(x), x[0], x[-1]) == (1000, display.x.min(), display.x.max())  # a vector file of them all is 20 MB


@pytest.mark.parametrize("n", [100, 400])
def test_far_observations_do_not_flatten_the_intervals(n):
    X_far, y_far = simulated(n, seed=3)
    y_far[[3, 5]], y_far[7] = 900, -400
    ax = IntervalDisplay.from_estimator(RIBBON, X_far, y_far).ax_
    assert -30 < ax.get_ylim()[0] < ax.get_ylim()[1] < 30
    display = IntervalDisplay.from_estimator(RIBBON, X_far, y_far)
    above, below = display.beyond_
    np.testing.assert_array_equal(above.get_xdata(), display.y_pred[[3, 5]])
    np.testing.assert_array_equal(below.get_xdata(), display.y_pred[[7]])
    assert "beyond the axis (3)" in legend_texts(display.ax_)
    drawn = np.concatenate([display.covered_.get_ydata(), display.missed_.get_ydata()])
    np.testing.assert_array_equal(np.sort(drawn), np.sort(np.delete(y_far, [3, 5, 7])))
    assert display.coverage == interval_coverage_score(y_far, RIBBON.predict_interval(X_far))  # they still count
    assert IntervalDisplay.from_estimator(RIBBON, X_NEW, Y_NEW).beyond_ == ()


@pytest.mark.parametrize("n", [60, 400])
def test_equal_predictions_are_drawn_row_by_row(n):
    _, y = simulated(n, seed=4)
    display = IntervalDisplay.from_predictions(y, np.full(n, 0.3), np.tile([-2.0, 2.6], (n, 1)))
    drawn = np.concatenate([display.covered_.get_xydata(), display.missed_.get_xydata()])
    np.testing.assert_array_equal(drawn[np.argsort(drawn[:, 0])], np.column_stack([np.arange(1, n + 1), y]))
    np.testing.assert_array_equal(display.line_.get_xydata(), [[1, 0.3], [n, 0.3]])
    assert "0.3" in display.ax_.get_xlabel()
    if n > 150:
        vertices = display.band_.get_paths()[0].vertices
        assert (vertices[:, 0].min(), vertices[:, 0].max()) == (1, n)
        assert set(vertices[:, 1]) == {-2.0, 2.6}


def test_groups_keep_equal_values_together_and_lose_no_row():
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(size=500),
        rng.integers(0, 5, 500),
        rng.integers(0, 90, 500),
        np.ones(7),
        rng.pareto(1, 99),
    ):
        groups = groups_by(values, 20)
        assert len(groups) <= 20
        assert min(map(len, groups)) > 0
        np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(len(values)))
        for left, right in pairwise(groups):
            assert values[left].max() < values[right].min()


def test_groups_are_small_only_where_rows_are_sparse():
    values = np.random.default_rng(1).normal(size=3000)
    for rows in groups_by(values, 30):
        if np.abs(values[rows]).max() < 1.5:
            assert len(rows) > 80
    values[0] = 1e6  # one row far away leaves the others alone, in groups of their share
    sizes = list(map(len, groups_by(values, 30)))
    assert sizes[-1] == 1
    assert max(sizes) < 250


# ---------------------------------------------------------------------- CoverageDisplay
def test_coverage_of_each_interval():
    levels = [0.3, 0.6, 0.9]
    display = CoverageDisplay.from_estimator(RIBBON, X_NEW, Y_NEW, confidence_levels=levels)
    expected = [interval_coverage_score(Y_NEW, RIBBON.predict_interval(X_NEW, level)) for level in levels]
    np.testing.assert_array_equal(display.empirical, expected)
    np.testing.assert_array_equal(display.line_.get_xydata(), np.column_stack([levels, expected]))
    given = CoverageDisplay.from_predictions(
        Y_NEW, RIBBON.predict_interval(X_NEW, levels), confidence_levels=levels, ax=display.ax_
    )
    np.testing.assert_array_equal(given.empirical, expected)


@pytest.mark.parametrize("n", [20, 137])
def test_chance_band_is_dual_to_statsmodels_exact_interval(n):
    display = CoverageDisplay(np.array([0.5]), np.array([0.5]), n, band_level=0.9)
    k = np.arange(n + 1)
    lowest, highest = proportion_confint(k, n, alpha=0.1, method="beta")  # Clopper and Pearson
    for p in np.arange(0.03, 1, 0.0471):
        lower, upper = display.chance_band(p)
        inside = (lower * n - 0.5 <= k) & (k <= upper * n + 0.5)
        np.testing.assert_array_equal(inside, (lowest <= p) & (p <= highest))


@pytest.mark.parametrize(("n", "m"), [(200, 50), (4000, 400), (300, 5000)])
def test_chance_band_of_conformal_intervals_is_beta_binomial(n, m):
    """Against scipy's distribution of the share of n rows that m calibration rows cover."""
    levels = np.array([0.3, 0.5, 0.9, 0.95])
    display = CoverageDisplay(levels, levels, n, n_calibration=m, band_level=0.9)
    rank = np.ceil((m + 1) * levels - 1e-9)
    for tail, limit in zip((0.05, 0.95), display.chance_band(levels), strict=True):
        exact = [stats.betabinom(n, k, m + 1 - k).ppf(tail) / n for k in rank]
        np.testing.assert_array_equal(limit, exact)
    bands = [coverage_band(n, level, n_calibration=m, probability=0.9) for level in levels]
    np.testing.assert_array_equal(np.transpose(display.chance_band(levels)), bands)
    weighted = CoverageDisplay(levels, levels, n + 0.3, n_calibration=m, band_level=0.9)  # rounded
    np.testing.assert_array_equal(weighted.chance_band(levels), display.chance_band(levels))
    np.testing.assert_array_equal(display.chance_band([0.0, 1.0]), [[0, 1], [0, 1]])
    fixed = CoverageDisplay(levels, levels, n, band_level=0.9)  # without calibration rows
    assert (np.diff(display.chance_band(levels), axis=0) > np.diff(fixed.chance_band(levels), axis=0)).all()


@pytest.mark.parametrize(("n", "m"), [(10_100, 2000), (50_000, 100)])
def test_chance_band_of_many_rows_is_beta_binomial_to_one_row(n, m):
    display = CoverageDisplay(np.array([0.5]), np.array([0.5]), n, n_calibration=m)
    for level in (0.5, 0.9, 0.99):
        rank = np.ceil((m + 1) * level - 1e-9)
        exact = stats.betabinom(n, rank, m + 1 - rank).ppf([0.025, 0.975]) / n
        np.testing.assert_allclose(np.ravel(display.chance_band(level)), exact, atol=1 / n, rtol=0)


def test_coverage_of_conformal_intervals_counts_calibration_rows():
    ribbon = RibbonRegressor(noise="dof").fit(X_NEW[:40], Y_NEW[:40]).conformalize(X_NEW[40:], Y_NEW[40:])
    display = CoverageDisplay.from_estimator(ribbon, *simulated(30, seed=2), kind="conformal")
    assert display.n_calibration == 40
    tuned = RibbonCV(Ridge()).fit(X_NEW[:50], Y_NEW[:50]).conformalize(X_NEW[50:], Y_NEW[50:])
    assert CoverageDisplay.from_estimator(tuned, X_NEW, Y_NEW, kind="conformal").n_calibration == 30
    assert "(40 calibration rows)" in display.band_.get_label()
    ribbon.conformalize(X_NEW[40:], Y_NEW[40:], sample_weight=np.full(len(Y_NEW) - 40, 3))
    assert CoverageDisplay.from_estimator(ribbon, X_NEW, Y_NEW, kind="conformal").n_calibration == 120
    assert CoverageDisplay.from_estimator(ribbon, X_NEW, Y_NEW).n_calibration is None


def test_coverage_weights_count_rows():
    weight = np.random.default_rng(0).integers(0, 4, len(Y_NEW))
    display = CoverageDisplay.from_estimator(RIBBON, X_NEW, Y_NEW, sample_weight=weight)
    rows = np.repeat(np.arange(len(Y_NEW)), weight)
    repeated = CoverageDisplay.from_estimator(RIBBON, X_NEW.iloc[rows], Y_NEW[rows])
    assert display.n == repeated.n
    np.testing.assert_allclose(display.empirical, repeated.empirical)


def test_bands_of_two_levels_on_one_axis():
    wide = CoverageDisplay.from_estimator(RIBBON, X_NEW, Y_NEW, band_level=0.99)
    narrow = CoverageDisplay.from_estimator(RIBBON, X_NEW, Y_NEW, band_level=0.5, ax=wide.ax_)
    assert wide.band_ is not narrow.band_
    labels = [text.get_text() for text in wide.ax_.get_legend().get_texts()]
    assert sum("99% by chance" in label for label in labels) == sum("50% by chance" in label for label in labels) == 1


@pytest.mark.parametrize("codes", [[0, 1, 2], ["0", "1", "2"], [True, False, True]], ids=["integers", "digits", "bool"])
def test_one_column_of_categories(codes):
    column = pd.DataFrame({"district": np.resize(codes, 60)})
    y = np.resize([0.0, 1.0, 4.0], 60) + np.random.default_rng(0).normal(size=60)
    ribbon = RibbonRegressor(make_pipeline(OneHotEncoder(), Ridge())).fit(column, y)
    display = IntervalDisplay.from_estimator(ribbon, column, y)
    if codes == [0, 1, 2]:
        np.testing.assert_array_equal(display.curve.x, codes)
        np.testing.assert_allclose(display.curve.y_pred, ribbon.predict(column)[:3])
    else:
        assert display.curve is None


def test_several_estimators_share_an_axis():
    tuned = RibbonCV(Ridge(), alphas=[0.1, 1.0, 10.0], scoring="nll", cv=3).fit(X, Y)
    others = {
        "tuned": tuned,
        "laplace": LaplaceRegressor(Ridge()).fit(X, Y),
        "bootstrap": BootstrapRegressor(Ridge(), n_members=5, random_state=0).fit(X, Y),
    }
    first = CoverageDisplay.from_estimator(RIBBON, X_NEW, Y_NEW, name="first")
    displays = [first]
    for name, estimator in others.items():
        displays.append(CoverageDisplay.from_estimator(estimator, X_NEW, Y_NEW, ax=first.ax_, name=name))
    assert len(plt.get_fignums()) == 1
    assert all(display.ax_ is first.ax_ and display.band_ is first.band_ for display in displays)
    assert len(first.ax_.collections) == 1  # one band, for they have the same rows
    assert len(first.ax_.lines) == len(displays) + 1  # one diagonal
    looks = {(display.line_.get_color(), display.line_.get_marker()) for display in displays}
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == len(displays)
    assert {"first", *others} < set(legend_texts(first.ax_))
    CoverageDisplay.from_estimator(RIBBON, X_NEW[:30], Y_NEW[:30], ax=first.ax_)
    assert len(first.ax_.collections) == 2  # thirty rows have a wider band


# ---------------------------------------------------------------------- ReliabilityDisplay
def two_classes(n=600, seed=5):
    """Labels and probabilities that are not quite theirs."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.9, size=n)
    return (rng.uniform(size=n) < p**1.5).astype(int), p


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [4, 10])
def test_reliability_equals_scikit_learn(strategy, n_bins):
    y, p = two_classes()
    display = ReliabilityDisplay.from_predictions(y, p, n_bins=n_bins, strategy=strategy)
    observed, predicted = calibration_curve(y, p, n_bins=n_bins, strategy=strategy)
    np.testing.assert_allclose(display.observed, observed)
    np.testing.assert_allclose(display.predicted, predicted)
    assert display.n.sum() == len(y)
    if strategy == "uniform":
        np.testing.assert_array_equal(display.n, np.histogram(p, np.linspace(0, 1, n_bins + 1))[0])
    expected = np.average(np.abs(observed - predicted), weights=display.n)
    np.testing.assert_allclose(display.calibration_error, expected)
    assert f"observed, ECE {expected:.3f}" in legend_texts(display.ax_)
    np.testing.assert_array_equal(display.line_.get_xydata(), np.column_stack([display.predicted, display.observed]))


def test_bars_of_chance_and_counts_are_drawn_for_each_bin():
    y, p = two_classes(200)
    display = ReliabilityDisplay.from_predictions(y, p, n_bins=8, band_level=0.9)
    k = np.arange(201)
    bars = [path.vertices[:, 1] for path in display.bars_.get_paths()]
    counts = [path.vertices[1, 1] for path in display.counts_.get_paths()]
    assert len(bars) == len(counts) == len(display.n)
    for bar, count, n, mean in zip(bars, counts, display.n, display.predicted, strict=True):
        assert count == n
        cdf = stats.binom.cdf(k, n, mean)
        expected = [np.argmax(cdf >= 0.05) / n, np.argmax(cdf >= 0.95) / n]
        np.testing.assert_allclose(bar, expected)


def test_reliability_chance_bars_reach_nominal_coverage():
    """Calibrated probabilities, unequal within each bin: at least 95% of bins are within their bar, few more."""
    rng, inside, total = np.random.default_rng(6), 0, 0
    for _ in range(15):
        p = rng.uniform(size=8000)
        display = ReliabilityDisplay.from_predictions(rng.uniform(size=8000) < p, p, n_bins=40)
        lower, upper = display.chance_band()
        inside += ((lower <= display.observed) & (display.observed <= upper)).sum()
        total += len(lower)
        plt.close("all")
    assert stats.binom.cdf(inside, total, 0.95) > 0.01
    assert inside / total < 0.985


def test_reliability_of_predicted_class_of_three():
    labels = np.digitize(Y_NEW, [-1, 1])
    proba = THREE.predict_proba(X_NEW)
    display = ReliabilityDisplay.from_estimator(THREE, X_NEW, labels)
    curve = reliability_curve(labels, proba, labels=THREE.classes_)
    np.testing.assert_allclose([display.predicted, display.observed, display.n], curve)
    error = expected_calibration_error(labels, proba, labels=THREE.classes_)
    assert display.calibration_error == pytest.approx(error)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("confidence in the predicted class", "accuracy")
    one = ReliabilityDisplay.from_estimator(THREE, X_NEW, labels, pos_label=2, n_bins=5)
    observed, predicted = calibration_curve(labels == 2, proba[:, 2], n_bins=5)
    np.testing.assert_allclose([one.observed, one.predicted], [observed, predicted])
    assert one.ax_.get_xlabel() == "predicted P(class 2)"


def test_reliability_of_any_classifier_and_of_its_predictions():
    labels = np.where(Y_NEW > 0, "ill", "well")
    bare = LogisticRegression().fit(X, LABELS)
    for estimator in (bare, CLASSIFIER, GridSearchCV(bare, {"C": [1.0]}, cv=2).fit(X, LABELS)):
        display = ReliabilityDisplay.from_estimator(estimator, X_NEW, labels)
        proba = estimator.predict_proba(X_NEW)
        assert display.pos_label == "well"
        for column, label in enumerate(["ill", "well"]):
            of_label = ReliabilityDisplay.from_estimator(estimator, X_NEW, labels, pos_label=label)
            given = ReliabilityDisplay.from_predictions(labels, proba[:, column], pos_label=label)
            both = ReliabilityDisplay.from_predictions(labels, proba, pos_label=label)
            for other in (given, both):
                np.testing.assert_array_equal(other.observed, of_label.observed)
                np.testing.assert_array_equal(other.predicted, of_label.predicted)
            plt.close("all")
        np.testing.assert_array_equal(display.observed, of_label.observed)  # the second class is the default


def test_weights_of_rows_in_bins():
    y, p = two_classes(300)
    weight = np.random.default_rng(0).integers(0, 4, 300)
    display = ReliabilityDisplay.from_predictions(y, p, n_bins=5, sample_weight=weight)
    repeated = ReliabilityDisplay.from_predictions(np.repeat(y, weight), np.repeat(p, weight), n_bins=5)
    np.testing.assert_allclose(display.observed, repeated.observed)
    np.testing.assert_allclose(display.predicted, repeated.predicted)
    assert display.calibration_error == pytest.approx(repeated.calibration_error)
    np.testing.assert_array_equal(display.n, repeated.n)


def test_reliability_of_several_on_one_axis():
    y, p = two_classes()
    first = ReliabilityDisplay.from_predictions(y, p, name="first")
    second = ReliabilityDisplay.from_predictions(y[:150], p[:150], name="second", ax=first.ax_)
    third = ReliabilityDisplay.from_predictions(y[:90], p[:90], ax=first.ax_, name="third")
    assert len(plt.get_fignums()) == 1
    assert first.diagonal_ is second.diagonal_ is third.diagonal_
    assert first.counts_ax_ is second.counts_ax_ is third.counts_ax_
    assert len(first.counts_ax_.collections) == len(first.ax_.collections) == 3
    assert first.counts_ax_.get_ylim()[1] >= first.n.max() > third.n.max()  # one scale, that holds all
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(first.line_, look)() != getattr(second.line_, look)()
    texts = legend_texts(first.ax_)
    assert [text.split(",")[0] for text in texts if "ECE" in text] == ["first", "second", "third"]
    assert texts.count("95% by chance") == 1


def test_reliability_of_few_rows():
    constant = DummyClassifier(strategy="prior").fit(X, LABELS)
    display = ReliabilityDisplay.from_estimator(constant, X_NEW, np.where(Y_NEW > 0, "ill", "well"))
    assert (len(display.n), display.n[0]) == (1, 80)
    nothing_happens = ReliabilityDisplay.from_predictions(np.zeros(10), np.linspace(0, 1, 10))
    np.testing.assert_array_equal(nothing_happens.observed, 0)
    assert nothing_happens.pos_label == 1


def test_reliability_refuses_bad_input():
    y, p = two_classes(20)
    with pytest.raises(TypeError, match="needs a classifier, but RibbonRegressor is a regressor; use CoverageDisplay"):
        ReliabilityDisplay.from_estimator(RIBBON, X, Y)
    with pytest.raises(TypeError, match=r"LinearSVC has none; .*CalibratedClassifierCV"):
        ReliabilityDisplay.from_estimator(LinearSVC().fit(X, LABELS), X, LABELS)
    with pytest.raises(NotFittedError):
        ReliabilityDisplay.from_estimator(LogisticRegression(), X, LABELS)
    with pytest.raises(ValueError, match="none of the classes ill, well"):
        ReliabilityDisplay.from_estimator(CLASSIFIER, X, Y > 0)
    with pytest.raises(ValueError, match="pos_label='sick' is not a class"):
        ReliabilityDisplay.from_estimator(CLASSIFIER, X, LABELS, pos_label="sick")
    with pytest.raises(ValueError, match="y_proba must lie between 0 and 1"):
        ReliabilityDisplay.from_predictions(y, 2 * p)
    with pytest.raises(ValueError, match="y_proba has 3 columns for 2 classes; name them with labels="):
        ReliabilityDisplay.from_predictions(y, np.ones((20, 3)) / 3)
    with pytest.raises(ValueError, match="pos_label must name the class to draw; there are 3"):
        ReliabilityDisplay.from_predictions(np.arange(20) % 3, p)
    with pytest.raises(ValueError, match="inconsistent"):
        ReliabilityDisplay.from_predictions(y[:-1], p)
    with pytest.raises(ValueError, match="n_bins must be an integer >= 1"):
        ReliabilityDisplay.from_predictions(y, p, n_bins=0)
    with pytest.raises(ValueError, match="band_level must lie strictly between 0 and 1"):
        ReliabilityDisplay.from_predictions(y, p, band_level=95)
    with pytest.raises(ValueError, match="strategy must be one of 'uniform', 'quantile'"):
        ReliabilityDisplay.from_predictions(y, p, strategy="equal")
    with pytest.raises(ValueError, match="pass labels= if y_true happens to lack it"):
        ReliabilityDisplay.from_predictions(np.full(20, "well"), p, pos_label="ill")
    assert not plt.get_fignums()


# ---------------------------------------------------------------------- AlphaPathDisplay
def test_path_and_choice_of_a_regressor():
    tuned = RibbonCV(Ridge(), alphas=np.logspace(-3, 2, 11), scoring="crps", cv=3).fit(X, Y)
    display = AlphaPathDisplay.from_estimator(tuned)
    assert display.metrics == ("crps", "coverage", "nll", "width")
    assert len(display.ax_) == len(display.lines_) == 4
    for metric, line, band in zip(display.metrics, display.lines_, display.bands_, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), tuned.cv_results_["alpha"])
        np.testing.assert_array_equal(line.get_ydata(), tuned.cv_results_[f"mean_test_{metric}"])
        assert band is not None
    best = np.flatnonzero(tuned.cv_results_["alpha"] == tuned.alpha_)
    chosen = [float(line.get_ydata()[0]) for line in display.choices_]
    expected = [tuned.cv_results_[f"mean_test_{metric}"][best[0]] for metric in display.metrics]
    np.testing.assert_allclose(chosen, expected)
    assert display.ax_[0].get_xscale() == "log"


def test_path_of_a_classifier_on_existing_axes():
    tuned = RibbonCV(LogisticRegression(), alphas=[0.1, 1.0, 10.0], cv="loo").fit(X, LABELS)
    figure, axes = plt.subplots(1, 3)
    display = AlphaPathDisplay.from_estimator(tuned, ax=axes)
    assert display.metrics == ("nll", "brier", "ece")
    assert display.figure_ is figure
    assert display.bands_ == [None] * 3  # a single fold has no spread
    single = AlphaPathDisplay.from_estimator(tuned, metrics="accuracy", ax=plt.subplots()[1])
    np.testing.assert_array_equal(single.lines_[0].get_xdata(), [0.1, 1.0, 10.0])  # each at its own temperature
    np.testing.assert_array_equal(single.lines_[0].get_ydata(), tuned.cv_results_["mean_test_accuracy"])
    with pytest.raises(ValueError, match="3 axes, one for each metric, got 1"):
        AlphaPathDisplay.from_estimator(tuned, ax=axes[0])
    with pytest.raises(ValueError, match="metrics must be among nll"):
        AlphaPathDisplay.from_estimator(tuned, metrics=["coverage"])


def test_path_of_a_scorer():
    def scorer(estimator, X, y):
        return -np.mean(estimator.predict_std(X))

    tuned = RibbonCV(Ridge(), alphas=[0.1, 1.0, 10.0], scoring=scorer, cv=3)
    with pytest.warns(UserWarning, match="largest alpha"):
        tuned.fit(X, Y)
    display = AlphaPathDisplay.from_estimator(tuned)
    assert display.metrics[0] == "score"
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), tuned.cv_results_["mean_test_score"])


# ---------------------------------------------------------------------- UncertaintyDecompositionDisplay
def test_decomposition_parts_add_up_in_every_group():
    ribbon = RibbonRegressor(noise="heteroskedastic").fit(X, Y)
    display = UncertaintyDecompositionDisplay.from_estimator(ribbon, X_NEW, feature="height", n_groups=7)
    np.testing.assert_allclose(display.total, ribbon.predict_std(X_NEW))
    curves = display.curves
    np.testing.assert_allclose(curves["total"] ** 2, curves["epistemic"] ** 2 + curves["aleatoric"] ** 2)
    assert len(curves["x"]) <= 7
    assert (np.diff(curves["x"]) > 0).all()
    same = UncertaintyDecompositionDisplay.from_estimator(ribbon, X_NEW, feature=-2, n_groups=7)
    np.testing.assert_array_equal(same.curves["epistemic"], curves["epistemic"])
    assert same.ax_.get_xlabel() == "height"


def test_a_discrete_feature_has_one_group_per_value():
    x = np.repeat([1.0, 2.0, 5.0], 10)
    epistemic = np.random.default_rng(0).uniform(size=30)
    display = UncertaintyDecompositionDisplay.from_predictions(epistemic, np.ones(30), x=x)
    np.testing.assert_array_equal(display.curves["x"], [1, 2, 5])
    np.testing.assert_allclose(display.curves["epistemic"][1], np.sqrt(np.mean(epistemic[10:20] ** 2)))
    text = UncertaintyDecompositionDisplay.from_predictions(epistemic, np.ones(30), x=np.repeat(["b", "a", "c"], 10))
    assert [tick.get_text() for tick in text.ax_.get_xticklabels()] == ["a", "b", "c"]
    np.testing.assert_allclose(text.lines_["epistemic"].get_ydata()[0], display.curves["epistemic"][1])
    with pytest.raises(ValueError, match="too many to draw"):
        UncertaintyDecompositionDisplay.from_predictions(epistemic, np.ones(30), x=np.arange(30).astype(str))


def test_rows_without_a_feature_value_are_left_out():
    x = np.r_[np.nan, np.arange(1.0, 5.0)]
    display = UncertaintyDecompositionDisplay.from_predictions(np.arange(5.0), np.ones(5), x=x)
    np.testing.assert_array_equal(display.curves["epistemic"], [1, 2, 3, 4])


def test_rows_ranked_by_total():
    epistemic, aleatoric = np.random.default_rng(0).gamma(2.0, size=(2, 200_000))
    display = UncertaintyDecompositionDisplay.from_predictions(epistemic, aleatoric)
    assert (np.diff(display.curves["total"]) > 0).all()
    assert not display.points_
    assert n_artists(display.ax_) == 3
    few = UncertaintyDecompositionDisplay.from_estimator(RIBBON, X_NEW)
    assert set(few.points_) == {"epistemic", "aleatoric"}


def test_sparse_columns_and_unknown_ones():
    rows = sparse.csr_matrix(X.to_numpy())
    ribbon = RibbonRegressor().fit(rows, Y)
    display = UncertaintyDecompositionDisplay.from_estimator(ribbon, rows, feature=1)
    np.testing.assert_array_equal(display.x, X["height"])
    with pytest.raises(ValueError, match="not a column of X"):
        UncertaintyDecompositionDisplay.from_estimator(RIBBON, X, feature="colour")
    with pytest.raises(ValueError, match="X has 3 columns"):
        UncertaintyDecompositionDisplay.from_estimator(RIBBON, X, feature=3)


# ---------------------------------------------------------------------- ProbabilityIntervalDisplay
def test_probabilities_are_sorted_and_labels_marked():
    labels = np.where(Y_NEW > 0, "ill", "well")
    display = ProbabilityIntervalDisplay.from_estimator(CLASSIFIER, X_NEW, labels, pos_label="ill")
    np.testing.assert_array_equal(display.y_proba, CLASSIFIER.predict_proba(X_NEW)[:, 0])
    np.testing.assert_array_equal(display.y_interval, CLASSIFIER.predict_proba_interval(X_NEW)[:, 0])
    ill, well = display.points_
    assert len(ill.get_xdata()) == len(display.bars_[0].get_paths()) == (labels == "ill").sum()
    drawn = np.concatenate([ill.get_xydata(), well.get_xydata()])
    drawn = drawn[np.argsort(drawn[:, 0])]
    np.testing.assert_array_equal(drawn[:, 1], np.sort(display.y_proba))
    assert ill.get_marker() != well.get_marker()
    assert display.ax_.get_ylabel() == "P(ill)"
    default = ProbabilityIntervalDisplay.from_estimator(LaplaceClassifier().fit(X, LABELS), X_NEW, labels)
    assert default.pos_label == "well"


def test_many_probabilities_are_thinned():
    lower, proba, upper = np.sort(np.random.default_rng(0).uniform(size=(3, 200_000)), axis=0)
    display = ProbabilityIntervalDisplay.from_predictions(upper < 0.7, proba, np.column_stack([lower, upper]))
    assert sum(len(points.get_xdata()) for points in display.points_) == 150
    assert n_artists(display.ax_) == 152
    assert "150 of 200,000 rows" in display.ax_.get_xlabel()


def test_one_class_of_several():
    with pytest.raises(ValueError, match="the class to draw; there are 3"):
        ProbabilityIntervalDisplay.from_estimator(THREE, X, np.digitize(Y, [-1, 1]))
    with pytest.raises(ValueError, match="not a class"):
        ProbabilityIntervalDisplay.from_estimator(THREE, X, np.digitize(Y, [-1, 1]), pos_label=7)
    display = ProbabilityIntervalDisplay.from_estimator(THREE, X, np.digitize(Y, [-1, 1]), pos_label=1)
    np.testing.assert_array_equal(display.y_proba, THREE.predict_proba(X)[:, 1])
    with pytest.raises(ValueError, match="two columns"):
        ProbabilityIntervalDisplay.from_predictions([0, 1], [0.2, 0.8], [[0.1], [0.9]])


# ---------------------------------------------------------------------- CoefficientDisplay
def test_coefficients_and_robust_errors_of_statsmodels():
    display = CoefficientDisplay.from_estimator(
        RibbonRegressor(correction="HC0").fit(X, Y), intercept=True, confidence_level=0.95
    )
    n = len(Y)
    reference = OLS(Y, add_constant(X)).fit(cov_type="HC0")
    assert list(display.names) == [*COLUMNS, "(intercept)"]
    names = [*COLUMNS, "const"]
    np.testing.assert_allclose(display.coefficients, reference.params[names])
    np.testing.assert_allclose(display.standard_errors, reference.bse[names] * np.sqrt(n / (n + 1)))  # alpha = 1
    half = stats.norm.ppf(0.975) * display.standard_errors
    np.testing.assert_allclose(display.interval[:, 1] - display.coefficients, half)
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert ticks == list(display.names)
    clear = (display.interval > 0).all(axis=1) | (display.interval < 0).all(axis=1)
    assert [len(bars.get_paths()) for bars in display.bars_] == [clear.sum(), (~clear).sum()]


def test_coefficients_of_one_class_of_several():
    estimator = THREE.estimator_
    shown = [CoefficientDisplay.from_estimator(THREE, pos_label=label) for label in THREE.classes_]
    np.testing.assert_allclose([display.coefficients for display in shown], estimator.coef_, rtol=1e-8)
    # the latent covariance at a unit vector, in the coordinates of classes, is that of the coefficients
    B, d = THREE.model_.loss.basis, X.shape[1]
    blocks = THREE.covariance_.reshape(2, d + 1, 2, d + 1)
    for label, display in enumerate(shown):
        variance = [B[label] @ blocks[:, j, :, j] @ B[label] for j in range(d)]
        np.testing.assert_allclose(display.standard_errors**2, variance)


def test_names_follow_the_pipeline_and_the_selection():
    ribbon = RibbonRegressor(make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), Ridge()))
    display = CoefficientDisplay.from_estimator(ribbon.fit(X, Y))
    assert list(display.names[:4]) == ["age", "height", "weight", "age^2"]
    with pytest.warns(SelectionWarning):
        lasso = RibbonRegressor(Lasso(alpha=0.5)).fit(X, Y)
    kept = [name for name, value in zip(COLUMNS, lasso.estimator_.coef_, strict=True) if value != 0]
    assert list(CoefficientDisplay.from_estimator(lasso).names) == kept == ["age", "height"]
    assert list(CoefficientDisplay.from_estimator(lasso, feature_names=["a", "b", "c"]).names) == ["a", "b"]
    with pytest.raises(ValueError, match="feature_names must have 3 names"):
        CoefficientDisplay.from_estimator(RIBBON, feature_names=["a"])


def test_other_estimators_with_coefficients():
    huber = RibbonRegressor(HuberRegressor(tol=1e-8, max_iter=1000)).fit(X.to_numpy(), Y)
    display = CoefficientDisplay.from_estimator(huber)
    np.testing.assert_allclose(display.coefficients, huber.estimator_.coef_)
    np.testing.assert_allclose(display.standard_errors, np.sqrt(np.diag(huber.covariance_))[:3])
    assert list(display.names) == ["x0", "x1", "x2"]
    tuned = RibbonCV(Ridge(), alphas=[0.1, 1.0, 10.0], scoring="nll", cv=3).fit(X, Y)
    for estimator, inner in ((tuned, tuned.estimator_), (LaplaceRegressor(Ridge()).fit(X, Y),) * 2):
        display = CoefficientDisplay.from_estimator(estimator)
        np.testing.assert_allclose(display.standard_errors, np.sqrt(np.diag(inner.covariance_))[:3])


def test_coefficients_of_your_own():
    display = CoefficientDisplay([1.0, -2.0], [0.1, 3.0], ["a", "b"]).plot()
    np.testing.assert_allclose(display.interval[0], [1 - 0.1 * 1.6448536, 1 + 0.1 * 1.6448536])
    with pytest.raises(ValueError, match="inconsistent"):
        CoefficientDisplay([1.0, -2.0], [0.1, 3.0], ["a"])


def test_short_names_stay_distinct():
    for pattern in ("district_the district of {} and its surroundings", "{} and all of its surroundings", "in the {}"):
        names = [pattern.format(city) for city in ("Altona", "Barmbek", "Mitte")]
        short = shortened(names, 28)
        assert max(map(len, short)) <= 28
        assert len(set(short)) == 3
    hopeless = ["a" * 30 + middle + "a" * 30 for middle in "xyz"]
    assert shortened(hopeless, 28) == hopeless
    display = CoefficientDisplay([1.0, 2.0], [0.1, 0.1], ["scaler__age", "remainder__height"]).plot()
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["age", "height"]
    display = CoefficientDisplay([1.0, 2.0], [0.1, 0.1], ["scaler__age", "remainder__age"]).plot()
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["scaler__age", "remainder__age"]


def test_coefficient_display_selects_clearest_of_many():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(300, 60))
    y = wide[:, [50, 7]].sum(axis=1) + rng.normal(size=300)
    display = CoefficientDisplay.from_estimator(RibbonRegressor(Ridge()).fit(wide, y), max_coefficients=2)
    np.testing.assert_array_equal(display.shown, [7, 50])
    assert n_artists(display.ax_) == 5


def test_coefficient_display_warns_of_collinear_columns():
    doubled = X.assign(copy=X["age"])
    ribbon = RibbonRegressor(LinearRegression()).fit(doubled, Y)
    with pytest.warns(UndeterminedDirectionWarning, match="2 of . coefficients"):
        CoefficientDisplay.from_estimator(ribbon)


def test_coefficient_display_refuses_models_without_coefficients():
    network = MLPRegressor(hidden_layer_sizes=(2,), activation="tanh", solver="lbfgs", alpha=1.0, max_iter=2000)
    for curvature in ("auto", "last_layer"):
        ribbon = RibbonRegressor(network.set_params(random_state=0), curvature=curvature).fit(X, Y)
        with pytest.raises(TypeError, match="needs a linear base model"):
            CoefficientDisplay.from_estimator(ribbon)
    with pytest.raises(TypeError, match="BootstrapRegressor has none"):
        CoefficientDisplay.from_estimator(BootstrapRegressor(n_members=3, random_state=0).fit(X, Y))


# ---------------------------------------------------------------------- all
DRAWN = {
    "interval": (IntervalDisplay, RIBBON, (X_NEW, Y_NEW)),
    "coverage": (CoverageDisplay, RIBBON, (X_NEW, Y_NEW)),
    "decomposition": (UncertaintyDecompositionDisplay, RIBBON, (X_NEW,)),
    "probability": (ProbabilityIntervalDisplay, CLASSIFIER, (X, LABELS)),
    "reliability": (ReliabilityDisplay, CLASSIFIER, (X, LABELS)),
    "coefficients": (CoefficientDisplay, RIBBON, ()),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_existing_axes_are_used_and_a_display_draws_again(kind):
    Display, estimator, data = DRAWN[kind]
    figure, axes = plt.subplots(1, 2)
    display = Display.from_estimator(estimator, *data, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].lines
    assert len(plt.get_fignums()) == 1
    first = n_artists(axes[1])
    assert display.plot(axes[0]) is display
    assert display.ax_ is axes[0]
    assert n_artists(axes[0]) == first
    display.plot()
    assert len(plt.get_fignums()) == 2
    figure.canvas.draw()


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("kind", DRAWN)
def test_lines_and_text_stand_out_from_the_background_and_settings_stay(kind, style):
    Display, estimator, data = DRAWN[kind]
    with plt.style.context(style):
        before = dict(plt.rcParams)
        ax = Display.from_estimator(estimator, *data).ax_
        assert dict(plt.rcParams) == before
    ground = luminance(ax.figure.get_facecolor())
    texts = [ax.title, ax.xaxis.label, *ax.get_xticklabels(), *ax.get_legend().get_texts()]
    for colour in [*(line.get_color() for line in ax.lines), *(text.get_color() for text in texts)]:
        light, dark = sorted([luminance(colour), ground], reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 3  # what WCAG asks of graphics


def luminance(colour):
    """Relative, of sRGB."""
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("size", [(6.4, 4.8), (10, 4)])
@pytest.mark.parametrize("kind", DRAWN)
def test_legend_hides_no_data(kind, size):
    Display, estimator, data = DRAWN[kind]
    figure, axes = plt.subplots(1, 1 if size[0] < 10 else 2, figsize=size, squeeze=False)
    ax = Display.from_estimator(estimator, *data, ax=axes[0, -1]).ax_
    figure.canvas.draw()
    legend, frame = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert frame.x0 <= legend.x0 < legend.x1 <= frame.x1
    vertices = [line.get_transform().transform(line.get_xydata()) for line in ax.lines]
    for pieces in ax.collections:
        vertices += [pieces.get_transform().transform(path.vertices) for path in pieces.get_paths()]
    assert not legend.count_contains(np.concatenate(vertices))


def test_legend_uses_free_corner_or_makes_room():
    y, p = two_classes(4000)
    good = ReliabilityDisplay.from_predictions(y, p, n_bins=5)
    bad = ReliabilityDisplay.from_predictions(1 - y, p, n_bins=5)
    assert good.ax_.get_ylim()[1] == 1.02
    assert bad.ax_.get_ylim()[1] > 1.08
    for share, corner in ((0.999, 4), (0.001, 2)):  # of covered rows; matplotlib's numbers of lower right, upper left
        display = CoverageDisplay(np.array([0.1, 0.5, 0.9]), np.full(3, share), 100).plot()
        assert display.ax_.get_legend()._get_loc() == corner


def test_keywords_reach_the_artists():
    display = IntervalDisplay.from_estimator(
        RIBBON, X_NEW, Y_NEW, line_kw={"linewidth": 5, "c": "red"}, bar_kw={"linewidth": 3}, point_kw={"markersize": 9}
    )
    assert (display.line_.get_linewidth(), display.line_.get_color()) == (5, "red")
    assert display.bars_[0].get_linewidth()[0] == 3
    assert display.covered_.get_markersize() == 9


@pytest.mark.parametrize("kind", [kind for kind in DRAWN if kind != "interval"])
def test_every_keyword_of_plot_reaches_an_artist(kind):
    Display, estimator, data = DRAWN[kind]
    given = [name for name in inspect.signature(Display.plot).parameters if name.endswith("_kw")]
    assert given
    for name in given:
        ax = Display.from_estimator(estimator, *data, **{name: {"linewidth": 3.7}}).ax_
        axes = [ax, *ax.child_axes]
        widths = [np.ravel(artist.get_linewidth()) for one in axes for artist in (*one.lines, *one.collections)]
        assert 3.7 in np.concatenate(widths), name


@pytest.mark.parametrize("Display", [IntervalDisplay, CoverageDisplay, UncertaintyDecompositionDisplay])
def test_regression_displays_refuse_other_estimators(Display):
    data = (X,) if Display is UncertaintyDecompositionDisplay else (X, Y)
    with pytest.raises(TypeError, match=f"use {'ReliabilityDisplay' if Display is CoverageDisplay else 'Probability'}"):
        Display.from_estimator(CLASSIFIER, *data)
    for classifier in (CLASSIFIER, RibbonCV(LogisticRegression())):
        with pytest.raises(TypeError, match=f"{Display.__name__} needs a regressor, but .* is a classifier"):
            Display.from_estimator(classifier, *data)
    with pytest.raises(TypeError, match="Ridge has none; wrap the model in RibbonRegressor"):
        Display.from_estimator(Ridge().fit(X, Y), *data)
    with pytest.raises(TypeError, match="best_estimator_"):
        Display.from_estimator(GridSearchCV(RibbonRegressor(), {"alpha": [1.0]}, cv=2).fit(X, Y), *data)
    with pytest.raises(NotFittedError):
        Display.from_estimator(RibbonRegressor(), *data)
    assert not plt.get_fignums()


def test_other_refusals():
    with pytest.raises(TypeError, match="needs a classifier, but RibbonRegressor is a regressor; use IntervalDisplay"):
        ProbabilityIntervalDisplay.from_estimator(RIBBON, X, Y)
    with pytest.raises(TypeError, match="needs a fitted RibbonCV"):
        AlphaPathDisplay.from_estimator(RIBBON)
    with pytest.raises(NotFittedError):
        AlphaPathDisplay.from_estimator(RibbonCV())
    with pytest.raises(ValueError, match="confidence_levels must lie strictly between"):
        CoverageDisplay.from_estimator(RIBBON, X, Y, confidence_levels=[0.5, 1.5])
    with pytest.raises(ValueError, match=r"shape \(n_samples, 2, 2\)"):
        CoverageDisplay.from_predictions(Y, RIBBON.predict_interval(X), confidence_levels=[0.5, 0.9])


def test_matplotlib_is_imported_inside_functions_only():
    for file in Path(plotting.__file__).parent.glob("*.py"):
        top = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not any("matplotlib" in ast.unparse(node) for node in top)


def test_coverage_of_any_kind_of_interval_is_drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = X[:, 0] + rng.normal(size=300)
    ribbon = RibbonRegressor(store_loo=True).fit(X[:100], y[:100]).conformalize(X[100:200], y[100:200])
    for kind in ("conformal", "jackknife+"):
        display = CoverageDisplay.from_estimator(ribbon, X[200:], y[200:], confidence_levels=[0.5, 0.9], kind=kind)
        ends = ribbon.predict_interval(X[200:], [0.5, 0.9], kind=kind)
        inside = (ends[:, 0] <= y[200:, None]) & (y[200:, None] <= ends[:, 1])
        np.testing.assert_allclose(display.empirical, inside.mean(axis=0))
    assert len(CoverageDisplay.from_estimator(ribbon, X[200:], y[200:], kind="conformal").nominal) == 19


def test_style_of_figures_has_the_colours_of_displays():
    with plt.style.context("skribbon.plotting.style"):
        colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
        _, ax = plt.subplots()
        ax.plot([0, 1], label="line")
        assert not ax.legend().get_frame_on()
    assert [colour.removeprefix("#").upper() for colour in colours] == [colour.removeprefix("#") for colour in CYCLE]
    assert not (ax.spines["top"].get_visible() or ax.spines["right"].get_visible())
