"""Records of benchmarks: small JSON files in doc/results, from which ``make results`` makes the results page.

A record carries the hash of the tree of skribbon/ that it was measured on. A benchmark with a record of the present
tree is skipped, unless it is run with ``--again``.
"""

import json
import platform
import subprocess
import time
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "doc" / "results"
PACKAGES = ("skribbon", "scikit-learn", "numpy", "scipy", "statsmodels", "mapie", "laplace-torch", "torch")
STARTED = time.perf_counter()


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def tree():
    """Hash of the tree of skribbon/, with "-dirty" if it has changes that are not committed."""
    changes = git("status", "--porcelain", "--", "skribbon")
    return git("rev-parse", "HEAD:skribbon") + ("-dirty" if changes else "")


def versions():
    """Versions of Python and of the installed packages that benchmarks use."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write(name, rows, protocol, settings=None, minutes=None):
    """Write doc/results/<name>.json; ``protocol`` is the file whose docstring has the protocol.

    ``minutes`` are those of the process so far, unless they are given, as for runs in several sittings.
    """
    minutes = (time.perf_counter() - STARTED) / 60 if minutes is None else minutes
    record = {
        "name": name,
        "protocol": protocol,
        "tree": tree(),
        "date": date.today().isoformat(),
        "minutes": round(minutes, 1),
        "versions": versions(),
        "settings": rounded(settings or {}),
        "rows": rounded(rows),
    }
    save(record)
    print(f"Written: doc/results/{name}.json", flush=True)


def save(record):
    """Write a record with one line for each entry and for each row."""
    FOLDER.mkdir(exist_ok=True)
    record = {**record, "rows": list(record["rows"].items()) if isinstance(record["rows"], dict) else record["rows"]}
    heads = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items() if key != "rows"]
    rows = ",\n  ".join(json.dumps(row) for row in record["rows"])
    text = "{\n " + ",\n ".join([*heads, f'"rows": [\n  {rows}\n ]']) + "\n}\n"
    (FOLDER / f"{record['name']}.json").write_text(text, encoding="utf-8")


def read(name):
    """Return the record, or None."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def is_current(name):
    """Whether there is a record of the present tree of skribbon/."""
    record = read(name)
    return record is not None and record["tree"] == tree()


def skip(name, again=False):
    """Whether to skip a benchmark, which is then printed."""
    current = is_current(name) and not again
    if current:
        print(f"doc/results/{name}.json is of this tree of skribbon/: skipped. Use --again to measure again.")
    return current


def cells_file(name):
    """File of the cells of a long run, kept apart for each tree of skribbon/, so that a stopped run resumes there."""
    return ROOT / "benchmarks" / "results" / f"{name}-{tree()[:10]}.jsonl"


def rounded(value, digits=5):
    """Return JSON's kinds of values, with so many significant digits; NaN is null."""
    if isinstance(value, dict):
        return {str(key): rounded(item, digits) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    if isinstance(value, float):
        return None if value != value else float(f"{value:.{digits}g}")
    return value
