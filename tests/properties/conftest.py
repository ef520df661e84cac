"""The table at the end of the long run, from what the workers recorded."""

import json

from fuzz import Tally, report


def pytest_terminal_summary(terminalreporter):
    tally, found = Tally(), False
    for name in ("passed", "failed"):
        for result in terminalreporter.getreports(name):
            for key, value in getattr(result, "user_properties", ()):
                if key == "fuzz":
                    tally.merge(Tally.from_json(json.loads(value)))
                    found = True
    if found:
        terminalreporter.section("random cases")
        for line in report(tally, simplify_seconds=90.0):
            terminalreporter.write_line(line)
