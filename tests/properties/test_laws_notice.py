"""Tests of the laws: each detects a planted fault and holds without one."""

import random
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import laws
import numpy as np
import pytest
from cases import FAMILIES, Case, draw_case, fit_case, make_data
from fuzz import SHARES, Tally, parse, simplify
from scipy import stats

from skribbon import RibbonRegressor, conformal
from skribbon.noise import EmpiricalLaw

REGRESSION = Case(model="Ridge", params={"alpha": 1.0}, options={"noise": 0.7})
NORMAL = replace(REGRESSION, options={"noise": 0.7, "correction": "HC0"})
COUNTS = Case(family="glm", model="PoissonRegressor", y="counts", rows="near")
NORMAL_COUNTS = replace(COUNTS, options={"correction": "HC0"})
LABELS = Case(family="logistic", model="LogisticRegression", y="labels", classes=3)
TWO_LABELS = Case(family="logistic", model="LogisticRegression", y="labels", rows="near")
COLD_LABELS = replace(TWO_LABELS, options={"temperature": 0.3})
MANY_LABELS = replace(TWO_LABELS, n=200, d=1)


def test_every_family_of_cases_is_drawn_by_the_long_run():
    assert SHARES.keys() == FAMILIES.keys()


class Altered:
    """A fitted Ribbon with one altered method."""

    def __init__(self, ribbon, method, change):
        self.__dict__.update(ribbon=ribbon, method=method, change=change)

    def __getattr__(self, name):
        value = getattr(self.ribbon, name)
        if name != self.method:
            return value
        return lambda *args, **kwargs: self.change(value(*args, **kwargs), kwargs)


