"""Class probabilities of normal logits: the mean of a softmax and the quantiles of each of its entries.

With K classes, f ~ N(m, S) has k = K - 1 coordinates and the logits are eta = basis f, so that eta ~ N(basis m, C),
C = basis S basis'. Nothing below depends on the order of the classes: all is computed from eta and C, with the classes
of each row in an order of their own. A row takes one of two routes.

- *Log-odds.* The log-odds of class c, eta_c - log sum_{j != c} exp(eta_j), is close to normal where only two classes
  matter or where C is small: its mean to second and its variance to first order in C give all that is asked for.
- *Nodes.* Otherwise fixed quasi-random nodes stand for the normal law, in the differences to the leading class. Classes
  that cannot matter are left out, and the number of nodes follows from how far a few of them scatter.
"""

from functools import lru_cache, partial

import numpy as np
from scipy.special import expit, ndtr, ndtri
from scipy.stats import qmc

CHUNK_BYTES = 2**24  # of one temporary array
BLOCK_BYTES = 2**19  # of one that is gone through several times, to stay in the cache
NARROW, WIDE = 0.3, 3.0  # variances up to which, and beyond which, a normal law is narrower than the logistic density
STEP = 0.4  # of the trapezoidal rules, which converge geometrically for both: their errors are below 1e-10
HERMITE_NODES, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
HERMITE_WEIGHTS = HERMITE_WEIGHTS / HERMITE_WEIGHTS.sum()
NORMAL_NODES = np.arange(-7.0, 7.0 + STEP / 2, STEP)
NORMAL_WEIGHTS = np.exp(-(NORMAL_NODES**2) / 2) / np.exp(-(NORMAL_NODES**2) / 2).sum()
LOGISTIC_NODES = np.arange(-26.0, 26.0 + STEP / 2, STEP)
LOGISTIC_WEIGHTS = STEP * expit(LOGISTIC_NODES) * expit(-LOGISTIC_NODES)

# the sigmoid as a mixture of eight normal distribution functions, to 2e-9 (Monahan and Stefanski, 1992)
PROBIT_SCALES = np.array([1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391])
PROBIT_SCALES = np.r_[PROBIT_SCALES, 0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306]
PROBIT_WEIGHTS = np.array([0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818])
PROBIT_WEIGHTS = np.r_[PROBIT_WEIGHTS, 0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354]
RARE = 1e-4  # a probability below which that is too rough
SURE = 6.5  # standard deviations beyond which a normal distribution function is zero or one, to 1e-10

HUGE = 1e10  # a variance, or a logit, beyond which a softmax is an argmax
NEGLIGIBLE = 1e-4  # total probability of the classes that are left out
SCATTER = (0.012, 0.05, 0.07)  # of the averages over antithetic pairs of nodes, up to which
PAIRS = (64, 256, 1024)  # so many pairs are enough for a mean, and
QUANTILE_PAIRS = (256, 1024, 4096)  # for quantiles
MOST_PAIRS = 16384
FEW = 4  # classes for which no nodes are saved
SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # of sets of classes
WIDEST = 1e4  # variance of a logit beyond which probabilities are zero or one
TIE = 1e-13  # classes whose sort keys differ by less, relative to the logits, are exchangeable


# ---------------------------------------------------------------------- two classes
def logistic_mean(f, variance):
    """Mean probabilities (n, 2) of two classes whose log-odds is N(f, variance), both of shape (n,)."""
    f, variance = np.broadcast_arrays(np.asarray(f, dtype=float), np.asarray(variance, dtype=float))
    return np.stack([_mean_expit(-f, variance), _mean_expit(f, variance)], axis=-1)


def logistic_quantiles(f, variance, q):
    """Quantiles (n, 2, Q) of the probabilities of two classes; exact, as the sigmoid keeps the order."""
    f, std = np.asarray(f, dtype=float)[:, None], np.sqrt(np.maximum(variance, 0.0))[:, None]
    z = std * ndtri(np.asarray(q, dtype=float))
    return np.stack([expit(-f + z), expit(f + z)], axis=1)


def _tilted(mean, variance):
    """A factor and another mean: E expit(N(mean, variance)) is factor E expit(N(other, variance)), which is not rare.

    With e^x for the numerator of expit(x), that is exp(mean + variance / 2) E expit(N(-mean - variance, variance)).
    """
    rare = mean < -variance / 2
    return np.exp(np.where(rare, mean + variance / 2, 0.0)), np.where(rare, -mean - variance, mean)


