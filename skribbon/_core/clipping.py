r"""Bounds on what one row, or one draw, may do.

A row's score has the length :math:`|g_i| = \sqrt{g_i' H_r^{-1} g_i}`, its influence in the norm of H_r. Clipped at c,
no row counts for more than c times the median of these lengths; its direction stays. A draw's step is measured in the
same norm, in units of what its length would be if rows varied as their loss says,
:math:`\sqrt{\phi\, p / (n\alpha + 1)}` with p effective parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Clip:
    """How many units a score, and a step, may have at most; None for any number."""

    scores: float | None = None
    steps: float | None = None


def score_sizes(gradient, inverse_root, block):
    """|g_i| in the norm of H_r^-1, (b,), with g_i = J_i' gradient_i; and frequencies (b,)."""
    return _sizes(gradient(block), inverse_root, block), block.weight


def clipped_gradient(gradient, inverse_root, bound, block):
    """``gradient`` (b, k), shortened where a row's score is longer than the bound."""
    u = gradient(block)
    size = _sizes(u, inverse_root, block)
    return u * np.divide(bound, size, out=np.ones_like(size), where=size > bound)[:, None]


def _sizes(u, inverse_root, block):
    return np.linalg.norm(np.einsum("nkr,nk->nr", block.tangent.jvp(inverse_root), u), axis=1)


def weighted_median(values, weight):
    """The value up to which half of the weight is, of those that count."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(reached, reached[-1] / 2)]])


def clipped_shifts(shifts, size, bound):
    """Steps (p, B) of lengths (B,), none longer than the bound."""
    return shifts * np.divide(bound, size, out=np.ones_like(size), where=size > bound)
