"""Tables that are not in memory: their rows stay on the partitions of Dask collections, and only sums come back.

``table.py`` has what the user hands over, ``rows.py`` the two verbs of training rows on it, ``engine.py`` the passes
over partitions, ``fitting.py`` base models that are fitted without their rows, ``folds.py`` which rows are held out,
and ``predicting.py`` predictions that wait until they are asked for. Nothing above asks where rows are, and nothing
here is imported before a Dask collection arrives.
"""

from .fitting import fit_base_lazily
from .folds import folds_of, some_rows
from .predicting import lazily_predicted
from .rows import DaskRows
from .table import Table

__all__ = ["DaskRows", "Table", "fit_base_lazily", "folds_of", "lazily_predicted", "some_rows"]
