"""Theoretical guarantees of conformal intervals, jackknife+ and CV+, over thousands of simulated tables.

Coverage is counted in a row or a few of each table, so that draws are independent, and compared within four standard
errors.
"""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.conformal.calibration import SCORES
from skribbon.exceptions import RibbonWarning

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

N_FIT, LEVEL = 40, 0.9


def draw(n, rng, law):
    X = rng.normal(size=(n, 3))
    mean, z = X @ [1.0, -0.5, 0.2], rng.standard_normal(n)
    return X, {
        "normal": mean + z,
        "lognormal": mean + np.exp(z),
        "heteroskedastic": mean + np.exp(X[:, 0]) * z,
        "misspecified": mean + 2 * np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * z,
    }[law]


def share_and_error(covered):
    """Mean over tables, and its standard error."""
    covered = np.asarray(covered, dtype=float)
    return covered.mean(), covered.std() / np.sqrt(len(covered))


def covers(interval, y):
    return np.mean((interval[:, 0] <= y) & (y <= interval[:, 1]))


# ---------------------------------------------------------------------- split conformal
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("law", ["normal", "lognormal", "heteroskedastic", "misspecified"])
@pytest.mark.parametrize("m", [20, 100, 500])
def test_coverage_is_within_the_theoretical_bounds(m, law, score):
    rng, covered = np.random.default_rng(0), []
    for _ in range(500):
        ribbon = RibbonRegressor(noise="dof", correction="HC0").fit(*draw(N_FIT, rng, law))
        ribbon.conformalize(*draw(m, rng, law), score=score)
        X, y = draw(40, rng, law)
        covered.append(covers(ribbon.predict_interval(X, LEVEL, kind="conformal"), y))
    share, error = share_and_error(covered)
    assert LEVEL - 4 * error <= share <= LEVEL + 1 / (m + 1) + 4 * error


def test_coverage_of_a_network():
    rng, covered = np.random.default_rng(0), []
    for seed in range(150):
        network = MLPRegressor(hidden_layer_sizes=8, solver="lbfgs", alpha=0.1, max_iter=300, random_state=seed)
        ribbon = RibbonRegressor(network).fit(*draw(80, rng, "misspecified"))
        ribbon.conformalize(*draw(60, rng, "misspecified"))
        X, y = draw(60, rng, "misspecified")
        covered.append(covers(ribbon.predict_interval(X, LEVEL, kind="conformal"), y))
    share, error = share_and_error(covered)
    assert LEVEL - 4 * error <= share <= LEVEL + 1 / 61 + 4 * error


def test_coverage_of_counts_is_at_least_the_level():
    rng, covered = np.random.default_rng(0), []

    def counts(n):
        X = rng.normal(size=(n, 2))
        return X, rng.poisson(np.exp(0.5 + 0.6 * X[:, 0]) * rng.gamma(2, 0.5, size=n)).astype(float)

    for _ in range(300):
        ribbon = RibbonRegressor(PoissonRegressor(alpha=1e-3)).fit(*counts(60)).conformalize(*counts(50))
        X, y = counts(40)
        covered.append(covers(ribbon.predict_interval(X, LEVEL, kind="conformal"), y))
    share, error = share_and_error(covered)
    assert share >= LEVEL - 4 * error
    assert share <= 0.98  # and not by infinite ends


def test_coverage_within_groups_needs_group_calibration():
    rng = np.random.default_rng(0)

    def grouped(n):
        X, y = draw(n, rng, "normal")
        groups = rng.integers(2, size=n)
        return X, np.where(groups == 1, 4 * y, y), groups

    covered = {"told": [], "not told": []}
    for _ in range(400):
        X, y, groups = grouped(N_FIT)
        ribbon = RibbonRegressor(noise="dof").fit(X, y)
        (X, y, groups), (X_new, y_new, new) = grouped(100), grouped(100)
        for name, one, other in (("told", groups, new), ("not told", None, None)):
            interval = ribbon.conformalize(X, y, groups=one).predict_interval(X_new, LEVEL, "conformal", groups=other)
            covered[name].append([covers(interval[new == k], y_new[new == k]) for k in (0, 1)])
    for k in (0, 1):
        share, error = share_and_error([row[k] for row in covered["told"]])
        assert LEVEL - 4 * error <= share <= LEVEL + 0.025 + 4 * error  # some 50 rows a group
    assert np.mean(covered["not told"], axis=0)[1] < 0.85


def test_coverage_under_known_shift_needs_weights():
    rng = np.random.default_rng(0)

    def shifted(n, centre):
        X = rng.normal(centre, 1, size=(n, 1))
        return X, X[:, 0] ** 2 + np.exp(0.7 * X[:, 0]) * rng.standard_normal(n)

    def ratio(X):
        return norm.pdf(X[:, 0], 1) / norm.pdf(X[:, 0], 0)

    covered = {"weighted": [], "plain": []}
    for _ in range(400):
        ribbon = RibbonRegressor(noise="dof").fit(*shifted(N_FIT, 0))
        (X, y), (X_new, y_new) = shifted(300, 0), shifted(40, 1)
        plain = ribbon.conformalize(X, y).predict_interval(X_new, LEVEL, kind="conformal")
        covered["plain"].append(covers(plain, y_new))
        ribbon.conformalize(X, y, sample_weight=ratio(X))
        weighted = ribbon.predict_interval(X_new, LEVEL, kind="conformal", sample_weight=ratio(X_new))
        covered["weighted"].append(covers(weighted, y_new))
    share, error = share_and_error(covered["weighted"])
    assert LEVEL - 4 * error <= share <= LEVEL + 0.05
    assert np.mean(covered["plain"]) < LEVEL - 0.05


