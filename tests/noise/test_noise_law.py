"""Distribution of the noise: the empirical law against its sample, and the choice between laws."""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import GammaRegressor, HuberRegressor, LinearRegression, PoissonRegressor
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonCV, RibbonRegressor
from skribbon._laws.noise_distributions import sample_quantiles
from skribbon.exceptions import FamilyWarning
from skribbon.noise import EmpiricalLaw, NormalLaw, StudentLaw
from skribbon.noise import fit as noise_fit
from skribbon.noise.fit import Standardized

SHAPES = {
    "normal": stats.norm(),
    "lognormal": stats.lognorm(1.0, loc=-np.exp(0.5)),
    "exponential": stats.expon(-1),
    "student": stats.t(3),
    "uniform": stats.uniform(-1.7, 3.4),
}


def sample(name, n, seed=0):
    z = SHAPES[name].rvs(n, random_state=seed)
    return z / SHAPES[name].std()


def bimodal(n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.choice([-1.0, 1.0], n) + 0.35 * rng.standard_normal(n)) / np.sqrt(1 + 0.35**2)


def additive(noise, seed=0, d=3):
    """Rows of a linear model with the given noise."""
    X = np.random.default_rng(seed).normal(size=(len(noise), d))
    return X, X @ np.ones(d) + noise


# ---------------------------------------------------------------------- the law itself
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n", [100, 999, 4000])
def test_empirical_quantiles_follow_the_n_plus_one_rule(name, n):
    z = sample(name, n)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    ranks = np.quantile(z, levels, method="weibull")  # numpy's name of the (n + 1) rule
    law = EmpiricalLaw(z).marginal(0.0, 1.0, 0.0)
    below = np.array([np.mean(z <= q) for q in law.ppf(levels)])
    assert np.abs(below - levels).max() <= 1.5 / n + 0.002  # the law is a table
    np.testing.assert_allclose(law.cdf(ranks), levels, atol=0.002)


@pytest.mark.parametrize("share", [1.0, 0.7, 0.2, 0.0])
def test_density_quantiles_and_moments_are_consistent(share):
    law = EmpiricalLaw(sample("lognormal", 300)).marginal(2.0, 9 * share, 9 * (1 - share))
    q = np.array([1e-9, 1e-4, 0.02, 0.3, 0.5, 0.77, 0.99, 1 - 1e-6])
    np.testing.assert_allclose(law.cdf(law.ppf(q)), q, rtol=1e-9)
    assert np.all(np.diff(law.ppf(np.linspace(0.001, 0.999, 500))) > 0)
    ends = law.ppf(np.array([0.2, 0.6]))
    y = ends[0] + (np.arange(20_000) + 0.5) / 20_000 * np.diff(ends)
    assert np.exp(law.logpdf(y)).mean() * np.diff(ends)[0] == pytest.approx(0.4, abs=1e-4)
    u = (np.arange(20_000) + 0.5) / 20_000
    assert law.mean() == pytest.approx(law.ppf(u).mean(), abs=0.06)
    assert law.std() == pytest.approx(law.ppf(u).std(), rel=0.04)
    for y in (-50.0, 1.0, 60.0):
        step = 1e-5
        slope = (law.cdf(y + step) - law.cdf(y - step)) / (2 * step)
        assert np.exp(law.logpdf(y)) == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_less_certain_prediction_adds_normal_noise(share):
    z = sample("exponential", 2000)
    law = EmpiricalLaw(z).marginal(1.0, share, 1 - share)
    rng = np.random.default_rng(1)
    draws = 1 + np.sqrt(share) * rng.choice(z, 400_000) + np.sqrt(1 - share) * rng.standard_normal(400_000)
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert np.mean(draws <= law.ppf(q)) == pytest.approx(q, abs=0.008)


OUTLIERS = {
    "outliers": lambda rng, n: rng.normal(size=n) * np.where(rng.random(n) < 0.9, 0.01, 1.0),
    "bimodal": lambda rng, n: rng.choice([-1.0, 1.0], n) + 0.1 * rng.normal(size=n),
    "lognormal": lambda rng, n: np.exp(2 * rng.normal(size=n)),
    "cubed Cauchy": lambda rng, n: rng.standard_cauchy(n) ** 3,
}


