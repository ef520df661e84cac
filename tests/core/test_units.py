"""The second pass over rows, against the hat matrix, exact refits and plain sums."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.linalg import fractional_matrix_power
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from trained import trained

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon._core import rows as _rows
from skribbon._core import units as _units
from skribbon._core.rows import Block, Rows
from skribbon._core.thresholds import MAX_LEVERAGE
from skribbon._core.training import Training, corrected_scores, second_moment
from skribbon.curvature import EmpiricalFisher, GaussNewton, Hessian
from skribbon.models import as_parametric

N = 400


def rows_of(estimator, form=np.asarray):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) * (rng.random((N, 3)) < 0.7)
    y = rng.integers(0, 3, N)
    weight = rng.integers(0, 4, N).astype(float)
    model = as_parametric(estimator.fit(X, y), y, weight)
    return Rows(model, form(X), model.encode_target(y), weight)


MODELS = {
    "ridge": lambda: rows_of(Ridge()),
    "ridge-sparse": lambda: rows_of(Ridge(), sparse.csr_array),
    "poisson": lambda: rows_of(PoissonRegressor()),
    "multinomial": lambda: rows_of(LogisticRegression()),
    "network": lambda: rows_of(
        MLPClassifier(hidden_layer_sizes=(4,), solver="lbfgs", alpha=5.0, max_iter=500, random_state=0)
    ),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def rows(request):
    return request.param()


def plain_hat(training):
    """C_i and A_i (n, k, k) from the whole Jacobian and an inverse by numpy."""
    rows, curvature = training.rows, training.curvature
    Z = rows.model.rows(rows.X)
    J, C = rows.model.jacobian(Z), curvature.of_loss(Block(rows.model, Z, rows.y, rows.weight))
    A = J @ np.linalg.pinv(training.H_r.to_dense()) @ J.transpose(0, 2, 1)
    return C, A * (np.minimum(rows.weight, 1.0) / rows.n)[:, None, None]


@pytest.mark.parametrize("curvature", [Hessian(), GaussNewton(), EmpiricalFisher()], ids=lambda c: type(c).__name__)
def test_leverages_are_traces_of_the_hat_matrix(rows, curvature):
    if isinstance(curvature, Hessian) and rows.model.has_layers:
        pytest.skip("indefinite")
    training = Training.from_rows(rows, curvature)
    C, A = plain_hat(training)
    expected = np.einsum("nkl,nlk->n", C, A) / rows.model.loss.curvature_rank
    assert_allclose(training.record.leverage[:, 0], np.minimum(expected, MAX_LEVERAGE), rtol=1e-6, atol=1e-10)
    assert_allclose(training.record.growth, 1 / (1 - training.record.leverage))


@pytest.mark.parametrize("fractions", [False, True])
def test_effective_parameters_are_the_sum_of_leverages(rows, fractions):
    if fractions:
        rows = replace(rows, weight=np.random.default_rng(1).uniform(0.1, 2.0, N))
    training = Training.from_rows(rows, GaussNewton())
    rank = rows.model.loss.curvature_rank
    assert_allclose(training.units.parameters.sum() * rank, training.effective_parameters, rtol=1e-8)


def H_Fc(training):
    return second_moment(training, *corrected_scores(training))


def test_blocks_do_not_change_the_second_pass(rows, monkeypatch):
    whole = Training.from_rows(rows, GaussNewton(), "HC2")
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 1)
    cut = Training.from_rows(rows, GaussNewton(), "HC2")
    assert len(cut.units.pieces) == 25
    for name, values in whole.record._asdict().items():
        assert_allclose(getattr(cut.record, name), values, rtol=1e-8, atol=1e-10, err_msg=name)
    assert_allclose(H_Fc(cut), H_Fc(whole), rtol=1e-8, atol=1e-12)
    assert_allclose(cut.units.grown, whole.units.grown, rtol=1e-8)


@pytest.mark.parametrize("correction, power", [("HC0", 0.0), ("HC2", -0.5), ("HC3", -1.0)])
def test_scores_of_least_squares_grow_by_powers_of_one_minus_leverage(correction, power):
    rows = MODELS["ridge"]()
    training = Training.from_rows(rows, Hessian(), correction)
    Z = rows.model.rows(rows.X)
    h, r = training.record.leverage[:, 0], rows.model.raw(Z)[:, 0] - rows.y
    G = Z * (r * (1 - h) ** power)[:, None]
    off = G - training.moments.g_bar
    assert_allclose(H_Fc(training), off.T @ (rows.weight[:, None] * off) / rows.n, rtol=1e-9)


def test_leverages_of_a_classifier_count_as_one_half_at_most():
    """HC3 scores of a classifier with a cap of one half on leverages."""
    rng = np.random.default_rng(4)
    X = np.column_stack([np.arange(60) < 2, rng.normal(size=60)]).astype(float)  # a category of two rows
    y = (X[:, 1] + rng.normal(size=60) > 0).astype(int)
    y[:2] = 0, 1
    model = as_parametric(LogisticRegression(C=1e4).fit(X, y), y, np.ones(60))
    rows = Rows(model, X, model.encode_target(y), np.ones(60))
    training = Training.from_rows(rows, Hessian(), "HC3")
    C, A = plain_hat(training)
    h, u = (C * A)[:, 0, 0], rows.map(lambda block: block.u)[:, 0]
    assert h[:2].min() > 0.45 and h.max() > 0.5
    u = np.clip(u / (1 - np.minimum(h, 0.5)), -1, 1)  # no gradient of a log loss is longer
    off = u[:, None] * model.rows(X) - training.moments.g_bar
    assert_allclose(H_Fc(training), off.T @ off / 60, rtol=1e-7, atol=1e-9)


def test_leave_one_out_of_ridge_is_a_refit_without_the_row():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + rng.normal(size=30)
    base = Ridge(alpha=2.0)
    ribbon = RibbonRegressor(base, store_loo=True, noise="dof").fit(X, y)
    for i in range(5):
        others = np.arange(30) != i
        # the penalty counts per row: without one row the mean over n - 1 rows is scaled as the mean over n was
        refit = Ridge(alpha=2.0).fit(X[others], y[others])
        assert_allclose(ribbon.loo_residuals_[i], y[i] - refit.predict(X[[i]])[0], rtol=1e-9)


# ---------------------------------------------------------------------- influential rows
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("K", [0, 4])
def test_influential_rows_are_those_of_the_largest_leverages(K, form, monkeypatch):
    monkeypatch.setattr("skribbon._core.thresholds.MOST_INFLUENTIAL", 60)
    monkeypatch.setattr("skribbon._core.thresholds.MIN_INFLUENTIAL_LEVERAGE", 0.005)
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 2**15)
    rng = np.random.default_rng(5)
    X = rng.standard_t(3, size=(3000, 5))
    y = X.sum(axis=1) + rng.normal(size=3000)
    y = np.digitize(y, np.quantile(y, np.arange(1, K) / K)) if K else y
    ribbon = RibbonClassifier(LogisticRegression(max_iter=1000)) if K else RibbonRegressor(Ridge(alpha=3.0))
    _, training = trained(ribbon, form(X), y, None, None)
    found, h = training.units.influential.leverage, training.record.leverage[:, 0]
    expected = np.sort(h[h >= 0.005])[::-1][: 60 // (K - 1 if K else 1)]
    assert 5 < len(expected) == len(found)
    assert_allclose(np.sort(found)[::-1], expected, rtol=1e-10)


# ---------------------------------------------------------------------- rows that determine their own prediction
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("far", [0.0, 1e4])
def test_single_direction_of_a_row_far_out(far, form):
    X = np.random.default_rng(0).normal(size=(5000, 3))
    X[17, 1] += far
    model = as_parametric(LinearRegression().fit(X, X[:, 0]), X[:, 0], np.ones(5000))
    training = Training.from_rows(Rows(model, form(X), X[:, 0], np.ones(5000)), Hessian())
    assert training.units.single.shape == (1 if far else 0, 4)
    if far:  # theta moves with the target of that row as a refit with another target does
        y = X[:, 0].copy()
        y[17] += 1.0
        refit = LinearRegression().fit(X, y)
        moved = np.append(refit.coef_, refit.intercept_) - model.theta
        assert_allclose(training.units.single[0], moved, rtol=1e-6, atol=1e-12)


def test_stored_directions_of_single_rows_are_few(monkeypatch):
    monkeypatch.setattr(_units, "MOST_SINGLE", 5)
    monkeypatch.setattr(_rows, "BLOCK_BYTES", 1)
    X = np.eye(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, training = trained(RibbonRegressor(Ridge(1e-6), noise=1.0), X, np.arange(60.0))
    assert training.units.n_single == 60
    assert len(training.units.single) == 5


# ---------------------------------------------------------------------- passes
def test_a_default_fit_makes_two_passes(monkeypatch):
    passes, every = [], Rows.sum
    monkeypatch.setattr(Rows, "sum", lambda self, f, width=None: passes.append(f) or every(self, f, width))
    monkeypatch.setattr(Rows, "map", lambda self, f, width=None: pytest.fail("a third pass"))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    RibbonRegressor(Ridge()).fit(X, X[:, 0] + rng.normal(size=300))
    assert len(passes) == 2


def test_a_network_that_fits_one_block_is_linearized_once_for_all_passes(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    base = MLPRegressor(hidden_layer_sizes=(5,), solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    model = type(as_parametric(base.fit(X, y), y, np.ones(200)))
    count, tangent = [], model.tangent
    monkeypatch.setattr(model, "tangent", lambda self, Z: count.append(len(Z)) or tangent(self, Z))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RibbonRegressor(base, noise="dof").fit(X, y)
    assert count == [200, 200]  # for the passes of the fit, and for the largest variance at the training rows


@pytest.mark.parametrize("power", [-1.0, -0.5])
@pytest.mark.parametrize("size", [0.01, 0.09, 0.5], ids=["short series", "long series", "eigenvalues"])
def test_resolvent_equals_matrix_powers(power, size):
    rng = np.random.default_rng(0)
    C, A = (np.array([F @ F.T / np.trace(F @ F.T) for F in rng.normal(size=(6, 4, 4))]) for _ in range(2))
    u = rng.normal(size=(6, 4))
    powers = [fractional_matrix_power(np.eye(4) - size * c @ a, power) for c, a in zip(C, A, strict=True)]
    expected = np.einsum("nkl,nl->nk", np.real(powers), u)
    assert_allclose(_units.resolvent(size * C, A, u, power), expected, rtol=1e-9)
