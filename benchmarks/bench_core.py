"""What Ribbon costs on top of the base model, as ratios within one run, and how much memory it takes.

Usage: python benchmarks/bench_core.py [--only abcdefg] [--repeats 5] [--clock cpu]

On a busy machine, wall-clock ratios of multithreaded code mean little: there, run it with OPENBLAS_NUM_THREADS=1
OMP_NUM_THREADS=1 and ``--clock cpu``.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from _harness import Line, best_of, measure, parser
from _peak_memory import resident_growth
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.exceptions import RibbonWarning

SEED = 0


PLAIN = {"noise": "dof", "law": "normal"}  # a ribbon alone, without a question to the noise


def network(n, units, iterations=200):
    """Rows of eight features and an MLP 8-units-1, stopped early: only its size matters here."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)
    mlp = MLPRegressor(hidden_layer_sizes=(units,), activation="tanh", solver="lbfgs", random_state=SEED)
    return X, y, mlp.set_params(max_iter=iterations)


def perceptron(repeats, clock):
    """(a) MLP 8-64-1, p = 641: the unit is one Gram matrix of the scores, which a plain sandwich forms twice."""
    X, y, mlp = network(15_000, 64)
    refit = best_of(1, clock, refit=lambda: mlp.fit(X, y))["refit"]
    frozen = FrozenEstimator(mlp)
    ribbon = RibbonRegressor(frozen, **PLAIN).fit(X, y)
    G = np.random.default_rng(SEED).standard_normal((len(X), len(ribbon.model_.theta)))
    s = best_of(
        2 * repeats,
        clock,
        unit=lambda: G.T @ G,
        fit=lambda: RibbonRegressor(frozen, correction="HC1", **PLAIN).fit(X, y),
        default=lambda: RibbonRegressor(frozen).fit(X, y),
        predict=lambda: ribbon.predict_interval(X[:4000]),
    )
    unit = "G'G of 15,000 x 641"
    yield Line("a", "bare G'G, the unit", 1.0, unit, seconds=s["unit"])
    yield Line("a", "MLP 8-64-1: Ribbon's own part of fit, HC1", s["fit"] / s["unit"], unit, 2.6, s["fit"])
    yield Line("a", "MLP 8-64-1: the same, with the defaults", s["default"] / s["unit"], unit, 4.0, s["default"])
    yield Line("a", "MLP 8-64-1: predict_interval, 4,000 rows", s["predict"] / s["unit"], unit, 0.32, s["predict"])
    yield Line("a", "MLP 8-64-1: 100 refits, 200 iterations each", 100 * refit / s["unit"], unit, seconds=100 * refit)
    yield from _in_products("MLP 8-64-1, HC3", *network(5000, 64), "HC3", 5.0, 2 * repeats, clock)
    yield from _in_products("MLP 8-256-1, HC1", *network(8000, 256, 100), "HC1", 6.0, 2, clock)


def _in_products(what, X, y, mlp, correction, target, repeats, clock):
    frozen = FrozenEstimator(mlp.fit(X, y))
    p = sum(a.size for a in (*mlp.coefs_, *mlp.intercepts_))
    G = np.random.default_rng(SEED).standard_normal((len(X), p))
    s = best_of(
        repeats,
        clock,
        unit=lambda: G.T @ G,
        fit=lambda: RibbonRegressor(frozen, correction=correction, **PLAIN).fit(X, y),
    )
    yield Line("a", f"{what}: own part, n = {len(X):,}", s["fit"] / s["unit"], f"G'G, p = {p:,}", target, s["fit"])


def least_squares(repeats, clock):
    """(b) Linear regression, where the base fit itself is only a few passes over X."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((1_000_000, 50))
    y = X @ rng.standard_normal(50) + rng.standard_normal(len(X))
    base = LinearRegression()
    yield from _against_base("b", "n = 10^6, 50 features", base, RibbonRegressor, X, y, 1.2, repeats, clock)
    try:
        import statsmodels.api as sm
    except ImportError:
        return
    s = best_of(
        2,
        clock,
        base=lambda: base.fit(X, y),
        peer=lambda: sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC0"),
    )
    unit = "LinearRegression.fit"
    yield Line("b", "statsmodels OLS with HC0, same data", s["peer"] / s["base"], unit, seconds=s["peer"])


def logistic(repeats, clock):
    """(c) Binary logistic regression on features that overlap, as those of tables do."""
    X, y = _overlapping(200_000, n_classes=2)
    yield from _against_base(
        "c", "n = 2*10^5, 50 features", LogisticRegression(), RibbonClassifier, X, y, 1.6, repeats, clock
    )


def multinomial(repeats, clock):
    """(d) Ten classes: 459 parameters that probabilities can see. Independent features, on which lbfgs needs only a
    few iterations, are the hardest unit to be measured in: they have a line of their own, without a target."""
    X, y = _overlapping(100_000, n_classes=10)
    base = LogisticRegression(max_iter=1000)
    size = "n = 10^5, 50 features, 10 classes"
    yield from _against_base("d", size, base, RibbonClassifier, X, y, 2.0, repeats, clock)
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((100_000, 50))
    y = (X @ rng.standard_normal((50, 10)) / 3 + rng.gumbel(size=(len(X), 10))).argmax(axis=1)
    yield from _against_base("d", f"{size}, independent", base, RibbonClassifier, X, y, None, repeats, clock)


def _overlapping(n, n_classes):
    """scikit-learn's generator with informative, redundant and useless columns."""
    return make_classification(
        n, 50, n_informative=25, n_redundant=15, n_classes=n_classes, n_clusters_per_class=1, random_state=SEED
    )


