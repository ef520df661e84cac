"""Adam, L-BFGS, and the exact minimum that polish and minimise reach."""

import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import AutogradClassifier, AutogradRegressor, RibbonClassifier, RibbonRegressor
from skribbon._core import refits
from skribbon._core.refits import minimise
from skribbon._core.rows import Rows
from skribbon.exceptions import NotStationaryWarning
from skribbon.models import as_parametric, polish
from skribbon.models.architectures import mlp

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
ETA = X @ [0.8, -0.5, 0.2] + 0.3
Y = np.sin(2 * X[:, 0]) + ETA + 0.3 * RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.5 * ETA)).astype(float)
POSITIVE = np.exp(ETA) * RNG.gamma(4.0, 0.25, N)
BINARY = (ETA + RNG.logistic(size=N) > 0).astype(int)
TERNARY = np.digitize(ETA + RNG.logistic(size=N), [-0.5, 1.0])
DIRICHLET = N * RNG.dirichlet(np.ones(N))
TIGHT = {"solver": "newton-cholesky", "tol": 1e-12}


def rows_of(estimator, y, weight):
    model = as_parametric(estimator, y, np.ones(N))
    return Rows(model, model.prepare(X), model.encode_target(y), weight)


# ---------------------------------------------------------------------- minimise: any model, any weights
REFITS = {
    "linear": (LinearRegression(), Y),
    "ridge": (Ridge(alpha=20.0), Y),
    "logistic": (LogisticRegression(C=0.1, **TIGHT), BINARY),
    "softmax": (LogisticRegression(C=0.1, **TIGHT), TERNARY),
    "poisson": (PoissonRegressor(alpha=0.1, **TIGHT), COUNTS),
    "gamma": (GammaRegressor(alpha=0.1, **TIGHT), POSITIVE),
    "huber": (HuberRegressor(alpha=1.0, tol=1e-10, max_iter=1000), Y),
    "collinear": (LinearRegression(), Y),
}


@pytest.mark.parametrize("name", REFITS)
def test_other_weights_give_the_refit_of_scikit_learn(name):
    estimator, y = REFITS[name]
    data = np.column_stack([X, X[:, :1]]) if name == "collinear" else X
    model = as_parametric(estimator.fit(data, y), y, np.ones(N))
    start = model.raw(model.rows(data))
    rows = Rows(model, model.prepare(data), model.encode_target(y), DIRICHLET)
    theta, report = minimise(rows)
    refit = as_parametric(estimator.fit(data, y, sample_weight=DIRICHLET), y, DIRICHLET)
    Z = model.rows(data)
    assert report.converged
    assert report.n_iter <= 8
    assert report.gradient_after <= 1e-8 < 0.1 < report.gradient_before
    assert_allclose(model.raw(Z, theta), refit.raw(Z), atol=2e-5 if name == "huber" else 1e-7)
    assert np.abs(start - refit.raw(Z)).max() > 1e-3  # there was something to do


def test_an_l1_penalty_keeps_its_signs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = rows_of(ElasticNet(alpha=0.05, tol=1e-14).fit(X, Y), Y, DIRICHLET)
    theta, report = minimise(rows)
    refit = ElasticNet(alpha=0.05, tol=1e-14).fit(X, Y, sample_weight=DIRICHLET)
    assert report.converged
    assert_allclose(theta, [*refit.coef_, refit.intercept_], atol=1e-7)


def test_nothing_to_do_takes_no_step():
    rows = rows_of(LinearRegression().fit(X, Y), Y, np.ones(N))
    theta, report = minimise(rows)
    assert report.converged
    assert report.n_iter == 0
    assert theta is rows.model.theta


def test_a_perfect_fit_is_a_minimum():
    rows = rows_of(LinearRegression().fit(X, ETA), ETA, DIRICHLET)
    assert minimise(rows)[1].converged


