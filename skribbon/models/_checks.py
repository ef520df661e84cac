"""Mistakes in functions that users write, found on a few rows before any optimisation, each with its cure."""

import warnings

import numpy as np
from autograd import make_vjp

FEW = 5  # rows that a function is tried on

NOT_TRACED = (
    "autograd cannot differentiate {name}: {error}. Write {name} with functions of autograd.numpy and "
    "autograd.scipy.special in place of numpy's and scipy's, X @ W in place of X.dot(W) or numpy.dot, and "
    "autograd.numpy.stack, concatenate or where in place of item assignment."
)


def columns_of(f, params, X):
    """K, the number of columns of f(params, X), one if it is (n,)."""
    shape = np.shape(f(params, X))
    if len(shape) not in (1, 2) or shape[0] != len(X):
        raise ValueError(
            f"f(params, X) must return shape (n,) or (n, k), a prediction for each row of X; it returned {shape} for X "
            f"of shape {X.shape}."
        )
    return 1 if len(shape) == 1 else shape[1]


def check_columns(found, expected, reason):
    """f has as many columns as its loss takes."""
    if found != expected:
        shapes = "(n,) or (n, 1)" if expected == 1 else f"(n, {expected})"
        raise ValueError(f"f(params, X) must return shape {shapes} for {reason}; it returned {found} column(s).")


def check_rows_are_separate(f, params, X):
    """The prediction of a row depends on that row alone."""
    X = X[:FEW]
    together = np.ravel(f(params, X))
    one_by_one = np.concatenate([np.ravel(f(params, row[None])) for row in X])
    if not np.isfinite(together).all():
        return  # check_start has a word on that
    if one_by_one.shape != together.shape or not np.allclose(
        together, one_by_one, rtol=1e-6, atol=1e-6 * np.abs(together).max()
    ):
        raise ValueError(
            "f(params, X) mixes rows: the prediction of a row changes with the other rows of X, as it does with "
            "X - X.mean(axis=0) inside f. Do that in a transformer before the model, such as StandardScaler."
        )


def check_differentiable(function, at, name):
    """autograd can trace ``function`` of one array, into numbers."""

    def traced(x):
        value = function(x)
        if getattr(value, "dtype", None) == np.dtype(object):
            raise TypeError("it makes an array of objects out of traced numbers")
        return value

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            pull, value = make_vjp(traced)(at)
            gradient = pull(np.ones_like(value))
        except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
            raise TypeError(NOT_TRACED.format(name=name, error=str(error).rstrip("."))) from error
    if any("independent of input" in str(warning.message) for warning in caught):
        raise ValueError(f"{name} does not depend on what autograd differentiates it by; use that argument in {name}.")
    return gradient


def check_loss_per_row(loss, f, y):
    """A user's loss gives one number for each row, and autograd can differentiate it in f."""
    f, y = f[:FEW], y[:FEW]
    shape = np.shape(loss.value(f, y))
    if shape != y.shape:
        raise ValueError(
            f"loss(f, y) must return the loss of each row, shape ({len(y)},) for these {len(y)} rows; it returned "
            f"shape {shape}. Leave out the mean or sum."
        )
    check_differentiable(lambda f: loss._rows(f, y), f, "loss")


def check_start(objective, theta):
    """f, the loss and its gradient are finite at the initial parameters, on all rows."""
    model = objective.model
    with np.errstate(all="ignore"):
        f = model.raw(objective.Z, theta)
        losses = model.loss.value(f, objective.y)
        gradient = objective(theta)[1]
    for name, array in (("f(params, X)", f), ("the loss", losses), ("the gradient of the loss", gradient)):
        if not np.isfinite(array).all():
            raise ValueError(
                f"{name} is NaN or infinite at the initial parameters. Choose another init, or scale X (StandardScaler "
                "in a pipeline)."
            )
