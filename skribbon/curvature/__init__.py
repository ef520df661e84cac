"""Curvature of the training loss: what H_r is made of."""

from .base import Curvature
from .dense import EmpiricalFisher, GaussNewton, Hessian

__all__ = ["Curvature", "EmpiricalFisher", "GaussNewton", "Hessian", "resolve_curvature"]

_BY_NAME = {"hessian": Hessian, "ggn": GaussNewton, "fisher": EmpiricalFisher}


def resolve_curvature(curvature, damping, model):
    """A Curvature from what the user wrote: "auto", a name with the estimator's ``damping``, or an object.

    "auto" is the exact Hessian where it cannot be indefinite, and Gauss-Newton elsewhere.
    """
    if isinstance(curvature, Curvature):
        if damping != "auto":
            raise ValueError("damping is set on both; with a curvature object, pass damping to that object only.")
        return curvature
    if isinstance(curvature, str) and curvature == "auto":
        curvature = "hessian" if model.exact_is_psd else "ggn"
    if not isinstance(curvature, str) or curvature not in _BY_NAME:
        names = ", ".join(map(repr, ("auto", *_BY_NAME)))
        raise ValueError(f"curvature must be {names} or a Curvature object, got {curvature!r}.")
    return _BY_NAME[curvature](damping=damping)
