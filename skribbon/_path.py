"""One fold of RibbonCV: a Ribbon fitted on some rows, and its scores at other rows along the whole path of alphas."""

import copy
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator

from ._base import BaseRibbon
from ._compat import safe_indexing
from ._laws import law_of
from ._ribbon import Latent, dispersion
from .metrics import crps_scorer, interval_coverage_score, mean_interval_score, mean_interval_width
from .metrics.calibration import calibration_error
from .models.base import response
from .noise import ConstantNoise


@dataclass(frozen=True, eq=False)
class Fold:
    """A Ribbon fitted on one part of the rows, and the ribbon it shows at the other part."""

    ribbon: BaseRibbon
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    latent: Latent
    dispersion: np.ndarray | None  # (m,), of a regressor's noise

    def factor(self, alpha):
        """What the covariance is multiplied by as the ribbon's alpha becomes another."""
        n = self.ribbon.n_observations_
        return dispersion(n, alpha) / dispersion(n, self.ribbon.alpha)

    def at(self, alpha):
        """The fitted Ribbon as it would be at another alpha: nothing is fitted again."""
        ribbon = copy.copy(self.ribbon)
        ribbon.alpha, ribbon.ribbon_ = alpha, ribbon.ribbon_.scaled(self.factor(alpha))
        return ribbon

    @property
    def total_weight(self):
        """Weight of the validation rows."""
        return float(len(self.y) if self.weight is None else self.weight.sum())


def fit_fold(ribbons, X, y, train, test, sample_weight, fit_params, verbose=0, name=""):
    """Fit on the rows ``train`` and look at the rows ``test``; a Fold for each of the ``ribbons``.

    They share one base fit, and differ in what comes after it.
    """
    start = time.perf_counter()
    if is_classifier(ribbons[0]) and len(missing := np.setdiff1d(y, y[train])):
        raise ValueError(
            f"The training rows of {name} hold no example of {missing.tolist()}; use a stratified cv with fewer folds."
        )
    params = {key: value[train] for key, value in fit_params.items()}
    held_out = safe_indexing(X, test), y[test], None if sample_weight is None else sample_weight[test]
    fitted = fit_all(ribbons, safe_indexing(X, train), y[train], params)
    folds = [validate(ribbon, *held_out) for ribbon in fitted]
    if verbose:
        print(f"[RibbonCV] {name}: {len(train)} rows fitted, {len(test)} held out, {time.perf_counter() - start:.2f} s")
    return folds


def fit_all(ribbons, X, y, fit_params):
    """Fitted clones of Ribbons around the same base model, which is fitted once."""
    fitted = [clone(ribbons[0]).fit(X, y, **fit_params)]
    for ribbon in ribbons[1:]:
        frozen = clone(ribbon).set_params(estimator=FrozenEstimator(fitted[0].estimator_))
        fitted.append(frozen.fit(X, y, **fit_params))
    return fitted


def leave_one_out_folds(ribbons, X, y, sample_weight, fit_params):
    """All rows as validation rows, each seen by the fit to all others to first order: a single base fit."""
    folds = []
    for fitted in fit_all([clone(ribbon).set_params(store_loo=True) for ribbon in ribbons], X, y, fit_params):
        noise = None if is_classifier(fitted) else fitted._by_block(X, fitted._dispersion)
        folds.append(Fold(fitted, X, y, sample_weight, fitted.loo_latent_, noise))
    return folds


def validate(fitted, X, y, sample_weight):
    """A fitted Ribbon at validation rows."""
    noise = None if is_classifier(fitted) else fitted._by_block(X, fitted._dispersion)
    return Fold(fitted, X, y, sample_weight, fitted._by_block(X, fitted._latent), noise)