@pytest.mark.parametrize("n", [80, 1000])
@pytest.mark.parametrize("name", OUTLIERS)
def test_cdf_with_a_normal_part_equals_its_integral(name, n):
    """P(sqrt(share) e + sd N <= x) is the mean of the normal cdf over quantiles of the noise e alone."""
    z = OUTLIERS[name](np.random.default_rng(0), n)
    law = EmpiricalLaw((z - z.mean()) / z.std())
    e = law.marginal(0.0, 1.0, 0.0).ppf((np.arange(4000) + 0.5) / 4000)
    for variance in np.r_[10.0 ** np.linspace(-7, -1, 25), 0.2, 0.5, 0.8, 0.97]:
        values, sd = np.sqrt(1 - variance) * e, np.sqrt(variance)
        x = np.r_[np.quantile(values, np.linspace(0.005, 0.995, 50)), sd * np.linspace(-3, 3, 25)]
        cdf = law.marginal(0.0, 1 - variance, variance).cdf(x)
        np.testing.assert_allclose(cdf, stats.norm.cdf((x[:, None] - values) / sd).mean(axis=1), atol=0.01)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_intervals_contain_their_share_of_draws_with_outliers(level):
    rng = np.random.default_rng(0)
    X, y = additive(OUTLIERS["outliers"](rng, 150))
    ribbon = RibbonRegressor(HuberRegressor()).fit(X, y)
    assert ribbon.law_.name == "empirical"
    X_new = 3 * rng.normal(size=(50, 3))
    distribution = ribbon.predict_distribution(X_new)
    draws, (lower, upper) = distribution.sample(20_000, random_state=0), distribution.interval(level).T
    np.testing.assert_allclose(np.mean((lower <= draws) & (draws <= upper), axis=0), level, atol=0.02)
    assert np.all(upper - lower > np.ptp(ribbon.predict_interval(X_new, level, kind="confidence"), axis=1))


def test_law_of_residuals_in_any_unit():
    z, q = sample("lognormal", 200), np.array([0.05, 0.5, 0.95])
    wide = EmpiricalLaw(100 * z).marginal(0.0, 1.0, 0.01).ppf(q)
    np.testing.assert_allclose(wide / 100, EmpiricalLaw(z).marginal(0.0, 1.0, 0.0).ppf(q), atol=0.03)


def test_empirical_law_is_unchanged_at_rows_as_certain_as_residuals():
    law = EmpiricalLaw(sample("exponential", 500), share=0.8)
    assert law.marginal(0.0, 0.85, 0.15).ppf(0.05) == law.marginal(0.0, 1.0, 0.0).ppf(0.05)
    assert law.marginal(0.0, 0.5, 0.5).ppf(0.05) < law.marginal(0.0, 1.0, 0.0).ppf(0.05)


def test_integer_weights_equal_repeated_residuals():
    z = sample("lognormal", 80)
    weight = np.random.default_rng(0).integers(0, 4, 80).astype(float)
    weighted, repeated = EmpiricalLaw(z, weight), EmpiricalLaw(np.repeat(z, weight.astype(int)))
    q = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(weighted.marginal(0, 1, 0.3).ppf(q), repeated.marginal(0, 1, 0.3).ppf(q), rtol=1e-10)
    np.testing.assert_allclose(weighted.log_score, repeated.log_score, rtol=1e-10)
    levels = np.linspace(0.02, 0.98, 25)
    np.testing.assert_allclose(
        sample_quantiles(z, np.ones(80), levels), np.quantile(z, levels, method="hazen"), rtol=1e-12
    )


def test_kernels_are_narrow_where_the_sample_is_dense():
    centres, widths, *_ = EmpiricalLaw(sample("lognormal", 300))._kernels
    assert np.all(np.diff(centres) >= 0)
    assert widths[30] < widths[-1] / 3


def test_samples_follow_the_law():
    law = EmpiricalLaw(bimodal(400)).marginal(np.zeros(50_000), 1.0, 0.0)
    draws = law.sample(np.random.default_rng(0))
    assert stats.kstest(law.cdf(draws), "uniform").pvalue > 1e-3


def test_law_scores_are_leave_one_out():
    """Leave-one-out scores are close to scores of new rows; in-sample scores are too good."""
    own, fresh, itself = [], [], []
    for seed in range(20):
        z = sample("lognormal", 150, seed)
        law = EmpiricalLaw(z)
        own.append(law.log_score.mean())
        itself.append(law.logpdf(z).mean())
        fresh.append(law.logpdf(sample("lognormal", 2000, 100 + seed)).mean())
    assert np.mean(own) == pytest.approx(np.mean(fresh), abs=0.05)
    assert np.mean(itself) > np.mean(fresh) + 0.05


