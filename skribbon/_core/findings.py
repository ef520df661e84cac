"""Findings about the premises of a fit: one place for measures, thresholds and the words of warnings.

A fault is a warning of ``fit`` or of a predict method; :func:`skribbon.inspection.check` tabulates all findings.
"""

from dataclasses import dataclass

import numpy as np

from .. import exceptions as warn
from . import thresholds

# What the number is, its threshold (None if it depends on the fit), and the category of the warning, if there is one.
PREMISES = {
    "convergence": ("training gradient, in standard errors", thresholds.STATIONARITY_LIMIT, warn.NotStationaryWarning),
    "saturated": ("effective parameters per observation", thresholds.MAX_LEVERAGE, warn.LeverageWarning),
    "memorized": ("parameters per observation", None, warn.FlexibleModelWarning),
    "undamped": ("effective parameters per observation", thresholds.INTERPOLATING, warn.FlexibleModelWarning),
    "leverage": ("rows or groups that determine their own fit", 0, warn.LeverageWarning),
    "groups": ("number of groups", None, warn.FewGroupsWarning),
    "separation": ("squared scores over their expectation", thresholds.SEPARATION, warn.SeparationWarning),
    "family": ("error of the family's distribution function", None, warn.FamilyWarning),
    "dependence": ("correlation of neighbours, in standard errors", thresholds.DEPENDENCE, warn.DependentRowsWarning),
    "linearization": ("relative error of linear steps against refits", thresholds.LINEARIZATION_ERROR, None),
    "noise": ("error of the predictive distribution function", None, None),
    "coverage": ("share of held-out rows that are missed", None, None),
    "coverage by width": ("share missed in the fifth of rows by width that is furthest off", None, None),
    "extrapolation": ("rows less certain than all training rows", None, None),
    "undetermined": ("rows along undetermined directions", 0, warn.UndeterminedDirectionWarning),
    "single_row": ("rows that depend on a single training row", 0, warn.LeverageWarning),
}
CAPPED = (
    f"Leverages above {thresholds.MAX_LEVERAGE} count as {thresholds.MAX_LEVERAGE}, so intervals there are unreliable, "
    "also of kind 'jackknife+'. Try: a stronger penalty of the base model{other}."
)
# What happened, what it does to intervals, and after "Try:" what to do.
TEXTS = {
    "convergence": "The training gradient is {number:.2g} standard errors from zero: the base model is not at its "
    "minimum, so intervals may be off centre and of the wrong width. {cure}",
    "memorized": "The network has {n_parameters:.2g} parameters per row and may have memorized its rows, which a "
    "single fit does not show: {effect}. Try: {cure}.",
    "undamped": "damping={damping} leaves {number:.2f} effective parameters per row, so held-out rows cannot determine "
    "the width of intervals, which may be too narrow. Try: damping='auto'.",
    "saturated": f"The model has as many effective parameters as there are observations. {CAPPED}",
    "leverage": f"{{number}} of {{n}} {{what}}. {CAPPED}",
    "groups": "With only {number:.0f} groups and {p:.3g} effective parameters, cluster-robust intervals may be too "
    "narrow. Try: more groups, fewer columns, or a stronger penalty of the base model.",
    "separation": "The classes are almost perfectly separated in the training data, so intervals are too narrow. Try: "
    "increase the penalty, e.g. LogisticRegression(C=0.1).",
    "plain": "temperature='auto' needs refits without some of the rows, because {reason}, but none is "
    "possible: probabilities are those of the base model and may be far too certain. Try: a base model that is not "
    "frozen, rows in memory, two rows or groups of each class, or RibbonCV(FrozenEstimator(ribbon)) on rows that it "
    "was not trained on.",
    "family": "The family of the base model does not describe the target: {low:.0%} of the rows lie below its 5% "
    "quantiles, {high:.0%} above its 95% quantiles, and its distribution function is off by {number:.2f}. Prediction "
    "intervals miss their level. Try: another family, or least squares on a transformed target.",
    "dependence": "Residuals of neighbouring {noun} have a correlation of {correlation:.2f} ({number:.1f} standard "
    "errors): {noun} depend on each other, or the model misses a trend along their order. Intervals of means and "
    "coefficients are too narrow. Try: one label in groups= for {noun} of a unit, or labels from skribbon.time_blocks.",
    "linearization": "Single refits differ from linear steps by {number:.0%} (median); widths of confidence intervals "
    "may be off. Differences partly average out over refits. Try: compare widths of confidence intervals with those of "
    "predictive='newton' or baselines.BootstrapRegressor; if they differ, use these, or more penalty.",
    "noise": "{low:.0%} of the held-out rows lie below their 5% quantiles, {high:.0%} above their 95% quantiles, and "
    "the predictive distribution function is off by {number:.2f}. Prediction intervals miss their level. Try: "
    "noise='auto' and law='auto', or RibbonCV.",
    "coverage": "{number:.0%} of the held-out rows {what}, not {expected:.0%}. Try: RibbonCV, or conformalize.",
    "coverage by width": "In part {k} of {n} by width, {number:.0%} of the held-out rows {what}, not {expected:.0%}. "
    "Try: RibbonCV, or {cure}.",
    "extrapolation": "{number} of {n} rows have a larger epistemic variance than any training row, so their intervals "
    "rely on the model alone. Try: train on rows like these, or do not predict them.",
    "undetermined": "{number} of {n} {noun} depend on directions that the training data do not determine, so their "
    "{effect}. Try: drop collinear or constant columns, or train on rows like these.",
    "single_row": "{number} of {n} {noun} depend on a single training row or group each, whose error is unknown, so "
    "their {effect}. Try: merge rare categories, drop outliers, or penalize the base model.",
}


