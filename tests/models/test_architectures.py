"""Ready-made architectures: values against independent formulas, derivatives against finite differences."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from autograd import jacobian, make_vjp
from autograd.misc import flatten
from autograd.test_util import check_grads
from scipy.signal import correlate2d
from scipy.special import expit, log1p
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.utils import check_random_state

from skribbon.models.architectures import (
    ACTIVATIONS,
    Architecture,
    Tree,
    cnn,
    leaves_of,
    linear_in_features,
    map_leaves,
    michaelis_menten,
    mlp,
    monotone,
)
from skribbon.models.autograd.derivatives import Replicated, fastest_route
from skribbon.models.losses import Categorical, Tweedie

N = 7


def waves(X):
    return np.hstack([np.sin(X), np.cos(2 * X)])


RNG = np.random.default_rng(0)
INPUTS, POSITIVE = RNG.normal(size=(N, 3)), RNG.uniform(0.2, 3.0, size=(N, 1))
GREY, COLOUR = RNG.normal(size=(N, 9 * 8)), RNG.normal(size=(N, 7 * 6 * 2))

CASES = {
    **{f"mlp-{name}": (mlp((4,), name), INPUTS, 2) for name in ACTIVATIONS},
    "mlp-deep": (mlp((4, 3, 2)), INPUTS, 1),
    "mlp-linear": (mlp(()), INPUTS, 2),
    "cnn-relu": (cnn((9, 8), channels=(2, 3), kernel=2), GREY, 3),
    "cnn-colour": (cnn((7, 6, 2), channels=(3,), kernel=3, activation="tanh"), COLOUR, 1),  # 5 x 4: pooling leaves some
    "cnn-no-pool": (cnn((9, 8), channels=(2, 2), pool=1, activation="softplus"), GREY, 2),
    "features": (linear_in_features(waves), INPUTS, 2),
    "michaelis-menten": (michaelis_menten(), POSITIVE, 1),
    "monotone": (monotone((2, 0), hidden=5), INPUTS, 2),
    "monotone-in-all": (monotone((0,), hidden=5), POSITIVE, 1),
}
every_case = pytest.mark.parametrize("f, X, k", CASES.values(), ids=CASES.keys())


def generic(f, X, k):
    """Starting parameters moved a little, so that none is zero."""
    random_state = check_random_state(0)
    return map_leaves(lambda leaf: leaf + 0.1 * random_state.normal(size=leaf.shape), f.init(X, k, random_state))


# ---------------------------------------------------------------------- the contract
@every_case
def test_shapes_and_penalties(f, X, k):
    params = f.init(X, k, check_random_state(0))
    assert f(params, X).shape == (N, k)
    assert all(isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 for leaf in leaves_of(params))
    penalised = f.penalised(params)
    assert map_leaves(lambda _: None, penalised) == map_leaves(lambda _: None, params)  # the same nest
    assert all(type(number) is float for number in leaves_of(penalised))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("mlp", "cnn"))])
def test_biases_are_not_penalised(name):
    f, X, k = CASES[name]
    params = f.init(X, k, check_random_state(0))
    assert f.penalised(params) == [(1.0, 0.0)] * len(params)


def test_penalised_parameters_of_other_architectures():
    assert linear_in_features(waves).penalised((np.zeros((6, 1)), np.zeros(1))) == (1.0, 0.0)
    start = michaelis_menten().init(POSITIVE, 1, check_random_state(0))
    assert michaelis_menten().penalised(start) == {"log_v": 0.0, "log_k": 0.0}


@every_case
def test_init_follows_the_seed(f, X, k):
    once, again = (flatten(f.init(X, k, check_random_state(3)))[0] for _ in range(2))
    np.testing.assert_array_equal(once, again)


@every_case
def test_derivatives(f, X, k):
    theta, unflatten = flatten(generic(f, X, k))
    check_grads(lambda theta: f(unflatten(theta), X), modes=["rev", "fwd"], order=2)(theta)


@every_case
def test_parameters_with_an_axis_of_rows(f, X, k):
    rows = [generic(f, X, k) for _ in range(N)]
    rows = [map_leaves(lambda leaf, i=i: leaf * (1 + 0.1 * i), params) for i, params in enumerate(rows)]
    stacked = [np.stack(same) for same in zip(*(leaves_of(params) for params in rows), strict=True)]
    shapes = {1: (N, 1, 1), 2: (N, 1, -1)}
    stacked = iter([leaf.reshape(shapes.get(leaf.ndim, leaf.shape)) for leaf in stacked])
    own = map_leaves(lambda _: next(stacked), rows[0])
    apart = np.stack([f(params, X[i : i + 1]) for i, params in enumerate(rows)])  # (n, 1, k)
    np.testing.assert_allclose(f(own, X[:, None, :]), apart, rtol=1e-13, atol=1e-14)


@every_case
def test_copies(f, X, k):
    assert isinstance(f, Architecture)
    for copy in (pickle.loads(pickle.dumps(f)), deepcopy(f)):  # deepcopy is what clone does
        assert copy == f and hash(copy) == hash(f)
    assert f != mlp((99,))
    with pytest.raises(AttributeError):
        f.dropout = 0.5


@every_case
def test_noisy_without_dropout_equals_the_prediction(f, X, k):
    params = generic(f, X, k)
    np.testing.assert_array_equal(f.noisy(params, X, check_random_state(0)), f(params, X))


# ---------------------------------------------------------------------- mlp
@pytest.mark.parametrize(
    "name, phi",
    [
        ("identity", lambda z: z),
        ("tanh", np.tanh),
        ("relu", lambda z: np.where(z > 0, z, 0)),
        ("logistic", expit),
        ("softplus", lambda z: log1p(np.exp(z))),
    ],
)
def test_activations(name, phi):
    z = np.linspace(-4, 4, 9)
    np.testing.assert_allclose(ACTIVATIONS[name](z), phi(z), rtol=1e-13)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_far_out(name):
    pull, value = make_vjp(ACTIVATIONS[name])(np.array([-1e4, 1e4]))
    slope = pull(np.ones(2))
    assert np.isfinite(value).all()
    np.testing.assert_array_equal(slope, {"identity": [1, 1], "tanh": [0, 0], "logistic": [0, 0]}.get(name, [0, 1]))


@pytest.mark.parametrize("activation", ["tanh", "logistic"])
def test_starts_where_scikit_learn_does(activation):
    hidden = (6, 5)
    settings = {"solver": "sgd", "learning_rate_init": 1e-14, "max_iter": 1, "random_state": 4}  # a fit that stays put
    network = MLPRegressor(hidden_layer_sizes=hidden, activation=activation, **settings)
    with pytest.warns(ConvergenceWarning):
        network.fit(INPUTS, np.zeros(N))
    *ours, (last_W, last_b) = mlp(hidden, activation).init(INPUTS, 1, check_random_state(4))
    for (W, b), coef, intercept in zip(ours, network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        np.testing.assert_allclose(W, coef, atol=1e-10)
        np.testing.assert_allclose(b, intercept, atol=1e-10)
    np.testing.assert_allclose(last_W, network.coefs_[-1], atol=1e-10)
    assert not last_b.any()


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_analytic_model(activation):
    f = mlp((4, 3), activation)
    params = generic(f, INPUTS, 2)
    l2 = [(0.1, 0.0), (0.2, 0.3), (0.4, 0.5)]
    model = f.parametric(params, l2, loss=Tweedie())
    np.testing.assert_allclose(model.raw(INPUTS), f(params, INPUTS), rtol=1e-13)
    for pieces, place in zip(model.unpack(model.theta), (0, 1), strict=True):
        for piece, layer in zip(pieces, params, strict=True):
            np.testing.assert_array_equal(piece, layer[place])
    for pieces, place in zip(model.unpack(model.l2), (0, 1), strict=True):
        for piece, layer in zip(pieces, l2, strict=True):
            np.testing.assert_array_equal(piece, np.full_like(piece, layer[place]))
    theta, unflatten = flatten([[W for W, _ in params], [b for _, b in params]])
    expected = jacobian(lambda theta: f(list(zip(*unflatten(theta), strict=True)), INPUTS))(theta)
    np.testing.assert_allclose(model.jacobian(INPUTS), expected, rtol=1e-10, atol=1e-13)


def test_analytic_model_passes_fields_on():
    f, loss = mlp((4,)), Categorical(3)
    params = generic(f, INPUTS, 3)
    classes = np.array(["a", "b", "c"])
    model = f.parametric(params, f.penalised(params), loss=loss, classes=classes, output_map=loss.basis)
    np.testing.assert_allclose(model.raw(INPUTS), f(params, INPUTS) @ loss.basis, rtol=1e-13)
    assert model.classes is classes and model.loss is loss


def test_no_analytic_model():
    assert michaelis_menten().parametric({"log_v": 0.0, "log_k": 0.0}, {"log_v": 0.0, "log_k": 0.0}) is None


def test_dropout_keeps_the_mean():
    f = mlp((6, 5), "identity", dropout=0.3)
    params, rng = generic(f, INPUTS, 2), check_random_state(0)
    passes = np.stack([f.noisy(params, INPUTS, rng) for _ in range(4000)])
    error = passes.std(axis=0) / np.sqrt(len(passes))
    assert (error > 0).all()
    assert (np.abs(passes.mean(axis=0) - f(params, INPUTS)) < 4 * error).all()
    # units of different rows are dropped apart: the same row twice does not give the same value twice
    twins = f.noisy(params, INPUTS[[0, 0]], rng)
    assert not np.array_equal(twins[0], twins[1])


def test_dropped_units_carry_no_gradient():
    f = mlp((6,), dropout=0.5)
    params = generic(f, INPUTS, 1)
    pull, _ = make_vjp(lambda params: f.noisy(params, INPUTS[:1], check_random_state(1)))(params)
    (_, hidden_bias), (last, _) = pull(np.ones((1, 1)))
    dropped = hidden_bias == 0
    assert 0 < dropped.sum() < 6
    np.testing.assert_array_equal(last[:, 0] == 0, dropped)


# ---------------------------------------------------------------------- cnn
def naive_cnn(f, params, X):
    """The same network with scipy's correlation and a loop over tiles."""
    phi, out = {"relu": lambda z: z * (z > 0), "tanh": np.tanh, "softplus": lambda z: log1p(np.exp(z))}, []
    for row in X.reshape(len(X), *f.image_shape):
        maps = list(np.moveaxis(row, -1, 0))
        for W, b in params[:-1]:
            K = W.reshape(f.kernel, f.kernel, len(maps), -1)
            maps = [
                phi[f.activation](sum(correlate2d(m, K[:, :, i, o], "valid") for i, m in enumerate(maps)) + b[o])
                for o in range(len(b))
            ]
            p = f.pool
            maps = [
                np.array(
                    [
                        [m[i * p : (i + 1) * p, j * p : (j + 1) * p].mean() for j in range(m.shape[1] // p)]
                        for i in range(m.shape[0] // p)
                    ]
                )
                for m in maps
            ]
        W, b = params[-1]
        out.append(np.stack(maps, axis=-1).ravel() @ W + b)
    return np.array(out)


@pytest.mark.parametrize("name", ["cnn-relu", "cnn-colour", "cnn-no-pool"])
def test_convolutions(name):
    f, X, k = CASES[name]
    params = generic(f, X, k)
    np.testing.assert_allclose(f(params, X), naive_cnn(f, params, X), rtol=1e-12, atol=1e-14)


def test_jacobians_of_all_rows_from_one_reverse_pass():
    X = load_digits().data[:N] / 16
    f = cnn((8, 8), channels=(3,), activation="tanh")
    params = generic(f, X, 2)
    own = [(np.tile(W, (N, 1, 1)), np.tile(b, (N, 1, 1))) for W, b in params]
    pull, value = make_vjp(lambda own: f(own, X[:, None, :]))(own)
    theta, unflatten = flatten(params)
    expected = jacobian(lambda theta: f(unflatten(theta), X))(theta)  # (n, k, p)
    for output in range(2):
        seed = np.zeros_like(value)
        seed[..., output] = 1.0
        J = np.concatenate([leaf.reshape(N, -1) for leaf in leaves_of(pull(seed))], axis=1)
        np.testing.assert_allclose(J, expected[:, output], rtol=1e-11, atol=1e-14)


def test_dropout_of_the_dense_layers_inputs():
    f = cnn((9, 8), channels=(2, 3), kernel=2, dropout=0.4)
    params, rng = generic(f, GREY, 2), check_random_state(0)
    np.testing.assert_array_equal(f(params, GREY), CASES["cnn-relu"][0](params, GREY))  # a prediction drops nothing
    passes = np.stack([f.noisy(params, GREY, rng) for _ in range(2000)])
    features = naive_cnn(f, [*params[:-1], (np.eye(len(params[-1][0])), 0.0)], GREY)
    variance = 0.4 / 0.6 * features**2 @ params[-1][0] ** 2  # independent units, each kept with probability 0.6
    error = np.sqrt(variance / len(passes))
    assert (np.abs(passes.mean(axis=0) - naive_cnn(f, params, GREY)) < 4 * error).all()
    np.testing.assert_allclose(passes.var(axis=0), variance, rtol=0.15)
    twins = f.noisy(params, GREY[[0, 0]], rng)
    assert not np.array_equal(twins[0], twins[1])  # units of different rows are dropped apart


# ---------------------------------------------------------------------- the others
def test_linear_in_features():
    w, b = np.arange(6.0)[:, None], np.array([2.0])
    expected = 2 + np.hstack([np.sin(INPUTS), np.cos(2 * INPUTS)]) @ w
    np.testing.assert_allclose(linear_in_features(waves)((w, b), INPUTS), expected, rtol=1e-13)


def test_michaelis_menten():
    params = {"log_v": np.log(5.0), "log_k": np.log(0.4)}
    np.testing.assert_allclose(michaelis_menten()(params, POSITIVE), 5 * POSITIVE / (0.4 + POSITIVE), rtol=1e-13)
    start = michaelis_menten().init(100 * POSITIVE, 1, check_random_state(0))
    assert np.exp(start["log_k"]) == pytest.approx(100 * np.median(POSITIVE))


@pytest.mark.parametrize("seed", range(5))
def test_monotone_increases_whatever_its_parameters(seed):
    f, rng = monotone((1,), hidden=4), np.random.default_rng(seed)
    params = map_leaves(lambda leaf: rng.normal(size=leaf.shape) - 0.5, f.init(INPUTS, 1, check_random_state(0)))
    rises = []
    for feature in range(3):
        X = np.tile(INPUTS[0], (50, 1))
        X[:, feature] = np.linspace(-1, 1, 50)
        rises.append(np.diff(f(params, X)[:, 0]))
    assert (rises[1] > 0).all()
    assert (rises[0] < 0).any() or (rises[2] < 0).any()  # the others are free
    assert f.penalised(params) == {"A": 0.0, "B": 1.0, "b": 0.0, "C": 0.0, "c": 0.0}


@pytest.mark.parametrize(
    "make, word",
    [
        (lambda: mlp((4,), "swish"), "activation"),
        (lambda: mlp((0,)), "hidden"),
        (lambda: mlp(dropout=1.0), "dropout"),
        (lambda: cnn((8, 8), kernel=5), "image_shape"),
        (lambda: cnn((8, 8), channels=(2,), dropout=1.0), "dropout"),
        (lambda: cnn(64), "image_shape"),
        (lambda: cnn((8, 8), channels=()), "channels"),
        (lambda: cnn((8, 8), channels=(2,)).init(INPUTS, 1, check_random_state(0)), "image_shape"),
        (lambda: michaelis_menten().init(INPUTS, 1, check_random_state(0)), "1 feature"),
        (lambda: linear_in_features(np.sum).init(INPUTS, 1, check_random_state(0)), "features"),
    ],
)
def test_bad_arguments(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def test_a_list_of_units_is_a_tuple():
    assert mlp([8, 4]) == mlp((8, 4)) and mlp(8) == mlp((8,))
    assert cnn([8, 8], channels=[4]) == cnn((8, 8, 1), channels=(4,))


@every_case
def test_no_architecture_needs_a_loop_over_rows(f, X, k):
    tree, theta = Tree.of(f.init(X, k, check_random_state(0)))
    assert isinstance(fastest_route(f, tree, theta, X, k), Replicated)


def test_incomplete_architecture_names_missing_methods():
    class Bare(Architecture):
        pass

    with pytest.raises(TypeError, match=r"Bare must define init\(X, n_outputs, random_state\)"):
        Bare().init(np.zeros((2, 1)), 1, None)
    with pytest.raises(TypeError, match=r"Bare must define __call__\(params, X\)"):
        Bare()([], np.zeros((2, 1)))
