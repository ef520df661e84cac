"""Bayesian neural networks by Hamiltonian Monte Carlo or variational inference. Only ``fit`` imports NumPyro."""

from dataclasses import KW_ONLY, dataclass, replace
from importlib.util import find_spec
from numbers import Real
from typing import Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from .._utils.checks import check_count, check_positive, class_targets
from .._utils.typing import RandomState
from ..models.architectures import Activation, mlp
from ..models.losses import Bernoulli, Categorical, Tweedie
from ..noise.scale import ConstantNoise, Noise
from .ensembles import MemberClassification, MemberRegression, UnweightedFit


@dataclass(repr=False, eq=False)
class BayesianNetwork(UnweightedFit):
    """Network with independent normal priors and standardized X; a subclass writes ``_infer`` and ``_fitted``."""

    hidden_layer_sizes: tuple[int, ...] = (20,)
    _: KW_ONLY
    activation: Activation = "tanh"
    prior_scale: float = 1.0
    n_draws: int = 500
    verbose: int = 0
    random_state: RandomState = None

    def _fit_network(self, X, t, loss, **fields):
        """Draw from the posterior; return fitted attributes and the draws of a regressor's noise, or None."""
        check_count(self.n_draws, "n_draws", 2)
        check_positive(self.prior_scale, "prior_scale")
        if find_spec("numpyro") is None:
            raise ImportError(f"{type(self).__name__} needs NumPyro: pip install skribbon[bayes].")
        scaler = StandardScaler().fit(X)
        Z = scaler.transform(X)
        architecture = mlp(self.hidden_layer_sizes, self.activation)
        columns = 1 if loss.output_map is None else len(loss.output_map)
        start = architecture.init(Z, columns, np.random.RandomState(0))
        penalties = [(0.0, 0.0)] * len(start)
        fields |= {"loss": loss, "output_map": loss.output_map, "preprocess": (scaler,)}
        network = architecture.parametric(start, penalties, **fields)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        draws = self._infer(_posterior(network, float(self.prior_scale)), Z, t, seed)
        thetas = np.asarray(draws["theta"], dtype=float)
        finite = np.isfinite(thetas).all(axis=1)
        if not finite.all():
            raise ValueError(f"{(~finite).sum()} of {len(thetas)} draws are not finite; lower prior_scale.")
        inferred = {name: value for name, value in vars(self).items() if name.endswith("_")}  # features, diagnostics
        fitted = {"model_": network.at(thetas.mean(axis=0)), "members_": [network.at(theta) for theta in thetas]}
        return inferred | fitted, None if "sigma" not in draws else np.asarray(draws["sigma"], dtype=float)


@dataclass(repr=False, eq=False, kw_only=True)
class RegressionNetwork(RegressorMixin, MemberRegression, BayesianNetwork):
    """Bayesian regression network with a standardized target."""

    noise: Literal["train", "posterior", "heteroskedastic"] | float | Noise = "train"

    def _fitted(self, X, y):
        infers_noise = isinstance(self.noise, str) and self.noise == "posterior"
        noise = None if infers_noise else self._resolve_noise()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        scaler = StandardScaler().fit(y[:, None])
        t = scaler.transform(y[:, None])[:, 0]
        fitted, sigma = self._fit_network(X, t, Tweedie(), target_transformer=scaler)
        if infers_noise:
            noise = ConstantNoise(np.mean(sigma**2))
        elif isinstance(noise, ConstantNoise) and isinstance(self.noise, Real):
            noise = ConstantNoise(self.noise / scaler.scale_[0] ** 2)  # the user's number is on the scale of y
        return self._with_observations(fitted, X, y, np.ones(len(y)), noise)


