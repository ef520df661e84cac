"""Passes over partitions: one task for each, and their results added up in an order that is always the same."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager, nullcontext
from functools import reduce
from operator import add

import dask
import dask.base
import dask.threaded
from dask.delayed import delayed

from .._utils.threads import one_thread
from ..curvature import machine_bytes

BRANCHES = 8  # results that one task adds up
LOCAL_SHARE, CLUSTER_SHARE = 0.25, 0.4  # of the memory that a table may take to be kept there between passes


def over_partitions(f, parts, name):
    """Tasks that call ``f(part, k)`` on the k-th partition; f is stored once, however many they are."""
    token = uuid.uuid4().hex
    shared = delayed(f, traverse=False, name=f"skribbon_{name}_shared-{token}")
    return [
        delayed(_called)(shared, part, k, dask_key_name=f"skribbon_{name}-{token}-{k}") for k, part in enumerate(parts)
    ]


def _called(f, part, k):
    """f(part, k); an error says in which partition it was."""
    try:
        return f(part, k)
    except (ValueError, TypeError) as error:
        if str(error).startswith("Partition "):
            raise
        raise type(error)(f"Partition {k}: {error}") from error


def summed(tasks, name):
    """One task with the sum of all results but None, added up as a tree of neighbours."""
    token, level = uuid.uuid4().hex, 0
    while len(tasks) > 1:
        groups = [tasks[start : start + BRANCHES] for start in range(0, len(tasks), BRANCHES)]
        keys = [f"skribbon_add_{name}-{token}-{level}-{k}" for k in range(len(groups))]
        tasks = [delayed(_added)(group, dask_key_name=key) for group, key in zip(groups, keys, strict=True)]
        level += 1
    return tasks[0]


def _added(pieces):
    pieces = [piece for piece in pieces if piece is not None]
    return reduce(add, pieces) if pieces else None


def computed(value, parts, progress=None, name=""):
    """The value of tasks on the partitions ``parts``."""
    start = time.perf_counter()
    with _on_partitions(parts):
        (result,) = dask.compute(value)
    if progress is not None:
        progress(name, time.perf_counter() - start)
    return result


@contextmanager
def _on_partitions(parts):
    """Where a partition cannot even be read, the error says which.

    Threads of this process get one BLAS thread each: more threads than cores make everything slower.
    """
    threaded = dask.base.get_scheduler(collections=(parts[0],)) in (None, dask.threaded.get)
    try:
        with one_thread() if threaded else nullcontext():
            yield
    except Exception as error:
        if str(error).startswith("Partition ") or type(error).__module__.startswith("distributed"):
            raise
        place = _failing(parts)
        if place is None:
            raise
        raise RuntimeError(f"Partition {place} could not be computed: {error}") from error


def _failing(parts):
    """Which of the partitions cannot be computed, None if all can."""
    for k, part in enumerate(parts):
        try:
            dask.compute(delayed(_nothing)(part))
        except Exception:
            return k
    return None


def _nothing(part):
    return None


def kept(tasks, n_bytes):
    """The tasks, computed and kept where they are if that much memory is there; else as they were."""
    client = _client()
    if client is None:
        there = LOCAL_SHARE * machine_bytes()
    else:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        there = CLUSTER_SHARE * sum(worker["memory_limit"] or 0 for worker in workers)
    if n_bytes > there:
        return tasks
    with _on_partitions(tasks):
        return list(dask.persist(*tasks))


def _client():
    """The distributed client that computations go to, None if there is none."""
    get = dask.base.get_scheduler()
    owner = getattr(get, "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def progress_printer(n_rows):
    """A function that prints a line for every pass over so many rows."""
    passes = []

    def progress(name, seconds):
        passes.append(name)
        speed = n_rows / max(seconds, 1e-9)
        print(f"[skribbon] pass {len(passes)}, {name}: {seconds:.2f} s, {speed:.3g} rows/s", flush=True)

    return progress
