"""Tuning on Dask tables, and predictions that stay on Dask."""

import warnings
from copy import copy
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from lazy_table import FEATURES
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._dask import Table, folds_of
from skribbon.exceptions import CalibrationWarning
from skribbon.inspection import (
    comparisons,
    influence,
    influence_measures,
    leave_out,
    partial_dependence,
    predictions,
    slopes,
    variance_contributions,
)

LOGISTIC = LogisticRegression(C=0.3, solver="newton-cholesky", tol=1e-12)
ALPHAS = [0.1, 1.0, 10.0]


def tuner(**options):
    return RibbonCV(RibbonRegressor(Ridge(), noise="dof"), alphas=ALPHAS, **options)


def assert_same_choice(ours, theirs):
    assert ours.alpha_ == theirs.alpha_
    for name, column in theirs.cv_results_.items():
        np.testing.assert_allclose(ours.cv_results_[name], column, rtol=1e-6, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(ours.estimator_.model_.theta, theirs.estimator_.model_.theta, rtol=1e-7)


@pytest.mark.parametrize("scoring", ["nll", "coverage", "crps"])
def test_folds_of_rows(scoring, frame, lazy):
    ours = tuner(cv=3, scoring=scoring).fit(lazy[FEATURES], lazy["y"])
    theirs = tuner(cv=KFold(3), scoring=scoring).fit(frame[FEATURES], frame["y"])
    assert_same_choice(ours, theirs)  # folds on Dask are by position


@pytest.mark.parametrize("temperature", ["auto", 1.0])
def test_folds_of_classes(temperature, frame, lazy):
    """Rows in memory have a Ribbon for each fold, as on Dask, if the folds are stored."""
    ribbon = RibbonClassifier(LOGISTIC, temperature=temperature)
    settings = {"cv": StratifiedKFold(3), "store_folds": True}
    ours, theirs = (
        RibbonCV(ribbon, alphas=ALPHAS, **own).fit(rows[FEATURES], rows["kind"], rows["weight"])
        for rows, own in ((lazy, {"cv": 3}), (frame, settings))
    )
    assert_same_choice(ours, theirs)
    assert ours.temperature_ == pytest.approx(theirs.temperature_, rel=1e-6)


def test_folds_of_groups(frame, lazy):
    ribbon = RibbonRegressor(Ridge(), noise="dof")
    ours = RibbonCV(ribbon, alphas=ALPHAS, cv=3).fit(lazy[FEATURES], lazy["y"], groups=lazy["group"])
    theirs = RibbonCV(ribbon, alphas=ALPHAS, cv=GroupKFold(3)).fit(frame[FEATURES], frame["y"], groups=frame["group"])
    assert ours.alpha_ == theirs.alpha_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=0.02)  # equal groups may go to another fold
    grouped = Table.of(lazy[FEATURES], lazy["y"], None, lazy["group"])
    held_out = [set(part.label) for _, part, *_ in folds_of(grouped, 3, False)]
    assert set.union(*held_out) == set(frame["group"])
    assert sum(map(len, held_out)) == frame["group"].nunique()


def test_folds_of_partitions(frame):
    lazy = dd.from_pandas(frame, npartitions=10, sort=False)
    ours = tuner(cv="partitions").fit(lazy[FEATURES], lazy["y"])
    theirs = tuner(cv=KFold(5)).fit(frame[FEATURES], frame["y"])
    assert_same_choice(ours, theirs)  # ten partitions of equal lengths are five of consecutive rows
    few = lazy.partitions[:3]
    with pytest.raises(ValueError, match="at least 5 partitions"):
        RibbonCV(cv="partitions").fit(few[FEATURES], few["y"])


def test_a_frozen_ribbon_is_tuned_on_all_rows(frame, lazy):
    fitted = RibbonRegressor(Ridge(), noise="dof").fit(frame[FEATURES][:500], frame["y"][:500])
    tuned = [RibbonCV(FrozenEstimator(fitted), alphas=ALPHAS).fit(rows[FEATURES], rows["y"]) for rows in (lazy, frame)]
    assert tuned[0].alpha_ == tuned[1].alpha_
    assert tuned[0].best_score_ == pytest.approx(tuned[1].best_score_, rel=1e-12)


@pytest.mark.parametrize("options", [{"cv": "loo"}, {"cv": GroupKFold(3)}, {"cv": 1}, {"store_folds": True}])
def test_other_folds_are_refused(options, lazy):
    with pytest.raises(ValueError, match=r"Dask|folds"):
        RibbonCV(Ridge(), **options).fit(lazy[FEATURES], lazy["y"])


