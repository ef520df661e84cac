"""Displays of intervals: predictions of a regressor, and class probabilities."""

from dataclasses import KW_ONLY, dataclass
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.typing import MatrixLike
from ..metrics.scores import check_intervals
from . import _drawing as draw
from ._drawing import Axes, Fields, Keywords


@dataclass(eq=False, repr=False)
class IntervalDisplay:
    """Prediction intervals against the observations.

    With one input: the prediction, its prediction band and confidence band, and the observations. With more: observed
    against predicted values, one bar per interval. Above 150 rows a band of median intervals replaces the bars, and
    above 1,000 rows an even selection is drawn; the coverage in the title is that of all rows. Observations too far
    away to be drawn are marked at the edge and counted.

    Parameters
    ----------
    y_true, y_pred : ndarray of shape (n_samples,)
    y_interval : ndarray of shape (n_samples, 2)
    confidence_level : float, default=0.9
    x : ndarray of shape (n_samples,), default=None
        The input, if there is only one.
    curve : object with x, y_pred, y_interval, confidence_interval, default=None
    x_name : str, default="x"
    name : str, default=None

    Attributes
    ----------
    coverage : float
        Share of all rows inside their interval.
    ax_, figure_ : matplotlib Axes and Figure
    line_, covered_, missed_ : matplotlib Line2D
        The prediction, or the diagonal, and the observations inside and outside their interval.
    band_, confidence_band_ : matplotlib PolyCollection or None
    bars_ : tuple of two matplotlib LineCollection, or None
        Intervals of covered and of missed rows.
    beyond_ : tuple of two matplotlib Line2D, or empty
        Observations above and below the axis, at its edge.

    See Also
    --------
    skribbon.RibbonRegressor.predict_interval : The numbers.
    CoverageDisplay : Coverage at all levels.

    Notes
    -----
    User guide: :doc:`/user_guide/intervals`.

    Examples
    --------
    >>> from skribbon.plotting import IntervalDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor().fit(X[:300], y[:300])
    >>> round(IntervalDisplay.from_estimator(ribbon, X[300:], y[300:]).coverage, 3)
    0.908
    """

    y_true: NDArray
    y_pred: NDArray
    y_interval: NDArray
    _: KW_ONLY
    confidence_level: float = 0.9
    x: NDArray | None = None
    curve: Any = None
    x_name: str = "x"
    name: str | None = None

    def __post_init__(self) -> None:
        y_true, lower, upper = check_intervals(self.y_true, self.y_interval)
        self._covered = (lower <= y_true) & (y_true <= upper)
        self.coverage = float(self._covered.mean())
        self._is_constant = self.x is None and np.ptp(self.y_pred) <= 1e-6 * np.ptp(self.y_interval)

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
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        confidence_level : float, default=0.9
        output : label or int of one of several outputs, default=None
        name, ax : str and matplotlib Axes, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        IntervalDisplay
        """
        draw.require(estimator, "regressor", "predict_interval", cls.__name__, "ProbabilityIntervalDisplay")
        estimator, y, name = draw.one_output(estimator, y, output, name)
        fields: Fields = {"confidence_level": confidence_level, "name": name}
        if np.shape(X)[1:] == (1,) and (grid := _grid(X)) is not None:
            x, x_name = draw.column(X, 0)
            fields |= {"x": x, "x_name": x_name, "curve": _along_grid(estimator, X, grid, confidence_level)}
        y_pred, y_interval = estimator.predict(X), estimator.predict_interval(X, confidence_level)
        return cls(column_or_1d(y), y_pred, y_interval, **fields).plot(ax, **kwargs)

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
        confidence_level, x_name, name, ax : see the class and :meth:`from_estimator`
        **kwargs : see :meth:`plot`

        Returns
        -------
        IntervalDisplay
        """
        y_true, y_pred, y_interval = column_or_1d(y_true), column_or_1d(y_pred), np.asarray(y_interval, dtype=float)
        check_consistent_length(y_true, y_pred, y_interval, x, confidence_interval)
        curve = None
        if x is not None:
            x = column_or_1d(x)
            order = np.argsort(x, kind="stable")[draw.evenly(len(x))]
            inner = None if confidence_interval is None else np.asarray(confidence_interval, dtype=float)[order]
            bands = {"y_interval": y_interval[order], "confidence_interval": inner}
            curve = SimpleNamespace(x=x[order], y_pred=y_pred[order], **bands)
        elif confidence_interval is not None:
            raise ValueError("confidence_interval is drawn along x; pass x as well.")
        fields: Fields = {"confidence_level": confidence_level, "x": x, "curve": curve, "x_name": x_name, "name": name}
        return cls(y_true, y_pred, y_interval, **fields).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        line_kw: Keywords = None,
        point_kw: Keywords = None,
        band_kw: Keywords = None,
        confidence_kw: Keywords = None,
        bar_kw: Keywords = None,
    ) -> Self:
        """Draw intervals and observations.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        line_kw, point_kw : dict for ``Axes.plot``, default=None
        band_kw, confidence_kw, bar_kw : dict for ``Axes.fill_between`` and ``Axes.vlines``, default=None

        Returns
        -------
        self : IntervalDisplay
        """
        self.ax_, self.figure_ = draw.axes_of(ax)
        self.band_ = self.confidence_band_ = None
        self.bars_: tuple | None = None
        position = self.x
        if position is None:
            position = np.arange(1, 1 + len(self.y_pred)) if self._is_constant else self.y_pred
        if self.curve is not None:
            self._draw_curve(self.curve, line_kw, band_kw, confidence_kw)
        elif len(self.y_true) > draw.MOST_BARS:
            self._draw_median_band(position, band_kw)
        else:
            self._draw_bars(position, bar_kw)
        shown = np.argsort(position, kind="stable")[draw.evenly(len(position))]
        ends = self.y_interval if self.curve is None else np.r_[self.y_interval, self.curve.y_interval]
        margin = 2 * np.ptp(ends)  # farther observations would flatten all intervals
        lowest, highest = ends.min() - margin, ends.max() + margin
        within = (lowest <= self.y_true) & (self.y_true <= highest)
        self._draw_points(position, shown[within[shown]], point_kw)
        if self.curve is None:
            outer = [np.argmin(position), np.argmax(position)]
            label = "prediction" if self._is_constant else "observed = predicted"
            look = {"color": draw.grey(self.ax_), "lw": 1.2, "ls": "--", "zorder": 2.5, "label": label}
            self.line_ = draw.line(self.ax_, position[outer], self.y_pred[outer], line_kw, **look)
        self.beyond_ = () if within.all() else self._mark_beyond(position, lowest, highest)
        self._describe(len(shown))
        return self

    def _draw_curve(self, curve: Any, line_kw: Keywords, band_kw: Keywords, confidence_kw: Keywords) -> None:
        """Draw the prediction along one input, within its confidence band and its prediction band."""
        level, inner = draw.percent(self.confidence_level), curve.confidence_interval
        look = {"color": draw.tint(self.ax_, draw.BLUE, 0.15), "lw": 0, "label": f"{level} prediction band"}
        self.band_ = draw.band(self.ax_, curve.x, curve.y_interval.T, band_kw, **look)
        if inner is not None:
            look = {"color": draw.tint(self.ax_, draw.BLUE, 0.45), "lw": 0, "label": f"{level} confidence band"}
            self.confidence_band_ = draw.band(self.ax_, curve.x, inner.T, confidence_kw, **look)
        look = {"color": draw.bright(self.ax_, draw.BLUE), "lw": 2, "label": "prediction"}
        self.line_ = draw.line(self.ax_, curve.x, curve.y_pred, line_kw, **look)

    def _draw_median_band(self, position: NDArray, band_kw: Keywords) -> None:
        groups = [np.arange(len(position))] * 2 if self._is_constant else draw.groups_by(position, 40)
        x = np.array([position[rows].mean() for rows in groups])
        x[[0, -1]] = position.min(), position.max()  # the outermost rows are within the band's length
        ends = np.array([np.median(self.y_interval[rows], axis=0) for rows in groups])
        label = f"median {draw.percent(self.confidence_level)} interval"
        face, edge = (draw.tint(self.ax_, draw.BLUE, share) for share in (0.15, 0.45))
        self.band_ = draw.band(self.ax_, x, ends.T, band_kw, fc=face, ec=edge, lw=1, label=label)

    def _draw_bars(self, position: NDArray, bar_kw: Keywords) -> None:
        bars, covered = [], self._covered
        for rows, colour, alpha, width in ((covered, draw.BLUE, 0.4, 1.3), (~covered, draw.VERMILION, 0.7, 2)):
            look = {"color": draw.bright(self.ax_, colour), "alpha": alpha, "lw": width}
            bars.append(draw.bars(self.ax_, position[rows], self.y_interval[rows].T, bar_kw, **look))
        self.bars_ = tuple(bars)

    def _draw_points(self, position: NDArray, shown: NDArray, point_kw: Keywords) -> None:
        covered, crowded = self._covered, len(shown) > draw.MOST_BARS
        inside = draw.bright(self.ax_, draw.BLUE) if self.curve is None else draw.grey(self.ax_)  # a band is blue
        outside, faint, small = draw.bright(self.ax_, draw.VERMILION), 0.45 if crowded else 0.85, 0.75 if crowded else 1
        artists = []
        hit = {"color": inside, "marker": "o", "ms": 4 * small, "alpha": faint}
        miss = {"color": outside, "marker": "^", "ms": 5.5 * small, "alpha": 0.9}
        for rows, label, look in ((covered, "covered", hit), (~covered, "missed", miss)):
            mine = shown[rows[shown]]
            look |= {"label": f"{label} ({rows.sum():,})", "ls": "", "mew": 0, "rasterized": crowded}
            artists.append(draw.line(self.ax_, position[mine], self.y_true[mine], point_kw, **look))
        self.covered_, self.missed_ = artists

    def _mark_beyond(self, position: NDArray, lowest: float, highest: float) -> tuple:
        """Mark all rows beyond the axis with open arrows at its edges."""
        above, below = self.y_true > highest, self.y_true < lowest
        style: Fields = {"color": draw.bright(self.ax_, draw.VERMILION), "mfc": tuple(draw.background(self.ax_))}
        style |= {"ls": "", "ms": 7, "clip_on": False, "transform": self.ax_.get_xaxis_transform()}
        artists = []
        for rows, edge, marker in ((above, 1.0, "^"), (below, 0.0, "v")):
            artists += self.ax_.plot(position[rows], np.full(rows.sum(), edge), marker=marker, **style)
        artists[0 if above.any() else 1].set_label(f"beyond the axis ({(above | below).sum():,})")
        return tuple(artists)

    def _describe(self, n_shown: int) -> None:
        n, level, plain = len(self.y_true), draw.percent(self.confidence_level), self.curve is None
        across = f"row (all predictions are {self.y_pred[0]:.3g})" if self._is_constant else "predicted"
        self.ax_.set(xlabel=across if plain else draw.literal(str(self.x_name)), ylabel="observed" if plain else "y")
        if self.ax_.get_xscale() == "linear":
            self.ax_.locator_params(axis="x", steps=(1, 2, 5, 10))  # no quarters: their labels run into each other
        cover = f"{level} intervals cover {draw.percent(self.coverage)} of {draw.counted(n, 'row')}"
        draw.show_title(self.ax_, self.name, cover)
        title = None if n_shown == n else f"points: {draw.rows_shown(n_shown, n)}"
        draw.show_legend(self.ax_, corners=("upper left", "lower right"), title=title)


