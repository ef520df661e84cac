"""scikit-learn's multilayer perceptrons, with analytic per-row derivatives."""

from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

import numpy as np
from scipy.special import expit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from .._core.linalg import right_multiply
from .base import as_parametric, is_whole, takes_outputs, with_theta
from .layers import LARGE, LayeredModel, LayeredTangent
from .losses import Bernoulli, Categorical, SquaredErrors, Tweedie

# name: phi(z), then phi' and phi'' as functions of a = phi(z)
ACTIVATIONS = {
    "identity": (lambda z: z, lambda a: 1 + 0 * a, np.zeros_like),
    "logistic": (expit, lambda a: a * (1 - a), lambda a: a * (1 - a) * (1 - 2 * a)),
    "tanh": (np.tanh, lambda a: 1 - a**2, lambda a: -2 * a * (1 - a**2)),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(float), np.zeros_like),
    "softplus": (lambda z: np.logaddexp(z, 0), lambda a: -np.expm1(-a), lambda a: -np.exp(-a) * np.expm1(-a)),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class MultilayerPerceptron(LayeredModel):
    """Network z_l = a_{l-1} W_l + b_l, a_l = phi(z_l), f = z_L M, with theta = (W_1, ..., W_L, b_1, ..., b_L)."""

    units: tuple  # (inputs, hidden..., outputs)
    activation: str

    has_hessian = True
    has_layers = True

    @property
    def row_width(self):
        k, p = self.loss.n_outputs, len(self.theta)
        if p > LARGE:
            return max(sum(self.units), k**2)  # long blocks, since each adds a sum of p numbers or more
        # at most 2304, so that a block has at least 450 rows for the cost of adding its (p, p) sum
        return max(min(p, 2304), 4 * sum(self.units), (k + 1) ** 2)

    def unpack(self, theta):
        shapes = [*pairwise(self.units), *((out,) for out in self.units[1:])]
        places = pairwise([0, *accumulate(map(prod, shapes))])
        lead, n_layers = theta.shape[:-1], len(self.units) - 1
        pieces = [theta[..., a:b].reshape(lead + shape) for (a, b), shape in zip(places, shapes, strict=True)]
        return pieces[:n_layers], pieces[n_layers:]

    def propagate(self, Z, theta, phi=None):
        """Compute activations a_0 ... a_{L-1}, (n, units) each, and f (n, k); another library may bring its own phi."""
        phi, activations, (weights, biases) = phi or ACTIVATIONS[self.activation][0], [Z], self.unpack(theta)
        for W, b in zip(weights[:-1], biases[:-1], strict=True):
            activations.append(phi(activations[-1] @ W + b))
        z = activations[-1] @ weights[-1] + biases[-1]
        return activations, (z if self.output_map is None else z @ self.output_map)

    def raw(self, Z, theta=None):
        return self.propagate(Z, self.theta if theta is None else theta)[1]

    def tangent(self, Z):
        return PerceptronTangent(self, *self.propagate(Z, self.theta))

    def last_inputs(self, Z):
        return self.propagate(Z, self.theta)[0][-1]


