"""Several outputs against fits to single ones, exact Dirichlet refits, autograd and scipy's multivariate laws."""

import pickle

import autograd.numpy as anp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scoringrules
from autograd import hessian, jacobian
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, PoissonRegressor, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skribbon import AutogradRegressor, RibbonCV, RibbonRegressor, inspection, metrics, plotting
from skribbon.models import polish
from skribbon.models.architectures import mlp
from skribbon.noise import ConstantNoise, JointNoise, NormalLaw, StudentLaw

MIX = np.array([[1.0, 0.8, 0.0], [0.0, 1.0, -0.3], [0.0, 0.0, 2.0]])


def data(n=150, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + [5.0, 0.0, -1.0][:d]
    noise = rng.standard_t(4, size=(n, 3)) @ MIX * np.exp(0.4 * X[:, 1:2])
    return X, X @ rng.normal(size=(d, 3)) + [1.0, -2.0, 0.0] + noise


X, Y = data()
WEIGHT = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
GROUP = np.arange(len(X)) // 5
NEW = X[::15] + 0.5
FITS = {"plain": {}, "weights": {"sample_weight": WEIGHT}, "groups": {"groups": GROUP}}
SCALED = TransformedTargetRegressor(Ridge(), transformer=StandardScaler())
BASES = {
    "ols": (LinearRegression(), [LinearRegression()] * 3),
    "ridge": (Ridge(3.0), [Ridge(3.0)] * 3),
    "ridge by target": (Ridge(np.array([0.1, 30.0, 2.0])), [Ridge(0.1), Ridge(30.0), Ridge(2.0)]),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), [make_pipeline(StandardScaler(), Ridge())] * 3),
    "scaled": (SCALED, [SCALED] * 3),
}
OPTIONS = {
    "default": {},
    "paper": {"noise": "train", "correction": "HC0"},
    "hc2": {"noise": "dof", "correction": "HC2"},
    "hc3": {"noise": "loo", "correction": "HC3", "law": "student"},
    "damped": {"noise": "dof", "damping": 0.1},
    "fisher": {"noise": "dof", "curvature": "fisher", "correction": "HC2"},  # "auto" is the same for all outputs
    "diagonal": {"noise": "dof", "curvature": "diag"},
}
quiet = pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")


# ---------------------------------------------------------------------- each output, as if it were alone
CASES = [("ols", options) for options in OPTIONS] + [(base, "default") for base in list(BASES)[1:]] + [("ridge", "hc2")]


@quiet
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(("base", "options"), CASES)
def test_outputs_equal_single_fits(base, options, fit):
    together, alone = BASES[base]
    kwargs = FITS[fit]
    ribbon = RibbonRegressor(together, **OPTIONS[options]).fit(X, Y, **kwargs)
    for j, single in enumerate(alone):
        one = RibbonRegressor(single, **OPTIONS[options]).fit(X, Y[:, j], **kwargs)
        for kind in ("prediction", "confidence"):
            expected = one.predict_interval(NEW, [0.5, 0.9], kind=kind)
            assert_allclose(ribbon.predict_interval(NEW, [0.5, 0.9], kind=kind)[:, j], expected, rtol=1e-10)
        assert_allclose(ribbon.predict(NEW)[:, j], one.predict(NEW), rtol=1e-10)
        assert_allclose(ribbon.noise_.predict(NEW)[:, j], one.noise_.predict(NEW), rtol=1e-10)
        assert ribbon.law_[j].name == one.law_.name


@quiet
@pytest.mark.parametrize("make", [sparse.csr_array, pd.DataFrame])
def test_other_tables(make):
    ribbon = RibbonRegressor(Ridge()).fit(X, Y)
    other = RibbonRegressor(Ridge(solver="cholesky" if make is pd.DataFrame else "auto")).fit(make(X), Y)
    assert_allclose(other.predict_interval(make(NEW)), ribbon.predict_interval(NEW), rtol=1e-3)


def test_shapes():
    ribbon, n = RibbonRegressor().fit(X, Y), len(NEW)
    assert ribbon.predict(NEW).shape == ribbon.predict_std(NEW).shape == (n, 3)
    assert ribbon.predict_interval(NEW).shape == (n, 3, 2)
    assert ribbon.predict_interval(NEW, [0.5, 0.8, 0.9, 0.95]).shape == (n, 3, 2, 4)
    assert ribbon.predict_quantiles(NEW, [0.1, 0.2, 0.3, 0.7]).shape == (n, 3, 4)
    assert ribbon.predict_samples(NEW, n_samples=7, random_state=0).shape == (7, n, 3)
    assert ribbon.predict(NEW, return_cov=True)[1].shape == (n, 3, 3)
    assert ribbon.covariance_.shape == (12, 12)
    assert ribbon.log_density(X, Y).shape == ribbon.predictive_cdf(X, Y).shape == Y.shape
    distribution = ribbon.predict_distribution(NEW)
    for method in ("mean", "std", "var", "prediction"):
        assert getattr(distribution, method)().shape == (n, 3)
    assert_allclose(distribution.quantile(0.3), distribution.quantile([0.3])[:, :, 0])


