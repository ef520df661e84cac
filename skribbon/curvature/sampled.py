"""Gauss-Newton of a sample of rows, which stands for that of all of them while equations are solved."""

from __future__ import annotations

import numpy as np

from .._linalg import left_multiply, rank_tolerance, triangular_inverse
from .._rows import Block, some_of

SAMPLE = 5000  # outputs of sampled rows; their products with each other are an array of so many rows and columns
WIDER = 6  # times as many parameters, so that several such arrays are small beside one of all parameters
SAMPLES_EACH = 3  # of these for an effective parameter: with fewer, KFAC is the better guess
SHARE = 0.3  # of the curvature of biases, which have no penalty, that is taken from all rows


class SampledGaussNewton:
    r"""D + A'A with A = R'J / sqrt(m) of m sampled rows, solved with by as many equations as A has rows.

    .. math:: (D + A'A)^{-1} = D^{-1} - D^{-1} A' (I + A D^{-1} A')^{-1} A D^{-1}.

    D is the penalty, and of biases a share of their curvature within each layer, so that the sample need not
    determine them alone. Of dense layers A D^-1 A' takes products of inputs and of gradients, and A is never formed.

    Parameters
    ----------
    block : Block
        The sampled rows.
    spreads : ndarray of shape (out, out), for each layer
        Sums of the products of its outputs' gradients over all rows, on the scale of the mean loss.
    shift : ndarray of shape (p,)
    """

    def __init__(self, block, spreads, shift):
        self._tangent, self._layers = block.tangent, block.model.layers
        self._R = block.weighted(block.R) / np.sqrt(block.total())  # (m, k, r)
        penalties = [shift[index] for index in self._layers]  # (in + 1, out) each
        self._scales = [1 / d[:-1, 0] for d in penalties]
        self._roots = [_inverse_root(SHARE * S + np.diag(d[-1])) for S, d in zip(spreads, penalties, strict=True)]
        K = self._tangent.kernel(self._R, self._scales, self._roots)
        K[np.diag_indices_from(K)] += 1.0
        self._inverse = triangular_inverse(np.linalg.cholesky(K))

    def _over_base(self, V):
        """D^-1 V."""
        out = np.empty_like(V)
        for index, scale, root in zip(self._layers, self._scales, self._roots, strict=True):
            out[index[:-1]] = scale[:, None, None] * V[index[:-1]]
            out[index[-1]] = root @ (root.T @ V[index[-1]])
        return out

    def solve(self, V):
        """Of V (p, m)."""
        Y = self._over_base(V)
        outputs = self._R.transpose(0, 2, 1) @ self._tangent.jvp(Y)  # A D^-1 V, (rows, r, m)
        shape = outputs.shape
        inner = left_multiply(self._inverse.T, left_multiply(self._inverse, outputs.reshape(-1, shape[2])))
        return Y - self._over_base(self._tangent.vjp(self._R @ inner.reshape(shape)))


def sampled_gauss_newton(rows, kronecker, shift):
    """Of rows at random, where so few stand for all and every weight has a penalty; else None.

    ``kronecker`` is the Kronecker factor of the same curvature, which tells the number of effective parameters.
    """
    p, rank = len(shift), rows.model.loss.curvature_rank
    size = min(rows.n_rows, min(SAMPLE, p // WIDER) // rank)
    penalised = all(layer.d[:-1].all() for layer in kronecker.layers)
    if not penalised or SAMPLES_EACH * kronecker.effective_parameters(shift) > size * rank:
        return None
    some = rows.take(some_of(rows.n_rows, size))
    block = Block(some.model, some.model.rows(some.X), some.y, some.weight)
    return SampledGaussNewton(block, [layer.S for layer in kronecker.layers], shift) if block.total() else None


def _inverse_root(S):
    """M with M M' the inverse of a positive semi-definite S where it is not flat."""
    values, vectors = np.linalg.eigh(S)
    kept = values > rank_tolerance(len(S)) * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])
