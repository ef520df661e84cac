"""Probabilities of a class, and how uncertain they are."""

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from ..metrics import _intervals
from ._drawing import BLUE, VERMILION, axes_of, evenly, keywords, percent, require, rows_shown, show_legend, show_title

MOST_BARS = 150


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

    def __init__(self, y_true, y_proba, y_interval, *, pos_label, confidence_level=0.9, name=None):
        self.y_true = y_true
        self.y_proba = y_proba
        self.y_interval = y_interval
        self.pos_label = pos_label
        self.confidence_level = confidence_level
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, X, y, *, pos_label=None, confidence_level=0.9, name=None, ax=None, **kwargs):
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
        cls, y_true, y_proba, y_interval, *, pos_label=1, confidence_level=0.9, name=None, ax=None, **kwargs
    ):
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
        y_proba, _, _ = _intervals(y_proba, y_interval)
        check_consistent_length(y_true, y_proba)
        display = cls(y_true, y_proba, y_interval, pos_label=pos_label, confidence_level=confidence_level, name=name)
        return display.plot(ax, **kwargs)

    def plot(self, ax=None, *, bar_kw=None, point_kw=None):
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
        for of_class, colour, marker, label in (
            (mine, VERMILION, "^", _named(self.pos_label)),
            (~mine, BLUE, "o", self._other_label()),
        ):
            shown = of_class[rows]
            bar = keywords({"color": colour, "alpha": 0.4, "lw": 2}, bar_kw, "collections.LineCollection")
            bars.append(self.ax_.vlines(rank[shown], *self.y_interval[rows[shown]].T, **bar))
            style = {"color": colour, "marker": marker, "ms": 4.5, "mew": 0, "ls": ""}
            style["label"] = f"{label} ({of_class.sum():,})"
            points += self.ax_.plot(rank[shown], self.y_proba[rows[shown]], **keywords(style, point_kw))
        self.bars_, self.points_ = tuple(bars), tuple(points)
        self._describe(len(rank), n)
        return self

    def _other_label(self):
        others = np.unique(self.y_true[self.y_true != self.pos_label])
        return _named(others[0]) if len(others) == 1 else "other"

    def _describe(self, shown, n):
        from matplotlib.ticker import MaxNLocator, StrMethodFormatter

        self.ax_.set(ylim=(-0.02, 1.02), ylabel=f"P({_named(self.pos_label)})")
        self.ax_.set_xlabel(f"{rows_shown(shown, n)}, sorted by probability")
        self.ax_.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        self.ax_.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        self.ax_.set_xlim(-0.02 * n, 1.02 * n)
        show_title(self.ax_, self.name, f"probabilities with {percent(self.confidence_level)} intervals")
        show_legend(self.ax_, loc="upper left", title="true label")


def _named(label):
    """A label as people read it; a bare number would look like a probability."""
    return label if isinstance(label, str) else f"class {label}"


def class_position(classes, pos_label):
    """Where ``pos_label`` is among the classes; the second of two if None."""
    known = ", ".join(map(str, classes[:10]))
    if pos_label is None:
        if len(classes) > 2:
            raise ValueError(f"pos_label must say which of the {len(classes)} classes to draw: {known}.")
        return 1
    if not (match := np.flatnonzero(classes == pos_label)).size:
        raise ValueError(f"pos_label={pos_label!r} is not a class of the estimator; its classes are {known}.")
    return int(match[0])
