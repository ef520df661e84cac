"""Ensembles and the two bootstraps: against statsmodels, against each other, and with members that fail."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import AutogradRegressor, RibbonRegressor
from skribbon._core.refits import minimise
from skribbon.baselines import (
    BayesianBootstrapClassifier,
    BayesianBootstrapRegressor,
    BootstrapClassifier,
    BootstrapRegressor,
    DeepEnsembleClassifier,
    DeepEnsembleRegressor,
    MemberWarning,
)
from skribbon.baselines.ensembles import dirichlet

RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -1.0, 0.5] + 2 + (0.3 + np.abs(X[:, 0])) * RNG.normal(size=N)  # heteroskedastic: HC0 is not OLS
LABELS = np.digitize(Y + RNG.logistic(size=N), [1.0, 3.0])
X_NEW = RNG.normal(size=(20, 3))
NETWORK = MLPRegressor(hidden_layer_sizes=(5,), activation="tanh", solver="lbfgs", max_iter=50)


def z_of_variances(members, expected, n_members):
    """Log ratio of sample variances to expected ones, in standard errors of it."""
    return np.log(members / expected) / np.sqrt(2 / (n_members - 1))


def hc0_variances(X_new):
    fit = sm.OLS(Y, sm.add_constant(X)).fit(cov_type="HC0")
    design = sm.add_constant(X_new)
    return np.einsum("ij,jk,ik->i", design, fit.cov_params(), design)


@pytest.mark.parametrize(
    "estimator",
    [BayesianBootstrapRegressor(), BayesianBootstrapRegressor(start="optimum"), BootstrapRegressor()],
    ids=["Bayesian", "from the optimum", "classical"],
)
def test_bootstrap_of_least_squares_equals_hc0(estimator):
    B = 600
    est = estimator.set_params(n_members=B, random_state=0).fit(X, Y)
    z = z_of_variances(est.predict_std(X_NEW, kind="epistemic") ** 2, hc0_variances(X_NEW), B)
    assert np.abs(z).max() < 4
    ols = sm.OLS(Y, sm.add_constant(X)).fit()
    design = sm.add_constant(X_NEW)
    nonrobust = np.einsum("ij,jk,ik->i", design, ols.cov_params(), design)
    assert np.abs(z_of_variances(nonrobust, hc0_variances(X_NEW), B)).max() > 5  # the test can tell
    mean, std = est.predict(X_NEW), est.predict_std(X_NEW, kind="epistemic")
    assert np.abs((mean - ols.predict(design)) / std).max() < 5 / np.sqrt(B)


def test_bayesian_bootstrap_alpha_is_the_concentration():
    stds = [
        BayesianBootstrapRegressor(alpha=alpha, n_members=300, random_state=0)
        .fit(X, Y)
        .predict_std(X_NEW, kind="epistemic")
        for alpha in (1.0, 4.0)
    ]
    np.testing.assert_allclose(stds[0] / stds[1], np.sqrt((4 * N + 1) / (N + 1)), rtol=0.25)
    assert abs(np.mean(stds[0] / stds[1]) - 2) < 0.1


def test_dirichlet_moments():
    m, rng = np.array([1.0, 3.0, 0.5, 2.5]), np.random.default_rng(1)
    w = np.stack([dirichlet(m, 0.7, rng) for _ in range(40000)])
    n = m.sum()
    np.testing.assert_allclose(w.sum(axis=1), n)
    np.testing.assert_allclose(w.mean(axis=0), m, rtol=0.02)
    np.testing.assert_allclose(w.var(axis=0), m * (n - m) / (0.7 * n + 1), rtol=0.03)


@pytest.mark.parametrize(
    ("pair", "rtol"),
    [
        ((BayesianBootstrapRegressor(Ridge(20.0)), Y), 1e-8),
        (
            (BayesianBootstrapClassifier(LogisticRegression(C=0.1, solver="newton-cholesky", tol=1e-12)), LABELS > 0),
            1e-6,
        ),
        ((BayesianBootstrapClassifier(LogisticRegression(C=0.1, tol=1e-10, max_iter=1000)), LABELS), 1e-4),
    ],
    ids=["ridge", "logistic", "softmax"],
)
def test_both_starts_reach_the_same_minimum(pair, rtol):
    (estimator, y), predict = pair, "predict" if pair[1] is Y else "predict_proba"
    first, second = (
        getattr(estimator.set_params(start=start, n_members=4, random_state=0).fit(X, y), predict)(X_NEW)
        for start in ("scratch", "optimum")
    )
    np.testing.assert_allclose(first, second, rtol=rtol)


def test_ribbon_approximates_the_refits_of_a_ridge():
    refits = BayesianBootstrapRegressor(Ridge(30.0), n_members=400, start="optimum", random_state=0).fit(X, Y)
    ribbon = RibbonRegressor(Ridge(30.0), correction="HC0").fit(X, Y)
    z = z_of_variances(
        refits.predict_std(X_NEW, kind="epistemic") ** 2, ribbon.predict_std(X_NEW, kind="epistemic") ** 2, 400
    )
    assert np.abs(z).max() < 4


@pytest.mark.parametrize(
    "estimator", [BootstrapRegressor(), BayesianBootstrapRegressor()], ids=["classical", "Bayesian"]
)
def test_ensemble_weights_are_frequencies_in_any_row_order(estimator):
    weight, order = RNG.integers(0, 4, N), RNG.permutation(N)
    estimator.set_params(n_members=10, random_state=0)
    repeated = estimator.fit(X.repeat(weight, axis=0), Y.repeat(weight)).predict_interval(X_NEW)
    weighted = estimator.fit(X[order], Y[order], sample_weight=weight[order]).predict_interval(X_NEW)
    np.testing.assert_allclose(weighted, repeated)


# ---------------------------------------------------------------------- the distribution is that of the members
def test_identical_members_have_no_epistemic_variance():
    est = DeepEnsembleRegressor(LinearRegression(), n_members=7).fit(X, Y)
    np.testing.assert_array_equal(est.predict_std(X_NEW, kind="epistemic"), 0)
    np.testing.assert_allclose(est.predict(X_NEW), LinearRegression().fit(X, Y).predict(X_NEW), rtol=1e-13)
    classifier = DeepEnsembleClassifier(LogisticRegression(), n_members=3).fit(X, LABELS)
    np.testing.assert_allclose(
        classifier.predict_proba(X_NEW), LogisticRegression().fit(X, LABELS).predict_proba(X_NEW), rtol=1e-10
    )
    assert np.ptp(classifier.predict_proba_interval(X_NEW), axis=2).max() < 1e-14


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ensemble_is_made_of_networks_from_different_starts():
    base = NETWORK.set_params(random_state=3)  # a seed of the base model is the first member's alone
    est = DeepEnsembleRegressor(base, n_members=4, random_state=0).fit(X, Y)
    members = np.stack([m.raw(m.rows(m.prepare(X_NEW)))[:, 0] for m in est.members_])
    np.testing.assert_array_equal(members[0], base.fit(X, Y).predict(X_NEW))
    assert len(np.unique(members[:, 0])) == 4
    np.testing.assert_allclose(est.predict(X_NEW), members.mean(axis=0))
    np.testing.assert_allclose(est.predict_std(X_NEW, kind="epistemic"), members.std(axis=0))
    residuals = Y - est.predict(X)
    assert est.noise_.dispersion_ == pytest.approx(residuals @ residuals / (N - 1))
    samples = est.predict_samples(X_NEW, 4, kind="confidence", random_state=0)  # each member once
    np.testing.assert_allclose(np.sort(samples, axis=0), np.sort(members, axis=0))


def test_ensemble_mean_is_on_the_scale_of_predictions():
    counts = RNG.poisson(np.exp(X[:, 0]))
    est = BootstrapRegressor(PoissonRegressor(alpha=0), n_members=6, random_state=0).fit(X, counts)
    members = np.stack([np.exp(m.raw(m.rows(m.prepare(X_NEW)))[:, 0]) for m in est.members_])
    np.testing.assert_allclose(est.predict(X_NEW), members.mean(axis=0))
    assert (est.predict_interval(X_NEW) % 1 == 0).all()  # a mixture of counts


@pytest.mark.parametrize(
    "wrapped",
    [
        make_pipeline(StandardScaler(), LinearRegression()),
        TransformedTargetRegressor(LinearRegression(), transformer=StandardScaler()),
    ],
    ids=["scaled rows", "scaled target"],
)
def test_transformers_are_refitted_with_every_member(wrapped):
    """Least squares does not care for units, although every member has units of its own."""
    plain, scaled = (
        BootstrapRegressor(base, n_members=10, random_state=0).fit(pd.DataFrame(X), Y) for base in (None, wrapped)
    )
    new = pd.DataFrame(X_NEW)
    np.testing.assert_allclose(scaled.predict(new), plain.predict(new))
    np.testing.assert_allclose(scaled.predict_std(new, kind="epistemic"), plain.predict_std(new, kind="epistemic"))
    np.testing.assert_allclose(scaled.predict_interval(new), plain.predict_interval(new), rtol=1e-6)


def test_bootstrap_class_missing_from_a_draw_has_zero_probability():
    labels = np.where(np.arange(N) < 2, 2, LABELS > 0)
    est = BootstrapClassifier(n_members=30, random_state=0).fit(X, labels)
    seen = np.array([len(m.classes) == 3 for m in est.members_])
    assert 0 < seen.sum() < 30
    rare = est.predict_proba_samples(X_NEW, 30, random_state=0)[:, :, 2]  # each member once
    assert ((rare < 1e-10).all(axis=1)).sum() == (~seen).sum()
    np.testing.assert_allclose(est.predict_proba(X_NEW).sum(axis=1), 1)


def test_noise_as_a_number_and_by_row():
    assert BootstrapRegressor(n_members=3, noise=0.25).fit(X, Y).predict_std(X_NEW, kind="aleatoric") == pytest.approx(
        0.5
    )
    by_row = BootstrapRegressor(n_members=3, noise="heteroskedastic", random_state=0).fit(X, Y)
    spread = by_row.predict_std(np.array([[0.0, 0, 0], [2.0, 0, 0]]), kind="aleatoric")
    assert spread[1] > 2 * spread[0]


# ---------------------------------------------------------------------- training
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("ensemble", [DeepEnsembleRegressor, BootstrapRegressor, BayesianBootstrapRegressor])
def test_jobs_do_not_change_the_result(ensemble):
    est = ensemble(NETWORK, n_members=3, random_state=0)
    alone = est.fit(X[:60], Y[:60]).predict_interval(X_NEW)
    together = est.set_params(n_jobs=2).fit(X[:60], Y[:60]).predict_interval(X_NEW)
    np.testing.assert_allclose(together, alone, rtol=1e-10)
    other = est.set_params(random_state=1).fit(X[:60], Y[:60]).predict_interval(X_NEW)
    assert np.abs(other - alone).max() > 1e-3


def test_user_function_is_sent_to_workers():
    line = AutogradRegressor(lambda params, X: X[:, 0] * params["a"] + params["b"], init={"a": 0.0, "b": 0.0})
    est = BootstrapRegressor(line, n_members=3, n_jobs=2, random_state=0).fit(X[:50], Y[:50])
    plain = BootstrapRegressor(line, n_members=3, random_state=0).fit(X[:50], Y[:50])
    np.testing.assert_allclose(est.predict_interval(X_NEW), plain.predict_interval(X_NEW), rtol=1e-10)


class Fragile(LinearRegression):
    """Fails on about half of all resamples, and never on the data themselves."""

    def __init__(self, how="raises"):
        super().__init__()
        self.how = how

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if y.mean() > Y.mean() + 1e-9:
            if self.how == "raises":
                raise RuntimeError("no luck")
            self.coef_ = self.coef_ * np.nan
        return self


@pytest.mark.parametrize(
    ("how", "reason"), [("raises", "RuntimeError: no luck"), ("nan", "parameters of .* are not finite")]
)
def test_failed_members_are_left_out(how, reason):
    with pytest.warns(MemberWarning, match=rf"^\d+ of 20 members failed and are left out: .*{reason}.* \(\d+\)"):
        est = BootstrapRegressor(Fragile(how), n_members=20, random_state=0).fit(X, Y)
    assert 0 < len(est.members_) < 20
    assert np.isfinite(est.predict_interval(X_NEW)).all()


class Hopeless(LinearRegression):
    """Fails on every resample."""

    def fit(self, X, y, sample_weight=None):
        if len(np.unique(y)) < len(y):
            raise RuntimeError("no luck")
        return super().fit(X, y, sample_weight)


def test_error_is_raised_if_all_members_fail():
    with pytest.raises(RuntimeError, match="no luck") as caught:
        BootstrapRegressor(Hopeless(), n_members=4).fit(X, Y)
    assert caught.value.__notes__ == ["All 4 members failed; this is the first one's error."]


def test_member_warnings_are_summarized():
    with pytest.warns(ConvergenceWarning) as caught:
        DeepEnsembleRegressor(NETWORK.set_params(max_iter=2), n_members=5, random_state=0).fit(X, Y)
    said = [str(warning.message) for warning in caught]
    assert len(said) == 2  # by the first member where it was trained, and by all the others together
    assert said[1].startswith("4 of 5 members warned; the first: lbfgs failed to converge")


def test_verbose_prints_progress(capsys):
    BootstrapRegressor(n_members=3, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"[Bootstrap] member {b} of 3" for b in (1, 2, 3)]
    assert all(line.endswith(" s") for line in lines)
    DeepEnsembleRegressor(LinearRegression(), n_members=2, verbose=1).fit(X, Y)
    assert capsys.readouterr().out.startswith("[DeepEnsemble] member 1 of 2: 0.0 s\n[DeepEnsemble] member 2 of 2: ")


def test_underflowing_dirichlet_weights_are_refused():
    with pytest.raises(ValueError, match="alpha=1e-300 is so small that all Dirichlet weights underflow"):
        dirichlet(np.ones(5), 1e-300, np.random.default_rng(0))


def test_base_model_without_routed_weights_is_refused():
    with config_context(enable_metadata_routing=True):
        base = Ridge().set_fit_request(sample_weight=False)
        with pytest.raises(ValueError, match="must request sample_weight, or set start='optimum'"):
            BayesianBootstrapRegressor(base, n_members=2).fit(X, Y)
        optimum = BayesianBootstrapRegressor(base, n_members=2, start="optimum", random_state=0).fit(X, Y)
    assert optimum.predict_std(X_NEW, kind="epistemic").min() > 0


def test_unconverged_refit_warns(monkeypatch):
    monkeypatch.setattr("skribbon.baselines.ensembles.minimise", partial(minimise, max_iter=1))
    base = PoissonRegressor(alpha=1e-3, tol=1e-10, max_iter=1000)
    estimator = BayesianBootstrapRegressor(base, n_members=3, start="optimum", alpha=0.05, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"3 of 3 members warned; the first: A refit stopped after 1 steps"):
        estimator.fit(X, np.round(np.exp(0.3 * Y)))
