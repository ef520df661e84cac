"""Refit a model exactly: damped Gauss-Newton and Newton steps to the minimum of its training objective."""

from dataclasses import dataclass
from operator import methodcaller

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .rows import Rows, Sums

MAX_PARAMETERS = 5000  # largest model: every step factors a p x p array, 200 MB


@dataclass(frozen=True)
class Report:
    """Result of a minimization; gradients are norms in units of the standard error of the mean score."""

    n_iter: int
    gradient_before: float
    gradient_after: float
    converged: bool


@dataclass(frozen=True, eq=False)
class _Point:
    """Training objective at one theta: value, gradient and curvature, from one pass over the rows."""

    rows: Rows
    value: float
    gradient: np.ndarray  # (p,)
    curvature: np.ndarray  # (p, p), with the penalty: exact if it cannot be indefinite, else Gauss-Newton
    distance: float  # from stationarity, in standard errors
    floor: float  # distance that rounding alone can make

    @property
    def theta(self):
        return self.rows.model.theta

    def hessian(self):
        """Exact second derivative of the objective, (p, p)."""
        if self.rows.model.exact_is_psd:
            return self.curvature
        return self.rows.sum(methodcaller("hessian")) / self.rows.n + np.diag(self.rows.model.l2)


def minimise(rows, max_iter=200, tol=1e-8, verbose=0):
    r"""Move a model's parameters to the minimum of its own training objective; returns theta and a Report.

    The objective is :math:`\sum_i w_i \ell_i / \sum_i w_i` plus the penalty of the model. Steps solve
    :math:`(C + \lambda D) s = -g`, with C the Gauss-Newton matrix, or the exact Hessian once Gauss-Newton is slow, and
    D the diagonal of Gauss-Newton; only steps that lower the objective are taken. The search has converged if the
    gradient is ``tol`` standard errors of the mean score, or rounding.
    """
    p = len(rows.model.theta)
    if p > MAX_PARAMETERS:
        raise ValueError(
            f"The model has {p} parameters; exact minimization factors p x p matrices and is meant for at most "
            f"{MAX_PARAMETERS}. Train longer with solver='lbfgs' and a smaller tol instead."
        )
    point = start = _evaluate(rows)
    quadratic = rows.model.is_linear and rows.model.loss.quadratic and point.distance > max(tol, point.floor)
    if quadratic and (theta := _solution(point)) is not None:
        return theta, Report(1, start.distance, start.floor, True)
    newton, damping, n_iter = rows.model.exact_is_psd, 1e-4, 0
    while n_iter < max_iter and point.distance > max(tol, point.floor):
        step = _step(point, damping, newton)
        if step is None and not newton:
            newton, damping = rows.model.has_hessian, 1e-4
            step = _step(point, damping, newton) if newton else None
        if step is None:
            break
        n_iter, (new, damping) = n_iter + 1, step
        newton = newton or (new.distance > 0.3 * point.distance and damping < 1e-2 and rows.model.has_hessian)
        point = new
        if verbose:
            print(
                f"step {n_iter}: objective {point.value:.10g}, gradient {point.distance:.3g} standard errors, "
                f"damping {damping:.1g}, {'Newton' if newton else 'Gauss-Newton'}"
            )
    return point.theta, Report(n_iter, start.distance, point.distance, bool(point.distance <= max(tol, point.floor)))


def _solution(point):
    """Minimum of a quadratic objective, by one step; None if it is too ill-conditioned for a single solve."""
    root = np.sqrt(np.diag(point.curvature))
    if not (root > 0).all():
        return None
    values, vectors = np.linalg.eigh(point.curvature / root[:, None] / root)
    if values[0] <= 1e-7 * values[-1]:
        return None
    return point.theta - vectors @ ((vectors.T @ (point.gradient / root)) / values) / root


def _step(point, damping, newton):
    """Next point and the damping after it; None if no damping finds a lower objective."""
    C = point.hessian() if newton else point.curvature
    solve, tried = _DampedSolver(C, np.diag(point.curvature)), damping
    for _ in range(30):  # each damping is ten times the one before
        step = solve(-point.gradient, tried)
        new = _try(point, step)
        if new is not None:
            predicted = -(point.gradient @ step) - step @ C @ step / 2
            gain = (point.value - new.value) / predicted if predicted > _rounding(point) else 1.0
            return new, tried * (0.05 if gain > 0.75 else 1.0 if gain > 0.25 else 4.0)
        tried = max(10 * tried, 1e-8)
    return None


class _DampedSolver:
    """(C + damping D)^-1 b; an indefinite C enters with absolute eigenvalues, so that steps lead away from a saddle."""

    def __init__(self, C, diagonal):
        self.root = np.sqrt(np.maximum(diagonal, 1e-12 * diagonal.max(initial=1e-300)))
        self.C = C / self.root[:, None] / self.root
        self.eigen = None

    def __call__(self, b, damping):
        b = b / self.root
        try:
            if self.eigen is None:
                factor = cho_factor(self.C + damping * np.eye(len(b)), lower=True, check_finite=False)
                return cho_solve(factor, b, check_finite=False) / self.root
        except np.linalg.LinAlgError:
            self.eigen = np.linalg.eigh(self.C)
        values, vectors = self.eigen
        return vectors @ ((vectors.T @ b) / (np.abs(values) + max(damping, 1e-10))) / self.root


def _try(old, step):
    """Point after a step, if its objective is lower or, within rounding, its gradient; else None."""
    rows = old.rows.at(old.rows.model.at(old.theta + step))
    new = _evaluate(rows)
    if not new.value <= old.value + _rounding(old):
        return None
    better = new.value < old.value - _rounding(old) or new.distance < old.distance
    return new if better and np.isfinite(new.distance) else None


def _rounding(point):
    """Rounding error of the objective, a mean over rows."""
    return 1e-13 * max(1e-300, abs(point.value))


def _second_order(block):
    """Sums over the block of the loss, of the scores and their squares, and of the curvature."""
    curvature = block.hessian() if block.model.exact_is_psd else block.ggn()
    loss = block.mass @ block.model.loss.value(block.f, block.y)
    return Sums([loss, block.score_sum(block.u), block.score_squares(block.u), curvature])


def _evaluate(rows):
    model = rows.model
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too far is seen by its value
        loss, g_bar, g2_bar, curvature = rows.sum(_second_order) / rows.n
    gradient = g_bar + model.penalty_gradient
    curvature = curvature + np.diag(model.l2)
    distance, floor = _distance(gradient, g_bar, g2_bar, np.diag(curvature), rows)
    # up to a constant: the penalty's gradient is affine in theta, with slope l2
    penalty = model.theta @ (model.penalty_gradient - model.l2 * model.theta / 2)
    return _Point(rows, loss + penalty, gradient, curvature, distance, floor)


def _distance(gradient, g_bar, g2_bar, curvature, rows):
    """Norm of the gradient in standard errors of the mean score, and the norm that rounding alone can make."""
    scale = 1 / np.sqrt(np.where(curvature > 0, curvature, np.inf))
    standard_error = np.linalg.norm(scale * np.sqrt(np.maximum(g2_bar - g_bar**2, 0) / rows.n))
    terms = np.linalg.norm(scale * (np.sqrt(g2_bar) + np.abs(gradient - g_bar)))
    rounding = 1e-14 * (terms + np.abs(rows.targets()).max())  # of a sum, and of the residuals of a perfect fit
    norm = np.linalg.norm(scale * gradient)
    unit = standard_error if standard_error > rounding else max(rounding, 1e-300)
    return float(norm / unit), float(rounding / unit)
