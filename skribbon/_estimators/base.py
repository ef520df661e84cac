"""What all estimators around a base model share: fitting it, its weights, seeds and tags; and what a Ribbon adds."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, wraps
from html import escape
from numbers import Real
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import (
    check_array,
    check_consistent_length,
    check_random_state,
    column_or_1d,
    estimator_html_repr,
    get_tags,
)
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter, validate_data

from .._core.clipping import Clip
from .._core.outputs import train, with_parts
from .._core.ribbon import rescaling
from .._core.rows import Moments, row_blocks
from .._core.training import MOST_FLEXIBLE, Training
from .._predict.joint import SeparateLatents
from .._predict.predictive import Degrees, Latent, RawDraws
from .._utils.checks import check_count, check_fitted, check_name, check_target, checked_groups, checked_weight, is_lazy
from .._utils.compat import routing_enabled
from .._utils.threads import in_order, one_thread, small_products
from .._utils.typing import Correction, FloatArray, MatrixLike, PredictiveName, RandomState
from ..curvature import Curvature, machine_bytes, resolve_curvature
from ..exceptions import (
    CalibrationWarning,
    FlexibleModelWarning,
    LeverageWarning,
    UndeterminedDirectionWarning,
    warn_user,
)
from ..models import as_parametric
from ..models.base import is_supported, training_rows
from ..models.wrappers import inside
from .linearization import LinearisationReport, compare_with_refits

SEEN_LIMIT = 1e-3  # how far a row may reach into an undetermined direction, in units of a training row
SAME_ROWS = 0.01  # mean gradient of calibration rows, in standard errors, below which they are the training rows
SAME_GRADIENT = 1e-3  # standard errors between the gradients of the same training rows, computed twice
CALIBRATION_ROWS = 100_000  # of a Dask table that are enough to calibrate on
SMALL_TABLE = 2**18  # entries of X, up to which several threads cannot gain much on a linear model
LEAN_LIMIT = 0.5  # share of a prediction that a single training row may decide unsaid
MAX_SEED = np.iinfo(np.int32).max


class FittedModel:
    """What is fitted holds a ``model_``, and takes a new fit over as a whole."""

    model_: Any

    def _adopt(self, fitted: dict[str, Any]) -> Self:
        return adopt(self, fitted)

    def _validated(self, X):
        """X as the base model takes it; a copy where the base model would overwrite it."""
        check_fitted(self)
        _check_table(X)
        if self.model_.preprocess:  # transformers check X, may take text or columns in any order, and may overwrite it
            return own_copy(getattr(self, "estimator_", None), X)
        if len(getattr(X, "shape", (0, 0))) == 1:
            check_array(X)  # says how to reshape
        if hasattr(self, "n_features_in_") and not self._has_its_columns(X):
            validate_data(self, X, reset=False, skip_check_array=True)
        return X

    def _has_its_columns(self, X):
        """Whether X is a plain array of as many columns as the fit's, which had no names: there is no more to ask."""
        plain = type(X) is np.ndarray and not hasattr(self, "feature_names_in_")
        return plain and X.ndim == 2 and X.shape[1] == self.n_features_in_

    def _warn_of_training_rows(self, X, y, weight):
        """Say so where calibration rows can be seen to be those of the fit."""


