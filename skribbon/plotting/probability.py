"""Probabilities of a class, and how uncertain they are."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.typing import MatrixLike
from ..metrics.intervals import check_intervals
from ._drawing import (
    BLUE,
    VERMILION,
    axes_of,
    bright,
    class_position,
    evenly,
    keywords,
    named,
    percent,
    require,
    rows_shown,
    show_legend,
    show_title,
    tint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 150


@dataclass(eq=False, repr=False)
class ProbabilityIntervalDisplay:
    """Probability of one class with its interval, rows sorted by probability, true labels marked.

    Above 150 rows, rows evenly spaced in the order of probabilities stand for all.

    Parameters
    ----------
    y_true : ndarray of shape (n_samples,)
    y_proba : ndarray of shape (n_samples,)
        Probability of ``pos_label``.
    y_interval : ndarray of shape (n_samples, 2)
    pos_label : label
    confidence_level : float, default=0.9
    name : str, default=None

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : tuple of two matplotlib LineCollection
        Of rows that are of the class, and of the others.
    points_ : tuple of two matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skribbon import RibbonClassifier
    >>> from skribbon.plotting import ProbabilityIntervalDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ribbon = RibbonClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X[:300], y[:300])
    >>> display = ProbabilityIntervalDisplay.from_estimator(ribbon, X[300:400], y[300:400])
    >>> display.ax_.get_ylabel()
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
            RibbonClassifier, RibbonCV, or one of :mod:`skribbon.baselines`.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        pos_label : label, default=None
            The class to look at; of two classes the second one if None.
        confidence_level : float, default=0.9
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        ProbabilityIntervalDisplay
        """
        require(estimator, "classifier", "predict_proba_interval", cls.__name__, "IntervalDisplay")
        which = class_position(estimator.classes_, pos_label)
        display = cls(
            column_or_1d(y),
            estimator.predict_proba(X)[:, which],
            estimator.predict_proba_interval(X, confidence_level)[:, which],
            pos_label=estimator.classes_[which],
            confidence_level=confidence_level,
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax, **kwargs)

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
        """Draw probabilities and intervals that were predicted already.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_proba : array-like of shape (n_samples,)
            Probability of ``pos_label``.
        y_interval : array-like of shape (n_samples, 2)
        pos_label : label, default=1
        confidence_level : float, default=0.9
        name : str, default=None
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        ProbabilityIntervalDisplay
        """
        y_true, y_interval = column_or_1d(y_true), np.asarray(y_interval, dtype=float)
        y_proba, _, _ = check_intervals(y_proba, y_interval)
        check_consistent_length(y_true, y_proba)
        display = cls(y_true, y_proba, y_interval, pos_label=pos_label, confidence_level=confidence_level, name=name)
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        bar_kw: dict[str, Any] | None = None,
        point_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        bar_kw : dict, default=None
            For ``Axes.vlines``: the intervals.
        point_kw : dict, default=None
            For ``Axes.plot``: the probabilities.

        Returns
        -------
        self : ProbabilityIntervalDisplay
        """
        self.ax_, self.figure_ = axes_of(ax)
        order, n = np.argsort(self.y_proba, kind="stable"), len(self.y_proba)
        rank = evenly(n, MOST_BARS)
        rows, bars, points = order[rank], [], []
        mine = self.y_true == self.pos_label
        blue, vermilion = bright(self.ax_, BLUE), bright(self.ax_, VERMILION)
        for of_class, colour, face, marker, label in (
            (mine, vermilion, vermilion, "^", named(self.pos_label)),
            (~mine, blue, tint(self.ax_, blue, 0.1), "o", self._other_label()),
        ):
            shown = of_class[rows]
            bar = keywords({"color": colour, "alpha": 0.4, "lw": 2}, bar_kw, "collections.LineCollection")
            bars.append(self.ax_.vlines(rank[shown], *self.y_interval[rows[shown]].T, **bar))
            style = {"color": colour, "mfc": face, "marker": marker, "ms": 4.5, "mew": 1, "ls": ""}
            style["label"] = f"{label} ({of_class.sum():,})"
            points += self.ax_.plot(rank[shown], self.y_proba[rows[shown]], **keywords(style, point_kw))
        self.bars_, self.points_ = tuple(bars), tuple(points)
        self._describe(len(rank), n)
        return self

    def _other_label(self) -> str:
        others = np.unique(self.y_true[self.y_true != self.pos_label])
        return named(others[0]) if len(others) == 1 else "other"

    def _describe(self, shown: int, n: int) -> None:
        from matplotlib.ticker import MaxNLocator, StrMethodFormatter

        self.ax_.set(ylim=(-0.02, 1.02), yticks=np.arange(6) / 5, ylabel=f"P({named(self.pos_label)})")
        self.ax_.set_xlabel(f"{rows_shown(shown, n)}, sorted by probability")
        self.ax_.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
        self.ax_.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        self.ax_.set_xlim(-0.02 * n, 1.02 * n)
        show_title(self.ax_, self.name, f"probabilities with {percent(self.confidence_level)} intervals")
        show_legend(self.ax_, corners=("upper left", "lower right"), title="true label")
