"""Training rows on partitions: passes over them, ``sum`` and ``map`` as of rows in memory, and a sample that is."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import dask
import dask.base
import dask.threaded
import numpy as np
import pandas as pd
from dask.delayed import delayed

from .._core.rows import Groups, Rows, spread_over
from .._utils.checks import check_group_totals
from .._utils.threads import limit_blas
from ..curvature import machine_bytes


# ---------------------------------------------------------------------- passes over partitions
def over_partitions(f, parts, name):
    """Tasks that call ``f(part, k)`` on the k-th partition; f is stored once, however many they are."""
    token = uuid.uuid4().hex
    shared = delayed(f, traverse=False, name=f"skribbon_{name}_shared-{token}")
    return [
        delayed(_called)(shared, part, k, dask_key_name=f"skribbon_{name}-{token}-{k}") for k, part in enumerate(parts)
    ]


def _called(f, part, k):
    """f(part, k); an error names the partition."""
    try:
        return f(part, k)
    except (ValueError, TypeError) as error:
        if str(error).startswith("Partition "):
            raise
        raise type(error)(f"Partition {k}: {error}") from error


def summed(tasks, name, branches=8):
    """One task with the sum of all results but None, added up as a tree whose nodes add that many neighbours."""
    token, level = uuid.uuid4().hex, 0
    while len(tasks) > 1:
        groups = enumerate(tasks[start : start + branches] for start in range(0, len(tasks), branches))
        key, level = f"skribbon_add_{name}-{token}-{level}", level + 1
        tasks = [delayed(_added)(group, dask_key_name=f"{key}-{k}") for k, group in groups]
    return tasks[0]


def _added(pieces):
    pieces = [piece for piece in pieces if piece is not None]
    return reduce(add, pieces) if pieces else None


def computed(value, parts):
    """Compute the value of tasks on the partitions ``parts``."""
    with _on_partitions(parts):
        return dask.compute(value)[0]


@contextmanager
def _on_partitions(parts):
    """Name the partition that cannot be read, and give threads of this process one BLAS thread each."""
    threaded = dask.base.get_scheduler(collections=(parts[0],)) in (None, dask.threaded.get)
    try:
        with limit_blas() if threaded else nullcontext():
            yield
    except Exception as error:
        if str(error).startswith("Partition ") or type(error).__module__.startswith("distributed"):
            raise
        place = _failing(parts)
        if place is None:
            raise
        raise RuntimeError(f"Partition {place} could not be computed: {error}") from error


def _failing(parts):
    """Number of the first partition that cannot be computed, None if all can."""
    for k, part in enumerate(parts):
        try:
            dask.compute(delayed(type)(part))
        except Exception:
            return k
    return None


def kept(tasks, n_bytes):
    """Compute the tasks and keep their results where they are, if there is memory for so many bytes."""
    if n_bytes > memory_to_keep():
        return tasks
    with _on_partitions(tasks):
        return list(dask.persist(*tasks))


def memory_to_keep():
    """Bytes that a table may take between passes: a quarter of this machine's memory, or 40% of a cluster's."""
    client = getattr(dask.base.get_scheduler(), "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return machine_bytes() / 4
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return 0.4 * sum(worker["memory_limit"] or 0 for worker in workers)


# ---------------------------------------------------------------------- training rows
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
    passes : list of str or None
        Names of the passes so far, each of which prints a line; None to print nothing.
    """

    model: Any
    parts: list
    survey: Any
    sample: Rows
    index: np.ndarray
    groups: Groups | None = None
    passes: list[str] | None = None

    in_memory = False
    units, at = Rows.units, Rows.at

    @classmethod
    def of(cls, model, table, survey, part, index):
        """Rows of a table, of which the rows ``index`` are in memory as ``part``."""
        labels, groups = _grouped(model, table, survey)
        prepare = partial(_prepared, model, labels)
        parts = over_partitions(prepare, table.parts, "prepare")
        X, y, weight, code = prepare(part)
        sample = Rows(model, X, y, weight, None if groups is None else replace(groups, code=code))
        width = X.nnz / X.shape[0] * 1.5 if hasattr(X, "nnz") else X.shape[1]
        parts = kept(parts, int(8 * survey.n_rows * (width + 3)))
        return cls(model, parts, survey, sample, index, groups, [] if table.verbose else None)

    @property
    def n(self):
        """Number of observations."""
        return self.survey.total

    @property
    def n_rows(self):
        """Number of rows, whatever their weights."""
        return self.survey.n_rows

    def sum(self, f, width=None):
        """Sum over all blocks of all partitions of f(block)."""
        return self._passed(Rows.sum, f, width, partial(summed, name=_name(f)))

    def map(self, f, width=None):
        """Concatenation over blocks of f(block), an array, or a tuple of arrays, with few rows for each block."""
        pieces = [piece for piece in self._passed(Rows.map, f, width) if piece is not None]
        if isinstance(pieces[0], tuple):
            return tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return np.concatenate(pieces)

    def _passed(self, verb, f, width, gathered=list):
        """Compute what is gathered from a verb of every partition's rows; print a line if passes are counted."""
        start, name = time.perf_counter(), _name(f)
        tasks = over_partitions(partial(_on_part, verb, self.model, self.groups, f, width), self.parts, name)
        result = computed(gathered(tasks), self.parts)
        if self.passes is not None:
            self.passes.append(name)
            seconds = time.perf_counter() - start
            speed = self.n_rows / max(seconds, 1e-9)
            print(f"[skribbon] pass {len(self.passes)}, {name}: {seconds:.2f} s, {speed:.3g} rows/s", flush=True)
        return result

    def take(self, index):
        """Some of the rows, in memory; they must be among those of the sample."""
        place = np.searchsorted(self.index, index)
        if not np.array_equal(self.index[place], index):
            raise ValueError("Only rows of the sample can be taken from a Dask table.")
        return self.sample.take(place).at(self.model)

    def around(self):
        """Prepared features of some rows, evenly spaced."""
        return self.take(np.arange(*spread_over(self.n_rows).indices(self.n_rows))).X

    def targets(self):
        """Targets that tell their distribution, the smallest and the largest among them."""
        ends = np.array(self.survey.values)
        return np.concatenate([self.sample.y, self.model.encode_target(ends)]) if len(ends) else self.sample.y


