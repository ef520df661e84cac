"""Damping of networks that may follow their training rows too closely."""

from __future__ import annotations

from functools import partial

import numpy as np

from .rows import EASY_LEVERAGE

MOST_FLEXIBLE = 0.25  # effective parameters per row that damping leaves to a model that is not linear; doc/defaults.md
AS_MANY_AS_ROWS = 0.75  # effective parameters per row above which leverages are meaningless even at a minimum
SHORT_OF_A_MINIMUM = 0.2  # stationarity above which training counts as stopped early; see doc/defaults.md
LEAST_DAMPING = 0.01  # damping for early stopping, in variances of the target: about what bootstrap refits ask for


def is_flexible(training):
    """Whether the model was stopped early or nearly interpolates, so that leverages are meaningless.

    A model that is not linear may have many effective parameters per row at a minimum, where leverages hold, but not
    short of one, and not nearly one for every row.
    """
    if training.rows.model.is_linear or not training.curvature.factors_again:
        return False
    per_row, early = training.parameters_per_row, training.stationarity > SHORT_OF_A_MINIMUM
    if per_row <= (EASY_LEVERAGE if _least_damping(training) else MOST_FLEXIBLE):
        return False
    return per_row > AS_MANY_AS_ROWS or early


def damped(training):
    """Training with the smallest damping that leaves MOST_FLEXIBLE effective parameters per row, or a larger one.

    Training that stops short of a minimum has left directions where it found them, as a penalty would.
    """
    least = _least_damping(training)
    if training.parameters_per_row <= MOST_FLEXIBLE:
        return training.at_damping(least)
    most = MOST_FLEXIBLE * training.n * training.rows.model.loss.curvature_rank
    trace = float(np.sum(training.H_r.diagonal))
    low, high = 1e-15 * trace, trace / most  # tr(H (H + damping)^-1) <= tr(H) / damping
    effective = _effective_parameters(training)
    while high > (1 + 1e-7) * low:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if effective(middle) > most else (low, middle)
    return training.at_damping(max(high, least))


def _least_damping(training):
    """Damping that early stopping amounts to, for a regressor with a dense curvature; else zero."""
    exact, classes = training.curvature.knows_leverages, training.rows.model.loss.n_classes
    if classes or not exact or training.stationarity <= SHORT_OF_A_MINIMUM:
        return 0.0
    mean = training.rows.sum(partial(_target_deviations, 0.0))[0] / training.n
    variance = training.rows.sum(partial(_target_deviations, mean))[1] / training.n
    return LEAST_DAMPING * float(np.mean(variance))  # over the outputs


def _target_deviations(centre, block):
    """Sums over the block of y - centre, and of its square."""
    off = block.y - centre
    return np.array([block.weight @ off, block.weight @ off**2])


def _effective_parameters(training):
    """Function from a damping to the effective parameters: by eigenvalues if H_r is an array, else by factoring."""
    if not training.curvature.knows_leverages:
        return lambda damping: training.at_damping(damping).effective_parameters
    values, vectors = np.linalg.eigh(training.H_r.to_dense())
    values = np.maximum(values, 0.0)
    own = np.maximum(values - training.shift @ vectors**2, 0.0)  # v' H v
    return lambda damping: np.sum(own / (values + damping))
