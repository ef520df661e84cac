"""Training rows on partitions: ``sum`` and ``map`` as of rows in memory, and a sample of them that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from .._core.rows import Groups, Rows, spread_over
from .._utils.checks import check_group_totals
from ..curvature import machine_bytes
from .engine import computed, kept, over_partitions, summed
from .table import Survey, Table

BLOCKS_OF_A_PART = 20  # bits that number the blocks of one partition


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Prepared training rows of a model on partitions; compare :class:`skribbon._core.rows.Rows`.

    Attributes
    ----------
    model : ParametricModel
    parts : list of Delayed
        Of tuples (X, y, weight, code) each, as the mathematics takes them.
    survey : Survey
    sample : Rows
        Some of them, in memory.
    index : ndarray of shape (m,)
        Numbers of the rows of the sample, ascending.
    groups : Groups or None
        Without the code of every row, which is with the partitions.
    progress : callable or None
        Told the name of every pass, and how long it took.
    """

    model: Any
    parts: list
    survey: Survey
    sample: Rows
    index: np.ndarray
    groups: Groups | None = None
    progress: Callable | None = None

    in_memory = False
    squares = None

    @classmethod
    def of(cls, model, table: Table, survey: Survey, part, index, progress=None):
        """Rows of a table, of which the rows ``index`` are in memory as ``part``."""
        labels, groups = _grouped(model, table, survey)
        prepare = Prepared(model, labels)
        parts = over_partitions(prepare, table.parts, "prepare")
        X, y, weight, code = prepare(part)
        sample = Rows(model, X, y, weight, None if groups is None else replace(groups, code=code))
        width = X.nnz / X.shape[0] * 1.5 if hasattr(X, "nnz") else X.shape[1]
        parts = kept(parts, int(8 * survey.n_rows * (width + 3)))
        return cls(model, parts, survey, sample, index, groups, progress)

    @property
    def n(self):
        """Number of observations."""
        return self.survey.total

    @property
    def n_rows(self):
        """Number of rows, whatever their weights."""
        return self.survey.n_rows

    @property
    def units(self):
        """Number of Dirichlet weights: of groups, or of observations where each is on its own."""
        return self.n if self.groups is None else float(self.groups.n)

    def sum(self, f, width=None):
        """Sum over all blocks of all partitions of f(block)."""
        name = _name(f)
        tasks = over_partitions(partial(_sum_of_part, self.model, self.groups, f, width), self.parts, name)
        return computed(summed(tasks, name), self.parts, self.progress, name)

    def map(self, f, width=None):
        """Concatenation over blocks of f(block), an array, or a tuple of arrays, with few rows for each block."""
        name = _name(f)
        tasks = over_partitions(partial(_map_of_part, self.model, self.groups, f, width), self.parts, name)
        pieces = [piece for piece in computed(tasks, self.parts, self.progress, name) if piece is not None]
        if isinstance(pieces[0], tuple):
            return tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return np.concatenate(pieces)

    def mean(self, f, n, width=None):
        """:meth:`sum` over n, the number of observations."""
        return self.sum(f, width) / n

    def take(self, index):
        """Some of the rows, in memory; they must be among those of the sample."""
        place = np.searchsorted(self.index, index)
        if not np.array_equal(self.index[place], index):
            raise ValueError("Only rows of the sample can be taken from a Dask table.")
        return self.sample.take(place).at(self.model)

    def at(self, model):
        """The same rows seen by another model."""
        return replace(self, model=model)

    def around(self):
        """Prepared features of some rows, evenly spaced."""
        return self.take(np.arange(*spread_over(self.n_rows).indices(self.n_rows))).X

    def targets(self):
        """Targets that tell their distribution, the smallest and the largest among them."""
        ends = np.array(self.survey.values)
        return np.concatenate([self.sample.y, self.model.encode_target(ends)]) if len(ends) else self.sample.y


@dataclass(frozen=True, eq=False)
class Prepared:
    """From a part of a table to what the mathematics takes; ``labels`` are those of the groups, in their order."""

    model: Any
    labels: pd.Index | None

    def __call__(self, part, k=0):
        if not len(part.y):
            return None, np.zeros(0), np.zeros(0), None
        y = self.model.encode_target(part.y)
        if not np.isfinite(y).all():
            raise ValueError("y has values that its transformer cannot take; clean it before.")
        code = None if self.labels is None else self.labels.get_indexer(part.label)
        return self.model.prepare(part.X), y, part.weights, code


def _grouped(model, table, survey):
    """Labels of the groups in the order of their numbers, and what is known of them; None where there are none."""
    if not table.grouped:
        return None, None
    count, weight, n_parts = (np.array(column) for column in zip(*survey.groups.values(), strict=True))
    _check_memory(int((n_parts > 1).sum()), len(model.theta))
    check_group_totals(weight)
    if len(count) == survey.n_rows and survey.unit_weights:
        return None, None  # each row is one of its own
    return pd.Index(list(survey.groups)), Groups(np.zeros(0, dtype=int), count, weight)


def _check_memory(n_cut, p):
    """Groups that are spread over partitions are added up in this process, a p x p matrix each."""
    needed = 8 * n_cut * p**2
    if needed > machine_bytes() / 4:
        raise MemoryError(
            f"{n_cut} groups are spread over several partitions, and their curvatures of {p} x {p} would take "
            f"{needed / 1e9:.3g} GB. Keep groups together: sort the table by them, as by set_index."
        )


def _rows_of_part(model, groups, part, k):
    X, y, weight, code = part
    return Rows(model, X, y, weight, None if groups is None else replace(groups, code=code), k << BLOCKS_OF_A_PART)


def _sum_of_part(model, groups, f, width, part, k):
    return _rows_of_part(model, groups, part, k).sum(f, width) if len(part[1]) else None


def _map_of_part(model, groups, f, width, part, k):
    return _rows_of_part(model, groups, part, k).map(f, width) if len(part[1]) else None


def _name(f):
    """What a pass is called: the function that runs over the blocks."""
    while isinstance(f, partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__).strip("_")
