"""Joint region of two outputs, with the box of their separate intervals."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import chi2
from sklearn.datasets import load_diabetes

from skribbon import RibbonRegressor


def draw():
    """Draws for one patient, the 90% ellipse, and the box of both 90% intervals."""
    table = load_diabetes(as_frame=True, scaled=False).data
    X, y = table[["age", "sex", "bmi", "bp"]], table[["s1", "s2"]]
    ribbon = RibbonRegressor(noise="dof").fit(X, y)
    patient = X[:1]
    mean, covariance = ribbon.predict(patient, return_cov=True)
    draws = ribbon.predict_samples(patient, 800, random_state=0)[:, 0]
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.sqrt(chi2(2).ppf(0.9)) * np.array([np.cos(angle), np.sin(angle)])
    ellipse = mean[0][:, None] + np.linalg.cholesky(covariance[0]) @ circle
    (x0, x1), (y0, y1) = ribbon.predict_interval(patient, 0.9)[0]
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, ax = plt.subplots(figsize=(5, 3.8))
        ax.plot(*draws.T, ".", color="0.75", ms=4, mew=0)
        ax.plot(*ellipse, color="#0072B2", lw=2)
        ax.plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color="#D55E00", lw=2)
        ax.text(x0, y1 + 4, "two 90% intervals", color="#D55E00")
        ax.text(x1 + 4, 115, "90% region\nof both", color="#0072B2")
        ax.set(xlabel="total cholesterol in mg/dl", ylabel="LDL cholesterol in mg/dl")
        ax.set_title("A joint region follows the correlation")
    return figure
