"""Class probabilities: is a Ribbon ever worse than the model that it wraps, and how does it compare with calibrators?

This protocol is fixed before the confirmation sets are run, and they are run once.

Sets
    Development, on which choices were made with seeds 0 to 2: breast cancer, wine, german credit, and boston (2),
    concrete (3), yacht (3), energy (4), diabetes (2), cut into so many classes at quantiles of the target. The table
    uses these sets with seeds 100 to 102. Confirmation, seeds 100 to 102: adult, bank marketing, digits, iris,
    california (3), power (4). Earlier versions of this benchmark used adult, bank marketing and digits.

Splits
    Train on n random rows, with classes in proportion, n = 100, 300, 1,000 and 5,000 up to three quarters of the set;
    test on at most 3,000 of the others. Numbers are standardized, categories one-hot.

Models
    LogisticRegression with C = 0.01, 1 and 1e4, SGDClassifier(loss="log_loss") for two classes, MLPClassifier() and
    MLPClassifier(early_stopping=True). The random_state is the seed.

Methods
    plain: the model. default: RibbonClassifier(model). cv: RibbonCV(model), for networks only up to n = 300. Five
    stratified folds are fitted once for all others: "temperature" scales the model by one temperature from pooled
    held-out logits (ensemble=False), "temperature ensemble", "sigmoid" and "isotonic" calibrate the fit of each fold on
    its held-out rows by CalibratedClassifierCV and average (ensemble=True), "members" averages the fits of the folds.

Measures
    Test log loss, Brier score, expected calibration error of the winning class, mean over classes of the calibration
    error of each class. Loss: log loss less the plain model's. A cell is worse (better) if its loss is above (below)
    zero by two standard errors over the test rows. Cost: CPU time of fit over the plain model's.

Targets, for the default
    Worse in at most 2% of linear cells and 3% of networks. Largest loss at most 0.03 for n < 1,000 and 0.01 from there
    on. Mean log loss below temperature scaling's.

Intervals, by simulation
    X ~ N(0, I_6); log-odds 1.5 (sin(1.5 x0) + x1 x2 / 2 + 0.7 x3) for networks, and 1.2 (x0 + x1 + x2) for logistic
    regressions; n = 100 (logistic), 300 and 1,000. Coverage at 400 points, by 90% intervals, of the average probability
    that the model predicts over 100 (networks: 30) samples, and of the true probability. The default, and temperature=1
    (networks: without refits). Target: 0.85 to 0.95 of the average fit for networks.

Usage: python benchmarks/bench_classifiers.py development|new-splits|confirmation|intervals|report [--jobs 2]
       [--again]

Every cell is appended to a file of results for the present tree of skribbon/; a stopped run resumes there. A finished
stage writes doc/results/classifiers_STAGE.json, and is skipped as long as that record is of the present tree.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: CPU times are the times of one thread
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import records
from _data import adult, bank_marketing, california, german_credit, uci
from joblib import Parallel, delayed
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonCV
from skribbon.metrics import expected_calibration_error


def cut(load, bins):
    """Features, and the target cut into classes at its quantiles."""
    X, y = load()[:2]
    return pd.DataFrame(X), np.digitize(y, np.quantile(y, np.arange(1, bins) / bins))


DEVELOPMENT = {
    "breast cancer": partial(load_breast_cancer, return_X_y=True, as_frame=True),
    "wine": partial(load_wine, return_X_y=True, as_frame=True),
    "german credit": german_credit,
    "boston": partial(cut, partial(uci, "boston"), 2),
    "concrete": partial(cut, partial(uci, "concrete"), 3),
    "yacht": partial(cut, partial(uci, "yacht"), 3),
    "energy": partial(cut, partial(uci, "energy"), 4),
    "diabetes": partial(cut, partial(load_diabetes, return_X_y=True), 2),
}
CONFIRMATION = {
    "adult": lambda: adult()[0],
    "bank marketing": bank_marketing,
    "digits": partial(load_digits, return_X_y=True, as_frame=True),
    "iris": partial(load_iris, return_X_y=True, as_frame=True),
    "california": partial(cut, california, 3),
    "power": partial(cut, partial(uci, "power"), 4),
}
STAGES = {
    "development": (DEVELOPMENT, (0, 1, 2)),
    "new-splits": (DEVELOPMENT, (100, 101, 102)),
    "confirmation": (CONFIRMATION, (100, 101, 102)),
}
MODELS = {
    "logistic C=0.01": LogisticRegression(C=0.01, max_iter=3000),
    "logistic C=1": LogisticRegression(max_iter=3000),
    "logistic C=1e4": LogisticRegression(C=1e4, max_iter=3000),
    "SGD": SGDClassifier(loss="log_loss"),
    "MLP": MLPClassifier(),
    "MLP early": MLPClassifier(early_stopping=True),
}
SIZES = (100, 300, 1000, 5000)
KEYS = ("data", "n", "model", "seed")


def table(data):
    """Features and positions of the classes."""
    X, y = (DEVELOPMENT | CONFIRMATION)[data]()
    return X, np.unique(y, return_inverse=True)[1]


def pipeline(model, seed):
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False, min_frequency=0.02)
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, clone(MODELS[model]).set_params(random_state=seed))


# ---------------------------------------------------------------------- calibrators that share the fits of five folds
def log_proba(model, X):
    return np.log(np.maximum(model.predict_proba(X), np.finfo(float).tiny))


def temperature(plain, folds, X_test):
    """Probabilities of the model over one temperature, which maximizes the likelihood of held-out rows."""
    logits, y = np.concatenate([log_proba(fit, X) for fit, X, _ in folds]), np.concatenate([y for _, _, y in folds])

    def loss(t):
        return -np.mean(np.log(np.maximum(softmax(logits / np.exp(t), axis=1)[np.arange(len(y)), y], 1e-300)))

    return softmax(log_proba(plain, X_test) / np.exp(minimize_scalar(loss, bounds=(-3, 6)).x), axis=1)


def calibrated(folds, method, X_test):
    """Mean over the folds of their fits, each calibrated on its held-out rows."""
    fits = (CalibratedClassifierCV(FrozenEstimator(fit), method=method, cv=2).fit(X, y) for fit, X, y in folds)
    return np.mean([fit.predict_proba(X_test) for fit in fits], axis=0)


# ---------------------------------------------------------------------- cells
def probabilities(model, n, X, y, X_test, seed):
    """Test probabilities and CPU seconds of every method."""
    start = time.process_time()
    plain = pipeline(model, seed).fit(X, y)
    base_seconds = time.process_time() - start
    yield "plain", plain.predict_proba(X_test), base_seconds, None
    methods = {"default": RibbonClassifier(pipeline(model, seed)), "cv": RibbonCV(pipeline(model, seed))}
    if model.startswith("MLP") and n > 300:
        del methods["cv"]
    for name, method in methods.items():
        start = time.process_time()
        method.fit(X, y)
        yield name, method.predict_proba(X_test), time.process_time() - start, getattr(method, "estimator_", method)
    start, folds = time.process_time(), []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        folds.append((pipeline(model, seed).fit(X.iloc[train], y[train]), X.iloc[test], y[test]))
    seconds = time.process_time() - start
    yield "temperature", temperature(plain, folds, X_test), seconds + base_seconds, None
    for name, method in {"temperature ensemble": "temperature", "sigmoid": "sigmoid", "isotonic": "isotonic"}.items():
        yield name, calibrated(folds, method, X_test), seconds, None
    yield "members", np.mean([fit.predict_proba(X_test) for fit, _, _ in folds], axis=0), seconds, None


def cell(data, n, model, seed):
    """Lines of one cell, one for each method."""
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    X, y = table(data)
    X, X_test, y, y_test = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
    X_test, y_test = X_test[:3000], y_test[:3000]
    lines, hit, reference, base_seconds = [], np.eye(y.max() + 1)[y_test], 0.0, 1.0
    for name, P, seconds, ribbon in probabilities(model, n, X, y, X_test, seed):
        loss = -np.log(np.maximum(P[np.arange(len(y_test)), y_test], np.finfo(float).tiny))
        if name == "plain":
            reference, base_seconds = loss, seconds
        scaling = getattr(ribbon, "scaling_", None)
        lines.append(
            {
                **{"data": data, "n": n, "model": model, "seed": seed, "method": name},
                **{"classes": int(y.max() + 1), "nll": loss.mean(), "brier": ((P - hit) ** 2).sum(axis=1).mean()},
                "ece": expected_calibration_error(y_test, P),
                "classwise": np.mean([class_error(P[:, c], hit[:, c]) for c in range(hit.shape[1])]),
                "loss": (loss - reference).mean(),
                "error": (loss - reference).std() / np.sqrt(len(loss)),
                "cost": seconds / base_seconds,
                "temperature": None if scaling is None else scaling.temperature,
                "averaged": None if scaling is None else scaling.averaged,
            }
        )
    wall = time.perf_counter() - begin
    return [{**line, "wall": wall} for line in lines]


def class_error(p, hit):
    """Calibration error of one class, in 15 bins of equal width."""
    bins = np.minimum((15 * p).astype(int), 14)
    return np.abs(np.bincount(bins, p - hit, minlength=15)).sum() / len(p)


def cells(stage):
    sets, seeds = STAGES[stage]
    for n in SIZES:
        for data in sets:
            X, y = table(data)
            for model in MODELS if n <= 0.75 * len(X) else ():
                if model != "SGD" or y.max() == 1:
                    yield from ((data, n, model, seed) for seed in seeds)


def run(stage, jobs, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    sets = STAGES[stage]
    done = {tuple(line[key] for key in KEYS) for line in lines}
    todo = [own for own in cells(stage) if own not in done]
    start = time.perf_counter()
    found = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(cell)(*own) for own in todo)
    for k, own in enumerate(found, start=1):
        with path.open("a") as file:
            file.writelines(json.dumps(line, default=float) + "\n" for line in own)
        left = (time.perf_counter() - start) / k * (len(todo) - k) / 60
        first = own[0]
        print(f"{k}/{len(todo)} {first['data']} {first['n']} {first['model']}, {left:.0f} minutes left", flush=True)
        lines += own
    lines = pd.DataFrame(lines)
    lines = lines[lines["data"].isin(list(sets[0])) & lines["seed"].isin(sets[1])]
    kind = np.where(lines["model"].str.startswith("MLP"), "networks", "linear")
    rows = [
        {"kind": name, "method": method, **row}
        for name, part in lines.groupby(kind)
        for method, row in summary(part).iterrows()
    ]
    minutes = lines["wall"].groupby([lines[key] for key in KEYS]).first().sum() / 60 / jobs
    records.write(f"classifiers_{stage.replace('-', '_')}", rows, "benchmarks/bench_classifiers.py", None, minutes)


# ---------------------------------------------------------------------- intervals
def simulated(n, seed, network):
    """Features, true probabilities and classes of n rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    curved = 1.5 * (np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.7 * X[:, 3])
    p = 1 / (1 + np.exp(-(curved if network else 1.2 * X[:, :3].sum(axis=1))))
    return X, p, (rng.random(n) < p).astype(int)


