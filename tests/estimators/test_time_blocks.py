"""Blocks of consecutive times as groups of rows."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from skribbon import RibbonRegressor, time_blocks

DAYS = pd.date_range("2026-01-10", periods=100, freq="D")
SHUFFLE = np.random.default_rng(0).permutation(100)


def test_rows_in_order():
    np.testing.assert_array_equal(time_blocks(9, length=4), [0] * 4 + [1] * 5)  # a short rest is no block
    np.testing.assert_array_equal(time_blocks(10, length=4), [0] * 4 + [1] * 4 + [2] * 2)
    np.testing.assert_array_equal(time_blocks(3, length=10), [0] * 3)
    assert len(np.unique(time_blocks(1000))) == 50  # 2 n^(1/3) rows each
    assert len(np.unique(time_blocks(1))) == 1


def test_times_in_any_order():
    expected = time_blocks(100, length=8)
    ours = time_blocks(DAYS[SHUFFLE], length=8)
    np.testing.assert_array_equal(pd.factorize(ours[np.argsort(SHUFFLE)])[0], expected)
    np.testing.assert_array_equal(time_blocks([5.0, 1.0, 1.0, 2.0], length=1), [0, 1, 1, 2])  # one time is not cut


def test_blocks_by_duration():
    weeks, months = time_blocks(DAYS, length="7D"), time_blocks(DAYS, length="MS")
    np.testing.assert_array_equal(weeks, np.arange(100) // 7)
    np.testing.assert_array_equal(months, pd.factorize(DAYS.strftime("%Y-%m"))[0])
    np.testing.assert_array_equal(time_blocks(DAYS.tz_localize("UTC"), length="7D"), weeks)


@pytest.mark.parametrize(("offset", "name"), [("MS", "%Y-%m"), ("W", "%G-%V"), ("YS", "%Y")])
def test_blocks_of_the_calendar_in_any_order(offset, name):
    """Blocks of shuffled, repeated and stacked dates against their names; ISO weeks end on Sunday, as "W" does."""
    hours = pd.date_range("2025-11-20 06:00", periods=200, freq="13h")
    times = hours[np.random.default_rng(1).integers(200, size=300)]  # with duplicates
    np.testing.assert_array_equal(time_blocks(times, length=offset), pd.factorize(times.strftime(name))[0])
    ordered = np.argsort(times, kind="stable")
    np.testing.assert_array_equal(
        pd.factorize(time_blocks(times, length=offset)[ordered])[0], time_blocks(times[ordered], length=offset)
    )
    station = np.repeat(["north", "south", "west"], 200)
    stacked = np.concatenate([hours, hours[::-1], hours])
    expected = pd.factorize(station + pd.DatetimeIndex(stacked).strftime(name).to_numpy(dtype=object))[0]
    np.testing.assert_array_equal(time_blocks(stacked, length=offset, by=station), expected)


def test_several_series_get_separate_blocks():
    times, station = np.tile(np.arange(6), 2), np.repeat(["north", "south"], 6)
    np.testing.assert_array_equal(time_blocks(times, length=3, by=station), np.repeat([0, 1, 2, 3], 3))
    np.testing.assert_array_equal(
        time_blocks(np.tile(DAYS[:6], 2), length="3D", by=station), np.repeat([0, 1, 2, 3], 3)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DAYS, "fortnight"), "length must be a number of rows or a pandas offset"),
        (([1, 2], "7D"), "contains no dates"),
        (([1.0, np.nan], 1), "times_or_n is missing for 1 rows"),
        ((0,), "times_or_n must be an integer >= 1"),
        ((5, 0), "length must be an integer >= 1"),
        ((2, 1, ["a", None]), "by is missing for 1 rows"),
        ((3, 1, ["a", "b"]), "inconsistent numbers of samples"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        time_blocks(*arguments)


def test_standard_errors_are_close_to_kernel_estimates():
    """The mean of an autoregressive series is less certain than independent rows suggest."""
    rng = np.random.default_rng(0)
    n, e = 20_000, rng.normal(size=20_000)
    noise = np.empty(n)
    noise[0] = e[0]
    for t in range(1, n):
        noise[t] = 0.7 * noise[t - 1] + e[t]
    x = np.sin(np.arange(n) / 500)[:, None]
    ribbon = RibbonRegressor().fit(x, noise, groups=time_blocks(n))
    kernel = sm.OLS(noise, np.column_stack([x, np.ones(n)])).fit(cov_type="HAC", cov_kwds={"maxlags": 54})
    ours, plain = (np.sqrt(np.diag(one.covariance_)) for one in (ribbon, RibbonRegressor().fit(x, noise)))
    np.testing.assert_allclose(ours, kernel.bse, rtol=0.15)
    assert (ours > 2 * plain).all()
