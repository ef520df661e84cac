"""Noise models: estimates, shrinkage to a constant, and custom models."""

import numpy as np
import pytest
import scoringrules
import statsmodels.api as sm
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    TweedieRegressor,
)

from skribbon import AutogradRegressor, RibbonCV, RibbonRegressor
from skribbon._laws.noise_distributions import LocationFamily, StudentLaw
from skribbon.metrics import interval_coverage_score, neg_nll_scorer
from skribbon.models import StudentT, WithOffset
from skribbon.models.architectures import mlp
from skribbon.noise import ConstantNoise, HeteroskedasticNoise, Noise
from skribbon.noise.scale import LogLinearScale, evidence


def simulated(n, noise, seed=0):
    """A linear mean, and noise that may depend on the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, X @ [1.0, -2.0, 0.5] + noise(X[:, 0], rng)


def growing(x, rng):
    return np.exp(0.8 * x) * rng.standard_normal(len(x))


def constant(x, rng):
    return 0.7 * rng.standard_normal(len(x))


def heavy(x, rng):
    return 0.7 * rng.standard_t(4.5, size=len(x))


def test_heteroskedastic_noise_is_detected():
    X, y = simulated(2000, growing)
    X_test, y_test = simulated(4000, growing, seed=1)
    flat, shaped = (RibbonRegressor(noise=noise).fit(X, y) for noise in ("dof", "heteroskedastic"))
    assert shaped.noise_.shrinkage_ > 0.5
    estimated, true = shaped.predict_std(X_test, kind="aleatoric"), np.exp(0.8 * X_test[:, 0])
    assert np.corrcoef(np.log(estimated), np.log(true))[0, 1] > 0.95
    assert neg_nll_scorer(shaped, X_test, y_test) > neg_nll_scorer(flat, X_test, y_test) + 0.2
    quiet = X_test[:, 0] < -1
    coverage = [interval_coverage_score(y_test[quiet], r.predict_interval(X_test[quiet])) for r in (flat, shaped)]
    assert coverage[0] > 0.97
    assert abs(coverage[1] - 0.9) < abs(coverage[0] - 0.9) / 2


@pytest.mark.parametrize("n", [60, 400])
def test_constant_noise_stays_nearly_constant(n):
    losses = []
    for seed in range(4):
        X, y = simulated(n, constant, seed)
        X_test, y_test = simulated(4000, constant, seed=100 + seed)
        flat, shaped = (RibbonRegressor(noise=noise).fit(X, y) for noise in ("dof", "heteroskedastic"))
        losses.append(neg_nll_scorer(flat, X_test, y_test) - neg_nll_scorer(shaped, X_test, y_test))
    assert np.mean(losses) < 0.02


def test_samples_have_heavy_tails():
    X, y = simulated(2000, heavy)
    ribbon = RibbonRegressor(law=StudentLaw(5.0)).fit(X, y)
    draws = ribbon.predict_samples(X[:20], n_samples=20_000, random_state=0)
    lower, upper = ribbon.predict_interval(X[:20], 0.9).T
    covered = ((lower <= draws) & (draws <= upper)).mean(axis=0)
    assert np.abs(covered - 0.9).max() < 4 * np.sqrt(0.09 / 20_000)
    np.testing.assert_allclose(draws.std(axis=0), ribbon.predict_std(X[:20]), rtol=0.06)


def test_custom_and_invalid_scale_regressors():
    X, y = simulated(500, growing)
    own = HeteroskedasticNoise(GammaRegressor(alpha=1e-3))  # log-linear in x: the truth here
    ribbon = RibbonRegressor(noise=own).fit(X, y)
    assert ribbon.noise_.shrinkage_ > 0.7
    assert ribbon.noise_ is not own and not hasattr(own, "dispersion_")  # cloned, as scikit-learn does
    with pytest.raises(ValueError, match="not positive"):
        RibbonRegressor(noise=HeteroskedasticNoise(LinearRegression())).fit(X, y)


def test_constant_target_has_zero_noise():
    X, _ = simulated(50, constant)
    ribbon = RibbonRegressor(noise="heteroskedastic").fit(X, np.ones(50))
    np.testing.assert_allclose(ribbon.predict_interval(X), 1.0)


class RowNoise(Noise):
    """Noise variance read from a column, as an instrument reports it."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, training):
        assert training.leverages.shape == training.squared_residuals.shape == training.rows.y.shape
        self.dispersion_ = 1.0
        return self

    def predict(self, X):
        return X[:, self.column] ** 2


