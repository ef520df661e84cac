"""What is predicted of several outputs: a law of each, and what they have to do with each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtr, ndtr, ndtri
from sklearn.utils import check_random_state

from .._laws import NormalLaw
from .._laws.numerics import energy_scores
from .._utils.checks import check_count, check_table_of
from .._utils.typing import FloatArray, Levels, RandomState
from .latent import Degrees, Latent
from .predictive import Predictive


def output_ribbon(ribbon, model, j):
    """Distribution of the parameters of one output, or of all parameters if outputs share them."""
    if not model.outputs_are_separate:
        return ribbon
    d = len(model.theta) // model.n_outputs
    freedom = None if ribbon.freedom is None else ribbon.freedom.outputs[j]
    return replace(replace(ribbon, freedom=None).mapped(itemgetter(slice(j * d, (j + 1) * d))), freedom=freedom)


def output_latents(latent, model, ribbon, X):
    """Uncertain raw predictions of prepared rows X, output by output."""
    for j, own in enumerate(model.outputs):
        freedom = None if latent.freedom is None else Degrees(own, output_ribbon(ribbon, model, j), X)
        yield output_latent(latent, j, freedom)


def output_latent(latent, j, freedom=None):
    """The j-th of several raw predictions."""
    draws = None if latent.draws is None else latent.draws[..., [j], :]
    source = partial(_draws_of_output, latent.source, j)
    return Latent(latent.f[:, [j]], latent.covariance[..., j : j + 1, j : j + 1], draws, source, freedom)


def _draws_of_output(source, j, n_samples, rng):
    return source(n_samples, rng)[:, [j]]


@dataclass(frozen=True, eq=False)
class JointPredictive:
    r"""Distribution of m outputs at each of n rows, made by ``predict_distribution`` where y has several columns.

    Each output has the law that a model of it alone would predict; arrays have an axis for the outputs behind that of
    the rows. Together they are uncertain through the parameters, by one Dirichlet weight per row for all of them, and
    through the noise, whose correlation is that of the residuals. Both make the covariance
    :math:`\Sigma(x) = J_x\, \mathrm{Cov}(\Delta\theta_w)\, J_x' + \Sigma_\varepsilon(x)` of a row; with the single laws
    :math:`F_j`, the joint law is the Gaussian copula that has its correlations,

    .. math:: z_j = \Phi^{-1}(F_j(y_j)), \qquad z \sim N(0, \mathrm{corr}\, \Sigma(x)),

    which is the normal law of covariance :math:`\Sigma(x)` where all single laws are normal.

    Parameters
    ----------
    outputs : tuple of Predictive
        Of each output alone.
    latent : Latent
        The uncertain raw predictions of all outputs.
    correlation : ndarray of shape (m, m)
        Of the noise.

    Examples
    --------
    >>> X, y = load_linnerud(return_X_y=True)
    >>> distribution = RibbonRegressor(noise="dof").fit(X, y).predict_distribution(X[:1])
    >>> distribution.mean().round(0), distribution.interval(0.9).shape
    (array([[176.,  35.,  57.]]), (1, 3, 2))
    >>> distribution.covariance().round(0)
    array([[[652.,  57., -70.],
            [ 57.,   7.,  -6.],
            [-70.,  -6.,  70.]]])
    """

    outputs: tuple[Predictive, ...]
    latent: Latent
    correlation: FloatArray

    def __len__(self):
        return len(self.outputs[0])

    @property
    def kind(self) -> str:
        """Whether an observation or the mean function."""
        return self.outputs[0].kind

    def _stacked(self, method, *arguments, axis=-1):
        """method(output) of every output, with an axis for them."""
        columns = [method(output, *own) for output, *own in zip(self.outputs, *arguments, strict=True)]
        return np.stack(columns, axis=axis)

    # ------------------------------------------------------------------ of each output
    def mean(self) -> FloatArray:
        """Means.

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.mean)

    def var(self) -> FloatArray:
        """Variances.

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.var)

    def std(self) -> FloatArray:
        """Standard deviations.

        Returns
        -------
        ndarray of shape (n, m)
        """
        return np.sqrt(self.var())

    def quantile(self, q: Levels) -> FloatArray:
        """Quantiles.

        Parameters
        ----------
        q : float or sequence of Q floats

        Returns
        -------
        ndarray of shape (n, m) or (n, m, Q)
        """
        axis = -1 if np.ndim(q) == 0 else -2
        return self._stacked(lambda output: output.quantile(q), axis=axis)

    def interval(self, confidence_level: Levels = 0.9) -> FloatArray:
        """Central intervals of each output; for all of them together see :meth:`joint_level`.

        Parameters
        ----------
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n, m, 2) or (n, m, 2, L)
        """
        axis = -2 if np.ndim(confidence_level) == 0 else -3
        return self._stacked(lambda output: output.interval(confidence_level), axis=axis)

    def cdf(self, y: ArrayLike) -> FloatArray:
        """P(Y_j <= y_j).

        Parameters
        ----------
        y : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.cdf, self._checked(y))

    def cdf_below(self, y: ArrayLike) -> FloatArray:
        """P(Y_j < y_j).

        Parameters
        ----------
        y : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.cdf_below, self._checked(y))

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Logarithm of the density of each output; that of all of them is :meth:`joint_logpdf`.

        Parameters
        ----------
        y : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.logpdf, self._checked(y))

    @property
    def has_closed_crps(self) -> bool:
        """Whether :meth:`crps` is a formula, and no integral."""
        return all(output.has_closed_crps for output in self.outputs)

    def crps(self, y: ArrayLike) -> FloatArray:
        """Continuous ranked probability score of each observation, in units of y; smaller is better.

        Parameters
        ----------
        y : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.crps, self._checked(y))

    def standard_errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard deviations of the mean function and of observations around it.

        Returns
        -------
        epistemic : ndarray of shape (n, m)
        aleatoric : ndarray of shape (n, m)
        """
        epistemic, aleatoric = self._stacked(Predictive.standard_errors)  # (2, n, m)
        return epistemic, aleatoric

    def slope(self) -> FloatArray:
        """Derivative of the predictions in the raw predictions.

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.slope)

    def prediction(self) -> FloatArray:
        """What the base model itself predicts.

        Returns
        -------
        ndarray of shape (n, m)
        """
        return self._stacked(Predictive.prediction)

    # ------------------------------------------------------------------ of all outputs together
    def covariance(self) -> FloatArray:
        """Covariance of the outputs, row by row; by the delta method where the target was transformed.

        Returns
        -------
        ndarray of shape (n, m, m)
            Of a new observation; of the mean function if ``kind`` is "confidence".
        """
        slope = self.slope()
        epistemic = slope[:, :, None] * self.latent.covariance * slope[:, None, :]
        if self.kind == "confidence":
            return epistemic
        _, aleatoric = self.standard_errors()
        return epistemic + aleatoric[:, :, None] * self.correlation * aleatoric[:, None, :]

    def joint_logpdf(self, y: ArrayLike) -> FloatArray:
        """Logarithm of the joint density of all outputs.

        Parameters
        ----------
        y : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n,)
        """
        z = self._normal_scores(y)
        root = self._root_of_correlation()
        log_size = np.log(np.einsum("njj->nj", root)).sum(axis=1)  # half of the log determinant
        inside = (_solved(root, z) ** 2).sum(axis=1) - (z**2).sum(axis=1)
        return self.logpdf(y).sum(axis=1) - log_size - inside / 2

    def joint_level(self, y: ArrayLike) -> FloatArray:
        """Level of the smallest joint region that holds y, of normal laws an ellipsoid; uniform where the law is right.

        Parameters
        ----------
        y : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n,)
            The region of level 0.9 holds the rows with at most 0.9 here.
        """
        distance = (_solved(self._root_of_correlation(), self._normal_scores(y)) ** 2).sum(axis=1)
        return chdtr(len(self.outputs), distance)

    def energy_score(self, y: ArrayLike, n_samples: int = 200, random_state: RandomState = 0) -> FloatArray:
        """Energy score of each row, by draws; smaller is better, and the CRPS of a single output.

        Parameters
        ----------
        y : array-like of shape (n, m)
        n_samples : int, default=200
        random_state : int, RandomState or None, default=0

        Returns
        -------
        ndarray of shape (n,)
        """
        return energy_scores(self._checked(y).T, self.sample(n_samples, random_state))

    def sample(self, n_samples: int = 100, random_state: RandomState = None) -> FloatArray:
        """Joint draws; each is one function over all rows, with an observation of all outputs around it at each.

        Parameters
        ----------
        n_samples : int, default=100
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n, m)
        """
        rng = check_random_state(random_state)
        return self.drawn(n_samples, rng, rng)

    def drawn(self, n_samples: int, functions: Any, noise: Any) -> FloatArray:
        """As :meth:`sample`, by two random generators: rows in several places share functions, and not their noise.

        Parameters
        ----------
        n_samples : int
        functions : RandomState
        noise : RandomState

        Returns
        -------
        ndarray of shape (n_samples, n, m)
        """
        f = self.latent.source(check_count(n_samples, "n_samples"), functions)  # (n, m, n_samples)
        if self.kind == "confidence":
            return np.stack([own._outer(f[:, j]).T for j, own in enumerate(self.outputs)], axis=-1)
        e = noise.standard_normal(f.shape)
        e = np.einsum("jk,nks->njs", np.linalg.cholesky(_regular(self.correlation)), e)
        draws = [own._outer(f[:, j] + _noise(own, e[:, j])).T for j, own in enumerate(self.outputs)]
        return np.stack(draws, axis=-1)

    def scaled(self, factors: ArrayLike) -> JointPredictive:
        """The same with the epistemic covariance multiplied by a factor; several make a leading axis.

        Parameters
        ----------
        factors : float or array-like of shape (A,)

        Returns
        -------
        JointPredictive
        """
        outputs = tuple(output.scaled(factors) for output in self.outputs)
        return replace(self, outputs=outputs, latent=self.latent.scaled(factors))

    def _checked(self, y):
        """Columns of y."""
        return check_table_of(y, (len(self), len(self.outputs))).T

    def _normal_scores(self, y):
        return ndtri(np.clip(self.cdf(y), 1e-15, 1 - 1e-15))  # normal scores are finite

    def _root_of_correlation(self):
        covariance = self.covariance()
        std = np.sqrt(np.einsum("njj->nj", covariance))
        std = np.where(std > 0, std, 1.0)
        return np.linalg.cholesky(_regular(covariance / std[:, :, None] / std[:, None, :]))


def _noise(output, e):
    """Noise (n, S) around one output, of its law, from normal scores e."""
    size = np.sqrt(np.broadcast_to(output.dispersion, len(output)))[:, None]
    if isinstance(output.shape, NormalLaw):
        return size * e
    return size * output.shape.marginal(0.0, 1.0, 0.0).ppf(ndtr(e).ravel()).reshape(e.shape)


def _regular(correlation):
    """Correlations (..., m, m) with an eigenvalue of zero a little above it, and ones on the diagonal."""
    eye = np.eye(correlation.shape[-1])
    return np.where(eye > 0, 1.0, (1 - 1e-10) * correlation)


def _solved(root, z):
    """root_i^-1 z_i, (n, m)."""
    return np.linalg.solve(root, z[:, :, None])[:, :, 0]
