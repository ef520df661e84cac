"""Refit a model exactly: damped Gauss-Newton and Newton steps to the minimum of its training objective."""

from __future__ import annotations

from dataclasses import dataclass
from operator import methodcaller

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .rows import Rows, Sums

MAX_PARAMETERS = 5000  # p x p arrays are formed and factored at every step
SLOW = 0.3  # Gauss-Newton shrinks the gradient by less than this where the curvature of f itself matters
DAMPINGS = 30  # how often one step's damping may grow before the search ends
ROUNDING = 1e-13  # relative size of what rounding leaves of a mean over rows
WELL_CONDITIONED = 1e-7  # ratio of eigenvalues from which a single solve is as good as more of them
NEGLIGIBLE = 1e-4  # standard errors of gradient that no interval can tell from zero


@dataclass(frozen=True)
class Report:
    """How a minimisation went; gradients are in units of the standard error of the mean score.

    Attributes
    ----------
    n_iter : int
        Steps that were taken.
    gradient_before, gradient_after : float
        Norm of the objective's gradient, each coordinate scaled by its curvature.
    converged : bool
    """

    n_iter: int
    gradient_before: float
    gradient_after: float
    converged: bool


@dataclass(frozen=True, eq=False)
class _Point:
    """The objective at one theta: its value, gradient and curvature, all from one pass over the rows."""

    rows: Rows
    value: float
    gradient: np.ndarray  # (p,)
    curvature: np.ndarray  # (p, p), exact where that cannot be indefinite, else Gauss-Newton; penalty included
    distance: float  # from stationarity, in standard errors
    floor: float  # the distance that rounding alone can make

    @property
    def theta(self):
        return self.rows.model.theta

    def hessian(self):
        """Exact second derivative of the objective, (p, p)."""
        if self.rows.model.exact_is_psd:
            return self.curvature
        return self.rows.sum(methodcaller("hessian")) / self.rows.n + np.diag(self.rows.model.l2)


