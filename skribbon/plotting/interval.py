"""Prediction intervals and the observations they should contain."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.typing import MatrixLike
from ..metrics import interval_coverage_score
from ._drawing import (
    BLUE,
    VERMILION,
    axes_of,
    background,
    bright,
    column,
    counted,
    evenly,
    grey,
    groups_by,
    keywords,
    one_output,
    percent,
    require,
    rows_shown,
    show_legend,
    show_title,
    tint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 150  # more rows share a band of medians
MOST_POINTS = 1000
N_GROUPS = 40
N_GRID = 300


@dataclass(frozen=True, eq=False)
class Curve:
    """Prediction and intervals along one input, x increasing: (m,), (m,), (m, 2), (m, 2) or None."""

    x: np.ndarray
    y_pred: np.ndarray
    y_interval: np.ndarray
    confidence_interval: np.ndarray | None


@dataclass(eq=False, repr=False)
class IntervalDisplay:
    """Prediction intervals against the observations.

    With one input: the prediction as a line, the prediction band, within it the confidence band of the mean, and the
    observations. With more: observed against predicted values, one bar per interval; if all predictions are the same,
    one row after the other. Above 150 rows a band replaces the bars, the median interval of rows with similar
    predictions, and above 1,000 rows an even selection is drawn; the coverage in the title is always that of all rows.
    Observations so far away that they would flatten all intervals are marked at the edge and counted.

    Parameters
    ----------
    y_true, y_pred : ndarray of shape (n_samples,)
    y_interval : ndarray of shape (n_samples, 2)
    confidence_level : float, default=0.9
        Level of the intervals, for the labels.
    x : ndarray of shape (n_samples,), default=None
        The input, if there is only one.
    curve : object with x, y_pred, y_interval, confidence_interval, default=None
        What to draw as a line and bands along ``x``.
    x_name : str, default="x"
    name : str, default=None
        Name of the estimator, for the title.

    Attributes
    ----------
    coverage : float
        Share of all rows inside their interval.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The prediction; with many inputs the diagonal.
    band_, confidence_band_ : matplotlib PolyCollection or None
    bars_ : tuple of two matplotlib LineCollection, or None
        Intervals of covered and of missed rows.
    covered_, missed_ : matplotlib Line2D
        Observations inside and outside their interval.
    beyond_ : tuple of two matplotlib Line2D
        Observations above and below what is drawn, at the edge; empty if there are none.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.plotting import IntervalDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor().fit(X[:300], y[:300])
    >>> display = IntervalDisplay.from_estimator(ribbon, X[300:], y[300:])
    >>> round(display.coverage, 3)
    0.908
    """

    y_true: NDArray
    y_pred: NDArray
    y_interval: NDArray
    _: KW_ONLY
    confidence_level: float = 0.9
    x: NDArray | None = None
    curve: Curve | None = None
    x_name: str = "x"
    name: str | None = None

    def __post_init__(self) -> None:
        self.coverage = float(interval_coverage_score(self.y_true, self.y_interval))

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        confidence_level: float = 0.9,
        output: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Predict intervals for X and draw them.

        Parameters
        ----------
        estimator : fitted regressor with ``predict_interval``
            RibbonRegressor, RibbonCV, or one of :mod:`skribbon.baselines`.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        confidence_level : float, default=0.9
        output : label or int, default=None
            Which one to draw, if there are several.
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        IntervalDisplay
        """
        require(estimator, "regressor", "predict_interval", cls.__name__, "ProbabilityIntervalDisplay")
        estimator, y, name = one_output(estimator, y, output, name)
        display: dict[str, Any] = {
            "confidence_level": confidence_level,
            "name": type(estimator).__name__ if name is None else name,
        }
        if np.shape(X)[1:] == (1,) and (grid := _grid(X)) is not None:
            x, x_name = column(X, 0)
            curve = _along_grid(estimator, X, grid, confidence_level)
            display |= {"x": x, "x_name": x_name, "curve": curve}
        y_pred, y_interval = estimator.predict(X), estimator.predict_interval(X, confidence_level)
        return cls(column_or_1d(y), y_pred, y_interval, **display).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        y_interval: ArrayLike,
        *,
        x: ArrayLike | None = None,
        confidence_interval: ArrayLike | None = None,
        confidence_level: float = 0.9,
        x_name: str = "x",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw intervals that have already been predicted.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
        y_interval : array-like of shape (n_samples, 2)
        x : array-like of shape (n_samples,), default=None
            The input if there is only one; line and bands then join the rows.
        confidence_interval : array-like of shape (n_samples, 2), default=None
            Intervals of the mean, drawn along ``x``.
        confidence_level : float, default=0.9
            Level of the intervals.
        x_name : str, default="x"
        name : str, default=None
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        IntervalDisplay
        """
        y_true, y_pred, y_interval = column_or_1d(y_true), column_or_1d(y_pred), np.asarray(y_interval, dtype=float)
        check_consistent_length(y_true, y_pred, y_interval, x, confidence_interval)
        curve = None
        if x is not None:
            x = column_or_1d(x)
            order = np.argsort(x, kind="stable")[evenly(len(x), MOST_POINTS)]
            inner = None if confidence_interval is None else np.asarray(confidence_interval, dtype=float)[order]
            curve = Curve(x[order], y_pred[order], y_interval[order], inner)
        elif confidence_interval is not None:
            raise ValueError("confidence_interval is drawn along x; pass x as well.")
        display = cls(
            y_true, y_pred, y_interval, confidence_level=confidence_level, x=x, curve=curve, x_name=x_name, name=name
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        line_kw: dict[str, Any] | None = None,
        point_kw: dict[str, Any] | None = None,
        band_kw: dict[str, Any] | None = None,
        confidence_kw: dict[str, Any] | None = None,
        bar_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        line_kw, point_kw : dict, default=None
            For ``Axes.plot``: the prediction or diagonal, and the observations.
        band_kw, confidence_kw : dict, default=None
            For ``Axes.fill_between``: the prediction band and the confidence band.
        bar_kw : dict, default=None
            For ``Axes.vlines``: the bars.

        Returns
        -------
        self : IntervalDisplay
        """
        self.ax_, self.figure_ = axes_of(ax)
        self.band_ = self.confidence_band_ = None
        self.bars_: tuple | None = None
        position = self._positions()
        if self.curve is not None:
            self._draw_curve(self.curve, line_kw, band_kw, confidence_kw)
        elif len(self.y_true) > MOST_BARS:
            self._draw_median_band(position, band_kw)
        else:
            self._draw_bars(position, bar_kw)
        shown = np.argsort(position, kind="stable")[evenly(len(position), MOST_POINTS)]
        lowest, highest = self._reach()
        within = (lowest <= self.y_true) & (self.y_true <= highest)
        self._draw_points(position, shown[within[shown]], point_kw)
        if self.curve is None:
            ends = np.argmin(position), np.argmax(position)
            label = "prediction" if self._is_constant else "observed = predicted"
            style = {"color": grey(self.ax_), "lw": 1.2, "ls": "--", "zorder": 2.5, "label": label}
            (self.line_,) = self.ax_.plot(position[[*ends]], self.y_pred[[*ends]], **keywords(style, line_kw))
        self.beyond_ = () if within.all() else self._mark_beyond(position, lowest, highest)
        self._describe(len(shown))
        return self

    @property
    def _is_constant(self) -> bool:
        """Whether there is nothing to see along the predictions."""
        return self.x is None and np.ptp(self.y_pred) <= 1e-6 * np.ptp(self.y_interval)

    def _positions(self) -> NDArray:
        """Of each row on the horizontal axis."""
        if self.x is not None:
            return self.x
        return np.arange(1, 1 + len(self.y_pred)) if self._is_constant else self.y_pred

    def _reach(self) -> tuple[float, float]:
        """The lowest and the highest observation that may be drawn: twice the height of all intervals beyond them."""
        ends = self.y_interval if self.curve is None else np.r_[self.y_interval, self.curve.y_interval]
        lowest, highest = float(ends.min()), float(ends.max())
        reach = 2 * (highest - lowest)
        return lowest - reach, highest + reach

    def _draw_curve(self, curve: Curve, line_kw: Any, band_kw: Any, confidence_kw: Any) -> None:
        level = percent(self.confidence_level)
        band = {"color": tint(self.ax_, BLUE, 0.15), "lw": 0, "label": f"{level} prediction band"}
        self.band_ = self._fill(curve.x, curve.y_interval, band, band_kw)
        if curve.confidence_interval is not None:
            inner = {"color": tint(self.ax_, BLUE, 0.45), "lw": 0, "label": f"{level} confidence band"}
            self.confidence_band_ = self._fill(curve.x, curve.confidence_interval, inner, confidence_kw)
        line = keywords({"color": bright(self.ax_, BLUE), "lw": 2, "label": "prediction"}, line_kw)
        (self.line_,) = self.ax_.plot(curve.x, curve.y_pred, **line)

    def _draw_median_band(self, position: NDArray, band_kw: Any) -> None:
        groups = [np.arange(len(position))] * 2 if self._is_constant else groups_by(position, N_GROUPS)
        x = np.array([position[rows].mean() for rows in groups])
        x[[0, -1]] = position.min(), position.max()  # the outermost rows are within the band's length
        ends = np.array([np.median(self.y_interval[rows], axis=0) for rows in groups])
        label = f"median {percent(self.confidence_level)} interval"
        band = {"fc": tint(self.ax_, BLUE, 0.15), "ec": tint(self.ax_, BLUE, 0.45), "lw": 1, "label": label}
        self.band_ = self._fill(x, ends, band, band_kw)

    def _fill(self, x: NDArray, ends: NDArray, defaults: dict[str, Any], given: Any) -> Any:
        return self.ax_.fill_between(x, *ends.T, **keywords(defaults, given, "collections.PolyCollection"))

    def _draw_bars(self, position: NDArray, bar_kw: Any) -> None:
        covered, bars = self._covered(), []
        blue, vermilion = bright(self.ax_, BLUE), bright(self.ax_, VERMILION)
        for rows, colour, alpha, width in ((covered, blue, 0.4, 1.3), (~covered, vermilion, 0.7, 2)):
            style = keywords({"color": colour, "alpha": alpha, "lw": width}, bar_kw, "collections.LineCollection")
            bars.append(self.ax_.vlines(position[rows], *self.y_interval[rows].T, **style))
        self.bars_ = tuple(bars)

    def _draw_points(self, position: NDArray, shown: NDArray, point_kw: Any) -> None:
        covered, crowded = self._covered(), len(shown) > MOST_BARS
        style = {"ls": "", "mew": 0, "rasterized": crowded}
        inside = bright(self.ax_, BLUE) if self.curve is None else grey(self.ax_)  # the band is blue already
        faint = 0.45 if crowded else 0.85
        kinds = (
            (covered, inside, "o", 4, faint, "covered"),
            (~covered, bright(self.ax_, VERMILION), "^", 5.5, 0.9, "missed"),
        )
        artists = []
        for rows, colour, marker, size, alpha, label in kinds:
            mine, size = shown[rows[shown]], size * (0.75 if crowded else 1)
            label = f"{label} ({rows.sum():,})"
            look = {"color": colour, "marker": marker, "ms": size, "alpha": alpha, "label": label}
            points = keywords(style | look, point_kw)
            artists += self.ax_.plot(position[mine], self.y_true[mine], **points)
        self.covered_, self.missed_ = artists

    def _mark_beyond(self, position: NDArray, lowest: float, highest: float) -> tuple:
        """Open arrows at the edges for all rows beyond them, also where other rows were left out."""
        above, below = self.y_true > highest, self.y_true < lowest
        style: dict[str, Any] = {"color": bright(self.ax_, VERMILION), "mfc": tuple(background(self.ax_)), "ls": ""}
        style |= {"ms": 7, "clip_on": False, "transform": self.ax_.get_xaxis_transform()}
        artists = []
        for rows, edge, marker in ((above, 1.0, "^"), (below, 0.0, "v")):
            artists += self.ax_.plot(position[rows], np.full(rows.sum(), edge), marker=marker, **style)
        artists[0 if above.any() else 1].set_label(f"beyond the axis ({(above | below).sum():,})")
        return tuple(artists)

    def _describe(self, n_shown: int) -> None:
        n, level = len(self.y_true), percent(self.confidence_level)
        if self.curve is not None:
            labels = self.x_name, "y"
        elif self._is_constant:
            labels = f"row (all predictions are {self.y_pred[0]:.3g})", "observed"
        else:
            labels = "predicted", "observed"
        self.ax_.set(xlabel=labels[0], ylabel=labels[1])
        if self.ax_.get_xscale() == "linear":
            self.ax_.locator_params(axis="x", steps=(1, 2, 5, 10))  # no quarters: their labels run into each other
        show_title(self.ax_, self.name, f"{level} intervals cover {percent(self.coverage)} of {counted(n, 'row')}")
        title = None if n_shown == n else f"points: {rows_shown(n_shown, n)}"
        show_legend(self.ax_, corners=("upper left", "lower right"), title=title)

    def _covered(self) -> NDArray[np.bool_]:
        lower, upper = self.y_interval.T
        return (lower <= self.y_true) & (self.y_true <= upper)


def _grid(X: Any) -> NDArray | None:
    """Where to predict along the only column, so that bands open where there are no rows; None for text.

    Whole numbers may be codes of categories, between which nothing can be predicted: the values that occur.
    """
    x = np.ravel(X.toarray() if hasattr(X, "toarray") else np.asarray(X))
    if x.dtype.kind == "f":
        return np.linspace(np.nanmin(x), np.nanmax(x), N_GRID)
    if x.dtype.kind in "iu":
        values = np.unique(x)
        return values[evenly(len(values), N_GRID)]
    return None


def _along_grid(estimator: BaseEstimator, X: Any, grid: NDArray, confidence_level: float) -> Curve:
    """Prediction and both intervals along the grid."""
    rows = type(X)({X.columns[0]: grid}) if hasattr(X, "columns") else grid[:, None]
    intervals = [estimator.predict_interval(rows, confidence_level, kind) for kind in ("prediction", "confidence")]
    return Curve(grid, estimator.predict(rows), *intervals)
