"""90 % intervals of other packages, on the same tables and, where they take one, around the same network.

    python benchmarks/bench_neighbours.py [set ...]

Written before a test row was looked at, and run once:

Sets and splits
    boston, concrete, energy and yacht, the last five of the twenty published splits: test rows on which no default was
    chosen, though calibration has been measured on them. Columns and target standardized by the training rows.

Network
    50 tanh units, at most 500 iterations of L-BFGS, seed 0, weight decays as in bench_conformal.py, which nobody tuned.

Candidates
    network alone: normal, with the variance of the training residuals. MAPIE: split, with a quarter of the training
    rows for calibration, and CV+ with five folds, both by absolute residuals. laplace-torch: the same weights as a
    module of float64; all weights with a full and with a Kronecker-factored curvature, and the last layer; prior
    precision and noise by 100 steps of Adam, rate 0.1, up the marginal likelihood. skribbon, nothing set:
    RibbonRegressor; the same conformalised with MAPIE's quarter; RibbonCV, and its CV+ with MAPIE's folds. Gaussian
    process: scikit-learn's, one length scale for each column, a constant and white noise, no restarts.

Measures
    Coverage, mean width and interval score in units of the target, means over splits; CPU seconds of one BLAS thread
    for everything from the rows to the intervals, fits of the network included.

How to read it
    Five splits leave coverage uncertain by .01 to .03: two standard errors of it over splits are printed. Among those
    that cover as promised the smaller interval score is better.

Then jackknife+ around a ridge on scikit-learn's diabetes: the same intervals from one fit and from 442.
"""

import argparse
import math
import warnings
from time import process_time

import numpy as np
from _data import uci
from bench_conformal import DECAY
from bench_peers import as_torch
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonCV, RibbonRegressor
from skribbon.metrics import interval_coverage_score, mean_interval_score

SETS = ("boston", "concrete", "energy", "yacht")
SPLITS = range(15, 20)
LEVEL = 0.9
FOLDS = KFold(5, shuffle=True, random_state=0)


def around(mean, std):
    """Normal intervals (n, 2)."""
    return np.stack(norm(mean, std).interval(LEVEL), axis=-1)


def network_of(name):
    return MLPRegressor(
        hidden_layer_sizes=50, activation="tanh", solver="lbfgs", alpha=DECAY[name], max_iter=500, random_state=0
    )


def alone(network, X, y, X_new):
    fitted = clone(network).fit(X, y)
    return around(fitted.predict(X_new), np.std(y - fitted.predict(X)))


