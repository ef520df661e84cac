"""Huber regression with its scale among the parameters."""

from copy import copy
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import HuberRegressor

from .base import ParametricModel, Tangent, as_parametric
from .linear import linear_model, with_coefficients
from .losses import HuberWithScale, Tweedie
from .newton import with_theta


@dataclass(frozen=True, kw_only=True, eq=False)
class LocationScale(ParametricModel):
    """f = (x~' beta, s): a linear location and one common scale, theta = (beta, s)."""

    intercept: bool = True

    @property
    def exact_is_psd(self):
        return True

    def rows(self, X):
        X = super().rows(X)
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def raw(self, Z, theta=None):
        theta = self.theta if theta is None else theta
        return np.column_stack([Z @ theta[:-1], np.full(len(Z), theta[-1])])

    @property
    def has_hessian(self):
        return True

    def tangent(self, Z):
        J = np.zeros((len(Z), 2, Z.shape[1] + 1))
        J[:, 0, :-1] = Z
        J[:, 1, -1] = 1.0
        return LocationScaleTangent(self.raw(Z), J)


class LocationScaleTangent(Tangent):
    """f is linear in the parameters, so that only the loss has a curvature."""

    def hessian(self, C, u):
        J = self.jacobian()
        return np.einsum("nkp,nkl,nlq->pq", J, C, J, optimize=True)


ROUNDING = 1e-8  # of the size of the targets: a scale below is nothing
COLLAPSED = 1e-6  # of their range: a scale below is what the solver left of one that went to zero
LARGER_EPSILON = (
    "HuberRegressor's scale has collapsed to zero, where it minimises absolute deviations, which have a kink: use a "
    "larger epsilon, such as 1.35."
)


@as_parametric.register(HuberRegressor)
def _(estimator, y, sample_weight):
    if estimator.scale_ <= max(
        ROUNDING * np.abs(y).max(), COLLAPSED * np.ptp(y)
    ):  # a perfect fit, at which all losses are alike, or epsilon = 1
        return linear_model(estimator, Tweedie(), 2 * estimator.alpha / sample_weight.sum(), cure=LARGER_EPSILON)
    intercept = [estimator.intercept_] if estimator.fit_intercept else []
    theta = np.concatenate([estimator.coef_, intercept, [estimator.scale_]]).astype(float)
    l2 = np.zeros_like(theta)
    l2[: len(estimator.coef_)] = 2 * estimator.alpha / sample_weight.sum()  # alpha ||coef||^2 against the sum
    return LocationScale(
        theta=theta, loss=HuberWithScale(estimator.epsilon), l2=l2, intercept=bool(estimator.fit_intercept)
    )


@with_theta.register(HuberRegressor)
def _(estimator, model, theta):
    if not isinstance(model, LocationScale):
        return with_coefficients(estimator, model, theta)
    estimator = copy(estimator)
    d = len(estimator.coef_)
    estimator.coef_, estimator.scale_ = theta[:d].copy(), float(theta[-1])
    if model.intercept:
        estimator.intercept_ = float(theta[d])
    return estimator
