"""One fold of RibbonCV: a Ribbon fitted on some rows, and its scores at other rows along the whole path of alphas."""

import time
import warnings
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator

from .._core.ribbon import rescaling
from .._core.rows import EASY_LEVERAGE, some_of
from .._predict.classes import ClassProbabilities
from .._predict.predictive import Predictive
from .._utils.checks import group_codes
from .._utils.compat import safe_indexing
from ..exceptions import (
    AlphaEdgeWarning,
    FewGroupsWarning,
    FlexibleModelWarning,
    RibbonWarning,
    noted_warnings,
    warn_user,
)
from ..metrics.distributions import calibration_error
from ..noise.scale import SAMPLE, ConstantNoise, JointNoise, Standardized, correlation_of, standard_error

PATH_FLOATS = 2**22  # floats of one array along the path of alphas: 32 MB
MIN_GAIN = 0.005  # nats, or share of another score, below which alpha and temperature stay 1: no user would notice
PATH_PAIRS = 256  # pairs of quadrature nodes for the mean scores of a fold: errors of single rows average out
CLIMBING_PAIRS = 64  # pairs of quadrature nodes while searching the best temperature, the fewest that are used
FEWEST_SCORED, MOST_WORK = 2000, 1e6  # rows, and rows x classes^2, by which a classifier's alphas are compared
STRIDE = 6  # alphas per scored one while searching the best temperature: its peak moves little with alpha


def outputs_of(distribution):
    """Distributions of the single outputs of a regressor."""
    return getattr(distribution, "outputs", (distribution,))


@dataclass(frozen=True, eq=False)
class Fold:
    """A Ribbon fitted on one part of the rows, and the distribution it predicts for the other part."""

    ribbon: BaseEstimator
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    distribution: Predictive | ClassProbabilities
    group: np.ndarray | None = None
    most_pairs: int = PATH_PAIRS  # of quadrature nodes for the probabilities of three or more classes

    def factors(self, alphas):
        """What the covariance is multiplied by as the ribbon's alpha becomes each of others, (A,)."""
        return rescaling(self.ribbon.ribbon_.units, self.ribbon.alpha, np.asarray(alphas))

    def sampled(self, most):
        """The fold with no more than so many of its validation rows, evenly spread."""
        if len(self.y) <= most:
            return self
        rows = some_of(len(self.y), most)
        weight, group = (None if column is None else column[rows] for column in (self.weight, self.group))
        X, distribution = safe_indexing(self.X, rows), self.distribution.take(rows)
        return replace(self, X=X, y=self.y[rows], weight=weight, group=group, distribution=distribution)

    def over(self, temperature):
        """The fold of a classifier whose logits are divided by this temperature."""
        ratio = temperature / self.ribbon.temperature
        ribbon = copy(self.ribbon)
        ribbon.__dict__.pop("loo_distribution_", None)  # the fold has what is scored of it
        ribbon = ribbon.with_alpha(ribbon.alpha, temperature)
        return replace(self, ribbon=ribbon, distribution=self.distribution.over(ratio))

    @property
    def total_weight(self):
        """Weight of the validation rows."""
        return float(len(self.y) if self.weight is None else self.weight.sum())


