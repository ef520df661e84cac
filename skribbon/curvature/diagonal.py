"""The diagonal of Gauss-Newton."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .._core.linalg import Factor, flat_directions, probes
from .._core.rows import Block
from .._utils.typing import FloatArray
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
    r"""The diagonal of the generalised Gauss-Newton matrix: p numbers, and no correlation between parameters.

    .. math:: H = \mathrm{diag}\left(\frac1n \sum_i J_i' \,
              \mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right] J_i\right)

    The cheapest curvature, and a poor one for correlated features: standard errors of predictions can be off by a
    large factor either way.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.curvature import Diagonal
    >>> X, y = load_diabetes(return_X_y=True)
    >>> exact = RibbonRegressor(Ridge(alpha=0.1)).fit(X, y)
    >>> rough = RibbonRegressor(Ridge(alpha=0.1), curvature=Diagonal()).fit(X, y)
    >>> ratio = rough.predict_std(X, kind="epistemic") / exact.predict_std(X, kind="epistemic")
    >>> print(ratio.mean().round(1))
    1.4
    """

    factors_again = True

    def of_block(self, block: Block) -> FloatArray:
        return block.ggn_diagonal()

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        return DiagonalFactor(mean + shift)
