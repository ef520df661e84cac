"""RibbonCV: alpha and temperature chosen on held-out rows."""

import time
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if

from .._predict.held_out import HeldOutSummary
from .._utils import checks
from .._utils.compat import CallbackSupportMixin, VersionedEstimator, public_fit, routing_enabled
from .._utils.typing import MatrixLike, PerRow, Scorer
from .._utils.unwrap import is_frozen, may_be_network
from ..conformal.left_out import CrossConformal
from ..exceptions import noted_warnings, warn_once_per_kind
from ..noise.fit import law_of_held_out
from ..noise.scale import HeteroskedasticNoise
from . import folds
from .alpha_path import Search, choose
from .base_model import adopt, dask_backend, features_of
from .classifier import RibbonClassifier
from .held_out import class_folds, has_many_parameters, n_refits, refitted, unseen_folds
from .regressor import RibbonRegressor
from .ribbon import BaseRibbon
from .settings import Settings

REGRESSION = ("nll", "coverage", "crps", "interval_score")
CLASSIFICATION = ("nll", "brier", "ece")
ALPHAS = np.logspace(-4, 2, 37)  # six per factor of ten: neighbours score alike
CLASS_ALPHAS = np.logspace(-2, 2, 5)  # few: a temperature leaves little to alpha

P = ParamSpec("P")
R = TypeVar("R")


def _delegated(original: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate["RibbonCV", P], R]:
    """Method that calls the fitted Ribbon's method of this name; available only if the Ribbon has it."""
    name = original.__name__

    def has_method(self):
        return getattr(getattr(self, "estimator_", None) or self._get_ribbon(), name)  # raises if there is none

    @available_if(has_method)
    @wraps(original)
    def method(self, *args, **kwargs):
        checks.check_fitted(self, "estimator_")
        result = getattr(self.estimator_, name)(*args, **kwargs)
        return self if result is self.estimator_ else result

    return method


