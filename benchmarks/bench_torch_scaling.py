"""How fits and predictions of torch modules grow with parameters and rows, beside laplace-torch, in one run.

Usage: python benchmarks/bench_torch_scaling.py [--only pn] [--clock wall]

``make torch SCALING=1`` runs this after its other parts, with one thread. Modules with two hidden layers of ReLU units
on 20 features are trained by Adam for two epochs. Every fit gets the same trained module, in a process of its own. CPU
seconds are of a post-hoc fit and of predictions for 200 rows; peak memory of both is beyond the module and the rows. A
fit of 100 rows comes first, so that imports do not count. Each curvature is compared with laplace-torch's nearest
structure. laplace-torch has none for matrix-free curvature if its full one, a p x p array, is too large.
"""

import argparse
import tempfile
import warnings
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import records
import torch
from _harness import CLOCKS, setting
from _peak_memory import resident_growth
from bench_peers import blas_threads
from bench_torch import PLAIN, SEED, batches, posterior
from torch import nn

from skribbon import RibbonRegressor
from skribbon.models.torch import TorchRegressor

FEATURES, NEW, WARM_UP = 20, 200, 100
WIDTHS = {"1,000": 22, "10,000": 89, "100,000": 305}  # of both hidden layers, for about so many parameters
# Our curvature and laplace-torch's nearest structure.
PAIRS = {"ggn": "full", "kfac": "kron", "last_layer": "last layer", "matrix_free": "full"}
# The widest modules of methods that would take more than about two minutes beyond.
WIDEST = {"ggn": 22, "laplace full": 22, "matrix_free": 89}
# Widths and rows of each part.
PARTS = {
    "p": [(width, 10_000) for width in WIDTHS.values()],
    "n": [(22, n) for n in (1000, 10_000, 100_000)],
}


def network(width):
    layers = nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    return nn.Sequential(*layers).double()


def table(n):
    """Rows and new rows of a smooth function with constant noise."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n + NEW, FEATURES))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(len(X))
    return X[:n], y[:n], X[n:]


def train(width, n, path):
    """Train by Adam for two epochs, and keep the parameters in a file."""
    X, y, _ = table(n)
    torch.manual_seed(SEED)
    module = network(width)
    optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
    for _ in range(2):
        for inputs, targets in batches(X, y):
            optimizer.zero_grad()
            nn.functional.mse_loss(module(inputs), targets).backward()
            optimizer.step()
    torch.save(module.state_dict(), path)


def one(width, n, method, clock, path):
    """Seconds and MB of a fit and of predictions."""
    now, module, (X, y, X_new) = CLOCKS[clock], network(width), table(n)
    module.load_state_dict(torch.load(path))
    kept, new = TorchRegressor(module, weight_decay=1e-2, fitted=True), torch.from_numpy(X_new)

    def fit(n=n):
        if method.startswith("laplace"):
            return posterior(module, method.removeprefix("laplace "), batches(X[:n], y[:n]))
        return RibbonRegressor(kept, curvature=method, random_state=SEED, **PLAIN).fit(X[:n], y[:n])

    def predict(fitted):
        return fitted(new) if method.startswith("laplace") else fitted.predict_interval(X_new)

    predict(fit(WARM_UP))
    found = {"p": sum(leaf.numel() for leaf in module.parameters())}
    kept_fit = []
    for name, function in {"fit": lambda: kept_fit.append(fit()), "predict": lambda: predict(kept_fit[0])}.items():
        start = now()
        found[f"{name} MB"] = resident_growth(function)
        found[f"{name} seconds"] = now() - start
    return found


def child(function, *arguments):
    """What a function returns in a process of its own."""
    with get_context("fork").Pool(1) as pool:
        return pool.apply(function, arguments)


def measure(parts, clock):
    """Rows of the record, each a curvature on a module and a number of rows, with laplace-torch's figures beside it."""
    done, rows = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            for width, n in PARTS[part]:
                path = Path(folder) / f"{width}-{n}.pt"
                child(train, width, n, path)
                for method, structure in PAIRS.items():
                    for name in (method, f"laplace {structure}"):
                        if (width, n, name) not in done and width <= WIDEST.get(name, width):
                            done[width, n, name] = child(one, width, n, name, clock, path)
                    if (width, n, method) in done:
                        ours, peer = done[width, n, method], done.get((width, n, f"laplace {structure}"))
                        names = {"part": part, "n": n, "curvature": method, "structure": structure}
                        rows.append({**names, **ours, "peer": peer})
                        show(rows[-1])
    return rows


def show(row):
    """Print one row of the table."""
    ours, peer = row, row["peer"]
    ratios = (
        ""
        if peer is None
        else "   ratios: "
        + ", ".join(f"{key.split()[0]} {ours[key] / peer[key]:.2g}" for key in ("fit seconds", "predict seconds"))
    )
    against = "" if peer is None else f" ({peer['fit seconds']:.2f} s, {peer['fit MB']:.0f} MB)"
    print(
        f"{row['part']}  p = {row['p']:>7,}  n = {row['n']:>7,}  {row['curvature']:<12}"
        f"fit {ours['fit seconds']:.2f} s, {ours['fit MB']:.0f} MB; predict {ours['predict seconds']:.3f} s, "
        f"{ours['predict MB']:.0f} MB{ratios}   laplace-torch, {row['structure']}{against}",
        flush=True,
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="pn", help="p: more parameters; n: more rows")
    options.add_argument("--clock", choices=CLOCKS, default="cpu", help="what is measured")
    options.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    arguments = options.parse_args()
    complete = set(arguments.only) == set(PARTS)
    if complete and records.skip("torch_scaling", arguments.again):
        return
    rows = measure(arguments.only, arguments.clock)
    if complete:
        settings = {**setting(), "clock": arguments.clock}
        records.write("torch_scaling", rows, "benchmarks/bench_torch_scaling.py", settings)


if __name__ == "__main__":
    torch.set_num_threads(blas_threads())
    warnings.simplefilter("ignore")
    main()
