"""Every derivative of a user's function, on every route, against autograd on the whole batch."""

import pickle
import warnings
from collections import namedtuple
from dataclasses import replace
from functools import cache

import autograd.numpy as anp
import blocks
import numpy as np
import pytest
from autograd import hessian, jacobian
from autograd.misc import flatten
from autograd.scipy.special import expit, gammaln
from numpy.testing import assert_allclose

from skribbon.models.architectures import Tree, leaves_of, spread
from skribbon.models.autograd import derivatives
from skribbon.models.autograd.derivatives import (
    AutogradLoss,
    AutogradModel,
    Looped,
    Replicated,
    Supplied,
    check_supplied,
    fastest_route,
)
from skribbon.models.losses import Categorical, GaussianNLL, Huber, Tweedie

N, D = 5, 3
RNG = np.random.default_rng(0)
X = RNG.uniform(0.2, 2.0, (N, D))
Y = RNG.normal(size=N)
WEIGHT = RNG.integers(1, 4, N).astype(float)


def random(*shape):
    return RNG.normal(size=shape)


# ---------------------------------------------------------------------- functions that users write
def network(params, X):
    (W1, b1), (W2, b2) = params
    return anp.tanh(X @ W1 + b1) @ W2 + b2


def layers(k=1):
    return [(random(D, 4), random(4)), (random(4, k), random(k))]


Line = namedtuple("Line", "slope intercept")
STACKED = {
    "network": (network, layers()),
    "network of two columns": (network, layers(2)),
    "first column": (lambda q, X: network(q, X)[:, 0], layers()),
    "column plus number": (lambda q, X: (anp.tanh(X @ q[0]) @ q[1])[:, 0] + q[2], [random(D, 4), random(4, 1), 0.3]),
    "vector of weights": (lambda q, X: expit(X @ q["w"] + q["b"]), {"w": random(D), "b": 0.1}),
    "output vector": (lambda q, X: anp.tanh(X @ q[0] + q[1]) @ q[2], (random(D, 4), random(4), random(4))),
    "sum over the last axis": (lambda q, X: anp.sum(anp.tanh(X @ q[0]) * q[1], axis=-1), (random(D, 4), random(4))),
    "flattened": (lambda q, X: (X @ q[0]).ravel() ** 2, (random(D, 1),)),
    "namedtuple": (lambda q, X: anp.tanh(X @ q.slope + q.intercept), Line(random(D), 0.5)),
}
ELEMENTWISE = {
    "saturation": (lambda q, X: q["top"] * X[:, 0] / (q["half"] + X[:, 0]), {"top": 2.0, "half": 0.5}),
    "entries of a vector": (lambda q, X: q[0] * anp.exp(-q[1] * X[:, 1]) + q[2], random(3)),
    "entries of a matrix": (lambda q, X: q[0][0, 1] * X[:, 1] + q[0][1, 0] * X[:, 0] ** 2, (random(2, 2),)),
    "row sums": (lambda q, X: anp.sum(anp.tanh(X * q[0]), axis=1) + q[1], (random(D), 0.2)),
    "two formulas": (lambda q, X: anp.stack([q[0] * X[:, 0], q[1] + 0 * X[:, 1]], axis=1), (0.5, 0.3)),
    "number alone": (lambda q, X: q * X[:, 0] ** 2, 1.5),
}
LOOPED = {
    "sum over axis 1": (lambda q, X: anp.sum(anp.tanh(X @ q[0]) * q[1], axis=1), (random(D, 4), random(4))),
    "radial": (
        lambda q, X: anp.exp(-anp.sum((X[:, None, :] - q[0][None]) ** 2, axis=2)) @ q[1],
        (random(4, D), random(4)),
    ),
    "slice": (lambda q, X: anp.tanh(X[:, 1:] @ q[0]) @ q[1] + X[:, 0] * q[2], (random(D - 1, 4), random(4), random())),
    "no forward derivative": (lambda q, X: gammaln(1 + anp.exp(anp.dot(X, q[0]))), (random(D),)),
}
FUNCTIONS = {**STACKED, **ELEMENTWISE, **LOOPED}


def model_of(name, loss=None, route=None):
    f, params = FUNCTIONS[name]
    tree, theta = Tree.of(params)
    k = f(params, X).size // N
    loss = loss or (GaussianNLL() if k == 2 else Tweedie())
    route = route or fastest_route(f, tree, theta, X[:8], k)
    return AutogradModel(
        theta=theta, loss=loss, l2=np.full(len(theta), 0.1), f=f, tree=tree, n_columns=k, route=route, probe=X[:8]
    )