class Wrapper(FittedModel, MetaEstimatorMixin, BaseEstimator):
    """A base model ``estimator``, or ``_default_estimator()`` if that is None; needs ``random_state``."""

    # ------------------------------------------------------------------ fit
    def _fit_base(self, X, y, sample_weight, estimator=None):
        """Fit a clone of the base model, or of what stands for it, to all rows.

        Returns
        -------
        fitted : dict
            ``estimator_`` and what it knows of the features.
        model : ParametricModel
        weight : ndarray of shape (n_samples,)
            What the base model really received, ones if none.
        """
        estimator = clone(self._get_estimator() if estimator is None else estimator)
        self._check_kind(estimator)
        _check_table(X)
        if is_regressor(self) and not _holds_numbers(y):
            raise ValueError(f"y must hold numbers for {type(self).__name__}, got '{y[0]}'; labels need a classifier.")
        leaf, _ = innermost(estimator)
        if not is_supported(leaf):
            as_parametric(leaf, y, sample_weight)  # says so before the work of a fit
        self._seed(estimator)
        fit_params, received = {}, None
        if sample_weight is not None:
            sample_weight = checked_weight(sample_weight, X)
            fit_params, received = self._route_weight(estimator, sample_weight)
        elif routing_enabled():
            process_routing(self, "fit")
        if isinstance(leaf, FrozenEstimator):  # whose fit looks at nothing
            check_consistent_length(X, y)
            if is_regressor(self):
                check_array(y, ensure_2d=False, input_name="y")
        with _threads_that_pay(leaf, X):
            estimator.fit(own_copy(estimator, X), y, **fit_params)
        weight = np.ones(len(y)) if received is None else received
        fitted = {"estimator_": estimator}
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                fitted[name] = getattr(estimator, name)
        return fitted, parametric_model(estimator, y, weight), weight

    def _route_weight(self, estimator, sample_weight):
        """Keyword arguments that carry the weights to the innermost model, and the weights it will see."""
        leaf, prefix = innermost(estimator)
        if routing_enabled():
            params = process_routing(self, "fit", sample_weight=sample_weight).estimator.fit
            consumed = isinstance(leaf, FrozenEstimator) or leaf.get_metadata_routing().consumes(
                "fit", ["sample_weight"]
            )
            return params, sample_weight if consumed else None
        if not isinstance(leaf, FrozenEstimator) and not has_fit_parameter(leaf, "sample_weight"):
            raise ValueError(f"{type(leaf).__name__}.fit takes no sample_weight; fit without it.")
        return {f"{prefix}sample_weight": sample_weight}, sample_weight

    def _seed(self, estimator):
        """Give every random_state inside the base model that is still None a seed drawn from ours."""
        if self.random_state is not None:
            seed_all(estimator, check_random_state(self.random_state))

    def _check_kind(self, estimator):
        """A classifier belongs in a classifier and a regressor in a regressor."""
        name = type(self).__name__
        if is_classifier(self) and is_regressor(estimator):
            raise TypeError(f"estimator={estimator!r} is a regressor; use {name.replace('Classifier', 'Regressor')}.")
        if is_regressor(self) and is_classifier(estimator):
            raise TypeError(f"estimator={estimator!r} is a classifier; use {name.replace('Regressor', 'Classifier')}.")

    # ------------------------------------------------------------------ scikit-learn's manners
    @property
    def _takes_outputs(self):
        """Whether y may have several columns."""
        return False

    def _get_estimator(self):
        """The base model, or the default with weights requested when routing is on."""
        if self.estimator is not None:
            return self.estimator
        return requesting_weights(self._default_estimator())

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of this estimator: ``sample_weight`` goes to the base model's ``fit``.

        Returns
        -------
        MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._get_estimator(), method_mapping=mapping)
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            base = get_tags(self._get_estimator())
        except (AttributeError, TypeError):  # not an estimator at all; fit will say so
            return tags
        tags.input_tags = base.input_tags
        tags.non_deterministic = base.non_deterministic
        tags.target_tags.positive_only = base.target_tags.positive_only
        tags.target_tags.multi_output = self._takes_outputs
        tags.array_api_support = False
        return tags


