"""Methods that Ribbon is compared with, as estimators with the same predict methods.

Ensembles of retrained or thinned models, Laplace approximations, and Bayesian networks, which need NumPyro.
"""

from .bayesian_networks import NutsClassifier, NutsRegressor, SviClassifier, SviRegressor
from .ensembles import (
    BayesianBootstrapClassifier,
    BayesianBootstrapRegressor,
    BootstrapClassifier,
    BootstrapRegressor,
    DeepEnsembleClassifier,
    DeepEnsembleRegressor,
    MCDropoutClassifier,
    MCDropoutRegressor,
    MemberWarning,
)
from .laplace import LaplaceClassifier, LaplaceRegressor

__all__ = [
    "BayesianBootstrapClassifier",
    "BayesianBootstrapRegressor",
    "BootstrapClassifier",
    "BootstrapRegressor",
    "DeepEnsembleClassifier",
    "DeepEnsembleRegressor",
    "LaplaceClassifier",
    "LaplaceRegressor",
    "MCDropoutClassifier",
    "MCDropoutRegressor",
    "MemberWarning",
    "NutsClassifier",
    "NutsRegressor",
    "SviClassifier",
    "SviRegressor",
]
