"""Small cases of every registered base model, fitted with and without weights."""

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from spelling import logistic, logistic_cv

from skribbon.exceptions import SelectionWarning
from skribbon.models import ParametricModel, as_parametric

N = 150


@dataclass(frozen=True)
class Case:
    """An unfitted estimator with its data, and what a test needs to know to write its loss down independently.

    ``gradient`` bounds the largest entry of mean score plus penalty gradient that scikit-learn's solver leaves.
    """

    id: str
    estimator: BaseEstimator
    X: np.ndarray
    y: np.ndarray
    loss: str
    gradient: float
    power: float = 0.0
    link: str = "identity"
    freeze: bool = False
    accepts_sparse: bool = True

    @property
    def is_classifier(self):
        return self.loss in ("logistic", "softmax")

    @property
    def is_network(self):
        return isinstance(self.estimator, MLPRegressor | MLPClassifier)

    @property
    def kind(self):
        """All that the code of a derivative can branch on: cases of one kind differ in a solver or in a number."""
        leaf, wrapper = self.estimator, ""
        while isinstance(leaf, Pipeline | TransformedTargetRegressor):
            wrapper += type(leaf).__name__
            leaf = leaf[-1] if isinstance(leaf, Pipeline) else leaf.regressor
        if self.is_network:
            return "network", self.loss, leaf.activation, len(leaf.hidden_layer_sizes)
        l1 = isinstance(leaf, ElasticNet | ElasticNetCV | LassoCV) or (
            isinstance(leaf, LogisticRegression) and bool(getattr(leaf, "l1_ratio", 0))
        )
        unpenalised = isinstance(leaf, LinearRegression) or getattr(leaf, "C", 1) == np.inf
        penalty = "l1" if l1 else "none" if unpenalised or getattr(leaf, "penalty", "l2") is None else "l2"
        constrained = getattr(leaf, "positive", False)
        penalises_intercept = leaf.fit_intercept and getattr(leaf, "solver", "") == "liblinear"
        loss = ("tweedie", 0.0, "identity") if self.loss == "squared" else (self.loss, self.power, self.link)
        balanced = getattr(leaf, "class_weight", None) is not None
        return wrapper, loss, penalty, constrained, balanced, leaf.fit_intercept, penalises_intercept

    def fit(self, weight=None, X=None):
        """A fitted clone. A solver that does not converge is an error: the case would not test what it claims."""
        estimator = clone(self.estimator)
        last_step = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
        weights = {} if weight is None else {f"{last_step}sample_weight": weight}
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            estimator.fit(self.X if X is None else X, self.y, **weights)
        return FrozenEstimator(estimator) if self.freeze else estimator


@dataclass(frozen=True)
class Fitted:
    """A fitted case as tests see it; ``weight`` is ones where the estimator was fitted without weights."""

    case: Case
    estimator: BaseEstimator
    model: ParametricModel
    weight: np.ndarray

    @property
    def Z(self):
        return self.model.rows(self.model.prepare(self.case.X))

    @property
    def t(self):
        """The target as the loss sees it."""
        return self.model.encode_target(self.case.y)


