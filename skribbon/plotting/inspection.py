"""Displays of inspection: coefficients, partial dependence, and the influence of training rows."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import unwrap
from itertools import product
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.checks import check_count, check_levels
from .._utils.typing import MatrixLike, Names, PerRow
from ..inspection import CheckReport, coefficients, influence_measures, partial_dependence
from ..inspection._coefficients import without_steps
from ..inspection._functional import fitted_ribbon
from ..inspection._predictions import Column, is_number
from . import _drawing as draw
from ._drawing import Axes, Fields, Keywords


@dataclass(eq=False, repr=False)
class CoefficientDisplay:
    """Forest plot: one coefficient per line, with its confidence interval.

    Coefficients and intervals are those of :func:`skribbon.inspection.coefficients`. Intervals that exclude zero are
    blue with filled circles, the others grey with open ones. If there are many coefficients, the ones furthest from
    zero in standard errors are shown. If columns have very different units, put a StandardScaler before the model.

    Parameters
    ----------
    coefficients, standard_errors : array-like of shape (d,)
    names : sequence of d str
    df : float or array-like of shape (d,), default=inf
        Degrees of freedom of the standard errors; infinite for normal intervals.
    confidence_level : float, default=0.9
    max_coefficients : int, default=30
    name : str, default=None

    Attributes
    ----------
    interval : ndarray of shape (d, 2)
    shown : ndarray of int, positions of the coefficients from top to bottom
    ax_, figure_ : matplotlib Axes and Figure
    bars_, points_ : tuples of two matplotlib LineCollection and Line2D
        For intervals that exclude zero, and that contain it.
    zero_ : matplotlib Line2D

    See Also
    --------
    skribbon.inspection.coefficients : The numbers.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.plotting import CoefficientDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> display = CoefficientDisplay.from_estimator(RibbonRegressor().fit(X, y))
    >>> display.names[2], display.interval[2].round(0)
    ('bmi', array([408., 632.]))
    """

    coefficients: NDArray
    standard_errors: NDArray
    names: Sequence[str]
    _: KW_ONLY
    df: ArrayLike = np.inf
    confidence_level: float = 0.9
    max_coefficients: int = 30
    name: str | None = None

    def __post_init__(self) -> None:
        self.coefficients, self.standard_errors = map(column_or_1d, (self.coefficients, self.standard_errors))
        check_consistent_length(self.coefficients, self.standard_errors, self.names)
        (level,), _ = check_levels(self.confidence_level, "confidence_level")
        half = student.ppf((1 + level) / 2, self.df) * self.standard_errors
        self.interval = np.column_stack([self.coefficients - half, self.coefficients + half])
        strength = np.abs(self.coefficients) / np.maximum(self.standard_errors, np.finfo(float).tiny)
        self.shown = np.sort(np.argsort(-strength, kind="stable")[: self.max_coefficients])

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        intercept: bool = False,
        pos_label: Any = None,
        output: Any = None,
        feature_names: Names = None,
        confidence_level: float = 0.9,
        max_coefficients: int = 30,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the coefficients of a fitted estimator around a linear model.

        Parameters
        ----------
        estimator : fitted RibbonRegressor, RibbonClassifier, RibbonCV, LaplaceRegressor or LaplaceClassifier
        intercept : bool, default=False
            Whether to draw the intercept too.
        pos_label : label of one of more than two classes, default=None
        output : label or int of one of several outputs, default=None
        feature_names, confidence_level : see :func:`skribbon.inspection.coefficients`
        max_coefficients : int, default=30
        name, ax : str and matplotlib Axes, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        CoefficientDisplay
        """
        estimator, _, name = draw.one_output(estimator, None, output, name)
        table = coefficients(estimator, feature_names=feature_names)
        if "class" in table:
            which = draw.class_position(estimator.classes_, pos_label)
            name = f"{name}, {draw.named(estimator.classes_[which])}"
            table = table[table["class"] == estimator.classes_[which]]
        has_intercept = fitted_ribbon(estimator, cls.__name__).model_.intercept
        names = [*table["term"][:-1], "(intercept)"] if has_intercept else list(table["term"])
        keep = slice(None) if intercept or not has_intercept else slice(-1)
        estimate, std_error, df = table[["estimate", "std_error", "df"]].to_numpy()[keep].T
        fields: Fields = {"confidence_level": confidence_level, "max_coefficients": max_coefficients, "name": name}
        return cls(estimate, std_error, names[keep], df=df, **fields).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, bar_kw: Keywords = None, point_kw: Keywords = None) -> Self:
        """Draw coefficients and intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None, taller for more coefficients.
        bar_kw, point_kw : dict for ``Axes.hlines`` and ``Axes.plot``, default=None

        Returns
        -------
        self : CoefficientDisplay
        """
        from matplotlib.pyplot import rcParams

        n, d = len(self.shown), len(self.coefficients)
        self.ax_, self.figure_ = draw.axes_of(ax, figsize=(6.4, max(2.2, min(4.8, 1.4 + 0.3 * n), 1.2 + 0.21 * n)))
        height, step = np.arange(n)[::-1], 72 * draw.size_of(self.ax_)[1] / (n + 2)  # between two lines, in points
        lower, upper = self.interval[self.shown].T
        values, clear = self.coefficients[self.shown], (lower > 0) | (upper < 0)
        blue, light = draw.bright(self.ax_, draw.BLUE), draw.grey(self.ax_, 0.5)
        (self.zero_,) = self.ax_.plot([0, 0], [-0.7, n - 0.4], color=draw.grey(self.ax_), lw=1, ls=":")
        bars, points = [], []
        looks = (clear, blue, blue, "excludes zero"), (~clear, light, draw.tint(self.ax_, light, 0), "includes zero")
        for rows, colour, face, label in looks:
            bar = draw.keywords({"color": colour, "lw": 2}, bar_kw, "collections.LineCollection")
            bars.append(self.ax_.hlines(height[rows], lower[rows], upper[rows], **bar))
            look = {"color": colour, "marker": "o", "ms": min(5.5, 0.6 * step), "mfc": face, "ls": ""}
            look["label"] = f"{label} ({rows.sum()})"
            points.append(draw.line(self.ax_, values[rows], height[rows], point_kw, **look))
        self.bars_, self.points_ = tuple(bars), tuple(points)
        longest = min(28, int(5 * draw.size_of(self.ax_)[0]))  # characters; a narrow axis has narrow margins
        labels = draw.shortened(without_steps([str(self.names[j]) for j in self.shown]), longest)
        self.ax_.set_yticks(height, labels)
        self.ax_.set(ylim=(-0.7, n - 0.4), xlabel=f"coefficient with {draw.percent(self.confidence_level)} interval")
        self.ax_.tick_params(axis="y", length=0, labelsize=min(rcParams["font.size"], 0.85 * step))
        count = f"the {n} clearest of {d} coefficients" if n < d else draw.counted(d, "coefficient")
        draw.show_title(self.ax_, self.name, count)
        draw.show_legend(self.ax_)
        return self


