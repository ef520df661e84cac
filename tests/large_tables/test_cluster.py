"""Fits on a cluster of two processes give the numbers of a fit in memory, also if a worker is lost."""

import os
import signal
import threading
import time

import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from lazy_table import FEATURES, table
from sklearn.linear_model import LogisticRegression, Ridge

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.baselines import BootstrapRegressor

LOGISTIC = LogisticRegression(solver="newton-cholesky", tol=1e-12)


def read(k):
    """A partition that takes its time."""
    time.sleep(0.05)
    return table(300, seed=k)


def failing(k):
    if k == 2:
        raise OSError("the disk is gone")
    return table(300, seed=k)


@pytest.fixture(scope="module")
def parts():
    return dd.from_map(read, range(6), meta=table(300, 0).iloc[:0])


@pytest.fixture(scope="module")
def together():
    return pd.concat([table(300, seed=k) for k in range(6)])


def assert_same(ours, theirs):
    np.testing.assert_allclose(ours.model_.theta, theirs.model_.theta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.ribbon_.covariance, theirs.ribbon_.covariance, rtol=1e-6, atol=1e-12)


def test_classes_weights_and_groups(client, parts, together):
    theirs = RibbonClassifier(LOGISTIC).fit(together[FEATURES], together["kind"], together["weight"], together["group"])
    with client.as_current():
        ours = RibbonClassifier(LOGISTIC).fit(parts[FEATURES], parts["kind"], parts["weight"], parts["group"])
        waiting = ours.predict_proba_interval(parts[FEATURES])
        assert_same(ours, theirs)
        np.testing.assert_allclose(waiting.compute(), theirs.predict_proba_interval(together[FEATURES]), atol=1e-7)


def test_sums_are_reproducible(client, parts):
    with client.as_current():
        fits = [RibbonRegressor(Ridge(), noise="dof").fit(parts[FEATURES], parts["y"]) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].covariance_, fits[1].covariance_)


def test_a_lost_worker_changes_nothing(client, parts, together):
    theirs = RibbonClassifier(LOGISTIC).fit(together[FEATURES], together["kind"])
    (victim, *_) = client.run(os.getpid).values()
    killer = threading.Timer(0.4, os.kill, (victim, signal.SIGKILL))
    with client.as_current():
        killer.start()
        ours = RibbonClassifier(LOGISTIC).fit(parts[FEATURES], parts["kind"])
        killer.join()
        client.wait_for_workers(2)
        assert victim not in client.run(os.getpid).values()
    assert_same(ours, theirs)


def test_a_partition_that_cannot_be_read_is_named(client):
    broken = dd.from_map(failing, range(4), meta=table(300, 0).iloc[:0])
    ribbon = RibbonRegressor(Ridge())
    for context in (client.as_current(), threading.Lock()):  # on the cluster, and in threads
        with context, pytest.raises(RuntimeError, match="Partition 2 could not be computed: the disk is gone"):
            ribbon.fit(broken[FEATURES], broken["y"])
    assert not hasattr(ribbon, "estimator_")


def test_refits_go_through_joblib(client, together):
    some = together[:200]
    tuned = RibbonCV(Ridge(), alphas=[0.1, 1.0, 10.0], cv=2, n_jobs=2)
    refitted = BootstrapRegressor(Ridge(), n_members=4, random_state=0, n_jobs=2)
    expected = [model.fit(some[FEATURES], some["y"]).predict_interval(some[FEATURES]) for model in (tuned, refitted)]
    with client.as_current(), joblib.parallel_config("dask"):
        found = [model.fit(some[FEATURES], some["y"]).predict_interval(some[FEATURES]) for model in (tuned, refitted)]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
