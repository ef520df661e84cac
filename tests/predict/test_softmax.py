"""Mean and quantiles of a softmax of normal logits, against Monte Carlo, quadrature and what symmetry demands."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import helmert
from scipy.special import expit, ndtri, softmax

from skribbon._predict.classes import ClassProbabilities
from skribbon._predict.predictive import Latent
from skribbon._predict.softmax import (
    closed_mean,
    closed_quantiles,
    logistic_mean,
    logistic_quantiles,
    mean_expit,
    softmax_mean,
    softmax_quantiles,
)
from skribbon.models.losses import Categorical

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

LEVELS = np.array([0.05, 0.5, 0.95])
KINDS = ["independent", "rank one", "rank three", "wishart", "correlated", "one class", "unequal"]


def covariance_of(kind, K, rng):
    """Covariance (K, K) of the logits, with variances near one."""
    if kind == "independent":
        return np.eye(K)
    if kind.startswith("rank"):
        root = rng.standard_normal((K, 1 if kind == "rank one" else 3))
        return root @ root.T / root.shape[1]
    if kind == "wishart":
        root = rng.standard_normal((K, K + 2))
        return root @ root.T / (K + 2)
    if kind == "correlated":
        v = rng.standard_normal(K)
        return 0.9 * np.outer(v, v) + 0.1 * np.eye(K)
    if kind == "one class":
        return np.diag(np.where(np.arange(K) == 0, 1.0, 1e-3))
    s = np.exp(0.7 * rng.standard_normal(K))
    return np.diag(s**2 / np.mean(s**2))


def problem(K, kinds=KINDS, stds=(0.3, 1.0, 3.0), scale=2.0, seed=0):
    """f (n, k), covariance (n, k, k) and basis (K, k), a row for every kind and standard deviation."""
    rng, basis = np.random.default_rng([K, seed]), helmert(K).T
    f, S = [], []
    for kind in kinds:
        for std in stds:
            f.append(basis.T @ (scale * rng.standard_normal(K)))
            S.append(std**2 * basis.T @ covariance_of(kind, K, rng) @ basis)
    return np.array(f), np.array(S), basis


def draws_of(f, S, basis, n_draws, seed=0):
    """Probabilities (n_draws, K) of one row, in antithetic pairs."""
    values, vectors = np.linalg.eigh(S)
    z = np.random.default_rng(seed).standard_normal((n_draws // 2, len(f)))
    shift = (z * np.sqrt(np.maximum(values, 0))) @ vectors.T @ basis.T
    eta = basis @ f
    return softmax(np.concatenate([eta + shift, eta - shift]), axis=1)


# ---------------------------------------------------------------------- two classes
@pytest.mark.parametrize("variance", [0.0, 1e-6, 0.1, 1.0, 3.0, 25.0, 1e4])
def test_logistic_mean_is_the_integral(variance):
    std = np.sqrt(variance)
    for f in (-30.0, -3.0, 0.0, 0.7, 8.0):

        def integrand(z, f=f):
            return expit(f + std * z) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

        kink = [float(np.clip(-f / std, -11, 11))] if variance else [0.0]
        expected = quad(integrand, -12, 12, points=kink, epsabs=1e-13, limit=500)[0]
        got = logistic_mean(np.array([f]), np.array([variance]))[0]
        np.testing.assert_allclose(got, [1 - expected, expected], rtol=0, atol=1e-8)


def test_logistic_quantiles_follow_the_log_odds():
    f, variance = np.array([-1.0, 0.5, 2.0]), np.array([0.0, 0.4, 30.0])
    got = logistic_quantiles(f, variance, LEVELS)
    z = f[:, None] + np.sqrt(variance)[:, None] * ndtri(LEVELS)
    np.testing.assert_allclose(got[:, 1], expit(z), rtol=1e-12)
    np.testing.assert_allclose(got[:, 0], 1 - expit(z)[:, ::-1], rtol=0, atol=1e-12)  # symmetric levels


@pytest.mark.parametrize(("mean", "variance"), [(-120, 40), (-60, 40), (-30, 8), (-20, 2), (-25, 40), (-9, 0.2)])
def test_rare_class_has_relative_accuracy(mean, variance):
    def integrand(x):
        return np.exp(-np.logaddexp(0, -x) - (x - mean) ** 2 / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    grid = np.linspace(mean - 1, mean + variance + 1, 1000)
    mode, reach = grid[integrand(grid).argmax()], 12 * np.sqrt(variance)
    expected = quad(integrand, mode - reach, mode + reach, epsabs=0, epsrel=1e-9, limit=500)[0]
    np.testing.assert_allclose(mean_expit(np.array([float(mean)]), np.array([float(variance)])), expected, rtol=1e-7)
    f, S, basis = np.array([[mean, -400.0]]), variance * np.eye(2)[None], np.array([[0.0, 0], [1, 0], [0, 1]])
    assert softmax_mean(f, S, basis)[0, 1] == pytest.approx(expected, rel=1e-3)  # a third class that never wins


# ---------------------------------------------------------------------- Monte Carlo
@pytest.mark.parametrize(("K", "n_draws"), [(3, 200_000), (10, 100_000)])
@pytest.mark.parametrize("kind", KINDS)
def test_softmax_mean_and_quantiles_agree_with_monte_carlo(K, n_draws, kind):
    f, S, basis = problem(K, [kind])
    means, quantiles = softmax_mean(f, S, basis), softmax_quantiles(f, S, basis, LEVELS)
    for i in range(len(f)):
        p = draws_of(f[i], S[i], basis, n_draws)
        pairs = (p[: n_draws // 2] + p[n_draws // 2 :]) / 2
        noise = 4 * pairs.std(axis=0) / np.sqrt(len(pairs))
        assert (np.abs(means[i] - p.mean(axis=0)) < 1e-3 + noise).all()
        levels = np.stack([(p < quantiles[i, :, j]).mean(axis=0) for j in range(len(LEVELS))], axis=1)
        ends = np.quantile(p, LEVELS, axis=0).T
        close = np.abs(quantiles[i] - ends) < 0.01
        assert (close | (np.abs(levels - LEVELS) < 0.002)).all()  # or a flat distribution function, not resolved
        widths, expected = quantiles[i, :, 2] - quantiles[i, :, 0], ends[:, 2] - ends[:, 0]
        assert (np.abs(widths - expected) < 0.05 * expected + 0.002).all()


@pytest.mark.parametrize("K", [65, 120])
def test_softmax_mean_of_many_classes(K):
    f, S, basis = problem(K, ["rank three", "wishart"], stds=(0.7,))
    means, quantiles = softmax_mean(f, S, basis), softmax_quantiles(f, S, basis, LEVELS)
    np.testing.assert_allclose(means.sum(axis=1), 1, rtol=0, atol=1e-14)
    for i in range(len(f)):
        p = draws_of(f[i], S[i], basis, 20_000)
        pairs = (p[:10_000] + p[10_000:]) / 2
        noise = 4 * pairs.std(axis=0) / np.sqrt(len(pairs))
        assert (np.abs(means[i] - p.mean(axis=0)) < 1e-3 + noise).all()
        assert np.abs(quantiles[i] - np.quantile(p, LEVELS, axis=0).T).max() < 0.02


@pytest.mark.parametrize(("K", "std"), [(50, 0.3), (50, 1.0), (50, 3.0), (200, 1.0)])
def test_means_of_many_classes_at_several_spreads(K, std):
    f, S, basis = problem(K, ["independent", "wishart", "correlated"], stds=(std,), seed=5)
    means = softmax_mean(f, S, basis)
    for i in range(len(f)):
        p = draws_of(f[i], S[i], basis, 20_000, seed=9)
        pairs = (p[:10_000] + p[10_000:]) / 2
        noise = 4 * pairs.std(axis=0) / np.sqrt(len(pairs))
        assert (np.abs(means[i] - p.mean(axis=0)) < 1e-3 + noise).all()


def test_softmax_mean_of_rare_classes():
    """Few nodes are where they do, and a scatter that is small over the first ones says little."""
    f, S, basis = problem(8, stds=(0.4, 0.8, 1.2, 1.8, 2.6), scale=4.0, seed=33)
    means = softmax_mean(f, S, basis)
    for i in range(len(f)):
        p = draws_of(f[i], S[i], basis, 40_000, seed=2)
        pairs = (p[:20_000] + p[20_000:]) / 2
        noise = 4 * pairs.std(axis=0) / np.sqrt(len(pairs))
        assert (np.abs(means[i] - p.mean(axis=0)) < 1e-3 + noise).all()


# ---------------------------------------------------------------------- symmetry
def permuted(f, S, basis, order):
    """The same logits with classes in another order, in the same basis."""
    rotation = basis.T @ basis[order]  # f -> basis' (basis f)[order]
    return f @ rotation.T, rotation @ S @ rotation.T


@pytest.mark.parametrize(("K", "stds"), [(3, (0.3, 1.0, 3.0)), (10, (0.3, 1.0, 3.0)), (40, (0.7,))])
@pytest.mark.parametrize(
    ("scale", "of_means", "of_quantiles"),
    [(2.0, 1e-9, 1e-9), pytest.param(0.0, 1e-3, 0.02, id="tied")],  # tied classes: equal within the error of the nodes
)
def test_softmax_does_not_depend_on_the_order_of_classes(K, stds, scale, of_means, of_quantiles):
    f, S, basis = problem(K, stds=stds, scale=scale)
    order = np.random.default_rng(1).permutation(K)
    f_new, S_new = permuted(f, S, basis, order)
    got, expected = softmax_mean(f_new, S_new, basis), softmax_mean(f, S, basis)[:, order]
    np.testing.assert_allclose(got, expected, rtol=0, atol=of_means)
    got, expected = softmax_quantiles(f_new, S_new, basis, LEVELS), softmax_quantiles(f, S, basis, LEVELS)[:, order]
    np.testing.assert_allclose(got, expected, rtol=0, atol=of_quantiles)


def test_exchangeable_classes_have_equal_probabilities():
    basis = helmert(6).T
    S = np.array([1.0, 9.0, 400.0])[:, None, None] * np.eye(5)
    np.testing.assert_allclose(softmax_mean(np.zeros((3, 5)), S, basis), 1 / 6, rtol=0, atol=1e-3)
    quantiles = softmax_quantiles(np.zeros((3, 5)), S, basis, LEVELS)
    np.testing.assert_allclose(quantiles - quantiles[:, :1], 0, atol=0.01)


# ---------------------------------------------------------------------- limits
def test_zero_variance_gives_the_plain_softmax():
    f, S, basis = problem(8)
    plain = softmax(f @ basis.T, axis=1)
    np.testing.assert_allclose(softmax_mean(f, 0 * S, basis), plain, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        softmax_quantiles(f, 0 * S, basis, LEVELS), np.repeat(plain[:, :, None], 3, axis=2), rtol=0, atol=1e-14
    )
    np.testing.assert_allclose(softmax_mean(f, 1e-9 * S, basis), plain, rtol=0, atol=1e-7)


def test_small_variances_follow_the_second_order_expansion():
    f, S, basis = problem(5, stds=(0.05,))
    p, C = softmax(f @ basis.T, axis=1), basis @ S @ basis.T
    diagonal, Cp = np.einsum("nii->ni", C), np.einsum("nij,nj->ni", C, p)
    pCp, trace = (p * Cp).sum(axis=1, keepdims=True), (p * diagonal).sum(axis=1, keepdims=True)
    expected = p + p * (diagonal - 2 * Cp + 2 * pCp - trace) / 2
    np.testing.assert_allclose(softmax_mean(f, S, basis), expected, rtol=0, atol=2e-5)  # the change is up to 1e-3


@pytest.mark.parametrize("logit", [1.0, 1e4])
@pytest.mark.parametrize("variance", [0.0, 1.0, 1e6])
def test_extreme_logits_and_variances_stay_finite(logit, variance):
    f, S, basis = problem(7)
    means = softmax_mean(logit * f, variance * S, basis)
    assert np.isfinite(means).all()
    assert (means >= 0).all()
    np.testing.assert_allclose(means.sum(axis=1), 1, rtol=0, atol=1e-14)
    quantiles = softmax_quantiles(logit * f, variance * S, basis, LEVELS)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=2) >= 0).all()


def test_huge_variances_leave_the_most_probable_class():
    """In the limit a softmax is the indicator of the largest logit: orthant probabilities, known for three classes."""
    basis = helmert(3).T
    C = np.diag([1.0, 4.0, 9.0])
    got = softmax_mean(np.zeros((1, 2)), 1e8 * (basis.T @ C @ basis)[None], basis)[0]
    for c in range(3):
        a, b = (j for j in range(3) if j != c)
        correlation = C[c, c] / np.sqrt((C[c, c] + C[a, a]) * (C[c, c] + C[b, b]))
        assert got[c] == pytest.approx(0.25 + np.arcsin(correlation) / (2 * np.pi), abs=1e-3)


def test_softmax_quantiles_are_in_the_order_of_their_levels():
    f, S, basis = problem(6)
    levels = np.linspace(0.01, 0.99, 23)
    quantiles = softmax_quantiles(f, S, basis, levels)
    assert (np.diff(quantiles, axis=2) >= 0).all()
    shuffled = np.random.default_rng(0).permutation(23)
    np.testing.assert_allclose(softmax_quantiles(f, S, basis, levels[shuffled]), quantiles[:, :, shuffled], atol=1e-12)


# ---------------------------------------------------------------------- numbers of nodes
def test_means_move_continuously_with_the_covariance():
    f, S, basis = problem(6, stds=(1.0,))
    path = np.array([softmax_mean(f, factor * S, basis) for factor in np.linspace(0, 2, 201)])
    assert np.abs(np.diff(path, n=2, axis=0)).max() < 1e-3  # no jumps where a row takes more nodes


def test_rows_do_not_depend_on_their_neighbours():
    f, S, basis = problem(12)
    whole = softmax_mean(f, S, basis)
    alone = np.concatenate([softmax_mean(f[i : i + 1], S[i : i + 1], basis) for i in range(len(f))])
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-12)
    assert softmax_mean(f[:0], S[:0], basis).shape == (0, 12)
    assert softmax_quantiles(f[:0], S[:0], basis, LEVELS).shape == (0, 12, 3)


# ---------------------------------------------------------------------- closed forms
@pytest.mark.parametrize(("K", "tolerance"), [(3, 0.02), (10, 0.03)])
@pytest.mark.parametrize("kind", KINDS)
def test_closed_mean_is_near_monte_carlo(K, tolerance, kind):
    """Classes whose logits move together, which pairs of classes do not show, have larger errors."""
    f, S, basis = problem(K, [kind], stds=(0.1, 0.3, 0.7))
    means = closed_mean(f, S, basis)
    for i in range(len(f)):
        expected = draws_of(f[i], S[i], basis, 40_000).mean(axis=0)
        together = K == 10 and kind in ("rank one", "correlated")
        np.testing.assert_allclose(means[i], expected, rtol=0, atol=0.1 if together else tolerance)


@pytest.mark.parametrize("K", [3, 10])
@pytest.mark.parametrize(("std", "tolerance"), [(0.1, 0.05), (0.3, 0.1), (0.7, 0.3)])
@pytest.mark.parametrize("kind", ["independent", "rank three", "wishart", "one class", "unequal"])
def test_closed_quantiles_are_near_monte_carlo(K, std, tolerance, kind):
    f, S, basis = problem(K, [kind], stds=(std,))
    quantiles = closed_quantiles(f, S, basis, LEVELS)
    for i in range(len(f)):
        bounds = np.quantile(draws_of(f[i], S[i], basis, 40_000), LEVELS, axis=0).T
        width = bounds[:, 2] - bounds[:, 0]
        assert (np.abs(quantiles[i] - bounds) < tolerance * width[:, None] + 0.002).all()
        assert (np.abs(quantiles[i, :, 2] - quantiles[i, :, 0] - width) < tolerance * width + 0.002).all()


@pytest.mark.parametrize("kind", KINDS)
def test_closed_quantiles_are_in_the_order_of_their_levels(kind):
    f, S, _ = problem(6, [kind])
    quantiles = ClassProbabilities(Latent(f, S), Categorical(6)).quantile(np.linspace(0.01, 0.99, 23))
    assert (np.diff(quantiles, axis=2) >= -1e-12).all()


def test_closed_mean_of_two_classes_is_near_the_integral():
    f, variance = np.linspace(-6, 6, 25), np.array([0.0, 0.1, 1.0, 4.0, 25.0, 1e4])
    f, variance = (grid.ravel() for grid in np.meshgrid(f, variance))
    got = closed_mean(f[:, None], variance[:, None, None], np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(got, logistic_mean(f, variance), rtol=0, atol=0.02)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-14)


def test_closed_forms_with_a_class_that_never_wins_equal_two_classes():
    f, variance = np.array([-1.0, 0.5, 2.0]), np.array([0.1, 0.4, 3.0])
    basis, covariance = np.array([[0.0, 0], [1, 0], [0, 1]]), np.zeros((3, 2, 2))
    covariance[:, 0, 0] = variance
    logits = np.column_stack([f, np.full(3, -400.0)])
    two = closed_mean(f[:, None], variance[:, None, None], np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(closed_mean(logits, covariance, basis)[:, :2], two, rtol=1e-10)
    got = closed_quantiles(logits, covariance, basis, LEVELS)[:, :2]
    np.testing.assert_allclose(got, logistic_quantiles(f, variance, LEVELS), rtol=1e-10)


def test_closed_forms_do_not_depend_on_the_order_of_classes():
    f, S, basis = problem(7)
    order = np.random.default_rng(1).permutation(7)
    f_new, S_new = permuted(f, S, basis, order)
    np.testing.assert_allclose(closed_mean(f_new, S_new, basis), closed_mean(f, S, basis)[:, order], atol=1e-12)
    got, expected = closed_quantiles(f_new, S_new, basis, LEVELS), closed_quantiles(f, S, basis, LEVELS)[:, order]
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_closed_forms_without_variance_are_the_plain_softmax():
    f, S, basis = problem(8)
    plain = softmax(f @ basis.T, axis=1)
    np.testing.assert_allclose(closed_mean(f, 0 * S, basis), plain, rtol=1e-12)
    quantiles = closed_quantiles(f, 0 * S, basis, LEVELS)
    np.testing.assert_allclose(quantiles, np.repeat(plain[:, :, None], 3, axis=2), rtol=1e-12)


@pytest.mark.parametrize("logit", [1.0, 1e4])
@pytest.mark.parametrize("variance", [0.0, 1.0, 1e6])
def test_closed_forms_of_extreme_logits_and_variances_stay_finite(logit, variance):
    f, S, basis = problem(7)
    means, quantiles = (
        closed_mean(logit * f, variance * S, basis),
        closed_quantiles(logit * f, variance * S, basis, LEVELS),
    )
    assert np.isfinite(means).all() and np.isfinite(quantiles).all()
    assert (means >= 0).all() and (quantiles >= 0).all() and (quantiles <= 1).all()
    np.testing.assert_allclose(means.sum(axis=1), 1, rtol=0, atol=1e-14)


def test_closed_forms_of_rows_do_not_depend_on_their_neighbours():
    f, S, basis = problem(12)
    for whole, alone in (
        (closed_mean(f, S, basis), [closed_mean(f[[i]], S[[i]], basis) for i in range(len(f))]),
        (
            closed_quantiles(f, S, basis, LEVELS),
            [closed_quantiles(f[[i]], S[[i]], basis, LEVELS) for i in range(len(f))],
        ),
    ):
        np.testing.assert_allclose(whole, np.concatenate(alone), rtol=0, atol=1e-12)
    assert closed_mean(f[:0], S[:0], basis).shape == (0, 12)
    assert closed_quantiles(f[:0], S[:0], basis, LEVELS).shape == (0, 12, 3)
