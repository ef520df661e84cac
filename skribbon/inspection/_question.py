"""A question about training rows: the rows as the fit saw them, and the predictions that are asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._core.rows import row_blocks
from .._core.training import Training
from .._estimators.base import BaseRibbon
from .._utils.checks import check_count, check_name
from .._utils.typing import FloatArray
from ..conformal.left_out import predictions
from ..curvature import machine_bytes
from ..exceptions import LeverageWarning, warn_user
from ..models.outputs import OneOutput
from ._functional import fitted_ribbon
from ._predictions import row_labels
from ._response import Response
from ._row_influence import Effects, Top

Scale: TypeAlias = Literal["prediction", "raw"]


@dataclass(frozen=True, eq=False)
class Question:
    """Training rows as the fit saw them, and predictions that are asked about.

    Attributes
    ----------
    estimator : RibbonRegressor or RibbonClassifier
    training : Training
    units : Index
        Labels of the training rows, or groups.
    labels : Index
        Of the rows of X.
    X : prepared rows
    scale : str
    asking : str
        Whose name an error says.
    """

    estimator: Any
    training: Training
    units: pd.Index
    labels: pd.Index
    X: Any
    scale: Scale
    asking: str

    @classmethod
    def of(
        cls,
        ribbon: BaseEstimator,
        asking: str,
        X_train: Any,
        y_train: Any,
        X: Any,
        sample_weight: Any,
        groups: Any,
        scale: Scale = "prediction",
    ) -> Question:
        """Of what users hand over; without X, where no prediction is asked about."""
        check_name(scale, "scale", get_args(Scale))
        estimator = fitted_ribbon(ribbon, asking)
        if not isinstance(estimator, BaseRibbon):
            raise TypeError(f"{asking} needs a RibbonRegressor or RibbonClassifier, got {type(estimator).__name__}.")
        if isinstance(estimator.model_, OneOutput):
            raise ValueError(
                f"{asking} is about training rows, and the outputs of this model share their parameters: one output "
                "alone does not show what a row did. Fit a Ribbon to that output alone."
            )
        prepared = np.zeros((0, 0)) if X is None else estimator._prepared(X)
        training = estimator._training_again(X_train, y_train, sample_weight, groups)
        n = len(training.rows.y)
        units = row_labels(X_train, n) if groups is None else pd.unique(np.asarray(groups).ravel())
        labels = [] if X is None else row_labels(X, prepared.shape[0])
        return cls(estimator, training, pd.Index(units), pd.Index(labels), prepared, scale, asking)

    @property
    def model(self) -> Any:
        """In the coordinates of the training rows."""
        return self.training.rows.model

    @property
    def outputs(self) -> NDArray[Any] | None:
        """Names of what is predicted for a row, (K,); None of a single number."""
        classes = self.estimator.model_.classes
        one_logit = classes is not None and self.scale == "raw" and self.model.n_outputs == 1
        return None if one_logit else classes

    @cached_property
    def _tangents(self) -> tuple[FloatArray, FloatArray]:
        pieces = [self.model.tangent(self.model.rows(self.X[rows])) for rows in self._blocks]
        return np.concatenate([t.f for t in pieces]), np.concatenate([t.jacobian() for t in pieces])

    @property
    def _blocks(self):
        return row_blocks(self.X.shape[0], self.model.n_outputs * len(self.model.theta))

    @property
    def jacobian(self) -> FloatArray:
        """J_x of all rows of X, (m k, p)."""
        J = self._tangents[1]
        return J.reshape(-1, J.shape[2])

    @cached_property
    def change(self) -> RawChange | Change:
        """From moves of raw predictions to what they do to predictions."""
        f, model = self._tangents[0], self.estimator.model_
        if self.scale == "raw" or _is_identity(model):
            return RawChange(_raw_basis(model), f)
        return Change(Predicted(model, getattr(self.estimator, "temperature", 1.0)), f)

    @property
    def values(self) -> FloatArray:
        """Predictions by the fit to all rows, (m K,)."""
        return self.change.values

    @property
    def gradients(self) -> FloatArray:
        """Of the predictions in theta, (m K, p)."""
        f, J = self._tangents
        if self.scale == "raw":
            slopes = np.broadcast_to(_raw_basis(self.estimator.model_), (len(f), *_raw_basis(self.model).shape))
        else:
            slopes = np.concatenate([Response(self.estimator).at(f[rows], self.X[rows])[1] for rows in self._blocks])
        return (slopes @ J).reshape(-1, J.shape[2])

    # ------------------------------------------------------------------ tables
    def checked_top(self, top: int | None) -> int | None:
        """``top``, or None where the table of all rows fits."""
        n, q = len(self.units), len(self.values)
        if top is None and 16 * n * q > machine_bytes() / 2:
            raise MemoryError(
                f"{self.asking} of {n} rows on {q} predictions makes a table of {8e-9 * n * q:.3g} GB; ask for the "
                "largest only, with top=20."
            )
        return top if top is None else min(check_count(top, "top"), n)

    def table(self, effects: Effects, name: str, top: int | None) -> pd.DataFrame:
        """Rows by predictions, or the largest for each prediction."""
        if top is None:
            columns = self.labels.rename("prediction")
            if self.outputs is not None:
                columns = pd.MultiIndex.from_product([self.labels, self.outputs], names=["prediction", "class"])
            return pd.DataFrame(effects.values, index=self.units, columns=columns)
        found: Top = effects.values
        k, K = len(found.values), 1 if self.outputs is None else len(self.outputs)
        row = "row" if self.training.rows.groups is None else "group"
        table: dict[str, Any] = {"prediction": self.labels.repeat(K * k)}
        if self.outputs is not None:
            table["class"] = np.tile(np.repeat(self.outputs, k), len(self.labels))
        table |= {row: self.units[found.rows.T.ravel()], name: found.values.T.ravel()}
        return pd.DataFrame(table)


def warn_of_certainty(certain: int, by_rows: bool) -> None:
    """Say so where there is no fit without a row, or group."""
    if certain:
        warn_user(
            f"{certain} training {'rows' if by_rows else 'groups'} alone determine a direction of the parameters, like "
            "the only one of its category: without it that direction is undetermined, and is kept fixed. "
            "Merge rare categories, or penalise the model.",
            LeverageWarning,
        )


# ---------------------------------------------------------------------- from raw predictions to what is asked about
@dataclass(frozen=True, eq=False)
class RawChange:
    """Moves of raw predictions, in the basis (K, k) that the user knows them in."""

    basis: FloatArray
    f: FloatArray  # (m, k)
    is_linear = True

    @property
    def values(self) -> FloatArray:
        """(m K,)."""
        return (self.f @ self.basis.T).ravel()

    def __call__(self, moves: FloatArray) -> FloatArray:
        (m, k), K = self.f.shape, len(self.basis)
        if k == K == 1:
            return np.negative(moves, out=moves)
        return -(moves.reshape(len(moves), m, k) @ self.basis.T).reshape(len(moves), m * K)

    def reach(self, JM: FloatArray) -> FloatArray:
        """Lengths (m K,) of what the predictions are made of."""
        (m, k), r = self.f.shape, JM.shape[1]
        return np.linalg.norm(self.basis @ JM.reshape(m, k, r), axis=2).ravel()


@dataclass(frozen=True, eq=False)
class Change:
    """What moves of raw predictions f (m, k) do to predictions (m K,)."""

    predicted: Callable[[FloatArray], FloatArray]
    f: FloatArray
    is_linear = False

    @cached_property
    def values(self) -> FloatArray:
        """(m K,)."""
        return self.predicted(self.f).ravel()

    def __call__(self, moves: FloatArray) -> FloatArray:
        f = self.f + moves.reshape(len(moves), *self.f.shape)  # (b, m, k)
        return self.values - self.predicted(f.reshape(-1, f.shape[2])).reshape(len(moves), -1)


@dataclass(frozen=True, eq=False)
class Predicted:
    """What an estimator predicts, (n, K), at raw predictions (n, k)."""

    model: Any
    temperature: float

    def __call__(self, f: FloatArray) -> FloatArray:
        if self.model.classes is not None:
            return self.model.loss.probabilities(f / self.temperature)
        return predictions(self.model, f)[:, None]


def _raw_basis(model):
    """From raw predictions (k,) to those that the user knows, (K, k): logits, or the location."""
    k = model.n_outputs
    if model.classes is None or model.loss.output_map is None:
        return np.eye(k)[:1]
    return model.loss.output_map


def _is_identity(model):
    """Whether predictions are raw predictions."""
    probe = np.array([-1.5, 0.0, 2.5])
    plain = model.classes is None and model.target_transformer is None
    return plain and np.array_equal(model.loss.mean(probe), probe)
