"""The Bayesian bootstrap: refits at Dirichlet weights, the target that Ribbon approximates."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression

from .._utils.typing import RandomState
from ..exceptions import warn_user
from ..models.base import training_rows
from ..models.newton import minimise
from ..noise.scale import Noise
from ._members import MemberClassification, MemberRegression
from ._retraining import Retraining, observations, retrain, with_seed


class _BayesianBootstrap(Retraining):
    @property
    def _trains_again(self):
        return not (isinstance(self.start, str) and self.start == "optimum")

    def _tasks(self, model, X, y, weight, seeds):
        order, frequencies = observations(X, y, weight)
        training = training_rows(model, X, y, np.ones(len(y)))
        for seed in seeds:
            w = np.zeros(len(y))
            w[order] = dirichlet(frequencies, self.alpha, np.random.default_rng(seed))
            if self.start == "optimum":
                yield reoptimise, replace(training, weight=w)
            else:
                estimator = with_seed(self._get_estimator(), seed)
                fit_params, received = self._route_weight(estimator, w)
                if received is None:
                    raise ValueError("The base model must request sample_weight, or set start='optimum'.")
                yield retrain, estimator, X, y, None, w, fit_params

    def _check_parameters(self):
        super()._check_parameters()
        if not isinstance(self.alpha, Real) or not np.isfinite(self.alpha) or self.alpha <= 0:
            raise ValueError(f"alpha must be a finite number > 0, got {self.alpha!r}. 1 is the Bayesian bootstrap.")
        if not isinstance(self.start, str) or self.start not in ("scratch", "optimum"):
            raise ValueError(f"start must be 'scratch' or 'optimum', got {self.start!r}.")


def dirichlet(frequencies, alpha, rng):
    """Weights (n,) of rows: n times a Dirichlet draw over all observations, added up over those of a row."""
    copies = np.ceil(frequencies).astype(int)
    last = np.cumsum(copies) - 1
    shape = np.ones(last[-1] + 1)
    shape[last] = frequencies - (copies - 1)  # of a fraction of an observation
    gamma = np.add.reduceat(rng.standard_gamma(alpha * shape), last - copies + 1)
    total = gamma.sum()
    if not total > 0:
        raise ValueError(f"alpha={alpha:g} is so small that all Dirichlet weights underflow; use a larger alpha.")
    return gamma * (frequencies.sum() / total)


def reoptimise(rows):
    """The model at the minimum of its objective with the weights of ``rows``, found from where it stands."""
    theta, report = minimise(rows)
    if not report.converged:
        warn_user(
            f"The refit stopped after {report.n_iter} steps with a gradient of {report.gradient_after:.2g} standard "
            "errors; penalise the base model more, or use start='scratch'.",
            ConvergenceWarning,
        )
    return rows.model.at(theta)


class BayesianBootstrapRegressor(RegressorMixin, MemberRegression, _BayesianBootstrap):
    r"""The base model refitted at Dirichlet weights: what :class:`~skribbon.RibbonRegressor` does in one linear step.

    .. math:: \hat\theta_w = \arg\min_\theta \sum_i w_i \ell(z_i, \theta) + r(\theta), \qquad
              w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None; for ``start="scratch"`` its ``fit`` must take weights.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap.
    n_members : int, default=100
    start : {"scratch", "optimum"}, default="scratch"
        Train the base model again, transformers and random start included, or move the single fit's parameters to the
        minimum at the drawn weights by Newton steps, which stays in the same valley. Only the latter takes a base model
        in a :class:`~sklearn.frozen.FrozenEstimator`.
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
    >>> from sklearn.linear_model import Ridge
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.baselines import BayesianBootstrapRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> refits = BayesianBootstrapRegressor(Ridge(0.1), n_members=200, random_state=0).fit(X, y)
    >>> ribbon = RibbonRegressor(Ridge(0.1), correction="HC0").fit(X, y)
    >>> ratio = refits.predict_std(X, kind="epistemic") / ribbon.predict_std(X, kind="epistemic")
    >>> print(round(ratio.mean(), 1))
    1.0
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        alpha: float = 1.0,
        n_members: int = 100,
        start: Literal["scratch", "optimum"] = "scratch",
        noise: Literal["train", "heteroskedastic"] | float | Noise = "train",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(estimator, n_members=n_members, n_jobs=n_jobs, verbose=verbose, random_state=random_state)
        self.alpha = alpha
        self.start = start
        self.noise = noise

    def _default_estimator(self):
        return LinearRegression()


class BayesianBootstrapClassifier(ClassifierMixin, MemberClassification, _BayesianBootstrap):
    r"""The base model refitted at Dirichlet weights: what :class:`~skribbon.RibbonClassifier` does in one linear step.

    .. math:: \hat\theta_w = \arg\min_\theta \sum_i w_i \ell(z_i, \theta) + r(\theta), \qquad
              w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None; for ``start="scratch"`` its ``fit`` must take weights.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap.
    n_members : int, default=100
    start : {"scratch", "optimum"}, default="scratch"
        Train the base model again, transformers and random start included, or move the single fit's parameters to the
        minimum at the drawn weights by Newton steps, which stays in the same valley. Only the latter takes a base model
        in a :class:`~sklearn.frozen.FrozenEstimator`.
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
    >>> from skribbon.baselines import BayesianBootstrapClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> refits = BayesianBootstrapClassifier(n_members=20, start="optimum", random_state=0).fit(X[50:, 2:], y[50:])
    >>> refits.predict_proba_interval(X[50:53, 2:]).shape
    (3, 2, 2)
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        alpha: float = 1.0,
        n_members: int = 100,
        start: Literal["scratch", "optimum"] = "scratch",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(estimator, n_members=n_members, n_jobs=n_jobs, verbose=verbose, random_state=random_state)
        self.alpha = alpha
        self.start = start

    def _default_estimator(self):
        return LogisticRegression()
