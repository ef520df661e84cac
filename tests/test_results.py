"""Tables of the results page, of its appendix and of README are those of the records in doc/results."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
results_page = pytest.importorskip("results_page")  # an installed package has no benchmarks
RECORDS = sorted((ROOT / "doc" / "results").glob("*.json"))


@pytest.mark.parametrize("page", results_page.pages(), ids=lambda page: page.stem)
def test_page_is_made_from_the_records(page):
    text = page.read_text(encoding="utf-8")
    assert results_page.filled(text) == text, "run `make results`"


def test_every_block_is_on_a_page():
    shown = {
        block[2] for page in results_page.pages() for block in results_page.BLOCK.finditer(page.read_text("utf-8"))
    }
    assert shown == set(results_page.BLOCKS) | set(results_page.appendix_tables.BLOCKS)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_is_small_and_says_what_it_measured(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 100_000
    assert record["name"] == path.stem
    assert (ROOT / record["protocol"]).exists()
    assert len(record["tree"]) == 40  # a record of uncommitted code ends with "-dirty"
    assert record["rows"]
    assert {"date", "minutes", "versions", "settings"} <= set(record)


def test_rounded_has_five_digits_and_null_for_nan():
    assert results_page.records.rounded({"a": (0.1234567, float("nan"), 3)}) == {"a": [0.12346, None, 3]}
