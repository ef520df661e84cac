"""Tables and a figure of the raw rows, which are kept as JSON."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import records

from .candidates import LEVELS

COVERAGES = [f"cover {100 * level:.0f}" for level in LEVELS]
MEANS = [
    *COVERAGES,
    "below",
    "above",
    "near",
    "far",
    "NLL",
    "CRPS",
    "interval score",
    "width",
    "median width",
    "seconds",
]
FIRST = [*COVERAGES, "below", "above", "worst fifth", "near", "far"]
SECOND = ["NLL", "CRPS", "interval score", "PIT distance", "width", "median width", "seconds"]


def save(rows, part, folder, protocol, seconds):
    versions = {name: version(name) for name in ("skribbon", "scikit-learn", "numpy", "scipy")}
    Path(folder).mkdir(parents=True, exist_ok=True)
    content = {"part": part, "protocol": protocol, "versions": versions, "tree": records.tree()}
    content |= {"seconds": seconds, "rows": rows}
    Path(folder, f"{part}.json").write_text(json.dumps(content, indent=1, default=float))


def load(part, folder):
    return json.loads(Path(folder, f"{part}.json").read_text())["rows"]


def kept(part, folder):
    """Rows and seconds of a run that was stopped, if it was on the present code; else an empty dict."""
    path = Path(folder, f"{part}.json")
    content = json.loads(path.read_text()) if path.exists() else {}
    return content if content.get("tree") == records.tree() else {}


def record(rows):
    """One row for each set and candidate: every statistic with its standard error."""
    values, errors = table([row for row in rows if "error" not in row])
    return [
        {"set": name, "candidate": candidate, **{c: [value[c], errors.loc[name, candidate][c]] for c in value.index}}
        for (name, candidate), value in values.iterrows()
    ]


# ---------------------------------------------------------------------- means over splits
def statistics(means):
    """What the tables hold, from means over splits (..., m + 15), of which the last are of five fifths and ten bins."""
    m = len(MEANS)
    worst_fifth = means[..., m : m + 5].min(axis=-1)
    distance = np.abs(means[..., m + 5 :] - 0.1).sum(axis=-1) / 2  # total variation
    return np.concatenate([means[..., :m], worst_fifth[..., None], distance[..., None]], axis=-1)


def summary(rows):
    """Value and jackknife standard error over splits of every statistic; that of a mean is the usual one."""
    values = np.array([[row[c] for c in MEANS] + row["fifths"] + row["PIT"] for row in rows], dtype=float)
    S, mean = len(values), values.mean(axis=0)
    error = np.full(len(MEANS) + 2, np.nan)
    if S > 1:
        left_out = statistics((S * mean - values) / (S - 1))
        error = np.sqrt((S - 1) * left_out.var(axis=0))
    names = [*MEANS, "worst fifth", "PIT distance"]
    return pd.Series(statistics(mean), names), pd.Series(error, names)


def table(rows):
    """Values and errors, indexed by set and candidate."""
    groups = {}
    for row in rows:
        groups.setdefault((row["set"], row["candidate"]), []).append(row)
    pairs = {key: summary(group) for key, group in groups.items()}
    index = pd.MultiIndex.from_tuples(list(pairs), names=["set", "candidate"])
    return [pd.DataFrame([pair[i] for pair in pairs.values()], index=index) for i in (0, 1)]


def over_sets(values, reference="before"):
    """The criterion: means of distances from the nominal levels and scores against the reference, over common sets."""
    columns, number_of = {}, values.groupby("set")["width"].transform("size")
    values = values[number_of == number_of.max()]  # a set on which a candidate failed would favour it
    for candidate in values.index.unique("candidate"):
        own = values.xs(candidate, level="candidate")
        columns[candidate] = {
            "|cover 90 - .9|": (own["cover 90"] - 0.9).abs().mean(),
            "|cover 50 - .5|": (own["cover 50"] - 0.5).abs().mean(),
            "PIT distance": own["PIT distance"].mean(),
            "worst fifth": own["worst fifth"].mean(),
            "far": own["far"].mean(),
        }
        if reference in values.index.unique("candidate"):
            base = values.xs(reference, level="candidate").reindex(own.index)
            ratio = own["interval score"] / base["interval score"]
            columns[candidate] |= {
                f"NLL - {reference}": (own["NLL"] - base["NLL"]).mean(),
                f"interval score / {reference}": np.exp(np.log(ratio).mean()),
            }
    return pd.DataFrame(columns).T


# ---------------------------------------------------------------------- what is printed
def number(x):
    return "" if np.isnan(x) else f"{x:.3f}" if abs(x) < 100 else f"{x:.0f}"


def with_error(value, error):
    return number(value) + (f" ±{number(error)}" if np.isfinite(error) and np.isfinite(value) else "")


def blocks(rows):
    """Coverages, scores, and the means over sets."""
    values, errors = table(rows)
    cells = pd.DataFrame({c: list(map(with_error, values[c], errors[c])) for c in values}, values.index)
    return [cells[FIRST].to_string(), cells[SECOND].to_string(), over_sets(values).map(number).to_string()]


def blocks_of_networks(rows):
    """Coverage, width over split conformal's, NLL over the best constant's."""
    values, _ = table(rows)
    width, median, nll = (
        values[column].xs(name, level="candidate").reindex(values.index.get_level_values("set")).to_numpy()
        for column, name in (
            ("width", "split conformal"),
            ("median width", "split conformal"),
            ("NLL", "best constant"),
        )
    )
    columns = {"cover 90": values["cover 90"], "width / split conformal": values["width"] / width}
    columns |= {"of medians": values["median width"] / median}
    columns |= {"NLL - best constant": values["NLL"] - nll, "seconds": values["seconds"]}
    return [pd.DataFrame(columns).map(number).to_string()]


def failures(rows):
    return [f"{row['set']}, split {row['split']}, {row['candidate']}: {row['error']}" for row in rows if "error" in row]


# ---------------------------------------------------------------------- a figure
def figure(rows, path):
    """Empirical against nominal coverage, and misses on either side of the 90 % interval; means over sets."""
    from matplotlib.figure import Figure

    means = table(rows)[0].groupby("candidate", sort=False).mean()
    fig = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = fig.subplots(1, 2)
    for name, row in means.iterrows():
        left.plot(LEVELS, row[COVERAGES] - LEVELS, marker="o", label=name)
    left.axhline(0, color="black", lw=0.8)
    left.set(xlabel="nominal coverage", ylabel="empirical - nominal")
    left.legend(fontsize="x-small")
    where = np.arange(len(means))
    right.barh(where, -means["below"])
    right.barh(where, means["above"])
    for x in (-0.05, 0.05):
        right.axvline(x, color="black", lw=0.8, ls=":")
    right.set(yticks=where, yticklabels=means.index, xlabel="misses below (left) and above at 90 %")
    right.invert_yaxis()
    fig.savefig(path, dpi=120)
