"""Prediction sets of classifiers: guarantee by counting, definition and interface."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from skribbon import RibbonClassifier, RibbonCV
from skribbon.conformal import conformal_quantile
from skribbon.conformal.calibration import class_scores
from skribbon.exceptions import CalibrationWarning

POOL, LEVEL = 30, 0.7
LABELS = np.array(["ash", "beech", "cedar", "dogwood"])


def draw(n, seed, K=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    logits = 1.5 * X @ rng.normal(size=(3, K)) + 2 * np.sin(3 * X[:, :1]) * np.arange(K)  # no linear model is right
    own = (logits + rng.gumbel(size=(n, K))).argmax(axis=1)
    return X, LABELS[own]


def fitted(seed=0, K=4):
    X, y = draw(80 + POOL, seed, K)
    return RibbonClassifier(LogisticRegression()).fit(X[:80], y[:80]), X[80:], y[80:]


def each_once(ribbon, X, y, level, told=None, **settings):
    """Whether the class of each row is in the set that all the others calibrate."""
    told = {} if told is None else told
    own, covered = np.searchsorted(ribbon.classes_, y), []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        ribbon.conformalize(X[others], y[others], **{k: v[others] for k, v in told.items()}, **settings)
        one = {k: v[[i]] for k, v in told.items()}
        covered.append(ribbon.predict_set(X[[i]], level, **one, random_state=0)[0, own[i]])
    return np.array(covered)


# ---------------------------------------------------------------------- scores
def test_scores_equal_their_definitions():
    rng = np.random.default_rng(0)
    P, u = rng.dirichlet(np.ones(5), size=20), rng.uniform(size=20)
    for i, p in enumerate(P):
        for k in range(5):
            assert class_scores("lac", P)[i, k] == 1 - p[k]
            assert class_scores("aps", P)[i, k] == pytest.approx(p[p >= p[k]].sum())
            assert class_scores("aps", P, u)[i, k] == pytest.approx(p[p >= p[k]].sum() - u[i] * p[k])


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("K", [2, 4])
def test_sets_contain_all_classes_up_to_the_threshold(score, K):
    ribbon, X, y = fitted(K=K)
    sets = ribbon.conformalize(X, y, score=score).predict_set(X, [0.5, 0.9])
    scores = class_scores(score, ribbon.predict_proba(X))
    own = scores[np.arange(POOL), np.searchsorted(ribbon.classes_, y)]
    thresholds = np.sort(own)[[16 - 1, 28 - 1]]  # ceil(31 level)
    np.testing.assert_array_equal(sets, scores[:, :, None] <= thresholds + 1e-10)
    assert sets.shape == (POOL, K, 2)


# ---------------------------------------------------------------------- guarantee
@pytest.mark.parametrize("settings", [{}, {"score": "aps"}, {"score": "aps", "randomized": True, "random_state": 1}])
def test_coverage_equals_the_guaranteed_share(settings):
    ribbon, X, y = fitted()
    share = each_once(ribbon, X, y, LEVEL, **settings).mean()
    if "randomized" in settings:  # the new row has a chance of its own
        assert abs(share - LEVEL) < 0.2
    else:
        assert share == np.ceil(POOL * LEVEL) / POOL


def test_randomized_sets_have_exact_average_coverage():
    ribbon, X, y = fitted()
    own, covered = np.searchsorted(ribbon.classes_, y), []
    for seed in range(300):
        rng = np.random.RandomState(seed)
        i = rng.randint(POOL)
        others = np.arange(POOL) != i
        ribbon.conformalize(X[others], y[others], score="aps", randomized=True, random_state=rng)
        covered.append(ribbon.predict_set(X[[i]], LEVEL, random_state=rng)[0, own[i]])
    assert abs(np.mean(covered) - 0.7) < 4 * np.sqrt(0.21 / 300)


def test_class_conditional_coverage_is_guaranteed():
    ribbon, X, y = fitted()
    with pytest.warns(CalibrationWarning, match="in its group"):
        covered = each_once(ribbon, X, y, LEVEL, class_conditional=True)
    for label in LABELS:
        own = y == label
        assert covered[own].sum() == min(np.ceil(own.sum() * LEVEL), own.sum())


def test_coverage_is_guaranteed_within_groups_and_under_weights():
    ribbon, X, y = fitted()
    groups = np.array(["a"] * 20 + ["b"] * 10)
    covered = each_once(ribbon, X, y, 0.6, {"groups": groups})
    assert [covered[:20].sum(), covered[20:].sum()] == [12, 6]
    weight = np.random.default_rng(0).uniform(0.5, 2, size=POOL)
    covered = each_once(ribbon, X, y, LEVEL, {"sample_weight": weight})
    assert LEVEL <= weight @ covered / weight.sum() <= LEVEL + 2 / weight.sum()


def test_empty_sets_get_the_most_probable_class_if_disallowed():
    ribbon, X, y = fitted()
    ribbon.conformalize(X, y)
    sets, filled = ribbon.predict_set(X, 0.3), ribbon.predict_set(X, 0.3, allow_empty=False)
    empty = ~sets.any(axis=1)
    assert empty.any()
    np.testing.assert_array_equal(filled[~empty], sets[~empty])
    np.testing.assert_array_equal(ribbon.classes_[filled[empty].argmax(axis=1)], ribbon.predict(X)[empty])
    assert (filled[empty].sum(axis=1) == 1).all()


# ---------------------------------------------------------------------- folds
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_cross_conformal_sets_equal_their_definition():
    X, y = draw(100, 0)
    X_new, cv = draw(20, 1)[0], StratifiedKFold(4)
    ribbon = RibbonClassifier(LogisticRegression(), temperature=1.0)
    tuned = RibbonCV(ribbon, alphas=[1.0], cv=cv, store_folds=True).fit(X, y)
    odder = np.zeros((20, 4))
    for train, test in cv.split(X, y):
        fold = clone(ribbon).fit(X[train], y[train])
        own = 1 - fold.predict_proba(X[test])[np.arange(len(test)), np.searchsorted(fold.classes_, y[test])]
        odder += (own < (1 - fold.predict_proba(X_new))[:, :, None]).sum(axis=2)
    for level in (0.5, 0.9):
        np.testing.assert_array_equal(tuned.predict_set(X_new, level, kind="cv+"), odder < level * 101)
    with pytest.raises(ValueError, match="do not pass them with kind='cv\\+'"):
        tuned.predict_set(X_new, kind="cv+", groups=X_new[:, 0])


# ---------------------------------------------------------------------- interface
def test_calibration_is_pickled_and_discarded_by_refit():
    ribbon, X, y = fitted()
    assert ribbon.conformalize(X, y) is ribbon
    before = ribbon.predict_set(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ribbon)).predict_set(X), before)
    assert not hasattr(clone(ribbon), "conformal_")
    assert not hasattr(ribbon.with_alpha(1.0, temperature=2.0), "conformal_")
    assert not hasattr(ribbon.fit(X, y), "conformal_")
    with pytest.warns(CalibrationWarning, match="those that the model was fitted on"):
        ribbon.conformalize(X, y)


def test_randomized_sets_are_reproducible():
    ribbon, X, y = fitted()
    ribbon.conformalize(X, y, score="aps", randomized=True, random_state=0)
    one, same, other = (ribbon.predict_set(X, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert conformal_quantile(ribbon.conformal_.scores, 0.9) == ribbon.conformal_.thresholds(0.9, 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r, X, y: r.predict_set(X), NotFittedError, "call conformalize"),
        (lambda r, X, y: r.predict_set(X, kind="cv+"), ValueError, "store_folds=True"),
        (lambda r, X, y: r.predict_set(X, kind="jackknife+"), ValueError, "kind must be one of"),
        (lambda r, X, y: r.conformalize(X, y[1:]), ValueError, "inconsistent numbers of samples"),
        (lambda r, X, y: r.conformalize(X, np.where(y == "ash", "elm", y)), ValueError, "elm"),
        (lambda r, X, y: r.conformalize(X, y, score="raps"), ValueError, "score must be one of 'lac', 'aps'"),
        (lambda r, X, y: r.conformalize(X, y, randomized=True), ValueError, "is for score='aps'"),
        (lambda r, X, y: r.conformalize(X, y, groups=y, class_conditional=True), ValueError, "mutually exclusive"),
        (lambda r, X, y: r.conformalize(X, y).predict_set(X, 1.5), ValueError, "strictly between 0 and 1"),
        (lambda r, X, y: r.conformalize(X, y).predict_set(X, groups=y), ValueError, "groups needs calibration rows"),
        (
            lambda r, X, y: r.conformalize(X, y, class_conditional=True).predict_set(X, groups=y),
            ValueError,
            "groups needs calibration rows",
        ),
    ],
)
def test_bad_input_is_refused_with_clear_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(*fitted())
