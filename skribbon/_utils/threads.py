"""Blocks of rows on several threads, each with a BLAS of one thread.

Threads of BLAS share out a single product, and whatever comes between two products waits for one of them. Blocks of
rows have products and all the rest in them, so that sharing out the blocks is worth about twice as much; and pools of
threads that belong to several libraries do not wait for each other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

MOST = 8  # threads, each of which has a block and what it adds up to in memory
SMALL = 3000  # parameters up to which products of their squares are too small for several threads of BLAS
FEW_ROWS = 16  # whose products no BLAS shares out
_CHANGES = threading.Lock()
_HELD = threading.local()  # how many threads of BLAS this thread holds, to share out blocks among


@cache
def _libraries():
    return ThreadpoolController().lib_controllers


def _blas_threads():
    numbers = [lib.num_threads for lib in _libraries() if lib.user_api == "blas"]  # none of a BLAS that is not known
    return max([getattr(_HELD, "number", 1), *numbers])


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and OpenMP with a single thread.

    Those that have one already, maybe since somebody else is in here, are left alone, so that threads may come and go.
    """
    with _CHANGES:
        before, _HELD.number = getattr(_HELD, "number", 1), _blas_threads()
        shared = [(lib, lib.num_threads) for lib in _libraries() if lib.num_threads > 1]
        for lib, _ in shared:
            lib.set_num_threads(1)
    try:
        yield
    finally:
        with _CHANGES:
            _HELD.number = before
            for lib, number in shared:
                lib.set_num_threads(number)


def small_products(p: int, n: float = np.inf) -> AbstractContextManager[None]:
    """:func:`one_thread` for work with p parameters and n rows, unless parameters are many or rows are few.

    Threads of BLAS meet after every product. Where a product is small they wait more than they work, and where another
    program has a core to itself, a hundred times longer.
    """
    return one_thread() if p <= SMALL and n > FEW_ROWS else nullcontext()


def in_order(f: Callable[[Any], Any], items: Sequence[Any], most: int = MOST) -> Iterator[Any]:
    """f of each of the items, one after another in their order, made on as many threads as BLAS has.

    In a thread other than the main one somebody has shared out the work already, and it stays there.

    Parameters
    ----------
    f : callable
        Of an item; what it makes must not depend on the order of the calls.
    items : sequence
    most : int
        Threads that there is memory for.

    Yields
    ------
    object
    """
    main = threading.current_thread() is threading.main_thread()
    n = min(_blas_threads(), len(items), most, MOST) if main and len(items) > 1 else 1
    if n < 2:
        yield from map(f, items)
        return
    state, waiting = np.geterr(), deque[Any]()

    def of_item(item):
        with np.errstate(**state):  # which threads do not inherit
            return f(item)

    with one_thread(), ThreadPoolExecutor(n) as pool:
        for item in items:
            waiting.append(pool.submit(of_item, item))
            if len(waiting) > n:  # no more than one that nobody has asked for yet
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
