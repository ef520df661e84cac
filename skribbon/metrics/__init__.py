"""Scores of intervals, predictive distributions and probabilities, and scorers for model selection.

The functions take ``y_true`` first and ``sample_weight`` last, and return a float. The scorers have scikit-learn's
``(estimator, X, y)`` signature, for ``scoring=`` of GridSearchCV or cross_validate; greater is better, except for
``coverage_scorer``, which is for reports. R^2 and accuracy are no help in a search over ``alpha``: ``predict`` does not
depend on it.
"""

from .scorers import (
    coverage_scorer,
    make_interval_scorer,
    neg_brier_scorer,
    neg_coverage_error_scorer,
    neg_crps_scorer,
    neg_ece_scorer,
    neg_energy_scorer,
    neg_interval_score_scorer,
    neg_nll_scorer,
)
from .scores import (
    coverage_band,
    coverage_by_group,
    coverage_by_width,
    coverage_curve,
    crps_gaussian,
    crps_samples,
    energy_score,
    expected_calibration_error,
    gaussian_nll,
    interval_coverage_score,
    mean_interval_score,
    mean_interval_width,
    mean_set_size,
    pit_values,
    reliability_curve,
    set_coverage_score,
)

__all__ = [
    "coverage_band",
    "coverage_by_group",
    "coverage_by_width",
    "coverage_curve",
    "coverage_scorer",
    "crps_gaussian",
    "crps_samples",
    "energy_score",
    "expected_calibration_error",
    "gaussian_nll",
    "interval_coverage_score",
    "make_interval_scorer",
    "mean_interval_score",
    "mean_interval_width",
    "mean_set_size",
    "neg_brier_scorer",
    "neg_coverage_error_scorer",
    "neg_crps_scorer",
    "neg_ece_scorer",
    "neg_energy_scorer",
    "neg_interval_score_scorer",
    "neg_nll_scorer",
    "pit_values",
    "reliability_curve",
    "set_coverage_score",
]
