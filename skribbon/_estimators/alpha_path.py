"""Score HeldOut records along a path of alphas and temperatures, and choose from it."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from .._core.thresholds import FEWEST_SCORED, MIN_GAIN, MOST_WORK
from .._utils.checks import group_codes
from ..exceptions import AlphaEdgeWarning, warn_user
from ..metrics.scores import calibration_error
from ..noise.scale import standard_error

PATH_PAIRS = 256  # pairs of quadrature nodes for scores of a fold: errors of single rows average out in the mean
STRIDE = 6  # score every sixth alpha while searching the temperature: the best one hardly depends on alpha


@dataclass(frozen=True, eq=False)
class Search:
    """Parameters of the search of a RibbonCV, checked and parsed."""

    alphas: np.ndarray  # (A,) candidates in ascending order
    temperatures: np.ndarray | None  # (T,) candidates in ascending order; None for a regressor
    climbs: bool  # whether to search the best temperature from 1, instead of trying all
    level: float  # level of the intervals that are scored
    scoring: object  # name of a score, or a callable

    @property
    def name(self):
        """Name of the score in ``cv_results_``."""
        return "score" if callable(self.scoring) else self.scoring


# ---------------------------------------------------------------------- scores along the path
def regression_path(held_out, alphas, level, want_crps=False):
    """Scores of a record at every alpha: metric name to an array (A,)."""
    factors, draws = held_out.factors(alphas), held_out.distribution.latent.draws
    size = max(1, 2**22 // (32 if draws is None else draws.shape[-1]) // len(held_out))  # arrays of at most 32 MB
    pieces = [
        _regression_scores(held_out, held_out.distribution.scaled(factors[start : start + size]), level, want_crps)
        for start in range(0, len(factors), size)
    ]
    return {metric: np.concatenate([piece[metric] for piece in pieces]) for metric in pieces[0]}


def _regression_scores(held_out, path, level, want_crps):
    """Mean scores (A,) of distributions along a path of alphas."""
    y = held_out.y
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
    means = {metric: np.average(value, axis=1, weights=held_out.weight) for metric, value in values.items()}
    return {metric: value.reshape(len(value), -1).mean(axis=1) for metric, value in means.items()}  # over outputs


def classification_path(held_out, alphas, most_pairs):
    """Scores of a record at every alpha: metric name to an array (A,)."""
    own, weight = held_out.y, held_out.weight
    scores = {"nll": [], "brier": [], "ece": [], "accuracy": []}
    for proba in held_out.distribution.mean_path(held_out.factors(alphas), most_pairs):
        for metric, rows in _row_scores(proba, own).items():
            scores[metric].append(np.average(rows, weights=weight))
        scores["ece"].append(calibration_error(proba.max(axis=1), proba.argmax(axis=1) == own, weight))
    return {metric: np.array(values) for metric, values in scores.items()}


def _row_scores(proba, own):
    """Scores (m,) of probabilities (m, K) at the classes own (m,), by metric."""
    hit = np.eye(proba.shape[1])[own]
    likelihood = np.maximum((proba * hit).sum(axis=1), np.finfo(float).tiny)
    return {
        "nll": -np.log(likelihood),
        "brier": ((proba - hit) ** 2).sum(axis=1),
        "accuracy": (proba.argmax(axis=1) == own).astype(float),
    }


@dataclass(frozen=True, eq=False)
class Path:
    """Scores of held-out rows along the alphas at one temperature, and a choice among them."""

    folds: list  # with HeldOut records at this temperature
    results: dict  # mean_test_*, std_test_* and split*_test_* of every metric, (A,) each
    scores: np.ndarray  # (A,), greater is better; minus infinity if a score is not a number
    by_fold: np.ndarray  # scores (folds, A)
    best: int  # position of the choice; of equal scores the last, with the narrowest intervals
    alpha: float
    score: float
    temperature: float | None = None  # None for a regressor

    @classmethod
    def follow(cls, folds, search, temperature=None, most_pairs=PATH_PAIRS):
        """Score all folds at all alphas of a Search and choose the best."""
        if temperature is not None:
            folds = [fold.with_temperature(temperature) for fold in folds]
        alphas, level, name = search.alphas, search.level, search.name
        results = _results(folds, search, temperature, most_pairs)
        means = results[f"mean_test_{name}"]
        by_fold = np.array([results[f"split{k}_test_{name}"] for k in range(len(folds))])
        scores, by_fold = (_greater_is_better(name, values, level) for values in (means, by_fold))
        if temperature is None and name == "nll" and any(_is_noiseless(fold.held_out) for fold in folds):
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
        return cls(folds, results, scores, by_fold, best, *choice, temperature)

    @property
    def parameters(self):
        """Chosen parameters of the Ribbon, as a dict."""
        chosen = {"alpha": self.alpha}
        return chosen if self.temperature is None else chosen | {"temperature": self.temperature}

    def at(self, index):
        """Path with the alpha at another position as its choice."""
        return replace(self, best=index, alpha=float(self.results["alpha"][index]), score=float(self.scores[index]))


def choose(folds, search, all_rows):
    """Choose among candidates, each with its folds; returns a position, its Path, and a table for each candidate."""
    if search.temperatures is None:
        paths = [Path.follow(same, search) for same in folds]
        chosen, best = _clear_choice(paths, search.name)
        tables = [path.results for path in paths]
    else:
        sampled = folds if all_rows or search.name == "score" else map(rows_to_compare, folds)
        searches = [Temperatures(same, search) for same in sampled]
        paths = [own.choice() for own in searches]
        chosen = int(np.argmax([path.score for path in paths]))
        best, tables = paths[chosen], [own.table() for own in searches]
    if len(search.alphas) > 1:
        warn_at_edge(best, search)
    return chosen, best, tables


# ---------------------------------------------------------------------- alpha and temperature of a classifier
class Temperatures:
    """Paths of the same folds at several temperatures, by their position; each is followed once."""

    def __init__(self, folds, search):
        self.folds, self.search, self.values, self.paths = folds, search, search.temperatures, {}

    def path(self, i):
        """Path at the i-th temperature."""
        if i not in self.paths:
            self.paths[i] = self._follow(i, self.search.alphas)
        return self.paths[i]

    def _follow(self, i, alphas, most_pairs=PATH_PAIRS):
        """Path at the i-th temperature with other alphas."""
        return Path.follow(self.folds, replace(self.search, alphas=alphas), float(self.values[i]), most_pairs)

    def table(self):
        """Scores of all paths as columns, by temperature and alpha."""
        paths = [path for _, path in sorted(self.paths.items())]
        n = len(self.search.alphas)
        return stacked([{"temperature": np.full(n, path.temperature), **path.results} for path in paths])

    def _climb(self):
        """Follow the paths at the best temperatures for any alpha and for 1, searched from 1 in shrinking steps."""
        alphas, usual = self.search.alphas, nearest_to_one(self.search.alphas)
        some = np.arange(usual % STRIDE, len(alphas), STRIDE)
        rough = lru_cache(None)(lambda i: self._follow(i, alphas[some], 64))  # few nodes: only the order matters
        for score in (lambda i: rough(i).score, lambda i: rough(i).scores[usual // STRIDE]):
            here, step = nearest_to_one(self.values), max(1, len(self.values) // 4)
            while step:
                best = max([i for i in (here, here - step, here + step) if 0 <= i < len(self.values)], key=score)
                here, step = best, step // 2 if best == here else step
            self.path(here)

    def choice(self):
        """Path whose choice is closest to a temperature and alpha of 1, within a standard error of the best.

        Tried in this order: other temperatures, other alphas, other alphas at the best temperature.
        """
        one, usual = nearest_to_one(self.values), nearest_to_one(self.search.alphas)
        if self.search.climbs:
            self._climb()
        for i in [one] if self.search.climbs else range(len(self.values)):
            self.path(i)
        tempered = max(self.paths, key=lambda i: self.paths[i].scores[usual])
        highest = max(self.paths, key=lambda i: self.paths[i].score)
        best = self.paths[highest]
        departures = [
            *((i, usual) for i in _from_to(one, tempered)),
            *((one, j) for j in _from_to(usual, self.paths[one].best)),
            *((highest, j) for j in _from_to(usual, best.best)),
        ]
        for i, j in departures:
            path = self.paths[i].at(j) if i in self.paths else self._follow(i, self.search.alphas[[j]])
            if not is_clear(best, path, self.search.name):
                return self.path(i).at(j)
        return best  # always among the departures


def rows_to_compare(folds):
    """Folds of a classifier with a sample of their held-out rows if there are many rows and classes."""
    K = folds[0].ribbon.model_.loss.n_classes
    most = max(FEWEST_SCORED, MOST_WORK / K**2) if K > 2 else np.inf
    total = sum(len(fold.y) for fold in folds)
    return folds if total <= most else [fold.sampled(max(1, int(most * len(fold.y) / total))) for fold in folds]


def _from_to(start, end):
    """Positions from start to end, both included."""
    step = 1 if end >= start else -1
    return range(start, end + step, step)


def is_clear(best, other, scoring):
    """Whether the choice of one path beats the choice of another by a standard error and by MIN_GAIN."""
    gain, worth = best.score - other.score, MIN_GAIN if scoring == "nll" else MIN_GAIN * abs(best.score)
    return bool(gain > worth and gain > error_of_gain(best, other, scoring))


def error_of_gain(best, other, scoring):
    """Standard error of the difference in score: over rows or groups for means over rows, else over folds."""
    if scoring in ("nll", "brier"):
        pairs = [(a.held_out, b.held_out) for a, b in zip(best.folds, other.folds, strict=True)]
        gains = [_scores_by_row(a, best.alpha, scoring) - _scores_by_row(b, other.alpha, scoring) for a, b in pairs]
        weight, group = np.concatenate([a.weight for a, _ in pairs]), None
        if pairs[0][0].group is not None:
            group = group_codes(np.concatenate([a.group for a, _ in pairs]), len(weight))
        return standard_error(np.concatenate(gains), weight, group)
    by_fold = best.by_fold[:, best.best] - other.by_fold[:, other.best]
    return float(by_fold.std() / np.sqrt(max(len(by_fold) - 1, 1)))


def _scores_by_row(held_out, alpha, scoring):
    """Scores (m,) of the rows of a record at an alpha; smaller is better."""
    if held_out.of_classes:
        proba = held_out.distribution.mean_path(held_out.factors([alpha]), PATH_PAIRS)[0]
        return _row_scores(proba, held_out.y)[scoring]
    scores = -held_out.at_alpha(alpha).distribution.logpdf(held_out.y)
    return scores if scores.ndim == 1 else scores.mean(axis=1)


def _clear_choice(paths, scoring):
    """Position and Path of a regressor's choice: the first path at an alpha of 1, unless another is clearly better."""
    chosen = int(np.argmax([path.score for path in paths]))
    best = paths[chosen]
    if scoring == "coverage":
        return chosen, best
    usual = paths[0].at(nearest_to_one(paths[0].results["alpha"]))
    return (chosen, best) if best.score > usual.score and is_clear(best, usual, scoring) else (0, usual)


