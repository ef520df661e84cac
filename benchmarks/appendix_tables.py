"""Tables of the appendix, each from the record of one benchmark: ``make results`` writes them into the pages."""

import numpy as np
import records


def table(header, rows):
    lines = [header, ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows_of(name):
    return records.read(name)["rows"]


def number(value, digits=3, sign=False):
    return "" if value is None or np.isnan(value) else f"{value:{'+' if sign else ''}.{digits}f}"


# ---------------------------------------------------------------------- linear models
LINEAR = ("diabetes", "engel", "star98", "fair")
CANDIDATES = {
    "default": "default",
    "RibbonCV": "RibbonCV",
    "before": "reference",
    "paper": "the paper's setting",
    "plain": "plain model, training residuals",
    "split conformal": "split conformal",
    "quantile boosting": "conformalized quantile boosting",
}


def over_sets(rows):
    """Distances of coverage from 90% and 50%, NLL less the reference's, interval score over the reference's."""
    base = {row["set"]: row for row in rows if row["candidate"] == "before"}
    for key, name in CANDIDATES.items():
        own = [row for row in rows if row["candidate"] == key]
        if not own:
            continue
        cover = [np.mean([abs(row[f"cover {level}"][0] - level / 100) for row in own]) for level in (90, 50)]
        nll = [row["NLL"][0] - base[row["set"]]["NLL"][0] for row in own if row["NLL"][0] is not None]
        ratio = [np.log(row["interval score"][0] / base[row["set"]]["interval score"][0]) for row in own]
        loss = number(np.mean(nll), sign=key != "before") if nll else ""
        yield [name, *map(number, cover), loss, number(np.exp(np.mean(ratio)))]


SCORES = ["\\|90\\|", "\\|50\\|", "NLL", "interval score"]


def linear():
    rows = [row for row in rows_of("calibration_linear") if row["set"] in LINEAR]
    return table(["20 splits of each table", *SCORES], over_sets(rows))


def simulated():
    return table(["200 samples of each noise", *SCORES], over_sets(rows_of("calibration_simulated")))


NOISES = {
    "normal": "normal",
    "lognormal": "lognormal",
    "bimodal": "two peaks",
    "Student 3": "Student, 3 degrees of freedom",
    "heteroskedastic": "growing with x",
}


def misses():
    rows = {(row["set"], row["candidate"]): row for row in rows_of("calibration_simulated")}
    shown = []
    for key, name in NOISES.items():
        own, reference = rows[key, "default"], rows[key, "before"]
        values = own["below"], own["above"], own["NLL"], reference["NLL"]
        shown.append([name, *(number(value[0]) for value in values)])
    return table(["noise", "below", "above", "NLL", "NLL of the reference"], shown)


# ---------------------------------------------------------------------- networks
METHODS = {
    "default": "default",
    "one fit": '`held_out="loo"`',
    "plain": "training residuals",
    "folds": "five folds, constant noise",
    "split": "split conformal",
}


def percent(value):
    return "" if value is None else f"{100 * value:.0f}%"


def networks():
    rows = {row["method"]: row for row in dict(rows_of("networks"))["confirmation: methods"]}
    shown = []
    for key, name in METHODS.items():
        row = rows[key]
        covers = [number(row[c]) for c in ("cover 50", "cover 90", "error 90")]
        shares = [percent(row[c]) for c in ("< 0.86", "> 0.95")]
        sizes = [number(row[c], 2) for c in ("far", "width", "dNLL")]
        shown.append([name, *covers, *shares, *sizes, number(row["median base fits"], 1)])
    header = ["confirmation sets", "covers 50%", "covers 90%", "mean error at 90%", "below 0.86", "above 0.95"]
    return table([*header, "far rows", "width", "NLL", "base fits"], shown)


def gap_and_tail():
    rows = dict(rows_of("networks"))["gap and tail splits"]
    shown = []
    for name in dict.fromkeys(row["set"] for row in rows):
        cells = []
        for kind in ("gap", "tail"):
            (row,) = (row for row in rows if (row["set"], row["kind"]) == (name, kind))
            covers = row["cover 95, default"], row["cover 95, ensemble"], row["published ensemble"]
            ratio = row["interval score 95, default"] / row["interval score 95, ensemble"]
            cells += [", ".join(number(value, 2) for value in covers), number(ratio, 2)]
        shown.append([name, *cells])
    gap = "gap: default, ensemble, published ensemble"
    return table(["set", gap, "interval score", "tail: default, ensemble, published", "interval score"], shown)


# ---------------------------------------------------------------------- conformal scores, Adult
SCORES_OF_INTERVALS = ("split, absolute", "split, distribution", "CV+, absolute", "CV+, distribution")
SET_NAMES = {"california": "California Housing, 64 units"}


def conformal():
    rows = {(row["set"], row["interval"]): row for row in rows_of("conformal")}
    shown = []
    for name in dict.fromkeys(key[0] for key in rows):
        own = [rows[name, kind] for kind in SCORES_OF_INTERVALS]
        splits = own[0]["splits"]
        label = SET_NAMES.get(name, name) + (f", {splits} splits" if splits != 20 else "")
        shown.append([label, *(f"{row['width']:.3f}, {row['score']:.3f}, {row['widest']:.2f}" for row in own)])
    return table(["", *SCORES_OF_INTERVALS], shown)


def adult():
    rows = {(row["n"], row["model"]): row for row in rows_of("adult")}
    shown = []
    for n in dict.fromkeys(key[0] for key in rows):
        own = [rows[n, model] for model in ("plain", "ribbon", "cv nll")]
        losses = [f"{row['NLL'][0]:.4f} ± {row['NLL'][1]:.4f}" for row in own]
        shown.append([f"{n:,}", *losses, *(number(row["ECE"][0]) for row in own)])
    header = ["training rows", "NLL plain", "Ribbon", "RibbonCV by NLL"]
    return table([*header, "ECE plain", "Ribbon", "RibbonCV by NLL"], shown)


CHANGES = {
    "row order": "rows in another order",
    "weights, repeats": "integer weights instead of repeated rows",
    "one row more": "one row more",
    "one row less": "one row less",
    "one row twice": "one row twice",
}


def stability():
    rows = {row["change"]: row for row in rows_of("stability")}
    shown = []
    for key, name in CHANGES.items():
        row = rows[key]
        low, high = row["quantiles"]
        shown.append([name, row["re-chosen"], f"{row['median']:.2%}", f"{low:.2f}, {high:.2f}"])
    return table(["change", "re-chosen", "median change of widths", "0.1% and 99.9% quantile of width ratios"], shown)


# ---------------------------------------------------------------------- simulations
def crossed():
    shown = []
    for row in rows_of("crossed"):
        own = [row["fit with"], *(number(value, 2) for value in row["coverage"])]
        best = row["fit with"] == "a and b"
        A, B = row["groups"]
        shown.append([f"{A} × {B}", f"{row['n']:,}", *(f"**{cell}**" if best else cell for cell in own)])
    return table(["groups", "rows", "fit with", "column of a", "column of b", "column of rows"], shown)


EFFECTS = {name: f"{name}, with an interaction" for name in ("linear", "logistic", "Poisson")}
EFFECTS["penalized"] = "ridge with categories and products"


def effects():
    cells = {(row["kind"], row["of"], row["n"]): row for row in rows_of("effects")}
    sizes = list(dict.fromkeys(key[2] for key in cells))
    shown = []
    for kind, name in EFFECTS.items():
        for key, of in {"rows": "rows", "groups": "groups of five"}.items():
            own = [cells[kind, key, n] for n in sizes]
            covers = [", ".join(number(row[c], 2) for row in own) for c in ("these rows", "population", "with y")]
            shown.append([name, of, ", ".join(f"{n:,}" for n in sizes), *covers[:2], f"**{covers[2]}**"])
    return table(["model", "sampled", "rows", "these rows", "`population=True`", "known y"], shown)


def probability_intervals():
    cells = {(row["model"], row["method"], row["n"]): row for row in rows_of("classifiers_intervals")}
    columns = [("temperature=1", "average fit"), ("default", "average prediction")]
    columns += [("temperature=1", "true"), ("default", "true")]
    shown = []
    for model in dict.fromkeys(key[0] for key in cells):
        sizes = sorted({key[2] for key in cells if key[0] == model})
        covers = [" / ".join(number(cells[model, m, n][what], 2) for n in sizes) for m, what in columns]
        shown.append([f"`{model}`", " / ".join(f"{n:,}" for n in sizes), *covers])
    header = ["model", "rows", "average fit, T = 1", "average prediction, default"]
    return table([*header, "true probability, T = 1", "true probability, default"], shown)


def cells_of(part):
    """Rows of a part of bench_simulations.py by cell."""
    return {tuple(np.ravel(np.array(row["cell"], dtype=object))): row for row in rows_of(f"simulated_{part}")}


def small_samples():
    corrections = ("auto", "HC0", "HC3")
    shown = [[n, *(number(row[c], 2) for c in corrections)] for (n,), row in cells_of("small_samples").items()]
    return table(["rows", *corrections], shown)


def many_features():
    kinds = {"default": "default", "HC2": '`correction="HC2"`', "RibbonCV": "RibbonCV"}
    shown = [
        [ratio, n, *(number(row[kind], 2) for kind in kinds)] for (n, ratio), row in cells_of("many_features").items()
    ]
    return table(["signal / noise", "rows", *kinds.values()], shown)


SLOPES = ("column of groups", "column of rows", "two treated groups")
REFERENCES = ("CR2, G - 1", "CR3, G - 1", "CR2, Satterthwaite", "rows")


def clusters():
    cells, shown = cells_of("clusters"), []
    for G in dict.fromkeys(key[0] for key in cells):
        for slope in SLOPES:
            pairs = [
                ", ".join(number(cells[G, unequal][f"{slope}: {kind}"], 2) for unequal in (False, True))
                for kind in REFERENCES
            ]
            pairs[2] = f"**{pairs[2]}**"
            shown.append([G, slope, *pairs])
    header = ["CR2, $G - 1$", "CR3, $G - 1$", "**CR2, Satterthwaite**", "rows as independent"]
    return table(["groups", "slope of", *header], shown)


def time_series():
    shown = [
        [f"{n:,}", f"{rho:g}", number(row["rows"], 2)]
        + [f"{number(row[k], 2)} ({row[f'blocks {k}']:.0f})" for k in ("1", "2", "4")]
        for (n, rho), row in cells_of("time_series").items()
    ]
    return table(["rows", "$\\rho$", "rows as independent", "`time_blocks(n)`", "twice as long", "four times"], shown)


def dependence():
    cells = {n: row for (n,), row in cells_of("dependence").items()}
    noises = [key for key in next(iter(cells.values())) if key not in ("cell", "samples")]
    shown = [[name, *(number(row[name]) for row in cells.values())] for name in noises]
    return table(["rows", *(f"{n:,}" for n in cells)], shown)


def outputs():
    levels = ("0.5", "0.8", "0.9", "0.95")
    shown = [
        [*name.split("; "), *(number(row[level], 2) for level in levels)]
        for (name,), row in cells_of("outputs").items()
    ]
    return table(["model", "noise", "rows", *levels], shown)


def clipped(row, name, clips):
    return [f"{number(row[f'{name}, {clip}'])}, {number(row[f'{name}, {clip}: width'], 2)}" for clip in clips]


def outliers():
    clips = (None, 10.0, 5.0, 3.0)
    shown = [
        [kind, base, *clipped(row, base, clips)]
        for (kind,), row in cells_of("outliers").items()
        for base in ("least squares", "Huber")
    ]
    return table(["outliers", "base model", "`clip_scores=None`", "10", "5", "3"], shown)


def clipped_network():
    (row,) = rows_of("simulated_clipped_network")
    first = clipped(row, "clip_scores", (None, 10.0, 5.0, 3.0))
    steps = clipped(row, "clip_steps", (10.0, 3.0, 1.0))
    shown = [["`clip_scores`", *first, ""], ["`clip_steps`", first[0], steps[0], "", *steps[1:]]]
    return table(["", "`None`", "10", "5", "3", "1"], shown)


# ---------------------------------------------------------------------- speed
def powers(text):
    return text.replace("2*", "2 · ").replace("10^5", "10⁵").replace("10^6", "10⁶")


def cost():
    """Whole fits and Ribbon's own part, in units of the base fit."""
    found = {}
    for row in rows_of("core"):
        if row["case"] in "bcd" and ": " in row["what"]:
            name, what = row["what"].rsplit(": ", 1)
            key = "own" if what.startswith("its own") else "whole" if what.endswith(".fit") else "base"
            found.setdefault((name, row["unit"].removesuffix(".fit")), {})[key] = row["measured"]
    shown = [
        [f"`{model}`", powers(name), number(row["whole"], 2), number(row["own"], 2)]
        for (name, model), row in found.items()
    ]
    (peer,) = [row["measured"] for row in rows_of("core") if row["what"].startswith("statsmodels")] or [None]
    shown.insert(1, ["statsmodels, HC0, the same table", "", number(peer, 1), ""])
    return table(["model", "table", "whole fit / base fit", "Ribbon's own part / base fit"], shown)


def growth():
    shown = {}
    for row in rows_of("growth"):
        name, what = row["what"].split(": ")
        shown.setdefault(name, []).append(number(row["measured"], 2))
        if what == "exponent":
            shown[name].insert(0, row["unit"].removeprefix("theory "))
    return table(["size", "theory", "exponent", "peak memory / X"], [[name, *cells] for name, cells in shown.items()])


CURVATURES = {
    "ggn": ('`"ggn"`', "$J'CJ$, dense; never indefinite", "networks with up to about 1,500 parameters, or many rows"),
    "hessian": ('`"hessian"` (damping 1e-3)', "exact second derivative, dense", "convex models"),
    "fisher": ('`"fisher"`', "mean of $gg'$, dense", "a model without second derivatives"),
    "kfac": ('`"kfac"`', "Kronecker factors, layer by layer", "networks with 10⁴ to 10⁶ parameters and many rows"),
    "low_rank 99.9%": ('`"low_rank"` (99.9%)', "leading eigenpairs and a diagonal", "other large models"),
    "low_rank 95%": ("`LowRank(rank=0.95)`", "", "-"),
    "diag": ('`"diag"`', "diagonal of Gauss-Newton", "a preconditioner; not for intervals"),
    "last_layer": ('`"last_layer"`', "the last layer alone", "large networks, if held-out rows correct its size"),
    "matrix_free": ('`"matrix_free"` (tol 1e-2)', "conjugate gradients", "exact results without a p × p array"),
}


def curvatures():
    found = {}
    for row in rows_of("curvature"):
        if row["case"] == "a":
            kind, rest = row["what"].split(", p = ")
            name, what = rest.split(": ", 1)[1].rsplit(", ", 1)
            found[kind, name, what] = row["measured"]
    shown = []
    for key, (name, meaning, use) in CURVATURES.items():
        cells = [
            f"{number(found[kind, key, '50th percentile'], 2)}, {found[kind, key, 'fit']:.2g}"
            for kind in ("regressor", "classifier")
        ]
        shown.append([name, *cells, meaning, use])
    return table(["`curvature=`", "regressor: ratio, cost", "classifier", "what it is", "use it for"], shown)


def dask():
    shown = []
    for row in rows_of("dask"):
        if row["unit"] and row["measured"] != 1:
            seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f} s"
            shown.append([powers(row["what"]), f"{row['measured']:.3g}", row["unit"], seconds])
    return table(["", "measured", "in units of", "time"], shown)


