"""Means and quantiles of class probabilities of normal logits: closed forms, and quadrature by Sobol nodes."""

from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtr, ndtri
from scipy.stats import qmc

# weights and inverse sds of the normal cdfs whose mixture is the sigmoid, to 2e-9 (Monahan and Stefanski, 1992)
PROBITS = (
    (0.003246343272134, 1.365340806296348),
    (0.051517477033972, 1.059523971016916),
    (0.195077912673858, 0.830791313765644),
    (0.315569823632818, 0.650732166639391),
    (0.274149576158423, 0.508135425366489),
    (0.131076880695470, 0.396313345166341),
    (0.027912418727972, 0.308904252267995),
    (0.001449567805354, 0.238212616409306),
)
FIRST_PAIRS = 64  # antithetic pairs of nodes for the first look at a row; fewer miss classes that seldom win
MOST_PAIRS = 16384  # antithetic pairs at which doubling stops: six equal classes with logits of sd 20 agree to 1e-3
MEAN_GAP = 5e-4  # difference of means over two halves of the nodes that ends the doubling: errors are below 1e-3
QUANTILE_PAIRS = 512  # antithetic pairs for quantiles of narrow distributions: interval widths to about 5%
QUANTILE_ERROR = 0.0025  # sd of a probability over the root of the number of pairs; 0.003 misses widths by over 5%
JITTER = 1e-10  # share of the largest variance that is added to all, so that singular covariances have a Cholesky root
LARGEST = 700.0  # bound of exponents: a thousand classes do not overflow
BLOCK = 2**17  # probabilities at nodes that are computed together: 1 MB stays in the cache


# ---------------------------------------------------------------------- closed forms
def closed_mean(f, covariance, basis):
    """Mean (n, K) of softmax(basis f) for f ~ N(f, covariance), by the probit approximation for each pair of classes.

    The probability of class c against class j alone is the sigmoid of their difference over sqrt(1 + pi v / 8), with v
    the variance of the difference; the odds of these pairs add up to the odds of class c.
    """
    if len(basis) == 2:
        p = expit(f[:, 0] / np.sqrt(1 + np.pi / 8 * covariance[:, 0, 0]))  # log-odds of the second class
        return np.stack([1 - p, p], axis=1)
    eta, C = f @ basis.T, basis @ covariance @ basis.T
    own = np.einsum("ncc->nc", C)
    variance = np.maximum(own[:, :, None] + own[:, None, :] - 2 * C, 0.0)
    odds = (eta[:, None, :] - eta[:, :, None]) / np.sqrt(1 + np.pi / 8 * variance)
    p = 1 / np.exp(np.minimum(odds, LARGEST)).sum(axis=2)
    return p / p.sum(axis=1, keepdims=True)


def closed_quantiles(f, covariance, basis, q):
    """Quantiles (n, K, Q) of each entry of softmax(basis f) for f ~ N(f, covariance), at the levels q (Q,).

    The log-odds of each class are taken as normal, with the variance of their linear part. The sum of the other classes
    is larger on average than at the mean of f: by half the variance of their logits around each other, which large
    deviations dampen.
    """
    K, eta, C = len(basis), f @ basis.T, basis @ covariance @ basis.T
    top = eta.max(axis=1, keepdims=True)
    weight = np.exp(eta - top)[:, None] * (1 - np.eye(K))
    others = np.maximum(weight.sum(axis=2), np.finfo(float).tiny)
    w = weight / others[:, :, None]  # shares (n, K, K) of the other classes
    contrast = np.eye(K) - w
    variance = np.maximum(np.einsum("ncj,ncj->nc", contrast @ C, contrast), 0.0)
    around = np.einsum("ncj,njj->nc", w, C) - np.einsum("ncj,ncj->nc", w @ C, w)
    center = eta - top - np.log(others) - np.log1p(np.maximum(around, 0.0) / 2)
    return expit(center[:, :, None] + np.sqrt(variance)[:, :, None] * ndtri(q))


# ---------------------------------------------------------------------- two classes
def mean_expit(mean, variance):
    """E expit(N(mean, variance)) for arrays of one shape, with an absolute error of 4e-9."""
    # rare classes, exp(mean + variance / 2) E expit(N(-mean - variance, variance)), keep their relative accuracy
    is_rare = mean < -variance / 2
    factor = np.exp(np.where(is_rare, mean + variance / 2, 0.0))
    center = np.where(is_rare, -mean - variance, mean)
    mixture = sum(weight * ndtr(center / np.sqrt(variance + scale**-2)) for weight, scale in PROBITS)
    return np.where(variance > 1e-9, factor * mixture, expit(mean))  # below, the sigmoid itself is closer


def logistic_mean(f, variance):
    """Mean probabilities (n, 2) of two classes with log-odds N(f, variance), both of shape (n,)."""
    smaller = mean_expit(-np.abs(f), variance)
    return np.stack([np.where(f > 0, smaller, 1 - smaller), np.where(f > 0, 1 - smaller, smaller)], axis=1)


def logistic_quantiles(f, variance, q):
    """Quantiles (n, 2, Q) of the probabilities of two classes; exact, since the sigmoid is increasing."""
    shift = np.sqrt(variance)[:, None] * ndtri(q)
    return np.stack([expit(shift - f[:, None]), expit(shift + f[:, None])], axis=1)


# ---------------------------------------------------------------------- any number of classes
def softmax_mean(f, covariance, basis):
    """Mean (n, K) of softmax(basis f) for f ~ N(f (n, k), covariance (n, k, k)), with an error of about 1e-3."""
    blocks = _blocks(f, covariance, basis, FIRST_PAIRS)
    return np.concatenate([_mean(*block) for block in blocks])