def fit_fold(ribbons, n_sure, split, verbose=0):
    """Fit on the training rows of a Split and look at its held-out rows; a Fold for each of the ribbons, and warnings.

    They share one base fit, and differ in what comes after it. Those beyond the first ``n_sure`` are for models that
    could follow their rows closely.
    """
    start, notes = time.perf_counter(), []
    unsaid = FlexibleModelWarning, FewGroupsWarning  # the fit to all rows will say the latter
    with noted_warnings(notes, split.name):
        n = split.n_train + split.n_test
        fitted = fit_all(ribbons, n_sure, split.X, split.y, split.fit_params, n, unsaid)
        folds = [validate(ribbon, *split.held_out) for ribbon in fitted]
    if verbose:
        seconds = time.perf_counter() - start
        print(f"[RibbonCV] {split.name}: {split.n_train} rows fitted, {split.n_test} held out, {seconds:.2f} s")
    return folds, notes


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows of one fold, in memory or on Dask, and its held-out rows in memory: X, y, weight and group."""

    name: str
    X: Any
    y: Any
    fit_params: dict
    held_out: tuple
    n_train: int
    n_test: int

    @classmethod
    def from_rows(cls, name, X, y, train, test, sample_weight, fit_params, classifier):
        """Split rows in memory by their positions; refuses folds that cannot be fitted or scored."""
        if classifier and len(missing := np.setdiff1d(y, y[train])):
            raise ValueError(
                f"The training rows of {name} hold no example of {missing.tolist()}; use a stratified cv with fewer "
                "folds."
            )
        if sample_weight is not None and not all(sample_weight[rows].sum() > 0 for rows in (train, test)):
            raise ValueError(
                f"All rows on one side of {name} have a weight of zero; drop rows without weight, or shuffle the folds."
            )
        params = {key: value[train] for key, value in fit_params.items()}
        columns = (None if column is None else column[test] for column in (sample_weight, fit_params.get("groups")))
        held_out = safe_indexing(X, test), y[test], *columns
        return cls(name, safe_indexing(X, train), y[train], params, held_out, len(train), len(test))


def fit_all(ribbons, n_sure, X, y, fit_params, n, unsaid=(FlexibleModelWarning,)):
    """Fitted clones of Ribbons around the same base model, which is fitted once; n is the number of rows in all."""
    fitted = [fit_quietly(clone(ribbons[0]), X, y, fit_params, unsaid)]
    model = fitted[0].model_
    could_follow = not model.is_linear and len(model.theta) > EASY_LEVERAGE * n
    for ribbon in ribbons[1 : None if could_follow else n_sure]:
        frozen = clone(ribbon).set_params(estimator=FrozenEstimator(fitted[0].estimator_))
        fitted.append(fit_quietly(frozen, X, y, fit_params, (RibbonWarning,)))  # said by the first of them
    return fitted


def fit_quietly(ribbon, X, y, fit_params, unsaid=(FlexibleModelWarning,)):
    """Fit a Ribbon without some kinds of warning: what they would advise is being done, or was said already."""
    with warnings.catch_warnings():
        for category in unsaid:
            warnings.simplefilter("ignore", category)
        return ribbon.fit(X, y, **fit_params)


def leave_one_out_folds(ribbons, X, y, sample_weight, fit_params):
    """All rows as validation rows, each seen by the fit to all others to first order: a single base fit."""
    stored = [clone(ribbon).set_params(store_loo=True) for ribbon in ribbons]
    fitted = fit_all(stored, len(stored), X, y, fit_params, len(y))
    per_row = fitted[0].effective_parameters_ / (fitted[0].n_observations_ * fitted[0].model_.loss.curvature_rank)
    if not fitted[0].model_.is_linear and per_row > EASY_LEVERAGE:
        raise ValueError(
            f"cv='loo' needs a model that cannot follow single rows, at most {EASY_LEVERAGE} effective parameters per "
            f"row, and this one has {per_row:.2g}: it would keep what it learnt of a row that is left out. Use folds, "
            "cv=5."
        )
    known = X, y, sample_weight
    return [_fold(ribbon, *known, ribbon.loo_distribution_, fit_params.get("groups")) for ribbon in fitted]


def validate(ribbon, X, y, sample_weight, group=None):
    """A fitted Ribbon at validation rows."""
    return _fold(ribbon, X, y, sample_weight, ribbon.predict_distribution(X), group)


def _fold(ribbon, X, y, sample_weight, distribution, group):
    """Build a Fold; a table y with one column becomes a vector if the distribution has one output."""
    y = np.ravel(y) if isinstance(distribution, Predictive) else y
    return Fold(ribbon, X, y, sample_weight, distribution, group)


def rows_to_compare(folds):
    """Folds of a classifier with as many validation rows as are enough; all of them, unless classes are many."""
    K = folds[0].ribbon.model_.loss.n_classes
    most = max(FEWEST_SCORED, MOST_WORK / K**2) if K > 2 else np.inf
    total = sum(len(fold.y) for fold in folds)
    return folds if total <= most else [fold.sampled(max(1, int(most * len(fold.y) / total))) for fold in folds]


def with_pooled_noise(folds):
    """The folds with one dispersion, the mean square of all out-of-fold residuals."""
    if folds[0].ribbon.model_.loss.by_output:
        return _with_pooled_covariance(folds)
    squared, weights = [], []
    for fold in folds:
        model, latent = fold.ribbon.model_, fold.distribution.latent
        squared.append(model.loss.squared_residuals(latent.f, model.encode_target(fold.y)))
        weights.append(np.ones(len(fold.y)) if fold.weight is None else fold.weight)
    pooled = float(np.average(np.concatenate(squared), weights=np.concatenate(weights)))
    noise, pooled_folds = ConstantNoise(pooled).fit(None), []
    for fold in folds:
        scale = fold.ribbon.model_.loss.noise_scale(fold.distribution.latent.f)
        pooled_folds.append(_with_noise(fold, noise, replace(fold.distribution, dispersion=pooled * scale)))
    return pooled_folds


def _with_pooled_covariance(folds):
    """The folds with one covariance of the noise of several outputs, the mean product of their residuals."""
    products, total = 0.0, 0.0
    for fold in folds:
        r = fold.distribution.latent.f - fold.ribbon.model_.encode_target(fold.y)
        weight = np.ones(len(r)) if fold.weight is None else fold.weight
        products, total = products + (r.T * weight) @ r, total + weight.sum()
    covariance = products / total
    noises = tuple(ConstantNoise(float(variance)).fit(None) for variance in np.diag(covariance))
    return [_with_joint_noise(fold, JointNoise(noises, correlation_of(covariance))) for fold in folds]


def _with_joint_noise(fold, noise):
    pairs = zip(fold.distribution.outputs, noise.noises, strict=True)
    outputs = tuple(replace(output, dispersion=np.full(len(output), own.dispersion_)) for output, own in pairs)
    return _with_noise(fold, noise, replace(fold.distribution, outputs=outputs, correlation=noise.correlation))


def _with_noise(fold, noise, distribution):
    """The fold with a copy of its Ribbon that has another fitted noise, and with the distribution it predicts."""
    ribbon = copy(fold.ribbon)
    ribbon.noise_ = noise
    return replace(fold, ribbon=ribbon, distribution=distribution)


def law_of_folds(folds, alpha):
    """What the noise looks like at rows that the fits of the folds have not seen; of several outputs, of each."""
    m = len(folds[0].ribbon.model_.loss.by_output)
    return tuple(_law_of_output(folds, alpha, j) for j in range(m)) or _law_of_output(folds, alpha, 0)


def _law_of_output(folds, alpha, j):
    parts = []
    for fold in folds:
        model, own = fold.ribbon.model_, outputs_of(fold.distribution)[j]
        t = np.reshape(model.encode_target(fold.y), (len(fold.y), -1))[:, j]
        residuals = t - own.loss.mean(own.latent.f[:, 0])
        variance = fold.factors([alpha])[0] * own.latent.covariance[:, 0, 0]
        weight = np.ones(len(fold.y)) if fold.weight is None else fold.weight
        parts.append([residuals, np.broadcast_to(own.dispersion, len(fold.y)), variance, weight])
    rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
    some = some_of(len(rows[0]), SAMPLE)
    return Standardized.of(*(column[some] for column in rows)).law("auto")


# ---------------------------------------------------------------------- scores along the path
def regression_path(fold, alphas, level, want_crps=False):
    """Scores of one fold at every alpha: metric name to an array (A,)."""
    factors, latent = fold.factors(alphas), fold.distribution.latent
    width = 32 if latent.draws is None else latent.draws.shape[-1]
    size = max(1, PATH_FLOATS // width // len(fold.y))
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
    return {metric: _over_rows(value, fold.weight) for metric, value in values.items()}


def _over_rows(values, weight):
    """Means (A,) of values (A, m) over rows, or (A, m, outputs) over rows and outputs."""
    means = np.average(values, axis=1, weights=weight)
    return means if means.ndim == 1 else means.mean(axis=1)


def classification_path(fold, alphas):
    """Scores of one fold at every alpha: metric name to an array (A,)."""
    own = fold.ribbon.model_.encode_target(fold.y).astype(int)
    scores = {"nll": [], "brier": [], "ece": [], "accuracy": []}
    for proba in fold.distribution.mean_path(fold.factors(alphas), fold.most_pairs):
        for metric, rows in _row_scores(proba, own).items():
            scores[metric].append(np.average(rows, weights=fold.weight))
        scores["ece"].append(calibration_error(proba.max(axis=1), proba.argmax(axis=1) == own, fold.weight))
    return {metric: np.array(values) for metric, values in scores.items()}


def _row_scores(proba, own):
    """Scores (m,) of probabilities (m, K) at the classes own (m,), of the metrics that are means over rows."""
    hit = np.eye(proba.shape[1])[own]
    likelihood = np.maximum((proba * hit).sum(axis=1), np.finfo(float).tiny)
    return {
        "nll": -np.log(likelihood),
        "brier": ((proba - hit) ** 2).sum(axis=1),
        "accuracy": (proba.argmax(axis=1) == own).astype(float),
    }


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
        if name == "nll" and any(map(_is_noiseless, folds)):  # a density of points is none: alpha cannot matter to it
            scores, by_fold = np.zeros_like(scores), np.zeros_like(by_fold)
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

    def at(self, index):
        """The same path with another place among the alphas as its choice."""
        return replace(self, best=index, alpha=float(self.results["alpha"][index]), score=float(self.scores[index]))


# ---------------------------------------------------------------------- alpha and temperature of a classifier
class Temperatures:
    """Paths of alphas of the same folds at every temperature that is asked for, each followed once.

    Attributes
    ----------
    values : ndarray of shape (T,)
        Candidates in ascending order.
    paths : dict
        From a place among the candidates to a Path.
    """

    def __init__(self, folds, values, alphas, level, scoring):
        self.folds, self.values, self.alphas, self.level, self.scoring = folds, values, alphas, level, scoring
        self.paths = {}

    def path(self, i):
        """Path at the i-th temperature."""
        if i not in self.paths:
            self.paths[i] = self._follow(i, self.alphas)
        return self.paths[i]

    def _follow(self, i, alphas, most_pairs=PATH_PAIRS):
        folds = [replace(fold.over(float(self.values[i])), most_pairs=most_pairs) for fold in self.folds]
        return Path.follow(folds, alphas, self.level, self.scoring)

    def climb(self):
        """Follow the paths at the peaks, at any alpha and at 1, that are found from a few alphas only.

        Scores have a single peak along the temperature, nearly: steps from 1 get shorter on the way there.
        """
        usual = nearest_to_one(self.alphas)
        some = np.arange(usual % STRIDE, len(self.alphas), STRIDE)
        rough = lru_cache(None)(lambda i: self._follow(i, self.alphas[some], CLIMBING_PAIRS))
        for score in (lambda i: rough(i).score, lambda i: rough(i).scores[usual // STRIDE]):
            here, step = nearest_to_one(self.values), max(1, len(self.values) // 4)
            while step:
                best = max([i for i in (here, here - step, here + step) if 0 <= i < len(self.values)], key=score)
                here, step = best, step // 2 if best == here else step
            self.path(here)

    def choice(self):
        """Path whose choice departs least from a temperature and alpha of 1, within a standard error of the best.

        First the temperature alone departs, then alpha alone, then alpha at the best temperature.
        """
        one, usual = nearest_to_one(self.values), nearest_to_one(self.alphas)
        self.path(one)
        tempered = max(self.paths, key=lambda i: self.paths[i].scores[usual])
        highest = max(self.paths, key=lambda i: self.paths[i].score)
        best = self.paths[highest]
        departures = [
            *((i, usual) for i in _from_to(one, tempered)),
            *((one, j) for j in _from_to(usual, self.paths[one].best)),
            *((highest, j) for j in _from_to(usual, best.best)),
        ]
        return next(self.path(i).at(j) for i, j in departures if self._is_as_good(i, j, best))

    def _is_as_good(self, i, j, best):
        path = self.paths[i].at(j) if i in self.paths else self._follow(i, self.alphas[[j]])
        return not is_clear(best, path, self.scoring)


def _from_to(start, end):
    """All places on the way, with both ends."""
    step = 1 if end >= start else -1
    return range(start, end + step, step)


def is_clear(best, other, scoring):
    """Whether a path is better at its choice by more than a standard error, and by something to speak of.

    A small gain in every single row has a small error too.
    """
    gain, worth = best.score - other.score, MIN_GAIN if scoring == "nll" else MIN_GAIN * abs(best.score)
    return bool(gain > worth and gain > error_of_gain(best, other, scoring))


def error_of_gain(best, other, scoring):
    """Standard error of how much better a path is at its choice than another at its own.

    Over rows, or their groups, where the score is a mean over them, else over folds; a single fold has no error.
    """
    if scoring in ("nll", "brier"):
        rows, weight = zip(*(_difference_by_row(*pair, scoring) for pair in _pairs(best, other)), strict=True)
        rows, weight, group = np.concatenate(rows), np.concatenate(weight), None
        if best.folds[0].group is not None:
            group = group_codes(np.concatenate([fold.group for fold in best.folds]), len(rows))
        return standard_error(rows, weight, group)
    by_fold = best.by_fold[:, best.best] - other.by_fold[:, other.best]
    return float(by_fold.std() / np.sqrt(max(len(by_fold) - 1, 1)))


def _pairs(best, other):
    return [((a, best.alpha), (b, other.alpha)) for a, b in zip(best.folds, other.folds, strict=True)]


def _difference_by_row(one, other, scoring):
    """Scores (m,) of the rows of a fold at an alpha less those at another, and the rows' weights."""
    scores = [_scores_by_row(fold, alpha, scoring) for fold, alpha in (one, other)]
    fold = one[0]
    return scores[0] - scores[1], np.ones(len(fold.y)) if fold.weight is None else fold.weight


