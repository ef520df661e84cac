r"""Crossed groupings, such as pupils in schools and in districts: products of Dirichlet weights.

With k groupings, row i has the weight :math:`\prod_f u_f(i)`, with :math:`u_f` equal to :math:`G_f` times the Dirichlet
weight of the row's group in grouping f. To first order, theta moves by

.. math:: \Delta\theta_w = -\frac1n H_r^{-1} \sum_i \Big(\prod_f u_f(i) - 1\Big) g_i
          = -\frac1n H_r^{-1} \sum_s \sum_{c \in s} \prod_{f \in s} (u_f(c) - 1)\, S_c,

a sum over all non-empty sets s of groupings and over the cells c that they form, with the sum of scores :math:`S_c` of
a cell. The terms of different sets are uncorrelated, so the covariance is the sum :math:`V_a + V_b + V_{ab}` for two
groupings: no variance is negative. At another alpha it is multiplied by the factor of the grouping with fewest groups.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np
from scipy import sparse

from .linalg import gram
from .ribbon import LeastFreedom, Ribbon, clipped, degrees_of_freedom, influence, rescaling
from .rows import Groups
from .training import corrected_scores, group_scores, second_moment, single_directions


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of rows that share their groups in all of some groupings."""

    code: np.ndarray  # (n_rows,), cell of each row
    factors: np.ndarray  # (C, k), group of each cell in each grouping
    counts: tuple[int, ...]  # (k,), number of groups of each grouping with a positive weight

    @classmethod
    def from_factors(cls, factors, weight):
        """Build from the groups of rows in k groupings, (n_rows, k), and the rows' weights."""
        cells, code = _combined(factors)
        return cls(code, cells, tuple(Groups.from_codes(own, weight).n for own in factors.T))

    @property
    def variance(self):
        """Factor of squared sums over cells in a variance under product weights at alpha 1."""
        return prod(G / (G + 1) for G in self.counts)

    def sums(self, values, code=None):
        """Sums (C, q) over cells of values (n_rows, q)."""
        code = self.code if code is None else code
        return sparse.csr_array((np.ones(len(code)), (code, np.arange(len(code))))) @ values

    def centred(self, S, square):
        """Add up ``square(S)`` of sums S (C, q) that are centred over the groups of each grouping."""
        total, places = 0.0, range(len(self.counts))
        for kept in subsets(places):  # (I - jj'/G) of each grouping, multiplied out
            rest = [self.counts[f] for f in places if f not in kept]
            summed = self.sums(S, _combined(self.factors[:, kept])[1])
            total = total + (-1) ** len(rest) / prod(rest) * square(summed)
        return total

    def training(self, training):
        """Training with these groups; groups warn, but not the cells of several groupings."""
        groups = Groups.from_codes(self.code, training.rows.mass)
        rows = replace(training.rows, groups=groups, factors=None)
        return replace(training, rows=rows, scaled=training.scaled or len(self.counts) > 1)

    def root(self, own):
        """Root (p, r) of the covariance of their part of Delta theta_w at alpha 1, with their Training ``own``."""
        gradient, centre = corrected_scores(own)
        if len(self.counts) == 1:
            H_Fc = second_moment(own, gradient, centre) / (self.counts[0] + 1)
        else:
            H_Fc = self.variance / own.n**2 * self.centred(group_scores(own, gradient), gram)
        return own.H_r.sandwich_root(H_Fc)

    def drawn(self, own, weights):
        """Part of U_n(w), (p, B), at weights u_f - 1 of the groups, an array (G_f, B) for each grouping."""
        product = np.prod([drawn[code] for drawn, code in zip(weights, self.factors.T, strict=True)], axis=0)  # (C, B)
        return group_scores(own, corrected_scores(own)[0]).T @ product / own.n


def subsets(places):
    """All subsets, as lists, from the empty one on."""
    return [list(chosen) for size in range(len(places) + 1) for chosen in combinations(places, size)]


def _combined(factors):
    """Distinct combinations (C, k) of numbers (n, k), and the position of each row's combination, (n,)."""
    if not factors.shape[1]:
        return factors[:1], np.zeros(len(factors), dtype=np.intp)
    joined = np.ravel_multi_index(factors.T, factors.max(axis=0) + 1)
    _, first, code = np.unique(joined, return_index=True, return_inverse=True)
    return factors[first], code


def all_cells(factors, weight):
    """Cells of every non-empty set of groupings, single groupings first."""
    return [Cells.from_factors(factors[:, chosen], weight) for chosen in subsets(range(factors.shape[1]))[1:]]


def crossed_ribbon(training, alpha, closed_form, n_draws, seed, newton=False):
    """Distribution of theta under products of Dirichlet weights, in closed form or from draws."""
    if newton:
        raise ValueError("predictive='newton' takes one grouping, but groups cross; use 'pushforward' or 'direct'.")
    rows = training.rows
    k, factor = rows.factors.shape[1], np.sqrt(rescaling(rows.n_units, 1.0, alpha))
    cells = [(cells, cells.training(training)) for cells in all_cells(rows.factors, rows.mass)]
    single = np.hstack([single_directions(own) for _, own in cells[:k]])
    if closed_form:
        root = np.hstack([some.root(own) for some, own in cells])
        root = np.linalg.qr(root.T, mode="r").T if root.shape[1] > len(root) else root
        ribbon = Ribbon(factor * root, training.H_r.null, single, rows.n_units)
    else:
        rng, weights = np.random.default_rng(seed), []
        for code in rows.factors.T:
            counted = (np.bincount(code, weights=rows.mass) > 0)[:, None]
            gamma = rng.standard_exponential((len(counted), n_draws)) * counted
            weights.append(gamma / gamma.sum(axis=0) * counted.sum() - counted)
        chosen = subsets(range(k))[1:]
        parts = zip(cells, chosen, strict=True)
        U = factor * sum(some.drawn(own, [weights[f] for f in which]) for (some, own), which in parts)
        shifts = influence(training.H_r, U)
        shifts = clipped(training, shifts, -np.einsum("pb,pb->b", U, shifts), alpha)
        ribbon = Ribbon.from_shifts(training.H_r, shifts, rows.n_units, single, mean=0.0)
    freedom = [degrees_of_freedom(own) for _, own in cells[:k]]
    return replace(ribbon, freedom=None if None in freedom else LeastFreedom(tuple(freedom)), alpha=alpha)
