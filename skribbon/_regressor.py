"""RibbonRegressor."""

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss
from scipy import stats
from scipy.special import ndtr
from sklearn.base import RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from ._base import BaseRibbon, check_kind, check_levels, check_n_samples
from ._laws import Mixture, law_of
from .models.base import response
from .noise import resolve_noise

NODES, WEIGHTS = hermegauss(21)  # Gauss-Hermite nodes of a standard normal law
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class RibbonRegressor(RegressorMixin, BaseRibbon):
    r"""Prediction intervals for a differentiable regressor, from a single fit.

    The base model is fitted once. Its Bayesian-bootstrap distribution is then linearised by influence functions,
    which gives the parameters the robust covariance :math:`H_r^{-1} H_{F,c} H_r^{-1} / (n\alpha + 1)` and every
    prediction an epistemic variance; the observation noise is added on top.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None. A :class:`~sklearn.pipeline.Pipeline`, a
        :class:`~sklearn.compose.TransformedTargetRegressor` with a monotone transform, and a fitted model in a
        :class:`~sklearn.frozen.FrozenEstimator` are base models too.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap.
    curvature : {"auto", "hessian", "ggn", "fisher"} or Curvature, default="auto"
        H: the exact Hessian, its generalised Gauss-Newton form, or the empirical Fisher matrix. "auto" is exact where
        that can never be indefinite, and Gauss-Newton elsewhere.
    damping : "auto" or float, default="auto"
        Added to the diagonal of H_r. "auto" adds nothing and projects out what nothing determines.
    noise : {"dof", "train", "loo", "heteroskedastic"}, float or Noise, default="dof"
        Observation noise: the residual variance of a least-squares model, the dispersion of a GLM. "train" divides the
        sum of squared residuals by n - 1, as the paper does; "dof" by n minus the effective number of parameters;
        "loo" averages squared leave-one-out residuals; "heteroskedastic" lets it depend on x as far as the data ask;
        a number is taken as it is. See :mod:`skribbon.noise`.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores: "HC0" none, as in the paper; "HC1" by the mean leverage; "HC2" by each
        row's own leverage; "HC3" by leave-one-out scores. "auto" is HC3 where there are more than 5 effective
        parameters per 100 rows, and HC1 beyond, where they hardly differ.
    predictive : {"gaussian", "pushforward", "direct"}, default="gaussian"
        How parameter uncertainty reaches predictions: the closed form, ``n_draws`` Dirichlet draws along the model's
        tangent, or the model itself evaluated at those draws.
    n_draws : int, default=100
        Number of Dirichlet draws kept when ``predictive`` is not "gaussian".
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
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
        estimator=None,
        *,
        alpha=1.0,
        curvature="auto",
        damping="auto",
        noise="dof",
        correction="auto",
        predictive="gaussian",
        n_draws=100,
        store_loo=False,
        random_state=None,
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

    def fit(self, X, y, sample_weight=None):
        """Fit the base model and its ribbon.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: how often each row was observed.

        Returns
        -------
        self : RibbonRegressor
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        noise = resolve_noise(self.noise)
        training = self._fit(X, y, sample_weight)
        self.noise_ = noise.fit(training)
        ends = self.model_.decode_target(np.array([training.rows.y.min(), training.rows.y.max()]))
        self._decreasing_target = bool(ends[1] < ends[0])
        if self.store_loo:
            self._set_leave_one_out(training)
        return self

    def _set_leave_one_out(self, training):
        rows, latent = training.rows, self._leave_one_out_latent(training)
        density = self._predictive(latent, self._dispersion(rows.X)).logpdf(rows.y)
        self.loo_latent_ = latent
        self.loo_residuals_ = rows.y - self._mean(latent.f[:, 0])
        self.loo_score_ = float(np.average(density, weights=rows.weight))

    # ------------------------------------------------------------------ predict
    def predict(self, X, return_std=False, return_cov=False):
        """Predict with the base model, optionally with the uncertainty of the observation.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the total standard deviation, observation noise included.
        return_cov : bool, default=False
            Also return the joint covariance of the observations, noise on its diagonal.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Exactly what the base model predicts.
        y_std : ndarray of shape (n_samples,)
            Only if ``return_std``.
        y_cov : ndarray of shape (n_samples, n_samples)
            Only if ``return_cov``.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other; set one of them.")
        y_pred = self.estimator_.predict(X)
        if return_std:
            return y_pred, self.predict_std(X)
        if return_cov:
            roots = self._by_block(X, self._response_root)
            return y_pred, roots @ roots.T + np.diag(self._by_block(X, self._aleatoric_variance))
        return y_pred

    def predict_interval(self, X, confidence_level=0.9, kind="prediction"):
        """Central intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9
        kind : {"prediction", "confidence"}, default="prediction"
            "prediction" holds a new observation; "confidence" holds the mean function only.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, 2, L)
            Lower and upper ends; the last axis is there if a sequence of levels was given.
        """
        levels, scalar = check_levels(confidence_level, "confidence_level")
        tails = (1 - levels) / 2
        ends = self._quantiles(X, np.concatenate([tails, 1 - tails]), kind)
        intervals = np.sort(ends.reshape(len(ends), 2, len(levels)), axis=1)
        return intervals[:, :, 0] if scalar else intervals

    def predict_quantiles(self, X, quantiles=(0.05, 0.5, 0.95), kind="prediction"):
        """Quantiles of a new observation, or of the mean function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        quantiles : float or sequence of Q floats, default=(0.05, 0.5, 0.95)
        kind : {"prediction", "confidence"}, default="prediction"

        Returns
        -------
        ndarray of shape (n_samples, Q)
        """
        return self._quantiles(X, check_levels(quantiles, "quantiles")[0], kind)

    def predict_std(self, X, kind="total"):
        """Standard deviation of a new observation and of its two parts, total^2 = epistemic^2 + aleatoric^2.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        kind : {"total", "epistemic", "aleatoric"}, default="total"
            "epistemic" is the uncertainty of the mean function (for a link or a transformed target by the delta
            method), "aleatoric" the spread of observations around it.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_kind(kind, ("total", "epistemic", "aleatoric"))
        variance = {
            "epistemic": self._epistemic_variance,
            "aleatoric": self._aleatoric_variance,
            "total": lambda X: self._epistemic_variance(X) + self._aleatoric_variance(X),
        }[kind]
        return np.sqrt(self._by_block(X, variance))

    def predict_samples(self, X, n_samples=100, kind="prediction", random_state=None):
        """Draws of new observations or of the mean function; each draw is one function over all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=100
        kind : {"prediction", "confidence"}, default="prediction"
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_samples_X)
        """
        check_kind(kind, ("prediction", "confidence"))
        check_is_fitted(self)
        rng = check_random_state(random_state)
        shifts = self.ribbon_.draw(check_n_samples(n_samples), rng)

        def draws(X):
            f = self._drawn(self.model_.rows(X), shifts)[:, 0]  # (block, n_samples)
            return self._law(X).conditional(f).rvs(rng) if kind == "prediction" else self._mean(f)

        return self.model_.decode_target(self._by_block(X, draws)).T

    def predict_frame(self, X, confidence_level=0.9):
        """Prediction, its uncertainty and its interval as a table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, std_epistemic, std_aleatoric, lower, upper; the index of X is kept.
        """
        _, scalar = check_levels(confidence_level, "confidence_level")
        if not scalar:
            raise ValueError(f"confidence_level must be a single number for a table, got {confidence_level!r}.")
        interval = self.predict_interval(X, confidence_level)
        columns = {
            "prediction": self.predict(X),
            "std_epistemic": self.predict_std(X, kind="epistemic"),
            "std_aleatoric": self.predict_std(X, kind="aleatoric"),
            "lower": interval[:, 0],
            "upper": interval[:, 1],
        }
        return pd.DataFrame(columns, index=getattr(X, "index", None))

    def log_density(self, X, y):
        """Logarithm of the predictive density of each observation (of its probability, for counts).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        y = column_or_1d(y)
        return self._predictive_at(X).logpdf(self.model_.encode_target(y)) + self._log_jacobian(y)

    def predictive_cdf(self, X, y):
        """Predictive distribution function at each observation, the probability integral transform.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
            P(Y <= y_i), uniform over observations where the predictive distribution is right.
        """
        below = self._predictive_at(X).cdf(self.model_.encode_target(column_or_1d(y)))
        return 1 - below if self._decreasing_target else below

    def _predictive_at(self, X):
        """Predictive distribution of all rows, on the scale the base model was fitted on."""
        return self._predictive(self._by_block(X, self._latent), self._by_block(X, self._dispersion))

    # ------------------------------------------------------------------ of a block of prepared rows
    def _dispersion(self, X):
        """phi(x), (n,): the noise model's, times what the base model itself predicts of the noise."""
        return self.noise_.predict(X) * self.model_.loss.noise_scale(self.model_.raw(self.model_.rows(X)))

    def _law(self, X):
        """Observation law of a block, for raw predictions (n, B)."""
        return law_of(self.model_.loss, self._dispersion(X)[:, None], self.noise_.tails_)

    def _quantiles(self, X, quantiles, kind):
        check_kind(kind, ("prediction", "confidence"))
        check_is_fitted(self)
        q = 1 - quantiles if self._decreasing_target else quantiles
        if kind == "prediction":
            values = self._by_block(X, lambda X: self._prediction_quantiles(self._latent(X), self._dispersion(X), q))
        else:
            values = self._by_block(X, lambda X: self._mean_quantiles(self._latent(X), q))
        return self.model_.decode_target(values)

    def _response_slope(self, X):
        """d(prediction)/df through the inverse link and the target's inverse transform, (n,)."""
        f = self.model_.raw(self.model_.rows(X))[:, 0]
        slope = getattr(self.model_.loss, "mean_derivative", np.ones_like)(f)
        if self.model_.target_transformer is None:
            return slope
        t = self._mean(f)
        step = 1e-5 * np.maximum(np.abs(t), 1.0)
        decode = self.model_.decode_target
        return slope * (decode(t + step) - decode(t - step)) / (2 * step)

    def _response_root(self, X):
        """Root (n, r) of the covariance of predictions, by the delta method."""
        J_root = self.model_.jvp(self.model_.rows(X), self.ribbon_.root)[:, 0]
        return self._response_slope(X)[:, None] * J_root

    def _epistemic_variance(self, X):
        return (self._response_root(X) ** 2).sum(axis=1)

    def _aleatoric_variance(self, X):
        law = self._law(X).conditional(self.model_.raw(self.model_.rows(X))[:, :1])
        if self.model_.target_transformer is None:
            return law.var()[:, 0]
        y = self.model_.decode_target(law.ppf(ndtr(NODES)))  # (n, nodes): quadrature through the inverse transform
        mean = y @ WEIGHTS
        return (y - mean[:, None]) ** 2 @ WEIGHTS

    # ------------------------------------------------------------------ of the latent prediction
    def _mean(self, f):
        return response(self.model_.loss, f)[0]

    def _predictive(self, latent, dispersion):
        """Distribution of new observations, on the scale the base model was fitted on."""
        f, variance = latent.f[:, 0], latent.covariance[:, 0, 0]
        law = law_of(self.model_.loss, dispersion, self.noise_.tails_)
        if latent.draws is None and law.location:
            return law.marginal(f, variance)
        if latent.draws is None:
            nodes, weights = f[:, None] + np.sqrt(variance)[:, None] * NODES, WEIGHTS
        else:
            nodes = latent.draws[:, 0]
            weights = np.full(nodes.shape[1], 1 / nodes.shape[1])
        law = law_of(self.model_.loss, dispersion[:, None], self.noise_.tails_)
        return Mixture(law.conditional(nodes), weights)

    def _prediction_quantiles(self, latent, dispersion, quantiles):
        predictive = self._predictive(latent, dispersion)
        return np.stack([predictive.ppf(q) for q in quantiles], axis=1)

    def _mean_quantiles(self, latent, quantiles):
        if latent.draws is not None:
            return self._mean(np.quantile(latent.draws[:, 0], quantiles, axis=1).T)  # the inverse link increases
        spread = np.sqrt(latent.covariance[:, 0, :1])
        return self._mean(latent.f[:, :1] + spread * stats.norm.ppf(quantiles))

    def _log_jacobian(self, y):
        """log |dt/dy| of a transformed target, by central differences."""
        if self.model_.target_transformer is None:
            return 0.0
        encode, y = self.model_.encode_target, np.asarray(y, dtype=float)
        step = 1e-5 * np.maximum(np.abs(y), 1.0)
        return np.log(np.abs(encode(y + step) - encode(y - step)) / (2 * step))
