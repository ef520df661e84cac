"""Structured curvatures against dense matrices written with numpy: exact wherever they claim to be."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import (
    NETWORKS,
    PROBLEMS,
    N,
    X,
    Y,
    assert_same_matrix,
    centred_scatter,
    factor_of,
    gauss_newton,
    root_rows,
    training_rows,
    whole,
)
from scipy.special import expit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon._core.rows import Rows
from skribbon.curvature import KFAC, Diagonal, EmpiricalFisher, GaussNewton, Hessian, LastLayer, LowRank
from skribbon.curvature.structured import randomized_eigh
from skribbon.models import as_parametric
from skribbon.models.losses import Tweedie
from skribbon.models.mlp import MultilayerPerceptron


@pytest.fixture(params=PROBLEMS)
def rows(request):
    return training_rows(request.param)


@pytest.fixture(params=NETWORKS)
def network(request):
    return training_rows(request.param)


# ---------------------------------------------------------------------- Gauss-Newton and its diagonal
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_gauss_newton_and_its_diagonal(rows, damping):
    expected = gauss_newton(rows, damping)
    assert_same_matrix(factor_of(GaussNewton(damping=damping), rows).to_dense(), expected, 1e-12)
    diagonal = factor_of(Diagonal(damping=damping), rows)
    assert_allclose(diagonal.to_dense(), np.diag(np.diag(expected)), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", ["linear", "ridge", "logistic", "multinomial", "poisson"])
def test_hessian_is_gauss_newton_for_linear_models_with_canonical_links(name):
    rows = training_rows(name)
    assert_same_matrix(factor_of(Hessian(), rows).to_dense(), gauss_newton(rows), 1e-12)


def fisher_error(estimator, simulate, n):
    """Relative distance of the empirical Fisher matrix from the Hessian, root mean square over samples."""
    errors = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(n, 2))
        y = simulate(rng, 0.2 + features @ [0.5, -0.3])
        model = as_parametric(estimator.fit(features, y), y, np.ones(n))
        rows = Rows(model, features, model.encode_target(y), np.ones(n))
        exact, fisher = (factor_of(curvature, rows).to_dense() for curvature in (Hessian(), EmpiricalFisher()))
        errors.append(np.linalg.norm(np.linalg.solve(exact, fisher) - np.eye(3)))
    return np.sqrt(np.mean(np.square(errors)))


@pytest.mark.parametrize(
    ("estimator", "simulate"),
    [
        (LogisticRegression(C=np.inf, tol=1e-8), lambda rng, eta: (rng.random(len(eta)) < expit(eta)).astype(float)),
        (PoissonRegressor(alpha=0, solver="newton-cholesky"), lambda rng, eta: rng.poisson(np.exp(eta)).astype(float)),
    ],
    ids=["logistic", "poisson"],
)
def test_fisher_approaches_the_hessian_at_the_rate_of_a_mean(estimator, simulate):
    # a hundred times the rows: a tenth of the error. A root mean square of 12 errors is off by some 15 percent
    ratio = fisher_error(estimator, simulate, 200) / fisher_error(estimator, simulate, 20_000)
    assert 6 < ratio < 16


# ---------------------------------------------------------------------- low rank
@pytest.mark.parametrize("rank", ["p", 10_000])
def test_low_rank_at_full_rank_is_gauss_newton(rows, rank):
    rank = len(rows.model.theta) if rank == "p" else rank
    factor, expected = factor_of(LowRank(rank=rank), rows), gauss_newton(rows)
    assert_same_matrix(factor.to_dense(), expected, 1e-9)
    B = expected @ np.random.default_rng(0).normal(size=(len(expected), 3))
    assert_same_matrix(expected @ factor.solve(B), B, 1e-6)


@pytest.mark.parametrize("rank", [1, 4, 0.5, 0.99])
def test_low_rank_is_the_leading_part_and_the_diagonal_of_the_rest(network, rank):
    data = gauss_newton(network) - np.diag(network.model.l2)
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(data))
    r = rank if rank >= 1 else int(np.searchsorted(np.cumsum(values), rank * values.sum())) + 1
    leading = (vectors[:, :r] * values[:r]) @ vectors[:, :r].T
    expected = leading + np.diag(np.maximum(np.diag(data - leading), 0) + network.model.l2)
    factor = factor_of(LowRank(rank=rank, n_iter=20), network)  # past close eigenvalues
    assert factor.U.shape[1] == r
    assert_same_matrix(factor.to_dense(), expected, 1e-6)
    assert_allclose(factor.diagonal, np.diag(gauss_newton(network)), rtol=1e-8)  # whatever the rank


def test_range_finder_on_a_known_spectrum():
    rng, p = np.random.default_rng(0), 400
    Q = np.linalg.qr(rng.normal(size=(p, p)))[0]
    spectrum = 0.7 ** np.arange(p)
    values, U = randomized_eigh(lambda V: Q @ (spectrum[:, None] * (Q.T @ V)), p, 12, 3)
    assert_allclose(values, spectrum[:12], rtol=1e-6)
    assert_allclose(np.abs(np.sum(U * Q[:, :12], axis=0)), 1, atol=1e-4)
    assert_allclose(U.T @ U, np.eye(12), atol=1e-12)


def test_share_of_the_trace_doubles_the_rank_until_it_suffices():
    """A flat spectrum of 300 needs more than the 50 eigenpairs that the search starts with."""
    p, calls = 300, []

    def product(V):
        calls.append(V.shape[1])
        return V * np.linspace(2, 1, p)[:, None]

    values, U = LowRank(rank=0.8)._eigenpairs(product, np.linspace(2, 1, p))
    assert 200 < len(values) == U.shape[1] < 300
    assert values.sum() >= 0.8 * np.linspace(2, 1, p).sum() > values[:-1].sum()
    assert max(calls) == p


@pytest.mark.parametrize("rank", [0, -1, 1.0, 1.5, 0.0, "many", None, np.nan])
def test_bad_rank_is_refused(rank):
    with pytest.raises(ValueError, match="rank must be an integer >= 1 or a share of the trace below 1"):
        factor_of(LowRank(rank=rank), training_rows("ridge"))


# ---------------------------------------------------------------------- Kronecker factors
class Squares(Tweedie):
    """Half the squared errors of several outputs, the later ones counted more, for a single target."""

    def __init__(self, n_outputs):
        super().__init__()
        self.n_outputs = self.curvature_rank = n_outputs
        self.root = np.diag(np.arange(1.0, n_outputs + 1))

    def gradient(self, f, y):
        return (f - y[:, None]) @ self.root**2

    def curvature_root(self, f, y):
        return np.broadcast_to(self.root, (len(f), *self.root.shape))


@pytest.mark.parametrize("damping", [0.0, 0.2])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("outputs", [1, 2])
def test_kfac_is_exact_without_hidden_layers(penalty, damping, outputs):
    size = 3 * outputs
    l2 = np.r_[np.full(size, penalty), np.zeros(outputs)]  # on weights, not on biases
    theta = np.random.default_rng(0).normal(size=size + outputs)
    model = MultilayerPerceptron(theta=theta, loss=Squares(outputs), l2=l2, units=(3, outputs), activation="tanh")
    rows = Rows(model, X, Y, np.random.default_rng(1).integers(1, 4, N).astype(float))
    factor, expected = factor_of(KFAC(damping=damping), rows), gauss_newton(rows, damping)
    assert_same_matrix(factor.to_dense(), expected, 1e-12)
    assert_same_matrix(factor.solve(np.eye(len(expected))), np.linalg.inv(expected), 1e-9)


def hidden_inputs(model, Z):
    """a_l with a one appended, layer by layer, from theta alone."""
    for index in model.layers:
        a = np.column_stack([Z, np.ones(len(Z))])
        yield a
        Z = np.tanh(a @ model.theta[index])


def test_kfac_is_a_product_of_mean_outer_products_in_every_layer(network):
    model, (Z, _, weight) = network.model, whole(network)
    n, p = weight.sum(), len(model.theta)
    A = root_rows(network).reshape(N, -1, p)  # rows carry sqrt(w_i / n) already
    expected = np.diag(model.l2 + 0.1)
    for index, a in zip(model.layers, hidden_inputs(model, Z), strict=True):
        delta = A[:, :, index[-1]]  # a bias has an input of one
        inputs, outputs = a.T @ (weight[:, None] * a) / n, np.einsum("nri,nrj->ij", delta, delta)
        flat = index.ravel()
        expected[np.ix_(flat, flat)] += np.kron(inputs, outputs)
    assert_same_matrix(factor_of(KFAC(damping=0.1), network).to_dense(), expected, 1e-12)


def test_kfac_needs_layers_and_an_even_penalty():
    with pytest.raises(TypeError, match=r"needs a network of dense layers, and LinearPredictor has none"):
        factor_of(KFAC(), training_rows("ridge"))
    rows = training_rows("network")
    uneven = replace(rows.model, l2=np.arange(float(len(rows.model.theta))))
    with pytest.raises(ValueError, match="a penalty that is the same for all outputs of a layer"):
        factor_of(KFAC(), replace(rows, model=uneven))


# ---------------------------------------------------------------------- the last layer alone
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_last_layer_is_the_sandwich_of_its_columns(name):
    """From columns of the full Jacobian, of all classes where there are several: predictions do not see the basis."""
    estimator, features, y = PROBLEMS[name]
    rows = training_rows(name)
    rows = replace(rows, weight=np.ones(N))
    columns = rows.model.layers[-1].ravel()
    J = rows.model.jacobian(whole(rows)[0])[:, :, columns]
    H_r, H_Fc = (part[np.ix_(columns, columns)] for part in (gauss_newton(rows), centred_scatter(rows)))
    inverse = np.linalg.pinv(H_r, 1e-11, hermitian=True)
    expected = J @ (inverse @ H_Fc @ inverse / (N + 1)) @ J.transpose(0, 2, 1)
    Ribbon = RibbonRegressor if rows.model.classes is None else RibbonClassifier
    ribbon = Ribbon(FrozenEstimator(estimator), curvature="last_layer", correction="HC0").fit(features, y)
    assert isinstance(ribbon.curvature_, LastLayer)
    assert len(ribbon.model_.theta) <= len(columns)
    assert_allclose(ribbon._latent(features).covariance, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("curvature", ["diag", "kfac", "low_rank", "ggn"])
def test_other_sandwiches_are_dense_up_to_the_limit(curvature):
    """H_r^-1 H_Fc H_r^-1 / (n + 1) with the curvature's own H_r and scores of single rows."""
    estimator, features, y = PROBLEMS["network-two-layers"]
    rows = replace(training_rows("network-two-layers"), weight=np.ones(N))
    ribbon = RibbonRegressor(FrozenEstimator(estimator), curvature=curvature, correction="HC0").fit(features, y)
    inverse = np.linalg.inv(factor_of(ribbon.curvature_, rows).to_dense())
    assert_same_matrix(ribbon.covariance_, inverse @ centred_scatter(rows) @ inverse / (N + 1), 1e-5)


@pytest.mark.parametrize("curvature", ["diag", "kfac", "low_rank"])
def test_held_draws_have_the_covariance_of_the_closed_form(curvature, monkeypatch):
    monkeypatch.setattr("skribbon.curvature.base.Curvature.square_limit", 5)
    estimator, features, y = PROBLEMS["network-two-layers"]
    settings = {"curvature": curvature, "correction": "HC0", "random_state": 0}
    drawn = RibbonRegressor(FrozenEstimator(estimator), n_draws=4000, **settings).fit(features, y)
    monkeypatch.undo()
    closed = RibbonRegressor(FrozenEstimator(estimator), **settings).fit(features, y)
    assert drawn.ribbon_.root.shape == (len(drawn.model_.theta), 4000)
    assert drawn.ribbon_.shifts is None
    ratio = drawn.predict_std(features, kind="epistemic") ** 2 / closed.predict_std(features, kind="epistemic") ** 2
    # squares of Dirichlet shifts vary more than those of normal ones, whose standard error is sqrt(2 / B)
    assert np.abs(ratio - 1).max() < 4.5 * 1.3 * np.sqrt(2 / 4000)