class UncertainParameters(Wrapper):
    """A fitted ``model_`` and a Ribbon ``ribbon_``: how its parameters are distributed around ``model_.theta``."""

    def _latent(self, X):
        """The ribbon at all rows of prepared X."""
        latent = latents_at(self.model_, self.ribbon_, X)
        self._warn_of_reach(X)
        return latent

    def _raw_root(self, X):
        """Root (n, k, r) of the covariance of raw predictions over all rows of prepared X together."""
        model, root = self.model_, self.ribbon_.root
        blocks = row_blocks(X.shape[0], max(model.row_width, model.n_outputs * root.shape[1]))
        pieces = in_order(lambda rows: model.tangent(model.rows(X[rows])).jvp(root), blocks, model.at_once)
        return np.concatenate(list(pieces))

    def _warn_of_reach(self, X):
        """Say so where prepared rows X lean on what the training rows tell nothing about, or a single one of them."""
        far, leaning = (
            self._reach(X, D, limit) for D, limit in ((self.ribbon_.null, SEEN_LIMIT), (self.ribbon_.lone, LEAN_LIMIT))
        )
        if far:
            warn_user(
                f"{far} of {X.shape[0]} rows reach into directions that the training data do not determine (collinear "
                "or constant columns, too few rows, saturated units); their uncertainty is understated. Drop redundant "
                "columns, or train on rows like these.",
                UndeterminedDirectionWarning,
            )
        if leaning:
            warn_user(
                f"{leaning} of {X.shape[0]} rows lean on a single training row each, or on a single group of them, "
                "such as the only one of its category: the error of that row cannot be estimated, so their "
                "uncertainty is understated. Merge rare categories, or penalise the base model.",
                LeverageWarning,
            )

    def _reach(self, X, directions, limit):
        """How many rows of X move along any of the directions (p, m) by more than the limit."""
        if not directions.shape[1]:
            return 0
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

    def _training(self, fitted, rows, *, correction="HC0", closed_form=False, as_ribbon=True):
        """Curvature and moments of the training rows; completes ``fitted`` by what they tell."""
        n = rows.n_rows if rows.in_memory else 0  # a pass costs more than its arithmetic elsewhere
        curvature = resolve_curvature(self.curvature, getattr(self, "damping", "auto"), rows.model, n)
        model = curvature.view(rows.model)
        rows = rows.at(model)
        if as_ribbon and curvature.knows_leverages and not curvature.numeric_damping():  # others depend on coordinates
            rows = rows.at(model.centred(rows.around()))
        closed_form = closed_form and curvature.holds_square(len(model.theta))
        training = train(rows, curvature, correction, closed_form)
        stationarity = training.stationarity(quiet=as_ribbon and training.is_flexible)
        if as_ribbon and training.is_flexible and isinstance(curvature.damping, str):
            training = self._damped(training)
        fitted |= {"model_": model, "curvature_": training.curvature, "stationarity_": stationarity}
        return training, closed_form

    def _damped(self, training):
        """The training rows under a damping; says so, and what would be better."""
        per_row, damped = training.parameters_per_row, training.damped()
        warn_user(
            f"The model has {per_row:.2f} effective parameters per row, and may follow its training rows so closely "
            f"that they cannot show how far off it is: damping={damped.curvature.damping:.2g} was added. "
            "RibbonCV chooses it on held-out rows.",
            FlexibleModelWarning,
        )
        return damped


def latent_at(model, ribbon, X):
    """The ribbon at all rows of prepared X; memory beyond the result is that of one block."""
    source = RawDraws(model, ribbon, X)
    draws = None if ribbon.shifts is None else source.at(ribbon.shifts)
    freedom = None if ribbon.freedom is None else Degrees(model, ribbon, X)
    with small_products(len(model.theta), X.shape[0]):
        return Latent(*model.raw_and_covariance(X, ribbon.root, ribbon.kept), draws, source, freedom)


def latents_at(model, ribbon, X):
    """The same, output by output where outputs have parameters of their own."""
    if not ribbon.parts:
        return latent_at(model, ribbon, X)
    outputs = tuple(latent_at(own, part, X) for own, part in zip(model.outputs, ribbon.parts, strict=True))
    return SeparateLatents(outputs, partial(_covariance_at, model, ribbon, X), RawDraws(model, ribbon, X))


def _covariance_at(model, ribbon, X):
    return latent_at(model, ribbon.gaussian(), X).covariance


def weighted_mean(values, weight):
    """Mean over the rows that count; minus infinity where a single one is."""
    values, weight = values[weight > 0], weight[weight > 0]
    return -np.inf if np.any(values == -np.inf) else float(np.average(values, weights=weight))


class BaseModelAttributes:
    """Coefficients as the fitted base model ``estimator_`` has them, if it does, for selectors such as RFE."""

    estimator_: Any

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the base model, if it has any."""
        return self.estimator_.coef_

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept of the base model, if it has one."""
        return self.estimator_.intercept_


