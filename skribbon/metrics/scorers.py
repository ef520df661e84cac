"""Scorers for model selection, ``(estimator, X, y)``; the Ribbon may be the last step of a pipeline."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import brier_score_loss, log_loss

from .._utils.typing import MatrixLike, MultiOutput, Scorer
from .._utils.unwrap import last_step
from . import scores
from .scores import Weights, average


def _require(estimator, method, scorer):
    """Refuse estimators without the method that a scorer needs."""
    if not hasattr(estimator, method):
        raise TypeError(
            f"{scorer} needs {method}, but {type(estimator).__name__} has none; wrap the model in a Ribbon, and score "
            "classifiers with neg_nll_scorer, neg_brier_scorer or neg_ece_scorer."
        )


def _distribution(estimator, X, method, scorer):
    """Predictive distributions of a regressor, which has the ``method``."""
    estimator, X = last_step(estimator, X)
    _require(estimator, method, scorer)
    return estimator.predict_distribution(X)


class IntervalScorer:
    """Scorer of prediction intervals at one level, made by :func:`make_interval_scorer`.

    Examples
    --------
    >>> from skribbon.metrics import coverage_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(coverage_scorer(RibbonRegressor().fit(X, y), X, y), 3)
    0.919
    """

    # a class, so that it can be pickled to workers
    def __init__(self, metric, confidence_level, multioutput="uniform_average"):
        self.metric, self.confidence_level, self.multioutput = metric, confidence_level, multioutput

    def __call__(self, estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None) -> float:
        """Score the intervals that ``estimator`` predicts for X.

        Parameters
        ----------
        estimator : fitted estimator with ``predict_interval``, or a pipeline or search that ends in one
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
            The coverage, for reports, or a score for which greater is better.
        """
        estimator, X = last_step(estimator, X)
        _require(estimator, "predict_interval", "A scorer of intervals")
        interval = estimator.predict_interval(X, confidence_level=self.confidence_level)
        by_output = self.metric(y, interval, self.confidence_level, sample_weight)
        return average(np.atleast_2d(by_output), None, self.multioutput) if np.ndim(by_output) else by_output

    @property
    def reports(self) -> bool:
        """Whether the result is the coverage, for which neither greater nor smaller is better."""
        return self.metric is _coverage

    def __repr__(self):
        more = "" if isinstance(self.multioutput, str) else f", multioutput={self.multioutput!r}"
        return f"make_interval_scorer({self.metric.__name__[1:]!r}, confidence_level={self.confidence_level}{more})"


def _coverage(y, interval, level, sample_weight):
    return scores.interval_coverage_score(y, interval, sample_weight=sample_weight, multioutput="raw_values")


def _coverage_error(y, interval, level, sample_weight):
    return -abs(_coverage(y, interval, level, sample_weight) - level)


def _interval_score(y, interval, level, sample_weight):
    options = {"confidence_level": level, "sample_weight": sample_weight, "multioutput": "raw_values"}
    return -scores.mean_interval_score(y, interval, **options)


def _width(y, interval, level, sample_weight):
    return -scores.mean_interval_width(y, interval, sample_weight=sample_weight, multioutput="raw_values")


def make_interval_scorer(
    metric: Literal["coverage", "coverage_error", "interval_score", "width"] = "coverage",
    *,
    confidence_level: float = 0.9,
    multioutput: MultiOutput = "uniform_average",
) -> Scorer:
    """Scorer of prediction intervals at a level of your choice.

    Parameters
    ----------
    metric : {"coverage", "coverage_error", "interval_score", "width"}, default="coverage"
        "coverage" is the share of observations inside, for reports: a search would choose the widest intervals. The
        others, for searches, are minus the distance between coverage and level, minus the mean interval score, and
        minus the mean width.
    confidence_level : float, default=0.9
    multioutput : "uniform_average" or array-like of shape (n_outputs,), default="uniform_average"
        How to average the scores of several outputs.

    Returns
    -------
    callable
        With signature ``(estimator, X, y, sample_weight=None)``.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skribbon.metrics import make_interval_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scorer = make_interval_scorer("interval_score", confidence_level=0.8)
    >>> search = GridSearchCV(RibbonRegressor(), {"alpha": [0.1, 1.0, 10.0]}, scoring=scorer).fit(X, y)
    >>> search.best_params_
    {'alpha': 10.0}
    """
    scores.check_level(confidence_level)
    metrics = {score.__name__[1:]: score for score in (_coverage, _coverage_error, _interval_score, _width)}
    if metric not in metrics:
        raise ValueError(f"metric must be one of {', '.join(map(repr, metrics))}, got {metric!r}.")
    if isinstance(multioutput, str) and multioutput != "uniform_average":
        raise ValueError(
            f"A scorer gives one number: multioutput must be 'uniform_average' or weights, got {multioutput!r}."
        )
    return IntervalScorer(metrics[metric], confidence_level, multioutput)


coverage_scorer = make_interval_scorer("coverage")
neg_coverage_error_scorer = make_interval_scorer("coverage_error")
neg_interval_score_scorer = make_interval_scorer("interval_score")


def neg_nll_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None) -> float:
    """Mean predictive log density of a regressor, mean log probability of a classifier.

    Parameters
    ----------
    estimator : fitted Ribbon, or a pipeline or search that ends in one
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import neg_nll_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(neg_nll_scorer(RibbonRegressor().fit(X, y), X, y), 2)
    -5.37
    """
    estimator, X = last_step(estimator, X)
    if hasattr(estimator, "predict_proba"):
        return -log_loss(y, estimator.predict_proba(X), sample_weight=sample_weight, labels=estimator.classes_)
    return average(_distribution(estimator, X, "log_density", "neg_nll_scorer").logpdf(y), sample_weight)


def neg_crps_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None) -> float:
    """Minus the continuous ranked probability score of a regressor.

    Parameters
    ----------
    estimator : fitted Ribbon regressor, or a pipeline or search that ends in one
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import neg_crps_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(neg_crps_scorer(RibbonRegressor().fit(X, y), X, y), 1)
    -30.1
    """
    return -average(_distribution(estimator, X, "predict_quantiles", "neg_crps_scorer").crps(y), sample_weight)


def neg_energy_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None) -> float:
    """Minus the energy score of a regressor with several outputs, from 200 joint draws.

    Parameters
    ----------
    estimator : fitted Ribbon regressor
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples, n_outputs)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import neg_energy_scorer
    >>> X, y = load_linnerud(return_X_y=True)
    >>> round(neg_energy_scorer(RibbonRegressor(noise="dof").fit(X, y), X, y))
    -13
    """
    _require(estimator, "predict_samples", "neg_energy_scorer")
    return -scores.energy_score(y, estimator.predict_samples(X, 200, random_state=0), sample_weight=sample_weight)


def neg_brier_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None) -> float:
    r"""Minus the Brier score of a classifier, summed over classes.

    .. math:: -\frac1n \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    Parameters
    ----------
    estimator : fitted classifier
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import neg_brier_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> round(neg_brier_scorer(RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y), X, y), 2)
    -0.05
    """
    proba, labels = estimator.predict_proba(X), estimator.classes_
    return -brier_score_loss(y, proba, sample_weight=sample_weight, labels=labels, scale_by_half=False)


def neg_ece_scorer(estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None) -> float:
    """Minus the expected calibration error of a classifier.

    Parameters
    ----------
    estimator : fitted classifier
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> from skribbon.metrics import neg_ece_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> round(neg_ece_scorer(RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y), X, y), 2)
    -0.08
    """
    labels = estimator.classes_
    return -scores.expected_calibration_error(y, estimator.predict_proba(X), labels=labels, sample_weight=sample_weight)
