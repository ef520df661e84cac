"""Curvature of the training loss, H_r of the sandwich."""

from .base import Curvature, EmpiricalFisher, GaussNewton, Hessian, LastLayer, resolve_curvature
from .base import machine_bytes as machine_bytes
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
