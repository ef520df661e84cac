"""GLMs with an offset, against statsmodels, written-down objectives, rates with weights, and exact refits."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import xlogy
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from spelling import assert_checked, logistic

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._utils.unwrap import may_be_network
from skribbon.inspection import coefficients, comparisons, predictions, slopes
from skribbon.models import WithOffset, polish

sm = pytest.importorskip("statsmodels.api")

N = 300
TIGHT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
rng = np.random.default_rng(0)
FEATURES = rng.normal(size=(N, 3))
YEARS = rng.uniform(0.1, 2.0, N)
LOG_YEARS = np.log(YEARS)
GROUP = rng.integers(0, 25, N)
WEIGHT = rng.integers(0, 4, N).astype(float)
ETA = FEATURES @ [0.3, -0.2, 0.1] + 0.5
MEAN = YEARS * np.exp(ETA)
COUNTS = rng.poisson(MEAN).astype(float)
POSITIVE = MEAN * rng.gamma(3.0, 1 / 3, N)
ABOUT = MEAN + rng.normal(0, 0.05, N)  # so close that the observed information of a log link is positive
LABELS = np.where(rng.random(N) < 1 / (1 + np.exp(-ETA - LOG_YEARS)), "yes", "no")
TABLE = pd.DataFrame(FEATURES, columns=["a", "b", "c"])
TABLE.insert(1, "years", YEARS)
TABLE.insert(2, "region", np.array(["north", "south", "west"])[rng.integers(0, 3, N)])
NUMBERS = TABLE.drop(columns="region")
DESIGN = np.column_stack([FEATURES, np.ones(N)])


def family(kind, **params):
    """Family of statsmodels with a log link."""
    return getattr(sm.families, kind)(link=sm.families.links.Log(), **params)


FAMILIES = {
    "poisson": (PoissonRegressor(alpha=0, **TIGHT), COUNTS, family("Poisson")),
    "gamma": (GammaRegressor(alpha=0, **TIGHT), POSITIVE, family("Gamma")),
    "tweedie": (TweedieRegressor(power=1.5, alpha=0, **TIGHT), COUNTS, family("Tweedie", var_power=1.5)),
    "normal, log": (TweedieRegressor(power=0, link="log", alpha=0, **TIGHT), ABOUT, family("Gaussian")),
    "normal": (TweedieRegressor(power=0, alpha=0, **TIGHT), COUNTS, sm.families.Gaussian()),
    "binomial": (LogisticRegression(C=np.inf, **TIGHT), LABELS, sm.families.Binomial()),
}
quiet = pytest.mark.filterwarnings("ignore::skribbon.exceptions.FamilyWarning")


def ribbon(base, **params):
    """Ribbon of the right kind, around a base model whose exposure are the years."""
    base = WithOffset(base, exposure="years")
    if is_classifier(base):
        return RibbonClassifier(base, temperature=1.0, **params)
    return RibbonRegressor(base, **params)


def statsmodels_fit(name, **params):
    _, y, kind = FAMILIES[name]
    y = (y == "yes").astype(float) if name == "binomial" else y
    return sm.GLM(y, DESIGN, family=kind, offset=LOG_YEARS).fit(tol=1e-14, maxiter=500, **params)


# ---------------------------------------------------------------------- statsmodels
@quiet
@pytest.mark.parametrize("correction", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("name", FAMILIES)
def test_coefficients_and_robust_errors_equal_statsmodels(name, correction):
    """HC1 to HC3 of a GLM are HC0 in statsmodels, so they are built from its scores, Hessian and leverages."""
    base, y, _ = FAMILIES[name]
    reference = statsmodels_fit(name)
    model, params = reference.model, reference.params
    h = reference.get_hat_matrix_diag(observed=True)
    factor = {"HC0": 1.0, "HC1": N / (N - 4), "HC2": 1 / (1 - h), "HC3": 1 / (1 - h) ** 2}[correction]
    scores = model.score_obs(params, scale=1.0)
    bread = np.linalg.inv(model.hessian(params, scale=1.0, observed=True))
    expected = bread @ (scores * np.reshape(factor, (-1, 1))).T @ scores @ bread
    fitted = ribbon(base, correction=correction, alpha=(N - 1) / N, curvature="hessian").fit(NUMBERS, y)
    np.testing.assert_allclose(fitted.model_.theta, params, rtol=1e-8)
    np.testing.assert_allclose(fitted.covariance_, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())
    if correction == "HC0":
        robust = statsmodels_fit(name, cov_type="HC0")
        np.testing.assert_allclose(np.sqrt(np.diag(fitted.covariance_)), robust.bse, rtol=1e-8)


@quiet
@pytest.mark.parametrize(("correction", "corrected"), [("HC0", False), ("HC1", True)])
@pytest.mark.parametrize("name", FAMILIES)
def test_cluster_robust_errors_equal_statsmodels(name, correction, corrected):
    base, y, _ = FAMILIES[name]
    reference = statsmodels_fit(
        name, cov_type="cluster", cov_kwds={"groups": GROUP, "use_correction": corrected}
    ).cov_params()
    fitted = ribbon(base, correction=correction, alpha=24 / 25, curvature="hessian").fit(NUMBERS, y, groups=GROUP)
    np.testing.assert_allclose(fitted.covariance_, reference, rtol=1e-8, atol=1e-10 * np.abs(reference).max())


def test_confidence_intervals_of_counts_and_rates_equal_statsmodels():
    reference = statsmodels_fit("poisson", cov_type="HC0")
    fitted = ribbon(FAMILIES["poisson"][0], correction="HC0", alpha=(N - 1) / N).fit(NUMBERS, COUNTS)
    for rows, offset in ((NUMBERS, LOG_YEARS), (NUMBERS.assign(years=1.0), np.zeros(N))):
        frame = reference.get_prediction(DESIGN, offset=offset).summary_frame(alpha=0.1)
        bounds = fitted.predict_interval(rows, kind="confidence")
        np.testing.assert_allclose(fitted.predict(rows), frame["mean"], rtol=1e-8)
        np.testing.assert_allclose(bounds, frame[["mean_ci_lower", "mean_ci_upper"]], rtol=1e-8)


def test_probability_intervals_equal_statsmodels():
    reference = statsmodels_fit("binomial", cov_type="HC0")
    fitted = ribbon(FAMILIES["binomial"][0], correction="HC0", alpha=(N - 1) / N).fit(NUMBERS, LABELS)
    frame = reference.get_prediction(DESIGN, offset=LOG_YEARS).summary_frame(alpha=0.1)
    bounds = fitted.predict_proba_interval(NUMBERS)[:, 1]
    np.testing.assert_allclose(bounds, frame[["mean_ci_lower", "mean_ci_upper"]], rtol=1e-8)
    np.testing.assert_allclose(fitted.estimator_.predict_proba(NUMBERS)[:, 1], frame["mean"], rtol=1e-8)


# ---------------------------------------------------------------------- penalties and weights
def half_deviance(power, y, mu):
    if power == 1:
        return xlogy(y, y / mu) - y + mu
    if power == 2:
        return y / mu - 1 - np.log(y / mu)
    return (
        y ** (2 - power) / ((1 - power) * (2 - power))
        - y * mu ** (1 - power) / (1 - power)
        + mu ** (2 - power) / (2 - power)
    )


def minimum(objective):
    """Minimizer of a smooth function of the coefficients and the intercept, by derivatives that differences give."""
    return minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-9, "xrtol": 1e-12}).x


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("base", "y", "power"),
    [
        (PoissonRegressor(alpha=0.3, **TIGHT), COUNTS, 1.0),
        (GammaRegressor(alpha=0.3, **TIGHT), POSITIVE, 2.0),
        (TweedieRegressor(power=1.6, alpha=0.3, **TIGHT), COUNTS, 1.6),
    ],
    ids=["poisson", "gamma", "tweedie"],
)
def test_penalty_is_relative_to_the_mean_deviance(base, y, power, weight):
    """The mean is over sample_weight, not over sample_weight times a power of the exposure."""

    def objective(theta):
        deviance = half_deviance(power, y, np.exp(DESIGN @ theta + LOG_YEARS))
        return np.average(deviance, weights=weight) + 0.3 / 2 * theta[:3] @ theta[:3]

    model = WithOffset(base, exposure="years").fit(NUMBERS, y, sample_weight=weight).estimator_
    np.testing.assert_allclose([*model.coef_, model.intercept_], minimum(objective), atol=2e-6)
    assert model.alpha == 0.3


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("solver", ["newton-cholesky", "lbfgs", "liblinear"])
def test_penalty_of_logistic_regression_is_relative_to_the_sum(solver, weight):
    penalized = 4 if solver == "liblinear" else 3  # liblinear penalizes the intercept

    def objective(theta):
        losses = np.logaddexp(0, np.where(LABELS == "yes", -1, 1) * (DESIGN @ theta + LOG_YEARS))
        return losses @ (np.ones(N) if weight is None else weight) + theta[:penalized] @ theta[:penalized] / 0.04

    base = LogisticRegression(C=0.02, solver=solver, tol=1e-10)
    model = WithOffset(base, exposure="years").fit(NUMBERS, LABELS, sample_weight=weight).estimator_
    np.testing.assert_allclose([*model.coef_[0], *model.intercept_], minimum(objective), atol=2e-6)


@quiet
@pytest.mark.parametrize("name", ["poisson", "binomial"])
def test_frequencies_are_repeated_rows(name):
    base, y, _ = FAMILIES[name]
    base = clone(base).set_params(**({"C": 0.5} if name == "binomial" else {"alpha": 0.1}))
    times = np.repeat(np.arange(N), WEIGHT.astype(int))
    weighted = ribbon(base).fit(NUMBERS, y, sample_weight=WEIGHT)
    repeated = ribbon(base).fit(NUMBERS.iloc[times], y[times])
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-8)


@quiet
@pytest.mark.parametrize("weight_type", ["importance", "exposure"])
def test_importance_weights_equal_rates_with_weights(weight_type):
    weight = rng.uniform(0.5, 2.0, N)
    base = FAMILIES["poisson"][0]
    counts = ribbon(base, correction="HC3", weight_type=weight_type).fit(NUMBERS, COUNTS, sample_weight=weight)
    rates = RibbonRegressor(base, correction="HC3", weight_type="importance")
    rates.fit(FEATURES, COUNTS / YEARS, sample_weight=weight * YEARS)
    np.testing.assert_allclose(counts.covariance_, rates.covariance_, rtol=1e-8)


@quiet
@pytest.mark.parametrize("name", ["poisson", "binomial"])
def test_penalized_errors_equal_a_few_exact_refits(name):
    base, y, _ = FAMILIES[name]
    base = clone(base).set_params(**({"C": 0.05} if name == "binomial" else {"alpha": 0.2}), tol=1e-8)
    fitted, refits = ribbon(base, correction="HC0").fit(NUMBERS, y), []
    for weight in np.random.default_rng(1).dirichlet(np.ones(N), size=100) * N:
        refit = WithOffset(base, exposure="years").fit(NUMBERS, y, sample_weight=weight).estimator_
        refits.append(np.append(refit.coef_, refit.intercept_))
    ratio = np.std(refits, axis=0, ddof=1) / np.sqrt(np.diag(fitted.covariance_))
    assert np.abs(ratio - 1).max() < 4 / np.sqrt(2 * 100)


# ---------------------------------------------------------------------- where the offset comes from
SCALED = make_column_transformer((StandardScaler(), ["a", "b", "c"]), (OneHotEncoder(drop="first"), ["region"]))
KEEPING = make_column_transformer(*[step[1:] for step in SCALED.transformers], ("passthrough", ["years"]))
NAMED = clone(KEEPING).set_params(verbose_feature_names_out=False, sparse_threshold=0)
NAMED.set_params(onehotencoder__sparse_output=False).set_output(transform="pandas")
POISSON = PoissonRegressor(alpha=0.01, **TIGHT)
BINARY = LogisticRegression(C=0.5, **TIGHT)
BESIDE = ColumnTransformer([("exposure", "passthrough", ["years"])], remainder=SCALED)
NESTINGS = {
    "beside a transformer": lambda base: make_pipeline(BESIDE, WithOffset(base, exposure=0)),
    "by position": lambda base: make_pipeline(KEEPING, WithOffset(base, exposure=-1)),
    "by name": lambda base: make_pipeline(NAMED, WithOffset(base, exposure="years")),
    "frozen": lambda base: FrozenEstimator(NESTINGS["by name"](base).fit(TABLE, target(base))),
}


def target(base):
    return LABELS if is_classifier(base) else COUNTS


@pytest.mark.parametrize("base", [POISSON, BINARY], ids=["poisson", "logistic"])
@pytest.mark.parametrize("name", NESTINGS)
def test_nestings_agree(name, base):
    """The reference is fitted to columns that were prepared before, with the offset among them."""
    columns = clone(SCALED).fit_transform(TABLE)
    prepared = np.insert(columns, 2, LOG_YEARS, axis=1)
    kind = RibbonClassifier if is_classifier(base) else RibbonRegressor
    reference = kind(WithOffset(base, offset=2)).fit(prepared, target(base))
    fitted = kind(NESTINGS[name](base)).fit(TABLE, target(base))
    np.testing.assert_allclose(fitted.covariance_, reference.covariance_, rtol=1e-8)
    np.testing.assert_allclose(fitted.model_.theta, reference.model_.theta, rtol=1e-8, atol=1e-12)
    if not is_classifier(base):  # whose probabilities get a temperature
        np.testing.assert_allclose(fitted.predict_distribution(TABLE).latent.f[:, 0], np.log(fitted.predict(TABLE)))
    terms = ["a", "b", "c", "region_south", "region_west", "intercept"]
    assert [term.split("__")[-1] for term in coefficients(fitted)["term"]] == terms


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.coo_array, sparse.csc_array])
@pytest.mark.parametrize("base", [POISSON, LogisticRegression(C=0.5, tol=1e-10)], ids=["poisson", "logistic"])
def test_sparse_rows_equal_dense_rows(base, form):
    X = np.where(NUMBERS > -0.5, NUMBERS, 0.0)
    kind = RibbonClassifier if is_classifier(base) else RibbonRegressor
    dense, other = (kind(WithOffset(base, exposure=1)).fit(A, target(base)) for A in (X, form(X)))
    np.testing.assert_allclose(other.covariance_, dense.covariance_, rtol=1e-6)
    method = "predict_proba_interval" if is_classifier(base) else "predict_interval"
    np.testing.assert_allclose(getattr(other, method)(form(X)), getattr(dense, method)(X), rtol=1e-6)
    assert coefficients(other)["term"].tolist() == ["x0", "x2", "x3", "intercept"]


@pytest.mark.parametrize("base", [POISSON, TweedieRegressor(power=0, **TIGHT), BINARY])
def test_offset_of_zero_gives_the_base_model(base):
    plain, X = clone(base).fit(FEATURES, target(base)), np.insert(FEATURES, 3, 0.0, axis=1)
    model = WithOffset(base, offset=-1).fit(X, target(base))
    np.testing.assert_allclose(model.estimator_.coef_, plain.coef_, rtol=1e-8)
    predicted, expected = model.predict(X), plain.predict(FEATURES)
    if is_classifier(base):
        predicted, expected = model.predict_proba(X), plain.predict_proba(FEATURES)
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(FEATURES), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(predicted, expected, rtol=1e-8)
    np.testing.assert_allclose(model.score(X, target(base)), plain.score(FEATURES, target(base)))


def test_one_column_is_found_by_name_position_and_logarithm():
    expected = WithOffset(POISSON, exposure="years").fit(NUMBERS, COUNTS).predict(NUMBERS)
    for model, X in (
        (WithOffset(POISSON, exposure=1), NUMBERS),
        (WithOffset(POISSON, exposure=-3), NUMBERS.to_numpy()),
        (WithOffset(POISSON, exposure=1), NUMBERS.to_numpy().tolist()),
        (WithOffset(POISSON, offset="years"), NUMBERS.assign(years=LOG_YEARS)),
    ):
        np.testing.assert_allclose(model.fit(X, COUNTS).predict(X), expected, rtol=1e-10)


# ---------------------------------------------------------------------- inspection
def test_inspection_of_counts_and_of_the_exposure():
    fitted = ribbon(POISSON).fit(NUMBERS, COUNTS)
    table = coefficients(fitted)
    assert table["term"].tolist() == ["a", "b", "c", "intercept"]
    mean, J = fitted.predict(NUMBERS), DESIGN * fitted.predict(NUMBERS)[:, None]
    total = predictions(fitted, NUMBERS, aggregate="sum").iloc[0]
    gradient = J.sum(axis=0)
    assert total["estimate"] == pytest.approx(mean.sum())
    assert total["std_error"] == pytest.approx(np.sqrt(gradient @ fitted.covariance_ @ gradient), rel=1e-8)
    along = slopes(fitted, NUMBERS, "a").iloc[0]
    assert along["estimate"] == pytest.approx(table["estimate"][0] * mean.mean(), rel=1e-6)
    along = slopes(fitted, NUMBERS, "years").iloc[0]  # claims per year
    assert along["estimate"] == pytest.approx((mean / YEARS).mean(), rel=1e-6)
    gradient = (J / YEARS[:, None]).mean(axis=0)
    assert along["std_error"] == pytest.approx(np.sqrt(gradient @ fitted.covariance_ @ gradient), rel=1e-4)
    ratio = comparisons(fitted, NUMBERS, "years", values=(1.0, 2.0), transform="ratio").iloc[0]
    assert ratio["estimate"] == pytest.approx(2.0)
    assert ratio["std_error"] < 1e-8


def test_comparisons_of_categories():
    fitted = RibbonRegressor(NESTINGS["by name"](POISSON)).fit(TABLE, COUNTS)
    table = comparisons(fitted, TABLE[TABLE["region"] != "west"], "region", values=("north", "west"), transform="ratio")
    expected = np.exp(coefficients(fitted).set_index("term")["estimate"]["region_west"])
    assert table["estimate"].iloc[0] == pytest.approx(expected, rel=1e-6)


def test_prediction_intervals_of_counts_widen_with_the_exposure():
    fitted = ribbon(POISSON).fit(NUMBERS, COUNTS)
    one, ten = (fitted.predict_interval(NUMBERS.assign(years=years)) for years in (1.0, 10.0))
    assert (ten[:, 1] > one[:, 1]).all()
    assert (one == np.round(one)).all()


# ---------------------------------------------------------------------- scikit-learn's conventions
CHECKED = {
    "poisson": (WithOffset(PoissonRegressor(), offset=0), 60),
    "normal": (WithOffset(TweedieRegressor(power=0), offset=0), 60),
    "logistic": (WithOffset(LogisticRegression(), offset=-1), 64),
}
SENSELESS = {
    "check_fit2d_1feature": "the only column is the offset",
    "check_estimators_empty_data_messages": "there is no column that could be the offset",
    "check_regressors_train": "scores of a model whose offset is a random column",
    "check_classifiers_train": "scores of a model whose offset is a random column",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKED)
def test_check_estimator_passes(name):
    estimator, count = CHECKED[name]
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    sensible = [result for result in results if result["check_name"] not in SENSELESS]
    assert_checked(sensible, count - 5, least=count - 8)  # check_..._train runs three times


@pytest.mark.parametrize("base", [POISSON, BINARY], ids=["poisson", "logistic"])
def test_clone_pickle_and_names(base):
    model = WithOffset(base, exposure="years").fit(NUMBERS, target(base))
    assert list(model.feature_names_in_) == list(NUMBERS)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(NUMBERS), model.predict(NUMBERS))
    assert not hasattr(clone(model), "estimator_")
    assert is_classifier(model) == hasattr(model, "predict_proba") == (not is_regressor(model))
    assert not hasattr(base, "coef_")  # fitted is a clone
    assert model.estimator_.get_params() == base.get_params()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(NUMBERS[["years", "a", "b", "c"]])


@quiet
@pytest.mark.parametrize("base", [POISSON, BINARY], ids=["poisson", "logistic"])
def test_searches_around_the_offset(base):
    strength = "C" if is_classifier(base) else "alpha"
    search = GridSearchCV(WithOffset(base, exposure="years"), {f"estimator__{strength}": [0.1, 1.0]}, cv=3)
    search.fit(NUMBERS, target(base))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    tuned = RibbonCV(WithOffset(base, exposure="years"), alphas=[0.5, 1.0], cv=3).fit(NUMBERS, target(base))
    bounds = tuned.predict_interval(NUMBERS) if not is_classifier(base) else tuned.predict_proba_interval(NUMBERS)
    assert np.isfinite(bounds).all()
    assert not may_be_network(search.estimator)


def test_score_is_the_share_of_explained_deviance():
    model = WithOffset(POISSON, exposure="years").fit(NUMBERS, COUNTS)
    deviances = [
        half_deviance(1, COUNTS, mean) for mean in (model.predict(NUMBERS), np.average(COUNTS, weights=WEIGHT))
    ]
    of_model, of_mean = (np.average(deviance, weights=WEIGHT) for deviance in deviances)
    assert model.score(NUMBERS, COUNTS, WEIGHT) == pytest.approx(1 - of_model / of_mean)
    model = WithOffset(BINARY, exposure="years").fit(NUMBERS, LABELS)
    predicted = model.classes_[model.predict_proba(NUMBERS).argmax(axis=1)]
    assert model.score(NUMBERS, LABELS, WEIGHT) == accuracy_score(LABELS, predicted, sample_weight=WEIGHT)


def test_metadata_routing_passes_weights():
    plain = ribbon(POISSON).fit(NUMBERS, COUNTS, sample_weight=WEIGHT)
    piped = RibbonRegressor(make_pipeline(KEEPING, WithOffset(POISSON, exposure=-1)))
    assert piped.fit(TABLE, COUNTS, sample_weight=WEIGHT).n_observations_ == WEIGHT.sum()
    with sklearn.config_context(enable_metadata_routing=True):
        base = WithOffset(POISSON, exposure="years").set_fit_request(sample_weight=True)
        routed = RibbonRegressor(base).fit(NUMBERS, COUNTS, sample_weight=WEIGHT)
    np.testing.assert_array_equal(routed.covariance_, plain.covariance_)


def test_polish_moves_to_the_minimum_with_the_offset():
    rough = WithOffset(PoissonRegressor(alpha=0.01, tol=0.1), exposure="years").fit(NUMBERS, COUNTS)
    exact = WithOffset(POISSON, exposure="years").fit(NUMBERS, COUNTS).estimator_.coef_
    assert np.abs(rough.estimator_.coef_ - exact).max() > 1e-6
    polished = polish(rough, NUMBERS, COUNTS)
    np.testing.assert_allclose(polished.estimator_.coef_, exact, rtol=1e-8)
    assert np.abs(rough.estimator_.coef_ - exact).max() > 1e-6  # the argument is left alone


# ---------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (WithOffset(Ridge(), offset=1), COUNTS, "does not take Ridge.*PoissonRegressor"),
        (WithOffset(LogisticRegressionCV(), offset=1), LABELS, "does not take LogisticRegressionCV"),
        (WithOffset(logistic(l1_ratio=1.0, solver="saga"), offset=1), LABELS, "without an L1 penalty"),
        (WithOffset(TransformedTargetRegressor(POISSON), offset=1), COUNTS, "TransformedTargetRegressor"),
        (WithOffset(make_pipeline(StandardScaler(), POISSON), offset=1), COUNTS, "around the last step"),
        (WithOffset(TweedieRegressor(power=1.5, link="identity"), offset=1), COUNTS, "link='log' for power=1.5"),
        (WithOffset(POISSON, offset="hours"), COUNTS, "no column 'hours'.*its columns are a, years"),
        (WithOffset(POISSON, exposure=9), COUNTS, "no column 9 for offset or exposure"),
        (WithOffset(POISSON, offset=1, exposure=1), COUNTS, "Set one of"),
        (WithOffset(POISSON), COUNTS, "Set one of"),
        (
            make_pipeline(FunctionTransformer(lambda X: 365 * X), WithOffset(POISSON, offset=1)),
            COUNTS,
            "Try: exposure=",
        ),
        (WithOffset(POISSON, exposure="a"), COUNTS, f"{(FEATURES[:, 0] <= 0).sum()} of 300 exposures are not"),
        (WithOffset(LogisticRegression(), offset=1), GROUP % 3, "Only binary"),
    ],
)
def test_refusals_name_the_cure(model, y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(NUMBERS, y)


def test_missing_offset_is_refused():
    with pytest.raises(ValueError, match="contains NaN"):
        WithOffset(POISSON, exposure="years").fit(NUMBERS.assign(years=np.nan), COUNTS)
    fitted = ribbon(POISSON).fit(NUMBERS, COUNTS)
    with pytest.raises(ValueError, match="300 of 300 exposures are not positive"):
        fitted.predict_interval(NUMBERS.assign(years=0.0))


def test_values_of_the_exposure_and_whole_pipelines_are_refused():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = pd.DataFrame({"x": np.linspace(0.0, 1.0, 30), "years": np.ones(30)})
    with pytest.raises(ValueError, match="name or position of a column of X, not its values"):
        WithOffset(PoissonRegressor(), exposure=table["years"]).fit(table, np.ones(30))
    with pytest.raises(TypeError, match="put WithOffset around the last step"):
        WithOffset(make_pipeline(StandardScaler(), PoissonRegressor()), exposure="years").fit(table, np.ones(30))
