"""Callbacks of scikit-learn 1.9: tasks of folds, refits and members, and what becomes of them after errors."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.baselines import (
    BayesianBootstrapRegressor,
    BootstrapClassifier,
    BootstrapRegressor,
    DeepEnsembleRegressor,
    LaplaceRegressor,
)
from skribbon.exceptions import RibbonWarning

needs_callbacks = pytest.mark.skipif(
    not hasattr(RibbonCV, "set_callbacks"), reason="scikit-learn has callbacks from version 1.9 on"
)
ROOT = Path(__file__).parents[2]
X, Y = load_diabetes(return_X_y=True)
X, Y = X[:150], Y[:150]
HIGH = Y > 140
FRAME = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
NETWORK = MLPRegressor(hidden_layer_sizes=(100,), solver="lbfgs", max_iter=30, random_state=0)


class Recorder:
    """Callback that records the path of task names at each call, and which tasks are open."""

    def __init__(self):
        self.calls, self.open, self.fitted = [], [], None

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        path = path_of(context)
        assert path[:-1] == (self.open[-1] if self.open else ())  # tasks are nested
        self.open.append(path)

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        assert self.open.pop() == path_of(context)
        self.calls.append(path_of(context))
        self.fitted = (fitted_estimator, X) if context.parent is None else None

    def counted(self, *names):
        """Number of ended tasks whose path ends with these names."""
        paths = [tuple(name for name, _ in call) for call in self.calls if isinstance(call, tuple)]
        return sum(path[-len(names) :] == names for path in paths)


class Propagated(Recorder):
    """Callback that search and pipeline pass on to the estimators inside."""

    max_propagation_depth = None


class Counter:
    """Callback that counts its fits, and those that were not torn down."""

    number = balance = 0

    def setup(self, estimator, context):
        self.number, self.balance = self.number + 1, self.balance + 1

    def teardown(self, estimator, context):
        self.balance -= 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass


def path_of(context):
    return (*(path_of(context.parent) if context.parent else ()), (context.task_name, context.task_id))


class Failing(Ridge):
    """Regression that cannot be fitted to some rows."""

    def fit(self, X, y, sample_weight=None):
        if X[0, 0] != self.random_state:
            raise FloatingPointError("this fold fails")
        return super().fit(X, y, sample_weight)


def assert_whole(recorder):
    """One setup, one whole fit, one teardown."""
    assert (recorder.calls[0], *recorder.calls[-2:]) == ("setup", (("fit", 0),), "teardown")
    assert recorder.calls.count("setup") == recorder.calls.count("teardown") == recorder.counted("fit") == 1
    assert not recorder.open


# ---------------------------------------------------------------------- folds, refits and members
TABLES = {
    "array": (X, Y),
    "frame": (FRAME, pd.Series(Y)),
    "polars": (pl.from_pandas(FRAME), pl.Series(Y)),
    "sparse": (sparse.csr_array(X), Y),
}


def on_dask():
    """FRAME and Y in three partitions."""
    frames = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
    return tuple(frames.from_pandas(table, npartitions=3) for table in (FRAME, pd.Series(Y, name="y")))


@needs_callbacks
@pytest.mark.parametrize("table", [*TABLES, "dask"])
def test_each_fold_is_a_task(table):
    recorder = Recorder()
    data = on_dask() if table == "dask" else TABLES[table]
    search = RibbonCV(Ridge(), cv=4).set_callbacks(recorder).fit(*data)
    assert_whole(recorder)
    assert recorder.counted("fit", "folds", "fold") == search.held_out_.n_fits == 4
    assert [call[-1] for call in recorder.calls[1:-3]] == [("fold", k) for k in range(4)]


@needs_callbacks
@pytest.mark.parametrize(
    ("estimator", "stage", "task"),
    [
        (RibbonRegressor(NETWORK), "refits", "refit"),
        (RibbonRegressor(Ridge(), held_out=4), "refits", "refit"),
        (RibbonClassifier(MLPClassifier((50,), max_iter=20, random_state=0)), "refits", "refit"),
        (RibbonCV(NETWORK), "folds", "fold"),
        (RibbonCV(RibbonClassifier()), "folds", "fold"),
        (RibbonCV(NETWORK, store_folds=True, cv=3), "folds", "fold"),
    ],
    ids=["network", "held_out", "classifier", "cv of a network", "cv of a classifier", "cv with stored folds"],
)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.filterwarnings("ignore")
def test_each_refit_is_a_task(estimator, stage, task, n_jobs):
    y = HIGH if "lassifier" in repr(estimator) else Y
    recorder, estimator = Recorder(), clone(estimator).set_params(n_jobs=n_jobs)
    fitted = estimator.set_callbacks(recorder).fit(X, y)
    assert_whole(recorder)
    assert recorder.counted("fit", stage, task) == fitted.held_out_.n_fits >= 3
    assert recorder.counted(stage) == 1


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("estimator", "number"),
    [
        (BootstrapRegressor(n_members=7, random_state=0), 7),
        (BootstrapClassifier(n_members=4, random_state=0), 4),
        (BayesianBootstrapRegressor(n_members=5, start="optimum", random_state=0), 5),
        (DeepEnsembleRegressor(NETWORK, n_members=3, random_state=0), 2),  # the first member is the one fit
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_each_member_is_a_task(estimator, number, n_jobs):
    recorder, y = Recorder(), HIGH if isinstance(estimator, BootstrapClassifier) else Y
    clone(estimator).set_params(n_jobs=n_jobs).set_callbacks(recorder).fit(X, y)
    assert_whole(recorder)
    assert recorder.counted("fit", "members", "member") == number


@needs_callbacks
@pytest.mark.parametrize(
    "estimator",
    [
        RibbonRegressor(),
        RibbonCV(cv="loo"),
        RibbonCV(FrozenEstimator(RibbonRegressor().fit(X[:50], Y[:50])), alphas=[1.0]),
        LaplaceRegressor(),
    ],
    ids=["linear", "loo", "frozen", "laplace"],
)
def test_fits_without_refits_are_one_task(estimator):
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(X, Y)
    assert_whole(recorder)
    assert len(recorder.calls) == 3


@needs_callbacks
def test_callbacks_change_no_number_and_see_the_fitted_estimator():
    recorder, plain = Recorder(), RibbonCV(Ridge(), cv=KFold(3)).fit(X, Y)
    search = RibbonCV(Ridge(), cv=KFold(3)).set_callbacks(recorder).fit(X, Y)
    fitted, rows = recorder.fitted
    assert rows is X
    for estimator in (search, fitted):
        np.testing.assert_array_equal(estimator.predict_interval(X), plain.predict_interval(X))
    assert vars(search).keys() == vars(plain).keys() | {"_skl_callbacks"}


@needs_callbacks
def test_warnings_point_at_the_call_of_fit():
    search = RibbonCV(Ridge(), alphas=[1.0, 2.0], cv=3).set_callbacks(Counter())
    with pytest.warns(RibbonWarning) as caught:
        search.fit(X, Y, sample_weight=np.full(len(Y), 0.5))
    assert {warning.filename for warning in caught} == {__file__}


# ---------------------------------------------------------------------- errors
@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_callbacks_are_torn_down_after_an_error_and_the_old_fit_stays(n_jobs):
    """Only the first fold holds out the first row, so only that one fails."""
    recorder, search = Recorder(), RibbonCV(Ridge(), cv=KFold(3), n_jobs=n_jobs).fit(X, Y)
    expected, state = search.predict(X), set(vars(search))
    search.set_params(estimator=Failing(random_state=None)).set_callbacks(recorder)
    with pytest.raises(FloatingPointError, match="this fold fails"):
        search.fit(X, Y)
    assert recorder.calls == ["setup", "teardown"]
    assert set(vars(search)) == state | {"_skl_callbacks"}
    np.testing.assert_array_equal(search.predict(X), expected)
    recorder = Recorder()
    search.set_params(estimator=Ridge()).set_callbacks(recorder).fit(X, Y)
    assert_whole(recorder)


@needs_callbacks
@pytest.mark.filterwarnings("ignore:.*cancelled")  # by joblib, of folds that are not needed
def test_an_error_in_a_callback_ends_the_fit():
    class Stopping(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise KeyboardInterrupt

    recorder, search = Stopping(), RibbonCV(Ridge(), n_jobs=2)
    with pytest.raises(KeyboardInterrupt):
        search.set_callbacks(recorder).fit(X, Y)
    assert recorder.calls == ["setup", "teardown"]
    assert not hasattr(search, "estimator_")


# ---------------------------------------------------------------------- scikit-learn's conventions
@needs_callbacks
def test_clones_share_callbacks_and_pickles_store_them():
    recorder, search = Recorder(), RibbonCV(Ridge(), cv=3)
    copy = clone(search.set_callbacks(recorder)).fit(X, Y)
    assert recorder.counted("fold") == 3
    loaded = pickle.loads(pickle.dumps(copy))
    np.testing.assert_array_equal(loaded.predict(X), copy.predict(X))
    loaded.set_callbacks().fit(X, Y)
    assert recorder.counted("fold") == 3


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_tasks_are_part_of_a_search_and_a_pipeline(n_jobs):
    """With workers, only the last fit of the search is in this process."""
    recorder, ribbon = Propagated(), RibbonRegressor(Ridge(), held_out=3)
    pipeline = make_pipeline(StandardScaler(), ribbon)
    search = GridSearchCV(pipeline, {"ribbonregressor__estimator__alpha": [0.1, 1.0]}, cv=2, n_jobs=n_jobs)
    search.set_callbacks(recorder).fit(X, Y)
    assert recorder.counted("refits", "refit") == 3 * (5 if n_jobs == 1 else 1)
    whole = [call for call in recorder.calls if isinstance(call, tuple) and call[-1][0] == "refit"][-1]
    assert whole[0] == ("fit", 0)
    assert len(whole) == 5  # search, its last fit, the step of the pipeline, refits, refit
    assert not hasattr(ribbon, "_skl_callbacks")


@needs_callbacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [RibbonRegressor(), RibbonClassifier(), RibbonCV(cv=3)], ids=repr)
def test_estimators_with_callbacks_pass_all_checks(estimator):
    recorder = Counter()
    check_estimator(estimator.set_callbacks(recorder), on_fail="raise")
    assert recorder.balance == 0
    assert recorder.number > 20


@needs_callbacks
def test_progress_bar_shows_the_folds(capsys):
    pytest.importorskip("rich", reason="scikit-learn's ProgressBar needs rich")
    from sklearn.callback import ProgressBar

    RibbonCV(LinearRegression(), cv=3).set_callbacks(ProgressBar()).fit(X, Y)
    shown = capsys.readouterr().out
    assert "RibbonCV - folds" in shown
    assert "100%" in shown


def test_fits_without_callbacks_in_scikit_learn():
    """The import of skribbon finds no sklearn.callback, as with scikit-learn 1.7 and 1.8."""
    program = """
