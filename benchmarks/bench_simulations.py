"""Coverage and warnings in simulations, where the truth is known: the tables of doc/appendix/simulations.md.

    python benchmarks/bench_simulations.py [part ...] [--scale 1.0] [--jobs 2] [--again]

small_samples
    Confidence intervals of the mean at 20 new rows: least squares, three features, unit noise, three corrections.
many_features
    Prediction intervals of ridge with a penalty by RidgeCV and 100 features, for as many rows and for half as many,
    and a signal with the variance of the noise, or 100 times as much.
clusters
    Confidence intervals of three slopes, intra-group correlation 1/3: a column of groups, a column of rows, and two
    treated groups. Groups have ten rows each, or 1 to 20. CR2 and CR3 with t quantiles of G - 1 degrees of freedom; CR2
    with Satterthwaite's, the default; intervals that treat rows as independent.
time_series
    Confidence interval of the coefficient of one cosine over the series, with autoregressive errors: rows as
    independent, blocks of time_blocks(n), and blocks two and four times as long.
dependence
    Share of tables of five features, sorted by the first one, that raise a DependentRowsWarning.
outputs
    Joint prediction regions of three outputs and four features, and joint regions of the true means.
outliers
    Confidence intervals of the mean at 20 new rows: 100 rows, 4 features, 5 rows whose noise is 20 times as large
    (near), or whose features are 4 times as far out besides (far). Width is relative to least squares without the 5.
clipped_network
    Prediction intervals of 60 tanh units on 60 rows of a sine, weight decay 0.001, no damping, HC3, 200 draws. Width is
    relative to intervals of the noise alone. Widths are medians over samples.

Nominal coverage is 90% but for outputs. Each part has a record, simulated_<part>.
"""

import argparse
import warnings

import numpy as np
import records
from joblib import Parallel, delayed
from scipy.signal import lfilter
from scipy.stats import t as student
from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge, RidgeCV
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonCV, RibbonRegressor, time_blocks
from skribbon.exceptions import DependentRowsWarning
from skribbon.inspection import coefficients

LEVEL = 0.9


def inside(ends, truth):
    return (ends[..., 0] <= truth) & (truth <= ends[..., 1])


# ---------------------------------------------------------------------- few rows, many features
def small_samples(n, rng):
    X, new = rng.normal(size=(n, 3)), rng.normal(size=(20, 3))
    y, truth = X.sum(axis=1) + rng.normal(size=n), new.sum(axis=1)
    return {
        correction: inside(
            RibbonRegressor(LinearRegression(), noise="dof", correction=correction)
            .fit(X, y)
            .predict_interval(new, LEVEL, kind="confidence"),
            truth,
        ).mean()
        for correction in ("auto", "HC0", "HC3")
    }


def many_features(cell, rng):
    n, ratio = cell
    theta = rng.normal(size=100) * np.sqrt(ratio / 100)
    X, new = rng.normal(size=(n, 100)), rng.normal(size=(100, 100))
    y, y_new = (A @ theta + rng.normal(size=len(A)) for A in (X, new))
    base = RidgeCV(alphas=np.logspace(-2, 4, 25))
    models = {
        "default": RibbonRegressor(base),
        "HC2": RibbonRegressor(base, correction="HC2"),
        "RibbonCV": RibbonCV(base),
    }
    return {name: inside(model.fit(X, y).predict_interval(new, LEVEL), y_new).mean() for name, model in models.items()}


# ---------------------------------------------------------------------- dependent rows
SLOPES = ("column of groups", "column of rows", "two treated groups")


def covers(table):
    """Whether intervals of a coefficient table cover the coefficient 1."""
    return (table["conf_low"] <= 1) & (table["conf_high"] >= 1)


def clusters(cell, rng):
    """Hits of the three slopes by correction and degrees of freedom."""
    G, unequal = cell
    group = np.repeat(np.arange(G), rng.integers(1, 21, G) if unequal else 10)
    n = len(group)
    X = np.column_stack([rng.normal(size=G)[group], rng.normal(size=n), group < 2])
    y = X[:, 0] + X[:, 1] + X[:, 2] + np.sqrt(1 / 3) * rng.normal(size=G)[group] + np.sqrt(2 / 3) * rng.normal(size=n)
    found = {}
    for name, correction in {"CR2": "HC2", "CR3": "HC3"}.items():
        table = coefficients(RibbonRegressor(noise="dof", correction=correction).fit(X, y, groups=group), LEVEL)[:3]
        half = student.ppf((1 + LEVEL) / 2, G - 1) * table["std_error"]
        found[f"{name}, G - 1"] = np.abs(table["estimate"] - 1) <= half
        if name == "CR2":
            found["CR2, Satterthwaite"] = covers(table)
    table = coefficients(RibbonRegressor(noise="dof").fit(X, y), LEVEL)[:3]
    found["rows"] = covers(table)
    return {f"{slope}: {key}": bool(hits.iloc[j]) for key, hits in found.items() for j, slope in enumerate(SLOPES)}


