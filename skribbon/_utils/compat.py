"""The only door to scikit-learn's private names."""

from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._metadata_requests import _routing_enabled as routing_enabled
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = ["check_sample_weight", "routing_enabled", "safe_indexing"]