def regression_path(fold, alphas, level, want_crps):
    """Scores of one fold at every alpha, from the latent prediction alone: metric name to an array (len(alphas),)."""
    model = fold.ribbon.model_
    if fold.latent.draws is None and law_of(model.loss, 1.0).location and model.target_transformer is None:
        return _location_path(fold, alphas, level)
    rows = [_regression_scores(fold, alpha, level, want_crps) for alpha in alphas]
    return {metric: np.array([scores[metric] for scores in rows]) for metric in rows[0]}


def _location_path(fold, alphas, level):
    """The same for normal and Student predictions, all alphas at once."""
    factors = np.array([fold.factor(alpha) for alpha in alphas])[:, None]
    y, ribbon = fold.ribbon.model_.encode_target(fold.y), fold.ribbon
    family = law_of(ribbon.model_.loss, fold.dispersion, ribbon.noise_.tails_)
    law = family.marginal(fold.latent.f[:, 0], factors * fold.latent.covariance[:, 0, 0])  # (alphas, m)
    half = law.ppf((1 + level) / 2) - law.mean()
    missed = np.maximum(np.abs(y - law.mean()) - half, 0)
    values = {
        "coverage": missed == 0,
        "width": 2 * half,
        "interval_score": 2 * half + 2 / (1 - level) * missed,
        "nll": -law.logpdf(y),
        "crps": law.crps(y),
    }
    return {metric: np.average(value, axis=1, weights=fold.weight) for metric, value in values.items()}


def _regression_scores(fold, alpha, level, want_crps):
    """Scores at one alpha, for any observation law."""
    ribbon, latent, y = fold.ribbon, fold.latent.scaled(fold.factor(alpha)), fold.y
    tail = (1 - level) / 2
    ends = ribbon._prediction_quantiles(latent, fold.dispersion, [tail, 1 - tail])
    interval = np.sort(ribbon.model_.decode_target(ends), axis=1)
    density = ribbon._predictive(latent, fold.dispersion).logpdf(ribbon.model_.encode_target(y))
    scores = {
        "coverage": interval_coverage_score(y, interval, sample_weight=fold.weight),
        "width": mean_interval_width(y, interval, sample_weight=fold.weight),
        "interval_score": mean_interval_score(y, interval, confidence_level=level, sample_weight=fold.weight),
        "nll": -float(np.average(density + ribbon._log_jacobian(y), weights=fold.weight)),
    }
    if want_crps:
        scores["crps"] = -crps_scorer(fold.at(alpha), fold.X, y, fold.weight)
    return scores


def classification_path(fold, alphas):
    """Scores of one fold at every alpha, from the latent prediction alone."""
    own = fold.ribbon.model_.encode_target(fold.y).astype(int)
    hit = np.eye(len(fold.ribbon.classes_))[own]  # (m, K)
    scores = {"nll": [], "brier": [], "ece": [], "accuracy": []}
    for alpha in alphas:
        proba = fold.ribbon._averaged(fold.latent.scaled(fold.factor(alpha)))
        tiny = np.finfo(float).tiny
        scores["nll"].append(np.average(-np.log(np.maximum((proba * hit).sum(axis=1), tiny)), weights=fold.weight))
        scores["brier"].append(np.average(((proba - hit) ** 2).sum(axis=1), weights=fold.weight))
        scores["ece"].append(calibration_error(proba.max(axis=1), proba.argmax(axis=1) == own, fold.weight))
        scores["accuracy"].append(np.average(proba.argmax(axis=1) == own, weights=fold.weight))
    return {metric: np.array(values) for metric, values in scores.items()}


def with_pooled_noise(folds):
    """The folds with one dispersion, the mean square of all out-of-fold residuals."""
    squared, weights = [], []
    scales = [fold.ribbon.model_.loss.noise_scale(fold.latent.f) for fold in folds]
    for fold, scale in zip(folds, scales, strict=True):
        mean, unit_variance = response(fold.ribbon.model_.loss, fold.latent.f[:, 0])
        squared.append((fold.ribbon.model_.encode_target(fold.y) - mean) ** 2 / (unit_variance * scale))
        weights.append(np.ones(len(fold.y)) if fold.weight is None else fold.weight)
    pooled = float(np.average(np.concatenate(squared), weights=np.concatenate(weights)))
    for fold in folds:
        fold.ribbon.noise_ = ConstantNoise(pooled).fit(None)
    return [replace(fold, dispersion=pooled * scale) for fold, scale in zip(folds, scales, strict=True)]


