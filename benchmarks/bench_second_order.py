"""The linear step, the Newton step and exact refits: coverage and width of 90 % confidence intervals in small samples.

    python benchmarks/bench_second_order.py [ols] [logistic] [poisson] [--trials 400]

Data are simulated, so that the true mean function is known at 10 new rows a trial, drawn as the training rows are.
Intervals are those of 200 draws at alpha = 1, and of the closed form by default. Least squares: 4 normal
features, noise that grows with the first. Logistic: 2 features, C = 10. Poisson: 2 features, no penalty. Prints the
coverage of the truth, and the median over trials of the mean width over that of exact refits.
"""

import argparse
import warnings

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from skribbon import RibbonClassifier, RibbonRegressor

LEVEL, DRAWS, NEW = 0.9, 200, 10


def least_squares(n, rng):
    """Rows, targets, new rows and the truth there."""
    X, new, theta = rng.normal(size=(n, 4)), rng.normal(size=(NEW, 4)), np.array([1.0, -1.0, 0.5, 0.0])
    return X, X @ theta + (0.5 + np.abs(X[:, 0])) * rng.normal(size=n), new, new @ theta


def classes(n, rng):
    """The same with probabilities; at least two rows of each class."""
    theta = np.array([1.0, -0.5])
    while True:
        X = rng.normal(size=(n, 2))
        y = (X @ theta + rng.logistic(size=n) > 0).astype(int)
        if 2 <= y.sum() <= n - 2:
            break
    new = rng.normal(size=(NEW, 2))
    return X, y, new, expit(new @ theta)


def counts(n, rng):
    """The same with counts."""
    theta = np.array([0.5, -0.3])
    X, new = rng.normal(size=(n, 2)), rng.normal(size=(NEW, 2))
    return X, rng.poisson(np.exp(1 + X @ theta)).astype(float), new, np.exp(1 + new @ theta)


CASES = {
    "ols": (RibbonRegressor, LinearRegression(), least_squares),
    "logistic": (RibbonClassifier, LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-8), classes),
    "poisson": (RibbonRegressor, PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-8), counts),
}
MEANS = {
    LinearRegression: (lambda f: f, np.ones_like),
    LogisticRegression: (expit, lambda f: expit(f) * expit(-f)),
    PoissonRegressor: (np.exp, np.exp),
}
SETTINGS = {
    "linear, HC0": {"predictive": "pushforward", "correction": "HC0"},
    "newton, HC0": {"predictive": "newton", "correction": "HC0"},
    "linear, auto": {"predictive": "pushforward"},
    "newton, auto": {"predictive": "newton"},
    "default": {},
}


def interval(ribbon, X):
    """Central interval of the mean function, or of the second class's probability, (n, 2)."""
    if isinstance(ribbon, RibbonClassifier):
        return ribbon.predict_proba_interval(X, LEVEL)[:, 1]
    return ribbon.predict_interval(X, LEVEL, kind="confidence")


def refits(base, X, y, new, rng):
    """The same by exact refits: Newton steps, none longer than two, until nothing moves."""
    Z, z = (np.column_stack([A, np.ones(len(A))]) for A in (X, new))
    W = rng.dirichlet(np.ones(len(y)), size=DRAWS)
    penalty = np.full(Z.shape[1], 1 / (base.C * len(y)) if hasattr(base, "C") else 0.0)
    penalty[-1] = 0.0
    mean, slope = MEANS[type(base)]
    theta = np.zeros((DRAWS, Z.shape[1]))
    for _ in range(200):
        f = theta @ Z.T
        gradient = (W * (mean(f) - y)) @ Z + penalty * theta
        H = np.einsum("bn,np,nq->bpq", W * slope(f), Z, Z) + np.diag(penalty)
        step = np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
        theta -= step * np.minimum(1, 2 / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    draws = mean(theta @ z.T)
    return np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0).T


def trial(name, n, seed):
    """Name to intervals of one simulated table, and the truth."""
    Ribbon, base, simulate = CASES[name]
    X, y, new, truth = simulate(n, np.random.default_rng([seed, n]))
    found = {"exact refits": refits(base, X, y, new, np.random.default_rng([seed, n, 1]))}
    for setting, parameters in SETTINGS.items():
        ribbon = Ribbon(base, n_draws=DRAWS, random_state=seed, **parameters).fit(X, y)
        found[setting] = interval(ribbon, new)
    return found, truth


def main():
    """Print a line for each model, number of rows and kind of step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--trials", type=int, default=400)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.cases or CASES:
        for n in (20, 50, 100):
            trials = [trial(name, n, seed) for seed in range(arguments.trials)]
            reference = np.array([np.diff(found["exact refits"]).mean() for found, _ in trials])
            for setting in trials[0][0]:
                inside = [(f[setting][:, 0] <= t) & (t <= f[setting][:, 1]) for f, t in trials]
                ratio = np.median([np.diff(f[setting]).mean() for f, _ in trials] / reference)
                print(
                    f"{name:9s} n = {n:3d}  {setting:13s} coverage {np.mean(inside):.3f}  width {ratio:.2f}", flush=True
                )


if __name__ == "__main__":
    main()
