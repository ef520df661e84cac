"""Warnings name their place in the user guide."""

import re
import warnings
from pathlib import Path

import pytest

import skribbon
from skribbon import baselines, exceptions
from skribbon.exceptions import RibbonWarning, guide_place, noted_warnings, warn_once_per_kind, warn_user

PAGE = Path(skribbon.__file__).parents[1] / "doc" / "user_guide" / "troubleshooting.md"
PUBLIC = [getattr(exceptions, name) for name in exceptions.__all__] + [baselines.MemberWarning]
CLASSES = [one for one in PUBLIC if issubclass(one, RibbonWarning) and one is not RibbonWarning]
ANCHOR = re.compile(r" See: user guide, troubleshooting#([a-z]+(?:-[a-z]+)*-warning)\.")


def caught(category, message):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_user(message, category)
    (one,) = found
    assert one.category is category and one.filename == __file__
    return str(one.message)


@pytest.mark.parametrize("category", CLASSES, ids=lambda category: category.__name__)
def test_every_warning_class_has_an_anchor(category):
    (name,) = ANCHOR.fullmatch(guide_place(category)).groups()
    assert name.replace("-", "") == category.__name__.lower()
    assert caught(category, "Odd rows. Try: others.") == f"Odd rows. Try: others.{guide_place(category)}"


def test_a_warning_that_is_raised_again_names_its_place_once():
    text = caught(exceptions.LeverageWarning, "Odd rows.")
    assert caught(exceptions.LeverageWarning, f"2 of 3 members warned; the first: {text}").count("See: ") == 1
    with pytest.warns(exceptions.LeverageWarning) as found:
        with noted_warnings(notes := [], 1):
            warn_user("Odd rows.", exceptions.LeverageWarning)
        warn_once_per_kind(notes, 3)
    place = " See: user guide, troubleshooting#leverage-warning."
    assert [str(one.message) for one in found] == [f"In 1 of 3 folds: Odd rows.{place}"]


def test_warnings_of_other_packages_have_no_anchor():
    assert caught(UserWarning, "Odd rows.") == "Odd rows."


def test_the_guide_has_one_anchor_for_each_warning_class():
    anchors = re.findall(r"^\(([a-z-]+-warning)\)=$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(anchors) == sorted(ANCHOR.fullmatch(guide_place(category))[1] for category in CLASSES)
