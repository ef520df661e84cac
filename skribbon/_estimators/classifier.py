"""RibbonClassifier, and the predict methods of every classifier whose logits are uncertain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.metaestimators import available_if

from .._core.thresholds import SEPARATION
from .._predict.classes import ClassProbabilities, Scaling
from .._predict.held_out import HeldOut
from .._predict.predictive import Latent
from .._utils import checks
from .._utils import typing as options
from .._utils.compat import limit_blas, public_fit
from .._utils.frames import index_of, polars_in_polars_out
from .._utils.typing import FloatArray, Levels, MatrixLike, PerRow, RandomState
from .._utils.unwrap import innermost
from ..conformal.calibration import Calibration, calibrate_classes, conformal_set
from ..conformal.left_out import CrossConformal
from .base_model import adopt, calibration_rows, lazily, prepared, validated
from .held_out import last_findings, refits_or_set_aside, unseen_rows
from .ribbon import BaseRibbon, first_pass, fit_ribbon, loo_record, may_be_refitted, settled, warn_of_training_rows
from .settings import Settings, check_temperature
from .temperature import left_out_record, scaled_probabilities, spread_by_refits, unseen_records

if TYPE_CHECKING:
    import pandas as pd


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
    _prepared = prepared
    _scaling = Scaling(exact=True)  # how logits become probabilities

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
        >>> RibbonClassifier().fit(X[50:, 2:], y[50:]).predict_distribution(X[70:71, 2:]).quantile(0.95).round(2)
        array([[0.6 , 0.67]])
        """
        return ClassProbabilities(self._latent(self._prepared(X)), self.model_.loss, self._scaling)

    def __getattr__(self, name):
        """Raise what a property raised, or an AttributeError that for ``predict_interval`` names other methods."""
        if name == "predict_interval":
            raise AttributeError(
                f"{type(self).__name__} predicts classes, which have no interval. Use predict_proba_interval(X) for "
                "intervals of the class probabilities, or conformalize(X_cal, y_cal) and predict_set(X) for sets of "
                "classes with guaranteed coverage."
            )
        return self.__getattribute__(name)

    @lazily
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Most probable class.

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
        """Predicted class probabilities, deterministic.

        With ``temperature="auto"``, temperature, bias and averaging are those that held-out rows support; see
        ``scaling_``. With a number, probabilities are averaged over the distribution of the parameters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, K)
            Rows sum to one.
        """
        checks.check_fitted(self)
        if self._scaling.averaged:
            return self.predict_distribution(X).mean()
        f = self._raw(self._prepared(X))  # no covariance is needed
        latent = Latent(f, np.zeros((*f.shape, f.shape[1])))
        return ClassProbabilities(latent, self.model_.loss, self._scaling).mean()

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

        Draws show the uncertainty of the parameters. With few groups or rows, they vary
        less than :meth:`predict_proba_interval`, which uses Student's t. Their mean is :meth:`predict_proba` with
        ``averaging="exact"`` and a temperature of at most one; a higher temperature, or plain probabilities, move the
        prediction but not the draws.

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
        >>> ribbon.predict_proba_samples(X[70:71, 2:], n_samples=3, random_state=0)[:, 0, 1].round(2)
        array([0.64, 0.56, 0.51])
        """
        return self.predict_distribution(X).sample(n_samples, random_state)

    @lazily
    def predict_proba_interval(self, X: MatrixLike, confidence_level: Levels = 0.9) -> FloatArray:
        """Central interval of every class probability.

        It covers the average probability that this penalized model would predict over repeated samples of this size,
        not the true probability: a strong penalty moves all fits away from the truth, which no interval of one fit
        shows. A temperature below one moves the interval with the prediction; one above does not narrow it. The
        predicted probability is always inside.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n_samples, K, 2) or (n_samples, K, 2, L)
            Lower and upper bounds; the last axis is present if a sequence of levels was given.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> RibbonClassifier().fit(X[50:, 2:], y[50:]).predict_proba_interval(X[70:71, 2:]).round(2)
        array([[[0.33, 0.6 ],
                [0.4 , 0.67]]])
        """
        return self.predict_distribution(X).interval(confidence_level)

    def conformalize(
        self,
        X_cal: MatrixLike,
        y_cal: ArrayLike,
        sample_weight: PerRow = None,
        groups: PerRow = None,
        *,
        score: options.ClassScoreName = "lac",
        class_conditional: bool = False,
        randomized: bool = False,
        random_state: RandomState = None,
    ) -> Self:
        """Learn from held-out rows how large label sets must be to reach their nominal coverage.

        Nothing is refitted. Afterwards :meth:`predict_set` contains the class of a new row with a probability of at
        least the level, however wrong the model is, if the calibration rows and the new rows are exchangeable.

        Parameters
        ----------
        X_cal : {array-like, sparse matrix} of shape (m, n_features)
        y_cal : array-like of shape (m,)
        sample_weight : array-like of shape (m,), default=None
            Under covariate shift, the density ratio of the features, rows to predict over calibration rows, up to a
            constant factor; :meth:`predict_set` then needs the ratio for the rows to predict. Without it, these weights
            are frequencies.
        groups : array-like of shape (m,), default=None
            Group labels. The guarantee then holds within each group, from the calibration rows of that group.
        score : {"lac", "aps"}, default="lac"
            "lac" includes all classes above a probability, for the smallest sets on average; "aps" includes the most
            probable classes up to a total probability, for larger sets at harder rows.
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
        distribution, y = self.predict_distribution(X_cal), checks.check_target(self, y_cal)
        check_consistent_length(distribution, y)
        own = self.model_.encode_target(y).astype(int)
        weight = checks.checked_weight(sample_weight, X_cal)
        held_out = HeldOut(distribution, distribution.latent.f, own, weight, groups, "calibration")
        conformal = calibrate_classes(held_out, score, class_conditional, _uniform(randomized, random_state, len(own)))
        warn_of_training_rows(self, X_cal, y, weight)
        self.conformal_ = replace(conformal, randomized=randomized)
        return self

    @lazily
    def predict_set(
        self,
        X: MatrixLike,
        confidence_level: Levels = 0.9,
        kind: Literal["conformal", "cv+"] = "conformal",
        groups: PerRow = None,
        sample_weight: PerRow = None,
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
        groups, sample_weight : array-like of shape (n_samples,), default=None
            Group labels and weights of the rows, if :meth:`conformalize` was given such.
        allow_empty : bool, default=True
            Whether a set may be empty. Otherwise it contains at least the most probable class, and coverage exceeds the
            level.
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
        array([0.97, 1.43])
        """
        checks.check_name(kind, "kind", ("conformal", "cv+"))
        checks.check_fitted(self)
        _, scalar = checks.check_levels(confidence_level, "confidence_level")
        if kind == "cv+":
            if not (groups is None and sample_weight is None):
                raise ValueError("groups and sample_weight are for kind='conformal'; do not pass them with kind='cv+'.")
            if not hasattr(self, "_folds_"):
                raise ValueError("kind='cv+' needs the fits of the folds: use RibbonCV(..., store_folds=True).")
            sets = self._folds_.sets(validated(self, X), confidence_level)
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
    @polars_in_polars_out
    def predict_frame(self, X: MatrixLike, confidence_level: float = 0.9) -> pd.DataFrame:
        """Tabulate the predicted class, and every class probability with its interval.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, then proba, lower and upper for each class; the index of X is kept. A polars
            table if X is one.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonClassifier().fit(X.iloc[50:, 2:], y[50:])
        >>> ribbon.predict_frame(X.iloc[70:71, 2:]).round(2)
            prediction  proba_1  lower_1  upper_1  proba_2  lower_2  upper_2
        70           2     0.46     0.33      0.6     0.54      0.4     0.67
        """
        import pandas as pd

        level = checks.check_single_level(confidence_level)
        distribution = self.predict_distribution(X)
        proba, intervals = distribution.mean(), distribution.interval(level)
        columns = {"prediction": self.classes_[proba.argmax(axis=1)]}
        for k, label in enumerate(self.classes_):
            columns[f"proba_{label}"] = proba[:, k]
            columns[f"lower_{label}"], columns[f"upper_{label}"] = intervals[:, k].T
        return pd.DataFrame(columns, index=index_of(X))

    @lazily
    def decision_function(self, X: MatrixLike) -> FloatArray:
        """Log odds of the predicted probabilities, which rank rows as :meth:`predict_proba` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, K)
        """
        scores = np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores - scores.mean(axis=1, keepdims=True)


def _uniform(randomized, random_state, n):
    """Draw uniform random numbers (n,); zero without randomization."""
    return check_random_state(random_state).uniform(size=n) if randomized else 0.0


@dataclass(repr=False, eq=False, kw_only=True)
class RibbonClassifier(ClassifierMixin, ClassificationMethods, BaseRibbon):
    r"""Calibrated class probabilities, with intervals, for a differentiable classifier.

    Wrap a logistic regression, a neural network or a pipeline, and call ``fit``. The base model is fitted once; see
    ``held_out`` for the cases in which it is refitted to choose the temperature.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None. A :class:`~sklearn.pipeline.Pipeline` and a fitted model in a
        :class:`~sklearn.frozen.FrozenEstimator` are base models too.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap, whose variance is n/(n + 1)
        times the sandwich, or G/(G + 1) times with G groups; (n - 1)/n, or (G - 1)/G, gives the sandwich itself.
    curvature : str or Curvature, default="auto"
        The curvature H, as in :class:`RibbonRegressor`.
    damping : "auto" or float, default="auto"
        Added to the diagonal of H_r. "auto" follows the rule in :class:`RibbonRegressor`, without the bound by the
        variance of y. A network that is refitted because it may have memorized its rows keeps at most 0.5 effective
        parameters per row. Any other network keeps at most 0.25 if it was not trained to a minimum or has more than
        0.75, with a warning.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores, as in :class:`RibbonRegressor`, but "auto" is never HC3. With "HC1" and
        "HC2", intervals of probabilities use Student's t quantiles.
    predictive : {"gaussian", "pushforward", "direct", "newton"}, default="gaussian"
        How parameter uncertainty reaches the logits: "gaussian", in closed form; "pushforward", by ``n_draws``
        Dirichlet draws along the model's tangent; "direct", by the model evaluated at those draws; "newton", by the
        model at draws after a full Newton step. "newton" needs a p x p array per draw.
    n_draws : int, default=100
        Number of Dirichlet draws if ``predictive`` is not "gaussian", or if the closed form needs too much memory.
    clip_scores, clip_steps : float, default=None
        Bounds on the influence of single rows and on single draws, as in :class:`RibbonRegressor`.
    held_out : "auto", "loo", "early_stopping", int, splitter or iterable, default="auto"
        Source of the held-out logits for ``temperature="auto"``. "auto" uses leave-one-out predictions in closed form;
        if one step does not reach them (the base model is not at its minimum, the classes are separable, or a network
        may have memorized its rows), it refits the base model without each of five folds. "loo", "early_stopping", a
        number of folds or a splitter as in :class:`RibbonRegressor`.
    store_loo : bool, default=False
        Keep leave-one-out results for each training row, to first order: ``loo_score_`` and ``loo_distribution_``.
    n_jobs : int, default=None
        Number of refits to run in parallel.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.
    verbose : int, default=0
        If positive, print a line for every refit and for every pass over a Dask table. With scikit-learn 1.9 or newer,
        ``set_callbacks`` as in :class:`RibbonRegressor`.
    temperature : "auto" or float, default="auto"
        Divides all logits. "auto" chooses it, with a bias for each class, by the likelihood of held-out rows, and keeps
        the plain probabilities of the base model if these are better. A number is used as it is, without a bias, and
        probabilities are averaged over the distribution of the parameters; 1.0 is the setting of the paper.
    averaging : {"closed", "exact"}, default="closed"
        How probabilities are averaged, and intervals of more than two classes computed: "closed", by the probit
        approximation for each pair of classes, with errors of up to 0.02 for two classes and more for several; "exact",
        by quadrature, which is slower. The temperature of more than two classes is always chosen in closed form.
    weight_type : {"frequency", "importance"}, default="frequency"
        Meaning of ``sample_weight``. "frequency": an integer weight is equivalent to that many copies of the row.
        "importance", for survey weights and inverse propensities: the weight multiplies the loss of the row, which is
        one observation.

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
    temperature_ : float
        The temperature that was used.
    scaling_ : Scaling
        Temperature, bias of each class, whether probabilities are averaged, and the log losses that were compared.
    held_out_ : HeldOutSummary or None
        Source and number of the rows that ``scaling_`` was learnt from; None if the temperature is a number.
    correction_ : str
        The correction that was used: HC0 to HC3, or with ``groups`` CR0 to CR3.
    stationarity_ : float
        Size of the training gradient, in its own standard errors; near zero at an optimum.
    effective_parameters_ : float
        Trace of the hat matrix: the number of parameters that the penalty leaves free.
    n_observations_ : float
        Sum of the weights, or the number of rows with a positive weight if weights are not frequencies.
    n_groups_ : int, tuple of int, or None
        Number of groups, of each grouping if they cross; None without ``groups``, or if every group is a single
        observation.
    loo_score_ : float
        Mean log probability of the training labels under ``loo_distribution_``. Only if ``store_loo``.
    loo_distribution_ : ClassProbabilities
        Class probabilities of each training row under the fit to all other rows, or groups. Only if ``store_loo``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X has feature names that are all strings.

    See Also
    --------
    RibbonRegressor : Prediction intervals for a regressor.
    RibbonCV : Choose alpha and temperature on held-out rows.
    skribbon.inspection.coefficients : Table of coefficients with robust standard errors.
    skribbon.inspection.check : Check the assumptions of a fit.
    skribbon.baselines.BayesianBootstrapClassifier : Exact refits instead of linear steps.

    Notes
    -----
    The Bayesian bootstrap, linearized by influence functions, gives the parameters the robust covariance

    .. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1},

    with :math:`H_r` the penalized curvature and :math:`H_{F,c}` the covariance of the rows' gradients. The distribution
    of the logits passes through the exact softmax.

    User guide: :doc:`/user_guide/classification`, :doc:`/user_guide/networks`, :doc:`/user_guide/guarantees`.

    References
    ----------
    * Gibson, G., Tipton, J., Rumsey, K. and Klein, N. Ribbon: Scalable Approximation and Robust Uncertainty
      Quantification.
    * Rubin, D. B. (1981). The Bayesian Bootstrap. Annals of Statistics 9.
    * Newton, M. A. and Raftery, A. E. (1994). Approximate Bayesian Inference with the Weighted Likelihood Bootstrap.
      Journal of the Royal Statistical Society B 56.
    * White, H. (1980). A Heteroskedasticity-Consistent Covariance Matrix Estimator and a Direct Test for
      Heteroskedasticity. Econometrica 48.
    * Giordano, R., Stephenson, W., Liu, R., Jordan, M. I. and Broderick, T. (2019). A Swiss Army Infinitesimal
      Jackknife. AISTATS.
    * Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On Calibration of Modern Neural Networks. ICML.

    Examples
    --------
    >>> X, y = load_iris(return_X_y=True)
    >>> ribbon = RibbonClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
    >>> ribbon.predict_proba_interval(X[70:71], confidence_level=0.9).round(1)
    array([[[0. , 0. ],
            [0.2, 0.6],
            [0.4, 0.8]]])
    """

    temperature: float | Literal["auto"] = "auto"
    averaging: Literal["closed", "exact"] = "closed"
    weight_type: Literal["frequency", "importance"] = "frequency"

    def __sklearn_tags__(self):
        tags, (leaf, _) = super().__sklearn_tags__(), innermost(self._get_estimator())
        tags.classifier_tags.multi_class = not isinstance(leaf, SGDClassifier)  # which fits each class against the rest
        return tags

    def _default_estimator(self):
        return LogisticRegression()

    @public_fit
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None, groups: PerRow = None) -> Self:
        """Fit the base model and its ribbon.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, whose meaning is ``weight_type``.
        groups : array-like of shape (n_samples,) or (n_samples, k), or tuple of k arrays, default=None
            Group labels: rows with the same label, such as one person or day, may depend on each other. Each group gets
            one Dirichlet weight. If k groupings cross, as shops and products, the weight of a row is a product.

        Returns
        -------
        self : RibbonClassifier
        """
        y, settings = checks.check_target(self, y), Settings.from_classifier(self)
        base = self._fit_base_model(X, y, sample_weight, groups)
        return self._fit_around(settings, base, (X, y, sample_weight, groups))

    def _fit_around(self, settings, base, table, unseen=None, records=None):
        """Fit the ribbon and the temperature around ``base``, the base model's fitted attributes and training rows.

        ``table`` is X, y, sample_weight and groups; ``unseen``, if known, are logits of rows that fits have not seen.
        HeldOut records are appended to ``records``.
        """
        fitted, rows = base
        whole, estimator = rows.model, fitted["estimator_"]
        with limit_blas(rows.n_rows, len(whole.theta)):
            training = first_pass(self, settings, rows)  # H_r
        if unseen is None:
            unseen = unseen_rows(self, settings, estimator, training, whole, table)
        with limit_blas(rows.n_rows, len(whole.theta)):
            training, found = settled(self, training, whole, unseen)
            fitted = fitted | found | fit_ribbon(settings, training)  # the second pass: corrected scores, the ribbon
            fitted["classes_"] = fitted["model_"].classes
            found, reason = [], None
            if checks.is_name(settings.temperature, "auto") and unseen is None:
                record, reason = left_out_record(fitted, training, settings.weight_type)
                found = [record] if reason is None or not checks.is_name(settings.held_out, "auto") else []
        if reason and not found and may_be_refitted(self, rows):
            unseen = refits_or_set_aside(self, settings.held_out, estimator, whole, rows, table)
        with limit_blas(rows.n_rows, len(whole.theta)):
            if unseen is not None:
                fitted["ribbon_"] = spread_by_refits(fitted, training, unseen)
                found = unseen_records(fitted, training, unseen, settings.weight_type)
            plain, (observed, expected) = bool(reason and not found), training.moments.squared_scores
            finding = "separation", float(observed / expected) if expected > 0 else 1.0
            fault = plain or finding[1] < SEPARATION
            if plain and "separable" not in reason:
                finding = "convergence", training.stationarity
            if unseen is None or not fault:  # refits widen the intervals of separable classes
                training.findings.report(*finding, fault=fault, text="plain" if plain else None, reason=reason)
            if records is None:
                fitted |= scaled_probabilities(settings, found, whole)
            else:  # a search chooses the temperature
                fitted |= scaled_probabilities(settings, [], whole)
                records.extend(found)
            fitted |= last_findings(fitted, training, unseen)
            if settings.store_loo:
                y = training.rows.y.astype(int)
                predict = partial(ClassProbabilities, loss=whole.loss, scaling=fitted["scaling_"])
                fitted["_loo_"] = loo_record(settings, fitted, training, y, predict)
        return adopt(self, fitted)

    @property
    def _scaling(self):
        return self.scaling_

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
            A copy that shares everything else. Drawn weights are rescaled, not redrawn.

        Examples
        --------
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.with_alpha(1.0, temperature=0.5).predict_proba(X[70:71, 2:]).round(2)
        array([[0.46, 0.54]])
        """
        other = super().with_alpha(alpha)
        if temperature is not None:
            check_temperature(temperature)
            other.temperature = temperature
            other._with_scaling(Scaling(float(temperature), exact=self.scaling_.exact))
        return other

    def _with_scaling(self, scaling):
        """Set how logits become probabilities; returns the Ribbon."""
        self.scaling_, self.temperature_ = scaling, scaling.temperature
        if hasattr(self, "_loo_"):
            self._loo_ = self._loo_.with_scaling(scaling)
        return self

    @staticmethod
    def _log_scores(record):
        """Log probabilities (n,) of the classes in a HeldOut record."""
        probabilities = record.distribution.mean()[np.arange(len(record)), record.y]
        return np.log(np.maximum(probabilities, np.finfo(float).tiny))

    decision_function = available_if(
        lambda self: hasattr(getattr(self, "estimator_", None) or self._get_estimator(), "decision_function")
    )(ClassificationMethods.decision_function)
