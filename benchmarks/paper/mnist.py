"""Section 5, MNIST: a small convolutional network with a short training budget, and what each method makes of it."""

from dataclasses import asdict, dataclass
from functools import lru_cache, partial

import _data
import numpy as np
from _cells import Experiment, mean_sd, table, timed
from sklearn.frozen import FrozenEstimator

from skribbon import AutogradClassifier, RibbonClassifier, RibbonCV
from skribbon.baselines import DeepEnsembleClassifier, LaplaceClassifier, MCDropoutClassifier
from skribbon.curvature import GaussNewton
from skribbon.metrics import expected_calibration_error
from skribbon.models.architectures import cnn

CHANNELS, BATCH, LEARNING_RATE = (3, 4), 50, 5e-3
MEMBERS, DRAWS = 5, 30
ALPHAS = np.logspace(-4, 5, 19)
DECADES = np.logspace(-1, 5, 7)  # of Laplace's prior precision; the best is refined to half decades, as alpha is
METRICS = ("accuracy", "brier", "ece", "nll")
CHOICES = ("brier", "ece", "nll")  # what Ribbon's alpha is chosen by


@dataclass(frozen=True)
class Setting:
    """What a network is trained on, and how its curvature is damped."""

    images: int = 1500
    epochs: int = 5
    damping: float = 1e-3
    dropout: float = 0.2


SHORT, LONG = Setting(), Setting(images=500, epochs=60)
DAMPINGS = tuple(Setting(damping=damping) for damping in (1e-4, 1e-2))
SIZES = (Setting(images=500, epochs=15), Setting(images=2500, epochs=3))  # as many steps, on other numbers of images
DROPOUT = Setting(dropout=0.1)


@dataclass(frozen=True)
class Rows:
    """How many rows alpha and the prior are tuned on, and how many the methods are judged by."""

    validation: int
    test: int


def experiment(quick):
    rows, repeats = (Rows(500, 2000), (2, 1)) if quick else (Rows(1000, 10_000), (10, 1))
    plan = [(SHORT, trial, METHODS) for trial in range(repeats[0])]
    plan += [(LONG, trial, [m for m in METHODS if m != "ensemble" or not quick]) for trial in range(repeats[1])]
    plan += [(setting, 0, ("laplace", "ribbon")) for setting in (DAMPINGS[1:] if quick else DAMPINGS)]
    plan += [(setting, 0, ("single", "dropout", "laplace", "ribbon")) for setting in (SIZES[:1] if quick else SIZES)]
    plan += [(DROPOUT, 0, ("dropout",))]
    cells = {
        cell_name(setting, trial, method): partial(METHODS[method], setting, trial, rows)
        for setting, trial, methods in plan
        for method in methods
    }
    network = {"channels": CHANNELS, "batch": BATCH, "learning_rate": LEARNING_RATE}
    fixed = {**asdict(rows), **network, "members": MEMBERS, "draws": DRAWS, "alphas": ALPHAS, "decades": DECADES}
    return Experiment("mnist", "MNIST", {**fixed, "version": 2}, cells, network_of, partial(report, rows=rows))


def network_of(cell):
    """The network that a cell is about: its images, epochs and trial."""
    words = cell.split()
    return " ".join([*words[:2], words[4]])


def cell_name(setting, trial, method):
    return f"{' '.join(f'{name}={value:g}' for name, value in asdict(setting).items())} trial={trial} {method}"


# ---------------------------------------------------------------------- data and networks
@lru_cache
def images(part):
    """Flattened images on the scale of 0 to 1, and their digits."""
    data = np.load(_data.find("mnist.npz"))
    return data[f"x_{part}"].reshape(-1, 28 * 28) / 255, data[f"y_{part}"]