def test_custom_noise_model():
    X, y = simulated(100, constant)
    ribbon = RibbonRegressor(noise=RowNoise(column=1)).fit(X, y)
    np.testing.assert_allclose(ribbon.predict_std(X, kind="aleatoric"), np.abs(X[:, 1]))
    assert clone(RibbonRegressor(noise=RowNoise(2))).get_params()["noise__column"] == 2


def test_incomplete_noise_model_error_names_the_missing_method():
    X, y = simulated(20, constant)
    with pytest.raises(TypeError, match="must define fit"):
        RibbonRegressor(noise=Noise()).fit(X, y)
    with pytest.raises(TypeError, match="must define predict"):
        Noise().predict(X)


def test_numeric_noise_is_constant_for_glms():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(np.exp(X[:, 0]))
    ribbon = RibbonRegressor(PoissonRegressor(alpha=1e-3), noise=ConstantNoise(2.0)).fit(X, y)
    np.testing.assert_allclose(ribbon.predict_std(X, kind="aleatoric") ** 2, 2 * ribbon.predict(X), rtol=1e-10)


@pytest.mark.parametrize("regressor", [None, GammaRegressor(alpha=0.01)], ids=["dense only", "takes sparse"])
def test_sparse_columns_give_the_noise_of_dense_columns(regressor):
    X, y = simulated(600, growing)
    noise = HeteroskedasticNoise(regressor)
    dense = RibbonRegressor(Ridge(solver="sparse_cg", tol=1e-12), noise=noise).fit(X, y)
    thin = clone(dense).fit(sparse.csr_matrix(X), y)
    assert thin.noise_.shrinkage_ > 0
    np.testing.assert_allclose(thin.predict_std(sparse.csr_matrix(X)), dense.predict_std(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("inside", "law"),
    [
        (LinearRegression(), StudentLaw(4.5)),
        (AutogradRegressor(mlp(()), loss=StudentT(df=4.5), polish=True), "normal"),
    ],
    ids=["of the noise", "of the loss"],
)
def test_heavy_tails_with_log_target_have_finite_std(inside, law):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(500, 1))
    base = TransformedTargetRegressor(inside, func=np.log, inverse_func=np.exp)
    ribbon = RibbonRegressor(base, law=law, noise="dof").fit(X, np.exp(X[:, 0] + 0.3 * rng.standard_t(4.5, size=500)))
    mu, std = np.log(ribbon.predict(X)), np.sqrt(ribbon.noise_.predict(X))
    levels = np.clip((np.arange(100_000) + 0.5) / 100_000, 0.001, 0.999)  # noise ends there: exp of t has no mean
    reference = np.exp(mu) * np.exp(std * np.sqrt(2.5 / 4.5) * stats.t(4.5).ppf(levels)).std()
    np.testing.assert_allclose(ribbon.predict_std(X, kind="aleatoric"), reference, rtol=3e-3)


