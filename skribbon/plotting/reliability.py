"""Whether what is predicted with 80 % happens in 80 % of the rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._utils.checks import check_count, check_levels
from .._utils.compat import check_sample_weight
from .._utils.typing import MatrixLike
from ..metrics.calibration import binned, calibration_error
from ._drawing import (
    axes_of,
    chance_limits,
    class_position,
    draw_diagonal,
    existing,
    keywords,
    named,
    next_look,
    percent,
    require,
    show_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, DIAGONAL, BARS, COUNTS = (f"skribbon-reliability-{part}" for part in ("line", "diagonal", "bars", "counts"))
LANE, GAP = 0.18, 0.1  # height of the counts below zero, and the space between, as the vertical axis measures it


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    """Predicted probability against observed frequency, in bins, with the play of chance and the rows behind each bin.

    Perfect calibration is the diagonal. The bar of a bin says how far from it the observed frequency may fall by
    chance: central quantiles of the binomial law with the bin's number of rows and its mean predicted probability. If
    each row's outcome has its own predicted probability, their sum has the Poisson binomial law, which is never more
    spread out than that, so the bars are right or slightly too long. They belong to one bin each and are no test of the
    whole curve. Below, the number of rows in each bin.

    The label has the expected calibration error, the mean distance of the points from the diagonal weighted by rows.

    With two classes, or with ``pos_label``, the probability is that of one class. With more classes and no
    ``pos_label`` it is the confidence in the predicted class and the frequency is its accuracy; curve and error are
    then those of :func:`~skribbon.metrics.reliability_curve` and
    :func:`~skribbon.metrics.expected_calibration_error`.

    Several estimators share an axis: pass ``ax=display.ax_`` and a ``name``.

    Parameters
    ----------
    predicted, observed : ndarray of shape (n_filled_bins,)
        Mean predicted probability and observed frequency.
    n : ndarray of shape (n_filled_bins,)
        Number of rows in each bin.
    calibration_error : float
    pos_label : label, default=None
        Whose probability; None stands for the predicted class.
    band_level : float, default=0.95
        Probability that the observed frequency of a calibrated bin falls within its bar.
    name : str, default=None

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    bars_ : matplotlib LineCollection
        Where each bin's frequency lies by chance.
    diagonal_ : matplotlib Line2D
    counts_ax_ : matplotlib Axes
        Within ``ax_``.
    counts_ : matplotlib LineCollection

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skribbon import RibbonClassifier
    >>> from skribbon.plotting import ReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> base = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], y[:300])
    >>> ribbon = RibbonClassifier(base).fit(X[:300], y[:300])
    >>> display = ReliabilityDisplay.from_estimator(base, X[300:], y[300:], n_bins=5)
    >>> display.n
    array([ 64.,   6.,   5.,  15., 179.])
    >>> both = ReliabilityDisplay.from_estimator(ribbon, X[300:], y[300:], n_bins=5, ax=display.ax_)
    """

    predicted: NDArray
    observed: NDArray
    n: NDArray
    _: KW_ONLY
    calibration_error: float
    pos_label: Any = None
    band_level: float = 0.95
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
        sample_weight: ArrayLike | None = None,
        band_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Predict probabilities and count how often they come true.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_proba``
            Any of scikit-learn or of skribbon.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the estimator was not fitted on.
        y : array-like of shape (n_samples,)
        pos_label : label, default=None
            Whose probability. If None, of two classes the second one; of more, the one that is predicted for the row.
        n_bins : int, default=15
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of equal numbers of rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: n of a bin is their sum.
        band_level : float, default=0.95
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        cure = "draw another model, or give it probabilities with CalibratedClassifierCV of sklearn.calibration"
        require(estimator, "classifier", "predict_proba", cls.__name__, "CoverageDisplay", cure)
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            pos_label=pos_label,
            labels=estimator.classes_,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            band_level=band_level,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
        sample_weight: ArrayLike | None = None,
        band_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Count how often probabilities that were predicted already come true.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_proba : array-like of shape (n_samples,) or (n_samples, K)
            Of ``pos_label``, or of every class.
        pos_label : label, default=None
            Whose probability. If None, of two classes the second one; of more, the one that is predicted for the row.
        labels : array-like of shape (K,), default=None
            The classes, in the order of the columns; sorted unique values of ``y_true`` if None.
        n_bins : int, default=15
        strategy : {"uniform", "quantile"}, default="uniform"
        sample_weight : array-like of shape (n_samples,), default=None
        band_level : float, default=0.95
        name : str, default=None
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        check_count(n_bins, "n_bins")
        check_levels(band_level, "band_level")
        y_true, y_proba = column_or_1d(y_true), check_array(y_proba, ensure_2d=False)
        check_consistent_length(y_true, y_proba)
        if y_proba.min() < 0 or y_proba.max() > 1:
            raise ValueError("y_proba must lie between 0 and 1; pass what predict_proba returns.")
        probability, outcome, pos_label = _one_event(y_true, y_proba, _classes(y_true, y_proba, labels), pos_label)
        weight = check_sample_weight(sample_weight, probability, ensure_non_negative=True)
        bins = {"n_bins": n_bins, "strategy": strategy}
        display = cls(
            *binned(probability, outcome, weight, **bins),
            calibration_error=calibration_error(probability, outcome, weight, **bins),
            pos_label=pos_label,
            band_level=band_level,
            name=name,
        )
        return display.plot(ax, **kwargs)

    def chance_band(self) -> tuple[NDArray, NDArray]:
        """Where the frequency of each bin lies by chance if the predicted probabilities are right.

        Returns
        -------
        lower, upper : ndarray of shape (n_filled_bins,)
            Binomial quantiles over n, the central ``band_level``.
        """
        return chance_limits(self.n, self.predicted, self.band_level)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        line_kw: dict[str, Any] | None = None,
        bar_kw: dict[str, Any] | None = None,
        diagonal_kw: dict[str, Any] | None = None,
        count_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw; the diagonal is drawn once where several displays share an axis, and the counts share theirs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        name : str, default=None
            In place of the display's own name.
        line_kw : dict, default=None
            For ``Axes.plot``: the observed frequencies.
        bar_kw : dict, default=None
            For ``Axes.vlines``: where they lie by chance.
        diagonal_kw : dict, default=None
            For ``Axes.plot``.
        count_kw : dict, default=None
            For ``Axes.vlines``: the number of rows.

        Returns
        -------
        self : ReliabilityDisplay
        """
        self.ax_, self.figure_ = axes_of(ax)
        look = next_look(self.ax_, LINE)
        self.diagonal_ = draw_diagonal(self.ax_, DIAGONAL, diagonal_kw)
        bars = {"color": look["color"], "alpha": 0.38, "lw": 4.5, "zorder": 1.5, "gid": f"{BARS}-{self.band_level}"}
        bars["label"] = None if existing(self.ax_, bars["gid"]) else f"{percent(self.band_level)} by chance"
        bars = keywords(bars, bar_kw, "collections.LineCollection")
        self.bars_ = self.ax_.vlines(self.predicted, *self.chance_band(), **bars)
        label = f"{name or self.name or 'observed'}, ECE {self.calibration_error:.3f}"
        line = {**look, "ms": 5, "lw": 1.2, "clip_on": False, "label": label}
        (self.line_,) = self.ax_.plot(self.predicted, self.observed, **keywords(line, line_kw))
        self._draw_counts(look, count_kw)
        self._describe()
        return self

    def _draw_counts(self, look: dict[str, Any], count_kw: dict[str, Any] | None) -> None:
        """One stem per bin in a lane of its own below zero, its scale common to all displays of the axis."""
        self.counts_ax_ = existing(self.ax_, COUNTS) or self._lane()
        style = keywords({"color": look["color"], "lw": 2.5, "alpha": 0.8}, count_kw, "collections.LineCollection")
        self.counts_ = self.counts_ax_.vlines(self.predicted, 0, self.n, **style)
        self.counts_ax_.plot(self.predicted, self.n, color=look["color"], marker=look["marker"], ms=3, ls="")

    def _lane(self) -> Axes:
        from matplotlib.transforms import blended_transform_factory

        across = blended_transform_factory(self.ax_.transAxes, self.ax_.transData)
        return self.ax_.inset_axes((0, -LANE - GAP, 1, LANE), transform=across, gid=COUNTS)

    def _describe(self) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter

        one = self.pos_label is not None
        self.ax_.set_xlabel(f"predicted P({named(self.pos_label)})" if one else "confidence in the predicted class")
        self.ax_.set_ylabel("observed frequency" if one else "accuracy")
        self.ax_.set(xlim=(-0.01, 1.01), ylim=(-LANE - GAP, 1.02), yticks=np.arange(6) / 5)
        self.ax_.spines["left"].set_bounds(0, 1)
        lane = self.counts_ax_
        most = max(float(np.max(line.get_ydata())) for line in lane.lines)
        lane.set(xlim=self.ax_.get_xlim(), ylim=(0, 1.15 * most), facecolor="none", xticks=[])
        lane.spines[["top", "right", "bottom", "left"]].set_visible(False)
        lane.yaxis.set_major_locator(FixedLocator([0, most]))
        lane.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        lane.tick_params(axis="y", labelsize="small")
        lane.set_ylabel("rows", fontsize="small")
        show_legend(self.ax_, corners=("upper left",))


