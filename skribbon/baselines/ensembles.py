"""Ensembles: members trained many times or thinned by dropout, and predictions averaged over them."""

import time
import warnings
from collections import Counter
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import chain
from types import SimpleNamespace
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
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_random_state
from sklearn.utils.parallel import delayed

from .._core.linalg import batch_gram
from .._core.refits import minimise
from .._core.rows import row_blocks
from .._estimators.base_model import MAX_SEED, Wrapper, adopt, parametric_model, seed_all, validated
from .._estimators.classifier import ClassificationMethods
from .._estimators.regressor import RegressionMethods
from .._predict.predictive import Latent
from .._predict.target import TargetScale
from .._utils.checks import check_count, check_name, check_positive, check_target
from .._utils.compat import CallbackSupportMixin, public_fit, run_tasks, safe_indexing
from .._utils.frames import as_series, is_polars
from .._utils.typing import MatrixLike, PerRow, RandomState
from .._utils.unwrap import innermost, is_frozen
from ..exceptions import RibbonWarning, warn_user
from ..models import AutogradClassifier, AutogradRegressor
from ..models.architectures import cnn, dropout_mask, mlp
from ..models.base import training_rows
from ..models.mlp import MultilayerPerceptron
from ..noise.fit import resolve_noise
from ..noise.scale import DofNoise, LooNoise, Noise

# Base models if the user gives none: small networks that train in seconds, by a solver that needs no tuning.
NETWORK: dict[str, Any] = {"hidden_layer_sizes": (10,), "activation": "tanh", "solver": "lbfgs"}
# Adam with a small penalty: dropout has no minimum that another solver could find.
DROPOUT: dict[str, Any] = {"solver": "adam", "l2": 1e-4, "learning_rate": 0.01, "tol": 1e-4, "max_iter": 500}
ABSENT = 1e-12  # probability of a class that a member has not seen: negligible in the mean, with a finite log


class MemberWarning(RibbonWarning):
    """Some members could not be trained, and were left out.

    Raised by ``fit`` with the number of failures and their reasons; predictions use the other members. If many fail,
    scale the features, or penalize the base model more.
    """


class MemberPredictions:
    """Predict with ``members_``, equally likely models, on the scale of the target and classes of ``model_``."""

    def _resolve_noise(self):
        """Noise model before it is fitted, checked; None for classifiers."""

    def _prepared(self, X):
        X = validated(self, X)
        self.model_.prepare(X)  # checks X
        return indexable(X)  # every member prepares X in its own way

    def _latent(self, X):
        draws = self._raw_draws(X, self.members_)
        f = _centre(draws)
        covariance = batch_gram(draws - f[:, :, None]) / draws.shape[2]
        return Latent(f, covariance, draws, partial(self._joint_draws, X, draws))

    def _joint_draws(self, X, draws, n_samples, rng):
        """Joint draws of the raw predictions of all rows, (n, k, n_samples); each is one member."""
        B = draws.shape[2]
        return draws[:, :, rng.choice(B, size=n_samples, replace=n_samples > B)]

    def _raw_root(self, X):
        draws = self._raw_draws(X, self.members_)
        return (draws - _centre(draws)[:, :, None]) / np.sqrt(draws.shape[2])

    def _raw_draws(self, X, drawn):
        """Raw predictions (n, k, B) of the members ``drawn``, computed in blocks of rows."""
        width = max(self.model_.row_width, self.model_.loss.n_outputs * len(self.members_))
        blocks = (safe_indexing(X, rows) for rows in row_blocks(X.shape[0], width))
        return np.concatenate([self._block_draws(block, drawn) for block in blocks])

    def _block_draws(self, X, drawn):
        Z, preprocess, raws = None, None, []
        for member in drawn:
            if Z is None or member.preprocess is not preprocess:  # members often share it
                Z, preprocess = member.rows(member.prepare(X)), member.preprocess
            raws.append(self._on_common_scale(member.raw(Z), member))
        return np.stack(raws, axis=2)


