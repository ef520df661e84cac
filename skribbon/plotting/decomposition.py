"""How much of the uncertainty is the model's, and how much is noise."""

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from ._drawing import (
    BLUE,
    GREY,
    VERMILION,
    axes_of,
    column,
    groups_by,
    keywords,
    require,
    show_legend,
    show_title,
)

MOST_POINTS = 300  # of each part; more rows are only drawn as the lines of their groups
N_GROUPS = 30
MOST_CATEGORIES = 20
FEW_GROUPS = 10  # their values are marked on the lines


class UncertaintyDecompositionDisplay:
    """Epistemic and aleatoric standard deviation along a feature, or along rows ranked by their total.

    Rows are grouped along the horizontal axis, and each group shows its root mean square, so that
    total^2 = epistemic^2 + aleatoric^2 holds on the lines as it does for every row. Up to 300 rows are drawn as points.

    Parameters
    ----------
    epistemic, aleatoric : ndarray of shape (n_samples,)
        Standard deviations.
    x : ndarray of shape (n_samples,), default=None
        Feature values, numbers or text; None ranks the rows by their total.
    x_name : str, default="x"
    n_groups : int, default=30
    name : str, default=None

    Attributes
    ----------
    total : ndarray of shape (n_samples,)
    curves : dict of ndarray
        What the lines show: "x", "epistemic", "aleatoric", "total", one value per group. Of ranked rows, "x" is the
        share of rows with a smaller total.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of matplotlib Line2D
        By part.
    points_ : dict of matplotlib Line2D
        By part; empty where there are too many rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.plotting import UncertaintyDecompositionDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor(noise="heteroskedastic").fit(X, y)
    >>> display = UncertaintyDecompositionDisplay.from_estimator(ribbon, X, feature="bmi")
    >>> sorted(display.lines_)
    ['aleatoric', 'epistemic', 'total']
    """

    def __init__(self, epistemic, aleatoric, *, x=None, x_name="x", n_groups=N_GROUPS, name=None):
        self.epistemic = epistemic
        self.aleatoric = aleatoric
        self.x = x
        self.x_name = x_name
        self.n_groups = n_groups
        self.name = name
        self.total = np.hypot(epistemic, aleatoric)
        self.curves = self._grouped()

    @classmethod
    def from_estimator(cls, estimator, X, *, feature=None, n_groups=N_GROUPS, name=None, ax=None, **kwargs):
        """Predict both parts for X and draw them.

        Parameters
        ----------
        estimator : fitted regressor with ``predict_std``
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        feature : str or int, default=None
            Name or position of the column along which to draw; None ranks the rows by their total.
        n_groups : int, default=30
        name : str, default=None
            The estimator's class if None.
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        UncertaintyDecompositionDisplay
        """
        require(estimator, "regressor", "predict_std", cls.__name__, "ProbabilityIntervalDisplay")
        x, x_name = (None, "x") if feature is None else column(X, feature)
        parts = [estimator.predict_std(X, kind=kind) for kind in ("epistemic", "aleatoric")]
        name = type(estimator).__name__ if name is None else name
        return cls(*parts, x=x, x_name=x_name, n_groups=n_groups, name=name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, epistemic, aleatoric, *, x=None, x_name="x", n_groups=N_GROUPS, name=None, ax=None, **kwargs
    ):
        """Draw standard deviations that were predicted already.

        Parameters
        ----------
        epistemic, aleatoric : array-like of shape (n_samples,)
        x : array-like of shape (n_samples,), default=None
        x_name : str, default="x"
        n_groups : int, default=30
        name : str, default=None
        ax : matplotlib Axes, default=None
        **kwargs
            For :meth:`plot`.

        Returns
        -------
        UncertaintyDecompositionDisplay
        """
        parts = [column_or_1d(part) for part in (epistemic, aleatoric)]
        check_consistent_length(*parts, x)
        x = None if x is None else column_or_1d(x)
        return cls(*parts, x=x, x_name=x_name, n_groups=n_groups, name=name).plot(ax, **kwargs)

    def plot(self, ax=None, *, line_kw=None, point_kw=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        line_kw, point_kw : dict, default=None
            For ``Axes.plot``, of all three parts.

        Returns
        -------
        self : UncertaintyDecompositionDisplay
        """
        self.ax_, self.figure_ = axes_of(ax)
        self.lines_, self.points_ = {}, {}
        styles = {"total": (GREY, ":", "s"), "aleatoric": (VERMILION, "--", "^"), "epistemic": (BLUE, "-", "o")}
        by_category = self._is_text
        for part, (colour, dashes, marker) in styles.items():
            if len(self.total) <= MOST_POINTS and part != "total":
                points = {"color": colour, "marker": marker, "ms": 3.5, "mew": 0, "ls": "", "alpha": 0.35}
                (self.points_[part],) = self.ax_.plot(
                    self._positions(), getattr(self, part), **keywords(points, point_kw)
                )
            line = {"color": colour, "ls": "" if by_category else dashes, "lw": 2, "label": part}
            line |= {"marker": marker if len(self.curves["x"]) <= FEW_GROUPS or by_category else "", "ms": 7}
            x = np.arange(len(self.curves["x"])) if by_category else self.curves["x"]
            (self.lines_[part],) = self.ax_.plot(x, self.curves[part], **keywords(line, line_kw))
        self._describe()
        return self

    @property
    def _is_text(self):
        return self.x is not None and self.x.dtype.kind not in "biuf"

    def _positions(self):
        """Of each row on the horizontal axis."""
        if self.x is None:
            return (np.argsort(np.argsort(self.total, kind="stable")) + 0.5) / len(self.total)
        return np.unique(self.x, return_inverse=True)[1] if self._is_text else self.x

    def _grouped(self):
        """Root mean squares of groups of rows."""
        if self._is_text:
            names, codes = np.unique(self.x, return_inverse=True)
            if len(names) > MOST_CATEGORIES:
                raise ValueError(
                    f"{self.x_name} has {len(names)} categories, too many to draw; choose another feature, or merge "
                    f"them to at most {MOST_CATEGORIES}."
                )
            groups = [np.flatnonzero(codes == code) for code in range(len(names))]
        else:
            position = self._positions()
            known = np.flatnonzero(np.isfinite(position))
            groups = [known[rows] for rows in groups_by(position[known], self.n_groups)]
            names = np.array([position[rows].mean() for rows in groups])
        parts = {"epistemic": self.epistemic, "aleatoric": self.aleatoric, "total": self.total}
        squares = {part: [np.mean(values[rows] ** 2) for rows in groups] for part, values in parts.items()}
        return {"x": names, **{part: np.sqrt(values) for part, values in squares.items()}}

    def _describe(self):
        self.ax_.set(ylabel="standard deviation", ylim=(0, None))
        if self.x is None:
            from matplotlib.ticker import PercentFormatter

            self.ax_.set_xlabel("rows, ranked by total")
            self.ax_.xaxis.set_major_formatter(PercentFormatter(1.0))
        else:
            self.ax_.set_xlabel(self.x_name)
        if self._is_text:
            crowded = len(self.curves["x"]) > 6
            labels = {"rotation": 45, "ha": "right"} if crowded else {}
            self.ax_.set_xticks(np.arange(len(self.curves["x"])), self.curves["x"], **labels)
        show_title(self.ax_, self.name, f"{len(self.total):,} rows")
        show_legend(self.ax_)
