"""Estimators whose raw prediction is uncertain: what their predict methods are made of."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ._moments import row_blocks
from ._ribbon import Latent
from ._typing import FloatArray


class Predictions:
    """A fitted estimator with ``model_``, whose loss and target encoding it shares, and an uncertain raw prediction.

    A subclass says how uncertain, for a block of prepared rows X: ``_latent(X)``, the distribution of each row's raw
    prediction; ``_raw(X)`` (n, k), its centre; ``_raw_root(X)`` (n, k, r), a root of the covariance over all rows
    together; ``_draw(n_draws, rng)``, some draws of the whole function in whatever form ``_raw_draws(X, drawn)``
    (n, k, n_draws) takes them; ``_block_width``, how many floats a row takes in the largest array of all that.
    """

    model_: Any  # a ParametricModel
    _latent: Callable[[Any], Latent]
    _raw: Callable[[Any], FloatArray]
    _raw_root: Callable[[Any], FloatArray]
    _draw: Callable[[int, Any], Any]
    _raw_draws: Callable[[Any, Any], FloatArray]

    def _by_block(self, X, function):
        """``function`` of each block of prepared rows, concatenated; memory stays that of one block."""
        X = self._validated(X)
        blocks = [function(X[rows]) for rows in row_blocks(X.shape[0], self._block_width)]
        self._warn_if_undetermined(X)
        return (Latent.concatenate if isinstance(blocks[0], Latent) else np.concatenate)(blocks)

    def _warn_if_undetermined(self, X):
        """Say so where prepared rows X lie beyond what the training rows tell anything about, if that can be known."""

    def _validated(self, X):
        check_is_fitted(self)
        if not self.model_.preprocess:  # a pipeline's transformers check X, and may take text or columns in any order
            if len(getattr(X, "shape", (0, 0))) == 1:
                check_array(X)  # says how to reshape
            if hasattr(self, "n_features_in_"):
                validate_data(self, X, reset=False, skip_check_array=True)
        return self.model_.prepare(X)


def check_levels(values, name):
    """One probability or a sequence of them, as (array, was_scalar)."""
    try:
        levels = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        levels = np.array([])
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {values!r}.")
    return levels, np.ndim(values) == 0


def check_single_level(value):
    """The level of a table, which has room for one."""
    if not check_levels(value, "confidence_level")[1]:
        raise ValueError(f"confidence_level must be a single number for a table, got {value!r}.")


def check_count(value, name, lowest=1):
    """A whole number."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < lowest:
        raise ValueError(f"{name} must be an integer >= {lowest}, got {value!r}.")
    return int(value)


def check_kind(kind, allowed):
    """One of the allowed names."""
    if kind not in allowed:
        raise ValueError(f"kind must be one of {', '.join(map(repr, allowed))}, got {kind!r}.")
