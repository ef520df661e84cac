"""A training table on Dask as the user has it: partitions of X, y, sample_weight and groups that belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from dask.delayed import delayed
from dask.sizeof import sizeof
from scipy import sparse

from .._core.rows import some_of
from .rows import computed, kept, over_partitions, summed

HELD_OUT_ROWS = 20_000  # largest number of held-out rows of a fold to load: the mean score of more rows hardly differs


class Part(NamedTuple):
    """One partition in memory; ``weight`` and ``label`` are None where the user gave none."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    label: np.ndarray | None

    def take(self, rows):
        """Some of the rows."""
        columns = (None if column is None else column[rows] for column in self[1:])
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        return Part(X, *columns)

    @property
    def weights(self):
        """Frequencies, ones if there are none."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def n_bytes(self):
        """Memory that the rows take, zero if there are none."""
        return sum(map(sizeof, self)) if len(self.y) else 0


@dataclass(frozen=True, eq=False)
class Survey:
    """Summary of all partitions; two of them add, in the order of the rows.

    Attributes
    ----------
    lengths : tuple of int
        Rows of every partition.
    total : float
        Sum of the weights.
    unit_weights : bool
        Whether all weights are zero or one.
    labels, groups : dict
        From each label of a classifier, and of each group in the order in which they appear, to its number of rows,
        their weight, the number of its partitions, and the (partition, row) of the first.
    values : tuple of float
        For a regressor: the smallest and the largest target, and one that is no whole number, if there is one.
    """

    lengths: tuple
    total: float
    unit_weights: bool
    labels: dict
    values: tuple
    groups: dict

    def __add__(self, other):
        return Survey(
            self.lengths + other.lengths,
            self.total + other.total,
            self.unit_weights and other.unit_weights,
            _merged(self.labels, other.labels),
            _telling(np.array(self.values + other.values)),
            _merged(self.groups, other.groups),
        )

    @property
    def n_rows(self):
        """Number of rows."""
        return sum(self.lengths)

    @cached_property
    def starts(self):
        """Number of the first row of every partition."""
        return np.concatenate([[0], np.cumsum(self.lengths)])


def _merged(one, other):
    """Totals of labels in two sets of partitions, the first set before the second."""
    merged = dict(one)
    for label, (*totals, first) in other.items():
        *before, place = merged.get(label, (0, 0.0, 0, first))
        merged[label] = (*map(add, before, totals), place)
    return merged


def _telling(values):
    """The smallest and the largest of some values, and one that is no whole number."""
    if not len(values):
        return ()
    odd = values[values != np.floor(values)][:1]
    return (float(values.min()), float(values.max()), *map(float, odd))


def look(classifier, check_features, part, k):
    """Survey of the k-th partition, whose rows are checked."""
    n, weight = len(part.y), part.weights
    if check_features and n:
        _check_features(part.X)
    if not np.isfinite(weight).all() or (weight < 0).any():
        row = int(np.flatnonzero(~(weight >= 0) | np.isinf(weight))[0])
        raise ValueError(
            f"sample_weight must be finite and not negative; row {row} of this partition has {weight[row]}."
        )
    labels, values = ({}, _check_numbers(part.y)) if not classifier else (_totals(*_labels(part.y), weight, k), ())
    groups = {} if part.label is None else _totals(*_groups(part.label), weight, k)
    return Survey((n,), float(weight.sum()), bool(np.isin(weight, (0, 1)).all()), labels, values, groups)


def _check_features(X):
    """Refuse what is not a finite number, and say where it is."""
    if sparse.issparse(X):
        if not np.isfinite(X.data).all():
            row = int(np.searchsorted(X.indptr, np.flatnonzero(~np.isfinite(X.data))[0], side="right")) - 1
            raise ValueError(f"X contains NaN or infinity at row {row} of this partition; drop or impute it before.")
        return
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers, or a pipeline that makes numbers of them: {error}") from error
    finite = np.isfinite(values)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        name = X.columns[column] if hasattr(X, "columns") else column
        raise ValueError(
            f"X contains {values[row, column]} at row {row} of this partition, column {name!r}; drop or impute it "
            "before, or put an imputer into a pipeline."
        )


def _check_numbers(y):
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers for a regressor: {error}") from error
    if y.dtype.kind in "mM":
        raise ValueError("y must hold numbers for a regressor, and holds times.")
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"y contains {values[row]} at row {row} of this partition; drop it before.")
    return _telling(values)


def _labels(y):
    """Labels of a classifier, sorted, and their positions (n,)."""
    missing = np.asarray(pd.isna(y))
    if missing.any():
        raise ValueError(f"y is missing at row {int(np.flatnonzero(missing)[0])} of this partition; drop it before.")
    labels, place = np.unique(y, return_inverse=True)
    if y.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError("y holds continuous values; a classifier needs labels. Use RibbonRegressor for numbers.")
    return labels, place


def _groups(label):
    """Labels of groups in the order in which they appear, and their positions (n,)."""
    code, labels = pd.factorize(label)
    if (code < 0).any():
        row = int(np.flatnonzero(code < 0)[0])
        raise ValueError(f"groups is missing at row {row} of this partition; give it a label of its own, or drop it.")
    return labels, code


def _totals(labels, place, weight, k):
    """From each label to its rows in the k-th partition: number, weight, one partition, and the first row."""
    first, count = np.unique(place, return_index=True, return_counts=True)[1:]
    columns = (column.tolist() for column in (labels, count, np.bincount(place, weights=weight), first))
    return {label: (n, total, 1, (k, row)) for label, n, total, row in zip(*columns, strict=True)}


@dataclass(frozen=True, eq=False)
class Table:
    """Partitions of a training table; whatever is learnt of them is a sum.

    Attributes
    ----------
    parts : list of Delayed
        Of a Part each.
    weighted, grouped : bool
        Whether the user gave weights and groups.
    verbose : int
        Whether a line is printed for every pass.
    """

    parts: list
    weighted: bool
    grouped: bool
    verbose: int = 0

    @classmethod
    def of(cls, X, y, sample_weight=None, groups=None, verbose=0):
        """Of Dask collections, which must have the same partitions; a Table stays what it is."""
        if isinstance(X, Table):
            return replace(X, verbose=verbose)
        given = {"y": y, "sample_weight": sample_weight, "groups": groups}
        given = {name: column for name, column in given.items() if column is not None}
        if y is None:
            raise ValueError("y is None; it must be a Dask collection with the partitions of X.")
        if getattr(X, "ndim", 2) != 2:
            raise ValueError(f"X must have two dimensions, and has {X.ndim}; a single column is ddf[['name']].")
        for name, column in given.items():
            if not hasattr(column, "dask"):
                raise TypeError(
                    f"X is a Dask collection and {name} is a {type(column).__name__}: take both from one Dask frame, "
                    "so that their partitions belong together."
                )
        frames = all(hasattr(column, "npartitions") and hasattr(column, "divisions") for column in (X, *given.values()))
        parts = _joined(X, given) if frames else _zipped(X, given)
        return cls(_kept_if_small(parts), "sample_weight" in given, "groups" in given, verbose)

    def survey(self, classifier, check_features):
        """One look at all rows, which are checked on the way."""
        tasks = over_partitions(partial(look, classifier, check_features), self.parts, "survey")
        survey = computed(summed(tasks, "survey"), self.parts)
        if not survey.n_rows:
            raise ValueError("X has no rows in any partition.")
        if not survey.total > 0:
            raise ValueError("sample_weight must contain at least one non-zero number.")
        return survey

    def take(self, survey, index):
        """Rows of these numbers, (m,) in ascending order, in memory."""
        bounds = np.searchsorted(index, survey.starts)
        chosen = [(k, index[a:b] - survey.starts[k]) for k, (a, b) in enumerate(pairwise(bounds))]
        chosen = [(k, rows) for k, rows in chosen if len(rows)]
        tasks = [delayed(Part.take)(self.parts[k], rows) for k, rows in chosen]
        return _concatenated(computed(tasks, self.parts))


def _concatenated(pieces):
    Xs = [piece.X for piece in pieces]
    if sparse.issparse(Xs[0]):
        X = sparse.vstack(Xs, format="csr")
    else:
        X = pd.concat(Xs) if hasattr(Xs[0], "iloc") else np.concatenate(Xs)
    columns = zip(*(piece[1:] for piece in pieces), strict=True)
    return Part(X, *(None if column[0] is None else np.concatenate(column) for column in columns))


def _kept_if_small(parts):
    """Keep partitions in memory if all will fit, judged by the first of four that is not empty."""
    for part in parts[:4]:
        (n_bytes,) = computed([part.n_bytes], parts)
        if n_bytes:
            return kept(parts, n_bytes * len(parts))
    return parts


# ---------------------------------------------------------------------- partitions of collections
def _joined(X, given):
    """Partitions of one frame that has all columns: a table is read once, and rows cannot be mixed up."""
    names = {name: f"_skribbon_{name}" for name in given}
    columns = {names[name]: _single(column, name) for name, column in given.items()}
    _check_partitions({name: column.npartitions for name, column in given.items()}, X.npartitions)
    parts = X.assign(**columns).to_delayed()
    return over_partitions(partial(_split, names), parts, "rows")


def _split(names, frame, k):
    columns = {name: frame[column].to_numpy() for name, column in names.items()}
    return _part(frame.drop(columns=list(names.values())), columns)


def _zipped(X, given):
    """Partitions of several collections, row by row."""
    columns = {"X": X.rechunk({1: -1}) if hasattr(X, "rechunk") else X}
    for name, column in given.items():
        column = _single(column, name)
        if hasattr(column, "rechunk") and hasattr(X, "rechunk") and not _unknown(column) and not _unknown(X):
            if column.shape[0] != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows and {name} has {column.shape[0]}.")
            column = column.rechunk({0: X.chunks[0]})
        columns[name] = column
    lists = {name: _delayed_parts(column) for name, column in columns.items()}
    _check_partitions({name: len(parts) for name, parts in lists.items()}, len(lists["X"]))
    rows = [list(row) for row in zip(*lists.values(), strict=True)]
    return over_partitions(partial(_gathered, list(given)), rows, "rows")


def _gathered(names, columns, k):
    X, *rest = columns
    return _part(X, {name: np.asarray(column).reshape(len(column)) for name, column in zip(names, rest, strict=True)})


def _part(X, columns):
    n = X.shape[0]
    for name, column in columns.items():
        if len(column) != n:
            raise ValueError(f"X has {n} rows here and {name} has {len(column)}; take both from one Dask frame.")
    weight = columns.get("sample_weight")
    y = columns["y"]
    if y.dtype.kind == "O" and len(y):
        y = np.asarray(y.tolist())
    return Part(X, y, None if weight is None else np.asarray(weight, dtype=np.float64), columns.get("groups"))


def _single(column, name):
    """A column, also of a frame or array with a single one."""
    if getattr(column, "ndim", 1) == 1:
        return column
    if column.shape[1] != 1:
        raise ValueError(f"{name} should be a single column on Dask, got {column.shape[1]}; fit one Ribbon for each.")
    return column[column.columns[0]] if hasattr(column, "columns") else column[:, 0]


def _unknown(array):
    return any(np.isnan(size) for size in array.chunks[0])


def _delayed_parts(column):
    if hasattr(column, "chunks"):  # unoptimised, so that what columns have in common is computed once
        return list(column.to_delayed(optimize_graph=False).ravel())
    return list(column.to_delayed())


def _check_partitions(numbers, expected):
    for name, found in numbers.items():
        if found != expected:
            raise ValueError(
                f"{name} has {found} partitions and X has {expected}: take both from one Dask frame, or repartition "
                "one as the other."
            )


# ---------------------------------------------------------------------- folds
def folds_of(table, n_folds, classifier, whole_partitions=False):
    """Tables of training rows, each with held-out rows in memory, a Part of at most HELD_OUT_ROWS.

    Folds are those of scikit-learn's KFold and StratifiedKFold; with groups, whole groups are held out.
    """
    survey = table.survey(classifier, check_features=False)
    rule = _rule(table, survey, n_folds, classifier, whole_partitions)
    found = []
    for fold in range(n_folds):
        sides = [over_partitions(partial(_chosen, rule, fold, side), table.parts, "fold") for side in (False, True)]
        train, test = (replace(table, parts=parts) for parts in sides)
        held = test.survey(classifier, check_features=False)
        if not held.total > 0 or not held.total < survey.total:
            raise ValueError(f"All rows on one side of fold {fold + 1} have a weight of zero, or there are none.")
        part = test.take(held, some_of(held.n_rows, HELD_OUT_ROWS))
        found.append((train, part, survey.n_rows - held.n_rows, held.n_rows))
    return found


def some_rows(table, classifier, size=HELD_OUT_ROWS):
    """Load at most ``size`` rows of a table, a Part."""
    survey = table.survey(classifier, check_features=False)
    return table.take(survey, some_of(survey.n_rows, size))


def _chosen(rule, fold, held_out, part, k):
    return part.take(np.flatnonzero((rule(part, k) == fold) == held_out))


def _rule(table, survey, n_folds, classifier, whole_partitions):
    """Function that numbers the folds of the rows of a partition."""
    if whole_partitions:
        n_parts = len(table.parts)
        if n_parts < n_folds:
            raise ValueError(f"cv='partitions' needs at least {n_folds} partitions, and there are {n_parts}.")
        return partial(by_partition, n_parts, n_folds)
    if table.grouped:
        return partial(by_group, _balanced(survey.groups, n_folds))
    if survey.n_rows < n_folds:
        raise ValueError(f"There are {survey.n_rows} rows, too few for {n_folds} folds.")
    if not classifier:
        sizes = np.full(n_folds, survey.n_rows // n_folds) + (np.arange(n_folds) < survey.n_rows % n_folds)
        return partial(by_row, survey.starts, np.cumsum(sizes))
    labels = list(survey.labels)
    if len(labels) > 1 and max(count for count, *_ in survey.labels.values()) < n_folds:
        raise ValueError(f"No class has {n_folds} rows; use fewer folds.")
    counts = np.array(computed(over_partitions(partial(_label_counts, labels), table.parts, "labels"), table.parts))
    before = np.vstack([np.zeros(len(labels), dtype=int), np.cumsum(counts, axis=0)[:-1]])
    return partial(by_class, labels, before, _allocated(counts.sum(axis=0), n_folds))


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


# ---------------------------------------------------------------------- folds (n,) of the rows of the k-th partition
def by_row(starts, ends, part, k):
    """Consecutive rows in each fold."""
    return np.searchsorted(ends, starts[k] + np.arange(len(part.y)), side="right")


def by_class(labels, before, ends, part, k):
    """Consecutive rows of each class in each fold; ``before`` (P, K) counts the rows in earlier partitions."""
    fold = np.empty(len(part.y), dtype=int)
    for j, label in enumerate(labels):
        own = part.y == label
        fold[own] = np.searchsorted(ends[:, j], before[k, j] + np.arange(own.sum()), side="right")
    return fold


def by_group(fold_of, part, k):
    """Whole groups in each fold."""
    return np.array([fold_of[label] for label in part.label.tolist()], dtype=int)


def by_partition(n_parts, n_folds, part, k):
    """Whole partitions in each fold, neighbours together."""
    return np.full(len(part.y), k * n_folds // n_parts)
