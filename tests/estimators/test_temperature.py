"""Temperature of classifiers, against quadrature, Monte Carlo, and log losses of exact refits without the rows."""

import warnings
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.optimize import root
from scipy.special import expit, logit, softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold
from sklearn.neural_network import MLPClassifier, _multilayer_perceptron
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import AutogradClassifier, RibbonClassifier, RibbonCV
from skribbon.exceptions import NotStationaryWarning, SeparationWarning, WeightWarning

TIGHT = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 500}
LINEAR, NETWORK = (20.0, 4.0), (50.0, 4.0)  # precisions of log T below and above one
COARSE, FINE = np.exp(np.linspace(-2.0, 3.0, 126)), np.exp(np.linspace(-0.04, 0.04, 81))  # temperatures, to 0.1%
NODES, MASS = np.polynomial.hermite_e.hermegauss(40)  # of the normal distribution


def table(K, n, d, seed=0, scale=1.0):
    """Rows and labels of K classes with linear logits."""
    rng = np.random.default_rng(seed)
    X, B = rng.normal(size=(n, d)), scale * rng.normal(size=(d, K))
    return X, (X @ B + rng.gumbel(size=(n, K))).argmax(axis=1)


def parts(K, n, d, seed=0, scale=1.0, n_new=3000):
    """Training rows and labels, and new ones."""
    X, y = table(K, n + n_new, d, seed, scale)
    return X[:n], y[:n], X[n:], y[n:]


def logistic(C=1.0, **params):
    return LogisticRegression(C=C, **TIGHT, **params)


def network(kind=MLPClassifier, **params):
    known = {"hidden_layer_sizes": (5,), "solver": "lbfgs", "alpha": 10.0, "max_iter": 500, "random_state": 0}
    return kind(**known | params)


def recording(base):
    """Subclass of a classifier, and the list of its fits: fitted models with the rows of each."""
    fits = []

    class Recorded(base):
        def fit(self, X, y, **params):
            super().fit(X, y, **params)
            fits.append((self, X))
            return self

    return Recorded, fits


# ---------------------------------------------------------------------- oracle
def refitted_logits(base, X, y, splits, weight=None):
    """Log probabilities (n, K) of rows by refits without them."""
    f = np.full((len(y), len(np.unique(y))), np.nan)
    for train, test in splits:
        params = {} if weight is None else {"sample_weight": weight[train]}
        f[test] = clone(base).fit(X[train], y[train], **params).predict_log_proba(X[test])
    return f


def probabilities(f, T, bias, variance=None, exact=True):
    """Softmax of logits (n, K) over T plus a bias; for two classes also averaged over a variance of log-odds (n,).

    The average is a sum over nodes, or MacKay's approximation.
    """
    eta = f / T + bias
    if variance is None:
        return softmax(eta, axis=-1)
    log_odds, variance = eta[..., 1] - eta[..., 0], variance / T**2
    if exact:
        p = expit(log_odds[..., None] + np.sqrt(variance)[..., None] * NODES) @ MASS / MASS.sum()
    else:
        p = expit(log_odds / np.sqrt(1 + np.pi / 8 * variance))
    return np.stack([1 - p, p], axis=-1)


def losses(f, y, T, bias, variance=None):
    """Log losses (n,) of classes y."""
    return -np.log(probabilities(f, T, bias, variance)[np.arange(len(y)), y])


def expected_counts(f, y, weight):
    """Counts of the classes that a bias keeps: those that plain probabilities predict, to two standard deviations."""
    P, observed = softmax(f, axis=1), np.bincount(y, weight)
    expected, sd = weight @ P, np.sqrt(weight @ (P * (1 - P)))
    off = np.abs(observed - expected)
    moved = observed + (expected - observed) * (2 * sd / np.maximum(off, 2 * sd)) ** 2
    return moved * weight.sum() / moved.sum()


def best_scaling(f, y, prior, weight=None, variance=None):
    """Temperature with the least penalised log loss on a grid, with the bias that keeps expected counts."""
    weight = np.ones(len(y)) if weight is None else weight * len(y) / weight.sum()
    counts, T, bias = expected_counts(f, y, weight), 0.0, np.zeros(f.shape[1])

    def missing(free, T):
        return (weight @ probabilities(f, T, np.append(free, -free.sum()), variance) - counts)[:-1]

    def objective(T):
        return weight @ losses(f, y, T, bias, variance) + prior[int(T > 1)] * np.log(T) ** 2 / 2

    for _ in range(40):
        before, T = T, COARSE[np.argmin([objective(t) for t in COARSE])]
        T = min(T * FINE, key=objective)
        free = root(missing, bias[:-1], args=(T,), tol=1e-9).x
        bias = np.append(free, -free.sum())
        if abs(T - before) < 2e-3 * T:
            return T, bias
    raise AssertionError("temperature and bias did not settle")


def each_row(y):
    return list(LeaveOneOut().split(y))


