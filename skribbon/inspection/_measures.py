"""Leverage, left-out residuals, Cook's distance, DFFITS and DFBETAS of the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._core.groups import moved
from .._core.training import Training
from .._utils.typing import FloatArray, MatrixLike
from ._coefficients import Terms
from ._question import Question, warn_of_certainty
from ._row_influence import CERTAIN, group_left_out, measures


def influence_measures(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    dfbetas: bool = False,
) -> pd.DataFrame:
    r"""How far each training row, or group, lies from the fit without it, and how far it moves that fit.

    With the step :math:`\Delta\theta_{(i)}` to the fit without row i, one Newton step as in
    :func:`~skribbon.inspection.influence`,

    .. math:: D_i = \frac{n\, \Delta\theta_{(i)}' H_r \Delta\theta_{(i)}}{p\, \phi}, \qquad
              \mathrm{DFFITS}_i = \frac{\hat f_i - \hat f_{i(i)}}{\sqrt{\phi_{(i)}\, h_i / C_i}}, \qquad
              \mathrm{DFBETAS}_{ij} = \frac{\hat\theta_j - \hat\theta_{j(i)}}{\sqrt{\phi_{(i)}\, (H_r^{-1})_{jj} / n}}.

    For ordinary least squares these are Cook's distance, DFFITS and DFBETAS as defined by Belsley, Kuh and Welsch. Here
    p is the effective number of parameters, and the dispersion :math:`\phi` is Pearson's statistic divided by n - p, or
    one for a classifier.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier or RibbonCV
        With a curvature that knows leverages: "hessian", "ggn", "fisher" or "last_layer".
    X_train : {array-like, sparse matrix} of shape (n_train, n_features)
        The training rows; likewise ``y_train``, ``sample_weight`` and ``groups``. Other rows are refused.
    y_train : array-like of shape (n_train,)
    sample_weight : array-like of shape (n_train,), default=None
        A row is left out with all its copies.
    groups : array-like of shape (n_train,), default=None
        If the Ribbon was fitted with groups, whole groups are left out.
    dfbetas : bool, default=False
        Also return a column "dfbetas: term" for each coefficient of a linear model.

    Returns
    -------
    DataFrame
        A row per training row, with its index, or per group. Columns leverage, residual, left_out_residual,
        studentised_residual, cooks_distance, dffits. Residuals are on the scale that the model was fitted on, after any
        target transformation and after the link; for a classifier they are one minus the probability of the true class,
        and are not studentised. For groups, residuals are means over their rows; DFFITS is not defined for groups, nor
        for more than two classes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.inspection import influence_measures
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> table = influence_measures(RibbonRegressor().fit(X, y), X, y)
    >>> table.nlargest(2, "cooks_distance")[["leverage", "left_out_residual", "cooks_distance", "dffits"]].round(3)
         leverage  left_out_residual  cooks_distance  dffits
    382     0.054           -120.829           0.024  -0.521
    123     0.072            -97.828           0.021  -0.486
    """
    asked = Question.of(ribbon, "influence_measures", X_train, y_train, None, sample_weight, groups)
    training = asked.training
    if not training.curvature.knows_leverages:
        name = type(training.curvature).__name__
        raise TypeError(f"influence_measures needs leverages, but {name} has only rough ones; use a dense curvature.")
    terms = Terms.of(ribbon, "influence_measures(dfbetas=True)") if dfbetas else None
    by_rows = training.rows.groups is None
    table = _of_rows(training, terms) if by_rows else _of_groups(training, terms)
    certain = int((table["leverage"] > CERTAIN).sum()) if by_rows and training.rows.model.n_outputs == 1 else 0
    warn_of_certainty(certain, by_rows)
    return pd.DataFrame(table, index=asked.units)


def _of_rows(training, terms):
    E, spread = _coefficients(training, terms)
    h, move, distance, grown, betas = measures(training, E)
    rows = training.rows
    phi, without = _dispersions(training, rows.weight * grown, rows.weight)
    residual, left_out = _residuals(rows, np.zeros_like(move)), _residuals(rows, move)
    table = {"leverage": h, "residual": residual, "left_out_residual": left_out}
    if rows.model.n_outputs == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.nan_to_num(distance / np.abs(move[:, 0]) ** 2)  # C / h, as n step' H step = C move^2 / h
        if not rows.model.loss.n_classes:
            table["studentised_residual"] = np.sign(residual) * np.sqrt(grown / without)
        table |= {"cooks_distance": _cook(training, distance, phi), "dffits": -move[:, 0] * np.sqrt(size / without)}
    else:
        table["cooks_distance"] = _cook(training, distance, phi)
    return table | _dfbetas(terms, -betas, spread, without)


def _of_groups(training, terms):
    rows, (steps, _) = training.rows, group_left_out(training)
    groups, (E, spread) = rows.groups, _coefficients(training, terms)
    h, _, _, _, _ = measures(training, E[:, :0])
    distance = training.n * np.einsum("gp,gp->g", steps @ training.H_r.to_dense(), steps)
    move = rows.map(_Moved(steps))
    residual, left_out = _residuals(rows, np.zeros_like(move)), _residuals(rows, move)
    squared = np.zeros_like(residual) if rows.model.loss.n_classes else training.squared_residuals
    ratio = np.divide(left_out, residual, out=np.ones_like(residual), where=residual != 0)
    phi, without = _dispersions(training, _sums(groups, rows.weight * squared * ratio), groups.weight)
    each = np.where(groups.weight > 0, groups.weight, 1.0)
    table = {
        "leverage": _sums(groups, h),
        "residual": _sums(groups, rows.weight * residual) / each,
        "left_out_residual": _sums(groups, rows.weight * left_out) / each,
        "cooks_distance": _cook(training, distance, phi),
    }
    betas = steps @ training.H_r.to_dense() @ E  # E holds H_r^-1
    return table | _dfbetas(terms, -betas, spread, without)


class _Moved:
    """Moves of raw predictions with the fit without the group of each row."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, block):
        return moved(self.steps, block)


def _sums(groups, values):
    return np.bincount(groups.code, weights=values, minlength=len(groups.count))


def _residuals(rows, move):
    """Of the target as the loss sees it, (n_rows,), at raw predictions moved by (n_rows, k)."""
    loss, f = rows.model.loss, rows.map(_raw) + move
    if loss.n_classes:
        return 1 - np.take_along_axis(loss.probabilities(f), rows.y.astype(int)[:, None], axis=1)[:, 0]
    with np.errstate(all="ignore"):
        return rows.y - loss.mean(f[:, 0])


def _raw(block):
    return block.f


def _dispersions(training, removed, weight):
    """Dispersion of all rows, and of those without each row or group (units,)."""
    if training.rows.model.loss.n_classes:
        return 1.0, np.ones_like(removed)
    phi = training.moments.chi2 / (training.n * (1 - training.mean_leverage))
    freedom = training.n - weight - training.effective_parameters
    few, tiny = freedom <= 0, np.finfo(float).tiny
    rest = np.maximum(training.moments.chi2 - removed, 1e-12 * training.moments.chi2)
    return max(phi, tiny), np.maximum(np.where(few, phi, rest / np.where(few, 1.0, freedom)), tiny)


def _cook(training, distance, phi):
    return distance / (phi * max(training.effective_parameters, np.finfo(float).tiny))


def _coefficients(training: Training, terms: Terms | None) -> tuple[FloatArray, FloatArray]:
    """H_r^-1 times the gradients of the coefficients, (p, T), and their variances at unit dispersion, (T,)."""
    p = len(training.rows.model.theta)
    if terms is None:
        return np.zeros((p, 0)), np.zeros(0)
    uncentred = training.rows.model.uncentred
    E = terms.move(uncentred(training.H_r.solve(np.eye(p)))).T
    return E, (terms.move(uncentred(training.H_r.inverse_root)) ** 2).sum(axis=1) / training.n


def _dfbetas(terms: Terms | None, betas: FloatArray, spread: FloatArray, without: FloatArray) -> dict[str, Any]:
    if terms is None:
        return {}
    scale = np.sqrt(np.where(spread > 0, spread, np.inf) * without[:, None])
    return {f"dfbetas: {name}": column for name, column in zip(terms.qualified, (betas / scale).T, strict=True)}
