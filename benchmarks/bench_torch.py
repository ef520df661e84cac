"""Torch modules beside laplace-torch and the autograd estimators, on the same trained weights, in one run.

Usage: python benchmarks/bench_torch.py [--only abcd] [--repeats 3] [--clock cpu]

Needs torch and laplace-torch: ``make torch`` installs both into an environment of their own and runs this.
"""

import json
import subprocess
import sys
import warnings

import _data
import numpy as np
import torch
from _harness import CLOCKS, Line, best_of, measure, parser
from _peak_memory import resident_growth
from bench_peers import Batches, blas_threads
from laplace import Laplace
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from torch import nn
from torch.utils.data import TensorDataset

from skribbon import AutogradClassifier, RibbonClassifier, RibbonRegressor
from skribbon.curvature import GaussNewton
from skribbon.exceptions import RibbonWarning
from skribbon.models.architectures import cnn
from skribbon.models.torch import TorchClassifier, TorchRegressor

SEED = 0
PLAIN = {"noise": "dof", "law": "normal", "correction": "HC1"}
SETS = ("yacht", "energy", "concrete", "power")
# laplace-torch's subset of weights and structure, and our curvature
STRUCTURES = {
    "full": (("all", "full"), "ggn"),
    "kron": (("all", "kron"), "kfac"),
    "last layer": (("last_layer", "full"), "last_layer"),
}


def standardized(name):
    """Training and test rows of the first published split; y in units of its standard deviation in training."""
    X, y, tests = _data.uci(name)
    test, train = tests[0], np.setdiff1d(np.arange(len(y)), tests[0])
    X, y = (A - A[train].mean(axis=0) for A in (X, y))
    X, y = X / np.maximum(X[train].std(axis=0), 1e-12), y / y[train].std()
    return X[train], y[train], X[test], y[test]


def network(d):
    """A network as people train them: 50 tanh units by Adam."""
    module = nn.Sequential(nn.Linear(d, 50), nn.Tanh(), nn.Linear(50, 1))
    return TorchRegressor(module, weight_decay=1e-3, solver="adam", learning_rate=0.01, max_iter=300, random_state=SEED)


def batches(X, y):
    return Batches(TensorDataset(torch.from_numpy(X), torch.from_numpy(y.reshape(len(y), -1))))


def posterior(module, structure, rows):
    subset, hessian = STRUCTURES[structure][0]
    la = Laplace(module, "regression", subset_of_weights=subset, hessian_structure=hessian)
    la.fit(rows)
    return la


def by_marginal_likelihood(la, steps=100):
    """Prior precision and noise of laplace-torch's own recipe."""
    logs = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam(logs, lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        (-la.log_marginal_likelihood(logs[0].exp(), logs[1].exp())).backward()
        optimizer.step()
    return la


def normal_scores(y, mean, std):
    """Coverage of 90% intervals and mean negative log density."""
    return np.mean(np.abs(y - mean) < norm.ppf(0.95) * std), -norm.logpdf(y, mean, std).mean()


def ribbon_scores(ribbon, X, y):
    lower, upper = ribbon.predict_interval(X).T
    return np.mean((lower < y) & (y < upper)), -np.mean(ribbon.predict_distribution(X).logpdf(y))


def sets(repeats, clock):
    """(a) Seconds of fit and predict beside laplace-torch, and coverage and log score of new rows, on four sets."""
    for name in SETS:
        X, y, X_test, y_test = standardized(name)
        what, now = f"{name}, n = {len(y):,}", CLOCKS[clock]
        start = now()
        module = network(X.shape[1]).fit(X, y).module_
        training, start = now() - start, now()
        honest = RibbonRegressor(network(X.shape[1])).fit(X, y)
        ratio = (now() - start) / training
        yield Line("a", f"{what}: RibbonRegressor, seconds", ratio, "training", seconds=ratio * training)
        for label, value in zip(("90% coverage", "NLL"), ribbon_scores(honest, X_test, y_test), strict=True):
            yield Line("a", f"{what}: RibbonRegressor", value, label)
        for structure in STRUCTURES:
            yield from beside_laplace(f"{what}, {structure}", structure, module, (X, y, X_test, y_test), repeats, clock)


def beside_laplace(what, structure, module, data, repeats, clock):
    """Post-hoc fits of one trained module by both packages, and their scores of new rows."""
    X, y, X_test, y_test = data
    rows, new, many = batches(X, y), torch.from_numpy(X_test), np.resize(X_test, (1000, X.shape[1]))
    kept = TorchRegressor(module, weight_decay=1e-3, fitted=True)
    ribbon = RibbonRegressor(kept, curvature=STRUCTURES[structure][1], **PLAIN).fit(X, y)
    peer = by_marginal_likelihood(posterior(module, structure, rows))
    s = best_of(
        repeats if len(y) < 2000 else 1,
        clock,
        fit=lambda: ribbon.fit(X, y),
        peer=lambda: posterior(module, structure, rows),
        predict=lambda: ribbon.predict_interval(many),
        peer_predict=lambda: peer(torch.from_numpy(many)),
    )
    mean, variance = peer(new)
    std = np.sqrt(variance[:, 0, 0].detach().numpy() + peer.sigma_noise.item() ** 2)
    yield Line("a", f"{what}: post-hoc fit", s["fit"] / s["peer"], "laplace-torch", seconds=s["fit"])
    yield Line(
        "a", f"{what}: predict 1,000 rows", s["predict"] / s["peer_predict"], "laplace-torch", seconds=s["predict"]
    )
    scores = {"laplace-torch": normal_scores(y_test, mean[:, 0].detach().numpy(), std)}
    scores["RibbonRegressor, fitted=True"] = ribbon_scores(
        RibbonRegressor(kept, curvature=ribbon.curvature).fit(X, y), X_test, y_test
    )
    for who, found in scores.items():
        for label, value in zip(("90% coverage", "NLL"), found, strict=True):
            yield Line("a", f"{what}: {who}", value, label)


# ---------------------------------------------------------------------- many parameters
def wide_mlp():
    """Network of 96,901 parameters."""
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1)).double()


