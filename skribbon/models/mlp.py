"""scikit-learn's multilayer perceptrons, with analytic per-row derivatives."""

from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from math import prod
from operator import add

import numpy as np
from scipy.special import expit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from .._core.linalg import gram, right_multiply
from .._core.rows import LEAST_ROWS, Sums
from .._utils.compat import cached_property
from .base import POLISH, ParametricModel, Tangent, as_parametric, is_whole, takes_outputs, with_theta
from .linear import LinearPredictor
from .losses import Bernoulli, Categorical, SquaredErrors, Tweedie

# name: phi(z), then phi' and phi'' as functions of a = phi(z)
ACTIVATIONS = {
    "identity": (lambda z: z, np.ones_like, np.zeros_like),
    "logistic": (expit, lambda a: a * (1 - a), lambda a: a * (1 - a) * (1 - 2 * a)),
    "tanh": (np.tanh, lambda a: 1 - a**2, lambda a: -2 * a * (1 - a**2)),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(float), np.zeros_like),
    "softplus": (lambda z: np.logaddexp(z, 0), lambda a: -np.expm1(-a), lambda a: -np.exp(-a) * np.expm1(-a)),
}
FLOATS = 2**20  # floats of an intermediate array in products with many directions: 8 MB stay near the cache
LARGE = 2**14  # parameters beyond which no Jacobian is formed; a (p, p) array would take 2 GB


@dataclass(frozen=True, kw_only=True, eq=False)
class MultilayerPerceptron(ParametricModel):
    """Network z_l = a_{l-1} W_l + b_l, a_l = phi(z_l), f = z_L M, with theta = (W_1, ..., W_L, b_1, ..., b_L)."""

    units: tuple  # (inputs, hidden..., outputs)
    activation: str
    output_map: np.ndarray | None = None  # M (K, k), from a softmax's logits to the coordinates of its loss
    cure: str = POLISH

    has_hessian = True
    has_layers = True

    @property
    def row_width(self):
        k, p = self.loss.n_outputs, len(self.theta)
        if p > LARGE:
            return max(sum(self.units), k**2)  # long blocks, since each adds a sum of p numbers or more
        # at most 2304, so that a block has at least 450 rows for the cost of adding its (p, p) sum
        return max(min(p, 2304), 4 * sum(self.units), (k + 1) ** 2)

    @cached_property
    def layers(self):
        """Indices into theta of each dense layer, (in + 1, out), biases last."""
        weights, biases = self.unpack(np.arange(len(self.theta)))
        return [np.vstack([W, b]) for W, b in zip(weights, biases, strict=True)]

    def unpack(self, theta):
        """Lists of weights (..., in, out) and biases (..., out), as views of theta (..., p)."""
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

    def last_layer(self):
        Theta, l2 = self.theta[self.layers[-1]], self.l2[self.layers[-1]]
        if self.output_map is not None:
            Theta, l2 = Theta @ self.output_map, l2[:, : self.loss.n_outputs]
        names = ("loss", "preprocess", "inputs", "target_transformer", "classes")
        shared = {name: getattr(self, name) for name in names}
        return LastLayer(theta=Theta.T.ravel(), l2=l2.T.ravel(), network=self, **shared)


