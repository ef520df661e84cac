"""The Laplace approximation: a Gaussian posterior whose precision is the curvature of the training loss."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split

from .._core.ribbon import Ribbon
from .._estimators.base_model import adopt, own_copy
from .._estimators.regressor import RegressionMethods
from .._estimators.ribbon import UncertainParameters
from .._predict.target import TargetScale
from .._utils.checks import check_target, checked_weight
from .._utils.compat import safe_indexing
from .._utils.typing import CurvatureName, MatrixLike, RandomState
from ..curvature import Curvature
from ..models.base import training_rows
from ..noise.scale import Noise, resolve_noise
from ._members import AveragedClassification

PRIORS = np.logspace(-4, 4, 25)  # candidates of prior_precision="validation", three to a factor of ten


@dataclass(repr=False, eq=False)
class _Laplace(UncertainParameters):
    r"""Covariance :math:`((n / \phi) H + \Lambda)^{-1}` around the fitted parameters, carried along the tangent.

    Divided by n / phi this is H plus a penalty phi Lambda / n, which the curvature classes know how to factor. A
    subclass writes ``_observation``, which returns what is fitted of the observations and phi, and ``_log_score``.
    """

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    prior_precision: Literal["base", "validation"] | float = "base"
    curvature: CurvatureName | Curvature = "auto"
    validation_fraction: float = 0.2
    random_state: RandomState = None

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the base model and its Gaussian posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: how often each row was observed.

        Returns
        -------
        self
        """
        return adopt(self, self._fit_posterior(X, check_target(self, y), sample_weight))

    def _fit_posterior(self, X, y, sample_weight):
        """Everything that is fitted, by attribute name."""
        self._check_parameters()
        prior, scores = self.prior_precision, {}
        if prior == "validation":
            prior, tried = self._tune(X, y, sample_weight)
            scores = {"prior_scores_": tried}
        fitted, training = self._fit_training(X, y, sample_weight)
        observation, dispersion = self._observation(fitted, training)
        ribbon, precision = self._posterior(training, dispersion, prior)
        return fitted | observation | scores | {"ribbon_": ribbon, "prior_precision_": precision}

    def _check_parameters(self):
        prior = self.prior_precision
        number = isinstance(prior, Real) and not isinstance(prior, bool) and np.isfinite(prior) and prior >= 0
        if not number and not (isinstance(prior, str) and prior in ("base", "validation")):
            raise ValueError(f"prior_precision must be 'base', 'validation' or a number >= 0, got {prior!r}.")
        share = self.validation_fraction
        if not isinstance(share, Real) or not 0 < share < 1:
            raise ValueError(f"validation_fraction must lie strictly between 0 and 1, got {share!r}.")

    def _fit_training(self, X, y, sample_weight):
        """Base model and curvature: all that does not depend on the prior."""
        fitted, model, weight = self._fit_base(X, y, sample_weight)
        X = own_copy(fitted["estimator_"], X)
        rows = training_rows(model, X, y, weight)
        training = self._training(fitted, rows, as_ribbon=False)  # a prior is on the parameters as they are
        return fitted, training

    def _posterior(self, training, dispersion, prior):
        """The parameters' distribution and its prior precision, a number or (p,)."""
        rows, n = training.rows, training.n
        if prior == "base":
            H_r = training.H_r
            prior = n * rows.model.l2 / dispersion if dispersion > 0 else np.full(len(rows.model.theta), np.inf)
        else:
            model = replace(rows.model, l2=np.full(len(rows.model.theta), dispersion * prior / n))
            H_r = training.curvature.factor(rows.at(model), training.moments)
        return Ribbon(np.sqrt(dispersion / n) * H_r.inverse_root, H_r.null, np.zeros((len(rows.model.theta), 0))), prior

    def _tune(self, X, y, sample_weight):
        """The prior precision with the best mean log score of held-out rows, and the scores of all."""
        weight = np.ones(len(y)) if sample_weight is None else checked_weight(sample_weight, X)
        train, test = train_test_split(
            np.arange(len(y)),
            test_size=self.validation_fraction,
            random_state=self.random_state,
            stratify=y if is_classifier(self) else None,
        )
        trial = clone(self)
        fitted, training = trial._fit_training(
            safe_indexing(X, train), y[train], None if sample_weight is None else weight[train]
        )
        (observation, dispersion), scores = trial._observation(fitted, training), []
        for prior in PRIORS:
            adopt(trial, fitted | observation | {"ribbon_": trial._posterior(training, dispersion, prior)[0]})
            score = trial._log_score(safe_indexing(X, test), y[test])
            scores.append(np.average(score, weights=weight[test]))
        return float(PRIORS[np.argmax(scores)]), dict(zip(PRIORS.tolist(), map(float, scores), strict=True))


