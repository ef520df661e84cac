"""Fitted scikit-learn estimators as parametric models."""

from typing import TYPE_CHECKING

from .._utils.compat import import_when_used
from . import linear as linear  # importing a module registers its estimators
from . import mlp as mlp
from . import outputs as outputs
from .base import ParametricModel, as_parametric, polish, takes_outputs, with_theta
from .losses import GaussianNLL, Huber, SquaredErrors, StudentT, Tweedie
from .offset import WithOffset

if TYPE_CHECKING:
    from . import architectures as architectures
    from .architectures import Architecture
    from .autograd import AutogradClassifier, AutogradRegressor

__all__ = [
    "Architecture",
    "AutogradClassifier",
    "AutogradRegressor",
    "GaussianNLL",
    "Huber",
    "ParametricModel",
    "SquaredErrors",
    "StudentT",
    "Tweedie",
    "WithOffset",
    "as_parametric",
    "polish",
    "takes_outputs",
    "with_theta",
]

# autograd is imported with these, and not before
__getattr__, __dir__ = import_when_used(
    globals(),
    Architecture=".architectures",
    AutogradClassifier=".autograd",
    AutogradRegressor=".autograd",
    architectures=".architectures",
)
