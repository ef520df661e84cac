"""Rooms of the package import only from rooms below them."""

import ast
import sys
from pathlib import Path

import pytest

import skribbon

ROOT = Path(skribbon.__file__).parent
FILES = sorted(file for file in ROOT.rglob("*.py") if file.name != "conftest.py")  # which only tests import

# The rooms of the package, from the bottom up, and the packages that each may import from outside. A room imports its
# own files and the rooms above it in this table; rooms in one line do not import each other.
ROOMS = [
    {"exceptions": set()},
    {"_utils": {"numpy", "pandas", "scipy", "sklearn", "threadpoolctl"}},
    {"_laws": {"numpy", "scipy"}},
    {"_core": {"numpy", "scipy"}},
    {"models": {"numpy", "scipy", "sklearn", "autograd", "joblib", "skorch", "torch"}},
    {"curvature": {"numpy", "scipy", "sklearn"}, "_predict": {"numpy", "scipy", "sklearn"}},
    {"noise": {"numpy", "scipy", "sklearn"}, "metrics": {"numpy", "scipy", "sklearn"}},
    {"conformal": {"numpy", "pandas", "scipy", "sklearn"}},
    {"_dask": {"numpy", "pandas", "scipy", "sklearn", "dask", "distributed"}},
    {"_estimators": {"numpy", "pandas", "scipy", "sklearn"}},
    {"inspection": {"numpy", "pandas", "scipy", "sklearn"}},
    {"plotting": {"numpy", "pandas", "scipy", "sklearn", "matplotlib"}},
    {"baselines": {"numpy", "pandas", "scipy", "sklearn", "joblib", "jax", "numpyro"}},
]
# A report draws itself: the method that does so imports the room of displays, which is above its own.
UPWARDS = {"inspection/_check.py": {"plotting"}}
OUTSIDE = {room: packages for line in ROOMS for room, packages in line.items()}
MAY_IMPORT = {
    room: {room} | {below for line in ROOMS[:level] for below in line}
    for level, line in enumerate(ROOMS)
    for room in line
}


def part_of(file):
    """Room of a file: "models" for models/linear.py."""
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def absolute(node, file):
    """Full dotted names that an import statement refers to, relative ones resolved."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    package = ("skribbon", *file.relative_to(ROOT).parts[:-1])
    base = package[: len(package) - node.level + 1] if node.level else ()
    module = ".".join([*base, *([node.module] if node.module else [])])
    return [f"{module}.{alias.name}" for alias in node.names]


def imports(file, source=None):
    """Everything that a file imports, also inside functions."""
    tree = ast.parse(file.read_text(encoding="utf-8") if source is None else source)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {name for node in statements for name in absolute(node, file)}


def inside(file):
    """Parts of skribbon that a file imports."""
    return {name.split(".")[1] for name in imports(file) if name.startswith("skribbon.")}


def outside(file):
    """Top-level packages that a file imports, the standard library left out."""
    return {name.split(".")[0] for name in imports(file)} - {"skribbon", *sys.stdlib_module_names}


def relative_name(file):
    return str(file.relative_to(ROOT))


every_file = pytest.mark.parametrize("file", FILES, ids=relative_name)


def test_relative_imports_are_resolved():
    source = "import a.b\nfrom . import c\nfrom .. import _laws\nfrom .._core.rows import M\ndef f():\n    import late"
    expected = {"a.b", "skribbon.models.c", "skribbon._laws", "skribbon._core.rows.M", "late"}
    assert imports(ROOT / "models" / "linear.py", source) == expected
    assert inside(ROOT / "_core" / "ribbon.py") == {"_core", "exceptions"}
    assert "sklearn" in outside(ROOT / "_estimators" / "base_model.py")


@every_file
def test_rooms_import_downwards(file):
    if part_of(file) != "__init__":
        assert inside(file) <= MAY_IMPORT[part_of(file)] | UPWARDS.get(file.relative_to(ROOT).as_posix(), set())


@every_file
def test_rooms_import_only_allowed_packages(file):
    if part_of(file) != "__init__":
        assert outside(file) <= OUTSIDE[part_of(file)]


def test_every_module_is_in_a_room():
    assert {file.name for file in FILES if file.parent == ROOT} == {"__init__.py", "exceptions.py"}
    assert {part_of(file) for file in FILES} - {"__init__"} == MAY_IMPORT.keys()


@every_file
def test_private_scikit_learn_names_are_imported_in_one_place(file):
    private = {
        name for name in imports(file) if name.startswith("sklearn.") and any(p[0] == "_" for p in name.split("."))
    }
    assert bool(private) == (file.name == "compat.py")


@every_file
def test_cached_properties_hold_no_lock(file):
    """functools.cached_property of Python 3.11 holds a lock, so that a forked process may wait for it forever."""
    assert "functools.cached_property" not in imports(file)
