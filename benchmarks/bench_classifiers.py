"""Are classifiers ever worse than the model they are made of?

The protocol, which was fixed before any test row of the table was looked at:

- Data: adult, bank marketing, german credit, breast cancer, wine, digits; numbers standardized, categories one-hot.
- Rows: n of them for training, drawn with classes in proportion; at most 2,000 of the others for testing.
- Models: logistic regression with C = 1 and C = 1e4, a network of 20 tanh units by lbfgs with weight decay 1e-4 and 1,
  and ``MLPClassifier()``.
- Candidates: the model itself, RibbonClassifier and RibbonCV as they come, and temperature scaling by
  ``CalibratedClassifierCV(method="temperature", ensemble=True)``.
- Criterion: test log loss of each candidate less that of the model itself, row by row; *worse* is above zero by two
  standard errors. Besides, the expected calibration error of the winning class.
- Seeds 0 to 2 are for development, 100 and above for the table, once.
- Asked for: at most 2 % of RibbonClassifier's and RibbonCV's fits worse, by at most .01; log loss and calibration error
  of RibbonCV at most those of temperature scaling.
"""

import argparse
import sys
import time
import warnings

import numpy as np
import pandas as pd
from _data import adult, bank_marketing, german_credit
from _harness import RESULTS
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonCV
from skribbon.metrics import expected_calibration_error

DATA = {
    "adult": lambda: adult()[0],
    "bank marketing": bank_marketing,
    "german credit": german_credit,
    "breast cancer": lambda: load_breast_cancer(return_X_y=True, as_frame=True),
    "wine": lambda: load_wine(return_X_y=True, as_frame=True),
    "digits": lambda: load_digits(return_X_y=True, as_frame=True),
}


def network(decay):
    return MLPClassifier(hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", alpha=decay, max_iter=2000)


MODELS = {
    "logistic C=1": LogisticRegression(max_iter=5000),
    "logistic C=1e4": LogisticRegression(C=1e4, max_iter=5000),
    "network 1e-4": network(1e-4),
    "network 1": network(1.0),
    "MLPClassifier()": MLPClassifier(),
}
SIZES = {  # rows for training of each kind of model: larger ones take longer than they tell
    "logistic": {
        "adult": (100, 300, 1000, 5000),
        "bank marketing": (100, 300, 1000, 5000),
        "german credit": (100, 300),
        "breast cancer": (100, 300),
        "wine": (100,),
        "digits": (300,),
    },
    "network": {
        "adult": (100,),
        "bank marketing": (100,),
        "german credit": (100,),
        "breast cancer": (100, 300),
        "wine": (100,),
    },
    "MLPClassifier()": {"wine": (100,)},
}


def cases():
    """Name of the data, number of rows, name of the model."""
    for model in MODELS:
        for data, sizes in SIZES[model.split()[0]].items():
            yield from ((data, n, model) for n in sizes)


def pipeline(model, seed):
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False, min_frequency=0.02)
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, MODELS[model].set_params(random_state=seed))


def compare(data, n, model, seed):
    """One line of the table for each candidate."""
    X, y = DATA[data]()
    y = np.unique(y, return_inverse=True)[1]
    X, X_test, y, y_test = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
    X_test, y_test = X_test[:2000], y_test[:2000]
    base = pipeline(model, seed)
    plain = pipeline(model, seed).fit(X, y)
    candidates = {
        "plain": plain,
        "RibbonClassifier": RibbonClassifier(FrozenEstimator(plain)),
        "RibbonCV": RibbonCV(RibbonClassifier(base)),
        "temperature scaling": CalibratedClassifierCV(base, method="temperature", ensemble=True),
    }
    reference = None
    for name, candidate in candidates.items():
        start = time.perf_counter()
        proba = (candidate if name == "plain" else candidate.fit(X, y)).predict_proba(X_test)
        loss = -np.log(np.maximum(proba[np.arange(len(y_test)), y_test], np.finfo(float).tiny))
        reference = loss if name == "plain" else reference
        difference = loss - reference
        yield {
            "data": data,
            "n": n,
            "model": model,
            "seed": seed,
            "candidate": name,
            "nll": loss.mean(),
            "ece": expected_calibration_error(y_test, proba),
            "loss": difference.mean(),
            "error": difference.std() / np.sqrt(len(difference)),
            "alpha": getattr(candidate, "alpha_", np.nan),
            "temperature": getattr(candidate, "temperature_", np.nan),
            "seconds": time.perf_counter() - start,
        }


def summary(table):
    """Per candidate: share worse and the largest loss among those, mean log loss, calibration error, seconds."""
    table = table.assign(worse=table["loss"] > 2 * table["error"])
    lines = {}
    for name, part in table.groupby("candidate", sort=False):
        lines[name] = {
            "fits": len(part),
            "worse": part["worse"].mean(),
            "largest loss of those": part["loss"].where(part["worse"]).max(),
            "largest loss": part["loss"].max(),
            "nll": part["nll"].mean(),
            "median nll": part["nll"].median(),
            "ece": part["ece"].mean(),
            "seconds": part["seconds"].mean(),
        }
    return pd.DataFrame(lines).T


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    options.add_argument("--minutes", type=float, default=np.inf, help="no case is begun after so many")
    options.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    arguments = options.parse_args()
    start, rows = time.perf_counter(), []
    warnings.simplefilter("ignore")
    for seed in arguments.seeds:
        for case in cases():
            if case[2] not in arguments.models:
                continue
            if time.perf_counter() - start > 60 * arguments.minutes:
                print(f"Stopped before {case}, seed {seed}.", file=sys.stderr)
                break
            rows.extend(compare(*case, seed))
            last = pd.DataFrame(rows[-4:])
            print(seed, *case, *(f"{x:.3f}" for x in last["nll"]), flush=True)
    table = pd.DataFrame(rows)
    RESULTS.mkdir(exist_ok=True)
    table.to_csv(RESULTS / "classifiers.csv", index=False)
    print(summary(table).round(4).to_string())
    print(summary(table[table["model"] != "MLPClassifier()"]).round(4).to_string())


if __name__ == "__main__":
    main()
