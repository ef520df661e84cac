"""Degrees of freedom of confidence intervals: how many rows a variance rests on."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core import thresholds
from skribbon._core.ribbon import Freedom, _with_one_dominating
from skribbon._laws.base import Estimate

rng = np.random.default_rng(0)


def with_a_rare_category(n, m):
    """Two columns, of which the first is one in the first m rows only."""
    X = np.column_stack([np.arange(n) < m, rng.normal(size=n)]).astype(float)
    return X, X.sum(axis=1) + rng.normal(size=n)


def satterthwaite(X, x, weight=None, penalty=0.0):
    """(sum c^2)^2 / sum c^4 - 1 with an array for all rows, weights as repeats."""
    weight = np.ones(len(X)) if weight is None else weight
    A, a = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, x))
    B = np.linalg.inv(A.T @ (weight[:, None] * A) + penalty * np.diag([1.0] * X.shape[1] + [0.0]))
    c = a @ B @ A.T
    return (c**2 @ weight) ** 2 / (c**4 @ weight) - 1


NEW = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 4.0]])


@pytest.mark.parametrize("penalty", [0.0, 5.0])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_degrees_of_freedom_equal_satterthwaites_formula(penalty, form):
    X, y = with_a_rare_category(80, 4)
    weight = rng.integers(1, 4, 80).astype(float)
    ribbon = RibbonRegressor(Ridge(alpha=penalty)).fit(form(X), y, sample_weight=weight)
    df = ribbon.predict_distribution(form(NEW), kind="confidence").latent.df
    expected = np.minimum(satterthwaite(X, NEW, weight, penalty), weight.sum() - ribbon.effective_parameters_)
    np.testing.assert_allclose(df, expected, rtol=1e-8)


def test_degrees_of_freedom_of_a_long_table_use_influential_rows():
    X, y = with_a_rare_category(20_000, 3)
    df = RibbonRegressor().fit(X, y).predict_distribution(NEW, kind="confidence").latent.df
    assert df[0] == pytest.approx(2.0, abs=0.01)
    assert df[1:].min() > 1000
    assert df[1:].max() < 8000  # a third of the other rows, as normal features share a variance
    X, y = rng.normal(size=(20_000, 2)), rng.normal(size=20_000)
    assert RibbonRegressor().fit(X, y).ribbon_.freedom.width == 0


@pytest.mark.parametrize("alpha", [1.0, 1e-4])
def test_degrees_of_freedom_ignore_duplicated_columns(alpha):
    X = np.random.default_rng(1).normal(size=(6000, 8))
    X[:20] *= 30  # influential rows, so that the others are summed up
    y, new = X[:, 0] + rng.normal(size=6000), X[15:25]
    once, twice = Ridge(alpha / 2), Ridge(alpha, solver="svd")
    expected = RibbonRegressor(once, noise="dof").fit(X, y).predict_distribution(new, kind="confidence").latent.df
    ribbon = RibbonRegressor(twice, noise="dof").fit(np.hstack([X, X]), y)
    assert ribbon.ribbon_.freedom.root is not None
    df = ribbon.predict_distribution(np.hstack([new, new]), kind="confidence").latent.df
    np.testing.assert_allclose(df, expected, rtol=1e-6)


def test_confidence_interval_has_student_quantiles():
    X, y = with_a_rare_category(60, 3)
    ribbon = RibbonRegressor().fit(X, y)
    distribution = ribbon.predict_distribution(NEW, kind="confidence")
    law = stats.t(satterthwaite(X, NEW), ribbon.predict(NEW), ribbon.predict_std(NEW, kind="epistemic"))
    np.testing.assert_allclose(distribution.interval(0.9), np.column_stack(law.interval(0.9)), rtol=1e-9)
    np.testing.assert_allclose(distribution.cdf(np.zeros(3)), law.cdf(0.0), rtol=1e-9)
    np.testing.assert_allclose(distribution.logpdf(np.zeros(3)), law.logpdf(0.0), rtol=1e-9)
    np.testing.assert_allclose(distribution.std(), ribbon.predict_std(NEW, kind="epistemic"))
    normal = RibbonRegressor(correction="HC0").fit(X, y).predict_distribution(NEW, kind="confidence")
    half = np.diff(normal.interval(0.9))[:, 0] / 2
    np.testing.assert_allclose(half, stats.norm.ppf(0.95) * normal.std(), rtol=1e-9)  # the paper's


def test_one_degree_of_freedom_gives_cauchy_quantiles():
    law, exact = Estimate([0.0, 1.0], [4.0, 1.0], [1.0, 1e9]), stats.cauchy(0, 2)
    assert law.ppf(0.9)[0] == pytest.approx(exact.ppf(0.9))
    assert law.ppf(0.9)[1] == pytest.approx(stats.norm(1).ppf(0.9), rel=1e-6)
    assert law.cdf([1.0, 1.0])[0] == pytest.approx(exact.cdf(1.0))
    assert law.crps([1.0, 1.0])[0] == np.inf
    np.testing.assert_array_equal(law.std(), [2.0, 1.0])


def test_draws_have_student_tails():
    X, y = with_a_rare_category(60, 12)
    closed = RibbonRegressor(predictive="gaussian").fit(X, y)
    drawn = clone(closed).set_params(predictive="pushforward", n_draws=20_000, random_state=0).fit(X, y)
    ours, expected = (one.predict_interval(NEW, [0.5, 0.9], kind="confidence") for one in (drawn, closed))
    width = expected[:, 1] - expected[:, 0]
    assert np.abs((ours - expected) / width[:, None]).max() < 0.08
    distribution = drawn.predict_distribution(NEW, kind="confidence")
    np.testing.assert_allclose(distribution.cdf(distribution.quantile(0.9)), 0.9, atol=1e-9)
    assert distribution.quantile(0.975)[0] == distribution.quantile([0.975])[0, 0]


def satterthwaite_of_logits(X, probabilities, C):
    """Degrees of freedom of each class's centred logit at each row, (n, K), with an array for all rows and classes."""
    A, K = np.column_stack([X, np.ones(len(X))]), probabilities.shape[1]
    weight = np.einsum("ij,jk->ijk", probabilities, np.eye(K)) - np.einsum("ij,ik->ijk", probabilities, probabilities)
    d = A.shape[1]
    H = np.einsum("ia,ijk,ib->jakb", A, weight, A).reshape(K * d, K * d)
    B = np.linalg.pinv(H + np.diag(np.tile([1 / C] * (d - 1) + [0.0], K)), rcond=1e-10)
    centred = np.kron(np.eye(K) - 1 / K, A).reshape(K, len(A), K * d)  # one logit of one row each
    moved = np.einsum("cnp,pq->cnq", centred, B).reshape(K, len(A), K, d)
    along = np.einsum("cnjd,id->cnij", moved, A)
    c2 = np.einsum("cnij,ijk,cnik->cni", along, weight, along)
    return (c2.sum(axis=2) ** 2 / np.square(c2).sum(axis=2) - 1).T