class MemberRegression(MemberPredictions, RegressionMethods):
    """Predict methods of a regressor with members; needs ``noise``."""

    def _predict_mean(self, X):
        draws = self._raw_draws(self._prepared(X), self.members_)[:, 0]  # (n, B)
        return _centre(self.model_.decode_target(self.model_.loss.mean(draws)))

    def _on_common_scale(self, f, member):
        learnt = not isinstance(member.target_transformer, FunctionTransformer | None)
        if not learnt or not member.loss.additive:
            return f
        return np.column_stack([self.model_.encode_target(member.decode_target(f[:, 0])), f[:, 1:]])

    def _resolve_noise(self):
        noise = resolve_noise(self.noise)
        if isinstance(noise, DofNoise | LooNoise):
            raise ValueError(
                f"noise={self.noise!r} needs the leverages of a single fit, and {type(self).__name__} has none; "
                "use noise='train', 'heteroskedastic' or a number."
            )
        return noise

    def _with_observations(self, fitted, X, y, weight, noise=None):
        """Add a noise model, fitted to residuals from the mean over members."""
        noise, trial = self._resolve_noise() if noise is None else noise, adopt(copy(self), fitted)
        model, t, X = fitted["model_"], fitted["model_"].encode_target(y), trial._prepared(X)
        squared, rows = model.loss.squared_residuals(trial._latent(X).f, t), {"X": X, "y": t, "weight": weight}
        known = {"squared_residuals": squared, "n": float(weight.sum()), "chi2": float(weight @ squared)}
        # a mean over members has no leverages
        known |= {"leverages": np.zeros(len(t)), "mean_leverage": 0.0, "growth": np.ones(len(t))}
        training = SimpleNamespace(rows=SimpleNamespace(**rows, groups=None), **known)
        return fitted | {"target_scale_": TargetScale.of(model, t), "noise_": noise.fit(training)}


class MemberClassification(MemberPredictions, ClassificationMethods):
    """Predict methods of a classifier with members."""

    def _with_observations(self, fitted, X, y, weight):
        return fitted | {"classes_": fitted["model_"].classes}

    def _on_common_scale(self, f, member):
        if len(member.classes) == len(self.model_.classes):
            return f
        probabilities = np.full((len(f), len(self.model_.classes)), ABSENT)
        probabilities[:, np.searchsorted(self.model_.classes, member.classes)] = member.loss.probabilities(f)
        return np.log(np.maximum(probabilities, ABSENT)) @ self.model_.loss.basis


def _centre(draws):
    """Mean over the last axis, exactly the first draw if all draws are equal."""
    first = draws[..., 0]
    return first + (draws - first[..., None]).mean(axis=-1)


def indexable(X):
    """Return X in a form whose rows can be selected; frames stay frames."""
    if sparse.issparse(X):
        return X.tocsr()
    return X if hasattr(X, "columns") else np.asarray(X)


