"""What a fitted factor tells about the training rows: leverages, leave-one-out predictions, corrected scores."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ._moments import MAX_LEVERAGE, Moments, TrainingRows
from .exceptions import LeverageWarning, warn_user

SMALL_LEVERAGE = 0.05  # effective parameters per row below which a row's own leverage is not worth a second pass


@dataclass(frozen=True, eq=False)
class Training:
    """Training rows together with their moments and the factor H_r that came of them."""

    rows: TrainingRows
    moments: Moments
    H_r: Any
    effective_parameters: float
    knows_leverages: bool = True  # of each row, which an approximate H_r does not

    @property
    def n(self):
        """Number of observations: the sum of the weights."""
        return self.moments.n

    @cached_property
    def leverages(self):
        """h_i, (n_rows,), none above MAX_LEVERAGE."""
        h = self.rows.leverages(self.H_r, self.n)
        above = int((h > MAX_LEVERAGE).sum())
        if above:
            _warn_of_leverage(f"{above} of {len(h)} rows determine their own fitted value")
        return np.minimum(h, MAX_LEVERAGE)

    @cached_property
    def mean_leverage(self):
        """Effective parameters per observation, at most MAX_LEVERAGE."""
        mean = self.effective_parameters / self.n
        if mean > MAX_LEVERAGE:
            _warn_of_leverage("The model has as many effective parameters as there are rows")
        return min(mean, MAX_LEVERAGE)

    @cached_property
    def squared_residuals(self):
        """(y_i - mu_i)^2 / V(mu_i), (n_rows,)."""
        return self.rows.squared_residuals()

    def score_factor(self, correction):
        """What multiplies g_i g_i' to undo its shrinkage: a float for HC0 and HC1, (n_rows,) for HC2 and HC3.

        A fitted row has a score that is too small by about 1 - h_i: HC1 corrects all rows by the mean leverage, HC2
        each by its own, HC3 uses the score that the row would have under the fit to all others. "auto" is HC3 while
        leverages matter and are known, and HC1 beyond, where the two hardly differ and HC3 would double the cost.
        """
        if correction == "auto":
            correction = "HC3" if self.knows_leverages and self.mean_leverage > SMALL_LEVERAGE else "HC1"
        if correction == "HC0":
            return 1.0
        if correction == "HC1":
            return 1 / (1 - self.mean_leverage)
        return (1 - self.leverages) ** (-1.0 if correction == "HC2" else -2.0)

    def leave_one_out(self):
        """Raw predictions (n_rows, k) of every row under the fit to all others, by one Newton step each."""
        return self.rows.leave_one_out_raw(self.H_r, self.n)


def _warn_of_leverage(what):
    warn_user(
        f"{what}: leverage above {MAX_LEVERAGE} is taken as {MAX_LEVERAGE}, and what depends on it is a guess. "
        "Penalise the base model more, or use noise as a number and correction='HC0'.",
        LeverageWarning,
    )
