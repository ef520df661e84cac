"""RibbonClassifier, and the predict methods of every classifier whose logits are uncertain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.metaestimators import available_if

from .._predict.classes import ClassProbabilities
from .._predict.latent import Latent
from .._utils.checks import (
    check_fitted,
    check_levels,
    check_name,
    check_single_level,
    check_target,
    checked_weight,
    index_of,
)
from .._utils.threads import limit_blas
from .._utils.typing import (
    ClassScoreName,
    Correction,
    CurvatureName,
    FloatArray,
    Levels,
    MatrixLike,
    PredictiveName,
    RandomState,
)
from ..conformal.calibration import Calibration, calibrated_classes, conformal_set
from ..conformal.left_out import CrossConformal, class_scores_of
from ..curvature import Curvature
from ..exceptions import SeparationWarning, warn_user
from .base_model import adopt, calibration_rows, lazily, validated
from .ribbon import BaseRibbon, latent_at, warn_of_training_rows, weighted_mean

if TYPE_CHECKING:
    import pandas as pd

SEPARATION = 0.05  # squared scores over their expectation: below 0.03 for separated classes, above 0.09 for all others


class ClassificationMethods:
    """Predict methods of a classifier, each a thin layer over :meth:`predict_distribution`.

    A fitted subclass has ``model_`` and ``classes_``. It implements ``_latent(X)``, the distribution of the raw
    predictions at the rows of prepared X.
    """

    model_: Any
    classes_: NDArray[Any]
    _latent: Callable[[Any], Latent]
    conformal_: Calibration
    _folds_: CrossConformal

    def predict_distribution(self, X: MatrixLike) -> ClassProbabilities:
        """Distribution of the class probabilities at each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ClassProbabilities
            With ``mean() quantile(q) interval(level) sample(n_samples)``.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.predict_distribution(X[70:71, 2:]).quantile(0.95).round(2)
        array([[0.58, 0.61]])
        """
        return ClassProbabilities(self._latent(self._prepared(X)), self.model_.loss)

    def _prepared(self, X):
        """X as the base model's transformers leave it."""
        X = validated(self, X)
        return self.model_.prepare(X)

    @lazily
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Most probable class under the averaged probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    @lazily
    def predict_proba(self, X: MatrixLike) -> FloatArray:
        """Probabilities averaged over the parameters' distribution, deterministic.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, K)
            Rows sum to one.
        """
        return self.predict_distribution(X).mean()

    @lazily
    def predict_log_proba(self, X: MatrixLike) -> FloatArray:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, K)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @lazily
    def predict_proba_samples(
        self, X: MatrixLike, n_samples: int = 100, random_state: RandomState = None
    ) -> FloatArray:
        """Draw class probabilities; each draw is one classifier evaluated at all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=100
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_samples_X, K)

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.predict_proba_samples(X[70:71, 2:], n_samples=3, random_state=0)[:, 0].round(2)
        array([[0.41, 0.59],
               [0.47, 0.53],
               [0.5 , 0.5 ]])
        """
        return self.predict_distribution(X).sample(n_samples, random_state)

    @lazily
    def predict_proba_interval(self, X: MatrixLike, confidence_level: Levels = 0.9) -> FloatArray:
        """Central interval of every class probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n_samples, K, 2) or (n_samples, K, 2, L)
            Lower and upper ends; the last axis is present if a sequence of levels was given.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.predict_proba_interval(X[70:71, 2:]).round(2)
        array([[[0.39, 0.58],
                [0.42, 0.61]]])
        """
        return self.predict_distribution(X).interval(confidence_level)

    def conformalize(
        self,
        X_cal: MatrixLike,
        y_cal: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        score: ClassScoreName = "lac",
        class_conditional: bool = False,
        randomized: bool = False,
        random_state: RandomState = None,
    ) -> Self:
        """Learn from held-out rows how large label sets must be to reach their nominal coverage.

        Nothing is refitted. Afterwards :meth:`predict_set` contains the class of a new row with a probability of at
        least the level, however wrong the model is, provided that the calibration rows and the new rows are
        exchangeable.

        Parameters
        ----------
        X_cal : {array-like, sparse matrix} of shape (m, n_features)
        y_cal : array-like of shape (m,)
        sample_weight : array-like of shape (m,), default=None
            Under covariate shift, the density ratio of the features, rows to predict over calibration rows, up to a
            constant factor. :meth:`predict_set` then needs the same ratio for the rows to predict; if it is given none,
            these weights count copies of the calibration rows instead.
        groups : array-like of shape (m,), default=None
            Group labels. The guarantee then holds within each group, from that group's own calibration rows.
        score : {"lac", "aps"}, default="lac"
            "lac" includes all classes above one probability, which gives the smallest sets on average; "aps" includes
            the most probable classes up to a total probability, which gives larger sets for harder rows.
        class_conditional : bool, default=False
            Whether the guarantee holds for each true class, from that class's own calibration rows.
        randomized : bool, default=False
            Whether the last class of an "aps" set is included at random, so that coverage hardly exceeds the level.
        random_state : int, RandomState or None, default=None
            Seed of that randomization.

        Returns
        -------
        self : estimator

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[::2, :2], y[::2]).conformalize(X[1::2, :2], y[1::2])
        >>> ribbon.predict_set(X[[0, 50, 100], :2], confidence_level=0.9)
        array([[ True, False, False],
               [False, False,  True],
               [False,  True,  True]])
        """
        if randomized and score != "aps":
            raise ValueError("randomized=True is for score='aps'.")
        X_cal, y_cal, sample_weight, groups = calibration_rows(self, X_cal, y_cal, sample_weight, groups)
        probabilities, y = self.predict_proba(X_cal), check_target(self, y_cal)
        check_consistent_length(probabilities, y)
        own = self.model_.encode_target(y).astype(int)
        weight = None if sample_weight is None else checked_weight(sample_weight, X_cal)
        u = _uniform(randomized, random_state, len(own))
        conformal = calibrated_classes(probabilities, own, weight, groups, score, class_conditional, u)
        warn_of_training_rows(self, X_cal, y, weight)
        self.conformal_ = replace(conformal, randomized=randomized)
        return self

    @lazily
    def predict_set(
        self,
        X: MatrixLike,
        confidence_level: Levels = 0.9,
        kind: Literal["conformal", "cv+"] = "conformal",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        allow_empty: bool = True,
        random_state: RandomState = None,
    ) -> NDArray[np.bool_]:
        """Sets of classes that contain the true one with a guaranteed probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9
        kind : {"conformal", "cv+"}, default="conformal"
            "conformal" after :meth:`conformalize`; "cv+" from a :class:`~skribbon.RibbonCV` with ``store_folds=True``,
            with the score "lac".
        groups : array-like of shape (n_samples,), default=None
            Group labels of the rows, if :meth:`conformalize` was given groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows under covariate shift, on the same scale as the weights given to :meth:`conformalize`.
        allow_empty : bool, default=True
            Whether a set may be empty, when no class conforms. Otherwise it contains at least the most probable class,
            and coverage somewhat exceeds the level.
        random_state : int, RandomState or None, default=None
            Seed for randomized sets.

        Returns
        -------
        ndarray of bool, of shape (n_samples, K) or (n_samples, K, L)
            In the order of ``classes_``; the last axis is present if a sequence of levels was given.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[::2, :2], y[::2]).conformalize(X[1::2, :2], y[1::2])
        >>> ribbon.predict_set(X[:, :2], confidence_level=[0.8, 0.95]).sum(axis=1).mean(axis=0).round(2)
        array([0.97, 1.41])
        """
        check_name(kind, "kind", ("conformal", "cv+"))
        check_fitted(self)
        _, scalar = check_levels(confidence_level, "confidence_level")
        if kind == "cv+":
            if not (groups is None and sample_weight is None):
                raise ValueError("groups and sample_weight are for kind='conformal'; do not pass them with kind='cv+'.")
            if not hasattr(self, "_folds_"):
                raise ValueError("kind='cv+' needs the fits of the folds: use RibbonCV(..., store_folds=True).")
            sets = self._folds_.sets(validated(self, X), confidence_level, partial(class_scores_of, "lac"))
        else:
            if not hasattr(self, "conformal_"):
                raise NotFittedError("A set needs calibration rows: call conformalize(X_cal, y_cal) first.")
            probabilities = self.predict_proba(X)
            u = _uniform(self.conformal_.randomized, random_state, len(probabilities))
            sets = conformal_set(self.conformal_, probabilities, confidence_level, groups, sample_weight, u)
        if not allow_empty:
            best = np.eye(len(self.classes_), dtype=bool)[self.predict_proba(X).argmax(axis=1)]
            sets |= best[:, :, None] & ~sets.any(axis=1, keepdims=True)
        return sets[..., 0] if scalar else sets

    @lazily
    def predict_frame(self, X: MatrixLike, confidence_level: float = 0.9) -> pd.DataFrame:
        """Tabulate the predicted class, and every class probability with its interval.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, then proba, lower and upper for each class; the index of X is kept.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonClassifier().fit(X.iloc[50:, 2:], y[50:])
        >>> ribbon.predict_frame(X.iloc[70:71, 2:]).round(2)
            prediction  proba_1  lower_1  upper_1  proba_2  lower_2  upper_2
        70           2     0.48     0.39     0.58     0.52     0.42     0.61
        """
        import pandas as pd

        level = check_single_level(confidence_level)
        distribution = self.predict_distribution(X)
        proba, intervals = distribution.mean(), distribution.interval(level)
        columns = {"prediction": self.classes_[proba.argmax(axis=1)]}
        for k, label in enumerate(self.classes_):
            columns[f"proba_{label}"] = proba[:, k]
            columns[f"lower_{label}"], columns[f"upper_{label}"] = intervals[:, k].T
        return pd.DataFrame(columns, index=index_of(X))

    def _log_odds(self, X):
        """Log odds (n,) of the second of two classes, or centred logarithms (n, K), of the averaged probabilities."""
        scores = np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores - scores.mean(axis=1, keepdims=True)


