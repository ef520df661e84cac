"""Docstring summaries stand alone, and numeric constants have a reason."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

import skribbon

ROOT = Path(skribbon.__file__).parent
FILES = sorted(file for file in ROOT.rglob("*.py") if file.name != "conftest.py")

# A summary that begins so refers to a name or a sentence that an editor's tooltip does not show.
REFERRING = ("Of ", "The same", "That of", "Those of", "Those ", "As ", "Its ", "Say so", "Where ")
FEWEST_WORDS = 3

# Rooms whose docstrings or constants are still to be reworded; only ever remove one.
NOT_YET = ()

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def unclear_summaries(tree):
    """Lines and summaries of docstrings that refer to something else, or that have too few words."""
    found = []
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if text is not None:
            summary = text.split("\n\n")[0]
            if summary.startswith(REFERRING) or len(summary.split()) < FEWEST_WORDS:
                found.append(f"line {node.body[0].lineno}: {summary}")
    return found


def is_number(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def unexplained_constants(source):
    """Lines and names of numeric constants of a module without a comment on their first, last or previous line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and any(map(is_number, ast.walk(node.value))):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            constants = [name for name in names if name.isupper() and len(name) > 1]
            if constants and not comments & {node.lineno - 1, node.lineno, node.end_lineno}:
                found.append(f"line {node.lineno}: {', '.join(constants)}")
    return found


def room_of(file):
    """First folder of a file inside the package, or the name of a module at its top."""
    return file.relative_to(ROOT).parts[0]


def relative_name(file):
    return file.relative_to(ROOT).as_posix()


every_file = pytest.mark.parametrize(
    "file", [file for file in FILES if room_of(file) not in NOT_YET], ids=relative_name
)


def warnings_without_advice(tree):
    """Lines of warnings whose text names no remedy; variables may hold one."""
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "warn_user"
    ]
    found = []
    for text in (call.args[0] for call in calls if not isinstance(call.args[0], ast.Name)):
        names = {node.id for node in ast.walk(text) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(text) if isinstance(node, ast.Attribute)}
        if "Try: " not in ast.unparse(text) and not names & {"cure", "reason", "text", "messages", "listed"}:
            found.append(f"line {text.lineno}: {ast.unparse(text)}")
    return found


@every_file
def test_warnings_name_a_remedy(file):
    assert warnings_without_advice(ast.parse(file.read_text(encoding="utf-8"))) == []


def test_warnings_without_advice_are_found():
    source = 'warn_user(f"{k} rows are odd.", A)\nwarn_user("Rows are odd. Try: others.", A)\nwarn_user(reason, A)\n'
    assert [line.split(":")[0] for line in warnings_without_advice(ast.parse(source))] == ["line 1"]


@every_file
def test_docstring_summaries_stand_alone(file):
    assert unclear_summaries(ast.parse(file.read_text(encoding="utf-8"))) == []


@every_file
def test_numeric_constants_are_explained(file):
    assert unexplained_constants(file.read_text(encoding="utf-8")) == []


def test_unclear_summaries_are_found():
    source = '"""Of a module."""\nclass A:\n    """Small class."""\n    def f(self):\n        """Those rows again."""\n'
    assert [line.split(":")[0] for line in unclear_summaries(ast.parse(source))] == ["line 1", "line 3", "line 5"]
    assert unclear_summaries(ast.parse('def f():\n    """Return the number of rows."""\n')) == []


def test_unexplained_constants_are_found():
    source = "# bytes\nA_B = 3\n\nC_D = E_F = (\n    4,\n)\nG_H = 2  # rows\nNAMES = ('a',)\nI_J: int = 5\nK = 3\n"
    assert unexplained_constants(source) == ["line 4: C_D, E_F", "line 9: I_J"]


def test_rooms_not_yet_clean_exist():
    assert set(NOT_YET) <= {room_of(file) for file in FILES}
