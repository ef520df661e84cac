"""The animated explanation is small, ends in the still picture's bands, and shows what its numbers say."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

DOC = Path(__file__).parent.parent / "doc"


@pytest.fixture(scope="module")
def animation():
    """The module doc/animation.py."""
    sys.path.insert(0, str(DOC))
    try:
        import animation
    finally:
        sys.path.remove(str(DOC))
    return animation


def test_animation_is_small_and_short():
    path = DOC / "_static" / "explained.gif"
    assert path.stat().st_size < 1_000_000
    with Image.open(path) as gif:
        milliseconds = []
        for k in range(gif.n_frames):
            gif.seek(k)
            milliseconds.append(gif.info["duration"])
        last = np.asarray(gif.convert("RGB"), dtype=int)
    assert 10_000 < sum(milliseconds) < 15_000
    assert milliseconds[-1] >= 3000  # time to read the last frame
    still = np.asarray(Image.open(DOC / "_static" / "explained.png").convert("RGB"), dtype=int)
    assert np.abs(still - last)[80:420].mean() < 3  # below the title and above the counter, up to the palette


def test_readme_quotes_the_measured_seconds():
    seconds = json.loads((DOC / "animation.json").read_text(encoding="utf-8"))
    assert "in a thirtieth of the time" in " ".join((DOC.parent / "README.md").read_text(encoding="utf-8").split())
    assert 25 < seconds["refits"] / (seconds["fit"] + seconds["steps"]) < 36


def test_linear_steps_have_the_spread_of_refits(animation):
    grid = np.linspace(-2, 2, 21)[:, None]
    _, _, _, fit, refits, steps, bands, seconds = animation.compute(grid)
    ratio = (steps - fit).std(axis=0) / (refits - fit).std(axis=0)
    assert 0.8 < np.median(ratio) < 1.25
    correlation = [np.corrcoef(one - fit, other - fit)[0, 1] for one, other in zip(steps, refits, strict=True)]
    assert np.median(correlation) > 0.9
    inside = (bands["confidence"][0] <= steps) & (steps <= bands["confidence"][1])
    assert 0.8 < inside.mean() < 0.99
    shown = json.loads(animation.SECONDS.read_text(encoding="utf-8"))
    assert shown.keys() == seconds.keys()
    assert shown["refits"] > 10 * (shown["fit"] + shown["steps"])