class FittedRepr:
    """A diagram in notebooks that says what was fitted, too."""

    def _html_repr(self) -> str:
        diagram, facts = estimator_html_repr(self), self._facts()
        if not facts:
            return diagram
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in facts.items())
        return f"{diagram}<table class='skribbon-fitted'><caption>Fitted</caption>{cells}</table>"

    def _facts(self) -> dict[str, str]:
        """Names and values of what the fit has chosen; empty before."""
        raise NotImplementedError


class BaseRibbon(BaseModelAttributes, FittedRepr, UncertainParameters):
    """Shared machinery; see RibbonRegressor and RibbonClassifier.

    A subclass writes ``_of_left_out(distribution, y, weight)``: the fitted names that ``store_loo`` adds, for training
    rows each of which is predicted by the fit to all others, with ``_left_out_``, their y and weight.
    """

    _of_left_out: Callable[..., dict[str, Any]]
    _left_out_: tuple[FloatArray, FloatArray]

    def _fit(self, X, y, sample_weight, groups):
        """Everything up to the ribbon: what is known by then, and the training rows for what comes after."""
        self._check_parameters()
        fitted, rows = (self._lazy_rows if is_lazy(X) else self._rows)(X, y, sample_weight, groups)
        with small_products(len(rows.model.theta)):
            return self._fit_ribbon(fitted, rows)

    def _fit_ribbon(self, fitted, rows):
        """The same from the training rows of the fitted base model on."""
        closed_form = self.predictive == "gaussian" and self.clip_steps is None
        training, closed_form = self._training(fitted, rows, correction=self.correction, closed_form=closed_form)
        if rows.model.loss.by_output and self._clip() != Clip():
            raise ValueError("clip_scores and clip_steps are for one output; fit a Ribbon to each column of y.")
        training = training if rows.model.loss.by_output else replace(training, clip=self._clip())
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        gaussian, newton = self.predictive == "gaussian", self.predictive == "newton"
        if newton:
            check_newton(training.curvature, len(training.rows.model.theta), self.n_draws)
        ribbon = training.ribbon(float(self.alpha), self.correction, closed_form, self.n_draws, seed, newton)
        exact = self.predictive == "direct" or (newton and not training.rows.model.is_linear)
        ribbon = ribbon.gaussian() if gaussian else replace(ribbon, exact=exact)
        fitted |= {
            "ribbon_": with_parts(ribbon.mapped(training.rows.model.uncentred), fitted["model_"]),
            "correction_": training.resolved(self.correction),
            "effective_parameters_": float(training.effective_parameters),
            "n_observations_": float(training.n),
            "n_groups_": None if rows.groups is None else rows.groups.n,
        }
        return fitted, training

    def _facts(self):
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

    def _rows(self, X, y, sample_weight, groups):
        """The fitted base model, and its training rows in memory."""
        checked_groups(groups, len(y), np.ones(len(y)))  # before the work of a fit
        fitted, model, weight = self._fit_base(X, y, sample_weight)
        y = targets_of(model, y)
        X, group = own_copy(fitted["estimator_"], X), checked_groups(groups, len(y), weight)
        return fitted, training_rows(model, X, y, weight, group)

    def _lazy_rows(self, X, y, sample_weight, groups):
        """The same of Dask collections, whose rows stay where they are."""
        lazy = dask_room()
        if self.store_loo:
            raise ValueError("store_loo keeps numbers for every row, but X is a Dask collection; use a sample of it.")
        table = lazy.Table.of(X, y, sample_weight, groups, self.verbose)
        estimator = self._get_estimator()
        self._check_kind(estimator)
        if sample_weight is not None or table.weighted:
            self._route_weight(estimator, np.ones(1))  # says so where the base model takes none

        def fit_on(start, X, y, weight):
            return self._fit_base(X, y, weight, start)[0]

        return lazy.fit_base_lazily(table, estimator, fit_on, parametric_model, is_classifier(self))

    def _warn_of_leave_one_out(self, training):
        """Say so where a model keeps what it learnt of a row that is left out."""
        per_row = training.parameters_per_row
        if not training.rows.model.is_linear and per_row > MOST_FLEXIBLE:
            warn_user(
                f"loo_score_ is too optimistic for a network with {per_row:.2f} effective parameters per row: it keeps "
                "what it learnt from a row that is left out. Score rows that it was not trained on, by folds.",
                FlexibleModelWarning,
            )

    def _warn_of_training_rows(self, X, y, weight):
        """Their mean gradient is zero, and that of as many other rows about a standard error."""
        weight = np.ones(len(y)) if weight is None else weight
        if not np.isclose(weight.sum(), self.n_observations_):
            return
        moments = training_rows(self.model_, self._validated(X), y, weight).sum(_score_moments)
        mean, error = moments.g_bar + self.model_.grad_penalty(), moments.standard_error
        size = np.sqrt(np.mean((mean[error > 0] / error[error > 0]) ** 2)) if (error > 0).any() else np.inf
        if size < SAME_ROWS:
            warn_user(
                "The calibration rows are those that the model was fitted on: their scores say nothing about new rows, "
                "and nothing is guaranteed. Set rows aside for conformalize.",
                CalibrationWarning,
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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

    def check_linearisation(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        n_refits: int = 5,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> LinearisationReport:
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
        rows = self._rows_again(X, y, sample_weight, groups)
        rng = check_random_state(random_state)
        return compare_with_refits(rows, self.curvature_, self.alpha, check_count(n_refits, "n_refits"), rng, verbose)

    def _rows_again(self, X, y, sample_weight, groups):
        """Training rows that were handed over once more; other numbers of them, or of groups, are refused."""
        X, y = self._validated(X), targets_of(self.model_, check_target(self, y, self._takes_outputs))
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
        training = replace(Training.of(rows, curvature), clip=self._clip())
        asked = self.curvature.damping if isinstance(self.curvature, Curvature) else self.damping
        before = training if asked == curvature.damping else training.at_damping(asked)  # than that of the model's own
        if abs(before.stationarity(quiet=True) - self.stationarity_) > SAME_GRADIENT * (1 + self.stationarity_):
            raise ValueError(
                "X_train, y_train, sample_weight and groups must be what the estimator was fitted on: the training "
                f"gradient was {self.stationarity_:.2g} standard errors, and is {before.stationarity(quiet=True):.2g} "
                "of these rows."
            )
        return training


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


# ---------------------------------------------------------------------- base models
def parametric_model(estimator, y, weight):
    """A fitted estimator as a ParametricModel that knows which columns its innermost model expects."""
    leaf = fitted_leaf(estimator)
    with np.errstate(invalid="ignore", over="ignore"):
        model = as_parametric(estimator, y, weight)
    if not np.isfinite(model.theta).all():
        raise ValueError(
            f"The fitted parameters of {type(leaf).__name__} are not finite, as happens without a penalty if all "
            "counts are zero. Check the target, scale the columns of X, or penalise the model."
        )
    return replace(model, inputs=leaf) if hasattr(leaf, "n_features_in_") else model


def targets_of(model, y):
    """y as the fitted model takes it: (n,), or (n, m) of m outputs."""
    m = len(model.loss.by_output)
    if m == 0 and np.ndim(y) == 2:
        return column_or_1d(y)
    if m and np.shape(y)[1:] != (m,):
        raise ValueError(f"The base model was fitted with {m} outputs, got y of shape {np.shape(y)}.")
    return y


def innermost(estimator):
    """The model at the core of pipelines and target transformers, and the prefix of its fit parameters."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        leaf, prefix = innermost(last)
        return leaf, f"{name}__{prefix}"
    if isinstance(estimator, TransformedTargetRegressor):
        return innermost(requesting_weights(LinearRegression()) if estimator.regressor is None else estimator.regressor)
    return estimator, ""


def fitted_leaf(estimator):
    """The fitted model at the core of a fitted estimator."""
    if isinstance(estimator, Pipeline):
        return fitted_leaf(estimator.steps[-1][1])
    if isinstance(estimator, TransformedTargetRegressor):
        return fitted_leaf(estimator.regressor_)
    if isinstance(estimator, FrozenEstimator):
        return fitted_leaf(inside(estimator))
    return estimator


def requesting_weights(default):
    """A default estimator asks for the weights by itself when routing is on, as scikit-learn's defaults do."""
    return default.set_fit_request(sample_weight=True) if routing_enabled() else default


def seed_all(estimator, rng, override=False):
    """Give every random_state inside that is None, or every one, a number drawn from ``rng``."""
    params = estimator.get_params(deep=True)
    names = sorted(k for k, v in params.items() if k.split("__")[-1] == "random_state" and (override or v is None))
    return estimator.set_params(**{name: rng.randint(MAX_SEED) for name in names})


def own_copy(estimator, X):
    """X, or a copy of it where something inside the estimator was told to overwrite its input."""
    if estimator is None or not hasattr(X, "copy"):
        return X
    return copy.deepcopy(X) if _overwrites(estimator) else X  # in the same order in memory


def _overwrites(estimator):
    params = estimator.get_params(deep=True)
    frozen = [part.estimator for part in (estimator, *params.values()) if isinstance(part, FrozenEstimator)]
    told = any(k.split("__")[-1] in ("copy", "copy_X") and v is False for k, v in params.items())
    return told or any(map(_overwrites, frozen))  # which show no parameters of what they hold


def adopt(estimator, fitted):
    """The estimator with a whole fit taken over at once, in place of all that an earlier one left.

    Until here fit has touched nothing, so that there is no half-fitted state, whatever goes wrong.
    """
    parameters = {name: value for name, value in vars(estimator).items() if not _is_fitted_name(name)}
    estimator.__dict__ = {**parameters, **fitted}
    return estimator


def dask_room():
    """The package's room for Dask, which is imported with the first Dask collection."""
    try:
        from .. import _dask
    except ImportError as error:
        raise ImportError(
            f"X is a Dask collection, and its rows need Dask whole: pip install 'skribbon[dask]' ({error})."
        ) from error
    return _dask


def calibration_rows(estimator, X, y, sample_weight, groups):
    """Calibration rows in memory: of Dask collections at most CALIBRATION_ROWS, as exchangeable as all of them."""
    if not is_lazy(X):
        return X, y, sample_weight, groups
    lazy = dask_room()
    return lazy.some_rows(lazy.Table.of(X, y, sample_weight, groups), is_classifier(estimator), CALIBRATION_ROWS)


def lazily(method):
    """A predict method that returns Dask collections for Dask collections."""
    signature = inspect.signature(method)

    @wraps(method)
    def predict(self, X, *args, **kwargs):
        if not is_lazy(X):
            return method(self, X, *args, **kwargs)
        bound = signature.bind(self, X, *args, **kwargs)
        bound.apply_defaults()
        arguments = {name: value for name, value in bound.arguments.items() if name not in ("self", "X")}
        return dask_room().lazily_predicted(self, method.__name__, X, arguments)

    return predict


def _threads_that_pay(leaf, X):
    """One thread for a linear model of a small table: those of BLAS and OpenMP would wait for each other in every step.

    A fit of a few milliseconds takes up to fifty times as long where the cores are not all free.
    """
    small = np.prod(getattr(X, "shape", np.inf)) <= SMALL_TABLE
    return one_thread() if small and type(leaf).__module__.startswith("sklearn.linear_model") else nullcontext()


def _check_table(X):
    """A table with rows, not the promise of one."""
    if is_lazy(X):
        raise TypeError(
            f"X is a Dask {type(X).__name__}, and this needs rows in memory: pass some of them, X.head(...) or "
            "X.compute(). RibbonRegressor, RibbonClassifier and RibbonCV are fitted to Dask collections as they are."
        )
    if hasattr(X, "collect") and not hasattr(X, "__len__"):
        raise TypeError(f"X is a {type(X).__name__}, a query that has not run; call X.collect() first.")


def _holds_numbers(y):
    """Whether y (n,) is numeric."""
    try:
        y.astype(float)
    except (TypeError, ValueError):
        return False
    return y.dtype.kind not in "mM"  # times turn into numbers, of a unit that nobody asked for


def _is_fitted_name(name):
    return name.endswith("_") and not name.startswith("__")
