"""Distributional predictions of 38 public tables, with the same wrapper for every method: quantiles, CRPS, log score.

This protocol is fixed before the tables are run, and nothing is tuned on them. Five tables (yacht, iris, ccard, heart
and modechoice) were run once before, to test the program.

Tables
    Those that come with scikit-learn and statsmodels, and those of the data folder. Regression (20): diabetes,
    california, concrete, energy, power, yacht, engel, fair (affairs), star98 (share of pupils above the median),
    randhie (visits), cancer, grunfeld (investment), ccard (spending), statecrime (murders), sunspots (next year from
    12 years), anes96 (days of news), macrodata (treasury bill rate without the real rate), claims, german credit
    (amount), adult (hours). Classification (18): iris, wine, breast cancer, digits, adult, bank marketing (without the
    duration of the call), german credit, anes96 (vote) and (party), fair (any affair), randhie (any visit), modechoice,
    claims (any), ccard (owner), star98 (at least half of the pupils above the median), heart (censored), spector,
    california (price at its cap).

Splits
    Three, with seeds 0 to 2: at most 1,000 random rows for training, at most three quarters of a table, and at most
    2,000 others for testing; classes in proportion. Tables of 51 to 72 rows, and spector with 32, stay in. Numbers are
    standardized on the training rows, and so are targets of regression. Categories are one-hot, those of fewer than ten
    rows together. All methods get the same columns.

Methods
    linear: Ridge(alpha=1), LogisticRegression(C=1). network: 20 tanh units, lbfgs, alpha=1, 200 iterations. Each alone
    (for regression with normal noise of the root mean square of its training residuals) and in a Ribbon with its
    defaults; classifiers also with temperature scaling by five folds. boosting, conformal: quantile
    HistGradientBoosting for each of eleven levels, on three quarters of the training rows, each level shifted by the
    conformal quantile of the residuals of the others. boosting: HistGradientBoostingClassifier. Gaussian process: an
    isotropic RBF kernel with noise, chosen by marginal likelihood on at most 500 training rows. Other settings are
    scikit-learn's defaults. TabICL is not here, because its weights have to be downloaded.

Criterion
    Regression: the mean pinball loss of the levels 0.05, 0.1, 0.2, ..., 0.9, 0.95, in standard deviations of y, which
    approximates half the CRPS. Classification: log loss, with probabilities of at least 1e-6. A table's winner has the
    best mean of three splits. Means over tables are of the logarithm of the ratio to the plain linear model.
    Also: coverage of 90% intervals, CRPS and NLL of methods with a density, Brier score.

Usage: python benchmarks/bench_public.py [table ...] [--jobs 2] [--again]
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: two jobs with one thread each
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import warnings
from functools import partial

import numpy as np
import pandas as pd
import records
import statsmodels.datasets
from _data import adult, bank_marketing, california, claims, german_credit, uci
from joblib import Parallel, delayed
from scipy.stats import norm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonRegressor

LEVELS = np.array([0.05, *np.arange(1, 10) / 10, 0.95])
SPLITS, MOST_TRAIN, MOST_TEST, FEWEST_OF_CATEGORY = 3, 1000, 2000, 10


# ---------------------------------------------------------------------- tables
def stats(name, target, drop=(), categories=()):
    frame = getattr(statsmodels.datasets, name).load_pandas().data
    y = target(frame) if callable(target) else frame[target]
    X = frame.drop(columns=[*drop, *([] if callable(target) else [target])])
    return X.astype(dict.fromkeys(categories, str)), np.asarray(y, dtype=float)


def share(frame):
    return frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"])


def sunspots(years=12):
    y = statsmodels.datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(float)
    return np.column_stack([y[k : len(y) - years + k] for k in range(years)]), y[years:]


def modechoice():
    """One row for each traveller, with the columns of every mode, and the mode that was chosen."""
    frame = statsmodels.datasets.modechoice.load_pandas().data
    wide = frame.pivot(index="individual", columns="mode", values=["ttme", "invc", "invt", "gc"])
    own = frame.groupby("individual")[["hinc", "psize"]].first()
    chosen = frame[frame["choice"] == 1].set_index("individual")["mode"]
    return np.column_stack([wide, own]), chosen.loc[wide.index].to_numpy()


def people(target):
    """Both parts of Adult; the target is "hours-per-week" or "class"."""
    (X, y), (X_test, y_test) = adult()
    X, y = pd.concat([X, X_test], ignore_index=True), np.concatenate([y, y_test])
    return (X, y) if target == "class" else (X.drop(columns=target), X[target].to_numpy(float))


def credit_amount():
    X, _ = german_credit()
    return X.drop(columns="credit_amount"), X["credit_amount"].to_numpy(float)


def bank():
    X, y = bank_marketing()
    return X.drop(columns="duration"), y


def whether(load, threshold):
    """The same columns, and whether the target is at least so large."""
    X, y = load()
    return X, y >= threshold


SHARES = partial(stats, "star98", share, drop=("NABOVE", "NBELOW"))
AFFAIRS, VISITS = partial(stats, "fair", "affairs"), partial(stats, "randhie", "mdvis")
REGRESSION = {
    "diabetes": partial(load_diabetes, return_X_y=True),
    "california": california,
    **{name: lambda name=name: uci(name)[:2] for name in ("concrete", "energy", "power", "yacht")},
    "engel": partial(stats, "engel", "foodexp"),
    "fair": AFFAIRS,
    "star98": SHARES,
    "randhie": VISITS,
    "cancer": partial(stats, "cancer", "cancer"),
    "grunfeld": partial(stats, "grunfeld", "invest", categories=("firm",)),
    "ccard": partial(stats, "ccard", "AVGEXP"),
    "statecrime": partial(stats, "statecrime", "murder"),
    "sunspots": sunspots,
    "anes96": partial(stats, "anes96", "TVnews"),
    "macrodata": partial(stats, "macrodata", "tbilrate", drop=("realint",)),
    "claims": claims,
    "german credit": credit_amount,
    "adult": partial(people, "hours-per-week"),
}
CLASSIFICATION = {
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "breast cancer": partial(load_breast_cancer, return_X_y=True),
    "digits": partial(load_digits, return_X_y=True),
    "adult": partial(people, "class"),
    "bank marketing": bank,
    "german credit": german_credit,
    "anes96, vote": partial(stats, "anes96", "vote"),
    "anes96, party": partial(stats, "anes96", "PID", drop=("vote",)),
    "fair, any": lambda: whether(AFFAIRS, 1e-9),
    "randhie, any": lambda: whether(VISITS, 1),
    "modechoice": modechoice,
    "claims, any": lambda: whether(claims, 1),
    "ccard, owner": partial(stats, "ccard", "OWNRENT"),
    "star98, half": lambda: whether(SHARES, 0.5),
    "heart": partial(stats, "heart", "censors"),
    "spector": partial(stats, "spector", "GRADE"),
    "california, cap": lambda: whether(california, 5.0),
}


def split(X, y, seed, stratify=None):
    """Training and test rows as arrays, standardized and one-hot on the training rows."""
    X, n = pd.DataFrame(X), min(MOST_TRAIN, 3 * len(y) // 4)
    train, test = train_test_split(np.arange(len(y)), train_size=n, random_state=seed, stratify=stratify)
    test = test[:MOST_TEST]
    numbers = make_column_selector(dtype_include=["number", "bool"])
    others = make_column_selector(dtype_exclude=["number", "bool"])
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=FEWEST_OF_CATEGORY, sparse_output=False)
    columns = make_column_transformer((StandardScaler(), numbers), (one_hot, others))
    return columns.fit_transform(X.iloc[train]), y[train], columns.transform(X.iloc[test]), y[test]


# ---------------------------------------------------------------------- distributional regressors
class Ribbon:
    """A regressor in a Ribbon, as a distributional regressor."""

    def __init__(self, model):
        self.ribbon = RibbonRegressor(model, random_state=0)

    def fit(self, X, y):
        self.ribbon.fit(X, y)
        return self

    def quantiles(self, X):
        return self.ribbon.predict_quantiles(X, LEVELS)

    def scores(self, X, y):
        distribution = self.ribbon.predict_distribution(X)
        return {"crps": np.mean(distribution.crps(y)), "nll": -np.mean(distribution.logpdf(y))}


class Normal:
    """Normal distributions: a model with constant noise, or a Gaussian process."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.model.fit(X, y)
        self.noise = np.sqrt(np.mean((y - self.model.predict(X)) ** 2))
        return self

    def moments(self, X):
        return self.model.predict(X), np.full(len(X), self.noise)

    def quantiles(self, X):
        mean, std = self.moments(X)
        return mean[:, None] + std[:, None] * norm.ppf(LEVELS)

    def scores(self, X, y):
        mean, std = self.moments(X)
        z = (y - mean) / std
        crps = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
        return {"crps": crps.mean(), "nll": -norm.logpdf(y, mean, std).mean()}


