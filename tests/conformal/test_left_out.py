"""jackknife+ and CV+ against their definitions, with every refit carried out."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import GammaRegressor, HuberRegressor, LinearRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer

from skribbon import RibbonCV, RibbonRegressor
from skribbon.conformal import conformal_quantile
from skribbon.conformal import left_out as _left_out
from skribbon.exceptions import CalibrationWarning, FlexibleModelWarning, LeverageWarning

LEVELS = [0.5, 0.8, 0.95]
LOG = TransformedTargetRegressor(Ridge(0.5), func=np.log, inverse_func=np.exp)


def draw(n, seed=0, p=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X @ rng.normal(size=p) + rng.standard_normal(n) * np.exp(0.5 * X[:, 0])


def by_refits(base, X, y, X_new, groups=None, precision=1.0):
    """Intervals (n, 2, L) by the definition, with a fit for every row or group that is left out."""
    units = np.arange(len(y)) if groups is None else groups
    lower, upper, weight = [], [], []
    for unit in np.unique(units):
        out = units == unit
        given = {} if np.ndim(precision) == 0 else {"sample_weight": precision[~out]}
        model = clone(base).fit(X[~out], y[~out], **given)
        scale = np.sqrt(np.broadcast_to(precision, len(y))[out])  # to the noise of an observation of weight one
        residuals, new = np.abs(y[out] - model.predict(X[out])) * scale, model.predict(X_new)
        lower += [new - r for r in residuals]
        upper += [new + r for r in residuals]
        weight += [1 / out.sum()] * out.sum()
    ends = [
        [
            [-conformal_quantile(-low, LEVELS, weight), conformal_quantile(up, LEVELS, weight)]
            for low, up in zip(np.transpose(lower), np.transpose(upper), strict=True)
        ]
    ]
    return np.array(ends)[0]


@pytest.mark.parametrize(
    "base",
    [
        LinearRegression(),
        LinearRegression(fit_intercept=False),
        Ridge(3.0),
        make_pipeline(FunctionTransformer(np.arctan), Ridge(1.0)),
    ],
)
def test_jackknife_of_least_squares_equals_refits(base):
    (X, y), X_new = draw(40), 2 * draw(30, 1)[0]
    ours = RibbonRegressor(base, store_loo=True).fit(X, y).predict_interval(X_new, LEVELS, kind="jackknife+")
    np.testing.assert_allclose(ours, by_refits(base, X, y, X_new), rtol=1e-8, atol=1e-10)


def test_jackknife_of_averages_equals_refits_and_covers_single_observations():
    (X, y), X_new = draw(40), 2 * draw(30, 1)[0]
    size = np.where(np.arange(40) % 2, 1.0, 100.0)
    ribbon = RibbonRegressor(LinearRegression(), store_loo=True, weight_type="exposure")
    ours = ribbon.fit(X, y, sample_weight=size).predict_interval(X_new, LEVELS, kind="jackknife+")
    np.testing.assert_allclose(ours, by_refits(LinearRegression(), X, y, X_new, precision=size), rtol=1e-8, atol=1e-10)
    rng, covered = np.random.default_rng(0), []
    for _ in range(20):
        X, X_new = rng.normal(size=(2, 200, 3))
        averages = X.sum(axis=1) + rng.standard_normal(200) / 5
        lower, upper = ribbon.fit(X, averages, np.full(200, 25.0)).predict_interval(X_new, kind="jackknife+").T
        y = X_new.sum(axis=1) + rng.standard_normal(200)
        covered.append(((lower <= y) & (y <= upper)).mean())
    assert 0.87 < np.mean(covered) < 0.93


def minus_log(y):
    return -np.log(y)


def exp_of_minus(t):
    return np.exp(-t)


@pytest.mark.parametrize("transform", [(np.log, np.exp), (minus_log, exp_of_minus), (np.cbrt, lambda t: t**3)])
def test_jackknife_of_transformed_target_equals_refits_on_the_fitted_scale(transform):
    (X, y), X_new, (func, inverse) = draw(40), draw(30, 1)[0], transform
    y, base = np.exp(y), TransformedTargetRegressor(Ridge(0.5), func=func, inverse_func=inverse)
    ours = RibbonRegressor(base, store_loo=True).fit(X, y).predict_interval(X_new, LEVELS, kind="jackknife+")
    expected = np.sort(inverse(by_refits(Ridge(0.5), X, func(y), X_new)), axis=1)  # a decreasing inverse swaps them
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-10)
    assert transform[0] is np.cbrt or (ours > 0).all()


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
@pytest.mark.parametrize("base", [Ridge(1.0), LOG])
def test_jackknife_leaves_whole_groups_out(base):
    X, y = draw(60)
    y, X_new, logs = np.exp(y), draw(10, 1)[0], base is LOG
    groups = np.random.default_rng(0).integers(25, size=60)
    ours = RibbonRegressor(base, store_loo=True).fit(X, y, groups=groups)
    expected = by_refits(base.regressor if logs else base, X, np.log(y) if logs else y, X_new, groups)
    found = ours.predict_interval(X_new, LEVELS, kind="jackknife+")
    np.testing.assert_allclose(np.log(found) if logs else found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the quantile transform has fewer rows than quantiles
def test_jackknife_beyond_the_range_of_a_transform():
    (X, y), X_new = draw(40), 10 * draw(30, 1)[0]
    base = TransformedTargetRegressor(Ridge(0.5), transformer=QuantileTransformer(output_distribution="normal"))
    ribbon = RibbonRegressor(base, store_loo=True).fit(X, y)
    interval = ribbon.predict_interval(X_new, LEVELS, kind="jackknife+")
    assert interval.min() == y.min() and interval.max() == y.max()
    np.testing.assert_array_equal(ribbon.predict_interval(X_new, 0.99, kind="jackknife+"), [[-np.inf, np.inf]] * 30)


def test_rows_without_leverage_count_in_the_jackknife():
    X, y = draw(40)
    X[:30], y[:30] = 0, np.repeat([-1.0, 1.0, 2.0], 10)  # fits without them are the same fit, and residuals are tied
    base, X_new = LinearRegression(fit_intercept=False), draw(10, 1)[0]
    ours = RibbonRegressor(base, store_loo=True, noise=1.0).fit(X, y).predict_interval(X_new, LEVELS, kind="jackknife+")
    np.testing.assert_allclose(ours, by_refits(base, X, y, X_new), rtol=1e-8, atol=1e-10)


def test_sparse_rows():
    (X, y), X_new = draw(60), draw(10, 1)[0]
    X[np.abs(X) < 0.7] = 0
    one = RibbonRegressor(Ridge(solver="cholesky"), store_loo=True).fit(X[:40], y[:40])
    other = RibbonRegressor(Ridge(solver="sparse_cg", tol=1e-13), store_loo=True).fit(sparse.csr_array(X[:40]), y[:40])
    one.conformalize(X[40:], y[40:])
    other.conformalize(sparse.csr_array(X[40:]), y[40:])
    for kind in ("jackknife+", "conformal"):
        expected = one.predict_interval(X_new, LEVELS[:2], kind=kind)
        np.testing.assert_allclose(
            other.predict_interval(sparse.csr_array(X_new), LEVELS[:2], kind=kind), expected, 1e-6
        )


def test_integer_weights_equal_repeated_rows():
    (X, y), X_new = draw(40), draw(10, 1)[0]
    copies = np.random.default_rng(0).integers(0, 4, size=40)
    one = RibbonRegressor(Ridge(), store_loo=True).fit(X, y, copies)
    other = RibbonRegressor(Ridge(), store_loo=True).fit(X.repeat(copies, axis=0), y.repeat(copies))
    ends = (ribbon.predict_interval(X_new, LEVELS, kind="jackknife+") for ribbon in (one, other))
    np.testing.assert_allclose(*ends, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_skipping_rows_far_from_the_bounds_changes_nothing(weighted, monkeypatch):
    (X, y), X_new = draw(300, p=8), draw(50, 1, p=8)[0]
    X_new[:3] *= 30
    weight = np.random.default_rng(0).integers(1, 4, size=300) if weighted else None
    ribbon = RibbonRegressor(Ridge(), store_loo=True).fit(X, y, weight)
    quick = ribbon.predict_interval(X_new, LEVELS, kind="jackknife+")
    looked_at = ribbon._jackknife_._between(0.1 * np.ones(300), 250.0)[0]
    assert 0 < len(looked_at) < 150
    monkeypatch.setattr(_left_out.Jackknife, "_between", lambda self, far, asked: (np.arange(300), 0.0))
    np.testing.assert_allclose(ribbon.predict_interval(X_new, LEVELS, kind="jackknife+"), quick, rtol=1e-12)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("family", ["poisson", "gamma"])
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_jackknife_of_a_glm_is_close_to_refits_scored_by_its_family(family, grouped):
    X, rng, X_new = draw(100)[0], np.random.default_rng(0), draw(20, 1)[0]
    mean, groups = np.exp(1 + 0.3 * X[:, 0]), np.arange(100) // (1 + grouped)
    base = (PoissonRegressor if family == "poisson" else GammaRegressor)(alpha=0.0, tol=1e-10)
    y = rng.poisson(mean) if family == "poisson" else rng.gamma(3, mean / 3)
    lower, upper = [], []
    for unit in np.unique(groups):
        model = clone(base).fit(X[groups != unit], y[groups != unit])
        for row in np.flatnonzero(groups == unit):
            here, new = (
                stats.poisson(mu) if family == "poisson" else stats.gamma(3, scale=mu / 3)
                for mu in (model.predict(X[[row]]), model.predict(X_new))
            )
            tail = min(here.cdf(y[row])[0], 1 - here.cdf(y[row] - (family == "poisson"))[0], 0.5)
            lower.append(new.ppf(tail * (1 - 1e-7)))
            upper.append(new.ppf(1 - tail * (1 - 1e-7)))
    proposals = zip(np.transpose(lower), np.transpose(upper), strict=True)
    weight = np.full(100, 1 / (1 + grouped))
    ends = [[-conformal_quantile(-a, LEVELS, weight), conformal_quantile(b, LEVELS, weight)] for a, b in proposals]
    ribbon = RibbonRegressor(base, store_loo=True, noise=1.0 if family == "poisson" else 1 / 3)
    ours = ribbon.fit(X, y, groups=groups if grouped else None).predict_interval(X_new, LEVELS, kind="jackknife+")
    assert (ours >= 0).all()
    if family == "poisson":
        assert np.mean(ours == ends) > 0.97 and np.abs(ours - ends).max() <= 1  # a Newton step may move one count
    else:
        assert np.abs(ours - ends).max() < 0.02 * np.ptp(ends, axis=1).min()


def test_jackknife_of_a_model_with_a_scale_is_close_to_refits():
    (X, y), X_new, base = draw(150), draw(20, 1)[0], HuberRegressor(alpha=0.0, tol=1e-8, max_iter=1000)
    ribbon = RibbonRegressor(base, store_loo=True).fit(X, y)
    ours, expected = ribbon.predict_interval(X_new, LEVELS, kind="jackknife+"), by_refits(base, X, y, X_new)
    assert np.abs(ours - expected).max() < 0.02 * np.ptp(expected, axis=1).min()


def test_jackknife_reaches_guaranteed_coverage():
    covered = []
    for seed in range(60):
        X, y = draw(20 + 30, seed, p=6)
        ribbon = RibbonRegressor(Ridge(0.1), noise=1.0, store_loo=True).fit(X[:20], y[:20])
        lower, upper = ribbon.predict_interval(X[20:], 0.8, kind="jackknife+").T
        covered.append(np.mean((lower <= y[20:]) & (y[20:] <= upper)))
    assert np.mean(covered) > 0.6  # proved
    assert abs(np.mean(covered) - 0.8) < 4 * np.std(covered) / np.sqrt(60) + 0.02  # usual


def test_jackknife_survives_pickling_and_another_alpha():
    X, y = draw(40)
    ribbon = RibbonRegressor(store_loo=True).fit(X, y)
    before = ribbon.predict_interval(X, kind="jackknife+")
    for same in (pickle.loads(pickle.dumps(ribbon)), ribbon.with_alpha(0.1), RibbonCV(cv="loo").fit(X, y)):
        np.testing.assert_allclose(same.predict_interval(X, kind="jackknife+"), before, rtol=1e-12)


# ---------------------------------------------------------------------- CV+
NORMAL = {"noise": "dof", "law": "normal", "correction": "HC0"}  # no degrees of freedom


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_cv_plus_equals_its_definition(grouped):
    (X, y), X_new = draw(60), 2 * draw(10, 1)[0]
    groups = np.random.default_rng(0).integers(20, size=60) if grouped else None
    cv = GroupKFold(4) if grouped else KFold(4, shuffle=True, random_state=0)
    tuned = RibbonCV(RibbonRegressor(Ridge(), **NORMAL), alphas=[1.0], cv=cv, store_folds=True).fit(X, y, groups=groups)
    lower, upper, weight = [], [], []
    for train, test in cv.split(X, y, groups):
        fold = RibbonRegressor(Ridge(), **NORMAL).fit(X[train], y[train], groups=groups[train] if grouped else None)
        z = np.abs(y[test] - fold.predict(X[test])) / fold.predict_std(X[test])
        mean, std = fold.predict(X_new, return_std=True)
        lower += list(mean - z[:, None] * std)
        upper += list(mean + z[:, None] * std)
        weight += [1 / (groups == groups[i]).sum() if grouped else 1.0 for i in test]
    expected = [
        [-conformal_quantile(-low, LEVELS, weight), conformal_quantile(up, LEVELS, weight)]
        for low, up in zip(np.transpose(lower), np.transpose(upper), strict=True)
    ]
    ours = tuned.predict_interval(X_new, LEVELS, kind="cv+")
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.AlphaEdgeWarning")
def test_cv_plus_accepts_frames_and_a_tuned_alpha():
    X, y = draw(60)
    X = pd.DataFrame(X, columns=list("abcd"))
    tuned = RibbonCV(Ridge(), alphas=[0.01, 1.0], scoring="coverage", store_folds=True).fit(X, y)
    interval = tuned.predict_interval(X, LEVELS, kind="cv+")
    assert (np.diff(interval[:, 1]) >= 0).all()
    assert {ribbon.alpha for ribbon in tuned.estimator_._folds_.ribbons} == {tuned.alpha_}
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(tuned)).predict_interval(X, LEVELS, kind="cv+"), interval)
    with pytest.raises(ValueError, match="cv\\+"):  # scores are of the tuned alpha
        tuned.with_alpha(0.5).predict_interval(X, kind="cv+")
    assert not hasattr(tuned.set_params(store_folds=False).fit(X, y).estimator_, "_folds_")


# ---------------------------------------------------------------------- warnings and errors
def test_too_few_rows_give_infinite_bounds():
    X, y = draw(15)
    ribbon = RibbonRegressor(Ridge(), store_loo=True).fit(X, y)
    with pytest.warns(CalibrationWarning, match="needs at least 19 training rows.*there are 15"):
        interval = ribbon.predict_interval(X, LEVELS, kind="jackknife+")
    np.testing.assert_array_equal(np.isinf(interval).all(axis=(0, 1)), [False, False, True])


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_jackknife_of_flexible_network_warns():
    X, y = draw(60)
    network = MLPRegressor(hidden_layer_sizes=6, solver="lbfgs", alpha=0.5, max_iter=5000, random_state=0)
    ribbon = RibbonRegressor(network, store_loo=True, damping=0.05).fit(X, y)
    with pytest.warns(FlexibleModelWarning, match="jackknife. intervals are too narrow.*Try: kind='cv\\+'"):
        ribbon.predict_interval(X, kind="jackknife+")


def test_high_leverage_rows_warn():
    X, y = draw(30)
    X[0] = [1e6, 0, 0, 0]
    with pytest.warns(LeverageWarning, match="1 of 30 rows determine"):
        RibbonRegressor(correction="HC0", noise=1.0, store_loo=True).fit(X, y)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_unsupported_requests_are_refused_with_clear_errors(monkeypatch):
    X, y = draw(40)
    plain = RibbonRegressor().fit(X, y)
    with pytest.raises(ValueError, match="set store_loo=True of the RibbonRegressor"):
        plain.predict_interval(X, kind="jackknife+")
    with pytest.raises(ValueError, match=r"RibbonCV\(..., store_folds=True\)"):
        plain.predict_interval(X, kind="cv+")
    with pytest.raises(ValueError, match="exact leverages, which Diagonal lacks"):
        RibbonRegressor(curvature="diag", store_loo=True).fit(X, y).predict_interval(X, kind="jackknife+")
    with pytest.raises(ValueError, match="holds out each row exactly once"):
        RibbonCV(cv=ShuffleSplit(4), store_folds=True).fit(X, y)
    for tuned in (RibbonCV(cv="loo", store_folds=True), RibbonCV(FrozenEstimator(plain), store_folds=True)):
        with pytest.raises(ValueError, match="store_folds needs folds"):
            tuned.fit(X, y)
    monkeypatch.setattr(_left_out, "machine_bytes", lambda: 4000)
    with pytest.raises(ValueError, match=r"5 parameters of 40 fits, 1\.6e-06 GB"):
        RibbonRegressor(store_loo=True).fit(X, y).predict_interval(X, kind="jackknife+")


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_bounds_of_positive_targets_are_not_negative_if_rows_are_too_few():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    counts = rng.poisson(np.exp(X[:, 0])).astype(float)
    log = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    for base, y in ((PoissonRegressor(), counts), (log, counts + 1)):
        ribbon = RibbonRegressor(base, store_loo=True).fit(X, y)
        tuned = RibbonCV(base, alphas=[1.0], store_folds=True).fit(X, y)
        intervals = [
            ribbon.predict_interval(X[:1], 0.99, kind="jackknife+"),
            tuned.predict_interval(X[:1], 0.99, kind="cv+"),
        ]
        intervals.append(ribbon.conformalize(X[:20], y[:20]).predict_interval(X[:1], 0.99, kind="conformal"))
        np.testing.assert_array_equal(np.concatenate(intervals), [[0.0, np.inf]] * 3)