def _classes(y_true: NDArray, y_proba: NDArray, labels: ArrayLike | None) -> NDArray:
    """Labels in the order of the columns of y_proba; of a single column, that of the other class first."""
    found = np.unique(y_true)
    if labels is not None:
        classes = np.asarray(labels)
        if not np.isin(found, classes).any():
            raise ValueError(f"y_true holds none of the classes {', '.join(map(str, classes[:10]))}; is it encoded?")
    elif y_proba.ndim == 1 and set(found.tolist()) <= {0, 1}:
        classes = np.array([0, 1])
    else:
        classes = found
    if y_proba.ndim == 2 and y_proba.shape[1] != len(classes):
        raise ValueError(f"y_proba has {y_proba.shape[1]} columns for {len(classes)} classes; say which with labels=.")
    return classes


def _one_event(y_true: NDArray, y_proba: NDArray, classes: NDArray, pos_label: Any) -> tuple[NDArray, NDArray, Any]:
    """A probability per row, whether what it is about came true, and of which class; None for the predicted one."""
    if y_proba.ndim == 2 and y_proba.shape[1] > 2 and pos_label is None:
        return y_proba.max(axis=1), classes[y_proba.argmax(axis=1)] == y_true, None
    which = class_position(classes, pos_label, "pass labels= if y_true happens to lack it, else one of")
    return y_proba if y_proba.ndim == 1 else y_proba[:, which], y_true == classes[which], classes[which]