class Process(Normal):
    """Gaussian process whose kernel is chosen on some of the rows."""

    def fit(self, X, y, most=500):
        kernel = ConstantKernel() * RBF(np.sqrt(X.shape[1])) + WhiteKernel()
        some = np.random.default_rng(0).permutation(len(y))[:most]
        chosen = GaussianProcessRegressor(kernel, random_state=0).fit(X[some], y[some]).kernel_
        self.model.set_params(kernel=chosen, optimizer=None).fit(X, y)
        return self

    def moments(self, X):
        return self.model.predict(X, return_std=True)


class ConformalBoosting:
    """Boosted quantiles, each shifted by the conformal quantile of its residuals on a quarter of the rows."""

    def fit(self, X, y):
        X, X_held, y, y_held = train_test_split(X, y, test_size=0.25, random_state=0)
        self.models, self.shifts = [], []
        for level in LEVELS:
            model = HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0).fit(X, y)
            residuals, n = np.sort(y_held - model.predict(X_held)), len(y_held)
            place = np.ceil((n + 1) * level) if level > 0.5 else np.floor((n + 1) * level)
            self.models.append(model)
            self.shifts.append(residuals[int(np.clip(place - 1, 0, n - 1))])
        return self

    def quantiles(self, X):
        found = [model.predict(X) + shift for model, shift in zip(self.models, self.shifts, strict=True)]
        return np.sort(np.column_stack(found), axis=1)  # quantiles may cross

    def scores(self, X, y):
        return {"crps": np.nan, "nll": np.nan}


