"""Prediction intervals and the observations they should contain."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from ..metrics import interval_coverage_score
from ._drawing import (
    BLUE,
    GREY,
    MIDDLE,
    PALE,
    VERMILION,
    axes_of,
    column,
    evenly,
    groups_by,
    headroom,
    keywords,
    percent,
    require,
    rows_shown,
    show_legend,
    show_title,
)

MOST_BARS = 300  # more rows share a band of medians
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


class IntervalDisplay:
    """Prediction intervals against the observations.

    With one input: the prediction as a line, the prediction band, within it the confidence band of the mean, and the
    observations. With more: observed against predicted values, one bar per interval. Above 300 rows the bars give way
    to a band, the median interval of rows with similar predictions, and above 1,000 rows evenly chosen ones stand for
    all; the coverage in the title is always that of all rows.

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

    def __init__(self, y_true, y_pred, y_interval, *, confidence_level=0.9, x=None, curve=None, x_name="x", name=None):
        self.y_true = y_true
        self.y_pred = y_pred
        self.y_interval = y_interval
        self.confidence_level = confidence_level
        self.x = x
        self.curve = curve
        self.x_name = x_name
        self.name = name
        self.coverage = interval_coverage_score(y_true, y_interval)

    @classmethod
    def from_estimator(cls, estimator, X, y, *, confidence_level=0.9, name=None, ax=None, **kwargs):
        """Predict intervals for X and draw them.

        Parameters
        ----------
        estimator : fitted regressor with ``predict_interval``
            RibbonRegressor, RibbonCV, or one of :mod:`skribbon.baselines`.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        confidence_level : float, default=0.9
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
        display = {"confidence_level": confidence_level, "name": type(estimator).__name__ if name is None else name}
        if (X if hasattr(X, "shape") else np.asarray(X)).shape[1] == 1:
            x, x_name = column(X, 0)
            if x.dtype.kind == "f":
                curve = _along_grid(estimator, X, x, confidence_level)
                display |= {"x": x, "x_name": x_name, "curve": curve}
        y_pred, y_interval = estimator.predict(X), estimator.predict_interval(X, confidence_level)
        return cls(column_or_1d(y), y_pred, y_interval, **display).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_pred,
        y_interval,
        *,
        x=None,
        confidence_interval=None,
        confidence_level=0.9,
        x_name="x",
        name=None,
        ax=None,
        **kwargs,
    ):
        """Draw intervals that were predicted already.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
        y_interval : array-like of shape (n_samples, 2)
        x : array-like of shape (n_samples,), default=None
            The input if there is only one; line and bands then join the rows.
        confidence_interval : array-like of shape (n_samples, 2), default=None
            Intervals of the mean, drawn along ``x``.
        confidence_level : float, default=0.9
            What the intervals were made for.
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
            order = np.argsort(x, kind="stable")
            inner = None if confidence_interval is None else np.asarray(confidence_interval, dtype=float)[order]
            curve = Curve(x[order], y_pred[order], y_interval[order], inner)
        elif confidence_interval is not None:
            raise ValueError("confidence_interval is drawn along x; give x as well.")
        display = cls(
            y_true, y_pred, y_interval, confidence_level=confidence_level, x=x, curve=curve, x_name=x_name, name=name
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax=None, *, line_kw=None, band_kw=None, confidence_kw=None, bar_kw=None, point_kw=None):
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
        self.band_ = self.confidence_band_ = self.bars_ = None
        if self.curve is not None:
            self._draw_curve(line_kw, band_kw, confidence_kw)
        elif len(self.y_true) > MOST_BARS:
            self._draw_median_band(band_kw)
        position = self.y_pred if self.x is None else self.x
        order = np.argsort(position, kind="stable")
        shown = order[evenly(len(order), MOST_POINTS)]
        if self.curve is None and len(self.y_true) <= MOST_BARS:
            self._draw_bars(bar_kw)
        self._draw_points(position, shown, point_kw)
        if self.curve is None:
            ends = [self.y_pred.min(), self.y_pred.max()]
            diagonal = {"color": GREY, "lw": 1.2, "ls": "--", "zorder": 2.5, "label": "observed = predicted"}
            (self.line_,) = self.ax_.plot(ends, ends, **keywords(diagonal, line_kw))
        self._describe(len(shown))
        return self

    def _draw_curve(self, line_kw, band_kw, confidence_kw):
        curve, level = self.curve, percent(self.confidence_level)
        band = {"color": PALE, "lw": 0, "label": f"{level} prediction band"}
        self.band_ = self._fill(curve.x, curve.y_interval, band, band_kw)
        if curve.confidence_interval is not None:
            inner = {"color": MIDDLE, "lw": 0, "label": f"{level} confidence band"}
            self.confidence_band_ = self._fill(curve.x, curve.confidence_interval, inner, confidence_kw)
        line = keywords({"color": BLUE, "lw": 2, "label": "prediction"}, line_kw)
        (self.line_,) = self.ax_.plot(curve.x, curve.y_pred, **line)

    def _draw_median_band(self, band_kw):
        groups = groups_by(self.y_pred, N_GROUPS)
        x = np.array([self.y_pred[rows].mean() for rows in groups])
        ends = np.array([np.median(self.y_interval[rows], axis=0) for rows in groups])
        band = {"fc": PALE, "ec": MIDDLE, "lw": 1, "label": f"median {percent(self.confidence_level)} interval"}
        self.band_ = self._fill(x, ends, band, band_kw)

    def _fill(self, x, ends, defaults, given):
        return self.ax_.fill_between(x, *ends.T, **keywords(defaults, given, "collections.PolyCollection"))

    def _draw_bars(self, bar_kw):
        covered, bars = self._covered(), []
        for rows, colour, alpha in ((covered, BLUE, 0.3), (~covered, VERMILION, 0.6)):
            style = keywords({"color": colour, "alpha": alpha, "lw": 1.5}, bar_kw, "collections.LineCollection")
            bars.append(self.ax_.vlines(self.y_pred[rows], *self.y_interval[rows].T, **style))
        self.bars_ = tuple(bars)

    def _draw_points(self, position, shown, point_kw):
        covered, crowded = self._covered(), len(shown) > MOST_BARS
        style = {"ls": "", "mew": 0, "rasterized": crowded}
        inside = GREY if self.curve is not None else BLUE  # the band is blue already
        faint = 0.4 if crowded else 0.85
        kinds = ((covered, inside, "o", 3.5, faint, "covered"), (~covered, VERMILION, "^", 5, 0.85, "missed"))
        artists = []
        for rows, colour, marker, size, alpha, label in kinds:
            mine, size = shown[rows[shown]], size * (0.7 if crowded else 1)
            label = f"{label} ({rows.sum():,})"
            look = {"color": colour, "marker": marker, "ms": size, "alpha": alpha, "label": label}
            points = keywords(style | look, point_kw)
            artists += self.ax_.plot(position[mine], self.y_true[mine], **points)
        self.covered_, self.missed_ = artists

    def _describe(self, n_shown):
        one_input = self.curve is not None
        n, level = len(self.y_true), percent(self.confidence_level)
        rows = rows_shown(n_shown, n)
        self.ax_.set(xlabel=self.x_name if one_input else "predicted", ylabel="y" if one_input else "observed")
        show_title(self.ax_, self.name, f"{level} intervals cover {percent(self.coverage)} of {n:,} rows")
        headroom(self.ax_, 0.22 if one_input else 0.12)
        place = {"loc": "upper center", "ncols": 2} if one_input else {"loc": "upper left"}
        show_legend(self.ax_, title=None if n_shown == n else f"points: {rows}", **place)

    def _covered(self):
        lower, upper = self.y_interval.T
        return (lower <= self.y_true) & (self.y_true <= upper)


def _along_grid(estimator, X, x, confidence_level):
    """The curve on a grid over the rows' range, so that bands open where there are no rows."""
    grid = np.linspace(np.nanmin(x), np.nanmax(x), N_GRID)
    rows = type(X)({X.columns[0]: grid}) if hasattr(X, "columns") else grid[:, None]
    intervals = [estimator.predict_interval(rows, confidence_level, kind) for kind in ("prediction", "confidence")]
    return Curve(grid, estimator.predict(rows), *intervals)
