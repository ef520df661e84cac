"""Ensembles: one base model, trained many times or thinned by dropout; predictions are averaged over the members."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from .._core.refits import minimise
from .._estimators.base_model import MAX_SEED, Wrapper, adopt, parametric_model, seed_all
from .._utils.checks import check_count, check_target
from .._utils.compat import safe_indexing
from .._utils.typing import MatrixLike, RandomState
from .._utils.unwrap import innermost
from ..exceptions import RibbonWarning, warn_user
from ..models import AutogradClassifier, AutogradRegressor
from ..models.architectures import cnn, dropout_mask, mlp
from ..models.base import training_rows
from ..models.mlp import MultilayerPerceptron
from ..noise.scale import Noise
from ._members import MemberClassification, MemberRegression, indexable

NETWORK: dict[str, Any] = {"hidden_layer_sizes": (10,), "activation": "tanh", "solver": "lbfgs"}
DROPOUT: dict[str, Any] = {"solver": "adam", "l2": 1e-4, "learning_rate": 0.01, "tol": 1e-4, "max_iter": 500}


class MemberWarning(RibbonWarning):
    """Some members could not be trained, and were left out.

    Raised by ``fit``; the message says how many and why. Predictions are those of the other members. Where many fail,
    scale the features, or penalise the base model more.
    """


# ---------------------------------------------------------------------- one base model, trained many times
@dataclass(repr=False, eq=False)
class Retraining(Wrapper):
    """Train a base model once on all rows, then once for each member.

    A subclass writes ``_tasks(model, X, y, weight, seeds)``, which yields a function and its arguments for every
    member; the function returns a ParametricModel. ``weight`` is None if the user gave none.
    """

    _reference_is_a_member = False
    _trains_again = True

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    n_members: int = 100
    n_jobs: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the members.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: how often each row was observed.

        Returns
        -------
        self
        """
        return adopt(self, self._fit_members(X, check_target(self, y), sample_weight))

    def _fit_members(self, X, y, sample_weight):
        """Fit the base model to all rows, then the members; returns what is fitted."""
        self._check_law()
        self._check_parameters()
        X, start = indexable(X), time.perf_counter()
        fitted, model, weight = self._fit_base(X, y, sample_weight)
        outcomes = []
        if self._reference_is_a_member:
            outcomes.append(attempt(X, lambda: model, (), time.perf_counter() - start))
            self._report(outcomes)
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=self.n_members - len(outcomes))
        tasks = self._tasks(model, X, y, None if sample_weight is None else weight, seeds)
        trained = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(attempt)(X, function, arguments) for function, *arguments in tasks
        )
        for outcome in trained:
            outcomes.append(outcome)
            self._report(outcomes)
        return self._with_law(fitted | {"model_": model, "members_": survivors(outcomes)}, X, y, weight)

    def _check_parameters(self):
        check_count(self.n_members, "n_members")
        leaf, _ = innermost(self._get_estimator())
        if self._trains_again and isinstance(leaf, FrozenEstimator):
            raise TypeError(f"estimator={leaf!r} is frozen and cannot be trained again; pass what is inside it.")

    def _report(self, outcomes):
        if self.verbose:
            name = type(self).__name__.removesuffix("Regressor").removesuffix("Classifier")
            latest = outcomes[-1]
            result = f"{latest.seconds:.1f} s" if latest.error is None else f"failed, {latest.error!r}"
            print(f"[{name}] member {len(outcomes)} of {self.n_members}: {result}", flush=True)


@dataclass(repr=False, eq=False, kw_only=True)
class RetrainedRegressor(RegressorMixin, MemberRegression, Retraining):
    """Regressor whose members are trained one by one."""

    noise: Literal["train", "heteroskedastic"] | float | Noise = "train"

    def _default_estimator(self):
        return LinearRegression()


class RetrainedClassifier(ClassifierMixin, MemberClassification, Retraining):
    """Classifier whose members are trained one by one."""

    def _default_estimator(self):
        return LogisticRegression()


@dataclass
class Outcome:
    """A trained member, or why there is none."""

    model: object = None
    seconds: float = 0.0
    error: Exception | None = None
    warnings: list = field(default_factory=list)  # (category, message)


def attempt(X, function, arguments, seconds=0.0):
    """Train a member; an exception, or a prediction that is not finite, makes it a failed one."""
    start = time.perf_counter()
    outcome = Outcome()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = function(*arguments)
            _check_finite(model, X)
            outcome.model = model
        except Exception as error:  # whatever a base model raises, the other members may do well
            outcome.error = error
    outcome.warnings = [(warning.category, str(warning.message)) for warning in caught]
    outcome.seconds = seconds + time.perf_counter() - start
    return outcome


def _check_finite(model, X):
    some = safe_indexing(X, slice(0, 1000))  # enough to see a member diverge, at little cost
    with np.errstate(all="ignore"):
        finite = np.isfinite(model.theta).all() and np.isfinite(model.raw(model.rows(model.prepare(some)))).all()
    if not finite:
        raise FloatingPointError("its predictions are not finite")


