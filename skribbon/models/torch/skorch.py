"""Networks of skorch as base models; importing this module registers them."""

from typing import Any

import numpy as np
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.classifier import NeuralNetBinaryClassifier

from ..base import as_parametric, takes_outputs
from ..losses import Bernoulli, Categorical, SquaredErrors, Tweedie
from .derivatives import TWO_LOGITS, TorchModel

LOSSES = torch.nn.MSELoss, torch.nn.NLLLoss, torch.nn.CrossEntropyLoss, torch.nn.BCEWithLogitsLoss


class LogOf(torch.nn.Module):
    """Logarithm of a module's probabilities, with the number that skorch adds to avoid log(0)."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.least = torch.finfo(next(module.parameters()).dtype).eps

    def forward(self, X):
        """Return log(module(X) + eps)."""
        return torch.log(self.module(X) + self.least)


def _model(net, loss, scale=1.0, classes=None, output_map=None):
    """Model of a fitted skorch network; ``scale`` is the ratio of our loss to the mean loss that it minimised."""
    criterion = net.criterion_
    plain = criterion.reduction == "mean" and getattr(criterion, "weight", None) is None
    if type(criterion) not in LOSSES or not plain or getattr(criterion, "label_smoothing", 0.0):
        raise TypeError(
            f"{type(net).__name__} was trained by {criterion!r}; supported are the means of MSELoss, NLLLoss, "
            "CrossEntropyLoss and BCEWithLogitsLoss without weights and label smoothing."
        )
    group = net.optimizer_.param_groups[0]  # AdamW's decay is no penalty: it does not enter the gradient
    decay = 0.0 if group.get("decoupled_weight_decay", False) else group.get("weight_decay", 0.0)
    dense = (part.in_features for part in net.module_.modules() if isinstance(part, torch.nn.Linear))
    module = LogOf(net.module_) if isinstance(criterion, torch.nn.NLLLoss) else net.module_
    fields = {"loss": loss, "classes": classes, "output_map": output_map, "n_features": next(dense, None)}
    return TorchModel.from_module(module, scale * decay, **fields)


@as_parametric.register(NeuralNetRegressor)
def _(estimator: Any, y: Any, sample_weight: Any) -> TorchModel:
    m = 1 if np.ndim(y) == 1 else np.shape(y)[1]
    return _model(estimator, Tweedie() if m == 1 else SquaredErrors(m), scale=m / 2)  # MSELoss has no factor 1/2


@as_parametric.register(NeuralNetClassifier | NeuralNetBinaryClassifier)
def _(estimator: Any, y: Any, sample_weight: Any) -> TorchModel:
    classes = np.asarray(estimator.classes_)
    loss = Bernoulli() if len(classes) == 2 else Categorical(len(classes))
    one = isinstance(estimator, NeuralNetBinaryClassifier)
    M = None if one else TWO_LOGITS if len(classes) == 2 else loss.output_map
    return _model(estimator, loss, classes=classes, output_map=M)


@takes_outputs.register(NeuralNetRegressor)
def _(estimator: Any) -> bool:
    return True
