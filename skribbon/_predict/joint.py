"""Joint predictive distribution of several outputs."""

from dataclasses import dataclass, replace
from functools import partial, wraps
from numbers import Integral
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtr, ndtr, ndtri

from .._laws.noise_distributions import NormalLaw
from .._laws.numerics import energy_scores
from .._utils.checks import check_count, check_table_of, listed
from .._utils.typing import FloatArray, RandomState
from .predictive import Degrees, Latent, Predictive, TargetDistribution, noise_ends, scale_of


def output_ribbon(ribbon, model, j):
    """Distribution of the parameters of one output, or of all parameters if outputs share them."""
    if not model.outputs_are_separate:
        return ribbon
    d = len(model.theta) // model.loss.n_outputs
    freedom = None if ribbon.freedom is None else ribbon.freedom.of_output(j)
    return replace(replace(ribbon, freedom=None).mapped(itemgetter(slice(j * d, (j + 1) * d))), freedom=freedom)


def predictive(model, latent, noise, law, X, target, kind="prediction"):
    """Predictive distribution of prepared rows X with fitted noise; a JointPredictive for several outputs."""
    dispersion = noise.predict(X)
    if not model.loss.by_output:
        return Predictive(latent, model.loss, dispersion * model.loss.noise_scale(latent.f), law, target, kind)
    columns = zip(output_latents(latent, model), model.outputs, dispersion.T, law, target, strict=True)
    outputs = tuple(Predictive(own, single.loss, phi, shape, scale, kind) for own, single, phi, shape, scale in columns)
    return JointPredictive(outputs, latent, noise.correlation)


def output_position(names, output):
    """Position of an output among the names."""
    match = np.flatnonzero(names == output)
    if match.size:
        return int(match[0])
    if isinstance(output, Integral) and -len(names) <= output < len(names):
        return int(output) % len(names)
    raise ValueError(f"output={output!r} is not one of the outputs: {listed(names)}.")


def output_latents(latent, model):
    """Yield the uncertain raw predictions of each output."""
    for j, own in enumerate(model.outputs):
        freedom = latent.freedom
        if freedom is not None:
            freedom = Degrees(own, output_ribbon(freedom.ribbon, model, j), freedom.X)
        yield output_latent(latent, j, freedom)


def output_latent(latent, j, freedom=None):
    """Uncertain raw predictions of the j-th output."""
    draws = None if latent.draws is None else latent.draws[..., [j], :]
    source = partial(_draws_of_output, latent.source, j)
    return Latent(latent.f[:, [j]], latent.covariance[..., j : j + 1, j : j + 1], draws, source, freedom, latent.least)


def _draws_of_output(source, j, n_samples, rng):
    return source(n_samples, rng)[:, [j]]


like: Any = wraps  # lends a Predictive's docstring and signature to a method of JointPredictive


def by_output(method: Any) -> Any:
    """Method of JointPredictive that stacks the results of a Predictive's method, each with its own column of y."""

    @like(method)
    def stacked(self, y=None):
        columns = [] if y is None else [check_table_of(y, (len(self), len(self.outputs))).T]
        results = [method(output, *column) for output, *column in zip(self.outputs, *columns, strict=True)]
        return np.stack(results, axis=-1)

    return stacked


