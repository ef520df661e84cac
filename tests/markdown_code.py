"""Run the Python code of Markdown pages: ``python markdown_code.py README.md ...``."""

import doctest
import re
import sys
from pathlib import Path

FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks(text):
    """(line, code) of every fenced Python block."""
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in FENCE.finditer(text)]


def run_page(path):
    """Run the blocks of a page one after the other in one namespace, which comes back.

    A block with prompts must print its expected output. A block without prompts must only run.
    """
    namespace = {"__name__": "__main__"}
    for line, code in blocks(Path(path).read_text(encoding="utf-8")):
        if ">>> " in code:
            run_session(code, namespace, path, line)
        else:
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)  # the lines of errors are the page's
    return namespace


def run_session(code, namespace, path, line):
    """A block with prompts, as a doctest whose names stay in ``namespace``."""
    test = doctest.DocTestParser().get_doctest(code, namespace, str(path), str(path), line - 1)
    test.globs = namespace  # get_doctest has copied it
    complaints = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=complaints.append, clear_globs=False)
    if complaints:
        raise AssertionError("".join(complaints))


if __name__ == "__main__":
    for page in sys.argv[1:]:
        run_page(page)
        print(f"{page}: its code runs")
