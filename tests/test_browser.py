"""The interactive page runs in a browser, and its numbers are skribbon's."""

import json
import re
import shutil
import subprocess
import warnings
from html import unescape
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
STATIC = ROOT / "doc" / "_static"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
GRID = np.linspace(-1.3, 1.3, 27)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path: `make browser` installs it")

# What a visitor does, and afterwards the numbers of the page. Each visit starts with a fresh page.
VISITS = {
    "start": "",
    "many rows and wide level": "slide('rows', 200); slide('level', 99); slide('noise', 0.8);",
    "few rows": "slide('rows', 8); slide('degree', 7); slide('penalty', -4);",
    "one row decides": "slide('rows', 60); slide('degree', 2); drag(0, 1.2, -2); drag(1, 1.0, 2);",
    "strong penalty": "slide('penalty', 2); slide('alpha', -1); slide('degree', 3);",
    "line": "slide('degree', 1); slide('rows', 150); slide('alpha', 1); slide('level', 50);",
    "points added and removed": "tap(0.25, 2.2); tap(-1.1, 1); remove(3); slide('noise', 0.1);",
    "new sample": "document.querySelectorAll('#explore button')[0].click(); slide('degree', 7);",
}
ACTIONS = """
function slide(name, value) {
  const input = document.querySelector(`#explore input[name=${name}]`);
  input.value = value;
  input.dispatchEvent(new Event("input"));
}
const svg = () => document.querySelector("#explore svg");
function send(type, { x, y }) {
  const box = svg().getBoundingClientRect(), clientX = box.left + x, clientY = box.top + y;
  const target = document.elementFromPoint(clientX, clientY), Kind = type === "click" ? MouseEvent : PointerEvent;
  target.dispatchEvent(new Kind(type, { clientX, clientY, bubbles: true, pointerType: "touch" }));
}
// pixels of a place, by the labels of the axes
function pixels(x, y) {
  const ticks = [...document.querySelectorAll("#explore .explore-axes text")];
  const find = (text, anchor) => ticks.find((t) => t.textContent === text && t.getAttribute("text-anchor") === anchor);
  const across = (text) => Number(find(text, "middle").getAttribute("x"));
  const up = (text) => Number(find(text, "end").getAttribute("y")) - 4;
  return { x: across("0") + 2 * x * (across("0.5") - across("0")), y: up("0") + y * (up("1") - up("0")) };
}
function point(index) {
  const circle = document.querySelector(`#explore [data-index="${index}"]`);
  return { x: Number(circle.getAttribute("cx")), y: Number(circle.getAttribute("cy")) };
}
function drag(index, x, y) {
  send("pointerdown", point(index));
  for (const type of ["pointermove", "pointerup"]) send(type, pixels(x, y));
}
// whether a touch of an element is kept from scrolling the page
function keepsThePageStill(element) {
  return !element.dispatchEvent(new TouchEvent("touchstart", { bubbles: true, cancelable: true }));
}
function tap(x, y) { for (const type of ["pointerdown", "pointerup", "click"]) send(type, pixels(x, y)); }
function remove(index) {
  const where = point(index);
  for (const type of ["pointerdown", "pointerup", "pointerdown", "pointerup"]) send(type, where);
}
"""


def dump(page, tmp_path):
    """Document of a page, after its scripts have run."""
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", profile, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Settings, rows, bands and code of the page after each visit, all in one run of the browser."""
    folder = tmp_path_factory.mktemp("browser")
    visit = """
    explored = explore.start(document.getElementById("explore"));
    %s
    found["%s"] = {
      settings: explored.settings, rows: explored.rows(), correction: explored.correction(),
      python: explored.python(), bands: %s.map(explored.at),
      points: document.querySelectorAll(".explore-point").length,
      paths: document.querySelectorAll("#explore path").length,
      holds: [document.querySelector(".explore-handle"), svg()].map(keepsThePageStill),
    };"""
    script = "".join(visit % (actions, name, json.dumps(GRID.tolist())) for name, actions in VISITS.items())
    page = folder / "page.html"
    page.write_text(
        f'<!doctype html><div id="explore"></div><script src="{(STATIC / "explore.js").as_uri()}"></script>'
        f"<pre id='found'></pre><script>let found = {{}}, explored; {ACTIONS}\n"
        f"try {{ {script} }} catch (error) {{ found = {{ error: String(error.stack) }}; }}\n"
        "document.getElementById('found').textContent = JSON.stringify(found);</script>",
        encoding="utf-8",
    )
    found = json.loads(unescape(re.search(r"<pre id=.found.>(.*?)</pre>", dump(page, folder), re.DOTALL)[1]))
    assert "error" not in found, found["error"]
    return found


@pytest.mark.parametrize("name", VISITS)
def test_page_agrees_with_skribbon(visits, name):
    """The code that the page shows, run here, gives the page's numbers."""
    visit, namespace = visits[name], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eight rows may determine their own fitted values
        exec(visit["python"], namespace)
    ribbon, level = namespace["ribbon"], visit["settings"]["level"]
    assert ribbon.correction_ == visit["correction"]
    assert len(namespace["x"]) == visit["points"] == len(visit["rows"]) == visit["settings"]["rows"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose([row["mean"] for row in visit["bands"]], ribbon.predict(GRID[:, None]), atol=1e-6)
        for kind in ("confidence", "prediction"):
            ours = ribbon.predict_interval(GRID[:, None], level, kind=kind)
            np.testing.assert_allclose([row[kind] for row in visit["bands"]], ours, rtol=1e-6, atol=1e-6)


def test_visits_reach_every_correction(visits):
    assert {visit["correction"] for visit in visits.values()} == {"HC1", "HC2", "HC3"}
    assert {visit["paths"] for visit in visits.values()} == {4}


def test_a_finger_on_a_point_does_not_scroll_the_page(visits):
    assert visits["start"]["holds"] == [True, False]  # on a point, and beside all points


def test_pointers_move_points(visits):
    dragged = visits["one row decides"]["rows"]
    np.testing.assert_allclose([list(row.values()) for row in dragged[:2]], [[1.2, -2.0], [1.0, 2.0]], atol=0.01)
    added = visits["points added and removed"]["rows"]
    assert len(added) == 50 + 2 - 1
    np.testing.assert_allclose(list(added[-2].values()), [0.25, 2.2], atol=0.01)


def test_browser_shows_the_animation(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        f'<!doctype html><img id="gif" src="{(STATIC / "explained.gif").as_uri()}"><pre id="found"></pre><script>'
        "window.onload = () => { const gif = document.getElementById('gif');"
        "document.getElementById('found').textContent = `${gif.complete} ${gif.naturalWidth} ${gif.naturalHeight}`; };"
        "</script>",
        encoding="utf-8",
    )
    assert re.search(r"<pre id=.found.>(.*?)</pre>", dump(page, tmp_path))[1] == "true 680 450"
