"""What the two Ribbon estimators share: fit the base model, build the ribbon, push it forward."""

from __future__ import annotations

from numbers import Real
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from ._compat import check_sample_weight
from ._linalg import batch_gram
from ._linearisation import LinearisationReport, compare_with_refits
from ._moments import Moments, TrainingRows, row_blocks
from ._posterior import UncertainParameters
from ._predictions import check_count
from ._ribbon import Latent, Ribbon, direct, pushforward
from ._training import Training
from ._typing import Correction, MatrixLike, RandomState
from .curvature import resolve_curvature

CORRECTIONS = get_args(Correction)


class BaseRibbon(UncertainParameters):
    """Shared machinery; see RibbonRegressor and RibbonClassifier."""

    # ------------------------------------------------------------------ fit
    def _fit(self, X, y, sample_weight):
        """Everything up to the ribbon. Returns what a noise model needs of the training rows."""
        self._check_parameters()
        model, weight = self._fit_reference(X, y, sample_weight)
        curvature = self.curvature_ = resolve_curvature(self.curvature, self.damping, model, len(y))
        model = self.model_ = curvature.view(model)
        rows = TrainingRows(model, model.prepare(X), model.encode_target(y), weight)
        closed_form = self.predictive == "gaussian" and curvature.holds_square(len(model.theta))
        moments = Moments.from_rows(rows, curvature, scatter=closed_form and self.correction in ("auto", "HC0", "HC1"))
        H_r = curvature.factor(rows, moments)
        self.stationarity_ = self._check_stationarity(moments, H_r, rows.y)
        self.effective_parameters_ = H_r.effective_parameters(model.l2 + curvature.numeric_damping())
        training = Training(rows, moments, H_r, self.effective_parameters_, curvature.knows_leverages)
        self.ribbon_ = self._build_ribbon(training, closed_form)
        self.n_observations_ = float(moments.n)
        return training

    def _check_parameters(self):
        if not isinstance(self.alpha, Real) or not np.isfinite(self.alpha) or self.alpha <= 0:
            raise ValueError(
                f"alpha must be a finite number > 0, got {self.alpha!r}. It is the Dirichlet concentration: "
                "1 is the Bayesian bootstrap, larger values give narrower intervals."
            )
        if not isinstance(self.correction, str) or self.correction not in CORRECTIONS:
            raise ValueError(f"correction must be 'auto', 'HC0', 'HC1', 'HC2' or 'HC3', got {self.correction!r}.")
        if not isinstance(self.predictive, str) or self.predictive not in ("gaussian", "pushforward", "direct"):
            raise ValueError(f"predictive must be 'gaussian', 'pushforward' or 'direct', got {self.predictive!r}.")
        check_count(self.n_draws, "n_draws", 2)

    def _build_ribbon(self, training, closed_form):
        """The ribbon of scores whose small-sample shrinkage is undone as ``correction`` says."""
        rows, moments, n = training.rows, training.moments, training.n
        factor = training.score_factor(self.correction)
        if not closed_form:
            rng = check_random_state(self.random_state)
            blocks = rows.scores(moments.g_bar, np.broadcast_to(factor, rows.y.shape))
            drawn = Ribbon.from_draws(training.H_r, blocks, self.alpha, self.n_draws, rng)
            return drawn.gaussian() if self.predictive == "gaussian" else drawn
        H_Fc = factor * moments.H_Fc if np.ndim(factor) == 0 else rows.centred_scatter(moments.g_bar, factor) / n
        return Ribbon.closed_form(training.H_r, H_Fc, n, self.alpha)

    def _leave_one_out_latent(self, training):
        """The ribbon at the training rows, each moved to its prediction by the fit to all other rows."""
        rows = training.rows
        pieces = [self._latent(rows.X[block]) for block in row_blocks(len(rows.y), self.model_.row_width)]
        return Latent.concatenate(pieces).moved_to(training.leave_one_out())

    def check_linearisation(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        n_refits: int = 5,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> LinearisationReport:
        """Compare the linear step with exact refits at the same Dirichlet weights.

        Each refit minimises the base model's own objective at drawn weights, starting from the fitted parameters, to a
        gradient of zero. Where it moves predictions much as the linear step does, the ribbon is what refitting would
        have given.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            What the estimator was fitted on, as y and ``sample_weight``.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        n_refits : int, default=5
        random_state : int, RandomState or None, default=None
        verbose : int, default=0
            Prints a line for every refit.

        Returns
        -------
        LinearisationReport
            Prints as a summary; ``to_frame()`` has a row per refit.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> report = ribbon.check_linearisation(X, y, n_refits=3, random_state=0)
        >>> report.to_frame()[["prediction_error", "size_ratio", "correlation"]].round(2)
               prediction_error  size_ratio  correlation
        refit
        1                  0.20        0.93         0.98
        2                  0.25        0.86         0.98
        3                  0.13        1.00         0.99
        """
        check_is_fitted(self)
        X_prepared, y = self._validated(X), self.model_.encode_target(column_or_1d(y))
        weight = np.ones(len(y)) if sample_weight is None else check_sample_weight(sample_weight, X, dtype=np.float64)
        if not np.isclose(weight.sum(), self.n_observations_):
            raise ValueError(
                "X, y and sample_weight must be what the estimator was fitted on: "
                f"{self.n_observations_:g} observations, got {weight.sum():g}."
            )
        rows = TrainingRows(self.model_, X_prepared, y, weight)
        rng = check_random_state(random_state)
        return compare_with_refits(rows, self.curvature_, self.alpha, check_count(n_refits, "n_refits"), rng, verbose)

    # ------------------------------------------------------------------ predict
    @property
    def _block_width(self):
        return self.model_.row_width + max(self.ribbon_.root.shape[1], self.n_draws)

    def _latent(self, X):
        draws = None if self.predictive == "gaussian" else self._raw_draws(X, self.ribbon_.shifts)
        return Latent(self._raw(X), batch_gram(self._raw_root(X)), draws)

    def _raw_draws(self, X, drawn):
        """Raw predictions (n, k, B) at drawn parameters: exactly where predictive="direct", else along the tangent."""
        return (direct if self.predictive == "direct" else pushforward)(self.model_, self.model_.rows(X), drawn)