# ---------------------------------------------------------------------- Student's t distribution
def test_student_law_equals_scipy_and_scoringrules():
    y = np.linspace(-4, 4, 9)
    law, scale = LocationFamily(2.0, StudentLaw(6.0)).conditional(np.full(9, 0.5)), np.sqrt(2.0 * 4 / 6)
    reference = stats.t(6, 0.5, scale)
    np.testing.assert_allclose(law.logpdf(y), reference.logpdf(y), rtol=1e-12)
    np.testing.assert_allclose(law.cdf(y), reference.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(law.ppf(0.95), reference.ppf(0.95), rtol=1e-12)
    np.testing.assert_allclose(law.crps(y), scoringrules.crps_t(y, 6.0, 0.5, scale), rtol=1e-10)
    np.testing.assert_allclose(law.var(), reference.var(), rtol=1e-12)


def test_student_noise_around_a_normal_prediction_keeps_variance_and_kurtosis():
    law = LocationFamily(2.0, StudentLaw(7.0)).marginal(np.zeros(1), 1.0)
    kurtosis = stats.t.stats(7.0, moments="k") * (2 / 3) ** 2  # excess kurtosis adds as fourth cumulants do
    assert law.var()[0] == pytest.approx(3.0, rel=1e-14)
    assert stats.t.stats(float(law.parameters[2][0]), moments="k") == pytest.approx(kurtosis, rel=1e-12)
    rng = np.random.default_rng(0)
    draws = rng.standard_normal(400_000) + np.sqrt(2 * 5 / 7) * rng.standard_t(7.0, size=400_000)
    for q in (0.75, 0.9, 0.95, 0.99):
        assert abs(np.mean(draws <= law.ppf(q)[0]) - q) < 0.004  # matched moments, not the exact convolution


def test_student_noise_limits_are_degenerate_and_normal():
    point = LocationFamily(0.0, StudentLaw(5.0)).marginal(np.ones(2), 0.0)
    np.testing.assert_allclose(point.ppf(0.9), 1.0)
    wide = LocationFamily(1e-6, StudentLaw(5.0)).marginal(np.zeros(1), 1.0)
    assert wide.ppf(0.975)[0] == pytest.approx(stats.norm.ppf(0.975), rel=1e-4)


def test_noise_of_a_single_row_is_refused():
    X, y = simulated(1, constant)
    with pytest.raises(ValueError, match="n_samples=1"):
        RibbonRegressor(LinearRegression(fit_intercept=False), noise="train").fit(X, y)


# ---------------------------------------------------------------------- parts of heteroskedastic noise
def test_squared_residuals_are_divided_by_one_minus_leverage():
    X, y = simulated(60, growing)
    reference = sm.OLS(y, np.column_stack([X, np.ones(60)])).fit()
    squared = reference.resid**2 / (1 - reference.get_influence().hat_matrix_diag)
    noise = RibbonRegressor(noise="heteroskedastic").fit(X, y).noise_
    assert noise.shrinkage_ > 0
    assert noise.dispersion_ == pytest.approx(np.mean(squared), rel=1e-8)
    relative = np.minimum(squared / squared.mean(), 10.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    penalised = GammaRegressor(alpha=1 / 60, tol=1e-10, solver="newton-cholesky").fit(Z, relative)
    np.testing.assert_allclose(noise.factors_[0][0].predict(X), penalised.predict(Z), rtol=1e-5)


def test_log_linear_scale_leave_one_out_is_close_to_refits():
    X, y = simulated(80, growing)
    squared, weight = y**2 / np.mean(y**2), np.ones(80)
    scale, exact = LogLinearScale().fit(X, squared, weight), []
    for i in range(80):
        rest = np.delete(np.arange(80), i)
        exact.append(LogLinearScale().fit(X[rest], squared[rest], weight[rest]).predict(X[i : i + 1])[0])
    error = np.log(scale.unseen_) - np.log(exact)
    assert np.sqrt(np.mean(error**2)) < 0.2 * np.sqrt(np.mean((np.log(scale.predict(X)) - np.log(exact)) ** 2))


def test_log_linear_scale_weights_equal_repeated_rows():
    X, y = simulated(60, growing)
    weight = np.random.default_rng(1).integers(1, 4, 60)
    weighted = LogLinearScale().fit(X, y**2, weight.astype(float))
    repeated = LogLinearScale().fit(np.repeat(X, weight, axis=0), np.repeat(y**2, weight), np.ones(weight.sum()))
    np.testing.assert_allclose(weighted.unseen_, repeated.unseen_[np.cumsum(weight) - 1], rtol=1e-6)


def test_log_linear_scale_leaves_out_all_copies_of_a_row():
    X, y = simulated(80, growing)
    squared, weight = y**2 / np.mean(y**2), np.random.default_rng(1).integers(1, 4, 80).astype(float)
    scale, exact = LogLinearScale().fit(X, squared, weight, weight), []
    for i in range(80):
        rest = np.delete(np.arange(80), i)
        exact.append(LogLinearScale().fit(X[rest], squared[rest], weight[rest]).predict(X[i : i + 1])[0])
    error = np.log(scale.unseen_) - np.log(exact)
    assert np.sqrt(np.mean(error**2)) < 0.3 * np.sqrt(np.mean((np.log(scale.predict(X)) - np.log(exact)) ** 2))


@pytest.mark.parametrize("n", [300, 900], ids=["log-linear", "trees"])
def test_copies_of_rows_do_not_make_constant_noise_vary(n):
    X, y = simulated(n, constant)
    some = np.random.default_rng(1).integers(0, n, n)
    for rows in (some, np.r_[:n, :n]):
        std = np.broadcast_to(RibbonRegressor().fit(X[rows], y[rows]).predict_std(X, kind="aleatoric"), n)
        assert std.max() < 1.25 * std.min()


@pytest.mark.parametrize("noise", [constant, growing])
def test_weights_give_the_noise_and_law_of_repeated_rows(noise):
    X, y = simulated(500, noise)
    weight = np.random.default_rng(1).integers(1, 4, 500)
    weighted = RibbonRegressor().fit(X, y, sample_weight=weight)
    repeated = RibbonRegressor().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.law_.name == repeated.law_.name
    np.testing.assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), rtol=1e-5, atol=1e-5)


