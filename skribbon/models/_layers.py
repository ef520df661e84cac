"""Gram matrices of dense layers, whose gradients are outer products of what goes in and of what comes back.

With the inputs a_i of a layer (a one among them) and gradients d_i in its outputs, row i has the score a_i (x) d_i
there, and the sum of (a_i a_i') (x) (d_i d_i') needs only the distinct entries of both symmetric factors: half the
products of a plain Gram matrix. Of several d_i per row, squares are summed before they meet a_i a_i', so that their
number hardly matters. Arrays are (entries, rows), since products of entries are then products of long vectors.
"""

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from .._core.linalg import PANEL, batch_gram, outer_square
from .._core.rows import BLOCK_BYTES

ROUNDING = 2**-52
ACCURACY = 1e-7  # relative, of a square; rows of which rounding might leave less are squared one by one
WORTH_PAIRS = 0.75  # share of a plain Gram matrix's products that those of distinct pairs may take


def distinct(m):
    """Number of distinct entries of a symmetric (m, m) array."""
    return m * (m + 1) // 2


def pair_places(m):
    """Where the product of entries i and j is found among distinct pairs, (m, m)."""
    i, j = np.triu_indices(m)
    places = np.empty((m, m), dtype=np.intp)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places


def pairs(A, first=0, last=None, out=None):
    """Products of entries i <= j of A (m, b), i from ``first`` to before ``last``, (pairs, b)."""
    m, last = len(A), len(A) if last is None else last
    out, start = np.empty((distinct(m), A.shape[1])) if out is None else out, 0
    for i in range(first, last):
        np.multiply(A[i], A[i:], out=out[start : start + m - i])
        start += m - i
    return out[:start]


def with_one(a):
    """Inputs a (b, in) of a layer, and the one that its biases multiply, as (in + 1, b)."""
    out = np.ones((a.shape[1] + 1, len(a)))
    out[:-1] = a.T
    return out


def has_few_pairs(n_in, n_out):
    """Whether distinct pairs of a layer's inputs and outputs take fewer products than its plain Gram matrix."""
    return 2 * distinct(n_in) * distinct(n_out) <= WORTH_PAIRS * (n_in * n_out) ** 2


