"""Training one base model many times over: in parallel, with progress, and surviving a member that fails."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from .._estimators.base import MAX_SEED, Wrapper, innermost, parametric_model, seed_all
from .._utils.checks import check_count, check_target
from .._utils.compat import safe_indexing
from .._utils.typing import MatrixLike, RandomState
from ..exceptions import RibbonWarning, warn_user
from ._members import indexable

FEW = 1000  # training rows at which a member must predict finite values


class MemberWarning(RibbonWarning):
    """Some members could not be trained, and were left out.

    Raised by ``fit``; the message says how many and why. Predictions are those of the other members. Where many fail,
    scale the features, or penalise the base model more.
    """


class Retraining(Wrapper):
    """A base model that is trained again and again.

    A subclass writes ``_tasks(model, X, y, weight, seeds)``, which yields a function and its arguments for every
    member; the function returns a ParametricModel. ``weight`` is None where the user gave none.
    """

    _reference_is_a_member = False
    _trains_again = True

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_members: int = 100,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        self.estimator = estimator
        self.n_members = n_members
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

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
        return self._adopt(self._fit_members(X, check_target(self, y), sample_weight))

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


# ---------------------------------------------------------------------- one member
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
    some = safe_indexing(X, slice(0, FEW))
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