class ClassificationNetwork(ClassifierMixin, MemberClassification, BayesianNetwork):
    """Bayesian classification network, with a single logit for two classes."""

    def _fitted(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        classes, t = class_targets(y)
        loss = Bernoulli() if len(classes) == 2 else Categorical(len(classes))
        fitted, _ = self._fit_network(X, t, loss, classes=classes)
        return fitted | {"classes_": classes}


def _posterior(network, prior_scale):
    """Build NumPyro's model of a MultilayerPerceptron, a function of X and the target."""
    import jax
    import numpyro
    from numpyro import distributions as dist

    own_names = {"identity": lambda z: z, "logistic": jax.nn.sigmoid}
    phi = own_names.get(network.activation) or getattr(jax.nn, network.activation)
    p, loss = len(network.theta), network.loss
    network = replace(network, output_map=None)  # NumPyro takes the logits of all classes

    def model(X, t):
        theta = numpyro.sample("theta", dist.Normal(0.0, prior_scale).expand([p]).to_event(1))
        _, f = network.propagate(X, theta, phi)
        if isinstance(loss, Tweedie):
            sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
            law = dist.Normal(f[:, 0], sigma)
        else:
            law = dist.Bernoulli(logits=f[:, 0]) if isinstance(loss, Bernoulli) else dist.Categorical(logits=f)
        numpyro.sample("t", law, obs=t)

    return model


@dataclass(repr=False, eq=False, kw_only=True)
class _Nuts(BayesianNetwork):
    n_warmup: int = 500
    n_chains: int = 1

    def _infer(self, model, X, t, seed):
        from jax.random import PRNGKey
        from numpyro.infer import MCMC, NUTS

        check_count(self.n_warmup, "n_warmup")
        check_count(self.n_chains, "n_chains")
        settings = {"num_chains": self.n_chains, "chain_method": "sequential", "progress_bar": bool(self.verbose)}
        n_samples = -(-self.n_draws // self.n_chains)
        mcmc = MCMC(NUTS(model), num_warmup=self.n_warmup, num_samples=n_samples, **settings)
        mcmc.run(PRNGKey(seed), X, t)
        self.n_divergences_ = int(mcmc.get_extra_fields()["diverging"].sum())
        return mcmc.get_samples()


@dataclass(repr=False, eq=False, kw_only=True)
class NutsRegressor(_Nuts, RegressionNetwork):
    """A Bayesian neural network by Hamiltonian Monte Carlo with the No-U-Turn sampler. Needs NumPyro.

    X and y are standardized; on that scale weights and biases have independent normal priors, and the noise's
    standard deviation a half-normal one. Meant for small networks.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(20,)
    activation : {"tanh", "relu", "logistic", "softplus", "identity"}, default="tanh"
    prior_scale : float, default=1.0
        Standard deviation of the prior.
    n_draws : int, default=500
        Number of draws to keep, over all chains.
    verbose : int, default=0
        If positive, show NumPyro's progress bar.
    random_state : int, RandomState or None, default=None
    noise : {"train", "posterior", "heteroskedastic"}, float or Noise, default="train"
        Observation noise of predictions: "train" the sum of squared residuals from the posterior mean over n - 1;
        "posterior" the posterior mean of the noise's variance; a number is a variance of y.
    n_warmup, n_chains : int, default=500 and 1
        Draws before those that are kept, and number of chains, run one after the other.

    Attributes
    ----------
    members_, model_ : list of ParametricModel and ParametricModel
        The drawn networks, and the network at the mean of their parameters.
    n_divergences_ : int
        Draws at which the sampler's integrator diverged; more than a few mean that the posterior was not explored.
    noise_ : Noise of the standardized y
    n_features_in_, feature_names_in_ : int and ndarray of shape (n_features,)

    See Also
    --------
    SviRegressor : Faster, by variational inference.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Hoffman, M. D. and Gelman, A. (2014). The No-U-Turn Sampler. Journal of Machine Learning Research 15.

    Examples
    --------
    >>> from skribbon.baselines import NutsRegressor
    >>> NutsRegressor(hidden_layer_sizes=(10,), n_draws=200)
    NutsRegressor(hidden_layer_sizes=(10,), n_draws=200)
    """


class NutsClassifier(_Nuts, ClassificationNetwork):
    """A Bayesian neural network by Hamiltonian Monte Carlo with the No-U-Turn sampler. Needs NumPyro.

    Parameters
    ----------
    hidden_layer_sizes, activation, prior_scale : tuple of int, str and float
    n_draws, verbose, random_state, n_warmup, n_chains : int or None
        As in :class:`~skribbon.baselines.NutsRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_, model_, n_divergences_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.NutsRegressor`.

    See Also
    --------
    SviClassifier : Faster, by variational inference.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Hoffman, M. D. and Gelman, A. (2014). The No-U-Turn Sampler. Journal of Machine Learning Research 15.

    Examples
    --------
    >>> from skribbon.baselines import NutsClassifier
    >>> NutsClassifier(hidden_layer_sizes=(10,), n_draws=200)
    NutsClassifier(hidden_layer_sizes=(10,), n_draws=200)
    """


@dataclass(repr=False, eq=False, kw_only=True)
class _Svi(BayesianNetwork):
    n_steps: int = 5000
    learning_rate: float = 0.01

    def _infer(self, model, X, t, seed):
        from jax.random import PRNGKey, split
        from numpyro.infer import SVI, Trace_ELBO
        from numpyro.infer.autoguide import AutoNormal
        from numpyro.optim import Adam

        check_count(self.n_steps, "n_steps")
        guide = AutoNormal(model)
        run_key, draw_key = split(PRNGKey(seed))
        # Gradients are noisy, from single draws: without a decay the means would not settle within the posterior.
        optimiser = Adam(lambda step: self.learning_rate * (1 - step / (self.n_steps + 1)))
        svi = SVI(model, guide, optimiser, Trace_ELBO())
        result = svi.run(run_key, self.n_steps, X, t, progress_bar=bool(self.verbose))
        self.loss_curve_ = np.asarray(result.losses, dtype=float)
        return guide.sample_posterior(draw_key, result.params, sample_shape=(self.n_draws,))


@dataclass(repr=False, eq=False, kw_only=True)
class SviRegressor(_Svi, RegressionNetwork):
    """A Bayesian neural network by stochastic variational inference with independent normals. Needs NumPyro.

    X and y are standardized, with the priors of :class:`~skribbon.baselines.NutsRegressor`.

    Parameters
    ----------
    hidden_layer_sizes, activation, prior_scale : tuple of int, str and float
    n_draws, verbose, random_state, noise : int or None, and str, float or Noise
        As in :class:`~skribbon.baselines.NutsRegressor`.
    n_steps : int, default=5000
    learning_rate : float, default=0.01
        Of Adam at the first step; it decays linearly to zero.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_steps,)
        Minus the evidence lower bound, one draw each.
    members_, model_, noise_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.NutsRegressor`.

    See Also
    --------
    NutsRegressor : Slower, by sampling.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    Examples
    --------
    >>> from skribbon.baselines import SviRegressor
    >>> SviRegressor(hidden_layer_sizes=(10,), n_steps=1000)
    SviRegressor(hidden_layer_sizes=(10,), n_steps=1000)
    """


class SviClassifier(_Svi, ClassificationNetwork):
    """A Bayesian neural network by stochastic variational inference with independent normals. Needs NumPyro.

    Parameters
    ----------
    hidden_layer_sizes, activation, prior_scale : tuple of int, str and float
    n_draws, verbose, random_state, n_steps, learning_rate : int or None, and float
        As in :class:`~skribbon.baselines.SviRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_, model_, loss_curve_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.SviRegressor`.

    See Also
    --------
    NutsClassifier : Slower, by sampling.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    Examples
    --------
    >>> from skribbon.baselines import SviClassifier
    >>> SviClassifier(hidden_layer_sizes=(10,), n_steps=1000)
    SviClassifier(hidden_layer_sizes=(10,), n_steps=1000)
    """
