"""Blocks of rows on several threads, and BLAS with one."""

import pickle
import threading
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon._core import rows as _rows
from skribbon._core.freedom import FreedomLater
from skribbon._estimators import base as _estimator
from skribbon._utils import threads as _threads
from skribbon._utils.threads import in_order, one_thread, small_products
from skribbon.models import AutogradRegressor


class Library:
    """A pool of threads as threadpoolctl sees it."""

    def __init__(self, num_threads, user_api="blas"):
        self.num_threads, self.user_api = num_threads, user_api

    def set_num_threads(self, number):
        self.num_threads = number


@pytest.fixture
def pools(monkeypatch):
    found = [Library(3), Library(2), Library(4, "openmp"), Library(1)]
    monkeypatch.setattr(_threads, "_libraries", lambda: found)
    return found


def numbers(pools):
    return [library.num_threads for library in pools]


def test_results_come_in_the_order_of_the_items_whoever_is_first(pools):
    names = set()

    def slowly(item):
        names.add(threading.current_thread().name)
        time.sleep(0.002 * (7 - item))
        return item**2

    assert list(in_order(slowly, range(7))) == [item**2 for item in range(7)]
    assert 2 <= len(names) <= 3
    assert threading.current_thread().name not in names


def test_threads_have_a_blas_of_one_thread_and_give_it_back(pools):
    assert list(in_order(lambda _: numbers(pools), range(4))) == [[1, 1, 1, 1]] * 4
    assert numbers(pools) == [3, 2, 4, 1]


def test_an_error_comes_out_and_threads_are_given_back(pools):
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda item: 1 // item, [1, 0, 1, 1]))
    assert numbers(pools) == [3, 2, 4, 1]
    abandoned = in_order(lambda item: item, range(9))
    assert next(abandoned) == 0
    abandoned.close()
    assert numbers(pools) == [3, 2, 4, 1]


def test_no_more_blocks_are_looked_at_than_there_is_room_for(pools):
    here, most = [], []

    def count(_):
        here.append(1)
        most.append(len(here))
        time.sleep(0.003)
        here.pop()

    list(in_order(count, range(8), most=2))
    assert max(most) == 2
    name = threading.current_thread().name
    assert set(in_order(lambda _: threading.current_thread().name, range(8), most=1)) == {name}
    assert set(in_order(lambda _: threading.current_thread().name, [0])) == {name}


def test_other_threads_keep_their_work(pools):
    found = []

    def work():
        found.extend(in_order(lambda _: threading.current_thread().name, range(4)))

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    assert found == ["worker"] * 4


def test_warnings_of_numpy_are_silent_where_they_were(pools):
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        list(in_order(lambda item: np.ones(2) / item, [1.0, 0.0]))
    with np.errstate(all="ignore"):
        assert np.isinf(list(in_order(lambda item: np.ones(2) / item, [1.0, 0.0]))[1]).all()


def test_who_holds_the_threads_shares_out_blocks_among_as_many(pools):
    with small_products(10):
        assert numbers(pools) == [1, 1, 1, 1]
        names = set(in_order(lambda _: time.sleep(0.002) or threading.current_thread().name, range(6)))
        assert 2 <= len(names) <= 3
        assert numbers(pools) == [1, 1, 1, 1]
    with small_products(_threads.SMALL + 1):
        assert numbers(pools) == [3, 2, 4, 1]
    assert numbers(pools) == [3, 2, 4, 1]


def test_threads_that_were_given_back_are_no_longer_held(pools):
    with one_thread():
        pass
    for library in pools:
        library.num_threads = 1  # as a user may set them
    names = set(in_order(lambda _: time.sleep(0.002) or threading.current_thread().name, range(6)))
    assert names == {threading.current_thread().name}


def test_threads_that_overlap_leave_the_pools_as_they_were(pools):
    inside, may_leave = threading.Event(), threading.Event()

    def hold():
        with one_thread():
            inside.set()
            may_leave.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(5)
    with one_thread():  # comes later and leaves later
        may_leave.set()
        thread.join()
    assert numbers(pools) == [3, 2, 4, 1]


def test_sums_of_blocks_on_threads_are_those_of_one_thread(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    mlp = MLPRegressor(
        hidden_layer_sizes=(6,), activation="tanh", solver="lbfgs", alpha=1.0, max_iter=3000, random_state=0
    )
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 2**14)
    serial = RibbonRegressor(mlp).fit(X, y)
    names = []
    block = _rows.Rows._block

    def seen(*args):
        names.append(threading.current_thread().name)
        return block(*args)

    monkeypatch.setattr(_threads, "_libraries", lambda: [Library(3)])
    monkeypatch.setattr(_rows.Rows, "_block", seen)
    threaded = RibbonRegressor(mlp).fit(X, y)
    assert len(set(names)) > 1
    np.testing.assert_array_equal(threaded.predict_interval(X), serial.predict_interval(X))
    np.testing.assert_array_equal(
        threaded.predict_interval(X, kind="confidence"), serial.predict_interval(X, kind="confidence")
    )


