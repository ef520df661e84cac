"""California Housing: coverage near to and far from the training rows, CRPS and post-hoc seconds."""

from functools import lru_cache, partial

import numpy as np
from _cells import Experiment, mean_sd, table, timed
from _data import california
from _networks import after, network
from sklearn.frozen import FrozenEstimator

from skribbon import RibbonCV, RibbonRegressor
from skribbon.metrics import neg_crps_scorer

UNITS, DECAY, LEVEL = 64, 0.3, 0.9
PAPER = {  # ID, ALL, OOD, CRPS, seconds
    "Ribbon": ("91.8", "91.4", "89.6", "0.3573", "6.1"),
    "deep ensemble": ("91.7", "91.4", "90.0", "0.3927", "8.1"),
    "MC dropout": ("92.8", "92.6", "91.5", "0.3593", "9.7"),
    "Laplace": ("92.0", "95.8", "99.2", "0.4226", "11.3"),
}
DEFAULTS = "Ribbon, defaults"
UNTUNED = "Ribbon, alpha = 1"
OURS = {  # beyond the paper: noise, and what alpha is tuned on
    "Ribbon, dof noise, closed form": ("dof", "coverage"),
    "Ribbon, heteroskedastic noise": ("heteroskedastic", "coverage"),
    "Ribbon, heteroskedastic noise, alpha by likelihood": ("heteroskedastic", "nll"),
}


def experiment(quick):
    seeds, max_iter, members = (1, 100, 3) if quick else (2, 400, 5)
    cells = {}
    for seed in range(seeds):
        for name in (*PAPER, UNTUNED):
            cells[f"{name}, network {seed}"] = partial(paper_row, name, seed, max_iter, members)
        cells[f"{DEFAULTS}, network {seed}"] = partial(default_row, seed, max_iter)
        for name in OURS:
            cells[f"{name}, network {seed}"] = partial(our_row, name, seed, max_iter)
    if not quick:
        for decay in (0.03, 3.0):
            for name in ("Ribbon", "Laplace"):
                cells[f"{name}, decay {decay:g}"] = partial(paper_row, name, 0, max_iter, members, decay)
    setting = {"seeds": seeds, "max_iter": max_iter, "decay": DECAY, "members": members, "version": 2}
    return Experiment("california", "California Housing", setting, cells, network_of, report)


def network_of(cell):
    """The network that a cell is about."""
    return cell.rsplit(", ", 1)[1]


@lru_cache(maxsize=1)
def split():
    """Standardized X, y and which test rows are far: the upper tenth of Mahalanobis distances to the training rows."""
    X, y = california()
    order = np.random.default_rng(0).permutation(len(y))
    train, validation, test = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    distance = np.einsum("ij,jk,ik->i", X[test], np.linalg.inv(np.cov(X[train].T)), X[test])
    return X, y, train, validation, test, distance > np.quantile(distance, 0.9)


@lru_cache(maxsize=2)
def base_of(seed, max_iter, decay=DECAY):
    X, y, train, *_ = split()
    return network(UNITS, decay, seed, max_iter).fit(X[train], y[train])


def paper_row(name, seed, max_iter, members, decay=DECAY):
    """As the paper has it: residual noise, 100 draws; Ribbon's alpha by coverage of validation rows, or one."""
    X, y, train, validation, *_ = split()
    base = base_of(seed, max_iter, decay)
    method, seconds = after(base, name, X[train], y[train], seed, members=members, correction="HC0")
    if name == "Ribbon":
        alphas = np.logspace(-4, 4, 49)
        method = RibbonCV(FrozenEstimator(method), alphas=alphas, scoring="coverage").fit(X[validation], y[validation])
    return scores(method, seconds)


def default_row(seed, max_iter):
    """Nothing set, and no validation rows."""
    X, y, train, *_ = split()
    ribbon = RibbonRegressor(FrozenEstimator(base_of(seed, max_iter)))
    return scores(*timed(lambda: ribbon.fit(X[train], y[train])))


def our_row(name, seed, max_iter):
    X, y, train, validation, *_ = split()
    noise, scoring = OURS[name]
    ribbon = RibbonRegressor(FrozenEstimator(base_of(seed, max_iter)), noise=noise)
    _, seconds = timed(lambda: ribbon.fit(X[train], y[train]))
    return scores(RibbonCV(FrozenEstimator(ribbon), scoring=scoring).fit(X[validation], y[validation]), seconds)


def scores(method, seconds):
    X, y, *_, test, far = split()
    interval, predicting = timed(lambda: method.predict_interval(X[test], LEVEL))
    inside = (interval[:, 0] <= y[test]) & (y[test] <= interval[:, 1])
    return {
        "id": 100 * inside[~far].mean(),
        "all": 100 * inside.mean(),
        "ood": 100 * inside[far].mean(),
        "crps": -neg_crps_scorer(method, X[test], y[test]),
        "rmse": np.sqrt(np.mean((method.predict(X[test]) - y[test]) ** 2)),
        "width": np.mean(interval[:, 1] - interval[:, 0]),
        "seconds": seconds + predicting,
    }


def report(values):
    columns = ("ID %", "ALL %", "OOD %", "CRPS", "seconds")
    header = ["method", "networks", *(name for column in columns for name in (column, "paper")), "RMSE"]
    rows = []
    for name in (*PAPER, UNTUNED, DEFAULTS, *OURS):
        cells = [value for key, value in values.items() if key.startswith(f"{name}, network")]
        ours = [mean_sd([c[k] for c in cells], d) for k, d in (("id", 1), ("all", 1), ("ood", 1), ("crps", 3))]
        ours.append(mean_sd([c["seconds"] for c in cells], 1))
        if not cells:
            continue
        paper = PAPER.get(name, ("",) * 5)
        row = [cell for pair in zip(ours, paper, strict=True) for cell in pair]
        rows.append([name, len(cells), *row, mean_sd([c["rmse"] for c in cells])])
    parts = [SETTING, table(header, rows), READING]
    grid = [
        [*key.split(", decay "), f"{v['id']:.1f} / {v['all']:.1f} / {v['ood']:.1f}", f"{v['crps']:.3f}"]
        for key, v in values.items()
        if ", decay " in key
    ]
    if grid:
        parts += [GRID, table(["method", "weight decay", "ID / ALL / OOD %", "CRPS"], grid)]
    return "\n\n".join(parts)


SETTING = f"""One split into 60% training, 20% validation and 20% test rows; features standardized on the training
rows. OOD is the tenth of the test rows with the largest Mahalanobis distance. The network has one hidden layer of
{UNITS} tanh units, 641 parameters, weight decay {DECAY}, and at most 400 iterations of L-BFGS (the paper states
neither). Entries are mean and standard deviation over networks. The first four rows follow the paper: noise from
training residuals, 100 draws, five members, Ribbon with HC0 and alpha tuned to 90% coverage of the validation rows,
Laplace with a prior precision tuned by held-out likelihood. "{UNTUNED}" does not use the validation rows.
"{DEFAULTS}" is `RibbonRegressor(network)` with nothing set, and does not use them either. The last three set the
noise, and tune alpha on the validation rows."""
READING = """CRPS depends most on the network, and these networks are trained further than the paper's. So compare
rows with each other, not with the paper."""
GRID = """Other weight decays, one network each:"""