# ---------------------------------------------------------------------- predictions
REGRESSION = {
    "predict": {},
    "predict_std": {"kind": "epistemic"},
    "predict_interval": {"confidence_level": [0.5, 0.9], "kind": "confidence"},
    "predict_quantiles": {"quantiles": [0.1, 0.5, 0.9]},
}
CLASSIFICATION = {
    "predict": {},
    "predict_proba": {},
    "predict_log_proba": {},
    "decision_function": {},
    "predict_proba_interval": {"confidence_level": 0.8},
    "predict_proba_samples": {"n_samples": 4, "random_state": 0},
    "predict_set": {"confidence_level": 0.8},
}


@pytest.fixture(scope="module")
def regressor(frame):
    return RibbonRegressor(PoissonRegressor(alpha=0.01)).fit(frame[FEATURES], frame["count"])


@pytest.fixture(scope="module")
def classifier(frame):
    fitted = RibbonClassifier(LOGISTIC).fit(frame[FEATURES][:1000], frame["kind"][:1000])
    return fitted.conformalize(frame[FEATURES][1000:], frame["kind"][1000:])


def collections(frame):
    values = frame[FEATURES].to_numpy()
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)[FEATURES]
    return {"frame": lazy, "array": da.from_array(values, chunks=(600, 2)), "unknown": lazy.to_dask_array()}


@pytest.mark.parametrize("container", ["frame", "array", "unknown"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_predictions_are_lazy_and_have_the_right_shape(container, kind, frame, request):
    fitted = request.getfixturevalue(kind)
    X = collections(frame)[container]
    for method, options in (REGRESSION if kind == "regressor" else CLASSIFICATION).items():
        waiting = getattr(fitted, method)(X, **options)
        assert isinstance(waiting, da.Array)
        expected = getattr(fitted, method)(frame[FEATURES], **options)
        found = waiting.compute()
        assert found.shape == expected.shape
        assert found.dtype == waiting.dtype == expected.dtype, method
        assert waiting.ndim == expected.ndim
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=method)
        else:
            np.testing.assert_array_equal(found, expected)
        if container == "array":
            assert waiting.shape == expected.shape


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_predict_frame_keeps_the_index(kind, frame, request):
    fitted = request.getfixturevalue(kind)
    named = frame[FEATURES].rename(index=lambda row: row + 7)
    lazy = dd.from_pandas(named, npartitions=3)
    waiting = fitted.predict_frame(lazy, confidence_level=0.8)
    assert waiting.divisions == lazy.divisions
    expected = fitted.predict_frame(named, confidence_level=0.8)
    pd.testing.assert_frame_equal(waiting.compute(), expected, check_dtype=False, rtol=1e-9)
    assert list(waiting.columns) == list(expected.columns)
    unordered = lazy.clear_divisions()  # as of a folder of files
    beside = unordered.assign(prediction=fitted.predict_frame(unordered)["prediction"])
    predictions = beside.compute()["prediction"]  # of blocks of other lengths: the last digit may differ
    pd.testing.assert_series_equal(predictions, expected["prediction"], check_dtype=False, rtol=1e-14)
    assert [kind.kind for kind in waiting.dtypes] == [kind.kind for kind in expected.dtypes]


def test_scores_of_rows(regressor, frame, lazy):
    for method in ("log_density", "predictive_cdf"):
        found = getattr(regressor, method)(lazy[FEATURES], lazy["count"]).compute()
        np.testing.assert_allclose(found, getattr(regressor, method)(frame[FEATURES], frame["count"]), rtol=1e-9)
    with pytest.raises(TypeError, match="one Dask frame"):
        regressor.log_density(lazy[FEATURES], frame["count"])


def test_predict_returns_std_but_no_covariance(regressor, frame, lazy):
    mean, std = regressor.predict(lazy[FEATURES], return_std=True)
    np.testing.assert_allclose(std.compute(), regressor.predict_std(frame[FEATURES]))
    np.testing.assert_allclose(mean.compute(), regressor.predict(frame[FEATURES]))
    with pytest.raises(ValueError, match="return_cov"):
        regressor.predict(lazy[FEATURES], return_cov=True)


def test_samples_share_functions_but_not_noise_between_partitions(frame):
    fitted = RibbonRegressor(Ridge(), noise=1.0).fit(frame[FEATURES], frame["y"])
    twice = pd.concat([frame[FEATURES][:300]] * 2)
    lazy = dd.from_pandas(twice.reset_index(drop=True), npartitions=2, sort=False)
    functions = fitted.predict_samples(lazy, 5, kind="confidence", random_state=0).compute()
    assert functions.shape == (5, 600)
    np.testing.assert_allclose(functions[:, :300], functions[:, 300:])
    noisy = fitted.predict_samples(lazy, 5, random_state=0).compute()
    off = noisy - functions
    assert abs(np.corrcoef(off[:, :300].ravel(), off[:, 300:].ravel())[0, 1]) < 0.1
    np.testing.assert_array_equal(noisy, fitted.predict_samples(lazy, 5, random_state=0).compute())


def test_empty_partitions_predict_nothing(regressor, lazy):
    some = lazy[lazy["a"] > 3.0]  # leaves hardly a row
    expected = some.compute()
    assert len(regressor.predict_interval(some[FEATURES]).compute()) == len(expected)
    assert len(regressor.predict_frame(some[FEATURES]).compute()) == len(expected)


def test_ribbon_cv_predicts_lazily(frame, lazy):
    tuned = RibbonCV(Ridge(), alphas=ALPHAS, cv=2).fit(frame[FEATURES], frame["y"])
    found = tuned.predict_interval(lazy[FEATURES])
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), tuned.predict_interval(frame[FEATURES]))


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_calibration_rows_may_be_on_dask(kind, frame, lazy, request):
    fitted, target = request.getfixturevalue(kind), "count" if kind == "regressor" else "kind"
    predict = "predict_interval" if kind == "regressor" else "predict_set"
    options = {"kind": "conformal"} if kind == "regressor" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # they are the rows of the fit
        ends = [
            getattr(copy(fitted).conformalize(rows[FEATURES], rows[target], groups=rows["word"]), predict)(
                frame[FEATURES], groups=frame["word"], **options
            )
            for rows in (lazy, frame)
        ]
    np.testing.assert_array_equal(*ends)
    waiting = getattr(copy(fitted).conformalize(lazy[FEATURES], lazy[target], groups=lazy["word"]), predict)(
        lazy[FEATURES], groups=lazy["word"], **options
    )
    np.testing.assert_allclose(waiting.compute(), ends[0])


