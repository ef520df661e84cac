"""The same network's uncertainty by others: laplace-torch, MAPIE, statsmodels, as ratios within one run.

Usage: python benchmarks/bench_peers.py [--only abc] [--repeats 3] [--clock cpu]

Whoever is not installed is left out, and said so; ``pip install 'skribbon[bench]'`` installs all of them.
"""

import warnings
from importlib.util import find_spec

import numpy as np
from _harness import Line, best_of, measure, parser
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_info

from skribbon import RibbonRegressor
from skribbon.exceptions import RibbonWarning

SEED = 0
PLAIN = {"noise": "dof", "law": "normal", "correction": "HC1"}


def trained_network(n=15_000):
    """Rows of eight features and an MLP 8-64-1, stopped early: only its size matters here."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)
    mlp = MLPRegressor(hidden_layer_sizes=(64,), activation="tanh", solver="lbfgs", max_iter=200, random_state=SEED)
    return X, y, mlp.fit(X, y)


def as_torch(mlp):
    """The same weights as a torch module of float64."""
    from torch import from_numpy, nn

    linear = []
    for W, b in zip(mlp.coefs_, mlp.intercepts_, strict=True):
        layer = nn.Linear(*W.shape).double()
        layer.weight.data, layer.bias.data = from_numpy(W.T.copy()), from_numpy(b.copy())
        linear.append(layer)
    return nn.Sequential(linear[0], nn.Tanh(), linear[1])


class Batches:
    """Slices of a torch dataset: what DataLoader does row by row, at no cost to whom is compared with."""

    def __init__(self, dataset, size=500):
        self.dataset, self.size = dataset, size

    def __len__(self):
        return -(-len(self.dataset) // self.size)

    def __iter__(self):
        return (self.dataset[start : start + self.size] for start in range(0, len(self.dataset), self.size))


def blas_threads():
    """How many numpy's BLAS has."""
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def laplace(repeats, clock):
    """(a) laplace-torch's post-hoc fit of all weights, and its predictive variances: the same weights and threads."""
    if not _installed("a", "laplace", "laplace-torch"):
        return
    from laplace import Laplace
    from torch import from_numpy, set_num_threads
    from torch.utils.data import TensorDataset

    set_num_threads(blas_threads())
    X, y, mlp = trained_network()
    frozen, new = FrozenEstimator(mlp), from_numpy(X[:4000])
    rows = Batches(TensorDataset(from_numpy(X), from_numpy(y[:, None])))
    np.testing.assert_allclose(as_torch(mlp)(new).detach().numpy()[:, 0], mlp.predict(X[:4000]), rtol=1e-9, atol=1e-9)

    def fitted(structure):
        la = Laplace(as_torch(mlp), "regression", subset_of_weights="all", hessian_structure=structure)
        la.fit(rows)
        return la

    dense, structured = RibbonRegressor(frozen, **PLAIN), RibbonRegressor(frozen, curvature="kfac", **PLAIN)
    ours = {"full": dense.fit(X, y), "kron": structured.fit(X, y)}
    for structure, target in (("full", 1 / 20), ("kron", 1 / 1.5)):
        ribbon, peer = ours[structure], fitted(structure)  # once, before any clock
        peer(new[:100])
        s = best_of(
            repeats,
            clock,
            fit=lambda ribbon=ribbon: ribbon.fit(X, y),
            peer=lambda structure=structure: fitted(structure),
            predict=lambda ribbon=ribbon: ribbon.predict_interval(X[:4000]),
            peer_predict=lambda peer=peer: peer(new),
        )
        unit, what = f"laplace-torch, {structure}", f"MLP 8-64-1, {structure}"
        yield Line("a", f"{what}: fit, n = 15,000", s["fit"] / s["peer"], unit, target, s["fit"])
        yield Line("a", f"{what}: predict, 4,000 rows", s["predict"] / s["peer_predict"], unit, 1 / 50, s["predict"])


def mapie(repeats, clock):
    """(b) MAPIE's jackknife+ on folds, which fits the network again for each of them."""
    if not _installed("b", "mapie", "mapie"):
        return
    from mapie.regression import CrossConformalRegressor

    X, y, mlp = trained_network(3000)
    peer = CrossConformalRegressor(mlp, confidence_level=0.9, cv=5, random_state=SEED)
    ribbon = RibbonRegressor(FrozenEstimator(mlp)).fit(X, y)
    fit = best_of(1, clock, peer=lambda: peer.fit_conformalize(X, y))["peer"]
    s = best_of(
        repeats,
        clock,
        fit=lambda: ribbon.fit(X, y),
        predict=lambda: ribbon.predict_interval(X),
        peer=lambda: peer.predict_interval(X),
    )
    what, unit = "MLP 8-64-1, n = 3,000", "MAPIE, cv+ of 5 folds"
    yield Line("b", f"{what}: fit beyond the base fit", s["fit"] / fit, unit, seconds=s["fit"])
    yield Line("b", f"{what}: predict_interval", s["predict"] / s["peer"], unit, seconds=s["predict"])


def least_squares(repeats, clock):
    """(c) statsmodels' least squares with HC3 standard errors."""
    if not _installed("c", "statsmodels", "statsmodels"):
        return
    import statsmodels.api as sm

    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((100_000, 50))
    y = X @ rng.standard_normal(50) + rng.standard_normal(len(X))
    s = best_of(
        repeats,
        clock,
        ribbon=lambda: RibbonRegressor(LinearRegression(), noise="dof", law="normal", correction="HC3").fit(X, y),
        peer=lambda: sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC3").bse,
    )
    what = "least squares with HC3, n = 10^5, 50 features"
    yield Line("c", what, s["ribbon"] / s["peer"], "statsmodels", seconds=s["ribbon"])


def _installed(case, module, name):
    if find_spec(module) is None:
        print(f"({case}) {name} is not installed; pip install 'skribbon[bench]'.")
        return False
    return True


CASES = {"a": laplace, "b": mapie, "c": least_squares}


if __name__ == "__main__":
    arguments = parser(__doc__.splitlines()[0], CASES, repeats=3).parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RibbonWarning)
        warnings.simplefilter("ignore", FutureWarning)  # of torch
        measure("peers", CASES, arguments)
