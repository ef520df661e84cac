"""Display of epistemic and aleatoric uncertainty."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from .._utils.typing import MatrixLike
from . import _drawing as draw
from ._drawing import Axes, Keywords


@dataclass(eq=False, repr=False)
class UncertaintyDecompositionDisplay:
    """Epistemic and aleatoric standard deviation along a feature, or along rows ranked by their total.

    Rows are grouped along the horizontal axis, and each group shows its root mean square, so that
    total^2 = epistemic^2 + aleatoric^2 holds on the lines as it does for every row. Up to 300 rows are drawn as points.

    Parameters
    ----------
    epistemic, aleatoric : ndarray of shape (n_samples,)
    x : ndarray of shape (n_samples,), default=None
        Feature values, numbers or text; None ranks the rows by their total.
    x_name : str, default="x"
    n_groups : int, default=30
    name : str, default=None

    Attributes
    ----------
    total : ndarray of shape (n_samples,)
    curves : dict of ndarray
        Values of the lines: "x", "epistemic", "aleatoric", "total", one value per group. For ranked rows, "x" is the
        share of rows with a smaller total.
    ax_, figure_ : matplotlib Axes and Figure
    lines_, points_ : dict of matplotlib Line2D, by part; no points of too many rows

    See Also
    --------
    skribbon.RibbonRegressor.predict_std : The numbers.

    Notes
    -----
    User guide: :doc:`/user_guide/intervals`.

    Examples
    --------
    >>> from skribbon.plotting import UncertaintyDecompositionDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor(noise="heteroskedastic").fit(X, y)
    >>> sorted(UncertaintyDecompositionDisplay.from_estimator(ribbon, X, feature="bmi").lines_)
    ['aleatoric', 'epistemic', 'total']
    """

    epistemic: NDArray
    aleatoric: NDArray
    _: KW_ONLY
    x: NDArray | None = None
    x_name: str = "x"
    n_groups: int = 30
    name: str | None = None

    def __post_init__(self) -> None:
        self.total = np.hypot(self.epistemic, self.aleatoric)
        self._is_text = self.x is not None and self.x.dtype.kind not in "biuf"
        self.curves = self._grouped()

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        *,
        feature: str | int | None = None,
        n_groups: int = 30,
        output: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Predict both parts for X and draw them.

        Parameters
        ----------
        estimator : fitted regressor with ``predict_std``
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        feature : str or int, default=None
            Name or position of the column along which to draw; None ranks the rows by their total.
        n_groups : int, default=30
        output : label or int of one of several outputs, default=None
        name, ax : str and matplotlib Axes, default=None
        **kwargs : see :meth:`plot`

        Returns
        -------
        UncertaintyDecompositionDisplay
        """
        draw.require(estimator, "regressor", "predict_std", cls.__name__, "ProbabilityIntervalDisplay")
        estimator, _, name = draw.one_output(estimator, None, output, name)
        x, x_name = (None, "x") if feature is None else draw.column(X, feature)
        parts = [estimator.predict_std(X, kind=kind) for kind in ("epistemic", "aleatoric")]
        return cls(*parts, x=x, x_name=x_name, n_groups=n_groups, name=name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        epistemic: ArrayLike,
        aleatoric: ArrayLike,
        *,
        x: ArrayLike | None = None,
        x_name: str = "x",
        n_groups: int = 30,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw standard deviations that have already been predicted.

        Parameters
        ----------
        epistemic, aleatoric : array-like of shape (n_samples,)
        x : array-like of shape (n_samples,), default=None
        x_name, n_groups, name, ax : see the class and :meth:`from_estimator`
        **kwargs : see :meth:`plot`

        Returns
        -------
        UncertaintyDecompositionDisplay
        """
        parts = [column_or_1d(part) for part in (epistemic, aleatoric)]
        check_consistent_length(*parts, x)
        x = None if x is None else column_or_1d(x)
        return cls(*parts, x=x, x_name=x_name, n_groups=n_groups, name=name).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, line_kw: Keywords = None, point_kw: Keywords = None) -> Self:
        """Draw the lines of all parts, and the points of few rows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        line_kw, point_kw : dict for ``Axes.plot``, default=None

        Returns
        -------
        self : UncertaintyDecompositionDisplay
        """
        self.ax_, self.figure_ = draw.axes_of(ax)
        self.lines_, self.points_ = {}, {}
        styles = {
            "total": (draw.grey(self.ax_), ":", "s", -1),
            "aleatoric": (draw.bright(self.ax_, draw.VERMILION), "--", "^", 0),
            "epistemic": (draw.bright(self.ax_, draw.BLUE), "-", "o", 1),
        }
        marked = self._is_text or len(self.curves["x"]) <= draw.MOST_MARKED
        for part, (colour, dashes, marker, side) in styles.items():
            aside = 0.18 * side if self._is_text else 0.0  # nearly equal parts would hide each other
            if len(self.total) <= 300 and part != "total":  # more points would hide the lines of their groups
                look = {"color": colour, "marker": marker, "ms": 3.5, "mew": 0, "ls": "", "alpha": 0.45}
                x, y = self._positions() + aside, getattr(self, part)
                self.points_[part] = draw.line(self.ax_, x, y, point_kw, **look)
            look = {"color": colour, "ls": "" if self._is_text else dashes, "lw": 2, "label": part}
            look |= {"marker": marker if marked else "", "ms": 7}
            x = np.arange(len(self.curves["x"])) + aside if self._is_text else self.curves["x"]
            self.lines_[part] = draw.line(self.ax_, x, self.curves[part], line_kw, **look)
        xlabel = "rows, ranked by total" if self.x is None else draw.literal(str(self.x_name))
        self.ax_.set(ylabel="standard deviation", ylim=(0, None), xlabel=xlabel)
        if self.x is None:
            self.ax_.xaxis.set_major_formatter("{x:.0%}")
        if self._is_text:
            draw.name_categories(self.ax_, self.curves["x"].tolist())
        draw.show_title(self.ax_, self.name, draw.counted(len(self.total), "row"))
        draw.show_legend(self.ax_, columns=3)
        return self

    def _positions(self) -> NDArray:
        """Positions of the rows on the horizontal axis, (n_samples,)."""
        if self.x is None:
            return (np.argsort(np.argsort(self.total, kind="stable")) + 0.5) / len(self.total)
        return np.unique(self.x, return_inverse=True)[1] if self._is_text else self.x

    def _grouped(self) -> dict[str, NDArray]:
        """Root mean squares of groups of rows, by part."""
        position = self._positions()
        known = np.flatnonzero(np.isfinite(position))
        if self.x is not None and self._is_text:
            names = np.unique(self.x)
            if len(names) > 20:  # more names do not fit below the axis
                raise ValueError(f"{self.x_name} has {len(names)} categories, too many to draw (at most 20).")
            groups = draw.groups_by(position, len(names))
        else:
            n_groups = min(self.n_groups, max(draw.MOST_MARKED, len(known) // 5))  # a line through single rows is noise
            groups = [known[rows] for rows in draw.groups_by(position[known], n_groups)]
            names = np.array([position[rows].mean() for rows in groups])
        parts = {"epistemic": self.epistemic, "aleatoric": self.aleatoric, "total": self.total}
        rms = {part: np.sqrt([np.mean(std[rows] ** 2) for rows in groups]) for part, std in parts.items()}
        return {"x": names} | rms
