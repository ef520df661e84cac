"""Intervals for a regressor and a classifier, and their cost, within a minute.

Run it with ``make demo``, or ``python examples/demo.py --output picture.png``.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib

matplotlib.use("Agg")  # draws to a file, needs no display

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import RibbonClassifier, RibbonRegressor

# Okabe and Ito's colours, told apart with any colour vision
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#4D4D4D"
PALE, MIDDLE = "#D9E8F5", "#8DBBDF"  # opaque, so that the band on top keeps its colour


def perceptron(units, alpha):
    """A small network with standardized X and y, trained to its minimum."""
    network = MLPRegressor(
        hidden_layer_sizes=(units,),
        activation="tanh",
        solver="lbfgs",
        alpha=alpha,
        max_iter=5000,
        random_state=0,
    )
    return TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), transformer=StandardScaler()
    )


def timed(function, *args):
    """Result and seconds."""
    start = perf_counter()
    result = function(*args)
    return result, perf_counter() - start


def gaussian_nll(y, mean, std):
    return np.mean(np.log(std) + ((y - mean) / std) ** 2 / 2 + np.log(2 * np.pi) / 2)


# %% The table
def compare(name, ribbon, X, y, measure, stratify=None):
    """Print means over 20 splits of ``measure``, and of the seconds of both fits."""
    rows = []
    for seed in range(20):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.33, random_state=seed, stratify=stratify
        )
        _, base_seconds = timed(clone(ribbon.estimator).fit, X_train, y_train)
        fitted, seconds = timed(clone(ribbon).fit, X_train, y_train)
        rows.append(
            [*measure(fitted, X_train, X_test, y_train, y_test), base_seconds, seconds]
        )
    share, width, *others = np.mean(rows, axis=0)
    numbers = " ".join(f"{value:8.3f}" for value in others)
    print(f"{name:34} {share:8.1%} {width:8.4g} {numbers}", flush=True)


def of_regressor(ribbon, X, X_test, y, y_test):
    """Coverage and width of 90% intervals, NLL of the Ribbon and of constant noise."""
    lower, upper = ribbon.predict_interval(X_test, confidence_level=0.9).T
    constant = np.std(
        y - ribbon.predict(X)
    )  # what one would use without parameter uncertainty
    base_nll = gaussian_nll(y_test, ribbon.predict(X_test), constant)
    covered = (lower <= y_test) & (y_test <= upper)
    return (
        covered.mean(),
        np.mean(upper - lower),
        -ribbon.log_density(X_test, y_test).mean(),
        base_nll,
    )


def of_classifier(ribbon, X, X_test, y, y_test):
    """Accuracy, width of 90% intervals, NLL of the Ribbon and of the base model."""
    width = np.ptp(
        ribbon.predict_proba_interval(X_test, confidence_level=0.9), axis=2
    ).mean()
    nll = (
        log_loss(y_test, ribbon.predict_proba(X_test)),
        log_loss(y_test, ribbon.estimator_.predict_proba(X_test)),
    )
    return ribbon.score(X_test, y_test), width, *nll


def table():
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    ridge = make_pipeline(StandardScaler(), Ridge())
    columns = f"{'width':>8} {'NLL':>8} {'NLL base':>8} {'s base':>8} {'s ribbon':>8}"
    print(f"{'Regression, held-out rows':34} {'coverage':>8} {columns}")
    diabetes, cancer, digits = (
        load(return_X_y=True)
        for load in (load_diabetes, load_breast_cancer, load_digits)
    )
    compare("diabetes, ridge", RibbonRegressor(ridge), *diabetes, of_regressor)
    # alpha: chosen by five-fold cross-validation on the training rows
    compare(
        "diabetes, perceptron of 16 units",
        RibbonRegressor(perceptron(16, alpha=10.0)),
        *diabetes,
        of_regressor,
    )
    print(f"\n{'Classification, held-out rows':34} {'accuracy':>8} {columns}")
    compare(
        "breast cancer, logistic",
        RibbonClassifier(logistic),
        *cancer,
        of_classifier,
        cancer[1],
    )
    compare(
        "digits, 10-class logistic",
        RibbonClassifier(logistic),
        *digits,
        of_classifier,
        digits[1],
    )
    print(
        "\nMeans over 20 splits. coverage: of the 90% prediction interval.\n"
        "width: its mean, for classifiers of the 90% interval of a probability.\n"
        "NLL base: base model with constant noise, or its plain probabilities.\n"
        "s base, s ribbon: seconds of the base fit, and of the Ribbon with it."
    )


# %% The picture
def draw_band(ax):
    """A network on a sine: the confidence band opens where there are no data."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-3.4, -0.6, 70), rng.uniform(1.1, 3.4, 60)])
    y = np.sin(1.6 * x) + 0.22 * rng.standard_normal(len(x))
    grid = np.linspace(-4.0, 4.0, 400)
    ribbon = RibbonRegressor(perceptron(8, alpha=0.02)).fit(x[:, None], y)
    for kind, colour in (("prediction", PALE), ("confidence", MIDDLE)):
        lower, upper = ribbon.predict_interval(
            grid[:, None], confidence_level=0.9, kind=kind
        ).T
        ax.fill_between(
            grid, lower, upper, color=colour, lw=0, label=f"90% {kind} band"
        )
    ax.plot(grid, np.sin(1.6 * grid), color=GREY, lw=1.3, ls="--", label="true mean")
    ax.plot(grid, ribbon.predict(grid[:, None]), color=BLUE, lw=2, label="fitted mean")
    ax.plot(x, y, "o", color=ORANGE, ms=3.4, alpha=0.8, mew=0, label="observations")
    ax.set(xlim=(-4, 4), ylim=(-2.3, 2.7), xlabel="x", ylabel="y")
    ax.set_title("Regression: MLPRegressor")
    ax.legend(loc="upper center", ncols=2)