def test_degrees_of_freedom_of_class_probabilities_do_not_depend_on_the_order_of_classes():
    X = np.random.default_rng(5).normal(size=(90, 2))
    y = np.argmax(np.column_stack([X, -X[:, 0]]) + np.random.default_rng(6).gumbel(size=(90, 3)), axis=1)
    ribbon = RibbonClassifier(LogisticRegression(C=2.0, tol=1e-10), temperature=1.0, correction="HC2")
    ordered, expected = clone(ribbon).fit(X, y), []
    df = ordered.predict_distribution(X).latent.df
    expected = satterthwaite_of_logits(X, ordered.estimator_.predict_proba(X), 2.0).min(axis=1)
    assert np.ptp(expected) > 5
    few = expected < 60  # others may reach the upper bound
    np.testing.assert_allclose(df[few], expected[few], rtol=1e-4)
    for labels in ([2, 1, 0], [1, 2, 0], [0, 2, 1]):
        renamed = np.array(labels)
        intervals = clone(ribbon).fit(X, renamed[y]).predict_proba_interval(X, 0.99)[:, renamed]
        np.testing.assert_allclose(intervals, ordered.predict_proba_interval(X, 0.99), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("predictive", ["gaussian", "pushforward"])
def test_probabilities_of_a_rare_category_are_less_known(n_classes, predictive):
    X, y = with_a_rare_category(300, 4)
    labels = np.digitize(y, [0.0] if n_classes == 2 else [-0.5, 0.5])
    ribbon = RibbonClassifier(LogisticRegression(), predictive=predictive, random_state=0, correction="HC2")
    student = clone(ribbon).fit(X, labels).predict_distribution(NEW)
    normal = clone(ribbon).fit(X, labels)
    normal.ribbon_ = type(normal.ribbon_)(**{**vars(normal.ribbon_), "freedom": None})
    normal = normal.predict_distribution(NEW)
    widths = [np.diff(one.interval(0.9)).squeeze(-1) for one in (student, normal)]
    assert student.latent.df[0] < 4
    assert (widths[0][0] > 1.05 * widths[1][0]).all()
    np.testing.assert_allclose(student.mean(), normal.mean())
    levels = [0.99, 0.5, 0.9]
    ends = student.interval(levels)
    assert (ends[:, :, 0, 0] <= ends[:, :, 0, 2]).all()  # nested, in the order in which they were asked for
    assert (ends[:, :, 0, 2] <= ends[:, :, 0, 1]).all()
    np.testing.assert_array_equal(ends[..., 2], student.interval(0.9))


def test_degrees_of_freedom_count_a_weight_of_two_as_two_rows(monkeypatch):
    monkeypatch.setattr(thresholds, "MOST_INFLUENTIAL", 50)  # rows that count by themselves
    X, y = with_a_rare_category(40, 3)
    weighted = RibbonRegressor(noise="dof").fit(X, y, sample_weight=np.full(40, 2.0))
    repeated = RibbonRegressor(noise="dof").fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    df = [r.predict_distribution(NEW, kind="confidence").latent.df for r in (weighted, repeated)]
    np.testing.assert_allclose(*df, rtol=1e-9)


def test_degrees_of_freedom_do_not_depend_on_alpha():
    X, y = with_a_rare_category(100, 3)
    ribbon = RibbonRegressor().fit(X, y)
    df = ribbon.predict_distribution(NEW, kind="confidence").latent.df
    for other in (ribbon.with_alpha(3.0), RibbonCV(LinearRegression(), alphas=[1.0], cv=3).fit(X, y)):
        np.testing.assert_allclose(other.predict_distribution(NEW, kind="confidence").latent.df, df)


def test_degrees_of_freedom_are_constant_if_leverages_are_small():
    balanced = np.tile([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]], (15, 1))  # all leverages are 3 / n
    y = rng.normal(size=60)
    assert RibbonRegressor().fit(balanced, y).correction_ == "HC1"
    assert RibbonRegressor().fit(balanced[:40], y[:40]).correction_ == "HC2"
    assert RibbonRegressor().fit(rng.normal(size=(60, 12)), y).correction_ == "HC3"
    assert RibbonRegressor().fit(*with_a_rare_category(300, 4)).correction_ == "HC2"
    assert RibbonRegressor(correction="HC3").fit(balanced, y).ribbon_.freedom is None