def test_a_table_of_one_column_follows_the_base_model():
    one = RibbonRegressor().fit(X, Y[:, 0])
    column = RibbonRegressor().fit(X, Y[:, [0]])
    assert column.predict(NEW).shape == LinearRegression().fit(X, Y[:, [0]]).predict(NEW).shape == (len(NEW), 1)
    assert_allclose(column.predict_interval(NEW)[:, 0], one.predict_interval(NEW), rtol=1e-10)
    assert one.predict_interval(NEW).shape == (len(NEW), 2)
    with pytest.warns(match="column-vector y"):  # as scikit-learn's own network does
        network = RibbonRegressor(MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", random_state=0), damping=0.1)
        network.fit(X, Y[:, [0]])
    assert network.predict(NEW).shape == (len(NEW),)
    with pytest.warns(match="column-vector y"):
        assert RibbonRegressor(PoissonRegressor()).fit(X, np.abs(Y[:, [0]])).predict(NEW).shape == (len(NEW),)


def test_frame_has_a_level_of_columns_for_the_outputs():
    ribbon = RibbonRegressor().fit(pd.DataFrame(X), pd.DataFrame(Y, columns=["a", "b", "c"]))
    frame = ribbon.predict_frame(pd.DataFrame(NEW, index=np.arange(len(NEW)) + 100))
    assert frame.columns.names == ["output", "column"]
    assert list(frame.columns.levels[0]) == list(ribbon.output_names_) == ["a", "b", "c"]
    assert frame.index[0] == 100
    one = RibbonRegressor().fit(pd.DataFrame(X), Y[:, 1]).predict_frame(pd.DataFrame(NEW))
    assert_allclose(frame["b"], one, rtol=1e-10)
    assert list(RibbonRegressor().fit(X, Y).output_names_) == [0, 1, 2]


# ---------------------------------------------------------------------- outputs together
@pytest.mark.parametrize("base", [LinearRegression(), Ridge(5.0)])
def test_covariance_across_outputs_is_that_of_exact_dirichlet_refits(base):
    rng, refits = np.random.default_rng(2), 3000
    X, Y = data(400)
    ribbon = RibbonRegressor(base, correction="HC0", noise="dof").fit(X, Y)
    Z = np.column_stack([X, np.ones(len(X))])
    penalty = np.diag([getattr(base, "alpha", 0.0)] * 3 + [0.0])
    theta = np.empty((refits, 12))
    for draw in theta:  # scikit-learn's fit at these weights, by its normal equations
        w = rng.dirichlet(np.ones(len(X))) * len(X)
        draw[:] = np.linalg.solve((Z.T * w) @ Z + penalty, (Z.T * w) @ Y).T.ravel()
    refit = clone(base).fit(X, Y, sample_weight=w)
    assert_allclose(theta[-1], np.column_stack([refit.coef_, refit.intercept_]).ravel(), rtol=1e-6)
    J = np.kron(np.eye(3), np.append(NEW[0], 1.0))
    for A in (np.eye(12), J):  # of the parameters, and of the predictions of a row
        found, expected = A @ ribbon.covariance_ @ A.T, A @ np.cov(theta.T) @ A.T
        std = np.sqrt(np.diag(found))
        correlation = found / np.outer(std, std)
        error = (expected / np.outer(std, std) - correlation) / np.sqrt((1 + correlation**2) / refits)
        assert np.abs(error).max() < 5.0  # heavy tails, and 78 numbers
        assert np.sqrt(np.mean(error**2)) < 1.6
    latent = ribbon.predict_distribution(NEW[:1], kind="confidence").covariance()[0]
    assert_allclose(latent, J @ ribbon.covariance_ @ J.T, rtol=1e-10)


@quiet
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("correction", ["HC0", "HC2", "HC3"])
def test_covariance_of_a_sum_of_outputs_is_that_of_a_model_of_the_sum(fit, correction):
    """Least squares is linear in y, and so is every corrected score."""
    ribbon = RibbonRegressor(Ridge(2.0), correction=correction, noise="dof").fit(X, Y, **FITS[fit])
    weights = np.array([1.0, -2.0, 0.5])
    total = RibbonRegressor(Ridge(2.0), correction=correction, noise="dof").fit(X, Y @ weights, **FITS[fit])
    J = np.kron(weights, np.eye(4))
    assert_allclose(J @ ribbon.covariance_ @ J.T, total.covariance_, rtol=1e-9)
    for kind in ("prediction", "confidence"):
        covariance = ribbon.predict_distribution(NEW, kind).covariance()
        one = (
            total.predict_distribution(NEW, kind).var()
            if kind == "prediction"
            else total.predict_std(NEW, "epistemic") ** 2
        )
        if kind == "confidence" or fit != "groups":  # whose products of residuals are not bilinear
            assert_allclose(np.einsum("j,njk,k->n", weights, covariance, weights), one, rtol=1e-9)


def test_noise_is_a_covariance():
    n, p = len(X), 4
    residuals = Y - LinearRegression().fit(X, Y).predict(X)
    products = residuals.T @ residuals
    assert_allclose(RibbonRegressor(noise="dof").fit(X, Y).noise_.dispersion_, products / (n - p), rtol=1e-10)
    assert_allclose(RibbonRegressor(noise="train").fit(X, Y).noise_.dispersion_, products / (n - 1), rtol=1e-10)
    given = products / n
    stated = RibbonRegressor(noise=given).fit(X, Y)
    assert_allclose(stated.noise_.dispersion_, given, rtol=1e-10)
    assert [law.name for law in stated.law_] == ["normal"] * 3
    assert_allclose(RibbonRegressor(noise=2.0).fit(X, Y).noise_.dispersion_, 2 * np.eye(3))
    assert_allclose(RibbonRegressor(noise=ConstantNoise(2.0)).fit(X, Y).noise_.dispersion_, 2 * np.eye(3))
    varying = RibbonRegressor(noise="heteroskedastic").fit(X, Y).noise_
    assert isinstance(varying, JointNoise)
    covariance = varying.covariance(NEW)
    assert np.ptp(covariance[:, 0, 0]) > 0
    assert_allclose(np.einsum("njj->nj", covariance), varying.predict(NEW))
    assert varying.correlation[0, 1] > 0.3


@pytest.mark.parametrize("noise", [np.eye(2), np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]), np.triu(np.ones((3, 3)))])
def test_noise_that_is_no_covariance(noise):
    with pytest.raises(ValueError, match=r"noise must be a symmetric \(3, 3\)"):
        RibbonRegressor(noise=noise).fit(X, Y)


