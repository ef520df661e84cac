"""Pointwise losses against finite differences, scikit-learn's private losses and exact arithmetic."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad_vec
from scipy.special import expit, softmax
from sklearn._loss import HalfTweedieLoss, HalfTweedieLossIdentity

from skribbon.models.losses import (
    Bernoulli,
    Categorical,
    GaussianNLL,
    Huber,
    HuberWithScale,
    Loss,
    SquaredEpsilonInsensitive,
    StudentT,
    Tweedie,
)

N = 40
rng = np.random.default_rng(0)
F = rng.normal(size=(N, 1))
Y = F[:, 0] + rng.standard_t(3, N)
POSITIVE = rng.gamma(2.0, size=N)
WITH_SCALE = np.column_stack([F[:, 0], rng.uniform(0.5, 2.0, N)])

CASES = {
    **{f"tweedie-{p}-log": (Tweedie(p, "log"), F, POSITIVE) for p in (0, 1, 1.3, 2, 3)},
    **{f"tweedie-{p}-identity": (Tweedie(p, "identity"), np.exp(F), POSITIVE) for p in (0, 1, 1.3, 2, 3)},
    "tweedie-negative-power": (Tweedie(-1, "identity"), np.exp(F), POSITIVE),
    "poisson-zeros": (Tweedie(1, "log"), F, np.floor(POSITIVE)),
    "compound-zeros": (Tweedie(1.5, "log"), F, np.where(POSITIVE > 1, POSITIVE, 0.0)),
    "huber": (Huber(1.0), F, Y),
    "insensitive": (SquaredEpsilonInsensitive(0.3), F, Y),
    "huber-scale": (HuberWithScale(1.35), WITH_SCALE, Y),
    "student-t": (StudentT(), F, Y),
    "student-t-cauchy": (StudentT(df=1, scale=0.4), F, Y),
    "gaussian-nll": (GaussianNLL(), np.column_stack([F[:, 0], rng.normal(size=N)]), Y),
    "bernoulli": (Bernoulli(), F, (Y > 0).astype(float)),
    "bernoulli-weighted": (Bernoulli(np.array([0.5, 3.0])), F, (Y > 0).astype(float)),
    "categorical": (Categorical(4), rng.normal(size=(N, 3)), rng.integers(0, 4, N).astype(float)),
    "categorical-weighted": (
        Categorical(3, np.array([1.0, 0.2, 5.0])),
        rng.normal(size=(N, 2)),
        rng.integers(0, 3, N).astype(float),
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    return request.param


def central_difference(function, f, step=1e-5):
    """Derivative of a row-wise function along each coordinate of f, on a new last axis."""
    columns = []
    for direction in np.eye(f.shape[1]):
        columns.append((function(f + step * direction) - function(f - step * direction)) / (2 * step))
    return np.stack(columns, axis=-1)


def away_from_kinks(loss, f, y):
    """Rows whose finite difference does not straddle a kink of the gradient."""
    if not hasattr(loss, "epsilon"):
        return np.ones(len(y), dtype=bool)
    r = (y - f[:, 0]) / (f[:, 1] if f.shape[1] == 2 else 1)
    return np.abs(np.abs(r) - loss.epsilon) > 1e-3


def law(loss, f):
    """scipy's distribution of y, row by row, for a loss that is a log likelihood beyond the exponential family."""
    if isinstance(loss, StudentT):
        return stats.t(loss.df, f[:, 0], loss.scale)
    return stats.norm(f[:, 0], np.exp(f[:, 1] / 2))


def hessian_averaged_over(y_law, loss, f):
    """E[d2l/df2 | x] by quadrature, (n, k, k)."""

    def integrand(y):
        return y_law.pdf(y)[:, None, None] * loss.hessian(f, np.full(len(f), y))

    return quad_vec(integrand, -np.inf, np.inf, epsabs=1e-10)[0]


# ---------------------------------------------------------------------- the contract, for every loss
def test_gradient(case):
    loss, f, y = case
    assert_allclose(loss.gradient(f, y), central_difference(lambda f: loss.value(f, y), f), rtol=1e-6, atol=1e-7)


