"""Leverage, left-out residual and influence of the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.checks import check_count
from .._utils.typing import MatrixLike
from ..inspection import influence_measures
from ._drawing import VERMILION, axes_of, bright, grey, keywords, rows_shown, shortened, show_title, tint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_AREA, MOST_AREA = 8.0, 420.0  # of a point, in square points
MOST_ROWS = 3000  # that are drawn: those of the largest influence, and others at random
LONGEST_NAME = 20


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
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.plotting import InfluenceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> display = InfluenceDisplay.from_estimator(RibbonRegressor().fit(X, y), X, y, n_labels=3)
    >>> [label.get_text() for label in display.labels_]
    ['382', '123', '169']
    """

    def __init__(
        self,
        leverage: ArrayLike,
        left_out_residual: ArrayLike,
        cooks_distance: ArrayLike,
        *,
        labels: Sequence[Any] | None = None,
        n_labels: int = 5,
        noun: str = "row",
        name: str | None = None,
    ) -> None:
        self.leverage = leverage = column_or_1d(leverage)
        self.left_out_residual = left_out_residual = column_or_1d(left_out_residual)
        self.cooks_distance = cooks_distance = column_or_1d(cooks_distance)
        self.labels = labels = np.arange(len(leverage)) if labels is None else labels
        check_consistent_length(leverage, left_out_residual, cooks_distance, labels)
        self.n_labels = check_count(n_labels, "n_labels", 0)
        self.noun = noun
        self.name = name
        order = np.argsort(-cooks_distance, kind="stable")
        self.top = order[:n_labels]
        some = np.random.default_rng(0).permutation(order[MOST_ROWS // 2 :])[: MOST_ROWS - MOST_ROWS // 2]
        self.shown = np.sort(np.concatenate([order[: MOST_ROWS // 2], some]))

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
        display = cls(
            table["leverage"].to_numpy(),
            table["left_out_residual"].to_numpy(),
            table["cooks_distance"].to_numpy(),
            labels=list(table.index),
            n_labels=n_labels,
            noun="row" if groups is None else "group",
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        point_kw: dict[str, Any] | None = None,
        label_kw: dict[str, Any] | None = None,
    ) -> Self:
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
        self.ax_, self.figure_ = axes_of(ax)
        light, strong = grey(self.ax_, 0.55), bright(self.ax_, VERMILION)
        self.zero_ = self.ax_.axhline(0, color=grey(self.ax_), lw=1, ls=":", zorder=0)
        others = np.setdiff1d(self.shown, self.top)
        points = []
        for rows, colour in ((others, light), (self.top, strong)):
            style = {"s": self._areas(rows), "facecolors": [tint(self.ax_, colour, 0.35)], "edgecolors": [colour]}
            style["linewidths"] = 0.8
            style = keywords(style, point_kw, "collections.PathCollection")
            points.append(self.ax_.scatter(self.leverage[rows], self.left_out_residual[rows], **style))
        self.points_ = tuple(points)
        self.ax_.margins(0.08)
        self._annotate(strong, label_kw)
        self._describe()
        return self

    def _areas(self, rows: NDArray[np.intp]) -> NDArray:
        largest = max(float(self.cooks_distance.max(initial=0.0)), np.finfo(float).tiny)
        return LEAST_AREA + (MOST_AREA - LEAST_AREA) * np.maximum(self.cooks_distance[rows], 0) / largest

    def _annotate(self, colour: Any, given: dict[str, Any] | None) -> None:
        """Names beside their points, away from the nearer edge."""
        middle = np.mean(self.ax_.get_xlim())
        texts = shortened([str(self.labels[row]) for row in self.top], LONGEST_NAME)
        self.labels_ = []
        for row, text, area in zip(self.top, texts, self._areas(self.top), strict=True):
            left = self.leverage[row] > middle
            away = 3 + np.sqrt(area) / 2
            style: dict[str, Any] = {"xytext": (-away if left else away, 0), "textcoords": "offset points"}
            style |= {"ha": "right" if left else "left", "va": "center", "color": colour, "fontsize": "small"}
            point = (self.leverage[row], self.left_out_residual[row])
            self.labels_.append(self.ax_.annotate(text, point, **{**style, **(given or {})}))

    def _describe(self) -> None:
        self.ax_.set(xlabel="leverage", ylabel=f"residual without the {self.noun}")
        n, shown = len(self.leverage), len(self.shown)
        count = rows_shown(shown, n).replace("row", self.noun)
        show_title(self.ax_, self.name, f"{count}, area is Cook's distance")
