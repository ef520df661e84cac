"""Sums and products of a network's layers against those of its Jacobian, whatever its shape."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skribbon.curvature import matrix_free
from skribbon.models import layers as dense_layers
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


def tangent_of(units):
    rng = np.random.default_rng(0)
    shapes = [*pairwise(units), *((m,) for m in units[1:])]
    theta = rng.normal(size=sum(int(np.prod(shape)) for shape in shapes))
    loss = Tweedie() if units[-1] == 1 else Categorical(units[-1])
    output_map = None if units[-1] == 1 else loss.basis
    model = MultilayerPerceptron(
        theta=theta, loss=loss, l2=0 * theta, units=units, activation="tanh", output_map=output_map
    )
    return model.tangent(rng.normal(size=(11, units[0])))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("r", [1, 2, 5])
def test_gram_matrices(name, r):
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(1)
    J, R = tangent.jacobian(), rng.normal(size=(*tangent.f.shape, r))
    H = np.einsum("nkp,nkr,nlr,nlq->pq", J, R, R, J)
    assert_allclose(tangent.gram(R), H, rtol=1e-11, atol=1e-11 * np.abs(H).max())


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("r", [1, 3, 20])  # one by one, and as stacks
def test_products_with_the_jacobian(name, r):
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(2)
    J, (n, k) = tangent.jacobian(), tangent.f.shape
    V, U, u, c = (rng.normal(size=shape) for shape in ((J.shape[2], r), (n, k, r), (n, k), (n, r)))
    for W in (V, V[::-1]):  # in any order of memory
        assert_allclose(tangent.jvp(W), J @ W, atol=1e-11)
    assert_allclose(tangent.vjp(U), np.einsum("nkp,nkr->pr", J, U), atol=1e-11)
    assert_allclose(tangent.weighted_scores(u, c), np.einsum("nkp,nk,nr->pr", J, u, c), atol=1e-11)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("m", [1, 3, 20])  # through the layers, and by scores
@pytest.mark.parametrize("room", [1, 2**22])  # a few rows at a time, or all
def test_products_with_a_gram_matrix(name, m, room, monkeypatch):
    monkeypatch.setattr(dense_layers, "FLOATS", room)
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(6)
    V, R = rng.normal(size=(len(tangent.model.theta), m)), rng.normal(size=(*tangent.f.shape, 4))
    exact = tangent.gram(R) @ V
    assert np.abs(tangent.gram_product(R, V) - exact).max() < 1e-12 * np.abs(exact).max()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("room", [1, 2**22])
def test_layer_scores_equal_explicit_scores(name, room, monkeypatch):
    monkeypatch.setattr(dense_layers, "FLOATS", room)
    monkeypatch.setattr(matrix_free, "PANEL", 7)
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(7)
    (n, k), p, layers = tangent.f.shape, len(tangent.model.theta), tangent.model.layers
    R = rng.normal(size=(n, k, 3))
    S = (R.transpose(0, 2, 1) @ tangent.jacobian()).reshape(-1, p)
    scores, V, C = tangent.layer_scores(R), rng.normal(size=(p, 4)), rng.normal(size=(n, 3, 4))
    assert_allclose(scores.product(V).reshape(-1, 4), S @ V, atol=1e-11)
    assert_allclose(scores.transposed_product(C), S.T @ C.reshape(-1, 4), atol=1e-11)
    biases = np.concatenate([places[-1] for places in layers])
    assert_allclose(matrix_free.of_biases(scores), S[:, biases], atol=1e-12)
    scales, root, D = (
        [rng.random(len(places) - 1) for places in layers],
        rng.normal(size=(len(biases), 2)),
        np.zeros((p, p)),
    )
    for places, scale in zip(layers, scales, strict=True):
        D[places[:-1], places[:-1]] = scale[:, None]
    D[np.ix_(biases, biases)] = root @ root.T
    assert_allclose(np.tril(matrix_free.kernel(scores, scales, root)), np.tril(S @ D @ S.T), atol=1e-10)


@pytest.mark.parametrize("name", NETWORKS)
def test_squares_and_kronecker_sums(name):
    tangent, rng = tangent_of(NETWORKS[name]), np.random.default_rng(4)
    (n, k), weight = tangent.f.shape, rng.random(len(tangent.f))
    R = rng.normal(size=(n, k, 2))
    S = R.transpose(0, 2, 1) @ tangent.jacobian()
    assert_allclose(tangent.squares(R), (S**2).sum(axis=(0, 1)), rtol=1e-11)
    for (A, B), places, a in zip(
        tangent.kronecker_sums(R, weight), tangent.model.layers, tangent.activations, strict=True
    ):
        assert_allclose(A[:-1, :-1], (a.T * weight) @ a, rtol=1e-11)
        assert_allclose(A[-1], [*(weight @ a), weight.sum()], rtol=1e-11)
        biases = S[:, :, places[-1]].reshape(2 * n, -1)
        assert_allclose(B, biases.T @ biases, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("K", [2, 4])
def test_gram_matrices_of_linear_classes(form, K):
    (n, d), rng = (9, 5), np.random.default_rng(3)
    theta = rng.normal(size=(K - 1) * (d + 1))
    model = LinearPredictor(theta=theta, loss=Categorical(K), l2=0 * theta)
    tangent = model.tangent(model.rows(form(rng.normal(size=(n, d)))))
    J, B = tangent.jacobian(), rng.normal(size=(n, K - 1, K - 1))
    C = B + B.transpose(0, 2, 1)
    assert_allclose(tangent.hessian(C), np.einsum("nkp,nkl,nlq->pq", J, C, J), atol=1e-11)
    for R in (B, B[:, :, :1]):
        assert_allclose(tangent.gram(R), np.einsum("nkp,nkr,nlr,nlq->pq", J, R, R, J), atol=1e-11)
