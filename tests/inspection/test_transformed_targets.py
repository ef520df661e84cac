"""Means and totals of a transformed target: against scipy, Monte Carlo, bootstraps, and the ribbon's own draws."""

from functools import partial

import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import GammaRegressor, LinearRegression
from sklearn.preprocessing import PowerTransformer

from skribbon import AutogradRegressor, RibbonCV, RibbonRegressor
from skribbon._predict.predictive import WEIGHTS, Latent, smearing
from skribbon.baselines import LaplaceRegressor
from skribbon.inspection import comparisons, partial_dependence, predictions, slopes
from skribbon.models import StudentT
from skribbon.models.architectures import mlp


def minus_log(y):
    return -np.log(y)


def exp_of_minus(t):
    return np.exp(-t)


TRANSFORMS = {"log": (np.log, np.exp), "sqrt": (np.sqrt, np.square), "minus log": (minus_log, exp_of_minus)}


def transformed(transform="log", base=None):
    func, inverse = TRANSFORMS[transform]
    return TransformedTargetRegressor(base or LinearRegression(), func=func, inverse_func=inverse)


def severities(n=400, seed=0, noise="normal", std=0.8):
    """Rows X, and log-scale means and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    e = {"normal": rng.normal(size=n), "skewed": (rng.gamma(4, size=n) - 4) / 2, "left": (4 - rng.gamma(4, size=n)) / 2}
    return X, 7 + X @ [0.4, -0.2] + std * e[noise]


X, T = severities()
NEW = severities(60, seed=1)[0]


def conditional(ribbon, Z):
    """Location and standard deviation on the fitted scale."""
    t = ribbon.estimator_.regressor_.predict(Z)
    return t, np.sqrt(np.broadcast_to(ribbon.noise_.predict(Z), len(Z)))


# ---------------------------------------------------------------------- estimates
def test_total_of_log_target_is_the_total_of_lognormal_means():
    ribbon = RibbonRegressor(transformed(), law="normal", noise="dof").fit(X, np.exp(T))
    t, std = conditional(ribbon, NEW)
    (total,) = predictions(ribbon, NEW, aggregate="sum")["estimate"]
    assert total == pytest.approx(stats.lognorm(std, scale=np.exp(t)).mean().sum(), rel=1e-12)
    (median,) = predictions(ribbon, NEW, aggregate="sum", statistic="median")["estimate"]
    assert median == pytest.approx(ribbon.predict(NEW).sum(), rel=1e-12)
    assert total > 1.3 * median


@pytest.mark.parametrize("law", ["normal", "student", "empirical"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_row_means_integrate_the_noise_distribution(transform, law):
    y = TRANSFORMS[transform][1](severities(noise="skewed", std=0.5)[1] / (1 if "log" in transform else 3))
    ribbon = RibbonRegressor(transformed(transform), law=law, noise="dof").fit(X, y)
    (t,), (std,) = conditional(ribbon, NEW[:1])
    noise, (low, high) = ribbon.law_.marginal(0.0, 1.0, 0.0), ribbon.law_.ends

    def value(level):
        (z,) = noise.ppf(np.array([level]))
        return max(t + std * z, 0.0) ** 2 if transform == "sqrt" else np.exp((t + std * z) * (-1) ** ("m" in transform))

    low, high = max(low, 1e-12), min(high, 1 - 1e-12)  # beyond them the noise has its value there
    expected = integrate.quad(value, low, high, limit=500)[0] + low * value(low) + (1 - high) * value(high)
    (found,) = predictions(ribbon, NEW[:1], aggregate=None)["estimate"]
    assert found == pytest.approx(expected, rel=1e-3 if law == "empirical" else 1e-4)


def test_mean_of_a_transformed_gamma_model():
    rng = np.random.default_rng(0)
    y = rng.gamma(3, np.exp(0.3 * X[:, 0]) / 3) ** 2
    ribbon = RibbonRegressor(transformed("sqrt", GammaRegressor(alpha=0.0, tol=1e-8)), noise=1 / 3).fit(X, y)
    mu = ribbon.estimator_.regressor_.predict(NEW)
    table = predictions(ribbon, NEW, aggregate=None)
    np.testing.assert_allclose(table["estimate"], mu**2 * (1 + 1 / 3), rtol=1e-6)  # E t^2
    rows = ribbon.predict(NEW, return_std=False), ribbon.predict_std(NEW, kind="epistemic")
    np.testing.assert_allclose(  # both are multiples of mu^2
        predictions(ribbon, NEW, aggregate=None, statistic="median")["std_error"] / rows[0],
        rows[1] / rows[0],
        rtol=1e-5,
    )
    expected = (table["std_error"] / table["estimate"]) ** 2 - (rows[1] / rows[0]) ** 2
    assert (np.abs(expected) < 1e-2 * (rows[1] / rows[0]) ** 2 + 1 / (2 * 400)).all()


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("law", ["normal", "empirical"])
def test_slope_of_the_mean_equals_differences(transform, law):
    ribbon = RibbonRegressor(transformed(transform), law=law, noise="dof").fit(X, TRANSFORMS[transform][1](T / 3))
    one = ribbon.predict_distribution(NEW)

    def mean(shift=0.0, factor=1.0):
        moved = Latent(one.latent.f + shift, np.zeros_like(one.latent.covariance))
        return smearing(type(one)(moved, one.loss, factor * one.dispersion, one.shape, one.target))

    h, (_, derivatives) = 1e-4, mean()
    rise = (mean(h)[0] - mean(-h)[0]) @ WEIGHTS / (2 * h)
    np.testing.assert_allclose(derivatives[0], rise, rtol=1e-5, atol=1e-8)
    grow = (mean(factor=np.exp(2 * h))[0] - mean(factor=np.exp(-2 * h))[0]) @ WEIGHTS / (2 * h)
    centre = ribbon.law_.marginal(0.0, 1.0, 0.0).mean() * derivatives[1]  # away from the mean, not from f
    np.testing.assert_allclose(derivatives[2] + centre, grow, rtol=3e-4, atol=1e-6)


@pytest.mark.parametrize("law", ["normal", "student", "empirical"])
@pytest.mark.parametrize("transform", ["log", "minus log", "sqrt"])
def test_totals_of_draws_agree(transform, law):
    Z, t = severities(4000, noise="skewed" if law == "empirical" else "normal", std=0.5)
    ribbon = RibbonRegressor(transformed(transform), law=law, noise="dof").fit(Z, TRANSFORMS[transform][1](t))
    draws = ribbon.predict_samples(NEW, 4000, random_state=0).sum(axis=1)
    (total,) = predictions(ribbon, NEW, aggregate="sum")["estimate"]
    assert abs(draws.mean() - total) < 4 * draws.std() / np.sqrt(4000)
    (spread,) = predictions(ribbon, NEW, aggregate="sum", kind="prediction")["std_error"]
    assert spread == pytest.approx(draws.std(), rel=0.06)


def test_noise_of_a_student_loss_ends_too():
    base = transformed(base=AutogradRegressor(mlp(()), loss=StudentT(df=3.0), polish=True))
    ribbon = RibbonRegressor(base, noise="dof", law="normal").fit(X, np.exp(T))
    estimate = predictions(ribbon, NEW, aggregate="sum")["estimate"].item()
    assert estimate < 3 * ribbon.predict(NEW).sum()
    assert ribbon.predict_samples(NEW, 2000, random_state=0).sum(axis=1).mean() == pytest.approx(estimate, rel=0.05)


# ---------------------------------------------------------------------- standard errors
def test_standard_error_of_a_lognormal_mean_is_that_of_cox():
    x = np.tile([-1.0, 1.0], 1000)[:, None]
    t = 2 + 1.2 * np.random.default_rng(0).normal(size=2000)
    ribbon = RibbonRegressor(transformed(), law="normal", noise="train", correction="HC0").fit(x, np.exp(t))
    (row,) = predictions(ribbon, [[0.0]]).itertuples()
    expected = t.var() / 2000 + t.var() ** 2 / (2 * 2000)  # variance of the log mean, Cox's formula
    assert row.std_error / row.estimate == pytest.approx(np.sqrt(expected), rel=0.01)


@pytest.mark.parametrize("noise", ["skewed", "left"])
def test_standard_error_of_an_empirical_distribution_equals_a_bootstrap(noise):
    Z, t = severities(1000, noise=noise, std=0.7)
    ribbon = RibbonRegressor(transformed(), law="empirical", noise="dof").fit(Z, np.exp(t))
    rng, A, B = np.random.default_rng(0), np.c_[np.ones(1000), Z], np.c_[np.ones(60), NEW]
    totals = []
    for _ in range(600):
        rows = rng.integers(1000, size=1000)
        theta = np.linalg.lstsq(A[rows], t[rows], rcond=None)[0]
        totals.append(np.exp(B @ theta).sum() * np.exp(t[rows] - A[rows] @ theta).mean())  # Duan's smearing
    (row,) = predictions(ribbon, NEW, aggregate="sum").itertuples()
    assert row.std_error == pytest.approx(np.std(totals), rel=0.12)
    assert row.estimate == pytest.approx(np.mean(totals), rel=0.03)


def test_standard_error_with_a_scale_that_depends_on_x():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1000, 2))
    t = Z @ [0.4, -0.2] + 0.7 * np.exp(0.4 * Z[:, 0]) * rng.normal(size=1000)
    ribbon = RibbonRegressor(transformed(), law="normal").fit(Z, np.exp(t))
    assert np.ndim(ribbon.noise_.predict(Z)) == 1
    A, B, totals = np.c_[np.ones(1000), Z], np.c_[np.ones(60), NEW], []
    for _ in range(300):  # least squares, and a log-linear variance by its score equation
        rows = rng.integers(1000, size=1000)
        theta, gamma = np.linalg.lstsq(A[rows], t[rows], rcond=None)[0], np.zeros(3)
        square = (t[rows] - A[rows] @ theta) ** 2
        for _ in range(25):
            gamma = gamma + np.linalg.lstsq(A[rows], square * np.exp(-A[rows] @ gamma) - 1, rcond=None)[0] / 2
        totals.append(np.exp(B @ theta + np.exp(B @ gamma) / 2).sum())
    (row,) = predictions(ribbon, NEW, aggregate="sum").itertuples()
    assert row.std_error == pytest.approx(np.std(totals), rel=0.15)


# ---------------------------------------------------------------------- every kind of rows
@pytest.mark.parametrize("law", ["normal", "empirical"])
def test_groups_weights_and_single_rows_agree(law):
    ribbon = RibbonRegressor(transformed(), law=law, noise="dof").fit(X, np.exp(T))
    labels, weight = np.arange(60) % 2, np.linspace(0.5, 2, 60)
    rows = predictions(ribbon, NEW, aggregate=None)
    found = predictions(ribbon, NEW, by=labels, weights=weight)
    expected = [np.average(rows["estimate"][labels == g], weights=weight[labels == g]) for g in (0, 1)]
    np.testing.assert_allclose(found["estimate"], expected)
    single = predictions(ribbon, NEW[:3], by=[0, 1, 2])
    np.testing.assert_allclose(single[["estimate", "std_error"]], rows[["estimate", "std_error"]][:3], rtol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_means_of_other_estimators_and_of_one_of_several_outputs():
    Y = np.exp(np.c_[T, T / 2 + X[:, 1]])
    several = RibbonRegressor(transformed(), noise="dof", law="normal").fit(X, Y)
    one = RibbonRegressor(transformed(), noise="dof", law="normal").fit(X, Y[:, 1])
    columns = ["estimate", "std_error"]
    expected = predictions(one, NEW, aggregate="sum")[columns]
    np.testing.assert_allclose(predictions(several.output(1), NEW, aggregate="sum")[columns], expected, rtol=1e-9)
    grouped = RibbonRegressor(transformed(), noise="dof", law="normal").fit(X, Y[:, 1], groups=np.arange(400) // 4)
    np.testing.assert_allclose(predictions(grouped, NEW, aggregate="sum")["estimate"], expected["estimate"], rtol=1e-3)
    twice = RibbonRegressor(transformed(), noise="dof", law="normal").fit(X, Y[:, 1], sample_weight=np.full(400, 2))
    assert predictions(twice, NEW)["std_error"].item() < 0.75 * predictions(one, NEW)["std_error"].item()
    for other in (LaplaceRegressor(transformed()), RibbonCV(transformed(), cv=3)):
        found = predictions(other.fit(X, Y[:, 1]), NEW, aggregate="sum")[columns].to_numpy()
        np.testing.assert_allclose(found, expected, rtol=0.2)


def test_comparisons_slopes_and_partial_dependence_of_the_mean():
    ribbon = RibbonRegressor(transformed(), law="normal", noise="dof").fit(X, np.exp(T))
    smear, b = np.exp(ribbon.noise_.predict(NEW) / 2), ribbon.estimator_.regressor_.coef_[0]
    asked = [partial(f, ribbon, NEW, 0) for f in (comparisons, slopes, partial(partial_dependence, grid_resolution=2))]
    for ask in asked:
        np.testing.assert_allclose(ask()["estimate"], smear * ask(statistic="median")["estimate"], rtol=1e-6)
    ratio = asked[0](transform="ratio")
    assert ratio["estimate"].item() == pytest.approx(np.exp(b), rel=1e-9)  # in which the noise cancels
    medians = asked[0](transform="ratio", statistic="median")
    assert ratio["std_error"].item() == pytest.approx(medians["std_error"].item(), rel=1e-6)


@pytest.mark.parametrize("transform", ["reciprocal", "power"])
def test_infinite_means_are_refused(transform):
    t = 2 + special.ndtri((np.arange(400) + 0.5) / 400)
    y, options = 1 / np.maximum(t, 0.2), {"func": np.reciprocal, "inverse_func": np.reciprocal}
    if transform == "power":  # whose lambda is negative for skewed y: values from -1 / lambda on stand for no finite y
        y, options = np.exp(t - 2), {"transformer": PowerTransformer()}
        assert PowerTransformer().fit(y[:, None]).lambdas_ < 0
    base = TransformedTargetRegressor(LinearRegression(), **options)
    ribbon = RibbonRegressor(base, law="normal", noise="dof").fit(X, y)
    calls = [predictions, partial(predictions, kind="prediction"), partial(predictions, aggregate=None)]
    calls += [partial(f, column=0) for f in (comparisons, slopes)] + [partial(partial_dependence, features=0)]
    for call in calls:
        with pytest.raises(ValueError, match=r"mean of y is infinite.* use statistic='median'"):
            call(ribbon, NEW)
    median = predictions(ribbon, NEW, statistic="median")["estimate"].item()
    assert median == pytest.approx(ribbon.estimator_.predict(NEW).mean())


def test_refusals():
    ribbon = RibbonRegressor(transformed(), noise="dof").fit(X, np.exp(T))
    with pytest.raises(ValueError, match="statistic must be one of 'mean', 'median', got 'mode'"):
        predictions(ribbon, NEW, statistic="mode")
    with pytest.raises(ValueError, match="statistic='median' has no kind='prediction'"):
        predictions(ribbon, NEW, statistic="median", kind="prediction")