def test_too_few_residuals_for_an_empirical_law():
    with pytest.raises(ValueError, match="at least 20 residuals"):
        EmpiricalLaw(np.arange(19.0))
    with pytest.raises(ValueError, match="that differ"):
        EmpiricalLaw(np.ones(50))
    with pytest.raises(ValueError, match="df > 2"):
        StudentLaw(2.0)


# ---------------------------------------------------------------------- the choice
@pytest.mark.parametrize(
    ("noise", "chosen"),
    [
        (sample("normal", 400), "normal"),
        (sample("student", 800), "student"),
        (sample("lognormal", 400), "empirical"),
        (sample("uniform", 800), "empirical"),
        (bimodal(400), "empirical"),
    ],
    ids=["normal", "student", "lognormal", "uniform", "bimodal"],
)
def test_auto_law_is_the_simplest_adequate_law(noise, chosen):
    ribbon = RibbonRegressor().fit(*additive(noise))
    assert ribbon.law_.name == chosen


def test_auto_law_costs_little_for_normal_noise():
    prices = []
    for seed in range(30):
        X, y = additive(sample("normal", 100, seed), seed)
        X_new, y_new = additive(sample("normal", 2000, 1000 + seed), 1000 + seed)
        default, normal = RibbonRegressor(), RibbonRegressor(noise="dof")
        prices.append(np.mean(normal.fit(X, y).log_density(X_new, y_new) - default.fit(X, y).log_density(X_new, y_new)))
    assert np.mean(prices) < 0.005


def test_each_tail_of_a_skewed_law_is_covered():
    misses = []
    for seed in range(60):
        X, y = additive(sample("lognormal", 100, seed), seed)
        X_new, y_new = additive(sample("lognormal", 2000, 1000 + seed), 1000 + seed)
        lower, upper = RibbonRegressor().fit(X, y).predict_interval(X_new).T
        misses.append([np.mean(y_new < lower), np.mean(y_new > upper)])
    np.testing.assert_allclose(np.mean(misses, axis=0), 0.05, atol=0.015)


@pytest.mark.parametrize("seed", range(3))
def test_draws_add_up_to_predictions_if_skewed_noise_depends_on_x(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2, size=(800, 1))
    y = 2 * x[:, 0] ** 2 + np.exp(2 * x[:, 0] - 2) * (rng.exponential(size=800) - 1)  # a line is too low at small noise
    ribbon = RibbonRegressor(noise="heteroskedastic", law="empirical").fit(x, y)
    predicted, scale = ribbon.predict(x).sum(), ribbon.predict_std(x, kind="aleatoric").sum()
    draws = ribbon.predict_samples(x, 2000, random_state=0)
    assert draws.mean(axis=0).sum() == pytest.approx(predicted, abs=0.02 * scale)
    assert ribbon.predict_distribution(x).mean().sum() == pytest.approx(predicted, abs=0.02 * scale)


def test_bias_of_a_model_without_intercept_stays_in_the_intervals():
    X, y = additive(3.0 + sample("exponential", 400))
    X_new, y_new = additive(3.0 + sample("exponential", 2000, 1), 1)
    lower, upper = (
        RibbonRegressor(LinearRegression(fit_intercept=False), law="empirical").fit(X, y).predict_interval(X_new).T
    )
    assert 0.88 <= np.mean((lower <= y_new) & (y_new <= upper)) <= 0.96
    assert np.mean(upper - lower) < 5  # twice as wide, if centred at zero


def test_alpha_does_not_change_the_noise_law():
    X, y = additive(sample("lognormal", 300))
    much, little = (RibbonRegressor(alpha=alpha).fit(X, y) for alpha in (0.02, 50.0))
    q = np.array([0.05, 0.5, 0.95])
    np.testing.assert_allclose(much.law_.marginal(0, 1, 0).ppf(q), little.law_.marginal(0, 1, 0).ppf(q), atol=0.1)


