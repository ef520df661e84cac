"""RibbonClassifier."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.metaestimators import available_if

from ._base import BaseRibbon
from ._classification import ClassificationPredictions
from ._typing import Correction, CurvatureName, FloatArray, MatrixLike, Predictive, RandomState
from ._wrapper import check_target
from .curvature import Curvature


def _base_has(name):
    def check(self):
        return hasattr(getattr(self, "estimator_", None) or self._get_estimator(), name)

    return check


class RibbonClassifier(ClassifierMixin, ClassificationPredictions, BaseRibbon):
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
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap.
    curvature : str or Curvature, default="auto"
        H. Dense: "hessian", exact; "ggn", its generalised Gauss-Newton form, never indefinite; "fisher", the empirical
        Fisher matrix. For models too large for a p x p array: "kfac" (networks of dense layers), "low_rank", "diag",
        "last_layer", and "matrix_free", which solves by conjugate gradients. "auto" is exact where that can never be
        indefinite, Gauss-Newton elsewhere, and says so where memory or time ask for another. See
        :mod:`skribbon.curvature`.
    damping : "auto" or float, default="auto"
        Added to the diagonal of H_r. "auto" adds nothing and holds fixed what nothing determines.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores: "HC0" none, as in the paper; "HC1" by the mean leverage; "HC2" by each
        row's own leverage; "HC3" by leave-one-out scores. "auto" is HC3 where there are more than 5 effective
        parameters per 100 rows and a dense curvature, and HC1 otherwise.
    predictive : {"gaussian", "pushforward", "direct"}, default="gaussian"
        How parameter uncertainty reaches the logits: the closed form, ``n_draws`` Dirichlet draws along the model's
        tangent, or the model itself evaluated at those draws.
    n_draws : int, default=100
        Number of Dirichlet draws kept when ``predictive`` is not "gaussian", or where there are too many parameters for
        the closed form.
    store_loo : bool, default=False
        Keep what the fit to all other rows, to first order, says of each training row: ``loo_score_`` and
        ``loo_latent_``.
    random_state : int, RandomState or None, default=None
        Seeds the draws, and every ``random_state`` inside the base model that is None.

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
    stationarity_ : float
        Training gradient in standard errors of itself; near zero at an optimum.
    effective_parameters_ : float
        Sum of the leverages.
    n_observations_ : float
        Sum of the weights.
    loo_score_ : float
        Mean log probability of the training labels, each under the fit to all other rows. If ``store_loo``.
    loo_latent_ : Latent
        Raw predictions of the training rows, each by the fit to all others, with their covariance. If ``store_loo``.
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
            [0.43, 0.68]]])
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        alpha: float = 1.0,
        curvature: CurvatureName | Curvature = "auto",
        damping: float | Literal["auto"] = "auto",
        correction: Correction = "auto",
        predictive: Predictive = "gaussian",
        n_draws: int = 100,
        store_loo: bool = False,
        random_state: RandomState = None,
    ):
        self.estimator = estimator
        self.alpha = alpha
        self.curvature = curvature
        self.damping = damping
        self.correction = correction
        self.predictive = predictive
        self.n_draws = n_draws
        self.store_loo = store_loo
        self.random_state = random_state

    def _default_estimator(self):
        return LogisticRegression()

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the base model and its ribbon.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: how often each row was observed. Weights of another kind, such as exposures, scale the
            intervals with their unit.

        Returns
        -------
        self : RibbonClassifier
        """
        y = check_target(self, y)
        training = self._fit(X, y, sample_weight)
        self.classes_ = self.model_.classes
        if self.store_loo:
            rows, own = training.rows, training.rows.y.astype(int)
            self.loo_latent_ = self._leave_one_out_latent(training)
            averaged = self._averaged(self.loo_latent_)[np.arange(len(own)), own]
            self.loo_score_ = float(np.average(np.log(averaged), weights=rows.weight))
        return self

    @available_if(_base_has("decision_function"))
    def decision_function(self, X: MatrixLike) -> FloatArray:
        """Log odds of the averaged probabilities, so that they rank rows as :meth:`predict_proba` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, K)
        """
        scores = np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores - scores.mean(axis=1, keepdims=True)
