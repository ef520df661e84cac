"""Reliability of a logistic regression with many features, and of RibbonClassifier around it."""

import matplotlib.pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from skribbon import RibbonClassifier
from skribbon.metrics import expected_calibration_error


def draw():
    """Draw both reliability curves on rows that the models were not fitted on."""
    X, y = make_classification(5300, 60, n_informative=10, class_sep=0.8, flip_y=0.02, random_state=1)
    ribbon = RibbonClassifier(LogisticRegression()).fit(X[:300], y[:300])
    with plt.style.context("skribbon.plotting.style"):
        figure, ax = plt.subplots(figsize=(4.8, 4.2))
        ax.plot([0, 1], [0, 1], color="0.6", lw=1)
        ax.text(0.83, 0.94, "calibrated", color="0.4", ha="right")
        for model, name, (colour, style), place in (
            (ribbon.estimator_, "LogisticRegression", ("#D55E00", "--"), (0.50, 0.12)),
            (ribbon, "RibbonClassifier", ("#0072B2", "-"), (0.03, 0.72)),
        ):
            proba = model.predict_proba(X[300:])
            error = expected_calibration_error(y[300:], proba)
            observed, predicted = calibration_curve(y[300:], proba[:, 1], n_bins=10)
            ax.plot(predicted, observed, style, color=colour, marker="o", lw=2)
            ax.text(*place, f"{name}\ncalibration error {error:.2f}", color=colour)
        ax.set(xlabel="predicted probability", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set_title("Ribbon removes the overconfidence")
    return figure