class WeightedFit(CallbackSupportMixin, Wrapper):
    """Estimator with sample weights; a subclass writes ``_fitted(X, y, sample_weight)``, its fitted attributes."""

    @public_fit
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None) -> Self:
        """Fit the base model and the distribution of its parameters.

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
        return adopt(self, self._fitted(X, check_target(self, y), sample_weight))


class UnweightedFit(BaseEstimator):
    """Estimator without sample weights; a subclass writes ``_fitted(X, y)``, its fitted attributes."""

    @public_fit
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train the network and draw members from it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        return adopt(self, self._fitted(X, y))


@dataclass(repr=False, eq=False)
class Retraining(WeightedFit):
    """Train a base model on all rows, then members by ``_tasks``, which yields functions and their arguments."""

    _reference_is_a_member = False

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    n_members: int = 100
    n_jobs: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    def _fitted(self, X, y, sample_weight):
        X = indexable(X)
        self._resolve_noise()
        self._check_parameters()
        start = time.perf_counter()
        fitted, model, weight = self._fit_base(X, y, sample_weight)
        first = [attempt(X, lambda: model, (), time.perf_counter() - start)] if self._reference_is_a_member else []
        seeds = check_random_state(self.random_state).randint(MAX_SEED, size=self.n_members - len(first))
        tasks = self._tasks(model, X, y, None if sample_weight is None else weight, seeds)
        jobs = (delayed(attempt)(X, function, arguments) for function, *arguments in tasks)
        outcomes, name = [], type(self).__name__.removesuffix("Regressor").removesuffix("Classifier")
        for outcome in chain(first, run_tasks(self, "member", jobs, len(seeds), self.n_jobs)):
            outcomes.append(outcome)
            if self.verbose:
                result = f"{outcome.seconds:.1f} s" if outcome.error is None else f"failed, {outcome.error!r}"
                print(f"[{name}] member {len(outcomes)} of {self.n_members}: {result}", flush=True)
        fitted |= {"model_": model, "members_": survivors(outcomes)}
        return self._with_observations(fitted, X, y, weight)

    def _check_parameters(self, trains_again=True):
        check_count(self.n_members, "n_members")
        leaf, _ = innermost(self._get_estimator())
        if trains_again and is_frozen(leaf):
            raise TypeError(f"estimator={leaf!r} is frozen and cannot be trained again; pass the model inside.")


@dataclass(repr=False, eq=False, kw_only=True)
class RetrainedRegressor(RegressorMixin, MemberRegression, Retraining):
    """Regressor whose members are trained one by one."""

    noise: Literal["train", "heteroskedastic"] | float | Noise = "train"
    _default_estimator = LinearRegression


class RetrainedClassifier(ClassifierMixin, MemberClassification, Retraining):
    """Classifier whose members are trained one by one."""

    _default_estimator = LogisticRegression


def attempt(X, function, arguments, seconds=0.0):
    """Train a member and return its model, seconds, error or None, and the first warning of each category.

    An exception, or a prediction that is not finite, makes it a failed one.
    """
    start, model, error = time.perf_counter(), None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model, some = function(*arguments), safe_indexing(X, slice(0, 1000))  # enough to see a member diverge
            with np.errstate(all="ignore"):
                values = np.append(model.theta, model.raw(model.rows(model.prepare(some))))
            if not np.isfinite(values).all():
                raise FloatingPointError("its predictions are not finite")
        except Exception as raised:  # whatever a base model raises, other members may succeed
            error = raised
    messages = {warning.category: str(warning.message) for warning in reversed(caught)}
    seconds += time.perf_counter() - start
    return SimpleNamespace(model=model, seconds=seconds, error=error, warnings=messages)


def survivors(outcomes):
    """Models of the members that were trained, with a warning about the others; an error if there are none."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    n = len(outcomes)
    if len(failed) == n:
        failed[0].add_note(f"All {n} members failed; this is the first one's error.")
        raise failed[0]
    if failed:
        reasons = Counter(f"{type(error).__name__}: {error}" for error in failed).most_common(3)
        listed = "; ".join(f"{reason} ({count})" for reason, count in reasons)
        warn_user(f"{len(failed)} of {n} members failed and are left out: {listed}. Try: scale X, y.", MemberWarning)
    for category in dict.fromkeys(chain.from_iterable(outcome.warnings for outcome in outcomes)):
        messages = [outcome.warnings[category] for outcome in outcomes if category in outcome.warnings]
        warn_user(f"{len(messages)} of {n} members warned; the first: {messages[0]}", category)
    return [outcome.model for outcome in outcomes if outcome.error is None]


def retrain(estimator, X, y, rows, weight, fit_params):
    """Fit ``estimator`` to some rows, to all if None, and return it as a ParametricModel."""
    if rows is not None:
        X, y = safe_indexing(X, rows), y[rows]
    estimator.fit(X, y, **fit_params)
    return parametric_model(estimator, y, np.ones(len(y)) if weight is None else weight)