def autoregressive(rng, n, correlation):
    """Series with unit variance, started 200 steps before."""
    return lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], rng.normal(size=n + 200))[200:]


def time_series(cell, rng):
    n, correlation = cell
    X = np.cos(2 * np.pi * np.arange(n) / n)[:, None]
    y = X[:, 0] + autoregressive(rng, n, correlation)
    length = int(np.ceil(2 * n ** (1 / 3)))  # the default of time_blocks
    groups = {"rows": None} | {f"{k}": time_blocks(n, k * length) for k in (1, 2, 4)}
    found = {}
    for name, blocks in groups.items():
        table = coefficients(RibbonRegressor(noise="dof").fit(X, y, groups=blocks), LEVEL)
        found[name] = bool(covers(table).iloc[0])
        if blocks is not None:
            found[f"blocks {name}"] = len(np.unique(blocks))
    return found


NOISES = {
    "independent, normal": lambda rng, x: rng.normal(size=len(x)),
    "independent, lognormal": lambda rng, x: rng.lognormal(size=len(x)),
    "independent, Cauchy": lambda rng, x: rng.standard_cauchy(len(x)),
    "independent, scale exp(0.75 x)": lambda rng, x: np.exp(0.75 * x) * rng.normal(size=len(x)),
    "independent, scale exp(1.5 x)": lambda rng, x: np.exp(1.5 * x) * rng.normal(size=len(x)),
    "autoregressive, 0.5": lambda rng, x: autoregressive(rng, len(x), 0.5),
    "autoregressive, 0.2": lambda rng, x: autoregressive(rng, len(x), 0.2),
    "groups of ten, correlation 1/3": lambda rng, x: (
        np.sqrt(1 / 3) * np.repeat(rng.normal(size=len(x) // 10), 10) + np.sqrt(2 / 3) * rng.normal(size=len(x))
    ),
}


def dependence(n, rng):
    X = rng.normal(size=(n, 5))
    X = X[np.argsort(X[:, 0])]
    found = {}
    for name, noise in NOISES.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            RibbonRegressor(noise=1.0, correction="HC0").fit(X, X.sum(axis=1) + noise(rng, X[:, 0]))
        found[name] = any(issubclass(own.category, DependentRowsWarning) for own in caught)
    return found


# ---------------------------------------------------------------------- several outputs
LEVELS = (0.5, 0.8, 0.9, 0.95)
ROOT = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.3, 0.4, 1.5]])
COEFFICIENTS = np.random.default_rng(0).normal(size=(4, 3))
TANH = {"activation": "tanh", "solver": "lbfgs"}
PERCEPTRON = MLPRegressor(hidden_layer_sizes=(5,), alpha=1.0, max_iter=500, random_state=0, **TANH)
DOF = {"noise": "dof"}
# base model, parameters, noise, rows, kind
OUTPUTS = {
    'least squares, `noise="dof"`; normal; 50': (LinearRegression(), DOF, "normal", 50, "prediction"),
    'least squares, `noise="dof"`; normal; 200': (LinearRegression(), DOF, "normal", 200, "prediction"),
    "ridge, defaults; normal; 200": (Ridge(2.0), {}, "normal", 200, "prediction"),
    "least squares, defaults; scale depends on x; 400": (LinearRegression(), {}, "varying", 400, "prediction"),
    "least squares, defaults; Student's, 5 degrees of freedom; 400": (
        LinearRegression(),
        {},
        "Student",
        400,
        "prediction",
    ),
    'perceptron, 5 units, `noise="dof"`; normal; 300': (PERCEPTRON, DOF, "normal", 300, "prediction"),
    'true means, least squares, `noise="dof"`; normal; 60': (LinearRegression(), DOF, "normal", 60, "confidence"),
    'true means, least squares, `noise="dof"`; normal; 200': (LinearRegression(), DOF, "normal", 200, "confidence"),
}


def outputs(name, rng):
    base, options, law, n, kind = OUTPUTS[name]

    def draw(n):
        X = rng.normal(size=(n, 4))
        noise = rng.standard_t(5, size=(n, 3)) * np.sqrt(3 / 5) if law == "Student" else rng.normal(size=(n, 3))
        scale = np.exp(0.5 * X[:, [0]]) if law == "varying" else 1.0
        return X, X @ COEFFICIENTS + noise @ ROOT.T * scale

    (X, Y), (new, Y_new) = draw(n), draw(200)
    target = Y_new if kind == "prediction" else new @ COEFFICIENTS
    own = RibbonRegressor(base, **options).fit(X, Y).predict_distribution(new, kind).joint_level(target)
    return {f"{level}": np.mean(own <= level) for level in LEVELS}


