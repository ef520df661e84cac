"""Helpers of all displays: colours, axes, artists, legends, names, selections of rows, and checks of input."""

import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from .._predict.joint import output_position
from .._utils.checks import holds_numbers, listed
from ..inspection._predictions import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # matplotlib is imported by the first display that is drawn

BLUE, VERMILION = "#0072B2", "#D55E00"
MOST_BARS = 150  # largest number of intervals drawn one by one: more bars merge on an axis of usual width
MOST_MARKED = 10  # largest number of points of a line that get markers: more markers hide the line
CYCLE = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
# Dash patterns in points, as far apart as seven patterns can be.
DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (6, 2, 1, 2)), (0, (2, 2)), (0, (6, 1, 1, 1, 1, 1)), (0, (9, 2)))

Fields: TypeAlias = dict[str, Any]  # fields of a display, or options of a legend
Panels: TypeAlias = Axes | Sequence[Axes] | NDArray | None
Keywords: TypeAlias = dict[str, Any] | None  # the user's keywords of an artist


def background(ax: Axes) -> NDArray:
    """Colour behind an axis (3,), red, green and blue; white behind transparent figures."""
    from matplotlib.colors import to_rgba

    seen = np.ones(3)
    for layer in (ax.figure, ax):
        *colour, alpha = to_rgba(layer.get_facecolor())
        seen = alpha * np.array(colour) + (1 - alpha) * seen
    return seen


def is_dark(ax: Axes) -> bool:
    """Whether the background is darker than 0.4, which makes blue lines hard to see."""
    return bool(background(ax).mean() < 0.4)


def tint(ax: Axes, colour: Any, share: float) -> tuple[float, ...]:
    """Mix ``share`` of a colour with the axis's background, as an opaque colour."""
    from matplotlib.colors import to_rgb

    share = share**0.6 if is_dark(ax) else share  # faint shades need more to be seen on black than on white
    return tuple(map(float, share * np.array(to_rgb(colour)) + (1 - share) * background(ax)))


def bright(ax: Axes, colour: Any) -> Any:
    """Colour for lines and points, lightened on a dark background."""
    from matplotlib.colors import to_rgb

    return tuple(0.65 * np.array(to_rgb(colour)) + 0.35) if is_dark(ax) else colour


def grey(ax: Axes, share: float = 0.7) -> tuple[float, ...]:
    """Grey between the background and the colour of text."""
    return tint(ax, ax.xaxis.label.get_color(), share)


def axes_of(ax: Axes | None, figsize: tuple[float, float] | None = None) -> tuple[Axes, Any]:
    """Return the axis to draw on, a new one if None, and its figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax, ax.figure


def panels_of(ax: Any, n: int, noun: str) -> NDArray:
    """Check that ``ax`` holds n axes, one for each ``noun``, and return them as an array."""
    panels = np.ravel(np.array([ax], dtype=object))
    if len(panels) != n:
        raise ValueError(f"ax must hold {n} axes, one for each {noun}, got {len(panels)}; pass plt.subplots({n})[1].")
    return np.array([axes_of(panel)[0] for panel in panels], dtype=object)


def keywords(defaults: Mapping[str, Any], given: Keywords, artist: str = "lines.Line2D") -> dict:
    """Merge default keywords of an artist with the user's; ``lw`` and ``linewidth`` are one keyword."""
    import matplotlib
    from matplotlib.cbook import normalize_kwargs

    kind = operator.attrgetter(artist)(matplotlib)
    return {**normalize_kwargs(dict(defaults), kind), **normalize_kwargs(dict(given or {}), kind)}


def line(ax: Axes, x: Any, y: Any, given: Keywords, **style: Any) -> Any:
    """Draw a line or points; the user's keywords override the style."""
    return ax.plot(x, y, **keywords(style, given))[0]


def bars(ax: Axes, x: Any, ends: Any, given: Keywords, **style: Any) -> Any:
    """Draw vertical bars between two bounds; the user's keywords override the style."""
    return ax.vlines(x, *ends, **keywords(style, given, "collections.LineCollection"))


def band(ax: Axes, x: Any, ends: Any, given: Keywords, **style: Any) -> Any:
    """Fill a band between two bounds; the user's keywords override the style."""
    return ax.fill_between(x, *ends, **keywords(style, given, "collections.PolyCollection"))


