"""Everything that a release measures, one run after the other: ``make release``.

The result of each run goes to doc/results/runs.json with its minutes and the tree of skribbon/ that it ran on. A run
with a good result of the present tree is skipped, so the whole can be made in pieces; most runs resume as well. Only
committed code is measured. Logs are in benchmarks/results/logs.

    python benchmarks/release.py [run ...] [--again] [--list]
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import records

LOGS = records.ROOT / "benchmarks" / "results" / "logs"
SUMMARY = re.compile(r"^=*\s*(\d+ (?:passed|failed).*?)(?: in [\d.]+s.*?)?\s*=*$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One command of a release; ``minutes`` are a first guess, for the remaining time."""

    command: str
    minutes: float
    in_clone: bool = False  # in a fresh clone with CI=true


RUNS = {
    "ci": Run("bash .ci/run", 25, in_clone=True),
    "slow": Run("make slow", 40),
    "fuzz": Run("make fuzz", 15),
    "fuzz, second seed": Run("make fuzz SEED=1", 15),
    "fuzz, third seed": Run("make fuzz SEED=2", 15),
    "paper": Run("make paper", 33),
    "calibration": Run("make calibration", 90),
    "networks": Run("make networks", 120),
    "bench": Run("make bench", 40),
    "torch": Run("make torch SCALING=1", 30),
    "doc": Run("make doc", 6),
    "examples": Run("make examples", 4),
}


def outcome(log, code):
    """The summaries of pytest in a log, else whether the command succeeded."""
    summaries = SUMMARY.findall(re.sub(r"\x1b\[[\d;]*m", "", log))
    text = "; ".join(summaries) or "ok"
    return text if code == 0 else f"failed: {text if summaries else f'exit {code}'}"


def execute(run, name):
    """Run the command, with its output in a log; return the outcome and the minutes."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path, start = LOGS / f"{name.replace(', ', '-').replace(' ', '-')}.log", time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, path.open("w") as log:
        where, environment = records.ROOT, dict(os.environ)
        if run.in_clone:
            where = Path(folder) / "main"
            subprocess.run(["git", "clone", "--quiet", records.ROOT, where], check=True)
            environment |= {"CI": "true"} | ({"SKRIBBON_DATA": str(found)} if (found := data()) else {})
        done = subprocess.run(
            ["bash", "-c", run.command], cwd=where, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False
        )
    minutes = (time.perf_counter() - start) / 60
    return outcome(path.read_text(encoding="utf-8", errors="replace"), done.returncode), round(minutes, 1)


def data():
    """Folder of the benchmark data, which a clone elsewhere does not find; None if there is none."""
    found = os.environ.get("SKRIBBON_DATA") or records.ROOT.parent / "shared" / "data"
    return Path(found) if Path(found).exists() else None


def finished(tree):
    """Rows of the record by name, and those among them that need not run again."""
    record = records.read("runs")
    rows = {row["run"]: row for row in record["rows"]} if record else {}
    return rows, {name for name, row in rows.items() if row["tree"] == tree and not row["result"].startswith("failed")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="run", help=f"some of: {'; '.join(RUNS)}. All by default")
    parser.add_argument("--again", action="store_true", help="run even what has a good result of this code")
    parser.add_argument("--list", action="store_true", help="print what is done and what is left, and run nothing")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(RUNS):
        parser.error(f"unknown runs: {', '.join(sorted(unknown))}")
    tree = records.tree()
    if tree.endswith("-dirty"):
        sys.exit("skribbon/ has changes that are not committed: a release measures committed code.")
    rows, good = finished(tree)
    names = [name for name in arguments.names or RUNS if arguments.again or name not in good]
    for name in sorted(good):
        print(f"done: {name}: {rows[name]['result']}, {rows[name]['minutes']:g} minutes")
    for position, name in enumerate(names):
        left = sum(rows.get(other, {}).get("minutes", RUNS[other].minutes) for other in names[position:])
        print(f"{name}: {RUNS[name].command}; {len(names) - position} runs left, about {left:.0f} minutes", flush=True)
        if arguments.list:
            continue
        commit = records.git("rev-parse", "HEAD")
        result, minutes = execute(RUNS[name], name)
        facts = {"command": RUNS[name].command, "minutes": minutes, "result": result, "commit": commit, "tree": tree}
        rows[name] = {"run": name, **facts}
        print(f"{name}: {result}, {minutes:g} minutes", flush=True)
        known = [rows[known] for known in RUNS if known in rows]
        records.write("runs", known, "benchmarks/release.py", None, sum(row["minutes"] for row in known))
    return sum(row["result"].startswith("failed") for row in rows.values())


if __name__ == "__main__":
    sys.exit(min(main(), 1))