def test_several_outputs(frame, lazy):
    fitted = RibbonRegressor(Ridge(), noise="dof").fit(frame[FEATURES], frame[["y", "positive"]])
    for method, options in {
        **REGRESSION,
        "predict_samples": {"n_samples": 3, "kind": "confidence", "random_state": 0},
    }.items():
        waiting = getattr(fitted, method)(lazy[FEATURES], **options)
        expected = getattr(fitted, method)(frame[FEATURES], **options)
        assert waiting.ndim == expected.ndim
        np.testing.assert_allclose(waiting.compute(), expected, rtol=1e-9)
    table = fitted.predict_frame(lazy[FEATURES])
    pd.testing.assert_frame_equal(table.compute(), fitted.predict_frame(frame[FEATURES]))
    with pytest.raises(ValueError, match="single column"):
        RibbonRegressor().fit(lazy[FEATURES], lazy[["y", "positive"]])


ROWS = np.random.default_rng(0).normal(size=(40, 2))
REFUSING = {
    "predictions": predictions,
    "slopes": partial(slopes, column=0),
    "comparisons": partial(comparisons, column=0),
    "partial_dependence": partial(partial_dependence, features=0),
    "influence": partial(influence, y_train=ROWS[:, 0], X=ROWS),
    "variance_contributions": partial(variance_contributions, y_train=ROWS[:, 0], X=ROWS),
    "leave_out": partial(leave_out, y_train=ROWS[:, 0], rows=[0], X=ROWS),
    "influence_measures": partial(influence_measures, y_train=ROWS[:, 0]),
}


@pytest.mark.parametrize("ask", REFUSING.values(), ids=REFUSING)
def test_inspection_refuses_dask_tables_in_one_sentence(ask):
    X = ROWS
    ribbon = RibbonRegressor(noise="dof").fit(X, X[:, 0])
    for lazy in (da.from_array(X, chunks=(20, 2)), dd.from_array(X, chunksize=20)):
        with pytest.raises(TypeError, match=r"X is a Dask .*, but this needs rows in memory"):
            ask(ribbon, lazy)