def parametric(estimator, y, weight):
    """as_parametric without its word on selection, which has tests of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return as_parametric(estimator, y, weight)


@cache
def fitted_case(case_id, weighted):
    case = next(case for case in CASES if case.id == case_id)
    weight = row_weights() if weighted else None
    estimator = case.fit(weight)
    weight = np.ones(N) if weight is None else weight
    return Fitted(case, estimator, parametric(estimator, case.y, weight), weight)


def row_weights():
    return np.random.default_rng(7).integers(1, 4, N).astype(float)


# ---------------------------------------------------------------------- data
def _features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) @ (np.eye(4) + 0.3) + [0.5, 0.0, -0.3, 0.0]
    X[:, 3] = rng.random(N) < 0.4  # zeros, so that a sparse copy is sparse
    return X


X = _features()
ETA = 0.4 + X @ [0.5, -0.4, 0.2, 0.3]
_rng = np.random.default_rng(1)
Y = ETA + _rng.standard_t(4, N)  # heavy tails, so that a Huber loss has rows on both sides of its threshold
POSITIVE = np.exp(0.5 * ETA) * _rng.gamma(5.0, 0.2, N)
FAR_FROM_ZERO = np.maximum(6 + 0.5 * ETA + 0.5 * _rng.normal(size=N), 0.5)  # an identity link must stay positive
COUNTS = _rng.poisson(np.exp(0.5 * ETA)).astype(float)
BINARY = np.where(ETA + _rng.logistic(size=N) > 0.5, "yes", "no")
TERNARY = np.array(["low", "medium", "high"])[
    (ETA + _rng.logistic(size=N) > 0).astype(int) + (X[:, 1] + _rng.logistic(size=N) > 0)
]


def _corners():
    # clusters with gaps between them, because a relu network fitted to a cloud puts rows on its kinks, where lbfgs
    # stops short of a zero gradient
    rng = np.random.default_rng(5)
    S = np.sign(rng.normal(size=(N, 3)))
    return S + 0.02 * rng.normal(size=(N, 3)), S[:, 0] * S[:, 1] + S[:, 2] + 0.3 * rng.normal(size=N)


CORNERS, Y_CORNERS = _corners()


# ---------------------------------------------------------------------- cases
def _squared(name, estimator, gradient=1e-12, **facts):
    return Case(name, estimator, X, Y, "squared", gradient, **facts)


def _huber(name, **params):
    estimator = HuberRegressor(tol=1e-10, max_iter=10_000, alpha=5.0, **params)
    return Case(name, estimator, X, Y, "huber-scale", 4e-5)


def _binary(name, gradient, **params):
    estimator = logistic(**{"tol": 1e-10, "max_iter": 10_000, "random_state": 0, **params})
    return Case(f"logistic-{name}", estimator, X, BINARY, "logistic", gradient)


def _multinomial(name, gradient=1e-7, **params):
    estimator = logistic(**{"tol": 1e-10, "max_iter": 10_000, **params})
    return Case(f"multinomial-{name}", estimator, X, TERNARY, "softmax", gradient)


def _glm(name, estimator, power, link, y, gradient=1e-10, **params):
    settings = {"alpha": 0.1, "tol": 1e-10, "max_iter": 10_000, "solver": "newton-cholesky", **params}
    return Case(name, estimator.set_params(**settings), X, y, "tweedie", gradient, power, link)


def _tweedie(power, link, y, gradient=1e-10, name="", **params):
    estimator = TweedieRegressor(power=power, link=link)
    return _glm(f"tweedie-{power}-{link}{name}", estimator, power, link, y, gradient, **params)


def _network(name, y, family, gradient, estimator=MLPRegressor, **params):
    settings = {"solver": "lbfgs", "alpha": 1.0, "tol": 1e-9, "max_iter": 5000, "max_fun": 50_000, "random_state": 0}
    facts = {"power": 1.0, "link": "log"} if family == "tweedie" else {}
    network = estimator(**{"hidden_layer_sizes": (4,), "activation": "tanh", **settings, **params})
    inputs = CORNERS if y is Y_CORNERS else X[:, :3]
    return Case(f"mlp-{name}", network, inputs, y, family, gradient, **facts)


def _sgd(name, estimator, y, family, gradient, **params):
    # tol=None runs all epochs; averaging removes the noise of single steps
    settings = {"average": 3000 * N, "max_iter": 10_000, "tol": None, "alpha": 0.1, "random_state": 0}
    return Case(f"sgd-{name}", estimator(**{**settings, **params}), X, y, family, gradient)


CASES = [
    _squared("linear", LinearRegression()),
    _squared("linear-no-intercept", LinearRegression(fit_intercept=False)),
    _squared("linear-positive", LinearRegression(positive=True)),
    _squared("ridge", Ridge(alpha=5.0)),
    _squared("ridge-no-intercept", Ridge(alpha=5.0, fit_intercept=False)),
    _squared("ridge-cv", RidgeCV(alphas=[0.1, 3.0, 30.0])),
    _squared("bayesian-ridge", BayesianRidge(tol=1e-8)),
    _squared("elastic-net", ElasticNet(alpha=0.2, l1_ratio=0.6, tol=1e-14, max_iter=100_000)),
    _squared("elastic-net-no-intercept", ElasticNet(alpha=0.2, l1_ratio=0.6, tol=1e-14, fit_intercept=False)),
    _squared("elastic-net-cv", ElasticNetCV(l1_ratio=[0.3, 0.8], alphas=[0.2, 0.3], tol=1e-14, cv=3)),
    _squared("lasso", Lasso(alpha=0.2, tol=1e-14)),
    _squared("lasso-cv", LassoCV(alphas=[0.2, 0.3], tol=1e-14, cv=3)),
    _squared("pipeline", make_pipeline(StandardScaler(), Ridge(alpha=5.0)), accepts_sparse=False),
    _squared("frozen", Ridge(alpha=5.0), freeze=True),
    _squared("frozen-pipeline", make_pipeline(StandardScaler(), Ridge()), freeze=True, accepts_sparse=False),
    Case(
        "transformed-target",
        TransformedTargetRegressor(Ridge(alpha=5.0), func=np.log, inverse_func=np.exp),
        X,
        POSITIVE,
        "squared",
        1e-12,
    ),
    _huber("huber"),
    _huber("huber-no-intercept", fit_intercept=False),
    _binary("lbfgs", 2e-8),
    _binary("lbfgs-no-intercept", 2e-8, fit_intercept=False),
    _binary("newton-cholesky", 5e-12, solver="newton-cholesky"),
    _binary("newton-cg", 1e-10, solver="newton-cg"),
    _binary("liblinear", 1e-7, solver="liblinear", intercept_scaling=3.0, C=0.1),
    _binary("liblinear-no-intercept", 3e-8, solver="liblinear", fit_intercept=False, C=0.1),
    _binary("liblinear-l1", 1e-8, solver="liblinear", intercept_scaling=3.0, C=0.1, l1_ratio=1.0),
    _binary("liblinear-balanced", 1e-8, solver="liblinear", class_weight="balanced", C=0.1),
    _binary("sag", 1e-10, solver="sag"),
    _binary("saga", 1e-10, solver="saga"),
    _binary("unpenalised", 1e-10, C=np.inf, solver="newton-cholesky"),
    _binary("balanced", 1e-10, class_weight="balanced", C=0.1, solver="newton-cholesky"),
    _binary("class-weight", 1e-10, class_weight={"no": 1.0, "yes": 4.0}, C=0.1, solver="newton-cholesky"),
    _binary("l1", 1e-10, l1_ratio=1.0, C=0.1, solver="saga"),
    _binary("elastic", 1e-10, l1_ratio=0.5, C=0.1, solver="saga"),
    Case(
        "logistic-cv",
        logistic_cv(Cs=[0.05, 0.5], cv=3, tol=1e-10, scoring="neg_log_loss", solver="newton-cholesky"),
        X,
        BINARY,
        "logistic",
        1e-10,
    ),
    _multinomial("lbfgs"),
    _multinomial("no-intercept", fit_intercept=False),
    _multinomial("newton-cholesky", 1e-12, solver="newton-cholesky", C=0.1),
    _multinomial("balanced", class_weight="balanced", C=0.1),
    _multinomial("class-weight", class_weight={"low": 3.0, "high": 0.5}, C=0.1),
    _glm("poisson", PoissonRegressor(), 1, "log", COUNTS),
    _glm("poisson-lbfgs", PoissonRegressor(), 1, "log", COUNTS, 1e-8, solver="lbfgs"),
    _glm("gamma", GammaRegressor(), 2, "log", POSITIVE),
    *[_tweedie(power, "log", POSITIVE) for power in (0, 1, 1.5, 2)],
    _tweedie(3, "log", POSITIVE, 4e-8, solver="lbfgs"),
    _tweedie(1.5, "log", POSITIVE, name="-no-intercept", fit_intercept=False),
    _glm("tweedie-0-auto", TweedieRegressor(power=0), 0, "identity", Y, 3e-8, solver="lbfgs"),
    _glm("tweedie-1-auto", TweedieRegressor(power=1), 1, "log", COUNTS),
    *[_tweedie(power, "identity", FAR_FROM_ZERO, 3e-8, solver="lbfgs") for power in (0, 1.5, 2)],
    _network("tanh", Y, "squared", 1e-4),
    _network("relu", Y_CORNERS, "squared", 1e-4, activation="relu", alpha=3.0),
    _network("logistic", Y, "squared", 1e-4, activation="logistic"),
    _network("identity", Y, "squared", 1e-4, activation="identity"),
    _network("two-layers", Y, "squared", 1e-4, hidden_layer_sizes=(4, 3), random_state=1),
    _network(
        "two-layers-relu",
        Y_CORNERS,
        "squared",
        1e-4,
        hidden_layer_sizes=(4, 3),
        activation="relu",
        alpha=10.0,
        random_state=15,
    ),
    _network("poisson", COUNTS, "tweedie", 1e-4, loss="poisson"),
    _network("binary", BINARY, "logistic", 1e-4, estimator=MLPClassifier),
    _network("ternary", TERNARY, "softmax", 1e-4, estimator=MLPClassifier),
    _network("ternary-two-layers", TERNARY, "softmax", 1e-4, estimator=MLPClassifier, hidden_layer_sizes=(4, 3)),
    _sgd("squared", SGDRegressor, Y, "squared", 5e-4, eta0=3e-3),
    _sgd("squared-no-intercept", SGDRegressor, Y, "squared", 5e-4, eta0=3e-3, fit_intercept=False),
    _sgd("unpenalised", SGDRegressor, Y, "squared", 5e-4, eta0=3e-3, penalty=None),
    _sgd("huber", SGDRegressor, Y, "huber", 5e-4, eta0=3e-3, loss="huber", epsilon=1.0),
    _sgd(
        "insensitive", SGDRegressor, Y, "insensitive", 5e-4, eta0=1e-3, loss="squared_epsilon_insensitive", epsilon=0.5
    ),
    _sgd("log-loss", SGDClassifier, BINARY, "logistic", 2e-4, loss="log_loss"),
    _sgd("log-loss-balanced", SGDClassifier, BINARY, "logistic", 2e-4, loss="log_loss", class_weight="balanced"),
]


ONE_OF_EACH_KIND = list({case.kind: case for case in reversed(CASES)}.values())[::-1]  # the first of its kind


# ---------------------------------------------------------------------- fixtures
def _params(cases, weights=(True,)):
    return [
        pytest.param((case.id, weighted), id=f"{case.id}-{'weighted' if weighted else 'plain'}")
        for case in cases
        for weighted in weights
    ]


@pytest.fixture
def all_cases():
    return CASES


@pytest.fixture(params=_params(CASES, weights=(False, True)))
def every_fit(request):
    """Every case, fitted without weights and with integer weights: for all that an adapter reads off an estimator."""
    return fitted_case(*request.param)


@pytest.fixture(params=_params(CASES))
def every_case(request):
    """Every case, fitted with integer weights: for what an adapter reads without looking at weights."""
    return fitted_case(*request.param)


@pytest.fixture(params=_params(ONE_OF_EACH_KIND))
def fitted(request):
    """A case of each kind, fitted with integer weights: for the derivatives, which know no estimator."""
    return fitted_case(*request.param)


@pytest.fixture(params=_params([case for case in ONE_OF_EACH_KIND if case.accepts_sparse]))
def fitted_accepting_sparse(request):
    """The same where X may be sparse."""
    return fitted_case(*request.param)
