"""Displays of calibration: coverage of intervals at all levels, and reliability of class probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._utils.checks import check_count, check_levels, listed
from .._utils.compat import check_sample_weight
from .._utils.typing import MatrixLike, PromiseKind
from ..metrics import coverage_curve, interval_coverage_score
from ..metrics.distributions import binned, calibration_error
from . import _drawing as draw
from ._drawing import Fields, Keywords

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class CoverageDisplay:
    """Nominal against empirical coverage of prediction intervals.

    Perfect calibration is the diagonal. The grey band shows how far from it the coverage of ``n`` independent rows may
    fall by chance: exact binomial quantiles at each nominal level. Predicted rows are only nearly independent, and the
    levels of one curve are not independent of each other, so the band is a guide at each level and not a test of the
    whole curve.

    Several estimators share an axis: pass ``ax=display.ax_`` and a ``name``.

    Parameters
    ----------
    nominal, empirical : ndarray of shape (L,)
    n : float
        Number of rows behind each empirical coverage.
    band_level : float, default=0.95
        Probability that the coverage of calibrated intervals falls within the band, level by level.
    name : str, default=None

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    diagonal_ : matplotlib Line2D
    band_ : matplotlib PolyCollection
        On a shared axis, that of the first display with the same number of rows.

    Examples
    --------
    >>> from skribbon.plotting import CoverageDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor().fit(X[:300], y[:300])
    >>> display = CoverageDisplay.from_estimator(ribbon, X[300:], y[300:], confidence_levels=[0.5, 0.9])
    >>> display.empirical.round(2)
    array([0.56, 0.91])
    >>> np.round(display.chance_band(0.9), 2)
    array([0.85, 0.94])
    """

    nominal: NDArray
    empirical: NDArray
    n: float
    _: KW_ONLY
    band_level: float = 0.95
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        confidence_levels: ArrayLike | None = None,
        kind: PromiseKind = "prediction",
        sample_weight: ArrayLike | None = None,
        band_level: float = 0.95,
        output: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Count how many rows the intervals of an estimator cover.

        Parameters
        ----------
        estimator : fitted regressor with ``predict_interval``
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the estimator was not fitted on.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        confidence_levels : array-like of shape (L,), default=None
            0.05, 0.10, ..., 0.95 if None.
        kind : {"prediction", "conformal", "jackknife+", "cv+"}, default="prediction"
            Kind of the intervals, as in ``predict_interval``.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: n is their sum.
        band_level : float, default=0.95
        output : label or int, default=None
            Which one to draw, if there are several.
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        CoverageDisplay
        """
        draw.require(estimator, "regressor", "predict_interval", cls.__name__, "ReliabilityDisplay")
        estimator, y, name = draw.one_output(estimator, y, output, name)
        if confidence_levels is not None:
            confidence_levels, _ = check_levels(confidence_levels, "confidence_levels")
        if kind == "prediction":
            curve = coverage_curve(estimator, X, y, confidence_levels=confidence_levels, sample_weight=sample_weight)
            return cls(*curve, _size(y, sample_weight), band_level=band_level, name=name).plot(ax, **kwargs)
        levels = np.arange(1, 20) / 20 if confidence_levels is None else confidence_levels
        ends = estimator.predict_interval(X, levels, kind=kind)
        kwargs |= {"sample_weight": sample_weight, "band_level": band_level, "name": name, "ax": ax}
        return cls.from_predictions(y, ends, confidence_levels=levels, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_intervals: ArrayLike,
        *,
        confidence_levels: ArrayLike,
        sample_weight: ArrayLike | None = None,
        band_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Count how many rows given intervals cover.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_intervals : array-like of shape (n_samples, 2, L)
            As ``predict_interval`` returns them for several levels.
        confidence_levels : array-like of shape (L,)
        sample_weight : array-like of shape (n_samples,), default=None
        band_level : float, default=0.95
        name : str, default=None
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        CoverageDisplay
        """
        levels, _ = check_levels(confidence_levels, "confidence_levels")
        y_true, y_intervals = column_or_1d(y_true), np.asarray(y_intervals, dtype=float)
        check_consistent_length(y_true, y_intervals)
        if y_intervals.shape[1:] != (2, len(levels)):
            raise ValueError(
                f"y_intervals must have shape (n_samples, 2, {len(levels)}), one pair of ends for each of the "
                f"confidence_levels, got {y_intervals.shape}."
            )
        pairs = np.moveaxis(y_intervals, 2, 0)
        empirical = np.array([interval_coverage_score(y_true, ends, sample_weight=sample_weight) for ends in pairs])
        size = _size(y_true, sample_weight)
        return cls(levels, empirical, size, band_level=band_level, name=name).plot(ax, **kwargs)

    def chance_band(self, nominal: ArrayLike) -> tuple[NDArray, NDArray]:
        """Range in which the coverage of n rows falls by chance if the intervals are right.

        Parameters
        ----------
        nominal : array-like
            True coverage.

        Returns
        -------
        lower, upper : ndarray
            Binomial quantiles over n, the central ``band_level``.
        """
        return draw.chance_limits(self.n, nominal, self.band_level)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        line_kw: Keywords = None,
        diagonal_kw: Keywords = None,
        band_kw: Keywords = None,
    ) -> Self:
        """Draw; if several displays share an axis, diagonal and band are drawn once.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        name : str, default=None
            Used instead of the display's own name.
        line_kw, diagonal_kw : dict, default=None
            For ``Axes.plot``.
        band_kw : dict, default=None
            For ``Axes.fill_between``.

        Returns
        -------
        self : CoverageDisplay
        """
        self.ax_, self.figure_ = draw.axes_of(ax)
        self.band_ = self._draw_band(band_kw)
        self.diagonal_ = draw.draw_diagonal(self.ax_, "skribbon-coverage-diagonal", diagonal_kw)
        look = draw.next_look(self.ax_, "skribbon-coverage-line")
        look |= {"ms": 4.5, "lw": 1.5, "clip_on": False, "label": name or self.name or "empirical"}
        self.line_ = draw.line(self.ax_, self.nominal, self.empirical, line_kw, **look)
        self.ax_.set(
            xlim=(0, 1), ylim=(0, 1.02), yticks=np.arange(6) / 5, xlabel="nominal coverage", ylabel="empirical coverage"
        )
        self.ax_.spines["left"].set_bounds(0, 1)
        draw.show_legend(self.ax_, corners=("upper left", "lower right"))
        return self

    def _draw_band(self, band_kw: Keywords) -> Any:
        gid = f"skribbon-coverage-band-{round(self.n)}-{self.band_level}"
        if drawn := draw.existing(self.ax_, gid):
            return drawn
        levels = np.linspace(0, 1, 1001)  # the quantiles are steps
        look = {"color": draw.grey(self.ax_), "alpha": 0.2, "lw": 0, "zorder": 0.5, "gid": gid}
        look["label"] = f"{draw.percent(self.band_level)} by chance, n = {round(self.n):,}"
        return draw.band(self.ax_, levels, self.chance_band(levels), band_kw, **look)


def _size(y: ArrayLike, sample_weight: ArrayLike | None) -> float:
    """Number of rows, each counted as often as its weight says."""
    return float(np.shape(y)[0] if sample_weight is None else column_or_1d(sample_weight).sum())


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
        draw.require(estimator, "classifier", "predict_proba", cls.__name__, "CoverageDisplay", cure)
        name = type(estimator).__name__ if name is None else name
        asked: Fields = {"pos_label": pos_label, "labels": estimator.classes_, "n_bins": n_bins, "strategy": strategy}
        asked |= {"sample_weight": sample_weight, "band_level": band_level, "name": name, "ax": ax}
        return cls.from_predictions(y, estimator.predict_proba(X), **asked, **kwargs)

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
        events = probability, outcome, weight, n_bins, strategy
        fields: Fields = {"pos_label": pos_label, "band_level": band_level, "name": name}
        return cls(*binned(*events), calibration_error=calibration_error(*events), **fields).plot(ax, **kwargs)

    def chance_band(self) -> tuple[NDArray, NDArray]:
        """Where the frequency of each bin lies by chance if the predicted probabilities are right.

        Returns
        -------
        lower, upper : ndarray of shape (n_filled_bins,)
            Binomial quantiles over n, the central ``band_level``.
        """
        return draw.chance_limits(self.n, self.predicted, self.band_level)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        line_kw: Keywords = None,
        bar_kw: Keywords = None,
        diagonal_kw: Keywords = None,
        count_kw: Keywords = None,
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
        self.ax_, self.figure_ = draw.axes_of(ax)
        look = draw.next_look(self.ax_, "skribbon-reliability-line")
        self.diagonal_ = draw.draw_diagonal(self.ax_, "skribbon-reliability-diagonal", diagonal_kw)
        bars = {"color": look["color"], "alpha": 0.38, "lw": 4.5, "zorder": 1.5}
        bars["gid"] = gid = f"skribbon-reliability-bars-{self.band_level}"
        bars["label"] = None if draw.existing(self.ax_, gid) else f"{draw.percent(self.band_level)} by chance"
        self.bars_ = draw.bars(self.ax_, self.predicted, self.chance_band(), bar_kw, **bars)
        label = f"{name or self.name or 'observed'}, ECE {self.calibration_error:.3f}"
        line = {**look, "ms": 5, "lw": 1.2, "clip_on": False, "label": label}
        self.line_ = draw.line(self.ax_, self.predicted, self.observed, line_kw, **line)
        outcome = ("confidence in the predicted class", "accuracy")
        if self.pos_label is not None:
            outcome = (f"predicted P({draw.named(self.pos_label)})", "observed frequency")
        self.ax_.set(xlim=(-0.01, 1.01), yticks=np.arange(6) / 5, xlabel=outcome[0], ylabel=outcome[1])
        self.ax_.spines["left"].set_bounds(0, 1)
        self._draw_counts(look, count_kw)
        draw.show_legend(self.ax_, corners=("upper left",))
        return self

    def _draw_counts(self, look: dict[str, Any], count_kw: Keywords) -> None:
        """One stem per bin in a lane of its own below zero, its scale common to all displays of the axis."""
        from matplotlib.ticker import FixedLocator, FuncFormatter
        from matplotlib.transforms import blended_transform_factory

        height, gid = 0.18, "skribbon-reliability-counts"
        below = -height - 0.1  # with room for the labels between the lane and zero, in units of probability
        self.ax_.set_ylim(below, 1.02)
        lane = draw.existing(self.ax_, gid)
        if lane is None:
            across = blended_transform_factory(self.ax_.transAxes, self.ax_.transData)
            lane = self.ax_.inset_axes((0, below, 1, height), transform=across, gid=gid)
        self.counts_ax_, colour = lane, look["color"]
        self.counts_ = draw.bars(lane, self.predicted, (0, self.n), count_kw, color=colour, lw=2.5, alpha=0.8)
        lane.plot(self.predicted, self.n, color=colour, marker=look["marker"], ms=3, ls="")
        most = max(float(np.max(line.get_ydata())) for line in lane.lines)
        lane.set(xlim=self.ax_.get_xlim(), ylim=(0, 1.15 * most), facecolor="none", xticks=[])
        lane.spines[["top", "right", "bottom", "left"]].set_visible(False)
        lane.yaxis.set_major_locator(FixedLocator([0, most]))
        lane.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        lane.tick_params(axis="y", labelsize="small")
        lane.set_ylabel("rows", fontsize="small")


def _classes(y_true: NDArray, y_proba: NDArray, labels: ArrayLike | None) -> NDArray:
    """Labels in the order of the columns of y_proba; of a single column, that of the other class first."""
    found = np.unique(y_true)
    if labels is not None:
        classes = np.asarray(labels)
        if not np.isin(found, classes).any():
            raise ValueError(f"y_true holds none of the classes {listed(classes)}; is it encoded?")
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
    which = draw.class_position(classes, pos_label, "pass labels= if y_true happens to lack it, else one of")
    return y_proba if y_proba.ndim == 1 else y_proba[:, which], y_true == classes[which], classes[which]
