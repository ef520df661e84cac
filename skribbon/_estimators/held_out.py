"""Predictions of training rows by networks that have not seen them: refits without folds, or rows set aside."""

import time
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from operator import attrgetter

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils import indexable
from sklearn.utils.parallel import delayed

from .._core import thresholds
from .._core.deals import GOLDEN, row_keys, some_by_keys
from .._core.findings import is_sorted, neighbour_correlation
from .._core.training import is_network, may_have_memorized
from .._predict.held_out import HeldOut, Unseen
from .._predict.joint import JointPredictive
from .._predict.predictive import Latent, Predictive
from .._utils.checks import checked_weight, coarsest, is_name
from .._utils.compat import run_tasks, safe_indexing
from .._utils.unwrap import fitted_leaf
from ..exceptions import FlexibleModelWarning, RibbonWarning, noted_warnings, warn_user
from ..models.base import raw_predictions
from .base_model import MAX_SEED, seed_all, targets_of
from .folds import Fold, split_positions
from .ribbon import may_be_refitted
from .temperature import scaling_rows

MOST_REACH = 2**20  # floats of the derivatives along which the reach of training rows is computed: 8 MB


def unseen_rows(ribbon, settings, estimator, training, whole, table):
    """Predictions of training rows by fits that have not seen them; None for leave-one-out in closed form.

    ``estimator`` is the base model fitted to all rows, ``whole`` its ParametricModel with all parameters.
    """
    held_out, rows, automatic = settings.held_out, training.rows, is_name(settings.held_out, "auto")
    if is_name(held_out, "loo"):
        return None
    if automatic and not (rows.in_memory and settings.learns and may_have_memorized(training, whole)):
        return None
    return refits_or_set_aside(ribbon, held_out, estimator, whole, rows, table)


def refits_or_set_aside(ribbon, held_out, estimator, whole, rows, table):
    """Predictions of rows that early stopping set aside, or else by refits; None if "auto" can have neither."""
    automatic = is_name(held_out, "auto")
    if not rows.in_memory:
        raise ValueError(f"held_out={held_out!r} needs rows in memory, but X is a Dask collection; use held_out='loo'.")
    asked = is_name(held_out, "early_stopping")
    found = set_aside(estimator, whole, rows) if asked or (automatic and rows.groups is None) else None
    if asked and found is None:
        raise ValueError(
            "held_out='early_stopping' needs an MLPRegressor or MLPClassifier with early_stopping=True, an integer "
            "random_state and no warm_start, whose validation rows can be drawn again. Use held_out='auto'."
        )
    if found is not None and (asked or len(found.rows) >= thresholds.FEWEST_UNSEEN_ROWS):
        return found
    if may_be_refitted(ribbon, rows):
        return refitted(ribbon, estimator, held_out, whole, rows, table)
    if automatic:
        return None
    raise ValueError(f"held_out={held_out!r} needs refits, but the base model is frozen. Use 'loo' and conformalize.")


def has_many_parameters(rows):
    """Whether the model of the rows is a network with so many parameters that it could memorize them."""
    model = rows.model
    return is_network(model) and len(model.theta) >= thresholds.EASY_LEVERAGE * rows.n * model.loss.curvature_rank


def n_refits(rows):
    """Number of folds to refit a classifier without: all, or as many as hold out enough rows."""
    enough = thresholds.N_FOLDS * scaling_rows(rows.model.loss.n_classes) / rows.n_rows
    return max(thresholds.N_REFITS, int(np.ceil(enough)))


# ---------------------------------------------------------------------- refits
def refitted(ribbon, estimator, held_out, model, rows, table, search=None):
    """Predictions of held-out rows by cold refits of the base model, started from other random numbers.

    ``estimator``, ``model`` and ``rows`` are those of the fit to all rows, ``table`` its X, y, sample_weight and
    groups. The seeds of the refits follow from the seed of that fit. Refits are tasks of ``search``, a RibbonCV, or if
    None of the Ribbon.
    """
    groups = coarsest(table[3], len(table[1]))
    X, y, sample_weight, groups = indexable(*table[:3], groups)
    sample_weight = None if sample_weight is None else checked_weight(sample_weight, X)
    params = {} if groups is None else {"groups": groups}
    groups = None if rows.groups is None else groups  # None if each row is a group of its own
    splits = _splits(held_out, X, y, sample_weight, groups, params, is_classifier(ribbon), rows)
    if not splits:
        return None
    seed, bare = getattr(fitted_leaf(estimator), "random_state", None), clone(ribbon)
    seeds = np.random.RandomState(seed if isinstance(seed, Integral) else 0).randint(MAX_SEED, size=len(splits))
    jobs = (
        delayed(_refit)(bare, X, y, sample_weight, train, seeds[k], f"refit {k + 1} of {len(splits)}")
        for k, (train, _) in enumerate(splits)
    )
    compare = compared_logits if is_classifier(ribbon) else compared
    models = list(run_tasks(search or ribbon, "fold" if search else "refit", jobs, len(splits), ribbon.n_jobs))
    return compare(models, splits, model, rows, X)