def flat_function(name):
    """f as (n, k) of the vector that autograd's own flattening makes, and that vector; dicts come sorted."""
    f, params = FUNCTIONS[name]
    params = tuple(params) if isinstance(params, Line) else params
    theta, unflatten = flatten(params)
    rewrap = Line._make if name == "namedtuple" else lambda q: q
    return lambda theta: anp.reshape(f(rewrap(unflatten(theta)), X), (N, -1)), theta


def order(name):
    """Where each coordinate of the model's theta lies in autograd's vector."""
    params = FUNCTIONS[name][1]
    if not isinstance(params, dict):
        return np.arange(Tree.of(params)[1].size)
    starts, at = {}, 0
    for key in sorted(params):
        starts[key], at = at, at + np.size(params[key])
    return np.concatenate([starts[key] + np.arange(np.size(params[key])) for key in params])


@cache
def reference(name):
    """Jacobian (n, k, p) and the Hessians (n, k, p, p) of f."""
    function, theta = flat_function(name)
    at = order(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # autograd's, about second derivatives of what is linear
        return jacobian(function)(theta)[:, :, at], hessian(function)(theta)[:, :, at][:, :, :, at]


@pytest.fixture(params=FUNCTIONS)
def name(request):
    return request.param


@pytest.fixture(params=["block", "column by column"])
def model(request, name, monkeypatch):
    if request.param != "block":
        monkeypatch.setattr(derivatives, "WIDE", 0)
        monkeypatch.setattr(derivatives, "FEW_PARAMETERS", 0)  # a loop over rows
    return model_of(name)


# ---------------------------------------------------------------------- routes
def test_the_fastest_route_is_found(name):
    route = model_of(name).route
    if name in LOOPED:
        assert isinstance(route, Looped)
    else:
        assert isinstance(route, Replicated)
        assert route.stacked == (name in STACKED)


def test_routes_are_verified_away_from_zero_parameters():
    # with W2 = 0 every derivative in W1 vanishes, also the wrong ones
    f, (W1, W2) = LOOPED["sum over axis 1"]
    tree, theta = Tree.of((W1, 0 * W2))
    assert isinstance(fastest_route(f, tree, theta, X[:8], 1), Looped)


def test_one_probe_row_is_enough():
    tree, theta = Tree.of(layers())
    assert isinstance(fastest_route(network, tree, theta, X[:1], 1), Replicated)


# ---------------------------------------------------------------------- the contract
def test_values_and_jacobian(model, name):
    J, _ = reference(name)
    assert_allclose(model.raw(X), flat_function(name)[0](flat_function(name)[1]), rtol=1e-12)
    assert_allclose(model.jacobian(X), J, rtol=1e-9, atol=1e-12)
    step = 1e-6 * np.random.default_rng(1).normal(size=len(model.theta))
    difference = (model.raw(X, model.theta + step) - model.raw(X, model.theta - step)) / 2
    assert_allclose(difference, J @ step, rtol=1e-5, atol=1e-11)


def test_products_with_the_jacobian(model, name):
    (J, _), rng = reference(name), np.random.default_rng(2)
    for r in (1, 4):
        V, U = rng.normal(size=(J.shape[2], r)), rng.normal(size=(*J.shape[:2], r))
        assert_allclose(blocks.jvp(model, X, V), J @ V, rtol=1e-9, atol=1e-11)
        assert_allclose(blocks.vjp(model, X, U), np.einsum("nkp,nkr->pr", J, U), rtol=1e-9, atol=1e-11)


def test_curvatures(model, name):
    (J, second), f = reference(name), model.raw(X)
    u, C = model.loss.gradient(f, Y), model.loss.hessian(f, Y)
    R = model.loss.curvature_root(f, Y)
    assert_allclose(blocks.scores(model, X, Y), np.einsum("nk,nkp->np", u, J), rtol=1e-9, atol=1e-11)
    ggn = np.einsum("n,nkp,nkl,nlq->pq", WEIGHT, J, R @ R.transpose(0, 2, 1), J)
    assert_allclose(blocks.ggn(model, X, Y, WEIGHT), ggn, rtol=1e-9, atol=1e-9)
    H = np.einsum("n,nkp,nkl,nlq->pq", WEIGHT, J, C, J) + np.einsum("n,nk,nkpq->pq", WEIGHT, u, second)
    scale = np.abs(H).max()
    assert_allclose(blocks.hessian(model, X, Y, WEIGHT), H, rtol=0, atol=1e-10 * scale)
    V = np.random.default_rng(3).normal(size=(len(H), 3))
    assert_allclose(blocks.hessian_product(model, X, Y, WEIGHT, V), H @ V, rtol=0, atol=1e-9 * scale)
    assert_allclose(blocks.ggn_product(model, X, Y, WEIGHT, V), ggn @ V, rtol=0, atol=1e-9 * scale)


def test_softmax_sees_its_own_coordinates():
    tree, theta = Tree.of(layers(3))
    loss = Categorical(3)
    route = fastest_route(network, tree, theta, X[:8], 3)
    model = AutogradModel(
        theta=theta,
        loss=loss,
        l2=0 * theta,
        f=network,
        tree=tree,
        n_columns=3,
        route=route,
        probe=X[:8],
        output_map=loss.basis,
    )
    J = jacobian(lambda theta: network(tree.unpack(theta), X) @ loss.basis)(theta)
    assert model.loss.n_outputs == 2
    assert_allclose(model.jacobian(X), J, rtol=1e-9, atol=1e-12)
    labels = np.arange(N) % 3.0
    u = loss.gradient(model.raw(X), labels)
    assert_allclose(blocks.scores(model, X, labels), np.einsum("nk,nkp->np", u, J), rtol=1e-9, atol=1e-12)


def test_wide_models_have_blocks_of_their_own(monkeypatch):
    model = model_of("network")
    assert model.row_width == len(model.theta)
    monkeypatch.setattr(derivatives, "WIDE", 0)
    assert model.row_width == derivatives.WIDE_ROWS


def test_the_penalty_moves_with_the_parameters():
    model = model_of("network")
    assert_allclose(model.at(2 * model.theta).penalty_gradient, 0.2 * model.theta)


@pytest.mark.parametrize("name", ["network", "vector of weights", "namedtuple", "saturation", "radial"])
def test_last_layer(name):
    whole = model_of(name)
    last = whole.last_layer()
    p = len(last.theta)
    assert 0 < p < len(whole.theta)
    assert_allclose(last.theta, whole.theta[-p:])
    assert_allclose(last.raw(X), whole.raw(X))
    assert_allclose(last.jacobian(X), whole.jacobian(X)[:, :, -p:], rtol=1e-9, atol=1e-12)
    assert_allclose(
        blocks.hessian(last, X, Y, WEIGHT), blocks.hessian(whole, X, Y, WEIGHT)[-p:, -p:], rtol=1e-9, atol=1e-9
    )
    assert_allclose(pickle.loads(pickle.dumps(last)).raw(X), last.raw(X))


def test_a_single_array_is_its_own_last_layer():
    model = model_of("entries of a vector")
    assert model.last_layer() is model


def test_a_lambda_survives_pickling():
    model = model_of("saturation")
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.jacobian(X), model.jacobian(X))


