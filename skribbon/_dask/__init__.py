"""Fits and predictions of Dask tables, whose rows stay on their partitions; imported with the first Dask table."""

from .fitting import fit_base_lazily
from .predicting import lazily_predicted
from .rows import DaskRows
from .table import Table, folds_of, some_rows

__all__ = ["DaskRows", "Table", "fit_base_lazily", "folds_of", "lazily_predicted", "some_rows"]
