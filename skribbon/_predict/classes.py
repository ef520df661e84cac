"""Distribution of class probabilities, given uncertain logits."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.utils import check_random_state

from .._core.rows import row_blocks
from .._laws.base import in_order, student_ratio
from .._utils.checks import check_count
from .._utils.typing import FloatArray, Levels, RandomState
from ..models.losses import Loss
from . import softmax
from .predictive import Distribution, Drawn, Latent

BINARY = np.array([[0.0], [1.0]])  # logits of two classes, from their log-odds


@dataclass(frozen=True)
class Scaling:
    """How a classifier turns logits into class probabilities.

    Attributes
    ----------
    temperature : float
        Divides all logits.
    bias : ndarray of shape (K,)
        Added to the logits after the division, so that expected class counts agree with observed ones; sums to zero.
    averaged : bool
        Whether probabilities are averaged over the uncertainty of the logits.
    exact : bool
        Whether averages and quantiles are computed by quadrature, instead of in closed form.
    losses : dict of str to float
        Mean log loss on held-out rows of what was compared: "plain", "tempered" and "averaged"; None if nothing was.
    """

    temperature: float = 1.0
    bias: FloatArray | float = 0.0
    averaged: bool = True
    exact: bool = False
    losses: dict[str, float] | None = None

    def __str__(self):
        bias = np.round(np.atleast_1d(self.bias), 3).tolist() if np.any(self.bias) else 0
        how = "averaged over the uncertainty of the logits" if self.averaged else "not averaged"
        compared = ", ".join(f"{name} {loss:.4g}" for name, loss in (self.losses or {}).items())
        return f"temperature {self.temperature:.4g}, bias {bias}, {how}{compared and f'; log loss {compared}'}"


@dataclass(frozen=True, eq=False, repr=False)
class ClassProbabilities(Distribution):
    """Distribution of the class probabilities at n rows, made by a classifier's ``predict_distribution``.

    Parameters
    ----------
    latent : Latent
        Uncertain logits, in the coordinates of the loss.
    loss : Loss
        Maps logits to class probabilities.
    scaling : Scaling
        Temperature, bias and averaging of the classifier. A temperature above one is for the mean alone.

    See Also
    --------
    Predictive : The distribution of an observation in regression.
    RibbonClassifier.predict_distribution : Returns this object.

    Notes
    -----
    User guide: :doc:`/user_guide/classification`.

    Examples
    --------
    >>> X, y = load_iris(return_X_y=True)
    >>> distribution = RibbonClassifier().fit(X[50:, 2:], y[50:]).predict_distribution(X[70:71, 2:])
    >>> distribution.mean().round(2)
    array([[0.46, 0.54]])
    >>> distribution.interval(0.9)[0, 1].round(2)
    array([0.4 , 0.67])
    """

    latent: Latent
    loss: Loss
    scaling: Scaling = Scaling()

    @property
    def _basis(self):
        """Map (K, k) from the coordinates of the loss to logits."""
        return BINARY if self.loss.n_classes == 2 else self.loss.output_map

    def _over(self, temperature):
        """Logits over a temperature, plus the bias in the coordinates of the loss."""
        bias = np.broadcast_to(self.scaling.bias, self.loss.n_classes)
        return self.latent.over(temperature, bias[1:] - bias[:1] if self.loss.n_classes == 2 else bias @ self._basis)

    @property
    def _uncertain(self):
        """Logits whose uncertainty intervals and draws show: a temperature above one does not narrow them."""
        return self._over(self.scaling.temperature) if self.scaling.temperature < 1 else self.latent

    def mean(self) -> FloatArray:
        """Predicted probabilities: at the temperature, with the bias, averaged over the uncertainty of the logits.

        Returns
        -------
        ndarray of shape (n, K)
        """
        latent = self._over(self.scaling.temperature)
        f, covariance = latent.f, latent.covariance
        if not self.scaling.averaged:
            return self.loss.probabilities(f)
        if latent.draws is not None:
            return self.loss.probabilities(latent.draws).mean(axis=-1)
        if not self.scaling.exact:
            blocks = row_blocks(max(1, len(f)), 3 * self.loss.n_classes**2)
            return np.concatenate([softmax.closed_mean(f[rows], covariance[rows], self._basis) for rows in blocks])
        if self.loss.n_classes == 2:
            return softmax.logistic_mean(f[:, 0], covariance[:, 0, 0])
        return softmax.softmax_mean(f, covariance, self._basis)

    def interval(self, confidence_level: Levels = 0.9) -> FloatArray:
        """Central intervals at the given levels, each with the predicted probability inside.

        Parameters
        ----------
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n, K, 2)
            Lower and upper bounds, with a last axis of length L for a sequence.
        """
        intervals, mean = super().interval(confidence_level), self.mean()
        mean = mean if intervals.ndim == 3 else mean[:, :, None]
        np.minimum(intervals[:, :, 0], mean, out=intervals[:, :, 0])
        np.maximum(intervals[:, :, 1], mean, out=intervals[:, :, 1])
        return intervals

    def take(self, rows: ArrayLike) -> Self:
        """Class probabilities of some rows, without joint draws.

        Parameters
        ----------
        rows : array-like of int

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.take(np.asarray(rows)))

    def _quantiles(self, q):
        latent = self._uncertain
        if latent.draws is not None:
            return Drawn(self.loss.probabilities(latent.draws), latent.df[:, None]).ppf(q)
        if np.isinf(latent.df).all():
            return self._normal_quantiles(latent, q, 1.0)
        # Student's t logits: normal ones with the covariance scaled level by level; levels q and 1 - q share a scale
        values, tails = np.empty((len(self), self.loss.n_classes, len(q))), np.log(np.minimum(q, 1 - q)).round(9)
        for tail in np.unique(tails):
            same = tails == tail
            ratio = student_ratio(ndtri(q[same][0]), latent.df) ** 2
            values[..., same] = self._normal_quantiles(latent, q[same], ratio)
        return in_order(values, q)

    def _normal_quantiles(self, latent, q, factor):
        """Quantiles (n, K, Q) with the covariance of each row multiplied by a factor."""
        f, covariance = latent.f, latent.covariance * np.reshape(factor, (-1, 1, 1))
        if self.loss.n_classes == 2:
            return softmax.logistic_quantiles(f[:, 0], covariance[:, 0, 0], q)
        if self.scaling.exact:
            return softmax.softmax_quantiles(f, covariance, self._basis, q)
        blocks = row_blocks(max(1, len(f)), 5 * self.loss.n_classes**2)
        return np.concatenate([softmax.closed_quantiles(f[rows], covariance[rows], self._basis, q) for rows in blocks])

    def sample(self, n_samples: int = 100, random_state: RandomState = None) -> FloatArray:
        """Joint draws; each is one classifier evaluated at all rows.

        Parameters
        ----------
        n_samples : int, default=100
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n, K)
        """
        draws = self._uncertain.source(check_count(n_samples, "n_samples"), check_random_state(random_state))
        return self.loss.probabilities(draws).transpose(2, 0, 1)

    def scaled(self, factor: float) -> Self:
        """Class probabilities with the covariance of the logits multiplied by a factor.

        Parameters
        ----------
        factor : float

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.scaled(factor))