class PerceptronTangent(Tangent):
    """Tangent of a network: one forward pass, and backward passes from there."""

    def __init__(self, network, activations, f):
        self.network, self.activations, self.f, self._p = network, activations, f, len(network.theta)
        self.weights = network.unpack(network.theta)[0]
        self.slopes = [ACTIVATIONS[network.activation][1](a) for a in activations[1:]]  # phi'(z_l), l = 1 ... L - 1

    @cached_property
    def inputs(self):
        """Inputs of every layer, with a one for its biases, (n, in + 1)."""
        return [np.column_stack([a, np.ones(len(a))]) for a in self.activations]

    # ------------------------------------------------------------------ first derivatives
    def _deltas(self, U):
        """Derivatives d(u . f)/dz_l of every layer, first to last, (n, r, units), in the precision of U (n, k, r)."""
        delta, M = U.transpose(0, 2, 1), self.network.output_map
        delta = np.ascontiguousarray(delta if M is None else delta @ M.T, U.dtype)
        deltas = [delta]
        for layer in reversed(range(1, len(self.weights))):
            delta = right_multiply(delta, self.weights[layer].T.astype(U.dtype, copy=False))
            delta *= self.slopes[layer - 1][:, None, :]
            deltas.append(delta)
        return deltas[::-1]

    def _gradients(self, U):
        """Products U_i' J_i (n, r, p) for U (n, k, r)."""
        out = np.empty((len(U), U.shape[2], self._p))
        slots = zip(*self.network.unpack(out), strict=True)
        for a, delta, (weights, biases) in zip(self.activations, self._deltas(U), slots, strict=True):
            np.multiply(a[:, None, :, None], delta[:, :, None, :], out=weights)
            biases[...] = delta
        return out

    def jacobian(self):
        n, k = self.f.shape
        return self._gradients(np.broadcast_to(np.eye(k), (n, k, k)))

    def scores(self, u):
        return self._gradients(u[:, :, None])[:, 0]

    def gram(self, R):
        """Sum over rows of J_i' R_i R_i' J_i, (p, p), by pairs of layers, (a a') (x) (d' d)."""
        if R.shape[2] == 1:
            return gram(self.scores(R[:, :, 0]))
        H = np.empty((self._p, self._p))
        layers = list(zip(self.inputs, self._deltas(R), self.network.layers, strict=True))
        for k, (a, d, rows) in enumerate(layers):
            for b, e, columns in layers[: k + 1]:
                inputs = (a[:, :, None] * b[:, None]).reshape(len(a), -1)
                outputs = (d.transpose(0, 2, 1) @ e).reshape(len(a), -1)
                part = (inputs.T @ outputs).reshape(len(rows), len(columns), rows.shape[1], columns.shape[1])
                part = part.transpose(0, 2, 1, 3).reshape(rows.size, columns.size)
                H[np.ix_(rows.ravel(), columns.ravel())] = part
                H[np.ix_(columns.ravel(), rows.ravel())] = part.T
        return H

    def squares(self, R):
        """Diagonal of :meth:`gram`, (p,): squares of outer products are outer products."""
        out = np.empty(self._p)
        for a, delta, places in zip(self.inputs, self._deltas(R), self.network.layers, strict=True):
            out[places] = (a**2).T @ np.einsum("nru,nru->nu", delta, delta)
        return out

    def kronecker_sums(self, R, weight):
        """Sums over rows of weight a a' (in + 1, in + 1) and sum_r d_r d_r' (out, out) per layer, for R (n, k, r)."""
        layers = zip(self.inputs, self._deltas(R), strict=True)
        return [Sums([gram(a, weight), gram(delta.reshape(-1, delta.shape[2]))]) for a, delta in layers]

    def layer_scores(self, R, precision=np.float64):
        """Products R_i' J_i of every row as LayerScores, for R (n, k, r)."""
        inputs = [a.astype(precision, copy=False) for a in self.inputs]
        return LayerScores(self.network.layers, inputs, self._deltas(R.astype(precision, copy=False)))

    def weighted_scores(self, u, c):
        out, deltas = np.empty((c.shape[1], self._p)), self._deltas(u[:, :, None])
        for a, delta, places in zip(self.inputs, deltas, self.network.layers, strict=True):
            for total, w in zip(out, c.T[:, :, None], strict=True):
                total[places] = (a * w).T @ delta[:, 0]
        return out.T

    def vjp(self, U):
        return np.concatenate([self.layer_scores(U[:, :, cols]).total() for cols in self._columns(U)], axis=1)

    def jvp(self, V):
        if self.f.shape[1] <= 2 and V.shape[1] > 16 and self._p <= LARGE:  # forward mode is faster for fewer directions
            return super().jvp(V)
        return np.concatenate([self._jvp(V[:, cols]) for cols in self._columns(V)], axis=2)

    def _jvp(self, V):
        """Product J V (n, k, r) in forward mode, with the derivative D (n, r, units) of every layer."""
        D, r = None, V.shape[1]
        for layer, (a, directions) in enumerate(zip(self.inputs, by_layer(V, self.network.layers), strict=True)):
            along = (a @ directions).reshape(len(a), r, self.network.units[layer + 1])
            if layer:
                D *= self.slopes[layer - 1][:, None, :]
                along += right_multiply(D, self.weights[layer])
            D = along
        D = D if self.network.output_map is None else right_multiply(D, self.network.output_map)
        return D.transpose(0, 2, 1)

    def _columns(self, V):
        """Slices of the last axis of V, so that intermediate arrays stay small."""
        width = max(1, FLOATS // (len(self.f) * max(self.network.units)))
        return [slice(start, start + width) for start in range(0, max(V.shape[-1], 1), width)]

    # ------------------------------------------------------------------ second derivatives
    def hessian(self, C, u):
        H = self.hessian_product(C, u, np.eye(self._p))
        return (H + H.T) / 2

    def hessian_product(self, C, u, V):
        return np.concatenate([self._hessian_products(C, u, V[:, cols].T.copy()) for cols in self._columns(V)]).T

    def _hessian_products(self, C, u, V):
        """Products V H (t, p), forward over reverse; a leading D marks derivatives along V (t, p), (t, n, units)."""
        network, weights = self.network, self.weights
        bends = [ACTIVATIONS[network.activation][2](a) for a in self.activations[1:]]  # phi''
        D_weights, D_biases = network.unpack(V)
        D_a, D_zs, D_as = np.zeros((1, *self.activations[0].shape)), [], []
        for layer, a in enumerate(self.activations):
            D_as.append(D_a)
            D_zs.append(D_a @ weights[layer] + a @ D_weights[layer] + D_biases[layer][:, None])
            if layer + 1 < len(self.activations):
                D_a = self.slopes[layer] * D_zs[-1]
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


def by_layer(V, layers):
    """Directions V (p, m) as an array (in + 1, m out) for each layer."""
    return [V[places].transpose(0, 2, 1).reshape(len(places), places.shape[1] * V.shape[1]) for places in layers]


@dataclass(frozen=True, eq=False)
class LayerScores:
    """Matrix S (n r, p) of r scores per row, held as outer products of each layer's inputs and output gradients."""

    layers: list  # (in + 1, out) each: indices into theta, biases last
    inputs: list  # (n, in + 1) each, with a one for the biases
    deltas: list  # (n, r, out) each: gradients in the layer's outputs

    def _chunks(self, m):
        """Slices of rows, with their scores, for which products with m directions stay near the cache."""
        size = max(LEAST_ROWS, 4 * FLOATS // max(1, m * max(d.shape[2] for d in self.deltas)))
        for start in range(0, len(self.inputs[0]), size):
            rows = slice(start, start + size)
            yield rows, LayerScores(self.layers, [a[rows] for a in self.inputs], [d[rows] for d in self.deltas])

    def _restored(self, parts, m):
        """Join arrays (in + 1, m out) of each layer to one (p, m)."""
        out = np.empty((sum(places.size for places in self.layers), m))
        for places, part in zip(self.layers, parts, strict=True):
            out[places] = part.reshape(len(places), m, -1).transpose(0, 2, 1)
        return out

    def _along(self, directions, m):
        """Product S V (n, m, r) with m directions by layer."""
        layers = zip(self.inputs, self.deltas, directions, strict=True)
        return reduce(add, ((a @ D).reshape(len(a), m, d.shape[2]) @ d.transpose(0, 2, 1) for a, d, D in layers))

    def _gathered(self, C):
        """Product S' C by layer, for C (n, m, r)."""
        return Sums(a.T @ (C @ d).reshape(len(a), -1) for a, d in zip(self.inputs, self.deltas, strict=True))

    def total(self):
        """Sum over rows of their scores, (p, r)."""
        parts = [a.T @ d.reshape(len(a), -1) for a, d in zip(self.inputs, self.deltas, strict=True)]
        return self._restored(parts, self.deltas[0].shape[1])

    def product(self, V):
        """Product S V (n, r, m) for V (p, m)."""
        m, directions = V.shape[1], by_layer(V, self.layers)
        return np.concatenate([some._along(directions, m) for _, some in self._chunks(m)]).transpose(0, 2, 1)

    def transposed_product(self, C):
        """Product S' C (p, m) for C (n, r, m)."""
        m, C = C.shape[2], C.transpose(0, 2, 1)
        return self._restored(reduce(add, (some._gathered(C[rows]) for rows, some in self._chunks(m))), m)


@dataclass(frozen=True, kw_only=True, eq=False)
class LastLayer(LinearPredictor):
    """Network as a linear model of its last hidden units."""

    network: MultilayerPerceptron

    def rows(self, X):
        return super().rows(self.network.propagate(self.network.rows(X), self.network.theta)[0][-1])

    def centred(self, X):
        return self  # hidden units are of order one


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
            raise TypeError(f"{estimator!r} was fitted with several outputs; skribbon needs a single one of it.")
        return _perceptron(estimator, SquaredErrors(estimator.n_outputs_), sample_weight)
    loss = Tweedie(1, "log", is_whole(y)) if estimator.out_activation_ == "exp" else Tweedie()
    return _perceptron(estimator, loss, sample_weight)


@as_parametric.register(MLPClassifier)
def _(estimator, y, sample_weight):
    if len(estimator.classes_) < 2:
        raise ValueError(f"y has one class only, {estimator.classes_[0]!r}; a classifier needs at least two.")
    if estimator.out_activation_ == "logistic":
        if estimator.n_outputs_ > 1:
            raise TypeError("MLPClassifier was fitted with several labels per row; skribbon needs a single one.")
        return _perceptron(estimator, Bernoulli(), sample_weight, classes=estimator.classes_)
    loss = Categorical(estimator.n_outputs_)
    return _perceptron(estimator, loss, sample_weight, classes=estimator.classes_, output_map=loss.basis)


@with_theta.register(MLPRegressor | MLPClassifier)
def _(estimator, model, theta):
    estimator = deepcopy(estimator)
    estimator.coefs_, estimator.intercepts_ = ([np.array(a) for a in arrays] for arrays in model.unpack(theta))
    return estimator