def interval_cell(model, n):
    """Coverage of the average fit and of the true probability, by the default and by temperature=1."""
    warnings.simplefilter("ignore")
    network, lines = model.startswith("MLP"), []
    X_test, truth, _ = simulated(400, 10**6, network)
    samples = [simulated(n, seed, network) for seed in range(30 if network else 100)]
    bases = [clone(MODELS[model]).set_params(random_state=seed) for seed in range(len(samples))]
    average = np.mean(
        [base.fit(X, y).predict_proba(X_test)[:, 1] for base, (X, _, y) in zip(bases, samples, strict=True)], axis=0
    )
    for name, options in {"default": {}, "temperature=1": {"temperature": 1.0}}.items():
        few = list(zip(bases, samples, strict=True))[: 8 if network else 100]
        ribbons = [RibbonClassifier(clone(base), **options).fit(X, y) for base, (X, _, y) in few]
        bounds = [ribbon.predict_proba_interval(X_test)[:, 1] for ribbon in ribbons]
        own = np.mean([ribbon.predict_proba(X_test)[:, 1] for ribbon in ribbons], axis=0)
        covered = {
            what: np.mean([(b[:, 0] <= p) & (p <= b[:, 1]) for b in bounds])
            for what, p in {"average fit": average, "average prediction": own, "true": truth}.items()
        }
        temperatures = np.median([ribbon.temperature_ for ribbon in ribbons])
        lines.append({"model": model, "n": n, "method": name, **covered, "temperature": temperatures})
    return lines