def _grid(X: Any, n: int = 300) -> NDArray | None:
    """Values of the only column to predict at, evenly spaced; None for text."""
    x = np.ravel(X.toarray() if hasattr(X, "toarray") else np.asarray(X))
    if x.dtype.kind in "iu":  # whole numbers may be codes of categories: only those that occur can be predicted
        x = np.unique(x)
        return x[draw.evenly(len(x), n)]
    return np.linspace(np.nanmin(x), np.nanmax(x), n) if x.dtype.kind == "f" else None


def _along_grid(estimator: BaseEstimator, X: Any, grid: NDArray, confidence_level: float) -> Any:
    """Predict the mean and both intervals along the grid, (m,) and (m, 2)."""
    rows = type(X)({X.columns[0]: grid}) if hasattr(X, "columns") else grid[:, None]
    outer, inner = (estimator.predict_interval(rows, confidence_level, kind) for kind in ("prediction", "confidence"))
    return SimpleNamespace(x=grid, y_pred=estimator.predict(rows), y_interval=outer, confidence_interval=inner)


@dataclass(eq=False, repr=False)
class ProbabilityIntervalDisplay:
    """Probability of one class with its interval, rows sorted by probability, true labels marked.

    Above 150 rows, rows evenly spaced in the order of probabilities stand for all.

    Parameters
    ----------
    y_true, y_proba : ndarray of shape (n_samples,)
        Labels, and probabilities of ``pos_label``.
    y_interval : ndarray of shape (n_samples, 2)
    pos_label : label
    confidence_level : float, default=0.9
    name : str, default=None

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_, points_ : tuples of two matplotlib LineCollection and Line2D
        For rows of the class, and for the others.

    See Also
    --------
    skribbon.RibbonClassifier.predict_proba_interval : The numbers.
    ReliabilityDisplay : Calibration of probabilities.

    Notes
    -----
    User guide: :doc:`/user_guide/classification`.

    Examples
    --------
    >>> from skribbon.plotting import ProbabilityIntervalDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ribbon = RibbonClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X[:300], y[:300])
    >>> ProbabilityIntervalDisplay.from_estimator(ribbon, X[300:400], y[300:400]).ax_.get_ylabel()
    'P(class 1)'
    """

    y_true: NDArray
    y_proba: NDArray
    y_interval: NDArray
    _: KW_ONLY
    pos_label: Any
    confidence_level: float = 0.9
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        confidence_level: float = 0.9,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Predict probabilities with their intervals and draw them.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_proba_interval``
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        pos_label : label, default=None
            The class to draw; the second of two classes if None.
        confidence_level : float, default=0.9
        name, ax : str and matplotlib Axes, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        ProbabilityIntervalDisplay
        """
        draw.require(estimator, "classifier", "predict_proba_interval", cls.__name__, "IntervalDisplay")
        which = draw.class_position(estimator.classes_, pos_label)
        y_proba = estimator.predict_proba(X)[:, which]
        y_interval = estimator.predict_proba_interval(X, confidence_level)[:, which]
        name = type(estimator).__name__ if name is None else name
        fields: Fields = {"pos_label": estimator.classes_[which], "confidence_level": confidence_level, "name": name}
        return cls(column_or_1d(y), y_proba, y_interval, **fields).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        y_interval: ArrayLike,
        *,
        pos_label: Any = 1,
        confidence_level: float = 0.9,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw probabilities and intervals that have already been predicted.

        Parameters
        ----------
        y_true, y_proba : array-like of shape (n_samples,)
        y_interval : array-like of shape (n_samples, 2)
        pos_label : label, default=1
        confidence_level, name, ax : see :meth:`from_estimator`
        **kwargs : see :meth:`plot`

        Returns
        -------
        ProbabilityIntervalDisplay
        """
        y_true, y_interval = column_or_1d(y_true), np.asarray(y_interval, dtype=float)
        y_proba, _, _ = check_intervals(y_proba, y_interval)
        check_consistent_length(y_true, y_proba)
        fields: Fields = {"pos_label": pos_label, "confidence_level": confidence_level, "name": name}
        return cls(y_true, y_proba, y_interval, **fields).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, bar_kw: Keywords = None, point_kw: Keywords = None) -> Self:
        """Draw probabilities and intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        bar_kw, point_kw : dict for ``Axes.vlines`` and ``Axes.plot``, default=None

        Returns
        -------
        self : ProbabilityIntervalDisplay
        """
        self.ax_, self.figure_ = draw.axes_of(ax)
        order, n = np.argsort(self.y_proba, kind="stable"), len(self.y_proba)
        rank = draw.evenly(n, draw.MOST_BARS)
        rows, bars, points = order[rank], [], []
        mine = self.y_true == self.pos_label
        others = np.unique(self.y_true[~mine])
        other = draw.named(others[0]) if len(others) == 1 else "other"
        blue, vermilion = draw.bright(self.ax_, draw.BLUE), draw.bright(self.ax_, draw.VERMILION)
        for of_class, colour, face, marker, label in (
            (mine, vermilion, vermilion, "^", draw.named(self.pos_label)),
            (~mine, blue, draw.tint(self.ax_, blue, 0.1), "o", other),
        ):
            x, some = rank[of_class[rows]], rows[of_class[rows]]
            bars.append(draw.bars(self.ax_, x, self.y_interval[some].T, bar_kw, color=colour, alpha=0.4, lw=2))
            look = {"color": colour, "mfc": face, "marker": marker, "ms": 4.5, "mew": 1, "ls": ""}
            look["label"] = f"{label} ({of_class.sum():,})"
            points.append(draw.line(self.ax_, x, self.y_proba[some], point_kw, **look))
        self.bars_, self.points_ = tuple(bars), tuple(points)
        self.ax_.set(ylim=(-0.02, 1.02), yticks=np.arange(6) / 5, ylabel=f"P({draw.named(self.pos_label)})")
        self.ax_.set(xlim=(-0.02 * n, 1.02 * n), xlabel=f"{draw.rows_shown(len(rank), n)}, sorted by probability")
        self.ax_.locator_params(axis="x", nbins=5, integer=True, steps=[1, 2, 5, 10])
        self.ax_.xaxis.set_major_formatter("{x:,.0f}")
        draw.show_title(self.ax_, self.name, f"probabilities with {draw.percent(self.confidence_level)} intervals")
        draw.show_legend(self.ax_, corners=("upper left", "lower right"), title="true label")
        return self
