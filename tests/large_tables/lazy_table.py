"""A table with every kind of target."""

import numpy as np
import pandas as pd

FEATURES = ["a", "b", "c"]


def table(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 3.0, 0.5] + [0.0, 5.0, -1.0], columns=FEATURES)
    eta = 0.4 * frame["a"] - 0.1 * frame["b"] + 0.3 * frame["c"] + 0.8
    logistic = rng.logistic(size=n)
    return frame.assign(
        y=eta + rng.normal(size=n) * 0.3 * np.exp(0.6 * frame["a"]),
        count=rng.poisson(np.exp(eta)),
        positive=rng.gamma(3.0, np.exp(eta) / 3),
        label=np.where(eta + logistic > 0.5, "yes", "no"),
        kind=np.array(["u", "v", "w"])[np.digitize(eta + logistic, [-0.5, 1.5])],
        weight=rng.integers(0, 4, size=n).astype(float),
        group=rng.integers(0, 60, size=n),
        word=np.array(["x", "y", "z"])[rng.integers(0, 3, size=n)],
    )
