"""Displays of inspection: coefficients, partial dependence, and the influence of training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.checks import check_count, check_levels
from .._utils.typing import MatrixLike
from ..inspection import coefficients, influence_measures, partial_dependence
from ..inspection._coefficients import without_steps
from ..inspection._functional import fitted_ribbon
from ..inspection._table import Column, is_number
from . import _drawing as draw
from ._drawing import Fields, Keywords

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class CoefficientDisplay:
    """Forest plot: one coefficient per line, with its confidence interval.

    Intervals are those of :func:`skribbon.inspection.coefficients`. Those that exclude zero are blue with filled
    circles, the others grey with open ones. If there are many coefficients, those furthest from zero in their own
    standard errors are shown, in the order of the model.

    Coefficients belong to the features that the linear model sees, after the transformers of a pipeline, and are on the
    scale of the link or of the transformed target. If columns have very different units, no single axis can show their
    coefficients: put a StandardScaler before the model.

    There is no ``from_predictions``; pass your own numbers to the constructor.

    Parameters
    ----------
    coefficients : array-like of shape (d,)
    standard_errors : array-like of shape (d,)
    names : sequence of d str
    df : float or array-like of shape (d,), default=inf
        Degrees of freedom of the standard errors; infinite for normal intervals.
    confidence_level : float, default=0.9
    max_coefficients : int, default=30
    name : str, default=None

    Attributes
    ----------
    interval : ndarray of shape (d, 2)
    shown : ndarray of int
        Positions of the coefficients that are drawn, from top to bottom.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : tuple of two matplotlib LineCollection
        Intervals that exclude zero, and that contain it.
    points_ : tuple of two matplotlib Line2D
    zero_ : matplotlib Line2D

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
        feature_names: Sequence[str] | None = None,
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
        pos_label : label, default=None
            Class whose coefficients to draw, if there are more than two classes.
        output : label or int, default=None
            Output whose coefficients to draw, if there are several.
        feature_names : sequence of str, default=None
            Names of the features that the linear model sees; from ``feature_names_in_`` and the pipeline's
            transformers if None.
        confidence_level : float, default=0.9
        max_coefficients : int, default=30
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

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
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None, taller for more coefficients.
        bar_kw : dict, default=None
            For ``Axes.hlines``: the intervals.
        point_kw : dict, default=None
            For ``Axes.plot``: the coefficients.

        Returns
        -------
        self : CoefficientDisplay
        """
        n = len(self.shown)
        self.ax_, self.figure_ = draw.axes_of(ax, figsize=(6.4, max(2.2, min(4.8, 1.4 + 0.3 * n), 1.2 + 0.21 * n)))
        height, step = np.arange(n)[::-1], 72 * draw.size_of(self.ax_)[1] / (n + 2)  # between two lines, in points
        lower, upper = self.interval[self.shown].T
        values, clear = self.coefficients[self.shown], (lower > 0) | (upper < 0)
        blue, light = draw.bright(self.ax_, draw.BLUE), draw.grey(self.ax_, 0.5)
        zero = [0, 0], [-0.7, n - 0.4]  # ends below the legend
        (self.zero_,) = self.ax_.plot(*zero, color=draw.grey(self.ax_), lw=1, ls=":")
        bars, points = [], []
        for rows, colour, face, label in (
            (clear, blue, blue, "excludes zero"),
            (~clear, light, draw.tint(self.ax_, light, 0), "includes zero"),
        ):
            bar = draw.keywords({"color": colour, "lw": 2}, bar_kw, "collections.LineCollection")
            bars.append(self.ax_.hlines(height[rows], lower[rows], upper[rows], **bar))
            look = {"color": colour, "marker": "o", "ms": min(5.5, 0.6 * step), "mfc": face, "ls": ""}
            look["label"] = f"{label} ({rows.sum()})"
            points.append(draw.line(self.ax_, values[rows], height[rows], point_kw, **look))
        self.bars_, self.points_ = tuple(bars), tuple(points)
        self._describe(height, step)
        return self

    def _describe(self, height: NDArray, step: float) -> None:
        from matplotlib.pyplot import rcParams

        n, d = len(height), len(self.coefficients)
        longest = min(28, int(5 * draw.size_of(self.ax_)[0]))  # characters; a narrow axis has narrow margins
        labels = draw.shortened(without_steps([str(self.names[j]) for j in self.shown]), longest)
        self.ax_.set_yticks(height, labels)
        self.ax_.set(ylim=(-0.7, n - 0.4), xlabel=f"coefficient with {draw.percent(self.confidence_level)} interval")
        self.ax_.tick_params(axis="y", length=0, labelsize=min(rcParams["font.size"], 0.85 * step))
        count = f"the {n} clearest of {d} coefficients" if n < d else draw.counted(d, "coefficient")
        draw.show_title(self.ax_, self.name, count)
        draw.show_legend(self.ax_)


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
        estimator, _, name = draw.one_output(estimator, None, output, name)
        asked: Fields = {"grid_resolution": grid_resolution, "percentiles": percentiles, "weights": weights}
        table = partial_dependence(estimator, X, features, confidence_level=confidence_level, **asked)
        response = "mean prediction"
        if "class" in table:
            label = estimator.classes_[draw.class_position(estimator.classes_, pos_label)]
            table, response = table[table["class"] == label], f"mean P({draw.named(label)})"
        columns = Column.several(X, features)
        numbers = {column.name: column.values.to_numpy(dtype=float) for column in columns if column.is_numeric}
        deciles = {term: np.nanquantile(x, np.arange(1, 10) / 10) for term, x in numbers.items()}
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
            values, estimate = rows["value"].infer_objects(), rows["estimate"].to_numpy()
            ends, blue = rows[["conf_low", "conf_high"]].to_numpy().T, draw.bright(axis, draw.BLUE)
            label = f"{draw.percent(self.confidence_level)} confidence"
            if is_number(values) and len(values) > 2:
                x = values.to_numpy(dtype=float)
                look = {"color": draw.tint(axis, blue, 0.25), "lw": 0, "label": label}
                self.bands_[term] = draw.band(axis, x, ends, band_kw, **look)
                look = {"color": blue, "lw": 2, "marker": "o" if len(x) <= draw.MOST_MARKED else "", "ms": 5}
                self.lines_[term] = draw.line(axis, x, estimate, line_kw, label=self.response, **look)
            else:
                x = np.arange(len(values))
                look = {"color": draw.tint(axis, blue, 0.5), "lw": 3, "label": label}
                self.bands_[term] = draw.bars(axis, x, ends, bar_kw, **look)
                look = {"color": blue, "marker": "o", "ms": 6, "ls": "", "label": self.response}
                self.lines_[term] = draw.line(axis, x, estimate, point_kw, **look)
                draw.name_categories(axis, [f"{name:g}" if isinstance(name, float) else str(name) for name in values])
        self._describe(terms)
        return self

    def _describe(self, terms: list[str]) -> None:
        from matplotlib.collections import PolyCollection

        lows, highs = zip(*(axis.get_ylim() for axis in self.axes_), strict=True)
        for axis, term in zip(self.axes_, terms, strict=True):
            axis.set(xlabel=term, ylim=(min(lows), max(highs)))
            if term in (self.deciles or {}) and isinstance(self.bands_[term], PolyCollection):
                strokes = {"color": draw.grey(axis), "marker": "|", "ms": 7, "ls": "", "zorder": 1}
                x = self.deciles[term]  # type: ignore[index]
                axis.plot(x, np.full(len(x), 0.015), transform=axis.get_xaxis_transform(), **strokes)
        rows = "" if self.n_rows is None else f", {draw.counted(self.n_rows, 'row')}"
        for axis in self.axes_:
            if axis is self.ax_ or (axis.get_subplotspec() and axis.get_subplotspec().is_first_col()):
                axis.set_ylabel(self.response)
        draw.show_title(self.ax_, self.name, f"partial dependence{rows}")
        draw.show_legend(self.ax_, columns=1, corners=("upper left", "upper right", "lower right"))
        for axis in self.axes_[1:]:
            axis.set_ylim(self.ax_.get_ylim())


def _axes_for(n: int, ax: Any) -> NDArray:
    """An axis for each of n terms."""
    if ax is None and n > 1:
        import matplotlib.pyplot as plt

        width = 2 if n == 4 else min(n, 3)
        height = -(-n // width)
        size = (3.4 * width, 3.2 * height)
        _, ax = plt.subplots(height, width, figsize=size, layout="constrained", squeeze=False, sharey=True)
        for spare in ax.ravel()[n:]:
            spare.remove()
        ax = ax.ravel()[:n]
    given: list[Axes | None] = list(np.ravel(np.array([None if ax is None else ax], dtype=object)))
    if len(given) != n:
        raise ValueError(f"ax must hold {n} axes, one for each feature, got {len(given)}.")
    return np.array([draw.axes_of(one)[0] for one in given], dtype=object)


@dataclass(eq=False, repr=False)
class InfluenceDisplay:
    """Influence plot: how unusual the features of each training row are, and how far it lies from the fit without it.

    The area of a point shows its Cook's distance, and the most influential rows are labelled. A row on the right
    *could* move the fit; one that is also far from zero does. See :func:`skribbon.inspection.influence_measures`.

    There is no ``from_predictions``; pass your own numbers to the constructor.

    Parameters
    ----------
    leverage : array-like of shape (n,)
    left_out_residual : array-like of shape (n,)
        Residuals of the fit to all other rows.
    cooks_distance : array-like of shape (n,)
    labels : sequence of n labels, default=None
        Names of the rows; positions if None.
    n_labels : int, default=5
        How many of the most influential rows are labelled.
    noun : str, default="row"
        What a point is.
    name : str, default=None

    Attributes
    ----------
    top : ndarray of int
        Positions of the labelled rows, the most influential first.
    shown : ndarray of int
        Positions of the rows that are drawn.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : tuple of two matplotlib PathCollection
        All other rows, and those that are labelled.
    labels_ : list of matplotlib Annotation
    zero_ : matplotlib Line2D

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
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        n_labels: int = 5,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the training rows, or groups, of a fitted Ribbon.

        Parameters
        ----------
        estimator : fitted RibbonRegressor, RibbonClassifier or RibbonCV
        X_train : {array-like, sparse matrix} of shape (n_train, n_features)
            The training rows; likewise ``y_train``, ``sample_weight`` and ``groups``.
        y_train : array-like of shape (n_train,)
        sample_weight : array-like of shape (n_train,), default=None
        groups : array-like of shape (n_train,), default=None
        n_labels : int, default=5
            How many of the most influential rows to label, by the index of ``X_train`` if it has one.
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        InfluenceDisplay
        """
        table = influence_measures(estimator, X_train, y_train, sample_weight, groups)
        measures = table[["leverage", "left_out_residual", "cooks_distance"]].to_numpy().T
        name, noun = type(estimator).__name__ if name is None else name, "row" if groups is None else "group"
        return cls(*measures, labels=list(table.index), n_labels=n_labels, noun=noun, name=name).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, point_kw: Keywords = None, label_kw: Keywords = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        point_kw : dict, default=None
            For ``Axes.scatter``: all rows.
        label_kw : dict, default=None
            For ``Axes.annotate``: the names.

        Returns
        -------
        self : InfluenceDisplay
        """
        self.ax_, self.figure_ = draw.axes_of(ax)
        light, strong = draw.grey(self.ax_, 0.55), draw.bright(self.ax_, draw.VERMILION)
        self.zero_ = self.ax_.axhline(0, color=draw.grey(self.ax_), lw=1, ls=":", zorder=0)
        others = np.setdiff1d(self.shown, self.top)
        points = []
        for rows, colour in ((others, light), (self.top, strong)):
            look = {"facecolors": [draw.tint(self.ax_, colour, 0.35)], "edgecolors": [colour], "linewidths": 0.8}
            look = draw.keywords({"s": self._areas(rows), **look}, point_kw, "collections.PathCollection")
            points.append(self.ax_.scatter(self.leverage[rows], self.left_out_residual[rows], **look))
        self.points_ = tuple(points)
        self.ax_.margins(0.08)
        self._annotate(strong, label_kw)
        self.ax_.set(xlabel="leverage", ylabel=f"residual without the {self.noun}")
        count = draw.rows_shown(len(self.shown), len(self.leverage)).replace("row", self.noun)
        draw.show_title(self.ax_, self.name, f"{count}, area is Cook's distance")
        return self

    def _areas(self, rows: NDArray[np.intp]) -> NDArray:
        """Areas of points in square points, from 8 to 420."""
        largest = max(float(self.cooks_distance.max(initial=0.0)), np.finfo(float).tiny)
        return 8 + 412 * np.maximum(self.cooks_distance[rows], 0) / largest

    def _annotate(self, colour: Any, given: Keywords) -> None:
        """Names beside their points, away from the nearer edge."""
        middle = np.mean(self.ax_.get_xlim())
        texts = draw.shortened([str(self.labels[row]) for row in self.top])
        self.labels_ = []
        for row, text, area in zip(self.top, texts, self._areas(self.top), strict=True):
            left = self.leverage[row] > middle
            away = 3 + np.sqrt(area) / 2
            style: dict[str, Any] = {"xytext": (-away if left else away, 0), "textcoords": "offset points"}
            style |= {"ha": "right" if left else "left", "va": "center", "color": colour, "fontsize": "small"}
            point = (self.leverage[row], self.left_out_residual[row])
            self.labels_.append(self.ax_.annotate(text, point, **{**style, **(given or {})}))
