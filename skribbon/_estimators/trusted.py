"""Types of this package that a fitted estimator may hold, by the names that skops asks for."""

from importlib import import_module
from inspect import isclass
from pkgutil import walk_packages

from .. import _core, _estimators, _laws, _predict, conformal, curvature, models, noise
from .._predict.predictive import no_draws


def _members(room):
    """Names and values in all modules of a room, with the module's name."""
    for found in walk_packages(room.__path__, f"{room.__name__}."):
        if found.name != __name__ and ".torch" not in found.name:  # which skops cannot store
            yield from ((found.name, *member) for member in vars(import_module(found.name)).items())


# Loading sets attributes of objects, or calls constructors that store them: no class of these rooms runs what it holds.
TRUSTED_TYPES: tuple[str, ...] = tuple(
    f"{module}.{name}"
    for room in (_core, _laws, _predict, conformal, curvature, models, noise, _estimators)
    for module, name, value in _members(room)
    if (isclass(value) or value is no_draws) and value.__module__ == module
)