def _mean_expit(mean, variance):
    """E expit(N(mean, variance)), for arrays of one shape."""
    factor, mean = _tilted(mean, variance)
    out = np.empty(mean.shape)
    tier = np.searchsorted([0.0, NARROW, WIDE], variance)
    for i, rule in enumerate((_point_rule, _hermite_rule, _normal_rule, _logistic_rule)):
        here = tier == i
        if here.any():
            out[here] = _by_block(rule, mean[here], np.sqrt(np.maximum(variance[here], 0)))
    return factor * out


def _fast_mean_expit(mean, variance):
    """The same to 1e-8, and relative to 1e-4 where it is rare."""
    factor, other = _tilted(mean, variance)
    out = _probit_mixture(other, variance)
    exact = (out < RARE) | (variance <= NARROW)
    out *= factor
    out[exact] = _mean_expit(mean[exact], variance[exact])
    return out


def _probit_mixture(mean, variance):
    """The same to 4e-9, whatever it is; far out it is e^x, or one, all but nearly."""
    size, at_ease = np.abs(mean), 10 + 2 * variance
    out = np.exp(np.where(size >= at_ease, variance / 2 - size, -np.inf))
    np.subtract(1.0, out, out=out, where=mean > 0)
    near = size < np.minimum(at_ease, SURE * np.sqrt(variance + PROBIT_SCALES[-1] ** -2))
    mean, variance = mean[near], variance[near]
    total = np.zeros(len(mean))
    for some in _chunks(len(mean), 32, BLOCK_BYTES):
        for weight, scale in zip(PROBIT_WEIGHTS, PROBIT_SCALES, strict=True):
            total[some] += weight * ndtr(mean[some] / np.sqrt(variance[some] + scale**-2))
    out[near] = total
    return out


def _by_block(rule, mean, std):
    out = np.empty(len(mean))
    for rows in _chunks(len(mean), 8 * len(LOGISTIC_NODES), BLOCK_BYTES):
        out[rows] = rule(mean[rows, None], std[rows, None])
    return out


def _point_rule(mean, std):
    return expit(mean[:, 0])


def _hermite_rule(mean, std):
    """int expit(mean + std z) phi(z) dz, for narrow laws."""
    return _expit(mean + std * HERMITE_NODES) @ HERMITE_WEIGHTS


def _normal_rule(mean, std):
    """The same by the trapezoidal rule."""
    return _expit(mean + std * NORMAL_NODES) @ NORMAL_WEIGHTS


def _logistic_rule(mean, std):
    """The same by parts, int Phi((mean - x) / std) expit'(x) dx, for wide laws."""
    return ndtr((mean - LOGISTIC_NODES) / std) @ LOGISTIC_WEIGHTS


def _expit(x):
    """Sigmoid in place, several times as fast as scipy's, with a relative error of rounding."""
    np.negative(x, out=x)
    np.minimum(x, 700.0, out=x)
    np.exp(x, out=x)
    x += 1
    return np.divide(1, x, out=x)


# ---------------------------------------------------------------------- any number of classes
def softmax_mean(f, covariance, basis):
    """Mean of softmax(basis f) for f ~ N(f, covariance).

    Parameters
    ----------
    f : ndarray of shape (n, k)
    covariance : ndarray of shape (n, k, k) or (A, n, k, k)
    basis : ndarray of shape (K, k)

    Returns
    -------
    ndarray of shape (n, K) or (A, n, K)
        Rows sum to one.
    """
    if np.ndim(covariance) == 4:
        return np.stack([softmax_mean(f, S, basis) for S in covariance])
    return softmax_mean_path(f, covariance, basis, [1.0])[0]


