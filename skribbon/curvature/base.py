"""The contract of every curvature, and how a name or an object becomes one."""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator


class Curvature(BaseEstimator):
    """A curvature is a sum over rows and a factorisation of it.

    A subclass writes ``of_rows``, what it takes from a block of rows (anything that adds), and ``factored``, which
    turns the mean of it plus a diagonal into an object with ``solve``, ``inverse_root``, ``null`` and ``to_dense``.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        Added to the diagonal, on the scale of the mean loss. "auto" adds nothing: directions that data and penalty
        leave undetermined are projected out instead, which keeps the growth of uncertainty away from the data.
    """

    def __init__(self, damping="auto"):
        self.damping = damping

    def of_rows(self, model, Z, y, weight):
        """Sum over a block of rows, each counted ``weight`` times."""
        raise TypeError(f"{type(self).__name__} must define of_rows(model, Z, y, weight).")

    def factored(self, mean, shift):
        """Factor of the mean over rows plus diag(shift)."""
        raise TypeError(f"{type(self).__name__} must define factored(mean, shift).")

    def factor(self, moments, l2):
        """H_r = H + diag(l2) + damping, factored."""
        return self.factored(moments.curvature / moments.n, l2 + self.numeric_damping())

    def numeric_damping(self):
        """The damping as a number."""
        if isinstance(self.damping, str) and self.damping == "auto":
            return 0.0
        if not isinstance(self.damping, Real) or not np.isfinite(self.damping) or self.damping < 0:
            raise ValueError(f"damping must be 'auto' or a number >= 0, got {self.damping!r}.")
        return float(self.damping)