def _against_base(case, size, base, Ribbon, X, y, target, repeats, clock):
    """The whole fit of Ribbon, base model included, and its own part, over the same base model's fit alone."""
    frozen = FrozenEstimator(base.fit(X, y))
    s = best_of(
        repeats,
        clock,
        base=lambda: base.fit(X, y),
        whole=lambda: Ribbon(base).fit(X, y),
        own=lambda: Ribbon(frozen).fit(X, y),
    )
    unit, name = f"{type(base).__name__}.fit", Ribbon.__name__
    steps = f" ({np.max(base.n_iter_)} iterations)" if hasattr(base, "n_iter_") else ""  # easy data, cheap unit
    yield Line(case, f"{size}: base fit{steps}", 1.0, unit, seconds=s["base"])
    yield Line(case, f"{size}: {name}.fit", s["whole"] / s["base"], unit, target, s["whole"])
    yield Line(case, f"{size}: its own part", s["own"] / s["base"], unit, seconds=s["own"])


def memory(repeats, clock):
    """(e) Peak memory of Ribbon's own part beyond X, each size in a process of its own."""
    script = Path(__file__).with_name("_peak_memory.py")
    peaks = {}
    for n in (500_000, 1_000_000, 2_000_000):
        run = subprocess.run([sys.executable, script, str(n)], capture_output=True, text=True, check=True)
        peaks[n] = json.loads(run.stdout)
        for kind in ("traced", "resident"):
            if peaks[n][kind] is not None:
                yield Line("e", f"n = {n:,}, 50 features: peak {kind}", peaks[n][kind], "MB beyond X", 200.0)
    growth = (peaks[2_000_000]["traced"] - peaks[500_000]["traced"]) * 2**20 / (1_500_000 * 50 * 8)
    yield Line("e", "growth of the traced peak, 5*10^5 to 2*10^6", growth, "of the growth of X", 0.05)


def many_classes(repeats, clock):
    """(f) Own part of a multinomial model of many classes, and of a network of 26."""
    rng = np.random.default_rng(SEED)
    for K, target in ((26, 5.0), (50, 8.0)):
        X = rng.standard_normal((5000, 20))
        y = (X @ rng.standard_normal((20, K)) / 2 + rng.gumbel(size=(5000, K))).argmax(axis=1)
        base = LogisticRegression(max_iter=1000).fit(X, y)
        frozen = FrozenEstimator(base)
        s = best_of(
            repeats,
            clock,
            base=lambda base=base, X=X, y=y: base.fit(X, y),
            own=lambda frozen=frozen, X=X, y=y: RibbonClassifier(frozen).fit(X, y),
        )
        what = f"{K} classes, n = 5,000, 20 features: own part"
        yield Line("f", what, s["own"] / s["base"], "LogisticRegression.fit", target, s["own"])
        yield from _peak_of(f"{K} classes, n = 5,000, 20 features", frozen, X, y, 500.0)
    X = rng.standard_normal((15_000, 16))
    hidden = np.tanh(X @ rng.standard_normal((16, 30)) / 3)
    y = (3 * hidden @ rng.standard_normal((30, 26)) / 2 + rng.gumbel(size=(len(X), 26))).argmax(axis=1)
    frozen = FrozenEstimator(MLPClassifier(max_iter=20, random_state=SEED).fit(X, y))
    own = best_of(1, clock, own=lambda: RibbonClassifier(frozen).fit(X, y))["own"]
    yield Line("f", "MLPClassifier, 26 classes, n = 15,000: own part", own, "seconds", 20.0, own)
    yield from _peak_of("MLPClassifier, 26 classes, n = 15,000", frozen, X, y, 1000.0)


def _peak_of(what, frozen, X, y, target):
    """Peak memory of a classifier's own part, where the system tells it."""
    peak = resident_growth(lambda: RibbonClassifier(frozen).fit(X, y))
    if peak is not None:
        yield Line("f", f"{what}: peak resident", peak, "MB beyond X", target)


def one_row(repeats, clock):
    """(g) A single row, as a service asks for it."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((500, 8))
    y = X @ rng.standard_normal(8) + rng.standard_normal(500)
    for base in (LinearRegression(), MLPRegressor(hidden_layer_sizes=(64,), max_iter=50, random_state=SEED)):
        ribbon = RibbonRegressor(base).fit(X, y)
        s = best_of(
            repeats,
            clock,
            base=lambda ribbon=ribbon: [ribbon.estimator_.predict(X[:1]) for _ in range(200)],
            interval=lambda ribbon=ribbon: [ribbon.predict_interval(X[:1]) for _ in range(200)],
        )
        name = type(base).__name__
        ratio = s["interval"] / s["base"]
        yield Line("g", f"one row: predict_interval, {name}", ratio, "base.predict", 1.5, s["interval"] / 200)


CASES = {
    "a": perceptron,
    "b": least_squares,
    "c": logistic,
    "d": multinomial,
    "e": memory,
    "f": many_classes,
    "g": one_row,
}


if __name__ == "__main__":
    options = parser(__doc__.splitlines()[0], CASES, repeats=5)
    arguments = options.parse_args()
    with warnings.catch_warnings():  # the network is stopped early: only its size matters here
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RibbonWarning)
        measure("core", CASES, arguments)