def test_noise_does_not_depend_on_the_order_of_the_rows(monkeypatch):
    monkeypatch.setattr("skribbon._core.thresholds.NOISE_ROWS", 600)
    X, y = simulated(1500, lambda x, rng: np.where(np.abs(x) < 1, 0.3, 1.0) * rng.laplace(size=len(x)))
    order = np.random.default_rng(1).permutation(1500)
    ribbon, again = RibbonRegressor().fit(X, y), RibbonRegressor().fit(X[order], y[order])
    np.testing.assert_allclose(ribbon.predict_interval(X), again.predict_interval(X), rtol=1e-6, atol=1e-6)
    Z = X * [10, 1, 3] - 5
    other = RibbonRegressor().fit(Z, 100 * y + 7)
    np.testing.assert_allclose(100 * ribbon.predict_interval(X) + 7, other.predict_interval(Z), rtol=1e-6)


def test_scale_regressor_does_not_extrapolate():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(500, 1))
    y = np.exp(1.5 * X[:, 0]) * rng.normal(size=500)
    noise = HeteroskedasticNoise(GammaRegressor(alpha=0))
    ribbon = RibbonRegressor(noise=noise).fit(X, y)
    assert ribbon.noise_.shrinkage_ > 0.5
    inside, far = ribbon.predict_std([[1.0], [10.0]], kind="aleatoric")
    assert far < 1.2 * inside  # a log-linear variance would have made it exp(13) times as large


def test_evidence_grows_continuously_from_half_a_standard_error():
    weight = np.ones(100)
    gain = np.r_[np.full(50, 1.0), np.full(50, -0.9)]  # mean 0.05, standard error 0.095
    assert evidence(gain - 0.003, weight) == 0
    assert evidence(gain + 0.02, weight) == pytest.approx(2 * 0.07 / 0.095 - 1)
    assert evidence(gain + 0.05, weight) == 1
    assert evidence(gain, 9 * weight) == 1  # nine times the rows: a third of the error


def test_auto_noise_is_constant_unless_data_show_otherwise():
    X, y = simulated(300, constant)
    assert RibbonRegressor().fit(X, y).noise_.predict(X) == RibbonRegressor(noise="dof").fit(X, y).noise_.dispersion_
    assert np.ptp(RibbonRegressor().fit(*simulated(300, growing)).noise_.predict(X)) > 0
    few = RibbonRegressor().fit(*simulated(40, growing))
    assert type(few.noise_).__name__ == "DofNoise"


