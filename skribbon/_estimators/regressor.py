"""RibbonRegressor, and the predict methods of every regressor whose raw prediction is uncertain."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.utils import column_or_1d

from .._laws import NoiseLaw
from .._laws.shapes import NORMAL
from .._predict.joint import JointPredictive, output_latents, output_ribbon
from .._predict.latent import Latent
from .._predict.predictive import Predictive
from .._predict.target import TargetScale
from .._utils.checks import (
    check_fitted,
    check_levels,
    check_name,
    check_observations,
    check_single_level,
    check_table_of,
    check_target,
    checked_weight,
    index_of,
    listed,
)
from .._utils.threads import limit_blas
from .._utils.typing import (
    Correction,
    CurvatureName,
    FloatArray,
    IntervalKind,
    LawName,
    Levels,
    MatrixLike,
    NoiseName,
    PredictiveName,
    PromiseKind,
    QuantileKind,
    RandomState,
    ScoreName,
)
from ..conformal.calibration import Calibration, calibrated, conformal_bounds, conformal_interval
from ..conformal.left_out import CrossConformal, Jackknife
from ..curvature import Curvature
from ..models.outputs import OutputOf
from ..noise.fit import fit_noise_and_law
from ..noise.scale import Noise, check_law, is_covariance, resolve_noise
from .base_model import adopt, calibration_rows, lazily, own_copy, targets_of, validated
from .ribbon import BaseRibbon, latent_at, warn_of_training_rows, weighted_mean

if TYPE_CHECKING:
    import pandas as pd


class RegressionMethods:
    """Predict methods of a regressor, each a thin layer over :meth:`predict_distribution`.

    A fitted subclass has ``model_``, ``noise_``, ``law_`` (normal if absent) and ``target_scale_``. It implements
    ``_latent(X)``, the distribution of the raw predictions at the rows of prepared X; ``_raw_root(X)``, a root of their
    covariance over all rows together; and ``_predict_mean(X)``, what :meth:`predict` returns.
    """

    model_: Any
    ribbon_: Any
    noise_: Noise
    law_: NoiseLaw | tuple[NoiseLaw, ...] = NORMAL
    target_scale_: TargetScale | tuple[TargetScale, ...]
    _latent: Callable[[Any], Latent]
    _raw_root: Callable[[Any], FloatArray]
    _predict_mean: Callable[[Any], FloatArray]
    conformal_: Calibration | tuple[Calibration, ...]
    output_names_: NDArray[Any]
    _jackknife_: Jackknife | str | tuple[Jackknife | str, ...]
    _folds_: CrossConformal

    def predict_distribution(self, X: MatrixLike, kind: IntervalKind = "prediction") -> Predictive | JointPredictive:
        """Distribution of a new observation at each row, or of the mean function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        kind : {"prediction", "confidence"}, default="prediction"
            "prediction" is the distribution of a new observation; "confidence" that of the mean function alone.

        Returns
        -------
        Predictive or JointPredictive
            With ``mean() std() var() quantile(q) interval(level) cdf(y) logpdf(y) crps(y) sample(n_samples)``. With
            several outputs, the arrays have an axis for the outputs after the axis of the rows.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True)
        >>> distribution = RibbonRegressor().fit(X, y).predict_distribution(X[:2])
        >>> distribution.mean().round(1), distribution.std().round(1)
        (array([206.1,  68.1]), array([58.5, 40. ]))
        >>> (1 - distribution.cdf(200.0)).round(2)  # probability of more than 200
        array([0.54, 0.  ])
        """
        check_name(kind, "kind", get_args(IntervalKind))
        X = self._prepared(X)
        latent, rest = self._latent(X), (self.noise_, self.law_, X, self.target_scale_, kind)
        if self.model_.loss.by_output:
            return joint_predictive(self.model_, self.ribbon_, latent, *rest)
        return predictive(self.model_, latent, *rest)

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
    @lazily
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
            Also return the joint covariance of the observations, with the noise on its diagonal; for several outputs,
            the covariance between the outputs at each row.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Exactly what the base model predicts; for an ensemble, the mean of its members.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Only if ``return_std``.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_outputs, n_outputs)
            Only if ``return_cov``.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> y_pred, y_std = ribbon.predict(X[:2], return_std=True)
        >>> y_std.round(1)
        array([58.5, 40. ])
        """
        check_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are mutually exclusive; set only one of them.")
        y_pred = self._predict_mean(X)
        if return_std:
            return y_pred, self.predict_std(X)
        if return_cov:
            return y_pred, self._joint_covariance(X)
        return y_pred

    def _joint_covariance(self, X):
        distribution = self.predict_distribution(X)
        if isinstance(distribution, JointPredictive):
            return distribution.covariance()
        root = distribution.slope()[:, None] * self._raw_root(self._prepared(X))[:, 0]
        return root @ root.T + np.diag(distribution.standard_errors()[1] ** 2)

    @lazily
    def predict_interval(
        self,
        X: MatrixLike,
        confidence_level: Levels = 0.9,
        kind: PromiseKind = "prediction",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FloatArray:
        """Central intervals of a new observation, or of the mean function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9
        kind : {"prediction", "confidence", "conformal", "jackknife+", "cv+"}, default="prediction"
            "prediction" is for a new observation and "confidence" for the mean function; both rely on the model being
            right. The other kinds cover a new observation with a guaranteed probability: "conformal" after
            :meth:`conformalize`; "jackknife+" after a fit with ``store_loo=True``; "cv+" from a
            :class:`~skribbon.RibbonCV` with ``store_folds=True``.
        groups : array-like of shape (n_samples,), default=None
            Group labels of the rows, for kind "conformal" if :meth:`conformalize` was given groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for kind "conformal" under covariate shift, on the same scale as the weights given to
            :meth:`conformalize`.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, 2, L)
            Lower and upper ends; the last axis is present if a sequence of levels was given. With several outputs, the
            shape is (n_samples, n_outputs, 2) or (n_samples, n_outputs, 2, L), and each interval is for its output
            alone.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9).round(0)
        array([[110., 302.]])
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9, kind="confidence").round(0)
        array([[194., 218.]])
        """
        self._check_kind_of_interval(kind, PromiseKind, groups, sample_weight)
        if kind == "prediction" or kind == "confidence":
            return self.predict_distribution(X, kind).interval(confidence_level)
        if kind == "conformal":
            return self._calibrated(conformal_interval, X, confidence_level, groups, sample_weight)
        return self._left_out_interval(X, confidence_level, kind)

    def _left_out_interval(self, X, confidence_level, kind):
        """Intervals from fits that left some rows out."""
        check_fitted(self)
        if kind == "cv+":
            if not hasattr(self, "_folds_"):
                raise ValueError("kind='cv+' needs the fits of the folds: use RibbonCV(..., store_folds=True).")
            if not self.model_.loss.by_output:
                return self._folds_.interval(X, confidence_level)
            outputs = [replace(self._folds_, output=j) for j in range(self.model_.n_outputs)]
            return np.stack([folds.interval(X, confidence_level) for folds in outputs], axis=1)
        if not hasattr(self, "_jackknife_"):
            raise ValueError("kind='jackknife+' needs the fit without each row: use RibbonRegressor(store_loo=True).")
        jackknives = self._jackknife_ if isinstance(self._jackknife_, tuple) else (self._jackknife_,)
        if isinstance(jackknives[0], str):
            raise ValueError(jackknives[0])
        X = self._prepared(X)
        intervals = [
            jackknife.interval(model, X, confidence_level)
            for jackknife, model in zip(jackknives, self.model_.outputs, strict=True)
        ]
        return np.stack(intervals, axis=1) if self.model_.loss.by_output else intervals[0]

    def conformalize(
        self,
        X_cal: MatrixLike,
        y_cal: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        score: ScoreName = "distribution",
        bins: int | ArrayLike | None = None,
    ) -> Self:
        """Learn from held-out rows how wide intervals must be to reach their nominal coverage.

        Nothing is refitted. Afterwards ``predict_interval(X, level, kind="conformal")`` covers a new observation with a
        probability of at least the level, however wrong the model is, provided that the calibration rows and the new
        rows are exchangeable; see :mod:`skribbon.conformal`.

        Parameters
        ----------
        X_cal : {array-like, sparse matrix} of shape (m, n_features)
        y_cal : array-like of shape (m,) or (m, n_outputs)
            Several outputs are calibrated one by one; the guarantee holds for each output separately.
        sample_weight : array-like of shape (m,), default=None
            Under covariate shift, the density ratio of the features, rows to predict over calibration rows, up to a
            constant factor. :meth:`predict_interval` then needs the same ratio for the rows to predict; if it is given
            none, these weights count copies of the calibration rows instead.
        groups : array-like of shape (m,), default=None
            Group labels. The guarantee then holds within each group, from that group's own calibration rows. Not to be
            confused with the ``groups`` of ``fit``, which mark rows that depend on each other.
        score : {"distribution", "normalized", "absolute"}, default="distribution"
            How unusual an observation is: "distribution" is how far out it lies in its predictive distribution, so that
            intervals keep the shape of that distribution; "normalized" is its distance from the prediction in predicted
            standard deviations; "absolute" is that distance in units of y. For counts, interval ends are whole numbers,
            so coverage exceeds the level.
        bins : int or array-like of shape (b - 1,), default=None
            Bins of the predicted standard deviation within each of which the guarantee holds: a number of bins with
            equally many calibration rows each, or the inner edges between them.

        Returns
        -------
        self : estimator

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X[:250], y[:250]).conformalize(X[250:400], y[250:400])
        >>> ribbon.predict_interval(X[400:402], confidence_level=0.9, kind="conformal").round(0)
        array([[ 77., 299.],
               [  6., 193.]])
        """
        X_cal, y_cal, sample_weight, groups = calibration_rows(self, X_cal, y_cal, sample_weight, groups)
        distribution = self.predict_distribution(X_cal)
        weight = None if sample_weight is None else checked_weight(sample_weight, X_cal)
        conformal: Calibration | tuple[Calibration, ...]
        if isinstance(distribution, JointPredictive):
            y = check_table_of(y_cal, (len(distribution), len(distribution.outputs)))
            pairs = zip(distribution.outputs, y.T, strict=True)
            conformal = tuple(calibrated(output, own, weight, groups, score, bins) for output, own in pairs)
        else:
            y = check_observations(y_cal, len(distribution))
            conformal = calibrated(distribution, y, weight, groups, score, bins)
        warn_of_training_rows(self, X_cal, y, weight)
        self.conformal_ = conformal
        return self

    @lazily
    def predict_quantiles(
        self,
        X: MatrixLike,
        quantiles: Levels = (0.05, 0.5, 0.95),
        kind: QuantileKind = "prediction",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FloatArray:
        """Quantiles of a new observation, or of the mean function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        quantiles : float or sequence of Q floats, default=(0.05, 0.5, 0.95)
        kind : {"prediction", "confidence", "conformal"}, default="prediction"
            "conformal", after :meth:`conformalize`, gives one-sided bounds with a guarantee: a new observation is at
            most the 0.95 bound with a probability of at least 0.95, and likewise at least the 0.05 bound.
        groups : array-like of shape (n_samples,), default=None
            As in :meth:`predict_interval`.
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`predict_interval`.

        Returns
        -------
        ndarray of shape (n_samples, Q) or (n_samples, n_outputs, Q)

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_quantiles(X[:1], [0.1, 0.5, 0.9]).round(0)
        array([[131., 206., 281.]])
        """
        levels, _ = check_levels(quantiles, "quantiles")
        self._check_kind_of_interval(kind, QuantileKind, groups, sample_weight)
        if kind == "conformal":
            return self._calibrated(conformal_bounds, X, levels, groups, sample_weight)
        return self.predict_distribution(X, kind).quantile(levels)

    def _calibrated(self, function, X, *asked):
        """``function(calibration, distribution, *asked)``; each of several outputs with its own calibration."""
        check_fitted(self)
        if not hasattr(self, "conformal_"):
            raise NotFittedError("kind='conformal' needs calibration rows: call conformalize(X_cal, y_cal) first.")
        distribution = self.predict_distribution(X)
        if not isinstance(distribution, JointPredictive):
            return function(self.conformal_, distribution, *asked)
        pairs = zip(self.conformal_, distribution.outputs, strict=True)
        return np.stack([function(own, output, *asked) for own, output in pairs], axis=1)

    def _check_kind_of_interval(self, kind, kinds, groups, sample_weight):
        """Refuse unknown kinds, and what only kind="conformal" takes."""
        check_name(kind, "kind", get_args(kinds))
        if kind != "conformal" and not (groups is None and sample_weight is None):
            raise ValueError(f"groups and sample_weight are for kind='conformal'; do not pass them with kind={kind!r}.")

    @lazily
    def predict_std(self, X: MatrixLike, kind: Literal["total", "epistemic", "aleatoric"] = "total") -> FloatArray:
        r"""Standard deviation of a new observation, or of one of its two parts.

        .. math:: \sigma^2 = \underbrace{J_x\, \mathrm{Cov}(\Delta\theta_w)\, J_x'}_{\text{epistemic}}
                  + \underbrace{\phi(x) V(\mu(x))}_{\text{aleatoric}}

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        kind : {"total", "epistemic", "aleatoric"}, default="total"
            "epistemic" is the uncertainty of the mean function (by the delta method for a link or a transformed
            target); "aleatoric" is the spread of observations around it (for a transformed target with Student noise,
            that of normal noise with the same variance).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_std(X[:2], kind="epistemic").round(1)
        array([7. , 6.7])
        """
        check_name(kind, "kind", ("total", "epistemic", "aleatoric"))
        epistemic, aleatoric = self.predict_distribution(X).standard_errors()
        return {"epistemic": epistemic, "aleatoric": aleatoric, "total": np.hypot(epistemic, aleatoric)}[kind]

    @lazily
    def predict_samples(
        self,
        X: MatrixLike,
        n_samples: int = 100,
        kind: IntervalKind = "prediction",
        random_state: RandomState = None,
    ) -> FloatArray:
        """Draw new observations or the mean function; each draw is one function evaluated at all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=100
        kind : {"prediction", "confidence"}, default="prediction"
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_samples_X) or (n_samples, n_samples_X, n_outputs)

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> draws = ribbon.predict_samples(X, n_samples=5, kind="confidence", random_state=0)
        >>> draws.mean(axis=1).round(0)  # mean over all rows, for each of five drawn functions
        array([150., 153., 151., 149., 152.])
        """
        return self.predict_distribution(X, kind).sample(n_samples, random_state)

    @lazily
    def predict_frame(self, X: MatrixLike, confidence_level: float = 0.9) -> pd.DataFrame:
        """Tabulate the prediction, its uncertainty and its interval.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, std_epistemic, std_aleatoric, lower, upper; the index of X is kept. With several
            outputs, the names of y's columns are the top level of the columns.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_frame(X[:2]).round(1)
           prediction  std_epistemic  std_aleatoric  lower  upper
        0       206.1            7.0           58.1  109.9  302.3
        1        68.1            6.7           39.4    2.3  133.8
        """
        import pandas as pd

        level = check_single_level(confidence_level)
        distribution = self.predict_distribution(X)
        epistemic, aleatoric = distribution.standard_errors()
        lower, upper = np.moveaxis(distribution.interval(level), -1, 0)
        columns = {
            "prediction": self._predict_mean(X),
            "std_epistemic": epistemic,
            "std_aleatoric": aleatoric,
            "lower": lower,
            "upper": upper,
        }
        if not isinstance(distribution, JointPredictive):
            return pd.DataFrame(columns, index=index_of(X))
        tables = [
            pd.DataFrame({name: values[:, j] for name, values in columns.items()}, index=index_of(X))
            for j in range(len(distribution.outputs))
        ]
        return pd.concat(tables, axis=1, keys=self.output_names_, names=["output", "column"])

    @lazily
    def log_density(self, X: MatrixLike, y: ArrayLike) -> FloatArray:
        """Logarithm of the predictive density of each observation (of its probability, for counts).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        ndarray, of the shape of y
            For each output alone; see :meth:`JointPredictive.joint_logpdf` for the joint density.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.log_density(X[:2], y[:2]).round(2)
        array([-5.43, -4.62])
        """
        return self.predict_distribution(X).logpdf(self._observed(y))

    @lazily
    def predictive_cdf(self, X: MatrixLike, y: ArrayLike) -> FloatArray:
        """Predictive distribution function at each observation.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        ndarray, of the shape of y
            P(Y <= y_i), uniformly distributed if the predictive distribution is right and continuous; for counts see
            :func:`skribbon.metrics.pit_values`.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predictive_cdf(X[:2], y[:2]).round(2)
        array([0.17, 0.57])
        """
        return self.predict_distribution(X).cdf(self._observed(y))

    def _observed(self, y):
        return y if self.model_.loss.by_output else column_or_1d(y)

    # ------------------------------------------------------------------ of prepared rows
    def _prepared(self, X):
        """X as the base model's transformers leave it."""
        X = validated(self, X)
        return self.model_.prepare(X)


def predictive(model, latent, noise, law, X, target, kind="prediction"):
    """Latent predictions of prepared rows X, with the noise around them, as a Predictive."""
    dispersion = noise.predict(X) * model.loss.noise_scale(latent.f)
    return Predictive(latent, model.loss, dispersion, law, target, kind)


def joint_predictive(model, ribbon, latent, noise, laws, X, targets, kind="prediction"):
    """Latent predictions of several outputs at prepared rows X, with the noise around them, as a JointPredictive."""
    told = zip(output_latents(latent, model, ribbon, X), model.outputs, noise.predict(X).T, laws, targets, strict=True)
    outputs = tuple(Predictive(own, single.loss, phi, law, target, kind) for own, single, phi, law, target in told)
    return JointPredictive(outputs, latent, noise.correlation)


def output_position(names, output):
    """Position of an output among the names."""
    match = np.flatnonzero(names == output)
    if match.size:
        return int(match[0])
    if isinstance(output, Integral) and -len(names) <= output < len(names):
        return int(output) % len(names)
    raise ValueError(f"output={output!r} is not one of the outputs: {listed(names)}.")


class RibbonRegressor(RegressorMixin, RegressionMethods, BaseRibbon):
    r"""Prediction intervals for a differentiable regressor, from a single fit.

    The base model is fitted once. Its Bayesian-bootstrap distribution, that of refits at weights
    :math:`w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)`, is then linearized by influence functions,

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
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap, whose variance is n/(n + 1)
        times the sandwich, or G/(G + 1) times with G groups; (n - 1)/n, or (G - 1)/G, gives the sandwich itself.
    curvature : str or Curvature, default="auto"
        The curvature H. Dense: "hessian", exact; "ggn", its generalised Gauss-Newton form, never indefinite; "fisher",
        the empirical Fisher matrix. For models too large for a p x p array: "kfac" (networks of dense layers),
        "low_rank", "diag", "last_layer", and "matrix_free", which solves by conjugate gradients. "auto" uses the exact
        Hessian where it can never be indefinite and Gauss-Newton elsewhere; if memory or time call for an
        approximation, it warns. See :mod:`skribbon.curvature`.
    damping : "auto" or float, default="auto"
        Added to the diagonal of H_r. "auto" adds nothing and keeps directions that nothing determines fixed. The
        exception is a network that was not trained to a minimum: it gets what stopping early amounts to, 0.01 in units
        of the target's variance, or as much as leaves a quarter of an effective parameter per row, with a warning.
    noise : {"auto", "dof", "train", "loo", "heteroskedastic", "cv"}, float, ndarray or Noise, default="auto"
        Scale of the observation noise: the residual variance of a least-squares model, the dispersion of a GLM. "train"
        divides the sum of squared residuals by n - 1, as the paper does; "dof" by n minus the effective number of
        parameters; "loo" averages squared leave-one-out residuals; "heteroskedastic" lets it depend on x as far as the
        data support it; "auto" is "heteroskedastic" for least-squares models with enough rows and "dof" for all others;
        a number is used as it is; "cv", inside a :class:`~skribbon.RibbonCV`, is the mean square of out-of-fold
        residuals. With several outputs, each has its own scale, and the residuals give their correlations; a matrix is
        the covariance of the noise, and a number the variance of each output, uncorrelated. See :mod:`skribbon.noise`.
    law : {"auto", "normal", "student", "empirical"}, NoiseLaw or sequence of them, default="auto"
        Shape of the noise around a least-squares model, in units of its scale: normal, Student's t, or the distribution
        of the leave-one-out residuals. "auto" takes the first of these that no other beats on left-out rows by more
        than one standard error. It is normal if ``noise`` is neither "auto" nor "heteroskedastic", and for models with
        more than 15 effective parameters per 100 rows, whose leave-one-out residuals are too optimistic. A GLM keeps
        the distribution of its family. A sequence gives one law per output.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores: "HC0" is none, as in the paper; "HC1" uses the mean leverage; "HC2" each
        row's own leverage; "HC3" leave-one-out scores. "auto" is HC1 if all leverages are negligible or not known
        exactly; otherwise HC2, or HC3 for a linear model with more than 0.15 effective parameters per row. With "HC1"
        and "HC2", confidence intervals use Student's t quantiles, with degrees of freedom from the rows that a
        prediction rests on. With ``groups`` the corrections are CR0 to CR3, and "auto" is CR2 if leverages are known;
        degrees of freedom then come from the groups that a prediction rests on, or are the number of groups minus one
        with "HC1" and "HC3".
    predictive : {"gaussian", "pushforward", "direct", "newton"}, default="gaussian"
        How parameter uncertainty reaches predictions: "gaussian", the closed form; "pushforward", ``n_draws`` Dirichlet
        draws along the model's tangent; "direct", the model itself evaluated at those draws; "newton", the model at
        draws that take a full Newton step with the curvature of their own weights, which for least squares and ridge
        are exact refits. "newton" needs a p x p array per draw.
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
        Keep leave-one-out results for each training row, to first order: ``loo_residuals_``, ``loo_score_`` and
        ``loo_distribution_``, and the parameters of the leave-one-out fits, for intervals of kind "jackknife+".
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.
    verbose : int, default=0
        If positive, print a line for every pass and every Newton step over a Dask table.

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
        The curvature that was used.
    noise_ : Noise
        The fitted noise model; ``noise_.dispersion_`` is its (mean) variance or dispersion, or the covariance of
        several outputs.
    law_ : NoiseLaw or tuple of NoiseLaw
        The law that was used; one per output if there are several.
    output_names_ : ndarray of shape (n_outputs,)
        Column names of y, or their positions. Only if y has several outputs.
    effective_parameters_ : float
        Trace of the hat matrix: the number of parameters that the penalty leaves free.
    n_observations_ : float
        Sum of the weights.
    n_groups_ : int or None
        Number of groups; None without ``groups``, or if every group is a single observation.
    loo_residuals_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        y_i minus its prediction from the fit to all other rows, to first order, on the fitted scale. Only if
        ``store_loo``.
    loo_score_ : float
        Mean log density of the training rows, each under the fit to all others, averaged over outputs. Only if
        ``store_loo``.
    correction_ : str
        The correction that was used.
    stationarity_ : float
        Size of the training gradient, in its own standard errors; near zero at an optimum.
    loo_distribution_ : Predictive or JointPredictive
        Predictive distribution of each training row under the fit to all others. Only if ``store_loo``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X has feature names that are all strings.

    Notes
    -----
    ``sample_weight`` means frequency: an integer weight is equivalent to that many copies of the row, so a constant
    weight of 3 narrows confidence intervals by a factor of about sqrt(3).

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1)).fit(X[:400], y[:400])
    >>> ribbon.predict_interval(X[400:403], confidence_level=0.9).round(0)
    array([[ 79., 278.],
           [ 18., 170.],
           [ 72., 233.]])
    >>> ribbon.predict_frame(X[400:401]).round(1)
         prediction  std_epistemic  std_aleatoric  lower  upper
    400       178.7            8.5           59.7   79.5  277.9
    """

    _several_outputs = True

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        alpha: float = 1.0,
        curvature: CurvatureName | Curvature = "auto",
        damping: float | Literal["auto"] = "auto",
        noise: NoiseName | float | FloatArray | Noise = "auto",
        law: LawName | NoiseLaw | Sequence[LawName | NoiseLaw] = "auto",
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
        self.curvature = curvature
        self.damping = damping
        self.noise = noise
        self.law = law
        self.correction = correction
        self.predictive = predictive
        self.n_draws = n_draws
        self.clip_scores = clip_scores
        self.clip_steps = clip_steps
        self.store_loo = store_loo
        self.random_state = random_state
        self.verbose = verbose

    def _default_estimator(self):
        return LinearRegression()

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
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Several outputs are supported by these base models: LinearRegression, Ridge, RidgeCV, MLPRegressor and
            AutogradRegressor with squared errors, also in pipelines and with targets transformed column by column.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: how often each row was observed. Weights of another kind, such as exposures, scale the
            intervals with their unit.
        groups : array-like of shape (n_samples,), default=None
            Group labels: rows with the same label may depend on each other, such as those of one person or one day.
            Each group gets one Dirichlet weight; ``sample_weight`` counts rows within their group.

        Returns
        -------
        self : RibbonRegressor
        """
        names, y, law = getattr(y, "columns", None), check_target(self, y), check_law(self.law)
        noise = self.noise
        if not is_covariance(noise):
            noise = resolve_noise(noise, auto=True)
        elif np.ndim(y) != 2:
            raise ValueError("noise is a covariance matrix of several outputs, but y has one; pass a number.")
        if isinstance(law, tuple) and np.shape(y)[1:] != (len(law),):
            raise ValueError(f"law has {len(law)} laws, one for each output, but y has shape {np.shape(y)}.")
        fitted, rows = self._fit_rows(X, y, sample_weight, groups)
        with limit_blas(rows.n_rows, len(rows.model.theta)):
            fitted, training = self._fit_ribbon(fitted, rows)
            model = fitted["model_"]
            if model.loss.by_output:
                fitted["output_names_"] = np.asarray(np.arange(y.shape[1]) if names is None else names)
                fitted["_parameters_by_output_"] = training.n * training.mean_leverages
            fitted |= fit_noise_and_law(noise, law, model, partial(latent_at, model, fitted["ribbon_"]), training)
            if self.store_loo:
                self._warn_of_leave_one_out(training)
                fitted |= self._left_out(fitted, training, targets_of(model, y))
        return adopt(self, fitted)

    def output(self, output: Any) -> RibbonRegressor:
        """Return one of several outputs as a fitted Ribbon of its own, without refitting.

        The result works wherever a single-output Ribbon does: displays, metrics, and all of :mod:`skribbon.inspection`.

        Parameters
        ----------
        output : label or int
            One of ``output_names_``, or a position if that is not itself a name.

        Returns
        -------
        RibbonRegressor

        Examples
        --------
        >>> X, y = load_linnerud(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor(noise="dof").fit(X, y)
        >>> ribbon.output("Waist").predict_interval(X[:1]).round(0)
        array([[31., 39.]])
        """
        check_fitted(self)
        if not self.model_.loss.by_output:
            raise ValueError("There is only one output; use the Ribbon itself.")
        j, model = output_position(self.output_names_, output), self.model_
        other = copy.copy(self)
        for name in ("law_", "target_scale_", "conformal_", "_jackknife_"):
            if name in vars(self):
                setattr(other, name, getattr(self, name)[j])
        other.estimator_ = OutputOf(self.estimator_, j)
        other.model_, other.ribbon_ = model.outputs[j], output_ribbon(self.ribbon_, model, j)
        other.noise_ = self.noise_.noises[j]
        other.effective_parameters_ = float(self._parameters_by_output_[j])
        if hasattr(self, "_folds_"):
            other._folds_ = replace(self._folds_, output=j)
        if hasattr(self, "loo_distribution_"):
            y, weight = self._left_out_
            other.__dict__.update(self._of_left_out(self.loo_distribution_.outputs[j], y[:, j], weight))
        del other.output_names_, other._parameters_by_output_
        return other

    def _left_out(self, fitted, training, y):
        """Leave-one-out results for each row."""
        rows, model, ribbon = training.rows, fitted["model_"], fitted["ribbon_"]
        f = training.record.left_out
        latent = latent_at(model, ribbon, rows.X).moved_to(f)
        told = fitted["noise_"], fitted["law_"], rows.X, fitted["target_scale_"]
        jackknife: Any
        if model.loss.by_output:
            parts = zip(training.outputs, model.outputs, y.T, f.T, strict=True)
            jackknife = tuple(Jackknife.of(output, own, y_j, f_j[:, None]) for output, own, y_j, f_j in parts)
            distribution = joint_predictive(model, ribbon, latent, *told)
        else:
            jackknife, distribution = Jackknife.of(training.outputs[0], model, y, f), predictive(model, latent, *told)
        return {"_jackknife_": jackknife, **self._of_left_out(distribution, rows.y, rows.weight)}

    @staticmethod
    def _of_left_out(distribution, y, weight):
        outputs = getattr(distribution, "outputs", (distribution,))
        columns = np.reshape(y, (len(y), -1)).T
        residuals, scores = [], []
        for output, column in zip(outputs, columns, strict=True):
            fitted_scale = replace(output, target=TargetScale())  # that of y here
            residuals.append(column - output.loss.mean(output.latent.f[:, 0]))
            scores.append(weighted_mean(fitted_scale.logpdf(column), weight))
        return {
            "loo_distribution_": distribution,
            "loo_residuals_": np.stack(residuals, axis=1).reshape(y.shape),
            "loo_score_": float(np.mean(scores)),
            "_left_out_": (y, weight),
        }

    def _predict_mean(self, X):
        y_pred = self.estimator_.predict(own_copy(self.estimator_, X))
        return y_pred if self.model_.loss.by_output else np.ravel(y_pred)
