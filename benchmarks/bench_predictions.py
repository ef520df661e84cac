"""What predictive laws, class probabilities, noise and the tuning of alpha cost, as ratios within one run.

Usage: python benchmarks/bench_predictions.py [--only abcdefgh] [--repeats 3] [--clock cpu]

Run it with OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1: the small fits of scikit-learn, which are the unit of most lines,
take many times as long where two threads wait for each other.
"""

import warnings
from functools import partial

import numpy as np
from _harness import Line, best_of, measure, parser
from _peak_memory import resident_growth
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge, TweedieRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.exceptions import AlphaEdgeWarning, FamilyWarning, NotStationaryWarning

SEED = 0
CONSTANT = {"noise": "dof", "law": "normal"}


def tuned_counts(repeats, clock):
    """(a) RibbonCV of a Poisson model, 442 rows, against the six fits of the Ribbon that it cannot avoid."""
    X, y = load_diabetes(return_X_y=True)
    base = make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-3, max_iter=1000))
    yield from _against_six_fits("a", "Poisson, 442 rows", base, RibbonRegressor, X, y, 3.0, {}, repeats, clock)


def tuned_classes(repeats, clock):
    """(b) RibbonCV of a logistic regression with ten classes: digits."""
    X, y = load_digits(return_X_y=True)
    base = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    yield from _against_six_fits("b", "10 classes, 1,797 rows", base, RibbonClassifier, X, y, 8.0, {}, repeats, clock)


def tuned_ridge(repeats, clock):
    """(c) RibbonCV of a ridge regression, 50 alphas and 5 folds."""
    X, y = _linear(20_000, 40)
    alphas = {"alphas": np.logspace(-4, 2, 50)}
    name = "Ridge, 20,000 rows x 40, 50 alphas"
    for noise, Ribbon in (("", RibbonRegressor), (", constant noise", partial(RibbonRegressor, **CONSTANT))):
        yield from _against_six_fits("c", f"{name}{noise}", Ridge(), Ribbon, X, y, 1.15, alphas, 4 * repeats, clock)


def _against_six_fits(case, name, base, Ribbon, X, y, target, options, repeats, clock):
    s = best_of(
        repeats,
        clock,
        base=lambda: base.fit(X, y),
        fit=lambda: Ribbon(base).fit(X, y),
        tuned=lambda: RibbonCV(Ribbon(base), **options).fit(X, y),
    )
    yield Line(case, f"{name}: RibbonCV", s["tuned"] / (6 * s["fit"]), "six fits", target, s["tuned"])
    yield Line(case, f"{name}: the same", s["tuned"] / (6 * s["base"]), "six base fits", None, s["tuned"])


def rows_per_second(repeats, clock):
    """(d) Intervals of counts and of a compound law, in rows a second; target and measured are of microseconds."""
    rng = np.random.default_rng(SEED)
    n = 100_000
    X = rng.standard_normal((n, 8))
    mu = np.exp(1 + X @ rng.normal(size=8) / 4)
    for name, model, y, target in (
        ("Poisson", PoissonRegressor(alpha=1e-3), rng.poisson(mu).astype(float), 1.0),
        ("over-dispersed counts", PoissonRegressor(alpha=1e-3), rng.poisson(mu * rng.gamma(2, 0.5, n)) * 1.0, 1.0),
        ("Tweedie 1.5", TweedieRegressor(power=1.5, alpha=1e-3), _compound(mu, rng), 10.0),
        ("gamma", TweedieRegressor(power=2, alpha=1e-3), mu * rng.gamma(2, 0.5, n), 10.0),
    ):
        ribbon = RibbonRegressor(model).fit(X[:2000], y[:2000])
        s = best_of(
            repeats,
            clock,
            base=lambda ribbon=ribbon: ribbon.estimator_.predict(X),
            interval=lambda ribbon=ribbon: ribbon.predict_interval(X),
        )
        micro = s["interval"] / n * 1e6
        yield Line("d", f"{name}: predict_interval", micro, "microseconds a row", target, s["interval"])
        yield Line("d", f"{name}: the same", s["interval"] / s["base"], "base.predict", None, s["interval"])


def _compound(mu, rng):
    rate, scale = 2 * np.sqrt(mu), np.sqrt(mu) / 2  # power 1.5, dispersion 1
    return rng.standard_gamma(np.maximum(rng.poisson(rate), 1e-300)) * scale


