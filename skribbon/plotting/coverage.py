"""Whether a 90 % interval covers 90 %, at every level."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.checks import check_levels
from .._utils.typing import MatrixLike, PromiseKind
from ..metrics import coverage_curve, interval_coverage_score
from ._drawing import (
    axes_of,
    chance_limits,
    draw_diagonal,
    existing,
    grey,
    keywords,
    next_look,
    one_output,
    percent,
    require,
    show_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, DIAGONAL, BAND = "skribbon-coverage-line", "skribbon-coverage-diagonal", "skribbon-coverage-band"


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
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
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
        require(estimator, "regressor", "predict_interval", cls.__name__, "ReliabilityDisplay")
        estimator, y, name = one_output(estimator, y, output, name)
        if confidence_levels is not None:
            confidence_levels, _ = check_levels(confidence_levels, "confidence_levels")
        name = type(estimator).__name__ if name is None else name
        if kind != "prediction":
            levels = np.arange(1, 20) / 20 if confidence_levels is None else confidence_levels
            return cls.from_predictions(
                y,
                estimator.predict_interval(X, levels, kind=kind),
                confidence_levels=levels,
                sample_weight=sample_weight,
                band_level=band_level,
                name=name,
                ax=ax,
                **kwargs,
            )
        curve = coverage_curve(estimator, X, y, confidence_levels=confidence_levels, sample_weight=sample_weight)
        return cls(*curve, _size(y, sample_weight), band_level=band_level, name=name).plot(ax, **kwargs)

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
        display = cls(levels, empirical, _size(y_true, sample_weight), band_level=band_level, name=name)
        return display.plot(ax, **kwargs)

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
        return chance_limits(self.n, nominal, self.band_level)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        line_kw: dict[str, Any] | None = None,
        diagonal_kw: dict[str, Any] | None = None,
        band_kw: dict[str, Any] | None = None,
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
        self.ax_, self.figure_ = axes_of(ax)
        self.band_ = existing(self.ax_, self._band_id) or self._draw_band(band_kw)
        self.diagonal_ = draw_diagonal(self.ax_, DIAGONAL, diagonal_kw)
        style = {**next_look(self.ax_, LINE), "ms": 4.5, "lw": 1.5, "clip_on": False}
        style["label"] = name or self.name or "empirical"
        (self.line_,) = self.ax_.plot(self.nominal, self.empirical, **keywords(style, line_kw))
        self.ax_.set(
            xlim=(0, 1), ylim=(0, 1.02), yticks=np.arange(6) / 5, xlabel="nominal coverage", ylabel="empirical coverage"
        )
        self.ax_.spines["left"].set_bounds(0, 1)
        show_legend(self.ax_, corners=("upper left", "lower right"))
        return self

    @property
    def _band_id(self) -> str:
        return f"{BAND}-{round(self.n)}-{self.band_level}"

    def _draw_band(self, band_kw: dict[str, Any] | None) -> Any:
        levels = np.linspace(0, 1, 1001)  # the quantiles are steps
        style = {"color": grey(self.ax_), "alpha": 0.2, "lw": 0, "zorder": 0.5, "gid": self._band_id}
        style["label"] = f"{percent(self.band_level)} by chance, n = {round(self.n):,}"
        style = keywords(style, band_kw, "collections.PolyCollection")
        return self.ax_.fill_between(levels, *self.chance_band(levels), **style)


def _size(y: ArrayLike, sample_weight: ArrayLike | None) -> float:
    """Number of rows, each counted as often as its weight says."""
    return float(np.shape(y)[0] if sample_weight is None else column_or_1d(sample_weight).sum())