def test_covariance_for_one_output():
    with pytest.raises(ValueError, match="covariance of several outputs"):
        RibbonRegressor(noise=np.eye(1)).fit(X, Y[:, 0])


def test_normal_laws_make_a_multivariate_normal_law():
    ribbon = RibbonRegressor(noise="dof", correction="HC3").fit(X, Y)  # without degrees of freedom
    distribution = ribbon.predict_distribution(NEW)
    rng = np.random.default_rng(0)
    y = ribbon.predict(NEW) + rng.normal(size=(len(NEW), 3))
    mean, covariance = ribbon.predict(NEW, return_cov=True)
    laws = [stats.multivariate_normal(m, c) for m, c in zip(mean, covariance, strict=True)]
    assert_allclose(
        distribution.joint_logpdf(y), [law.logpdf(row) for law, row in zip(laws, y, strict=True)], rtol=1e-8
    )
    far = [r @ np.linalg.solve(c, r) for r, c in zip(y - mean, covariance, strict=True)]
    assert_allclose(distribution.joint_level(y), stats.chi2(3).cdf(far), rtol=1e-7)
    draws = distribution.sample(20_000, random_state=0)
    scale = np.sqrt(np.einsum("njj->nj", covariance))
    for i in (0, 3):
        error = (np.cov(draws[:, i].T) - covariance[i]) / np.outer(scale[i], scale[i])
        assert np.abs(error).max() < 0.04
    assert_allclose(draws.mean(axis=0), mean, atol=0.04 * scale.max())


def test_functions_are_drawn_jointly_over_rows_and_outputs():
    ribbon = RibbonRegressor(noise="dof", correction="HC3").fit(X, Y)  # without degrees of freedom
    draws = ribbon.predict_samples(NEW[:2], 20_000, kind="confidence", random_state=0).reshape(20_000, -1)
    J = np.stack([np.kron(np.eye(3), np.append(row, 1.0)) for row in NEW[:2]]).reshape(6, 12)
    expected = J @ ribbon.covariance_ @ J.T
    std = np.sqrt(np.diag(expected))
    assert np.abs((np.cov(draws.T) - expected) / np.outer(std, std)).max() < 0.04


def test_other_laws_keep_their_shape_and_their_dependence():
    law = (StudentLaw(4.0), NormalLaw(), StudentLaw(3.0))
    ribbon = RibbonRegressor(noise="dof", law=law).fit(X, Y)
    assert ribbon.law_ == law
    distribution = ribbon.predict_distribution(NEW[:1])
    draws = distribution.sample(40_000, random_state=0)[:, 0]
    for j in range(3):
        quantiles = distribution.quantile([0.01, 0.1, 0.5, 0.9, 0.99])[0, j]
        assert_allclose(np.quantile(draws[:, j], [0.01, 0.1, 0.5, 0.9, 0.99]), quantiles, atol=0.1 * draws[:, j].std())
    covariance = ribbon.predict(NEW[:1], return_cov=True)[1][0]
    expected = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    spearman = stats.spearmanr(draws[:, 0], draws[:, 1])[0]
    assert_allclose(spearman, 6 / np.pi * np.arcsin(expected / 2), atol=0.02)  # of a Gaussian copula
    many = ribbon.predict_distribution(np.repeat(NEW[:1], 4000, axis=0))
    assert stats.kstest(many.joint_level(draws[:4000]), "uniform").statistic < 0.025


def test_energy_score():
    distribution = RibbonRegressor(noise="dof").fit(X, Y).predict_distribution(NEW)
    y = Y[: len(NEW)]
    draws = distribution.sample(60, random_state=0)
    expected = scoringrules.es_ensemble(y, draws.transpose(1, 0, 2), estimator="nrg")
    assert_allclose(distribution.energy_score(y, 60, random_state=0), expected, rtol=1e-10)


def test_observations_of_another_shape():
    distribution = RibbonRegressor().fit(X, Y).predict_distribution(NEW)
    for y in (Y, Y[: len(NEW), :2]):
        with pytest.raises(ValueError, match="an observation of each output for each row"):
            distribution.logpdf(y)