def with_seed(estimator, seed, override=False):
    """Clone the base model and set every ``random_state`` that is None, or every one if ``override``."""
    return seed_all(clone(estimator), np.random.RandomState(seed), override)


def observations(X, y, weight):
    """Rows of positive weight, ordered by content so that draws do not depend on their order, and their weights."""
    if sparse.issparse(X):
        content = X @ np.random.default_rng(0).standard_normal(X.shape[1])
    else:
        columns = {name: as_series(X[name]) for name in X.columns} if is_polars(X) else X
        content = pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()
    order = np.lexsort([content, np.unique(y, return_inverse=True)[1]])
    weight = np.ones(len(y)) if weight is None else weight
    order = order[weight[order] > 0]
    return order, weight[order]


class _Bootstrap(Retraining):
    def _tasks(self, model, X, y, weight, seeds):
        order, frequencies = observations(X, y, weight)
        ends = np.cumsum(frequencies)
        for seed in seeds:  # an observation is drawn with a probability proportional to its frequency
            drawn = np.random.default_rng(seed).uniform(0, ends[-1], size=max(1, round(ends[-1])))
            rows = order[np.minimum(np.searchsorted(ends, drawn, side="right"), len(ends) - 1)]
            yield retrain, with_seed(self._get_estimator(), seed), X, y, rows, None, {}


class BootstrapRegressor(_Bootstrap, RetrainedRegressor):
    """The base model trained from scratch on rows that are drawn with replacement.

    Transformers in a pipeline are refitted with it. A row of weight m is m observations to draw from.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None.
    n_members : int, default=100
    n_jobs : int, default=None
        Number of members to train in parallel.
    verbose : int, default=0
        If positive, print a line for every member. With scikit-learn 1.9 or newer, ``set_callbacks(ProgressBar())``
        shows a bar over the members; see :class:`sklearn.callback.ProgressBar`.
    random_state : int, RandomState or None, default=None
        Seed of the draws, and of every ``random_state`` inside the base model that is None.
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        Observation noise. "train" is the sum of squared residuals from the members' mean over n - 1.

    Attributes
    ----------
    members_ : list of ParametricModel
        The members whose training succeeded.
    estimator_, model_ : estimator and ParametricModel
        The base model fitted to all rows, and the same as a function of its parameters.
    noise_ : Noise
    n_features_in_, feature_names_in_ : int and ndarray of shape (n_features,)

    See Also
    --------
    BayesianBootstrapRegressor : Random weights instead of drawn rows.

    Notes
    -----
    User guide: :doc:`/user_guide/penalized`.

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

    A class that a draw does not contain has probability zero for that member.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None.
    n_members, n_jobs, verbose, random_state : int or None
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_, estimator_, model_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    See Also
    --------
    BayesianBootstrapClassifier : Random weights instead of drawn rows.

    Notes
    -----
    User guide: :doc:`/user_guide/classification`.

    Examples
    --------
    >>> from skribbon.baselines import BootstrapClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bootstrap = BootstrapClassifier(n_members=20, random_state=0).fit(X[50:, 2:], y[50:])
    >>> bootstrap.predict_proba_samples(X[50:53, 2:], n_samples=5).shape
    (5, 3, 2)
    """


@dataclass(repr=False, eq=False, kw_only=True)
class _BayesianBootstrap(Retraining):
    alpha: float = 1.0
    start: Literal["scratch", "optimum"] = "scratch"

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
        check_name(self.start, "start", ("scratch", "optimum"))
        super()._check_parameters(trains_again=self.start == "scratch")
        check_positive(self.alpha, "alpha", "1 is the Bayesian bootstrap.")


