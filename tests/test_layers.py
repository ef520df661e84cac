"""Nobody imports upwards."""

import ast
import sys
from pathlib import Path

import pytest

import skribbon

ROOT = Path(skribbon.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

FOUNDATION = {"_typing", "laws", "_loss", "_linalg", "_softmax", "_target", "_rows", "_groups", "_clipping"}
FOUNDATION |= {"_leverage", "_freedom", "_threads", "exceptions"}
MATHEMATICS = FOUNDATION | {
    "_ribbon",
    "_draws",
    "_training",
    "_influence",
    "_outputs",
    "_predictive",
    "_joint",
    "_checks",
    "_compat",
}
BELOW_ESTIMATORS = MATHEMATICS | {"_steps", "conformal", "_left_out", "noise", "metrics", "models", "curvature"}
ESTIMATORS = {"_linearisation", "_estimator", "_noise_law", "_regression", "_regressor", "_classifier", "_alpha_path"}
ESTIMATORS |= {"_cv"}

# each part of the package, and the parts that it may import; a new part finds its place here first
MAY_IMPORT = {
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    "_ribbon": FOUNDATION,
    "_draws": FOUNDATION | {"_ribbon"},
    "_training": FOUNDATION | {"_ribbon", "_draws"},
    "_influence": FOUNDATION | {"_ribbon", "_training"},
    "_outputs": FOUNDATION | {"_ribbon", "_draws", "_training"},
    "_checks": {"_compat"},
    "_predictive": FOUNDATION | {"_checks"},
    "_joint": FOUNDATION | {"_checks", "_predictive"},
    "conformal": {"_typing", "_checks", "_predictive", "exceptions"},
    "_left_out": MATHEMATICS | {"conformal", "curvature", "noise"},
    "_blocks": {"_checks"},
    "_steps": set(),
    "_when_used": set(),
    "_cross_validation": {"_checks", "_compat", "_steps", "_typing", "exceptions"},
    "_compat": set(),
    "metrics": FOUNDATION | {"metrics", "_steps"},
    "noise": FOUNDATION,
    "models": FOUNDATION | {"models", "_when_used"},
    "curvature": FOUNDATION | {"curvature"},
    "_linearisation": BELOW_ESTIMATORS,
    "_dask": BELOW_ESTIMATORS | {"_dask"},
    "_estimator": BELOW_ESTIMATORS | {"_linearisation", "_dask"},
    **dict.fromkeys(("_noise_law", "_regression", "_classifier"), BELOW_ESTIMATORS | {"_estimator"}),
    "_regressor": BELOW_ESTIMATORS | {"_estimator", "_noise_law", "_regression"},
    "_alpha_path": BELOW_ESTIMATORS,
    "_cv": BELOW_ESTIMATORS | ESTIMATORS,
    "inspection": BELOW_ESTIMATORS | ESTIMATORS | {"inspection"},
    **dict.fromkeys(("plotting", "baselines"), BELOW_ESTIMATORS | ESTIMATORS | {"inspection", "plotting", "baselines"}),
}
FREE = {"__init__"}

OUTSIDE = {
    **{part: {"numpy", "scipy"} for part in FOUNDATION},
    "_threads": {"numpy", "threadpoolctl"},
    "_ribbon": {"numpy"},
    "_draws": {"numpy"},
    "_training": {"numpy"},
    "_influence": {"numpy"},
    "_outputs": {"numpy", "scipy"},
    "_joint": {"numpy", "scipy", "sklearn"},
    "_checks": {"numpy", "pandas", "sklearn"},
    "_predictive": {"numpy", "scipy", "sklearn"},
    "conformal": {"numpy", "pandas", "scipy", "sklearn"},
    "noise": {"numpy", "scipy", "sklearn"},
    "metrics": {"numpy", "scipy", "sklearn"},
    "models": {"numpy", "scipy", "sklearn", "autograd", "joblib"},
    "curvature": {"numpy", "scipy", "sklearn"},
    "_compat": {"sklearn"},
    "_steps": {"sklearn"},
}


def part_of(file):
    """The first name below the package: "models" for models/linear.py, "_loss" for _loss.py."""
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


def test_imports_are_read_as_python_reads_them():
    source = "import a.b\nfrom . import c\nfrom .. import _loss\nfrom .._rows import M\ndef f():\n    import late"
    expected = {"a.b", "skribbon.models.c", "skribbon._loss", "skribbon._rows.M", "late"}
    assert imports(ROOT / "models" / "linear.py", source) == expected
    assert inside(ROOT / "_ribbon.py") == {"_freedom", "_linalg", "_rows"}
    assert "sklearn" in outside(ROOT / "_estimator.py")


@every_file
def test_nobody_imports_upwards(file):
    part = part_of(file)
    if part not in FREE:
        assert inside(file) <= MAY_IMPORT[part]


@every_file
def test_outside_packages(file):
    part = part_of(file)
    if part in OUTSIDE:
        assert outside(file) <= OUTSIDE[part]
    if part != "models":
        assert "autograd" not in outside(file)
    if part != "_dask":
        assert not {"dask", "distributed"} & outside(file)


@every_file
def test_private_names_of_scikit_learn_have_one_door(file):
    private = {
        name for name in imports(file) if name.startswith("sklearn.") and any(p[0] == "_" for p in name.split("."))
    }
    assert bool(private) == (file.name == "_compat.py")
