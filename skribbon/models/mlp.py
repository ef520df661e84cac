"""scikit-learn's multilayer perceptrons, with analytic per-row derivatives."""

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from operator import add

import numpy as np
from scipy.special import expit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from .._core.linalg import gram, right_multiply, weighted_gram
from .._core.rows import BLOCK_BYTES, Sums, blocks_at_once
from ._layers import LayerSquares, distinct, layers_are_worth, single_grams, summed_grams, weighted_products, with_one
from ._scores import LayerScores, with_ones
from .base import ParametricModel, Tangent, as_parametric
from .linear import LinearPredictor
from .losses import Bernoulli, Categorical, SquaredErrors, Tweedie
from .outputs import takes_outputs

# name: phi(z), then phi' and phi'' as functions of a = phi(z)
ACTIVATIONS = {
    "identity": (lambda z: z, np.ones_like, np.zeros_like),
    "logistic": (expit, lambda a: a * (1 - a), lambda a: a * (1 - a) * (1 - 2 * a)),
    "tanh": (np.tanh, lambda a: 1 - a**2, lambda a: -2 * a * (1 - a**2)),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(float), np.zeros_like),
    "softplus": (lambda z: np.logaddexp(z, 0), lambda a: -np.expm1(-a), lambda a: -np.exp(-a) * np.expm1(-a)),
}
CACHE = 2**18  # floats of an intermediate array that is multiplied while it is in the cache
FEW = 16  # directions that are propagated one by one, rather than multiplied by the Jacobian
LARGE = 2**14  # parameters beyond which no row of the Jacobian is formed
WIDE = 2304  # floats of a row that are allowed for, since p x p sums want blocks of hundreds of rows
WIDE_OF_SEVERAL = 1365  # the same of several outputs, whose squares are formed a cacheful of rows at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class MultilayerPerceptron(ParametricModel):
    """z_l = a_{l-1} W_l + b_l, a_l = phi(z_l), f = z_L M; theta = (W_1, ..., W_L, b_1, ..., b_L), each ravelled.

    ``output_map`` M (K, k) takes a softmax's K logits to the k coordinates of its loss; None is the identity.
    """

    units: tuple  # (inputs, hidden..., outputs)
    activation: str
    output_map: np.ndarray | None = None

    @property
    def has_hessian(self):
        return True

    @property
    def row_width(self):
        k, p = self.n_outputs, len(self.theta)
        if p > LARGE:
            return max(sum(self.units), k**2)  # sums of p numbers or more want long blocks
        if k > 1:
            return max(min(p, WIDE_OF_SEVERAL), 4 * sum(self.units), (k + 1) ** 2)
        pairs = max(distinct(n_out) for _, n_out in self.layer_shapes)
        return max(min(max(p, pairs), WIDE), 4 * sum(self.units)) + 16

    @property
    def at_once(self):
        return blocks_at_once(len(self.theta))

    @cached_property
    def _shapes(self):
        return [*zip(self.units[:-1], self.units[1:], strict=True), *((out,) for out in self.units[1:])]

    @property
    def layer_shapes(self):
        """Of every layer, the number of its inputs, a one among them, and of its outputs."""
        return [(n_in + 1, n_out) for n_in, n_out in pairwise(self.units)]

    @property
    def slots(self):
        """Where the weights of every layer, and its biases, are in theta: pairs of slices."""
        stops = np.cumsum([0, *(prod(shape) for shape in self._shapes)]).tolist()
        slices, n_layers = [slice(*ends) for ends in pairwise(stops)], len(self.units) - 1
        return list(zip(slices[:n_layers], slices[n_layers:], strict=True))

    @property
    def has_layers(self):
        return True

    @property
    def layers(self):
        weights, biases = self.unpack(np.arange(len(self.theta)))
        return [np.vstack([W, b]) for W, b in zip(weights, biases, strict=True)]

    def unpack(self, theta):
        """Weights and biases as views of theta (..., p): lists of (..., in, out) and (..., out)."""
        pieces, start = [], 0
        for shape in self._shapes:
            stop = start + prod(shape)
            pieces.append(theta[..., start:stop].reshape(theta.shape[:-1] + shape))
            start = stop
        n_layers = len(self.units) - 1
        return pieces[:n_layers], pieces[n_layers:]

    def propagate(self, Z, theta):
        """Activations a_0 ... a_{L-1}, (n, units) each, and the raw prediction (n, k)."""
        return self._forward(Z, *self.unpack(theta))

    def _forward(self, Z, weights, biases):
        phi = ACTIVATIONS[self.activation][0]
        activations = [Z]
        for W, b in zip(weights[:-1], biases[:-1], strict=True):
            activations.append(phi(activations[-1] @ W + b))
        z = activations[-1] @ weights[-1] + biases[-1]
        return activations, (z if self.output_map is None else z @ self.output_map)

    def raw(self, Z, theta=None):
        return self.propagate(Z, self.theta if theta is None else theta)[1]

    def tangent(self, Z):
        weights, biases = self.unpack(self.theta)
        return PerceptronTangent(self, *self._forward(Z, weights, biases), weights)

    def squares_along(self, root, n, kept=None):
        p, r = root.shape
        pays = self.n_outputs == 1 and n >= 2 * p and p <= LARGE and layers_are_worth(self.layer_shapes, r)
        if not pays or not np.isfinite(root).all():
            return super().squares_along(root, n, kept)
        kept = {} if kept is None else kept
        if "layers" not in kept:
            kept["layers"] = LayerSquares.of(self.layers, root)
        return kept["layers"]

    def last_layer(self):
        weights, biases = self.unpack(self.theta)
        l2_weights, l2_biases = self.unpack(self.l2)
        Theta, l2 = (np.vstack([W[-1], b[-1]]) for W, b in ((weights, biases), (l2_weights, l2_biases)))
        if self.output_map is not None:
            Theta, l2 = Theta @ self.output_map, l2[:, : self.n_outputs]
        shared = {
            name: getattr(self, name) for name in ("loss", "preprocess", "inputs", "target_transformer", "classes")
        }
        return LastLayer(theta=Theta.T.ravel(), l2=l2.T.ravel(), network=self, **shared)