# ---------------------------------------------------------------------- averages and quantiles
def logit_spread(ribbon, X):
    """Mean (n, k) and covariance (n, k, k) of the logits of a linear model."""
    Z = ribbon.model_.rows(X)
    J = ribbon.model_.jacobian(Z)
    return ribbon.model_.raw(Z), np.einsum("nkp,pq,nlq->nkl", J, ribbon.covariance_, J)


@pytest.mark.parametrize(("averaging", "tolerance"), [("closed", 0.02), ("exact", 1e-6)])
@pytest.mark.parametrize("alpha", [0.02, 0.2, 1.0])
@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
def test_average_of_two_classes_equals_quadrature(averaging, tolerance, alpha, T):
    X, y, X_new, _ = parts(2, 60, 4, n_new=12)
    ribbon = RibbonClassifier(logistic(), alpha=alpha, temperature=T, averaging=averaging).fit(X, y)
    f, S = logit_spread(ribbon, X_new)

    def integrand(z, mean, std):
        return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / (1 + np.exp(-mean - std * z))

    for mean, std, p in zip(f[:, 0] / T, np.sqrt(S[:, 0, 0]) / T, ribbon.predict_proba(X_new)[:, 1], strict=True):
        expected = quad(integrand, -12, 12, args=(mean, std), epsabs=1e-12, limit=200)[0]
        assert p == pytest.approx(expected, abs=tolerance)
    plain = ribbon.estimator_.predict_proba(X_new)
    assert alpha > 0.02 or np.abs(ribbon.predict_proba(X_new) - plain).max() > 0.05  # the test can tell


@pytest.mark.parametrize(("K", "alpha", "tolerance"), [(3, 0.2, 0.02), (3, 1.0, 0.01), (6, 0.2, 0.04), (6, 1.0, 0.02)])
def test_closed_average_and_quantiles_of_classes_are_near_monte_carlo(K, alpha, tolerance):
    X, y, X_new, _ = parts(K, 40 * K, 3, n_new=12)
    ribbon = RibbonClassifier(logistic(), alpha=alpha, temperature=1.0, correction="HC0").fit(X, y)
    theta = np.random.default_rng(0).multivariate_normal(ribbon.model_.theta, ribbon.covariance_, size=40_000)
    Theta = np.einsum("kc,scd->skd", ribbon.model_.loss.basis, theta.reshape(len(theta), K - 1, 4))
    draws = softmax(np.einsum("skd,nd->snk", Theta, np.column_stack([X_new, np.ones(12)])), axis=2)
    np.testing.assert_allclose(ribbon.predict_proba(X_new), draws.mean(axis=0), atol=tolerance)
    bounds = np.quantile(draws, [0.05, 0.95], axis=0)
    interval = ribbon.predict_proba_interval(X_new, 0.9)
    width, expected = np.ptp(interval, axis=2), bounds[1] - bounds[0]
    np.testing.assert_allclose(width, expected, rtol=0.15, atol=0.005)
    for side in (0, 1):
        assert np.all(np.abs(interval[:, :, side] - bounds[side]) < 0.15 * expected + 0.005)


# ---------------------------------------------------------------------- choice of the temperature
# name: number of classes, C, columns, rows
SETTINGS = {
    "two classes, underconfident": (2, 0.1, 5, 60),
    "two classes, overconfident": (2, 100.0, 5, 60),
    "three classes, underconfident": (3, 0.1, 5, 80),
    "three classes, overconfident": (3, 100.0, 5, 80),
    "three classes, unbalanced": (3, 0.01, 5, 80),
}


@cache
def left_out_problem(name):
    """Base model, rows, labels and log probabilities of each row by the refit without it."""
    K, C, d, n = SETTINGS[name]
    X, y = table(K, n, d)
    return logistic(C), X, y, refitted_logits(logistic(C), X, y, each_row(y))


@pytest.mark.parametrize("name", SETTINGS)
def test_temperature_minimises_the_penalised_loss_of_left_out_rows(name):
    base, X, y, f = left_out_problem(name)
    ribbon = RibbonClassifier(base).fit(X, y)
    T, bias = best_scaling(f, y, LINEAR)
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_fits, ribbon.scaling_.averaged) == ("loo", 0, False)
    assert ribbon.temperature_ == pytest.approx(T, rel=0.05)  # of a Newton step, instead of the refits
    np.testing.assert_allclose(ribbon.scaling_.bias, bias, atol=0.02)
    assert ribbon.scaling_.losses["plain"] == pytest.approx(losses(f, y, 1, 0).mean(), rel=0.06)
    assert ribbon.scaling_.losses["tempered"] == pytest.approx(losses(f, y, T, bias).mean(), rel=0.06)
    expected = softmax(base.fit(X, y).predict_log_proba(X) / ribbon.temperature_ + ribbon.scaling_.bias, axis=1)
    np.testing.assert_allclose(ribbon.predict_proba(X), expected, rtol=1e-8)


