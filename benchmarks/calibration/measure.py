"""One candidate on one case: a row of raw numbers. Tables are made of these rows alone."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .candidates import CANDIDATES, LEVELS

NINETY = LEVELS.index(0.9)


@dataclass(frozen=True)
class Case:
    """A base model, its training rows and the test rows of one split."""

    set: str
    split: int
    base: Any
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    scale: float = 1.0  # of a standardized y: scores are reported in units of the original one
    counts: bool = False


def measure(case, names):
    """One row per candidate; a failure is a row too."""
    rows = []
    for name in names:
        row = {"set": case.set, "split": case.split, "candidate": name, "n": len(case.y), "n_test": len(case.y_test)}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the point here is the numbers
                start = time.perf_counter()
                fitted = CANDIDATES[name](case)
                row["seconds"] = time.perf_counter() - start
                row |= scores(fitted.predict_distribution(case.X_test), case)
            row["alpha"] = getattr(fitted, "alpha_", None)  # of RibbonCV: the choice
            row["seconds predict"] = time.perf_counter() - start - row["seconds"]
        except Exception as error:  # an hour of other rows shall not be lost
            row["error"] = f"{type(error).__name__}: {error}"
        rows.append(row)
    return rows


def scores(distribution, case):
    """Every metric of one predictive distribution at the test rows."""
    y, ends = case.y_test, distribution.interval(LEVELS)
    below, above = y[:, None] < ends[:, 0], y[:, None] > ends[:, 1]  # (n, L)
    inside = ~(below | above)
    lower, upper = ends[:, 0, NINETY], ends[:, 1, NINETY]
    beyond = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    far = farthest_tenth(case.X, case.X_test)
    row = {f"cover {100 * level:.0f}": inside[:, i].mean() for i, level in enumerate(LEVELS)}
    row |= {
        "below": below[:, NINETY].mean(),
        "above": above[:, NINETY].mean(),
        "near": inside[~far, NINETY].mean(),
        "far": inside[far, NINETY].mean(),
        "fifths": [inside[rows, NINETY].mean() for rows in np.array_split(np.argsort(upper - lower), 5)],
        "width": case.scale * np.mean(upper - lower),
        "median width": case.scale * np.median(upper - lower),  # a few far rows can rule the mean
        "interval score": case.scale * np.mean(upper - lower + 2 / 0.1 * beyond),
        "NLL": np.nan,
        "CRPS": np.nan,
        "PIT": [np.nan] * 10,
    }
    if hasattr(distribution, "logpdf"):
        row["NLL"] = -distribution.logpdf(y).mean() + np.log(case.scale)
        row["CRPS"] = case.scale * distribution.crps(y).mean()
        row["PIT"] = histogram(distribution, y, case.split)
    return row


def histogram(distribution, y, seed):
    """Shares of ten bins of the probability integral transform, randomized where a value has a probability."""
    u = np.random.default_rng(seed).uniform(size=len(y))
    values = u * distribution.cdf(y) + (1 - u) * distribution.cdf_below(y)
    return list(np.histogram(values, bins=np.linspace(0, 1, 11))[0] / len(y))


def farthest_tenth(X, X_test):
    """Which test rows are the tenth with the largest Mahalanobis distance from the training rows."""
    centred = X_test - X.mean(axis=0)
    distance = np.einsum("ij,jk,ik->i", centred, np.linalg.pinv(np.atleast_2d(np.cov(X.T))), centred)
    return np.argsort(np.argsort(distance)) >= 0.9 * len(distance)