# ---------------------------------------------------------------------- networks, whose outputs share parameters
def network_loss(theta, shapes, X, Y):
    arrays, start = [], 0
    for shape in shapes:
        arrays.append(theta[start : start + int(np.prod(shape))].reshape(shape))
        start += int(np.prod(shape))
    W1, W2, b1, b2 = arrays
    return anp.sum((anp.dot(anp.tanh(anp.dot(X, W1) + b1), W2) + b2 - Y) ** 2, axis=1) / 2


def fitted_network(weight=None):
    network = MLPRegressor(hidden_layer_sizes=(3,), activation="tanh", solver="lbfgs", alpha=2.0, max_iter=2000)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    network = network.set_params(random_state=0).fit(Z, Y[:, :2], sample_weight=weight)
    return Z, polish(network, Z, Y[:, :2], weight)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_network_with_two_outputs_against_autograd(weighted):
    weight = WEIGHT if weighted else np.ones(len(X))
    Z, network = fitted_network(weight)
    ribbon = RibbonRegressor(FrozenEstimator(network), curvature="hessian", correction="HC0", noise="dof")
    ribbon.fit(Z, Y[:, :2], sample_weight=weight)
    shapes = [a.shape for a in (*network.coefs_, *network.intercepts_)]
    theta, n = ribbon.model_.theta, weight.sum()
    G = jacobian(network_loss)(theta, shapes, Z, Y[:, :2])
    H = hessian(lambda theta: anp.sum(weight * network_loss(theta, shapes, Z, Y[:, :2])))(theta) / n
    penalty = np.r_[np.full(network.coefs_[0].size + network.coefs_[1].size, 2.0 / n), np.zeros(5)]
    assert np.abs(weight @ G / n + penalty * theta).max() < 1e-7  # what scikit-learn minimises
    influence = np.linalg.solve(H + np.diag(penalty), (G - weight @ G / n).T)
    assert_allclose(ribbon.covariance_, (influence * weight) @ influence.T / (n * (n + 1)), rtol=1e-6, atol=1e-10)
    draws = RibbonRegressor(
        FrozenEstimator(network), predictive="direct", n_draws=50, random_state=0, curvature="hessian"
    ).fit(Z, Y[:, :2], sample_weight=weight)
    assert draws.predict_interval(Z[:2], kind="confidence").shape == (2, 2, 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_noise_of_a_network_is_made_of_each_output_by_itself():
    Z, network = fitted_network()
    ribbon = RibbonRegressor(FrozenEstimator(network), noise="dof", store_loo=True).fit(Z, Y[:, :2])
    residuals, h = Y[:, :2] - network.predict(Z), leverages_by_output(ribbon, Z)
    assert_allclose(
        np.diag(ribbon.noise_.dispersion_), (residuals**2).sum(axis=0) / (len(Z) - h.sum(axis=0)), rtol=1e-6
    )
    assert_allclose(h.sum(), ribbon.effective_parameters_, rtol=1e-8)
    loo = RibbonRegressor(FrozenEstimator(network), noise="loo").fit(Z, Y[:, :2]).noise_
    assert_allclose(np.diag(loo.dispersion_), ((residuals / (1 - h)) ** 2).mean(axis=0), rtol=1e-6)
    assert ribbon.loo_residuals_.shape == (len(Z), 2)
    assert ribbon.predict_interval(Z[:3], kind="jackknife+").shape == (3, 2, 2)
    assert ((ribbon.loo_residuals_**2).mean(axis=0) > (residuals**2).mean(axis=0)).all()


def leverages_by_output(ribbon, Z):
    J = ribbon.model_.jacobian(ribbon.model_.rows(Z))
    H = np.einsum("nkp,nkq->pq", J, J) / len(Z) + np.diag(ribbon.model_.l2)
    return np.einsum("nkp,pq,nkq->nk", J, np.linalg.inv(H), J) / len(Z)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("correction", ["HC2", "HC3"])
def test_groups_and_corrections_of_a_network(correction):
    Z, network = fitted_network()
    ribbon = RibbonRegressor(FrozenEstimator(network), correction=correction).fit(Z, Y[:, :2], groups=GROUP)
    assert ribbon.predict_std(Z[:4]).shape == (4, 2)
    assert (ribbon.predict_std(Z[:4], "epistemic") > 0).all()


def test_autograd_models_of_several_outputs():
    def linear(params, X):
        return X @ params["W"] + params["b"]

    model = AutogradRegressor(linear, init={"W": np.zeros((3, 3)), "b": np.zeros(3)}, tol=1e-9, max_iter=1000)
    own = RibbonRegressor(model, noise="dof", correction="HC0").fit(X, Y)
    ols = RibbonRegressor(noise="dof", correction="HC0").fit(X, Y)
    assert_allclose(own.predict_interval(NEW), ols.predict_interval(NEW), rtol=1e-5)
    assert_allclose(own.predict(NEW, return_cov=True)[1], ols.predict(NEW, return_cov=True)[1], rtol=1e-5)
    network = AutogradRegressor(mlp((2,)), l2=0.1, random_state=0).fit((X - X.mean(0)) / X.std(0), Y)
    assert network.predict(X).shape == Y.shape
    with pytest.raises(ValueError, match=r"needs loss='squared_error'; loss='huber'.*MultiOutputRegressor"):
        AutogradRegressor(linear, init={"W": np.zeros((3, 3)), "b": np.zeros(3)}, loss="huber").fit(X, Y)
    with pytest.raises(ValueError, match=r"\(n, 2\) for loss='squared_error' and 2 outputs"):
        model.fit(X, Y[:, :2])


# ---------------------------------------------------------------------- what is built on top
@quiet
@pytest.mark.parametrize("predictive", ["pushforward", "direct"])
def test_drawn_ribbons(predictive):
    drawn = RibbonRegressor(Ridge(), predictive=predictive, n_draws=2000, random_state=0, noise="dof").fit(X, Y)
    closed = RibbonRegressor(Ridge(), noise="dof").fit(X, Y)
    expected = closed.predict_distribution(NEW, "confidence").covariance()
    found = drawn.predict_distribution(NEW, "confidence").covariance()
    std = np.sqrt(np.einsum("njj->nj", expected))
    assert np.abs((found - expected) / (std[:, :, None] * std[:, None, :])).max() < 0.15
    assert drawn.predict_samples(NEW, 9, random_state=0).shape == (9, len(NEW), 3)


@quiet
def test_conformal_intervals_are_those_of_single_outputs():
    ribbon = RibbonRegressor().fit(X[:100], Y[:100]).conformalize(X[100:], Y[100:])
    one = RibbonRegressor().fit(X[:100], Y[:100, 1]).conformalize(X[100:], Y[100:, 1])
    found = ribbon.predict_interval(NEW, [0.5, 0.9], kind="conformal")
    assert_allclose(found[:, 1], one.predict_interval(NEW, [0.5, 0.9], kind="conformal"), rtol=1e-9)
    quantiles = ribbon.predict_quantiles(NEW, [0.1, 0.9], kind="conformal")
    assert_allclose(quantiles[:, 1], one.predict_quantiles(NEW, [0.1, 0.9], kind="conformal"), rtol=1e-9)
    with pytest.raises(ValueError, match="an observation of each output"):
        ribbon.conformalize(X[100:], Y[100:, 1])


def test_leave_one_out_is_that_of_single_outputs():
    ribbon = RibbonRegressor(store_loo=True).fit(X, Y)
    ones = [RibbonRegressor(store_loo=True).fit(X, y) for y in Y.T]
    assert_allclose(ribbon.loo_residuals_, np.column_stack([one.loo_residuals_ for one in ones]), rtol=1e-9)
    assert_allclose(ribbon.loo_score_, np.mean([one.loo_score_ for one in ones]))
    found = ribbon.predict_interval(NEW, 0.9, kind="jackknife+")
    assert_allclose(found, np.stack([one.predict_interval(NEW, 0.9, kind="jackknife+") for one in ones], axis=1))
    assert ribbon.with_alpha(5.0).loo_distribution_.std().shape == Y.shape


@quiet
@pytest.mark.parametrize("scoring", ["coverage", "nll", "crps", "interval_score"])
def test_tuned_alpha(scoring):
    tuned = RibbonCV(Ridge(), alphas=[0.1, 1.0, 10.0], cv=KFold(3), scoring=scoring, store_folds=True)
    tuned.fit(X, pd.DataFrame(Y, columns=["a", "b", "c"]))
    singles = [RibbonCV(Ridge(), alphas=[0.1, 1.0, 10.0], cv=KFold(3), scoring=scoring).fit(X, y) for y in Y.T]
    name = f"mean_test_{scoring}"
    expected = np.mean([one.cv_results_[name] for one in singles], axis=0)
    assert_allclose(tuned.cv_results_[name], expected, rtol=1e-9)
    assert tuned.predict_interval(NEW, kind="cv+").shape == (len(NEW), 3, 2)
    assert list(tuned.predict_frame(NEW).columns.levels[0]) == ["a", "b", "c"]
    assert get_tags(tuned).target_tags.multi_output


@quiet
def test_noise_of_folds_is_a_covariance():
    tuned = RibbonCV(RibbonRegressor(noise="cv"), cv=KFold(3)).fit(X, Y)
    residuals = []
    for test in np.array_split(np.arange(len(X)), 3):
        train = np.setdiff1d(np.arange(len(X)), test)
        residuals.append(Y[test] - LinearRegression().fit(X[train], Y[train]).predict(X[test]))
    r = np.concatenate(residuals)
    assert_allclose(tuned.estimator_.noise_.dispersion_, r.T @ r / len(X), rtol=1e-9)
    alone = RibbonCV(cv="loo").fit(X, Y)
    assert alone.predict_interval(NEW).shape == (len(NEW), 3, 2)


def test_alpha_draws_and_pickle():
    ribbon = RibbonRegressor(noise="dof").fit(X, Y)
    ratio = ribbon.with_alpha(4.0).predict_std(NEW, "epistemic") / ribbon.predict_std(NEW, "epistemic")
    assert_allclose(ratio, np.sqrt((len(X) + 1) / (4 * len(X) + 1)))
    again = pickle.loads(pickle.dumps(ribbon))
    assert_allclose(again.predict_samples(NEW, 3, random_state=0), ribbon.predict_samples(NEW, 3, random_state=0))
    assert ribbon.check_linearization(X, Y, n_refits=2, random_state=0).to_frame()["correlation"].min() > 0.9
    assert ribbon.score(X, Y) == pytest.approx(LinearRegression().fit(X, Y).score(X, Y))


# ---------------------------------------------------------------------- transformed targets
@quiet
def test_targets_that_are_transformed_column_by_column():
    scaled = TransformedTargetRegressor(LinearRegression(), transformer=StandardScaler())
    plain, ribbon = RibbonRegressor().fit(X, Y), RibbonRegressor(scaled).fit(X, Y)
    assert_allclose(ribbon.predict_interval(NEW), plain.predict_interval(NEW), rtol=1e-8)
    assert_allclose(ribbon.predict(NEW, return_cov=True)[1], plain.predict(NEW, return_cov=True)[1], rtol=1e-5)
    logs = TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp)
    positive = np.exp(Y / 5)
    one = RibbonRegressor(logs).fit(X, positive[:, 2])
    found = RibbonRegressor(logs).fit(X, positive)
    assert_allclose(found.predict_interval(NEW)[:, 2], one.predict_interval(NEW), rtol=1e-9)
    assert_allclose(found.log_density(X, positive)[:, 2], one.log_density(X, positive[:, 2]), rtol=1e-6)
    assert (found.predict_samples(NEW, 20, random_state=0) > 0).all()