@dataclass(repr=False, eq=False)
class RibbonCV(CallbackSupportMixin, MetaEstimatorMixin, VersionedEstimator):
    r"""Ribbon whose alpha, and for classifiers whose temperature, is chosen on held-out rows.

    By default the base model is refitted without each of five folds and fitted once to all rows; only the alphas are
    scored without refitting. Base fits in all: 6 for linear models, GLMs and classifiers (4 for a classifier of more
    than 8,333 rows); 6 for a network with at least 0.15 parameters per row, and 7 with fewer. ``cv="loo"`` takes a
    single base fit, and a fitted Ribbon in a :class:`~sklearn.frozen.FrozenEstimator` takes none.

    Parameters
    ----------
    estimator : estimator, default=None
        A RibbonRegressor, a RibbonClassifier, or a bare base model, which is wrapped in the matching one;
        RibbonRegressor() if None. A *fitted* Ribbon in a :class:`~sklearn.frozen.FrozenEstimator` is tuned on the rows
        given to ``fit``, all of which are then validation rows.
    alphas : array-like of positive floats, default=None
        Candidates; if None, 37 values from 1e-4 to 100 for regressors, and 5 values from 0.01 to 100 for classifiers.
        At each alpha, a classifier with ``temperature="auto"`` has the temperature, bias and averaging that held-out
        rows support.
    scoring : str or callable, default=None
        For regressors "nll", "crps", "interval_score" or "coverage"; for classifiers "nll", "brier" or "ece"; or the
        name of a scikit-learn scorer, or a callable ``(estimator, X, y)``, greater is better. "nll" if None. "coverage"
        is the paper's choice: the alpha, also between the candidates, at which the pooled empirical coverage of the
        ``confidence_level`` intervals is nearest to the level. With any other score alpha stays 1 unless another value
        is better by a standard error, and by 0.005 nats or 0.5% of the score. Named scores of classifiers use at most
        5,000 held-out rows, or 200,000 / K^2 and at least 1,000 rows of more than six classes.
    confidence_level : float, default=0.9
        Level of the intervals scored by "coverage" and "interval_score".
    cv : int, splitter, iterable or "loo", default=None
        A splitter or an iterable as in scikit-learn, or a number of folds; five if None, of which a classifier of many
        rows uses three. Unlike scikit-learn's, these folds do not depend on the order, scale or shift of the rows, and
        identical rows share a fold, except in tables of categories, where they are spread evenly. "loo" scores
        every row under the fit to all others, by one Newton step from a single fit, without refits. It keeps what
        ``store_loo=True`` of the Ribbon does: targets and predictions of all rows, for intervals of kind "jackknife+".
        For a Dask table: a number of folds by position, or "partitions", which holds out whole partitions in five
        folds; at most 20,000 held-out rows per fold are scored.
    store_folds : bool, default=False
        Keep the fits of the folds, for intervals of kind "cv+", whose coverage is guaranteed.
    n_jobs : int, default=None
        Number of folds to fit in parallel.
    verbose : int, default=0
        If positive, print a line per fold. With scikit-learn 1.9 or newer, ``set_callbacks(ProgressBar())`` shows a bar
        over the folds; see :class:`sklearn.callback.ProgressBar`.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    temperature_ : float
        The chosen temperature. Classifiers only.
    best_score_ : float
        Score of the choice, greater is better; for "coverage", minus the distance from the level.
    cv_results_ : dict of ndarray
        ``alpha``, ``temperature`` for a classifier, and for every metric
        ``mean_test_*``, ``std_test_*`` and ``split*_test_*``; ready for ``pandas.DataFrame``.
    held_out_ : HeldOutSummary
        Source of the held-out predictions that were scored, and the number of base fits for them.
    estimator_ : RibbonRegressor or RibbonClassifier
        Fitted on all rows with ``alpha_`` and the temperature chosen with it.
    classes_ : ndarray of shape (K,)
        Classifiers only.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    RibbonRegressor : A Ribbon at a fixed alpha, for regression.
    RibbonClassifier : A Ribbon at a fixed alpha, for classification.
    skribbon.plotting.AlphaPathDisplay : Plot the scores along alpha.
    cross_val_interval : Intervals of rows by fits that have not seen them.

    Notes
    -----
    Alpha is only a factor of the covariance, so all alphas are scored in closed form:

    .. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1}.

    User guide: :doc:`/user_guide/alpha`, :doc:`/user_guide/guarantees`.

    References
    ----------
    * Gibson, G., Tipton, J., Rumsey, K. and Klein, N. Ribbon: Scalable Approximation and Robust Uncertainty
      Quantification.
    * Newton, M. A. and Raftery, A. E. (1994). Approximate Bayesian Inference with the Weighted Likelihood Bootstrap.
      Journal of the Royal Statistical Society B 56.
    * Giordano, R., Stephenson, W., Liu, R., Jordan, M. I. and Broderick, T. (2019). A Swiss Army Infinitesimal
      Jackknife. AISTATS.
    * Barber, R. F., Candès, E. J., Ramdas, A. and Tibshirani, R. J. (2021). Predictive Inference with the Jackknife+.
      Annals of Statistics 49.

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tuned = RibbonCV(Ridge(alpha=0.1), scoring="nll").fit(X, y)
    >>> round(tuned.alpha_, 2)
    1.0
    >>> tuned.predict_interval(X[:1]).round(0)
    array([[102., 297.]])
    """

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    alphas: ArrayLike | None = None
    scoring: str | Scorer | None = None
    confidence_level: float = 0.9
    cv: int | BaseCrossValidator | Iterable | Literal["loo"] | None = None
    store_folds: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    # ------------------------------------------------------------------ fit
    @public_fit
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None, groups: PerRow = None) -> Self:
        """Choose alpha and fit a Ribbon with it on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Scores are averaged over several outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Used in the fits and the scores; the ``weight_type`` of the Ribbon says what it means.
        groups : array-like of shape (n_samples,) or (n_samples, k), or tuple of k arrays, default=None
            Group labels: rows with the same label may depend on each other. Each group gets one Dirichlet weight, and
            folds keep it together if ``cv`` is a number or None. Any other splitter is passed the labels too.

        Returns
        -------
        self : RibbonCV
        """
        names, ribbon = getattr(y, "columns", None), self._get_ribbon()
        y, search = checks.check_target(self, y), self._search(ribbon)
        table = self._checked_columns(X, y, sample_weight, groups)
        shared = self._shared_folds(ribbon, search, *table)
        found, notes = shared or self._folds(ribbon, *table)
        best = choose(found, search)
        summary = HeldOutSummary.from_records([fold.held_out for fold in found])
        with noted_warnings(notes, None):
            final = self._refit(ribbon, best, shared is not None, *table)
        if best.scaling is not None:
            final.held_out_ = summary
        warn_once_per_kind(notes, len(found))
        if names is not None and hasattr(final, "output_names_"):
            final.output_names_ = np.asarray(names)
        if self.store_folds:
            ribbons = [fold.at(best.alpha, best.scaling) for fold in best.folds]
            final._folds_ = CrossConformal.from_held_out(ribbons, best.records)
        fitted = {"alpha_": best.alpha, "best_score_": best.score, "cv_results_": best.results}
        fitted |= {"estimator_": final, "held_out_": summary}
        if best.scaling is not None:
            fitted["temperature_"] = best.scaling.temperature
        return adopt(self, fitted | features_of(final))

    def _checked_columns(self, X, y, sample_weight, groups):
        """Checked X, y, weights and groups; a Dask table takes the place of X and y."""
        if checks.is_lazy(X):
            table = dask_backend().Table.of(X, y, sample_weight, groups, self.verbose)
            return table, table, None, None
        X, y, sample_weight, groups = indexable(X, y, sample_weight, checks.group_labels(groups))
        if sample_weight is not None:
            sample_weight = checks.checked_weight(sample_weight, X)
        if groups is not None:
            checks.crossed_codes(groups, len(y))  # raises if labels are missing
        return X, y, sample_weight, groups

    def _folds(self, ribbon, X, y, sample_weight, groups):
        """Folds with a Ribbon each, and the warnings of their fits."""
        lazy = checks.is_lazy(X)
        self._check_folds(ribbon, lazy)
        if isinstance(ribbon, FrozenEstimator):
            rows = dask_backend().some_rows(X, is_classifier(ribbon)) if lazy else (X, y, sample_weight, groups)
            return [folds.Fold.from_rows(ribbon.estimator, *rows, origin="calibration", n_fits=0)], []
        fit_params, split_params = self._routed(sample_weight, groups)
        if self._leave_one_out:
            return [folds.leave_one_out_fold(ribbon, X, y, sample_weight, fit_params)], []
        if pooled := _noise_from_folds(ribbon):
            ribbon = clone(ribbon).set_params(noise="dof")
        if lazy:
            splits = folds.splits_of_table(X, self.cv, is_classifier(self))
        else:
            splits = self._splits(X, y, sample_weight, groups, fit_params, split_params)
        found, notes = folds.fit_folds(self, ribbon, *splits, None if lazy else self.n_jobs)
        return (folds.with_pooled_noise(found) if pooled else found), notes

    def _shared_folds(self, ribbon, search, X, y, sample_weight, groups):
        """Folds that share one Ribbon, of all rows, and warnings; None if each fold needs its own.

        Classifiers share one, and networks that may have memorized their rows: the base model alone is refitted without
        each fold.
        """
        classes = is_classifier(self)
        own_fits = self.store_folds or self._leave_one_out or checks.is_lazy(X) or callable(search.scoring)
        if own_fits or isinstance(ribbon, FrozenEstimator) or is_frozen(ribbon._get_estimator()):
            return None
        automatic = checks.is_name(ribbon.held_out, "auto") and not _noise_from_folds(ribbon)
        if not classes and not (automatic and may_be_network(ribbon._get_estimator())):
            return None
        notes, (fit_params, split_params) = [], self._routed(sample_weight, groups)
        own = clone(ribbon)
        first = clone(ribbon).set_params(n_jobs=self.n_jobs, verbose=self.verbose)
        table = X, y, *(fit_params.get(name) for name in ("sample_weight", "groups"))
        with noted_warnings(notes, None):
            base = first._fit_base_model(*table)
            if not classes and not has_many_parameters(base[1]):
                return None
            positions = self._positions(X, y, sample_weight, groups, split_params)
            if classes and self.cv is None:
                positions = positions[: n_refits(base[1])]
            unseen = refitted(first, base[0]["estimator_"], positions, base[1].model, base[1], table, self)
            settings = Settings.from_classifier(own) if classes else Settings.from_regressor(own, y)
            own._fit_around(settings, base, table, unseen=unseen, records=(records := []))
        return (class_folds if classes else unseen_folds)(own, unseen, records, X, y), notes

    def _check_folds(self, ribbon, lazy):
        """Refuse parameters that do not go together."""
        frozen, pooled, loo = isinstance(ribbon, FrozenEstimator), _noise_from_folds(ribbon), self._leave_one_out
        for_table = (folds.is_number_of_folds(self.cv) or checks.is_name(self.cv, "partitions")) and not pooled
        if self.store_folds and lazy:
            raise ValueError("store_folds needs rows in memory, but X is a Dask collection; use a sample.")
        if self.store_folds and (loo or frozen):
            raise ValueError("store_folds needs folds: with cv='loo' use kind='jackknife+', else conformalize.")
        if lazy and not (frozen or for_table):
            raise ValueError(
                "For a Dask table cv must be a number of folds or 'partitions', which holds out whole partitions, and "
                f"noise must not be 'cv'; got cv={self.cv!r}."
            )
        if loo and pooled and not frozen:
            raise ValueError("noise='cv' needs folds; with cv='loo' use noise='loo'.")
        if not (frozen or lazy or loo) and is_frozen(ribbon._get_estimator()):
            raise ValueError(
                "The base model is frozen, so folds would be scored on rows that it was fitted on. Fit the Ribbon and "
                "use RibbonCV(FrozenEstimator(ribbon)).fit(X_validation, y_validation), or cv='loo'."
            )

    def _positions(self, X, y, sample_weight, groups, split_params):
        """Positions of training and held-out rows of every fold; refuses folds without a class or without weight."""
        found = folds.split_positions(self.cv, X, y, groups, is_classifier(self), split_params, sample_weight)
        classes = np.unique(y) if is_classifier(self) else np.zeros(0)
        for k, (train, test) in enumerate(found, start=1):
            if len(classes) and len(missing := np.setdiff1d(classes, y[train])):
                lacking = f"Fold {k} of {len(found)} has no training rows of class {missing.tolist()}"
                raise ValueError(f"{lacking}; use fewer folds, or a stratified cv.")
            if sample_weight is not None and not all(sample_weight[rows].sum() > 0 for rows in (train, test)):
                one_side = f"All rows on one side of fold {k} of {len(found)} have a weight of zero"
                raise ValueError(f"{one_side}; drop those rows, or shuffle the folds.")
        return found

    def _splits(self, X, y, sample_weight, groups, fit_params, split_params):
        """Number of folds of rows in memory, and an iterator of Splits."""
        found = self._positions(X, y, sample_weight, groups, split_params)
        if self.store_folds and not folds.holds_out_each_once(found, len(y)):
            raise ValueError("store_folds needs a cv that holds out each row exactly once, such as KFold.")
        names, rows = (f"fold {k} of {len(found)}" for k in range(1, len(found) + 1)), (sample_weight, fit_params)
        return len(found), (folds.Split.from_rows(name, X, y, *s, *rows) for name, s in zip(names, found, strict=True))

    @property
    def _leave_one_out(self):
        return checks.is_name(self.cv, "loo")

    def _routed(self, sample_weight, groups):
        """Parameters for the Ribbon's ``fit`` and for the splitter's ``split``, two dicts."""
        given = {"sample_weight": sample_weight, "groups": groups}
        given = {name: value for name, value in given.items() if value is not None}
        if routing_enabled():
            routed = process_routing(self, "fit", **given)
            given, for_splitter = dict(routed.estimator.fit), dict(routed.splitter.split)
        else:
            for_splitter = {name: value for name, value in given.items() if name == "groups"}
        if "groups" in for_splitter:
            for_splitter["groups"] = checks.coarsest(for_splitter["groups"], len(groups))
        return given, for_splitter

    def _refit(self, ribbon, best, shared, X, y, sample_weight, groups):
        """Fit the chosen Ribbon to all rows, or rescale a Ribbon that is fitted to them already."""
        frozen = isinstance(ribbon, FrozenEstimator)
        if frozen or shared or (self._leave_one_out and ribbon.predictive == "gaussian"):
            final = best.folds[0].at(best.alpha, best.scaling)
            return final if frozen or best.scaling is None else _with_settings(final, ribbon)
        start = time.perf_counter()
        fit_params, _ = self._routed(sample_weight, groups)
        final = folds.on_one_fit(ribbon).set_params(alpha=best.alpha)  # alpha was chosen for such fits
        if _noise_from_folds(ribbon):
            final.set_params(noise=best.folds[0].ribbon.noise_.dispersion_)
        if _law_from_folds(ribbon, best.folds[0]):
            final.set_params(law=law_of_held_out([fold.held_out for fold in best.folds], best.alpha))
        final = folds.fit_quietly(final, X, y, fit_params)
        if best.scaling is not None:
            final = _with_settings(final, ribbon)._with_scaling(best.scaling)
        if self.verbose:
            seconds, n = time.perf_counter() - start, final.n_observations_
            print(f"[RibbonCV] all {n:,.10g} observations with alpha = {best.alpha:.4g}: {seconds:.2f} s")
        return final

    # ------------------------------------------------------------------ checks
    def _search(self, ribbon):
        """Check and parse the parameters of the search."""
        usual = CLASS_ALPHAS if is_classifier(ribbon) else ALPHAS
        alphas = usual.copy() if self.alphas is None else _checked_alphas(self.alphas)
        level, scoring = checks.check_single_level(self.confidence_level), self._checked_scoring(ribbon)
        inside = ribbon.estimator if isinstance(ribbon, FrozenEstimator) else ribbon
        return Search(alphas, level, scoring, checks.is_name(getattr(inside, "temperature", None), "auto"))

    def _checked_scoring(self, ribbon):
        """Name of a built-in score, or a scorer."""
        kind, known = ("classifier", CLASSIFICATION) if is_classifier(ribbon) else ("regressor", REGRESSION)
        scoring, names = known[0] if self.scoring is None else self.scoring, ", ".join(map(repr, known))
        if scoring in known:
            return scoring
        if scoring in REGRESSION + CLASSIFICATION:
            raise ValueError(f"scoring={scoring!r} does not apply to a {kind}; use one of {names}.")
        try:
            scoring = get_scorer(scoring)
        except ValueError as error:
            named = f"scoring must be one of {names}, a scikit-learn scorer or a callable"
            raise ValueError(f"{named}, got {scoring!r}.") from error
        if self._leave_one_out:
            raise ValueError(f"cv='loo' has no estimator per row for a scorer; use one of {names}, or folds.")
        if getattr(scoring, "reports", False):
            raise ValueError(f"scoring={scoring!r} would choose the widest intervals; use 'coverage'.")
        return scoring

    # ------------------------------------------------------------------ predict
    check_linearization = _delegated(BaseRibbon.check_linearization)
    predict_distribution = _delegated(RibbonRegressor.predict_distribution)
    predict = _delegated(RibbonRegressor.predict)
    predict_interval = _delegated(RibbonRegressor.predict_interval)
    conformalize = _delegated(RibbonRegressor.conformalize)
    output = _delegated(RibbonRegressor.output)
    predict_quantiles = _delegated(RibbonRegressor.predict_quantiles)
    predict_std = _delegated(RibbonRegressor.predict_std)
    predict_samples = _delegated(RibbonRegressor.predict_samples)
    predict_frame = _delegated(RibbonRegressor.predict_frame)
    log_density = _delegated(RibbonRegressor.log_density)
    predictive_cdf = _delegated(RibbonRegressor.predictive_cdf)
    predict_proba = _delegated(RibbonClassifier.predict_proba)
    predict_log_proba = _delegated(RibbonClassifier.predict_log_proba)
    predict_proba_samples = _delegated(RibbonClassifier.predict_proba_samples)
    predict_proba_interval = _delegated(RibbonClassifier.predict_proba_interval)
    predict_set = _delegated(RibbonClassifier.predict_set)
    decision_function = _delegated(RibbonClassifier.decision_function)

    def with_alpha(self, alpha: float) -> RibbonRegressor | RibbonClassifier:
        """Return the fitted Ribbon at another alpha, without refitting.

        Parameters
        ----------
        alpha : float
            Dirichlet concentration; larger means less uncertainty.

        Returns
        -------
        RibbonRegressor or RibbonClassifier
            A copy of ``estimator_`` that shares everything else. Drawn weights are rescaled, not redrawn.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True)
        >>> RibbonCV().fit(X, y).with_alpha(4.0).predict_std(X[:2], kind="epistemic").round(1)
        array([3.5, 3.3])
        """
        checks.check_fitted(self, "estimator_")
        return self.estimator_.with_alpha(alpha)

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None) -> float:
        """R^2 of a regressor, or accuracy of a classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        checks.check_fitted(self, "estimator_")
        return self.estimator_.score(X, y, sample_weight=sample_weight)

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels of a classifier."""
        return self.estimator_.classes_

    coef_ = BaseRibbon.coef_
    intercept_ = BaseRibbon.intercept_

    # ------------------------------------------------------------------ scikit-learn's conventions
    _html_repr = BaseRibbon._html_repr

    def _facts(self):
        if not hasattr(self, "alpha_"):
            return {}
        return self.estimator_._facts() | {"best score": f"{self.best_score_:.4g}"}

    def _get_ribbon(self):
        """Ribbon to tune: the given one, one around a bare base model, or the default."""
        estimator = self.estimator
        inside = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
        if isinstance(inside, BaseRibbon):
            return estimator
        if estimator is not None and not hasattr(estimator, "fit"):
            raise TypeError(f"estimator must be a Ribbon or a base model with a fit method, got {estimator!r}.")
        classifier = estimator is not None and is_classifier(estimator)
        ribbon = (RibbonClassifier if classifier else RibbonRegressor)(estimator)
        return ribbon.set_fit_request(sample_weight=True, groups=True) if routing_enabled() else ribbon

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing: ``sample_weight`` and ``groups`` to the Ribbon's ``fit``, ``groups`` to the splitter too.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router.add(estimator=self._get_ribbon(), method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        splitter, to_split = check_cv(None if self._leave_one_out else self.cv), MethodMapping()
        return router.add(splitter=splitter, method_mapping=to_split.add(caller="fit", callee="split"))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            inner = get_tags(self._get_ribbon())
        except (AttributeError, TypeError):
            return tags
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.non_deterministic = inner.non_deterministic
        return tags


def _checked_alphas(values):
    """Candidates in ascending order."""
    alphas = np.unique(np.asarray(values, dtype=float))
    if alphas.size == 0 or not np.all(np.isfinite(alphas) & (alphas > 0)):
        raise ValueError(f"alphas must be a non-empty sequence of finite numbers > 0, got {values!r}.")
    return alphas


def _with_settings(final, ribbon):
    """Fitted classifier with the parameters that the user has set."""
    return final.set_params(temperature=ribbon.temperature, held_out=ribbon.held_out)


def _law_from_folds(ribbon, fold):
    """Whether held-out rows choose the noise distribution: "auto", for additive noise whose scale is learnt too."""
    if is_classifier(ribbon) or not (checks.is_name(ribbon.law, "auto") and fold.ribbon.model_.loss.additive):
        return False
    noises = getattr(fold.ribbon.noise_, "noises", (fold.ribbon.noise_,))  # one for each of several outputs
    return checks.is_name(ribbon.noise, "auto") or any(isinstance(noise, HeteroskedasticNoise) for noise in noises)


def _noise_from_folds(ribbon):
    """Whether the noise is the mean square of out-of-fold residuals."""
    return checks.is_name(getattr(ribbon, "noise", None), "cv")
