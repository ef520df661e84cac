"""Training by gradients: L-BFGS on all rows, or Adam on minibatches."""

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from ...exceptions import warn_user


@dataclass(frozen=True)
class Trained:
    """Parameters (p,) with the story of how they were found."""

    theta: np.ndarray
    n_iter: int
    loss_curve: list = field(default_factory=list)
    validation_curve: list = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Objective:
    """sum_i w_i loss_i / total + 1/2 sum_j l2_j theta_j^2 over some rows of a traced model."""

    model: object
    Z: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def data_loss(self, theta):
        """The weighted mean loss, without the penalty."""
        f = self.model.raw(self.Z, theta)
        return float(self.weight @ self.model.loss.value(f, self.y) / self.weight.sum())

    def __call__(self, theta, total=None):
        """Value and gradient; ``total`` is the sum of the weights unless a minibatch stands for other rows too."""
        model, total = self.model, self.weight.sum() if total is None else total
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # line searches look far ahead
            f, pull = model.linearized(self.Z, theta)
            value = self.weight @ model.loss.value(f, self.y) / total + model.l2 @ theta**2 / 2
            slope = model.loss.gradient(f, self.y) * (self.weight / total)[:, None]
            return value, pull(slope) + model.l2 * theta

    def batch(self, rows):
        """The same for some of the rows."""
        return Objective(self.model, self.Z[rows], self.y[rows], self.weight[rows])


def lbfgs(objective, theta, max_iter, tol, verbose=0):
    """Minimise until no entry of the gradient exceeds ``tol``."""

    def report(intermediate_result):
        print(f"iteration: objective {intermediate_result.fun:.8g}")

    result = minimize(
        objective,
        theta,
        jac=True,
        method="L-BFGS-B",
        callback=report if verbose else None,
        options={
            "maxiter": max_iter,
            "maxfun": 10 * max_iter,
            "gtol": tol,
            "ftol": max(1e-3 * tol, 4 * np.finfo(float).eps),
        },
    )
    if not result.success:
        warn_user(
            f"solver='lbfgs' stopped after {result.nit} iterations short of a minimum ({result.message}): the largest "
            f"entry of the gradient is {np.abs(result.jac).max():.3g}. Raise max_iter, scale X, penalise with l2, or "
            "set polish=True.",
            ConvergenceWarning,
        )
    return Trained(result.x, int(result.nit))


def adam(
    objective, theta, rng, *, batch_size, learning_rate, max_iter, tol, n_iter_no_change, validation=None, verbose=0
):
    """Minibatches of shuffled rows, with the parameters of the best epoch.

    An epoch is better if it lowers the loss by more than ``tol``: the mean of its minibatches, or the loss of the
    ``validation`` rows, an Objective, if there are any. ``n_iter_no_change`` epochs without a better one end it.
    """
    n = len(objective.y)
    mean, square, step = np.zeros_like(theta), np.zeros_like(theta), 0
    beta_1, beta_2, epsilon = 0.9, 0.999, 1e-8  # decay of both running means, and what keeps their ratio finite
    best, best_theta, since = np.inf, theta, 0
    curve, validation_curve = [], []
    for epoch in range(1, max_iter + 1):
        order, values = rng.permutation(n), []
        for start in range(0, n, batch_size):
            rows = order[start : start + batch_size]
            value, g = objective.batch(rows)(theta, total=objective.weight.sum() * len(rows) / n)
            step, values = step + 1, [*values, value * len(rows)]
            mean = beta_1 * mean + (1 - beta_1) * g
            square = beta_2 * square + (1 - beta_2) * g**2
            scale = np.sqrt(square / (1 - beta_2**step)) + epsilon
            theta = theta - learning_rate * mean / (1 - beta_1**step) / scale
        curve.append(float(np.sum(values) / n))
        _check_finite(curve[-1], epoch)
        if validation is not None:
            validation_curve.append(validation.data_loss(theta))
        current = curve[-1] if validation is None else validation_curve[-1]
        since = 0 if current < best - tol else since + 1
        if current < best:
            best, best_theta = current, theta
        if verbose:
            print(f"epoch {epoch}: loss {curve[-1]:.6g}" + (f", validation {current:.6g}" if validation_curve else ""))
        if since >= n_iter_no_change:
            break
    else:
        warn_user(
            f"solver='adam' stopped after max_iter={max_iter} epochs while the loss still fell. Raise max_iter.",
            ConvergenceWarning,
        )
    return Trained(best_theta, epoch, curve, validation_curve)


def _check_finite(value, epoch):
    if not np.isfinite(value):
        raise ValueError(
            f"The loss became {value} in epoch {epoch} of solver='adam'. Lower learning_rate, or scale X and y."
        )
