"""Methods that Ribbon is compared with, as estimators with the same predict methods.

Retrained members (deep ensembles, the bootstrap, the Bayesian bootstrap), passes with dropout, Gaussian posteriors
(Laplace), and Bayesian networks by Monte Carlo or variational inference, which need NumPyro.
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
