"""Checks of user input, with errors that name the parameter and the remedy."""

import re
from datetime import date
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_array, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .compat import check_sample_weight

# names of dtypes, one per line; categories, which polars lists in parentheses, do not count
TIMES = re.compile(r"^[\w[]*(date|time|duration)", re.IGNORECASE | re.MULTILINE)


def is_lazy(X):
    """Whether X is a Dask collection, or a Table built from one, whose rows are not in memory."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") or type(X).__module__ == "skribbon._dask.table"


def check_no_dates(X):
    """Refuse tables with columns of dates, which have no numbers of a known unit."""
    dtypes = "\n".join(map(str, getattr(X, "dtypes", [getattr(X, "dtype", "")])))
    first = np.ravel(np.asarray(X[:1], dtype=object)) if "object" in dtypes else ()
    if TIMES.search(dtypes) or any(isinstance(value, date) for value in first):
        raise TypeError("X holds dates or times. Convert them to numbers, such as days since the first date.")


def check_in_memory(X):
    """Refuse lazy tables: Dask collections and unevaluated queries."""
    if is_lazy(X):
        raise TypeError(
            f"X is a Dask {type(X).__name__}, but this needs rows in memory: pass X.compute(), or add up results "
            "of its partitions. Only RibbonRegressor, RibbonClassifier and RibbonCV take Dask collections."
        )
    if hasattr(X, "collect") and not hasattr(X, "__len__"):
        raise TypeError(f"X is a {type(X).__name__}, a query that has not run; call X.collect() first.")


def check_fitted(estimator, name="model_"):
    """Refuse an estimator that is not fitted; scikit-learn's slow check runs only if attribute ``name`` is missing."""
    if not hasattr(estimator, name):
        check_is_fitted(estimator)


def check_target(estimator, y):
    """Check y, (n,), or (n, m) if the estimator takes several outputs; a Dask column is returned as it is."""
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
            f"one per column, e.g. by the estimators_ of MultiOutput{tags.estimator_type.capitalize()}({name}(...))."
        )
    y = column_or_1d(y, warn=True)
    if tags.estimator_type == "classifier":
        check_labels(y)
    elif y.dtype.kind in "bO" and holds_numbers(y):  # Decimal, and integers of any length
        return y.astype(float)
    return y


def holds_numbers(y):
    """Whether y (n,) can be converted to numbers and is not a time."""
    try:
        y.astype(float)
    except (TypeError, ValueError):
        return False
    return y.dtype.kind not in "mM"


def check_labels(y):
    """Refuse labels (n,) of a classifier that are missing, or numbers of a regression."""
    from pandas import isna

    if y.dtype.kind == "O" and (missing := isna(y)).any():
        raise ValueError(f"y has no label in {missing.sum()} of {len(y)} rows (None or NaN); drop these rows.")
    check_classification_targets(y)


def class_targets(y):
    """Check labels y of a classifier; returns the sorted classes, at least two, and the index of each row's class."""
    check_labels(y)
    classes, t = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class only, {classes[0]!r}; a classifier needs at least two.")
    return classes, t


def check_observations(y, n):
    """Check observed values of n rows and return them as numbers, (n,), without broadcasting."""
    y = check_array(column_or_1d(y), ensure_2d=False, dtype=np.float64, input_name="y")
    if len(y) != n:
        raise ValueError(f"y must have an observation for each of the {n} rows of X, got {len(y)}.")
    return y


def check_table_of(y, shape):
    """Check observed values of several outputs and return them as numbers of this shape."""
    if np.shape(y) != shape:
        raise ValueError(f"y must have shape {shape}, an observation of each output for each row, got {np.shape(y)}.")
    return check_array(y, dtype=np.float64, input_name="y")


def checked_weight(sample_weight, X):
    """Check sample weights and return them as frequencies (n,): finite, not negative, not all zero."""
    sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64)
    if (sample_weight < 0).any() or not (sample_weight > 0).any():
        raise ValueError("sample_weight must not be negative, and must contain at least one non-zero number.")
    return sample_weight


