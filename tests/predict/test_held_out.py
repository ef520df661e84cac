"""Records of held-out predictions, against refits without the rows."""

import pickle
from functools import partial

import autograd.numpy as anp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_linnerud
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import trained

from skribbon import AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._estimators.folds import Fold, Split, fit_folds
from skribbon._estimators.ribbon import latent_at
from skribbon._predict.classes import Scaling
from skribbon._predict.held_out import HeldOut, HeldOutSummary
from skribbon.noise.fit import Standardized, leave_one_out, pooled_noise

X, y = load_diabetes(return_X_y=True)
X, y = X[:120], y[:120]
GROUP = np.arange(len(y)) // 3


def record_of(ribbon, X, y, groups=None):
    fitted, training = trained(ribbon, X, y, None, groups)
    model = fitted["model_"]
    return leave_one_out(training.outputs[0], partial(latent_at, model, fitted["ribbon_"]), model.loss)


def test_leave_one_out_record_equals_refits_without_each_row():
    record = record_of(RibbonRegressor(LinearRegression()), X, y)
    refits = [
        LinearRegression().fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])[0] for i in range(len(y))
    ]
    np.testing.assert_allclose(record.f[:, 0], refits, rtol=1e-9)
    np.testing.assert_allclose(record.residuals, y - refits, rtol=1e-8, atol=1e-8)
    fitted = y - LinearRegression().fit(X, y).predict(X)
    np.testing.assert_allclose(record.squared, fitted * record.residuals, rtol=1e-8)  # unbiased for the noise alone
    assert (record.origin, record.n_fits, len(record)) == ("loo", 0, len(y))


def test_leave_one_out_record_of_groups_equals_refits_without_each_group():
    record = record_of(RibbonRegressor(LinearRegression()), X, y, GROUP)
    for g in (0, 7):
        refit = LinearRegression().fit(X[g != GROUP], y[g != GROUP])
        np.testing.assert_allclose(record.f[g == GROUP, 0], refit.predict(X[g == GROUP]), rtol=1e-9)
    np.testing.assert_array_equal(record.group, GROUP)


def test_leave_one_out_record_has_the_epistemic_covariance_of_the_fit():
    record = record_of(RibbonRegressor(Ridge()), X, y)
    ribbon = RibbonRegressor(Ridge()).fit(X, y)
    np.testing.assert_allclose(
        np.sqrt(record.distribution.latent.covariance[:, 0, 0]), ribbon.predict_std(X, kind="epistemic"), rtol=1e-10
    )


@pytest.mark.parametrize("cv", [KFold(4), GroupKFold(4)], ids=["rows", "groups"])
def test_records_of_folds_equal_refits_without_the_fold(cv):
    base, positions = make_pipeline(StandardScaler(), Ridge()), list(cv.split(X, y, GROUP))
    splits = [Split.from_rows(str(k), X, y, *both, None, {}) for k, both in enumerate(positions)]
    folds, notes = fit_folds(RibbonCV(), RibbonRegressor(base), len(splits), splits, None)
    expected = cross_val_predict(base, X, y, cv=cv, groups=GROUP)
    for fold, (_, test) in zip(folds, positions, strict=True):
        np.testing.assert_allclose(fold.held_out.f[:, 0], expected[test])
        np.testing.assert_array_equal(fold.held_out.y, y[test])
    assert not notes


def test_record_at_another_alpha_equals_the_ribbon_at_that_alpha():
    ribbon = RibbonRegressor(Ridge()).fit(X[:80], y[:80])
    record = Fold.from_rows(ribbon, X[80:], y[80:]).held_out.at_alpha(0.05)
    expected = ribbon.with_alpha(0.05).predict_distribution(X[80:])
    np.testing.assert_allclose(record.distribution.logpdf(y[80:]), expected.logpdf(y[80:]), rtol=1e-11)


