"""Scores of dense layers that are never formed: products with many directions at once.

In every layer a row's scores are outer products of its inputs a, a one among them, and of gradients d_1 ... d_r in its
outputs. Products with m directions V take a'V first, whatever r is, and then d: no layer is gone through backwards
again. Directions are arranged by layer for that, (in, m out) each.
"""

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from .._core.rows import LEAST_ROWS
from .._utils.threads import in_order

CHUNK = 2**22  # numbers of an intermediate array
PANEL = 512  # rows of a kernel that are formed at a time


def rows_at_once(m, width):
    """Rows of which an array of m times ``width`` numbers each stays near the processor."""
    return max(LEAST_ROWS, CHUNK // (m * width))


def with_ones(a, precision):
    """Inputs (n, in) of a layer and the one that its biases multiply."""
    out = np.ones((len(a), a.shape[1] + 1), precision)
    out[:, :-1] = a
    return out


@dataclass(frozen=True, eq=False)
class LayerScores:
    """r scores of each of n rows, a matrix S (n r, p); two of them "add" to those of both.

    Attributes
    ----------
    layers : list of ndarrays of shape (in, out)
        Places in theta, those of biases last.
    pieces : list of pairs
        Of some rows after others, for all layers: inputs (n, in), and gradients in outputs (n, r, out).
    """

    layers: list
    pieces: list

    def __add__(self, other):
        return replace(self, pieces=self.pieces + other.pieces)

    def _arranged(self, V):
        return [V[places].transpose(0, 2, 1).reshape(len(places), -1) for places in self.layers]

    def _restored(self, parts, m):
        out = np.empty((sum(places.size for places in self.layers), m))
        for places, part in zip(self.layers, parts, strict=True):
            out[places] = part.reshape(len(places), m, -1).transpose(0, 2, 1)
        return out

    def _chunks(self, m):
        """The same pieces, each of so few rows that what m directions make of them stays near the processor."""
        for inputs, deltas in self.pieces:
            size = rows_at_once(m, max(delta.shape[2] for delta in deltas))
            for start in range(0, len(inputs[0]), size):
                rows = slice(start, start + size)
                yield [a[rows] for a in inputs], [delta[rows] for delta in deltas]

    def product(self, V):
        """S V for V (p, m), (n, r, m)."""
        m, directions = V.shape[1], self._arranged(V)
        along = [_along(*chunk, directions, m) for chunk in self._chunks(m)]
        return np.concatenate(along).transpose(0, 2, 1)

    def transposed_product(self, C):
        """S' C, (p, m), for C (n, r, m)."""
        m, start, totals = C.shape[2], 0, []
        for inputs, deltas in self._chunks(m):
            stop = start + len(inputs[0])
            _add(totals, _gathered(inputs, deltas, np.ascontiguousarray(C[start:stop].transpose(0, 2, 1))))
            start = stop
        return self._restored(totals, m)

    def gram_product(self, V):
        """S' S V for V (p, m)."""
        m, directions, totals = V.shape[1], self._arranged(V), []
        for parts in in_order(lambda chunk: _gathered(*chunk, _along(*chunk, directions, m)), [*self._chunks(m)]):
            _add(totals, parts)
        return self._restored(totals, m)

    def of_biases(self):
        """Columns of S that belong to biases, (n r, biases)."""
        return np.concatenate([np.concatenate([_flat(d) for d in deltas], axis=1) for _, deltas in self.pieces])

    def kernel(self, scales, root):
        """S D S', (n r, n r), its lower triangle; what is above that is not looked at.

        Of each layer D is ``scale`` (in - 1,) for all weights of an input, and of all biases ``root root'``.
        """
        biases = self.of_biases()
        biases = biases @ root.astype(biases.dtype)
        layers = [_stacked(layer, scale) for layer, scale in zip(self._by_layer(), scales, strict=True)]
        K = np.empty((len(biases), len(biases)), biases.dtype)
        for start in range(0, len(K), PANEL):
            rows, before = slice(start, start + PANEL), slice(0, start + PANEL)
            panel = K[rows, before]
            np.matmul(biases[rows], biases[before].T, out=panel)
            for a, d in layers:
                products = d[rows] @ d[before].T
                products *= a[rows] @ a[before].T
                panel += products
        return K

    def _by_layer(self):
        """Inputs (n, in) and gradients (n, r, out) of all rows, layer by layer."""
        for layer in range(len(self.layers)):
            yield tuple(np.concatenate([piece[part][layer] for piece in self.pieces]) for part in (0, 1))


def _along(inputs, deltas, directions, m):
    """S V of m arranged directions, (n, m, r)."""
    parts = (
        (a @ D).reshape(len(a), m, -1) @ delta.transpose(0, 2, 1)
        for a, delta, D in zip(inputs, deltas, directions, strict=True)
    )
    return reduce(add, parts)


def _gathered(inputs, deltas, C):
    """S' C of C (n, m, r), arranged."""
    return [a.T @ (C @ delta).reshape(len(a), -1) for a, delta in zip(inputs, deltas, strict=True)]


def _add(totals, parts):
    """Parts to totals, of which there are none at first."""
    if not totals:
        totals.extend(parts)
        return
    for total, part in zip(totals, parts, strict=True):
        total += part


def _flat(delta):
    return delta.reshape(-1, delta.shape[2])


def _stacked(layer, scale):
    """A row for each score: scaled inputs of weights (n r, in - 1), and gradients (n r, out)."""
    a, delta = layer
    scaled = a[:, :-1] * np.sqrt(scale).astype(a.dtype)
    return np.repeat(scaled, delta.shape[1], axis=0), _flat(delta)
