"""What Ribbon costs on top of the base model, as ratios within one run, and how much memory it takes.

Usage: python benchmarks/bench_core.py [--only abcde] [--repeats 5] [--clock cpu]

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
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.exceptions import NotStationaryWarning

SEED = 0


def perceptron(repeats, clock):
    """(a) MLP 8-64-1, p = 641: the floor is one Gram matrix of the scores, which any sandwich has to form."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((15_000, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    mlp = MLPRegressor(hidden_layer_sizes=(64,), activation="tanh", solver="lbfgs", max_iter=200, random_state=SEED)
    refit = best_of(1, clock, refit=lambda: mlp.fit(X, y))["refit"]
    ribbon = RibbonRegressor(FrozenEstimator(mlp), noise="dof").fit(X, y)
    G = rng.standard_normal((len(X), len(ribbon.model_.theta)))
    s = best_of(
        2 * repeats,
        clock,
        unit=lambda: G.T @ G,
        fit=lambda: RibbonRegressor(FrozenEstimator(mlp), noise="dof").fit(X, y),
        default=lambda: RibbonRegressor(FrozenEstimator(mlp)).fit(X, y),
        predict=lambda: ribbon.predict_interval(X[:4000]),
    )
    unit = "G'G of 15,000 x 641"
    yield Line("a", "bare G'G, the unit", 1.0, unit, seconds=s["unit"])
    yield Line("a", "MLP 8-64-1: Ribbon's own part of fit", s["fit"] / s["unit"], unit, 4.5, s["fit"])
    yield Line("a", "MLP 8-64-1: the same, with the noise asked", s["default"] / s["unit"], unit, seconds=s["default"])
    yield Line("a", "MLP 8-64-1: predict_interval, 4,000 rows", s["predict"] / s["unit"], unit, 0.6, s["predict"])
    yield Line("a", "MLP 8-64-1: 100 refits, 200 iterations each", 100 * refit / s["unit"], unit, seconds=100 * refit)


def least_squares(repeats, clock):
    """(b) Linear regression, where the base fit itself is only a few passes over X."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((1_000_000, 50))
    y = X @ rng.standard_normal(50) + rng.standard_normal(len(X))
    base = LinearRegression()
    yield from _against_base("b", "n = 10^6, 50 features", base, RibbonRegressor, X, y, 1.6, repeats, clock)
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


CASES = {"a": perceptron, "b": least_squares, "c": logistic, "d": multinomial, "e": memory}


if __name__ == "__main__":
    options = parser(__doc__.splitlines()[0], CASES, repeats=5)
    arguments = options.parse_args()
    with warnings.catch_warnings():  # the network is stopped early: only its size matters here
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", NotStationaryWarning)
        measure("core", CASES, arguments)
