"""Tables of inspection against exact Dirichlet refits, and coverage of true means and totals in simulation."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.inspection import comparisons, partial_dependence, predictions, slopes

N, N_REFITS = 2000, 2000
TIGHT = {"solver": "newton-cholesky", "tol": 1e-7, "max_iter": 500}


def people(n, rng):
    smoker = rng.choice(["no", "sometimes", "yes"], n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame({"age": rng.uniform(20, 70, n), "smoker": smoker, "income": rng.normal(3, 1, n)})


def linear(X):
    return (0.04 * (X["age"] - 45) + 0.8 * (X["smoker"] == "yes") - 0.3 * (X["income"] - 3)).to_numpy()


def columns():
    return make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["smoker"]))


def ridge(X, rng):
    y = linear(X) + rng.normal(size=len(X)) * (0.5 + np.abs(X["income"] - 3))
    return RibbonRegressor(make_pipeline(columns(), Ridge(200.0)), correction="HC0").fit(X, y), y


def classifier(X, rng):
    y = np.where(linear(X) + rng.logistic(size=len(X)) > 0, "ill", "well")
    base = make_pipeline(columns(), LogisticRegression(C=0.05, **TIGHT))
    return RibbonClassifier(base, correction="HC0").fit(X, y), y


def last_of(base, Z):
    """(n,): the mean, or the probability of the last class."""
    return base.predict_proba(Z)[:, -1] if hasattr(base, "predict_proba") else base.predict(Z)


@pytest.mark.parametrize("fit", [ridge, classifier])
def test_standard_errors_equal_exact_refits(fit):
    rng = np.random.default_rng(0)
    X = people(N, rng)
    ribbon, y = fit(X, rng)
    transform, base = ribbon.estimator_[:-1].transform, clone(ribbon.estimator_[-1])
    new, h = people(300, rng), 1e-3
    tables = {
        "mean": predictions(ribbon, new, by="smoker"),
        "difference": comparisons(ribbon, new, "smoker", ("no", "yes")),
        "slope": slopes(ribbon, new, "age"),
        "curve": partial_dependence(ribbon, new, "income", custom_values={"income": [1.0, 5.0]}),
    }
    std = {name: last_class(table, ribbon)["std_error"].to_numpy() for name, table in tables.items()}
    Z = transform(X)
    at = {
        "as they are": transform(new),
        **{value: transform(new.assign(smoker=value)) for value in ("no", "yes")},
        **{side: transform(new.assign(age=new["age"] + side * h)) for side in (-1, 1)},
        **{f"income {value}": transform(new.assign(income=value)) for value in (1.0, 5.0)},
    }
    groups = [(new["smoker"] == value).to_numpy() for value in ("no", "sometimes", "yes")]
    drawn = {name: [] for name in tables}
    for w in rng.dirichlet(np.ones(N), size=N_REFITS):
        base.fit(Z, y, sample_weight=N * w)
        predicted = {name: last_of(base, rows) for name, rows in at.items()}
        drawn["mean"].append([predicted["as they are"][rows].mean() for rows in groups])
        drawn["difference"].append([np.mean(predicted["yes"] - predicted["no"])])
        drawn["slope"].append([np.mean(predicted[1] - predicted[-1]) / (2 * h)])
        drawn["curve"].append([predicted["income 1.0"].mean(), predicted["income 5.0"].mean()])
    for name, draws in drawn.items():
        ratio = np.std(draws, axis=0, ddof=1) / std[name]
        z = np.abs(ratio - 1) * np.sqrt(2 * N_REFITS)
        print(fit.__name__, name, ratio.round(3))
        assert z.max() < 5


def last_class(table, ribbon):
    return table[table["class"] == ribbon.classes_[-1]] if "class" in table else table


def test_intervals_cover_means_totals_and_observed_totals():
    """Simulated counts: true mean, total and comparison of new rows, and the observed total."""
    rng = np.random.default_rng(1)
    n_tables, level = 600, 0.9
    new = people(200, rng)
    truth = np.exp(0.5 * linear(new))
    doubled = [np.exp(0.5 * linear(new.assign(smoker=value))) for value in ("no", "yes")]
    held = {"mean": 0, "total": 0, "observed": 0, "difference": 0, "ratio": 0}
    for _ in range(n_tables):
        X = people(300, rng)
        y = rng.poisson(np.exp(0.5 * linear(X)))
        ribbon = RibbonRegressor(make_pipeline(columns(), PoissonRegressor(alpha=1e-6, **TIGHT))).fit(X, y)
        asked = {
            "mean": (predictions(ribbon, new), truth.mean()),
            "total": (predictions(ribbon, new, aggregate="sum"), truth.sum()),
            "observed": (predictions(ribbon, new, aggregate="sum", kind="prediction"), rng.poisson(truth).sum()),
            "difference": (comparisons(ribbon, new, "smoker", ("no", "yes")), np.mean(doubled[1] - doubled[0])),
            "ratio": (
                comparisons(ribbon, new, "smoker", ("no", "yes"), transform="ratio"),
                doubled[1].mean() / doubled[0].mean(),
            ),
        }
        for name, (table, value) in asked.items():
            held[name] += bool(table["conf_low"].item() <= value <= table["conf_high"].item())
    coverage = {name: count / n_tables for name, count in held.items()}
    print(coverage)
    error = np.sqrt(level * (1 - level) / n_tables)
    assert max(abs(share - level) for share in coverage.values()) < 4 * error


def severities(n, rng, noise, slope):
    """Rows, fitted scale, and the mean and an observation of log-scale models with known noise."""
    X = rng.normal(size=(n, 3))
    f, scale = 8 + X @ [0.5, -0.3, 0.2], (0.6 if noise == "normal" else 0.4) * np.exp(slope * X[:, 0])
    e = rng.normal(size=n) if noise == "normal" else (rng.gamma(4, size=n) - 4) / 2  # mean zero, variance one
    smear = np.exp(scale**2 / 2) if noise == "normal" else np.exp(-2 * scale) * (1 - scale / 2) ** -4.0
    return X, np.exp(f) * smear, np.exp(f + scale * e)


def covered_totals(noise, slope, by_draws):
    """Shares of 600 tables whose 90% intervals cover the totals of 300 new rows."""
    rng, covered = np.random.default_rng(0), {"expected": [], "observed": [], "draws": []}
    for _ in range(600):
        X, _, y = severities(500, rng, noise, slope)
        new, mean, later = severities(300, rng, noise, slope)
        base = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)
        ribbon = RibbonRegressor(base).fit(X, y)
        if by_draws:
            low, high = np.quantile(ribbon.predict_samples(new, 400, random_state=0).sum(axis=1), [0.05, 0.95])
            covered["draws"].append(low <= later.sum() <= high)
            continue
        for name, kind, total in (("expected", "confidence", mean.sum()), ("observed", "prediction", later.sum())):
            (row,) = predictions(ribbon, new, aggregate="sum", kind=kind).itertuples()
            covered[name].append(row.conf_low <= total <= row.conf_high)
    coverage = {name: np.mean(values) for name, values in covered.items() if values}
    print(noise, slope, coverage)
    return coverage.values()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("slope", [0.0, 0.2])
@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_totals_of_log_severities_cover(noise, slope):
    """Expected and observed totals by ``predictions``; the scale of the noise depends on x if slope is positive."""
    assert all(0.87 <= share <= 0.93 for share in covered_totals(noise, slope, by_draws=False))


KNOWN = pytest.mark.xfail(reason="draws take the estimated noise distribution as known: totals are covered too rarely")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("noise", "slope"),
    [
        ("normal", 0.0),
        ("skewed", 0.0),
        pytest.param("normal", 0.2, marks=KNOWN),
        pytest.param("skewed", 0.2, marks=KNOWN),
    ],
)
def test_totals_of_draws_of_log_severities_cover(noise, slope):
    assert all(0.87 <= share <= 0.93 for share in covered_totals(noise, slope, by_draws=True))
