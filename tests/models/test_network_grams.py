"""Packed Gram matrices of a network's layers against those of its Jacobian, whatever its shape."""

import pickle
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor
from skribbon._core.rows import unpacked
from skribbon.models import _layers, _scores, mlp
from skribbon.models.base import RootSquares
from skribbon.models.linear import LinearPredictor
from skribbon.models.losses import Categorical, Tweedie
from skribbon.models.mlp import MultilayerPerceptron

NETWORKS = {
    "one hidden layer": (3, 6, 1),
    "wide and narrow": (1, 9, 1),  # no pairs to spare in the first layer
    "two hidden layers": (3, 5, 4, 1),
    "no hidden layer": (4, 1),
    "classes": (3, 5, 4),
    "classes behind two layers": (2, 4, 5, 3),
}


def tangent_of(units, n=11):
    rng = np.random.default_rng(0)
    shapes = [*pairwise(units), *((m,) for m in units[1:])]
    theta = rng.normal(size=sum(int(np.prod(shape)) for shape in shapes))
    loss = Tweedie() if units[-1] == 1 else Categorical(units[-1])
    output_map = None if units[-1] == 1 else loss.basis
    model = MultilayerPerceptron(
        theta=theta, loss=loss, l2=0 * theta, units=units, activation="tanh", output_map=output_map
    )
    return model.tangent(rng.normal(size=(n, units[0])))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("r", [1, 2])
@pytest.mark.parametrize("room", [2**20, 1])  # of pairs, all at once or few at a time
def test_packed_sums_are_gram_matrices(name, r, room, monkeypatch):
    monkeypatch.setattr(_layers, "BLOCK_BYTES", room)
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(1)
    n, k = tangent.f.shape
    J, roots = tangent.jacobian(), [rng.normal(size=(n, k, r)), rng.normal(size=(n, k, 1))]
    expected = [np.einsum("nkp,nkr,nlr,nlq->pq", J, R, R, J) for R in roots]
    for packed, R, H in zip(tangent.grams(roots), roots, expected, strict=True):
        assert_allclose(unpacked(packed), H, rtol=1e-11, atol=1e-11 * np.abs(H).max())
        assert_allclose(tangent.gram(R), H, rtol=1e-11, atol=1e-11 * np.abs(H).max())
    first, second = tangent.grams(roots)[0], tangent.grams(roots)[0]
    assert_allclose(unpacked(reduce(add, [first, second])), 2 * expected[0], atol=1e-10 * np.abs(expected[0]).max())


def test_pairs_are_taken_where_they_save_work():
    assert _layers.has_few_pairs(9, 64)
    assert not _layers.has_few_pairs(65, 1)
    assert not _layers.has_few_pairs(2, 9)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("r", [1, 3, 20])  # one by one, and as stacks
def test_products_with_the_jacobian(name, r):
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(2)
    J, (n, k) = tangent.jacobian(), tangent.f.shape
    V, U, u, c = (rng.normal(size=shape) for shape in ((J.shape[2], r), (n, k, r), (n, k), (n, r)))
    for W in (V, V[::-1]):  # in any order of memory
        assert_allclose(tangent._jvp(W), J @ W, atol=1e-11)
        assert_allclose(tangent.jvp(W), J @ W, atol=1e-11)
        if k == 1:
            assert_allclose(tangent._narrow_jvp(W), J @ W, atol=1e-11)
    assert_allclose(tangent.vjp(U), np.einsum("nkp,nkr->pr", J, U), atol=1e-11)
    assert_allclose(tangent.weighted_scores(u, c), np.einsum("nkp,nk,nr->pr", J, u, c), atol=1e-11)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("m", [1, 3, 20])  # through the layers, and by scores
@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("room", [1, 2**22])  # a few rows at a time, or all
def test_products_with_a_gram_matrix_in_either_precision(name, m, precision, room, monkeypatch):
    monkeypatch.setattr(_scores, "CHUNK", room)
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(6)
    V, R = rng.normal(size=(len(tangent.network.theta), m)), rng.normal(size=(*tangent.f.shape, 4))
    exact, found = tangent.gram(R) @ V, tangent.gram_product(R, V.astype(precision))
    assert found.dtype == np.float64
    error = 1e-12 if precision == np.float64 else 1e-6
    assert np.abs(found - exact).max() < error * np.abs(exact).max()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("room", [1, 2**22])
