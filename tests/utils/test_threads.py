"""Small work runs with one BLAS thread, and the process gets its threads back."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from skribbon import RibbonRegressor
from skribbon._utils import compat
from skribbon._utils.compat import SMALL_WORK, limit_blas

FOUND = [3, 2, 4, 1, None]


class Library:
    """Thread pool with threadpoolctl's interface; its next ``interrupted`` settings are interrupted."""

    def __init__(self, num_threads):
        self.num_threads, self.interrupted = num_threads, 0

    def set_num_threads(self, number):
        self.interrupted -= 1
        if self.interrupted == 0:
            raise KeyboardInterrupt
        self.num_threads = number


@pytest.fixture
def pools(monkeypatch):
    found = [Library(number) for number in FOUND]
    monkeypatch.setattr(compat, "_libraries", lambda: found)
    return found


def numbers(pools):
    return [library.num_threads for library in pools]


def test_small_work_uses_one_thread_and_large_work_keeps_all(pools):
    with limit_blas(1000, 10):
        assert numbers(pools) == [1, 1, 1, 1, None]
        with limit_blas():
            assert numbers(pools) == [1, 1, 1, 1, None]
        assert numbers(pools) == [1, 1, 1, 1, None]
    for n, p in ((SMALL_WORK, 2), (1, 1e4), (np.inf, np.inf)):
        with limit_blas(n, p):
            assert numbers(pools) == FOUND
    assert numbers(pools) == FOUND


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_threads_are_restored_after_an_error(pools, error):
    with pytest.raises(error), limit_blas():
        raise error
    assert numbers(pools) == FOUND


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("when", [1, 2])
def test_threads_are_restored_if_setting_the_limit_is_interrupted(pools, place, when):
    pools[place].interrupted = when
    with pytest.raises(KeyboardInterrupt), limit_blas():
        pass
    assert numbers(pools) == FOUND


def test_overlapping_limits_restore_all_threads(pools):
    inside, may_leave = threading.Event(), threading.Event()

    def hold():
        with limit_blas():
            inside.set()
            may_leave.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(5)
    with limit_blas():  # enters later and leaves later
        may_leave.set()
        thread.join()
    assert numbers(pools) == FOUND


def test_parallel_fits_agree_and_restore_threads(pools):
    X, y = load_diabetes(return_X_y=True)
    expected = RibbonRegressor(Ridge()).fit(X, y).predict_interval(X)
    with ThreadPoolExecutor(4) as pool:
        for interval in pool.map(lambda _: RibbonRegressor(Ridge()).fit(X, y).predict_interval(X), range(8)):
            np.testing.assert_array_equal(interval, expected)
    assert numbers(pools) == FOUND


def test_unknown_blas_is_ignored(monkeypatch):
    monkeypatch.setattr(compat, "_libraries", lambda: [])
    with limit_blas():
        assert np.ones(3) @ np.ones(3) == 3


def test_linear_base_models_are_fitted_with_one_thread(pools):
    class Seen(Ridge):
        __module__ = Ridge.__module__

        def fit(self, X, y, sample_weight=None):
            self.seen_ = numbers(pools)
            return super().fit(X, y, sample_weight)

    X, y = load_diabetes(return_X_y=True)
    assert RibbonRegressor(Seen()).fit(X, y).estimator_.seen_ == [1, 1, 1, 1, None]
    Seen.__module__ = "elsewhere"
    assert RibbonRegressor(Seen()).fit(X, y).estimator_.seen_ == FOUND
