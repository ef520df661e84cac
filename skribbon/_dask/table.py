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
from scipy import sparse

from .engine import computed, kept, over_partitions, progress_printer, summed

FIRST_LOOK = 4  # partitions that may be empty before the size of a table is guessed as nothing


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
        """What the rows take in memory."""
        X = self.X
        if sparse.issparse(X):
            size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        else:
            size = X.memory_usage(deep=False).sum() if hasattr(X, "memory_usage") else np.asarray(X).nbytes
        return int(size) + sum(column.nbytes for column in self[1:] if column is not None)


@dataclass(frozen=True, eq=False)
class Survey:
    """What one look at all partitions tells; two of them add, in the order of the rows.

    Attributes
    ----------
    lengths : tuple of int
        Rows of every partition.
    total : float
        Sum of the weights.
    unit_weights : bool
        Whether all weights are zero or one.
    labels : dict
        Of a classifier: from each label to its number of rows, their weight, and the (partition, row) of the first.
    values : tuple of float
        Of a regressor: the smallest and the largest target, and one that is no whole number, if there is one.
    groups : dict
        From the label of each group, in the order in which they appear, to its number of rows, their weight, and the
        number of partitions that it is in.
    """

    lengths: tuple
    total: float
    unit_weights: bool
    labels: dict
    values: tuple
    groups: dict

    def __add__(self, other):
        labels = dict(self.labels)
        for label, (count, weight, first) in other.labels.items():
            before = labels.get(label, (0, 0.0, first))
            labels[label] = before[0] + count, before[1] + weight, before[2]
        groups = dict(self.groups)
        for label, added in other.groups.items():
            groups[label] = tuple(map(add, groups.get(label, (0, 0.0, 0)), added))
        return Survey(
            self.lengths + other.lengths,
            self.total + other.total,
            self.unit_weights and other.unit_weights,
            labels,
            _telling(np.array(self.values + other.values)),
            groups,
        )

    @property
    def n_rows(self):
        """Number of rows."""
        return sum(self.lengths)

    @cached_property
    def starts(self):
        """Number of the first row of every partition."""
        return np.concatenate([[0], np.cumsum(self.lengths)])


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
    labels, values = ({}, _check_numbers(part.y)) if not classifier else (_labels(part.y, weight, k), ())
    groups = {} if part.label is None else _group_totals(part.label, weight)
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


def _labels(y, weight, k):
    missing = np.asarray(pd.isna(y))
    if missing.any():
        raise ValueError(f"y is missing at row {int(np.flatnonzero(missing)[0])} of this partition; drop it before.")
    labels, first, place = np.unique(y, return_index=True, return_inverse=True)
    if y.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError("y holds continuous values; a classifier needs labels. Use RibbonRegressor for numbers.")
    counts, weights = np.bincount(place), np.bincount(place, weights=weight)
    return {
        label: (int(count), float(total), (k, int(row)))
        for label, count, total, row in zip(labels.tolist(), counts, weights, first, strict=True)
    }


def _group_totals(label, weight):
    code, labels = pd.factorize(label)
    if (code < 0).any():
        row = int(np.flatnonzero(code < 0)[0])
        raise ValueError(f"groups is missing at row {row} of this partition; give it a label of its own, or drop it.")
    counts, weights = np.bincount(code), np.bincount(code, weights=weight)
    totals = zip(labels.tolist(), counts.tolist(), weights.tolist(), strict=True)
    return {label: (count, total, 1) for label, count, total in totals}


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
        weighted, grouped = "sample_weight" in given, "groups" in given
        parts = _joined(X, given) if _all_frames(X, given) else _zipped(X, given)
        return cls(_kept_if_small(parts), weighted, grouped, verbose)

    def survey(self, classifier, check_features):
        """One look at all rows, which are checked on the way."""
        tasks = over_partitions(partial(look, classifier, check_features), self.parts, "survey")
        survey = computed(summed(tasks, "survey"), self.parts)
        if not survey.n_rows:
            raise ValueError("X has no rows in any partition.")
        if not survey.total > 0:
            raise ValueError("sample_weight must contain at least one non-zero number.")
        return survey

    def progress(self, survey):
        """What prints the passes, if anything does."""
        return progress_printer(survey.n_rows) if self.verbose else None

    def take(self, survey, index):
        """Rows of these numbers, (m,) in ascending order, in memory."""
        bounds = np.searchsorted(index, survey.starts)
        chosen = [(k, index[a:b] - survey.starts[k]) for k, (a, b) in enumerate(pairwise(bounds))]
        chosen = [(k, rows) for k, rows in chosen if len(rows)]
        tasks = [delayed(Part.take)(self.parts[k], rows) for k, rows in chosen]
        return _concatenated(computed(tasks, self.parts))

    def features(self):
        """Partitions of X alone."""
        return [delayed(_features)(part) for part in self.parts]


def _features(part):
    return part.X


def _concatenated(pieces):
    Xs = [piece.X for piece in pieces]
    if sparse.issparse(Xs[0]):
        X = sparse.vstack(Xs, format="csr")
    else:
        X = pd.concat(Xs) if hasattr(Xs[0], "iloc") else np.concatenate(Xs)
    columns = zip(*(piece[1:] for piece in pieces), strict=True)
    return Part(X, *(None if column[0] is None else np.concatenate(column) for column in columns))


def _kept_if_small(parts):
    """Partitions that are kept in memory where the first of them say that all will fit."""
    for part in parts[:FIRST_LOOK]:
        (n_bytes,) = computed([delayed(_n_bytes)(part)], parts)
        if n_bytes:
            return kept(parts, n_bytes * len(parts))
    return parts


def _n_bytes(part):
    return part.n_bytes


# ---------------------------------------------------------------------- partitions of collections
def _all_frames(X, given):
    return all(hasattr(column, "npartitions") and hasattr(column, "divisions") for column in (X, *given.values()))


def _joined(X, given):
    """Partitions of one frame that has all columns: a table is read once, and rows cannot be mixed up."""
    names = {name: f"_skribbon_{name}" for name in given}
    columns = {names[name]: _single(column, name) for name, column in given.items()}
    for name, column in given.items():
        if column.npartitions != X.npartitions:
            raise ValueError(_other_partitions(name, column.npartitions, X.npartitions))
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
    for name, parts in lists.items():
        if len(parts) != len(lists["X"]):
            raise ValueError(_other_partitions(name, len(parts), len(lists["X"])))
    names = list(given)
    tuples = [delayed(list)(list(row)) for row in zip(*lists.values(), strict=True)]
    return over_partitions(partial(_gathered, names), tuples, "rows")


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


def _other_partitions(name, found, expected):
    return (
        f"{name} has {found} partitions and X has {expected}: take both from one Dask frame, or repartition one as the "
        "other."
    )