def test_trees_find_non_monotone_scale():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(3000, 2))
    y = X[:, 0] + np.where(np.abs(X[:, 1]) < 1, 0.2, 1.0) * rng.standard_normal(3000)
    ribbon = RibbonRegressor().fit(X, y)
    inner, outer = ribbon.predict_std([[0.0, 0.0], [0.0, 1.8]], kind="aleatoric")
    assert inner < 0.3 and 0.8 < outer < 1.2


@pytest.mark.parametrize("weighted", [False, True])
def test_weighted_trees_are_as_fast_and_as_good(weighted):
    """Trees with weights split at bins of their own: as close to the true scale as scikit-learn's weighted bins."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.uniform(-2, 2, 1200), rng.integers(0, 3, 1200)]
    scale = 1 + 3 * np.abs(X[:, 0]) * (X[:, 1] == 1)
    weight = rng.uniform(0.5, 2, 1200) if weighted else np.ones(1200)
    y, binned = scale * rng.normal(size=1200), []
    original = HistGradientBoostingRegressor.fit

    def fit(self, X, y, sample_weight=None):
        binned.append(sample_weight is None or max(len(np.unique(x)) for x in X.T) <= self.max_bins)
        return original(self, X, y, sample_weight)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HistGradientBoostingRegressor, "fit", fit)
        ours = HeteroskedasticNoise()
        errors = []
        for noise in (ours, HeteroskedasticNoise(ours._candidates(1200, 2, 1200)[-1])):
            ribbon = RibbonRegressor(noise=noise).fit(X, y, sample_weight=weight)
            errors.append(np.std(np.log(ribbon.predict_std(X, kind="aleatoric") / scale)))
    assert all(binned[:3])
    assert all(binned) != weighted  # scikit-learn bins a user's trees
    assert errors[0] < 1.2 * errors[1] < 0.5


@pytest.mark.parametrize(("name", "X_scale", "weight"), [("sample_weight", 1.0, 1e200), ("X", 1e300, 1.0)])
def test_overflow_names_what_to_scale(name, X_scale, weight):
    rng = np.random.default_rng(0)
    X, y, base = rng.normal(size=(60, 3)), rng.normal(size=60), LinearRegression() if weight > 1 else ElasticNet(0.01)
    with pytest.raises(ValueError, match=f"^{name} has values up to .* Try: scale {name}"):
        RibbonRegressor(base).fit(X * X_scale, y, sample_weight=np.full(60, weight))


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")  # HuberRegressor does not converge
def test_tiny_targets_are_named_in_the_error():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    with pytest.raises(ValueError, match=r"Residuals of y .* Try: scale y"):
        RibbonRegressor(HuberRegressor()).fit(X, 1e-100 * y)


def test_noise_of_a_long_table_uses_all_rows():
    X, y = simulated(12_000, constant)
    press = sm.OLS(y, np.column_stack([X, np.ones(len(y))])).fit().get_influence().resid_press
    assert RibbonRegressor(noise="loo").fit(X, y).noise_.dispersion_ == pytest.approx(np.mean(press**2), rel=1e-9)


def test_wide_sparse_rows_stay_sparse_in_noise_estimation(monkeypatch):
    X = sparse.random(600, 300, density=0.02, random_state=0, format="csr")
    y = np.random.default_rng(0).normal(size=600)
    monkeypatch.setattr(type(X), "toarray", None)
    ribbon = RibbonRegressor(Ridge(alpha=30.0, solver="sparse_cg")).fit(X, y)
    assert ribbon.noise_.shrinkage_ == 0


@pytest.mark.parametrize(("n", "p"), [(60, 120), (80, 160)])
def test_penalised_models_with_many_columns_are_covered(n, p):
    """Squared residuals miss the bias of a penalty, which residuals of rows left out show."""
    covered, plain = [], []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 400, p)) / np.sqrt(np.arange(1, p + 1))
        y = X @ rng.normal(size=p) + 0.5 * rng.normal(size=n + 400)
        base = RidgeCV(alphas=np.logspace(-2, 2, 9))
        for noise, found in (("auto", covered), ("dof", plain)):
            lower, upper = RibbonRegressor(base, noise=noise).fit(X[:n], y[:n]).predict_interval(X[n:]).T
            found.append(np.mean((lower <= y[n:]) & (y[n:] <= upper)))
    assert 0.87 <= np.mean(covered) <= 0.93
    assert np.mean(plain) < np.mean(covered)


# ---------------------------------------------------------------------- dispersion of counts
def short_exposures(n=4000, seed=0):
    """Policies of which some are cancelled soon, and these have as many claims as the others."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    exposure = np.where(rng.random(n) < 0.1, 0.005, 1.0)
    y = rng.poisson(0.1 * np.exp(0.3 * X[:, 0]) * np.maximum(exposure, 0.3))
    return np.column_stack([X, exposure]), y.astype(float)


