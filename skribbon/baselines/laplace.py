"""The Laplace approximation: a Gaussian posterior whose precision is the curvature of the training loss."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split

from .._core.ribbon import Ribbon
from .._core.training import Training
from .._estimators.base_model import adopt, own_copy
from .._estimators.classifier import ClassificationMethods
from .._estimators.regressor import RegressionMethods
from .._estimators.ribbon import parameter_covariance, raw_root, uncertain_latent
from .._predict.target import TargetScale
from .._utils.checks import check_levels, checked_weight, is_name
from .._utils.compat import safe_indexing
from .._utils.typing import CurvatureName, RandomState
from ..curvature import Curvature, resolve_curvature
from ..models.base import training_rows
from ..noise.fit import resolve_noise
from ..noise.scale import Noise
from .ensembles import WeightedFit

PRIORS = np.logspace(-4, 4, 25)  # prior precisions tried by "validation": three per decade resolve the best score


@dataclass(repr=False, eq=False)
class _Laplace(WeightedFit):
    """Normal posterior of the parameters; a subclass writes ``_observation`` and ``_log_score``."""

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    prior_precision: Literal["base", "validation"] | float = "base"
    curvature: CurvatureName | Curvature = "auto"
    validation_fraction: float = 0.2
    random_state: RandomState = None

    _latent, _raw_root, covariance_ = uncertain_latent, raw_root, property(parameter_covariance)

    def _fitted(self, X, y, sample_weight):
        self._check_parameters()
        prior, scores = self.prior_precision, {}
        if prior == "validation":
            prior, scores["prior_scores_"] = self._tune(X, y, sample_weight)
        fitted, training = self._fit_training(X, y, sample_weight)
        observation, dispersion = self._observation(fitted, training)
        ribbon, precision = self._posterior(training, dispersion, prior)
        found = {"ribbon_": ribbon, "prior_precision_": precision, "_findings_": tuple(training.findings.values())}
        return fitted | observation | scores | found

    def _check_parameters(self):
        prior = self.prior_precision
        number = isinstance(prior, Real) and not isinstance(prior, bool) and np.isfinite(prior) and prior >= 0
        if not number and not is_name(prior, "base", "validation"):
            raise ValueError(f"prior_precision must be 'base', 'validation' or a number >= 0, got {prior!r}.")
        check_levels(self.validation_fraction, "validation_fraction")

    def _fit_training(self, X, y, sample_weight):
        """Fit the base model and its curvature, which do not depend on the prior."""
        fitted, model, weight = self._fit_base(X, y, sample_weight)
        rows = training_rows(model, own_copy(fitted["estimator_"], X), y, weight)
        curvature = resolve_curvature(self.curvature, "auto", model, rows.n_rows)
        model = curvature.view(model)
        training = Training.from_rows(rows.at(model), curvature)
        training.findings.report("convergence", training.stationarity, cure=model.cure)
        found = {"model_": model, "curvature_": curvature, "stationarity_": training.stationarity}
        return fitted | found, training

    def _posterior(self, training, dispersion, prior):
        """Compute the parameters' distribution and its prior precision, a number or (p,)."""
        rows, n, p = training.rows, training.n, len(training.rows.model.theta)
        if prior == "base":
            H_r = training.H_r
            prior = n * rows.model.l2 / dispersion if dispersion > 0 else np.full(p, np.inf)
        else:
            model = replace(rows.model, l2=np.full(p, dispersion * prior / n))
            H_r = training.curvature.factor(rows.at(model), training.moments)
        return Ribbon(np.sqrt(dispersion / n) * H_r.inverse_root, H_r.null, np.zeros((p, 0)), n), prior

    def _tune(self, X, y, sample_weight):
        """Choose the prior precision with the best mean log score of held-out rows, and return all scores."""
        weight = np.ones(len(y)) if sample_weight is None else checked_weight(sample_weight, X)
        classes, split = y if is_classifier(self) else None, {"test_size": self.validation_fraction}
        train, test = train_test_split(np.arange(len(y)), random_state=self.random_state, stratify=classes, **split)
        trial, weight_train = clone(self), None if sample_weight is None else weight[train]
        fitted, training = trial._fit_training(safe_indexing(X, train), y[train], weight_train)
        (observation, dispersion), scores = trial._observation(fitted, training), []
        for prior in PRIORS:
            adopt(trial, fitted | observation | {"ribbon_": trial._posterior(training, dispersion, prior)[0]})
            scores.append(np.average(trial._log_score(safe_indexing(X, test), y[test]), weights=weight[test]))
        return float(PRIORS[np.argmax(scores)]), dict(zip(PRIORS.tolist(), map(float, scores), strict=True))