def test_scores_that_are_not_formed(name, room, monkeypatch):
    monkeypatch.setattr(_scores, "CHUNK", room)
    monkeypatch.setattr(_scores, "PANEL", 7)
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(7)
    (n, k), p, layers = tangent.f.shape, len(tangent.network.theta), tangent.network.layers
    R = rng.normal(size=(n, k, 3))
    S = (R.transpose(0, 2, 1) @ tangent.jacobian()).reshape(-1, p)
    both = (
        tangent.take(np.arange(5)).layer_scores(R[:5], float),
        tangent.take(np.arange(5, n)).layer_scores(R[5:], float),
    )
    scores, V, C = both[0] + both[1], rng.normal(size=(p, 4)), rng.normal(size=(n, 3, 4))
    assert_allclose(scores.product(V).reshape(-1, 4), S @ V, atol=1e-11)
    assert_allclose(scores.transposed_product(C), S.T @ C.reshape(-1, 4), atol=1e-11)
    assert_allclose(scores.gram_product(V), S.T @ (S @ V), rtol=1e-9, atol=1e-9)
    biases = np.concatenate([places[-1] for places in layers])
    assert_allclose(scores.of_biases(), S[:, biases], atol=1e-12)
    scales, root, D = (
        [rng.random(len(places) - 1) for places in layers],
        rng.normal(size=(len(biases), 2)),
        np.zeros((p, p)),
    )
    for places, scale in zip(layers, scales, strict=True):
        D[places[:-1], places[:-1]] = scale[:, None]
    D[np.ix_(biases, biases)] = root @ root.T
    assert_allclose(np.tril(scores.kernel(scales, root)), np.tril(S @ D @ S.T), atol=1e-10)


