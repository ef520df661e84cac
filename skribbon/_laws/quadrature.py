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
def hermite_upto(most):
    """Those of up to so many nodes in one row, and where those of n nodes begin."""
    rules = [hermite(n) for n in range(1, most + 1)]
    z, w = (np.concatenate(column) for column in zip(*rules, strict=True))
    return np.cumsum(np.arange(most + 1)) - np.arange(most + 1), z, w


@cache
def legendre(n):
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(n)


@cache
def chebyshev(n):
    """Chebyshev's points (n,) on [-1, 1], and the matrix (n, n) from values there to coefficients."""
    angle = np.pi * (np.arange(n) + 0.5) / n
    inverse = 2 / n * np.cos(np.outer(np.arange(n), angle))
    inverse[0] /= 2
    return np.cos(angle), inverse
