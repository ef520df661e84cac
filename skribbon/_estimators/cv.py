"""RibbonCV: alpha and temperature tuned on held-out rows, at no cost beyond the fits of the folds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial, wraps
from numbers import Integral
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import BaseCrossValidator, GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed

from .._utils.checks import check_fitted, check_single_level, check_target, checked_weight, group_codes, is_lazy
from .._utils.compat import routing_enabled
from .._utils.typing import MatrixLike, Scorer
from ..conformal.left_out import CrossConformal, distribution_scores, own_class_scores
from ..exceptions import (
    FlexibleModelWarning,
    NotStationaryWarning,
    noted_warnings,
    warn_once_per_kind,
)
from ..noise.scale import HeteroskedasticNoise
from .alpha_path import (
    Path,
    Split,
    Temperatures,
    fit_fold,
    fit_quietly,
    law_of_folds,
    leave_one_out_folds,
    rows_to_compare,
    settled,
    stacked,
    validate,
    warn_at_edge,
    with_pooled_noise,
)
from .base_model import adopt, dask_room, features_of
from .classifier import RibbonClassifier
from .regressor import RibbonRegressor
from .ribbon import BaseRibbon

REGRESSION = ("nll", "coverage", "crps", "interval_score")
DAMPINGS = (1e-3, 1e-2, 1e-1, 1.0)  # tried without being asked if a model is flexible enough to follow its rows closely
CLASSIFICATION = ("nll", "brier", "ece")

P = ParamSpec("P")
R = TypeVar("R")


def _delegated(original: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[RibbonCV, P], R]:
    """A Ribbon's method, delegated to the fitted Ribbon; available only if that one has it."""
    name = original.__name__

    def has_method(self):
        return hasattr(getattr(self, "estimator_", None) or self._get_ribbon(), name)

    @available_if(has_method)
    @wraps(original)
    def method(self, *args, **kwargs):
        check_fitted(self, "estimator_")
        result = getattr(self.estimator_, name)(*args, **kwargs)
        return self if result is self.estimator_ else result

    return method


