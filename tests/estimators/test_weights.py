"""Weights that are not frequencies: importance weights and exposures, against statsmodels and exact refits."""

import pickle
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.rows import Moments, weighed
from skribbon._predict.held_out import HeldOut
from skribbon.exceptions import LeverageWarning, RibbonWarning, WeightWarning
from skribbon.inspection import influence_measures, leave_out, predictions
from skribbon.models import as_parametric
from skribbon.models.base import training_rows
from skribbon.noise.scale import standard_error

sm = pytest.importorskip("statsmodels.api")

N = 90
TIGHT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
W = 3 * RNG.exponential(size=N) ** 1.5  # far from a mean of one
Y = X @ [1.0, -0.5] + 2 + RNG.normal(size=N) / np.sqrt(W)
TWO = np.column_stack([Y, Y * 0.5 + RNG.normal(size=N) / np.sqrt(W)])
LABEL = (X[:, 0] + RNG.logistic(size=N) > 0).astype(int)
KIND = np.digitize(X[:, 0] + RNG.logistic(size=N), [-1, 1])
GROUP = np.arange(N) // 3
EXPOSURE = RNG.uniform(0.05, 1.0, N)
CLAIMS = RNG.poisson(EXPOSURE * np.exp(1 + 0.4 * X[:, 0]))
DESIGN = np.column_stack([X, np.ones(N)])
HC = {"correction": "HC0", "alpha": 1 - 1 / N}  # 1 / (n alpha + 1) is then 1 / n
RATES = RibbonRegressor(PoissonRegressor(alpha=0, **TIGHT), weight_type="exposure")


def poisson(y=CLAIMS, **given):
    return sm.GLM(y, DESIGN, family=sm.families.Poisson(), **given)


# ---------------------------------------------------------------------- standard errors
@pytest.mark.parametrize("weight_type", ["importance", "exposure"])
@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3"])
def test_standard_errors_of_least_squares_are_those_of_weighted_least_squares(correction, weight_type):
    ribbon = RibbonRegressor(correction=correction, alpha=1 - 1 / N, weight_type=weight_type).fit(X, Y, W)
    reference = sm.WLS(Y, DESIGN, weights=W).fit(cov_type=correction)
    np.testing.assert_allclose(ribbon.covariance_, reference.cov_params(), rtol=1e-9)
    assert ribbon.n_observations_ == N and ribbon.n_groups_ is None and ribbon.correction_ == correction


def test_rates_with_exposures_have_the_standard_errors_of_counts_with_an_offset():
    ribbon = clone(RATES).set_params(**HC).fit(X, CLAIMS / EXPOSURE, EXPOSURE)
    errors = np.sqrt(np.diag(ribbon.covariance_))
    np.testing.assert_allclose(errors, poisson(offset=np.log(EXPOSURE)).fit(cov_type="HC0").bse, rtol=1e-6)
    rates = poisson(CLAIMS / EXPOSURE, var_weights=EXPOSURE)
    np.testing.assert_allclose(errors, rates.fit(cov_type="HC0").bse, rtol=1e-6)
    assert ribbon.noise_.dispersion_ == pytest.approx(rates.fit(scale="X2").scale)
    as_days = clone(ribbon).fit(X, CLAIMS / EXPOSURE, 365 * EXPOSURE)
    np.testing.assert_allclose(as_days.covariance_, ribbon.covariance_)
    assert as_days.noise_.dispersion_ == pytest.approx(365 * ribbon.noise_.dispersion_)


def test_importance_of_a_classifier_and_of_groups():
    ribbon = RibbonClassifier(LogisticRegression(C=np.inf, **TIGHT), **HC, weight_type="importance").fit(X, LABEL, W)
    binomial = sm.GLM(LABEL, DESIGN, family=sm.families.Binomial(), var_weights=W)
    np.testing.assert_allclose(ribbon.covariance_, binomial.fit(cov_type="HC0").cov_params(), rtol=1e-5)
    grouped = clone(RATES).set_params(correction="HC0", alpha=1 - 3 / N).fit(X, CLAIMS / EXPOSURE, EXPOSURE, GROUP)
    options = {"groups": GROUP, "use_correction": False}
    reference = poisson(offset=np.log(EXPOSURE)).fit(cov_type="cluster", cov_kwds=options)
    np.testing.assert_allclose(grouped.covariance_, reference.cov_params(), rtol=1e-6)
    assert grouped.n_groups_ == N // 3


