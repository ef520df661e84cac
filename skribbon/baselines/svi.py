"""Bayesian neural networks by stochastic variational inference."""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from .._utils.checks import check_count
from .._utils.typing import RandomState
from ..models.architectures import Activation
from ..noise.scale import Noise
from ._bayesian_network import ClassificationNetwork, RegressionNetwork


class _Svi:
    def _infer(self, model, X, t, seed):
        from jax.random import PRNGKey, split
        from numpyro.infer import SVI, Trace_ELBO
        from numpyro.infer.autoguide import AutoNormal
        from numpyro.optim import Adam

        check_count(self.n_steps, "n_steps")
        guide = AutoNormal(model)
        run_key, draw_key = split(PRNGKey(seed))
        # gradients come of single draws: without a decay the means would not settle within the laws' own widths
        optimiser = Adam(lambda step: self.learning_rate * (1 - step / (self.n_steps + 1)))
        svi = SVI(model, guide, optimiser, Trace_ELBO())
        result = svi.run(run_key, self.n_steps, X, t, progress_bar=bool(self.verbose))
        self.loss_curve_ = np.asarray(result.losses, dtype=float)
        return guide.sample_posterior(draw_key, result.params, sample_shape=(self.n_draws,))


class SviRegressor(RegressorMixin, _Svi, RegressionNetwork):
    """A Bayesian neural network by stochastic variational inference with independent normals. Needs NumPyro.

    X and y are standardised; on that scale weights and biases have independent normal priors, and the noise's
    standard deviation a half-normal one.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(20,)
    activation : {"tanh", "relu", "logistic", "softplus", "identity"}, default="tanh"
    prior_scale : float, default=1.0
        Standard deviation of the prior.
    n_draws : int, default=500
        Number of draws to keep.
    n_steps : int, default=5000
        Steps of Adam.
    learning_rate : float, default=0.01
        At the first step; it decays linearly to zero.
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
        The network at the mean of the drawn parameters.
    loss_curve_ : ndarray of shape (n_steps,)
        Minus the evidence lower bound, one draw each.
    noise_ : Noise
        On the scale of the standardised y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from skribbon.baselines import SviRegressor
    >>> SviRegressor(hidden_layer_sizes=(10,), n_steps=1000)
    SviRegressor(hidden_layer_sizes=(10,), n_steps=1000)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (20,),
        *,
        activation: Activation = "tanh",
        prior_scale: float = 1.0,
        n_draws: int = 500,
        n_steps: int = 5000,
        learning_rate: float = 0.01,
        noise: Literal["train", "posterior", "heteroskedastic"] | float | Noise = "train",
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior_scale = prior_scale
        self.n_draws = n_draws
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.noise = noise
        self.verbose = verbose
        self.random_state = random_state


class SviClassifier(ClassifierMixin, _Svi, ClassificationNetwork):
    """A Bayesian neural network by stochastic variational inference with independent normals. Needs NumPyro.

    X is standardised; weights and biases have independent normal priors.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(20,)
    activation : {"tanh", "relu", "logistic", "softplus", "identity"}, default="tanh"
    prior_scale : float, default=1.0
        Standard deviation of the prior.
    n_draws : int, default=500
        Number of draws to keep.
    n_steps : int, default=5000
        Steps of Adam.
    learning_rate : float, default=0.01
        At the first step; it decays linearly to zero.
    verbose : int, default=0
        If positive, show NumPyro's progress bar.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_ : list of ParametricModel
        The drawn networks.
    model_ : ParametricModel
        The network at the mean of the drawn parameters.
    loss_curve_ : ndarray of shape (n_steps,)
        Minus the evidence lower bound, one draw each.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from skribbon.baselines import SviClassifier
    >>> SviClassifier(hidden_layer_sizes=(10,), n_steps=1000)
    SviClassifier(hidden_layer_sizes=(10,), n_steps=1000)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (20,),
        *,
        activation: Activation = "tanh",
        prior_scale: float = 1.0,
        n_draws: int = 500,
        n_steps: int = 5000,
        learning_rate: float = 0.01,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior_scale = prior_scale
        self.n_draws = n_draws
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.verbose = verbose
        self.random_state = random_state
