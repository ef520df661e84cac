"""Estimators that hold another estimator: the model inside, with what stands before and behind it."""

from copy import copy
from dataclasses import replace

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .base import as_parametric
from .newton import with_theta
from .outputs import ColumnByColumn


def inside(frozen):
    """The fitted model that a FrozenEstimator holds; of a search the one that it chose."""
    return getattr(frozen.estimator, "best_estimator_", frozen.estimator)


@as_parametric.register(Pipeline)
def _(estimator, y, sample_weight):
    model = as_parametric(estimator[-1], y, sample_weight)
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
    model = as_parametric(estimator.regressor_, transformed, sample_weight)
    if model.target_transformer is not None:
        raise TypeError("A TransformedTargetRegressor inside another one is not supported; compose the transforms.")
    return replace(model, target_transformer=transformer)


@with_theta.register(Pipeline)
def _(estimator, model, theta):
    name, last = estimator.steps[-1]
    return Pipeline([*estimator.steps[:-1], (name, with_theta(last, model, theta))], memory=estimator.memory)


@with_theta.register(FrozenEstimator)
def _(estimator, model, theta):
    return FrozenEstimator(with_theta(inside(estimator), model, theta))


@with_theta.register(TransformedTargetRegressor)
def _(estimator, model, theta):
    estimator = copy(estimator)
    estimator.regressor_ = with_theta(estimator.regressor_, model, theta)
    return estimator
