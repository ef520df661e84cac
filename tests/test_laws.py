"""Observation models: every Tweedie power keeps its mean, its variance and a proper distribution."""

from itertools import count, pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from skribbon._laws import CompoundPoissonGamma, LocationFamily, Mixture, TweedieFamily, invert_cdf, law_of
from skribbon._loss import StudentT, Tweedie

N_DRAWS = 200_000
MEANS = np.array([0.7, 3.0, 12.0])

# name: (power, dispersion phi)
FAMILIES = {
    "poisson": (1.0, 1.0),
    "over-dispersed counts": (1.0, 2.5),
    "compound Poisson-gamma": (1.5, 1.3),
    "compound near Poisson": (1.2, 0.8),
    "compound near gamma": (1.8, 0.5),
    "gamma": (2.0, 0.4),
    "power 2.5": (2.5, 0.2),
    "inverse Gaussian": (3.0, 0.1),
    "power -1": (-1.0, 0.6),
    "normal": (0.0, 2.0),
}
CONTINUOUS = [name for name, (power, _) in FAMILIES.items() if power != 1]
COMPOUND = [name for name, (power, _) in FAMILIES.items() if 1 < power < 2]


def link_of(power):
    return "log" if power >= 1 else "identity"


def law_at(name, mu):
    """The family's distribution with mean mu."""
    power, phi = FAMILIES[name]
    f = np.log(mu) if link_of(power) == "log" else np.asarray(mu, dtype=float)
    return TweedieFamily(phi, Tweedie(power, link_of(power))).conditional(f)


def expected_variance(name, mu):
    power, phi = FAMILIES[name]
    return phi * mu**power


def simulated_compound(name, mu, rng):
    """Draws of the compound law written from its definition: a Poisson number of gamma variables."""
    power, phi = FAMILIES[name]
    counts = rng.poisson(mu ** (2 - power) / (phi * (2 - power)), N_DRAWS)
    jumps = rng.gamma((2 - power) / (power - 1), phi * (power - 1) * mu ** (power - 1), counts.sum())
    owner = np.repeat(np.arange(N_DRAWS), counts)
    return np.bincount(owner, jumps, minlength=N_DRAWS)


def binomial_error(q):
    return 5 * np.sqrt(q * (1 - q) / N_DRAWS)


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_the_mean_and_variance_of_the_family(name):
    law = law_at(name, np.repeat(MEANS[:, None], N_DRAWS, axis=1))
    draws = law.rvs(np.random.default_rng(0))
    variance = expected_variance(name, MEANS)
    centred = draws - MEANS[:, None]
    np.testing.assert_array_less(np.abs(centred.mean(axis=1)), 5 * np.sqrt(variance / N_DRAWS))
    error = np.sqrt((centred**2).var(axis=1) / N_DRAWS)
    np.testing.assert_array_less(np.abs((centred**2).mean(axis=1) - variance), 5 * error)


