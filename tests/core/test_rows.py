"""Sums over rows do not depend on how the rows are cut."""

import blocks
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPClassifier

from skribbon._core import rows as _rows
from skribbon._core.rows import Moments, Rows, Sums, row_blocks
from skribbon.curvature import EmpiricalFisher, GaussNewton, Hessian
from skribbon.models import as_parametric

N = 400  # several of the smallest blocks


def rows_of(estimator, form=np.asarray):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) * (rng.random((N, 3)) < 0.7)
    y = rng.integers(0, 3, N)
    weight = rng.integers(0, 4, N).astype(float)
    model = as_parametric(estimator.fit(X, y), y, weight)
    return Rows(model, form(X), model.encode_target(y), weight)


MODELS = {
    "ridge": lambda: rows_of(Ridge()),
    "ridge-sparse": lambda: rows_of(Ridge(), sparse.csr_array),
    "poisson": lambda: rows_of(PoissonRegressor()),
    "multinomial": lambda: rows_of(LogisticRegression()),
    "multinomial-sparse": lambda: rows_of(LogisticRegression(), sparse.csr_array),
    "network": lambda: rows_of(
        MLPClassifier(hidden_layer_sizes=(4,), solver="lbfgs", alpha=5.0, max_iter=500, random_state=0)
    ),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def rows(request):
    return request.param()


@pytest.fixture(params=[Hessian(), GaussNewton(), EmpiricalFisher()], ids=lambda curvature: type(curvature).__name__)
def curvature(request):
    return request.param


def assert_same(a, b):
    for name in ("n", "g", "g2", "chi2"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-10, atol=1e-10, err_msg=name)
    pairs = zip(a.curvature, b.curvature, strict=True)
    for mine, theirs in pairs if isinstance(a.curvature, Sums) else [(a.curvature, b.curvature)]:
        assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10, err_msg="curvature")


def part(rows, where):
    return Rows(rows.model, rows.X[where], rows.y[where], rows.weight[where])


# ---------------------------------------------------------------------- blocks
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("width", [0, 1, 10**9])
def test_blocks_cover_every_row_once(n, width):
    covered = np.concatenate([np.arange(n)[rows] for rows in row_blocks(n, width)])
    assert (covered == np.arange(n)).all()


def test_blocks_shrink_with_the_width_of_a_row(monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 8 * 10_000)
    assert [len(row_blocks(1000, width)) for width in (1, 20, 10**6)] == [1, 2, 63]  # 16 rows at least


def test_block_size_does_not_matter(rows, curvature, monkeypatch):
    whole = Moments.from_rows(rows, curvature)
    assert rows.sum(lambda block: 1) == 1
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 1)
    assert rows.sum(lambda block: 1) == 25
    assert_same(Moments.from_rows(rows, curvature), whole)


def test_moments_add(rows, curvature):
    left, right = (Moments.from_rows(part(rows, where), curvature) for where in (slice(0, 150), slice(150, None)))
    assert_same(left + right, Moments.from_rows(rows, curvature))


def test_map_keeps_the_order_of_rows(rows, monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 1)
    y, weight = rows.map(lambda block: (block.y, block.weight))
    assert (y == rows.y).all() and (weight == rows.weight).all()
    assert_allclose(rows.map(lambda block: block.f), rows.model.raw(rows.model.rows(rows.X)), rtol=1e-12)


def test_a_block_runs_the_model_once(rows, monkeypatch):
    count, propagate = [], type(rows.model).tangent
    monkeypatch.setattr(type(rows.model), "tangent", lambda self, Z: count.append(1) or propagate(self, Z))
    Moments.from_rows(rows, GaussNewton())
    assert len(count) == 1


def test_rows_of_weight_zero_may_have_an_infinite_loss():
    rows = MODELS["ridge"]()
    none = rows.weight == 0
    assert none.any()
    broken = Rows(rows.model, rows.X, np.where(none, np.nan, rows.y), rows.weight)
    for curvature in (GaussNewton(), Hessian()):
        assert_same(Moments.from_rows(broken, curvature), Moments.from_rows(part(rows, ~none), curvature))


# ---------------------------------------------------------------------- what the sums are
def test_moments_against_plain_formulas(rows):
    model, weight = rows.model, rows.weight
    Z = model.rows(rows.X)
    G = blocks.scores(model, Z, rows.y)
    G = G.toarray() if sparse.issparse(G) else G
    moments = Moments.from_rows(rows, GaussNewton())
    g_bar = weight @ G / weight.sum()
    assert moments.n == weight.sum()
    assert_allclose(moments.g_bar, g_bar, atol=1e-13)
    assert_allclose(moments.g2, weight @ G**2, rtol=1e-10, atol=1e-12)
    variance = np.var(np.repeat(G, weight.astype(int), axis=0), axis=0)
    assert_allclose(moments.standard_error, np.sqrt(variance / weight.sum()), rtol=1e-8, atol=1e-14)
    assert_allclose(moments.curvature, blocks.ggn(model, Z, rows.y, weight), rtol=1e-10, atol=1e-10)


def test_chi2_is_pearsons():
    ridge, poisson, logistic = (MODELS[name]() for name in ("ridge", "poisson", "multinomial"))
    for rows, variance in ((ridge, lambda mu: 1.0), (poisson, lambda mu: mu)):
        f = rows.model.raw(rows.model.rows(rows.X))[:, 0]
        mu = np.exp(f) if rows is poisson else f
        expected = rows.weight @ ((rows.y - mu) ** 2 / variance(mu))
        assert_allclose(Moments.from_rows(rows, GaussNewton()).chi2, expected, rtol=1e-12)
    assert Moments.from_rows(logistic, GaussNewton()).chi2 == 0


def test_sums_add_and_divide_element_by_element():
    total = (Sums([np.ones(2), 1.0]) + Sums([np.ones(2), 3.0])) / 2
    assert_allclose(total[0], [1.0, 1.0])
    assert total[1] == 2.0
    with pytest.raises(ValueError):
        Sums([1.0]) + Sums([1.0, 2.0])
