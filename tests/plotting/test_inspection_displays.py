"""The display of partial dependence: the numbers it holds, the artists it draws, what it refuses."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import oracles
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.inspection import partial_dependence
from skribbon.plotting import (
    CoefficientDisplay,
    IntervalDisplay,
    PartialDependenceDisplay,
    ProbabilityIntervalDisplay,
    UncertaintyDecompositionDisplay,
)

X = oracles.X


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def drawn(name="pipeline", features="age", data=X, grid_resolution=4, **kwargs):
    ribbon = oracles.case(name).ribbon
    return PartialDependenceDisplay.from_estimator(ribbon, data, features, grid_resolution=grid_resolution, **kwargs)


def test_partial_dependence_curve_and_band_equal_table():
    display = drawn(grid_resolution=12, confidence_level=0.8)
    table = partial_dependence(oracles.case("pipeline").ribbon, X, "age", grid_resolution=12, confidence_level=0.8)
    pd.testing.assert_frame_equal(display.table, table)
    np.testing.assert_allclose(display.lines_["age"].get_xydata(), table[["value", "estimate"]])
    vertices = display.bands_["age"].get_paths()[0].vertices
    np.testing.assert_allclose(
        [vertices[:, 1].min(), vertices[:, 1].max()], [table["conf_low"].min(), table["conf_high"].max()]
    )
    assert display.ax_.get_xlabel() == "age"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["80% confidence", "mean prediction"]
    strokes = next(line for line in display.ax_.lines if line.get_marker() == "|")
    np.testing.assert_allclose(strokes.get_xdata(), np.quantile(X["age"], np.arange(1, 10) / 10))


def test_categories_are_points_with_bars():
    display = drawn(features=["smoker", "urban"])
    table = display.table[display.table["term"] == "smoker"]
    np.testing.assert_allclose(display.lines_["smoker"].get_ydata(), table["estimate"])
    ends = [segment[:, 1] for segment in display.bands_["smoker"].get_segments()]
    np.testing.assert_allclose(ends, table[["conf_low", "conf_high"]])
    ticks = [tick.get_text() for tick in display.axes_[0].get_xticklabels()]
    assert ticks == ["no", "sometimes", "yes"]
    assert display.axes_[0].get_ylim() != display.axes_[1].get_ylim()  # small effects can be seen next to large ones
    numbers = drawn("ridge", [0, 2], oracles.NUMBERS)  # the last has two values
    assert [tick.get_text() for tick in numbers.axes_[1].get_xticklabels()] == ["0", "1"]


def test_one_class_is_drawn():
    display = drawn("logistic", "income", pos_label="ill")
    assert set(display.table["class"]) == {"ill"}
    assert display.ax_.get_ylabel() == "mean P(ill)"
    assert drawn("logistic", "income").ax_.get_ylabel() == "mean P(well)"
    with pytest.raises(ValueError, match="pos_label must name the class"):
        drawn("multinomial", 0, oracles.NUMBERS)


def test_partial_dependence_axes_given_or_created():
    figure, axes = plt.subplots(1, 2)
    display = drawn(features=["age", "smoker"], ax=axes)
    assert list(display.axes_) == list(axes)
    assert display.figure_ is figure
    figure.canvas.draw()
    assert display.plot(axes[::-1]).ax_ is axes[1]
    assert len(drawn(features=["age", "income", "smoker", "urban"]).figure_.axes) == 4
    with pytest.raises(ValueError, match="ax must hold 2 axes, one for each feature, got 1"):
        drawn(features=["age", "smoker"], ax=axes[0])


def test_keywords_reach_the_artists():
    display = drawn(line_kw={"lw": 5}, band_kw={"alpha": 0.3})
    assert display.lines_["age"].get_linewidth() == 5
    assert display.bands_["age"].get_alpha() == 0.3
    display = drawn(features="smoker", point_kw={"marker": "s"}, bar_kw={"linewidth": 7})
    assert display.lines_["smoker"].get_marker() == "s"
    assert display.bands_["smoker"].get_linewidth() == 7


@pytest.mark.parametrize("features", [["age"], ["age", "smoker"]])
def test_partial_dependence_legend_hides_no_data(features):
    display = drawn(features=features)
    display.figure_.canvas.draw()
    legend = display.ax_.get_legend().get_window_extent()
    line = display.lines_["age"]
    band = display.bands_["age"]
    vertices = [line.get_transform().transform(line.get_xydata())]
    vertices += [band.get_transform().transform(path.vertices) for path in band.get_paths()]
    assert not legend.count_contains(np.concatenate(vertices))


def test_lines_are_lighter_on_black():
    with plt.style.context("dark_background"):
        display = drawn()
    assert sum(to_rgb(display.lines_["age"].get_color())) > sum(to_rgb(drawn().lines_["age"].get_color()))


def test_dollar_signs_in_names_are_written_as_they_are():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["cost {$} net {$}", "b"])
    X["$kind$"] = np.array(["{$a$}", "_$b$"])[rng.integers(0, 2, 60)]
    y, labels = X["b"] + rng.normal(size=60), np.where(rng.normal(size=60) > 0, "{$}$", "no")
    ribbon = RibbonRegressor(noise="dof").fit(X.iloc[:, :2], y)
    coded = make_pipeline(make_column_transformer((OneHotEncoder(), ["$kind$"]), remainder="passthrough"), Ridge())
    displays = [
        CoefficientDisplay.from_estimator(ribbon),
        PartialDependenceDisplay.from_estimator(RibbonRegressor(coded, noise="dof").fit(X, y), X, list(X)),
        IntervalDisplay.from_estimator(RibbonRegressor(noise="dof").fit(X.iloc[:, :1], y), X.iloc[:, :1], y),
        UncertaintyDecompositionDisplay.from_estimator(ribbon, X.iloc[:, :2], feature="cost {$} net {$}"),
        ProbabilityIntervalDisplay.from_estimator(RibbonClassifier().fit(X.iloc[:, :2], labels), X.iloc[:, :2], labels),
    ]
    for display in displays:
        display.figure_.canvas.draw()  # raises if a name is read as a formula
