"""RibbonRegressor."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from ._base import BaseRibbon
from ._regression import RegressionPredictions, decreases
from ._typing import Correction, CurvatureName, MatrixLike, NoiseName, Predictive, RandomState
from ._wrapper import check_target
from .curvature import Curvature
from .noise import Noise, resolve_noise


class RibbonRegressor(RegressorMixin, RegressionPredictions, BaseRibbon):
    r"""Prediction intervals for a differentiable regressor, from a single fit.

    The base model is fitted once. Its Bayesian-bootstrap distribution, that of refits at weights
    :math:`w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)`, is then linearised by influence functions,

    .. math:: \Delta\theta_w = -H_r^{-1} \sum_i (w_i - 1/n)\, g_i,

    with :math:`g_i` the gradient of row i's loss and :math:`H_r` the penalised curvature. That gives the parameters a
    robust covariance,

    .. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1},

    with :math:`H_{F,c}` the covariance of the :math:`g_i`, and every prediction an epistemic variance; the observation
    noise is added on top.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None. A :class:`~sklearn.pipeline.Pipeline`, a
        :class:`~sklearn.compose.TransformedTargetRegressor` with a monotone transform, and a fitted model in a
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
    noise : {"dof", "train", "loo", "heteroskedastic", "cv"}, float or Noise, default="dof"
        Observation noise: the residual variance of a least-squares model, the dispersion of a GLM. "train" divides the
        sum of squared residuals by n - 1, as the paper does; "dof" by n minus the effective number of parameters;
        "loo" averages squared leave-one-out residuals; "heteroskedastic" lets it depend on x as far as the data ask;
        a number is taken as it is; "cv", inside a :class:`~skribbon.RibbonCV`, is the mean square of out-of-fold
        residuals. See :mod:`skribbon.noise`.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores: "HC0" none, as in the paper; "HC1" by the mean leverage; "HC2" by each
        row's own leverage; "HC3" by leave-one-out scores. "auto" is HC3 where there are more than 5 effective
        parameters per 100 rows and a dense curvature, and HC1 otherwise.
    predictive : {"gaussian", "pushforward", "direct"}, default="gaussian"
        How parameter uncertainty reaches predictions: the closed form, ``n_draws`` Dirichlet draws along the model's
        tangent, or the model itself evaluated at those draws.
    n_draws : int, default=100
        Number of Dirichlet draws kept when ``predictive`` is not "gaussian", or where there are too many parameters for
        the closed form.
    store_loo : bool, default=False
        Keep what the fit to all other rows, to first order, says of each training row: ``loo_residuals_``,
        ``loo_score_`` and ``loo_latent_``.
    random_state : int, RandomState or None, default=None
        Seeds the draws, and every ``random_state`` inside the base model that is None.

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
    curvature_ : Curvature
        What ``curvature`` stood for.
    noise_ : Noise
        The fitted noise model; ``noise_.dispersion_`` is its (mean) variance or dispersion.
    effective_parameters_ : float
        Sum of the leverages.
    n_observations_ : float
        Sum of the weights.
    loo_residuals_ : ndarray of shape (n_samples,)
        y_i minus its prediction by the fit to all other rows, to first order, on the fitted scale. If ``store_loo``.
    loo_score_ : float
        Mean log density of the training rows, each under the fit to all others. If ``store_loo``.
    stationarity_ : float
        Training gradient in standard errors of itself; near zero at an optimum.
    loo_latent_ : Latent
        Raw predictions of the training rows, each by the fit to all others, with their covariance. If ``store_loo``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X has feature names that are all strings.

    Notes
    -----
    ``sample_weight`` means frequency: an integer weight equals that many copies of the row, so a constant weight of 3
    narrows the intervals by about sqrt(3).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon import RibbonRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1)).fit(X[:400], y[:400])
    >>> ribbon.predict_interval(X[400:403], confidence_level=0.9).round(0)
    array([[ 86., 271.],
           [  2., 186.],
           [ 60., 245.]])
    >>> ribbon.predict_frame(X[400:401]).round(1)
         prediction  std_epistemic  std_aleatoric  lower  upper
    400       178.7            8.5           55.5   86.3  271.1
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        alpha: float = 1.0,
        curvature: CurvatureName | Curvature = "auto",
        damping: float | Literal["auto"] = "auto",
        noise: NoiseName | float | Noise = "dof",
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
        self.noise = noise
        self.correction = correction
        self.predictive = predictive
        self.n_draws = n_draws
        self.store_loo = store_loo
        self.random_state = random_state

    def _default_estimator(self):
        return LinearRegression()

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
        self : RibbonRegressor
        """
        y = check_target(self, y)
        noise = resolve_noise(self.noise)
        training = self._fit(X, y, sample_weight)
        self.noise_ = noise.fit(training)
        self._decreasing_target = decreases(self.model_, training.rows.y)
        if self.store_loo:
            self._set_leave_one_out(training)
        return self

    def _set_leave_one_out(self, training):
        rows, latent = training.rows, self._leave_one_out_latent(training)
        density = self._predictive(latent, self._dispersion(rows.X)).logpdf(rows.y)
        self.loo_latent_ = latent
        self.loo_residuals_ = rows.y - self._mean(latent.f[:, 0])
        self.loo_score_ = float(np.average(density, weights=rows.weight))

    def _predict_mean(self, X):
        return self.estimator_.predict(X)
