"""Fit base models to rows on partitions: start from a sample, then take Newton steps to the minimum on all rows."""

import warnings
from copy import deepcopy
from functools import partial, reduce

import numpy as np
from dask.delayed import delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils import get_tags

from .._core.refits import minimise
from .._core.rows import Sums, some_of, spread_over
from .._core.thresholds import NEGLIGIBLE_GRADIENT, NETWORK_GRADIENT, NOISE_ROWS
from .._utils.compat import safe_indexing
from .._utils.unwrap import fitted_leaf, innermost, inside, is_frozen, with_inside
from ..exceptions import warn_user
from ..models import with_theta
from .rows import DaskRows, computed, over_partitions, summed

START_ROWS = 10_000  # largest sample that a base model starts from: Newton steps over all rows do the rest


def fit_base_lazily(table, estimator, fit_on, as_model, classifier):
    """Fit a base model by ``fit_on`` to a sample, then to all rows of a Table; return its attributes and DaskRows."""
    leaf, _ = innermost(estimator)
    frozen = is_frozen(leaf)
    survey = table.survey(classifier, check_features=not isinstance(estimator, Pipeline | TransformedTargetRegressor))
    if not frozen:
        _check_base(leaf)
    index, start = _sample(survey)
    part = table.take(survey, index)
    prepared = _fit_transformers(estimator, table, part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the sample gives only a start
        fitted = fit_on(prepared, *part.take(np.searchsorted(index, start))[:3])
    base = _unfreeze(fitted["estimator_"], estimator)
    targets = _representative_targets(survey, part)
    rows = DaskRows.from_table(as_model(base, *targets), table, survey, part, index)
    if not frozen:
        if isinstance(leaf, RidgeCV):
            _choose_penalty(fitted_leaf(base), rows)
            rows = rows.at(as_model(base, *targets))
        base = _at_minimum(base, rows, table.verbose)
        rows = rows.at(as_model(base, *targets))
    return fitted | {"estimator_": base}, rows


def _check_base(leaf):
    """Refuse base models that Newton steps from a sample do not take to their own minimum on all rows."""
    name = type(leaf).__name__
    if isinstance(leaf, RidgeCV):
        if leaf.cv is not None or leaf.scoring is not None or getattr(leaf, "alpha_per_target", False):
            raise TypeError("On a Dask table RidgeCV chooses its penalty by leave-one-out; do not set cv or scoring.")
        return
    if name.endswith("CV"):
        raise TypeError(f"{name} would choose its penalty on a sample; choose it in memory, then fit with it.")
    selects = getattr(leaf, "positive", False) or np.any(getattr(leaf, "l1_ratio", None) or 0.0)
    if selects or with_theta.dispatch(type(leaf)) is with_theta.dispatch(object):
        known = sorted(cls.__name__ for cls in with_theta.registry if cls not in (object, Pipeline, FrozenEstimator))
        raise TypeError(
            f"{leaf!r} cannot be taken to its minimum by sums over partitions. Supported on Dask are "
            f"{', '.join(known)} without L1 penalties or signs, and FrozenEstimator. Or fit a sample in memory."
        )


def _sample(survey):
    """Indices of the rows to load, for the start, the noise and the location of features; and those of the start."""
    n = survey.n_rows
    # a class is rare if fewer than 20 of its rows are expected in the start; its first row is added
    rare = [survey.starts[k] + row for count, _, _, (k, row) in survey.labels.values() if count * START_ROWS < 20 * n]
    start = np.union1d(some_of(n, START_ROWS), np.array(rare, dtype=int))
    spread = np.arange(*spread_over(n).indices(n))
    return np.unique(np.concatenate([start, some_of(n, NOISE_ROWS), spread])), start


def _representative_targets(survey, part):
    """Targets and weights that represent all rows: every class with its weight, or the extreme values."""
    n = survey.n_rows
    if not survey.labels:
        return np.array(survey.values), np.broadcast_to(survey.total / n, n)
    labels = sorted(survey.labels)
    return np.array(labels, dtype=part.y.dtype), np.array([survey.labels[label][1] for label in labels])


def _at_minimum(base, rows, verbose):
    """Copy of a base model with the parameters that minimize its own objective over all rows."""
    centred = rows.at(rows.model.centred(rows.around()))
    convex = centred.model.exact_is_psd  # a network with kinks could take hundreds of steps
    max_steps, tolerance = (200, NEGLIGIBLE_GRADIENT) if convex else (50, NETWORK_GRADIENT)
    theta, report = minimise(centred, max_steps, verbose=verbose)
    if not report.converged and report.gradient_after > tolerance:
        warn_user(
            f"{type(fitted_leaf(base)).__name__} was taken to a gradient of {report.gradient_after:.3g} standard "
            f"errors in {report.n_iter} steps, so intervals may be off centre. Try: scale the columns, or a penalty.",
            ConvergenceWarning,
        )
    return with_theta(base, rows.model, centred.model.uncentred(theta[:, None])[:, 0])


def _fit_transformers(estimator, table, part):
    """Clone of an estimator whose transformers of X and y are fitted to all rows, and frozen."""
    if isinstance(estimator, Pipeline):
        steps = fit_transformer(Pipeline(estimator.steps[:-1]), [p.X for p in table.parts], part.X).steps
        return Pipeline([*((name, _freeze(step)) for name, step in steps), estimator.steps[-1]])
    if isinstance(estimator, TransformedTargetRegressor):
        estimator = clone(estimator)
        estimator.set_params(regressor=_fit_transformers(inside(estimator, fitted=False), table, part))
        if estimator.transformer is not None:
            targets = over_partitions(_target_column, table.parts, "target")
            fitted = fit_transformer(estimator.transformer, targets, _target_column(part))
            estimator.set_params(transformer=make_pipeline(FrozenEstimator(fitted)))  # whose fit needs no y
    return estimator


def _unfreeze(estimator, original):
    """Fitted estimator without the frozen transformers of a fit, and with the parameters of the original."""
    if not isinstance(estimator, Pipeline | TransformedTargetRegressor):
        return estimator
    estimator = with_inside(estimator, _unfreeze(inside(estimator), inside(original, fitted=False)))
    if isinstance(estimator, Pipeline):
        estimator.steps[:-1] = [(name, getattr(step, "estimator", step)) for name, step in estimator.steps[:-1]]
        return estimator
    if original.transformer is not None:
        estimator.transformer_ = estimator.transformer_[0].estimator
    return estimator.set_params(transformer=original.transformer, regressor=original.regressor)


def _freeze(step):
    return step if isinstance(step, str) or step is None else FrozenEstimator(step)


def _target_column(part, k=0):
    return np.asarray(part.y, dtype=np.float64).reshape(-1, 1)


def fit_transformer(transformer, parts, sample):
    """Clone of a transformer, fitted to all partitions of X; ``sample`` has some of the rows in memory."""
    if transformer is None or isinstance(transformer, str | FrozenEstimator):
        return transformer
    if isinstance(transformer, Pipeline):
        steps = []
        for name, step in transformer.steps:
            fitted = fit_transformer(step, parts, sample)
            steps.append((name, fitted))
            if hasattr(fitted, "transform"):
                parts = over_partitions(partial(_transformed, fitted), parts, "transform")
                sample = fitted.transform(sample)
        return Pipeline(steps)
    transformer = clone(transformer)
    if isinstance(transformer, ColumnTransformer):
        return _fit_columns(transformer, parts, sample)
    if isinstance(transformer, OneHotEncoder | OrdinalEncoder):
        return _fit_encoder(transformer, parts, sample)
    if isinstance(transformer, SimpleImputer) and transformer.strategy in ("mean", "constant"):
        return _fit_imputer(transformer, parts, sample)
    if not get_tags(transformer).requires_fit or isinstance(transformer, PolynomialFeatures):
        return transformer.fit(sample)  # which learns at most the number of columns
    if hasattr(transformer, "partial_fit"):
        return computed(reduce(delayed(_partially_fitted), parts, delayed(transformer)), parts)
    name = type(transformer).__name__
    raise TypeError(
        f"{name} has no partial_fit, so it cannot be fitted partition by partition on a Dask table. Fit "
        f"it on a sample in memory, and put FrozenEstimator({name}(...).fit(X_sample)) in its place."
    )


def _transformed(transformer, X, k):
    return transformer.transform(X) if X.shape[0] else X


def _partially_fitted(transformer, X):
    # a copy, because the task runs again on the same input if a worker is lost
    return deepcopy(transformer).partial_fit(X) if X.shape[0] else transformer


def _fit_columns(transformer, parts, sample):
    if not isinstance(transformer.remainder, str):
        raise TypeError("ColumnTransformer(remainder=...) must be 'drop' or 'passthrough' on a Dask table.")
    fitted = []
    for name, step, columns in transformer.transformers:
        columns = columns(sample) if callable(columns) else columns
        selected = over_partitions(partial(_selected, columns), parts, "columns")
        fitted.append((name, _freeze(fit_transformer(step, selected, _selected(columns, sample))), columns))
    return transformer.set_params(transformers=fitted).fit(sample)


def _selected(columns, X, k=0):
    return safe_indexing(X, columns, axis=1)


def _fit_encoder(encoder, parts, sample):
    """Fit an encoder to the categories of all partitions."""
    if isinstance(encoder.categories, str):
        if encoder.min_frequency is not None or encoder.max_categories is not None:
            raise TypeError("Encoders that count rows must be fitted on a sample: use FrozenEstimator(encoder).")
        found = computed(over_partitions(partial(_categories, encoder), parts, "categories"), parts)
        columns = zip(*(categories for categories in found if categories is not None), strict=True)
        encoder.set_params(categories=[np.unique(np.concatenate(column)) for column in columns])
    return encoder.fit(sample)


def _categories(encoder, X, k):
    return clone(encoder).fit(X).categories_ if X.shape[0] else None


def _fit_imputer(imputer, parts, sample):
    """Fit an imputer to the means of all partitions."""
    if imputer.add_indicator:
        raise TypeError("SimpleImputer(add_indicator=True) needs a sample on Dask: use FrozenEstimator(imputer).")
    imputer.fit(sample)
    if imputer.strategy == "mean":
        tasks = over_partitions(partial(_observed_sums, imputer.missing_values), parts, "means")
        sums, counts = computed(summed(tasks, "means"), parts)
        imputer.statistics_ = np.where(np.isnan(imputer.statistics_), np.nan, sums / np.maximum(counts, 1))
    return imputer


def _observed_sums(missing, X, k):
    """Sums of the observed values of every column, and their numbers, (2, d)."""
    X = np.asarray(X, dtype=np.float64)
    observed = ~np.isnan(X) if missing is None or np.isnan(missing) else missing != X
    return np.array([np.where(observed, X, 0.0).sum(axis=0), observed.sum(axis=0)])


def _choose_penalty(estimator, rows):
    """Choose alpha by RidgeCV's own criterion over all rows: the mean square of leave-one-out residuals."""
    rows = rows.at(rows.model.centred(rows.around()))
    gram, product = rows.sum(_cross_products)
    alphas, penalized = np.ravel(estimator.alphas), np.ones(len(product))
    penalized[-1] = 1.0 - rows.model.intercept
    inverses = np.array([np.linalg.pinv(gram + np.diag(alpha * penalized), hermitian=True) for alpha in alphas])
    errors = rows.sum(partial(_left_out_squares, inverses, inverses @ product))
    best = int(np.argmin(errors))
    estimator.alpha_, estimator.best_score_ = float(alphas[best]), -float(errors[best] / rows.n_rows)


def _cross_products(block):
    Z = block.Z.toarray() if sparse.issparse(block.Z) else block.Z
    return Sums([(Z.T * block.weight) @ Z, Z.T @ (block.weight * block.y)])


def _left_out_squares(inverses, coefficients, block):
    """Sums over the block of squared leave-one-out residuals, one for each penalty."""
    Z = block.Z.toarray() if sparse.issparse(block.Z) else block.Z
    leverages = (block.weight * ((Z @ inverse) * Z).sum(axis=1) for inverse in inverses)
    residuals = ((block.y - Z @ coef) / (1 - h) for coef, h in zip(coefficients, leverages, strict=True))
    return np.array([block.weight @ residual**2 for residual in residuals])