def _prepared(model, labels, part, k=0):
    """Prepared X, encoded y, weights, and positions of the groups among their ``labels``, from a part of a table."""
    if not len(part.y):
        return None, np.zeros(0), np.zeros(0), None
    y = model.encode_target(part.y)
    if not np.isfinite(y).all():
        raise ValueError("y has values that its transformer cannot take; clean it before.")
    return model.prepare(part.X), y, part.weights, None if labels is None else labels.get_indexer(part.label)


def _grouped(model, table, survey):
    """Labels of the groups in the order of their numbers, and their totals; None without groups."""
    if not table.grouped:
        return None, None
    count, weight, n_parts, _ = (np.array(column) for column in zip(*survey.groups.values(), strict=True))
    n_cut, p = int((n_parts > 1).sum()), len(model.theta)
    needed = 8 * n_cut * p**2  # groups on several partitions are added up in this process
    if needed > machine_bytes() / 4:
        raise MemoryError(
            f"{n_cut} groups are spread over several partitions, and their curvatures of {p} x {p} would take "
            f"{needed / 1e9:.3g} GB. Keep groups together: sort the table by them, as by set_index."
        )
    check_group_totals(weight)
    if len(count) == survey.n_rows and survey.unit_weights:
        return None, None  # every row is its own group
    return pd.Index(list(survey.groups)), Groups(np.zeros(0, dtype=int), count, weight)


def _on_part(verb, model, groups, f, width, part, k):
    """Sum or map of a function over the rows of the k-th partition; None if it has none."""
    X, y, weight, code = part
    groups = None if groups is None else replace(groups, code=code)
    first = k << 20  # no partition has a million blocks, so that every block has its own number
    return verb(Rows(model, X, y, weight, groups, first), f, width) if len(y) else None


def _name(f):
    """What a pass is called: the function that runs over the blocks."""
    while isinstance(f, partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__).strip("_")
