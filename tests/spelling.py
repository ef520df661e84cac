"""Settings of scikit-learn that its supported versions spell differently."""

import sklearn
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.utils.fixes import parse_version

BEFORE_1_8 = parse_version(sklearn.__version__) < parse_version("1.8")


def logistic(**params):
    """LogisticRegression whose ``l1_ratio`` says it all; before 1.8 ``penalty`` had to name the penalty too."""
    if BEFORE_1_8 and "l1_ratio" in params:
        params["penalty"] = {0.0: "l2", 1.0: "l1"}.get(params["l1_ratio"], "elasticnet")
    return LogisticRegression(**params)


def logistic_cv(**params):
    """LogisticRegressionCV with an L2 penalty and one C for all classes."""
    new = {} if BEFORE_1_8 else {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    return LogisticRegressionCV(**new, **params)
