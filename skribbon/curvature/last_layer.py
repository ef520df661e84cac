"""Uncertainty of a network's last layer alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.linalg import Factor
from .._core.rows import Block, Moments, Rows
from .._utils.typing import FloatArray
from .base import Curvature
from .dense import GaussNewton, Hessian


class LastLayer(Curvature):
    """H of the last layer, dense; all layers before it are treated as known.

    Cheap for any depth, but it understates uncertainty: away from the data, only what the last hidden units still
    distinguish can vary.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neural_network import MLPRegressor
    >>> from skribbon import RibbonRegressor
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> network = MLPRegressor(hidden_layer_sizes=(2,), activation="tanh", solver="lbfgs", alpha=0.01, random_state=0)
    >>> len(RibbonRegressor(network, curvature="last_layer").fit(X, y).model_.theta)  # two weights and a bias
    3
    """

    knows_leverages = True
    reweights = True
    square_limit = np.inf

    def view(self, model: Any) -> Any:
        return model.last_layer()

    def _inner(self, model):
        return (Hessian if model.exact_is_psd else GaussNewton)(damping=self.damping)

    def of_block(self, block: Block) -> FloatArray:
        return self._inner(block.model).of_block(block)

    def of_loss(self, block: Block) -> FloatArray:
        return self._inner(block.model).of_loss(block)

    def factor(self, rows: Rows, moments: Moments) -> Factor:
        return self._inner(rows.model).factor(rows, moments)