@dataclass(frozen=True)
class Finding:
    """Result of one check of a fit or of its predictions."""

    premise: str
    number: float
    threshold: float
    text: str = ""  # empty without a fault

    def warn(self):
        """Warn of a fault."""
        warn.warn_user(self.text, PREMISES[self.premise][2])


def found(premise, number, threshold=None, fault=None, text=None, **known):
    """Finding about a premise; a fault if the number is above the threshold, unless ``fault`` is given."""
    threshold = PREMISES[premise][1] if threshold is None else threshold
    fault = number > threshold if fault is None else fault
    text = TEXTS[text or premise].format(number=number, **known) if fault else ""
    return Finding(premise, number, threshold, text)


class Findings(dict):
    """Findings of one fit; a fault is not replaced."""

    def report(self, *args, **kwargs):
        """Store a finding, see ``found``, and warn of a fault."""
        finding = found(*args, **kwargs)
        if finding.text or finding.premise not in self:
            self[finding.premise] = finding
        if finding.text:
            finding.warn()


# ---------------------------------------------------------------------- measures
def neighbour_correlation(residuals, place):
    """Correlation of residuals (m, q) at neighbouring places (m,), ascending integers, and its z statistic.

    Products of neighbours have mean zero if rows are independent, whatever their scales and tails. Their sum is divided
    by the root of the sum of their squares.
    """
    tiny, left = np.finfo(float).tiny, np.flatnonzero(np.diff(place) == 1)
    z = residuals / np.maximum(np.abs(residuals).max(axis=0), tiny)  # whose squares do not overflow
    z = z / np.maximum(np.sqrt(np.mean(z**2, axis=0)), tiny)
    products = np.einsum("iq,iq->i", z[left], z[left + 1])
    size = np.sqrt(products @ products)
    if not size > 0:
        return 0.0, 0.0
    return float(products.mean() / z.shape[1]), float(products.sum() / size)


def is_sorted(y, n_classes):
    """Whether rows are sorted by a column of y (m, q), or each class is one run, so that their order says nothing."""
    steps = np.diff(y, axis=0)
    monotone = (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
    return bool(monotone.any() or np.count_nonzero(steps) < n_classes)


def uniformity(u, share, n):
    """Kolmogorov's distance of values u (m,) with weights (m,) from uniform ones, its limit, and whether they differ.

    ``n`` is the number of independent values. The last two results are the shares of the lowest and highest 5%.
    """
    order = np.argsort(u)
    reached = np.cumsum(share[order])
    distance = float(max(np.max(reached - u[order]), np.max(u[order] - reached + share[order])))
    limit = max(thresholds.KOLMOGOROV_CRITICAL / np.sqrt(n), thresholds.KOLMOGOROV_NEGLIGIBLE)
    low, high = float(share @ (u < 0.05)), float(share @ (u > 0.95))
    tail = max(abs(low - 0.05), abs(high - 0.05))
    return distance, limit, bool(distance > limit and tail > thresholds.NEGLIGIBLE_TAIL), low, high
