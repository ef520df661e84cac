"""Fitted scikit-learn estimators as parametric models."""

# importing a module registers its estimators
from .._loss import GaussianNLL, Huber, SquaredErrors, StudentT, Tweedie
from . import architectures as architectures
from . import glm as glm
from . import huber as huber
from . import linear as linear
from . import logistic as logistic
from . import mlp as mlp
from . import wrappers as wrappers
from .architectures import Architecture
from .autograd import AutogradClassifier, AutogradRegressor
from .base import ParametricModel, as_parametric
from .newton import polish, with_theta
from .outputs import takes_outputs

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
    "as_parametric",
    "polish",
    "takes_outputs",
    "with_theta",
]
