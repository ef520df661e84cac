"""How cost and memory grow: exponents in rows, parameters, classes, alphas and rows predicted, beside the theory.

Usage: python benchmarks/bench_growth.py [--only abcde] [--repeats 3] [--clock cpu]

An exponent is the slope of log seconds over log size between the larger sizes, where fixed costs matter less. Memory is
the peak of what Python and numpy allocate beyond X and the fitted model, in units of X at the largest size.
"""

import warnings

import numpy as np
from _harness import Line, best_of, measure, parser
from _peak_memory import traced_growth
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import RibbonWarning

SEED = 0
MB = 2**20


def rows(repeats, clock):
    """(a) Rows of a linear model: one pass, or two."""
    works, sizes = {}, (40_000, 160_000, 640_000)
    for n in sizes:
        X, y = _linear(n, 20)
        frozen = FrozenEstimator(LinearRegression().fit(X, y))
        works[n] = (lambda X=X, y=y, frozen=frozen: RibbonRegressor(frozen).fit(X, y)), X
    yield from _growth("a", "rows of a fit, 20 columns", works, 1.0, repeats, clock)


def parameters(repeats, clock):
    """(b) Columns of a linear model: p^2 a row."""
    works = {}
    for p in (50, 100, 200, 400):
        X, y = _linear(20_000, p)
        frozen = FrozenEstimator(LinearRegression().fit(X, y))
        works[p] = (lambda X=X, y=y, frozen=frozen: RibbonRegressor(frozen, noise="dof").fit(X, y)), X
    yield from _growth("b", "columns of a fit, 20,000 rows", works, 2.0, repeats, clock)


def classes(repeats, clock):
    """(c) Classes of a logistic regression: (K p)^2 a row, and (K p)^3 once."""
    works, predictions, rng = {}, {}, np.random.default_rng(SEED)
    for K in (5, 10, 20):
        y = rng.integers(K, size=4000)
        X = rng.normal(size=(K, 10))[y] + rng.standard_normal((len(y), 10))
        frozen = FrozenEstimator(LogisticRegression(max_iter=200).fit(X, y))
        ribbon = RibbonClassifier(frozen).fit(X, y)
        works[K] = (lambda X=X, y=y, frozen=frozen: RibbonClassifier(frozen).fit(X, y)), X
        predictions[K] = (lambda X=X, ribbon=ribbon: ribbon.predict_proba(X)), X
    yield from _growth("c", "classes of a fit, 4,000 rows x 10", works, 2.0, repeats, clock)
    yield from _growth("c", "classes of predict_proba, 4,000 rows x 10", predictions, 2.0, repeats, clock)


def alphas(repeats, clock):
    """(d) Alphas of RibbonCV: what each adds to the fits, which do not depend on them."""
    X, y = _linear(20_000, 20)
    works = {
        A: ((lambda A=A: RibbonCV(LinearRegression(), alphas=np.geomspace(1e-3, 1e2, A), cv=2).fit(X, y)), X)
        for A in (50, 100, 200, 400)
    }
    yield from _growth("d", "alphas of RibbonCV, 20,000 rows x 20", works, 1.0, repeats, clock)


def predicted(repeats, clock):
    """(e) Rows to predict: a block at a time."""
    sizes = (50_000, 200_000, 800_000)
    X, y = _linear(sizes[-1], 20)
    counts = np.random.default_rng(SEED).poisson(np.exp(1 + y / 10)).astype(float)
    for name, ribbon in (
        ("linear", RibbonRegressor(LinearRegression()).fit(X[:5000], y[:5000])),
        ("Poisson", RibbonRegressor(PoissonRegressor(alpha=1e-3)).fit(X[:5000], counts[:5000])),
    ):
        works = {n: ((lambda n=n, ribbon=ribbon: ribbon.predict_interval(X[:n])), X[:n]) for n in sizes}
        yield from _growth("e", f"rows of predict_interval, {name}, 20 columns", works, 1.0, repeats, clock)


def _growth(case, what, works, theory, repeats, clock):
    """Lines of an exponent with its theory and of peak memory over X, from works and their X by size."""
    seconds = best_of(repeats, clock, **{str(size): work for size, (work, _) in works.items()})
    sizes = np.array([float(size) for size in works])[-3:]
    slope = np.polyfit(np.log(sizes), np.log([seconds[str(int(size))] for size in sizes]), 1)[0]
    work, X = works[int(sizes[-1])]
    yield Line(case, f"{what}: exponent", slope, f"theory {theory:g}", theory + 0.3, seconds[str(int(sizes[-1]))])
    yield Line(case, f"{what}: peak memory", traced_growth(work) * MB / X.nbytes, "X")


def _linear(n, d):
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


CASES = {"a": rows, "b": parameters, "c": classes, "d": alphas, "e": predicted}


if __name__ == "__main__":
    options = parser(__doc__.splitlines()[0], CASES, repeats=3)
    arguments = options.parse_args()
    with warnings.catch_warnings():
        for category in (RibbonWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        measure("growth", CASES, arguments)
