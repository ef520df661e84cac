"""How much the default noise moves under changes of the table that should not matter.

17 generated tables, 190 fits per change: rows in another order, one row more, one row less, one row twice, weights
against repeated rows, and the table doubled, which claims more observations. A fit is renamed if constant noise became
x-dependent by more than 1%, or if the noise distribution has another name. It is re-chosen if the widths of 90%
intervals at 200 new rows also moved by more than 2% in the median. Ratios of these widths follow.

Then: how often and how far constant noise is taken to depend on x; and, on the shared data sets, held-out negative log
likelihood and coverage, so that stability is not bought by never choosing.

Usage: python benchmarks/stability.py [changes] [constant] [held-out] [time]
"""

import os
import sys
import time
import warnings

import _data
import numpy as np
import records
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonCV, RibbonRegressor


def shape(name, rng, n):
    """Noise of variance about one."""
    if name == "laplace":
        return rng.laplace(size=n) / np.sqrt(2)
    if name == "mixture":
        return rng.normal(size=n) * np.where(rng.uniform(size=n) < 0.1, 2.5, 0.64)
    return (rng.gamma(4.0, size=n) - 4) / 2 if name == "skewed" else rng.normal(size=n)


def scale(name, X):
    """Standard deviation of the noise at X; continuous, since no estimate of a jump could be stable next to it."""
    first, last = X[:, 0], X[:, -1]
    return {
        "constant": np.ones(len(X)),
        "log-linear": np.exp(0.5 * np.clip(first, -2, 2)),
        "weak": np.exp(0.12 * np.clip(first, -2, 2)),
        "non-linear": 0.4 + 0.5 * np.minimum(np.abs(last), 2.5),
    }[name]


# rows, columns, scale, shape, kind of columns
TABLES = [
    (60, 1, "constant", "normal", ""),
    (60, 3, "log-linear", "normal", ""),
    (100, 2, "constant", "laplace", ""),
    (150, 5, "weak", "normal", ""),
    (200, 3, "constant", "skewed", ""),
    (300, 8, "log-linear", "laplace", ""),
    (300, 2, "constant", "normal", "leverage"),
    (500, 5, "non-linear", "normal", ""),
    (500, 4, "constant", "mixture", "categories"),
    (600, 4, "constant", "normal", "copies"),
    (1000, 10, "weak", "skewed", ""),
    (1000, 3, "non-linear", "mixture", "leverage"),
    (1500, 20, "constant", "normal", ""),
    (2000, 5, "log-linear", "skewed", "categories"),
    (3000, 8, "non-linear", "laplace", "copies"),
    (6000, 10, "constant", "laplace", ""),
    (8000, 6, "non-linear", "skewed", ""),
]


def rows(table, seed, n):
    """X and y of n rows."""
    _, p, how, law, kind = table
    rng = np.random.default_rng([seed, n])
    X = rng.standard_t(2.5, size=(n, p)) if kind == "leverage" else rng.normal(size=(n, p))
    if kind == "categories":
        X = np.c_[rng.integers(0, 4, size=(n, p - 1)), X[:, :1]].astype(float)
    y = X @ np.linspace(1, -1, p + 1)[:p] + scale(how, X) * shape(law, rng, n)
    if kind == "copies":
        some = rng.integers(0, n, size=n)
        X, y = X[some], y[some]
    return X, y


def changes(X, y, seed):
    """Arguments of fit before and after each change, by its name; None is the table as it is."""
    n, rng = len(y), np.random.default_rng(seed)
    order, weight, one = rng.permutation(n), rng.integers(1, 4, size=n), rng.integers(n)
    yield "row order", None, (X[order], y[order])
    yield "one row more", (np.delete(X, one, axis=0), np.delete(y, one)), None
    yield "one row less", None, (X[:-1], y[:-1])
    yield "one row twice", None, (np.r_[X, X[[one]]], np.r_[y, y[one]])
    yield "weights, repeats", (X, y, weight.astype(float)), (np.repeat(X, weight, axis=0), np.repeat(y, weight))
    yield "table doubled", None, (np.r_[X, X], np.r_[y, y])


def widths(fit, X):
    """Widths of 90% intervals, whether the noise depends on x by more than 1%, and the name of its distribution."""
    ribbon = RibbonRegressor(Ridge()).fit(*fit)
    noise = np.broadcast_to(ribbon.predict_std(X, kind="aleatoric"), len(X))
    return np.ptp(ribbon.predict_interval(X), axis=1), bool(noise.max() > 1.01 * noise.min()), ribbon.law_.name


