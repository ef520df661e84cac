"""One fold of RibbonCV: a Ribbon fitted on some rows, and its scores at other rows along the whole path of alphas."""

import copy
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from ._base import BaseRibbon
from ._compat import safe_indexing
from ._laws import law_of
from ._ribbon import Latent, dispersion
from .metrics import (
    calibration_error,
    crps_scorer,
    interval_coverage_score,
    mean_interval_score,
    mean_interval_width,
)
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


def fit_fold(ribbon, X, y, train, test, sample_weight, fit_params, verbose=0, name=""):
    """Fit a clone on the rows ``train`` and look at the rows ``test``: one base fit, one curvature."""
    start = time.perf_counter()
    if is_classifier(ribbon) and len(missing := np.setdiff1d(y, y[train])):
        raise ValueError(
            f"The training rows of {name} hold no example of {missing.tolist()}; use a stratified cv with fewer folds."
        )
    params = {key: value[train] for key, value in fit_params.items()}
    fitted = clone(ribbon).fit(safe_indexing(X, train), y[train], **params)
    fold = validate(fitted, safe_indexing(X, test), y[test], None if sample_weight is None else sample_weight[test])
    if verbose:
        print(f"[RibbonCV] {name}: {len(train)} rows fitted, {len(test)} held out, {time.perf_counter() - start:.2f} s")
    return fold


def leave_one_out_fold(ribbon, X, y, sample_weight, fit_params):
    """All rows as validation rows, each seen by the fit to all others to first order: a single fit."""
    fitted = clone(ribbon).set_params(store_loo=True).fit(X, y, **fit_params)
    noise = None if is_classifier(fitted) else fitted._by_block(X, fitted._dispersion)
    return Fold(fitted, X, y, sample_weight, fitted.loo_latent_, noise)


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
