"""RibbonClassifier, and what every classifier with uncertain logits says of new rows."""

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

from ._checks import (
    check_fitted,
    check_levels,
    check_name,
    check_single_level,
    check_target,
    checked_weight,
    index_of,
)
from ._estimator import BaseRibbon, calibration_rows, latent_at, lazily, weighted_mean
from ._left_out import CrossConformal, class_scores_of
from ._predictive import ClassProbabilities, Latent
from ._typing import (
    ClassScoreName,
    Correction,
    CurvatureName,
    FloatArray,
    Levels,
    MatrixLike,
    PredictiveName,
    RandomState,
)
from .conformal import Calibration, calibrated_classes, conformal_set
from .curvature import Curvature

if TYPE_CHECKING:
    import pandas as pd


class ClassificationMethods:
    """Predict methods of a classifier, each a short sentence on :meth:`predict_distribution`.

    A subclass is fitted with ``model_`` and ``classes_``, and writes ``_latent(X)``, the distribution of the raw
    predictions of all rows of prepared X.
    """

    model_: Any
    classes_: NDArray[Any]
    _validated: Callable[[Any], Any]
    _latent: Callable[[Any], Latent]
    _warn_of_training_rows: Callable[[Any, Any, Any], None]
    conformal_: Calibration
    _folds_: CrossConformal

    def predict_distribution(self, X: MatrixLike) -> ClassProbabilities:
        """Distribution of the class probabilities of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ClassProbabilities
            With ``mean() quantile(q) interval(level) sample(n_samples)``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.predict_distribution(X[70:71, 2:]).quantile(0.95).round(2)
        array([[0.58, 0.61]])
        """
        return ClassProbabilities(self._latent(self._prepared(X)), self.model_.loss)

    def _prepared(self, X):
        """X behind the base model's transformers."""
        X = self._validated(X)
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
        """Draws of the class probabilities; each draw is one classifier over all rows.

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
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.predict_proba_samples(X[70:71, 2:], n_samples=3, random_state=0)[:, 0].round(2)
        array([[0.43, 0.57],
               [0.48, 0.52],
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
            Lower and upper ends; the last axis is there if a sequence of levels was given.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
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
        randomised: bool = False,
        random_state: RandomState = None,
    ) -> Self:
        """Learn from rows that were not fitted on how many classes a set must hold to cover what it says.

        Nothing is fitted again. :meth:`predict_set` then holds the class of a new row with a probability of at least
        its level, however wrong the model is, if calibration rows and new rows are exchangeable.

        Parameters
        ----------
        X_cal : {array-like, sparse matrix} of shape (m, n_features)
        y_cal : array-like of shape (m,)
        sample_weight : array-like of shape (m,), default=None
            How much more often rows to predict are like each of these than these are among themselves; the rows to
            predict then need the same ratio. Without it there, a weight is a number of copies.
        groups : array-like of shape (m,), default=None
            Labels: the promise then holds within each group, by its own calibration rows.
        score : {"lac", "aps"}, default="lac"
            "lac" takes all classes above one probability, which makes the smallest sets on average; "aps" the most
            probable classes up to a sum of probabilities, which makes larger sets for harder rows.
        class_conditional : bool, default=False
            The promise holds for each true class, by its own calibration rows.
        randomised : bool, default=False
            Whether the last class of an "aps" set is in it by chance, so that sets cover hardly more than they say.
        random_state : int, RandomState or None, default=None
            Of that chance.

        Returns
        -------
        self : estimator

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[::2, :2], y[::2]).conformalize(X[1::2, :2], y[1::2])
        >>> ribbon.predict_set(X[[0, 50, 100], :2], confidence_level=0.9)
        array([[ True, False, False],
               [False, False,  True],
               [False,  True,  True]])
        """
        if randomised and score != "aps":
            raise ValueError("randomised=True is for score='aps'.")
        X_cal, y_cal, sample_weight, groups = calibration_rows(self, X_cal, y_cal, sample_weight, groups)
        probabilities, y = self.predict_proba(X_cal), check_target(self, y_cal)
        check_consistent_length(probabilities, y)
        own = self.model_.encode_target(y).astype(int)
        weight = None if sample_weight is None else checked_weight(sample_weight, X_cal)
        u = _uniform(randomised, random_state, len(own))
        conformal = calibrated_classes(probabilities, own, weight, groups, score, class_conditional, u)
        self._warn_of_training_rows(X_cal, y, weight)
        self.conformal_ = replace(conformal, randomised=randomised)
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
        """Sets of classes that hold the true one with a probability that is proved.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9
        kind : {"conformal", "cv+"}, default="conformal"
            "conformal" after :meth:`conformalize`; "cv+" of a :class:`~skribbon.RibbonCV` with ``store_folds=True``, by
            the score "lac".
        groups : array-like of shape (n_samples,), default=None
            Labels of the rows, after :meth:`conformalize` with groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Of the rows, under a shift, on the scale of the weights that :meth:`conformalize` had.
        allow_empty : bool, default=True
            Whether a set may be empty: no class is usual there. Otherwise it holds the most probable class, and sets
            cover somewhat more than the level.
        random_state : int, RandomState or None, default=None
            Of sets that are randomised.

        Returns
        -------
        ndarray of bool, of shape (n_samples, K) or (n_samples, K, L)
            In the order of ``classes_``; the last axis is there if a sequence of levels was given.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
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
                raise ValueError("groups and sample_weight are for kind='conformal'; leave them out of kind='cv+'.")
            if not hasattr(self, "_folds_"):
                raise ValueError("kind='cv+' needs the fits of folds: use RibbonCV(..., store_folds=True).")
            sets = self._folds_.sets(self._validated(X), confidence_level, partial(class_scores_of, "lac"))
        else:
            if not hasattr(self, "conformal_"):
                raise NotFittedError("A set needs calibration rows: call conformalize(X_cal, y_cal) first.")
            probabilities = self.predict_proba(X)
            u = _uniform(self.conformal_.randomised, random_state, len(probabilities))
            sets = conformal_set(self.conformal_, probabilities, confidence_level, groups, sample_weight, u)
        if not allow_empty:
            best = np.eye(len(self.classes_), dtype=bool)[self.predict_proba(X).argmax(axis=1)]
            sets |= best[:, :, None] & ~sets.any(axis=1, keepdims=True)
        return sets[..., 0] if scalar else sets

    @lazily
    def predict_frame(self, X: MatrixLike, confidence_level: float = 0.9) -> pd.DataFrame:
        """Predicted class, and every class probability with its interval, as a table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, and proba, lower and upper of each class; the index of X is kept.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
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


def _uniform(randomised, random_state, n):
    """Random numbers (n,), or zero in place of them."""
    return check_random_state(random_state).uniform(size=n) if randomised else 0.0


def _base_has(name):
    def check(self):
        return hasattr(getattr(self, "estimator_", None) or self._get_estimator(), name)

    return check


class RibbonClassifier(ClassifierMixin, ClassificationMethods, BaseRibbon):
    r"""Class probabilities with their own uncertainty, from a single fit.

    The base model is fitted once. The Bayesian bootstrap, linearised by influence functions, gives its parameters the
    robust covariance

    .. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1},

    with :math:`H_r` the penalised curvature and :math:`H_{F,c}` the covariance of the rows' gradients; the logits'
    distribution that follows is carried through the softmax, never linearised there.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None. A :class:`~sklearn.pipeline.Pipeline` and a fitted model in a
        :class:`~sklearn.frozen.FrozenEstimator` are base models too.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap, whose variance is n/(n + 1)
        times the sandwich, of G groups G/(G + 1); (n - 1)/n, or (G - 1)/G, is the sandwich itself.
    temperature : float, default=1.0
        What all logits are divided by. A penalised model is mostly less sure than it could be, which no alpha can mend
        and a temperature below one does; :class:`RibbonCV` chooses both on held-out rows.
    curvature : str or Curvature, default="auto"
        H. Dense: "hessian", exact; "ggn", its generalised Gauss-Newton form, never indefinite; "fisher", the empirical
        Fisher matrix. For models too large for a p x p array: "kfac" (networks of dense layers), "low_rank", "diag",
        "last_layer", and "matrix_free", which solves by conjugate gradients. "auto" is exact where that can never be
        indefinite, Gauss-Newton elsewhere, and says so where memory or time ask for another. See
        :mod:`skribbon.curvature`.
    damping : "auto" or float, default="auto"
        Added to the diagonal of H_r. "auto" adds nothing and holds fixed what nothing determines; but to a network
        that was not trained to a minimum and has more than a quarter of an effective parameter per row, it adds the
        smallest damping that leaves a quarter, and says so.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores: "HC0" none, as in the paper; "HC1" by the mean leverage; "HC2" by each
        row's own leverage; "HC3" by leave-one-out scores. "auto" is HC2, but HC1 where no row has a leverage to speak
        of, or leverages are not known exactly. "HC1" and "HC2" have Student's quantiles in intervals of probabilities,
        with degrees of freedom by the rows that a prediction rests on. With
        ``groups`` these are CR0 to CR3, and "auto" is CR2 where leverages are known; degrees of freedom are then by the
        groups that a prediction rests on, and one less than there are groups with "HC1" and "HC3".
    predictive : {"gaussian", "pushforward", "direct", "newton"}, default="gaussian"
        How parameter uncertainty reaches the logits: the closed form; ``n_draws`` Dirichlet draws along the model's
        tangent; the model itself evaluated at those draws; or at draws that are a Newton step with the curvature of
        their own weights away, for least squares and ridge exact refits. "newton" holds a p x p array per draw.
    n_draws : int, default=100
        Number of Dirichlet draws kept when ``predictive`` is not "gaussian", or where there are too many parameters for
        the closed form.
    clip_scores : float, default=None
        Bounds what one row may do: no score counts for more than so many times the median of their lengths, in the norm
        in which they move predictions. What rows far out tell of the uncertainty is then lost: intervals get narrower.
    clip_steps : float, default=None
        Bounds what one draw may do: no step is longer than so many times its length if rows varied as the loss says.
        With ``predictive="gaussian"`` the covariance is that of ``n_draws`` such steps, in place of the closed form.
    store_loo : bool, default=False
        Keep what the fit to all other rows, to first order, says of each training row: ``loo_score_`` and
        ``loo_distribution_``.
    random_state : int, RandomState or None, default=None
        Seeds the draws, and every ``random_state`` inside the base model that is None.
    verbose : int, default=0
        Prints a line for every pass over a Dask table, and for every Newton step there, if positive.

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
        What ``curvature`` stood for.
    correction_ : str
        What ``correction`` stood for.
    stationarity_ : float
        Training gradient in standard errors of itself; near zero at an optimum.
    effective_parameters_ : float
        Trace of the hat matrix: the parameters that the penalty leaves.
    n_observations_ : float
        Sum of the weights.
    n_groups_ : int or None
        Number of groups, if rows were given any and they hold more than one observation.
    loo_score_ : float
        Mean log probability of the training labels, each under the fit to all other rows, or groups. If ``store_loo``.
    loo_distribution_ : ClassProbabilities
        Of the training rows, each by the fit to all others, or to all other groups. If ``store_loo``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X has feature names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skribbon import RibbonClassifier
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
            Labels of rows that depend on each other, such as those of one person or day: each group gets one Dirichlet
            weight. A weight counts a row as often within its group.

        Returns
        -------
        self : RibbonClassifier
        """
        y = check_target(self, y)
        fitted, training = self._fit(X, y, sample_weight, groups)
        training.warn_of_separation()
        fitted["classes_"] = fitted["model_"].classes
        if self.store_loo:
            self._warn_of_leave_one_out(training)
            rows, model = training.rows, fitted["model_"]
            latent = latent_at(model, fitted["ribbon_"], rows.X).moved_to(training.leave_one_out())
            distribution = ClassProbabilities(latent.over(self.temperature), model.loss)
            fitted |= self._of_left_out(distribution, rows.y.astype(int), rows.weight)
        return self._adopt(fitted)

    def _latent(self, X):
        return super()._latent(X).over(self.temperature)

    def _check_parameters(self):
        super()._check_parameters()
        if not isinstance(self.temperature, Real) or not np.isfinite(self.temperature) or self.temperature <= 0:
            raise ValueError(
                f"temperature must be a finite number > 0, got {self.temperature!r}. All logits are divided by it: 1 "
                "leaves them as they are, larger values make the classifier less sure."
            )

    def with_alpha(self, alpha: float, temperature: float | None = None) -> Self:
        """The fitted Ribbon as it would be at another alpha and temperature: nothing is fitted again.

        Parameters
        ----------
        alpha : float
            Dirichlet concentration; larger means less uncertainty.
        temperature : float, default=None
            What all logits are divided by; as it is if None.

        Returns
        -------
        RibbonClassifier
            A copy that shares all else with this one. Drawn weights are scaled, not drawn again.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
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
        chosen = np.maximum(distribution.mean()[np.arange(len(y)), y], np.finfo(float).tiny)
        score = weighted_mean(np.log(chosen), weight)
        return {"loo_distribution_": distribution, "loo_score_": score, "_left_out_": (y, weight)}

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
