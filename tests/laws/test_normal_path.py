"""Scores of normal laws along a path of alphas, from few of them, against all of them."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from skribbon import RibbonCV, RibbonRegressor
from skribbon._estimators import alpha_path as _alpha_path
from skribbon._laws import Normal, normal_path, normal_path_scores

FACTORS = np.geomspace(1e-3, 1e4, 120)
METRICS = {"coverage", "width", "interval_score", "nll", "crps"}


def rows(m=400, seed=0, uneven=1.0, student=30.0):
    rng = np.random.default_rng(seed)
    noise, variance = np.exp(uneven * 0.3 * rng.normal(size=m)), 0.01 * np.exp(uneven * 0.5 * rng.normal(size=m))
    return np.sqrt(noise) * rng.standard_t(student, m), noise, variance


def all_laws(residual, noise, variance, factors, level, weight=None):
    law = Normal(np.zeros(len(residual)), noise + factors[:, None] * variance)
    lower, upper = np.moveaxis(law.ppf(np.array([(1 - level) / 2, (1 + level) / 2])), -1, 0)
    missed = np.maximum(lower - residual, 0) + np.maximum(residual - upper, 0)
    values = {
        "coverage": (lower <= residual) & (residual <= upper),
        "width": upper - lower,
        "interval_score": upper - lower + 2 / (1 - level) * missed,
        "nll": -law.logpdf(np.broadcast_to(residual, law.shape)),
        "crps": law.crps(np.broadcast_to(residual, law.shape)),
    }
    return {metric: np.average(value, axis=1, weights=weight) for metric, value in values.items()}


@pytest.mark.parametrize("uneven", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("student", [30.0, 3.0])
def test_few_laws_tell_the_scores_of_all(uneven, level, student):
    given = rows(uneven=uneven, student=student)
    for weight in (None, np.random.default_rng(1).integers(1, 4, 400).astype(float)):
        told = normal_path_scores(*given, FACTORS, level, weight)
        assert set(told) == METRICS
        for metric, exact in all_laws(*given, FACTORS, level, weight).items():
            np.testing.assert_allclose(told[metric], exact, rtol=1e-9, atol=1e-12, err_msg=metric)


def test_they_are_fewer(monkeypatch):
    asked, own = [], normal_path._smooth_scores
    monkeypatch.setattr(normal_path, "_smooth_scores", lambda *given: asked.append(given) or own(*given))
    assert normal_path_scores(*rows(uneven=0.5), FACTORS, 0.9) is not None
    assert len(asked) < len(FACTORS) / 2


def test_a_row_on_the_edge_of_its_interval_is_covered():
    z = normal_path.ndtri(0.95)
    residual, noise, variance = np.array([2 * z, -2 * z, 5.0]), np.full(3, 3.0), np.array([1.0, 1.0, 0.0])
    factors = np.r_[np.linspace(0.01, 0.99, 30), 1.0, np.linspace(1.01, 2, 30)]
    told = normal_path_scores(residual, noise, variance, factors, 0.9)
    np.testing.assert_allclose(told["coverage"][:30], 0, atol=1e-12)
    np.testing.assert_allclose(told["coverage"][30:], 2 / 3)
    np.testing.assert_allclose(
        told["interval_score"], all_laws(residual, noise, variance, factors, 0.9)["interval_score"]
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda r, s, v: (r, 0 * s, v),
        lambda r, s, v: (np.r_[np.inf, r[1:]], s, v),
        lambda r, s, v: (r, s, 0 * v),
        lambda r, s, v: (r, s, v * np.geomspace(1e-8, 1e8, len(v))),
    ],
    ids=["no noise", "an infinite residual", "no uncertainty", "ratios of all sizes"],
)
def test_where_few_laws_do_not_tell_none_is_said(change):
    assert normal_path_scores(*change(*rows()), FACTORS, 0.9) is None


def test_few_factors_are_each_looked_at():
    assert normal_path_scores(*rows(), FACTORS[:4], 0.9) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_a_fold_has_the_scores_that_it_had(monkeypatch, weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12))
    y = X @ rng.normal(size=12) + rng.standard_t(5, 300)
    weight = rng.integers(1, 4, 300) if weighted else None
    for base in (Ridge(), LinearRegression()):
        ribbon = RibbonRegressor(base, noise="dof", law="normal")
        fast = RibbonCV(ribbon).fit(X, y, sample_weight=weight)
        with monkeypatch.context() as patch:
            patch.setattr(_alpha_path, "normal_path_scores", lambda *given: None)
            slow = RibbonCV(ribbon).fit(X, y, sample_weight=weight)
        assert fast.alpha_ == slow.alpha_
        assert list(fast.cv_results_) == list(slow.cv_results_)
        for name, column in slow.cv_results_.items():
            np.testing.assert_allclose(fast.cv_results_[name], column, rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("base", [Ridge(), LinearRegression()], ids=["Ridge", "LinearRegression"])
@pytest.mark.parametrize("cv", [5, "loo"])
def test_a_table_of_one_output_has_the_scores_of_its_column(base, cv):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200)
    ribbon = RibbonRegressor(base, noise="dof", law="normal")
    table, column = (RibbonCV(ribbon, cv=cv).fit(X, target).cv_results_ for target in (y[:, None], y))
    np.testing.assert_allclose(table["mean_test_nll"], column["mean_test_nll"], rtol=1e-9)
    np.testing.assert_allclose(table["mean_test_coverage"], column["mean_test_coverage"], rtol=1e-9)
