"""Networks that may have memorized their rows learn from rows that refits, or their own early stopping, left out."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brute
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import HuberRegressor, LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neural_network import MLPRegressor, _multilayer_perceptron
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import trained

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor, cross_val_interval
from skribbon._core import thresholds
from skribbon._core.units import covariance_without
from skribbon._estimators import held_out
from skribbon._estimators.held_out import compared, on_scale_of, refitted, set_aside
from skribbon._estimators.settings import Settings
from skribbon._predict.held_out import HeldOut, Unseen
from skribbon.curvature import GaussNewton, LastLayer
from skribbon.exceptions import FlexibleModelWarning
from skribbon.metrics import interval_coverage_score
from skribbon.models import as_parametric
from skribbon.models.architectures import mlp
from skribbon.models.autograd import AutogradRegressor
from skribbon.models.base import training_rows
from skribbon.noise.fit import UnseenFit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 4))
Y = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.4 * RNG.normal(size=700)
TRAIN, TEST = slice(0, 200), slice(200, 700)


class CountingNetwork(MLPRegressor):
    """Network that counts its fits, and keeps the rows of each."""

    fits = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        CountingNetwork.fits.append(np.array(X))
        return super().fit(X, y, sample_weight)


def memorizing(**settings):
    """Network of 60 units, which fits 200 rows almost perfectly."""
    given = {"hidden_layer_sizes": (60,), "solver": "lbfgs", "alpha": 1e-4, "max_iter": 200, "random_state": 0}
    return CountingNetwork(**(given | settings))


@pytest.fixture
def counted():
    CountingNetwork.fits = []
    return CountingNetwork.fits


def quiet_fit(ribbon, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FlexibleModelWarning)
        return ribbon.fit(*args, **kwargs)


# ---------------------------------------------------------------------- what a user sees
def test_refits_restore_coverage_of_a_network_that_memorized_its_rows():
    honest = quiet_fit(RibbonRegressor(memorizing()), X[TRAIN], Y[TRAIN])
    with pytest.warns(FlexibleModelWarning, match=r"memorized its rows.*Try: held_out='auto'"):
        alone = RibbonRegressor(memorizing(), held_out="loo").fit(X[TRAIN], Y[TRAIN])
    covered = [interval_coverage_score(Y[TEST], own.predict_interval(X[TEST])) for own in (honest, alone)]
    assert 0.86 < covered[0] < 0.96 and covered[1] < 0.8
    assert (honest.held_out_.origin, honest.held_out_.n_fits, alone.held_out_.n_fits) == ("folds", 3, 0)
    assert honest.held_out_.n_rows == 120
    np.testing.assert_array_equal(honest.predict(X[TEST]), honest.estimator_.predict(X[TEST]))
    np.testing.assert_array_equal(honest.predict(X[TEST]), alone.predict(X[TEST]))


def test_linear_models_and_small_networks_are_not_refitted(counted):
    assert RibbonRegressor(Ridge()).fit(X, Y).held_out_.n_fits == 0
    assert quiet_fit(RibbonRegressor(HuberRegressor()), X[:25], Y[:25]).held_out_ is None
    few = quiet_fit(RibbonRegressor(memorizing(hidden_layer_sizes=(4,))), X, Y)
    assert (few.held_out_.origin, len(counted)) == ("loo", 1)


def test_stated_noise_needs_no_refits(counted):
    with pytest.warns(FlexibleModelWarning):
        RibbonRegressor(memorizing(), noise=0.16).fit(X[TRAIN], Y[TRAIN])
    assert len(counted) == 1
    quiet_fit(RibbonRegressor(memorizing(), noise=0.16, held_out=2), X[TRAIN], Y[TRAIN])
    assert len(counted) == 4


def test_result_does_not_depend_on_n_jobs_or_row_order():
    fits = [RibbonRegressor(memorizing(), random_state=3, n_jobs=n).fit(X[TRAIN], Y[TRAIN]) for n in (None, 2)]
    bounds = [own.predict_interval(X[TEST]) for own in fits]
    np.testing.assert_array_equal(*bounds)
    order, split = np.random.default_rng(1).permutation(200), []
    for rows in (np.arange(200), order):
        split.append(held_out._splits("auto", X[rows], Y[rows], None, None, {}, False, None))
    for (_, test), (_, other) in zip(*split, strict=True):
        np.testing.assert_array_equal(np.sort(test), np.sort(order[other]))


def test_fit_without_a_seed_is_reproducible_by_its_own_seeds():
    ribbon = RibbonRegressor(memorizing(random_state=None, solver="adam", early_stopping=True)).fit(X, Y)
    assert isinstance(ribbon.estimator_.random_state, int | np.integer)
    rows = training_rows(ribbon.model_, X, Y, np.ones(700))
    assert set_aside(ribbon.estimator_, as_parametric(ribbon.estimator_, Y, np.ones(700)), rows) is not None


@pytest.mark.parametrize("held_out", ["fold", 1, 1.5, None, True])
def test_bad_held_out_is_refused_before_the_fit(held_out, counted):
    with pytest.raises(ValueError, match=r"held_out must be 'auto', 'loo', 'early_stopping', a number of folds >= 2"):
        RibbonRegressor(memorizing(), held_out=held_out).fit(X[TRAIN], Y[TRAIN])
    assert not counted


def test_frozen_networks_cannot_be_refitted():
    frozen = FrozenEstimator(memorizing().fit(X[TRAIN], Y[TRAIN]))
    with pytest.warns(FlexibleModelWarning, match="Try: conformalize.*a frozen network cannot be refitted"):
        RibbonRegressor(frozen).fit(X[TRAIN], Y[TRAIN])
    with pytest.raises(ValueError, match=r"held_out=5 needs refits, but the base model is frozen"):
        RibbonRegressor(frozen, held_out=5).fit(X[TRAIN], Y[TRAIN])


def test_unstable_training_warns():
    models = [as_parametric(memorizing(random_state=k).fit(X[TRAIN], Y[TRAIN]), Y[TRAIN], np.ones(200)) for k in (0, 1)]
    models[1] = models[1].at(models[1].theta * 3)
    splits = [(np.arange(100), np.arange(100, 200)), (np.arange(100, 200), np.arange(100))]
    rows = training_rows(models[0], X[TRAIN], Y[TRAIN], np.ones(200))
    with pytest.warns(FlexibleModelWarning, match=r"held-out errors that differ by a factor of .*training is unstable"):
        compared(models, splits, models[0], rows, X[TRAIN])


# ---------------------------------------------------------------------- refits
def test_refits_are_cold_and_predict_only_rows_they_have_not_seen(counted):
    ribbon = RibbonRegressor(memorizing(), random_state=0)
    fitted, rows = ribbon._fit_base_model(X[TRAIN], Y[TRAIN], None, None)
    unseen = refitted(ribbon, fitted["estimator_"], "auto", rows.model, rows, (X[TRAIN], Y[TRAIN], None, None))
    assert len(counted) == 4 and list(np.bincount(unseen.fold)) == [40, 40, 40]
    start, expected, own = 0, [], Y[TRAIN] - fitted["estimator_"].predict(X[TRAIN])
    for seen, size in zip(counted[1:], np.bincount(unseen.fold), strict=True):
        test = unseen.rows[start : start + size]
        assert not (X[TRAIN][test][:, None] == seen[None]).all(axis=2).any()
        train = np.setdiff1d(np.arange(200), test)
        refit = clone(memorizing()).set_params(random_state=_seeds(0, 3)[len(expected)]).fit(X[train], Y[train])
        np.testing.assert_allclose(unseen.f[start : start + size, 0], refit.predict(X[test]), rtol=1e-10)
        r = Y[TRAIN] - refit.predict(X[TRAIN])
        expected.append([np.mean(r[test] ** 2), np.mean(r[train] ** 2), np.mean(own[train] ** 2)])
        start += size
    out, train_error, full = np.mean(expected, axis=0)
    error = full + (out - train_error) * (1 - 0.2 * train_error / out)
    assert unseen.ratio[0] == pytest.approx(error / out, rel=1e-8)


def _seeds(seed, n):
    """Seeds of the random_state of each refit's network."""
    drawn = np.random.RandomState(seed).randint(held_out.MAX_SEED, size=n)
    return [np.random.RandomState(own).randint(held_out.MAX_SEED) for own in drawn]