def existing(ax: Axes, gid: str) -> Any:
    """Artist that an earlier display drew on a shared axis under this name, or None."""
    return next((artist for artist in ax.get_children() if artist.get_gid() == gid), None)


def next_look(ax: Axes, gid: str) -> dict[str, Any]:
    """Style of one more line named ``gid`` on a shared axis: colour, marker, dashes and name."""
    which = sum(line.get_gid() == gid for line in ax.lines) % len(MARKERS)
    colour = bright(ax, (*CYCLE, ax.xaxis.label.get_color())[which])
    return {"color": colour, "marker": MARKERS[which], "ls": DASHES[which], "gid": gid}


def show_legend(ax: Axes, columns: int = 2, corners: Sequence[str] = (), **options: Any) -> None:
    """Draw a legend in the first of the ``corners`` without data, or above the data in up to ``columns`` columns."""
    ink = ax.xaxis.label.get_color()
    look: dict[str, Any] = {"fontsize": "small", "title_fontsize": "small", "alignment": "left"}
    look |= {"framealpha": 0.85, "facecolor": tuple(background(ax)), "edgecolor": "none", "labelcolor": ink}
    look |= {"columnspacing": 1.0, "handlelength": 1.7, "handletextpad": 0.6, **options}
    for corner in corners:
        legend = ax.legend(**{**look, "loc": corner})
        if _is_free(ax, legend.get_window_extent().padded(4)):
            break
    else:
        legend = _legend_on_top(ax, columns, look)
    legend.get_title().set_color(ink)
    for line in legend.get_lines():
        line.set_alpha(None)  # a single faint point cannot be seen


def _is_free(ax, box):
    """Whether no line, point or band reaches into a box on the screen."""
    for line in ax.lines:
        path = line.get_transform().transform_path(line.get_path())
        joined = line.get_linestyle() != "None"
        if path.intersects_bbox(box, filled=False) if joined else box.count_contains(path.vertices):
            return False
    paths = (artist.get_transform().transform_path(path) for artist in ax.collections for path in artist.get_paths())
    return not any(path.intersects_bbox(box) for path in paths)


def _legend_on_top(ax, columns, look):
    """Draw a legend above the data, on a vertical axis extended by its height."""
    frame = ax.get_window_extent()
    for ncols in range(columns, 0, -1):
        legend = ax.legend(loc="upper left", ncols=ncols, **look)
        box = legend.get_window_extent()
        if box.width <= 0.97 * frame.width:
            break
    share = min(box.height / frame.height + 0.03, 0.5)
    low, high = ax.get_ylim()
    ax.set_ylim(low, (high - share * low) / (1 - share))
    return legend


def show_title(ax: Axes, name: str | None, text: str) -> None:
    """Write name and text above the axis, on lines of their own."""
    ax.set_title(text if name is None else f"{name}\n{text}", loc="left", fontsize="medium")


def size_of(ax: Axes) -> NDArray:
    """Width and height of an axis in inches."""
    return np.array(ax.get_window_extent().size) / ax.figure.dpi


def percent(share: float) -> str:
    """Format a share, 0.9 as "90%"."""
    return f"{100 * share:.3g}%"


def counted(number: int, noun: str) -> str:
    """Format a count, such as "1 row" and "2 rows"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def name_categories(ax: Axes, names: Sequence[str]) -> None:
    """Write the names of categories at 0, 1, ... on the horizontal axis, turned if they are crowded."""
    short = shortened(names)
    neighbours = max(len(left + right) / 2 for left, right in pairwise([*short, ""]))
    crowded = 0.08 * neighbours > size_of(ax)[0] / len(short)  # inches a small letter takes
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    ax.set_xticks(np.arange(len(short)), short, fontsize="small", **turned)
    ax.set_xlim(-0.6, len(short) - 0.4)


def shortened(names: Sequence[str], longest: int = 20) -> list[str]:
    """Shorten names to ``longest`` characters if they stay distinct: to heads and tails, tails, or heads."""
    half = (longest - 1) // 2
    for head, tail in ((half, half), (0, longest - 1), (longest - 1, 0)):
        short = [n if len(n) <= longest else f"{n[:head]}…{n[len(n) - tail :]}" for n in names]
        if len(set(short)) == len(set(names)):
            return list(map(literal, short))
    return list(map(literal, names))


def literal(name: str) -> str:
    """Escape dollar signs of a name, between which Matplotlib would read a formula."""
    return name.replace("$", r"\$")


def named(label: Any) -> str:
    """Label of a class: "class 1" for a number, which would look like a probability."""
    return literal(label) if isinstance(label, str) else f"class {label}"


def draw_diagonal(ax: Axes, gid: str, given: Keywords) -> Any:
    """Draw the line of perfect calibration, once on a shared axis whose vertical spine spans 0 to 1."""
    ax.set_yticks(np.arange(6) / 5)
    ax.spines["left"].set_bounds(0, 1)
    return existing(ax, gid) or line(ax, [0, 1], [0, 1], given, color=grey(ax), lw=1.2, ls="--", zorder=1, gid=gid)


def evenly(n: int, most: int = 1000) -> NDArray[np.intp]:
    """Select at most ``most`` of the positions 0 .. n - 1, evenly spaced, with the first and the last."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)


