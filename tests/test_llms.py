"""llms.txt of a built site lists every page, with its first sentence."""

import sys
from pathlib import Path

import pytest

application = pytest.importorskip("sphinx.application")  # an extra, not needed to run skribbon
DOC = Path(__file__).parent.parent / "doc"

INDEX = """Tiny
====

A *small* site. It has
three pages, all of them short, and a map.

.. toctree::

   first
   part/index
"""
FIRST = """First page
==========

.. note:: Not this.

Yes? One sentence is long enough to say what, e.g. this one. Another.
"""
PAGES = {
    "conf": "project = 'tiny'\nextensions = ['llms']\n",
    "index": INDEX,
    "first": FIRST,
    "part/index": "Part\n====\n\n.. toctree::\n\n   inner\n",
    "part/inner": "Inner\n=====\n\n.. py:function:: f\n\n   What is inside?\n",
}
MAP = """- [Tiny](index.html): A small site. It has three pages, all of them short, and a map.
- [First page](first.html): Yes? One sentence is long enough to say what, e.g. this one.
- [Part](part/index.html)
  - [Inner](part/inner.html): What is inside?
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Function that builds the pages above and more, and returns the folder of the site."""
    monkeypatch.syspath_prepend(DOC)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(**more):
        for name, text in (PAGES | more).items():
            page = tmp_path / f"{name}{'.py' if name == 'conf' else '.rst'}"
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
        folders = [str(tmp_path), str(tmp_path), str(tmp_path / "html"), str(tmp_path / "trees")]
        application.Sphinx(*folders, buildername="html", status=None, warning=None).build()
        return tmp_path / "html"

    return run


def test_map_lists_every_page_in_the_order_of_the_contents(build):
    text = (build() / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# tiny\n\n> A small site. It has three pages, all of them short, and a map.\n")
    assert text.endswith("\n" + MAP)


def test_page_outside_the_contents_stops_the_build(build):
    with pytest.raises(Exception, match=r"llms\.txt does not list lost"):
        build(lost=":orphan:\n\nLost\n====\n\nNowhere.\n")
