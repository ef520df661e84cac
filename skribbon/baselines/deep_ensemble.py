"""Deep ensembles: the same network trained from several random starts."""

from __future__ import annotations

from typing import Any, Literal

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.neural_network import MLPClassifier, MLPRegressor

from .._utils.typing import RandomState
from ..noise.scale import Noise
from ._members import MemberClassification, MemberRegression
from ._retraining import Retraining, retrain, with_seed

DEFAULT: dict[str, Any] = {"hidden_layer_sizes": (10,), "activation": "tanh", "solver": "lbfgs"}


class _DeepEnsemble(Retraining):
    _reference_is_a_member = True

    def _tasks(self, model, X, y, weight, seeds):
        for seed in seeds:
            estimator = with_seed(self._get_estimator(), seed, override=True)
            fit_params = {} if weight is None else self._route_weight(estimator, weight)[0]
            yield retrain, estimator, X, y, None, weight, fit_params


class DeepEnsembleRegressor(RegressorMixin, MemberRegression, _DeepEnsemble):
    """Networks trained from different random starts; their spread is the epistemic uncertainty.

    Every member is trained on all rows. The first is the base model as it stands, the others are copies whose every
    ``random_state`` is drawn anew. A base model without randomness gives members that are all the same.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model; None is a network of one hidden layer with 10 tanh units, by lbfgs.
    n_members : int, default=5
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the members' mean over n - 1.
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    members_ : list of ParametricModel
        The members whose training succeeded.
    estimator_ : estimator
        The first member, as fitted.
    model_ : ParametricModel
        The same, as a function of its parameters.
    noise_ : Noise
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from skribbon.baselines import DeepEnsembleRegressor
    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> ensemble = DeepEnsembleRegressor(n_members=3, random_state=0).fit(X, y)
    >>> inside, outside = ensemble.predict_std([[0.0], [6.0]], kind="epistemic")
    >>> bool(inside < outside)
    True
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_members: int = 5,
        noise: Literal["train", "heteroskedastic"] | float | Noise = "train",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(estimator, n_members=n_members, n_jobs=n_jobs, verbose=verbose, random_state=random_state)
        self.noise = noise

    def _default_estimator(self):
        return MLPRegressor(**DEFAULT)


class DeepEnsembleClassifier(ClassifierMixin, MemberClassification, _DeepEnsemble):
    """Networks trained from different random starts; class probabilities are averaged over them.

    Every member is trained on all rows. The first is the base model as it stands, the others are copies whose every
    ``random_state`` is drawn anew. A base model without randomness gives members that are all the same.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model; None is a network of one hidden layer with 10 tanh units, by lbfgs.
    n_members : int, default=5
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_ : list of ParametricModel
        The members whose training succeeded.
    estimator_ : estimator
        The first member, as fitted.
    model_ : ParametricModel
        The same, as a function of its parameters.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skribbon.baselines import DeepEnsembleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> network = MLPClassifier(hidden_layer_sizes=(3,), solver="lbfgs", alpha=1.0)
    >>> ensemble = DeepEnsembleClassifier(network, n_members=3, random_state=0).fit(X[50:, 2:], y[50:])
    >>> ensemble.predict_proba_interval(X[50:53, 2:]).shape
    (3, 2, 2)
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_members: int = 5,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(estimator, n_members=n_members, n_jobs=n_jobs, verbose=verbose, random_state=random_state)

    def _default_estimator(self):
        return MLPClassifier(**DEFAULT)