def _scores_by_row(fold, alpha, scoring):
    if not is_classifier(fold.ribbon):
        scores = -fold.distribution.scaled(fold.factors([alpha])[0]).logpdf(fold.y.astype(float))
        return scores if scores.ndim == 1 else scores.mean(axis=1)
    own = fold.ribbon.model_.encode_target(fold.y).astype(int)
    return _row_scores(fold.distribution.mean_path(fold.factors([alpha]), fold.most_pairs)[0], own)[scoring]


def settled(paths, scoring):
    """Which path of a regressor to take, with its choice: the first at an alpha of 1, unless another is clearly better.

    That is by a standard error. Coverage has its own aim, which no other choice is as good as.
    """
    chosen = int(np.argmax([path.score for path in paths]))
    best = paths[chosen]
    if isinstance(scoring, str) and scoring == "coverage":
        return chosen, best
    usual = paths[0].at(nearest_to_one(paths[0].results["alpha"]))
    return (chosen, best) if best.score > usual.score and is_clear(best, usual, scoring) else (0, usual)


def warn_at_edge(path, alphas, level, scoring):
    """Warn if the best alpha is the smallest or the largest, or if the score does not depend on alpha."""
    best, scores = path.best, path.scores
    scores = scores[scores > -np.inf]
    by_coverage = isinstance(scoring, str) and scoring == "coverage"
    covered = path.results["mean_test_coverage"][-1] if by_coverage else None
    if best == len(alphas) - 1 and covered is not None and covered >= level:
        reason = (
            f"The noise alone covers {covered:.3f} of the held-out rows, at least the level {level:g}: the largest "
            f"alpha, {alphas[best]:g}, leaves no epistemic part, and no alpha gives narrower intervals. Intervals "
            "of kind 'confidence' then have almost no width: for those use a Ribbon with alpha=1. If the noise "
            "varies from row to row or is not normal, let the data decide: noise='auto'."
        )
    elif np.ptp(scores) <= 1e-12 * np.abs(scores).max():
        reason = "The scoring does not depend on alpha; use nll, coverage or another score of the distribution."
    elif best not in (0, len(alphas) - 1):
        return
    elif not _matters(path, alphas, scoring) or (best == len(alphas) - 1 and is_classifier(path.folds[0].ribbon)):
        return  # if alpha hardly matters, or logits are too small already, the edge means nothing
    elif best == 0:
        reason = f"The smallest alpha, {alphas[0]:g}, is best; extend alphas downwards, or check the noise."
    else:
        reason = f"The largest alpha, {alphas[best]:g}, is best: the data call for no epistemic part."
    warn_user(reason, AlphaEdgeWarning)


