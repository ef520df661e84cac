"""Guide page of each public name whose docstring names none; the templates of the API pages show the links."""

import re

import skribbon.exceptions

PAGES = {
    "user_guide/guarantees": "coverage_band coverage_by_width set_coverage_score mean_set_size",
    "user_guide/noise": "coverage_by_group coverage_curve pit_values",
    "user_guide/intervals": "crps_gaussian crps_samples gaussian_nll interval_coverage_score mean_interval_score "
    "mean_interval_width",
    "user_guide/outputs": "energy_score neg_energy_scorer takes_outputs",
    "user_guide/classification": "expected_calibration_error reliability_curve neg_brier_scorer neg_ece_scorer",
    "user_guide/pipelines": "make_interval_scorer coverage_scorer neg_coverage_error_scorer neg_crps_scorer "
    "neg_interval_score_scorer neg_nll_scorer TRUSTED_TYPES",
    "user_guide/curvature": "resolve_curvature",
    "user_guide/troubleshooting": "show_versions",
    "own_models": "cnn linear_in_features mlp michaelis_menten monotone",
    "extending": "with_theta",
}
LINKS = {name: f":doc:`/{page}`" for page, names in PAGES.items() for name in names.split()}


def entry(name):
    """Return the link of a warning or an error to its entry on the page about troubleshooting."""
    label = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
    return f":ref:`{name} <{'all-warnings' if name == 'RibbonWarning' else label}>`"


LINKS |= {name: entry(name) for name in skribbon.exceptions.__all__}
LINKS["MemberWarning"] = entry("MemberWarning")
