"""The path of alphas that RibbonCV has scored, and its choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from .._estimators.cv import CLASSIFICATION, RibbonCV
from . import _drawing as draw
from ._drawing import Fields, Keywords

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"nll": "negative\nlog likelihood", "ece": "calibration error", "brier": "Brier score", "crps": "CRPS"}
LABELS |= {"interval_score": "interval score", "width": "mean width"}


@dataclass(eq=False, repr=False)
class AlphaPathDisplay:
    """Held-out scores along alpha, one panel per score, with the choice marked in each.

    If a RibbonCV tried several dampings, the chosen one is drawn in colour and the others in thin grey; for a
    classifier, the path at the chosen temperature is drawn.

    There is no ``from_predictions``; pass your own numbers to the constructor.

    Parameters
    ----------
    cv_results : dict of ndarray
        ``alpha``, ``damping`` if there were several, ``mean_test_*`` and ``std_test_*``.
    alpha : float
        The chosen alpha.
    metrics : sequence of str
    damping : float, default=None
        The chosen damping, if there were several.
    confidence_level : float, default=None
        Target coverage.
    name : str, default=None

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes, one per metric
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        The mean over folds, one per metric.
    bands_ : list of matplotlib PolyCollection or None
        Plus and minus one standard deviation over folds; None if there is a single fold.
    choices_ : list of matplotlib Line2D
        The choice, one per metric.

    Examples
    --------
    >>> from skribbon.plotting import AlphaPathDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tuned = RibbonCV(Ridge(alpha=0.1), scoring="nll").fit(X, y)
    >>> display = AlphaPathDisplay.from_estimator(tuned)
    >>> display.metrics
    ('nll', 'coverage', 'width')
    """

    cv_results: Mapping[str, NDArray]
    alpha: float
    _: KW_ONLY
    metrics: Sequence[str]
    damping: float | None = None
    confidence_level: float | None = None
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: RibbonCV,
        *,
        metrics: str | Sequence[str] | None = None,
        name: str | None = None,
        ax: Axes | Sequence[Axes] | NDArray | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the path of a fitted RibbonCV.

        Parameters
        ----------
        estimator : fitted RibbonCV
        metrics : str or sequence of str, default=None
            Any metrics in ``cv_results_``. If None, the score that alpha was chosen by, and coverage, NLL and mean
            width for regressors, or NLL, Brier score and calibration error for classifiers.
        name : str, default=None
            A title.
        ax : matplotlib Axes or sequence of them, default=None
            One per metric.
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        AlphaPathDisplay
        """
        if not isinstance(estimator, RibbonCV):
            raise TypeError(
                f"AlphaPathDisplay needs a fitted RibbonCV, which tries many alphas, got {type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        results, level = _at_choice(estimator), None if is_classifier(estimator) else estimator.confidence_level
        damping, metrics = _chosen_damping(estimator), _chosen_metrics(estimator, metrics)
        fields: Fields = {"metrics": metrics, "damping": damping, "confidence_level": level, "name": name}
        return cls(results, estimator.alpha_, **fields).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | NDArray | None = None,
        *,
        line_kw: Keywords = None,
        choice_kw: Keywords = None,
        band_kw: Keywords = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, default=None
            One per metric; a new figure if None.
        line_kw, choice_kw : dict, default=None
            For ``Axes.plot``: the mean over folds, and the mark of the choice.
        band_kw : dict, default=None
            For ``Axes.fill_between``: one standard deviation over folds.

        Returns
        -------
        self : AlphaPathDisplay
        """
        self.ax_ = self._axes(ax)
        self.figure_ = self.ax_[0].figure
        self.lines_: list = []
        self.bands_: list = []
        self.choices_: list = []
        for panel, metric in zip(self.ax_, self.metrics, strict=True):
            self._draw_metric(panel, metric, line_kw, band_kw, choice_kw)
        labelled = [panel.get_legend_handles_labels() for panel in self.ax_]
        entries = {label: handle for handles, labels in labelled for handle, label in zip(handles, labels, strict=True)}
        shown: Fields = {"handles": entries.values(), "labels": entries.keys()}
        draw.show_legend(self.ax_[-1], corners=("upper right", "lower left"), **shown)
        if self.metrics[-1] == "coverage":  # the legend may have pushed the axis beyond what a share can be
            ticks, ends = self.ax_[-1].get_yticks(), self.ax_[-1].get_ylim()
            self.ax_[-1].set_yticks(ticks[(ends[0] <= ticks) & (ticks <= 1)])
        self.figure_.align_ylabels(self.ax_)
        if self.name is not None:
            self.ax_[0].set_title(self.name, loc="left", fontsize="medium")
        return self

    def _axes(self, ax: Any) -> NDArray:
        if ax is None:
            import matplotlib.pyplot as plt

            n = len(self.metrics)
            size = (6.4, 4.8) if n == 1 else (6.4, 2.0 * n + 0.4)
            _, ax = plt.subplots(n, 1, figsize=size, sharex=True, layout="constrained")
        panels = np.ravel(np.asarray(ax, dtype=object))
        if len(panels) != len(self.metrics):
            raise ValueError(
                f"ax must hold one axis for each of the {len(self.metrics)} metrics, got {len(panels)}; pass "
                "plt.subplots(n)[1], or fewer metrics."
            )
        for panel in panels:
            draw.axes_of(panel)
            if panel.xaxis.get_tick_params().get("labelbottom", True):  # not where a panel below shares the axis
                panel.set_xlabel("alpha")
        return panels

    def _draw_metric(self, panel: Axes, metric: str, line_kw: Keywords, band_kw: Keywords, choice_kw: Keywords) -> None:
        chosen = self._rows(self.damping)
        alpha, mean = self.cv_results["alpha"][chosen], self.cv_results[f"mean_test_{metric}"][chosen]
        spread = self.cv_results[f"std_test_{metric}"][chosen]
        look = {"color": draw.tint(panel, draw.BLUE, 0.15), "lw": 0, "label": "± 1 std over folds"}
        folded = len([key for key in self.cv_results if key.endswith(f"_test_{metric}")]) > 3  # mean, std and one fold
        ends = mean - spread, np.minimum(mean + spread, 1 if metric == "coverage" else np.inf)
        self.bands_.append(draw.band(panel, alpha, ends, band_kw, **look) if folded else None)
        self._draw_other_dampings(panel, metric)
        if metric == "coverage" and self.confidence_level is not None:
            label = f"level {draw.percent(self.confidence_level)}"
            panel.axhline(self.confidence_level, color=draw.grey(panel), lw=1, ls=":", label=label)
        label = "mean over folds" if folded else "held-out rows"
        if self.damping is not None:
            label += ", damping left to the Ribbon" if np.isnan(self.damping) else f", damping {self.damping:.3g}"
        look = {"color": draw.bright(panel, draw.BLUE), "lw": 2, "label": label}
        self.lines_.append(draw.line(panel, alpha, mean, line_kw, **look))
        self._mark_choice(panel, alpha, mean, choice_kw)
        panel.set(xscale="log", ylabel=LABELS.get(metric, metric.replace("_", " ")))

    def _rows(self, damping: float | None) -> Any:
        if damping is None:
            return slice(None)
        return np.isclose(self.cv_results["damping"], damping, rtol=1e-9, atol=0, equal_nan=True)

    def _draw_other_dampings(self, panel: Axes, metric: str) -> None:
        if self.damping is None:
            return
        for damping in np.unique(self.cv_results["damping"][~self._rows(self.damping)]):
            rows = self._rows(damping)
            values = self.cv_results["alpha"][rows], self.cv_results[f"mean_test_{metric}"][rows]
            panel.plot(*values, color=draw.grey(panel, 0.4), lw=0.9, label="other dampings")

    def _mark_choice(self, panel: Axes, alpha: NDArray, mean: NDArray, choice_kw: Keywords) -> None:
        """A dashed line and a diamond on the curve; coverage is refined between candidates, so the value is too."""
        value = np.interp(np.log(self.alpha), np.log(alpha), mean)
        colour = draw.bright(panel, draw.VERMILION)
        panel.axvline(self.alpha, color=colour, lw=1.2, ls="--")
        written = f"{self.alpha:,.0f}" if self.alpha >= 1000 else f"{self.alpha:.3g}"
        look = {"color": colour, "marker": "D", "ms": 6, "ls": "--", "lw": 1.2, "zorder": 3}
        look["label"] = f"chosen: alpha = {written}"
        self.choices_.append(draw.line(panel, [self.alpha], [value], choice_kw, **look))


def _chosen_metrics(estimator: RibbonCV, metrics: str | Sequence[str] | None) -> tuple[str, ...]:
    known = [key.removeprefix("mean_test_") for key in estimator.cv_results_ if key.startswith("mean_test_")]
    if metrics is None:
        usual = CLASSIFICATION if is_classifier(estimator) else ("coverage", "nll", "width")
        scoring = usual[0] if estimator.scoring is None else estimator.scoring
        first = "score" if "score" in known else str(scoring)  # "score" is a scorer of scikit-learn or the user's own
        return tuple(dict.fromkeys((first, *usual)))
    metrics = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not metrics or not set(metrics) <= set(known):
        raise ValueError(f"metrics must be among {', '.join(known)}, which RibbonCV has scored; got {metrics!r}.")
    return metrics


def _at_choice(estimator: RibbonCV) -> Mapping[str, NDArray]:
    """The rows of ``cv_results_`` at the chosen temperature, if there are several."""
    results = estimator.cv_results_
    if "temperature" not in results:
        return results
    rows = results["temperature"] == estimator.temperature_
    return {name: values[rows] for name, values in results.items()}


def _chosen_damping(estimator: RibbonCV) -> float | None:
    """Chosen damping: None if only one was tried, not a number if it was left to the Ribbon."""
    if "damping" not in estimator.cv_results_:
        return None
    ribbon = estimator.estimator_
    damping = ribbon.damping if isinstance(ribbon.curvature, str) else ribbon.curvature.damping
    return np.nan if isinstance(damping, str) else damping
