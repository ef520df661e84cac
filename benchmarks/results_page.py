"""The results page from the records in doc/results: ``make results`` fills its tables and draws its figures.

A page has blocks ``<!-- results: NAME -->`` ... ``<!-- end -->``; the text between the two lines is made here.
"""

import argparse
import re
import sys
from pathlib import Path

import appendix_tables
import numpy as np
import records
from appendix_tables import table

sys.path.append(str(Path(__file__).parent / "paper"))

DOC = records.ROOT / "doc"
FIGURES = DOC / "_static" / "results"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.55"
OURS = ("Ribbon, defaults", "RibbonCV, defaults")
NAMES = {"Ribbon": "Ribbon, paper's setting", "Ribbon, defaults": "RibbonRegressor", "RibbonCV, defaults": "RibbonCV"}
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


# ---------------------------------------------------------------------- tables
def bold(texts, values, distance=lambda value: value):
    """The texts, with the best one in bold, and those that are shown alike."""
    best = texts[int(np.nanargmin([distance(value) for value in values]))]
    return [f"**{text}**" if text == best else text for text in texts]


def times(ratio):
    """A ratio with two digits."""
    return f"{float(f'{ratio:.2g}'):,g}"


# ---------------------------------------------------------------------- speed
PEERS = {
    "laplace-torch, full": "laplace-torch 0.3, full curvature",
    "laplace-torch, kron": "laplace-torch 0.3, Kronecker",
    "MAPIE, cv+ of 5 folds": "MAPIE 1.6, CV+ with five folds",
    "statsmodels": "statsmodels 0.15, OLS with HC3",
}


def speeds():
    """Peer to how many times faster a fit and a prediction are; None if it was not measured."""
    found = {}
    for row in records.read("peers")["rows"]:
        what = "predict" if "predict" in row["what"] else "fit"
        found.setdefault(row["unit"], {"fit": None, "predict": None})[what] = 1 / row["measured"]
    return {PEERS[unit]: pair for unit, pair in found.items()}


def speed():
    shown = [[name, *(times(v) if v else "" for v in pair.values())] for name, pair in speeds().items()]
    return table(["times faster than", "fit", "predict"], shown)


def draw_speed(figure):
    ax, rows = figure.subplots(), []
    for name, pair in speeds().items():
        rows += [(f"{name}\n{what}", value, what) for what, value in pair.items() if value]
    for k, (_, value, what) in enumerate(rows):
        ax.barh(k, value - 1, left=1, color=BLUE if what == "fit" else GREEN, height=0.6)
        ax.annotate(f"{times(value)} ×", (max(value, 1), k), (4, 0), textcoords="offset points", va="center")
    ax.axvline(1, color="black", lw=0.8)
    ax.set(xscale="log", xlim=(0.5, 4000), xlabel="times faster than the other package")
    ax.set_yticks(range(len(rows)), [name.split(" ", 1)[0] + " " + name.split(" ", 2)[2] for name, *_ in rows])
    ax.invert_yaxis()
    slower = sum(value < 1 for _, value, _ in rows)
    figure.suptitle(f"Faster than other packages\nin {len(rows) - slower} of {len(rows)} comparisons")


# ---------------------------------------------------------------------- torch modules
STRUCTURES = {"full": "full", "kron": "Kronecker", "last layer": "last layer"}
# Records' names of fits of 10^5 parameters.
WIDE = {
    "MLP 20-300-300-1": "dense network",
    "CNN": "convolutional network",
    "kfac": '`"kfac"`',
    "last_layer": '`"last_layer"`',
    "matrix_free": '`"matrix_free"`',
    "laplace kron": "laplace-torch, Kronecker",
    "laplace last layer": "laplace-torch, last layer",
}


def two_digits(value, unit=""):
    return f"{float(f'{value:.2g}'):,.10g}{unit}"


def memory(megabytes):
    return two_digits(megabytes / 1000, " GB") if megabytes >= 1000 else two_digits(max(megabytes, 1), " MB")