# ---------------------------------------------------------------------- the user's own Jacobian
def saturation_jac(q, X):
    x = X[:, 0]
    return {"half": -q["top"] * x / (q["half"] + x) ** 2, "top": x / (q["half"] + x)}


@pytest.mark.parametrize("flat", [False, True])
def test_supplied_jacobian(flat):
    model = model_of("saturation")

    def jac(q, X):
        J = saturation_jac(q, X)
        return np.stack([J["top"], J["half"]], axis=1) if flat else J

    route = check_supplied(jac, model.f, model.tree, model.theta, X[:8], 1)
    assert isinstance(route, Supplied)
    supplied = replace(model, route=route)
    assert_allclose(supplied.jacobian(X), model.jacobian(X), rtol=1e-12)
    assert_allclose(blocks.scores(supplied, X, Y), blocks.scores(model, X, Y), rtol=1e-12)
    assert_allclose(pickle.loads(pickle.dumps(supplied)).jacobian(X), model.jacobian(X), rtol=1e-12)


def test_supplied_jacobian_of_lists_and_tuples():
    """The leaves of jac are found along the parameters, whatever nest they are in."""

    def f(q, X):
        return q[0] * X[:, 0] + (X[:, 1:] @ q[1][0] + q[1][1]) ** 2

    def jac(q, X):
        slope = 2 * (X[:, 1:] @ q[1][0] + q[1][1])
        return [X[:, 0], (slope[:, None] * X[:, 1:], slope)]

    tree, theta = Tree.of([0.5, (np.arange(1.0, X.shape[1]), -0.3)])
    route = check_supplied(jac, f, tree, theta, X[:8], 1)
    numerical = jacobian(lambda theta: f(tree.unpack(theta), X))(theta)
    assert_allclose(route.jacobian(f, tree, theta, X, 1)[:, 0], numerical, rtol=1e-10, atol=1e-12)