@dataclass(frozen=True, eq=False)
class Path:
    """The scores of some folds along the alphas, and the best of them.

    Attributes
    ----------
    folds : list of Fold
    results : dict of ndarray
        ``mean_test_*``, ``std_test_*`` and ``split*_test_*`` of every metric, (len(alphas),) each.
    scores : ndarray of shape (len(alphas),)
        Greater is better.
    best : int
        Where the best is among the alphas; the last of equals, which is the sharpest.
    alpha, score : float
        The choice and its score.
    """

    folds: list
    results: dict
    scores: np.ndarray
    best: int
    alpha: float
    score: float

    @classmethod
    def follow(cls, folds, alphas, level, scoring):
        """Score all folds at all alphas and choose."""
        results = _results(folds, alphas, level, scoring)
        name = "score" if callable(scoring) else scoring
        means = results[f"mean_test_{name}"]
        scores = {"coverage": -np.abs(means - level), "score": means}.get(name, -means)
        best = len(alphas) - 1 - int(np.argmax(scores[::-1]))
        choice = float(alphas[best]), float(scores[best])
        if name == "coverage":
            choice = _refined(folds, alphas, means, best, level)
        return cls(folds, results, scores, best, *choice)


def _results(folds, alphas, level, scoring):
    """Every metric at every alpha and fold, as in scikit-learn's ``cv_results_``."""
    weights = np.array([fold.total_weight for fold in folds])
    results = {"alpha": alphas.copy()}
    tables = [_scores_of_fold(fold, alphas, level, scoring) for fold in folds]
    for metric in tables[0]:
        values = np.array([table[metric] for table in tables])  # (folds, alphas)
        results[f"mean_test_{metric}"] = np.average(values, axis=0, weights=weights)
        results[f"std_test_{metric}"] = values.std(axis=0)
        results.update({f"split{k}_test_{metric}": row for k, row in enumerate(values)})
    return results


def _scores_of_fold(fold, alphas, level, scoring):
    if is_classifier(fold.ribbon):
        path = classification_path(fold, alphas)
    else:
        path = regression_path(fold, alphas, level, want_crps=scoring == "crps")
    if callable(scoring):
        weight = {} if fold.weight is None else {"sample_weight": fold.weight}
        path["score"] = np.array([scoring(fold.at(alpha), fold.X, fold.y, **weight) for alpha in alphas], dtype=float)
        if not np.isfinite(path["score"]).all():
            alpha = alphas[~np.isfinite(path["score"])][0]
            raise ValueError(f"scoring must return finite numbers; it did not at alpha={alpha:g}.")
    return path


def _refined(folds, alphas, means, best, level):
    """Between grid points pooled coverage is a step function of alpha: bisect to the step that meets the level."""

    def coverage(alpha):
        values = [regression_path(fold, [alpha], level, False)["coverage"][0] for fold in folds]
        return np.average(values, weights=[fold.total_weight for fold in folds])

    candidates = [(-abs(means[best] - level), float(alphas[best]))]
    for left, right in ((best - 1, best), (best, best + 1)):
        if left >= 0 and right < len(alphas) and means[left] > level > means[right]:
            low, high = alphas[left], alphas[right]
            for _ in range(30):
                middle = np.sqrt(low * high)
                low, high = (middle, high) if coverage(middle) >= level else (low, middle)
            candidates += [(-abs(coverage(alpha) - level), float(alpha)) for alpha in (low, high)]
    score, alpha = max(candidates)
    return alpha, float(score)
