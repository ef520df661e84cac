"""Observation laws: proper distributions with the family's mean and variance, at every scale and every uncertainty."""

from itertools import pairwise

import numpy as np
import pytest
import scoringrules
from scipy import integrate, special, stats
from scipy.special import ndtr

from skribbon import _laws as laws
from skribbon._laws.base import Normal
from skribbon._laws.families import Mixture, TweedieFamily, UncertainMean, halfway, rank
from skribbon._laws.noise_distributions import EmpiricalLaw, LocationFamily, StudentLaw
from skribbon._laws.tweedie import CompoundPoissonGamma

N_DRAWS = 200_000
MEANS = np.array([0.7, 3.0, 12.0])
LEVELS = np.array([0.001, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999])

# name: (power, dispersion phi, counts)
FAMILIES = {
    "poisson": (1.0, 1.0, True),
    "over-dispersed counts": (1.0, 2.5, True),
    "rates": (1.0, 0.8, False),
    "compound Poisson-gamma": (1.5, 1.3, False),
    "compound near Poisson": (1.2, 0.8, False),
    "compound near gamma": (1.8, 0.5, False),
    "gamma": (2.0, 0.4, False),
    "power 2.5": (2.5, 0.2, False),
    "inverse Gaussian": (3.0, 0.1, False),
    "power -1": (-1.0, 0.6, False),
    "normal": (0.0, 2.0, False),
}
COUNTS = ["poisson", "over-dispersed counts"]
COMPOUND = ["rates", "compound Poisson-gamma", "compound near Poisson", "compound near gamma"]
CONTINUOUS = [name for name in FAMILIES if name not in COUNTS]


def family_of(name, link="log"):
    power, phi, counts = FAMILIES[name]
    return TweedieFamily(phi, power, link, counts)


def law_at(name, mu):
    """The family's distribution with mean mu."""
    return family_of(name).conditional(np.log(mu))


def expected_variance(name, mu):
    power, phi, _ = FAMILIES[name]
    return phi * mu**power


def simulated_compound(power, phi, mu, rng, size=N_DRAWS):
    """Draws of the compound law written from its definition: a Poisson number of gamma variables."""
    counts = rng.poisson(mu ** (2 - power) / (phi * (2 - power)), size)
    jumps = rng.gamma((2 - power) / (power - 1), phi * (power - 1) * mu ** (power - 1), counts.sum())
    return np.bincount(np.repeat(np.arange(size), counts), jumps, minlength=size)


def binomial_error(q, size=N_DRAWS):
    return 5 * np.sqrt(q * (1 - q) / size) + 1e-9


