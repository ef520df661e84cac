"""Every public object has a complete docstring and complete type annotations."""

import importlib
import inspect
import typing
from functools import cached_property

import pandas as pd
import pytest
from matplotlib.axes import Axes
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

from skribbon._utils.typing import CurvatureName, NoiseName
from skribbon.curvature.base import CURVATURES
from skribbon.models.architectures import ACTIVATIONS, Activation
from skribbon.models.trained import REGRESSION_LOSSES, RegressionLoss
from skribbon.noise.scale import _BY_NAME as NOISES

MODULES = (
    "skribbon",
    "skribbon.metrics",
    "skribbon.conformal",
    "skribbon.noise",
    "skribbon.curvature",
    "skribbon.models",
    "skribbon.models.architectures",
    "skribbon.baselines",
    "skribbon.inspection",
    "skribbon.plotting",
    "skribbon.exceptions",
)

# numpydoc's codes that hold here. Left out is what the house style does not want: a second paragraph and references for
# everything (ES01, SA01), a description where name and type say it (PR07, RT03), a capital where a symbol begins (SS02,
# PR08, RT04), a verb where a noun names what comes back (SS05), and a bare type in place of `self : RibbonCV` (RT02).
# Line breaks around the quotes (GL01, GL02) are ruff's.
CODES = {
    *("GL03", "GL05", "GL06", "GL07", "GL08", "GL10"),  # known sections in the right order; tabs, blank lines
    *("SS01", "SS03", "SS06"),  # a summary: one line that ends in a full stop
    *("PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR09", "PR10"),  # all parameters, no others, in order, with type
    *("RT01", "RT05", "YD01"),  # what comes back
}
EXAMPLE = {"EX01"}  # functions and classes show how they are used; methods only where it helps
OF_EXCEPTIONS = CODES - {"PR01"} | {"ES01"}  # nobody makes one by hand: a second paragraph says when, and the cure


def public_objects():
    """Dotted name to object for all that an ``__all__`` lists and that can be called; each object by its first name."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing) and not any(thing is known for known in found.values()):
                found[f"{module.__name__}.{name}"] = thing
    return found


def own_methods(cls):
    """Dotted name to (class, name) of the public methods and properties that this package wrote, where they stand."""
    methods = {}
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        function = function_of(owner, name)
        ours = (getattr(function, "__module__", None) or "").startswith("skribbon")
        if ours and inspect.isroutine(function) and not name.startswith("_"):
            methods[f"{owner.__module__}.{owner.__name__}.{name}"] = owner, name
    return methods


def function_of(owner, name):
    """Function behind a method, class method or property."""
    thing = vars(owner).get(name)
    if isinstance(thing, property | cached_property):
        return thing.fget if isinstance(thing, property) else thing.func
    return getattr(getattr(owner, name, None), "__func__", getattr(owner, name, None))


def documented(owner, name):
    """The method, or the overridden method whose docstring it inherits."""
    return next((base for base in owner.__mro__ if name in vars(base) and function_of(base, name).__doc__), owner)


OBJECTS = public_objects()
CLASSES = {name: thing for name, thing in OBJECTS.items() if inspect.isclass(thing)}
FUNCTIONS = {name: thing for name, thing in OBJECTS.items() if inspect.isroutine(thing)}
SCORERS = {name: thing for name, thing in OBJECTS.items() if name not in CLASSES | FUNCTIONS}
METHODS = {name: method for cls in CLASSES.values() for name, method in own_methods(cls).items()}


def complaints(thing, codes):
    """Complaints of numpydoc about the docstring of a class, function or property."""
    return [f"{code}: {text}" for code, text in validate(get_doc_object(thing))["errors"] if code in codes]


def parameters_of(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def types_of(function):
    """Name to type; one that cannot be looked up raises. matplotlib and pandas are imported where they are used."""
    return typing.get_type_hints(function, localns={"Axes": Axes, "pd": pd})


def without_type(function):
    """Parameters without a type, and "return" where that is missing."""
    hints = types_of(function)
    return [name for name in (*parameters_of(function), "return") if name not in hints]


# ---------------------------------------------------------------------- discovery of objects, detection of faults
def test_public_objects_are_found():
    assert {"skribbon.RibbonCV", "skribbon.models.polish", "skribbon.plotting.CoverageDisplay"} <= OBJECTS.keys()
    names = ("coverage", "neg_coverage_error", "neg_interval_score", "neg_nll", "neg_crps", "neg_energy", "neg_brier")
    assert SCORERS.keys() == {f"skribbon.metrics.{name}_scorer" for name in (*names, "neg_ece")}
    names = {name for _, name in own_methods(OBJECTS["skribbon.baselines.LaplaceRegressor"]).values()}
    assert {"fit", "predict_interval", "get_metadata_routing", "covariance_"} <= names  # three of them inherited
    assert not {"set_params", "set_fit_request", "score", "_latent"} & names  # scikit-learn's, or private


def test_docstring_and_type_faults_are_detected():
    def faulty(a, b: int, c=0):
        """Nothing of a and c, and no example

        Parameters
        ----------
        b
        """
        return a

    codes = {complaint.split(":")[0] for complaint in complaints(faulty, CODES | EXAMPLE)}
    assert codes == {"SS03", "PR01", "PR04", "RT01", "EX01"}
    assert without_type(faulty) == ["a", "c", "return"]


# ---------------------------------------------------------------------- docstrings
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_documented(name):
    assert complaints(FUNCTIONS[name], CODES | EXAMPLE) == []


@pytest.mark.parametrize("name", CLASSES)
def test_class_is_documented(name):
    cls = CLASSES[name]
    assert complaints(cls, OF_EXCEPTIONS if issubclass(cls, Exception) else CODES | EXAMPLE) == []


@pytest.mark.parametrize("name", METHODS)
def test_method_is_documented(name):
    owner, method = METHODS[name]
    base, function = documented(owner, method), function_of(owner, method)
    is_property = isinstance(vars(owner)[method], property | cached_property)
    assert complaints(vars(base)[method] if is_property else function_of(base, method), CODES) == []
    if not is_property:
        assert parameters_of(function) == parameters_of(function_of(base, method))
        if types_of(function)["return"] is not type(None):  # also where the base class only refuses
            assert get_doc_object(function_of(base, method))["Returns"]


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_is_documented(name):
    assert complaints(type(SCORERS[name]).__call__, CODES) == []
    assert get_doc_object(type(SCORERS[name]))["Examples"]


# ---------------------------------------------------------------------- types
@pytest.mark.parametrize("name", FUNCTIONS | SCORERS)
def test_function_is_typed(name):
    function = OBJECTS[name]
    assert without_type(function if name in FUNCTIONS else type(function).__call__) == []


@pytest.mark.parametrize("name", [name for name, cls in CLASSES.items() if inspect.isfunction(cls.__init__)])
def test_class_is_typed(name):
    assert without_type(CLASSES[name].__init__) in ([], ["return"])  # of __init__ it is clear


@pytest.mark.parametrize("name", METHODS)
def test_method_is_typed(name):
    assert without_type(function_of(*METHODS[name])) == []


def test_literal_types_list_the_accepted_names():
    assert set(typing.get_args(CurvatureName)) == {"auto", *CURVATURES}
    assert set(typing.get_args(NoiseName)) == {*NOISES, "auto", "cv"}
    assert set(typing.get_args(RegressionLoss)) == REGRESSION_LOSSES.keys()
    assert set(typing.get_args(Activation)) == ACTIVATIONS.keys()
