"""Fit the base model: weights, routing, seeds, tags, and Dask collections."""

import copy
import inspect
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from .._utils import compat
from .._utils.checks import check_fitted, check_in_memory, check_no_dates, checked_weight, holds_numbers, is_lazy
from .._utils.unwrap import fitted_leaf, innermost, requesting_weights
from ..models import as_parametric, takes_outputs
from ..models.base import is_supported

MAX_SEED = np.iinfo(np.int32).max  # largest seed that numpy's RandomState draws and takes on all platforms


class Wrapper(MetaEstimatorMixin, compat.VersionedEstimator):
    """Estimator around a base model ``estimator``, by default ``_default_estimator()``, with a ``random_state``."""

    _several_outputs = False  # whether y may have several columns

    # ------------------------------------------------------------------ fit
    def _fit_base(self, X, y, sample_weight, estimator=None):
        """Fit a clone of the base model, or of ``estimator``; returns fitted attributes, model and received weights."""
        estimator = clone(self._get_estimator() if estimator is None else estimator)
        self._check_kind(estimator)
        check_in_memory(X)
        regression = isinstance(self, RegressorMixin)
        if regression and not holds_numbers(y):
            raise ValueError(f"y must hold numbers for {type(self).__name__}, got '{y[0]}'; labels need a classifier.")
        leaf, _ = innermost(estimator)
        if not is_supported(leaf):
            as_parametric(leaf, y, sample_weight)  # raises before the base model is fitted
        if self.random_state is not None:
            seed_all(estimator, check_random_state(self.random_state))
        fit_params, weight = {}, None
        if sample_weight is not None:
            fit_params, weight = self._route_weight(estimator, checked_weight(sample_weight, X))
        elif compat.routing_enabled():
            process_routing(self, "fit")
        if isinstance(leaf, FrozenEstimator):  # its fit checks nothing
            check_consistent_length(X, y)
            if regression:
                check_array(y, ensure_2d=False, input_name="y")
        with _threads_that_pay(leaf, X):
            try:
                estimator.fit(own_copy(estimator, X), y, **fit_params)
            except TypeError:
                check_no_dates(X)
                raise
        weight = np.ones(len(y)) if weight is None else weight
        fitted = {"estimator_": estimator} | features_of(estimator)
        return fitted, parametric_model(estimator, y, weight), weight

    def _route_weight(self, estimator, sample_weight):
        """Fit parameters with the weights of the innermost model, and the weights that it receives."""
        leaf, prefix = innermost(estimator)
        frozen = isinstance(leaf, FrozenEstimator)
        if compat.routing_enabled():
            params = process_routing(self, "fit", sample_weight=sample_weight).estimator.fit
            consumed = frozen or leaf.get_metadata_routing().consumes("fit", ["sample_weight"])
            return params, sample_weight if consumed else None
        if not frozen and not has_fit_parameter(leaf, "sample_weight"):
            raise ValueError(f"{type(leaf).__name__}.fit takes no sample_weight; fit without it.")
        return {f"{prefix}sample_weight": sample_weight}, sample_weight

    def _check_kind(self, estimator):
        """Refuse a classifier in a regressor, and a regressor in a classifier."""
        own, other = ("classifier", "regressor") if isinstance(self, ClassifierMixin) else ("regressor", "classifier")
        if get_tags(estimator).estimator_type == other:
            name = type(self).__name__.replace(own.capitalize(), other.capitalize())
            raise TypeError(f"estimator={estimator!r} is a {other}; use {name}.")

    # ------------------------------------------------------------------ scikit-learn's conventions
    def _get_estimator(self):
        """Base model, or the default one, which requests weights if metadata routing is on."""
        return requesting_weights(self._default_estimator()) if self.estimator is None else self.estimator

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of this estimator: ``sample_weight`` goes to the base model's ``fit``.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return router.add(estimator=self._get_estimator(), method_mapping=mapping)

    def __sklearn_tags__(self):
        tags, estimator = super().__sklearn_tags__(), self._get_estimator()
        try:
            base = get_tags(estimator)
        except (AttributeError, TypeError):  # not an estimator; fit will refuse it
            return tags
        tags.input_tags = base.input_tags
        tags.non_deterministic = base.non_deterministic
        tags.target_tags.positive_only = base.target_tags.positive_only
        tags.target_tags.multi_output = self._several_outputs and takes_outputs(estimator)
        tags.array_api_support = False
        return tags


# ---------------------------------------------------------------------- base models
def parametric_model(estimator, y, weight):
    """ParametricModel of a fitted estimator, with the columns that its innermost model expects."""
    leaf = fitted_leaf(estimator)
    with np.errstate(invalid="ignore", over="ignore"):
        model = as_parametric(estimator, y, weight)
    if not np.isfinite(model.theta).all():
        raise ValueError(
            f"The fitted parameters of {type(leaf).__name__} are not finite, e.g. because all counts are zero and "
            "there is no penalty. Check the target, scale the columns of X, or penalize the model."
        )
    return replace(model, inputs=leaf) if hasattr(leaf, "n_features_in_") else model


