"""Peak memory of Ribbon's own part of fit, beyond X and y, in a process of its own: prints one JSON object.

Usage: python benchmarks/_peak_memory.py N_ROWS
"""

import ctypes
import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skribbon import RibbonRegressor

MB = 2**20


def status(field):
    """A field of /proc/self/status in MB."""
    line = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(field))
    return int(line.split()[1]) / 1024


def resident_growth(function):
    """Peak resident memory during ``function`` above that at its start, in MB; None where Linux's /proc is missing."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark, which the base fit has raised
    except OSError:
        return None
    ctypes.CDLL(None).malloc_trim(0)  # free pages that malloc still holds would hide what the function takes
    before = status("VmRSS")
    function()
    return status("VmHWM") - before


def traced_growth(function):
    """Peak of what Python and numpy allocate during ``function``, in MB."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / MB


def main(n, d=50):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    frozen = FrozenEstimator(LinearRegression().fit(X, y))

    def own_part():
        RibbonRegressor(frozen).fit(X, y)

    resident = resident_growth(own_part)
    print(json.dumps({"n": n, "resident": resident, "traced": traced_growth(own_part)}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
