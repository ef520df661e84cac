"""Scores of intervals, predictive distributions and probabilities, and scorers for model selection.

The functions take ``y_true`` first, ``sample_weight`` last, and return a float; those of regressors take several
outputs, with scikit-learn's ``multioutput=``. The scorers have scikit-learn's ``(estimator, X, y)`` signature and go
into ``scoring=`` of GridSearchCV or cross_validate; greater is better, except for ``coverage_scorer``, which is for
reports. With the default R^2 a search over ``alpha`` is an exact tie, because ``predict`` does not depend on alpha;
with accuracy it is nearly one.
"""

from .distributions import (
    coverage_curve,
    crps_gaussian,
    crps_samples,
    energy_score,
    expected_calibration_error,
    gaussian_nll,
    pit_values,
    reliability_curve,
)
from .intervals import (
    coverage_band,
    coverage_by_group,
    coverage_by_width,
    interval_coverage_score,
    mean_interval_score,
    mean_interval_width,
    mean_set_size,
    set_coverage_score,
)
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
