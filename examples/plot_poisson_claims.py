"""
Claims and exposure
===================

Insurers count claims of policies that ran for different times. How many claims does a
driver cause per year, and how many will a portfolio have? ``WithOffset`` adds the
logarithm of the exposure to the linear predictor of a GLM. scikit-learn's count models
lack this.
"""

# %%
# Policies have the columns of freMTPL2, a French portfolio. They are simulated here. To
# use the real ones, set the environment variable ``SKRIBBON_DATA`` to a folder with
# ``counts/freMTPL2freq_100k.csv.gz``.
import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from skribbon import RibbonRegressor
from skribbon.exceptions import WeightWarning
from skribbon.inspection import coefficients, predictions
from skribbon.models import WithOffset


def policies(n=20_000, seed=0):
    folder = Path(os.environ.get("SKRIBBON_DATA", "no folder"))
    file = folder / "counts" / "freMTPL2freq_100k.csv.gz"
    if file.exists():
        table = pd.read_csv(file).sample(frac=1, random_state=0)  # the order tells
        return table.assign(Exposure=table["Exposure"].clip(upper=1))
    rng, table = np.random.default_rng(seed), pd.DataFrame()
    table["DrivAge"] = 18 + rng.gamma(2.5, 10, n)
    table["BonusMalus"] = 50 + rng.gamma(0.5, 20, n)
    table["VehGas"] = rng.choice(["Diesel", "Regular"], n)
    table["Area"] = rng.choice(list("ABCDE"), n)
    table["Exposure"] = np.where(rng.random(n) < 0.3, 1.0, rng.uniform(0.02, 1, n))
    log_rate = 0.02 * (table["BonusMalus"] - 50) + 8 / table["DrivAge"] - 2.5
    rate = np.exp(log_rate + 0.1 * (table["Area"] == "E"))
    return table.assign(ClaimNb=rng.poisson(table["Exposure"] * rng.gamma(2, rate / 2)))


table = policies()
columns = ["DrivAge", "BonusMalus", "VehGas", "Area", "Exposure"]
train, test = table[columns][::2], table[columns][1::2]
claims, test_claims = table["ClaimNb"][::2], table["ClaimNb"][1::2]

# %%
# WithOffset is the last step. The transformers before it pass the exposure through,
# here as the last column.
others = [
    (SplineTransformer(4, degree=2, knots="quantile", include_bias=False), ["DrivAge"]),
    (StandardScaler(), ["BonusMalus"]),
    (OneHotEncoder(drop="first", sparse_output=False), ["VehGas", "Area"]),
]
prepare = make_column_transformer(
    *others, ("passthrough", ["Exposure"]), verbose_feature_names_out=False
)
poisson = PoissonRegressor(alpha=0, solver="newton-cholesky")
model = make_pipeline(prepare, WithOffset(poisson, exposure=-1))
ribbon = RibbonRegressor(model).fit(train, claims)
ratios = coefficients(ribbon, exponentiate=True)  # the offset has no coefficient
shown = ratios[["term", "estimate", "conf_low", "conf_high"]].iloc[-7:-1]
print(shown.round(3).to_string(index=False))

# %%
# Predictions are for the exposure of each row. For claims per year, set the exposure to
# one.
years = test["Exposure"][:4].round(2).tolist()
print(ribbon.predict(test[:4]).round(3), "claims in", years, "years")
one_year = test[:4].assign(Exposure=1.0)
interval = ribbon.predict_interval(one_year, kind="confidence")
print(interval.round(3), "claims per year")

# %%
# The alternative models claims per year, with the exposure as ``sample_weight``. Set
# ``weight_type="exposure"``: a policy is one observation, however long it ran.
# Coefficients and standard errors are then the same. Taken as frequencies, a policy
# counts by its exposure, and standard errors depend on the unit of time. Ratios of
# standard errors:
rates = make_pipeline(make_column_transformer(*others), poisson)
warnings.simplefilter("ignore", WeightWarning)  # raised for "frequency"
for weight_type, unit in (("exposure", 1), ("frequency", 1), ("frequency", 365)):
    weighted = RibbonRegressor(rates, weight_type=weight_type)
    time = train["Exposure"]
    weighted.fit(train, claims / time, sample_weight=unit * time)
    ratio = np.sqrt(np.diag(weighted.covariance_) / np.diag(ribbon.covariance_))
    print(f"{weight_type:9} in units of 1/{unit:<3} year: ", end="")
    print(f"{ratio.min():.2f} to {ratio.max():.2f}")

# %%
# Top: claims per year by age. Bottom: observed claims of policies that the model has
# not seen, relative to their prediction, with 90% intervals.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 1, figsize=(5.6, 6.6))
ages = pd.DataFrame({"DrivAge": np.arange(20, 76)})
driver = ages.assign(BonusMalus=50, VehGas="Diesel", Area="C", Exposure=1.0)
band = ribbon.predict_interval(driver, kind="confidence").T
axes[0].fill_between(driver["DrivAge"], *band, color="C0", alpha=0.4, lw=0)
axes[0].plot(driver["DrivAge"], ribbon.predict(driver), "C0", lw=2)
axes[0].set(xlabel="age of the driver in years", ylim=(0, None))
axes[0].set_ylabel("claims per year, with 90% band")
axes[0].set_title("From 30 on, the rate falls with age")
totals = predictions(ribbon, test, by="Area", aggregate="sum", kind="prediction")
totals = totals.set_index("term")
low, high = (totals[name] / totals["estimate"] for name in ("conf_low", "conf_high"))
axes[1].vlines(totals.index, low, high, color="C0", alpha=0.4, lw=8)
observed = test_claims.groupby(test["Area"]).sum() / totals["estimate"]
axes[1].plot(observed.index, observed, "C1o")
axes[1].axhline(1, color="0.3", lw=0.8)
inside = ((low <= observed) & (observed <= high)).sum()
axes[1].set_title(f"{inside} of {len(observed)} totals are in their intervals")
axes[1].set(xlabel="area", ylabel="observed / predicted claims")

# %%
# Next: models that you write as a function,
# :ref:`sphx_glr_auto_examples_plot_own_model.py`.
