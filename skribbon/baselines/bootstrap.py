"""Bootstrap retraining: the base model trained on rows drawn with replacement."""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression

from .._utils.typing import RandomState
from ..noise.scale import Noise
from ._members import MemberClassification, MemberRegression
from ._retraining import Retraining, observations, retrain, with_seed


class _Bootstrap(Retraining):
    def _tasks(self, model, X, y, weight, seeds):
        order, frequencies = observations(X, y, weight)
        for seed in seeds:
            rows = order[resample(frequencies, np.random.default_rng(seed))]
            yield retrain, with_seed(self._get_estimator(), seed), X, y, rows, None, {}


def resample(frequencies, rng):
    """Indices of as many observations as there are, drawn with replacement."""
    ends = np.cumsum(frequencies)
    drawn = rng.uniform(0, ends[-1], size=max(1, round(ends[-1])))
    return np.minimum(np.searchsorted(ends, drawn, side="right"), len(ends) - 1)


class BootstrapRegressor(RegressorMixin, MemberRegression, _Bootstrap):
    """The base model trained from scratch on rows that are drawn with replacement.

    Transformers in a pipeline are refitted with it. A row of weight m is m observations to draw from, so that the base
    model needs no weights of its own, save for the single fit to all rows.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None.
    n_members : int, default=100
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the members' mean over n - 1.
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.

    Attributes
    ----------
    members_ : list of ParametricModel
        The members whose training succeeded.
    estimator_ : estimator
        The base model fitted to all rows.
    model_ : ParametricModel
        The same, as a function of its parameters.
    noise_ : Noise
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skribbon.baselines import BootstrapRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bootstrap = BootstrapRegressor(n_members=50, random_state=0).fit(X, y)
    >>> bootstrap.predict_interval(X[:3], confidence_level=0.9).shape
    (3, 2)
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_members: int = 100,
        noise: Literal["train", "heteroskedastic"] | float | Noise = "train",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(estimator, n_members=n_members, n_jobs=n_jobs, verbose=verbose, random_state=random_state)
        self.noise = noise

    def _default_estimator(self):
        return LinearRegression()


class BootstrapClassifier(ClassifierMixin, MemberClassification, _Bootstrap):
    """The base model trained from scratch on rows that are drawn with replacement; probabilities are averaged.

    Transformers in a pipeline are refitted with it. A row of weight m is m observations to draw from, so that the base
    model needs no weights of its own, save for the single fit to all rows. A class that a draw does not contain has
    probability zero for that member.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None.
    n_members : int, default=100
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_ : list of ParametricModel
        The members whose training succeeded.
    estimator_ : estimator
        The base model fitted to all rows.
    model_ : ParametricModel
        The same, as a function of its parameters.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skribbon.baselines import BootstrapClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bootstrap = BootstrapClassifier(n_members=20, random_state=0).fit(X[50:, 2:], y[50:])
    >>> bootstrap.predict_proba_samples(X[50:53, 2:], n_samples=5).shape
    (5, 3, 2)
    """

    def _default_estimator(self):
        return LogisticRegression()
