"""The core that all tables share: numbers made of the fitted parameters, to first order, with their uncertainty.

A functional q(theta) with gradient G (m, p) has the variance of its rows of G R, with R the root of the parameters'
covariance: exact where q is linear, else the delta method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._estimators.base import LEAN_LIMIT, SEEN_LIMIT
from .._estimators.cv import RibbonCV
from .._utils.typing import FloatArray
from ..exceptions import LeverageWarning, UndeterminedDirectionWarning, warn_user


def fitted_ribbon(estimator: BaseEstimator, asking: str, several: bool = False) -> Any:
    """The fitted estimator that holds ``model_`` and ``ribbon_``, out of what may stand around it.

    One of several outputs is refused where a single one is asked about.
    """
    inner: Any = estimator
    while isinstance(inner, RibbonCV | FrozenEstimator):
        check_is_fitted(inner)
        inner = inner.estimator_ if isinstance(inner, RibbonCV) else inner.estimator
    check_is_fitted(inner)
    if not hasattr(inner, "ribbon_"):
        raise TypeError(
            f"{asking} needs an estimator that holds a covariance of the parameters, such as RibbonRegressor, "
            f"RibbonClassifier or LaplaceRegressor; {type(inner).__name__} has none. For a search, pass its "
            "best_estimator_; a pipeline belongs inside the Ribbon."
        )
    if inner.model_.loss.by_output and not several:
        names = inner.output_names_
        raise ValueError(
            f"{asking} is about one output, but there are {len(names)}: {', '.join(map(str, names[:10]))}. Pass one of "
            f"them, ribbon.output({names.tolist()[0]!r})."
        )
    return inner


@dataclass(frozen=True, eq=False)
class Functional:
    """m numbers made of the fitted parameters.

    Attributes
    ----------
    estimate : ndarray of shape (m,)
    move : callable
        How they move along directions of the parameters, (p, r) to (m, r).
    unit : ndarray of shape (m,)
        How far they move as raw predictions do by one: what undetermined directions and lone rows are measured in.
    seen : float
        How far they may reach into an undetermined direction, in that unit.
    """

    estimate: FloatArray
    move: Callable[[FloatArray], FloatArray]
    unit: FloatArray
    seen: float = SEEN_LIMIT

    def inferred(self, ribbon: Any) -> Inferred:
        """With standard errors and degrees of freedom, by the parameters' distribution ``ribbon``."""
        std_error = np.sqrt((self.move(ribbon.root) ** 2).sum(axis=1))
        df = np.asarray(ribbon.degrees_of_freedom(self.move), dtype=float)
        far = self._reach(ribbon.null) > self.seen * self.unit
        leaning = self._reach(ribbon.lone) > LEAN_LIMIT * self.unit
        return Inferred(self.estimate, std_error, df, far, leaning)

    def _reach(self, directions):
        if not directions.shape[1]:
            return np.zeros(len(self.estimate))
        return np.abs(self.move(directions)).max(axis=1)


@dataclass(frozen=True, eq=False)
class Inferred:
    """Estimates with what is known of their errors, (m,) each; ``far`` and ``leaning`` mark understated ones."""

    estimate: FloatArray
    std_error: FloatArray
    df: FloatArray
    far: NDArray[np.bool_]
    leaning: NDArray[np.bool_]

    @classmethod
    def concatenate(cls, pieces: Sequence[Inferred]) -> Self:
        """Several into one."""
        return cls(*(np.concatenate([getattr(piece, field.name) for piece in pieces]) for field in fields(cls)))

    def with_noise(self, variance: FloatArray) -> Inferred:
        """With independent noise of known variance (m,) on top; degrees of freedom by Welch and Satterthwaite."""
        total = self.std_error**2 + variance
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(self.std_error > 0, self.df * (total / self.std_error**2) ** 2, np.inf)
        return replace(self, std_error=np.sqrt(total), df=df)

    def warn(self, noun: str = "estimates") -> Self:
        """Say so where standard errors are unknown or too small, and why."""
        if self.far.any():
            warn_user(
                f"{self.far.sum()} {noun} lie along directions that the training data do not determine "
                "(collinear or constant columns, too few rows, saturated units): their errors are unknown. "
                "Drop redundant columns, or train on rows like these.",
                UndeterminedDirectionWarning,
            )
        if self.leaning.any():
            warn_user(
                f"{self.leaning.sum()} {noun} lean on a single training row each, or on a single group of them, such "
                "as the only one of its category: the error of that row cannot be estimated, so their standard errors "
                "are too small. Merge rare categories, or penalise the base model.",
                LeverageWarning,
            )
        return self

    def frame(
        self,
        labels: dict[str, Any],
        level: float,
        value: float | FloatArray = 0.0,
        exponentiate: bool = False,
        tested: bool = True,
        noun: str = "estimates",
    ) -> pd.DataFrame:
        """Table with a row per estimate, after its labels.

        Parameters
        ----------
        labels : dict
            Columns that say what is estimated, (m,) each.
        level : float
            Confidence level.
        value : float or ndarray of shape (m,)
            What the estimates are tested against.
        exponentiate : bool
            Whether the estimates are logarithms of what the table shows. Statistics are those of the logarithm.
        tested : bool
            Whether there is a hypothesis to test; statistic and p_value are missing otherwise.
        noun : str
            What a warning calls the estimates.
        """
        self.warn(noun)
        std_error = np.where(self.far, np.nan, self.std_error)  # not zero, which it would be along such directions
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = (self.estimate - value) / std_error
        half = student.ppf((1 + level) / 2, self.df) * std_error
        shown = np.exp if exponentiate else np.asarray
        columns = {
            "estimate": shown(self.estimate),
            "std_error": std_error * (np.exp(self.estimate) if exponentiate else 1.0),
            "statistic": statistic if tested else np.nan,
            "df": self.df,
            "p_value": 2 * student.sf(np.abs(statistic), self.df) if tested else np.nan,
            "conf_low": shown(self.estimate - half),
            "conf_high": shown(self.estimate + half),
        }
        return pd.DataFrame({**labels, **columns})