def test_groups_stay_together_in_refits(counted):
    groups = np.repeat(np.arange(50), 4)
    ribbon = quiet_fit(RibbonRegressor(memorizing()), X[TRAIN], Y[TRAIN], groups=groups)
    assert ribbon.held_out_.origin == "folds" and len(counted) == 4
    for seen in counted[1:]:
        among = (X[TRAIN][:, None] == seen[None]).all(axis=2).any(axis=1)
        assert set(np.bincount(groups, weights=among)) == {0.0, 4.0}


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
def test_grouped_network_with_a_thousand_parameters():
    base = memorizing(hidden_layer_sizes=(190,), max_iter=10)
    wide = RibbonRegressor(base, held_out="loo", noise="dof").fit(X[:40], Y[:40], groups=np.repeat(np.arange(4), 10))
    assert len(wide.model_.theta) > 1100 and np.isfinite(wide.predict_interval(X[TEST])).all()


def test_groups_of_one_row_are_no_groups():
    alone, grouped = (RibbonRegressor(memorizing()).fit(X[TRAIN], Y[TRAIN], groups=g) for g in (None, np.arange(200)))
    np.testing.assert_allclose(alone.predict_interval(X[TEST]), grouped.predict_interval(X[TEST]), rtol=1e-9)


def test_splitters_and_positions_choose_the_held_out_rows():
    by_group = RibbonRegressor(memorizing(), held_out=GroupKFold(4))
    assert by_group.fit(X[TRAIN], Y[TRAIN], groups=np.repeat(np.arange(50), 4)).held_out_.n_fits == 4
    pairs = [(np.arange(100, 200), np.arange(100))]
    ribbon = RibbonRegressor(memorizing(), held_out=pairs).fit(X[TRAIN], Y[TRAIN])
    assert (ribbon.held_out_.n_rows, ribbon.held_out_.n_fits) == (100, 1)
    linear = RibbonRegressor(Ridge(), held_out=KFold(3)).fit(X, Y)
    assert (linear.held_out_.n_rows, linear.held_out_.n_fits) == (700, 3)
    assert linear.noise_.dispersion_ == pytest.approx(RibbonRegressor(Ridge()).fit(X, Y).noise_.dispersion_, rel=0.05)


