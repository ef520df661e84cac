"""Dense p x p curvatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.linalg import Dense, Factor
from .._core.rows import Block, Sums
from .._utils.typing import FloatArray
from ..exceptions import CurvatureError
from .base import Curvature


class DenseCurvature(Curvature):
    """A curvature that is a p x p array."""

    knows_leverages = True
    factors_again = True
    square_limit = np.inf
    peak_squares = (
        7  # two sums, H_r, its inverse root, the scores' covariance that becomes the root, and what that takes
    )

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        return Dense(mean, shift)


class Hessian(DenseCurvature):
    r"""The exact Hessian of the mean loss; indefinite away from a minimum, or for a non-convex model.

    .. math:: H = \frac1n \sum_i \nabla^2_\theta \ell(z_i, \hat\theta)

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skribbon import RibbonClassifier
    >>> from skribbon.curvature import Hessian
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000)
    >>> RibbonClassifier(model, curvature=Hessian()).fit(X[:, :2], y).predict_proba(X[:1, :2]).round(2)
    array([[0.79, 0.21]])
    """

    reweights = True

    def of_block(self, block: Block) -> FloatArray:
        _require_hessian(block.model)
        return block.hessian()

    def with_scatter(self, block: Block) -> tuple[Any, Any]:
        _require_hessian(block.model)
        hessian, scatter = block.packed_hessian_and_scatter()
        return hessian, scatter

    def of_loss(self, block: Block) -> FloatArray:
        return block.C


class GaussNewton(DenseCurvature):
    r"""The generalised Gauss-Newton matrix, or expected Hessian; never indefinite.

    .. math:: H = \frac1n \sum_i J_i' \,\mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right] J_i

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.curvature import GaussNewton
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1), curvature=GaussNewton(damping=1e-4)).fit(X, y)
    >>> round(ribbon.effective_parameters_, 1)
    8.2
    """

    reweights = True

    def of_block(self, block: Block) -> Any:
        return block.packed_grams(block.R)[0]

    def with_scatter(self, block: Block) -> tuple[Any, Any]:
        ggn, scatter = block.packed_grams(block.R, block.u)
        return ggn, scatter


class EmpiricalFisher(DenseCurvature):
    r"""The empirical Fisher matrix; equals the Hessian only for a correct likelihood, in large samples.

    .. math:: H = H_F / \phi, \qquad H_F = \frac1n \sum_i g_i g_i', \qquad
              \phi = \sum_i \left|\frac{\partial \ell_i}{\partial f}\right|^2 \Big/
              \sum_i \mathrm{tr}\, \mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right]

    Phi puts a loss that is not on the scale of a log likelihood there: it is the residual variance for squared error,
    the dispersion of a GLM, and about one for a classifier.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.curvature import EmpiricalFisher
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1), curvature=EmpiricalFisher()).fit(X, y)
    >>> round(ribbon.effective_parameters_, 1)
    8.5
    """

    sees_targets = True

    def of_block(self, block: Block) -> Sums:
        return self._sums(block, block.packed_grams(block.u)[0])

    def with_scatter(self, block: Block) -> tuple[Any, Any]:
        scatter = block.packed_grams(block.u)[0]
        return self._sums(block, scatter), scatter

    @staticmethod
    def _sums(block, scatter):
        return Sums([scatter, block.weight @ (block.u**2).sum(axis=1), block.weight @ block.expected])

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        H_F, squared_gradient, expected_curvature = mean
        if squared_gradient == 0:
            raise CurvatureError("curvature='fisher' needs scores that are not all zero; use 'ggn' or 'hessian'.")
        return super().factored(H_F * (expected_curvature / squared_gradient), shift)


def _require_hessian(model):
    if not model.has_hessian:
        raise TypeError(f"{type(model).__name__} has no exact Hessian; use curvature='ggn' or 'fisher'.")
