"""Standard errors of claim frequencies on freMTPL2: rates with exposures, counts with an offset, and bootstraps."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.exceptions import WeightWarning
from skribbon.models import WithOffset

sm = pytest.importorskip("statsmodels.api")

N_REFITS = 200
BASE = PoissonRegressor(alpha=0, solver="newton-cholesky", tol=1e-10, max_iter=1000)


def claims():
    """Features, claims and years of 100,000 policies, cleaned as usual; skips without the data."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    file = Path(os.environ.get("SKRIBBON_DATA", beside)) / "counts" / "freMTPL2freq_100k.csv.gz"
    if not file.exists():
        pytest.skip("counts/freMTPL2freq_100k.csv.gz not found: set SKRIBBON_DATA to the folder of benchmark data.")
    table = pd.read_csv(file)
    table["Density"] = np.log(table["Density"])
    table["VehAge"], table["BonusMalus"] = table["VehAge"].clip(upper=20), table["BonusMalus"].clip(upper=150)
    columns = make_column_transformer(
        (StandardScaler(), ["DrivAge", "VehAge", "VehPower", "BonusMalus", "Density"]),
        (OneHotEncoder(drop="first", sparse_output=False), ["VehGas", "Area"]),
    )
    return columns.fit_transform(table), table["ClaimNb"].clip(upper=4).to_numpy(), table["Exposure"].clip(upper=1)


def test_standard_errors_of_claim_frequencies():
    X, counts, years = claims()
    years = years.to_numpy()
    rate, n = counts / years, len(counts)
    ribbon = RibbonRegressor(BASE, weight_type="exposure").fit(X, rate, sample_weight=years)
    error = np.sqrt(np.diag(ribbon.covariance_))

    design = np.column_stack([X, np.ones(n)])
    offset = sm.GLM(counts, design, family=sm.families.Poisson(), offset=np.log(years)).fit(cov_type="HC0")
    np.testing.assert_allclose(error, offset.bse, rtol=0.05)

    rng, refits = np.random.default_rng(0), []
    for _ in range(N_REFITS):
        drawn = years * np.bincount(rng.integers(n, size=n), minlength=n)
        refit = clone(BASE).fit(X, rate, sample_weight=drawn)
        refits.append(np.r_[refit.coef_, refit.intercept_])
    # 200 refits show a single standard error to 5%, and errors of areas, which share a reference, are correlated: the
    # median of the 12 ratios varies from 0.95 to 1.07 between sets of refits. The mean over independent directions is
    # known to 1.5%.
    independent = np.linalg.solve(np.linalg.cholesky(ribbon.covariance_), (refits - np.mean(refits, axis=0)).T)
    assert abs(1 / np.sqrt(np.mean(independent**2) * N_REFITS / (N_REFITS - 1)) - 1) < 0.05
    assert np.abs(error / np.std(refits, axis=0, ddof=1) - 1).max() < 4 / np.sqrt(2 * N_REFITS)

    with pytest.warns(WeightWarning, match="'exposure' for exposures"):
        frequencies = RibbonRegressor(BASE).fit(X, rate, sample_weight=years / years.mean())
    assert np.median(np.sqrt(np.diag(frequencies.covariance_)) / error) > 1.4  # what weights of mean one would give


@pytest.mark.filterwarnings("ignore::skribbon.exceptions.FamilyWarning")
@pytest.mark.parametrize(
    "base",
    [PoissonRegressor(alpha=0.01, solver="newton-cholesky"), LogisticRegression(C=0.05, solver="newton-cholesky")],
    ids=["poisson", "logistic"],
)
def test_penalized_standard_errors_with_an_offset(base):
    """Against 1,000 exact refits with Dirichlet weights; penalties halve the standard errors of rare areas."""
    X, counts, years = claims()
    n, n_refits = 5000, 1000
    X, y = np.column_stack([X, years])[:n], counts[:n]
    logistic = isinstance(base, LogisticRegression)
    kind, y = (RibbonClassifier, (y > 0).astype(int)) if logistic else (RibbonRegressor, y)
    model = WithOffset(base.set_params(tol=1e-8), exposure=-1)
    error = np.sqrt(np.diag(kind(model, correction="HC0").fit(X, y).covariance_))
    rng, refits = np.random.default_rng(0), []
    for _ in range(n_refits):
        refit = clone(model).fit(X, y, sample_weight=n * rng.dirichlet(np.ones(n))).estimator_
        refits.append(np.append(refit.coef_, refit.intercept_))
    ratio = error / np.std(refits, axis=0, ddof=1)
    assert abs(np.median(ratio) - 1) < 0.03
    assert np.abs(ratio - 1).max() < 4 / np.sqrt(2 * n_refits)  # each is known to 2.2%
    free = WithOffset(clone(base).set_params(**({"C": np.inf} if logistic else {"alpha": 0})), exposure=-1)
    assert (np.sqrt(np.diag(kind(free, correction="HC0").fit(X, y).covariance_)) / error).max() > 2