import sys
import sklearn.linear_model, sklearn.model_selection, sklearn.pipeline, sklearn.neural_network
known = sys.modules.pop("sklearn.callback", None)
sys.modules["sklearn.callback"] = None
import skribbon, skribbon.baselines
if known is not None:
    sys.modules["sklearn.callback"] = known
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
X, y = load_diabetes(return_X_y=True)
search = skribbon.RibbonCV(Ridge(), cv=3).fit(X, y)
ribbon = skribbon.RibbonRegressor(Ridge(), held_out=3).fit(X, y)
bootstrap = skribbon.baselines.BootstrapRegressor(n_members=3, random_state=0).fit(X, y)
assert not any(hasattr(fitted, "set_callbacks") for fitted in (search, ribbon, bootstrap))
print(search.held_out_.n_fits, ribbon.held_out_.n_fits, len(bootstrap.members_))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["3", "3", "3"], done.stderr


@needs_callbacks
def test_logistic_regression_with_callbacks_of_its_own_is_fitted():
    """A base model's own callbacks follow its fits, which are not tasks of the Ribbon."""
    recorder = Recorder()
    RibbonClassifier(LogisticRegression().set_callbacks(recorder)).fit(X, HIGH)
    assert recorder.calls[0] == "setup"
    assert recorder.calls[-1] == "teardown"
