"""``check`` reports a known fault and no other, and nothing about healthy fits."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.baselines import BootstrapRegressor, LaplaceClassifier, LaplaceRegressor
from skribbon.exceptions import DependentRowsWarning, RibbonWarning, guide_place
from skribbon.inspection import CheckReport, check

N, M = 400, 300  # training rows, held-out rows
rng = np.random.default_rng(0)
X = rng.normal(size=(N + M, 3))
SIGNAL = X @ [1.0, -0.5, 0.3]
Y = SIGNAL + rng.normal(size=N + M)
COUNTS = rng.poisson(np.exp(0.5 * SIGNAL))
LABELS = (SIGNAL + rng.logistic(size=N + M) > 0).astype(int)
CLASSES = np.digitize(SIGNAL + rng.logistic(size=N + M), [-1.0, 1.0])
TWO = np.column_stack([Y, X[:, 0] + rng.normal(size=N + M)])
GROUP = np.arange(N) // 4
train, test = slice(0, N), slice(N, None)


def autoregressive(n, correlation):
    e, shocks = np.zeros(n), np.random.default_rng(1).normal(size=n)
    for i in range(1, n):
        e[i] = correlation * e[i - 1] + shocks[i]
    return e


def warnings_of(report):
    return list(report.table.index[report.table["verdict"] == "warning"])


def fitted(ribbon, X, y, **params):
    """A fitted Ribbon, and the names of the warnings of its fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ribbon.fit(X, y, **params)
    return ribbon, {w.category.__name__ for w in caught if issubclass(w.category, RibbonWarning)}


def with_single_category():
    place = np.array(["a", "b", "c"])[np.random.default_rng(2).integers(0, 3, N)]
    place[17] = "rare"
    base = make_pipeline(OneHotEncoder(), LinearRegression())
    return RibbonRegressor(base), pd.DataFrame({"place": place}), Y[train]


def with_excess_zeros():
    rng = np.random.default_rng(3)
    counts = rng.poisson(np.exp(0.5 * SIGNAL[train] + 2)) * (rng.uniform(size=N) > 0.4)
    return RibbonRegressor(PoissonRegressor(alpha=0)), X[train], counts


