"""Where the benchmark data are: $SKRIBBON_DATA, else ../shared/data, else scikit-learn's own fetcher."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_california_housing


def folder():
    """The data folder, or None."""
    candidates = [os.environ.get("SKRIBBON_DATA"), Path(__file__).resolve().parents[2] / "shared" / "data"]
    return next((Path(c) for c in candidates if c and Path(c).is_dir()), None)


def find(name):
    """Path of a data file; one clear line where it is missing."""
    if folder() is None or not (folder() / name).exists():
        sys.exit(f"{name} not found: set SKRIBBON_DATA to the folder that holds it.")
    return folder() / name


def california():
    """X, y of California Housing."""
    if folder() is not None:
        data = np.load(find("california_housing.npz"))
        return data["X"], data["y"]
    return fetch_california_housing(return_X_y=True)


def uci(name):
    """X, y and the published test rows of every split."""
    data = np.load(find(f"uci/{name}.npz"))
    return data["X"], data["y"], [data[f"test_idx_{k}"] for k in range(20)]


def adult():
    """Training and test part of Adult, each (X, y)."""
    frame = pd.read_csv(find("tabular/adult.csv.gz"))
    parts = [frame[frame["split"] == part] for part in ("train", "test")]
    return [(part.drop(columns=["class", "split"]), (part["class"] == ">50K").to_numpy()) for part in parts]


def claims():
    """Features and numbers of claims of 100,000 French motor policies; the logarithm of the exposure is a feature."""
    frame = pd.read_csv(find("counts/freMTPL2freq_100k.csv.gz"))
    X = frame[["VehPower", "VehAge", "DrivAge", "BonusMalus"]].astype(float)
    X["log exposure"] = np.log(frame["Exposure"].clip(upper=1))
    X["log density"] = np.log(frame["Density"])
    X["diesel"] = frame["VehGas"] == "Diesel"
    return X.to_numpy(float), frame["ClaimNb"].clip(upper=4).to_numpy(float)


def bank_marketing():
    """X, y of Bank Marketing."""
    frame = pd.read_csv(find("tabular/bank_marketing.csv.gz"))
    return frame.drop(columns="y"), (frame["y"] == "yes").to_numpy()


def german_credit():
    """X, y of German Credit."""
    frame = pd.read_csv(find("tabular/german_credit.csv.gz"))
    return frame.drop(columns="class"), (frame["class"] == "bad").to_numpy()
