"""Coefficients of a linear model and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from .._checks import check_levels
from .._cv import RibbonCV
from ..exceptions import UndeterminedDirectionWarning, warn_user
from ..models.huber import LocationScale
from ..models.linear import LinearPredictor
from ..models.mlp import LastLayer
from ._drawing import (
    BLUE,
    axes_of,
    bright,
    class_position,
    counted,
    grey,
    keywords,
    named,
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
UNDETERMINED = 1e-6  # share of a coefficient that lies in a direction without width


class CoefficientDisplay:
    """Forest plot: one coefficient per line, with its confidence interval.

    Intervals are normal, with the parameters' covariance that the estimator holds. Those that leave out zero are blue
    with filled circles, the others grey with open ones. Of many coefficients the ones furthest from zero in their own
    standard errors are shown, in the order of the model.

    A coefficient belongs to what the linear model sees, behind the transformers of a pipeline, and is on the scale of a
    link or of a transformed target. Columns in very different units have coefficients that no single axis shows: put
    a StandardScaler before the model.

    There is no ``from_predictions``, since coefficients are not predictions: numbers of your own go to the constructor.

    Parameters
    ----------
    coefficients : array-like of shape (d,)
    standard_errors : array-like of shape (d,)
    names : sequence of d str
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
        Intervals without zero, and with it.
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
    ('bmi', array([409., 631.]))
    """

    def __init__(
        self,
        coefficients: ArrayLike,
        standard_errors: ArrayLike,
        names: Sequence[str],
        *,
        confidence_level: float = 0.9,
        max_coefficients: int = 30,
        name: str | None = None,
    ) -> None:
        self.coefficients = coefficients = column_or_1d(coefficients)
        self.standard_errors = standard_errors = column_or_1d(standard_errors)
        check_consistent_length(coefficients, standard_errors, names)
        self.names = names
        self.confidence_level = confidence_level
        self.max_coefficients = max_coefficients
        self.name = name
        (level,), _ = check_levels(confidence_level, "confidence_level")
        half = norm.ppf((1 + level) / 2) * standard_errors
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
            Draw the intercept too.
        pos_label : label, default=None
            Whose coefficients, if there are more than two classes.
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
        check_is_fitted(estimator)
        name = type(estimator).__name__ if name is None else name
        ribbon = _fitted_ribbon(estimator)
        which = None
        if is_classifier(ribbon) and len(ribbon.classes_) > 2:
            which = class_position(ribbon.classes_, pos_label)
            name = f"{name}, {named(ribbon.classes_[which])}"
        model = ribbon.model_
        stacked = np.column_stack([model.theta, ribbon.ribbon_.root, ribbon.ribbon_.null])  # (p, 1 + r + m)
        linear = _of_class(model, stacked, which)  # (d, 1 + r + m)
        root = linear[:, 1 : 1 + ribbon.ribbon_.root.shape[1]]
        _warn_if_undetermined(linear[:, 1 + root.shape[1] :])
        names = _coefficient_names(ribbon, model, len(linear), feature_names)
        keep = slice(None) if intercept or not model.intercept else slice(-1)
        display = cls(
            linear[keep, 0],
            np.sqrt((root[keep] ** 2).sum(axis=1)),
            names[keep],
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
            A new figure if None, higher for more coefficients.
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
        labels = shortened(_without_steps([str(self.names[j]) for j in self.shown]), longest)
        self.ax_.set_yticks(height, labels)
        self.ax_.set(
            ylim=(-0.7, n - 0.4),
            xlabel=f"coefficient with {percent(self.confidence_level)} interval",
        )
        self.ax_.tick_params(axis="y", length=0, labelsize=min(rcParams["font.size"], 0.85 * step))
        count = f"the {n} clearest of {d} coefficients" if n < d else counted(d, "coefficient")
        show_title(self.ax_, self.name, count)
        show_legend(self.ax_)


def _fitted_ribbon(estimator: BaseEstimator) -> Any:
    """The estimator that holds model_ and ribbon_, if its model has coefficients."""
    inner = estimator
    while isinstance(inner, RibbonCV | FrozenEstimator):
        inner = inner.estimator_ if isinstance(inner, RibbonCV) else inner.estimator
    if not hasattr(inner, "ribbon_"):
        raise TypeError(
            f"CoefficientDisplay needs an estimator that holds a covariance of the parameters, such as "
            f"RibbonRegressor, RibbonClassifier or LaplaceRegressor; {type(inner).__name__} has none."
        )
    model = inner.model_
    if not isinstance(model, LinearPredictor | LocationScale) or isinstance(model, LastLayer):
        raise TypeError(
            f"{type(model).__name__} has no coefficients that belong to features; CoefficientDisplay needs a linear "
            "base model, such as Ridge or LogisticRegression."
        )
    return inner


def _of_class(model: Any, stacked: NDArray, which: int | None) -> NDArray:
    """Columns of parameters (p, m) to columns of coefficients (d, m), of one class where there are several."""
    if isinstance(model, LocationScale):
        return stacked[:-1]  # the scale is the last parameter
    if which is None:
        return stacked
    blocks = stacked.reshape(model.n_outputs, -1, stacked.shape[1])
    return np.tensordot(model.loss.basis[which], blocks, axes=1)


def _warn_if_undetermined(null: NDArray) -> None:
    """``null`` (d, m): directions in which the ribbon has no width."""
    hidden = int((np.abs(null).max(axis=1, initial=0.0) > UNDETERMINED).sum())
    if hidden:
        warn_user(
            f"{hidden} coefficients lie along directions that the training data do not determine (collinear or "
            "constant columns); their intervals are too short. Drop redundant columns.",
            UndeterminedDirectionWarning,
        )


def _coefficient_names(ribbon: Any, model: Any, d: int, feature_names: Sequence[str] | None) -> list[str]:
    """Names of all d coefficients, that of the intercept last."""
    columns = getattr(model, "columns", None)  # the features that a selection has left
    n_features = d - model.intercept
    if feature_names is None:
        names = _feature_names(ribbon, model)
        if names is None:
            last = n_features if columns is None or not len(columns) else max(columns) + 1
            names = [f"x{j}" for j in range(last)]
    else:
        names = list(map(str, feature_names))
    if columns is not None and len(names) > n_features:
        names = [names[j] for j in columns]
    if len(names) != n_features:
        raise ValueError(f"feature_names must have {n_features} names, one per coefficient, got {len(names)}.")
    return [*names, "(intercept)"] if model.intercept else names


def _feature_names(ribbon: Any, model: Any) -> list[str] | None:
    """Of the linear model's inputs, through the transformers before it; None where one of them cannot say."""
    names = getattr(ribbon, "feature_names_in_", None)
    for transformer in model.preprocess:
        try:
            names = transformer.get_feature_names_out(names)
        except (AttributeError, ValueError):
            return None
    return None if names is None else list(map(str, names))


def _without_steps(names: Sequence[str]) -> list[str]:
    """Names without the steps that a ColumnTransformer puts before them, if they stay distinct."""
    bare = [name.split("__", 1)[-1] for name in names]
    return bare if len(set(bare)) == len(set(names)) else list(names)