def softmax_mean_path(f, covariance, basis, factors, most_pairs=MOST_PAIRS):
    """Means (A, n, K) of softmax(basis f) where ``covariance`` (n, k, k) is scaled by each of the factors (A,).

    No more than ``most_pairs`` of nodes stand for the widest laws of more than four classes.
    """
    factors = np.asarray(factors, dtype=float)
    if len(factors) > 1 and _largest(covariance).max(initial=0.0) * factors.max() > HUGE:
        return np.concatenate([softmax_mean_path(f, c * covariance, basis, [1.0], most_pairs) for c in factors])
    f, covariance = _bounded(f, covariance)
    out = np.empty((len(factors), len(f), len(basis)))
    for rows in _chunks(len(f), 8 * len(basis) ** 2):
        out[:, rows] = _Rows(f[rows], covariance[rows], basis).means(factors, most_pairs)
    return out


def softmax_quantiles(f, covariance, basis, q):
    """Quantiles (n, K, Q) of each entry of softmax(basis f) for f ~ N(f, covariance), at the levels q (Q,).

    Parameters
    ----------
    f : ndarray of shape (n, k)
    covariance : ndarray of shape (n, k, k) or (A, n, k, k)
    basis : ndarray of shape (K, k)
    q : ndarray of shape (Q,)

    Returns
    -------
    ndarray of shape (n, K, Q) or (A, n, K, Q)
    """
    if np.ndim(covariance) == 4:
        return np.stack([softmax_quantiles(f, S, basis, q) for S in covariance])
    q = np.asarray(q, dtype=float)
    f, covariance = _bounded(f, covariance)
    out = np.empty((len(f), len(basis), len(q)))
    for rows in _chunks(len(f), 8 * len(basis) ** 2):
        out[rows] = _Rows(f[rows], covariance[rows], basis).quantiles(q)
    return out


def _largest(covariance):
    """The largest variance of each row, (n,)."""
    return np.einsum("nkk->nk", covariance).max(axis=1)


def _bounded(f, covariance):
    """Logits in units in which neither they nor their variances overflow: so far out a softmax is an argmax.

    That is the same in any unit.
    """
    unit = np.maximum(np.sqrt(np.maximum(_largest(covariance), 0) / HUGE), np.abs(f).max(axis=1) / HUGE)
    unit = np.maximum(unit, 1.0)
    if (unit == 1).all():
        return f, covariance
    return f / unit[:, None], covariance / unit[:, None, None] / unit[:, None, None]


