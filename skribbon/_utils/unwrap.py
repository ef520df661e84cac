"""Take a model out of Pipeline, TransformedTargetRegressor, FrozenEstimator and searches, and put it back."""

from copy import copy

from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from .compat import routing_enabled

WRAPPERS = Pipeline, TransformedTargetRegressor, FrozenEstimator


def inside(wrapper, fitted=True):
    """Estimator that one of the WRAPPERS, fitted or not, holds; for a frozen search, its best estimator."""
    if isinstance(wrapper, Pipeline):
        return wrapper.steps[-1][1]
    if isinstance(wrapper, FrozenEstimator):
        return getattr(wrapper.estimator, "best_estimator_", wrapper.estimator)
    if fitted:
        return wrapper.regressor_
    return requesting_weights(LinearRegression()) if wrapper.regressor is None else wrapper.regressor


def with_inside(wrapper, estimator):
    """Copy of one of the WRAPPERS, fitted, around another fitted estimator."""
    if isinstance(wrapper, Pipeline):
        return Pipeline([*wrapper.steps[:-1], (wrapper.steps[-1][0], estimator)], memory=wrapper.memory)
    if isinstance(wrapper, FrozenEstimator):
        return FrozenEstimator(estimator)
    wrapper = copy(wrapper)
    wrapper.regressor_ = estimator
    return wrapper


def innermost(estimator):
    """Model at the core of an unfitted estimator, maybe in a FrozenEstimator, and the prefix of its fit parameters."""
    prefix = ""
    while isinstance(estimator, WRAPPERS) and not isinstance(estimator, FrozenEstimator):
        prefix += f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
        estimator = inside(estimator, fitted=False)
    return estimator, prefix


def is_frozen(estimator):
    """Whether the model at the core of an unfitted estimator keeps its parameters when it is fitted."""
    leaf, _ = innermost(estimator)
    return isinstance(leaf, FrozenEstimator) or getattr(leaf, "fitted", False) is True


def may_be_network(estimator):
    """Whether an unfitted estimator can be refitted and holds none of scikit-learn's linear models."""
    leaf, _ = innermost(estimator)
    bases = type(getattr(leaf, "estimator", leaf)).__mro__
    linear = any(kind.__module__.startswith("sklearn.linear_model") for kind in bases)
    return not linear and not is_frozen(leaf) and hasattr(leaf, "get_params")


def fitted_leaf(estimator):
    """Fitted model at the core of a fitted estimator."""
    while isinstance(estimator, WRAPPERS):
        estimator = inside(estimator)
    return estimator


def last_step(estimator, X):
    """Fitted predictor at the end of pipelines and searches, which pass no intervals on, and X as it receives it."""
    while True:
        if isinstance(estimator, Pipeline) and not hasattr(estimator, "predict_distribution"):
            X, estimator = (estimator[:-1].transform(X) if len(estimator) > 1 else X), estimator[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, X


def requesting_weights(default):
    """Default estimator that requests sample weights if metadata routing is on, as scikit-learn's defaults do."""
    return default.set_fit_request(sample_weight=True) if routing_enabled() else default
