"""How well calibrated intervals and probabilities are.

No candidate is chosen or tuned on test rows, and a setting is the same for all sets of a part, except for the weight
decay. After a first short run, of at most five splits, three things were changed, none of them in a Ribbon: boosting
left the simulated part and counts got ten samples instead of twenty, both for their cost, and the median width was
added, because a few far rows rule the mean.

Sets and splits
    linear: least squares on scikit-learn's diabetes and statsmodels' engel, star98 (share above the median) and fair,
    20 random splits with 20 % test rows; Poisson regressions on randhie and freMTPL2's claims, 10 random samples of
    5,000 training and 2,000 test rows.
    simulated: linear models of 5 features, 100 training and 1,000 test rows, 200 repetitions each of normal, lognormal,
    bimodal, Student-3 and heteroskedastic noise of variance 1. No boosting here: trees cannot follow a line.
    uci: the published 20 splits of boston, concrete, energy, power and yacht; a network of 50 tanh units, features and
    target standardized, trained by L-BFGS. Its weight decay, of 8 values from 0.01 to 30, has the smallest squared
    error of five folds over the first split's training rows (at most 5,000 of them), and is kept for all splits.
    california: 3 splits with 20 % test rows, two networks of 64 units each, weight decay likewise.
    networks: MLPRegressor() as it is, with two layers of 100 units and with early stopping, behind a StandardScaler, on
    500, 1,000, 5,000 and 15,000 rows of california and of the uci sets but yacht, and on all training rows where these
    are fewer than 1,000; target standardized, one seed, a tenth of the rows for tests.

Candidates
    default (RibbonRegressor), RibbonCV, before (constant normal noise by degrees of freedom), paper (HC0, training
    noise), plain (the base model with its training residuals' variance; Poisson's law for counts), split conformal
    (absolute residuals of a quarter of the rows), quantile boosting (conformalised, likewise); in networks also the
    best constant, which knows the variance of the test errors. What is conformal takes (n + 1)-rank quantiles.

Measures
    Coverage at 50, 80, 90 and 95 %; for the 90 % interval misses below and above, coverage of the worst fifth by
    predicted width, of the near nine tenths and the farthest tenth by Mahalanobis distance, interval score, mean and
    median width; NLL, CRPS; distance in total variation of ten bins of the (for counts randomized) probability integral
    transform from the uniform law; seconds to fit. Means over splits and jackknife standard errors; fifths and bins are
    averaged over splits before the worst or the distance is taken. Splits share rows, so the errors are those of the
    splits alone.

Criterion
    A default is better than "before" if, averaged over the sets of a part, NLL and interval score are lower and neither
    |coverage - level| at 50 and 90 % nor the distance of the transform is higher.

What is blind
    Little: the default correction, heteroskedastic noise and its tails were settled after looking at test rows of the
    first five UCI splits (power excepted) and of California; an empirical law of the noise was tried on lognormal,
    bimodal and Student-3 noise, on fair, engel and diabetes, and default networks on concrete and California. Of
    star98, randhie, freMTPL2 and this heteroskedastic noise only that short run and "before" in full had been seen.

Usage: python benchmarks/bench_calibration.py linear simulated uci california networks [--quick] [--output folder]
       python benchmarks/bench_calibration.py report | adult | cost
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import records
from _data import adult
from _harness import best_of
from calibration import cases, report
from calibration.candidates import CANDIDATES
from calibration.measure import measure
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import RibbonWarning
from skribbon.metrics import expected_calibration_error, neg_nll_scorer

EVERY = [name for name in CANDIDATES if name != "best constant"]
CANDIDATES_OF = {
    "linear": EVERY,
    "simulated": [name for name in EVERY if name != "quantile boosting"],
    "uci": EVERY,
    "california": EVERY,
    "networks": ["default", "RibbonCV", "split conformal", "best constant"],
}
PARTS = tuple(CANDIDATES_OF)


def groups_of_cases(part, options):
    """Sets of a part, each a function that makes its cases."""
    quick, n_jobs = options.quick, options.n_jobs
    splits = options.splits or (2 if quick else {"simulated": 200, "california": 3}.get(part, 20))
    if part == "linear":
        samples = {name: (1, 500) if quick else (min(splits, 10),) for name in ("randhie", "freMTPL2")}
        return {name: partial(cases.linear_cases, name, *samples.get(name, (splits,))) for name in cases.LINEAR}
    if part == "simulated":
        return {name: partial(cases.simulated_cases, name, splits) for name in cases.NOISES}
    if part == "uci":
        names = ("boston", "yacht") if quick else cases.UCI
        return {name: partial(cases.uci_cases, name, splits, n_jobs) for name in names}
    if part == "california":
        many = (1, 1, n_jobs, 1000) if quick else (splits, 2, n_jobs)
        return {"california": partial(cases.california_cases, *many)}
    if quick:
        return {"concrete": partial(cases.default_network_cases, "concrete", ["defaults"], (500,))}
    return {name: partial(cases.default_network_cases, name) for name in (*cases.UCI[:4], "california")}


def run(part, options):
    """Measure a part, print its tables, keep its rows."""
    whole = not (options.quick or options.candidates or options.sets or options.splits)
    if whole and records.skip(f"calibration_{part}", options.again):
        return
    names = options.candidates.split(",") if options.candidates else CANDIDATES_OF[part]
    groups = groups_of_cases(part, options)
    if options.sets:
        groups = {name: groups[name] for name in options.sets.split(",") if name in groups}
    kept = report.kept(part, options.output) if whole and not options.again else {}
    rows, seconds = kept.get("rows", []), kept.get("seconds", 0.0)
    for name, make in groups.items():
        if any(row["set"].startswith(name) for row in rows):  # measured on this code, in a run that was stopped
            continue
        start, own = time.perf_counter(), list(make())
        done = Parallel(options.n_jobs, return_as="generator")(delayed(measure)(case, names) for case in own)
        for k, some in enumerate(done, start=1):
            rows += some
            left = (time.perf_counter() - start) / k * (len(own) - k) / 60
            print(f"{part}: {name} {k}/{len(own)}, {left:.0f} minutes left", flush=True)
        seconds += time.perf_counter() - start
        report.save(rows, part, options.output, __doc__, seconds)
    show(part, rows, options.output)
    if whole:
        records.write(f"calibration_{part}", report.record(rows), "benchmarks/bench_calibration.py", None, seconds / 60)


def show(part, rows, folder):
    measured = [row for row in rows if "error" not in row]
    blocks = report.blocks_of_networks(measured) if part == "networks" else report.blocks(measured)
    text = "\n\n".join([*blocks, *report.failures(rows)])
    print(f"\n{part}\n{text}\n", flush=True)
    Path(folder, f"{part}.txt").write_text(text + "\n")
    report.figure(measured, Path(folder, f"{part}.png"))


# ---------------------------------------------------------------------- Adult
def bench_adult(again, repeats=5):
    """Learning curve of a logistic model behind a ColumnTransformer: the plain model, Ribbon, RibbonCV by each."""
    if records.skip("adult", again):
        return
    (X, y), (X_test, y_test) = adult()
    numeric = X.select_dtypes("number").columns
    columns = make_column_transformer(
        (StandardScaler(), numeric),
        (
            make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
            [c for c in X if c not in numeric],
        ),
    )
    base = make_pipeline(columns, LogisticRegression(max_iter=1000))
    found = []
    for n in (100, 300, 1000, 3000, 10_000):
        rows = []
        for seed in range(repeats):
            take = np.random.default_rng(seed).permutation(len(y))[:n]
            candidates = {"plain": clone(base), "ribbon": RibbonClassifier(base)}
            candidates |= {f"cv {score}": RibbonCV(base, scoring=score) for score in ("nll", "brier", "ece")}
            for name, model in candidates.items():
                proba = model.fit(X.iloc[take], y[take]).predict_proba(X_test)
                scores = log_loss(y_test, proba), brier_score_loss(y_test, proba[:, 1])
                ece = expected_calibration_error(y_test, proba)
                rows.append({"model": name, "NLL": scores[0], "Brier": scores[1], "ECE": ece})
        frame = pd.DataFrame(rows).groupby("model", sort=False)
        print(f"Adult, n = {n}, mean ± standard error of {repeats} samples")
        for name in candidates:
            cells = frame.get_group(name).drop(columns="model")
            error = cells.std() / np.sqrt(repeats)
            print(f"  {name:9}", ", ".join(f"{c} {cells[c].mean():.4f} ± {error[c]:.4f}" for c in cells), flush=True)
            found.append({"n": n, "model": name, **{c: [cells[c].mean(), error[c]] for c in cells}})
    records.write("adult", found, "benchmarks/bench_calibration.py", {"samples": repeats})


# ---------------------------------------------------------------------- what tuning costs
def bench_cost(again):
    """RibbonCV with 50 alphas and five folds, against six plain fits and against GridSearchCV, in one run."""
    if records.skip("tuning", again):
        return
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 50))
    y = X @ rng.standard_normal(50) + 10 * rng.standard_normal(len(X))
    rows = [cost_of_tuning("Ridge, n = 20,000, 50 features", Ridge(), X, y)]
    X, y = X[:2000, :8], np.sin(X[:2000, 0]) + 0.3 * rng.standard_normal(2000)
    rows.append(cost_of_tuning("MLP 8-32-1, n = 2,000", cases.network(32, 1.0, 0, max_iter=200), X, y))
    records.write("tuning", rows, "benchmarks/bench_calibration.py")


def cost_of_tuning(title, base, X, y):
    alphas, folds = np.logspace(-4, 4, 50), KFold(5)
    tuned = RibbonCV(RibbonRegressor(base), alphas=alphas, scoring="nll", cv=folds)
    search = GridSearchCV(RibbonRegressor(base), {"alpha": alphas}, scoring=neg_nll_scorer, cv=folds)
    runs = {
        "six": (5, lambda: [RibbonRegressor(base).fit(X, y) for _ in range(6)]),
        "tuned": (5, lambda: tuned.fit(X, y)),
        "grid": (1, lambda: search.fit(X, y)),
    }
    seconds = {name: best_of(repeats, "wall", run=run)["run"] for name, (repeats, run) in runs.items()}
    print(title)
    print(f"  RibbonCV / six plain fits: {seconds['tuned'] / seconds['six']:.2f} (target <= 1.25)")
    print(f"  GridSearchCV / RibbonCV: {seconds['grid'] / seconds['tuned']:.1f} (target >= 20)")
    print(f"  choices: RibbonCV {tuned.alpha_:.4g}, GridSearchCV {search.best_params_['alpha']:.4g}", flush=True)
    return {"what": title, **seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", choices=[*PARTS, "report", "adult", "cost"])
    parser.add_argument("--sets", help="of the parts, by commas; all if not given")
    parser.add_argument("--candidates", help=f"by commas, of {', '.join(CANDIDATES)}")
    parser.add_argument("--splits", type=int, help="or repetitions; all if not given")
    parser.add_argument("--quick", action="store_true", help="few splits of few sets, in two minutes")
    parser.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--output", default="doc/_build/calibration", help="folder of rows, tables and figures")
    arguments = parser.parse_args()
    for category in (RibbonWarning, ConvergenceWarning):  # the point of the benchmark is the numbers
        warnings.simplefilter("ignore", category)
    for what in arguments.what:
        if what in PARTS:
            run(what, arguments)
        elif what == "report":
            for part in PARTS:
                if Path(arguments.output, f"{part}.json").exists():
                    show(part, report.load(part, arguments.output), arguments.output)
        elif what == "adult":
            bench_adult(arguments.again)
        else:
            bench_cost(arguments.again)
