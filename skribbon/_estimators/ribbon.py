"""Shared by all Ribbons: the first pass, the ribbon, raw predictions, and checks against refits."""

import copy
from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_consistent_length, check_random_state, estimator_html_repr

from .._core import thresholds
from .._core.crossed import crossed_ribbon
from .._core.findings import found
from .._core.rows import Moments, row_blocks, weighed
from .._core.training import Training, damped, is_flexible, is_network, limited, may_have_memorized
from .._core.units import NO_CLIP, Clip
from .._predict.held_out import HeldOut
from .._predict.predictive import Degrees, Latent, RawDraws
from .._utils.checks import check_count, check_fitted, check_target, checked_groups, checked_weight, is_lazy, is_name
from .._utils.compat import CallbackSupportMixin, limit_blas
from .._utils.typing import FloatArray, MatrixLike, PerRow, RandomState
from .._utils.unwrap import fitted_leaf, is_frozen, may_be_network
from ..curvature import GaussNewton, LastLayer, machine_bytes, resolve_curvature
from ..exceptions import (
    ApproximateCurvatureWarning,
    CalibrationWarning,
    CurvatureError,
    FlexibleModelWarning,
    WeightWarning,
    warn_user,
)
from ..models.base import raw_and_covariance, raw_predictions, training_rows
from .base_model import MAX_SEED, Wrapper, dask_backend, own_copy, parametric_model, seed_all, targets_of, validated
from .linearization import LinearizationReport, compare_with_refits
from .settings import RibbonParameters, check_newton, shared_settings


# ---------------------------------------------------------------------- fit
def first_pass(ribbon, settings, rows):
    """Training of the rows after the first pass, without damping."""
    model, n = rows.model, rows.n_rows if rows.in_memory else 0  # on Dask, a pass costs more than its arithmetic
    p, rank = len(model.theta), model.loss.curvature_rank
    costly = n * rank * p**2 + 10 * p**3 > thresholds.NETWORK_WORK
    few = model.has_layers and thresholds.EASY_LEVERAGE * n * rank <= p and costly
    if few and is_name(settings.curvature, "auto") and settings.learns and may_be_refitted(ribbon, rows):
        curvature = LastLayer(settings.damping)  # refits correct the size of its covariance
    else:
        curvature = resolve_curvature(settings.curvature, settings.damping, model, n)
    model = curvature.view(model)
    if model.loss.by_output and settings.clip != NO_CLIP:
        raise ValueError("clip_scores and clip_steps are for one output; fit a Ribbon to each column of y.")
    rows = _centred(rows.at(model), curvature)
    try:
        return Training.from_rows(rows, curvature, settings.correction, settings.clip)
    except CurvatureError:
        if not is_name(settings.curvature, "auto"):
            raise
        warn_user(
            "The exact Hessian is indefinite, so the base model is not at a minimum. Gauss-Newton replaces it, and "
            "standard errors are not the robust sandwich. Try: train the base model longer.",
            ApproximateCurvatureWarning,
        )
        return Training.from_rows(rows, GaussNewton(settings.damping), settings.correction, settings.clip)


def settled(ribbon, training, whole, unseen=None):
    """Training with the damping that a network needs; returns it with fitted attributes as a dict.

    ``whole`` is the model with all its parameters, ``unseen`` the predictions of rows that fits have not seen, or None.
    Warns if a network may have memorized its rows and was not refitted.
    """
    known, automatic = {"stationarity_": training.stationarity}, isinstance(training.curvature.damping, str)
    report, network, excused = training.findings.report, is_network(whole), True
    if unseen is not None:
        limits = automatic and training.curvature.factors_again and network
        training = limited(training, thresholds.HELD_OUT_PARAMETERS_PER_ROW) if limits else training
        training = replace(training, scaled=True)
        if network:
            report("undamped", training.parameters_per_row, damping=training.curvature.damping)
    else:
        classes, flexible = whole.loss.n_classes, is_flexible(training)
        memorized = flexible if classes else may_have_memorized(training, whole)
        excused = memorized or flexible
        if memorized or network:
            n_parameters = len(whole.theta) / (training.n * whole.loss.curvature_rank)
            per_row = training.parameters_per_row if whole is training.rows.model else n_parameters
            limit, effect = thresholds.EASY_LEVERAGE, "90% intervals can cover 40% to 80% of new rows"
            if classes:
                limit, effect = thresholds.MAX_PARAMETERS_PER_ROW, "probabilities can be far too certain"
            words = {"n_parameters": n_parameters, "effect": effect, "cure": _cure(ribbon, training)}
            report("memorized", per_row, limit, memorized, **words)
        training = damped(training) if automatic and flexible else training
    if not excused or known["stationarity_"] <= thresholds.STATIONARITY_LIMIT:
        report("convergence", known["stationarity_"], cure=whole.cure)
    return training, known | {"model_": training.curvature.view(whole), "curvature_": training.curvature}


