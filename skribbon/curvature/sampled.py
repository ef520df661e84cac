"""Gauss-Newton of a sample of rows, which stands for that of all of them while equations are solved."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag, cho_solve, cholesky

from .._core.linalg import gram
from .._core.rows import Block, some_of
from .kfac import inverse_root

SCORES_EACH = 3  # scores of a sampled row; more of them leave fewer rows, which then differ less than all rows do
WIDER = 6  # parameters per score, at least, so that the kernel is small beside a (p, p) array
SAMPLES_EACH = 3  # scores per effective parameter, at least; with fewer, KFAC preconditions better
SHARE = 0.03  # share of the biases' curvature that is added to D, since biases have no penalty and D needs an inverse
SINGLE = 2000  # scores from which the kernel is formed in single precision, which makes a fit 2.3 times faster
PANEL = 512  # rows of a kernel formed at a time, so that only its lower triangle is computed and temporaries stay small


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
            own = gram(of_biases(self._scores).astype(float))
            places = np.split(np.arange(len(own)), np.cumsum([len(S) for S in spreads])[:-1])
            unseen = block_diag(*(_unseen(S, own[np.ix_(some, some)]) for S, some in zip(spreads, places, strict=True)))
            self._root, _ = inverse_root(SHARE * own + unseen + np.diag(shift[self._biases]))
            K = kernel(self._scores, [self._inverse[places[:-1, 0], 0] for places in layers], self._root)
        # rounding errors of the kernel may be a tenth of the identity that is added to it
        self.is_precise = bool(np.trace(K, dtype=float) * np.finfo(precision).eps <= 0.1)
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
    # the kernel of 9000 scores, a square array of that size, takes 650 MB in double precision
    rank, size = rows.model.loss.curvature_rank, min(9000, len(shift) // WIDER)
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


def _unseen(S, own):
    """What of S lies along directions of which ``own``, the same of fewer rows, has less than a tenth."""
    inverse, _ = inverse_root(S)
    shares, turn = np.linalg.eigh(inverse.T @ own @ inverse)
    along = S @ (inverse @ turn[:, shares < 0.1])
    return along @ along.T


def of_biases(scores):
    """Columns of the scores S that belong to biases, (n r, biases)."""
    return np.concatenate([_flat(delta) for delta in scores.deltas], axis=1)


def kernel(scores, scales, root):
    """Lower triangle of S D S', (n r, n r), of LayerScores S; what is above is undefined.

    Of each layer D is ``scale`` (in,) for all weights of an input, and of all biases ``root root'``.
    """
    biases = of_biases(scores)
    biases = biases @ root.astype(biases.dtype)
    layers = [_stacked(*layer) for layer in zip(scores.inputs, scores.deltas, scales, strict=True)]
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


def _flat(delta):
    return delta.reshape(-1, delta.shape[2])


def _stacked(a, delta, scale):
    """A row for each score: scaled inputs of weights (n r, in), and gradients (n r, out)."""
    scaled = a[:, :-1] * np.sqrt(scale).astype(a.dtype)
    return np.repeat(scaled, delta.shape[1], axis=0), _flat(delta)
