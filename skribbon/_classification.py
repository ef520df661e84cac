"""What a classifier with uncertain logits says of new rows: averaged probabilities, their intervals and draws."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ._predictions import Predictions, check_count, check_levels, check_single_level
from ._typing import FloatArray, Levels, MatrixLike, RandomState

N_NODES = 512  # fixed quasi-random points of the latent normal law, for more than two classes
GRID = np.linspace(-8.0, 8.0, 129)  # trapezoidal nodes, two classes: the rule converges geometrically
GRID_WEIGHTS = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()


class ClassificationPredictions(Predictions):
    """Predict methods of a classifier; beside what :class:`Predictions` needs, ``classes_``."""

    classes_: NDArray[Any]

    # ------------------------------------------------------------------ predict
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Most probable class under the averaged probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: MatrixLike) -> FloatArray:
        """Probabilities averaged over the parameters' distribution, deterministic.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, K)
            Rows sum to one.
        """
        return self._by_block(X, lambda X: self._averaged(self._latent(X)))

    def predict_log_proba(self, X: MatrixLike) -> FloatArray:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, K)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_proba_samples(
        self, X: MatrixLike, n_samples: int = 100, random_state: RandomState = None
    ) -> FloatArray:
        """Draws of the class probabilities; each draw is one classifier over all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=100
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_samples_X, K)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.predict_proba_samples(X[70:71, 2:], n_samples=3, random_state=0)[:, 0].round(2)
        array([[0.43, 0.57],
               [0.48, 0.52],
               [0.5 , 0.5 ]])
        """
        check_is_fitted(self)
        drawn = self._draw(check_count(n_samples, "n_samples"), check_random_state(random_state))
        draws = self._by_block(X, lambda X: self.model_.loss.probabilities(self._raw_draws(X, drawn)))
        return draws.transpose(2, 0, 1)

    def predict_proba_interval(self, X: MatrixLike, confidence_level: Levels = 0.9) -> FloatArray:
        """Central interval of every class probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or sequence of L floats, default=0.9

        Returns
        -------
        ndarray of shape (n_samples, K, 2) or (n_samples, K, 2, L)
            Lower and upper ends; the last axis is there if a sequence of levels was given.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> ribbon = RibbonClassifier().fit(X[50:, 2:], y[50:])
        >>> ribbon.predict_proba_interval(X[70:71, 2:]).round(2)
        array([[[0.39, 0.57],
                [0.43, 0.61]]])
        """
        levels, scalar = check_levels(confidence_level, "confidence_level")
        tails = (1 - levels) / 2
        quantiles = np.concatenate([tails, 1 - tails])
        ends = self._by_block(X, lambda X: self._quantiles(self._latent(X), quantiles))
        intervals = ends.reshape(*ends.shape[:2], 2, len(levels))
        return intervals[..., 0] if scalar else intervals

    def predict_frame(self, X: MatrixLike, confidence_level: float = 0.9) -> pd.DataFrame:
        """Predicted class, and every class probability with its interval, as a table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float, default=0.9

        Returns
        -------
        DataFrame
            Columns prediction, and proba, lower and upper of each class; the index of X is kept.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skribbon import RibbonClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> ribbon = RibbonClassifier().fit(X.iloc[50:, 2:], y[50:])
        >>> ribbon.predict_frame(X.iloc[70:71, 2:]).round(2)
            prediction  proba_1  lower_1  upper_1  proba_2  lower_2  upper_2
        70           2     0.48     0.39     0.57     0.52     0.43     0.61
        """
        check_single_level(confidence_level)
        proba, intervals = self.predict_proba(X), self.predict_proba_interval(X, confidence_level)
        columns = {"prediction": self.classes_[proba.argmax(axis=1)]}
        for k, label in enumerate(self.classes_):
            columns[f"proba_{label}"] = proba[:, k]
            columns[f"lower_{label}"], columns[f"upper_{label}"] = intervals[:, k].T
        return pd.DataFrame(columns, index=getattr(X, "index", None))

    # ------------------------------------------------------------------ of the latent prediction
    def _averaged(self, latent):
        probabilities, weights = self._nodes(latent)
        mean = probabilities @ weights
        return mean / mean.sum(axis=1, keepdims=True)

    def _nodes(self, latent):
        """Probabilities (n, K, B) that stand for the uncertain ones, and the nodes' weights (B,)."""
        f, weights = latent.draws, None
        if f is None and len(self.classes_) == 2:
            f, weights = latent.f[:, :, None] + np.sqrt(latent.covariance) * GRID, GRID_WEIGHTS
        elif f is None:
            f = latent.f[:, :, None] + _symmetric_root(latent.covariance) @ latent_nodes(latent.f.shape[1])
        weights = np.full(f.shape[2], 1 / f.shape[2]) if weights is None else weights
        return self.model_.loss.probabilities(f), weights

    def _quantiles(self, latent, quantiles):
        if latent.draws is None and len(self.classes_) == 2:
            z = np.sqrt(latent.covariance[:, 0]) * stats.norm.ppf(quantiles)
            return np.stack([expit(-latent.f + z), expit(latent.f + z)], axis=1)  # the sigmoid keeps the order
        probabilities, _ = self._nodes(latent)
        return np.moveaxis(np.quantile(probabilities, quantiles, axis=2), 0, 2)


@lru_cache
def latent_nodes(k):
    """Fixed points (k, N_NODES) of the standard normal law: quasi-random, with exact mean and covariance."""
    z = stats.norm.ppf(stats.qmc.Halton(k, scramble=False).random(N_NODES // 2 + 1)[1:])
    z = np.concatenate([z, -z])
    return np.linalg.solve(np.linalg.cholesky(z.T @ z / len(z)), z.T)


def _symmetric_root(S):
    """S^(1/2) of a stack of positive semi-definite matrices (n, k, k)."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0))[:, None, :]) @ vectors.transpose(0, 2, 1)
