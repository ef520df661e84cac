"""What clipped scores and clipped steps do to coverage: gross outliers, and a network that is barely determined.

    python benchmarks/bench_clipping.py [outliers] [network] [--trials 300]

Outliers: 100 rows, 4 normal features, normal noise; 5 rows have noise 20 times as large, or in addition features 4
times as far out. Prints coverage of 90 % confidence intervals of the true mean at 20 new rows, and their mean width
over that of least squares on the same rows without the 5. Network: 60 tanh units (181 parameters) on 60 rows of a
sine, weight decay 0.001, no damping, correction "HC3", 200 draws along the tangent. Prints coverage of 90 % prediction
intervals at 200 new rows, and the median over trials of their mean width in units of the noise's own 90 %; a tenth of
the trials.
"""

import argparse
import warnings

import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor

SCORES = (None, 10.0, 5.0, 3.0)
STEPS = (None, 10.0, 3.0, 1.0)
THETA = np.array([1.0, -1.0, 0.5, 0.0])


def outliers(far, seed):
    """Rows, targets, new rows, the truth there; the first five are out."""
    rng = np.random.default_rng([seed, far])
    X, noise, new = rng.normal(size=(100, 4)), rng.normal(size=100), rng.normal(size=(20, 4))
    noise[:5] *= 20
    y = X @ THETA + noise
    X[:5] *= 4 if far else 1
    return X, y, new, new @ THETA


def of_outliers(trials):
    """Print a line for each kind of outlier, base model and bound."""
    for far in (False, True):
        for base in (LinearRegression(), HuberRegressor(alpha=0.0, max_iter=1000)):
            found = {clip: [] for clip in SCORES}
            for seed in range(trials):
                X, y, new, truth = outliers(far, seed)
                clean = RibbonRegressor(noise="dof").fit(X[5:], y[5:]).predict_interval(new, kind="confidence")
                for clip in SCORES:
                    ribbon = RibbonRegressor(base, noise="dof", clip_scores=clip).fit(X, y)
                    ends = ribbon.predict_interval(new, kind="confidence")
                    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
                    found[clip].append([inside.mean(), np.diff(ends).mean() / np.diff(clean).mean()])
            for clip, values in found.items():
                coverage, width = np.mean(values, axis=0)
                kind = f"{'far ' if far else 'near'} outliers, {type(base).__name__:16s}"
                print(f"{kind} clip_scores={clip!s:4s} coverage {coverage:.3f}  width {width:.2f}", flush=True)


def of_network(trials):
    """Print a line for each pair of bounds."""
    settings = [{"clip_steps": clip} for clip in STEPS] + [{"clip_scores": clip} for clip in SCORES[1:]]
    found = {str(setting): [] for setting in settings}
    for seed in range(max(trials // 10, 2)):
        rng = np.random.default_rng(seed)
        x, new = rng.uniform(-3, 3, (60, 1)), rng.uniform(-3, 3, (200, 1))
        y, y_new = (np.sin(2 * A[:, 0]) + 0.2 * rng.normal(size=len(A)) for A in (x, new))
        shape = {"hidden_layer_sizes": (60,), "activation": "tanh", "alpha": 1e-3}
        network = MLPRegressor(**shape, solver="lbfgs", max_iter=5000, random_state=seed)
        for setting in settings:
            draws = {"predictive": "pushforward", "n_draws": 200, "random_state": seed}
            ribbon = RibbonRegressor(network, damping=0.0, correction="HC3", noise="dof", **draws, **setting)
            ribbon.fit(x, y)
            ends = ribbon.predict_interval(new)
            inside = (ends[:, 0] <= y_new) & (y_new <= ends[:, 1])
            found[str(setting)].append([inside.mean(), np.diff(ends).mean() / (2 * 1.645 * 0.2)])
    for setting, values in found.items():
        print(
            f"network {setting:22s} coverage {np.mean(values, axis=0)[0]:.3f}  width {np.median(values, axis=0)[1]:.2f}"
        )


def main():
    """Print all tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["outliers", "network"])
    parser.add_argument("--trials", type=int, default=300)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for case in arguments.cases:
        {"outliers": of_outliers, "network": of_network}[case](arguments.trials)


if __name__ == "__main__":
    main()
