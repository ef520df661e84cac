"""RibbonRegressor."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from .._core.outputs import output_ribbon, outputs_of, parameters_by_output
from .._laws import NoiseLaw
from .._predict.target import TargetScale
from .._utils.checks import check_fitted, check_target
from .._utils.typing import (
    Correction,
    CurvatureName,
    FloatArray,
    LawName,
    MatrixLike,
    NoiseName,
    PredictiveName,
    RandomState,
)
from ..conformal.left_out import Jackknife
from ..curvature import Curvature
from ..models import takes_outputs
from ..models.outputs import OutputOf
from ..noise.scale import HeteroskedasticNoise, Noise, check_law, is_covariance, resolve_noise
from .base import BaseRibbon, latents_at, own_copy, targets_of, weighted_mean
from .noise_law import told_of_one, told_of_outputs
from .regression import RegressionMethods, joint_predictive, output_position, predictive


class RibbonRegressor(RegressorMixin, RegressionMethods, BaseRibbon):
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
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon import RibbonRegressor
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
        names, y, law = getattr(y, "columns", None), check_target(self, y, self._takes_outputs), check_law(self.law)
        noise = self.noise
        if not is_covariance(noise):
            noise = resolve_noise(noise, auto=True)
        elif np.ndim(y) != 2:
            raise ValueError("noise is a covariance matrix of several outputs, but y has one; pass a number.")
        if isinstance(law, tuple) and np.shape(y)[1:] != (len(law),):
            raise ValueError(f"law has {len(law)} laws, one for each output, but y has shape {np.shape(y)}.")
        fitted, training = self._fit(X, y, sample_weight, groups)
        stated = not isinstance(noise, str | HeteroskedasticNoise)  # a user who states the noise means all of it
        model = fitted["model_"]
        if model.loss.by_output:
            fitted["output_names_"] = np.asarray(np.arange(y.shape[1]) if names is None else names)
            fitted["_parameters_by_output_"] = parameters_by_output(training)
            fitted |= told_of_outputs(noise, law, model, fitted["ribbon_"], training, stated)
        else:
            fitted |= told_of_one(noise, law, model, fitted["ribbon_"], training, stated)
        if self.store_loo:
            self._warn_of_leave_one_out(training)
            fitted |= self._left_out(fitted, training, targets_of(model, y))
        return self._adopt(fitted)

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
        >>> from sklearn.datasets import load_linnerud
        >>> from skribbon import RibbonRegressor
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

    @property
    def _takes_outputs(self):
        return takes_outputs(self._get_estimator())

    def _left_out(self, fitted, training, y):
        """Leave-one-out results for each row."""
        rows, model, ribbon = training.rows, fitted["model_"], fitted["ribbon_"]
        f = training.leave_one_out()
        latent = latents_at(model, ribbon, rows.X).moved_to(f)
        told = fitted["noise_"], fitted["law_"], rows.X, fitted["target_scale_"]
        jackknife: Any
        if model.loss.by_output:
            parts = zip(outputs_of(training), model.outputs, y.T, f.T, strict=True)
            jackknife = tuple(Jackknife.of(part, own, y_j, f_j[:, None]) for part, own, y_j, f_j in parts)
            distribution = joint_predictive(model, ribbon, latent, *told)
        else:
            jackknife, distribution = Jackknife.of(training, model, y, f), predictive(model, latent, *told)
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