@pytest.mark.parametrize("name", SETTINGS)
def test_temperature_minimises_the_penalised_loss_of_refits(name):
    base, X, y, _ = left_out_problem(name)
    splits = list(StratifiedKFold(6).split(X, y))
    ribbon = RibbonClassifier(base, held_out=splits).fit(X, y)
    f = refitted_logits(base, X, y, splits)
    T, bias = best_scaling(f, y, LINEAR)
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_rows, ribbon.held_out_.n_fits) == ("folds", len(y), 6)
    assert ribbon.temperature_ == pytest.approx(T, rel=0.02)
    np.testing.assert_allclose(ribbon.scaling_.bias, bias, atol=0.005)
    assert ribbon.scaling_.losses["plain"] == pytest.approx(losses(f, y, 1, 0).mean(), rel=1e-8)
    assert ribbon.scaling_.losses["tempered"] == pytest.approx(losses(f, y, T, bias).mean(), rel=2e-3)


def test_averaged_temperature_minimises_the_penalised_loss_of_averages():
    X, y = table(2, 60, 10)
    splits = list(StratifiedKFold(10).split(X, y))
    ribbon = RibbonClassifier(logistic(), averaging="exact", held_out=splits).fit(X, y)
    f, variance = refitted_logits(logistic(), X, y, splits), logit_spread(ribbon, X)[1][:, 0, 0]
    T, bias = best_scaling(f, y, LINEAR, variance=variance)
    assert ribbon.scaling_.averaged
    assert ribbon.temperature_ == pytest.approx(T, rel=0.02)
    np.testing.assert_allclose(ribbon.scaling_.bias, bias, atol=0.005)
    compared = ribbon.scaling_.losses
    assert compared["averaged"] == pytest.approx(losses(f, y, T, bias, variance).mean(), rel=2e-3)
    assert compared["averaged"] < min(compared["tempered"], compared["plain"]) - 0.001
    at_rows = probabilities(base_logits(ribbon, X), ribbon.temperature_, ribbon.scaling_.bias, variance)
    np.testing.assert_allclose(ribbon.predict_proba(X), at_rows, atol=1e-6)


def base_logits(ribbon, X):
    return ribbon.estimator_.predict_log_proba(X)


def test_number_keeps_no_bias_and_needs_no_held_out_rows():
    X, y = table(3, 80, 3)
    ribbon = RibbonClassifier(logistic(), temperature=1.7).fit(X, y)
    assert ribbon.held_out_ is None
    assert (ribbon.temperature_, ribbon.scaling_.averaged, ribbon.scaling_.exact) == (1.7, True, False)
    assert not np.any(ribbon.scaling_.bias) and ribbon.scaling_.losses is None
    auto = RibbonClassifier(logistic(0.01)).fit(X, y)
    assert auto.temperature_ < 0.95 and auto.scaling_.bias.sum() == pytest.approx(0, abs=1e-12)
    kept, moved = auto.with_alpha(3.0), auto.with_alpha(3.0, temperature=1.7)
    assert kept.scaling_ is auto.scaling_ and kept.temperature_ == auto.temperature_
    assert moved.temperature_ == 1.7 and not np.any(moved.scaling_.bias)
    fixed = RibbonClassifier(logistic(0.01), alpha=3.0, temperature=1.7).fit(X, y)
    np.testing.assert_allclose(moved.predict_proba(X), fixed.predict_proba(X), rtol=1e-10)


# ---------------------------------------------------------------------- confidence
@pytest.mark.parametrize("K", [2, 3])
def test_underconfident_model_is_sharpened(K):
    X, y, X_new, y_new = parts(K, 200, 4)
    ribbon = RibbonClassifier(LogisticRegression(C=0.001)).fit(X, y)
    assert ribbon.temperature_ < 0.9
    assert (
        log_loss(y_new, ribbon.predict_proba(X_new)) < log_loss(y_new, ribbon.estimator_.predict_proba(X_new)) - 0.003
    )


@pytest.mark.parametrize("K", [2, 3])
def test_overconfident_model_is_softened(K):
    X, y, X_new, y_new = parts(K, 200, 30, scale=0.4)
    ribbon = RibbonClassifier(LogisticRegression(C=1e6, max_iter=1000)).fit(X, y)
    assert ribbon.temperature_ > 1.2
    assert log_loss(y_new, ribbon.predict_proba(X_new)) < log_loss(y_new, ribbon.estimator_.predict_proba(X_new)) - 0.04