FAULTS = {
    "convergence": lambda: (RibbonRegressor(PoissonRegressor(alpha=0, max_iter=2)), X[train], COUNTS[train]),
    "separation": lambda: (
        RibbonClassifier(LogisticRegression(C=1e6, solver="newton-cholesky"), temperature=1.0),
        X[train],
        (SIGNAL[train] > 0).astype(int),
    ),
    "family": with_excess_zeros,
    "dependence": lambda: (RibbonRegressor(), X[train], SIGNAL[train] + autoregressive(N, 0.5)),
    "leverage": with_single_category,
    "parameters": lambda: (
        RibbonRegressor(LinearRegression()),
        np.random.default_rng(4).normal(size=(60, 80)),
        Y[:60],
    ),
}
CATEGORIES = {
    "convergence": "NotStationaryWarning",
    "separation": "SeparationWarning",
    "family": "FamilyWarning",
    "dependence": "DependentRowsWarning",
    "leverage": "LeverageWarning",
    "parameters": "LeverageWarning",
}
HEALTHY = {
    "least squares": (RibbonRegressor(), Y, {}),
    "pipeline and groups": (RibbonRegressor(make_pipeline(StandardScaler(), Ridge())), Y, {"groups": GROUP}),
    "counts": (RibbonRegressor(PoissonRegressor(alpha=1e-4)), COUNTS, {}),
    "two classes": (RibbonClassifier(LogisticRegression()), LABELS, {}),
    "three classes, tuned": (RibbonCV(RibbonClassifier(LogisticRegression())), CLASSES, {}),
    "two outputs": (RibbonRegressor(Ridge()), TWO, {}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_check_reports_the_one_fault_that_fit_warned_of(fault):
    ribbon, named = fitted(*FAULTS[fault]())
    report = check(ribbon)
    assert warnings_of(report) == [fault]
    line = report.table.loc[fault]
    assert named == {CATEGORIES[fault]}
    assert line["what to do"] and f"{fault}: {line['finding']} Try: {line['what to do']}" in repr(report)


@pytest.mark.parametrize("case", HEALTHY)
def test_check_reports_nothing_about_healthy_fits(case):
    ribbon, y, params = HEALTHY[case]
    ribbon, named = fitted(ribbon, X[train], y[train], **params)
    report = check(ribbon, X[test], y[test], X_train=X[train], y_train=y[train], **params)
    assert warnings_of(report) == [] and named == set()
    assert (report.table["verdict"] == "ok").all()  # so that nothing was left out either
    assert isinstance(report, CheckReport) and report.title.endswith("0 x warning, 0 x not checked")


# ---------------------------------------------------------------------- held-out rows
def test_extrapolation_is_the_only_fault_of_far_rows():
    ribbon = RibbonRegressor().fit(X[train], Y[train])
    far = X[test] * 3
    observed = far @ [1.0, -0.5, 0.3] + rng.normal(size=M)
    report = check(ribbon, far, observed)
    assert warnings_of(report) == ["extrapolation"]
    variance = ribbon.predict_std(far, kind="epistemic") ** 2
    assert report.table.loc["extrapolation", "number"] == np.sum(
        variance > (1 + 1e-9) * np.max(ribbon.predict_std(X[train], kind="epistemic") ** 2)
    )
    scaled = check(ribbon.with_alpha(7.0), far, observed).table.loc["extrapolation", "number"]
    assert scaled == report.table.loc["extrapolation", "number"]


def test_undetermined_directions_are_extrapolation():
    constant = np.column_stack([X, np.ones(N + M)])
    ribbon = RibbonRegressor().fit(constant[train], Y[train])
    constant[N, 3] = 5.0
    report = check(ribbon, constant[test], Y[test])
    assert warnings_of(report) == ["extrapolation"]
    assert report.table.loc["extrapolation", "finding"].startswith("1 of 300 rows depend on directions")


def test_wrong_noise_is_found_on_held_out_rows():
    narrow = check(RibbonRegressor(noise=0.25).fit(X[train], Y[train]), X[test], Y[test])
    assert warnings_of(narrow) == ["noise", "coverage", "coverage by width"]
    wide = check(RibbonRegressor(noise=4.0).fit(X[train], Y[train]), X[test], Y[test])
    assert warnings_of(wide) == ["noise"]


def test_noise_that_varies_is_found_by_width():
    scale = np.exp(1.2 * X[:, 0])
    y = SIGNAL + scale * np.random.default_rng(5).normal(size=N + M)
    few = X[train][:, :1] * 0.0 + 1.0  # the model of the mean is right, only the widths are constant
    ribbon = RibbonRegressor(LinearRegression(), noise="dof").fit(np.hstack([X[train], few]), y[train])
    report = check(ribbon, np.hstack([X[test], np.ones((M, 1))]), y[test])
    assert report.table.loc["noise", "verdict"] == "warning"


def test_overconfident_classifier_is_found():
    noise = np.random.default_rng(6).normal(size=(N + M, 60))
    wide = np.hstack([X, noise])
    ribbon, _ = fitted(RibbonClassifier(LogisticRegression(C=1e4), temperature=0.5), wide[train], LABELS[train])
    report = check(ribbon, wide[test], LABELS[test])
    assert set(warnings_of(report)) >= {"coverage", "coverage by width"}
    P = ribbon.predict_proba(wide[test])
    missed = np.mean(ribbon.classes_[P.argmax(axis=1)] != LABELS[test])
    assert report.table.loc["coverage", "number"] == pytest.approx(missed)
    assert report.table.loc["coverage by width", "what to do"] == "RibbonCV, or conformalize with score='aps'."
    ribbon.conformalize(wide[test], LABELS[test], score="aps")


def test_coverage_is_counted_over_rows_and_outputs():
    ribbon = RibbonRegressor(Ridge()).fit(X[train], TWO[train])
    lower, upper = np.moveaxis(ribbon.predict_interval(X[test]), -1, 0)
    missed = np.mean((TWO[test] < lower) | (TWO[test] > upper))
    assert check(ribbon, X[test], TWO[test]).table.loc["coverage", "number"] == pytest.approx(missed)
    single = check(ribbon.output(1), X[test], TWO[test, 1]).table
    assert (single["verdict"].drop("linearization") == "ok").all()


def test_training_rows_are_refused_as_held_out_rows():
    ribbon = RibbonRegressor().fit(X[train], Y[train])
    with pytest.raises(ValueError, match="Pass them as X_train and y_train"):
        check(ribbon, X[train], Y[train])


def test_incomplete_rows_are_refused():
    ribbon = RibbonRegressor().fit(X[train], Y[train])
    with pytest.raises(ValueError, match="X needs y"):
        check(ribbon, X[test])
    with pytest.raises(ValueError, match="X_train needs y_train"):
        check(ribbon, X_train=X[train])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        check(ribbon, X[test], Y[test][1:])


def test_a_column_of_y_is_a_vector():
    ribbon = RibbonRegressor().fit(X[train], Y[train])
    column = check(ribbon, X[test], pd.DataFrame({"y": Y[test]})).table
    pd.testing.assert_frame_equal(column, check(ribbon, X[test], Y[test]).table)


def test_coarse_linear_step_is_found():
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(30, 8))
    y = (Z[:, 0] + rng.logistic(size=30) > 0).astype(int)
    ribbon = RibbonClassifier(LogisticRegression(C=100.0), temperature=1.0).fit(Z, y)
    report = check(ribbon, X_train=Z, y_train=y)
    expected = ribbon.check_linearization(Z, y, random_state=0).to_frame()["prediction_error"].median()
    assert report.table.loc["linearization", "number"] == pytest.approx(expected)
    assert report.table.loc["linearization", "verdict"] == "warning"
    assert report.table.loc["linearization", "finding"].startswith(
        f"Single refits differ from linear steps by {expected:.0%}"
    )
    assert "compare widths of confidence intervals" in report.table.loc["linearization", "what to do"]


# ---------------------------------------------------------------------- estimators
def test_network_with_refits_is_not_judged_by_its_gradient():
    network = MLPRegressor(hidden_layer_sizes=(40,), max_iter=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ribbon, named = fitted(RibbonRegressor(network), X[:150], Y[:150])
    table = check(ribbon).table
    assert named == set() and table.loc["convergence", "verdict"] == "not checked"
    assert table.loc["parameters", "threshold"] == 0.75 and table.loc["dependence", "verdict"] == "ok"


def test_network_without_refits_has_memorized():
    network = MLPRegressor(hidden_layer_sizes=(40,), max_iter=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ribbon, named = fitted(RibbonRegressor(network, held_out="loo"), X[:150], Y[:150])
    assert named == {"FlexibleModelWarning"} and warnings_of(check(ribbon)) == ["parameters"]


@pytest.mark.parametrize("laplace", [LaplaceRegressor(), LaplaceClassifier()])
def test_check_of_laplace_says_what_it_does_not_know(laplace):
    y = LABELS if isinstance(laplace, LaplaceClassifier) else Y
    table = check(laplace.fit(X[train], y[train]), X[test], y[test], X_train=X[train], y_train=y[train]).table
    assert {"convergence", "coverage", "coverage by width"} <= set(table.index[table["verdict"] == "ok"])
    assert {"dependence", "linearization"} <= set(table.index[table["verdict"] == "not checked"])


def test_check_refuses_estimators_without_a_ribbon():
    with pytest.raises(TypeError, match="check needs an estimator that holds a covariance"):
        check(BootstrapRegressor(LinearRegression(), n_members=3).fit(X[:50], Y[:50]))


def test_check_is_the_same_after_a_pickle_frozen_and_in_a_search():
    ribbon = RibbonRegressor().fit(X[train], SIGNAL[train] + 2 * X[train, 0] ** 2)
    plain = check(ribbon, X[test], Y[test]).table
    for other in (pickle.loads(pickle.dumps(ribbon)), FrozenEstimator(ribbon)):
        pd.testing.assert_frame_equal(check(other, X[test], Y[test]).table, plain)
    cv = RibbonCV(RibbonRegressor()).fit(X[train], Y[train])
    assert warnings_of(check(cv)) == []


def test_stored_findings_are_small_and_hold_no_rows():
    sizes = []
    for n in (100, 400):
        ribbon = RibbonRegressor(noise="dof").fit(X[:n], Y[:n])
        sizes.append(len(pickle.dumps((ribbon._findings_, ribbon._reach_))))
    assert max(sizes) < 1500 and abs(sizes[0] - sizes[1]) < 20


def test_fit_warns_with_the_words_of_check():
    ribbon = RibbonRegressor()
    with pytest.warns(DependentRowsWarning) as caught:
        ribbon.fit(X[train], SIGNAL[train] + autoregressive(N, 0.5))
    line = check(ribbon).table.loc["dependence"]
    place = guide_place(caught[0].category)
    assert str(caught[0].message) == f"{line['finding']} Try: {line['what to do']}{place}"
    assert all(word in line["what to do"] for word in ("groups=", "skribbon.time_blocks"))


# ---------------------------------------------------------------------- report
def test_report_as_html_and_figure():
    report = check(fitted(*FAULTS["dependence"]())[0], X[test] * 3, Y[test])
    html = report._repr_html_()
    assert report.title in html and "labels from skribbon.time_blocks." in html and "NaN" not in html
    ax = report.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(report.table.index)
    ok, faults = (line.get_xdata() for line in ax.lines)
    assert (ok < 1).all() and (faults > 1).all() and len(faults) == len(warnings_of(report))
    assert ax.get_title(loc="left") == report.title and ax.figure.axes == [ax]
    same = report.plot(ax)
    assert same is ax