def draw_probabilities(ax):
    """Held-out tumours by probability, with intervals of the probabilities."""
    data = load_breast_cancer()
    X, malignant = (
        data.data[:, :4],
        data.target == 0,
    )  # four features leave some doubt to show
    X, X_test, y, y_test = train_test_split(
        X, malignant, train_size=200, test_size=140, random_state=0, stratify=malignant
    )
    ribbon = RibbonClassifier(
        make_pipeline(StandardScaler(), LogisticRegression())
    ).fit(X, y)
    p = ribbon.predict_proba(X_test)[:, 1]
    order = np.argsort(p)
    lower, upper = ribbon.predict_proba_interval(X_test, confidence_level=0.9)[:, 1].T
    rank = np.arange(len(p))
    for truth, colour, marker, name in (
        (True, ORANGE, "^", "malignant"),
        (False, BLUE, "o", "benign"),
    ):
        mine = y_test[order] == truth
        rows = order[mine]
        ax.vlines(
            rank[mine], lower[rows], upper[rows], color=colour, alpha=0.45, lw=2.2
        )
        ax.plot(rank[mine], p[rows], marker, color=colour, ms=4.5, mew=0, label=name)
    ax.set(
        xlim=(-2, len(p) + 1),
        ylim=(-0.02, 1.02),
        xlabel="held-out tumours, sorted",
        ylabel="P(malignant)",
    )
    ax.set_title("Classification: LogisticRegression")
    ax.legend(loc="upper left", title="bar: 90% interval", alignment="left")


def picture(path):
    with plt.style.context(["skribbon.plotting.style", {"axes.titleweight": "bold"}]):
        figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.0))
        draw_band(axes[0])
        draw_probabilities(axes[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Software": None})
        plt.close(figure)
    print(f"\nPicture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("skribbon_demo.png"),
        help="where the picture goes",
    )
    arguments = parser.parse_args()
    table()
    picture(arguments.output)
