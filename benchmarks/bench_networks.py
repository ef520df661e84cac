"""Calibration of prediction intervals for neural networks as people train them.

This protocol is fixed before the confirmation sets are run, and they are run once.

Sets
    Development, on which choices were made: boston, concrete, yacht, diabetes and the simulated set sim_a.
    Confirmation: energy, power, california, fair (affairs), randhie (log1p(mdvis)) and the simulated set sim_b. Other
    benchmarks of this package use these sets as well, so only sim_b is entirely new.
    Simulated: X ~ N(0, I_6). The mean of sim_a is sin(1.5 x0) + x1 x2 / 2 + |x3| / 2; its noise is normal with standard
    deviation 0.3 exp(0.4 x4). The mean of sim_b is tanh(2 x0 + x1) + 0.5 cos(2 x2); its noise is
    0.5 (Gamma(2) - 2) / sqrt(2).

Splits
    Train on n random rows, test on the others, at most 1,500 (simulated: 1,000 new rows per split). n is 300, 1,000 and
    3,000; boston and diabetes 300, yacht 200, energy 300 and 600, concrete 300 and 700. Five splits for n <= 1,000,
    three for 3,000. California also has one split with n = 10,000, for the network "scaled" only.
    Gap and tail: for each feature of boston, concrete, energy, power and yacht, the test rows are the middle third of
    the rows by this feature (gap), or both outer sixths (tail). Ties are broken at random.

Networks, behind a StandardScaler of X; y is standardized too, except for "raw"
    raw and scaled: MLPRegressor(max_iter=500). two layers: (100, 100) units. early: early_stopping=True.
    tanh: 50 tanh units by lbfgs, alpha=1. tanh weak: 50 tanh units by lbfgs, alpha=0.01, a minimum with many effective
    parameters. autograd: AutogradRegressor with 30 tanh units, l2=0.001. Gap and tail: relu50, 50 relu units by Adam.
    The random_state of the network is the number of the split.

Methods
    default: RibbonRegressor(network). one fit: default with held_out="loo". paper: training noise, HC0, normal
    distribution, no damping, held_out="loo". plain: the network with the normal distribution of its training residuals.
    folds: the network with constant normal noise from the residuals of 5 shuffled folds. split: split conformal by
    absolute residuals of 20% of the training rows. RibbonCV(network) and ensemble, DeepEnsembleRegressor(network), only
    for n <= 1,000 and the first two splits. Gap and tail: default and ensemble.

Measures
    Coverage at 50, 80, 90 and 95%. Width: mean width at 90% over the constant width that covers 90% of the test rows
    around the plain network. dNLL: NLL minus the NLL of folds. CRPS: ratio to the CRPS of folds. Far: coverage at 90%
    of the tenth of test rows with the largest Mahalanobis distance. Interval scores. Cost: CPU time of fit, first fit
    included, over the CPU time of the plain fit. Simulated sets: coverage of the true mean by 90% confidence intervals,
    which includes the bias of the network. Warnings, and the origin of the held-out predictions.

Criteria
    A combination is a set, a network and n; its coverage is the mean over its splits. The main criterion is the mean of
    |coverage - level| over combinations. "Chance" is its expectation for perfect intervals and independent test rows.
    Splits of small sets share rows and every fit has an error of its own, so chance is a lower bound.

Targets, for the default
    Mean |coverage - level| at most chance + 0.01 at 90% and chance + 0.02 at 50%. Every network between 0.87 and 0.93
    at 90% on average. At most 8% of combinations below 0.86 or above 0.95. Mean width at most 1.1. Mean dNLL at most
    -0.05. Median cost at most 4.5 base fits. Gap and tail: coverage at 95% at least the published coverage of an
    ensemble, or 0.95, on every set, at least 0.90 on average, and an interval score no larger than the ensemble's.
    Confidence intervals of simulated means: 0.85 to 0.95.

Usage: python benchmarks/bench_networks.py development|confirmation|splits|report [--jobs 2] [--only SUBSTRING]
       [--methods default,folds] [--results FILE]

Every cell is appended to a file of results for the present tree of skribbon/; a stopped run resumes there. "report"
prints the tables and writes them to doc/results/networks.json.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: CPU times are the times of one thread
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import records
from _data import california, uci
from calibration.candidates import LEVELS, Intervals, Plain, conformal_quantile, ribbon
from calibration.cases import UCI, linear_set
from calibration.measure import Case, farthest_tenth, scores
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonCV
from skribbon.baselines import DeepEnsembleRegressor
from skribbon.exceptions import RibbonWarning
from skribbon.metrics import mean_interval_score
from skribbon.models import AutogradRegressor
from skribbon.models.architectures import mlp

USUAL = (300, 1000, 3000)
SIZES = {  # rows for training, by set
    "development": {"boston": (300,), "concrete": (300, 700), "yacht": (200,), "diabetes": (300,), "sim_a": USUAL},
    "confirmation": {"energy": (300, 600), "california": (*USUAL, 10_000)}
    | dict.fromkeys(("power", "fair", "randhie", "sim_b"), USUAL),
}
TANH = {"hidden_layer_sizes": (50,), "activation": "tanh", "solver": "lbfgs", "max_iter": 1000}
NETWORKS = {
    "raw": MLPRegressor(max_iter=500),
    "scaled": MLPRegressor(max_iter=500),
    "two layers": MLPRegressor(hidden_layer_sizes=(100, 100), max_iter=500),
    "early": MLPRegressor(early_stopping=True, max_iter=500),
    "tanh": MLPRegressor(alpha=1.0, **TANH),
    "tanh weak": MLPRegressor(alpha=0.01, **TANH),
    "autograd": AutogradRegressor(mlp((30,)), l2=1e-3, max_iter=500),
    "relu50": MLPRegressor(hidden_layer_sizes=(50,), max_iter=500),
}
PUBLISHED = {  # 95% coverage of deep ensembles on gap and tail splits: 50 relu units, 40 epochs, mean over features
    "gap": {"boston": 0.89, "concrete": 0.87, "energy": 0.71, "power": 0.95, "yacht": 1.00},
    "tail": {"boston": 0.83, "concrete": 0.85, "energy": 0.59, "power": 0.95, "yacht": 0.93},
}


@dataclass(frozen=True)
class Task:
    """One network on one split; the split of a gap or tail is the position of its feature, and its n is 0."""

    part: str
    set: str
    kind: str  # "random", "gap" or "tail"
    network: str
    n: int
    split: int

    def __str__(self):
        return f"{self.set}, {self.kind}, {self.network}, n={self.n}, split {self.split}"

    @property
    def methods(self):
        if self.part == "splits":
            return ["default", "ensemble"]
        return [m for m in METHODS if m not in ("RibbonCV", "ensemble") or (self.n <= 1000 and self.split < 2)]


def tasks_of(part):
    """List the tasks of a part, in an order that mixes cheap and expensive tasks."""
    if part == "splits":
        features = [(name, j) for name in UCI for j in range(uci(name)[0].shape[1])]
        tasks = [Task(part, name, kind, "relu50", 0, j) for name, j in features for kind in ("gap", "tail")]
    else:
        sizes = [(name, n) for name, some in SIZES[part].items() for n in some]
        cells = [(name, n, split) for name, n in sizes for split in range(5 if n <= 1000 else 3 if n <= 3000 else 1)]
        networks = [network for network in NETWORKS if network != "relu50"]
        tasks = [Task(part, name, "random", network, n, split) for name, n, split in cells for network in networks]
        tasks = [task for task in tasks if task.n < 10_000 or task.network == "scaled"]
    return [tasks[i] for i in np.random.default_rng(0).permutation(len(tasks))]


# ---------------------------------------------------------------------- data
def simulated(name, n, split):
    """Return X, y, training rows, test rows and the true mean of the 1,000 test rows."""
    rng = np.random.default_rng([["sim_a", "sim_b"].index(name), split])
    X = rng.standard_normal((1000 + n, 6))
    if name == "sim_a":
        mean = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + np.abs(X[:, 3]) / 2
        noise = 0.3 * np.exp(0.4 * X[:, 4]) * rng.standard_normal(len(X))
    else:
        mean = np.tanh(2 * X[:, 0] + X[:, 1]) + 0.5 * np.cos(2 * X[:, 2])
        noise = 0.5 * (rng.gamma(2.0, size=len(X)) - 2) / np.sqrt(2)
    return X, mean + noise, np.arange(1000, 1000 + n), np.arange(1000), mean[:1000]


def load(name):
    """Return X and y of a real set."""
    if name == "california":
        return california()
    X, y = uci(name)[:2] if name in UCI else linear_set(name)[:2]
    return X, np.log1p(y) if name == "randhie" else y


def case_of(task):
    """Return the case of a task and the true mean of its test rows, None if unknown."""
    if task.set.startswith("sim"):
        X, y, train, test, mean = simulated(task.set, task.n, task.split)
    else:
        (X, y), mean = load(task.set), None
        rows = np.random.default_rng(task.split).permutation(len(y))
        train, test = rows[: task.n], rows[task.n :][:1500]
        if task.kind != "random":
            rows = rows[np.argsort(X[rows, task.split], kind="stable")]
            distance = np.abs((np.arange(len(y)) + 0.5) / len(y) - 0.5)  # from the median, as a share of the rows
            held_out = distance < 1 / 6 if task.kind == "gap" else distance > 1 / 3
            train, test = rows[~held_out], rows[held_out]
    return Case(task.set, task.split, base_model(task), X[train], y[train], X[test], y[test]), mean


def base_model(task):
    network = make_pipeline(StandardScaler(), clone(NETWORKS[task.network]).set_params(random_state=task.split))
    return network if task.network == "raw" else TransformedTargetRegressor(network, transformer=StandardScaler())


# ---------------------------------------------------------------------- methods, functions of a case and its plain fit
def around(plain, case, **parameters):
    """Fit a RibbonRegressor to a case around its fitted network."""
    return ribbon(replace(case, base=FrozenEstimator(plain)), **parameters)


def with_folds(case, plain):
    held_out = cross_val_predict(case.base, case.X, case.y, cv=KFold(5, shuffle=True, random_state=case.split))
    return Plain(plain, np.mean((case.y - held_out) ** 2), counts=False)


def split_conformal(case, plain):
    X, X_held, y, y_held = train_test_split(case.X, case.y, test_size=0.2, random_state=case.split)
    model = clone(case.base).fit(X, y)
    residuals = np.abs(y_held - model.predict(X_held))

    def bounds(X, level):
        mean, half = model.predict(X), conformal_quantile(residuals, level)
        return mean - half, mean + half

    return Intervals(bounds)


PAPER = {"noise": "train", "correction": "HC0", "law": "normal", "damping": 0.0, "held_out": "loo"}
METHODS = {
    "default": lambda case, plain: ribbon(case),
    "one fit": lambda case, plain: around(plain, case, held_out="loo"),
    "paper": lambda case, plain: around(plain, case, **PAPER),
    "plain": lambda case, plain: Plain(plain, np.mean((case.y - plain.predict(case.X)) ** 2), counts=False),
    "folds": with_folds,
    "split": split_conformal,
    "RibbonCV": lambda case, plain: RibbonCV(case.base).fit(case.X, case.y),
    "ensemble": lambda case, plain: DeepEnsembleRegressor(case.base, random_state=case.split).fit(case.X, case.y),
}
REUSE_PLAIN = ("one fit", "paper", "plain", "folds")  # their cost includes the plain fit, which is not repeated


# ---------------------------------------------------------------------- one cell
def run(task, methods):
    """Return one row of results per method; a failed method has a row with its error."""
    for category in (ConvergenceWarning, RibbonWarning):  # measured() records the latter
        warnings.simplefilter("ignore", category)
    case, mean = case_of(task)
    start = time.process_time()
    plain = clone(case.base).fit(case.X, case.y)
    seconds = time.process_time() - start
    oracle = 2 * np.quantile(np.abs(case.y_test - plain.predict(case.X_test)), 0.9)
    rows = []
    for method in methods:
        row = {**asdict(task), "method": method, "rows": len(case.y), "test rows": len(case.y_test)}
        row |= {"base seconds": seconds, "oracle width": oracle}
        try:
            row |= measured(method, case, plain, seconds, mean)
        except Exception as error:  # the other rows of a long run are kept
            row["error"] = f"{type(error).__name__}: {error}"
        rows.append(row)
    return rows


def measured(method, case, plain, base_seconds, mean):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        fitted = METHODS[method](case, plain)
        seconds = time.process_time() - start + base_seconds * (method in REUSE_PLAIN)
        distribution = fitted.predict_distribution(case.X_test)
        row = scores(distribution, case)
        bounds = distribution.interval([0.95])[:, :, 0]
    row["NLL"] -= np.log(case.y.std())  # in units of standardized y
    row["interval score 95"] = mean_interval_score(case.y_test, bounds, confidence_level=0.95)
    held_out = getattr(fitted, "held_out_", None)
    return row | {
        "base fits": seconds / base_seconds,
        "parameters per row": getattr(fitted, "effective_parameters_", np.nan) / len(case.y),
        "origin": getattr(held_out, "origin", None),
        "refits": getattr(held_out, "n_fits", None),
        "warnings": sorted({w.category.__name__ for w in shown if issubclass(w.category, RibbonWarning)}),
        **coverage_of_mean(fitted, case, mean),
    }


def coverage_of_mean(fitted, case, mean):
    """Coverage of the true mean by 90% confidence intervals, in all test rows and in the far tenth."""
    if mean is None or not hasattr(fitted, "predict_interval"):
        return {}
    lower, upper = fitted.predict_interval(case.X_test, 0.9, kind="confidence").T
    inside = (lower <= mean) & (mean <= upper)
    return {"mean all": inside.mean(), "mean far": inside[farthest_tenth(case.X, case.X_test)].mean()}


# ---------------------------------------------------------------------- running and storing
KEY = ["set", "kind", "network", "n", "split", "method"]


def stored(path):
    """Return the rows of results without errors; of repeated rows the last."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({tuple(row[k] for k in KEY): row for row in rows if "error" not in row}.values())