def group_codes(groups, n):
    """Number groups in the order in which they first appear; returns the number of each row's group, (n,)."""
    from pandas import factorize  # recognizes missing labels of any kind

    if np.ndim(groups) == 0 or np.shape(groups)[1:] not in ((), (1,)):
        raise ValueError(f"groups must be a sequence of {n} labels, one per row of X, got shape {np.shape(groups)}.")
    groups = np.asarray(groups).ravel()
    if len(groups) != n:
        raise ValueError(f"groups must have {n} labels, one per row of X, got {len(groups)}; or a tuple of groupings.")
    code, _ = factorize(groups)
    if (code < 0).any():
        raise ValueError(f"groups is missing for {(code < 0).sum()} of {n} rows; give each a label, or drop them.")
    return code


def group_labels(groups):
    """Labels (n,), or (n, k) for k crossed groupings: the columns of a table, or a tuple of arrays; None if None.

    A list holds one label per row, which may be a tuple.
    """
    if groups is None:
        return None
    if isinstance(groups, tuple) and groups and all(np.ndim(labels) == 1 for labels in groups):
        if len(lengths := set(map(len, groups))) != 1:
            raise ValueError(f"groups is a tuple of arrays of labels, whose lengths differ: {sorted(lengths)}.")
        groups = np.column_stack([np.asarray(labels, dtype=object) for labels in groups])
    if isinstance(groups, list) and all(isinstance(label, tuple) for label in groups):
        groups, labels = np.empty(len(groups), dtype=object), groups
        groups[:] = labels
    labels = np.asarray(groups)
    return labels.ravel() if labels.shape[1:] == (1,) else labels


def crossed_codes(groups, n):
    """Numbers of each row's groups, (n, k), the grouping with the fewest groups first; nested ones are left out."""
    labels = group_labels(groups)
    columns = labels.T if labels.ndim == 2 else [labels]
    kept = []
    for code in sorted((group_codes(column, n) for column in columns), key=np.max):
        size = code.max() + 1
        if all(len(np.unique(other * size + code)) > size for other in kept):
            kept.append(code)
    return np.column_stack(kept)


def coarsest(groups, n):
    """Labels (n,) of the grouping with the fewest groups, which folds keep together; None without groups."""
    labels = group_labels(groups)
    return labels if labels is None or labels.ndim == 1 else crossed_codes(labels, n)[:, 0]


def checked_groups(groups, n, weight):
    """Number of each row's group, (n,), or (n, k) if crossed; None without groups, or if each is one observation."""
    if groups is None:
        return None
    codes = crossed_codes(groups, n)
    totals = [np.bincount(code, weights=weight) for code in codes.T]
    for total in totals:
        check_group_totals(total)
    if len(totals) > 1:
        return codes
    return None if len(totals[0]) == n and np.isin(weight, (0, 1)).all() else codes[:, 0]


def check_group_totals(total):
    """Refuse weights of groups, (G,), of which fewer than two are positive."""
    if (total > 0).sum() < 2:
        raise ValueError(
            "groups has a single label among the rows that count, which cannot show how groups differ. Fit without "
            "groups if the rows are independent, or collect more groups."
        )


def listed(names, most=10):
    """Join the first ``most`` names for an error message: "a, b, c"."""
    return ", ".join(map(str, names[:most]))


def check_levels(values, name):
    """Check probabilities strictly between 0 and 1; returns them as an array, and whether a single number was given."""
    try:
        levels = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        levels = np.array([])
    if levels.ndim != 1 or not levels.size or not np.all((levels > 1e-300) & ((1 + levels) / 2 < 1)):
        raise ValueError(f"{name} must lie strictly between 0 and 1, by more than rounding, got {values!r}.")
    return levels, np.ndim(values) == 0


def check_single_level(value):
    """Check a single confidence level and return it as a float."""
    levels, scalar = check_levels(value, "confidence_level")
    if not scalar:
        raise ValueError(f"confidence_level must be a single number here, got {value!r}.")
    return float(levels[0])


def check_count(value, name, lowest=1):
    """Check an integer of at least ``lowest`` and return it as an int."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < lowest:
        raise ValueError(f"{name} must be an integer >= {lowest}, got {value!r}.")
    return int(value)


def check_positive(value, name, cure="", allowed=""):
    """Refuse values that are not finite numbers above zero."""
    if not isinstance(value, Real) or not np.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be {allowed}a finite number > 0, got {value!r}. {cure}".rstrip())


def check_name(value, name, allowed):
    """Refuse a value that is not one of the allowed names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def is_name(value, *names):
    """Whether a parameter, maybe an array, is one of these names."""
    return isinstance(value, str) and value in names
