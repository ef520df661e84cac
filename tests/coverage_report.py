"""Summary of ``make coverage``: lines and branches that no test reaches, and whether the thresholds are met."""

import json
import sys
import tempfile
from pathlib import Path

from coverage import Coverage

REQUIRED = 95.0  # per cent, of lines and of branches alike


def shares(totals):
    """Per cent of lines and of branches that were run."""
    return {
        "lines": 100 * totals["covered_lines"] / totals["num_statements"],
        "branches": 100 * totals["covered_branches"] / totals["num_branches"],
    }


def main():
    coverage = Coverage()
    coverage.load()
    coverage.report(show_missing=True, skip_covered=True, ignore_errors=True)  # tests compile code without a file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        coverage.json_report(outfile=str(path), ignore_errors=True)
        covered = shares(json.loads(path.read_text())["totals"])
    print(", ".join(f"{share:.1f} % of {what}" for what, share in covered.items()) + f"; required: {REQUIRED:g} %")
    return int(min(covered.values()) < REQUIRED)


if __name__ == "__main__":
    sys.exit(main())
