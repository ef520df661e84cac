"""Intervals of held-out rows, and warnings that are merged over folds."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_predict
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline

from skribbon import AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor, cross_val_interval
from skribbon.exceptions import NotStationaryWarning, RibbonWarning, UndeterminedDirectionWarning
from skribbon.metrics import interval_coverage_score

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
Y = X @ [2.0, -1.0, 0.5] + 1 + rng.normal(size=120)
GROUPS = np.repeat(np.arange(24), 5)
MIXED = rng.permutation(120)  # folds that are not in the order of the rows
CV = [(np.setdiff1d(MIXED, test), test) for test in np.split(MIXED, 4)]


class Lower(RibbonRegressor):
    def predict(self, X):
        return self.predict_interval(X)[:, 0]


def test_cross_val_interval_equals_cross_val_predict():
    expected = cross_val_predict(Lower(Ridge()), X, Y, cv=KFold(4))
    np.testing.assert_array_equal(cross_val_interval(RibbonRegressor(Ridge()), X, Y, cv=KFold(4))[:, 0], expected)


@pytest.mark.parametrize("level", [0.5, [0.5, 0.8]])
@pytest.mark.parametrize("kind", ["prediction", "confidence"])
def test_each_row_is_predicted_by_a_fit_without_it(level, kind):
    found = cross_val_interval(RibbonRegressor(Ridge()), X, Y, confidence_level=level, kind=kind, cv=CV)
    assert found.shape == (120, 2, *np.shape(level))
    for train, test in CV:
        fitted = RibbonRegressor(Ridge()).fit(X[train], Y[train])
        np.testing.assert_array_equal(found[test], fitted.predict_interval(X[test], level, kind=kind))


def test_pipelines_and_searches_receive_weights_and_groups():
    weight = rng.integers(1, 4, 120).astype(float)
    inner = RibbonRegressor(Ridge())
    plain = cross_val_interval(inner, X, Y, cv=CV, sample_weight=weight, groups=GROUPS)
    piped = make_pipeline("passthrough", make_pipeline("passthrough", inner))
    np.testing.assert_array_equal(
        cross_val_interval(piped, X, Y, cv=CV, sample_weight=weight, groups=GROUPS, n_jobs=2), plain
    )
    search = GridSearchCV(make_pipeline("passthrough", inner), {"ribbonregressor__alpha": [1.0]}, cv=2)
    np.testing.assert_array_equal(cross_val_interval(search, X, Y, cv=CV), cross_val_interval(inner, X, Y, cv=CV))
    assert np.abs(plain - cross_val_interval(inner, X, Y, cv=CV, sample_weight=weight)).max() > 1e-6  # groups matter


def test_several_outputs():
    both = pd.DataFrame({"up": Y, "down": X[:, 0] - Y})
    found = cross_val_interval(RibbonRegressor(Ridge()), X, both, cv=CV)
    train, test = CV[1]
    expected = RibbonRegressor(Ridge()).fit(X[train], both.iloc[train]).predict_interval(X[test])
    assert found.shape == (120, 2, 2)
    np.testing.assert_array_equal(found[test], expected)


@pytest.mark.filterwarnings("ignore")
def test_targets_of_networks_are_taken_by_position():
    ribbon, labels = RibbonRegressor(MLPRegressor(hidden_layer_sizes=(4,), max_iter=200, random_state=0)), MIXED + 7
    expected = cross_val_interval(ribbon, X, Y, cv=CV)
    for y in (list(Y), pd.Series(Y, index=labels), pd.DataFrame({"y": Y}, index=labels)):
        np.testing.assert_array_equal(cross_val_interval(ribbon, X, y, cv=CV), expected)
    both = np.column_stack([Y, -Y])
    frame = pd.DataFrame(both, columns=["up", "down"], index=labels)
    np.testing.assert_array_equal(*(cross_val_interval(ribbon, X, y, cv=CV) for y in (both, frame)))


def test_tables_on_dask_are_refused():
    dask = pytest.importorskip("dask.dataframe")
    table = dask.from_pandas(pd.DataFrame(X), npartitions=2)
    with pytest.raises(TypeError, match="needs rows in memory"):
        cross_val_interval(RibbonRegressor(), table, Y)


def test_integer_cv_keeps_groups_together():
    class Remembering(RibbonRegressor):
        def fit(self, X, y, sample_weight=None, groups=None):
            seen.append(set(groups))
            return super().fit(X, y, sample_weight, groups)

    seen = []
    cross_val_interval(Remembering(Ridge()), X, Y, groups=GROUPS[MIXED], cv=4)
    assert [len(labels) for labels in seen] == [18] * 4


def test_intervals_reach_nominal_coverage():
    Z = np.random.default_rng(1).normal(size=(2000, 3))
    y = Z[:, 0] + np.random.default_rng(2).normal(size=2000)
    assert abs(interval_coverage_score(y, cross_val_interval(RibbonRegressor(), Z, y)) - 0.9) < 0.02


@pytest.mark.parametrize(
    ("estimator", "options", "error", "words"),
    [
        (RibbonClassifier(LogisticRegression()), {}, TypeError, "method='predict_proba'"),
        (RibbonRegressor(), {"kind": "conformal"}, ValueError, r"use 'cv\+' of a RibbonCV"),
        (RibbonRegressor(), {"cv": ShuffleSplit(2)}, ValueError, "hold out each row exactly once"),
    ],
)
def test_bad_arguments_are_refused(estimator, options, error, words):
    with pytest.raises(error, match=words):
        cross_val_interval(estimator, X, Y, **options)


# ---------------------------------------------------------------------- warnings


def unfinished():
    return MLPRegressor(hidden_layer_sizes=(1,), solver="lbfgs", max_iter=3, random_state=0)


def told(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [(one.category, str(one.message), one.filename) for one in caught]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_identical_fold_warnings_are_shown_once(n_jobs):
    said = told(lambda: RibbonCV(unfinished(), alphas=[0.5, 1.0], cv=3, n_jobs=n_jobs).fit(X, Y))
    about = [(text, file) for category, text, file in said if category is NotStationaryWarning]
    assert len(about) == 1
    assert about[0][0].startswith("The training gradient is")  # also in the fit to all rows, so folds are not counted
    assert about[0][1] == __file__


def test_fold_warning_counts_affected_folds():
    cv = [(np.arange(60, 120), np.arange(60)), (np.arange(60), np.arange(60, 120))]
    Z = np.column_stack([X, np.arange(120) < 30])  # constant in the fit of the first fold, where it was seen to vary
    said = told(lambda: cross_val_interval(RibbonRegressor(), Z, Y, cv=cv))
    about = [text for category, text, _ in said if category is UndeterminedDirectionWarning]
    assert len(about) == 1
    assert about[0].startswith("In 1 of 2 folds: ")


def test_nested_searches_count_the_outer_folds_alone():
    Z = np.column_stack([X, np.arange(120) < 20])  # constant in the first outer fit and in an inner one of each other
    tuned = RibbonCV(RibbonRegressor(noise="dof"), alphas=[1.0], cv=KFold(4))
    said = told(lambda: cross_val_interval(tuned, Z, Y, cv=KFold(4)))
    about = [text for category, text, _ in said if category is UndeterminedDirectionWarning]
    assert len(about) == 1
    assert about[0].count("folds") == 1 and about[0].startswith("In 4 of 4 folds: ")


@pytest.mark.parametrize("base", [RibbonRegressor(), AutogradRegressor(lambda w, X: X @ w, init=np.zeros(3))])
def test_folds_leave_the_filters_of_the_process_alone(base, monkeypatch):
    entered, enter = [], warnings.catch_warnings.__enter__

    def note(self):
        entered.append(sys._getframe(1).f_globals["__name__"])
        return enter(self)

    monkeypatch.setattr(warnings.catch_warnings, "__enter__", note)
    RibbonCV(base, alphas=[1.0, 2.0], cv=2).fit(X, Y)
    assert not [name for name in entered if name.startswith("skribbon")]  # threads would leave filters changed


def test_warnings_as_errors_still_raise():
    tuned = RibbonCV(unfinished(), alphas=[0.5, 1.0], cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RibbonWarning)
        with pytest.raises(NotStationaryWarning):
            clone(tuned).fit(X, Y)
