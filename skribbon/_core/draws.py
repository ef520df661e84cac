"""Draws of theta under Dirichlet weights: one linear step each, or a step with the curvature that the weights make."""

from __future__ import annotations

import numpy as np

from ..exceptions import NewtonStepWarning, warn_user
from .clipping import clipped_shifts
from .ribbon import DirichletSums, NewtonSums, ReweightedCurvature, dirichlet_scores, dispersion, parameter_shifts

LEAST_CURVATURE = 0.05  # of H_r, in any direction, that drawn weights leave where a loss is not quadratic
MANY_FLAT = 0.05  # share of draws with less from which that is said
ROUNDING = 1e-9  # the same share of a quadratic loss: what is below is rounding


def linear_shifts(training, alpha, gradient, n_draws, seed):
    """Steps (p, B) by H_r, one for each draw of the weights."""
    sums = training.rows.sum(DirichletSums(alpha, n_draws, seed, gradient), training.wide(n_draws))
    U = dirichlet_scores(sums, alpha, training.n / training.rows.units)
    shifts = parameter_shifts(training.H_r, U)
    return _clipped(training, shifts, -np.einsum("pb,pb->b", U, shifts), alpha)


def _clipped(training, shifts, squared, alpha):
    """Shifts none of which is longer than ``clip.steps`` units; ``squared`` (B,) are lengths in the norm of H_r."""
    if training.clip.steps is None:
        return shifts
    loss, units = training.rows.model.loss, training.rows.units
    phi = 1.0 if loss.n_classes else training.moments.chi2 / (training.n * (1 - training.mean_leverage))
    bound = training.clip.steps * np.sqrt(phi * training.effective_parameters * dispersion(units, alpha))
    return clipped_shifts(shifts, np.sqrt(np.maximum(squared, 0.0)), bound)


def newton_shifts(training, alpha, gradient, n_draws, seed):
    """Steps (p, B) by the curvature that the drawn weights make; says so where they leave too little of it."""
    model, units = training.rows.model, training.rows.units
    drawn, width = NewtonSums(alpha, n_draws, seed, gradient, training.curvature), training.wide(n_draws)
    sums, H = training.rows.sum(drawn, width)
    U, total = dirichlet_scores(sums, alpha, training.n / units), sums[-1, :-1] * (training.n / units)
    H /= total[:, None, None]
    penalised = H + np.diag(training.curvature.shift(model))
    H_w = ReweightedCurvature.of(training.H_r.inverse_root, penalised, least_curvature(model))
    shifts = H_w.shifts(U)
    if not is_quadratic(model):
        with np.errstate(all="ignore"):  # an inverse link may overflow after a long step
            moved = training.rows.sum(drawn.at(shifts), width) / total  # the same blocks have the same draws
            remainder = moved - np.einsum("bpq,qb->pb", H, shifts)
        shifts = H_w.second_order(U, remainder)
    if H_w.is_flat.mean() > MANY_FLAT:
        warn_user(
            f"In {int(H_w.is_flat.sum())} of {n_draws} draws the weights leave less than {H_w.least:.2g} of the "
            "curvature in some direction, as where few rows tell classes apart; it counts as that, since a Newton "
            "step has no bound otherwise. Use a larger alpha, penalise the base model more, or take "
            "predictive='pushforward'.",
            NewtonStepWarning,
        )
    squared = np.einsum("pb,pb->b", shifts, training.H_r.to_dense() @ shifts)
    return _clipped(training, shifts, squared, alpha)


def is_quadratic(model):
    """Whether the training objective is a quadratic function of theta, so that one Newton step is a refit."""
    return model.is_linear and model.loss.quadratic


def least_curvature(model):
    """What a reweighted curvature counts at least, as a share of H_r."""
    return ROUNDING if is_quadratic(model) else LEAST_CURVATURE
