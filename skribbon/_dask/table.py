"""Training tables on Dask: partitions of X, y, sample_weight and groups that belong together, and their folds."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from dask.delayed import delayed
from dask.sizeof import sizeof
from scipy import sparse

from .._core.rows import some_of
from .._utils.compat import safe_indexing
from .rows import computed, kept, over_partitions, summed

HELD_OUT_ROWS = 20_000  # largest number of held-out rows of a fold to load: the mean score of more rows hardly differs


class Part(NamedTuple):
    """One partition in memory; ``weight`` and ``label`` are None if the user gave none."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    label: np.ndarray | None

    def take(self, rows):
        """Part with some of the rows."""
        return Part(*(None if column is None else safe_indexing(column, rows) for column in self))

    @property
    def weights(self):
        """Frequencies of the rows, ones without weights."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def n_bytes(self):
        """Memory that the rows take, zero without rows."""
        return sum(map(sizeof, self)) if len(self.y) else 0


class Totals(dict):
    """Rows, weight, number of partitions and (partition, row) of the first row of each label; two Totals add."""

    @classmethod
    def from_rows(cls, labels, place, weight, k):
        """Count the rows of the k-th partition, whose labels are at positions ``place`` (n,) among ``labels``."""
        first, count = np.unique(place, return_index=True, return_counts=True)[1:]
        columns = (column.tolist() for column in (labels, count, np.bincount(place, weights=weight), first))
        return cls({label: (n, total, 1, (k, row)) for label, n, total, row in zip(*columns, strict=True)})

    def __add__(self, other):
        total = Totals(self)
        for label, (*counts, first) in other.items():
            *before, place = total.get(label, (0, 0.0, 0, first))
            total[label] = (*map(add, before, counts), place)
        return total


class Survey(NamedTuple):
    """Summary of all partitions; two of them add, in the order of the rows."""

    lengths: tuple  # number of rows of every partition
    total: float  # sum of the weights
    n_odd_weights: int  # number of weights other than zero and one
    labels: Totals  # of the classes; empty for a regressor
    values: tuple  # for a regressor, the extreme targets and one that is no whole number, if there is one
    groups: Totals  # in the order in which groups appear

    def __add__(self, other):
        return Survey(*map(add, self, other))

    @property
    def n_rows(self):
        """Number of rows of all partitions."""
        return sum(self.lengths)

    @property
    def starts(self):
        """Index of the first row of every partition, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self.lengths)])


def survey_part(classifier, check_features, part, k):
    """Check the rows of the k-th partition and return its Survey."""
    weight, labels, values = part.weights, Totals(), ()
    if check_features and len(part.y):
        _check_features(part.X)
    refused = "sample_weight must be finite and not negative; row {row} of this partition has {value}."
    _check_rows(~(weight >= 0) | np.isinf(weight), refused, weight)
    if classifier:
        labels = Totals.from_rows(*_classes(part.y), weight, k)
    else:
        values = _extremes(_numbers(part.y))
    groups = Totals() if part.label is None else Totals.from_rows(*_groups(part.label), weight, k)
    n_odd = int((~np.isin(weight, (0, 1))).sum())
    return Survey((len(part.y),), float(weight.sum()), n_odd, labels, values, groups)


def _check_rows(bad, message, values):
    """Raise an error with the index and the value of the first bad row, if there is any."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(message.format(row=row, value=values[row]))


def _check_features(X):
    """Refuse entries that are not finite numbers."""
    if sparse.issparse(X):
        bad = X.tocoo().row[~np.isfinite(X.data)]
        if len(bad):
            raise ValueError(f"X contains NaN or infinity at row {bad[0]} of this partition; drop or impute it before.")
        return
    values = _as_numbers(X, "X must hold numbers, or the base model be a pipeline that encodes it")
    finite = np.isfinite(values)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        name = X.columns[column] if hasattr(X, "columns") else column
        found = f"X contains {values[row, column]} at row {row} of this partition, column {name!r}"
        raise ValueError(f"{found}; drop or impute it before, or put an imputer into a pipeline.")


def _as_numbers(values, demand):
    """Values as float64; an error begins with the demand that they do not meet."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{demand}: {error}") from error


def _numbers(y):
    """Targets of a regressor as finite numbers, (n,)."""
    values = _as_numbers(y, "y must hold numbers for a regressor")
    if y.dtype.kind in "mM":
        raise ValueError("y holds times, but a regressor needs numbers; convert it, e.g. to seconds.")
    _check_rows(~np.isfinite(values), "y contains {value} at row {row} of this partition; drop it before.", values)
    return values


def _extremes(values):
    """Smallest and largest value, and one that is no whole number, if there is any."""
    if not len(values):
        return ()
    odd = values[values != np.floor(values)][:1]
    return (float(values.min()), float(values.max()), *map(float, odd))


def _classes(y):
    """Labels of a classifier, sorted, and their positions (n,)."""
    _check_rows(np.asarray(pd.isna(y)), "y is missing at row {row} of this partition; drop it before.", y)
    labels, place = np.unique(y, return_inverse=True)
    if y.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError("y holds continuous values; a classifier needs labels. Use RibbonRegressor for numbers.")
    return labels, place


