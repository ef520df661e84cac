"""Methods that Ribbon is compared with, as estimators with the same predict methods.

Retrained members (deep ensembles, the bootstrap, the Bayesian bootstrap), passes with dropout, Gaussian posteriors
(Laplace), and Bayesian networks by Monte Carlo or variational inference, which need NumPyro.
"""

from ._retraining import MemberWarning
from .bayesian_bootstrap import BayesianBootstrapClassifier, BayesianBootstrapRegressor
from .bootstrap import BootstrapClassifier, BootstrapRegressor
from .deep_ensemble import DeepEnsembleClassifier, DeepEnsembleRegressor
from .laplace import LaplaceClassifier, LaplaceRegressor
from .mc_dropout import MCDropoutClassifier, MCDropoutRegressor
from .nuts import NutsClassifier, NutsRegressor
from .svi import SviClassifier, SviRegressor

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