def test_weights_are_multiplicities_in_refits():
    weight = np.where(np.arange(200) < 100, 2.0, 1.0)
    base, pairs = memorizing(solver="lbfgs"), [(np.arange(50, 150), np.r_[0:50, 150:200])]
    weighted = RibbonRegressor(base, held_out=pairs).fit(X[TRAIN], Y[TRAIN], sample_weight=weight)
    rows = np.repeat(np.arange(200), weight.astype(int))
    again = [np.flatnonzero(np.isin(rows, part)) for part in pairs[0]]
    repeated = RibbonRegressor(base, held_out=[tuple(again)]).fit(X[TRAIN][rows], Y[TRAIN][rows])
    widths = [np.diff(own.predict_interval(X[TEST])).mean() for own in (weighted, repeated)]
    assert widths[0] == pytest.approx(widths[1], rel=0.1)  # lbfgs stops elsewhere


def test_refits_with_transformers_of_their_own_are_moved_to_the_scale_of_the_fit():
    base = TransformedTargetRegressor(make_pipeline(StandardScaler(), memorizing()), transformer=StandardScaler())
    full, other = (clone(base).fit(X[rows], 5 + 3 * Y[rows]) for rows in (slice(0, 200), slice(0, 150)))
    models = [as_parametric(own, 5 + 3 * Y[:n], np.ones(n)) for own, n in ((full, 200), (other, 150))]
    f = models[1].raw(models[1].rows(models[1].prepare(X[TEST])))
    moved = on_scale_of(models[0], models[1], f)
    np.testing.assert_allclose(full.transformer_.inverse_transform(moved)[:, 0], other.predict(X[TEST]), rtol=1e-9)
    spread = on_scale_of(models[0], models[1], np.column_stack([f, np.zeros(len(f))]))[:, 1]
    ratio = other.transformer_.scale_ / full.transformer_.scale_
    np.testing.assert_allclose(spread, 2 * np.log(ratio[0]), atol=1e-6)  # the log variance of a modelled noise
    ribbon = quiet_fit(RibbonRegressor(base), X[TRAIN], 5 + 3 * Y[TRAIN])
    assert 0.8 < interval_coverage_score(5 + 3 * Y[TEST], ribbon.predict_interval(X[TEST])) < 0.98


