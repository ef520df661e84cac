"""Count what a reader of the package has to carry, and fail if a count exceeds its limit: growth is a decision.

Run from the project's root. The counts are code lines, files, constants, docstrings that do not stand alone, members of
the central classes, type and name switches in the core, and the calls that five everyday fits and predictions make.
"""

import ast
import io
import os
import re
import sys
import tokenize
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path

PACKAGE = Path("skribbon")
# What each count may be at most, and what it should be if that is less. A limit follows its count down; raise one only
# for a change that is worth it.
LIMITS = {
    "code lines": (15_000, None),
    "lines": (26_920, None),
    "files": (103, None),
    "loose private modules": (0, None),
    "classes": (None, None),  # counted for information
    "numeric constants": (146, 120),
    "docstrings that do not stand alone": (0, None),
    "largest file, code lines": (350, None),
    "members of Training": (21, None),
    "members of ParametricModel": (28, 20),
    "members of Predictive": (20, None),
    "isinstance, hasattr and string comparisons in the core": (216, 150),
    "fit: calls": (475, 350),
    "fit: files": (27, 14),
    "fit: switches of file": (203, 120),
    "fit, noise='dof': calls": (305, 180),
    "fit, noise='dof': files": (22, 11),
    "fit, noise='dof': switches of file": (155, 70),
    "classifier fit: calls": (1_010, None),
    "classifier fit: files": (24, 12),
    "classifier fit: switches of file": (543, 100),
    "predict_interval: calls": (96, 35),
    "predict_interval: files": (18, 9),
    "predict_interval: switches of file": (44, 16),
    "RibbonCV fit: calls": (3_915, 2_500),
    "RibbonCV fit: files": (32, 20),
    "RibbonCV fit: switches of file": (1_690, 900),
}
CORE = ("_core", "_predict", "_estimators", "noise", "conformal", "curvature", "models")
RIDDLE = re.compile(r"(Of |The same|That of|Those|As |Its |Say so|Where )")
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def count_sources():
    """Count lines, files, classes, constants, docstrings and switches in the package's source files."""
    files = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "conftest.py")
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    code = {path: len(code_lines(texts[path], trees[path])) for path in files}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    core = [node for path in files if path.parts[1] in CORE for node in ast.walk(trees[path])]
    largest = max(files, key=code.get)
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    counts = {
        "code lines": sum(code.values()),
        "lines": sum(text.count("\n") for text in texts.values()),
        "files": len(files),
        "loose private modules": sum(path.name != "__init__.py" for path in PACKAGE.glob("_*.py")),
        "classes": len(classes),
        "numeric constants": sum(count_constants(tree) for tree in trees.values()),
        "docstrings that do not stand alone": sum(map(is_riddle, nodes)),
        "largest file, code lines": code[largest],
    }
    counts |= {
        f"members of {node.name}": count_members(node)
        for node in classes
        if node.name in ("Training", "ParametricModel", "Predictive")
    }
    counts["isinstance, hasattr and string comparisons in the core"] = sum(map(is_switch, core))
    return counts, largest


def docstring(node):
    """Statement that is the docstring of a module, class or function, or None."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        return None
    return node.body[0] if ast.get_docstring(node, clean=False) is not None else None


def code_lines(text, tree):
    """Numbers of the lines that hold code: no docstrings, comments or blank lines."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in NOT_CODE for line in range(token.start[0], token.end[0] + 1)}
    for statement in filter(None, map(docstring, ast.walk(tree))):
        lines -= set(range(statement.lineno, statement.end_lineno + 1))
    return lines


def is_riddle(node):
    """Whether a class or function has a docstring that an editor's tooltip cannot show alone."""
    statement = None if isinstance(node, ast.Module) else docstring(node)
    if statement is None:
        return False
    text = statement.value.value.strip()
    return RIDDLE.match(text) is not None or len(text.split()) < 3


def count_constants(tree):
    """Count upper-case names that a module assigns an expression with a number to."""
    count = 0
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(map(is_number, ast.walk(node.value))):
            names = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            count += sum(name.isupper() and len(name) > 1 for name in names)
    return count


def is_number(node):
    """Whether a node is a literal number."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def count_members(node):
    """Count names that a class body defines: methods, attributes and annotated fields."""
    names = set()
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        targets = getattr(statement, "targets", [getattr(statement, "target", statement)])
        names |= {name.id for target in targets for name in getattr(target, "elts", [target]) if hasattr(name, "id")}
    return len(names)


def is_switch(node):
    """Whether a node calls isinstance or hasattr, or compares something with a string literal."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "hasattr")
    if not isinstance(node, ast.Compare):
        return False
    sides = [part for side in (node.left, *node.comparators) for part in getattr(side, "elts", [side])]
    return any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)


def count_walk(name, call):
    """Count calls of functions of the package, their files and the switches between files, while ``call`` runs."""
    package, seen = str(PACKAGE.resolve()) + os.sep, []

    def profile(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            seen.append(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    switches = sum(one != other for one, other in pairwise(seen))
    return {f"{name}: calls": len(seen), f"{name}: files": len(set(seen)), f"{name}: switches of file": switches}


def count_walks():
    """Count calls, files and switches of five everyday fits and predictions, each run once before."""
    from sklearn.datasets import load_breast_cancer, load_diabetes
    from sklearn.linear_model import LogisticRegression, Ridge

    from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor

    X, y = load_diabetes(return_X_y=True)
    Z, labels = load_breast_cancer(return_X_y=True)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    ribbon = RibbonRegressor(Ridge()).fit(X, y)
    calls = {
        "fit": lambda: RibbonRegressor(Ridge()).fit(X, y),
        "fit, noise='dof'": lambda: RibbonRegressor(Ridge(), noise="dof").fit(X, y),
        "classifier fit": lambda: RibbonClassifier(LogisticRegression()).fit(Z, labels),
        "predict_interval": partial(ribbon.predict_interval, X),
        "RibbonCV fit": lambda: RibbonCV(Ridge()).fit(X, y),
    }
    counts = {}
    for name, call in calls.items():
        call()
        counts |= count_walk(name, call)
    return counts


def main():
    """Print a table of counts and limits; return how many counts exceed their limit."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, os.curdir)
    counts, largest = count_sources()
    counts |= count_walks()
    too_large = 0
    for name, (limit, aim) in LIMITS.items():
        exceeds = limit is not None and counts[name] > limit
        too_large += exceeds
        note = f"  {largest.as_posix()}" if name.startswith("largest") else f" (aim {aim:,})" if aim else ""
        print(f"{counts[name]:>8,} / {'-' if limit is None else format(limit, ','):>6} {' !'[exceeds]} {name}{note}")
    if too_large:
        print(f"{too_large} counts exceed their limits. Simplify the code, or raise the limits in .ci/size.py.")
    return too_large


if __name__ == "__main__":
    sys.exit(min(main(), 1))