def complaints(law, case, method=None, change=None):
    data = make_data(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon = fit_case(case, data)
        return list(law(laws.Subject(case, data, ribbon if method is None else Altered(ribbon, method, change))))


def wider_mean(v, kwargs):
    return v + np.array([[[-9.0], [9.0]]]) if kwargs.get("kind") == "confidence" else v


def shifted(v, kwargs):
    return v + 0.1


def surer(ribbon, kwargs):
    return Altered(ribbon, "predict_proba", lambda p, _: np.round(p))


def elsewhere(ribbon, kwargs):
    return Altered(ribbon, "predict_proba_interval", lambda p, _: p**2)


def narrower(ribbon, kwargs):
    """Draws and quantiles at twice their temperature."""
    return Altered(ribbon, "predict_distribution", lambda d, _: replace(d, latent=d.latent.over(2.0, 0.0)))


WEIGHTED = Case(model="Ridge", params={"alpha": 1.0}, options={"noise": 0.7}, weights="zeros", rows="near")
PLANTED = [
    (laws.shapes_are_as_documented, REGRESSION, "predict_interval", lambda v, _: v[:, 0]),
    (laws.shapes_are_as_documented, LABELS, "predict_proba", lambda v, _: v[:, :1]),
    (laws.predict_is_the_base_model, REGRESSION, "predict", lambda v, _: v * (1 + 1e-12)),
    (laws.never_nan, REGRESSION, "predict_std", lambda v, _: v * np.nan),
    (laws.never_nan, LABELS, "predict_proba_samples", lambda v, _: v * np.nan),
    (laws.std_is_not_negative, REGRESSION, "predict_std", lambda v, _: -v),
    (laws.std_is_not_negative, REGRESSION, "predict_std", lambda v, k: v + (k.get("kind") == "epistemic")),
    (laws.intervals_are_nested, REGRESSION, "predict_interval", lambda v, _: v[:, ::-1]),
    (laws.intervals_are_nested, REGRESSION, "predict_interval", lambda v, _: v[..., ::-1]),
    (laws.intervals_are_nested, REGRESSION, "predict_quantiles", lambda v, _: v[:, ::-1]),
    (laws.confidence_is_centred, REGRESSION, "predict_quantiles", shifted),
    (laws.confidence_is_centred, COUNTS, "predict_quantiles", lambda v, _: v * 1.001),
    (laws.confidence_within_prediction, NORMAL, "predict_interval", wider_mean),
    (laws.confidence_within_prediction, NORMAL_COUNTS, "predict_interval", wider_mean),
    (laws.cdf_inverts_quantiles, REGRESSION, "predictive_cdf", lambda v, _: v * 0.999),
    (laws.cdf_inverts_quantiles, COUNTS, "predict_quantiles", lambda v, _: v + 1),
    (laws.cdf_inverts_quantiles, COUNTS, "predict_quantiles", lambda v, _: v - 1),
    (laws.cdf_increases, REGRESSION, "predictive_cdf", lambda v, _: 1 - v),
    (laws.cdf_increases, REGRESSION, "predictive_cdf", shifted),
    (laws.frame_is_the_methods, REGRESSION, "predict_frame", lambda v, _: v * 1.001),
    (laws.frame_is_the_methods, LABELS, "predict_frame", lambda v, _: v.assign(upper_1=1.0)),
    (laws.frame_is_the_methods, Case(container="frame"), "predict_frame", lambda v, _: v.reset_index(drop=True)),
    (laws.probabilities_are_probabilities, LABELS, "predict_proba", lambda v, _: v * 1.001),
    (laws.probabilities_are_probabilities, LABELS, "predict", lambda v, _: v[::-1]),
    (laws.proba_intervals_are_nested, LABELS, "predict_proba_interval", lambda v, _: v[:, :, ::-1]),
    (laws.proba_intervals_are_nested, LABELS, "predict_proba_interval", lambda v, _: v - 0.5),
    (laws.proba_intervals_are_nested, LABELS, "predict_proba", lambda v, _: np.eye(3)[v.argmax(axis=1)]),
    (laws.twin_batch, REGRESSION, "predict_interval", lambda v, _: v + 0.01 * v[0]),
    (laws.twin_batch, LABELS, "predict_proba_interval", lambda v, _: v + 0.01 * v[0]),
    (laws.temperature_divides_logits, TWO_LABELS, "with_alpha", surer),
    (laws.temperature_divides_logits, TWO_LABELS, "with_alpha", elsewhere),
    (laws.temperature_divides_logits, TWO_LABELS, "with_alpha", narrower),
    (laws.temperature_divides_logits, COLD_LABELS, "predict_proba_samples", lambda v, _: np.sqrt(v)),
    (laws.temperature_divides_logits, LABELS, "predict_proba_interval", lambda v, _: v**2),
    (
        laws.probabilities_without_an_average_are_those_of_the_base_model,
        MANY_LABELS,
        "predict_proba",
        lambda v, _: v * 1.001,
    ),
    (laws.twin_alpha, LABELS, "with_alpha", surer),
    (laws.twin_alpha, LABELS, "with_alpha", elsewhere),
    (laws.twin_alpha, REGRESSION, "predict_std", shifted),
    (laws.twin_alpha, REGRESSION, "predict_interval", lambda v, _: 0.3 * v),
    (laws.twin_rows, WEIGHTED, "predict_interval", shifted),
    (laws.twin_columns, WEIGHTED, "predict_interval", shifted),
    (laws.twin_weights, WEIGHTED, "predict_interval", shifted),
    (laws.twin_refit, REGRESSION, "predict_interval", shifted),
    (laws.twin_container, Case(container="frame"), "predict_interval", shifted),
    (laws.twin_inplace, Case(prepare="scaler_inplace"), "predict_interval", shifted),
    (laws.twin_groups, REGRESSION, "predict_interval", shifted),
    (laws.twin_groups, replace(REGRESSION, groups="some"), "predict_interval", shifted),
]


@pytest.mark.parametrize("law, case, method, change", PLANTED)
def test_laws_detect_planted_faults(law, case, method, change):
    assert complaints(law, case, method, change)


@pytest.mark.parametrize("law, case", {(law, case): None for law, case, *_ in PLANTED if case.prepare == "none"})
def test_laws_hold_without_faults(law, case):
    assert not complaints(law, case)


def normal_law(ribbon, rows, kind, bias=0.0):
    """scipy's own normal law with the moments that the methods report."""
    std = ribbon.predict_std(rows, kind="total" if kind == "prediction" else "epistemic")
    law = stats.norm(ribbon.predict(rows) + bias, std)
    z = lambda y: (y - law.mean()) / std  # noqa: E731
    # Gneiting and Raftery (2007), equation 21
    crps = lambda y: std * (z(y) * (2 * stats.norm.cdf(z(y)) - 1) + 2 * stats.norm.pdf(z(y)) - np.pi**-0.5)  # noqa: E731
    return SimpleNamespace(
        **{name: getattr(law, name) for name in ("mean", "std", "var", "cdf", "logpdf")},
        quantile=law.ppf,
        interval=lambda level: np.stack(law.interval(level), axis=1),
        sample=lambda n, random_state: law.rvs((n, len(std)), random_state=random_state),
        crps=crps,
    )


@pytest.mark.parametrize(
    "law, case, attribute",
    [
        (laws.attributes_are_numbers, REGRESSION, "effective_parameters_"),
        (laws.attributes_are_numbers, Case(options={"store_loo": True}), "loo_residuals_"),
        (laws.cv_results_are_numbers, Case(cv={"cv": 2, "scoring": "nll"}), "best_score_"),
        (laws.cv_results_are_numbers, replace(TWO_LABELS, cv={"cv": 2}), "temperature_"),
    ],
)
def test_non_finite_attributes_are_detected(law, case, attribute):
    assert not complaints(law, case)
    data = make_data(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ribbon = fit_case(case, data)
    setattr(ribbon, attribute, np.nan)
    assert list(law(laws.Subject(case, data, ribbon)))


@pytest.mark.parametrize("factor, message, noticed", [(1.0, "", False), (1e3, "", True), (1e3, "these weights", False)])
def test_weights_counted_as_one_observation_are_detected(monkeypatch, factor, message, noticed):
    case = Case(options={"noise": 0.7}, weights="sum_to_one")
    data = make_data(case)

    def fit(case, data):
        warnings.warn(message, stacklevel=1)
        return SimpleNamespace(
            noise_=SimpleNamespace(dispersion_=0.7 * (factor if case.weights == "sum_to_one" else 1.0)),
            model_=SimpleNamespace(encode_target=np.asarray),
            stationarity_=0.0,
        )

    monkeypatch.setattr(laws, "fit_case", fit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject = laws.Subject(case, data, fit(case, data))
    assert bool(list(laws.weights_are_frequencies(subject))) == noticed


@pytest.mark.parametrize("case", [REGRESSION, LABELS])
def test_broken_conformal_guarantee_is_detected(monkeypatch, case):
    assert not complaints(laws.conformal_promises_are_kept, case)
    thresholds = conformal.Calibration.thresholds
    monkeypatch.setattr(conformal.Calibration, "thresholds", lambda *a: 0.7 * thresholds(*a))
    assert complaints(laws.conformal_promises_are_kept, case)


def test_coefficient_table_with_nan_is_detected(monkeypatch):
    assert not complaints(laws.coefficients_are_numbers, REGRESSION)
    table = laws.coefficients
    for change in (lambda t: t.assign(std_error=np.nan), lambda t: t.assign(conf_low=t["conf_high"] + 1)):
        monkeypatch.setattr(laws, "coefficients", lambda ribbon, change=change: change(table(ribbon)))
        assert complaints(laws.coefficients_are_numbers, REGRESSION)


@pytest.mark.parametrize(
    "case, change",
    [
        (TWO_LABELS, {"exact": True}),
        (COLD_LABELS, {"averaged": False}),
        (COLD_LABELS, {"bias": np.array([0.1, -0.1])}),
        (COLD_LABELS, {"temperature": 1.0}),
        (TWO_LABELS, {"bias": np.array([0.1, 0.1])}),
    ],
)
def test_unrequested_averages_are_detected(case, change):
    assert not complaints(laws.averages_are_as_asked_for, case)
    ribbon = fit_case(case)
    ribbon.scaling_ = replace(ribbon.scaling_, **change)
    assert list(laws.averages_are_as_asked_for(laws.Subject(case, make_data(case), ribbon)))


def test_temperatures_other_than_stated_are_detected():
    case = replace(COLD_LABELS, cv={"cv": 2})
    assert not complaints(laws.cv_results_are_numbers, case)
    ribbon = fit_case(case)
    ribbon.cv_results_["temperature"][0] = 1.0
    assert list(laws.cv_results_are_numbers(laws.Subject(case, make_data(case), ribbon)))


@pytest.mark.parametrize("asked, noise", [("student", "auto"), ("auto", 0.7), ("normal", "heteroskedastic")])
def test_unrequested_noise_law_is_detected(asked, noise):
    case = Case(options={"law": asked, "noise": noise})
    assert not complaints(laws.law_is_what_was_asked_for, case)
    ribbon = fit_case(case)
    ribbon.law_ = EmpiricalLaw(np.arange(30.0))
    assert list(laws.law_is_what_was_asked_for(laws.Subject(case, make_data(case), ribbon)))


@pytest.mark.parametrize("table, noticed", [([0.0, 0.1], False), ([0.1, np.nan], True), ([np.nan, np.nan], True)])
def test_nan_damping_is_detected(table, noticed):
    case = Case(cv={"cv": 2})
    ribbon = fit_case(case)
    ribbon.cv_results_ = {"damping": np.array(table)}
    assert bool(list(laws.cv_results_are_numbers(laws.Subject(case, make_data(case), ribbon)))) == noticed


def test_pickle_with_different_predictions_is_detected(monkeypatch):
    assert not complaints(laws.twin_pickle, REGRESSION)
    restore = laws.pickle.loads
    broken = SimpleNamespace(
        dumps=laws.pickle.dumps, loads=lambda data: Altered(restore(data), "predict_interval", shifted)
    )
    monkeypatch.setattr(laws, "pickle", broken)
    assert complaints(laws.twin_pickle, REGRESSION)


@pytest.mark.parametrize("bias", [0.0, 0.01])
def test_distributions_are_compared_with_predict_methods(bias):
    data = make_data(NORMAL)
    ribbon = fit_case(NORMAL, data)
    subject = laws.Subject(NORMAL, data, Altered(ribbon, None, None))
    subject.ribbon.__dict__["predict_distribution"] = lambda X, kind="prediction": normal_law(ribbon, X, kind, bias)
    assert bool(list(laws.distribution_agrees(subject))) == (bias > 0)


def test_failed_refit_with_side_effects_is_detected(monkeypatch):
    fit = RibbonRegressor.fit

    def careless(self, X, y, sample_weight=None, groups=None):
        try:
            return fit(self, X, y, sample_weight, groups)
        except ValueError:
            self.estimator_.intercept_ += 1
            raise

    monkeypatch.setattr(RibbonRegressor, "fit", careless)
    kinds = [kind for kind, _ in complaints(laws.twin_failed_refit, REGRESSION)]
    assert "a failed refit changes the predictions" in kinds


def test_overwritten_input_is_detected(monkeypatch):
    fit = RibbonRegressor.fit

    def greedy(self, X, y, sample_weight=None):
        fit(self, X, y, sample_weight)
        X[0, 0] += 1
        return self

    monkeypatch.setattr(RibbonRegressor, "fit", greedy)
    assert [kind for kind, _ in complaints(laws.twin_inplace, REGRESSION)] == ["X is overwritten"]


def raising(code):
    """A fit that runs a line of code as if it stood in a file of the package."""
    compiled = compile(code, str(Path(laws.PACKAGE) / "planted.py"), "exec")

    def fit(self, X, y, sample_weight=None):
        exec(compiled, {"np": np})

    return fit


ACCIDENTS = ["[][0]", "{}['key']", "1 / 0", "None.shape", "np.linalg.inv(np.zeros((2, 2)))", "np.ones(3) + np.ones(4)"]


@pytest.mark.parametrize("code", ACCIDENTS)
def test_unintended_errors_are_not_refusals(monkeypatch, code):
    monkeypatch.setattr(RibbonRegressor, "fit", raising(code))
    outcome = laws.examine(REGRESSION)
    assert outcome.status == "failed"
    assert outcome.failures[0].law == "fit works or says why not"


def test_base_model_error_counts_as_refusal():
    outcome = laws.examine(Case(family="glm", model="GammaRegressor", y="linear"))
    assert (outcome.status, outcome.failures) == ("refused", ())


def test_hangs_are_detected(monkeypatch):
    monkeypatch.setattr(RibbonRegressor, "fit", raising("while True: pass"))
    outcome = laws.examine(REGRESSION, seconds=0.2)
    assert (outcome.status, outcome.failures[0].law) == ("hung", "no hang")


def test_runtime_warnings_of_the_package_are_detected():
    found = []
    with laws.quiet(found):
        np.log(np.zeros(1))  # not of the package
        raising("np.log(np.zeros(1))")(None, None, None)
    assert [f.kind for f in found] == ["planted.py: divide by zero encountered in log"]


def test_case_repr_can_be_evaluated():
    for seed in range(200):
        case = draw_case(random.Random(seed))
        assert parse(repr(case)) == case


def test_failures_are_simplified(monkeypatch):
    predict_std = RibbonRegressor.predict_std
    monkeypatch.setattr(RibbonRegressor, "predict_std", lambda self, X, kind="total": -predict_std(self, X, kind))
    case = Case(model="Ridge", params={"alpha": 3.0}, prepare="scaler", n=41, d=4, weights="large", seed=5)
    [failure, *_] = [f for f in laws.examine(case).failures if f.law == "std is not negative"]
    shorter, detail = simplify(case, failure.law, failure.kind, seconds=60)
    assert repr(shorter) == "Case(model='Ridge', d=1, seed=5)"
    assert detail


def test_tallies_can_be_sent_by_workers():
    tally = Tally()
    tally.add(REGRESSION, laws.Outcome("fitted", (laws.Failure("law", "kind", "detail"),), ("law", "other")))
    total = Tally.from_json(tally.to_json())
    total.merge(Tally.from_json(tally.to_json()))
    assert total.groups == {("law", "kind"): [2, repr(REGRESSION), "detail"]}
    assert (total.laws.total(), total.failing["linear"], total.statuses["linear", "fitted"]) == (4, 2, 2)