def may_be_refitted(ribbon, rows):
    """Whether the base model of a regressor can be refitted, and its user has not asked for leave-one-out."""
    in_memory = rows.in_memory and not is_name(getattr(ribbon, "held_out", "loo"), "loo", "early_stopping")
    return in_memory and not is_frozen(ribbon._get_estimator())


def _cure(ribbon, training):
    """Advice to the user of a network that may have memorized its rows and was not refitted."""
    frozen, classes = is_frozen(ribbon._get_estimator()), isinstance(ribbon, ClassifierMixin)
    if frozen and classes:
        return "RibbonCV(FrozenEstimator(ribbon)) on rows that the network was not trained on"
    if frozen:
        return "conformalize, with rows that the network was not trained on; a frozen network cannot be refitted"
    if not training.rows.in_memory:
        return "RibbonCV, which scores rows that its fits have not seen"
    learnt = "temperature='auto'" if classes else "noise='auto'"
    return f"held_out='auto' and {learnt}, which refit the network without some of its rows"


def _centred(rows, curvature):
    """Rows with centred columns, unless the curvature depends on coordinates."""
    if curvature.damping not in ("auto", 0) or not curvature.knows_leverages:
        return rows
    return rows.at(rows.model.centred(rows.around()))


def fit_ribbon(settings, training):
    """Compute the distribution of theta from the second pass; returns fitted attributes as a dict."""
    rows, newton, gaussian = training.rows, settings.predictive == "newton", settings.predictive == "gaussian"
    p = len(rows.model.theta)
    if newton:
        check_newton(training.curvature, p, settings.n_draws)
    closed_form = gaussian and settings.clip.steps is None and p <= training.curvature.square_limit
    seed = int(check_random_state(settings.random_state).randint(MAX_SEED))
    build = Training.ribbon if rows.factors is None else crossed_ribbon
    ribbon = build(training, settings.alpha, closed_form, settings.n_draws, seed, newton)
    exact = settings.predictive == "direct" or (newton and not rows.model.is_linear)
    ribbon = replace(ribbon, shifts=None) if gaussian else replace(ribbon, exact=exact)
    prefix = "HC" if rows.groups is None else "CR"
    return {
        "ribbon_": ribbon.mapped(rows.model.uncentred),
        "correction_": training.correction_used.replace("HC", prefix),
        "effective_parameters_": float(training.effective_parameters),
        "n_observations_": float(training.n),
        "n_groups_": rows.n_groups,
    }


def loo_record(settings, fitted, training, y, predict):
    """HeldOut record of the training rows, each predicted by the fit without its row or group, to first order.

    ``predict(latent)`` returns predictive distributions. Warns about overparameterized networks.
    """
    per_row, rows = training.parameters_per_row, training.rows
    if not rows.model.is_linear and per_row > thresholds.MAX_PARAMETERS_PER_ROW:
        warn_user(
            f"The network has {per_row:.2f} effective parameters per row, so loo_score_ is too optimistic. Try: scores "
            "of rows that it was not trained on, from RibbonCV.",
            FlexibleModelWarning,
        )
    latent = latent_at(fitted["model_"], fitted["ribbon_"], rows.X).moved_to(training.record.left_out)
    group = None if rows.groups is None else rows.groups.code
    known = {"origin": "loo", "units": fitted["ribbon_"].units, "alpha": settings.alpha}
    weight = rows.mass * (rows.exposure or 1.0)
    return HeldOut(predict(latent), latent.f, y, weight, group, **known).weighed(settings.weight_type)


# ---------------------------------------------------------------------- predict
def latent_at(model, ribbon, X):
    """Raw predictions of prepared rows X with their distribution, computed in blocks."""
    source = RawDraws(model, ribbon, X)
    draws = None if ribbon.shifts is None else source.at(ribbon.shifts)
    known = () if ribbon.freedom is None else (Degrees(model, ribbon, X), ribbon.freedom.least)
    return Latent(*raw_and_covariance(model, X, ribbon.root), draws, source, *known)


