"""Fast paths of the laws against the slow ones: quantiles by interpolation, and what a path of alphas shares."""

import numpy as np
import pytest
from scipy.special import logsumexp

from skribbon._laws import Latent, TweedieFamily, latent, table
from skribbon._laws.base import Law
from skribbon._laws.grid import Grid
from skribbon._laws.quadrature import hermite

LEVELS = np.array([0.001, 0.05, 0.5, 0.95, 0.999])

# name: (power, dispersion, counts, mean of f, mean of log sd)
MANY = {
    "poisson": (1.0, 1.0, True, 1.0, -3.0),
    "poisson of few": (1.0, 0.7, True, -2.0, -1.0),
    "poisson of many": (1.0, 1.0, True, 8.0, -4.0),
    "over-dispersed counts": (1.0, 4.0, True, 2.0, -2.0),
    "rates": (1.0, 2.0, False, 1.0, -2.0),
    "compound": (1.5, 1.0, False, 1.0, -3.0),
    "compound near Poisson": (1.2, 0.8, False, 0.0, -3.0),
    "gamma": (2.0, 0.5, False, 1.0, -2.0),
    "gamma, f unsure": (2.0, 0.5, False, 1.0, 0.0),
    "inverse Gaussian": (3.0, 0.1, False, 1.0, -3.0),
}


def many(name, n=2500, seed=0):
    power, phi, counts, f, log_sd = MANY[name]
    rng = np.random.default_rng(seed)
    family = TweedieFamily(phi, power, counts=counts)
    return Latent(f + 0.5 * rng.normal(size=n), np.exp(log_sd + 0.3 * rng.normal(size=n)), phi, family)


@pytest.mark.parametrize("name", MANY)
def test_interpolated_quantiles_are_those_that_are_searched_for(name):
    law = many(name)
    some = law.take(slice(0, 120))
    fast, slow = law.ppf(LEVELS)[:120], Law.ppf(some, LEVELS)
    if law.discrete:
        np.testing.assert_array_equal(fast, slow)
        return
    scale = np.exp(some.parameters[0])[:, None]
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-4 * np.min(scale) if law.atom else 0.0)
    reached = np.stack([some.cdf(column) for column in fast.T], axis=1)
    positive = fast > 0
    np.testing.assert_allclose(reached[positive], np.broadcast_to(LEVELS, fast.shape)[positive], atol=2e-6)
    np.testing.assert_array_equal(positive, slow > 0)


@pytest.mark.parametrize("name", ["poisson", "over-dispersed counts", "compound", "gamma"])
def test_most_quantiles_of_many_rows_need_no_search(name):
    law = many(name, n=20_000)
    for q in (0.05, 0.95):
        assert np.isnan(table.interpolated_quantiles(law, q)).mean() < 0.02


def test_a_count_in_doubt_is_searched_for():
    """Laws whose cdf at a whole number is the level to rounding: interpolation cannot know on which side they are."""
    q, n, k = 0.9, 3000, 7
    family = TweedieFamily(1.0, 1)
    lower, upper = np.full(n, 0.5), np.full(n, 3.0)
    sd = np.linspace(0.02, 0.3, n)
    for _ in range(60):  # f at which the cdf of k is q
        f = (lower + upper) / 2
        enough = Latent(f, sd, 1.0, family).cdf(float(k)) >= q
        lower, upper = np.where(enough, f, lower), np.where(enough, upper, f)
    for f, expected in ((lower - 1e-9, k), (upper + 1e-9, k + 1)):
        assert np.mean(Latent(f, sd, 1.0, family).ppf(q) == expected) == 1


def test_levels_nest_and_rows_are_in_order_however_many():
    law = many("over-dispersed counts", n=20_000)
    quantiles = law.ppf(LEVELS[::-1])[:, ::-1]
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    order = np.argsort(law.parameters[0])
    one_sd = Latent(law.parameters[0][order], np.full(len(order), 0.2), 4.0, law.constants["family"])
    assert np.all(np.diff(one_sd.ppf(0.95)) >= 0)


def test_extreme_rows_among_many_are_searched_for():
    law = many("poisson")
    f, sd = law.parameters[0].copy(), law.parameters[1].copy()
    f[:5], sd[:5] = (-700.0, -40.0, 40.0, 700.0, 1.0), (0.1, 0.1, 0.1, 0.1, 20.0)
    f[5], sd[5] = 1.0, 0.0
    law = Latent(f, sd, 1.0, law.constants["family"])
    np.testing.assert_array_equal(law.ppf(LEVELS)[:6], Law.ppf(law.take(slice(0, 6)), LEVELS))


