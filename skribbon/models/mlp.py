"""scikit-learn's multilayer perceptrons, with analytic per-row derivatives."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from .._linalg import gram
from .._loss import Bernoulli, Categorical, Tweedie
from .._moments import BLOCK_BYTES
from .base import ParametricModel, as_parametric

# name: phi(z), then phi' and phi'' as functions of a = phi(z)
ACTIVATIONS = {
    "identity": (lambda z: z, np.ones_like, np.zeros_like),
    "logistic": (expit, lambda a: a * (1 - a), lambda a: a * (1 - a) * (1 - 2 * a)),
    "tanh": (np.tanh, lambda a: 1 - a**2, lambda a: -2 * a * (1 - a**2)),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(float), np.zeros_like),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class MultilayerPerceptron(ParametricModel):
    """z_l = a_{l-1} W_l + b_l, a_l = phi(z_l), f = z_L M; theta = (W_1, ..., W_L, b_1, ..., b_L), each ravelled.

    ``output_map`` M (K, k) takes a softmax's K logits to the k coordinates of its loss; None is the identity.
    """

    units: tuple  # (inputs, hidden..., outputs)
    activation: str
    output_map: np.ndarray | None = None
    _latest: dict = field(default_factory=dict, init=False, repr=False)  # the forward pass of the block at hand

    def __getstate__(self):
        return {**self.__dict__, "_latest": {}}

    @property
    def row_width(self):
        return len(self.theta) * self.n_outputs

    @property
    def n_outputs(self):
        """k, the number of raw predictions."""
        return self.units[-1] if self.output_map is None else self.output_map.shape[1]

    @property
    def _shapes(self):
        return [*zip(self.units[:-1], self.units[1:], strict=True), *((out,) for out in self.units[1:])]

    def unpack(self, theta):
        """Weights and biases as views of theta (..., p): lists of (..., in, out) and (..., out)."""
        pieces, start = [], 0
        for shape in self._shapes:
            stop = start + int(np.prod(shape))
            pieces.append(theta[..., start:stop].reshape(theta.shape[:-1] + shape))
            start = stop
        n_layers = len(self.units) - 1
        return pieces[:n_layers], pieces[n_layers:]

    def _forward(self, Z, theta):
        """Activations a_0 ... a_{L-1} and the raw prediction; several methods ask for those of the same block."""
        if self._latest.get("key") != (id(Z), id(theta)):
            # holding Z keeps its id from being given to another array
            self._latest.update(key=(id(Z), id(theta)), held=(Z, theta), value=self._propagate(Z, theta))
        return self._latest["value"]

    def _propagate(self, Z, theta):
        phi = ACTIVATIONS[self.activation][0]
        weights, biases = self.unpack(theta)
        activations = [Z]
        for W, b in zip(weights[:-1], biases[:-1], strict=True):
            activations.append(phi(activations[-1] @ W + b))
        z = activations[-1] @ weights[-1] + biases[-1]
        return activations, (z if self.output_map is None else z @ self.output_map)

    def raw(self, Z, theta=None):
        return self._forward(Z, self.theta if theta is None else theta)[1]

    def _backward(self, activations, seed, out):
        """Per-row gradients (n, p) of seed . f with seed (n, k) or (k,), written into ``out``."""
        slope = ACTIVATIONS[self.activation][1]
        weights, _ = self.unpack(self.theta)
        weight_slots, bias_slots = self.unpack(out)
        delta = seed if self.output_map is None else seed @ self.output_map.T  # (n, units of layer)
        for layer in reversed(range(len(weights))):
            np.multiply(activations[layer][:, :, None], delta[..., None, :], out=weight_slots[layer])
            bias_slots[layer][...] = delta
            if layer:
                delta = (delta @ weights[layer].T) * slope(activations[layer])
        return out

    def scores(self, Z, y):
        activations, f = self._forward(Z, self.theta)
        return self._backward(activations, self.loss.gradient(f, y), self._blank(Z))

    def score_moments(self, Z, y, weight, scatter=True):
        activations, f = self._forward(Z, self.theta)
        root = np.sqrt(weight)
        G = self._backward(activations, self.loss.gradient(f, y) * root[:, None], self._blank(Z))  # weighted on the way
        return G.T @ root, np.einsum("ij,ij->j", G, G), gram(G) if scatter else 0.0

    def ggn(self, Z, y, weight):
        activations, f = self._forward(Z, self.theta)
        R = self.loss.curvature_root(f, y) * np.sqrt(weight)[:, None, None]
        return sum(gram(self._backward(activations, R[:, :, r], self._blank(Z))) for r in range(R.shape[2]))

    def _blank(self, Z):
        return np.empty((len(Z), len(self.theta)))

    def jacobian(self, Z):
        activations, _ = self._forward(Z, self.theta)
        J = np.empty((len(Z), self.n_outputs, len(self.theta)))
        for output, seed in enumerate(np.eye(self.n_outputs)):
            self._backward(activations, seed, J[:, output])
        return J

    def hessian(self, Z, y, weight):
        """Forward over reverse: the gradient's directional derivative along every coordinate, many at a time."""
        p = len(self.theta)
        chunk = max(1, BLOCK_BYTES // (8 * len(Z) * max(self.units)))
        H = np.empty((p, p))
        for start in range(0, p, chunk):
            H[start : start + chunk] = self._hessian_products(Z, y, weight, np.eye(p)[start : start + chunk])
        return (H + H.T) / 2

    def _hessian_products(self, Z, y, weight, V):
        """V H (t, p) for directions V (t, p); a leading D marks the derivative along V, shape (t, n, units)."""
        _, slope, bend = ACTIVATIONS[self.activation]
        (weights, _), (D_weights, D_biases) = self.unpack(self.theta), self.unpack(V)
        activations, f = self._forward(Z, self.theta)
        D_a, D_zs, D_as = np.zeros((1, *Z.shape)), [], []
        for layer, a in enumerate(activations):
            D_as.append(D_a)
            D_zs.append(D_a @ weights[layer] + a @ D_weights[layer] + D_biases[layer][:, None])
            if layer + 1 < len(activations):
                D_a = slope(activations[layer + 1]) * D_zs[-1]
        M = np.eye(self.units[-1]) if self.output_map is None else self.output_map
        C = self.loss.hessian(f, y) * weight[:, None, None]
        delta = (self.loss.gradient(f, y) * weight[:, None]) @ M.T
        D_delta = np.einsum("nkl,tnl->tnk", C, D_zs[-1] @ M) @ M.T
        out = np.empty_like(V)
        weight_slots, bias_slots = self.unpack(out)
        for layer in reversed(range(len(weights))):
            a = activations[layer]
            weight_slots[layer][...] = D_as[layer].transpose(0, 2, 1) @ delta + a.T @ D_delta
            bias_slots[layer][...] = D_delta.sum(axis=1)
            if layer:
                back, D_back = delta @ weights[layer].T, D_delta @ weights[layer].T
                D_back = D_back + delta @ D_weights[layer].transpose(0, 2, 1)
                D_delta = D_back * slope(a) + back * bend(a) * D_zs[layer - 1]
                delta = back * slope(a)
        return out


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
        raise TypeError("MLPRegressor was fitted with several outputs; skribbon needs a single one.")
    loss = Tweedie(1, "log") if estimator.out_activation_ == "exp" else Tweedie()
    return _perceptron(estimator, loss, sample_weight)


@as_parametric.register(MLPClassifier)
def _(estimator, y, sample_weight):
    if estimator.out_activation_ == "logistic":
        if estimator.n_outputs_ > 1:
            raise TypeError("MLPClassifier was fitted with several labels per row; skribbon needs a single one.")
        return _perceptron(estimator, Bernoulli(), sample_weight, classes=estimator.classes_)
    loss = Categorical(estimator.n_outputs_)
    return _perceptron(estimator, loss, sample_weight, classes=estimator.classes_, output_map=loss.basis)
