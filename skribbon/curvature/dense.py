"""Dense p x p curvatures."""

import numpy as np

from .._linalg import Dense
from .._moments import Sums
from ..exceptions import CurvatureError
from .base import Curvature

PEAK_SQUARES = 11  # p x p arrays that are alive at once: two sums, a block's share, H_r, its factors, the root


class DenseCurvature(Curvature):
    """A curvature that is a p x p array."""

    knows_leverages = True

    def holds_square(self, p):
        return True

    def predicted_bytes(self, p):
        return 8 * PEAK_SQUARES * p**2

    def factored(self, mean, shift):
        return Dense(mean + np.diag(shift))


class Hessian(DenseCurvature):
    """H = mean of d2l_i/dtheta2, exact. Can be indefinite away from a minimum or for a non-convex model."""

    def of_rows(self, model, Z, y, weight):
        return model.hessian(Z, y, weight)


class GaussNewton(DenseCurvature):
    """H = mean of J_i' E[d2l_i/df2] J_i, the generalised Gauss-Newton or expected Hessian. Never indefinite."""

    def of_rows(self, model, Z, y, weight):
        return model.ggn(Z, y, weight)


class EmpiricalFisher(DenseCurvature):
    """H = H_F / phi with H_F = mean of g_i g_i'. Equals the Hessian only for a correct likelihood, in large samples.

    phi = sum |dl/df|^2 / sum tr E[d2l/df2] puts a loss that is not on the scale of a log likelihood there: it is the
    residual variance for squared error, the dispersion of a GLM, and about one for a classifier.
    """

    def of_rows(self, model, Z, y, weight):
        f = model.raw(Z)
        return Sums(
            [
                model.score_moments(Z, y, weight)[2],
                weight @ (model.loss.gradient(f, y) ** 2).sum(axis=1),
                weight @ (model.loss.curvature_root(f, y) ** 2).sum(axis=(1, 2)),
            ]
        )

    def factored(self, mean, shift):
        H_F, squared_gradient, expected_curvature = mean
        if squared_gradient == 0:
            raise CurvatureError("curvature='fisher' needs scores that are not all zero; use 'ggn' or 'hessian'.")
        return super().factored(H_F * (expected_curvature / squared_gradient), shift)
