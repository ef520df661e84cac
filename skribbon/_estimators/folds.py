"""Folds: fits to some rows, and HeldOut records of the rows that they have not seen."""

import time
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils.parallel import delayed

from .._core.deals import deal, row_keys
from .._core.thresholds import EASY_LEVERAGE, HEAVY_ROWS
from .._predict.held_out import HeldOut
from .._utils.checks import checked_weight, coarsest, group_codes, is_name
from .._utils.compat import run_tasks, safe_indexing
from ..exceptions import ONCE, FlexibleModelWarning, WeightWarning, noted_warnings, warn_once_per_kind, warn_user
from ..noise.fit import pooled_noise
from .base_model import dask_backend, targets_of
from .temperature import reaches


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows of a fold, and its held-out rows X, y, weight and group in memory."""

    name: str
    X: Any
    y: Any
    fit_params: dict
    held_out: tuple
    n_train: int
    n_test: int

    @classmethod
    def from_rows(cls, name, X, y, train, test, sample_weight, fit_params):
        """Split rows in memory by their positions."""
        params = {key: value[train] for key, value in fit_params.items()}
        columns = (None if column is None else column[test] for column in (sample_weight, fit_params.get("groups")))
        held_out = safe_indexing(X, test), y[test], *columns
        return cls(name, safe_indexing(X, train), y[train], params, held_out, len(train), len(test))


@dataclass(frozen=True, eq=False)
class Fold:
    """A Ribbon fitted to some rows, and other rows X, y with their HeldOut record."""

    ribbon: BaseEstimator
    X: Any
    y: np.ndarray
    held_out: HeldOut

    @classmethod
    def from_rows(cls, ribbon, X, y, weight=None, group=None, origin="folds", n_fits=1):
        """Predict rows that a fitted Ribbon has not seen."""
        distribution = ribbon.predict_distribution(X)
        classes = ribbon.model_.encode_target(y).astype(int) if is_classifier(ribbon) else None
        observed = np.asarray(targets_of(ribbon.model_, y), dtype=float) if classes is None else classes
        weight = np.ones(len(observed)) if weight is None else weight
        rows = distribution, distribution.latent.f, observed, weight, coarsest(group, len(observed))
        record = HeldOut(*rows, origin, n_fits, ribbon.ribbon_.units, ribbon.ribbon_.alpha)
        return cls(ribbon, X, y, record.weighed(ribbon.weight_type))

    def at(self, alpha, scaling=None):
        """Fitted Ribbon of the fold at another alpha, and for a classifier with another Scaling."""
        ribbon = self.ribbon
        return ribbon.with_alpha(alpha) if scaling is None else ribbon.with_alpha(alpha)._with_scaling(scaling)

    def with_noise(self, noise):
        """Fold with a copy of its Ribbon that has another fitted noise of constant dispersion."""
        ribbon, record = copy(self.ribbon), self.held_out
        ribbon.noise_ = noise
        if record.y.ndim == 1:
            return replace(self, ribbon=ribbon, held_out=record.with_dispersion(noise.dispersion_))
        pairs = zip(record.outputs, noise.noises, strict=True)
        outputs = tuple(own.with_dispersion(single.dispersion_).distribution for own, single in pairs)
        joint = replace(record.distribution, outputs=outputs, correlation=noise.correlation)
        return replace(self, ribbon=ribbon, held_out=replace(record, prediction=joint))


# ---------------------------------------------------------------------- splits
def is_number_of_folds(cv):
    """Whether ``cv`` is a number of folds, or None for five."""
    return cv is None or isinstance(cv, Integral)


def split_positions(cv, X, y, groups, classifier, split_params, sample_weight=None, name="cv"):
    """Positions of training and held-out rows of every fold; a number of folds keeps groups and copies together.

    Rows of weight zero have no part in a number of folds: the last one holds them out. Names of groups do not matter.
    Errors about too many folds name the parameter ``name``.
    """
    splitter, groups = check_cv(cv, y, classifier=classifier), coarsest(groups, len(y))
    if not is_number_of_folds(cv):
        found = list(splitter.split(X, y, **split_params))
    elif groups is None:
        counts = np.ones(len(y), dtype=bool) if sample_weight is None else np.asarray(sample_weight) > 0
        kept, y = np.flatnonzero(counts), np.asarray(y)[counts]
        keys = row_keys(y, safe_indexing(X, kept))
        if sample_weight is not None:
            _warn_of_heavy_rows(row_keys(np.zeros(len(y)), safe_indexing(X, kept)), np.asarray(sample_weight)[counts])
        _check_number_of_folds(splitter.n_splits, y, {"samples": len(y)}, classifier, name)
        dealt = deal(lambda rows: [test for _, test in splitter.split(rows, y[rows])], keys)
        found = [(kept[train], kept[test]) for train, test in dealt]
        found[-1] = found[-1][0], np.append(found[-1][1], np.flatnonzero(~counts))
    else:
        code = group_codes(groups, len(y))
        _, first = np.unique(code, return_index=True)
        _check_number_of_folds(splitter.n_splits, y, {"groups": len(first)}, classifier, name)
        place = np.argsort(np.argsort(row_keys(y, X, code)[first], kind="stable"))  # splitters break ties by labels
        splitter = StratifiedGroupKFold if classifier else GroupKFold
        found = list(splitter(5 if cv is None else cv).split(X, y, place[code]))
    if not found:
        raise ValueError("cv yields no splits. A generator is used up after one fit: pass a splitter or a list.")
    return found


def _check_number_of_folds(n_folds, y, counts, stratified, name):
    """Refuse more folds than rows or groups, as counted, or than rows of the largest class if folds are stratified."""
    if stratified:
        counts["samples in the largest class"] = np.unique(y, return_counts=True)[1].max()
    what = min(counts, key=counts.get)
    if counts[what] < n_folds:
        fewest = max(2, counts[what])
        raise ValueError(f"{name}={n_folds} needs {n_folds} {what}, got {counts[what]} {what}. Use {name}={fewest}.")


def _warn_of_heavy_rows(features, weight):
    """Warn if a few rows have most of the weight, and their features also occur with other targets."""
    _, cell, count = np.unique(features, return_inverse=True, return_counts=True)
    effective = weight.sum() ** 2 / (weight @ weight)  # Kish's number of rows
    if effective < min(HEAVY_ROWS, len(weight) / 2) and weight[count[cell] > 1].sum() > weight.sum() / 2:
        warn_user(
            "A few rows have most of the weight, and their features also occur with other targets, as in a table of "
            "counts. Folds hold out such rows as a whole, so that alpha, temperature and widths may be far off. Try: "
            "repeat rows instead of weighting them, X[np.repeat(np.arange(len(X)), sample_weight)].",
            WeightWarning,
        )


def holds_out_each_once(splits, n):
    """Whether every row is held out exactly once."""
    return np.array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(n))


def splits_of_table(table, cv, classifier):
    """Number of folds of a Dask table, and an iterator of Splits: all other rows, and a sample of the held-out ones."""
    by_partition = is_name(cv, "partitions")
    n_folds = 5 if cv is None or by_partition else int(cv)
    if n_folds < 2:
        raise ValueError(f"cv must be at least 2 folds, got {cv}.")
    found = dask_backend().folds_of(table, n_folds, classifier, by_partition)
    names = (f"fold {k} of {n_folds}" for k in range(1, n_folds + 1))
    return n_folds, (Split(name, train, train, {}, *rest) for name, (train, *rest) in zip(names, found, strict=True))


# ---------------------------------------------------------------------- fits
def fit_folds(search, ribbon, number, splits, n_jobs):
    """Fit a clone of a Ribbon to each Split, for a RibbonCV; returns Folds, and warnings."""
    jobs = (delayed(fit_fold)(ribbon, split, search.verbose) for split in splits)
    results = list(run_tasks(search, "fold", jobs, number, n_jobs))
    return [fold for fold, _ in results], [note for _, notes in results for note in notes]


def fit_fold(ribbon, split, verbose=0):
    """Fit one Split; returns its Fold, and warnings."""
    start, notes = time.perf_counter(), []
    with noted_warnings(notes, split.name):
        fitted = fit_quietly(on_one_fit(ribbon), split.X, split.y, split.fit_params, (FlexibleModelWarning, *ONCE))
        fold = Fold.from_rows(fitted, *split.held_out)
    if verbose:
        seconds = time.perf_counter() - start
        print(f"[RibbonCV] {split.name}: {split.n_train} rows fitted, {split.n_test} held out, {seconds:.2f} s")
    return fold, notes


def on_one_fit(ribbon):
    """Clone of a Ribbon that makes no refits of its own; a classifier has no temperature of its own either."""
    known, own = ribbon.get_params(deep=False), clone(ribbon)
    if "held_out" in known:
        own.set_params(held_out="loo")
    return own.set_params(temperature=1.0) if is_name(known.get("temperature"), "auto") else own


def fit_quietly(ribbon, X, y, fit_params, ignored=(FlexibleModelWarning,)):
    """Fit a Ribbon and ignore some categories of warnings."""
    notes = []
    with noted_warnings(notes, None, ignored):
        ribbon.fit(X, y, **fit_params)
    warn_once_per_kind(notes, 1)
    return ribbon


def leave_one_out_fold(ribbon, X, y, sample_weight, fit_params):
    """Fold of all rows, each predicted by the fit to all others to first order; one base fit."""
    own = fit_quietly(on_one_fit(ribbon).set_params(store_loo=True), X, y, fit_params)
    model, record, weight = own.model_, own._loo_, checked_weight(sample_weight, X)
    per_row = own.effective_parameters_ / (own.n_observations_ * model.loss.curvature_rank)
    if not model.is_linear and per_row > EASY_LEVERAGE:
        raise ValueError(
            f"cv='loo' needs at most {EASY_LEVERAGE} effective parameters per row, and this network has {per_row:.2g}: "
            "its prediction without a row would still depend on that row. Use folds, cv=5."
        )
    if is_classifier(own) and not reaches(model.loss, own._raw(own._prepared(X)), record.f, record.y, weight):
        raise ValueError(
            "cv='loo' predicts each row by one step from the fit to all rows, which does not reach the fits without "
            "single rows here: the classes are separable. Use folds, cv=5."
        )
    return Fold(own, X, y, replace(record, weight=weight) if ribbon.weight_type == "frequency" else record)


def with_pooled_noise(folds):
    """Folds with one dispersion, the mean square of all out-of-fold residuals."""
    noise = pooled_noise([fold.held_out for fold in folds])
    return [fold.with_noise(noise) for fold in folds]
