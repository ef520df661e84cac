"""Estimators around users' functions: the same answers as scikit-learn's own, scikit-learn's manners, and mistakes."""

import pickle
import threading
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator
from spelling import assert_checked

from skribbon import AutogradClassifier, AutogradRegressor, RibbonClassifier, RibbonRegressor
from skribbon.exceptions import SlowDerivativeWarning
from skribbon.models import GaussianNLL, Huber, StudentT, as_parametric
from skribbon.models.architectures import mlp
from skribbon.models.autograd.derivatives import AutogradModel, Looped, Replicated, Supplied
from skribbon.models.losses import Bernoulli, Categorical
from skribbon.models.mlp import MultilayerPerceptron

N = 150
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
ETA = X @ [0.6, -0.4, 0.2] + 0.3
Y = ETA + 0.5 * RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(ETA)).astype(float)
POSITIVE = np.exp(ETA) * RNG.gamma(4.0, 0.25, N)
BINARY = np.where(ETA + RNG.logistic(size=N) > 0, "yes", "no")
TERNARY = np.array(["a", "b", "c"])[np.digitize(ETA + RNG.logistic(size=N), [-0.5, 1.0])]
WEIGHT = RNG.integers(0, 4, N).astype(float)
TIGHT = {"tol": 1e-12, "max_iter": 5000}


def linear(params, X):
    return X @ params["w"] + params["b"]


START = {"w": np.zeros(3), "b": 0.0}
SOFTMAX_START = {"w": np.zeros((3, 3)), "b": np.zeros(3)}
WEIGHTS_ONLY = {"w": 0.1, "b": 0.0}


def regressor(f=linear, init=START, **params):
    return AutogradRegressor(f, init, **{**TIGHT, **params})


def classifier(f=linear, init=START, **params):
    return AutogradClassifier(f, init, **{**TIGHT, **params})


# ---------------------------------------------------------------------- the same as scikit-learn's own
CUT = {"solver": "newton-cholesky", "tol": 1e-12}
TWINS = {
    "ridge": (regressor(l2=WEIGHTS_ONLY), lambda n: Ridge(alpha=0.1 * n, tol=1e-12), Y),
    "poisson": (regressor(l2=WEIGHTS_ONLY, loss="poisson"), lambda n: PoissonRegressor(alpha=0.1, **CUT), COUNTS),
    "gamma": (regressor(l2=WEIGHTS_ONLY, loss="gamma"), lambda n: GammaRegressor(alpha=0.1, **CUT), POSITIVE),
    "logistic": (classifier(l2=WEIGHTS_ONLY), lambda n: LogisticRegression(C=10 / n, **CUT), BINARY),
    "softmax": (
        classifier(init=SOFTMAX_START, l2=WEIGHTS_ONLY),
        lambda n: LogisticRegression(C=10 / n, **CUT),
        TERNARY,
    ),
}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", TWINS)
def test_coefficients_are_those_of_scikit_learn(name, weight):
    ours, theirs, y = TWINS[name]
    ours = clone(ours).fit(X, y, sample_weight=weight)
    theirs = theirs(N if weight is None else weight.sum()).fit(X, y, sample_weight=weight)
    assert_allclose(ours.params_["w"].T, np.squeeze(theirs.coef_), atol=2e-6)
    method = "predict_proba" if hasattr(ours, "predict_proba") else "predict"
    assert_allclose(getattr(ours, method)(X), getattr(theirs, method)(X), rtol=1e-5)
    assert (ours.predict(X) == theirs.predict(X)).all() or method == "predict"


@pytest.mark.parametrize("name", ["ridge", "poisson", "logistic"])
def test_covariances_are_those_of_scikit_learn(name):
    ours, theirs, y = TWINS[name]
    ribbon = RibbonClassifier if name == "logistic" else RibbonRegressor
    ours, theirs = ribbon(ours, curvature="hessian").fit(X, y), ribbon(theirs(N), curvature="hessian").fit(X, y)
    assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-4, atol=1e-7)


