"""Conformal intervals by the whole law against those by the plain distance: the same guarantee, the same networks.

    python benchmarks/bench_conformal.py [set ...] [--splits 20]

Networks of 50 tanh units (California Housing: 64) on standardized columns and targets, weight decays as written below
and not tuned; a quarter of the training rows for calibration; all published splits of the UCI sets. Prints coverage of
90 % intervals, mean width, interval score, and coverage in the fifth of the rows with the widest intervals.
"""

import argparse
import warnings

import numpy as np
import records
from _data import california, uci
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonCV, RibbonRegressor
from skribbon.conformal.calibration import ends_of_many, weight_to_reach
from skribbon.metrics import interval_coverage_score, mean_interval_score

DECAY = {"yacht": 0.1, "boston": 10.0, "energy": 0.1, "concrete": 1.0, "power": 0.1, "california": 1.0}
LEVEL = 0.9
FOLDS = KFold(5, shuffle=True, random_state=0)


def splits(name, most):
    """X, y and the test rows of each split."""
    if name != "california":
        X, y, tests = uci(name)
        return X, y, tests[:most]
    X, y = california()
    return X, y, [np.random.default_rng(k).permutation(len(y))[: len(y) // 4] for k in range(min(3, most))]


def intervals(network, X, y, train, test):
    """Name to intervals (n, 2) of the test rows."""
    calibration, fit = train[: len(train) // 4], train[len(train) // 4 :]
    ribbon = RibbonRegressor(network).fit(X[fit], y[fit])
    yield "model", ribbon.predict_interval(X[test], LEVEL)
    for score in ("absolute", "normalized", "distribution"):
        ribbon.conformalize(X[calibration], y[calibration], score=score)
        yield f"split, {score}", ribbon.predict_interval(X[test], LEVEL, kind="conformal")
    tuned = RibbonCV(RibbonRegressor(network), alphas=[1.0], cv=FOLDS, store_folds=True)
    tuned.fit(X[train], y[train])
    yield "CV+, distribution", tuned.predict_interval(X[test], LEVEL, kind="cv+")
    lower, upper = [], []
    for ribbon, (_, held_out) in zip(tuned.estimator_._folds_.ribbons, FOLDS.split(train), strict=True):
        rows = train[held_out]
        distance, mean = np.abs(y[rows] - ribbon.predict(X[rows])), ribbon.predict(X[test])[:, None]
        lower.append(mean - distance)
        upper.append(mean + distance)
    reached = weight_to_reach(np.array([LEVEL]), len(train))
    yield "CV+, absolute", ends_of_many(np.hstack(lower), np.hstack(upper), reached)[..., 0]


def figures(y, ends):
    """Coverage, mean width, interval score, coverage in the widest fifth."""
    width = ends[:, 1] - ends[:, 0]
    widest = np.argsort(width)[-max(1, len(width) // 5) :]
    covered = interval_coverage_score(y, ends), interval_coverage_score(y[widest], ends[widest])
    return [covered[0], width.mean(), mean_interval_score(y, ends), covered[1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(DECAY))
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    chosen = parser.parse_args()
    whole = chosen.splits == 20 and set(chosen.sets) == set(DECAY)
    if whole and records.skip("conformal", chosen.again):
        return
    means = []
    warnings.simplefilter("ignore")
    print(f"{'set':11}{'interval':20}{'covered':>9}{'width':>9}{'score':>9}{'widest':>9}")
    for name in chosen.sets:
        X, y, tests = splits(name, chosen.splits)
        found = {}
        for k, test in enumerate(tests):
            train = np.random.default_rng(k).permutation(np.setdiff1d(np.arange(len(y)), test))
            spread = X[train].std(axis=0)
            Z = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
            t = (y - y[train].mean()) / y[train].std()
            network = MLPRegressor(
                hidden_layer_sizes=64 if name == "california" else 50,
                activation="tanh",
                solver="lbfgs",
                alpha=DECAY[name],
                max_iter=300 if len(y) > 5000 else 500,
                random_state=0,
            )
            for kind, ends in intervals(network, Z, t, train, test):
                found.setdefault(kind, []).append(figures(t[test], ends))
        for kind, rows in found.items():
            values = dict(zip(("covered", "width", "score", "widest"), np.mean(rows, axis=0), strict=True))
            means.append({"set": name, "interval": kind, "splits": len(rows), **values})
            print(f"{name:11}{kind:20}" + "".join(f"{value:9.3f}" for value in np.mean(rows, axis=0)), flush=True)
    if whole:
        records.write("conformal", means, "benchmarks/bench_conformal.py")


if __name__ == "__main__":
    main()