def run_all(options):
    done = {tuple(row[k] for k in KEY) for row in stored(options.results)}
    queue = []
    for task in tasks_of(options.what):
        keys = {m: tuple({**asdict(task), "method": m}[k] for k in KEY) for m in task.methods}
        methods = [m for m in keys if keys[m] not in done and m in (options.methods or METHODS)]
        if methods and options.only in str(task):
            queue.append((task, methods))
    options.results.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    parallel = Parallel(options.jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
    for number, rows in enumerate(parallel(delayed(run)(*item) for item in queue), start=1):
        with options.results.open("a") as file:
            file.writelines(json.dumps(row, default=float) + "\n" for row in rows)
        elapsed = time.perf_counter() - start
        left = elapsed / number * (len(queue) - number) / 60
        task = Task(**{k: rows[0][k] for k in Task.__dataclass_fields__})
        failed = [f"{row['method']}: {row['error']}" for row in rows if "error" in row]
        print(f"{number}/{len(queue)}  {elapsed:.0f} s, {left:.0f} min left  {task}", *failed, sep="  ", flush=True)


# ---------------------------------------------------------------------- report
def markdown(frame):
    def text(value):
        return str(value) if not isinstance(value, float) else "" if np.isnan(value) else f"{value:.3f}"

    lines = [frame.columns, ["---"] * frame.shape[1], *frame.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(text, line))} |" for line in lines)


