"""Covariance of several raw predictions by products of features, against the root that it is made of."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skribbon import RibbonClassifier
from skribbon._core.linalg import batch_gram
from skribbon.models import linear
from skribbon.models.base import RootSquares
from skribbon.models.linear import LinearPredictor, PairedSquares
from skribbon.models.losses import Categorical


def problem(d, k, n=266, centre=0.0, r=None):
    """A linear predictor of d features and an intercept, rows X (n, d) and a root (p, r)."""
    rng = np.random.default_rng([d, k])
    p = k * (d + 1)
    model = LinearPredictor(theta=rng.normal(size=p), loss=Categorical(k + 1), l2=np.zeros(p))
    root = rng.normal(size=(p, p if r is None else r))
    spread = np.diag(np.r_[np.ones(d), 0]) + np.outer(np.r_[np.zeros(d), 1], np.r_[np.full(d, -centre), 1])
    root = np.einsum("ij,kjr->kir", spread, root.reshape(k, d + 1, -1)).reshape(p, -1)  # variance near the centre
    return model, centre + rng.normal(size=(n, d)), root


def relative_error(got, expected):
    size = np.sqrt(np.einsum("nkk,nll->nkl", expected, expected))
    return (np.abs(got - expected) / size).max()


@pytest.mark.parametrize(("d", "k"), [(1, 2), (4, 2), (3, 7), (20, 4)])
@pytest.mark.parametrize("centre", [0.0, 30.0, 1e5, 1e8])
def test_products_of_features_say_what_the_root_says(d, k, centre):
    model, X, root = problem(d, k, centre=centre)
    tangent = model.tangent(model.rows(X))
    expected = batch_gram(tangent.jvp(root))
    got = PairedSquares.of(root, k)(tangent)
    assert relative_error(got, expected) < 1e-9
    np.testing.assert_array_equal(got, got.transpose(0, 2, 1))


@pytest.mark.parametrize("centre", [0.0, 1e8])  # by products, and by the root
def test_a_few_rows_at_a_time_say_the_same(centre, monkeypatch):
    model, X, root = problem(4, 3, centre=centre)
    whole = model.raw_and_covariance(X, root)
    monkeypatch.setattr(linear, "row_blocks", lambda n, width: [slice(i, min(i + 100, n)) for i in range(0, n, 100)])
    for one, other in zip(whole, model.raw_and_covariance(X, root), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(one).max())


def test_what_a_root_is_prepared_to_is_kept_and_never_stored():
    ribbon = RibbonClassifier(LogisticRegression(max_iter=1000)).fit(*load_iris(return_X_y=True))
    X = np.repeat(load_iris().data, 4, axis=0)
    before, state, prepared = ribbon.predict_proba(X), pickle.dumps(ribbon), ribbon.ribbon_.kept["pairs"]
    np.testing.assert_array_equal(ribbon.predict_proba(X), before)
    assert ribbon.ribbon_.kept["pairs"] is prepared
    np.testing.assert_array_equal(pickle.loads(state).predict_proba(X), before)
    assert not pickle.loads(state).ribbon_.kept
    other = ribbon.with_alpha(0.1)  # a root of its own
    assert (np.abs(other.predict_proba(X) - before) > 1e-3).any()


def test_a_root_of_few_columns_and_rows_without_spread():
    model, X, root = problem(5, 3, r=2)
    root.reshape(3, 6, 2)[:, -1] = 0.0  # of the intercepts
    X[:4] = 0.0
    tangent = model.tangent(model.rows(X))
    got = PairedSquares.of(root, 3)(tangent)
    assert not got[:4].any()
    assert relative_error(got[4:], batch_gram(tangent.jvp(root))[4:]) < 1e-9


def test_what_overflows_is_left_to_the_root():
    model, X, root = problem(3, 2)
    tangent = model.tangent(model.rows(X))
    for factor in (1e160, 1e300):
        with np.errstate(all="raise", under="ignore"):
            got = PairedSquares.of(factor * root, 2)(tangent)
        np.testing.assert_array_equal(got, RootSquares(factor * root)(tangent))
        assert np.isfinite(got).all()


def test_sparse_rows():
    model, X, root = problem(6, 3)
    X[np.abs(X) < 1] = 0
    dense, thin = (model.tangent(model.rows(A)) for A in (X, sparse.csr_matrix(X)))
    covariance = PairedSquares.of(root, 3)
    np.testing.assert_allclose(covariance(thin), covariance(dense), rtol=1e-9)


def test_it_is_taken_where_it_is_cheaper():
    model, _, root = problem(16, 25)
    assert type(model.squares_along(root, 10)) is RootSquares
    assert type(model.squares_along(root, 10_000)) is PairedSquares
    assert type(model.squares_along(root[:, :5], 10_000)) is RootSquares  # few columns are few products


def test_predictions_of_many_rows_are_those_of_few():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = (X @ rng.normal(size=(3, 5)) + rng.gumbel(size=(3000, 5))).argmax(axis=1)
    ribbon = RibbonClassifier(LogisticRegression()).fit(X, y)
    assert type(ribbon.model_.squares_along(ribbon.ribbon_.root, 3000)) is PairedSquares
    assert type(ribbon.model_.squares_along(ribbon.ribbon_.root, 2)) is RootSquares
    np.testing.assert_allclose(ribbon.predict_proba(X)[:2], ribbon.predict_proba(X[:2]), rtol=0, atol=1e-12)