def test_laws_of_different_dispersions_have_no_table():
    f = np.zeros(1000)
    assert not table.has_table(Latent(f, 0.1, np.linspace(1, 2, 1000), TweedieFamily(np.linspace(1, 2, 1000), 1)))
    assert not table.has_table(Latent(f, 0.1, 1.0, TweedieFamily(1.0, 1, link="identity")))


def test_more_elements_move_an_element_by_less_than_its_error():
    law = many("gamma", n=4000)
    alone, among = law.take(slice(0, 3000)).ppf(0.95), law.ppf(0.95)[:3000]
    np.testing.assert_allclose(alone, among, rtol=2e-6)


# ---------------------------------------------------------------------- few nodes of f, as many as each law needs
@pytest.mark.parametrize("name", MANY)
def test_nodes_of_many_laws_in_one_row_are_those_of_each_law(name):
    law = many(name, n=300)
    f, _, phi = law.parameters
    ratio = np.random.default_rng(1).permutation(np.geomspace(1e-7, 0.59, 300))  # every number of nodes, mixed
    law = Latent(f, ratio * law.parameters[1] / law._ratio(), phi, law.constants["family"])
    counts = law._nodes()
    mixed = law.take(np.flatnonzero(counts))
    counts = counts[counts > 0]
    assert set(counts) == {n for _, n in latent.HERMITE}
    y = np.ceil(np.exp(mixed.parameters[0]))
    cdf, logpdf = np.empty(len(y)), np.empty(len(y))
    for i, n in enumerate(counts):
        z, weights = hermite(n)
        one = mixed.family.at(phi[0]).conditional(mixed.parameters[0][i] + mixed.parameters[1][i] * z)
        cdf[i], logpdf[i] = weights @ one._cdf(y[i]), np.log(weights @ np.exp(one.logpdf(y[i])))
    np.testing.assert_allclose(mixed._cdf(y), cdf, rtol=1e-12)
    np.testing.assert_allclose(mixed._logpdf_at(y), logpdf, rtol=1e-12)


# ---------------------------------------------------------------------- one grid of f for many laws
# name: (power, dispersion, counts, mean of f, sd)
UNSURE = {
    "over-dispersed counts": (1.0, 20.0, True, 5.0, 0.5),
    "poisson": (1.0, 1.0, True, 2.0, 0.6),
    "poisson of few": (1.0, 1.0, True, -1.0, 1.0),
    "gamma": (2.0, 0.3, False, 1.0, 0.7),
    "inverse Gaussian": (3.0, 0.1, False, 1.0, 0.6),
}


def unsure(name, shape=(600,), seed=0):
    power, phi, counts, f, sd = UNSURE[name]
    rng = np.random.default_rng(seed)
    family = TweedieFamily(phi, power, counts=counts)
    return Latent(f + 0.4 * rng.normal(size=shape[-1]), sd * np.exp(0.2 * rng.normal(size=shape)), phi, family)


@pytest.mark.parametrize("name", UNSURE)
def test_quantiles_from_a_grid_are_those_that_are_searched_for(name):
    law, q = unsure(name), np.array([0.05, 0.5, 0.95])
    wide = np.flatnonzero(law._fits_grid())[:60]
    part = law.take(wide)
    grid = Grid.of_levels(part, q)
    assert wide.size == 60
    assert grid.g.size > 0
    fast, slow = grid.quantiles(q), Law.ppf(part, q)
    known = ~np.isnan(fast)
    assert known.mean() > 0.8
    np.testing.assert_allclose(fast[known], slow[known], rtol=0 if law.discrete else 1e-5, atol=0)
    np.testing.assert_allclose(law.ppf(q)[wide], slow, rtol=0 if law.discrete else 1e-5, atol=1e-12)


@pytest.mark.parametrize("name", UNSURE)
def test_a_grid_knows_where_the_conditional_cdf_is_constant(name):
    grid = Grid.of_levels(unsure(name), np.array([0.05, 0.95]))
    y = np.exp(np.linspace(-2, 8, 40))
    exact = np.clip(grid.family.conditional(grid.g)._cdf(y[:, None]), 0, 1)
    np.testing.assert_allclose(grid._cdf_given(y, 1e-13), exact, rtol=0, atol=1e-13)
    fewer = grid._cdf_given(y, 1e-3)
    assert 0 < np.abs(fewer - exact).max() < 1e-3  # by as much as it was told that nothing is


