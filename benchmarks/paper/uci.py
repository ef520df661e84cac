"""UCI regression on the published splits: RMSE, NLL, coverage, CRPS and seconds of every method."""

from functools import lru_cache, partial

import numpy as np
from _cells import Experiment, mean_sd, table, timed
from _data import uci
from _networks import DECAYS, after, fitted_network
from sklearn.base import clone

from skribbon import RibbonCV, RibbonRegressor
from skribbon.metrics import interval_coverage_score, neg_crps_scorer, neg_nll_scorer

UNITS = 50
SETS = ("boston", "concrete", "energy", "yacht")
METHODS = ("deep ensemble", "bootstrap", "MC dropout", "Laplace", "Ribbon", "Ribbon, defaults", "RibbonCV, defaults")
PUBLISHED = {  # mean test NLL and RMSE on these splits, as the methods' authors report them (dropout: as of 2018)
    "boston": {"deep ensemble": ("2.41", "3.28"), "MC dropout": ("2.40", "2.90")},
    "concrete": {"deep ensemble": ("3.06", "6.03"), "MC dropout": ("2.93", "4.82")},
    "energy": {"deep ensemble": ("1.38", "2.09"), "MC dropout": ("1.21", "0.54")},
    "yacht": {"deep ensemble": ("1.18", "1.58"), "MC dropout": ("1.25", "0.67")},
}


def experiment(quick):
    names, splits, refits = (("yacht",), 1, 5) if quick else (SETS, 20, 10)
    cells = {}
    for k in range(splits):
        for name in names:
            for method in METHODS:
                cells[f"{name}, {method}, split {k}"] = partial(row, name, method, k, refits)
    setting = {"refits": refits, "version": 3}
    return Experiment("uci", "UCI regression", setting, cells, split_of, report)


def split_of(cell):
    """The set and split that a cell is of."""
    return f"{cell.split(', ')[0]}, {cell.split(', ')[-1]}"


@lru_cache(maxsize=2)
def base_of(name, k):
    X, y, tests = uci(name)
    test = tests[k]
    train = np.setdiff1d(np.arange(len(y)), test)
    X = (X - X[train].mean(axis=0)) / np.where(X[train].std(axis=0) > 0, X[train].std(axis=0), 1.0)
    mean, scale = y[train].mean(), y[train].std()
    t = (y - mean) / scale
    return X[train], t[train], X[test], t[test], scale, fitted_network(X[train], t[train], UNITS, k, decays=DECAYS)


def row(name, method, k, refits):
    X, t, X_test, t_test, scale, base = base_of(name, k)
    if method == "Ribbon, defaults":
        fitted, seconds = timed(lambda: RibbonRegressor(clone(base)).fit(X, t))
    elif method == "RibbonCV, defaults":
        fitted, seconds = timed(lambda: RibbonCV(RibbonRegressor(clone(base))).fit(X, t))
    else:
        as_in_the_paper = {"noise": "train", "correction": "HC0", "predictive": "gaussian"}
        fitted, seconds = after(base, method, X, t, k, members=5, refits=refits, **as_in_the_paper)
    interval, predicting = timed(lambda: fitted.predict_interval(X_test))
    return {
        "coverage": interval_coverage_score(t_test, interval),
        "nll": -neg_nll_scorer(fitted, X_test, t_test) + np.log(scale),
        "rmse": scale * np.sqrt(np.mean((fitted.predict(X_test) - t_test) ** 2)),
        "crps": -scale * neg_crps_scorer(fitted, X_test, t_test),
        "seconds": seconds + predicting,
    }


def report(values):
    parts = [SETTING]
    for name in SETS:
        rows = []
        for method in METHODS:
            cells = [value for key, value in values.items() if key.startswith(f"{name}, {method}, split")]
            if not cells:
                continue
            nll, rmse = PUBLISHED[name].get(method, ("", ""))
            columns = [mean_sd([c[k] for c in cells], 2) for k in ("rmse", "nll", "coverage", "crps", "seconds")]
            rows.append([method, len(cells), columns[0], rmse, columns[1], nll, *columns[2:]])
        header = ["method", "splits", "RMSE", "published", "NLL", "published", "coverage of 90%", "CRPS", "seconds"]
        if rows:
            parts += [f"**{name}**", table(header, rows)]
    return "\n\n".join([*parts, READING])


SETTING = f"""The twenty published splits; mean and standard deviation over splits, which share most of their rows.
One hidden layer of {UNITS} tanh units, L-BFGS, weight decay by leave-one-out error on the training rows, shared by
all methods. The first five rows estimate the noise from training residuals, as the paper does. This is too small if a
network fits its training rows closely. Ribbon has alpha = 1 and HC0 there. The last two rows are
`RibbonRegressor(network)` and `RibbonCV(network)` with nothing set. Seconds are CPU seconds after the first fit of
the network, and include refits. The published columns are the values that the authors of deep ensembles and MC
dropout report for these splits, with relu networks of their own."""
READING = """RibbonCV's folds are scikit-learn's, blocks of rows in their order. The tables of yacht and energy are
ordered by design, so a network has to extrapolate into a block that it has not seen. Errors of such folds are too
large, and the intervals too wide. If the order of rows means nothing, shuffle them, or pass `cv=KFold(5,
shuffle=True)`."""
