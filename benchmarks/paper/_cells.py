"""Experiments as cells: small pieces of work with a name, computed once, kept in a JSON file, shown as they go."""

import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import sklearn

import skribbon

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the data are found

RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    ``cells`` maps a name to a function without arguments that returns a dict of numbers, strings and lists; ``report``
    turns all of them into Markdown and saves the figures into the folder that it is given. ``setting`` holds whatever
    would make old cells wrong if it changed: they are computed again then.
    """

    name: str
    title: str
    setting: dict
    cells: dict[str, Callable[[], dict]]
    report: Callable[[dict, Path], str]


def versions():
    """What the numbers were made with."""
    packages = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    return {**packages, "scikit-learn": sklearn.__version__, "skribbon": skribbon.__version__}


def run(experiment, folder):
    """Compute the cells that are not there yet, and write the report. Stopping and starting again loses one cell."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{experiment.name}.json"
    record = _kept(path, experiment)
    started, total = time.perf_counter(), len(experiment.cells)
    missing = [name for name in experiment.cells if name not in record["cells"]]
    for done, name in enumerate(missing, start=total - len(missing)):
        _show(experiment.name, done, total, name, started)
        start = time.perf_counter()
        value = experiment.cells[name]()
        record["cells"][name] = {"value": _plain(value), "seconds": round(time.perf_counter() - start, 3)}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    _show(experiment.name, total, total, "done", started)
    sys.stderr.write("\n")
    values = {name: record["cells"][name]["value"] for name in experiment.cells}
    text = f"## {experiment.title}\n\n{experiment.report(values, folder).strip()}\n"
    (folder / f"{experiment.name}.md").write_text(text, encoding="utf-8")
    return text


def _kept(path, experiment):
    """The record on disk if it was made with the same setting, else a new one."""
    setting = _plain(experiment.setting)
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["setting"] == setting:
            return record
    return {"experiment": experiment.name, "setting": setting, "versions": versions(), "cells": {}}


def _show(name, done, total, what, started):
    bar = "#" * round(20 * done / total)
    seconds = time.perf_counter() - started
    line = f"\r{name:<11}[{bar:<20}] {done}/{total}  {seconds:6.0f} s  {what:<40}"
    sys.stderr.write(line if sys.stderr.isatty() else line.strip() + "\n")
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
    """The value of a function and its seconds."""
    start = time.perf_counter()
    value = function()
    return value, time.perf_counter() - start
