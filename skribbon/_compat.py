"""The only door to scikit-learn's private names."""

from sklearn.utils._metadata_requests import _routing_enabled as routing_enabled
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples

__all__ = ["check_sample_weight", "num_samples", "routing_enabled"]