def torch():
    """Ratios to laplace-torch, coverage and NLL of four tables."""
    columns = {}
    for row in records.read("torch")["rows"]:
        found = re.match(r"(\w+), n = ([\d,]+)(?:, (full|kron|last layer))?: (.+)", row["what"])
        if row["case"] == "a" and found:
            name, n, structure, what = found.groups()
            columns.setdefault((name, n), {})[structure, what, row["unit"]] = row["measured"]

    def scores(structure, who):
        pairs = [(c[structure, who, "90% coverage"], c[structure, who, "NLL"]) for c in columns.values()]
        return [f"{coverage:.2f} / {nll:.2f}" for coverage, nll in pairs]

    def ratios(what):
        return ["; ".join(two_digits(c[s, what, "laplace-torch"]) for s in STRUCTURES) for c in columns.values()]

    rows = [["fit / laplace-torch's: full; Kronecker; last layer", *ratios("post-hoc fit")]]
    rows += [["predictions of 1,000 rows / laplace-torch's", *ratios("predict 1,000 rows")]]
    rows += [["coverage / NLL: RibbonRegressor, trained by itself", *scores(None, "RibbonRegressor")]]
    for who, label in {"RibbonRegressor, fitted=True": "`fitted=True`", "laplace-torch": "laplace-torch"}.items():
        rows += [[f"{label}, {name}", *scores(structure, who)] for structure, name in STRUCTURES.items()]
    return table(["", *(f"{name}, {n} rows" for name, n in columns)], rows)


def torch_wide():
    """Seconds and memory of fits of 10^5 parameters."""
    found = {}
    for row in records.read("torch")["rows"]:
        if row["case"] == "b":
            name, p, method, what = re.match(r"(.+), ([\d,]+) parameters, n = [\d,]+, (.+): (.+)", row["what"]).groups()
            found.setdefault((name, p, method), {})[what] = row["measured"]
    rows = [
        [
            f"{WIDE[name]}, {p} parameters",
            WIDE[method],
            two_digits(v["fit"], " s"),
            two_digits(v["200 intervals"], " s"),
            memory(v["memory of fit"]),
        ]
        for (name, p, method), v in found.items()
    ]
    return table(["module", "curvature", "fit", "intervals of 200 rows", "memory of the fit"], rows)


def torch_convolutions():
    """A convolutional network by curvature."""
    found = {}
    for row in records.read("torch")["rows"]:
        if row["case"] == "d":
            curvature = re.match(r"digits, CNN, (\w+)", row["what"])[1]
            found.setdefault(curvature, {})[row["unit"]] = row
    rows = [
        [
            f'`"{name}"`',
            *(f"{v[unit]['measured']:.3f}" for unit in ("NLL", "mean width")),
            two_digits(v["NLL"]["seconds"], " s"),
        ]
        for name, v in found.items()
    ]
    return table(["curvature", "NLL", "mean width of 90% intervals", "CPU time"], rows)


def torch_scaling():
    """Growth with parameters and rows: seconds and memory here, and ratios to laplace-torch's nearest structure."""
    rows = []
    for row in records.read("torch_scaling")["rows"]:
        peer = row["peer"]
        cells = [f"{row['p']:,}", f"{row['n']:,}", f'`"{row["curvature"]}"`']
        for key in ("fit seconds", "predict seconds"):
            ratio = two_digits(row[key] / peer[key]) if peer else "-"
            cells += [two_digits(row[key], " s"), ratio]
        both = max(row["fit MB"], row["predict MB"])
        cells += [memory(both), memory(max(peer["fit MB"], peer["predict MB"])) if peer else "-"]
        if cells not in rows:  # parts share a case
            rows.append(cells)
    header = ["parameters", "rows", "curvature", "fit", "ratio", "200 intervals", "ratio", "memory", "laplace-torch's"]
    return table(header, rows)


# ---------------------------------------------------------------------- UCI
SETS = ("boston", "concrete", "energy", "yacht")
METHODS = ("deep ensemble", "bootstrap", "MC dropout", "Laplace", "Ribbon", *OURS)


def uci_means(measure):
    """Means over splits, methods by sets."""
    rows = dict(records.read("uci")["rows"])
    return np.array(
        [
            [
                np.mean([v[measure] for k, v in rows.items() if k.startswith(f"{name}, {method}, split")])
                for name in SETS
            ]
            for method in METHODS
        ]
    )


def uci():
    coverage, nll = uci_means("coverage"), uci_means("nll")
    columns = []
    for j in range(len(SETS)):
        covers = bold([f"{v:.2f}" for v in coverage[:, j]], coverage[:, j], lambda v: abs(v - 0.9))
        losses = bold([f"{v:.2f}" for v in nll[:, j]], nll[:, j])
        columns.append([f"{c}, {n}" for c, n in zip(covers, losses, strict=True)])
    rows = [[NAMES.get(m, m), *cells] for m, *cells in zip(METHODS, *columns, strict=True)]
    return table(["coverage, NLL", *SETS], rows)