def test_wrong_jacobians_are_refused():
    model = model_of("saturation")
    arguments = model.f, model.tree, model.theta, X[:8], 1
    with pytest.raises(ValueError, match="jac is not the derivative of f"):
        check_supplied(lambda q, X: {"top": X[:, 0], "half": X[:, 0]}, *arguments)
    for wrong in (lambda q, X: np.ones(3), lambda q, X: {"top": X[:, 0]}, lambda q, X: [X[:, 0]]):
        with pytest.raises(ValueError, match="must return a nest like the parameters"):
            check_supplied(wrong, *arguments)


# ---------------------------------------------------------------------- losses that users write
def squared(f, y):
    return (f - y) ** 2 / 2


def normal(f, y):
    return (f[:, 1] + (y - f[:, 0]) ** 2 * anp.exp(-f[:, 1])) / 2


def huber(f, y):
    r = anp.abs(f - y)
    return anp.where(r <= 1.35, r**2 / 2, 1.35 * (r - 1.35 / 2))


@pytest.mark.parametrize(
    ("function", "named"),
    [(squared, Tweedie()), (normal, GaussianNLL()), (huber, Huber(1.35))],
    ids=["squared", "normal", "huber"],
)
def test_a_users_loss_is_the_named_one(function, named):
    k = named.n_outputs
    loss, f, y = AutogradLoss(function, k), 2 * random(40, k), random(40)
    for method in ("value", "gradient", "hessian"):
        assert_allclose(getattr(loss, method)(f, y), getattr(named, method)(f, y), rtol=1e-10, atol=1e-12)
    R = loss.curvature_root(f, y)
    values, vectors = np.linalg.eigh(loss.hessian(f, y))
    positive = (vectors * np.maximum(values, 0)[:, None]) @ vectors.transpose(0, 2, 1)
    assert_allclose(R @ R.transpose(0, 2, 1), positive, rtol=1e-9, atol=1e-12)


def test_a_lambda_loss_survives_pickling():
    loss = pickle.loads(pickle.dumps(AutogradLoss(lambda f, y: (f - y) ** 4)))
    assert_allclose(loss.gradient(np.ones((2, 1)), np.zeros(2)), 4)


# ---------------------------------------------------------------------- nests
def test_trees_keep_their_order_and_their_types():
    params = {"b": [np.ones((2, 3)), (4, 5.0)], "a": Line(np.zeros(2), np.float32(1))}
    tree, theta = Tree.of(params)
    assert theta.dtype == np.float64
    assert_allclose(theta, [1, 1, 1, 1, 1, 1, 4, 5, 0, 0, 1])
    again = tree.unpack(theta)
    assert list(again) == ["b", "a"]
    assert isinstance(again["a"], Line)
    assert isinstance(again["b"][1], tuple)


def test_penalties_spread_over_groups():
    params = {"W": [np.ones((2, 2)), np.ones(2)], "b": 0.0}
    assert leaves_of(spread(0.5, params)) == [0.5, 0.5, 0.5]
    assert leaves_of(spread({"b": 0, "W": 2}, params)) == [2, 2, 0]
    assert leaves_of(spread({"W": [1, 3], "b": 0}, params)) == [1, 3, 0]
    for wrong in (-1.0, np.inf, "much", {"W": 1.0}, [1.0, 2.0], {"W": [1.0], "b": 0.0}):
        with pytest.raises(ValueError, match="l2"):
            spread(wrong, params)


@pytest.mark.parametrize("params", [[], {}, [np.zeros((0, 3))]])
def test_no_parameters_are_refused(params):
    with pytest.raises(ValueError, match="init has no parameters"):
        Tree.of(params)


@pytest.mark.parametrize("params", [["a"], [None], [np.array([1j])], [{"w": object()}]])
def test_parameters_are_numbers(params):
    with pytest.raises(TypeError, match="init must hold numbers"):
        Tree.of(params)