def _groups(label):
    """Labels of groups in the order in which they appear, and their positions (n,)."""
    code, labels = pd.factorize(label)
    missing = "groups is missing at row {row} of this partition; give it a label of its own, or drop it."
    _check_rows(code < 0, missing, label)
    return labels, code


@dataclass(frozen=True, eq=False)
class Table:
    """Partitions of a training table."""

    parts: list  # tasks of a Part each
    weighted: bool  # whether the user gave weights
    grouped: bool  # whether the user gave groups
    verbose: int = 0  # print a line for every pass if positive

    @classmethod
    def of(cls, X, y, sample_weight=None, groups=None, verbose=0):
        """Build a Table from Dask collections with the same partitions; a Table is returned as it is."""
        if isinstance(X, Table):
            return replace(X, verbose=verbose)
        if y is None:
            raise ValueError("y is None; it must be a Dask collection with the partitions of X.")
        if getattr(X, "ndim", 2) != 2:
            raise ValueError(f"X must have two dimensions, and has {X.ndim}; a single column is ddf[['name']].")
        given = {"y": y, "sample_weight": sample_weight, "groups": groups}
        columns = {name: single_column(name, column) for name, column in given.items() if column is not None}
        frames = all(hasattr(column, "divisions") for column in (X, *columns.values()))
        parts = _frame_parts(X, columns) if frames else _zipped_parts(X, columns)
        return cls(_kept_if_small(parts), "sample_weight" in columns, "groups" in columns, verbose)

    def survey(self, classifier, check_features):
        """Check and summarize all rows."""
        tasks = over_partitions(partial(survey_part, classifier, check_features), self.parts, "survey")
        survey = computed(summed(tasks, "survey"), self.parts)
        if not survey.n_rows:
            raise ValueError("X has no rows in any partition.")
        if not survey.total > 0:
            raise ValueError("sample_weight must contain at least one non-zero number.")
        return survey._replace(values=_extremes(np.array(survey.values)))

    def take(self, survey, index):
        """Load the rows of these indices, (m,) in ascending order, as a Part."""
        bounds = np.searchsorted(index, survey.starts)
        chosen = [(k, index[a:b] - survey.starts[k]) for k, (a, b) in enumerate(pairwise(bounds)) if a < b]
        pieces = computed([delayed(Part.take)(self.parts[k], rows) for k, rows in chosen], self.parts)
        X, *columns = zip(*pieces, strict=True)
        if sparse.issparse(X[0]):
            X = sparse.vstack(X, format="csr")
        else:
            X = pd.concat(X) if hasattr(X[0], "iloc") else np.concatenate(X)
        return Part(X, *(None if column[0] is None else np.concatenate(column) for column in columns))


def _kept_if_small(parts):
    """Keep partitions in memory if all will fit, judged by the first of four that is not empty."""
    for part in parts[:4]:
        if n_bytes := computed(part.n_bytes, parts):
            return kept(parts, n_bytes * len(parts))
    return parts


def single_column(name, column):
    """Dask column with one dimension, also from a frame or array with a single column."""
    if not hasattr(column, "dask"):
        raise TypeError(f"X is a Dask collection and {name} a {type(column).__name__}; take both from one Dask frame.")
    if getattr(column, "ndim", 1) == 1:
        return column
    if column.shape[1] != 1:
        cure = "cross groupings with rows in memory" if name == "groups" else "fit one Ribbon for each"
        raise ValueError(f"{name} should be a single column on Dask, got {column.shape[1]}; {cure}.")
    return column[column.columns[0]] if hasattr(column, "columns") else column[:, 0]


def _frame_parts(X, columns):
    """Partitions of one frame with all columns, so that its source is read once and rows stay together."""
    _check_partitions(X.npartitions, {name: column.npartitions for name, column in columns.items()})
    names = {name: f"_skribbon_{name}" for name in columns}
    joined = X.assign(**{names[name]: column for name, column in columns.items()})
    return over_partitions(partial(_split, names), joined.to_delayed(), "rows")


def _split(names, frame, k):
    columns = {name: frame[column].to_numpy() for name, column in names.items()}
    return _part(frame.drop(columns=list(names.values())), columns)


def _zipped_parts(X, columns):
    """Partitions of several collections, of which each holds the same rows."""
    for name, column in columns.items():
        if hasattr(column, "rechunk") and hasattr(X, "rechunk") and not np.isnan([X.shape[0], column.shape[0]]).any():
            if column.shape[0] != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows and {name} has {column.shape[0]}.")
            columns[name] = column.rechunk({0: X.chunks[0]})
    return over_partitions(partial(_gather, list(columns)), delayed_parts(X, columns), "rows")


def _gather(names, collections, k):
    X, *columns = collections
    return _part(X, {name: np.asarray(column).ravel() for name, column in zip(names, columns, strict=True)})


