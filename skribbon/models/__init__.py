"""Fitted scikit-learn estimators as parametric models."""

# importing a module registers its estimators
from . import glm as glm
from . import huber as huber
from . import linear as linear
from . import logistic as logistic
from . import mlp as mlp
from . import wrappers as wrappers
from .base import ParametricModel, as_parametric

__all__ = ["ParametricModel", "as_parametric"]