def survivors(outcomes):
    """Models of the members that were trained, with a warning about the others; an error if there are none."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    n = len(outcomes)
    if len(failed) == n:
        failed[0].add_note(f"All {n} members failed; this is the first one's error.")
        raise failed[0]
    if failed:
        reasons = Counter(f"{type(error).__name__}: {error}" for error in failed)
        said = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
        warn_user(f"{len(failed)} of {n} members failed and are left out: {said}.", MemberWarning)
    for category, messages in _grouped(outcomes).items():
        warn_user(f"{len(messages)} of {n} members warned; the first: {messages[0]}", category)
    return [outcome.model for outcome in outcomes if outcome.error is None]


def _grouped(outcomes):
    """The first message of every member that warned, by category."""
    grouped = {}
    for outcome in outcomes:
        for category, message in dict(reversed(outcome.warnings)).items():
            grouped.setdefault(category, []).append(message)
    return grouped


def retrain(estimator, X, y, rows, weight, fit_params):
    """Fit ``estimator`` to some rows, to all if None; as a ParametricModel."""
    if rows is not None:
        X, y = safe_indexing(X, rows), y[rows]
    estimator.fit(X, y, **fit_params)
    return parametric_model(estimator, y, np.ones(len(y)) if weight is None else weight)


def with_seed(estimator, seed, override=False):
    """A copy of the base model with a random state of its own wherever it has none, or everywhere."""
    return seed_all(clone(estimator), np.random.RandomState(seed), override)


def observations(X, y, weight):
    """Rows in an order that depends on what is in them and not on where they stand, (n,), and their weights.

    What is then drawn observation by observation is the same for a row of weight 2 and for two copies of that row.
    """
    if sparse.issparse(X):
        content = X @ np.random.default_rng(0).standard_normal(X.shape[1])
    else:
        content = pd.util.hash_pandas_object(pd.DataFrame(X), index=False).to_numpy()
    order = np.lexsort([content, np.unique(y, return_inverse=True)[1]])
    weight = np.ones(len(y)) if weight is None else weight
    order = order[weight[order] > 0]
    return order, weight[order]


# ---------------------------------------------------------------------- bootstrap
class _Bootstrap(Retraining):
    def _tasks(self, model, X, y, weight, seeds):
        order, frequencies = observations(X, y, weight)
        for seed in seeds:
            rows = order[resample(frequencies, np.random.default_rng(seed))]
            yield retrain, with_seed(self._get_estimator(), seed), X, y, rows, None, {}


class BootstrapRegressor(_Bootstrap, RetrainedRegressor):
    """The base model trained from scratch on rows that are drawn with replacement.

    Transformers in a pipeline are refitted with it. A row of weight m is m observations to draw from, so that the base
    model needs no weights of its own, save for the single fit to all rows.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None.
    n_members : int, default=100
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the members' mean over n - 1.

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
    >>> from skribbon.baselines import BootstrapRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bootstrap = BootstrapRegressor(n_members=50, random_state=0).fit(X, y)
    >>> bootstrap.predict_interval(X[:3], confidence_level=0.9).shape
    (3, 2)
    """


class BootstrapClassifier(_Bootstrap, RetrainedClassifier):
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
    >>> from skribbon.baselines import BootstrapClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bootstrap = BootstrapClassifier(n_members=20, random_state=0).fit(X[50:, 2:], y[50:])
    >>> bootstrap.predict_proba_samples(X[50:53, 2:], n_samples=5).shape
    (5, 3, 2)
    """


def resample(frequencies, rng):
    """Indices of as many observations as there are, drawn with replacement."""
    ends = np.cumsum(frequencies)
    drawn = rng.uniform(0, ends[-1], size=max(1, round(ends[-1])))
    return np.minimum(np.searchsorted(ends, drawn, side="right"), len(ends) - 1)


# ---------------------------------------------------------------------- Bayesian bootstrap
@dataclass(repr=False, eq=False, kw_only=True)
class _BayesianBootstrap(Retraining):
    alpha: float = 1.0
    start: Literal["scratch", "optimum"] = "scratch"

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


@dataclass(repr=False, eq=False, kw_only=True)
class BayesianBootstrapRegressor(_BayesianBootstrap, RetrainedRegressor):
    r"""The base model refitted at Dirichlet weights: what :class:`~skribbon.RibbonRegressor` does in one linear step.

    .. math:: \hat\theta_w = \arg\min_\theta \sum_i w_i \ell(z_i, \theta) + r(\theta), \qquad
              w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None; for ``start="scratch"`` its ``fit`` must take weights.
    n_members : int, default=100
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the members' mean over n - 1.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap.
    start : {"scratch", "optimum"}, default="scratch"
        Train the base model again, transformers and random start included, or move the single fit's parameters to the
        minimum at the drawn weights by Newton steps, which stays in the same valley. Only the latter takes a base model
        in a :class:`~sklearn.frozen.FrozenEstimator`.

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
    >>> from skribbon.baselines import BayesianBootstrapRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> refits = BayesianBootstrapRegressor(Ridge(0.1), n_members=200, random_state=0).fit(X, y)
    >>> ribbon = RibbonRegressor(Ridge(0.1), correction="HC0").fit(X, y)
    >>> ratio = refits.predict_std(X, kind="epistemic") / ribbon.predict_std(X, kind="epistemic")
    >>> print(round(ratio.mean(), 1))
    1.0
    """


