"""Python, BLAS and scikit-learn as the package needs them; the only door to scikit-learn's private names."""

import functools
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._metadata_requests import _routing_enabled as routing_enabled
from sklearn.utils.parallel import Parallel
from sklearn.utils.validation import _check_feature_names as check_feature_names
from sklearn.utils.validation import _check_n_features as check_n_features
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from threadpoolctl import ThreadpoolController, threadpool_info

from ..exceptions import VersionWarning, warn_user

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback._callback_support import callback_management_context
except ImportError:  # scikit-learn below 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in: estimators have no ``set_callbacks``."""


__all__ = ["check_feature_names", "check_n_features", "check_sample_weight", "routing_enabled", "safe_indexing"]

# multiply-adds, about one second of one core: less work gains little from BLAS threads, and loses much on busy cores
SMALL_WORK = 3e10
PACKAGES = ("numpy", "scipy", "scikit-learn", "autograd", "pandas", "matplotlib", "threadpoolctl", "joblib", "dask")

T = TypeVar("T")
P = ParamSpec("P")


class cached_property(functools.cached_property[T]):
    """Property computed once, and again after loading: its value is neither pickled nor stored by skops.

    There is no lock as in Python 3.11, for which a forked process would wait forever.
    """

    def __init__(self, func: Callable[[Any], T]):
        super().__init__(func)
        self.lock = nullcontext()

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if "__getstate__" not in vars(owner):
            owner.__getstate__ = state_without_caches  # type: ignore[assignment, method-assign]


def state_without_caches(instance):
    """State of an object for a pickle, without the values of its cached properties; its ``__getstate__``."""
    kind = type(instance)
    return {k: v for k, v in vars(instance).items() if not isinstance(getattr(kind, k, None), cached_property)}


def import_when_used(package, **homes):
    """Return ``__getattr__`` and ``__dir__`` of a package, its ``globals()``, that imports ``homes`` on first use."""

    def __getattr__(name):
        if name not in homes:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        module = import_module(homes[name], package["__name__"])  # homes gives the relative module of each name
        package[name] = module if homes[name] == f".{name}" else getattr(module, name)
        return package[name]

    def __dir__():
        return sorted(package.keys() | homes.keys())

    return __getattr__, __dir__


# ---------------------------------------------------------------------- fits and their tasks
def public_fit(fit: Callable[P, T]) -> Callable[P, T]:
    """Decorate ``fit``: tails of densities may vanish, and callbacks follow an estimator that supports them."""

    @functools.wraps(fit)
    def call(self, X, y, *args, **kwargs):
        with np.errstate(under="ignore"):  # even under np.errstate(under="raise")
            if not hasattr(self, "_skl_callbacks"):
                return fit(self, X, y, *args, **kwargs)
            with callback_management_context(self):
                task = self._init_callback_context(max_subtasks=None).call_on_fit_task_begin(estimator=self, X=X, y=y)
                fit(self, X, y, *args, **kwargs)
                task.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return self

    return call  # type: ignore[return-value]


def run_tasks(estimator, name, jobs, number, n_jobs):
    """Iterate over the results of ``jobs`` in order; each is a task of the estimator's callbacks, if it has any."""
    results, fit = Parallel(n_jobs=n_jobs, return_as="generator")(jobs), getattr(estimator, "_callback_fit_ctx", None)
    return results if fit is None else _followed(estimator, fit, name, results, number)


def _followed(estimator, fit, name, results, number):
    """Yield results and call the callbacks in this process, so that they need no way back from workers."""
    stage = fit.subcontext(f"{name}s", max_subtasks=number).call_on_fit_task_begin(estimator=estimator)
    for _ in range(number):
        task = stage.subcontext(name).call_on_fit_task_begin(estimator=estimator)
        result = next(results)
        task.call_on_fit_task_end(estimator=estimator)
        yield result
    stage.call_on_fit_task_end(estimator=estimator)


# ---------------------------------------------------------------------- BLAS threads
@functools.cache
def _libraries():
    """Threaded BLAS and OpenMP libraries of this process that threadpoolctl knows."""
    return ThreadpoolController().lib_controllers


@contextmanager
def limit_blas(n: float = 0, p: float = 0) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread for work on n rows of p columns, unless n p^2 or p^3 is large.

    Small products wait longer for BLAS threads than they take. Contexts may overlap in several Python threads without a
    lock: a library that has one thread is left alone, so the context that set one thread restores what it found.
    """
    small = max(n, p) * p**2 <= SMALL_WORK
    several = [(library, library.num_threads) for library in _libraries() if small and (library.num_threads or 1) > 1]
    try:
        for library, _ in several:
            library.set_num_threads(1)
        yield
    finally:
        try:
            for library, number in several:
                library.set_num_threads(number)
        finally:  # an interrupt may have stopped the first attempt
            for library, number in several:
                library.set_num_threads(number)


# ---------------------------------------------------------------------- versions
def own_version():
    """Version of this package."""
    return import_module(__name__.partition(".")[0]).__version__


class VersionedEstimator(BaseEstimator):
    """Estimator whose pickles hold the version of this package; loading them under another version warns."""

    def __getstate__(self):
        return {**super().__getstate__(), "_skribbon_version": own_version()}

    def __setstate__(self, state):
        state = dict(state)
        stored, current = state.pop("_skribbon_version", "an unknown version"), own_version()
        if stored != current:
            warn_user(
                f"{type(self).__name__} was stored by skribbon {stored} and loaded by {current}: its predictions may "
                f"differ, or fail. Try: fit it again, or install the version that stored it.",
                VersionWarning,
            )
        super().__setstate__(state)


def show_versions() -> None:
    """Print the versions of Python, skribbon and the packages that it uses, and the BLAS libraries with their threads.

    Add the output to a bug report.

    Examples
    --------
    >>> import skribbon
    >>> skribbon.show_versions()
    Python: ...
    skribbon: ...
    """
    print(f"Python: {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores")
    print(f"skribbon: {own_version()}")
    for package in PACKAGES:
        try:
            print(f"{package}: {version(package)}")
        except PackageNotFoundError:
            print(f"{package}: not installed")
    for library in threadpool_info():
        threads = f"{library['num_threads']} threads, {library['filepath']}"
        print(f"{library['user_api']}: {library['internal_api']} {library['version']}, {threads}")
