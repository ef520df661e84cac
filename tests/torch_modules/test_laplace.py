"""Curvatures and predictive variances of torch modules against laplace-torch."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.utils.data import DataLoader, TensorDataset
from torch_cases import trained

from skribbon._core.rows import Rows
from skribbon.baselines import LaplaceRegressor
from skribbon.curvature import GaussNewton
from skribbon.curvature.base import LastLayer
from skribbon.models.torch import TorchRegressor

SINGLE = {"rtol": 1e-5, "atol": 1e-5}  # precision of its sums
laplace = pytest.importorskip("laplace", reason="laplace-torch is not installed")


def posterior(fitted, subset="all", structure="full", **settings):
    """laplace-torch's posterior of the trained module, with all rows in one batch."""
    case, module = fitted.case, fitted.estimator.module_
    t = torch.tensor(fitted.t).long() if case.is_classifier else torch.tensor(fitted.t).reshape(len(fitted.t), -1)
    rows = DataLoader(TensorDataset(torch.tensor(case.X), t), batch_size=len(t))
    kind = "classification" if case.is_classifier else "regression"
    la = laplace.Laplace(module, kind, subset_of_weights=subset, hessian_structure=structure, **settings)
    la.fit(rows)
    return la


def sums(fitted, curvature):
    model = curvature.view(fitted.model)
    rows = fitted_rows(model, fitted)
    return model, rows.sum(curvature.of_block)


def fitted_rows(model, fitted):
    return Rows(model, model.prepare(fitted.case.X), fitted.t, np.ones(len(fitted.t)))


@pytest.mark.parametrize("case_id", ["mlp", "two-layers", "two-outputs", "ternary", "cnn"])
def test_gauss_newton(case_id):
    fitted = trained(case_id)
    assert_allclose(
        sums(fitted, GaussNewton())[1], posterior(fitted).H.detach().numpy(), rtol=1e-5, atol=1e-5
    )  # its sums are float32


@pytest.mark.parametrize("case_id", ["mlp", "two-layers"])
def test_last_layer(case_id):
    fitted = trained(case_id)
    la = posterior(fitted, subset="last_layer")
    assert_allclose(sums(fitted, LastLayer())[1], la.H.detach().numpy(), **SINGLE)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")  # without its penalty
def test_predictive_variance():
    """LaplaceRegressor of this package has laplace-torch's variances at the same noise and prior."""
    fitted = trained("two-layers")
    case, sigma, prior = fitted.case, 0.7, 3.0
    la = posterior(fitted, sigma_noise=sigma, prior_precision=prior)
    _, variance = la(torch.tensor(case.X[:20]))
    ours = LaplaceRegressor(
        TorchRegressor(fitted.estimator.module_, fitted=True),
        prior_precision=prior,
        noise=sigma**2,
    ).fit(case.X, case.y)
    assert_allclose(ours.predict_std(case.X[:20], kind="epistemic") ** 2, variance[:, 0, 0].detach(), rtol=1e-6)