def split(setting, trial, rows):
    """Training, validation and test rows; a trial has its own training and validation images."""
    (X, y), (X_test, y_test) = images("train"), images("test")
    order = np.random.default_rng(trial).permutation(len(y))
    train, validation = order[: setting.images], order[-rows.validation :]
    test = np.random.default_rng(0).permutation(len(y_test))[: rows.test]
    return (X[train], y[train]), (X[validation], y[validation]), (X_test[test], y_test[test])


def network(setting, trial, dropout=0.0):
    return AutogradClassifier(
        cnn((28, 28), CHANNELS, dropout=dropout),
        solver="adam",
        batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        max_iter=setting.epochs,
        n_iter_no_change=setting.epochs,
        random_state=trial,
    )


@lru_cache(maxsize=2)
def trained(images, epochs, trial):
    """The network that all methods around a single fit share."""
    setting = Setting(images, epochs)
    train, _, _ = split(setting, trial, Rows(1, 1))
    return FrozenEstimator(network(setting, trial).fit(*train))


def scores(probabilities, y):
    one_hot = np.eye(10)[y]
    return {
        "accuracy": (probabilities.argmax(axis=1) == y).mean(),
        "brier": ((probabilities - one_hot) ** 2).sum(axis=1).mean(),
        "ece": expected_calibration_error(y, probabilities),
        "nll": -np.log((probabilities * one_hot).sum(axis=1)).mean(),
    }


# ---------------------------------------------------------------------- methods
def single(setting, trial, rows):
    """The network's own probabilities."""
    _, _, (X_test, y_test) = split(setting, trial, rows)
    return scores(trained(setting.images, setting.epochs, trial).predict_proba(X_test), y_test)


def dropout(setting, trial, rows):
    train, _, (X_test, y_test) = split(setting, trial, rows)
    fitted = MCDropoutClassifier(network(setting, trial, setting.dropout), n_draws=DRAWS, random_state=trial)
    fitted.fit(*train)
    probabilities, seconds = timed(lambda: fitted.predict_proba(X_test))
    return {**scores(probabilities, y_test), "seconds": seconds}


def ensemble(setting, trial, rows):
    train, _, (X_test, y_test) = split(setting, trial, rows)
    members = DeepEnsembleClassifier(network(setting, trial), n_members=MEMBERS, random_state=trial)
    probabilities, seconds = timed(lambda: members.fit(*train).predict_proba(X_test))
    return {**scores(probabilities, y_test), "seconds": seconds}


def laplace(setting, trial, rows):
    """Prior precision by the validation rows' log score; the base model and its curvature are those of one fit."""
    train, validation, (X_test, y_test) = split(setting, trial, rows)
    base = trained(setting.images, setting.epochs, trial)
    posterior = LaplaceClassifier(base, curvature=GaussNewton(damping=setting.damping))

    def fit():
        fitted, training = posterior._fit_training(*train, None)  # as prior_precision="validation", with given rows
        observation, unit = posterior._observation(fitted, training)

        def at(prior):
            return posterior._adopt(fitted | observation | {"ribbon_": posterior._posterior(training, unit, prior)[0]})

        found = {prior: at(prior)._log_score(*validation).mean() for prior in DECADES}
        for prior in max(found, key=found.get) * np.sqrt([0.1, 10]):
            found[prior] = at(prior)._log_score(*validation).mean()
        best = max(found, key=found.get)
        return best, at(best).predict_proba(X_test)

    (prior, probabilities), seconds = timed(fit)
    return {**scores(probabilities, y_test), "prior": prior, "seconds": seconds}


