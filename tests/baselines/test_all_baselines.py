"""What every baseline must do: scikit-learn's checks, all predict methods, cloning, pickling, messages."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils.estimator_checks import check_estimator
from spelling import assert_checked

from skribbon import AutogradClassifier, AutogradRegressor
from skribbon.baselines import (
    BayesianBootstrapClassifier,
    BayesianBootstrapRegressor,
    BootstrapClassifier,
    BootstrapRegressor,
    DeepEnsembleClassifier,
    DeepEnsembleRegressor,
    LaplaceClassifier,
    LaplaceRegressor,
    MCDropoutClassifier,
    MCDropoutRegressor,
)
from skribbon.models.architectures import mlp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=90)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y + RNG.logistic(size=90), [-1.0, 1.0])]
BINARY = LABELS == "a"

REGRESSORS = {
    "ensemble": DeepEnsembleRegressor(n_members=2),
    "bootstrap": BootstrapRegressor(n_members=3),
    "Bayesian bootstrap": BayesianBootstrapRegressor(n_members=3),
    "Bayesian bootstrap from the optimum": BayesianBootstrapRegressor(n_members=3, start="optimum"),
    "dropout": MCDropoutRegressor(),
    "Laplace": LaplaceRegressor(),
}
CLASSIFIERS = {
    "ensemble": DeepEnsembleClassifier(n_members=2),
    "bootstrap": BootstrapClassifier(n_members=3),
    "Bayesian bootstrap": BayesianBootstrapClassifier(n_members=3),
    "Bayesian bootstrap from the optimum": BayesianBootstrapClassifier(n_members=3, start="optimum"),
    "dropout": MCDropoutClassifier(),
    "Laplace": LaplaceClassifier(),
}
EXACT = {"dropout": MCDropoutRegressor(n_draws=500)}  # whose fresh draws are to agree with those that it keeps
every_regressor = pytest.mark.parametrize("name", REGRESSORS)
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
EVERY = [*REGRESSORS.values(), *CLASSIFIERS.values()]
every_one = pytest.mark.parametrize("estimator", EVERY, ids=lambda estimator: repr(estimator)[:60])


# the checks fit each some hundred times: small networks, and no more members than it takes to differ
SMALL = {"hidden_layer_sizes": (3,), "activation": "tanh", "solver": "lbfgs", "max_iter": 20}
THINNED = {"f": mlp((10,), dropout=0.05), "solver": "adam", "learning_rate": 0.03, "tol": 1e-3, "max_iter": 40}
CHECKED = [
    DeepEnsembleRegressor(MLPRegressor(**SMALL), n_members=2),
    DeepEnsembleClassifier(MLPClassifier(**SMALL), n_members=2),
    BootstrapRegressor(n_members=2),
    BootstrapClassifier(n_members=2),
    BayesianBootstrapRegressor(n_members=2),
    BayesianBootstrapRegressor(n_members=2, start="optimum"),
    BayesianBootstrapClassifier(n_members=2, start="optimum"),
    MCDropoutRegressor(AutogradRegressor(**THINNED), n_draws=20),
    MCDropoutClassifier(AutogradClassifier(**THINNED), n_draws=20),
    LaplaceRegressor(),
    LaplaceClassifier(),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", CHECKED, ids=lambda estimator: type(estimator).__name__)
def test_scikit_learns_own_checks(estimator):
    more = 3 if is_classifier(estimator) else 0
    # dropout takes neither weights nor sparse rows
    count, least = (52, 52) if "MCDropout" in type(estimator).__name__ else (60, 58)
    assert_checked(check_estimator(estimator, on_fail=None, on_skip=None), count + more, least + more)


def fitted(estimator, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that a test does not train to the end
        return clone(estimator).set_params(random_state=0).fit(X, y)


@every_regressor
def test_every_predict_method_of_a_regressor(name):
    est = fitted(EXACT.get(name, REGRESSORS[name]), Y)
    prediction, std = est.predict(X, return_std=True)
    _, covariance = est.predict(X, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10
    parts = [est.predict_std(X, kind=kind) for kind in ("epistemic", "aleatoric", "total")]
    np.testing.assert_allclose(parts[0] ** 2 + parts[1] ** 2, parts[2] ** 2)
    assert (parts[0] > 0).all()
    narrow, wide = np.moveaxis(est.predict_interval(X, [0.5, 0.95]), 2, 0)
    confidence = est.predict_interval(X, 0.5, kind="confidence")
    assert (
        (wide[:, 0] < narrow[:, 0]).all() and (narrow[:, 0] < narrow[:, 1]).all() and (narrow[:, 1] < wide[:, 1]).all()
    )
    assert (confidence[:, 0] <= confidence[:, 1]).all()
    assert (np.diff(confidence) < np.diff(narrow)).all()
    assert (np.diff(est.predict_quantiles(X, [0.1, 0.5, 0.9])) > 0).all()
    for kind, spread in (("confidence", parts[0]), ("prediction", parts[2])):
        draws = est.predict_samples(X, n_samples=1000, kind=kind, random_state=0)
        np.testing.assert_allclose(draws.std(axis=0), spread, rtol=0.15)  # five standard errors and more
        assert np.abs((draws.mean(axis=0) - prediction) / spread).max() < 0.15
    # the density is that of the cdf
    h = 1e-4
    slope = (est.predictive_cdf(X, Y + h) - est.predictive_cdf(X, Y - h)) / (2 * h)
    np.testing.assert_allclose(np.exp(est.log_density(X, Y)), slope, rtol=1e-5, atol=1e-10)
    frame = est.predict_frame(pd.DataFrame(X, index=np.arange(90) + 7.5))
    assert frame.index[0] == 7.5 and np.isfinite(frame.to_numpy()).all()


@pytest.mark.parametrize("labels", [LABELS, BINARY], ids=["three classes", "two"])
@every_classifier
def test_every_predict_method_of_a_classifier(name, labels):
    est = fitted(CLASSIFIERS[name], labels)
    proba = est.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(est.predict(X), est.classes_[proba.argmax(axis=1)])
    np.testing.assert_allclose(np.exp(est.predict_log_proba(X)), proba)
    draws = est.predict_proba_samples(X, n_samples=2000, random_state=0)
    np.testing.assert_allclose(draws.sum(axis=2), 1)
    np.testing.assert_allclose(draws.mean(axis=0), proba, atol=0.05)
    interval = est.predict_proba_interval(X, [0.5, 0.9])
    assert interval.shape == (90, len(est.classes_), 2, 2)
    assert (interval[:, :, 0] <= interval[:, :, 1]).all() and (interval >= 0).all() and (interval <= 1).all()
    assert (np.diff(interval, axis=2)[..., 0] <= np.diff(interval, axis=2)[..., 1] + 1e-12).all()
    scores = est.decision_function(X)
    assert scores.shape == ((90,) if len(est.classes_) == 2 else (90, len(est.classes_)))
    by_score = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    np.testing.assert_array_equal(est.classes_[by_score], est.predict(X))


@every_one
def test_clone_and_pickle(estimator):
    y = LABELS if is_classifier(estimator) else Y
    est = fitted(estimator, y)
    copy = pickle.loads(pickle.dumps(est))
    method = "predict_proba_interval" if is_classifier(est) else "predict_interval"
    np.testing.assert_array_equal(getattr(copy, method)(X), getattr(est, method)(X))
    again = fitted(est, y)
    np.testing.assert_array_equal(getattr(again, method)(X), getattr(est, method)(X))


@pytest.mark.parametrize("estimator", [e for e in EVERY if "Dropout" not in type(e).__name__], ids=repr)
def test_weights_are_routed(estimator):
    base = LogisticRegression() if is_classifier(estimator) else LinearRegression()
    y, weight = LABELS if is_classifier(estimator) else Y, RNG.integers(1, 4, 90).astype(float)
    plain = clone(estimator).set_params(estimator=base, random_state=0).fit(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(base).set_fit_request(sample_weight=True)
        routed = clone(estimator).set_params(estimator=asking, random_state=0).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(routed.predict(X), plain.predict(X))


# ---------------------------------------------------------------------- messages
@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (DeepEnsembleRegressor(n_members=0), "n_members must be an integer >= 1, got 0"),
        (BootstrapRegressor(n_members=2.5), "n_members must be an integer >= 1, got 2.5"),
        (BootstrapRegressor(noise="dof"), "noise='dof' needs the leverages of a single fit"),
        (BayesianBootstrapRegressor(noise="loo"), "use noise='train', 'heteroskedastic' or a number"),
        (BootstrapRegressor(noise="guess"), "noise must be"),
        (BayesianBootstrapRegressor(alpha=0), "alpha must be a finite number > 0, got 0"),
        (BayesianBootstrapRegressor(start="cold"), "start must be one of 'scratch', 'optimum', got 'cold'"),
        (BootstrapRegressor(FrozenEstimator(LinearRegression().fit(X, Y))), "is frozen and cannot be trained again"),
        (DeepEnsembleRegressor(LogisticRegression()), "is a classifier; use DeepEnsembleClassifier"),
        (LaplaceClassifier(LinearRegression()), "is a regressor; use LaplaceRegressor"),
        (LaplaceRegressor(prior_precision=-1), "prior_precision must be 'base', 'validation' or a number >= 0, got -1"),
        (LaplaceRegressor(prior_precision="auto"), "prior_precision must be"),
        (LaplaceRegressor(validation_fraction=1), "validation_fraction must lie strictly between 0 and 1, .*got 1"),
        (LaplaceRegressor(curvature="exact"), "curvature must be"),
        (LaplaceRegressor(noise="guess"), "noise must be"),
        (MCDropoutRegressor(LinearRegression()), "is not trained with dropout; use AutogradRegressor"),
        (MCDropoutRegressor(AutogradRegressor(mlp((3,), dropout=0.1))), "solver='lbfgs' trains without dropout"),
        (MCDropoutClassifier(AutogradClassifier(mlp((3,), dropout=0.1))), "solver='lbfgs' trains without dropout"),
        (MCDropoutRegressor(n_draws=1), "n_draws must be an integer >= 2, got 1"),
        (MCDropoutRegressor(noise="dof"), "MCDropoutRegressor has none"),
    ],
)
def test_messages(estimator, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        estimator.fit(X, LABELS if is_classifier(estimator) else Y)


@every_one
def test_missing_target_is_refused(estimator):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        clone(estimator).fit(X, None)