def halves(y):
    """Rows to fit and rows to calibrate with: all but a quarter, and that quarter."""
    order = np.random.default_rng(0).permutation(len(y))
    return order[len(y) // 4 :], order[: len(y) // 4]


def mapie_split(network, X, y, X_new):
    from mapie.regression import SplitConformalRegressor

    fit, calibrate = halves(y)
    method = SplitConformalRegressor(clone(network), confidence_level=LEVEL, prefit=False)
    method.fit(X[fit], y[fit]).conformalize(X[calibrate], y[calibrate])
    return method.predict_interval(X_new)[1][..., 0]


def mapie_folds(network, X, y, X_new, cv=FOLDS):
    from mapie.regression import CrossConformalRegressor

    method = CrossConformalRegressor(clone(network), confidence_level=LEVEL, cv=cv)
    return method.fit_conformalize(X, y).predict_interval(X_new)[1][..., 0]


def laplace(weights, structure):
    """laplace-torch with its prior and noise by marginal likelihood."""

    def intervals(network, X, y, X_new):
        import torch
        from laplace import Laplace
        from torch.utils.data import DataLoader, TensorDataset

        torch.set_num_threads(1)
        rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y[:, None]))
        posterior = Laplace(
            as_torch(clone(network).fit(X, y)), "regression", subset_of_weights=weights, hessian_structure=structure
        )
        posterior.fit(DataLoader(rows, batch_size=500))
        logarithms = [torch.zeros(1, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        optimiser = torch.optim.Adam(logarithms, lr=0.1)
        for _ in range(100):
            optimiser.zero_grad()
            (-posterior.log_marginal_likelihood(*(value.exp() for value in logarithms))).backward()
            optimiser.step()
        mean, variance = posterior(torch.from_numpy(X_new))
        noise = posterior.sigma_noise.item() ** 2
        return around(mean.detach().numpy()[:, 0], np.sqrt(variance.detach().numpy()[:, 0, 0] + noise))

    return intervals


def ribbon(network, X, y, X_new):
    return RibbonRegressor(clone(network)).fit(X, y).predict_interval(X_new, LEVEL)


def ribbon_split(network, X, y, X_new):
    fit, calibrate = halves(y)
    fitted = RibbonRegressor(clone(network)).fit(X[fit], y[fit]).conformalize(X[calibrate], y[calibrate])
    return fitted.predict_interval(X_new, LEVEL, kind="conformal")


def ribbon_folds(kind):
    def intervals(network, X, y, X_new):
        tuned = RibbonCV(RibbonRegressor(clone(network)), cv=FOLDS, store_folds=kind == "cv+").fit(X, y)
        return tuned.predict_interval(X_new, LEVEL, kind=kind)

    return intervals


def gaussian_process(network, X, y, X_new):
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
    fitted = GaussianProcessRegressor(kernel).fit(X, y)
    return around(*fitted.predict(X_new, return_std=True))


CANDIDATES = {
    "network alone": alone,
    "MAPIE, split": mapie_split,
    "MAPIE, CV+": mapie_folds,
    "laplace-torch, full": laplace("all", "full"),
    "laplace-torch, Kronecker": laplace("all", "kron"),
    "laplace-torch, last layer": laplace("last_layer", "full"),
    "Gaussian process": gaussian_process,
    "Ribbon": ribbon,
    "Ribbon, conformalised": ribbon_split,
    "RibbonCV": ribbon_folds("prediction"),
    "RibbonCV, CV+": ribbon_folds("cv+"),
}


def figures(candidate, name, split):
    """Coverage, width, interval score, CPU seconds."""
    X, y, tests = uci(name)
    test = tests[split]
    train = np.setdiff1d(np.arange(len(y)), test)
    spread, scale = X[train].std(axis=0), y[train].std()
    Z, t = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0), (y - y[train].mean()) / scale
    start = process_time()
    ends = candidate(network_of(name), Z[train], t[train], Z[test])
    seconds = process_time() - start
    width, score = np.mean(ends[:, 1] - ends[:, 0]), mean_interval_score(t[test], ends, confidence_level=LEVEL)
    return interval_coverage_score(t[test], ends), scale * width, scale * score, seconds


def jackknife():
    """The largest difference of the ends, relative to their widths, and the seconds of both."""
    X, y = load_diabetes(return_X_y=True)
    base, seconds = Ridge(1.0), [process_time()]
    ours = RibbonRegressor(base, store_loo=True, noise="dof").fit(X, y).predict_interval(X, LEVEL, kind="jackknife+")
    seconds.append(process_time())
    theirs = mapie_folds(base, X, y, X, LeaveOneOut())
    seconds.append(process_time())
    apart = np.abs(ours - theirs).max() / np.ptp(theirs, axis=1).min()
    print(f"\njackknife+ of a ridge, {len(y)} rows: ends differ by at most {apart:.1e} of a width; ", end="")
    print(f"{seconds[1] - seconds[0]:.3f} s, MAPIE {seconds[2] - seconds[1]:.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=SETS)
    sets = parser.parse_args().sets
    warnings.simplefilter("ignore")
    print(f"{'set':10}{'candidate':28}{'covered':>9}{'+-':>7}{'width':>9}{'score':>9}{'seconds':>9}")
    for name in sets:
        for label, candidate in CANDIDATES.items():
            found = np.array([figures(candidate, name, split) for split in SPLITS])
            twice = 2 * found[:, 0].std(ddof=1) / math.sqrt(len(found))
            cells = "".join(f"{value:9.3f}" for value in found[:, 1:].mean(axis=0))
            print(f"{name:10}{label:28}{found[:, 0].mean():9.3f}{twice:7.3f}{cells}", flush=True)
    jackknife()


if __name__ == "__main__":
    main()