def rows_shown(shown: int, n: int) -> str:
    """Format the number of rows, and how many of them are drawn if not all."""
    return counted(n, "row") if shown == n else f"{shown:,} of {n:,} rows"


def groups_by(values: NDArray, n_groups: int) -> list[NDArray[np.intp]]:
    """Split rows into at most ``n_groups`` groups along increasing values, equal values never apart.

    A group ends when it has its share of the rows or of the range, so that no outlier or gap takes most of the groups.
    """
    order = np.argsort(values, kind="stable")
    ordered, half = values[order], (n_groups + 1) / 2
    if len(np.unique(ordered)) <= n_groups:
        return np.split(order, np.flatnonzero(np.diff(ordered)) + 1)
    most, width, ends = int(np.ceil(len(order) / half)), (ordered[-1] - ordered[0]) / half, [0]
    while ends[-1] < len(order):
        first = ends[-1]
        last = min(first + most, np.searchsorted(ordered, ordered[first] + width, side="right")) - 1
        ends.append(int(np.searchsorted(ordered, ordered[last], side="right")))
    return np.split(order, ends[1:-1])


def require(estimator: BaseEstimator, kind: str, method: str, display: str, instead: str, cure: str = "") -> None:
    """Refuse an estimator of the wrong kind, without ``method``, or not fitted."""
    name = type(estimator).__name__
    other, is_other = ("classifier", is_classifier) if kind == "regressor" else ("regressor", is_regressor)
    if is_other(estimator):
        raise TypeError(f"{display} needs a {kind}, but {name} is a {other}; use {instead}.")
    if not hasattr(estimator, method):
        cure = cure or f"wrap the model in Ribbon{kind.capitalize()}, or pass the best_estimator_ of a search"
        raise TypeError(f"{display} needs a {kind} with {method}, but {name} has none; {cure}.")
    check_is_fitted(estimator)


def one_output(estimator: Any, y: Any, output: Any, name: str | None) -> tuple[Any, Any, str]:
    """Select the estimator of one output, its y, and the name to show, by default the estimator's class."""
    name = type(estimator).__name__ if name is None else name
    names = getattr(getattr(estimator, "estimator_", None), "output_names_", getattr(estimator, "output_names_", None))
    if names is None:
        if output is not None:
            raise ValueError(f"output={output!r} is for several outputs, but there is only one; leave it out.")
        return estimator, y, name
    if output is None:
        raise ValueError(f"output must name the one to draw; there are {len(names)}: {listed(names)}.")
    single, j = estimator.output(output), output_position(names, output)
    column = np.asarray(y)[:, j] if y is not None and np.ndim(y) == 2 else y
    return single, column, f"{name}, {names[j]}"


def class_position(classes: NDArray, pos_label: Any, cure: str = "pass one of them") -> int:
    """Position of ``pos_label`` among the classes; the second of two if None."""
    if pos_label is None:
        if len(classes) != 2:
            raise ValueError(f"pos_label must name the class to draw; there are {len(classes)}: {listed(classes)}.")
        return 1
    if not (match := np.flatnonzero(classes == pos_label)).size:
        raise ValueError(f"pos_label={pos_label!r} is not a class; {cure}: {listed(classes)}.")
    return int(match[0])


def column(X: Any, feature: str | int) -> tuple[NDArray, str]:
    """Select a column of X by name or position, as numbers or else as text, and its name."""
    found = Column.of(X, feature, "feature")
    values = found.values.to_numpy()
    return values.astype(float if holds_numbers(values) else str), found.name
