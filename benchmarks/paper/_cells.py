"""Experiments as cells: small pieces of work with a name, computed once, kept in a JSON file, shown as they go."""

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import parallel_config
from sklearn.utils.parallel import Parallel, delayed

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the data and the records are found

import records

RESULTS = Path(__file__).resolve().parents[1] / "results"
PROCESSES = 2
FOR_FIGURES = ("grid", "mean", "confidence", "prediction", "coefficients")  # too long for a record


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    ``cells`` maps a name to a function without arguments that returns a dict of numbers, strings and lists.
    ``together`` maps a name to a label: cells of one label share a fitted network, and run in one process, in turn.
    ``report`` turns the cells that there are into Markdown, ``draw`` into figures in a folder.
    ``setting`` holds whatever would make old cells wrong if it changed: they are computed again then, as they are if
    skribbon/ has changed.
    """

    name: str
    title: str
    setting: dict
    cells: dict[str, Callable[[], dict]]
    together: Callable[[str], str]
    report: Callable[[dict], str]
    draw: Callable[[dict, Path], None] = lambda values, folder: None

    def tasks(self, kept):
        """Label to the cells of it that are not there yet."""
        found = {}
        for name, cell in self.cells.items():
            if name not in kept:
                found.setdefault(self.together(name), {})[name] = cell
        return found


def compute(experiments, folder):
    """Compute the cells that are not there yet, in two processes; the names of those that failed.

    Stopping and starting again loses the task that each process was at. All experiments advance alike, so that a run
    that was cut short has something of every table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {experiment.name: kept_of(experiment, folder) for experiment in experiments}
    queue = []
    for experiment in experiments:
        tasks = experiment.tasks(kept[experiment.name]["cells"])
        queue += [(i / len(tasks), experiment.name, label, tasks[label]) for i, label in enumerate(tasks)]
    queue.sort(key=lambda task: task[0])
    started, failed = time.perf_counter(), []
    with parallel_config("loky", n_jobs=PROCESSES, inner_max_num_threads=1):
        tasks = (delayed(_computed)(name, label, cells) for _, name, label, cells in queue)
        done = Parallel(return_as="generator_unordered", batch_size=1)(tasks)
        for number, (name, label, found, errors) in enumerate(done, start=1):
            kept[name]["cells"] |= found
            failed += errors
            seconds = time.perf_counter() - started
            _write(folder / f"{name}.json", kept[name])
            _show(number, len(queue), seconds, f"{name}: {label}")
    return failed


def _computed(experiment, label, cells):
    """The values and CPU seconds of a task's cells, and which of them failed: one does not stop the others."""
    found, errors = {}, []
    for name, function in cells.items():
        try:
            value, seconds = timed(function)
        except Exception:
            traceback.print_exc()
            errors.append(f"{experiment}: {name}")
        else:
            found[name] = {"value": _plain(value), "seconds": round(seconds, 3)}
    return experiment, label, found, errors


def write_record(experiment, folder):
    """Write the cells to doc/results, without what only figures need, if there are all of them."""
    cells = kept_of(experiment, folder)["cells"]
    if all(name in cells for name in experiment.cells):
        rows = {name: thin(cells[name]["value"]) for name in experiment.cells}
        minutes = sum(cell["seconds"] for cell in cells.values()) / 60 / PROCESSES
        protocol = f"benchmarks/paper/{experiment.name}.py"
        records.write(experiment.name, rows, protocol, {**experiment.setting, "processes": PROCESSES}, minutes)


def thin(value):
    return {key: item for key, item in value.items() if key not in FOR_FIGURES}


def values_of(experiment, folder):
    """Values of the cells that there are."""
    cells = kept_of(experiment, folder)["cells"]
    return {name: cells[name]["value"] for name in experiment.cells if name in cells}


def section(experiment, values):
    """The experiment's section of the page, from the cells that there are; empty if there are none."""
    if not values:
        return ""
    short = f"Cut short: {len(values)} of {len(experiment.cells)} cells.\n\n"
    body = experiment.report(values).strip()
    return f"## {experiment.title}\n\n{short if len(values) < len(experiment.cells) else ''}{body}\n"


def kept_of(experiment, folder):
    """The cells on disk if they are of the same setting and the same tree of skribbon/, else none."""
    path, setting = folder / f"{experiment.name}.json", _plain(experiment.setting)
    new = {"experiment": experiment.name, "setting": setting, "tree": records.tree(), "cells": {}}
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        if all(found.get(key) == new[key] for key in ("setting", "tree")):
            return found
    return new


def _write(path, record):
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _show(done, total, seconds, what):
    bar = "#" * round(20 * done / total)
    left = seconds / done * (total - done) / 60
    line = f"\r[{bar:<20}] {done}/{total}  {seconds:6.0f} s, {left:.0f} minutes left  {what:<60}"
    sys.stderr.write(line if sys.stderr.isatty() and done < total else line.strip() + "\n")
    sys.stderr.flush()


def _plain(value):
    """numpy numbers and arrays as JSON has them."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return value


# ---------------------------------------------------------------------- tables
def table(header, rows):
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def mean_sd(values, digits=3):
    """ "0.902 ± 0.071" of several trials; a dash where there are none."""
    values = np.asarray([value for value in values if value is not None], dtype=float)
    if not len(values):
        return "-"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def timed(function):
    """The value of a function and its CPU seconds, which other work on the machine does not lengthen much."""
    start = time.process_time()
    value = function()
    return value, time.process_time() - start
