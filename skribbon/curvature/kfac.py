"""Kronecker-factored curvature of networks."""

from dataclasses import dataclass

import numpy as np

from .._core.linalg import N_FLAT, Factor, probes, rank_tolerance
from .._core.rows import Block, Moments, Rows, Sums
from .._utils.compat import cached_property
from .base import CURVATURES, Curvature


def inverse_root(S):
    """Root M of the pseudoinverse of a positive semi-definite S, S^+ = M M', and the flat directions of S."""
    diagonal = np.diag(S)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(S * scale[:, None] * scale)
    kept = values > rank_tolerance(len(S))
    return scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]), scale[:, None] * vectors[:, ~kept]


@dataclass(frozen=True, eq=False)
class KroneckerLayer:
    r"""Curvature A (x) S + diag(d) (x) I of one layer: A (a, a) of inputs, S (b, b) of outputs, d (a,) the penalty.

    With W' (A + diag d) W = I, W' A W = diag(t) and S = Q diag(s) Q', the inverse is exactly
    (W (x) Q) diag(1 / (t_i s_j + 1 - t_i)) (W (x) Q)'.
    """

    index: np.ndarray  # (a, b), indices into theta
    A: np.ndarray
    S: np.ndarray
    d: np.ndarray

    @cached_property
    def _spectrum(self):
        whiten, dead = inverse_root(self.A + np.diag(self.d))
        t, turn = np.linalg.eigh(whiten.T @ self.A @ whiten)
        s, Q = np.linalg.eigh(self.S)
        t, s = np.clip(t, 0, 1)[:, None], np.maximum(s, 0)
        D = t * s + (1 - t) * self.d.any()  # without a penalty, A alone
        flat = rank_tolerance(D.size) * max(D.max(), np.finfo(float).tiny) >= D
        inverse = np.divide(1.0, D, out=np.zeros_like(D), where=~flat)
        return whiten @ turn, Q, inverse, flat, dead

    @property
    def rank(self):
        """Number of directions that are not flat."""
        return int((~self._spectrum[3]).sum())

    def solve(self, B):
        """Solve with the layer's matrix for B (a, b, m)."""
        W, Q, inverse, _, _ = self._spectrum
        return _both_sides(W, _both_sides(W.T, B, Q.T) * inverse[:, :, None], Q)

    def root_product(self, E):
        """Root of the inverse times E (a, b, m); flat and dead directions give zero."""
        W, Q, inverse, _, _ = self._spectrum
        return _both_sides(W, np.sqrt(inverse)[:, :, None] * E[: W.shape[1]], Q)

    @property
    def inverse_diagonal(self):
        """Diagonal of the inverse, (a, b)."""
        W, Q, inverse, _, _ = self._spectrum
        return W**2 @ inverse @ (Q**2).T

    @property
    def null(self):
        """Random combinations of the flat directions, (a, b, m)."""
        W, Q, _, flat, dead = self._spectrum
        rng = np.random.default_rng(0)
        count = int(flat.sum()) + dead.shape[1] * len(Q)
        m = min(count, N_FLAT)
        E = flat[:, :, None] * rng.standard_normal((*flat.shape, m)) / np.sqrt(max(count, 1))
        unseen = rng.standard_normal((dead.shape[1], len(Q), m)) / np.sqrt(max(count, 1))
        return _both_sides(W, E, Q) + _both_sides(dead, unseen, np.eye(len(Q)))


def _both_sides(left, B, right):
    """Product (left (x) right) B for B (a, b, m)."""
    return np.matmul(right, np.tensordot(left, B, axes=(1, 0)))


class Kronecker(Factor):
    """Block-diagonal factor over layers, a Kronecker product plus penalty in each."""

    def __init__(self, p, layers):
        self.p, self.layers = p, layers
        self.rank = sum(layer.rank for layer in layers)
        self.diagonal = self._gather(lambda layer: np.outer(np.diag(layer.A), np.diag(layer.S)) + layer.d[:, None])
        self.inverse_diagonal = self._gather(lambda layer: layer.inverse_diagonal)

    def _gather(self, of_layer, *trailing):
        out = np.empty((self.p, *trailing))
        for layer in self.layers:
            out[layer.index] = of_layer(layer)
        return out

    def solve(self, B):
        return self._gather(lambda layer: layer.solve(B[layer.index]), B.shape[1])

    @cached_property
    def inverse_root(self):
        E = probes(self.p)
        return self._gather(lambda layer: layer.root_product(E[layer.index]), E.shape[1])

    @cached_property
    def null(self):
        directions = [layer.null for layer in self.layers]
        pieces = [np.zeros((self.p, N.shape[2])) for N in directions]
        for piece, layer, N in zip(pieces, self.layers, directions, strict=True):
            piece[layer.index] = N
        return np.concatenate(pieces, axis=1)

    def to_dense(self):
        H = np.zeros((self.p, self.p))
        for layer in self.layers:
            flat = layer.index.ravel()
            H[np.ix_(flat, flat)] = np.kron(layer.A, layer.S) + np.diag(np.repeat(layer.d, len(layer.S)))
        return H


class KFAC(Curvature):
    r"""Kronecker product per layer of a network: inputs and backpropagated gradients are treated as independent.

    .. math:: H_{layer} = \left(\frac1n \sum_i a_i a_i'\right) \otimes
              \left(\frac1n \sum_i \sum_r d_{ir} d_{ir}'\right),

    with a the inputs of the layer with a one appended, and d the gradients of its outputs.

    Exact for a single linear layer and squared error. Memory and time grow with the squared widths of the layers, not
    with p squared, so that networks of 10^5 or 10^6 parameters fit.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    LastLayer : The last layer alone.
    MatrixFree : Any large model.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`, :doc:`/user_guide/networks`.

    References
    ----------
    * Martens, J. and Grosse, R. (2015). Optimizing Neural Networks with Kronecker-factored Approximate Curvature. ICML.

    Examples
    --------
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> network = MLPRegressor(hidden_layer_sizes=(2,), activation="tanh", solver="lbfgs", alpha=0.01, random_state=0)
    >>> ribbon = RibbonRegressor(network, curvature="kfac").fit(X, y)
    >>> inside, outside = ribbon.predict_std([[0.0], [5.0]], kind="epistemic")
    >>> bool(inside < outside)
    True
    """

    factors_again = True

    def of_block(self, block: Block) -> Sums:
        if not block.model.has_layers:
            raise TypeError(
                f"curvature='kfac' needs a network of dense layers, and {type(block.model).__name__} has none. Use "
                "'matrix_free' or 'low_rank', which take any model, or build the model with skribbon.models.mlp."
            )
        return Sums(block.kronecker_sums())

    def factor(self, rows: Rows, moments: Moments) -> Factor:
        return kronecker_factor(rows.model, moments.curvature / moments.n, self.shift(rows.model))


def kronecker_factor(model, means, shift):
    """Kronecker factor of a model from the mean of its Kronecker sums."""
    layers = []
    for index, (A, S) in zip(model.layers, means, strict=True):
        d = shift[index]
        if not np.all(d == d[:, :1]):
            raise ValueError("curvature='kfac' needs a penalty that is the same for all outputs of a layer.")
        layers.append(KroneckerLayer(index, A, S, d[:, 0]))
    return Kronecker(len(model.theta), layers)


CURVATURES["kfac"] = KFAC
