"""Pictures that a build draws: the scripts in figures/, and the example in the docstring of every display."""

import doctest
import re
import sys
from importlib import import_module
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from skribbon import plotting

HERE = Path(__file__).parent


def draw(folder):
    """Draw the pictures that are missing from ``folder`` or older than what they are made from."""
    mpl.use("Agg")
    sys.path.insert(0, str(HERE / "figures"))
    for script in sorted((HERE / "figures").glob("*.py")):
        if is_outdated(folder / f"{script.stem}.png", script):
            import_module(script.stem).draw().savefig(folder / f"{script.stem}.png", dpi=150)
            plt.close("all")
    for name in plotting.__all__:
        display = getattr(plotting, name)
        if is_outdated(folder / f"{name}.png", sys.modules[display.__module__].__file__):
            draw_example(display).savefig(folder / f"{name}.png", dpi=150)
    plt.close("all")


def is_outdated(picture, source):
    """Whether a picture is missing or older than its source."""
    return not picture.exists() or picture.stat().st_mtime < Path(source).stat().st_mtime


def draw_example(display):
    """Return the figure that the example in a display's docstring draws."""
    imports = re.findall(r"^   ((?:from|import) .*)$", (HERE / "api.rst").read_text(encoding="utf-8"), re.MULTILINE)
    example = [step.source for step in doctest.DocTestParser().get_examples(display.__doc__)]
    plt.close("all")
    with plt.style.context("skribbon.plotting.style"):
        exec("\n".join([*imports, *example]), {})
        return plt.gcf()
