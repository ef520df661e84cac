"""Folds and samples that depend on the rows, not on their order, scale or shift.

Each row has a key, a pseudo-random number that its values determine. Rows sorted by their keys are cut into folds or
samples. Identical rows have equal keys, and one row more or less moves at most one row across each cut. In a table of
categories, identical rows are observations of their own: their keys are spread evenly, so that a fold or a sample has
its share of each. Otherwise a fold would hold out all rows with one target, and keep those with another.
"""

import numpy as np
from scipy import sparse

from .thresholds import FEWEST_DISTINCT_ROWS

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, odd: its multiples are spread evenly
GRID = 2.0**22 / np.e  # places along the range of a column: finer than rows differ, coarser than rounding by a shift


def row_keys(y, X, group=None):
    """Pseudo-random keys (n,) of rows; X matters only among rows of equal y, and rows of a group share a key."""
    keys = _hashed(_numbers(y))
    _, same = np.unique(keys, return_inverse=True)
    if same.max(initial=-1) < len(keys) - 1:
        among = _hashed(_numbers(X))
        keys = keys + GOLDEN * (among - _least(among, same))  # unsigned integers wrap around
        keys = keys if group is not None else _separated(keys, among)
    return keys if group is None else _least(keys, np.unique(group, return_inverse=True)[1])


def some_by_keys(keys, size):
    """Ascending indices of the rows with the ``size`` smallest distinct keys, and of at most four times as many."""
    _, unit = np.unique(keys, return_inverse=True)
    chosen = np.flatnonzero(unit < size)
    if len(chosen) > 4 * size:  # of each copied row its share
        chosen = chosen[np.argsort(keys[chosen], kind="stable")][:: -(-len(chosen) // (4 * size))]
    return np.sort(chosen)


def deal(tests, keys, together=False):
    """Train and test rows of each fold, a list of pairs; rows of equal keys share a fold.

    ``tests`` is a number of folds, or a function that takes a row for each distinct key, in the order of the keys, and
    returns positions among them for each fold. With few distinct rows, as in tables of categories, rows of equal keys
    are spread over the folds unless they must stay ``together``.
    """
    _, first, unit = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) < FEWEST_DISTINCT_ROWS and not together:
        first = np.argsort(keys, kind="stable")[np.random.default_rng(0).permutation(len(keys))]
        unit = np.argsort(first)
    by_fold = tests(first) if callable(tests) else np.array_split(np.arange(len(first)), min(tests, len(first)))
    held_out = [np.isin(unit, test) for test in by_fold]
    return [(np.flatnonzero(~out), np.flatnonzero(out)) for out in held_out]


def _separated(keys, features):
    """Keys (n,) that differ between identical rows, if the features of most of these also have other targets."""
    _, unit, count = np.unique(keys, return_inverse=True, return_counts=True)
    copied, cell = count[unit] > 1, np.unique(features, return_inverse=True)[1]
    other_targets = _least(keys, cell) < keys.max() - _least(keys.max() - keys, cell)
    if not copied.any() or other_targets[copied].mean() < 0.5:
        return keys
    order = np.argsort(unit, kind="stable")
    number = np.empty(len(keys), dtype=np.uint64)
    number[order] = np.arange(len(keys)) - np.repeat(np.cumsum(count) - count, count)
    return keys + GOLDEN * number


def _least(values, code):
    """Smallest value (n,) among the rows of the same code."""
    least = np.full(code.max(initial=0) + 1, np.iinfo(values.dtype).max, dtype=values.dtype)
    np.minimum.at(least, code, values)
    return least[code]


def _hashed(A):
    """Hash (n,) of the rows of a matrix (n, d), by their place along the range of a fixed combination of columns."""
    with np.errstate(all="ignore"):
        low, high = (np.ravel(a.toarray() if sparse.issparse(a) else a) for a in (A.min(axis=0), A.max(axis=0)))
        span, factor = high - low, 0.5 + np.arange(1, A.shape[1] + 1) * 0.6180339887498949 % 1
        place = A @ np.divide(factor, span, out=np.zeros(len(span)), where=span > 0)
        place = (place - place.min()) / np.ptp(place)
        x = np.rint(GRID * np.nan_to_num(place)).astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # the mixer of splitmix64
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _numbers(A):
    """Columns of any table as a matrix of floats; a missing value is zero, a label its place among the labels."""
    if sparse.issparse(A):
        return A.tocsr()
    try:
        numbers = np.asarray(A, dtype=float).reshape(len(A), -1)
        return numbers if np.isfinite(numbers).all() else np.nan_to_num(numbers)
    except (TypeError, ValueError):
        columns = np.asarray(A, dtype=object).reshape(len(A), -1).T
    if len(columns) > 1:
        return np.hstack([_numbers(column) for column in columns])
    return np.unique(columns[0].astype(str), return_inverse=True)[1][:, None].astype(float)