def test_covariance_of_a_decreasing_transform_is_that_of_draws():
    def halves(y):
        return np.column_stack([1 / y[:, 0], np.log(y[:, 1])])

    def whole(t):
        return np.column_stack([1 / t[:, 0], np.exp(t[:, 1])])

    rng = np.random.default_rng(0)
    shared = rng.standard_normal((2, 600))
    t = np.column_stack([shared[0], 0.9 * shared[0] + 0.4 * shared[1]]) * 0.05
    features = rng.standard_normal((600, 2))
    y = whole(t + 2 + 0.05 * features)
    base = TransformedTargetRegressor(LinearRegression(), func=halves, inverse_func=whole)
    distribution = RibbonRegressor(base).fit(features[:400], y[:400]).predict_distribution(features[400:])
    draws = distribution.sample(4000, random_state=0)
    exact = [np.corrcoef(draws[:, i].T)[0, 1] for i in range(0, 200, 20)]
    covariance = distribution.covariance()[::20]
    found = covariance[:, 0, 1] / np.sqrt(covariance[:, 0, 0] * covariance[:, 1, 1])
    assert np.mean(exact) < -0.5
    assert_allclose(found, exact, atol=0.1)
    assert 0.83 < (distribution.joint_level(y[400:]) <= 0.9).mean() < 0.97


