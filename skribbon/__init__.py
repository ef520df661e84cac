"""skribbon: honest uncertainty for differentiable scikit-learn models, from a single fit."""

from . import conformal, curvature, exceptions, inspection, metrics, models, noise
from ._blocks import blocks
from ._classifier import RibbonClassifier
from ._cross_validation import cross_val_interval
from ._cv import RibbonCV
from ._joint import JointPredictive
from ._predictive import ClassProbabilities, Predictive
from ._regressor import RibbonRegressor
from .models import AutogradClassifier, AutogradRegressor

__version__ = "0.1.0"

__all__ = [
    "AutogradClassifier",
    "AutogradRegressor",
    "ClassProbabilities",
    "JointPredictive",
    "Predictive",
    "RibbonCV",
    "RibbonClassifier",
    "RibbonRegressor",
    "__version__",
    "blocks",
    "conformal",
    "cross_val_interval",
    "curvature",
    "exceptions",
    "inspection",
    "metrics",
    "models",
    "noise",
]