def with_references(rows):
    """Add the width over the oracle width, and scores relative to folds in the same cell."""
    frame = pd.DataFrame(rows)
    folds = frame[frame["method"] == "folds"].set_index(KEY[:-1])[["NLL", "CRPS", "interval score"]]
    frame = frame.join(folds.add_prefix("folds "), on=KEY[:-1])
    frame["width"] /= frame["oracle width"]
    frame["dNLL"] = frame["NLL"] - frame["folds NLL"]
    for name in ("CRPS", "interval score"):
        frame[f"{name} ratio"] = frame[name] / frame[f"folds {name}"]
    return frame


def chance(part, level):
    """Expected |coverage - level| of perfect intervals, averaged over combinations, by a normal approximation."""
    variances = (level * (1 - level) / part["test rows"]).groupby([part[k] for k in KEY[:4]])
    deviations = np.sqrt(variances.sum()) / variances.size()
    return np.sqrt(2 / np.pi) * deviations.mean()


def summary(part):
    """Return one line of the tables of calibration."""
    covers = [f"cover {100 * level:.0f}" for level in LEVELS]
    combined = part.groupby(KEY[:4])[covers].mean()
    cover = combined["cover 90"]
    line = {"combinations": len(combined), "cells": len(part)} | dict(combined.mean())
    for level in (0.9, 0.5):
        name = f"{100 * level:.0f}"
        line[f"error {name}"] = (combined[f"cover {name}"] - level).abs().mean()
        line[f"chance {name}"] = chance(part, level)
    line |= {"< 0.86": (cover < 0.86).mean(), "> 0.95": (cover > 0.95).mean()}
    line |= {name: part[name].mean() for name in ("far", "width", "dNLL", "CRPS ratio", "interval score ratio")}
    line |= {f"median {name}": part[name].median() for name in ("dNLL", "base fits")}
    origins = part["origin"].dropna().value_counts() / len(part)
    return line | {"held-out predictions": ", ".join(f"{name} {share:.2f}" for name, share in origins.items())}


