"""Small torch modules of every kind, trained with weights, as the contract tests of tests/models take them."""

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from conftest import BINARY, COUNTS, TERNARY, Fitted, X, Y, row_weights
from torch import nn

from skribbon.models import as_parametric
from skribbon.models.torch import TorchClassifier, TorchRegressor

IMAGES = np.random.default_rng(3).normal(size=(len(X), 36)) + X[:, :1] * np.linspace(-1, 1, 36)
TWO_OUTPUTS = np.column_stack([Y, X[:, 1] - 0.5 * Y])


class Residual(nn.Module):
    """A residual block; the activation overwrites its input."""

    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 1)
        self.overwrite = nn.SiLU(inplace=True)

    def forward(self, x):
        h = self.first(x)
        return self.last(h + self.overwrite(self.inner(h)))[:, 0]


class Categories(nn.Module):
    """An embedding of the last column beside the numbers."""

    def __init__(self):
        super().__init__()
        self.embedding, self.hidden, self.last = nn.Embedding(2, 2), nn.Linear(5, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.hidden(torch.cat([x[:, :3], self.embedding(x[:, 3].long())], dim=1))))


class Tied(nn.Module):
    """A weight that is used a second time, which no layer's call shows."""

    def __init__(self):
        super().__init__()
        self.hidden, self.last = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = torch.tanh(self.hidden(x))
        return self.last(torch.tanh(nn.functional.linear(h, self.hidden.weight)))


class Tokens(nn.Module):
    """A dense layer that sees two tokens of each row."""

    def __init__(self):
        super().__init__()
        self.shared, self.last = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.shared(x.reshape(len(x), 2, 2))).sum(1))


def mlp(*units):
    layers = [part for a, b in pairwise(units) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def cnn():
    images, convolution = nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 2, 3)
    return nn.Sequential(images, convolution, nn.Softplus(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3))


def normalized():
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Tanh(), nn.Linear(3, 1, bias=False))


def noisy():
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Dropout(0.3), nn.Linear(3, 1))


@dataclass(frozen=True)
class Case:
    """A module with its data and loss; ``dense`` if all parameters are those of dense layers that map rows once."""

    id: str
    module: Any
    y: np.ndarray
    loss: str = "squared_error"
    X: np.ndarray = field(default_factory=lambda: X)
    dense: bool = False
    head: bool = True  # whether the last layer is found
    gradient: float = 1e-6
    power: float = 0.0
    link: str = "identity"

    @property
    def is_classifier(self):
        return self.loss == "log_loss"

    @property
    def estimator(self):
        kind = TorchClassifier if self.is_classifier else TorchRegressor
        settings = {"weight_decay": 0.02, "max_iter": 5000, "tol": 1e-7, "polish": True, "random_state": 0}
        return kind(self.module(), loss=self.loss, **settings)


CASES = [
    Case("mlp", lambda: mlp(4, 4, 1), Y, dense=True),
    Case("two-layers", lambda: mlp(4, 3, 3, 1), Y, dense=True),
    Case("residual", Residual, Y, dense=True),
    Case("two-outputs", lambda: mlp(4, 3, 2), TWO_OUTPUTS, dense=True),
    Case("poisson", lambda: mlp(4, 3, 1), COUNTS, "poisson", dense=True, power=1.0, link="log"),
    Case("binary", lambda: mlp(4, 3, 1), BINARY, "log_loss", dense=True),
    Case("binary-two-logits", lambda: mlp(4, 3, 2), BINARY, "log_loss", dense=True),
    Case("ternary", lambda: mlp(4, 3, 3), TERNARY, "log_loss", dense=True),
    Case("cnn", cnn, TERNARY, "log_loss", IMAGES),
    Case("embedding", Categories, Y),
    Case("tied", Tied, Y),
    Case("tokens", Tokens, Y),
    Case("layer-norm", normalized, Y, head=False),
    Case("batch-norm-and-dropout", noisy, Y),
    Case("exponential", lambda: nn.Sequential(mlp(4, 3, 1), nn.Softplus()), Y, dense=True, head=False),
]


@cache
def trained(case_id):
    """The case fitted with integer weights."""
    case = next(case for case in CASES if case.id == case_id)
    estimator, weight = case.estimator.fit(case.X, case.y, row_weights()), row_weights()
    return Fitted(case, estimator, as_parametric(estimator, case.y, weight), weight)
