"""Bayesian neural networks: priors, likelihood, and what is kept of the posterior. NumPyro is imported by fit alone."""

from __future__ import annotations

from importlib.util import find_spec
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .._estimators.base import FittedModel
from .._utils.checks import check_count
from ..models.architectures import mlp
from ..models.losses import Bernoulli, Categorical, Tweedie
from ..noise.scale import ConstantNoise
from ._members import MemberClassification, MemberRegression


class BayesianNetwork(FittedModel, BaseEstimator):
    """Independent Gaussian priors on all weights and biases, X standardised; needs ``_infer`` and ``_fitted``.

    Draws are parameter vectors of one network, held as arrays: predictions need NumPy alone.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Draw networks from the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        return self._adopt(self._fitted(X, y))

    def _fit_network(self, X, t, loss, **fields):
        """Draw from the posterior; returns what is fitted, and the draws of a regressor's noise."""
        self._check_parameters()
        _check_numpyro(type(self).__name__)
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

    def _check_parameters(self):
        check_count(self.n_draws, "n_draws", 2)
        if not isinstance(self.prior_scale, Real) or not np.isfinite(self.prior_scale) or self.prior_scale <= 0:
            raise ValueError(f"prior_scale must be a number > 0, got {self.prior_scale!r}.")


class RegressionNetwork(MemberRegression, BayesianNetwork):
    """y is standardised too; needs ``noise``."""

    def _fitted(self, X, y):
        noise = None if self._infers_noise() else self._resolve_noise()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        scaler = StandardScaler().fit(y[:, None])
        t = scaler.transform(y[:, None])[:, 0]
        fitted, sigma = self._fit_network(X, t, Tweedie(), target_transformer=scaler)
        if self._infers_noise():
            noise = ConstantNoise(np.mean(sigma**2))
        elif isinstance(noise, ConstantNoise) and isinstance(self.noise, Real):
            noise = ConstantNoise(self.noise / scaler.scale_[0] ** 2)  # the user's number is on the scale of y
        return self._with_noise(fitted, noise, X, y, np.ones(len(y)))

    def _infers_noise(self):
        return isinstance(self.noise, str) and self.noise == "posterior"


class ClassificationNetwork(MemberClassification, BayesianNetwork):
    """Logits, one for two classes."""

    def _fitted(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes, t = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes[0]!r}; a classifier needs at least two.")
        loss = Bernoulli() if len(classes) == 2 else Categorical(len(classes))
        fitted, _ = self._fit_network(X, t, loss, classes=classes)
        return fitted | {"classes_": classes}


# ---------------------------------------------------------------------- the model
def _check_numpyro(name):
    if find_spec("numpyro") is None:
        raise ImportError(f"{name} needs NumPyro: pip install skribbon[bayes].")


def _posterior(network, prior_scale):
    """The Bayesian model of a MultilayerPerceptron, as NumPyro wants it: a function of X and the target."""
    import jax
    import numpyro
    from jax import numpy as jnp
    from numpyro import distributions as dist

    activations = {
        "identity": lambda z: z,
        "tanh": jnp.tanh,
        "relu": jax.nn.relu,
        "logistic": jax.nn.sigmoid,
        "softplus": jax.nn.softplus,
    }
    phi, p, loss = activations[network.activation], len(network.theta), network.loss

    def model(X, t):
        theta = numpyro.sample("theta", dist.Normal(0.0, prior_scale).expand([p]).to_event(1))
        weights, biases = network.unpack(theta)
        a = X
        for W, b in zip(weights[:-1], biases[:-1], strict=True):
            a = phi(a @ W + b)
        f = a @ weights[-1] + biases[-1]
        if isinstance(loss, Tweedie):
            sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
            law = dist.Normal(f[:, 0], sigma)
        else:
            law = dist.Bernoulli(logits=f[:, 0]) if isinstance(loss, Bernoulli) else dist.Categorical(logits=f)
        numpyro.sample("t", law, obs=t)

    return model