@dataclass(repr=False, eq=False, kw_only=True)
class LaplaceRegressor(RegressorMixin, RegressionMethods, _Laplace):
    r"""Laplace approximation for regression: a normal posterior from the curvature alone, with linearized predictions.

    The covariance is :math:`((n / \sigma^2) H + \Lambda)^{-1}`, with H the mean curvature of the loss, J'J / n for
    least squares. It is right for a correctly specified Bayesian model; no sandwich corrects it if the model is wrong.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None.
    prior_precision : {"base", "validation"} or float, default="base"
        Lambda. "base" is the base model's own penalty, read as a prior; a number replaces the penalty of all
        parameters, biases too; "validation" chooses that number by the log score of held-out rows.
    curvature : str or Curvature, default="auto"
        As in :class:`~skribbon.RibbonRegressor`; damping is set on a Curvature object.
    validation_fraction : float, default=0.2
        Share of the rows that ``prior_precision="validation"`` holds out.
    random_state : int, RandomState or None, default=None
        Seed of that split, and of every ``random_state`` inside the base model that is None.
    noise : {"train", "dof", "loo", "heteroskedastic"}, float or Noise, default="train"
        Observation noise; its mean variance is the sigma^2 of the likelihood.

    Attributes
    ----------
    estimator_, model_ : estimator and ParametricModel
        The fitted base model, and the same as a function of its parameters ``model_.theta``.
    prior_precision_ : float or ndarray of shape (p,)
    prior_scores_ : dict
        Mean log score of the held-out rows for every prior precision that was tried.
    ribbon_, covariance_, stationarity_, noise_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.RibbonRegressor`.

    See Also
    --------
    skribbon.RibbonRegressor : The robust sandwich instead of the inverse curvature.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Daxberger, E. et al. (2021). Laplace Redux: Effortless Bayesian Deep Learning. NeurIPS.

    Examples
    --------
    >>> from skribbon.baselines import LaplaceRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> laplace = LaplaceRegressor(prior_precision=1e-4).fit(X[:400], y[:400])
    >>> laplace.predict_interval(X[400:], confidence_level=0.9).shape
    (42, 2)
    """

    noise: Literal["train", "dof", "loo", "heteroskedastic"] | float | Noise = "train"
    _default_estimator = LinearRegression
    _log_score = RegressionMethods.log_density

    def _check_parameters(self):
        resolve_noise(self.noise)
        super()._check_parameters()

    def _observation(self, fitted, training):
        rows, noise = training.rows, resolve_noise(self.noise).fit(training.outputs[0])
        dispersion = float(np.average(np.broadcast_to(noise.predict(rows.X), rows.y.shape), weights=rows.weight))
        return {"noise_": noise, "target_scale_": TargetScale.of(fitted["model_"], rows.y)}, dispersion

    def _predict_mean(self, X):
        return self.estimator_.predict(X)


class LaplaceClassifier(ClassifierMixin, ClassificationMethods, _Laplace):
    r"""Laplace approximation for classification: a normal posterior from the curvature alone, through the softmax.

    Logits have the covariance :math:`J (n H + \Lambda)^{-1} J'`. The distribution of the logits is carried through the
    softmax itself, not through a linearization of it.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None.
    prior_precision, curvature, validation_fraction, random_state : str or float, str, float and int
        As in :class:`~skribbon.baselines.LaplaceRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    estimator_, model_, prior_precision_, prior_scores_ : estimator, ParametricModel, float and dict
    ribbon_, covariance_, stationarity_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.LaplaceRegressor`.

    See Also
    --------
    skribbon.RibbonClassifier : The robust sandwich instead of the inverse curvature.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Daxberger, E. et al. (2021). Laplace Redux: Effortless Bayesian Deep Learning. NeurIPS.

    Examples
    --------
    >>> from skribbon.baselines import LaplaceClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> laplace = LaplaceClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
    >>> laplace.predict_proba_interval(X[:2]).shape
    (2, 3, 2)
    """

    _default_estimator = LogisticRegression

    def _observation(self, fitted, training):
        return {"classes_": fitted["model_"].classes}, 1.0

    def _log_score(self, X, y):
        own = np.searchsorted(self.classes_, y)
        return self.predict_log_proba(X)[np.arange(len(own)), own]