def softmax_quantiles(f, covariance, basis, q):
    """Quantiles (n, K, Q) of each entry of softmax(basis f) for f ~ N(f, covariance), at the levels q (Q,)."""
    blocks = _blocks(f, covariance, basis, QUANTILE_PAIRS)
    return np.concatenate([_quantiles(*block, q) for block in blocks])


def _mean(order, m, root):
    """Means (r, K) over nodes, which are doubled until both halves agree."""
    k, active, pairs = root.shape[2], np.arange(len(m)), FIRST_PAIRS
    means = _means_over_nodes(m, root, _nodes(k, 0, pairs))
    while len(active) and pairs < MOST_PAIRS:
        more = _means_over_nodes(m[active], root[active], _nodes(k, pairs, 2 * pairs))
        gap = np.abs(more[0] - means[0, active]).max(axis=1)
        means[:, active] = (means[:, active] + more) / 2
        active, pairs = active[gap > MEAN_GAP], 2 * pairs
    mean, against_leader = means
    # for rare classes: exact mean of the probability against the leading class alone, over its mean at the nodes
    exact = mean_expit(m, np.einsum("rij,rij->ri", root, root))
    mean *= exact / np.maximum(against_leader, np.finfo(float).tiny)
    return _unsorted(mean / mean.sum(axis=1, keepdims=True), order)


def _means_over_nodes(m, root, z):
    """Means (2, r, K) over nodes: of the probabilities, and of the probabilities against the leading class alone."""
    sums, step = np.zeros((2, *m.shape)), max(1, BLOCK // (2 * m.size + 1))
    for start in range(0, z.shape[1], step):
        log_odds = _log_odds(m, root, z[:, start : start + step])
        with np.errstate(over="ignore"):
            sums[1] += (1 / (1 + np.exp(-log_odds))).sum(axis=2)
        sums[0] += _softmax(log_odds).sum(axis=2)
    return sums / (2 * z.shape[1])


def _quantiles(order, m, root, q):
    """Quantiles (r, K, Q) over nodes, more of them the more the probabilities vary, whatever the levels are."""
    out, k = np.empty((*m.shape, len(q))), root.shape[2]
    spread = _softmax(_log_odds(m, root, _nodes(k, 0, FIRST_PAIRS))).std(axis=2).max(axis=1)
    pairs = np.clip((spread / QUANTILE_ERROR) ** 2, QUANTILE_PAIRS, MOST_PAIRS // 2)
    pairs = 2 ** np.ceil(np.log2(pairs)).astype(int)
    for number in np.unique(pairs):
        same = pairs == number
        p = _softmax(_log_odds(m[same], root[same], _nodes(k, 0, number)))
        out[same] = np.moveaxis(np.quantile(p, q, axis=2, overwrite_input=True), 0, 2)
    return _unsorted(out, order)


def _blocks(f, covariance, basis, pairs):
    """Sorted log-odds of blocks of rows, at least one, whose probabilities at so many pairs of nodes fill BLOCK."""
    size = max(1, BLOCK // (2 * pairs * len(basis)))
    starts = range(0, max(1, len(f)), size)
    return (_sorted_log_odds(f[i : i + size], covariance[i : i + size], basis) for i in starts)


def _sorted_log_odds(f, covariance, basis):
    """Order (r, K) of classes by mean logit; means (r, K) and covariance roots (r, K, k) of log-odds to the first."""
    # sorted, so that the first coordinates of nodes vary the most probable classes, whatever the labels
    eta = f @ basis.T
    order = np.argsort(-eta, axis=1, kind="stable")
    m = np.take_along_axis(eta, order, axis=1)
    contrasts = basis[order[:, 1:]] - basis[order[:, :1]]
    C = contrasts @ covariance @ contrasts.transpose(0, 2, 1)
    variances = np.einsum("rii->ri", C)
    variances += JITTER * variances.max(axis=1, keepdims=True) + np.finfo(float).tiny
    root = np.zeros((*m.shape, C.shape[1]))
    root[:, 1:] = np.linalg.cholesky(C)
    return order, m - m[:, :1], root


def _unsorted(values, order):
    """Values (r, K) or (r, K, Q) with the classes in their own order again."""
    back = np.argsort(order, axis=1)
    return np.take_along_axis(values, back.reshape(*back.shape, *[1] * (values.ndim - 2)), axis=1)


def _log_odds(m, root, z):
    """Log-odds (r, K, 2N) with means m (r, K) and roots (r, K, k) at nodes z (k, N) and at -z."""
    shift = (root.reshape(-1, len(z)) @ z).reshape(*m.shape, z.shape[1])
    return m[:, :, None] + np.concatenate([shift, -shift], axis=2)


def _softmax(log_odds):
    """Probabilities of log-odds (r, K, N), in place."""
    log_odds -= log_odds.max(axis=1, keepdims=True)
    p = np.exp(log_odds, out=log_odds)
    p /= p.sum(axis=1, keepdims=True)
    return p


@lru_cache(maxsize=64)
def _nodes(k, start, stop):
    """Sobol points (k, stop - start) of the standard normal distribution; leading coordinates have unit covariance."""
    u = qmc.Sobol(k, seed=0).random(stop)[start:]
    z = ndtri(np.clip(u, 1e-10, 1 - 1e-10)).T
    leading = z[: z.shape[1] // 4]
    leading[:] = np.linalg.solve(np.linalg.cholesky(leading @ leading.T / z.shape[1]), leading)
    z.setflags(write=False)
    return z