# ---------------------------------------------------------------------- costs on UCI tables
SETS = ("boston", "concrete", "energy", "yacht")


def uci_costs():
    """CPU seconds after the shared network, means over splits."""
    rows = dict(rows_of("uci"))
    methods = list(dict.fromkeys(key.split(", ", 1)[1].rsplit(", split", 1)[0] for key in rows))
    shown = []
    for method in methods:
        means = [
            np.mean([v["seconds"] for k, v in rows.items() if k.startswith(f"{name}, {method}, split")])
            for name in SETS
        ]
        shown.append([method, *(f"{value:.2g}" for value in means)])
    return table(["CPU seconds", *SETS], shown)


# ---------------------------------------------------------------------- all runs of a release
def release():
    rows = [[row["command"], f"{row['minutes']:g}", row["result"], row["tree"][:10]] for row in rows_of("runs")]
    return table(["command", "minutes", "result", "tree of skribbon/"], rows)


# Block of a page: the function that makes it, and the record that it needs
BLOCKS = {
    "linear": (linear, "calibration_linear"),
    "simulated": (simulated, "calibration_simulated"),
    "misses": (misses, "calibration_simulated"),
    "networks": (networks, "networks"),
    "gap_and_tail": (gap_and_tail, "networks"),
    "conformal": (conformal, "conformal"),
    "adult": (adult, "adult"),
    "stability": (stability, "stability"),
    "crossed": (crossed, "crossed"),
    "effects": (effects, "effects"),
    "probability_intervals": (probability_intervals, "classifiers_intervals"),
    "small_samples": (small_samples, "simulated_small_samples"),
    "many_features": (many_features, "simulated_many_features"),
    "clusters": (clusters, "simulated_clusters"),
    "time_series": (time_series, "simulated_time_series"),
    "dependence": (dependence, "simulated_dependence"),
    "outputs": (outputs, "simulated_outputs"),
    "outliers": (outliers, "simulated_outliers"),
    "clipped_network": (clipped_network, "simulated_clipped_network"),
    "cost": (cost, "core"),
    "growth": (growth, "growth"),
    "curvatures": (curvatures, "curvature"),
    "dask": (dask, "dask"),
    "uci_costs": (uci_costs, "uci"),
    "release": (release, "runs"),
}
