"""The diagonal of Gauss-Newton."""

from functools import cached_property

import numpy as np

from .._linalg import Factor, flat_directions, probes
from .base import Curvature


class DiagonalFactor(Factor):
    """diag(d), d >= 0; coordinates with d = 0 are held fixed."""

    def __init__(self, diagonal):
        self.diagonal = diagonal
        kept = diagonal > 0
        self.inverse_diagonal = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=kept)
        self.rank, self.null = int(kept.sum()), flat_directions(~kept)

    def solve(self, B):
        return (self.inverse_diagonal * B.T).T

    @cached_property
    def inverse_root(self):
        return np.sqrt(self.inverse_diagonal)[:, None] * probes(len(self.diagonal))

    def to_dense(self):
        return np.diag(self.diagonal)


class Diagonal(Curvature):
    """H = the diagonal of the generalised Gauss-Newton matrix: p numbers, and no correlation between parameters.

    The cheapest curvature, and a poor one for correlated features: standard errors of predictions can be off by a
    large factor either way.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
    """

    def of_rows(self, model, Z, y, weight):
        return model.ggn_diagonal(Z, y, weight)

    def factored(self, mean, shift):
        return DiagonalFactor(mean + shift)
