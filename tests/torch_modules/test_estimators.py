"""TorchRegressor and TorchClassifier: scikit-learn's checks, training, refits, trained modules, and what is refused."""

import pickle
import warnings
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest
import torch
from conftest import row_weights
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from spelling import assert_checked
from test_public_interface import CODES, EXAMPLE, complaints, own_methods, without_type
from torch import nn
from torch_cases import TWO_OUTPUTS, Residual, X, Y, cnn, mlp, noisy, trained

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.rows import Rows
from skribbon.exceptions import FlexibleModelWarning
from skribbon.models import as_parametric, polish
from skribbon.models.torch import TorchClassifier, TorchRegressor

TIGHT = {"weight_decay": 0.05, "max_iter": 5000, "tol": 1e-8, "polish": True, "random_state": 0}
quiet = pytest.mark.filterwarnings("ignore")


# ---------------------------------------------------------------------- the interface
@quiet
@pytest.mark.parametrize(("kind", "count"), [(TorchRegressor, 60), (TorchClassifier, 62)])
def test_scikit_learns_own_checks(kind, count):
    assert_checked(check_estimator(kind(max_iter=30), on_fail=None, on_skip=None), count, least=57)


@pytest.mark.parametrize("cls", [TorchRegressor, TorchClassifier])
def test_docstrings_and_types(cls):
    assert complaints(cls, CODES | EXAMPLE) == []
    assert without_type(cls.__init__) in ([], ["return"])
    for owner, name in own_methods(cls).values():
        assert complaints(getattr(owner, name), CODES) == []
        assert without_type(getattr(owner, name)) == []