def test_softmax_intervals_are_those_of_scikit_learn():
    ours, theirs, y = TWINS["softmax"]
    ours, theirs = RibbonClassifier(ours).fit(X, y), RibbonClassifier(theirs(N)).fit(X, y)
    assert_allclose(ours.predict_proba_interval(X), theirs.predict_proba_interval(X), rtol=1e-4, atol=1e-6)


def test_integer_weights_are_repeated_rows():
    counts = WEIGHT.astype(int)
    X_repeated, y_repeated = np.repeat(X, counts, axis=0), np.repeat(Y, counts)
    weighted = AutogradRegressor(mlp((3,)), l2=0.1, random_state=0, **TIGHT).fit(X, Y, sample_weight=WEIGHT)
    repeated = AutogradRegressor(mlp((3,)), l2=0.1, random_state=0, **TIGHT).fit(X_repeated, y_repeated)
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-4, atol=1e-5)
    same_scale = AutogradRegressor(mlp((3,)), l2=0.1, random_state=0, **TIGHT).fit(X, Y, sample_weight=5 * WEIGHT)
    assert_allclose(weighted.predict(X), same_scale.predict(X), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------- losses
LOSSES = {
    "squared_error": lambda f, y: (f - y) ** 2 / 2,
    "huber": lambda f, y: anp.where(anp.abs(f - y) <= 1.35, (f - y) ** 2 / 2, 1.35 * (anp.abs(f - y) - 1.35 / 2)),
    "student_t": lambda f, y: 3 * anp.log1p((f - y) ** 2 / 5),
    "poisson": lambda f, y: anp.exp(f) - y * f,
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_users_loss_gives_the_fit_of_the_named_one(name):
    named = regressor(loss=name, l2=0.01).fit(X, COUNTS)
    own = regressor(loss=LOSSES[name], l2=0.01).fit(X, COUNTS)
    assert_allclose(own.params_["w"], named.params_["w"], atol=1e-6)


def test_a_users_log_loss():
    own = classifier(loss=lambda f, y: anp.logaddexp(0, f) - y * f, l2=0.1).fit(X, BINARY)
    named = classifier(l2=0.1).fit(X, BINARY)
    assert_allclose(own.predict_proba(X), named.predict_proba(X), atol=1e-6)
    assert_allclose(
        RibbonClassifier(own).fit(X, BINARY).covariance_, RibbonClassifier(named).fit(X, BINARY).covariance_, rtol=1e-4
    )


def test_a_users_softmax_sees_logits_that_sum_to_zero():
    sums = []

    def loss(f, y):
        sums.append(np.abs(f.sum(axis=1)).max() if isinstance(f, np.ndarray) else 0.0)
        one_hot = y[:, None] == np.arange(3)
        return anp.log(anp.sum(anp.exp(f), axis=1)) - anp.sum(f * one_hot, axis=1)

    own = classifier(init=SOFTMAX_START, loss=loss, l2=0.1).fit(X, TERNARY)
    named = classifier(init=SOFTMAX_START, l2=0.1).fit(X, TERNARY)
    assert max(sums) < 1e-12
    assert_allclose(own.predict_proba(X), named.predict_proba(X), atol=1e-6)


def test_a_loss_of_two_columns():
    def f(params, X):
        return anp.stack([X @ params["w"] + params["b"], X[:, 0] * params["s"] + params["c"]], axis=1)

    noise = np.random.default_rng(1).normal(size=N)
    y = ETA + np.exp(0.5 * X[:, 0] - 1) * noise
    model = AutogradRegressor(f, {"w": np.zeros(3), "b": 0, "s": 0, "c": 0}, loss="gaussian_nll").fit(X, y)
    assert abs(model.params_["s"] - 1.0) < 0.3  # log variance = 2 log std
    assert_allclose(model.predict(X), X @ model.params_["w"] + model.params_["b"])
    again = AutogradRegressor(f, model.params_, loss=GaussianNLL()).fit(X, y)
    assert_allclose(again.predict(X), model.predict(X), rtol=1e-3)


def test_loss_objects_set_constants():
    narrow, wide = (regressor(loss=Huber(epsilon)).fit(X, Y) for epsilon in (0.1, 100.0))
    assert_allclose(wide.params_["w"], regressor().fit(X, Y).params_["w"], atol=1e-6)
    assert np.abs(narrow.params_["w"] - wide.params_["w"]).max() > 1e-3
    regressor(loss=StudentT(df=4)).fit(X, Y)


# ---------------------------------------------------------------------- the model behind it
def test_a_users_function_is_traced():
    model = as_parametric(regressor().fit(X, Y), Y, np.ones(N))
    assert isinstance(model, AutogradModel)
    assert isinstance(model.route, Replicated)


def test_an_architecture_has_analytic_derivatives():
    estimator = AutogradRegressor(mlp((3,)), l2=0.2, max_iter=20, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        estimator.fit(X, Y)
    model = as_parametric(estimator, Y, np.ones(N))
    assert isinstance(model, MultilayerPerceptron)
    traced = estimator._traced_model(estimator.params_, Looped())
    assert_allclose(model.raw(X), traced.raw(X))
    assert model.l2 @ model.theta**2 == pytest.approx(traced.l2 @ traced.theta**2)
    assert set(model.l2) == {0.0, 0.2}  # biases go free


def test_l2_as_a_nest_reaches_biases_of_an_architecture():
    estimator = AutogradRegressor(mlp((3,)), l2=[(1.0, 0.5), 1.0], random_state=0).fit(X, Y)
    assert estimator._penalties(estimator.params_) == [(1.0, 0.5), (1.0, 1.0)]


@pytest.mark.parametrize(("units", "warns"), [(2, False), (26, True)])
def test_slow_derivatives_of_many_parameters_warn(units, warns):
    def f(params, X):
        return anp.sum(anp.tanh(X @ params[0]) * params[1], axis=1)

    many, rng = np.random.default_rng(0).normal(size=(1000, 3)), np.random.default_rng(1)
    init = (rng.normal(size=(3, units)), rng.normal(size=units))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = AutogradRegressor(f, init, l2=0.1, max_iter=2).fit(many, many[:, 0])
        as_parametric(estimator, many[:, 0], np.ones(1000))
    slow = [str(w.message) for w in caught if issubclass(w.category, SlowDerivativeWarning)]
    assert ["axis=-1" in message for message in slow] == [True] * warns


def test_derivatives_of_few_parameters_take_few_passes():
    """A product with a slice of the columns fits no layout, and is differentiated without a loop over rows."""
    calls = []

    def f(params, X):
        calls.append(len(X))
        return X[:, :-1] @ params["w"] + params["b"]

    many = np.random.default_rng(0).normal(size=(500, 3))
    estimator = AutogradRegressor(f, {"w": np.zeros(2), "b": 0.0}).fit(many, many[:, 0])
    model = as_parametric(estimator, many[:, 0], np.ones(500))
    calls.clear()
    J = model.tangent(many).jacobian()
    assert_allclose(J[:, 0], np.c_[many[:, :-1], np.ones(500)], rtol=1e-12)
    assert len(calls) < 10


def test_a_supplied_jacobian_is_used_and_checked():
    def jac(params, X):
        return {"w": X, "b": np.ones(len(X))}

    fitted = regressor(jac=jac).fit(X, Y)
    assert isinstance(as_parametric(fitted, Y, np.ones(N)).route, Supplied)
    assert_allclose(
        RibbonRegressor(fitted).fit(X, Y).covariance_, RibbonRegressor(regressor()).fit(X, Y).covariance_, rtol=1e-6
    )
    with pytest.raises(ValueError, match="jac is not the derivative of f"):
        regressor(jac=lambda params, X: {"w": 2 * X, "b": np.ones(len(X))}).fit(X, Y)


# ---------------------------------------------------------------------- scikit-learn's manners
# the checks fit each some hundred times, and ask for manners, not for the last digit of a minimum
CHECKED = {
    "regressor": AutogradRegressor(max_iter=30),
    "classifier": AutogradClassifier(max_iter=30),
    "ribbon": RibbonRegressor(AutogradRegressor(mlp((2,)), max_iter=30), noise="dof"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKED)
def test_scikit_learns_own_checks(name):
    results = check_estimator(CHECKED[name], on_fail=None, on_skip=None)
    assert_checked(results, 62 if name == "classifier" else 60, least=57)


def test_counts_are_positive():
    assert get_tags(AutogradRegressor(loss="poisson")).target_tags.positive_only
    assert not get_tags(AutogradRegressor(loss=lambda f, y: f)).target_tags.positive_only


def test_grid_search_over_penalties_in_a_pipeline():
    search = GridSearchCV(make_pipeline(StandardScaler(), regressor()), {"autogradregressor__l2": [0.0, 10.0]}, cv=3)
    assert search.fit(X, Y).best_params_ == {"autogradregressor__l2": 0.0}


def test_random_state():
    def fit(seed):
        return AutogradRegressor(mlp((3,)), solver="adam", max_iter=30, random_state=seed).fit(X, Y).predict(X)

    with pytest.warns(ConvergenceWarning):
        assert_allclose(fit(0), fit(0), rtol=0)
        assert np.abs(fit(0) - fit(1)).max() > 1e-3


def test_init_may_be_a_function_of_the_data():
    seen = {}

    def init(X, y, random_state):
        seen.update(X=X, y=y, rng=random_state)
        return START

    classifier(init=init, l2=0.1).fit(X, BINARY)
    assert seen["X"].shape == X.shape
    assert set(seen["y"]) == {0.0, 1.0}
    assert isinstance(seen["rng"], np.random.RandomState)


@pytest.mark.parametrize("ribbon", [False, True])
def test_local_functions_survive_pickling(ribbon):
    estimator = AutogradRegressor(
        lambda q, X: q[0] * anp.exp(-q[1] * X[:, 0]), lambda X, y, rng: (1.0, 0.1), loss=lambda f, y: (f - y) ** 2 / 2
    )
    estimator = RibbonRegressor(estimator) if ribbon else estimator
    estimator.fit(X, POSITIVE)
    again = pickle.loads(pickle.dumps(estimator))
    assert_allclose(again.predict(X), estimator.predict(X))
    if ribbon:
        assert_allclose(again.predict_interval(X), estimator.predict_interval(X))
        again = again.estimator
    clone(again).fit(X, POSITIVE)


def test_unpicklable_function_is_named_in_the_error():
    lock = threading.Lock()

    def f(params, X):
        with lock:
            return linear(params, X)

    with pytest.raises(TypeError, match=r"f=.*cannot be pickled.*top level of a module"):
        pickle.dumps(regressor(f).fit(X, Y))


# ---------------------------------------------------------------------- mistakes, each with its cure
def assigned(params, X):
    out = np.zeros(len(X))
    out[0] = params["b"]
    return out


FUNCTION_MISTAKES = {
    "scalar": (lambda q, X: anp.sum(X @ q["w"]), ValueError, r"must return shape \(n,\) or \(n, k\)"),
    "three axes": (lambda q, X: (X @ q["w"])[:, None, None], ValueError, r"must return shape \(n,\) or \(n, k\)"),
    "other rows": (lambda q, X: X[1:] @ q["w"], ValueError, r"must return shape \(n,\) or \(n, k\)"),
    "two columns": (lambda q, X: anp.stack([X @ q["w"]] * 2, axis=1), ValueError, r"\(n,\) or \(n, 1\) for loss"),
    "mixes rows": (lambda q, X: (X - X.mean(axis=0)) @ (q["w"] + 1), ValueError, "f.*mixes rows.*StandardScaler"),
    "nan": (lambda q, X: anp.log(X @ q["w"] - 1), ValueError, "f.*is NaN or infinite.*init"),
    "nan in the gradient": (lambda q, X: anp.sqrt(X @ q["w"] + q["b"]), ValueError, "gradient.*is NaN or inf.*init"),
    "scipy": (lambda q, X: scipy.special.ndtr(X @ q["w"]), TypeError, "cannot differentiate f.*autograd.numpy"),
    "item assignment": (assigned, TypeError, "autograd cannot differentiate f.*item assignment"),
    "dot": (lambda q, X: X.dot(q["w"]), TypeError, "autograd cannot differentiate f.*X @ W in place of X.dot"),
    "dot and more": (lambda q, X: X.dot(q["w"]) + q["b"], TypeError, "X @ W in place of X.dot"),
    "numpy.dot": (lambda q, X: anp.tanh(np.dot(X, q["w"])), TypeError, "X @ W in place of X.dot.W. or numpy.dot"),
    "no parameters": (lambda q, X: X[:, 0], ValueError, "f does not depend on"),
    "not a function": (3.0, TypeError, "f must be a function"),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("mistake", FUNCTION_MISTAKES)
def test_mistakes_in_f(mistake):
    f, error, message = FUNCTION_MISTAKES[mistake]
    with pytest.raises(error, match=message):
        regressor(f).fit(X, Y)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"init": None}, ValueError, "init is None"),
        ({"init": []}, ValueError, "init has no parameters"),
        ({"init": {"w": "zero"}}, TypeError, "init must hold numbers"),
        ({"loss": "squared"}, ValueError, "loss must be 'squared_error'"),
        ({"loss": Bernoulli()}, ValueError, "loss must be 'squared_error'"),
        (
            {"loss": lambda f, y: anp.mean((f - y) ** 2)},
            ValueError,
            r"loss\(f, y\) must return [0-9]+ losses, one per row",
        ),
        (
            {"loss": lambda f, y: (f - y)[:, None] ** 2},
            ValueError,
            r"loss\(f, y\) must return [0-9]+ losses, one per row",
        ),
        ({"loss": lambda f, y: scipy.special.huber(1.0, f - y)}, TypeError, "autograd cannot differentiate loss"),
        ({"loss": lambda f, y: anp.log(f) * y}, ValueError, "loss is NaN or infinite"),
        ({"loss": "gaussian_nll"}, ValueError, r"\(n, 2\) for loss='gaussian_nll'"),
        ({"loss": "poisson"}, ValueError, "loss='poisson' needs y >= 0"),
        ({"loss": "gamma"}, ValueError, "loss='gamma' needs y > 0"),
        ({"l2": -1.0}, ValueError, "l2 must be a finite number >= 0"),
        ({"l2": {"v": 1.0}}, ValueError, "l2 does not match the parameters"),
        ({"solver": "sgd"}, ValueError, "solver must be one of 'lbfgs', 'adam'"),
        ({"max_iter": 0}, ValueError, "max_iter must be an integer >= 1"),
        ({"tol": -1.0}, ValueError, "tol must be a number >= 0"),
        ({"early_stopping": True}, ValueError, "early_stopping=True needs solver='adam'"),
        ({"early_stopping": True, "solver": "adam", "polish": True}, ValueError, "choose one"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_mistakes_in_parameters(params, error, message):
    with pytest.raises(error, match=message):
        regressor(**params).fit(X, Y)


def test_classifiers_count_their_columns():
    with pytest.raises(ValueError, match=r"\(n, 3\) for 3 classes"):
        classifier().fit(X, TERNARY)
    with pytest.raises(ValueError, match=r"\(n,\) or \(n, 1\) for 2 classes"):
        classifier(init=SOFTMAX_START).fit(X, BINARY)
    with pytest.raises(ValueError, match="one class"):
        classifier().fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="loss must be 'log_loss'"):
        classifier(loss=Categorical(3)).fit(X, TERNARY)


def test_integer_parameters_become_floats():
    assert regressor(init={"w": [0, 0, 0], "b": 0}, f=lambda q, X: X[:, 0] * q["w"][0] + q["b"]).fit(X, Y).n_iter_ > 0
    assert regressor(init={"w": np.zeros(3, dtype=int), "b": 0}).fit(X, Y).params_["w"].dtype == np.float64


def test_unused_parameter_keeps_its_initial_value():
    fitted = regressor(init={**START, "idle": np.array([3.0])}).fit(X, Y)
    assert fitted.params_["idle"] == 3.0


@pytest.mark.parametrize("weight", [-np.ones(N), np.zeros(N), np.ones(3), np.full(N, np.nan)])
def test_wrong_weights(weight):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        regressor().fit(X, Y, sample_weight=weight)
