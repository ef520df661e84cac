"""Metrics of what intervals and sets promise."""

import numpy as np
import pytest

from skribbon.metrics import (
    coverage_band,
    coverage_by_group,
    coverage_by_width,
    interval_coverage_score,
    mean_set_size,
    set_coverage_score,
)

rng = np.random.default_rng(0)
Y, WEIGHT = rng.normal(size=60), rng.exponential(size=60)
WIDTH = rng.permutation(np.arange(1.0, 61.0)) / 30
INTERVAL = np.column_stack([-WIDTH, WIDTH])


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_coverage_by_group_equals_coverage_of_each_group(weight):
    groups = np.array(["b", "a", "c"])[rng.integers(3, size=60)]
    labels, coverage, total = coverage_by_group(Y, INTERVAL, groups, sample_weight=weight)
    assert labels.tolist() == ["a", "b", "c"]
    for label, share, mass in zip(labels, coverage, total, strict=True):
        own = groups == label
        part = None if weight is None else weight[own]
        assert share == pytest.approx(interval_coverage_score(Y[own], INTERVAL[own], sample_weight=part))
        assert mass == pytest.approx(own.sum() if weight is None else part.sum())


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_coverage_by_width_bins_equally_many_rows(weight):
    width, coverage, total = coverage_by_width(Y, INTERVAL, n_bins=4, sample_weight=weight)
    for k, own in enumerate(np.split(np.argsort(WIDTH), 4)):
        part = np.ones(15) if weight is None else weight[own]
        assert width[k] == pytest.approx(np.average(2 * WIDTH[own], weights=part))
        assert coverage[k] == pytest.approx(interval_coverage_score(Y[own], INTERVAL[own], sample_weight=part))
        assert total[k] == pytest.approx(part.sum())


def test_coverage_by_width_with_equal_or_infinite_widths():
    width, coverage, total = coverage_by_width(Y, np.tile([-1.0, 1.0], (60, 1)))
    assert (width, total) == (2, 60)
    assert coverage == np.mean(np.abs(Y) <= 1)
    interval = np.tile([-1.0, 1.0], (60, 1))
    interval[:30] = [-np.inf, np.inf]
    width, coverage, total = coverage_by_width(Y, interval, n_bins=2)
    np.testing.assert_array_equal(width, [2, np.inf])
    np.testing.assert_array_equal(total, [30, 30])
    assert coverage[1] == 1


def test_set_coverage_and_size():
    y, sets = np.array(["a", "c", "b"]), np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)
    assert set_coverage_score(y, sets) == pytest.approx(2 / 3)
    assert set_coverage_score(y, sets, sample_weight=[1, 0, 1]) == 1
    assert set_coverage_score(y, sets[:, ::-1], labels=["c", "b", "a"]) == pytest.approx(2 / 3)
    assert mean_set_size(y, sets) == 2
    with pytest.raises(ValueError, match="True and False"):
        set_coverage_score(y, sets.astype(float))
    with pytest.raises(ValueError, match="3 columns for 2 labels"):
        set_coverage_score(y, sets, labels=["a", "b"])
    with pytest.raises(ValueError, match="not among the labels"):
        set_coverage_score(y, sets, labels=["a", "b", "d"])


@pytest.mark.parametrize("m", [None, 19, 200])
def test_coverage_band_contains_sampling_variability(m):
    draws, rng = [], np.random.default_rng(0)
    for _ in range(4000):
        reach = 0.8 if m is None else np.sort(rng.uniform(size=m))[int(np.ceil((m + 1) * 0.8)) - 1]
        draws.append(np.mean(rng.uniform(size=100) <= reach))
    lower, upper = coverage_band(100, 0.8, n_calibration=m)
    draws = np.array(draws)
    assert np.mean(draws < lower) <= 0.025 + 0.008
    assert np.mean(draws > upper) <= 0.025 + 0.008
    assert np.mean((lower < draws) & (draws < upper)) <= 0.95 + 0.012  # no wider than it must be


def test_coverage_band_of_infinite_intervals():
    assert coverage_band(100, 0.95, n_calibration=18) == (1.0, 1.0)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        coverage_band(100, 95)