def by(frame, column):
    groups = {name: frame[frame[column] == name] for name in (METHODS if column == "method" else NETWORKS)}
    return pd.DataFrame([{column: name, **summary(part)} for name, part in groups.items() if len(part)])


def by_method(frame, values, index):
    """Average values over the other keys, with a column for each value and method."""
    table = frame.dropna(subset=values).pivot_table(values, index, "method", aggfunc="mean")
    return table.set_axis([f"{what}, {method}" for what, method in table.columns], axis=1)


def splits_table(frame):
    table = by_method(frame, ["cover 95", "interval score 95"], ["set", "kind"])
    table.insert(0, "published ensemble", [PUBLISHED[kind][name] for name, kind in table.index])
    table.insert(0, "features", frame.groupby(["set", "kind"])["split"].nunique())
    return table.reset_index()


def warnings_table(frame):
    """Return the share of cells that show each warning, by the coverage at 90% of the cell."""
    cover, names = frame["cover 90"], sorted({name for shown in frame["warnings"] for name in shown})
    groups = {"0.86 to 0.95": cover.between(0.86, 0.95), "< 0.86": cover < 0.86, "> 0.95": cover > 0.95}
    lines = []
    for name in [*names, "any"]:
        shown = frame["warnings"].map(lambda shown, name=name: name in shown or (name == "any" and len(shown) > 0))
        shares = {f"{group} ({rows.sum()} cells)": shown[rows].mean() for group, rows in groups.items()}
        lines.append({"warning": name, **shares})
    return pd.DataFrame(lines)


