"""The report of ``inspection.check`` about a time series that was fitted as independent rows."""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skribbon import RibbonRegressor
from skribbon.exceptions import DependentRowsWarning
from skribbon.inspection import check


def draw():
    """Draw the numbers of the report relative to their thresholds."""
    rng = np.random.default_rng(0)
    X, error = rng.normal(size=(700, 3)), rng.normal(size=700)
    for i in range(1, 700):
        error[i] += 0.5 * error[i - 1]
    y = X.sum(axis=1) + error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)  # the fault that the report shows
        ribbon = RibbonRegressor().fit(X[:400], y[:400])
        report = check(ribbon, X[400:], y[400:], X_train=X[:400], y_train=y[:400])
    with plt.style.context("skribbon.plotting.style"):
        figure, ax = plt.subplots(figsize=(5.4, 3.4))
        report.plot(ax)
        ax.set_title("One fault: dependent rows")
    return figure