class RibbonCV(MetaEstimatorMixin, BaseEstimator):
    r"""A Ribbon whose alpha, and for classifiers whose temperature, is chosen on held-out rows.

    Each fold costs one base fit and one curvature; the whole path of alphas is then scored in closed form, because
    alpha enters the covariance only as a factor,

    .. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1}.

    Parameters
    ----------
    estimator : estimator, default=None
        A RibbonRegressor, a RibbonClassifier, or a bare base model, which is wrapped in the matching one;
        RibbonRegressor() if None. A *fitted* Ribbon in a :class:`~sklearn.frozen.FrozenEstimator` is tuned on the rows
        given to ``fit``, all of which are then validation rows.
    alphas : array-like of positive floats, default=None
        Candidates; 37 values from 1e-4 to 100 if None.
    scoring : str or callable, default=None
        For regressors "nll", "crps", "interval_score" or "coverage"; for classifiers "nll", "brier" or "ece"; or the
        name of a scikit-learn scorer, or a callable ``(estimator, X, y)``, greater is better. "nll" if None. "coverage"
        is the paper's choice: the alpha, also between the candidates, at which the pooled empirical coverage of the
        ``confidence_level`` intervals is nearest to the level. With any other score alpha stays 1 unless another value
        is better by a standard error, and by 0.005 nats or half a per cent of the score. With K > 2 classes, named
        scores use at most 2,000 or 1,000,000 / K^2 rows, whichever is more; scores more than 0.1 nats from the best are
        computed to a hundredth only.
    dampings : array-like of floats >= 0, "auto" or None, default="auto"
        Candidates for the Ribbon's ``damping``, chosen together with alpha; they need no further base fits. None keeps
        the Ribbon's ``damping``; so does "auto", unless the model is nonlinear and has more than 15 parameters per 100
        rows: then 0.001, 0.01, 0.1 and 1 are tried too.
    temperatures : array-like of positive floats, default=None
        Candidates for a classifier's ``temperature``, chosen together with alpha. Both stay 1 unless another pair is
        better by a standard error; then the pair closest to 1 within a standard error of the best is taken, where a
        change of temperature is preferred to one of alpha. None climbs from 1 to the best of 19 values from 0.56 to
        100; ``[1.0]`` does not tune it.
    confidence_level : float, default=0.9
        Level of the intervals scored by "coverage" and "interval_score".
    cv : int, splitter, iterable or "loo", default=None
        As in scikit-learn; five folds if None. "loo" scores every row under the fit to all others, by one Newton step
        from a single fit, so that tuning costs no refit at all. For a Dask table: a number of folds, or "partitions",
        which holds out whole partitions in five folds; at most 20,000 held-out rows per fold are scored.
    store_folds : bool, default=False
        Keep the fits of the folds, for intervals of kind "cv+", whose coverage is guaranteed, without further fits.
    n_jobs : int, default=None
        Number of folds to fit in parallel.
    verbose : int, default=0
        If positive, print a line per fold.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    temperature_ : float
        The chosen temperature. Classifiers only.
    best_score_ : float
        Score of the choice, greater is better; for "coverage", minus the distance from the level.
    cv_results_ : dict of ndarray
        ``alpha``, ``temperature`` for a classifier, ``damping`` if there are candidates, and for every metric
        ``mean_test_*`` and ``split*_test_*``; ready for ``pandas.DataFrame``.
    estimator_ : RibbonRegressor or RibbonClassifier
        Fitted on all rows with ``alpha_`` and the temperature and damping chosen with it.
    classes_ : ndarray of shape (K,)
        Classifiers only.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tuned = RibbonCV(Ridge(alpha=0.1), scoring="nll").fit(X, y)
    >>> round(tuned.alpha_, 2)
    1.0
    >>> tuned.predict_interval(X[:1]).round(0)
    array([[103., 297.]])
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        alphas: ArrayLike | None = None,
        scoring: str | Scorer | None = None,
        dampings: ArrayLike | Literal["auto"] | None = "auto",
        temperatures: ArrayLike | None = None,
        confidence_level: float = 0.9,
        cv: int | BaseCrossValidator | Iterable | Literal["loo"] | None = None,
        store_folds: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.alphas = alphas
        self.scoring = scoring
        self.dampings = dampings
        self.temperatures = temperatures
        self.confidence_level = confidence_level
        self.cv = cv
        self.store_folds = store_folds
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ------------------------------------------------------------------ fit
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose alpha and fit a Ribbon with it on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Scores are averaged over several outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies; used in the fits and the scores.
        groups : array-like of shape (n_samples,), default=None
            Group labels: rows with the same label may depend on each other. Each group gets one Dirichlet weight, and
            folds keep it together if ``cv`` is a number or None. Any other splitter is passed the labels too.

        Returns
        -------
        self : RibbonCV
        """
        names, alphas, ribbon = getattr(y, "columns", None), self._checked_alphas(), self._get_ribbon()
        y = check_target(self, y)
        level, scoring = check_single_level(self.confidence_level), self._checked_scoring(ribbon)
        if is_lazy(X):
            X = y = dask_room().Table.of(X, y, sample_weight, groups, self.verbose)
            sample_weight = groups = None  # which the table has
        X, y, sample_weight, groups = self._checked_columns(X, y, sample_weight, groups)
        ribbons, n_sure = self._candidates(ribbon)
        temperatures = self._checked_temperatures(ribbon)
        notes: list[tuple] = []  # warnings from the folds and from the final fit
        folds = self._folds(ribbons, n_sure, X, y, sample_weight, groups, notes)
        chosen, best, table = self._choose(folds, ribbons, temperatures, alphas, level, scoring)
        if len(alphas) > 1:
            warn_at_edge(best, alphas, level, scoring)
        with noted_warnings(notes, None):
            final = self._refit(ribbons[chosen], folds[chosen][0].ribbon, best, X, y, sample_weight, groups)
        warn_once_per_kind(notes, len(folds[0]))
        if names is not None and hasattr(final, "output_names_"):
            final.output_names_ = np.asarray(names)
        if self.store_folds:
            final._folds_ = _crossed(best)
        fitted = {
            "alpha_": best.alpha,
            "best_score_": best.score,
            "cv_results_": table,
            "estimator_": final,
        }
        if temperatures is not None:
            fitted["temperature_"] = final.temperature
        return adopt(self, fitted | features_of(final))

    @staticmethod
    def _checked_columns(X, y, sample_weight, groups):
        """Everything that was passed, checked row by row; a Dask table checks itself."""
        if is_lazy(X):
            return X, y, sample_weight, groups
        X, y, sample_weight, groups = indexable(X, y, sample_weight, groups)
        if sample_weight is not None:
            sample_weight = checked_weight(sample_weight, X)
        if groups is not None:
            group_codes(groups, len(y))  # raises if they are unusable
            groups = np.asarray(groups).ravel()
        return X, y, sample_weight, groups

    def _candidates(self, ribbon):
        """The Ribbon at every damping to try, and how many of them are tried in any case."""
        automatic = isinstance(self.dampings, str) and self.dampings == "auto"
        if self.dampings is None or (automatic and not _has_automatic_damping(ribbon)):
            return [ribbon], 1
        if automatic:
            return [ribbon, *(_at_damping(ribbon, value) for value in DAMPINGS)], 1
        if isinstance(ribbon, FrozenEstimator):
            raise ValueError("dampings need a curvature each, but the Ribbon is frozen; leave dampings=None.")
        values = _checked_values(self.dampings, "dampings", "'auto', None or ", lowest=0.0)
        return [_at_damping(ribbon, value) for value in values], len(values)

    def _folds(self, ribbons, n_sure, X, y, sample_weight, groups, notes):
        """A list of folds for every candidate; ``notes`` gets their warnings."""
        ribbon, lazy = ribbons[0], is_lazy(X)
        self._check_folds(ribbon, lazy)
        if isinstance(ribbon, FrozenEstimator):
            rows = dask_room().some_rows(X, is_classifier(ribbon)) if lazy else (X, y, sample_weight, groups)
            return [[validate(ribbon.estimator, *rows)]]
        fit_params, split_params = self._routed(sample_weight, groups)
        if self._leave_one_out:
            return [[fold] for fold in leave_one_out_folds(ribbons[:n_sure], X, y, sample_weight, fit_params)]
        if pooled := _noise_from_folds(ribbon):
            ribbons = [clone(ribbon).set_params(noise="dof") for ribbon in ribbons]
        if lazy:
            results = [fit_fold(ribbons, n_sure, split, self.verbose) for split in self._lazy_splits(X)]
        else:
            splits = self._splits(X, y, sample_weight, groups, fit_params, split_params)
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(fit_fold)(ribbons, n_sure, split, self.verbose) for split in splits
            )
        notes.extend(note for _, said in results for note in said)
        # a fold that lacks a category has fewer parameters, and may need no damping: only what all folds share counts
        by_candidate = [list(same) for same in zip(*(folds for folds, _ in results), strict=False)]
        return [with_pooled_noise(same) for same in by_candidate] if pooled else by_candidate

    def _check_folds(self, ribbon, lazy):
        """Refuse what these folds cannot do."""
        frozen, noise_from_folds = isinstance(ribbon, FrozenEstimator), _noise_from_folds(ribbon)
        if self.store_folds and lazy:
            raise ValueError("store_folds keeps a score for every row, but X is a Dask collection; use a sample.")
        if self.store_folds and (self._leave_one_out or frozen):
            raise ValueError(
                "store_folds needs folds, but here a single fit has seen all rows, or none. With cv='loo' use "
                "kind='jackknife+'; with a frozen Ribbon, conformalize."
            )
        if frozen:
            return
        if lazy:
            if not (self.cv is None or self._by_partition or isinstance(self.cv, Integral)) or noise_from_folds:
                raise ValueError(
                    "For a Dask table cv must be a number of folds or 'partitions', which holds out whole partitions, "
                    f"and noise must not be 'cv'; got cv={self.cv!r}. Folds keep groups together."
                )
        elif self._leave_one_out:
            if noise_from_folds:
                raise ValueError("noise='cv' needs folds; with cv='loo' use noise='loo'.")
        elif isinstance(ribbon.estimator, FrozenEstimator):
            raise ValueError(
                "The base model is frozen, so every fold would be scored on rows that it was fitted on. Fit the Ribbon "
                "on the training rows and pass RibbonCV(FrozenEstimator(ribbon)).fit(X_validation, y_validation), or "
                "use cv='loo' on the training rows."
            )

    def _splits(self, X, y, sample_weight, groups, fit_params, split_params):
        """Yield a Split for each fold of rows in memory; a number of folds keeps groups together."""
        classifier = is_classifier(self)
        if groups is None or not (self.cv is None or isinstance(self.cv, Integral)):
            found = list(check_cv(self.cv, y, classifier=classifier).split(X, y, **split_params))
        else:
            splitter = StratifiedGroupKFold if classifier else GroupKFold
            found = list(splitter(5 if self.cv is None else self.cv).split(X, y, groups))
        if not found:
            raise ValueError("cv yields no splits; a generator is used up after one fit: pass a splitter, or a list.")
        if self.store_folds and not _holds_out_each_once(found, len(y)):
            raise ValueError("store_folds needs a cv that holds out each row exactly once, such as KFold.")
        for k, (train, test) in enumerate(found, start=1):
            name = f"fold {k} of {len(found)}"
            yield Split.from_rows(name, X, y, train, test, sample_weight, fit_params, classifier)

    def _lazy_splits(self, table):
        """Yield a Split for each fold of a Dask table: all other rows, and a sample of the held-out ones."""
        n_folds = 5 if self.cv is None or self._by_partition else int(self.cv)
        if n_folds < 2:
            raise ValueError(f"cv must be at least 2 folds, got {self.cv}.")
        found = dask_room().folds_of(table, n_folds, is_classifier(self), self._by_partition)
        for k, (train, *rest) in enumerate(found, start=1):
            yield Split(f"fold {k} of {n_folds}", train, train, {}, *rest)

    @property
    def _by_partition(self):
        return isinstance(self.cv, str) and self.cv == "partitions"

    @property
    def _leave_one_out(self):
        return isinstance(self.cv, str) and self.cv == "loo"

    def _routed(self, sample_weight, groups):
        """Parameters of the Ribbon's ``fit`` and of the splitter's ``split``."""
        given = {"sample_weight": sample_weight, "groups": groups}
        given = {name: value for name, value in given.items() if value is not None}
        if routing_enabled():
            routed = process_routing(self, "fit", **given)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        return given, {name: value for name, value in given.items() if name == "groups"}

    def _refit(self, ribbon, fitted, best, X, y, sample_weight, groups):
        if isinstance(ribbon, FrozenEstimator) or (self._leave_one_out and ribbon.predictive == "gaussian"):
            tempered = (best.folds[0].ribbon.temperature,) if is_classifier(fitted) else ()
            return fitted.with_alpha(best.alpha, *tempered)  # they only rescale what is already fitted
        start = time.perf_counter()
        fit_params, _ = self._routed(sample_weight, groups)
        final = clone(ribbon).set_params(alpha=best.alpha)
        if is_classifier(ribbon):
            final.set_params(temperature=best.folds[0].ribbon.temperature)
        if _noise_from_folds(ribbon):
            final.set_params(noise=best.folds[0].ribbon.noise_.dispersion_)
        if _law_from_folds(ribbon, best.folds[0]):
            final.set_params(law=law_of_folds(best.folds, best.alpha))
        held_out = isinstance(self.dampings, str) and not isinstance(_damping(final), str)
        fit_quietly(final, X, y, fit_params, (NotStationaryWarning if held_out else FlexibleModelWarning,))
        if self.verbose:
            seconds, n = time.perf_counter() - start, final.n_observations_
            print(f"[RibbonCV] all {n:g} observations with alpha = {best.alpha:.4g}: {seconds:.2f} s")
        return final

    # ------------------------------------------------------------------ the choice
    def _choose(self, folds, ribbons, temperatures, alphas, level, scoring):
        """Choose among all candidates: the place of the chosen one, its Path, and a table of all scores."""
        if temperatures is None:
            paths = [Path.follow(same, alphas, level, scoring) for same in folds]
            chosen, best = settled(paths, scoring)
            return chosen, best, self._joined([path.results for path in paths], ribbons)
        paths, tables = [], []
        for same in folds:
            scored = same if self.store_folds or callable(scoring) else rows_to_compare(same)
            search = Temperatures(scored, temperatures, alphas, level, scoring)
            if self.temperatures is None:
                search.climb()
            else:
                list(map(search.path, range(len(temperatures))))
            paths.append(search.choice())
            columns = [
                {"temperature": np.full(len(alphas), temperatures[i]), **path.results}
                for i, path in sorted(search.paths.items())
            ]
            tables.append(stacked(columns))
        chosen = int(np.argmax([path.score for path in paths]))
        return chosen, paths[chosen], self._joined(tables, ribbons)

    def _joined(self, tables, ribbons):
        """One table of all candidates; the damping is nan if it was left to the Ribbon."""
        if len(tables) == 1 and (self.dampings is None or isinstance(self.dampings, str)):
            return tables[0]
        dampings = [np.nan if isinstance(d := _damping(ribbon), str) else d for ribbon in ribbons[: len(tables)]]
        lengths = [len(table["alpha"]) for table in tables]
        return {"damping": np.repeat(dampings, lengths), **stacked(tables)}

    # ------------------------------------------------------------------ checks
    def _checked_alphas(self):
        if self.alphas is None:
            return np.logspace(-4, 2, 37)  # beyond that, almost nothing is left of a confidence interval
        return _checked_values(self.alphas, "alphas")

    def _checked_temperatures(self, ribbon):
        """A classifier's candidates in ascending order; None for a regressor."""
        if not is_classifier(ribbon):
            if self.temperatures is not None:
                raise ValueError("temperatures are for classifiers, whose logits they divide; leave temperatures=None.")
            return None
        if self.temperatures is None:
            return np.logspace(-0.25, 2, 19)  # without held-out errors nothing tells how far down to go
        return _checked_values(self.temperatures, "temperatures")

    def _checked_scoring(self, ribbon):
        """The name of a built-in score, or a callable."""
        kind, known = ("classifier", CLASSIFICATION) if is_classifier(ribbon) else ("regressor", REGRESSION)
        scoring = known[0] if self.scoring is None else self.scoring
        if callable(scoring) or scoring in known:
            return self._applicable(scoring, known)
        if scoring in REGRESSION + CLASSIFICATION:
            raise ValueError(
                f"scoring={scoring!r} does not apply to a {kind}; use one of {', '.join(map(repr, known))}."
            )
        try:
            return self._applicable(get_scorer(scoring), known)
        except ValueError as error:
            raise ValueError(
                f"scoring must be one of {', '.join(map(repr, known))}, a scikit-learn scorer or a callable, got "
                f"{scoring!r}."
            ) from error

    def _applicable(self, scoring, known):
        if self._leave_one_out and callable(scoring):
            raise ValueError(
                f"cv='loo' knows the latent prediction of each row but no estimator per row; use scoring in {known}, "
                "or folds."
            )
        if getattr(scoring, "reports", False):
            raise ValueError(
                f"scoring={scoring!r} would choose the widest intervals; use 'coverage', which aims at the level."
            )
        return scoring

    # ------------------------------------------------------------------ predict
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

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2 of a regressor, which does not depend on alpha, or accuracy of a classifier, which hardly does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_fitted(self, "estimator_")
        return self.estimator_.score(X, y, sample_weight=sample_weight)

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels, of a classifier."""
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
        """The Ribbon to tune: as given, around a bare base model, or the default."""
        estimator = self.estimator
        inside = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
        if isinstance(inside, BaseRibbon):
            return estimator
        if estimator is not None and not hasattr(estimator, "fit"):
            raise TypeError(f"estimator must be a Ribbon or a base model with a fit method, got {estimator!r}.")
        if estimator is None:
            ribbon = RibbonRegressor()
        else:
            ribbon = (RibbonClassifier if is_classifier(estimator) else RibbonRegressor)(estimator)
        return ribbon.set_fit_request(sample_weight=True, groups=True) if routing_enabled() else ribbon

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing: ``sample_weight`` and ``groups`` to the Ribbon's ``fit``, ``groups`` to the splitter too.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router.add(estimator=self._get_ribbon(), method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        return router.add(
            splitter=check_cv(None if self._leave_one_out else self.cv),
            method_mapping=MethodMapping().add(caller="fit", callee="split"),
        )

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


def _checked_values(values, name, others="", lowest=None):
    """Candidates in ascending order: positive numbers, or numbers from ``lowest`` on."""
    numbers = np.unique(np.asarray(values, dtype=float))
    fine = numbers > 0 if lowest is None else numbers >= lowest
    if numbers.size == 0 or not np.all(np.isfinite(numbers) & fine):
        bound = "> 0" if lowest is None else f">= {lowest:g}"
        raise ValueError(f"{name} must be {others}a non-empty sequence of finite numbers {bound}, got {values!r}.")
    return numbers


def _holds_out_each_once(splits, n):
    return np.array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(n))


def _crossed(best):
    """The chosen folds, with the scores of the rows that they held out."""
    ribbons = [fold.ribbon.with_alpha(best.alpha) for fold in best.folds]
    score = partial(own_class_scores, "lac") if is_classifier(ribbons[0]) else distribution_scores
    return CrossConformal.of(best.folds, ribbons, score)


def _damping(ribbon):
    return ribbon.damping if isinstance(ribbon.curvature, str) else ribbon.curvature.damping


def _has_automatic_damping(ribbon):
    return not isinstance(ribbon, FrozenEstimator) and isinstance(_damping(ribbon), str)


def _at_damping(ribbon, value):
    name = "damping" if isinstance(ribbon.curvature, str) else "curvature__damping"
    return clone(ribbon).set_params(**{name: float(value)})


def _law_from_folds(ribbon, fold):
    """Whether the noise is additive and its law is left to the data."""
    if is_classifier(ribbon) or not fold.ribbon.model_.loss.law(1.0).location:
        return False
    left = [isinstance(value, str) and value == "auto" for value in (ribbon.law, ribbon.noise)]
    noises = getattr(fold.ribbon.noise_, "noises", (fold.ribbon.noise_,))  # one for each of several outputs
    return left[0] and (left[1] or any(isinstance(noise, HeteroskedasticNoise) for noise in noises))


def _noise_from_folds(ribbon):
    noise = getattr(ribbon, "noise", None)
    return isinstance(noise, str) and noise == "cv"
