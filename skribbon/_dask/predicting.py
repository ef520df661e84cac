"""Predictions of Dask collections: lazy ones with the same partitions, made when they are asked for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.delayed import delayed
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .table import _delayed_parts, _single

MAX_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Shape:
    """What a method returns for n rows: an array with this shape behind (or before) the rows, or a frame."""

    behind: tuple = ()
    before: tuple = ()
    dtype: Any = np.float64

    def empty(self):
        """Of no rows."""
        return np.empty((*self.before, 0, *self.behind), dtype=self.dtype)


def lazily_predicted(estimator, method, X, arguments):
    """What ``method`` of a fitted estimator predicts for the partitions of X, as a Dask collection.

    ``arguments`` are all others, by name; those with a value for each row must be Dask collections too.
    """
    check_is_fitted(estimator)
    columns = {name: value for name, value in arguments.items() if name in ("y", "groups", "sample_weight")}
    arguments = {name: value for name, value in arguments.items() if name not in columns}
    columns = {name: _checked_column(name, value) for name, value in columns.items() if value is not None}
    if arguments.get("return_cov"):
        raise ValueError("return_cov is over all rows together, and X is a Dask collection; ask for some rows of it.")
    if arguments.get("return_std"):
        mean = lazily_predicted(estimator, method, X, {**arguments, "return_std": False})
        return mean, lazily_predicted(estimator, "predict_std", X, {"kind": "total"})
    if not isinstance(arguments.get("random_state", 0), Integral):
        arguments["random_state"] = int(check_random_state(arguments["random_state"]).randint(MAX_SEED))
    if method == "predict_frame" and hasattr(X, "map_partitions") and hasattr(X, "divisions"):
        empty = frame_of(estimator, X)  # a frame of the same lineage, which goes together with the others
        return X.map_partitions(partial(_framed, estimator, arguments, empty), meta=empty, enforce_metadata=False)
    parts = [_delayed_parts(X.rechunk({1: -1}) if hasattr(X, "rechunk") else X)]
    parts += [_delayed_parts(column) for column in columns.values()]
    if len({len(some) for some in parts}) > 1:
        raise ValueError(f"X and {', '.join(columns)} have different numbers of partitions; take them from one frame.")
    framed = method == "predict_frame"
    empty = frame_of(estimator, X) if framed else shape_of(estimator, method, arguments).empty()
    token = uuid.uuid4().hex
    shared = delayed((estimator, method, arguments, list(columns), empty), traverse=False)
    tasks = [
        delayed(_predicted)(shared, list(row), k, dask_key_name=f"skribbon_{method}-{token}-{k}")
        for k, row in enumerate(zip(*parts, strict=True))
    ]
    if framed:
        return dd.from_delayed(tasks, meta=empty, verify_meta=False)
    return _as_array(tasks, X, shape_of(estimator, method, arguments))


def _framed(estimator, arguments, empty, X):
    return estimator.predict_frame(X, **arguments) if len(X) else empty


def _checked_column(name, value):
    if not hasattr(value, "dask"):
        raise TypeError(f"X is a Dask collection, and {name} a {type(value).__name__}; take both from one Dask frame.")
    return _single(value, name)


def _predicted(shared, columns, k):
    """Of the k-th partition."""
    estimator, method, arguments, names, empty = shared
    X, *rest = columns
    if not X.shape[0]:
        return empty
    rows = {name: np.asarray(column) for name, column in zip(names, rest, strict=True)}
    if method == "predict_samples":  # the same functions everywhere, with noise of its own
        distribution = estimator.predict_distribution(X, arguments["kind"])
        seed = arguments["random_state"]
        functions, noise = np.random.RandomState(seed), np.random.RandomState([seed, k])
        return distribution.drawn(arguments["n_samples"], functions, noise)
    if method == "predict_set":
        arguments = {**arguments, "random_state": np.random.RandomState([arguments["random_state"], k])}
    return getattr(estimator, method)(X, **rows, **arguments)


def _as_array(tasks, X, shape):
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(tasks)
    blocks = [
        da.from_delayed(task, (*shape.before, size, *shape.behind), dtype=shape.dtype)
        for task, size in zip(tasks, sizes, strict=True)
    ]
    return da.concatenate(blocks, axis=len(shape.before), allow_unknown_chunksizes=True)


def shape_of(estimator, method, arguments):
    """What a method returns."""
    levels = arguments.get("confidence_level", 0.9)
    several = (len(levels),) if np.ndim(levels) else ()
    if is_classifier(estimator):
        K = len(estimator.classes_)
        return {
            "predict": Shape(dtype=estimator.classes_.dtype),
            "predict_proba": Shape((K,)),
            "predict_log_proba": Shape((K,)),
            "decision_function": Shape(() if K == 2 else (K,)),
            "predict_proba_interval": Shape((K, 2, *several)),
            "predict_proba_samples": Shape((K,), (arguments.get("n_samples"),)),
            "predict_set": Shape((K, *several), dtype=np.bool_),
        }[method]
    outputs = (len(estimator.model_.loss.by_output),) if estimator.model_.loss.by_output else ()
    return {
        "predict": Shape(outputs),
        "predict_std": Shape(outputs),
        "log_density": Shape(outputs),
        "predictive_cdf": Shape(outputs),
        "predict_interval": Shape((*outputs, 2, *several)),
        "predict_quantiles": Shape((*outputs, np.size(arguments.get("quantiles")))),
        "predict_samples": Shape(outputs, (arguments.get("n_samples"),)),
    }[method]


def frame_of(estimator, X):
    """An empty frame as ``predict_frame`` returns it."""
    index = X._meta.index[:0] if hasattr(X, "_meta") and hasattr(X, "divisions") else pd.RangeIndex(0)
    if not is_classifier(estimator):
        names = ["prediction", "std_epistemic", "std_aleatoric", "lower", "upper"]
        frame = pd.DataFrame({name: np.zeros(0) for name in names}, index=index)
        if not estimator.model_.loss.by_output:
            return frame
        keys = estimator.output_names_
        return pd.concat([frame] * len(keys), axis=1, keys=keys, names=["output", "column"])
    columns = {"prediction": estimator.classes_[:0]}
    for label in estimator.classes_:
        columns |= {f"{name}_{label}": np.zeros(0) for name in ("proba", "lower", "upper")}
    return pd.DataFrame(columns, index=index)
