"""Labels of time blocks, for rows that depend on those before them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.checks import check_count


def time_blocks(
    times_or_n: ArrayLike | int, length: int | str | None = None, by: ArrayLike | None = None
) -> NDArray[np.intp]:
    """Labels of consecutive time blocks, to be passed as ``groups``.

    Neighbouring rows of a time series depend on each other. Blocks that are longer than this dependence are nearly
    independent, and are reweighted as a whole.

    Parameters
    ----------
    times_or_n : int or array-like of shape (n_samples,)
        Number of rows, in time order; or the time of each row, numbers or dates, in any order.
    length : int or str, default=None
        Rows per block, or a pandas time offset, such as "7D", or "MS" for calendar months. None is :math:`2 n^{1/3}`
        rows, rounded up: the rate at which blocks should grow. Longer dependence needs longer blocks.
    by : array-like of shape (n_samples,), default=None
        Labels of several series, such as stations: no block mixes rows of two series.

    Returns
    -------
    ndarray of shape (n_samples,)
        A block number for each row. Rows with the same time in the same series are never separated. A last block with
        less than half the rows joins the block before it; blocks given by a time offset do not.

    See Also
    --------
    RibbonRegressor.fit : Takes the labels as ``groups``.

    Notes
    -----
    User guide: :doc:`/user_guide/groups`.

    Examples
    --------
    >>> import pandas as pd
    >>> from skribbon import time_blocks
    >>> time_blocks(9, length=4)
    array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    >>> time_blocks(pd.date_range("2026-01-01", periods=6), length="3D")
    array([0, 0, 0, 1, 1, 1])
    """
    import pandas as pd

    if np.ndim(times_or_n) == 0:
        times_or_n = np.arange(check_count(times_or_n, "times_or_n"))
    times = pd.Series(column_or_1d(np.asarray(times_or_n)))
    if times.isna().any():
        raise ValueError(f"times_or_n is missing for {int(times.isna().sum())} rows; drop them.")
    check_consistent_length(times, by)
    series = np.zeros(len(times), dtype=np.intp) if by is None else pd.factorize(column_or_1d(np.asarray(by)))[0]
    if (series < 0).any():
        raise ValueError(f"by is missing for {int((series < 0).sum())} rows; give them a label of their own.")
    if isinstance(length, str):
        labels = _of_calendar(times, length)
    else:
        labels = times.groupby(series, sort=False).transform(_of_rows, length=length).to_numpy()
    return pd.factorize(pd.MultiIndex.from_arrays([series, labels]))[0]


def _of_rows(times: Any, length: int | None) -> Any:
    """Label the blocks of a single series by numbers of rows."""
    n = len(times)
    length = min(n, int(np.ceil(2 * n ** (1 / 3)))) if length is None else check_count(length, "length")
    most = max((n - 1 - (length - 1) // 2) // length, 0)  # the last block of at least half the length
    first = times.rank(method="min").to_numpy().astype(np.intp) - 1
    return np.minimum(first // length, most)


def _of_calendar(times: Any, length: str) -> Any:
    """Label the blocks by a pandas time offset."""
    import pandas as pd

    if not pd.api.types.is_datetime64_any_dtype(times):
        raise ValueError(f"length={length!r} is a time offset, but times_or_n contains no dates; pass a row count.")
    try:
        offset: Any = pd.tseries.frequencies.to_offset(length)
    except ValueError as error:
        raise ValueError(f"length must be a number of rows or a pandas offset such as '7D', got {length!r}.") from error
    try:
        step = pd.Timedelta(offset)
    except ValueError:  # months and years differ in length
        return times.to_frame("t").groupby(pd.Grouper(key="t", freq=offset)).ngroup().sort_index().to_numpy()
    if step <= pd.Timedelta(0):
        raise ValueError(f"length must be a positive time offset, got {length!r}.")
    return ((times - times.min()) // step).to_numpy()
