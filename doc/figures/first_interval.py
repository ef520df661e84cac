"""Prediction intervals of 111 patients, as the page "Getting started" draws them."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from skribbon import RibbonRegressor
from skribbon.plotting import IntervalDisplay


def draw():
    """Return the figure."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    ribbon = RibbonRegressor(Ridge(alpha=0.1)).fit(X_train, y_train)
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, ax = plt.subplots(figsize=(5.4, 4.2))
        IntervalDisplay.from_estimator(ribbon, X_test, y_test, ax=ax)
    return figure