def test_sparse_rows_are_refitted():
    thin = quiet_fit(RibbonRegressor(memorizing()), sparse.csr_matrix(X[TRAIN]), Y[TRAIN])
    tables = X[TRAIN], sparse.csr_matrix(X[TRAIN])
    splits = [held_out._splits("auto", A, Y[TRAIN], None, None, {}, False, None) for A in tables]
    for (_, test), (_, other) in zip(*splits, strict=True):
        np.testing.assert_array_equal(test, other)
    assert thin.held_out_.n_fits == 3
    assert 0.8 < interval_coverage_score(Y[TEST], thin.predict_interval(sparse.csr_matrix(X[TEST]))) < 0.98


@pytest.mark.parametrize("kind", ["regressor", "classifier", "search"])
def test_refits_do_not_overwrite_x(kind):
    """A scaler with copy=False overwrites what it is given, so refits must give it copies."""
    base = memorizing() if kind == "regressor" else LogisticRegression(C=1e5, solver="newton-cholesky")
    Ribbon = {"regressor": RibbonRegressor, "classifier": RibbonClassifier, "search": RibbonCV}[kind]
    Z, y = 3 + 2 * X[TRAIN], Y[TRAIN] if kind == "regressor" else (X[TRAIN, 0] > 0).astype(int)
    ribbons = [Ribbon(make_pipeline(StandardScaler(copy=copy), base)).fit(Z, y) for copy in (True, False)]
    np.testing.assert_array_equal(Z, 3 + 2 * X[TRAIN])
    assert ribbons[1].held_out_.origin == "folds"
    method = "predict_interval" if kind == "regressor" else "predict_proba_interval"
    bounds = [getattr(ribbon, method)(3 + 2 * X[TEST]) for ribbon in ribbons]
    np.testing.assert_allclose(*bounds, rtol=1e-6, atol=1e-12)


def test_draws_are_scaled_by_held_out_rows():
    exact = RibbonRegressor(memorizing()).fit(X[TRAIN], Y[TRAIN])
    drawn = RibbonRegressor(memorizing(), predictive="pushforward", n_draws=800, random_state=0).fit(X[TRAIN], Y[TRAIN])
    ratio = drawn.predict_std(X[TEST]) / exact.predict_std(X[TEST])  # factor and noise are fitted jointly
    assert 0.9 < np.median(ratio) < 1.1
    assert 0.8 < interval_coverage_score(Y[TEST], drawn.predict_interval(X[TEST])) < 0.98


def test_several_outputs_share_the_factor_of_the_covariance():
    both = np.column_stack([Y, -2 * Y + RNG.normal(size=700)])
    ribbon = quiet_fit(RibbonRegressor(memorizing(hidden_layer_sizes=(30,))), X[TRAIN], both[TRAIN])
    assert ribbon.held_out_.n_fits == 3
    covered = interval_coverage_score(both[TEST], ribbon.predict_interval(X[TEST]), multioutput="raw_values")
    assert np.all((covered > 0.8) & (covered < 0.99))
    assert ribbon.noise_.correlation[0, 1] < -0.3