NETWORK = {"hidden_layer_sizes": (20,), "activation": "tanh", "solver": "lbfgs", "alpha": 1.0, "random_state": 0}
BASES = {"linear": Ridge(alpha=1.0), "network": MLPRegressor(**NETWORK)}
REGRESSORS = {
    **{f"{name}, constant noise": partial(Normal, model) for name, model in BASES.items()},
    **{f"{name}, Ribbon": partial(Ribbon, model) for name, model in BASES.items()},
    "boosting, conformal": ConformalBoosting,
    "Gaussian process": lambda: Process(GaussianProcessRegressor()),
}


def regression(name, seed):
    """Scores of every method on one split of a table."""
    X, y, X_test, y_test = split(*REGRESSION[name](), seed)
    center, scale = y.mean(), y.std()
    y, y_test = (y - center) / scale, (y_test - center) / scale
    for method, make in REGRESSORS.items():
        model = clone_of(make).fit(X, y)
        Q = model.quantiles(X_test)
        error = y_test[:, None] - Q
        pinball = np.maximum(LEVELS * error, (LEVELS - 1) * error).mean()
        covered = np.mean((Q[:, 0] <= y_test) & (y_test <= Q[:, -1]))
        yield {"method": method, "score": pinball, "covered": covered, **model.scores(X_test, y_test)}


