"""Distribution of class probabilities, given uncertain logits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .._laws import student_ratio
from .._utils.checks import check_count, check_levels
from .._utils.typing import FloatArray, Levels, RandomState
from ..models.losses import Loss
from .latent import Latent
from .predictive import Drawn, central_intervals
from .softmax import MOST_PAIRS, logistic_mean, logistic_quantiles, softmax_mean, softmax_quantiles


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Distribution of the class probabilities at n rows, made by a classifier's ``predict_distribution``.

    Parameters
    ----------
    latent : Latent
        The uncertain logits, in the coordinates of the loss.
    loss : Loss
        With ``n_classes`` and ``probabilities(f)``.

    Examples
    --------
    >>> X, y = load_iris(return_X_y=True)
    >>> distribution = RibbonClassifier().fit(X[50:, 2:], y[50:]).predict_distribution(X[70:71, 2:])
    >>> distribution.mean().round(2)
    array([[0.48, 0.52]])
    >>> distribution.interval(0.9).round(2)
    array([[[0.39, 0.58],
            [0.42, 0.61]]])
    """

    latent: Latent
    loss: Loss

    def __len__(self):
        return len(self.latent.f)

    def mean(self) -> FloatArray:
        """Averaged probabilities.

        Returns
        -------
        ndarray of shape (n, K)
            Rows sum to one.
        """
        return self._mean(MOST_PAIRS)

    def _mean(self, most_pairs):
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
            Number of pairs of quadrature nodes at which doubling stops, for more than four classes. Fewer are enough
            for averages over many rows.

        Returns
        -------
        ndarray of shape (A, n, K)
        """
        most_pairs = most_pairs if self.loss.n_classes > 4 else MOST_PAIRS  # few classes are cheap
        return np.stack([self.scaled(factor)._mean(most_pairs) for factor in np.asarray(factors)])

    def take(self, rows: ArrayLike) -> ClassProbabilities:
        """The class probabilities of some rows, without joint draws.

        Parameters
        ----------
        rows : array-like of int

        Returns
        -------
        ClassProbabilities
        """
        return replace(self, latent=self.latent.take(np.asarray(rows)))

    def quantile(self, q: Levels) -> FloatArray:
        """Quantiles of every class probability.

        Parameters
        ----------
        q : float or sequence of Q floats

        Returns
        -------
        ndarray of shape (n, K) or (n, K, Q)
        """
        q, scalar = check_levels(q, "q")
        if self.latent.draws is not None:
            values = Drawn(self.loss.probabilities(self.latent.draws), self.latent.df[:, None]).ppf(q)
        elif np.isinf(self.latent.df).all():
            values = self._normal_quantiles(q, 1.0)
        else:
            values = self._student_quantiles(q)
        return values[..., 0] if scalar else values

    def _student_quantiles(self, q):
        """Quantiles (n, K, Q) with each level's covariance scaled so that normal quantiles of logits are Student's."""
        values, order = [], np.argsort(q, kind="stable")
        for level in q[order]:
            values.append(self._normal_quantiles(np.array([level]), student_ratio(level, self.latent.df) ** 2))
        values = np.maximum.accumulate(np.concatenate(values, axis=-1), axis=-1)
        return values[..., np.argsort(order, kind="stable")]

    def _normal_quantiles(self, q, factor):
        """Quantiles (n, K, Q) with the covariance of each row multiplied by a factor."""
        f, covariance = self.latent.f, self.latent.covariance * np.reshape(factor, (-1, 1, 1))
        if self.loss.n_classes == 2:
            return logistic_quantiles(f[:, 0], covariance[:, 0, 0], q)
        return softmax_quantiles(f, covariance, self.loss.output_map, q)

    def interval(self, confidence_level: Levels = 0.9) -> FloatArray:
        """Central interval of every class probability.

        Parameters
        ----------
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n, K, 2) or (n, K, 2, L)
        """
        return central_intervals(self.quantile, confidence_level)

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
        rng = check_random_state(random_state)
        draws = self.latent.source(check_count(n_samples, "n_samples"), rng)
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
