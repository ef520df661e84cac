"""What scikit-learn wraps around a fitted Ribbon, taken off again."""

from sklearn.pipeline import Pipeline


def last_step(estimator, X):
    """The predictor at the end of pipelines and inside searches, and X as it gets it.

    Pipelines and searches hand on only the methods that scikit-learn knows, and intervals are not among them.
    """
    while True:
        if isinstance(estimator, Pipeline) and not hasattr(estimator, "predict_distribution"):
            X, estimator = (estimator[:-1].transform(X) if len(estimator) > 1 else X), estimator[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, X