def delayed_parts(X, columns):
    """Lists of tasks with X and each of the columns, a dict, for every partition."""
    X = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X
    # arrays are not optimized, so that a source that several of them share is computed once
    tasks = [
        list(column.to_delayed(optimize_graph=False).ravel()) if hasattr(column, "chunks") else column.to_delayed()
        for column in (X, *columns.values())
    ]
    _check_partitions(len(tasks[0]), dict(zip(columns, map(len, tasks[1:]), strict=True)))
    return [list(row) for row in zip(*tasks, strict=True)]


def _check_partitions(expected, numbers):
    for name, found in numbers.items():
        if found != expected:
            raise ValueError(f"{name} has {found} partitions and X has {expected}; take both from one Dask frame.")


def _part(X, columns):
    """Part of X and its columns, a dict, which must have the same number of rows."""
    n, y, weight = X.shape[0], columns["y"], columns.get("sample_weight")
    for name, column in columns.items():
        if len(column) != n:
            raise ValueError(f"X has {n} rows here and {name} has {len(column)}; take both from one Dask frame.")
    y = np.asarray(y.tolist()) if y.dtype.kind == "O" and n else y
    return Part(X, y, None if weight is None else np.asarray(weight, dtype=np.float64), columns.get("groups"))


# ---------------------------------------------------------------------- folds
def folds_of(table, n_folds, classifier, whole_partitions=False):
    """List with a training Table, a held-out Part of at most HELD_OUT_ROWS, and both numbers of rows for every fold."""
    survey = table.survey(classifier, check_features=False)
    rule = _rule(table, survey, n_folds, classifier, whole_partitions)
    found = []
    for fold in range(n_folds):
        sides = [over_partitions(partial(_chosen, rule, fold, side), table.parts, "fold") for side in (False, True)]
        train, test = (replace(table, parts=parts) for parts in sides)
        held = test.survey(classifier, check_features=False)
        if not held.total > 0 or not held.total < survey.total:
            raise ValueError(f"One side of fold {fold + 1} has no rows of positive weight; use fewer folds.")
        part = test.take(held, some_of(held.n_rows, HELD_OUT_ROWS))
        found.append((train, part, survey.n_rows - held.n_rows, held.n_rows))
    return found


def some_rows(table, classifier, size=HELD_OUT_ROWS):
    """Load at most ``size`` rows of a table as a Part."""
    survey = table.survey(classifier, check_features=False)
    return table.take(survey, some_of(survey.n_rows, size))


def _chosen(rule, fold, held_out, part, k):
    return part.take(np.flatnonzero((rule(part, k) == fold) == held_out))


def _rule(table, survey, n_folds, classifier, whole_partitions):
    """Function of (part, k) that returns the fold of every row, as KFold, StratifiedKFold or GroupKFold would."""
    if whole_partitions:
        n_parts = len(table.parts)
        if n_parts < n_folds:
            raise ValueError(f"cv='partitions' needs at least {n_folds} partitions, got {n_parts}; repartition X.")
        return partial(by_partition, n_parts, n_folds)
    if table.grouped:
        return partial(by_group, _balanced(survey.groups, n_folds))
    if survey.n_rows < n_folds:
        raise ValueError(f"There are {survey.n_rows} rows, too few for {n_folds} folds; use fewer folds.")
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
    """Cumulative numbers of rows of each class over the folds, (folds, K), as in StratifiedKFold."""
    order = np.repeat(np.arange(len(counts)), counts)
    shares = [np.bincount(order[fold::n_folds], minlength=len(counts)) for fold in range(n_folds)]
    return np.cumsum(shares, axis=0)


def _balanced(groups, n_folds):
    """Assign groups to folds, the largest first, each to the fold with the fewest rows so far; returns a dict."""
    if len(groups) < n_folds:
        raise ValueError(f"There are {len(groups)} groups, too few for {n_folds} folds; groups are kept together.")
    totals, fold_of = np.zeros(n_folds), {}
    for label, (count, *_) in sorted(groups.items(), key=lambda item: -item[1][0]):
        fold_of[label] = int(np.argmin(totals))
        totals[fold_of[label]] += count
    return fold_of


def by_row(starts, ends, part, k):
    """Folds of consecutive rows, which end at the rows ``ends``."""
    return np.searchsorted(ends, starts[k] + np.arange(len(part.y)), side="right")


def by_class(labels, before, ends, part, k):
    """Folds of consecutive rows of each class; ``before`` (P, K) counts the rows in earlier partitions."""
    fold = np.empty(len(part.y), dtype=int)
    for j, label in enumerate(labels):
        own = part.y == label
        fold[own] = np.searchsorted(ends[:, j], before[k, j] + np.arange(own.sum()), side="right")
    return fold


def by_group(fold_of, part, k):
    """Folds of whole groups."""
    return np.array([fold_of[label] for label in part.label.tolist()], dtype=int)


def by_partition(n_parts, n_folds, part, k):
    """Folds of whole neighbouring partitions."""
    return np.full(len(part.y), k * n_folds // n_parts)