def test_sums_of_many_parameters_are_made_one_after_another():
    assert _rows.blocks_at_once(10) > 100
    assert _rows.blocks_at_once(641) > 8
    assert 1 <= _rows.blocks_at_once(2561) < 4
    assert _rows.blocks_at_once(10_000) == 0  # one block, with all of BLAS
    assert _rows.blocks_at_once(100_000) > 1  # no squares are formed


def test_functions_of_the_user_stay_in_one_thread(monkeypatch):
    names = set()

    def line(params, X):
        names.add(threading.current_thread().name)
        return X @ params[0] + params[1]

    X, y = load_diabetes(return_X_y=True)
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 2**14)
    monkeypatch.setattr(_threads, "_libraries", lambda: [Library(3)])
    ribbon = RibbonRegressor(AutogradRegressor(line, init=[np.zeros(10), 0.0])).fit(X, y)
    ribbon.predict_interval(X)
    ribbon.predict_interval(X, kind="confidence")
    assert names == {threading.current_thread().name}


def test_degrees_of_freedom_of_a_network_that_nobody_asked_for_are_not_made():
    X, y = load_diabetes(return_X_y=True)
    mlp = MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", alpha=1.0, max_iter=3000, random_state=0)
    ribbon = RibbonRegressor(mlp, noise="dof", law="normal").fit(X, y)
    freedom = ribbon.ribbon_.freedom
    assert isinstance(freedom, FreedomLater)
    before = pickle.dumps(ribbon)
    ribbon.predict_interval(X)
    assert "_made" not in vars(freedom)
    interval = ribbon.predict_interval(X[:5], kind="confidence")
    assert "_made" in vars(freedom)
    assert len(pickle.dumps(ribbon)) == len(before)
    np.testing.assert_array_equal(pickle.loads(before).predict_interval(X[:5], kind="confidence"), interval)


def test_small_linear_models_are_fitted_with_one_thread(pools, monkeypatch):
    seen = []

    class Seen(Ridge):
        __module__ = Ridge.__module__

        def fit(self, X, y, sample_weight=None):
            seen.append(numbers(pools))
            return super().fit(X, y, sample_weight)

    X, y = load_diabetes(return_X_y=True)
    monkeypatch.setattr(_estimator, "SMALL_TABLE", X.size)
    RibbonRegressor(Seen()).fit(X, y)
    RibbonRegressor(Seen()).fit(np.c_[X, X], y)
    Seen.__module__ = "elsewhere"
    RibbonRegressor(Seen()).fit(X, y)
    assert seen == [[1, 1, 1, 1], [3, 2, 4, 1], [3, 2, 4, 1]]
    assert numbers(pools) == [3, 2, 4, 1]


def test_a_blas_that_nobody_knows_has_one_thread(monkeypatch):
    monkeypatch.setattr(_threads, "_libraries", lambda: [])
    name = threading.current_thread().name
    with one_thread():
        assert set(in_order(lambda _: threading.current_thread().name, range(6))) == {name}


KINDS = {
    "sparse": (RibbonRegressor(Ridge()), {}),
    "weights": (RibbonRegressor(Ridge()), {"sample_weight": np.arange(442) % 3 + 0.5}),
    "groups": (RibbonRegressor(Ridge()), {"groups": np.arange(442)[::-1] % 60}),
    "draws": (RibbonRegressor(Ridge(), predictive="pushforward", n_draws=20, random_state=0), {}),
    "newton": (RibbonRegressor(Ridge(), predictive="newton", n_draws=5, random_state=0), {}),
    "pipeline": (RibbonRegressor(make_pipeline(StandardScaler(), PoissonRegressor(alpha=0.1))), {}),
    "classes": (RibbonClassifier(LogisticRegression(max_iter=1000)), {}),
    "outputs": (RibbonRegressor(LinearRegression(), noise="dof"), {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")  # of few groups, and of other families
def test_rows_of_every_kind_are_shared_out(kind, monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    X, (ribbon, options) = sparse.csr_matrix(X) if kind == "sparse" else X, KINDS[kind]
    y = {"classes": np.digitize(y, [90, 140, 210]), "outputs": np.c_[y, y[::-1]]}.get(kind, y)
    predict = "predict_proba" if kind == "classes" else "predict_interval"
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 2**13)
    serial = getattr(clone(ribbon).fit(X, y, **options), predict)(X)
    names, block = set(), _rows.Rows._block

    def seen(*args):
        names.add(threading.current_thread().name)
        return block(*args)

    monkeypatch.setattr(_threads, "_libraries", lambda: [Library(3)])
    monkeypatch.setattr(_rows.Rows, "_block", seen)
    threaded = getattr(clone(ribbon).fit(X, y, **options), predict)(X)
    assert len(names) > 1
    np.testing.assert_array_equal(threaded, serial)
