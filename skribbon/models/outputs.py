"""Models of several outputs, and models inside pipelines and transformers of the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline

from .._utils.typing import FloatArray, MatrixLike
from .._utils.unwrap import inside, with_inside
from .base import ParametricModel, Tangent, as_parametric, with_theta


@dataclass(frozen=True, kw_only=True, eq=False)
class OneOutput(ParametricModel):
    """One output of a model whose outputs share their parameters: the same theta, and one column of f."""

    whole: ParametricModel
    index: int

    @classmethod
    def of(cls, model, index):
        """The output of that number."""
        transformer = model.target_transformer
        return cls(
            theta=model.theta,
            loss=model.loss.by_output[index],
            l2=model.l2,
            penalty_gradient=model.penalty_gradient,
            preprocess=model.preprocess,
            inputs=model.inputs,
            target_transformer=None if transformer is None else transformer.column(index),
            cure=model.cure,
            whole=model,
            index=index,
        )

    @property
    def is_linear(self):
        return self.whole.is_linear

    @property
    def row_width(self):
        return self.whole.row_width

    def rows(self, X):
        return self.whole.rows(X)

    def raw(self, Z, theta=None):
        return self.whole.raw(Z, theta)[:, [self.index]]

    def tangent(self, Z):
        return OneOutputTangent(self.whole.tangent(Z), self.index)


class OneOutputTangent(Tangent):
    """One output of a tangent."""

    def __init__(self, whole, index):
        self.whole, self.index, self.f = whole, index, whole.f[:, [index]]

    def jacobian(self):
        return self.whole.jacobian()[:, [self.index]]

    def jvp(self, V):
        return self.whole.jvp(V)[:, [self.index]]

    def along(self, D):
        return self.whole.along(D)[:, [self.index]]


class OutputOf(RegressorMixin, BaseEstimator):
    """One output of a fitted regressor of several.

    Parameters
    ----------
    estimator : fitted regressor
    output : int
    """

    def __init__(self, estimator: BaseEstimator, output: int):
        self.estimator = estimator
        self.output = output

    def predict(self, X: MatrixLike) -> FloatArray:
        """Predicted column.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.estimator.predict(X)[:, self.output]


# ---------------------------------------------------------------------- targets
class ColumnByColumn:
    """A fitted transformer of a table y (n, m) that takes each column for itself, as a StandardScaler does.

    Attributes
    ----------
    transformer : fitted transformer
    y, t : ndarray of shape (m,)
        Some row, before and after; it stands for the columns that nobody asks about.
    """

    def __init__(self, transformer, y, t):
        self.transformer, self.y, self.t = transformer, y, t

    @classmethod
    def of(cls, transformer, y):
        """Of training targets y (n, m); a transformer that mixes its columns is refused."""
        some = y[np.unique(np.linspace(0, len(y) - 1, 5).astype(int))]  # a few rows show whether columns mix
        t = np.asarray(transformer.transform(some), dtype=float)
        if t.shape != some.shape:
            raise TypeError(f"{transformer!r} must give as many columns as y has, {y.shape[1]}, got {t.shape[1]}.")
        found = cls(transformer, some[0], t[0])
        for column in range(y.shape[1]):
            alone = found.column(column)
            there, back = alone.transform(some[:, [column]]), alone.inverse_transform(t[:, [column]])
            back_together = np.asarray(transformer.inverse_transform(t))[:, [column]]
            if not np.allclose(there, t[:, [column]], rtol=1e-9) or not np.allclose(back, back_together, rtol=1e-9):
                raise TypeError(
                    f"{transformer!r} mixes the columns of y, so that no interval of one of them can be carried back. "
                    "Use a transformer that takes each column for itself, such as StandardScaler or np.log1p."
                )
        return found

    def transform(self, y):
        """(n, m) to (n, m)."""
        return self.transformer.transform(y)

    def inverse_transform(self, t):
        """(n, m) to (n, m)."""
        return self.transformer.inverse_transform(t)

    def column(self, index):
        """The transformer of one column."""
        return OneColumn(self, index)

    def __repr__(self):
        return repr(self.transformer)


class OneColumn:
    """A transformer of one column of y (n, 1), the others held at some row."""

    def __init__(self, table, index):
        self.table, self.index = table, index

    def _among(self, row, column):
        table = np.tile(row, (len(column), 1))
        table[:, self.index] = np.ravel(column)
        return table

    def transform(self, y):
        """(n, 1) to (n, 1)."""
        return np.asarray(self.table.transform(self._among(self.table.y, y)))[:, [self.index]]

    def inverse_transform(self, t):
        """(n, 1) to (n, 1)."""
        return np.asarray(self.table.inverse_transform(self._among(self.table.t, t)))[:, [self.index]]

    def __repr__(self):
        return repr(self.table)


# ---------------------------------------------------------------------- which estimators have several outputs
@singledispatch
def takes_outputs(estimator: BaseEstimator) -> bool:
    """Whether a Ribbon around this estimator takes a y of several columns.

    A single-dispatch function, as :func:`~skribbon.models.as_parametric` is: an estimator that is registered there and
    fitted by :class:`~skribbon.models.SquaredErrors` may say so here.

    Parameters
    ----------
    estimator : estimator

    Returns
    -------
    bool

    Examples
    --------
    >>> from sklearn.linear_model import PoissonRegressor, Ridge
    >>> from skribbon.models import takes_outputs
    >>> takes_outputs(Ridge()), takes_outputs(PoissonRegressor())
    (True, False)
    """
    return False


@takes_outputs.register(LinearRegression)
@takes_outputs.register(Ridge)
@takes_outputs.register(RidgeCV)
def _(estimator):
    return not getattr(estimator, "positive", False)  # signs drop other columns for each output


@takes_outputs.register(MLPRegressor)
def _(estimator):
    return getattr(estimator, "loss", "squared_error") == "squared_error"  # the only one there was


@takes_outputs.register(Pipeline)
@takes_outputs.register(TransformedTargetRegressor)
@takes_outputs.register(FrozenEstimator)
def _(estimator):
    return takes_outputs(inside(estimator, fitted=False))


@as_parametric.register(Pipeline)
def _(estimator, y, sample_weight):
    model = as_parametric(inside(estimator), y, sample_weight)
    return model.after(estimator[:-1]) if len(estimator) > 1 else model  # fitted transformers are taken as given


@as_parametric.register(FrozenEstimator)
def _(estimator, y, sample_weight):
    return as_parametric(inside(estimator), y, sample_weight)


@as_parametric.register(TransformedTargetRegressor)
def _(estimator, y, sample_weight):
    transformer = estimator.transformer_
    y = np.asarray(y, dtype=float)
    if y.ndim == 2:
        transformer = ColumnByColumn.of(transformer, y)
        transformed = transformer.transform(y)
    else:
        transformed = transformer.transform(y.reshape(-1, 1)).ravel()
    model = as_parametric(inside(estimator), transformed, sample_weight)
    if model.target_transformer is not None:
        raise TypeError("A TransformedTargetRegressor inside another one is not supported; compose the transforms.")
    return replace(model, target_transformer=transformer)


@with_theta.register(Pipeline)
@with_theta.register(FrozenEstimator)
@with_theta.register(TransformedTargetRegressor)
def _(estimator, model, theta):
    return with_inside(estimator, with_theta(inside(estimator), model, theta))