def curve(params, X):
    return params["top"] * anp.tanh(X[:, 0] * params["slope"]) + params["bottom"]


CURVE = AutogradRegressor(curve, {"top": 1.0, "slope": 0.5, "bottom": 1.0}, l2=0.1, polish=True)
KINDS = {
    "ridge": (RibbonRegressor(Ridge(3.0)), X, Y),
    "sparse": (RibbonRegressor(Ridge(3.0, solver="sparse_cg", tol=1e-12)), sparse.csr_array(X), Y),
    "pipeline": (RibbonRegressor(make_pipeline(StandardScaler(), Ridge(3.0))), X, Y),
    "outputs": (RibbonRegressor(Ridge(3.0)), X, TWO),
    "gamma": (RibbonRegressor(GammaRegressor(alpha=0.1, **TIGHT)), X, 0.1 + CLAIMS / EXPOSURE),
    "logistic": (RibbonClassifier(LogisticRegression(C=0.5, **TIGHT)), X, LABEL),
    "classes": (RibbonClassifier(LogisticRegression(C=0.5, **TIGHT)), X, KIND),
    "curve": (RibbonRegressor(CURVE), X, Y),
    "ggn": (RibbonClassifier(LogisticRegression(C=0.5, **TIGHT), curvature="ggn"), X, KIND),
}