def ribbon(setting, trial, rows):
    """alpha by three scores of the validation rows, from one fit and one pass over them."""
    train, validation, (X_test, y_test) = split(setting, trial, rows)
    base = trained(setting.images, setting.epochs, trial)
    curvature = GaussNewton(damping=setting.damping)
    ribbon = RibbonClassifier(base, temperature=1.0, averaging="exact", curvature=curvature)

    def fit():
        fitted = FrozenEstimator(ribbon.fit(*train))
        path = RibbonCV(fitted, alphas=ALPHAS).fit(*validation).cv_results_
        chosen = {name: last_best(path[f"mean_test_{name}"]) for name in CHOICES}
        return chosen, {alpha: ribbon.with_alpha(alpha).predict_proba(X_test) for alpha in set(chosen.values())}

    (chosen, probabilities), seconds = timed(fit)
    values = {name: {**scores(probabilities[alpha], y_test), "alpha": alpha} for name, alpha in chosen.items()}
    return {**values, "stationarity": ribbon.stationarity_, "seconds": seconds}


def last_best(values):
    """The alpha with the lowest score; among equals the largest, as RibbonCV chooses."""
    return float(ALPHAS[len(values) - 1 - int(np.argmin(values[::-1]))])


METHODS = {"single": single, "dropout": dropout, "ensemble": ensemble, "laplace": laplace, "ribbon": ribbon}


# ---------------------------------------------------------------------- report
PAPER = {
    "MC dropout": ("85.41 ± 1.39", "0.2417 ± 0.0179", "0.1302 ± 0.0098", "0.5380 ± 0.0339"),
    "deep ensemble": ("87.66 ± 0.69", "0.2028 ± 0.0091", "0.0976 ± 0.0146", "0.4582 ± 0.0196"),
    "Laplace": ("85.85 ± 1.25", "0.2201 ± 0.0171", "0.0791 ± 0.0067", "0.4863 ± 0.0310"),
    "Ribbon (Brier)": ("85.85 ± 1.26", "0.2204 ± 0.0172", "0.0799 ± 0.0066", "0.4866 ± 0.0311"),
    "Ribbon (ECE)": ("85.84 ± 1.26", "0.2204 ± 0.0172", "0.0797 ± 0.0065", "0.4867 ± 0.0313"),
    "Ribbon (NLL)": ("85.82 ± 1.28", "0.2204 ± 0.0172", "0.0795 ± 0.0067", "0.4868 ± 0.0312"),
}
LABELS = {"single": "single network", "dropout": "MC dropout", "ensemble": "deep ensemble", "laplace": "Laplace"}


def by_method(values, setting):
    """The cells of all trials of a setting: label to a list, Ribbon's three choices apart."""
    found = {}
    for method, label in LABELS.items():
        found[label] = trials_of(values, setting, method)
    for name in CHOICES:
        label = f"Ribbon ({'Brier' if name == 'brier' else name.upper()})"
        found[label] = [{**cell[name], "seconds": cell["seconds"]} for cell in trials_of(values, setting, "ribbon")]
    return {label: cells for label, cells in found.items() if cells}


def trials_of(values, setting, method):
    names = (cell_name(setting, trial, method) for trial in range(len(values)))
    return [values[name] for name in names if name in values]


def column(cells, metric):
    return np.array([cell[metric] for cell in cells])


def shown(cells):
    """Accuracy in percent, Brier, ECE and NLL."""
    digits = {"accuracy": 2, "brier": 4, "ece": 4, "nll": 4}
    return [mean_sd((100 if m == "accuracy" else 1) * column(cells, m), digits[m]) for m in METRICS]


def report(values, rows):
    short, long = by_method(values, SHORT), by_method(values, LONG)
    parts = [INTRODUCTION.format(test=rows.test, validation=rows.validation)]
    header = [
        "method",
        "trials",
        *(word for name in ("accuracy %", "Brier", "ECE", "NLL") for word in (name, "paper")),
        "seconds",
    ]
    lines = []
    for label, cells in short.items():
        pairs = zip(shown(cells), PAPER.get(label, ("",) * 4), strict=True)
        lines.append([label, len(cells), *(word for pair in pairs for word in pair), seconds_of(cells)])
    parts += [table(header, lines), verdict(values, SHORT)]
    parts.append(LONGER.format(images=LONG.images, epochs=LONG.epochs))
    header = ["method", "trials", "accuracy %", "Brier", "ECE", "NLL", "seconds"]
    parts += [table(header, [[label, len(cells), *shown(cells), seconds_of(cells)] for label, cells in long.items()])]
    parts += [verdict(values, LONG), "**Other choices**, the first trial of each. " + OTHERS]
    return "\n\n".join([*parts, table(["setting", "method", *header[2:6]], other_choices(values))])


