"""The influence plot: its numbers, its artists, and what it refuses."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal

from skribbon import RibbonRegressor
from skribbon.inspection import influence_measures
from skribbon.plotting import InfluenceDisplay

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"], index=[f"row {i}" for i in range(80)])
Y = X["a"].to_numpy() + rng.normal(size=80)
Y[7] += 9
RIBBON = RibbonRegressor(noise="dof").fit(X, Y)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_influence_points_equal_table_and_largest_are_labelled():
    table = influence_measures(RIBBON, X, Y)
    display = InfluenceDisplay.from_estimator(RIBBON, X, Y, n_labels=3)
    largest = table.nlargest(3, "cooks_distance")
    assert [label.get_text() for label in display.labels_] == list(largest.index)
    assert display.labels_[0].get_text() == "row 7"
    others, named = display.points_
    assert_allclose(named.get_offsets(), largest[["leverage", "left_out_residual"]])
    assert len(others.get_offsets()) == 77
    area = np.append(others.get_sizes(), named.get_sizes())
    assert area.argmax() == 77
    order = np.append(table.drop(largest.index)["cooks_distance"], largest["cooks_distance"])
    assert_array_equal(np.argsort(area), np.argsort(order))
    assert display.ax_.get_xlabel() == "leverage"
    assert "80 rows" in display.ax_.get_title("left")


def test_influence_display_draws_all_influential_of_many_rows():
    display = InfluenceDisplay(np.linspace(0, 1, 9000), np.zeros(9000), np.arange(9000.0)).plot()
    assert len(display.shown) == 3000
    assert set(range(7500, 9000)) <= set(display.shown)
    assert "3,000 of 9,000 rows" in display.ax_.get_title("left")


def test_labels_of_neighbours_do_not_overlap():
    leverage, residual = np.append(np.linspace(0.30, 0.31, 6), [0.0, 1.0]), np.append(np.linspace(1, 1.02, 6), [-2, 2])
    names = [f"a long name {k}" for k in range(8)]
    display = InfluenceDisplay(leverage, residual, np.arange(8, 0, -1.0), labels=names, n_labels=6).plot()
    boxes = [label.get_window_extent() for label in display.labels_]
    assert not any(box.count_overlaps(boxes[:k]) for k, box in enumerate(boxes))


def test_groups_axes_and_keywords():
    groups = np.arange(80) // 8
    ribbon = RibbonRegressor(noise="dof").fit(X, Y, groups=groups)
    _, ax = plt.subplots()
    kw = {"point_kw": {"facecolor": "green"}, "label_kw": {"fontsize": 5}}
    display = InfluenceDisplay.from_estimator(ribbon, X, Y, groups=groups, n_labels=1, ax=ax, name="mine", **kw)
    assert display.ax_ is ax
    assert [label.get_text() for label in display.labels_] == ["0"]
    assert display.labels_[0].get_fontsize() == 5
    assert_allclose(display.points_[0].get_facecolor()[0, :3], to_rgb("green"))
    assert ax.get_title("left") == "mine\n10 groups, area is Cook's distance"
    nothing = InfluenceDisplay(np.zeros(3), np.zeros(3), np.zeros(3), n_labels=0).plot()
    assert nothing.labels_ == []


def test_influence_display_refuses_bad_input():
    with pytest.raises(ValueError, match="n_labels must be an integer >= 0"):
        InfluenceDisplay([0.1], [0.1], [0.1], n_labels=-1)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        InfluenceDisplay([0.1, 0.2], [0.1], [0.1])
    with pytest.raises(ValueError, match="must be those that the estimator was fitted on"):
        InfluenceDisplay.from_estimator(RIBBON, X, Y[::-1])
