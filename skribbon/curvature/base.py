"""The contract of every curvature, and what the machine can hold."""

import os
from numbers import Real
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

CLOSED_FORM_LIMIT = 2000  # parameters up to which a structured curvature still affords p x p scores


class Curvature(BaseEstimator):
    """A curvature is a sum over rows and a way to solve with it.

    A subclass writes ``of_rows``, what it takes from a block of rows (anything that adds), and ``factored``, which
    turns the mean of it plus a diagonal into a :class:`~skribbon._linalg.Factor`. One that needs more than one pass
    over the rows writes ``factor`` instead.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        Added to the diagonal, on the scale of the mean loss. "auto" adds nothing: directions that data and penalty
        leave undetermined are projected out instead, which keeps the growth of uncertainty away from the data.
    """

    knows_leverages = False  # exactly enough for a row's own leverage to correct its score

    def __init__(self, damping="auto"):
        self.damping = damping

    def of_rows(self, model, Z, y, weight):
        """Sum over a block of rows, each counted ``weight`` times."""
        raise TypeError(f"{type(self).__name__} must define of_rows(model, Z, y, weight).")

    def factored(self, mean, shift):
        """Factor of the mean over rows plus diag(shift)."""
        raise TypeError(f"{type(self).__name__} must define factored(mean, shift).")

    def factor(self, rows, moments):
        """H_r = H + diag(l2) + damping, as a Factor."""
        return self.factored(moments.curvature / moments.n, rows.model.l2 + self.numeric_damping())

    def view(self, model):
        """The model whose parameters are uncertain: the model itself, unless some of them are held fixed."""
        return model

    def holds_square(self, p):
        """Whether the sandwich is formed, p x p. Where it is not, the ribbon is held as solved draws."""
        return p <= CLOSED_FORM_LIMIT

    def predicted_bytes(self, p):
        """What a fit will hold at its peak, beyond X and one block of rows."""
        return 8 * 8 * p**2 if self.holds_square(p) else 0

    def check_fits(self, p):
        """Refuse before anything is allocated what the machine cannot hold."""
        needed, there = self.predicted_bytes(p), machine_bytes()
        if needed > 0.8 * there:
            raise MemoryError(
                f"{type(self).__name__} would take {needed / 1e9:.3g} GB for {p} parameters, and this machine has "
                f"{there / 1e9:.3g} GB. Use curvature='kfac' (networks), 'matrix_free', 'low_rank', 'diag' or "
                "'last_layer', which hold no p x p array."
            )

    def numeric_damping(self):
        """The damping as a number."""
        if isinstance(self.damping, str) and self.damping == "auto":
            return 0.0
        if not isinstance(self.damping, Real) or not np.isfinite(self.damping) or self.damping < 0:
            raise ValueError(f"damping must be 'auto' or a number >= 0, got {self.damping!r}.")
        return float(self.damping)


def machine_bytes():
    """Memory that this process may have: the machine's, or its container's limit if that is smaller."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such limit
        return physical