def minimise(rows, max_iter=200, tol=1e-8, verbose=0):
    r"""Move a model's parameters to the minimum of its own training objective.

    The objective is :math:`\sum_i w_i \ell_i / \sum_i w_i` plus the penalty of the model. Steps solve
    :math:`(C + \lambda D) s = -g`, with C the Gauss-Newton matrix, or the exact Hessian once Gauss-Newton is slow, and
    D the diagonal of Gauss-Newton; only steps that lower the objective are taken.

    Parameters
    ----------
    rows : Rows
        The model, where to start from, and the rows with their weights.
    max_iter : int, default=200
    tol : float, default=1e-8
        Converged when the gradient is this many standard errors of the mean score, or rounding.
    verbose : int, default=0
        Print a line per step if positive.

    Returns
    -------
    theta : ndarray of shape (p,)
    report : Report

    Examples
    --------
    >>> from skribbon._core.refits import minimise
    >>> from skribbon._core.rows import Rows
    >>> from skribbon.models import as_parametric
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0, 3.0])
    >>> model = as_parametric(LinearRegression().fit(X, y), y, np.ones(4))
    >>> theta, report = minimise(Rows(model, X, y, np.array([2.0, 1.0, 1.0, 2.0])))
    >>> theta, report.converged
    (array([ 0.947..., -0.0877...]), True)
    """
    p = len(rows.model.theta)
    if p > MAX_PARAMETERS:
        raise ValueError(
            f"The model has {p} parameters; exact minimisation factors p x p matrices and is meant for at most "
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
        newton = newton or (new.distance > SLOW * point.distance and damping < 1e-2 and rows.model.has_hessian)
        point = new
        if verbose:
            print(
                f"step {n_iter}: objective {point.value:.10g}, gradient {point.distance:.3g} standard errors, "
                f"damping {damping:.1g}, {'Newton' if newton else 'Gauss-Newton'}"
            )
    report = Report(n_iter, start.distance, point.distance, bool(point.distance <= max(tol, point.floor)))
    return point.theta, report


def _solution(point):
    """The minimum of a quadratic objective, by one step; None where it is too ill-conditioned for that."""
    root = np.sqrt(np.diag(point.curvature))
    if not (root > 0).all():
        return None
    values, vectors = np.linalg.eigh(point.curvature / root[:, None] / root)
    if values[0] <= WELL_CONDITIONED * values[-1]:
        return None
    return point.theta - vectors @ ((vectors.T @ (point.gradient / root)) / values) / root


def _step(point, damping, newton):
    """The next point and the damping after it, or None where no damping finds a lower objective."""
    C = point.hessian() if newton else point.curvature
    solve, tried = _DampedSolver(C, np.diag(point.curvature)), damping
    for _ in range(DAMPINGS):
        step = solve(-point.gradient, tried)
        new = _try(point, step)
        if new is not None:
            predicted = -(point.gradient @ step) - step @ C @ step / 2
            gain = (point.value - new.value) / predicted if predicted > _noise(point) else 1.0
            return new, tried * (0.05 if gain > 0.75 else 1.0 if gain > 0.25 else 4.0)
        tried = max(10 * tried, 1e-8)
    return None


class _DampedSolver:
    """(C + damping D)^-1 b; an indefinite C enters with the absolute values of its eigenvalues.

    That turns steps towards a saddle into steps away from it, and leaves the well determined directions undamped.
    """

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
    """The point after a step if its objective is lower or, where rounding hides the difference, its gradient is."""
    rows = old.rows.at(old.rows.model.at(old.theta + step))
    convex = rows.model.exact_is_psd  # hardly a step fails there: all is asked in one pass
    if not convex and not _value(rows) <= old.value + _noise(old):
        return None
    new = _evaluate(rows)
    if not new.value <= old.value + _noise(old):
        return None
    better = new.value < old.value - _noise(old) or new.distance < old.distance
    return new if better and np.isfinite(new.distance) else None


def _noise(point):
    return ROUNDING * max(1e-300, abs(point.value))


def _value(rows):
    """The objective, up to a constant."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too far is seen by its value
        return rows.sum(_summed_loss) / rows.n + _penalty(rows.model)


def _summed_loss(block):
    return block.weight @ block.model.loss.value(block.f, block.y)


def _second_order(block):
    """Sums over the block of the loss, of the scores and their squares, and of the curvature."""
    curvature = block.hessian() if block.model.exact_is_psd else block.ggn()
    return Sums([_summed_loss(block), block.score_sum(block.u), block.score_squares(block.u), curvature])


def _evaluate(rows):
    model = rows.model
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too far is seen by its value
        loss, g_bar, g2_bar, curvature = rows.sum(_second_order) / rows.n
    gradient = g_bar + model.grad_penalty()
    curvature = curvature + np.diag(model.l2)
    distance, floor = _distance(gradient, g_bar, g2_bar, np.diag(curvature), rows)
    return _Point(rows, loss + _penalty(model), gradient, curvature, distance, floor)


def _penalty(model):
    """The penalty up to a constant: its gradient is affine in theta, with slope l2."""
    return model.theta @ (model.grad_penalty() - model.l2 * model.theta / 2)


def _distance(gradient, g_bar, g2_bar, curvature, rows):
    """Norm of the gradient in units of the mean score's standard error, and what rounding makes of zero."""
    scale = 1 / np.sqrt(np.where(curvature > 0, curvature, np.inf))
    standard_error = np.linalg.norm(scale * np.sqrt(np.maximum(g2_bar - g_bar**2, 0) / rows.n))
    terms = np.linalg.norm(scale * (np.sqrt(g2_bar) + np.abs(gradient - g_bar)))
    rounding = 1e-14 * (terms + np.abs(rows.targets()).max())  # of a sum, and of the residuals of a perfect fit
    norm = np.linalg.norm(scale * gradient)
    unit = standard_error if standard_error > rounding else max(rounding, 1e-300)
    return float(norm / unit), float(rounding / unit)