def uncertain_latent(estimator, X):
    """Distribution of raw predictions at prepared rows X; warns if rows depend on undetermined directions."""
    model, ribbon = estimator.model_, estimator.ribbon_
    warn_of_reach(model, ribbon, X)
    with limit_blas(X.shape[0], len(model.theta)):
        return latent_at(model, ribbon, X)


def certain_raw(estimator, X):
    """Raw predictions (n, k) at prepared rows X; warns if rows depend on undetermined directions."""
    warn_of_reach(estimator.model_, estimator.ribbon_, X)
    return raw_predictions(estimator.model_, X)


def raw_root(estimator, X):
    """Root (n, k, r) of the covariance of raw predictions over all rows of prepared X together."""
    model, root = estimator.model_, estimator.ribbon_.root
    blocks = row_blocks(X.shape[0], max(model.row_width, model.loss.n_outputs * root.shape[1]))
    return np.concatenate([model.tangent(model.rows(X[rows])).jvp(root) for rows in blocks])


def parameter_covariance(self) -> FloatArray:
    """Covariance (p, p) of the parameters ``model_.theta``, coefficients first and the intercept last."""
    check_fitted(self)
    p = len(self.model_.theta)
    if 8 * p**2 > machine_bytes() / 2:
        raise MemoryError(f"{p} parameters have a covariance of {8e-9 * p**2:.3g} GB; use its root, ribbon_.root.")
    return self.ribbon_.covariance


def warn_of_reach(model, ribbon, X):
    """Warn if prepared rows X depend on undetermined directions, or on a single training row each."""
    for finding in reach(model, ribbon, X):
        if finding.text:
            finding.warn()


def reach(model, ribbon, X):
    """Findings about prepared rows X: along undetermined directions, and by a single training row each."""
    known = {
        "n": X.shape[0],
        "noun": "rows",
        "effect": f"intervals are {'too narrow' if model.is_linear else 'unreliable'}",
    }
    far = _count_beyond(model, X, ribbon.undetermined, thresholds.UNDETERMINED_TOL)
    leaning = _count_beyond(model, X, ribbon.single, thresholds.SINGLE_ROW_TOL)
    return found("undetermined", far, **known), found("single_row", leaning, **known)


def _count_beyond(model, X, directions, limit):
    """Number of rows of X that move along any of the directions (p, m) by more than the limit."""
    count, width = 0, model.row_width + model.loss.n_outputs * directions.shape[1]
    for rows in row_blocks(X.shape[0], width) if directions.shape[1] else ():
        reach = np.abs(model.tangent(model.rows(X[rows])).jvp(directions)).max(axis=(1, 2))
        count += int((reach > limit).sum())
    return count


def weighted_mean(values, weight):
    """Mean over rows of positive weight; minus infinity if one of them is."""
    values, weight = values[weight > 0], weight[weight > 0]
    return -np.inf if np.any(values == -np.inf) else float(np.average(values, weights=weight))


