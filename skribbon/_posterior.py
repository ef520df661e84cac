"""Estimators whose parameters are uncertain: a fitted model and a distribution around its theta."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._moments import row_blocks
from ._typing import FloatArray
from ._wrapper import Wrapper
from .curvature import machine_bytes
from .exceptions import NotStationaryWarning, UndeterminedDirectionWarning, warn_user

STATIONARITY_LIMIT = 0.25  # mean gradient, in standard errors of itself
SEEN_LIMIT = 1e-3  # how far a row may reach into an undetermined direction, in units of a training row


class UncertainParameters(Wrapper):
    """A fitted ``model_`` and a Ribbon ``ribbon_``: how its parameters are distributed around ``model_.theta``."""

    def _check_stationarity(self, moments, H_r, y):
        """Norm of mean score plus penalty gradient in standard errors of the mean score.

        Each coordinate is in units of its own curvature, so that units of the features do not matter.
        """
        scale = 1 / np.sqrt(np.where(H_r.diagonal > 0, H_r.diagonal, np.inf))
        gradient = np.linalg.norm(scale * (moments.g_bar + self.model_.grad_penalty()))
        standard_error = np.linalg.norm(scale * moments.standard_error)
        rounding = 1e-12 * np.abs(y).max()
        stationarity = float(gradient / standard_error) if gradient > rounding and standard_error > 0 else 0.0
        if stationarity > STATIONARITY_LIMIT:
            warn_user(
                f"The training gradient is {stationarity:.2g} standard errors from zero, so the model is not at the "
                "minimum that is expanded around. Train longer, tighten tol, or use a deterministic solver (lbfgs) "
                "without early stopping; skribbon.models.polish takes networks there. A frozen model must get the rows "
                "and weights that it was fitted on, and classes that the features separate need a penalty.",
                NotStationaryWarning,
            )
        return stationarity

    # ------------------------------------------------------------------ predict
    @property
    def _block_width(self):
        return self.model_.row_width + self.ribbon_.root.shape[1]

    def _warn_if_undetermined(self, X):
        null = self.ribbon_.null
        if not null.shape[1]:
            return
        seen = 0
        for rows in row_blocks(X.shape[0], self.model_.row_width):
            reach = np.abs(self.model_.jvp(self.model_.rows(X[rows]), null)).max(axis=(1, 2))
            seen += int((reach > SEEN_LIMIT).sum())
        if seen:
            warn_user(
                f"{seen} of {X.shape[0]} rows move along directions that the training data do not determine (collinear "
                "or constant columns, too few rows, saturated units); their uncertainty is understated. Drop redundant "
                "columns, or train on rows like these.",
                UndeterminedDirectionWarning,
            )

    def _raw(self, X):
        return self.model_.raw(self.model_.rows(X))

    def _raw_root(self, X):
        return self.model_.jvp(self.model_.rows(X), self.ribbon_.root)

    def _draw(self, n_draws, rng):
        return self.ribbon_.draw(n_draws, rng)

    @property
    def covariance_(self) -> FloatArray:
        """Covariance (p, p) of the parameters ``model_.theta``, coefficients first and the intercept last."""
        check_is_fitted(self)
        p = len(self.model_.theta)
        if 8 * p**2 > machine_bytes() / 2:
            raise MemoryError(f"{p} parameters have a covariance of {8e-9 * p**2:.3g} GB; use its root, ribbon_.root.")
        return self.ribbon_.covariance
