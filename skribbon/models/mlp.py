"""scikit-learn's multilayer perceptrons, with analytic per-row derivatives."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from .._linalg import gram, right_multiply, weighted_gram
from .._loss import Bernoulli, Categorical, Tweedie
from .._moments import BLOCK_BYTES, Sums
from .base import ParametricModel, as_parametric
from .linear import LinearPredictor

# name: phi(z), then phi' and phi'' as functions of a = phi(z)
ACTIVATIONS = {
    "identity": (lambda z: z, np.ones_like, np.zeros_like),
    "logistic": (expit, lambda a: a * (1 - a), lambda a: a * (1 - a) * (1 - 2 * a)),
    "tanh": (np.tanh, lambda a: 1 - a**2, lambda a: -2 * a * (1 - a**2)),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(float), np.zeros_like),
    "softplus": (lambda z: np.logaddexp(z, 0), lambda a: -np.expm1(-a), lambda a: -np.exp(-a) * np.expm1(-a)),
}
LARGE = 2**14  # parameters beyond which no method forms a row of the Jacobian


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
        return min(len(self.theta) * self.n_outputs, 4 * sum(self.units))

    @property
    def n_outputs(self):
        """k, the number of raw predictions."""
        return self.units[-1] if self.output_map is None else self.output_map.shape[1]

    @property
    def _shapes(self):
        return [*zip(self.units[:-1], self.units[1:], strict=True), *((out,) for out in self.units[1:])]

    @property
    def layers(self):
        """Indices into theta of every layer's parameters: (in + 1, out) arrays, the bias in the last row."""
        weights, biases = self.unpack(np.arange(len(self.theta)))
        return [np.vstack([W, b]) for W, b in zip(weights, biases, strict=True)]

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

    def _deltas(self, activations, U):
        """d(u . f)/dz_l for every layer, first to last, (n, r, units), of several u at once: U (n, k, r)."""
        slope = ACTIVATIONS[self.activation][1]
        weights, _ = self.unpack(self.theta)
        delta = U.transpose(0, 2, 1)
        delta = np.ascontiguousarray(delta if self.output_map is None else delta @ self.output_map.T)
        deltas = [delta]
        for layer in reversed(range(1, len(weights))):
            delta = right_multiply(delta, weights[layer].T)
            delta *= slope(activations[layer])[:, None, :]
            deltas.append(delta)
        return deltas[::-1]

    def scores(self, Z, y):
        activations, f = self._forward(Z, self.theta)
        return self._backward(activations, self.loss.gradient(f, y), self._blank(Z))

    def score_moments(self, Z, y, weight, scatter=True):
        activations, f = self._forward(Z, self.theta)
        u, root = self.loss.gradient(f, y), np.sqrt(weight)
        if not scatter:
            g = self.vjp(Z, (u * weight[:, None])[:, :, None])[:, 0]
            return g, self._squares(Z, (u * root[:, None])[:, :, None]), 0.0
        G = self._backward(activations, u * root[:, None], self._blank(Z))  # weighted on the way
        return G.T @ root, np.einsum("ij,ij->j", G, G), gram(G)

    def _squares(self, Z, U):
        """sum_i sum_r (J_i' U_ir)^2, (p,), for U (n, k, r): a layer's gradients are outer products."""
        activations, _ = self._forward(Z, self.theta)
        out = np.empty_like(self.theta)
        weight_slots, bias_slots = self.unpack(out)
        for layer, delta in enumerate(self._deltas(activations, U)):
            squared = (delta**2).sum(axis=1)
            weight_slots[layer][...] = (activations[layer] ** 2).T @ squared
            bias_slots[layer][...] = squared.sum(axis=0)
        return out

    def ggn_diagonal(self, Z, y, weight):
        return self._squares(Z, self._weighted_root(Z, y, weight))

    def _weighted_root(self, Z, y, weight):
        return self.loss.curvature_root(self.raw(Z), y) * np.sqrt(weight)[:, None, None]

    def kronecker_sums(self, Z, y, weight):
        """Per layer, sums over rows of a a' (in + 1, in + 1) and of sum_r d_r d_r' (out, out).

        a are the layer's inputs and a one, d_r is the gradient of the r-th coordinate of R'f in its z.
        """
        activations, _ = self._forward(Z, self.theta)
        deltas = self._deltas(activations, self._weighted_root(Z, y, weight))
        inputs = [np.column_stack([a, np.ones(len(a))]) for a in activations]
        return [
            Sums([weighted_gram(a, weight), gram(delta.reshape(-1, delta.shape[2]))])
            for a, delta in zip(inputs, deltas, strict=True)
        ]

    def vjp(self, Z, U):
        activations, _ = self._forward(Z, self.theta)
        return np.concatenate([self._vjp(activations, U[:, :, cols]) for cols in self._columns(Z, U)], axis=1)

    def _vjp(self, activations, U):
        out = np.empty((U.shape[2], len(self.theta)))
        weight_slots, bias_slots = self.unpack(out)
        for layer, delta in enumerate(self._deltas(activations, U)):  # (n, r, units)
            flat = delta.reshape(len(delta), -1)
            product = activations[layer].T @ flat  # (in, r units)
            weight_slots[layer][...] = product.reshape(-1, *delta.shape[1:]).swapaxes(0, 1)
            bias_slots[layer][...] = delta.sum(axis=0)
        return out.T

    def jvp(self, Z, V):
        if self.n_outputs <= 2 and len(self.theta) <= LARGE:
            return super().jvp(Z, V)  # a single product with the Jacobian is the faster way for a narrow output
        activations, _ = self._forward(Z, self.theta)
        return np.concatenate([self._jvp(activations, V[:, cols]) for cols in self._columns(Z, V)], axis=2)

    def _jvp(self, activations, V):
        """Forward mode: the derivative D of every layer along r directions, (n, r, units)."""
        slope = ACTIVATIONS[self.activation][1]
        (weights, _), (D_weights, D_biases) = self.unpack(self.theta), self.unpack(np.ascontiguousarray(V.T))
        D_z = None
        for layer, a in enumerate(activations):
            r, n_in, n_out = D_weights[layer].shape
            D_next = (a @ D_weights[layer].swapaxes(0, 1).reshape(n_in, -1)).reshape(len(a), r, n_out)
            D_next += D_biases[layer]
            if D_z is not None:
                D_z *= slope(a)[:, None, :]
                D_next += right_multiply(D_z, weights[layer])
            D_z = D_next
        D_f = D_z if self.output_map is None else D_z @ self.output_map
        return D_f.transpose(0, 2, 1)

    def _columns(self, Z, V):
        """Slices of the last axis of V that are propagated at a time, so that intermediate arrays stay small."""
        width = max(1, 4 * BLOCK_BYTES // (8 * len(Z) * max(self.units)))
        return [slice(start, start + width) for start in range(0, V.shape[-1], width)]

    def ggn(self, Z, y, weight):
        activations, _ = self._forward(Z, self.theta)
        R = self._weighted_root(Z, y, weight)
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

    def hessian_product(self, Z, y, weight, V):
        products = [self._hessian_products(Z, y, weight, V[:, cols].T.copy()) for cols in self._columns(Z, V)]
        return np.concatenate(products).T

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

    def last_layer(self):
        weights, biases = self.unpack(self.theta)
        l2_weights, l2_biases = self.unpack(self.l2)
        Theta, l2 = (np.vstack([W[-1], b[-1]]) for W, b in ((weights, biases), (l2_weights, l2_biases)))
        if self.output_map is not None:
            Theta, l2 = Theta @ self.output_map, l2[:, : self.n_outputs]
        return LastLayer(
            theta=Theta.T.ravel(),
            loss=self.loss,
            l2=l2.T.ravel(),
            preprocess=self.preprocess,
            target_transformer=self.target_transformer,
            classes=self.classes,
            n_outputs=self.n_outputs,
            network=self,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LastLayer(LinearPredictor):
    """A network as a linear model of its last hidden units; ``theta`` as in LinearPredictor, biases last."""

    network: MultilayerPerceptron

    def rows(self, X):
        return super().rows(self.network._propagate(self.network.rows(X), self.network.theta)[0][-1])


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