def seconds_of(cells):
    return mean_sd(column(cells, "seconds"), 1) if "seconds" in cells[0] else ""


def verdict(values, setting):
    """Ribbon beside Laplace, trial by trial: both stand on the same network, whose own luck drops out."""
    pairs = [[cell_name(setting, trial, method) for method in ("laplace", "ribbon")] for trial in range(len(values))]
    both = {name: values[name] for pair in pairs if all(name in values for name in pair) for name in pair}
    if not both:
        return "No network has both Laplace and Ribbon."
    found, ribbons = by_method(both, setting), trials_of(both, setting, "ribbon")
    laplace, ours = found["Laplace"], found["Ribbon (NLL)"]
    parts = []
    for label, metric in (("Ribbon (ECE)", "ece"), ("Ribbon (NLL)", "ece"), ("Ribbon (NLL)", "nll")):
        difference = column(found[label], metric) - column(laplace, metric)
        count = f"at or below in {(difference <= 0).sum()} of {len(difference)}"
        parts.append(f"{metric.upper()} of {label} {mean_sd(difference, 4)}, {count}")
    return (
        f"Minus Laplace on the same network: {'; '.join(parts)}. Median alpha by NLL "
        f"{np.median(column(ours, 'alpha')):.3g}, median prior precision {np.median(column(laplace, 'prior')):.3g}. "
        f"The training gradient is {column(ribbons, 'stationarity').mean():.1f} standard errors of itself."
    )


def other_choices(values):
    labels = ("single network", "MC dropout", "Laplace", "Ribbon (NLL)")
    lines = []
    for setting in (SHORT, *DAMPINGS, *SIZES, DROPOUT):
        training = f"{setting.images} images, {setting.epochs} epochs"
        name = f"{training}, damping {setting.damping:g}, dropout {setting.dropout:g}"
        found = by_method(values, setting)
        lines += [[name, label, *shown(found[label][:1])] for label in labels if label in found]
    return lines


INTRODUCTION = f"""Two 3 × 3 convolutions with {CHANNELS[0]} and {CHANNELS[1]} channels, each followed by a ReLU and
average pooling over 2 × 2, and a dense layer: 1,152 parameters. The paper leaves these settings open: {SHORT.images}
training images, {SHORT.epochs} epochs of Adam with batches of {BATCH} and a learning rate of {LEARNING_RATE:g}, for
an accuracy near the paper's 86%; damping {SHORT.damping:g} of the full-parameter Gauss-Newton matrix, for Ribbon and
Laplace; dropout of {SHORT.dropout:g} before the dense layer with {DRAWS} passes; {MEMBERS} networks in an ensemble.
Ribbon's alpha and Laplace's prior precision, both to half a decade, are chosen on {{validation:,}} validation images.
The {{test:,}} test images choose nothing, except that a longer training budget was dropped after its test accuracy,
88.7%, was known. Mean and standard deviation over trials, each with its own training images and seed.

Training stops long before a minimum, so `fit` warns with NotStationaryWarning. Seconds are the curvature, the tuning
and all test images for Laplace and Ribbon, the passes over the test images for dropout, and the training of the
members for the ensemble. Ribbon's three rows share one fit."""
LONGER = """**Fewer images, trained longer** ({images} images, {epochs} epochs). A network that is stopped early is
not overconfident, so methods can improve little. This one is overconfident."""
OTHERS = """Dampings, training sets with the same number of steps, and a smaller dropout."""
