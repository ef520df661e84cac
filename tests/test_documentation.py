"""Code on the pages runs, and the reference lists every public name."""

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import matplotlib
import pytest
from markdown_code import blocks, run_page

import skribbon
from skribbon import baselines, conformal, curvature, exceptions, inspection, metrics, models, noise, plotting
from skribbon.models import architectures

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "doc").rglob("*.md"))]
PAGES = [page for page in PAGES if not {"_build", "auto_examples"} & set(page.parts)]


@pytest.fixture(autouse=True)
def no_windows():
    import matplotlib.pyplot as plt

    with matplotlib.rc_context():
        plt.switch_backend("Agg")
        yield
    plt.close("all")


WITH_CODE = [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_code_on_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a page writes, it writes there
    run_page(page)


def test_session_with_different_output_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\n>>> x + 1\n3\n```\n")
    with pytest.raises(AssertionError, match="Expected:\n    3\nGot:\n    2"):
        run_page(page)


def test_block_error_names_the_page_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\ny = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 5


# MyST reads a line that begins with % as a comment, also in a list or a quotation
COMMENT = re.compile(r"^[\s>*+-]*(?:\d+\.\s+)?%.*", re.MULTILINE)
OUTSIDE_CODE = re.compile(r"^(```|~~~|:::+).*?^\1[`~:]*$", re.MULTILINE | re.DOTALL)


def swallowed_lines(text):
    """Lines of a page that MyST would leave out."""
    return COMMENT.findall(OUTSIDE_CODE.sub("", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_line_of_a_page_begins_with_a_percent_sign(page):
    assert swallowed_lines(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("text", ["covers 90\n% of rows", "- covers 90\n  % of rows", "> 90\n> % of rows"])
def test_swallowed_lines_are_detected(text):
    assert len(swallowed_lines(text)) == 1
    assert swallowed_lines("```python\n%timeit\n```\n 90% of rows") == []


def public_objects():
    """Public objects of the package and its modules by qualified name, some under two names."""
    modules = [
        skribbon,
        metrics,
        conformal,
        noise,
        curvature,
        models,
        architectures,
        baselines,
        inspection,
        plotting,
        exceptions,
    ]
    named = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    return {name: found for name, found in named.items() if not isinstance(found, ModuleType | str)}


def names_in_reference():
    """Qualified names that the reference lists, below the ``automodule`` or ``module`` that they stand under."""
    module, names = None, []
    for line in (ROOT / "doc" / "api.rst").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\.\. (?:auto)?module:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"(?:   |\.\. data:: )([A-Za-z]\w*)$", line):
            names.append(f"{module}.{found[1]}")
    return names


def test_reference_lists_every_public_name():
    public, listed = public_objects(), names_in_reference()
    assert set(listed) <= set(public)
    documented = {id(public[name]) for name in listed}
    assert [name for name, found in public.items() if id(found) not in documented] == []
    assert len(documented) == len(listed)  # nothing twice


def test_every_public_name_leads_to_the_guide(monkeypatch):
    """By a line of its docstring, or by the table of doc/guide_links.py."""
    monkeypatch.syspath_prepend(ROOT / "doc")
    monkeypatch.delitem(sys.modules, "guide_links", raising=False)
    import guide_links

    said = {name for name, found in public_objects().items() if "User guide:" in (inspect.getdoc(found) or "")}
    others = {name.rsplit(".", 1)[1] for name in set(public_objects()) - said}
    assert set(guide_links.LINKS) == others


def test_pages_of_the_guide_links_exist(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "doc")
    import guide_links

    assert [page for page in guide_links.PAGES if not (ROOT / "doc" / f"{page}.md").exists()] == []
    entries = (ROOT / "doc" / "user_guide" / "troubleshooting.md").read_text(encoding="utf-8")
    labels = [re.search(r"<(.*)>", link)[1] for link in guide_links.LINKS.values() if link.startswith(":ref:")]
    assert [label for label in labels if f"({label})=" not in entries] == []


def test_package_index_page_is_self_contained():
    """The wheel's description links to no file of the clone, and its first code block is README's."""
    text = (ROOT / "doc" / "package.md").read_text(encoding="utf-8")
    assert not re.findall(r"\]\((?!https://)", text)
    assert "<img" not in text
    assert blocks(text)[0][1] == blocks((ROOT / "README.md").read_text(encoding="utf-8"))[0][1]
    assert "long_description = file: doc/package.md" in (ROOT / "setup.cfg").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "doc/package.md"])
def test_first_block_prints_the_table_below_it(page, capsys):
    text = (ROOT / page).read_text(encoding="utf-8")
    exec(blocks(text)[0][1], {})
    shown = re.search(r"```python\n.*?^```\n+```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    assert capsys.readouterr().out == shown


def test_readme_can_be_read_in_five_minutes():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 500 <= len(text.split()) <= 650
    assert len(blocks(text)[0][1].splitlines()) <= 9  # eight lines of code and a blank one


def test_citation_has_the_current_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {skribbon.__version__}\n" in citation


def test_pages_that_sources_name_exist():
    sources = [path.read_text(encoding="utf-8") for path in Path(skribbon.__file__).parent.rglob("*.py")]
    named = {page for text in sources for page in re.findall(r"\bdoc/[\w/]+\.md", text)}
    assert named
    assert [page for page in named if not (ROOT / page).exists()] == []