def test_too_many_parameters_are_refused(monkeypatch):
    monkeypatch.setattr(refits, "MAX_PARAMETERS", 3)
    with pytest.raises(ValueError, match="4 parameters"):
        minimise(rows_of(LinearRegression().fit(X, Y), Y, np.ones(N)))


def test_the_objective_never_rises(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network = MLPRegressor(hidden_layer_sizes=(5,), activation="tanh", alpha=1.0, max_iter=100, random_state=0)
        rows = rows_of(network.fit(X, Y), Y, np.ones(N))
    _, report = minimise(rows, verbose=1)
    values = [float(line.split("objective ")[1].split(",")[0]) for line in capsys.readouterr().out.splitlines()]
    assert report.converged
    assert len(values) == report.n_iter > 3
    assert (np.diff(values) <= 1e-9).all()


# ---------------------------------------------------------------------- polish
def network_gradient(network, y, loss):
    """Largest entry of the gradient of scikit-learn's objective, by autograd, at coefs_ and intercepts_."""
    depth = len(network.coefs_)

    def objective(arrays):
        a = X
        for layer in range(depth):
            a = a @ arrays[layer] + arrays[depth + layer]
            a = anp.tanh(a) if layer < depth - 1 else a
        penalty = sum(anp.sum(W**2) for W in arrays[:depth])
        return anp.mean(loss(a, y)) + network.alpha / 2 / min(200, N) * penalty  # a minibatch is the whole sample

    gradients = grad(objective)([*network.coefs_, *network.intercepts_])
    return max(np.abs(g).max() for g in gradients)


NETWORKS = {
    "squared": (MLPRegressor, Y, lambda a, y: (a[:, 0] - y) ** 2 / 2),
    "binary": (MLPClassifier, BINARY, lambda a, y: anp.logaddexp(0, a[:, 0]) - y * a[:, 0]),
    "softmax": (
        MLPClassifier,
        TERNARY,
        lambda a, y: anp.log(anp.sum(anp.exp(a), axis=1)) - anp.sum(a * (y[:, None] == np.arange(3)), axis=1),
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_polish_after_adam_reaches_the_minimum(name):
    kind, y, loss = NETWORKS[name]
    network = kind(hidden_layer_sizes=(4,), activation="tanh", alpha=2.0, max_iter=300, random_state=0).fit(X, y)
    before = [W.copy() for W in network.coefs_]
    polished = polish(network, X, y)
    assert network_gradient(network, y, loss) > 1e-4
    assert network_gradient(polished, y, loss) < 1e-9
    for W, old in zip(network.coefs_, before, strict=True):
        assert_allclose(W, old, rtol=0)
    assert polished.score(X, y) > 0.5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("hidden", ["analytic", "traced"])
def test_polished_estimators_are_stationary(hidden):
    architecture = mlp((4,))
    f = architecture if hidden == "analytic" else lambda params, X: architecture(params, X)
    init = None if hidden == "analytic" else lambda X, y, rng: architecture.init(X, 1, rng)
    loose = AutogradRegressor(f, init, l2=0.01, solver="adam", max_iter=200, learning_rate=0.01, random_state=0)
    loose.fit(X, Y)
    polished = AutogradRegressor(**{**loose.get_params(), "polish": True}).fit(X, Y)
    assert_allclose(polish(loose, X, Y).predict(X), polished.predict(X))
    assert RibbonRegressor(polished).fit(X, Y).stationarity_ < 1e-7
    before, after = (refits._evaluate(rows_of(estimator, Y, np.ones(N))).value for estimator in (loose, polished))
    assert after < before


def test_polish_of_a_softmax_network():
    network = AutogradClassifier(mlp((3,)), l2=0.05, tol=1e-2, random_state=0).fit(X, TERNARY)
    polished = polish(network, X, TERNARY)
    rows = rows_of(polished, TERNARY, np.ones(N))
    g = rows.sum(lambda block: block.score_sum(block.u)) / N + rows.model.penalty_gradient
    assert np.abs(g).max() < 1e-9


def test_polish_warns_if_it_does_not_converge():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network = MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", max_iter=5, random_state=0).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="polish stopped after 1 steps"):
        polish(network, X, Y, max_iter=1)


def test_polish_refusal_lists_supported_estimators():
    with pytest.raises(TypeError, match=r"ElasticNet cannot be polished.*AutogradRegressor.*MLPRegressor"):
        polish(ElasticNet(0.01).fit(X, Y), X, Y)


@pytest.mark.parametrize(
    "base",
    [
        LogisticRegression(tol=0.1),
        LogisticRegression(tol=0.1, fit_intercept=False),
        PoissonRegressor(tol=1.0, max_iter=2),
        HuberRegressor(max_iter=3),
    ],
    ids=["three classes", "no intercept", "counts", "with a scale"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_polish_takes_linear_models_to_their_minimum(base):
    target = np.digitize(Y, np.quantile(Y, [0.3, 0.7])) if is_classifier(base) else np.abs(Y)
    rough = base.fit(X, target)
    polished = polish(rough, X, target)
    assert polished is not rough
    ribbon = RibbonClassifier if is_classifier(base) else RibbonRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotStationaryWarning)
        assert ribbon(FrozenEstimator(polished)).fit(X, target).stationarity_ < 1e-6
    np.testing.assert_array_equal(polished.coef_.shape, rough.coef_.shape)


# ---------------------------------------------------------------------- training
def test_lbfgs_warns_if_it_stops_early():
    with pytest.warns(ConvergenceWarning, match=r"solver='lbfgs' stopped after 3 iterations.*max_iter"):
        AutogradRegressor(mlp((4,)), max_iter=3, random_state=0).fit(X, Y)


def test_adam_learns_and_reports(capsys):
    network = AutogradRegressor(
        mlp((16,)), solver="adam", learning_rate=0.01, max_iter=500, batch_size=32, tol=1e-4, random_state=0, verbose=1
    ).fit(X, Y)
    assert network.score(X, Y) > 0.8
    assert network.loss_curve_[-1] < 0.3 * network.loss_curve_[0]
    assert len(network.loss_curve_) == network.n_iter_ < 500
    assert network.validation_loss_curve_ == []
    assert len(capsys.readouterr().out.splitlines()) == network.n_iter_


def test_adam_with_weights_is_adam_with_repeated_rows():
    # over many small steps both end at the same minimum of a convex objective
    weight = RNG.integers(0, 4, N)
    settings = {"solver": "adam", "l2": 0.1, "learning_rate": 3e-3, "max_iter": 400, "n_iter_no_change": 400}

    def fit(X, Y, sample_weight=None):
        model = AutogradRegressor(mlp(()), batch_size=50, random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, Y, sample_weight)

    repeated = fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    assert_allclose(fit(X, Y, weight).predict(X), repeated.predict(X), atol=0.05)
    assert np.abs(fit(X, Y).predict(X) - repeated.predict(X)).max() > 0.05


def test_early_stopping_keeps_the_best_parameters():
    noise = np.random.default_rng(1).normal(size=N)
    settings = {"solver": "adam", "learning_rate": 0.03, "max_iter": 1000, "n_iter_no_change": 20, "random_state": 0}
    stopped = AutogradRegressor(mlp((32,)), early_stopping=True, validation_fraction=0.3, **settings).fit(X, noise)
    curve = stopped.validation_loss_curve_
    assert len(curve) == stopped.n_iter_ < 1000
    assert np.argmin(curve) < stopped.n_iter_ - 10
    assert stopped.score(X, noise) < 0.5  # there is nothing to learn
    classifier = AutogradClassifier(mlp((8,)), early_stopping=True, **settings).fit(X, TERNARY)
    assert min(classifier.validation_loss_curve_) < classifier.validation_loss_curve_[0]


def test_dropout_acts_in_training_only():
    settings = {"solver": "adam", "learning_rate": 0.01, "max_iter": 60, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = AutogradRegressor(mlp((16,)), **settings).fit(X, Y)
        dropped = AutogradRegressor(mlp((16,), dropout=0.5), **settings).fit(X, Y)
    assert dropped.loss_curve_[-1] > plain.loss_curve_[-1]
    assert_allclose(dropped.predict(X), dropped.predict(X), rtol=0)


def test_diverging_adam_is_an_error():
    with pytest.raises(ValueError, match="learning_rate"):
        AutogradRegressor(lambda q, X: anp.exp(X @ q), np.zeros(3), solver="adam", learning_rate=1e3, max_iter=50).fit(
            X, Y
        )


def test_lbfgs_prints_the_objective_that_it_ends_at(capsys):
    init = {"w": np.zeros(3), "b": 0.0}
    fitted = AutogradRegressor(lambda p, X: X @ p["w"] + p["b"], init, l2={"w": 0.1, "b": 0.0}, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == fitted.n_iter_
    ridge = Ridge(alpha=0.1 * N).fit(X, Y)
    minimum = np.mean((Y - ridge.predict(X)) ** 2) / 2 + 0.05 * ridge.coef_ @ ridge.coef_
    assert float(lines[-1].split()[-1]) == pytest.approx(minimum, rel=1e-6)


def test_weights_are_repeated_rows_where_the_minimum_is_exact():
    """A flat minimum turns the rounding of sums in another order into parameters that differ; polish ends that."""
    weight = RNG.integers(0, 4, N)
    shuffled = RNG.permutation(N)
    network = AutogradRegressor(mlp((2,)), loss="poisson", l2=0.02, polish=True, random_state=0)
    repeated = clone(network).fit(np.repeat(X, weight, axis=0), np.repeat(COUNTS, weight))
    weighted = clone(network).fit(X[shuffled], COUNTS[shuffled], sample_weight=weight[shuffled])
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7)


def kinked(params, X):
    return anp.abs(params["a"]) * X[:, 0]


@pytest.mark.parametrize("newton", [True, False], ids=["Newton too", "Gauss-Newton alone"])
def test_polish_warns_of_a_minimum_at_a_kink(newton, monkeypatch):
    """(|a| + 1)^2 has its minimum at zero, where the slope jumps from -1 to 1: no step lowers it any more."""
    ones = np.ones((20, 1))
    fitted = AutogradRegressor(kinked, {"a": 0.3}, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        fitted.fit(ones, -np.ones(20))
    if not newton:
        monkeypatch.setattr("skribbon.models.autograd.derivatives.AutogradModel.has_hessian", False)
    with pytest.warns(ConvergenceWarning, match="polish stopped after .* steps with a gradient of"):
        polished = polish(fitted, ones, -np.ones(20), max_iter=1000)
    assert abs(polished.params_["a"]) < 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_polish_reaches_through_pipelines_and_transformed_targets():
    network = MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", alpha=2.0, max_iter=300, random_state=0)
    inner = make_pipeline(StandardScaler(), network)
    outer = TransformedTargetRegressor(inner, transformer=StandardScaler()).fit(X, 10 * Y)
    before = outer.predict(X)
    polished = polish(FrozenEstimator(outer), X, 10 * Y)
    np.testing.assert_array_equal(outer.predict(X), before)
    step = outer.regressor_[-1]
    Z, t = outer.regressor_[:-1].transform(X), outer.transformer_.transform(10 * Y[:, None]).ravel()
    expected = outer.transformer_.inverse_transform(polish(step, Z, t).predict(Z)[:, None]).ravel()
    assert_allclose(polished.predict(X), expected, rtol=1e-10)
    assert np.abs(polished.predict(X) - before).max() > 0.1
    assert RibbonRegressor(polished).fit(X, 10 * Y).stationarity_ < 1e-7
