"""Estimators around estimators: pipelines, transformed targets, and one output of several."""

from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._utils.typing import FloatArray, MatrixLike
from .._utils.unwrap import inside, with_inside
from .base import as_parametric, takes_outputs, with_theta


class OutputOf(RegressorMixin, BaseEstimator):
    """One output of a fitted regressor of several."""

    def __init__(self, estimator: BaseEstimator, output: int):
        self.estimator = estimator
        self.output = output

    def predict(self, X: MatrixLike) -> FloatArray:
        """Predicted column, (n_samples,)."""
        return self.estimator.predict(X)[:, self.output]

    @property
    def coef_(self):
        """Coefficients of the output, as the base estimator has them."""
        return self.estimator.coef_[self.output]

    @property
    def intercept_(self):
        """Intercept of the output."""
        return np.broadcast_to(self.estimator.intercept_, len(self.estimator.coef_))[self.output]


class ColumnByColumn:
    """Fitted transformer of y (n, m), for one column at a time; the other columns are those of row ``y``, or ``t``."""

    def __init__(self, transformer, y, t, index=None):
        self.transformer, self.y, self.t, self.index = transformer, y, t, index

    @classmethod
    def of(cls, transformer, y):
        """Build from training targets y (n, m); a transformer that mixes columns raises TypeError."""
        some = y[np.unique(np.linspace(0, len(y) - 1, 5).astype(int))]  # a few rows show whether columns mix
        t = np.asarray(transformer.transform(some), dtype=float)
        if t.shape != some.shape:
            raise TypeError(f"{transformer!r} must give as many columns as y has, {y.shape[1]}, got {t.shape[1]}.")
        found, back = cls(transformer, some[0], t[0]), np.asarray(transformer.inverse_transform(t))
        for column in range(y.shape[1]):
            alone, j = found.column(column), [column]
            alike = np.allclose(alone.transform(some[:, j]), t[:, j], rtol=1e-9)
            if not alike or not np.allclose(alone.inverse_transform(t[:, j]), back[:, j], rtol=1e-9):
                raise TypeError(
                    f"{transformer!r} mixes the columns of y, so intervals of one output cannot be transformed back. "
                    "Use a transformer of single columns, such as StandardScaler or np.log1p."
                )
        return found

    def column(self, index):
        """Transformer of one column (n, 1)."""
        return ColumnByColumn(self.transformer, self.y, self.t, index)

    def transform(self, y):
        """Transform y (n, m), or one column (n, 1)."""
        return self._apply(self.transformer.transform, self.y, y)

    def inverse_transform(self, t):
        """Map t (n, m), or one column (n, 1), back to the scale of y."""
        return self._apply(self.transformer.inverse_transform, self.t, t)

    def _apply(self, function, row, values):
        if self.index is None:
            return function(values)
        table = np.tile(row, (len(values), 1))
        table[:, self.index] = np.ravel(values)
        return np.asarray(function(table))[:, [self.index]]

    def __repr__(self):
        return repr(self.transformer)


@takes_outputs.register(Pipeline | TransformedTargetRegressor | FrozenEstimator)
def _(estimator):
    return takes_outputs(inside(estimator, fitted=False))


@as_parametric.register(Pipeline | FrozenEstimator)
def _(estimator, y, sample_weight):
    model = as_parametric(inside(estimator), y, sample_weight)
    # fitted transformers are taken as given
    steps = (estimator[:-1],) if isinstance(estimator, Pipeline) and len(estimator) > 1 else ()
    return replace(model, preprocess=steps + model.preprocess)


@as_parametric.register(TransformedTargetRegressor)
def _(estimator, y, sample_weight):
    transformer = estimator.transformer_
    y = np.asarray(y, dtype=float)
    if y.ndim == 2:
        transformer = ColumnByColumn.of(transformer, y)
    transformed = np.asarray(transformer.transform(y.reshape(len(y), -1))).reshape(y.shape)
    model = as_parametric(inside(estimator), transformed, sample_weight)
    if model.target_transformer is not None:
        raise TypeError("A TransformedTargetRegressor inside another one is not supported; compose the transforms.")
    return replace(model, target_transformer=transformer)


@with_theta.register(Pipeline | TransformedTargetRegressor | FrozenEstimator)
def _(estimator, model, theta):
    return with_inside(estimator, with_theta(inside(estimator), model, theta))