def targets_of(model, y):
    """Targets in the shape that the fitted model takes: (n,), or (n, m) for m outputs."""
    m = len(model.loss.by_output)
    if m == 0 and np.ndim(y) == 2:
        return column_or_1d(y)
    if m and np.shape(y)[1:] != (m,):
        raise ValueError(f"The base model was fitted with {m} outputs, got y of shape {np.shape(y)}.")
    return y


def seed_all(estimator, rng, override=False):
    """Set each random_state that is None, or each with ``override``, to a number drawn from ``rng``."""
    params = estimator.get_params(deep=True)
    names = sorted(k for k, v in params.items() if k.split("__")[-1] == "random_state" and (override or v is None))
    return estimator.set_params(**{name: rng.randint(MAX_SEED) for name in names})


def own_copy(estimator, X):
    """Copy X if a parameter of the estimator allows it to overwrite its input."""
    return copy.deepcopy(X) if hasattr(X, "copy") and _overwrites(estimator) else X  # deepcopy keeps the memory order


def _overwrites(estimator):
    """Whether ``copy=False`` or ``copy_X=False`` is set in the estimator, also in frozen parts."""
    params = estimator.get_params(deep=True)
    frozen = [part.estimator for part in (estimator, *params.values()) if isinstance(part, FrozenEstimator)]
    switched_off = {name.split("__")[-1] for name, value in params.items() if value is False}
    return bool(switched_off & {"copy", "copy_X"}) or any(map(_overwrites, frozen))


def _threads_that_pay(leaf, X):
    """Context of one BLAS thread for a linear model and a small X: with more, a fit may take 50 times as long."""
    small = np.prod(getattr(X, "shape", np.inf)) <= 2**18  # entries, a fit of milliseconds
    return compat.limit_blas() if small and type(leaf).__module__.startswith("sklearn.linear_model") else nullcontext()


# ---------------------------------------------------------------------- fitted estimators
def adopt(estimator, fitted):
    """Replace all fitted attributes of an estimator at once, so that an error leaves no half-fitted state."""
    parameters = {k: v for k, v in vars(estimator).items() if k.startswith("__") or not k.endswith("_")}
    estimator.__dict__ = {**parameters, **fitted}
    return estimator


def features_of(estimator):
    """Fitted attributes of an estimator that describe the columns of X, as a dict."""
    names = "n_features_in_", "feature_names_in_"
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}


def validated(estimator, X):
    """Check X for a fitted estimator; copy it if the base model may overwrite it."""
    check_fitted(estimator)
    check_in_memory(X)
    if estimator.model_.preprocess:  # transformers check X, may take text or columns in any order, and may overwrite it
        return own_copy(estimator.estimator_, X) if hasattr(estimator, "estimator_") else X
    if len(getattr(X, "shape", (0, 0))) == 1:
        check_array(X)  # its error explains how to reshape
    if hasattr(estimator, "n_features_in_"):
        compat.check_feature_names(estimator, X, reset=False)
        compat.check_n_features(estimator, X, reset=False)
    return X


def prepared(estimator, X):
    """Check X and apply the transformers of the base model of a fitted estimator."""
    X = validated(estimator, X)
    return estimator.model_.prepare(X)


# ---------------------------------------------------------------------- Dask
def dask_backend():
    """Import the package's support for Dask, on first use."""
    try:
        from .. import _dask
    except ImportError as error:
        raise ImportError(f"X is a Dask collection: pip install 'skribbon[dask]' ({error}).") from error
    return _dask


def calibration_rows(estimator, X, y, sample_weight, groups):
    """Calibration rows in memory; for Dask collections, a random sample of at most 100,000 rows."""
    if not is_lazy(X):
        return X, y, sample_weight, groups
    lazy = dask_backend()
    return lazy.some_rows(lazy.Table.of(X, y, sample_weight, groups), is_classifier(estimator), 100_000)


def lazily(method):
    """Decorate a predict method so that it returns Dask collections for Dask collections."""
    signature = inspect.signature(method)

    @wraps(method)
    def predict(self, X, *args, **kwargs):
        if "alpha" in kwargs:
            raise TypeError(
                f"{method.__name__} has no parameter alpha. Pass confidence_level=0.9 for intervals that cover 90%; to "
                f"change the Dirichlet concentration, use with_alpha(alpha).{method.__name__}(X)."
            )
        if not is_lazy(X):
            with np.errstate(under="ignore"):  # tails of densities vanish
                return method(self, X, *args, **kwargs)
        bound = signature.bind(self, X, *args, **kwargs)
        bound.apply_defaults()
        arguments = {name: value for name, value in bound.arguments.items() if name not in ("self", "X")}
        return dask_backend().lazily_predicted(self, method.__name__, X, arguments)

    return predict