@pytest.mark.parametrize("name", NETWORKS)
def test_sums_do_not_depend_on_how_many_rows_are_at_hand(name, monkeypatch):
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(4)
    (n, k), weight = tangent.f.shape, rng.random(len(tangent.f))
    R = rng.normal(size=(n, k, 2))
    squares, sums = tangent.squares(R), tangent.kronecker_sums(R, weight)
    monkeypatch.setattr(mlp, "CACHE", 1)  # row by row
    assert_allclose(tangent.squares(R), squares, rtol=1e-12)
    for (A, S), (a, s) in zip(tangent.kronecker_sums(R, weight), sums, strict=True):
        assert_allclose(A, a, rtol=1e-12)
        assert_allclose(S, s, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_single_precision_of_weighted_scores_is_far_below_what_they_are_along_any_direction(name, monkeypatch):
    """Along eigenvectors of the scores' own scatter, down to curvatures of 1e-10 of the largest."""
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(5)
    (n, k), r = tangent.f.shape, 200
    u, c = rng.normal(size=(n, k)), rng.standard_gamma(1.0, (n, r)) - 1
    exact = tangent.weighted_scores(u, c)
    monkeypatch.setattr(mlp, "LARGE", 0)
    error = tangent.weighted_scores(u, c) - exact
    assert 0 < np.abs(error).max() < 1e-5 * np.abs(exact).max()
    values, vectors = np.linalg.eigh(tangent.gram(u[:, :, None]))
    along = vectors[:, values > 1e-10 * values[-1]]
    sizes, errors = (np.sqrt(np.mean((along.T @ V) ** 2, axis=1)) for V in (exact, error))
    assert (errors < 0.02 * sizes).all()
    assert_allclose(tangent.weighted_scores(1e100 * u, c), 1e100 * exact, rtol=1e-3, atol=1e95 * np.abs(exact).max())


SINGLE = [name for name, units in NETWORKS.items() if units[-1] == 1]


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("triangle", [np.tril, np.triu, np.asarray])
@pytest.mark.parametrize("room", [2**20, 1])
def test_squares_by_layers_are_those_of_the_root(name, triangle, room, monkeypatch):
    monkeypatch.setattr(_layers, "BLOCK_BYTES", room)
    tangent = tangent_of(NETWORKS[name])
    p = tangent.jacobian().shape[2]
    root = triangle(np.random.default_rng(4).normal(size=(p, p)))
    squares = replace(_layers.LayerSquares.of(tangent.network.layers, root), root=None)  # which is not looked at
    assert_allclose(squares(tangent), RootSquares(root)(tangent), rtol=1e-11)


def test_squares_that_rounding_would_hide_are_those_of_the_root(monkeypatch):
    """Where a covariance is wide along what the rows do not see, hardly anything is left of its products."""
    tangent, rng = tangent_of((3, 6, 1)), np.random.default_rng(5)
    J = tangent.jacobian()[:, 0]
    unseen = np.linalg.svd(J)[2][-2:].T  # (p, 2)
    root = np.column_stack([1e6 * unseen, rng.normal(size=(J.shape[1], J.shape[1] - 2))])
    exact, squares = RootSquares(root)(tangent), _layers.LayerSquares.of(tangent.network.layers, root)
    assert_allclose(squares(tangent), exact, rtol=1e-7)
    monkeypatch.setattr(_layers, "ACCURACY", np.inf)
    assert np.abs(squares(tangent) / exact - 1).max() > 1e-7


def test_layers_make_squares_of_many_rows_only():
    network, eye = tangent_of((5, 12, 1)).network, np.eye(85)
    assert isinstance(network.squares_along(eye, 170), _layers.LayerSquares)
    assert isinstance(network.squares_along(eye, 169), RootSquares)
    assert isinstance(network.squares_along(eye[:, :20], 170), RootSquares)
    assert isinstance(network.squares_along(np.full((85, 85), np.inf), 170), RootSquares)
    assert isinstance(tangent_of((5, 12, 3)).network.squares_along(np.eye(111), 10**4), RootSquares)


@pytest.mark.parametrize("shape", [(3, 4), (5, 3), (20, 2)])  # features, classes: the last has too many pairs
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_packed_sums_of_linear_classes(shape, form):
    (d, K), rng, n = shape, np.random.default_rng(3), 9
    loss = Categorical(K)
    theta = rng.normal(size=(K - 1) * (d + 1))
    model = LinearPredictor(theta=theta, loss=loss, l2=0 * theta)
    tangent = model.tangent(model.rows(form(rng.normal(size=(n, d)))))
    J, k = tangent.jacobian(), K - 1
    R, s, B = rng.normal(size=(n, k, 3)), rng.normal(size=(n, k)), rng.normal(size=(n, k, k))
    C = B + B.transpose(0, 2, 1)
    scatter = np.einsum("nkp,nk,nl,nlq->pq", J, s, s, J)
    expected = [np.einsum("nkp,nkr,nlr,nlq->pq", J, R, R, J), scatter]
    for packed, H in zip(tangent.grams([R, s[:, :, None]]), expected, strict=True):
        assert_allclose(unpacked(packed), H, atol=1e-11)
    both = tangent.hessian_and_scatter(C, s, s)
    for packed, H in zip(both, (np.einsum("nkp,nkl,nlq->pq", J, C, J), scatter), strict=True):
        assert_allclose(unpacked(packed + packed), 2 * H, atol=1e-11)
    assert_allclose(tangent.hessian(C), np.einsum("nkp,nkl,nlq->pq", J, C, J), atol=1e-11)


def test_what_predictions_of_many_rows_prepare_is_kept_and_never_stored():
    X = np.random.default_rng(0).normal(size=(400, 5))
    y = np.tanh(X[:, 0]) + 0.1 * X[:, 1]
    mlp = MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", solver="lbfgs", alpha=1.0, random_state=0)
    ribbon = RibbonRegressor(mlp.set_params(max_iter=3000), noise="dof").fit(X, y)
    stored = pickle.dumps(ribbon)
    first = ribbon.predict_interval(X)
    kept = ribbon.ribbon_.kept["layers"]
    np.testing.assert_array_equal(ribbon.predict_interval(X), first)
    assert ribbon.ribbon_.kept["layers"] is kept
    assert len(pickle.dumps(ribbon)) == len(stored)
    wider = ribbon.with_alpha(0.25)
    assert "layers" not in wider.ribbon_.kept  # another root
    std = ribbon.predict_std(X, kind="epistemic")
    np.testing.assert_allclose(wider.predict_std(X, kind="epistemic"), std * np.sqrt(401 / 101), rtol=1e-7)


@pytest.mark.parametrize("side", ["lower", "upper", None])
def test_a_single_row_reads_one_triangle_of_the_root(side):
    tangent = tangent_of((5, 40, 1)).take([3])
    network, p = tangent.network, len(tangent.network.theta)
    root = {"lower": np.tril, "upper": np.triu, None: np.array}[side](np.random.default_rng(1).normal(size=(p, p)))
    kept = {}
    squares = network.squares_along(root, 1, kept)
    assert kept == {"side": side}
    assert squares.side == side
    assert_allclose(squares(tangent), RootSquares(root)(tangent), rtol=1e-12)
    assert network.squares_along(root, 2, kept).side is None