def draw_uci(figure):
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.25, 1])
    coverage, nll = uci_means("coverage"), uci_means("nll")
    excess = (nll - nll.min(axis=0)).mean(axis=1)
    for k, method in enumerate(METHODS):
        colour = BLUE if method in OURS else GREY
        left.plot(coverage[k], np.full(len(SETS), k), "o", color=colour, ms=6, alpha=0.8)
        right.barh(k, excess[k], color=colour, height=0.6)
        right.annotate(f"{excess[k]:.2f}", (excess[k], k), (3, 0), textcoords="offset points", va="center")
    left.axvline(0.9, color="black", lw=0.8, zorder=0)
    left.set(xlabel="coverage of 90% intervals,\na point for each table", xlim=(0.74, 1.02))
    left.set_xticks([0.8, 0.9, 1.0], ["0.8", "0.9", "1.0"])
    right.set(xlabel="NLL above the best,\nmean of four tables", xlim=(0, excess.max() * 1.3))
    left.set_yticks(range(len(METHODS)), [NAMES.get(m, m).replace(", paper's", ",\npaper's") for m in METHODS])
    left.invert_yaxis()
    figure.suptitle("Networks on UCI tables: the default\ncovers about 90% with the best likelihood")


# ---------------------------------------------------------------------- the paper
def mean_of(values, start, key):
    found = [value[key] for name, value in values.items() if name.startswith(start)]
    return np.mean(found)


def paper_rows():
    """Quantity, the paper's value, the value here, and whether it is a coverage; the paper's are those of its text."""
    from california import PAPER as CALIFORNIA
    from mnist import PAPER as MNIST
    from sine import PAPER as SINE
    from theory import SIZES

    theory, sine, california = (dict(records.read(name)["rows"]) for name in ("theory", "sine", "california"))
    mnist = [v["nll"] for k, v in dict(records.read("mnist")["rows"]).items() if MAIN in k and k.endswith("ribbon")]
    slope = np.polyfit(np.log(SIZES), np.log([theory[f"update n={n}"]["error"] for n in SIZES]), 1)[0]
    tuned = np.mean(theory["coverage n=1600"]["coverage"])
    yield "Theorem 2: power of n of the error", "-1", f"{slope:.2f}", None
    yield "Theorem 3: coverage, 1,600 rows", "0.90", f"{tuned:.3f}", tuned
    for j, (key, name) in enumerate({"id": "sine, in distribution", "ood": "sine, far inputs"}.items()):
        value = mean_of(sine, "Ribbon, trial", key)
        yield f"Coverage: {name}", SINE["Ribbon"][j], f"{value:.3f}", value
    names = {"id": "California, usual rows", "all": "California, all rows", "ood": "California, far tenth"}
    for j, (key, name) in enumerate(names.items()):
        value = mean_of(california, "Ribbon, network", key) / 100
        yield f"Coverage: {name}", f"{float(CALIFORNIA['Ribbon'][j]) / 100:.3f}", f"{value:.3f}", value
    yield "CRPS: California", CALIFORNIA["Ribbon"][3], f"{mean_of(california, 'Ribbon, network', 'crps'):.4f}", None
    for j, (key, label) in enumerate(
        {"accuracy": "accuracy", "brier": "Brier score", "ece": "ECE", "nll": "NLL"}.items()
    ):
        value, digits = np.mean([v[key] for v in mnist]), 4
        published = MNIST["Ribbon (NLL)"][j].split(" ")[0]
        published = f"{float(published) / 100:.4f}" if key == "accuracy" else published
        yield f"MNIST: {label}", published, f"{value:.{digits}f}", None


MAIN = "images=1500 epochs=5 damping=0.001 dropout=0.2 trial="


def paper():
    return table(["quantity", "paper", "here"], [row[:3] for row in paper_rows()])