def report(options):
    frame, blocks = with_references(stored(options.results)), {}
    for part in SIZES:
        own = frame[frame["part"] == part]
        default = own[own["method"] == "default"]
        if len(own):
            blocks[f"{part}: methods"] = by(own, "method")
        if len(default):
            blocks[f"{part}: default by network"] = by(default, "network")
            blocks[f"{part}: warnings of the default"] = warnings_table(default)
        if "mean all" in own and own["mean all"].notna().any():
            table = by_method(own, ["mean all", "mean far"], ["set", "network", "n"])
            blocks[f"{part}: coverage of the true mean by 90% confidence intervals"] = table.reset_index()
    splits = frame[frame["part"] == "splits"]
    if len(splits):
        blocks["gap and tail splits"] = splits_table(splits)
    print("\n\n".join(f"## {title}\n\n{markdown(table)}" for title, table in blocks.items()))
    rows = {title: table.to_dict("records") for title, table in blocks.items() if "warnings" not in title}
    minutes = frame.drop_duplicates(KEY[:-1])["base seconds"].sum() / 60
    records.write("networks", rows, "benchmarks/bench_networks.py", {"minutes": "of base fits alone"}, minutes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=[*SIZES, "splits", "report"])
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--only", default="", help="part of the printed name of a cell, e.g. 'yacht, random, scaled'")
    parser.add_argument("--methods", type=lambda names: names.split(","), help=f"by commas, of {', '.join(METHODS)}")
    parser.add_argument("--results", type=Path, default=records.cells_file("networks"), help="file of the results")
    options = parser.parse_args()
    report(options) if options.what == "report" else run_all(options)


if __name__ == "__main__":
    main()