def test_dispersion_of_counts_is_at_most_the_dispersion_of_their_total():
    (X, y), (X_new, y_new) = short_exposures(), short_exposures(seed=1)
    base = WithOffset(PoissonRegressor(alpha=0, tol=1e-8), exposure=2)
    ribbon = RibbonRegressor(base).fit(X, y)
    mu, dof = ribbon.predict(X), len(y) - ribbon.effective_parameters_
    pearson, total = ((y - mu) ** 2 / mu).sum() / dof, ((y - mu) ** 2).sum() / mu.sum() * len(y) / dof
    assert pearson > 2 * total
    np.testing.assert_allclose(ribbon.noise_.dispersion_, total, rtol=1e-8)
    np.testing.assert_allclose(RibbonRegressor(base, noise="dof").fit(X, y).noise_.dispersion_, pearson, rtol=1e-8)
    expected = (1 - ribbon.predict_distribution(X_new).cdf(np.zeros(len(y_new)))).mean()
    assert abs(expected - (y_new > 0).mean()) < 0.01
    rates = RibbonRegressor(PoissonRegressor(alpha=0, tol=1e-8), weight_type="exposure")
    rates.fit(X[:, :2], y / X[:, 2], sample_weight=X[:, 2])
    np.testing.assert_allclose(rates.noise_.dispersion_, total, rtol=1e-5)  # weights in units of a year
    twice = RibbonRegressor(base).fit(X, y, sample_weight=np.full(len(y), 2))
    np.testing.assert_allclose(twice.noise_.dispersion_, total, rtol=1e-2)
    tuned = RibbonCV(base, scoring="nll", alphas=[1.0], cv=3, store_folds=True).fit(X, y)
    assert tuned.estimator_._folds_.ribbons[0].noise_.dispersion_ < 1.2 * total


def test_dispersion_of_overdispersed_counts_is_pearson():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = rng.poisson(np.exp(X[:, 0]) * rng.gamma(2, 0.5, size=3000)).astype(float)
    ribbons = [RibbonRegressor(PoissonRegressor(alpha=0, tol=1e-8), noise=noise).fit(X, y) for noise in ("auto", "dof")]
    found = sm.GLM(y, sm.add_constant(X), sm.families.Poisson()).fit(scale="X2")
    for ribbon in ribbons:
        np.testing.assert_allclose(ribbon.noise_.dispersion_, found.scale, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("noise", ["auto", "dof"])
def test_dispersion_of_counts_is_positive_if_an_identity_link_gives_negative_means(noise):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 1)), rng.poisson(2.0, 200).astype(float)
    base = TweedieRegressor(power=1, link="identity", alpha=0.01, max_iter=500).fit(X, y)
    base.coef_[:], base.intercept_ = 2.0, -1.0  # means of both signs
    ribbon = RibbonRegressor(FrozenEstimator(base), noise=noise).fit(X, y)
    mu = base.intercept_ + X[:, 0] * 2.0
    total, pearson = np.sum((y - mu) ** 2) / np.sum(np.abs(mu)), np.mean((y - mu) ** 2 / np.abs(mu))
    expected = min(total, pearson) if noise == "auto" else pearson
    assert ribbon.noise_.dispersion_ == pytest.approx(expected, rel=0.02)  # up to degrees of freedom