def compared_logits(models, splits, model, rows, X):
    """Unseen from the models of a classifier's refits, with their training and held-out positions in X."""
    F, tests = [_raw_of(own, X) for own in models], [test for _, test in splits]
    if is_network(model) and len(F) > 1:  # refits differ as two fits do, in their rows and random numbers
        gaps = [np.stack([f[test] for f in F if f is not F[k]]) - F[k][test] for k, test in enumerate(tests)]
        variance = thresholds.NETWORK_SPREAD * np.mean([np.mean(np.sum(gap**2, axis=2)) for gap in gaps])
    else:  # leaving out a share of the rows moves a fit by that share over the rest of its variance
        full, share = raw_predictions(model, rows.X), np.mean(list(map(len, tests))) / rows.n_rows
        moves = [np.sum((f - full)[test] ** 2, axis=1) for f, test in zip(F, tests, strict=True)]
        variance = (1 / share - 1) * np.mean(np.concatenate(moves))
    f = [own[test] for own, test in zip(F, tests, strict=True)]
    unseen = _sampled(splits, f, np.ones(1), rows, scaling_rows(model.loss.n_classes))
    return replace(unseen, variance=float(variance))


def _raw_of(model, X):
    """Raw predictions (n, k) of a refit at the user's rows X, which its transformers may overwrite."""
    return raw_predictions(model, model.prepare(deepcopy(X) if model.preprocess else X))


def _sampled(splits, f, ratio, rows, size):
    """Unseen of at most ``size`` distinct rows that refits have not seen; f are the predictions of each refit."""
    tests = [test for _, test in splits]
    positions, fold = np.concatenate(tests), np.repeat(np.arange(len(tests)), list(map(len, tests)))
    keys = row_keys(rows.y[positions], rows.X[positions]) * GOLDEN  # permuted: folds are ranges of the keys themselves
    return Unseen(positions, np.concatenate(f), ratio, "folds", fold).sample(some_by_keys(keys, size))


def compared(models, splits, model, rows, X):
    """Unseen from the models of refits, with their training and held-out positions among the rows of X.

    The fit to all rows errs at new rows as much as at its training rows, plus the gap that refits have between the two.
    The gap is inverse to the number of rows, except for a network that interpolates, whose gap is noise.
    """
    full, f, squares = _squares(model, raw_predictions(model, rows.X), rows.y), [], []
    for own, (train, test) in zip(models, splits, strict=True):
        raw = _raw_of(own, X)
        if raw.shape[1] != model.loss.n_outputs:
            raise ValueError("A refit without some of the rows has no scale of the noise; use held_out='loo'.")
        raw = on_scale_of(model, own, raw)
        found, mass = _squares(model, raw, rows.y), rows.mass
        parts = (found, test), (found, train), (full, train)
        squares.append([np.average(A[part], axis=0, weights=mass[part]) for A, part in parts])
        f.append(raw[test])
    _warn_if_unstable(np.array(squares)[:, 0].sum(axis=1))
    unseen, seen, expected = np.mean(squares, axis=0)  # (q,) each
    memory = np.clip(np.divide(seen, unseen, out=np.ones_like(unseen), where=unseen > 0), 0.0, 1.0)
    kept = np.mean([len(train) for train, _ in splits]) / rows.n_rows
    expected = expected + (1 - (1 - kept) * memory) * np.maximum(unseen - seen, 0.0)
    ratio = np.divide(expected, unseen, out=np.ones_like(unseen), where=unseen > 0)
    return _sampled(splits, f, ratio, rows, thresholds.NOISE_ROWS)


def _warn_if_unstable(errors):
    """Warn if mean squared errors (K,) of refits at their held-out rows differ widely."""
    if errors.max() > thresholds.MAX_REFIT_RATIO * errors.min() > 0:
        warn_user(
            "Refits without some of the rows have held-out errors that differ by a factor of "
            f"{np.sqrt(errors.max() / errors.min()):.2g}: training is unstable, intervals rough. Try: scale X and y.",
            FlexibleModelWarning,
        )


