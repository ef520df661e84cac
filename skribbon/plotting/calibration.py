"""Displays of calibration: coverage of intervals, reliability of class probabilities, and scores along alpha."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from .._estimators.cv import CLASSIFICATION, RibbonCV
from .._utils.checks import check_count, check_levels, listed
from .._utils.compat import check_sample_weight
from .._utils.typing import MatrixLike, PerRow, PromiseKind
from ..metrics import interval_coverage_score
from ..metrics.scores import binned, calibration_error, chance_limits, check_probabilities
from . import _drawing as draw
from ._drawing import Axes, Fields, Keywords, Panels

LABELS = {"nll": "negative\nlog likelihood", "ece": "calibration error", "brier": "Brier score", "crps": "CRPS"}
LABELS |= {"interval_score": "interval score", "width": "mean width"}


@dataclass(eq=False, repr=False)
class CoverageDisplay:
    """Nominal against empirical coverage of prediction intervals.

    The grey band shows how far from the diagonal the coverage of ``n`` independent rows may fall by chance at each
    level, also by the choice of calibration rows. It is no test of the whole curve. For several estimators on one axis,
    pass ``ax=display.ax_``.

    Parameters
    ----------
    nominal, empirical : ndarray of shape (L,)
    n : float, number of rows
    band_level : float, default=0.95
        Probability of the band at each level, if intervals are calibrated.
    n_calibration : int, default=None
        Number of calibration rows of conformal intervals.
    name : str, default=None

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_, diagonal_ : matplotlib Line2D
    band_ : matplotlib PolyCollection

    See Also
    --------
    skribbon.metrics.coverage_curve : The numbers.
    skribbon.metrics.coverage_band : The band.

    Notes
    -----
    User guide: :doc:`/user_guide/intervals`.

    Examples
    --------
    >>> from skribbon.plotting import CoverageDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor().fit(X[:300], y[:300])
    >>> display = CoverageDisplay.from_estimator(ribbon, X[300:], y[300:], confidence_levels=[0.5, 0.9])
    >>> display.empirical.round(2)
    array([0.56, 0.91])
    """

    nominal: NDArray
    empirical: NDArray
    n: float
    _: KW_ONLY
    band_level: float = 0.95
    n_calibration: int | None = None
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
        sample_weight: PerRow = None,
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
        sample_weight : array-like of shape (n_samples,), default=None
        band_level : float, default=0.95
        output : label or int of one of several outputs, default=None
        name, ax : str and matplotlib Axes, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        CoverageDisplay
        """
        draw.require(estimator, "regressor", "predict_interval", cls.__name__, "ReliabilityDisplay")
        estimator, y, name = draw.one_output(estimator, y, output, name)
        levels = np.arange(1, 20) / 20 if confidence_levels is None else confidence_levels
        levels, _ = check_levels(levels, "confidence_levels")
        intervals = estimator.predict_interval(X, levels, **({} if kind == "prediction" else {"kind": kind}))
        kwargs |= {"sample_weight": sample_weight, "band_level": band_level, "name": name, "ax": ax}
        if kind == "conformal":
            calibration = getattr(estimator, "conformal_", None) or estimator.estimator_.conformal_  # of a RibbonCV
            kwargs["n_calibration"] = round(calibration.weight.sum())
        return cls.from_predictions(y, intervals, confidence_levels=levels, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_intervals: ArrayLike,
        *,
        confidence_levels: ArrayLike,
        sample_weight: PerRow = None,
        band_level: float = 0.95,
        n_calibration: int | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Count how many rows given intervals cover.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_intervals : array-like of shape (n_samples, 2, L)
        confidence_levels : array-like of shape (L,)
        sample_weight, band_level, n_calibration, name, ax : see the class and :meth:`from_estimator`
        **kwargs : see :meth:`plot`

        Returns
        -------
        CoverageDisplay
        """
        levels, _ = check_levels(confidence_levels, "confidence_levels")
        y_true, y_intervals = column_or_1d(y_true), np.asarray(y_intervals, dtype=float)
        check_consistent_length(y_true, y_intervals)
        if y_intervals.shape[1:] != (2, len(levels)):
            raise ValueError(f"y_intervals must have shape (n_samples, 2, {len(levels)}), got {y_intervals.shape}.")
        pairs = np.moveaxis(y_intervals, 2, 0)
        shares = np.array([interval_coverage_score(y_true, ends, sample_weight=sample_weight) for ends in pairs])
        n = float(len(y_true) if sample_weight is None else column_or_1d(sample_weight).sum())
        return cls(levels, shares, n, band_level=band_level, n_calibration=n_calibration, name=name).plot(ax, **kwargs)

    def chance_band(self, nominal: ArrayLike) -> tuple[NDArray, NDArray]:
        """Central ``band_level`` of the coverage of n rows by chance if ``nominal`` is their true coverage.

        Parameters
        ----------
        nominal : array-like

        Returns
        -------
        lower, upper : ndarray
        """
        return chance_limits(self.n, nominal, self.band_level, self.n_calibration)

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
        name : str, default=None
        line_kw, diagonal_kw, band_kw : dict for ``Axes.plot`` and ``Axes.fill_between``, default=None

        Returns
        -------
        self : CoverageDisplay
        """
        self.ax_, self.figure_ = draw.axes_of(ax)
        gid = f"skribbon-coverage-band-{round(self.n)}-{self.band_level}-{self.n_calibration}"
        self.band_ = draw.existing(self.ax_, gid)
        if self.band_ is None:
            levels = np.linspace(0, 1, 1001)  # fine enough for the steps of binomial quantiles
            given = "" if self.n_calibration is None else f"\n({self.n_calibration:,} calibration rows)"
            label = f"{draw.percent(self.band_level)} by chance, n = {round(self.n):,}{given}"
            band = {"color": draw.grey(self.ax_), "alpha": 0.2, "lw": 0, "zorder": 0.5, "gid": gid, "label": label}
            self.band_ = draw.band(self.ax_, levels, self.chance_band(levels), band_kw, **band)
        self.diagonal_ = draw.draw_diagonal(self.ax_, "skribbon-coverage-diagonal", diagonal_kw)
        look = draw.next_look(self.ax_, "skribbon-coverage-line") | {"label": name or self.name or "empirical"}
        self.line_ = draw.line(self.ax_, self.nominal, self.empirical, line_kw, ms=4.5, lw=1.5, clip_on=False, **look)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="nominal coverage", ylabel="empirical coverage")
        draw.show_legend(self.ax_, corners=("upper left", "lower right"))
        return self


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    """Predicted probability against observed frequency, in bins, with sampling variability and numbers of rows.

    Perfect calibration is the diagonal. The bar of a bin shows how far from it the observed frequency may fall by
    chance, by binomial quantiles, which are exact or slightly too wide; bars are no test of the whole curve. With more
    than two classes and no ``pos_label``, confidence in the predicted class is compared with its accuracy, as in
    :func:`~skribbon.metrics.reliability_curve`. Several estimators share an axis: pass ``ax=display.ax_``.

    Parameters
    ----------
    predicted, observed, n : ndarray of shape (n_filled_bins,)
        Mean predicted probability, observed frequency and number of rows of each bin.
    calibration_error : float
        Expected calibration error, shown in the label.
    pos_label : label, default=None
        Class of the probability; None stands for the predicted class.
    band_level : float, default=0.95
    name : str, default=None

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_, diagonal_ : matplotlib Line2D
    bars_, counts_ : matplotlib LineCollection
        Range of each bin's frequency by chance, and its number of rows.
    counts_ax_ : matplotlib Axes

    See Also
    --------
    skribbon.metrics.reliability_curve : The numbers.
    ProbabilityIntervalDisplay : Intervals of probabilities.

    Notes
    -----
    User guide: :doc:`/user_guide/classification`.

    Examples
    --------
    >>> from skribbon.plotting import ReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> base = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], y[:300])
    >>> ReliabilityDisplay.from_estimator(base, X[300:], y[300:], n_bins=5).n
    array([ 64.,   6.,   5.,  15., 179.])
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
        sample_weight: PerRow = None,
        band_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Predict probabilities and count how often the events are observed.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_proba``
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the estimator was not fitted on.
        y : array-like of shape (n_samples,)
        pos_label : label, default=None
            Class of the probability. If None, the second of two classes; with more, the predicted class.
        n_bins, strategy, sample_weight : see :func:`skribbon.metrics.reliability_curve`
        band_level : float, default=0.95
        name, ax : str and matplotlib Axes, default=None
        **kwargs : see :meth:`plot`

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
        sample_weight: PerRow = None,
        band_level: float = 0.95,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Count how often events with given probabilities are observed.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_proba : array-like of shape (n_samples,) or (n_samples, K)
            Of ``pos_label``, or of every class.
        pos_label : label, default=None
        labels : array-like of shape (K,), default=None
            The classes, in the order of the columns; sorted unique values of ``y_true`` if None.
        n_bins, strategy, sample_weight, band_level, name, ax : see :meth:`from_estimator`
        **kwargs : see :meth:`plot`

        Returns
        -------
        ReliabilityDisplay
        """
        check_count(n_bins, "n_bins")
        check_levels(band_level, "band_level")
        y_true, y_proba = column_or_1d(y_true), check_array(y_proba, ensure_2d=False)
        check_consistent_length(y_true, y_proba)
        check_probabilities(y_proba)
        probability, outcome, pos_label = _one_event(y_true, y_proba, labels, pos_label)
        weight = check_sample_weight(sample_weight, probability, ensure_non_negative=True)
        events = probability, outcome, weight, n_bins, strategy
        fields: Fields = {"pos_label": pos_label, "band_level": band_level, "name": name}
        return cls(*binned(*events), calibration_error=calibration_error(*events), **fields).plot(ax, **kwargs)

    def chance_band(self) -> tuple[NDArray, NDArray]:
        """Central ``band_level`` of each bin's frequency by chance if the predicted probabilities are right.

        Returns
        -------
        lower, upper : ndarray of shape (n_filled_bins,)
        """
        return chance_limits(self.n, self.predicted, self.band_level)

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
        """Draw; if several displays share an axis, the diagonal is drawn once and the counts share theirs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        name : str, default=None
        line_kw, bar_kw, diagonal_kw, count_kw : dict for ``Axes.plot`` and ``Axes.vlines``, default=None

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
        self.ax_.set(xlim=(-0.01, 1.01), xlabel="confidence in the predicted class", ylabel="accuracy")
        if self.pos_label is not None:
            self.ax_.set(xlabel=f"predicted P({draw.named(self.pos_label)})", ylabel="observed frequency")
        self._draw_counts(look, count_kw)
        draw.show_legend(self.ax_, corners=("upper left",))
        return self

    def _draw_counts(self, look: dict[str, Any], count_kw: Keywords) -> None:
        """Draw a stem per bin in a lane below zero, with one scale for all displays of the axis."""
        height, gid = 0.18, "skribbon-reliability-counts"
        below = -height - 0.1  # with room for the labels between the lane and zero, in units of probability
        self.ax_.set_ylim(below, 1.02)
        place: Fields = {"bounds": (0, below, 1, height), "transform": self.ax_.get_yaxis_transform(), "gid": gid}
        self.counts_ax_ = lane = draw.existing(self.ax_, gid) or self.ax_.inset_axes(**place)
        self.counts_ = draw.bars(lane, self.predicted, (0, self.n), count_kw, color=look["color"], lw=2.5, alpha=0.8)
        lane.plot(self.predicted, self.n, color=look["color"], marker=look["marker"], ms=3, ls="")
        most = max(float(np.max(line.get_ydata())) for line in lane.lines)
        lane.set(xlim=self.ax_.get_xlim(), ylim=(0, 1.15 * most), facecolor="none", xticks=[])
        lane.spines[["top", "right", "bottom", "left"]].set_visible(False)
        lane.set_yticks([0, most], ["0", f"{most:,.0f}"], fontsize="small")
        lane.set_ylabel("rows", fontsize="small")


def _one_event(y_true: NDArray, y_proba: NDArray, labels: ArrayLike | None, pos_label: Any) -> tuple:
    """Probability of one event per row, whether it was observed, and its class, or None for the predicted class."""
    found = np.unique(y_true)
    classes = found if labels is None else np.asarray(labels)  # in the order of the columns of y_proba
    if labels is None and y_proba.ndim == 1 and set(found.tolist()) <= {0, 1}:
        classes = np.array([0, 1])
    if not np.isin(found, classes).any():
        raise ValueError(f"y_true has none of the classes {listed(classes)}; pass the labels of the fit.")
    if y_proba.ndim == 2 and y_proba.shape[1] != len(classes):
        raise ValueError(f"y_proba has {y_proba.shape[1]} columns for {len(classes)} classes; name them with labels=.")
    if y_proba.ndim == 2 and y_proba.shape[1] > 2 and pos_label is None:
        return y_proba.max(axis=1), classes[y_proba.argmax(axis=1)] == y_true, None
    which = draw.class_position(classes, pos_label, "pass labels= if y_true happens to lack it, else one of")
    return y_proba if y_proba.ndim == 1 else y_proba[:, which], y_true == classes[which], classes[which]


@dataclass(eq=False, repr=False)
class AlphaPathDisplay:
    """Held-out scores along alpha, one panel per score, with the choice marked in each.

    For a classifier, every alpha is drawn at its own best temperature.

    Parameters
    ----------
    cv_results : dict of ndarray
        ``alpha``, ``mean_test_*`` and ``std_test_*``.
    alpha : float, the choice
    metrics : sequence of str
    confidence_level : float, default=None
        The target coverage.
    name : str, default=None

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes, one per metric
    figure_ : matplotlib Figure
    lines_, choices_, bands_ : lists of matplotlib Line2D, Line2D, and PolyCollection or None
        The mean over folds, the choice, and one standard deviation over folds, None for a single fold.

    See Also
    --------
    skribbon.RibbonCV : Scores along alpha.

    Notes
    -----
    User guide: :doc:`/user_guide/alpha`.

    Examples
    --------
    >>> from skribbon.plotting import AlphaPathDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tuned = RibbonCV(Ridge(alpha=0.1), scoring="nll").fit(X, y)
    >>> AlphaPathDisplay.from_estimator(tuned).metrics
    ('nll', 'coverage', 'width')
    """

    cv_results: Mapping[str, NDArray]
    alpha: float
    _: KW_ONLY
    metrics: Sequence[str]
    confidence_level: float | None = None
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: RibbonCV,
        *,
        metrics: str | Sequence[str] | None = None,
        name: str | None = None,
        ax: Panels = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the path of a fitted RibbonCV.

        Parameters
        ----------
        estimator : fitted RibbonCV
        metrics : str or sequence of str, default=None
            Metrics in ``cv_results_``. If None, the score that alpha was chosen by, with coverage, NLL and mean width
            of a regressor, or NLL, Brier score and calibration error of a classifier.
        name : str, default=None
        ax : matplotlib Axes or sequence of them, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        AlphaPathDisplay
        """
        if not isinstance(estimator, RibbonCV):
            raise TypeError(f"AlphaPathDisplay needs a fitted RibbonCV, got {type(estimator).__name__}.")
        check_is_fitted(estimator)
        level = None if is_classifier(estimator) else estimator.confidence_level
        fields: Fields = {"metrics": _chosen_metrics(estimator, metrics), "confidence_level": level, "name": name}
        return cls(estimator.cv_results_, estimator.alpha_, **fields).plot(ax, **kwargs)

    def plot(
        self, ax: Panels = None, *, line_kw: Keywords = None, choice_kw: Keywords = None, band_kw: Keywords = None
    ) -> Self:
        """Draw one panel per metric.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, one per metric, default=None
        line_kw, choice_kw, band_kw : dict for ``Axes.plot`` and ``Axes.fill_between``, default=None

        Returns
        -------
        self : AlphaPathDisplay
        """
        n = len(self.metrics)
        if ax is None:
            import matplotlib.pyplot as plt

            size = (6.4, 4.8) if n == 1 else (6.4, 2.0 * n + 0.4)
            _, ax = plt.subplots(n, 1, figsize=size, sharex=True, layout="constrained")
        self.ax_ = draw.panels_of(ax, n, "metric")
        self.figure_ = self.ax_[0].figure
        pairs = zip(self.ax_, self.metrics, strict=True)
        drawn = [self._draw_metric(panel, metric, line_kw, band_kw, choice_kw) for panel, metric in pairs]
        self.lines_, self.bands_, self.choices_ = map(list, zip(*drawn, strict=True))
        legends = (zip(*panel.get_legend_handles_labels(), strict=True) for panel in self.ax_)
        entries: Fields = {label: handle for legend in legends for handle, label in legend}
        draw.show_legend(self.ax_[-1], corners=("upper right", "lower left"), handles=entries.values(), labels=entries)
        if self.metrics[-1] == "coverage":  # the legend may have pushed the axis beyond what a share can be
            ticks, ends = self.ax_[-1].get_yticks(), self.ax_[-1].get_ylim()
            self.ax_[-1].set_yticks(ticks[(ends[0] <= ticks) & (ticks <= 1)])
        self.figure_.align_ylabels(self.ax_)
        self.ax_[0].set_title(self.name or "", loc="left", fontsize="medium")
        return self

    def _draw_metric(self, panel, metric, line_kw, band_kw, choice_kw):
        """Draw one panel, and return the artists of its mean, band and choice."""
        alpha, mean, spread = (self.cv_results[key] for key in ("alpha", f"mean_test_{metric}", f"std_test_{metric}"))
        look = {"color": draw.tint(panel, draw.BLUE, 0.15), "lw": 0, "label": "± 1 std over folds"}
        folded = len([key for key in self.cv_results if key.endswith(f"_test_{metric}")]) > 3  # mean, std and one fold
        ends = mean - spread, np.minimum(mean + spread, 1 if metric == "coverage" else np.inf)
        band = draw.band(panel, alpha, ends, band_kw, **look) if folded else None
        if metric == "coverage" and self.confidence_level is not None:
            label = f"level {draw.percent(self.confidence_level)}"
            panel.axhline(self.confidence_level, color=draw.grey(panel), lw=1, ls=":", label=label)
        label = "mean over folds" if folded else "held-out rows"
        line = draw.line(panel, alpha, mean, line_kw, color=draw.bright(panel, draw.BLUE), lw=2, label=label)
        colour = draw.bright(panel, draw.VERMILION)
        panel.axvline(self.alpha, color=colour, lw=1.2, ls="--")
        written = f"{self.alpha:,.0f}" if self.alpha >= 1000 else f"{self.alpha:.3g}"
        look = {"color": colour, "marker": "D", "ms": 6, "ls": "--", "lw": 1.2, "zorder": 3}
        value = np.interp(np.log(self.alpha), np.log(alpha), mean)  # the choice may lie between candidates
        choice = draw.line(panel, [self.alpha], [value], choice_kw, label=f"chosen: alpha = {written}", **look)
        panel.set(xscale="log", ylabel=LABELS.get(metric, metric.replace("_", " ")))
        if panel.xaxis.get_tick_params().get("labelbottom", True):  # unless a panel below shares the axis
            panel.set_xlabel("alpha")
        return line, band, choice


def _chosen_metrics(estimator: RibbonCV, metrics: str | Sequence[str] | None) -> tuple[str, ...]:
    """Metrics to draw, by default the task's and the one that alpha was chosen by."""
    known = [key.removeprefix("mean_test_") for key in estimator.cv_results_ if key.startswith("mean_test_")]
    if metrics is None:
        usual = CLASSIFICATION if is_classifier(estimator) else ("coverage", "nll", "width")
        first = [name for name in known if name in ("score", estimator.scoring)]  # "score" is a scorer of scikit-learn
        return tuple(dict.fromkeys((*first, *usual)))
    metrics = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not metrics or not set(metrics) <= set(known):
        raise ValueError(f"metrics must be among {', '.join(known)}, which RibbonCV has scored; got {metrics!r}.")
    return metrics