@dataclass(repr=False, eq=False, kw_only=True)
class BayesianBootstrapRegressor(_BayesianBootstrap, RetrainedRegressor):
    r"""The base model refitted at Dirichlet weights: what :class:`~skribbon.RibbonRegressor` does in one linear step.

    .. math:: \hat\theta_w = \arg\min_\theta \sum_i w_i \ell(z_i, \theta) + r(\theta), \qquad
              w \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha)

    Parameters
    ----------
    estimator : estimator, default=None
        The base model, ``LinearRegression()`` if None; for ``start="scratch"`` its ``fit`` must take weights.
    n_members, n_jobs, verbose, random_state, noise : int or None, and str, float or Noise
        As in :class:`~skribbon.baselines.BootstrapRegressor`.
    alpha : float, default=1.0
        Dirichlet concentration; larger means less uncertainty. 1 is the Bayesian bootstrap.
    start : {"scratch", "optimum"}, default="scratch"
        Train the base model again, transformers and random start included, or move the single fit's parameters to the
        nearest minimum at the drawn weights by Newton steps, also for a base model in a FrozenEstimator.

    Attributes
    ----------
    members_, estimator_, model_, noise_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    See Also
    --------
    skribbon.RibbonRegressor : One linear step instead of refits.
    BootstrapRegressor : Rows drawn with replacement.

    Notes
    -----
    User guide: :doc:`/user_guide/intervals`.

    References
    ----------
    * Rubin, D. B. (1981). The Bayesian Bootstrap. Annals of Statistics 9.
    * Newton, M. A. and Raftery, A. E. (1994). Approximate Bayesian Inference with the Weighted Likelihood Bootstrap.
      Journal of the Royal Statistical Society B 56.

    Examples
    --------
    >>> from skribbon.baselines import BayesianBootstrapRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> refits = BayesianBootstrapRegressor(Ridge(0.1), n_members=200, random_state=0).fit(X, y)
    >>> ribbon = RibbonRegressor(Ridge(0.1), correction="HC0").fit(X, y)
    >>> print(round((refits.predict_std(X, kind="epistemic") / ribbon.predict_std(X, kind="epistemic")).mean(), 1))
    1.0
    """


class BayesianBootstrapClassifier(_BayesianBootstrap, RetrainedClassifier):
    r"""The base model refitted at Dirichlet weights: what :class:`~skribbon.RibbonClassifier` does in one linear step.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model, ``LogisticRegression()`` if None; for ``start="scratch"`` its ``fit`` must take weights.
    n_members, n_jobs, verbose, random_state, alpha, start : int or None, float and str
        As in :class:`~skribbon.baselines.BayesianBootstrapRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_, estimator_, model_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    See Also
    --------
    skribbon.RibbonClassifier : One linear step instead of refits.
    BootstrapClassifier : Rows drawn with replacement.

    Notes
    -----
    User guide: :doc:`/user_guide/classification`.

    References
    ----------
    * Rubin, D. B. (1981). The Bayesian Bootstrap. Annals of Statistics 9.
    * Newton, M. A. and Raftery, A. E. (1994). Approximate Bayesian Inference with the Weighted Likelihood Bootstrap.
      Journal of the Royal Statistical Society B 56.

    Examples
    --------
    >>> from skribbon.baselines import BayesianBootstrapClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> refits = BayesianBootstrapClassifier(n_members=20, start="optimum", random_state=0).fit(X[50:, 2:], y[50:])
    >>> refits.predict_proba_interval(X[50:53, 2:]).shape
    (3, 2, 2)
    """


def dirichlet(frequencies, alpha, rng):
    """Draw weights (n,): n times a Dirichlet draw over all observations, summed over the observations of a row."""
    copies = np.ceil(frequencies).astype(int)
    last = np.cumsum(copies) - 1
    shape = np.ones(last[-1] + 1)
    shape[last] = frequencies - (copies - 1)  # a last fraction of an observation
    gamma = np.add.reduceat(rng.standard_gamma(alpha * shape), last - copies + 1)
    total = gamma.sum()
    if not total > 0:
        raise ValueError(f"alpha={alpha:g} is so small that all Dirichlet weights underflow; use a larger alpha.")
    return gamma * (frequencies.sum() / total)


