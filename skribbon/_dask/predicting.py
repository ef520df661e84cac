"""Lazy predictions for Dask collections, with the same partitions."""

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
from .table import delayed_parts, single_column


def lazily_predicted(estimator, method, X, arguments):
    """Predict a Dask collection X by a method of a fitted estimator with these other arguments, a dict."""
    check_is_fitted(estimator)
    given = [name for name in ("y", "groups", "sample_weight") if arguments.get(name) is not None]
    columns = {name: single_column(name, arguments[name]) for name in given}
    arguments = {name: value for name, value in arguments.items() if name not in given}
    if arguments.get("return_cov"):
        raise ValueError("return_cov needs rows in memory, but X is a Dask collection; pass some of its rows.")
    if arguments.get("return_std"):
        mean = lazily_predicted(estimator, method, X, {**arguments, "return_std": False})
        return mean, lazily_predicted(estimator, "predict_std", X, {"kind": "total"})
    if not isinstance(arguments.get("random_state", 0), Integral):
        arguments["random_state"] = int(check_random_state(arguments["random_state"]).randint(2**31 - 1))
    framed = method == "predict_frame"
    empty = _empty_frame(estimator, X) if framed else _empty_array(estimator, method, arguments)
    predict = partial(_predict_part, estimator, method, arguments, list(columns), empty)
    if framed and hasattr(X, "divisions"):  # a frame that Dask can align with X
        return X.map_partitions(lambda part: predict([part], 0), meta=empty, enforce_metadata=False)
    tasks = over_partitions(predict, delayed_parts(X, columns), method)
    return dd.from_delayed(tasks, meta=empty, verify_meta=False) if framed else _as_array(tasks, X, empty)


def _predict_part(estimator, method, arguments, names, empty, collections, k):
    """Predict the k-th partition, given as a list of X and of columns with these names."""
    X, *columns = collections
    if not X.shape[0]:
        return empty
    if method == "predict_samples":  # all partitions share the sampled functions, but not the noise
        distribution = estimator.predict_distribution(X, arguments["kind"])
        seed = arguments["random_state"]
        functions, noise = np.random.RandomState(seed), np.random.RandomState([seed, k])
        return distribution.drawn(arguments["n_samples"], functions, noise)
    if method == "predict_set":
        arguments = {**arguments, "random_state": np.random.RandomState([arguments["random_state"], k])}
    return getattr(estimator, method)(X, **dict(zip(names, map(np.asarray, columns), strict=True)), **arguments)


def _as_array(tasks, X, empty):
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(tasks)
    axis = empty.shape.index(0)
    shapes = [(*empty.shape[:axis], size, *empty.shape[axis + 1 :]) for size in sizes]
    blocks = [da.from_delayed(task, shape, dtype=empty.dtype) for task, shape in zip(tasks, shapes, strict=True)]
    return da.concatenate(blocks, axis=axis, allow_unknown_chunksizes=True)


def _empty_array(estimator, method, arguments):
    """Array that a method returns for no rows."""
    levels = np.shape(arguments.get("confidence_level", 0.9))
    before = (arguments["n_samples"],) if method.endswith("samples") else ()
    if is_classifier(estimator):
        K = len(estimator.classes_)
        behind = {"predict": (), "predict_proba_interval": (K, 2, *levels), "predict_set": (K, *levels)}
        behind["decision_function"] = () if K == 2 else (K,)
        dtype = {"predict": estimator.classes_.dtype, "predict_set": np.dtype(bool)}.get(method, np.dtype(float))
        return np.empty((*before, 0, *behind.get(method, (K,))), dtype=dtype)
    outputs = (len(estimator.model_.loss.by_output),) if estimator.model_.loss.by_output else ()
    behind = {"predict_interval": (2, *levels), "predict_quantiles": (np.size(arguments.get("quantiles")),)}
    return np.empty((*before, 0, *outputs, *behind.get(method, ())))


def _empty_frame(estimator, X):
    """Frame that ``predict_frame`` returns for no rows."""
    index = X._meta.index[:0] if hasattr(X, "divisions") else pd.RangeIndex(0)
    if is_classifier(estimator):
        names = [f"{name}_{label}" for label in estimator.classes_ for name in ("proba", "lower", "upper")]
        return pd.DataFrame({"prediction": estimator.classes_[:0]} | dict.fromkeys(names, np.zeros(0)), index=index)
    names = ["prediction", "std_epistemic", "std_aleatoric", "lower", "upper"]
    frame = pd.DataFrame(dict.fromkeys(names, np.zeros(0)), index=index)
    if not estimator.model_.loss.by_output:
        return frame
    keys = estimator.output_names_
    return pd.concat([frame] * len(keys), axis=1, keys=keys, names=["output", "column"])