def clone_of(make):
    """A new distributional regressor with an unfitted model."""
    if isinstance(make, partial):
        return make.func(clone(make.args[0]))
    return make()


# ---------------------------------------------------------------------- classifiers
def temperature(model):
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return CalibratedClassifierCV(model, method="temperature", cv=folds, ensemble=False)


CLASSES = {"linear": LogisticRegression(C=1.0, max_iter=1000), "network": MLPClassifier(**NETWORK)}
CLASSIFIERS = {
    **{f"{name}, plain": model for name, model in CLASSES.items()},
    **{f"{name}, Ribbon": RibbonClassifier(model, random_state=0) for name, model in CLASSES.items()},
    **{f"{name}, temperature": temperature(model) for name, model in CLASSES.items()},
    "boosting": HistGradientBoostingClassifier(random_state=0),
}


def classification(name, seed):
    """Scores of every method on one split of a table."""
    X, y = CLASSIFICATION[name]()
    y = np.unique(y, return_inverse=True)[1]
    X, y, X_test, y_test = split(X, y, seed, stratify=y)
    for method, model in CLASSIFIERS.items():
        P = clone(model).fit(X, y).predict_proba(X_test)
        loss = -np.log(np.maximum(P[np.arange(len(P)), y_test], 1e-6)).mean()
        brier = np.mean(np.sum((P - np.eye(P.shape[1])[y_test]) ** 2, axis=1))
        yield {"method": method, "score": loss, "brier": brier, "accuracy": np.mean(P.argmax(axis=1) == y_test)}


# ---------------------------------------------------------------------- runs
KINDS = {"regression": (REGRESSION, regression), "classification": (CLASSIFICATION, classification)}


def cell(kind, name, seed):
    warnings.simplefilter("ignore")
    return [{"kind": kind, "table": name, "seed": seed, **row} for row in KINDS[kind][1](name, seed)]


def means(rows):
    """Means over the splits of a table."""
    frame = pd.DataFrame(rows).drop(columns="seed")
    found = frame.groupby(["kind", "table", "method"], sort=False).mean().reset_index()
    return [{k: v for k, v in row.items() if v == v} for row in found.to_dict("records")]


def show(rows):
    """Print the criterion of every table, and its mean over tables relative to the plain linear model."""
    for kind in KINDS:
        frame = pd.DataFrame([row for row in rows if row["kind"] == kind])
        if len(frame):
            scores = frame.pivot(index="table", columns="method", values="score")[list(dict.fromkeys(frame["method"]))]
            print(scores.round(3).to_string(), flush=True)
            ratios = np.exp(np.log(scores.div(scores.iloc[:, 0], axis=0)).mean())
            wins = scores.idxmin(axis=1).value_counts()
            print(pd.DataFrame({"ratio": ratios.round(3), "wins": wins}).fillna(0).to_string(), flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("tables", nargs="*", help="tables of both kinds; all, if none is named")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    arguments = options.parse_args()
    whole = not arguments.tables
    if whole and records.skip("public", arguments.again):
        return
    todo = [
        (kind, name, seed)
        for kind, (tables, _) in KINDS.items()
        for name in tables
        for seed in range(SPLITS)
        if whole or name in arguments.tables
    ]
    found = Parallel(arguments.jobs, verbose=5)(delayed(cell)(*one) for one in todo)
    rows = means([row for part in found for row in part])
    show(rows)
    if whole:
        settings = {"splits": SPLITS, "train": MOST_TRAIN, "test": MOST_TEST, "levels": LEVELS}
        records.write("public", rows, "benchmarks/bench_public.py", settings)


if __name__ == "__main__":
    main()