# ---------------------------------------------------------------------- bounded influence
THETA = np.array([1.0, -1.0, 0.5, 0.0])
BASES = {"least squares": LinearRegression(), "Huber": HuberRegressor(alpha=0.0, max_iter=1000)}


def outliers(kind, rng):
    X, noise, new = rng.normal(size=(100, 4)), rng.normal(size=100), rng.normal(size=(20, 4))
    noise[:5] *= 20
    y, truth = X @ THETA + noise, new @ THETA
    clean = RibbonRegressor(noise="dof").fit(X[5:], (X @ THETA)[5:] + noise[5:])
    unit = np.diff(clean.predict_interval(new, LEVEL, kind="confidence")).mean()
    X[:5] *= 4 if kind == "far" else 1
    found = {}
    for name, base in BASES.items():
        for clip in (None, 10.0, 5.0, 3.0):
            ribbon = RibbonRegressor(base, noise="dof", clip_scores=clip).fit(X, y)
            ends = ribbon.predict_interval(new, LEVEL, kind="confidence")
            found[f"{name}, {clip}"] = inside(ends, truth).mean()
            found[f"{name}, {clip}: width"] = np.diff(ends).mean() / unit
    return found


def clipped_network(_, rng):
    x, new = rng.uniform(-3, 3, (60, 1)), rng.uniform(-3, 3, (200, 1))
    y, y_new = (np.sin(2 * A[:, 0]) + 0.2 * rng.normal(size=len(A)) for A in (x, new))
    seed = int(rng.integers(2**31))
    base = MLPRegressor(hidden_layer_sizes=(60,), alpha=1e-3, max_iter=5000, random_state=seed, **TANH)
    options = {"damping": 0.0, "correction": "HC3", "noise": "dof", "predictive": "pushforward"}
    found = {}
    for name, clips in {"clip_scores": (None, 10.0, 5.0, 3.0), "clip_steps": (10.0, 3.0, 1.0)}.items():
        for clip in clips:
            ribbon = RibbonRegressor(base, n_draws=200, random_state=seed, **options, **{name: clip}).fit(x, y)
            ends = ribbon.predict_interval(new, LEVEL)
            found[f"{name}, {clip}"] = inside(ends, y_new).mean()
            found[f"{name}, {clip}: width"] = np.diff(ends).mean() / (2 * 1.645 * 0.2)
    return found


# ---------------------------------------------------------------------- running
# one sample of a cell: function; cells; number of samples, of all cells or of each
PARTS = {
    "small_samples": (small_samples, (10, 20, 40, 320), 400),
    "many_features": (many_features, [(n, ratio) for ratio in (1, 100) for n in (100, 50)], 100),
    "clusters": (clusters, [(G, unequal) for G in (8, 15, 40) for unequal in (False, True)], 400),
    "time_series": (time_series, [(n, r) for n in (200, 1000) for r in (0.5, 0.8, 0.95)], 400),
    "dependence": (dependence, (100, 300, 1000, 10_000), (2000, 2000, 1000, 200)),
    "outputs": (outputs, tuple(OUTPUTS), 60),
    "outliers": (outliers, ("near", "far"), 300),
    "clipped_network": (clipped_network, ("sine",), 20),
}


def sample(function, cell, seed):
    warnings.simplefilter("ignore")
    return function(cell, np.random.default_rng(seed))


def run(part, scale, jobs):
    """Rows of a part: cell, number of samples, means of what its function measures, and medians of widths."""
    function, cells, counts = PARTS[part]
    rows = []
    for k, (cell, count) in enumerate(zip(cells, np.broadcast_to(counts, len(cells)), strict=True)):
        size = max(int(count * scale), 2)
        found = Parallel(jobs)(delayed(sample)(function, cell, [k, seed]) for seed in range(size))
        columns = {key: [own[key] for own in found] for key in found[0]}
        row = {key: float((np.median if "width" in key else np.mean)(own)) for key, own in columns.items()}
        rows.append({"cell": cell, "samples": size, **row})
        print(f"{part}, {cell}: " + ", ".join(f"{key} {value:.3f}" for key, value in row.items()), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the samples; only all of them are recorded")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    arguments = parser.parse_args()
    for part in arguments.parts:
        name, whole = f"simulated_{part}", arguments.scale == 1
        if not (whole and records.skip(name, arguments.again)):
            rows = run(part, arguments.scale, arguments.jobs)
            if whole:
                records.write(name, rows, "benchmarks/bench_simulations.py")


if __name__ == "__main__":
    main()