def _uniform(randomized, random_state, n):
    """Uniform random numbers (n,), or zero without randomization."""
    return check_random_state(random_state).uniform(size=n) if randomized else 0.0


def _base_has(name):
    def check(self):
        return hasattr(getattr(self, "estimator_", None) or self._get_estimator(), name)

    return check


class RibbonClassifier(ClassifierMixin, ClassificationMethods, BaseRibbon):
    r"""Class probabilities with their own uncertainty, from a single fit.

    The base model is fitted once. The Bayesian bootstrap, linearized by influence functions, gives its parameters the
    robust covariance

    .. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1},

    with :math:`H_r` the penalised curvature and :math:`H_{F,c}` the covariance of the rows' gradients. The resulting
    distribution of the logits is carried through the softmax itself, not through a linearization of it.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None. A :class:`~sklearn.pipeline.Pipeline` and a fitted model in a
        :class:`~sklearn.frozen.FrozenEstimator` are base models too.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap, whose variance is n/(n + 1)
        times the sandwich, or G/(G + 1) times with G groups; (n - 1)/n, or (G - 1)/G, gives the sandwich itself.
    temperature : float, default=1.0
        Divides all logits. A penalised model is usually less confident than it could be, which a temperature below one
        can correct and no alpha can; :class:`RibbonCV` chooses both on held-out rows.
    curvature : str or Curvature, default="auto"
        The curvature H. Dense: "hessian", exact; "ggn", its generalised Gauss-Newton form, never indefinite; "fisher",
        the empirical Fisher matrix. For models too large for a p x p array: "kfac" (networks of dense layers),
        "low_rank", "diag", "last_layer", and "matrix_free", which solves by conjugate gradients. "auto" uses the exact
        Hessian where it can never be indefinite and Gauss-Newton elsewhere; if memory or time call for an
        approximation, it warns. See :mod:`skribbon.curvature`.
    damping : "auto" or float, default="auto"
        Added to the diagonal of H_r. "auto" adds nothing and keeps directions that nothing determines fixed. The
        exception is a network that was not trained to a minimum and has more than a quarter of an effective parameter
        per row: it gets the smallest damping that leaves a quarter, with a warning.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores: "HC0" is none, as in the paper; "HC1" uses the mean leverage; "HC2" each
        row's own leverage; "HC3" leave-one-out scores. "auto" is HC2, but HC1 if all leverages are negligible or not
        known exactly. With "HC1" and "HC2", intervals of probabilities use Student's t quantiles, with degrees of
        freedom from the rows that a prediction rests on. With ``groups`` the corrections are CR0 to CR3, and "auto" is
        CR2 if leverages are known; degrees of freedom then come from the groups that a prediction rests on, or are the
        number of groups minus one with "HC1" and "HC3".
    predictive : {"gaussian", "pushforward", "direct", "newton"}, default="gaussian"
        How parameter uncertainty reaches the logits: "gaussian", the closed form; "pushforward", ``n_draws`` Dirichlet
        draws along the model's tangent; "direct", the model itself evaluated at those draws; "newton", the model at
        draws that take a full Newton step with the curvature of their own weights. "newton" needs a p x p array per
        draw.
    n_draws : int, default=100
        Number of Dirichlet draws kept if ``predictive`` is not "gaussian", or if there are too many parameters for the
        closed form.
    clip_scores : float, default=None
        Bounds the influence of a single row: scores longer than this many times the median length are cut to it, in the
        norm in which they move predictions. What extreme rows reveal about the uncertainty is then lost, and intervals
        get narrower.
    clip_steps : float, default=None
        Bounds a single draw: no step is longer than this many times the length it would have if the rows varied as the
        loss assumes. With ``predictive="gaussian"`` the covariance is that of ``n_draws`` such steps instead of the
        closed form.
    store_loo : bool, default=False
        Keep leave-one-out results for each training row, to first order: ``loo_score_`` and ``loo_distribution_``.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.
    verbose : int, default=0
        If positive, print a line for every pass and every Newton step over a Dask table.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    estimator_ : estimator
        The fitted base model.
    model_ : ParametricModel
        The base model as a function of its parameters ``model_.theta``.
    ribbon_ : Ribbon
        Distribution of the parameters around ``model_.theta``.
    covariance_ : ndarray of shape (p, p)
        Covariance of ``model_.theta``.
    curvature_ : Curvature
        The curvature that was used.
    correction_ : str
        The correction that was used.
    stationarity_ : float
        Size of the training gradient, in its own standard errors; near zero at an optimum.
    effective_parameters_ : float
        Trace of the hat matrix: the number of parameters that the penalty leaves free.
    n_observations_ : float
        Sum of the weights.
    n_groups_ : int or None
        Number of groups; None without ``groups``, or if every group is a single observation.
    loo_score_ : float
        Mean log probability of the training labels, each under the fit to all other rows, or groups. Only if
        ``store_loo``.
    loo_distribution_ : ClassProbabilities
        Class probabilities of each training row under the fit to all other rows, or groups. Only if ``store_loo``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X has feature names that are all strings.

    Examples
    --------
    >>> X, y = load_iris(return_X_y=True)
    >>> ribbon = RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
    >>> ribbon.predict_proba(X[[0, 70]]).round(2)
    array([[0.98, 0.02, 0.  ],
           [0.  , 0.44, 0.56]])
    >>> ribbon.predict_proba_interval(X[70:71], confidence_level=0.9).round(2)
    array([[[0.  , 0.  ],
            [0.32, 0.57],
            [0.42, 0.68]]])
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        alpha: float = 1.0,
        temperature: float = 1.0,
        curvature: CurvatureName | Curvature = "auto",
        damping: float | Literal["auto"] = "auto",
        correction: Correction = "auto",
        predictive: PredictiveName = "gaussian",
        n_draws: int = 100,
        clip_scores: float | None = None,
        clip_steps: float | None = None,
        store_loo: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.alpha = alpha
        self.temperature = temperature
        self.curvature = curvature
        self.damping = damping
        self.correction = correction
        self.predictive = predictive
        self.n_draws = n_draws
        self.clip_scores = clip_scores
        self.clip_steps = clip_steps
        self.store_loo = store_loo
        self.random_state = random_state
        self.verbose = verbose

    def _default_estimator(self):
        return LogisticRegression()

    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the base model and its ribbon.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: how often each row was observed. Weights of another kind, such as exposures, scale the
            intervals with their unit.
        groups : array-like of shape (n_samples,), default=None
            Group labels: rows with the same label may depend on each other, such as those of one person or one day.
            Each group gets one Dirichlet weight; ``sample_weight`` counts rows within their group.

        Returns
        -------
        self : RibbonClassifier
        """
        y = check_target(self, y)
        fitted, rows = self._fit_rows(X, y, sample_weight, groups)
        with limit_blas(rows.n_rows, len(rows.model.theta)):
            fitted, training = self._fit_ribbon(fitted, rows)
            warn_of_separation(training)
            fitted["classes_"] = fitted["model_"].classes
            if self.store_loo:
                self._warn_of_leave_one_out(training)
                rows, model = training.rows, fitted["model_"]
                latent = latent_at(model, fitted["ribbon_"], rows.X).moved_to(training.record.left_out)
                distribution = ClassProbabilities(latent.over(self.temperature), model.loss)
                fitted |= self._of_left_out(distribution, rows.y.astype(int), rows.weight)
        return adopt(self, fitted)

    def _latent(self, X):
        return super()._latent(X).over(self.temperature)

    def _check_parameters(self):
        super()._check_parameters()
        if not isinstance(self.temperature, Real) or not np.isfinite(self.temperature) or self.temperature <= 0:
            raise ValueError(
                f"temperature must be a finite number > 0, got {self.temperature!r}. All logits are divided by it: 1 "
                "leaves them unchanged, larger values make the classifier less confident."
            )

    def with_alpha(self, alpha: float, temperature: float | None = None) -> Self:
        """Return the fitted Ribbon at another alpha and temperature, without refitting.

        Parameters
        ----------
        alpha : float
            Dirichlet concentration; larger means less uncertainty.
        temperature : float, default=None
            Divides all logits; unchanged if None.

        Returns
        -------
        RibbonClassifier
            A copy that shares everything else with this one. Drawn weights are rescaled, not redrawn.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.with_alpha(1.0, temperature=0.5).predict_proba(X[70:71, 2:]).round(2)
        array([[0.46, 0.54]])
        """
        other = super().with_alpha(alpha)
        other.temperature = self.temperature if temperature is None else temperature
        other._check_parameters()
        ratio = other.temperature / self.temperature
        if hasattr(self, "loo_distribution_") and ratio != 1:
            other.__dict__.update(self._of_left_out(other.loo_distribution_.over(ratio), *self._left_out_))
        return other

    @staticmethod
    def _of_left_out(distribution, y, weight):
        return {"loo_distribution_": distribution, "_left_out_": (y, weight)}

    @property
    def loo_score_(self) -> float:
        """Mean log probability of training rows, each under the fit to all others; with ``store_loo`` only."""
        if not hasattr(self, "loo_distribution_"):
            raise AttributeError("loo_score_ is there after a fit with store_loo=True.")
        y, weight = self._left_out_
        chosen = np.maximum(self.loo_distribution_.mean()[np.arange(len(y)), y], np.finfo(float).tiny)
        return weighted_mean(np.log(chosen), weight)

    @available_if(_base_has("decision_function"))
    @lazily
    def decision_function(self, X: MatrixLike) -> FloatArray:
        """Log odds of the averaged probabilities, so that they rank rows as :meth:`predict_proba` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, K)
        """
        return self._log_odds(X)


def warn_of_separation(training):
    """Warn if a classifier's scores are too small for its own probabilities."""
    observed, expected = training.moments.squared_scores
    if observed < SEPARATION * expected:
        warn_user(
            "The classifier is right about its training rows far more often than its own probabilities say, as "
            "where classes can be separated: their scores vanish, and with them the uncertainty that is made of "
            "them. Penalise the base model more.",
            SeparationWarning,
        )
