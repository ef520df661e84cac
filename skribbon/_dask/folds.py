"""Folds of a Dask table: which rows of every partition are held out, by their number, class, group or partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .._core.rows import some_of
from .engine import computed, over_partitions

HELD_OUT_ROWS = 20_000  # of a fold that are looked at: scores of more of them hardly differ


def folds_of(table, n_folds, classifier, by_partition=False):
    """Tables of training rows, each with held-out rows in memory, a Part of at most HELD_OUT_ROWS.

    Rows are told apart as scikit-learn's KFold and StratifiedKFold do it; with groups, whole groups are held out.
    """
    survey = table.survey(classifier, check_features=False)
    rule = _rule(table, survey, n_folds, classifier, by_partition)
    found = []
    for fold in range(n_folds):
        train, test = (_where(table, rule, fold, held_out) for held_out in (False, True))
        held = test.survey(classifier, check_features=False)
        if not held.total > 0 or not held.total < survey.total:
            raise ValueError(f"All rows on one side of fold {fold + 1} have a weight of zero, or there are none.")
        part = test.take(held, some_of(held.n_rows, HELD_OUT_ROWS))
        found.append((train, part, survey.n_rows - held.n_rows, held.n_rows))
    return found


def some_rows(table, classifier, size=HELD_OUT_ROWS):
    """At most so many rows of a table in memory, a Part."""
    survey = table.survey(classifier, check_features=False)
    return table.take(survey, some_of(survey.n_rows, size))


def _where(table, rule, fold, held_out):
    return replace(table, parts=over_partitions(partial(_chosen, rule, fold, held_out), table.parts, "fold"))


def _chosen(rule, fold, held_out, part, k):
    rows = np.flatnonzero((rule(part, k) == fold) == held_out)
    return part.take(rows)


def _rule(table, survey, n_folds, classifier, by_partition):
    """A function that numbers the folds of the rows of a partition."""
    if by_partition:
        n_parts = len(table.parts)
        if n_parts < n_folds:
            raise ValueError(f"cv='partitions' needs at least {n_folds} partitions, and there are {n_parts}.")
        return ByPartition(n_parts, n_folds)
    if table.grouped:
        return ByGroup(_balanced(survey.groups, n_folds))
    if survey.n_rows < n_folds:
        raise ValueError(f"There are {survey.n_rows} rows, too few for {n_folds} folds.")
    if not classifier:
        sizes = np.full(n_folds, survey.n_rows // n_folds) + (np.arange(n_folds) < survey.n_rows % n_folds)
        return ByRow(survey.starts, np.cumsum(sizes))
    labels = list(survey.labels)
    if len(labels) > 1 and max(count for count, *_ in survey.labels.values()) < n_folds:
        raise ValueError(f"No class has {n_folds} rows; use fewer folds.")
    counts = np.array(computed(over_partitions(partial(_label_counts, labels), table.parts, "labels"), table.parts))
    before = np.vstack([np.zeros(len(labels), dtype=int), np.cumsum(counts, axis=0)[:-1]])
    return ByClass(labels, before, _allocated(counts.sum(axis=0), n_folds))


def _label_counts(labels, part, k):
    return [int((part.y == label).sum()) for label in labels]


def _allocated(counts, n_folds):
    """How many rows of each class the folds up to each have, (folds, K), as StratifiedKFold deals them out."""
    order = np.repeat(np.arange(len(counts)), counts)
    shares = [np.bincount(order[fold::n_folds], minlength=len(counts)) for fold in range(n_folds)]
    return np.cumsum(shares, axis=0)


def _balanced(groups, n_folds):
    """Folds of groups, the largest first, each to the fold that has the fewest rows so far."""
    if len(groups) < n_folds:
        raise ValueError(f"There are {len(groups)} groups, too few for {n_folds} folds; groups are kept together.")
    totals, fold_of = np.zeros(n_folds), {}
    for label, (count, *_) in sorted(groups.items(), key=lambda item: -item[1][0]):
        fold_of[label] = int(np.argmin(totals))
        totals[fold_of[label]] += count
    return fold_of


@dataclass(frozen=True, eq=False)
class ByRow:
    """Consecutive rows."""

    starts: np.ndarray
    ends: np.ndarray

    def __call__(self, part, k):
        return np.searchsorted(self.ends, self.starts[k] + np.arange(len(part.y)), side="right")


@dataclass(frozen=True, eq=False)
class ByClass:
    """Consecutive rows of each class; ``before`` (P, K) are those in earlier partitions."""

    labels: list
    before: np.ndarray
    ends: np.ndarray

    def __call__(self, part, k):
        fold = np.empty(len(part.y), dtype=int)
        for j, label in enumerate(self.labels):
            own = part.y == label
            fold[own] = np.searchsorted(self.ends[:, j], self.before[k, j] + np.arange(own.sum()), side="right")
        return fold


@dataclass(frozen=True, eq=False)
class ByGroup:
    """Whole groups."""

    fold_of: dict

    def __call__(self, part, k):
        return np.array([self.fold_of[label] for label in part.label.tolist()], dtype=int)


@dataclass(frozen=True, eq=False)
class ByPartition:
    """Whole partitions, neighbours together."""

    n_parts: int
    n_folds: int

    def __call__(self, part, k):
        return np.full(len(part.y), k * self.n_folds // self.n_parts)
