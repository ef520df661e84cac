"""Fits to Dask tables are the fits to the same rows in memory."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from lazy_table import FEATURES, table
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)

from skribbon import AutogradRegressor, RibbonClassifier, RibbonRegressor
from skribbon._core.rows import some_of
from skribbon.exceptions import WeightWarning
from skribbon.inspection import check
from skribbon.models import WithOffset, polish

EXACT = {"solver": "newton-cholesky", "tol": 1e-12}
LOGISTIC = LogisticRegression(C=0.3, **EXACT)
CASES = {
    "ols": (LinearRegression(), "y"),
    "ridge": (Ridge(5.0), "y"),
    "no intercept": (Ridge(5.0, fit_intercept=False), "y"),
    "ridge by leave-one-out": (RidgeCV(np.logspace(-2, 4, 9)), "y"),
    "poisson": (PoissonRegressor(alpha=0.01, **EXACT), "count"),
    "gamma": (GammaRegressor(alpha=0.1, **EXACT), "positive"),
    "tweedie": (TweedieRegressor(power=1.5, alpha=0.1, **EXACT), "count"),
    "logistic": (LOGISTIC, "label"),
    "offset of counts": (WithOffset(PoissonRegressor(alpha=0.01, **EXACT), offset="c"), "count"),
    "offset after transformers": (make_pipeline(StandardScaler(), WithOffset(LOGISTIC, offset=0)), "label"),
    "balanced": (LogisticRegression(class_weight="balanced", **EXACT), "label"),
    "multinomial": (LOGISTIC, "kind"),
    "pipeline": (make_pipeline(StandardScaler(), Ridge(5.0)), "y"),
    "square terms": (make_pipeline(StandardScaler(), PolynomialFeatures(2), LOGISTIC), "label"),
    "target": (TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1), "positive"),
    "scaled target": (TransformedTargetRegressor(Ridge(), transformer=StandardScaler()), "positive"),
}


def ribbon_of(base, target, **options):
    kind = RibbonClassifier if target in ("label", "kind") else RibbonRegressor
    if kind is RibbonRegressor:
        options.setdefault("noise", "dof")
    return kind(base, **options)


def assert_same(ours, theirs, X, rtol=1e-7):
    scale = np.abs(theirs.covariance_).max()
    np.testing.assert_allclose(ours.model_.theta, theirs.model_.theta, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, rtol=rtol, atol=rtol * scale)
    assert ours.n_observations_ == theirs.n_observations_
    assert ours.correction_ == theirs.correction_
    tables = (ribbon.predict_frame(X).select_dtypes("number").to_numpy() for ribbon in (ours, theirs))
    np.testing.assert_allclose(*tables, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_every_model(name, frame, lazy):
    base, target = CASES[name]
    ribbon = ribbon_of(base, target)
    theirs = ribbon.fit(frame[FEATURES], frame[target])
    before = theirs.model_.theta
    ours = ribbon_of(base, target).fit(lazy[FEATURES], lazy[target])
    assert_same(ours, theirs, frame[FEATURES][:50])
    assert np.array_equal(before, theirs.model_.theta)
    assert type(ours.estimator_) is type(base)
    assert list(ours.feature_names_in_) == FEATURES
    np.testing.assert_allclose(
        *(fit.estimator_.predict(frame[FEATURES][:9]) for fit in (ours, theirs)), rtol=1e-7
    ) if target not in ("label", "kind") else None
    if name == "ridge by leave-one-out":
        assert ours.estimator_.alpha_ == theirs.estimator_.alpha_
        assert ours.estimator_.best_score_ == pytest.approx(theirs.estimator_.best_score_, rel=1e-9)


@pytest.mark.parametrize("target", ["y", "count", "kind"])
def test_check_says_that_dependence_was_not_checked(target, frame, lazy):
    base = {"y": Ridge(5.0), "count": PoissonRegressor(alpha=0.01), "kind": LOGISTIC}[target]
    new = table(300, seed=1)
    tables = [
        check(ribbon_of(base, target).fit(rows[FEATURES], rows[target]), new[FEATURES], new[target]).table
        for rows in (lazy, frame)
    ]
    assert tables[0].loc["dependence", ["verdict", "what to do"]].tolist() == [
        "not checked",
        "rows are on Dask, sorted by y, or fitted exactly",
    ]
    ours, theirs = (own.drop(index="dependence")["verdict"] for own in tables)
    pd.testing.assert_series_equal(ours, theirs)
    assert tables[1].loc["dependence", "verdict"] == "ok" and ours["extrapolation"] == "ok"


@pytest.mark.parametrize("grouped", [False, True], ids=["", "groups"])
@pytest.mark.parametrize(
    "weight_type, target", [("importance", "y"), ("importance", "label"), ("exposure", "positive")]
)
def test_weights_that_are_no_frequencies(weight_type, target, grouped, frame, lazy):
    base = {"y": Ridge(5.0), "label": LOGISTIC, "positive": GammaRegressor(alpha=0.1, **EXACT)}[target]
    kind = RibbonClassifier if target == "label" else RibbonRegressor
    ribbon = kind(base, weight_type=weight_type)

    def fit(rows):
        groups = rows["group"] if grouped else None
        return clone(ribbon).fit(rows[FEATURES], rows[target], rows["weight"] * 0.3, groups)

    ours, theirs = fit(lazy), fit(frame)
    assert ours.n_observations_ == theirs.n_observations_ == (frame["weight"] > 0).sum()
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-5, atol=1e-10)
    if target != "label":
        np.testing.assert_allclose(ours.noise_.dispersion_, theirs.noise_.dispersion_, rtol=1e-6)
        np.testing.assert_allclose(*(own.predict_interval(frame[FEATURES][:9]) for own in (ours, theirs)), rtol=1e-5)


def test_fractional_frequencies_on_partitions_are_warned_of(lazy):
    with pytest.warns(WeightWarning, match="not of 2000 rows"):
        RibbonRegressor().fit(lazy[FEATURES], lazy["y"], lazy["weight"] * 0.3)


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("groups", [False, True], ids=["", "groups"])
@pytest.mark.parametrize("target", ["y", "kind"])
def test_weights_and_groups(weights, groups, target, frame, lazy):
    def columns(table):
        given = {"sample_weight": "weight"} if weights else {}
        given |= {"groups": "group"} if groups else {}
        return {name: table[column] for name, column in given.items()}

    base = LOGISTIC if target == "kind" else Ridge(5.0)
    ours = ribbon_of(base, target).fit(lazy[FEATURES], lazy[target], **columns(lazy))
    theirs = ribbon_of(base, target).fit(frame[FEATURES], frame[target], **columns(frame))
    assert ours.n_groups_ == theirs.n_groups_
    assert_same(ours, theirs, frame[FEATURES][:50])


@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("groups", [False, True], ids=["", "groups"])
def test_corrections(correction, groups, frame, lazy):
    some, few = frame[:60], dd.from_pandas(frame[:60], npartitions=4, sort=False)  # few rows: corrections matter
    given = [{"groups": table["group"]} if groups else {} for table in (few, some)]
    fits = [
        RibbonRegressor(Ridge(0.1), correction=correction, noise="dof").fit(table[FEATURES], table["y"], **columns)
        for table, columns in zip((few, some), given, strict=True)
    ]
    assert_same(*fits, frame[FEATURES][:50])


@pytest.mark.parametrize("noise", ["auto", "train", "loo", 0.3])
@pytest.mark.parametrize("groups", [False, True], ids=["", "groups"])
def test_noise(noise, groups, frame):
    frame = frame[:390]  # too few for trees
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    given = [{"groups": table["group"]} if groups else {} for table in (lazy, frame)]
    ours, theirs = (
        RibbonRegressor(noise=noise).fit(table[FEATURES], table["y"], **columns)
        for table, columns in zip((lazy, frame), given, strict=True)
    )
    assert ours.noise_.dispersion_ == pytest.approx(theirs.noise_.dispersion_, rel=1e-7)
    assert_same(ours, theirs, frame[FEATURES][:50])


def test_noise_of_a_long_table_uses_the_sample_of_a_fit_in_memory(monkeypatch):
    for module in ("_core.thresholds", "_dask.fitting"):
        monkeypatch.setattr(f"skribbon.{module}.NOISE_ROWS", 390)
    # samples on Dask are by position
    monkeypatch.setattr("skribbon._core.output.some_by_keys", lambda keys, size: some_of(len(keys), size))
    long = table(2000)
    parts = dd.from_pandas(long, npartitions=5, sort=False)
    # with a penalty that the number of all rows scales, not that of the sample
    ours, theirs = (RibbonRegressor(Ridge(200.0)).fit(rows[FEATURES], rows["y"]) for rows in (parts, long))
    assert theirs.noise_.shrinkage_ > 0
    assert_same(ours, theirs, long[FEATURES][:50])


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_any_number_of_partitions(parts, frame):
    pieces = dd.from_pandas(frame, npartitions=parts, sort=False)
    ours = RibbonClassifier(LOGISTIC).fit(pieces[FEATURES], pieces["label"], groups=pieces["group"])
    assert_same(
        ours,
        RibbonClassifier(LOGISTIC).fit(frame[FEATURES], frame["label"], groups=frame["group"]),
        frame[FEATURES][:9],
    )


def test_uneven_empty_and_shuffled_partitions(frame):
    bounds = [0, 3, 3, 900, 901, 2000, 2000]
    order = [4, 1, 0, 3, 2, 5]
    pieces = [frame.iloc[bounds[k] : bounds[k + 1]] for k in order]
    lazy = dd.from_map(lambda k: pieces[k], range(6), meta=frame.iloc[:0])
    ours = RibbonRegressor(Ridge(), noise="dof").fit(lazy[FEATURES], lazy["y"], lazy["weight"], lazy["group"])
    theirs = RibbonRegressor(Ridge(), noise="dof").fit(frame[FEATURES], frame["y"], frame["weight"], frame["group"])
    assert_same(ours, theirs, frame[FEATURES][:50])


@pytest.mark.parametrize("kind", ["known", "unknown", "sparse", "columns"])
def test_arrays(kind, frame, lazy):
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy()
    if kind == "unknown":
        arrays = lazy[FEATURES].to_dask_array(), lazy["y"].to_dask_array()
    else:
        arrays = da.from_array(X, chunks=(700, 2 if kind == "columns" else 3)), da.from_array(y, chunks=900)
    if kind == "sparse":
        arrays = arrays[0].map_blocks(sparse.csr_matrix), arrays[1]
    base = Ridge(5.0)
    ours = RibbonRegressor(base, noise="dof").fit(*arrays)
    X = sparse.csr_matrix(X) if kind == "sparse" else X
    theirs = RibbonRegressor(FrozenEstimator(ours.estimator_), noise="dof").fit(X, y)
    assert_same(ours, theirs, X[:50])
    assert ours.stationarity_ < 1e-8
    np.testing.assert_allclose(ours.estimator_.coef_, base.fit(frame[FEATURES].to_numpy(), y).coef_, rtol=1e-9)


def test_shared_source_of_arrays_is_computed_once():
    made = []

    def block(block_id):
        made.append(block_id)
        return np.random.default_rng(block_id[0]).normal(size=(100, 2))

    X = da.map_blocks(
        lambda block_id=None: block(block_id), chunks=((100,) * 3, (2,)), dtype=float, meta=np.empty((0, 2))
    )
    made.clear()
    RibbonRegressor(noise="dof").fit(X, X.sum(axis=1) + X[:, 0] ** 2)
    assert len(made) <= 4  # the first is looked at alone, to tell how large a table it is


@pytest.mark.parametrize("predictive", ["pushforward", "direct", "newton"])
def test_draws(predictive, frame, lazy):
    drawn = RibbonRegressor(Ridge(), predictive=predictive, n_draws=2000, noise="dof", random_state=0)
    ours = drawn.fit(lazy[FEATURES], lazy["y"])
    exact = RibbonRegressor(Ridge(), noise="dof").fit(frame[FEATURES], frame["y"])
    np.testing.assert_allclose(np.diag(ours.covariance_), np.diag(exact.covariance_), rtol=0.15)
    grouped = [drawn.fit(rows[FEATURES], rows["y"], groups=rows["group"]).ribbon_.shifts for rows in (lazy, frame)]
    np.testing.assert_allclose(*grouped, rtol=1e-7, atol=1e-10)  # of groups they are the same wherever rows are


def test_huber_reaches_the_minimum(frame, lazy):
    ours = RibbonRegressor(HuberRegressor(), noise="dof").fit(lazy[FEATURES], lazy["y"])
    theirs = HuberRegressor(tol=1e-9, max_iter=10_000).fit(frame[FEATURES], frame["y"])
    assert ours.stationarity_ < 1e-6
    np.testing.assert_allclose(ours.estimator_.coef_, theirs.coef_, rtol=1e-4)
    assert ours.estimator_.scale_ == pytest.approx(theirs.scale_, rel=1e-4)


@pytest.mark.parametrize("target", ["y", "label"])
def test_networks_reach_a_minimum_on_all_rows(target, frame, lazy):
    options = {"hidden_layer_sizes": (3,), "activation": "tanh", "solver": "lbfgs", "alpha": 1.0, "max_iter": 2000}
    kind = MLPRegressor if target == "y" else MLPClassifier
    base = make_pipeline(StandardScaler(), kind(**options, random_state=0))
    ours = ribbon_of(base, target).fit(lazy[FEATURES], lazy[target])
    assert ours.stationarity_ < 1e-6
    polished = polish(ours.estimator_, frame[FEATURES], frame[target])  # on all rows in memory it stays where it is
    np.testing.assert_allclose(polished[-1].coefs_[0], ours.estimator_[-1].coefs_[0], rtol=1e-5, atol=1e-6)


def test_autograd_model_reaches_the_minimum(frame, lazy):
    import autograd.numpy as anp

    def traced(params, X):
        return params["scale"] * anp.exp(params["rate"] * X[:, 0]) + params["shift"]

    base = AutogradRegressor(traced, {"scale": 0.5, "rate": 0.3, "shift": 0.0})
    ours = RibbonRegressor(base, noise="dof").fit(lazy[["a"]], lazy["y"])
    theirs = RibbonRegressor(FrozenEstimator(polish(base.fit(frame[["a"]], frame["y"]), frame[["a"]], frame["y"])))
    exact = theirs.fit(frame[["a"]], frame["y"]).model_.theta
    np.testing.assert_allclose(ours.model_.theta, exact, rtol=1e-6)


def test_frozen_models_stay_as_they_are(frame, lazy):
    frozen = FrozenEstimator(make_pipeline(StandardScaler(), Ridge()).fit(frame[FEATURES], frame["y"]))
    ours, theirs = (RibbonRegressor(frozen, noise="dof").fit(rows[FEATURES], rows["y"]) for rows in (lazy, frame))
    assert_same(ours, theirs, frame[FEATURES][:50])


def test_frozen_model_behind_a_transformer_is_given_all_rows(frame, lazy):
    scaled = StandardScaler().fit_transform(frame[FEATURES])
    base = make_pipeline(StandardScaler(), FrozenEstimator(Ridge().fit(scaled, frame["y"])))
    ours, theirs = (RibbonRegressor(base, noise="dof").fit(rows[FEATURES], rows["y"]) for rows in (lazy, frame))
    np.testing.assert_allclose(ours.estimator_[0].mean_, theirs.estimator_[0].mean_)
    assert_same(ours, theirs, frame[FEATURES][:50])


def test_categories_of_all_partitions():
    frame = table(2000)
    frame.loc[1990:, "word"] = "rare"  # in the last partition alone, and hardly in a sample
    lazy = dd.from_pandas(frame, npartitions=4, sort=False)
    prepare = make_column_transformer((OneHotEncoder(drop="first"), ["word"]), (StandardScaler(), ["a", "b"]))
    fits = [
        RibbonRegressor(make_pipeline(prepare, Ridge()), noise="dof").fit(rows, rows["y"]) for rows in (lazy, frame)
    ]
    assert_same(*fits, frame[:50])


@pytest.mark.parametrize("strategy", ["mean", "constant"])
def test_imputers_know_all_partitions(strategy, frame):
    holed = frame.assign(a=frame["a"].where(frame["a"] < 1.0))
    lazy = dd.from_pandas(holed, npartitions=4, sort=False)
    base = make_pipeline(SimpleImputer(strategy=strategy), StandardScaler(), Ridge())
    fits = [RibbonRegressor(base, noise="dof").fit(rows[FEATURES], rows["y"]) for rows in (lazy, holed)]
    assert_same(*fits, holed[FEATURES][:50])


def test_single_column_must_be_a_table(lazy):
    with pytest.raises(ValueError, match="two dimensions"):
        RibbonRegressor().fit(lazy["a"], lazy["y"])
    with pytest.raises(ValueError, match="two dimensions"):
        RibbonRegressor().fit(lazy["a"].to_dask_array(), lazy["y"].to_dask_array())


def test_classes_of_all_partitions(frame):
    rare = frame.copy()
    rare.loc[1999, "kind"] = "once"
    lazy = dd.from_pandas(rare, npartitions=4, sort=False)
    fits = [RibbonClassifier(LOGISTIC).fit(rows[FEATURES], rows["kind"]) for rows in (lazy, rare)]
    assert list(fits[0].classes_) == ["once", "u", "v", "w"]
    assert_same(*fits, rare[FEATURES][:50])


def test_fitted_estimator_needs_no_dask(lazy, frame):
    import pickle
    import subprocess
    import sys

    fitted = RibbonRegressor(Ridge()).fit(lazy[FEATURES], lazy["y"])
    stored = pickle.dumps((fitted, frame[FEATURES][:3]))
    assert len(stored) < 1_000_000
    code = (
        "import pickle, sys\n"
        "ribbon, X = pickle.loads(sys.stdin.buffer.read())\n"
        "assert ribbon.predict_interval(X).shape == (3, 2)\n"
        "assert 'dask' not in sys.modules and 'distributed' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], input=stored, check=True)


# ---------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("base", "message"),
    [
        (ElasticNet(), "cannot be taken to its minimum"),
        (Ridge(positive=True), "cannot be taken to its minimum"),
        (RidgeCV(cv=3), "leave-one-out; do not set cv or scoring"),
        (make_pipeline(QuantileTransformer(), Ridge()), "FrozenEstimator\\(QuantileTransformer"),
        (
            make_pipeline(make_column_transformer((OneHotEncoder(min_frequency=2), ["a"])), Ridge()),
            "FrozenEstimator\\(encoder",
        ),
    ],
)
def test_unsupported_base_models_and_transformers_are_refused(base, message, lazy):
    with pytest.raises(TypeError, match=message):
        RibbonRegressor(base).fit(lazy[FEATURES], lazy["y"])


def test_a_search_for_the_penalty_is_refused(lazy):
    with pytest.raises(TypeError, match="on a sample"):
        RibbonClassifier(LogisticRegressionCV()).fit(lazy[FEATURES], lazy["label"])


def test_stateless_transformers_need_no_partial_fit(frame, lazy):
    base = make_pipeline(FunctionTransformer(np.tanh), Ridge())
    fits = [RibbonRegressor(base, noise="dof").fit(rows[FEATURES], rows["y"]) for rows in (lazy, frame)]
    assert_same(*fits, frame[FEATURES][:9])


@pytest.mark.parametrize("place", ["X", "y", "weight", "group", "label"])
def test_missing_values_are_refused_with_partition_and_row(place, frame):
    holed = frame.astype({"group": float, "label": object})
    column = {"X": "b"}.get(place, place)
    holed.loc[holed.index[1700], column] = np.nan
    lazy = dd.from_pandas(holed, npartitions=4, sort=False)  # 500 rows each
    target = "label" if place == "label" else "y"
    ribbon = ribbon_of(LOGISTIC if place == "label" else Ridge(), target)
    with pytest.raises(ValueError, match=r"Partition 3.*(row 200|at row 200)"):
        ribbon.fit(lazy[FEATURES], lazy[target], lazy["weight"], lazy["group"])
    assert not [name for name in vars(ribbon) if name.endswith("_")]


def test_columns_in_memory_are_refused(frame, lazy):
    with pytest.raises(TypeError, match="one Dask frame"):
        RibbonRegressor().fit(lazy[FEATURES], frame["y"])
    with pytest.raises(ValueError, match="X has 3"):
        RibbonRegressor().fit(lazy[FEATURES], dd.from_pandas(frame["y"], npartitions=2, sort=False))


def test_partitions_of_different_lengths_are_refused(frame):
    X, y = (
        lazy.to_delayed()
        for lazy in (dd.from_pandas(frame[FEATURES], npartitions=2), dd.from_pandas(frame["y"][1:], npartitions=2))
    )
    arrays = da.concatenate([da.from_delayed(part, (np.nan, 3), float) for part in X], allow_unknown_chunksizes=True)
    targets = da.concatenate([da.from_delayed(part, (np.nan,), float) for part in y], allow_unknown_chunksizes=True)
    with pytest.raises(ValueError, match=r"Partition \d: X has 1000 rows here and y has"):
        RibbonRegressor().fit(arrays, targets)


def test_one_group_and_no_rows_are_refused(frame, lazy):
    with pytest.raises(ValueError, match="single label"):
        RibbonRegressor().fit(lazy[FEATURES], lazy["y"], groups=lazy["group"] * 0)
    none = lazy[lazy["a"] > 1e9]
    with pytest.raises(ValueError, match="no rows"):
        RibbonRegressor().fit(none[FEATURES], none["y"])
    with pytest.raises(ValueError, match="non-zero"):
        RibbonRegressor().fit(lazy[FEATURES], lazy["y"], sample_weight=lazy["weight"] * 0)


def test_methods_that_need_all_rows_in_memory_are_refused(lazy):
    with pytest.raises(ValueError, match="store_loo"):
        RibbonRegressor(store_loo=True).fit(lazy[FEATURES], lazy["y"])
    fitted = RibbonRegressor().fit(lazy[FEATURES], lazy["y"])
    with pytest.raises(TypeError, match="rows in memory"):
        fitted.predict_distribution(lazy[FEATURES])
    from skribbon.baselines import LaplaceRegressor

    with pytest.raises(TypeError, match="rows in memory"):
        LaplaceRegressor().fit(lazy[FEATURES], lazy["y"])


def test_a_failed_fit_leaves_the_old_one(frame, lazy):
    ribbon = RibbonRegressor(Ridge()).fit(lazy[FEATURES], lazy["y"])
    before = ribbon.predict_interval(frame[FEATURES][:3])
    with pytest.raises(ValueError, match="non-zero"):
        ribbon.fit(lazy[FEATURES], lazy["count"], sample_weight=lazy["weight"] * 0)
    np.testing.assert_array_equal(ribbon.predict_interval(frame[FEATURES][:3]), before)


def test_passes_are_printed(lazy, capsys):
    RibbonRegressor(Ridge(), verbose=1).fit(lazy[FEATURES], lazy["y"])
    printed = capsys.readouterr().out
    assert "pass 1" in printed
    assert "rows/s" in printed


def test_without_dask_the_extra_is_named(monkeypatch):
    import builtins
    import sys

    from skribbon import RibbonRegressor

    monkeypatch.delitem(sys.modules, "skribbon._dask", raising=False)
    monkeypatch.delattr("skribbon._dask", raising=False)
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "dask":
            raise ImportError("No module named 'dask'")
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("skribbon._dask")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    Frame = type("Frame", (), {"__module__": "dask.dataframe"})
    with pytest.raises(ImportError, match=r"skribbon\[dask\]"):
        RibbonRegressor().fit(Frame(), Frame())


def test_blas_threads_are_restored_after_a_fit(lazy):
    from threadpoolctl import threadpool_info

    before = [pool["num_threads"] for pool in threadpool_info()]
    RibbonRegressor(Ridge()).fit(lazy[FEATURES], lazy["y"])
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_tables_larger_than_memory_are_not_kept(lazy, monkeypatch):
    monkeypatch.setattr("skribbon._dask.rows.machine_bytes", lambda: 0)
    kept = []
    monkeypatch.setattr(dask, "persist", lambda *tasks: kept.append(tasks) or tasks)
    fitted = RibbonRegressor(Ridge(), noise="dof").fit(lazy[FEATURES], lazy["y"])
    assert not kept
    assert fitted.stationarity_ < 1e-8


def test_dates_are_refused_as_targets(lazy):
    times = lazy.assign(day=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="numbers"):
        RibbonRegressor().fit(times[FEATURES], times["day"])


def test_partitions_have_different_dirichlet_weights(frame):
    same = [frame, frame]
    lazy = dd.from_map(lambda k: same[k], range(2), meta=frame.iloc[:0])
    options = {"noise": "dof", "correction": "HC0"}
    drawn = RibbonRegressor(Ridge(), predictive="pushforward", n_draws=1000, random_state=0, **options)
    ours = drawn.fit(lazy[FEATURES], lazy["y"])
    exact = RibbonRegressor(Ridge(), **options).fit(*(pd.concat(same)[c] for c in (FEATURES, "y")))
    np.testing.assert_allclose(np.diag(ours.covariance_), np.diag(exact.covariance_), rtol=0.2)  # shared: twice as much


def test_groups_on_too_many_partitions_are_refused(lazy, monkeypatch):
    monkeypatch.setattr("skribbon._dask.rows.machine_bytes", lambda: 4 * 8 * 59 * 4**2)
    with pytest.raises(MemoryError, match="Keep groups together"):
        RibbonRegressor().fit(lazy[FEATURES], lazy["y"], groups=lazy["group"])  # 60 groups in three pieces each
    together = lazy.compute().sort_values("group")
    lazy = dd.from_pandas(together, npartitions=3, sort=False)
    assert RibbonRegressor(noise="dof").fit(lazy[FEATURES], lazy["y"], groups=lazy["group"]).n_groups_ == 60
