"""One BLAS thread for small work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from operator import attrgetter

from threadpoolctl import ThreadpoolController

SMALL_WORK = 3e10  # multiply-adds, about a second of one core: threads could save little, and lose much on busy cores


@cache
def _libraries():
    """Threaded BLAS and OpenMP libraries of this process, as far as threadpoolctl knows them."""
    return ThreadpoolController().lib_controllers


@contextmanager
def limit_blas(n: float = 0, p: float = 0) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread for work on n rows of p columns, unless n p^2 or p^3 is large.

    BLAS threads meet after every product. If products are small, waiting takes longer than the work: up to 50 times as
    long if other programs use the cores.

    On exit, also after an exception or an interrupt, every library that had several threads gets them back. Libraries
    that have one thread are left alone. So contexts may be nested, and contexts of several Python threads may overlap
    without a lock: whoever sets one thread restores the number of threads that the first one found. A context that
    outlasts another one may then run with several threads, which changes its speed only.

    Parameters
    ----------
    n : float, default=0
        Number of rows; 0 for work that is always small.
    p : float, default=0
        Number of columns or parameters.
    """
    small = max(n, p) * p**2 <= SMALL_WORK
    several = [library for library in _libraries() if small and (library.num_threads or 1) > 1]
    found = list(zip(several, map(attrgetter("num_threads"), several), strict=True))
    try:
        for library, _ in found:
            library.set_num_threads(1)
        yield
    finally:
        try:
            _restore(found)
        finally:  # an interrupt may have stopped the first attempt
            _restore(found)


def _restore(found):
    for library, number in found:
        library.set_num_threads(number)