def draw_paper(figure):
    ax = figure.subplots()
    rows = [row for row in paper_rows() if row[3] is not None]
    for k, (_, published, _, value) in enumerate(rows):
        ax.plot([float(published), value], [k, k], color=GREY, lw=2, zorder=1)
        ax.plot(float(published), k, "o", mfc="white", mec=ORANGE, mew=2, ms=9)
        ax.plot(value, k, "o", color=BLUE, ms=7)
    ax.axvline(0.9, color="black", lw=0.8, zorder=0)
    ax.set_yticks(range(len(rows)), [name.removeprefix("Coverage: ").replace(": ", ":\n") for name, *_ in rows])
    ax.set(xlabel="coverage of nominal 90% intervals", ylim=(len(rows) - 0.5, -1.1), xlim=(0.84, 1.03))
    ax.set_xticks([0.85, 0.9, 0.95, 1.0], ["0.85", "0.90", "0.95", "1.00"])
    ax.annotate("paper", (float(rows[2][1]), 2), (0, 9), textcoords="offset points", color=ORANGE, ha="center")
    ax.annotate("skribbon", (rows[2][3], 2), (0, 9), textcoords="offset points", color=BLUE, ha="center")
    figure.suptitle("Coverage agrees with the paper,\nexcept for far inputs of the sine")


# ---------------------------------------------------------------------- classifiers
CALIBRATORS = {
    "plain": "plain model",
    "default": "RibbonClassifier",
    "temperature": "temperature scaling",
    "temperature ensemble": "temperature, ensemble",
    "sigmoid": "sigmoid, ensemble",
    "isotonic": "isotonic, ensemble",
}


def calibrators(kind):
    rows = {row["method"]: row for row in records.read("classifiers_confirmation")["rows"] if row["kind"] == kind}
    return {label: rows[name] for name, label in CALIBRATORS.items()}


def classifiers():
    columns = []
    for kind in ("linear", "networks"):
        rows = list(calibrators(kind).values())
        loss = bold([f"{row['nll']:.3f}" for row in rows], [row["nll"] for row in rows])
        worse = [row["worse"] if row["method"] != "plain" else np.nan for row in rows]
        shares = [f"{100 * share:.1f}%" if share == share else "" for share in worse]
        columns += [loss, bold(shares, worse)]
    header = ["", "linear: log loss", "worse", "networks: log loss", "worse"]
    return table(header, [list(row) for row in zip(CALIBRATORS.values(), *columns, strict=True)])


def draw_classifiers(figure):
    axes = figure.subplots(1, 2, sharey=True)
    for ax, (kind, title) in zip(axes, {"linear": "linear models", "networks": "networks"}.items(), strict=True):
        rows = {label: row for label, row in calibrators(kind).items() if row["method"] != "plain"}
        for k, row in enumerate(rows.values()):
            share = 100 * row["worse"]
            ax.barh(k, share, color=BLUE if row["method"] == "default" else GREY, height=0.6)
            ax.annotate(f"{share:.1f}%", (share, k), (3, 0), textcoords="offset points", va="center")
        ax.set(xlim=(0, 70), title=title, xlabel="fits worse than\nthe plain model")
        ax.set_xticks([0, 25, 50], ["0%", "25%", "50%"])
    axes[0].set_yticks(range(len(rows)), list(rows))
    axes[0].invert_yaxis()
    figure.suptitle("RibbonClassifier is rarely worse\nthan the model that it wraps")


# ---------------------------------------------------------------------- public tables
def public(kind):
    """Methods and tables of one kind, and arrays (methods, tables) of their scores."""
    rows = [row for row in records.read("public")["rows"] if row["kind"] == kind]
    methods, names = (list(dict.fromkeys(row[key] for row in rows)) for key in ("method", "table"))
    found = {(row["method"], row["table"]): row for row in rows}
    keys = ("score", "covered", "crps", "nll", "brier")
    arrays = {
        key: np.array([[found[m, name].get(key, np.nan) for name in names] for m in methods], dtype=float)
        for key in keys
    }
    return methods, names, arrays


def relative(scores):
    """Geometric means over tables of ratios to the first method."""
    return np.exp(np.log(scores / scores[0]).mean(axis=1))


def wins(scores):
    return np.bincount(scores.argmin(axis=0), minlength=len(scores))


def shown(texts):
    """Texts without those of methods that have no such score."""
    return ["" if text.startswith(("nan", "+nan")) else text for text in texts]


def public_regression():
    methods, names, a = public("regression")
    loss, off = relative(a["score"]), np.abs(a["covered"] - 0.9).mean(axis=1)
    columns = [
        [str(n) for n in wins(a["score"])],
        bold([f"{v:.3f}" for v in loss], loss),
        [f"{v:.3f}" for v in a["covered"].mean(axis=1)],
        bold([f"{v:.3f}" for v in off], off),
        shown([f"{v:.3f}" for v in relative(a["crps"])]),
        shown([f"{v:+.2f}" for v in np.median(a["nll"] - a["nll"][0], axis=1)]),
    ]
    header = ["", f"best of {len(names)} tables", "quantile loss", "covered", "distance from 90%", "CRPS", "NLL"]
    return table(header, [list(row) for row in zip(methods, *columns, strict=True)])


