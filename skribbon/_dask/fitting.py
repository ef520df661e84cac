"""Base models whose rows are on partitions: a start from a sample, then Newton steps to the minimum on all rows."""

from __future__ import annotations

import warnings
from copy import deepcopy
from functools import partial

import numpy as np
from dask.delayed import delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Binarizer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils import get_tags

from .._core.refits import NEGLIGIBLE, minimise
from .._core.rows import Sums, some_of, spread_over
from .._utils.compat import safe_indexing
from .._utils.unwrap import fitted_leaf, innermost
from ..exceptions import warn_user
from ..models import with_theta
from ..noise.scale import SAMPLE
from .rows import DaskRows, computed, over_partitions, summed

START_ROWS = 10_000  # largest sample that a base model starts from: Newton steps over all rows do the rest
BY_SHAPE = (PolynomialFeatures, Binarizer)  # transformers that learn nothing but the number of columns


def fit_base_lazily(table, estimator, fit_on, as_model, classifier):
    """Fit a base model to all rows of a table.

    Parameters
    ----------
    table : Table
    estimator : estimator
        Not fitted.
    fit_on : callable
        ``fit_on(estimator, X, y, sample_weight)`` fits it to rows in memory, and gives what is then known.
    as_model : callable
        ``as_model(estimator, y, weight)`` gives its ParametricModel, with targets and weights that stand for all.
    classifier : bool

    Returns
    -------
    fitted : dict
        With ``estimator_``, at the minimum of its own objective over all rows.
    rows : DaskRows
    """
    original, (leaf, _) = estimator, innermost(estimator)
    frozen = isinstance(leaf, FrozenEstimator)
    bare = not isinstance(estimator, Pipeline | TransformedTargetRegressor)
    survey = table.survey(classifier, check_features=bare)
    if not frozen:
        _check_base(leaf)
    index, start = _sample(survey)
    part = table.take(survey, index)
    if not frozen:
        estimator = fit_around(estimator, table, part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is only a start
        fitted = fit_on(estimator, *part.take(np.searchsorted(index, start))[:3])
    base = thawed(fitted["estimator_"], original)
    told = _telling_targets(survey, part)
    rows = DaskRows.of(as_model(base, *told), table, survey, part, index)
    if not frozen:
        if isinstance(leaf, RidgeCV):
            _choose_penalty(fitted_leaf(base), rows)
            rows = rows.at(as_model(base, *told))
        base = _at_minimum(base, rows, table.verbose)
        rows = rows.at(as_model(base, *told))
    return fitted | {"estimator_": base}, rows


def _at_minimum(base, rows, verbose):
    """The base model with the parameters that minimise its own objective over all rows."""
    centred = rows.at(rows.model.centred(rows.around()))
    # a network with kinks could take hundreds of steps, and a gradient of 0.05 standard errors hardly moves intervals
    max_steps, tolerance = (200, NEGLIGIBLE) if centred.model.exact_is_psd else (50, 0.05)
    theta, report = minimise(centred, max_steps, verbose=verbose)
    if not report.converged and report.gradient_after > tolerance:
        warn_user(
            f"{type(fitted_leaf(base)).__name__} was taken to a gradient of {report.gradient_after:.3g} standard "
            f"errors in {report.n_iter} Newton steps over all rows, and no further. Scale the columns, or penalise it.",
            ConvergenceWarning,
        )
    return with_theta(base, rows.model, centred.model.uncentred(theta[:, None])[:, 0])


def _sample(survey):
    """Numbers of the rows to have in memory, and of those to start from.

    They are for that start, with every class in it, for the noise, and to tell where features are.
    """
    n = survey.n_rows
    spread = np.arange(*spread_over(n).indices(n))
    totals = survey.labels.values()
    # a class is rare if fewer than 20 of its rows are expected in the start
    rare = [survey.starts[k] + row for count, _, _, (k, row) in totals if count * START_ROWS < 20 * n]
    start = np.union1d(some_of(n, START_ROWS), np.array(rare, dtype=int))
    return np.unique(np.concatenate([start, some_of(n, SAMPLE), spread])), start


def _telling_targets(survey, part):
    """Targets and weights that stand for those of all rows: of labels their weights, of numbers the ends."""
    n, total = survey.n_rows, survey.total
    if not survey.labels:
        return np.array(survey.values), np.broadcast_to(total / n, n)
    labels = sorted(survey.labels)
    return np.array(labels, dtype=part.y.dtype), np.array([survey.labels[label][1] for label in labels])


# ---------------------------------------------------------------------- what stands around the model
def _check_base(leaf):
    """Refuse what a start from a sample and Newton steps would not bring to its own minimum on all rows."""
    name = type(leaf).__name__
    if isinstance(leaf, RidgeCV):
        if leaf.cv is not None or leaf.scoring is not None or getattr(leaf, "alpha_per_target", False):
            raise TypeError("RidgeCV chooses its penalty on a Dask table by leave-one-out alone: leave cv and scoring.")
        return
    if isinstance(leaf, LogisticRegressionCV | LassoCV) or name.endswith("CV"):
        raise TypeError(
            f"{name} would choose its penalty on a sample of a Dask table; choose it so, and fit the model with it."
        )
    selects = getattr(leaf, "positive", False) or np.any(getattr(leaf, "l1_ratio", None) or 0.0)
    if selects or with_theta.dispatch(type(leaf)) is with_theta.dispatch(object):
        known = sorted(cls.__name__ for cls in with_theta.registry if cls not in (object, Pipeline, FrozenEstimator))
        raise TypeError(
            f"{leaf!r} cannot be taken to its minimum by sums over partitions. Supported on Dask are "
            f"{', '.join(known)} without L1 penalties or signs, and any fitted model in a FrozenEstimator. Or fit a "
            "sample in memory."
        )


def fit_around(estimator, table, part):
    """The estimator with all that stands around its model fitted to all rows, and frozen."""
    if isinstance(estimator, Pipeline):
        steps = fit_transformer(Pipeline(estimator.steps[:-1]), [p.X for p in table.parts], part.X).steps
        return Pipeline([*((name, _frozen(step)) for name, step in steps), estimator.steps[-1]])
    if isinstance(estimator, TransformedTargetRegressor):
        estimator = clone(estimator)
        if estimator.regressor is not None:
            estimator.set_params(regressor=fit_around(estimator.regressor, table, part))
        if estimator.transformer is not None:
            targets = over_partitions(_as_column, table.parts, "target")
            fitted = fit_transformer(estimator.transformer, targets, _as_column(part))
            estimator.set_params(transformer=FrozenTarget(fitted))
    return estimator


class FrozenTarget(FrozenEstimator):
    """A fitted transformer of the target, whose ``fit`` is called without a y."""

    def fit(self, X, y=None):
        """Nothing happens."""
        return self


def _as_column(part, k=0):
    return np.asarray(part.y, dtype=np.float64).reshape(-1, 1)


def _frozen(step):
    return step if isinstance(step, str) or step is None else FrozenEstimator(step)


def thawed(estimator, original):
    """A fitted estimator whose transformers are no longer frozen, with the parameters of the original."""
    if isinstance(estimator, Pipeline):
        steps = [(name, _thawed_step(step)) for name, step in estimator.steps[:-1]]
        last = estimator.steps[-1][0], thawed(estimator[-1], original[-1])
        return Pipeline([*steps, last], memory=estimator.memory)
    if isinstance(estimator, TransformedTargetRegressor):
        estimator.transformer_ = _thawed_step(estimator.transformer_)
        estimator.regressor_ = thawed(estimator.regressor_, original.regressor)
        estimator.set_params(transformer=original.transformer, regressor=original.regressor)
    return estimator


def _thawed_step(step):
    return step.estimator if isinstance(step, FrozenEstimator) else step


# ---------------------------------------------------------------------- transformers
def fit_transformer(transformer, parts, sample):
    """A clone of a transformer fitted to all partitions of X, of which ``sample`` has some rows in memory."""
    if isinstance(transformer, FrozenEstimator) or transformer is None or isinstance(transformer, str):
        return transformer
    if isinstance(transformer, Pipeline):
        steps = []
        for name, step in transformer.steps:
            fitted = fit_transformer(step, parts, sample)
            steps.append((name, fitted))
            if not isinstance(fitted, str) and fitted is not None:
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
    if not get_tags(transformer).requires_fit or isinstance(transformer, BY_SHAPE):
        return transformer.fit(sample)
    if hasattr(transformer, "partial_fit"):
        state = delayed(transformer)
        for part in parts:
            state = delayed(_partially_fitted)(state, part)
        (fitted,) = computed([state], parts)
        return fitted
    name = type(transformer).__name__
    raise TypeError(
        f"{name} has no partial_fit, so that it cannot learn from one partition of a Dask table after the other. Fit "
        f"it on a sample in memory, and put FrozenEstimator({name}(...).fit(X_sample)) in its place."
    )


def _transformed(transformer, X, k):
    return transformer.transform(X) if X.shape[0] else X


def _partially_fitted(transformer, X):
    # a copy: what a task was given may be needed again, where a worker was lost
    return deepcopy(transformer).partial_fit(X) if X.shape[0] else transformer


def _fit_columns(transformer, parts, sample):
    fitted = []
    for name, step, columns in transformer.transformers:
        columns = columns(sample) if callable(columns) else columns
        if not isinstance(step, str):
            selected = over_partitions(partial(_selected, columns), parts, "columns")
            step = _frozen(fit_transformer(step, selected, _selected(columns, sample)))
        fitted.append((name, step, columns))
    if not isinstance(transformer.remainder, str):
        raise TypeError("ColumnTransformer(remainder=...) must be 'drop' or 'passthrough' on a Dask table.")
    return transformer.set_params(transformers=fitted).fit(sample)


def _selected(columns, X, k=0):
    return safe_indexing(X, columns, axis=1)


def _fit_encoder(encoder, parts, sample):
    """An encoder that knows the categories of all partitions."""
    if isinstance(encoder.categories, str):
        if encoder.min_frequency is not None or encoder.max_categories is not None:
            raise TypeError(
                f"{type(encoder).__name__} with min_frequency or max_categories counts rows, and partitions are seen "
                "one by one: fit it on a sample in memory, and put FrozenEstimator(encoder) in its place."
            )
        found = computed(over_partitions(partial(_categories, encoder), parts, "categories"), parts)
        columns = zip(*(categories for categories in found if categories is not None), strict=True)
        encoder.set_params(categories=[np.unique(np.concatenate(column)) for column in columns])
    return encoder.fit(sample)


def _fit_imputer(imputer, parts, sample):
    """An imputer that knows the means of all partitions."""
    if imputer.add_indicator:
        raise TypeError("SimpleImputer(add_indicator=True) on a Dask table must come fitted, as a FrozenEstimator.")
    imputer.fit(sample)
    if imputer.strategy == "mean":
        tasks = over_partitions(partial(_sums_of_known, imputer.missing_values), parts, "means")
        sums, counts = computed(summed(tasks, "means"), parts)
        imputer.statistics_ = np.where(np.isnan(imputer.statistics_), np.nan, sums / np.maximum(counts, 1))
    return imputer


def _sums_of_known(missing, X, k):
    X = np.asarray(X, dtype=np.float64)
    known = ~np.isnan(X) if missing is None or np.isnan(missing) else missing != X
    return np.array([np.where(known, X, 0.0).sum(axis=0), known.sum(axis=0)])


def _categories(encoder, X, k):
    return clone(encoder).fit(X).categories_ if X.shape[0] else None


# ---------------------------------------------------------------------- a penalty by leave-one-out
def _choose_penalty(estimator, rows):
    """Choose alpha by RidgeCV's own criterion over all rows: the mean square of leave-one-out residuals."""
    rows = rows.at(rows.model.centred(rows.around()))
    weight, mean, y_mean, gram, product = rows.sum(_cross_products)
    mean, y_mean = (mean / weight, y_mean / weight) if estimator.fit_intercept else (0 * mean, 0.0)
    values, vectors = np.linalg.eigh(gram - weight * np.outer(mean, mean))
    values, along = np.maximum(values, 0.0), vectors.T @ (product - weight * mean * y_mean)
    alphas = np.ravel(estimator.alphas)
    shrunk = np.where(values[:, None] > 1e-14 * values.max(), 1 / (values[:, None] + alphas), 0.0)  # (d, A)
    share = 1 / weight if estimator.fit_intercept else 0.0
    errors = rows.sum(partial(_left_out_squares, mean, y_mean, vectors, shrunk, along, share))
    best = int(np.argmin(errors))
    estimator.alpha_, estimator.best_score_ = float(alphas[best]), -float(errors[best] / rows.n_rows)


def _features_of(block):
    Z = block.Z[:, :-1] if block.model.intercept else block.Z
    return Z.toarray() if sparse.issparse(Z) else Z


def _cross_products(block):
    X, w = _features_of(block), block.weight
    return Sums([w.sum(), w @ X, w @ block.y, (X.T * w) @ X, X.T @ (w * block.y)])


def _left_out_squares(mean, y_mean, vectors, shrunk, along, share, block):
    """Sums over the block of squared leave-one-out residuals, (A,)."""
    V = (_features_of(block) - mean) @ vectors
    h = block.weight[:, None] * (V**2 @ shrunk + share)
    residual = (block.y - y_mean)[:, None] - V @ (shrunk * along[:, None])
    return block.weight @ (residual / (1 - h)) ** 2
