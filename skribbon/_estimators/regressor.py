"""RibbonRegressor, and the predict methods of all regressors with uncertain raw predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.utils import column_or_1d

from .._laws.noise_distributions import NORMAL, NoiseLaw
from .._predict.held_out import HeldOut
from .._predict.joint import JointPredictive, output_position, output_ribbon, predictive
from .._predict.predictive import Latent, Predictive
from .._predict.target import TargetScale, from_zero
from .._utils import checks
from .._utils import typing as options
from .._utils.compat import limit_blas, public_fit
from .._utils.frames import index_of, polars_in_polars_out
from .._utils.typing import FloatArray, IntervalKind, Levels, MatrixLike, PerRow, RandomState
from ..conformal.calibration import Calibration, calibrate, conformal_bounds, conformal_interval
from ..conformal.left_out import Jackknife
from ..curvature import machine_bytes
from ..models.outputs import OutputOf
from ..noise.fit import fit_noise
from ..noise.scale import Noise
from .base_model import adopt, calibration_rows, lazily, own_copy, prepared, targets_of
from .held_out import last_findings, unseen_rows
from .ribbon import BaseRibbon, first_pass, fit_ribbon, latent_at, loo_record, settled, warn_of_training_rows
from .settings import Settings

if TYPE_CHECKING:
    import pandas as pd

LEFT_OUT = {  # kind of interval: fitted attribute, and how to get it
    "jackknife+": ("_jackknife_", "the fit without each row: set store_loo=True of the RibbonRegressor"),
    "cv+": ("_folds_", "the fits of the folds: use RibbonCV(..., store_folds=True)"),
}


class RegressionMethods:
    """Predict methods of a regressor, each a thin layer over :meth:`predict_distribution`.

    A fitted subclass has ``model_``, ``noise_``, ``law_`` (normal if absent) and ``target_scale_``. It implements
    ``_latent(X)``, the distribution of raw predictions at prepared rows X; ``_raw_root(X)``, a root of their covariance
    over all rows together; and ``_predict_mean(X)``, the predictions without uncertainty.
    """

    model_: Any
    noise_: Noise
    law_: NoiseLaw | tuple[NoiseLaw, ...] = NORMAL
    target_scale_: TargetScale | tuple[TargetScale, ...]
    _latent: Callable[[Any], Latent]
    _raw_root: Callable[[Any], FloatArray]
    _predict_mean: Callable[[Any], FloatArray]
    conformal_: Calibration | tuple[Calibration, ...]
    output_names_: NDArray[Any]
    _prepared = prepared

    def predict_distribution(self, X: MatrixLike, kind: IntervalKind = "prediction") -> Predictive | JointPredictive:
        """Predictive distribution of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        kind : {"prediction", "confidence"}, default="prediction"
            "prediction" for a new observation, "confidence" for the mean function.

        Returns
        -------
        Predictive or JointPredictive
            With ``mean() std() var() quantile(q) interval(level) cdf(y) logpdf(y) crps(y) sample(n_samples)``. With
            several outputs, arrays have an axis for the outputs after the axis of the rows.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True)
        >>> distribution = RibbonRegressor().fit(X, y).predict_distribution(X[:2])
        >>> (1 - distribution.cdf(200.0)).round(2)  # probability of more than 200
        array([0.54, 0.  ])
        """
        checks.check_name(kind, "kind", get_args(IntervalKind))
        X = self._prepared(X)
        return predictive(self.model_, self._latent(X), self.noise_, self.law_, X, self.target_scale_, kind)

    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[False] = False, return_cov: Literal[False] = False
    ) -> FloatArray: ...
    @overload
    def predict(
        self, X: MatrixLike, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]: ...
    @lazily
    def predict(
        self, X: MatrixLike, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict with the base model, optionally with the uncertainty of a new observation.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new observation, noise included.
        return_cov : bool, default=False
            Also return the covariance of new observations at all rows; with several outputs, the covariance between
            the outputs at each row.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions of the base model; for an ensemble, the mean of its members.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Only if ``return_std``.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_outputs, n_outputs)
            Only if ``return_cov``.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> y_pred, y_std = RibbonRegressor().fit(X, y).predict(X[:2], return_std=True)
        >>> y_std.round(1)
        array([60.7, 38.2])
        """
        checks.check_fitted(self)
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
        if 2 * 8 * len(distribution) ** 2 > machine_bytes() / 2:
            raise MemoryError(
                f"return_cov=True needs two {len(distribution)} x {len(distribution)} arrays, more than half of this "
                "machine's memory. For means and totals of rows use skribbon.inspection.predictions."
            )
        root = distribution.slope()[:, None] * self._raw_root(self._prepared(X))[:, 0]
        return root @ root.T + np.diag(distribution.standard_errors()[1] ** 2)

    @lazily
    def predict_interval(
        self,
        X: MatrixLike,
        confidence_level: Levels = 0.9,
        kind: options.PromiseKind = "prediction",
        groups: PerRow = None,
        sample_weight: PerRow = None,
    ) -> FloatArray:
        """Central intervals for a new observation, or for the mean function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9
        kind : {"prediction", "confidence", "conformal", "jackknife+", "cv+"}, default="prediction"
            "prediction" for a new observation, "confidence" for the mean function; both assume that the model is
            right. The other kinds cover a new observation with a guaranteed probability: "conformal" after
            :meth:`conformalize`; "jackknife+" after a fit with ``store_loo=True``, by residuals of the transformed
            target, or by the family of a GLM; "cv+" from a
            :class:`~skribbon.RibbonCV` with ``store_folds=True``.
        groups, sample_weight : array-like of shape (n_samples,), default=None
            Group labels and weights of the rows, for kind "conformal" if :meth:`conformalize` was given such.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, 2, L)
            Lower and upper bounds; the last axis is present if a sequence of levels was given. Several outputs add an
            axis after the first: (n_samples, n_outputs, 2) or (n_samples, n_outputs, 2, L).

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonRegressor().fit(X, y)
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9).round(0)
        array([[106., 306.]])
        >>> ribbon.predict_interval(X[:1], confidence_level=0.9, kind="confidence").round(0)
        array([[194., 218.]])
        """
        self._check_kind_of_interval(kind, options.PromiseKind, groups, sample_weight)
        if kind == "prediction" or kind == "confidence":
            return self.predict_distribution(X, kind).interval(confidence_level)
        if kind == "conformal":
            return self._calibrated(conformal_interval, X, confidence_level, groups, sample_weight)
        return self._left_out_interval(X, confidence_level, kind)

    def _left_out_interval(self, X, confidence_level, kind):
        """Jackknife+ or CV+ intervals, from the fits without some rows."""
        checks.check_fitted(self)
        name, needed = LEFT_OUT[kind]
        if not hasattr(self, name):
            raise ValueError(f"kind={kind!r} needs {needed}.")
        X = X if kind == "cv+" else self._prepared(X)
        outputs = self.model_.outputs if self.model_.loss.by_output else self.model_

        def bounded(own, target, model):
            return from_zero(own.interval(X, confidence_level), target, model.loss)

        return self._by_output(bounded, getattr(self, name), self.target_scale_, outputs)

    def _by_output(self, function, *parts):
        """Return ``function(*parts)``; with several outputs, apply it to the parts of each and stack along axis 1."""
        if not self.model_.loss.by_output:
            return function(*parts)
        return np.stack([function(*own) for own in zip(*parts, strict=True)], axis=1)

    def conformalize(
        self,
        X_cal: MatrixLike,
        y_cal: ArrayLike,
        sample_weight: PerRow = None,
        groups: PerRow = None,
        *,
        score: options.ScoreName = "distribution",
        bins: int | ArrayLike | None = None,
    ) -> Self:
        """Learn from held-out rows how wide intervals must be to reach their nominal coverage.

        Nothing is refitted. Afterwards ``predict_interval(X, level, kind="conformal")`` covers a new observation with a
        probability of at least the level, however wrong the model is, if the calibration rows and the new rows are
        exchangeable; see :mod:`skribbon.conformal`.

        Parameters
        ----------
        X_cal : {array-like, sparse matrix} of shape (m, n_features)
        y_cal : array-like of shape (m,) or (m, n_outputs)
            Several outputs are calibrated one by one, each with its own guarantee.
        sample_weight : array-like of shape (m,), default=None
            Under covariate shift, the density ratio of the features, rows to predict over calibration rows, up to a
            constant factor; :meth:`predict_interval` then needs the ratio for the rows to predict. Without it, these
            weights are frequencies.
        groups : array-like of shape (m,), default=None
            Group labels. The guarantee then holds within each group, from the calibration rows of that group. The
            ``groups`` of ``fit``, in contrast, mark rows that depend on each other.
        score : {"distribution", "normalized", "absolute"}, default="distribution"
            How unusual an observation is: "distribution", its position in the predictive distribution, whose shape the
            intervals then keep; "normalized", its distance from the prediction in predicted standard deviations;
            "absolute", its distance in units of y. For counts, bounds are whole numbers, so coverage exceeds the level.
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
        array([[ 77., 298.],
               [  6., 193.]])
        """
        X_cal, y_cal, sample_weight, groups = calibration_rows(self, X_cal, y_cal, sample_weight, groups)
        distribution, m = self.predict_distribution(X_cal), len(self.model_.loss.by_output)
        n = len(distribution)
        y = checks.check_table_of(y_cal, (n, m)) if m else checks.check_observations(y_cal, n)
        weight = checks.checked_weight(sample_weight, X_cal)
        held_out = HeldOut(distribution, distribution.latent.f, y, weight, groups, "calibration")
        conformal = tuple(calibrate(own, score, bins) for own in held_out.outputs)
        warn_of_training_rows(self, X_cal, y, weight)
        self.conformal_ = conformal if m else conformal[0]
        return self

    @lazily
    def predict_quantiles(
        self,
        X: MatrixLike,
        quantiles: Levels = (0.05, 0.5, 0.95),
        kind: options.QuantileKind = "prediction",
        groups: PerRow = None,
        sample_weight: PerRow = None,
    ) -> FloatArray:
        """Quantiles for a new observation, or for the mean function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        quantiles : float or sequence of Q floats, default=(0.05, 0.5, 0.95)
        kind : {"prediction", "confidence", "conformal"}, default="prediction"
            "conformal", after :meth:`conformalize`, gives one-sided bounds with a guarantee: a new observation is at
            most the 0.95 bound with a probability of at least 0.95, and likewise at least the 0.05 bound.
        groups, sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`predict_interval`.

        Returns
        -------
        ndarray of shape (n_samples, Q) or (n_samples, n_outputs, Q)

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> RibbonRegressor().fit(X, y).predict_quantiles(X[:1], [0.1, 0.5, 0.9]).round(0)
        array([[128., 206., 284.]])
        """
        levels, _ = checks.check_levels(quantiles, "quantiles")
        self._check_kind_of_interval(kind, options.QuantileKind, groups, sample_weight)
        if kind == "conformal":
            return self._calibrated(conformal_bounds, X, levels, groups, sample_weight)
        return self.predict_distribution(X, kind).quantile(levels)

    def _calibrated(self, function, X, *asked):
        """Return ``function(calibration, distribution, *asked)``, output by output."""
        checks.check_fitted(self)
        if not hasattr(self, "conformal_"):
            raise NotFittedError("kind='conformal' needs calibration rows: call conformalize(X_cal, y_cal) first.")
        distribution = self.predict_distribution(X)
        outputs = getattr(distribution, "outputs", distribution)
        return self._by_output(lambda own, output: function(own, output, *asked), self.conformal_, outputs)

    def _check_kind_of_interval(self, kind, kinds, groups, sample_weight):
        """Refuse unknown kinds, and groups or weights with other kinds than "conformal"."""
        checks.check_name(kind, "kind", get_args(kinds))
        if kind != "conformal" and not (groups is None and sample_weight is None):
            raise ValueError(f"groups and sample_weight are for kind='conformal'; do not pass them with kind={kind!r}.")

    @lazily
    def predict_std(self, X: MatrixLike, kind: Literal["total", "epistemic", "aleatoric"] = "total") -> FloatArray:
        """Standard deviation of a new observation, or of one of its two parts.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        kind : {"total", "epistemic", "aleatoric"}, default="total"
            "epistemic" is the uncertainty of the mean function, by the delta method for a link or a transformed target;
            "aleatoric" is the spread of observations around it, of normal noise for a transformed target.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> RibbonRegressor().fit(X, y).predict_std(X[:2], kind="epistemic").round(1)
        array([7. , 6.7])
        """
        checks.check_name(kind, "kind", ("total", "epistemic", "aleatoric"))
        epistemic, aleatoric = self.predict_distribution(X).standard_errors()
        return {"epistemic": epistemic, "aleatoric": aleatoric, "total": np.hypot(epistemic, aleatoric)}[kind]

    @lazily
    def predict_samples(
        self, X: MatrixLike, n_samples: int = 100, kind: IntervalKind = "prediction", random_state: RandomState = None
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
        >>> draws = RibbonRegressor().fit(X, y).predict_samples(X, 5, kind="confidence", random_state=0)
        >>> draws.mean(axis=1).round(0)  # mean over all rows, for each of five drawn functions
        array([150., 153., 151., 149., 152.])
        """
        return self.predict_distribution(X, kind).sample(n_samples, random_state)

    @lazily
    @polars_in_polars_out
    def predict_frame(self, X: MatrixLike, confidence_level: float = 0.9) -> pd.DataFrame:
        """Tabulate the prediction, its uncertainty and its interval.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, std_epistemic, std_aleatoric, lower, upper, below the names of several outputs; the
            index of X is kept. If X is a polars table, so is this; several outputs then have columns name_prediction.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> RibbonRegressor().fit(X, y).predict_frame(X[:2]).round(1)
           prediction  std_epistemic  std_aleatoric  lower  upper
        0       206.1            7.0           60.3  106.3  306.0
        1        68.1            6.7           37.6    5.3  130.8
        """
        import pandas as pd

        level = checks.check_single_level(confidence_level)
        distribution = self.predict_distribution(X)
        epistemic, aleatoric = distribution.standard_errors()
        lower, upper = np.moveaxis(distribution.interval(level), -1, 0)
        columns = {"prediction": self._predict_mean(X), "std_epistemic": epistemic, "std_aleatoric": aleatoric}
        columns |= {"lower": lower, "upper": upper}
        if not self.model_.loss.by_output:
            return pd.DataFrame(columns, index=index_of(X))
        names = pd.MultiIndex.from_product([self.output_names_, columns], names=["output", "column"])
        values = np.stack(list(columns.values()), axis=2)
        return pd.DataFrame(values.reshape(len(values), -1), index=index_of(X), columns=names)

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
            Separate for each output; see :meth:`JointPredictive.joint_logpdf` for the joint density.

        Examples
        --------
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> RibbonRegressor().fit(X, y).log_density(X[:2], y[:2]).round(2)
        array([-5.44, -4.58])
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
        >>> RibbonRegressor().fit(X, y).predictive_cdf(X[:2], y[:2]).round(2)
        array([0.18, 0.57])
        """
        return self.predict_distribution(X).cdf(self._observed(y))

    def _observed(self, y):
        return y if self.model_.loss.by_output else column_or_1d(y)


@dataclass(repr=False, eq=False, kw_only=True)
class RibbonRegressor(RegressorMixin, RegressionMethods, BaseRibbon):
    r"""Prediction intervals and standard errors for a differentiable regressor, from one fit (a few for networks).

    Wrap a linear model, a GLM, a neural network or a pipeline, and call ``fit``. Predictions are those of the base
    model. Standard errors are robust: they do not assume that the base model is right. The base model is fitted once;
    see ``held_out`` for networks.

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
        The curvature H: "hessian", "ggn" (generalized Gauss-Newton) or "fisher" (empirical Fisher), p x p arrays; for
        larger models "kfac" (networks of dense layers), "low_rank", "diag", "last_layer" or "matrix_free". "auto"
        is the Hessian for linear models and GLMs, and Gauss-Newton for others; "last_layer" for a network with few rows
        that is refitted, if a dense curvature would take longer than training; it warns if memory or time require
        another approximation. See :mod:`skribbon.curvature`.
    damping : "auto" or float, default="auto"
        Added to the diagonal of H_r. "auto" adds nothing, except to networks with many effective parameters per row,
        and keeps directions fixed that the data do not determine. If held-out rows scale the covariance, see
        ``held_out``, a network gets the smallest damping that leaves at most 0.5 effective parameters per row. Without
        held-out rows, a network is damped if it was not trained to a minimum (``stationarity_`` above 0.2) or has more
        than 0.75 effective parameters per row: the smallest damping that leaves at most 0.25, and with a dense
        curvature, if not at a minimum, at least 0.01 times the variance of y. ``fit`` then raises a
        :class:`~skribbon.exceptions.FlexibleModelWarning`. The curvatures "low_rank" and "matrix_free" are never damped
        by "auto". ``curvature_.damping`` holds the result; 0.0 turns damping off.
    correction : {"auto", "HC0", "HC1", "HC2", "HC3"}, default="auto"
        Small-sample correction of the scores: "HC0" is none, as in the paper; "HC1" uses the mean leverage; "HC2" each
        row's leverage; "HC3" leave-one-out scores. "auto" is HC1 if leverages are negligible or not known exactly;
        otherwise HC2, or HC3 for a linear model with more than 0.15 effective parameters per row. With "HC1" and "HC2",
        confidence intervals use Student's t quantiles, with degrees of freedom from the rows that a prediction depends
        on. With ``groups`` the corrections are CR0 to CR3, "auto" is CR2 if leverages are known, and degrees of freedom
        come from the groups.
    predictive : {"gaussian", "pushforward", "direct", "newton"}, default="gaussian"
        How parameter uncertainty reaches predictions: "gaussian", in closed form; "pushforward", by ``n_draws``
        Dirichlet draws along the model's tangent; "direct", by the model evaluated at those draws; "newton", by the
        model at draws after a full Newton step, which are exact refits for least squares and ridge. "newton" needs a
        p x p array per draw.
    n_draws : int, default=100
        Number of Dirichlet draws if ``predictive`` is not "gaussian", or if the closed form needs too much memory.
    clip_scores : float, default=None
        Bound on the influence of single rows: longer scores are cut to this many times the median length. Intervals
        get narrower.
    clip_steps : float, default=None
        Bound on single draws: longer steps are cut to this many times the length expected under the loss. With
        ``predictive="gaussian"``, the covariance is computed from ``n_draws`` such steps.
    held_out : {"auto", "loo", "early_stopping"}, int, splitter or iterable, default="auto"
        Source of the predictions of unseen rows, from which scale and distribution of the noise are learnt, and for
        refits the scale of the epistemic variance too. "loo": leave-one-out in closed form, from the one fit. "auto" is
        "loo" unless the base model is a network that may have memorized its rows, with at least 0.15 effective
        parameters per row: then 200 or more rows that the network's own ``early_stopping`` set aside, else three refits
        of the network from other random starts, each without a fifth of the rows. "early_stopping": these rows, if
        there are fewer, too. A number of folds, a splitter, or pairs of training and held-out positions: a refit for
        each. Predictions are always those of the one fit to all rows.
    store_loo : bool, default=False
        Keep first-order leave-one-out results: ``loo_residuals_``, ``loo_score_``, ``loo_distribution_``, and the
        parameters of the leave-one-out fits for intervals of kind "jackknife+".
    n_jobs : int, default=None
        Number of refits to run in parallel. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None. Refits start from other
        numbers, which follow from the base model's seed.
    verbose : int, default=0
        If positive, print a line for every refit, and for every pass over a Dask table. With scikit-learn 1.9 or newer,
        ``set_callbacks(ProgressBar())`` shows a bar over the refits; see :class:`sklearn.callback.ProgressBar`.
    noise : {"auto", "dof", "train", "loo", "heteroskedastic", "cv"}, float, ndarray or Noise, default="auto"
        Scale of the observation noise: the residual variance of a least-squares model, the dispersion of a GLM. "train"
        divides the sum of squared residuals by n - 1, as the paper does; "dof" by n minus the effective number of
        parameters; "loo" averages squared leave-one-out residuals; "heteroskedastic" depends on x as far as the data
        support it; "auto" is "heteroskedastic" for least-squares models with enough rows, else "dof", but for counts at
        most the dispersion of their total; "cv", inside a :class:`~skribbon.RibbonCV`, averages squared out-of-fold
        residuals; a number is the variance itself. Several outputs have a scale each and correlations from the
        residuals; a matrix is their covariance, a number the variance of each. See :mod:`skribbon.noise`.
    law : {"auto", "normal", "student", "empirical"}, NoiseLaw or sequence of them, default="auto"
        Noise distribution of a least-squares model, in units of its scale: normal, Student's t, or the distribution of
        the leave-one-out residuals. "auto" goes from normal to the others as far as they are better on left-out rows:
        not at all up to half a standard error, all the way from one on. It is normal if ``noise`` is neither "auto" nor
        "heteroskedastic", and, without refits, for models with more than 15 effective parameters per 100 rows, whose
        leave-one-out residuals are too small. A GLM keeps the distribution of its family. A sequence gives one
        distribution per output.
    weight_type : {"frequency", "importance", "exposure"}, default="frequency"
        Meaning of ``sample_weight``. "frequency": an integer weight is equivalent to that many copies of the row.
        "importance", for survey weights and inverse propensities: the weight multiplies the loss of the row, which is
        one observation. "exposure", for rates with exposures, averages of several observations, and precisions: the
        variance of the noise is inverse to the weight, too, and predictions are for a weight of one.

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
        The fitted noise; ``noise_.dispersion_`` is its mean dispersion, or the covariance of several outputs.
    law_ : NoiseLaw or tuple of NoiseLaw
        The noise distribution that was used; one per output if there are several.
    output_names_ : ndarray of shape (n_outputs,)
        Column names or positions. Only if y has several outputs.
    effective_parameters_ : float
        Trace of the hat matrix: the number of parameters that the penalty leaves free.
    n_observations_ : float
        Sum of the weights, or the number of rows with a positive weight if weights are not frequencies.
    n_groups_ : int, tuple of int, or None
        Number of groups, of each grouping if they cross; None without ``groups``, or if every group is a single
        observation.
    loo_residuals_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        y_i minus its leave-one-out prediction, on the fitted scale. Only if ``store_loo``.
    loo_score_ : float
        Mean log density of the training rows under ``loo_distribution_``. Only if ``store_loo``.
    correction_ : str
        The correction that was used: HC0 to HC3, or with ``groups`` CR0 to CR3.
    held_out_ : HeldOutSummary or None
        Source of the held-out predictions from which scale and distribution of the noise were learnt, or a GLM's family
        checked: ``origin``, "loo", "folds" or "early_stopping"; ``n_rows``; and ``n_fits``, the number of refits. None
        if that needed no such predictions.
    stationarity_ : float
        Size of the training gradient, in its own standard errors; near zero at an optimum.
    loo_distribution_ : Predictive or JointPredictive
        Predictive distribution of each training row under the fit to all others. Only if ``store_loo``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X has feature names that are all strings.

    See Also
    --------
    RibbonClassifier : Class probabilities with intervals.
    RibbonCV : Choose alpha on held-out rows.
    skribbon.inspection.coefficients : Table of coefficients with robust standard errors.
    skribbon.inspection.check : Check the assumptions of a fit.
    skribbon.baselines.BayesianBootstrapRegressor : Exact refits instead of linear steps.

    Notes
    -----
    Refits at weights :math:`w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)`, the Bayesian bootstrap, are replaced by
    one linear step with influence functions,

    .. math:: \Delta\theta_w = -H_r^{-1} \sum_i (w_i - 1/n)\, g_i,

    with :math:`g_i` the gradient of row i's loss and :math:`H_r` the penalized curvature. So the parameters have the
    robust covariance

    .. math:: \mathrm{Cov}(\Delta\theta_w) = \frac{1}{n\alpha + 1} H_r^{-1} H_{F,c} H_r^{-1},

    with :math:`H_{F,c}` the covariance of the :math:`g_i`. It gives each prediction an epistemic variance, to which
    the observation noise is added.

    User guide: :doc:`/user_guide/options`, :doc:`/user_guide/intervals`, :doc:`/user_guide/networks`,
    :doc:`/user_guide/inference`.

    References
    ----------
    * Gibson, G., Tipton, J., Rumsey, K. and Klein, N. Ribbon: Scalable Approximation and Robust Uncertainty
      Quantification.
    * Rubin, D. B. (1981). The Bayesian Bootstrap. Annals of Statistics 9.
    * Newton, M. A. and Raftery, A. E. (1994). Approximate Bayesian Inference with the Weighted Likelihood Bootstrap.
      Journal of the Royal Statistical Society B 56.
    * White, H. (1980). A Heteroskedasticity-Consistent Covariance Matrix Estimator and a Direct Test for
      Heteroskedasticity. Econometrica 48.
    * MacKinnon, J. G. and White, H. (1985). Some Heteroskedasticity-Consistent Covariance Matrix Estimators with
      Improved Finite Sample Properties. Journal of Econometrics 29.
    * Bell, R. M. and McCaffrey, D. F. (2002). Bias Reduction in Standard Errors for Linear Regression with Multi-Stage
      Samples. Survey Methodology 28.
    * Schulam, P. and Saria, S. (2019). Can You Trust This Prediction? Auditing Pointwise Reliability After Learning.
      AISTATS.
    * Giordano, R., Stephenson, W., Liu, R., Jordan, M. I. and Broderick, T. (2019). A Swiss Army Infinitesimal
      Jackknife. AISTATS.
    * Alaa, A. M. and van der Schaar, M. (2020). Discriminative Jackknife: Quantifying Uncertainty in Deep Learning via
      Higher-Order Influence Functions. ICML.
    * Tailor, D., Correia, A. H. C., Nalisnick, E. and Louizos, C. (2025). Approximating Full Conformal Prediction for
      Neural Network Regression with Gauss-Newton Influence. ICLR.

    Examples
    --------
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1)).fit(X[:400], y[:400])
    >>> ribbon.predict_interval(X[400:403], confidence_level=0.9).round(0)
    array([[ 79., 278.],
           [ 18., 169.],
           [ 72., 233.]])
    """

    _several_outputs = True

    noise: options.NoiseName | float | FloatArray | Noise = "auto"
    law: options.LawName | NoiseLaw | Sequence[options.LawName | NoiseLaw] = "auto"
    weight_type: options.WeightType = "frequency"

    def _default_estimator(self):
        return LinearRegression()

    @public_fit
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None, groups: PerRow = None) -> Self:
        """Fit the base model and its ribbon.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Base models of several outputs are LinearRegression, Ridge, RidgeCV, MLPRegressor and AutogradRegressor with
            squared errors, also in pipelines and with targets transformed column by column.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, whose meaning is ``weight_type``.
        groups : array-like of shape (n_samples,) or (n_samples, k), or tuple of k arrays, default=None
            Group labels: rows with the same label, such as one person or day, may depend on each other. Each group gets
            one Dirichlet weight. If k groupings cross, as shops and products, the weight of a row is a product.

        Returns
        -------
        self : RibbonRegressor
        """
        names, y = getattr(y, "columns", None), checks.check_target(self, y)
        settings = Settings.from_regressor(self, y)
        base = self._fit_base_model(X, y, sample_weight, groups)
        return self._fit_around(settings, base, (X, y, sample_weight, groups), names)

    def _fit_around(self, settings, base, table, names=None, unseen=None, records=None):
        """Fit the ribbon and the noise around ``base``, the base model's fitted attributes and its training rows.

        ``table`` is X, y, sample_weight and groups; ``unseen``, if known, are predictions of rows that fits have not
        seen. HeldOut records are appended to the list ``records``.
        """
        fitted, rows = base
        whole, y = rows.model, table[1]
        with limit_blas(rows.n_rows, len(whole.theta)):
            training = first_pass(self, settings, rows)  # H_r
        if unseen is None:
            unseen = unseen_rows(self, settings, fitted["estimator_"], training, whole, table)
        with limit_blas(rows.n_rows, len(whole.theta)):
            training, found = settled(self, training, whole, unseen)
            fitted = fitted | found | fit_ribbon(settings, training)  # the second pass: corrected scores, the ribbon
            latent = partial(latent_at, fitted["model_"], fitted["ribbon_"].at_alpha(1.0))  # alpha shapes no noise
            found, factor, made = fit_noise(settings.noise, settings.law, training, latent, fitted["model_"], unseen)
            fitted |= found
            if records is not None:
                records.extend(made)
            if unseen is not None:  # held-out rows set the scale, whatever single rows determine
                ribbon = fitted["ribbon_"].scaled(factor)
                fitted["ribbon_"] = replace(ribbon, freedom=None, single=ribbon.single[:, :0])
            if fitted["model_"].loss.by_output:
                fitted["output_names_"] = np.asarray(np.arange(y.shape[1]) if names is None else names)
                fitted["_parameters_by_output_"] = training.n * training.mean_leverages
            fitted |= last_findings(fitted, training, unseen)
            if settings.store_loo:
                fitted |= left_out(settings, fitted, training, targets_of(fitted["model_"], y))
        return adopt(self, fitted)

    def output(self, output: Any) -> RibbonRegressor:
        """Return one of several outputs as a fitted Ribbon, for displays, metrics and :mod:`skribbon.inspection`.

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
        checks.check_fitted(self)
        if not self.model_.loss.by_output:
            raise ValueError("There is only one output; use the Ribbon itself.")
        j, model = output_position(self.output_names_, output), self.model_
        other = copy.copy(self)
        for name in ("law_", "target_scale_", "conformal_", "_jackknife_", "_folds_", "_reach_"):
            if name in vars(self):
                setattr(other, name, getattr(self, name)[j])
        other.estimator_ = OutputOf(self.estimator_, j)
        other.model_, other.ribbon_ = model.outputs[j], output_ribbon(self.ribbon_, model, j)
        other.noise_ = self.noise_.noises[j]
        other.effective_parameters_ = float(self._parameters_by_output_[j])
        if hasattr(self, "_loo_"):
            other._loo_, other.loo_residuals_ = self._loo_.outputs[j], self.loo_residuals_[:, j]
        del other.output_names_, other._parameters_by_output_
        return other

    @staticmethod
    def _log_scores(record):
        """Log densities (n,) of a HeldOut record of one output, on the fitted scale."""
        return replace(record.distribution, target=TargetScale()).logpdf(record.targets)

    def _predict_mean(self, X):
        y_pred = self.estimator_.predict(own_copy(self.estimator_, X))
        return y_pred if self.model_.loss.by_output else np.ravel(y_pred)


def left_out(settings, fitted, training, y):
    """Leave-one-out results of each training row, fitted attributes as a dict; y (n,) or (n, m) was observed."""
    model, noise = fitted["model_"], {"noise": fitted["noise_"], "law": fitted["law_"]}
    predict = partial(predictive, model, **noise, X=training.rows.X, target=fitted["target_scale_"])
    record = loo_record(settings, fitted, training, np.asarray(y, dtype=float), predict)
    columns = zip(record.outputs, training.outputs, model.outputs, strict=True)
    jackknives = tuple(Jackknife.from_held_out(*column, fitted["noise_"]) for column in columns)
    residuals = np.stack([own.residuals for own in record.outputs], axis=1)
    jackknife = jackknives if model.loss.by_output else jackknives[0]
    return {"_loo_": record, "_jackknife_": jackknife, "loo_residuals_": residuals.reshape(record.y.shape)}
