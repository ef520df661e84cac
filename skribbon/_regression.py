"""What a regressor with an uncertain raw prediction says of new rows: intervals, quantiles, spreads, samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import ndtr
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from ._laws import LocationFamily, Mixture, law_of
from ._predictions import Predictions, check_count, check_kind, check_levels, check_single_level
from ._typing import FloatArray, IntervalKind, Levels, MatrixLike, RandomState
from .models.base import response
from .noise import Noise

NODES, WEIGHTS = hermegauss(21)  # Gauss-Hermite nodes of a standard normal law
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class RegressionPredictions(Predictions):
    """Predict methods of a regressor.

    Beside what :class:`Predictions` needs: ``noise_``, ``_predict_mean(X)`` and ``_decreasing_target``, see
    :func:`decreases`.
    """

    noise_: Noise
    _predict_mean: Callable[[Any], FloatArray]
    _decreasing_target: bool

    # ------------------------------------------------------------------ predict
    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[False] = False, return_cov: Literal[False] = False
    ) -> FloatArray: ...
    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[True], return_cov: Literal[False] = False
    ) -> tuple[FloatArray, FloatArray]: ...
    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[False] = False, *, return_cov: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...
    @overload
    def predict(
        self, X: MatrixLike, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: MatrixLike, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
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
            Exactly what the base model predicts; of an ensemble, the mean of its members.
        y_std : ndarray of shape (n_samples,)
            Only if ``return_std``.
        y_cov : ndarray of shape (n_samples, n_samples)
            Only if ``return_cov``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> y_pred, y_std = ribbon.predict(X[:2], return_std=True)
        >>> y_std.round(1)
        array([54.6, 54.6])
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other; set one of them.")
        y_pred = self._predict_mean(X)
        if return_std:
            return y_pred, self.predict_std(X)
        if return_cov:
            roots = self._by_block(X, self._response_root)
            return y_pred, roots @ roots.T + np.diag(self._by_block(X, self._aleatoric_variance))
        return y_pred

    def predict_interval(
        self, X: MatrixLike, confidence_level: Levels = 0.9, kind: IntervalKind = "prediction"
    ) -> FloatArray:
        """Central intervals of a new observation, or of the mean function.

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

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9).round(0)
        array([[116., 296.]])
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9, kind="confidence").round(0)
        array([[195., 218.]])
        """
        levels, scalar = check_levels(confidence_level, "confidence_level")
        tails = (1 - levels) / 2
        ends = self._quantiles(X, np.concatenate([tails, 1 - tails]), kind)
        intervals = np.sort(ends.reshape(len(ends), 2, len(levels)), axis=1)
        return intervals[:, :, 0] if scalar else intervals

    def predict_quantiles(
        self, X: MatrixLike, quantiles: Levels = (0.05, 0.5, 0.95), kind: IntervalKind = "prediction"
    ) -> FloatArray:
        """Quantiles of a new observation, or of the mean function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        quantiles : float or sequence of Q floats, default=(0.05, 0.5, 0.95)
        kind : {"prediction", "confidence"}, default="prediction"

        Returns
        -------
        ndarray of shape (n_samples, Q)

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_quantiles(X[:1], [0.1, 0.5, 0.9]).round(0)
        array([[136., 206., 276.]])
        """
        return self._quantiles(X, check_levels(quantiles, "quantiles")[0], kind)

    def predict_std(self, X: MatrixLike, kind: Literal["total", "epistemic", "aleatoric"] = "total") -> FloatArray:
        r"""Standard deviation of a new observation, or of one of its two parts.

        .. math:: \sigma^2 = \underbrace{J_x\, \mathrm{Cov}(\Delta\theta_w)\, J_x'}_{\text{epistemic}}
                  + \underbrace{\phi(x) V(\mu(x))}_{\text{aleatoric}}

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        kind : {"total", "epistemic", "aleatoric"}, default="total"
            "epistemic" is the uncertainty of the mean function (for a link or a transformed target by the delta
            method), "aleatoric" the spread of observations around it (of a transformed target with Student noise, that
            of normal noise of the same variance).

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_std(X[:2], kind="epistemic").round(1)
        array([7. , 6.6])
        """
        check_kind(kind, ("total", "epistemic", "aleatoric"))
        variance = {
            "epistemic": self._epistemic_variance,
            "aleatoric": self._aleatoric_variance,
            "total": lambda X: self._epistemic_variance(X) + self._aleatoric_variance(X),
        }[kind]
        return np.sqrt(self._by_block(X, variance))

    def predict_samples(
        self,
        X: MatrixLike,
        n_samples: int = 100,
        kind: IntervalKind = "prediction",
        random_state: RandomState = None,
    ) -> FloatArray:
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

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> draws = ribbon.predict_samples(X, n_samples=5, kind="confidence", random_state=0)
        >>> draws.mean(axis=1).round(0)  # the mean over all rows, by each of five drawn functions
        array([150., 152., 151., 150., 151.])
        """
        check_kind(kind, ("prediction", "confidence"))
        check_is_fitted(self)
        rng = check_random_state(random_state)
        drawn = self._draw(check_count(n_samples, "n_samples"), rng)

        def draws(X):
            f = self._raw_draws(X, drawn)[:, 0]  # (block, n_samples)
            return self._law(X).conditional(f).rvs(rng) if kind == "prediction" else self._mean(f)

        return self.model_.decode_target(self._by_block(X, draws)).T

    def predict_frame(self, X: MatrixLike, confidence_level: float = 0.9) -> pd.DataFrame:
        """Prediction, its uncertainty and its interval as a table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, std_epistemic, std_aleatoric, lower, upper; the index of X is kept.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_frame(X[:2]).round(1)
           prediction  std_epistemic  std_aleatoric  lower  upper
        0       206.1            7.0           54.2  116.3  295.9
        1        68.1            6.6           54.2  -21.7  157.8
        """
        check_single_level(confidence_level)
        interval = self.predict_interval(X, confidence_level)
        columns = {
            "prediction": self.predict(X),
            "std_epistemic": self.predict_std(X, kind="epistemic"),
            "std_aleatoric": self.predict_std(X, kind="aleatoric"),
            "lower": interval[:, 0],
            "upper": interval[:, 1],
        }
        return pd.DataFrame(columns, index=getattr(X, "index", None))

    def log_density(self, X: MatrixLike, y: ArrayLike) -> FloatArray:
        """Logarithm of the predictive density of each observation (of its probability, for counts).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.log_density(X[:2], y[:2]).round(2)
        array([-5.43, -4.93])
        """
        y = column_or_1d(y)
        return self._predictive_at(X).logpdf(self.model_.encode_target(y)) + self._log_jacobian(y)

    def predictive_cdf(self, X: MatrixLike, y: ArrayLike) -> FloatArray:
        """Predictive distribution function at each observation, the probability integral transform.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
            P(Y <= y_i), uniform over observations where the predictive distribution is right.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predictive_cdf(X[:2], y[:2]).round(2)
        array([0.16, 0.55])
        """
        below = self._predictive_at(X).cdf(self.model_.encode_target(column_or_1d(y)))
        return 1 - below if self._decreasing_target else below

    def _predictive_at(self, X):
        """Predictive distribution of all rows, on the scale the base model was fitted on."""
        return self._predictive(self._by_block(X, self._latent), self._by_block(X, self._dispersion))

    # ------------------------------------------------------------------ of a block of prepared rows
    def _dispersion(self, X):
        """phi(x), (n,): the noise model's, times what the base model itself predicts of the noise."""
        return self.noise_.predict(X) * self.model_.loss.noise_scale(self._raw(X))

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
        f = self._raw(X)[:, 0]
        slope = getattr(self.model_.loss, "mean_derivative", np.ones_like)(f)
        if self.model_.target_transformer is None:
            return slope
        t = self._mean(f)
        step = 1e-5 * np.maximum(np.abs(t), 1.0)
        decode = self.model_.decode_target
        return slope * (decode(t + step) - decode(t - step)) / (2 * step)

    def _response_root(self, X):
        """Root (n, r) of the covariance of predictions, by the delta method."""
        return self._response_slope(X)[:, None] * self._raw_root(X)[:, 0]

    def _epistemic_variance(self, X):
        return (self._response_root(X) ** 2).sum(axis=1)

    def _aleatoric_variance(self, X):
        family, f = self._law(X), self._raw(X)[:, :1]
        if self.model_.target_transformer is None:
            return family.conditional(f).var()[:, 0]
        if family.location:  # through exp Student's tails have no variance: normal noise of the same size instead
            family = LocationFamily(family.dispersion)
        y = self.model_.decode_target(family.conditional(f).ppf(ndtr(NODES)))  # (n, nodes): quadrature
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


def decreases(model, t):
    """Whether larger values on the fitted scale mean smaller targets; t are the training targets on that scale."""
    ends = model.decode_target(np.array([t.min(), t.max()]))
    return bool(ends[1] < ends[0])
