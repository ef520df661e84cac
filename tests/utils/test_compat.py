"""Cached properties without a lock, and versions in pickles and reports."""

import copy
import pickle
import threading
import warnings

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_info

import skribbon
from skribbon import AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor, show_versions
from skribbon._utils.compat import cached_property
from skribbon.exceptions import VersionWarning

X, Y = load_diabetes(return_X_y=True)


def linear(w, X):
    return X @ w


FITTED = [
    RibbonRegressor(Ridge(), noise="dof").fit(X, Y),
    RibbonClassifier(LogisticRegression()).fit(X, Y > 140),
    RibbonCV(Ridge(), cv="loo").fit(X, Y),
    AutogradRegressor(linear, np.zeros(X.shape[1])).fit(X, Y),
]
every_estimator = pytest.mark.parametrize("estimator", FITTED, ids=lambda estimator: type(estimator).__name__)


class Slow:
    """Two instances with a property that both compute at the same time."""

    def __init__(self, others):
        self.others = others

    @cached_property
    def number(self):
        """Wait until another thread computes the property, too."""
        self.others.wait(5)
        return 3.0


def test_cached_property_holds_no_lock():
    """With functools.cached_property of Python 3.11, each instance waits for the other one."""
    together = threading.Barrier(2)
    instances = [Slow(together), Slow(together)]
    threads = [threading.Thread(target=getattr, args=(instance, "number")) for instance in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not together.broken
    assert [vars(instance)["number"] for instance in instances] == [3.0, 3.0]


@every_estimator
def test_pickle_of_another_version_warns(estimator, monkeypatch):
    stored = pickle.dumps(estimator)
    monkeypatch.setattr(skribbon, "__version__", "9.9")
    with pytest.warns(VersionWarning, match=r"stored by skribbon 0\.1\.0 and loaded by 9\.9") as caught:
        again = pickle.loads(stored)
    assert {warning.filename for warning in caught} == {__file__}
    np.testing.assert_array_equal(again.predict(X), estimator.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error", VersionWarning)
        pickle.loads(pickle.dumps(again))  # which is stored by the newer version


def test_pickle_without_a_version_warns():
    state = {name: value for name, value in FITTED[0].__getstate__().items() if name != "_skribbon_version"}
    with pytest.warns(VersionWarning, match="stored by skribbon an unknown version"):
        RibbonRegressor().__setstate__(state)


@every_estimator
def test_copies_of_the_same_version_do_not_warn(estimator, tmp_path):
    path = tmp_path / "estimator"
    with warnings.catch_warnings():
        warnings.simplefilter("error", VersionWarning)
        joblib.dump(estimator, path)
        copies = [joblib.load(path), copy.copy(estimator), copy.deepcopy(estimator)]
        clone(estimator).set_params(**estimator.get_params(deep=False))
    for same in copies:
        assert vars(same).keys() == vars(estimator).keys()
        np.testing.assert_array_equal(same.predict(X), estimator.predict(X))


def test_skops_file_of_another_version_warns(monkeypatch):
    stored = skops.io.dumps(FITTED[0])
    trusted = skops.io.get_untrusted_types(data=stored)
    skops.io.loads(stored, trusted=trusted)
    monkeypatch.setattr(skribbon, "__version__", "9.9")
    with pytest.warns(VersionWarning):
        again = skops.io.loads(stored, trusted=trusted)
    np.testing.assert_array_equal(again.predict_interval(X), FITTED[0].predict_interval(X))


def test_show_versions_names_packages_and_threads(capsys):
    show_versions()
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["skribbon"] == skribbon.__version__
    assert lines["numpy"] == np.__version__
    assert {
        "Python",
        "scipy",
        "scikit-learn",
        "autograd",
        "pandas",
        "matplotlib",
        "threadpoolctl",
        "dask",
    } <= lines.keys()
    assert {library["user_api"] for library in threadpool_info()} <= lines.keys()


def test_show_versions_names_missing_packages(capsys, monkeypatch):
    monkeypatch.setattr("skribbon._utils.compat.PACKAGES", ("not-a-package",))
    show_versions()
    assert "not-a-package: not installed" in capsys.readouterr().out
