"""Gauss-Newton of a sample of rows, which stands for that of all of them while equations are solved."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag, cho_solve, cholesky

from .._core.linalg import gram, rank_tolerance
from .._core.rows import Block, some_of

SAMPLE = 9000  # scores of sampled rows; their products with each other are an array of so many rows and columns
SCORES_EACH = 3  # of these for a sampled row: with more of them fewer rows are there to tell how rows differ
WIDER = 6  # times as many parameters, so that several such arrays are small beside one of all parameters
SAMPLES_EACH = 3  # of these for an effective parameter: with fewer, KFAC is the better guess
SHARE = 0.03  # of the sample's own curvature of biases, which have no penalty, that is added to it
SEEN = 0.1  # of the curvature of biases: directions of which the sample has less get it from all rows
SINGLE = 2000  # scores from which products are in single precision, where that is enough
ROUNDING = 0.1  # what that may leave of the identity that is added to the kernel


class SampledGaussNewton:
    r"""D + A'A with A = R'J / sqrt(m) of m sampled rows, solved with by as many equations as A has rows.

    .. math:: (D + A'A)^{-1} = D^{-1} - D^{-1} A' (I + A D^{-1} A')^{-1} A D^{-1}.

    D is the penalty, and of biases a share of their curvature, so that it has an inverse. That is curvature of all
    layers together: a bias of one layer may nearly undo that of another, and layers apart would not know. Of dense
    layers A D^-1 A' takes products of inputs and of gradients, and A is never formed.

    Parameters
    ----------
    block : Block
        The sampled rows.
    R : ndarray of shape (m, k, r)
        Roots of their curvature in f.
    spreads : ndarray of shape (out, out), for each layer
        Sums of the products of its outputs' gradients over all rows, on the scale of the mean loss.
    shift : ndarray of shape (p,)
    precision : dtype
        Of A and of the equations; D has double precision.

    Attributes
    ----------
    is_precise : bool
        Whether rounding leaves I + A D^-1 A' as it is; else there are no solutions.
    """

    def __init__(self, block, R, spreads, shift, precision):
        layers = block.model.layers
        self._biases, self._precision = np.concatenate([places[-1] for places in layers]), precision
        with np.errstate(over="ignore", invalid="ignore"):
            self._inverse = np.divide(1.0, shift, out=np.zeros_like(shift), where=shift > 0)[:, None]
            self._scores = block.tangent.layer_scores(block.weighted(R) / np.sqrt(block.total()), precision)
            own = gram(self._scores.of_biases().astype(float))
            places = np.split(np.arange(len(own)), np.cumsum([len(S) for S in spreads])[:-1])
            unseen = block_diag(*(_unseen(S, own[np.ix_(some, some)]) for S, some in zip(spreads, places, strict=True)))
            self._root = _inverse_root(SHARE * own + unseen + np.diag(shift[self._biases]))
            K = self._scores.kernel([self._inverse[places[:-1, 0], 0] for places in layers], self._root)
        self.is_precise = bool(np.trace(K, dtype=float) * np.finfo(precision).eps <= ROUNDING)
        if self.is_precise:
            K[np.diag_indices_from(K)] += 1.0
            self._upper = cholesky(K.T, lower=False, overwrite_a=True, check_finite=False)

    def _over_base(self, V):
        """D^-1 V."""
        out = self._inverse * V
        out[self._biases] = self._root @ (self._root.T @ V[self._biases])
        return out

    def solve(self, V):
        """Of V (p, m)."""
        Y = self._over_base(V)
        outputs = self._scores.product(Y.astype(self._precision, copy=False))  # A D^-1 V, (rows, r, m)
        inner = cho_solve((self._upper, False), outputs.reshape(-1, V.shape[1]), check_finite=False)
        return Y - self._over_base(self._scores.transposed_product(inner.reshape(outputs.shape)))


def sampled_gauss_newton(rows, kronecker, shift):
    """Of rows at random, where so few stand for all and every weight has a penalty; else None.

    ``kronecker`` is the Kronecker factor of the same curvature, which tells the number of effective parameters.
    """
    rank, size = rows.model.loss.curvature_rank, min(SAMPLE, len(shift) // WIDER)
    each = min(rank, max(SCORES_EACH, size // rows.n_rows))
    n_rows = min(rows.n_rows, size // each)
    penalised = all(layer.d[:-1].all() for layer in kronecker.layers)
    if not penalised or SAMPLES_EACH * kronecker.effective_parameters(shift) > n_rows * each:
        return None
    some = rows.take(some_of(rows.n_rows, n_rows))
    block = Block(some.model, some.model.rows(some.X), some.y, some.weight)
    if not block.total():
        return None
    R = block.R if each == rank else _some_scores(block.R, each)
    spreads = [layer.S for layer in kronecker.layers]
    for precision in (np.float32, np.float64) if n_rows * each >= SINGLE else (np.float64,):
        guess = SampledGaussNewton(block, R, spreads, shift, precision)
        if guess.is_precise:
            return guess
    return None


def _some_scores(R, r):
    """Random combinations (n, k, r) of the columns of roots R, whose products are those of R on average."""
    turns = np.linalg.qr(np.random.default_rng(0).standard_normal((len(R), R.shape[2], r)))[0]
    return R @ (np.sqrt(R.shape[2] / r) * turns)


def _inverse_root(S):
    """M with M M' the inverse of a positive semi-definite S where it is not flat."""
    diagonal = np.diag(S)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(S * scale[:, None] * scale)
    kept = values > rank_tolerance(len(S))
    return scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])


def _unseen(S, own):
    """What of S lies along directions of which ``own``, the same of fewer rows, has less than SEEN."""
    inverse = _inverse_root(S)
    shares, turn = np.linalg.eigh(inverse.T @ own @ inverse)
    along = S @ (inverse @ turn[:, shares < SEEN])
    return along @ along.T
