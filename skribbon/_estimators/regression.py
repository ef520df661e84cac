"""The predict methods of every regressor whose raw prediction is uncertain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import column_or_1d

from .._laws import NoiseLaw
from .._laws.shapes import NORMAL
from .._predict.joint import JointPredictive, output_latents
from .._predict.predictive import Latent, Predictive
from .._predict.target import TargetScale
from .._utils.checks import (
    check_fitted,
    check_levels,
    check_name,
    check_observations,
    check_single_level,
    check_table_of,
    checked_weight,
    index_of,
)
from .._utils.typing import (
    FloatArray,
    IntervalKind,
    Levels,
    MatrixLike,
    PromiseKind,
    QuantileKind,
    RandomState,
    ScoreName,
)
from ..conformal.calibration import Calibration, calibrated, conformal_bounds, conformal_interval
from ..conformal.left_out import CrossConformal, Jackknife
from ..noise.scale import Noise
from .base import calibration_rows, lazily

if TYPE_CHECKING:
    import pandas as pd


class RegressionMethods:
    """Predict methods of a regressor, each a thin layer over :meth:`predict_distribution`.

    A fitted subclass has ``model_``, ``noise_``, ``law_`` (normal if absent) and ``target_scale_``. It implements
    ``_latent(X)``, the distribution of the raw predictions at the rows of prepared X; ``_raw_root(X)``, a root of their
    covariance over all rows together; and ``_predict_mean(X)``, what :meth:`predict` returns.
    """

    model_: Any
    noise_: Noise
    law_: NoiseLaw | tuple[NoiseLaw, ...] = NORMAL
    target_scale_: TargetScale | tuple[TargetScale, ...]
    _validated: Callable[[Any], Any]
    _latent: Callable[[Any], Latent]
    _raw_root: Callable[[Any], FloatArray]
    _predict_mean: Callable[[Any], FloatArray]
    _warn_of_training_rows: Callable[[Any, Any, Any], None]
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> distribution = RibbonRegressor().fit(X, y).predict_distribution(X[:2])
        >>> distribution.mean().round(1), distribution.std().round(1)
        (array([206.1,  68.1]), array([58.5, 40. ]))
        >>> (1 - distribution.cdf(200.0)).round(2)  # probability of more than 200
        array([0.54, 0.  ])
        """
        check_name(kind, "kind", get_args(IntervalKind))
        return self._distribution(self._prepared(X), kind)

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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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
        X = self._prepared(X)
        distribution = self._distribution(X)
        if isinstance(distribution, JointPredictive):
            return distribution.covariance()
        root = distribution.slope()[:, None] * self._raw_root(X)[:, 0]
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9).round(0)
        array([[110., 302.]])
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9, kind="confidence").round(0)
        array([[194., 218.]])
        """
        check_name(kind, "kind", get_args(PromiseKind))
        self._check_conformal(kind, groups, sample_weight)
        if kind == "prediction" or kind == "confidence":
            return self.predict_distribution(X, kind).interval(confidence_level)
        if kind == "conformal":
            return self._calibrated(conformal_interval, X, confidence_level, groups, sample_weight)
        return self._left_out_interval(X, confidence_level, kind)

    def _left_out_interval(self, X, confidence_level, kind):
        """Intervals from fits that left some rows out."""
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
        score : {"distribution", "normalised", "absolute"}, default="distribution"
            How unusual an observation is: "distribution" is how far out it lies in its predictive distribution, so that
            intervals keep the shape of that distribution; "normalised" is its distance from the prediction in predicted
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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
        self._warn_of_training_rows(X_cal, y, weight)
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_quantiles(X[:1], [0.1, 0.5, 0.9]).round(0)
        array([[131., 206., 281.]])
        """
        levels, _ = check_levels(quantiles, "quantiles")
        check_name(kind, "kind", get_args(QuantileKind))
        self._check_conformal(kind, groups, sample_weight)
        if kind != "conformal":
            return self.predict_distribution(X, kind).quantile(levels)
        return self._calibrated(conformal_bounds, X, levels, groups, sample_weight)

    def _calibrated(self, function, X, *asked):
        """``function(calibration, distribution, *asked)``; each of several outputs with its own calibration."""
        distribution = self.predict_distribution(X)
        if not isinstance(distribution, JointPredictive):
            return function(self.conformal_, distribution, *asked)
        pairs = zip(self.conformal_, distribution.outputs, strict=True)
        return np.stack([function(own, output, *asked) for own, output in pairs], axis=1)

    def _check_conformal(self, kind, groups, sample_weight):
        """Refuse what only conformal kinds take, and conformal kinds without a calibration."""
        if kind != "conformal" and not (groups is None and sample_weight is None):
            raise ValueError(f"groups and sample_weight are for kind='conformal'; do not pass them with kind={kind!r}.")
        check_fitted(self)
        if kind == "conformal" and not hasattr(self, "conformal_"):
            raise NotFittedError("kind='conformal' needs calibration rows: call conformalize(X_cal, y_cal) first.")

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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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
        >>> from sklearn.datasets import load_diabetes
        >>> from skribbon import RibbonRegressor
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
        X = self._validated(X)
        return self.model_.prepare(X)

    def _distribution(self, X, kind="prediction"):
        latent, told = self._latent(X), (self.noise_, self.law_, X, self.target_scale_, kind)
        if self.model_.loss.by_output:
            return joint_predictive(self.model_, self.ribbon_, latent, *told)
        return predictive(self.model_, latent, *told)


def predictive(model, latent, noise, law, X, target, kind="prediction"):
    """Latent predictions of prepared rows X, with the noise around them, as a Predictive."""
    dispersion = noise.predict(X) * model.loss.noise_scale(latent.f)
    return Predictive(latent, model.loss, dispersion, law, target, kind)


def joint_predictive(model, ribbon, latent, noise, laws, X, targets, kind="prediction"):
    """The same for several outputs, as a JointPredictive."""
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
    raise ValueError(f"output={output!r} is not one of the outputs: {', '.join(map(str, names[:10]))}.")
