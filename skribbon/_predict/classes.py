"""Distribution of class probabilities, given uncertain logits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.utils import check_random_state

from .._laws.base import in_order, student_ratio
from .._utils.checks import check_count
from .._utils.typing import FloatArray, RandomState
from ..models.losses import Loss
from .predictive import Distribution, Drawn, Latent
from .softmax import MOST_PAIRS, logistic_mean, logistic_quantiles, softmax_mean, softmax_quantiles


@dataclass(frozen=True, eq=False, repr=False)
class ClassProbabilities(Distribution):
    """Distribution of the class probabilities at n rows, made by a classifier's ``predict_distribution``.

    Parameters
    ----------
    latent : Latent
        Uncertain logits, in the coordinates of the loss.
    loss : Loss
        Maps logits to class probabilities.

    Examples
    --------
    >>> X, y = load_iris(return_X_y=True)
    >>> distribution = RibbonClassifier().fit(X[50:, 2:], y[50:]).predict_distribution(X[70:71, 2:])
    >>> distribution.mean().round(2)
    array([[0.48, 0.52]])
    >>> distribution.interval(0.9)[0, 1].round(2)
    array([0.42, 0.61])
    """

    latent: Latent
    loss: Loss

    def mean(self) -> FloatArray:
        """Probabilities averaged over the uncertainty of the logits.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._mean(MOST_PAIRS)

    def _mean(self, most_pairs):
        """Averaged probabilities (n, K), with at most so many pairs of quadrature nodes."""
        f, covariance = self.latent.f, self.latent.covariance
        if self.latent.draws is not None:
            return self.loss.probabilities(self.latent.draws).mean(axis=-1)
        if self.loss.n_classes == 2:
            return logistic_mean(f[:, 0], covariance[:, 0, 0])
        return softmax_mean(f, covariance, self.loss.output_map, most_pairs)

    def mean_path(self, factors: ArrayLike, most_pairs: int = MOST_PAIRS) -> FloatArray:
        """Averaged probabilities with the covariance multiplied by each of several factors.

        Parameters
        ----------
        factors : array-like of shape (A,)
        most_pairs : int, default=16384
            Most pairs of quadrature nodes for more than four classes; few are enough for averages over many rows.

        Returns
        -------
        ndarray of shape (A, n, K)
        """
        most_pairs = most_pairs if self.loss.n_classes > 4 else MOST_PAIRS  # few classes are cheap
        return np.stack([self.scaled(factor)._mean(most_pairs) for factor in np.asarray(factors)])

    def take(self, rows: ArrayLike) -> ClassProbabilities:
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
        if self.latent.draws is not None:
            return Drawn(self.loss.probabilities(self.latent.draws), self.latent.df[:, None]).ppf(q)
        return self._normal_quantiles(q, 1.0) if np.isinf(self.latent.df).all() else self._student_quantiles(q)

    def _student_quantiles(self, q):
        """Quantiles (n, K, Q) for Student's t logits: normal ones with the covariance scaled level by level."""
        values, tails = np.empty((len(self), self.loss.n_classes, len(q))), np.log(np.minimum(q, 1 - q)).round(9)
        for tail in np.unique(tails):  # levels q and 1 - q share a scale
            same = tails == tail
            values[..., same] = self._normal_quantiles(q[same], student_ratio(ndtri(q[same][0]), self.latent.df) ** 2)
        return in_order(values, q)

    def _normal_quantiles(self, q, factor):
        """Quantiles (n, K, Q) with the covariance of each row multiplied by a factor."""
        f, covariance = self.latent.f, self.latent.covariance * np.reshape(factor, (-1, 1, 1))
        if self.loss.n_classes == 2:
            return logistic_quantiles(f[:, 0], covariance[:, 0, 0], q)
        return softmax_quantiles(f, covariance, self.loss.output_map, q)

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
        draws = self.latent.source(check_count(n_samples, "n_samples"), check_random_state(random_state))
        return self.loss.probabilities(draws).transpose(2, 0, 1)

    def scaled(self, factor: float) -> ClassProbabilities:
        """Class probabilities with the covariance of the logits multiplied by a factor.

        Parameters
        ----------
        factor : float

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.scaled(factor))

    def over(self, temperature: float) -> ClassProbabilities:
        """Class probabilities with all logits divided by a temperature; above one, they move closer together.

        Parameters
        ----------
        temperature : float

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.over(temperature))