def _splits(held_out, X, y, sample_weight, groups, params, classifier, rows):
    """Positions of training and held-out rows of every refit; ``params`` are for a splitter."""
    if not is_name(held_out, "auto"):
        found = split_positions(held_out, X, y, groups, classifier, params, sample_weight, "held_out")
        if classifier and any(len(missing := np.setdiff1d(y, y[train])) for train, _ in found):
            raise ValueError(
                f"held_out={held_out!r} leaves training rows without an example of class {missing.tolist()}; use "
                "held_out='auto' or 'loo', or drop classes of a single row."
            )
        return found
    counted = np.ones(len(y), dtype=bool) if sample_weight is None else sample_weight > 0
    units = np.count_nonzero(counted) if groups is None else len(np.unique(groups))
    if units < 2:
        raise ValueError("Refits without some of the rows need more than 1 sample; pass more rows, or held_out='loo'.")
    n_folds = min(thresholds.N_FOLDS, units)
    if not classifier:
        found = split_positions(n_folds, X, y, groups, False, {}, sample_weight)
        return found[: thresholds.N_REFITS]
    classes, counts = np.unique(y), np.unique(y[counted], return_counts=True)[1]
    if groups is not None:
        n_folds = min(n_folds, counts.max())
    if n_folds < 2:
        return []
    stratified = groups is not None or counts.min() >= thresholds.N_FOLDS
    found = split_positions(n_folds, X, y, groups, stratified, {}, sample_weight)
    whole = [(train, test) for train, test in found if len(np.unique(y[train])) == len(classes)]
    return whole[: n_refits(rows)]


def _refit(ribbon, X, y, sample_weight, train, seed, name):
    """Fit the base model to some rows, from other random numbers; returns its ParametricModel."""
    start, notes = time.perf_counter(), []
    estimator = seed_all(clone(ribbon._get_estimator()), np.random.RandomState(seed), override=True)
    weight = None if sample_weight is None else sample_weight[train]
    with noted_warnings(notes, name, (RibbonWarning,)):  # the fit to all rows has warned
        _, model, _ = ribbon._fit_base(safe_indexing(X, train), y[train], weight, estimator)
    if ribbon.verbose:
        print(f"[{type(ribbon).__name__}] {name}: {len(train)} rows, {time.perf_counter() - start:.2f} s")
    return model


def _squares(model, f, y):
    """Squared residuals (n, q), one column per output."""
    return (y - f) ** 2 if model.loss.by_output else model.loss.squared_residuals(f, y)[:, None]


def on_scale_of(model, other, f):
    """Raw predictions f (n, k) of another fit, whose target transformer differs, on the scale of ``model``."""
    if model.target_transformer is None:
        return f
    m = max(1, len(model.loss.by_output))

    def moved(t):
        return model.encode_target(other.decode_target(t if m > 1 else t[:, 0])).reshape(len(f), -1)

    means, rest = f[:, :m], f[:, m:]
    if rest.shape[1]:  # the log variance of the noise
        step = 1e-4
        slope = np.abs(moved(means + step) - moved(means - step)) / (2 * step)
        rest = rest + 2 * np.log(np.maximum(slope, 1e-300))  # zero if all training targets are equal
    return np.hstack([moved(means), rest])


def unseen_folds(ribbon, unseen, records, X, y):
    """Folds of a Ribbon of all rows, from records of the rows that refits have not seen, one per output, at alpha 1."""
    units, several = ribbon.ribbon_.units, bool(ribbon.model_.loss.by_output)
    laws, targets = (A if several else (A,) for A in (ribbon.law_, ribbon.target_scale_))
    folds, first, observed = [], records[0], np.asarray(targets_of(ribbon.model_, y), dtype=float)
    for k in range(unseen.n_fits):
        at = np.flatnonzero(unseen.fold == k)
        rows, columns = unseen.rows[at], zip([record.distribution for record in records], laws, targets, strict=True)
        outputs = tuple(
            Predictive(part.latent.take(at), part.loss, np.broadcast_to(part.dispersion, len(first))[at], law, target)
            for part, law, target in columns
        )
        prediction = _joint(outputs, ribbon.noise_.correlation) if several else outputs[0]
        weight, group = first.weight[at], None if first.group is None else first.group[at]
        record = HeldOut(prediction, prediction.latent.f, observed[rows], weight, group, "folds", 1, units)
        folds.append(Fold(ribbon, safe_indexing(X, rows), y[rows], record))
    return folds


def class_folds(ribbon, unseen, records, X, y):
    """Folds of a classifier of all rows, from the records of the rows that each refit has not seen."""
    places = [unseen.rows[unseen.fold == k] for k in range(unseen.n_fits)]
    return [Fold(ribbon, safe_indexing(X, at), y[at], own) for at, own in zip(places, records, strict=True)]


def _joint(outputs, correlation):
    """JointPredictive of outputs, without covariances of their raw predictions."""
    variances = np.stack([own.latent.covariance[:, 0, 0] for own in outputs], axis=1)
    f = np.hstack([own.latent.f for own in outputs])
    return JointPredictive(outputs, Latent(f, variances[:, :, None] * np.eye(len(outputs))), correlation)