def _matters(path, alphas, scoring):
    """Whether the best alpha is clearly better than the one next to 1, or else than the other end."""
    usual = nearest_to_one(alphas)
    return is_clear(path, path.at(len(alphas) - 1 - path.best if usual == path.best else usual), scoring)


def nearest_to_one(values):
    """Position of the value nearest to 1 on a log scale."""
    return int(np.argmin(np.abs(np.log(values))))


def _is_noiseless(fold):
    """Whether a regressor fits its training rows without any residual but rounding."""
    if is_classifier(fold.ribbon):
        return False
    t = np.reshape(fold.ribbon.model_.encode_target(fold.y), (len(fold.y), -1))
    sizes = np.abs(t).max(axis=0, initial=0.0)
    told = zip(outputs_of(fold.distribution), sizes, strict=True)
    return any(np.all(output.dispersion <= (1e-12 * size) ** 2) for output, size in told)


def _greater_is_better(name, values, level):
    signed = {"coverage": -np.abs(values - level), "score": values}.get(name, -values)
    return np.where(np.isnan(signed), -np.inf, signed)


def _results(folds, alphas, level, scoring):
    """Every metric at every alpha and fold, as in scikit-learn's ``cv_results_``."""
    weights = np.array([fold.total_weight for fold in folds])
    results = {"alpha": alphas.copy()}
    tables = [_scores_of_fold(fold, alphas, level, scoring) for fold in folds]
    for metric in [name for name in tables[0] if all(name in table for table in tables)]:  # some have no closed CRPS
        values = np.array([table[metric] for table in tables])  # (folds, alphas)
        results[f"mean_test_{metric}"] = np.average(values, axis=0, weights=weights)
        with np.errstate(invalid="ignore"):
            results[f"std_test_{metric}"] = values.std(axis=0)
        results.update({f"split{k}_test_{metric}": row for k, row in enumerate(values)})
    return results


def stacked(tables):
    """Several tables stacked into one, with the columns that they share."""
    names = [name for name in tables[0] if all(name in table for table in tables)]
    return {name: np.concatenate([table[name] for table in tables]) for name in names}


def _scores_of_fold(fold, alphas, level, scoring):
    if is_classifier(fold.ribbon):
        path = classification_path(fold, alphas)
    else:
        path = regression_path(fold, alphas, level, want_crps=scoring == "crps")
        if _is_noiseless(fold):
            path["nll"] = np.full(len(alphas), np.inf)
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
