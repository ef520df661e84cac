"""Compare linear and Newton steps with exact refits at the same Dirichlet weights."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from .._core import ribbon as core
from .._core.refits import minimise
from .._core.rows import Moments
from .._core.thresholds import LINEARIZATION_ERROR

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LinearizationReport:
    """Linearized and refitted models at a few draws of the weights.

    Attributes
    ----------
    verdict : {"linear", "newton", "neither"}
        The step that moves predictions as the refits do, to a median relative error of at most 0.3.
    alpha : float
    weights : ndarray of shape (n_samples, n_refits)
        Drawn weights; each column sums to the number of observations, with groups on average.
    shifts : ndarray of shape (p, n_refits)
        Delta theta by one linear step.
    refitted_shifts : ndarray of shape (p, n_refits)
        Delta theta by minimising the weighted objective, from the fitted parameters on.
    predictions : ndarray of shape (n_rows, k, n_refits)
        Moves of the raw prediction at (some of) the training rows, along the tangent.
    refitted_predictions : ndarray of shape (n_rows, k, n_refits)
        Moves of the raw prediction of the refitted model.
    converged : ndarray of shape (n_refits,)
        Whether each refit reached its minimum.
    newton_shifts : ndarray of shape (p, n_refits) or None
        Delta theta by a Newton step with the reweighted curvature; None if the curvature ignores weights.
    newton_predictions : ndarray of shape (n_rows, k, n_refits) or None
        Moves of the raw prediction after the Newton step.
    """

    alpha: float
    weights: np.ndarray
    shifts: np.ndarray
    refitted_shifts: np.ndarray
    predictions: np.ndarray
    refitted_predictions: np.ndarray
    converged: np.ndarray
    newton_shifts: np.ndarray | None = None
    newton_predictions: np.ndarray | None = None

    def to_frame(self) -> pd.DataFrame:
        """Tabulate the comparison, one row per refit.

        Returns
        -------
        DataFrame
            Errors of parameters and predictions relative to the refit's move, ratio of the sizes of the moves (above
            one: the step is larger), correlation of the moved predictions; columns of the Newton step begin with
            "newton"; convergence.
        """
        import pandas as pd

        columns = self._compared(self.shifts, self.predictions)
        if self.newton_shifts is not None:
            newton = self._compared(self.newton_shifts, self.newton_predictions)
            columns |= {f"newton_{name}": values for name, values in newton.items()}
        columns["converged"] = self.converged
        return pd.DataFrame(columns, index=pd.RangeIndex(1, len(self.converged) + 1, name="refit"))

    @property
    def verdict(self) -> Literal["linear", "newton", "neither"]:
        """Step that moves predictions as refits do, to a median relative error of 0.3: "linear" if both do."""
        errors = self.to_frame().filter(like="prediction_error").median() <= LINEARIZATION_ERROR
        return "linear" if errors.iloc[0] else "newton" if errors.any() else "neither"

    def _compared(self, shifts, predictions):
        """Columns that compare steps, and moves of predictions, with the refits."""
        shape = (-1, len(self.converged))
        moved, exact = predictions.reshape(shape), self.refitted_predictions.reshape(shape)
        size, exact_size = np.linalg.norm(moved, axis=0), np.linalg.norm(exact, axis=0)
        product = np.maximum(size * exact_size, np.finfo(float).tiny)
        return {
            "parameter_error": _relative(shifts - self.refitted_shifts, self.refitted_shifts),
            "prediction_error": _relative(moved - exact, exact),
            "size_ratio": np.divide(size, exact_size, out=np.ones_like(size), where=exact_size > 0),
            "correlation": np.einsum("nb,nb->b", moved, exact) / product,
        }

    def __repr__(self):
        table = self.to_frame()
        median = table.drop(columns="converged").median()
        newton = ""
        if self.newton_shifts is not None:
            newton = (
                f"; a Newton step with the reweighted curvature moves them by {median['newton_size_ratio']:.2f} times, "
                f"with a relative error of {median['newton_prediction_error']:.2g}"
            )
        return (
            f"LinearizationReport(alpha={self.alpha:g}, {len(table)} refits, {int(self.converged.sum())} converged): "
            f"predictions move by {median['size_ratio']:.2f} times what the refits move, with a correlation of "
            f"{median['correlation']:.3f} and a relative error of {median['prediction_error']:.2f}; parameters "
            f"{median['parameter_error']:.2f}{newton} (medians); good step: {self.verdict}"
        )


def compare_with_refits(rows, curvature, alpha, n_refits, rng, verbose=0):
    """LinearizationReport of linear steps and refits at the same drawn Dirichlet weights."""
    model, n = rows.model, rows.n
    weights = _drawn_weights(rows, alpha, n_refits, rng)
    moments = Moments.from_rows(rows, curvature)
    reweighted = np.stack(
        [replace(rows, weight=w).sum(lambda block: block.score_sum(block.u)) / n for w in weights.T], axis=1
    )
    H_r, U = curvature.factor(rows, moments), reweighted - moments.g_bar[:, None]
    shifts, refitted, converged, newton = core.influence(H_r, U), [], [], ()
    for b in range(n_refits):
        start = time.perf_counter()
        theta, report = minimise(_reweighted(rows, weights[:, b]))
        refitted.append(theta - model.theta)
        converged.append(report.converged)
        if verbose:
            seconds = time.perf_counter() - start
            print(f"[linearization] refit {b + 1} of {n_refits}: {report.n_iter} steps, {seconds:.2f} s")
    refitted = np.stack(refitted, axis=1)
    Z = model.rows(rows.X[rng.permutation(len(rows.y))[:2000]])  # enough rows to compare predictions
    f = model.raw(Z)[:, :, None]
    moves = core.pushforward(model, Z, shifts) - f, core.direct(model, Z, refitted) - f
    if curvature.reweights:
        newton_shifts = _newton_steps(rows, curvature, H_r, weights, U)
        newton = model.uncentred(newton_shifts), core.direct(model, Z, newton_shifts) - f
    steps = model.uncentred(shifts), model.uncentred(refitted)
    return LinearizationReport(alpha, weights, *steps, *moves, np.array(converged), *newton)


def _newton_steps(rows, curvature, H_r, weights, U):
    """Newton steps (p, n_refits) at each draw of the weights, as with predictive="newton"."""
    model, steps = rows.model, []
    for weight, score in zip(weights.T, U.T[:, :, None], strict=True):
        drawn = replace(rows, weight=weight)
        H = drawn.sum(curvature.of_block) / rows.n
        penalised = H + np.diag(curvature.shift(model))
        H_w = core.ReweightedCurvature.from_draws(H_r.inverse_root, penalised[None], core.min_curvature(model))
        step = H_w.shifts(score)
        if not core.is_quadratic(model):
            moved = drawn.sum(partial(core.gradient_change, shift=step[:, 0])) / rows.n
            step = H_w.second_order(score, moved[:, None] - H @ step)
        steps.append(step)
    return np.concatenate(steps, axis=1)


def _drawn_weights(rows, alpha, n_draws, rng):
    """Dirichlet weights (n_rows, n_draws) of rows or groups, with the rows' frequencies as their mean."""
    if rows.groups is None:
        gamma = rng.standard_gamma((alpha * rows.weight)[:, None], size=(len(rows.y), n_draws))
        return gamma * (rows.n / gamma.sum(axis=0))
    weight = np.broadcast_to(rows.weight[:, None], (rows.n_rows, n_draws))
    for code in rows.groups.code[None] if rows.factors is None else rows.factors.T:
        counted = np.bincount(code, weights=rows.weight) > 0
        gamma = rng.standard_gamma(alpha, size=(len(counted), n_draws)) * counted[:, None]
        weight = weight * (gamma * (counted.sum() / gamma.sum(axis=0)))[code]
    return weight


def _reweighted(rows, weight):
    """Rows with other weights, and a penalty that keeps its size relative to n if the weights do not sum to n."""
    model, c = rows.model, rows.n / weight.sum()
    model = replace(model, l2=c * model.l2, penalty_gradient=c * model.penalty_gradient)
    return replace(rows, model=model, weight=weight)


def _relative(error, reference):
    """Norms of the columns of an error relative to a reference, (n_refits,)."""
    size, scale = np.linalg.norm(error, axis=0), np.linalg.norm(reference, axis=0)
    return np.divide(size, scale, out=np.zeros_like(size), where=scale > 0)
