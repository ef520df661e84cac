"""The contract of every curvature, and what the machine can hold."""

from __future__ import annotations

import os
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._core.linalg import Factor, batch_gram
from .._core.rows import Block, Moments, Rows
from .._utils.typing import FloatArray

CLOSED_FORM_LIMIT = 2000  # parameters up to which a structured curvature forms the p x p sandwich, 32 MB an array


class Curvature(BaseEstimator):
    r"""A curvature is a sum over rows and a way to solve with it.

    .. math:: H_r = H + \mathrm{diag}(l2) + \mathrm{damping}\; I

    A subclass implements ``of_block``, its sum over a block of rows (any object that adds), and ``factored``, which
    turns the mean of that plus a diagonal into a Factor, an object that solves. One that needs more than one pass over
    the rows implements ``factor`` instead.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        Added to the diagonal, on the scale of the mean loss. "auto" adds nothing: directions that data and penalty
        leave undetermined are kept fixed instead, so that uncertainty still grows away from the data.

    Examples
    --------
    A curvature is a parameter of an estimator, and its own parameters can be set through it.

    >>> from sklearn.model_selection import GridSearchCV
    >>> from skribbon.curvature import Hessian
    >>> from skribbon.metrics import neg_nll_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(curvature=Hessian())
    >>> search = GridSearchCV(ribbon, {"curvature__damping": [0.0, 1e-3]}, scoring=neg_nll_scorer).fit(X, y)
    >>> search.best_params_
    {'curvature__damping': 0.0}
    """

    knows_leverages = False  # exactly enough for a row's own leverage to correct its score
    reweights = False  # its matrix is a sum over rows, so that drawn weights make another one
    factors_again = False  # with another damping at little cost, from the same sums
    square_limit: float = CLOSED_FORM_LIMIT  # parameters up to which the sandwich is formed, p x p
    peak_squares = 8  # p x p arrays that are alive at once where it is

    def __init__(self, damping: float | Literal["auto"] = "auto"):
        self.damping = damping

    def of_block(self, block: Block) -> Any:
        """Sum over a block of rows, each counted ``weight`` times.

        Parameters
        ----------
        block : Block
            A model and its loss at some rows, with derivatives and their sums.

        Returns
        -------
        array, or any object that adds and divides
        """
        raise TypeError(f"{type(self).__name__} must define of_block(block).")

    def of_loss(self, block: Block) -> FloatArray:
        """Curvature of each row's loss in f, as this curvature defines it; leverages are computed from it.

        Parameters
        ----------
        block : Block

        Returns
        -------
        ndarray of shape (b, k, k)
        """
        return batch_gram(block.R)

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        """Factor of the mean over rows plus diag(shift).

        Parameters
        ----------
        mean : object
            What :meth:`of_block` returns, summed over all blocks and divided by n.
        shift : ndarray of shape (p,)
            Penalty and damping.

        Returns
        -------
        Factor
        """
        raise TypeError(f"{type(self).__name__} must define factored(mean, shift).")

    def factor(self, rows: Rows, moments: Moments) -> Factor:
        """Factor of H_r.

        Parameters
        ----------
        rows : Rows
            The model and its training rows, block by block.
        moments : Moments
            Sums over all of them.

        Returns
        -------
        Factor
        """
        return self.factored(moments.curvature / moments.n, self.shift(rows.model))

    def view(self, model: Any) -> Any:
        """The model whose parameters are uncertain: the model itself, unless some of them are kept fixed.

        Parameters
        ----------
        model : ParametricModel

        Returns
        -------
        ParametricModel
        """
        return model

    def holds_square(self, p: int) -> bool:
        """Whether the p x p sandwich is formed; if not, the ribbon is held as solved draws.

        Parameters
        ----------
        p : int
            Number of parameters.

        Returns
        -------
        bool
        """
        return p <= self.square_limit

    def predicted_bytes(self, p: int) -> int:
        """Peak memory of a fit, beyond X and one block of rows.

        Parameters
        ----------
        p : int
            Number of parameters.

        Returns
        -------
        int
        """
        return 8 * self.peak_squares * p**2 if self.holds_square(p) else 0

    def check_fits(self, p: int) -> None:
        """Raise, before anything is allocated, if a fit would not fit in memory.

        Parameters
        ----------
        p : int
            Number of parameters.
        """
        needed, there = self.predicted_bytes(p), machine_bytes()
        if needed > 0.8 * there:
            raise MemoryError(
                f"{type(self).__name__} would take {needed / 1e9:.3g} GB for {p} parameters, and this machine has "
                f"{there / 1e9:.3g} GB. Use curvature='kfac' (networks), 'matrix_free', 'low_rank', 'diag' or "
                "'last_layer', which hold no p x p array."
            )

    def shift(self, model: Any) -> FloatArray:
        """What is added to the diagonal of H: penalty and damping.

        Parameters
        ----------
        model : ParametricModel

        Returns
        -------
        ndarray of shape (p,)
        """
        return model.l2 + self.numeric_damping()

    def with_damping(self, damping: float) -> Curvature:
        """The same curvature with another damping.

        Parameters
        ----------
        damping : float

        Returns
        -------
        Curvature
        """
        return clone(self).set_params(damping=damping)

    def numeric_damping(self) -> float:
        """The damping as a number.

        Returns
        -------
        float
            Zero for "auto".
        """
        if isinstance(self.damping, str) and self.damping == "auto":
            return 0.0
        if not isinstance(self.damping, Real) or not np.isfinite(self.damping) or self.damping < 0:
            raise ValueError(f"damping must be 'auto' or a number >= 0, got {self.damping!r}.")
        return float(self.damping)


def machine_bytes():
    """Memory that this process may have: the machine's, or its container's limit if that is smaller."""
    known = [2**40]  # assumed if the system does not tell: what does not fit then raises MemoryError by itself
    with suppress(AttributeError, OSError, ValueError):  # not on every platform
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no such limit
        known.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(known)