# ---------------------------------------------------------------------- jackknife+ and CV+
@pytest.mark.parametrize(("n", "p"), [(50, 10), (100, 50), (100, 90), (500, 50)])
def test_jackknife_of_ridge_reaches_nominal_coverage(n, p):
    rng, covered = np.random.default_rng(0), []
    for _ in range(400):
        beta = rng.standard_normal(p)
        X, X_new = rng.normal(size=(n, p)), rng.normal(size=(40, p))
        ribbon = RibbonRegressor(Ridge(1.0), noise=1.0, correction="HC0", store_loo=True)
        ribbon.fit(X, X @ beta + rng.standard_normal(n))
        interval = ribbon.predict_interval(X_new, LEVEL, kind="jackknife+")
        covered.append(covers(interval, X_new @ beta + rng.standard_normal(40)))
    share, _ = share_and_error(covered)
    assert share >= 1 - 2 * (1 - LEVEL)  # proved
    assert abs(share - LEVEL) < 0.02


@pytest.mark.parametrize("family", ["log", "poisson", "gamma"])
def test_jackknife_behind_a_transform_or_a_link_reaches_nominal_coverage(family):
    log = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    glm = {"alpha": 0.0, "solver": "newton-cholesky"}
    base = {"log": log, "poisson": PoissonRegressor(**glm), "gamma": GammaRegressor(**glm)}[family]
    rng, covered = np.random.default_rng(0), []
    for _ in range(300):
        X = rng.normal(size=(60 + 30, 3))
        mean = np.exp(1.5 + X @ [0.5, -0.3, 0.2])
        draws = {"poisson": lambda: rng.poisson(mean), "gamma": lambda: rng.gamma(2, mean / 2)}  # noqa: B023
        y = mean * rng.lognormal(size=90) if family == "log" else draws[family]()
        ribbon = RibbonRegressor(base, store_loo=True).fit(X[:60], y[:60])
        interval = ribbon.predict_interval(X[60:], LEVEL, kind="jackknife+")
        assert interval.min() >= 0
        covered.append(covers(interval, y[60:]))
    share, error = share_and_error(covered)
    assert share >= 1 - 2 * (1 - LEVEL)  # proved
    assert LEVEL - 0.02 <= share <= LEVEL + (0.06 if family == "poisson" else 0.02) + 4 * error  # counts are discrete


@pytest.mark.parametrize("law", ["lognormal", "misspecified"])
def test_cv_plus_reaches_nominal_coverage(law):
    rng, covered = np.random.default_rng(0), []
    for _ in range(120):
        tuned = RibbonCV(RibbonRegressor(LinearRegression(), noise="dof"), alphas=[1.0], cv=5, store_folds=True)
        tuned.fit(*draw(60, rng, law))
        X, y = draw(60, rng, law)
        covered.append(covers(tuned.predict_interval(X, LEVEL, kind="cv+"), y))
    share, error = share_and_error(covered)
    assert LEVEL - 0.02 - 4 * error <= share <= LEVEL + 0.04 + 4 * error


def test_leave_one_group_out_jackknife_covers_new_groups():
    rng, covered = np.random.default_rng(0), []

    def grouped(G):
        size = rng.integers(1, 8, size=G)
        groups = np.repeat(np.arange(G), size)
        X = rng.normal(size=(G, 2))[groups] + 0.3 * rng.normal(size=(len(groups), 2))
        return X, X @ [1.0, -1.0] + 2 * rng.standard_normal(G)[groups] + rng.standard_normal(len(groups)), groups

    for _ in range(400):
        X, y, groups = grouped(40)
        ribbon = RibbonRegressor(noise=1.0, store_loo=True).fit(X, y, groups=groups)
        X, y, groups = grouped(30)
        first = np.unique(groups, return_index=True)[1]
        covered.append(covers(ribbon.predict_interval(X[first], LEVEL, kind="jackknife+"), y[first]))
    share, error = share_and_error(covered)
    assert abs(share - LEVEL) < 0.02 + 4 * error


# ---------------------------------------------------------------------- sets
@pytest.mark.parametrize("settings", [{}, {"score": "aps"}, {"score": "aps", "randomized": True}])
def test_prediction_sets_cover_the_true_class(settings):
    rng, covered, m = np.random.default_rng(0), [], 60

    def classes(n):
        X = rng.normal(size=(n, 3))
        logits = 2 * X @ np.array([[1, 0, -1, 0.5], [0, 1, 0, -1], [0.5, 0, 1, 0]]) + 2 * X[:, :1] ** 2 * np.arange(4)
        return X, (logits + rng.gumbel(size=(n, 4))).argmax(axis=1)

    for seed in range(400):
        ribbon = RibbonClassifier(LogisticRegression())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RibbonWarning)
            X, y = classes(120)
            while len(np.unique(y)) < 4:
                X, y = classes(120)
            ribbon.fit(X, y)
        ribbon.conformalize(*classes(m), random_state=seed, **settings)
        X, y = classes(40)
        covered.append(np.mean(ribbon.predict_set(X, LEVEL, random_state=seed + 10_000)[np.arange(40), y]))
    share, error = share_and_error(covered)
    assert LEVEL - 4 * error <= share <= LEVEL + 1 / (m + 1) + 4 * error
