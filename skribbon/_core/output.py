"""View of one column of y and its training rows, as noise models see them."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._utils.compat import cached_property
from .deals import row_keys, some_by_keys
from .rows import some_of
from .units import Hat, Record, group_record, group_steps, leave_one_out_steps, pass_width, record_by_groups


@dataclass(frozen=True, eq=False)
class Output:
    """One column of y and its training rows."""

    training: Any
    index: int = 0  # column of y; 0 if there is only one
    some: np.ndarray | None = None  # indices of the rows, if not all of them

    @cached_property
    def n(self):
        """Number of observations, also if the rows are a sample."""
        return self.training.n

    @property
    def unit(self):
        """Dispersion of an observation of weight one over that of importance one; 1 unless weights are exposures."""
        return self.training.rows.exposure or 1.0

    @property
    def chi2(self):
        """Sum of squared residuals over all rows."""
        return self.unit * float(np.atleast_2d(self.training.moments.chi2)[self.index, self.index])

    @cached_property
    def mean_leverage(self):
        """Effective parameters per observation."""
        return float(self.training.mean_leverages[self.index])

    @cached_property
    def has_exact_leverages(self):
        """Whether leverages are exact, not estimates."""
        return self.training.curvature.knows_leverages

    @cached_property
    def rows(self):
        """Training rows, with this column as their target."""
        rows, model = self.training.rows, self.training.rows.model
        rows = rows if self.some is None else rows.take(self.some)
        if not model.loss.by_output:
            return rows
        return replace(rows, model=model.outputs[self.index], y=rows.y[:, self.index])

    @cached_property
    def _record(self):
        """Record of the rows, made here if they are a sample of rows that are not in memory."""
        training = self.training
        if self.some is None:
            return training.record
        if training.rows.in_memory:
            return Record(*(values[self.some] for values in training.record))
        some = replace(training, rows=training.rows.take(self.some))
        return some.record if training.rows.groups is None else record_by_groups(training, some.rows)

    @property
    def precision(self):
        """Inverse noise variance of each row relative to a row of weight one: exposures (n_rows,), or 1."""
        return 1.0 if self.rows.exposure is None else self.rows.importance[:, 0] * self.unit

    @property
    def squared_residuals(self):
        """(y_i - mu_i)^2 / V(mu_i), (n_rows,), times the exposure."""
        return self.precision * self._record.squared[:, self.index]

    @property
    def leverages(self):
        """Leverages (n_rows,), at most MAX_LEVERAGE; warns if rows determine their own fitted value."""
        _ = self.training.checked_units
        return self._record.leverage[:, self.index]

    @property
    def growth(self):
        """Ratio of leave-one-out to fitted residual, (n_rows,): 1 / (1 - h_i) without groups."""
        _ = self.training.checked_units
        return self._record.growth[:, self.index]

    @property
    def left_out(self):
        """Raw predictions (n_rows, k) by the fits without each row, or group, to first order."""
        f = self._record.left_out
        return f[:, [self.index]] if self.training.rows.model.loss.by_output else f

    @property
    def unit_steps(self):
        """Steps of this output's parameters to the fits without each row, (n_rows, d), or each group, (G, d)."""
        training, model = self.training, self.training.rows.model
        if training.rows.groups is not None:
            steps = group_steps(training)
        else:
            of_block = partial(leave_one_out_steps, Hat.from_training(training))
            steps, _ = training.rows.map(of_block, pass_width(training)), training.checked_units
        steps = model.uncentred(steps.T).T
        return np.split(steps, model.loss.n_outputs, axis=1)[self.index] if model.outputs_are_separate else steps

    def grown_mean_square(self, power):
        """Mean over all rows of squared residuals times a power, 1 or 2, of their growth."""
        training, units = self.training, self.training.checked_units
        if training.rows.groups is None:
            return self.unit * float(units.grown[power - 1, self.index] / self.n)
        if training.rows.in_memory:
            grown = (training.record.squared * training.record.growth**power)[:, self.index]
            return self.unit * float(np.average(grown, weights=training.rows.mass))
        grown = partial(_grown_squares, Hat.from_training(training), group_steps(training), power)
        return self.unit * float(training.rows.sum(grown, pass_width(training))[self.index] / self.n)

    def sample(self, size):
        """View of at most ``size`` distinct rows in memory; sums are still over all rows."""
        some = _sample_index(self.training.rows, size)
        return self if some is None else replace(self, some=some)


def sampled(rows, size):
    """At most ``size`` distinct rows, in memory, chosen at random but independent of the rows' order."""
    some = _sample_index(rows, size)
    return rows if some is None else rows.take(some)


def _sample_index(rows, size):
    """Ascending indices of a sample, or None for all rows; on Dask, a sample by position."""
    if not rows.in_memory:
        return some_of(rows.n_rows, size)
    return None if rows.n_rows <= size else some_by_keys(row_keys(rows.y, rows.X), size)


def _grown_squares(hat, steps, power, block):
    """Sums over the block of squared residuals times a power of their growth, (q,)."""
    _, growth, squared, _ = group_record(hat, steps, block)
    return block.mass @ (squared * growth**power)