class PerceptronTangent(Tangent):
    """Of a network at a block of rows: one forward pass, and backward passes from there."""

    def __init__(self, network, activations, f, weights):
        self.network, self.activations, self.f, self.weights = network, activations, f, weights
        self.slopes = [ACTIVATIONS[network.activation][1](a) for a in activations[1:]]  # phi'(z_l), l = 1 ... L - 1

    @property
    def _p(self):
        return len(self.network.theta)

    def _to_logits(self, seed):
        """Seeds of f, (..., k), as seeds of z_L."""
        return seed if self.network.output_map is None else seed @ self.network.output_map.T

    # ------------------------------------------------------------------ first derivatives
    def _backward(self, seed, out):
        """Per-row gradients (n, p) of seed . f with seed (n, k) or (k,), written into ``out``."""
        weight_slots, bias_slots = self.network.unpack(out)
        delta = self._to_logits(seed)  # (n, units of layer)
        for layer in reversed(range(len(self.weights))):
            np.multiply(self.activations[layer][:, :, None], delta[..., None, :], out=weight_slots[layer])
            bias_slots[layer][...] = delta
            if layer:
                delta = (delta @ self.weights[layer].T) * self.slopes[layer - 1]
        return out

    def _deltas(self, U, rows=slice(None)):
        """d(u . f)/dz_l for every layer, first to last, (n, r, units), of several u, as precise as U (n, k, r)."""
        delta = np.ascontiguousarray(self._to_logits(U.transpose(0, 2, 1)), U.dtype)
        deltas = [delta]
        for layer in reversed(range(1, len(self.weights))):
            delta = right_multiply(delta, self.weights[layer].T.astype(U.dtype, copy=False))
            delta *= self.slopes[layer - 1][rows, None, :]
            deltas.append(delta)
        return deltas[::-1]

    def _delta_chunks(self, U):
        """:meth:`_deltas` of a few rows after another, so that those of many u stay in the cache: (rows, deltas)."""
        size = max(1, CACHE // (U.shape[2] * max(self.network.units)))
        for start in range(0, len(U), size):
            rows = slice(start, start + size)
            yield rows, self._deltas(U[rows], rows)

    def jacobian(self):
        n, k = self.f.shape
        if n == k == 1:
            return self._gradient()[None, None]
        J = np.empty((n, k, self._p))
        for output, seed in enumerate(np.eye(k)):
            self._backward(seed, J[:, output])
        return J

    def _gradient(self):
        """d f / d theta (p,) of a single row and output."""
        deltas = [self._to_logits(np.ones(1))]
        for W, slope in zip(self.weights[:0:-1], self.slopes[::-1], strict=True):
            deltas.insert(0, W.dot(deltas[0]) * slope[0])
        outer = [np.multiply.outer(a[0], delta).ravel() for a, delta in zip(self.activations, deltas, strict=True)]
        return np.concatenate(outer + deltas)

    def scores(self, u):
        return self._backward(u, np.empty((len(u), self._p)))

    def gram(self, R):
        return self.grams([R])[0].unpacked()

    def grams(self, Rs):
        """Of one output all are sums of the same squares, each with weights of its own; see _layers.py."""
        slots = self.network.slots
        if self.f.shape[1] == 1:
            weights = [(R[:, 0] ** 2).sum(axis=1) for R in Rs]
            return single_grams(slots, *self.layer_parts(), weights)
        inputs = [with_one(a) for a in self.activations]
        return summed_grams(slots, inputs, [self._deltas(R) for R in Rs])

    def layer_parts(self):
        """Of a single output: inputs (in, n) of every layer, a one among them, and the gradients (out, n) in its z."""
        return [with_one(a) for a in self.activations], self._single_deltas(np.ones((len(self.f), 1, 1)))

    def take(self, rows):
        """Some of the rows."""
        return PerceptronTangent(self.network, [a[rows] for a in self.activations], self.f[rows], self.weights)

    def _single_deltas(self, U):
        """:meth:`_deltas` of a single u, (units, n)."""
        return [delta[:, 0].T.copy() for delta in self._deltas(U)]

    def squares(self, R):
        """A layer's gradients are outer products, and so are their squares."""
        out = np.zeros(self._p)
        weight_slots, bias_slots = self.network.unpack(out)
        for rows, deltas in self._delta_chunks(R):
            for a, delta, of_weights, of_biases in zip(self.activations, deltas, weight_slots, bias_slots, strict=True):
                squared = np.einsum("nru,nru->nu", delta, delta)
                of_weights += (a[rows] ** 2).T @ squared
                of_biases += squared.sum(axis=0)
        return out

    def kronecker_sums(self, R, weight):
        """Per layer, sums over rows of weight a a' (in + 1, in + 1) and of sum_r d_r d_r' (out, out), for R (n, k, r).

        a are the layer's inputs and a one, d_r is the gradient of the r-th coordinate of R'f in its z.
        """
        outputs = reduce(add, (Sums(map(_stacked_gram, deltas)) for _, deltas in self._delta_chunks(R)))
        inputs = (np.column_stack([a, np.ones(len(a))]) for a in self.activations)
        return [Sums([weighted_gram(a, weight), S]) for a, S in zip(inputs, outputs, strict=True)]

    def layer_scores(self, R, precision):
        """R_i' J_i of every row, never formed: R (n, k, r)."""
        inputs = [with_ones(a, precision) for a in self.activations]
        return LayerScores(self.network.layers, [(inputs, self._deltas(R.astype(precision, copy=False)))])

    def gram_product(self, R, V):
        if V.shape[1] < R.shape[2] // 3:  # going through the layers with each of them is less
            return super().gram_product(R, V)
        return self.layer_scores(R, V.dtype).gram_product(V)

    def vjp(self, U):
        return np.concatenate([self._vjp(U[:, :, cols]) for cols in self._columns(U)], axis=1)

    def _vjp(self, U):
        """Reverse mode, of several u at once; deltas (n, r, units), so that all products are of two matrices."""
        (n, _, r), out = U.shape, np.empty((self._p, U.shape[2]))
        delta = np.ascontiguousarray(self._to_logits(U.transpose(0, 2, 1)))
        for layer in reversed(range(len(self.weights))):
            (weights, biases), a = self.network.slots[layer], self.activations[layer]
            scores = (a.T @ delta.reshape(n, -1)).reshape(a.shape[1], r, -1)
            out[weights] = scores.transpose(0, 2, 1).reshape(-1, r)
            out[biases] = delta.sum(axis=0).T
            if layer:
                delta = right_multiply(delta, self.weights[layer].T)
                delta *= self.slopes[layer - 1][:, None, :]
        return out

    def weighted_scores(self, u, c):
        """Backwards once, whatever the number of weights; of a large network the products are in single precision.

        Those of one block alone: their error is some 1e-7 of a sum of as many random terms, and along a direction with
        1e-10 of the largest curvature still a hundredth of what the scores are there.
        """
        precision = np.float32 if self._p > LARGE else np.float64
        by_draw, out = c.T.astype(precision), np.empty((c.shape[1], self._p))  # (B, n), (B, p)
        deltas = self._deltas(u[:, :, None])
        for (weights, biases), a, delta in zip(self.network.slots, self.activations, deltas, strict=True):
            (a, size_a), (d, size_d) = _of_unit_size(a, precision), _of_unit_size(delta[:, 0], precision)
            np.multiply(weighted_products(a, d, by_draw), size_a * size_d, out=out[:, weights])
            np.multiply(by_draw @ d, size_d, out=out[:, biases])
        return out.T

    def jvp(self, V):
        r = V.shape[1]
        if self.f.shape[1] == 1 and r * sum(map(min, self.network.layer_shapes)) <= self._p:
            return self._narrow_jvp(V)
        if self.f.shape[1] <= 2 and self._p <= LARGE and r > FEW:
            return super().jvp(V)  # a single product with the Jacobian is the faster way for a narrow output
        return np.concatenate([self._jvp(V[:, cols]) for cols in self._columns(V)], axis=2)

    def _narrow_jvp(self, V):
        """Of one output, J V as sums over layers of d' V a; the longer of d and a meets V first."""
        out, r = np.zeros((len(self.f), V.shape[1])), V.shape[1]
        deltas = self._deltas(np.ones((len(self.f), 1, 1)))
        for a, delta, places in zip(self.activations, deltas, self.network.layers, strict=True):
            d, (n_in, n_out) = delta[:, 0], places.shape
            if n_out > n_in:
                along = (d @ V[places.T.ravel()].reshape(n_out, -1)).reshape(len(d), n_in, r)
                out += np.einsum("ni,nir->nr", a, along[:, :-1]) + along[:, -1]
            else:
                along = (a @ V[places[:-1].ravel()].reshape(n_in - 1, -1)).reshape(len(d), n_out, r)
                out += np.einsum("no,nor->nr", d, along + V[places[-1]])
        return out[:, None]

    def _jvp(self, V):
        """Forward mode: the derivative D of every layer along r directions, (n, r, units)."""
        D_z, r = None, V.shape[1]
        for layer, (a, (weights, biases)) in enumerate(zip(self.activations, self.network.slots, strict=True)):
            n_in, n_out = self.weights[layer].shape
            directions = V[weights].reshape(n_in, n_out, r).transpose(0, 2, 1).reshape(n_in, r * n_out)
            D_next = (a @ directions).reshape(len(a), r, n_out)
            D_next += V[biases].T
            if D_z is not None:
                D_z *= self.slopes[layer - 1][:, None, :]
                D_next += right_multiply(D_z, self.weights[layer])
            D_z = D_next
        D_f = D_z if self.network.output_map is None else right_multiply(D_z, self.network.output_map)
        return D_f.transpose(0, 2, 1)

    def _columns(self, V):
        """Slices of the last axis of V that are propagated at a time, so that intermediate arrays stay small."""
        width = max(1, 4 * BLOCK_BYTES // (8 * len(self.f) * max(self.network.units)))
        return [slice(start, start + width) for start in range(0, max(V.shape[-1], 1), width)]  # of none, an empty one

    # ------------------------------------------------------------------ second derivatives
    def hessian(self, C, u):
        """Forward over reverse: the gradient's directional derivative along every coordinate, many at a time."""
        p = self._p
        chunk = max(1, BLOCK_BYTES // (8 * len(u) * max(self.network.units)))
        H = np.empty((p, p))
        for start in range(0, p, chunk):
            H[start : start + chunk] = self._hessian_products(C, u, np.eye(p)[start : start + chunk])
        return (H + H.T) / 2

    def hessian_product(self, C, u, V):
        return np.concatenate([self._hessian_products(C, u, V[:, cols].T.copy()) for cols in self._columns(V)]).T

    def _hessian_products(self, C, u, V):
        """V H (t, p) for directions V (t, p); a leading D marks the derivative along V, shape (t, n, units)."""
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


def _of_unit_size(A, precision):
    """A / size in another precision, none of whose numbers is beyond its range, and size."""
    size = np.float64(np.abs(A).max(initial=0.0) or 1.0)
    return (A / size).astype(precision), size


def _stacked_gram(D):
    """Sum over rows of D_i' D_i, (units, units), for a stack D (n, r, units)."""
    return gram(D.reshape(-1, D.shape[2]))


@dataclass(frozen=True, kw_only=True, eq=False)
class LastLayer(LinearPredictor):
    """A network as a linear model of its last hidden units; ``theta`` as in LinearPredictor, biases last."""

    network: MultilayerPerceptron

    def rows(self, X):
        return super().rows(self.network.propagate(self.network.rows(X), self.network.theta)[0][-1])

    def centred(self, X):
        return self  # hidden units are of order one


def _perceptron(estimator, loss, sample_weight, **fields):
    units = (len(estimator.coefs_[0]), *(len(b) for b in estimator.intercepts_))
    theta = np.concatenate([np.ravel(a) for a in (*estimator.coefs_, *estimator.intercepts_)]).astype(float)
    l2 = np.zeros_like(theta)
    l2[: sum(W.size for W in estimator.coefs_)] = estimator.alpha / _penalty_denominator(estimator, sample_weight)
    return MultilayerPerceptron(theta=theta, loss=loss, l2=l2, units=units, activation=estimator.activation, **fields)


def _penalty_denominator(estimator, sample_weight):
    """What scikit-learn divides alpha by: the weight of all rows for lbfgs, of one minibatch for the others."""
    n, total = len(sample_weight), sample_weight.sum()
    if estimator.solver == "lbfgs":
        return total
    batch = min(200, n) if estimator.batch_size == "auto" else np.clip(estimator.batch_size, 1, n)
    return batch * total / n


@as_parametric.register(MLPRegressor)
def _(estimator, y, sample_weight):
    if estimator.n_outputs_ > 1:
        if not takes_outputs(estimator):
            raise TypeError(f"{estimator!r} was fitted with several outputs; skribbon needs a single one of it.")
        return _perceptron(estimator, SquaredErrors(estimator.n_outputs_), sample_weight)
    loss = Tweedie(1, "log").suited_to(y) if estimator.out_activation_ == "exp" else Tweedie()
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