@pytest.mark.parametrize(("transformer", "why"), [(PCA(), "mixes the columns"), (PCA(2), "as many columns")])
def test_targets_that_are_mixed(transformer, why):
    with pytest.raises(TypeError, match=why):
        RibbonRegressor(TransformedTargetRegressor(Ridge(), transformer=transformer, check_inverse=False)).fit(X, Y)


# ---------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    "base", [PoissonRegressor(), HuberRegressor(), Lasso(0.1), LinearRegression(positive=True), Ridge(positive=True)]
)
def test_models_of_one_output_are_refused_with_advice(base):
    assert not get_tags(RibbonRegressor(base)).target_tags.multi_output
    with pytest.raises(
        ValueError, match=r"models one output of this base model.*MultiOutputRegressor\(RibbonRegressor"
    ):
        RibbonRegressor(base).fit(X, np.abs(Y))
    both = MultiOutputRegressor(RibbonRegressor(Lasso(0.1))).fit(X, Y)
    assert both.estimators_[0].predict_interval(NEW).shape == (len(NEW), 2)


def test_as_many_laws_as_outputs():
    with pytest.raises(ValueError, match="2 distributions, one per output"):
        RibbonRegressor(law=[NormalLaw(), NormalLaw()]).fit(X, Y)


def test_frozen_model_of_other_outputs():
    with pytest.raises(ValueError, match="fitted with 3 outputs"):
        RibbonRegressor(FrozenEstimator(LinearRegression().fit(X, Y))).fit(X, Y[:, :2])


def test_penalties_that_cross_validation_chose_for_each_output():
    base = RidgeCV(alphas=[0.1, 10.0, 1000.0], alpha_per_target=True)
    ribbon = RibbonRegressor(base, noise="dof").fit(X, Y)
    for j, alpha in enumerate(ribbon.estimator_.alpha_):
        one = RibbonRegressor(Ridge(alpha), noise="dof").fit(X, Y[:, j])
        assert_allclose(ribbon.predict_interval(NEW)[:, j], one.predict_interval(NEW), rtol=1e-9)


@quiet
def test_newton_draws_are_joint_and_exact():
    """Least squares and ridge: every draw is a refit, of all outputs at the same weights."""
    ribbon = RibbonRegressor(Ridge(2.0), predictive="newton", n_draws=300, random_state=0, correction="HC0").fit(X, Y)
    total = RibbonRegressor(Ridge(2.0), predictive="newton", n_draws=300, random_state=0, correction="HC0")
    total.fit(X, Y @ [1.0, -2.0, 0.5])  # a refit is linear in y
    J = np.kron([1.0, -2.0, 0.5], np.eye(4))
    assert_allclose(J @ ribbon.ribbon_.shifts, total.ribbon_.shifts, rtol=1e-7, atol=1e-10)


