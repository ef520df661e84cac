"""Predictions of rows by fits that did not see them, from which noise, alpha and conformal scores are learnt."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.ribbon import rescaling
from .._utils.compat import cached_property
from .classes import ClassProbabilities

ORIGINS = {
    "loo": "each by the fit without the row, or its group, in closed form",
    "folds": "each by a refit without its fold",
    "early_stopping": "which early stopping set aside in the fit",
    "calibration": "rows that were passed in addition to the training rows",
}


@dataclass(frozen=True)
class HeldOutSummary:
    """Source of the held-out predictions that a fit learnt from."""

    origin: str  # "loo", "folds", "early_stopping" or "calibration"
    n_rows: int  # number of rows with a held-out prediction
    n_fits: int  # number of base fits that these predictions took, in addition to the fit to all rows

    @classmethod
    def from_records(cls, records):
        """Build from HeldOut records of one origin."""
        return cls(records[0].origin, sum(map(len, records)), sum(record.n_fits for record in records))

    def __str__(self):
        return f"{self.n_rows} rows, {ORIGINS[self.origin]} ({self.n_fits} refits)"


@dataclass(frozen=True, eq=False)
class Unseen:
    """Raw predictions of training rows by fits that have not seen them, as they come from refits."""

    rows: np.ndarray  # (m,) positions of the rows
    f: np.ndarray  # (m, k), on the scale of the fit to all rows
    ratio: np.ndarray  # (q,) expected squared error at new rows of the fit to all rows, over the one of f; by output
    origin: str  # "folds" or "early_stopping"
    fold: np.ndarray | None = None  # (m,) number of the refit of each row; None without refits
    variance: float = 0.0  # mean over rows of the total variance of logits that the refits of a classifier show

    @property
    def n_fits(self):
        """Number of refits."""
        return 0 if self.fold is None else int(self.fold.max()) + 1

    def sample(self, some):
        """Predictions of some of the rows, by their positions among these."""
        return replace(self, rows=self.rows[some], f=self.f[some], fold=None if self.fold is None else self.fold[some])

    def sized(self, y, additive):
        """Raw predictions with errors of the expected size, if the noise is additive; y are targets of all rows."""
        if not additive:
            return self.f
        q = len(self.ratio)
        t = y.reshape(len(y), q)[self.rows]
        return np.hstack([t - np.sqrt(self.ratio) * (t - self.f[:, :q]), self.f[:, q:]])


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows with their predictive distributions by fits that did not see them."""

    prediction: Any  # predictive distributions, or a function that returns them; see distribution
    f: np.ndarray  # (m, k) raw predictions
    y: np.ndarray  # (m,) or (m, n_outputs) observed values, or positions of the classes
    weight: np.ndarray  # (m,) frequencies
    group: np.ndarray | None = None  # (m,) labels of dependent rows; of calibration rows, of groups with own guarantees
    origin: str = "folds"  # or "loo", "early_stopping", "calibration"
    n_fits: int = 0  # number of base fits that the record took
    units: float = 1.0  # number of Dirichlet weights at which the epistemic covariance was computed
    alpha: float = 1.0  # concentration of these weights
    squared: np.ndarray | None = None  # (m,) squares with the noise variance alone as their mean; only of origin "loo"
    leverage: Any = 0.0  # (m,) leverages in the fit to all rows; zero if none of it entered the predictions
    power: float = 0.0  # power of 1 - leverage by which the correction multiplied a row's own score in the covariance
    own: np.ndarray | None = None  # (m, k) raw predictions by the fit to all rows; only of classes and groups
    precision: Any = 1.0  # (m,) exposures, by which the noise variance of a row of weight one is divided

    def __len__(self):
        return len(self.y)

    @cached_property
    def distribution(self):
        """Predictive distributions with the epistemic covariance of ``f``; without noise until a noise is fitted."""
        return self.prediction() if callable(self.prediction) else self.prediction

    @property
    def of_classes(self):
        """Whether the distributions are those of class probabilities."""
        return isinstance(self.distribution, ClassProbabilities)

    @property
    def outputs(self):
        """Records of the single outputs."""
        if self.y.ndim == 1:
            return (self,)
        columns = enumerate(zip(self.distribution.outputs, self.y.T, strict=True))
        return tuple(replace(self, prediction=own, f=self.f[:, [j]], y=y) for j, (own, y) in columns)

    @property
    def targets(self):
        """Observed values on the scale that the model was fitted on, (m,)."""
        return self.distribution.target.encode(self.y)

    @property
    def residuals(self):
        """Observed values minus predicted means, on the fitted scale, (m,)."""
        return self.targets - self.distribution.loss.mean(self.f[:, 0])

    def weighed(self, weight_type):
        """Record of rows that count once each, if its weights are not frequencies."""
        w, own = self.weight, self.distribution
        if weight_type != "exposure":  # the sum of importance weights is Kish's effective number of rows
            return self if weight_type == "frequency" else replace(self, weight=w * (w.sum() / (w @ w)))
        precision = np.where(w > 0, w, 1.0)
        outputs = [replace(one, dispersion=one.dispersion / precision) for one in getattr(own, "outputs", [own])]
        own = outputs[0] if self.y.ndim == 1 else replace(own, outputs=tuple(outputs))
        return replace(self, prediction=own, weight=np.sign(w), precision=precision)

    def factors(self, alphas):
        """Factors (A,) of the covariance at other values of alpha."""
        return rescaling(self.units, self.alpha, np.asarray(alphas))

    def at_alpha(self, alpha):
        """Record with the epistemic covariance at another alpha."""
        return replace(self, prediction=self.distribution.scaled(self.factors([alpha])[0]), alpha=alpha)

    def take(self, rows):
        """Record of some of the rows of a classifier."""
        group = None if self.group is None else self.group[rows]
        own = None if self.own is None else self.own[rows]
        columns = {"f": self.f[rows], "y": self.y[rows], "weight": self.weight[rows], "group": group, "own": own}
        return replace(self, prediction=self.distribution.take(rows), **columns)

    def with_scaling(self, scaling):
        """Record of a classifier that turns the same logits into probabilities by another Scaling."""
        return replace(self, prediction=replace(self.distribution, scaling=scaling))

    def with_dispersion(self, dispersion):
        """Record of a regressor with noise of this dispersion, a number or (m,)."""
        scaled = dispersion / self.precision * self.distribution.loss.noise_scale(self.f)
        return replace(self, prediction=replace(self.distribution, dispersion=scaled))
