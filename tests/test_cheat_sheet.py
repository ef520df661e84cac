"""Names on the one-page summary exist."""

import ast
import importlib.util
from pathlib import Path

import pytest

import skribbon
from skribbon import inspection, metrics, plotting

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("cheat_sheet", ROOT / "doc" / "cheat_sheet.py")
SHEET = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SHEET)
CODES = [code for _, rows in SHEET.BOXES for _, code in rows]
RIBBONS = (skribbon.RibbonRegressor, skribbon.RibbonClassifier, skribbon.Predictive)
MODULES = {"inspection": inspection, "metrics": metrics, "plotting": plotting}


def owners(node):
    """Objects that may have the attribute."""
    root = node.value
    if isinstance(root, ast.Name) and root.id in MODULES:
        return [MODULES[root.id]]
    if isinstance(root, ast.Attribute) and isinstance(root.value, ast.Name) and root.value.id in MODULES:
        return [getattr(MODULES[root.value.id], root.attr)]
    return RIBBONS


@pytest.mark.parametrize("code", CODES)
def test_every_line_names_an_existing_attribute(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr not in ("simplefilter", "stationarity_"):
            assert any(hasattr(owner, node.attr) for owner in owners(node)), node.attr
        if isinstance(node, ast.Name) and node.id.startswith(("Ribbon", "Autograd", "cross_", "blocks")):
            assert hasattr(skribbon, node.id) or hasattr(skribbon.exceptions, node.id)


def test_lines_fit_their_boxes(tmp_path):
    assert max(map(len, CODES)) <= 58
    SHEET.draw(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"cheat_sheet.svg", "cheat_sheet.pdf"}


def test_page_contains_every_line_of_the_sheet():
    assert set(CODES) <= set(SHEET.as_markdown().splitlines())
