"""Models of dense layers: scores as outer products of each layer's inputs and output gradients."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from .._core.linalg import gram
from .._core.rows import LEAST_ROWS, Sums
from .._utils.compat import cached_property
from .base import POLISH, ParametricModel, Tangent
from .linear import LinearPredictor

FLOATS = 2**20  # floats of an intermediate array in products with many directions: 8 MB stay near the cache
WIDE = 2**16  # floats of one row's Jacobian, 512 KB, beyond which products of other networks do not form the Jacobian
WIDE_ROWS = 2**13  # row width of a model without Jacobians, so that a block has 128 rows
LARGE = 2**14  # parameters beyond which no Jacobian is formed; a (p, p) array would take 2 GB


@dataclass(frozen=True, kw_only=True, eq=False)
class LayeredModel(ParametricModel):
    """Network with dense layers.

    A subclass has ``unpack(theta)``, lists of weights (..., in, out) and biases (..., out) of the layers, as views of
    theta (..., p), and ``last_inputs(Z)``, the inputs (n, in) of the last layer.
    """

    output_map: np.ndarray | None = None  # M (K, k), from a softmax's logits to the coordinates of its loss
    cure: str = POLISH

    @cached_property
    def layers(self):
        """Indices into theta of each dense layer, (in + 1, out), biases last."""
        weights, biases = self.unpack(np.arange(len(self.theta)))
        return [np.vstack([W, b]) for W, b in zip(weights, biases, strict=True)]

    def last_layer(self):
        Theta, l2 = self.theta[self.layers[-1]], self.l2[self.layers[-1]]
        if self.output_map is not None:
            Theta = Theta @ self.output_map
            l2 = l2[:, : self.loss.n_outputs] / (self.output_map**2).sum(axis=0)
        names = ("loss", "preprocess", "inputs", "target_transformer", "classes")
        shared = {name: getattr(self, name) for name in names}
        return LastLayer(theta=Theta.T.ravel(), l2=l2.T.ravel(), network=self, **shared)


@dataclass(frozen=True, kw_only=True, eq=False)
class LastLayer(LinearPredictor):
    """Network as a linear model of its last hidden units."""

    network: LayeredModel

    def rows(self, X):
        return super().rows(self.network.last_inputs(self.network.rows(X)))

    def centred(self, X):
        return self  # hidden units are of order one


class LayeredTangent(Tangent):
    """Tangent of a model of dense layers, from the inputs of every layer and the gradients in its outputs.

    A subclass has a LayeredModel ``model``, ``activations`` (n, in), the inputs of every layer, and ``_deltas(U)``: the
    derivatives d(u . f)/dz_l of every layer, first to last, (n, r, units), in the precision of U (n, k, r).
    """

    def _gradients(self, U):
        """Products U_i' J_i (n, r, p) for U (n, k, r)."""
        out = np.empty((len(U), U.shape[2], len(self.model.theta)))
        slots = zip(*self.model.unpack(out), strict=True)
        for a, delta, (weights, biases) in zip(self.activations, self._deltas(U), slots, strict=True):
            np.multiply(a[:, None, :, None], delta[:, :, None, :], out=weights)
            biases[...] = delta
        return out

    @cached_property
    def inputs(self):
        """Inputs of every layer, with a one for its biases, (n, in + 1)."""
        return [np.column_stack([a, np.ones(len(a))]) for a in self.activations]

    def jacobian(self):
        n, k = self.f.shape
        return self._gradients(np.broadcast_to(np.eye(k), (n, k, k)))

    def scores(self, u):
        return self._gradients(u[:, :, None])[:, 0]

    def gram(self, R):
        """Sum over rows of J_i' R_i R_i' J_i, (p, p), by pairs of layers, (a a') (x) (d' d)."""
        if R.shape[2] == 1:
            return gram(self.scores(R[:, :, 0]))
        H = np.empty((len(self.model.theta), len(self.model.theta)))
        layers = list(zip(self.inputs, self._deltas(R), self.model.layers, strict=True))
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
        out = np.empty(len(self.model.theta))
        for a, delta, places in zip(self.inputs, self._deltas(R), self.model.layers, strict=True):
            out[places] = (a**2).T @ np.einsum("nru,nru->nu", delta, delta)
        return out

    def kronecker_sums(self, R, weight):
        """Sums over rows of weight a a' (in + 1, in + 1) and sum_r d_r d_r' (out, out) per layer, for R (n, k, r)."""
        layers = zip(self.inputs, self._deltas(R), strict=True)
        return [Sums([gram(a, weight), gram(delta.reshape(-1, delta.shape[2]))]) for a, delta in layers]

    def layer_scores(self, R, precision=np.float64):
        """Products R_i' J_i of every row as LayerScores, for R (n, k, r)."""
        inputs = [a.astype(precision, copy=False) for a in self.inputs]
        return LayerScores(self.model.layers, inputs, self._deltas(R.astype(precision, copy=False)))

    def jvp(self, V):
        n, k = self.f.shape
        if k <= 2 and V.shape[1] > 16 and len(self.model.theta) <= LARGE:  # else products by layers are faster
            return super().jvp(V)
        return self.layer_scores(np.broadcast_to(np.eye(k), (n, k, k))).product(V)

    def vjp(self, U):
        return np.concatenate([self.layer_scores(U[:, :, cols]).total() for cols in self._columns(U)], axis=1)

    def _columns(self, V):
        """Slices of the last axis of V, so that intermediate arrays stay small."""
        width = max(1, FLOATS // (len(self.f) * max(max(places.shape) for places in self.model.layers)))
        return [slice(start, start + width) for start in range(0, max(V.shape[-1], 1), width)]


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
        m = V.shape[1]
        # an array (in + 1, m out) for each layer
        directions = [V[places].transpose(0, 2, 1).reshape(len(places), m * places.shape[1]) for places in self.layers]
        return np.concatenate([some._along(directions, m) for _, some in self._chunks(m)]).transpose(0, 2, 1)

    def transposed_product(self, C):
        """Product S' C (p, m) for C (n, r, m)."""
        m, C = C.shape[2], C.transpose(0, 2, 1)
        return self._restored(reduce(add, (some._gathered(C[rows]) for rows, some in self._chunks(m))), m)
