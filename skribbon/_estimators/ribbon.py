"""Uncertain parameters of a fitted base model: what every Ribbon shares, beside its predict methods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from html import escape
from numbers import Real
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, estimator_html_repr

from .._core.damping import MOST_FLEXIBLE, damped, is_flexible
from .._core.ribbon import rescaling
from .._core.rows import Moments, row_blocks
from .._core.training import Training
from .._core.units import NO_CLIP, Clip
from .._predict.latent import Degrees, Latent, RawDraws
from .._utils.checks import check_count, check_fitted, check_name, check_target, checked_groups, checked_weight, is_lazy
from .._utils.threads import limit_blas
from .._utils.typing import Correction, FloatArray, MatrixLike, PredictiveName, RandomState
from ..curvature import Curvature, machine_bytes, resolve_curvature
from ..exceptions import (
    CalibrationWarning,
    FlexibleModelWarning,
    LeverageWarning,
    UndeterminedDirectionWarning,
    warn_user,
)
from ..models.base import training_rows
from .base_model import MAX_SEED, Wrapper, dask_room, own_copy, parametric_model, targets_of, validated
from .linearization import LinearizationReport, compare_with_refits

SEEN_LIMIT = 1e-3  # how far a row may reach into an undetermined direction, in units of a training row
SAME_ROWS = 0.01  # mean gradient of calibration rows, in standard errors, below which they are the training rows
SAME_GRADIENT = 1e-3  # standard errors between the gradients of the same training rows, computed twice
LEAN_LIMIT = 0.5  # share of a prediction that a single training row may decide unsaid


class UncertainParameters(Wrapper):
    """A fitted ``model_`` and a Ribbon ``ribbon_``: how its parameters are distributed around ``model_.theta``."""

    def _latent(self, X):
        """The ribbon at all rows of prepared X."""
        self._warn_of_reach(X)
        with limit_blas(X.shape[0], len(self.model_.theta)):
            return latent_at(self.model_, self.ribbon_, X)

    def _raw_root(self, X):
        """Root (n, k, r) of the covariance of raw predictions over all rows of prepared X together."""
        model, root = self.model_, self.ribbon_.root
        blocks = row_blocks(X.shape[0], max(model.row_width, model.n_outputs * root.shape[1]))
        return np.concatenate([model.tangent(model.rows(X[rows])).jvp(root) for rows in blocks])

    def _warn_of_reach(self, X):
        """Warn if prepared rows X depend on undetermined directions, or on a single training row each."""
        undetermined, single = self.ribbon_.undetermined, self.ribbon_.single
        if undetermined.shape[1] and (far := self._count_beyond(X, undetermined, SEEN_LIMIT)):
            warn_user(
                f"{far} of {X.shape[0]} rows reach into directions that the training data do not determine (collinear "
                "or constant columns, too few rows, saturated units); their uncertainty is understated. Drop redundant "
                "columns, or train on rows like these.",
                UndeterminedDirectionWarning,
            )
        if single.shape[1] and (leaning := self._count_beyond(X, single, LEAN_LIMIT)):
            warn_user(
                f"{leaning} of {X.shape[0]} rows lean on a single training row each, or on a single group of them, "
                "such as the only one of its category: the error of that row cannot be estimated, so their "
                "uncertainty is understated. Merge rare categories, or penalise the base model.",
                LeverageWarning,
            )

    def _count_beyond(self, X, directions, limit):
        """Number of rows of X that move along any of the directions (p, m) by more than the limit."""
        count, width = 0, self.model_.row_width + self.model_.loss.n_outputs * directions.shape[1]
        for rows in row_blocks(X.shape[0], width):
            reach = np.abs(self.model_.tangent(self.model_.rows(X[rows])).jvp(directions)).max(axis=(1, 2))
            count += int((reach > limit).sum())
        return count

    @property
    def covariance_(self) -> FloatArray:
        """Covariance (p, p) of the parameters ``model_.theta``, coefficients first and the intercept last."""
        check_fitted(self)
        p = len(self.model_.theta)
        if 8 * p**2 > machine_bytes() / 2:
            raise MemoryError(f"{p} parameters have a covariance of {8e-9 * p**2:.3g} GB; use its root, ribbon_.root.")
        return self.ribbon_.covariance

    def _training(self, fitted, rows, *, correction="HC0", clip=NO_CLIP, as_ribbon=True):
        """Factor the curvature of the training rows; adds model, curvature and stationarity to ``fitted``."""
        n = rows.n_rows if rows.in_memory else 0  # a pass costs more than its arithmetic elsewhere
        curvature = resolve_curvature(self.curvature, getattr(self, "damping", "auto"), rows.model, n)
        model = curvature.view(rows.model)
        rows = rows.at(model)
        if as_ribbon and curvature.knows_leverages and not curvature.numeric_damping():  # others depend on coordinates
            rows = rows.at(model.centred(rows.around()))
        training = Training.from_rows(rows, curvature, correction, clip)
        stationarity = training.stationarity
        if not as_ribbon or not is_flexible(training):
            training.warn_if_not_stationary()
        elif isinstance(curvature.damping, str):
            training = self._damped(training)
        fitted |= {"model_": model, "curvature_": training.curvature, "stationarity_": stationarity}
        return training

    def _damped(self, training):
        """Add a damping, with a warning that says what would be better."""
        per_row, training = training.parameters_per_row, damped(training)
        warn_user(
            f"The model has {per_row:.2f} effective parameters per row, and may follow its training rows so closely "
            f"that they cannot show how far off it is: damping={training.curvature.damping:.2g} was added. "
            "RibbonCV chooses it on held-out rows.",
            FlexibleModelWarning,
        )
        return training


def latent_at(model, ribbon, X):
    """The ribbon at all rows of prepared X; memory beyond the result is that of one block."""
    source = RawDraws(model, ribbon, X)
    draws = None if ribbon.shifts is None else source.at(ribbon.shifts)
    freedom = None if ribbon.freedom is None else Degrees(model, ribbon, X)
    return Latent(*model.raw_and_covariance(X, ribbon.root), draws, source, freedom)


def weighted_mean(values, weight):
    """Mean over the rows that count; minus infinity if a single one is."""
    values, weight = values[weight > 0], weight[weight > 0]
    return -np.inf if np.any(values == -np.inf) else float(np.average(values, weights=weight))


class BaseRibbon(UncertainParameters):
    """Shared machinery; see RibbonRegressor and RibbonClassifier.

    A subclass writes ``_of_left_out(distribution, y, weight)``: the fitted names that ``store_loo`` adds, for training
    rows each of which is predicted by the fit to all others, with ``_left_out_``, their y and weight.
    """

    estimator_: Any
    _of_left_out: Callable[..., dict[str, Any]]
    _left_out_: tuple[FloatArray, FloatArray]

    def _fit_rows(self, X, y, sample_weight, groups):
        """Fit the base model; returns its fitted attributes as a dict, and its training rows."""
        self._check_parameters()
        if is_lazy(X):
            return self._lazy_rows(X, y, sample_weight, groups)
        checked_groups(groups, len(y), np.ones(len(y)))  # raises before the work of a fit
        fitted, model, weight = self._fit_base(X, y, sample_weight)
        X = own_copy(fitted["estimator_"], X) if model.preprocess else X
        group = checked_groups(groups, len(y), weight)
        return fitted, training_rows(model, X, targets_of(model, y), weight, group)

    def _fit_ribbon(self, fitted, rows):
        """Compute the ribbon from the training rows of the fitted base model."""
        if rows.model.loss.by_output and self._clip() != NO_CLIP:
            raise ValueError("clip_scores and clip_steps are for one output; fit a Ribbon to each column of y.")
        training = self._training(fitted, rows, correction=self.correction, clip=self._clip())
        square = training.curvature.holds_square(len(training.rows.model.theta))
        closed_form = self.predictive == "gaussian" and self.clip_steps is None and square
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        gaussian, newton = self.predictive == "gaussian", self.predictive == "newton"
        if newton:
            check_newton(training.curvature, len(training.rows.model.theta), self.n_draws)
        ribbon = training.ribbon(float(self.alpha), closed_form, self.n_draws, seed, newton)
        exact = self.predictive == "direct" or (newton and not training.rows.model.is_linear)
        ribbon = ribbon.gaussian() if gaussian else replace(ribbon, exact=exact)
        fitted |= {
            "ribbon_": ribbon.mapped(training.rows.model.uncentred),
            "correction_": training.resolved,
            "effective_parameters_": float(training.effective_parameters),
            "n_observations_": float(training.n),
            "n_groups_": None if rows.groups is None else rows.groups.n,
        }
        return fitted, training

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the base model, if it has any."""
        return self.estimator_.coef_

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept of the base model, if it has one."""
        return self.estimator_.intercept_

    def _html_repr(self) -> str:
        """Diagram in notebooks, with a table of what the fit has chosen."""
        diagram, facts = estimator_html_repr(self), self._facts()
        if not facts:
            return diagram
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in facts.items())
        return f"{diagram}<table class='skribbon-fitted'><caption>Fitted</caption>{cells}</table>"

    def _facts(self) -> dict[str, str]:
        """Names and values of what the fit has chosen; empty before a fit."""
        if not hasattr(self, "ribbon_"):
            return {}
        facts = {"alpha": f"{self.alpha:.4g}", "correction": self.correction_}
        if hasattr(self, "noise_"):
            facts |= {"noise": type(self.noise_).__name__, "law": type(self.law_).__name__}
        if hasattr(self, "temperature"):
            facts["temperature"] = f"{self.temperature:.4g}"
        facts |= {
            "curvature": repr(self.curvature_),
            "observations": f"{self.n_observations_:g}",
            "effective parameters": f"{self.effective_parameters_:.4g}",
            "gradient": f"{self.stationarity_:.2g} standard errors",
        }
        return facts if self.n_groups_ is None else facts | {"groups": str(self.n_groups_)}

    def _lazy_rows(self, X, y, sample_weight, groups):
        """Fit the base model to Dask collections, whose rows stay on their partitions."""
        lazy = dask_room()
        if self.store_loo:
            raise ValueError("store_loo keeps numbers for every row, but X is a Dask collection; use a sample of it.")
        table = lazy.Table.of(X, y, sample_weight, groups, self.verbose)
        estimator = self._get_estimator()
        self._check_kind(estimator)
        if sample_weight is not None or table.weighted:
            self._route_weight(estimator, np.ones(1))  # raises if the base model takes none

        def fit_on(start, X, y, weight):
            return self._fit_base(X, y, weight, start)[0]

        return lazy.fit_base_lazily(table, estimator, fit_on, parametric_model, isinstance(self, ClassifierMixin))

    def _warn_of_leave_one_out(self, training):
        """Warn if a network keeps what it learnt from a row that is left out."""
        per_row = training.parameters_per_row
        if not training.rows.model.is_linear and per_row > MOST_FLEXIBLE:
            warn_user(
                f"loo_score_ is too optimistic for a network with {per_row:.2f} effective parameters per row: it keeps "
                "what it learnt from a row that is left out. Score rows that it was not trained on, by folds.",
                FlexibleModelWarning,
            )

    def _check_parameters(self):
        if not isinstance(self.alpha, Real) or not np.isfinite(self.alpha) or self.alpha <= 0:
            raise ValueError(
                f"alpha must be a finite number > 0, got {self.alpha!r}. It is the Dirichlet concentration: "
                "1 is the Bayesian bootstrap, larger values give narrower intervals."
            )
        check_name(self.correction, "correction", get_args(Correction))
        check_name(self.predictive, "predictive", get_args(PredictiveName))
        self._clip()
        check_count(self.n_draws, "n_draws", 2)

    def _clip(self):
        """What rows and draws may do."""
        for name in ("clip_scores", "clip_steps"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be None or a finite number > 0, got {value!r}.")
        return Clip(self.clip_scores, self.clip_steps)

    def with_alpha(self, alpha: float) -> Self:
        """Return the fitted Ribbon at another alpha, without refitting.

        Parameters
        ----------
        alpha : float
            Dirichlet concentration; larger means less uncertainty.

        Returns
        -------
        Ribbon of the same kind
            A copy that shares everything else with this one. Drawn weights are rescaled, not redrawn.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ratio = ribbon.with_alpha(4.0).predict_std(X, kind="epistemic") / ribbon.predict_std(X, kind="epistemic")
        >>> print(ratio.mean().round(2))
        0.5
        """
        check_fitted(self)
        other = copy.copy(self)
        other.__dict__.pop("conformal_", None)  # whose scores are of this alpha
        other.alpha = alpha
        other._check_parameters()
        factor = rescaling(self.ribbon_.units, self.alpha, alpha)
        other.ribbon_ = self.ribbon_.scaled(factor)
        if hasattr(self, "loo_distribution_"):
            other.__dict__.update(other._of_left_out(self.loo_distribution_.scaled(factor), *self._left_out_))
        return other

    def check_linearization(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        n_refits: int = 5,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> LinearizationReport:
        """Compare the linear step, and the Newton step, with exact refits at the same Dirichlet weights.

        Each refit minimises the base model's own objective at drawn weights, starting from the fitted parameters, to a
        gradient of zero. If it moves predictions much as the linear step does, the ribbon is what refitting would have
        given; if only the Newton step comes close, use ``predictive="newton"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The training rows; likewise y, ``sample_weight`` and ``groups``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
        n_refits : int, default=5
        random_state : int, RandomState or None, default=None
        verbose : int, default=0
            If positive, print a line for every refit.

        Returns
        -------
        LinearizationReport
            Prints as a summary; ``to_frame()`` has a row per refit.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> report = ribbon.check_linearization(X, y, n_refits=3, random_state=0)
        >>> report.to_frame()[["prediction_error", "size_ratio", "correlation"]].round(2)
               prediction_error  size_ratio  correlation
        refit
        1                  0.20        0.93         0.98
        2                  0.25        0.86         0.98
        3                  0.13        1.00         0.99
        """
        rows = self._rows_again(X, y, sample_weight, groups)
        rng = check_random_state(random_state)
        return compare_with_refits(rows, self.curvature_, self.alpha, check_count(n_refits, "n_refits"), rng, verbose)

    def _rows_again(self, X, y, sample_weight, groups):
        """Training rows that were handed over once more; other numbers of them, or of groups, are refused."""
        X, y = validated(self, X), targets_of(self.model_, check_target(self, y))
        check_consistent_length(X, y)
        weight = np.ones(len(y)) if sample_weight is None else checked_weight(sample_weight, X)
        if not np.isclose(weight.sum(), self.n_observations_):
            raise ValueError(
                "X, y and sample_weight must be what the estimator was fitted on: "
                f"{self.n_observations_:g} observations, got {weight.sum():g}."
            )
        group = checked_groups(groups, len(y), weight)
        if (None if group is None else len(np.unique(group[weight > 0]))) != self.n_groups_:
            raise ValueError("groups must be what the estimator was fitted with.")
        return training_rows(self.model_, X, y, weight, group)

    def _training_again(self, X, y, sample_weight, groups):
        """Training rows that were handed over once more, and their curvature; others leave another gradient."""
        rows, curvature = self._rows_again(X, y, sample_weight, groups), self.curvature_
        if curvature.knows_leverages and not curvature.numeric_damping():
            rows = rows.at(rows.model.centred(rows.around()))
        training = Training.from_rows(rows, curvature, self.correction_, self._clip())
        asked = self.curvature.damping if isinstance(self.curvature, Curvature) else self.damping
        before = training if asked == curvature.damping else training.at_damping(asked)  # than that of the model's own
        if abs(before.stationarity - self.stationarity_) > SAME_GRADIENT * (1 + self.stationarity_):
            raise ValueError(
                "X_train, y_train, sample_weight and groups must be what the estimator was fitted on: the training "
                f"gradient was {self.stationarity_:.2g} standard errors, and is {before.stationarity:.2g} "
                "of these rows."
            )
        return training


def warn_of_training_rows(estimator, X, y, weight):
    """Warn if calibration rows of a Ribbon are its training rows, recognised by a zero mean gradient.

    The mean gradient of as many other rows is about a standard error.
    """
    weight = np.ones(len(y)) if weight is None else weight
    if not np.isclose(weight.sum(), getattr(estimator, "n_observations_", np.nan)):
        return
    model = estimator.model_
    moments = training_rows(model, validated(estimator, X), y, weight).sum(_score_moments)
    mean, error = moments.g_bar + model.grad_penalty(), moments.standard_error
    size = np.sqrt(np.mean((mean[error > 0] / error[error > 0]) ** 2)) if (error > 0).any() else np.inf
    if size < SAME_ROWS:
        warn_user(
            "The calibration rows are those that the model was fitted on: their scores say nothing about new rows, "
            "and nothing is guaranteed. Set rows aside for conformalize.",
            CalibrationWarning,
        )


def _score_moments(block):
    """Sums of the scores and their squares alone."""
    return Moments(block.total(), block.score_sum(block.u), block.score_squares(block.u), 0.0, 0.0, 0.0)


def check_newton(curvature, p, n_draws):
    """Refuse Newton steps with curvatures that weights do not change, or that do not fit the machine."""
    if not curvature.reweights:
        raise ValueError(
            f"predictive='newton' needs a curvature that depends on the weights, and {type(curvature).__name__} does "
            "not; use curvature='hessian' or 'ggn', or predictive='pushforward'."
        )
    needed = 8 * 4 * n_draws * p**2
    if needed > machine_bytes() / 2:
        raise MemoryError(
            f"predictive='newton' needs a {p} x {p} curvature for each of {n_draws} draws, about {needed / 1e9:.3g} "
            "GB; use fewer n_draws, or predictive='pushforward', which needs none."
        )
