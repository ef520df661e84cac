"""Dependence between neighbouring rows is seen at fit, and independent rows are left in peace."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, cross_val_interval, time_blocks
from skribbon._core.findings import neighbour_correlation
from skribbon.exceptions import DependentRowsWarning

N = 300
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
SIGNAL = X @ [1.0, -0.5, 0.3]


def autoregressive(correlation, seed=1, n=N):
    e, shocks = np.zeros(n), np.random.default_rng(seed).normal(size=n)
    for i in range(1, n):
        e[i] = correlation * e[i - 1] + shocks[i]
    return e


DEPENDENT = SIGNAL + autoregressive(0.6)


def z_of(ribbon, X, y, **params):
    """z statistic of a fit; None if the rows were not checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon.fit(X, y, **params)
    found = [own.number for own in ribbon._findings_ if own.premise == "dependence"]
    return found[0] if found else None


def raised(action):
    """How often an action warns of dependent rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return sum(issubclass(w.category, DependentRowsWarning) for w in caught)


# ---------------------------------------------------------------------- the statistic
def test_statistic_equals_its_formula():
    e = np.random.default_rng(3).normal(size=(50, 1))
    products = e[:-1, 0] * e[1:, 0]
    correlation, z = neighbour_correlation(e, np.arange(50))
    assert z == pytest.approx(products.sum() / np.sqrt((products**2).sum()))
    assert correlation == pytest.approx(products.mean() / np.mean(e**2))
    assert neighbour_correlation(1e200 * e, np.arange(50)) == pytest.approx((correlation, z))
    assert neighbour_correlation(0 * e, np.arange(50)) == (0.0, 0.0)


def test_only_neighbours_are_paired():
    e = np.array([[1.0], [2.0], [4.0], [8.0]])
    scale = np.mean(e**2)
    assert neighbour_correlation(e, np.array([0, 1, 5, 6]))[0] == pytest.approx((1 * 2 + 4 * 8) / 2 / scale)


def test_fit_uses_leave_one_out_residuals():
    e = RibbonRegressor(store_loo=True).fit(X, DEPENDENT).loo_residuals_[:, None]
    assert z_of(RibbonRegressor(), X, DEPENDENT) == pytest.approx(neighbour_correlation(e, np.arange(N))[1])


# ---------------------------------------------------------------------- dependent rows
COUNTS = np.random.default_rng(4).poisson(np.exp(0.3 * SIGNAL + autoregressive(0.8)))
LABELS = (SIGNAL + 2 * autoregressive(0.9) + np.random.default_rng(5).logistic(size=N) > 0).astype(int)
KINDS = {
    "least squares": (RibbonRegressor(), X, DEPENDENT),
    "pipeline": (RibbonRegressor(make_pipeline(StandardScaler(), Ridge())), X, DEPENDENT),
    "sparse": (RibbonRegressor(Ridge()), sparse.csr_matrix(X), DEPENDENT),
    "two outputs": (RibbonRegressor(), X, np.column_stack([DEPENDENT, SIGNAL + autoregressive(0.6, 8)])),
    "counts": (RibbonRegressor(PoissonRegressor(alpha=0)), X, COUNTS),
    "two classes": (RibbonClassifier(), X, LABELS),
    "three classes": (RibbonClassifier(), X, LABELS + (X[:, 1] > 1) * LABELS),
    "approximate curvature": (RibbonRegressor(curvature="diag"), X, DEPENDENT),
    "tuned": (RibbonCV(RibbonRegressor()), X, DEPENDENT),
    "tuned classifier": (RibbonCV(RibbonClassifier()), X, LABELS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_dependent_rows_warn_once(kind):
    assert raised(lambda: KINDS[kind][0].fit(*KINDS[kind][1:])) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_rows_do_not_warn(kind):
    ribbon, X, y = KINDS[kind]
    order = np.random.default_rng(9).permutation(N)
    assert raised(lambda: ribbon.fit(X[order], y[order])) == 0


def test_network_is_judged_by_its_held_out_rows():
    network = RibbonRegressor(MLPRegressor(hidden_layer_sizes=(40,), max_iter=100, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert raised(lambda: network.fit(X, SIGNAL + 3 * autoregressive(0.9))) == 1
        assert network.held_out_.origin == "folds"
        assert raised(lambda: network.fit(X, SIGNAL + rng.normal(size=N))) == 0


def test_cross_val_interval_warns_once():
    assert raised(lambda: cross_val_interval(RibbonRegressor(), X, DEPENDENT)) == 1
    assert raised(lambda: cross_val_interval(RibbonRegressor(), X, SIGNAL + rng.normal(size=N))) == 0


def test_folds_alone_do_not_warn():
    """Five folds would raise five times as many false alarms as the fit to all rows."""
    y, cv = SIGNAL[:100] + autoregressive(0.2, 0, 100), KFold(5)
    assert any(raised(lambda rows=rows: RibbonRegressor().fit(X[rows], y[rows])) for rows, _ in cv.split(y))
    assert raised(lambda: RibbonRegressor().fit(X[:100], y)) == 0
    assert raised(lambda: RibbonCV(RibbonRegressor(), cv=cv).fit(X[:100], y)) == 0


def test_trend_that_the_model_misses_warns():
    x = np.linspace(0, 1, N)[:, None]
    y = np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=N)
    with pytest.warns(DependentRowsWarning, match="or the model misses a trend along their order"):
        RibbonRegressor().fit(x, y)


# ---------------------------------------------------------------------- groups
def test_groups_account_for_dependence_inside_them():
    group = np.arange(N) // 5
    y = SIGNAL + 2 * np.random.default_rng(6).normal(size=N // 5)[group] + rng.normal(size=N)
    assert raised(lambda: RibbonRegressor().fit(X, y)) == 1
    assert raised(lambda: RibbonRegressor().fit(X, y, groups=group)) == 0
    shuffled = np.random.default_rng(7).permutation(N)
    assert raised(lambda: RibbonRegressor().fit(X[shuffled], y[shuffled], groups=group[shuffled])) == 0


def test_short_blocks_warn_and_longer_blocks_do_not():
    y = SIGNAL + autoregressive(0.8)
    with pytest.warns(DependentRowsWarning, match="neighbouring groups .*one label in groups= for groups"):
        RibbonRegressor().fit(X, y, groups=time_blocks(N, 2))
    assert raised(lambda: RibbonRegressor().fit(X, y, groups=time_blocks(N))) == 0


def test_statistic_of_groups_uses_sums_of_residuals():
    group = np.random.default_rng(8).integers(0, 60, size=N)
    weight = np.random.default_rng(8).integers(0, 4, size=N).astype(float)
    ribbon = RibbonRegressor(LinearRegression())
    z = z_of(ribbon, X, DEPENDENT, groups=group, sample_weight=weight)
    first = [label for label in dict.fromkeys(group) if weight[group == label].any()]
    e = weight * (DEPENDENT - ribbon.estimator_.predict(X))
    sums = np.array([[e[group == label].sum()] for label in first])
    assert z == pytest.approx(neighbour_correlation(sums, np.arange(len(first)))[1])


# ---------------------------------------------------------------------- order, copies and weights
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_tables_sorted_by_class_do_not_warn(load):
    Z, y = load(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    for labels in (y, (y + 1) % (y.max() + 1)):
        order = np.argsort(labels, kind="stable")
        assert z_of(RibbonClassifier(), Z[order], y[order]) is None


@pytest.mark.parametrize("sign", [1, -1])
def test_tables_sorted_by_target_do_not_warn(sign):
    Z, y = load_diabetes(return_X_y=True)
    order = np.argsort(sign * y)
    assert z_of(RibbonRegressor(), Z[order], y[order]) is None
    two = np.column_stack([np.random.default_rng(0).normal(size=len(y)), y])
    assert z_of(RibbonRegressor(), Z[order], two[order]) is None


def test_exact_fits_are_not_checked():
    """Rounding errors of a smooth function are correlated."""
    x = np.linspace(0, 1, N)[:, None]
    assert z_of(RibbonRegressor(), np.hstack([x, x**2]), 1 + x[:, 0] - x[:, 0] ** 2) is None


@pytest.mark.parametrize("kind", ["least squares", "counts", "two classes"])
def test_copies_count_once_like_weights(kind):
    ribbon, Z, y = KINDS[kind]
    times = np.random.default_rng(10).integers(1, 4, size=N)
    weighted = z_of(ribbon, Z, y, sample_weight=times.astype(float))
    assert z_of(ribbon, np.repeat(Z, times, axis=0), np.repeat(y, times)) == pytest.approx(weighted, rel=1e-3)
    independent = SIGNAL + rng.normal(size=N)
    assert raised(lambda: RibbonRegressor().fit(np.repeat(X, 3, axis=0), np.repeat(independent, 3))) == 0


def test_rows_of_weight_zero_are_ignored():
    weight = (np.arange(N) % 2).astype(float)
    wild = np.where(weight > 0, DEPENDENT, 1e6 * rng.normal(size=N))
    plain = z_of(RibbonRegressor(), X[1::2], DEPENDENT[1::2])
    assert z_of(RibbonRegressor(), X, wild, sample_weight=weight) == pytest.approx(plain)


@pytest.mark.parametrize("weight_type", ["importance", "exposure"])
def test_weights_of_any_type(weight_type):
    weight = np.random.default_rng(11).lognormal(size=N)
    assert raised(lambda: RibbonRegressor(weight_type=weight_type).fit(X, DEPENDENT, sample_weight=weight)) == 1
    y = SIGNAL + rng.normal(size=N) / np.sqrt(weight)
    assert raised(lambda: RibbonRegressor(weight_type=weight_type).fit(X, y, sample_weight=weight)) == 0


# ---------------------------------------------------------------------- rates, in a few seconds; tests/slow has more
NOISES = {
    "normal": lambda rng, x: rng.normal(size=len(x)),
    "lognormal": lambda rng, x: rng.lognormal(size=len(x)),
    "cauchy": lambda rng, x: rng.standard_cauchy(len(x)),
    "scale varies along the order": lambda rng, x: rng.normal(size=len(x)) * np.exp(0.75 * x),
}


@pytest.mark.parametrize("noise", NOISES)
def test_false_alarms_are_rare(noise):
    rng, alarms = np.random.default_rng(12), 0
    for _ in range(200):
        Z = rng.normal(size=(100, 3))
        Z = Z[np.argsort(Z[:, 0])]
        alarms += z_of(RibbonRegressor(noise=1.0, correction="HC0"), Z, NOISES[noise](rng, Z[:, 0])) > 2.75
    assert alarms <= 4  # of 200, where 0.5 are expected


def test_power():
    alarms = [
        z_of(RibbonRegressor(noise=1.0, correction="HC0"), X[:100], autoregressive(0.5, seed, 100)) > 2.75
        for seed in range(50)
    ]
    assert np.mean(alarms) > 0.85
