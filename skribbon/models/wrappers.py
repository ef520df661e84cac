"""Estimators that hold another estimator: the model inside, with what stands before and behind it."""

from dataclasses import replace

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .base import as_parametric


@as_parametric.register(Pipeline)
def _(estimator, y, sample_weight):
    model = as_parametric(estimator[-1], y, sample_weight)
    return model.after(estimator[:-1]) if len(estimator) > 1 else model  # fitted transformers are taken as given


@as_parametric.register(FrozenEstimator)
def _(estimator, y, sample_weight):
    return as_parametric(estimator.estimator, y, sample_weight)


@as_parametric.register(TransformedTargetRegressor)
def _(estimator, y, sample_weight):
    transformer = estimator.transformer_
    transformed = transformer.transform(np.asarray(y, dtype=float).reshape(-1, 1)).ravel()
    model = as_parametric(estimator.regressor_, transformed, sample_weight)
    if model.target_transformer is not None:
        raise TypeError("A TransformedTargetRegressor inside another one is not supported; compose the transforms.")
    return replace(model, target_transformer=transformer)