@dataclass(eq=False, repr=False)
class PartialDependenceDisplay:
    """Mean prediction over all rows with one column set to each of its values, with a confidence band.

    A numeric column gets a line with a band around it, and ticks below at its deciles. Categories, and a column of two
    numbers, get points with bars. Bands hold for each value separately, not for the whole curve. Each panel has its own
    vertical axis, so that small effects can be seen.

    Parameters
    ----------
    table : DataFrame
        With columns term, value, estimate, conf_low and conf_high, as :func:`skribbon.inspection.partial_dependence`
        returns it, for a single class.
    deciles : dict of ndarray, default=None
        Maps a numeric term to the ticks below it.
    response : str, default="mean prediction"
    n_rows : int, default=None
    confidence_level : float, default=0.9
    name : str, default=None

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, one for each term
    ax_, figure_ : matplotlib Axes and Figure
    lines_, bands_ : dict of matplotlib Line2D, and of PolyCollection or LineCollection
        By term: curves and bands, or the points and bars of categories.

    See Also
    --------
    skribbon.inspection.partial_dependence : The numbers.

    Notes
    -----
    User guide: :doc:`/user_guide/inference`.

    Examples
    --------
    >>> from skribbon.plotting import PartialDependenceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> display = PartialDependenceDisplay.from_estimator(RibbonRegressor().fit(X, y), X, ["bmi", "bp"])
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
        weights: PerRow = None,
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
        pos_label : label of the class, default=None
        output : label or int of one of several outputs, default=None
        grid_resolution, percentiles, weights, confidence_level : see :func:`skribbon.inspection.partial_dependence`
        name : str, default=None
        ax : matplotlib Axes or sequence of them, one per feature, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        PartialDependenceDisplay
        """
        estimator, _, name = draw.one_output(estimator, None, output, name)
        asked: Fields = {"grid_resolution": grid_resolution, "percentiles": percentiles, "weights": weights}
        response = "mean prediction"
        if hasattr(estimator, "classes_"):
            asked["class_"] = estimator.classes_[draw.class_position(estimator.classes_, pos_label)]
            response = f"mean P({draw.named(asked['class_'])})"
        table = unwrap(partial_dependence)(estimator, X, features, confidence_level=confidence_level, **asked)
        columns, tenths = Column.several(X, features), np.arange(1, 10) / 10
        numbers = (column for column in columns if column.is_numeric)
        deciles = {column.name: np.nanquantile(column.values.to_numpy(dtype=float), tenths) for column in numbers}
        fields: Fields = {"n_rows": len(columns[0].values), "confidence_level": confidence_level, "name": name}
        return cls(table, deciles=deciles, response=response, **fields).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: Keywords = None,
        band_kw: Keywords = None,
        point_kw: Keywords = None,
        bar_kw: Keywords = None,
    ) -> Self:
        """Draw one panel per term.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, one per term, default=None
        line_kw, band_kw : dict for ``Axes.plot`` and ``Axes.fill_between``, default=None
        point_kw, bar_kw : dict for ``Axes.plot`` and ``Axes.vlines``, default=None

        Returns
        -------
        self : PartialDependenceDisplay
        """
        terms = list(dict.fromkeys(self.table["term"]))
        self.axes_ = draw.panels_of(_new_axes(len(terms)) if ax is None else ax, len(terms), "feature")
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        self.lines_, self.bands_ = {}, {}
        for axis, term in zip(self.axes_, terms, strict=True):
            rows = self.table[self.table["term"] == term]
            values, estimate = rows["value"].infer_objects(), rows["estimate"].to_numpy()
            ends, blue = rows[["conf_low", "conf_high"]].to_numpy().T, draw.bright(axis, draw.BLUE)
            label = f"{draw.percent(self.confidence_level)} confidence"
            if is_number(values) and len(values) > 2:
                x = values.to_numpy(dtype=float)
                look = {"color": draw.tint(axis, blue, 0.25), "lw": 0, "label": label}
                self.bands_[term] = draw.band(axis, x, ends, band_kw, **look)
                look = {"color": blue, "lw": 2, "marker": "o" if len(x) <= draw.MOST_MARKED else "", "ms": 5}
                self.lines_[term] = draw.line(axis, x, estimate, line_kw, label=self.response, **look)
                ticks = (self.deciles or {}).get(term, np.zeros(0))
                look = {"color": draw.grey(axis), "marker": "|", "ms": 7, "ls": "", "zorder": 1}
                axis.plot(ticks, np.full(len(ticks), 0.015), transform=axis.get_xaxis_transform(), **look)
            else:
                x = np.arange(len(values))
                look = {"color": draw.tint(axis, blue, 0.5), "lw": 3, "label": label}
                self.bands_[term] = draw.bars(axis, x, ends, bar_kw, **look)
                look = {"color": blue, "marker": "o", "ms": 6, "ls": "", "label": self.response}
                self.lines_[term] = draw.line(axis, x, estimate, point_kw, **look)
                draw.name_categories(axis, [f"{name:g}" if isinstance(name, float) else str(name) for name in values])
            axis.set(xlabel=draw.literal(str(term)), ylabel=self.response)
        rows = "" if self.n_rows is None else f", {draw.counted(self.n_rows, 'row')}"
        draw.show_title(self.ax_, self.name, f"partial dependence{rows}")
        draw.show_legend(self.ax_, columns=1, corners=("upper left", "upper right", "lower right"))
        return self