@dataclass(repr=False, eq=False, kw_only=True)
class LaplaceRegressor(RegressorMixin, RegressionMethods, _Laplace):
    r"""Laplace approximation, curvature only: :math:`((n / \sigma^2) H + \Lambda)^{-1}`, linearized predictions.

    H is the mean curvature of the loss, J'J / n for least squares, so the covariance is that of a correctly specified
    Bayesian model: no sandwich corrects it if the model is wrong.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None.
    prior_precision : {"base", "validation"} or float, default="base"
        Lambda. "base" is the base model's own penalty, read as a prior; a number holds for all parameters, biases
        too, in the penalty's place; "validation" chooses that number by the log score of held-out rows, for a base
        model trained without them, and then trains on all rows.
    curvature : str or Curvature, default="auto"
        As in :class:`~skribbon.RibbonRegressor`; damping is set on a Curvature object.
    validation_fraction : float, default=0.2
        Share of the rows that ``prior_precision="validation"`` holds out.
    random_state : int, RandomState or None, default=None
        Seed of that split, and of every ``random_state`` inside the base model that is None.
    noise : {"train", "dof", "loo", "heteroskedastic"}, float or Noise, default="train"
        Observation noise; its (mean) variance is also the sigma^2 of the likelihood.

    Attributes
    ----------
    estimator_ : estimator
        The fitted base model.
    model_ : ParametricModel
        The base model as a function of its parameters ``model_.theta``.
    ribbon_ : Ribbon
        Distribution of the parameters around ``model_.theta``.
    covariance_ : ndarray of shape (p, p)
        Covariance of ``model_.theta``.
    prior_precision_ : float or ndarray of shape (p,)
    prior_scores_ : dict
        Mean log score of the held-out rows for every prior precision that was tried.
    stationarity_ : float
        Size of the training gradient, in its own standard errors; near zero at an optimum.
    noise_ : Noise
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from skribbon.baselines import LaplaceRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> laplace = LaplaceRegressor(prior_precision=1e-4).fit(X[:400], y[:400])
    >>> laplace.predict_interval(X[400:], confidence_level=0.9).shape
    (42, 2)
    """

    noise: Literal["train", "dof", "loo", "heteroskedastic"] | float | Noise = "train"

    def _default_estimator(self):
        return LinearRegression()

    def _check_parameters(self):
        resolve_noise(self.noise)
        super()._check_parameters()

    def _observation(self, fitted, training):
        rows, noise = training.rows, resolve_noise(self.noise).fit(training.outputs[0])
        dispersion = float(np.average(np.broadcast_to(noise.predict(rows.X), rows.y.shape), weights=rows.weight))
        return {"noise_": noise, "target_scale_": TargetScale.of(fitted["model_"], rows.y)}, dispersion

    def _log_score(self, X, y):
        return self.log_density(X, y)

    def _predict_mean(self, X):
        return self.estimator_.predict(X)


class LaplaceClassifier(ClassifierMixin, AveragedClassification, _Laplace):
    r"""Laplace approximation, curvature only: logits with covariance :math:`J (n H + \Lambda)^{-1} J'`.

    The distribution of the logits is carried through the softmax itself, not through a linearization of it.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None.
    prior_precision : {"base", "validation"} or float, default="base"
        Lambda. "base" is the base model's own penalty, read as a prior; a number holds for all parameters, biases
        too, in the penalty's place; "validation" chooses that number by the log score of held-out rows, for a base
        model trained without them, and then trains on all rows.
    curvature : str or Curvature, default="auto"
        As in :class:`~skribbon.RibbonClassifier`; damping is set on a Curvature object.
    validation_fraction : float, default=0.2
        Share of the rows that ``prior_precision="validation"`` holds out.
    random_state : int, RandomState or None, default=None
        Seed of that split, and of every ``random_state`` inside the base model that is None.

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
    prior_precision_ : float or ndarray of shape (p,)
    prior_scores_ : dict
        Mean log score of the held-out rows for every prior precision that was tried.
    stationarity_ : float
        Size of the training gradient, in its own standard errors; near zero at an optimum.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from skribbon.baselines import LaplaceClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> laplace = LaplaceClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
    >>> laplace.predict_proba_interval(X[:2]).shape
    (2, 3, 2)
    """

    def _default_estimator(self):
        return LogisticRegression()

    def _observation(self, fitted, training):
        return {"classes_": fitted["model_"].classes}, 1.0

    def _log_score(self, X, y):
        own = np.searchsorted(self.classes_, y)
        return self.predict_log_proba(X)[np.arange(len(own)), own]
