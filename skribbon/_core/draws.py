"""Draws of theta under Dirichlet weights: linear steps, or Newton steps with the curvature that the weights make."""

from __future__ import annotations

import numpy as np

from ..exceptions import NewtonStepWarning, warn_user
from .ribbon import (
    DirichletSums,
    DrawnChange,
    DrawnCurvature,
    ReweightedCurvature,
    dirichlet_scores,
    dirichlet_variance,
    influence,
)
from .units import shortened

MIN_CURVATURE = 0.05  # share of H_r that a Newton draw keeps in any direction: bounds its step by 20 linear ones
MIN_QUADRATIC_CURVATURE = 1e-9  # the same for a quadratic loss, whose step is a refit: excludes rounding error only
MANY_FLAT = 0.05  # share of draws with raised curvature above which fit warns


def linear_shifts(training, alpha, n_draws, seed):
    """Steps (p, B) by H_r, one for each draw of the weights."""
    sums = training.rows.sum(DirichletSums(alpha, n_draws, seed, training.scores[0]), training.hat_width(n_draws))
    U = dirichlet_scores(sums, alpha, training.n / training.rows.units)
    shifts = influence(training.H_r, U)
    return _clipped(training, shifts, -np.einsum("pb,pb->b", U, shifts), alpha)


def newton_shifts(training, alpha, n_draws, seed):
    """Steps (p, B) by the curvature that the drawn weights make; warns if they leave too little of it."""
    model, width = training.rows.model, training.hat_width(n_draws)
    drawn = DirichletSums(alpha, n_draws, seed, training.scores[0])
    sums, rows_per_unit = training.rows.sum(drawn, width), training.n / training.rows.units
    U, total = dirichlet_scores(sums, alpha, rows_per_unit), sums[-1, :-1] * rows_per_unit
    H = training.rows.sum(DrawnCurvature(drawn, training.curvature), width) / total[:, None, None]
    H_w = ReweightedCurvature.from_draws(training.H_r.inverse_root, H + np.diag(training.shift), min_curvature(model))
    shifts = H_w.shifts(U)
    if not is_quadratic(model):
        with np.errstate(all="ignore"):  # an inverse link may overflow after a long step
            change = training.rows.sum(DrawnChange(drawn, shifts), width) / total  # the same blocks have the same draws
            remainder = change - np.einsum("bpq,qb->pb", H, shifts)
        shifts = H_w.second_order(U, remainder)
    if H_w.is_flat.mean() > MANY_FLAT:
        warn_user(
            f"In {int(H_w.is_flat.sum())} of {n_draws} draws the weights leave less than {H_w.least:.2g} of the "
            "curvature in some direction, for instance if few rows separate the classes. The curvature was raised "
            "there to bound the Newton step. Try: a larger alpha, a stronger penalty of the base model, or "
            "predictive='pushforward'.",
            NewtonStepWarning,
        )
    return _clipped(training, shifts, np.einsum("pb,pb->b", shifts, training.H_r.to_dense() @ shifts), alpha)


def _clipped(training, shifts, squared, alpha):
    """Shifts (p, B), none longer than ``clip.steps`` units; ``squared`` (B,) are lengths in the norm of H_r."""
    if training.clip.steps is None:
        return shifts
    loss, units = training.rows.model.loss, training.rows.units
    phi = 1.0 if loss.n_classes else training.moments.chi2 / (training.n * (1 - training.mean_leverages[0]))
    bound = training.clip.steps * np.sqrt(phi * training.effective_parameters * dirichlet_variance(units, alpha))
    return shortened(shifts, np.sqrt(np.maximum(squared, 0.0)), bound)


def is_quadratic(model):
    """Whether the training objective is a quadratic function of theta, so that one Newton step is a refit."""
    return model.is_linear and model.loss.quadratic


def min_curvature(model):
    """Lower bound of a reweighted curvature, as a share of H_r."""
    return MIN_QUADRATIC_CURVATURE if is_quadratic(model) else MIN_CURVATURE