@pytest.mark.parametrize("noise", [1.0, 1e-9], ids=["separate columns", "collinear columns"])
def test_degrees_of_freedom_of_a_penalised_fit(noise):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1500, 3)) @ rng.normal(size=(3, 40)) + noise * rng.normal(size=(1500, 40))
    X[:5] *= 30  # rows of large leverage
    ribbon = RibbonRegressor(Ridge(alpha=1e-6), noise="dof", correction="HC2").fit(X, X[:, 0] + rng.normal(size=1500))
    centred = X - X.mean(axis=0)
    U, s, Vt = np.linalg.svd(centred, full_matrices=False)
    weights = 1 / 1500 + (centred[10:20] @ Vt.T * (s / (s**2 + 1e-6))) @ U.T  # prediction = weights @ y
    root = np.column_stack([X[10:20], np.ones(10)]) @ ribbon.ribbon_.freedom.root
    np.testing.assert_allclose((root**2).sum(axis=1), 1500**2 * (weights**2).sum(axis=1), rtol=1e-6)


def test_degrees_of_freedom_of_directions_that_a_penalty_determines():
    """Scaling a relu unit's inputs up and its outputs down changes no prediction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=1100)
    base = MLPRegressor(hidden_layer_sizes=(8,), solver="lbfgs", alpha=1e-4, max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is not at a minimum
        ribbon = RibbonRegressor(base, noise="dof", law="normal", correction="HC1").fit(X, y)
    freedom, model = ribbon.ribbon_.freedom, ribbon.model_
    J = model.tangent(model.rows(X)).jacobian()[:, 0]
    H_r = J.T @ J / len(X) + np.diag(ribbon.curvature_.shift(model))
    seen, all_rows = J[::100] @ freedom.root, J[::100] @ np.linalg.pinv(H_r, rcond=1e-13, hermitian=True) @ J.T
    assert freedom.root.shape[1] < len(model.theta)
    assert_allclose((seen**2).sum(axis=1), (all_rows**2).sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize("p", [5, 40])
def test_fitted_ribbons_store_no_training_rows(p):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, p))
    y = X[:, 0] + rng.normal(size=300)
    stored = pickle.dumps(RibbonRegressor(correction="HC2", noise="dof").fit(X, y).ribbon_)
    found = [value for row, target in zip(X, y, strict=True) for value in (*row, target) if value.tobytes() in stored]
    assert not found


def test_joint_predictions_of_many_rows_have_the_fewest_degrees_of_freedom_of_an_output():
    X, Y = rng.normal(size=(3000, 3)), rng.normal(size=(3000, 2))
    ribbon = RibbonRegressor(Ridge(alpha=np.array([0.0, 1e5])), noise="dof").fit(X, Y)
    joint = ribbon.predict_distribution(X[:4], kind="confidence")
    first, second = (own.latent.df for own in joint.outputs)
    assert (first < second).all()  # a strong penalty leaves fewer parameters
    np.testing.assert_array_equal(joint.latent.df, first)


def test_one_dominating_observation_bounds_the_degrees_of_freedom():
    def degrees(sizes, copies):
        E = np.array(sizes, dtype=float)[:, None, None]
        freedom = Freedom.from_contributions(np.eye(1), E, np.array(copies), len(E), None, 1.0, 100.0)
        return freedom.of(lambda V: V)

    expected = _with_one_dominating(12**2 / 84 - 1, 9.0, 12.0, 84.0)  # squares 9, 1, 1, 1
    assert expected > 1.2  # where Satterthwaite's formula gives less than 1
    assert_allclose(degrees([3, 1, 1, 1], [1, 1, 1, 1]), expected)
    assert_allclose(degrees([3, 1], [1, 3]), expected)
    assert_allclose(degrees([3, 1, 50], [1, 3, 0]), expected)  # a row of weight zero
    assert_allclose(degrees([1, 1, 1, 1, 1], [1] * 5), 4)