@pytest.mark.parametrize(("phi", "k"), [(1.0, 0), (1.0, 9), (20.0, 1), (20.0, 60)])
def test_a_grid_tells_counts_apart_whose_cdf_is_next_to_the_level(phi, k):
    q, n, family = 0.3, 600, TweedieFamily(phi, 1)
    sd, lower, upper = np.linspace(0.9, 1.5, n), np.full(n, -4.0), np.full(n, 8.0)
    for _ in range(60):  # f at which the cdf of k is q
        f = (lower + upper) / 2
        enough = Latent(f, sd, phi, family).cdf(float(k)) >= q
        lower, upper = np.where(enough, f, lower), np.where(enough, upper, f)
    for off, known in ((1e-5, 1.0), (1e-9, 0.0)):  # the latter is left to the search
        for f, expected in ((lower - off, k), (upper + off, k + 1)):
            law = Latent(f, sd, phi, family)
            assert law._fits_grid().all()
            found = Grid.of_levels(law, np.array([q])).quantiles(np.array([q]))[:, 0]
            assert np.mean(found == expected) >= known
            assert np.isin(found[~np.isnan(found)], expected).all()
            if off == 1e-5:
                np.testing.assert_array_equal(law.ppf(q), expected)


@pytest.mark.parametrize("name", UNSURE)
def test_log_densities_along_a_path_are_those_of_its_points(name):
    law = unsure(name, seed=1)
    scale = np.geomspace(0.01, 2.0, 12)[:, None]
    path = Latent(
        law.parameters[0][:60], scale * law.parameters[1][:60], *law.parameters[2][:1], law.constants["family"]
    )
    y = np.maximum(np.exp(law.parameters[0][:60]) * np.random.default_rng(2).gamma(2.0, 0.5, 60), 0.01)
    y = np.ceil(y) if law.discrete else y
    y[0] *= 1000  # far out, where a grid says nothing
    np.testing.assert_allclose(path.logpdf(y), Law.logpdf(path, y), rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", UNSURE)
def test_points_of_a_grid_are_even_in_their_coordinate(name):
    grid = Grid.of_levels(unsure(name), np.array([0.05, 0.95]))
    np.testing.assert_allclose(grid._s(grid.g), grid.s, rtol=0, atol=1e-11)
    between = np.linspace(grid.s[0], grid.s[-1], 1001)
    found = grid._inverse(between, np.interp(between, grid.s, grid.g), 3)
    np.testing.assert_allclose(grid._s(found), between, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("phi", "centre"), [(1.0, -1.0), (3.0, 0.0), (20.0, 2.0), (20.0, 5.0), (100.0, 3.0)])
def test_log_densities_from_a_grid_are_integrals_however_far_the_counts(phi, centre):
    rng, family = np.random.default_rng(0), TweedieFamily(phi, 1)
    f = centre + 0.4 * rng.normal(size=100)
    path = Latent(f, np.geomspace(0.3, 2.0, 8)[:, None] * np.exp(0.2 * rng.normal(size=100)), phi, family)
    y = np.ceil(np.exp(f + 2 * rng.normal(size=100)))
    grid = Grid(path, np.log(y.max()))
    assert grid.g.size
    told = np.where(path._fits_grid(), grid.logpdf(np.broadcast_to(y, path.shape)), np.nan)
    some = np.argwhere(np.isfinite(told))
    far = np.abs(np.log(y + 0.5) - f) > 5 * path.parameters[1]
    assert far[tuple(some.T)].any()  # what y says is far away, but what it says about f is not
    for i, j in [*some[::40], *some[far[tuple(some.T)]][::5]]:
        sd = path.parameters[1][i, j]
        g = np.linspace(f[j] - 10 * sd, f[j] + 10 * sd, 20_001)
        joint = family.conditional(g).logpdf(np.full(g.shape, y[j])) - ((g - f[j]) / sd) ** 2 / 2
        exact = logsumexp(joint) + np.log((g[1] - g[0]) / sd / np.sqrt(2 * np.pi))
        np.testing.assert_allclose(told[i, j], exact, rtol=0, atol=1e-7)
