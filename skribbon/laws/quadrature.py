"""Nodes and weights, made once."""

from functools import cache

import numpy as np

LEGENDRE = 24  # nodes of the quadrature in f


@cache
def hermite(n):
    """Gauss-Hermite nodes and weights for the standard normal law."""
    z, w = np.polynomial.hermite_e.hermegauss(n)
    return z, w / w.sum()


@cache
def legendre(n):
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(n)
