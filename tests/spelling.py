"""Differences between the supported versions of scikit-learn."""

import sklearn
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.utils.fixes import parse_version

BEFORE_1_8 = parse_version(sklearn.__version__) < parse_version("1.8")
IS_1_9 = sklearn.__version__.startswith("1.9.")


def assert_checked(results, count, least):
    """Of check_estimator: all passed, and all were asked. A lost tag or a hidden sample_weight silently drops some.

    The number of them is known for scikit-learn 1.9; other versions ask ``least``.
    """
    assert [(r["check_name"], r["status"]) for r in results if r["status"] not in ("passed", "skipped")] == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert len(results) == count if IS_1_9 else sum(r["status"] == "passed" for r in results) >= least


def logistic(**params):
    """LogisticRegression with the penalty given by ``l1_ratio``; scikit-learn below 1.8 also needs ``penalty``."""
    if BEFORE_1_8 and "l1_ratio" in params:
        params["penalty"] = {0.0: "l2", 1.0: "l1"}.get(params["l1_ratio"], "elasticnet")
    return LogisticRegression(**params)


def logistic_cv(**params):
    """LogisticRegressionCV with an L2 penalty and one C for all classes."""
    new = {} if BEFORE_1_8 else {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    return LogisticRegressionCV(**new, **params)