@pytest.mark.parametrize("correction", ["HC0", "HC2", "HC3"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.WeightWarning")
def test_a_row_of_importance_is_a_group_of_its_own(name, correction):
    ribbon, rows, y = KINDS[name]
    w = W / W.mean()  # so that frequencies count N observations too
    ribbon = clone(ribbon).set_params(correction=correction)
    theirs = clone(ribbon).fit(rows, y, w, groups=np.arange(N))
    ours = clone(ribbon).set_params(weight_type="importance").fit(rows, y, w)
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-6, atol=1e-12)
    assert ours.effective_parameters_ == pytest.approx(theirs.effective_parameters_)
    again = clone(ours).fit(rows, y, w, groups=np.arange(N))
    np.testing.assert_allclose(again.covariance_, ours.covariance_)


@pytest.mark.parametrize("weight_type", ["importance", "exposure"])
def test_rows_of_weight_zero_are_left_out(weight_type):
    kept = np.arange(N) % 4 > 0
    settings = {"weight_type": weight_type, "store_loo": True}
    for ribbon, y in ((RibbonRegressor(Ridge(), **settings), TWO), (clone(RATES).set_params(**settings), CLAIMS / 2)):
        whole, part = clone(ribbon).fit(X, y, W * kept), clone(ribbon).fit(X[kept], y[kept], W[kept])
        np.testing.assert_allclose(whole.covariance_, part.covariance_, rtol=1e-7)
        np.testing.assert_allclose(whole.noise_.dispersion_, part.noise_.dispersion_, rtol=1e-7)
        assert whole.n_observations_ == kept.sum() and whole.loo_score_ == pytest.approx(part.loo_score_)


# ---------------------------------------------------------------------- leave-one-out, draws and influence
@pytest.mark.parametrize("weight_type", ["importance", "exposure"])
def test_leave_one_out_drops_the_row_with_its_weight(weight_type):
    ribbon = RibbonRegressor(Ridge(2.0), weight_type=weight_type, store_loo=True).fit(X, Y, W)
    refits = [Ridge(2.0).fit(*(np.delete(a, i, axis=0) for a in (X, Y, W))) for i in range(N)]
    exact = [Y[i] - refit.predict(X[[i]])[0] for i, refit in enumerate(refits)]
    np.testing.assert_allclose(ribbon.loo_residuals_, exact)
    without = leave_out(ribbon, X, Y, [5], X[:3], sample_weight=W)["left_out"]
    np.testing.assert_allclose(without, refits[5].predict(X[:3]))


def test_leave_one_out_of_rates_is_close_to_refits():
    rate = CLAIMS / EXPOSURE
    ribbon = clone(RATES).set_params(store_loo=True).fit(X, rate, EXPOSURE)
    exact = np.empty(N)
    for i in range(N):
        k = np.arange(N) != i
        exact[i] = rate[i] - clone(RATES.estimator).fit(X[k], rate[k], EXPOSURE[k]).predict(X[[i]])[0]
    moved = exact - (rate - ribbon.predict(X))
    assert np.abs(ribbon.loo_residuals_ - exact).max() < 0.1 * np.abs(moved).max()


@pytest.mark.parametrize("weight_type", ["importance", "exposure"])
def test_influence_measures_are_those_of_weighted_least_squares(weight_type):
    ribbon = RibbonRegressor(weight_type=weight_type).fit(X, Y, W)
    table = influence_measures(ribbon, X, Y, W)
    root = np.sqrt(W)
    reference = sm.OLS(root * Y, root[:, None] * DESIGN).fit().get_influence()
    np.testing.assert_allclose(table["leverage"], reference.hat_matrix_diag)
    np.testing.assert_allclose(table["cooks_distance"], reference.cooks_distance[0])
    np.testing.assert_allclose(table["dffits"], reference.dffits[0])
    if weight_type == "exposure":
        np.testing.assert_allclose(table["studentised_residual"], reference.resid_studentized_external)


@pytest.mark.parametrize("predictive", ["pushforward", "newton"])
def test_draws_have_the_covariance_of_the_closed_form(predictive):
    many = {"predictive": predictive, "n_draws": 4000, "random_state": 0, **HC, "weight_type": "importance"}
    drawn = RibbonRegressor(**many).fit(X, Y, W)
    closed = clone(drawn).set_params(predictive="gaussian").fit(X, Y, W)
    ratio = np.diag(drawn.covariance_) / np.diag(closed.covariance_)
    assert np.abs(ratio - 1).max() < (0.08 if predictive == "pushforward" else 0.25)  # a Newton step is wider
    report = drawn.check_linearization(X, Y, W, n_refits=3, random_state=0)
    before = LinearRegression().fit(X, Y, W)
    for drawn, step in zip(report.weights.T, report.newton_shifts.T, strict=True):
        refit = LinearRegression().fit(X, Y, W * drawn)
        np.testing.assert_allclose(step, np.r_[refit.coef_ - before.coef_, refit.intercept_ - before.intercept_])


def test_refits_of_rates_at_drawn_weights():
    rate = CLAIMS / EXPOSURE
    ribbon = clone(RATES).fit(X, rate, EXPOSURE)
    report = ribbon.check_linearization(X, rate, EXPOSURE, n_refits=2, random_state=0)
    for drawn, step in zip(report.weights.T, report.refitted_shifts.T, strict=True):
        refit = clone(RATES.estimator).fit(X, rate, EXPOSURE * drawn)
        np.testing.assert_allclose(step[:2], refit.coef_ - ribbon.coef_, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.WeightWarning")
def test_groups_of_important_rows_are_groups_of_weighted_rows():
    w = W / W.mean()  # so that frequencies count N observations too
    ribbon = RibbonRegressor(predictive="pushforward", random_state=0)
    theirs = clone(ribbon).fit(X, Y, w, groups=GROUP)
    ours = clone(ribbon).set_params(weight_type="importance").fit(X, Y, 5 * w, groups=GROUP)
    np.testing.assert_allclose(ours.ribbon_.shifts, theirs.ribbon_.shifts)
    tables = [influence_measures(one, X, Y, w, GROUP, dfbetas=True) for one in (ours, theirs)]
    np.testing.assert_allclose(*tables)


def test_training_rows_are_recognized_by_their_weights():
    ribbon = RibbonRegressor(weight_type="importance").fit(X, Y, W)
    ribbon.check_linearization(X, Y, 7 * W, n_refits=1)  # the scale does not matter
    with pytest.raises(ValueError, match="90 observations, got 89"):
        ribbon.check_linearization(X, Y, W * (np.arange(N) > 0))
    with pytest.raises(ValueError, match="gradient"):
        influence_measures(ribbon, X, Y)


# ---------------------------------------------------------------------- noise
def test_noise_is_for_a_weight_of_one():
    exposed = RibbonRegressor(noise="dof", weight_type="exposure").fit(X, Y, W)
    reference = sm.WLS(Y, DESIGN, weights=W).fit()
    assert exposed.noise_.dispersion_ == pytest.approx(reference.scale)
    important = RibbonRegressor(noise="dof", weight_type="importance").fit(X, Y, W)
    assert important.noise_.dispersion_ == pytest.approx(reference.scale / W.mean())
    grouped = RibbonRegressor(noise="dof", weight_type="exposure").fit(X, Y, W, GROUP)
    assert grouped.noise_.dispersion_ == pytest.approx(reference.scale, rel=0.1)


def test_correlation_of_outputs_is_that_of_weighted_residuals():
    ribbon = RibbonRegressor(noise="dof", weight_type="exposure").fit(X, TWO, W)
    r = np.sqrt(W)[:, None] * (TWO - LinearRegression().fit(X, TWO, W).predict(X))
    np.testing.assert_allclose(ribbon.noise_.correlation, _correlation(r.T @ r))
    np.testing.assert_allclose(ribbon.noise_.dispersion_, r.T @ r / (N - 3))


def _correlation(S):
    std = np.sqrt(np.diag(S))
    return S / std[:, None] / std


def test_scale_of_the_noise_is_learnt_apart_from_exposures():
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 2, size=(4000, 1))
    w = np.exp(rng.normal(size=4000) + x[:, 0])  # exposures that grow along x
    y = x[:, 0] + np.exp(0.5 * x[:, 0]) * rng.standard_t(6, size=4000) / np.sqrt(1.5 * w)
    ribbon = RibbonRegressor(weight_type="exposure").fit(x, y, w)
    at = np.array([[0.2], [1.0], [1.8]])
    np.testing.assert_allclose(ribbon.predict_std(at, kind="aleatoric"), np.exp(0.5 * at[:, 0]), rtol=0.12)
    assert ribbon.law_.name != "normal"  # which mixed exposures would hide, or make up


def test_unimportant_rows_do_not_shape_the_noise():
    rng = np.random.default_rng(2)
    x, wide = rng.normal(size=(900, 1)), np.arange(900) % 3 == 0
    y = x[:, 0] + np.where(wide, 30.0, 1.0) * rng.standard_t(5, size=900)
    w = np.where(wide, 1e-9, 2.0)
    ribbon = RibbonRegressor(law="student", weight_type="importance")
    whole, part = clone(ribbon).fit(x, y, w), clone(ribbon).fit(x[~wide], y[~wide])
    assert (whole.law_.df, whole.noise_.shrinkage_) == (part.law_.df, part.noise_.shrinkage_)
    assert whole.law_.variance == pytest.approx(part.law_.variance, rel=0.02)


def test_separation_is_judged_by_weighted_rows():
    logistic = LogisticRegression(C=1.0).fit(X, LABEL, W)
    rows = training_rows(as_parametric(logistic, LABEL, W), X, LABEL, W)
    ratios = []
    for weight_type in ("frequency", "importance"):
        observed, expected = Moments.from_rows(weighed(rows, weight_type), None).squared_scores
        ratios.append(observed / expected)
    assert ratios[1] == pytest.approx(ratios[0])


# ---------------------------------------------------------------------- RibbonCV
def test_scores_of_important_rows_have_the_standard_error_of_a_weighted_mean():
    rng = np.random.default_rng(3)
    w, gain = 1000 * rng.exponential(size=5000) ** 2, rng.normal(size=5000)
    record = HeldOut(None, np.zeros((5000, 1)), gain, w).weighed("importance")
    assert standard_error(gain, record.weight) == pytest.approx(np.sqrt(w @ w) / w.sum(), rel=0.1)


@pytest.mark.parametrize("y", [Y, TWO], ids=["one", "outputs"])
def test_ribbon_cv_scores_observations_of_their_exposure(y):
    ribbon = RibbonRegressor(noise=1.0, law="normal", weight_type="exposure")
    tuned = RibbonCV(ribbon, alphas=[1.0], cv=KFold(3)).fit(X, y, W)
    for k, (train, test) in enumerate(KFold(3).split(X)):
        fold = clone(ribbon).fit(X[train], y[train], W[train])
        variance = fold.predict_std(X[test], kind="epistemic") ** 2 + (1 / W[test]).reshape(-1, *[1] * (y.ndim - 1))
        nll = np.log(2 * np.pi * variance) / 2 + (y[test] - fold.predict(X[test])) ** 2 / (2 * variance)
        assert tuned.cv_results_[f"split{k}_test_nll"][0] == pytest.approx(nll.mean())
    loo = RibbonCV(ribbon, alphas=[1.0], cv="loo").fit(X, Y, W)
    variance = loo.predict_std(X, kind="epistemic") ** 2 + 1 / W
    refits = [LinearRegression().fit(*(np.delete(a, i, axis=0) for a in (X, Y, W))) for i in range(N)]
    residual = Y - [refit.predict(X[[i]])[0] for i, refit in enumerate(refits)]
    nll = np.log(2 * np.pi * variance) / 2 + residual**2 / (2 * variance)
    assert loo.cv_results_["mean_test_nll"][0] == pytest.approx(nll.mean())


def test_ribbon_cv_weighs_scores_by_importance():
    known = {"weight_type": "importance", "temperature": 1.0, "averaging": "exact"}
    ribbon, folds = RibbonClassifier(LogisticRegression(), **known), list(KFold(3).split(X))
    tuned = RibbonCV(ribbon, alphas=[1.0], cv=KFold(3), store_folds=True).fit(X, LABEL, W)
    shared = RibbonCV(ribbon, alphas=[1.0], cv=KFold(3)).fit(X, LABEL, W)  # one ribbon, of all rows
    covariance = clone(ribbon).fit(X, LABEL, W).covariance_
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    for k, (train, test) in enumerate(folds):
        p = clone(ribbon).fit(X[train], LABEL[train], W[train]).predict_proba(X[test])
        score = np.average(-np.log(p[np.arange(len(test)), LABEL[test]]), weights=W[test])
        assert tuned.cv_results_[f"split{k}_test_nll"][0] == pytest.approx(score)
        refit = LogisticRegression().fit(X[train], LABEL[train], W[train])
        std = np.sqrt(np.einsum("nd,de,ne->n", DESIGN[test], covariance, DESIGN[test]))
        p = expit(refit.decision_function(X[test])[:, None] + std[:, None] * z) @ weight / weight.sum()
        score = np.average(-np.log(np.where(LABEL[test] == 1, p, 1 - p)), weights=W[test])
        assert shared.cv_results_[f"split{k}_test_nll"][0] == pytest.approx(score)


def test_pooled_noise_weighs_squares_by_exposure():
    pooled = RibbonCV(RibbonRegressor(noise="cv", weight_type="exposure"), cv=KFold(3)).fit(X, Y, W)
    folds = [(LinearRegression().fit(X[train], Y[train], W[train]), test) for train, test in KFold(3).split(X)]
    squared = np.concatenate([W[test] * (Y[test] - fold.predict(X[test])) ** 2 for fold, test in folds])
    assert pooled.estimator_.noise_.dispersion_ == pytest.approx(squared.mean())
    both = clone(pooled).fit(X, TWO, W).estimator_.noise_.dispersion_
    folds = [(LinearRegression().fit(X[train], TWO[train], W[train]), test) for train, test in KFold(3).split(X)]
    z = np.concatenate([np.sqrt(W[test])[:, None] * (TWO[test] - fold.predict(X[test])) for fold, test in folds])
    np.testing.assert_allclose(both, z.T @ z / N)


# ---------------------------------------------------------------------- warnings and parameters
def test_fractional_frequencies_raise_one_warning_per_fit():
    plain = RibbonRegressor(Ridge())
    for estimator in (plain, RibbonCV(plain, cv=3), RibbonCV(plain, cv="loo")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RibbonWarning)
            clone(estimator).fit(X, Y, W)
        assert [one.category for one in caught] == [WeightWarning]
        assert "weight_type='importance'" in str(caught[0].message)
        assert "folds" not in str(caught[0].message)
    with pytest.warns(WeightWarning, match="0.09 observations, not of 90 rows") as caught:
        plain.fit(X, Y, np.full(N, 1e-3))  # small sums of weights are the cause of large leverages
    assert LeverageWarning not in [one.category for one in caught]
    with pytest.warns(WeightWarning, match=r"inverse propensities\. See: "):  # classifiers refuse 'exposure'
        RibbonClassifier().fit(X, LABEL, W)


@pytest.mark.parametrize("weight", [np.ones(N), np.arange(N) % 3, 0.1 * np.full(N, 30)], ids=["ones", "counts", "sums"])
@pytest.mark.filterwarnings("error::skribbon.exceptions.RibbonWarning")
def test_whole_frequencies_raise_no_warning(weight):
    RibbonRegressor(Ridge()).fit(X, Y, weight)
    for weight_type in ("importance", "exposure"):
        RibbonRegressor(Ridge(), weight_type=weight_type).fit(X, Y, W)


def test_weight_type_is_checked_and_kept():
    with pytest.raises(ValueError, match=r"weight_type must be .*'exposure'"):
        RibbonRegressor(weight_type="probability").fit(X, Y)
    with pytest.raises(ValueError, match="weight_type must be"):
        RibbonClassifier(weight_type="exposure").fit(X, LABEL)
    ribbon = clone(RibbonRegressor(weight_type="importance"))
    loaded = pickle.loads(pickle.dumps(ribbon.fit(X, Y, W)))
    assert loaded.get_params()["weight_type"] == "importance"
    np.testing.assert_array_equal(loaded.covariance_, ribbon.covariance_)


@pytest.mark.parametrize("aggregate", ["sum", "mean"])
def test_observed_totals_of_exposures_do_not_depend_on_their_unit(aggregate):
    rng = np.random.default_rng(0)
    x, years = rng.normal(size=(1000, 1)), rng.uniform(0.1, 1, 1000)
    counts, base = rng.poisson(years * np.exp(0.5 * x[:, 0])), PoissonRegressor(alpha=0, solver="newton-cholesky")
    errors = []
    for unit in (1.0, 12.0):
        w = unit * years
        ribbon = RibbonRegressor(base, weight_type="exposure").fit(x, counts / w, sample_weight=w)
        table = predictions(ribbon, x, weights=w, aggregate=aggregate, kind="prediction")
        errors.append(table["std_error"].item() * (1 if aggregate == "sum" else unit))
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)
    if aggregate == "sum":  # noise of a Poisson total, and the uncertainty of its mean, which is of equal size here
        assert errors[0] == pytest.approx(np.sqrt(2 * counts.sum()), rel=0.1)


