"""The user's table: one of its columns, that column changed, and its rows in groups."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from .._utils.checks import listed
from .._utils.compat import safe_indexing
from ._functional import Groups


def as_table(X: Any) -> Any:
    """X with columns that can be taken and changed."""
    if hasattr(X, "iloc") or sparse.issparse(X):
        return X
    if hasattr(X, "columns"):
        raise TypeError(f"X is a {type(X).__name__}, whose columns cannot be changed here; pass X.to_pandas().")
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns, got an array of shape {X.shape}.")
    return X


def is_number(values: pd.Series) -> bool:
    """Whether a column has a numeric dtype other than bool."""
    return pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)


def column_position(names: list[Any], width: int, column: Any, parameter: str) -> int:
    """Position of a column among ``width`` columns, given by its name, or by its position if no name matches."""
    if column in names:
        return names.index(column)
    if isinstance(column, str):
        cure = f"its columns are {listed(names)}" if names else f"it has no names, so give a position below {width}"
        raise ValueError(f"{parameter}={column!r} is not a column of X; {cure}.")
    try:
        position = operator.index(column)
    except TypeError:
        raise ValueError(
            f"{parameter} must be the name or position of one column, got {column!r}; ask for one at a time."
        ) from None
    if not -width <= position < width:
        raise ValueError(f"{parameter}={column} is out of range: X has {width} columns.")
    return position % width


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a DataFrame, an array or a sparse matrix."""

    X: Any  # the table
    position: int
    name: str
    values: pd.Series  # with a numeric or boolean dtype if possible, also if X holds objects

    @classmethod
    def of(cls, X: Any, column: Any, parameter: str = "column") -> Column:
        """Find a column by name, or by position if X has no names."""
        X = as_table(X)
        names = list(getattr(X, "columns", ()))
        position = column_position(names, X.shape[1], column, parameter)
        values = X[:, [position]].toarray().ravel() if sparse.issparse(X) else safe_indexing(X, position, axis=1)
        series = values if hasattr(X, "iloc") else pd.Series(np.ravel(values))
        return cls(X, position, str(names[position]) if names else f"x{position}", series.infer_objects())

    @classmethod
    def several(cls, X: Any, columns: Any, parameter: str = "column") -> list[Column]:
        """Find the columns of a name, a position, or a sequence of them."""
        asked = [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else columns
        return [cls.of(X, column, parameter) for column in asked]

    @property
    def is_bool(self) -> bool:
        """Whether the column is boolean."""
        return pd.api.types.is_bool_dtype(self.values.dtype)

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers."""
        return is_number(self.values)

    @property
    def levels(self) -> list[Any]:
        """Distinct values, sorted, or in the order of a categorical dtype."""
        if isinstance(self.values.dtype, pd.CategoricalDtype):
            return list(self.values.cat.remove_unused_categories().cat.categories)
        found = self.values.dropna().unique()
        try:
            return sorted(found)
        except TypeError:
            return sorted(found, key=str)

    def replaced(self, value: Any) -> Any:
        """X with one value, or a value for each row, in this column."""
        X, j = self.X, self.position
        if sparse.issparse(X):
            X, new = X.tocsc(), np.broadcast_to(np.asarray(value, dtype=float), X.shape[0])
            return sparse.hstack([X[:, :j], sparse.csc_array(new[:, None]), X[:, j + 1 :]], format="csr")
        if hasattr(X, "iloc"):
            X = X.copy(deep=False)
            X.isetitem(j, pd.Series(value, index=X.index, dtype=None if self.is_numeric else X.dtypes.iloc[j]))
            return X
        X = X.astype(np.result_type(X, np.asarray(value))) if self.is_numeric and X.dtype != object else X.copy()
        X[:, j] = value
        return X

    def check_known(self, values: Any, transformers: Any) -> None:
        """Refuse categories that are neither in X nor in what an encoder of the pipeline was fitted on."""
        if self.is_numeric:
            wrong = [value for value in values if not np.isreal(value) or isinstance(value, str)]
            if wrong:
                raise ValueError(f"values of the numeric column {self.name} must be numbers, got {wrong[0]!r}.")
            return
        known = [*self.levels, *(level for encoder in encoders(transformers) for level in encoder)]
        for value in values:
            if value not in known:
                found = listed([repr(level) for level in self.levels])
                raise ValueError(f"values: {value!r} is no value of {self.name} that the model knows; X has {found}.")


def encoders(transformers: Any) -> list[Any]:
    """Categories (of each column) that fitted encoders know, inside pipelines and column transformers too."""
    found: list[Any] = []
    for transformer in transformers:
        if isinstance(transformer, Pipeline):
            found += encoders([step for _, step in transformer.steps])
        elif isinstance(transformer, FeatureUnion):
            found += encoders([step for _, step in transformer.transformer_list])
        elif isinstance(transformer, ColumnTransformer):
            found += encoders([step for _, step, _ in transformer.transformers_])
        else:
            found += [list(levels) for levels in getattr(transformer, "categories_", ())]
    return found


# ---------------------------------------------------------------------- rows in groups
def grouped(X: Any, by: Any, weights: ArrayLike | None, aggregate: str) -> Groups:
    """Rows of X in the groups of ``by``, with what each counts in a mean or a sum."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    weight = checked_weights(weights, n, aggregate)
    if by is None:
        labels, codes = ["all"], np.zeros(n, dtype=np.intp)
    else:
        labels, codes = _codes(X, by, n)
    if aggregate == "mean":
        total = np.bincount(codes, weights=weight, minlength=len(labels))
        if not np.all(total > 0):
            raise ValueError(f"weights of group {labels[int(np.argmin(total))]!r} add up to zero; it has no mean.")
        weight = weight / total[codes]
    return Groups(labels, codes, weight)


def _codes(X, by, n):
    if isinstance(by, str) or np.ndim(by) == 0:
        values = Column.of(X, by, "by").values
    else:
        values = by if isinstance(by, pd.Series | pd.Categorical) else pd.Series(np.asarray(by))
    if len(values) != n:
        raise ValueError(f"by must be a column of X or have a label for each of its {n} rows, got {len(values)}.")
    values = pd.Series(values).reset_index(drop=True)
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.cat.remove_unused_categories()
        codes, labels = values.cat.codes.to_numpy(), list(values.cat.categories)
    else:
        codes, labels = pd.factorize(values, sort=True)
    if np.any(codes < 0):
        raise ValueError("by has missing labels; give these rows a group of their own, or drop them.")
    return list(labels), codes.astype(np.intp)


def checked_weights(weights: ArrayLike | None, n: int, aggregate: str) -> NDArray[np.float64]:
    """Weights (n,): ones if None, finite, and not negative in a mean."""
    if weights is None:
        return np.ones(n)
    weight = np.asarray(weights, dtype=float)
    if weight.shape != (n,) or not np.isfinite(weight).all():
        raise ValueError(f"weights must be {n} finite numbers, one for each row of X, got an array of {weight.shape}.")
    if aggregate == "mean" and weight.min() < 0:
        raise ValueError("weights of a mean must not be negative; aggregate='sum' takes any.")
    return weight
