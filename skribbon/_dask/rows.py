"""Passes over the partitions of a Dask table, and training rows on them."""

import time
import uuid
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add, attrgetter
from typing import Any

import dask
import dask.base
import dask.threaded
import numpy as np
import pandas as pd
from dask.delayed import delayed

from .._core.rows import Groups, Rows, spread_over
from .._utils.checks import check_group_totals
from .._utils.compat import limit_blas
from ..curvature import machine_bytes


def over_partitions(f, parts, name):
    """Tasks that call ``f(part, k)`` on the k-th partition; the graph stores f once."""
    token = uuid.uuid4().hex
    shared = delayed(f, traverse=False, name=f"skribbon_{name}_shared-{token}")
    prefix = f"skribbon_{name}-{token}"
    return [delayed(_call)(shared, part, k, dask_key_name=f"{prefix}-{k}") for k, part in enumerate(parts)]


def _call(f, part, k):
    """Call f(part, k); an error names the partition."""
    try:
        return f(part, k)
    except (ValueError, TypeError) as error:
        if str(error).startswith("Partition "):
            raise
        raise type(error)(f"Partition {k}: {error}") from error


def summed(tasks, name, branches=8):
    """Task that sums all results except None in a tree, whose nodes add up ``branches`` neighbours."""
    while len(tasks) > 1:
        groups = [tasks[start : start + branches] for start in range(0, len(tasks), branches)]
        tasks = over_partitions(_add, groups, f"add_{name}")
    return tasks[0]


def _add(pieces, k):
    pieces = [piece for piece in pieces if piece is not None]
    return reduce(add, pieces) if pieces else None


def computed(tasks, parts, run=dask.compute):
    """Compute tasks with one BLAS thread for each thread of Dask; an error names a partition that cannot be read."""
    threaded = dask.base.get_scheduler(collections=(parts[0],)) in (None, dask.threaded.get)
    try:
        with limit_blas() if threaded else nullcontext():
            return run(tasks)[0]
    except Exception as error:
        if str(error).startswith("Partition ") or type(error).__module__.startswith("distributed"):
            raise
        place = _first_unreadable(parts)
        if place is None:
            raise
        raise RuntimeError(f"Partition {place} could not be computed: {error}") from error


def _first_unreadable(parts):
    """Index of the first partition that cannot be computed, or None."""
    for k, part in enumerate(parts):
        try:
            dask.compute(delayed(type)(part))
        except Exception:
            return k
    return None


def kept(tasks, n_bytes):
    """Compute tasks and keep their results on their workers, if ``n_bytes`` of memory are available."""
    return tasks if n_bytes > memory_to_keep() else computed(tasks, tasks, dask.persist)


