"""Torch modules against the contract of every parametric model, and against torch's own autograd."""

import blocks
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from test_models import (  # noqa: F401
    assert_same_matrix,
    finite_difference_jacobian,
    test_at_moves_parameters_and_penalty,
    test_products_and_diagonal_are_those_of_the_matrices,
    test_raw_and_covariance_are_those_of_the_jacobian,
    test_raw_reproduces_predict,
    test_single_precision_rows_are_computed_in_double,
    test_sparse_rows_equal_dense_rows,
    test_stationarity,
    test_sums_of_scores,
    test_target_survives_encoding,
)
from torch.func import functional_call
from torch.nn import functional as F
from torch_cases import CASES, trained

from skribbon._core.rows import Rows
from skribbon.curvature import GaussNewton
from skribbon.models.torch.derivatives import DenseTangent, TorchModel

pytestmark = pytest.mark.usefixtures("route")
N_ROWS = 12


@pytest.fixture(params=[case.id for case in CASES])
def fitted(request):
    return trained(request.param)


every_case = every_fit = fitted_accepting_sparse = fitted


@pytest.fixture(params=["chosen", "vectorized", "wide"])
def route(request, monkeypatch):
    """Derivatives as chosen, with the Jacobian by torch.func, and without the Jacobian."""
    if request.param != "chosen":
        monkeypatch.setattr(TorchModel, "has_layers", False)
    if request.param == "wide":
        monkeypatch.setattr("skribbon.models.torch.derivatives.WIDE", 0)
    return request.param