def test_grid_search_in_a_pipeline():
    model = make_pipeline(StandardScaler(), TorchRegressor(mlp(4, 2, 1), max_iter=100, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, {"torchregressor__weight_decay": [0.01, 100.0]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"torchregressor__weight_decay": 0.01}


def test_a_class_or_function_makes_the_module():
    def make(n_features, n_outputs):
        return mlp(n_features, 2, n_outputs)

    network = TorchRegressor(make, max_iter=5, solver="adam", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert network.fit(X, TWO_OUTPUTS).predict(X).shape == (len(X), 2)
    assert network.module_[0].in_features == 4


def test_pickles_hold_modules_of_local_classes_and_no_optimiser():
    class Local(Residual):
        pass

    network = TorchRegressor(Local(), random_state=0, max_iter=3, solver="adam", n_iter_no_change=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon = RibbonRegressor(network, noise="dof").fit(X, Y)
    stored = pickle.dumps(ribbon)
    assert_allclose(pickle.loads(stored).predict_interval(X), ribbon.predict_interval(X), rtol=1e-12)
    assert b"torch.optim" not in stored


# ---------------------------------------------------------------------- training
def test_training_leaves_the_module_and_torchs_random_numbers_alone():
    module = mlp(4, 2, 1)
    before, state = [leaf.clone() for leaf in module.parameters()], torch.random.get_rng_state()
    network = TorchRegressor(module, solver="adam", max_iter=3, n_iter_no_change=9, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again, other = clone(network).fit(X, Y), clone(network).set_params(random_state=1).fit(X, Y)
        network.fit(X, Y)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert_allclose(again.predict(X), network.predict(X), rtol=0, atol=0)
    assert np.abs(other.predict(X) - network.predict(X)).max() > 0.01


def test_a_trained_module_is_trained_from_new_parameters():
    """Else refits without some of the rows would start from parameters that have seen them."""
    first = TorchRegressor(mlp(4, 3, 1), max_iter=2000, weight_decay=0.01, random_state=0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        second = TorchRegressor(first.module_, max_iter=1, random_state=0).fit(X, Y)
    assert first.score(X, Y) > second.score(X, Y) + 0.05


@quiet
def test_adam_with_early_stopping_prints_and_stops(capsys):
    network = TorchRegressor(
        mlp(4, 20, 1), solver="adam", early_stopping=True, learning_rate=0.05, random_state=0, verbose=1
    ).fit(X, Y)
    assert "epoch 1: loss" in capsys.readouterr().out
    assert network.n_iter_ < 200
    assert len(network.validation_loss_curve_) == network.n_iter_
    assert network.score(X, Y) > 0.1


@quiet
def test_dropout_and_batch_norm_train_in_batches_and_predict_in_evaluation_mode():
    """Also if the last batch has a single row."""
    network = TorchRegressor(noisy(), solver="adam", batch_size=149, max_iter=30, learning_rate=0.02, random_state=0)
    network.fit(X, Y)
    assert not network.module_.training
    assert_allclose(network.predict(X)[:3], network.predict(X[:3]), rtol=1e-12)
    hidden = network.module_[0](torch.tensor(X)).detach().numpy()
    assert_allclose(network.module_[1].running_mean, hidden.mean(axis=0), rtol=1e-9, atol=1e-12)
    assert_allclose(network.module_[1].running_var, hidden.var(axis=0, ddof=1), rtol=1e-9)
    assert network.module_[1].momentum == 0.1
    without = noisy()
    without[3] = nn.Identity()
    other = clone(network).set_params(module=without).fit(X, Y)
    assert np.abs(other.predict(X) - network.predict(X)).max() > 1e-3  # dropout had an effect


def test_frozen_parameters_are_constants():
    backbone = mlp(4, 3, 1)
    backbone[0].requires_grad_(False)
    network = TorchRegressor(backbone, **TIGHT).fit(X, Y)
    assert_allclose(network.module_[0].weight, backbone[0].weight.double(), rtol=0, atol=0)
    model = as_parametric(network, Y, np.ones(len(Y)))
    hidden = np.tanh(X @ backbone[0].weight.double().numpy().T + backbone[0].bias.double().numpy())
    design = np.column_stack([hidden, np.ones(len(Y))])
    ridge = np.linalg.solve(design.T @ design / len(Y) + 0.05 * np.eye(4), design.T @ Y / len(Y))
    assert_allclose(model.theta, ridge, rtol=1e-6)
    assert_allclose(model.jacobian(X)[:, 0], design, rtol=1e-12)


# ---------------------------------------------------------------------- the sandwich
@pytest.mark.parametrize("case_id", ["mlp", "cnn", "two-outputs", "residual"])
def test_covariance_equals_differences_of_exact_refits(case_id):
    """Refits with a little more weight on one row move theta by its influence; their scatter is the sandwich."""
    fitted = trained(case_id)
    case, weight, step = fitted.case, row_weights(), 0.03
    kind = RibbonClassifier if case.is_classifier else RibbonRegressor
    own = {"temperature": 1.0} if case.is_classifier else {"noise": "dof"}
    ribbon = kind(FrozenEstimator(fitted.estimator), curvature="hessian", correction="HC0", **own)
    ribbon.fit(case.X, case.y, sample_weight=weight)
    rows, base = np.arange(0, len(weight), 15), fitted.estimator
    moves = []
    for row in rows:
        pair = []
        for sign in (1, -1):
            other = weight.copy()
            other[row] += sign * step
            refit = polish(base, case.X, case.y, other, tol=1e-10)
            pair.append(as_parametric(refit, case.y, other).theta)
        moves.append((pair[0] - pair[1]) / (2 * step))
    model = fitted.model
    H = Rows(model, model.prepare(case.X), fitted.t, weight).sum(lambda block: block.hessian()) / weight.sum()
    scores = Rows(model, model.prepare(case.X), fitted.t, weight).map(lambda block: block.tangent.scores(block.u))
    centred = scores + model.penalty_gradient  # of the mean objective, whose weights sum to one
    psi = -np.linalg.solve(H + np.diag(model.l2), centred.T).T / weight.sum()
    assert_allclose(np.array(moves), psi[rows], rtol=1e-3, atol=1e-4 * np.abs(psi).max())
    n = weight.sum()
    sandwich = (psi.T * weight) @ psi * n / (n + 1)
    assert_allclose(ribbon.covariance_, sandwich, rtol=1e-7, atol=1e-9 * np.abs(sandwich).max())


def test_linearization_agrees_with_refits():
    fitted = trained("residual")
    ribbon = RibbonRegressor(fitted.estimator, noise="dof", held_out="loo").fit(X, Y, sample_weight=row_weights())
    report = ribbon.check_linearization(X, Y, row_weights(), n_refits=3, random_state=0)
    assert report.to_frame()["correlation"].min() > 0.8


# ---------------------------------------------------------------------- refits and trained modules
def overfitted(**settings):
    return TorchRegressor(mlp(4, 40, 1), max_iter=500, random_state=0, **settings)


@quiet
def test_networks_that_may_have_memorized_their_rows_are_refitted(monkeypatch):
    """Refits start from other random numbers and miss their held-out rows; intervals widen by what they show."""
    starts, seen, own = [], [], TorchRegressor._start

    def start(self, X, t, rng):
        model = own(self, X, t, rng)
        starts.append(model.theta)
        seen.append(len(X))
        return model

    monkeypatch.setattr(TorchRegressor, "_start", start)
    ribbon = RibbonRegressor(overfitted()).fit(X, Y)
    assert seen == [150, 120, 120, 120]
    assert len({tuple(theta[:3]) for theta in starts}) == 4
    rng = np.random.default_rng(8)
    new = rng.normal(size=(500, 4)) @ (np.eye(4) + 0.3) + [0.5, 0.0, -0.3, 0.0]
    new[:, 3] = rng.random(500) < 0.4
    y = 0.4 + new @ [0.5, -0.4, 0.2, 0.3] + rng.standard_t(4, 500)
    lower, upper = ribbon.predict_interval(new).T
    assert 0.84 < np.mean((lower < y) & (y < upper)) < 0.97
    alone = RibbonRegressor(overfitted(), held_out="loo", noise="train").fit(X, Y)
    lower, upper = alone.predict_interval(new, kind="prediction").T
    assert np.mean((lower < y) & (y < upper)) < 0.8


@quiet
def test_trained_modules_keep_their_parameters_and_are_never_refitted(monkeypatch):
    module = overfitted().fit(X, Y).module_.float()
    fits, own = [], TorchRegressor._start
    monkeypatch.setattr(TorchRegressor, "_start", lambda *args: fits.append(1) or own(*args))
    kept = overfitted(fitted=True).set_params(module=module)
    with pytest.warns(FlexibleModelWarning, match="a frozen network cannot be refitted"):
        ribbon = RibbonRegressor(kept).fit(X, Y)
    assert len(fits) == 1
    expected = module(torch.tensor(X, dtype=torch.float32)).detach().numpy()[:, 0]
    assert_allclose(ribbon.predict(X), expected, atol=1e-4)
    frozen = RibbonRegressor(FrozenEstimator(clone(kept).fit(X, Y))).fit(X, Y)
    assert_allclose(ribbon.predict_interval(X), frozen.predict_interval(X), rtol=1e-10)
    with pytest.raises(ValueError, match="folds would be scored on rows that it was fitted on"):
        RibbonCV(RibbonRegressor(kept)).fit(X, Y)


@quiet
@pytest.mark.parametrize("curvature", ["ggn", "kfac", "last_layer", "low_rank", "matrix_free"])
def test_curvatures_of_modules(curvature):
    fitted = trained("two-outputs")
    ribbon = RibbonRegressor(fitted.estimator, curvature=curvature, noise="dof", random_state=0)
    std = ribbon.fit(X, TWO_OUTPUTS).predict_std(X, kind="epistemic")
    exact = RibbonRegressor(fitted.estimator, noise="dof").fit(X, TWO_OUTPUTS).predict_std(X, kind="epistemic")
    near = 0.02 if curvature in ("ggn", "low_rank") else 0.25 if curvature == "matrix_free" else 0.7
    assert std.shape == (len(X), 2)
    assert abs(np.median(std / exact) - 1) < near


@pytest.mark.parametrize("case_id", ["embedding", "cnn"])
def test_kfac_of_modules_with_other_layers_is_refused(case_id):
    case, estimator = trained(case_id).case, trained(case_id).estimator
    ribbon = (RibbonClassifier if case.is_classifier else RibbonRegressor)(estimator, curvature="kfac")
    with pytest.raises(TypeError, match=r"curvature='kfac' needs a network of dense layers, and TorchModel has none"):
        ribbon.fit(case.X, case.y)


@quiet
@pytest.mark.parametrize("curvature", ["ggn", "last_layer"])
def test_curvatures_of_convolutions(curvature):
    """Gauss-Newton equals "auto", and the last layer alone gives smaller standard errors."""
    case, estimator = trained("cnn").case, trained("cnn").estimator
    kept = TorchClassifier(estimator.module_, weight_decay=0.02, fitted=True)
    own, auto = (RibbonClassifier(kept, curvature=name).fit(case.X, case.y) for name in (curvature, "auto"))
    std, expected = (np.sqrt(np.einsum("nkk->nk", ribbon._latent(case.X).covariance)) for ribbon in (own, auto))
    ratio = np.median(std / expected)
    lowest, highest = {"ggn": (1 - 1e-8, 1 + 1e-8), "last_layer": (0.1, 0.99)}[curvature]
    assert lowest < ratio < highest


def test_threads_may_predict_at_once():
    """Calls of a module put parameters and hooks into it for a moment."""
    ribbon = RibbonRegressor(trained("two-layers").estimator, noise="dof").fit(X, Y)
    expected = ribbon.predict_interval(X)
    with ThreadPool(4) as pool:
        for found in pool.map(lambda _: ribbon.predict_interval(X), range(40)):
            assert_allclose(found, expected, rtol=1e-12)


class Branch(nn.Module):
    """A branch that the rows on which layers are traced do not take."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        layers = (self.first, self.last) if bool((x < 5).all()) else (self.last, self.first)
        return layers[1](torch.tanh(layers[0](x)))[:, 0]


@quiet
def test_layers_in_another_order_are_refused():
    network = TorchRegressor(Branch(), max_iter=5, random_state=0).fit(X, Y)
    model = as_parametric(network, Y, np.ones(len(Y)))
    assert model.has_layers
    with pytest.raises(TypeError, match="calls its layers in another order at some rows"):
        model.jacobian(X + 10)


# ---------------------------------------------------------------------- what is refused
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1, bias=False)

    def forward(self, x):
        return self.layer(x) if x[0, 0].item() < 1e9 else -self.layer(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 2, batch_first=True)

    def forward(self, x):
        return self.lstm(x[:, :, None])[0][:, -1, 0]


REFUSED = {
    "branches": ({"module": Branches()}, TypeError, "torch.func cannot differentiate Branches.*torch.where"),
    "recurrent": ({"module": Recurrent()}, TypeError, "torch.func cannot differentiate Recurrent.*LSTM"),
    "no parameters": ({"module": nn.Flatten(0)}, ValueError, r"module\(X\) must return shape"),
    "frozen": ({"module": mlp(4, 1).requires_grad_(False)}, TypeError, "needs at least one parameter"),
    "columns": ({"module": mlp(4, 3)}, ValueError, r"module\(X\) must return shape \(n,\) or \(n, 1\)"),
    "text": ({"module": "mlp"}, TypeError, "module must be a torch.nn.Module, or a function"),
    "factory": ({"module": lambda a, b: None}, TypeError, "module must be a torch.nn.Module, or a function"),
    "mixed rows": ({"module": nn.Sequential(nn.Linear(4, 1), nn.Softmax(0))}, ValueError, "mixes rows"),
    "fitted": ({"fitted": True}, ValueError, "fitted=True needs a trained torch.nn.Module"),
    "decay": ({"weight_decay": -1.0}, ValueError, "weight_decay must be a finite number"),
    "loss": ({"loss": "squared"}, ValueError, "loss must be 'squared_error'.*Loss for regression, got"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    settings, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        TorchRegressor(**settings).fit(X, Y)


def test_a_bare_module_is_refused_with_advice():
    class Estimator(nn.Module):
        def fit(self, X, y):
            return self

    with pytest.raises(TypeError, match=r"TorchRegressor\(module\) or TorchClassifier\(module\)"):
        as_parametric(Estimator(), Y, np.ones(len(Y)))


def test_classifier_takes_log_loss_alone():
    with pytest.raises(ValueError, match="loss must be 'log_loss', got 'hinge'"):
        TorchClassifier(cnn(), loss="hinge").fit(X, Y > 0)
