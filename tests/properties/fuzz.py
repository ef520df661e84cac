"""The long run: thousands of random cases and one table of all failures, each with a case that shows it.

``make fuzz`` runs it through pytest with two workers. One case, as the table prints it, is examined again by

    python tests/properties/fuzz.py --case "Case(model='Ridge', n=5)"
"""

import argparse
import random
import time
from collections import Counter
from dataclasses import MISSING, dataclass, field, fields, replace

import cases
from cases import FAMILIES, Case, draw_case
from laws import SECONDS, examine

STATUSES = ("fitted", "refused", "diverged", "failed", "hung")
# cheap and complicated families are drawn more often
SHARES = {"linear": 3, "l1": 2, "huber": 2, "glm": 4, "sgd": 2, "network": 3, "autograd": 2, "logistic": 4} | {
    "target": 4,
    "cv": 2,
}


@dataclass
class Tally:
    """Counts of a run; all of it plain lists and numbers, so that workers can send it."""

    statuses: Counter = field(default_factory=Counter)  # (family, status)
    failing: Counter = field(default_factory=Counter)  # family: cases with a failure
    groups: dict = field(default_factory=dict)  # (law, kind): [count, repr of the shortest case, detail]
    laws: Counter = field(default_factory=Counter)  # law: cases it applied to

    def add(self, case, outcome):
        self.statuses[case.family, outcome.status] += 1
        self.failing[case.family] += bool(outcome.failures)
        self.laws.update(outcome.laws)
        for f in outcome.failures:
            self._join((f.law, f.kind), [1, repr(case), f.detail])

    def merge(self, other):
        self.statuses += other.statuses
        self.failing += other.failing
        self.laws += other.laws
        for key, group in other.groups.items():
            self._join(key, group)

    def _join(self, key, group):
        count, shown, detail = self.groups.get(key, [0, None, ""])
        if shown is None or len(group[1]) < len(shown):
            shown, detail = group[1:]
        self.groups[key] = [count + group[0], shown, detail]

    def to_json(self):
        return {
            "statuses": [[*key, n] for key, n in self.statuses.items()],
            "failing": dict(self.failing),
            "groups": [[*key, *group] for key, group in self.groups.items()],
            "laws": dict(self.laws),
        }

    @classmethod
    def from_json(cls, record):
        statuses = Counter({(family, status): n for family, status, n in record["statuses"]})
        groups = {(law, kind): group for law, kind, *group in record["groups"]}
        return cls(statuses, Counter(record["failing"]), groups, Counter(record["laws"]))


def run(seed, count, seconds=SECONDS):
    """A tally of ``count`` cases; equal seeds give equal cases."""
    tally, names = Tally(), [name for name, share in SHARES.items() for _ in range(share)]
    for i in range(count):
        rng = random.Random(f"{seed} {i}")
        case = draw_case(rng, names[i % len(names)])
        tally.add(case, examine(case, seconds))
    return tally


def simplify(case, law, kind, seconds=5.0):
    """A case with as many defaults as possible that still fails in an equal way, and its failure."""
    until = time.monotonic() + seconds

    def broken(candidate):
        try:
            same = [f for f in examine(candidate, 2).failures if (f.law, f.kind) == (law, kind)]
        except Exception:  # a combination that cannot even be built
            return None
        return same[0].detail if same else None

    detail = broken(case)
    if detail is None:  # it takes longer than these two seconds
        return case, ""
    for candidate in _simpler(case):
        if time.monotonic() > until:
            break
        merged = replace(case, **candidate(case))
        if merged != case and (found := broken(merged)) is not None:
            case, detail = merged, found
    return case, detail


def _simpler(case):
    """Steps towards a simpler case, each a function from the case so far to fields that change."""
    for f in fields(Case):
        if f.name not in ("family", "model", "params", "options", "seed", "y", "cv"):
            default = f.default if f.default is not MISSING else f.default_factory()
            yield lambda c, name=f.name, default=default: {name: default}
    for name in case.options:
        yield lambda c, name=name: {"options": {k: v for k, v in c.options.items() if k != name}}
    for name in case.params:
        yield lambda c, name=name: {"params": {k: v for k, v in c.params.items() if k != name}}
    for name in case.x:
        yield lambda c, name=name: {"x": tuple(kind for kind in c.x if kind != name)}
    for name in case.cv or ():
        yield lambda c, name=name: {"cv": {k: v for k, v in (c.cv or {}).items() if k != name}}
    yield lambda c: {"cv": None}
    yield lambda c: {"d": 1}


def report(tally, simplify_seconds=0.0):
    """The table as a list of lines."""
    header = f"{'family':<12}{'cases':>8}" + "".join(f"{status:>10}" for status in STATUSES) + f"{'failures':>10}"
    lines = [header, "-" * len(header)]
    for family in (*FAMILIES, "all"):
        counts = [sum(n for (f, s), n in tally.statuses.items() if s == st and family in (f, "all")) for st in STATUSES]
        failing = sum(n for f, n in tally.failing.items() if family in (f, "all"))
        lines.append(f"{family:<12}{sum(counts):>8}" + "".join(f"{n:>10}" for n in counts) + f"{failing:>10}")
    lines += [
        "",
        "A case is one fit with all its predictions, and often a second fit to compare with. refused: a clear error;",
        "diverged: the base model itself predicts nothing finite; failures: cases that break a law.",
        "",
        f"{'law':<40}{'cases':>8}",
        *(f"{law:<40}{n:>8}" for law, n in sorted(tally.laws.items(), key=lambda item: -item[1])),
        f"{'all':<40}{tally.laws.total():>8}",
    ]
    if not tally.groups:
        return [*lines, "No law was broken."]
    lines += ["", f"{len(tally.groups)} kinds of failure, each with its shortest case:"]
    until = time.monotonic() + simplify_seconds
    for (law, kind), (count, shown, detail) in sorted(tally.groups.items(), key=lambda item: (item[0][0], -item[1][0])):
        if time.monotonic() < until and law != "no hang":
            shorter, found = simplify(parse(shown), law, kind)
            shown, detail = repr(shorter), found or detail
        lines += [f"[{law}] {kind}: {count} cases", f"    {shown}", *([f"    {detail[:300]}"] if detail else [])]
    return lines


def parse(text):
    """A case from its repr."""
    return eval(text, {"Case": cases.Case, "inf": float("inf"), "nan": float("nan")})


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", help="examine this one case, in full")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of a case")
    parser.add_argument("--simplify", type=float, default=60.0, help="seconds spent on shortening the cases shown")
    arguments = parser.parse_args()
    if arguments.case:
        outcome = examine(parse(arguments.case), arguments.seconds)
        print(outcome.status)
        for f in outcome.failures:
            print(f"[{f.law}] {f.kind}\n    {f.detail}")
        return bool(outcome.failures)
    tally = run(arguments.seed, arguments.count, arguments.seconds)
    print("\n".join(report(tally, arguments.simplify)))
    return bool(tally.groups)


if __name__ == "__main__":
    raise SystemExit(main())