def memory_to_keep():
    """Bytes that a table may take between passes: a quarter of this machine's memory, or 40% of a cluster's."""
    client = getattr(dask.base.get_scheduler(), "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return machine_bytes() / 4
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return 0.4 * sum(worker["memory_limit"] or 0 for worker in workers)


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Prepared training rows of a model on partitions, with the methods of :class:`skribbon._core.rows.Rows`."""

    model: Any
    parts: list  # tasks of tuples (X, y, weight, code)
    survey: Any
    sample: Rows  # some of the rows, in memory
    index: np.ndarray  # indices of these rows in the table, ascending
    groups: Groups | None = None  # without codes, which are on the partitions
    passes: list[str] | None = None  # names of the passes so far; None to print nothing
    unit: float | None = None  # weight of a row of importance one; None if weights are frequencies

    in_memory, factors = False, None
    n_units, n_groups, at = Rows.n_units, Rows.n_groups, Rows.at
    exposure = property(attrgetter("sample.exposure"))
    fractional = property(attrgetter("sample.fractional"))  # by a sample

    @classmethod
    def from_table(cls, model, table, survey, part, index):
        """Prepare the rows of a Table, of which ``part`` has the rows ``index`` in memory."""
        labels, groups = _table_groups(model, table, survey)
        prepare = partial(_prepare, model, labels)
        X, y, weight, code = prepare(part)
        sample = Rows(model, X, y, weight, None if groups is None else replace(groups, code=code))
        width = X.nnz / X.shape[0] * 1.5 if hasattr(X, "nnz") else X.shape[1]  # half as much again for sparse indices
        n_bytes = int(8 * survey.n_rows * (width + 3))  # float64, with y, weight and code
        parts = kept(over_partitions(prepare, table.parts, "prepare"), n_bytes)
        return cls(model, parts, survey, sample, index, groups, [] if table.verbose else None)

    @property
    def n(self):
        """Number of observations."""
        return self.survey.total

    def counted_once(self, unit, exposure=None):
        """Copy whose rows count once each, with their weights over ``unit`` as factors of the loss."""
        survey = self.survey._replace(total=self.survey.total / unit)
        return replace(self, sample=self.sample.counted_once(unit, exposure), survey=survey, unit=unit)

    @property
    def n_rows(self):
        """Number of rows, whatever their weights."""
        return self.survey.n_rows

    def sum(self, f, width=None):
        """Sum of f(block) over all blocks of all partitions."""
        return self._run(Rows.sum, f, width, partial(summed, name=_name(f)))

    def map(self, f, width=None):
        """Concatenation over blocks of f(block), an array or a tuple of arrays with few rows."""
        pieces = [piece for piece in self._run(Rows.map, f, width, list) if piece is not None]
        if isinstance(pieces[0], tuple):
            return tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return np.concatenate(pieces)

    def _run(self, verb, f, width, gather):
        """Compute Rows.sum or Rows.map on every partition and gather the results; print a line if verbose."""
        start, name = time.perf_counter(), _name(f)
        run = partial(_run_on_part, verb, self.model, self.groups, self.unit, f, width)
        tasks = over_partitions(run, self.parts, name)
        result = computed(gather(tasks), self.parts)
        if self.passes is not None:
            self.passes.append(name)
            seconds = time.perf_counter() - start
            speed = self.n_rows / max(seconds, 1e-9)
            print(f"[skribbon] pass {len(self.passes)}, {name}: {seconds:.2f} s, {speed:.3g} rows/s", flush=True)
        return result

    def take(self, index):
        """Rows of these indices in memory; all must be in the sample."""
        place = np.searchsorted(self.index, index)
        if not np.array_equal(self.index[place], index):
            raise ValueError("Only rows of the sample can be taken from a Dask table.")
        return self.sample.take(place).at(self.model)

    def around(self):
        """Prepared features of some rows, evenly spaced."""
        return self.take(np.arange(*spread_over(self.n_rows).indices(self.n_rows))).X

    def targets(self):
        """Targets of the sample, with the smallest and the largest of all rows."""
        extremes = np.array(self.survey.values)
        return np.concatenate([self.sample.y, self.model.encode_target(extremes)]) if len(extremes) else self.sample.y


def _prepare(model, labels, part, k=0):
    """Prepared X, encoded y, weights, and positions of the groups among their ``labels``, from a Part."""
    if not len(part.y):
        return None, np.zeros(0), np.zeros(0), None
    y = model.encode_target(part.y)
    if not np.isfinite(y).all():
        raise ValueError("y has values outside its transformer's domain; drop them.")
    return model.prepare(part.X), y, part.weights, None if labels is None else labels.get_indexer(part.label)


def _table_groups(model, table, survey):
    """Labels of the groups, and Groups without codes; None and None if every row is its own group."""
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
    if len(count) == survey.n_rows and not survey.n_odd_weights:
        return None, None
    return pd.Index(list(survey.groups)), Groups(np.zeros(0, dtype=int), count, weight)


def _run_on_part(verb, model, groups, unit, f, width, part, k):
    """Apply Rows.sum or Rows.map to the rows of the k-th partition; None if it has none."""
    X, y, weight, code = part
    groups = None if groups is None else replace(groups, code=code)
    first = k << 20  # no partition has a million blocks, so every block of the table has its own index
    rows = Rows(model, X, y, weight, groups, first)
    return verb(rows if unit is None else rows.counted_once(unit), f, width) if len(y) else None


def _name(f):
    """Name of the function that a pass applies to blocks."""
    while isinstance(f, partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__).strip("_")
