"""Make targets and files that continuous integration uses exist."""

import importlib.util
import io
import re
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
CALLERS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / ".readthedocs.yaml", ROOT / ".ci" / "run"]


@pytest.mark.parametrize("path", CALLERS, ids=lambda path: path.name)
def test_make_targets_of_workflows_exist(path):
    text = path.read_text(encoding="utf-8")
    called = set(re.findall(r"\bmake ([a-z-]+)", text))
    for names in re.findall(r"target: \[(.*)\]", text):
        called |= set(names.split(", "))
    assert called
    assert called <= TARGETS


def test_links_of_community_files():
    for path in (ROOT / ".github").glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def archive(names, time, owner):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uname, entry.mode = len(name), time, owner, 0o664 if time else 0o644
            tar.addfile(entry, io.BytesIO(name.encode()))
    return file.getvalue()


def test_rewritten_sdist_depends_only_on_its_files():
    spec = importlib.util.spec_from_file_location("same_sdist", ROOT / ".ci" / "same_sdist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    first, second = archive("ab", 0, "me"), archive("ba", 1e9 + 0.5, "you")
    assert first != second
    assert module.rewritten(first, 7) == module.rewritten(second, 7)
    assert module.rewritten(first, 7) != module.rewritten(archive("ac", 0, "me"), 7)
    with tarfile.open(fileobj=io.BytesIO(module.rewritten(second, 7))) as tar:
        assert [(entry.name, tar.extractfile(entry).read()) for entry in tar] == [("a", b"a"), ("b", b"b")]
