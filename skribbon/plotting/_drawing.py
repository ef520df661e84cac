"""What the displays share: colours, axes, keywords of artists, columns of X, and fewer rows where there are many."""

import operator

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from .._compat import safe_indexing

BLUE, VERMILION, GREY, BLACK = "#0072B2", "#D55E00", "#4D4D4D", "#000000"
PALE, MIDDLE = "#D9E8F5", "#8DBBDF"  # opaque, so that the band on top keeps its colour
LIGHT_GREY = "#8C8C8C"
CYCLE = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", BLACK)
MARKERS = ("o", "^", "s", "D", "v", "P", "X")


# ---------------------------------------------------------------------- axes and artists
def axes_of(ax, figsize=None):
    """The axis to draw on, a new one if None, and its figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax, ax.figure


def keywords(defaults, given, artist="lines.Line2D"):
    """Our keywords of an artist with the user's in their place; ``lw`` and ``linewidth`` are the same one."""
    import matplotlib
    from matplotlib.cbook import normalize_kwargs

    kind = operator.attrgetter(artist)(matplotlib)
    return {**normalize_kwargs(defaults, kind), **normalize_kwargs(given, kind)}


def show_legend(ax, **options):
    """A legend that lets the picture shine through."""
    small = {"fontsize": "small", "title_fontsize": "small", "alignment": "left"}
    ax.legend(**{"loc": "best", "framealpha": 0.85, "edgecolor": "none", **small, **options})


def show_title(ax, name, text):
    """Name and text on lines of their own, for axes may be narrow."""
    ax.set_title(text if name is None else f"{name}\n{text}", loc="left", fontsize="medium")


def headroom(ax, share):
    """Free space at the top, for a legend."""
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + share * (high - low))


def percent(share, digits=3):
    """0.9 as "90 %"."""
    return f"{100 * share:.{digits}g} %"


# ---------------------------------------------------------------------- fewer rows
def evenly(n, most):
    """At most ``most`` of the positions 0 .. n - 1, evenly spaced, the ends among them."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)


def rows_shown(shown, n):
    """How a label says that not all rows are drawn."""
    return f"{n:,} rows" if shown == n else f"{shown:,} of {n:,} rows"


def groups_by(values, n_groups):
    """Rows in at most ``n_groups`` groups along increasing values, equal values never apart.

    Half of the limits are quantiles and half are evenly spaced, so that neither an outlier nor a gap swallows the rest.
    """
    order = np.argsort(values, kind="stable")
    ordered, half = values[order], np.arange(1, (n_groups + 1) // 2) / ((n_groups + 1) // 2)
    limits = np.unique(ordered)
    if len(limits) > n_groups:
        limits = np.append(np.quantile(ordered, half), ordered[0] + half * (ordered[-1] - ordered[0]))
    first = np.unique(np.searchsorted(ordered, limits))
    return np.split(order, first[(first > 0) & (first < len(order))])


# ---------------------------------------------------------------------- what comes in
def require(estimator, kind, method, display, instead):
    """Refuse what ``display`` cannot draw: the wrong kind of estimator, one without ``method``, one not fitted."""
    name = type(estimator).__name__
    wrong = is_classifier if kind == "regressor" else is_regressor
    if wrong(estimator):
        other = "classifier" if kind == "regressor" else "regressor"
        raise TypeError(f"{display} needs a {kind}, and {name} is a {other}; use {instead}.")
    if not hasattr(estimator, method):
        raise TypeError(
            f"{display} needs a {kind} with {method}, and {name} has none; wrap the model in "
            f"Ribbon{kind.capitalize()}, or pass the best_estimator_ of a search."
        )
    check_is_fitted(estimator)


def column(X, feature):
    """One column of X by name or position, as numbers where it holds numbers and as text otherwise, and its name."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    names, width = list(getattr(X, "columns", [])), X.shape[1]
    if isinstance(feature, str):
        if feature not in names:
            known = ", ".join(map(str, names[:10])) or "not named, give a position"
            raise ValueError(f"feature={feature!r} is not a column of X; its columns are {known}.")
        position = names.index(feature)
    else:
        position = operator.index(feature)
        if not -width <= position < width:
            raise ValueError(f"feature={feature} is out of range: X has {width} columns.")
        position %= width
    values = safe_indexing(X, position, axis=1)
    values = np.ravel(values.toarray() if hasattr(values, "toarray") else np.asarray(values))
    try:
        values = values.astype(float)
    except (TypeError, ValueError):
        values = values.astype(str)
    return values, str(names[position]) if names else f"x{position}"