def wide_cnn():
    """Network of 102,645 parameters."""
    images = nn.Sequential(nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2))
    dense = nn.Sequential(
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 122), nn.ReLU()
    )
    return nn.Sequential(images, dense, nn.Linear(122, 1)).double()


WIDE = {
    "MLP 20-300-300-1": (wide_mlp, 20, ("kfac", "last_layer", "matrix_free", "laplace kron")),
    "CNN": (wide_cnn, 784, ("last_layer", "laplace last layer")),
}


def one_wide(name, method, clock, n=2000):
    """Seconds and MB of one fit, and of predictions of 200 rows, as JSON; in a process of its own."""
    (make, d, _), now = WIDE[name], CLOCKS[clock]
    torch.manual_seed(SEED)
    rng, module = np.random.default_rng(SEED), make()
    X = rng.normal(size=(n, d))
    y = np.sin(X[:, 0]) + rng.normal(size=n)
    kept, found = TorchRegressor(module, weight_decay=1e-2, fitted=True), []
    if method.startswith("laplace"):
        structure, rows = method.removeprefix("laplace "), batches(X, y)

        def fit():
            found.append(posterior(module, structure, rows))

        def predict():
            found[0](torch.from_numpy(X[:200]))
    else:

        def fit():
            found.append(RibbonRegressor(kept, curvature=method, random_state=SEED, **PLAIN).fit(X, y))

        def predict():
            found[0].predict_interval(X[:200])

    start = now()
    megabytes = resident_growth(fit)
    seconds, start = [now() - start], now()
    predict()
    seconds.append(now() - start)
    p = sum(leaf.numel() for leaf in module.parameters())
    print(json.dumps({"p": p, "fit": seconds[0], "predict": seconds[1], "MB": megabytes}))


def wide(repeats, clock):
    """(b) Networks of 100,000 parameters: seconds and memory of a fit and of predictions."""
    for name, (_, _, methods) in WIDE.items():
        for method in methods:
            command = [sys.executable, "-W", "ignore", __file__, "--wide", name, method, clock]
            result = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(result.stdout.splitlines()[-1])
            what = f"{name}, {found['p']:,} parameters, n = 2,000, {method}"
            yield Line("b", f"{what}: fit", found["fit"], "seconds", seconds=found["fit"])
            yield Line("b", f"{what}: 200 intervals", found["predict"], "seconds", seconds=found["predict"])
            if found["MB"] is not None:
                yield Line("b", f"{what}: memory of fit", found["MB"], "MB")


# ---------------------------------------------------------------------- the paper's network
def digits(n=500, test=300):
    data = np.load(_data.find("mnist.npz"))
    X, y = data["x_train"].reshape(-1, 784) / 255, data["y_train"]
    return X[:n], y[:n], X[n : n + test], y[n : n + test]


