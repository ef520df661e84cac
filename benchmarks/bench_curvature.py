"""How good the structured curvatures are, what they cost, and how far they reach.

Usage: python benchmarks/bench_curvature.py [--only abc] [--repeats 3] [--clock cpu]
"""

import json
import resource
import subprocess
import sys
import warnings
from argparse import SUPPRESS
from contextlib import redirect_stdout
from functools import partial

import autograd.numpy as anp
import numpy as np
from _harness import CLOCKS, Line, best_of, measure, parser
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier, MLPRegressor

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.curvature import KFAC, Diagonal, EmpiricalFisher, GaussNewton, Hessian, LastLayer, LowRank, MatrixFree
from skribbon.exceptions import RibbonWarning
from skribbon.models import AutogradRegressor

SEED = 0
TARGETS = {"kfac": 5.0, "matrix_free": 60.0}  # epochs of training that the large network's fit may take
CURVATURES = {
    "hessian": Hessian(damping=1e-3),  # a network's is indefinite more often than not
    "ggn": GaussNewton(),
    "fisher": EmpiricalFisher(),
    "kfac": KFAC(),
    "low_rank 95%": LowRank(rank=0.95),
    "low_rank 99.9%": LowRank(),
    "diag": Diagonal(),
    "last_layer": LastLayer(),
    "matrix_free": MatrixFree(),
    "matrix_free tol=0.001": MatrixFree(tol=1e-3),
}