def module_of(fitted):
    """The module's output (n, K) as a function of a flat vector, in the order of torch.nn.utils, and that vector."""
    module = fitted.estimator.module_
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
    theta = torch.nn.utils.parameters_to_vector(module.parameters()).detach()

    def function(theta, Z):
        pieces = theta.split([shape.numel() for shape in shapes.values()])
        named = {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
        return functional_call(module, named, (torch.tensor(Z),)).reshape(len(Z), -1)

    return function, theta


def losses(fitted, f, t):
    """torch's own loss of each row."""
    if fitted.case.loss == "poisson":
        return F.poisson_nll_loss(f[:, 0], t, reduction="none")
    if not fitted.case.is_classifier:
        return 0.5 * F.mse_loss(f, t.reshape(f.shape), reduction="none").sum(1)
    if f.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(f[:, 0], t, reduction="none")
    return F.cross_entropy(f, t.long(), reduction="none")


def contrast(fitted):
    """M (K, k), from the module's output to the raw prediction."""
    K = fitted.estimator.n_columns_
    if not fitted.case.is_classifier or K == 1:
        return np.eye(K)
    return np.array([[-1.0], [1.0]]) if K == 2 else fitted.model.loss.basis


def test_jacobian_equals_autograd_and_differences(fitted):
    model, Z = fitted.model, fitted.Z[:N_ROWS]
    function, theta = module_of(fitted)
    J = torch.autograd.functional.jacobian(lambda theta: function(theta, Z), theta).numpy()
    J = np.einsum("nKp,Kk->nkp", J, contrast(fitted))
    assert_allclose(model.theta, theta, rtol=0, atol=0)
    assert_allclose(model.jacobian(Z), J, rtol=1e-10, atol=1e-12)
    assert_allclose(model.jacobian(Z), finite_difference_jacobian(model, Z), rtol=1e-6, atol=1e-7)
    V, U = (np.random.default_rng(0).normal(size=shape) for shape in ((len(theta), 20), (*J.shape[:2], 3)))
    assert_allclose(blocks.jvp(model, Z, V), J @ V, rtol=1e-9, atol=1e-11)
    assert_allclose(blocks.jvp(model, Z, V[:, :2]), J @ V[:, :2], rtol=1e-9, atol=1e-11)
    assert_allclose(blocks.vjp(model, Z, U), np.einsum("nkp,nkr->pr", J, U), rtol=1e-9, atol=1e-11)
    c = np.abs(U[:, 0])
    assert_allclose(
        model.tangent(Z).weighted_scores(U[:, :, 0], c), np.einsum("nkp,nk,nb->pb", J, U[:, :, 0], c), atol=1e-11
    )


def test_scores_and_hessian_equal_those_of_torchs_losses(fitted):
    function, theta = module_of(fitted)
    Z, t, weight = fitted.Z[:N_ROWS], fitted.t[:N_ROWS], fitted.weight[:N_ROWS]

    def rows(theta):
        return losses(fitted, function(theta, Z), torch.tensor(t))

    scores = torch.autograd.functional.jacobian(rows, theta).numpy()
    assert_same_matrix(blocks.scores(fitted.model, Z, t), scores, 1e-10)
    H = torch.autograd.functional.hessian(lambda theta: (torch.tensor(weight) * rows(theta)).sum(), theta).numpy()
    assert_same_matrix(blocks.hessian(fitted.model, Z, t, weight), H, 1e-9)


def test_gauss_newton_is_the_expected_hessian_in_f(fitted):
    model, Z, t, weight = fitted.model, fitted.Z[:N_ROWS], fitted.t[:N_ROWS], fitted.weight[:N_ROWS]
    J, R = model.jacobian(Z), model.loss.curvature_root(model.raw(Z), t)
    expected = np.einsum("n,nkp,nkl,nlq->pq", weight, J, R @ R.transpose(0, 2, 1), J)
    assert_same_matrix(blocks.ggn(model, Z, t, weight), expected, 1e-11)


def test_integer_weights_are_repeated_rows(fitted):
    model, case = fitted.model, fitted.case
    counts = np.random.default_rng(3).integers(0, 3, len(case.y))
    weighted = Rows(model, model.prepare(case.X), fitted.t, counts.astype(float))
    X, t = model.prepare(np.repeat(case.X, counts, axis=0)), np.repeat(fitted.t, counts, axis=0)
    once, many = (rows.sum(GaussNewton().of_block) for rows in (weighted, Rows(model, X, t, np.ones(counts.sum()))))
    assert_same_matrix(once, many, 1e-11)


# ---------------------------------------------------------------------- layers
def test_dense_layers_are_found(fitted, route):
    model, case = fitted.model, fitted.case
    if route != "chosen":
        pytest.skip("layers are switched off")
    assert model.has_layers == case.dense
    assert isinstance(model.tangent(fitted.Z), DenseTangent) == case.dense
    assert bool(model.traced[1]) == case.head


def test_layers_and_kronecker_sums(fitted, route):
    """Each layer's scores are outer products of inputs and gradients, so the sums are those of their factors."""
    model, Z, t, weight = fitted.model, fitted.Z, fitted.t, fitted.weight
    if not model.has_layers:
        return
    assert sorted(np.concatenate([index.ravel() for index in model.layers])) == list(range(len(model.theta)))
    scores = blocks.root_jacobian(model, Z, t)  # (n, r, p)
    for index, (A, S), a in zip(
        model.layers, blocks.kronecker_sums(model, Z, t, weight), model.tangent(Z).activations, strict=True
    ):
        a = np.column_stack([a, np.ones(len(a))])
        delta = scores[:, :, index[-1]]  # the bias has an input of one, so its derivative is delta itself
        assert_allclose(scores[:, :, index], a[:, None, :, None] * delta[:, :, None, :], rtol=1e-8, atol=1e-12)
        assert_same_matrix(A, a.T @ (weight[:, None] * a), 1e-12)
        assert_same_matrix(S, np.einsum("n,nri,nrj->ij", weight, delta, delta), 1e-12)


def test_last_layer_is_a_linear_model_of_its_inputs(fitted):
    model, last = fitted.model, fitted.model.last_layer()
    if not fitted.case.head:
        assert last is model
        return
    Z = last.rows(last.prepare(fitted.case.X))
    assert_allclose(last.raw(Z), model.raw(fitted.Z), rtol=1e-11, atol=1e-12)
    places, M = model.layers[-1], contrast(fitted)
    order = np.arange(len(last.theta)).reshape(last.loss.n_outputs, -1).T  # (in + 1, k), places is (in + 1, K)
    J = model.jacobian(fitted.Z)
    for row, columns in zip(order, places, strict=True):
        assert_allclose(last.jacobian(Z)[:, :, row] @ M.T, J[:, :, columns], rtol=1e-9, atol=1e-11)
    assert_allclose(last.theta[order], model.theta[places] @ M, rtol=1e-11, atol=1e-12)
    assert_allclose(last.l2, 0.02 / (M**2).sum(axis=0)[0])


def test_single_precision_modules_are_differentiated_in_double():
    """Weights of a float32 module are float64 numbers too, and their derivatives lose nothing."""
    case = trained("two-layers").case
    single = case.module()
    assert next(single.parameters()).dtype == torch.float32
    exact = case.module().double()
    exact.load_state_dict(single.state_dict())
    models = [
        case.estimator.set_params(module=module, fitted=True, polish=False).fit(case.X, case.y)._fitted_model()
        for module in (single, exact)
    ]
    Z = case.X[:N_ROWS]
    J = torch.autograd.functional.jacobian(
        lambda theta: functional_call(exact, models[1].params(theta), (torch.tensor(Z),)), torch.tensor(models[1].theta)
    )
    assert_allclose(models[0].jacobian(Z), J, rtol=1e-12, atol=1e-13)
    assert_allclose(models[0].raw(Z), models[1].raw(Z), rtol=0, atol=0)
    rough = single(torch.tensor(Z, dtype=torch.float32)).detach().numpy()
    assert 0 < np.abs(models[0].raw(Z) - rough).max() < 1e-5