def _chunks(n, row_bytes, budget=CHUNK_BYTES):
    step = max(1, budget // row_bytes)
    return [slice(start, start + step) for start in range(0, n, step)]


class _Rows:
    """Rows f (n, k) with their covariance (n, k, k), and what multiples of it do.

    All that the log-odds need is there for the unscaled covariance, in differences to the leading class t: with w the
    softmax of the other classes, v_j = Var(eta_j - eta_t), b = Cov(eta - eta_t) w.
    """

    def __init__(self, f, covariance, basis):
        K, k = basis.shape
        self.basis = basis
        eta = f @ basis.T
        self.SB = (covariance.reshape(-1, k) @ basis.T).reshape(-1, k, K)
        self.c = np.maximum(np.einsum("ck,nkc->nc", basis, self.SB), 0)  # Var(eta)
        self.tie_break = _tie_break(self.c, np.einsum("nkc,nkc->nc", self.SB, self.SB))
        top = (eta + self.tie_break).argmax(axis=1)[:, None]
        self.m = eta - np.take_along_axis(eta, top, axis=1)
        with_top = (basis[top[:, 0], None] @ self.SB)[:, 0]
        c_top = np.take_along_axis(self.c, top, axis=1)
        self.v = np.maximum(self.c + c_top - 2 * with_top, 0)
        np.put_along_axis(self.v, top, 0.0, axis=1)

        others = self.m.copy()
        np.put_along_axis(others, top, -np.inf, axis=1)
        second = others.max(axis=1, keepdims=True)
        self.w = np.exp(others - second)
        total = self.w.sum(axis=1, keepdims=True)
        self.w /= total
        self.lead = -(second + np.log(total))  # log-odds of the leading class
        Cw = ((self.w @ basis)[:, None] @ self.SB)[:, 0]
        self.b = Cw - with_top - np.take_along_axis(Cw, top, axis=1) + c_top
        np.put_along_axis(self.b, top, 0.0, axis=1)

        # for each class c, with w the softmax of the classes other than c: log-odds at the mean, the curvature
        # sum_j w_j C_jj - w'Cw = tr(C Hess log sum exp), and the variance (e_c - w)' C (e_c - w)
        a, d = (self.w * self.v).sum(axis=1, keepdims=True), (self.w * self.b).sum(axis=1, keepdims=True)
        X = expit(-self.lead)
        p = X * self.w
        rest = 1 - p
        np.put_along_axis(rest, top, 1.0, axis=1)
        self.log_odds = self.m - np.log1p(np.exp(-self.lead)) - np.log(rest)
        ww = (X**2 * d - 2 * p * X * self.b + p**2 * self.v) / rest**2
        self.curvature = (X * a - p * self.v) / rest - ww
        self.variance = self.v - 2 * (X * self.b - p * self.v) / rest + ww
        for array, value in ((self.log_odds, self.lead), (self.curvature, a - d), (self.variance, d)):
            np.put_along_axis(array, top, value, axis=1)
        self.curvature, self.variance = np.maximum(self.curvature, 0), np.maximum(self.variance, 0)

    def normal_log_odds(self, factor):
        """Mean and variance (n, K) of the log-odds."""
        return self.log_odds - factor * self.curvature / 2, factor * self.variance

    def means(self, factors, most_pairs=MOST_PAIRS):
        """Mean probabilities (A, n, K)."""
        rule = partial(_node_means, most_pairs=most_pairs)
        means, hard = (np.stack(each) for each in zip(*map(self._simple_means, factors), strict=True))
        ordered = self._ordered(np.flatnonzero(hard.any(axis=0)))
        for out, is_hard, factor in zip(means, hard, factors, strict=True):
            self._fill(out, ordered, is_hard, factor, rule)
        means /= means.sum(axis=2, keepdims=True)
        return means

    def quantiles(self, q):
        """Quantiles (n, K, Q) of the probabilities."""
        mean, variance = self.normal_log_odds(1.0)
        out = expit(mean[:, :, None] + np.sqrt(variance)[:, :, None] * ndtri(q))
        is_hard = self._simple_means(1.0)[1] | self._skew(expit(mean))
        ordered = self._ordered(np.flatnonzero(is_hard))
        self._fill(out, ordered, is_hard, 1.0, lambda m, root: _node_quantiles(m, root, q))
        return out

    def _simple_means(self, factor):
        """Means (n, K) of normal log-odds, and the rows (n,) for which they do not do."""
        mean = _fast_mean_expit(*self.normal_log_odds(factor))
        total = mean.sum(axis=1)
        v = factor * self.v
        near = expit(self.m / np.sqrt(1 + np.pi / 8 * v))  # chance against the leading class alone, roughly
        largest = np.where(near > 1e-4, v, 0).max(axis=1)
        curved = factor * (mean * (1 - mean) * self.curvature).max(axis=1) * largest
        third = (near * v).sum(axis=1) - (near * v).max(axis=1)
        simple = (curved < 0.003) & (np.abs(total - 1) < 2e-4) & (third < 0.3 * near.sum(axis=1))
        return mean / np.maximum(total, 1e-3)[:, None], ~(simple | (largest < 0.2))  # a total far from one is hard

    def _skew(self, p):
        """Rows (n,) whose log-odds have the skewness or the second-order variance to move an interval visibly."""
        shift = p * (1 - p) * self.curvature
        spread = p * (1 - p) * np.sqrt(self.variance)
        wider = (self.curvature**2 > 0.05 * self.variance) & (spread + shift > 0.005)
        return ((shift > 0.006) | wider).any(axis=1)

    def _ordered(self, rows):
        """The rows (r,), the order (r, K) of their classes, a root of the covariance, and which neighbours are tied.

        The root (r, K-1, K-1) is that of the differences to the first class in this order.
        """
        m, c = self.m[rows], self.c[rows]
        C = self.basis @ self.SB[rows]
        mean_c = np.maximum(c.mean(axis=1, keepdims=True), np.finfo(float).tiny)
        key = m / np.sqrt(1 + c / mean_c)  # the same order for every multiple of the covariance
        key += self.tie_break[rows]
        order = np.argsort(-key, axis=1, kind="stable")
        C = np.take_along_axis(np.take_along_axis(C, order[:, :, None], axis=1), order[:, None, :], axis=2)
        D = C[:, 1:, 1:] - C[:, 1:, :1] - C[:, :1, 1:] + C[:, :1, :1]
        tied = np.diff(np.take_along_axis(key, order, axis=1), axis=1) > -TIE * (1 - m.min(axis=1, keepdims=True))
        return rows, order, _semidefinite_cholesky(D), tied

    def _fill(self, out, ordered, is_hard, factor, rule):
        """Replace the hard rows of ``out`` (n, K) or (n, K, Q) by what the nodes say."""
        rows, order, root, tied = ordered
        here = is_hard[rows]
        if not here.any():
            return
        rows, order, root, tied = rows[here], order[here], root[here], tied[here]
        m = np.take_along_axis(self.m[rows], order, axis=1)
        v = np.take_along_axis(self.v[rows], order, axis=1)
        bound = _probit_mixture(m, factor * v)  # E softmax_j is at most E expit(eta_j - eta_t)
        tail = np.cumsum(bound[:, ::-1], axis=1)[:, ::-1]
        kept = np.maximum((tail >= NEGLIGIBLE).sum(axis=1), 2)
        sizes = np.array([*SIZES, len(self.basis)])
        sizes = sizes[sizes <= len(self.basis)]
        kept = sizes[np.searchsorted(sizes, kept)]
        values = _along(out[rows], order)
        for L in np.unique(kept):
            group = np.flatnonzero(kept == L)
            lead = rule(m[group, :L], np.sqrt(factor) * root[group, : L - 1, : L - 1])
            if lead.ndim == 2:
                rest = np.minimum(values[group, L:], np.maximum(bound[group, L:], 1e-6))
                lead = lead * (1 - rest.sum(axis=1, keepdims=True))
                values[group, L:] = rest
            values[group, :L] = lead
        if tied.any():
            values = _average_ties(values, tied)
        unordered = np.empty_like(values)
        index = order if values.ndim == 2 else np.broadcast_to(order[:, :, None], values.shape)
        np.put_along_axis(unordered, index, values, axis=1)
        out[rows] = unordered


def _tie_break(diagonal, square):
    """Small terms (n, K) that tell classes of equal logits apart, by C_cc and (C^2)_cc in units of their means."""
    floor = np.finfo(float).tiny
    c = diagonal / np.maximum(diagonal.mean(axis=1, keepdims=True), floor)
    s = square / np.maximum(square.mean(axis=1, keepdims=True), floor)
    return 1e-7 / diagonal.shape[1] * (c + s)


def _along(values, order):
    return np.take_along_axis(values, order if values.ndim == 2 else order[:, :, None], axis=1)


def _average_ties(values, tied):
    """Exchangeable classes, neighbours in the order, share the average of what the nodes gave them."""
    values = values.copy()
    for i in np.flatnonzero(tied.any(axis=1)):
        group = np.concatenate([[0], np.cumsum(~tied[i])])
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        sums = np.add.reduceat(values[i], starts, axis=0)
        counts = np.bincount(group)
        values[i] = (sums / (counts if sums.ndim == 1 else counts[:, None]))[group]
    return values


def _semidefinite_cholesky(D):
    """Lower triangular roots of a stack D (n, k, k); the column of a pivot that may be mere rounding is zero.

    A pivot t times the largest diagonal entry leaves eps / t of rounding in the next ones: t > sqrt(eps) tells them
    from zero.
    """
    L = np.zeros_like(D)
    least = np.maximum(1e-7 * np.einsum("nii->ni", D).max(axis=1), np.finfo(float).tiny)
    for j in range(D.shape[1]):
        column = D[:, j:, j] - (L[:, j:, :j] @ L[:, j, :j, None])[:, :, 0]
        pivot = column[:, 0]
        good = pivot > least
        L[:, j:, j] = column * (good / np.sqrt(np.where(good, pivot, 1.0)))[:, None]
    return L


def _nodes(k, pairs):
    """Points (k, 2 pairs) of the standard normal law."""
    return _more_nodes(max(2 ** int(np.ceil(np.log2(k))), 8), pairs)[:k]


@lru_cache(maxsize=32)
def _more_nodes(k, pairs):
    """Sobol's points in antithetic pairs, read-only; as far as that is possible, the first have unit covariance.

    Linear and quadratic functions of them are then integrated exactly. The root is triangular: the first coordinates
    by themselves have the same property.
    """
    u = qmc.Sobol(k, scramble=True, seed=0).random(pairs)
    z = ndtri(np.clip(u, 1e-10, 1 - 1e-10)).T
    z /= np.sqrt((z**2).mean(axis=1, keepdims=True))
    first = z[: pairs // 4]
    first[:] = np.linalg.solve(np.linalg.cholesky(first @ first.T / pairs), first)
    z = np.concatenate([z, -z], axis=1)
    z.setflags(write=False)
    return z


def _pairs_of_exponentials(m, root, z):
    """exp(eta) (r, L, N) at nodes z (L-1, N) and at -z, but for factors exp(m) (r, L), which are third.

    exp(root z) and its inverse: one exponential for both. Where products of such would overflow, the factors are one.
    """
    E = np.empty((len(m), m.shape[1], z.shape[1]))
    shift = (root.reshape(-1, len(z)) @ z).reshape(len(m), len(z), -1)  # one product for all rows
    bound = np.sqrt(np.einsum("rkl,rkl->rk", root, root).max(initial=0.0) * np.einsum("kn,kn->n", z, z).max())
    if (bound > 390 and max(-shift.min(), shift.max()) > 390) or np.ptp(m, axis=1).max() > 300:
        E[:, 0], E[:, 1:] = 0, shift
        both = (m[:, :, None] + E, m[:, :, None] - E)
        return *(np.exp(e - e.max(axis=1, keepdims=True)) for e in both), np.ones(m.shape)
    E[:, 0] = 1
    np.exp(shift, out=E[:, 1:])
    return E, 1 / E, np.exp(m - m[:, :1])


def _sum_over_pairs(m, root, z):
    """Sum (r, L) of the softmax over nodes z (L-1, N) and their antitheses."""
    *both, w = _pairs_of_exponentials(m, root, z)
    w = w[:, :, None]
    return sum((w * (e @ (1 / (w.transpose(0, 2, 1) @ e)).transpose(0, 2, 1)))[:, :, 0] for e in both)


def _exponentials(m, root, z):
    """exp(eta - shift) (r, L, N) at the nodes, eta - shift, and the inverses of the sums (r, 1, N)."""
    e = np.empty((len(m), m.shape[1], z.shape[1]))
    np.matmul(root, z, out=e[:, 1:])
    e[:, 1:] += (m[:, 1:] - m[:, :1])[:, :, None]
    e[:, 0] = 0
    if e.max() > 500:  # else the first class, of logit zero, keeps the sums from underflow
        e -= e.max(axis=1, keepdims=True)
    exponentials = np.exp(e)
    return exponentials, e, 1 / exponentials.sum(axis=1, keepdims=True)


def _node_means(m, root, most_pairs=MOST_PAIRS):
    """Means (r, L) over as many nodes as the scatter over the first ones asks for."""
    L = m.shape[1]
    if L > FEW and most_pairs < PAIRS[1]:
        return _means_over(m, root, most_pairs)
    means, scatter = _pilot(m, root)
    most = 2 ** int(np.ceil(np.log2(512 * L)))  # more dimensions, more nodes; of very many classes, each matters less
    most = min(max(most, 2 * PAIRS[-1]), MOST_PAIRS if L <= 64 else MOST_PAIRS // 2)
    sizes = [min(pairs, most_pairs) if L > FEW else pairs for pairs in (*PAIRS, most)]
    for pairs, group in _tiers(scatter, sizes)[1:]:
        if len(group):  # nodes that nobody asks for take long to make
            means[group] = _means_over(m[group], root[group], pairs)
    return means


def _means_over(m, root, pairs):
    """Means (r, L) over so many nodes."""
    L, z = m.shape[1], _nodes(m.shape[1] - 1, pairs)[:, :pairs]
    means = np.zeros(m.shape)
    for rows in _chunks(len(m), 8 * pairs * L, BLOCK_BYTES):
        for some in _chunks(pairs, 8 * len(m[rows]) * L, BLOCK_BYTES):
            means[rows] += _sum_over_pairs(m[rows], root[rows], z[:, some]) / (2 * pairs)
    return means


def _pilot(m, root):
    """Means (r, L) over the first nodes, and the scatter (r,) of antithetic averages, largest over the classes."""
    means, scatter, pairs = np.empty(m.shape), np.empty(len(m)), PAIRS[0]
    z = _nodes(m.shape[1] - 1, pairs)
    for rows in _chunks(len(m), 16 * pairs * m.shape[1], BLOCK_BYTES):
        *both, w = _pairs_of_exponentials(m[rows], root[rows], z[:, :pairs])
        for e in both:
            e /= (2 * w[:, None]) @ e
        average = np.add(*both, out=both[0])
        mean = average.mean(axis=2)
        variance = np.einsum("rln,rln->rl", average, average) / pairs - mean**2
        means[rows], scatter[rows] = w * mean, (w * np.sqrt(np.maximum(variance, 0))).max(axis=1)
    return means, scatter


def _tiers(scatter, sizes):
    """Numbers of pairs, and the rows for which each is enough; the last one has to be."""
    tier = np.minimum(np.searchsorted(SCATTER, scatter), len(sizes) - 1)
    return [(pairs, np.flatnonzero(tier == i)) for i, pairs in enumerate(sizes)]


def _node_quantiles(m, root, q):
    """Quantiles (r, L, Q) over the nodes."""
    r, L = m.shape
    out = np.empty((r, L, len(q)))
    own, d = _own_shifts(root)
    for pairs, group in _tiers(_pilot(m, root)[1], QUANTILE_PAIRS):
        z = _nodes(L - 1, pairs)
        for rows in _chunks(len(group), 16 * pairs * L, BLOCK_BYTES):
            i = group[rows]
            out[i] = _smoothed_quantiles(m[i], root[i], own[i], d[i], z, q)
    return out


def _own_shifts(root):
    """What no other class shares of each logit: factors (r, L, L-1) of the nodes, and the variances (r, L).

    A shift of class c alone moves the differences to the first class by t_c = e_c, or -1 for the first. With D their
    covariance, the shift has variance d_c = 1 / (t_c' D^-1 t_c) and is d_c t_c' D^-1 root z. Singular D leave none.
    """
    pivots = np.einsum("nii->ni", root)
    regular = (pivots > 0).all(axis=1)
    inverse = np.linalg.inv(np.where(regular[:, None, None], root, np.eye(root.shape[1])))
    directions = np.concatenate([-inverse.sum(axis=2)[:, None], inverse.transpose(0, 2, 1)], axis=1)
    d = regular[:, None] / (directions**2).sum(axis=2)
    return directions * d[:, :, None], np.where(d < WIDEST, d, 0.0)


def _smoothed_quantiles(m, root, own, d, z, q):
    """Quantiles (r, L, Q): of the log-odds at the nodes, then a Newton step on a smoother distribution function.

    Given all that the classes share, the log-odds of class c is normal with variance d_c, so that its distribution
    function is the mean of Phi((t - mu) / sqrt(d_c)) over the nodes, where mu is the log-odds less the shift.
    """
    e, log_e, scale = _exponentials(m, root, z)
    lead = e.argmax(axis=1)[:, None]
    total = 1 / scale
    np.put_along_axis(e, lead, 0.0, axis=1)
    rest = total - e  # without cancellation: only the largest term can be close to the sum
    np.put_along_axis(rest, lead, np.maximum(e.sum(axis=1, keepdims=True), np.finfo(float).tiny), axis=1)
    log_e -= np.log(rest, out=rest)
    log_odds = log_e
    t = np.moveaxis(np.quantile(log_odds, q, axis=2), 0, 2)
    shared = np.matmul(own, z, out=e)
    np.subtract(log_odds, shared, out=shared)
    h = np.sqrt(d)[:, :, None]
    slope = np.divide(1, h, out=np.zeros_like(h), where=h > 0)
    for i in range(len(q)):
        x = (t[:, :, i, None] - shared) * slope
        np.clip(x, -8, 8, out=x)
        square = x * x
        F = 1 / (1 + np.exp(-x * (1.5976 + 0.07056 * square)))  # Phi to 1.4e-4, and on average far closer
        density = np.exp(square / -2).mean(axis=2) / np.sqrt(2 * np.pi)
        near = density * z.shape[1]  # nodes within reach: a few of them say nothing
        step = (q[i] - F.mean(axis=2)) / np.maximum(density, 1e-300) * near / (near + 10)
        t[:, :, i] += h[:, :, 0] * np.clip(step, -1, 1)
    return expit(np.sort(t, axis=2)[:, :, np.argsort(np.argsort(q))])
