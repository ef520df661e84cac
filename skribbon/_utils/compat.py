"""The only door to scikit-learn's private names."""

from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._metadata_requests import _routing_enabled as routing_enabled
from sklearn.utils.validation import _check_feature_names as check_feature_names
from sklearn.utils.validation import _check_n_features as check_n_features
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = ["check_feature_names", "check_n_features", "check_sample_weight", "routing_enabled", "safe_indexing"]
