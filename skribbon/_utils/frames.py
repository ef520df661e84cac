"""Tables of polars, which is never imported: a function that is given one returns one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


def is_polars(values: Any) -> bool:
    """Whether values are a DataFrame or a Series of polars."""
    return type(values).__module__.partition(".")[0] == "polars"


def index_of(X: Any) -> Any:
    """Index of a pandas table, or None for other containers, as lists, which have a method ``index``."""
    return X.index if hasattr(X, "iloc") else None


def as_series(values: Any) -> Any:
    """Convert one column of any container to pandas; an Enum of polars is a categorical column with its order."""
    import pandas as pd

    if not is_polars(values):
        return pd.Series(values if isinstance(values, pd.Series | pd.Categorical) else np.asarray(values))
    values = values.cast(float) if values.dtype.is_decimal() else values
    found = values.to_numpy() if values.dtype.is_numeric() else values.to_list()
    if type(values.dtype).__name__ == "Enum":
        found = pd.Categorical(found, values.dtype.categories.to_list())
    return pd.Series(found)


def with_column(X: Any, position: int, value: Any, keep_dtype: bool) -> Any:
    """Copy a polars table with one value, or a value for each row, in a column; NaN is null if the column has nulls."""
    old, several = X.to_series(position), np.ndim(value) > 0
    options = {"dtype": old.dtype if keep_dtype else None, "nan_to_null": old.null_count() > 0}
    new = type(old)(old.name, value if several else [value], **options)
    return X.with_columns(new if several else new.new_from_index(0, len(X)))


def polars_in_polars_out(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that returns a pandas table so that it returns a polars table if it was given one.

    Missing numbers are null. A column of numbers and text is text. Names of several levels are joined by underscores.
    An index other than 0, 1, 2, ... becomes a first column "label".
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        table = function(*args, **kwargs)
        tables = (given for given in (*args, *kwargs.values()) if is_polars(given) and hasattr(given, "columns"))
        given = next(tables, None)
        return table if given is None else _converted(table, type(given))

    return call


def _converted(table, kind):
    """Convert a pandas table to another class of tables that is built from a dict of columns."""
    if table.index.tolist() != list(range(len(table))):
        table = table.reset_index(names="label")
    joined = ["_".join(filter(None, map(str, name))) if isinstance(name, tuple) else str(name) for name in table]
    columns = (_values(column) for _, column in table.items())
    return kind(dict(zip(joined, columns, strict=True)), strict=False, nan_to_null=True)


def _values(column):
    """Values of a pandas column: an array of numbers, or a list, of text if at least one value is text."""
    if column.dtype.kind in "biuf":
        return column.to_numpy()
    values = column.tolist()
    return list(map(str, values)) if any(isinstance(value, str) for value in values) else values