def intervals(jobs):
    todo = [(model, n) for model in MODELS if model != "SGD" for n in (100, 300, 1000)]
    todo = [(model, n) for model, n in todo if n > 100 or not model.startswith("MLP")]
    lines = Parallel(n_jobs=jobs)(delayed(interval_cell)(*own) for own in todo)
    lines = [line for own in lines for line in own]
    print(pd.DataFrame(lines).round(3).to_string())
    records.write("classifiers_intervals", lines, "benchmarks/bench_classifiers.py")


# ---------------------------------------------------------------------- report
def summary(lines):
    """One row per method."""
    worse, better = lines["loss"] > 2 * lines["error"], lines["loss"] < -2 * lines["error"]
    lines = lines.assign(worse=worse & (lines["method"] != "plain"), better=better)
    lines = lines.assign(small=lines["loss"].where(lines["n"] < 1000), large=lines["loss"].where(lines["n"] >= 1000))
    columns = {"cells": ("nll", "size"), "nll": ("nll", "mean"), "median nll": ("nll", "median")}
    columns |= {name: (name, "mean") for name in ("brier", "ece", "classwise", "worse", "better")}
    columns |= {
        "largest loss, n < 1000": ("small", "max"),
        "n >= 1000": ("large", "max"),
        "base fits": ("cost", "median"),
    }
    return lines.groupby("method", sort=False).agg(**columns)