# ---------------------------------------------------------------------- (a) quality
def quality(repeats, clock):
    """(a) Small networks at a minimum, where the dense Gauss-Newton ribbon is affordable: standard errors of the raw
    prediction at held-out rows relative to it. HC0, so that the curvatures alone differ."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((3000, 8))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    settings = {"activation": "tanh", "solver": "lbfgs", "max_iter": 5000, "max_fun": 50_000, "random_state": SEED}
    regressor = MLPRegressor(hidden_layer_sizes=(20, 10), alpha=3.0, **settings)
    y = signal + 0.3 * rng.standard_normal(len(X))
    yield from _compared("regressor", RibbonRegressor, regressor, X, y, repeats, clock)
    classifier = MLPClassifier(hidden_layer_sizes=(20, 10), alpha=3.0, **settings)
    logits = 2 * np.column_stack([signal, X[:, 3] * X[:, 4], X[:, 5]])
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    yield from _compared("classifier", RibbonClassifier, classifier, X, y, repeats, clock)


def _compared(kind, Ribbon, network, X, y, repeats, clock):
    train, test = slice(0, 2000), slice(2000, None)
    frozen = FrozenEstimator(network.fit(X[train], y[train]))
    # 200 draws, which matrix_free holds, have an error of 5 percent of their own
    make = partial(Ribbon, frozen, correction="HC0", n_draws=200, random_state=SEED)

    def fit(curvature):
        return make(curvature=curvature).fit(X[train], y[train])

    dense = fit(CURVATURES["ggn"])
    root, p = dense._raw_root(X[test]), len(dense.model_.theta)  # (n, k, r)
    for name, curvature in CURVATURES.items():
        what = f"{kind}, p = {p}: {name}"
        ribbon = fit(curvature)
        s = best_of(
            repeats, clock, dense=lambda: fit(CURVATURES["ggn"]), fit=lambda curvature=curvature: fit(curvature)
        )
        theirs = ribbon._raw_root(X[test])
        ratio = np.sqrt((theirs**2).sum(axis=2) / (root**2).sum(axis=2)).ravel()
        for q in (10, 50, 90):
            yield Line("a", f"{what}, {q}th percentile", float(np.percentile(ratio, q)), "std of dense ggn")
        error = _covariance_error(theirs.reshape(-1, theirs.shape[2]), root.reshape(-1, root.shape[2]))
        yield Line("a", f"{what}, covariance of predictions", error, "relative error")
        yield Line("a", f"{what}, fit", s["fit"] / s["dense"], "fit of dense ggn", seconds=s["fit"])


def _covariance_error(A, B):
    """|AA' - BB'| / |BB'| in the Frobenius norm, from Gram matrices of the roots: J Cov J' over all held-out rows.

    Of held draws this is mostly their own noise, sqrt(dimensions / draws).
    """
    square = np.sum((A.T @ A) ** 2) + np.sum((B.T @ B) ** 2) - 2 * np.sum((A.T @ B) ** 2)
    return float(np.sqrt(max(square, 0.0) / np.sum((B.T @ B) ** 2)))


# ---------------------------------------------------------------------- (b) reach
def reach(repeats, clock):
    """(b) MLP 100-300-200-10, p = 92,510, n = 20,000, each curvature in a process of its own."""
    for name in TARGETS:
        script = [sys.executable, __file__, "--large", name, "--clock", clock]
        run = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True)  # progress goes to stderr
        r = json.loads(run.stdout.splitlines()[-1])
        what = f"MLP 100-300-200-10, p = {r['p']:,}: {name}"
        yield Line("b", f"{what}, fit", r["fit"] / r["epoch"], "epochs of training", TARGETS[name], r["fit"])
        yield Line("b", f"{what}, peak of the process", r["peak"], "GB", 2.0)
        yield Line("b", f"{what}, effective parameters", r["effective"] / r["n"], "rows", 0.25)
        yield Line("b", f"{what}, predict_proba, 1,000 rows", r["predict"] / r["epoch"], "epochs of training")


def large(name, clock):
    """One curvature of the large network; prints one JSON object."""
    now, n = CLOCKS[clock], 20_000
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, 100)) @ np.diag(np.linspace(1.5, 0.3, 100))
    hidden = np.tanh(X @ rng.standard_normal((100, 20)) / 5)
    y = (3 * hidden @ rng.standard_normal((20, 10)) / 2 + rng.gumbel(size=(n, 10))).argmax(axis=1)
    # adam divides alpha by the size of a minibatch: 4 / 200 on the scale of the mean loss
    settings = {"hidden_layer_sizes": (300, 200), "activation": "tanh", "alpha": 4.0, "random_state": SEED}
    network = MLPClassifier(**settings, max_iter=10)
    start = now()
    network.fit(X, y)
    epoch = (now() - start) / network.n_iter_
    print(f"    trained: {epoch:.2f} s an epoch, accuracy {network.score(X, y):.3f}", file=sys.stderr, flush=True)
    curvature = {"kfac": KFAC(), "matrix_free": MatrixFree(n_probes=16, verbose=1)}[name]
    ribbon = RibbonClassifier(FrozenEstimator(network), curvature=curvature, n_draws=32, random_state=SEED)
    start = now()
    with redirect_stdout(sys.stderr):  # where progress can be seen
        ribbon.fit(X, y)
    fit = now() - start
    start = now()
    ribbon.predict_proba(X[:1000])
    result = {
        "n": n,
        "p": len(ribbon.model_.theta),
        "fit": fit,
        "epoch": epoch,
        "predict": now() - start,
        "effective": ribbon.effective_parameters_,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,  # kilobytes on Linux
    }
    print(json.dumps(result))


# ---------------------------------------------------------------------- (c) functions that users write
def perceptron(params, X):
    """What a user would write; skribbon does not know that it is a network."""
    (W1, b1), (W2, b2) = params
    return (anp.tanh(X @ W1 + b1) @ W2 + b2)[:, 0]


def autograd_route(repeats, clock):
    """(c) MLP 8-64-1 as a plain function: Ribbon's own part, over that of the analytic route on the same weights."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((15_000, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    mlp = MLPRegressor(hidden_layer_sizes=(64,), activation="tanh", solver="lbfgs", alpha=0.0, max_iter=100)
    mlp.set_params(random_state=SEED).fit(X, y)
    weights = list(zip(mlp.coefs_, mlp.intercepts_, strict=True))
    function = AutogradRegressor(perceptron, init=weights, max_iter=1).fit(X, y)
    function.params_ = weights
    s = best_of(
        repeats,
        clock,
        analytic=lambda: RibbonRegressor(FrozenEstimator(mlp)).fit(X, y),
        function=lambda: RibbonRegressor(FrozenEstimator(function)).fit(X, y),
    )
    unit = "analytic derivatives"
    yield Line("c", "MLP 8-64-1, n = 15,000: MLPRegressor", 1.0, unit, seconds=s["analytic"])
    yield Line("c", "the same network as a function", s["function"] / s["analytic"], unit, 2.0, s["function"])


CASES = {"a": quality, "b": reach, "c": autograd_route}


if __name__ == "__main__":
    options = parser(__doc__.splitlines()[0], CASES, repeats=3)
    options.add_argument("--large", choices=list(TARGETS), help=SUPPRESS)
    arguments = options.parse_args()
    with warnings.catch_warnings():  # the large networks are stopped early: only their size matters here
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RibbonWarning)
        if arguments.large:
            large(arguments.large, arguments.clock)
        else:
            measure("curvature", CASES, arguments)
