"""Monte Carlo dropout: a network that goes on dropping units when it predicts."""

from __future__ import annotations

from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from .._estimators.base import Wrapper, innermost
from .._utils.checks import check_count, check_target
from .._utils.typing import RandomState
from ..models import AutogradClassifier, AutogradRegressor
from ..models.architectures import cnn, dropout_mask, mlp
from ..models.mlp import MultilayerPerceptron
from ..noise.scale import Noise
from ._members import MemberClassification, MemberRegression

DEFAULT: dict[str, Any] = {"solver": "adam", "l2": 1e-4, "learning_rate": 0.01, "tol": 1e-4, "max_iter": 500}


class _MCDropout(Wrapper):
    """A draw is a thinned network: one mask for all rows, so that it is one function, as draws of other methods are.

    At a single row that is the same law as a fresh mask per row. Dropping unit j of a layer is setting row j of the
    next layer's weights to zero.
    """

    def __init__(self, estimator: BaseEstimator | None = None, *, n_draws: int = 100, random_state: RandomState = None):
        self.estimator = estimator
        self.n_draws = n_draws
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train the network and draw its passes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        return self._adopt(self._fit_dropout(X, check_target(self, y)))

    def _fit_dropout(self, X, y):
        self._check_law()
        check_count(self.n_draws, "n_draws", 2)
        dropout = _dropout_of(self._get_estimator())
        fitted, model, weight = self._fit_base(X, y, None)
        rng = check_random_state(self.random_state)
        members = [thinned(model, dropout, rng) for _ in range(self.n_draws)]
        return self._with_law(fitted | {"dropout_": dropout, "model_": model, "members_": members}, X, y, weight)

    def _draw(self, n_draws, rng):
        return [thinned(self.model_, self.dropout_, rng) for _ in range(n_draws)]


def thinned(network, dropout, rng):
    """The network without the units that a draw drops, the others scaled up."""
    theta = network.theta.copy()
    for W in _after_dropout(network, theta):
        W *= dropout_mask(len(W), dropout, rng)[:, None]
    return network.at(theta)


def _after_dropout(network, theta):
    """Weights that multiply units that may be dropped, a row for each unit: views of theta."""
    if isinstance(network, MultilayerPerceptron):
        return network.unpack(theta)[0][1:]
    return [network.tree.unpack(theta)[-1][0]]  # of a cnn its dense layer


def _dropout_of(estimator):
    """Dropout probability of the network at the core of an estimator."""
    leaf, _ = innermost(estimator)
    if isinstance(leaf, FrozenEstimator):
        return _dropout_of(leaf.estimator)
    f = getattr(leaf, "f", None) or mlp()
    if not isinstance(leaf, AutogradRegressor | AutogradClassifier) or not isinstance(f, mlp | cnn):
        raise TypeError(
            f"estimator={leaf!r} is not trained with dropout; use AutogradRegressor or AutogradClassifier with "
            "f=mlp(hidden, dropout=0.1) or a cnn, and solver='adam'."
        )
    if f.dropout and leaf.solver != "adam":
        raise ValueError(f"solver={leaf.solver!r} trains without dropout; use solver='adam' for f={f!r}.")
    return f.dropout


class MCDropoutRegressor(RegressorMixin, _MCDropout, MemberRegression):
    """A network trained with dropout that keeps it when predicting; the spread of its passes is the uncertainty.

    Parameters
    ----------
    estimator : estimator, default=None
        :class:`~skribbon.AutogradRegressor` with ``f=mlp(hidden, activation, dropout)`` or a ``cnn`` with dropout, and
        ``solver="adam"``, also inside a pipeline or a TransformedTargetRegressor, or fitted already, in a
        FrozenEstimator. None is a network with 50 hidden units and a dropout of 0.1.
    n_draws : int, default=100
        Number of passes behind predictions; :meth:`predict_samples` makes its own.
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the passes' mean over n - 1.
    random_state : int, RandomState or None, default=None
        Seed of the passes, and of the training if the network's own ``random_state`` is None.

    Attributes
    ----------
    members_ : list of ParametricModel
        The thinned networks.
    dropout_ : float
    estimator_ : estimator
        The trained network.
    model_ : ParametricModel
        The same, as a function of its parameters.
    noise_ : Noise
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from skribbon import AutogradRegressor
    >>> from skribbon.baselines import MCDropoutRegressor
    >>> from skribbon.models.architectures import mlp
    >>> X = np.linspace(-2, 2, 80)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> network = AutogradRegressor(mlp((30,), dropout=0.2), solver="adam", learning_rate=0.01, tol=1e-4)
    >>> dropout = MCDropoutRegressor(network, random_state=0).fit(X, y)
    >>> bool((dropout.predict_std(X, kind="epistemic") > 0).all())
    True
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_draws: int = 100,
        noise: Literal["train", "heteroskedastic"] | float | Noise = "train",
        random_state: RandomState = None,
    ):
        super().__init__(estimator, n_draws=n_draws, random_state=random_state)
        self.noise = noise

    def _default_estimator(self):
        return AutogradRegressor(mlp((50,), dropout=0.1), **DEFAULT)


class MCDropoutClassifier(ClassifierMixin, _MCDropout, MemberClassification):
    """A network trained with dropout that keeps it when predicting; class probabilities are averaged over its passes.

    Parameters
    ----------
    estimator : classifier, default=None
        :class:`~skribbon.AutogradClassifier` with ``f=mlp(hidden, activation, dropout)`` or a ``cnn`` with dropout, and
        ``solver="adam"``, also inside a pipeline, or fitted already, in a FrozenEstimator. None is a network with 50
        hidden units and a dropout of 0.1.
    n_draws : int, default=100
        Number of passes behind predictions; :meth:`predict_proba_samples` makes its own.
    random_state : int, RandomState or None, default=None
        Seed of the passes, and of the training if the network's own ``random_state`` is None.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_ : list of ParametricModel
        The thinned networks.
    dropout_ : float
    estimator_ : estimator
        The trained network.
    model_ : ParametricModel
        The same, as a function of its parameters.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skribbon.baselines import MCDropoutClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> dropout = MCDropoutClassifier(random_state=0).fit(X, y)
    >>> dropout.predict_proba_samples(X[:2], n_samples=5, random_state=0).shape
    (5, 2, 3)
    """

    def _default_estimator(self):
        return AutogradClassifier(mlp((50,), dropout=0.1), **DEFAULT)
