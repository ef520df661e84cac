"""Derivatives of a parametric model at given rows, as functions of the rows."""

import numpy as np

from skribbon._core.rows import Block


def block(model, Z, y, weight=None):
    return Block(model, Z, y, np.ones(len(y)) if weight is None else weight)


def scores(model, Z, y):
    """G, (n, p), dense or sparse."""
    rows = block(model, Z, y)
    return rows.tangent.scores(rows.u)


def root_jacobian(model, Z, y):
    """R_i' J_i, (n, r, p)."""
    return np.einsum("nkr,nkp->nrp", block(model, Z, y).R, model.jacobian(Z))


def jvp(model, Z, V):
    return model.tangent(Z).jvp(V)


def vjp(model, Z, U):
    return model.tangent(Z).vjp(U)


def ggn(model, Z, y, weight):
    return block(model, Z, y, weight).ggn()


def ggn_diagonal(model, Z, y, weight):
    return block(model, Z, y, weight).ggn_diagonal()


def ggn_product(model, Z, y, weight, V):
    return block(model, Z, y, weight).ggn_product(V)


def hessian(model, Z, y, weight):
    return block(model, Z, y, weight).hessian()


def hessian_product(model, Z, y, weight, V):
    return block(model, Z, y, weight).hessian_product(V)


def kronecker_sums(model, Z, y, weight):
    return block(model, Z, y, weight).kronecker_sums()