# ---------------------------------------------------------------------- findings of a whole fit
def last_findings(fitted, training, unseen):
    """Report dependence between rows; returns all findings, and the reach of the training rows, as a dict.

    The reach (k, 3) has the largest epistemic variance of each raw prediction at some training rows, their number, and
    alpha.
    """
    if training.rows.in_memory:
        report_dependence(training, unseen)
    X, model, ribbon = training.rows.around(), fitted["model_"], fitted["ribbon_"]
    X = X[:: 1 + X.shape[0] * model.loss.n_outputs * ribbon.root.shape[1] // MOST_REACH]
    moves = model.tangent(model.rows(X)).jvp(ribbon.root)
    with np.errstate(over="ignore"):
        largest = np.einsum("nkr,nkr->nk", moves, moves).max(axis=0)
    reach = np.column_stack(np.broadcast_arrays(largest, X.shape[0], ribbon.alpha))
    return {"_findings_": tuple(training.findings.values()), "_reach_": reach}


def report_dependence(training, unseen):
    """Warn if residuals of neighbouring rows, or sums over neighbouring groups, are correlated.

    Residuals are gradients of the loss at predictions by refits, else leave-one-out; by the fit itself with groups or
    without exact leverages. Rows of weight zero are ignored, and identical neighbours count once, like one row of a
    larger weight. Rows that are sorted by y are not checked, nor is a model that fits them exactly.
    """
    rows, loss, groups = training.rows, training.rows.model.loss, training.rows.groups
    at = np.arange(rows.n_rows) if unseen is None else np.sort(unseen.rows)
    if unseen is None and not (groups is None and training.curvature.knows_leverages):
        e = rows.map(attrgetter("u"))
    else:
        f = training.record.left_out if unseen is None else unseen.f[np.argsort(unseen.rows)]
        with np.errstate(all="ignore"):  # leave-one-out predictions may overflow
            e = np.nan_to_num(loss.gradient(f, rows.y[at]), posinf=0.0, neginf=0.0)
    kept, q = rows.weight[at] > 0, loss.n_outputs if loss.n_classes else max(1, len(loss.by_output))
    at, e, y = at[kept], e[kept, :q], rows.y[at[kept]].reshape(-1, q if loss.by_output else 1)
    if is_sorted(y, loss.n_classes) or np.abs(e).max() <= 1e-9 * np.abs(y).max():  # rounding errors
        return
    if groups is None:
        place = np.cumsum(rows.weight > 0)[at]
        copies = np.append(False, np.isclose(e[1:], e[:-1], rtol=1e-9, atol=0.0).all(axis=1) & (np.diff(place) == 1))
        e, place = e[~copies], (place - np.cumsum(copies))[~copies]
    else:
        place, unit = np.unique(np.cumsum(groups.weight > 0)[groups.code[at]], return_inverse=True)
        e = np.stack([np.bincount(unit, rows.weight[at] * column) for column in e.T], axis=1)
    (correlation, z), noun = neighbour_correlation(e, place), "rows" if groups is None else "groups"
    training.findings.report("dependence", z, correlation=correlation, noun=noun)


# ---------------------------------------------------------------------- early stopping
def set_aside(estimator, model, rows):
    """Predictions of the rows that early stopping set aside; None if they cannot be recovered.

    scikit-learn draws them after the initial weights. Their score must equal ``best_validation_score_``.
    """
    network = fitted_leaf(estimator)
    if not (isinstance(network, MLPRegressor | MLPClassifier) and network.early_stopping and network.solver != "lbfgs"):
        return None
    if not isinstance(network.random_state, Integral) or network.warm_start:
        return None
    rng, units = np.random.RandomState(network.random_state), (rows.X.shape[1], *map(len, network.intercepts_))
    for before, after in pairwise(units):
        rng.uniform(size=(before + 1) * after)
    known, classes = {"random_state": rng, "test_size": network.validation_fraction}, model.loss.n_classes
    _, found = train_test_split(np.arange(rows.n_rows), stratify=rows.y if classes == 2 else None, **known)
    f, weight = raw_predictions(model, rows.X[found]), rows.mass[found]
    if weight.sum() == 0:
        return None
    if classes:
        score = np.average(model.loss.probabilities(f).argmax(axis=1) == rows.y[found], weights=weight)
    else:
        mean = f if model.loss.by_output else model.loss.mean(f[:, 0])
        score = r2_score(rows.y[found], mean, sample_weight=weight)
    if not np.isclose(score, network.best_validation_score_, rtol=1e-6, atol=1e-6):
        return None
    return Unseen(found, f, np.ones(max(1, len(model.loss.by_output))), "early_stopping")
