"""Coverage of a trained network's intervals for many calibration sets, with and without calibration."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor
from skribbon.metrics import interval_coverage_score

BLUE, ORANGE = "#0072B2", "#D55E00"


def draw():
    """Return the figure."""
    X, y = make_friedman1(1700, n_features=5, noise=1.0, random_state=0)
    X, y, rng = 3 * X - 1.5, (y - 14.4) / 5, np.random.default_rng(0)
    network = MLPRegressor(hidden_layer_sizes=(30,), alpha=0.01, solver="lbfgs", max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the network has memorized rows, and is not refitted: that is the point
        network.fit(X[:300], y[:300])
        ribbon = RibbonRegressor(FrozenEstimator(network)).fit(X[:300], y[:300])
    found = {"prediction": [], "conformal": []}
    for _ in range(100):
        order = 300 + rng.permutation(1400)
        calibration, new = order[:200], order[200:700]
        ribbon.conformalize(X[calibration], y[calibration])
        for kind, shares in found.items():
            shares.append(interval_coverage_score(y[new], ribbon.predict_interval(X[new], kind=kind)))
    with plt.style.context(["skribbon.plotting.style", {"font.size": 12}]):
        figure, ax = plt.subplots(figsize=(6, 3.6))
        for (kind, shares), color in zip(found.items(), (ORANGE, BLUE), strict=True):
            ax.hist(shares, bins=np.arange(0.6, 1.001, 0.01), color=color, alpha=0.8)
            ax.text(np.mean(shares), 23, f'kind="{kind}"', color=color, weight="bold", ha="center")
        ax.axvline(0.9, ymax=0.84, color="0.3", ls=":", lw=1.5)
        ax.set(xlabel="share of new rows inside the 90% interval", ylabel="calibration sets")
        ax.set(xlim=(0.6, 1), ylim=(0, 26))
        ax.set_title("The network's own intervals cover 75%,\nconformal intervals 90%")
    return figure