# ---------------------------------------------------------------------- one of them
@quiet
@pytest.mark.parametrize("fit", FITS)
def test_one_output_is_a_ribbon_of_its_own(fit):
    names = ["a", "b", "c"]
    joint = RibbonRegressor(Ridge(np.array([1.0, 5.0, 2.0])), store_loo=True).fit(
        X, pd.DataFrame(Y, columns=names), **FITS[fit]
    )
    one, alone = joint.output("b"), RibbonRegressor(Ridge(5.0), store_loo=True).fit(X, Y[:, 1], **FITS[fit])
    assert_allclose(one.predict(NEW), alone.predict(NEW), rtol=1e-10)
    for kind in ("prediction", "confidence", "jackknife+"):
        assert_allclose(one.predict_interval(NEW, kind=kind), alone.predict_interval(NEW, kind=kind), rtol=1e-9)
    assert_allclose(one.covariance_, alone.covariance_, rtol=1e-9)
    assert_allclose(one.loo_residuals_, alone.loo_residuals_, rtol=1e-9)
    assert one.effective_parameters_ == pytest.approx(alone.effective_parameters_)
    assert one.predict_samples(NEW, 3, random_state=0).shape == (3, len(NEW))
    assert_allclose(joint.output(1).predict_std(NEW), one.predict_std(NEW))
    assert_allclose(inspection.predictions(one, NEW)["std_error"], inspection.predictions(alone, NEW)["std_error"])
    assert str(inspection.summary(one))
    with pytest.raises(ValueError, match="output='d' is not one of the outputs: a, b, c"):
        joint.output("d")
    with pytest.raises(ValueError, match="only one output"):
        one.output(0)


def test_inspection_of_one_output():
    joint = RibbonRegressor(Ridge()).fit(X, pd.DataFrame(Y, columns=["a", "b", "c"]))
    with pytest.raises(ValueError, match=r"slopes takes one output, not a, b, c.*ribbon.output\('a'\)"):
        inspection.slopes(joint, X, 0)
    moved = inspection.influence(joint.output("a"), X, Y[:, 0], NEW)
    alone = inspection.influence(RibbonRegressor(Ridge()).fit(X, Y[:, 0]), X, Y[:, 0], NEW)
    assert_allclose(moved, alone, rtol=1e-8, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_output_of_a_network():
    Z, network = fitted_network()
    joint = RibbonRegressor(FrozenEstimator(network), noise="dof").fit(Z, Y[:, :2])
    one = joint.output(1)
    assert_allclose(one.predict_interval(Z[:5]), joint.predict_interval(Z[:5])[:, 1])
    assert_allclose(
        one.predict_interval(Z[:5], kind="confidence"), joint.predict_interval(Z[:5], kind="confidence")[:, 1]
    )
    assert inspection.slopes(one, Z, 0)["std_error"].iloc[0] > 0
    with pytest.raises(ValueError, match="share their parameters"):
        inspection.influence(one, Z, Y[:, 1], Z[:2])


def test_coefficients_of_all_outputs():
    joint = RibbonRegressor(Ridge()).fit(
        pd.DataFrame(X, columns=["x", "y", "z"]), pd.DataFrame(Y, columns=["a", "b", "c"])
    )
    table = inspection.coefficients(joint)
    assert list(table["output"]) == ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    assert list(table["term"]) == ["x", "y", "z", "intercept"] * 3
    for name in "abc":
        one = inspection.coefficients(joint.output(name))
        own = table[table["output"] == name].drop(columns="output").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, one, rtol=1e-8)
    # a hypothesis across outputs, by the covariance between them
    test = inspection.wald_test(joint, "a: x = b: x")
    c = np.zeros(12)
    c[[0, 4]] = 1.0, -1.0
    expected = (c @ joint.model_.theta) ** 2 / (c @ joint.covariance_ @ c)
    assert_allclose(test["statistic"], expected, rtol=1e-8)


@pytest.mark.parametrize("tuned", [False, True])
def test_displays_draw_one_output(tuned):
    table = pd.DataFrame(Y, columns=["a", "b", "c"])
    joint = (RibbonCV(Ridge(), alphas=[1.0], cv=3) if tuned else RibbonRegressor(Ridge())).fit(X, table)
    drawn = plotting.IntervalDisplay.from_estimator(joint, X, table, output="b")
    assert_allclose(drawn.y_interval, joint.predict_interval(X)[:, 1])
    assert_allclose(drawn.y_true, Y[:, 1])
    assert plotting.CoverageDisplay.from_estimator(joint, X, table, output=2).name.endswith(", c")
    assert plotting.UncertaintyDecompositionDisplay.from_estimator(joint, X, output="a").epistemic.shape == (len(X),)
    plotting.CoefficientDisplay.from_estimator(joint, output="a")
    plotting.PartialDependenceDisplay.from_estimator(joint, X, 0, output="a")
    with pytest.raises(ValueError, match="output must name the one to draw; there are 3: a, b, c"):
        plotting.IntervalDisplay.from_estimator(joint, X, table)
    with pytest.raises(ValueError, match="there is only one"):
        plotting.IntervalDisplay.from_estimator(RibbonRegressor().fit(X, Y[:, 0]), X, Y[:, 0], output=0)
    plt.close("all")


