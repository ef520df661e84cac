"""Coefficients of a linear model and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.checks import check_levels
from ..inspection import coefficients
from ..inspection._coefficients import without_steps
from ..inspection._functional import fitted_ribbon
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

LONGEST_NAME = 28


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
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.plotting import CoefficientDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> display = CoefficientDisplay.from_estimator(RibbonRegressor().fit(X, y))
    >>> display.names[2], display.interval[2].round(0)
    ('bmi', array([408., 632.]))
    """

    def __init__(
        self,
        coefficients: ArrayLike,
        standard_errors: ArrayLike,
        names: Sequence[str],
        *,
        df: ArrayLike = np.inf,
        confidence_level: float = 0.9,
        max_coefficients: int = 30,
        name: str | None = None,
    ) -> None:
        self.coefficients = coefficients = column_or_1d(coefficients)
        self.standard_errors = standard_errors = column_or_1d(standard_errors)
        check_consistent_length(coefficients, standard_errors, names)
        self.names = names
        self.df = df
        self.confidence_level = confidence_level
        self.max_coefficients = max_coefficients
        self.name = name
        (level,), _ = check_levels(confidence_level, "confidence_level")
        half = student.ppf((1 + level) / 2, df) * standard_errors
        self.interval = np.column_stack([coefficients - half, coefficients + half])
        tiny = np.finfo(float).tiny
        strength = np.abs(coefficients) / np.maximum(standard_errors, tiny)
        self.shown = np.sort(np.argsort(-strength, kind="stable")[:max_coefficients])

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
        name = type(estimator).__name__ if name is None else name
        estimator, _, name = one_output(estimator, None, output, name)
        table = coefficients(estimator, feature_names=feature_names)
        if "class" in table:
            which = class_position(estimator.classes_, pos_label)
            name = f"{name}, {named(estimator.classes_[which])}"
            table = table[table["class"] == estimator.classes_[which]]
        has_intercept = fitted_ribbon(estimator, cls.__name__).model_.intercept
        names = [*table["term"][:-1], "(intercept)"] if has_intercept else list(table["term"])
        keep = slice(None) if intercept or not has_intercept else slice(-1)
        display = cls(
            table["estimate"].to_numpy()[keep],
            table["std_error"].to_numpy()[keep],
            names[keep],
            df=table["df"].to_numpy()[keep],
            confidence_level=confidence_level,
            max_coefficients=max_coefficients,
            name=name,
        )
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
        self.ax_, self.figure_ = axes_of(ax, figsize=(6.4, max(2.2, min(4.8, 1.4 + 0.3 * n), 1.2 + 0.21 * n)))
        height, step = np.arange(n)[::-1], 72 * size_of(self.ax_)[1] / (n + 2)  # between two lines, in points
        lower, upper = self.interval[self.shown].T
        values, clear = self.coefficients[self.shown], (lower > 0) | (upper < 0)
        blue, light = bright(self.ax_, BLUE), grey(self.ax_, 0.5)
        (self.zero_,) = self.ax_.plot([0, 0], [-0.7, n - 0.4], color=grey(self.ax_), lw=1, ls=":")  # below the legend
        bars, points = [], []
        for rows, colour, face, label in (
            (clear, blue, blue, "excludes zero"),
            (~clear, light, tint(self.ax_, light, 0), "includes zero"),
        ):
            bar = keywords({"color": colour, "lw": 2}, bar_kw, "collections.LineCollection")
            bars.append(self.ax_.hlines(height[rows], lower[rows], upper[rows], **bar))
            style = {"color": colour, "marker": "o", "ms": min(5.5, 0.6 * step), "mfc": face, "ls": ""}
            style["label"] = f"{label} ({rows.sum()})"
            points += self.ax_.plot(values[rows], height[rows], **keywords(style, point_kw))
        self.bars_, self.points_ = tuple(bars), tuple(points)
        self._describe(height, step)
        return self

    def _describe(self, height: NDArray, step: float) -> None:
        from matplotlib.pyplot import rcParams

        n, d = len(height), len(self.coefficients)
        longest = min(LONGEST_NAME, int(5 * size_of(self.ax_)[0]))  # a narrow axis has narrow margins
        labels = shortened(without_steps([str(self.names[j]) for j in self.shown]), longest)
        self.ax_.set_yticks(height, labels)
        self.ax_.set(
            ylim=(-0.7, n - 0.4),
            xlabel=f"coefficient with {percent(self.confidence_level)} interval",
        )
        self.ax_.tick_params(axis="y", length=0, labelsize=min(rcParams["font.size"], 0.85 * step))
        count = f"the {n} clearest of {d} coefficients" if n < d else counted(d, "coefficient")
        show_title(self.ax_, self.name, count)
        show_legend(self.ax_)