class PerceptronTangent(LayeredTangent):
    """Tangent of a network: one forward pass, and backward passes from there."""

    def __init__(self, model, activations, f):
        self.model, self.activations, self.f = model, activations, f
        self.weights = model.unpack(model.theta)[0]
        self.slopes = [ACTIVATIONS[model.activation][1](a) for a in activations[1:]]  # phi'(z_l), l = 1 ... L - 1

    # ------------------------------------------------------------------ first derivatives
    def _deltas(self, U):
        delta, M = U.transpose(0, 2, 1), self.model.output_map
        delta = np.ascontiguousarray(delta if M is None else delta @ M.T, U.dtype)
        deltas = [delta]
        for layer in reversed(range(1, len(self.weights))):
            delta = right_multiply(delta, self.weights[layer].T.astype(U.dtype, copy=False))
            delta *= self.slopes[layer - 1][:, None, :]
            deltas.append(delta)
        return deltas[::-1]

    def _pushed(self, V):
        """Derivatives along V (t, p) of every layer's inputs and outputs, (t, n, units) each."""
        D_weights, D_biases = self.model.unpack(V)
        D_a, D_zs, D_as = np.zeros((1, *self.activations[0].shape)), [], []
        for layer, a in enumerate(self.activations):
            D_z = a @ D_weights[layer] + D_biases[layer][:, None]
            if layer:
                D_a = self.slopes[layer - 1] * D_zs[-1]
                D_z += D_a @ self.weights[layer]
            D_as.append(D_a)
            D_zs.append(D_z)
        return D_as, D_zs

    def jvp(self, V):
        if self.f.shape[1] <= 2:
            return super().jvp(V)
        M, pieces = self.model.output_map, [self._pushed(V[:, cols].T.copy())[1][-1] for cols in self._columns(V)]
        D = np.concatenate(pieces)
        return (D if M is None else right_multiply(D, M)).transpose(1, 2, 0)

    # ------------------------------------------------------------------ second derivatives
    def hessian_product(self, C, u, V):
        return np.concatenate([self._hessian_products(C, u, V[:, cols].T.copy()) for cols in self._columns(V)]).T

    def _hessian_products(self, C, u, V):
        """Products V H (t, p), forward over reverse; a leading D marks derivatives along V (t, p), (t, n, units)."""
        network, weights = self.model, self.weights
        bends = [ACTIVATIONS[network.activation][2](a) for a in self.activations[1:]]  # phi''
        D_weights, (D_as, D_zs) = network.unpack(V)[0], self._pushed(V)
        M = np.eye(network.units[-1]) if network.output_map is None else network.output_map
        delta = u @ M.T
        D_delta = np.einsum("nkl,tnl->tnk", C, D_zs[-1] @ M) @ M.T
        out = np.empty_like(V)
        weight_slots, bias_slots = network.unpack(out)
        for layer in reversed(range(len(weights))):
            weight_slots[layer][...] = D_as[layer].transpose(0, 2, 1) @ delta + self.activations[layer].T @ D_delta
            bias_slots[layer][...] = D_delta.sum(axis=1)
            if layer:
                back, D_back = delta @ weights[layer].T, D_delta @ weights[layer].T
                D_back = D_back + delta @ D_weights[layer].transpose(0, 2, 1)
                D_delta = D_back * self.slopes[layer - 1] + back * bends[layer - 1] * D_zs[layer - 1]
                delta = back * self.slopes[layer - 1]
        return out


def _perceptron(estimator, loss, sample_weight, **fields):
    units = (len(estimator.coefs_[0]), *(len(b) for b in estimator.intercepts_))
    theta = np.concatenate([np.ravel(a) for a in (*estimator.coefs_, *estimator.intercepts_)]).astype(float)
    l2 = np.zeros_like(theta)
    divisor = sample_weight.sum()  # of alpha: the weight of all rows for lbfgs, of one minibatch for other solvers
    if estimator.solver != "lbfgs":
        n = len(sample_weight)
        divisor *= (min(200, n) if estimator.batch_size == "auto" else np.clip(estimator.batch_size, 1, n)) / n
    l2[: sum(W.size for W in estimator.coefs_)] = estimator.alpha / divisor
    return MultilayerPerceptron(theta=theta, loss=loss, l2=l2, units=units, activation=estimator.activation, **fields)


@takes_outputs.register(MLPRegressor)
def _(estimator):
    return getattr(estimator, "loss", "squared_error") == "squared_error"  # the only one before scikit-learn 1.7


@as_parametric.register(MLPRegressor)
def _(estimator, y, sample_weight):
    if estimator.n_outputs_ > 1:
        if not takes_outputs(estimator):
            raise TypeError(f"{estimator!r} was fitted with several outputs; fit it to one column of y.")
        return _perceptron(estimator, SquaredErrors(estimator.n_outputs_), sample_weight)
    loss = Tweedie(1, "log", is_whole(y)) if estimator.out_activation_ == "exp" else Tweedie()
    return _perceptron(estimator, loss, sample_weight)


@as_parametric.register(MLPClassifier)
def _(estimator, y, sample_weight):
    if len(estimator.classes_) < 2:
        raise ValueError(f"y has one class only, {estimator.classes_[0]!r}; a classifier needs at least two.")
    if estimator.out_activation_ == "logistic":
        if estimator.n_outputs_ > 1:
            raise TypeError("MLPClassifier was fitted with several labels per row; fit one for each label.")
        return _perceptron(estimator, Bernoulli(), sample_weight, classes=estimator.classes_)
    loss = Categorical(estimator.n_outputs_)
    return _perceptron(estimator, loss, sample_weight, classes=estimator.classes_, output_map=loss.basis)


@with_theta.register(MLPRegressor | MLPClassifier)
def _(estimator, model, theta):
    estimator = deepcopy(estimator)
    estimator.coefs_, estimator.intercepts_ = ([np.array(a) for a in arrays] for arrays in model.unpack(theta))
    return estimator