def test_record_of_a_classifier_at_another_temperature_equals_the_ribbon_at_that_temperature():
    Z, k = load_breast_cancer(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    ribbon = RibbonClassifier(LogisticRegression()).fit(Z[:300], k[:300])
    record = Fold.from_rows(ribbon, Z[300:], k[300:]).held_out.with_scaling(Scaling(2.0))
    expected = ribbon.with_alpha(1.0, temperature=2.0)
    np.testing.assert_allclose(record.distribution.mean(), expected.predict_proba(Z[300:]), rtol=1e-12)
    np.testing.assert_array_equal(record.f, record.distribution.latent.f)
    assert record.of_classes
    np.testing.assert_array_equal(record.y, k[300:])


def test_records_of_outputs_equal_those_of_single_fits():
    X, Y = load_linnerud(return_X_y=True)
    ribbon = RibbonRegressor(LinearRegression(), noise="dof").fit(X[:15], Y[:15])
    joint = Fold.from_rows(ribbon, X[15:], Y[15:]).held_out
    for j, own in enumerate(joint.outputs):
        single = RibbonRegressor(LinearRegression(), noise="dof").fit(X[:15], Y[:15, j])
        alone = Fold.from_rows(single, X[15:], Y[15:, j]).held_out
        np.testing.assert_allclose(own.residuals, alone.residuals)
        np.testing.assert_allclose(own.distribution.interval(0.9), alone.distribution.interval(0.9))


def test_pooled_noise_is_the_mean_square_of_all_held_out_residuals():
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    ribbon = RibbonRegressor(Ridge(), noise="dof").fit(X[:60], y[:60])
    halves = slice(60, 90), slice(90, 120)
    records = [Fold.from_rows(ribbon, X[rows], y[rows], weight[rows]).held_out for rows in halves]
    expected = np.average((y[60:] - ribbon.predict(X[60:])) ** 2, weights=weight[60:])
    assert pooled_noise(records).dispersion_ == pytest.approx(expected)


def test_dispersion_of_a_record_follows_the_noise_that_the_model_predicts():
    def f(params, X):
        return anp.stack([X @ params["w"] + params["b"], X[:, 0] * params["s"] + params["c"]], axis=1)

    start = {"w": np.zeros(10), "b": 0.0, "s": 0.0, "c": 0.0}
    base = AutogradRegressor(f, start, loss="gaussian_nll", l2=0.01, max_iter=500)
    ribbon = RibbonRegressor(base, noise="dof").fit(20 * X[:80], y[:80] / 50)
    record = Fold.from_rows(ribbon, 20 * X[80:], y[80:] / 50).held_out
    again = record.with_dispersion(ribbon.noise_.dispersion_).distribution.dispersion
    np.testing.assert_allclose(again, record.distribution.dispersion, rtol=1e-12)
    assert np.ptp(again) > 0


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        (RibbonCV(Ridge(), cv=4), HeldOutSummary("folds", 120, 4)),
        (RibbonCV(Ridge(), cv="loo"), HeldOutSummary("loo", 120, 0)),
        (RibbonCV(FrozenEstimator(RibbonRegressor(Ridge()).fit(X, y))), HeldOutSummary("calibration", 120, 0)),
        (RibbonRegressor(Ridge()), HeldOutSummary("loo", 120, 0)),
        (RibbonRegressor(Ridge(), noise="dof"), None),  # nothing is learnt from held-out rows
    ],
)
def test_held_out_attribute_names_origin_rows_and_fits(tuned, expected):
    assert clone(tuned).fit(X, y).held_out_ == expected


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        (RibbonClassifier(), HeldOutSummary("loo", 120, 0)),
        (RibbonClassifier(held_out=4), HeldOutSummary("folds", 120, 4)),
        (RibbonClassifier(held_out=KFold(3)), HeldOutSummary("folds", 120, 3)),
        (RibbonClassifier(temperature=1.0), None),  # nothing is learnt from held-out rows
        (RibbonCV(RibbonClassifier(), cv=4), HeldOutSummary("folds", 120, 4)),
        (RibbonCV(RibbonClassifier(), cv=4, store_folds=True), HeldOutSummary("folds", 120, 4)),
        (RibbonCV(RibbonClassifier(), cv="loo"), HeldOutSummary("loo", 120, 0)),
        (RibbonCV(FrozenEstimator(RibbonClassifier().fit(X, y > 150))), HeldOutSummary("calibration", 120, 0)),
    ],
)
def test_held_out_attribute_of_classifiers_names_origin_rows_and_fits(tuned, expected):
    assert clone(tuned).fit(X, y > 150).held_out_ == expected


def test_summary_prints_as_a_sentence():
    assert str(HeldOutSummary("folds", 120, 4)) == "120 rows, each by a refit without its fold (4 refits)"


