"""skribbon: honest uncertainty for differentiable scikit-learn models, from one fit, and a few refits of networks."""

from typing import TYPE_CHECKING

from . import conformal, curvature, exceptions, metrics, models, noise
from ._estimators.classifier import RibbonClassifier
from ._estimators.cross_val import cross_val_interval
from ._estimators.cv import RibbonCV
from ._estimators.regressor import RibbonRegressor
from ._estimators.time_blocks import time_blocks
from ._predict.classes import ClassProbabilities
from ._predict.joint import JointPredictive
from ._predict.predictive import Predictive
from ._utils.compat import import_when_used, show_versions

if TYPE_CHECKING:
    from . import baselines, inspection, plotting
    from ._estimators.trusted import TRUSTED_TYPES
    from .models.autograd import AutogradClassifier, AutogradRegressor

__version__ = "0.1.0"

__all__ = [
    "TRUSTED_TYPES",
    "AutogradClassifier",
    "AutogradRegressor",
    "ClassProbabilities",
    "JointPredictive",
    "Predictive",
    "RibbonCV",
    "RibbonClassifier",
    "RibbonRegressor",
    "__version__",
    "baselines",
    "conformal",
    "cross_val_interval",
    "curvature",
    "exceptions",
    "inspection",
    "metrics",
    "models",
    "noise",
    "plotting",
    "show_versions",
    "time_blocks",
]

# pandas, autograd and matplotlib are imported with these, and not before
__getattr__, __dir__ = import_when_used(
    globals(),
    AutogradClassifier=".models.autograd",
    AutogradRegressor=".models.autograd",
    TRUSTED_TYPES="._estimators.trusted",
    baselines=".baselines",
    inspection=".inspection",
    plotting=".plotting",
)