def report(path):
    lines = pd.read_json(path, lines=True)
    lines["stage"] = np.where(lines["data"].isin(list(CONFIRMATION)), "confirmation", "development sets, new splits")
    lines.loc[lines["seed"] < 100, "stage"] = "development"
    lines["kind"] = np.where(lines["model"].str.startswith("MLP"), "networks", "linear")
    with pd.option_context("display.width", 250, "display.max_columns", None):
        for (stage, kind), part in lines.groupby(["stage", "kind"]):
            print(f"\n{stage}, {kind}\n{summary(part).round(4).to_string()}")
            tuned = part.set_index(["data", "n", "model", "seed"])
            tuned = tuned[tuned.index.isin(tuned.index[tuned["method"] == "cv"])].reset_index()
            if len(tuned) < len(part):
                print(f"\n{stage}, {kind}, cells with cv\n{summary(tuned).round(4).to_string()}")
            own = part[part["method"] == "default"]
            print("\ndefault by model and n: mean loss, largest loss, share worse")
            own = own.assign(worse=own["loss"] > 2 * own["error"])
            by = own.groupby(["model", "n"]).agg(
                loss=("loss", "mean"), largest=("loss", "max"), worse=("worse", "mean")
            )
            print(by.round(4).to_string())


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("stage", choices=[*STAGES, "intervals", "report"])
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    arguments = options.parse_args()
    stage, path = arguments.stage, records.cells_file("classifiers")
    if stage == "report":
        report(path)
    elif not records.skip(f"classifiers_{stage.replace('-', '_')}", arguments.again):
        if stage == "intervals":
            intervals(arguments.jobs)
        else:
            run(stage, arguments.jobs, path)


if __name__ == "__main__":
    main()