def test_hessian(case):
    loss, f, y = case
    smooth = away_from_kinks(loss, f, y)
    f, y = f[smooth], y[smooth]
    assert len(y) > N / 2
    assert_allclose(loss.hessian(f, y), central_difference(lambda f: loss.gradient(f, y), f), rtol=1e-6, atol=1e-7)


def test_curvature_root_squares_to_the_expected_hessian(case):
    loss, f, y = case
    R = loss.curvature_root(f, y)
    squared = R @ R.transpose(0, 2, 1)
    assert np.linalg.matrix_rank(squared).max() == loss.curvature_rank
    if isinstance(loss, StudentT | GaussianNLL):
        assert_allclose(squared, hessian_averaged_over(law(loss, f), loss, f), rtol=1e-8, atol=1e-8)
        return
    # the Hessian is linear in y for every Tweedie loss and free of it elsewhere: its mean is its value at E[y]
    mean = loss.mean(f[:, 0]) if isinstance(loss, Tweedie) else y
    assert_allclose(squared, loss.hessian(f, mean), rtol=1e-9, atol=1e-12)


def test_convexity_is_claimed_only_where_it_holds(case):
    loss, f, y = case
    eigenvalues = np.linalg.eigvalsh(loss.hessian(f, y))
    if loss.convex:
        assert eigenvalues.min() > -1e-12
    assert loss.value(f, y).shape == (len(y),)


@pytest.mark.parametrize(("power", "link"), [(0, "log"), (1.5, "identity"), (2, "identity"), (3, "log")])
def test_convexity_is_not_claimed_where_it_fails(power, link):
    loss = Tweedie(power, link)
    f, y = np.full((2, 1), 0.5), np.array([1e-3, 50.0])
    assert loss.hessian(f, y).min() < 0
    assert not loss.convex


