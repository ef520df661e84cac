"""Standard errors of claim frequencies on freMTPL2: rates with exposures, counts with an offset, and a bootstrap."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import PoissonRegressor
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonRegressor
from skribbon.exceptions import WeightWarning

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