def public_classification():
    methods, names, a = public("classification")
    loss, brier = relative(a["score"]), relative(a["brier"])
    plain = [methods.index(f"{m.split(',')[0]}, plain") if "," in m else 0 for m in methods]
    worse = (a["score"] > a["score"][plain] + 5e-4).sum(axis=1)  # beyond the digits that are shown
    columns = [
        [str(n) for n in wins(a["score"])],
        bold([f"{v:.3f}" for v in loss], loss),
        bold([f"{v:.3f}" for v in brier], brier),
        [str(n) if k not in plain and "," in methods[k] else "" for k, n in enumerate(worse)],
    ]
    header = ["", f"best of {len(names)} tables", "log loss", "Brier score", "tables worse than the plain model"]
    return table(header, [list(row) for row in zip(methods, *columns, strict=True)])


def by_table(kind):
    methods, names, a = public(kind)
    columns = [bold([f"{v:.3f}" for v in scores], scores) for scores in a["score"].T]
    return table(["", *methods], [[name, *column] for name, column in zip(names, columns, strict=True)])


def public_regression_tables():
    return by_table("regression")


def public_classification_tables():
    return by_table("classification")


# ---------------------------------------------------------------------- which code
def runs():
    rows = []
    for path in sorted(records.FOLDER.glob("*.json")):
        record = records.read(path.stem)
        rows.append([f"`{path.stem}`", record["tree"][:10], record["date"], f"{record['minutes']:g}"])
    return table(["record", "tree of skribbon/", "date", "minutes"], rows)


def paper_tables():
    """Every section of the page about the paper."""
    from importlib import import_module

    from _cells import section
    from run import NAMES as EXPERIMENTS

    experiments = {name: import_module(name).experiment(quick=False) for name in EXPERIMENTS}
    sections = [section(own, dict(records.read(name)["rows"])) for name, own in experiments.items()]
    return "\n".join(sections).replace("](", "](../_static/paper/").rstrip()


TORCH = (torch, torch_wide, torch_convolutions, torch_scaling)
PUBLIC = (public_regression, public_regression_tables, public_classification, public_classification_tables)
TABLES = (speed, *TORCH, uci, paper, classifiers, *PUBLIC, runs, paper_tables)
BLOCKS = {own.__name__: own for own in TABLES}
BLOCKS |= {name: own for name, (own, record) in appendix_tables.BLOCKS.items() if records.read(record)}
DRAWINGS = {"speed": (draw_speed, 4.2), "uci": (draw_uci, 4.0), "paper": (draw_paper, 3.6)}
DRAWINGS["classifiers"] = (draw_classifiers, 3.4)


def pages():
    """Pages with blocks."""
    found = [records.ROOT / "README.md", *sorted(DOC.glob("*.md")), *sorted(DOC.glob("appendix/*.md"))]
    return [path for path in found if BLOCK.search(path.read_text(encoding="utf-8"))]


def filled(text):
    """The text of a page with its blocks made from the records; a block without a record stays as it is."""
    return BLOCK.sub(lambda b: f"{b[1]}\n{BLOCKS[b[2]]()}\n\n{b[4]}" if b[2] in BLOCKS else b[0], text)


def draw():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    FIGURES.mkdir(exist_ok=True)
    style = records.ROOT / "skribbon" / "plotting" / "style.mplstyle"
    plt.style.use(style if style.exists() else "default")
    sizes = {"font.size": 10, "axes.labelsize": 10, "xtick.labelsize": 10, "ytick.labelsize": 10}
    plt.rcParams.update({**sizes, "axes.titlesize": 10, "figure.titlesize": 11, "axes.grid": False})
    for name, (function, height) in DRAWINGS.items():
        figure = plt.figure(figsize=(4.8, height), layout="constrained")
        function(figure)
        for ax in figure.axes:
            ax.spines[["top", "right"]].set_visible(False)
        figure.savefig(FIGURES / f"{name}.png", dpi=200, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", action="store_true", help="tables alone, without figures")
    if not parser.parse_args().text:
        draw()
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"Written: {page.relative_to(records.ROOT)}")