# ---------------------------------------------------------------------- conditional laws


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rng", [np.random.default_rng(0), np.random.RandomState(0)], ids=["Generator", "RandomState"])
def test_draws_have_the_mean_and_variance_of_the_family(name, rng):
    law = law_at(name, np.repeat(MEANS[:, None], N_DRAWS // 4, axis=1))
    centred = law.sample(rng) - MEANS[:, None]
    size, variance = centred.shape[1], expected_variance(name, MEANS)
    np.testing.assert_array_less(np.abs(centred.mean(axis=1)), 5 * np.sqrt(variance / size))
    error = np.sqrt((centred**2).var(axis=1) / size)
    np.testing.assert_array_less(np.abs((centred**2).mean(axis=1) - variance), 5 * error)


@pytest.mark.parametrize("name", FAMILIES)
def test_stated_mean_and_variance(name):
    law = law_at(name, MEANS)
    np.testing.assert_allclose(law.mean(), MEANS, rtol=1e-12)
    np.testing.assert_allclose(law.var(), expected_variance(name, MEANS), rtol=1e-10)
    np.testing.assert_allclose(law.std() ** 2, law.var(), rtol=1e-12)
    assert law.shape == MEANS.shape


@pytest.mark.parametrize("name", FAMILIES)
def test_ppf_is_the_smallest_value_whose_cdf_reaches_q(name):
    law = law_at(name, MEANS)
    y = law.ppf(LEVELS)
    assert y.shape == (3, len(LEVELS))
    for q, quantile in zip(LEVELS, y.T, strict=True):
        np.testing.assert_array_equal(law.ppf(q), quantile)
        if law.discrete:
            assert np.all(quantile == np.round(quantile))
            assert np.all(law.cdf(quantile) >= q)
            assert np.all(law.cdf_below(quantile) < q)
        else:
            np.testing.assert_allclose(law.cdf(quantile), np.maximum(q, law.cdf(0.0) * law.atom), rtol=1e-9)


ORACLES = {
    "poisson": lambda mu: stats.poisson(mu),
    "over-dispersed counts": lambda mu: stats.nbinom(mu / 1.5, 1 / 2.5),
    "gamma": lambda mu: stats.gamma(2.5, scale=mu / 2.5),
    "inverse Gaussian": lambda mu: stats.invgauss(mu * 0.1, scale=10),
    "normal": lambda mu: stats.norm(mu, np.sqrt(2)),
}


@pytest.mark.parametrize("name", ORACLES)
def test_distributions_agree_with_scipy(name):
    law, exact = law_at(name, MEANS), ORACLES[name](MEANS)
    np.testing.assert_allclose(law.ppf(LEVELS), np.stack([exact.ppf(q) for q in LEVELS], axis=1), rtol=1e-8)
    for y in (0.0, 1.0, 4.0, 20.0):
        np.testing.assert_allclose(law.cdf(y), exact.cdf(y), rtol=1e-9, atol=1e-14)
        log = exact.logpmf(y) if law.discrete else exact.logpdf(y)
        np.testing.assert_allclose(law.logpdf(y), log, rtol=1e-9)


def gauss_legendre(edges, n=20):
    """Nodes and weights of Gauss's rule, all pieces between the edges at once."""
    x, w = np.polynomial.legendre.leggauss(n)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("mu", MEANS)
def test_density_integrates_to_one_and_to_the_mean(name, mu):
    law = law_at(name, mu)
    atom = np.exp(law.logpdf(0.0)) if name in COMPOUND else 0.0
    steps = law.std() * np.logspace(-16, np.log10(200), 80)  # finer towards zero, where a density may have a pole
    edges = np.r_[0.0, steps] if FAMILIES[name][0] >= 1 else mu + np.r_[-steps[::-1], 0.0, steps]
    y, weight = gauss_legendre(edges)
    density = np.exp(law.logpdf(y))
    assert atom + density @ weight == pytest.approx(1, abs=1e-6)
    assert (y * density) @ weight == pytest.approx(mu, rel=1e-5)


@pytest.mark.parametrize("name", COMPOUND)
def test_compound_cdf_against_its_definition(name):
    power, phi, _ = FAMILIES[name]
    if name == "rates":
        power, phi = 1.5, phi * 3.0**-0.5
    draws = simulated_compound(power, phi, 3.0, np.random.default_rng(1))
    law = law_at(name, np.array(3.0))
    for y in (0.0, 0.5, 1.5, 3.0, 6.0, 10.0):
        assert abs(np.mean(draws <= y) - law.cdf(y)) < binomial_error(law.cdf(y))
    assert law.cdf(-1e-9) == law.cdf_below(0.0) == 0
    assert law.logpdf(-1.0) == -np.inf
    assert law.cdf(0.0) == pytest.approx(np.exp(law.logpdf(0.0)))


@pytest.mark.parametrize("name", COMPOUND)
def test_compound_density_is_the_slope_of_its_cdf(name):
    law, step = law_at(name, np.array(3.0)), 1e-5
    y = np.array([0.3, 1.0, 3.0, 8.0])
    slope = (law.cdf(y + step) - law.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(law.logpdf(y)), slope, rtol=1e-5)


@pytest.mark.parametrize("name", COMPOUND)
def test_compound_quantile_inside_the_atom_is_exactly_zero(name):
    mu = np.array([1e-4, 1e-3])
    q = law_at(name, mu).cdf(0.0).min() / 2
    assert np.all(law_at(name, mu).ppf(q) == 0)
    assert np.all(Mixture(family_of(name).conditional(np.log(mu)[None])).ppf(q) == 0)
    assert np.all(family_of(name).marginal(np.log(mu), 0.01).ppf(q) == 0)


@pytest.mark.parametrize("power", [1.2, 1.5, 1.7, 1.9])
def test_compound_approximation_is_continuous_in_the_rate(power):
    """The shifted gamma law at the rate where it takes over, against the exact sum."""
    cv2 = 1 / ((2 - power) * laws.tweedie.many_jumps(power))
    y = np.linspace(0.05, 3, 60)
    exact = CompoundPoissonGamma(1.0, cv2 * (1 + 1e-9), power=power).cdf(y)
    assert np.all(np.diff(exact) >= 0)
    approximate = CompoundPoissonGamma(1.0, cv2 * (1 - 1e-9), power=power).cdf(y)
    assert np.abs(exact - approximate).max() < 1e-3
    assert np.abs(exact - approximate).max() > 0  # they are two different formulas


@pytest.mark.parametrize("power", [1.1, 1.5, 1.9])
@pytest.mark.parametrize("phi", [1e-12, 1e-6, 1e-3])
def test_compound_quantiles_with_tiny_dispersion(power, phi):
    law = TweedieFamily(phi, power, counts=False).marginal(np.log(MEANS), np.array([[0.0], [1e-4]]))
    interval = law.ppf(np.array([0.05, 0.95]))
    width = np.sqrt(phi * MEANS**power + np.array([[0.0], [1e-4]]) * MEANS**2) * 2 * stats.norm.ppf(0.95)
    np.testing.assert_allclose(interval[..., 1] - interval[..., 0], width, rtol=0.01)


def test_rates_keep_the_mean_and_variance_of_counts_over_exposure():
    """Power 1 on data that are not whole numbers: a density with an atom, in any unit."""
    for unit in (1e-6, 1.0, 1e6):
        law = TweedieFamily(0.5 * unit, 1, counts=False).conditional(np.log(MEANS * unit))
        np.testing.assert_allclose(law.var(), 0.5 * MEANS * unit**2, rtol=1e-9)
        np.testing.assert_allclose(law.cdf(0.0), np.exp(-2 * MEANS / 0.5), rtol=1e-9, atol=1e-12)
        assert not law.discrete
        reference = TweedieFamily(0.5, 1, counts=False).conditional(np.log(MEANS)).ppf(LEVELS)
        np.testing.assert_allclose(law.ppf(LEVELS), reference * unit, rtol=1e-8)


@pytest.mark.parametrize("power", [1.3, 1.5, 2.0, 2.5, 3.0])
def test_quantiles_scale_with_the_unit_of_y(power):
    base = TweedieFamily(0.3, power, counts=False).conditional(np.zeros(1)).ppf(LEVELS)
    for log_mu in (-600.0, -30.0, 30.0, 600.0):
        phi = 0.3 * np.exp(log_mu * (2 - power)) if power != 3 else 0.3 * np.exp(-log_mu)
        law = TweedieFamily(phi, power, counts=False).conditional(np.array([log_mu]))
        np.testing.assert_allclose(law.ppf(LEVELS), base * np.exp(log_mu), rtol=1e-8)
        latent = TweedieFamily(phi, power, counts=False).marginal(np.array([log_mu]), 0.04)
        here = TweedieFamily(0.3, power, counts=False).marginal(np.zeros(1), 0.04)
        np.testing.assert_allclose(latent.ppf(LEVELS), here.ppf(LEVELS) * np.exp(log_mu), rtol=1e-6)


def test_gamma_interval_contains_a_tiny_mean():
    lower, upper = TweedieFamily(0.05, 2).conditional(np.log([1.1e-13])).ppf(np.array([0.05, 0.95]))[0]
    exact = stats.gamma(20, scale=1.1e-13 / 20)
    assert (lower, upper) == pytest.approx((exact.ppf(0.05), exact.ppf(0.95)), rel=1e-9)


@pytest.mark.parametrize("sd", [0.0, 14.0])
@pytest.mark.parametrize("power, counts", [(1, True), (1, False), (1.5, False), (2, False), (3, False)])
def test_underflowing_mean_predicts_zero(power, counts, sd):
    f = np.linspace(-900.0, -700.0, 21)
    law = TweedieFamily(0.4, power, counts=counts).marginal(f, np.full(21, sd**2))
    np.testing.assert_allclose(law.cdf(np.full(21, 2.0)), 1, atol=1e-12)
    assert not np.isnan(law.logpdf(np.full(21, 2.0))).any()
    assert (law.ppf(np.array([0.05, 0.95])) < 1e-100).all()


def test_counts_below_unit_dispersion_are_poisson():
    law = TweedieFamily(0.3, 1).conditional(np.log(MEANS))
    np.testing.assert_allclose(law.var(), MEANS)
    nearly = TweedieFamily(np.array([0.3, 1.0001, 1.0001]), 1).conditional(np.log(MEANS))  # both laws in one array
    np.testing.assert_allclose(nearly.cdf(4.0), stats.poisson.cdf(4, MEANS), atol=1e-4)


def test_identity_link_outside_the_support_stays_finite():
    for power in (1, 1.5, 2, 3):
        for variance in (0.0, 4.0):
            law = TweedieFamily(0.5, power, "identity").marginal(np.array([-1.0, 2.0]), variance)
            assert np.all(np.isfinite(law.ppf(LEVELS)))
            assert np.all(law.ppf(LEVELS) >= 0)


def test_identity_link_against_simulation():
    rng, sd = np.random.default_rng(4), 0.8
    mu = np.maximum(3 + sd * rng.standard_normal(N_DRAWS), 1e-300)
    law = TweedieFamily(0.4, 2, "identity").marginal(np.array([3.0]), sd**2)
    draws = mu * 0.4 * rng.standard_gamma(2.5, N_DRAWS)
    for q in (0.05, 0.5, 0.95):
        assert abs(np.mean(draws <= law.ppf(q)) - q) < binomial_error(q)
    assert law.mean()[0] == pytest.approx(mu.mean(), abs=5 * sd / np.sqrt(N_DRAWS))
    assert law.std()[0] == pytest.approx(draws.std(), rel=0.02)


# ---------------------------------------------------------------------- points


@pytest.mark.parametrize("power", [0.0, 1.5, 2.0, 2.5, 3.0])
def test_zero_dispersion_is_a_point_at_the_mean(power):
    law = TweedieFamily(0.0, power).conditional(np.log(MEANS))
    centre = law.mean()
    np.testing.assert_allclose(centre, MEANS)
    np.testing.assert_array_equal(law.ppf(LEVELS), np.repeat(centre[:, None], len(LEVELS), axis=1))
    np.testing.assert_array_equal(law.sample(np.random.default_rng(0)), centre)
    np.testing.assert_array_equal(law.var(), 0)
    check_point(law, centre)


@pytest.mark.parametrize("tails", [3.0, 7.0, np.inf])
def test_location_family_without_variance_is_a_point(tails):
    centre = np.array([-3.0, 0.0, 1e9])
    check_point(LocationFamily(0.0, StudentLaw(tails)).marginal(centre, 0.0), centre)
    check_point(
        Mixture(LocationFamily(0.0, StudentLaw(tails)).conditional(np.repeat(centre[:, None], 4, axis=1))), centre
    )


def check_point(law, centre):
    above, below = np.nextafter(centre, np.inf), np.nextafter(centre, -np.inf)
    np.testing.assert_array_equal(law.cdf(centre), 1)
    np.testing.assert_array_equal(law.cdf_below(centre), 0)
    np.testing.assert_array_equal(law.cdf(below), 0)
    np.testing.assert_array_equal(law.ppf(0.05), centre)
    np.testing.assert_array_equal(law.logpdf(centre), np.inf)
    np.testing.assert_array_equal(law.logpdf(above), -np.inf)
    np.testing.assert_allclose(law.crps(centre + 2.5), 2.5)


def test_noiseless_log_link_is_lognormal():
    law, exact = TweedieFamily(0.0, 2).marginal(np.zeros(1), 0.49), stats.lognorm(0.7)
    np.testing.assert_allclose(law.ppf(LEVELS)[0], exact.ppf(LEVELS), rtol=1e-8)
    for y in (0.2, 1.0, 5.0):
        assert law.cdf(y)[0] == pytest.approx(exact.cdf(y), rel=1e-9)
        assert law.logpdf(y)[0] == pytest.approx(exact.logpdf(y), rel=1e-9)


# ---------------------------------------------------------------------- location families


def test_gaussian_noise_is_centred_on_the_prediction():
    law = LocationFamily(4.0).conditional(MEANS)
    np.testing.assert_allclose(law.ppf(0.975), MEANS + 2 * stats.norm.ppf(0.975))
    np.testing.assert_allclose(law.logpdf(MEANS), stats.norm.logpdf(0, scale=2))


@pytest.mark.parametrize("tails", [2.5, 4.0, 5.0, 30.0])
def test_student_distribution_by_its_variance(tails):
    law, scale = LocationFamily(4.0, StudentLaw(tails)).conditional(np.array([1.5])), 2 * np.sqrt((tails - 2) / tails)
    exact = stats.t(tails, 1.5, scale)
    np.testing.assert_allclose(law.ppf(LEVELS)[0], exact.ppf(LEVELS), rtol=1e-8)
    for y in (-4.0, 1.5, 7.0):
        assert law.logpdf(y)[0] == pytest.approx(exact.logpdf(y))
        assert law.cdf(y)[0] == pytest.approx(exact.cdf(y))
        assert law.crps(y)[0] == pytest.approx(scoringrules.crps_t(y, tails, 1.5, scale))


def _many_located():
    rng = np.random.default_rng(0)
    f, variance, n = 3 * rng.normal(size=(3, 700)), rng.exponential(size=(3, 700)), 700
    variance[0, :5] = 0.0  # points
    shape = EmpiricalLaw(rng.exponential(size=300) - 1, share=0.8)
    yield "normal", laws.base.Normal(f, variance)
    for name, low in (("student", 2 + 1e-9), ("estimate", 1.0)):
        Law = {"student": laws.base.Student, "estimate": laws.base.Estimate}[name]
        yield f"{name}, alike", Law(f, variance, 4.5)
        yield f"{name}, much alike", Law(f, variance, rng.uniform(5, 6, n))
        yield f"{name}, of all tails", Law(f, variance, np.r_[np.inf, 1e7, 1e6, 1 / rng.uniform(0, 1 / low, n - 3)])
        yield f"{name}, few", Law(f, variance, 4.5 + np.arange(n) % 2).take(slice(100))
        yield f"{name}, infinite", Law(np.r_[np.inf, f[0, 1:]], np.r_[np.inf, variance[0, 1:]], rng.uniform(5, 6, n))
    yield "empirical", shape.marginal(f, variance, 0.0)
    yield "empirical, less sure", shape.marginal(f, variance, variance * rng.choice([0.0, 0.01, 3.0], n))


LOCATED = dict(_many_located())


def _error_of_student_quantiles():
    """How far scipy's own are off, as levels: some 1e-16 of scipy 1.12 and newer, 1e-9 before."""
    nu = np.linspace(1, 300, 10_001)
    return np.abs(special.stdtr(nu, special.stdtrit(nu, 0.95)) - 0.95).max()


ERROR = _error_of_student_quantiles()


@pytest.mark.parametrize("q", [[0.95, 0.05, 0.5, 1e-4, 0.6], [1 - 1e-9, 0.05, 1e-15]], ids=["usual", "far"])
@pytest.mark.parametrize("name", LOCATED)
def test_quantiles_of_many_rows_share_standard_quantiles(name, q):
    """Whole arrays against each element on its own, at levels in any order."""
    law, q = LOCATED[name], np.array(q)
    quantiles, expected = law.ppf(q), laws.base.Law.ppf(law, q)
    finite = np.isfinite(law.parameters[0])
    np.testing.assert_array_equal(quantiles[~finite], expected[~finite])
    quantiles, expected, centre = quantiles[finite], expected[finite], law.parameters[0][finite][:, None]
    size = np.abs(centre) + np.sqrt(law.parameters[1][finite])[:, None]
    error = (3e-12 + 100 * ERROR) * np.abs(expected - centre) + 1e-14 * size
    assert (np.abs(quantiles - expected) <= error).all()
    assert (np.diff(quantiles[:, np.argsort(q)], axis=-1) >= 0).all()
    np.testing.assert_allclose(law.ppf(q[1])[finite], quantiles[:, 1], rtol=1e-11 + 100 * ERROR)


@pytest.mark.parametrize("tails", [4.0, 1e7])
@pytest.mark.parametrize("Law", [laws.base.Normal, laws.base.Student, laws.base.Estimate, "empirical"])
def test_single_distribution_has_quantiles_at_many_levels(Law, tails):
    q = np.random.default_rng(0).uniform(size=300)
    shape = EmpiricalLaw(np.random.default_rng(0).exponential(size=300) - 1)
    more = (tails,) if Law in (laws.base.Student, laws.base.Estimate) else ()
    alone, among = (
        shape.marginal(f, 2.0, 0.0) if Law == "empirical" else Law(f, 2.0, *more) for f in (1.5, np.full(1, 1.5))
    )
    assert alone.shape == ()
    np.testing.assert_allclose(alone.ppf(q), among.ppf(q)[0], rtol=1e-13)
    np.testing.assert_allclose(alone.ppf(q[0]), alone.ppf(q)[0], rtol=1e-13)


@pytest.mark.parametrize(
    "odd", [None, "point", "huge mean", "infinite mean", "infinite variance", "infinite y", "no y"]
)
def test_normal_scores_of_whole_arrays(odd):
    """Are those of the elements one by one, also where something is infinite or has no spread."""
    rng = np.random.default_rng(0)
    f, variance, y = rng.normal(size=50), rng.exponential(size=(3, 50)), 5 * rng.normal(size=50)
    variance[1, :2] = 0.0 if odd == "point" else np.inf if odd == "infinite variance" else 1.0
    f[:2] = np.inf if odd == "infinite mean" else 1e308 if odd == "huge mean" else y[:2]
    y[:2] = np.inf if odd == "infinite y" else np.nan if odd == "no y" else y[:2]
    law = laws.base.Normal(f, variance)
    for method in (laws.base.Normal.logpdf, laws.base.Normal.crps):
        expected = getattr(laws.base.Law, method.__name__)(law, y)
        np.testing.assert_allclose(method(law, y), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("tails", [2.2, 3.0, 4.0, 4.5, 8.0])
def test_heavy_tails_become_normal_with_an_uncertain_prediction(tails):
    variance = np.array([0.0, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6])[:, None]
    law = LocationFamily(np.ones(1), StudentLaw(tails)).marginal(np.zeros(1), variance)
    assert law.shape == (7, 1)
    standard = law.ppf(0.999)[:, 0] / law.std()[:, 0]
    assert standard[0] == pytest.approx(stats.t(tails).ppf(0.999) * np.sqrt(1 - 2 / tails))
    assert standard[-1] == pytest.approx(stats.norm.ppf(0.999), rel=1e-6)
    degrees = law.parameters[2][:, 0]
    assert np.all(np.diff(degrees) > 0)


def test_kurtosis_of_heavy_tails_plus_a_normal_prediction():
    rng = np.random.default_rng(5)
    draws = rng.standard_t(9, 10**6) * np.sqrt(7 / 9) + 0.7 * rng.standard_normal(10**6)
    law = LocationFamily(1.0, StudentLaw(9.0)).marginal(np.zeros(1), 0.49)
    for q in (0.001, 0.01, 0.05, 0.3):
        assert abs(np.mean(draws <= law.ppf(q)) - q) < binomial_error(q, 10**6) + 2e-4


# ---------------------------------------------------------------------- a normal f


def dense_mixture(family, f, sd, y, n=3001, reach=8.5):
    """E F(y | f) and E p(y | f) by the trapezoidal rule, so fine that the noise is wider than a step."""
    z = np.linspace(-reach, reach, n)
    w = np.exp(-(z**2) / 2)
    law = family.conditional(f + sd * z)
    return law.cdf(y) @ w / w.sum(), np.exp(law.logpdf(y)) @ w / w.sum()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("sd", "error"), [(0.03, 1e-4), (0.15, 1e-4), (0.5, 1e-4), (2.0, 1e-3)])
def test_cdf_and_density_of_a_normal_prediction(name, sd, error):
    for f in (-1.5, 3.0):
        law = family_of(name).marginal(np.array([f]), sd**2)
        for y in np.unique(law.ppf(np.array([0.02, 0.3, 0.98]))):
            cdf, density = dense_mixture(family_of(name), f, sd, y)
            assert law.cdf(y)[0] == pytest.approx(cdf, abs=error)
            noise = family_of(name).conditional(np.array([np.log(max(abs(y), 0.1))])).std()[0] / max(abs(y), 0.1)
            if noise > 4 * 17 * sd / 3000:  # elsewhere the steps of the reference show
                assert np.exp(law.logpdf(y)[0]) == pytest.approx(density, rel=20 * error)


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_of_a_normal_prediction(name):
    power, phi, _ = FAMILIES[name]
    law, z = family_of(name).marginal(np.array([0.7]), 0.16), np.linspace(-9, 9, 4001)
    w = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    mu = np.exp(0.7 + 0.4 * z)
    assert law.mean()[0] == pytest.approx(mu @ w, rel=1e-9)
    assert law.var()[0] == pytest.approx((mu - mu @ w) ** 2 @ w + phi * mu**power @ w, rel=1e-9)


def test_prediction_interval_contains_the_confidence_interval():
    """The latent spread far exceeds the noise of counts, so that few fixed nodes would be a staircase."""
    confidence = np.array([155297.0, 225935.0])
    f, sd = np.log(confidence).mean(), np.diff(np.log(confidence))[0] / (2 * stats.norm.ppf(0.95))
    lower, upper = TweedieFamily(1.0, 1).marginal(np.array([f]), sd**2).ppf(np.array([0.05, 0.95]))[0]
    rng = np.random.default_rng(6)
    draws = rng.poisson(np.exp(f + sd * rng.standard_normal(2 * 10**6)))
    assert lower < confidence[0]
    assert confidence[1] < upper
    assert abs(np.mean(draws <= lower) - 0.05) < binomial_error(0.05, 2 * 10**6)
    assert abs(np.mean(draws <= upper) - 0.95) < binomial_error(0.95, 2 * 10**6)


SCALES = [(f, sd) for f in (-700.0, -50.0, -3.0, 2.0, 50.0, 700.0) for sd in (0.0, 1e-6, 0.1, 3.0, 20.0, 300.0)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("phi", [1e-12, 0.1, 1.0, 1e6])
@pytest.mark.parametrize(("power", "counts"), [(1, True), (1, False), (1.5, False), (2, False), (3, False), (0, False)])
def test_quantiles_at_every_scale_are_ordered_and_right(power, counts, phi):
    f, sd = np.array(SCALES).T
    law = TweedieFamily(phi, power, counts=counts).marginal(f, sd**2)
    levels = np.array([0.05, 0.5, 0.95])
    y = law.ppf(levels)
    assert not np.any(np.isnan(y))
    assert np.all(y[:, :-1] <= y[:, 1:])
    for values in (
        law.mean(),
        law.std(),
        law.var(),
        law.cdf(y.T),
        law.cdf_below(y.T),
        law.logpdf(1.0),
        law.logpdf(0.0),
    ):
        assert not np.any(np.isnan(values))
    # neither overflowed nor underflowed, and a whole number is one
    usual = np.isfinite(y) & (np.abs(y) > 1e-290) & (y < 2**53) & (law.std() > 1e-9 * law.mean())[:, None]
    usual &= np.log(np.abs(y) + 1e-300) - f[:, None] - np.log(phi) > np.log(1e-290)  # nor in units of a jump
    assert usual.any() or (power, phi) == (2, 1e6)  # all of whose quantiles underflow
    error = 3e-5  # the ends of what is integrated move with y
    at, below = law.cdf(y.T).T, law.cdf_below(y.T).T
    np.testing.assert_array_less((levels - at)[usual], error)
    np.testing.assert_array_less((below - levels)[usual], error)


@pytest.mark.parametrize(("f", "sd"), [(50.0, 20.0), (700.0, 300.0), (10.0, 4.0)])
@pytest.mark.parametrize("power", [1, 2])
def test_quantiles_far_away_are_lognormal(f, sd, power):
    """Where the prediction is that uncertain, the noise of the observation is nothing next to it."""
    quantiles = TweedieFamily(1e-3, power).marginal(np.array([f]), sd**2).ppf(np.array([0.3, 0.5, 0.7]))[0]
    expected = f + sd * stats.norm.ppf([0.3, 0.5, 0.7])
    seen = expected < 709
    np.testing.assert_allclose(np.log(quantiles[seen]), expected[seen], atol=2e-3 * sd)
    assert np.all(np.isinf(quantiles[expected > 710]))


@pytest.mark.parametrize("power", [2, 3])
@pytest.mark.parametrize(("f", "sd"), [(1.6, 4000.0), (-1062.0, 3138.0), (5.0, 400.0)])
def test_cdf_is_right_and_increases_if_some_means_overflow(f, sd, power):
    y, phi = np.geomspace(1e-3, 1e12, 40), {2: 1e7, 3: 12.0}[power]
    mu = np.exp(np.clip(f + sd * stats.norm.ppf((np.arange(4000) + 0.5) / 4000), -600, 600))
    law = stats.gamma(1 / phi, scale=mu * phi) if power == 2 else stats.invgauss(mu * phi, scale=1 / phi)
    cdf = TweedieFamily(phi, power).marginal(np.full(40, f), sd**2).cdf(y)
    np.testing.assert_allclose(cdf, [law.cdf(value).mean() for value in y], atol=1e-3)
    assert np.all(np.diff(cdf) >= -1e-9)


def test_observations_vary_at_least_as_their_means_if_residuals_hardly_vary():
    z = 0.6 * np.tile([-1.0, -0.9, 0.9, 1.0], 20)
    for variance in (0.5, 2.0, 100.0):
        std = EmpiricalLaw(z, share=0.4).marginal(0.0, 1.0, variance).std()
        assert std >= 0.98 * np.sqrt(variance)  # variances of tables are within 2%


def test_draws_with_enormous_means():
    rng = np.random.default_rng(7)
    f = np.repeat(np.array([20.0, 45.0, 200.0, 705.0, 800.0])[:, None], 4000, axis=1)
    for phi in (1.0, 4.0):
        draws = TweedieFamily(phi, 1).conditional(f).sample(rng)
        assert np.all(np.isinf(draws[-1]))
        z = (draws[:-1] / np.exp(f[:-1]) - 1) / np.sqrt(phi / np.exp(f[:-1]))
        assert np.all(np.abs(z[:2].mean(axis=1)) < 0.1)
        assert np.all(np.abs(z[:2].std(axis=1) - 1) < 0.1)


def test_a_path_of_variances_broadcasts():
    f, variance = np.log(MEANS), np.array([0.0, 0.01, 1.0])[:, None] * np.ones(3)
    family = TweedieFamily(np.array([1.0, 1.5, 2.0]), 1)
    law = family.marginal(f, variance)
    assert law.shape == (3, 3)
    y = np.array([1.0, 2.0, 12.0])
    for method in ("cdf", "logpdf", "crps"):
        whole = getattr(law, method)(y)
        rows = [getattr(family.marginal(f, v), method)(y) for v in variance]
        np.testing.assert_allclose(whole, rows, rtol=1e-10)
    np.testing.assert_array_equal(law.ppf(LEVELS), [family.marginal(f, v).ppf(LEVELS) for v in variance])


def test_results_do_not_depend_on_chunks(monkeypatch):
    f = np.linspace(-2, 4, 8)
    law = TweedieFamily(1.3, 1.5).marginal(f, np.linspace(0, 1, 8))
    whole = law.ppf(0.9), law.cdf(2.0), law.crps(1.0)
    monkeypatch.setattr(laws.base, "CHUNK", 3 * law.width)
    for a, b in zip(whole, (law.ppf(0.9), law.cdf(2.0), law.crps(1.0)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


# ---------------------------------------------------------------------- draws of f


@pytest.mark.parametrize("name", FAMILIES)
def test_mixture_is_the_average_of_its_components(name):
    draws = np.random.default_rng(3).normal(0.8, 0.5, (4, 7))
    law, y = Mixture(family_of(name).conditional(draws)), np.array([0.0, 2.0, 3.0, 4.0])
    parts = [family_of(name).conditional(draws[:, b]) for b in range(7)]
    np.testing.assert_allclose(law.cdf(y), np.mean([part.cdf(y) for part in parts], axis=0), rtol=1e-10)
    np.testing.assert_allclose(law.cdf_below(y), np.mean([part.cdf_below(y) for part in parts], axis=0), rtol=1e-10)
    density = np.mean([np.exp(part.logpdf(y)) for part in parts], axis=0)
    np.testing.assert_allclose(np.exp(law.logpdf(y)), density, rtol=1e-10)
    np.testing.assert_allclose(law.mean(), np.exp(draws).mean(axis=1))
    spread = np.exp(draws).var(axis=1) + expected_variance(name, np.exp(draws)).mean(axis=1)
    np.testing.assert_allclose(law.var(), spread)
    for q in (0.02, 0.5, 0.99):
        quantile = law.ppf(q)
        if law.discrete:
            assert np.all((law.cdf(quantile) >= q) & (law.cdf_below(quantile) < q))
        else:
            np.testing.assert_allclose(law.cdf(quantile), np.maximum(q, law.cdf(0.0) * law.atom), rtol=1e-8)


def test_mixture_of_points_has_their_quantiles():
    mixture = Mixture(LocationFamily(0.0).conditional(np.array([[1.0, 2.0, 3.0, 4.0]])))
    np.testing.assert_allclose(mixture.ppf(np.array([0.4, 0.9])), [[2, 4]], rtol=1e-6)


@pytest.mark.parametrize("make", [LocationFamily, lambda phi: TweedieFamily(phi, 2)])
def test_mixture_of_many_draws_agrees_with_a_normal_prediction(make):
    f, sd, phi = np.array([0.3, 1.0]), 0.4, np.array([0.5, 2.0])
    draws = f[:, None] + sd * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    normal, mixture = make(phi).marginal(f, sd**2), Mixture(make(phi[:, None]).conditional(draws))
    assert mixture.shape == (2,)
    np.testing.assert_allclose(mixture.ppf(LEVELS), normal.ppf(LEVELS), rtol=2e-3)
    np.testing.assert_allclose(mixture.crps(np.array([1.0, 2.0])), normal.crps(np.array([1.0, 2.0])), rtol=1e-3)


# ---------------------------------------------------------------------- continuous ranked probability score


@pytest.mark.parametrize("y", [0.0, 1.0, 4.0, 30.0])
def test_crps_against_closed_forms(y):
    mu = np.array([0.05, 0.7, 3.0, 12.0, 100.0])
    f, y = np.log(mu), np.full(5, y)
    for family, exact in [
        (TweedieFamily(0.4, 2), scoringrules.crps_gamma(y, 2.5, scale=0.4 * mu)),
        (TweedieFamily(10.0, 2), scoringrules.crps_gamma(y, 0.1, scale=10 * mu)),
        (TweedieFamily(1.0, 1), scoringrules.crps_poisson(y, mu)),
        (TweedieFamily(2.5, 1), scoringrules.crps_negbinom(y, mu / 1.5, 1 / 2.5)),
    ]:
        np.testing.assert_allclose(family.conditional(f).crps(y), exact, rtol=1e-4)
    for sd in (0.01, 0.5, 3.0):
        exact = scoringrules.crps_lognormal(y, f, sd)
        np.testing.assert_allclose(TweedieFamily(0.0, 2).marginal(f, sd**2).crps(y), exact, rtol=1e-4)


@pytest.mark.parametrize("phi", [1.0, 4.0])
@pytest.mark.parametrize("mu", [1.0, 60.0, 130.0, 200.0, 300.0, 1e3, 1e5, 1e7])
def test_crps_of_counts_at_every_scale(mu, phi):
    """Against the sum over all whole numbers."""
    std = np.sqrt(phi * mu)
    k = np.arange(max(np.floor(mu - 12 * std), 0), np.ceil(mu + 40 + 15 * std))
    F = stats.poisson(mu).cdf(k) if phi == 1 else stats.nbinom(mu / (phi - 1), 1 / phi).cdf(k)
    y = np.maximum(np.rint(mu + std * np.array([-2.2, 0.1, 1.3, 5.0])), 0.0)
    y = np.concatenate([y, y + 0.3])  # also rates
    share = np.clip(y[:, None] - k, 0, 1)
    exact = (share * F**2 + (1 - share) * (1 - F) ** 2).sum(axis=1)
    law = TweedieFamily(phi, 1).conditional(np.full(y.shape, np.log(mu)))
    np.testing.assert_allclose(law.crps(y), exact, rtol=1e-6)


def test_crps_of_several_counts_equals_each_crps():
    f, y = np.log([0.5, 3.0, 62.0, 300.0, 1e5]), np.array([0.0, 7.0, 62.0, 290.0, 1e5])
    law = TweedieFamily(2.0, 1).marginal(f, 0.01)
    np.testing.assert_allclose(law.crps(y), [law.take([i]).crps(y[i])[0] for i in range(5)], rtol=1e-12)


@pytest.mark.parametrize("f", [0.0, 6.0, 12.0])
def test_crps_of_large_counts_costs_no_more(f, monkeypatch):
    calls, original = [], UncertainMean._cdf
    monkeypatch.setattr(UncertainMean, "_cdf", lambda self, y: calls.append(1) or original(self, y))
    law = TweedieFamily(1.0, 1).marginal(np.full(3, f), 0.01)
    assert np.isfinite(law.crps(np.rint(np.exp([f - 0.2, f, f + 0.1])))).all()
    assert 0 < len(calls) < 100


@pytest.mark.parametrize(("f", "sd"), [(0.0, 0.5), (3.0, 0.5), (5.0, 0.2), (8.0, 0.02), (11.0, 0.003)])
def test_crps_of_draws_of_counts(f, sd):
    """Against the sum over all whole numbers."""
    draws = f + sd * np.random.default_rng(5).normal(size=40)
    mean, k = np.exp(f), np.arange(np.exp(f + 4 * sd) + 40 + 15 * np.exp(f / 2 + 2 * sd))
    F = stats.poisson(np.exp(draws)[:, None]).cdf(k).mean(axis=0)
    y = np.rint(mean + np.sqrt(mean + (sd * mean) ** 2) * np.array([-0.8, 0.1, 1.0, 3.0]))
    exact = np.where(k < y[:, None], F**2, (1 - F) ** 2).sum(axis=1)
    law = Mixture(TweedieFamily(1.0, 1).conditional(np.tile(draws, (4, 1))))
    np.testing.assert_allclose(law.crps(y), exact, rtol=2e-6)


@pytest.mark.parametrize("noise", [1e-6, 0.3])
def test_crps_of_mixtures(noise):
    draws, y = np.random.default_rng(8).normal(size=(5, 50)), np.array([0.0, 1.0, -3.0, 0.5, 8.0])
    exact = scoringrules.crps_mixnorm(y, draws, np.sqrt(noise) * np.ones_like(draws))
    np.testing.assert_allclose(Mixture(LocationFamily(noise).conditional(draws)).crps(y), exact, rtol=1e-6)
    ensemble = scoringrules.crps_ensemble(y, draws)
    np.testing.assert_allclose(Mixture(LocationFamily(0.0).conditional(draws)).crps(y), ensemble, rtol=1e-9)


@pytest.mark.parametrize("name", COMPOUND)
def test_crps_of_a_distribution_with_an_atom(name):
    observed = np.array([0.0, 0.4, 5.0])
    law = family_of(name).marginal(np.zeros(3), 0.25)
    for row, (y, ours) in enumerate(zip(observed, law.crps(observed), strict=True)):
        x, weight = gauss_legendre(np.unique([0.0, y, *(y + np.array([0.3, 1.0, 3.0, 10.0, 45.0]))]))
        exact = (law.cdf(x[:, None])[:, row] - (x > y)) ** 2 @ weight
        assert ours == pytest.approx(exact, rel=1e-3)


def test_randomized_transform_of_draws_is_uniform():
    rng = np.random.default_rng(9)
    for name in ("poisson", "over-dispersed counts", "rates", "compound Poisson-gamma"):
        law = law_at(name, np.full(20_000, 1.3))
        y = law.sample(rng)
        below = law.cdf_below(y)
        u = below + rng.random(len(y)) * (law.cdf(y) - below)
        assert stats.kstest(u, "uniform").pvalue > 1e-3


def test_standard_normal_reference():
    """The probit of the cdf of a location law is linear."""
    law = LocationFamily(2.0).marginal(np.array([1.0]), 2.0)
    assert law.cdf(3.0)[0] == pytest.approx(ndtr(1.0))


# ---------------------------------------------------------------------- every scale, in a few steps


def test_halfway_floats_end_at_neighbours():
    values = np.array([-np.inf, -1e300, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e300, np.inf])
    assert (np.diff(rank(values)) > 0).all() and rank(np.array([-0.0])) == 0
    np.testing.assert_array_equal(rank(np.nextafter(values[1:-1], np.inf)), rank(values[1:-1]) + 1)
    low, high, root = np.full(7, -np.inf), np.full(7, np.inf), values[1:-1]
    for _ in range(64):
        middle = halfway(low, high)
        assert ((low <= middle) & (middle <= high)).all()
        low, high = np.where(middle >= root, low, middle), np.where(middle >= root, middle, high)
    np.testing.assert_array_equal(high, root)


@pytest.mark.parametrize("power", [1, 2])
def test_mixture_quantiles_of_draws_hundreds_of_orders_apart(power, monkeypatch):
    f = np.random.default_rng(3).uniform(-300, 300, (4, 12))
    f[:, :6] = np.random.default_rng(4).uniform(0, 12, (4, 6))
    law, levels = Mixture(TweedieFamily(1.0, power).conditional(f)), np.array([0.01, 0.3, 0.45, 0.55, 0.7, 0.9, 0.99])
    asked = []
    cdf = Mixture._cdf
    monkeypatch.setattr(Mixture, "_cdf", lambda self, y: asked.append(1) or cdf(self, y))
    y = law.ppf(levels)
    assert len(asked) < 80  # of all levels and rows together
    mu = np.exp(f)[:, None]
    exact = stats.poisson(mu) if power == 1 else stats.expon(scale=mu)
    reached, short = (y, y - 1) if power == 1 else (y * (1 + 1e-10), y * (1 - 1e-10))
    known = y < 1e12  # beyond, neighbouring counts are one to the oracle
    at, before = (exact.cdf(points[..., None]).mean(axis=-1) for points in (reached, short))
    assert known.mean() > 0.4 and (at >= levels - 1e-11)[known].all() and (before < levels + 1e-11)[known].all()
    assert (np.diff(y, axis=1) >= 0).all()
    np.testing.assert_array_equal(y[:, 2], law.ppf(0.45))


def test_density_of_a_narrow_distribution_includes_rounding():
    f, y = np.full(5, np.log(0.4)), 0.4 * (1 + np.arange(-2, 3) * 2.2e-16)
    family = TweedieFamily(9e-33, 1, counts=False)
    for law in (
        family.conditional(f),
        family.marginal(f, 1e-34),
        Mixture(family.conditional(np.repeat(f[:, None], 3, axis=1))),
    ):
        np.testing.assert_array_equal(law.logpdf(y), np.inf)
        np.testing.assert_array_equal(law.logpdf(y + 1e-9), -np.inf)


def compound_cdf_by_summation(y, mu, phi):
    """P(Y <= y) of the Tweedie law of power 1.5, a Poisson number of exponential jumps, from their sum."""
    rate, scale = 2 * np.sqrt(mu) / phi, phi * np.sqrt(mu) / 2
    j = np.arange(1, 400)
    return np.exp(-rate) + np.sum(stats.poisson.pmf(j, rate) * stats.gamma.cdf(y, j, scale=scale))


CONDITIONAL_CDF = {
    1: lambda y, mu, phi: stats.poisson.cdf(y, mu),
    1.5: compound_cdf_by_summation,
    2: lambda y, mu, phi: stats.gamma.cdf(y, 1 / phi, scale=phi * mu),
    3: lambda y, mu, phi: stats.invgauss.cdf(y, phi * mu, scale=1 / phi),
}


@pytest.mark.parametrize("link", ["log", "identity"])
@pytest.mark.parametrize("power", [1, 1.5, 2, 3])
def test_cdf_with_f_far_less_certain_than_y(power, link):
    phi, sd = {1: 1.0, 1.5: 2.0, 2: 2.0, 3: 0.3}[power], 3.0
    f = 2.0
    law = TweedieFamily(np.full(1, phi), power, link).marginal(np.full(1, f), sd**2)
    for y in (1.0, 3.0, 12.0):

        def integrand(z, y=y):
            mu = np.exp(f + sd * z) if link == "log" else f + sd * z
            return CONDITIONAL_CDF[power](y, mu, phi) * stats.norm.pdf(z)

        zero = -f / sd if link == "identity" else -8.0
        cuts = [zero, *(zero + np.array([1e-6, 1e-4, 0.01, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 7])), 8.5]
        exact = ndtr(zero) + sum(integrate.quad(integrand, a, b, epsabs=1e-11)[0] for a, b in pairwise(cuts))
        assert law.cdf(y)[0] == pytest.approx(exact, abs=5e-6)


def test_compound_cdf_increases_with_a_very_uncertain_mean():
    """The atom of the law is exp(-rate), and the rate a root of f: nothing that one polynomial follows next to zero."""
    family = TweedieFamily(np.full(3, 80.65), 1.5, "identity")
    law = family.marginal(np.array([2.1e6, -1.4e6, 9.7e5]), np.array([1.28e7, 8.6e6, 5.9e6]) ** 2)
    y = np.linspace(0, 6, 50)
    values = law.cdf(y[:, None])
    assert (np.diff(values, axis=0) > -1e-11).all()

    def atom(root, f, sd):  # in the root of the mean, where all is smooth
        return np.exp(-2 * root / 80.65) * stats.norm.pdf(root**2, f, sd) * 2 * root

    for value, f, sd in zip(values[0], law.parameters[0], law.parameters[1], strict=True):
        exact = ndtr(-f / sd) + integrate.quad(atom, 0, 3000, args=(f, sd), epsabs=1e-13, limit=200)[0]
        assert value == pytest.approx(exact, abs=1e-9)


# ---------------------------------------------------------------------- quantiles of many rows by a spline
@pytest.mark.parametrize("sd", [(0.02, 0.1), (0.1, 0.8)])
@pytest.mark.parametrize(("power", "phi"), [(1, 1.0), (1, 3.0), (1.5, 1.0), (2, 0.5), (3, 0.2)])
def test_spline_quantiles_equal_searched_quantiles(power, phi, sd):
    rng = np.random.default_rng(0)
    f, sd = rng.normal(1.5, 0.7, 1200), rng.uniform(*sd, 1200)
    family, levels = TweedieFamily(phi, power, "log"), [0.05, 0.5, 0.95]
    together = family.marginal(f, sd**2).ppf(levels)
    some = np.arange(0, 1200, 40)  # few rows are searched one by one
    alone = family.marginal(f[some], sd[some] ** 2).ppf(levels)
    if power == 1:
        np.testing.assert_array_equal(together[some], alone)
    np.testing.assert_allclose(together[some], alone, rtol=1e-6, atol=1e-6)
    assert (np.diff(together, axis=1) >= 0).all()


@pytest.mark.parametrize("y", [0.0, 3.0, 40.0, 400.0])
def test_density_of_far_counts_is_an_integral(y):
    f, sd = 2.0, 0.7

    def joint(u):
        return np.exp(stats.poisson.logpmf(y, np.exp(u)) + stats.norm.logpdf(u, f, sd))

    bend = np.log(max(y, 1.0))
    expected = sum(integrate.quad(joint, a, b, epsabs=0, limit=200)[0] for a, b in pairwise(sorted([-6, f, bend, 9])))
    law = TweedieFamily(np.ones(1), 1, "log").marginal(np.array([f]), np.array([sd**2]))
    assert np.exp(law.logpdf(np.array([y])))[0] == pytest.approx(expected, rel=1e-6)


def test_quantile_of_a_mixture_is_the_first_point_of_a_plateau():
    mixture = Mixture(Normal(np.array([[0.0, 10.0, 20.0, 30.0]]), 1e-4))
    quantiles = mixture.ppf(np.array([0.25, 0.5, 0.75]))[0]
    np.testing.assert_allclose(quantiles, [0.0, 10.0, 20.0], atol=0.1)  # the cdf stays at each level for almost ten