def reoptimise(rows):
    """Minimize the objective with the weights of ``rows`` from the current parameters, and return the model."""
    theta, report = minimise(rows)
    if not report.converged:
        warn_user(
            f"A refit stopped after {report.n_iter} steps with a gradient of {report.gradient_after:.2g} standard "
            "errors, so its predictions are off. Try: a stronger penalty of the base model, or start='scratch'.",
            ConvergenceWarning,
        )
    return rows.model.at(theta)


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

    Every member is trained on all rows. The first, ``estimator_``, is the base model as given, the others are copies
    whose every ``random_state`` is drawn anew.

    Parameters
    ----------
    estimator : estimator, default=None
        The base model; None is a network of one hidden layer with 10 tanh units, by lbfgs.
    n_members, n_jobs, verbose, random_state, noise : int or None, and str, float or Noise
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    Attributes
    ----------
    members_, estimator_, model_, noise_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    See Also
    --------
    MCDropoutRegressor : One network with dropout.
    skribbon.RibbonRegressor : Intervals from one fit and a few refits.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Lakshminarayanan, B., Pritzel, A. and Blundell, C. (2017). Simple and Scalable Predictive Uncertainty Estimation
      Using Deep Ensembles. NeurIPS.

    Examples
    --------
    >>> from skribbon.baselines import DeepEnsembleRegressor
    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> ensemble = DeepEnsembleRegressor(n_members=3, random_state=0).fit(X, np.sin(2 * X[:, 0]))
    >>> ensemble.predict_interval(X).shape
    (40, 2)
    """

    _default_estimator = staticmethod(partial(MLPRegressor, **NETWORK))


class DeepEnsembleClassifier(_DeepEnsemble, RetrainedClassifier):
    """Networks trained from different random starts; class probabilities are averaged over them.

    Parameters
    ----------
    estimator : classifier, default=None
        The base model; None is a network of one hidden layer with 10 tanh units, by lbfgs.
    n_members, n_jobs, verbose, random_state : int or None
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_, estimator_, model_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.DeepEnsembleRegressor`.

    See Also
    --------
    MCDropoutClassifier : One network with dropout.
    skribbon.RibbonClassifier : Probabilities from one fit and a few refits.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Lakshminarayanan, B., Pritzel, A. and Blundell, C. (2017). Simple and Scalable Predictive Uncertainty Estimation
      Using Deep Ensembles. NeurIPS.

    Examples
    --------
    >>> from skribbon.baselines import DeepEnsembleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> ensemble = DeepEnsembleClassifier(n_members=2, random_state=0).fit(X[:100], y[:100])
    >>> ensemble.predict_proba_interval(X[:3]).shape
    (3, 2, 2)
    """

    _default_estimator = staticmethod(partial(MLPClassifier, **NETWORK))


@dataclass(repr=False, eq=False)
class _MCDropout(UnweightedFit, Wrapper):
    """Members that are thinned networks: one mask for all rows, so that a draw is one function."""

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    n_draws: int = 100
    random_state: RandomState = None

    def _fitted(self, X, y):
        y = check_target(self, y)
        self._resolve_noise()
        check_count(self.n_draws, "n_draws", 2)
        dropout = _dropout_rate(self._get_estimator())
        fitted, model, weight = self._fit_base(X, y, None)
        rng = check_random_state(self.random_state)
        members = [thinned(model, dropout, rng) for _ in range(self.n_draws)]
        fitted |= {"dropout_": dropout, "model_": model, "members_": members}
        return self._with_observations(fitted, X, y, weight)

    def _joint_draws(self, X, draws, n_samples, rng):
        return self._raw_draws(X, [thinned(self.model_, self.dropout_, rng) for _ in range(n_samples)])


@dataclass(repr=False, eq=False, kw_only=True)
class MCDropoutRegressor(RegressorMixin, _MCDropout, MemberRegression):
    """A network trained with dropout that keeps it when predicting; the spread of its passes is the uncertainty.

    Parameters
    ----------
    estimator : estimator, default=None
        :class:`~skribbon.AutogradRegressor` with dropout in ``f``, an ``mlp`` or ``cnn``, and ``solver="adam"``, also
        inside a pipeline or a FrozenEstimator. None is a network with 50 hidden units and a dropout of 0.1.
    n_draws : int, default=100
        Number of passes behind predictions; methods that draw samples draw new passes.
    random_state : int, RandomState or None, default=None
        Seed of the passes, and of the training if the network has none.
    noise : {"train", "heteroskedastic"}, float or Noise, default="train"
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    Attributes
    ----------
    members_, dropout_ : list of ParametricModel and float
        The thinned networks, and the dropout probability.
    estimator_, model_, noise_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.BootstrapRegressor`.

    See Also
    --------
    DeepEnsembleRegressor : Several networks.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Gal, Y. and Ghahramani, Z. (2016). Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep
      Learning. ICML.

    Examples
    --------
    >>> from skribbon.baselines import MCDropoutRegressor
    >>> X = np.linspace(-2, 2, 80)[:, None]
    >>> dropout = MCDropoutRegressor(random_state=0).fit(X, np.sin(2 * X[:, 0]))
    >>> bool((dropout.predict_std(X, kind="epistemic") > 0).all())
    True
    """

    noise: Literal["train", "heteroskedastic"] | float | Noise = "train"
    _default_estimator = staticmethod(partial(AutogradRegressor, mlp((50,), dropout=0.1), **DROPOUT))


class MCDropoutClassifier(ClassifierMixin, _MCDropout, MemberClassification):
    """A network trained with dropout that keeps it when predicting; class probabilities are averaged over its passes.

    Parameters
    ----------
    estimator : classifier, default=None
        :class:`~skribbon.AutogradClassifier`, with the options of :class:`~skribbon.baselines.MCDropoutRegressor`.
    n_draws, random_state : int or None
        As in :class:`~skribbon.baselines.MCDropoutRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    members_, dropout_, estimator_, model_, n_features_in_, feature_names_in_
        As in :class:`~skribbon.baselines.MCDropoutRegressor`.

    See Also
    --------
    DeepEnsembleClassifier : Several networks.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    References
    ----------
    * Gal, Y. and Ghahramani, Z. (2016). Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep
      Learning. ICML.

    Examples
    --------
    >>> from skribbon.baselines import MCDropoutClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> dropout = MCDropoutClassifier(random_state=0).fit(X, y)
    >>> dropout.predict_proba_samples(X[:2], n_samples=5, random_state=0).shape
    (5, 2, 3)
    """

    _default_estimator = staticmethod(partial(AutogradClassifier, mlp((50,), dropout=0.1), **DROPOUT))


def thinned(network, dropout, rng):
    """Copy of the network without randomly dropped units, the others scaled up."""
    theta = network.theta.copy()
    dense = isinstance(network, MultilayerPerceptron)
    layers = network.unpack(theta)[0][1:] if dense else [network.tree.unpack(theta)[-1][0]]  # views; a cnn's last layer
    for W in layers:
        W *= dropout_mask(len(W), dropout, rng)[:, None]  # dropping a unit zeroes a row of the next layer's weights
    return network.at(theta)


def _dropout_rate(estimator):
    """Dropout probability of the network inside an estimator."""
    leaf, _ = innermost(estimator)
    if isinstance(leaf, FrozenEstimator):
        return _dropout_rate(leaf.estimator)
    f = getattr(leaf, "f", None) or mlp()
    if not isinstance(leaf, AutogradRegressor | AutogradClassifier) or not isinstance(f, mlp | cnn):
        raise TypeError(
            f"estimator={leaf!r} is not trained with dropout; use AutogradRegressor or AutogradClassifier with "
            "f=mlp(hidden, dropout=0.1) or a cnn, and solver='adam'."
        )
    if f.dropout and leaf.solver != "adam":
        raise ValueError(f"solver={leaf.solver!r} trains without dropout; use solver='adam' for f={f!r}.")
    return f.dropout