def separable(K, n=90, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, (X @ [[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])[:, :K].argmax(axis=1)


@pytest.mark.parametrize(("K", "seed"), [(2, 4), (3, 0)])
def test_separable_classes_are_refitted_and_probabilities_are_less_extreme(K, seed):
    (X, y), (X_new, y_new) = separable(K, seed=seed), separable(K, 3000, seed=99)
    Recorded, fits = recording(LogisticRegression)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeparationWarning)
        ribbon = RibbonClassifier(Recorded(C=1e6, **TIGHT)).fit(X, y)
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_fits, len(fits)) == ("folds", 5, 6)
    P, plain = ribbon.predict_proba(X_new), np.maximum(ribbon.estimator_.predict_proba(X_new), 1e-300)
    for method in (ribbon.predict_log_proba, ribbon.predict_proba_interval):
        assert np.isfinite(method(X_new)).all()
    assert ribbon.temperature_ > 2
    assert np.median(np.ptp(np.log(P), axis=1)) < 0.5 * np.median(np.ptp(np.log(plain), axis=1))  # log-odds
    assert log_loss(y_new, P) < 0.6 * log_loss(y_new, plain)
    narrow = RibbonClassifier(FrozenEstimator(ribbon.estimator_), temperature=1.0)
    with pytest.warns(SeparationWarning):
        narrow.fit(X, y)
    assert np.all(np.diag(ribbon.covariance_) > np.diag(narrow.covariance_))  # refits show more uncertainty


def test_frozen_separable_classes_warn_and_keep_plain_probabilities():
    X, y = separable(2, seed=4)
    base = logistic(1e6).fit(X, y)
    with pytest.warns(SeparationWarning, match=r"temperature='auto' needs refits.*RibbonCV\(FrozenEstimator"):
        ribbon = RibbonClassifier(FrozenEstimator(base)).fit(X, y)
    assert ribbon.held_out_ is None and ribbon.temperature_ == 1 and not ribbon.scaling_.averaged
    f = base.decision_function(X)
    np.testing.assert_allclose(ribbon.predict_proba(X), np.column_stack([expit(-f), expit(f)]), rtol=1e-8)


def test_frozen_model_off_its_minimum_warns_and_keeps_plain_probabilities():
    X, y = table(2, 200, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        base = LogisticRegression(max_iter=1).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotStationaryWarning)
        ribbon = RibbonClassifier(FrozenEstimator(base)).fit(X, y)
    assert any("temperature='auto' needs refits" in str(one.message) for one in caught)
    assert ribbon.held_out_ is None
    np.testing.assert_allclose(ribbon.predict_proba(X), base.predict_proba(X), rtol=1e-10)