def report_changes():
    """Print re-chosen shares and ratios of widths for every change."""
    if records.skip("stability"):
        return
    found, repetitions = {}, int(os.environ.get("REPETITIONS", "11"))
    for k, table in enumerate(TABLES):
        for seed in range(repetitions + (k < 3)):
            (X, y), (X_new, _) = rows(table, seed, table[0]), rows(table, 1000 + seed, 200)
            usual = widths((X, y), X_new)
            for name, *pair in changes(X, y, seed):
                (a, *chosen), (b, *again) = (usual if fit is None else widths(fit, X_new) for fit in pair)
                moved = np.median(np.abs(b / a - 1)) > 0.02
                found.setdefault(name, []).append((k, (chosen != again) * (1 + moved), b / a))
    kept = []
    print(f"{'change':17} re-chosen, renamed   median change; 0.1%, 99.9% quantile, extremes of ratios (tables)")
    for name, results in found.items():
        ratios = np.array([ratio for _, _, ratio in results])
        again = np.array([chosen for _, chosen, _ in results])
        low, high = (results[i][0] for i in (ratios.min(axis=1).argmin(), ratios.max(axis=1).argmax()))
        print(f"{name:17} {sum(again == 2):3}, {sum(again > 0):3} of {len(results)}", end="   ")
        print(f"{np.median(np.abs(ratios - 1)):.2%};", end=" ")
        print("{:.3f} {:.3f},".format(*np.quantile(ratios, [0.001, 0.999])), end=" ")
        print(f"{ratios.min():.3f} ({low}), {ratios.max():.3f} ({high})")
        row = {"change": name, "fits": len(results), "re-chosen": int(sum(again == 2)), "renamed": int(sum(again > 0))}
        row |= {"median": np.median(np.abs(ratios - 1)), "quantiles": np.quantile(ratios, [0.001, 0.999])}
        kept.append(row | {"extremes": [ratios.min(), ratios.max()]})
    if repetitions == 11:
        records.write("stability", kept, "benchmarks/stability.py")


def report_constant():
    """Print how often constant noise is taken to depend on x, and the spread of the standard deviations then."""
    for n, p in ((60, 2), (200, 5), (1000, 5), (4000, 10)):
        spread = []
        for seed in range(100):
            X, y = rows((n, p, "constant", "normal", ""), seed, n)
            noise = np.broadcast_to(np.sqrt(RibbonRegressor(Ridge()).fit(X, y).noise_.predict(X)), n)
            spread.append(np.std(np.log(noise)))
        print(f"constant noise, n={n}, p={p}: {np.mean(np.array(spread) > 1e-9):.0%} of tables vary;", end=" ")
        print(f"sd of the log scale {np.mean(spread):.4f}, at most {np.max(spread):.3f}")


def report_held_out(n_splits=10):
    """Print held-out negative log likelihood and coverage on the shared sets, by a Ridge on random splits."""
    for path in (*sorted((_data.folder() / "uci").glob("*.npz")), _data.find("california_housing.npz")):
        data, scores = np.load(path), []
        for seed in range(n_splits):
            order = np.random.default_rng(seed).permutation(len(data["y"]))
            test, train = order[: len(order) // 5], order[len(order) // 5 :]
            scaler = StandardScaler().fit(data["X"][train])
            ribbon = RibbonRegressor(Ridge()).fit(scaler.transform(data["X"][train]), data["y"][train])
            X, y = scaler.transform(data["X"][test]), data["y"][test]
            intervals = [ribbon.predict_interval(X, level) for level in (0.5, 0.9)]
            inside = [np.mean((a[:, 0] <= y) & (y <= a[:, 1])) for a in intervals]
            scores.append([-ribbon.log_density(X, y).mean(), *inside, np.ptp(intervals[1], axis=1).mean()])
        nll, half, most, width = np.mean(scores, axis=0)
        print(f"{path.stem:18} NLL {nll:.4f}  coverage at 50% {half:.3f}, at 90% {most:.3f}, width {width:.3f}")


def report_time():
    """Print processor seconds of a default fit, and of RibbonCV in default fits."""
    for n, p in ((1000, 5), (5000, 20), (10_000, 20)):
        for how in ("constant", "non-linear"):
            X, y = rows((n, p, how, "normal", ""), 0, n)
            seconds = []
            for estimator in (Ridge(), RibbonRegressor(Ridge()), RibbonCV(Ridge())):
                times = []
                for _ in range(3):
                    start = time.process_time()
                    estimator.fit(X, y)
                    times.append(time.process_time() - start)
                seconds.append(min(times))
            base, fit, tuned = seconds
            print(f"n={n}, p={p}, {how} noise: fit {fit:.3f} s, {fit / base:.0f} base fits,", end=" ")
            print(f"RibbonCV {tuned / fit:.1f} fits")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    reports = {"changes": report_changes, "constant": report_constant, "held-out": report_held_out, "time": report_time}
    for name in sys.argv[1:] or reports:
        reports[name]()
