"""Experiments as cells: small pieces of work with a name, computed once, kept in a JSON file, shown as they go."""

import json
import platform
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import sklearn
from joblib import parallel_config
from sklearn.utils.parallel import Parallel, delayed

import skribbon

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the data are found

RESULTS = Path(__file__).resolve().parents[1] / "results"
PROCESSES = 2
SITTINGS = "seconds-of-runs"  # beside the records


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    ``cells`` maps a name to a function without arguments that returns a dict of numbers, strings and lists.
    ``together`` maps a name to a label: cells of one label share a fitted network, and run in one process, in turn.
    ``report`` turns the cells that there are into Markdown and saves the figures into the folder that it is given.
    ``setting`` holds whatever would make old cells wrong if it changed: they are computed again then.
    """

    name: str
    title: str
    setting: dict
    cells: dict[str, Callable[[], dict]]
    together: Callable[[str], str]
    report: Callable[[dict, Path], str]

    def tasks(self, kept):
        """Label to the cells of it that are not there yet."""
        found = {}
        for name, cell in self.cells.items():
            if name not in kept:
                found.setdefault(self.together(name), {})[name] = cell
        return found


def versions():
    """What the numbers were made with."""
    packages = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    return {**packages, "scikit-learn": sklearn.__version__, "skribbon": skribbon.__version__}


def compute(experiments, folder):
    """Compute the cells that are not there yet, in two processes; the names of those that failed.

    Stopping and starting again loses the task that each process was at. All experiments advance alike, so that a run
    that was cut short has something of every table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    records = {experiment.name: record_of(experiment, folder) for experiment in experiments}
    queue = []
    for experiment in experiments:
        tasks = experiment.tasks(records[experiment.name]["cells"])
        queue += [(i / len(tasks), experiment.name, label, tasks[label]) for i, label in enumerate(tasks)]
    queue.sort(key=lambda task: task[0])
    sittings = _sittings(folder) if any(record["cells"] for record in records.values()) else []
    started, failed = time.perf_counter(), []
    with parallel_config("loky", n_jobs=PROCESSES, inner_max_num_threads=1):
        tasks = (delayed(_computed)(name, label, cells) for _, name, label, cells in queue)
        done = Parallel(return_as="generator_unordered", batch_size=1)(tasks)
        for number, (name, label, found, errors) in enumerate(done, start=1):
            records[name]["cells"] |= found
            failed += errors
            seconds = time.perf_counter() - started
            _write(folder / f"{name}.json", records[name])
            _write(folder / SITTINGS, [*sittings, seconds])
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


def write_report(experiment, folder):
    """The experiment's section of the page, from the cells that there are; empty if there are none."""
    cells = record_of(experiment, folder)["cells"]
    values = {name: cells[name]["value"] for name in experiment.cells if name in cells}
    if not values:
        return ""
    short = f"Cut short: {len(values)} of {len(experiment.cells)} cells.\n\n"
    body = experiment.report(values, folder).strip()
    text = f"## {experiment.title}\n\n{short if len(values) < len(experiment.cells) else ''}{body}\n"
    (folder / f"{experiment.name}.md").write_text(text, encoding="utf-8")
    return text


def cost(experiments, folder):
    """How long it all took, in a sentence."""
    seconds = [
        cell["seconds"] for experiment in experiments for cell in record_of(experiment, folder)["cells"].values()
    ]
    sittings = _sittings(folder)
    minutes = " and ".join(f"{sitting / 60:.0f}" for sitting in sittings)
    return (
        f"All of it was computed in {len(sittings)} run{'s' if len(sittings) > 1 else ''} of {minutes} minutes, in two "
        f"processes that had {sum(seconds) / 60:.0f} minutes of CPU time; the machine had other work to do."
    )


def _sittings(folder):
    """Seconds of the runs so far."""
    path = folder / SITTINGS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def record_of(experiment, folder):
    """The record on disk if it was made with the same setting, else a new one."""
    path, setting = folder / f"{experiment.name}.json", _plain(experiment.setting)
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["setting"] == setting:
            return record
    return {"experiment": experiment.name, "setting": setting, "versions": versions(), "cells": {}}


def _write(path, record):
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _show(done, total, seconds, what):
    bar = "#" * round(20 * done / total)
    line = f"\r[{bar:<20}] {done}/{total}  {seconds:6.0f} s  {what:<60}"
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