# ---------------------------------------------------------------------- expected class counts
def rare(d=4, slope=3.0, n=1000):
    """Rows of two classes, of which the second is rare."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (slope * X[:, 0] + logit(0.02) - slope**2 / 3 + rng.logistic(size=n) > 0).astype(int)


@pytest.mark.parametrize(("C", "d", "slope"), [(0.01, 4, 3.0), (1e4, 15, 2.0)], ids=["underconfident", "overconfident"])
@pytest.mark.parametrize("averaging", ["closed", "exact"])
def test_total_of_a_rare_class_equals_the_plain_total(C, d, slope, averaging):
    X, y = rare(d, slope)
    assert 15 < y.sum() < 30
    splits = list(StratifiedKFold(5).split(X, y))
    ribbon = RibbonClassifier(logistic(C), held_out=splits, averaging=averaging).fit(X, y)
    f, scaling = refitted_logits(logistic(C), X, y, splits), ribbon.scaling_
    variance = logit_spread(ribbon, X)[1][:, 0, 0] if scaling.averaged else None
    total, without = (
        probabilities(f, scaling.temperature, bias, variance, averaging == "exact")[:, 1].sum()
        for bias in (scaling.bias, 0.0)
    )
    plain = softmax(f, axis=1)[:, 1].sum()
    assert total == pytest.approx(plain, rel=0.01)
    assert without != pytest.approx(plain, rel=0.05)  # the test can tell


def test_total_of_a_biased_model_is_moved_to_the_observed_count():
    """Without an intercept, half of the rows are predicted: far beyond two standard deviations of the count."""
    X, y = rare(slope=1.0)
    base, splits = logistic(fit_intercept=False), list(StratifiedKFold(5).split(X, y))
    ribbon = RibbonClassifier(base, held_out=splits).fit(X, y)
    f, scaling = refitted_logits(base, X, y, splits), ribbon.scaling_
    P = softmax(f, axis=1)
    assert P[:, 1].sum() > 10 * y.sum()
    sd = np.sqrt((P[:, 1] * P[:, 0]).sum())
    variance = logit_spread(ribbon, X)[1][:, 0, 0] if scaling.averaged else None
    total = probabilities(f, scaling.temperature, scaling.bias, variance, exact=False)[:, 1].sum()
    assert total == pytest.approx(y.sum() + 4 * sd**2 / (P[:, 1].sum() - y.sum()), rel=0.01)
    assert log_loss(y, ribbon.predict_proba(X)) < 0.5 * log_loss(y, ribbon.estimator_.predict_proba(X))


# ---------------------------------------------------------------------- networks
@pytest.mark.parametrize("alpha", [1.0, 10.0], ids=["unclear gain", "clear gain"])
@pytest.mark.parametrize("K", [2, 3])
def test_network_keeps_plain_probabilities_unless_the_gain_exceeds_two_standard_errors(K, alpha):
    X, y = table(K, 100, 3)
    (Recorded, fits), splits = recording(MLPClassifier), list(StratifiedKFold(5).split(X, y))
    ribbon = RibbonClassifier(network(Recorded, alpha=alpha), held_out=splits).fit(X, y)
    assert len(fits) == 1 + ribbon.held_out_.n_fits == 6
    f, fold = np.zeros((100, K)), np.zeros(100, int)
    for k, ((_, test), (refit, _)) in enumerate(zip(splits, fits[1:], strict=True)):
        f[test], fold[test] = refit.predict_log_proba(X[test]), k
    T, bias = best_scaling(f, y, NETWORK)
    plain, tempered = (np.minimum(losses(f, y, *scaling), np.log(100 * K)) for scaling in ((1, 0), (T, bias)))
    gain = plain - tempered
    by_fold = np.array([np.sum(gain[fold == k] - gain.mean()) for k in range(5)])
    error = max(gain.std() / 10, np.sqrt(np.sum(by_fold**2)) / 100)
    assert gain.mean() > 0 and not ribbon.scaling_.averaged
    clear = gain.mean() > 2 * error
    assert clear == (alpha == 10)
    assert ribbon.temperature_ == (pytest.approx(T, rel=0.03) if clear else 1)
    if not clear:
        np.testing.assert_allclose(ribbon.predict_proba(X), ribbon.estimator_.predict_proba(X), rtol=1e-10)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning")
def test_overconfident_network_is_softened():
    """Some rows have losses of more than ten nats, which make the gain large and its standard error too."""
    X, y, X_new, y_new = parts(2, 100, 3)
    ribbon = RibbonClassifier(network(alpha=1e-3)).fit(X, y)
    assert ribbon.held_out_.origin == "folds" and ribbon.temperature_ > 3
    assert log_loss(y_new, ribbon.predict_proba(X_new)) < 0.5 * log_loss(y_new, ribbon.estimator_.predict_proba(X_new))


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.LeverageWarning")
def test_network_that_may_have_memorized_its_rows_is_refitted():
    X, y = table(2, 60, 3)
    Recorded, fits = recording(MLPClassifier)
    many = network(Recorded, alpha=1e-3, hidden_layer_sizes=(8,))
    assert RibbonClassifier(many).fit(X, y).held_out_.n_fits == 5
    assert len(fits) == 6
    fits.clear()
    few = network(Recorded, hidden_layer_sizes=(2,))
    assert RibbonClassifier(few).fit(*table(2, 300, 3)).held_out_.origin == "loo"
    assert len(fits) == 1


def test_network_of_many_rows_has_three_refits():
    X, y = table(2, 9000, 2)
    Recorded, fits = recording(MLPClassifier)
    base = Recorded((2,), max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon = RibbonClassifier(base).fit(X, y)  # off its minimum
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_fits, len(fits)) == ("folds", 3, 4)
    assert ribbon.held_out_.n_rows == pytest.approx(5000, rel=0.01)  # of 5,400 held out


@pytest.mark.parametrize("K", [2, 3])
def test_early_stopping_rows_are_found(K, monkeypatch):
    X, y = table(K, 400, 4)
    split, found = _multilayer_perceptron.train_test_split, []

    def spied(*arrays, **params):
        result = split(*arrays, **params)
        found.append(result[1])
        return result

    monkeypatch.setattr(_multilayer_perceptron, "train_test_split", spied)
    base = MLPClassifier((4,), early_stopping=True, validation_fraction=0.2, random_state=3, max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon = RibbonClassifier(base, held_out="early_stopping").fit(X, y)
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_rows, ribbon.held_out_.n_fits) == ("early_stopping", 80, 0)
    assert len(found) == 1  # no refits
    order = {row.tobytes(): i for i, row in enumerate(X)}
    rows = [order[row.tobytes()] for row in found[0]]
    assert ribbon.estimator_.score(X[rows], y[rows]) == pytest.approx(ribbon.estimator_.best_validation_score_)
    expected = log_loss(y[rows], ribbon.estimator_.predict_proba(X[rows]))
    assert ribbon.scaling_.losses["plain"] == pytest.approx(expected, rel=1e-9)
    T, bias = best_scaling(base_logits(ribbon, X[rows]), y[rows], NETWORK)
    assert ribbon.scaling_.losses["tempered"] == pytest.approx(
        losses(base_logits(ribbon, X[rows]), y[rows], T, bias).mean(), rel=2e-3
    )


def test_early_stopping_is_refused_without_rows_that_were_set_aside():
    X, y = table(2, 80, 3)
    for base in (logistic(), network()):
        with pytest.raises(ValueError, match="held_out='early_stopping' needs an MLPRegressor or MLPClassifier with"):
            RibbonClassifier(base, held_out="early_stopping").fit(X, y)


# ---------------------------------------------------------------------- rows, weights, groups
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.LeverageWarning")
@pytest.mark.parametrize("base", [LogisticRegression, MLPClassifier])
def test_refits_keep_groups_together(base):
    X, y = table(2, 90, 3)
    group = np.random.default_rng(0).integers(0, 15, 90)
    Recorded, fits = recording(base)
    settings = {"held_out": 4} if base is LogisticRegression else {}
    model = Recorded() if base is LogisticRegression else network(Recorded, alpha=1e-3, hidden_layer_sizes=(8,))
    ribbon = RibbonClassifier(model, **settings).fit(X, y, groups=group)
    assert (ribbon.held_out_.origin, ribbon.held_out_.n_fits) == ("folds", len(fits) - 1)
    left_out = []
    for _, rows in fits[1:]:
        seen = {row.tobytes() for row in np.asarray(rows)}
        inside = np.array([row.tobytes() in seen for row in X])
        assert not set(group[inside]) & set(group[~inside])
        left_out.append(~inside)
    np.testing.assert_array_equal(np.sum(left_out, axis=0), 1)


def test_left_out_groups_give_another_temperature_than_left_out_rows():
    """Copies of a row, if each counts as an observation, tell its label to the fit without it."""
    X, y = table(2, 25, 6)
    X, y, group = np.repeat(X, 4, axis=0), np.repeat(y, 4), np.repeat(np.arange(25), 4)
    base, splits = logistic(), [(np.flatnonzero(group != g), np.flatnonzero(group == g)) for g in range(25)]
    by_group, by_row = RibbonClassifier(base).fit(X, y, groups=group), RibbonClassifier(base).fit(X, y)
    expected = losses(refitted_logits(base, X, y, splits), y, 1, 0).mean()
    assert by_group.scaling_.losses["plain"] == pytest.approx(expected, rel=0.1)
    assert by_row.scaling_.losses["plain"] < 0.9 * expected
    assert by_group.temperature_ > 1.1 * by_row.temperature_


@pytest.mark.parametrize("held_out", ["auto", 4])
@pytest.mark.parametrize("K", [2, 3])
def test_integer_weights_equal_repeated_rows(K, held_out):
    X, y = table(K, 80, 3)
    times = np.random.default_rng(1).integers(0, 4, 80)
    ribbon = RibbonClassifier(logistic(0.1), held_out=held_out)
    weighted = clone(ribbon).fit(X, y, sample_weight=times)
    repeated = clone(ribbon).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-6)
    assert abs(np.log(weighted.temperature_)) > 0.02
    np.testing.assert_allclose(weighted.scaling_.bias, repeated.scaling_.bias, atol=1e-6)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)


def test_weights_enter_the_held_out_loss():
    X, y = table(2, 80, 3)
    weight = np.random.default_rng(0).integers(1, 6, 80).astype(float)
    splits = list(KFold(6).split(X))
    ribbon = RibbonClassifier(logistic(0.1), held_out=splits).fit(X, y, sample_weight=weight)
    f = refitted_logits(logistic(0.1), X, y, splits, weight)
    assert ribbon.scaling_.losses["plain"] == pytest.approx(np.average(losses(f, y, 1, 0), weights=weight), rel=1e-8)


@pytest.mark.parametrize("K", [2, 3])
def test_balanced_classes_weigh_the_held_out_loss(K):
    X, y = table(K, 150, 3)
    keep = (y == 0) | (np.arange(150) % 4 == 0)
    X, y = X[keep], y[keep]
    counts = np.bincount(y)
    by_hand = dict(enumerate(len(y) / (K * counts)))
    balanced, named = (RibbonClassifier(logistic(0.03, class_weight=w)).fit(X, y) for w in ("balanced", by_hand))
    assert balanced.temperature_ == pytest.approx(named.temperature_, rel=1e-9)
    f = refitted_logits(logistic(0.03, class_weight=by_hand), X, y, each_row(y))
    weight = np.array([by_hand[own] for own in y])
    T, bias = best_scaling(f, y, LINEAR, weight)
    assert not named.scaling_.averaged
    assert named.temperature_ == pytest.approx(T, rel=0.05)
    np.testing.assert_allclose(named.scaling_.bias, bias, atol=0.02)


@pytest.mark.parametrize("held_out", ["auto", 4])
@pytest.mark.parametrize("K", [2, 3])
def test_sparse_rows_string_labels_and_row_order_change_nothing(K, held_out):
    X, y = table(K, 90, 4)
    X = np.where(np.abs(X) > 0.4, X, 0.0)
    ribbon = RibbonClassifier(logistic(0.1), held_out=held_out)
    plain = clone(ribbon).fit(X, y)
    expected, names = plain.predict_proba(X), np.array(["a", "bee", "c"])
    order = np.random.default_rng(0).permutation(90)
    others = [
        RibbonClassifier(LogisticRegression(C=0.1, tol=1e-12, max_iter=5000), held_out=held_out).fit(
            sparse.csr_array(X), y
        ),
        clone(ribbon).fit(X, names[y]),
        clone(ribbon).fit(X[order], y[order]),
    ]
    assert abs(np.log(plain.temperature_)) > 0.02
    for other in others:
        assert other.temperature_ == pytest.approx(plain.temperature_, rel=1e-5)
        np.testing.assert_allclose(other.predict_proba(X), expected, rtol=1e-5)
    assert others[1].classes_.tolist() == names[:K].tolist()


def test_refits_of_a_pipeline_fit_all_its_steps():
    X, y = table(2, 60, 4)
    X = np.exp(2 * X)  # of skewed columns, whose scales differ from fold to fold
    base, splits = make_pipeline(StandardScaler(), logistic(0.1)), list(KFold(6).split(X))
    ribbon = RibbonClassifier(base, held_out=splits).fit(X, y)
    f = refitted_logits(base, X, y, splits)
    T, bias = best_scaling(f, y, LINEAR)
    assert ribbon.scaling_.losses["plain"] == pytest.approx(losses(f, y, 1, 0).mean(), rel=1e-8)
    assert ribbon.scaling_.losses["tempered"] == pytest.approx(losses(f, y, T, bias).mean(), rel=2e-3)
    scaled = refitted_logits(base[-1], base[0].fit_transform(X), y, splits)
    assert losses(scaled, y, 1, 0).mean() != pytest.approx(losses(f, y, 1, 0).mean(), rel=1e-4)  # the test can tell


def test_users_own_loss_has_the_temperature_of_the_named_one():
    import autograd.numpy as anp

    X, y = table(2, 80, 3)

    def f(params, X):
        return X @ params["w"] + params["b"]

    def log_loss(f, y):
        return anp.logaddexp(0, f) - y * f

    start, known = {"w": np.zeros(3), "b": 0.0}, {"l2": 0.3, "max_iter": 1000}
    own, named = (RibbonClassifier(AutogradClassifier(f, start, loss=loss, **known)) for loss in (log_loss, "log_loss"))
    assert own.fit(X, y).temperature_ == pytest.approx(named.fit(X, y).temperature_, rel=1e-3)


# ---------------------------------------------------------------------- intervals
@pytest.mark.filterwarnings("ignore::skribbon.exceptions.RibbonWarning")
@pytest.mark.parametrize("predictive", ["gaussian", "pushforward"])
@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("K", [2, 3])
def test_probability_lies_in_its_interval(K, C, predictive):
    X, y, X_new, _ = parts(K, 60, 8, n_new=300)
    ribbon = RibbonClassifier(logistic(C), predictive=predictive, random_state=0).fit(X, y)
    for one in (ribbon, *(ribbon.with_alpha(1.0, temperature=T) for T in (0.3, 20.0))):
        P, interval = one.predict_proba(X_new)[:, :, None], one.predict_proba_interval(X_new, [0.05, 0.5, 0.9])
        assert np.all((interval[:, :, 0] <= P) & (interval[:, :, 1] >= P))


def with_and_without(base, X, y):
    """Ribbons with a learnt temperature, and with a temperature of one."""
    ribbon = RibbonClassifier(base, correction="HC0")
    return clone(ribbon).fit(X, y), clone(ribbon).set_params(temperature=1.0).fit(X, y)


def test_temperature_above_one_leaves_intervals_as_they_are():
    (X, y), (X_new, _) = table(2, 60, 5), table(2, 300, 5, seed=1)
    auto, fixed = with_and_without(logistic(100.0), X, y)
    assert auto.temperature_ > 1.2 and not auto.scaling_.averaged
    f, S = logit_spread(fixed, X_new)
    lower, upper = (expit(f[:, 0] + z * np.sqrt(S[:, 0, 0])) for z in norm.ppf([0.05, 0.95]))
    P, interval = auto.predict_proba(X_new)[:, 1], auto.predict_proba_interval(X_new, 0.9)[:, 1]
    np.testing.assert_allclose(interval[:, 0], np.minimum(lower, P), rtol=1e-8)
    np.testing.assert_allclose(interval[:, 1], np.maximum(upper, P), rtol=1e-8)
    assert np.mean((lower < P) & (upper > P)) > 0.2  # some rows have the bounds of the base model
    draws = (one.predict_proba_samples(X_new, 5, random_state=0) for one in (auto, fixed))
    np.testing.assert_allclose(*draws, rtol=1e-12)


def test_temperature_below_one_moves_intervals():
    """Logits of the bounds are divided by T, plus the bias."""
    (X, y), (X_new, _) = table(2, 60, 5), table(2, 100, 5, seed=1)
    auto, fixed = with_and_without(logistic(0.1), X, y)
    T, bias = auto.temperature_, auto.scaling_.bias
    assert T < 0.8 and np.abs(bias).max() > 0.01 and not auto.scaling_.averaged
    moved, raw = (logit(one.predict_proba_interval(X_new, 0.9)[:, 1]) for one in (auto, fixed))
    np.testing.assert_allclose(moved, raw / T + bias[1] - bias[0], rtol=1e-7, atol=1e-7)
    moved, raw = (logit(one.predict_proba_samples(X_new, 5, random_state=0)[..., 1]) for one in (auto, fixed))
    np.testing.assert_allclose(moved, raw / T + bias[1] - bias[0], rtol=1e-7, atol=1e-7)
    number = clone(fixed).set_params(temperature=T).fit(X, y).predict_proba_samples(X_new, 5, random_state=0)
    np.testing.assert_allclose(logit(number[..., 1]), raw / T, rtol=1e-7)


def test_folds_without_a_class_are_refused():
    X, y = table(2, 60, 3)
    y = np.where(np.arange(60) == 0, 2, y)  # a class of one row
    with pytest.raises(ValueError, match=r"without an example of class \[2\]"):
        RibbonClassifier(logistic(), held_out=KFold(5)).fit(X, y)


# ---------------------------------------------------------------------- tables of categories
def categories(n, d, seed=0):
    """Binary columns, and classes of a logistic regression that is true."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < [0.5, 0.3, 0.2, 0.1, 0.1, 0.05, 0.05, 0.02][:d]).astype(float)
    return X, rng.random(n) < 1 / (1 + np.exp(2.2 - X[:, :3] @ [1, -1, 0.5]))


