"""What continuous integration calls is there to be called."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
CALLERS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / ".readthedocs.yaml", ROOT / ".ci" / "run"]


@pytest.mark.parametrize("path", CALLERS, ids=lambda path: path.name)
def test_targets_exist(path):
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
