"""Mean predictions along columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._utils.typing import MatrixLike
from ..inspection import partial_dependence
from ..inspection._table import Column
from ._drawing import (
    BLUE,
    axes_of,
    bright,
    class_position,
    counted,
    grey,
    keywords,
    named,
    one_output,
    percent,
    shortened,
    show_legend,
    show_title,
    size_of,
    tint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_VALUES = 10  # whose places on a line are marked
LONGEST_NAME = 20  # of a category
ROW_OF_AXES = 3  # side by side at most


@dataclass(eq=False, repr=False)
class PartialDependenceDisplay:
    """Mean prediction over all rows with one column set to each of its values, with a confidence band.

    A numeric column gets a line with a band around it, and ticks below at its deciles: between the outermost ticks
    there are rows to support the curve. Categories, and a column of two numbers, get points with bars. The vertical
    axis is the same for all columns. Bands hold for each value separately, not for the whole curve at once.

    There is no ``from_predictions``; pass your own table to the constructor.

    Parameters
    ----------
    table : DataFrame
        With columns term, value, estimate, conf_low and conf_high, as :func:`skribbon.inspection.partial_dependence`
        returns it, for a single class.
    deciles : dict of ndarray, default=None
        Maps a numeric term to the ticks below it.
    response : str, default="mean prediction"
        What is averaged.
    n_rows : int, default=None
        Number of rows.
    confidence_level : float, default=0.9
    name : str, default=None

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One for each term.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
    lines_ : dict of matplotlib Line2D
        By term: curves, or the points of categories.
    bands_ : dict of matplotlib FillBetweenPolyCollection or LineCollection
        By term: bands, or the bars of categories.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.plotting import PartialDependenceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> display = PartialDependenceDisplay.from_estimator(ribbon, X, ["bmi", "bp"], grid_resolution=20)
    >>> [ax.get_xlabel() for ax in display.axes_]
    ['bmi', 'bp']
    """

    table: pd.DataFrame
    _: KW_ONLY
    deciles: Mapping[str, NDArray] | None = None
    response: str = "mean prediction"
    n_rows: int | None = None
    confidence_level: float = 0.9
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        features: str | int | Sequence[str | int],
        *,
        pos_label: Any = None,
        output: Any = None,
        grid_resolution: int = 50,
        percentiles: tuple[float, float] = (0.05, 0.95),
        weights: ArrayLike | None = None,
        confidence_level: float = 0.9,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw partial dependence on some columns, one at a time.

        Parameters
        ----------
        estimator : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to average over.
        features : str, int or sequence of them
        pos_label : label, default=None
            The class to look at; of two classes the second one if None.
        output : label or int, default=None
            Which one to draw, if there are several.
        grid_resolution : int, default=50
        percentiles : tuple of two floats, default=(0.05, 0.95)
        weights : array-like of shape (n_samples,), default=None
        confidence_level : float, default=0.9
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes or sequence of them, default=None
            As many as features; a new figure if None.
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        PartialDependenceDisplay
        """
        estimator, _, name = one_output(estimator, None, output, name)
        asked = {"grid_resolution": grid_resolution, "percentiles": percentiles, "weights": weights}
        table = partial_dependence(estimator, X, features, confidence_level=confidence_level, **asked)  # type: ignore[arg-type]
        response = "mean prediction"
        if "class" in table:
            label = estimator.classes_[class_position(estimator.classes_, pos_label)]
            table, response = table[table["class"] == label], f"mean P({named(label)})"
        listed = [features] if isinstance(features, str) or np.ndim(features) == 0 else list(features)  # type: ignore[arg-type]
        columns = [Column.of(X, feature) for feature in listed]
        display = cls(
            table,
            deciles={
                column.name: np.nanquantile(column.values.to_numpy(dtype=float), np.arange(1, 10) / 10)
                for column in columns
                if column.is_numeric
            },
            response=response,
            n_rows=len(columns[0].values),
            confidence_level=confidence_level,
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: dict[str, Any] | None = None,
        band_kw: dict[str, Any] | None = None,
        point_kw: dict[str, Any] | None = None,
        bar_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, default=None
            As many as terms; a new figure if None.
        line_kw : dict, default=None
            For ``Axes.plot``: the curves.
        band_kw : dict, default=None
            For ``Axes.fill_between``: their bands.
        point_kw : dict, default=None
            For ``Axes.plot``: the categories.
        bar_kw : dict, default=None
            For ``Axes.vlines``: their intervals.

        Returns
        -------
        self : PartialDependenceDisplay
        """
        terms = list(dict.fromkeys(self.table["term"]))
        self.axes_ = _axes_for(len(terms), ax)
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        self.lines_: dict[str, Any] = {}
        self.bands_: dict[str, Any] = {}
        for axis, term in zip(self.axes_, terms, strict=True):
            rows = self.table[self.table["term"] == term]
            values, ends = rows["value"], (rows["conf_low"].to_numpy(), rows["conf_high"].to_numpy())
            estimate = rows["estimate"].to_numpy()
            if _is_numeric(values) and len(values) > 2:
                x = values.to_numpy(dtype=float)
                self._draw_curve(axis, term, x, estimate, ends, line_kw, band_kw)
            else:
                self._draw_categories(axis, term, list(values), estimate, ends, point_kw, bar_kw)
        self._describe(terms)
        return self

    def _draw_curve(self, ax, term, x, estimate, ends, line_kw, band_kw):
        blue = bright(ax, BLUE)
        band = {"color": tint(ax, blue, 0.25), "lw": 0, "label": f"{percent(self.confidence_level)} confidence"}
        kind = "collections.PolyCollection"
        self.bands_[term] = ax.fill_between(x, *ends, **keywords(band, band_kw, kind))
        line = {"color": blue, "lw": 2, "label": self.response}
        line |= {"marker": "o" if len(x) <= FEW_VALUES else "", "ms": 5}
        (self.lines_[term],) = ax.plot(x, estimate, **keywords(line, line_kw))

    def _draw_categories(self, ax, term, names, estimate, ends, point_kw, bar_kw):
        blue, places = bright(ax, BLUE), np.arange(len(names))
        bar = {"color": tint(ax, blue, 0.5), "lw": 3, "label": f"{percent(self.confidence_level)} confidence"}
        self.bands_[term] = ax.vlines(places, *ends, **keywords(bar, bar_kw, "collections.LineCollection"))
        point = {"color": blue, "marker": "o", "ms": 6, "ls": "", "label": self.response}
        (self.lines_[term],) = ax.plot(places, estimate, **keywords(point, point_kw))
        short = shortened([f"{name:g}" if isinstance(name, float) else str(name) for name in names], LONGEST_NAME)
        neighbours = max(len(left + right) / 2 for left, right in pairwise([*short, ""]))
        crowded = 0.08 * neighbours > size_of(ax)[0] / len(short)  # inches a small letter takes
        turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        ax.set_xticks(places, short, fontsize="small", **turned)
        ax.set_xlim(-0.6, len(names) - 0.4)

    def _describe(self, terms: list[str]) -> None:
        from matplotlib.collections import PolyCollection

        limits = np.array([axis.get_ylim() for axis in self.axes_])
        low, high = limits[:, 0].min(), limits[:, 1].max()
        for axis, term in zip(self.axes_, terms, strict=True):
            axis.set(xlabel=term, ylim=(low, high))
            if term in (self.deciles or {}) and isinstance(self.bands_[term], PolyCollection):
                strokes = {"color": grey(axis), "marker": "|", "ms": 7, "ls": "", "zorder": 1}
                x = self.deciles[term]  # type: ignore[index]
                axis.plot(x, np.full(len(x), 0.015), transform=axis.get_xaxis_transform(), **strokes)
        rows = "" if self.n_rows is None else f", {counted(self.n_rows, 'row')}"
        for axis in self.axes_:
            if axis is self.ax_ or (axis.get_subplotspec() and axis.get_subplotspec().is_first_col()):
                axis.set_ylabel(self.response)
        show_title(self.ax_, self.name, f"partial dependence{rows}")
        show_legend(self.ax_, columns=1, corners=("upper left", "upper right", "lower right"))
        for axis in self.axes_[1:]:
            axis.set_ylim(self.ax_.get_ylim())


def _axes_for(n: int, ax: Any) -> NDArray:
    """An axis for each of n terms."""
    if ax is None and n > 1:
        import matplotlib.pyplot as plt

        width = 2 if n == 4 else min(n, ROW_OF_AXES)
        height = -(-n // width)
        size = (3.4 * width, 3.2 * height)
        _, ax = plt.subplots(height, width, figsize=size, layout="constrained", squeeze=False, sharey=True)
        for spare in ax.ravel()[n:]:
            spare.remove()
        ax = ax.ravel()[:n]
    given: list[Axes | None] = list(np.ravel(np.array([None if ax is None else ax], dtype=object)))
    if len(given) != n:
        raise ValueError(f"ax must hold {n} axes, one for each feature, got {len(given)}.")
    return np.array([axes_of(one)[0] for one in given], dtype=object)


def _is_numeric(values: pd.Series) -> bool:
    """Whether the values are numbers, also where a table of several terms holds them as objects."""
    dtype = values.infer_objects().dtype
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