def test_residuals_are_divided_by_the_standard_deviation_without_the_row(monkeypatch):
    """The variance of a leave-one-out prediction equals that of a refit without the row, by statsmodels."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_t(3, size=(60, 2)), 5 * rng.standard_t(3, size=60)
    seen, original = [], noise_fit._residual_columns
    monkeypatch.setattr(
        noise_fit, "_residual_columns", lambda *args: seen.append((*args, original(*args))) or seen[-1][-1]
    )
    RibbonRegressor(correction="HC2").fit(X, y)
    record, _, (_, _, variance, _) = seen[0]
    Z, expected = sm.add_constant(X), []
    for i in range(60):
        rest = np.delete(np.arange(60), i)
        covariance = sm.OLS(y[rest], Z[rest]).fit().get_robustcov_results("HC2").cov_params()
        expected.append(Z[i] @ covariance @ Z[i])
    with_own = record.distribution.latent.covariance[:, 0, 0]
    usual = record.leverage < 0.5  # others do not shape the distribution
    error, before = (np.abs(np.log(values / expected))[usual].max() for values in (variance, with_own))
    assert error < 0.25 * before


@pytest.mark.parametrize(
    ("draw", "gain"),
    [
        (lambda rng, n: rng.laplace(size=n) / np.sqrt(2), 0.067),
        (lambda rng, n: rng.normal(size=n) * np.where(rng.uniform(size=n) < 0.1, 2.5, 0.64), 0.168),
        (lambda rng, n: (rng.gamma(16.0, size=n) - 16) / 4, 0.01),
        (lambda rng, n: 0.7 * rng.choice([-1, 1], size=n) + 0.714 * rng.normal(size=n), 0.003),
    ],
    ids=["laplace", "mixture", "mildly skewed", "two peaks"],
)
def test_auto_law_follows_five_thousand_rows(draw, gain):
    rng = np.random.default_rng(0)
    z, new = draw(rng, 5000), draw(rng, 50_000)
    law = Standardized(z, np.ones(5000), 1.0).law("auto")
    lower, upper = law.marginal(0.0, 1.0, 0.0).ppf(np.array([0.25, 0.75]))
    assert np.mean((lower <= new) & (new <= upper)) == pytest.approx(0.5, abs=0.02)
    assert law.logpdf(new).mean() > NormalLaw().logpdf(new).mean() + gain


def test_given_noise_implies_normal_law_and_given_laws_are_kept():
    X, y = additive(sample("lognormal", 300))
    assert RibbonRegressor(noise="dof").fit(X, y).law_ == NormalLaw()
    assert RibbonRegressor(noise=2.0).fit(X, y).law_ == NormalLaw()
    assert RibbonRegressor(law="normal").fit(X, y).law_ == NormalLaw()
    assert RibbonRegressor(law=StudentLaw(7.0)).fit(X, y).law_ == StudentLaw(7.0)
    assert RibbonRegressor(noise="dof", law="empirical").fit(X, y).law_.name == "empirical"


def test_unknown_law_is_refused():
    X, y = additive(sample("normal", 60))
    with pytest.raises(ValueError, match="law must be 'auto', 'normal', 'student', 'empirical' or an object such as"):
        RibbonRegressor(law="gamma").fit(X, y)
    with pytest.raises(ValueError, match="has its own distribution"):
        RibbonRegressor(PoissonRegressor(), law="empirical").fit(X, np.round(np.exp(y / 3)))
    with pytest.raises(ValueError, match="has its own distribution"):
        RibbonRegressor(PoissonRegressor(), noise="dof", law="normal").fit(X, np.round(np.exp(y / 3)))


def test_families_and_flexible_networks_skip_law_estimation():
    X, y = additive(sample("lognormal", 200))
    counts = RibbonRegressor(PoissonRegressor(alpha=0.1)).fit(X, np.round(np.exp(np.clip(y, -3, 3) / 3)))
    assert counts.law_ == NormalLaw()  # and not looked at
    network = MLPRegressor(hidden_layer_sizes=(20,), solver="lbfgs", alpha=0.1, max_iter=300, random_state=0)
    with pytest.warns(UserWarning):
        assert RibbonRegressor(network, held_out="loo").fit(X, y).law_ == NormalLaw()


@pytest.mark.parametrize("predictive", ["pushforward", "direct"])
def test_law_is_estimated_for_ribbons_of_draws(predictive):
    X, y = additive(sample("lognormal", 200))
    drawn = RibbonRegressor(predictive=predictive, n_draws=50, random_state=0).fit(X, y)
    assert drawn.law_.name == "empirical"
    distribution = drawn.predict_distribution(X[:3])
    noise = drawn.law_.marginal(np.zeros(200_000), 1.0, 0.0).sample(np.random.default_rng(0))
    spread = np.sqrt(distribution.dispersion)[:, None] * noise
    members = distribution.latent.draws[:, 0]
    y_new = np.take_along_axis(members, np.arange(200_000)[None] % 50, axis=1) + spread
    for q in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(np.mean(y_new <= distribution.quantile(q)[:, None], axis=1), q, atol=0.003)


def test_law_is_estimated_with_log_target():
    X, t = additive(0.3 * sample("exponential", 500))
    base = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
    ribbon = RibbonRegressor(base).fit(X, np.exp(t))
    inner = RibbonRegressor().fit(X, t)
    assert ribbon.law_.name == "empirical"
    np.testing.assert_allclose(np.log(ribbon.predict_interval(X[:9])), inner.predict_interval(X[:9]), rtol=1e-9)
    assert np.isfinite(ribbon.predict_distribution(X).std()).all()


def test_tuning_estimates_the_law_out_of_fold():
    X, y = additive(sample("lognormal", 150), d=12)
    folds = list(KFold(3).split(X))
    tuned = RibbonCV(alphas=[1.0], cv=folds).fit(X, y)
    z = []
    for train, test in folds:
        ribbon = RibbonRegressor().fit(X[train], y[train])
        epistemic = ribbon.predict_std(X[test], kind="epistemic")
        z.append((y[test] - ribbon.predict(X[test])) / np.sqrt(ribbon.noise_.predict(X[test]) + epistemic**2))
    assert tuned.estimator_.law_.name == "empirical"
    z = np.concatenate(z)
    assert np.ptp(tuned.estimator_.law_.z - z) < 1e-9  # moved to the mean of the residuals


# ---------------------------------------------------------------------- families
def counted(seed, zeros=0.0, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 2.0)).astype(float)
    return X, np.where(rng.uniform(size=n) < zeros, 0.0, y)


def test_data_contradicting_the_family_warn():
    with pytest.warns(FamilyWarning, match="does not describe the target"):
        RibbonRegressor(PoissonRegressor(alpha=0)).fit(*counted(0, zeros=0.4))
    X, y = counted(0, zeros=0.4)
    with pytest.warns(FamilyWarning):
        RibbonRegressor(PoissonRegressor(alpha=0)).fit(X, y, sample_weight=np.where(np.arange(400) < 300, 2.0, 0.0))
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    with pytest.warns(FamilyWarning):
        RibbonRegressor(GammaRegressor(alpha=0)).fit(X, np.exp(X[:, 0]) * rng.choice([0.1, 1.0], 400))


@pytest.mark.filterwarnings("error")
def test_data_from_the_family_do_not_warn():
    for seed in range(10):
        X, y = counted(seed)
        RibbonRegressor(PoissonRegressor(alpha=0)).fit(X, y, sample_weight=np.full(400, 3.0))
        mean = np.exp(0.5 * X[:, 0])
        RibbonRegressor(GammaRegressor(alpha=0)).fit(X, stats.gamma(3).rvs(400, random_state=seed) * mean)
    overdispersed = stats.nbinom(2, 2 / (2 + np.exp(0.5 * X[:, 0]))).rvs(random_state=0).astype(float)
    RibbonRegressor(PoissonRegressor(alpha=0)).fit(X, overdispersed)


@pytest.mark.filterwarnings("error")
def test_family_check_skips_rates_weighted_by_exposure():
    rng = np.random.default_rng(0)
    X, years = rng.normal(size=(1000, 2)), rng.uniform(0.05, 1.0, 1000)
    claims = rng.poisson(years * np.exp(0.3 * X[:, 0]))
    ribbon = RibbonRegressor(PoissonRegressor(alpha=0, tol=1e-8), weight_type="exposure")
    ribbon.fit(X, claims / years, sample_weight=years)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.LeverageWarning")
def test_high_leverage_rows_do_not_affect_the_law():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    X[0, 1] = 115.0  # a leverage of .985: left out, it is off by 60 times its residual
    y = X[:, 0] + rng.normal(size=200) + 100.0 * (np.arange(200) == 0)
    student, normal = (
        RibbonRegressor(**settings).fit(X, y).predict_interval([[0.0, 0.0]])
        for settings in ({"law": "student"}, {"noise": "dof"})
    )
    np.testing.assert_allclose(np.ptp(student), np.ptp(normal), rtol=0.1)


def test_family_with_right_tails_does_not_warn():
    rng = np.random.default_rng(0)
    X, u = rng.normal(size=(2500, 1)), rng.uniform(size=2500)
    u += np.where(np.abs(u - 0.5) < 0.3, 0.08 * np.sin(2 * np.pi * (u - 0.2) / 0.6), 0.0)  # off in the middle alone
    assert stats.kstest(u, "uniform").statistic > 0.05
    y = stats.gamma.ppf(u, 2.0, scale=np.exp(0.3 * X[:, 0]) / 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FamilyWarning)
        RibbonRegressor(GammaRegressor(alpha=0)).fit(X, y)