def _new_axes(n: int) -> list[Any]:
    """Create a grid of axes for n terms, three in a row, or two if n is four."""
    import matplotlib.pyplot as plt

    width = 2 if n == 4 else min(n, 3)
    height = -(-n // width)
    figure = plt.figure(figsize=(3.4 * width, 3.2 * height) if n > 1 else None, layout="constrained")
    return [figure.add_subplot(height, width, k + 1) for k in range(n)]


@dataclass(eq=False, repr=False)
class InfluenceDisplay:
    """Influence plot: leverage of each training row, and its residual from the fit without it.

    The area of a point shows its Cook's distance, and the most influential rows are labelled. A row on the right
    *could* move the fit; one that is also far from zero does. See :func:`skribbon.inspection.influence_measures`.

    Parameters
    ----------
    leverage, left_out_residual, cooks_distance : array-like of shape (n,)
    labels : sequence of n labels, default=None
        Names of the rows; positions if None.
    n_labels : int, default=5
        How many of the most influential rows are labelled.
    noun : str, default="row"
    name : str, default=None

    Attributes
    ----------
    top, shown : ndarray of int
        Positions of the labelled rows, the most influential first, and of the rows that are drawn.
    ax_, figure_ : matplotlib Axes and Figure
    points_, labels_, zero_ : tuple of two matplotlib PathCollection, list of Annotation, and Line2D

    See Also
    --------
    skribbon.inspection.influence_measures : The numbers.

    Notes
    -----
    User guide: :doc:`/user_guide/influence`.

    Examples
    --------
    >>> from skribbon.plotting import InfluenceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> display = InfluenceDisplay.from_estimator(RibbonRegressor().fit(X, y), X, y, n_labels=3)
    >>> [label.get_text() for label in display.labels_]
    ['382', '123', '169']
    """

    leverage: NDArray
    left_out_residual: NDArray
    cooks_distance: NDArray
    _: KW_ONLY
    labels: Any = None
    n_labels: int = 5
    noun: str = "row"
    name: str | None = None

    def __post_init__(self) -> None:
        columns = map(column_or_1d, (self.leverage, self.left_out_residual, self.cooks_distance))
        self.leverage, self.left_out_residual, self.cooks_distance = columns
        self.labels = np.arange(len(self.leverage)) if self.labels is None else self.labels
        check_consistent_length(self.leverage, self.left_out_residual, self.cooks_distance, self.labels)
        self.n_labels = check_count(self.n_labels, "n_labels", 0)
        order, half = np.argsort(-self.cooks_distance, kind="stable"), 1500  # more than 3000 points merge into a blot
        self.top = order[: self.n_labels]
        some = np.random.default_rng(0).permutation(order[half:])[:half]
        self.shown = np.sort(np.concatenate([order[:half], some]))

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X_train: MatrixLike,
        y_train: ArrayLike,
        *,
        sample_weight: PerRow = None,
        groups: PerRow = None,
        n_labels: int = 5,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the training rows, or groups, of a fitted Ribbon.

        Parameters
        ----------
        estimator : fitted RibbonRegressor, RibbonClassifier or RibbonCV
        X_train, y_train, sample_weight, groups : see :func:`skribbon.inspection.influence_measures`
        n_labels : int, default=5
        name, ax : str and matplotlib Axes, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        InfluenceDisplay
        """
        table = unwrap(influence_measures)(estimator, X_train, y_train, sample_weight, groups)
        measures = table[["leverage", "left_out_residual", "cooks_distance"]].to_numpy().T
        name, noun = type(estimator).__name__ if name is None else name, "row" if groups is None else "group"
        return cls(*measures, labels=list(table.index), n_labels=n_labels, noun=noun, name=name).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, point_kw: Keywords = None, label_kw: Keywords = None) -> Self:
        """Draw and label the rows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        point_kw, label_kw : dict for ``Axes.scatter`` and ``Axes.annotate``, default=None

        Returns
        -------
        self : InfluenceDisplay
        """
        self.ax_, self.figure_ = draw.axes_of(ax)
        light, strong = draw.grey(self.ax_, 0.55), draw.bright(self.ax_, draw.VERMILION)
        self.zero_ = self.ax_.axhline(0, color=draw.grey(self.ax_), lw=1, ls=":", zorder=0)
        points = []
        for rows, colour in ((np.setdiff1d(self.shown, self.top), light), (self.top, strong)):
            look = {"facecolors": [draw.tint(self.ax_, colour, 0.35)], "edgecolors": [colour], "linewidths": 0.8}
            look = draw.keywords({"s": self._areas(rows), **look}, point_kw, "collections.PathCollection")
            points.append(self.ax_.scatter(self.leverage[rows], self.left_out_residual[rows], **look))
        self.points_ = tuple(points)
        self.ax_.margins(0.08)
        middle, self.labels_ = np.mean(self.ax_.get_xlim()), list[Any]()
        texts = draw.shortened([str(self.labels[row]) for row in self.top])
        look = {"textcoords": "offset points", "va": "center", "color": strong, "fontsize": "small"} | (label_kw or {})
        for row, text, area in zip(self.top, texts, self._areas(self.top), strict=True):
            side, away = -1 if self.leverage[row] > middle else 1, 3 + np.sqrt(area) / 2  # away from the nearer edge
            label = self.ax_.annotate(text, (self.leverage[row], self.left_out_residual[row]), (0, 0), **look)
            for y, x in product((0, 9, -9, 18, -18), (side, -side)):  # points; a line of small text is 9 high
                label.set(position=(x * away, y), ha="left" if x > 0 else "right")
                if not label.get_window_extent().count_overlaps(other.get_window_extent() for other in self.labels_):
                    break
            self.labels_.append(label)
        self.ax_.set(xlabel="leverage", ylabel=f"residual without the {self.noun}")
        count = draw.rows_shown(len(self.shown), len(self.leverage)).replace("row", self.noun)
        draw.show_title(self.ax_, self.name, f"{count}, area is Cook's distance")
        return self

    def _areas(self, rows: NDArray[np.intp]) -> NDArray:
        """Areas of points in square points, from 8 to 420, proportional to Cook's distance above 8."""
        largest = max(float(self.cooks_distance.max(initial=0.0)), np.finfo(float).tiny)
        return 8 + 412 * np.maximum(self.cooks_distance[rows], 0) / largest


# ---------------------------------------------------------------------- skribbon.inspection.check
def draw_check(report: CheckReport, ax: Axes | None) -> Axes:
    """Draw the table of a CheckReport: each number over its threshold, or the reverse if it must not fall below."""
    table, n = report.table, len(report.table)
    ax, _ = draw.axes_of(ax, figsize=(7.2, 1.3 + 0.3 * n))
    number, threshold = (table[name].to_numpy() for name in ("number", "threshold"))
    fault, known, height = (table["verdict"] == "warning").to_numpy(), ~np.isnan(number), np.arange(n)[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(fault == (number > threshold), number / threshold, threshold / number)
    low, high = 0.01, 100.0  # other ratios are drawn at the ends
    ratio = np.clip(np.where(number == threshold, low, ratio), low, high)
    ax.axvspan(1, 2 * high, color=draw.tint(ax, draw.VERMILION, 0.1), lw=0)
    for rows, colour, marker in ((known & ~fault, draw.BLUE, "o"), (fault, draw.VERMILION, "D")):
        draw.line(ax, ratio[rows], height[rows], None, color=draw.bright(ax, colour), marker=marker, ls="")
    texts = [f"{value:.3g} ({limit:.3g})" for value, limit in zip(number, threshold, strict=True)]
    texts = [*np.where(known, texts, "not checked"), "number (threshold)"]
    look: Fields = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": "small", "color": draw.grey(ax)}
    for place, text in zip([*height, n - 0.1], texts, strict=True):
        ax.text(1.02, place, text, **look)
    ax.set(xscale="log", xlim=(low / 2, 2 * high), ylim=(-0.7, n - 0.3), xlabel="number relative to its threshold")
    ax.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    ax.set_yticks(height, table.index)
    draw.show_title(ax, None, report.title)
    return ax