def test_rows_of_weight_zero_do_not_change_tuned_intervals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.lognormal(size=200) * np.exp(X[:, 0] / 2)
    weight = np.repeat([1.0, 0.0], 100)
    with_zeros = RibbonCV(LinearRegression()).fit(X, y, sample_weight=weight)
    without = RibbonCV(LinearRegression()).fit(X[:100], y[:100])
    np.testing.assert_allclose(with_zeros.predict_interval(X), without.predict_interval(X), rtol=1e-9)


@pytest.mark.parametrize("weight_type", ["frequency", "importance"])
def test_large_whole_weights_warn_if_they_count_as_frequencies(weight_type):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    weight = rng.integers(10_000, 400_000, 60)
    ribbon = RibbonRegressor(Ridge(), weight_type=weight_type)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ribbon.fit(X, X[:, 0] + rng.normal(size=60), sample_weight=weight)
    said = [str(w.message) for w in caught if issubclass(w.category, WeightWarning)]
    assert len(said) == (weight_type == "frequency")
    assert not said or "on average, but counts as frequencies" in said[0]


@pytest.mark.parametrize("change", ["order", "scale"])
def test_order_of_rows_and_scale_of_importance_weights_do_not_move_intervals(change):
    for seed in range(6):  # sums of shares of n are n but for rounding, in either direction
        rng = np.random.default_rng(seed)
        X, weight = rng.normal(size=(60, 2)), rng.exponential(size=60) + 0.1
        y = X[:, 0] + rng.lognormal(size=60)
        order, scale = (rng.permutation(60), 1.0) if change == "order" else (np.arange(60), 10.0)
        fits = [RibbonRegressor(weight_type="importance").fit(X, y, weight)]
        fits += [RibbonRegressor(weight_type="importance").fit(X[order], y[order], scale * weight[order])]
        assert {type(ribbon.law_).__name__ for ribbon in fits} == {"EmpiricalLaw"}
        one, other = (ribbon.predict_interval(np.zeros((1, 2))) for ribbon in fits)
        np.testing.assert_allclose(one, other, rtol=1e-9)
