"""Curvature of the training loss: what H_r is made of."""

from __future__ import annotations

from typing import Any, Literal

from .._utils.typing import CurvatureName
from ..exceptions import ApproximateCurvatureWarning, warn_user
from .base import Curvature, machine_bytes
from .dense import EmpiricalFisher, GaussNewton, Hessian, LastLayer
from .kfac import KFAC
from .matrix_free import MatrixFree
from .structured import Diagonal, LowRank

__all__ = [
    "KFAC",
    "Curvature",
    "Diagonal",
    "EmpiricalFisher",
    "GaussNewton",
    "Hessian",
    "LastLayer",
    "LowRank",
    "MatrixFree",
    "resolve_curvature",
]

_BY_NAME = {
    "hessian": Hessian,
    "ggn": GaussNewton,
    "fisher": EmpiricalFisher,
    "kfac": KFAC,
    "low_rank": LowRank,
    "diag": Diagonal,
    "last_layer": LastLayer,
    "matrix_free": MatrixFree,
}
DENSE_MEMORY = 0.25  # share of the machine's memory up to which "auto" takes a dense one; rows need room too
DENSE_WORK = 1e13  # multiplications up to which "auto" takes a dense curvature: a few minutes


def resolve_curvature(
    curvature: CurvatureName | Curvature, damping: float | Literal["auto"], model: Any, n: int
) -> Curvature:
    """Return a Curvature for "auto", a name with the estimator's ``damping``, or an object.

    What would not fit in memory is refused here, before anything is allocated.

    Parameters
    ----------
    curvature : str or Curvature
    damping : "auto" or float
        "auto" if ``curvature`` is an object, which has its own.
    model : ParametricModel
    n : int
        Number of training rows.

    Returns
    -------
    Curvature

    Examples
    --------
    >>> from skribbon.curvature import resolve_curvature
    >>> from skribbon.models import as_parametric
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> model = as_parametric(Ridge().fit(X, y), y, np.ones(3))
    >>> resolve_curvature("auto", 0.1, model, n=3)
    Hessian(damping=0.1)
    """
    if isinstance(curvature, str) and curvature == "auto":
        return _automatic(model, damping, n)
    if isinstance(curvature, Curvature):
        if damping != "auto":
            raise ValueError("damping is set twice; with a curvature object, pass damping to that object only.")
        chosen = curvature
    elif isinstance(curvature, str) and curvature in _BY_NAME:
        chosen = _BY_NAME[curvature](damping=damping)
    else:
        names = ", ".join(map(repr, ("auto", *_BY_NAME)))
        raise ValueError(f"curvature must be {names} or a Curvature object, got {curvature!r}.")
    chosen.check_fits(len(chosen.view(model).theta))
    return chosen


def _automatic(model, damping, n):
    """The exact Hessian if it cannot be indefinite and Gauss-Newton otherwise, or what holds no p x p array.

    The latter beyond memory and minutes: Kronecker factors for networks of dense layers, products alone for others.
    """
    dense = (Hessian if model.exact_is_psd else GaussNewton)(damping=damping)
    p = len(model.theta)
    rank = 1 if model.outputs_are_separate else model.loss.curvature_rank
    needed, work = dense.predicted_bytes(p), n * rank * p**2
    if needed <= DENSE_MEMORY * machine_bytes() and work <= DENSE_WORK:
        return dense
    chosen = (KFAC if model.has_layers else MatrixFree)(damping=damping)
    warn_user(
        f"{p} parameters make a dense curvature of {needed / 1e9:.3g} GB and some {work:.1g} multiplications; "
        f"curvature='auto' takes {type(chosen).__name__} instead. Name a curvature to choose for yourself.",
        ApproximateCurvatureWarning,
    )
    chosen.check_fits(p)
    return chosen
