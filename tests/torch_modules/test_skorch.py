"""Networks of skorch as base models: penalties on the right scale, logits, and what is refused."""

import subprocess
import sys
from copy import copy
from functools import cache

import numpy as np
import pytest
import torch
from conftest import BINARY, TERNARY, X, Y
from numpy.testing import assert_allclose
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from torch import nn
from torch_cases import TWO_OUTPUTS, mlp

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.models import as_parametric, takes_outputs

ROWS = X.astype(np.float32)
SETTINGS = {"lr": 0.03, "max_epochs": 600, "batch_size": -1, "train_split": None, "verbose": 0}
SETTINGS |= {"optimizer": torch.optim.Adam, "optimizer__weight_decay": 0.05}
CASES = {
    "regressor": (NeuralNetRegressor, nn.Sequential(mlp(4, 3, 1), nn.Flatten(0)), None, Y),
    "two outputs": (NeuralNetRegressor, mlp(4, 3, 2), None, TWO_OUTPUTS),
    "probabilities": (NeuralNetClassifier, nn.Sequential(mlp(4, 3, 3), nn.Softmax(1)), None, TERNARY),
    "logits": (NeuralNetClassifier, mlp(4, 3, 3), nn.CrossEntropyLoss, TERNARY),
    "two logits": (NeuralNetClassifier, mlp(4, 3, 2), nn.CrossEntropyLoss, BINARY),
    "log odds": (NeuralNetBinaryClassifier, nn.Sequential(mlp(4, 3, 1), nn.Flatten(0)), None, BINARY == "yes"),
}


@cache
def trained(name):
    kind, module, criterion, y = CASES[name]
    torch.manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.reset_parameters()
    known = {} if criterion is None else {"criterion": criterion}
    codes = y.astype(np.float32) if y.dtype.kind in "fb" else np.unique(y, return_inverse=True)[1].astype(np.int64)
    net = kind(module, **known, **SETTINGS)
    if kind is NeuralNetClassifier:
        net.set_params(classes=np.unique(codes))
    return net.fit(ROWS, codes), codes


@pytest.mark.parametrize("name", CASES)
def test_networks_are_at_their_penalised_minimum(name):
    """The gradient of our loss and penalty vanishes where skorch stopped, so both are on the scale of its own."""
    net, y = trained(name)
    model = as_parametric(net, y, np.ones(len(y)))
    Z = model.rows(model.prepare(ROWS))
    f = model.raw(Z)
    g = model.tangent(Z).vjp(model.loss.gradient(f, model.encode_target(y))[:, :, None])[:, 0] / len(y)
    assert np.abs(g + model.penalty_gradient).max() < 1e-4 < np.abs(model.penalty_gradient).max()
    if model.classes is None:
        assert_allclose(f.reshape(y.shape), net.predict(ROWS), atol=1e-5)
    elif name != "two logits" and name != "logits":  # skorch returns logits as they are
        assert_allclose(model.loss.probabilities(f), net.predict_proba(ROWS), atol=1e-5)
    assert model.has_layers


def test_ribbons_around_skorch():
    net, _ = trained("regressor")
    ribbon = RibbonRegressor(net, noise="dof").fit(ROWS, Y.astype(np.float32))
    assert ribbon.stationarity_ < 0.05
    assert ribbon.predict_interval(ROWS).shape == (len(Y), 2)
    assert takes_outputs(net)
    net, y = trained("two logits")
    assert RibbonClassifier(net).fit(ROWS, y).predict_proba(ROWS).shape == (len(y), 2)


def test_decoupled_decay_is_no_penalty():
    y = trained("regressor")[1]
    net = NeuralNetRegressor(CASES["regressor"][1], **(SETTINGS | {"optimizer": torch.optim.AdamW, "max_epochs": 2}))
    assert not as_parametric(net.fit(ROWS, y), y, np.ones(len(y))).l2.any()


@pytest.mark.parametrize("criterion", [nn.L1Loss(), nn.MSELoss(reduction="sum"), nn.SmoothL1Loss()])
def test_other_losses_are_refused(criterion):
    net, y = trained("regressor")
    net = copy(net)
    net.criterion_ = criterion
    with pytest.raises(TypeError, match=r"NeuralNetRegressor was trained by .*supported are the means of MSELoss"):
        as_parametric(net, y, np.ones(len(y)))


def test_skorch_is_registered_on_first_use():
    code = """
import sys
import numpy as np
from skorch import NeuralNet, NeuralNetRegressor
from skribbon.models import as_parametric, takes_outputs
from skribbon.models.base import is_supported
from torch import nn
assert "skribbon.models.torch.skorch" not in sys.modules
print(takes_outputs(NeuralNetRegressor(nn.Linear)), is_supported(NeuralNet(nn.Linear, nn.MSELoss)))
try:
    as_parametric(NeuralNet(nn.Linear, nn.MSELoss), np.ones(2), np.ones(2))
except TypeError as error:
    print(str(error)[:27])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True False", "NeuralNet is not supported."]