def probabilities(repeats, clock):
    """(e) Averaged class probabilities of digits against the plain ones."""
    X, y = load_digits(return_X_y=True)
    ribbon = RibbonClassifier(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))).fit(X[::2], y[::2])
    s = best_of(
        3 * repeats,
        clock,
        base=lambda: ribbon.estimator_.predict_proba(X),
        mean=lambda: ribbon.predict_proba(X),
        interval=lambda: ribbon.predict_proba_interval(X),
    )
    for name, what, target in (("predict_proba", "mean", 20.0), ("predict_proba_interval", "interval", None)):
        yield Line("e", f"10 classes, 1,797 rows: {name}", s[what] / s["base"], "base.predict_proba", target, s[what])


def left_out_letters(repeats, clock):
    """(f) cv="loo" of a logistic regression with 26 classes."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(size=(26, 16))
    y = rng.integers(26, size=16_000)
    X = 1.5 * centres[y] + rng.standard_normal((len(y), 16))
    base = FrozenEstimator(LogisticRegression(max_iter=1000).fit(X, y))
    work = lambda: RibbonCV(RibbonClassifier(base), cv="loo").fit(X, y)  # noqa: E731
    yield Line("f", "26 classes, 16,000 rows: cv='loo'", best_of(1, clock, work=work)["work"], "seconds", 10.0)
    yield Line("f", "26 classes, 16,000 rows: peak resident", resident_growth(work), "MB", 1000.0)


def noise(repeats, clock):
    """(g) Noise that depends on x, and the default, over the fit with constant normal noise."""
    X, y = _uneven(15_000)
    s = best_of(
        2 * repeats,
        clock,
        plain=lambda: RibbonRegressor(**CONSTANT).fit(X, y),
        uneven=lambda: RibbonRegressor(noise="heteroskedastic", law="normal").fit(X, y),
        default=lambda: RibbonRegressor().fit(X, y),
    )
    yield Line("g", "15,000 x 8: heteroskedastic noise", s["uneven"] - s["plain"], "seconds more", 0.5, s["uneven"])
    yield Line("g", "15,000 x 8: the default", s["default"] - s["plain"], "seconds more", 0.5, s["default"])
    mlp = MLPRegressor(hidden_layer_sizes=(64,), activation="tanh", solver="lbfgs", max_iter=100, random_state=SEED)
    mlp.fit(X, y)
    G = np.random.default_rng(SEED).standard_normal((len(X), 641))
    s = best_of(
        2 * repeats,
        clock,
        unit=lambda: G.T @ G,
        plain=lambda: RibbonRegressor(FrozenEstimator(mlp), **CONSTANT).fit(X, y),
        default=lambda: RibbonRegressor(FrozenEstimator(mlp)).fit(X, y),
    )
    unit = "G'G of 15,000 x 641"
    yield Line("g", "MLP 8-64-1: constant normal noise", s["plain"] / s["unit"], unit, None, s["plain"])
    yield Line("g", "MLP 8-64-1: the default", s["default"] / s["unit"], unit, 4.0, s["default"])


def many_rows(repeats, clock):
    """(h) Intervals of a million rows of a linear model."""
    X, y = _linear(1_000_000, 20)
    for name, options, target in (("normal", CONSTANT, 5.0), ("the default", {}, None)):
        ribbon = RibbonRegressor(LinearRegression(), **options).fit(X[:5000], y[:5000])
        s = best_of(
            repeats,
            clock,
            base=lambda ribbon=ribbon: ribbon.estimator_.predict(X),
            interval=lambda ribbon=ribbon: ribbon.predict_interval(X),
        )
        what = f"10^6 x 20, noise {name}: predict_interval"
        yield Line("h", what, s["interval"] / s["base"], "base.predict", target, s["interval"])
        yield Line("h", f"{what}, peak", resident_growth(lambda ribbon=ribbon: ribbon.predict_interval(X)), "MB", 200.0)


def _linear(n, d):
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def _uneven(n):
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, 8))
    mean = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, mean + np.exp(0.5 * X[:, 0] + 0.5 * (X[:, 1] > 0)) * rng.standard_t(5, n)


CASES = {
    "a": tuned_counts,
    "b": tuned_classes,
    "c": tuned_ridge,
    "d": rows_per_second,
    "e": probabilities,
    "f": left_out_letters,
    "g": noise,
    "h": many_rows,
}


if __name__ == "__main__":
    options = parser(__doc__.splitlines()[0], CASES, repeats=3)
    arguments = options.parse_args()
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, NotStationaryWarning, AlphaEdgeWarning, FamilyWarning):
            warnings.simplefilter("ignore", category)
        measure("predictions", CASES, arguments)