def as_module(params):
    """The paper's convolutional network with the weights of an autograd one, whose channels come last."""
    (W1, b1), (W2, b2), (W3, b3) = params
    module = nn.Sequential(
        *(nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(100, 10)),
    ).double()
    kernels = [W.reshape(3, 3, -1, W.shape[1]).transpose(3, 2, 0, 1) for W in (W1, W2)]
    dense = W3.reshape(5, 5, 4, 10).transpose(3, 2, 0, 1).reshape(10, 100)
    for k, W, b in zip((1, 4, 8), (*kernels, dense), (b1, b2, b3), strict=True):
        module[k].weight.data, module[k].bias.data = torch.tensor(W.copy()), torch.tensor(b)
    return module


def paper(repeats, clock):
    """(c) The paper's network on MNIST, by autograd and as a torch module: largest differences, and seconds."""
    X, y, X_test, _ = digits()
    settings = {"solver": "adam", "batch_size": 50, "learning_rate": 5e-3, "max_iter": 15, "n_iter_no_change": 15}
    base = AutogradClassifier(cnn((28, 28), (3, 4)), random_state=SEED, **settings).fit(X, y)
    kept = TorchClassifier(as_module(base.params_), fitted=True)
    shared = {"curvature": GaussNewton(damping=1e-3), "temperature": 1.0, "averaging": "exact"}
    ours = {"autograd": RibbonClassifier(FrozenEstimator(base), **shared), "torch": RibbonClassifier(kept, **shared)}
    s = best_of(repeats, clock, **{name: lambda ribbon=ribbon: ribbon.fit(X, y) for name, ribbon in ours.items()})
    one, other = ours["autograd"], ours["torch"]
    for label, found in {
        "probabilities": [ribbon.predict_proba(X_test) for ribbon in (one, other)],
        "covariances of logits": [ribbon._latent(X_test).covariance for ribbon in (one, other)],
        "intervals of probabilities": [ribbon.predict_proba_interval(X_test) for ribbon in (one, other)],
        "effective parameters": [np.array([ribbon.effective_parameters_]) for ribbon in (one, other)],
    }.items():
        difference = np.abs(found[1] - found[0]).max() / np.abs(found[0]).max()
        yield Line("c", f"MNIST, {label}: torch - autograd", difference, "of the largest", 1e-6)
    what = f"MNIST, n = {len(y)}, p = {len(other.model_.theta):,}: fit"
    yield Line("c", what, s["torch"] / s["autograd"], "autograd", seconds=s["torch"])


# ---------------------------------------------------------------------- convolutions by curvature
def small_cnn(n_features, n_outputs):
    """Network of 830 parameters for images of 8 x 8 pixels and ten classes."""
    images = nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU()
    return nn.Sequential(*images, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, n_outputs))


def convolutions(repeats, clock, n=900):
    """(d) A convolutional network of digits, post hoc, by curvature: NLL, width of intervals, and seconds."""
    X, y = load_digits(return_X_y=True)
    X, decay = X / 16, 1e-3
    settings = {"solver": "adam", "learning_rate": 5e-3, "max_iter": 30, "n_iter_no_change": 30, "random_state": SEED}
    module = TorchClassifier(small_cnn, weight_decay=decay, **settings).fit(X[:n], y[:n]).module_
    kept = TorchClassifier(module, weight_decay=decay, fitted=True)
    for curvature in ("ggn", "last_layer", "matrix_free", "low_rank", "diag"):
        ribbon, now = RibbonClassifier(kept, curvature=curvature, temperature=1.0), CLOCKS[clock]
        start = now()
        loss = log_loss(y[n:], ribbon.fit(X[:n], y[:n]).predict_proba(X[n:]))
        width = np.mean(np.diff(ribbon.predict_proba_interval(X[n:]), axis=-1))
        seconds = now() - start
        yield Line("d", f"digits, CNN, {curvature}", loss, "NLL", seconds=seconds)
        yield Line("d", f"digits, CNN, {curvature}: 90% intervals of probabilities", width, "mean width")


CASES = {"a": sets, "b": wide, "c": paper, "d": convolutions}


if __name__ == "__main__":
    torch.set_num_threads(blas_threads())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RibbonWarning)
        warnings.filterwarnings("ignore", module="torch|laplace")
        if sys.argv[1:2] == ["--wide"]:
            one_wide(*sys.argv[2:])
        else:
            measure("torch", CASES, parser(__doc__.splitlines()[0], CASES, repeats=3).parse_args())