@dataclass(frozen=True, eq=False, repr=False)
class JointPredictive(TargetDistribution):
    r"""Distribution of m outputs at each of n rows, made by ``predict_distribution`` if y has several columns.

    Each output has the distribution :math:`F_j` that a model of this output alone would predict. One Dirichlet weight
    per row for all outputs, and correlated noise, give the covariance of a row,
    :math:`\Sigma(x) = J_x\, \mathrm{Cov}(\Delta\theta_w)\, J_x' + \Sigma_\varepsilon(x)`. The joint distribution is the
    Gaussian copula with its correlations,

    .. math:: z_j = \Phi^{-1}(F_j(y_j)), \qquad z \sim N(0, \mathrm{corr}\, \Sigma(x)),

    a normal distribution with covariance :math:`\Sigma(x)` if all outputs are normal.

    Parameters
    ----------
    outputs : tuple of Predictive
        Distribution of each output alone.
    latent : Latent
        Uncertain raw predictions of all outputs.
    correlation : ndarray of shape (m, m)
        Correlation of the noise.

    See Also
    --------
    Predictive : The distribution of one output.
    RibbonRegressor.predict_distribution : Returns this object.

    Notes
    -----
    User guide: :doc:`/user_guide/outputs`.

    Examples
    --------
    >>> X, y = load_linnerud(return_X_y=True)
    >>> distribution = RibbonRegressor(noise="dof").fit(X, y).predict_distribution(X[:1])
    >>> distribution.mean().round(0), distribution.interval(0.9).shape
    (array([[176.,  35.,  57.]]), (1, 3, 2))
    >>> distribution.covariance()[0, 0].round(0)
    array([652.,  57., -70.])
    """

    outputs: tuple[Predictive, ...]
    latent: Latent
    correlation: FloatArray

    mean = by_output(Predictive.mean)
    var = by_output(Predictive.var)
    cdf = by_output(Predictive.cdf)
    cdf_below = by_output(Predictive.cdf_below)
    logpdf = by_output(Predictive.logpdf)
    crps = by_output(Predictive.crps)
    standard_errors = by_output(Predictive.standard_errors)
    slope = by_output(Predictive.slope)
    prediction = by_output(Predictive.prediction)

    @property
    def kind(self) -> str:
        """Whether an observation or the mean function is predicted."""
        return self.outputs[0].kind

    def _quantiles(self, q):
        return np.stack([output._quantiles(q) for output in self.outputs], axis=-2)

    @property
    def has_closed_crps(self) -> bool:
        """Whether :meth:`crps` has a closed form."""
        return all(output.has_closed_crps for output in self.outputs)

    def covariance(self) -> FloatArray:
        """Covariance of the outputs at each row; by the delta method for a transformed target.

        Returns
        -------
        ndarray of shape (n, m, m)
            Covariance of a new observation, or of the mean function if ``kind`` is "confidence".
        """
        slope = self.slope()
        epistemic = slope[:, :, None] * self.latent.covariance * slope[:, None, :]
        if self.kind == "confidence":
            return epistemic
        aleatoric = np.copysign(self.standard_errors()[1], slope)  # a decreasing transform turns the noise around
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
        z, root, distance = self._copula(y)
        log_size = np.log(np.einsum("njj->nj", root)).sum(axis=1)  # half of the log determinant
        return self.logpdf(y).sum(axis=1) - log_size - (distance - (z**2).sum(axis=1)) / 2

    def joint_level(self, y: ArrayLike) -> FloatArray:
        """Level of the smallest joint region that contains y; uniform if the distribution is right.

        Parameters
        ----------
        y : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n,)
            The region of level 0.9, an ellipsoid if all outputs are normal, contains rows with at most 0.9 here.
        """
        return chdtr(len(self.outputs), self._copula(y)[2])

    def _copula(self, y):
        """Normal scores (n, m) of y, a root (n, m, m) of their correlation, and squared Mahalanobis distances (n,)."""
        z, covariance = ndtri(np.clip(self.cdf(y), 1e-15, 1 - 1e-15)), self.covariance()  # finite normal scores
        std = np.sqrt(np.einsum("njj->nj", covariance))
        std = np.where(std > 0, std, 1.0)
        root = np.linalg.cholesky(_regular(covariance / std[:, :, None] / std[:, None, :]))
        return z, root, (np.linalg.solve(root, z[:, :, None])[:, :, 0] ** 2).sum(axis=1)

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
        y = check_table_of(y, (len(self), len(self.outputs)))
        return energy_scores(y, self.sample(n_samples, random_state))

    @like(Predictive.drawn)
    def drawn(self, n_samples, functions, noise):
        draws = self.latent.joint_draws(check_count(n_samples, "n_samples"), functions)  # (n, m, n_samples)
        if self.kind == "prediction":
            e = noise.standard_normal(draws.shape)
            e = np.einsum("jk,nks->njs", np.linalg.cholesky(_regular(self.correlation)), e)
            draws = draws + np.stack([_noise(own, e[:, j]) for j, own in enumerate(self.outputs)], axis=1)
        return np.stack([scale_of(own).decode(draws[:, j]).T for j, own in enumerate(self.outputs)], axis=-1)

    @like(Predictive.scaled)
    def scaled(self, factors):
        outputs = tuple(output.scaled(factors) for output in self.outputs)
        return replace(self, outputs=outputs, latent=self.latent.scaled(factors))


def _noise(output, e):
    """Noise (n, S) around one output, from normal scores e (n, S)."""
    size = np.sqrt(np.broadcast_to(output.dispersion, len(output)))[:, None]
    if isinstance(output.shape, NormalLaw):
        return size * e
    levels = np.clip(ndtr(e).ravel(), *noise_ends(output))
    return size * output.shape.marginal(0.0, 1.0, 0.0).ppf(levels).reshape(e.shape)


def _regular(correlation):
    """Correlations (..., m, m) shrunk a little, so that singular ones have a Cholesky root."""
    eye = np.eye(correlation.shape[-1])
    return np.where(eye > 0, 1.0, (1 - 1e-10) * correlation)
