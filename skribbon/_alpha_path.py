"""One fold of RibbonCV: a Ribbon fitted on some rows, and its scores at other rows along the whole path of alphas."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator

from ._compat import safe_indexing
from ._predictive import ClassProbabilities, Predictive
from ._ribbon import rescaling
from .metrics.calibration import calibration_error
from .noise import ConstantNoise

PATH_FLOATS = 2**22  # of one array along the path


@dataclass(frozen=True, eq=False)
class Fold:
    """A Ribbon fitted on one part of the rows, and the distribution it predicts for the other part."""

    ribbon: BaseEstimator
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    distribution: Predictive | ClassProbabilities

    def factors(self, alphas):
        """What the covariance is multiplied by as the ribbon's alpha becomes each of others, (A,)."""
        return rescaling(self.ribbon.n_observations_, self.ribbon.alpha, np.asarray(alphas))

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
    if sample_weight is not None and not all(sample_weight[rows].sum() > 0 for rows in (train, test)):
        raise ValueError(
            f"All rows on one side of {name} have a weight of zero; drop rows without weight, or shuffle the folds."
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
    fitted = fit_all([clone(ribbon).set_params(store_loo=True) for ribbon in ribbons], X, y, fit_params)
    return [Fold(ribbon, X, y, sample_weight, ribbon.loo_distribution_) for ribbon in fitted]


def validate(ribbon, X, y, sample_weight):
    """A fitted Ribbon at validation rows."""
    return Fold(ribbon, X, y, sample_weight, ribbon.predict_distribution(X))


def with_pooled_noise(folds):
    """The folds with one dispersion, the mean square of all out-of-fold residuals."""
    squared, weights = [], []
    for fold in folds:
        model, latent = fold.ribbon.model_, fold.distribution.latent
        squared.append(model.loss.squared_residuals(latent.f, model.encode_target(fold.y)))
        weights.append(np.ones(len(fold.y)) if fold.weight is None else fold.weight)
    pooled = float(np.average(np.concatenate(squared), weights=np.concatenate(weights)))
    return [_with_noise(fold, pooled) for fold in folds]


def _with_noise(fold, dispersion):
    fold.ribbon.noise_ = ConstantNoise(dispersion).fit(None)
    scale = fold.ribbon.model_.loss.noise_scale(fold.distribution.latent.f)
    return replace(fold, distribution=replace(fold.distribution, dispersion=dispersion * scale))


# ---------------------------------------------------------------------- scores along the path
def regression_path(fold, alphas, level, want_crps=False):
    """Scores of one fold at every alpha: metric name to an array (A,)."""
    factors, latent = fold.factors(alphas), fold.distribution.latent
    width = 32 if latent.draws is None else latent.draws.shape[-1]
    size = max(1, PATH_FLOATS // (width * len(fold.y)))
    pieces = [
        _regression_scores(fold, fold.distribution.scaled(factors[start : start + size]), level, want_crps)
        for start in range(0, len(factors), size)
    ]
    return {metric: np.concatenate([piece[metric] for piece in pieces]) for metric in pieces[0]}


def _regression_scores(fold, path, level, want_crps):
    y = fold.y.astype(float)
    lower, upper = np.moveaxis(path.interval(level), -1, 0)  # (A, m) each
    missed = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    values = {
        "coverage": (lower <= y) & (y <= upper),
        "width": upper - lower,
        "interval_score": upper - lower + 2 / (1 - level) * missed,
        "nll": -path.logpdf(y),
    }
    if want_crps or path.has_closed_crps:
        values["crps"] = path.crps(y)
    return {metric: np.average(value, axis=1, weights=fold.weight) for metric, value in values.items()}


def classification_path(fold, alphas):
    """Scores of one fold at every alpha."""
    own = fold.ribbon.model_.encode_target(fold.y).astype(int)
    hit = np.eye(len(fold.ribbon.classes_))[own]  # (m, K)
    scores = {"nll": [], "brier": [], "ece": [], "accuracy": []}
    for proba in fold.distribution.mean_path(fold.factors(alphas)):
        likelihood = np.maximum((proba * hit).sum(axis=1), np.finfo(float).tiny)
        scores["nll"].append(np.average(-np.log(likelihood), weights=fold.weight))
        scores["brier"].append(np.average(((proba - hit) ** 2).sum(axis=1), weights=fold.weight))
        scores["ece"].append(calibration_error(proba.max(axis=1), proba.argmax(axis=1) == own, fold.weight))
        scores["accuracy"].append(np.average(proba.argmax(axis=1) == own, weights=fold.weight))
    return {metric: np.array(values) for metric, values in scores.items()}


@dataclass(frozen=True, eq=False)
class Path:
    """The scores of some folds along the alphas, and the best of them.

    Attributes
    ----------
    folds : list of Fold
    results : dict of ndarray
        ``mean_test_*``, ``std_test_*`` and ``split*_test_*`` of every metric, (A,) each.
    scores : ndarray of shape (A,)
        Greater is better; minus infinity where the score is not a number.
    by_fold : ndarray of shape (folds, A)
        The same of each fold.
    best : int
        Where the best is among the alphas; the last of equals, which is the sharpest.
    alpha, score : float
        The choice and its score.
    """

    folds: list
    results: dict
    scores: np.ndarray
    by_fold: np.ndarray
    best: int
    alpha: float
    score: float

    @classmethod
    def follow(cls, folds, alphas, level, scoring):
        """Score all folds at all alphas and choose."""
        results = _results(folds, alphas, level, scoring)
        name = "score" if callable(scoring) else scoring
        means = results[f"mean_test_{name}"]
        by_fold = np.array([results[f"split{k}_test_{name}"] for k in range(len(folds))])
        scores, by_fold = (_greater_is_better(name, values, level) for values in (means, by_fold))
        if not (scores > -np.inf).any():
            raise ValueError(
                f"scoring={name!r} is not a finite number at any alpha: some held-out rows are impossible under the "
                "predicted law, such as negative values under a family of positive ones. Check the target and the "
                "family of the base model, or use another scoring."
            )
        best = len(alphas) - 1 - int(np.argmax(scores[::-1]))
        choice = float(alphas[best]), float(scores[best])
        if name == "coverage":
            choice = _refined(folds, alphas, means, best, level)
        return cls(folds, results, scores, by_fold, best, *choice)

    def gain_over(self, other):
        """Mean and standard error over folds of the best score less that at another place among the alphas."""
        with np.errstate(invalid="ignore"):
            gain = self.by_fold[:, self.best] - self.by_fold[:, other]
            return float(gain.mean()), float(gain.std() / np.sqrt(max(len(gain) - 1, 1)))


def _greater_is_better(name, values, level):
    signed = {"coverage": -np.abs(values - level), "score": values}.get(name, -values)
    return np.where(np.isnan(signed), -np.inf, signed)


def _results(folds, alphas, level, scoring):
    """Every metric at every alpha and fold, as in scikit-learn's ``cv_results_``."""
    weights = np.array([fold.total_weight for fold in folds])
    results = {"alpha": alphas.copy()}
    tables = [_scores_of_fold(fold, alphas, level, scoring) for fold in folds]
    for metric in tables[0]:
        values = np.array([table[metric] for table in tables])  # (folds, alphas)
        results[f"mean_test_{metric}"] = np.average(values, axis=0, weights=weights)
        with np.errstate(invalid="ignore"):
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
        values = [scoring(fold.ribbon.with_alpha(float(alpha)), fold.X, fold.y, **weight) for alpha in alphas]
        path["score"] = np.array(values, dtype=float)
        if not np.isfinite(path["score"]).all():
            alpha = alphas[~np.isfinite(path["score"])][0]
            raise ValueError(f"scoring must return finite numbers; it did not at alpha={alpha:g}.")
    return path


def _refined(folds, alphas, means, best, level):
    """Between grid points pooled coverage is a step function of alpha: bisect to the step that meets the level."""

    def coverage(alpha):
        values = [regression_path(fold, [alpha], level)["coverage"][0] for fold in folds]
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
