"""All tables and figures of the paper. Finished cells are kept: stop it, start it again, and it goes on."""

import argparse
import shutil
import sys
import warnings
from importlib import import_module
from pathlib import Path

from _cells import RESULTS, compute, cost, versions, write_report

NAMES = ("theory", "sine", "california", "uci", "mnist")
DOC = Path(__file__).resolve().parents[2] / "doc"
INTRODUCTION = """# The paper, reproduced

Every table and figure of the Ribbon paper, made again by `make paper` (`make paper-quick` for a first look), beside the
paper's own numbers. All methods of an experiment see the same rows and, where they can, the same fitted network;
nothing is tuned on test rows, save that the settings of the California and UCI rows were chosen in earlier work that
had looked at some of their test rows (see [defaults](defaults.md)), and that a first training budget for MNIST was
dropped after its test accuracy, 88.7 %, had been seen. Seconds are post-hoc: what a method costs once the base model is
there. They are CPU seconds of one BLAS thread, on a machine that had other work to do; read them as ratios.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="experiment", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer trials and short chains: minutes")
    parser.add_argument("--report", action="store_true", help="compute nothing: the tables of the cells that there are")
    parser.add_argument("--page", action="store_true", help="write the documentation's page from what is there")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # networks that stop short are part of some of the paper's settings
    folder = RESULTS / ("paper-quick" if arguments.quick else "paper")
    every = [import_module(name).experiment(arguments.quick) for name in NAMES]
    chosen = [experiment for experiment in every if experiment.name in (arguments.names or NAMES)]
    failed = [] if arguments.report else compute(chosen, folder)
    for experiment in chosen:
        print(write_report(experiment, folder), flush=True)
    print(cost(every, folder))
    if arguments.page:
        write_page(every, folder)
    if failed:
        sys.exit(f"These cells failed and are missing: {'; '.join(failed)}.")


def write_page(experiments, folder):
    """doc/paper.md, with its figures and raw numbers beside it."""
    target = DOC / "_static" / "paper"
    target.mkdir(parents=True, exist_ok=True)
    for file in (*folder.glob("*.png"), *folder.glob("*.json")):
        shutil.copy(file, target)
    sections = [write_report(experiment, folder).replace("](", "](_static/paper/") for experiment in experiments]
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    closing = f"Raw numbers, seeds and settings: `doc/_static/paper/*.json`. Made with {made_with}."
    page = "\n".join([INTRODUCTION, *filter(None, sections), cost(experiments, folder), closing])
    (DOC / "paper.md").write_text(page + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
