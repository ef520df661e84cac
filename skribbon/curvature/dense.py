"""Dense p x p curvatures, of all parameters or of a network's last layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.linalg import Dense, Factor
from .._core.rows import Block, Moments, Rows, Sums
from .._utils.typing import FloatArray
from ..exceptions import CurvatureError
from .base import Curvature


class DenseCurvature(Curvature):
    """A curvature that is a p x p array."""

    knows_leverages = True
    factors_again = True
    square_limit = np.inf
    peak_squares = 9  # two sums, H_r, its factor and inverse root, H_Fc, and three arrays that its root takes

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
    >>> from skribbon.curvature import GaussNewton
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1), curvature=GaussNewton(damping=1e-4)).fit(X, y)
    >>> round(ribbon.effective_parameters_, 1)
    8.2
    """

    reweights = True

    def of_block(self, block: Block) -> FloatArray:
        return block.ggn()


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
    >>> from skribbon.curvature import EmpiricalFisher
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1), curvature=EmpiricalFisher()).fit(X, y)
    >>> round(ribbon.effective_parameters_, 1)
    8.5
    """

    def of_block(self, block: Block) -> Sums:
        squared, expected, H_F = block.u**2, (block.R**2).sum(axis=2), block.score_scatter(block.u)
        m = block.model.n_outputs if block.model.outputs_are_separate else 1
        if m > 1:  # each output has a matrix of its own
            H_F = H_F * np.kron(np.eye(m), np.ones((len(H_F) // m,) * 2))
        return Sums([H_F, *((block.weight @ values).reshape(m, -1).sum(axis=1) for values in (squared, expected))])

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        H_F, squared_gradient, expected_curvature = mean
        if not squared_gradient.all():
            raise CurvatureError("curvature='fisher' needs scores that are not all zero; use 'ggn' or 'hessian'.")
        scale = np.repeat(expected_curvature / squared_gradient, len(H_F) // len(squared_gradient))
        return super().factored(scale * H_F, shift)


def _require_hessian(model):
    if not model.has_hessian:
        raise TypeError(f"{type(model).__name__} has no exact Hessian; use curvature='ggn' or 'fisher'.")


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
