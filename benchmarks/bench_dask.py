"""Rows on Dask: what a pass costs beside the bare products, against scikit-learn in memory, and on two processes.

Usage: python benchmarks/bench_dask.py [--only abcd] [--repeats 2] [--rows 10000000]

Partitions are made when they are needed, never
stored. Needs the extra "dask"; dask-ml is compared where it is installed.
"""

import resource
import sys
import time
import warnings
from functools import partial

import numpy as np
from _harness import Line, best_of, measure, parser

try:
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster
except ImportError:
    sys.exit("benchmarks/bench_dask.py needs Dask: pip install '.[dask]'")

from sklearn.linear_model import LinearRegression, LogisticRegression

from skribbon import RibbonClassifier, RibbonRegressor

PART = 500_000  # rows of a partition
COUNTED = []  # one entry for every partition that was made


def made(p, k, rows=PART):
    """Features of the k-th partition."""
    return np.random.default_rng([p, k]).standard_normal((rows, p))


def counted(p, block_id=None):
    COUNTED.append(block_id)
    return made(p, block_id[0])


def lazy_rows(n, p, make=counted):
    parts = max(1, n // PART)
    chunks = ((PART,) * parts, (p,))
    return da.map_blocks(partial(make, p), chunks=chunks, dtype=float, meta=np.empty((0, p)))


def targets(X, p, seed=1):
    beta = np.random.default_rng(seed).standard_normal(p) / np.sqrt(p)
    return X.map_blocks(partial(noisy, beta), drop_axis=1, dtype=float, meta=np.empty(0))


def noisy(beta, X, block_id=None):
    return X @ beta + np.random.default_rng([7, block_id[0]]).standard_normal(len(X))


def seconds(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def bare_pass(X, y):
    """X made and multiplied once, in as many threads."""
    parts = (list(column.to_delayed(optimize_graph=False).ravel()) for column in (X, y))  # so that X is made once
    return dask.compute([dask.delayed(product)(*pair) for pair in zip(*parts, strict=True)])[0]


def product(X, y):
    return X.T @ X, X.T @ y


def peak_mb(_=None):
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def now_mb():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def out_of_core(repeats, clock):
    """(a) Least squares on a table that is never in memory, in threads: every pass makes all rows again."""
    n, p = ROWS, 10
    X = lazy_rows(n, p)
    y = targets(X, p)
    _, bare = seconds(lambda: bare_pass(X, y))
    COUNTED.clear()
    ribbon = RibbonRegressor(LinearRegression(), noise="dof")
    with dask.config.set(scheduler="threads"), unkept():
        _, whole = seconds(lambda: ribbon.fit(X, y))
    passes = len(COUNTED) / X.npartitions
    unit = "bare passes"
    yield Line("a", f"n = {n:,}, {p} features: one bare pass", 1.0, unit, seconds=bare)
    yield Line("a", "the fit, for each of its passes", whole / passes / bare, unit, 3.0, whole / passes)
    yield Line("a", "its passes", passes, "passes")


def unkept():
    """No partition is kept between passes, as where memory is short."""
    from unittest.mock import patch

    return patch("skribbon._dask.rows.memory_to_keep", return_value=0)


def on_processes(repeats, clock):
    """(b) The same table on a cluster of two processes: what the client and the workers hold at their peak."""
    n, p = ROWS, 10
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
        unkept(),
    ):
        X = lazy_rows(n, p, quiet)
        y = targets(X, p)
        client.run(now_mb)
        before = now_mb()
        _, whole = seconds(lambda: RibbonRegressor(LinearRegression(), noise="dof").fit(X, y))
        yield Line("b", f"n = {n:,}: peak of the client", max(peak_mb() - before, 0.0), "MB beyond start", 300.0, whole)
        yield Line("b", "peak of a worker", max(client.run(peak_mb).values()), "MB in all", 1000.0)


def quiet(p, block_id=None):
    return made(p, block_id[0])


def logistic(repeats, clock):
    """(c) Logistic regression, n = 10^6, 30 features, in threads against scikit-learn in memory."""
    n, p = 1_000_000, 30
    X = np.random.default_rng(0).standard_normal((n, p))
    y = (X @ np.linspace(-1, 1, p) / 3 + np.random.default_rng(1).logistic(size=n) > 0).astype(int)
    lazy = da.from_array(X, chunks=(125_000, p)), da.from_array(y, chunks=125_000)
    base = LogisticRegression(solver="newton-cholesky")
    with dask.config.set(scheduler="threads"):
        s = best_of(
            repeats,
            "wall",
            base=lambda: base.fit(X, y),
            ribbon=lambda: RibbonClassifier(base).fit(*lazy),
            memory=lambda: RibbonClassifier(base).fit(X, y),
        )
        ours = RibbonClassifier(base).fit(*lazy)
    unit = "LogisticRegression.fit"
    yield Line("c", "n = 10^6, 30 features: base in memory (newton-cholesky)", 1.0, unit, seconds=s["base"])
    yield Line(
        "c", "RibbonClassifier on Dask threads, base fit included", s["ribbon"] / s["base"], unit, 1.5, s["ribbon"]
    )
    yield Line("c", "RibbonClassifier in memory", s["memory"] / s["base"], unit, seconds=s["memory"])
    yield Line("c", "distance of the coefficients", np.abs(ours.estimator_.coef_ - base.fit(X, y).coef_).max(), "")
    yield from _against_dask_ml(lazy, ours, s["ribbon"])


def _against_dask_ml(lazy, ours, own):
    try:
        from dask_ml.linear_model import LogisticRegression as PeerRegression
    except ImportError:
        print("dask-ml is not installed: its line is left out.")
        return
    peer = PeerRegression(solver="newton", C=1.0, max_iter=20)
    _, elapsed = seconds(lambda: peer.fit(*lazy))
    off = np.abs(np.ravel(peer.coef_) - np.ravel(ours.estimator_.coef_)).max()
    yield Line(
        "c",
        "dask-ml LogisticRegression (newton), no standard errors",
        elapsed / own,
        "RibbonClassifier",
        seconds=elapsed,
    )
    yield Line("c", "distance of its coefficients from ours", off, "")


def workers(repeats, clock):
    """(d) Two processes over one, where arithmetic is what costs: 200 features."""
    n, p = 1_000_000, 200
    elapsed = {}
    for count in (1, 2):
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            Client(cluster),
            unkept(),
        ):
            chunks, meta = ((100_000,) * (n // 100_000), (p,)), np.empty((0, p))
            X = da.map_blocks(partial(small, p), chunks=chunks, dtype=float, meta=meta)
            y = targets(X, p)
            _, elapsed[count] = seconds(lambda X=X, y=y: RibbonRegressor(LinearRegression(), noise="dof").fit(X, y))
    yield Line("d", f"n = {n:,}, {p} features: one process", 1.0, "one process", seconds=elapsed[1])
    yield Line("d", "two processes", elapsed[2] / elapsed[1], "one process", 1 / 1.6, elapsed[2])


def small(p, block_id=None):
    return made(p, block_id[0], 100_000)


CASES = {"a": out_of_core, "b": on_processes, "c": logistic, "d": workers}


if __name__ == "__main__":
    options = parser(__doc__.splitlines()[0], CASES, repeats=2)
    options.add_argument("--rows", type=int, default=10_000_000)
    arguments = options.parse_args()
    ROWS = arguments.rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measure("dask", CASES, arguments)