def test_probabilities_of_large_tables_of_categories_are_those_of_the_true_model():
    X, y = categories(30_000, 8)
    ribbon = RibbonClassifier(LogisticRegression()).fit(X, y)
    np.testing.assert_allclose(ribbon.predict_proba(X), ribbon.estimator_.predict_proba(X), atol=0.02)
    assert abs(ribbon.predict_proba(X)[:, 1].mean() - y.mean()) < 0.002


@pytest.mark.parametrize(
    "estimator",
    [
        RibbonCV(LogisticRegression()),
        RibbonClassifier(LogisticRegression(), held_out=5),
        RibbonClassifier(MLPClassifier((8,), max_iter=50, random_state=0)),
    ],
    ids=["RibbonCV", "refits", "network"],
)
@pytest.mark.filterwarnings("ignore")
def test_folds_of_tables_of_categories_find_that_the_model_is_calibrated(estimator):
    X, y = categories(4000, 5)
    ribbon = estimator.fit(X, y)
    plain = getattr(ribbon, "estimator_", ribbon)
    plain = getattr(plain, "estimator_", plain).predict_proba(X)
    np.testing.assert_allclose(ribbon.predict_proba(X), plain, atol=0.03)


def test_groups_keep_the_expected_counts_of_the_fit():
    """Without a large group that is unlike the others, a fit expects other counts than with it."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(20), [400, 300, *[50] * 18])
    X = rng.normal(size=(1600, 2))
    level = np.where(group < 2, -3.0, rng.normal(size=20)[group])
    y = (rng.random(1600) < expit(X[:, 0] + level)).astype(int)
    ribbon = RibbonClassifier(LogisticRegression()).fit(X, y, groups=group)
    assert ribbon.temperature_ > 1.1
    total = ribbon.predict_proba(X)[:, 1].sum()
    np.testing.assert_allclose(total, ribbon.estimator_.predict_proba(X)[:, 1].sum(), rtol=1e-3)


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.LeverageWarning")
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_categories_of_a_single_row_or_group_do_not_flatten_all_probabilities(K, grouped):
    X, y, X_new, _ = parts(K, 1000, 3, scale=1.5)
    unit = np.arange(1000) // 2 if grouped else np.arange(1000)
    y = y[2 * unit] if grouped else y  # all rows of a group have one class
    known, own = {"groups": unit} if grouped else {}, (unit[:, None] == np.arange(3)).astype(float)
    without = RibbonClassifier(logistic(np.inf)).fit(X, y, **known)
    ribbon = RibbonClassifier(LogisticRegression(C=np.inf, max_iter=2000)).fit(np.hstack([X, own]), y, **known)
    assert ribbon.held_out_.origin == "loo"
    np.testing.assert_allclose(ribbon.temperature_, without.temperature_, rtol=0.02)
    proba = ribbon.predict_proba(np.hstack([X_new, np.zeros((len(X_new), 3))]))
    np.testing.assert_allclose(proba, without.predict_proba(X_new), atol=0.01)


@pytest.mark.parametrize("refits", [RibbonCV(LogisticRegression()), RibbonClassifier(held_out=5)], ids=["cv", "refits"])
def test_folds_of_tables_of_counts_warn(refits):
    X, y = categories(4000, 5)
    cells, count = np.unique(np.c_[X, y], axis=0, return_counts=True)
    with pytest.warns(WeightWarning, match="repeat rows instead of weighting them"):
        refits.fit(cells[:, :5], cells[:, 5], sample_weight=count)
    default = RibbonClassifier(LogisticRegression()).fit(cells[:, :5], cells[:, 5], sample_weight=count)
    np.testing.assert_allclose(default.predict_proba(X), default.estimator_.predict_proba(X), atol=0.01)


def test_folds_of_survey_weights_do_not_warn():
    X, y = categories(400, 5)
    weight = np.random.default_rng(0).lognormal(0, 0.5, size=400)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeightWarning)
        RibbonCV(RibbonClassifier(weight_type="importance")).fit(X, y, sample_weight=weight)