@pytest.mark.parametrize("name", FAMILIES)
def test_stated_mean_and_variance(name):
    law = law_at(name, MEANS)
    np.testing.assert_allclose(law.mean(), MEANS, rtol=1e-12)
    np.testing.assert_allclose(law.var(), expected_variance(name, MEANS), rtol=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("q", [0.01, 0.05, 0.3, 0.5, 0.95, 0.999])
def test_ppf_is_the_smallest_value_whose_cdf_reaches_q(name, q):
    law = law_at(name, MEANS)
    y = law.ppf(q)
    if law.discrete:
        assert np.all(y == np.round(y))
        assert np.all(law.cdf(y) >= q)
        assert np.all(law.cdf(y - 1) < q)
    else:
        atom = law.cdf(0.0) if name in COMPOUND else np.zeros(len(MEANS))
        np.testing.assert_allclose(law.cdf(y), np.maximum(q, atom), rtol=1e-6)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("mu", MEANS)
def test_density_integrates_to_one_and_to_the_mean(name, mu):
    law = law_at(name, mu)
    atom = np.exp(law.logpdf(0.0)) if name in COMPOUND else 0.0
    lower = 0.0 if FAMILIES[name][0] > 1 else mu - 40 * np.sqrt(law.var())
    pieces = [lower, *law.ppf(np.array([0.5, 0.9, 0.9999])), mu + 200 * np.sqrt(law.var())]
    pieces = np.maximum.accumulate(pieces)

    def integral(function):
        return sum(quad(function, a, b, limit=200)[0] for a, b in pairwise(pieces))

    assert atom + integral(lambda y: np.exp(law.logpdf(y))) == pytest.approx(1, abs=1e-6)
    assert integral(lambda y: y * np.exp(law.logpdf(y))) == pytest.approx(mu, rel=1e-5)


@pytest.mark.parametrize("name", ["poisson", "over-dispersed counts"])
def test_probabilities_of_counts_sum_to_one_and_to_the_cdf(name):
    law = law_at(name, 3.0)
    counts = np.arange(400.0)
    mass = np.exp(law.logpdf(counts))
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(mass.cumsum(), law.cdf(counts), rtol=1e-10)


@pytest.mark.parametrize("name", COMPOUND)
def test_compound_cdf_against_its_definition(name):
    draws = simulated_compound(name, 3.0, np.random.default_rng(1))
    law = law_at(name, np.array(3.0))
    for y in (0.0, 0.5, 1.5, 3.0, 6.0, 10.0):
        q = float(law.cdf(y))
        assert abs(np.mean(draws <= y) - q) < binomial_error(q) + 1e-9


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
    assert np.all(Mixture(law_at(name, mu[None]), np.array([0.5, 0.5])).ppf(q) == 0)


@pytest.mark.parametrize("name", COMPOUND)
def test_search_for_an_extreme_quantile_ends(name):
    law, calls = law_at(name, np.array([3.0])), count()
    series = law.cdf

    def cdf(y):
        assert next(calls) < 5000, "the search for the quantile does not end"
        return series(y)

    extreme, usual = 1 - 2.0**-52, law.ppf(0.999)
    law.cdf = cdf
    assert usual < law.ppf(extreme) < np.inf


def test_compound_law_has_no_mass_below_zero():
    law = law_at("compound Poisson-gamma", np.array(3.0))
    assert law.cdf(-1e-9) == 0
    assert law.logpdf(-1.0) == -np.inf
    assert law.cdf(0.0) == pytest.approx(np.exp(law.logpdf(0.0)))


def test_over_dispersion_of_one_is_the_poisson_limit():
    poisson, nearly = (
        TweedieFamily(phi, Tweedie(1, "log")).conditional(np.log(MEANS)).cdf(np.full(3, 4.0)) for phi in (1.0, 1.0001)
    )
    np.testing.assert_allclose(nearly, poisson, atol=1e-4)


def test_counts_below_unit_dispersion_keep_the_poisson_law():
    law = TweedieFamily(0.3, Tweedie(1, "log")).conditional(np.log(MEANS))
    np.testing.assert_allclose(law.var(), MEANS)


def test_identity_link_outside_the_support_stays_finite():
    law = TweedieFamily(0.5, Tweedie(2, "identity")).conditional(np.array([-1.0, 2.0]))
    assert np.all(np.isfinite(law.ppf(0.9)))
    assert np.all(law.ppf(0.9) >= 0)


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_zero_dispersion_is_a_point_at_the_mean(power):
    law = TweedieFamily(0.0, Tweedie(power, "log")).conditional(np.log(MEANS))
    np.testing.assert_allclose(law.ppf(0.05), MEANS)
    np.testing.assert_allclose(law.rvs(np.random.default_rng(0)), MEANS)
    np.testing.assert_array_equal(law.var(), 0)
    np.testing.assert_array_equal(law.cdf(MEANS * 1.01), 1)
    np.testing.assert_array_equal(law.cdf(MEANS * 0.99), 0)


def test_gaussian_noise_is_centred_on_the_prediction():
    law = LocationFamily(4.0).conditional(MEANS)
    np.testing.assert_allclose(law.ppf(0.975), MEANS + 2 * stats.norm.ppf(0.975))
    np.testing.assert_allclose(law.logpdf(MEANS), stats.norm.logpdf(0, scale=2))


# ---------------------------------------------------------------------- mixtures


def mixture_of(name, n_rows=4, n_components=7):
    rng = np.random.default_rng(3)
    mu = np.exp(rng.normal(0.8, 0.5, (n_rows, n_components)))
    weights = rng.dirichlet(np.ones(n_components))
    return Mixture(law_at(name, mu), weights), mu, weights


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("q", [0.02, 0.5, 0.9, 0.99])
def test_mixture_ppf_inverts_its_cdf(name, q):
    mixture, _, _ = mixture_of(name)
    y = mixture.ppf(q)
    if mixture.discrete:
        assert np.all(y == np.round(y))
        assert np.all(y >= 0)
        assert np.all(mixture.cdf(y) >= q)
        assert np.all(mixture.cdf(y - 1) < q)
    else:
        atom = mixture.cdf(np.zeros(len(y))) if name in COMPOUND else np.zeros(len(y))
        np.testing.assert_allclose(mixture.cdf(y), np.maximum(q, atom), rtol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_mixture_is_the_weighted_average_of_its_components(name):
    mixture, mu, weights = mixture_of(name)
    y = np.array([1.0, 2.0, 3.0, 4.0])
    by_hand = sum(w * law_at(name, mu[:, b]).cdf(y) for b, w in enumerate(weights))
    density = sum(w * np.exp(law_at(name, mu[:, b]).logpdf(y)) for b, w in enumerate(weights))
    np.testing.assert_allclose(mixture.cdf(y), by_hand, rtol=1e-10)
    np.testing.assert_allclose(np.exp(mixture.logpdf(y)), density, rtol=1e-10)
    np.testing.assert_allclose(mixture.mean(), mu @ weights)


@pytest.mark.parametrize("name", ["gamma", "poisson"])
def test_mixture_of_one_component_is_that_component(name):
    mixture = Mixture(law_at(name, MEANS[:, None]), np.ones(1))
    for q in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(mixture.ppf(q), law_at(name, MEANS).ppf(q), rtol=1e-8)


def test_mixture_of_points_has_their_quantiles():
    points = np.array([[1.0, 2.0, 3.0, 4.0]])
    mixture = Mixture(LocationFamily(0.0).conditional(points), np.full(4, 0.25))
    np.testing.assert_allclose(mixture.ppf(0.4), 2, rtol=1e-6)
    np.testing.assert_allclose(mixture.ppf(0.9), 4, rtol=1e-6)


def test_compound_law_is_what_the_family_returns():
    assert isinstance(law_at("compound Poisson-gamma", MEANS), CompoundPoissonGamma)


@pytest.mark.parametrize(("tails", "expected"), [(np.inf, 6.0), (5.0, 5.0)])
def test_a_loss_with_heavy_tails_has_an_observation_law_with_them(tails, expected):
    """Of two opinions about the tails, the heavier one; the variance is the dispersion either way."""
    law = law_of(StudentT(df=6.0), 4.0, tails).conditional(np.array([1.5]))
    exact = stats.t(expected, 1.5, 2 * np.sqrt((expected - 2) / expected))
    assert exact.var() == pytest.approx(4.0)
    for q in (0.005, 0.3, 0.95):
        assert law.ppf(q)[0] == pytest.approx(exact.ppf(q))
    assert law.logpdf(np.array([7.0]))[0] == pytest.approx(exact.logpdf(7.0))


def test_a_loss_whose_kurtosis_is_infinite_has_the_tails_of_the_residuals():
    for tails, exact in ((np.inf, stats.norm(0, 1)), (8.0, stats.t(8, 0, np.sqrt(6 / 8)))):
        assert law_of(StudentT(df=4.0), 1.0, tails).conditional(np.zeros(1)).ppf(0.99)[0] == pytest.approx(
            exact.ppf(0.99)
        )


@pytest.mark.parametrize("end", [1.0, 1e-20])
def test_search_for_a_quantile_that_rounding_puts_out_of_reach_ends(end):
    """A cdf that never gets to q, or never below it: the search gives the end of its bracket."""

    def cdf(y):
        return np.clip(stats.norm.cdf(y), 1e-15, 1 - 1e-15)

    quantile = invert_cdf(cdf, np.array([end, 0.3]), np.zeros(2), np.ones(2), discrete=False)
    assert np.isfinite(quantile).all()
    assert np.sign(quantile[0]) == (1 if end == 1 else -1)
    assert abs(quantile[0]) > 8  # where the cdf is flat
    assert quantile[1] == pytest.approx(stats.norm.ppf(0.3))