def test_autograd_and_poisson_networks_are_refitted():
    own = AutogradRegressor(mlp((40,)), l2=1e-4, max_iter=100, random_state=0)
    assert quiet_fit(RibbonRegressor(own), X[TRAIN], Y[TRAIN]).held_out_.n_fits == 3
    counts = RNG.poisson(np.exp(0.5 * X[:, 0]))
    poisson = MLPRegressor(loss="poisson", hidden_layer_sizes=(30,), solver="lbfgs", max_iter=60, random_state=0)
    ribbon = RibbonRegressor(poisson).fit(X[TRAIN], counts[TRAIN])
    assert ribbon.held_out_.n_fits == 3
    assert ribbon.noise_.dispersion_ > 0
    assert interval_coverage_score(counts[TEST], ribbon.predict_interval(X[TEST])) > 0.85


# ---------------------------------------------------------------------- early stopping
def test_rows_of_early_stopping_are_drawn_again(monkeypatch):
    drawn, split = [], _multilayer_perceptron.train_test_split

    def recorded(*args, **kwargs):
        drawn.append(split(*args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(_multilayer_perceptron, "train_test_split", recorded)
    network = MLPRegressor(hidden_layer_sizes=(30, 20), early_stopping=True, validation_fraction=0.4, random_state=7)
    ribbon = quiet_fit(RibbonRegressor(network, curvature="last_layer"), X, Y)
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_rows, ribbon.held_out_.n_fits) == ("early_stopping", 280, 0)
    fitted = ribbon.estimator_
    rows = training_rows(model := as_parametric(fitted, Y, np.ones(700)), X, Y, np.ones(700))
    unseen = set_aside(fitted, model, rows)
    np.testing.assert_array_equal(X[unseen.rows], drawn[0][1])
    assert r2_score(Y[unseen.rows], unseen.f[:, 0]) == pytest.approx(fitted.best_validation_score_, abs=1e-12)
    fitted.best_validation_score_ += 1e-3
    assert set_aside(fitted, model, rows) is None


def test_rows_of_early_stopping_are_not_used_with_groups():
    network = MLPRegressor(hidden_layer_sizes=(60,), early_stopping=True, validation_fraction=0.4, random_state=0)
    assert RibbonRegressor(network).fit(X, Y, groups=np.arange(700) // 70).held_out_.origin == "folds"


def test_few_rows_of_early_stopping_are_used_only_if_asked():
    network = MLPRegressor(hidden_layer_sizes=(60,), early_stopping=True, random_state=0)
    assert RibbonRegressor(network).fit(X[TRAIN], Y[TRAIN]).held_out_.origin == "folds"
    asked = RibbonRegressor(network, held_out="early_stopping").fit(X[TRAIN], Y[TRAIN])
    assert (asked.held_out_.origin, asked.held_out_.n_rows) == ("early_stopping", 20)
    with pytest.raises(ValueError, match="needs an MLPRegressor or MLPClassifier with early_stopping=True"):
        RibbonRegressor(memorizing(), held_out="early_stopping").fit(X[TRAIN], Y[TRAIN])


def test_frozen_network_uses_its_rows_of_early_stopping():
    network = MLPRegressor(hidden_layer_sizes=(60,), early_stopping=True, validation_fraction=0.4, random_state=0)
    ribbon = quiet_fit(RibbonRegressor(FrozenEstimator(network.fit(X, Y))), X, Y)
    assert ribbon.held_out_.origin == "early_stopping"


def test_large_network_that_is_refitted_gets_the_last_layer():
    deep = {"hidden_layer_sizes": (38, 38), "max_iter": 30, "solver": "adam"}
    ribbon = RibbonRegressor(memorizing(**deep)).fit(X[TRAIN], Y[TRAIN])
    assert isinstance(ribbon.curvature_, LastLayer) and ribbon.held_out_.n_fits == 3
    with pytest.warns(FlexibleModelWarning):
        alone = RibbonRegressor(memorizing(**deep), held_out="loo").fit(X[TRAIN], Y[TRAIN])
    assert isinstance(alone.curvature_, GaussNewton)


def test_tiny_damping_warns_that_held_out_rows_cannot_help():
    with pytest.warns(FlexibleModelWarning, match=r"leaves 1.00 effective parameters per row"):
        RibbonRegressor(memorizing(), damping=1e-9).fit(X[TRAIN], Y[TRAIN])


# ---------------------------------------------------------------------- scales
@pytest.mark.parametrize("k", [1, 2])
def test_covariance_without_a_row_equals_sums_over_all_others(k):
    y = np.column_stack([Y, np.cos(Y)])[:60, :k] if k > 1 else Y[:60]
    network = MLPRegressor(hidden_layer_sizes=(3,), activation="tanh", solver="lbfgs", alpha=1.0, random_state=0)
    _, training = trained(RibbonRegressor(network, correction="HC2", held_out="loo", noise="dof"), X[:60], y)
    rows = training.rows
    J, u = rows.model.tangent(rows.X).jacobian(), rows.map(lambda block: block.u)  # (n, k, p), (n, k)
    H_r = np.einsum("nkp,nkq->pq", J, J) / 60 + np.diag(rows.model.l2)
    A = np.einsum("ikp,pq,jlq->iklj", J, np.linalg.inv(H_r) / 60, J).transpose(0, 1, 3, 2)  # (i, k, j, l)
    corrected = []
    for j in range(60):
        values, vectors = np.linalg.eigh(A[j, :, j])
        corrected.append((vectors / np.sqrt(1 - values)) @ vectors.T @ u[j])
    for i in range(60):
        moves = np.array([A[i, :, j] @ corrected[j] for j in range(60)])
        others, back = np.delete(moves, i, axis=0), np.linalg.inv(np.eye(k) - A[i, :, i])
        found = covariance_without(training, rows.take([i]), (moves.T @ moves)[None])[0]
        np.testing.assert_allclose(found, back @ (others.T @ others) @ back.T, rtol=1e-6, atol=1e-12)


def test_scales_maximize_the_likelihood_and_recover_known_ones():
    rng, n = np.random.default_rng(3), 4000
    dispersion, variance = rng.uniform(0.5, 2, size=n), rng.uniform(0, 3, size=n)
    squared = (0.5 * dispersion + 3 * variance) * rng.normal(size=n) ** 2
    fit = _unseen_fit(dispersion, variance, squared, centre=1.0)
    c, s = fit.scales()
    assert c == pytest.approx(0.5, rel=0.3) and s == pytest.approx(3, rel=0.15)

    def loss(x):
        total = np.exp(x[0]) * dispersion + np.exp(x[1]) * variance
        return np.sum(np.log(total) + squared / total) / 2 + thresholds.EPISTEMIC_PRIOR / 2 * x[1] ** 2

    best = brute(loss, ((-3, 1), (-1, 2)), Ns=40)
    np.testing.assert_allclose([c, s], np.exp(best), rtol=1e-3)
    assert fit.scales(factor=2.0)[1] == pytest.approx(2.0)


def test_epistemic_scale_stays_at_its_centre_without_evidence():
    few = _unseen_fit(np.ones(30), np.ones(30), np.full(30, 2.0), centre=5.0)
    c, s = few.scales()
    assert c + s == pytest.approx(2.0, rel=0.6) and s < 5.0
    none = _unseen_fit(np.ones(30), np.zeros(30), np.full(30, 2.0), centre=5.0)
    np.testing.assert_allclose(none.scales(), [2.0, 5.0], rtol=1e-4)


def _unseen_fit(dispersion, variance, squared, centre):
    from skribbon._laws.noise_distributions import NORMAL
    from skribbon._predict.predictive import Latent, Predictive
    from skribbon._predict.target import TargetScale
    from skribbon.models.losses import Tweedie
    from skribbon.noise import ConstantNoise

    n = len(squared)
    latent = Latent(np.zeros((n, 1)), variance[:, None, None])
    own = Predictive(latent, Tweedie(), np.zeros(n), NORMAL, TargetScale())
    record = HeldOut(own, np.zeros((n, 1)), np.sqrt(squared), np.ones(n), squared=squared)
    return UnseenFit(ConstantNoise(1.0), "normal", Tweedie(), record, dispersion, False, centre)


def test_factor_scales_the_ribbon_and_replaces_degrees_of_freedom():
    base = memorizing()
    ribbon = RibbonRegressor(base, random_state=0).fit(X[TRAIN], Y[TRAIN])
    assert ribbon.ribbon_.freedom is None
    settings = Settings.from_regressor(ribbon, Y[TRAIN])
    assert settings.learns
    four = ribbon.with_alpha((4 * (200 + 1) - 1) / 200)
    ratio = ribbon.predict_std(X[TEST], kind="epistemic") / four.predict_std(X[TEST], kind="epistemic")
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-9)
    assert ribbon.effective_parameters_ == pytest.approx(0.5 * 200, rel=1e-5)


def test_errors_of_unseen_rows_get_the_expected_size():
    y, f = RNG.normal(size=(50, 2)), RNG.normal(size=(20, 2))
    unseen = Unseen(np.arange(20), f, np.array([0.25, 4.0]), "folds")
    np.testing.assert_allclose(y[:20] - unseen.sized(y, True), [0.5, 2.0] * (y[:20] - f))
    np.testing.assert_array_equal(unseen.sized(y, False), f)


# ---------------------------------------------------------------------- searches
def test_ribbon_cv_of_a_network_refits_each_fold_once(counted):
    tuned = quiet_fit(RibbonCV(RibbonRegressor(memorizing(), random_state=0), cv=4), X[TRAIN], Y[TRAIN])
    assert len(counted) == 5
    assert (tuned.held_out_.n_rows, tuned.held_out_.n_fits) == (200, 4)
    assert sum(name.startswith("split") and name.endswith("_nll") for name in tuned.cv_results_) == 4
    assert 0.86 < interval_coverage_score(Y[TEST], tuned.predict_interval(X[TEST])) < 0.97
    direct = RibbonRegressor(memorizing(), alpha=tuned.alpha_, held_out=4, random_state=0).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(direct.predict_interval(X[TEST]), tuned.predict_interval(X[TEST]), rtol=1e-9)


def test_ribbon_cv_scores_do_not_depend_on_the_alpha_of_the_ribbon():
    scores = [
        RibbonCV(RibbonRegressor(memorizing(), alpha=alpha, random_state=0), cv=3)
        .fit(X[TRAIN], Y[TRAIN])
        .cv_results_["mean_test_nll"]
        for alpha in (1.0, 9.0)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-9)


def test_ribbon_cv_has_no_refits_within_its_folds(counted):
    stored = RibbonCV(memorizing(), cv=3, store_folds=True).fit(X[TRAIN], Y[TRAIN])
    assert len(counted) == 4
    assert interval_coverage_score(Y[TEST], stored.predict_interval(X[TEST], kind="cv+")) > 0.85


def test_cross_val_interval_uses_the_fits_of_other_folds_as_refits(counted):
    interval = cross_val_interval(RibbonRegressor(memorizing()), X[:250], Y[:250], cv=5)
    assert len(counted) == 5
    assert 0.8 < interval_coverage_score(Y[:250], interval) < 0.98
    alone = cross_val_interval(RibbonRegressor(memorizing(), held_out="loo"), X[:250], Y[:250], cv=5)
    assert interval_coverage_score(Y[:250], alone) < 0.7


def test_dask_rows_are_not_refitted():
    table = pytest.importorskip("dask.array")
    lazy = [table.from_array(A, chunks=100) for A in (X[TRAIN], Y[TRAIN])]
    network = MLPRegressor(hidden_layer_sizes=(60,), solver="lbfgs", max_iter=50, random_state=0)
    with pytest.raises(ValueError, match="held_out=3 needs rows in memory"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        RibbonRegressor(network, held_out=3).fit(*lazy)
    with pytest.warns(FlexibleModelWarning, match="Try: RibbonCV"):
        RibbonRegressor(network).fit(*lazy)
