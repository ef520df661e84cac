"""What every estimator around a base model shares: fitting it, its weights, its seeds, its tags."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, column_or_1d, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import has_fit_parameter

from ._compat import check_sample_weight, routing_enabled
from ._predictions import Predictions
from .models import as_parametric
from .models.base import is_supported


class Wrapper(Predictions, MetaEstimatorMixin, BaseEstimator):
    """A base model ``estimator``, or ``_default_estimator()`` if that is None; needs ``random_state``."""

    def _fit_reference(self, X, y, sample_weight):
        """Fit the base model to all rows; returns it as a ParametricModel, and the weights of the rows."""
        self.estimator_, weight = self._fit_base(X, y, sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return as_parametric(self.estimator_, y, weight), weight

    def _fit_base(self, X, y, sample_weight):
        """Fit a clone of the base model; return it with the weights that it really received, ones if none."""
        estimator = clone(self._get_estimator())
        self._check_kind(estimator)
        if is_regressor(self) and not _holds_numbers(y):
            raise ValueError(f"y must hold numbers for {type(self).__name__}, got '{y[0]}'; labels need a classifier.")
        if not is_supported(leaf := innermost(estimator)[0]):
            as_parametric(leaf, y, sample_weight)  # says so before the work of a fit
        self._seed(estimator)
        fit_params, received = {}, None
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64)
            if (sample_weight < 0).any() or not (sample_weight > 0).any():
                raise ValueError("sample_weight must not be negative, and must contain at least one non-zero number.")
            fit_params, received = self._route_weight(estimator, sample_weight)
        elif routing_enabled():
            process_routing(self, "fit")
        estimator.fit(X, y, **fit_params)
        return estimator, (np.ones(len(y)) if received is None else received)

    def _route_weight(self, estimator, sample_weight):
        """Keyword arguments that carry the weights to the innermost model, and the weights it will see."""
        leaf, prefix = innermost(estimator)
        if routing_enabled():
            params = process_routing(self, "fit", sample_weight=sample_weight).estimator.fit
            consumed = isinstance(leaf, FrozenEstimator) or leaf.get_metadata_routing().consumes(
                "fit", ["sample_weight"]
            )
            return params, sample_weight if consumed else None
        if not isinstance(leaf, FrozenEstimator) and not has_fit_parameter(leaf, "sample_weight"):
            raise ValueError(f"{type(leaf).__name__}.fit takes no sample_weight; fit without it.")
        return {f"{prefix}sample_weight": sample_weight}, sample_weight

    def _seed(self, estimator):
        """Give every random_state inside the base model that is still None a seed drawn from ours."""
        if self.random_state is None:
            return
        rng = check_random_state(self.random_state)
        params = estimator.get_params(deep=True)
        names = sorted(k for k, v in params.items() if k.split("__")[-1] == "random_state" and v is None)
        estimator.set_params(**{name: rng.randint(np.iinfo(np.int32).max) for name in names})

    def _check_kind(self, estimator):
        """A classifier belongs in a classifier and a regressor in a regressor."""
        name = type(self).__name__
        if is_classifier(self) and is_regressor(estimator):
            raise TypeError(f"estimator={estimator!r} is a regressor; use {name.replace('Classifier', 'Regressor')}.")
        if is_regressor(self) and is_classifier(estimator):
            raise TypeError(f"estimator={estimator!r} is a classifier; use {name.replace('Regressor', 'Classifier')}.")

    # ------------------------------------------------------------------ scikit-learn's manners
    def _get_estimator(self):
        """The base model, or the default with weights requested when routing is on."""
        if self.estimator is not None:
            return self.estimator
        return requesting_weights(self._default_estimator())

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of this estimator: ``sample_weight`` goes to the base model's ``fit``.

        Returns
        -------
        MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._get_estimator(), method_mapping=mapping)
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            base = get_tags(self._get_estimator())
        except (AttributeError, TypeError):  # not an estimator at all; fit will say so
            return tags
        tags.input_tags = base.input_tags
        tags.non_deterministic = base.non_deterministic
        tags.target_tags.positive_only = base.target_tags.positive_only
        tags.array_api_support = False
        return tags


def requesting_weights(default):
    """A default estimator asks for the weights by itself when routing is on, as scikit-learn's defaults do."""
    return default.set_fit_request(sample_weight=True) if routing_enabled() else default


def innermost(estimator):
    """The model at the core of pipelines and target transformers, and the prefix of its fit parameters."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        leaf, prefix = innermost(last)
        return leaf, f"{name}__{prefix}"
    if isinstance(estimator, TransformedTargetRegressor):
        return innermost(requesting_weights(LinearRegression()) if estimator.regressor is None else estimator.regressor)
    return estimator, ""


def check_target(estimator, y):
    """y as a vector, labels where the estimator is a classifier."""
    name, kind = type(estimator).__name__, "Classifier" if is_classifier(estimator) else "Regressor"
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {shape}: {name} models one output. Fit one for each "
            f"column, with sklearn.multioutput.MultiOutput{kind}({name}(...)): its estimators_ predict intervals."
        )
    y = column_or_1d(y, warn=True)
    if is_classifier(estimator):
        check_classification_targets(y)
    return y


def _holds_numbers(y):
    try:
        y.astype(float)
    except (TypeError, ValueError):
        return False
    return y.dtype.kind not in "mM"  # times turn into numbers, of a unit that nobody asked for
