"""Score HeldOut records along a path of alphas, with the temperature that each supports, and choose from it."""

from dataclasses import dataclass, replace

import numpy as np

from .._core.rows import some_of
from .._core.thresholds import MIN_GAIN
from .._utils.checks import group_codes
from ..exceptions import AlphaEdgeWarning, warn_user
from ..metrics.scores import calibration_error
from ..noise.scale import standard_error
from .temperature import choose_scalings, scaling_rows


@dataclass(frozen=True, eq=False)
class Search:
    """Parameters of the search of a RibbonCV, checked and parsed."""

    alphas: np.ndarray  # (A,) candidates in ascending order
    level: float  # level of the intervals that are scored
    scoring: object  # name of a score, or a callable
    tempered: bool = False  # whether each alpha has a temperature of its own, for classifiers

    @property
    def name(self):
        """Name of the score in ``cv_results_``."""
        return "score" if callable(self.scoring) else self.scoring


# ---------------------------------------------------------------------- scores along the path
def regression_path(held_out, alphas, level, want_crps=False):
    """Scores of a record at every alpha: metric name to an array (A,)."""
    factors, draws = held_out.factors(alphas), held_out.distribution.latent.draws
    size = max(1, 2**22 // (32 if draws is None else draws.shape[-1]) // len(held_out))  # arrays of at most 32 MB
    parts = (factors[start : start + size] for start in range(0, len(factors), size))
    paths = map(held_out.distribution.scaled, parts)
    pieces = [_regression_scores(held_out, path, level, want_crps) for path in paths]
    return {metric: np.concatenate([piece[metric] for piece in pieces]) for metric in pieces[0]}


def _regression_scores(held_out, path, level, want_crps):
    """Mean scores (A,) of distributions along a path of alphas."""
    y = held_out.y
    lower, upper = np.moveaxis(path.interval(level), -1, 0)  # (A, m) each
    width = np.subtract(upper, lower, out=np.zeros_like(upper), where=upper != lower)  # zero between equal infinities
    missed = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    values = {"coverage": (lower <= y) & (y <= upper), "width": width, "nll": -path.logpdf(y)}
    values["interval_score"] = width + 2 / (1 - level) * missed
    if want_crps or path.has_closed_crps:
        values["crps"] = path.crps(y)
    means = {metric: np.average(value, axis=1, weights=held_out.weight) for metric, value in values.items()}
    return {metric: value.reshape(len(value), -1).mean(axis=1) for metric, value in means.items()}  # over outputs


def classification_path(held_out, alphas, scalings):
    """Scores of a record at every alpha with its Scaling: metric name to an array (A,)."""
    own, weight = held_out.y, held_out.weight
    scores = {"nll": [], "brier": [], "ece": [], "accuracy": []}
    for alpha, scaling in zip(alphas, scalings, strict=True):
        proba = held_out.at_alpha(alpha).with_scaling(scaling).distribution.mean()
        for metric, rows in _row_scores(proba, own).items():
            scores[metric].append(np.average(rows, weights=weight))
        scores["ece"].append(calibration_error(proba.max(axis=1), proba.argmax(axis=1) == own, weight))
    return {metric: np.array(values) for metric, values in scores.items()}


def _row_scores(proba, own):
    """Scores (m,) of probabilities (m, K) at the classes own (m,), by metric."""
    hit = np.eye(proba.shape[1])[own]
    likelihood = np.maximum((proba * hit).sum(axis=1), np.finfo(float).tiny)
    correct = (proba.argmax(axis=1) == own).astype(float)
    return {"nll": -np.log(likelihood), "brier": ((proba - hit) ** 2).sum(axis=1), "accuracy": correct}


@dataclass(frozen=True, eq=False)
class Path:
    """Scores of held-out rows along the alphas, and a choice among them."""

    folds: list
    scalings: tuple | None  # Scaling at every alpha; None for a regressor
    results: dict  # mean_test_*, std_test_* and split*_test_* of every metric, (A,) each
    scores: np.ndarray  # (A,), greater is better; minus infinity if a score is not a number
    by_fold: np.ndarray  # scores (folds, A)
    best: int  # position of the choice; of equal scores the last, with the narrowest intervals
    alpha: float
    score: float

    @classmethod
    def follow(cls, folds, search):
        """Score all folds at all alphas of a Search and choose the best."""
        alphas, level, name = search.alphas, search.level, search.name
        scalings = _scalings(folds, search) if folds[0].held_out.of_classes else None
        results = _results(folds, search, scalings)
        means = results[f"mean_test_{name}"]
        by_fold = np.array([results[f"split{k}_test_{name}"] for k in range(len(folds))])
        scores, by_fold = (_greater_is_better(name, values, level) for values in (means, by_fold))
        if scalings is None and name == "nll" and any(_is_noiseless(fold.held_out) for fold in folds):
            scores, by_fold = np.zeros_like(scores), np.zeros_like(by_fold)  # no density: alpha cannot matter
        if not (scores > -np.inf).any():
            raise ValueError(
                f"scoring={name!r} is not a finite number at any alpha: some held-out rows have density zero, such as "
                "negative values under a family of positive ones. Use another family, or another scoring."
            )
        best = len(alphas) - 1 - int(np.argmax(scores[::-1]))
        choice = float(alphas[best]), float(scores[best])
        if name == "coverage":
            choice = _refined(folds, alphas, means, best, level)
        return cls(folds, scalings, results, scores, by_fold, best, *choice)

    @property
    def scaling(self):
        """Scaling at the chosen alpha; None for a regressor."""
        return None if self.scalings is None else self.scalings[self.best]

    @property
    def records(self):
        """HeldOut records of the folds at the choice."""
        records = [fold.held_out.at_alpha(self.alpha) for fold in self.folds]
        return records if self.scaling is None else [record.with_scaling(self.scaling) for record in records]

    def at(self, index):
        """Path with the alpha at another position as its choice."""
        return replace(self, best=index, alpha=float(self.results["alpha"][index]), score=float(self.scores[index]))


def choose(folds, search):
    """Path of the folds with its choice: an alpha of 1, unless another is clearly better."""
    best = Path.follow(folds, search)
    usual = best.at(nearest_to_one(search.alphas))
    if search.name != "coverage" and not (best.score > usual.score and is_clear(best, usual, search.name)):
        best = usual
    if len(search.alphas) > 1:
        warn_at_edge(best, search)
    return best


def _scalings(folds, search):
    """Scaling of a classifier at every alpha: the Ribbon's own, or the one that a sample of the records supports."""
    ribbon = folds[0].ribbon
    if not search.tempered:
        return (ribbon.scaling_,) * len(search.alphas)
    total = sum(len(fold.held_out) for fold in folds)
    share = min(1.0, scaling_rows(ribbon.model_.loss.n_classes) / total)
    records = [fold.held_out for fold in folds]
    if share < 1:
        records = [record.take(some_of(len(record), max(1, int(share * len(record))))) for record in records]
    return choose_scalings(records, ribbon.model_, ribbon.scaling_.exact, search.alphas)


def is_clear(best, other, scoring):
    """Whether the choice of one path beats the choice of another by a standard error and by MIN_GAIN."""
    gain, worth = best.score - other.score, MIN_GAIN if scoring == "nll" else MIN_GAIN * abs(best.score)
    return bool(gain > worth and gain > error_of_gain(best, other, scoring))


def error_of_gain(best, other, scoring):
    """Standard error of the difference in score: over rows or groups for means over rows, else over folds."""
    if scoring in ("nll", "brier"):
        mine, theirs = best.records, other.records
        gains = [_scores_by_row(a, scoring) - _scores_by_row(b, scoring) for a, b in zip(mine, theirs, strict=True)]
        weight, group = np.concatenate([record.weight for record in mine]), None
        if mine[0].group is not None:
            group = group_codes(np.concatenate([record.group for record in mine]), len(weight))
        return standard_error(np.concatenate(gains), weight, group)
    by_fold = best.by_fold[:, best.best] - other.by_fold[:, other.best]
    return float(by_fold.std() / np.sqrt(max(len(by_fold) - 1, 1)))


def _scores_by_row(held_out, scoring):
    """Scores (m,) of the rows of a record; smaller is better."""
    if held_out.of_classes:
        return _row_scores(held_out.distribution.mean(), held_out.y)[scoring]
    scores = -held_out.distribution.logpdf(held_out.y)
    return scores if scores.ndim == 1 else scores.mean(axis=1)


def warn_at_edge(path, search):
    """Warn if the best alpha is the smallest or the largest, or if the score does not depend on alpha."""
    if path.scaling is not None and not path.scaling.averaged:  # alpha has no part in these probabilities
        return
    alphas, best, scores = search.alphas, path.best, path.scores[path.scores > -np.inf]
    largest = best == len(alphas) - 1
    covered = path.results["mean_test_coverage"][-1] if search.name == "coverage" else 0.0
    if largest and covered >= search.level:
        reason = (
            f"The noise alone covers {covered:.3f} of the held-out rows, so the largest alpha, {alphas[best]:g}, was "
            "chosen: confidence intervals have almost no width. Try: noise='auto', or a Ribbon with alpha=1."
        )
    elif np.ptp(scores) <= 1e-12 * np.abs(scores).max():
        reason = "The scoring does not depend on alpha, so alpha was not tuned. Try: scoring='nll'."
    elif best not in (0, len(alphas) - 1) or not _matters(path, alphas, search.name):
        return
    elif best == 0:
        reason = (
            f"The smallest alpha, {alphas[0]:g}, is best: intervals are too narrow. Try: another base model or a "
            "stronger penalty if it fits badly, else smaller alphas."
        )
    elif path.scalings is not None:  # a large alpha is common if a temperature makes logits small
        return
    else:
        reason = (
            f"The largest alpha, {alphas[-1]:g}, is best: intervals show noise alone, as is right for a simple model "
            "of many rows. Try: groups= in fit if rows are related, so that folds keep them together."
        )
    warn_user(reason, AlphaEdgeWarning)


def _matters(path, alphas, scoring):
    """Whether the best alpha is clearly better than the alpha nearest to 1, or than the opposite edge."""
    usual = nearest_to_one(alphas)
    return is_clear(path, path.at(len(alphas) - 1 - path.best if usual == path.best else usual), scoring)


def nearest_to_one(values):
    """Position of the value nearest to 1 on a log scale."""
    return int(np.argmin(np.abs(np.log(values))))


def _is_noiseless(held_out):
    """Whether a regressor has no residuals beyond rounding errors."""
    sizes = ((own.distribution.dispersion, np.abs(own.targets).max(initial=0.0)) for own in held_out.outputs)
    return any(np.all(dispersion <= (1e-12 * largest) ** 2) for dispersion, largest in sizes)


def _greater_is_better(name, values, level):
    """Scores with the sign and the order of scikit-learn's scorers."""
    signed = {"coverage": -np.abs(values - level), "score": values}.get(name, -values)
    return np.where(np.isnan(signed), -np.inf, signed)


def _results(folds, search, scalings):
    """Scores of all metrics, alphas and folds, as in scikit-learn's ``cv_results_``."""
    weights = np.array([fold.held_out.weight.sum() for fold in folds])
    results = {"alpha": search.alphas.copy()}
    if scalings is not None:
        results["temperature"] = np.array([scaling.temperature for scaling in scalings])
    tables = [_scores_of_fold(fold, search, scalings) for fold in folds]
    for metric in [name for name in tables[0] if all(name in table for table in tables)]:  # some have no closed CRPS
        values = np.array([table[metric] for table in tables])  # (folds, alphas)
        results[f"mean_test_{metric}"] = np.average(values, axis=0, weights=weights)
        with np.errstate(invalid="ignore"):
            results[f"std_test_{metric}"] = values.std(axis=0)
        results.update({f"split{k}_test_{metric}": row for k, row in enumerate(values)})
    return results


def _scores_of_fold(fold, search, scalings):
    """Scores of one fold at every alpha: metric name to an array (A,)."""
    alphas, record = search.alphas, fold.held_out
    if scalings is not None:
        path = classification_path(record, alphas, scalings)
    else:
        path = regression_path(record, alphas, search.level, want_crps=search.name == "crps")
        if _is_noiseless(record):
            path["nll"] = np.full(len(alphas), np.inf)
    if callable(search.scoring):
        weight = {"sample_weight": record.weight} if (record.weight != 1).any() else {}
        pairs = zip(map(float, alphas), scalings or [None] * len(alphas), strict=True)
        path["score"] = np.array([search.scoring(fold.at(*pair), fold.X, fold.y, **weight) for pair in pairs], float)
        if len(wrong := alphas[~np.isfinite(path["score"])]):
            raise ValueError(f"scoring must return finite numbers; it did not at alpha={wrong[0]:g}.")
    return path


def _refined(folds, alphas, means, best, level):
    """Alpha between the candidates at which pooled coverage meets the level, by bisection, and its score."""

    def coverage(alpha):
        values = [regression_path(fold.held_out, [alpha], level)["coverage"][0] for fold in folds]
        return np.average(values, weights=[fold.held_out.weight.sum() for fold in folds])

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