def test_record_is_kept_only_if_store_loo_asks_for_it(monkeypatch):
    monkeypatch.setattr(HeldOut, "__reduce__", lambda self: pytest.fail("a HeldOut record was stored"))
    for estimator in (RibbonRegressor(Ridge()), RibbonCV(Ridge(), cv=3, store_folds=True)):
        pickle.dumps(clone(estimator).fit(X, y))
    for estimator in (RibbonClassifier(), RibbonClassifier(held_out=3), RibbonCV(RibbonClassifier(), cv=3)):
        pickle.dumps(clone(estimator).fit(X, y > 150))
    with pytest.raises(pytest.fail.Exception, match="a HeldOut record was stored"):  # so the test notices one
        pickle.dumps(RibbonRegressor(Ridge(), store_loo=True).fit(X, y))


@pytest.mark.parametrize("scoring", ["nll", "crps"])
def test_ribbon_cv_does_not_depend_on_n_jobs(scoring):
    one, two = (RibbonCV(Ridge(), scoring=scoring, cv=3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert one.alpha_ == two.alpha_
    for name, values in one.cv_results_.items():
        np.testing.assert_array_equal(values, two.cv_results_[name])
    np.testing.assert_array_equal(one.predict_interval(X), two.predict_interval(X))


def test_rows_of_high_leverage_do_not_count_for_the_distribution_of_the_noise():
    far = np.zeros((40, 1))
    far[0] = 1e3  # determines its own prediction, so that its residual is no noise
    rng = np.random.default_rng(0)
    target = rng.normal(size=40)
    record = record_of(RibbonRegressor(LinearRegression()), far, target)
    assert record.leverage[0] > 0.5 > record.leverage[1:].max()
    seen = Standardized.from_held_out([record.with_dispersion(1.0)])
    assert len(seen.z) == 39


def test_cross_conformal_scores_count_by_their_weights():
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    fold = np.arange(len(y)) % 4
    weighted = RibbonCV(Ridge(), cv=PredefinedSplit(fold), store_folds=True).fit(X, y, sample_weight=weight)
    repeated = RibbonCV(Ridge(), cv=PredefinedSplit(fold[rows]), store_folds=True).fit(X[rows], y[rows])
    ours, theirs = (one.predict_interval(X[:20], kind="cv+") for one in (weighted, repeated))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_with_alpha_rescales_ribbon_and_leave_one_out_record_from_their_own_alpha():
    fits = {a: RibbonRegressor(Ridge(), alpha=a, noise=3000.0, store_loo=True).fit(X, y) for a in (0.05, 2.0)}
    for moved in (fits[0.05].with_alpha(2.0), fits[0.05].with_alpha(7.0).with_alpha(2.0)):
        np.testing.assert_allclose(moved.predict_interval(X), fits[2.0].predict_interval(X), rtol=1e-12)
        np.testing.assert_allclose(moved.covariance_, fits[2.0].covariance_, rtol=1e-10)
        assert moved.loo_score_ == pytest.approx(fits[2.0].loo_score_, rel=1e-12)
    assert fits[0.05].loo_score_ != pytest.approx(fits[2.0].loo_score_, rel=1e-4)


def test_missing_joint_draws_name_what_has_them():
    ribbon = RibbonRegressor(Ridge(), noise=3000.0).fit(X, y)
    for distribution in (ribbon.predict_distribution(X).scaled(1.0), record_of(ribbon, X, y).distribution):
        with pytest.raises(ValueError, match=r"no joint draws; use predict_samples, after with_alpha"):
            distribution.sample(2)
    assert ribbon.with_alpha(2.0).predict_samples(X, 2).shape == (2, len(y))


def test_leave_one_out_scores_count_rows_by_their_weights():
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    rows, tuned = np.repeat(np.arange(len(y)), weight), RibbonCV(RibbonRegressor(Ridge(), noise=3000.0), cv="loo")
    weighted = clone(tuned).fit(X, y, sample_weight=weight).cv_results_
    repeated = clone(tuned).fit(X[rows], y[rows]).cv_results_
    for name in ("nll", "coverage", "width"):
        np.testing.assert_allclose(weighted[f"mean_test_{name}"], repeated[f"mean_test_{name}"], rtol=1e-9)
