"""Scorers for model selection, ``(estimator, X, y)``; the Ribbon may be the last step of a pipeline."""

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.utils.metadata_routing import MetadataRequest

from .._utils.checks import check_name, check_single_level
from .._utils.compat import routing_enabled
from .._utils.typing import MatrixLike, Outputs, PerRow, Scorer
from .._utils.unwrap import last_step
from . import scores
from .scores import average


def _require(estimator, method, scorer):
    """Refuse estimators without the method that a scorer needs."""
    if not hasattr(estimator, method):
        raise TypeError(
            f"{scorer} needs {method}, but {type(estimator).__name__} has none; wrap the model in a Ribbon, and score "
            "classifiers with neg_nll_scorer, neg_brier_scorer or neg_ece_scorer, regressors with any other."
        )


def _requesting(scorer, sample_weight):
    """Copy of a scorer that requests sample weights, or not, under metadata routing."""
    other = object.__new__(type(scorer))
    other.__dict__.update(vars(scorer), request=sample_weight)
    return other


class ModelScorer:
    """Scorer that calls a function ``(estimator, X, y, sample_weight)``; greater is better.

    Examples
    --------
    >>> from skribbon.metrics import neg_crps_scorer, neg_nll_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor().fit(X, y)
    >>> round(neg_nll_scorer(ribbon, X, y), 2), round(neg_crps_scorer(ribbon, X, y), 1)
    (-5.34, -29.7)
    """

    request: bool | str | None = None  # of sample weights

    def __init__(self, score):
        self._score, self.__name__, self.__doc__ = score, score.__name__, score.__doc__

    def __call__(self, estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None) -> float:
        """Score the predictions of ``estimator`` for X.

        Parameters
        ----------
        estimator : fitted Ribbon, or a pipeline or search that ends in one
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
            A score for which greater is better, or the coverage of ``coverage_scorer``, for reports.
        """
        return self._score(*last_step(estimator, X), y, sample_weight)

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Copy of the scorer with its request for sample weights, if scikit-learn's metadata routing is enabled.

        Parameters
        ----------
        sample_weight : bool, str or None
            True takes the weights that a search or cross-validation is given, a string takes those of another name,
            False ignores them, and None, as at first, refuses them.

        Returns
        -------
        scorer
            The scorer itself does not change, because others may use it.
        """
        if not routing_enabled():
            raise RuntimeError("Requests need metadata routing: sklearn.set_config(enable_metadata_routing=True).")
        return _requesting(self, sample_weight)

    def get_metadata_routing(self) -> MetadataRequest:
        """Metadata routing of the scorer: its request for sample weights.

        Returns
        -------
        MetadataRequest
        """
        routing = MetadataRequest(owner=repr(self))
        routing.score.add_request(param="sample_weight", alias=self.request)
        return routing

    def _accept_sample_weight(self):
        return True  # asked by searches over several scorers

    def __repr__(self):
        return self.__name__

    def __reduce__(self):  # pickled by name, as a function
        return repr(self) if self.request is None else (_requesting, (globals()[repr(self)], self.request))


# Scores of intervals by name, from observations, interval bounds and level; greater is better, except for coverage.
METRICS = {
    "coverage": lambda y, ends, level, more: scores.interval_coverage_score(y, ends, **more),
    "coverage_error": lambda y, ends, level, more: -abs(scores.interval_coverage_score(y, ends, **more) - level),
    "interval_score": lambda y, ends, level, more: -scores.mean_interval_score(y, ends, confidence_level=level, **more),
    "width": lambda y, ends, level, more: -scores.mean_interval_width(y, ends, **more),
}


class IntervalScorer(ModelScorer):
    """Scorer of prediction intervals at one level, made by :func:`make_interval_scorer`.

    Examples
    --------
    >>> from skribbon.metrics import coverage_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(coverage_scorer(RibbonRegressor().fit(X, y), X, y), 3)
    0.934
    """

    def __init__(self, metric, confidence_level, multioutput="uniform_average"):
        self.metric, self.confidence_level, self.multioutput = metric, confidence_level, multioutput

    def _score(self, estimator, X, y, sample_weight):
        _require(estimator, "predict_interval", "A scorer of intervals")
        interval = estimator.predict_interval(X, confidence_level=self.confidence_level)
        more = {"sample_weight": sample_weight, "multioutput": "raw_values"}
        by_output = METRICS[self.metric](y, interval, self.confidence_level, more)
        return average(np.atleast_2d(by_output), None, self.multioutput) if np.ndim(by_output) else by_output

    @property
    def reports(self) -> bool:
        """Whether the result is the coverage, for which neither greater nor smaller is better."""
        return self.metric == "coverage"

    __reduce__ = object.__reduce__  # pickled with its settings

    def __repr__(self):
        more = "" if isinstance(self.multioutput, str) else f", multioutput={self.multioutput!r}"
        return f"make_interval_scorer({self.metric!r}, confidence_level={self.confidence_level}{more})"


def make_interval_scorer(
    metric: Literal["coverage", "coverage_error", "interval_score", "width"] = "coverage",
    *,
    confidence_level: float = 0.9,
    multioutput: Outputs = "uniform_average",
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
    check_single_level(confidence_level)
    check_name(metric, "metric", METRICS)
    if isinstance(multioutput, str) and multioutput != "uniform_average":
        raise ValueError(f"A scorer gives one number: multioutput='uniform_average' or weights, not {multioutput!r}.")
    return IntervalScorer(metric, confidence_level, multioutput)


coverage_scorer = make_interval_scorer("coverage")
neg_coverage_error_scorer = make_interval_scorer("coverage_error")
neg_interval_score_scorer = make_interval_scorer("interval_score")


@ModelScorer
def neg_nll_scorer(estimator, X, y, sample_weight):
    """Mean predictive log density of a regressor, mean log probability of a classifier."""
    if hasattr(estimator, "predict_proba"):
        return -log_loss(y, estimator.predict_proba(X), sample_weight=sample_weight, labels=estimator.classes_)
    _require(estimator, "log_density", "neg_nll_scorer")
    return average(estimator.predict_distribution(X).logpdf(y), sample_weight)


@ModelScorer
def neg_crps_scorer(estimator, X, y, sample_weight):
    """Minus the continuous ranked probability score of a regressor."""
    _require(estimator, "predict_quantiles", "neg_crps_scorer")
    return -average(estimator.predict_distribution(X).crps(y), sample_weight)


@ModelScorer
def neg_energy_scorer(estimator, X, y, sample_weight):
    """Minus the energy score of a regressor with several outputs, from 200 joint draws."""
    _require(estimator, "predict_samples", "neg_energy_scorer")
    return -scores.energy_score(y, estimator.predict_samples(X, 200, random_state=0), sample_weight=sample_weight)


@ModelScorer
def neg_brier_scorer(estimator, X, y, sample_weight):
    r"""Minus the Brier score of a classifier, :math:`-\frac1n \sum_i \sum_k (p_{ik} - 1[y_i = k])^2`."""
    _require(estimator, "predict_proba", "neg_brier_scorer")
    proba, labels = estimator.predict_proba(X), estimator.classes_
    return -brier_score_loss(y, proba, sample_weight=sample_weight, labels=labels, scale_by_half=False)


@ModelScorer
def neg_ece_scorer(estimator, X, y, sample_weight):
    """Minus the expected calibration error of a classifier."""
    _require(estimator, "predict_proba", "neg_ece_scorer")
    labels = estimator.classes_
    return -scores.expected_calibration_error(y, estimator.predict_proba(X), labels=labels, sample_weight=sample_weight)
