"""Memory: what is predicted, what is refused before anything is allocated, and what is really taken."""

import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier, MLPRegressor
from trained import trained

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon._core.linalg import N_PROBES
from skribbon.curvature import KFAC, GaussNewton, Hessian, LowRank, MatrixFree, resolve_curvature
from skribbon.curvature.base import CLOSED_FORM_LIMIT, machine_bytes
from skribbon.exceptions import ApproximateCurvatureWarning
from skribbon.models.linear import LinearPredictor
from skribbon.models.losses import Tweedie
from skribbon.models.mlp import MultilayerPerceptron

pytestmark = [  # networks are stopped early: only their size matters here
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::skribbon.exceptions.NotStationaryWarning"),
    pytest.mark.filterwarnings("ignore::skribbon.exceptions.LeverageWarning"),
]
MB = 2**20


@dataclass
class Peak:
    bytes: int = 0


@contextmanager
def traced():
    """The peak of what Python and numpy allocate inside."""
    peak = Peak()
    tracemalloc.start()
    try:
        yield peak
        peak.bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def huge(kind, p=10**6):
    """A model of p parameters that takes no memory."""
    fields = {"theta": np.broadcast_to(0.0, p), "l2": np.broadcast_to(0.1, p), "loss": Tweedie()}
    if kind == "linear":
        return LinearPredictor(**fields)
    return MultilayerPerceptron(**fields, units=(p // 2 - 1, 2, 1), activation="tanh")


# ---------------------------------------------------------------------- the choice
@pytest.mark.parametrize(("kind", "expected"), [("network", KFAC), ("linear", MatrixFree)])
def test_auto_holds_no_square_array_of_a_huge_model(kind, expected):
    message = rf"1000000 parameters make a dense curvature of .* GB .*curvature='auto' uses {expected.__name__}"
    model = huge(kind)
    with traced() as peak, pytest.warns(ApproximateCurvatureWarning, match=message) as said:
        chosen = resolve_curvature("auto", 0.3, model, 1000)
    assert type(chosen) is expected
    assert chosen.damping == 0.3
    assert chosen.square_limit < 10**6
    assert f"{GaussNewton().predicted_bytes(10**6) / 1e9:.3g} GB" in str(said[0].message)
    assert peak.bytes < MB


def test_auto_counts_multiplications_too():
    """2,000 parameters fit any machine, but not with ten million rows in a few minutes."""
    model = huge("network", 2000)
    with pytest.warns(ApproximateCurvatureWarning, match=r"4e\+13 multiplications"):
        assert type(resolve_curvature("auto", "auto", model, 10**7)) is KFAC
    assert type(resolve_curvature("auto", "auto", model, 10**5)) is GaussNewton
    assert type(resolve_curvature("auto", "auto", huge("linear", 2000), 10**5)) is Hessian


@pytest.mark.parametrize("curvature", ["ggn", "hessian", "fisher", GaussNewton(damping=0.1)])
def test_dense_curvature_of_a_huge_model_is_refused_before_it_is_allocated(curvature):
    model = huge("network")
    with traced() as peak, pytest.raises(MemoryError, match=r"would take .* GB of .* for 1000000 parameters") as caught:
        resolve_curvature(curvature, "auto", model, 1000)
    assert peak.bytes < MB
    message = str(caught.value)
    assert f"{GaussNewton().predicted_bytes(10**6) / 1e9:.3g} GB" in message
    assert f"{machine_bytes() / 1e9:.3g} GB" in message
    for alternative in ("'kfac'", "'matrix_free'", "'low_rank'", "'diag'", "'last_layer'"):
        assert alternative in message


@pytest.mark.parametrize("curvature", ["kfac", "matrix_free", "low_rank", "diag"])
def test_structured_curvature_of_a_huge_model_is_accepted(curvature):
    chosen = resolve_curvature(curvature, "auto", huge("network"), 1000)
    assert chosen.square_limit < 10**6
    assert chosen.predicted_bytes(10**6) == 0


def test_last_layer_is_judged_by_its_own_size():
    width = 100
    p = 40_000 * width + 2 * width + 1
    fields = {"theta": np.zeros(p), "l2": np.zeros(p), "loss": Tweedie()}
    model = MultilayerPerceptron(**fields, units=(40_000, width, 1), activation="tanh")
    chosen = resolve_curvature("last_layer", "auto", model, 1000)
    assert len(chosen.view(model).theta) == width + 1


# ---------------------------------------------------------------------- the price
def regression(units, n):
    """A network that has hardly been trained, and its data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, units[0]))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    network = MLPRegressor(hidden_layer_sizes=units[1:], activation="tanh", solver="lbfgs", max_iter=2, alpha=10.0)
    return FrozenEstimator(network.set_params(random_state=0).fit(X, y)), X, y


@pytest.mark.parametrize("correction", ["HC1", "HC3"])
@pytest.mark.parametrize("curvature", ["ggn", "kfac", "diag"])
def test_predicted_bytes_are_about_those_of_a_fit(curvature, correction):
    base, X, y = regression((13, 50), 600)
    with traced() as peak:
        ribbon = RibbonRegressor(base, curvature=curvature, correction=correction).fit(X, y)
    p = len(ribbon.model_.theta)
    assert 700 < p < 800
    assert 0.5 < ribbon.curvature_.predicted_bytes(p) / peak.bytes < 2


STRUCTURED = {
    "kfac": KFAC(),
    "diag": "diag",
    "low_rank": LowRank(rank=30),
    "matrix_free": MatrixFree(tol=0.1, n_probes=16),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_large_regressor_holds_draws_and_never_a_square(name):
    base, X, y = regression((30, 90, 60), 400)
    with traced() as peak:
        ribbon = RibbonRegressor(base, curvature=STRUCTURED[name], n_draws=20, random_state=0).fit(X, y)
        interval = ribbon.predict_interval(X[:50])
    p = len(ribbon.model_.theta)
    assert p > 4 * CLOSED_FORM_LIMIT
    assert ribbon.ribbon_.root.shape == (p, 20)
    assert peak.bytes < 8 * p**2 / 4
    assert (interval[:, 0] < interval[:, 1]).all()
    assert 0 < ribbon.effective_parameters_ < p


@pytest.mark.parametrize("name", ["kfac", "matrix_free"])
def test_large_classifier_holds_draws_and_never_a_square(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30))
    y = (X[:, :10] + rng.gumbel(size=(400, 10))).argmax(axis=1)
    network = MLPClassifier(hidden_layer_sizes=(90, 60), solver="lbfgs", max_iter=2, alpha=10.0, random_state=0)
    base = FrozenEstimator(network.fit(X, y))
    with traced() as peak:
        ribbon = RibbonClassifier(base, curvature=STRUCTURED[name], n_draws=20, random_state=0).fit(X, y)
        P = ribbon.predict_proba(X[:50])
    p = len(ribbon.model_.theta)
    assert ribbon.ribbon_.root.shape == (p, 20)
    assert peak.bytes < 8 * p**2 / 4
    assert np.abs(P.sum(axis=1) - 1).max() < 1e-12


def test_probes_replace_the_identity_beyond_the_exact_limit():
    base, X, y = regression((30, 50, 10), 300)
    ribbon = RibbonRegressor(base, curvature="kfac", n_draws=10, random_state=0)
    fitted, training = trained(ribbon, X, y, None, None)
    assert training.H_r.inverse_root.shape == (len(fitted["model_"].theta), N_PROBES)