# ---------------------------------------------------------------------- Tweedie
@pytest.mark.parametrize("power", [0, 1, 1.5, 2, 3])
@pytest.mark.parametrize(("link", "reference"), [("log", HalfTweedieLoss), ("identity", HalfTweedieLossIdentity)])
def test_tweedie_agrees_with_scikit_learn(power, link, reference):
    f, y = (F if link == "log" else np.exp(F)), POSITIVE
    loss, expected = Tweedie(power, link), reference(power=power)
    gradient, hessian = expected.gradient_hessian(y_true=y, raw_prediction=f[:, 0].copy())
    assert_allclose(loss.gradient(f, y)[:, 0], gradient, rtol=1e-10, atol=1e-12)
    if not (link == "log" and power == 0):  # scikit-learn gives the expected one there
        assert_allclose(loss.hessian(f, y)[:, 0, 0], hessian, rtol=1e-10, atol=1e-12)
    values = expected.loss(y_true=y, raw_prediction=f[:, 0].copy())
    values = values + expected.constant_to_optimal_zero(y_true=y)
    assert_allclose(loss.value(f, y), values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("power", [0, 1, 1.5, 2, 3])
def test_half_deviance_vanishes_at_the_mean_only(power):
    loss, y = Tweedie(power, "log"), POSITIVE
    assert_allclose(loss.value(np.log(y)[:, None], y), 0, atol=1e-12)
    assert (loss.value(np.log(y)[:, None] + 0.1, y) > 1e-4).all()


def test_tweedie_mean_and_variance():
    loss, mu = Tweedie(1.5, "log"), np.array([0.5, 2.0])
    assert_allclose(loss.mean(np.log(mu)), mu)
    assert_allclose(loss.mean_derivative(np.log(mu)), mu)
    assert_allclose(loss.squared_residuals(np.log(mu)[:, None], mu + 1), mu**-1.5)
    assert_allclose(Tweedie().squared_residuals(mu[:, None], mu + 1), 1)


def test_poisson_loss_is_a_likelihood():
    y = np.arange(5.0)
    difference = Tweedie(1, "log").value(np.full((5, 1), 0.7), y) - Tweedie(1, "log").value(np.full((5, 1), 0.2), y)
    expected = stats.poisson.logpmf(y, np.exp(0.2)) - stats.poisson.logpmf(y, np.exp(0.7))
    assert_allclose(difference, expected, atol=1e-12)


# ---------------------------------------------------------------------- likelihoods beyond the exponential family
@pytest.mark.parametrize("name", ["student-t", "student-t-cauchy", "gaussian-nll"])
def test_loss_is_a_log_likelihood_up_to_a_constant(name):
    loss, f, y = CASES[name]
    constant = loss.value(f, y) + law(loss, f).logpdf(y)
    assert_allclose(constant, constant[0], rtol=1e-12)
    assert f.shape[1] == loss.n_outputs
    assert not loss.convex


def test_only_a_loss_that_models_the_noise_scales_it():
    _, f, _ = CASES["gaussian-nll"]
    assert_allclose(GaussianNLL().noise_scale(f), law(GaussianNLL(), f).var())
    assert_allclose(StudentT(df=3, scale=2.0).noise_scale(F), 1)
    assert_allclose(Tweedie(2, "log").noise_scale(F), 1)


def test_student_t_bounds_large_residuals_and_approaches_squared_error():
    f = np.zeros((3, 1))
    gradient = StudentT(df=4.0).gradient(f, np.array([-2.0, -20.0, -2000.0]))[:, 0]
    assert (np.diff(gradient) < 0).all()
    nearly_normal, scale = StudentT(df=1e9, scale=2.0), 2.0
    assert_allclose(nearly_normal.gradient(F, Y), Tweedie().gradient(F, Y) / scale**2, rtol=1e-6)


# ---------------------------------------------------------------------- classifiers
def test_categorical_of_two_classes_is_bernoulli():
    y = (Y > 0).astype(float)
    two, B = Categorical(2), Categorical(2).basis
    contrast = B[1] - B[0]  # log odds per unit of f
    odds = F * contrast
    assert_allclose(two.value(F, y), Bernoulli().value(odds, y), rtol=1e-12)
    assert_allclose(two.gradient(F, y), Bernoulli().gradient(odds, y) * contrast, rtol=1e-10)
    assert_allclose(two.probabilities(F), Bernoulli().probabilities(odds), rtol=1e-12)


def test_probabilities_keep_further_axes():
    f = rng.normal(size=(6, 3, 5))
    loss = Categorical(4)
    P = loss.probabilities(f)
    assert P.shape == (6, 4, 5)
    for b in range(5):
        assert_allclose(P[:, :, b], softmax(f[:, :, b] @ loss.basis.T, axis=1))
    f = rng.normal(size=(6, 1, 5))
    assert_allclose(Bernoulli().probabilities(f), np.concatenate([1 - expit(f), expit(f)], axis=1))


@pytest.mark.parametrize("K", [2, 3, 7])
def test_zero_sum_basis(K):
    B = Categorical(K).basis
    assert_allclose(B.T @ B, np.eye(K - 1), atol=1e-14)
    assert_allclose(B.sum(axis=0), 0, atol=1e-14)


SATURATED = np.array([-800.0, -300.0, -40.0, 40.0, 300.0, 800.0])


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_bernoulli_derivatives_are_exact_near_probability_one(y):
    f, targets = SATURATED[:, None], np.full(6, y)
    wrong_odds = SATURATED * (1 - 2 * y)  # log odds of the class that was not observed
    small = np.exp(-np.abs(SATURATED))  # p, or 1 - p, up to its own square
    loss = Bernoulli()
    expected = np.where(wrong_odds > 0, 1.0, small) * (1 - 2 * y)
    assert_allclose(loss.gradient(f, targets)[:, 0], expected, rtol=1e-12)
    assert_allclose(loss.hessian(f, targets)[:, 0, 0], small, rtol=1e-12)
    assert_allclose(loss.curvature_root(f, targets)[:, 0, 0] ** 2, small, rtol=1e-12)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_bernoulli_value_is_exact_near_probability_one(y):
    right = (SATURATED > 0) == (y == 1)
    expected = np.where(right, np.exp(-np.abs(SATURATED)), np.abs(SATURATED))
    assert_allclose(Bernoulli().value(SATURATED[:, None], np.full(6, y)), expected, rtol=1e-12)


@pytest.fixture(params=[40.0, 100.0, 300.0])
def sure(request):
    """Three classes, the observed one ahead of the others by a gap: P = (1, q, q) with q = exp(-gap)."""
    loss = Categorical(3)
    return loss, np.array([[request.param, 0.0, 0.0]]) @ loss.basis, np.zeros(1), np.exp(-request.param)


def test_categorical_gradient_is_exact_near_probability_one(sure):
    loss, f, y, q = sure
    assert_allclose(loss.gradient(f, y) @ loss.basis.T, [[-2 * q, q, q]], rtol=1e-9)


def test_categorical_value_is_exact_near_probability_one(sure):
    loss, f, y, q = sure
    assert_allclose(loss.value(f, y), 2 * q, rtol=1e-9)


def test_categorical_curvature_is_exact_near_probability_one(sure):
    loss, f, y, q = sure
    expected = q * np.array([[2.0, -1.0, -1.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])  # diag P - P P' up to q^2
    R = loss.curvature_root(f, y)
    for C in (loss.hessian(f, y)[0], R[0] @ R[0].T):
        assert_allclose(loss.basis @ C @ loss.basis.T, expected, rtol=1e-9, atol=1e-9 * q)


@pytest.mark.parametrize("gap", [0.0, 3.0, 60.0])
@pytest.mark.parametrize(("K", "ahead"), [(2, 0), (2, 1), (5, 0), (5, 2), (5, 4), (40, 17)])
def test_categorical_hessian_is_a_sum_of_squared_differences(K, ahead, gap):
    loss, y = Categorical(K, np.linspace(0.5, 2, K)), rng.integers(0, K, N).astype(float)
    f = (rng.normal(size=(N, K)) + gap * (np.arange(K) == ahead)) @ loss.basis
    P, differences = loss.probabilities(f), loss.basis[:, None] - loss.basis  # (n, K), (K, K, k)
    expected = np.einsum("n,nc,nd,cdk,cdl->nkl", loss.class_weight[y.astype(int)] / 2, P, P, differences, differences)
    got = loss.hessian(f, y)
    size = np.sqrt(np.einsum("nkk,nll->nkl", expected, expected))
    assert (np.abs(got - expected) <= 1e-13 * K * size).all()
    R = loss.curvature_root(f, y)
    assert (np.abs(R @ R.transpose(0, 2, 1) - got) <= 1e-9 * size).all()
    assert_allclose(loss.curvature_trace(f, y), np.einsum("nkk->n", expected), rtol=1e-12)


def test_categorical_at_800_is_finite():
    loss = Categorical(3)
    f = 800 * np.array([[1.0, 0.0], [0.0, -1.0], [-1.0, 1.0]])
    y = np.arange(3.0)
    for array in (loss.value(f, y), loss.gradient(f, y), loss.hessian(f, y), loss.curvature_root(f, y)):
        assert np.isfinite(array).all()
    assert_allclose(loss.probabilities(f).sum(axis=1), 1)


# ---------------------------------------------------------------------- a loss that users write
def test_missing_methods_are_named():
    class Half(Loss):
        pass

    for call in (Half().value, Half().gradient, Half().hessian, Half().curvature_root):
        with pytest.raises(TypeError, match="Half must define"):
            call(F, Y)


@pytest.mark.parametrize("loss", [Tweedie(), Tweedie(1, "log"), Tweedie(1.5, "log")])
def test_a_loss_is_printed_as_it_is_written(loss):
    twin = eval(repr(loss))
    f, y = np.array([[0.3], [1.2]]), np.array([2.0, 0.5])
    assert (twin.power, twin.link) == (loss.power, loss.link)
    assert_allclose(twin.value(f, y), loss.value(f, y))


@pytest.mark.parametrize("K", [2, 3, 10])
@pytest.mark.parametrize("size", [1, 10, 100])  # a classifier in doubt, and one that is all but sure
def test_softmax_root_has_full_rank_and_relative_precision(K, size):
    loss, y = Categorical(K, np.linspace(0.5, 2, K)), rng.integers(0, K, N).astype(float)
    f = size * rng.normal(size=(N, K - 1))
    R, C = loss.curvature_root(f, y), loss.hessian(f, y)
    assert R.shape == (N, K - 1, K - 1)
    scale = np.sqrt(np.einsum("nkk->nk", C))
    assert (np.abs(R @ R.transpose(0, 2, 1) - C) <= 1e-13 * scale[:, :, None] * scale[:, None, :]).all()