class BaseRibbon(RibbonParameters, CallbackSupportMixin, Wrapper):
    """Methods that RibbonRegressor and RibbonClassifier share."""

    estimator_: Any
    _loo_: HeldOut
    _log_scores: Callable[[HeldOut], FloatArray]

    _latent, _raw, _raw_root, covariance_ = uncertain_latent, certain_raw, raw_root, property(parameter_covariance)

    def _fit_base_model(self, X, y, sample_weight, groups):
        """Fit the base model; returns its fitted attributes as a dict, and its training rows."""
        if is_lazy(X):
            fitted, rows = self._fit_lazily(X, y, sample_weight, groups)
        else:
            checked_groups(groups, len(y), np.ones(len(y)))  # raises before the base model is fitted
            fitted, model, weight = self._fit_base(X, y, sample_weight, self._seeded_estimator())
            X = own_copy(fitted["estimator_"], X) if model.preprocess else X
            rows = training_rows(model, X, targets_of(model, y), weight, checked_groups(groups, len(y), weight))
        rows = weighed(rows, self.weight_type)
        if rows.fractional or rows.n > thresholds.MANY_COPIES * rows.n_rows:
            other = "" if isinstance(self, ClassifierMixin) else ", 'exposure' for exposures and precisions"
            what = "has fractions" if rows.fractional else f"is {rows.n / rows.n_rows:.3g} on average"
            warn_user(
                f"sample_weight {what}, but counts as frequencies: intervals are those of {rows.n:.6g} "
                f"observations, not of {rows.n_rows} rows. Try: weight_type='importance' for survey weights and "
                f"inverse propensities{other}.",
                WeightWarning,
            )
        return fitted, rows

    def _seeded_estimator(self):
        """Base model; a network without a seed gets one, so that its early stopping can be traced."""
        estimator = self._get_estimator()
        if self.random_state is not None or not may_be_network(estimator):
            return estimator
        return seed_all(clone(estimator), check_random_state(None))

    def _fit_lazily(self, X, y, sample_weight, groups):
        """Fit the base model to Dask collections, partition by partition."""
        lazy = dask_backend()
        if self.store_loo:
            raise ValueError("store_loo needs rows in memory, but X is a Dask collection; use a sample of it.")
        table = lazy.Table.of(X, y, sample_weight, groups, self.verbose)
        estimator = self._get_estimator()
        self._check_kind(estimator)
        if sample_weight is not None or table.weighted:
            self._route_weight(estimator, np.ones(1))  # raises if the base model takes none

        def fit_on(start, X, y, weight):
            return self._fit_base(X, y, weight, start)[0]

        return lazy.fit_base_lazily(table, estimator, fit_on, parametric_model, isinstance(self, ClassifierMixin))

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the base model, if it has any."""
        return self.estimator_.coef_

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept of the base model, if it has one."""
        return self.estimator_.intercept_

    @property
    def loo_distribution_(self) -> Any:
        """Predictive distribution of each training row under the fit to all others; needs ``store_loo=True``."""
        return self._stored_loo().distribution

    @property
    def loo_score_(self) -> float:
        """Mean log density or log probability of training rows under ``loo_distribution_``, over rows and outputs."""
        outputs = self._stored_loo().outputs
        return float(np.mean([weighted_mean(self._log_scores(own), own.weight) for own in outputs]))

    def _stored_loo(self):
        """HeldOut record of the training rows; refuses access without ``store_loo``."""
        if not hasattr(self, "_loo_"):
            raise AttributeError("Leave-one-out results need a fit with store_loo=True.")
        return self._loo_

    def _html_repr(self) -> str:
        """Diagram for notebooks, with a table of the fitted choices."""
        diagram, facts = estimator_html_repr(self), self._facts()
        if not facts:
            return diagram
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in facts.items())
        return f"{diagram}<table class='skribbon-fitted'><caption>Fitted</caption>{cells}</table>"

    def _facts(self) -> dict[str, str]:
        """Fitted choices by name; empty before a fit."""
        if not hasattr(self, "ribbon_"):
            return {}
        if hasattr(self, "noise_"):
            law = type(self.law_).__name__ if self.model_.loss.additive else repr(self.model_.loss)
            own = {"noise": type(self.noise_).__name__, "law": law}
        else:
            own = {"probabilities": str(self.scaling_)}
        return facts_of(self) | own | {"held out": str(self.held_out_ or "no rows")}

    def with_alpha(self, alpha: float) -> Self:
        """Return the fitted Ribbon at another alpha, without refitting.

        Parameters
        ----------
        alpha : float
            Dirichlet concentration; larger means less uncertainty.

        Returns
        -------
        Ribbon of the same kind
            A copy that shares everything else. Drawn weights are rescaled, not redrawn.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True)
        >>> RibbonRegressor().fit(X, y).with_alpha(4.0).predict_std(X[:2], kind="epistemic").round(1)
        array([3.5, 3.3])
        """
        check_fitted(self)
        other = copy.copy(self)
        for scores in ("conformal_", "_folds_"):  # of one alpha
            other.__dict__.pop(scores, None)
        other.alpha = alpha
        shared_settings(other)  # checks alpha
        other.ribbon_ = self.ribbon_.at_alpha(alpha)
        if hasattr(self, "_loo_"):
            other._loo_ = self._loo_.at_alpha(alpha)
        return other

    def check_linearization(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: PerRow = None,
        groups: PerRow = None,
        *,
        n_refits: int = 5,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> LinearizationReport:
        """Compare the linear step, and the Newton step, with exact refits at the same Dirichlet weights.

        Each refit minimises the base model's objective at drawn weights. If the linear step moves predictions as the
        refits do, the ribbon agrees with refitting; if only the Newton step does, use ``predictive="newton"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The training rows; likewise y, ``sample_weight`` and ``groups``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,) or (n_samples, k), or tuple of k arrays, default=None
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
        >>> report = RibbonRegressor().fit(X, y).check_linearization(X, y, n_refits=3, random_state=0)
        >>> report.to_frame()["correlation"].round(2).tolist()
        [0.98, 0.98, 0.99]
        """
        rows = self._rows_again(X, y, sample_weight, groups)
        n_refits, rng = check_count(n_refits, "n_refits"), check_random_state(random_state)
        return compare_with_refits(rows, self.curvature_, self.ribbon_.alpha, n_refits, rng, verbose)

    def _rows_again(self, X, y, sample_weight, groups):
        """Training rows passed again; refuses another number of observations or groups."""
        X, y = validated(self, X), targets_of(self.model_, check_target(self, y))
        check_consistent_length(X, y)
        weight = checked_weight(sample_weight, X)
        group = checked_groups(groups, len(y), weight)
        rows = weighed(training_rows(self.model_, X, y, weight, group), self.weight_type)
        if not np.isclose(rows.n, self.n_observations_):
            raise ValueError(
                "X, y and sample_weight must be those that the estimator was fitted on: "
                f"{self.n_observations_:,.10g} observations, got {rows.n:,.10g}."
            )
        if rows.n_groups != self.n_groups_:
            raise ValueError("groups must be those that the estimator was fitted with.")
        return rows

    def _training_again(self, X, y, sample_weight, groups):
        """Training of the training rows passed again; refuses rows with another gradient."""
        rows, curvature = self._rows_again(X, y, sample_weight, groups), self.curvature_
        correction, clip = self.correction_.replace("CR", "HC"), Clip(self.clip_scores, self.clip_steps)
        training = Training.from_rows(_centred(rows, curvature), curvature, correction, clip)
        asked = getattr(self.curvature, "damping", self.damping)
        before = training if asked == curvature.damping else training.at_damping(asked)  # as at the fit, before damping
        if abs(before.stationarity - self.stationarity_) > thresholds.SAME_GRADIENT * (1 + self.stationarity_):
            raise ValueError(
                "Training rows X, y, sample_weight and groups must be those that the estimator was fitted on: their "
                f"gradient was {self.stationarity_:.2g} standard errors, and is now {before.stationarity:.2g}."
            )
        return training


def facts_of(ribbon: Any) -> dict[str, str]:
    """Facts about a fit that its estimator knows, by name."""
    facts = {
        "base model": one_line(fitted_leaf(ribbon.estimator_)),
        "observations": _number(ribbon, "n_observations_", ",.10g"),
        "groups": _number(ribbon, "n_groups_", ",.10g"),
        "effective parameters": _number(ribbon, "effective_parameters_"),
        "stationarity": _number(ribbon, "stationarity_"),
        "alpha": _number(ribbon, "alpha"),
        "temperature": _number(ribbon, "temperature_"),
        "curvature": one_line(ribbon.curvature_),
        "correction": getattr(ribbon, "correction_", getattr(ribbon, "correction", None)),
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _number(ribbon, name, digits=".4g"):
    value = getattr(ribbon, name, None)
    return None if value is None else " x ".join(f"{number:{digits}}" for number in np.atleast_1d(value))


def one_line(estimator: Any) -> str:
    """Representation of an estimator without line breaks."""
    return " ".join(repr(estimator).split())


def warn_of_training_rows(estimator, X, y, weight):
    """Warn if calibration rows of a Ribbon are its training rows."""
    if are_training_rows(estimator, X, y, weight):
        warn_user(
            "The calibration rows are those that the model was fitted on, so intervals are too narrow and their "
            "coverage is not guaranteed. Try: set rows aside for conformalize.",
            CalibrationWarning,
        )


def are_training_rows(estimator, X, y, weight):
    """Whether rows are the training rows of a fitted estimator, recognised by a zero mean gradient."""
    if not np.isclose(weight.sum(), getattr(estimator, "n_observations_", np.nan)):
        return False
    model = estimator.model_
    moments = training_rows(model, validated(estimator, X), y, weight).sum(_score_moments)
    mean, error = moments.g_bar + model.penalty_gradient, moments.standard_error
    return bool((error > 0).any() and np.mean((mean[error > 0] / error[error > 0]) ** 2) < thresholds.SAME_ROWS**2)


def _score_moments(block):
    """Sums of the scores and of their squares, without a curvature."""
    return Moments(block.total(), block.score_sum(block.u), block.score_squares(block.u), 0.0, 0.0, 0.0)