def pairs_by_parts(d):
    """The distinct pairs of d (m, b), a cacheful at a time, each with the slice of its places."""
    m, b = d.shape
    at_once = max(m, BLOCK_BYTES // (8 * b))
    room = np.empty((min(at_once, distinct(m)), b))  # for the same pages again and again
    first = start = 0
    while first < m:
        last = first + 1
        while last < m and distinct(m - first) - distinct(m - last - 1) <= at_once:
            last += 1
        P = pairs(d, first, last, room)
        yield slice(start, start + len(P)), P
        first, start = last, start + len(P)


def paired_sums(Q, d):
    """Sums over rows of Q (q, b) times the distinct pairs of d (m, b), (q, pairs)."""
    sums = np.empty((len(Q), distinct(len(d))))
    for places, P in pairs_by_parts(d):
        np.matmul(Q, P.T, out=sums[:, places])
    return sums


def scores_of(a, d):
    """Scores (in out, b) of a layer with inputs a (in, b) and gradients d (out, b)."""
    return (a[:, None] * d).reshape(-1, d.shape[1])


@dataclass(frozen=True, eq=False)
class LayerSums:
    """A matrix (p, p) that is a sum over rows, packed by pairs of layers; two of them add.

    Attributes
    ----------
    slots : tuple
        Of each layer, where its weights and its biases are in theta: two slices.
    shapes : tuple
        Of each layer, the number of its inputs, the one among them, and of its outputs.
    parts : dict
        From (k, m), k <= m, to an ndarray: of scores, (in_k out_k, in_m out_m), or of products of inputs and products
        of outputs, (in_k in_m, out_k out_m), where k = m of the distinct ones.
    of_scores : frozenset
        The (k, m) that are of scores.
    """

    slots: tuple
    shapes: tuple
    parts: dict
    of_scores: frozenset

    def __add__(self, other):
        return replace(self, parts={key: part + other.parts[key] for key, part in self.parts.items()})

    def unpacked(self):
        """The matrix."""
        p = max(biases.stop for _, biases in self.slots)
        out = np.empty((p, p))
        for (k, m), part in self.parts.items():
            block = self._block(k, m, part)
            for rows, some in zip(self.slots[k], (block[:-1], block[-1:]), strict=True):
                for columns, piece in zip(self.slots[m], (some[:, :, :-1], some[:, :, -1:]), strict=True):
                    out[rows, columns] = piece = piece.reshape(out[rows, columns].shape)
                    if k != m:
                        out[columns, rows] = piece.T
        return out

    def _block(self, k, m, part):
        """(in_k, out_k, in_m, out_m)."""
        (in_k, out_k), (in_m, out_m) = self.shapes[k], self.shapes[m]
        if (k, m) in self.of_scores:
            return part.reshape(in_k, out_k, in_m, out_m)
        if k == m:
            part = part[:, pair_places(out_k)][pair_places(in_k)]
        return part.reshape(in_k, in_m, out_k, out_m).transpose(0, 2, 1, 3)


def single_grams(slots, inputs, deltas, weights):
    """Sums over rows of weight s s', where a row has the one score s = a (x) d in each layer.

    Parameters
    ----------
    slots : tuple
        See LayerSums.
    inputs, deltas : lists of ndarrays of shape (in, b) and (out, b)
    weights : list of ndarrays of shape (b,)

    Returns
    -------
    list of LayerSums
        One for each of the weights.
    """
    shapes = tuple((len(a), len(d)) for a, d in zip(inputs, deltas, strict=True))
    scores = [scores_of(a, d) for a, d in zip(inputs, deltas, strict=True)]
    parts, few = [{} for _ in weights], [has_few_pairs(*shape) for shape in shapes]
    for k, (a, d) in enumerate(zip(inputs, deltas, strict=True)):
        if few[k]:
            Q = pairs(a)
            sums = paired_sums(np.concatenate([Q * weight for weight in weights]), d)
            for part, K in zip(parts, np.split(sums, len(weights)), strict=True):
                part[k, k] = K
        for m in range(k + few[k], len(inputs)):
            weighted = np.concatenate([scores[m] * weight for weight in weights])
            for part, K in zip(parts, np.split(weighted @ scores[k].T, len(weights)), strict=True):
                part[k, m] = K.T
    of_scores = frozenset(key for key in parts[0] if key[0] != key[1] or not few[key[0]])
    return [LayerSums(slots, shapes, part, of_scores) for part in parts]


def distinct_squares(D):
    """Distinct entries (b, pairs) of D_i' D_i, for a stack D (b, r, m); of several r, a cacheful of rows at a time."""
    b, r, m = D.shape
    if r == 1:
        return pairs(np.ascontiguousarray(D[:, 0].T)).T
    i, j = np.triu_indices(m)
    out, at_once = np.empty((b, distinct(m))), max(1, BLOCK_BYTES // (16 * m * m))
    for rows in (slice(start, start + at_once) for start in range(0, b, at_once)):
        some = D[rows]
        squares = some.transpose(0, 2, 1) @ some
        np.take(squares.reshape(len(some), -1), m * i + j, axis=1, out=out[rows], mode="clip")  # else it buffers
    return out


def summed_grams(slots, inputs, several):
    """Sums over rows of sum_r s_r s_r', where a row has the scores s_r = a (x) d_r in each layer.

    Parameters
    ----------
    slots : tuple
        See LayerSums.
    inputs : list of ndarrays of shape (in, b)
    several : list of lists of ndarrays of shape (b, r, out)
        The d_r of each layer, of several sums.

    Returns
    -------
    list of LayerSums
    """
    parts = [{} for _ in several]
    for k, a in enumerate(inputs):
        products = pairs(a)
        for part, deltas in zip(parts, several, strict=True):
            part[k, k] = products @ distinct_squares(deltas[k])
        for m in range(k + 1, len(inputs)):
            products = scores_of(a, inputs[m])
            for part, deltas in zip(parts, several, strict=True):
                part[k, m] = products @ (deltas[k].transpose(0, 2, 1) @ deltas[m]).reshape(a.shape[1], -1)
    shapes = tuple((len(a), d.shape[2]) for a, d in zip(inputs, several[0], strict=True))
    return [LayerSums(slots, shapes, part, frozenset()) for part in parts]


def weighted_products(a, d, weights):
    """sum_i w_i a_i d_i', ravelled, for each w of ``weights`` (B, b), (B, in out): a (b, in) and d (b, out).

    One product of matrices each, the narrower of them weighted.
    """
    out = np.empty((len(weights), a.shape[1] * d.shape[1]), a.dtype)
    for w, product in zip(weights[:, :, None], out, strict=True):
        left, right = (a * w, d) if a.shape[1] <= d.shape[1] else (a, d * w)
        np.matmul(left.T, right, out=product.reshape(a.shape[1], -1))
    return out


@dataclass(frozen=True, eq=False)
class LayerSquares:
    """|J_i root|^2 of a network with one output, s' S s with S = root root', by distinct pairs of each layer.

    Rounding leaves an error of the size of eps (sum_j |s_j| sqrt(S_jj))^2, which is known of every row; where it
    matters, since parameters are nearly redundant, the row is squared by the root.

    Attributes
    ----------
    root : ndarray of shape (p, p)
    own : list of ndarrays
        Of each layer with few pairs the coefficients of its products, (pairs of inputs, pairs of outputs), else its
        part of S, (in out, in out).
    cross : dict
        From (k, m), k < m, to that part of 2 S, (in_m out_m, in_k out_k).
    scales : list of ndarrays of shape (in, out)
        sqrt(S_jj).
    """

    root: np.ndarray
    own: list
    cross: dict
    scales: list

    of_all = True

    @classmethod
    def of(cls, layers, root):
        """Of the places (in, out) in theta of each layer's parameters, its biases last."""
        S, places = outer_square(root), [layer.ravel() for layer in layers]
        parts = [S[np.ix_(place, place)] for place in places]
        own = [
            _pair_coefficients(part, *layer.shape) if has_few_pairs(*layer.shape) else part
            for part, layer in zip(parts, layers, strict=True)
        ]
        cross = {(k, m): 2 * S[np.ix_(places[m], places[k])] for m in range(len(layers)) for k in range(m)}
        return cls(root, own, cross, [np.sqrt(np.diag(S))[layer] for layer in layers])

    def __call__(self, tangent):
        """J_i root root' J_i', (n, 1, 1)."""
        inputs, deltas = tangent.layer_parts()
        squares, size = np.zeros(len(tangent.f)), np.zeros(len(tangent.f))
        scores = {k: scores_of(inputs[k], deltas[k]) for pair in self.cross for k in pair}
        for k, (a, d, scale) in enumerate(zip(inputs, deltas, self.scales, strict=True)):
            size += np.einsum("ob,ob->b", scale.T @ np.abs(a), np.abs(d))
            if has_few_pairs(*scale.shape):
                products = reduce(add, (self.own[k][:, some] @ P for some, P in pairs_by_parts(d)))
                squares += np.einsum("qb,qb->b", pairs(a), products)
            else:
                s = scores[k] if k in scores else scores_of(a, d)
                squares += np.einsum("qb,qb->b", s, self.own[k] @ s)
        for (k, m), part in self.cross.items():
            squares += np.einsum("qb,qb->b", scores[m], part @ scores[k])
        rough = np.flatnonzero(~(ROUNDING * size**2 <= ACCURACY * squares))
        if len(rough):
            squares[rough] = batch_gram(tangent.take(rough).jvp(self.root))[:, 0, 0]
        return squares[:, None, None]


def _pair_coefficients(part, n_in, n_out):
    """What the products a_i a_j d_o d_q, i <= j and o <= q, have before them in s' part s, for s = a (x) d."""
    T = part.reshape(n_in, n_out, n_in, n_out)
    (i, j), (o, q) = np.triu_indices(n_in), np.triu_indices(n_out)
    once = np.outer(np.where(i == j, 0.5, 1.0), np.where(o == q, 1.0, 2.0))  # of pairs of the same, half of the orders
    i, j = i[:, None], j[:, None]
    return once * (T[i, o, j, q] + T[i, q, j, o])


def layers_are_worth(shapes, r):
    """Whether squares by layers, of one row, take clearly fewer products than those by a root (p, r)."""
    sizes = [n_in * n_out for n_in, n_out in shapes]
    own = sum(
        distinct(n_in) * distinct(n_out) if has_few_pairs(n_in, n_out) else (n_in * n_out) ** 2
        for n_in, n_out in shapes
    )
    cross = sum(sizes[k] * sizes[m] for m in range(len(sizes)) for k in range(m))
    p = sum(sizes)
    return own + cross <= WORTH_PAIRS * (p * (p + PANEL) / 2 if r == p else p * r)
