"""clip_scores and clip_steps, against scores and steps clipped with numpy."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon._core.units import weighted_median
from skribbon.inspection import variance_contributions

rng = np.random.default_rng(0)
N = 80
X = rng.normal(size=(N, 3))
Y = X @ [1.0, -0.5, 0.2] + rng.normal(size=N)
Y[:3] += [25, -30, 40]
Z = np.column_stack([X, np.ones(N)])
WEIGHT = rng.integers(1, 4, N)
GROUPS = rng.integers(0, 20, N)
LABELS = np.digitize(X[:, 0] + rng.normal(size=N), [-0.5, 0.5])
NEVER = 1e9


def clipped_scores(ribbon, clip):
    """Scores of least squares, as rows (n, p), clipped at so many medians of their lengths; and H^-1."""
    inverse = np.linalg.inv(Z.T @ Z / N)
    G = -Z * (Y - ribbon.predict(X))[:, None]
    length = np.sqrt(np.einsum("np,pq,nq->n", G, inverse, G))
    return G * np.minimum(1, clip * np.sort(length)[N // 2 - 1] / length)[:, None], inverse


def test_clipped_scores_give_the_covariance():
    ribbon = RibbonRegressor(correction="HC0", clip_scores=3.0).fit(X, Y)
    G, inverse = clipped_scores(ribbon, 3.0)
    assert_allclose(ribbon.covariance_, inverse @ np.cov(G.T, bias=True) @ inverse / (N + 1), rtol=1e-8)
    whole = RibbonRegressor(correction="HC0").fit(X, Y)
    assert np.all(np.diag(ribbon.covariance_) < 0.5 * np.diag(whole.covariance_))  # three rows contribute most
    assert_allclose(ribbon.predict(X), whole.predict(X), rtol=1e-12)  # the fit does not change


def test_clipped_scores_give_the_draws():
    settings = {"correction": "HC0", "clip_scores": 3.0}
    closed = RibbonRegressor(**settings).fit(X, Y)
    drawn = RibbonRegressor(predictive="pushforward", n_draws=20_000, random_state=0, **settings).fit(X, Y)
    assert_allclose(np.diag(drawn.covariance_), np.diag(closed.covariance_), rtol=0.06)


CASES = {
    "hc1": ({"correction": "HC1"}, {}),
    "hc2": ({"correction": "HC2"}, {}),
    "hc3 of groups": ({"correction": "HC3"}, {"groups": GROUPS}),
    "hc0 of groups": ({"correction": "HC0"}, {"groups": GROUPS}),
    "weights": ({}, {"sample_weight": WEIGHT}),
    "draws": ({"predictive": "pushforward", "random_state": 0}, {}),
    "newton": ({"predictive": "newton", "random_state": 0}, {}),
    "diagonal": ({"curvature": "diag"}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_clip_scores_narrows_only_if_a_score_is_longer(name):
    settings, given = CASES[name]
    widths = [
        RibbonRegressor(Ridge(), clip_scores=clip, **settings).fit(X, Y, **given).predict_std(X, kind="epistemic")
        for clip in (None, NEVER, 10.0, 2.0)
    ]
    assert_allclose(widths[0], widths[1], rtol=1e-7)
    assert widths[1].mean() > 1.05 * widths[2].mean() > 1.1 * widths[3].mean()


def test_frequencies_are_repeated_rows():
    counted = RibbonRegressor(Ridge(), clip_scores=3.0, correction="HC0").fit(X, Y, sample_weight=WEIGHT)
    rows = np.repeat(np.arange(N), WEIGHT)
    repeated = RibbonRegressor(Ridge(), clip_scores=3.0, correction="HC0").fit(X[rows], Y[rows])
    assert_allclose(counted.covariance_, repeated.covariance_, rtol=1e-8)
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0])) == 2.0


def test_classes_sparse_rows_and_contributions():
    whole, clipped = (RibbonClassifier(LogisticRegression(), clip_scores=c).fit(X, LABELS) for c in (None, 1.0))
    widths = [np.diff(ribbon.predict_proba_interval(X), axis=2).mean() for ribbon in (whole, clipped)]
    assert widths[1] < widths[0]
    dense = RibbonRegressor(Ridge(), clip_scores=3.0).fit(X, Y)
    thin = RibbonRegressor(Ridge(solver="sparse_cg", tol=1e-12), clip_scores=3.0).fit(sparse.csr_matrix(X), Y)
    assert_allclose(thin.covariance_, dense.covariance_, rtol=1e-6)
    for groups in (None, GROUPS):
        ribbon = RibbonRegressor(Ridge(), clip_scores=3.0).fit(X, Y, groups=groups)
        parts = variance_contributions(ribbon, X, Y, X[:5], groups=groups, share=False)
        assert_allclose(parts.sum(), ribbon.predict_std(X[:5], kind="epistemic") ** 2, rtol=1e-8)


# ---------------------------------------------------------------------- steps
def lengths(ribbon):
    """Lengths of the drawn steps in the norm of H."""
    shifts = ribbon.ribbon_.shifts
    return np.sqrt(np.einsum("pb,pq,qb->b", shifts, Z.T @ Z / N, shifts))


@pytest.mark.parametrize("predictive", ["pushforward", "newton"])
def test_no_step_is_longer_than_its_bound(predictive):
    settings = {"predictive": predictive, "n_draws": 200, "random_state": 0, "correction": "HC0"}
    free = RibbonRegressor(**settings).fit(X, Y)
    unit = np.sqrt(np.sum((Y - free.predict(X)) ** 2) / (N - 4) * 4 / (N + 1))
    clipped = RibbonRegressor(clip_steps=1.0, **settings).fit(X, Y)
    assert lengths(free).max() > 1.2 * unit
    assert_allclose(lengths(clipped), np.minimum(lengths(free), unit), rtol=1e-8)
    along = np.einsum("pb,pb->b", clipped.ribbon_.shifts, free.ribbon_.shifts)
    norms = np.linalg.norm(clipped.ribbon_.shifts, axis=0) * np.linalg.norm(free.ribbon_.shifts, axis=0)
    assert_allclose(along, norms, rtol=1e-8)  # the same directions
    never = RibbonRegressor(clip_steps=NEVER, **settings).fit(X, Y)
    assert_allclose(never.ribbon_.shifts, free.ribbon_.shifts, rtol=1e-12)


def test_clip_steps_unit_is_the_length_under_the_loss():
    y = X @ [1.0, -0.5, 0.2] + rng.normal(size=N)
    ribbon = RibbonRegressor(predictive="pushforward", n_draws=4000, random_state=0, correction="HC2").fit(X, y)
    unit2 = np.sum((y - ribbon.predict(X)) ** 2) / (N - 4) * 4 / (N + 1)
    assert 0.8 < np.mean(lengths(ribbon) ** 2) / unit2 < 1.2


def test_the_normal_law_takes_the_covariance_of_clipped_steps():
    settings = {"n_draws": 50, "random_state": 0, "clip_steps": 1.0}
    normal = RibbonRegressor(**settings).fit(X, Y)
    drawn = RibbonRegressor(predictive="pushforward", **settings).fit(X, Y)
    assert normal.ribbon_.shifts is None
    assert_allclose(normal.covariance_, drawn.covariance_, rtol=1e-10)


def test_clip_steps_of_a_barely_determined_network():
    x = rng.uniform(-3, 3, (40, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=40)
    shape = {"hidden_layer_sizes": (30,), "activation": "tanh", "alpha": 1e-3}
    network = MLPRegressor(**shape, solver="lbfgs", max_iter=2000, random_state=0)
    settings = {"damping": 0.0, "correction": "HC3", "noise": 0.04, "n_draws": 50, "random_state": 0}
    widths = []
    for clip in ({}, {"clip_scores": 3.0}, {"clip_steps": 1.0}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ribbon = RibbonRegressor(network, predictive="pushforward", **settings, **clip).fit(x, y)
            widths.append(np.diff(ribbon.predict_interval(np.linspace(-3, 3, 50)[:, None])).mean())
    assert max(widths[1:]) < 0.6 * widths[0]


@pytest.mark.parametrize("name", ["clip_scores", "clip_steps"])
@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "3"])
def test_invalid_clip_bounds_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be None or a finite number > 0"):
        RibbonRegressor(LinearRegression(), **{name: value}).fit(X, Y)


def test_several_outputs_are_refused():
    with pytest.raises(ValueError, match="clip_scores and clip_steps are for one output"):
        RibbonRegressor(clip_scores=3.0).fit(X, np.column_stack([Y, Y**2]))
