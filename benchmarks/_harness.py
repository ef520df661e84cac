"""Timing and reporting that the benchmarks share."""

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

import records

RESULTS = Path(__file__).parent / "results"
CLOCKS = {"wall": perf_counter, "cpu": process_time}


@dataclass(frozen=True)
class Line:
    """One measured number in a stated unit; without a target it is there for comparison only."""

    case: str
    what: str
    measured: float
    unit: str
    target: float | None = None
    seconds: float | None = None

    @property
    def verdict(self):
        if self.target is None:
            return ""
        return "ok" if self.measured <= self.target else "over"

    def cells(self):
        target = "" if self.target is None else f"<= {self.target:.3g}"
        seconds = "" if self.seconds is None else f"{self.seconds:.3f}"
        measured = f"{self.measured:.2f}" if self.measured >= 0.1 else f"{self.measured:.2g}"
        return [self.case, self.what, measured, target, self.unit, self.verdict, seconds]


HEADER = ["case", "what", "measured", "target", "unit", "verdict", "seconds"]
WIDTHS = [4, 60, 8, 7, 22, 7, 7]


def show(cells):
    """One row of the table, printed as soon as it is known."""
    print("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip(), flush=True)


def best_of(repeats, clock, **functions):
    """Shortest seconds of each function. Rounds are interleaved, so a noisy minute hurts all of them alike."""
    now = CLOCKS[clock]
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = now()
            function()
            best[name] = min(best[name], now() - start)
    return best


def write(lines, name, setting):
    """The lines as results/<name>.md and results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    rows = [HEADER, ["---"] * len(HEADER), *(line.cells() for line in lines)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    facts = "\n".join(f"- {key}: {value}" for key, value in setting.items())
    (RESULTS / f"{name}.md").write_text(f"# {name}\n\n{facts}\n\n{table}\n", encoding="utf-8")
    record = {"setting": setting, "lines": [{**asdict(line), "verdict": line.verdict} for line in lines]}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"\nWritten: {RESULTS / name}.md and .json")


def setting():
    """What the seconds depend on; the ratios should not."""
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    packages = ", ".join(f"{name} {version(name)}" for name in ("skribbon", "numpy", "scipy", "scikit-learn"))
    return {"python": platform.python_version(), "packages": packages, "cores": os.cpu_count(), "BLAS threads": threads}


def parser(description, cases, repeats):
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--only", default="".join(cases), help="cases to run")
    options.add_argument("--repeats", type=int, default=repeats, help="rounds; the best of each function counts")
    options.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    options.add_argument("--clock", choices=CLOCKS, default="wall", help="what is measured")
    return options


def measure(name, cases, arguments):
    """Run the chosen cases, show their lines as they come, and write them."""
    complete = set(arguments.only) == set(cases)
    if complete and records.skip(name, arguments.again):
        return
    show(HEADER)
    lines = []
    for case in arguments.only:
        for line in cases[case](arguments.repeats, arguments.clock):
            show(line.cells())
            lines.append(line)
    settings = {**setting(), "clock": arguments.clock}
    write(lines, name if complete else f"{name}-{arguments.only}", settings)
    if complete:
        keys = ("case", "what", "measured", "unit", "seconds")
        rows = [{key: getattr(line, key) for key in keys} for line in lines]
        records.write(name, rows, f"benchmarks/bench_{name}.py", settings)
