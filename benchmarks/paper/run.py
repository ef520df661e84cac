"""All tables and figures of the paper. Finished cells are kept: stop it, start it again, and it goes on.

An experiment whose record in doc/results is of the present tree of skribbon/ is skipped. The minutes of a record are
the CPU time of its cells, divided by the two processes.
"""

import argparse
import sys
import warnings
from importlib import import_module

from _cells import RESULTS, compute, records, section, values_of, write_record

NAMES = ("theory", "sine", "california", "uci", "mnist")
FIGURES = records.ROOT / "doc" / "_static" / "paper"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="experiment", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer trials and short chains, without records: minutes")
    parser.add_argument("--report", action="store_true", help="compute nothing: the tables of the cells that there are")
    parser.add_argument("--again", action="store_true", help="compute even if there is a record of this code")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # networks that stop short are part of some of the paper's settings
    folder = RESULTS / ("paper-quick" if arguments.quick else "paper")
    names = arguments.names or NAMES
    if not (arguments.quick or arguments.report):
        names = [name for name in names if not records.skip(name, arguments.again)]
    chosen = [import_module(name).experiment(arguments.quick) for name in names]
    failed = [] if arguments.report else compute(chosen, folder)
    for experiment in chosen:
        values = values_of(experiment, folder)
        print(section(experiment, values), flush=True)
        if not (arguments.quick or arguments.report):
            write_record(experiment, folder)
            FIGURES.mkdir(parents=True, exist_ok=True)
            experiment.draw(values, FIGURES)
    if failed:
        sys.exit(f"These cells failed and are missing: {'; '.join(failed)}.")


if __name__ == "__main__":
    main()
