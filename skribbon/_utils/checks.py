"""Checks of user input; an error names what is wrong and how to fix it."""

from numbers import Integral

import numpy as np
from sklearn.utils import check_array, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .compat import check_sample_weight


def is_lazy(X):
    """Whether X is a Dask collection, or was made of one: its rows are not in memory."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") or type(X).__module__ == "skribbon._dask.table"


def check_fitted(estimator, name="model_"):
    """Refuse what is not fitted, as scikit-learn does, whose own check is slow: it is asked only without ``name``."""
    if not hasattr(estimator, name):
        check_is_fitted(estimator)


def check_target(estimator, y):
    """y as a vector, labels if the estimator is a classifier; a table (n, m) may stay one if it takes several outputs.

    A Dask column is looked at later.
    """
    if is_lazy(y):
        return y
    name, tags = type(estimator).__name__, get_tags(estimator)
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    shape = np.asarray(y).shape
    if tags.target_tags.multi_output and len(shape) == 2:
        return np.asarray(y)
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {shape}: {name} models one output of this base model. Fit "
            f"one per column, with sklearn.multioutput.MultiOutput{tags.estimator_type.capitalize()}({name}(...)): its "
            "estimators_ predict intervals."
        )
    y = column_or_1d(y, warn=True)
    if tags.estimator_type == "classifier":
        check_classification_targets(y)
    return y


def check_observations(y, n):
    """Observed values of n rows as numbers, (n,); anything else is refused rather than broadcast."""
    y = check_array(column_or_1d(y), ensure_2d=False, dtype=np.float64, input_name="y")
    if len(y) != n:
        raise ValueError(f"y must have an observation for each of the {n} rows of X, got {len(y)}.")
    return y


def check_table_of(y, shape):
    """Observed values as numbers of a given shape; columns are the outputs."""
    if np.shape(y) != shape:
        raise ValueError(f"y must have shape {shape}, an observation of each output for each row, got {np.shape(y)}.")
    return check_array(y, dtype=np.float64, input_name="y")


def checked_weight(sample_weight, X):
    """Frequencies (n,): finite, not negative, not all zero."""
    sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64)
    if (sample_weight < 0).any() or not (sample_weight > 0).any():
        raise ValueError("sample_weight must not be negative, and must contain at least one non-zero number.")
    return sample_weight


def group_codes(groups, n):
    """Numbers (n,) of the groups of all rows, in the order in which they first appear."""
    from pandas import factorize  # knows what is missing among labels of any kind

    if np.ndim(groups) == 0 or np.shape(groups)[1:] not in ((), (1,)):
        raise ValueError(
            f"groups must be a sequence of {n} labels, one for each row of X, got shape {np.shape(groups)}."
        )
    groups = np.asarray(groups).ravel()
    if len(groups) != n:
        raise ValueError(f"groups must have a label for each of the {n} rows of X, got {len(groups)}.")
    code, _ = factorize(groups)
    if (code < 0).any():
        raise ValueError(
            f"groups is missing for {int((code < 0).sum())} of {n} rows; give each row without a group a label of its "
            "own, or drop it."
        )
    return code


def checked_groups(groups, n, weight):
    """Numbers (n,) of the groups; None without groups, or if every group is one observation."""
    if groups is None:
        return None
    code = group_codes(groups, n)
    total = np.bincount(code, weights=weight)
    check_group_totals(total)
    alone = len(total) == n and np.isin(weight, (0, 1)).all()
    return None if alone else code


def check_group_totals(total):
    """More than one group has a weight."""
    if (total > 0).sum() < 2:
        raise ValueError(
            "groups has a single label among the rows that count, which cannot show how groups differ. Fit without "
            "groups if the rows are independent, or collect more groups."
        )


def listed(names, most=10):
    """Names as an error lists them, the first ``most`` only: "a, b, c"."""
    return ", ".join(map(str, names[:most]))


def check_levels(values, name):
    """One probability or a sequence of them, as (array, was_scalar)."""
    try:
        levels = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        levels = np.array([])
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {values!r}.")
    return levels, np.ndim(values) == 0


def check_single_level(value):
    """A single level."""
    levels, scalar = check_levels(value, "confidence_level")
    if not scalar:
        raise ValueError(f"confidence_level must be a single number here, got {value!r}.")
    return float(levels[0])


def check_count(value, name, lowest=1):
    """A whole number."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < lowest:
        raise ValueError(f"{name} must be an integer >= {lowest}, got {value!r}.")
    return int(value)


def check_name(value, name, allowed):
    """One of the allowed names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def index_of(X):
    """The index of a table, None for anything else: a list has an ``index`` too."""
    return X.index if hasattr(X, "iloc") else None
