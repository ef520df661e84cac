"""The sets, their splits and their base models. What is chosen here is chosen on training rows."""

import numpy as np
from _data import california, claims, uci
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .measure import Case

DECAYS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
MOST_ROWS = 5000  # for the choice of a weight decay, and of counts


def standardized(train, *arrays):
    mean, scale = train.mean(axis=0), train.std(axis=0)
    return [(a - mean) / np.where(scale > 0, scale, 1.0) for a in arrays]


def standardized_case(name, split, base, X, y, train, test):
    X_train, X_test = standardized(X[train], X[train], X[test])
    t_train, t_test = standardized(y[train], y[train], y[test])
    return Case(name, split, base, X_train, t_train, X_test, t_test, scale=y[train].std())


# ---------------------------------------------------------------------- linear models, GLMs
def linear_set(name):
    """X, y and whether y is a count."""
    if name == "diabetes":
        return *load_diabetes(return_X_y=True), False
    if name == "freMTPL2":
        return *claims(), True
    from statsmodels import datasets

    data = getattr(datasets, name).load_pandas()
    frame = data.data.astype(float)
    if name == "engel":
        return frame[["income"]].to_numpy(), frame["foodexp"].to_numpy(), False
    if name == "star98":  # share of pupils above the national median
        return data.exog.to_numpy(float), (frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"])).to_numpy(), False
    return data.exog.to_numpy(float), data.endog.to_numpy(float), name == "randhie"


LINEAR = ("diabetes", "engel", "star98", "fair", "randhie", "freMTPL2")


def linear_cases(name, splits, most_rows=MOST_ROWS):
    X, y, counts = linear_set(name)
    model = PoissonRegressor(alpha=1e-3, max_iter=1000) if counts else LinearRegression()
    sizes = {"train_size": most_rows, "test_size": 2000 * most_rows // 5000} if counts else {"test_size": 0.2}
    for k, (train, test) in enumerate(ShuffleSplit(splits, random_state=0, **sizes).split(X)):
        yield Case(name, k, make_pipeline(StandardScaler(), model), X[train], y[train], X[test], y[test], counts=counts)


# ---------------------------------------------------------------------- simulated linear models
def bimodal(rng, x):
    return rng.choice([-0.95, 0.95], len(x)) + np.sqrt(1 - 0.95**2) * rng.standard_normal(len(x))


NOISES = {  # each of mean 0 and variance 1
    "normal": lambda rng, x: rng.standard_normal(len(x)),
    "lognormal": lambda rng, x: (rng.lognormal(size=len(x)) - np.exp(0.5)) / np.sqrt(np.e * (np.e - 1)),
    "bimodal": bimodal,
    "Student 3": lambda rng, x: rng.standard_t(3, len(x)) / np.sqrt(3),
    "heteroskedastic": lambda rng, x: np.exp(0.5 * x - 0.25) * rng.standard_normal(len(x)),  # E exp(x - 1/2) = 1
}


def simulated_cases(noise, splits, n=100, n_test=1000, p=5):
    for k in range(splits):
        rng = np.random.default_rng([list(NOISES).index(noise), k])
        X, beta = rng.standard_normal((n + n_test, p)), rng.standard_normal(p)
        y = X @ beta + NOISES[noise](rng, X[:, 0])
        yield Case(noise, k, LinearRegression(), X[:n], y[:n], X[n:], y[n:])


# ---------------------------------------------------------------------- networks trained to a minimum
def network(units, decay, seed, max_iter=1000):
    settings = {"activation": "tanh", "solver": "lbfgs", "max_iter": max_iter}
    return MLPRegressor(hidden_layer_sizes=(units,), alpha=decay, random_state=seed, **settings)


def chosen_decay(units, X, y, max_iter, n_jobs):
    """Weight decay with the smallest squared error of five folds, over at most 5,000 of the rows."""
    rows = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    X, t = standardized(X[rows], X[rows])[0], standardized(y[rows], y[rows])[0]
    search = GridSearchCV(
        network(units, 1.0, 0, max_iter),
        {"alpha": DECAYS},
        scoring="neg_mean_squared_error",
        cv=KFold(5, shuffle=True, random_state=0),
        n_jobs=n_jobs,
    )
    return search.fit(X, t).best_params_["alpha"]


UCI = ("boston", "concrete", "energy", "power", "yacht")


def uci_cases(name, splits, n_jobs):
    X, y, tests = uci(name)
    max_iter = 300 if name == "power" else 1000
    trains = [np.setdiff1d(np.arange(len(y)), test) for test in tests[:splits]]
    decay = chosen_decay(50, X[trains[0]], y[trains[0]], max_iter, n_jobs)
    print(f"{name}: weight decay {decay}", flush=True)
    for k, train in enumerate(trains):
        yield standardized_case(name, k, network(50, decay, k, max_iter), X, y, train, tests[k])


def california_cases(splits, seeds, n_jobs, n_train=None):
    """Splits of 80 % training and 20 % test rows, each with several networks."""
    X, y = california()
    decay = None
    for k, (train, test) in enumerate(ShuffleSplit(splits, test_size=0.2, random_state=0).split(X)):
        train = train[:n_train]
        if decay is None:
            decay = chosen_decay(64, X[train], y[train], 400, n_jobs)
            print(f"california: weight decay {decay}", flush=True)
        for seed in range(seeds):
            yield standardized_case("california", k * seeds + seed, network(64, decay, seed, 400), X, y, train, test)


# ---------------------------------------------------------------------- networks as people train them
NETWORKS = {
    "defaults": {},
    "two layers": {"hidden_layer_sizes": (100, 100)},
    "early stopping": {"early_stopping": True},
}
SIZES = (500, 1000, 5000, 15_000)


def default_network_cases(name, networks=tuple(NETWORKS), sizes=SIZES):
    """The last tenth of the shuffled rows is for tests; a set of fewer than 1,000 training rows is also taken whole."""
    X, y = california() if name == "california" else uci(name)[:2]
    train, test = np.split(np.random.default_rng(0).permutation(len(y)), [int(0.9 * len(y))])
    for n in [n for n in sizes if n <= len(train)] + [len(train)] * (len(train) < 1000):
        for title in networks:
            base = make_pipeline(StandardScaler(), MLPRegressor(**NETWORKS[title], random_state=0))
            yield standardized_case(f"{name}, {n} rows, {title}", 0, base, X, y, train[:n], test)