class BayesianBootstrapClassifier(_BayesianBootstrap, RetrainedClassifier):
    r"""The base model refitted at Dirichlet weights: what :class:`~skribbon.RibbonClassifier` does in one linear step.

    .. math:: \hat\theta_w = \arg\min_\theta \sum_i w_i \ell(z_i, \theta) + r(\theta), \qquad
              w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None; for ``start="scratch"`` its ``fit`` must take weights.
    n_members : int, default=100
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap.
    start : {"scratch", "optimum"}, default="scratch"
        Train the base model again, transformers and random start included, or move the single fit's parameters to the
        minimum at the drawn weights by Newton steps, which stays in the same valley. Only the latter takes a base model
        in a :class:`~sklearn.frozen.FrozenEstimator`.

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
    >>> from skribbon.baselines import BayesianBootstrapClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> refits = BayesianBootstrapClassifier(n_members=20, start="optimum", random_state=0).fit(X[50:, 2:], y[50:])
    >>> refits.predict_proba_interval(X[50:53, 2:]).shape
    (3, 2, 2)
    """


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


# ---------------------------------------------------------------------- deep ensembles
@dataclass(repr=False, eq=False, kw_only=True)
class _DeepEnsemble(Retraining):
    _reference_is_a_member = True

    n_members: int = 5

    def _tasks(self, model, X, y, weight, seeds):
        for seed in seeds:
            estimator = with_seed(self._get_estimator(), seed, override=True)
            fit_params = {} if weight is None else self._route_weight(estimator, weight)[0]
            yield retrain, estimator, X, y, None, weight, fit_params


@dataclass(repr=False, eq=False, kw_only=True)
class DeepEnsembleRegressor(_DeepEnsemble, RetrainedRegressor):
    """Networks trained from different random starts; their spread is the epistemic uncertainty.

    Every member is trained on all rows. The first is the base model as it stands, the others are copies whose every
    ``random_state`` is drawn anew. A base model without randomness gives members that are all the same.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model; None is a network of one hidden layer with 10 tanh units, by lbfgs.
    n_members : int, default=5
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member.
    random_state : int, RandomState or None, default=None
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the members' mean over n - 1.

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
    >>> from skribbon.baselines import DeepEnsembleRegressor
    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> ensemble = DeepEnsembleRegressor(n_members=3, random_state=0).fit(X, y)
    >>> inside, outside = ensemble.predict_std([[0.0], [6.0]], kind="epistemic")
    >>> bool(inside < outside)
    True
    """

    def _default_estimator(self):
        return MLPRegressor(**NETWORK)


class DeepEnsembleClassifier(_DeepEnsemble, RetrainedClassifier):
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
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skribbon.baselines import DeepEnsembleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> network = MLPClassifier(hidden_layer_sizes=(3,), solver="lbfgs", alpha=1.0)
    >>> ensemble = DeepEnsembleClassifier(network, n_members=3, random_state=0).fit(X[50:, 2:], y[50:])
    >>> ensemble.predict_proba_interval(X[50:53, 2:]).shape
    (3, 2, 2)
    """

    def _default_estimator(self):
        return MLPClassifier(**NETWORK)


# ---------------------------------------------------------------------- dropout
@dataclass(repr=False, eq=False)
class _MCDropout(Wrapper):
    """A draw is a thinned network: one mask for all rows, so that it is one function, as draws of other methods are.

    At a single row that is the same law as a fresh mask per row. Dropping unit j of a layer is setting row j of the
    next layer's weights to zero.
    """

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    n_draws: int = 100
    random_state: RandomState = None

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
        return adopt(self, self._fit_dropout(X, check_target(self, y)))

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


@dataclass(repr=False, eq=False, kw_only=True)
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
    random_state : int, RandomState or None, default=None
        Seed of the passes, and of the training if the network's own ``random_state`` is None.
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the passes' mean over n - 1.

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

    noise: Literal["train", "heteroskedastic"] | float | Noise = "train"

    def _default_estimator(self):
        return AutogradRegressor(mlp((50,), dropout=0.1), **DROPOUT)


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
    >>> from skribbon.baselines import MCDropoutClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> dropout = MCDropoutClassifier(random_state=0).fit(X, y)
    >>> dropout.predict_proba_samples(X[:2], n_samples=5, random_state=0).shape
    (5, 2, 3)
    """

    def _default_estimator(self):
        return AutogradClassifier(mlp((50,), dropout=0.1), **DROPOUT)


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
