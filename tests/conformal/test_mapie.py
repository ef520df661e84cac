"""Comparison with MAPIE, if installed: equal intervals and sets for equal score, model and rows."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneOut

from skribbon import RibbonClassifier, RibbonRegressor

pytest.importorskip("mapie", minversion="1.0")

LEVELS = [0.5, 0.8, 0.93]
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
Y = X[:, 0] + rng.standard_normal(200) * np.exp(X[:, 1] / 2)
CLASSES = (1.5 * X @ rng.normal(size=(3, 4)) + rng.gumbel(size=(200, 4))).argmax(axis=1)
FIT, CAL, NEW = slice(0, 80), slice(80, 150), slice(150, 200)


class Spread(RegressorMixin, BaseEstimator):
    """The standard deviation that a Ribbon predicts, as an estimator."""

    def __init__(self, ribbon):
        self.ribbon = ribbon
        self.n_features_in_, self.is_fitted_ = 3, True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.ribbon.predict_std(X)


@pytest.mark.parametrize("score", ["absolute", "normalized"])
def test_split_conformal_equals_mapie(score):
    from mapie.conformity_scores import AbsoluteConformityScore, ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    ribbon = RibbonRegressor(Ridge(), law="normal").fit(X[FIT], Y[FIT])
    theirs = AbsoluteConformityScore()
    if score == "normalized":
        theirs = ResidualNormalisedScore(residual_estimator=Spread(ribbon), prefit=True, sym=True)
    mapie = SplitConformalRegressor(ribbon, confidence_level=LEVELS, conformity_score=theirs, prefit=True)
    _, expected = mapie.conformalize(X[CAL], Y[CAL]).predict_interval(X[NEW])
    ours = ribbon.conformalize(X[CAL], Y[CAL], score=score).predict_interval(X[NEW], LEVELS, kind="conformal")
    np.testing.assert_allclose(ours, expected, rtol=1e-10)


def test_jackknife_plus_equals_mapie():
    from mapie.regression import CrossConformalRegressor

    mapie = CrossConformalRegressor(Ridge(2.0), confidence_level=LEVELS, cv=LeaveOneOut(), method="plus")
    _, expected = mapie.fit_conformalize(X[FIT], Y[FIT]).predict_interval(X[NEW])
    ribbon = RibbonRegressor(Ridge(2.0), store_loo=True).fit(X[FIT], Y[FIT])
    np.testing.assert_allclose(ribbon.predict_interval(X[NEW], LEVELS, kind="jackknife+"), expected, rtol=1e-10)


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_prediction_sets_equal_mapie(score):
    from mapie.classification import SplitConformalClassifier

    ribbon = RibbonClassifier(LogisticRegression()).fit(X[FIT], CLASSES[FIT])
    mapie = SplitConformalClassifier(
        ribbon, confidence_level=LEVELS, conformity_score=score, prefit=True, random_state=7
    ).conformalize(X[CAL], CLASSES[CAL])
    told = {"conformity_score_params": {"include_last_label": "randomized"}} if score == "aps" else {}
    _, expected = mapie.predict_set(X[NEW], **told)
    settings = {"score": score, "randomized": score == "aps", "random_state": 7}
    ours = ribbon.conformalize(X[CAL], CLASSES[CAL], **settings).predict_set(X[NEW], LEVELS, random_state=7)
    np.testing.assert_array_equal(ours, expected)
