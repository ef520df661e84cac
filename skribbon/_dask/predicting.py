"""Predictions of Dask collections: lazy ones with the same partitions, made when they are asked for."""

from __future__ import annotations

from functools import partial
from numbers import Integral

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .rows import over_partitions
from .table import _delayed_parts, _single


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
        arguments["random_state"] = int(check_random_state(arguments["random_state"]).randint(2**31 - 1))
    if method == "predict_frame" and hasattr(X, "map_partitions") and hasattr(X, "divisions"):
        empty = frame_of(estimator, X)  # a frame of the same lineage, which goes together with the others
        return X.map_partitions(partial(_framed, estimator, arguments, empty), meta=empty, enforce_metadata=False)
    parts = [_delayed_parts(X.rechunk({1: -1}) if hasattr(X, "rechunk") else X)]
    parts += [_delayed_parts(column) for column in columns.values()]
    if len({len(some) for some in parts}) > 1:
        raise ValueError(f"X and {', '.join(columns)} have different numbers of partitions; take them from one frame.")
    framed = method == "predict_frame"
    empty = frame_of(estimator, X) if framed else array_of(estimator, method, arguments)
    predicted = partial(_predicted, estimator, method, arguments, list(columns), empty)
    tasks = over_partitions(predicted, map(list, zip(*parts, strict=True)), method)
    return dd.from_delayed(tasks, meta=empty, verify_meta=False) if framed else _as_array(tasks, X, empty)


def _framed(estimator, arguments, empty, X):
    return estimator.predict_frame(X, **arguments) if len(X) else empty


def _checked_column(name, value):
    if not hasattr(value, "dask"):
        raise TypeError(f"X is a Dask collection, and {name} a {type(value).__name__}; take both from one Dask frame.")
    return _single(value, name)


def _predicted(estimator, method, arguments, names, empty, columns, k):
    """Predictions for the k-th partition."""
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


def _as_array(tasks, X, empty):
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(tasks)
    axis = empty.shape.index(0)
    shapes = [(*empty.shape[:axis], size, *empty.shape[axis + 1 :]) for size in sizes]
    blocks = [da.from_delayed(task, shape, dtype=empty.dtype) for task, shape in zip(tasks, shapes, strict=True)]
    return da.concatenate(blocks, axis=axis, allow_unknown_chunksizes=True)


def array_of(estimator, method, arguments):
    """Array of no rows as a method returns it."""
    levels = arguments.get("confidence_level", 0.9)
    several = (len(levels),) if np.ndim(levels) else ()
    before = (arguments["n_samples"],) if method.endswith("samples") else ()
    if is_classifier(estimator):
        K = len(estimator.classes_)
        behind = {
            "predict": (),
            "decision_function": () if K == 2 else (K,),
            "predict_proba_interval": (K, 2, *several),
            "predict_set": (K, *several),
        }.get(method, (K,))
        dtype = {"predict": estimator.classes_.dtype, "predict_set": np.dtype(bool)}.get(method, np.dtype(float))
        return np.empty((*before, 0, *behind), dtype=dtype)
    outputs = (len(estimator.model_.loss.by_output),) if estimator.model_.loss.by_output else ()
    behind = {"predict_interval": (2, *several), "predict_quantiles": (np.size(arguments.get("quantiles")),)}
    return np.empty((*before, 0, *outputs, *behind.get(method, ())))


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