def warn_at_edge(path, search):
    """Warn if the best alpha is the smallest or the largest, or if the score does not depend on alpha."""
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
    elif path.temperature is not None:  # a large alpha is common if a temperature makes logits small
        return
    else:
        reason = (
            f"The largest alpha, {alphas[-1]:g}, is best: intervals are noise alone, as is right for a simple model of "
            "many rows. Try: a splitter that keeps related rows together, if held-out rows are not new."
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
    return any(
        np.all(own.distribution.dispersion <= (1e-12 * np.abs(own.targets).max(initial=0.0)) ** 2)
        for own in held_out.outputs
    )


def _greater_is_better(name, values, level):
    """Scores with the sign and the order of scikit-learn's scorers."""
    signed = {"coverage": -np.abs(values - level), "score": values}.get(name, -values)
    return np.where(np.isnan(signed), -np.inf, signed)


def _results(folds, search, temperature, most_pairs):
    """Scores of all metrics, alphas and folds, as in scikit-learn's ``cv_results_``."""
    weights = np.array([fold.held_out.weight.sum() for fold in folds])
    results = {"alpha": search.alphas.copy()}
    tables = [_scores_of_fold(fold, search, temperature, most_pairs) for fold in folds]
    for metric in [name for name in tables[0] if all(name in table for table in tables)]:  # some have no closed CRPS
        values = np.array([table[metric] for table in tables])  # (folds, alphas)
        results[f"mean_test_{metric}"] = np.average(values, axis=0, weights=weights)
        with np.errstate(invalid="ignore"):
            results[f"std_test_{metric}"] = values.std(axis=0)
        results.update({f"split{k}_test_{metric}": row for k, row in enumerate(values)})
    return results


def stacked(tables):
    """One table from several, with the columns that all have."""
    names = [name for name in tables[0] if all(name in table for table in tables)]
    return {name: np.concatenate([table[name] for table in tables]) for name in names}


def _scores_of_fold(fold, search, temperature, most_pairs):
    """Scores of one fold at every alpha: metric name to an array (A,)."""
    alphas, record = search.alphas, fold.held_out
    if temperature is not None:
        path = classification_path(record, alphas, most_pairs)
    else:
        path = regression_path(record, alphas, search.level, want_crps=search.name == "crps")
        if _is_noiseless(record):
            path["nll"] = np.full(len(alphas), np.inf)
    if callable(search.scoring):
        weight = {"sample_weight": record.weight} if (record.weight != 1).any() else {}
        scores = [search.scoring(fold.at(float(alpha), temperature), fold.X, fold.y, **weight) for alpha in alphas]
        path["score"] = np.array(scores, dtype=float)
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
