"""How well calibrated the intervals and probabilities are, on real data.

Within a run nothing is chosen on test rows. The design is another matter: the default correction, the choice of folds
over leave-one-out and of heteroskedastic noise were settled after looking at test rows of the first five UCI splits
(power excepted), and Student tails and the weight decay of 0.3 after looking at California's.

Usage: python benchmarks/bench_calibration.py california|uci|adult|cost [--sets boston,...] [--splits 20] [--seeds 5]
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _data import adult, california, uci
from _harness import best_of
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import RibbonWarning
from skribbon.metrics import crps_scorer, expected_calibration_error, interval_coverage_score, nll_scorer

PUBLISHED_NLL = {"boston": 2.41, "concrete": 3.06, "energy": 1.38, "power": 2.79, "yacht": 1.18}  # deep ensembles


def network(units, decay, seed, max_iter=1000):
    return MLPRegressor(
        hidden_layer_sizes=(units,),
        activation="tanh",
        solver="lbfgs",
        alpha=decay,
        max_iter=max_iter,
        random_state=seed,
    )


def standardised(train, *arrays):
    mean, scale = train.mean(axis=0), train.std(axis=0)
    return [(a - mean) / np.where(scale > 0, scale, 1.0) for a in arrays]


# ---------------------------------------------------------------------- California Housing
def bench_california(seeds):
    """One split, several networks: coverage of the 90 % interval near to and far from the training rows, CRPS."""
    X, y = california()
    order = np.random.default_rng(0).permutation(len(y))
    train, validation, test = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    X = standardised(X[train], X)[0]
    distance = np.einsum("ij,jk,ik->i", X[test], np.linalg.inv(np.cov(X[train].T)), X[test])  # Mahalanobis, squared
    far = distance > np.quantile(distance, 0.9)
    rows = []
    for seed in range(seeds):
        start = time.perf_counter()
        base = network(64, 0.3, seed, max_iter=400).fit(X[train], y[train])
        fitted = time.perf_counter()
        for noise, scoring in (("dof", "coverage"), ("heteroskedastic", "coverage"), ("heteroskedastic", "nll")):
            start_ribbon = time.perf_counter()
            ribbon = RibbonRegressor(FrozenEstimator(base), noise=noise).fit(X[train], y[train])
            tuned = RibbonCV(FrozenEstimator(ribbon), scoring=scoring).fit(X[validation], y[validation])
            interval, seconds = tuned.predict_interval(X[test]), time.perf_counter() - start_ribbon
            inside = (interval[:, 0] <= y[test]) & (y[test] <= interval[:, 1])
            rows.append(
                {
                    "noise": f"{noise}, alpha by {scoring}",
                    "ID": inside[~far].mean(),
                    "ALL": inside.mean(),
                    "OOD": inside[far].mean(),
                    "CRPS": -crps_scorer(tuned, X[test], y[test]),
                    "NLL": -nll_scorer(tuned, X[test], y[test]),
                    "RMSE": np.sqrt(np.mean((base.predict(X[test]) - y[test]) ** 2)),
                    "log10 alpha": np.log10(tuned.alpha_),
                    "s base": fitted - start,
                    "s ribbon": seconds,
                }
            )
        print(f"network {seed + 1} of {seeds} done", flush=True)
    frame = pd.DataFrame(rows)
    for name, cells in frame.groupby("noise", sort=False):
        columns = cells.drop(columns="noise")
        print(f"{name}:", ", ".join(f"{c} {columns[c].mean():.3f} ± {columns[c].std():.3f}" for c in columns))
    print("paper: 0.918 / 0.914 / 0.896 and CRPS 0.3573")


# ---------------------------------------------------------------------- UCI
def bench_uci(names, splits):
    """The published splits; a single 50-unit network each, weight decay by leave-one-out, alpha by five folds."""
    for name in names:
        X, y, tests = uci(name)
        rows = [uci_split(X, y, test, k, name) for k, test in enumerate(tests[:splits])]
        frame = pd.DataFrame(rows)
        means, errors = frame.mean(), frame.std() / np.sqrt(len(frame))
        parts = [f"{column} {means[column]:.3f} ± {errors[column]:.3f}" for column in frame]
        print(f"{name}, {len(frame)} splits: {', '.join(parts)}; deep ensembles' NLL {PUBLISHED_NLL[name]}", flush=True)


def uci_split(X, y, test, seed, name):
    train = np.setdiff1d(np.arange(len(y)), test)
    X_train, X_test = standardised(X[train], X[train], X[test])
    mean, scale = y[train].mean(), y[train].std()
    t_train, t_test = (y[train] - mean) / scale, (y[test] - mean) / scale
    decays, iterations = ([0.1, 1.0], 300) if name == "power" else ([0.01, 0.03, 0.1, 0.3, 1.0, 3.0], 1000)
    fits = [network(50, decay, seed, iterations).fit(X_train, t_train) for decay in decays]
    losses = []
    for fit in fits:
        ribbon = RibbonRegressor(FrozenEstimator(fit), store_loo=True).fit(X_train, t_train)
        losses.append(np.mean(ribbon.loo_residuals_**2))
    best = fits[int(np.argmin(losses))]
    folds = KFold(5, shuffle=True, random_state=seed)
    ribbon = RibbonRegressor(clone(best), noise="heteroskedastic")
    tuned = RibbonCV(ribbon, cv="loo" if name == "power" else folds).fit(X_train, t_train)
    return {
        "coverage": interval_coverage_score(t_test, tuned.predict_interval(X_test)),
        "NLL": -nll_scorer(tuned, X_test, t_test) + np.log(scale),
        "RMSE": scale * np.sqrt(np.mean((tuned.predict(X_test) - t_test) ** 2)),
        "CRPS": -scale * crps_scorer(tuned, X_test, t_test),
        "log10 alpha": np.log10(tuned.alpha_),
    }


# ---------------------------------------------------------------------- Adult
def bench_adult(repeats=5):
    """Learning curve of a logistic model behind a ColumnTransformer: the plain model, Ribbon, RibbonCV by each."""
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


# ---------------------------------------------------------------------- what tuning costs
def bench_cost():
    """RibbonCV with 50 alphas and five folds, against six plain fits and against GridSearchCV, in one run."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 50))
    y = X @ rng.standard_normal(50) + 10 * rng.standard_normal(len(X))
    cost_of_tuning("Ridge, n = 20,000, 50 features", Ridge(), X, y)
    X, y = X[:2000, :8], np.sin(X[:2000, 0]) + 0.3 * rng.standard_normal(2000)
    cost_of_tuning("MLP 8-32-1, n = 2,000", network(32, 1.0, 0, max_iter=200), X, y)


def cost_of_tuning(title, base, X, y):
    alphas, folds = np.logspace(-4, 4, 50), KFold(5)
    tuned = RibbonCV(RibbonRegressor(base), alphas=alphas, scoring="nll", cv=folds)
    search = GridSearchCV(RibbonRegressor(base), {"alpha": alphas}, scoring=nll_scorer, cv=folds)
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["california", "uci", "adult", "cost"])
    parser.add_argument("--sets", default=",".join(PUBLISHED_NLL))
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    for category in (RibbonWarning, ConvergenceWarning):  # the point of the benchmark is the numbers
        warnings.simplefilter("ignore", category)
    if arguments.what == "california":
        bench_california(arguments.seeds)
    elif arguments.what == "uci":
        bench_uci(arguments.sets.split(","), arguments.splits)
    elif arguments.what == "adult":
        bench_adult()
    else:
        bench_cost()
