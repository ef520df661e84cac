"""Tables that are not in memory: their rows stay on the partitions of Dask collections, and only sums come back.

``rows.py`` has passes over partitions and the two verbs of training rows on them, ``table.py`` the user's collections
and their folds, ``fitting.py`` base models that are fitted without their rows in memory, and ``predicting.py`` lazy
predictions. Nothing above asks where rows are, and nothing here is imported before a Dask collection arrives.
"""

from .fitting import fit_base_lazily
from .predicting import lazily_predicted
from .rows import DaskRows
from .table import Table, folds_of, some_rows

__all__ = ["DaskRows", "Table", "fit_base_lazily", "folds_of", "lazily_predicted", "some_rows"]
