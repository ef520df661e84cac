"""Tables that are not in memory: their rows stay on the partitions of Dask collections, and only sums come back.

``table.py`` has what the user hands over, ``rows.py`` the two verbs of training rows on it, ``fitting.py`` base models
that are fitted without their rows, ``predicting.py`` predictions that wait until they are asked for. Nothing above asks
where rows are, and nothing here is imported before a Dask collection arrives.
"""

from .fitting import fit_base_lazily
from .predicting import lazily_predicted
from .rows import DaskRows
from .table import Table

__all__ = ["DaskRows", "Table", "fit_base_lazily", "lazily_predicted"]