# ---------------------------------------------------------------------- scores
def test_metrics_of_several_outputs():
    ribbon, weight = RibbonRegressor(noise="dof").fit(X, Y), WEIGHT
    interval, (mean, std) = ribbon.predict_interval(X), ribbon.predict(X, return_std=True)
    draws = ribbon.predict_samples(X, 30, random_state=0)
    cases = [
        (metrics.interval_coverage_score, [interval]),
        (metrics.mean_interval_width, [interval]),
        (metrics.mean_interval_score, [interval]),
        (metrics.gaussian_nll, [mean, std]),
        (metrics.crps_gaussian, [mean, std]),
    ]
    for metric, told in cases:
        alone = [metric(Y[:, j], *(a[:, j] for a in told), sample_weight=weight) for j in range(3)]
        assert_allclose(metric(Y, *told, sample_weight=weight, multioutput="raw_values"), alone)
        assert metric(Y, *told, sample_weight=weight) == pytest.approx(np.mean(alone))
        assert metric(Y, *told, sample_weight=weight, multioutput=[1, 0, 3]) == pytest.approx(
            (alone[0] + 3 * alone[2]) / 4
        )
        with pytest.raises(ValueError, match="multioutput must be one of 'uniform_average'"):
            metric(Y, *told, multioutput="variance_weighted")
        with pytest.raises(ValueError, match="multioutput must have 3 weights"):
            metric(Y, *told, multioutput=[1, 2])
    alone = [metrics.crps_samples(Y[:, j], draws[:, :, j]) for j in range(3)]
    assert_allclose(metrics.crps_samples(Y, draws, multioutput="raw_values"), alone)
    expected = scoringrules.es_ensemble(Y, draws.transpose(1, 0, 2), estimator="nrg")
    assert_allclose(metrics.energy_score(Y, draws, sample_weight=weight), np.average(expected, weights=weight))
    assert_allclose(metrics.energy_score(Y[:, 0], draws[:, :, 0]), metrics.crps_samples(Y[:, 0], draws[:, :, 0]))
    with pytest.raises(ValueError, match="draws first"):
        metrics.energy_score(Y, draws.transpose(1, 0, 2))
    with pytest.raises(ValueError, match="this needs one"):
        metrics.coverage_by_width(Y, interval)
    with pytest.raises(ValueError, match="two columns, lower and upper"):
        metrics.interval_coverage_score(Y[:, :2], interval)


def test_scorers_of_several_outputs():
    ribbon = RibbonRegressor(noise="dof").fit(X, Y)
    singles = [ribbon.output(j) for j in range(3)]
    for scorer in (
        metrics.neg_nll_scorer,
        metrics.neg_crps_scorer,
        metrics.coverage_scorer,
        metrics.neg_interval_score_scorer,
    ):
        alone = [scorer(one, X, Y[:, j]) for j, one in enumerate(singles)]
        assert scorer(ribbon, X, Y) == pytest.approx(np.mean(alone))
    weighted = metrics.make_interval_scorer("width", multioutput=[0.0, 1.0, 0.0])
    assert weighted(ribbon, X, Y) == pytest.approx(metrics.make_interval_scorer("width")(singles[1], X, Y[:, 1]))
    with pytest.raises(ValueError, match="one number"):
        metrics.make_interval_scorer("width", multioutput="raw_values")
    draws = ribbon.predict_samples(X, 200, random_state=0)
    assert metrics.neg_energy_scorer(ribbon, X, Y) == pytest.approx(-metrics.energy_score(Y, draws))
    search = GridSearchCV(
        RibbonRegressor(Ridge(), noise="dof"), {"alpha": [0.1, 1.0]}, scoring=metrics.neg_energy_scorer, cv=2
    )
    assert search.fit(X, Y).best_score_ < 0
    _, covered = metrics.coverage_curve(ribbon, X, Y, confidence_levels=[0.5, 0.9])
    assert_allclose(covered[1], metrics.interval_coverage_score(Y, ribbon.predict_interval(X, 0.9)))
    assert metrics.pit_values(ribbon, X, Y).shape == Y.shape


def test_independent_outputs_score_worse_than_dependent_ones():
    """Energy score of the joint distribution, against independent outputs with the same marginals."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    Y = X + rng.normal(size=(1000, 2)) @ [[1.0, 0.95], [0.0, 0.3]]
    ribbon = RibbonRegressor(noise="dof").fit(X[:300], Y[:300])
    together = ribbon.predict_samples(X[300:], 100, random_state=0)
    apart = np.stack([ribbon.output(j).predict_samples(X[300:], 100, random_state=j) for j in range(2)], axis=2)
    assert metrics.energy_score(Y[300:], together) < 0.97 * metrics.energy_score(Y[300:], apart)


def test_one_output_has_its_own_coefficients():
    joint = RibbonRegressor(Ridge(5.0)).fit(X, Y)
    for j in range(Y.shape[1]):
        one = joint.output(j)
        np.testing.assert_array_equal(one.coef_, joint.coef_[j])
        np.testing.assert_array_equal(one.intercept_, joint.estimator_.intercept_[j])
