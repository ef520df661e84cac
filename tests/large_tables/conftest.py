"""A table in memory and on Dask, and a cluster of two processes."""

from importlib.util import find_spec

import pytest
from lazy_table import table

if find_spec("dask") is None or find_spec("distributed") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="package")
def frame():
    return table()


@pytest.fixture(scope="package")
def lazy(frame):
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=3, sort=False)


@pytest.fixture(autouse=True)
def small_start(monkeypatch):
    """Start the base model from few rows, so that Newton steps over all rows are needed."""
    monkeypatch.setattr("skribbon._dask.fitting.START_ROWS", 300)


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
