"""RibbonRegressor."""

import warnings
from numbers import Real

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
from ._loss import Tweedie
from .exceptions import LeverageWarning
from .models.base import response
from .noise import Frozen, GaussianNoise, Mixture, TweedieNoise

NODES, WEIGHTS = hermegauss(21)  # Gauss-Hermite nodes of a standard normal law
WEIGHTS = WEIGHTS / WEIGHTS.sum()
MAX_LEVERAGE = 0.99


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
    noise : {"dof", "train", "loo"} or float, default="dof"
        Observation noise: the residual variance of a least-squares model, the dispersion of a GLM. "train" divides the
        sum of squared residuals by n - 1, as the paper does; "dof" by n minus the effective number of parameters;
        "loo" averages squared leave-one-out residuals; a number is taken as it is.
    predictive : {"gaussian", "pushforward", "direct"}, default="gaussian"
        How parameter uncertainty reaches predictions: the closed form, ``n_draws`` Dirichlet draws along the model's
        tangent, or the model itself evaluated at those draws.
    n_draws : int, default=100
        Number of Dirichlet draws kept when ``predictive`` is not "gaussian".
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
        The fitted observation model; ``noise_.dispersion`` is its variance or dispersion.
    stationarity_ : float
        Training gradient in standard errors of itself; near zero at an optimum.
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
    array([[ 88., 266.],
           [ 34., 212.],
           [ 19., 199.]])
    >>> ribbon.predict_frame(X[400:401]).round(1)
         prediction  std_epistemic  std_aleatoric  lower  upper
    400       177.1            9.2           53.5   87.8  266.5
    """

    def __init__(
        self,
        estimator=None,
        *,
        alpha=1.0,
        curvature="auto",
        damping="auto",
        noise="dof",
        predictive="gaussian",
        n_draws=100,
        random_state=None,
    ):
        self.estimator = estimator
        self.alpha = alpha
        self.curvature = curvature
        self.damping = damping
        self.noise = noise
        self.predictive = predictive
        self.n_draws = n_draws
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
        H_r, moments, rows = self._fit(X, y, sample_weight)
        dispersion = self._dispersion(H_r, moments, rows)
        loss = self.model_.loss
        plain = not isinstance(loss, Tweedie) or (loss.power == 0 and loss.link == "identity")
        self.noise_ = GaussianNoise(dispersion) if plain else TweedieNoise(dispersion, loss)
        ends = self.model_.decode_target(np.array([rows.y.min(), rows.y.max()]))
        self._decreasing_target = bool(ends[1] < ends[0])
        return self

    def _check_parameters(self):
        super()._check_parameters()
        number = isinstance(self.noise, Real) and np.isfinite(self.noise) and self.noise >= 0
        if not number and not (isinstance(self.noise, str) and self.noise in ("train", "dof", "loo")):
            raise ValueError(f"noise must be 'train', 'dof', 'loo' or a number >= 0, got {self.noise!r}.")

    def _dispersion(self, H_r, moments, rows):
        """sigma^2 of a least-squares model, phi of a GLM: Pearson's chi-squared over what is left of n."""
        n = moments.n
        if not isinstance(self.noise, str):
            return float(self.noise)
        if self.noise == "loo":
            squared = np.concatenate([self.model_.squared_residuals(Z, y) for Z, y, _ in rows])
            return float(rows.weight @ (squared / (1 - self._capped(rows.leverages(H_r, n))) ** 2) / n)
        if self.noise == "dof":
            return moments.chi2 / (n * (1 - self._capped(self.effective_parameters_ / n)))
        if n <= 1:
            raise ValueError(f"noise='train' divides by n - 1 and needs two rows, got n_samples={n:g}.")
        return moments.chi2 / (n - 1)

    def _capped(self, leverage):
        """Leverages, none above MAX_LEVERAGE: where the fit interpolates, its residuals say nothing of the noise."""
        above = np.sum(leverage > MAX_LEVERAGE)
        if above:
            rows = f"{above} of {len(leverage)} rows determine" if np.ndim(leverage) else "The average row determines"
            warnings.warn(
                f"{rows} its own fitted value: leverage above {MAX_LEVERAGE} is taken as {MAX_LEVERAGE}, and the noise "
                "is a guess. Penalise the base model more, or pass noise as a number.",
                LeverageWarning,
                stacklevel=4,
            )
        return np.minimum(leverage, MAX_LEVERAGE)

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
            roots = self._by_block(X, lambda Z: self._response_slope(Z)[:, None] * self._spread(Z)[:, 0])
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
            "total": lambda Z: self._epistemic_variance(Z) + self._aleatoric_variance(Z),
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

        def draws(Z):
            f = self._drawn(Z, shifts)[:, 0]  # (block, n_samples)
            return self.noise_.conditional(f).rvs(rng) if kind == "prediction" else self._mean(f)

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
        level = check_levels(confidence_level, "confidence_level")[0]
        interval = self.predict_interval(X, level)
        columns = {
            "prediction": self.predict(X),
            "std_epistemic": self.predict_std(X, kind="epistemic"),
            "std_aleatoric": self.predict_std(X, kind="aleatoric"),
            "lower": interval[:, 0, 0],
            "upper": interval[:, 1, 0],
        }
        return pd.DataFrame(columns, index=getattr(X, "index", None))

    # ------------------------------------------------------------------ of a block of rows
    def _location(self, Z):
        """Raw prediction f (n,) and its variance (n,)."""
        return self.model_.raw(Z)[:, 0], (self._spread(Z)[:, 0] ** 2).sum(axis=1)

    def _nodes(self, Z):
        """Raw predictions (n, B) that stand for the uncertain f, and their probabilities (B,)."""
        if self.predictive == "gaussian":
            f, variance = self._location(Z)
            return f[:, None] + np.sqrt(variance)[:, None] * NODES, WEIGHTS
        f = self._drawn(Z, self.ribbon_.shifts)[:, 0]
        return f, np.full(f.shape[1], 1 / f.shape[1])

    def _predictive(self, Z):
        """Distribution of a new observation, on the scale the base model was fitted on."""
        if self.predictive == "gaussian" and self.noise_.gaussian:
            f, variance = self._location(Z)
            return Frozen(stats.norm(f, np.sqrt(variance + self.noise_.dispersion)), f)
        f, weights = self._nodes(Z)
        return Mixture(self.noise_.conditional(f), weights)

    def _quantiles(self, X, quantiles, kind):
        check_kind(kind, ("prediction", "confidence"))
        q = 1 - quantiles if self._decreasing_target else quantiles
        block = self._prediction_quantiles if kind == "prediction" else self._mean_quantiles
        return self.model_.decode_target(self._by_block(X, lambda Z: block(Z, q)))

    def _prediction_quantiles(self, Z, quantiles):
        predictive = self._predictive(Z)
        return np.stack([predictive.ppf(q) for q in quantiles], axis=1)

    def _mean_quantiles(self, Z, quantiles):
        if self.predictive == "gaussian":
            f, variance = self._location(Z)
            return self._mean(f[:, None] + np.sqrt(variance)[:, None] * stats.norm.ppf(quantiles))
        return self._mean(np.quantile(self._nodes(Z)[0], quantiles, axis=1).T)  # the inverse link increases

    def _mean(self, f):
        return response(self.model_.loss, f)[0]

    def _response_slope(self, Z):
        """d(prediction)/df through the inverse link and the target's inverse transform, (n,)."""
        f = self.model_.raw(Z)[:, 0]
        slope = getattr(self.model_.loss, "mean_derivative", np.ones_like)(f)
        if self.model_.target_transformer is None:
            return slope
        t = self._mean(f)
        step = 1e-5 * np.maximum(np.abs(t), 1.0)
        decode = self.model_.decode_target
        return slope * (decode(t + step) - decode(t - step)) / (2 * step)

    def _epistemic_variance(self, Z):
        return self._response_slope(Z) ** 2 * self._location(Z)[1]

    def _aleatoric_variance(self, Z):
        law = self.noise_.conditional(self.model_.raw(Z)[:, :1])
        if self.model_.target_transformer is None:
            return law.var()[:, 0]
        y = self.model_.decode_target(law.ppf(ndtr(NODES)))  # (n, nodes): quadrature through the inverse transform
        mean = y @ WEIGHTS
        return (y - mean[:, None]) ** 2 @ WEIGHTS
