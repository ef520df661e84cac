"""Bayesian neural networks by Hamiltonian Monte Carlo."""

from __future__ import annotations

from typing import Literal

from sklearn.base import ClassifierMixin, RegressorMixin

from .._utils.checks import check_count
from .._utils.typing import RandomState
from ..models.architectures import Activation
from ..noise.scale import Noise
from ._bayesian_network import ClassificationNetwork, RegressionNetwork


class _Nuts:
    def _infer(self, model, X, t, seed):
        from jax.random import PRNGKey
        from numpyro.infer import MCMC, NUTS

        check_count(self.n_warmup, "n_warmup")
        check_count(self.n_chains, "n_chains")
        mcmc = MCMC(
            NUTS(model),
            num_warmup=self.n_warmup,
            num_samples=-(-self.n_draws // self.n_chains),
            num_chains=self.n_chains,
            chain_method="sequential",
            progress_bar=bool(self.verbose),
        )
        mcmc.run(PRNGKey(seed), X, t)
        self.n_divergences_ = int(mcmc.get_extra_fields()["diverging"].sum())
        return mcmc.get_samples()


class NutsRegressor(RegressorMixin, _Nuts, RegressionNetwork):
    """A Bayesian neural network by Hamiltonian Monte Carlo with the No-U-Turn sampler. Needs NumPyro.

    X and y are standardised; on that scale weights and biases have independent normal priors, and the noise's
    standard deviation a half-normal one. Meant for small networks.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(20,)
    activation : {"tanh", "relu", "logistic", "softplus", "identity"}, default="tanh"
    prior_scale : float, default=1.0
        Standard deviation of the prior.
    n_draws : int, default=500
        Number of draws to keep, over all chains.
    n_warmup : int, default=500
    n_chains : int, default=1
        Number of chains, run one after the other.
    noise : {"train", "posterior", "heteroskedastic"}, float or Noise, default="train"
        Observation noise of predictions: "train" the sum of squared residuals from the posterior mean over n - 1, as
        for the other methods; "posterior" the posterior mean of the noise's variance; a number is a variance of y.
    verbose : int, default=0
        If positive, show NumPyro's progress bar.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    members_ : list of ParametricModel
        The drawn networks.
    model_ : ParametricModel
        The network at the posterior mean of its parameters.
    n_divergences_ : int
        Draws at which the sampler's integrator diverged; more than a few mean that the posterior was not explored.
    noise_ : Noise
        On the scale of the standardised y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from skribbon.baselines import NutsRegressor
    >>> NutsRegressor(hidden_layer_sizes=(10,), n_draws=200)
    NutsRegressor(hidden_layer_sizes=(10,), n_draws=200)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (20,),
        *,
        activation: Activation = "tanh",
        prior_scale: float = 1.0,
        n_draws: int = 500,
        n_warmup: int = 500,
        n_chains: int = 1,
        noise: Literal["train", "posterior", "heteroskedastic"] | float | Noise = "train",
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior_scale = prior_scale
        self.n_draws = n_draws
        self.n_warmup = n_warmup
        self.n_chains = n_chains
        self.noise = noise
        self.verbose = verbose
        self.random_state = random_state


class NutsClassifier(ClassifierMixin, _Nuts, ClassificationNetwork):
    """A Bayesian neural network by Hamiltonian Monte Carlo with the No-U-Turn sampler. Needs NumPyro.

    X is standardised; weights and biases have independent normal priors. Meant for small networks.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(20,)
    activation : {"tanh", "relu", "logistic", "softplus", "identity"}, default="tanh"
    prior_scale : float, default=1.0
        Standard deviation of the prior.
    n_draws : int, default=500
        Number of draws to keep, over all chains.
    n_warmup : int, default=500
    n_chains : int, default=1
        Number of chains, run one after the other.
    verbose : int, default=0
        If positive, show NumPyro's progress bar.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_ : list of ParametricModel
        The drawn networks.
    model_ : ParametricModel
        The network at the posterior mean of its parameters.
    n_divergences_ : int
        Draws at which the sampler's integrator diverged; more than a few mean that the posterior was not explored.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from skribbon.baselines import NutsClassifier
    >>> NutsClassifier(hidden_layer_sizes=(10,), n_draws=200)
    NutsClassifier(hidden_layer_sizes=(10,), n_draws=200)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (20,),
        *,
        activation: Activation = "tanh",
        prior_scale: float = 1.0,
        n_draws: int = 500,
        n_warmup: int = 500,
        n_chains: int = 1,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior_scale = prior_scale
        self.n_draws = n_draws
        self.n_warmup = n_warmup
        self.n_chains = n_chains
        self.verbose = verbose
        self.random_state = random_state
